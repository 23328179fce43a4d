use super::{
    Ciphertext, Digits, EvaluationKeys, GaloisElement, Halves, KeySwitcher, Level, Lift, ModDown,
    Operand, Params, next_level,
};
use crate::{
    Error, Result,
    ring::{Eval, LimbSet, RnsPoly},
};
use std::sync::Arc;

/// Computes on ciphertexts of every scheme, as far as operations do not depend on the encoding of
/// messages.
///
/// Operands of different levels are brought to the lower level, which is exact. This does not work
/// from above the top of the chain to below it ([`Error::RaisedLevel`]).
#[derive(Clone)]
pub struct Evaluator {
    pub(super) switcher: KeySwitcher,
}

impl core::fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Evaluator").field("keys", self.keys()).finish_non_exhaustive()
    }
}

/// A ciphertext with the digits of its second polynomial, which hoisted automorphisms share.
pub struct Hoisted<'a> {
    ciphertext: &'a Ciphertext,
    digits: Digits,
}

impl core::fmt::Debug for Hoisted<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Hoisted").field(self.ciphertext).finish()
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

impl<'a, C> ProductSum<'a, C> {
    /// Makes a sum of one product without an addend.
    #[must_use]
    pub fn of(a: &'a C, b: &'a C) -> Self {
        Self { products: vec![(a, b)], addend: None }
    }

    /// Iterates over all ciphertexts of the sum, factors first.
    pub(crate) fn operands(&self) -> impl Iterator<Item = &'a C> {
        let factors = self.products.iter().flat_map(|&(a, b)| [a, b]);
        factors.chain(self.addend)
    }

    /// Returns the sum with `part` applied to each ciphertext.
    pub(crate) fn map<D>(&self, part: impl Fn(&'a C) -> &'a D) -> ProductSum<'a, D> {
        ProductSum {
            products: self.products.iter().map(|&(a, b)| (part(a), part(b))).collect(),
            addend: self.addend.map(part),
        }
    }
}

impl Evaluator {
    /// Makes an evaluator that holds `keys`.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`].
    pub fn new(params: &Params, keys: impl Into<Arc<EvaluationKeys>>) -> Result<Self> {
        Ok(Self { switcher: KeySwitcher::new(params, keys.into())? })
    }

