//! Named sets for bootstrapping exact ciphertexts: of slots of integers, or of all coefficients.

use sudare::{
    circuits::exact::bootstrap::{
        self, BootstrapPlan, BootstrapPreset, BootstrapSpec, Bootstrapper, Simulation, Stage,
        full::{self, FullBootstrapper, FullPlan, FullPreset},
    },
    exact::{Ciphertext, Evaluator, Params, Preset},
    rlwe::{KeyRequest, Level},
};
use sudare_roles::error::Result;

/// A named set with its way to bootstrap.
pub enum Way {
    /// Bootstrapping of slots of integers.
    Slim(BootstrapPreset),
    /// Bootstrapping of all coefficients.
    Full(FullPreset),
}

impl Way {
    /// Returns the named set for slots of integers: see [`slim`].
    pub fn slim(name: &str) -> Result<Self> {
        Ok(Self::Slim(slim(name)?))
    }

    /// Returns the named set for all coefficients. Names such as `bfv-full-P` work as for slots.
    pub fn full(name: &str) -> Result<Self> {
        Ok(Self::Full(full::preset(&meant(name, "full", "full"))?))
    }

    /// Returns the named set of either kind.
    pub fn named(name: &str) -> Result<Self> {
        Self::full(name).or_else(|_| Self::slim(name))
    }

    /// Lists all sets. Reproductions come last.
    pub fn all() -> Vec<Self> {
        let slim = [bootstrap::presets(), bootstrap::reproductions()].map(|sets| {
            let sets = sets.into_iter().map(Self::Slim);
            sets.collect::<Vec<_>>()
        });
        let full = [full::presets(), full::reproductions()].map(|sets| {
            let sets = sets.into_iter().map(Self::Full);
            sets.collect::<Vec<_>>()
        });
        let ([slim, slim_insecure], [full, full_insecure]) = (slim, full);
        [slim, full, slim_insecure, full_insecure].into_iter().flatten().collect()
    }

    /// Returns the name and the parameters.
    pub fn preset(&self) -> &Preset {
        match self {
            Self::Slim(set) => &set.preset,
            Self::Full(set) => &set.preset,
        }
    }

    /// Returns the plan in the parameters of the set.
    pub fn plan(&self, params: &Params) -> Result<Plan> {
        Ok(match self {
            Self::Slim(set) => Plan::Slim(set.plan(params, Params::factor_at)?),
            Self::Full(set) => Plan::Full(set.plan(params, Params::factor_at)?),
        })
    }
}

/// Returns the set for slots of integers. `bfv-slim-P` and `bgv-slim-P` are names of the set with
/// N = 2^15 for the prime P, and `bfv-slim-P-R` for its power.
pub fn slim(name: &str) -> Result<BootstrapPreset> {
    Ok(bootstrap::preset(&meant(name, "slim", "boot"))?)
}

/// Returns the name of a set by ring, modulus and mode, for another name of it.
fn meant(name: &str, mode: &str, own: &str) -> String {
    let prime = ["bfv", "bgv"].iter().find_map(|scheme| {
        let rest = name.strip_prefix(scheme)?.strip_prefix('-')?.strip_prefix(mode)?;
        rest.strip_prefix('-')
    });
    prime.map_or_else(|| name.to_owned(), |prime| format!("n15-t{prime}-{own}"))
}

/// The plan of a way.
pub enum Plan {
    Slim(BootstrapPlan),
    Full(FullPlan),
}

impl Plan {
    pub fn mode(&self) -> &'static str {
        match self {
            Self::Slim(_) => "slim",
            Self::Full(_) => "full",
        }
    }

    pub fn spec(&self) -> &BootstrapSpec {
        match self {
            Self::Slim(plan) => plan.spec(),
            Self::Full(plan) => plan.spec(),
        }
    }

    /// Returns the number of integers in a slot.
    pub fn degree(&self) -> usize {
        match self {
            Self::Slim(_) => 1,
            Self::Full(plan) => plan.slices(),
        }
    }

    pub fn input_level(&self) -> Level {
        match self {
            Self::Slim(plan) => plan.input_level(),
            Self::Full(plan) => plan.input_level(),
        }
    }

    pub fn top(&self) -> Level {
        match self {
            Self::Slim(plan) => plan.top(),
            Self::Full(plan) => plan.top(),
        }
    }

    pub fn output_level(&self) -> Level {
        match self {
            Self::Slim(plan) => plan.output_level(),
            Self::Full(plan) => plan.output_level(),
        }
    }

    pub fn usable_levels(&self) -> u32 {
        self.output_level().0.saturating_sub(self.input_level().0)
    }

    pub fn log2_failure(&self) -> f64 {
        match self {
            Self::Slim(plan) => plan.log2_failure(),
            Self::Full(plan) => plan.log2_failure(),
        }
    }

    pub fn required_keys(&self) -> &KeyRequest {
        match self {
            Self::Slim(plan) => plan.required_keys(),
            Self::Full(plan) => plan.required_keys(),
        }
    }

    pub fn matrix_bytes(&self, params: &Params) -> u64 {
        match self {
            Self::Slim(plan) => plan.matrix_bytes(params),
            Self::Full(plan) => plan.matrix_bytes(params),
        }
    }

    /// Simulates the plan on a fresh ciphertext.
    pub fn simulate(&self, params: &Params) -> Result<Simulation> {
        Ok(match self {
            Self::Slim(plan) => plan.simulate(params)?,
            Self::Full(plan) => plan.simulate(params)?,
        })
    }

    /// Lists the stages in the order of their lines, with their names and the levels of their operands.
    pub fn stages(&self) -> Vec<(Stage, &'static str, Level)> {
        let input = self.input_level();
        let top = self.top();
        // Each factor of the transform takes a level.
        let to_slots = self.spec().coeffs_to_slots.len().max(1) as u32;
        let removal = Level(top.0.saturating_sub(to_slots));
        let ends = |coeffs_to_slots| {
            [
                (Stage::CoeffsToSlots, "coeffs_to_slots", coeffs_to_slots),
                (Stage::DigitRemoval, "digit_removal", removal),
            ]
        };
        let starts =
            [(Stage::SlotsToCoeffs, "slots_to_coeffs", input), (Stage::Raise, "raise", Level(0))];
        match self {
            // The first matrix is one with raising.
            Self::Slim(_) => [&starts[..], &ends(Level(top.0.saturating_sub(1)))].concat(),
            Self::Full(_) => [&starts[..], &[(Stage::Slices, "slices", top)], &ends(top)].concat(),
        }
    }

    /// Encodes the matrices.
    pub fn prepare(&self, e: &Evaluator) -> Result<Refresher> {
        Ok(match self {
            Self::Slim(plan) => Refresher::Slim(plan.prepare(e)?),
            Self::Full(plan) => Refresher::Full(plan.prepare(e)?),
        })
    }
}

/// A plan with its matrices.
pub enum Refresher {
    Slim(Bootstrapper<Evaluator>),
    Full(FullBootstrapper<Evaluator>),
}

impl Refresher {
    /// Refreshes ciphertexts, calling `progress` after each stage.
    pub fn run(
        &self,
        e: &Evaluator,
        inputs: &[Ciphertext],
        mut progress: impl FnMut(Stage),
    ) -> Result<Vec<Ciphertext>> {
        match self {
            Self::Slim(refresher) => Ok(refresher.run_with(e, inputs, progress)?),
            Self::Full(refresher) => {
                let one = |a| Ok(refresher.run_with(e, a, &mut progress)?);
                inputs.iter().map(one).collect()
            }
        }
    }
}
