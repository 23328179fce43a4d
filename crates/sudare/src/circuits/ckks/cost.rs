//! An evaluator that computes the cost of circuits before any key exists.
//!
//! It runs a circuit on clear slots like [`sim`] and adds up the [`Work`] that
//! [`crate::ckks::Evaluator`] would do with given keys. The [`Rates`] of a machine turn work into
//! time.

use super::{
    ComplexOps, ComplexSlots, LinearPlan,
    ops::{match_scale_by_product, summands},
    sim,
};
pub use crate::rlwe::{Rates, Work};
use crate::{
    Result,
    circuits::{ArgumentError, Extremes, Ops, meter::Meter},
    ckks::{
        self, Chain, Complex, Scale,
        rules::{Form, Rules},
    },
    rlwe::{GaloisElement, KeyRequest, Level, Levels, ProductSum},
};

/// [`Ops`] on clear slots, adding up [`Work`].
#[derive(Debug)]
pub struct Evaluator {
    slots: sim::Evaluator,
    meter: Meter,
    /// `true` if products with matrices are counted alone.
    counts_matrices: bool,
}

impl Evaluator {
    /// Makes an evaluator for these parameters and the whole keys of a request.
    #[must_use]
    pub fn new(params: &ckks::Params, keys: &KeyRequest) -> Self {
        let slots = sim::Evaluator::for_params(params).with_level_keys(keys);
        Self {
            slots: match keys.raise {
                Some(raise) => slots.with_ephemeral_secret(raise.weight),
                None => slots,
            },
            meter: Meter::new(params.rlwe(), keys),
            counts_matrices: false,
        }
    }

    /// Sets [`sim::Evaluator::with_folded_arguments`].
    #[must_use]
    pub fn with_folded_arguments(self) -> Self {
        Self { slots: self.slots.with_folded_arguments(), ..self }
    }

    /// Sets [`sim::Evaluator::with_trusted_arguments`].
    #[must_use]
    pub fn with_trusted_arguments(self) -> Self {
        Self { slots: self.slots.with_trusted_arguments(), ..self }
    }

    /// Counts products with matrices without computing them. Their results are zeros without noise.
    #[must_use]
    pub fn with_counted_matrices(self) -> Self {
        Self { counts_matrices: true, ..self }
    }

    /// Returns the zeros that stand for the product of a matrix with `a`.
    fn zero_product(&self, a: &sim::Ciphertext, plan: &LinearPlan) -> Result<sim::Ciphertext> {
        let log_slots = plan.diagonals().log_slots();
        let own = Form { level: a.level, scale: a.scale, log_slots: self.log_slots(a) };
        let weights = Form { level: plan.level(), scale: plan.weight_scale(), log_slots };
        Rules::new(self.chain(), self.log_n()).transformed(own, weights, false)?;
        let zeros = vec![Complex::new(0.0, 0.0); 1 << log_slots];
        let scale = a.scale * plan.weight_scale() / self.chain().divisor(plan.level());
        self.slots.encrypt(&zeros, plan.output_level(), scale)
    }

    /// The inner evaluator on clear slots, which makes ciphertexts and records the keys used.
    #[must_use]
    pub fn slots(&self) -> &sim::Evaluator {
        &self.slots
    }

    /// Work since this evaluator was made.
    #[must_use]
    pub fn work(&self) -> Work {
        self.meter.work()
    }
}

impl Ops for Evaluator {
    type Algebra = ComplexSlots;
    type Ct = sim::Ciphertext;
    type Matrix = LinearPlan;

