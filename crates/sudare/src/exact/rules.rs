//! Rules for the level, factor and error of results, and for rejected operations.
//!
//! Computing and planning both use these rules. They therefore reject the same operations with the
//! same errors.

use super::{Modulus, NoiseBound, Params, PlainNorms, Tensor, Unit, noise::NoiseModel};
use crate::{
    Error, Result,
    rlwe::{Level, Scale as _, next_level},
};
use core::cmp::Ordering;

/// `log2` of the maximum contribution of an error to the rounding errors when it is raised.
// 1/32, as the probabilities of raising assume (docs/notes/exact-errors.md).
pub(crate) const LOG2_BROUGHT: f64 = -5.0;

/// Public properties of a ciphertext in addition to its polynomials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Form {
    /// Level of the operand or result.
    pub level: Level,
    /// Factor, modulo the plaintext modulus.
    pub factor: Unit,
    /// The bound of the error.
    pub noise: NoiseBound,
}

impl Form {
    /// Returns the bits by which the bound of the error may grow until the ciphertext might not
    /// decrypt, under its parameters. Negative if it already might not.
    #[must_use]
    pub fn budget_bits(self, params: &Params) -> f64 {
        let model = NoiseModel::new(params.rlwe(), self.factor.modulus());
        model.log2_room(self.level) - self.noise.log2()
    }
}

/// A sum of products of ciphertexts, given by their forms only.
#[derive(Debug, Clone)]
pub(crate) struct FormSum {
    pub(crate) products: Vec<(Form, Form)>,
    pub(crate) addend: Option<Form>,
}

/// The way to one factor for the operands of a sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Alignment {
    /// The factors match.
    Aligned,
    /// The first operand is brought down to the level and factor of the second.
    FirstDown,
    /// The second operand is brought down to the level and factor of the first.
    SecondDown,
    /// Each operand is multiplied by one of these, at the level that both have.
    Multiplied([Unit; 2]),
}

/// The rules under some parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules<'a> {
    params: &'a Params,
}

impl<'a> Rules<'a> {
    pub(crate) fn new(params: &'a Params) -> Self {
        Self { params }
    }

    /// Returns the ring of plaintexts modulo `t`.
    pub(crate) fn ring(self, t: Modulus) -> (Modulus, u32) {
        (t, self.params.log_n())
    }

