//! Named sets for bootstrapping: parameters with a specification of bootstrapping.

use super::{
    BootstrapSpec, Order, Refinement, Values,
    preset::{BootstrapPreset, full_ring},
    reproductions::reproductions,
};
use crate::{
    Error, Result,
    circuits::ckks::{EvalModSpec, ModMethod},
    ckks::{Needs, Spec, UpperSpec},
    rlwe::{Raise, named},
};

/// The set named `name`.
///
/// # Errors
/// [`Error::UnknownPreset`], which lists the existing names.
pub fn preset(name: &str) -> Result<BootstrapPreset> {
    named(presets(), name, |set| &set.preset.name)
}

/// Returns every named set.
#[must_use]
pub fn presets() -> Vec<BootstrapPreset> {
    let mut all = vec![complex(), real(), heavy(), fast(), small_ring(), networks(), high()];
    all.extend(reproductions());
    all
}

/// Chooses the smallest set that bootstraps such slots, and in a ring the fastest.
///
/// [`Needs::depth`] is the number of products between two bootstrappings,
/// [`Needs::precision_bits`] the bits that a bootstrapping keeps of values up to 1. Sets for real
/// slots are faster and lose imaginary parts.
///
/// ```
/// use sudare::{circuits::ckks::bootstrap::{self, Values}, ckks::Needs};
///
/// # fn main() -> sudare::Result<()> {
/// let needs = Needs { slots: 4096, depth: 4, precision_bits: 15.0, ..Needs::default() };
/// assert_eq!(bootstrap::choose(needs, Values::Complex)?.preset.name, "n15-boot");
/// let needs = Needs { depth: 8, precision_bits: 20.0, ..needs };
/// assert_eq!(bootstrap::choose(needs, Values::Real)?.preset.name, "n16-boot-real");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::InvalidSpec`] if no set meets a requirement; the message states what sets have.
pub fn choose(needs: Needs, values: Values) -> Result<BootstrapPreset> {
    let invalid = |field, problem: String| Err(Error::InvalidSpec { field, problem });
    let Needs { slots, depth, precision_bits, magnitude, security_bits } = needs;
    if magnitude > 1.0 {
        let problem = format!("{magnitude}: values of up to 1 are bootstrapped; divide them first");
        return invalid("magnitude", problem);
    }
    if security_bits > 128.0 {
        return invalid("security_bits", format!("{security_bits}: sets to bootstrap have 128"));
    }
    let twenty_bits = if values == Values::Real { real() } else { complex() };
    // The fastest first in each ring.
    let sets = vec![small_ring(), fast(), twenty_bits, high()];
    let sets =
        kept(sets, "slots", &slots, |set| (1..=1 << set.bootstrap.log_slots).contains(&slots))?;
    let sets =
        kept(sets, "precision_bits", &precision_bits, |set| precision_bits <= set.precision_bits)?;
    let mut sets = kept(sets, "depth", &depth, |set| depth <= usable_levels(set))?;
    Ok(sets.swap_remove(0))
}

/// Returns the sets that meet a requirement, at least one.
fn kept(
    sets: Vec<BootstrapPreset>,
    field: &'static str,
    value: &dyn core::fmt::Display,
    fits: impl Fn(&BootstrapPreset) -> bool,
) -> Result<Vec<BootstrapPreset>> {
    let kept: Vec<_> = sets.iter().filter(|set| fits(set)).cloned().collect();
    if kept.is_empty() {
        let summaries: Vec<_> = sets.iter().map(|set| &set.preset.summary[..]).collect();
        let problem = format!("no set has {value}: there are {}", summaries.join(", and "));
        return Err(Error::InvalidSpec { field, problem });
    }
    Ok(kept)
}

/// Returns the levels for products of a set of [`Chain::spec`], which ends at the top of the chain.
fn usable_levels(set: &BootstrapPreset) -> u32 {
    let BootstrapSpec { slots_to_coeffs, correction, refinement, .. } = &set.bootstrap;
    let input = slots_to_coeffs.len() + 2 * usize::from(*correction) + refinement.iter().len();
    set.preset.spec.q_bits.len().saturating_sub(1 + input) as u32
}

