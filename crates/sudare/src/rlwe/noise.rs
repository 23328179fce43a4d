use super::{Level, Params, SecretDistribution};
use crate::ring::LimbSet;
use sudare_arith::{real, sample::CBD21_VARIANCE as ERROR_VARIANCE};

/// Variance of a uniform ternary coefficient.
const TERNARY_VARIANCE: f64 = 2.0 / 3.0;

/// Variance of the error of rounding to an integer.
const ROUNDING_VARIANCE: f64 = 1.0 / 12.0;

/// The size of an error polynomial: `log2` of the standard deviation of its coefficients.
///
/// Predictions propagate variances. Errors are assumed to be centred and independent of each other
/// and of their factors. A product of polynomials sums `N` products of coefficients. Levels and
/// parameters belong to the operation; a level above the top of the chain counts as the top.
///
/// In the `N / 2` slots of CKKS the standard deviation is `sqrt(N)` times as large, divided by the
/// scale. Slots with root mean square `r` have coefficients of root mean square
/// `r scale / sqrt(N)`, sparsely packed or not.
///
/// Reference: [CHKKS18](https://eprint.iacr.org/2018/931), appendix A, which bounds the same terms
/// in the canonical embedding. Deviations: variances of coefficients instead of bounds; several
/// digits per key switch, see `docs/notes/keyswitch-noise.md`; divisions that round exactly.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Noise(f64);

impl Noise {
    /// No error.
    pub const NONE: Self = Self(f64::NEG_INFINITY);

    /// Makes an error of standard deviation `2^log2_sd`.
    #[must_use]
    pub fn from_log2_sd(log2_sd: f64) -> Self {
        Self(log2_sd)
    }

    fn from_variance(variance: f64) -> Self {
        Self(real::log2(variance) / 2.0)
    }

    /// `log2` of the standard deviation of a coefficient.
    #[must_use]
    pub fn log2_sd(self) -> f64 {
        self.0
    }

    /// Error of rounding a plaintext to integers.
    #[must_use]
    pub fn encoding() -> Self {
        Self::from_variance(ROUNDING_VARIANCE)
    }

    /// Error of a fresh encryption under a public key: `v e + e_0 + e_1 s`.
    #[must_use]
    pub fn fresh(params: &Params) -> Self {
        // The error of the key is a sum over all holders of a shared secret.
        let of_key = params.spec().secret.parties() * degree(params) * TERNARY_VARIANCE;
        Self::from_variance(ERROR_VARIANCE * (1.0 + of_key + secret_weight(params)))
    }

    /// Error of rounding both polynomials of a ciphertext: `t_0 + t_1 s`.
    #[must_use]
    pub fn rounding(params: &Params) -> Self {
        Self::from_variance(ROUNDING_VARIANCE * (1.0 + secret_weight(params)))
    }

    /// Error of a key switch at `level`: an automorphism, or a relinearisation unless the secret is
    /// shared ([`Noise::relinearization`]).
    ///
    /// `sum_j d_j e_j / P` over the digits, and the rounding of the division by `P`. The digit
    /// `d_j` of primes with product `D_j` is uniform in `(-D_j/2, D_j/2)`.
    #[must_use]
    pub fn key_switch(params: &Params, level: Level) -> Self {
        Self::switch(params, params.key_limbs(level.min(params.upper_top())))
    }

    /// Error of a key switch with a level key for `key_level`; see [`Noise::key_switch`]. A level
    /// that the key does not serve counts as `key_level`.
    #[must_use]
    pub fn level_key_switch(params: &Params, level: Level, key_level: Level) -> Self {
        let key_level = key_level.min(params.upper_top());
        let level =
            if params.levels().above(level).contains(&key_level) { level } else { key_level };
        Self::switch(params, params.limbs_of_keys(Some(key_level), level))
    }

    /// Error of a relinearisation at `level`. The key of a shared secret has the error
    /// `s e_0 + u e_1 + e_2`, where `u` and all errors are sums over the key holders.
    #[must_use]
    pub fn relinearization(params: &Params, level: Level) -> Self {
        let limbs = params.key_limbs(level.min(params.upper_top()));
        let secret = params.spec().secret;
        if !secret.is_shared() {
            return Self::switch(params, limbs);
        }
        let parties = secret.parties();
        let products = degree(params) * TERNARY_VARIANCE * (secret.pieces() + parties);
        Self::switch_of(params, limbs, ERROR_VARIANCE * parties * (products + 1.0))
    }

