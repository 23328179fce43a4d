use super::{
    BatchEncoder, Ciphertext, Modulus, Params, PlainNorms, PlainPoly, Tensor, Unit,
    encrypt::{lifted, residue},
    plaintext::degree,
    rules::{Alignment, Form, FormSum, Rules},
};
use crate::{
    Error, Result,
    ring::{Eval, RnsPoly},
    rlwe::{self, EvaluationKeys, GaloisElement, KeyRequest, Level, ProductSum},
};
use std::sync::Arc;

/// Computes on ciphertexts: the operations that BGV and BFV share, and the product of BGV.
///
/// Plain verbs return a new ciphertext.
///
/// # Levels and factors
/// You need not align operands yourself. One rule holds for all operations on two ciphertexts:
///
/// - Operands meet at the lower level. Dropping primes keeps plaintext, factor and error.
/// - A product has the product of the factors, whatever they are.
/// - A sum has one factor. If the factors differ, the operand at the higher level is brought to the
///   factor of the other one with [`Evaluator::match_factor`], on its way down. At one level both
///   operands are multiplied by integers of up to about `sqrt(t)`. Results are exact, and errors
///   grow.
///
/// So `x^2 + x` is `add(&mul_rescale(&x, &x)?, &x)?`. Sums of products, which are computed in one
/// pass, need equal factors ([`Error::FactorMismatch`]). Different plaintext moduli are an error.
///
/// An operation whose result might not decrypt is rejected before it computes
/// ([`Error::NoiseExhausted`]). In a product of BGV errors must be far below the modulus, so rescale
/// often.
///
/// A plaintext of slots is a matrix of 2 rows with `N / 2` columns.
#[derive(Clone)]
pub struct Evaluator {
    params: Params,
    pub(crate) inner: rlwe::Evaluator,
}

impl core::fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Evaluator")
            .field("params", &self.params)
            .field("keys", self.keys())
            .finish_non_exhaustive()
    }
}

/// A ciphertext with the digits of its second polynomial, which hoisted automorphisms share.
pub struct Hoisted<'a> {
    form: Form,
    inner: rlwe::Hoisted<'a>,
}

impl core::fmt::Debug for Hoisted<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Hoisted").field(&self.form).finish()
    }
}

impl Evaluator {
    /// Makes an evaluator that holds `keys`.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`].
    pub fn new(params: &Params, keys: impl Into<Arc<EvaluationKeys>>) -> Result<Self> {
        let inner = rlwe::Evaluator::new(params.rlwe(), keys)?;
        Ok(Self { params: params.clone(), inner })
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

    pub(crate) fn rules(&self) -> Rules<'_> {
        Rules::new(&self.params)
    }

    /// Returns the form of a ciphertext of this evaluator's key.
    pub(crate) fn form(&self, a: &Ciphertext) -> Result<Form> {
        self.inner.check(&a.inner)?;
        self.params.check_modulus(a.plaintext_modulus())?;
        Ok(a.form())
    }

    /// Returns the polynomial of a plaintext times `factor`, modulo the primes of `level`, and
    /// times `t^-1` if `divided` is set.
    fn message(&self, a: &PlainPoly, level: Level, factor: Unit, divided: bool) -> RnsPoly<Eval> {
        lifted(&self.params, self.params.rlwe().limbs(level), a, factor, divided)
    }

    /// Adds.
    ///
    /// | level | factor | keys | cost |
    /// |---|---|---|---|
    /// | `min(a, b)` | of the lower operand | none | 2 row sums per limb if factors match |
    ///
    /// # Errors
    /// [`Error::PlaintextMismatch`]; [`Error::NoiseExhausted`]; [`Error::ParamsMismatch`];
    /// [`Error::KeyMismatch`].
    pub fn add(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        if let Some(sum) = self.aligned_sum("add", a, b, 1)? {
            return Ok(sum);
        }
        // Here and below, the form comes first: it rejects what might not decrypt, before anything
        // computes.
        let form = self.rules().sum("add", a.form(), b.form())?;
        Ok(Ciphertext::new(self.inner.add(&a.inner, &b.inner)?, form))
    }