/// Sizes of primes in each part of a chain, from the bottom.
struct Chain {
    /// Size of messages before they are raised.
    single_bits: f64,
    /// Size between the scale of usable levels and the scale of messages, for a refinement.
    reserved_bits: Option<f64>,
    /// Size of each prime of a usable level. Their sum is the scale there.
    usable_bits: Vec<f64>,
    usable: usize,
    /// Size of the levels of the upper matrices and the reduction.
    high_bits: f64,
    /// Maximum size of the primes that replace all lower ones.
    base_bits: f64,
    p_bits: Vec<f64>,
    /// Sizes of special primes for which keys have room after the first matrix. The keys of the
    /// first matrix come with raising.
    extra_p_bits: Vec<f64>,
}

impl Chain {
    /// Makes a chain for 20 bits of precision, with `usable` usable levels of this size.
    fn of_twenty_bits(level_bits: f64, usable: usize) -> Self {
        Self {
            single_bits: level_bits,
            reserved_bits: None,
            usable_bits: vec![level_bits],
            usable,
            high_bits: 49.6,
            base_bits: 49.95,
            // Next below `2^52 / 5 = 2^49.678`; see `complex`.
            p_bits: vec![49.675; 8],
            extra_p_bits: vec![49.675; 4],
        }
    }

    fn spec(self, bootstrap: &BootstrapSpec) -> Spec {
        let reduction = &bootstrap.eval_mod;
        let low = bootstrap.slots_to_coeffs.len() + 2 * usize::from(bootstrap.correction);
        let high = bootstrap.coeffs_to_slots.len() + reduction.depth().unwrap_or(0) as usize;
        let levels = [
            (&[self.single_bits + reduction.log2_ratio][..], 1),
            (&[self.single_bits], low),
            (self.reserved_bits.as_slice(), self.reserved_bits.iter().len()),
            (&self.usable_bits, self.usable),
        ];
        let spec = full_ring(bootstrap, self.usable_bits.iter().sum(), &levels);
        let chain_bits: f64 = spec.q_bits.iter().flatten().sum();
        let base = (chain_bits / self.base_bits).ceil();
        let raised = UpperSpec {
            base_bits: vec![chain_bits / base; base as usize],
            levels_bits: vec![vec![self.high_bits]; high],
        };
        let p_bits = self.p_bits;
        let extra_p_bits = self.extra_p_bits;
        Spec { upper: Some(raised), p_bits, extra_p_bits, ..spec }
    }
}

/// Messages are corrected for the sine, so they may be `2^-7` of `q_0`. The reduction then loses 14
/// bits of its scale to rounding under a dense secret, 4 to the size of `I` and 5 to the doublings
/// of the angle. One prime per level is enough for 20 bits. All primes to raise to, and special
/// ones, are below `2^52 / 5 = 2^49.678`, which leaves room for two layers of a transform at a time
/// on AVX-512.
fn complex() -> BootstrapPreset {
    let bootstrap = BootstrapSpec {
        log_slots: 15,
        order: Order::SlotsToCoeffsFirst,
        values: Values::Complex,
        ephemeral_weight: Some(Raise::DEFAULT_WEIGHT),
        coeffs_to_slots: vec![4, 4, 4, 3],
        slots_to_coeffs: vec![5, 5, 5],
        eval_mod: EvalModSpec {
            k: 14,
            log2_ratio: 7.0,
            method: ModMethod::Cosine { degree: 28, double_angles: 3 },
            inverse_sine: None,
        },
        correction: true,
        refinement: None,
    };
    let chain = Chain::of_twenty_bits(36.9, 14);
    BootstrapPreset::new(
        "n16-boot",
        "bootstrapping of 2^15 complex slots, 20 bits, 14 levels of 36.9 bits; 128 bits",
        "sized for 20 bits of precision in the largest modulus at 128 bits",
        chain.spec(&bootstrap),
        bootstrap,
        21.4,
    )
}

