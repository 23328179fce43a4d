//! Which level, scale and slots results have, and what is refused.
//!
//! The evaluator, the simulator and the cost model ask here, and nobody else decides: what the
//! one refuses the others refuse, with the same error.

use super::{Chain, Complex, Scale};
use crate::{
    Error, Result,
    rlwe::{Level, Scale as _, next_level},
};
use sudare_arith::{dd::Dd, real};

/// What is public about a ciphertext beside its polynomials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Form {
    /// Level of the operand or result.
    pub level: Level,
    /// Scale of the operand or result.
    pub scale: Scale,
    /// `log2` of the number of its slots.
    pub log_slots: u32,
}

impl Form {
    /// The number of slots.
    #[must_use]
    pub fn slots(self) -> usize {
        1 << self.log_slots
    }
}

/// The rules of one modulus chain in rings of one dimension.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    chain: &'a Chain,
    log_n: u32,
}

impl<'a> Rules<'a> {
    /// In rings of dimension `N = 2^log_n`.
    #[must_use]
    pub fn new(chain: &'a Chain, log_n: u32) -> Self {
        Self { chain, log_n }
    }

    /// A sum or a difference: levels align downwards, scales must match.
    ///
    /// # Errors
    /// [`Error::SlotMismatch`]; [`Error::RaisedLevel`]; [`Error::ScaleMismatch`].
    pub fn sum(self, op: &'static str, a: Form, b: Form) -> Result<Form> {
        let level = self.meet(op, a, b)?;
        a.scale.check_matches(b.scale, op)?;
        Ok(Form { level, ..a })
    }

    /// A product that is not rescaled.
    ///
    /// # Errors
    /// [`Error::SlotMismatch`]; [`Error::RaisedLevel`]; [`Error::ScaleOutOfRange`].
    pub fn product(self, a: Form, b: Form) -> Result<Form> {
        const OP: &str = "multiply";
        let level = self.meet(OP, a, b)?;
        Ok(Form { level, scale: self.product_scale(OP, a.scale, b.scale, level)?, ..a })
    }

    /// A product that is rescaled.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] at level 0; else as [`Rules::product`].
    pub fn rescaled_product(self, a: Form, b: Form) -> Result<Form> {
        const OP: &str = "multiply and rescale";
        next_level(OP, self.meet("multiply", a, b)?)?;
        self.rescaled(OP, self.product(a, b)?)
    }

    /// A sum of products and perhaps an addend, rescaled.
    ///
    /// # Errors
    /// [`Error::Circuit`] without products; [`Error::LevelExhausted`]; as [`Rules::product`];
    /// [`Error::ScaleMismatch`] if products and addend differ in scale.
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

    /// A product with a constant or with a vector of slots that is encoded at `scale`; not
    /// rescaled.
    ///
    /// # Errors
    /// [`Error::ScaleOutOfRange`].
    pub fn constant_product(self, a: Form, scale: Scale) -> Result<Form> {
        Ok(Form { scale: self.product_scale("multiply", a.scale, scale, a.level)?, ..a })
    }

    /// A sum of products with constants that are encoded at the scales given, all at one scale.
    ///
    /// # Errors
    /// [`Error::Circuit`] without terms; as [`Rules::constant_product`]; [`Error::SlotMismatch`];
    /// [`Error::RaisedLevel`]; [`Error::ScaleMismatch`].
    pub fn constant_sum(self, terms: &[(Form, Scale)]) -> Result<Form> {
        const OP: &str = "sum of products";
        let Some(&(first, own)) = terms.first() else {
            return Err(Error::Circuit(format!("{OP}: at least one term is needed")));
        };
        let level = self.lowest(OP, first, terms.iter().map(|&(a, _)| a))?;
        let scale = self.product_scale(OP, first.scale, own, level)?;
        for &(a, own) in terms {
            scale.check_matches(a.scale * own, OP)?;
        }
        Ok(Form { level, scale, ..first })
    }

    /// One level down, its scale divided by the primes of the level.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] at level 0.
    pub fn rescaled(self, op: &'static str, a: Form) -> Result<Form> {
        let level = next_level(op, a.level)?;
        Ok(Form { level, scale: a.scale / self.chain.divisor(a.level), ..a })
    }

    /// Down to `level`, forgetting primes.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`]; [`Error::RaisedLevel`].
    pub fn dropped(self, a: Form, level: Level) -> Result<Form> {
        Ok(Form { level: self.chain.levels().drop(a.level, level)?, ..a })
    }

    /// The factor at whose scale a product with 1, taken one level above `level` and rescaled, has
    /// exactly the scale asked for.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] if `level` is not below that of `a`;
    /// [`Error::ScaleOutOfRange`] for a factor below 1.
    pub fn matching_factor(self, a: Form, level: Level, scale: Scale) -> Result<Scale> {
        const OP: &str = "match_scale";
        if level >= a.level {
            let needed = (level.0 - a.level.0).saturating_add(1);
            return Err(Error::LevelExhausted { op: OP, needed, level: a.level });
        }
        let above = Level(level.0 + 1);
        let factor = scale * self.chain.divisor(above) / a.scale;
        if factor.to_f64() < 1.0 {
            return Err(self.out_of_range(OP, factor, above));
        }
        Ok(factor)
    }

