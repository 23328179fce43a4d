use super::{
    Ciphertext, Complex, Encoder, Params, Plaintext, Scale,
    rules::{Form, Rules},
};
#[cfg(doc)]
use crate::Error;
use crate::{
    Result,
    rlwe::{self, EvaluationKeys, GaloisElement, Level, ProductSum},
};
use std::{borrow::Cow, sync::Arc};

/// Computes on ciphertexts. `Send + Sync`: share one by reference.
///
/// Plain verbs return a new ciphertext; `_assign` overwrites the first operand.
///
/// # Levels and scales
/// You need not align operands yourself. One rule holds for all operations on two ciphertexts:
///
/// - Operands meet at the lower level. Dropping primes is exact and free.
/// - A product has the product of the scales, whatever they are.
/// - A sum has one scale. If the scales differ, the operand at the higher level is brought to the
///   scale of the other one with [`Evaluator::match_scale`], on its way down. This costs 2 row
///   products and 2 transforms per limb, no key and no level, and adds a rounding error.
///
/// So `x^2 + x` is `add(&mul_rescale(&x, &x)?, &x)?`. Different scales at one level are an error
/// ([`Error::ScaleMismatch`]), because matching them costs a level. So are scales so large that
/// matching them would round values visibly. Powers from products of one
/// level have one scale per level. [`Value`](crate::circuits::Value) multiplies only such operands.
///
/// Sums of products, which are computed in one pass, and sums with an encoded [`Plaintext`] need
/// matching scales. Ciphertexts from above the top of the chain do not meet ciphertexts below it
/// ([`Error::RaisedLevel`]).
#[derive(Clone)]
pub struct Evaluator {
    params: Params,
    encoder: Encoder,
    pub(super) inner: rlwe::Evaluator,
}

impl core::fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Evaluator")
            .field("params", &self.params)
            .field("keys", self.keys())
            .finish_non_exhaustive()
    }
}

/// A ciphertext with the digits of its second polynomial, which hoisted rotations share.
pub struct Hoisted<'a> {
    ciphertext: &'a Ciphertext,
    inner: rlwe::Hoisted<'a>,
}

impl core::fmt::Debug for Hoisted<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Hoisted").field(self.ciphertext).finish()
    }
}

impl Evaluator {
    /// Makes an evaluator that holds `keys`.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`].
    pub fn new(params: &Params, keys: impl Into<Arc<EvaluationKeys>>) -> Result<Self> {
        Ok(Self {
            params: params.clone(),
            encoder: Encoder::new(params),
            inner: rlwe::Evaluator::new(params.rlwe(), keys)?,
        })
    }

    /// The parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The keys.
    #[must_use]
    pub fn keys(&self) -> &Arc<EvaluationKeys> {
        self.inner.keys()
    }

