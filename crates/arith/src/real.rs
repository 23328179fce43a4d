//! Elementary functions of real numbers, with the same bits on every platform.
//!
//! The functions of [`f64`] come from the platform's mathematical library or are evaluated by the
//! compiler, and their last bits differ. Primes, scales, levels, keys and bounds must not depend on
//! the platform, because owner and server compute the same plan separately. The library therefore
//! uses the functions of musl in Rust (the crate `libm`), and `clippy.toml` rejects the others.
//! Square roots, quotients and roundings are exact by IEEE 754 and stay methods of [`f64`].
//!
//! ```
//! use sudare_arith::real;
//!
//! assert_eq!(real::log2(1024.0), 10.0);
//! assert_eq!(real::exp2(-3.0), 0.125);
//! ```

use core::f64::consts::PI;

/// `e^x`.
#[must_use]
pub fn exp(x: f64) -> f64 {
    libm::exp(x)
}

/// `2^x`, exact for integers.
#[must_use]
pub fn exp2(x: f64) -> f64 {
    libm::exp2(x)
}

/// `e^x - 1`, precise near zero.
#[must_use]
pub fn exp_m1(x: f64) -> f64 {
    libm::expm1(x)
}

/// Natural logarithm.
#[must_use]
pub fn ln(x: f64) -> f64 {
    libm::log(x)
}

/// `ln(1 + x)`, precise near zero.
#[must_use]
pub fn ln_1p(x: f64) -> f64 {
    libm::log1p(x)
}

/// Logarithm to base 2, exact for powers of two.
#[must_use]
pub fn log2(x: f64) -> f64 {
    libm::log2(x)
}

/// `x^y`.
#[must_use]
pub fn powf(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}

/// `x^n` by squaring. `0^0` is 1.
#[must_use]
pub fn powi(x: f64, n: i32) -> f64 {
    let mut rest = n.unsigned_abs();
    let mut square = x;
    let mut product = 1.0;
    while rest != 0 {
        if rest & 1 == 1 {
            product *= square;
        }
        rest >>= 1;
        if rest != 0 {
            square *= square;
        }
    }
    if n < 0 { 1.0 / product } else { product }
}

/// Sine of an angle in radians.
#[must_use]
pub fn sin(x: f64) -> f64 {
    libm::sin(x)
}

/// Cosine of an angle in radians.
#[must_use]
pub fn cos(x: f64) -> f64 {
    libm::cos(x)
}

/// Arcsine: angle in radians, within `[-π/2, π/2]`, whose sine is `x`; NaN for `|x| > 1`.
#[must_use]
pub fn asin(x: f64) -> f64 {
    libm::asin(x)
}

/// Hyperbolic cosine.
#[must_use]
pub fn cosh(x: f64) -> f64 {
    libm::cosh(x)
}

/// Hyperbolic tangent.
#[must_use]
pub fn tanh(x: f64) -> f64 {
    libm::tanh(x)
}

/// Inverse of [`cosh`]; NaN for `x < 1`.
#[must_use]
pub fn acosh(x: f64) -> f64 {
    libm::acosh(x)
}

/// Inverse of the hyperbolic sine.
#[must_use]
pub fn asinh(x: f64) -> f64 {
    libm::asinh(x)
}

/// `sqrt(x^2 + y^2)`, without intermediate overflow.
#[must_use]
pub fn hypot(x: f64, y: f64) -> f64 {
    libm::hypot(x, y)
}

/// Iterates over the Legendre polynomials `P_0(t), P_1(t), …`, by their recurrence.
pub fn legendre(t: f64) -> impl Iterator<Item = f64> {
    let mut this = 1.0;
    let mut next = t;
    (1..).map(move |n| {
        let n = f64::from(n);
        let after = ((2.0 * n + 1.0) * t * next - n * this) / (n + 1.0);
        let value = this;
        (this, next) = (next, after);
        value
    })
}

