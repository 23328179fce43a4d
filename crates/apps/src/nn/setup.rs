//! Parameters of a job, and the places where it bootstraps.

use sudare::{
    circuits::ckks::bootstrap::BootstrapPreset,
    ckks::{Params, Scale},
    rlwe::Level,
};

use super::{
    affine::Stage,
    draft::{Draft, depth_and_most, draft},
    error::{NnError, Result},
    job::Job,
    options::Packing,
    refresh::{Demand, Refresh, place, set_for},
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

/// Plans without bootstrapping if a ring has enough levels at 128 bits of security. If there is
/// none, or if bootstrapping is faster than a larger ring, it plans with the set of [`set_for`].
pub(super) fn planned<'a, P>(
    job: Job<'a>,
    plan: impl Fn(Job<'a>, Setup) -> Result<P>,
    seconds: impl Fn(&P) -> Result<f64>,
) -> Result<P> {
    let set = set_for(job.options.precision_bits)?;
    let has_room = job.log2_slots() < set.preset.spec.log_n;
    let leveled = |job: Job<'a>, draft: &Draft| {
        let setup = Setup::leveled(draft)?;
        plan(job, setup)
    };
    let bootstrapped = |job: Job<'a>| {
        let setup = Setup::bootstrapped(&job, &set)?;
        plan(job, setup)
    };
    match draft(&job, job.log2_slots()) {
        Ok(draft) if has_room && draft.spec.log_n > set.preset.spec.log_n => {
            // There may be too few primes of the size of levels.
            match (leveled(job.clone(), &draft), bootstrapped(job)) {
                (Ok(leveled), Ok(plan)) if seconds(&plan)? >= seconds(&leveled)? => Ok(leveled),
                (_, Ok(plan)) | (Ok(plan), _) => Ok(plan),
                (Err(error), _) => Err(error),
            }
        }
        Ok(draft) => leveled(job, &draft),
        Err(NnError::TooDeep { .. }) if has_room => bootstrapped(job),
        Err(error) => Err(error),
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
    pub(super) fn bootstrapped(job: &Job<'_>, set: &BootstrapPreset) -> Result<Setup> {
        let params = Params::new(set.preset.spec.clone())?;
        let functions = job.stages.iter().filter(|stage| stage.function.is_some());
        let most = match job.options.packing {
            Packing::Features => job.slots(&params),
            Packing::Sample => functions.map(|s| s.affine.rows.len()).max().unwrap_or(1),
        };
        let refresh = Refresh::new(set, &params, most.next_power_of_two().ilog2())?;
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
                    Packing::Features => stage.affine.rows.len() as u64,
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

    /// Returns the bootstrapping of the values of a stage's map, if it is needed.
    pub(super) fn refresh_after(&self, number: usize) -> Option<&Refresh> {
        let placed = self.placed.get(number).copied().unwrap_or(false);
        self.refresh.as_ref().filter(|_| placed)
    }
}
