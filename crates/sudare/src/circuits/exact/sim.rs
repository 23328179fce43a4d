//! An evaluator on what is public about ciphertexts, to dry-run circuits of integers.
//!
//! It refuses what the encrypted evaluator refuses, gives results the same levels, factors and
//! bounds of errors, counts what that would compute and records the keys it would use: one run of a
//! circuit gives its depth, its cost and its exact [`KeyRequest`] before any key exists.
//!
//! ```
//! use sudare::{circuits::{Ops, exact::sim}, exact::{Params, preset}, rlwe::{KeyRequest, Level, Rates}};
//!
//! # fn main() -> sudare::Result<()> {
//! let params = Params::new(preset("toy-n8")?.spec)?;
//! let (top, t) = (params.top(), params.plaintext_modulus());
//! let e = sim::Evaluator::new(&params, &KeyRequest::new());
//! let x = e.encrypt(top, params.fresh_factor(top, t)?)?;
//! let square = e.mul_rescale(&x, &x)?;
//! assert_eq!(square.level, Level(top.0 - 1));
//! assert_eq!((e.counts().products, e.used_keys().relinearize), (1, Some(top)));
//! assert!(e.work().seconds(&Rates::reference(params.log_n())) > 0.0);
//! # Ok(())
//! # }
//! ```

use super::{IntegerOps, IntegerSlots, LinearPlan};
use crate::{
    Error, Result,
    circuits::{Ops, counts::Counters, meter::Meter},
    exact::{
        Form, Modulus, Params, PlainNorms, PlainPoly, Unit,
        norms::WeightNorms,
        raise_to,
        rules::{FormSum, Rules, Tensor, match_rings},
    },
    rlwe::{AutomorphismSum, GaloisElement, KeyRequest, Level, Levels, ProductSum, Work},
};
use std::sync::{Mutex, PoisonError};

pub use crate::circuits::counts::Counts;

const OP: &str = "linear transform";

/// [`Ops`] on forms instead of ciphertexts, with the product of BGV. There need not be a key.
#[derive(Debug)]
pub struct Evaluator {
    params: Params,
    /// Weight of the ephemeral secret that there are keys for, if there are.
    ephemeral_weight: Option<u32>,
    meter: Meter,
    counters: Counters,
    used: Mutex<KeyRequest>,
}

/// What is known of an encoded matrix.
#[derive(Debug, Clone)]
pub struct Matrix {
    factor: Unit,
    sum: AutomorphismSum,
    needed: KeyRequest,
    weights: usize,
    /// Of each stage, of all its weights together.
    stages: Vec<PlainNorms>,
}

impl Evaluator {
    /// Under these parameters, with the level keys and the ephemeral secret of a request; any
    /// other key is there.
    #[must_use]
    pub fn new(params: &Params, keys: &KeyRequest) -> Self {
        Self {
            params: params.clone(),
            ephemeral_weight: keys.raise.map(|raise| raise.weight),
            meter: Meter::new(params.rlwe(), keys),
            counters: Counters::default(),
            used: Mutex::default(),
        }
    }

    /// A fresh encryption under the public key.
    ///
    /// # Errors
    /// As [`exact::Encryptor::encrypt_at`](crate::exact::Encryptor::encrypt_at).
    pub fn encrypt(&self, level: Level, factor: Unit) -> Result<Form> {
        self.rules().encrypted(level, factor, false)
    }

    /// What has been computed since this evaluator was made.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.counts()
    }

    /// What that would take.
    #[must_use]
    pub fn work(&self) -> Work {
        self.meter.work()
    }

    /// The keys used since this evaluator was made, each at the highest level at which it was used.
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

    /// Records the keys that an operation at `level` needs, and returns the level of level keys if
    /// there are such.
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

    fn product_sums(&self, sums: &[ProductSum<'_, Form>], rescale: bool) -> Result<Vec<Form>> {
        let form = |sum: &ProductSum<'_, Form>| {
            let products = sum.products.iter().map(|&(&a, &b)| (a, b)).collect();
            let sum = FormSum { products, addend: sum.addend.copied() };
            let key_level = |level| self.use_keys_at(level, KeyRequest::new().relinearize(level));
            self.rules().product_sum(&sum, Tensor::Plain, key_level, rescale)
        };
        let forms = sums.iter().map(form).collect::<Result<Vec<_>>>()?;
        let above = u32::from(rescale);
        let parts = forms.iter().zip(sums).map(|(form, sum)| {
            (Level(form.level.0 + above), sum.products.len(), sum.addend.is_some())
        });
        for (level, products, _) in parts.clone() {
            // One factor of each is multiplied by the modulus.
            (0..products).for_each(|_| self.meter.passes(level, 1, 1));
            self.counters.products(products as u64);
            self.counters.rescalings(above.into());
        }
        self.meter.multiplies(parts, rescale);
        Ok(forms)
    }

    fn check_secret(&self, weight: u32) -> Result<()> {
        match self.ephemeral_weight {
            Some(found) if found > weight => {
                Err(Error::EphemeralSecretMismatch { found: Some(found), needed: weight })
            }
            _ => Ok(()),
        }
    }
}