    /// The parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        self.switcher.params()
    }

    /// The keys.
    #[must_use]
    pub fn keys(&self) -> &Arc<EvaluationKeys> {
        self.switcher.keys()
    }

    /// Rejects a ciphertext of other parameters or of another key.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn check(&self, a: &Ciphertext) -> Result<()> {
        a.check_owner(self.params(), self.keys().id)
    }

    /// Returns the common level of two ciphertexts.
    fn meet(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Level> {
        self.check(a)?;
        self.check(b)?;
        self.params().levels().lower(a.level, b.level)
    }

    fn limbs(&self, level: Level) -> LimbSet {
        self.params().limbs(level)
    }

    pub(super) fn holding(&self, polys: [RnsPoly<Eval>; 2], level: Level) -> Ciphertext {
        Ciphertext { polys, level, params: self.params().id(), key: self.keys().id }
    }

    /// Adds, at the lower level of the two. Cost: 2 row sums per limb.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`]; [`Error::RaisedLevel`].
    pub fn add(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        let level = self.meet(a, b)?;
        let basis = self.params().basis();
        let limbs = self.limbs(level);
        let polys = core::array::from_fn(|i| basis.add(limbs, &a.polys[i], &b.polys[i]));
        Ok(self.holding(polys, level))
    }

    /// `a += b`; see [`Evaluator::add`].
    ///
    /// # Errors
    /// See [`Evaluator::add`].
    pub fn add_assign(&self, a: &mut Ciphertext, b: &Ciphertext) -> Result<()> {
        let level = self.meet(a, b)?;
        self.truncate(a, level);
        for (x, y) in a.polys.iter_mut().zip(&b.polys) {
            self.params().basis().add_assign(x, y);
        }
        Ok(())
    }

    /// Subtracts, at the lower level of the two.
    ///
    /// # Errors
    /// See [`Evaluator::add`].
    pub fn sub(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        let level = self.meet(a, b)?;
        let basis = self.params().basis();
        let limbs = self.limbs(level);
        let polys = core::array::from_fn(|i| basis.sub(limbs, &a.polys[i], &b.polys[i]));
        Ok(self.holding(polys, level))
    }

    /// Negates.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn neg(&self, a: &Ciphertext) -> Result<Ciphertext> {
        self.check(a)?;
        let mut out = a.clone();
        for poly in &mut out.polys {
            self.params().basis().neg_assign(poly);
        }
        Ok(out)
    }

    /// Adds an encoded message that has the primes of `level`, at the lower level of the two.
    ///
    /// # Errors
    /// See [`Evaluator::add`].
    pub(crate) fn add_message(
        &self,
        a: &Ciphertext,
        message: &RnsPoly<Eval>,
        level: Level,
    ) -> Result<Ciphertext> {
        self.check(a)?;
        let level = self.params().levels().lower(a.level, level)?;
        let mut out = a.clone();
        self.truncate(&mut out, level);
        self.params().basis().add_assign(&mut out.polys[0], message);
        Ok(out)
    }

    /// Multiplies by an encoded message that has the primes of `level`, at the lower level of the
    /// two. Cost: 2 row products per limb.
    ///
    /// # Errors
    /// See [`Evaluator::add`].
    pub(crate) fn mul_message(
        &self,
        a: &Ciphertext,
        message: &RnsPoly<Eval>,
        level: Level,
    ) -> Result<Ciphertext> {
        self.check(a)?;
        let level = self.params().levels().lower(a.level, level)?;
        let basis = self.params().basis();
        let limbs = self.limbs(level);
        let polys = a.polys.each_ref().map(|poly| basis.mul_sum(limbs, &[poly], &[message]));
        Ok(self.holding(polys, level))
    }

    /// Adds an integer, as the constant coefficient of a message.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub(crate) fn add_integer(&self, a: &Ciphertext, integer: i128) -> Result<Ciphertext> {
        self.check(a)?;
        let [c0, c1] = &a.polys;
        let c0 = self.params().basis().add_constant(c0, |m| m.reduce_i128(integer));
        Ok(self.holding([c0, c1.clone()], a.level))
    }

    /// Multiplies by an integer. Cost: 2 row products per limb.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub(crate) fn mul_integer(&self, a: &Ciphertext, integer: i128) -> Result<Ciphertext> {
        self.check(a)?;
        let basis = self.params().basis();
        let limbs = self.limbs(a.level);
        let factor = |i| basis.modulus(limbs, i).reduce_i128(integer);
        Ok(self.holding(a.polys.each_ref().map(|poly| basis.scale(poly, factor)), a.level))
    }

    /// Sums products with integers at the lowest level of the terms, in one pass. Cost: 2 row
    /// products per limb and term.
    ///
    /// # Errors
    /// Errors of [`Evaluator::add`]; [`Error::Circuit`] without terms.
    pub(crate) fn mul_integer_sum(&self, terms: &[(&Ciphertext, i128)]) -> Result<Ciphertext> {
        let level = self.lowest("sum of products", terms.iter().map(|&(a, _)| a))?;
        let basis = self.params().basis();
        let limbs = self.limbs(level);
        let polys = core::array::from_fn(|half| {
            let rows: Vec<_> = terms.iter().map(|(a, _)| &a.polys[half]).collect();
            basis.dot(limbs, &rows, |i| {
                let m = basis.modulus(limbs, i);
                terms.iter().map(|&(_, c)| m.reduce_i128(c)).collect()
            })
        });
        Ok(self.holding(polys, level))
    }

    /// Computes several sums of products of the same ciphertexts with integers, at the lowest level
    /// of the ciphertexts, in one pass. Each sum has its own row of integers. Cost: 2 row products
    /// per limb, ciphertext and sum.
    ///
    /// # Errors
    /// Errors of [`Evaluator::mul_integer_sum`]; [`Error::Circuit`] for a row of another length.
    pub(crate) fn mul_integer_sums(
        &self,
        xs: &[&Ciphertext],
        rows: &[Vec<i128>],
    ) -> Result<Vec<Ciphertext>> {
        const OP: &str = "sums of products";
        let level = self.lowest(OP, xs.iter().copied())?;
        if let Some(row) = rows.iter().find(|row| row.len() != xs.len()) {
            let found = row.len();
            let needed = xs.len();
            let problem = format!("{OP}: {found} factors were given for {needed} ciphertexts");
            return Err(Error::Circuit(problem));
        }
        let basis = self.params().basis();
        let limbs = self.limbs(level);
        let [first, second] = [0, 1].map(|half| {
            let polys: Vec<_> = xs.iter().map(|a| &a.polys[half]).collect();
            basis.dots(limbs, &polys, rows.len(), |k, i| {
                let m = basis.modulus(limbs, i);
                rows[k].iter().map(|&c| m.reduce_i128(c)).collect()
            })
        });
        let both = first.into_iter().zip(second);
        Ok(both.map(|(first, second)| self.holding([first, second], level)).collect())
    }

    /// Returns the common level of several ciphertexts.
    fn lowest<'a>(
        &self,
        op: &'static str,
        mut operands: impl Iterator<Item = &'a Ciphertext>,
    ) -> Result<Level> {
        let first = operands.next();
        let first =
            first.ok_or_else(|| Error::Circuit(format!("{op}: there is nothing to sum")))?;
        self.check(first)?;
        operands.try_fold(first.level, |level, next| {
            self.check(next)?;
            self.params().levels().lower(level, next.level)
        })
    }

    /// Computes sums of products, each relinearised by one key switch. If `rescale` is set, each is
    /// also divided by the primes of its level at no further cost. Two sums at a time share the
    /// reading of the key.
    ///
    /// A sum is at the lowest level of its terms, or one level below that.
    ///
    /// # Errors
    /// Errors of [`Evaluator::add`]; [`Error::MissingRelinearizationKey`];
    /// [`Error::LevelExhausted`]; [`Error::Circuit`] without products.
    pub fn mul_sums(
        &self,
        sums: &[ProductSum<'_, Ciphertext>],
        rescale: bool,
    ) -> Result<Vec<Ciphertext>> {
        let down = if rescale { ModDown::PAndLevel } else { ModDown::P };
        let products = sums.iter().map(|sum| self.product(sum, down));
        let mut products = products.collect::<Result<Vec<_>>>()?.into_iter().peekable();
        let mut out = Vec::with_capacity(sums.len());
        while let Some(first) = products.next() {
            // Only sums of one level use the same key.
            match products.next_if(|second| second.level == first.level) {
                Some(second) => out.extend(Product::relinearize_pair([first, second], self)?),
                None => out.push(first.relinearize(self)?),
            }
        }
        Ok(out)
    }

    fn product<'a>(&self, sum: &ProductSum<'a, Ciphertext>, down: ModDown) -> Result<Product<'a>> {
        const OP: &str = "sum of products";
        if sum.products.is_empty() {
            return Err(Error::Circuit(format!("{OP}: at least one product is needed")));
        }
        let level = self.lowest(OP, sum.operands())?;
        let after = match down {
            ModDown::P => level,
            ModDown::PAndLevel => next_level(OP, level)?,
        };
        let factors = sum.products.iter().map(|&(a, b)| [a, b]).collect();
        Ok(Product { factors, addend: sum.addend, level, down, after })
    }

    /// Relinearises a product of three polynomials, `c_0 + c_1 s + c_2 s^2`, modulo the primes of
    /// `level`. The result is divided by these primes if `rescale` is set. Cost: 1 key switch.
    ///
    /// # Errors
    /// [`Error::MissingRelinearizationKey`]; [`Error::LevelExhausted`].
    pub(crate) fn relinearize(
        &self,
        tensor: &[RnsPoly<Eval>; 3],
        level: Level,
        rescale: bool,
    ) -> Result<Ciphertext> {
        let (down, after) = match rescale {
            true => (ModDown::PAndLevel, next_level("relinearize and rescale", level)?),
            false => (ModDown::P, level),
        };
        let key = self.switcher.relinearization_key(level)?;
        let polys = self.switcher.switch(Operand::Tensor(tensor), level, key, down, None);
        Ok(self.holding(polys, after))
    }

    /// Divides by the primes of the level, rounding to the nearest. Cost: 2 transforms per limb.
    ///
    /// Reference: [CHKKS18](https://eprint.iacr.org/2018/931), section 4. Deviation: the division
    /// rounds to the nearest.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] at level 0; [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn rescale_assign(&self, a: &mut Ciphertext) -> Result<()> {
        self.check(a)?;
        let next = next_level("rescale", a.level)?;
        let params = self.params();
        a.polys = params.rescale(a.level).divide(params.basis(), a.polys.each_ref());
        a.level = next;
        Ok(())
    }

    /// Drops primes down to `level`. Messages stay the same.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] if `level` is above the level of `a`; [`Error::RaisedLevel`];
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn drop_to(&self, a: &Ciphertext, level: Level) -> Result<Ciphertext> {
        self.check_drop(a, level)?;
        let basis = self.params().basis();
        let limbs = self.limbs(level);
        let polys = a.polys.each_ref().map(|poly| basis.restricted(poly, limbs));
        Ok(self.holding(polys, level))
    }

    /// Runs [`Evaluator::drop_to`] in place.
    ///
    /// # Errors
    /// See [`Evaluator::drop_to`].
    pub fn drop_to_assign(&self, a: &mut Ciphertext, level: Level) -> Result<()> {
        self.check_drop(a, level)?;
        self.truncate(a, level);
        Ok(())
    }

    pub(super) fn check_drop(&self, a: &Ciphertext, level: Level) -> Result<()> {
        self.check(a)?;
        self.params().levels().drop(a.level, level).map(drop)
    }

    fn truncate(&self, a: &mut Ciphertext, level: Level) {
        let q = self.limbs(level).q();
        for poly in &mut a.polys {
            poly.truncate(q);
        }
        a.level = level;
    }

    /// Lifts the ciphertext modulo `q_0` to every prime up to level `to`: its message `m` becomes
    /// `m + q_0 I` for a small polynomial `I`. Primes of `a` above level 0 are ignored, which is
    /// exact.
    ///
    /// If the keys have an ephemeral secret of weight `h`, the ciphertext goes through it and
    /// `|I| <= (h + 1) / 2`; see [`Raise`](super::Raise). Otherwise the ciphertext stays under the
    /// main secret, and `h` is the weight of that. Cost: 4 transforms per limb and 1 key switch at
    /// level 0; without such keys 2 transforms per limb.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`]; [`Error::MissingRaisingKey`] if the keys are for lower levels;
    /// [`Error::RaisingDivisorMismatch`] if they divide; [`Error::ParamsMismatch`];
    /// [`Error::KeyMismatch`].
    pub fn mod_raise(&self, a: &Ciphertext, to: Level) -> Result<Ciphertext> {
        if self.keys().raise.is_some() {
            return self.raise(a, to, Lift { divisor: 1, lift: &self.lift_residues() });
        }
        // Only primes of level 0 are read, so any level of the chain will do, but no upper one.
        self.check_drop(a, Level(0))?;
        self.params().check_level(to)?;
        let polys = self.lift_residues()(&a.polys, [self.limbs(to); 2]);
        Ok(self.holding(polys, to))
    }

    /// Interprets residues modulo `q_0` as their representatives next to zero.
    pub(super) fn lift_residues(&self) -> impl Fn(&Halves, [LimbSet; 2]) -> Halves + use<'_> {
        let params = self.params();
        |a, limbs| params.lift().lift_to(params.basis(), a.each_ref(), limbs)
    }

    /// Runs [`Evaluator::mod_raise`] through an ephemeral secret with another way to lift.
    ///
    /// # Errors
    /// Errors of [`Evaluator::mod_raise`]; [`Error::MissingRaisingKey`] also without keys;
    /// [`Error::RaisingDivisorMismatch`].
    pub(crate) fn raise(&self, a: &Ciphertext, to: Level, lift: Lift<'_>) -> Result<Ciphertext> {
        self.check_drop(a, Level(0))?;
        Ok(self.holding(self.switcher.raise(&a.polys, to, lift)?, to))
    }

    /// Applies `X -> X^g` and returns to the same key. Cost: 1 key switch.
    ///
    /// # Errors
    /// [`Error::MissingGaloisKey`]; [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn automorphism(&self, a: &Ciphertext, g: GaloisElement) -> Result<Ciphertext> {
        self.check(a)?;
        if g.0 == 1 {
            return Ok(a.clone());
        }
        let key = self.switcher.galois_key(g, a.level)?;
        let operand = Operand::Ciphertext(&a.polys);
        let g = Some(&key.permutation);
        let polys = self.switcher.switch(operand, a.level, &key.key, ModDown::P, g);
        Ok(self.holding(polys, a.level))
    }

    /// Computes, for each group in turn, the sum of the images of `a` under its automorphisms, one
    /// of which may be the identity, under the same key. Cost per group: 1 decomposition, a product
    /// with a key for each image and 1 division.
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
        self.check(a)?;
        let params = self.params();
        let level = a.level;
        // One key level for all groups, since the first polynomial stays modulo the same special
        // primes.
        let key_level = self.keys().key_level(params, level, &groups.concat());
        let special = params.limbs_of_keys(key_level, level).p();
        let key = |&g: &GaloisElement| match g.0 {
            1 => Ok(None),
            _ => self.switcher.galois_key_of(key_level, g, level).map(Some),
        };
        let group = |group: &&[GaloisElement]| match group.is_empty() {
            true => {
                Err(Error::Circuit("sum of images: at least one is needed in each group".into()))
            }
            false => group.iter().map(key).collect(),
        };
        let groups: Vec<_> = groups.iter().map(group).collect::<Result<_>>()?;
        Ok(self.holding(self.switcher.sum_automorphisms(&a.polys, level, special, &groups), level))
    }

    /// Prepares several automorphisms of `a`: decomposes and extends its digits once, for keys for
    /// every level. Level keys do not use these digits.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn hoist<'a>(&self, a: &'a Ciphertext) -> Result<Hoisted<'a>> {
        self.check(a)?;
        let operand = Operand::Ciphertext(&a.polys);
        let special = self.params().key_limbs(a.level).p();
        Ok(Hoisted { ciphertext: a, digits: self.switcher.digits(operand, a.level, special) })
    }

    /// Runs [`Evaluator::automorphism`] on a hoisted ciphertext. The result is the same, bit for
    /// bit.
    ///
    /// # Errors
    /// See [`Evaluator::automorphism`].
    pub fn automorphism_hoisted(&self, a: &Hoisted<'_>, g: GaloisElement) -> Result<Ciphertext> {
        let ciphertext = a.ciphertext;
        self.check(ciphertext)?;
        if g.0 == 1 {
            return Ok(ciphertext.clone());
        }
        let key = self.switcher.galois_key(g, ciphertext.level)?;
        let operand = Operand::Ciphertext(&ciphertext.polys);
        let g = Some(&key.permutation);
        let polys = self.switcher.switch_hoisted(operand, &a.digits, &key.key, g);
        Ok(self.holding(polys, ciphertext.level))
    }
}

