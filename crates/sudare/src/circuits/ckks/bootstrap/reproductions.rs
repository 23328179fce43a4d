//! Sets of publications, as close to the printed values as one pipeline allows.
//!
//! All bootstrap under a sparse main secret, CoeffsToSlots first, as the publications do. The
//! publications print the size of `Q` but not the sizes of the special primes, which are chosen
//! here. Sizes of slots follow from the plan: a coefficient may be as large as
//! `q_0 / (scale 2^log2_ratio)`, the integer bits that "Bootstrapping on SEAL" prints.

use super::{BootstrapPreset, BootstrapSpec, Order, Values, preset::full_ring};
use crate::{
    circuits::ckks::{EvalModSpec, ModMethod},
    ckks::Spec,
    rlwe::SecretDistribution,
};

/// A size slightly below the largest primes of the fast kernels.
const FAST_BITS: f64 = 49.9;

/// `log2` of the factor by which the special primes exceed the largest digit. Key switching then
/// adds less than rounding does under a sparse secret.
const MARGIN_BITS: f64 = 10.0;

pub(super) fn reproductions() -> Vec<BootstrapPreset> {
    let mut all = vec![full_rns(), thesis()];
    all.extend(SEAL.iter().zip(1..).map(|(set, number)| set.preset(number)));
    all
}

/// Sizes of primes in each part of a chain, from the bottom.
struct Chain {
    base_bits: f64,
    /// Size of messages and of every level outside the reduction and the stages before it.
    log2_scale: f64,
    /// Number of levels of that size, including SlotsToCoeffs.
    low: usize,
    /// Size of the levels of the reduction after its first polynomial.
    middle_bits: f64,
    /// Size of the levels of that polynomial and CoeffsToSlots.
    high_bits: f64,
    /// Number of digits of key switching.
    digits: usize,
    /// Number of nonzero coefficients of the secret.
    h: u32,
}

impl Chain {
    fn spec(self, bootstrap: &BootstrapSpec) -> Spec {
        let (middle, high) = upper_levels(bootstrap);
        let levels = [
            (&[self.base_bits][..], 1),
            (&[self.log2_scale], self.low),
            (&[self.middle_bits], middle),
            (&[self.high_bits], high),
        ];
        let spec = full_ring(bootstrap, self.log2_scale, &levels);
        let chain = spec.q_bits.concat();
        let digits = chain.chunks(chain.len().div_ceil(self.digits));
        let largest = digits.map(|digit| digit.iter().sum()).fold(0.0, f64::max);
        let p = (largest + MARGIN_BITS) / FAST_BITS;
        Spec {
            p_bits: vec![p / p.ceil() * FAST_BITS; p.ceil() as usize],
            secret: SecretDistribution::FixedWeight { h: self.h },
            insecure: true,
            ..spec
        }
    }
}

/// Returns the levels of the reduction after its first polynomial, and the levels of that
/// polynomial and CoeffsToSlots.
fn upper_levels(bootstrap: &BootstrapSpec) -> (usize, usize) {
    let reduction = &bootstrap.eval_mod;
    let (ModMethod::Cosine { degree, .. } | ModMethod::Exponential { degree, .. }) =
        reduction.method;
    let polynomial = degree.ilog2() as usize + 1;
    let depth = reduction.depth().unwrap_or(0) as usize;
    (depth.saturating_sub(polynomial), polynomial + bootstrap.coeffs_to_slots.len())
}

/// Makes a specification with all slots, complex, CoeffsToSlots first, without an ephemeral secret.
fn bootstrap(to_slots: &[u32], to_coeffs: &[u32], eval_mod: EvalModSpec) -> BootstrapSpec {
    BootstrapSpec {
        log_slots: 15,
        order: Order::CoeffsToSlotsFirst,
        values: Values::Complex,
        ephemeral_weight: None,
        coeffs_to_slots: to_slots.to_vec(),
        slots_to_coeffs: to_coeffs.to_vec(),
        eval_mod,
        correction: false,
        refinement: None,
    }
}

