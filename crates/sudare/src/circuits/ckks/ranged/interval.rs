use crate::ckks::Complex;
use sudare_arith::real;

/// An interval of real numbers, or a symmetric one that bounds complex numbers by magnitude.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Interval {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Interval {
    /// All numbers.
    pub(super) const ALL: Self = Self { low: f64::NEG_INFINITY, high: f64::INFINITY };

    pub(super) fn symmetric(most: f64) -> Self {
        Self { low: -most, high: most }
    }

    pub(super) fn of(z: Complex<f64>) -> Self {
        if z.im == 0.0 {
            Self { low: z.re, high: z.re }
        } else {
            Self::symmetric(real::hypot(z.re, z.im))
        }
    }

    pub(super) fn of_slots(slots: &[Complex<f64>]) -> Self {
        let hull = |a: Self, b: Self| Self { low: a.low.min(b.low), high: a.high.max(b.high) };
        slots.iter().map(|&z| Self::of(z)).reduce(hull).unwrap_or(Self::symmetric(0.0))
    }

    pub(super) fn magnitude(self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { low: self.low + other.low, high: self.high + other.high }
    }

    pub(super) fn minus(self, other: Self) -> Self {
        Self { low: self.low - other.high, high: self.high - other.low }
    }

    pub(super) fn times(self, other: Self) -> Self {
        let products = [self.low, self.high].map(|a| [other.low, other.high].map(|b| a * b));
        let products = products.as_flattened();
        Self {
            low: products.iter().copied().fold(f64::INFINITY, f64::min),
            high: products.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// Returns the interval of squares, which are never negative.
    pub(super) fn square(self) -> Self {
        let least = self.low.max(-self.high).max(0.0);
        Self { low: least * least, high: self.magnitude() * self.magnitude() }
    }

    pub(super) fn within(self, most: f64) -> Self {
        // Unlike `clamp`, without a panic for a bound that is negative or NaN.
        Self { low: self.low.max(-most).min(most), high: self.high.max(-most).min(most) }
    }
}
