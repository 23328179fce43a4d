//! Functions of encrypted slots: inverse, exponential, logarithm, square root, sigmoid, tanh,
//! absolute value, relu, sign, comparison, maximum, minimum, and polynomials with arbitrary
//! coefficients.
//!
//! A [`Function`] is built in the clear. It consists of polynomials to evaluate one after the other
//! ([`Function::stages`]), a last step ([`Function::finish`]), and the measured largest error on
//! its interval ([`Function::max_error`]). It is then planned for ciphertexts of a level
//! ([`Function::plan`], [`Function::plan_at`]) and run. A [`PairFunction`] is a function of two
//! numbers through their difference.
//!
//! | function | polynomials | source |
//! |---|---|---|
//! | [`exp`], [`log`], [`sqrt`], [`sigmoid`], [`tanh`] | the minimax polynomial | [`sudare::circuits::ckks::minimax`] |
//! | [`polynomial()`] | itself | |
//! | [`inverse`] | in product form | 2016/421, Algorithm 2, improved |
//! | [`sign`], [`step`], [`compare`] | a composition of minimax polynomials | 2020/834 |
//! | [`abs`], [`relu`], [`maximum`], [`minimum`] | the same times the argument, or one minimax polynomial | 2020/834 |
//!
//! Two errors add up. The error of the *approximation* is known in the clear. The error of the
//! *evaluation* is the difference between the decrypted slots and [`Function::evaluate`]. It is a
//! few roundings at the scale of the slots, amplified by the slope of the function. For the three
//! functions of [`table_2`] it stays below `2^-32` under the preset `functions-n14`. There a
//! ciphertext starts one level above the polynomial and is rescaled first, which removes the noise
//! of encryption.

mod inverse;
mod pair;
mod plan;
mod precise;
mod sign;

use core::{f64::consts::PI, fmt, ops::Range};
use std::borrow::Cow;

use sudare::{
    Error, Result,
    circuits::ckks::{
        Polynomial,
        minimax::{Approximation, Dd, Domain, MAX_DEGREE, Parity},
    },
    ckks::Scale,
};
use sudare_arith::real;

use inverse::ProductForm;
pub use pair::{PairFunction, PairPlan, compare, maximum, minimum};
pub use plan::FunctionPlan;
pub(crate) use plan::{real_part, twice};
pub(crate) use sign::NOISE;
pub use sign::{abs, relu, sign, step};

/// Number of points, in each piece of an interval, at which errors and bounds are measured.
const SAMPLES: usize = 5_000;

/// Number of points for measurements that evaluate each point several times.
const FEW_SAMPLES: usize = 500;

/// Errors of encrypted values that go through the polynomials of a function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// The largest error of an argument.
    pub argument: f64,
    /// The largest error that the evaluation of a polynomial, or bootstrapping after it, adds to
    /// the value.
    pub between: f64,
}

impl Noise {
    /// Returns six standard deviations of the noise of fresh encryptions in a ring of dimension
    /// `2^log_n` at `scale`, with a few roundings at this scale.
    #[must_use]
    pub fn fresh(log_n: u32, scale: Scale) -> Self {
        let unit = real::exp2(f64::from(log_n) - scale.log2());
        Self { argument: 16.0 * unit, between: 4.0 * unit }
    }

    /// Raises both errors to at least `error`, the error of bootstrapping.
    #[must_use]
    pub fn bootstrapped(self, error: f64) -> Self {
        Self { argument: self.argument.max(error), between: self.between.max(error) }
    }
}

/// Accuracy of an approximation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fit {
    /// One polynomial of at most this degree, which is at most 255.
    Degree(usize),
    /// An error of at most `2^-bits` on the whole interval, at the minimum depth and then of the
    /// minimum degree.
    PrecisionBits(f64),
}

/// Returns the error that a precision allows.
///
/// # Errors
/// [`Error::Circuit`] for a precision beyond double precision.
fn tolerance(bits: f64) -> Result<f64> {
    // NaN fails this comparison, too.
    if bits.abs() <= MAX_PRECISION_BITS {
        return Ok(real::exp2(-bits));
    }
    Err(Error::Circuit(format!(
        "function to {bits} bits: from -{MAX_PRECISION_BITS} to {MAX_PRECISION_BITS} are possible"
    )))
}

/// Rejects ends that do not form an interval of numbers.
///
/// # Errors
/// [`Error::Circuit`].
fn check_interval(name: &str, interval: &Range<f64>) -> Result<()> {
    let Range { start, end } = *interval;
    // NaN fails these comparisons, too.
    if start < end && start.is_finite() && end.is_finite() {
        return Ok(());
    }
    Err(Error::Circuit(format!(
        "{name} on {interval:?}: two finite ends are needed, the lower first"
    )))
}

/// Above this precision, coefficients of double precision are too coarse.
const MAX_PRECISION_BITS: f64 = 48.0;

/// Last step: computes the result from the value of the last polynomial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The result is the value.
    Value,
    /// The result is the value times the argument of the first polynomial, one level more.
    TimesArgument,
}

/// Returns the functions of Table 2 of Cheon, Han, Kim, Kim, Song, "A full RNS variant of
/// approximate homomorphic encryption" (SAC 2018, [2018/931](https://eprint.iacr.org/2018/931)).
///
/// In the paper's order and of its degrees, these are the inverse on `[1/2, 3/2]` (degree 15), the
/// exponential on `[-1, 1]` (7) and the sigmoid on `[-4, 4]` (7). Deviation: the paper's Taylor
/// polynomials have much larger errors at the same cost.
///
/// # Errors
/// None: the intervals are valid.
pub fn table_2() -> Result<[Function; 3]> {
    Ok([
        inverse(0.5..1.5, Fit::Degree(15))?,
        exp(-1.0..1.0, Fit::Degree(7))?,
        sigmoid(-4.0..4.0, Fit::Degree(7))?,
    ])
}

