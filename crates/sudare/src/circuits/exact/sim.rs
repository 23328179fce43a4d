//! An evaluator on public properties of ciphertexts, to dry-run circuits of integers.
//!
//! It rejects the same operations as the encrypted evaluator, and its results have the same levels,
//! factors and error bounds. It counts operations and records the keys that they would use. One run
//! of a circuit thus yields its depth, its cost and its exact [`KeyRequest`] before any key exists,
//! with the product of BGV or of BFV ([`Evaluator::with_tensor`]).
//!
//! ```
//! use sudare::{circuits::{Ops, exact::sim}, exact::{Params, preset}, rlwe::{KeyRequest, Level, Rates}};
//!
//! # fn main() -> sudare::Result<()> {
//! let params = Params::preset("toy-n8")?;
//! let top = params.top();
//! let t = params.plaintext_modulus();
//! let e = sim::Evaluator::new(&params, &KeyRequest::new());
//! let x = e.encrypt(top, params.fresh_factor(top, t)?)?;
//! let square = e.mul_rescale(&x, &x)?;
//! assert_eq!(square.level, Level(top.0 - 1));
//! assert_eq!((e.counts().products, e.used_keys().relinearize), (1, Some(top)));
//! assert!(e.work().seconds(&Rates::reference(params.log_n())) > 0.0);
//! # Ok(())
//! # }
//! ```

use super::{IntegerOps, IntegerSlots, LinearPlan, ops::match_unit};
use crate::{
    Error, Result,
    bfv::AuxiliaryPrimes,
    circuits::{Ops, counts::Counters, meter::Meter},
    exact::{
        Form, Modulus, Params, PlainNorms, PlainPoly, Tensor, Unit,
        norms::WeightNorms,
        raise_to,
        rules::{Alignment, FormSum, Rules, match_rings},
    },
    rlwe::{
        AutomorphismSum, GaloisElement, KeyRequest, Level, Levels, ProductSum, WeightForm, Work,
    },
};
use std::sync::{Mutex, PoisonError};

pub use crate::circuits::counts::Counts;

const OP: &str = "linear transform";

/// [`Ops`] on forms instead of ciphertexts, with either product. No key is needed.
#[derive(Debug)]
pub struct Evaluator {
    params: Params,
    /// Auxiliary primes for the product of BFV; `None` for BGV.
    auxiliary: Option<AuxiliaryPrimes>,
    /// Weight of the ephemeral secret of the keys, if any.
    ephemeral_weight: Option<u32>,
    meter: Meter,
    counters: Counters,
    used: Mutex<KeyRequest>,
}

/// Properties of an encoded matrix.
#[derive(Debug, Clone)]
pub struct Matrix {
    factor: Unit,
    sum: AutomorphismSum,
    needed: KeyRequest,
    weights: WeightForm,
    /// Norms of each stage, over all its weights together.
    stages: Vec<PlainNorms>,
}

impl Evaluator {
    /// Makes an evaluator under these parameters, with the product of BGV, and the level keys and
    /// the ephemeral secret of a request. All other keys are assumed to exist.
    #[must_use]
    pub fn new(params: &Params, keys: &KeyRequest) -> Self {
        Self::of(params, None, keys)
    }

    /// Makes an evaluator with either product; see [`Evaluator::new`].
    ///
    /// # Errors
    /// Errors of [`bfv::Evaluator::new`](crate::bfv::Evaluator::new) with the product of BFV.
    pub fn with_tensor(params: &Params, tensor: Tensor, keys: &KeyRequest) -> Result<Self> {
        let auxiliary = match tensor {
            Tensor::Plain => None,
            Tensor::Scaled => Some(AuxiliaryPrimes::new(params)?),
        };
        Ok(Self::of(params, auxiliary, keys))
    }

    fn of(params: &Params, auxiliary: Option<AuxiliaryPrimes>, keys: &KeyRequest) -> Self {
        Self {
            params: params.clone(),
            auxiliary,
            ephemeral_weight: keys.raise.map(|raise| raise.weight),
            meter: Meter::new(params.rlwe(), keys),
            counters: Counters::default(),
            used: Mutex::default(),
        }
    }