    /// An encoder for the same parameters.
    #[must_use]
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    pub(super) fn rules(&self) -> Rules<'_> {
        self.params.rules()
    }

    /// Returns the form of a ciphertext after checking that it belongs to this evaluator's key.
    pub(super) fn form(&self, a: &Ciphertext) -> Result<Form> {
        self.inner.check(&a.inner)?;
        Ok(a.form())
    }

    /// Returns the forms of two ciphertexts of this evaluator's key.
    fn forms(&self, a: &Ciphertext, b: &Ciphertext) -> Result<(Form, Form)> {
        Ok((self.form(a)?, self.form(b)?))
    }

    /// Returns the forms of a ciphertext and a plaintext.
    fn forms_with_plain(&self, a: &Ciphertext, b: &Plaintext) -> Result<(Form, Form)> {
        let a = self.form(a)?;
        self.params.rlwe().check_id("plaintext", b.params)?;
        Ok((a, b.form()))
    }

    /// Adds slot by slot.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `min(a, b)` | of the lower operand | none | 2 row sums per limb if scales match |
    ///
    /// # Errors
    /// [`Error::ScaleMismatch`] if scales differ at one level; [`Error::SlotMismatch`];
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn add(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        let (x, y) = self.forms(a, b)?;
        let form = self.rules().sum("add", x, y)?;
        let a = self.summand(a, form)?;
        let b = self.summand(b, form)?;
        Ok(Ciphertext::new(self.inner.add(&a.inner, &b.inner)?, form))
    }

    /// Returns an operand of a sum, brought to the sum's level and scale if its scale differs.
    fn summand<'a>(&self, a: &'a Ciphertext, sum: Form) -> Result<Cow<'a, Ciphertext>> {
        match a.scale.matches(sum.scale) {
            true => Ok(Cow::Borrowed(a)),
            false => self.match_scale(a, sum.level, sum.scale).map(Cow::Owned),
        }
    }

    /// `a += b`; see [`Evaluator::add`].
    ///
    /// # Errors
    /// See [`Evaluator::add`].
    pub fn add_assign(&self, a: &mut Ciphertext, b: &Ciphertext) -> Result<()> {
        let (x, y) = self.forms(a, b)?;
        let form = self.rules().sum("add", x, y)?;
        let b = self.summand(b, form)?;
        if let Cow::Owned(matched) = self.summand(a, form)? {
            *a = matched;
        }
        self.inner.add_assign(&mut a.inner, &b.inner)
    }

    /// Subtracts slot by slot; see [`Evaluator::add`].
    ///
    /// # Errors
    /// See [`Evaluator::add`].
    pub fn sub(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        let (x, y) = self.forms(a, b)?;
        let form = self.rules().sum("subtract", x, y)?;
        let a = self.summand(a, form)?;
        let b = self.summand(b, form)?;
        Ok(Ciphertext::new(self.inner.sub(&a.inner, &b.inner)?, form))
    }

    /// Negates every slot.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn neg(&self, a: &Ciphertext) -> Result<Ciphertext> {
        Ok(Ciphertext::new(self.inner.neg(&a.inner)?, a.form()))
    }

    /// Adds a plaintext of the same scale: encode it with [`Encoder::encode_at`] at the level and
    /// scale of `a`.
    ///
    /// # Errors
    /// [`Error::ScaleMismatch`]; [`Error::SlotMismatch`]; [`Error::ParamsMismatch`];
    /// [`Error::KeyMismatch`].
    pub fn add_plain(&self, a: &Ciphertext, b: &Plaintext) -> Result<Ciphertext> {
        let (x, y) = self.forms_with_plain(a, b)?;
        let form = self.rules().sum_plain("add a plaintext", x, y)?;
        Ok(Ciphertext::new(self.inner.add_message(&a.inner, &b.poly, b.level)?, form))
    }

    /// Multiplies by a plaintext, without rescaling.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `min(a, b)` | `a b` | none | 2 row products per limb |
    ///
    /// # Errors
    /// [`Error::ScaleOutOfRange`]; [`Error::SlotMismatch`]; [`Error::ParamsMismatch`];
    /// [`Error::KeyMismatch`].
    pub fn mul_plain(&self, a: &Ciphertext, b: &Plaintext) -> Result<Ciphertext> {
        let (x, y) = self.forms_with_plain(a, b)?;
        let form = self.rules().product(x, y)?;
        Ok(Ciphertext::new(self.inner.mul_message(&a.inner, &b.poly, b.level)?, form))
    }

    /// Adds a constant to every slot.
    ///
    /// # Errors
    /// [`Error::NotFinite`]; [`Error::ValueTooLarge`]; [`Error::ParamsMismatch`];
    /// [`Error::KeyMismatch`].
    pub fn add_const(&self, a: &Ciphertext, c: Complex<f64>) -> Result<Ciphertext> {
        let form = self.form(a)?;
        // `i` is the polynomial `X^(N/2)`. Only real constants are integers.
        if c.im != 0.0 {
            return self.add_plain(a, &self.constant(form, c, a.scale)?);
        }
        let integer = self.rules().integer(c.re, a.scale, a.level())?;
        Ok(Ciphertext::new(self.inner.add_integer(&a.inner, integer)?, form))
    }

    /// Multiplies every slot by a constant encoded at `scale`, without rescaling. A real constant
    /// is encoded as the integer `round(c scale)`.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `a` | `a scale` | none | 2 row products per limb |
    ///
    /// # Errors
    /// [`Error::NotFinite`]; [`Error::ValueTooLarge`]; [`Error::ScaleOutOfRange`];
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn mul_const(&self, a: &Ciphertext, c: Complex<f64>, scale: Scale) -> Result<Ciphertext> {
        let form = self.form(a)?;
        if c.im != 0.0 {
            return self.mul_plain(a, &self.constant(form, c, scale)?);
        }
        let product = self.rules().constant_product(form, scale)?;
        let integer = self.rules().integer(c.re, scale, a.level())?;
        Ok(Ciphertext::new(self.inner.mul_integer(&a.inner, integer)?, product))
    }

    /// Sums products with real constants, `sum_i c_i a_i`, without rescaling. Each constant is
    /// encoded at its own scale, such that all products have the same scale.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | the lowest | `a_i scale_i` | none | 2 row products per limb and term, in one pass |
    ///
    /// # Errors
    /// Errors of [`Evaluator::mul_const`]; [`Error::ScaleMismatch`]; [`Error::SlotMismatch`];
    /// [`Error::Circuit`] without terms.
    pub fn mul_const_sum<'a>(&self, terms: &[(&'a Ciphertext, f64, Scale)]) -> Result<Ciphertext> {
        let form = |&(a, _, scale): &(&Ciphertext, f64, Scale)| Ok((self.form(a)?, scale));
        let forms = terms.iter().map(form).collect::<Result<Vec<_>>>()?;
        let sum = self.rules().constant_sum(&forms)?;
        let term = |&(a, c, scale): &(&'a Ciphertext, f64, Scale)| {
            Ok((&a.inner, self.rules().integer(c, scale, sum.level)?))
        };
        let terms = terms.iter().map(term).collect::<Result<Vec<_>>>()?;
        Ok(Ciphertext::new(self.inner.mul_integer_sum(&terms)?, sum))
    }

    /// Computes several sums of products of the same ciphertexts with real constants, all encoded
    /// at `scale`, without rescaling. Each sum has a row of constants: this is the product of a
    /// matrix with a vector of ciphertexts.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | the lowest | `a_i scale` | none | 2 row products per limb, ciphertext and sum, in one pass |
    ///
    /// # Errors
    /// Errors of [`Evaluator::mul_const_sum`]; [`Error::Circuit`] for a row without exactly one
    /// constant per ciphertext.
    pub fn mul_const_sums(
        &self,
        xs: &[&Ciphertext],
        rows: &[Vec<f64>],
        scale: Scale,
    ) -> Result<Vec<Ciphertext>> {
        let forms = xs.iter().map(|a| Ok((self.form(a)?, scale))).collect::<Result<Vec<_>>>()?;
        let sum = self.rules().constant_sum(&forms)?;
        let integers = |row: &Vec<f64>| {
            row.iter().map(|&c| self.rules().integer(c, scale, sum.level)).collect()
        };
        let rows: Vec<Vec<i128>> = rows.iter().map(integers).collect::<Result<_>>()?;
        let xs: Vec<_> = xs.iter().map(|a| &a.inner).collect();
        let sums = self.inner.mul_integer_sums(&xs, &rows)?;
        Ok(sums.into_iter().map(|inner| Ciphertext::new(inner, sum)).collect())
    }

    /// Encodes a constant for every slot of a ciphertext of this form.
    fn constant(&self, form: Form, c: Complex<f64>, scale: Scale) -> Result<Plaintext> {
        let plain = self.encoder.encode_at(&[c], form.level, scale)?;
        // A single slot repeats in all others.
        Ok(Plaintext { log_slots: form.log_slots, ..plain })
    }

    /// Multiplies slot by slot and relinearises, without rescaling.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `min(a, b)` | `a b` | relinearisation | 1 key switch |
    ///
    /// # Errors
    /// [`Error::MissingRelinearizationKey`]; [`Error::ScaleOutOfRange`]; [`Error::SlotMismatch`];
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn mul(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        Ok(self.mul_many(&[(a, b)])?.remove(0))
    }

    /// Multiplies slot by slot, relinearises and rescales. One division removes `P` and the primes
    /// of the level, so the rescaling is free.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `min(a, b) - 1` | `a b / divisor` | relinearisation | 1 key switch |
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] at level 0; errors of [`Evaluator::mul`].
    pub fn mul_rescale(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        Ok(self.mul_rescale_many(&[(a, b)])?.remove(0))
    }

    /// Runs [`Evaluator::mul`] on each pair. Two at a time share the reading of the key.
    ///
    /// # Errors
    /// See [`Evaluator::mul`].
    pub fn mul_many(&self, pairs: &[(&Ciphertext, &Ciphertext)]) -> Result<Vec<Ciphertext>> {
        self.products(pairs, false, |rules, a, b| rules.product(a, b))
    }

    /// Runs [`Evaluator::mul_rescale`] on each pair; see [`Evaluator::mul_many`].
    ///
    /// # Errors
    /// See [`Evaluator::mul_rescale`].
    pub fn mul_rescale_many(
        &self,
        pairs: &[(&Ciphertext, &Ciphertext)],
    ) -> Result<Vec<Ciphertext>> {
        self.products(pairs, true, |rules, a, b| rules.rescaled_product(a, b))
    }

    /// Sums products of the same scale, relinearises and rescales them together, with one key
    /// switch and one division in total.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | the lowest, `- 1` | `a_i b_i / divisor` | relinearisation | 1 key switch, 8 row products per limb and product if there are several |
    ///
    /// # Errors
    /// Errors of [`Evaluator::mul_rescale`]; [`Error::ScaleMismatch`]; [`Error::Circuit`] without
    /// products.
    pub fn mul_sum_rescale(&self, sum: &ProductSum<'_, Ciphertext>) -> Result<Ciphertext> {
        Ok(self.mul_sum_rescale_many(core::slice::from_ref(sum))?.remove(0))
    }

    /// Runs [`Evaluator::mul_sum_rescale`] on each sum; see [`Evaluator::mul_many`].
    ///
    /// # Errors
    /// See [`Evaluator::mul_sum_rescale`].
    pub fn mul_sum_rescale_many(
        &self,
        sums: &[ProductSum<'_, Ciphertext>],
    ) -> Result<Vec<Ciphertext>> {
        let form = |sum: &ProductSum<'_, Ciphertext>| {
            sum.operands().try_for_each(|a| self.inner.check(&a.inner))?;
            let products: Vec<_> = sum.products.iter().map(|(a, b)| (a.form(), b.form())).collect();
            self.rules().product_sum(&products, sum.addend.map(Ciphertext::form))
        };
        let forms = sums.iter().map(form).collect::<Result<Vec<_>>>()?;
        let sums: Vec<_> = sums.iter().map(|sum| sum.map(|a| &a.inner)).collect();
        Ok(Ciphertext::all(self.inner.mul_sums(&sums, true)?, forms))
    }

    /// Returns the product of each pair, with the form that `rule` returns.
    fn products(
        &self,
        pairs: &[(&Ciphertext, &Ciphertext)],
        rescale: bool,
        rule: impl Fn(Rules<'_>, Form, Form) -> Result<Form>,
    ) -> Result<Vec<Ciphertext>> {
        let form = |&(a, b): &(&Ciphertext, &Ciphertext)| {
            let (a, b) = self.forms(a, b)?;
            rule(self.rules(), a, b)
        };
        let forms = pairs.iter().map(form).collect::<Result<Vec<_>>>()?;
        let sums: Vec<_> = pairs.iter().map(|(a, b)| ProductSum::of(&a.inner, &b.inner)).collect();
        Ok(Ciphertext::all(self.inner.mul_sums(&sums, rescale)?, forms))
    }

    /// Divides by the primes of the level, with rounding.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `- 1` | `/ divisor` | none | 2 transforms per limb |
    ///
    /// Reference: [CHKKS18](https://eprint.iacr.org/2018/931), section 4. Deviation: the division
    /// rounds to the nearest.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] at level 0; [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn rescale(&self, a: &Ciphertext) -> Result<Ciphertext> {
        let mut out = a.clone();
        self.rescale_assign(&mut out)?;
        Ok(out)
    }

    /// Runs [`Evaluator::rescale`] in place.
    ///
    /// # Errors
    /// See [`Evaluator::rescale`].
    pub fn rescale_assign(&self, a: &mut Ciphertext) -> Result<()> {
        let form = self.rules().rescaled("rescale", self.form(a)?)?;
        self.inner.rescale_assign(&mut a.inner)?;
        a.scale = form.scale;
        Ok(())
    }

    /// Runs [`Evaluator::drop_to`] in place.
    ///
    /// # Errors
    /// See [`Evaluator::drop_to`].
    pub fn drop_to_assign(&self, a: &mut Ciphertext, level: Level) -> Result<()> {
        self.inner.drop_to_assign(&mut a.inner, level)
    }

    /// Drops primes down to `level`. Values and scale stay the same.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] if `level` is above the level of `a`; [`Error::RaisedLevel`];
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn drop_to(&self, a: &Ciphertext, level: Level) -> Result<Ciphertext> {
        let form = self.rules().dropped(self.form(a)?, level)?;
        Ok(Ciphertext::new(self.inner.drop_to(&a.inner, level)?, form))
    }

    /// Brings `a` to `level` with exactly the given scale, by a product with 1 and a rescaling.
    /// `level` must be below the level of `a`.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`]; [`Error::ScaleOutOfRange`] if the factor, which is rounded to an
    /// integer, changes values visibly by this rounding; [`Error::ParamsMismatch`];
    /// [`Error::KeyMismatch`].
    pub fn match_scale(&self, a: &Ciphertext, level: Level, scale: Scale) -> Result<Ciphertext> {
        let factor = self.rules().matching_factor(self.form(a)?, level, scale)?;
        // One level above, so that the rescaling below ends at `level`.
        let dropped = self.drop_to(a, Level(level.0 + 1))?;
        let mut out = self.mul_const(&dropped, Complex { re: 1.0, im: 0.0 }, factor)?;
        self.rescale_assign(&mut out)?;
        // Exactly this scale, not the rounded quotient that is next to it.
        out.scale = scale;
        Ok(out)
    }

    /// Returns the ciphertext with its integer plaintext interpreted at another scale.
    ///
    /// # Errors
    /// [`Error::ScaleOutOfRange`] for a scale that is not a positive number;
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn with_scale(&self, a: &Ciphertext, scale: Scale) -> Result<Ciphertext> {
        let form = self.rules().with_scale(self.form(a)?, scale)?;
        Ok(Ciphertext::new(a.inner.clone(), form))
    }

    /// Lifts the ciphertext modulo `q_0` to every prime up to level `to`. Its polynomial `m`
    /// becomes `m + q_0 I` for a small polynomial `I`, so the slots are wrong until a circuit
    /// removes `q_0 I`. Primes of `a` above level 0 are ignored, which is exact.
    ///
    /// If the keys have an ephemeral secret of weight `h`, the ciphertext goes through it and
    /// `|I| <= (h + 1) / 2`; see [`rlwe::Raise`]. Otherwise the ciphertext stays under the main
    /// secret, and `h` is the weight of that.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `to` | `a` | to and from an ephemeral secret, or none | 4 transforms per limb and 1 key switch at level 0; without keys 2 transforms a limb |
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`]; [`Error::MissingRaisingKey`] if the keys are for lower levels;
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn mod_raise(&self, a: &Ciphertext, to: Level) -> Result<Ciphertext> {
        let form = self.rules().raised(self.form(a)?, to)?;
        Ok(Ciphertext::new(self.inner.mod_raise(&a.inner, to)?, form))
    }

    /// Returns the ciphertext with its plaintext interpreted as `2^log_slots` slots. With more
    /// slots, the values of `a` repeat. With fewer, the caller must know that the values repeat, or
    /// the result is wrong.
    ///
    /// # Errors
    /// [`Error::TooManySlots`]; [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn with_log_slots(&self, a: &Ciphertext, log_slots: u32) -> Result<Ciphertext> {
        let form = self.rules().with_log_slots(self.form(a)?, log_slots)?;
        Ok(Ciphertext::new(a.inner.clone(), form))
    }

    /// Rotates left by `k`: slot `i` of the result is slot `i + k` of `a`.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `a` | `a` | rotation by `k` | 1 key switch |
    ///
    /// # Errors
    /// [`Error::MissingGaloisKey`]; [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn rotate(&self, a: &Ciphertext, k: i64) -> Result<Ciphertext> {
        self.automorphism(a, self.rotation(a, k))
    }

    /// Returns the element that rotates `a` by `k`. Rotations repeat with the number of slots.
    /// Among the rotations equal to `k`, one with a key for the level of `a` is preferred.
    fn rotation(&self, a: &Ciphertext, k: i64) -> GaloisElement {
        let log_n = self.params.log_n();
        let slots = 1i64 << a.log_slots;
        let first = k.rem_euclid(slots);
        let params = self.params.rlwe();
        let usable = |g: &GaloisElement| self.keys().reaches(params, *g, a.level());
        (first..1 << (log_n - 1))
            .step_by(1 << a.log_slots)
            .map(|k| GaloisElement::rotation(log_n, k))
            .find(|g| g.0 == 1 || usable(g))
            .unwrap_or_else(|| GaloisElement::rotation(log_n, first))
    }

    /// Conjugates every slot.
    ///
    /// # Errors
    /// See [`Evaluator::rotate`].
    pub fn conjugate(&self, a: &Ciphertext) -> Result<Ciphertext> {
        self.automorphism(a, GaloisElement::conjugation(self.params.log_n()))
    }

    /// Applies `X -> X^g` and returns to the same key.
    ///
    /// # Errors
    /// See [`Evaluator::rotate`].
    pub fn automorphism(&self, a: &Ciphertext, g: GaloisElement) -> Result<Ciphertext> {
        Ok(Ciphertext::new(self.inner.automorphism(&a.inner, g)?, a.form()))
    }

    /// Computes, for each group in turn, the sum of the images of `a` under its automorphisms, one
    /// of which may be the identity, under the same key.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `a` | `a` | every automorphism, all of one key level, or all without one | per group: 1 decomposition, a key product per image, 1 division |
    ///
    /// Reference: Ishimaki, Yamana, "Faster homomorphic trace-type function evaluation" (IEEE
    /// Access 9, 2021), Algorithm 5.
    ///
    /// # Errors
    /// [`Error::Circuit`] for an empty group; [`Error::MissingGaloisKey`];
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn sum_automorphisms(
        &self,
        a: &Ciphertext,
        groups: &[&[GaloisElement]],
    ) -> Result<Ciphertext> {
        Ok(Ciphertext::new(self.inner.sum_automorphisms(&a.inner, groups)?, a.form()))
    }

    /// Prepares several rotations of `a`: decomposes and raises its digits once, for keys for every
    /// level. Level keys do not use these digits.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn hoist<'a>(&self, a: &'a Ciphertext) -> Result<Hoisted<'a>> {
        Ok(Hoisted { ciphertext: a, inner: self.inner.hoist(&a.inner)? })
    }

    /// Runs [`Evaluator::rotate`] on a hoisted ciphertext. The result is the same, bit for bit.
    ///
    /// # Errors
    /// See [`Evaluator::rotate`].
    pub fn rotate_hoisted(&self, a: &Hoisted<'_>, k: i64) -> Result<Ciphertext> {
        let g = self.rotation(a.ciphertext, k);
        Ok(Ciphertext::new(self.inner.automorphism_hoisted(&a.inner, g)?, a.ciphertext.form()))
    }
}
