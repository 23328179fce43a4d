//! Real polynomials: approximation in the clear, then evaluation on encrypted values by
//! [`polynomial`].

use super::ComplexSlots;
use crate::{
    Error, Result,
    circuits::ops::{Extremes, off_the_real_line},
    circuits::polynomial::{self, Draft, Factors, Layout, OP, Power, Variable, bits, plan_powers},
    ckks::{Chain, Scale},
    rlwe::{Level, Scale as _},
};
use core::{f64::consts::PI, ops::Range};
use sudare_arith::real;

/// Maximum number of points at which magnitudes of a polynomial are computed, unless its degree is
/// high.
const MAX_NODES: usize = 1 << 15;

/// A plan to evaluate a [`Polynomial`] on ciphertexts of one level and scale; see
/// [`polynomial::PolynomialPlan`].
pub type PolynomialPlan = polynomial::PolynomialPlan<ComplexSlots>;

/// Coefficients of an approximation below this part of the largest are rounding errors of the
/// approximated function.
const NEGLIGIBLE: f64 = 1.0 / (1u64 << 48) as f64;

/// Maximum difference, in bits, between the scale of a power and the prime product at its level.
/// Beyond it, a level is spent on the change of variable.
const DRIFT_BITS: f64 = 8.0;

/// Basis of the coefficients of a [`Polynomial`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Basis {
    /// `x^n`.
    Monomial,
    /// `T_n(t)`, the Chebyshev polynomials of the first kind in
    /// `t = (2x - a - b) / (b - a)`.
    Chebyshev {
        /// Lower end of the interval.
        a: f64,
        /// Upper end of the interval.
        b: f64,
    },
}

/// A polynomial with real coefficients, and the interval that it is meant for.
///
/// ```
/// use sudare::ckks::{Chain, Complex, Scale};
/// use sudare::circuits::ckks::{Polynomial, sim};
/// use sudare::rlwe::Level;
///
/// let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
/// let p = Polynomial::chebyshev(sigmoid, -8.0..8.0, 31)?;
/// assert!(p.max_error(sigmoid, 1000) < 1e-4);
///
/// let scale = Scale::from_log2(40.0);
/// let log2_q = (0..8).map(|level| 60.0 + 40.0 * f64::from(level)).collect();
/// let chain = Chain::new(vec![scale; 7], log2_q);
/// let plan = p.plan(&chain, Level(7), scale, scale)?;
/// assert_eq!((plan.depth(), plan.relinearizations()), (6, 10));
///
/// let e = sim::Evaluator::new(14, chain);
/// let x = e.encrypt(&[Complex { re: 1.5, im: 0.0 }], Level(7), scale)?;
/// let y = plan.run(&e, &x)?;
/// assert!((e.decrypt(&y)[0].re - sigmoid(1.5)).abs() < 1e-4);
/// # Ok::<(), sudare::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Polynomial {
    basis: Basis,
    interval: (f64, f64),
    /// Never empty. The last coefficient is nonzero, unless it is the only one.
    coeffs: Vec<f64>,
}

impl Polynomial {
    /// Makes `sum coeffs[n] x^n`, meant for `[-1, 1]`.
    ///
    /// # Errors
    /// [`Error::NotFinite`] for a coefficient that is NaN or infinite.
    pub fn monomial(coeffs: Vec<f64>) -> Result<Self> {
        Self::new(Basis::Monomial, (-1.0, 1.0), coeffs)
    }

    /// Makes `sum coeffs[n] x^n`, a Taylor polynomial at 0, meant for `[-radius, radius]`.
    ///
    /// Values of `x^n` grow like `radius^n` and need that part of the modulus. For radii well above
    /// 1 evaluate [`Polynomial::to_chebyshev`] instead.
    ///
    /// # Errors
    /// [`Error::NotFinite`] for a coefficient, [`Error::Circuit`] for a radius that is not positive
    /// and finite.
    pub fn taylor(coeffs: Vec<f64>, radius: f64) -> Result<Self> {
        Self::new(Basis::Monomial, check_interval(&(-radius..radius))?, coeffs)
    }

