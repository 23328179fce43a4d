use super::{LinearPlan, input::at};
use crate::{
    Error, Result,
    ckks::{
        self, Chain, Complex, Scale,
        rules::{Form, Rules},
    },
    rlwe::{GaloisElement, Level, ProductSum},
};

/// What a circuit may ask of an evaluator.
///
/// Implemented by [`crate::ckks::Evaluator`] and by [`super::sim::Evaluator`], which
/// runs any circuit on clear values. Circuits never ask for more.
pub trait Ops: Send + Sync {
    /// A ciphertext, wherever it lives.
    type Ct: Clone + Send + Sync;
    /// A matrix that is ready to be applied.
    type Matrix: Send + Sync;

    /// `log2(N)`.
    fn log_n(&self) -> u32;
    /// What rescaling from each level divides by; see [`Chain`].
    fn chain(&self) -> &Chain;
    /// Level of `a`.
    fn level(&self, a: &Self::Ct) -> Level;
    /// `log2` of the number of slots of `a`.
    fn log_slots(&self, a: &Self::Ct) -> u32;
    /// Scale of `a`.
    fn scale(&self, a: &Self::Ct) -> Scale;
    /// The same integer plaintext read at another scale: its values change by
    /// the ratio of the scales. Free of cost.
    fn with_scale(&self, a: &Self::Ct, scale: Scale) -> Result<Self::Ct>;
    /// Read as `2^log_slots` slots: of more, values repeat; of fewer, they must have
    /// repeated. Free of cost.
    fn with_log_slots(&self, a: &Self::Ct, log_slots: u32) -> Result<Self::Ct>;
    /// Sum. Levels align downwards; scales must match.
    fn add(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct>;
    /// Difference, as [`Ops::add`].
    fn sub(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct>;
    /// Relinearised product at scale `scale(a) scale(b)`, not rescaled.
    fn mul(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct>;
    /// Relinearised product, rescaled.
    fn mul_rescale(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct>;
    /// [`Ops::mul`] of each pair. An evaluator can compute them in one pass over the
    /// relinearisation key.
    fn mul_many(&self, pairs: &[(&Self::Ct, &Self::Ct)]) -> Result<Vec<Self::Ct>> {
        pairs.iter().map(|(a, b)| self.mul(a, b)).collect()
    }
    /// [`Ops::mul_rescale`] of each pair, as [`Ops::mul_many`].
    fn mul_rescale_many(&self, pairs: &[(&Self::Ct, &Self::Ct)]) -> Result<Vec<Self::Ct>> {
        pairs.iter().map(|(a, b)| self.mul_rescale(a, b)).collect()
    }
    /// A sum of products, all at one scale, relinearised and rescaled. An evaluator can
    /// relinearise all of them together.
    fn mul_sum_rescale(&self, sum: &ProductSum<'_, Self::Ct>) -> Result<Self::Ct> {
        let form = |a: &Self::Ct| form(self, a);
        let forms: Vec<_> = sum.products.iter().map(|(a, b)| (form(a), form(b))).collect();
        Rules::new(self.chain(), self.log_n()).product_sum(&forms, sum.addend.map(form))?;
        let products = sum.products.iter().map(|(a, b)| self.mul(a, b));
        let total = products
            .chain(sum.addend.map(|c| Ok(c.clone())))
            .reduce(|total, next| self.add(&total?, &next?));
        let mut total =
            total.unwrap_or_else(|| Err(Error::Circuit("sum of products: none".into())))?;
        self.rescale_assign(&mut total)?;
        Ok(total)
    }
    /// [`Ops::mul_sum_rescale`] of each, as [`Ops::mul_many`].
    fn mul_sum_rescale_many(&self, sums: &[ProductSum<'_, Self::Ct>]) -> Result<Vec<Self::Ct>> {
        sums.iter().map(|sum| self.mul_sum_rescale(sum)).collect()
    }
    /// Sum with a constant in every slot.
    fn add_const(&self, a: &Self::Ct, c: Complex<f64>) -> Result<Self::Ct>;
    /// Product with a constant in every slot, encoded at `scale`; not rescaled.
    fn mul_const(&self, a: &Self::Ct, c: Complex<f64>, scale: Scale) -> Result<Self::Ct>;
    /// The sum of products with real constants in every slot, each encoded at its scale so
    /// that all products have the same; not rescaled. Levels align downwards.
    fn mul_const_sum(&self, terms: &[(&Self::Ct, f64, Scale)]) -> Result<Self::Ct> {
        let forms: Vec<_> = terms.iter().map(|(a, _, scale)| (form(self, a), *scale)).collect();
        let level = Rules::new(self.chain(), self.log_n()).constant_sum(&forms)?.level;
        let product = |(a, c, scale): &(&Self::Ct, f64, Scale)| {
            self.mul_const(&*at(self, a, level)?, Complex::new(*c, 0.0), *scale)
        };
        let sum = terms.iter().map(product).reduce(|sum, next| self.add(&sum?, &next?));
        sum.unwrap_or_else(|| Err(Error::Circuit("sum of products: no terms".into())))
    }
    /// Sum with a vector of slots, as many as `a` has, encoded at the level and scale of `a`.
    fn add_plain(&self, a: &Self::Ct, values: &[Complex<f64>]) -> Result<Self::Ct>;
    /// Product with a vector of slots, as many as `a` has, encoded at `scale`; not rescaled.
    fn mul_plain(&self, a: &Self::Ct, values: &[Complex<f64>], scale: Scale) -> Result<Self::Ct> {
        Ok(self.mul_plain_many(&[a], values, scale)?.remove(0))
    }
    /// [`Ops::mul_plain`] of each with the same vector, which is encoded once.
    fn mul_plain_many(
        &self,
        xs: &[&Self::Ct],
        values: &[Complex<f64>],
        scale: Scale,
    ) -> Result<Vec<Self::Ct>>;
    /// One level down, dividing values and scale alike.
    fn rescale_assign(&self, a: &mut Self::Ct) -> Result<()>;
    /// Down to `level`, forgetting primes; values and scale stay.
    fn drop_to(&self, a: &mut Self::Ct, level: Level) -> Result<()>;
    /// Down to `level`, below that of `a`, with exactly the scale asked for, by a product
    /// with 1 at the scale that is lacking and a rescaling.
    fn match_scale(&self, a: &Self::Ct, level: Level, scale: Scale) -> Result<Self::Ct> {
        let rules = Rules::new(self.chain(), self.log_n());
        let factor = rules.matching_factor(form(self, a), level, scale)?;
        let mut a = a.clone();
        self.drop_to(&mut a, Level(level.0 + 1))?;
        let mut a = self.mul_const(&a, Complex::new(1.0, 0.0), factor)?;
        self.rescale_assign(&mut a)?;
        self.with_scale(&a, scale)
    }
    /// `X -> X^g`, under the same key again.
    fn automorphism(&self, a: &Self::Ct, g: GaloisElement) -> Result<Self::Ct>;
    /// For each group in turn, the sum of the images of `a` under its automorphisms, of which
    /// one may be the identity. An evaluator can share one decomposition and one division
    /// among a group.
    fn sum_images(&self, a: &Self::Ct, groups: &[&[GaloisElement]]) -> Result<Self::Ct> {
        groups.iter().try_fold(a.clone(), |a, group| {
            let images = group.iter().map(|&g| self.automorphism(&a, g));
            let sum = images.reduce(|sum, next| self.add(&sum?, &next?));
            sum.unwrap_or_else(|| Err(Error::Circuit("sum of images: a group of none".into())))
        })
    }
    /// From level 0, to which a higher one is dropped first, up to level `to`: the
    /// polynomial `m` becomes `m + q_0 I`. Scale and number of slots stay. A circuit that
    /// relies on a small `I` names the largest weight that an ephemeral secret may have, and
    /// there must be one.
    fn mod_raise(&self, a: &Self::Ct, to: Level, ephemeral_weight: Option<u32>)
    -> Result<Self::Ct>;

    /// Encodes the matrix of a plan where this evaluator can reach it.
    fn prepare(&self, plan: &LinearPlan) -> Result<Self::Matrix>;
    /// The product of a matrix with the slots, rescaled. A ciphertext above the level of the
    /// matrix is brought to it.
    fn transform(&self, a: &Self::Ct, matrix: &Self::Matrix) -> Result<Self::Ct>;
    /// [`Ops::transform`] of each. An evaluator can compute them in one pass over keys and
    /// matrix.
    fn transform_many(&self, xs: &[&Self::Ct], matrix: &Self::Matrix) -> Result<Vec<Self::Ct>> {
        xs.iter().map(|a| self.transform(a, matrix)).collect()
    }
    /// [`Ops::mod_raise`] to the level of a matrix planned for that
    /// ([`LinearTransform::plan_raised`](super::LinearTransform::plan_raised)), and
    /// [`Ops::transform`].
    fn raise_transform(&self, a: &Self::Ct, matrix: &Self::Matrix) -> Result<Self::Ct>;
    /// [`Ops::raise_transform`] of each, as [`Ops::transform_many`].
    fn raise_transform_many(
        &self,
        xs: &[&Self::Ct],
        matrix: &Self::Matrix,
    ) -> Result<Vec<Self::Ct>> {
        xs.iter().map(|a| self.raise_transform(a, matrix)).collect()
    }

    /// States that slots of `a` are at most `most` in magnitude for all inputs that the circuit
    /// is meant for, which is more than its steps tell. Computes nothing: simulation relies on it.
    fn within(&self, a: Self::Ct, most: f64) -> Self::Ct {
        let _ = most;
        a
    }
    /// States that `a` is the argument of a polynomial on `[-1, 1]`, in which it lies for all
    /// inputs that the circuit is meant for. Returns the largest error that it may have, which is
    /// left out until [`Ops::image`]. Computes nothing, as [`Ops::within`].
    fn argument(&self, a: Self::Ct) -> (Self::Ct, f64) {
        (a, 0.0)
    }
    /// States that `y` was computed from an [`Ops::argument`] of this error by a polynomial of this
    /// degree whose slope on `[-1, 1]` is at most `slope` in magnitude. Computes nothing, as
    /// [`Ops::within`].
    fn image(&self, y: Self::Ct, error: f64, degree: usize, slope: f64) -> Self::Ct {
        let _ = (error, degree, slope);
        y
    }

    /// Slot `i` of the result is slot `i + k` of `a`.
    fn rotate(&self, a: &Self::Ct, k: i64) -> Result<Self::Ct> {
        self.automorphism(a, GaloisElement::rotation(self.log_n(), k))
    }

    /// The complex conjugate of every slot.
    fn conjugate(&self, a: &Self::Ct) -> Result<Self::Ct> {
        self.automorphism(a, GaloisElement::conjugation(self.log_n()))
    }
}

/// What is public about a ciphertext beside its polynomials.
fn form<E: Ops + ?Sized>(e: &E, a: &E::Ct) -> Form {
    Form { level: e.level(a), scale: e.scale(a), log_slots: e.log_slots(a) }
}

impl Ops for ckks::Evaluator {
    type Ct = ckks::Ciphertext;
    type Matrix = ckks::EncodedMatrix;

    fn log_n(&self) -> u32 {
        self.params().log_n()
    }
    fn chain(&self) -> &Chain {
        self.params().chain()
    }
    fn level(&self, a: &Self::Ct) -> Level {
        a.level()
    }
    fn log_slots(&self, a: &Self::Ct) -> u32 {
        a.log_slots
    }
    fn scale(&self, a: &Self::Ct) -> Scale {
        a.scale()
    }
    fn with_scale(&self, a: &Self::Ct, scale: Scale) -> Result<Self::Ct> {
        self.with_scale(a, scale)
    }
    fn with_log_slots(&self, a: &Self::Ct, log_slots: u32) -> Result<Self::Ct> {
        self.with_log_slots(a, log_slots)
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
    fn add_plain(&self, a: &Self::Ct, values: &[Complex<f64>]) -> Result<Self::Ct> {
        self.params().rules().one_a_slot("add", values, a.form())?;
        self.add_plain(a, &self.encoder().encode(values, a.level(), a.scale())?)
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
        let plain = self.encoder().encode(values, level, scale)?;
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
    fn sum_images(&self, a: &Self::Ct, groups: &[&[GaloisElement]]) -> Result<Self::Ct> {
        self.sum_images(a, groups)
    }
    fn prepare(&self, plan: &LinearPlan) -> Result<Self::Matrix> {
        self.encode_matrix(plan.rotation_sum(), |j, b| plan.weight(j, b))
    }
    fn transform(&self, a: &Self::Ct, matrix: &Self::Matrix) -> Result<Self::Ct> {
        self.transform(a, matrix)
    }
    fn transform_many(&self, xs: &[&Self::Ct], matrix: &Self::Matrix) -> Result<Vec<Self::Ct>> {
        self.transform_many(xs, matrix)
    }
    fn raise_transform(&self, a: &Self::Ct, matrix: &Self::Matrix) -> Result<Self::Ct> {
        check_secret(self, matrix.sum().ephemeral_weight)?;
        self.raise_transform(a, matrix)
    }
    fn raise_transform_many(
        &self,
        xs: &[&Self::Ct],
        matrix: &Self::Matrix,
    ) -> Result<Vec<Self::Ct>> {
        check_secret(self, matrix.sum().ephemeral_weight)?;
        self.raise_transform_many(xs, matrix)
    }
    fn mod_raise(&self, a: &Self::Ct, to: Level, weight: Option<u32>) -> Result<Self::Ct> {
        check_secret(self, weight)?;
        self.mod_raise(a, to)
    }
}

/// Whether the keys raise through an ephemeral secret as sparse as a circuit needs.
fn check_secret(e: &ckks::Evaluator, needed: Option<u32>) -> Result<()> {
    let found = e.keys().raise.as_ref().map(|keys| keys.weight);
    e.params().rules().ephemeral_secret(needed, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        circuits::sim,
        ckks::{Decryptor, Encoder, Encryptor, Params, Spec},
        rlwe::{KeyGenerator, KeyRequest},
    };
    use std::sync::Arc;

    /// `a b`, `c b` and `a + b`, slot by slot.
    fn results<E: Ops>(e: &E, a: &E::Ct, c: &E::Ct, b: &[Complex<f64>]) -> Result<Vec<E::Ct>> {
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

        let (top, scale) = (params.top(), params.scale_at(params.top()));
        let vector = |f: fn(f64) -> f64| -> Vec<_> {
            (0..8).map(|i| Complex::new(f(f64::from(i)), f(f64::from(i) + 0.5))).collect()
        };
        let [a, b, c] = [vector(f64::sin), vector(f64::cos), vector(f64::cbrt)];
        let encrypt = |values: &Vec<_>| {
            encryptor.encrypt(&encoder.encode(values, top, scale).unwrap()).unwrap()
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
        let (x, y) = (encrypt(&a), simulate(&a));
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
