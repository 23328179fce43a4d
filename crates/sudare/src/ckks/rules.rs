//! Rules for the level, scale and slots of results, and for rejected operations.
//!
//! The evaluator, the simulator and the cost model all use these rules. They therefore reject the
//! same operations with the same errors.

use super::{Chain, Complex, Scale};
use crate::{
    Error, Result,
    rlwe::{Level, Scale as _, next_level},
};
use sudare_arith::{dd::Dd, real};

/// Public properties of a ciphertext in addition to its polynomials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Form {
    /// Level of the operand or result.
    pub level: Level,
    /// Scale of the operand or result.
    pub scale: Scale,
    /// `log2` of the number of slots.
    pub log_slots: u32,
}

impl Form {
    /// The number of slots.
    #[must_use]
    pub fn slots(self) -> usize {
        1 << self.log_slots
    }
}

/// Largest change of values, relative to them, by rounding a factor 1 to an integer: factors from 2^20
/// on change them less.
const MAX_ROUNDING: f64 = 1.0 / (1u64 << 21) as f64;

/// The rules for one modulus chain in rings of one dimension.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    chain: &'a Chain,
    log_n: u32,
}

impl<'a> Rules<'a> {
    /// Makes the rules in rings of dimension `N = 2^log_n`.
    #[must_use]
    pub fn new(chain: &'a Chain, log_n: u32) -> Self {
        Self { chain, log_n }
    }

    /// Returns the form of a sum or a difference.
    ///
    /// Operands meet at the lower level. If scales differ, the sum has the scale of the lower
    /// operand: the higher one is brought to it by [`Rules::matching_factor`], on its way down.
    ///
    /// # Errors
    /// [`Error::SlotMismatch`]; [`Error::RaisedLevel`]; [`Error::ScaleMismatch`] if scales differ at
    /// one level, or if the higher operand's scale is too large to be matched.
    pub fn sum(self, op: &'static str, a: Form, b: Form) -> Result<Form> {
        let level = self.meet(op, a, b)?;
        if a.scale.matches(b.scale) {
            return Ok(Form { level, ..a });
        }
        let (low, high) = if a.level < b.level { (a, b) } else { (b, a) };
        let factor = self.matching_factor(high, low.level, low.scale);
        match factor.is_ok_and(|factor| factor.encodes_one(low.scale)) {
            true => Ok(Form { level, scale: low.scale, ..a }),
            false => Err(mismatch(op, a, b)),
        }
    }

    /// Returns the form of a sum with a plaintext, which has one scale.
    ///
    /// # Errors
    /// [`Error::SlotMismatch`]; [`Error::RaisedLevel`]; [`Error::ScaleMismatch`].
    pub fn sum_plain(self, op: &'static str, a: Form, plain: Form) -> Result<Form> {
        let level = self.meet(op, a, plain)?;
        match a.scale.matches(plain.scale) {
            true => Ok(Form { level, ..a }),
            false => Err(mismatch(op, a, plain)),
        }
    }

    /// Returns the form of a product that is not rescaled.
    ///
    /// # Errors
    /// [`Error::SlotMismatch`]; [`Error::RaisedLevel`]; [`Error::ScaleOutOfRange`].
    pub fn product(self, a: Form, b: Form) -> Result<Form> {
        const OP: &str = "multiply";
        let level = self.meet(OP, a, b)?;
        Ok(Form { level, scale: self.product_scale(OP, a.scale, b.scale, level)?, ..a })
    }

    /// Returns the form of a product that is rescaled.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] at level 0; errors of [`Rules::product`].
    pub fn rescaled_product(self, a: Form, b: Form) -> Result<Form> {
        const OP: &str = "multiply and rescale";
        // Before the product, so that the error names level 0 and not a scale that does not fit.
        next_level(OP, self.meet("multiply", a, b)?)?;
        self.rescaled(OP, self.product(a, b)?)
    }

    /// Returns the form of a sum of products with an optional addend, rescaled.
    ///
    /// # Errors
    /// [`Error::Circuit`] without products; [`Error::LevelExhausted`]; errors of
    /// [`Rules::product`]; [`Error::ScaleMismatch`] if products and addend differ in scale.
    pub fn product_sum(self, products: &[(Form, Form)], addend: Option<Form>) -> Result<Form> {
        const OP: &str = "sum of products";
        let Some(&(first, second)) = products.first() else {
            return Err(Error::Circuit(format!("{OP}: at least one product is needed")));
        };
        let all = products.iter().flat_map(|&(a, b)| [a, b]).chain(addend);
        let level = self.lowest(OP, first, all)?;
        next_level(OP, level)?;
        let scale = first.scale * second.scale;
        for &(a, b) in products {
            scale.check_matches(self.product_scale(OP, a.scale, b.scale, level)?, OP)?;
        }
        if let Some(addend) = addend {
            scale.check_matches(addend.scale, OP)?;
        }
        self.rescaled(OP, Form { level, scale, ..first })
    }

