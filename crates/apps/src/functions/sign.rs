//! The sign as a composition of odd minimax polynomials, and functions derived from it.
//!
//! Lee, Lee, No, Kim, "Minimax approximation of sign function by composite polynomial for
//! homomorphic comparison" ([2020/834](https://eprint.iacr.org/2020/834), IEEE TDSC 2022). The
//! first polynomial is the minimax approximation of the sign on `[-1, -g]` and `[g, 1]`. Each
//! further polynomial is the minimax approximation on the image of the composition before it.
//! `relu(x) = x (1 + sign x) / 2`, and the maximum of two numbers follows from the relu of their
//! difference.
//!
//! Deviations from the paper:
//!
//! - Values are scaled to `[-1, 1]` after every polynomial, and each image is widened by the errors
//!   that rescaling and bootstrapping may add.
//! - [`Composition::least_depth`] searches for the degrees, in place of the paper's dynamic
//!   programming.
//! - Where `|x|` needs few bits, one even polynomial replaces the composition, which saves the
//!   product with `x`.

use core::ops::Range;

use sudare::{
    Error, Result,
    circuits::ckks::{
        Polynomial,
        minimax::{Approximation, Dd, Domain, MAX_DEGREE, Parity},
    },
};

use super::{Exact, Finish, Fit, Function, check_interval, tolerance};

/// Depths of the polynomials of a composition. Beyond degree 31 the additional products cost more
/// than the saved levels.
const STAGE_DEPTHS: core::ops::RangeInclusive<u32> = 2..=5;

/// Number of levels after which the search stops.
const MAX_DEPTH: u32 = 48;

/// Error of values between two polynomials, as a fraction of the largest value.
pub(crate) const NOISE: f64 = 1.0 / (1 << 16) as f64;

/// Smallest gap, as a fraction of the largest value.
const MIN_GAP: f64 = 1.0 / (1 << 28) as f64;

/// Approximates the sign: `1` above 0 and `-1` below, on `[-r, r]` without `(-gap, gap)`, where `r`
/// is the larger magnitude of the ends of `interval`.
///
/// # Errors
/// [`Error::Circuit`] for an interval that is empty or infinite, a gap below `2^-28 r` or not below
/// `r`, a degree above 255, and a precision that 48 levels do not reach.
pub fn sign(interval: Range<f64>, gap: f64, fit: Fit) -> Result<Function> {
    // `signum` of 0 is 1.
    let exact = |x: f64| if x == 0.0 { 0.0 } else { x.signum() };
    sharp("sign", exact, &interval, gap, fit, [0.0, 1.0])
}

/// Approximates the step: `1` above 0 and `0` below, computed as `(1 + sign x) / 2` with [`sign`].
/// At 0 it is one half.
///
/// # Errors
/// The errors of [`sign`].
pub fn step(interval: Range<f64>, gap: f64, fit: Fit) -> Result<Function> {
    let exact = |x: f64| if x == 0.0 { 0.5 } else { f64::from(x > 0.0) };
    sharp("step", exact, &interval, gap, fit, [0.5, 0.5])
}

/// Approximates `|x|` on `[-r, r]`, where `r` is the larger magnitude of the ends of `interval`.
///
/// # Errors
/// [`Error::Circuit`] for an interval that is empty or infinite, and for a precision that cannot be
/// reached.
pub fn abs(interval: Range<f64>, fit: Fit) -> Result<Function> {
    kinked("absolute value", f64::abs, &interval, fit, [0.0, 1.0])
}

/// Approximates the larger of `x` and 0 on `[-r, r]`, where `r` is the larger magnitude of the ends
/// of `interval`.
///
/// # Errors
/// The errors of [`abs`].
pub fn relu(interval: Range<f64>, fit: Fit) -> Result<Function> {
    kinked("relu", |x| x.max(0.0), &interval, fit, [0.5, 0.5])
}

/// Returns the polynomial on an interval that is wider by `margin` at both ends. Its arguments are
/// scaled towards the middle by the same factor.
pub(super) fn widened(p: &Polynomial, margin: f64) -> Result<Polynomial> {
    let Range { start, end } = p.interval();
    Polynomial::chebyshev_series(p.coeffs().to_vec(), start - margin..end + margin)
}

/// Returns the polynomial with values scaled so that `margin` is free at both ends of `[-1, 1]`.
pub(super) fn shrunk(p: &Polynomial, margin: f64) -> Result<Polynomial> {
    let coeffs = p.coeffs().iter().map(|c| c / (1.0 + margin)).collect();
    Polynomial::chebyshev_series(coeffs, p.interval())
}