/// Approximates `1 / x` on an interval of positive numbers by a polynomial in product form. Its
/// degree is `2^n - 1` with `2 <= n <= 8`; other degrees are rounded up to one of these, at the
/// same depth.
///
/// Let `x = r (c + t)` with `t` in `[-1, 1]`, `t_k = T_(2^k)(t)` and `c_k = T_(2^k)(c)`, where `T`
/// are Chebyshev polynomials. Since `2 (c_k - t_k)(c_k + t_k) = c_(k+1) - t_(k+1)`,
///
/// ```text
/// 1 / x  =  2^n (c_0 - t_0)(c_1 + t_1) … (c_(n-1) + t_(n-1)) / (r (c_n - t_n))
/// ```
///
/// Replacing `c_n - t_n` by `c_n` leaves a relative error of `1 / T_(2^n)(c)`, the minimum over all
/// polynomials of this degree. On `[1/2, 3/2]`, where `c = 2`, four factors give `2^-29`. The
/// evaluation needs `2 (n - 1)` products.
///
/// Deviation from the paper of [`table_2`], which takes `(1 + y)(1 + y^2)(1 + y^4) …` with
/// `y = 1 - x` (Algorithm 2 of Cheon, Kim, Kim, Song,
/// [2016/421](https://eprint.iacr.org/2016/421)): its relative error there is `2^-16`, at the same
/// cost.
///
/// # Errors
/// [`Error::Circuit`] unless the interval is finite and positive, for a precision that degree 255
/// does not reach, or if the interval is so narrow that a lower degree is exact.
pub fn inverse(interval: Range<f64>, fit: Fit) -> Result<Function> {
    let function = |factors: u32| -> Result<Function> {
        let form = ProductForm::new(&interval, factors)?;
        let degree = (1 << factors) - 1;
        let polynomial = Polynomial::chebyshev(|x| form.evaluate(x), interval.clone(), degree)?;
        Ok(Function { product: Some(form), ..Function::smooth("inverse", f64::recip, polynomial) })
    };
    let max_error = match fit {
        Fit::Degree(degree) => return function(depth_of(degree).max(ProductForm::MIN_FACTORS)),
        Fit::PrecisionBits(bits) => tolerance(bits)?,
    };
    let mut reached = f64::INFINITY;
    for factors in ProductForm::MIN_FACTORS..=ProductForm::MAX_FACTORS {
        let found = function(factors)?;
        reached = found.max_error;
        if reached <= max_error {
            return Ok(found);
        }
    }
    Err(Error::Circuit(format!(
        "inverse within {max_error:e} on {interval:?}: degree 255 reaches {reached:e}; raise the \
         lower end of the interval, or accept a larger error"
    )))
}

/// Approximates `e^x`.
///
/// # Errors
/// [`Error::Circuit`] for an interval that is empty, infinite or so long that the function
/// overflows, and for a precision that degree 255 does not reach.
pub fn exp(interval: Range<f64>, fit: Fit) -> Result<Function> {
    if interval.end.is_finite() && real::exp(interval.end).is_infinite() {
        return Err(Error::Circuit(format!(
            "exponential on {interval:?}: it is not finite at {}: end the interval below 700",
            interval.end
        )));
    }
    minimax("exponential", real::exp, precise::exp, interval, fit, None)
}

/// Approximates the natural logarithm.
///
/// # Errors
/// The errors of [`exp`]; [`Error::Circuit`] for an interval that is not positive.
pub fn log(interval: Range<f64>, fit: Fit) -> Result<Function> {
    if interval.start <= 0.0 {
        return Err(Error::Circuit(format!(
            "logarithm on {interval:?}: it is not finite at {}: start the interval above 0",
            interval.start
        )));
    }
    minimax("logarithm", real::ln, precise::ln, interval, fit, None)
}

/// Approximates the square root. Near 0 the error falls slowly: on `[0, b]` degree `n` has an error
/// of `0.14 sqrt(b) / n`.
///
/// # Errors
/// The errors of [`exp`]; [`Error::Circuit`] for an interval with negative numbers.
pub fn sqrt(interval: Range<f64>, fit: Fit) -> Result<Function> {
    if interval.start < 0.0 {
        return Err(Error::Circuit(format!(
            "square root on {interval:?}: {} has no square root: start the interval at 0 or above",
            interval.start
        )));
    }
    minimax("square root", f64::sqrt, Dd::sqrt, interval, fit, None)
}

/// Approximates the sigmoid `1 / (1 + e^-x)`. On an interval around 0 the polynomial is one half
/// and odd terms.
///
/// # Errors
/// The errors of [`exp`].
pub fn sigmoid(interval: Range<f64>, fit: Fit) -> Result<Function> {
    let exact = |x: f64| 1.0 / (1.0 + real::exp(-x));
    minimax("sigmoid", exact, precise::sigmoid, interval, fit, Some(0.5))
}

/// Approximates the hyperbolic tangent. On an interval around 0 the polynomial is odd.
///
/// # Errors
/// The errors of [`exp`].
pub fn tanh(interval: Range<f64>, fit: Fit) -> Result<Function> {
    minimax("tanh", real::tanh, precise::tanh, interval, fit, Some(0.0))
}