    /// Makes `sum coeffs[n] T_n(t)`, where the variable `t` maps `interval` to `[-1, 1]`.
    ///
    /// # Errors
    /// [`Error::NotFinite`] for a coefficient, [`Error::Circuit`] for an empty, inverted or
    /// infinite interval.
    pub fn chebyshev_series(coeffs: Vec<f64>, interval: Range<f64>) -> Result<Self> {
        let (a, b) = check_interval(&interval)?;
        Self::new(Basis::Chebyshev { a, b }, (a, b), coeffs)
    }

    /// Returns the polynomial of at most the given degree that equals `f` at the Chebyshev nodes of
    /// `interval`, in the Chebyshev basis. For smooth `f` it is near the best approximation in the
    /// maximum norm.
    ///
    /// Coefficients below `2^-48` of the largest are treated as rounding errors of `f` and dropped.
    /// Odd and even functions thus lead to odd and even polynomials, and the degree is lower where
    /// a lower one is equally exact.
    ///
    /// # Errors
    /// [`Error::NotFinite`] if `f` is NaN or infinite at a node, [`Error::Circuit`] for an empty,
    /// inverted or infinite interval.
    pub fn chebyshev(f: impl Fn(f64) -> f64, interval: Range<f64>, degree: usize) -> Result<Self> {
        let (a, b) = check_interval(&interval)?;
        let (middle, radius) = affine((a, b));
        let values = (0..=degree).map(|k| f(middle + radius * node(k, degree + 1)));
        let coeffs = interpolate(&finite(values)?);
        Self::chebyshev_series(without_negligible(coeffs), interval)
    }

    /// Returns the polynomial `p` of at most the given degree that minimises the integral of
    /// `(f - p)^2` over `interval`, in the Chebyshev basis.
    ///
    /// It is the projection on Legendre polynomials. Gauss-Legendre quadrature with at least 256
    /// nodes computes the integrals. They are exact to rounding for functions analytic near the
    /// interval, and to about the reciprocal of the number of nodes for functions with a jump.
    /// Small coefficients are dropped as by [`Polynomial::chebyshev`].
    ///
    /// # Errors
    /// See [`Polynomial::chebyshev`].
    pub fn least_squares(
        f: impl Fn(f64) -> f64,
        interval: Range<f64>,
        degree: usize,
    ) -> Result<Self> {
        let (middle, radius) = affine(check_interval(&interval)?);
        let rule = real::gauss_legendre(256.max(4 * (degree + 1)));
        let values = finite(rule.iter().map(|&(t, _)| f(middle + radius * t)))?;
        let mut legendre = vec![0.0; degree + 1];
        for (&(t, weight), value) in rule.iter().zip(values) {
            for (n, p) in real::legendre(t).take(degree + 1).enumerate() {
                // The integral of the square of `P_n` is `1 / (n + 1/2)`.
                legendre[n] += (n as f64 + 0.5) * weight * value * p;
            }
        }
        let projection = |k| {
            let t = node(k, degree + 1);
            legendre.iter().zip(real::legendre(t)).map(|(c, p)| c * p).sum()
        };
        let coeffs = interpolate(&(0..=degree).map(projection).collect::<Vec<_>>());
        Self::chebyshev_series(without_negligible(coeffs), interval)
    }

    fn new(basis: Basis, interval: (f64, f64), coeffs: Vec<f64>) -> Result<Self> {
        let mut coeffs = finite(coeffs.into_iter())?;
        let degree = coeffs.iter().rposition(|&c| c != 0.0).unwrap_or(0);
        coeffs.resize(degree + 1, 0.0);
        Ok(Self { basis, interval, coeffs })
    }