/// Builds `offset + factor sign(x)`.
fn sharp(
    name: &'static str,
    exact: fn(f64) -> f64,
    interval: &Range<f64>,
    gap: f64,
    fit: Fit,
    [offset, factor]: [f64; 2],
) -> Result<Function> {
    let radius = radius(name, interval)?;
    let part = gap / radius;
    if !(MIN_GAP..1.0).contains(&part) {
        return Err(Error::Circuit(format!(
            "{name} on {interval:?} with a gap of {gap}: a gap from {} to {radius} is needed",
            MIN_GAP * radius
        )));
    }
    let composition = match fit {
        Fit::Degree(degree) => Composition::start(part).followed_by(&[degree])?,
        // The last polynomial multiplies the error by `factor`.
        Fit::PrecisionBits(bits) => Composition::least_depth(part, tolerance(bits)? / factor)?,
    };
    Ok(Function {
        name,
        exact: Exact::Known(exact),
        interval: (-radius, radius),
        gap,
        stages: composition.polynomials(radius, [offset, factor])?,
        finish: Finish::Value,
        product: None,
        max_error: 0.0,
    }
    .measured())
}

/// Builds `linear x + factor |x|`.
pub(super) fn kinked(
    name: &'static str,
    exact: fn(f64) -> f64,
    interval: &Range<f64>,
    fit: Fit,
    [linear, factor]: [f64; 2],
) -> Result<Function> {
    let radius = radius(name, interval)?;
    let function = |stages, finish| {
        let interval = (-radius, radius);
        let gap = 0.0;
        let product = None;
        let max_error = 0.0;
        let exact = Exact::Known(exact);
        Function { name, exact, interval, gap, stages, finish, product, max_error }.measured()
    };
    let direct = |found: Approximation| -> Result<Function> {
        let mut coeffs: Vec<f64> =
            found.polynomial.coeffs().iter().map(|c| c * factor * radius).collect();
        // An even polynomial may lack the linear term.
        coeffs.resize(coeffs.len().max(2), 0.0);
        coeffs[1] += linear * radius;
        let polynomial = Polynomial::chebyshev_series(coeffs, -radius..radius)?;
        Ok(function(vec![polynomial], Finish::Value))
    };
    let domain = Domain::new(&[0.0..1.0], 1.0, Parity::Even)?;
    let bits = match fit {
        Fit::Degree(degree) => return direct(Approximation::minimax(Dd::abs, &domain, degree)?),
        Fit::PrecisionBits(bits) => bits,
    };
    // Error of |t| on [-1, 1].
    let max_error = tolerance(bits)? / (factor.abs() * radius);
    let highest = Approximation::minimax(Dd::abs, &domain, MAX_DEGREE)?;
    // One polynomial has no product with the argument, so it is preferred.
    if highest.max_error <= max_error {
        return direct(Approximation::minimax_within(Dd::abs, &domain, max_error)?);
    }
    // Outside the gap the error is at most the error of the sign. Inside, it is below an eighth of
    // the gap if the sign rises twice as steeply as a line through the edges of the gap.
    let mut gap = 8.0 * max_error;
    while gap >= MIN_GAP {
        let composition = Composition::least_depth(gap, max_error)?;
        let stages = composition.polynomials(radius, [linear, factor])?;
        let found = function(stages, Finish::TimesArgument);
        if found.max_error <= max_error * factor.abs() * radius {
            return Ok(found);
        }
        // Inside a narrower gap the error is smaller.
        gap *= 0.9;
    }
    Err(Error::Circuit(format!(
        "{name} to {bits} bits on {interval:?}: too sharp a bend; accept a larger error"
    )))
}

/// Returns the larger magnitude of the ends.
fn radius(name: &str, interval: &Range<f64>) -> Result<f64> {
    check_interval(name, interval)?;
    Ok(interval.start.abs().max(interval.end.abs()))
}

/// Odd polynomials whose composition approximates the sign on `[-1, -gap]` and `[gap, 1]`.
#[derive(Debug, Clone)]
struct Composition {
    gap: f64,
    parts: Vec<Part>,
}

/// One polynomial of a composition.
#[derive(Debug, Clone)]
struct Part {
    degree: usize,
    /// The polynomial on `[-1, 1]`, with values up to `1 + error`.
    polynomial: Polynomial,
    error: f64,
}

impl Part {
    fn scale(&self) -> f64 {
        1.0 / ((1.0 + self.error) * (1.0 + NOISE))
    }
}

impl Composition {
    fn start(gap: f64) -> Self {
        Self { gap, parts: Vec::new() }
    }

