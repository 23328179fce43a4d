//! Elementwise sums, products and polynomials.

use super::{
    Engine, Evaluator, IntegerArray, IntegerRange, Leveled as _, PlainIntegers,
    layout::{Values, broadcast},
};
use crate::array::{ArrayError, Result};
use std::collections::BTreeMap;
use sudare::{
    Error,
    circuits::exact::PolynomialPlan,
    exact::{Ciphertext, PlainPoly},
    rlwe::Level,
};

/// Maximum magnitude of scalars that multiply without a level. They multiply the errors instead.
pub(super) const SMALL: u128 = 16;

impl Engine {
    /// Returns an array repeated to `shape`, if it has one element.
    fn broadcast(
        &self,
        op: &'static str,
        a: &IntegerArray,
        shape: &[usize],
    ) -> Result<IntegerArray> {
        let layout = a.layout.repeated(op, self.setting.layout(shape)?)?;
        if layout.elements() == a.layout.elements() {
            return Ok(IntegerArray { layout, ..a.clone() });
        }
        // The one element is in all slots, so it is also beyond the last element of the new shape.
        let blocks = vec![a.blocks[0].clone(); layout.blocks()].into();
        Ok(IntegerArray { layout, blocks, padding_is_zero: false, range: a.range })
    }

    /// Returns both arrays in their common shape.
    fn paired(
        &self,
        op: &'static str,
        a: &IntegerArray,
        b: &IntegerArray,
    ) -> Result<(IntegerArray, IntegerArray)> {
        let shape = broadcast(op, a.shape(), b.shape())?;
        Ok((self.broadcast(op, a, &shape)?, self.broadcast(op, b, &shape)?))
    }

    /// Returns an array in its common shape with a plain array, and the encoded blocks of the
    /// latter.
    fn encoded(
        &self,
        op: &'static str,
        a: &IntegerArray,
        plain: &PlainIntegers,
    ) -> Result<(IntegerArray, Vec<PlainPoly>)> {
        let t = self.setting.modulus();
        plain.check(t, Values::Any)?;
        let shape = broadcast(op, a.shape(), &plain.shape)?;
        let a = self.broadcast(op, a, &shape)?;
        let residues = plain.residues(t, &shape);
        let block = |block| self.setting.encode(&a.layout.scattered(block, &residues));
        let plains = (0..a.layout.blocks()).map(block).collect::<sudare::Result<_>>()?;
        Ok((a, plains))
    }

    /// Combines two arrays block by block.
    fn zipped<B>(
        a: &IntegerArray,
        b: &[B],
        op: impl Fn(&Ciphertext, &B) -> sudare::Result<Ciphertext>,
    ) -> Result<IntegerArray> {
        let mut others = b.iter();
        let mut next = || others.next();
        a.map(|block| match next() {
            Some(other) => op(block, other),
            None => Err(Error::Circuit("arrays have different numbers of blocks".into())),
        })
    }

    fn summed(
        &self,
        op: &'static str,
        a: &IntegerArray,
        b: &IntegerArray,
        sum: impl Fn(&Ciphertext, &Ciphertext) -> sudare::Result<Ciphertext>,
    ) -> Result<IntegerArray> {
        let (a, b) = self.paired(op, a, b)?;
        let padding_is_zero = a.padding_is_zero() && b.padding_is_zero();
        self.where_it_fits(op, [&a, &b], 0, |[a, b]| {
            Ok(IntegerArray { padding_is_zero, ..Self::zipped(&a, &b.blocks, &sum)? })
        })
    }