    fn model(self, t: Modulus) -> NoiseModel<'a> {
        NoiseModel::new(self.params.rlwe(), t)
    }

    /// Checks that a ciphertext of this form decrypts.
    ///
    /// # Errors
    /// [`Error::NoiseExhausted`].
    pub(crate) fn checked(self, op: &'static str, form: Form) -> Result<Form> {
        let log2_room = self.model(form.factor.modulus()).log2_room(form.level);
        let log2_noise = form.noise.log2();
        // The comparison is also false for NaN.
        let fits = log2_noise < log2_room;
        if fits { Ok(form) } else { Err(Error::NoiseExhausted { op, log2_noise, log2_room }) }
    }

    /// Rejects a factor that ciphertexts like `a` cannot have.
    ///
    /// # Errors
    /// [`Error::PlaintextMismatch`]; [`Error::NotAUnit`].
    pub(crate) fn check_factor(self, op: &'static str, a: Form, factor: Unit) -> Result<()> {
        match_rings(op, self.ring(a.factor.modulus()), self.ring(factor.modulus()))?;
        factor.check_unit()
    }

    /// Returns the form of the same polynomials interpreted with another factor.
    ///
    /// # Errors
    /// See [`Rules::check_factor`].
    pub(crate) fn with_factor(self, a: Form, factor: Unit) -> Result<Form> {
        self.check_factor("with_factor", a, factor)?;
        Ok(Form { factor, ..a })
    }

    /// Returns the form of a fresh encryption under the public key, or under the secret key.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`]; [`Error::PlaintextModulusNotCoprime`]; [`Error::NotAUnit`];
    /// [`Error::NoiseExhausted`] for a plaintext modulus that the level has no room for.
    pub(crate) fn encrypted(self, level: Level, factor: Unit, symmetric: bool) -> Result<Form> {
        self.params.rlwe().check_chain_level(level)?;
        self.params.check_modulus(factor.modulus())?;
        factor.check_unit()?;
        let model = self.model(factor.modulus());
        let noise = if symmetric { model.fresh_symmetric() } else { model.fresh() };
        self.checked("encrypt", Form { level, factor, noise })
    }

    /// Returns the way to one factor for the operands of a sum or a difference.
    ///
    /// # Errors
    /// [`Error::PlaintextMismatch`]; [`Error::RaisedLevel`].
    pub(crate) fn alignment(self, op: &'static str, a: Form, b: Form) -> Result<Alignment> {
        self.meet(op, a, b)?;
        if a.factor.matches(b.factor) {
            return Ok(Alignment::Aligned);
        }
        Ok(match a.level.cmp(&b.level) {
            Ordering::Greater => Alignment::FirstDown,
            Ordering::Less => Alignment::SecondDown,
            Ordering::Equal => Alignment::Multiplied((b.factor / a.factor).as_fraction()),
        })
    }

    /// Returns the form of a sum or a difference. Levels align downwards, and factors must be
    /// equal.
    ///
    /// # Errors
    /// [`Error::PlaintextMismatch`]; [`Error::FactorMismatch`]; [`Error::NoiseExhausted`].
    pub(crate) fn sum(self, op: &'static str, a: Form, b: Form) -> Result<Form> {
        let level = self.meet(op, a, b)?;
        a.factor.check_matches(b.factor, op)?;
        let noise = self.model(a.factor.modulus()).sum(a.noise, b.noise);
        self.checked(op, Form { level, noise, ..a })
    }

    /// Returns the form of a negation. The coefficient `t / 2` of an even `t` becomes another
    /// representative.
    ///
    /// # Errors
    /// [`Error::NoiseExhausted`].
    pub(crate) fn negated(self, op: &'static str, a: Form) -> Result<Form> {
        let t = a.factor.modulus();
        if t.prime() != 2 {
            return Ok(a);
        }
        self.checked(op, Form { noise: self.model(t).sum_plain(a.noise), ..a })
    }

    /// Returns the form of a sum with a plaintext.
    ///
    /// # Errors
    /// [`Error::PlaintextMismatch`]; [`Error::NoiseExhausted`].
    pub(crate) fn sum_plain(self, op: &'static str, a: Form, ring: (Modulus, u32)) -> Result<Form> {
        match_rings(op, self.ring(a.factor.modulus()), ring)?;
        let noise = self.model(ring.0).sum_plain(a.noise);
        self.checked(op, Form { noise, ..a })
    }

    /// Returns the form of a product with a plaintext of these norms.
    ///
    /// # Errors
    /// See [`Rules::sum_plain`].
    pub(crate) fn product_plain(
        self,
        a: Form,
        ring: (Modulus, u32),
        b: PlainNorms,
    ) -> Result<Form> {
        const OP: &str = "multiply by a plaintext";
        match_rings(OP, self.ring(a.factor.modulus()), ring)?;
        let noise = self.model(ring.0).product_plain(a.noise, b);
        self.checked(OP, Form { noise, ..a })
    }

    /// Returns the form of a product with an integer that is `c` modulo `t`, interpreted with the
    /// same factor or with `c` times the factor.
    ///
    /// # Errors
    /// [`Error::NoiseExhausted`].
    pub(crate) fn product_constant(self, a: Form, c: u128) -> Result<Form> {
        let t = a.factor.modulus();
        self.product_plain(a, self.ring(t), PlainNorms::constant(t, c))
    }

    /// Returns the form of a sum of products with integers, all of one factor.
    ///
    /// # Errors
    /// [`Error::Circuit`] without terms; errors of [`Rules::sum`].
    pub(crate) fn constant_sum(self, terms: &[(Form, u128)]) -> Result<Form> {
        const OP: &str = "sum of products with constants";
        let products = terms.iter().map(|&(a, c)| self.product_constant(a, c));
        let products = products.collect::<Result<Vec<_>>>()?;
        let sum = products.into_iter().map(Ok).reduce(|a, b| self.sum(OP, a?, b?));
        sum.unwrap_or_else(|| Err(Error::Circuit(format!("{OP}: there is nothing to sum"))))
    }

    /// Returns the form of a sum of products with an optional addend, relinearised with keys for
    /// `key_level`, and rescaled if requested.
    ///
    /// # Errors
    /// [`Error::Circuit`] without products; [`Error::PlaintextMismatch`];
    /// [`Error::FactorMismatch`]; [`Error::LevelExhausted`]; [`Error::NoiseExhausted`].
    pub(crate) fn product_sum(
        self,
        sum: &FormSum,
        tensor: Tensor,
        key_level: impl Fn(Level) -> Option<Level>,
        rescale: bool,
    ) -> Result<Form> {
        const OP: &str = "multiply";
        let Some(&(first, second)) = sum.products.first() else {
            return Err(Error::Circuit(format!("{OP}: at least one product is needed")));
        };
        let mut all = sum.products.iter().flat_map(|&(a, b)| [a, b]).chain(sum.addend);
        let level =
            all.try_fold(first.level, |level, next| self.meet(OP, Form { level, ..first }, next))?;
        if rescale {
            next_level(OP, level)?;
        }
        let t = first.factor.modulus();
        // The tensor multiplies the product of factors by this: the scale of the factor 1.
        let model = self.model(t);
        let scale = tensor.scale(self.params, level, Unit::one(t))?;
        let factor = scale * first.factor * second.factor;
        let mut noise = model.relinearization(level, key_level(level));
        for &(a, b) in &sum.products {
            factor.check_matches(scale * a.factor * b.factor, OP)?;
            // Operands brought down to the level must decrypt there.
            self.checked(OP, Form { level, ..a })?;
            self.checked(OP, Form { level, ..b })?;
            let product = match tensor {
                Tensor::Plain => model.product(a.noise, b.noise),
                Tensor::Scaled => model.scaled_product(a.noise, b.noise, level),
            };
            noise = model.sum(noise, product);
        }
        if let Some(addend) = sum.addend {
            factor.check_matches(addend.factor, OP)?;
            noise = model.sum(noise, addend.noise);
        }
        // Checked before the rescaling, too, because the product exists at this level.
        let form = self.checked(OP, Form { level, factor, noise })?;
        if rescale { self.rescaled(OP, form) } else { Ok(form) }
    }

    /// Returns the form one level down, with the factor divided by the primes of the level.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] at level 0; [`Error::NoiseExhausted`].
    pub(crate) fn rescaled(self, op: &'static str, a: Form) -> Result<Form> {
        let level = next_level(op, a.level)?;
        let t = a.factor.modulus();
        let factor = a.factor / self.params.divisor(a.level, t)?;
        let noise = self.model(t).rescaled(a.noise, a.level);
        self.checked(op, Form { level, factor, noise })
    }

    /// Returns the form at `level` after dropping primes.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`]; [`Error::NoiseExhausted`].
    pub(crate) fn dropped(self, a: Form, level: Level) -> Result<Form> {
        let level = self.params.rlwe().levels().drop(a.level, level)?;
        self.checked("drop to a level", Form { level, ..a })
    }

    /// Returns the form after adding `switches` images, by keys for `key_level`, to `copies` of the
    /// ciphertext.
    ///
    /// # Errors
    /// [`Error::NoiseExhausted`].
    pub(crate) fn sum_automorphisms(
        self,
        op: &'static str,
        a: Form,
        copies: usize,
        switches: usize,
        key_level: Option<Level>,
    ) -> Result<Form> {
        let model = self.model(a.factor.modulus());
        let e = a.noise;
        let switch = model.key_switch(a.level, key_level);
        let mut noise = if switches == 0 { e } else { e + switch };
        for i in 1..copies {
            let image = if i < switches { e + switch } else { e };
            noise = model.sum(noise, image);
        }
        self.checked(op, Form { noise, ..a })
    }

    /// Returns the form of a sum of automorphisms in stages at `level`, whose weights have these
    /// norms together, with a key switch between two stages, rescaled.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`]; [`Error::LevelExhausted`]; [`Error::NoiseExhausted`].
    pub(crate) fn transformed(
        self,
        op: &'static str,
        a: Form,
        level: Level,
        stages: &[PlainNorms],
        key_level: Option<Level>,
    ) -> Result<Form> {
        next_level(op, level)?;
        let a = self.dropped(a, level)?;
        let model = self.model(a.factor.modulus());
        let switch = model.key_switch(level, key_level);
        let image = a.noise + switch;
        let noise = stages.iter().fold(switch, |noise, &weights| {
            model.sum(model.sum(noise, switch), model.product_plain(image, weights))
        });
        self.rescaled(op, self.checked(op, Form { noise, ..a })?)
    }

    /// Returns the form of a sum of automorphisms, in one stage, of a raised ciphertext, whose
    /// weights have these norms together, rescaled.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`]; [`Error::NoiseExhausted`].
    pub(crate) fn raised_sum(
        self,
        op: &'static str,
        a: Form,
        stages: &[PlainNorms],
    ) -> Result<Form> {
        let model = self.model(a.factor.modulus());
        let weights = stages.iter().fold(PlainNorms::NONE, |sum, &weights| sum + weights);
        let noise = model.product_plain(a.noise, weights);
        self.rescaled(op, self.checked(op, Form { noise, ..a })?)
    }

    /// Returns the form of the same polynomials interpreted modulo another power of the prime.
    ///
    /// # Errors
    /// [`Error::PlaintextMismatch`] for a power of another prime; [`Error::NotAUnit`];
    /// [`Error::NoiseExhausted`].
    pub(crate) fn with_modulus(self, a: Form, t: Modulus) -> Result<Form> {
        const OP: &str = "change the plaintext modulus";
        let found = a.factor.modulus();
        if found.prime() != t.prime() {
            return Err(mismatch(OP, self.ring(found), self.ring(t)));
        }
        // If `t` is larger, plaintexts are multiples of the quotient, and any factor with this
        // residue multiplies them alike.
        let factor = Unit::new(a.factor.value(), t)?;
        self.checked(OP, Form { factor, ..a })
    }

    /// Returns the form after rounding to the modulus `t` at level 0, through an ephemeral secret
    /// of this weight, and raising.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`]; [`Error::PlaintextMismatch`] unless `t` is a higher power of the
    /// same prime; [`Error::PlaintextModulusNotCoprime`]; [`Error::NoiseExhausted`].
    pub(crate) fn raised(self, a: Form, to: Level, t: Modulus, weight: u32) -> Result<Form> {
        const OP: &str = "raise";
        let found = a.factor.modulus();
        if found.prime() != t.prime() || t.exponent() <= found.exponent() {
            return Err(mismatch(OP, self.ring(found), self.ring(t)));
        }
        self.params.rlwe().check_level(to)?;
        // Raising reads only the primes of level 0, so the error must fit there.
        let low = self.dropped(a, Level(0))?;
        let log2_noise = self.model(t).log2_brought(low.noise, weight);
        let log2_room = LOG2_BROUGHT;
        if log2_noise > log2_room {
            return Err(Error::NoiseExhausted { op: OP, log2_noise, log2_room });
        }
        let noise = self.model(t).raised(weight);
        self.checked(OP, Form { level: to, factor: Unit::one(t), noise })
    }

    fn meet(self, op: &'static str, a: Form, b: Form) -> Result<Level> {
        match_rings(op, self.ring(a.factor.modulus()), self.ring(b.factor.modulus()))?;
        self.params.rlwe().levels().lower(a.level, b.level)
    }
}

/// Rejects plaintexts of different rings, each given by a modulus and `log2(N)`.
///
/// # Errors
/// [`Error::PlaintextMismatch`].
pub(crate) fn match_rings(
    op: &'static str,
    left: (Modulus, u32),
    right: (Modulus, u32),
) -> Result<()> {
    match left == right {
        true => Ok(()),
        false => Err(mismatch(op, left, right)),
    }
}

fn mismatch(op: &'static str, left: (Modulus, u32), right: (Modulus, u32)) -> Error {
    let [left, right] = [left, right].map(|(t, log_n)| (t.prime(), t.exponent(), log_n));
    Error::PlaintextMismatch { op, left, right }
}
