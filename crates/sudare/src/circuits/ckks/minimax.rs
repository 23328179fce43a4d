//! Approximation of functions by polynomials on unions of closed intervals, in the clear and in
//! double-double arithmetic.
//!
//! The best uniform approximation is found by the improved multi-interval Remez algorithm of Lee,
//! Lee, Lee, Kim, No, "High-precision bootstrapping of RNS-CKKS homomorphic encryption using
//! optimal minimax polynomial approximation and inverse sine function"
//! ([2020/552](https://eprint.iacr.org/2020/552)). Among all local extremes of the error, extremes
//! with alternating signs and a large sum of magnitudes become the next reference (its algorithm
//! 3). Deviations: no linear system is solved, because the polynomial of a reference is stored in
//! barycentric form, as in Pachón, Trefethen, "Barycentric-Remez algorithms for best polynomial
//! approximation in the chebfun system", BIT 49, 2009. Even and odd functions are approximated in
//! the square of the variable on half the domain.

use super::Polynomial;
use crate::{Error, Result};
use core::{
    convert::identity,
    f64::consts::PI,
    ops::{AddAssign, Div, Mul, Range},
};
use sudare_arith::real;

pub use sudare_arith::dd::Dd;

/// Maximum degree of an approximation, the last of depth 8.
pub const MAX_DEGREE: usize = 255;

/// Maximum number of intervals.
const MAX_INTERVALS: usize = 4096;

/// Maximum number of exchanges of reference points.
const MAX_ITERATIONS: usize = 100;

/// Relative distance of the largest error from the minimum at which to stop.
const TOLERANCE: f64 = 1e-7;

/// Errors below this part of the function vanish when coefficients become `f64`.
const NEGLIGIBLE: f64 = 1.0 / (1u64 << 60) as f64;

/// Errors above this part of the function are accurate enough from values in `f64`.
const COARSE: f64 = 1.0 / (1 << 16) as f64;

/// Candidate points per interval, and per chosen point.
const CANDIDATES: usize = 8;

/// Pieces between neighbouring reference points in the search for extremes.
const PIECES: usize = 10;

/// Number of pieces for the reported error.
const FINAL_PIECES: usize = 16;

/// Terms of an approximation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parity {
    /// All terms.
    Any,
    /// Even terms. The function is evaluated at positive arguments only.
    Even,
    /// Odd terms. The function is evaluated at positive arguments only.
    Odd,
}

/// A union of closed intervals within `[-radius, radius]` on which to approximate.
#[derive(Debug, Clone, PartialEq)]
pub struct Domain {
    /// Disjoint and ascending intervals; of magnitudes, if there is a parity.
    intervals: Vec<(f64, f64)>,
    radius: f64,
    parity: Parity,
}