/// Section 5: `q_0` of 61 bits, 32 levels of 55, `h = 64`, `r = 8` squarings, radix 8. The degree
/// of the exponential's polynomial is 7, as in the HEAAN library that the paper follows. The
/// special primes keep the 80 bits of security that the paper requires.
fn full_rns() -> BootstrapPreset {
    let eval_mod = EvalModSpec {
        k: 22,
        log2_ratio: 6.0,
        method: ModMethod::Exponential { degree: 7, squarings: 8 },
        inverse_sine: None,
    };
    let bootstrap = bootstrap(&[3; 5], &[3; 5], eval_mod);
    let (middle, high) = upper_levels(&bootstrap);
    let chain = Chain {
        base_bits: 61.0,
        log2_scale: 55.0,
        low: 32 - middle - high,
        middle_bits: 55.0,
        high_bits: 55.0,
        digits: 7,
        h: 64,
    };
    BootstrapPreset::new(
        "fullrns-boot",
        "reproduction: bootstrapping of 2^15 complex slots by an exponential, 32 \
         levels of 55 bits, h = 64; 80 bits",
        "Akimoto, Sakuma, \"Speed-up of RNS type approximate homomorphic encryption \
         by parallel processing: bootstrapping in less than 1 ms\" (in Japanese), \
         section 5 and Tables 1 and 2",
        chain.spec(&bootstrap),
        bootstrap,
        21.2,
    )
}

/// Section 4.3.3: `q_0` of 41 bits, `log2 Q` 1240, scale `2^31`, `h = 64`, `r = 7` and radix 32.
/// Levels of CoeffsToSlots and the reduction have 45 bits instead of the scale's 31: a level of
/// primes has a single size, and 31 bits lose the angle.
fn thesis() -> BootstrapPreset {
    let eval_mod = EvalModSpec {
        k: 22,
        log2_ratio: 9.9,
        method: ModMethod::Exponential { degree: 15, squarings: 7 },
        inverse_sine: None,
    };
    let bootstrap = bootstrap(&[5; 3], &[5; 3], eval_mod);
    let base_bits = 41.0;
    let log2_scale = 31.0;
    let high_bits = 45.0;
    let (middle, high) = upper_levels(&bootstrap);
    let upper_bits = (middle + high) as f64 * high_bits;
    let chain = Chain {
        base_bits,
        log2_scale,
        low: ((1240.0 - base_bits - upper_bits) / log2_scale) as usize,
        middle_bits: high_bits,
        high_bits,
        digits: 4,
        h: 64,
    };
    BootstrapPreset::new(
        "thesis-boot",
        "reproduction: bootstrapping of 2^15 complex slots by an exponential, log2 Q \
         1240, h = 64; under 128 bits",
        "Han, doctoral thesis on bootstrapping methods (Seoul National University), \
         section 4.3.3 and Table 4.2",
        chain.spec(&bootstrap),
        bootstrap,
        12.2,
    )
}

/// A line of Table 1 of "Bootstrapping on SEAL".
struct Seal {
    log2_q: f64,
    log2_scale: f64,
    /// `-log2` of the half-width of each interval of the cosine.
    log2_ratio: f64,
    h: u32,
    precision_bits: f64,
}

impl Seal {
    /// Size of `q_0` in each set.
    const BASE_BITS: f64 = 60.0;
    const HIGH_BITS: f64 = 54.6;
}

#[rustfmt::skip]
const SEAL: [Seal; 12] = [
    Seal { log2_q: 1560.0, log2_scale: 40.0, log2_ratio: 3.0, h: 64, precision_bits: 8.1 },
    Seal { log2_q: 1550.0, log2_scale: 49.9, log2_ratio: 6.0, h: 64, precision_bits: 18.2 },
    Seal { log2_q: 1535.0, log2_scale: 55.0, log2_ratio: 5.0, h: 64, precision_bits: 23.3 },
    Seal { log2_q: 1740.0, log2_scale: 40.0, log2_ratio: 3.0, h: 96, precision_bits: 6.2 },
    Seal { log2_q: 1760.0, log2_scale: 49.9, log2_ratio: 6.0, h: 96, precision_bits: 16.1 },
    Seal { log2_q: 1760.0, log2_scale: 55.0, log2_ratio: 5.0, h: 96, precision_bits: 21.2 },
    Seal { log2_q: 1740.0, log2_scale: 40.0, log2_ratio: 3.0, h: 128, precision_bits: 6.1 },
    Seal { log2_q: 1760.0, log2_scale: 49.9, log2_ratio: 6.0, h: 128, precision_bits: 16.0 },
    Seal { log2_q: 1760.0, log2_scale: 55.0, log2_ratio: 5.0, h: 128, precision_bits: 21.1 },
    Seal { log2_q: 1760.0, log2_scale: 40.0, log2_ratio: 3.0, h: 192, precision_bits: 5.7 },
    Seal { log2_q: 1770.0, log2_scale: 49.9, log2_ratio: 6.0, h: 192, precision_bits: 15.7 },
    Seal { log2_q: 1765.0, log2_scale: 55.0, log2_ratio: 5.0, h: 192, precision_bits: 20.8 },
];