    /// Converts this polynomial to the Chebyshev basis of its interval.
    ///
    /// # Errors
    /// [`Error::NotFinite`] if a coefficient in that basis is beyond an `f64`.
    pub fn to_chebyshev(&self) -> Result<Self> {
        if self.basis != Basis::Monomial {
            return Ok(self.clone());
        }
        let (a, b) = self.interval;
        let (middle, radius) = affine(self.interval);
        // Horner's scheme: x = middle + radius T_1, and 2 T_1 T_n = T_(n+1) + T_|n-1|.
        let mut series = vec![0.0; self.coeffs.len()];
        for (done, &c) in self.coeffs.iter().rev().enumerate() {
            let mut next = vec![0.0; series.len()];
            for (n, &s) in series.iter().enumerate().take(done) {
                next[n] += middle * s;
                let half = if n == 0 { radius * s } else { radius * s / 2.0 };
                next[n + 1] += half;
                if n > 0 {
                    next[n - 1] += half;
                }
            }
            next[0] += c;
            series = next;
        }
        Self::new(Basis::Chebyshev { a, b }, self.interval, series)
    }

    /// The basis.
    #[must_use]
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// The coefficients in the basis, from index 0 to the last nonzero one.
    #[must_use]
    pub fn coeffs(&self) -> &[f64] {
        &self.coeffs
    }

    /// The interval that the polynomial is meant for.
    #[must_use]
    pub fn interval(&self) -> Range<f64> {
        self.interval.0..self.interval.1
    }

    /// Index of the last nonzero coefficient; 0 for constants.
    #[must_use]
    pub fn degree(&self) -> usize {
        self.coeffs.len() - 1
    }

    /// Returns the value at `x`, in the clear.
    #[must_use]
    pub fn evaluate(&self, x: f64) -> f64 {
        match self.basis {
            Basis::Monomial => self.coeffs.iter().rev().fold(0.0, |sum, c| sum * x + c),
            Basis::Chebyshev { a, b } => {
                let (middle, radius) = affine((a, b));
                real::chebyshev_sum(&self.coeffs, (x - middle) / radius)
            }
        }
    }

    /// Returns the largest `|f - p|` among `samples` (at least 2) equidistant points of the
    /// interval, ends included; infinite if `f` is NaN at one of them.
    #[must_use]
    pub fn max_error(&self, f: impl Fn(f64) -> f64, samples: usize) -> f64 {
        let (a, b) = self.interval;
        let steps = samples.max(2) - 1;
        let error = |i| {
            let part = i as f64 / steps as f64;
            // Exactly `a` and `b` at the ends.
            let x = a * (1.0 - part) + b * part;
            let error = (f(x) - self.evaluate(x)).abs();
            if error.is_nan() { f64::INFINITY } else { error }
        };
        (0..=steps).map(error).fold(0.0, f64::max)
    }

    /// Plans the evaluation on ciphertexts of the given level and scale, with a result of scale
    /// `out`.
    ///
    /// The depth is `ceil(log2(degree + 1))`, the minimum. In the Chebyshev basis, the variable
    /// must first be brought to `[-1, 1]`. This is free, as a change of scale, if no power's scale
    /// then differs by more than 8 bits from the prime product of its level. It is always so for
    /// degree 1, for half-widths of the interval near 1 (given a scale near the prime products), or
    /// for a low degree. Otherwise the change of variable costs one more level.
    ///
    /// The number of baby steps `k` minimises products of ciphertexts. Zero coefficients cost
    /// nothing: even and odd polynomials use about half the baby steps. Coefficients are encoded at
    /// scales near the scales of the operands. Their rounding errors appear in the result like any
    /// others.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] for a level beyond the chain, [`Error::LevelExhausted`] if the
    /// depth exceeds it, [`Error::ScaleOutOfRange`] if an inner scale is not positive and finite or
    /// does not fit the modulus, [`Error::Circuit`] if a power of the monomial basis does not fit
    /// it on the interval, [`Error::RaisedLevel`] if products are on both sides of the top of the
    /// chain.
    pub fn plan(
        &self,
        chain: &Chain,
        level: Level,
        scale: Scale,
        out: Scale,
    ) -> Result<PolynomialPlan> {
        self.plan_to(chain, level, scale, |_| Ok(out))
    }