    /// Makes a fresh encryption under the public key.
    ///
    /// # Errors
    /// See [`exact::Encryptor::encrypt_at`](crate::exact::Encryptor::encrypt_at).
    pub fn encrypt(&self, level: Level, factor: Unit) -> Result<Form> {
        self.rules().encrypted(level, factor, false)
    }

    /// The product in use.
    #[must_use]
    pub fn tensor(&self) -> Tensor {
        if self.auxiliary.is_some() { Tensor::Scaled } else { Tensor::Plain }
    }

    /// Operations computed since this evaluator was made.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.counts()
    }

    /// Work of the operations since this evaluator was made.
    #[must_use]
    pub fn work(&self) -> Work {
        self.meter.work()
    }

    /// The keys used since this evaluator was made, each at its highest level of use.
    #[must_use]
    pub fn used_keys(&self) -> KeyRequest {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn use_keys(&self, request: KeyRequest) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) |= request;
    }

    fn rules(&self) -> Rules<'_> {
        Rules::new(&self.params)
    }

    /// Records the keys of an operation at `level`, and returns the level of level keys if they
    /// exist.
    fn use_keys_at(&self, level: Level, needed: KeyRequest) -> Option<Level> {
        let key_level = self.meter.key_level(level, &needed);
        self.use_keys(match key_level {
            Some(key_level) => needed.moved_to_level_keys(|_| Some(key_level)),
            None => needed,
        });
        key_level
    }

    fn use_images_at<'g>(
        &self,
        level: Level,
        elements: impl IntoIterator<Item = &'g GaloisElement>,
    ) -> Option<Level> {
        let moved = elements.into_iter().filter(|g| g.0 != 1);
        let keys = moved.fold(KeyRequest::new(), |keys, &g| keys.automorphism(g, level));
        self.counters.automorphisms(keys.count() as u64);
        self.use_keys_at(level, keys)
    }

    /// Returns the form of `a + sign b`.
    fn sum(&self, op: &'static str, a: &Form, b: &Form, sign: i128) -> Result<Form> {
        let operands = self.aligned([a, b].into_iter())?;
        let [a, b] = [operands[0], operands[1]];
        match self.rules().alignment(op, a, b)? {
            Alignment::Aligned => {
                let sum = self.rules().sum(op, a, b)?;
                self.meter.adds(sum.level);
                Ok(sum)
            }
            Alignment::FirstDown => {
                self.sum(op, &self.match_scale(&a, b.level, self.scale(&b))?, &b, sign)
            }
            Alignment::SecondDown => {
                self.sum(op, &a, &self.match_scale(&b, a.level, self.scale(&a))?, sign)
            }
            Alignment::Multiplied([u, v]) => self.mul_const_sum(&[(&a, 1, u), (&b, sign, v)]),
        }
    }

    /// With the product of BFV, rescales a form above `level` down to it. Otherwise returns it
    /// unchanged, because primes are dropped where operands meet.
    fn lowered(&self, mut a: Form, level: Level) -> Result<Form> {
        if self.tensor() == Tensor::Scaled && a.level > level {
            self.drop_to(&mut a, level)?;
        }
        Ok(a)
    }

    /// Brings each by [`Evaluator::lowered`] to the lowest level of all.
    fn aligned<'a>(&self, all: impl Iterator<Item = &'a Form>) -> Result<Vec<Form>> {
        let all: Vec<_> = all.collect();
        let level = all.iter().map(|a| a.level).min().unwrap_or(Level(0));
        all.into_iter().map(|&a| self.lowered(a, level)).collect()
    }

    fn product_sums(&self, sums: &[ProductSum<'_, Form>], rescale: bool) -> Result<Vec<Form>> {
        let form = |sum: &ProductSum<'_, Form>| {
            let mut operands = self.aligned(sum.operands())?.into_iter();
            // The lowered operands are in the order of the originals.
            let mut next = || operands.next();
            let products = sum.products.iter().map_while(|_| Some((next()?, next()?))).collect();
            let sum = FormSum { products, addend: next() };
            let key_level = |level| self.use_keys_at(level, KeyRequest::new().relinearize(level));
            self.rules().product_sum(&sum, self.tensor(), key_level, rescale)
        };
        let forms = sums.iter().map(form).collect::<Result<Vec<_>>>()?;
        let above = u32::from(rescale);
        let parts = forms.iter().zip(sums).map(|(form, sum)| {
            (Level(form.level.0 + above), sum.products.len(), sum.addend.is_some())
        });
        for (_, products, _) in parts.clone() {
            self.counters.products(products as u64);
            self.counters.rescalings(above.into());
        }
        match &self.auxiliary {
            Some(primes) => parts.for_each(|(level, products, adds)| {
                let auxiliary = primes.count_for(self.params.rlwe().log2_q(level));
                self.meter.multiplies_scaled(level, products, adds, auxiliary, rescale);
            }),
            None => {
                for (level, products, _) in parts.clone() {
                    // One factor of each product is multiplied by the modulus.
                    (0..products).for_each(|_| self.meter.passes(level, 1, 1));
                }
                self.meter.multiplies(parts, rescale);
            }
        }
        Ok(forms)
    }

    /// Returns the weight of the ephemeral secret, after checking that it is at most `needed`.
    fn check_secret(&self, needed: u32) -> Result<u32> {
        match self.ephemeral_weight {
            Some(found) if found > needed => {
                Err(Error::EphemeralSecretMismatch { found: Some(found), needed })
            }
            // Without keys, the densest secret that the circuit allows is assumed.
            found => Ok(found.unwrap_or(needed)),
        }
    }
}

