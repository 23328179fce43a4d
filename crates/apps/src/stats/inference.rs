//! Welch's test, from the moments of two samples.

use core::f64::consts::PI;

use serde::{Deserialize, Serialize};

use super::{Result, StatsError, bounded::Bounded};
use sudare_arith::real;

/// Moments of a sample, as a test needs them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Number of values, at least 2.
    pub count: usize,
    /// Mean of the values.
    pub mean: f64,
    /// Variance of the values, which divides by `count - 1`.
    pub variance: f64,
    /// Bound of the error of the mean.
    pub mean_error: f64,
    /// Bound of the error of the variance.
    pub variance_error: f64,
}

/// Welch's test of two samples with possibly different variances.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TTest {
    /// Difference of the means, first minus second.
    pub difference: f64,
    /// Standard error of the difference.
    pub standard_error: f64,
    /// The difference over its standard error.
    pub t: f64,
    /// Degrees of freedom by Welch and Satterthwaite.
    pub degrees_of_freedom: f64,
    /// Probability of a `t` of at least this magnitude if the means are equal.
    pub p_value: f64,
}

impl TTest {
    /// Performs the test of Welch, "The generalization of Student's problem when several different
    /// population variances are involved", Biometrika 34, 1947, with two-sided probability.
    ///
    /// # Errors
    /// [`StatsError::Sample`] for a sample of fewer than two values, with a mean or a variance that
    /// is NaN, or if both variances are 0. Also if the error of `t` exceeds a sixteenth of its
    /// magnitude, or a sixteenth for magnitudes below 1.
    pub fn welch(a: &Sample, b: &Sample) -> Result<Self> {
        let refused = |sample: &Sample| {
            let Sample { count, mean, variance, variance_error, .. } = *sample;
            Err(StatsError::Sample { count, mean, variance, variance_error })
        };
        for sample in [a, b] {
            let Sample { count, mean, variance, .. } = *sample;
            if count < 2 || !mean.is_finite() || !(variance.is_finite() && variance >= 0.0) {
                return refused(sample);
            }
        }
        let mean = |sample: &Sample| Bounded::new(sample.mean, sample.mean_error);
        let part = |sample: &Sample| {
            Bounded::new(sample.variance, sample.variance_error).times(1.0 / sample.count as f64)
        };
        let square = part(a) + part(b);
        let difference = mean(a) - mean(b);
        let standard_error = square.sqrt();
        let t = (difference / standard_error).if_precise(1.0);
        if t.is_nan() {
            return refused(if a.variance_error > b.variance_error { a } else { b });
        }
        // Parts of the square. Their own squares may overflow `f64`.
        let freedom = |sample: &Sample| {
            real::powi(part(sample).value / square.value, 2) / (sample.count - 1) as f64
        };
        let degrees_of_freedom = 1.0 / (freedom(a) + freedom(b));
        let p_value = student_two_sided(t, degrees_of_freedom);
        Ok(Self {
            difference: difference.value,
            standard_error: standard_error.value,
            t,
            degrees_of_freedom,
            p_value,
        })
    }
}

/// Returns the two-sided probability of a magnitude of at least `|t|` under Student's distribution:
/// `I_x(nu / 2, 1 / 2)` at `x = nu / (nu + t^2)` (Abramowitz, Stegun, "Handbook of mathematical
/// functions", section 26.7).
#[must_use]
pub fn student_two_sided(t: f64, degrees_of_freedom: f64) -> f64 {
    let nu = degrees_of_freedom;
    // The complement is passed, too, because `1 - x` would lose its digits for small `t`.
    incomplete_beta(nu / 2.0, 0.5, nu / (nu + t * t), t * t / (nu + t * t))
}