    fn switch(params: &Params, limbs: LimbSet) -> Self {
        Self::switch_of(params, limbs, ERROR_VARIANCE * params.spec().secret.parties())
    }

    /// Error of a switch with a key whose errors have coefficients of this variance.
    fn switch_of(params: &Params, limbs: LimbSet, variance: f64) -> Self {
        let log2_prime = |i: usize| real::log2(params.basis().modulus(limbs, i).value() as f64);
        let log2_p = params.log2_special(limbs.p());
        params.digit_primes_of(limbs).into_iter().fold(Self::rounding(params), |sum, owned| {
            sum + Self::digit(params, owned.map(log2_prime).sum::<f64>() - log2_p, variance)
        })
    }

    /// Error `d e / P` for a digit `d` uniform in `(-D/2, D/2)` with `D / P = 2^log2_ratio`, and
    /// the error `e` of a key with coefficients of this variance.
    fn digit(params: &Params, log2_ratio: f64, variance: f64) -> Self {
        Self::from_variance(degree(params) * variance / 12.0).scaled(log2_ratio)
    }

    /// Error that raising through an ephemeral secret of this weight adds to `m + q_0 I`: a key
    /// switch of one digit before and one after.
    ///
    /// The digit is uniform in `(-q_0/2, q_0/2)`. Only the rounding errors differ, because they are
    /// multiplied by different secrets.
    #[must_use]
    pub fn mod_raise(params: &Params, weight: u32) -> Self {
        let switch = Self::raising_digit(params, params.log2_q(Level(0)));
        Self::to_ephemeral(params, weight) + switch + Self::rounding(params)
    }

    /// Error of a key switch at level 0 to an ephemeral secret of this weight.
    #[must_use]
    pub fn to_ephemeral(params: &Params, weight: u32) -> Self {
        let sparse = Self::from_variance(ROUNDING_VARIANCE * (1.0 + f64::from(weight)));
        Self::raising_digit(params, params.log2_q(Level(0))) + sparse
    }

    /// Error of a key switch back from an ephemeral secret, for a digit uniform below
    /// `2^log2_digit`.
    #[must_use]
    pub fn from_ephemeral(params: &Params, log2_digit: f64) -> Self {
        Self::raising_digit(params, log2_digit) + Self::rounding(params)
    }

    fn raising_digit(params: &Params, log2_digit: f64) -> Self {
        let special = params.log2_special(params.raising_limbs(Level(0)).p());
        Self::digit(params, log2_digit - special, ERROR_VARIANCE)
    }

    /// This error after rescaling from `level >= 1`.
    #[must_use]
    pub fn rescaled(self, params: &Params, level: Level) -> Self {
        let level = level.min(params.upper_top());
        let below = Level(level.0.saturating_sub(1));
        self.scaled(params.log2_q(below) - params.log2_q(level)) + Self::rounding(params)
    }

    /// This error times an integer or any other factor of size `2^log2_factor`.
    #[must_use]
    pub fn scaled(self, log2_factor: f64) -> Self {
        Self(self.0 + log2_factor)
    }

    /// This error times an independent polynomial whose coefficients have root mean
    /// square `2^log2_rms`.
    #[must_use]
    pub fn times(self, params: &Params, log2_rms: f64) -> Self {
        self.scaled(log2_rms + f64::from(params.log_n()) / 2.0)
    }

    /// Error of the product of messages `a` and `b` with independent errors: each argument is
    /// `log2` of the root mean square of a message's coefficients, and its error. The result is
    /// `m_a e_b + m_b e_a + e_a e_b`.
    ///
    /// A plaintext operand has the error [`Noise::encoding`]. Relinearisation adds
    /// [`Noise::key_switch`].
    #[must_use]
    pub fn product(params: &Params, a: (f64, Self), b: (f64, Self)) -> Self {
        a.1.times(params, b.0) + b.1.times(params, a.0) + a.1.times(params, b.1.0)
    }