    fn log_n(&self) -> u32 {
        self.slots.log_n()
    }
    fn levels(&self) -> Levels {
        self.slots.levels()
    }
    fn divisor(&self, like: &Self::Ct, level: Level) -> Scale {
        self.slots.divisor(like, level)
    }
    fn level(&self, a: &Self::Ct) -> Level {
        self.slots.level(a)
    }
    fn scale(&self, a: &Self::Ct) -> Scale {
        self.slots.scale(a)
    }
    fn with_scale(&self, a: &Self::Ct, scale: Scale) -> Result<Self::Ct> {
        self.slots.with_scale(a, scale)
    }
    fn add(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        let [a, b] = summands(self, "add", a, b)?;
        let sum = self.slots.add(&a, &b)?;
        self.meter.adds(sum.level);
        Ok(sum)
    }
    fn sub(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        let [a, b] = summands(self, "subtract", a, b)?;
        let difference = self.slots.sub(&a, &b)?;
        self.meter.adds(difference.level);
        Ok(difference)
    }
    fn mul(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        Ok(self.mul_many(&[(a, b)])?.remove(0))
    }
    fn mul_rescale(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        Ok(self.mul_rescale_many(&[(a, b)])?.remove(0))
    }
    fn mul_many(&self, pairs: &[(&Self::Ct, &Self::Ct)]) -> Result<Vec<Self::Ct>> {
        let products = self.slots.mul_many(pairs)?;
        self.meter.multiplies(products.iter().map(|product| (product.level, 1, false)), false);
        Ok(products)
    }
    fn mul_rescale_many(&self, pairs: &[(&Self::Ct, &Self::Ct)]) -> Result<Vec<Self::Ct>> {
        let products = self.slots.mul_rescale_many(pairs)?;
        self.meter.multiplies(products.iter().map(|product| (above(product), 1, false)), true);
        Ok(products)
    }
    fn mul_sum_rescale(&self, sum: &ProductSum<'_, Self::Ct>) -> Result<Self::Ct> {
        Ok(self.mul_sum_rescale_many(core::slice::from_ref(sum))?.remove(0))
    }
    fn mul_sum_rescale_many(&self, sums: &[ProductSum<'_, Self::Ct>]) -> Result<Vec<Self::Ct>> {
        let results = self.slots.mul_sum_rescale_many(sums)?;
        let parts = results
            .iter()
            .zip(sums)
            .map(|(result, sum)| (above(result), sum.products.len(), sum.addend.is_some()));
        self.meter.multiplies(parts, true);
        Ok(results)
    }
    fn add_const(&self, a: &Self::Ct, c: Complex<f64>) -> Result<Self::Ct> {
        let sum = self.slots.add_const(a, c)?;
        self.meter.passes(sum.level, 1, 0);
        Ok(sum)
    }
    /// A constant that is not real is a polynomial, which needs transforms.
    fn mul_const(&self, a: &Self::Ct, c: Complex<f64>, scale: Scale) -> Result<Self::Ct> {
        let product = self.slots.mul_const(a, c, scale)?;
        self.meter.passes(product.level, 1, 1);
        if c.im != 0.0 {
            self.meter.encodes(product.level);
        }
        Ok(product)
    }
    fn mul_const_sum(&self, terms: &[(&Self::Ct, f64, Scale)]) -> Result<Self::Ct> {
        let sum = self.slots.mul_const_sum(terms)?;
        self.meter.passes(sum.level, terms.len(), terms.len());
        Ok(sum)
    }
    fn add_plain(&self, a: &Self::Ct, values: &[Complex<f64>]) -> Result<Self::Ct> {
        let sum = self.slots.add_plain(a, values)?;
        self.meter.encodes(sum.level);
        self.meter.passes(sum.level, 1, 0);
        Ok(sum)
    }
    fn mul_plain_many(
        &self,
        xs: &[&Self::Ct],
        values: &[Complex<f64>],
        scale: Scale,
    ) -> Result<Vec<Self::Ct>> {
        let products = self.slots.mul_plain_many(xs, values, scale)?;
        // Encoded once, at the highest level, as the encrypted evaluator does.
        if let Some(level) = products.iter().map(|product| product.level).max() {
            self.meter.encodes(level);
        }
        products.iter().for_each(|product| self.meter.passes(product.level, 1, 1));
        Ok(products)
    }
    fn rescale_assign(&self, a: &mut Self::Ct) -> Result<()> {
        let level = a.level;
        self.slots.rescale_assign(a)?;
        self.meter.rescales(level);
        Ok(())
    }
    fn drop_to(&self, a: &mut Self::Ct, level: Level) -> Result<()> {
        self.slots.drop_to(a, level)
    }
    fn match_scale(&self, a: &Self::Ct, level: Level, scale: Scale) -> Result<Self::Ct> {
        match_scale_by_product(self, a, level, scale)
    }
    fn automorphism(&self, a: &Self::Ct, g: GaloisElement) -> Result<Self::Ct> {
        let image = self.slots.automorphism(a, g)?;
        self.meter.permutes(a.level, g);
        Ok(image)
    }
    fn sum_automorphisms(&self, a: &Self::Ct, groups: &[&[GaloisElement]]) -> Result<Self::Ct> {
        let sum = self.slots.sum_automorphisms(a, groups)?;
        self.meter.sums_images(a.level, groups);
        Ok(sum)
    }
    fn prepare(&self, plan: &LinearPlan) -> Result<LinearPlan> {
        self.slots.prepare(plan)
    }
    fn transform(&self, a: &Self::Ct, plan: &LinearPlan) -> Result<Self::Ct> {
        Ok(self.transform_many(&[a], plan)?.remove(0))
    }
    fn transform_many(&self, xs: &[&Self::Ct], plan: &LinearPlan) -> Result<Vec<Self::Ct>> {
        let products = match self.counts_matrices {
            true => xs.iter().map(|a| self.zero_product(a, plan)).collect::<Result<_>>()?,
            false => self.slots.transform_many(xs, plan)?,
        };
        if !xs.is_empty() {
            let needed = plan.required_keys();
            let sum = plan.sum();
            self.meter.multiplies_matrix(needed, sum, plan.weight_form(), xs.len());
        }
        Ok(products)
    }
    fn within(&self, a: Self::Ct, most: f64) -> Self::Ct {
        self.slots.within(a, most)
    }
    fn argument(&self, a: Self::Ct, p: &Extremes) -> Result<(Self::Ct, Vec<ArgumentError>)> {
        self.slots.argument(a, p)
    }
    fn image(&self, y: Self::Ct, errors: &[ArgumentError], p: &Extremes) -> Self::Ct {
        self.slots.image(y, errors, p)
    }
}

impl ComplexOps for Evaluator {
    fn chain(&self) -> &Chain {
        self.slots.chain()
    }
    fn log_slots(&self, a: &Self::Ct) -> u32 {
        self.slots.log_slots(a)
    }
    fn with_log_slots(&self, a: &Self::Ct, log_slots: u32) -> Result<Self::Ct> {
        self.slots.with_log_slots(a, log_slots)
    }
    fn twice_real_part(&self, a: &Self::Ct) -> Result<Self::Ct> {
        let sum = self.slots.twice_real_part(a)?;
        self.meter.permutes(a.level, GaloisElement::conjugation(self.log_n()));
        self.meter.adds(a.level);
        Ok(sum)
    }
    fn off_by(&self, a: Self::Ct, error: f64) -> Self::Ct {
        self.slots.off_by(a, error)
    }
    fn mod_raise(&self, a: &Self::Ct, to: Level, weight: Option<u32>) -> Result<Self::Ct> {
        let raised = self.slots.mod_raise(a, to, weight)?;
        self.meter.raises(to);
        Ok(raised)
    }
    fn raise_transform(&self, a: &Self::Ct, plan: &LinearPlan) -> Result<Self::Ct> {
        Ok(self.raise_transform_many(&[a], plan)?.remove(0))
    }