/// Returns the regularised incomplete beta function `I_x(a, b)` with `y = 1 - x`. It uses the
/// continued fraction (Abramowitz, Stegun, section 26.5) where that converges fast, and otherwise
/// `1 - I_y(b, a)`.
fn incomplete_beta(a: f64, b: f64, x: f64, y: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if y <= 0.0 {
        return 1.0;
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, y, x);
    }
    let front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * real::ln(x) + b * real::ln(y);
    // From the last term to the first. A few dozen terms are enough, and more for a large `a`.
    let terms = 100 + (4.0 * a.max(b).sqrt()) as i32;
    let tail = (1..=terms).rev().fold(1.0, |tail, n| {
        let m = f64::from(n / 2);
        let numerator = match n % 2 {
            0 => m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            _ => -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        };
        1.0 + numerator / tail
    });
    real::exp(front) / (a * tail)
}

/// Returns `ln gamma(x)` of a positive number, by Stirling's series (Abramowitz, Stegun, section
/// 6.1) above 12.
fn ln_gamma(x: f64) -> f64 {
    let mut shifted = x;
    let mut product = 1.0;
    while shifted < 12.0 {
        product *= shifted;
        shifted += 1.0;
    }
    let r = 1.0 / (shifted * shifted);
    let tail = r * (1.0 / 1260.0 - r * (1.0 / 1680.0 - r * (1.0 / 1188.0 - r * 691.0 / 360_360.0)));
    let series = (1.0 / 12.0 - r / 360.0 + r * tail) / shifted;
    (shifted - 0.5) * real::ln(shifted) - shifted + real::ln(2.0 * PI) / 2.0 + series
        - real::ln(product)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gamma_has_its_known_values() {
        let mut factorial: f64 = 1.0;
        for n in 1..100 {
            let error = ln_gamma(f64::from(n)) - factorial.ln();
            assert!(error.abs() < 1e-13 * (1.0 + factorial.ln()), "{n}: {error:e}");
            factorial *= f64::from(n);
        }
        assert!((ln_gamma(0.5) - PI.sqrt().ln()).abs() < 1e-14);
    }

    /// Closed forms for one and two degrees of freedom, and the table of critical values from
    /// textbooks.
    #[test]
    fn probabilities_are_students() {
        for t in [0.0f64, 0.1, 1.0, 2.5, 40.0] {
            let one = 1.0 - 2.0 / PI * t.atan();
            assert!((student_two_sided(t, 1.0) - one).abs() < 1e-13, "{t}");
            let two = 1.0 - t / (2.0 + t * t).sqrt();
            assert!((student_two_sided(-t, 2.0) - two).abs() < 1e-13, "{t}");
        }
        for (nu, t) in [(4.0, 2.776_445), (10.0, 2.228_139), (30.0, 2.042_272), (1e7, 1.959_964)] {
            assert!((student_two_sided(t, nu) - 0.05).abs() < 1e-6, "{nu}");
        }
        assert!((student_two_sided(4.587, 10.0) - 0.001).abs() < 1e-6);
    }

    /// The sleep of ten patients under two drugs (Student 1908), as R's `t.test` prints it.
    #[test]
    fn sleep_data() {
        let sample = |values: [f64; 10]| {
            let mean = values.iter().sum::<f64>() / 10.0;
            let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 9.0;
            Sample { count: 10, mean, variance, mean_error: 0.0, variance_error: 0.0 }
        };
        let a = sample([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]);
        let b = sample([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]);
        let test = TTest::welch(&a, &b).unwrap();
        assert!((test.t + 1.8608).abs() < 5e-5, "{test:?}");
        assert!((test.degrees_of_freedom - 17.776).abs() < 5e-4, "{test:?}");
        assert!((test.p_value - 0.07939).abs() < 5e-6, "{test:?}");
        assert!((test.difference + 1.58).abs() < 1e-12);
        let alone = Sample { count: 1, ..a };
        assert!(matches!(TTest::welch(&a, &alone), Err(StatsError::Sample { count: 1, .. })));
        let constant = Sample { variance: 0.0, ..a };
        assert!(TTest::welch(&constant, &constant).is_err());
        assert!(TTest::welch(&constant, &b).unwrap().degrees_of_freedom == 9.0);
    }
}
