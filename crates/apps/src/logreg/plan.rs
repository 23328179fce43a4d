pub(super) mod inputs;
pub(super) mod propose;
pub(super) mod refresh;
pub(super) mod worst_case;

use self::{
    inputs::{PlanInputs, StageLevels},
    refresh::Refresh,
};
use super::{
    budget::Scales,
    job::{Job, MAX_ITERATIONS},
    layout::{Layout, Order},
    planned::not_as_planned,
    score::{Leaves, ScorePlan},
    sigmoid::Sigmoid,
    spec::{Batches, TrainSpec, schedule},
    work,
};
use crate::{Error, Result, TablePlan, ciphertext_bytes};
use core::{
    iter::{once, repeat_n},
    ops::Range,
};
use sudare::{
    circuits::ckks::sim,
    ckks::{Complex, Params, Scale},
    rlwe::{KeyRequest, Level},
};

/// Plan of a [`Job`] for parameters: the encryption of rows, the keys of the server, and every
/// scale of the computation. It contains nothing secret.
///
/// Training computes the same as [`super::reference::train`]. The first iteration, or the first two
/// with [`Preparation::Scale`](super::Preparation::Scale), use means of labels alone, which the
/// owner encrypts with the rows. Each later iteration takes 3 levels at degree 3 of the sigmoid and
/// 4 at degrees 5 and 7. One more level is needed if the polynomial is evaluated before the product
/// with the rows, which is cheaper for many rows. When levels run out, weights and momentum are
/// bootstrapped together.
///
/// The absolute value of weights must stay below 16, or below the learning rate of the first of
/// these iterations if that is larger. Inner products of prepared rows and weights must stay within
/// the sigmoid's range. The server cannot see violations, so [`TrainPlan::check`] rejects tables
/// that would cause them.
///
/// A table may have fewer rows than planned. Its rows and sums are then scaled so that means over
/// the planned rows are means over the actual rows, and the server does not learn their number.
/// Several tables with fewer rows can be trained on together ([`TrainPlan::for_groups`]).
///
/// With [`ClassWeights`](super::ClassWeights), each row `x` is encrypted twice: unchanged, and
/// times its weight `c`. `x . v` uses the first and `o(x . v) c x` the second, which costs no
/// level, key or larger prime. The server sees that there are two copies. It does not learn the
/// weights or the number of rows of a class. Heavy rows enlarge errors. The mean of the weights
/// over all rows is 1, and in each batch their root mean square must be at most 8. This is true for
/// balanced weights if each class has at least 0.4 % of the rows. [`TrainPlan::check`] rejects
/// other rows, and [`TrainPlan::largest_error`] covers all allowed weights.
///
/// Errors of iterations add up, and momentum amplifies them. For a weight that the rows hardly
/// determine, the error after `k` iterations can be `k^1.5` times the error of one iteration.
///
/// A ciphertext holds pieces of rows, and a group of rows has one ciphertext for each piece. An
/// iteration at degree 3 with rows multiplied first has these key switches: one for each
/// ciphertext; `log2` of the entries of a piece plus 3 for each group; and
/// `3 pieces - 2 + log2(rows / pieces)`, for the rows of a group. With the polynomial first,
/// ciphertexts need none, but each piece needs one for every eight groups. The length of pieces
/// minimises this number. With 197 entries and batches of 1,024 rows at `N = 2^15` it is 32. The 32
/// ciphertexts then need about a quarter of the key switches of whole rows.
///
/// Reference: Han, "Bootstrapping Methods for Homomorphic Encryption", Seoul National University,
/// chapter 6, algorithm 7. Deviations:
///
/// - Sums of labels are computed in the clear.
/// - Blocks are twice as long as pieces, so nothing is masked after sums.
/// - Pieces of a row are skewed over ciphertexts instead of having a ciphertext each. The weights
///   are therefore one ciphertext instead of one for each piece, each summed over rows and
///   bootstrapped separately.
/// - Products are summed before relinearisation.
/// - Constants are absorbed into scales. Together with the blocks this gives 3 levels per iteration
///   instead of 5.
/// - Sums over rows and slots come after rescaling, where they are cheaper, at scales that allow
///   for their errors.
#[derive(Debug, Clone)]
pub struct TrainPlan {
    pub(super) job: Job,
    pub(super) params: Params,
    pub(super) layout: Layout,
    pub(super) order: Order,
    pub(super) batches: Batches,
    pub(super) sigmoid: Sigmoid,
    pub(super) scales: Box<Scales>,
    /// Level of the rows of the first batch, and of the penalty.
    pub(super) level: Level,
    /// Level of the encrypted means of labels.
    pub(super) label_level: Level,
    /// Bootstrapping of weights, if any.
    pub(super) refresh: Option<Box<Refresh>>,
    /// Bound of the absolute value of weights and momentum.
    pub(super) largest_weight: f64,
    largest_error: f64,
    keys: KeyRequest,
}

