//! Tables, comparisons and selection.

use super::{
    Engine, IntegerArray, IntegerRange, PlainIntegers, bootstrap::TOGETHER, layout::Values,
};
use crate::array::{ArrayError, Result};
use core::ops::Range;
#[cfg(doc)]
use sudare::Error;
use sudare::{
    circuits::exact::{Tables, sim},
    exact::{Ciphertext, Form},
};

const OP: &str = "table";

/// An operand of a comparison or a selection.
#[derive(Debug, Clone)]
pub enum Operand {
    /// Encrypted.
    Encrypted(IntegerArray),
    /// In the clear for the machine that computes.
    Plain(PlainIntegers),
}

/// A comparison of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `a < b`.
    Less,
    /// `a <= b`.
    LessEqual,
    /// `a > b`.
    Greater,
    /// `a >= b`.
    GreaterEqual,
    /// `a == b`.
    Equal,
    /// `a != b`.
    NotEqual,
}

impl Engine {
    /// Returns the integers of the range of an array, in ascending order.
    ///
    /// # Errors
    /// [`ArrayError::TableRange`] for more than [`Tables::MAX_POINTS`] integers.
    pub fn table_points(&self, a: &IntegerArray) -> Result<Vec<i64>> {
        self.check_points(OP, a.range.ends())?;
        Ok((a.range.low..=a.range.high).collect())
    }

    /// Returns functions of each element, each given by its values for the integers of
    /// [`IntegerArray::range`] in ascending order. A range of `n` integers takes `ceil(log2(n))`
    /// levels. All functions share the powers of the elements.
    ///
    /// # Errors
    /// [`ArrayError::TableRange`] for a range of more than [`Tables::MAX_POINTS`] integers;
    /// [`ArrayError::Argument`] for a function with another number of values;
    /// [`Error::ValueOutOfRange`]; [`Error::LevelExhausted`]; the errors of [`Engine::mul`].
    pub fn tables(&self, a: &IntegerArray, functions: &[Vec<i64>]) -> Result<Vec<IntegerArray>> {
        self.check(a)?;
        let t = self.setting.modulus();
        let points: Vec<i128> = self.table_points(a)?.into_iter().map(i128::from).collect();
        let needed = points.len();
        for values in functions {
            if values.len() != needed {
                let problem = format!(
                    "{} values for elements that are known to be {}: pass one value for each of \
                     these {needed} integers",
                    values.len(),
                    a.range
                );
                return Err(ArrayError::Argument { op: OP, problem });
            }
            PlainIntegers::new(&[values.len()], values.clone()).check(t, Values::Any)?;
        }
        let values = |f: &Vec<i64>| f.iter().map(|&y| y.into()).collect();
        let tables = Tables::new(t, &points, &functions.iter().map(values).collect::<Vec<_>>())?;
        let ranges: Vec<_> = functions.iter().map(|f| IntegerRange::of(f)).collect();
        self.looked_up(OP, a, &tables, &ranges)
    }

    /// Compares element by element. Results are 1 where the comparison holds, and 0 elsewhere. They
    /// are polynomials of the elements if one operand is a scalar in the clear, and of the
    /// differences otherwise. Equality of elements in a range of more than [`Tables::MAX_POINTS`]
    /// differences is the power `t - 1`, which takes `ceil(log2(t - 1))` levels.
    ///
    /// # Errors
    /// [`ArrayError::TableRange`] for elements or differences in too large a range;
    /// [`ArrayError::Argument`] for two plain operands; the errors of [`Engine::tables`] and
    /// [`Engine::sub`].
    pub fn compare(
        &self,
        a: &Operand,
        comparison: Comparison,
        b: &Operand,
    ) -> Result<IntegerArray> {
        match comparison {
            Comparison::Less => self.ordered(a, b, true),
            Comparison::Greater => self.ordered(b, a, true),
            Comparison::LessEqual => self.ordered(b, a, false),
            Comparison::GreaterEqual => self.ordered(a, b, false),
            Comparison::Equal => self.equal(a, b, true),
            Comparison::NotEqual => self.equal(a, b, false),
        }
    }

