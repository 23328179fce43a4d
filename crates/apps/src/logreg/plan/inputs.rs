//! Facts of a training that a ring determines, and the use of its levels.

use crate::logreg::{
    budget::{Budget, Scales, Segments},
    job::Job,
    layout::{Layout, Order},
    plan::{
        refresh::{self, Refresh},
        worst_case,
    },
    sigmoid::Sigmoid,
    spec::{Batches, Penalty, Step, TrainSpec},
    work,
};
use crate::{Error, Result};
use sudare::{
    ckks::{Params, Release},
    rlwe::Level,
};
use sudare_arith::real;

/// Minimum `-log2` of the standard deviation of each single error of weights that a plan accepts.
/// Weights then come within about 2^-10.
const MIN_PRECISION_BITS: f64 = 13.0;

/// Use of the levels of a chain.
pub(in crate::logreg) struct StageLevels {
    pub refresh: Option<Box<Refresh>>,
    pub level: Level,
    pub label_level: Level,
    pub scales: Scales,
    pub largest_weight: f64,
    pub largest_error: f64,
}

/// Facts of a job that a ring determines.
pub(in crate::logreg) struct PlanInputs {
    pub log_n: u32,
    pub order: Order,
    pub layout: Layout,
    pub batches: Batches,
    pub sigmoid: Sigmoid,
    label_iterations: usize,
    penalised: bool,
    /// Levels below the levels of the training: one, if rows are to be scored.
    spare: u32,
    /// Maximum root mean square of the weights of the rows of a batch.
    row_weight: f64,
    spec: TrainSpec,
    /// Number of rows planned.
    rows: usize,
    /// The largest error with which the weights can be shared, if requested.
    largest_shared_error: Option<f64>,
}

impl PlanInputs {
    pub fn new(job: &Job, log_n: u32, order: Order) -> Result<Self> {
        let spec = &job.spec;
        spec.check()?;
        let sigmoid = Sigmoid::new(&spec.sigmoid)?;
        let batches = Batches::new(job.rows, spec);
        let shape = (batches.most_rows(), job.features);
        let layout = Layout::of_training(shape, log_n, (order, &sigmoid), spec)?;
        let largest_shared_error =
            // A release has one value for each feature, and the intercept.
            spec.shared_bits.map(|bits| Release::default().largest_error(1 + job.features, bits));
        Ok(Self {
            log_n,
            order,
            layout,
            batches,
            sigmoid,
            label_iterations: spec.label_iterations() as usize,
            penalised: spec.penalty != Penalty::None,
            spare: u32::from(spec.scorable),
            row_weight: spec.class_weights.map_or(1.0, |_| TrainSpec::MAX_ROW_WEIGHT),
            spec: *spec,
            rows: job.rows,
            largest_shared_error,
        })
    }

    /// Returns the cost of an iteration, in key switches at the levels of an iteration.
    pub fn cost(&self) -> f64 {
        self.layout.cost(self.order, &self.sigmoid) * f64::from(self.levels())
    }

    /// Returns the cost of all iterations and bootstrappings, in key switches.
    pub fn cost_with(&self, levels: &StageLevels) -> f64 {
        let rounds = &levels.scales.rounds;
        let bootstraps = rounds.iter().filter(|round| round.refresh).count();
        let each = f64::from(refresh::key_switches(&self.layout, self.log_n));
        let of_round = self.layout.cost(self.order, &self.sigmoid);
        rounds.len() as f64 * of_round + bootstraps as f64 * each
    }

    /// Returns the levels of an iteration.
    pub fn levels(&self) -> u32 {
        self.order.levels(&self.sigmoid)
    }

    /// Returns `-log2` of the largest error with which weights can be shared, if requested.
    pub fn shared_bits(&self) -> Option<f64> {
        self.largest_shared_error.map(|error| -real::log2(error))
    }

    pub fn budget<'a>(&'a self, schedule: &'a [Step], segments: Segments) -> Budget<'a> {
        Budget {
            layout: &self.layout,
            order: self.order,
            batches: &self.batches,
            sigmoid: &self.sigmoid,
            schedule,
            label_iterations: self.label_iterations,
            penalised: self.penalised,
            log_n: self.log_n,
            segments,
            spare: self.spare,
            row_weight: self.row_weight,
        }
    }

    fn checked(&self, levels: StageLevels) -> Result<StageLevels> {
        let (what, found, needed) = match self.shared_bits() {
            None => ("a trained weight", levels.scales.precision_bits, MIN_PRECISION_BITS),
            Some(needed) if levels.refresh.is_some() => {
                ("a bootstrapped weight to be shared", refresh::PRECISION_BITS, needed)
            }
            Some(needed) => ("a weight to be shared", -real::log2(levels.largest_error), needed),
        };
        // NaN fails every comparison, so it is asked for.
        if found.is_nan() || found < needed {
            return Err(Error::Precision { what, found, needed });
        }
        Ok(levels)
    }

    /// Uses a level for every step.
    pub fn leveled(&self, schedule: &[Step], params: &Params) -> Result<StageLevels> {
        let budget = self.budget(schedule, Segments::One);
        let level = Level(budget.depth());
        let scales = budget.scales(params.chain());
        let largest_weight = budget.largest_weight();
        let label_level = level;
        let training = worst_case::Training {
            budget: &budget,
            scales: &scales,
            params,
            spec: &self.spec,
            rows: self.rows,
        };
        let largest_error = training.largest_error();
        let refresh = None;
        let levels =
            StageLevels { refresh, level, label_level, scales, largest_weight, largest_error };
        self.checked(levels)
    }

    /// Uses bootstrapping, raised to the highest level whose remaining chain suits the weights.
    /// Returns `None` if no level leaves enough. A set made for bootstrapping of more slots has its
    /// large primes lower than this needs.
    pub fn segments(&self, schedule: &[Step], params: &Params) -> Result<Option<StageLevels>> {
        let largest_weight = self.budget(schedule, Segments::One).largest_weight();
        let mut refused = None;
        for (times, raised) in (1..).zip((0..=params.upper_top().0).rev().map(Level)) {
            // Each attempt plans a bootstrapping, so their number is limited.
            work::refreshed(times, self.layout.period())?;
            let refresh = match Refresh::plan(params, raised, &self.layout, largest_weight) {
                // Lower levels leave even less.
                Err(sudare::Error::LevelExhausted { .. }) => break,
                Err(sudare::Error::ScaleOutOfRange { .. } | sudare::Error::Circuit(_)) => continue,
                other => other?,
            };
            let level = refresh.output_level();
            if level >= params.top() {
                // There is no level for the means of labels.
                continue;
            }
            let rounds = (refresh.usable_levels() / self.levels()) as usize;
            if rounds == 0 {
                break;
            }
            let budget = self.budget(schedule, Segments::Many { top: level, rounds });
            let scales = budget.segment_scales(params.chain(), refresh.output_scale());
            // The means of labels are lowered to the scale of refreshed weights.
            let label_level = Level(level.0 + 1);
            let refresh = Some(Box::new(refresh));
            let largest_error = f64::INFINITY;
            let levels =
                StageLevels { refresh, level, label_level, scales, largest_weight, largest_error };
            match self.checked(levels) {
                Ok(levels) => return Ok(Some(levels)),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        refused.map_or(Ok(None), Err)
    }
}
