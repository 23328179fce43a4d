//! Bounds of the values of an array.

use core::ops::RangeInclusive;
use std::sync::{
    Arc, LazyLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use serde::{Deserialize, Serialize};
use sudare::circuits::ckks::Polynomial;
use sudare_arith::real;

use crate::functions::Function;

/// Number of intervals between the points at which a curve is known.
const POINTS: usize = 4096;

/// Maximum degree for which the points of a curve bound it. Between two points a polynomial of
/// degree `d` exceeds its largest value at all points by a factor of at most
/// `1 / cos(pi d / 2 POINTS)` (Ehlich and Zeller, 1964), here 1.0003.
const MAX_DEGREE: usize = 64;

// A curve takes 32 KiB, so an array stores few of them.
/// Maximum number of curves stored with an array, in addition to its own.
const MAX_CURVES: usize = 3;

/// Relative slack for the rounding of `f64` and for noise at the ends of intervals.
const SLACK: f64 = 1e-6;

/// Estimated error of functions, relative to their range.
const FUNCTION_ERROR: f64 = 1.0 / 16.0;

/// Chebyshev points on `[-1, 1]`, including both ends.
static NODES: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let node = |k| real::cos(core::f64::consts::PI * k as f64 / POINTS as f64);
    (0..=POINTS).map(node).collect()
});

/// An interval that contains every element of an array, and a bound of the padding.
///
/// Interval arithmetic derives it from the inputs. If an array is a polynomial of one other array,
/// element by element, the bound comes from the whole polynomial. For example,
/// `x * (1.5 - 0.5 * x**2)` stays in `[-1, 1]` on `[-1, 1]`.
#[derive(Debug, Clone)]
pub struct Range {
    low: f64,
    high: f64,
    /// The largest magnitude in slots beyond the elements.
    padding: f64,
    /// Estimated error of elements, on the safe side. It tells noise from values that are lost.
    error: f64,
    /// Error that one operation adds.
    unit: f64,
    /// True if values may well reach both ends. False if they stay far within.
    is_tight: bool,
    /// True if the ends were read off data that only the owner may know.
    is_private: bool,
    /// Dependence of the elements on arrays that they were computed from, latest first.
    curves: Vec<Curve>,
}

/// Dependence of the elements on the elements of one source in the same places.
#[derive(Debug, Clone)]
struct Curve {
    source: u64,
    degree: usize,
    /// Values at the points of the source's range. `None` for the source itself.
    values: Option<Arc<[f64]>>,
}

impl Curve {
    fn identity() -> Self {
        static SOURCES: AtomicU64 = AtomicU64::new(0);
        Self { source: SOURCES.fetch_add(1, Relaxed), degree: 1, values: None }
    }

    /// Returns another curve of the same source, if its degree is low enough for its points to
    /// bound it.
    fn with(&self, degree: usize, values: Vec<f64>) -> Option<Self> {
        let values = Some(values.into());
        (degree <= MAX_DEGREE).then_some(Self { source: self.source, degree, values })
    }
}

/// The public part of a range, as the file of an array stores it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublicRange {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The largest magnitude in slots beyond the elements.
    pub padding: f64,
    /// Estimated error of elements.
    #[serde(default)]
    pub error: f64,
    /// True if values may well reach both ends. False if they stay far within.
    pub tight: bool,
}

impl PublicRange {
    /// Returns whether an array can have this range. Values read from a file are arbitrary.
    #[must_use]
    pub fn is_valid(self) -> bool {
        let Self { low, high, padding, error, .. } = self;
        let finite = [low, high, padding, error].into_iter().all(f64::is_finite);
        finite && low <= high && padding >= 0.0 && error >= 0.0
    }
}

impl From<PublicRange> for Range {
    fn from(public: PublicRange) -> Self {
        let PublicRange { low, high, padding, error, tight } = public;
        Self { is_tight: tight, padding, error, unit: error, ..Self::new(low, high) }
    }
}

impl Range {
    /// Returns the range of an array whose file has no range. Such files come from versions that
    /// encrypted numbers below 512 and did not track results.
    #[must_use]
    pub fn unknown() -> Self {
        Self::from(PublicRange {
            low: -512.0,
            high: 512.0,
            padding: 512.0,
            error: 1.0,
            tight: false,
        })
    }