    /// Returns `a` where the mask is 1, and `b` where it is 0. This takes a level.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] for a mask that may have other elements than 0 and 1; the errors of
    /// [`Engine::mul`].
    pub fn select(&self, mask: &IntegerArray, a: &Operand, b: &Operand) -> Result<IntegerArray> {
        if mask.range.low < 0 || mask.range.high > 1 {
            let problem = format!(
                "a mask with elements {}: use the result of a comparison, or promise 0 and 1",
                mask.range
            );
            return Err(ArrayError::Argument { op: "select", problem });
        }
        let added = |product: IntegerArray| match b {
            Operand::Encrypted(b) => self.add(&product, b),
            Operand::Plain(b) => self.add_plain(&product, b),
        };
        let product = match (a, b) {
            (Operand::Encrypted(a), Operand::Encrypted(b)) => self.mul(mask, &self.sub(a, b)?),
            (Operand::Encrypted(a), Operand::Plain(b)) => {
                self.mul(mask, &self.add_plain(a, &b.negated())?)
            }
            (Operand::Plain(a), Operand::Encrypted(b)) => {
                self.mul(mask, &self.add_plain(&self.neg(b)?, a)?)
            }
            (Operand::Plain(a), Operand::Plain(b)) => {
                self.mul_plain_array(mask, &self.plain_difference(a, b)?)
            }
        }?;
        let [low, high] = a.range().hull(b.range()).ends();
        Ok(self.ranged(added(product)?, [low, high]))
    }

    /// Returns 1 where `(a < b) == holds`, and 0 elsewhere.
    fn ordered(&self, a: &Operand, b: &Operand, holds: bool) -> Result<IntegerArray> {
        const OP: &str = "compare";
        match (a, b) {
            (Operand::Encrypted(a), Operand::Encrypted(b)) => {
                let ends = a.range.extremes(b.range, |x, y| x - y);
                self.check_points(OP, ends)?;
                self.step(&self.sub(a, b)?, ends, 0, holds)
            }
            (Operand::Encrypted(a), Operand::Plain(b)) => self.below(a, b, 0, holds),
            // `c < x` where `x < c + 1` does not hold.
            (Operand::Plain(a), Operand::Encrypted(b)) => self.below(b, a, 1, !holds),
            (Operand::Plain(_), Operand::Plain(_)) => Err(in_the_clear(OP)),
        }
    }

    /// Returns 1 where `(x < c + more) == holds`, and 0 elsewhere.
    fn below(
        &self,
        x: &IntegerArray,
        c: &PlainIntegers,
        more: i128,
        holds: bool,
    ) -> Result<IntegerArray> {
        const OP: &str = "compare";
        let [low, high] = x.range.ends();
        // Thresholds beyond both ends compare alike.
        let at = |c: i64| (i128::from(c) + more).clamp(low, high + 1);
        self.check_points(OP, [low, high])?;
        if let Some(c) = c.scalar_for(x.shape()) {
            return self.step(x, [low, high], at(c), holds);
        }
        let minus: Vec<i128> = c.values.iter().map(|&c| -at(c)).collect();
        let [least, most] = extremes(&minus);
        let ends = [low + least, high + most];
        self.check_points(OP, ends)?;
        let difference = self.add_plain(x, &self.plain_residues(&c.shape, &minus))?;
        self.step(&difference, ends, 0, holds)
    }

    /// Returns 1 where `(x == y) == holds`, and 0 elsewhere.
    fn equal(&self, a: &Operand, b: &Operand, holds: bool) -> Result<IntegerArray> {
        const OP: &str = "compare";
        match (a, b) {
            (Operand::Encrypted(a), Operand::Encrypted(b)) => {
                let ends = a.range.extremes(b.range, |x, y| x - y);
                self.check_equal(OP, ends, a.level().min(b.level()).0)?;
                self.indicator(&self.sub(a, b)?, ends, 0, holds)
            }
            (Operand::Encrypted(x), Operand::Plain(c))
            | (Operand::Plain(c), Operand::Encrypted(x)) => {
                let [low, high] = x.range.ends();
                self.check_equal(OP, [low, high], x.level().0)?;
                // Numbers outside of the range differ from all elements, as this one does.
                let none = high + 1;
                let at = |&c: &i64| match i128::from(c) {
                    c if low <= c && c <= high => c,
                    _ => none,
                };
                let places: Vec<i128> = c.values.iter().map(at).collect();
                if let (Some(_), [at]) = (c.scalar_for(x.shape()), &places[..]) {
                    return self.indicator(x, [low, high], *at, holds);
                }
                let minus: Vec<i128> = places.iter().map(|c| -c).collect();
                let [least, most] = extremes(&minus);
                let ends = [low + least, high + most];
                self.check_equal(OP, ends, x.level().0)?;
                let difference = self.add_plain(x, &self.plain_residues(&c.shape, &minus))?;
                self.indicator(&difference, ends, 0, holds)
            }
            (Operand::Plain(_), Operand::Plain(_)) => Err(in_the_clear(OP)),
        }
    }