    /// Returns the form of a product with a constant, or with a vector of slots, encoded at
    /// `scale`, without rescaling.
    ///
    /// # Errors
    /// [`Error::ScaleOutOfRange`].
    pub fn constant_product(self, a: Form, scale: Scale) -> Result<Form> {
        Ok(Form { scale: self.product_scale("multiply", a.scale, scale, a.level)?, ..a })
    }

    /// Returns the form of a sum of products with constants encoded at the given scales. All
    /// products must have the same scale.
    ///
    /// # Errors
    /// [`Error::Circuit`] without terms; errors of [`Rules::constant_product`];
    /// [`Error::SlotMismatch`]; [`Error::RaisedLevel`]; [`Error::ScaleMismatch`].
    pub fn constant_sum(self, terms: &[(Form, Scale)]) -> Result<Form> {
        const OP: &str = "sum of products";
        let Some(&(first, own)) = terms.first() else {
            return Err(Error::Circuit(format!("{OP}: at least one term is needed")));
        };
        let level = self.lowest(OP, first, terms.iter().map(|&(a, _)| a))?;
        let scale = self.product_scale(OP, first.scale, own, level)?;
        for &(a, own) in terms {
            // A scale that matches the first one also fits the modulus.
            scale.check_matches(a.scale * own, OP)?;
        }
        Ok(Form { level, scale, ..first })
    }

    /// Returns the form one level down, with the scale divided by the primes of the level.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] at level 0.
    pub fn rescaled(self, op: &'static str, a: Form) -> Result<Form> {
        let level = next_level(op, a.level)?;
        Ok(Form { level, scale: a.scale / self.chain.divisor(a.level), ..a })
    }

    /// Returns the form at `level` after dropping primes.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`]; [`Error::RaisedLevel`].
    pub fn dropped(self, a: Form, level: Level) -> Result<Form> {
        Ok(Form { level: self.chain.levels().drop(a.level, level)?, ..a })
    }

    /// Returns the scale of a factor 1. The product with it, taken one level above `level` and
    /// rescaled, has exactly `scale`.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] if `level` is not below the level of `a`;
    /// [`Error::ScaleOutOfRange`] for a factor whose rounding to an integer would show.
    pub fn matching_factor(self, a: Form, level: Level, scale: Scale) -> Result<Scale> {
        const OP: &str = "match_scale";
        if level >= a.level {
            let needed = level.0.saturating_add(1);
            return Err(Error::LevelExhausted { op: OP, needed, level: a.level });
        }
        let above = Level(level.0 + 1);
        let factor = scale * self.chain.divisor(above) / a.scale;
        // The factor is rounded to an integer.
        match factor.rounding() <= MAX_ROUNDING || factor.encodes_one(scale) {
            true => Ok(factor),
            false => Err(self.out_of_range(OP, factor, above)),
        }
    }

    /// Returns the form of integers interpreted at another scale.
    ///
    /// # Errors
    /// [`Error::ScaleOutOfRange`] for a scale that is not a positive number.
    pub fn with_scale(self, a: Form, scale: Scale) -> Result<Form> {
        match scale.is_valid() {
            true => Ok(Form { scale, ..a }),
            false => Err(self.out_of_range("with_scale", scale, a.level)),
        }
    }

    /// Returns the form of a polynomial interpreted as `2^log_slots` slots.
    ///
    /// # Errors
    /// [`Error::TooManySlots`].
    pub fn with_log_slots(self, a: Form, log_slots: u32) -> Result<Form> {
        // There are at most `N / 2 = 2^(log_n - 1)` slots.
        if log_slots < self.log_n {
            return Ok(Form { log_slots, ..a });
        }
        let found = 1usize.checked_shl(log_slots).unwrap_or(usize::MAX);
        Err(Error::TooManySlots { found, slots: self.most_slots() })
    }

    /// Returns the form after raising from level 0 to level `to`.
    ///
    /// # Errors
    /// [`Error::RaisedLevel`]; [`Error::LevelOutOfRange`].
    pub fn raised(self, a: Form, to: Level) -> Result<Form> {
        // Rejects ciphertexts of upper levels, which do not have the primes of level 0.
        self.dropped(a, Level(0))?;
        self.chain.levels().check(to)?;
        Ok(Form { level: to, ..a })
    }