/// Builds the polynomial `sum coefficients[n] x^n` on an interval. It is evaluated in Chebyshev
/// polynomials of the interval.
///
/// # Errors
/// [`Error::Circuit`] for an interval that is empty or infinite, for a constant, for a degree above
/// 255 and for values that are not finite; [`Error::NotFinite`] for a coefficient.
pub fn polynomial(coefficients: Vec<f64>, interval: Range<f64>) -> Result<Function> {
    check_interval("polynomial", &interval)?;
    let degree = Polynomial::monomial(coefficients.clone())?.degree();
    if !(1..=MAX_DEGREE).contains(&degree) {
        return Err(Error::Circuit(format!(
            "polynomial of degree {degree}: degrees from 1 to {MAX_DEGREE} are possible"
        )));
    }
    let p = Polynomial::chebyshev(|x| horner(&coefficients, x), interval.clone(), degree);
    let p = p.map_err(|_| {
        Error::Circuit(format!(
            "polynomial of degree {degree} on {interval:?}: its values are not finite; shorten the \
             interval, or use smaller coefficients"
        ))
    })?;
    let function = Function::smooth("polynomial", |x| x, p);
    Ok(Function { exact: Exact::Polynomial(coefficients), ..function }.measured())
}

fn horner(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

/// Finds the minimax polynomial of a function. `odd_about` is the function's value at 0 if the
/// function is odd around it.
fn minimax(
    name: &'static str,
    exact: fn(f64) -> f64,
    precise: impl Fn(Dd) -> Dd,
    interval: Range<f64>,
    fit: Fit,
    odd_about: Option<f64>,
) -> Result<Function> {
    let Range { start, end } = interval;
    check_interval(name, &interval)?;
    // Halves first, because the sum of huge ends would overflow.
    let middle = start / 2.0 + end / 2.0;
    let radius = end / 2.0 - start / 2.0;
    let (parity, centre) = match odd_about {
        Some(value) if middle == 0.0 => (Parity::Odd, value),
        _ => (Parity::Any, 0.0),
    };
    let domain = Domain::new(&[-1.0..1.0], 1.0, parity)?;
    let f = |t: Dd| precise(Dd::from(middle) + Dd::from(radius) * t) - Dd::from(centre);
    let found = match fit {
        Fit::Degree(degree) => Approximation::minimax(f, &domain, degree),
        Fit::PrecisionBits(bits) => Approximation::minimax_within(f, &domain, tolerance(bits)?),
    };
    let in_function = |error| match error {
        // The interval is much longer than the part where the function bends.
        Error::Circuit(_) if highest_misses(name, &interval) => Error::Circuit(format!(
            "{name} on {interval:?}: no polynomial of degree {MAX_DEGREE} approximates it there: \
             scale the numbers down and use an interval that contains them, such as -8..8, or use \
             sign or step with a gap"
        )),
        Error::Circuit(problem) => Error::Circuit(format!("{name} on {interval:?}: {problem}")),
        other => other,
    };
    let mut coeffs = found.map_err(in_function)?.polynomial.coeffs().to_vec();
    // The value at 0 was taken off so that the function is odd.
    coeffs[0] += centre;
    let polynomial = Polynomial::chebyshev_series(coeffs, interval.clone())?;
    Ok(Function::smooth(name, exact, polynomial))
}

/// Returns whether the interval of a function that rises once is too long for any polynomial to
/// follow the rise.
fn highest_misses(name: &str, interval: &Range<f64>) -> bool {
    matches!(name, "sigmoid" | "tanh") && interval.end - interval.start > 4.0 * MAX_DEGREE as f64
}

/// Returns the levels of a polynomial of this degree.
fn depth_of(degree: usize) -> u32 {
    usize::BITS - degree.leading_zeros()
}

/// The function that the polynomials approximate.
#[derive(Clone)]
enum Exact {
    Known(fn(f64) -> f64),
    /// The sum of `c_n x^n`.
    Polynomial(Vec<f64>),
}

/// Prints no address of a function: the address differs between processes, and digests use the
/// printed text.
impl fmt::Debug for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(_) => f.write_str("Known"),
            Self::Polynomial(coefficients) => {
                f.debug_tuple("Polynomial").field(coefficients).finish()
            }
        }
    }
}

/// A function with the polynomials that approximate it on an interval.
#[derive(Debug, Clone)]
pub struct Function {
    name: &'static str,
    exact: Exact,
    interval: (f64, f64),
    gap: f64,
    stages: Vec<Polynomial>,
    finish: Finish,
    /// The product form of the only stage, if it has one.
    product: Option<ProductForm>,
    max_error: f64,
}

impl Function {
    /// Builds a function from one polynomial that approximates it on its whole interval.
    fn smooth(name: &'static str, exact: fn(f64) -> f64, polynomial: Polynomial) -> Self {
        let Range { start, end } = polynomial.interval();
        Self {
            name,
            exact: Exact::Known(exact),
            interval: (start, end),
            gap: 0.0,
            stages: vec![polynomial],
            finish: Finish::Value,
            product: None,
            max_error: 0.0,
        }
        .measured()
    }

    /// Measures the error of the function.
    fn measured(self) -> Self {
        let error = |x| {
            let error = (self.exact(x) - self.evaluate(x)).abs();
            // `max` ignores NaN, which must not pass for a small error.
            if error.is_nan() { f64::INFINITY } else { error }
        };
        let max_error = self.points(self.gap, SAMPLES).map(error).fold(0.0, f64::max);
        Self { max_error, ..self }
    }

    /// Returns points of the interval outside `(-gap, gap)`. They are as dense near the ends of
    /// each piece as extremes of polynomials are.
    fn points(&self, gap: f64, samples: usize) -> impl Iterator<Item = f64> {
        let (start, end) = self.interval;
        let pieces = match start < 0.0 && 0.0 < end {
            true => vec![(start, -gap), (gap, end)],
            false => vec![(start, end)],
        };
        pieces.into_iter().flat_map(move |(a, b)| {
            (0..=samples).map(move |i| {
                let part = (1.0 - real::cos(PI * i as f64 / samples as f64)) / 2.0;
                a * (1.0 - part) + b * part
            })
        })
    }

