//! Tests `code < at` of encrypted codes, from tables of their digits.

use super::{
    super::grid::{DIGIT_BITS, Feature},
    Run, ceil_log2,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};
use sudare::{
    circuits::{
        Ops,
        exact::{IntegerSlots, interpolated},
    },
    exact::Modulus,
    rlwe::{Level, ProductSum},
};

/// A comparison of some digits of a code with a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// Number of digits. Comparisons of more digits are products of shorter ones, so it is first
    /// in the order.
    digits: u32,
    /// The lowest digit.
    first: u32,
    is_equal: bool,
    number: u64,
}

/// The way to compute a comparison of two digits or more.
struct Parts {
    /// Equality of the upper digits, and the comparison of the lower ones.
    product: [Key; 2],
    /// The comparison of the upper digits.
    addend: Option<Key>,
}

impl Key {
    /// Returns the comparison with the same result, of as few digits as possible.
    fn simplest(self) -> Self {
        let lower = self.lower_digits();
        // `x < 16 a` compares the upper digits alone.
        match !self.is_equal
            && self.digits > 1
            && self.number.is_multiple_of(1 << (DIGIT_BITS * lower))
        {
            true => self.upper(false).simplest(),
            false => self,
        }
    }

    fn lower_digits(self) -> u32 {
        self.digits.div_ceil(2)
    }

    fn upper(self, is_equal: bool) -> Self {
        let lower = self.lower_digits();
        Self {
            digits: self.digits - lower,
            first: self.first + lower,
            is_equal,
            number: self.number >> (DIGIT_BITS * lower),
        }
    }

    fn parts(self) -> Parts {
        let digits = self.lower_digits();
        let number = self.number % (1 << (DIGIT_BITS * digits));
        let lower = Self { digits, number, ..self };
        let upper = self.upper(false);
        // Nothing is below 0.
        let addend = (!self.is_equal && upper.number > 0).then(|| upper.simplest());
        Parts { product: [self.upper(true), lower.simplest()], addend }
    }
}

/// Comparisons of the codes of a feature.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// The comparison of each test.
    tests: Vec<Key>,
    /// All comparisons, the ones of one digit first.
    all: BTreeSet<Key>,
    /// The number of values of each digit.
    values: Vec<u64>,
    depth: u32,
}

impl Wanted {
    pub fn new(feature: &Feature, codes: Vec<u64>) -> Self {
        let digits = feature.digits();
        let key = |number| Key { digits, first: 0, is_equal: false, number }.simplest();
        let tests: Vec<Key> = codes.into_iter().map(key).collect();
        let mut all = BTreeSet::new();
        let mut waiting = tests.clone();
        while let Some(key) = waiting.pop() {
            if all.insert(key) && key.digits > 1 {
                let Parts { product, addend } = key.parts();
                waiting.extend(product.into_iter().chain(addend));
            }
        }
        let values: Vec<u64> = (0..digits).map(|digit| feature.values(digit)).collect();
        let single = all.iter().filter(|key| key.digits == 1);
        let powers = single.map(|key| ceil_log2(values[key.first as usize] as usize - 1)).max();
        let joined = all.iter().map(|key| ceil_log2(key.digits as usize)).max();
        // Powers, products with constants, and products of digits.
        let depth = powers.unwrap_or(0) + 1 + joined.unwrap_or(0);
        Self { tests, all, values, depth }
    }

    /// Levels from digits to tests.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// The most digits of a test.
    pub fn digits(&self) -> u32 {
        self.tests.iter().map(|key| key.digits).max().unwrap_or(0)
    }

    /// The number of tables of digits.
    pub fn tables(&self) -> usize {
        self.all.iter().filter(|key| key.digits == 1).count()
    }
}

/// Comparisons that are known.
type Known<C> = BTreeMap<Key, Rc<C>>;