/// Returns `sum coeffs[n] T_n(t)`, 0 without coefficients: Clenshaw, "A note on the summation of
/// Chebyshev series", Math. Tables Aids Comput. 9 (1955).
#[must_use]
pub fn chebyshev_sum(coeffs: &[f64], t: f64) -> f64 {
    let [constant, coeffs @ ..] = coeffs else { return 0.0 };
    let mut next = 0.0;
    let mut after = 0.0;
    for c in coeffs.iter().rev() {
        (next, after) = (c + 2.0 * t * next - after, next);
    }
    constant + t * next - after
}

/// Iterates over the Chebyshev polynomials of the first kind `T_0(t), T_1(t), …`.
pub fn chebyshev(t: f64) -> impl Iterator<Item = f64> {
    let mut this = 1.0;
    let mut next = t;
    core::iter::repeat_with(move || {
        let value = this;
        (this, next) = (next, 2.0 * t * next - this);
        value
    })
}

/// Nodes and weights of the `n`-point Gauss-Legendre rule on `[-1, 1]`: the roots of
/// `P_n` by Newton's method, and weights `2 / ((1 - t^2) P_n'(t)^2)`.
#[must_use]
pub fn gauss_legendre(n: usize) -> Vec<(f64, f64)> {
    let order = n as f64;
    let derivative = |t: f64| {
        let mut values = legendre(t).skip(n - 1);
        let before = values.next().unwrap_or(1.0);
        let value = values.next().unwrap_or(t);
        (value, order * (before - t * value) / (1.0 - t * t))
    };
    let mut rule = Vec::with_capacity(n);
    for i in 0..n / 2 {
        // The asymptotic root of `P_n`, close enough for Newton's method to reach each root once.
        let mut t = cos((i as f64 + 0.75) * PI / (order + 0.5));
        for _ in 0..8 {
            let (value, slope) = derivative(t);
            t -= value / slope;
        }
        let (_, slope) = derivative(t);
        let weight = 2.0 / ((1.0 - t * t) * slope * slope);
        rule.extend([(t, weight), (-t, weight)]);
    }
    if n % 2 == 1 {
        let (_, slope) = derivative(0.0);
        rule.push((0.0, 2.0 / (slope * slope)));
    }
    rule
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quadrature_is_exact_to_twice_its_order() {
        for n in [1, 2, 5, 64] {
            let rule = gauss_legendre(n);
            assert_eq!(rule.len(), n);
            for power in [0, 1, 2, n as i32, 2 * n as i32 - 2, 2 * n as i32 - 1] {
                let exact = if power % 2 == 1 { 0.0 } else { 2.0 / f64::from(power + 1) };
                let sum: f64 = rule.iter().map(|&(t, w)| w * powi(t, power)).sum();
                assert!((sum - exact).abs() < 1e-13 || power >= 2 * n as i32, "{n}, {power}");
            }
        }
    }
    use crate::{
        dd::Dd,
        prng::{Seed, Stream},
    };

    const DRAWS: usize = 4000;

    /// Numbers within `-reach..reach`, most of them near zero.
    fn arguments(label: &str, reach: f64) -> Vec<f64> {
        let mut stream = Stream::new(&Seed::from_bytes([7; 32]), label, 0);
        let mut unit = || (stream.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        (0..DRAWS).map(|_| (2.0 * unit() - 1.0) * unit() * unit() * reach).collect()
    }

    /// Units in the last place between a number and its exact value.
    fn ulps(found: f64, exact: Dd) -> f64 {
        let place = f64::from_bits(exact.hi().abs().to_bits() + 1) - exact.hi().abs();
        ((Dd::from(found) - exact).to_f64() / place).abs()
    }

    #[test]
    fn logarithms_and_angles_agree_with_double_words() {
        let ln_2 = Dd::from_sum(core::f64::consts::LN_2, 2.319_046_813_846_299_6e-17);
        let turn = Dd::PI.mul_pow2(1);
        for x in arguments("logarithms", 1e6) {
            let positive = Dd::from(x.abs() + 1e-300);
            assert!(ulps(log2(positive.hi()), positive.log2()) < 1.0, "{x}");
            assert!(ulps(ln(positive.hi()), positive.log2() * ln_2) < 1.0, "{x}");
            let small = x / 1e6;
            let above = Dd::from(1.0) + Dd::from(small);
            assert!((Dd::from(ln_1p(small)) - above.log2() * ln_2).to_f64().abs() < 1e-16, "{x}");
            let (sine, cosine) = (Dd::from(small) / turn).sin_cos_turns();
            assert!(ulps(sin(small), sine) < 1.0 && ulps(cos(small), cosine) < 1.0, "{x}");
            assert!(ulps(asin(small), Dd::from(small).asin_turns() * turn) < 1.0, "{x}");
        }
    }

    #[test]
    fn powers_are_inverse_to_logarithms() {
        let log2_e = Dd::from_sum(core::f64::consts::LOG2_E, 2.035_527_374_093_103_3e-17);
        for x in arguments("powers", 300.0) {
            let near = |found: f64, exact: Dd| {
                // A relative error of half an ulp of a power is an absolute error of this size in
                // its logarithm.
                (Dd::from(found).log2() - exact).to_f64().abs() < 1.5 * f64::EPSILON
            };
            assert!(near(exp2(x), Dd::from(x)), "{x}");
            assert!(near(exp(x), Dd::from(x) * log2_e), "{x}");
            assert!(near(powf(3.5, x), Dd::from(3.5).log2() * Dd::from(x)), "{x}");
            let n = (x / 30.0) as i32;
            assert_eq!(powi(2.0, n), exp2(f64::from(n)));
            assert!(ulps(powi(1.7, n), Dd::from(1.7).powi(n)) < 8.0, "{n}");
        }
        assert_eq!((powi(0.0, 0), powf(2.0, 0.5)), (1.0, core::f64::consts::SQRT_2));
    }

    #[test]
    fn hyperbolic_functions_follow_from_powers() {
        for x in arguments("hyperbolic", 20.0) {
            let close = |found: f64, exact: f64| (found - exact).abs() <= 4e-16 * exact.abs();
            let up = exp(x);
            let down = exp(-x);
            assert!(close(cosh(x), (up + down) / 2.0), "{x}");
            assert!((tanh(x) - (up - down) / (up + down)).abs() < 3e-16, "{x}");
            assert!((exp_m1(x) - (up - 1.0)).abs() < 4e-16 * (1.0 + up), "{x}");
            // Only where the slope does not amplify the error of the argument.
            if x.abs() > 1.0 {
                assert!(close(acosh(cosh(x)), x.abs()), "{x}");
            }
            assert!((asinh((up - down) / 2.0) - x).abs() < 1e-15 * (1.0 + x.abs()), "{x}");
            assert!(close(hypot(3.0 * x, 4.0 * x), 5.0 * x.abs()), "{x}");
        }
    }

    /// The bits are the same on every platform: `make portable` runs this test on others.
    #[test]
    fn bits_are_known() {
        let mut hasher = blake3::Hasher::new();
        for x in arguments("bits", 40.0) {
            let positive = x.abs() + 1e-3;
            let unit = x / 40.0;
            let found = [
                exp(x),
                exp2(x),
                exp_m1(x),
                ln(positive),
                ln_1p(positive),
                log2(positive),
                powf(positive, x / 4.0),
                powi(x, 7),
                sin(x),
                cos(x),
                asin(unit),
                cosh(x),
                tanh(x),
                acosh(1.0 + positive),
                asinh(x),
                hypot(x, unit),
            ];
            for y in found {
                hasher.update(&y.to_bits().to_le_bytes());
            }
        }
        let expected = "0381b6369954820ed70702ad275514123fd9f702caf1e3fd32e3ba21121cf974";
        assert_eq!(hasher.finalize().to_hex().as_str(), expected);
    }
}