    /// Returns the name of the function.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the value of the exact function at `x`.
    #[must_use]
    pub fn exact(&self, x: f64) -> f64 {
        match &self.exact {
            Exact::Known(exact) => exact(x),
            Exact::Polynomial(coefficients) => horner(coefficients, x),
        }
    }

    /// Returns the value of the approximation at `x`, in the clear.
    #[must_use]
    pub fn evaluate(&self, x: f64) -> f64 {
        let value = self.stages.iter().fold(x, |value, stage| stage.evaluate(value));
        match self.finish {
            Finish::Value => value,
            Finish::TimesArgument => value * x,
        }
    }

    /// Returns the polynomials to evaluate one after the other, at least one. Slots must lie in
    /// [`Polynomial::interval`] of the first polynomial. Values between two polynomials lie within
    /// `[-1, 1]`, even if bootstrapping adds an error of up to `2^-16` there. For larger errors see
    /// [`Function::for_noise`]. These bounds hold on the real line only. Take real parts between
    /// polynomials ([`ComplexOps::twice_real_part`]), since each polynomial amplifies imaginary
    /// parts of noise.
    ///
    /// [`ComplexOps::twice_real_part`]: sudare::circuits::ckks::ComplexOps::twice_real_part
    #[must_use]
    pub fn stages(&self) -> &[Polynomial] {
        &self.stages
    }

    /// Returns whether imaginary parts up to `imaginary` in a stage's arguments change the real
    /// parts of its values by more than noise may ([`Polynomial::off_the_real_line`]).
    #[must_use]
    pub fn needs_real_argument(&self, stage: usize, imaginary: f64) -> bool {
        let Some(stage) = self.stages.get(stage) else { return false };
        let Range { start, end } = stage.interval();
        let values = [start, end].map(|x| stage.evaluate(x).abs());
        let largest = values.into_iter().fold(1.0, f64::max);
        stage.off_the_real_line(imaginary) > NOISE / 2.0 * largest
    }

    /// Returns the largest error of encrypted results under noise.
    ///
    /// It contains the error of the approximation ([`Function::max_error`]) and the slope of the
    /// function times the error of its argument. It also contains the amplification by polynomials,
    /// which grow fast outside their intervals. Between two polynomials of a composition, values
    /// come so close to 0 that noise can change their sign. The error is measured at 1,000 points
    /// on each side of 0, dense at the ends, the gap and 0.
    #[must_use]
    pub fn stated_error(&self, noise: Noise) -> f64 {
        let error = |x: f64| {
            let (low, high) = self.values_around(x, noise);
            let exact = self.exact(x);
            let error = (low - exact).abs().max((high - exact).abs());
            if error.is_nan() { f64::INFINITY } else { error }
        };
        let points = self.points(self.gap, FEW_SAMPLES).chain(self.dips());
        points.map(error).fold(self.max_error, f64::max)
    }

    /// Returns arguments between the ends of the interval, on either side of 0, at which the first
    /// of several polynomials is nearest to 0.
    fn dips(&self) -> Vec<f64> {
        let [first, _, ..] = &self.stages[..] else { return Vec::new() };
        let value = |x: f64| first.evaluate(x).abs();
        let dip = |window: &[f64]| match *window {
            [a, b, c] if a < b && b < c && a * c > 0.0 && value(b) <= value(a).min(value(c)) => {
                let third = |(low, high): (f64, f64)| {
                    let third = (high - low) / 3.0;
                    match value(low + third) < value(high - third) {
                        true => (low, high - third),
                        false => (low + third, high),
                    }
                };
                // 40 steps narrow the place by `(3/2)^40`, which is `2^23`.
                let (low, high) = (0..40).fold((a, c), |range, _| third(range));
                Some(low / 2.0 + high / 2.0)
            }
            _ => None,
        };
        let points: Vec<f64> = self.points(self.gap, FEW_SAMPLES).collect();
        points.windows(3).filter_map(dip).collect()
    }

