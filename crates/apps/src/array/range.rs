//! Bounds of the values of an array.

use core::ops::RangeInclusive;
use std::sync::{
    Arc, LazyLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use serde::{Deserialize, Serialize};
use sudare::circuits::Polynomial;
use sudare_arith::real;

use crate::functions::Function;

/// Intervals between the points at which a curve is known.
const POINTS: usize = 4096;

/// Degree up to which the points of a curve bound it: between two of them a polynomial of degree
/// `d` exceeds its largest value at all of them by a factor of at most `1 / cos(pi d / 2 POINTS)`
/// (Ehlich and Zeller, 1964), here 1.0003.
const MAX_DEGREE: usize = 64;

/// Curves that are kept of an array, beside itself.
const MAX_CURVES: usize = 3;

/// Relative slack for the rounding of `f64` and for noise at the ends of intervals.
const SLACK: f64 = 1e-6;

/// How far off values of functions may be, relative to their range.
const FUNCTION_ERROR: f64 = 1.0 / 16.0;

/// Chebyshev points on `[-1, 1]`, both ends included.
static NODES: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let node = |k| real::cos(core::f64::consts::PI * k as f64 / POINTS as f64);
    (0..=POINTS).map(node).collect()
});

/// An interval that holds every element of an array, and a bound of what padding holds.
///
/// It follows from the inputs by interval arithmetic. Where an array is a polynomial of one other
/// array, element by element, the bound comes from the polynomial as a whole, so that
/// `x * (1.5 - 0.5 * x**2)` stays in `[-1, 1]` on `[-1, 1]`.
#[derive(Debug, Clone)]
pub struct Range {
    low: f64,
    high: f64,
    /// The largest magnitude in slots beyond the elements.
    padding: f64,
    /// How far off elements may be by noise: an estimate on the safe side, to tell noise from values
    /// that are lost.
    error: f64,
    /// What one operation adds to that.
    unit: f64,
    /// Whether values may well reach both ends, rather than stay far within.
    is_tight: bool,
    /// Whether the ends were read off data that nobody else may learn.
    is_private: bool,
    /// How they depend on some arrays that they were computed from, the latest first.
    curves: Vec<Curve>,
}

/// How the elements depend on those of one source in the same places.
#[derive(Debug, Clone)]
struct Curve {
    source: u64,
    degree: usize,
    /// Values at the points of the range of the source; none for the source itself.
    values: Option<Arc<[f64]>>,
}

impl Curve {
    fn identity() -> Self {
        static SOURCES: AtomicU64 = AtomicU64::new(0);
        Self { source: SOURCES.fetch_add(1, Relaxed), degree: 1, values: None }
    }

    /// Another one of the same source, if its degree is small enough for its points to tell.
    fn with(&self, degree: usize, values: Vec<f64>) -> Option<Self> {
        let values = Some(values.into());
        (degree <= MAX_DEGREE).then_some(Self { source: self.source, degree, values })
    }
}

/// What others may be told of a range, as the file of an array has it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublicRange {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The largest magnitude in slots beyond the elements.
    pub padding: f64,
    /// How far off elements may be by noise, about.
    #[serde(default)]
    pub error: f64,
    /// Whether values may well reach both ends, rather than stay far within.
    pub tight: bool,
}

impl PublicRange {
    /// Whether it is one that an array can have: a file can say anything.
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
    /// The range of an array whose file does not say it: such files come from versions that encrypted
    /// numbers below 512 and kept no account of results.
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

    /// The range of values that may be anywhere between two public numbers.
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

