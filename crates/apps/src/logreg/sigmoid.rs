//! Polynomials in place of the sigmoid, and their evaluation.

use super::spec::{SigmoidApprox, SigmoidFit, TrainError};
use std::f64::consts::PI;
use sudare_arith::real;

impl SigmoidFit {
    fn weight(self, u: f64) -> f64 {
        match self {
            Self::Uniform => 1.0,
            Self::Centred => real::exp(-8.0 * u * u) + 0.002,
        }
    }
}

impl SigmoidApprox {
    /// Returns the coefficients `c` of `s(x) = c[0] + c[1] x + ...`, the polynomial of this degree
    /// with the smallest weighted integral of `(s(x) - sigmoid(-x))^2` over `[-range, range]`.
    ///
    /// `c[0]` is 1/2 and the other even coefficients are 0. The approximation of `sigmoid(x)`
    /// itself is `s(-x)`.
    ///
    /// # Errors
    /// [`TrainError::Range`] if the range is not in `(0, MAX_RANGE]`.
    pub fn coefficients(&self) -> Result<Vec<f64>, TrainError> {
        self.check()?;
        let range = self.range;
        let degree = u32::from(self.degree) as usize;
        // The poles of sigmoid(-range u) = 1/2 - tanh(range u / 2) / 2 nearest to [-1, 1] are u =
        // ±i pi / range. The quadrature's error therefore falls as exp(-2 asinh(pi / range)) per
        // node. The error of the weight's quadrature falls faster.
        // `20 / asinh` nodes leave `exp(-40)`, below double precision.
        let nodes = ((20.0 / real::asinh(PI / range)).ceil() as usize + degree).max(64);
        let legendre = legendre_monomials(degree);
        // The function without its 1/2 is odd, so even terms are 0.
        let odd: Vec<&Vec<f64>> = legendre.iter().skip(1).step_by(2).collect();
        // Normal equations, in Legendre polynomials.
        let count = odd.len();
        let mut equations = vec![vec![0.0; count + 1]; count];
        for (u, weight) in real::gauss_legendre(nodes) {
            let weight = weight * self.fit.weight(u);
            let value = -0.5 * real::tanh(0.5 * range * u);
            let values: Vec<f64> = odd.iter().map(|polynomial| horner(polynomial, u)).collect();
            for (equation, a) in equations.iter_mut().zip(&values) {
                for (cell, b) in equation.iter_mut().zip(values.iter().chain([&value])) {
                    *cell += weight * a * b;
                }
            }
        }
        let mut coefficients = vec![0.0; degree + 1];
        coefficients[0] = 0.5;
        for (share, monomials) in solved(equations).iter().zip(odd) {
            for (power, monomial) in monomials.iter().enumerate() {
                coefficients[power] += share * monomial / real::powi(range, power as i32);
            }
        }
        Ok(coefficients)
    }
}

/// A sigmoid's polynomial in the variable `t = x / range`, in the form of its evaluation:
///
/// ```text
/// s(x) = 1/2 + lead t (t^2 + shift)                               degree 3
///        1/2 + lead t ((t^2 + shift) t^2 + rest)                  degree 5
///        1/2 + lead t ((t^2 + shift) (t^4 + inner) + rest)        degree 7
/// ```
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sigmoid {
    pub degree: u32,
    pub range: f64,
    /// Positive for degrees 3 and 7, negative for 5.
    pub lead: f64,
    pub shift: f64,
    pub tail: Option<Tail>,
    /// Sum of the absolute coefficients of odd powers of `t`.
    pub size: f64,
}

/// The terms of degrees 5 and 7 beyond degree 3.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tail {
    /// The constant of the inner factor, for degree 7.
    pub inner: Option<f64>,
    pub rest: f64,
}

impl Sigmoid {
    pub fn new(approx: &SigmoidApprox) -> Result<Self, TrainError> {
        let powers = approx.coefficients()?;
        let range = approx.range;
        let odd: Vec<f64> =
            (1..powers.len()).step_by(2).map(|k| powers[k] * real::powi(range, k as i32)).collect();
        let size = odd.iter().map(|c| c.abs()).sum();
        let degree = powers.len() as u32 - 1;
        let (lead, shift, tail) = match odd[..] {
            [c1, c3] => (c3, c1 / c3, None),
            [c1, c3, c5] => (c5, c3 / c5, Some(Tail { inner: None, rest: c1 / c5 })),
            [c1, c3, c5, c7] => {
                let shift = c5 / c7;
                let inner = c3 / c7;
                let rest = c1 / c7 - shift * inner;
                (c7, shift, Some(Tail { inner: Some(inner), rest }))
            }
            _ => return Err(TrainError::Degree { found: degree }),
        };
        Ok(Self { degree, range, lead, shift, tail, size })
    }