    /// Returns the smallest and the largest value that noise can produce at `x`.
    fn values_around(&self, x: f64, noise: Noise) -> (f64, f64) {
        /// Number of parts of the interval that noise leaves open, for sampling.
        const PARTS: u32 = 4;
        let ends = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high): (f64, f64), y| {
                (low.min(y), high.max(y))
            })
        };
        let around = |value: f64| (value - noise.argument, value + noise.argument);
        let (low, high) = self.stages.iter().fold(around(x), |(low, high), stage| {
            let part = |i: u32| low + (high - low) * f64::from(i) / f64::from(PARTS);
            let (low, high) = ends(&mut (0..=PARTS).map(|i| stage.evaluate(part(i))));
            (low - noise.between, high + noise.between)
        });
        let (least, most) = around(x);
        match self.finish {
            Finish::Value => (low, high),
            Finish::TimesArgument => {
                ends(&mut [low, high].into_iter().flat_map(|y| [y * least, y * most]))
            }
        }
    }

    /// Returns the function adapted to `noise`. It is unchanged up to `2^-16`. Above that, several
    /// polynomials get room for the noise in their intervals.
    ///
    /// # Errors
    /// [`Error::Circuit`] if noise makes results wrong: between polynomials of a composition that
    /// must be more precise than the noise, next to a gap that is not wider than the noise, or at
    /// the ends of an interval.
    pub fn for_noise(&self, noise: Noise) -> Result<Cow<'_, Self>> {
        let mut function = Cow::Borrowed(self);
        if noise.argument.max(noise.between) > NOISE && self.stages.len() > 1 {
            let mut wider = self.clone();
            if let [first, between @ .., _] = &mut wider.stages[..] {
                *first = sign::widened(first, noise.argument)?;
                *first = sign::shrunk(first, noise.between)?;
                for stage in between {
                    *stage = sign::shrunk(stage, noise.between)?;
                }
            }
            function = Cow::Owned(wider.measured());
        }
        let found = function.stated_error(noise);
        if found <= self.tolerable_error(noise) {
            return Ok(function);
        }
        Err(Error::Circuit(format!(
            "{} on {:?}: errors of up to {:.1e} in arguments and {:.1e} between its polynomials \
             cause errors of {found:.1e} in results: use larger scales, or a more precise \
             bootstrapping such as n16-boot, {}",
            self.name,
            self.interval(),
            noise.argument,
            noise.between,
            match (self.gap > 0.0, self.stages.len()) {
                (true, _) => "or a wider gap",
                (false, 1) => "an interval that is a little wider, or a lower degree",
                (false, _) => "or fewer bits of precision",
            }
        )))
    }

    /// Returns the error that `noise` may cause: a few times the argument's error, times the slope
    /// of the function.
    fn tolerable_error(&self, noise: Noise) -> f64 {
        let points: Vec<f64> = self.points(self.gap, FEW_SAMPLES).collect();
        let slope = |pair: &[f64]| match pair {
            // Pairs around 0 are left out, because a sign or step jumps there.
            [a, b] if a < b && (*a > 0.0 || *b < 0.0) => {
                ((self.exact(*b) - self.exact(*a)) / (b - a)).abs()
            }
            _ => 0.0,
        };
        let slope = points.windows(2).map(slope).fold(1.0, f64::max);
        2.0 * self.max_error + 8.0 * slope * noise.argument.max(noise.between)
    }

    /// Returns the step after the last polynomial.
    #[must_use]
    pub fn finish(&self) -> Finish {
        self.finish
    }

    /// Returns the interval in which slots must lie.
    #[must_use]
    pub fn interval(&self) -> Range<f64> {
        self.interval.0..self.interval.1
    }

    /// Returns the gap. Nearer to 0 than this, the result lies anywhere between the values on both
    /// sides. 0 for continuous functions.
    #[must_use]
    pub fn gap(&self) -> f64 {
        self.gap
    }

    /// Returns the largest difference between the exact function and [`Function::evaluate`] among
    /// 10,000 points of the interval without the gap. The points are dense near the ends, the gap
    /// and 0.
    #[must_use]
    pub fn max_error(&self) -> f64 {
        self.max_error
    }

    /// Returns the minimum number of levels of an evaluation: `ceil(log2(degree + 1))` for each
    /// polynomial, and one for a product with the argument. If the half-width of the interval is
    /// far from 1, one more level is needed where the scale of the slots cannot be chosen for it.
    #[must_use]
    pub fn depth(&self) -> u32 {
        let stages = match &self.product {
            Some(form) => form.depth(),
            None => self.stages.iter().map(|stage| depth_of(stage.degree())).sum(),
        };
        stages + u32::from(self.finish == Finish::TimesArgument)
    }
}

#[cfg(test)]
mod tests {
    use sudare::{
        circuits::ckks::sim,
        ckks::{Complex, Params, Scale, Spec},
        rlwe::Level,
    };

    use super::*;

    fn functions_n14() -> Params {
        Params::new(sudare::ckks::preset("functions-n14").unwrap().spec).unwrap()
    }

    /// Returns parameters with `levels` levels, in a ring too small to be secure.
    fn deep(levels: usize) -> Params {
        let spec = Spec::uniform(10, 50.0, levels, 40.0, vec![50.0; levels / 4 + 1]);
        Params::new(Spec { insecure: true, ..spec }).unwrap()
    }

    /// Returns points of the interval outside the gap.
    fn grid(f: &Function) -> Vec<f64> {
        let Range { start, end } = f.interval();
        let all = (0..512).map(|i| start + (end - start) * f64::from(i) / 511.0);
        all.filter(|x| x.abs() >= f.gap()).collect()
    }

    /// Checks on the simulator that the plan keeps its promises.
    fn check(f: &Function, params: &Params, plan: &FunctionPlan) {
        let e = sim::Evaluator::new(params.log_n(), params.chain().clone());
        let xs = grid(f);
        let slots: Vec<_> = xs.iter().map(|&x| Complex::new(x, 0.0)).collect();
        let x = e.encrypt(&slots, plan.level(), plan.scale()).unwrap();
        let y = plan.run(&e, &x).unwrap();
        assert_eq!(y.level, plan.output_level());
        assert!(y.scale.matches(plan.output_scale()));
        assert!(y.headroom_bits > 0.0, "{}: {} bits of room", f.name(), y.headroom_bits);
        assert_eq!(&e.used_keys(), plan.required_keys());
        assert_eq!(e.counts().products, plan.products() as u64);
        let largest = xs.iter().map(|&x| f.exact(x).abs()).fold(1.0, f64::max);
        for (x, y) in xs.iter().zip(&y.slots) {
            let error = (f.evaluate(*x) - y.re).abs();
            assert!(error < 1e-11 * largest, "{} of {x}: {error:e}", f.name());
            assert!((f.exact(*x) - y.re).abs() < 1.001 * f.max_error() + 1e-11 * largest);
        }
        let both = plan.run_many(&e, &[x.clone(), x]).unwrap();
        assert!(both.iter().all(|other| other.slots == y.slots));
    }