    /// Error of the product of a message with itself: `2 m e + e^2`; see [`Noise::product`].
    #[must_use]
    pub fn square(self, params: &Params, log2_rms: f64) -> Self {
        // In `e^2` the product of two different coefficients occurs twice, which doubles the
        // variance.
        self.times(params, log2_rms + 1.0) + self.times(params, self.0 + 0.5)
    }
}

/// The sum of two independent errors.
impl core::ops::Add for Noise {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let high = self.0.max(other.0);
        let low = self.0.min(other.0);
        // The difference of two infinities below would be NaN.
        if low == f64::NEG_INFINITY {
            return Self(high);
        }
        // Relative to the larger one, because the squares themselves may exceed the range of
        // doubles.
        Self(high + real::ln_1p(real::exp2(2.0 * (low - high))) / core::f64::consts::LN_2 / 2.0)
    }
}

fn degree(params: &Params) -> f64 {
    params.basis().n() as f64
}

/// Expected sum of the squares of the secret's coefficients.
fn secret_weight(params: &Params) -> f64 {
    match params.spec().secret {
        secret
        @ (SecretDistribution::UniformTernary | SecretDistribution::SharedTernary { .. }) => {
            degree(params) * TERNARY_VARIANCE * secret.pieces()
        }
        SecretDistribution::FixedWeight { h } => f64::from(h),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> Params {
        Params::new(super::super::Spec {
            log_n: 4,
            q: vec![vec![97], vec![193, 257], vec![353]],
            p: vec![12289],
            upper: None,
            extra_p: vec![],
            secret: SecretDistribution::FixedWeight { h: 7 },
            security_bits: None,
        })
        .unwrap()
    }

    #[test]
    fn sums_add_variances() {
        let sd = |noise: Noise| noise.log2_sd().exp2();
        let [three, four] = [3.0f64, 4.0].map(|x| Noise::from_log2_sd(x.log2()));
        assert!((sd(three + four) - 5.0).abs() < 1e-12);
        assert_eq!(three + Noise::NONE, three);
        assert_eq!(Noise::NONE + Noise::NONE, Noise::NONE);
        let huge = Noise::from_log2_sd(5000.0);
        assert!((huge + huge).log2_sd() - 5000.5 < 1e-9);
    }

    #[test]
    fn formulas_at_one_small_ring() {
        let p = params();
        let close = |noise: Noise, variance: f64| {
            assert!(
                (noise.log2_sd() - variance.log2() / 2.0).abs() < 1e-9,
                "{noise:?}, {variance}"
            );
        };
        let rounding = 8.0 / 12.0;
        close(Noise::rounding(&p), rounding);
        close(Noise::fresh(&p), 10.5 * (1.0 + 32.0 / 3.0 + 7.0));
        // P = 12289 holds one prime, so digits have one each.
        assert!(p.digit_primes(p.top()).iter().all(|digit| digit.len() == 1));
        let squares = |primes: &[f64]| primes.iter().map(|q| (q / 12289.0).powi(2)).sum::<f64>();
        let unit = 16.0 * 10.5 / 12.0;
        close(Noise::key_switch(&p, Level(0)), rounding + unit * squares(&[97.0]));
        let top = squares(&[97.0, 193.0, 257.0, 353.0]);
        close(Noise::key_switch(&p, Level(2)), rounding + unit * top);
        assert_eq!(Noise::key_switch(&p, Level(9)), Noise::key_switch(&p, Level(2)));
        let raised = 9.0 / 12.0 + rounding + 2.0 * unit * squares(&[97.0]);
        close(Noise::mod_raise(&p, 8), raised);
        let e = Noise::from_log2_sd(10.0);
        close(e.rescaled(&p, Level(1)), rounding + (1024.0f64 / (193.0 * 257.0)).powi(2));
        // A standard deviation of 2^10 on one side and no error on the other; messages of 2^5 and
        // 2^6.
        close(Noise::product(&p, (5.0, e), (6.0, Noise::NONE)), 16.0 * 2f64.powi(32));
        close(e.square(&p, 5.0), 16.0 * (2f64.powi(32) + 2f64.powi(41)));
    }
}
