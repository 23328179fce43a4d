use super::{Ciphertext, Complex, Encoder, Params, Plaintext, Scale};
use crate::{
    Error, Result,
    ring::{Eval, LimbSet, RnsPoly},
    rlwe::{self, Digits, Down, EvaluationKeys, GaloisElement, KeySwitcher, Level, Operand},
};
use std::sync::Arc;

/// Computes on ciphertexts. `Send + Sync`: share one by reference.
///
/// Plain verbs return a new ciphertext; `_assign` overwrites the first operand.
/// Operands of different levels are brought to the lower one, which is exact, but not from
/// above the top of the chain to below ([`Error::RaisedLevel`]); different scales are an error,
/// see [`Evaluator::match_scale`].
#[derive(Clone)]
pub struct Evaluator {
    params: Params,
    encoder: Encoder,
    pub(super) switcher: KeySwitcher,
}

/// A ciphertext with the digits of its second polynomial: what hoisted rotations
/// share.
pub struct Hoisted<'a> {
    ciphertext: &'a Ciphertext,
    digits: Digits,
}

impl Evaluator {
    /// An evaluator that holds `keys`.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`].
    pub fn new(params: &Params, keys: Arc<EvaluationKeys>) -> Result<Self> {
        Ok(Self {
            params: params.clone(),
            encoder: Encoder::new(params),
            switcher: KeySwitcher::new(params.rlwe(), keys)?,
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
        self.switcher.keys()
    }

    /// An encoder for the same parameters.
    #[must_use]
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    pub(super) fn check(&self, a: &Ciphertext) -> Result<()> {
        self.params.rlwe().check_id("ciphertext", a.params_id())?;
        if a.key_id() != self.keys().id {
            let (found, expected) = (a.key_id(), self.keys().id);
            return Err(Error::KeyMismatch { what: "ciphertext", found, expected });
        }
        Ok(())
    }

    fn check_pair(&self, op: &'static str, a: &Ciphertext, b: &Ciphertext) -> Result<Level> {
        self.check(a)?;
        self.check(b)?;
        if a.log_slots != b.log_slots {
            return Err(Error::SlotMismatch { op, found: b.slots(), expected: a.slots() });
        }
        self.params.chain().lower(a.level(), b.level())
    }

    fn check_plain(&self, op: &'static str, a: &Ciphertext, b: &Plaintext) -> Result<Level> {
        self.check(a)?;
        self.params.rlwe().check_id("plaintext", b.params)?;
        if a.log_slots != b.log_slots {
            return Err(Error::SlotMismatch { op, found: b.slots(), expected: a.slots() });
        }
        self.params.chain().lower(a.level(), b.level)
    }

    /// The scale of a product, if the modulus holds it.
    pub(super) fn product_scale(
        &self,
        op: &'static str,
        a: Scale,
        b: Scale,
        level: Level,
    ) -> Result<Scale> {
        let scale = a * b;
        let log2_q = self.params.chain().log2_q(level);
        if !scale.is_valid() || scale.log2() + 1.0 > log2_q {
            return Err(Error::ScaleOutOfRange { op, log2_scale: scale.log2(), log2_q });
        }
        Ok(scale)
    }

    fn limbs(&self, level: Level) -> LimbSet {
        self.params.rlwe().limbs(level)
    }

    pub(super) fn wrap(
        &self,
        like: &Ciphertext,
        polys: [RnsPoly<Eval>; 2],
        level: Level,
        scale: Scale,
    ) -> Ciphertext {
        let (params, key) = (like.params_id(), like.key_id());
        Ciphertext {
            inner: rlwe::Ciphertext { polys, level, params, key },
            scale,
            log_slots: like.log_slots,
        }
    }

    /// Slotwise sum.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `min(a, b)` | equal | none | 2 row sums a limb |
    ///
    /// # Errors
    /// [`Error::ScaleMismatch`]; [`Error::SlotMismatch`]; [`Error::ParamsMismatch`];
    /// [`Error::KeyMismatch`].
    pub fn add(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        let level = self.check_pair("add", a, b)?;
        match_scales("add", a.scale, b.scale)?;
        let basis = self.params.rlwe().basis();
        let polys = core::array::from_fn(|i| {
            basis.add(self.limbs(level), &a.inner.polys[i], &b.inner.polys[i])
        });
        Ok(self.wrap(a, polys, level, a.scale))
    }

    /// `a += b`, as [`Evaluator::add`].
    ///
    /// # Errors
    /// As [`Evaluator::add`].
    pub fn add_assign(&self, a: &mut Ciphertext, b: &Ciphertext) -> Result<()> {
        let level = self.check_pair("add", a, b)?;
        match_scales("add", a.scale, b.scale)?;
        self.truncate(a, level);
        let basis = self.params.rlwe().basis();
        for (x, y) in a.inner.polys.iter_mut().zip(&b.inner.polys) {
            basis.add_assign(x, y);
        }
        Ok(())
    }

    /// Slotwise difference, as [`Evaluator::add`].
    ///
    /// # Errors
    /// As [`Evaluator::add`].
    pub fn sub(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        let level = self.check_pair("subtract", a, b)?;
        match_scales("subtract", a.scale, b.scale)?;
        let basis = self.params.rlwe().basis();
        let polys = core::array::from_fn(|i| {
            basis.sub(self.limbs(level), &a.inner.polys[i], &b.inner.polys[i])
        });
        Ok(self.wrap(a, polys, level, a.scale))
    }

    /// Slotwise negation.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn neg(&self, a: &Ciphertext) -> Result<Ciphertext> {
        self.check(a)?;
        let mut out = a.clone();
        for poly in &mut out.inner.polys {
            self.params.rlwe().basis().neg_assign(poly);
        }
        Ok(out)
    }

    /// Sum with a plaintext of the same scale.
    ///
    /// # Errors
    /// As [`Evaluator::add`].
    pub fn add_plain(&self, a: &Ciphertext, b: &Plaintext) -> Result<Ciphertext> {
        let level = self.check_plain("add", a, b)?;
        match_scales("add", a.scale, b.scale)?;
        let mut out = a.clone();
        self.truncate(&mut out, level);
        self.params.rlwe().basis().add_assign(&mut out.inner.polys[0], &b.poly);
        Ok(out)
    }

    /// Product with a plaintext; not rescaled.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `min(a, b)` | `a b` | none | 2 row products a limb |
    ///
    /// # Errors
    /// [`Error::ScaleOutOfRange`]; [`Error::SlotMismatch`];
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn mul_plain(&self, a: &Ciphertext, b: &Plaintext) -> Result<Ciphertext> {
        let level = self.check_plain("multiply", a, b)?;
        let scale = self.product_scale("multiply", a.scale, b.scale, level)?;
        let basis = self.params.rlwe().basis();
        let polys = core::array::from_fn(|i| {
            basis.mul_sum(self.limbs(level), &[&a.inner.polys[i]], &[&b.poly])
        });
        Ok(self.wrap(a, polys, level, scale))
    }

    /// Sum with a constant in every slot.
    ///
    /// # Errors
    /// [`Error::NotFinite`]; [`Error::ValueTooLarge`]; [`Error::ParamsMismatch`];
    /// [`Error::KeyMismatch`].
    pub fn add_const(&self, a: &Ciphertext, c: Complex<f64>) -> Result<Ciphertext> {
        self.check(a)?;
        if c.im != 0.0 {
            return self.add_plain(a, &self.constant(a, c, a.scale)?);
        }
        let integer = self.integer(c.re, a.scale, a.level())?;
        let basis = self.params.rlwe().basis();
        let [c0, c1] = &a.inner.polys;
        let c0 = basis.add_constant(c0, |m| m.reduce_i128(integer));
        Ok(self.wrap(a, [c0, c1.clone()], a.level(), a.scale))
    }

    /// Product with a constant in every slot, encoded at `scale`: a real one as the
    /// integer `round(c scale)`; not rescaled.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `a` | `a scale` | none | 2 row products a limb |
    ///
    /// # Errors
    /// [`Error::NotFinite`]; [`Error::ValueTooLarge`]; [`Error::ScaleOutOfRange`];
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn mul_const(&self, a: &Ciphertext, c: Complex<f64>, scale: Scale) -> Result<Ciphertext> {
        self.check(a)?;
        if c.im != 0.0 {
            return self.mul_plain(a, &self.constant(a, c, scale)?);
        }
        let level = a.level();
        let product = self.product_scale("multiply", a.scale, scale, level)?;
        let integer = self.integer(c.re, scale, level)?;
        let (basis, limbs) = (self.params.rlwe().basis(), self.limbs(level));
        let factor = |i| basis.modulus(limbs, i).reduce_i128(integer);
        let polys = a.inner.polys.each_ref().map(|poly| basis.scale(poly, factor));
        Ok(self.wrap(a, polys, level, product))
    }

    /// The sum of products with real constants, `sum_i c_i a_i`, each encoded at its scale
    /// so that all products have the same; not rescaled.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | the lowest | `a_i scale_i` | none | 2 row products a limb and term, in one pass |
    ///
    /// # Errors
    /// As [`Evaluator::mul_const`]; [`Error::ScaleMismatch`]; [`Error::SlotMismatch`];
    /// [`Error::Circuit`] without terms.
    pub fn mul_const_sum(&self, terms: &[(&Ciphertext, f64, Scale)]) -> Result<Ciphertext> {
        const OP: &str = "sum of products";
        let Some(&(first, _, first_scale)) = terms.first() else {
            return Err(Error::Circuit(format!("{OP}: at least one term is needed")));
        };
        let mut level = first.level();
        for (a, ..) in terms {
            let common = self.check_pair(OP, first, a)?;
            level = self.params.chain().lower(level, common)?;
        }
        let scale = self.product_scale(OP, first.scale, first_scale, level)?;
        let mut integers = Vec::with_capacity(terms.len());
        for &(a, c, own) in terms {
            match_scales(OP, scale, a.scale * own)?;
            integers.push(self.integer(c, own, level)?);
        }
        let (basis, limbs) = (self.params.rlwe().basis(), self.limbs(level));
        let polys = core::array::from_fn(|half| {
            let rows: Vec<_> = terms.iter().map(|(a, ..)| &a.inner.polys[half]).collect();
            basis.dot(limbs, &rows, |i| {
                let m = basis.modulus(limbs, i);
                integers.iter().map(|&c| m.reduce_i128(c)).collect()
            })
        });
        Ok(self.wrap(first, polys, level, scale))
    }

    /// `round(c scale)`, if that fits half the modulus.
    fn integer(&self, c: f64, scale: Scale, level: Level) -> Result<i128> {
        if !c.is_finite() {
            return Err(Error::NotFinite { index: 0, value: c.to_string() });
        }
        let product = scale.to_dd() * sudare_arith::dd::Dd::from(c);
        let (needed_bits, available_bits) =
            (product.to_f64().abs().log2(), self.params.chain().log2_q(level) - 1.0);
        product.round_i128().filter(|_| needed_bits < available_bits).ok_or(Error::ValueTooLarge {
            index: 0,
            needed_bits,
            available_bits,
        })
    }

    fn constant(&self, a: &Ciphertext, c: Complex<f64>, scale: Scale) -> Result<Plaintext> {
        let mut plain = self.encoder.encode(&[c], a.level(), scale)?;
        plain.log_slots = a.log_slots;
        Ok(plain)
    }

    /// Slotwise product, relinearised, not rescaled.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `min(a, b)` | `a b` | relinearisation | 1 key switch |
    ///
    /// # Errors
    /// [`Error::MissingRelinearizationKey`]; [`Error::ScaleOutOfRange`];
    /// [`Error::SlotMismatch`]; [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn mul(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        self.product(a, b, Down::Special)?.relinearize(self)
    }

