//! Named sets for bootstrapping: parameters with a way to bootstrap in them.

use super::{BootstrapPlan, BootstrapSpec};
use crate::{
    Error, Result,
    exact::{Modulus, Params, Preset, Spec, Unit},
    rlwe::{Level, Raise, UpperSpec},
};

/// A named parameter set with a way to bootstrap in it.
#[derive(Debug, Clone, PartialEq)]
pub struct BootstrapPreset {
    /// Name and parameters.
    pub preset: Preset,
    /// How to bootstrap.
    pub bootstrap: BootstrapSpec,
}

impl BootstrapPreset {
    /// The plan in the parameters of the set, as [`BootstrapSpec::plan`].
    ///
    /// # Errors
    /// As [`BootstrapSpec::plan`].
    pub fn plan(
        &self,
        params: &Params,
        factor: impl Fn(&Params, Level, Modulus) -> Result<Unit>,
    ) -> Result<BootstrapPlan> {
        self.bootstrap.plan(params, factor)
    }
}

/// The set named `name`.
///
/// # Errors
/// [`Error::UnknownPreset`], which lists the names there are.
pub fn preset(name: &str) -> Result<BootstrapPreset> {
    let all = presets();
    let known = all.iter().map(|set| set.preset.name.as_str()).collect::<Vec<_>>().join(", ");
    all.into_iter()
        .find(|set| set.preset.name == name)
        .ok_or_else(|| Error::UnknownPreset { name: name.chars().take(40).collect(), known })
}

/// Every named set.
#[must_use]
pub fn presets() -> Vec<BootstrapPreset> {
    let shapes = [SMALL_RING, LARGE_RING, MORE_SLOTS];
    shapes.iter().filter_map(Shape::preset).collect()
}

/// The size of the largest primes: arithmetic modulo larger ones is slower.
const WIDEST: f64 = 51.0;

/// A level of so many bits, in primes that are not too large.
fn level(bits: f64) -> Vec<f64> {
    let primes = (bits / WIDEST).ceil();
    vec![bits / primes; primes as usize]
}

/// Sizes of levels in each part of a chain, from the bottom, and what is computed there.
struct Shape {
    name: &'static str,
    summary: &'static str,
    log_n: u32,
    prime: u64,
    log_slots: u32,
    /// Of level 0: a digit and the error before raising.
    single_bits: f64,
    /// Of a level of SlotsToCoeffs, and its layers.
    to_coeffs: (f64, &'static [u32]),
    /// Of usable levels, and how many there are.
    usable: (f64, usize),
    /// Of a level of digit removal.
    removal_bits: f64,
    /// Of a level of CoeffsToSlots, and its layers.
    to_slots: (f64, &'static [u32]),
    /// Most bits of a prime in place of the chain.
    base_bits: f64,
    p_bits: &'static [f64],
    extra_p_bits: &'static [f64],
}

/// Digits of at most 15 are removed at degree 61. With the weight 32, one is larger with a
/// probability of 2^-145 a coefficient.
const BOUND: u32 = 15;
const DEPTH: usize = 6;

const SMALL_RING: Shape = Shape {
    name: "n15-t65537-boot",
    summary: "bootstrapping of 2^15 integers modulo 65537, 7 levels; 128 bits",
    log_n: 15,
    prime: 65537,
    log_slots: 15,
    single_bits: 50.5,
    to_coeffs: (29.0, &[6, 8]),
    usable: (33.5, 7),
    removal_bits: 48.0,
    to_slots: (46.0, &[5, 5, 4]),
    base_bits: 49.0,
    p_bits: &[49.2; 2],
    extra_p_bits: &[48.5; 4],
};

const LARGE_RING: Shape = Shape {
    name: "n16-t65537-boot",
    summary: "bootstrapping of 2^15 integers modulo 65537, 20 levels; 128 bits",
    log_n: 16,
    prime: 65537,
    log_slots: 15,
    single_bits: 51.0,
    to_coeffs: (28.5, &[5, 5, 4]),
    usable: (34.5, 20),
    removal_bits: 49.6,
    to_slots: (47.0, &[5, 5, 4]),
    base_bits: 49.95,
    p_bits: &[49.6; 6],
    extra_p_bits: &[49.6; 4],
};

const MORE_SLOTS: Shape = Shape {
    name: "n16-t786433-boot",
    summary: "bootstrapping of 2^16 integers modulo 786433, 14 levels; 128 bits",
    log_n: 16,
    prime: 786_433,
    log_slots: 16,
    single_bits: 58.0,
    to_coeffs: (32.0, &[5, 5, 5]),
    usable: (38.0, 14),
    removal_bits: 56.0,
    to_slots: (54.0, &[5, 5, 5]),
    base_bits: 49.9,
    p_bits: &[49.5; 7],
    extra_p_bits: &[49.5; 4],
};

impl Shape {
    fn preset(&self) -> Option<BootstrapPreset> {
        let modulus = Modulus::new(self.prime, 1).ok()?;
        let levels = |bits: f64, count: usize| vec![level(bits); count];
        let q_bits = [
            levels(self.single_bits, 1),
            levels(self.to_coeffs.0, self.to_coeffs.1.len()),
            levels(self.usable.0, self.usable.1),
        ]
        .concat();
        let chain_bits: f64 = q_bits.iter().flatten().sum();
        let base = (chain_bits / self.base_bits).ceil();
        let raised = UpperSpec {
            base_bits: vec![chain_bits / base; base as usize],
            levels_bits: [
                levels(self.removal_bits, DEPTH),
                levels(self.to_slots.0, self.to_slots.1.len()),
            ]
            .concat(),
        };
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
            slots_to_coeffs: self.to_coeffs.1.to_vec(),
            coeffs_to_slots: self.to_slots.1.to_vec(),
        };
        let (name, summary) = (self.name.into(), self.summary.into());
        Some(BootstrapPreset { preset: Preset { name, summary, spec }, bootstrap })
    }
}