fn real() -> BootstrapPreset {
    let set = complex();
    BootstrapPreset::new(
        "n16-boot-real",
        "bootstrapping of 2^15 real slots with one reduction; 128 bits",
        &set.preset.source,
        set.preset.spec,
        BootstrapSpec { values: Values::Real, ..set.bootstrap },
        22.1,
    )
}

/// With an ephemeral secret of weight 48, the multiple of the modulus exceeds 19 as rarely as it
/// exceeds 14 with weight 32. A cosine over that range needs a degree above 31 for the required
/// error, and so one more level. The ring has one usable level fewer, and levels are a little
/// smaller.
fn heavy() -> BootstrapPreset {
    let set = complex();
    let bootstrap = BootstrapSpec {
        ephemeral_weight: Some(48),
        eval_mod: EvalModSpec {
            k: 19,
            method: ModMethod::Cosine { degree: 36, double_angles: 3 },
            ..set.bootstrap.eval_mod
        },
        ..set.bootstrap
    };
    let chain = Chain::of_twenty_bits(36.7, 13);
    BootstrapPreset::new(
        "n16-boot-h48",
        "bootstrapping through a secret of weight 48, 20 bits, 13 levels of 36.7 bits; 128 bits",
        "sized as n16-boot, with a reserve against better attacks on sparse secrets",
        chain.spec(&bootstrap),
        bootstrap,
        21.0,
    )
}

/// The first bootstrapping leaves errors of at most about `2^-19`, 22 bits in the mean. One round
/// does the same for the difference, 41 bits in total. Rounding at a scale of `2^58` leaves 43. The
/// reserved prime, `3 2^18 + 1`, brings messages to `2^38.4`.
fn high() -> BootstrapPreset {
    let refinement = Some(Refinement { rounds: 1, gain_bits: 19 });
    let bootstrap = BootstrapSpec { refinement, ..complex().bootstrap };
    let chain = Chain {
        single_bits: 38.5,
        reserved_bits: Some(19.585),
        usable_bits: vec![29.0; 2],
        usable: 8,
        high_bits: 49.95,
        base_bits: 49.95,
        p_bits: vec![49.97; 8],
        extra_p_bits: vec![49.97; 4],
    };
    BootstrapPreset::new(
        "n16-boot-high",
        "bootstrapping of 2^15 complex slots, 40 bits, 8 levels of 58 bits; 128 bits",
        "sized for 40 bits of precision in the largest modulus at 128 bits",
        chain.spec(&bootstrap),
        bootstrap,
        41.0,
    )
}

/// Has no correction: the error of the sine is 15 bits in the mean at messages of `2^-8` of `q_0`.
/// The small total number of bits leaves many bits to the special primes of level keys, which have
/// one digit.
fn fast() -> BootstrapPreset {
    let set = complex();
    let bootstrap = BootstrapSpec {
        eval_mod: EvalModSpec {
            log2_ratio: 8.0,
            method: ModMethod::Cosine { degree: 24, double_angles: 3 },
            ..set.bootstrap.eval_mod
        },
        correction: false,
        ..set.bootstrap
    };
    let chain = Chain {
        single_bits: 30.0,
        reserved_bits: None,
        usable_bits: vec![30.0],
        usable: 8,
        high_bits: 42.0,
        base_bits: 49.95,
        p_bits: vec![49.6; 9],
        extra_p_bits: vec![49.6; 8],
    };
    BootstrapPreset::new(
        "n16-boot-fast",
        "bootstrapping of 2^15 complex slots, 12 bits, 8 levels of 30 bits; 128 bits",
        "sized for 12 bits of precision in the least time",
        chain.spec(&bootstrap),
        bootstrap,
        13.0,
    )
}