/// Pairs as sums of one product.
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
        self.params.divisor(level, t).unwrap_or(Unit::one(t))
    }
    fn level(&self, a: &Form) -> Level {
        a.level
    }
    fn scale(&self, a: &Form) -> Unit {
        a.factor
    }
    fn with_scale(&self, a: &Form, factor: Unit) -> Result<Form> {
        Ok(Form { factor, ..*a })
    }
    fn add(&self, a: &Form, b: &Form) -> Result<Form> {
        let sum = self.rules().sum("add", *a, *b)?;
        self.meter.adds(sum.level);
        Ok(sum)
    }
    fn sub(&self, a: &Form, b: &Form) -> Result<Form> {
        let difference = self.rules().sum("subtract", *a, *b)?;
        self.meter.adds(difference.level);
        Ok(difference)
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
        let term = |&(a, c, unit): &(&Form, i128, Unit)| {
            let t = unit.modulus();
            let product = Form { factor: a.factor * unit, ..*a };
            (product, t.mul(unit.value(), t.reduce_i128(c)))
        };
        let sum = self.rules().constant_sum(&terms.iter().map(term).collect::<Vec<_>>())?;
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
        let norms = PlainNorms::of(ring.0, values.scaled(scale.value()).coeffs());
        let product = |a: &&Form| {
            let form = self.rules().product_plain(**a, ring, norms)?;
            Ok(Form { factor: form.factor * scale, ..form })
        };
        let forms = xs.iter().map(product).collect::<Result<Vec<_>>>()?;
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
        *a = self.rules().dropped(*a, level)?;
        Ok(())
    }
    fn match_scale(&self, a: &Form, level: Level, factor: Unit) -> Result<Form> {
        let t = a.factor.modulus();
        if factor.matches(a.factor) {
            return self.rules().dropped(*a, level);
        }
        let above = Level(level.0 + u32::from(level < a.level));
        let dropped = self.rules().dropped(*a, above)?;
        let divisor = if above > level { self.params.divisor(above, t)? } else { Unit::one(t) };
        let target = factor * divisor;
        let constant = t.centered((target / a.factor).value());
        let product = self.mul_const(&dropped, constant, Unit::one(t))?;
        let mut product = Form { factor: target, ..product };
        if above > level {
            self.rescale_assign(&mut product)?;
        }
        Ok(product)
    }
    fn automorphism(&self, a: &Form, g: GaloisElement) -> Result<Form> {
        const OP: &str = "automorphism";
        if g.0 == 1 {
            return Ok(*a);
        }
        let a = self.rules().negated(OP, *a)?;
        let key_level = self.use_images_at(a.level, &[g]);
        let image = self.rules().sum_automorphisms(OP, a, (1, 1), key_level)?;
        self.meter.permutes(a.level, g);
        Ok(image)
    }
    fn sum_automorphisms(&self, a: &Form, groups: &[&[GaloisElement]]) -> Result<Form> {
        let key_level = self.use_images_at(a.level, groups.iter().copied().flatten());
        let form = groups.iter().try_fold(*a, |form, group| {
            let switches = group.iter().filter(|g| g.0 != 1).count();
            let copies = (group.len(), switches);
            self.rules().sum_automorphisms("sum of images", form, copies, key_level)
        })?;
        self.meter.sums_images(a.level, groups);
        Ok(form)
    }
    fn prepare(&self, plan: &LinearPlan) -> Result<Matrix> {
        let (factor, sum) = (plan.weight_scale(), plan.sum());
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
            weights: plan.weights(),
            stages: norms.norms(),
        })
    }
    fn transform(&self, a: &Form, matrix: &Matrix) -> Result<Form> {
        Ok(self.transform_many(&[a], matrix)?.remove(0))
    }
    fn transform_many(&self, xs: &[&Form], matrix: &Matrix) -> Result<Vec<Form>> {
        if xs.is_empty() {
            return Ok(Vec::new());
        }
        let (rules, factor) = (self.rules(), matrix.factor);
        let Matrix { sum, needed, weights, .. } = matrix;
        let key_level = self.use_keys_at(sum.level, needed.clone());
        let form = |a: &&Form| {
            match_rings(OP, rules.ring(a.factor.modulus()), rules.ring(factor.modulus()))?;
            let form = rules.transformed(OP, **a, sum.level, &matrix.stages, key_level)?;
            Ok(Form { factor: form.factor * factor, ..form })
        };
        let forms = xs.iter().map(form).collect::<Result<Vec<_>>>()?;
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
        self.check_secret(weight)?;
        let form = self.rules().raised(*a, to, t, weight)?;
        self.use_keys(KeyRequest::new().raise(raise_to(to, t).with_weight(weight)));
        self.meter.raises(to);
        self.counters.raisings(1);
        Ok(form)
    }
    fn raise_transform_many(&self, xs: &[&Form], matrix: &Matrix) -> Result<Vec<Form>> {
        let (rules, factor) = (self.rules(), matrix.factor);
        let Matrix { sum, needed, weights, .. } = matrix;
        let weight = sum.raise.map_or(0, |raise| raise.weight);
        self.check_secret(weight)?;
        let form = |a: &&Form| {
            let form = rules.raised(**a, sum.level, factor.modulus(), weight)?;
            let form = rules.raised_sum(OP, form, &matrix.stages)?;
            Ok(Form { factor: form.factor * factor, ..form })
        };
        let forms = xs.iter().map(form).collect::<Result<Vec<_>>>()?;
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

    /// Everything that there is, on both, step by step: the same forms and the same refusals.
    #[test]
    fn simulated_circuits_are_those_on_ciphertexts() {
        let t = Modulus::new(257, 1).unwrap();
        let spec = Spec { insecure: true, ..Spec::uniform(6, t, 45.0, 3, 38.0, vec![50.0]) };
        let mut session = Session::new(spec, 61);
        let (top, plain) = (session.params.top(), session.random(t));
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
        // Until errors are too large, and then both say the same.
        let (mut a, mut b) = (x, form);
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
