use super::{
    super::{BootstrapPreset, BootstrapSpec, presets::Shape},
    FullPlan,
};
use crate::{
    Result,
    exact::{Modulus, Params, Preset, Unit},
    rlwe::{Level, named},
};

/// A named parameter set with its full bootstrapping.
#[derive(Debug, Clone, PartialEq)]
pub struct FullPreset {
    /// Name and parameters.
    pub preset: Preset,
    /// Specification of the bootstrapping.
    pub bootstrap: BootstrapSpec,
}

impl FullPreset {
    /// Plans the full bootstrapping in the parameters of the set; see [`BootstrapSpec::plan_full`].
    ///
    /// # Errors
    /// See [`BootstrapSpec::plan_full`].
    pub fn plan(
        &self,
        params: &Params,
        factor: impl Fn(&Params, Level, Modulus) -> Result<Unit>,
    ) -> Result<FullPlan> {
        self.bootstrap.plan_full(params, factor)
    }

    fn of(BootstrapPreset { mut preset, bootstrap }: BootstrapPreset) -> Self {
        let log_n = preset.spec.log_n;
        let log_slots = bootstrap.log_slots;
        let modulus = bootstrap.modulus;
        let levels = preset.spec.q_bits.len() - 1;
        let usable = levels - bootstrap.slots_to_coeffs.len();
        let security = if preset.spec.insecure { "a reproduction, insecure" } else { "128 bits" };
        preset.summary = format!(
            "bootstrapping of all 2^{log_n} coefficients modulo {modulus}, 2^{log_slots} slots of \
             degree {}, {usable} levels; {security}",
            1 << (log_n - log_slots)
        );
        Self { preset, bootstrap }
    }
}

/// Returns the set named `name`, from [`presets`] or [`reproductions`].
///
/// # Errors
/// [`Error::UnknownPreset`](crate::Error::UnknownPreset), which lists the existing names.
pub fn preset(name: &str) -> Result<FullPreset> {
    let all = presets().into_iter().chain(reproductions()).collect();
    named(all, name, |set: &FullPreset| &set.preset.name)
}

/// Returns every named set of 128 bits of security.
#[must_use]
pub fn presets() -> Vec<FullPreset> {
    let sets = SETS.iter().filter_map(|(shape, more_bits)| shape.preset("full", *more_bits).ok());
    sets.map(FullPreset::of).collect()
}

/// Returns sets with the plaintexts, the ring, the size of modulus and the levels of a publication:
/// Han's thesis (Table 3.4) at `N = 2^14`. They have less than 128 bits of security. Do not use
/// them for real data.
#[must_use]
pub fn reproductions() -> Vec<FullPreset> {
    let sets =
        THESIS.iter().filter_map(|(shape, more_bits)| shape.reproduction("full", *more_bits).ok());
    sets.map(FullPreset::of).collect()
}

/// Sizes, and the additional bits of the highest usable level. Its first product squares an error
/// that putting slices together has multiplied by the number of slices.
type Sizes = (Shape<'static>, f64);

const SETS: [Sizes; 4] = [
    (
        Shape {
            log_n: 15,
            prime: 257,
            exponent: 1,
            log_slots: 7,
            single_bits: 44.0,
            to_coeffs: &[(6, 28.0)],
            usable: (28.5, 14),
            removal_bits: 36.5,
            to_slots: &[(4, 31.0), (2, 33.5)],
            base_bits: 49.0,
            p_bits: &[49.5; 1],
            extra_p_bits: &[49.5; 5],
        },
        20.0,
    ),
    (
        Shape {
            log_n: 15,
            prime: 257,
            exponent: 2,
            log_slots: 7,
            single_bits: 52.0,
            to_coeffs: &[(6, 35.0)],
            usable: (36.5, 7),
            removal_bits: 44.5,
            to_slots: &[(4, 39.0), (2, 41.0)],
            base_bits: 49.0,
            p_bits: &[49.5; 2],
            extra_p_bits: &[49.5; 4],
        },
        20.0,
    ),
    (
        Shape {
            log_n: 15,
            prime: 127,
            exponent: 1,
            log_slots: 6,
            single_bits: 43.0,
            to_coeffs: &[(5, 27.0)],
            usable: (27.5, 15),
            removal_bits: 35.0,
            to_slots: &[(3, 31.0), (2, 32.5)],
            base_bits: 49.0,
            p_bits: &[49.5; 1],
            extra_p_bits: &[49.5; 5],
        },
        21.0,
    ),
    (
        Shape {
            log_n: 15,
            prime: 127,
            exponent: 2,
            log_slots: 6,
            single_bits: 51.5,
            to_coeffs: &[(5, 32.0)],
            usable: (34.5, 10),
            removal_bits: 42.0,
            to_slots: &[(3, 30.0), (2, 38.0)],
            base_bits: 49.0,
            p_bits: &[51.6; 1],
            extra_p_bits: &[49.5; 5],
        },
        20.0,
    ),
];

/// Table 3.4 of the thesis at `N = 2^14`.
const THESIS: [Sizes; 2] = [
    (
        Shape {
            log_n: 14,
            prime: 127,
            exponent: 1,
            log_slots: 6,
            single_bits: 42.0,
            to_coeffs: &[(5, 26.0)],
            usable: (26.0, 7),
            removal_bits: 33.5,
            to_slots: &[(3, 29.0), (2, 30.0)],
            base_bits: 49.0,
            p_bits: &[49.5; 2],
            extra_p_bits: &[],
        },
        18.0,
    ),
    (
        Shape {
            log_n: 14,
            prime: 257,
            exponent: 1,
            log_slots: 7,
            single_bits: 43.0,
            to_coeffs: &[(6, 27.0)],
            usable: (27.0, 4),
            removal_bits: 35.5,
            to_slots: &[(4, 30.0), (2, 32.0)],
            base_bits: 49.0,
            p_bits: &[49.5; 2],
            extra_p_bits: &[],
        },
        17.0,
    ),
];