    /// Rejects integers between two ends that are too many for a table, or that are not all
    /// different modulo the prime.
    fn check_points(&self, op: &'static str, [low, high]: [i128; 2]) -> Result<()> {
        let most = (Tables::MAX_POINTS as u128).min(self.setting.modulus().prime().into());
        let count = (high - low + 1).unsigned_abs();
        match count <= most {
            true => Ok(()),
            false => Err(ArrayError::TableRange { op, low, high, count, most }),
        }
    }

    /// Rejects differences that can be compared with 0 neither by a table nor by a power, at this
    /// level.
    fn check_equal(&self, op: &'static str, ends: [i128; 2], level: u32) -> Result<()> {
        let enough = self.setting.bootstrapping().is_some() || level >= self.fermat_depth();
        match self.check_points(op, ends) {
            Err(_) if self.setting.modulus().exponent() == 1 && enough => Ok(()),
            result => result,
        }
    }

    /// Levels of the power `t - 1`.
    fn fermat_depth(&self) -> u32 {
        u128::BITS - (self.setting.modulus().value() - 2).leading_zeros()
    }

    /// Returns 1 where `(x < at) == holds`, and 0 elsewhere, for integers between two ends.
    fn step(
        &self,
        x: &IntegerArray,
        [low, high]: [i128; 2],
        at: i128,
        holds: bool,
    ) -> Result<IntegerArray> {
        // With equal numbers of integers on both sides, the step is odd about its place.
        let half = (at - low).max(high + 1 - at);
        let symmetric = [at - half, at + half - 1];
        self.cheaper(x, [[low, high], symmetric], |x| (x < at) == holds)
    }

    /// Returns 1 where `(x == at) == holds`, and 0 elsewhere, for integers between two ends.
    fn indicator(
        &self,
        x: &IntegerArray,
        [low, high]: [i128; 2],
        at: i128,
        holds: bool,
    ) -> Result<IntegerArray> {
        if self.check_points(OP, [low, high]).is_err() {
            // By Fermat's theorem, the power is 0 for 0 and 1 otherwise.
            let t = self.setting.modulus();
            let difference = match at {
                0 => x.clone(),
                _ => self.add_plain(x, &self.plain_residues(&[], &[-at]))?,
            };
            // A modulus of arrays is below 2^62, so the cast keeps the value.
            let differs = self.power(&difference, (t.value() - 1) as u64)?;
            let differs = self.ranged(differs, [0, 1]);
            return match holds {
                true => self.add_plain(&self.neg(&differs)?, &PlainIntegers::scalar(1)),
                false => Ok(differs),
            };
        }
        let half = (at - low).max(high - at);
        self.cheaper(x, [[low, high], [at - half, at + half]], |x| (x == at) == holds)
    }

    /// Returns a function of 0 and 1, by the table that needs fewer levels, and then fewer
    /// relinearisations. All integers between two ends are the points of a table. The second table
    /// has more points, and more symmetry.
    fn cheaper(
        &self,
        x: &IntegerArray,
        [own, symmetric]: [[i128; 2]; 2],
        f: impl Fn(i128) -> bool,
    ) -> Result<IntegerArray> {
        const OP: &str = "compare";
        let table = |[low, high]: [i128; 2]| self.mask_table((low..=high).collect(), &f);
        let mut tables = table(own)?;
        if own != symmetric && self.check_points(OP, symmetric).is_ok() {
            let other = table(symmetric)?;
            let cost = |tables: &Tables| (tables.depth(), tables.relinearizations());
            if cost(&other) < cost(&tables) {
                tables = other;
            }
        }
        self.mask(OP, x, &tables)
    }

