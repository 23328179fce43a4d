//! Texts about secrets, sizes of primes and estimated security.

use sudare::rlwe::{KeySecurity, SecretDistribution};
pub use sudare_roles::plan::security::{key_security, least_security};

/// Describes the distribution of a secret.
pub fn secret_name(secret: SecretDistribution) -> String {
    match secret {
        SecretDistribution::UniformTernary => "uniform ternary".into(),
        SecretDistribution::FixedWeight { h } => format!("ternary of weight {h}"),
        SecretDistribution::SharedTernary { parties, pieces } => {
            format!("sum of {pieces} ternary pieces of {parties} key holders")
        }
    }
}

/// Lists the estimated security of each key.
pub fn security_of_keys(keys: &[KeySecurity]) -> String {
    let text = |key: &KeySecurity| {
        format!("{} {:.1} bits (modulus 2^{:.1})", key.what, key.security_bits, key.log2_q)
    };
    keys.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Lists sizes of primes, equal sizes together.
pub fn sizes(bits: &[f64]) -> String {
    let run = bits.chunk_by(|a, b| a == b);
    let rounded = |bits: f64| (1e4 * bits).round() / 1e4;
    let text = |run: &[f64]| Some(format!("{} x {}", run.len(), rounded(*run.first()?)));
    run.filter_map(text).collect::<Vec<_>>().join(" + ")
}
