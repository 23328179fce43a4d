//! What is planned for, and the parameters that have room for it.

use sudare::{
    circuits::{Polynomial, bootstrap::BootstrapPreset},
    ckks::{Params, Scale},
    rlwe::Level,
};

use super::{
    affine::{Stage, polynomials},
    draft::{Draft, depth_and_most, draft},
    error::{NnError, Result},
    plan::{Options, Packing},
    ranges::Ranges,
    refresh::{Demand, Refresh, place, set_for},
};

/// What is planned for.
#[derive(Clone)]
pub(super) struct Job<'a> {
    pub(super) ranges: &'a Ranges,
    pub(super) options: Options,
    pub(super) stages: Vec<Stage>,
    /// In place of their functions, but of squares.
    pub(super) polynomials: Vec<Option<Polynomial>>,
}

/// Parameters of a plan, and where it bootstraps.
pub(super) struct Setup {
    pub(super) params: Params,
    /// Level and scale of samples.
    pub(super) input: (Level, Scale),
    /// Of the weights of each stage, if products are not rescaled.
    pub(super) weights: Vec<Scale>,
    pub(super) refresh: Option<Refresh>,
    /// After which maps.
    placed: Vec<bool>,
}

impl<'a> Job<'a> {
    pub(super) fn new(stages: Vec<Stage>, ranges: &'a Ranges, options: Options) -> Result<Self> {
        ranges.check_stages(&stages)?;
        options.check()?;
        let polynomials = polynomials(&stages, ranges)?;
        Ok(Self { ranges, options, stages, polynomials })
    }

    /// `log2` of the most slots of a matrix.
    fn log2_slots(&self) -> u32 {
        let widths = |stage: &Stage| {
            let sources = stage.sources.iter().map(|source| source.width);
            sources.chain([stage.affine.rows.len()]).max()
        };
        let widest = self.stages.iter().filter_map(widths).max();
        match self.options.packing {
            Packing::Features => 0,
            Packing::Sample => widest.unwrap_or(1).next_power_of_two().ilog2(),
        }
    }

    /// Samples of one run.
    pub(super) fn slots(&self, params: &Params) -> usize {
        match self.options.packing {
            Packing::Features => params.max_slots().min(self.options.samples.next_power_of_two()),
            Packing::Sample => 1,
        }
    }

    /// A plan without bootstrapping if a ring has the levels at 128 bits of security, else with a set of
    /// [`set_for`]; also where that takes less time than a larger ring.
    pub(super) fn planned<P>(
        self,
        plan: impl Fn(Self, Setup) -> Result<P>,
        seconds: impl Fn(&P) -> Result<f64>,
    ) -> Result<P> {
        let set = set_for(self.options.precision_bits)?;
        let has_room = self.log2_slots() < set.preset.spec.log_n;
        let leveled = |job: Self, draft: &Draft| {
            let setup = job.leveled(draft)?;
            plan(job, setup)
        };
        let bootstrapped = |job: Self| {
            let setup = job.bootstrapped(&set)?;
            plan(job, setup)
        };
        match draft(&self, self.log2_slots()) {
            Ok(draft) if has_room && draft.spec.log_n > set.preset.spec.log_n => {
                // Primes of the size of levels may be too few for so many.
                match (leveled(self.clone(), &draft), bootstrapped(self)) {
                    (Ok(leveled), Ok(plan)) if seconds(&plan)? >= seconds(&leveled)? => Ok(leveled),
                    (_, Ok(plan)) | (Ok(plan), _) => Ok(plan),
                    (Err(error), _) => Err(error),
                }
            }
            Ok(draft) => leveled(self, &draft),
            Err(NnError::TooDeep { .. }) if has_room => bootstrapped(self),
            Err(error) => Err(error),
        }
    }

    fn leveled(&self, draft: &Draft) -> Result<Setup> {
        let params = Params::new(draft.spec.clone())?;
        let top = params.top();
        let input = (top, draft.input.unwrap_or_else(|| params.scale_at(top)));
        let weights = draft.weights.clone();
        Ok(Setup { params, input, weights, refresh: None, placed: Vec::new() })
    }

    /// Bootstraps with this set where levels run out, if they do.
    pub(super) fn bootstrapped(&self, set: &BootstrapPreset) -> Result<Setup> {
        let params = Params::new(set.preset.spec.clone())?;
        let functions = self.stages.iter().filter(|stage| stage.function.is_some());
        let most = match self.options.packing {
            Packing::Features => self.slots(&params),
            Packing::Sample => functions.map(|s| s.affine.rows.len()).max().unwrap_or(1),
        };
        let refresh = Refresh::new(set, &params, most.next_power_of_two().ilog2())?;
        let highest = refresh.plan.output_level();
        let scale = params.scale_at(highest);
        let demand = |(k, stage): (usize, &Stage)| {
            let depth = stage.function.as_ref().map(|_| {
                let polynomial = self.polynomials[k].as_ref();
                depth_and_most(polynomial, self.ranges.of_stage(k), scale).map(|(depth, _)| depth)
            });
            Ok(Demand {
                sources: stage.sources.iter().map(|source| source.value).collect(),
                depth: depth.transpose()?.unwrap_or(0),
                ciphertexts: match self.options.packing {
                    Packing::Features => stage.affine.rows.len() as u64,
                    Packing::Sample => 1,
                },
            })
        };
        let demands = self.stages.iter().enumerate().map(demand).collect::<Result<Vec<_>>>()?;
        let placed = place(&demands, highest, refresh.plan.input_level())?;
        let refresh = placed.contains(&true).then_some(refresh);
        Ok(Setup { params, input: (highest, scale), weights: Vec::new(), refresh, placed })
    }
}

impl Setup {
    /// How what the map of a stage gives is bootstrapped, if it is.
    pub(super) fn refresh_after(&self, number: usize) -> Option<&Refresh> {
        let placed = self.placed.get(number).copied().unwrap_or(false);
        self.refresh.as_ref().filter(|_| placed)
    }
}
