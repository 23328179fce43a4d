use crate::{
    Error, Result,
    circuits::{
        Algebra, Coefficient, LockStep, Ops, input::at, linear::LinearPlan, lock_step::Batch,
    },
    ckks::{
        self, Chain, Complex, Scale,
        rules::{Form, Rules},
        transform::period,
    },
    rlwe::{GaloisElement, Level, Levels, ProductSum},
};
use std::borrow::Cow;

/// Slots of complex numbers at real scales: the algebra of CKKS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComplexSlots {}

impl Algebra for ComplexSlots {
    type Scale = Scale;
    type Constant = Complex<f64>;
    type Coefficient = f64;
    type Vector = [Complex<f64>];

    fn fits(vector: &[Complex<f64>], slots: usize) -> Result<bool> {
        match vector.iter().position(|z| !(z.re.is_finite() && z.im.is_finite())) {
            Some(index) => {
                let value = format!("{} + {}i", vector[index].re, vector[index].im);
                Err(Error::NotFinite { index, value })
            }
            None => Ok(vector.len() == slots),
        }
    }

    fn log_gap(vector: &[Complex<f64>], log_n: u32) -> u32 {
        log_n.saturating_sub(1 + period(vector).ilog2())
    }

    fn rotated_right(vector: &[Complex<f64>], k: usize) -> Vec<Complex<f64>> {
        let mut vector = vector.to_vec();
        vector.rotate_right(k);
        vector
    }
}

impl Coefficient for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
}

/// Operations that only evaluators of complex slots have.
///
/// [`crate::ckks::Evaluator`] implements it, and so does [`sim::Evaluator`](super::sim::Evaluator),
/// which runs any circuit on clear values.
pub trait ComplexOps: Ops<Algebra = ComplexSlots> {
    /// The divisor of rescaling from each level; see [`Chain`].
    fn chain(&self) -> &Chain;
    /// `log2` of the number of slots of `a`.
    fn log_slots(&self, a: &Self::Ct) -> u32;
    /// Interprets the plaintext as `2^log_slots` slots. With more slots, values repeat; with fewer,
    /// they must have repeated. Free of cost.
    fn with_log_slots(&self, a: &Self::Ct, log_slots: u32) -> Result<Self::Ct>;
    /// Raises from level 0, to which a higher level is dropped first, up to level `to`: the
    /// polynomial `m` becomes `m + q_0 I`. Scale and number of slots stay the same. A circuit that
    /// relies on a small `I` passes the maximum weight of the ephemeral secret, and the keys must
    /// have such a secret.
    fn mod_raise(&self, a: &Self::Ct, to: Level, ephemeral_weight: Option<u32>)
    -> Result<Self::Ct>;
    /// Runs [`ComplexOps::mod_raise`] to the level of a matrix planned with
    /// [`LinearTransform::plan_raised`](crate::circuits::linear::LinearTransform::plan_raised), and
    /// [`Ops::transform`].
    fn raise_transform(&self, a: &Self::Ct, matrix: &Self::Matrix) -> Result<Self::Ct>;
    /// Runs [`ComplexOps::raise_transform`] on each; see [`Ops::transform_many`].
    fn raise_transform_many(
        &self,
        xs: &[&Self::Ct],
        matrix: &Self::Matrix,
    ) -> Result<Vec<Self::Ct>> {
        xs.iter().map(|a| self.raise_transform(a, matrix)).collect()
    }
    /// Conjugates every slot.
    fn conjugate(&self, a: &Self::Ct) -> Result<Self::Ct> {
        self.automorphism(a, GaloisElement::conjugation(self.log_n()))
    }
    /// Returns twice the real part of every slot: the sum with the conjugate.
    ///
    /// Noise has an imaginary part, and steps of a circuit of real numbers multiply it like any
    /// error. Values that stay in an interval where polynomials are small leave it along the
    /// imaginary axis. A circuit that evaluates one polynomial after the other therefore takes real
    /// parts between them. Interpreted at twice the scale, the sum is the real part and uses no
    /// level. Simulation treats the result as real.
    fn twice_real_part(&self, a: &Self::Ct) -> Result<Self::Ct> {
        self.add(a, &self.conjugate(a)?)
    }
    /// Declares that slots of `a` have an error of up to about `error`, which the steps of the
    /// circuit do not show. Simulation counts it as imaginary noise. Computes nothing.
    fn off_by(&self, a: Self::Ct, error: f64) -> Self::Ct {
        let _ = error;
        a
    }
}