    /// Returns the composition with polynomials of these degrees appended. The result has at least
    /// one polynomial.
    fn followed_by(&self, degrees: &[usize]) -> Result<Self> {
        let mut all = self.clone();
        for &degree in degrees {
            let domain = Domain::new(&[all.lower()..1.0], 1.0, Parity::Odd)?;
            let found = Approximation::minimax(|_| Dd::ONE, &domain, degree)?;
            let polynomial = found.polynomial;
            let error = found.max_error;
            all.parts.push(Part { degree, polynomial, error });
        }
        Ok(all)
    }

    /// Returns the lower end of the image of the magnitudes, scaled to `[0, 1]`.
    fn lower(&self) -> f64 {
        let Some(last) = self.parts.last() else { return self.gap / (1.0 + NOISE) };
        let lower = (1.0 - last.error) * last.scale();
        // Near the gap, noise has to stay below values that must be distinguished from 0.
        lower - NOISE.min(lower / 16.0)
    }

    fn error(&self) -> f64 {
        self.parts.last().map_or(f64::INFINITY, |part| part.error)
    }

    fn degrees(&self) -> Vec<usize> {
        self.parts.iter().map(|part| part.degree).collect()
    }

    /// Finds the composition of the minimum depth whose error is at most `max_error`. Among the
    /// compositions found at this depth, it returns the one of the minimum sum of degrees.
    ///
    /// Depths of the polynomials do not decrease along a composition. For each depth, the search
    /// keeps a composition unless another one of the same depth has an image nearer to 1 and a last
    /// polynomial of no larger depth. Degrees are `2^k - 1` at first, and are lowered at the end.
    fn least_depth(gap: f64, max_error: f64) -> Result<Self> {
        let mut by_depth: Vec<Vec<(u32, Self)>> = vec![vec![(0, Self::start(gap))]];
        for depth in 1..=MAX_DEPTH {
            let mut found: Vec<(u32, Self)> = Vec::new();
            for part in STAGE_DEPTHS.filter(|&part| part <= depth) {
                let before = &by_depth[(depth - part) as usize];
                for (_, composition) in before.iter().filter(|(last, _)| *last <= part) {
                    // Compositions that do not converge are skipped.
                    if let Ok(next) = composition.followed_by(&[(1 << part) - 1]) {
                        found.push((part, next));
                    }
                }
            }
            let reached = found.iter().filter(|(_, found)| found.error() <= max_error);
            let lowest = reached.map(|(_, found)| found.lowered(max_error));
            if let Some(best) = lowest.min_by_key(|found| found.degrees().iter().sum::<usize>()) {
                return Ok(best);
            }
            let surpassed = |(last, a): &(u32, Self)| {
                found.iter().any(|(other, b)| other <= last && b.lower() > a.lower())
            };
            by_depth.push(found.iter().filter(|a| !surpassed(a)).cloned().collect());
        }
        Err(Error::Circuit(format!(
            "sign to within {max_error:e} outside a gap of {gap:e}: more than {MAX_DEPTH} levels \
             would be needed; widen the gap or accept a larger error"
        )))
    }

    /// Lowers degrees, from the last polynomial to the first, as far as the error allows.
    fn lowered(&self, max_error: f64) -> Self {
        let mut best = self.clone();
        for index in (0..self.parts.len()).rev() {
            let before = Self { gap: self.gap, parts: self.parts[..index].to_vec() };
            loop {
                let mut degrees = best.degrees().split_off(index);
                if degrees[0] <= 3 {
                    break;
                }
                // Degrees stay odd.
                degrees[0] -= 2;
                match before.followed_by(&degrees) {
                    Ok(lower) if lower.error() <= max_error => best = lower,
                    _ => break,
                }
            }
        }
        best
    }