    fn raise_transform_many(&self, xs: &[&Self::Ct], plan: &LinearPlan) -> Result<Vec<Self::Ct>> {
        let products = self.slots.raise_transform_many(xs, plan)?;
        if !xs.is_empty() {
            self.meter.raises_and_multiplies(plan.sum(), plan.weight_form(), xs.len());
        }
        Ok(products)
    }
}

/// Returns the level that `a` was rescaled from.
fn above(a: &sim::Ciphertext) -> Level {
    Level(a.level.0 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        circuits::ckks::LinearTransform,
        rlwe::{KeyGenerator, Raise},
    };
    use std::sync::Arc;

    const LOG_N: u32 = 6;
    const N: u64 = 1 << LOG_N;
    /// Bytes of a row.
    const ROW: u64 = 8 * N;
    /// Numbers of chain primes, special primes and digits at the top.
    const Q: u64 = 4;
    const P: u64 = 2;
    const DIGITS: u64 = 2;

    fn params() -> ckks::Params {
        let spec = ckks::Spec::uniform(LOG_N, 50.0, 3, 40.0, vec![48.0, 48.0]);
        ckks::Params::new(ckks::Spec { insecure: true, ..spec }).unwrap()
    }

    /// Returns the work of a circuit on a ciphertext at the top.
    fn work<T>(
        params: &ckks::Params,
        keys: &KeyRequest,
        circuit: impl FnOnce(&Evaluator, &sim::Ciphertext) -> Result<T>,
    ) -> Work {
        let e = Evaluator::new(params, keys);
        let top = params.top();
        let slots = vec![Complex::new(0.5, 0.0); params.max_slots()];
        let x = e.slots().encrypt(&slots, top, params.scale_at(top)).unwrap();
        circuit(&e, &x).unwrap();
        e.work()
    }

    /// Counts the transforms of a key switch with a division: each prime back, each digit to its
    /// missing primes, and for two polynomials the divisor back and the remaining primes forward.
    fn switch_transforms(q: u64, p: u64, digits: u64) -> u64 {
        q + (digits * (q + p) - q) + 2 * p + 2 * q
    }

    /// Counts the products of a change of basis: fractions, and a sum with one more term for each
    /// target.
    fn conversion(from: u64, to: u64) -> u64 {
        from + (from + 1) * to
    }

    #[test]
    fn a_product_costs_what_its_key_switch_does() {
        let params = params();
        let key_bytes = params.rlwe().switching_key_bytes(params.top());
        let keys = KeyRequest::new();
        let product = work(&params, &keys, |e, x| e.mul_rescale(x, x));
        assert_eq!(product.transforms(), switch_transforms(Q, P, DIGITS));
        assert_eq!(product.streamed_products, 2 * DIGITS * (Q + P) * N);
        assert_eq!((product.key_bytes, product.matrix_bytes), (key_bytes, 0));
        // Digits of two primes each need fractions and four primes of sums of three terms. The
        // division of two polynomials by three primes needs fractions, three primes of sums of
        // four, and differences.
        let conversions = 2 * (2 + 4 * 3) + 2 * (3 + 3 * 4 + 3);
        // The switched polynomial, twice, and the kept ones, of 1 and 2 terms, each with a factor.
        let tensor = (2 + 3 + 2) * Q;
        assert_eq!(product.cached_products, (conversions + tensor) * N);
        assert_eq!(product.permuted, 0);

        // The rescaling costs its own division if it does not come with the product.
        let separate = work(&params, &keys, |e, x| {
            let mut product = e.mul(x, x)?;
            e.rescale_assign(&mut product)
        });
        assert_eq!(separate.transforms(), product.transforms() + 2 * Q);

        let pair = work(&params, &keys, |e, x| e.mul_rescale_many(&[(x, x), (x, x)]));
        assert_eq!(pair.transforms(), 2 * product.transforms());
        assert_eq!(pair.products(), 2 * product.products());
        assert_eq!(pair.key_bytes, key_bytes);

        // Both polynomials of the added ciphertext come with a factor.
        let sum = |e: &Evaluator, x: &_| {
            let c = e.mul(x, x)?;
            let before = e.work();
            e.mul_sum_rescale(&ProductSum { products: vec![(x, x)], addend: Some(&c) })?;
            Ok(e.work() - before)
        };
        let mut difference = Work::default();
        work(&params, &keys, |e, x| sum(e, x).map(|sum| difference = sum - product));
        let added = Work { cached_products: 2 * Q * N, row_bytes: 2 * Q * ROW, ..Work::default() };
        assert_eq!(difference, added);

        // Several products need one key switch. They exist before it, and both kept polynomials
        // come with a factor.
        let two = work(&params, &keys, |e, x| {
            e.mul_sum_rescale(&ProductSum { products: vec![(x, x); 2], addend: None })
        });
        assert_eq!((two.transforms(), two.key_bytes), (product.transforms(), key_bytes));
        assert_eq!(two.cached_products, (conversions + 2 * 4 * Q + 2 * Q) * N);
    }

    /// Without keys, every row of every operand is read once and every row of the result is written
    /// once.
    #[test]
    fn operations_without_keys_cost_their_rows() {
        let params = params();
        let count = |circuit: &dyn Fn(&Evaluator, &sim::Ciphertext) -> Result<()>| {
            work(&params, &KeyRequest::new(), circuit)
        };
        let rows = |rows: u64| Work { row_bytes: rows * 2 * Q * ROW, ..Work::default() };
        let scale = params.scale_at(params.top());
        let i = Complex::new(0.0, 1.0);
        assert_eq!(count(&|e, x| e.add(x, x).map(drop)), rows(3));
        assert_eq!(count(&|e, x| e.sub(x, x).map(drop)), rows(3));
        assert_eq!(count(&|e, x| e.add_const(x, i).map(drop)), rows(2));
        let real = count(&|e, x| e.mul_const(x, Complex::new(0.5, 0.0), scale).map(drop));
        assert_eq!(real, Work { cached_products: 2 * Q * N, ..rows(2) });
        let complex = count(&|e, x| e.mul_const(x, i, scale).map(drop));
        assert_eq!((complex.transforms(), complex.products()), (Q, 2 * Q * N));
        let sum = count(&|e, x| e.mul_const_sum(&[(x, 0.5, scale); 3]).map(drop));
        assert_eq!(sum, Work { cached_products: 3 * 2 * Q * N, ..rows(4) });

        let slots = vec![i; 1 << (LOG_N - 1)];
        let sum = count(&|e, x| e.add_plain(x, &slots).map(drop));
        assert_eq!((sum.transforms(), sum.row_bytes), (Q, rows(2).row_bytes));
        let products = count(&|e, x| e.mul_plain_many(&[x; 3], &slots, scale).map(drop));
        assert_eq!((products.transforms(), products.products()), (Q, 3 * 2 * Q * N));
        assert_eq!(products.row_bytes, rows(6).row_bytes);

        // Both polynomials are read, and their last rows are lifted to the others and subtracted.
        let rescaled = count(&|e, x| e.rescale_assign(&mut x.clone()));
        assert_eq!(rescaled.transforms(), 2 * Q);
        assert_eq!(rescaled.cached_products, 2 * (conversion(1, Q - 1) + Q - 1) * N);
        assert_eq!(rescaled.row_bytes, rows(2).row_bytes);
    }

    /// A sum of different scales costs the product with 1 and the rescaling that match them, and
    /// nothing else. A sum of one scale costs no more than its rows.
    #[test]
    fn aligned_sums_cost_what_aligns_them() {
        let params = params();
        let keys = KeyRequest::new();
        let below = Level(params.top().0 - 1);
        let square = |e: &Evaluator, x: &_| e.mul_rescale(x, x);
        let product = work(&params, &keys, square);
        let summed = work(&params, &keys, |e, x| e.add(&square(e, x)?, x)) - product;
        let matched = work(&params, &keys, |e, x| {
            let square = square(e, x)?;
            e.sub(&square, &e.match_scale(x, below, square.scale)?)
        });
        assert_eq!(summed, matched - product);
        assert_eq!(summed.transforms(), 2 * Q);
        let dropped = work(&params, &keys, |e, x| {
            let mut low = x.clone();
            e.drop_to(&mut low, below)?;
            e.add(x, &low)
        });
        assert_eq!((dropped.transforms(), dropped.row_bytes), (0, 3 * 2 * (Q - 1) * ROW));
    }

    #[test]
    fn raising_through_an_ephemeral_secret_takes_both_its_keys() {
        let params = params();
        let top = params.top();
        let weight = 8;
        let direct = work(&params, &KeyRequest::new(), |e, x| e.mod_raise(x, top, None));
        assert_eq!(direct.transforms(), 2 + 2 * Q);
        assert_eq!((direct.streamed_products, direct.key_bytes), (0, 0));

        let keys = KeyRequest::new().raise(Raise::to(top).with_weight(weight));
        let raised = work(&params, &keys, |e, x| e.mod_raise(x, top, Some(weight)));
        // A switch at level 0, and both polynomials lifted. One of them has the special primes of
        // the key back, which divide two.
        let transforms = switch_transforms(1, P, 1) + 2 + Q + (Q + P) + 2 * (Q + P);
        assert_eq!(raised.transforms(), transforms);
        assert_eq!(raised.streamed_products, 2 * (1 + P + Q + P) * N);
        assert_eq!(raised.key_bytes, keys.bytes(params.rlwe()).unwrap());
        assert_eq!(raised.permuted, 0);
    }

    /// Counts as `docs/performance.md` does for one product of this set.
    #[test]
    fn a_product_at_610_bits_takes_90_transforms() {
        let params = ckks::Params::new(ckks::preset("bench-n15-q610").unwrap().spec).unwrap();
        let product = work(&params, &KeyRequest::new(), |e, x| e.mul_rescale(x, x));
        assert_eq!((product.narrow_transforms, product.wide_transforms), (90, 0));
    }

    #[test]
    fn a_rotation_is_a_key_switch_and_a_permutation() {
        let params = params();
        let rotation = work(&params, &KeyRequest::new(), |e, x| e.rotate(x, 3));
        assert_eq!(rotation.transforms(), switch_transforms(Q, P, DIGITS));
        assert_eq!(rotation.permuted, 2 * Q * N);
        // Digits, the kept polynomial, and the division of both sums.
        let cached = DIGITS * conversion(2, Q + P - 2) + Q + 2 * (conversion(P, Q) + Q);
        assert_eq!(rotation.cached_products, cached * N);
        let rows = Q + DIGITS * (Q + P) + 2 * Q + 2 * (Q + P);
        assert_eq!(rotation.row_bytes, rows * ROW);
        assert_eq!(rotation.key_bytes, params.rlwe().switching_key_bytes(params.top()));
        let identity = work(&params, &KeyRequest::new(), |e, x| e.rotate(x, 0));
        assert_eq!(identity, Work::default());
    }

    /// Each key and each weight is read once, for any keys.
    #[test]
    fn a_matrix_reads_what_an_evaluator_holds() {
        let spec = ckks::Spec::uniform(LOG_N, 50.0, 3, 40.0, vec![48.0; 2]);
        let spec = ckks::Spec { insecure: true, extra_p_bits: vec![48.0; 2], ..spec };
        let params = ckks::Params::new(spec).unwrap();
        let rlwe = params.rlwe();
        let top = params.top();
        let slots = params.max_slots();
        let diagonal = |k: usize| (k, vec![Complex::new(0.5, k as f64); slots]);
        let matrix = LinearTransform::new(LOG_N - 1, (0..7).map(diagonal).collect()).unwrap();
        let scale = params.scale_at(top);
        let out = params.scale_at(Level(top.0 - 1));
        let plan = matrix.plan(LOG_N, params.chain(), top, scale, out).unwrap();
        let stages = plan.sum().stages as u64;
        assert!(stages > 1);
        for level_keys in [false, true] {
            let mut request = plan.required_keys().clone();
            if level_keys {
                request = request.into_level_keys(rlwe);
                assert_eq!(request.level_keys.len(), 1);
            }
            let work = work(&params, &request, |e, x| plan.run(e, &plan, x));
            assert_eq!(work.key_bytes, request.bytes(rlwe).unwrap());
            let mut generator = KeyGenerator::new(rlwe).unwrap();
            let secret = generator.secret_key().unwrap();
            let keys = generator.evaluation_keys(&secret, &request).unwrap();
            let evaluator = ckks::Evaluator::new(&params, Arc::new(keys)).unwrap();
            assert_eq!(work.matrix_bytes, evaluator.prepare(&plan).unwrap().bytes());

            let limbs =
                if level_keys { rlwe.level_key_limbs(top).unwrap() } else { rlwe.key_limbs(top) };
            let digits = rlwe.digit_primes_of(limbs).len() as u64;
            let all = limbs.count() as u64;
            // One decomposition per stage; a division of one polynomial in between, and of two at
            // the end.
            assert_eq!(work.transforms(), all * (digits * stages + (stages - 1) + 2));
            assert_eq!(work.permuted, 2 * all * N * request.count() as u64);
            // Constant weights have a real and an imaginary part, so half of their residues are
            // equal. One of four groups of eight is stored.
            let weights = plan.weights() as u64 * all * N;
            let streamed = 2 * digits * request.count() as u64 * all * N + weights / 4;
            assert_eq!(work.streamed_products, streamed);
            // Weights for both polynomials, except for the stored residues of one; digits; the chain primes of the kept
            // polynomials, of one for each key of a baby step and of two for the identity;
            // divisions of one polynomial between stages, and of two at the end.
            let q = limbs.q() as u64;
            let after = rlwe.limbs(Level(top.0 - 1)).q() as u64;
            let lift = |owned: &core::ops::Range<usize>| {
                conversion(owned.len() as u64, all - owned.len() as u64)
            };
            let lifts: u64 = rlwe.digit_primes_of(limbs).iter().map(lift).sum();
            let divisions = (stages - 1) * (conversion(all - q, q) + q)
                + 2 * (conversion(all - after, after) + after);
            let kept = (request.count() as u64 - 1 + 2) * q;
            let cached = 2 * weights - weights / 4 + (stages * lifts + kept + divisions) * N;
            assert_eq!(work.cached_products, cached);
        }
    }

    #[test]
    fn work_becomes_time() {
        let rates = Rates {
            narrow_transform_ns: 100.0,
            wide_transform_ns: 0.0,
            streamed_product_ns: 10.0,
            cached_product_ns: 2.0,
            permuted_ns: 3.0,
            row_byte_ns: 0.5,
        };
        let work = Work {
            narrow_transforms: 1,
            streamed_products: 2,
            cached_products: 3,
            permuted: 4,
            row_bytes: 8,
            key_bytes: 1000,
            ..Work::default()
        };
        assert!((work.seconds(&rates) - 142e-9).abs() < 1e-18);
        let mut twice = work;
        twice += work;
        assert_eq!(twice - work, work);
    }

    /// At the top, all old primes are transformed back and all new ones forward. There may be more
    /// new ones.
    #[test]
    fn a_change_of_primes_transforms_all() {
        let spec = ckks::Spec::uniform(LOG_N, 40.0, 7, 40.0, vec![54.0]);
        let raised =
            ckks::UpperSpec { base_bits: vec![320.0 / 6.0; 6], levels_bits: vec![vec![50.0]] };
        let spec = ckks::Spec { insecure: true, upper: Some(raised), ..spec };
        let params = ckks::Params::new(spec).unwrap();
        let rlwe = params.rlwe();
        let highest = params.upper_top();
        assert_eq!((rlwe.limbs(highest).q(), rlwe.limbs(params.top()).q()), (7, 8));
        let keys = KeyRequest::new().relinearize(highest).into_level_keys(rlwe);
        let digits = rlwe.digit_primes_of(rlwe.level_key_limbs(highest).unwrap()).len() as u64;
        let work = |circuit: &dyn Fn(&Evaluator, &sim::Ciphertext)| {
            let e = Evaluator::new(&params, &keys);
            let slots = vec![Complex::new(0.5, 0.0); params.max_slots()];
            let x = e.slots().encrypt(&slots, Level(0), Scale::from_log2(30.0)).unwrap();
            let x = e.slots().mod_raise(&x, highest, None).unwrap();
            circuit(&e, &x);
            e.work()
        };
        let rescaled = work(&|e, x| e.rescale_assign(&mut x.clone()).unwrap());
        assert_eq!(rescaled.transforms(), 2 * (7 + 8));
        let product = work(&|e, x| drop(e.mul_rescale(x, x).unwrap()));
        assert_eq!(product.transforms(), 7 + (digits * 8 - 7) + 2 * (8 + 8));
        assert_eq!(product.key_bytes, keys.bytes(rlwe).unwrap());
    }
}
