//! Functions in double-double arithmetic, for approximations that need more than double precision.

use core::f64::consts::LN_2;

use sudare::circuits::ckks::minimax::Dd;

/// Squarings of the argument reduction of [`exp`].
const SQUARINGS: i32 = 8;

/// Terms of its series. The first omitted term is below `2^-110` of the sum.
const TERMS: i32 = 11;

fn ln_2() -> Dd {
    Dd::from_sum(LN_2, 2.319_046_813_846_299_6e-17)
}

/// Returns `e^x = 2^k (e^(r / 2^8))^(2^8)` with `x = k ln 2 + r`, to a relative error of about
/// `2^-95`.
pub(super) fn exp(x: Dd) -> Dd {
    let k = (x.hi() / LN_2).round();
    let r = (x - Dd::from(k) * ln_2()).mul_pow2(-SQUARINGS);
    let series = (1..=TERMS).rev().fold(Dd::ONE, |sum, n| Dd::ONE + r * sum / Dd::from(n));
    let power = (0..SQUARINGS).fold(series, |power, _| power * power);
    // The cast saturates, and so does the power.
    power.mul_pow2(k as i32)
}

/// Returns the natural logarithm.
pub(super) fn ln(x: Dd) -> Dd {
    x.log2() * ln_2()
}

/// Returns `1 / (1 + e^-x)`.
pub(super) fn sigmoid(x: Dd) -> Dd {
    Dd::ONE / (Dd::ONE + exp(-x))
}

/// Returns `tanh(x)` as `1 - 2 / (1 + e^2x)`, with an absolute error of about `2^-100`.
pub(super) fn tanh(x: Dd) -> Dd {
    Dd::ONE - Dd::from(2) / (Dd::ONE + exp(x.mul_pow2(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published digits of e and ln 10, cut into two doubles.
    #[test]
    fn constants_are_exact_to_a_hundred_bits() {
        let close = |found: Dd, hi: f64, lo: f64| {
            let error = (found - Dd::from_sum(hi, lo)).to_f64().abs();
            assert!(error < 1e-29 * hi, "{error:e}");
        };
        let e = (core::f64::consts::E, 1.445_646_891_729_250_2e-16);
        close(exp(Dd::ONE), e.0, e.1);
        let ln_10 = (core::f64::consts::LN_10, -2.170_756_223_382_249_4e-16);
        close(ln(Dd::from(10)), ln_10.0, ln_10.1);
    }

    #[test]
    fn functions_satisfy_their_equations() {
        for i in -60..=60 {
            let x = Dd::from(f64::from(i) / 3.0);
            let value = exp(x);
            let inverse = exp(-x);
            assert!((value * inverse - Dd::ONE).to_f64().abs() < 1e-28);
            assert!((value.to_f64() / x.to_f64().exp() - 1.0).abs() < 1e-15);
            assert!((ln(value) - x).to_f64().abs() < 1e-28);
            assert!((sigmoid(x) + sigmoid(-x) - Dd::ONE).to_f64().abs() < 1e-29);
            assert!((tanh(x) + tanh(-x)).to_f64().abs() < 1e-29);
            assert!((tanh(x).to_f64() - x.to_f64().tanh()).abs() < 1e-15);
        }
    }
}