    /// Returns the form of a product with a matrix for `2^log_slots` slots at `level`, whose
    /// weights have a scale, rescaled. Ciphertexts raised to that level come from level 0.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] for a matrix at level 0; [`Error::LevelOutOfRange`];
    /// [`Error::RaisedLevel`]; [`Error::SlotMismatch`]; [`Error::ScaleOutOfRange`].
    pub fn transformed(self, a: Form, matrix: Form, raised: bool) -> Result<Form> {
        const OP: &str = "linear transform";
        next_level(OP, matrix.level)?;
        self.dropped(a, if raised { Level(0) } else { matrix.level })?;
        if a.log_slots != matrix.log_slots {
            let found = a.slots();
            let expected = matrix.slots();
            return Err(Error::SlotMismatch { op: OP, found, expected });
        }
        let scale = self.product_scale(OP, a.scale, matrix.scale, matrix.level)?;
        self.rescaled(OP, Form { level: matrix.level, scale, ..a })
    }

    /// Returns the form of a new encryption or encoding of `count` values.
    ///
    /// # Errors
    /// [`Error::ScaleOutOfRange`] for a scale that is not a positive number or beyond the modulus;
    /// [`Error::TooManySlots`].
    pub fn encoded(self, count: usize, level: Level, scale: Scale) -> Result<Form> {
        if !scale.is_valid() || scale.log2() > self.chain.log2_q(level) {
            return Err(self.out_of_range("encode", scale, level));
        }
        // No values encode like the single value 0.
        let slots = count.max(1).next_power_of_two();
        if slots > self.most_slots() {
            return Err(Error::TooManySlots { found: count, slots: self.most_slots() });
        }
        Ok(Form { level, scale, log_slots: slots.ilog2() })
    }

    /// Returns `round(c scale)`, if it is below half the modulus.
    ///
    /// # Errors
    /// [`Error::NotFinite`]; [`Error::ValueTooLarge`].
    pub fn integer(self, c: f64, scale: Scale, level: Level) -> Result<i128> {
        if !c.is_finite() {
            return Err(Error::NotFinite { index: 0, value: c.to_string() });
        }
        // In double words: integers have up to 127 bits.
        let product = scale.to_dd() * Dd::from(c);
        let needed_bits = real::log2(product.to_f64().abs());
        let available_bits = self.value_bits(level);
        product.round_i128().filter(|_| needed_bits < available_bits).ok_or(Error::ValueTooLarge {
            index: 0,
            needed_bits,
            available_bits,
        })
    }

    /// Strict upper bound on the bits of a scaled value: it is below half the modulus and fits
    /// integers of 128 bits.
    #[must_use]
    pub fn value_bits(self, level: Level) -> f64 {
        (self.chain.log2_q(level) - 1.0).min(127.0)
    }

    /// Checks that there is one value per slot.
    ///
    /// # Errors
    /// [`Error::SlotMismatch`].
    pub fn one_a_slot(self, op: &'static str, values: &[Complex<f64>], a: Form) -> Result<()> {
        match values.len() {
            found if found == a.slots() => Ok(()),
            found => Err(Error::SlotMismatch { op, found, expected: a.slots() }),
        }
    }

    /// Checks that raising goes through an ephemeral secret that is sparse enough for the circuit.
    ///
    /// # Errors
    /// [`Error::EphemeralSecretMismatch`].
    pub fn ephemeral_secret(self, needed: Option<u32>, found: Option<u32>) -> Result<()> {
        match needed {
            // A heavier secret leaves larger multiples of `q_0` than the circuit removes.
            Some(needed) if found.is_none_or(|found| found > needed) => {
                Err(Error::EphemeralSecretMismatch { found, needed })
            }
            _ => Ok(()),
        }
    }

    fn most_slots(self) -> usize {
        1 << (self.log_n - 1)
    }

    fn meet(self, op: &'static str, a: Form, b: Form) -> Result<Level> {
        if a.log_slots != b.log_slots {
            return Err(Error::SlotMismatch { op, found: b.slots(), expected: a.slots() });
        }
        self.chain.levels().lower(a.level, b.level)
    }

    fn lowest(
        self,
        op: &'static str,
        first: Form,
        mut all: impl Iterator<Item = Form>,
    ) -> Result<Level> {
        all.try_fold(first.level, |level, next| self.meet(op, Form { level, ..first }, next))
    }

    /// Returns the scale of a product, if the modulus holds it with a sign.
    fn product_scale(self, op: &'static str, a: Scale, b: Scale, level: Level) -> Result<Scale> {
        let scale = a * b;
        scale.check_fits(op, self.chain.log2_q(level))?;
        Ok(scale)
    }

    fn out_of_range(self, op: &'static str, scale: Scale, level: Level) -> Error {
        let log2_scale = scale.log2();
        let log2_q = self.chain.log2_q(level);
        Error::ScaleOutOfRange { op, log2_scale, log2_q }
    }
}

fn mismatch(op: &'static str, a: Form, b: Form) -> Error {
    let left = a.scale.log2();
    let right = b.scale.log2();
    Error::ScaleMismatch { op, left, right, levels: Some([a.level, b.level]) }
}