    /// Returns the polynomials for arguments of magnitudes up to `radius`. If the sign is `s`, the
    /// last polynomial returns `offset + factor s`.
    fn polynomials(&self, radius: f64, [offset, factor]: [f64; 2]) -> Result<Vec<Polynomial>> {
        let polynomial = |(index, part): (usize, &Part)| {
            let (offset, factor) = match index + 1 == self.parts.len() {
                true => (offset, factor),
                false => (0.0, part.scale()),
            };
            let mut coeffs: Vec<f64> =
                part.polynomial.coeffs().iter().map(|c| c * factor).collect();
            coeffs[0] += offset;
            // Arguments may exceed the interval by noise.
            let reach = if index == 0 { radius * (1.0 + NOISE) } else { 1.0 };
            Polynomial::chebyshev_series(coeffs, -reach..reach)
        };
        self.parts.iter().enumerate().map(polynomial).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::depth_of;

    /// `sqrt(m) ((1 + a) / (1 - a))^m E_(2m+1)` tends to `(1 - a) / sqrt(pi a)` (Eremenko,
    /// Yuditskii, "Uniform approximation of sgn(x) by polynomials and entire functions",
    /// J. Anal. Math. 101, 2007).
    #[test]
    fn one_polynomial_has_the_error_of_theory() {
        let a: f64 = 0.1;
        let limit = (1.0 - a) / (core::f64::consts::PI * a).sqrt();
        let scaled = |m: i32| {
            let f = sign(-1.0..1.0, a, Fit::Degree(2 * m as usize + 1)).unwrap();
            f64::from(m).sqrt() * ((1.0 + a) / (1.0 - a)).powi(m) * f.max_error()
        };
        // Corrections are of order 1 / m.
        let once = scaled(25);
        let twice = scaled(50);
        let extrapolated = 2.0 * twice - once;
        assert!((extrapolated / limit - 1.0).abs() < 0.02, "{extrapolated} {limit}");
    }

    /// Every order of depths, by brute force.
    #[test]
    fn no_composition_of_less_depth_is_as_good() {
        fn reaches(before: &Composition, depth: u32, max_error: f64) -> bool {
            if before.error() <= max_error {
                return true;
            }
            STAGE_DEPTHS.filter(|&part| part <= depth).any(|part| {
                let next = before.followed_by(&[(1 << part) - 1]);
                next.is_ok_and(|next| reaches(&next, depth - part, max_error))
            })
        }
        for (gap, bits) in [(0.25, 8.0), (0.05, 6.0), (0.02, 12.0)] {
            let max_error = f64::exp2(-bits);
            let found = Composition::least_depth(gap, max_error).unwrap();
            assert!(found.error() <= max_error);
            let depth: u32 = found.degrees().iter().map(|&d| depth_of(d)).sum();
            assert!(!reaches(&Composition::start(gap), depth - 1, max_error), "{gap} {bits}");
            assert!(reaches(&Composition::start(gap), depth, max_error));
        }
    }

    /// Cheon, Kim, Kim, "Efficient homomorphic comparison methods with optimal complexity"
    /// ([2019/1234](https://eprint.iacr.org/2019/1234)) iterate
    /// `f_3 = (35 x - 35 x^3 + 21 x^5 - 5 x^7) / 16`, three levels each.
    #[test]
    fn minimax_compositions_are_shallower_than_iterations() {
        let f3 = |x: f64| x * (35.0 - x * x * (35.0 - x * x * (21.0 - 5.0 * x * x))) / 16.0;
        for alpha in [4, 8, 12] {
            let max_error = f64::exp2(-f64::from(alpha));
            let iterations = (1..)
                .scan(max_error, |x, n| {
                    *x = f3(*x);
                    Some((n, 1.0 - *x))
                })
                .find(|(_, error)| *error <= max_error);
            let f = sign(-1.0..1.0, max_error, Fit::PrecisionBits(alpha.into())).unwrap();
            assert!(f.depth() < 3 * iterations.unwrap().0, "{alpha}: {}", f.depth());
            assert!(f.max_error() <= max_error * (1.0 + 1e-9));
            assert!((f.evaluate(0.0), f.gap()) == (0.0, max_error));
        }
    }

    /// In the gap the sign rises steadily, so values inside stay between both sides.
    #[test]
    fn nothing_overshoots() {
        for (f, bits) in [
            (sign(-2.0..2.0, 0.01, Fit::PrecisionBits(10.0)).unwrap(), 10.0),
            (step(-2.0..2.0, 0.1, Fit::PrecisionBits(20.0)).unwrap(), 20.0),
        ] {
            let inside: Vec<f64> =
                (-1000..=1000).map(|i| f.evaluate(f.gap() * f64::from(i) / 1000.0)).collect();
            assert!(inside.windows(2).all(|pair| pair[0] <= pair[1] + 1e-12));
            for stage in f.stages() {
                let most = stage.interval().end;
                let values = (-1000..=1000).map(|i| stage.evaluate(most * f64::from(i) / 1000.0));
                assert!(values.fold(0.0, |a: f64, b| a.max(b.abs())) <= 1.0 + f64::exp2(-bits));
            }
        }
    }

    #[test]
    fn bends_are_as_exact_as_asked_for() {
        for (bits, depth) in [(5.0, 4), (8.0, 7), (12.0, 15)] {
            for f in [
                relu(-1.0..1.0, Fit::PrecisionBits(bits + 1.0)).unwrap(),
                abs(-4.0..1.0, Fit::PrecisionBits(bits - 2.0)).unwrap(),
            ] {
                assert!(f.max_error() <= f64::exp2(-bits) * 4.0, "{} {bits}", f.name());
                assert!(f.depth() <= depth, "{} {bits}: {}", f.name(), f.depth());
            }
        }
    }
}