    /// Returns the largest slopes down and up of the polynomial without its 1/2, for `t` in
    /// `[-1, 1]`.
    pub fn slopes(&self) -> (f64, f64) {
        let Self { lead, shift, .. } = *self;
        let slope = |y: f64| match &self.tail {
            None => 3.0 * y + shift,
            Some(Tail { inner: None, rest }) => (5.0 * y + 3.0 * shift) * y + rest,
            Some(Tail { inner: Some(inner), rest }) => {
                ((7.0 * y + 5.0 * shift) * y + 3.0 * inner) * y + rest + shift * inner
            }
        };
        let slopes = (0..=STEPS).map(|k| lead * slope(f64::from(k) / f64::from(STEPS)));
        let (falls, rises) = slopes
            .fold((0.0f64, 0.0f64), |(falls, rises), slope| (falls.max(-slope), rises.max(slope)));
        (BETWEEN * falls, BETWEEN * rises + (BETWEEN - 1.0) * falls)
    }

    /// Returns bounds of the polynomial's derivatives by its intermediate values, over `lead`, for
    /// `t` in `[-1, 1]`.
    pub fn reach(&self) -> Reach {
        match self.tail {
            None => Reach { square: 1.0, factor: 0.0, product: 0.0 },
            Some(Tail { inner: None, .. }) => {
                let factor = 1.0 + self.shift.abs();
                Reach { square: 1.0 + factor, factor: 0.0, product: 1.0 }
            }
            Some(Tail { inner: Some(inner), .. }) => {
                let factor = 1.0 + self.shift.abs();
                let product = 1.0 + inner.abs();
                Reach { square: product + 2.0 * factor, factor, product }
            }
        }
    }
}

/// Number of points at which slopes are compared.
const STEPS: u32 = 1 << 12;

/// Factor by which slopes between these points may be larger.
const BETWEEN: f64 = 1.01;

/// Derivatives by the squares `t^2`, by the last factor if it is another square, and by its
/// cofactor if that is not the sum itself.
pub(super) struct Reach {
    pub square: f64,
    pub factor: f64,
    pub product: f64,
}