    /// Returns the range of values between two public numbers.
    #[must_use]
    pub fn new(low: f64, high: f64) -> Self {
        let curves = vec![Curve::identity()];
        Self {
            low,
            high,
            padding: 0.0,
            error: 0.0,
            unit: 0.0,
            is_tight: true,
            is_private: false,
            curves,
        }
    }

    /// Returns the range of these values. Only their owner knows its ends.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { is_private: true, ..Self::new(low, high) }
    }

    /// Returns the range of public values.
    pub(super) fn public_of(values: &[f64]) -> Self {
        Self { is_private: false, ..Self::of(values) }
    }

    /// Returns the interval.
    #[must_use]
    pub fn interval(&self) -> RangeInclusive<f64> {
        self.low..=self.high
    }

    /// Returns the lower bound of all elements.
    #[must_use]
    pub fn low(&self) -> f64 {
        self.low
    }

    /// Returns the upper bound of all elements.
    #[must_use]
    pub fn high(&self) -> f64 {
        self.high
    }

    /// Returns the largest magnitude of an element.
    #[must_use]
    pub fn magnitude(&self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    /// Returns the largest magnitude in slots beyond the elements.
    #[must_use]
    pub fn padding(&self) -> f64 {
        self.padding
    }

    /// Returns the part of the range that others may learn. The interval is unchanged if it follows
    /// from public numbers. Otherwise each end is rounded outward: to 0, or to a power of two above
    /// all magnitudes.
    #[must_use]
    pub fn public(&self) -> PublicRange {
        let Self { low, high, padding, error, is_tight: tight, .. } = *self;
        if !self.is_private {
            return PublicRange { low, high, padding, error, tight };
        }
        let end = power_above(self.magnitude());
        PublicRange {
            low: if low >= 0.0 { 0.0 } else { -end },
            high: if high <= 0.0 { 0.0 } else { end },
            padding: power_above(padding),
            error: power_above(error),
            tight,
        }
    }

    /// Returns whether the whole range lies within an interval, up to rounding and noise.
    pub(super) fn is_within(&self, interval: &core::ops::Range<f64>) -> bool {
        let slack = SLACK * (interval.end - interval.start);
        interval.start - slack <= self.low && self.high <= interval.end + slack
    }

    pub(super) fn is_tight(&self) -> bool {
        self.is_tight
    }

    /// Returns the id of the array of this range, or `None` if the array was computed from others.
    pub(super) fn source(&self) -> Option<u64> {
        match &self.curves[..] {
            [Curve { source, values: None, .. }] => Some(*source),
            _ => None,
        }
    }

    /// Returns the largest magnitude of any slot.
    pub(super) fn reach(&self) -> f64 {
        self.magnitude().max(self.padding)
    }

    /// Returns the range with other ends, which the caller promises.
    #[must_use]
    pub(super) fn promised(&self, low: f64, high: f64) -> Self {
        let Self { padding, error, unit, .. } = *self;
        Self { padding, error, unit, ..Self::new(low, high) }
    }

    /// Returns the part of the range within an interval.
    pub(super) fn clamped(&self, low: f64, high: f64) -> Self {
        let clamp = |x: f64| x.max(low).min(high);
        let low = clamp(self.low);
        let high = clamp(self.high);
        self.with_ends(low, high)
    }

    /// Returns the estimated error of elements.
    pub(super) fn error(&self) -> f64 {
        self.error
    }

    /// Returns the tolerated distance of a decrypted element from the range.
    pub(super) fn slack(&self) -> f64 {
        // More than approximations add, and far less than the error of an overflow.
        self.magnitude().max(1.0) + self.error
    }

    /// Adds the noise of one operation to the error of the elements.
    pub(super) fn with_noise(self, unit: f64) -> Self {
        Self { error: unit, unit, ..self }
    }

    pub(super) fn with_more_noise(self, error: f64) -> Self {
        Self { error: self.error + error, ..self }
    }

    fn with_error(self, error: f64) -> Self {
        Self { error: error + self.unit, ..self }
    }

    /// Returns the range with padding of at most this magnitude.
    #[must_use]
    pub(super) fn with_padding(self, padding: f64) -> Self {
        Self { padding, ..self }
    }

    /// Returns the range of some of the elements, possibly at other places.
    #[must_use]
    pub(super) fn moved(&self) -> Self {
        // Curves hold for elements in the same places, so a move begins a new source.
        Self { curves: vec![Curve::identity()], ..*self }
    }

    /// Marks the ends as loose: values may stay far within them.
    #[must_use]
    pub(super) fn loose(self) -> Self {
        Self { is_tight: false, ..self.moved() }
    }

    fn with_ends(&self, low: f64, high: f64) -> Self {
        Self { low, high, ..self.moved() }
    }

    /// Returns the range of `c x`.
    pub(super) fn times(&self, c: f64) -> Self {
        self.affine(c, 0.0).with_padding(self.padding * c.abs())
    }

    /// Returns the range of `x + c`.
    pub(super) fn plus(&self, c: f64) -> Self {
        self.affine(1.0, c)
    }

    fn affine(&self, factor: f64, shift: f64) -> Self {
        let of = |x: f64| factor * x + shift;
        let map = |curve: &Curve| {
            curve.with(curve.degree, self.points(curve).into_iter().map(of).collect())
        };
        let (low, high) = ends(&[of(self.low), of(self.high)]);
        let curves = self.curves.iter().filter_map(map).collect();
        Self { low, high, curves, ..*self }.with_error(factor.abs() * self.error)
    }

    /// Returns the range of `p(x)`, for `x` in the interval of `p`.
    pub(super) fn polynomial(&self, p: &Polynomial) -> Self {
        let degree = p.degree().max(1);
        let interval = p.interval();
        // Rounding may put a point outside the interval, where the polynomial grows fast.
        let of = |x: f64| p.evaluate(x.max(interval.start).min(interval.end));
        let all = ends(&self.points(&Curve::identity()).into_iter().map(of).collect::<Vec<_>>());
        let map = |curve: &Curve| {
            let values = self.points(curve).into_iter().map(of).collect();
            curve.with(curve.degree * degree, values)
        };
        // Markov's inequality bounds the slope of a polynomial of this degree.
        let steepness =
            (degree * degree) as f64 * (all.1 - all.0) / (interval.end - interval.start);
        self.narrowed(grown(all, degree), self.curves.iter().filter_map(map).collect())
            .with_error(steepness * self.error)
    }

    /// Returns a range within an interval and within the bounds of the curves.
    fn narrowed(&self, all: (f64, f64), mut curves: Vec<Curve>) -> Self {
        let (mut low, mut high) = all;
        for Curve { degree, values, .. } in &curves {
            if let Some(values) = values {
                let found = grown(ends(values), *degree);
                low = low.max(found.0);
                high = high.min(found.1);
            }
        }
        // Curves of low degree last longest, because `MAX_DEGREE` ends them.
        curves.sort_by_key(|curve| curve.degree);
        curves.truncate(MAX_CURVES);
        curves.insert(0, Curve::identity());
        Self { low, high, curves, ..*self }
    }

    /// Returns the range of `f(x)`, for `x` in the interval of `f`: between the smallest and the
    /// largest value of the exact function, widened by the error of its approximation.
    pub(super) fn image(&self, f: &Function) -> Self {
        let points = self.points(&Curve::identity());
        let values: Vec<f64> = points.iter().map(|&x| f.exact(x)).collect();
        // Absolute values, rectifiers and steps have their corner at 0.
        let corner = (self.low < 0.0 && 0.0 < self.high).then(|| f.exact(0.0));
        let (low, high) = between(&values, corner);
        let error = 2.0 * f.max_error();
        // More noise than this is rejected earlier.
        let noise = FUNCTION_ERROR * (high - low).max(1.0);
        Self { error: noise, ..self.with_ends(low - error, high + error) }.with_padding(0.0)
    }

    /// Returns the range of sums (`sign` 1) or differences (`sign` -1). `paired` means that both
    /// arrays have one shape and elements in the same places meet.
    pub(super) fn sum(&self, other: &Self, sign: f64, paired: bool) -> Self {
        let (low, high) = ends(&[sign * other.low, sign * other.high]);
        let all = (self.low + low, self.high + high);
        self.joined(other, paired, all, usize::max, |a, b| a + sign * b)
            .with_error(self.error + other.error)
    }

    /// Returns the range of products.
    pub(super) fn product(&self, other: &Self, paired: bool) -> Self {
        let corners = [
            self.low * other.low,
            self.low * other.high,
            self.high * other.low,
            self.high * other.high,
        ];
        let error = self.error * other.magnitude()
            + other.error * self.magnitude()
            + self.error * other.error;
        self.joined(other, paired, ends(&corners), |a, b| a + b, |a, b| a * b).with_error(error)
    }

    /// Returns the range of a function of pairs. Its values lie in `all`, and its degree is
    /// computed from the degrees of both operands.
    fn joined(
        &self,
        other: &Self,
        paired: bool,
        all: (f64, f64),
        degree: impl Fn(usize, usize) -> usize,
        f: impl Fn(f64, f64) -> f64,
    ) -> Self {
        let is_private = self.is_private || other.is_private;
        let map = |own: &Curve| {
            let twin = other.curves.iter().find(|twin| twin.source == own.source)?;
            let points = self.points(own).into_iter().zip(other.points(twin));
            let values = points.map(|(a, b)| f(a, b)).collect();
            own.with(degree(own.degree, twin.degree), values)
        };
        let curves: Vec<Curve> = match paired {
            true => self.curves.iter().filter_map(map).collect(),
            false => Vec::new(),
        };
        // Without a common source, extremes of the two operands need not meet.
        let is_tight = !curves.is_empty() && self.is_tight && other.is_tight;
        let unit = self.unit.max(other.unit);
        Self { is_tight, is_private, unit, ..self.narrowed(all, curves) }.with_padding(0.0)
    }

    /// Returns the range of sums of `count` elements.
    pub(super) fn total(&self, count: f64) -> Self {
        // A sum is at an end only if all of its elements are.
        self.with_ends(count * self.low, count * self.high).loose().with_error(count * self.error)
    }

    /// Returns the range of weighted sums of elements. For each sum, pass the totals of its
    /// positive and its negative weights.
    pub(super) fn weighted(&self, sums: impl Iterator<Item = [f64; 2]>) -> Self {
        let mut low = f64::INFINITY;
        let mut high = f64::NEG_INFINITY;
        let mut padding: f64 = 0.0;
        let mut error: f64 = 0.0;
        for [up, down] in sums {
            low = low.min(up * self.low + down * self.high);
            high = high.max(up * self.high + down * self.low);
            padding = padding.max((up - down) * self.padding);
            error = error.max((up - down) * self.error);
        }
        self.with_ends(low, high).loose().with_padding(padding).with_error(error)
    }

    /// Returns the range of elements and padding times a number, without their source.
    pub(super) fn scaled(&self, c: f64) -> Self {
        let (low, high) = ends(&[c * self.low, c * self.high]);
        let scaled = self.with_ends(low, high).with_padding(self.padding * c.abs());
        scaled.with_error(self.error * c.abs())
    }

    /// Returns the values of a curve. A curve without values is the source, whose values are the
    /// points of its range.
    fn points(&self, curve: &Curve) -> Vec<f64> {
        match &curve.values {
            Some(values) => values.to_vec(),
            None => {
                // Halves first, so that huge ends do not overflow.
                let middle = self.low / 2.0 + self.high / 2.0;
                let radius = self.high / 2.0 - self.low / 2.0;
                NODES.iter().map(|node| middle + radius * node).collect()
            }
        }
    }
}