/// Fewer factors of the maps save levels, and messages of `2^-9.5` of `q_0` save the correction:
/// the modulus of the ring has little room for anything else.
fn small_ring() -> BootstrapPreset {
    let set = complex();
    let bootstrap = BootstrapSpec {
        log_slots: 14,
        coeffs_to_slots: vec![5, 4, 5],
        slots_to_coeffs: vec![7, 7],
        eval_mod: EvalModSpec { log2_ratio: 9.5, ..set.bootstrap.eval_mod },
        correction: false,
        ..set.bootstrap
    };
    let chain = Chain {
        single_bits: 34.0,
        reserved_bits: None,
        usable_bits: vec![34.0],
        usable: 4,
        high_bits: 47.5,
        base_bits: 49.95,
        p_bits: vec![48.0; 2],
        extra_p_bits: vec![48.0; 4],
    };
    BootstrapPreset::new(
        "n15-boot",
        "bootstrapping of 2^14 complex slots, 17 bits, 4 levels of 34 bits; 128 bits",
        "sized for 17 bits of precision in the largest modulus at 128 bits",
        chain.spec(&bootstrap),
        bootstrap,
        17.2,
    )
}

/// Has the sine of [`fast`] in the ring of [`small_ring`]. Real slots need one reduction, and levels
/// of 30 bits are seven: a polynomial of degree 63 and a map.
fn networks() -> BootstrapPreset {
    let sine = fast().bootstrap.eval_mod;
    let set = small_ring();
    let bootstrap = BootstrapSpec { values: Values::Real, eval_mod: sine, ..set.bootstrap };
    let chain = Chain {
        single_bits: 30.0,
        reserved_bits: None,
        usable_bits: vec![30.0],
        usable: 7,
        high_bits: 42.0,
        base_bits: 49.95,
        p_bits: vec![48.0; 2],
        extra_p_bits: vec![48.0; 4],
    };
    BootstrapPreset::new(
        "n15-boot-net",
        "bootstrapping of 2^14 real slots, 12 bits, 7 levels of 30 bits; 128 bits",
        "sized for layers of networks in the largest modulus at 128 bits",
        chain.spec(&bootstrap),
        bootstrap,
        13.0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_chosen_by_what_they_have() {
        let name = |slots, depth, precision_bits, values| {
            let needs = Needs { slots, depth, precision_bits, ..Needs::default() };
            choose(needs, values).map(|set| set.preset.name)
        };
        let named = |expected: &str, slots, depth, bits| {
            assert_eq!(name(slots, depth, bits, Values::Complex).unwrap(), expected);
        };
        named("n15-boot", 1 << 14, 4, 17.0);
        named("n16-boot-fast", 1 << 15, 4, 12.0);
        named("n16-boot-fast", 1, 8, 12.0);
        named("n16-boot", 1, 9, 12.0);
        named("n16-boot", 1, 5, 20.0);
        named("n16-boot-high", 1, 5, 40.0);
        assert_eq!(name(1, 5, 20.0, Values::Real).unwrap(), "n16-boot-real");

        let refused = |found: Result<String>, expected, word: &str| match found {
            Err(Error::InvalidSpec { field, problem }) => {
                assert!(field == expected && problem.contains(word), "{field}: {problem}");
            }
            other => panic!("{other:?}"),
        };
        refused(name(1 << 16, 1, 1.0, Values::Real), "slots", "2^15");
        refused(name(0, 1, 1.0, Values::Real), "slots", "2^15");
        refused(name(1, 1, 42.0, Values::Real), "precision_bits", "40 bits");
        refused(name(1, 9, 40.0, Values::Real), "depth", "8 levels of 58 bits");
        let large = Needs { magnitude: 2.0, ..Needs::default() };
        refused(choose(large, Values::Real).map(|_| String::new()), "magnitude", "divide");
        let secure = Needs { security_bits: 192.0, ..Needs::default() };
        refused(choose(secure, Values::Real).map(|_| String::new()), "security_bits", "128");
    }

    #[test]
    fn summaries_state_the_usable_levels() {
        for set in [small_ring(), networks(), fast(), complex(), heavy(), high()] {
            let words = format!(" {} levels", usable_levels(&set));
            assert!(set.preset.summary.contains(&words), "{}: {words}", set.preset.name);
        }
    }
}