impl Domain {
    /// Makes the union of `intervals`, which may overlap and have any order. With a parity it
    /// includes their mirror images. Approximations are Chebyshev series on `[-radius, radius]`.
    ///
    /// # Errors
    /// [`Error::Circuit`] for no interval or more than 4096, for one that is empty, inverted, not
    /// finite or not within `[-radius, radius]`.
    pub fn new(intervals: &[Range<f64>], radius: f64, parity: Parity) -> Result<Self> {
        if intervals.is_empty() || intervals.len() > MAX_INTERVALS {
            return Err(Error::Circuit(format!(
                "approximation on {} intervals: from 1 to {MAX_INTERVALS} are needed",
                intervals.len()
            )));
        }
        let mut parts = Vec::with_capacity(intervals.len());
        for &Range { start, end } in intervals {
            if !(start < end && -radius <= start && end <= radius && radius.is_finite()) {
                return Err(Error::Circuit(format!(
                    "approximation on [{start}, {end}] within [-{radius}, {radius}]: the lower \
                     end must come first, and both within a finite radius"
                )));
            }
            parts.push(match parity {
                Parity::Any => (start, end),
                _ if start >= 0.0 => (start, end),
                _ if end <= 0.0 => (-end, -start),
                _ => (0.0, end.max(-start)),
            });
        }
        parts.sort_by(|x, y| x.0.total_cmp(&y.0));
        let mut intervals: Vec<(f64, f64)> = Vec::new();
        for (start, end) in parts {
            match intervals.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => intervals.push((start, end)),
            }
        }
        Ok(Self { intervals, radius, parity })
    }

    /// Half-width of the interval whose Chebyshev polynomials are used.
    #[must_use]
    pub fn radius(&self) -> f64 {
        self.radius
    }

    /// Returns the number of free coefficients less one: the degree in [`Self::variable`].
    fn inner_degree(&self, degree: usize) -> Result<usize> {
        if degree > MAX_DEGREE {
            return Err(Error::Circuit(format!(
                "approximation of degree {degree}: at most {MAX_DEGREE} is possible; shorten the \
                 domain or accept a larger error"
            )));
        }
        match self.parity {
            Parity::Any => Ok(degree),
            Parity::Even => Ok(degree / 2),
            Parity::Odd if degree == 0 => {
                Err(Error::Circuit("odd approximation of degree 0: at least 1 is needed".into()))
            }
            Parity::Odd => Ok((degree - 1) / 2),
        }
    }

    /// Returns `x / radius`, or its `T_2` if there is a parity.
    fn variable(&self, x: Dd) -> Dd {
        let t = x / Dd::from(self.radius);
        match self.parity {
            Parity::Any => t,
            _ => (t * t).mul_pow2(1) - Dd::ONE,
        }
    }

    /// Returns the factor of the polynomial in [`Self::variable`].
    fn factor(&self, x: Dd) -> Dd {
        match self.parity {
            Parity::Odd => x / Dd::from(self.radius),
            _ => Dd::ONE,
        }
    }

    /// Converts coefficients in [`Self::variable`] to Chebyshev coefficients in `x / radius`.
    fn expand(&self, inner: &[Dd]) -> Vec<Dd> {
        let term = |k: usize| inner.get(k).copied().unwrap_or(Dd::ZERO);
        let between = |n: usize| {
            let k = n / 2;
            match (self.parity, n % 2) {
                (Parity::Even, 0) => term(k),
                // t T_2k(t) = (T_(2k+1) + T_(2k-1)) / 2, and t T_0 = T_1.
                (Parity::Odd, 1) if k == 0 => term(0) + term(1).mul_pow2(-1),
                (Parity::Odd, 1) => (term(k) + term(k + 1)).mul_pow2(-1),
                _ => Dd::ZERO,
            }
        };
        match self.parity {
            Parity::Any => inner.to_vec(),
            _ => (0..2 * inner.len()).map(between).collect(),
        }
    }

    /// Returns `count` ascending interior points whose interpolation polynomials are near the best
    /// ones: Leja points in [`Self::variable`]. Each maximises the product of distances to the
    /// previous ones.
    fn spread(&self, count: usize) -> Vec<f64> {
        let measure: f64 = self.intervals.iter().map(|(a, b)| b - a).sum();
        let mut candidates = Vec::new();
        for &(a, b) in &self.intervals {
            let share = CANDIDATES as f64 * count as f64 * (b - a) / measure;
            let nodes = CANDIDATES + share as usize;
            let middle = a.midpoint(b);
            let radius = b / 2.0 - a / 2.0;
            for k in (0..nodes).rev() {
                let node = real::cos(PI * (2 * k + 1) as f64 / (2 * nodes) as f64);
                let x = (middle + radius * node).clamp(a, b);
                candidates.push((x, self.variable(Dd::from(x)).to_f64(), 1.0));
            }
        }
        let mut chosen = Vec::with_capacity(count);
        for _ in 0..count {
            let first = (0.0, 0.0, 0.0);
            let (x, u, most) = candidates.iter().fold(first, |a, &b| if b.2 > a.2 { b } else { a });
            chosen.push(x);
            // Scale products so that they neither overflow nor all underflow.
            for (_, v, product) in &mut candidates {
                *product *= (*v - u).abs() / most;
            }
        }
        chosen.sort_by(f64::total_cmp);
        chosen
    }

    /// Returns the local extremes of `error`, ascending, at least one per interval. The search uses
    /// `pieces` points between neighbours among `marks` and the ends of intervals.
    fn extremes(&self, error: impl Fn(f64) -> f64, marks: &[f64], pieces: usize) -> Vec<Extreme> {
        let mut found = Vec::new();
        let mut marks = marks.iter().copied().peekable();
        for &(a, b) in &self.intervals {
            let mut ends = vec![a];
            while let Some(mark) = marks.next_if(|&mark| mark <= b) {
                if a < mark && mark < b {
                    ends.push(mark);
                }
            }
            ends.push(b);
            let mut points = vec![a];
            for pair in ends.windows(2) {
                let step = (pair[1] - pair[0]) / pieces as f64;
                points.extend((1..pieces).map(|i| pair[0] + i as f64 * step));
                points.push(pair[1]);
            }
            let values: Vec<f64> = points.iter().map(|&x| error(x)).collect();
            for (i, &value) in values.iter().enumerate() {
                let size = |j: usize| values[j] * value.signum();
                let left = i.saturating_sub(1);
                let right = (i + 1).min(values.len() - 1);
                if size(i) >= size(left) && size(i) >= size(right) {
                    // Three neighbours. There are at least three values.
                    let first = left.min(values.len() - 3);
                    let at = |j: usize| Extreme { x: points[j], error: values[j] };
                    found.push(refine(&error, [first, first + 1, first + 2].map(at), i - first));
                }
            }
        }
        found
    }
}

