//! Parameters of a job, and the places where it bootstraps.

use sudare::{
    circuits::ckks::bootstrap::BootstrapPreset,
    ckks::{Params, Scale},
    rlwe::{KeyRequest, Level},
};

use super::{
    affine::Stage,
    draft::{Draft, depth_and_most, draft},
    error::{NnError, Result},
    job::Job,
    options::Packing,
    refresh::{Demand, Refresh, place, sets_for},
};

/// Parameters of a plan, and the places where it bootstraps.
pub(super) struct Setup {
    pub(super) params: Params,
    /// Level and scale of samples.
    pub(super) input: (Level, Scale),
    /// Scale of the weights of each stage, if products are not rescaled.
    pub(super) weights: Vec<Scale>,
    pub(super) refresh: Option<Refresh>,
    /// True for each stage whose map has bootstrapped values.
    placed: Vec<bool>,
}

/// Plans without bootstrapping, and with each of the sets of [`sets_for`] in a smaller ring, and
/// returns the fastest plan.
pub(super) fn planned<P>(
    job: Job,
    plan: impl Fn(Job, Setup) -> Result<P>,
    seconds: impl Fn(&P) -> Result<f64>,
) -> Result<P> {
    let draft = draft(&job, job.log2_slots());
    let ring = match &draft {
        Ok(draft) => draft.spec.log_n,
        Err(NnError::TooDeep { log_n, .. }) => log_n + 1,
        Err(_) => 0,
    };
    let has_room = |set: &BootstrapPreset| {
        let log_n = set.preset.spec.log_n;
        log_n < ring && job.log2_slots() <= set.bootstrap.log_slots
    };
    let sets: Vec<_> = sets_for(job.options.precision_bits)?.into_iter().filter(has_room).collect();
    let bootstrapped = sets.iter().map(|set| {
        let setup = Setup::bootstrapped(&job, set)?;
        plan(job.clone(), setup)
    });
    // There may be too few primes of the size of levels.
    let leveled = draft.and_then(|draft| plan(job.clone(), Setup::leveled(&draft)?));
    let mut best: Option<(f64, P)> = None;
    let mut errors = Vec::new();
    for found in core::iter::once(leveled).chain(bootstrapped) {
        match found {
            Ok(plan) => {
                let seconds = seconds(&plan)?;
                if best.as_ref().is_none_or(|(least, _)| seconds < *least) {
                    best = Some((seconds, plan));
                }
            }
            Err(error) => errors.push(error),
        }
    }
    match (best, errors.pop()) {
        (Some((_, plan)), _) => Ok(plan),
        // The last set says what is wrong with the network. Without one, the lack of levels does.
        (None, Some(error)) => Err(error),
        (None, None) => Err(NnError::Network { problem: "has no plan".into() }),
    }
}

impl Setup {
    fn leveled(draft: &Draft) -> Result<Setup> {
        let params = Params::new(draft.spec.clone())?;
        let top = params.top();
        let input = (top, draft.input.unwrap_or_else(|| params.scale_at(top)));
        let weights = draft.weights.clone();
        Ok(Setup { params, input, weights, refresh: None, placed: Vec::new() })
    }

    /// Plans to bootstrap with this set where levels run out, if they do.
    pub(super) fn bootstrapped(job: &Job, set: &BootstrapPreset) -> Result<Setup> {
        let params = Params::new(set.preset.spec.clone())?;
        let functions = job.stages.iter().zip(job.layouts.iter().skip(1));
        let functions = functions.filter(|(stage, _)| stage.function.is_some());
        let most = match job.options.packing {
            Packing::Features => job.slots(&params),
            Packing::Sample => functions.map(|(_, layout)| layout.slots()).max().unwrap_or(1),
        };
        let refresh = Refresh::new(set, &params, most.ilog2())?;
        let highest = refresh.plan.output_level();
        let scale = params.scale_at(highest);
        let demand = |(k, stage): (usize, &Stage)| {
            let depth = stage.function.as_ref().map(|_| {
                let polynomial = job.polynomials[k].as_ref();
                depth_and_most(polynomial, job.ranges.of_stage(k), scale).map(|(depth, _)| depth)
            });
            Ok(Demand {
                sources: stage.sources.iter().map(|source| source.value).collect(),
                depth: depth.transpose()?.unwrap_or(0),
                ciphertexts: match job.options.packing {
                    Packing::Features => stage.affine.outputs() as u64,
                    Packing::Sample => 1,
                },
            })
        };
        let demands = job.stages.iter().enumerate().map(demand).collect::<Result<Vec<_>>>()?;
        let placed = place(&demands, highest, refresh.plan.input_level())?;
        // A plan that never bootstraps needs neither its keys nor its matrices.
        let refresh = placed.contains(&true).then_some(refresh);
        Ok(Setup { params, input: (highest, scale), weights: Vec::new(), refresh, placed })
    }

    /// Returns the keys of a run, from the keys of maps and functions.
    ///
    /// Next to bootstrapping they are keys for a level: maps are at the lowest ones, where keys for
    /// every level would have several times the primes. An operation needs all its keys at one
    /// level, so rotations have one level in common.
    pub(super) fn all_keys(&self, mut own: KeyRequest) -> KeyRequest {
        let Some(refresh) = &self.refresh else { return own };
        let highest = own.galois.values().max().copied().unwrap_or(Level(0));
        own.galois.values_mut().for_each(|level| *level = highest);
        let mut keys = own.into_level_keys(self.params.rlwe());
        keys |= refresh.plan.required_keys();
        keys
    }

    /// Returns the bootstrapping of the values of a stage's map, if it is needed.
    pub(super) fn refresh_after(&self, number: usize) -> Option<&Refresh> {
        let placed = self.placed.get(number).copied().unwrap_or(false);
        self.refresh.as_ref().filter(|_| placed)
    }
}
