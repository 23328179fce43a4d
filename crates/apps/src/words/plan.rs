//! Parameters for programs, by their simulation.

use super::{LEAST_MODULUS, SimulatedPlanes};
use crate::exact::{Scheme, Setting};
use sudare::{
    circuits::exact::bootstrap::{self, BootstrapPreset},
    exact::{Choice, Modulus, Needs, Params, Spec, choose},
    rlwe::{KeyRequest, Rates},
};
use sudare_arith::real;

/// Levels of the parameters that measure the depth of programs, more than any ring has room for.
const MEASURED: usize = 60;

/// Needs of a program, found by its simulation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Relinearisations, without those of bootstrapping.
    pub relinearizations: u64,
    /// Bootstrapped ciphertexts.
    pub bootstraps: u64,
    /// Levels between the highest and the lowest ciphertext.
    pub depth: u32,
    /// Predicted seconds with one thread of the machine of `docs/performance.md`.
    pub seconds: f64,
    /// `log2` of a bound of the probability that a result is wrong: the sum of `2^-128` for each
    /// operation on a ciphertext and of
    /// [`log2_failure`](sudare::circuits::exact::bootstrap::BootstrapPlan::log2_failure) for each
    /// bootstrapping.
    pub log2_failure: f64,
}

impl SimulatedPlanes {
    /// Returns the needs of everything that this engine has computed.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let setting = self.parameters();
        let counts = self.simulator().counts();
        let operations =
            counts.products + counts.constant_products + counts.rescalings + counts.automorphisms;
        // At least one operation: encryption.
        let bounds = real::log2(operations.max(1) as f64) - 128.0;
        let bootstraps = self.bootstraps();
        let log2_failure = match setting.bootstrapping() {
            Some(plan) if bootstraps > 0 => {
                let raised = plan.log2_failure() + real::log2(bootstraps as f64);
                let high = bounds.max(raised);
                high + real::log2(real::exp2(bounds - high) + real::exp2(raised - high))
            }
            _ => bounds,
        };
        let rates = Rates::reference(setting.params().log_n());
        Usage {
            relinearizations: self.relinearizations(),
            bootstraps,
            depth: self.depth(),
            seconds: self.simulator().work().seconds(&rates),
            log2_failure,
        }
    }
}

/// Returns a setting to measure the depth of programs with, without security.
///
/// # Errors
/// The errors of [`Params::new`].
pub fn measuring_setting() -> sudare::Result<Setting> {
    let t = Modulus::new(65537, 1)?;
    let spec = Spec::uniform(12, t, 50.0, MEASURED, 42.0, vec![50.0; 4]);
    Setting::new(Params::new(Spec { insecure: true, ..spec })?, Scheme::Bgv, true)
}

/// Ciphertexts that are added to another one before each product: carries add two. More room would
/// take levels beyond 50 bits in the largest ring, whose arithmetic is slower.
const ADDED: u32 = 3;

/// Chooses parameters of 128 bits of security for programs of `depth` levels, modulo a prime with
/// all slots of the ring.
///
/// # Errors
/// [`sudare::Error::InvalidSpec`] if no ring has this number of levels.
pub fn leveled(depth: u32) -> sudare::Result<Choice> {
    let modulo = |t| {
        let plaintext_modulus = Modulus::new(t, 1)?;
        choose(Needs { plaintext_modulus, depth, rotations: ADDED, last_rotations: ADDED })
    };
    let choice = modulo(65_537)?;
    match choice.spec.log_n {
        // Modulo 65537 the largest ring has half of its slots.
        16 => modulo(786_433).or(Ok(choice)),
        _ => Ok(choice),
    }
}

/// The largest plaintext modulus of sets for words: larger ones leave fewer levels.
const MOST_MODULUS: u128 = 1 << 20;

/// Returns the names of the bootstrapping sets that words can use, the smallest ring first, and there
/// the set of the fewest levels, which has the most slots.
#[must_use]
pub fn bootstrapping_sets() -> Vec<String> {
    let fits = |set: &BootstrapPreset| {
        let t = set.bootstrap.modulus;
        t.exponent() == 1 && (LEAST_MODULUS..MOST_MODULUS).contains(&t.value())
    };
    let mut sets: Vec<_> = bootstrap::presets().into_iter().filter(fits).collect();
    sets.sort_by_key(|set| (set.preset.spec.log_n, set.preset.spec.q_bits.len()));
    sets.into_iter().map(|set| set.preset.name).collect()
}

/// Returns the keys of all operations on words: for products, and for bootstrapping. No operation
/// rotates slots.
#[must_use]
pub fn required_keys(setting: &Setting) -> KeyRequest {
    let mut request = KeyRequest::new().relinearize(setting.params().top());
    if let Some(plan) = setting.bootstrapping() {
        request |= plan.required_keys();
    }
    request
}