/// Returns the interval of a polynomial of this degree from the interval of its values at the
/// points.
fn grown(values: (f64, f64), degree: usize) -> (f64, f64) {
    let (low, high) = values;
    let excess = 1.0 / real::cos(core::f64::consts::PI * degree as f64 / (2 * POINTS) as f64);
    let more = (excess - 1.0) * low.abs().max(high.abs());
    (low - more, high + more)
}

/// Returns the smallest power of two that is not below `x`, or 0 for 0.
fn power_above(x: f64) -> f64 {
    // A logarithm that is rounded down must not give a bound below `x`.
    if x > 0.0 { real::exp2(real::log2(x).ceil()).max(x) } else { 0.0 }
}

/// Returns the interval of a function from its values at the points, and at its corner if it has
/// one. An extreme between two points exceeds the value at the nearer point by at most half of the
/// bend there.
fn between(values: &[f64], corner: Option<f64>) -> (f64, f64) {
    let bend = |extreme: f64| {
        let near = values.windows(3).filter(|window| window[1] == extreme);
        near.map(|window| (window[0] - 2.0 * window[1] + window[2]).abs() / 2.0).fold(0.0, f64::max)
    };
    let (low, high) = ends(values);
    let lower = corner.filter(|&value| value <= low).unwrap_or(low - bend(low));
    let higher = corner.filter(|&value| value >= high).unwrap_or(high + bend(high));
    (lower, higher)
}

fn ends(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (low, high)
}
