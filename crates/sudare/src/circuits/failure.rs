use core::f64::consts::{LOG2_E, TAU};
use sudare_arith::{dd::Dd, real};

/// Maximum number of variables of sums that are computed exactly.
const MAX_EXACT_TERMS: u32 = 2049;

/// `log2` of the smallest probability that is distinguished.
const LOG2_LEAST: f64 = -900.0;

/// Returns `log2` of a bound of the probability that any of `coefficients` sums exceeds `size` in
/// magnitude. Each is a sum of `terms` independent variables, uniform on `[-1/2, 1/2]`. The union
/// bound multiplies the probability of one sum, so sums may depend on each other.
///
/// The sum has the distribution of Irwin and Hall (Bossuat, Troncoso-Pastoriza, Hubaux,
/// [2022/024](https://eprint.iacr.org/2022/024), equation 1). More than 2049 terms use the
/// saddle-point formula of Lugannani and Rice. Its relative error in the probability is about one
/// over the number of terms. Within one standard deviation it returns the probability 1.
///
/// The result is between minus infinity, if the sum cannot exceed `size`, and 0. Probabilities
/// below `2^-900` per coefficient count as that value.
#[must_use]
pub fn log2_exceeds(terms: u32, size: f64, coefficients: u64) -> f64 {
    // A term is at most 1/2 in magnitude.
    if coefficients == 0 || f64::from(terms) <= 2.0 * size {
        return f64::NEG_INFINITY;
    }
    let log2_tail = match terms <= MAX_EXACT_TERMS {
        true => log2_exact(terms, size),
        false => log2_saddle(terms, size),
    };
    // Twice the tail, for both signs.
    let one = (1.0 + log2_tail).max(LOG2_LEAST);
    (one + log2(coefficients as f64)).min(0.0)
}

/// Returns `log2 Pr[sum > k]`, by the distribution function of `n` uniforms on `[0, 1]`,
/// `n F_n(x) = x F_(n-1)(x) + (n - x) F_(n-1)(x - 1)`. All its terms are positive, so there is no
/// cancellation.
fn log2_exact(terms: u32, k: f64) -> f64 {
    let n = terms as usize;
    // Pr[sum > k] = F_n(n/2 - k).
    let x = n as f64 / 2.0 - k;
    let step = |m: usize, at: f64, here: f64, below: f64| {
        let m = m as f64;
        if at >= m { 1.0 } else { (at * here + (m - at) * below) / m }
    };
    // Entry j is F_m(x - j), for x - j > 0.
    let count = x.ceil() as usize;
    let mut row: Vec<f64> = (0..count).map(|j| (x - j as f64).min(1.0)).collect();
    for m in 2..=n {
        for j in 0..count {
            let below = row.get(j + 1).copied().unwrap_or(0.0);
            row[j] = step(m, x - j as f64, row[j], below);
        }
    }
    log2(row.first().copied().unwrap_or(0.0))
}

/// Returns `log2 Pr[sum > k]` by the saddle point `t` of `K(t) - kt`,
/// `K(t) = n log(2 sinh(t/2) / t)`: Lugannani, Rice, "Saddle point approximation for the
/// distribution of the sum of independent random variables", Adv. Appl. Prob. 12, 1980.
fn log2_saddle(terms: u32, k: f64) -> f64 {
    let n = f64::from(terms);
    // Within one standard deviation the formula cancels. This bound makes the probability 1.
    if k * k <= n / 12.0 {
        return -1.0;
    }
    // K' rises from 0 to n/2.
    let slope = |t: f64| n * (0.5 / real::tanh(t / 2.0) - 1.0 / t);
    let mut low = 0.0;
    let mut high = 1.0;
    // For `k` next to `n/2` no double is large enough, because the slope only approaches `n/2`.
    while slope(high) < k && high < 1e9 {
        high *= 2.0;
    }
    // 100 halvings exhaust the precision of an `f64`.
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        *(if slope(middle) < k { &mut low } else { &mut high }) = middle;
    }
    let t = high;
    // sinh(t/2) = e^(t/2) (1 - e^-t) / 2 does not overflow.
    let log_ratio = t / 2.0 + real::ln(-real::exp_m1(-t) / t);
    let exponent = t * k - n * log_ratio;
    let w = (2.0 * exponent).sqrt();
    let csch = 2.0 * real::exp(-t / 2.0) / -real::exp_m1(-t);
    let u = t * (n * (1.0 / (t * t) - csch * csch / 4.0)).sqrt();
    // The normal tail is its density times Mills' ratio, a continued fraction.
    let mills = 1.0 / (1..=400).rev().fold(w, |rest, i| w + f64::from(i) / rest);
    let log_density = -exponent - 0.5 * real::ln(TAU);
    (log_density + real::ln(mills + 1.0 / u - 1.0 / w)) * LOG2_E
}