    /// The form of integers read at another scale.
    ///
    /// # Errors
    /// [`Error::ScaleOutOfRange`] for a scale that is not a positive number.
    pub fn with_scale(self, a: Form, scale: Scale) -> Result<Form> {
        match scale.is_valid() {
            true => Ok(Form { scale, ..a }),
            false => Err(self.out_of_range("with_scale", scale, a.level)),
        }
    }

    /// The form of a polynomial read as `2^log_slots` slots.
    ///
    /// # Errors
    /// [`Error::TooManySlots`].
    pub fn with_log_slots(self, a: Form, log_slots: u32) -> Result<Form> {
        if log_slots < self.log_n {
            return Ok(Form { log_slots, ..a });
        }
        let found = 1usize.checked_shl(log_slots).unwrap_or(usize::MAX);
        Err(Error::TooManySlots { found, slots: self.most_slots() })
    }

    /// Raised from level 0 to level `to`.
    ///
    /// # Errors
    /// [`Error::RaisedLevel`]; [`Error::LevelOutOfRange`].
    pub fn raised(self, a: Form, to: Level) -> Result<Form> {
        self.dropped(a, Level(0))?;
        self.chain.levels().check(to)?;
        Ok(Form { level: to, ..a })
    }

    /// A product with a matrix for `2^log_slots` slots at `level`, whose weights have a scale;
    /// rescaled. What is raised to that level comes from level 0.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] for a matrix at level 0; [`Error::LevelOutOfRange`];
    /// [`Error::RaisedLevel`]; [`Error::SlotMismatch`]; [`Error::ScaleOutOfRange`].
    pub fn transformed(self, a: Form, matrix: Form, raised: bool) -> Result<Form> {
        const OP: &str = "linear transform";
        next_level(OP, matrix.level)?;
        self.dropped(a, if raised { Level(0) } else { matrix.level })?;
        if a.log_slots != matrix.log_slots {
            let (found, expected) = (a.slots(), matrix.slots());
            return Err(Error::SlotMismatch { op: OP, found, expected });
        }
        let scale = self.product_scale(OP, a.scale, matrix.scale, matrix.level)?;
        self.rescaled(OP, Form { level: matrix.level, scale, ..a })
    }

    /// A new encryption or encoding of `count` values.
    ///
    /// # Errors
    /// [`Error::ScaleOutOfRange`] for a scale that is not a positive number or beyond the modulus;
    /// [`Error::TooManySlots`].
    pub fn encoded(self, count: usize, level: Level, scale: Scale) -> Result<Form> {
        if !scale.is_valid() || scale.log2() > self.chain.log2_q(level) {
            return Err(self.out_of_range("encode", scale, level));
        }
        let slots = count.max(1).next_power_of_two();
        if slots > self.most_slots() {
            return Err(Error::TooManySlots { found: count, slots: self.most_slots() });
        }
        Ok(Form { level, scale, log_slots: slots.ilog2() })
    }

    /// `round(c scale)`, if that is below half the modulus.
    ///
    /// # Errors
    /// [`Error::NotFinite`]; [`Error::ValueTooLarge`].
    pub fn integer(self, c: f64, scale: Scale, level: Level) -> Result<i128> {
        if !c.is_finite() {
            return Err(Error::NotFinite { index: 0, value: c.to_string() });
        }
        let product = scale.to_dd() * Dd::from(c);
        let needed_bits = real::log2(product.to_f64().abs());
        let available_bits = self.value_bits(level);
        product.round_i128().filter(|_| needed_bits < available_bits).ok_or(Error::ValueTooLarge {
            index: 0,
            needed_bits,
            available_bits,
        })
    }

    /// Bits that a scaled value has fewer than: it is below half the modulus, and in integers of 128
    /// bits.
    #[must_use]
    pub fn value_bits(self, level: Level) -> f64 {
        (self.chain.log2_q(level) - 1.0).min(127.0)
    }

    /// Whether there are as many values as slots.
    ///
    /// # Errors
    /// [`Error::SlotMismatch`].
    pub fn one_a_slot(self, op: &'static str, values: &[Complex<f64>], a: Form) -> Result<()> {
        match values.len() {
            found if found == a.slots() => Ok(()),
            found => Err(Error::SlotMismatch { op, found, expected: a.slots() }),
        }
    }

    /// Whether raising is through an ephemeral secret as sparse as a circuit needs.
    ///
    /// # Errors
    /// [`Error::EphemeralSecretMismatch`].
    pub fn ephemeral_secret(self, needed: Option<u32>, found: Option<u32>) -> Result<()> {
        match needed {
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

    /// The scale of a product, if the modulus holds it with a sign.
    fn product_scale(self, op: &'static str, a: Scale, b: Scale, level: Level) -> Result<Scale> {
        let scale = a * b;
        scale.check_fits(op, self.chain.log2_q(level))?;
        Ok(scale)
    }

    fn out_of_range(self, op: &'static str, scale: Scale, level: Level) -> Error {
        let (log2_scale, log2_q) = (scale.log2(), self.chain.log2_q(level));
        Error::ScaleOutOfRange { op, log2_scale, log2_q }
    }
}
