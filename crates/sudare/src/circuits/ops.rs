use super::{
    algebra::Algebra,
    linear::{self, LinearPlan},
};
use crate::{
    Error, Result,
    rlwe::{GaloisElement, Level, Levels, ProductSum, Scale},
};
use sudare_arith::real;

/// The scales of an evaluator.
pub type ScaleOf<E> = <<E as Ops>::Algebra as Algebra>::Scale;
/// The constants of an evaluator.
pub type ConstantOf<E> = <<E as Ops>::Algebra as Algebra>::Constant;
/// The coefficients of an evaluator.
pub type CoefficientOf<E> = <<E as Ops>::Algebra as Algebra>::Coefficient;
/// The plaintexts in the clear of an evaluator.
pub type VectorOf<E> = <<E as Ops>::Algebra as Algebra>::Vector;

/// Bounds of a polynomial in the Chebyshev basis on `[-1, 1]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Extremes {
    /// Of its values.
    pub value: f64,
    /// Of its slope.
    pub slope: f64,
    /// The magnitude of each of its coefficients.
    pub coeffs: Vec<f64>,
}

impl Extremes {
    /// The degree.
    #[must_use]
    pub fn degree(&self) -> usize {
        self.coeffs.len().saturating_sub(1)
    }

    /// A bound of the change of the real part of its values if arguments have imaginary parts up to
    /// `y`: at the ends, where it is largest, `Re T_n(1 + iy)` is `1 - n^4 y^2 / 6 + …`, and for
    /// `n^2 y` above 1 about `cosh(n sqrt(y))` in magnitude.
    #[must_use]
    pub fn off_the_real_line(&self, y: f64) -> f64 {
        off_the_real_line(&self.coeffs, y)
    }
}

/// [`Extremes::off_the_real_line`] of a polynomial with these coefficients.
pub(super) fn off_the_real_line(coeffs: &[f64], y: f64) -> f64 {
    let off = |n: f64| match n * n * y {
        small if small < 1.0 => small * small / 6.0,
        large => real::cosh(large.sqrt()),
    };
    coeffs.iter().enumerate().map(|(n, c)| c.abs() * off(n as f64)).sum()
}

/// The error that simulation knows of the argument of a polynomial, see [`Ops::argument`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ArgumentError {
    /// A bound of all errors.
    pub largest: f64,
    /// The standard deviation of the imaginary part of noise, an estimate.
    pub imaginary: f64,
}

/// What any circuit may ask of an evaluator of any scheme.
///
/// Implemented by evaluators of ciphertexts and by those of values in the clear, which
/// dry-run circuits. Circuits never ask for more, but for those of one
/// [`Algebra`], which have a trait of their own: see [`ComplexOps`](super::ComplexOps).
pub trait Ops: Send + Sync {
    /// What slots hold, and how numbers are encoded.
    type Algebra: Algebra;
    /// A ciphertext in the evaluator's own form.
    type Ct: Clone + Send + Sync;
    /// A matrix that is ready to be applied.
    type Matrix: Send + Sync;