impl<E: Ops<Algebra = IntegerSlots>> Run<'_, E> {
    /// Returns the tests of a feature at `level`. `input` returns its digits.
    pub(super) fn compared<X: From<sudare::Error>>(
        &mut self,
        wanted: &Wanted,
        level: Level,
        mut input: impl FnMut(usize) -> Result<E::Ct, X>,
    ) -> Result<Vec<E::Ct>, X> {
        let joined = wanted.all.iter().map(|key| ceil_log2(key.digits as usize)).max();
        let tables = Level(level.0 + joined.unwrap_or(0));
        let mut known = Known::new();
        for (digit, &values) in wanted.values.iter().enumerate() {
            let keys = wanted.all.iter().filter(|key| key.digits == 1);
            let keys: Vec<Key> = keys.copied().filter(|k| k.first as usize == digit).collect();
            if !keys.is_empty() {
                self.tabled(&input(digit)?, values, &keys, tables, &mut known)?;
            }
        }
        let most = wanted.all.last().map_or(1, |key| key.digits);
        for digits in 2..=most {
            let keys: Vec<Key> =
                wanted.all.iter().copied().filter(|key| key.digits == digits).collect();
            self.joined(&keys, &mut known)?;
        }
        // Tables are dropped before tests are copied to their level.
        let tests = wanted.tests.iter().map(|key| Rc::clone(&known[key])).collect::<Vec<_>>();
        drop(known);
        let found = tests.iter().map(|test| Ok(self.at(test, level)?.into_owned()));
        found.collect()
    }

    /// Computes comparisons of a digit with this number of values.
    fn tabled(
        &mut self,
        x: &E::Ct,
        values: u64,
        keys: &[Key],
        level: Level,
        known: &mut Known<E::Ct>,
    ) -> sudare::Result<()> {
        let t = self.factor(level).modulus();
        let powers = self.powers(x, values as usize - 1)?;
        let above = Level(level.0 + 1);
        let powers: Vec<_> =
            powers.iter().map(|power| self.dropped(power, above)).collect::<sudare::Result<_>>()?;
        for (key, coeffs) in keys.iter().zip(polynomials(t, values, keys)?) {
            let terms = powers.iter().zip(&coeffs[1..]).filter(|(_, c)| **c != 0);
            let terms: Vec<_> = terms.map(|(power, &c)| (&**power, c)).collect();
            let table = self.weighted(&terms, above)?;
            known.insert(*key, Rc::new(self.e.add_const(&table, coeffs[0])?));
        }
        Ok(())
    }

    /// Returns the powers from 1 to `most`, each as shallow as possible.
    fn powers(&mut self, x: &E::Ct, most: usize) -> sudare::Result<Vec<E::Ct>> {
        let mut powers = vec![x.clone()];
        while powers.len() < most {
            let known = powers.len();
            // Products of two known powers, of the same depth.
            let next = known + 1..=most.min(2 * known);
            // The highest power has the lowest level.
            let level = self.e.level(&powers[known - 1]);
            let operands: Vec<_> = powers
                .iter()
                .map(|power| self.dropped(power, level))
                .collect::<sudare::Result<_>>()?;
            let pairs: Vec<_> =
                next.map(|n| (&*operands[n.div_ceil(2) - 1], &*operands[n / 2 - 1])).collect();
            let products = self.e.mul_rescale_many(&pairs)?;
            self.relinearizations += products.len();
            powers.extend(products);
        }
        Ok(powers)
    }

    /// Computes comparisons of several digits.
    fn joined(&mut self, keys: &[Key], known: &mut Known<E::Ct>) -> sudare::Result<()> {
        // A few at a time: together they share the reading of the key.
        for keys in keys.chunks(8) {
            let mut operands = Vec::new();
            for key in keys {
                let Parts { product: [a, b], addend } = key.parts();
                let all = [a, b].into_iter().chain(addend);
                let level = all.map(|key| self.e.level(&known[&key])).min();
                let level = level.unwrap_or(Level(0));
                let addend = match &addend {
                    Some(key) => self.addend(&[(&*known[key], 1)], level)?,
                    None => None,
                };
                let factors = [a, b].map(|key| self.at(&known[&key], level));
                let [a, b] = factors;
                operands.push((a?, b?, addend));
            }
            let sums: Vec<_> = operands
                .iter()
                .map(|(a, b, addend)| ProductSum {
                    products: vec![(&**a, &**b)],
                    addend: addend.as_ref(),
                })
                .collect();
            let found = self.e.mul_sum_rescale_many(&sums)?;
            self.relinearizations += found.len();
            drop(sums);
            drop(operands);
            known.extend(keys.iter().copied().zip(found.into_iter().map(Rc::new)));
        }
        Ok(())
    }
}

/// Returns the polynomials of comparisons of one digit, from the constant up.
fn polynomials(t: Modulus, values: u64, keys: &[Key]) -> sudare::Result<Vec<Vec<i128>>> {
    let points: Vec<i128> = (0..i128::from(values)).collect();
    let holds = |key: &Key, x: u64| if key.is_equal { x == key.number } else { x < key.number };
    let function = |key: &Key| (0..values).map(|x| holds(key, x).into()).collect();
    interpolated(t, &points, &keys.iter().map(function).collect::<Vec<_>>())
}