/// A point of the domain and the error `f - p` there.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Extreme {
    x: f64,
    error: f64,
}

impl Extreme {
    fn size(&self) -> f64 {
        self.error.abs()
    }
}

/// A polynomial approximation of a function.
#[derive(Debug, Clone, PartialEq)]
pub struct Approximation {
    /// The approximation, a Chebyshev series on `[-radius, radius]`.
    pub polynomial: Polynomial,
    /// The largest `|f - p|` on the domain, for the polynomial with its coefficients rounded to
    /// `f64`, evaluated in double-double arithmetic.
    pub max_error: f64,
}

impl Approximation {
    /// Finds the polynomial of at most this degree with the minimum largest error, to one part in
    /// `10^7` of the error and the rounding of the coefficients to `f64`.
    ///
    /// `f` should have a relative error well below the error of the result. It is evaluated on the
    /// domain only.
    ///
    /// # Errors
    /// [`Error::Circuit`] for a degree above [`MAX_DEGREE`], for odd terms of degree 0, or if 100
    /// exchanges do not reach that precision or meet a value that is not finite.
    ///
    /// ```
    /// use sudare::circuits::ckks::minimax::{Approximation, Domain, Parity};
    ///
    /// // The best even quadratic for |x| on [-1, 1] is x^2 + 1/8.
    /// let domain = Domain::new(&[-1.0..1.0], 1.0, Parity::Even)?;
    /// let found = Approximation::minimax(|x| x.abs(), &domain, 2)?;
    /// assert!((found.max_error - 0.125).abs() < 1e-7);
    /// assert!((found.polynomial.evaluate(0.0) - 0.125).abs() < 1e-7);
    /// # Ok::<(), sudare::Error>(())
    /// ```
    pub fn minimax(f: impl Fn(Dd) -> Dd, domain: &Domain, degree: usize) -> Result<Self> {
        let inner_degree = domain.inner_degree(degree)?;
        // One point more than there are coefficients, because the level is unknown too.
        let mut reference = domain.spread(inner_degree + 2);
        for _ in 0..MAX_ITERATIONS {
            let trial = Levelled::through(&f, domain, &reference);
            let error = |x: f64| trial.error(&f, domain, Dd::from(x));
            let extremes = domain.extremes(error, &reference, PIECES);
            let most = extremes.iter().map(Extreme::size).fold(0.0, f64::max);
            let finite = extremes.iter().all(|e| e.error.is_finite());
            if !finite || !trial.level.is_finite() {
                return Err(Error::Circuit(format!(
                    "approximation of degree {degree}: a value of the function or of the \
                     polynomial is not finite; lower the degree, or check the function on the \
                     whole domain"
                )));
            }
            // The level of a reference bounds the smallest possible error from below (de la Vallée
            // Poussin).
            let done = most <= trial.level.abs().to_f64() * (1.0 + TOLERANCE);
            if done || most <= NEGLIGIBLE * trial.largest {
                let inner =
                    chebyshev_coefficients(inner_degree + 1, |u| trial.at_variable(u, identity));
                return Self::rounded(f, domain, &inner, &reference);
            }
            let next = exchange(extremes, reference.len());
            if next.len() < reference.len() {
                break;
            }
            reference = next;
        }
        Err(Error::Circuit(format!(
            "approximation of degree {degree}: the exchange of reference points did not converge; \
             change the degree or widen the intervals"
        )))
    }

