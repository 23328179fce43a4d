//! Named sets for bootstrapping: parameters with a specification of bootstrapping.

use super::{BootstrapPlan, BootstrapSpec};
use crate::{
    Result,
    circuits::exact::digits::ResiduePolynomial,
    exact::{Modulus, Params, Preset, Spec, Unit},
    rlwe::{Level, Raise, UpperSpec},
};

/// A named parameter set with its bootstrapping.
#[derive(Debug, Clone, PartialEq)]
pub struct BootstrapPreset {
    /// Name and parameters.
    pub preset: Preset,
    /// Specification of the bootstrapping.
    pub bootstrap: BootstrapSpec,
}

impl BootstrapPreset {
    /// Plans the bootstrapping in the parameters of the set; see [`BootstrapSpec::plan`].
    ///
    /// # Errors
    /// See [`BootstrapSpec::plan`].
    pub fn plan(
        &self,
        params: &Params,
        factor: impl Fn(&Params, Level, Modulus) -> Result<Unit>,
    ) -> Result<BootstrapPlan> {
        self.bootstrap.plan(params, factor)
    }
}

/// Returns every named set of 128 bits of security.
#[must_use]
pub fn presets() -> Vec<BootstrapPreset> {
    SETS.iter().filter_map(|shape| shape.preset("boot", 0.0).ok()).collect()
}

/// Returns sets with the plaintexts, the ring and the size of modulus of a publication: Han's
/// thesis (Table 3.5) at `N = 2^14`. They have the published levels, except for nine in place of
/// ten modulo 127, because their bounds hold for any circuit. They have less than 128 bits of
/// security. Do not use them for real data.
#[must_use]
pub fn reproductions() -> Vec<BootstrapPreset> {
    THESIS.iter().filter_map(|shape| shape.reproduction("slim", 0.0).ok()).collect()
}

/// Maximum size of primes, in bits: arithmetic modulo larger ones is slower.
const WIDEST: f64 = 51.0;

/// Splits a level of `bits` bits into primes that are not too large.
fn level(bits: f64) -> Vec<f64> {
    let primes = (bits / WIDEST).ceil();
    vec![bits / primes; primes as usize]
}

/// Layers of a factor of a map between slots and coefficients, and the bits of its level.
pub(super) type Factor = (u32, f64);

/// Sizes of levels in each part of a chain, and the computation of each part.
pub(super) struct Shape<'a> {
    pub(super) log_n: u32,
    pub(super) prime: u64,
    pub(super) exponent: u32,
    pub(super) log_slots: u32,
    /// Size of level 0, in bits: a digit and the error before raising.
    pub(super) single_bits: f64,
    /// Factors of SlotsToCoeffs, in the order of application: down to level 1.
    pub(super) to_coeffs: &'a [Factor],
    /// Size of usable levels, in bits, and their number.
    pub(super) usable: (f64, usize),
    /// Size of a level of digit removal, in bits.
    pub(super) removal_bits: f64,
    /// Factors of CoeffsToSlots, in the order of application: from the top down.
    pub(super) to_slots: &'a [Factor],
    /// Maximum bits of a prime in place of the chain.
    pub(super) base_bits: f64,
    pub(super) p_bits: &'a [f64],
    pub(super) extra_p_bits: &'a [f64],
}

/// The largest digit that is removed. With the weight 32, a digit is larger with probability 2^-145
/// per coefficient.
pub(super) const BOUND: u32 = 15;

/// Returns the levels needed to remove the lowest digit of residues modulo `high`.
pub(super) fn removal_depth(high: Modulus) -> Result<u32> {
    let degree = ResiduePolynomial::bounded_removal(high, BOUND)?.degree();
    Ok((degree + 1).next_power_of_two().ilog2())
}