fn log2(x: f64) -> f64 {
    Dd::from(x).log2().to_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigInt;
    use sudare_arith::prng::{Seed, Stream};

    /// Returns `log2 Pr[|sum| > k]` by the alternating sum in integers,
    /// `2 sum_j (-1)^j C(n, j) (n - 2k - 2j)^n / (2^n n!)`.
    fn big_log2_tail(h: u32, k: u32) -> f64 {
        let n = h + 1;
        let mut sum = BigInt::ZERO;
        let mut binomial = BigInt::from(1);
        for j in (0..n).take_while(|j| n > 2 * k + 2 * j) {
            let term = &binomial * BigInt::from(n - 2 * k - 2 * j).pow(n);
            sum += if j % 2 == 0 { term } else { -term };
            binomial = binomial * (n - j) / (j + 1);
        }
        let whole: BigInt = (1..=n).fold(BigInt::from(1) << n, |product, i| product * i);
        big_log2(&(sum * 2)) - big_log2(&whole)
    }

    fn big_log2(x: &BigInt) -> f64 {
        let shift = x.bits().saturating_sub(60);
        let top = u64::try_from(x >> shift).unwrap();
        (top as f64).log2() + shift as f64
    }

    #[test]
    fn equals_the_alternating_sum() {
        for h in [0, 1, 2, 3, 7, 32, 33, 48, 64, 192, 257] {
            for k in (0..=h / 2).step_by(1 + h as usize / 40) {
                let exact = big_log2_tail(h, k);
                if exact > LOG2_LEAST {
                    let found = log2_exact(h + 1, f64::from(k)) + 1.0;
                    assert!((found - exact).abs() < 1e-11 + 1e-12 * exact.abs(), "{h} {k}");
                    assert!(
                        (log2_exceeds(h + 1, f64::from(k), 1) - exact.min(0.0)).abs() < 1e-9,
                        "{h} {k}"
                    );
                } else {
                    assert_eq!(log2_exceeds(h + 1, f64::from(k), 1), LOG2_LEAST);
                }
            }
        }
    }

    /// Compares with the alternating sum in rational numbers.
    #[test]
    fn sizes_between_integers() {
        for (size, expected) in [(15.9375, -149.1), (15.5, -121.7), (7.25, -17.1)] {
            let found = log2_exceeds(33, size, 1);
            assert!((found - expected).abs() < 0.06, "{size}: {found}");
        }
    }

    /// Values for `h + 1` uniforms, to a tenth of a bit, for all `2^16` coefficients.
    #[test]
    fn known_values() {
        for (h, k, log2) in [
            (32, 12, -34.1),
            (32, 14, -62.1),
            (32, 16, -138.7),
            (48, 18, -59.3),
            (48, 19, -71.1),
            (64, 22, -64.7),
        ] {
            let found = log2_exceeds(h + 1, f64::from(k), 1 << 16);
            assert!((found - log2).abs() <= 0.051, "{h} {k}: {found}");
        }
    }

    #[test]
    fn saddle_point_is_near_the_exact_value() {
        for (h, ks) in
            [(192, &[8, 25, 60, 90][..]), (1000, &[12, 60, 200]), (2048, &[20, 100, 300])]
        {
            for &k in ks {
                let found = log2_saddle(h + 1, f64::from(k));
                let exact = log2_exact(h + 1, f64::from(k));
                assert!((found - exact).abs() < 2.0 / f64::from(h), "{h} {k}: {found} {exact}");
            }
        }
        // The two formulas agree at the switch between them.
        let around = |k| log2_exceeds(2050, k, 1) - log2_exceeds(2049, k, 1);
        assert!((0.0..0.1).contains(&around(100.0)), "{}", around(100.0));
    }

    /// The same formula evaluated with 200 bits. Uniform ternary secrets at `N = 2^16` have a
    /// weight near 43690.
    #[test]
    fn dense_secrets() {
        for (h, k, log2) in [
            (43690, 325, -23.7290119951),
            (43690, 512, -55.3750315397),
            (43690, 600, -74.9936779396),
            (43690, 800, -130.91152463),
            (32768, 100, -4.16704407192),
        ] {
            let found = log2_exceeds(h + 1, f64::from(k), 1);
            assert!((found - log2).abs() < 1e-7, "{h} {k}: {found}");
        }
    }

    /// Compares with sums drawn at random, and with multiples of the modulus in ciphertexts under a
    /// secret of that weight.
    #[test]
    fn agrees_with_experiments() {
        const TRIALS: u32 = 200_000;
        let mut stream = Stream::new(&Seed::from_bytes([7; 32]), "failure", 0);
        let mut uniform = || (stream.next_u64() >> 11) as f64 / 2f64.powi(53) - 0.5;
        for (h, k) in [(4, 1), (16, 2), (32, 3), (32, 4)] {
            let mut sums = 0;
            let mut multiples = 0;
            for _ in 0..TRIALS {
                let product: f64 = (0..h).map(|_| uniform()).sum();
                sums += u32::from((product + uniform()).abs() > f64::from(k));
                // c0 = m - c1 s, reduced.
                let message = uniform() / 32.0;
                let reduced = (message - product) - (message - product).round();
                let multiple = (reduced + product - message).round();
                multiples += u32::from(multiple.abs() > f64::from(k));
            }
            let p = log2_exceeds(h + 1, f64::from(k), 1).exp2();
            let mean = p * f64::from(TRIALS);
            let deviation = (p * f64::from(TRIALS)).sqrt();
            assert!((f64::from(sums) - mean).abs() < 4.0 * deviation, "{h} {k}: {sums} {mean}");
            assert!(f64::from(multiples) <= mean + 4.0 * deviation, "{h} {k}: {multiples} {mean}");
        }
    }

    #[test]
    fn limits() {
        assert_eq!(log2_exceeds(33, 16.0, 0), f64::NEG_INFINITY);
        assert_eq!(log2_exceeds(33, 17.0, 1 << 20), f64::NEG_INFINITY);
        assert_eq!(log2_exceeds(1, 1e9, 1), f64::NEG_INFINITY);
        assert_eq!(log2_exceeds(33, 0.0, u64::MAX), 0.0);
        assert_eq!(log2_exceeds(u32::MAX, 0.0, 1), 0.0);
        assert_eq!(log2_exceeds(u32::MAX, f64::from(u32::MAX / 2), 1), LOG2_LEAST);
        assert!((log2_exceeds(33, 14.0, 4) - log2_exceeds(33, 14.0, 1) - 2.0).abs() < 1e-12);
    }
}