    /// Runs [`Polynomial::plan`] with the scale of the result chosen by its level.
    ///
    /// # Errors
    /// Errors of [`Polynomial::plan`] and of `out`.
    pub fn plan_to(
        &self,
        chain: &Chain,
        level: Level,
        scale: Scale,
        out: impl Fn(Level) -> Result<Scale>,
    ) -> Result<PolynomialPlan> {
        chain.levels().check(level)?;
        scale.check_fits(OP, chain.log2_q(level))?;
        let layout = Layout::of(&[&self.coeffs], self.basis != Basis::Monomial);
        let start = self.variable(chain, level, scale, &layout.powers)?;
        let powers = plan_powers(&layout.powers, chain, &start)?;
        self.check_values(chain, &powers)?;
        let input = (level, scale);
        Draft { input, start, layout, powers }.finish_one(self.extremes(), chain, out)
    }

    /// Bounds the change of the real part of the values if arguments in the interval have imaginary
    /// parts up to `imaginary`; see [`Extremes::off_the_real_line`]. Infinite in the basis of
    /// powers.
    #[must_use]
    pub fn off_the_real_line(&self, imaginary: f64) -> f64 {
        let (_, radius) = affine(self.interval);
        match self.basis {
            Basis::Monomial => f64::INFINITY,
            Basis::Chebyshev { .. } => off_the_real_line(&self.coeffs, imaginary / radius),
        }
    }

    /// Returns the bounds in the variable of the Chebyshev basis.
    fn extremes(&self) -> Option<Extremes> {
        if self.basis == Basis::Monomial {
            return None;
        }
        // The derivative's series: c'_(n-1) = c'_(n+1) + 2 n c_n.
        let degree = self.degree();
        let mut series = vec![0.0; degree + 2];
        for n in (1..=degree).rev() {
            series[n - 1] = series[n + 1] + 2.0 * n as f64 * self.coeffs[n];
        }
        series[0] /= 2.0;
        series.truncate(degree.max(1));
        // Values of stages, of low degrees, enter the next interval with 2^-16 of room.
        Some(Extremes {
            value: largest(&self.coeffs, 512),
            slope: largest(&series, 8),
            coeffs: self.coeffs.iter().map(|c| c.abs()).collect(),
        })
    }

    /// Plans the change to the variable of the basis.
    fn variable(
        &self,
        chain: &Chain,
        level: Level,
        scale: Scale,
        powers: &[Factors],
    ) -> Result<Variable<ComplexSlots>> {
        let depth = bits(self.degree());
        let needs = |needed| {
            if level.0 < needed {
                return Err(Error::LevelExhausted { op: OP, needed, level });
            }
            Ok(())
        };
        needs(depth)?;
        let (middle, radius) = match self.basis {
            Basis::Monomial => (0.0, 1.0),
            Basis::Chebyshev { a, b } => affine((a, b)),
        };
        let shift = -middle / radius;
        let scale_read = scale * Scale::from_f64(radius);
        let free = Variable { level, scale: scale_read, stretch: None, shift };
        // Up to degree 1 there are no powers whose scales could drift.
        if self.basis == Basis::Monomial || depth < 2 {
            return Ok(free);
        }
        let precise = |power: &Power<Scale>| {
            let nominal = chain.divisor(Level(power.level.0 + 1));
            (power.scale / nominal).log2().abs() <= DRIFT_BITS
        };
        if plan_powers(powers, chain, &free).is_ok_and(|plan| plan[1..].iter().all(precise)) {
            return Ok(free);
        }
        needs(depth + 1)?;
        let below = Level(level.0 - 1);
        let nominal = chain.divisor(below);
        let constant = nominal * chain.divisor(level) / scale;
        (nominal * chain.divisor(level)).check_fits(OP, chain.log2_q(level))?;
        let stretch = Some((1.0 / radius, constant));
        Ok(Variable { level: below, scale: nominal, stretch, shift })
    }