const SETS: [Shape<'static>; 11] = [
    Shape {
        log_n: 14,
        prime: 257,
        exponent: 1,
        log_slots: 7,
        single_bits: 31.0,
        to_coeffs: &[(6, 26.0)],
        usable: (27.0, 2),
        removal_bits: 35.5,
        to_slots: &[(4, 24.5), (2, 32.0)],
        base_bits: 34.5,
        p_bits: &[36.0; 1],
        extra_p_bits: &[35.5; 3],
    },
    Shape {
        log_n: 15,
        prime: 257,
        exponent: 1,
        log_slots: 7,
        single_bits: 34.0,
        to_coeffs: &[(6, 28.0)],
        usable: (28.5, 15),
        removal_bits: 36.5,
        to_slots: &[(4, 25.0), (2, 33.5)],
        base_bits: 49.0,
        p_bits: &[49.5; 2],
        extra_p_bits: &[49.5; 4],
    },
    Shape {
        log_n: 15,
        prime: 257,
        exponent: 2,
        log_slots: 7,
        single_bits: 42.0,
        to_coeffs: &[(6, 29.5)],
        usable: (36.5, 10),
        removal_bits: 44.5,
        to_slots: &[(4, 30.5), (2, 41.0)],
        base_bits: 45.0,
        p_bits: &[45.5; 1],
        extra_p_bits: &[45.5; 5],
    },
    Shape {
        log_n: 15,
        prime: 257,
        exponent: 3,
        log_slots: 7,
        single_bits: 51.0,
        to_coeffs: &[(6, 37.5)],
        usable: (44.5, 5),
        removal_bits: 52.5,
        to_slots: &[(4, 39.5), (2, 49.5)],
        base_bits: 49.0,
        p_bits: &[49.5; 2],
        extra_p_bits: &[49.5; 4],
    },
    Shape {
        log_n: 15,
        prime: 127,
        exponent: 1,
        log_slots: 6,
        single_bits: 33.0,
        to_coeffs: &[(5, 27.0)],
        usable: (27.5, 16),
        removal_bits: 34.5,
        to_slots: &[(3, 25.0), (2, 32.5)],
        base_bits: 49.0,
        p_bits: &[49.5; 2],
        extra_p_bits: &[49.5; 4],
    },
    Shape {
        log_n: 15,
        prime: 127,
        exponent: 2,
        log_slots: 6,
        single_bits: 40.0,
        to_coeffs: &[(5, 28.5)],
        usable: (34.5, 11),
        removal_bits: 41.5,
        to_slots: &[(3, 28.0), (2, 39.0)],
        base_bits: 49.0,
        p_bits: &[49.5; 1],
        extra_p_bits: &[49.5; 5],
    },
    Shape {
        log_n: 15,
        prime: 127,
        exponent: 3,
        log_slots: 6,
        single_bits: 47.0,
        to_coeffs: &[(5, 33.5)],
        usable: (41.5, 7),
        removal_bits: 48.5,
        to_slots: &[(3, 34.5), (2, 46.5)],
        base_bits: 49.0,
        p_bits: &[49.5; 1],
        extra_p_bits: &[49.5; 5],
    },
    Shape {
        log_n: 15,
        prime: 65537,
        exponent: 1,
        log_slots: 15,
        single_bits: 50.0,
        to_coeffs: &[(6, 29.0), (8, 33.5)],
        usable: (36.5, 7),
        removal_bits: 52.5,
        to_slots: &[(5, 45.0), (5, 45.0), (4, 45.0)],
        base_bits: 49.0,
        p_bits: &[50.0; 1],
        extra_p_bits: &[49.5; 4],
    },
    Shape {
        log_n: 16,
        prime: 65537,
        exponent: 1,
        log_slots: 15,
        single_bits: 51.0,
        to_coeffs: &[(5, 29.0), (5, 29.0), (4, 33.0)],
        usable: (37.5, 20),
        removal_bits: 54.0,
        to_slots: &[(5, 47.5), (5, 47.5), (4, 47.5)],
        base_bits: 49.95,
        p_bits: &[49.6; 6],
        extra_p_bits: &[49.6; 4],
    },
    Shape {
        log_n: 16,
        prime: 786_433,
        exponent: 1,
        log_slots: 16,
        single_bits: 58.5,
        to_coeffs: &[(5, 33.0), (5, 33.0), (5, 37.0)],
        usable: (41.5, 14),
        removal_bits: 61.0,
        to_slots: &[(5, 54.5), (5, 54.5), (5, 54.5)],
        base_bits: 49.9,
        p_bits: &[49.5; 7],
        extra_p_bits: &[49.5; 4],
    },
    Shape {
        log_n: 16,
        prime: 4_293_918_721,
        exponent: 1,
        log_slots: 16,
        single_bits: 84.0,
        to_coeffs: &[(5, 46.5), (5, 46.5), (5, 50.0)],
        usable: (53.5, 10),
        removal_bits: 86.0,
        to_slots: &[(5, 77.0), (5, 78.0), (5, 79.0)],
        base_bits: 49.5,
        p_bits: &[49.5; 4],
        extra_p_bits: &[49.5; 4],
    },
];