    /// `log2(N)`.
    fn log_n(&self) -> u32;
    /// Which levels there are.
    fn levels(&self) -> Levels;
    /// What rescaling from `level >= 1`, which there must be, divides scales of ciphertexts such
    /// as `like` by.
    fn divisor(&self, like: &Self::Ct, level: Level) -> ScaleOf<Self>;
    /// Level of `a`.
    fn level(&self, a: &Self::Ct) -> Level;
    /// Scale of `a`.
    fn scale(&self, a: &Self::Ct) -> ScaleOf<Self>;
    /// The same integer plaintext read at another scale: its values change by
    /// the ratio of the scales. Free of cost.
    fn with_scale(&self, a: &Self::Ct, scale: ScaleOf<Self>) -> Result<Self::Ct>;
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
    fn mul_sum_rescale(&self, sum: &ProductSum<'_, Self::Ct>) -> Result<Self::Ct>;
    /// [`Ops::mul_sum_rescale`] of each, as [`Ops::mul_many`].
    fn mul_sum_rescale_many(&self, sums: &[ProductSum<'_, Self::Ct>]) -> Result<Vec<Self::Ct>> {
        sums.iter().map(|sum| self.mul_sum_rescale(sum)).collect()
    }
    /// Sum with a constant in every slot.
    fn add_const(&self, a: &Self::Ct, c: ConstantOf<Self>) -> Result<Self::Ct>;
    /// Product with a constant in every slot, encoded at `scale`; not rescaled.
    fn mul_const(
        &self,
        a: &Self::Ct,
        c: ConstantOf<Self>,
        scale: ScaleOf<Self>,
    ) -> Result<Self::Ct>;
    /// The sum of products with a coefficient in every slot, each encoded at its scale so
    /// that all products have the same; not rescaled. Levels align downwards.
    fn mul_const_sum(
        &self,
        terms: &[(&Self::Ct, CoefficientOf<Self>, ScaleOf<Self>)],
    ) -> Result<Self::Ct>;
    /// For each row of coefficients, one for each ciphertext, the sum of their products, encoded at
    /// `scale`; not rescaled. An evaluator can compute all sums in one pass over the ciphertexts.
    fn mul_const_sums(
        &self,
        xs: &[&Self::Ct],
        rows: &[Vec<CoefficientOf<Self>>],
        scale: ScaleOf<Self>,
    ) -> Result<Vec<Self::Ct>> {
        let sum = |row: &Vec<CoefficientOf<Self>>| {
            if row.len() != xs.len() {
                let (found, needed) = (row.len(), xs.len());
                return Err(Error::Circuit(format!(
                    "sums of products: {found} factors were given for {needed} ciphertexts"
                )));
            }
            let terms: Vec<_> = xs.iter().zip(row).map(|(&x, &c)| (x, c, scale)).collect();
            self.mul_const_sum(&terms)
        };
        rows.iter().map(sum).collect()
    }
    /// Sum with a vector of slots, as many as `a` has, encoded at the level and scale of `a`.
    fn add_plain(&self, a: &Self::Ct, values: &VectorOf<Self>) -> Result<Self::Ct>;
    /// Product with a vector of slots, as many as `a` has, encoded at `scale`; not rescaled.
    fn mul_plain(
        &self,
        a: &Self::Ct,
        values: &VectorOf<Self>,
        scale: ScaleOf<Self>,
    ) -> Result<Self::Ct> {
        Ok(self.mul_plain_many(&[a], values, scale)?.remove(0))
    }
    /// [`Ops::mul_plain`] of each with the same vector, which is encoded once.
    fn mul_plain_many(
        &self,
        xs: &[&Self::Ct],
        values: &VectorOf<Self>,
        scale: ScaleOf<Self>,
    ) -> Result<Vec<Self::Ct>>;
    /// One level down, dividing values and scale alike.
    fn rescale_assign(&self, a: &mut Self::Ct) -> Result<()>;
    /// Down to `level`, forgetting primes; values and scale stay.
    fn drop_to(&self, a: &mut Self::Ct, level: Level) -> Result<()>;
    /// Down to `level`, below that of `a`, with exactly the scale asked for, by a product
    /// with 1 at the scale that is lacking and a rescaling.
    fn match_scale(&self, a: &Self::Ct, level: Level, scale: ScaleOf<Self>) -> Result<Self::Ct>;
    /// `X -> X^g`, under the same key again.
    fn automorphism(&self, a: &Self::Ct, g: GaloisElement) -> Result<Self::Ct>;
    /// For each group in turn, the sum of the images of `a` under its automorphisms, of which
    /// one may be the identity. An evaluator can share one decomposition and one division
    /// among a group.
    fn sum_automorphisms(&self, a: &Self::Ct, groups: &[&[GaloisElement]]) -> Result<Self::Ct> {
        groups.iter().try_fold(a.clone(), |a, group| {
            let images = group.iter().map(|&g| self.automorphism(&a, g));
            let sum = images.reduce(|sum, next| self.add(&sum?, &next?));
            let problem = "sum of images: at least one is needed in each group";
            sum.unwrap_or_else(|| Err(Error::Circuit(problem.into())))
        })
    }

    /// Encodes the matrix of a plan where this evaluator can reach it.
    fn prepare(&self, plan: &LinearPlan<Self::Algebra>) -> Result<Self::Matrix>;
    /// The product of a matrix with the slots, rescaled. A ciphertext above the level of the
    /// matrix is brought to it.
    fn transform(&self, a: &Self::Ct, matrix: &Self::Matrix) -> Result<Self::Ct>;
    /// [`Ops::transform`] of each. An evaluator can compute them in one pass over keys and
    /// matrix.
    fn transform_many(&self, xs: &[&Self::Ct], matrix: &Self::Matrix) -> Result<Vec<Self::Ct>> {
        xs.iter().map(|a| self.transform(a, matrix)).collect()
    }
    /// States that slots of `a` are at most `most` in magnitude for all inputs that the circuit
    /// is meant for, which is more than its steps tell. Computes nothing: simulation relies on it.
    fn within(&self, a: Self::Ct, most: f64) -> Self::Ct {
        let _ = most;
        a
    }
    /// States that `a` is the argument of a polynomial on `[-1, 1]`, in which it lies for all
    /// inputs that the circuit is meant for. Returns the error that it may have, one for each
    /// ciphertext, which is left out until [`Ops::image`]. Computes nothing, as [`Ops::within`].
    ///
    /// # Errors
    /// In simulation [`Error::Circuit`] for imaginary noise with which the polynomial runs away.
    fn argument(&self, a: Self::Ct, p: &Extremes) -> Result<(Self::Ct, Vec<ArgumentError>)> {
        let _ = p;
        Ok((a, Vec::new()))
    }
    /// States that `y` was computed from an [`Ops::argument`] with these errors by this polynomial,
    /// and is no larger than it. Computes nothing, as [`Ops::within`].
    fn image(&self, y: Self::Ct, errors: &[ArgumentError], p: &Extremes) -> Self::Ct {
        let _ = (errors, p);
        y
    }

    /// Slot `i` of the result is slot `i + k` of `a`, within each row if slots form several.
    fn rotate(&self, a: &Self::Ct, k: i64) -> Result<Self::Ct> {
        self.automorphism(a, GaloisElement::rotation(self.log_n(), k))
    }
}

impl<A: Algebra> LinearPlan<A> {
    /// Applies a matrix that `e` prepared from this plan to a ciphertext of its scale, at its
    /// level or above.
    ///
    /// # Errors
    /// [`Error::ScaleMismatch`] if `x` has another scale than planned, and what the evaluator
    /// refuses.
    pub fn run<E: Ops<Algebra = A>>(&self, e: &E, matrix: &E::Matrix, x: &E::Ct) -> Result<E::Ct> {
        e.scale(x).check_matches(self.scale, linear::OP)?;
        e.transform(x, matrix)
    }
}
