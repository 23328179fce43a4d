//! The functions that replace the reduction modulo `q0` in bootstrapping, and their polynomials.
//!
//! The variable is `x = I + m`, in multiples of `q0`: an integer `|I| <= K` to be removed, and a
//! message `|m| <= 2^-log2_ratio`. `sin(2πx) / 2π` is `m` up to its cube.

use super::{
    Polynomial,
    minimax::{Approximation, Domain, Parity},
};
use crate::{Error, Result};
use core::{f64::consts::TAU, ops::Range};
use sudare_arith::{dd::Dd, real};

/// The function `cos(2πt / 2^r)` of `t = x - 1/4`, which `r` double angles `y -> 2y^2 - 1` turn
/// into `sin(2πx)`.
///
/// The cosine and double angles are from Han, Ki, "Better bootstrapping for approximate homomorphic
/// encryption" ([2019/688](https://eprint.iacr.org/2019/688)), its polynomial on the union of
/// intervals from Lee et al. ([2020/552](https://eprint.iacr.org/2020/552)). The intervals
/// `I - 1/4 ± 2^-log2_ratio` are mirrored, so that the polynomial is even and evaluated with half
/// the products.
///
/// ```
/// use sudare::circuits::ckks::ScaledCosine;
///
/// let cosine = ScaledCosine::new(14, 3, 8)?;
/// let found = cosine.minimax_within(2f64.powi(-36))?;
/// let x = -9.0 + 0.003;
/// let mut y = found.polynomial.evaluate(x - 0.25);
/// for _ in 0..cosine.double_angles() {
///     y = 2.0 * y * y - 1.0;
/// }
/// let error = y - (2.0 * core::f64::consts::PI * x).sin();
/// assert!(error.abs() <= 1.01 * cosine.gain() * found.max_error);
/// # Ok::<(), sudare::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ScaledCosine {
    double_angles: u32,
    gain: f64,
    domain: Domain,
}

impl ScaledCosine {
    /// Makes the function for integers up to `max_integer` in magnitude, `double_angles` double
    /// angles and messages up to `2^-log2_ratio`.
    ///
    /// # Errors
    /// [`Error::Circuit`] for a `max_integer` above 1024, `double_angles` above 16 or a
    /// `log2_ratio` not from 3 to 32.
    pub fn new(max_integer: u32, double_angles: u32, log2_ratio: u32) -> Result<Self> {
        check_ratio(log2_ratio)?;
        if max_integer > 1024 || double_angles > 16 {
            return Err(Error::Circuit(format!(
                "scaled cosine for integers up to {max_integer} with {double_angles} double \
                 angles: at most 1024 and 16 are possible"
            )));
        }
        let message = Dd::ONE.mul_pow2(-(log2_ratio as i32)).to_f64();
        let bound = i64::from(max_integer);
        let interval =
            |i: i64| Range { start: i as f64 - 0.25 - message, end: i as f64 - 0.25 + message };
        let intervals: Vec<_> = (-bound..=bound).map(interval).collect();
        let radius = bound as f64 + 0.25 + message;
        let domain = Domain::new(&intervals, radius, Parity::Even)?;
        let nearest = Dd::from(0.25 - message).mul_pow2(-(double_angles as i32));
        let gain = Dd::ONE.mul_pow2(double_angles as i32) / nearest.sin_cos_turns().0;
        Ok(Self { double_angles, gain: gain.to_f64(), domain })
    }

    /// The number of double angles, `r`.
    #[must_use]
    pub fn double_angles(&self) -> u32 {
        self.double_angles
    }

    /// Half-width of the interval of `t`, `K + 1/4 + 2^-log2_ratio`.
    #[must_use]
    pub fn radius(&self) -> f64 {
        self.domain.radius()
    }

    /// Bounds the factor by which double angles multiply a small error of the cosine:
    /// `2^r sin(2πt) / sin(2πt / 2^r)`, at most `2^r / sin(2π (1/4 - 2^-log2_ratio) / 2^r)`.
    #[must_use]
    pub fn gain(&self) -> f64 {
        self.gain
    }

    /// Returns the even polynomial of at most this degree that is nearest to the cosine on the
    /// union.
    ///
    /// # Errors
    /// Errors of [`Approximation::minimax`].
    pub fn minimax(&self, degree: usize) -> Result<Approximation> {
        Approximation::minimax(|t| self.cosine(t), &self.domain, degree)
    }

    /// Returns the even polynomial of the lowest degree whose error is at most `max_error`, before
    /// the double angles.
    ///
    /// # Errors
    /// Errors of [`Approximation::minimax_within`].
    pub fn minimax_within(&self, max_error: f64) -> Result<Approximation> {
        Approximation::minimax_within(|t| self.cosine(t), &self.domain, max_error)
    }