impl Seal {
    fn preset(&self, number: u32) -> BootstrapPreset {
        // The smallest `k` that fails with probability 2^-60.
        let (k, degree, double_angles) = match self.h {
            64 => (22, 30, 4),
            96 => (27, 26, 5),
            128 => (32, 28, 5),
            _ => (40, 30, 5),
        };
        let eval_mod = EvalModSpec {
            k,
            log2_ratio: self.log2_ratio,
            method: ModMethod::Cosine { degree, double_angles },
            inverse_sine: Some(match self.log2_ratio {
                ..4.0 => 15,
                ..6.0 => 7,
                _ => 5,
            }),
        };
        let bootstrap = bootstrap(&[4, 4, 4, 3], &[3, 4, 4, 4], eval_mod);
        let (middle, high) = upper_levels(&bootstrap);
        let upper_bits = middle as f64 * FAST_BITS + high as f64 * Self::HIGH_BITS;
        let low = (self.log2_q - Self::BASE_BITS - upper_bits) / self.log2_scale;
        let chain = Chain {
            base_bits: Self::BASE_BITS,
            log2_scale: self.log2_scale,
            low: low as usize,
            middle_bits: FAST_BITS,
            high_bits: Self::HIGH_BITS,
            digits: 4,
            h: self.h,
        };
        let summary = format!(
            "reproduction: bootstrapping of 2^15 complex slots by a cosine and an inverse sine, \
             scale 2^{:.0}, h = {}; under 128 bits",
            self.log2_scale, self.h
        );
        BootstrapPreset::new(
            &format!("seal-boot-{number}"),
            &summary,
            &format!(
                "Kang, Kim, Lee, Lee, No, \"Bootstrapping on SEAL\", Tables 1 and 2, No. {number}"
            ),
            chain.spec(&bootstrap),
            bootstrap,
            self.precision_bits,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        circuits::ckks::bootstrap::{BootstrapPlan, log2_failure},
        ckks::Params,
        rlwe::Level,
    };

    fn planned(set: &BootstrapPreset) -> (Params, BootstrapPlan) {
        let params = Params::new(set.preset.spec.clone()).unwrap();
        let plan = set.bootstrap.plan(&params, params.upper_top()).unwrap();
        (params, plan)
    }

    fn weight(set: &BootstrapPreset) -> u32 {
        match set.preset.spec.secret {
            SecretDistribution::FixedWeight { h } => h,
            _ => 0,
        }
    }

    #[test]
    fn no_set_is_for_use_and_none_fails_often() {
        for set in reproductions() {
            let name = &set.preset.name;
            let (params, plan) = planned(&set);
            let bits = params.rlwe().security_bits();
            assert!(set.preset.spec.insecure && bits > 75.0 && bits < 128.0, "{name}: {bits}");
            let h = weight(&set);
            let k = set.bootstrap.eval_mod.k;
            assert!(plan.log2_failure(h) < -60.0, "{name}");
            assert!(log2_failure(h, k - 1, 1 << 16) > -60.0, "{name}");
        }
    }

    /// Section 5 of the paper: levels, sizes and 80 bits of security. Table 1: level 7.
    #[test]
    fn full_rns_is_the_papers() {
        let (params, plan) = planned(&full_rns());
        assert_eq!((params.log_n(), params.top()), (16, Level(32)));
        assert!((params.rlwe().log2_q(params.top()) - (61.0 + 32.0 * 55.0)).abs() < 0.1);
        assert!(params.rlwe().security_bits() > 80.0);
        assert!(plan.usable_levels() >= 7);
    }

    #[test]
    fn thesis_is_within_its_modulus() {
        let (params, plan) = planned(&thesis());
        let log2_q = params.rlwe().log2_q(params.top());
        assert!(log2_q <= 1240.0 && log2_q > 1240.0 - 31.0, "{log2_q}");
        assert!(plan.usable_levels() >= 14);
    }

    /// Compares `log2 Q` without the bits that do not fill a level, and messages with the printed
    /// integer bits.
    #[test]
    fn seal_sets_are_those_of_table_1() {
        for (row, number) in SEAL.iter().zip(1..) {
            let (params, plan) = planned(&row.preset(number));
            let log2_q = params.rlwe().log2_q(params.top());
            let lacks = row.log2_q - log2_q;
            assert!((0.0..row.log2_scale).contains(&lacks), "{number}: {log2_q}");
            assert!((params.rlwe().log2_q(Level(0)) - 60.0).abs() < 0.01);
            let integer_bits = [17.0, 4.1, 0.0][(number as usize - 1) % 3];
            assert!((plan.log2_bound() - integer_bits).abs() < 0.01, "{number}");
            assert_eq!(plan.input_level(), Level(0));
        }
    }
}