    #[test]
    fn approximation_errors_are_those_of_theory() {
        // T_16(2), by the recurrence of T_n.
        let (_, t16) = (0..15).fold((1.0, 2.0), |(a, b): (f64, f64), _| (b, 4.0 * b - a));
        let f = inverse(0.5..1.5, Fit::Degree(15)).unwrap();
        assert_eq!((f.stages()[0].degree(), f.depth()), (15, 4));
        assert!((f.max_error() * t16 / 2.0 - 1.0).abs() < 1e-4, "{:e}", f.max_error());
        for i in 0..1000 {
            let x = 0.5 + f64::from(i) / 999.0;
            assert!((x * f.evaluate(x) - 1.0).abs() < 1.0001 / t16);
        }
        let f = exp(-1.0..1.0, Fit::Degree(7)).unwrap();
        // The first term left out, T_8 / (2^7 8!), and a part of the next.
        let leading = 1.0 / (128.0 * 40_320.0);
        assert!(f.max_error() < 1.2 * leading && f.max_error() > leading);
        // 2n E_2n(|x|) tends to 0.28017 (Varga, Carpenter 1985); sqrt is |x| of the square.
        for degree in [16, 40] {
            let scaled = |error: f64| error * 2.0 * degree as f64 / 0.280_17;
            let root = sqrt(0.0..1.0, Fit::Degree(degree)).unwrap();
            let bend = relu(-1.0..1.0, Fit::Degree(2 * degree)).unwrap();
            for error in [root.max_error(), 2.0 * bend.max_error()] {
                assert!((scaled(error) - 1.0).abs() < 1e-3, "{degree}: {}", scaled(error));
            }
        }
    }

    #[test]
    fn precision_is_reached_with_the_least_degree() {
        type Make = fn(Range<f64>, Fit) -> Result<Function>;
        let cases: [(Make, Range<f64>, f64); 8] = [
            (exp, -2.0..3.0, 20.0),
            (log, 0.25..8.0, 16.0),
            (sqrt, 0.1..10.0, 14.0),
            (sigmoid, -8.0..8.0, 20.0),
            (sigmoid, -2.0..8.0, 12.0),
            (tanh, -4.0..4.0, 30.0),
            (exp, -1.0..1.0, 44.0),
            (log, 1.0..1.5, -2.0),
        ];
        for (make, interval, bits) in cases {
            let f = make(interval.clone(), Fit::PrecisionBits(bits)).unwrap();
            assert!(f.max_error() <= (-bits).exp2() * (1.0 + 1e-9), "{}", f.name());
            let degree = f.stages()[0].degree();
            let symmetric = interval.start == -interval.end && f.name() != "exponential";
            if let Some(below) = degree.checked_sub(if symmetric { 2 } else { 1 }) {
                let lower = make(interval, Fit::Degree(below)).unwrap();
                assert!(lower.max_error() > (-bits).exp2(), "{} of degree {degree}", f.name());
            }
        }
        let f = inverse(0.01..1.0, Fit::PrecisionBits(20.0)).unwrap();
        // 100 times 2 r^-64 with r = 11 / 9 is above, 100 times 2 r^-128 below.
        assert!(f.max_error() <= (-20f64).exp2() && f.depth() == 7);
        let f = tanh(-4.0..4.0, Fit::Degree(16)).unwrap();
        assert_eq!((f.stages()[0].degree(), f.evaluate(0.0)), (15, 0.0));
    }

    #[test]
    fn the_simulator_agrees_with_the_polynomials() {
        let params = functions_n14();
        let mut functions = table_2().unwrap().to_vec();
        functions.push(inverse(1e3..1.1e4, Fit::Degree(7)).unwrap());
        functions.push(inverse(2.0..2.5, Fit::Degree(3)).unwrap());
        for f in &functions {
            check(f, &params, &f.plan(&params).unwrap());
        }
        functions.extend([
            log(0.5..100.0, Fit::PrecisionBits(8.0)).unwrap(),
            sqrt(0.0..4.0, Fit::Degree(31)).unwrap(),
            tanh(-3.0..3.0, Fit::PrecisionBits(15.0)).unwrap(),
            inverse(0.002..1.0, Fit::PrecisionBits(10.0)).unwrap(),
            sign(-5.0..5.0, 0.1, Fit::PrecisionBits(12.0)).unwrap(),
            step(-0.5..0.5, 0.05, Fit::Degree(31)).unwrap(),
            abs(-1.0..1.0, Fit::Degree(30)).unwrap(),
            relu(-20.0..3.0, Fit::PrecisionBits(8.0)).unwrap(),
        ]);
        let params = deep(16);
        for f in &functions {
            check(f, &params, &f.plan(&params).unwrap());
            for level in [params.top(), Level(f.depth() + 1)] {
                let plan = f.plan_at(&params, level).unwrap();
                assert!(plan.scale().matches(params.scale_at(level)));
                let expected = params.scale_at(plan.output_level());
                assert!(plan.output_scale().matches(expected), "{}", f.name());
                assert!(level.0 - plan.output_level().0 <= f.depth() + 1);
                check(f, &params, &plan);
            }
        }
    }

