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
    /// Bound of its values.
    pub value: f64,
    /// Bound of its slope.
    pub slope: f64,
    /// Magnitude of each coefficient.
    pub coeffs: Vec<f64>,
}

impl Extremes {
    /// The degree.
    #[must_use]
    pub fn degree(&self) -> usize {
        self.coeffs.len().saturating_sub(1)
    }

    /// Bounds the change of the real part of the values if arguments have imaginary parts up to
    /// `y`. The change is largest at the ends, where `Re T_n(1 + iy)` is `1 - n^4 y^2 / 6 + …`, and
    /// about `cosh(n sqrt(y))` in magnitude for `n^2 y` above 1.
    #[must_use]
    pub fn off_the_real_line(&self, y: f64) -> f64 {
        off_the_real_line(&self.coeffs, y)
    }
}

/// Computes [`Extremes::off_the_real_line`] for a polynomial with these coefficients.
pub(super) fn off_the_real_line(coeffs: &[f64], y: f64) -> f64 {
    let off = |n: f64| match n * n * y {
        small if small < 1.0 => small * small / 6.0,
        large => real::cosh(large.sqrt()),
    };
    coeffs.iter().enumerate().map(|(n, c)| c.abs() * off(n as f64)).sum()
}

/// Error of a polynomial's argument in simulation; see [`Ops::argument`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ArgumentError {
    /// Bound of all errors.
    pub largest: f64,
    /// Estimated standard deviation of the imaginary part of noise.
    pub imaginary: f64,
}

/// Operations that any circuit may request from an evaluator of any scheme.
///
/// Evaluators of ciphertexts implement it, and so do evaluators of values in the clear, which
/// dry-run circuits. Circuits for one [`Algebra`] only have a trait of their own: see
/// [`ComplexOps`](super::ckks::ComplexOps).
pub trait Ops: Send + Sync {
    /// The content of slots and the encoding of numbers.
    type Algebra: Algebra;
    /// A ciphertext, in whatever form the evaluator stores it.
    type Ct: Clone + Send + Sync;
    /// A matrix prepared for application.
    type Matrix: Send + Sync;