    /// Returns the sum.
    ///
    /// # Errors
    /// [`ArrayError::Shapes`], [`ArrayError::Argument`] for shapes that do not match;
    /// [`Error::NoiseExhausted`]; [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn add(&self, a: &IntegerArray, b: &IntegerArray) -> Result<IntegerArray> {
        let ends = a.range.extremes(b.range, |x, y| x + y);
        Ok(self.ranged(self.summed("add", a, b, |x, y| self.exact().add(x, y))?, ends))
    }

    /// Returns the difference.
    ///
    /// # Errors
    /// The errors of [`Engine::add`].
    pub fn sub(&self, a: &IntegerArray, b: &IntegerArray) -> Result<IntegerArray> {
        let ends = a.range.extremes(b.range, |x, y| x - y);
        Ok(self.ranged(self.summed("subtract", a, b, |x, y| self.exact().sub(x, y))?, ends))
    }

    /// Returns the negative.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn neg(&self, a: &IntegerArray) -> Result<IntegerArray> {
        let [low, high] = a.range.ends();
        Ok(self.ranged(a.map(|block| self.exact().neg(block))?, [-high, -low]))
    }

    /// Returns the sum with a plain array.
    ///
    /// # Errors
    /// [`Error::ValueOutOfRange`] for values of magnitude `t` or more; the errors of
    /// [`Engine::add`].
    pub fn add_plain(&self, a: &IntegerArray, b: &PlainIntegers) -> Result<IntegerArray> {
        const OP: &str = "add a plain array";
        if let Some(c) = self.scalar(a, b)? {
            // Adding 0 leaves zeros beyond the last element.
            let padding_is_zero = a.padding_is_zero() && c == 0;
            let sum = self
                .where_it_fits(OP, [a], 0, |[a]| a.map(|block| self.exact().add_const(block, c)))?;
            let [low, high] = a.range.ends();
            return Ok(IntegerArray { padding_is_zero, ..self.ranged(sum, [low + c, high + c]) });
        }
        let (a, plains) = self.encoded(OP, a, b)?;
        // A plain array is 0 beyond its last element, so the slots there stay as they are.
        let sum = self.where_it_fits(OP, [&a], 0, |[a]| {
            Self::zipped(&a, &plains, |block, plain| self.exact().add_plain(block, plain))
        })?;
        Ok(self.ranged(sum, a.range.extremes(Self::plain_range(b), |x, y| x + y)))
    }

    /// Returns the product, one level below.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] at level 0; [`Error::MissingRelinearizationKey`]; the errors of
    /// [`Engine::add`].
    pub fn mul(&self, a: &IntegerArray, b: &IntegerArray) -> Result<IntegerArray> {
        const OP: &str = "multiply";
        let (a, b) = self.paired(OP, a, b)?;
        // Zero in one factor is enough.
        let padding_is_zero = a.padding_is_zero() || b.padding_is_zero();
        let ends = match a.blocks.is(&b.blocks) {
            true => power_ends(a.range, 2),
            false => a.range.extremes(b.range, |x, y| x * y),
        };
        let product = self.where_it_fits(OP, [&a, &b], 1, |[a, b]| {
            let product = Self::zipped(&a, &b.blocks, |x, y| match &self.evaluator {
                Evaluator::Bgv(evaluator) => evaluator.mul_rescale(x, y),
                Evaluator::Bfv(evaluator) => evaluator.mul_rescale(x, y),
            })?;
            Ok(IntegerArray { padding_is_zero, ..product })
        })?;
        Ok(self.ranged(product, ends))
    }

    /// Returns the product with a plain array, one level below. A product with a scalar of
    /// magnitude at most 16 stays at the same level.
    ///
    /// # Errors
    /// The errors of [`Engine::add_plain`]; [`Error::LevelExhausted`].
    pub fn mul_plain_array(&self, a: &IntegerArray, b: &PlainIntegers) -> Result<IntegerArray> {
        if let Some(c) = self.scalar(a, b)? {
            let product = self.mul_scalar(a, c)?;
            return Ok(self.ranged(product, a.range.extremes(Self::plain_range(b), |x, y| x * y)));
        }
        const OP: &str = "multiply by a plain array";
        let (a, plains) = self.encoded(OP, a, b)?;
        let product = self.where_it_fits(OP, [&a], 1, |[a]| {
            Self::zipped(&a, &plains, |block, plain| Ok(self.mul_plain(&[block], plain)?.remove(0)))
        })?;
        // Slots beyond the last element were multiplied by zero.
        let product = self.ranged(product, a.range.extremes(Self::plain_range(b), |x, y| x * y));
        Ok(IntegerArray { padding_is_zero: true, ..product })
    }

    fn mul_scalar(&self, a: &IntegerArray, c: i128) -> Result<IntegerArray> {
        let direct = || {
            let product = a.map(|block| self.exact().mul_const(block, c))?;
            self.check_refreshable(&product)?;
            Ok(product)
        };
        let t = self.setting.modulus();
        // At level 0 there is no level to spend, so any scalar multiplies the errors there.
        if t.centered(t.reduce_i128(c)).unsigned_abs() <= SMALL || a.level() == Level(0) {
            match direct() {
                // No room for larger errors: the product takes a level instead.
                Err(ArrayError::Library(Error::NoiseExhausted { .. })) if a.level() > Level(0) => {}
                result => return result,
            }
        }
        const OP: &str = "multiply by a scalar";
        self.where_it_fits(OP, [a], 1, |[a]| {
            let factor = self.setting.weight_factor(OP, a.level())?;
            a.map(|block| {
                let mut product = self.exact().mul_scaled_sum(&[(block, c, factor)])?;
                self.exact().rescale_assign(&mut product)?;
                Ok(product)
            })
        })
    }

    /// Returns the only value of a plain operand that does not change the shape of `a`.
    fn scalar(&self, a: &IntegerArray, plain: &PlainIntegers) -> Result<Option<i128>> {
        plain.check(self.setting.modulus(), Values::Any)?;
        Ok(plain.scalar_for(a.shape()).map(i128::from))
    }

    /// Returns the power of each element, `ceil(log2(exponent))` levels below.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] for the exponent 0; the errors of [`Engine::mul`].
    pub fn power(&self, a: &IntegerArray, exponent: u64) -> Result<IntegerArray> {
        if exponent == 0 {
            let problem = "the power 0 of every element is 1: use an exponent of 1 or more";
            return Err(ArrayError::Argument { op: "power", problem: problem.into() });
        }
        self.check(a)?;
        // Rejected before anything is computed.
        let needed = u64::BITS - (exponent - 1).leading_zeros();
        let level = a.level();
        if self.setting.bootstrapping().is_none() && level.0 < needed {
            return Err(Error::LevelExhausted { op: "power", needed, level }.into());
        }
        let mut powers = BTreeMap::from([(1, a.clone())]);
        let power = self.power_of(&mut powers, exponent)?;
        Ok(self.ranged(power, power_ends(a.range, exponent)))
    }

    /// Adds power `exponent`, and the powers that it is a product of, to `powers`.
    fn power_of(
        &self,
        powers: &mut BTreeMap<u64, IntegerArray>,
        exponent: u64,
    ) -> Result<IntegerArray> {
        if let Some(known) = powers.get(&exponent) {
            return Ok(known.clone());
        }
        // Halves have the least depth. The map keeps powers that both halves need.
        let high = self.power_of(powers, exponent.div_ceil(2))?;
        let low = self.power_of(powers, exponent / 2)?;
        let power = self.mul(&high, &low)?;
        powers.insert(exponent, power.clone());
        Ok(power)
    }

    /// Evaluates `sum_n coeffs[n] x^n` at each element, `ceil(log2(degree + 1))` levels below.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] without coefficients; [`Error::ValueOutOfRange`];
    /// [`Error::LevelExhausted`]; the errors of [`Engine::mul`].
    pub fn polynomial(&self, a: &IntegerArray, coeffs: &[i64]) -> Result<IntegerArray> {
        const OP: &str = "polynomial";
        let t = self.setting.modulus();
        let Some(&constant) = coeffs.first() else {
            let problem = "there are no coefficients: pass one or more, from degree 0 up";
            return Err(ArrayError::Argument { op: OP, problem: problem.into() });
        };
        PlainIntegers::new(&[coeffs.len()], coeffs.to_vec()).check(t, Values::Any)?;
        let coeffs: Vec<i128> = coeffs.iter().map(|&c| c.into()).collect();
        let is_zero = |c: &i128| t.reduce_i128(*c) == 0;
        // A multiple of the modulus counts as 0, so it raises neither degree nor depth.
        let degree = coeffs.iter().rposition(|c| !is_zero(c)).unwrap_or(0);
        let chain = self.setting.params().chain(t)?;
        let depth = usize::BITS - degree.leading_zeros();
        let value = self.where_it_fits(OP, [a], depth, |[a]| {
            let level = a.level();
            let factor = self.setting.factor(level)?;
            let plan = PolynomialPlan::new(&coeffs, &chain, level, factor, |level| {
                self.setting.factor(level)
            })?;
            let blocks = plan.run_many(self.exact(), &a.blocks)?.into();
            Ok(IntegerArray { blocks, ..a })
        })?;
        // Zeros beyond the last element become the constant coefficient.
        let padding_is_zero = a.padding_is_zero() && is_zero(&constant.into());
        // A range of the values would need all of them.
        Ok(IntegerArray { padding_is_zero, range: self.setting.range(), ..value })
    }
}

/// Returns the lowest and the highest power of integers in a range.
fn power_ends(range: IntegerRange, exponent: u64) -> [i128; 2] {
    let exponent = u32::try_from(exponent).unwrap_or(u32::MAX);
    let [low, high] = range.ends().map(|end| end.saturating_pow(exponent));
    match exponent % 2 == 0 {
        // The least magnitude is between both ends.
        true if range.low < 0 && range.high > 0 => [0, low.max(high)],
        true => [low.min(high), low.max(high)],
        false => [low, high],
    }
}