/// Computes [`Ops::match_scale`] from other operations.
pub(super) fn match_scale_by_product<E: ComplexOps>(
    e: &E,
    a: &E::Ct,
    level: Level,
    scale: Scale,
) -> Result<E::Ct> {
    let form = Form { level: e.level(a), scale: e.scale(a), log_slots: e.log_slots(a) };
    let factor = Rules::new(e.chain(), e.log_n()).matching_factor(form, level, scale)?;
    let a = at(e, a, Level(level.0 + 1))?;
    let mut a = e.mul_const(&a, Complex::new(1.0, 0.0), factor)?;
    e.rescale_assign(&mut a)?;
    // Exactly the scale, without the rounding of the quotients above.
    e.with_scale(&a, scale)
}

/// Returns the operands of a sum, brought to one scale as [`ckks::Evaluator`] does it.
pub(super) fn summands<'a, E: ComplexOps>(
    e: &E,
    op: &'static str,
    a: &'a E::Ct,
    b: &'a E::Ct,
) -> Result<[Cow<'a, E::Ct>; 2]> {
    let form = |a| Form { level: e.level(a), scale: e.scale(a), log_slots: e.log_slots(a) };
    let sum = Rules::new(e.chain(), e.log_n()).sum(op, form(a), form(b))?;
    let summand = |a: &'a E::Ct| match e.scale(a).matches(sum.scale) {
        true => Ok(Cow::Borrowed(a)),
        false => e.match_scale(a, sum.level, sum.scale).map(Cow::Owned),
    };
    Ok([summand(a)?, summand(b)?])
}

impl Ops for ckks::Evaluator {
    type Algebra = ComplexSlots;
    type Ct = ckks::Ciphertext;
    type Matrix = ckks::EncodedMatrix;