impl TrainPlan {
    /// Plans a job for parameters. It uses their lowest levels, or, if these are not enough, all
    /// levels with bootstrapping.
    ///
    /// # Errors
    /// [`Error::Train`] for an invalid specification or an empty table; [`Error::TooManyFeatures`];
    /// [`Error::TooManyIterations`] if they do not fit the levels, which have no room for
    /// bootstrapping either, or are more than 1000 (the error has the number that fits);
    /// [`Error::Precision`] if the primes are too small to come within 2^-10 of training in the
    /// clear, or too imprecise for weights to be shared, which bootstrapped weights always are;
    /// [`Error::Library`] if a value would not fit the modulus; [`Error::TooMuchWork`].
    pub fn new(job: &Job, params: &Params) -> Result<Self> {
        let log_n = params.log_n();
        let mut orders = Order::ALL
            .into_iter()
            .map(|order| PlanInputs::new(job, log_n, order))
            .collect::<Result<Vec<_>>>()?;
        orders.sort_by(|a, b| a.cost().total_cmp(&b.cost()));
        let top = params.top().0;
        let full = job.spec.iterations - job.spec.label_iterations();
        let fewest = orders.iter().map(PlanInputs::levels).min().unwrap_or(1);
        let spare = u32::from(job.spec.scorable);
        let refuse = |fit: u32| Error::TooManyIterations {
            found: job.spec.iterations,
            needed: u64::from(full) * u64::from(fewest),
            log_n,
            fit: fit.min(MAX_ITERATIONS),
        };
        if job.spec.iterations > MAX_ITERATIONS {
            let fit = Job { spec: TrainSpec { iterations: MAX_ITERATIONS, ..job.spec }, ..*job };
            return Err(refuse(match Self::new(&fit, params) {
                Err(Error::TooManyIterations { fit, .. }) => fit,
                _ => MAX_ITERATIONS,
            }));
        }
        let schedule = schedule(&job.spec);
        let mut refused = None;
        // Without bootstrapping first, and the cheaper order first.
        for inputs in &orders {
            let needed = u64::from(full) * u64::from(inputs.levels()) + u64::from(spare);
            if needed > u64::from(top) {
                continue;
            }
            match inputs.leveled(&schedule, params) {
                Ok(levels) => return Self::planned(job, params, inputs, levels),
                // The error of the cheapest order is reported.
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        let mut best: Option<(f64, &PlanInputs, StageLevels)> = None;
        for inputs in &orders {
            match inputs.segments(&schedule, params) {
                Ok(Some(levels)) => {
                    let cost = inputs.cost_with(&levels);
                    if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                        best = Some((cost, inputs, levels));
                    }
                }
                Ok(None) => {}
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        if let Some((_, inputs, levels)) = best {
            return Self::planned(job, params, inputs, levels);
        }
        let leading = job.spec.label_iterations();
        Err(refused.unwrap_or_else(|| refuse(leading + top.saturating_sub(spare) / fewest)))
    }

    fn planned(
        job: &Job,
        params: &Params,
        inputs: &PlanInputs,
        levels: StageLevels,
    ) -> Result<Self> {
        let StageLevels { refresh, level, label_level, scales, largest_weight, largest_error } =
            levels;
        let mut plan = Self {
            job: *job,
            params: params.clone(),
            layout: inputs.layout,
            order: inputs.order,
            batches: inputs.batches,
            sigmoid: inputs.sigmoid.clone(),
            scales: Box::new(scales),
            level,
            label_level,
            refresh,
            largest_weight,
            largest_error,
            keys: KeyRequest::new(),
        };
        if let Some(refresh) = &plan.refresh {
            // A first run finds the keys used outside bootstrapping, with their levels.
            plan.keys = refresh.required_keys().clone();
            plan.keys = plan.dry_run()?.into_level_keys(plan.params.rlwe());
        }
        plan.keys = plan.dry_run()?;
        if job.spec.scorable {
            plan.keys |= plan.scoring(1)?.required_keys().clone();
        }
        Ok(plan)
    }

    /// Plans to score `rows` rows by the model of this training.
    pub(super) fn scoring(&self, rows: usize) -> Result<ScorePlan> {
        let leaves = Leaves {
            job: &self.job,
            params: &self.params,
            layout: &self.layout,
            model: self.output(),
            largest_weight: self.largest_weight,
        };
        ScorePlan::after(&leaves, rows, || self.simulator())
    }

    /// Returns the job.
    #[must_use]
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Returns a bound of the absolute errors of weights, in the coordinates of the training.
    ///
    /// For a plan whose weights are to be shared, it holds for every table that
    /// [`TrainPlan::check`] accepts. For other plans, inner products must be within the range of
    /// the sigmoid. The bound covers all iterations and the rounding of decoding. It is infinite
    /// with bootstrapping, for which no bound is known.
    #[must_use]
    pub fn largest_error(&self) -> f64 {
        self.largest_error
    }

    /// Returns `log2` of the standard deviation of the error that is expected to dominate.
    #[must_use]
    pub fn noise_log2(&self) -> f64 {
        match self.refresh {
            Some(_) => -self.scales.precision_bits.min(refresh::PRECISION_BITS),
            None => -self.scales.precision_bits,
        }
    }

    /// Returns the division of the planned rows into batches.
    #[must_use]
    pub fn batches(&self) -> &Batches {
        &self.batches
    }

    /// Returns the groups of rows of a batch: the planned groups, or the groups of
    /// [`TrainPlan::for_groups`].
    #[must_use]
    pub fn groups(&self) -> usize {
        self.layout.groups
    }

    /// Returns the number of ciphertexts of a group of rows.
    #[must_use]
    pub fn group_len(&self) -> usize {
        self.layout.group()
    }

    /// Returns the groups of a batch that a table of this number of rows needs.
    #[must_use]
    pub fn groups_for(&self, rows: usize) -> usize {
        self.batches.of_rows(rows).most_rows().div_ceil(self.layout.blocks).max(1)
    }

    /// Returns this plan for tables that together have `groups` groups of rows in each batch, at
    /// most the planned number.
    ///
    /// # Errors
    /// [`Error::NotAsPlanned`] for 0 groups, or more than planned.
    pub fn for_groups(&self, groups: usize) -> Result<Self> {
        let most = self.layout.groups;
        if groups == 0 || groups > most {
            let needed = format_args!("1 to {most}");
            return Err(not_as_planned("groups of rows", groups, needed));
        }
        Ok(Self { layout: Layout { groups, ..self.layout }, ..self.clone() })
    }

    /// Returns the number of ciphertexts of the encrypted rows, of the batches that the training
    /// uses.
    #[must_use]
    pub fn row_ciphertexts(&self) -> usize {
        self.used_batches() * self.layout.ciphertexts()
    }

    /// Returns the number of batches whose rows are used. Iterations with means of labels alone use
    /// none.
    pub(super) fn used_batches(&self) -> usize {
        match self.job.spec.iterations > self.job.spec.label_iterations() {
            true => self.batches.used(self.job.spec.iterations),
            false => 0,
        }
    }

    /// Returns the number of ciphertexts after the rows: the means of labels of each model, over
    /// all rows or over each batch, and the penalty, if any.
    #[must_use]
    pub fn sum_ciphertexts(&self) -> usize {
        self.label_batches() * self.job.spec.models() + usize::from(self.penalised())
    }

    /// Returns the number of means of labels of each model.
    pub(super) fn label_batches(&self) -> usize {
        match self.job.spec.preparation {
            super::Preparation::Scale => self.batches.used(self.job.spec.iterations),
            _ => 1,
        }
    }

    pub(super) fn penalised(&self) -> bool {
        self.job.spec.penalty != super::Penalty::None
    }

    /// Returns the groups of a batch of a table with this number of ciphertexts.
    ///
    /// # Errors
    /// [`Error::NotAsPlanned`] if there is no such table.
    pub fn groups_of(&self, ciphertexts: usize) -> Result<usize> {
        let each = self.used_batches() * self.layout.group();
        let rows = ciphertexts.checked_sub(self.sum_ciphertexts());
        let groups = match (rows, each) {
            (Some(0), 0) => Some(1),
            (Some(rows), 1..) if rows % each == 0 => Some(rows / each),
            _ => None,
        };
        groups.filter(|groups| (1..=self.layout.groups).contains(groups)).ok_or_else(|| {
            let sums = self.sum_ciphertexts();
            let most = self.layout.groups;
            let needed = format_args!("{sums} and 1 to {most} times {each}");
            not_as_planned("ciphertexts of the table", ciphertexts, needed)
        })
    }

    /// Returns the range of ciphertexts of the encrypted rows that an iteration, counted from 0,
    /// uses. After the last iteration, returns the range of the last one.
    #[must_use]
    pub fn batch(&self, iteration: u32) -> Range<usize> {
        let count = self.layout.ciphertexts();
        let last = self.job.spec.iterations - 1;
        let start = self.batches.of(iteration.min(last)) * count;
        start..start + count
    }

    /// Returns the level and the scale of the encrypted rows of a batch, counted from 0. The level
    /// is the highest at which an iteration uses the batch.
    #[must_use]
    pub fn input(&self, batch: usize) -> (Level, Scale) {
        let first = self.job.spec.label_iterations();
        let rounds = (first..).zip(&self.scales.rounds);
        let of_batch = rounds.filter(|(iteration, _)| self.batches.of(*iteration) == batch);
        let level = of_batch.map(|(_, round)| round.level).max().unwrap_or(self.level);
        (level, self.scales.data)
    }

    /// Returns the level and the scale of the trained weights.
    #[must_use]
    pub fn output(&self) -> (Level, Scale) {
        self.output_after(self.job.spec.iterations)
    }

    /// Returns the level and the scale of the weights after this number of iterations.
    #[must_use]
    pub fn output_after(&self, iterations: u32) -> (Level, Scale) {
        let full = iterations.checked_sub(self.job.spec.label_iterations() + 1);
        let round = full.and_then(|last| self.scales.rounds.get(last as usize));
        match (round, &self.refresh) {
            (Some(round), _) => (round.left, round.sum * round.read),
            (None, Some(refresh)) => (refresh.output_level(), self.scales.first),
            (None, None) => (self.label_level, self.scales.start),
        }
    }

    /// Returns the number of bootstrappings of each model in this number of leading iterations.
    #[must_use]
    pub fn bootstraps_within(&self, iterations: u32) -> u32 {
        let full = iterations.saturating_sub(self.job.spec.label_iterations());
        let rounds = self.scales.rounds.iter().take(full as usize);
        rounds.map(|round| u32::from(round.refresh)).sum()
    }

    /// Returns the levels between refreshed weights and the lowest level that can be refreshed
    /// again, or `None` without bootstrapping.
    #[must_use]
    pub fn bootstrap_levels(&self) -> Option<u32> {
        self.refresh.as_ref().map(|refresh| refresh.usable_levels())
    }

    /// Returns the evaluator on clear values for this plan. It records the keys used.
    #[must_use]
    pub fn simulator(&self) -> sim::Evaluator {
        let e = sim::Evaluator::for_params(&self.params);
        match &self.refresh {
            Some(refresh) => {
                e.with_ephemeral_secret(refresh.ephemeral_weight()).with_level_keys(&self.keys)
            }
            None => e,
        }
    }

    /// Trains on zeros to find the keys with their levels. It stops at the second bootstrapping,
    /// after which levels repeat.
    fn dry_run(&self) -> Result<KeyRequest> {
        // All models use the same keys, so one is enough.
        let one = TrainSpec { classes: 2, ..self.job.spec };
        let plan = Self { job: Job { spec: one, ..self.job }, ..self.clone() };
        let e = plan.simulator();
        // Only bootstrapping depends on the number of slots.
        let slots = match &plan.refresh {
            Some(_) => plan.layout.period(),
            None => 1,
        };
        let iterations =
            (0..self.job.spec.iterations).take_while(|&t| self.bootstraps_within(t) < 2);
        // Before anything is simulated, because a job may come from a file.
        work::simulated(iterations.count(), self.layout.group(), slots)?;
        let zeros = |level, scale| e.encrypt(&vec![Complex::default(); slots], level, scale);
        let rows = zeros(plan.level, plan.scales.data)?;
        let labels = zeros(plan.label_level, plan.scales.labels)?;
        let mut sums = vec![labels; plan.label_batches()];
        if plan.penalised() {
            sums.push(zeros(plan.level, plan.scales.penalty)?);
        }
        let group = vec![rows; plan.layout.group()];
        let trainer = plan.trainer(&e, sums)?;
        let mut training = trainer.start()?;
        while training.iteration < plan.job.spec.iterations
            && plan.bootstraps_within(training.iteration) < 2
        {
            trainer.refresh(&mut training)?;
            let round = plan.round(training.iteration)?;
            let slopes = plan.slope_sums(&e, round, &group, &training.state[1])?;
            training = plan.next(&e, round, &trainer.sums, slopes, &training)?;
        }
        drop(trainer);
        Ok(e.used_keys())
    }
}

impl TablePlan for TrainPlan {
    fn params(&self) -> &Params {
        &self.params
    }

    /// Each key is at the highest level of its use.
    fn required_keys(&self) -> &KeyRequest {
        &self.keys
    }

    fn bootstraps(&self) -> u32 {
        self.bootstraps_within(self.job.spec.iterations)
    }

    fn ciphertexts(&self) -> usize {
        self.row_ciphertexts() + self.sum_ciphertexts()
    }

    fn table_bytes(&self) -> u64 {
        self.shapes().map(|shape| ciphertext_bytes(&self.params, shape.level)).sum()
    }

    fn outputs(&self) -> usize {
        self.job.spec.models()
    }

    fn result_shapes(&self, iterations: u32) -> Vec<(Level, Scale)> {
        let kept = self.snapshot_shapes(iterations);
        let all = once(self.output_after(iterations)).chain(kept);
        all.flat_map(|shape| repeat_n(shape, self.job.spec.models())).collect()
    }
}