/// Converts pairs to sums of one product.
fn products<'a>(pairs: &[(&'a Form, &'a Form)]) -> Vec<ProductSum<'a, Form>> {
    pairs.iter().map(|&(a, b)| ProductSum::of(a, b)).collect()
}

impl Ops for Evaluator {
    type Algebra = IntegerSlots;
    type Ct = Form;
    type Matrix = Matrix;

    fn log_n(&self) -> u32 {
        self.params.log_n()
    }
    fn levels(&self) -> Levels {
        self.params.rlwe().levels()
    }
    fn divisor(&self, like: &Form, level: Level) -> Unit {
        let t = like.factor.modulus();
        self.tensor().divisor(&self.params, level, t).unwrap_or(Unit::one(t))
    }
    fn level(&self, a: &Form) -> Level {
        a.level
    }
    fn scale(&self, a: &Form) -> Unit {
        self.tensor().scale(&self.params, a.level, a.factor).unwrap_or(a.factor)
    }
    fn with_scale(&self, a: &Form, scale: Unit) -> Result<Form> {
        self.rules().with_factor(*a, self.tensor().factor(&self.params, a.level, scale)?)
    }
    fn add(&self, a: &Form, b: &Form) -> Result<Form> {
        self.sum("add", a, b, 1)
    }
    fn sub(&self, a: &Form, b: &Form) -> Result<Form> {
        self.sum("subtract", a, b, -1)
    }
    fn mul(&self, a: &Form, b: &Form) -> Result<Form> {
        Ok(self.mul_many(&[(a, b)])?.remove(0))
    }
    fn mul_rescale(&self, a: &Form, b: &Form) -> Result<Form> {
        Ok(self.mul_rescale_many(&[(a, b)])?.remove(0))
    }
    fn mul_many(&self, pairs: &[(&Form, &Form)]) -> Result<Vec<Form>> {
        self.product_sums(&products(pairs), false)
    }
    fn mul_rescale_many(&self, pairs: &[(&Form, &Form)]) -> Result<Vec<Form>> {
        self.product_sums(&products(pairs), true)
    }
    fn mul_sum_rescale(&self, sum: &ProductSum<'_, Form>) -> Result<Form> {
        Ok(self.product_sums(core::slice::from_ref(sum), true)?.remove(0))
    }
    fn mul_sum_rescale_many(&self, sums: &[ProductSum<'_, Form>]) -> Result<Vec<Form>> {
        self.product_sums(sums, true)
    }
    fn add_const(&self, a: &Form, _: i128) -> Result<Form> {
        let rules = self.rules();
        let sum = rules.sum_plain("add a constant", *a, rules.ring(a.factor.modulus()))?;
        self.meter.passes(sum.level, 1, 0);
        Ok(sum)
    }
    fn mul_const(&self, a: &Form, c: i128, scale: Unit) -> Result<Form> {
        self.mul_const_sum(&[(a, c, scale)])
    }
    fn mul_const_sum(&self, terms: &[(&Form, i128, Unit)]) -> Result<Form> {
        let aligned = self.aligned(terms.iter().map(|&(a, ..)| a))?;
        let term = |(a, &(_, c, unit)): (Form, &(&Form, i128, Unit))| {
            self.rules().check_factor("multiply by a constant", a, unit)?;
            let t = unit.modulus();
            let product = Form { factor: a.factor * unit, ..a };
            Ok((product, t.mul(unit.value(), t.reduce_i128(c))))
        };
        let products = aligned.into_iter().zip(terms).map(term);
        let sum = self.rules().constant_sum(&products.collect::<Result<Vec<_>>>()?)?;
        self.meter.passes(sum.level, terms.len(), terms.len());
        self.counters.constant_products(terms.len() as u64);
        Ok(sum)
    }
    fn add_plain(&self, a: &Form, values: &PlainPoly) -> Result<Form> {
        let ring = (values.modulus(), values.log_n());
        let sum = self.rules().sum_plain("add a plaintext", *a, ring)?;
        self.meter.encodes(sum.level);
        self.meter.passes(sum.level, 1, 0);
        Ok(sum)
    }
    fn mul_plain_many(&self, xs: &[&Form], values: &PlainPoly, scale: Unit) -> Result<Vec<Form>> {
        let ring = (values.modulus(), values.log_n());
        let norms = PlainNorms::of_multiple(values, scale.value());
        let product = |a: &&Form| {
            let form = self.rules().product_plain(**a, ring, norms)?;
            self.rules().check_factor("multiply by a plaintext", form, scale)?;
            Ok(Form { factor: form.factor * scale, ..form })
        };
        let forms = xs.iter().map(product).collect::<Result<Vec<_>>>()?;
        // Encoded once, at the highest level, as the encrypted evaluator does.
        if let Some(level) = forms.iter().map(|form| form.level).max() {
            self.meter.encodes(level);
        }
        forms.iter().for_each(|form| self.meter.passes(form.level, 1, 1));
        self.counters.constant_products(forms.len() as u64);
        Ok(forms)
    }
    fn rescale_assign(&self, a: &mut Form) -> Result<()> {
        let level = a.level;
        *a = self.rules().rescaled("rescale", *a)?;
        self.meter.rescales(level);
        self.counters.rescalings(1);
        Ok(())
    }
    fn drop_to(&self, a: &mut Form, level: Level) -> Result<()> {
        if self.tensor() == Tensor::Plain {
            *a = self.rules().dropped(*a, level)?;
            return Ok(());
        }
        self.levels().drop(a.level, level)?;
        (level.0..a.level.0).try_for_each(|_| self.rescale_assign(a))
    }
    fn match_scale(&self, a: &Form, level: Level, scale: Unit) -> Result<Form> {
        match_unit(self, a, level, scale)
    }
    fn automorphism(&self, a: &Form, g: GaloisElement) -> Result<Form> {
        const OP: &str = "automorphism";
        if g.0 == 1 {
            return Ok(*a);
        }
        // An image negates coefficients. Modulo an even `t` that may add a carry.
        let a = self.rules().negated(OP, *a)?;
        let key_level = self.use_images_at(a.level, &[g]);
        let image = self.rules().sum_automorphisms(OP, a, 1, 1, key_level)?;
        self.meter.permutes(a.level, g);
        Ok(image)
    }
    fn sum_automorphisms(&self, a: &Form, groups: &[&[GaloisElement]]) -> Result<Form> {
        let key_level = self.use_images_at(a.level, groups.iter().copied().flatten());
        let form = groups.iter().try_fold(*a, |form, group| {
            let switches = group.iter().filter(|g| g.0 != 1).count();
            let copies = group.len();
            self.rules().sum_automorphisms("sum of images", form, copies, switches, key_level)
        })?;
        self.meter.sums_images(a.level, groups);
        Ok(form)
    }
    fn prepare(&self, plan: &LinearPlan) -> Result<Matrix> {
        let factor = plan.weight_scale();
        let sum = plan.sum();
        let mut norms = WeightNorms::new(factor.modulus(), self.params.log_n(), sum.stages);
        for stage in 0..sum.stages {
            for weight in (0..sum.baby.len()).filter_map(|b| plan.weight(stage, b)) {
                norms.add(stage, &weight.scaled(factor.value()));
            }
        }
        Ok(Matrix {
            factor,
            sum: sum.clone(),
            needed: plan.required_keys().clone(),
            weights: plan.weight_form(),
            stages: norms.norms(),
        })
    }
    fn transform(&self, a: &Form, matrix: &Matrix) -> Result<Form> {
        Ok(self.transform_many(&[a], matrix)?.remove(0))
    }
    fn transform_many(&self, xs: &[&Form], matrix: &Matrix) -> Result<Vec<Form>> {
        // Without inputs nothing is computed, so no key counts as used.
        if xs.is_empty() {
            return Ok(Vec::new());
        }
        let rules = self.rules();
        let factor = matrix.factor;
        let Matrix { sum, needed, weights, .. } = matrix;
        let key_level = self.use_keys_at(sum.level, needed.clone());
        let lowered = xs.iter().map(|&&a| self.lowered(a, sum.level));
        let lowered = lowered.collect::<Result<Vec<_>>>()?;
        let form = |&a: &Form| {
            match_rings(OP, rules.ring(a.factor.modulus()), rules.ring(factor.modulus()))?;
            let form = rules.transformed(OP, a, sum.level, &matrix.stages, key_level)?;
            Ok(Form { factor: form.factor * factor, ..form })
        };
        let forms = lowered.iter().map(form).collect::<Result<Vec<_>>>()?;
        self.meter.multiplies_matrix(needed, sum, *weights, xs.len());
        self.counters.automorphisms((needed.count() * xs.len()) as u64);
        self.counters.rescalings(xs.len() as u64);
        Ok(forms)
    }
}

impl IntegerOps for Evaluator {
    fn with_plaintext_modulus(&self, a: &Form, t: Modulus) -> Result<Form> {
        self.rules().with_modulus(*a, t)
    }
    fn raise(&self, a: &Form, to: Level, t: Modulus, weight: u32) -> Result<Form> {
        let found = self.check_secret(weight)?;
        let form = self.rules().raised(self.lowered(*a, Level(0))?, to, t, found)?;
        self.use_keys(KeyRequest::new().raise(raise_to(to, t).with_weight(weight)));
        self.meter.raises(to);
        self.counters.raisings(1);
        Ok(form)
    }
    fn raise_transform_many(&self, xs: &[&Form], matrix: &Matrix) -> Result<Vec<Form>> {
        let rules = self.rules();
        let factor = matrix.factor;
        let Matrix { sum, needed, weights, .. } = matrix;
        let weight = sum.raise.map_or(0, |raise| raise.weight);
        let found = self.check_secret(weight)?;
        let form = |a: &&Form| {
            let low = self.lowered(**a, Level(0))?;
            let form = rules.raised(low, sum.level, factor.modulus(), found)?;
            let form = rules.raised_sum(OP, form, &matrix.stages)?;
            Ok(Form { factor: form.factor * factor, ..form })
        };
        let forms = xs.iter().map(form).collect::<Result<Vec<_>>>()?;
        // No inputs use no keys, as in `transform_many`.
        if !xs.is_empty() {
            self.use_keys(needed.clone());
            self.meter.raises_and_multiplies(sum, *weights, xs.len());
            self.counters.raisings(xs.len() as u64);
            self.counters.automorphisms((needed.raised.len() * xs.len()) as u64);
            self.counters.rescalings(xs.len() as u64);
        }
        Ok(forms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exact::{Spec, tests::Session};

    /// Compares with the documented cost of the BFV product: 6 changes of basis and 3 divisions,
    /// each with a transform for each prime of either basis, and then the same key switch as for
    /// BGV.
    #[test]
    fn products_of_bfv_cost_changes_of_basis_more() {
        let t = Modulus::new(257, 1).unwrap();
        let spec = Spec { insecure: true, ..Spec::uniform(6, t, 60.0, 3, 38.0, vec![61.0]) };
        let params = Params::new(spec).unwrap();
        let level = Level(2);
        let work = |tensor, products: usize| {
            let e = Evaluator::with_tensor(&params, tensor, &KeyRequest::new()).unwrap();
            let x = e.encrypt(level, Unit::one(t)).unwrap();
            let sum = ProductSum { products: vec![(&x, &x); products], addend: None };
            e.mul_sum_rescale(&sum).unwrap();
            assert_eq!(e.counts().products, products as u64);
            e.work()
        };
        // Moduli of 60 + 2 * 38 bits, one of them wide, and of 50 bits each.
        let q = 3;
        let auxiliary = 3;
        for products in 1..4 {
            let plain = work(Tensor::Plain, products);
            let scaled = work(Tensor::Scaled, products);
            let passes = 6 * products as u64 + 3;
            assert_eq!(scaled.wide_transforms - plain.wide_transforms, passes);
            let narrow = scaled.narrow_transforms - plain.narrow_transforms;
            assert_eq!(narrow, passes * (q - 1 + auxiliary));
            assert_eq!(scaled.key_bytes, plain.key_bytes);
            assert!(scaled.products() > plain.products() && scaled.row_bytes > plain.row_bytes);
        }
        // Operands of several levels are rescaled instead of dropping some primes.
        let e = Evaluator::with_tensor(&params, Tensor::Scaled, &KeyRequest::new()).unwrap();
        let x = e.encrypt(Level(3), params.fresh_factor(Level(3), t).unwrap()).unwrap();
        let y = e.encrypt(Level(1), params.fresh_factor(Level(1), t).unwrap()).unwrap();
        assert_eq!(e.add(&x, &y).unwrap().level, Level(1));
        assert_eq!(e.counts().rescalings, 2);
    }

    /// Runs every operation on both evaluators, step by step: they return the same forms and the
    /// same errors.
    #[test]
    fn simulated_circuits_are_those_on_ciphertexts() {
        let t = Modulus::new(257, 1).unwrap();
        let spec = Spec { insecure: true, ..Spec::uniform(6, t, 45.0, 3, 38.0, vec![50.0]) };
        let mut session = Session::new(spec, 61);
        let top = session.params.top();
        let plain = session.random(t);
        let factor = session.params.fresh_factor(top, t).unwrap();
        let x = session.encrypt_at(&plain, top, factor);
        let sim = Evaluator::new(&session.params, &KeyRequest::new());
        let form = sim.encrypt(top, factor).unwrap();
        assert_eq!(form, x.form());

        fn circuit<E: IntegerOps>(e: &E, x: &E::Ct, plain: &PlainPoly) -> Result<Vec<E::Ct>> {
            let square = e.mul_rescale(x, x)?;
            let twice = e.add(&square, &square)?;
            let rotated = e.automorphism(&twice, GaloisElement::rotation(6, 2))?;
            let one = Unit::one(plain.modulus());
            let mut product = e.mul_plain_many(&[&rotated], plain, one)?.remove(0);
            e.rescale_assign(&mut product)?;
            let sums = [GaloisElement(1), GaloisElement::rotation(6, 1)];
            let sum = e.sum_automorphisms(&product, &[&sums, &sums])?;
            let scaled = e.mul_const_sum(&[(&sum, 100, one), (&sum, -3, one)])?;
            let matched = e.match_scale(&square, e.level(&scaled), e.scale(&scaled))?;
            let last = e.sub(&matched, &scaled)?;
            let last = e.add_const(&e.add_plain(&last, plain)?, 7)?;
            let several = ProductSum { products: vec![(&last, &last); 2], addend: None };
            let low = e.mul_sum_rescale(&several)?;
            Ok(vec![square, twice, rotated, product, sum, scaled, matched, last, low])
        }
        let found: Vec<Form> =
            circuit(&session.evaluator, &x, &plain).unwrap().iter().map(|a| a.form()).collect();
        assert_eq!(circuit(&sim, &form, &plain).unwrap(), found);
        let counts = Counts {
            products: 3,
            constant_products: 4,
            rescalings: 4,
            automorphisms: 2,
            raisings: 0,
        };
        assert_eq!(sim.counts(), counts);
        let keys = sim.used_keys();
        assert_eq!((keys.relinearize, keys.galois.len()), (Some(top), 2));
        assert!(sim.work().transforms() > 0);
        // Continue until errors are too large, which both must report alike.
        let mut a = x;
        let mut b = form;
        let errors = loop {
            match (session.evaluator.mul(&a, &a), sim.mul(&b, &b)) {
                (Ok(next), Ok(form)) => {
                    assert_eq!(next.form(), form);
                    (a, b) = (next, form);
                }
                (a, b) => break (a.unwrap_err(), b.unwrap_err()),
            }
        };
        assert!(matches!(errors.0, Error::NoiseExhausted { .. }), "{}", errors.0);
        assert_eq!(errors.0, errors.1);
    }
}
