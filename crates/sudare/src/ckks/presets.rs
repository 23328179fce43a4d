//! Named parameter sets.

use super::{Params, Spec};
#[cfg(doc)]
use crate::Error;
use crate::{
    Result,
    rlwe::{SecretDistribution, named},
};

/// A named parameter set, as in its source.
#[derive(Debug, Clone, PartialEq)]
pub struct Preset {
    /// Name to pass to `preset`.
    pub name: String,
    /// Purpose, in one line.
    pub summary: String,
    /// Publication and table that the set was checked against, or the rule that it follows.
    pub source: String,
    /// The parameters.
    pub spec: Spec,
}

impl Params {
    /// Makes the named set, such as `"n13"`: `Params::new(preset(name)?.spec)`.
    ///
    /// # Errors
    /// [`Error::UnknownPreset`], with the names of all sets; the errors of [`Params::new`].
    pub fn preset(name: &str) -> Result<Self> {
        Self::new(preset(name)?.spec)
    }
}

/// Returns the set named `name`.
///
/// # Errors
/// [`Error::UnknownPreset`], which lists the existing names.
pub fn preset(name: &str) -> Result<Preset> {
    named(presets(), name, |preset| &preset.name)
}

/// Returns every named set.
///
/// `n13` to `n16` have the most levels of 40 bits for which the ring keeps 128 bits of security
/// with at most four key-switching digits. Special primes are part of the modulus that security is
/// estimated at. Fewer special primes mean more digits, which make every key larger and every key
/// switch slower. With one special prime `n16` would have 41 levels and keys of 1.3 GB each. The
/// remaining bits make the special primes exceed the largest digit, so that key switching costs
/// little or no precision.
#[must_use]
pub fn presets() -> Vec<Preset> {
    let mut all = vec![
        leveled(13, 46.0, 3, vec![47.8]),
        leveled(14, 50.0, 7, vec![48.0; 2]),
        leveled(15, 50.0, 15, vec![48.0; 4]),
        leveled(16, 50.0, 33, vec![47.1; 8]),
        Preset {
            name: "n16-d24".into(),
            summary: "24 levels of 45 bits, dnum 3; 128 bits".into(),
            source: "sized for comparisons with other libraries".into(),
            spec: Spec::uniform(16, 48.0, 24, 45.0, vec![48.0; 9]),
        },
        Preset {
            name: "bench-n15-q610".into(),
            summary: "12 levels of 46.8 bits, log2 Q 610, dnum 3; 128 bits".into(),
            source: "sized for comparisons with other libraries".into(),
            spec: Spec::uniform(15, 48.0, 12, 46.8, vec![48.0; 5]),
        },
    ];
    all.extend([functions(), stats()]);
    for (name, log_n, levels, log2_scale, table) in [
        ("5", 15, 5, 55.0, "Table 1, L = 5"),
        ("10", 15, 10, 55.0, "Table 1, L = 10"),
        ("15", 16, 15, 55.0, "Table 1, L = 15"),
        ("stats", 14, 2, 55.0, "Table 3, log2 Q 171"),
        ("functions", 14, 4, 55.0, "Table 2, log2 Q 281"),
        ("logreg", 16, 25, 40.0, "Table 4, log2 Q 1061"),
    ] {
        all.push(full_rns(name, log_n, levels, log2_scale, table));
    }
    for k in [1, 5, 10] {
        for levels in [1, 4, 9] {
            all.push(trace(k, levels));
        }
    }
    all
}

/// Makes a set for leveled circuits. The base prime leaves 6 bits above the scale at `N = 2^13`,
/// and 10 bits otherwise, for the integer part of results and their sign.
fn leveled(log_n: u32, base_bits: f64, levels: usize, p_bits: Vec<f64>) -> Preset {
    Preset {
        name: format!("n{log_n}"),
        summary: format!("{levels} levels of 40 bits, dnum 4; 128 bits"),
        source: "Bossuat et al., \"Security Guidelines for Implementing Homomorphic \
                 Encryption\" (ePrint 2024/463), Table 5.2: the largest modulus at 128 bits"
            .into(),
        spec: Spec::uniform(log_n, base_bits, levels, 40.0, p_bits),
    }
}