    /// Interpolates in the Chebyshev nodes of `[-radius, radius]`. The coefficients decay, and the
    /// result is valid between the intervals as well.
    ///
    /// # Errors
    /// Errors of [`Approximation::chebyshev`].
    pub fn chebyshev(&self, degree: usize) -> Result<Approximation> {
        Approximation::chebyshev(|t| self.cosine(t), &self.domain, degree)
    }

    fn cosine(&self, t: Dd) -> Dd {
        t.mul_pow2(-(self.double_angles as i32)).sin_cos_turns().1
    }
}

/// The largest `|sin(2πx)|`.
pub(super) fn sine_radius(log2_ratio: f64) -> f64 {
    real::sin(TAU * real::exp2(-log2_ratio))
}

/// Interpolates `2^log2_ratio asin(y) / 2π` on the sines in the Chebyshev nodes: messages as
/// multiples of the largest one. The polynomial is odd.
///
/// This is the correction of the sine by Lee et al. ([2020/552](https://eprint.iacr.org/2020/552)).
///
/// # Errors
/// Errors of [`Polynomial::chebyshev`].
pub(super) fn inverse_sine(degree: usize, log2_ratio: f64) -> Result<Polynomial> {
    let radius = sine_radius(log2_ratio);
    let factor = real::exp2(log2_ratio) / TAU;
    Polynomial::chebyshev(|y: f64| real::asin(y) * factor, -radius..radius, degree)
}

/// Returns the Taylor polynomial in `iv` of `exp(2πix / 2^r)` for `x = radius v`. After `r`
/// squarings it is `exp(2πix)`, with the imaginary part `sin(2πx)`: Cheon, Han, Kim, Kim, Song,
/// "Bootstrapping for approximate homomorphic encryption"
/// ([2018/153](https://eprint.iacr.org/2018/153)).
///
/// # Errors
/// Errors of [`Polynomial::monomial`].
pub(super) fn exponential(degree: usize, squarings: u32, radius: f64) -> Result<Polynomial> {
    let angle = TAU * radius / real::exp2(f64::from(squarings));
    let next = |term: &mut f64, n: usize| {
        let this = *term;
        *term *= angle / (n + 1) as f64;
        Some(this)
    };
    Polynomial::monomial((0..=degree).scan(1.0, next).collect())
}