    /// Slotwise product, relinearised and rescaled: one division by `P` and the
    /// primes of the level, so that the rescaling costs nothing.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `min(a, b) - 1` | `a b / divisor` | relinearisation | 1 key switch |
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] at level 0; else as [`Evaluator::mul`].
    pub fn mul_rescale(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        self.product(a, b, Down::SpecialAndLevel)?.relinearize(self)
    }

    /// [`Evaluator::mul`] of each pair; two at a time share the reading of the key.
    ///
    /// # Errors
    /// As [`Evaluator::mul`].
    pub fn mul_many(&self, pairs: &[(&Ciphertext, &Ciphertext)]) -> Result<Vec<Ciphertext>> {
        self.products(pairs.iter().map(|&(a, b)| self.product(a, b, Down::Special)))
    }

    /// [`Evaluator::mul_rescale`] of each pair, as [`Evaluator::mul_many`].
    ///
    /// # Errors
    /// As [`Evaluator::mul_rescale`].
    pub fn mul_rescale_many(
        &self,
        pairs: &[(&Ciphertext, &Ciphertext)],
    ) -> Result<Vec<Ciphertext>> {
        let down = Down::SpecialAndLevel;
        self.products(pairs.iter().map(|&(a, b)| self.product(a, b, down)))
    }

    /// A sum of products, all at one scale, relinearised together and rescaled: one key switch
    /// and one division for all.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | the lowest, `- 1` | `a_i b_i / divisor` | relinearisation | 1 key switch, 8 row products a limb and product if there are several |
    ///
    /// # Errors
    /// As [`Evaluator::mul_rescale`]; [`Error::ScaleMismatch`]; [`Error::Circuit`] without
    /// products.
    pub fn mul_sum_rescale(&self, sum: &ProductSum<'_, Ciphertext>) -> Result<Ciphertext> {
        self.product_sum(sum)?.relinearize(self)
    }

    /// [`Evaluator::mul_sum_rescale`] of each, as [`Evaluator::mul_many`].
    ///
    /// # Errors
    /// As [`Evaluator::mul_sum_rescale`].
    pub fn mul_sum_rescale_many(
        &self,
        sums: &[ProductSum<'_, Ciphertext>],
    ) -> Result<Vec<Ciphertext>> {
        self.products(sums.iter().map(|sum| self.product_sum(sum)))
    }

    /// Two at a time if they have one level.
    fn products<'a>(
        &self,
        products: impl Iterator<Item = Result<Product<'a>>>,
    ) -> Result<Vec<Ciphertext>> {
        let mut out = Vec::new();
        let mut products = products.collect::<Result<Vec<_>>>()?.into_iter().peekable();
        while let Some(first) = products.next() {
            match products.next_if(|second| second.level == first.level) {
                Some(second) => out.extend(Product::relinearize_pair([first, second], self)?),
                None => out.push(first.relinearize(self)?),
            }
        }
        Ok(out)
    }

    fn product<'a>(&self, a: &'a Ciphertext, b: &'a Ciphertext, down: Down) -> Result<Product<'a>> {
        let level = self.check_pair("multiply", a, b)?;
        let after = match down {
            Down::Special => level,
            Down::SpecialAndLevel => below("multiply and rescale", level)?,
        };
        let product = self.product_scale("multiply", a.scale, b.scale, level)?;
        let scale = match down {
            Down::Special => product,
            Down::SpecialAndLevel => product / self.params.chain().divisor(level),
        };
        Ok(Product { factors: vec![[a, b]], addend: None, level, down, after, scale })
    }

    fn product_sum<'a>(&self, sum: &ProductSum<'a, Ciphertext>) -> Result<Product<'a>> {
        const OP: &str = "sum of products";
        let Some(&(first, _)) = sum.products.first() else {
            return Err(Error::Circuit(format!("{OP}: at least one product is needed")));
        };
        let factors = sum.products.iter().flat_map(|&(a, b)| [a, b]);
        let mut level = first.level();
        for c in factors.chain(sum.addend) {
            let common = self.check_pair(OP, first, c)?;
            level = self.params.chain().lower(level, common)?;
        }
        let after = below(OP, level)?;
        let mut scales = Vec::with_capacity(sum.products.len());
        for (a, b) in &sum.products {
            scales.push(self.product_scale(OP, a.scale, b.scale, level)?);
        }
        let product = first.scale * sum.products[0].1.scale;
        for scale in scales.into_iter().chain(sum.addend.map(|c| c.scale)) {
            match_scales(OP, product, scale)?;
        }
        Ok(Product {
            factors: sum.products.iter().map(|&(a, b)| [a, b]).collect(),
            addend: sum.addend,
            level,
            down: Down::SpecialAndLevel,
            after,
            scale: product / self.params.chain().divisor(level),
        })
    }

    /// Divides by the primes of the level, rounding.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `- 1` | `/ divisor` | none | 2 transforms a limb |
    ///
    /// Reference: [CHKKS18](https://eprint.iacr.org/2018/931), section 4. Deviation:
    /// the division rounds to the nearest.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] at level 0; [`Error::ParamsMismatch`];
    /// [`Error::KeyMismatch`].
    pub fn rescale(&self, a: &Ciphertext) -> Result<Ciphertext> {
        let mut out = a.clone();
        self.rescale_assign(&mut out)?;
        Ok(out)
    }

    /// As [`Evaluator::rescale`], in place.
    ///
    /// # Errors
    /// As [`Evaluator::rescale`].
    pub fn rescale_assign(&self, a: &mut Ciphertext) -> Result<()> {
        self.check(a)?;
        let level = a.level();
        let next = below("rescale", level)?;
        let rlwe = self.params.rlwe();
        a.inner.polys = rlwe.rescale(level).divide(rlwe.basis(), a.inner.polys.each_ref());
        a.inner.level = next;
        a.scale = a.scale / self.params.chain().divisor(level);
        Ok(())
    }

    /// As [`Evaluator::drop_to`], in place.
    ///
    /// # Errors
    /// As [`Evaluator::drop_to`].
    pub fn drop_to_assign(&self, a: &mut Ciphertext, level: Level) -> Result<()> {
        self.check_drop(a, level)?;
        self.truncate(a, level);
        Ok(())
    }

    pub(super) fn check_drop(&self, a: &Ciphertext, level: Level) -> Result<()> {
        self.check(a)?;
        if level > a.level() {
            return Err(Error::LevelOutOfRange { found: level, max: a.level() });
        }
        self.params.chain().lower(a.level(), level).map(|_| ())
    }

    fn truncate(&self, a: &mut Ciphertext, level: Level) {
        let q = self.limbs(level).q();
        for poly in &mut a.inner.polys {
            poly.truncate(q);
        }
        a.inner.level = level;
    }

    /// Down to `level`, forgetting primes: values and scale stay.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] if `level` is above that of `a`; [`Error::RaisedLevel`];
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn drop_to(&self, a: &Ciphertext, level: Level) -> Result<Ciphertext> {
        self.check_drop(a, level)?;
        let (basis, limbs) = (self.params.rlwe().basis(), self.limbs(level));
        let polys = core::array::from_fn(|i| basis.restricted(&a.inner.polys[i], limbs));
        Ok(self.wrap(a, polys, level, a.scale))
    }

    /// Brings `a` to `level` with exactly the scale asked for, by a product with 1
    /// and a rescaling: `level` must be below that of `a`.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`]; [`Error::ScaleOutOfRange`] if the factor needed is
    /// below 1; [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn match_scale(&self, a: &Ciphertext, level: Level, scale: Scale) -> Result<Ciphertext> {
        self.check(a)?;
        if level >= a.level() {
            let (op, needed) = ("match_scale", (level.0 - a.level().0).saturating_add(1));
            return Err(Error::LevelExhausted { op, needed, level: a.level() });
        }
        let above = Level(level.0 + 1);
        let factor = scale * self.params.chain().divisor(above) / a.scale;
        if factor.to_f64() < 1.0 {
            let log2_q = self.params.chain().log2_q(above);
            let log2_scale = factor.log2();
            return Err(Error::ScaleOutOfRange { op: "match_scale", log2_scale, log2_q });
        }
        let dropped = self.drop_to(a, above)?;
        let mut out = self.mul_const(&dropped, Complex { re: 1.0, im: 0.0 }, factor)?;
        self.rescale_assign(&mut out)?;
        out.scale = scale;
        Ok(out)
    }

    /// The same integer plaintext read at another scale.
    ///
    /// # Errors
    /// [`Error::ScaleOutOfRange`] for a scale that is not a positive number;
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn with_scale(&self, a: &Ciphertext, scale: Scale) -> Result<Ciphertext> {
        self.check(a)?;
        if !scale.is_valid() {
            let log2_q = self.params.chain().log2_q(a.level());
            let log2_scale = scale.log2();
            return Err(Error::ScaleOutOfRange { op: "with_scale", log2_scale, log2_q });
        }
        let mut out = a.clone();
        out.scale = scale;
        Ok(out)
    }

    /// The ciphertext modulo `q_0`, lifted to every prime up to level `to`: the polynomial
    /// `m` that it holds becomes `m + q_0 I` for a small polynomial `I`, so the slots are
    /// no longer the values until a circuit has removed `q_0 I`. Primes of `a` above level
    /// 0 are ignored, which is exact.
    ///
    /// Through an ephemeral secret of weight `h` if the keys have one, and then
    /// `|I| <= (h + 1) / 2`; see [`rlwe::Raise`]. Otherwise under the main secret, whose
    /// weight takes the place of `h`.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `to` | `a` | to and from an ephemeral secret, or none | 4 transforms a limb and 1 key switch at level 0; without keys 2 transforms a limb |
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`]; [`Error::MissingRaisingKey`] if the keys are for lower
    /// levels; [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn mod_raise(&self, a: &Ciphertext, to: Level) -> Result<Ciphertext> {
        self.check_drop(a, Level(0))?;
        let polys = self.switcher.mod_raise(&a.inner.polys, to)?;
        Ok(self.wrap(a, polys, to, a.scale))
    }

    /// The same plaintext read as `2^log_slots` slots. Read as more slots, the values of `a`
    /// repeat; fewer are right only for values that do, which is the caller's to know.
    ///
    /// # Errors
    /// [`Error::TooManySlots`]; [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn with_log_slots(&self, a: &Ciphertext, log_slots: u32) -> Result<Ciphertext> {
        self.check(a)?;
        if log_slots >= self.params.log_n() {
            let found = 1usize.checked_shl(log_slots).unwrap_or(usize::MAX);
            return Err(Error::TooManySlots { found, slots: self.params.max_slots() });
        }
        Ok(Ciphertext { log_slots, ..a.clone() })
    }

    /// Slot `i` of the result is slot `i + k` of `a`: a left rotation by `k`.
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

    /// The element to rotate `a` by `k` with. Rotations repeat with the number of
    /// slots: of those equal to the one by `k`, one that has a key for the level of
    /// `a`, if there is any.
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

    /// The complex conjugate of every slot.
    ///
    /// # Errors
    /// As [`Evaluator::rotate`].
    pub fn conjugate(&self, a: &Ciphertext) -> Result<Ciphertext> {
        self.automorphism(a, GaloisElement::conjugation(self.params.log_n()))
    }

    /// `X -> X^g`, under the same key again.
    ///
    /// # Errors
    /// As [`Evaluator::rotate`].
    pub fn automorphism(&self, a: &Ciphertext, g: GaloisElement) -> Result<Ciphertext> {
        self.check(a)?;
        if g.0 == 1 {
            return Ok(a.clone());
        }
        let key = self.switcher.galois_key(g, a.level())?;
        let operand = Operand::Ciphertext(&a.inner.polys);
        let (key, g) = (&key.key, &key.permutation);
        let polys = self.switcher.switch(operand, a.level(), key, Down::Special, Some(g));
        Ok(self.wrap(a, polys, a.level(), a.scale))
    }

    /// For each group in turn, the sum of the images of `a` under its automorphisms, of which
    /// one may be the identity, under the same key again.
    ///
    /// | level | scale | keys | cost |
    /// |---|---|---|---|
    /// | `a` | `a` | every automorphism, all fitted alike or none | a group: 1 decomposition, a key product an image, 1 division |
    ///
    /// Reference: Ishimaki, Yamana, "Faster homomorphic trace-type function evaluation" (IEEE
    /// Access 9, 2021), Algorithm 5.
    ///
    /// # Errors
    /// [`Error::Circuit`] for an empty group; [`Error::MissingGaloisKey`];
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn sum_images(&self, a: &Ciphertext, groups: &[&[GaloisElement]]) -> Result<Ciphertext> {
        self.check(a)?;
        let level = a.level();
        let tier = self.keys().tier(self.params.rlwe(), level, &groups.concat());
        let special = self.params.rlwe().tier_limbs(tier, level).p();
        let key = |&g: &GaloisElement| match g.0 {
            1 => Ok(None),
            _ => self.switcher.galois_key_of(tier, g, level).map(Some),
        };
        let group = |group: &&[GaloisElement]| match group.is_empty() {
            true => Err(Error::Circuit("sum of images: a group of none".into())),
            false => group.iter().map(key).collect(),
        };
        let groups: Vec<_> = groups.iter().map(group).collect::<Result<_>>()?;
        let polys = self.switcher.sum_images(&a.inner.polys, level, special, &groups);
        Ok(self.wrap(a, polys, level, a.scale))
    }

    /// Prepares several rotations of `a`: its digits are cut and raised once, for keys that are
    /// not fitted. Rotations by fitted keys gain nothing.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn hoist<'a>(&self, a: &'a Ciphertext) -> Result<Hoisted<'a>> {
        self.check(a)?;
        let operand = Operand::Ciphertext(&a.inner.polys);
        let special = self.params.rlwe().key_limbs(a.level()).p();
        Ok(Hoisted { ciphertext: a, digits: self.switcher.digits(operand, a.level(), special) })
    }

    /// As [`Evaluator::rotate`] of the ciphertext that was hoisted. The result is
    /// the same, bit for bit.
    ///
    /// # Errors
    /// As [`Evaluator::rotate`].
    pub fn rotate_hoisted(&self, a: &Hoisted<'_>, k: i64) -> Result<Ciphertext> {
        let ciphertext = a.ciphertext;
        self.check(ciphertext)?;
        let g = self.rotation(ciphertext, k);
        if g.0 == 1 {
            return Ok(ciphertext.clone());
        }
        let key = self.switcher.galois_key(g, ciphertext.level())?;
        let operand = Operand::Ciphertext(&ciphertext.inner.polys);
        let (key, g) = (&key.key, &key.permutation);
        let polys = self.switcher.switch_hoisted(operand, &a.digits, key, Some(g));
        Ok(self.wrap(ciphertext, polys, ciphertext.level(), ciphertext.scale))
    }
}

/// `sum_i a_i b_i + c`, of ciphertexts.
#[derive(Debug, Clone)]
pub struct ProductSum<'a, C> {
    /// The `(a_i, b_i)`, one or more.
    pub products: Vec<(&'a C, &'a C)>,
    /// `c`, at the scale of the products.
    pub addend: Option<&'a C>,
}

/// A sum of products that is still to be computed.
struct Product<'a> {
    factors: Vec<[&'a Ciphertext; 2]>,
    addend: Option<&'a Ciphertext>,
    level: Level,
    down: Down,
    /// Level and scale of the result.
    after: Level,
    scale: Scale,
}

impl<'a> Product<'a> {
    /// What several products are before relinearisation; a single one is computed on the way.
    fn tensor(&self, e: &Evaluator) -> Option<[RnsPoly<Eval>; 3]> {
        if self.factors.len() == 1 {
            return None;
        }
        let (basis, limbs) = (e.params.rlwe().basis(), e.limbs(self.level));
        let halves = |factor: usize, half: usize| -> Vec<&RnsPoly<Eval>> {
            self.factors.iter().map(|pair| &pair[factor].inner.polys[half]).collect()
        };
        let [a0, a1] = [0, 1].map(|half| halves(0, half));
        let [b0, b1] = [0, 1].map(|half| halves(1, half));
        let mut c0 = basis.mul_sum(limbs, &a0, &b0);
        let c2 = basis.mul_sum(limbs, &a1, &b1);
        let mut c1 = basis.mul_sum(limbs, &[a0, a1].concat(), &[b1, b0].concat());
        if let Some(addend) = self.addend {
            let [first, second] = &addend.inner.polys;
            basis.add_assign(&mut c0, first);
            basis.add_assign(&mut c1, second);
        }
        Some([c0, c1, c2])
    }

    fn operand<'b>(&'b self, tensor: Option<&'b [RnsPoly<Eval>; 3]>) -> Operand<'b> {
        match tensor {
            Some(tensor) => Operand::Tensor(tensor),
            None => Operand::Product {
                factors: self.factors[0].map(|a| &a.inner.polys),
                addend: self.addend.map(|c| &c.inner.polys),
            },
        }
    }

    fn wrap(&self, e: &Evaluator, polys: [RnsPoly<Eval>; 2]) -> Ciphertext {
        e.wrap(self.factors[0][0], polys, self.after, self.scale)
    }

    fn relinearize(self, e: &Evaluator) -> Result<Ciphertext> {
        let key = e.switcher.relinearization_key(self.level)?;
        let tensor = self.tensor(e);
        let operand = self.operand(tensor.as_ref());
        Ok(self.wrap(e, e.switcher.switch(operand, self.level, key, self.down, None)))
    }

    /// Both of one level.
    fn relinearize_pair([a, b]: [Self; 2], e: &Evaluator) -> Result<[Ciphertext; 2]> {
        debug_assert!(a.level == b.level && a.down == b.down);
        let key = e.switcher.relinearization_key(a.level)?;
        let tensors = [&a, &b].map(|product| product.tensor(e));
        let operands = [a.operand(tensors[0].as_ref()), b.operand(tensors[1].as_ref())];
        let [first, second] = e.switcher.switch_pair(operands, a.level, key, a.down);
        Ok([a.wrap(e, first), b.wrap(e, second)])
    }
}

/// The level below, if there is one.
pub(super) fn below(op: &'static str, level: Level) -> Result<Level> {
    level.0.checked_sub(1).map(Level).ok_or(Error::LevelExhausted { op, needed: 1, level })
}

fn match_scales(op: &'static str, a: Scale, b: Scale) -> Result<()> {
    if a.matches(b) {
        Ok(())
    } else {
        Err(Error::ScaleMismatch { op, left: a.log2(), right: b.log2() })
    }
}