/// The smallest ring with `2^13` slots and four levels of 49.8 bits, enough for a polynomial of
/// degree 15. Each level is one prime of the fast kernels. The 24 bits on top are rescaled away
/// first, and the noise of encryption with them.
fn functions() -> Preset {
    let mut spec = Spec::uniform(14, 50.0, 4, 49.8, vec![50.0; 2]);
    spec.q_bits.push(vec![24.0]);
    Preset {
        name: "functions-n14".into(),
        summary: "inverse, exponential and sigmoid of 2^13 slots to 32 bits; 128 bits".into(),
        source: "sized for the functions of fullrns-functions".into(),
        spec,
    }
}

/// The smallest ring with `2^13` slots. Level 0 has 50 bits: sums of `2^13` numbers at a scale of
/// 35 bits need 48 and a sign. With the 49 bits of level 1, a squared sum also fits after
/// rescaling.
fn stats() -> Preset {
    Preset {
        name: "stats-n14".into(),
        summary: "mean and variance of 2^13 numbers; 128 bits".into(),
        source: "sized for the statistics of fullrns-stats".into(),
        spec: Spec {
            q_bits: vec![vec![50.0], vec![49.0]],
            ..Spec::uniform(14, 50.0, 0, 35.0, vec![50.0])
        },
    }
}

/// One digit, as in the paper's multiplication (section 4): `P` covers `Q`. The paper does not
/// state the number of special primes. These have the size of `q_0`.
fn full_rns(name: &str, log_n: u32, levels: usize, log2_scale: f64, table: &str) -> Preset {
    const BASE_BITS: f64 = 61.0;
    let log2_q = BASE_BITS + levels as f64 * log2_scale;
    let special = (log2_q / BASE_BITS).ceil() as usize;
    Preset {
        name: format!("fullrns-{name}"),
        summary: format!(
            "reproduction: {levels} levels of {log2_scale} bits, h = 64, dnum 1; under 128 bits"
        ),
        source: format!(
            "Cheon, Han, Kim, Kim, Song, \"A Full RNS Variant of Approximate Homomorphic \
             Encryption\" (SAC 2018, ePrint 2018/931), {table}"
        ),
        spec: Spec {
            secret: SecretDistribution::FixedWeight { h: 64 },
            insecure: true,
            ..Spec::uniform(log_n, BASE_BITS, levels, log2_scale, vec![BASE_BITS; special])
        },
    }
}