    fn log_n(&self) -> u32 {
        self.params().log_n()
    }
    fn levels(&self) -> Levels {
        self.params().chain().levels()
    }
    fn divisor(&self, _: &Self::Ct, level: Level) -> Scale {
        self.params().chain().divisor(level)
    }
    fn level(&self, a: &Self::Ct) -> Level {
        a.level()
    }
    fn scale(&self, a: &Self::Ct) -> Scale {
        a.scale()
    }
    fn with_scale(&self, a: &Self::Ct, scale: Scale) -> Result<Self::Ct> {
        self.with_scale(a, scale)
    }
    fn add(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        self.add(a, b)
    }
    fn sub(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        self.sub(a, b)
    }
    fn mul(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        self.mul(a, b)
    }
    fn mul_rescale(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct> {
        self.mul_rescale(a, b)
    }
    fn add_const(&self, a: &Self::Ct, c: Complex<f64>) -> Result<Self::Ct> {
        self.add_const(a, c)
    }
    fn mul_const(&self, a: &Self::Ct, c: Complex<f64>, scale: Scale) -> Result<Self::Ct> {
        self.mul_const(a, c, scale)
    }
    fn mul_many(&self, pairs: &[(&Self::Ct, &Self::Ct)]) -> Result<Vec<Self::Ct>> {
        self.mul_many(pairs)
    }
    fn mul_rescale_many(&self, pairs: &[(&Self::Ct, &Self::Ct)]) -> Result<Vec<Self::Ct>> {
        self.mul_rescale_many(pairs)
    }
    fn mul_sum_rescale(&self, sum: &ProductSum<'_, Self::Ct>) -> Result<Self::Ct> {
        self.mul_sum_rescale(sum)
    }
    fn mul_sum_rescale_many(&self, sums: &[ProductSum<'_, Self::Ct>]) -> Result<Vec<Self::Ct>> {
        self.mul_sum_rescale_many(sums)
    }
    fn mul_const_sum(&self, terms: &[(&Self::Ct, f64, Scale)]) -> Result<Self::Ct> {
        self.mul_const_sum(terms)
    }
    fn mul_const_sums(
        &self,
        xs: &[&Self::Ct],
        rows: &[Vec<f64>],
        scale: Scale,
    ) -> Result<Vec<Self::Ct>> {
        self.mul_const_sums(xs, rows, scale)
    }
    fn add_plain(&self, a: &Self::Ct, values: &[Complex<f64>]) -> Result<Self::Ct> {
        self.params().rules().one_a_slot("add", values, a.form())?;
        self.add_plain(a, &self.encoder().encode_at(values, a.level(), a.scale())?)
    }
    fn mul_plain_many(
        &self,
        xs: &[&Self::Ct],
        values: &[Complex<f64>],
        scale: Scale,
    ) -> Result<Vec<Self::Ct>> {
        let Some(level) = xs.iter().map(|a| a.level()).max() else { return Ok(Vec::new()) };
        for a in xs {
            self.params().rules().one_a_slot("multiply", values, a.form())?;
        }
        // Once, at the highest level. Products at lower levels read its first primes.
        let plain = self.encoder().encode_at(values, level, scale)?;
        xs.iter().map(|a| self.mul_plain(a, &plain)).collect()
    }
    fn rescale_assign(&self, a: &mut Self::Ct) -> Result<()> {
        self.rescale_assign(a)
    }
    fn drop_to(&self, a: &mut Self::Ct, level: Level) -> Result<()> {
        self.drop_to_assign(a, level)
    }
    fn match_scale(&self, a: &Self::Ct, level: Level, scale: Scale) -> Result<Self::Ct> {
        self.match_scale(a, level, scale)
    }
    fn automorphism(&self, a: &Self::Ct, g: GaloisElement) -> Result<Self::Ct> {
        self.automorphism(a, g)
    }
    fn sum_automorphisms(&self, a: &Self::Ct, groups: &[&[GaloisElement]]) -> Result<Self::Ct> {
        self.sum_automorphisms(a, groups)
    }
    fn prepare(&self, plan: &LinearPlan<ComplexSlots>) -> Result<Self::Matrix> {
        let scale = plan.weight_scale();
        let log_slots = plan.diagonals().log_slots();
        self.encode_matrix(plan.sum().clone(), scale, log_slots, |j, b| plan.weight(j, b))
    }
    fn transform(&self, a: &Self::Ct, matrix: &Self::Matrix) -> Result<Self::Ct> {
        self.transform(a, matrix)
    }
    fn transform_many(&self, xs: &[&Self::Ct], matrix: &Self::Matrix) -> Result<Vec<Self::Ct>> {
        self.transform_many(xs, matrix)
    }
}

impl ComplexOps for ckks::Evaluator {
    fn chain(&self) -> &Chain {
        self.params().chain()
    }
    fn log_slots(&self, a: &Self::Ct) -> u32 {
        a.log_slots
    }
    fn with_log_slots(&self, a: &Self::Ct, log_slots: u32) -> Result<Self::Ct> {
        self.with_log_slots(a, log_slots)
    }
    fn mod_raise(&self, a: &Self::Ct, to: Level, weight: Option<u32>) -> Result<Self::Ct> {
        check_secret(self, weight)?;
        self.mod_raise(a, to)
    }
    fn raise_transform(&self, a: &Self::Ct, matrix: &Self::Matrix) -> Result<Self::Ct> {
        check_secret(self, matrix.sum().raise.map(|raise| raise.weight))?;
        self.raise_transform(a, matrix)
    }
    fn raise_transform_many(
        &self,
        xs: &[&Self::Ct],
        matrix: &Self::Matrix,
    ) -> Result<Vec<Self::Ct>> {
        check_secret(self, matrix.sum().raise.map(|raise| raise.weight))?;
        self.raise_transform_many(xs, matrix)
    }
}

impl<E: ComplexOps> ComplexOps for LockStep<'_, E> {
    fn chain(&self) -> &Chain {
        self.0.chain()
    }
    fn log_slots(&self, a: &Self::Ct) -> u32 {
        self.0.log_slots(a.first())
    }
    fn with_log_slots(&self, a: &Self::Ct, log_slots: u32) -> Result<Self::Ct> {
        self.each(a, |e, a| e.with_log_slots(a, log_slots))
    }
    fn twice_real_part(&self, a: &Self::Ct) -> Result<Self::Ct> {
        self.each(a, E::twice_real_part)
    }
    fn off_by(&self, a: Self::Ct, error: f64) -> Self::Ct {
        a.map(|a| self.0.off_by(a, error))
    }
    fn mod_raise(
        &self,
        a: &Self::Ct,
        to: Level,
        ephemeral_weight: Option<u32>,
    ) -> Result<Self::Ct> {
        self.each(a, |e, a| e.mod_raise(a, to, ephemeral_weight))
    }
    fn raise_transform(&self, a: &Self::Ct, matrix: &Self::Matrix) -> Result<Self::Ct> {
        Batch::of(self.0.raise_transform_many(&a.refs(), matrix))
    }
}

/// Checks that the keys raise through an ephemeral secret that is sparse enough for the circuit.
fn check_secret(e: &ckks::Evaluator, needed: Option<u32>) -> Result<()> {
    let found = e.keys().raise.as_ref().map(|keys| keys.weight);
    e.params().rules().ephemeral_secret(needed, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        circuits::ckks::sim,
        ckks::{Decryptor, Encoder, Encryptor, Params, Spec},
        rlwe::{KeyGenerator, KeyRequest},
    };
    use std::sync::Arc;

    /// Returns `a b`, `c b` and `a + b`, slot by slot.
    fn results<E: ComplexOps>(
        e: &E,
        a: &E::Ct,
        c: &E::Ct,
        b: &[Complex<f64>],
    ) -> Result<Vec<E::Ct>> {
        let mut results = e.mul_plain_many(&[a, c], b, e.chain().divisor(Level(1)))?;
        results.iter_mut().try_for_each(|product| e.rescale_assign(product))?;
        results.push(e.add_plain(a, b)?);
        Ok(results)
    }

    #[test]
    fn plain_operands_are_the_same_encrypted_and_in_the_clear() {
        let spec = Spec::uniform(6, 50.0, 1, 40.0, vec![50.0]);
        let params = Params::new(Spec { insecure: true, ..spec }).unwrap();
        let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
        let secret = keygen.secret_key().unwrap();
        let public = Arc::new(keygen.public_key(&secret).unwrap());
        let keys = Arc::new(keygen.evaluation_keys(&secret, &KeyRequest::new()).unwrap());
        let encryptor = Encryptor::new(&params, public).unwrap();
        let decryptor = Decryptor::new(&params, secret).unwrap();
        let encoder = Encoder::new(&params);
        let evaluator = ckks::Evaluator::new(&params, keys).unwrap();
        let clear = sim::Evaluator::new(6, params.chain().clone());

        let top = params.top();
        let scale = params.scale_at(params.top());
        let vector = |f: fn(f64) -> f64| -> Vec<_> {
            (0..8).map(|i| Complex::new(f(f64::from(i)), f(f64::from(i) + 0.5))).collect()
        };
        let [a, b, c] = [vector(f64::sin), vector(f64::cos), vector(f64::cbrt)];
        let encrypt = |values: &Vec<_>| {
            encryptor.encrypt(&encoder.encode_at(values, top, scale).unwrap()).unwrap()
        };
        let simulate = |values: &Vec<_>| clear.encrypt(values, top, scale).unwrap();
        let found = results(&evaluator, &encrypt(&a), &encrypt(&c), &b).unwrap();
        let expected = results(&clear, &simulate(&a), &simulate(&c), &b).unwrap();
        assert_eq!(clear.counts().constant_products, 2);
        assert_eq!(expected[0].slots[3], a[3] * b[3]);
        assert_eq!(expected[1].slots[5], c[5] * b[5]);
        assert_eq!(expected[2].slots[7], a[7] + b[7]);
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!((found.level(), found.scale()), (expected.level, expected.scale));
            let slots = encoder.decode(&decryptor.decrypt(found).unwrap()).unwrap();
            for (x, y) in slots.iter().zip(&expected.slots) {
                let error = (x.re - y.re).hypot(x.im - y.im);
                assert!(error < 8.0 * expected.noise_log2.exp2(), "{error:e}");
            }
        }

        let mismatch = |op| Error::SlotMismatch { op, found: 4, expected: 8 };
        let few = &b[..4];
        let x = encrypt(&a);
        let y = simulate(&a);
        assert_eq!(Ops::add_plain(&evaluator, &x, few).unwrap_err(), mismatch("add"));
        assert_eq!(clear.add_plain(&y, few).unwrap_err(), mismatch("add"));
        let product = Ops::mul_plain(&evaluator, &x, few, scale);
        assert_eq!(product.unwrap_err(), mismatch("multiply"));
        assert_eq!(clear.mul_plain(&y, few, scale).unwrap_err(), mismatch("multiply"));
        let nan = vec![Complex::new(f64::NAN, 0.0); 8];
        assert!(matches!(Ops::add_plain(&evaluator, &x, &nan), Err(Error::NotFinite { .. })));
        assert!(matches!(clear.add_plain(&y, &nan), Err(Error::NotFinite { .. })));
        let huge = vec![Complex::new(f64::MAX, 0.0); 8];
        let refused = |found: Result<()>| {
            assert!(matches!(found, Err(Error::ValueTooLarge { .. })), "{found:?}");
        };
        refused(Ops::mul_plain(&evaluator, &x, &huge, scale).map(drop));
        refused(clear.mul_plain(&y, &huge, scale).map(drop));
    }
}