    /// Returns `a + sign b` if their factors differ.
    fn aligned_sum(
        &self,
        op: &'static str,
        a: &Ciphertext,
        b: &Ciphertext,
        sign: i128,
    ) -> Result<Option<Ciphertext>> {
        let x = self.form(a)?;
        let y = self.form(b)?;
        let sum = |a: &_, b: &_| if sign > 0 { self.add(a, b) } else { self.sub(a, b) };
        match self.rules().alignment(op, x, y)? {
            Alignment::Aligned => return Ok(None),
            Alignment::FirstDown => sum(&self.match_factor(a, y.level, y.factor)?, b),
            Alignment::SecondDown => sum(a, &self.match_factor(b, x.level, x.factor)?),
            Alignment::Multiplied([u, v]) => self.mul_scaled_sum(&[(a, 1, u), (b, sign, v)]),
        }
        .map(Some)
    }

    /// Subtracts; see [`Evaluator::add`].
    ///
    /// # Errors
    /// See [`Evaluator::add`].
    pub fn sub(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        if let Some(difference) = self.aligned_sum("subtract", a, b, -1)? {
            return Ok(difference);
        }
        let form = self.rules().sum("subtract", a.form(), b.form())?;
        Ok(Ciphertext::new(self.inner.sub(&a.inner, &b.inner)?, form))
    }