    /// Finds the [`minimax`](Self::minimax) approximation of the lowest degree with an error of at
    /// most `max_error`.
    ///
    /// # Errors
    /// [`Error::Circuit`] if no degree up to [`MAX_DEGREE`] suffices, and errors of
    /// [`minimax`](Self::minimax).
    pub fn minimax_within(f: impl Fn(Dd) -> Dd, domain: &Domain, max_error: f64) -> Result<Self> {
        let (first, step) = match domain.parity {
            Parity::Any => (0, 1),
            Parity::Even => (0, 2),
            Parity::Odd => (1, 2),
        };
        let most = (MAX_DEGREE - first) / step;
        let fit = |index: usize| Self::minimax(&f, domain, first + step * index);
        // Errors do not grow with the degree: double the index, then halve the gap.
        let mut low = 0;
        let mut high = 0;
        let mut best = loop {
            let found = fit(high)?;
            if found.max_error <= max_error {
                break found;
            }
            if high == most {
                return Err(Error::Circuit(format!(
                    "approximation within {max_error:e}: degree {MAX_DEGREE} reaches {:e}; accept \
                     a larger error or shorten the domain",
                    found.max_error
                )));
            }
            low = high + 1;
            high = (2 * high + 4).min(most);
        };
        while low < high {
            let middle = low.midpoint(high);
            let found = fit(middle)?;
            if found.max_error <= max_error {
                (best, high) = (found, middle);
            } else {
                low = middle + 1;
            }
        }
        Ok(best)
    }

    /// Interpolates in the Chebyshev nodes of all of `[-radius, radius]`, where `f` must be
    /// defined. The reported error is for the domain.
    ///
    /// # Errors
    /// [`Error::Circuit`] for a degree above [`MAX_DEGREE`] or odd terms of degree 0,
    /// [`Error::NotFinite`] if `f` is not finite at a node.
    pub fn chebyshev(f: impl Fn(Dd) -> Dd, domain: &Domain, degree: usize) -> Result<Self> {
        let count = domain.inner_degree(degree)? + 1;
        let radius = Dd::from(domain.radius);
        let inner = chebyshev_coefficients(count, |u| {
            let t = match domain.parity {
                Parity::Any => u,
                // The inverse of `T_2` on `[0, 1]`.
                _ => ((Dd::ONE + u).mul_pow2(-1)).sqrt(),
            };
            f(t * radius) / domain.factor(t * radius)
        });
        Self::rounded(f, domain, &inner, &domain.spread(count + 1))
    }

    fn rounded(f: impl Fn(Dd) -> Dd, domain: &Domain, inner: &[Dd], marks: &[f64]) -> Result<Self> {
        let coeffs = domain.expand(inner).into_iter().map(Dd::to_f64).collect();
        let radius = domain.radius;
        let polynomial = Polynomial::chebyshev_series(coeffs, -radius..radius)?;
        let error = |x: f64| {
            let x = Dd::from(x);
            (f(x) - clenshaw(polynomial.coeffs(), x / Dd::from(radius))).to_f64()
        };
        let extremes = domain.extremes(error, marks, FINAL_PIECES);
        let max_error = extremes.iter().map(Extreme::size).fold(0.0, f64::max);
        Ok(Self { polynomial, max_error })
    }
}