    /// Stage by stage, with a fresh plan for each, as between bootstrappings.
    #[test]
    fn stages_can_be_evaluated_one_by_one() {
        let params = deep(16);
        let chain = params.chain();
        for f in [
            sign(-3.0..2.0, 0.05, Fit::PrecisionBits(16.0)).unwrap(),
            relu(-3.0..2.0, Fit::PrecisionBits(11.0)).unwrap(),
        ] {
            assert!(f.stages().len() > 1);
            let e = sim::Evaluator::new(params.log_n(), chain.clone());
            let xs = grid(&f);
            let slots: Vec<_> = xs.iter().map(|&x| Complex::new(x, 0.0)).collect();
            let top = params.top();
            let x = e.encrypt(&slots, top, params.scale_at(top)).unwrap();
            let mut y = x.clone();
            for stage in f.stages() {
                let Range { start, end } = stage.interval();
                assert!(y.slots.iter().all(|y| start <= y.re && y.re <= end));
                // Refreshed with an error that bootstrapping may have.
                let error = |i: usize| if i.is_multiple_of(2) { 1e-5 } else { -1e-5 };
                let refreshed = y.slots.iter().enumerate().map(|(i, y)| y.re + error(i));
                let refreshed: Vec<_> = refreshed.map(|y| Complex::new(y, 0.0)).collect();
                y = e.encrypt(&refreshed, top, params.scale_at(top)).unwrap();
                let plan = stage.plan_to(chain, top, y.scale, |l| Ok(params.scale_at(l))).unwrap();
                y = plan.run(&e, &y).unwrap();
            }
            for (&x, y) in xs.iter().zip(&y.slots) {
                let y = if f.finish() == Finish::TimesArgument { x * y.re } else { y.re };
                let error = (y - f.exact(x)).abs();
                assert!(error < f.max_error() + 1e-3, "{} of {x}: {error:e}", f.name());
            }
        }
    }

    /// Errors of any sign, of arguments and between polynomials.
    #[test]
    fn noise_between_polynomials_costs_what_is_stated() {
        for f in [
            relu(-3.0..2.0, Fit::PrecisionBits(11.0)).unwrap(),
            abs(-1.0..1.0, Fit::PrecisionBits(16.0)).unwrap(),
            sign(-3.0..2.0, 0.05, Fit::PrecisionBits(16.0)).unwrap(),
            sigmoid(-8.0..8.0, Fit::PrecisionBits(16.0)).unwrap(),
            inverse(0.05..1.0, Fit::Degree(63)).unwrap(),
        ] {
            let slope = if f.name() == "inverse" { 400.0 } else { 1.0 };
            for noise in [-20.0, -16.0, -13.0].map(f64::exp2) {
                let both = Noise { argument: noise, between: noise };
                // The noise may exceed the tolerance of the polynomials.
                let Ok(f) = f.for_noise(both) else {
                    assert!(noise > NOISE, "{}", f.name());
                    continue;
                };
                let stated = f.stated_error(both);
                let most = 2.0 * f.max_error() + 8.0 * slope * noise;
                assert!((f.max_error()..most).contains(&stated), "{}: {stated:e}", f.name());
                let stages = f.stages().len();
                for (x, signs) in
                    grid(&f).into_iter().flat_map(|x| (0..2 << stages).map(move |s| (x, s)))
                {
                    let off = |k: usize| if (signs >> k) & 1 == 1 { noise } else { -noise };
                    let mut y = x;
                    for (k, stage) in f.stages().iter().enumerate() {
                        y += off(k);
                        let Range { start, end } = stage.interval();
                        assert!(stages == 1 || (start <= y && y <= end), "{} {k} {y}", f.name());
                        y = stage.evaluate(y);
                    }
                    if f.finish() == Finish::TimesArgument {
                        y *= x + off(stages);
                    }
                    let error = (y - f.exact(x)).abs();
                    assert!(error <= 1.05 * stated, "{} of {x}: {error:e} {stated:e}", f.name());
                }
            }
        }
        // Values between the first two polynomials come as close to 0 as 2^-24.
        let precise = abs(-1.0..1.0, Fit::PrecisionBits(28.0)).unwrap();
        for (bits, right) in [(-21.0, false), (-28.0, true)] {
            let noise = Noise { argument: 1e-9, between: f64::exp2(bits) };
            assert_eq!(precise.for_noise(noise).is_ok(), right, "{bits}");
        }
        let narrow = sign(-1.0..1.0, 1e-4, Fit::PrecisionBits(8.0)).unwrap();
        let noise = (-10f64).exp2();
        let refused = narrow.for_noise(Noise { argument: noise, between: noise }).unwrap_err();
        assert!(refused.to_string().contains("a wider gap"), "{refused}");
    }

    /// `p(x + iy)`, by the recurrence of Chebyshev polynomials of a complex number.
    fn off_the_real_line(p: &Polynomial, x: f64, y: f64) -> f64 {
        let Range { start, end } = p.interval();
        let radius = (end - start) / 2.0;
        let t = (x - (start + end) / 2.0) / radius;
        let u = y / radius;
        let mut last = (1.0, 0.0);
        let mut this = (t, u);
        let mut sum = p.coeffs()[0];
        for c in &p.coeffs()[1..] {
            sum += c * this.0;
            let next = (
                2.0 * (t * this.0 - u * this.1) - last.0,
                2.0 * (t * this.1 + u * this.0) - last.1,
            );
            last = this;
            this = next;
        }
        sum
    }

    #[test]
    fn arguments_that_need_not_be_real_may_have_imaginary_noise() {
        let mut needed = 0;
        for f in [
            abs(-1.0..1.0, Fit::Degree(30)).unwrap(),
            abs(-1.0..1.0, Fit::Degree(254)).unwrap(),
            abs(-1.0..1.0, Fit::PrecisionBits(20.0)).unwrap(),
            inverse(0.05..1.0, Fit::Degree(127)).unwrap(),
            sqrt(0.0..1.0, Fit::Degree(255)).unwrap(),
            sigmoid(-8.0..8.0, Fit::PrecisionBits(24.0)).unwrap(),
        ] {
            for y in [-20.0, -16.0, -12.0].map(f64::exp2) {
                let stage = &f.stages()[0];
                let off = |x: f64| (off_the_real_line(stage, x, y) - stage.evaluate(x)).abs();
                let found = grid(&f).into_iter().map(off).fold(0.0, f64::max);
                let largest = grid(&f).into_iter().map(|x| f.exact(x).abs()).fold(1.0, f64::max);
                match f.needs_real_argument(0, y) {
                    true => needed += 1,
                    false => assert!(found < NOISE * largest, "{} {y:e}: {found:e}", f.name()),
                }
            }
        }
        assert!((3..12).contains(&needed), "{needed}");
        assert!(!abs(-1.0..1.0, Fit::PrecisionBits(20.0)).unwrap().needs_real_argument(99, 1.0));
    }