/// `k` special primes, digits of `k` primes. The thesis does not state the sizes of the base and
/// special primes; these keep 128 bits of security.
fn trace(k: usize, levels: usize) -> Preset {
    let special_bits = if k == 1 { 50.0 } else { 43.0 };
    Preset {
        name: format!("trace-k{k}-l{levels}"),
        summary: format!("{levels} level(s) of 40 bits, {k} special prime(s); 128 bits"),
        source: "Inoue, master's thesis on trace-type functions with AVX-512 (Waseda \
                 University, 2022, in Japanese), section 5.2.1: N = 2^15, scale 2^40, level l in \
                 {1, 4, 9}, special primes k in {1, 5, 10}"
            .into(),
        spec: Spec::uniform(15, 47.0, levels, 40.0, vec![special_bits; k]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, ckks::Params, rlwe::Level};

    fn build(name: &str) -> Params {
        Params::new(preset(name).unwrap().spec).unwrap()
    }

    /// Checks `log_n`, levels, `dnum`, and the nearest whole bit of `log2 Q` and security.
    fn assert_shape(name: &str, log_n: u32, levels: u32, dnum: usize, log2_q: f64) -> Params {
        let params = build(name);
        let rlwe = params.rlwe();
        assert_eq!((params.log_n(), params.top(), rlwe.digits(params.top())), {
            (log_n, Level(levels), dnum)
        });
        assert!((rlwe.log2_q(params.top()) - log2_q).abs() < 0.5, "{name}");
        params
    }

    /// Checks that one more level, with the fewest special primes that keep four digits, is
    /// rejected.
    fn next_level_is_refused(name: &str) {
        let Preset { spec, .. } = preset(name).unwrap();
        let base = spec.q_bits[0][0];
        let levels = spec.q_bits.len();
        let alpha = (levels + 1).div_ceil(4);
        let log2_p = base + 40.0 * (alpha - 1) as f64;
        let special = (log2_p / 50.0).ceil();
        let p_bits = vec![log2_p / special; special as usize];
        let deeper = Spec::uniform(spec.log_n, base, levels, 40.0, p_bits);
        assert!(matches!(Params::new(deeper), Err(Error::Insecure { .. })), "{name}");
    }

    fn base_bits(params: &Params) -> f64 {
        params.rlwe().log2_q(Level(0))
    }

    fn assert_leveled(log_n: u32, levels: u32, log2_q: f64) {
        let name = format!("n{log_n}");
        let params = assert_shape(&name, log_n, levels, 4, log2_q);
        assert!(params.rlwe().security_bits() >= 128.0);
        assert_eq!(params.spec().log2_scale, 40.0);
        assert!(base_bits(&params) > 45.9);
        let widest = params.rlwe().digit_primes(params.top())[0].len();
        let largest_digit = base_bits(&params) + 40.0 * (widest - 1) as f64;
        assert!(params.rlwe().log2_p() > largest_digit + 1.5, "{name}");
        let scale = params.scale_at(Level(0)).log2();
        assert!((scale - 40.0).abs() < 0.01, "{name}: 2^{scale}");
        next_level_is_refused(&name);
    }

    #[test]
    fn n13_is_as_deep_as_it_can_be() {
        assert_leveled(13, 3, 166.0);
    }

    #[test]
    fn n14_is_as_deep_as_it_can_be() {
        assert_leveled(14, 7, 330.0);
    }

    #[test]
    fn n15_is_as_deep_as_it_can_be() {
        assert_leveled(15, 15, 650.0);
    }

    #[test]
    fn n16_is_as_deep_as_it_can_be() {
        assert_leveled(16, 33, 1370.0);
    }

    #[test]
    fn benchmark_sets_have_their_sizes() {
        for (name, log_n, levels, dnum, log2_q) in
            [("n16-d24", 16, 24, 3, 1128.0), ("bench-n15-q610", 15, 12, 3, 610.0)]
        {
            let params = assert_shape(name, log_n, levels, dnum, log2_q);
            assert!(params.rlwe().security_bits() >= 128.0);
        }
    }

    #[test]
    fn job_sets_are_small_and_secure() {
        for (name, levels, dnum, log2_q) in
            [("functions-n14", 5, 3, 273.0), ("stats-n14", 1, 2, 99.0)]
        {
            let params = assert_shape(name, 14, levels, dnum, log2_q);
            assert!(params.rlwe().security_bits() >= 128.0);
        }
    }

    /// Compares the sizes with the paper's tables. Security is not compared.
    #[test]
    fn full_rns_sets_reproduce_the_tables() {
        for (name, log_n, levels, log2_q) in [
            ("fullrns-5", 15, 5, 336.0),
            ("fullrns-10", 15, 10, 611.0),
            ("fullrns-15", 16, 15, 886.0),
            ("fullrns-stats", 14, 2, 171.0),
            ("fullrns-functions", 14, 4, 281.0),
            ("fullrns-logreg", 16, 25, 1061.0),
        ] {
            let params = assert_shape(name, log_n, levels, 1, log2_q);
            let bits = params.rlwe().security_bits();
            assert!(bits > 30.0 && bits < 128.0, "{name}: {bits}");
            assert_eq!(params.spec().secret, SecretDistribution::FixedWeight { h: 64 });
            assert!(params.spec().insecure);
        }
    }

    #[test]
    fn trace_sets_have_digits_of_k_primes() {
        for k in [1, 5, 10] {
            for levels in [1, 4, 9] {
                let name = format!("trace-k{k}-l{levels}");
                let chain = levels as usize + 1;
                let log2_q = 47.0 + 40.0 * f64::from(levels);
                let params = assert_shape(&name, 15, levels, chain.div_ceil(k), log2_q);
                assert_eq!(params.spec().p_bits.len(), k);
                assert!(params.rlwe().security_bits() >= 128.0, "{name}");
            }
        }
    }

    #[test]
    fn names_differ_and_unknown_ones_are_refused() {
        let all = presets();
        for (i, preset) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|other| other.name != preset.name), "{}", preset.name);
            assert!(!preset.summary.is_empty() && !preset.source.is_empty());
        }
        let error = preset("n12").unwrap_err();
        assert!(matches!(&error, Error::UnknownPreset { name, .. } if name == "n12"));
        assert!(error.to_string().contains("n16-d24"), "{error}");
    }
}