    /// The range of these values, which only their owner knows.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { is_private: true, ..Self::new(low, high) }
    }

    /// The range of values that everybody may know.
    pub(super) fn public_of(values: &[f64]) -> Self {
        Self { is_private: false, ..Self::of(values) }
    }

    /// The interval.
    #[must_use]
    pub fn interval(&self) -> RangeInclusive<f64> {
        self.low..=self.high
    }

    /// No element is lower.
    #[must_use]
    pub fn low(&self) -> f64 {
        self.low
    }

    /// No element is higher.
    #[must_use]
    pub fn high(&self) -> f64 {
        self.high
    }

    /// The largest magnitude of an element.
    #[must_use]
    pub fn magnitude(&self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    /// The largest magnitude in slots beyond the elements.
    #[must_use]
    pub fn padding(&self) -> f64 {
        self.padding
    }

    /// What others may be told of it: the interval as it is if it follows from public numbers;
    /// otherwise each end is rounded outward to 0, or to a power of two above all magnitudes.
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

    /// Whether all of it lies within an interval, but for rounding and noise.
    pub(super) fn is_within(&self, interval: &core::ops::Range<f64>) -> bool {
        let slack = SLACK * (interval.end - interval.start);
        interval.start - slack <= self.low && self.high <= interval.end + slack
    }

    pub(super) fn is_tight(&self) -> bool {
        self.is_tight
    }

    /// The array that it is the range of, as long as nothing has been computed from that.
    pub(super) fn source(&self) -> Option<u64> {
        match &self.curves[..] {
            [Curve { source, values: None, .. }] => Some(*source),
            _ => None,
        }
    }

    /// The largest magnitude of any slot.
    pub(super) fn reach(&self) -> f64 {
        self.magnitude().max(self.padding)
    }

    /// With other ends, which someone promises.
    #[must_use]
    pub(super) fn promised(&self, low: f64, high: f64) -> Self {
        let Self { padding, error, unit, .. } = *self;
        Self { padding, error, unit, ..Self::new(low, high) }
    }

    /// The part within an interval.
    pub(super) fn clamped(&self, low: f64, high: f64) -> Self {
        let clamp = |x: f64| x.max(low).min(high);
        let low = clamp(self.low);
        let high = clamp(self.high);
        Self { low, high, ..self.moved() }
    }

    /// How far off elements may be by noise, about.
    pub(super) fn error(&self) -> f64 {
        self.error
    }

    /// How far a decrypted element may be outside of the range.
    pub(super) fn slack(&self) -> f64 {
        // More than approximations add, and far less than what overflows.
        self.magnitude().max(1.0) + self.error
    }

    /// Elements that are off by noise, as each operation adds it.
    pub(super) fn with_noise(self, unit: f64) -> Self {
        Self { error: unit, unit, ..self }
    }

    pub(super) fn with_more_noise(self, error: f64) -> Self {
        Self { error: self.error + error, ..self }
    }

    fn with_error(self, error: f64) -> Self {
        Self { error: error + self.unit, ..self }
    }

    /// Padding of at most this magnitude.
    #[must_use]
    pub(super) fn with_padding(self, padding: f64) -> Self {
        Self { padding, ..self }
    }

    /// Elements that are at other places, or some of them.
    #[must_use]
    pub(super) fn moved(&self) -> Self {
        Self { curves: vec![Curve::identity()], ..*self }
    }

    /// The same ends, which may be far from what values reach.
    #[must_use]
    pub(super) fn loose(self) -> Self {
        Self { is_tight: false, ..self.moved() }
    }

    fn with_ends(&self, low: f64, high: f64) -> Self {
        Self { low, high, ..self.moved() }
    }

    /// Of `c x`.
    pub(super) fn times(&self, c: f64) -> Self {
        self.affine(c, 0.0).with_padding(self.padding * c.abs())
    }

    /// Of `x + c`.
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

    /// Of `p(x)`, for `x` in the interval of `p`.
    pub(super) fn polynomial(&self, p: &Polynomial) -> Self {
        let degree = p.degree().max(1);
        let interval = p.interval();
        let of = |x: f64| p.evaluate(x.max(interval.start).min(interval.end));
        let all = ends(&self.points(&Curve::identity()).into_iter().map(of).collect::<Vec<_>>());
        let map = |curve: &Curve| {
            let values = self.points(curve).into_iter().map(of).collect();
            curve.with(curve.degree * degree, values)
        };
        // A polynomial of this degree is at most so steep (Markov).
        let steepness =
            (degree * degree) as f64 * (all.1 - all.0) / (interval.end - interval.start);
        self.narrowed(grown(all, degree), self.curves.iter().filter_map(map).collect())
            .with_error(steepness * self.error)
    }

    /// A range within an interval, and within what curves tell.
    fn narrowed(&self, all: (f64, f64), mut curves: Vec<Curve>) -> Self {
        let (mut low, mut high) = all;
        for Curve { degree, values, .. } in &curves {
            if let Some(values) = values {
                let found = grown(ends(values), *degree);
                low = low.max(found.0);
                high = high.min(found.1);
            }
        }
        curves.sort_by_key(|curve| curve.degree);
        curves.truncate(MAX_CURVES);
        curves.insert(0, Curve::identity());
        Self { low, high, curves, ..*self }
    }

    /// Of `f(x)`, for `x` in the interval of `f`: between the smallest and the largest value of the
    /// function itself, give or take its approximation.
    pub(super) fn image(&self, f: &Function) -> Self {
        let points = self.points(&Curve::identity());
        let values: Vec<f64> = points.iter().map(|&x| f.exact(x)).collect();
        // Absolute values, rectifiers and steps have their corner at 0.
        let corner = (self.low < 0.0 && 0.0 < self.high).then(|| f.exact(0.0));
        let (low, high) = between(&values, corner);
        let error = 2.0 * f.max_error();
        // Noise that is more than this is refused before.
        let noise = FUNCTION_ERROR * (high - low).max(1.0);
        Self { error: noise, ..self.with_ends(low - error, high + error) }.with_padding(0.0)
    }

    /// Of sums (`sign` 1) or differences (-1) of elements in the same places of arrays of one shape
    /// (`paired`), or of any.
    pub(super) fn sum(&self, other: &Self, sign: f64, paired: bool) -> Self {
        let (low, high) = ends(&[sign * other.low, sign * other.high]);
        let all = (self.low + low, self.high + high);
        self.joined(other, paired, all, usize::max, |a, b| a + sign * b)
            .with_error(self.error + other.error)
    }

    /// Of products.
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

    /// Of a function of pairs, which is in `all` whatever they are and has this degree by the degrees
    /// of both.
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
        let is_tight = !curves.is_empty() && self.is_tight && other.is_tight;
        let unit = self.unit.max(other.unit);
        Self { is_tight, is_private, unit, ..self.narrowed(all, curves) }.with_padding(0.0)
    }

    /// Of sums of `count` elements.
    pub(super) fn total(&self, count: f64) -> Self {
        self.with_ends(count * self.low, count * self.high).loose().with_error(count * self.error)
    }

    /// Of weighted sums of elements, for each the sums of its positive and its negative weights.
    pub(super) fn weighted(&self, sums: impl Iterator<Item = [f64; 2]>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
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

    /// Of elements and padding times a number, apart from their source.
    pub(super) fn scaled(&self, c: f64) -> Self {
        let (low, high) = ends(&[c * self.low, c * self.high]);
        let scaled = self.with_ends(low, high).with_padding(self.padding * c.abs());
        scaled.with_error(self.error * c.abs())
    }

    /// The values of a curve: those of the range itself if it has none of its own.
    fn points(&self, curve: &Curve) -> Vec<f64> {
        match &curve.values {
            Some(values) => values.to_vec(),
            None => {
                let middle = self.low / 2.0 + self.high / 2.0;
                let radius = self.high / 2.0 - self.low / 2.0;
                NODES.iter().map(|node| middle + radius * node).collect()
            }
        }
    }
}

/// The interval of a polynomial of this degree, from that of its values at the points.
fn grown((low, high): (f64, f64), degree: usize) -> (f64, f64) {
    let excess = 1.0 / real::cos(core::f64::consts::PI * degree as f64 / (2 * POINTS) as f64);
    let more = (excess - 1.0) * low.abs().max(high.abs());
    (low - more, high + more)
}

/// The smallest power of two that is not below `x`; 0 for 0.
fn power_above(x: f64) -> f64 {
    if x > 0.0 { real::exp2(real::log2(x).ceil()).max(x) } else { 0.0 }
}

/// The interval of a function from its values at the points, and at its corner if it has one. Another extreme
/// inside of the interval may lie between two points: it exceeds the value at the nearer one by at most half of
/// the bend there.
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