    /// Checks that powers of values in the interval stay below the modulus.
    fn check_values(&self, chain: &Chain, powers: &[Power<Scale>]) -> Result<()> {
        let reach = self.interval.0.abs().max(self.interval.1.abs());
        // Powers of numbers up to 1 do not grow.
        if self.basis != Basis::Monomial || reach <= 1.0 {
            return Ok(());
        }
        for power in powers {
            let needed_bits = power.n as f64 * real::log2(reach) + power.scale.log2() + 1.0;
            let available_bits = chain.log2_q(power.level);
            if needed_bits > available_bits {
                return Err(Error::Circuit(format!(
                    "polynomial: x^{} up to {reach}^{0} needs {needed_bits:.0} bits at level {}, \
                     the modulus has {available_bits:.0}: use Polynomial::to_chebyshev, or \
                     scale the data down",
                    power.n, power.level
                )));
            }
        }
        Ok(())
    }
}

/// Returns middle and half-width.
fn affine(interval: (f64, f64)) -> (f64, f64) {
    let (a, b) = interval;
    // Halves first: the sum of large ends could overflow.
    (a / 2.0 + b / 2.0, b / 2.0 - a / 2.0)
}

fn check_interval(interval: &Range<f64>) -> Result<(f64, f64)> {
    let a = interval.start;
    let b = interval.end;
    if a < b && a.is_finite() && b.is_finite() {
        return Ok((a, b));
    }
    Err(Error::Circuit(format!(
        "polynomial: interval from {a} to {b}: two finite ends are needed, the lower first"
    )))
}

fn finite(values: impl Iterator<Item = f64>) -> Result<Vec<f64>> {
    let check = |(index, value): (usize, f64)| {
        let not_finite = || Error::NotFinite { index, value: value.to_string() };
        value.is_finite().then_some(value).ok_or_else(not_finite)
    };
    values.enumerate().map(check).collect()
}

fn without_negligible(mut coeffs: Vec<f64>) -> Vec<f64> {
    let largest = coeffs.iter().fold(0.0, |most: f64, c| most.max(c.abs()));
    coeffs.iter_mut().filter(|c| c.abs() < NEGLIGIBLE * largest).for_each(|c| *c = 0.0);
    coeffs
}

/// Returns node `k` of `n` Chebyshev nodes, `cos((2k + 1) pi / 2n)`. The sine form is odd in its
/// argument, so nodes come in exact pairs.
fn node(k: usize, n: usize) -> f64 {
    real::sin((n as f64 - (2 * k + 1) as f64) * PI / (2 * n) as f64)
}

/// Returns the Chebyshev coefficients of the polynomial with these values at the nodes.
fn interpolate(values: &[f64]) -> Vec<f64> {
    let n = values.len();
    let cosines: Vec<f64> = (0..4 * n).map(|i| real::cos(i as f64 * PI / (2 * n) as f64)).collect();
    let coefficient = |j: usize| {
        let cosine = |k: usize| cosines[j * (2 * k + 1) % (4 * n)];
        let sum: f64 = values.iter().enumerate().map(|(k, value)| value * cosine(k)).sum();
        if j == 0 { sum / n as f64 } else { 2.0 * sum / n as f64 }
    };
    (0..n).map(coefficient).collect()
}

/// Bounds the magnitudes of `sum coeffs[n] T_n(t)` for `t` in `[-1, 1]`, from the extrema of a
/// Chebyshev polynomial of about `finer` times the degree `n`. Between the extrema of `T_m` the
/// magnitude is larger by at most `1 / cos(pi n / 2m)` (Ehlich and Zeller, 1964).
fn largest(coeffs: &[f64], finer: usize) -> f64 {
    let degree = (coeffs.len() - 1).max(1);
    // Fewer nodes give a looser bound, which still holds.
    let nodes = (finer * degree).min(MAX_NODES.max(8 * degree));
    let angle = PI / nodes as f64;
    let values =
        (0..=nodes).map(|k| real::chebyshev_sum(coeffs, real::cos(angle * k as f64)).abs());
    values.fold(0.0, f64::max) / real::cos(angle * degree as f64 / 2.0)
}

#[cfg(test)]
mod tests;