/// The polynomial `p` of a reference: `f - p` has magnitude `level` there, with alternating signs.
struct Levelled {
    /// [`Domain::variable`] of the reference points, ascending.
    nodes: Vec<Dd>,
    /// `p / factor` at the reference points.
    values: Vec<Dd>,
    /// Barycentric weights.
    weights: Vec<Dd>,
    level: Dd,
    /// The largest `|f|` on the reference.
    largest: f64,
}

impl Levelled {
    fn through(f: impl Fn(Dd) -> Dd, domain: &Domain, reference: &[f64]) -> Self {
        let points: Vec<Dd> = reference.iter().map(|&x| Dd::from(x)).collect();
        let nodes: Vec<Dd> = points.iter().map(|&x| domain.variable(x)).collect();
        let factors: Vec<Dd> = points.iter().map(|&x| domain.factor(x)).collect();
        let exact: Vec<Dd> = points.iter().map(|&x| f(x)).collect();
        // Differences are doubled, which keeps products of many near 1.
        let weight = |i: usize| {
            let others = (0..nodes.len()).filter(|&j| j != i);
            Dd::ONE / others.fold(Dd::ONE, |w, j| w * (nodes[i] - nodes[j]).mul_pow2(1))
        };
        let weights: Vec<Dd> = (0..nodes.len()).map(weight).collect();
        // The divided difference of p / factor over all nodes vanishes, because there is one node
        // more than coefficients.
        let mut above = Dd::ZERO;
        let mut below = Dd::ZERO;
        for i in 0..nodes.len() {
            above += weights[i] * exact[i] / factors[i];
            below += alternate(i, weights[i] / factors[i]);
        }
        let level = above / below;
        let value = |i: usize| (exact[i] - alternate(i, level)) / factors[i];
        let values = (0..nodes.len()).map(value).collect();
        let largest = exact.iter().map(|y| y.abs().to_f64()).fold(0.0, f64::max);
        Self { nodes, values, weights, level, largest }
    }

    /// Evaluates `p / factor` by the second barycentric formula, in the number type of `round`.
    /// Distances of nodes, which may be close to one another, are computed before rounding.
    fn at_variable<T>(&self, u: Dd, round: impl Fn(Dd) -> T) -> T
    where
        T: Copy + AddAssign + Mul<Output = T> + Div<Output = T>,
    {
        let mut above = round(Dd::ZERO);
        let mut below = round(Dd::ZERO);
        for ((&node, &value), &weight) in self.nodes.iter().zip(&self.values).zip(&self.weights) {
            // The formula divides by 0 at a node.
            if u == node {
                return round(value);
            }
            let part = round(weight) / round(u - node);
            above += part * round(value);
            below += part;
        }
        above / below
    }

    /// Returns `f - p`, with an error that is a small part of the level.
    fn error(&self, f: impl Fn(Dd) -> Dd, domain: &Domain, x: Dd) -> f64 {
        let u = domain.variable(x);
        let coarse = self.level.abs().to_f64() > COARSE * self.largest;
        let value = match coarse {
            true => self.at_variable(u, Dd::to_f64).into(),
            false => self.at_variable(u, identity),
        };
        (f(x) - domain.factor(x) * value).to_f64()
    }
}

/// Returns `y` for even `i`, `-y` for odd.
fn alternate(i: usize, y: Dd) -> Dd {
    if i.is_multiple_of(2) { y } else { -y }
}