    /// Returns 1 where a condition holds, and 0 elsewhere, for elements that are all in `points`.
    pub(super) fn indicated(
        &self,
        op: &'static str,
        x: &IntegerArray,
        points: Range<i128>,
        holds: impl Fn(i128) -> bool,
    ) -> Result<IntegerArray> {
        let tables = self.mask_table(points.collect(), holds)?;
        self.mask(op, x, &tables)
    }

    fn mask_table(&self, points: Vec<i128>, holds: impl Fn(i128) -> bool) -> Result<Tables> {
        let values = points.iter().map(|&x| holds(x).into()).collect();
        Ok(Tables::new(self.setting.modulus(), &points, &[values])?)
    }

    fn mask(&self, op: &'static str, x: &IntegerArray, table: &Tables) -> Result<IntegerArray> {
        Ok(self.looked_up(op, x, table, &[IntegerRange { low: 0, high: 1 }])?.remove(0))
    }

    /// Evaluates tables, with values in these ranges.
    fn looked_up(
        &self,
        op: &'static str,
        a: &IntegerArray,
        tables: &Tables,
        ranges: &[IntegerRange],
    ) -> Result<Vec<IntegerArray>> {
        let params = self.setting.params();
        let chain = params.chain(self.setting.modulus())?;
        let keys = self.setting.required_keys()?;
        let at_zero = tables.evaluate(0);
        self.where_all_fit(op, [a], tables.depth(), |[a]| {
            let factor = |level| self.setting.factor(level);
            let plan = tables.plan(&chain, a.level(), factor(a.level())?, factor)?;
            // The bounds of errors are known before anything is computed.
            let forms = a.blocks.iter().map(Ciphertext::form);
            let louder = |a: &Form, b: &Form| a.noise.log2().total_cmp(&b.noise.log2());
            if let Some(worst) = forms.max_by(louder) {
                let results = plan.run(&sim::Evaluator::new(params, &keys), &worst)?;
                results.into_iter().try_for_each(|form| self.setting.check_refreshable(form))?;
            }
            let mut blocks = vec![Vec::with_capacity(a.blocks.len()); ranges.len()];
            for part in a.blocks.chunks(TOGETHER) {
                for (all, some) in blocks.iter_mut().zip(plan.run_many(self.exact(), part)?) {
                    all.extend(some);
                }
            }
            let result = |(i, blocks): (usize, Vec<Ciphertext>)| {
                let padding_is_zero = a.padding_is_zero() && at_zero[i] == 0;
                let found = IntegerArray { blocks: blocks.into(), padding_is_zero, ..a.clone() };
                self.ranged(found, ranges[i].ends())
            };
            Ok(blocks.into_iter().enumerate().map(result).collect())
        })
    }

    /// Returns a plain array of the residues of integers.
    fn plain_residues(&self, shape: &[usize], values: &[i128]) -> PlainIntegers {
        let t = self.setting.modulus();
        // Residues are words, as moduli of arrays are below 2^62.
        PlainIntegers::new(
            shape,
            values.iter().map(|&x| t.centered(t.reduce_i128(x)) as i64).collect(),
        )
    }

    /// Returns the difference of two plain arrays of one shape, or of one and a scalar.
    fn plain_difference(&self, a: &PlainIntegers, b: &PlainIntegers) -> Result<PlainIntegers> {
        let t = self.setting.modulus();
        a.check(t, Values::Any)?;
        b.check(t, Values::Any)?;
        let shape = super::layout::broadcast("select", &a.shape, &b.shape)?;
        let a = a.residues(t, &shape);
        let b = b.residues(t, &shape);
        let values = a.iter().zip(&b).map(|(&a, &b)| t.centered(t.sub(a, b)) as i64);
        Ok(PlainIntegers::new(&shape, values.collect()))
    }
}

impl Operand {
    fn range(&self) -> IntegerRange {
        match self {
            Self::Encrypted(a) => a.range,
            Self::Plain(a) => IntegerRange::of(&a.values),
        }
    }
}

/// Returns the lowest and the highest of some integers.
fn extremes(values: &[i128]) -> [i128; 2] {
    let low = values.iter().copied().min().unwrap_or(0);
    let high = values.iter().copied().max().unwrap_or(0);
    [low, high]
}

fn in_the_clear(op: &'static str) -> ArrayError {
    let problem = "both operands are in the clear: encrypt one of them, or use NumPy".into();
    ArrayError::Argument { op, problem }
}

#[cfg(test)]
mod tests;