fn check_ratio(log2_ratio: u32) -> Result<()> {
    if (3..=32).contains(&log2_ratio) {
        return Ok(());
    }
    Err(Error::Circuit(format!(
        "modular reduction of messages up to 2^-{log2_ratio} of the modulus: from 2^-32 to 2^-3 \
         are possible"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ckks::Complex;

    fn union(k: i32, log2_ratio: i32) -> impl Iterator<Item = f64> {
        let message = 2f64.powi(-log2_ratio);
        let part =
            move |i: i32| (-50..=50).map(move |s| f64::from(i) + message * f64::from(s) / 50.0);
        (-k..=k).flat_map(part)
    }

    #[test]
    fn double_angles_give_the_sine() {
        for (k, r, log2_ratio) in [(14, 3, 8), (12, 2, 5), (5, 0, 3), (19, 4, 10)] {
            let cosine = ScaledCosine::new(k, r, log2_ratio).unwrap();
            let found = cosine.minimax_within(2f64.powi(-30)).unwrap();
            assert!(found.polynomial.coeffs().iter().skip(1).step_by(2).all(|&c| c == 0.0));
            let mut plain = 0f64;
            let mut doubled = 0f64;
            for x in union(k as i32, log2_ratio as i32) {
                let t = x - 0.25;
                assert!(t.abs() <= cosine.radius());
                let mut y = found.polynomial.evaluate(t);
                plain = plain.max((y - (TAU * t / 2f64.powi(r as i32)).cos()).abs());
                for _ in 0..r {
                    y = 2.0 * y * y - 1.0;
                }
                doubled = doubled.max((y - (TAU * x).sin()).abs());
            }
            assert!(plain <= found.max_error + 1e-14 && plain > 0.9 * found.max_error);
            let bound = cosine.gain() * found.max_error;
            assert!(
                doubled <= 1.001 * bound + 1e-13 && doubled > bound / 50.0,
                "{doubled:e} {bound:e}"
            );
        }
    }

    /// The union costs no more than the whole interval, and parity costs no more than all terms.
    #[test]
    fn degrees_against_other_fits() {
        let cosine = ScaledCosine::new(14, 3, 8).unwrap();
        for degree in [20, 26, 32] {
            let best = cosine.minimax(degree).unwrap().max_error;
            let interpolated = cosine.chebyshev(degree).unwrap();
            assert!(best < interpolated.max_error);
            let all = Domain::new(&cosine_intervals(14, 8), cosine.radius(), Parity::Any).unwrap();
            let free = Approximation::minimax(|t| cosine.cosine(t), &all, degree).unwrap();
            assert!(free.max_error <= best * (1.0 + 1e-6));
        }
    }

    fn cosine_intervals(k: i32, log2_ratio: i32) -> Vec<Range<f64>> {
        let e = 2f64.powi(-log2_ratio);
        (-k..=k).map(|i| f64::from(i) - 0.25 - e..f64::from(i) - 0.25 + e).collect()
    }

    /// Checks the degrees for errors of `2^-30`, `2^-36` and `2^-40`, and that none exceeds the
    /// degree of interpolation on the whole interval.
    #[test]
    fn degrees_of_bootstrapping() {
        for (k, r, degrees) in [
            (12, 3, [24, 28, 28]),
            (14, 2, [42, 44, 46]),
            (14, 3, [28, 30, 32]),
            (14, 4, [18, 20, 22]),
            (19, 3, [32, 36, 38]),
        ] {
            let cosine = ScaledCosine::new(k, r, 8).unwrap();
            for (log2_error, degree) in [-30, -36, -40].into_iter().zip(degrees) {
                let error = 2f64.powi(log2_error);
                let found = cosine.minimax_within(error).unwrap();
                assert_eq!(found.polynomial.degree(), degree);
                assert!(cosine.chebyshev(degree - 2).unwrap().max_error > error);
                assert!(found.polynomial.coeffs().iter().all(|c| c.abs() < 1.0));
            }
        }
    }

    /// Smaller messages need no higher degree, down to intervals that contain few `f64`s.
    #[test]
    fn narrow_intervals() {
        for degree in [30, 40, 62] {
            let error = |log2_ratio| {
                let cosine = ScaledCosine::new(14, 2, log2_ratio).unwrap();
                cosine.minimax(degree).unwrap().max_error
            };
            let rounding = 2f64.powi(-50);
            let errors = [3, 5, 8, 20, 32].map(error);
            assert!(
                errors.windows(2).all(|e| e[1] <= e[0] * (1.0 + 1e-6) + rounding),
                "{errors:?}"
            );
        }
    }

    /// The inverse sine removes the error up to the published term: in
    /// `asin(y) = y + y^3/6 + 3y^5/40 + ...`, interpolation shrinks the first missing term by
    /// `2^-d`.
    #[test]
    fn inverse_sine_undoes_the_sine() {
        // Coefficients of y^3, y^5, y^7 and y^9 in asin.
        let next = [1.0 / 6.0, 3.0 / 40.0, 15.0 / 336.0, 105.0 / 3456.0];
        for log2_ratio in [5, 8] {
            let largest = 2f64.powi(-log2_ratio);
            let reach = (TAU * largest).sin();
            for (degree, next) in [1, 3, 5, 7].into_iter().zip(next) {
                let found = inverse_sine(degree, f64::from(log2_ratio)).unwrap();
                assert!(found.coeffs().iter().step_by(2).all(|&c| c == 0.0));
                let error = |m: f64| found.evaluate((TAU * m).sin()) - m / largest;
                let most = union(0, log2_ratio).map(|m| error(m).abs()).fold(0.0, f64::max);
                let degree = degree as i32;
                let estimate = next * reach.powi(degree + 2) / 2f64.powi(degree) / TAU / largest;
                let off = (most / estimate - 1.0).abs();
                assert!(off < 0.1 || most < 1e-14, "{degree} {log2_ratio}: {most:e}");
            }
        }
    }

    /// The error is at most `(1 + e)^(2^r) - 1`, where `e` is the first missing term.
    #[test]
    fn exponential_by_squaring() {
        for (degree, squarings, radius) in [(7, 6, 12.25), (3, 8, 5.0), (7, 10, 20.0)] {
            let found = exponential(degree, squarings, radius).unwrap();
            let mut most = 0f64;
            for i in -1000..=1000 {
                let v = f64::from(i) / 1000.0;
                let coeffs = found.coeffs().iter().rev();
                let start = coeffs.fold(Complex::new(0.0, 0.0), |y, &c| {
                    y * Complex::new(0.0, v) + Complex::new(c, 0.0)
                });
                let y = (0..squarings).fold(start, |y, _| y * y);
                let angle = TAU * radius * v;
                most = most.max((y.re - angle.cos()).hypot(y.im - angle.sin()));
            }
            let angle = TAU * radius / 2f64.powi(squarings as i32);
            let term = (1..=degree + 1).fold(1.0, |term, k| term * angle / k as f64);
            let bound = (0..squarings).fold(term, |e, _| e * (2.0 + e));
            assert!(most <= bound + 1e-11 && most > bound / 2.0 - 1e-11, "{most:e} {bound:e}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (k, r, ratio) in [(1025, 3, 8), (14, 17, 8), (14, 3, 2), (14, 3, 33)] {
            assert!(matches!(ScaledCosine::new(k, r, ratio), Err(Error::Circuit(_))));
        }
    }
}
