//! Numbers with a bound of their errors, and arithmetic that keeps the bound.

use core::ops::{Add, Div, Mul, Sub};

/// Maximum error of a result that is still reported, as a fraction of the result or of its natural
/// unit.
const MAX_RELATIVE_ERROR: f64 = 1.0 / 16.0;

/// A number, and a bound of its error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bounded {
    pub value: f64,
    pub error: f64,
}

impl Bounded {
    pub fn new(value: f64, error: f64) -> Self {
        Self { value, error }
    }

    pub fn exact(value: f64) -> Self {
        Self { value, error: 0.0 }
    }

    /// Returns a result that double precision rounds.
    fn rounded(value: f64, error: f64) -> Self {
        Self { value, error: error + value.abs() * f64::EPSILON }
    }

    /// Multiplies by an exact number.
    pub fn times(self, factor: f64) -> Self {
        Self::rounded(self.value * factor, self.error * factor.abs())
    }

    /// Returns the square root, or NaN unless the number is above its error.
    pub fn sqrt(self) -> Self {
        let root = self.positive().sqrt();
        // (x - y) / (sqrt(x) + sqrt(y)) with y >= 0.
        Self::rounded(root, self.error / root)
    }

    /// Returns the value if it is above its error, and otherwise NaN: its sign is unknown.
    pub fn positive(self) -> f64 {
        // A comparison with NaN fails, so NaN stays NaN.
        if self.value > self.error { self.value } else { f64::NAN }
    }

    /// Returns the value if its error is a small part of it, or of the unit in which such values
    /// are judged. Otherwise returns NaN.
    pub fn if_precise(self, unit: f64) -> f64 {
        let most = MAX_RELATIVE_ERROR * self.value.abs().max(unit);
        // An error that is NaN fails this comparison.
        if self.error <= most { self.value } else { f64::NAN }
    }
}

impl Add for Bounded {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::rounded(self.value + other.value, self.error + other.error)
    }
}

impl Sub for Bounded {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self::rounded(self.value - other.value, self.error + other.error)
    }
}

impl Mul for Bounded {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let of_other = self.value.abs() * other.error;
        let of_self = other.value.abs() * self.error;
        let error = of_other + of_self + self.error * other.error;
        Self::rounded(self.value * other.value, error)
    }
}

impl Div for Bounded {
    type Output = Self;

    /// Returns NaN if the divisor may be 0.
    fn div(self, other: Self) -> Self {
        let least = other.value.abs() - other.error;
        if least.is_nan() || least <= 0.0 {
            return Self::new(f64::NAN, f64::INFINITY);
        }
        let quotient = self.value / other.value;
        Self::rounded(quotient, (self.error + quotient.abs() * other.error) / least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Numbers anywhere within their errors have results within the errors of the results.
        #[test]
        fn errors_of_results_are_bounded(
            a in -10.0_f64..10.0, b in -10.0_f64..10.0,
            (error_a, error_b) in (0.0_f64..1.0, 0.0_f64..1.0),
            (place_a, place_b) in (-1.0_f64..1.0, -1.0_f64..1.0),
        ) {
            let x = Bounded::new(a, error_a);
            let y = Bounded::new(b, error_b);
            let a: f64 = a + place_a * error_a;
            let b: f64 = b + place_b * error_b;
            let pairs: [(Bounded, f64); 5] =
                [(x + y, a + b), (x - y, a - b), (x * y, a * b), (x / y, a / b), (x.times(3.0), 3.0 * a)];
            for (found, truth) in pairs {
                prop_assert!(
                    found.value.is_nan() || (found.value - truth).abs() <= found.error * (1.0 + 1e-9),
                    "{found:?}: {truth}"
                );
            }
            let root = x.sqrt();
            prop_assert!(root.value.is_nan() || (root.value - a.sqrt()).abs() <= root.error * (1.0 + 1e-9));
        }
    }

    #[test]
    fn values_below_their_errors_are_not_told() {
        let told = |value, error| !Bounded::new(value, error).positive().is_nan();
        assert!(told(2.0, 1.0) && !told(1.0, 1.0) && !told(-1.0, 0.5) && !told(f64::NAN, 0.0));
        let told = |value, error, unit| !Bounded::new(value, error).if_precise(unit).is_nan();
        assert!(told(0.0, 0.01, 1.0) && !told(0.0, 0.1, 1.0) && told(16.0, 1.0, 1.0));
        assert!(!told(f64::NAN, 0.0, 1.0) && !told(0.0, f64::NAN, 1.0));
        let zero = Bounded::new(0.1, 0.2);
        assert!((Bounded::exact(1.0) / zero).value.is_nan() && zero.sqrt().value.is_nan());
    }
}