/// Evaluates `c[0] + c[1] x + ...`.
pub(super) fn horner(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

/// Solves symmetric positive definite equations by elimination. Each equation ends with its right
/// side.
pub(crate) fn solved(mut equations: Vec<Vec<f64>>) -> Vec<f64> {
    let count = equations.len();
    // Positive definite equations need no search for pivots.
    for k in 0..count {
        let pivot = equations[k].clone();
        for equation in &mut equations[k + 1..] {
            let factor = equation[k] / pivot[k];
            equation.iter_mut().zip(&pivot).for_each(|(cell, other)| *cell -= factor * other);
        }
    }
    let mut solution = vec![0.0; count];
    for k in (0..count).rev() {
        let known: f64 = (k + 1..count).map(|j| equations[k][j] * solution[j]).sum();
        solution[k] = (equations[k][count] - known) / equations[k][k];
    }
    solution
}

/// Returns the monomial coefficients of the Legendre polynomials `P_0, ..., P_degree`, constant
/// first, by `(k + 1) P_{k+1} = (2k + 1) x P_k - k P_{k-1}`.
fn legendre_monomials(degree: usize) -> Vec<Vec<f64>> {
    let mut all = vec![vec![1.0], vec![0.0, 1.0]];
    for k in 1..degree {
        let mut next = vec![0.0; k + 2];
        for (power, coefficient) in all[k].iter().enumerate() {
            next[power + 1] += (2 * k + 1) as f64 * coefficient;
        }
        for (power, coefficient) in all[k - 1].iter().enumerate() {
            next[power] -= k as f64 * coefficient;
        }
        for coefficient in &mut next {
            *coefficient /= (k + 1) as f64;
        }
        all.push(next);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{super::spec::SigmoidDegree, *};

    const DEGREES: [SigmoidDegree; 3] =
        [SigmoidDegree::Three, SigmoidDegree::Five, SigmoidDegree::Seven];
    const FITS: [SigmoidFit; 2] = [SigmoidFit::Uniform, SigmoidFit::Centred];

    fn uniform(degree: SigmoidDegree, range: f64) -> Vec<f64> {
        SigmoidApprox { degree, range, fit: SigmoidFit::Uniform }.coefficients().unwrap()
    }

    /// Published work on encrypted training uses, for `sigmoid(x)`, the polynomials
    /// `0.5 + 1.20096 (x/8) - 0.81562 (x/8)^3` and `0.5 + 1.73496 (x/8) - 4.19407 (x/8)^3 +
    /// 5.43402 (x/8)^5 - 2.50739 (x/8)^7`. Coefficients of the second are off the continuous
    /// optimum by up to a factor of 1.0008.
    #[test]
    fn coefficients_agree_with_published_ones() {
        let published: [(SigmoidDegree, &[f64], f64); 2] = [
            (SigmoidDegree::Three, &[1.20096, -0.81562], 1e-5),
            (SigmoidDegree::Seven, &[1.73496, -4.19407, 5.43402, -2.50739], 1e-3),
        ];
        for (degree, odd, tolerance) in published {
            let s = uniform(degree, 8.0);
            assert_eq!(s.len(), 2 * odd.len());
            assert_eq!(s[0], 0.5);
            for (k, expected) in odd.iter().enumerate() {
                let power = 2 * k + 1;
                let found = -s[power] * 8_f64.powi(power as i32);
                assert!((found / expected - 1.0).abs() < tolerance, "{found} {expected}");
            }
            assert!(s.iter().skip(2).step_by(2).all(|&even| even == 0.0));
        }
    }

    /// The weighted error of a least squares fit is orthogonal to all polynomials of the degree.
    #[test]
    fn approximation_error_is_orthogonal_to_monomials() {
        for range in [0.5, 2.0, 8.0, 30.0, SigmoidApprox::MAX_RANGE] {
            for (degree, fit) in DEGREES.into_iter().flat_map(|d| FITS.map(|fit| (d, fit))) {
                let s = SigmoidApprox { degree, range, fit }.coefficients().unwrap();
                for power in (1..s.len()).step_by(2) {
                    // Simpson's rule over u = x / range.
                    let intervals = 40_000;
                    let integral: f64 = (0..=intervals)
                        .map(|i| {
                            let u = 2.0 * f64::from(i) / f64::from(intervals) - 1.0;
                            let ends = i == 0 || i == intervals;
                            let weight = if ends { 1.0 } else { f64::from(2 + 2 * (i % 2)) };
                            let error = horner(&s, range * u) - 1.0 / (1.0 + (range * u).exp());
                            weight * fit.weight(u) * error * u.powi(power as i32)
                        })
                        .sum::<f64>()
                        * 2.0
                        / (3.0 * f64::from(intervals));
                    assert!(integral.abs() < 1e-11, "{range} {degree:?} {power}: {integral:e}");
                }
            }
        }
    }

    /// Checks the errors in the documentation of [`SigmoidFit::Centred`].
    #[test]
    fn errors_are_those_stated() {
        let worst = |s: &[f64], most: f64| {
            (0..=1000)
                .map(|i| f64::from(i) / 1000.0 * most)
                .map(|x| (horner(s, x) - 1.0 / (1.0 + x.exp())).abs())
                .fold(0.0, f64::max)
        };
        let [three, five, seven] = DEGREES.map(|degree| worst(&uniform(degree, 8.0), 8.0));
        assert!(seven < five && five < three && three < 0.12, "{three} {five} {seven}");
        assert!((0.03..0.035).contains(&seven), "{seven}");
        let centred = SigmoidApprox::default().coefficients().unwrap();
        let errors = [3.0, 5.0, 8.0].map(|most| worst(&centred, most));
        for (found, stated) in errors.iter().zip([0.012, 0.022, 0.23]) {
            assert!(*found < stated && *found > 0.9 * stated, "{errors:?}");
        }
        // Below 1/2 throughout, as sigmoid(-x) is.
        assert!((1..=8000).all(|i| horner(&centred, f64::from(i) / 1000.0) < 0.5));
        // In the inner half of the range, nowhere as steep as the sigmoid at 0.
        let all = SigmoidApprox::RANGES.into_iter().flat_map(|range| {
            DEGREES.into_iter().flat_map(move |degree| FITS.map(|fit| (degree, range, fit)))
        });
        for (degree, range, fit) in all {
            let s = SigmoidApprox { degree, range, fit }.coefficients().unwrap();
            let slope = |x: f64| (1..s.len()).map(|k| k as f64 * s[k] * x.powi(k as i32 - 1)).sum();
            let points = (0..=500).map(|i| f64::from(i) / 1000.0 * range);
            let steepest: f64 = points.map(slope).fold(0.0, f64::min);
            assert!(steepest > -0.25, "{degree:?} {range} {fit:?}: {steepest}");
        }
    }
}