/// Table 3.5 of the thesis at `N = 2^14`.
const THESIS: [Shape<'static>; 2] = [
    Shape {
        log_n: 14,
        prime: 127,
        exponent: 1,
        log_slots: 6,
        single_bits: 32.5,
        to_coeffs: &[(5, 25.5)],
        usable: (26.2, 9),
        removal_bits: 34.5,
        to_slots: &[(3, 25.0), (2, 32.0)],
        base_bits: 49.0,
        p_bits: &[49.5; 2],
        extra_p_bits: &[],
    },
    Shape {
        log_n: 14,
        prime: 257,
        exponent: 1,
        log_slots: 7,
        single_bits: 35.0,
        to_coeffs: &[(6, 27.0)],
        usable: (27.5, 7),
        removal_bits: 36.0,
        to_slots: &[(4, 25.0), (2, 33.0)],
        base_bits: 49.0,
        p_bits: &[49.5; 2],
        extra_p_bits: &[],
    },
];

impl Shape<'_> {
    /// Makes a set of 128 bits of security, named by ring, modulus and `mode`. Its highest usable
    /// level has `more_bits` additional bits.
    pub(super) fn preset(&self, mode: &str, more_bits: f64) -> Result<BootstrapPreset> {
        let power = match self.exponent {
            1 => String::new(),
            exponent => format!("-{exponent}"),
        };
        let name = format!("n{}-t{}{power}-{mode}", self.log_n, self.prime);
        self.named(name, "128 bits", more_bits)
    }

    /// Makes the set of a publication, of less security; see [`Shape::preset`].
    pub(super) fn reproduction(&self, mode: &str, more_bits: f64) -> Result<BootstrapPreset> {
        let name = format!("bfv-thesis-{mode}-{}", self.prime);
        let mut set = self.named(name, "a reproduction, insecure", more_bits)?;
        set.preset.spec.insecure = true;
        Ok(set)
    }

    fn named(&self, name: String, security: &str, more_bits: f64) -> Result<BootstrapPreset> {
        let modulus = Modulus::new(self.prime, self.exponent)?;
        let factors = |factors: &[Factor]| -> Vec<Vec<f64>> {
            // Factors are listed from the top down, levels of a chain from the lowest up.
            factors.iter().rev().map(|&(_, bits)| level(bits)).collect()
        };
        let layers = |factors: &[Factor]| factors.iter().map(|&(layers, _)| layers).collect();
        let (usable_bits, usable) = self.usable;
        let mut q_bits = vec![level(self.single_bits)];
        q_bits.extend(factors(self.to_coeffs));
        q_bits.extend(vec![level(usable_bits); usable]);
        if let Some(highest) = q_bits.last_mut() {
            *highest = level(highest.iter().sum::<f64>() + more_bits);
        }
        let chain_bits: f64 = q_bits.iter().flatten().sum();
        let base = (chain_bits / self.base_bits).ceil();
        let depth = removal_depth(modulus.with_exponent(self.exponent + 1)?)?;
        let mut levels_bits = vec![level(self.removal_bits); depth as usize];
        levels_bits.extend(factors(self.to_slots));
        let raised = UpperSpec { base_bits: vec![chain_bits / base; base as usize], levels_bits };
        let spec = Spec {
            q_bits,
            upper: Some(raised),
            extra_p_bits: self.extra_p_bits.to_vec(),
            ..Spec::uniform(self.log_n, modulus, 0.0, 0, 0.0, self.p_bits.to_vec())
        };
        let bootstrap = BootstrapSpec {
            modulus,
            log_slots: self.log_slots,
            ephemeral_weight: Raise::DEFAULT_WEIGHT,
            bound: BOUND,
            slots_to_coeffs: layers(self.to_coeffs),
            coeffs_to_slots: layers(self.to_slots),
        };
        let summary = format!(
            "bootstrapping of 2^{} integers modulo {modulus}, {usable} levels; {security}",
            self.log_slots
        );
        Ok(BootstrapPreset { preset: Preset { name, summary, spec }, bootstrap })
    }
}