/// Returns `count` of the extremes with alternating errors, or fewer if there are fewer: algorithm
/// 3 of 2020/552.
fn exchange(extremes: Vec<Extreme>, count: usize) -> Vec<f64> {
    let mut kept: Vec<Extreme> = Vec::with_capacity(extremes.len());
    for extreme in extremes {
        match kept.last_mut() {
            Some(last) if last.error.signum() == extreme.error.signum() => {
                if extreme.size() > last.size() {
                    *last = extreme;
                }
            }
            _ => kept.push(extreme),
        }
    }
    while kept.len() > count {
        let last = kept.len() - 1;
        let first_is_smaller = kept[0].size() <= kept[last].size();
        let pair = |i: usize| (i, kept[i].size() + kept[(i + 1) % kept.len()].size());
        // When two too many remain, both ends together count as a pair.
        let pairs = if kept.len() == count + 2 { kept.len() } else { last };
        let smallest = (0..pairs).map(pair).min_by(|x, y| x.1.total_cmp(&y.1));
        match smallest {
            _ if kept.len() == count + 1 => {
                kept.remove(if first_is_smaller { 0 } else { last });
            }
            Some((i, _)) if i == last => {
                kept.remove(last);
                kept.remove(0);
            }
            Some((0, _)) if kept.len() > count + 2 => {
                kept.remove(0);
            }
            Some((i, _)) if i + 1 == last && kept.len() > count + 2 => {
                kept.remove(last);
            }
            Some((i, _)) => {
                kept.drain(i..i + 2);
            }
            None => break,
        }
    }
    kept.into_iter().map(|e| e.x).collect()
}

/// Returns the extreme of `error` near three ascending points, where `largest` is the index of the
/// largest. Parabolas through the largest point and its neighbours are used until it grows no more.
fn refine(error: impl Fn(f64) -> f64, mut points: [Extreme; 3], mut largest: usize) -> Extreme {
    // Maximum number of parabolas, and the relative gain below which another is not worth it.
    const STEPS: usize = 24;
    const GAIN: f64 = 1e-10;
    let sign = points[largest].error.signum();
    for _ in 0..STEPS {
        let [a, b, c] = points;
        let left = (b.error - a.error) / (b.x - a.x);
        let right = (c.error - b.error) / (c.x - b.x);
        let bend = (right - left) / (c.x - a.x);
        let x = 0.5 * (a.x + b.x - left / bend);
        // Also stops for NaN, which three points on a line yield.
        if !(bend * sign < 0.0 && a.x < x && x < c.x && x != b.x) {
            break;
        }
        let found = Extreme { x, error: error(x) };
        let before = points[largest].error;
        let four = if x < b.x { [a, found, b, c] } else { [a, b, found, c] };
        let size = |i: &usize| four[*i].error * sign;
        largest = (0..4).max_by(|i, j| size(i).total_cmp(&size(j))).unwrap_or(largest);
        // The largest, and a neighbour on each side if there is one.
        let start = usize::from(largest > 1);
        (points, largest) = ([four[start], four[start + 1], four[start + 2]], largest - start);
        if (found.error - before).abs() <= GAIN * before.abs() {
            break;
        }
    }
    points[largest]
}

/// Returns the Chebyshev coefficients of the polynomial of degree below `count` that equals `f` at
/// the nodes.
fn chebyshev_coefficients(count: usize, f: impl Fn(Dd) -> Dd) -> Vec<Dd> {
    let circle = 4 * count;
    let cos: Vec<Dd> = (0..circle)
        .map(|i| (Dd::from(i as u64) / Dd::from(circle as u64)).sin_cos_turns().1)
        .collect();
    let values: Vec<Dd> = (0..count).map(|k| f(cos[2 * k + 1])).collect();
    let coefficient = |n: usize| {
        let sum = values
            .iter()
            .enumerate()
            .fold(Dd::ZERO, |sum, (k, &y)| sum + y * cos[n * (2 * k + 1) % circle]);
        let mean = sum / Dd::from(count as u64);
        if n == 0 { mean } else { mean.mul_pow2(1) }
    };
    (0..count).map(coefficient).collect()
}

/// `sum coeffs[n] T_n(t)`.
fn clenshaw(coeffs: &[f64], t: Dd) -> Dd {
    let mut current = Dd::ZERO;
    let mut next = Dd::ZERO;
    for &c in coeffs.iter().skip(1).rev() {
        (current, next) = (Dd::from(c) + (t * current).mul_pow2(1) - next, current);
    }
    Dd::from(coeffs.first().copied().unwrap_or(0.0)) + t * current - next
}

#[cfg(test)]
mod tests;