    #[test]
    fn polynomials_have_the_coefficients_that_were_given() {
        let f = polynomial(vec![1.0, -2.0, 0.0, 0.5], -2.0..5.0).unwrap();
        assert_eq!((f.name(), f.depth(), f.stages()[0].degree()), ("polynomial", 2, 3));
        for x in grid(&f) {
            let expected = 1.0 - 2.0 * x + 0.5 * x * x * x;
            assert!((f.evaluate(x) - expected).abs() <= f.max_error() * 1.01 + 1e-15);
            assert!((f.exact(x) - expected).abs() < 1e-13);
        }
        assert!(f.max_error() < 1e-12);
        let params = deep(4);
        check(&f, &params, &f.plan(&params).unwrap());
        // The slope at 5 is 35.5.
        let noise = Noise { argument: 1e-3, between: 0.0 };
        assert!((f.stated_error(noise) / 35.5e-3 - 1.0).abs() < 0.01);
        for (coefficients, interval) in [
            (vec![1.0], -1.0..1.0),
            (vec![], -1.0..1.0),
            (vec![1.0, f64::NAN], -1.0..1.0),
            (vec![0.0, 1.0], 1.0..-1.0),
            (vec![1.0; 257], -1.0..1.0),
            (vec![1.0; 256], -1e9..1e9),
        ] {
            assert!(polynomial(coefficients, interval).is_err());
        }
        // The same text in each process.
        assert!(!format!("{:?}", abs(-1.0..1.0, Fit::Degree(4)).unwrap()).contains("0x"));
    }

    #[test]
    fn messages_say_what_is_wrong_with_an_interval() {
        let fit = Fit::PrecisionBits(16.0);
        for (refused, part) in [
            (log(0.0..1.0, fit), "start the interval above 0"),
            (sqrt(-1.0..1.0, fit), "start the interval at 0 or above"),
            (exp(0.0..1000.0, fit), "end the interval below 700"),
            (tanh(-1e9..1e9, fit), "no polynomial of degree 255 approximates it"),
            (sigmoid(-1e9..1e9, Fit::PrecisionBits(8.0)), "scale the numbers down"),
        ] {
            let message = refused.unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn impossible_wishes_are_refused() {
        for (interval, fit) in [
            (-1.0..1.0, Fit::Degree(15)),
            (2.0..1.0, Fit::Degree(15)),
            (1.0..f64::NAN, Fit::Degree(15)),
            (1.0..2.0, Fit::Degree(256)),
            (1.0..1.0 + 1e-9, Fit::Degree(15)),
            (1e-4..1.0, Fit::PrecisionBits(20.0)),
            (1.0..2.0, Fit::PrecisionBits(f64::NAN)),
            (1.0..2.0, Fit::PrecisionBits(60.0)),
        ] {
            assert!(matches!(inverse(interval, fit), Err(Error::Circuit(_))));
        }
        let degree = Fit::Degree(7);
        for refused in [
            exp(0.0..f64::INFINITY, degree),
            exp(0.0..1e4, degree),
            exp(1.0..1.0, degree),
            log(-1.0..1.0, degree),
            log(0.0..1.0, degree),
            sqrt(-0.1..1.0, degree),
            sqrt(0.0..1.0, Fit::PrecisionBits(20.0)),
            sigmoid(-8.0..8.0, Fit::Degree(300)),
            sign(-1.0..1.0, 0.0, degree),
            sign(-1.0..1.0, 1.0, degree),
            sign(-1.0..1.0, 1e-9, degree),
            sign(-1.0..1.0, f64::NAN, degree),
            sign(1.0..-1.0, 0.1, degree),
            relu(0.0..f64::INFINITY, degree),
            abs(-1.0..1.0, Fit::PrecisionBits(47.0)),
        ] {
            assert!(matches!(refused, Err(Error::Circuit(_))), "{refused:?}");
        }
        assert!(maximum(1.0..0.0, degree).is_err());
        let params = functions_n14();
        let deep = sigmoid(-8.0..8.0, Fit::Degree(63)).unwrap();
        for refused in [deep.plan(&params), deep.plan_at(&params, params.top())] {
            let refused = refused.unwrap_err();
            assert!(matches!(refused, Error::LevelExhausted { needed: 6, .. }), "{refused}");
        }
        let above = Level(params.top().0 + 1);
        let refused = table_2().unwrap()[0].plan_at(&params, above);
        assert!(matches!(refused, Err(Error::LevelOutOfRange { .. })));
        let refused = inverse(1e3..1.1e4, Fit::Degree(31)).unwrap().plan_at(&params, params.top());
        assert!(matches!(refused, Err(Error::LevelExhausted { needed: 6, .. })));
        let plan = table_2().unwrap()[1].plan(&params).unwrap();
        let e = sim::Evaluator::new(params.log_n(), params.chain().clone());
        let low = e.encrypt(&[], Level(1), params.scale_at(Level(1))).unwrap();
        assert!(matches!(plan.run(&e, &low), Err(Error::LevelOutOfRange { .. })));
        let other = e.encrypt(&[], plan.level(), Scale::from_log2(30.0)).unwrap();
        assert!(matches!(plan.run(&e, &other), Err(Error::ScaleMismatch { .. })));
    }
}