    /// Negates.
    ///
    /// # Errors
    /// [`Error::NoiseExhausted`]; [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn neg(&self, a: &Ciphertext) -> Result<Ciphertext> {
        let form = self.rules().negated("negate", self.form(a)?)?;
        Ok(Ciphertext::new(self.inner.neg(&a.inner)?, form))
    }

    /// Adds a plaintext, encoded with the factor of the ciphertext.
    ///
    /// # Errors
    /// See [`Evaluator::add`].
    pub fn add_plain(&self, a: &Ciphertext, b: &PlainPoly) -> Result<Ciphertext> {
        const OP: &str = "add a plaintext";
        let form = self.rules().sum_plain(OP, self.form(a)?, ring_of(b))?;
        let message = self.message(b, form.level, form.factor, true);
        Ok(Ciphertext::new(self.inner.add_message(&a.inner, &message, form.level)?, form))
    }

    /// Subtracts a plaintext; see [`Evaluator::add_plain`].
    ///
    /// # Errors
    /// See [`Evaluator::add_plain`].
    pub fn sub_plain(&self, a: &Ciphertext, b: &PlainPoly) -> Result<Ciphertext> {
        const OP: &str = "subtract a plaintext";
        let form = self.rules().sum_plain(OP, self.form(a)?, ring_of(b))?;
        let t = b.modulus();
        // The sign goes into the factor, so the message is only added.
        let factor = Unit::new(t.neg(form.factor.value()), t)?;
        let message = self.message(b, form.level, factor, true);
        Ok(Ciphertext::new(self.inner.add_message(&a.inner, &message, form.level)?, form))
    }

    /// Multiplies by a plaintext with coefficients taken next to zero. The error bound of the
    /// result depends on two norms of these coefficients and so reveals the norms.
    ///
    /// | level | factor | keys | cost |
    /// |---|---|---|---|
    /// | `a` | `a` | none | 1 transform and 2 row products per limb |
    ///
    /// # Errors
    /// See [`Evaluator::add_plain`].
    pub fn mul_plain(&self, a: &Ciphertext, b: &PlainPoly) -> Result<Ciphertext> {
        Ok(self.mul_plain_many(&[a], b, Unit::one(b.modulus()))?.remove(0))
    }

    /// Runs [`Evaluator::mul_plain`] on each of `xs` with the same plaintext, which is encoded
    /// once. The plaintext is multiplied by `factor`, and so are the factors of the products.
    ///
    /// # Errors
    /// [`Error::NotAUnit`]; errors of [`Evaluator::mul_plain`].
    pub fn mul_plain_many(
        &self,
        xs: &[&Ciphertext],
        b: &PlainPoly,
        factor: Unit,
    ) -> Result<Vec<Ciphertext>> {
        let norms = PlainNorms::of_multiple(b, factor.value());
        let form = |a: &&Ciphertext| {
            let form = self.rules().product_plain(self.form(a)?, ring_of(b), norms)?;
            self.rules().check_factor("multiply by a plaintext", form, factor)?;
            Ok(Form { factor: form.factor * factor, ..form })
        };
        let forms = xs.iter().map(form).collect::<Result<Vec<_>>>()?;
        let Some(level) = forms.iter().map(|form| form.level).max() else { return Ok(Vec::new()) };
        // Once, at the highest level. Products at lower levels read its first primes.
        let message = self.message(b, level, factor, false);
        let product = |(a, form): (&&Ciphertext, Form)| {
            Ok(Ciphertext::new(self.inner.mul_message(&a.inner, &message, level)?, form))
        };
        xs.iter().zip(forms).map(product).collect()
    }

    /// Adds a constant, `c mod t`, to every slot.
    ///
    /// # Errors
    /// [`Error::NoiseExhausted`]; [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn add_const(&self, a: &Ciphertext, c: i128) -> Result<Ciphertext> {
        let t = a.plaintext_modulus();
        let form = self.rules().sum_plain("add a constant", self.form(a)?, self.rules().ring(t))?;
        let u = t.centered(t.mul(form.factor.value(), t.reduce_i128(c)));
        let basis = self.params.rlwe().basis();
        let [c0, c1] = &a.inner.polys;
        let c0 = basis.add_constant(c0, |m| m.mul(m.reduce_i128(u), m.inv(residue(m, t))));
        let polys = [c0, c1.clone()];
        Ok(Ciphertext::new(rlwe::Ciphertext { polys, ..a.inner }, form))
    }

    /// Multiplies every slot by an integer, `c mod t`. Cost: 2 row products per limb. The error
    /// grows by the magnitude of the representative of `c` next to zero.
    ///
    /// # Errors
    /// [`Error::NoiseExhausted`]; [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn mul_const(&self, a: &Ciphertext, c: i128) -> Result<Ciphertext> {
        self.mul_const_sum(&[(a, c)])
    }

    /// Sums products with integers, `sum_i c_i a_i`, in one pass. Cost: 2 row products per limb and
    /// term.
    ///
    /// # Errors
    /// [`Error::Circuit`] without terms; errors of [`Evaluator::add`].
    pub fn mul_const_sum(&self, terms: &[(&Ciphertext, i128)]) -> Result<Ciphertext> {
        let one = |a: &Ciphertext| Unit::one(a.plaintext_modulus());
        let terms: Vec<_> = terms.iter().map(|&(a, c)| (a, c, one(a))).collect();
        self.mul_scaled_sum(&terms)
    }

    /// Runs [`Evaluator::mul_const_sum`] with each integer encoded with its own factor. All
    /// products must have the same factor: the factor of `a_i` times the factor of `c_i`.
    ///
    /// # Errors
    /// [`Error::NotAUnit`]; errors of [`Evaluator::mul_const_sum`].
    pub fn mul_scaled_sum(&self, terms: &[(&Ciphertext, i128, Unit)]) -> Result<Ciphertext> {
        let term = |&(a, c, unit): &(&Ciphertext, i128, Unit)| {
            let form = self.form(a)?;
            let t = a.plaintext_modulus();
            self.rules().check_factor("multiply by a constant", form, unit)?;
            let product = Form { factor: form.factor * unit, ..form };
            Ok((product, t.mul(unit.value(), t.reduce_i128(c))))
        };
        let forms = terms.iter().map(term).collect::<Result<Vec<_>>>()?;
        let form = self.rules().constant_sum(&forms)?;
        let centered = |&(_, c): &(Form, u128)| form.factor.modulus().centered(c);
        let integers = forms.iter().map(centered);
        let inner: Vec<_> = terms.iter().map(|(a, ..)| &a.inner).zip(integers).collect();
        Ok(Ciphertext::new(self.inner.mul_integer_sum(&inner)?, form))
    }

    /// Multiplies as in BGV and relinearises, without rescaling.
    ///
    /// | level | factor | keys | cost |
    /// |---|---|---|---|
    /// | `min(a, b)` | `a b` | relinearisation | 1 key switch |
    ///
    /// # Errors
    /// [`Error::MissingRelinearizationKey`]; [`Error::NoiseExhausted`];
    /// [`Error::PlaintextMismatch`]; [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn mul(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        Ok(self.mul_sums(&[ProductSum::of(a, b)], false)?.remove(0))
    }

    /// Multiplies as in BGV, relinearises and rescales. One division removes `P` and the primes of
    /// the level, so the rescaling is free.
    ///
    /// | level | factor | keys | cost |
    /// |---|---|---|---|
    /// | `min(a, b) - 1` | `a b / divisor` | relinearisation | 1 key switch |
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] at level 0; errors of [`Evaluator::mul`].
    pub fn mul_rescale(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        Ok(self.mul_sums(&[ProductSum::of(a, b)], true)?.remove(0))
    }

    /// Computes sums of products of BGV, all of one factor, each relinearised by one key switch. If
    /// `rescale` is set, also rescales at no further cost. Two sums at a time share the reading of
    /// the key.
    ///
    /// | level | factor | keys | cost |
    /// |---|---|---|---|
    /// | the lowest, `- 1` if rescaled | `a_i b_i`, `/ divisor` | relinearisation | 1 key switch and 2 row products per limb and sum, 8 more per product if there are several |
    ///
    /// # Errors
    /// [`Error::Circuit`] without products; [`Error::FactorMismatch`]; [`Error::LevelExhausted`];
    /// errors of [`Evaluator::mul`].
    pub fn mul_sums(
        &self,
        sums: &[ProductSum<'_, Ciphertext>],
        rescale: bool,
    ) -> Result<Vec<Ciphertext>> {
        let forms = self.product_forms(sums, Tensor::Plain, rescale)?;
        // `t a b` keeps the form `t^-1 f m`.
        let times_t = |&(a, _): &(&Ciphertext, _)| {
            // Exact, because `t` is at most `2^124`.
            self.inner.mul_integer(&a.inner, a.plaintext_modulus().value() as i128)
        };
        let first: Vec<Vec<_>> = sums
            .iter()
            .map(|sum| sum.products.iter().map(times_t).collect())
            .collect::<Result<_>>()?;
        let inner = sums.iter().zip(&first).map(|(sum, first)| ProductSum {
            products: first.iter().zip(&sum.products).map(|(a, (_, b))| (a, &b.inner)).collect(),
            addend: sum.addend.map(|c| &c.inner),
        });
        let inner = self.inner.mul_sums(&inner.collect::<Vec<_>>(), rescale)?;
        Ok(Ciphertext::all(inner, forms))
    }

    /// Returns the forms of sums of products.
    pub(crate) fn product_forms(
        &self,
        sums: &[ProductSum<'_, Ciphertext>],
        tensor: Tensor,
        rescale: bool,
    ) -> Result<Vec<Form>> {
        let key_level = |level| self.keys().relinearization_key_level(self.params.rlwe(), level);
        let form = |sum: &ProductSum<'_, Ciphertext>| {
            let pair = |&(a, b): &(&Ciphertext, &Ciphertext)| Ok((self.form(a)?, self.form(b)?));
            let products = sum.products.iter().map(pair).collect::<Result<_>>()?;
            let addend = sum.addend.map(|c| self.form(c)).transpose()?;
            self.rules().product_sum(&FormSum { products, addend }, tensor, key_level, rescale)
        };
        sums.iter().map(form).collect()
    }

    /// Switches the modulus: divides by the primes of the level, with rounding.
    ///
    /// | level | factor | keys | cost |
    /// |---|---|---|---|
    /// | `- 1` | `/ divisor` | none | 2 transforms per limb |
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] at level 0; [`Error::NoiseExhausted`]; [`Error::ParamsMismatch`];
    /// [`Error::KeyMismatch`].
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
        a.set_form(form);
        Ok(())
    }

    /// Drops primes down to `level`. Plaintext, factor and error stay the same.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] if `level` is above the level of `a`; [`Error::NoiseExhausted`];
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn drop_to(&self, a: &Ciphertext, level: Level) -> Result<Ciphertext> {
        let form = self.rules().dropped(self.form(a)?, level)?;
        Ok(Ciphertext::new(self.inner.drop_to(&a.inner, level)?, form))
    }

    /// Runs [`Evaluator::drop_to`] in place.
    ///
    /// # Errors
    /// See [`Evaluator::drop_to`].
    pub fn drop_to_assign(&self, a: &mut Ciphertext, level: Level) -> Result<()> {
        let form = self.rules().dropped(self.form(a)?, level)?;
        self.inner.drop_to_assign(&mut a.inner, level)?;
        a.set_form(form);
        Ok(())
    }

    /// Brings `a` to `level` with the given factor: by a product with an integer and, if the level
    /// is lower, a rescaling after it. If the factor is already right, only primes are dropped.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] if `level` is above the level of `a`;
    /// [`Error::PlaintextMismatch`]; [`Error::NotAUnit`]; [`Error::NoiseExhausted`];
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn match_factor(&self, a: &Ciphertext, level: Level, factor: Unit) -> Result<Ciphertext> {
        let form = self.form(a)?;
        let t = a.plaintext_modulus();
        self.rules().check_factor("match_factor", form, factor)?;
        if factor.matches(form.factor) {
            return self.drop_to(a, level);
        }
        self.params.rlwe().levels().drop(form.level, level)?;
        let lower = level < form.level;
        let above = Level(level.0 + u32::from(lower));
        let divisor = if lower { self.params.divisor(above, t)? } else { Unit::one(t) };
        let constant = t.centered((factor * divisor / form.factor).value());
        let product = self.mul_const(&self.drop_to(a, above)?, constant)?;
        // The integer changed the factor and left the plaintext.
        let product = Ciphertext { factor: factor * divisor, ..product };
        if lower { self.rescale(&product) } else { Ok(product) }
    }

    /// Interprets the ciphertext with another factor. The plaintext is multiplied by the old factor
    /// divided by the new one.
    ///
    /// # Errors
    /// [`Error::PlaintextMismatch`]; [`Error::NotAUnit`]; [`Error::ParamsMismatch`];
    /// [`Error::KeyMismatch`].
    pub fn with_factor(&self, a: &Ciphertext, factor: Unit) -> Result<Ciphertext> {
        let form = self.rules().with_factor(self.form(a)?, factor)?;
        Ok(Ciphertext::new(a.inner.clone(), form))
    }

    /// Interprets the ciphertext modulo another power of the prime: a plaintext `p^v m` modulo
    /// `p^(v + r)` becomes `m` modulo `p^r`, and the reverse. Towards a lower power, the caller
    /// must know that plaintexts are such multiples, or the result is wrong.
    ///
    /// # Errors
    /// [`Error::PlaintextMismatch`] for a power of another prime; [`Error::NoiseExhausted`];
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn with_plaintext_modulus(&self, a: &Ciphertext, t: Modulus) -> Result<Ciphertext> {
        let form = self.rules().with_modulus(self.form(a)?, t)?;
        Ok(Ciphertext::new(a.inner.clone(), form))
    }

    /// Applies `X -> X^g` and returns to the same key. Cost: 1 key switch.
    ///
    /// # Errors
    /// [`Error::MissingGaloisKey`]; [`Error::NoiseExhausted`]; [`Error::ParamsMismatch`];
    /// [`Error::KeyMismatch`].
    pub fn automorphism(&self, a: &Ciphertext, g: GaloisElement) -> Result<Ciphertext> {
        let form = self.image(self.form(a)?, g)?;
        Ok(Ciphertext::new(self.inner.automorphism(&a.inner, g)?, form))
    }

    fn image(&self, a: Form, g: GaloisElement) -> Result<Form> {
        if g.0 == 1 {
            return Ok(a);
        }
        const OP: &str = "automorphism";
        let key_level = self.keys().key_level(self.params.rlwe(), a.level, &[g]);
        // Images also change the sign of coefficients, which matters for even `t`.
        self.rules().sum_automorphisms(OP, self.rules().negated(OP, a)?, 1, 1, key_level)
    }

    /// Rotates both rows left by `k` columns. Cost: 1 key switch.
    ///
    /// # Errors
    /// See [`Evaluator::automorphism`].
    pub fn rotate(&self, a: &Ciphertext, k: i64) -> Result<Ciphertext> {
        self.automorphism(a, GaloisElement::rotation(self.params.log_n(), k))
    }

    /// Exchanges the two rows. Cost: 1 key switch.
    ///
    /// # Errors
    /// See [`Evaluator::automorphism`].
    pub fn swap_rows(&self, a: &Ciphertext) -> Result<Ciphertext> {
        self.automorphism(a, GaloisElement::conjugation(self.params.log_n()))
    }

    /// Rotates all `N` slots left by `k`, as one vector of row 0 and then row 1. Cost: 2 key
    /// switches and a product with a mask, which uses as much budget as any other product with a
    /// plaintext. [`Evaluator::rotate`] within rows costs less. The keys are the keys of
    /// `rotate(k)` and of `swap_rows`.
    ///
    /// # Errors
    /// [`Error::SlotMismatch`] for an encoder of fewer slots than `N`;
    /// [`Error::PlaintextMismatch`]; errors of [`Evaluator::automorphism`].
    pub fn rotate_flat(
        &self,
        a: &Ciphertext,
        encoder: &BatchEncoder,
        k: i64,
    ) -> Result<Ciphertext> {
        let slots = self.params.rlwe().basis().n();
        let found = encoder.slots();
        let columns = slots / 2;
        if found != slots {
            return Err(Error::SlotMismatch { op: "rotate_flat", found, expected: slots });
        }
        let k = k.rem_euclid(slots as i64) as usize;
        let swap = k >= columns;
        let step = k % columns;
        let rotated = self.rotate(a, step as i64)?;
        // Whole rows move, so no mask is needed and no product.
        if step == 0 {
            return if swap { self.swap_rows(&rotated) } else { Ok(rotated) };
        }
        let swapped = self.swap_rows(&rotated)?;
        let (near, far) = if swap { (swapped, rotated) } else { (rotated, swapped) };
        let mask: Vec<i128> =
            (0..slots).map(|i| i128::from(i % columns < columns - step)).collect();
        // `mask (near - far) + far` selects between the two with one product instead of two.
        let kept = self.mul_plain(&self.sub(&near, &far)?, &encoder.encode(&mask)?)?;
        self.add(&kept, &far)
    }

    /// Prepares several automorphisms of `a`; see [`rlwe::Evaluator::hoist`].
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn hoist<'a>(&self, a: &'a Ciphertext) -> Result<Hoisted<'a>> {
        Ok(Hoisted { form: self.form(a)?, inner: self.inner.hoist(&a.inner)? })
    }

    /// Runs [`Evaluator::automorphism`] on a hoisted ciphertext. The result is the same, bit for
    /// bit.
    ///
    /// # Errors
    /// See [`Evaluator::automorphism`].
    pub fn automorphism_hoisted(&self, a: &Hoisted<'_>, g: GaloisElement) -> Result<Ciphertext> {
        let form = self.image(a.form, g)?;
        Ok(Ciphertext::new(self.inner.automorphism_hoisted(&a.inner, g)?, form))
    }

    /// Runs [`Evaluator::rotate`] on a hoisted ciphertext.
    ///
    /// # Errors
    /// See [`Evaluator::automorphism`].
    pub fn rotate_hoisted(&self, a: &Hoisted<'_>, k: i64) -> Result<Ciphertext> {
        self.automorphism_hoisted(a, GaloisElement::rotation(self.params.log_n(), k))
    }

    /// Computes, for each group in turn, a sum of images; see
    /// [`rlwe::Evaluator::sum_automorphisms`].
    ///
    /// # Errors
    /// [`Error::Circuit`] for an empty group; errors of [`Evaluator::automorphism`].
    pub fn sum_automorphisms(
        &self,
        a: &Ciphertext,
        groups: &[&[GaloisElement]],
    ) -> Result<Ciphertext> {
        const OP: &str = "sum of images";
        let form = self.form(a)?;
        let key_level = self.keys().key_level(self.params.rlwe(), form.level, &groups.concat());
        let form = groups.iter().try_fold(form, |form, group| {
            let switches = group.iter().filter(|g| g.0 != 1).count();
            self.rules().sum_automorphisms(OP, form, group.len(), switches, key_level)
        })?;
        Ok(Ciphertext::new(self.inner.sum_automorphisms(&a.inner, groups)?, form))
    }

    /// Replaces each column by the sum of `width` columns of its row from there on, cyclically.
    /// Cost: `log2(width)` key switches. The keys are the keys of [`inner_sum_keys`].
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] for a width that is not a power of two up to `N / 2`; errors of
    /// [`Evaluator::automorphism`].
    pub fn inner_sum(&self, a: &Ciphertext, width: usize) -> Result<Ciphertext> {
        let pairs = inner_sum_pairs(self.params.log_n(), width)?;
        let groups: Vec<&[GaloisElement]> = pairs.iter().map(|pair| &pair[..]).collect();
        self.sum_automorphisms(a, &groups)
    }
}

/// Returns the ring of a plaintext.
fn ring_of(a: &PlainPoly) -> (Modulus, u32) {
    (a.modulus(), a.log_n())
}

/// Returns the keys of [`Evaluator::inner_sum`] at `level`.
///
/// # Errors
/// [`Error::InvalidSpec`] for a width that is not a power of two up to `N / 2`, and for an
/// unsupported dimension.
pub fn inner_sum_keys(log_n: u32, width: usize, level: Level) -> Result<KeyRequest> {
    let pairs = inner_sum_pairs(log_n, width)?;
    Ok(pairs.iter().fold(KeyRequest::new(), |request, [_, g]| request.automorphism(*g, level)))
}

fn inner_sum_pairs(log_n: u32, width: usize) -> Result<Vec<[GaloisElement; 2]>> {
    let most = degree(log_n)? / 2;
    if !width.is_power_of_two() || width > most {
        let problem = format!("{width} is not a power of two up to {most}");
        return Err(Error::InvalidSpec { field: "width", problem });
    }
    let pair = |i: u32| [GaloisElement(1), GaloisElement::rotation(log_n, 1 << i)];
    Ok((0..width.ilog2()).map(pair).collect())
}