/// A sum of products before relinearisation.
struct Product<'a> {
    factors: Vec<[&'a Ciphertext; 2]>,
    addend: Option<&'a Ciphertext>,
    level: Level,
    down: ModDown,
    /// Level of the result.
    after: Level,
}

impl Product<'_> {
    /// Returns the tensor of several products. A single product returns `None`: the key switch
    /// computes it on the way.
    fn tensor(&self, e: &Evaluator) -> Option<[RnsPoly<Eval>; 3]> {
        if self.factors.len() == 1 {
            return None;
        }
        let basis = e.params().basis();
        let limbs = e.limbs(self.level);
        let halves = |factor: usize, half: usize| -> Vec<&RnsPoly<Eval>> {
            self.factors.iter().map(|pair| &pair[factor].polys[half]).collect()
        };
        let [a0, a1] = [0, 1].map(|half| halves(0, half));
        let [b0, b1] = [0, 1].map(|half| halves(1, half));
        let mut c0 = basis.mul_sum(limbs, &a0, &b0);
        let c2 = basis.mul_sum(limbs, &a1, &b1);
        // Both cross terms in one sum, which is reduced once.
        let mut c1 = basis.mul_sum(limbs, &[a0, a1].concat(), &[b1, b0].concat());
        if let Some(addend) = self.addend {
            let [first, second] = &addend.polys;
            basis.add_assign(&mut c0, first);
            basis.add_assign(&mut c1, second);
        }
        Some([c0, c1, c2])
    }

    fn operand<'b>(&'b self, tensor: Option<&'b [RnsPoly<Eval>; 3]>) -> Operand<'b> {
        match tensor {
            Some(tensor) => Operand::Tensor(tensor),
            None => Operand::Product {
                factors: self.factors[0].map(|a| &a.polys),
                addend: self.addend.map(|c| &c.polys),
            },
        }
    }

    fn relinearize(self, e: &Evaluator) -> Result<Ciphertext> {
        let key = e.switcher.relinearization_key(self.level)?;
        let tensor = self.tensor(e);
        let operand = self.operand(tensor.as_ref());
        let polys = e.switcher.switch(operand, self.level, key, self.down, None);
        Ok(e.holding(polys, self.after))
    }

    /// Relinearises two sums of the same level.
    fn relinearize_pair([a, b]: [Self; 2], e: &Evaluator) -> Result<[Ciphertext; 2]> {
        debug_assert!(a.level == b.level && a.down == b.down);
        let key = e.switcher.relinearization_key(a.level)?;
        let tensors = [&a, &b].map(|product| product.tensor(e));
        let operands = [a.operand(tensors[0].as_ref()), b.operand(tensors[1].as_ref())];
        let polys = e.switcher.switch_pair(operands, a.level, key, a.down);
        Ok(polys.map(|polys| e.holding(polys, a.after)))
    }
}