    /// `log2(N)`.
    fn log_n(&self) -> u32;
    /// The levels of the chain.
    fn levels(&self) -> Levels;
    /// Returns the factor by which rescaling from `level` (≥ 1) divides the scale of ciphertexts
    /// such as `like`.
    fn divisor(&self, like: &Self::Ct, level: Level) -> ScaleOf<Self>;
    /// Level of `a`.
    fn level(&self, a: &Self::Ct) -> Level;
    /// Scale of `a`.
    fn scale(&self, a: &Self::Ct) -> ScaleOf<Self>;
    /// Interprets the same integer plaintext at another scale: its values change by the ratio of
    /// the scales. Free of cost.
    fn with_scale(&self, a: &Self::Ct, scale: ScaleOf<Self>) -> Result<Self::Ct>;
    /// Adds. Levels align downwards. If scales differ, the operand at the higher level is brought
    /// to the scale of the other one by [`Ops::match_scale`].
    fn add(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct>;
    /// Subtracts; see [`Ops::add`].
    fn sub(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct>;
    /// Multiplies and relinearises, at scale `scale(a) scale(b)`, without rescaling.
    fn mul(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct>;
    /// Multiplies, relinearises and rescales.
    fn mul_rescale(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct>;
    /// Runs [`Ops::mul`] on each pair. An evaluator can compute them in one pass over the
    /// relinearisation key.
    fn mul_many(&self, pairs: &[(&Self::Ct, &Self::Ct)]) -> Result<Vec<Self::Ct>> {
        pairs.iter().map(|(a, b)| self.mul(a, b)).collect()
    }
    /// Runs [`Ops::mul_rescale`] on each pair; see [`Ops::mul_many`].
    fn mul_rescale_many(&self, pairs: &[(&Self::Ct, &Self::Ct)]) -> Result<Vec<Self::Ct>> {
        pairs.iter().map(|(a, b)| self.mul_rescale(a, b)).collect()
    }
    /// Sums products of the same scale, relinearises and rescales. An evaluator can relinearise all
    /// of them together.
    fn mul_sum_rescale(&self, sum: &ProductSum<'_, Self::Ct>) -> Result<Self::Ct>;
    /// Runs [`Ops::mul_sum_rescale`] on each sum; see [`Ops::mul_many`].
    fn mul_sum_rescale_many(&self, sums: &[ProductSum<'_, Self::Ct>]) -> Result<Vec<Self::Ct>> {
        sums.iter().map(|sum| self.mul_sum_rescale(sum)).collect()
    }
    /// Adds a constant to every slot.
    fn add_const(&self, a: &Self::Ct, c: ConstantOf<Self>) -> Result<Self::Ct>;
    /// Multiplies every slot by a constant encoded at `scale`, without rescaling.
    fn mul_const(
        &self,
        a: &Self::Ct,
        c: ConstantOf<Self>,
        scale: ScaleOf<Self>,
    ) -> Result<Self::Ct>;
    /// Sums products with coefficients that fill every slot, without rescaling. Each coefficient is
    /// encoded at its own scale, such that all products have the same scale. Levels align
    /// downwards.
    fn mul_const_sum(
        &self,
        terms: &[(&Self::Ct, CoefficientOf<Self>, ScaleOf<Self>)],
    ) -> Result<Self::Ct>;
    /// Computes, for each row of coefficients, one per ciphertext, the sum of their products,
    /// encoded at `scale`, without rescaling. An evaluator can compute all sums in one pass over
    /// the ciphertexts.
    fn mul_const_sums(
        &self,
        xs: &[&Self::Ct],
        rows: &[Vec<CoefficientOf<Self>>],
        scale: ScaleOf<Self>,
    ) -> Result<Vec<Self::Ct>> {
        let sum = |row: &Vec<CoefficientOf<Self>>| {
            if row.len() != xs.len() {
                let found = row.len();
                let needed = xs.len();
                return Err(Error::Circuit(format!(
                    "sums of products: {found} factors were given for {needed} ciphertexts"
                )));
            }
            let terms: Vec<_> = xs.iter().zip(row).map(|(&x, &c)| (x, c, scale)).collect();
            self.mul_const_sum(&terms)
        };
        rows.iter().map(sum).collect()
    }
    /// Adds a vector of slots, encoded at the level and scale of `a`. Its length is the number of
    /// slots of `a`.
    fn add_plain(&self, a: &Self::Ct, values: &VectorOf<Self>) -> Result<Self::Ct>;
    /// Multiplies by a vector of slots, encoded at `scale`, without rescaling. Its length is the
    /// number of slots of `a`.
    fn mul_plain(
        &self,
        a: &Self::Ct,
        values: &VectorOf<Self>,
        scale: ScaleOf<Self>,
    ) -> Result<Self::Ct> {
        Ok(self.mul_plain_many(&[a], values, scale)?.remove(0))
    }
    /// Runs [`Ops::mul_plain`] on each with the same vector, which is encoded once.
    fn mul_plain_many(
        &self,
        xs: &[&Self::Ct],
        values: &VectorOf<Self>,
        scale: ScaleOf<Self>,
    ) -> Result<Vec<Self::Ct>>;
    /// Rescales one level down, dividing values and scale alike.
    fn rescale_assign(&self, a: &mut Self::Ct) -> Result<()>;
    /// Drops primes down to `level`. Values and scale stay the same.
    fn drop_to(&self, a: &mut Self::Ct, level: Level) -> Result<()>;
    /// Brings `a` down to `level`, below its own, with exactly the given scale, by a product with 1
    /// at the missing scale and a rescaling.
    fn match_scale(&self, a: &Self::Ct, level: Level, scale: ScaleOf<Self>) -> Result<Self::Ct>;
    /// Applies `X -> X^g` and returns to the same key.
    fn automorphism(&self, a: &Self::Ct, g: GaloisElement) -> Result<Self::Ct>;
    /// Computes, for each group in turn, the sum of the images of `a` under its automorphisms, one
    /// of which may be the identity. An evaluator can share one decomposition and one division
    /// among a group.
    fn sum_automorphisms(&self, a: &Self::Ct, groups: &[&[GaloisElement]]) -> Result<Self::Ct> {
        groups.iter().try_fold(a.clone(), |a, group| {
            let images = group.iter().map(|&g| self.automorphism(&a, g));
            let sum = images.reduce(|sum, next| self.add(&sum?, &next?));
            let problem = "sum of images: at least one is needed in each group";
            sum.unwrap_or_else(|| Err(Error::Circuit(problem.into())))
        })
    }

    /// Encodes the matrix of a plan in the form that this evaluator uses.
    fn prepare(&self, plan: &LinearPlan<Self::Algebra>) -> Result<Self::Matrix>;
    /// Multiplies the slots by a matrix and rescales. A ciphertext above the level of the matrix is
    /// brought down to it.
    fn transform(&self, a: &Self::Ct, matrix: &Self::Matrix) -> Result<Self::Ct>;
    /// Runs [`Ops::transform`] on each. An evaluator can compute them in one pass over keys and
    /// matrix.
    fn transform_many(&self, xs: &[&Self::Ct], matrix: &Self::Matrix) -> Result<Vec<Self::Ct>> {
        xs.iter().map(|a| self.transform(a, matrix)).collect()
    }
    /// Declares that slots of `a` are at most `most` in magnitude for all intended inputs, which
    /// the steps of the circuit alone do not show. Computes nothing: simulation relies on it.
    fn within(&self, a: Self::Ct, most: f64) -> Self::Ct {
        let _ = most;
        a
    }
    /// Declares that `a` is the argument of a polynomial on `[-1, 1]` and lies in that interval for
    /// all intended inputs. Returns the possible error of each ciphertext. Simulation ignores these
    /// errors until [`Ops::image`]. Computes nothing; see [`Ops::within`].
    ///
    /// # Errors
    /// In simulation [`Error::Circuit`] for imaginary noise large enough to make the polynomial
    /// diverge.
    fn argument(&self, a: Self::Ct, p: &Extremes) -> Result<(Self::Ct, Vec<ArgumentError>)> {
        let _ = p;
        Ok((a, Vec::new()))
    }
    /// Declares that `y` is this polynomial of an [`Ops::argument`] with these errors, and is no
    /// larger than the polynomial's bound. Computes nothing; see [`Ops::within`].
    fn image(&self, y: Self::Ct, errors: &[ArgumentError], p: &Extremes) -> Self::Ct {
        let _ = (errors, p);
        y
    }

    /// Rotates left by `k`: slot `i` of the result is slot `i + k` of `a`, within each row if slots
    /// form several.
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
