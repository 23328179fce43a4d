use super::{
    budget::Scales,
    inputs::{PlanInputs, StageLevels},
    job::{Job, MOST_ITERATIONS},
    layout::{Layout, Order},
    planned::not_as_planned,
    refresh::{self, Refresh},
    score::{Leaves, ScorePlan},
    sigmoid::Sigmoid,
    spec::{Batches, TrainSpec, schedule},
    work,
};
use crate::{Error, Result};
use core::ops::Range;
use sudare::{
    circuits::sim,
    ckks::{Complex, Params, Scale},
    rlwe::{KeyRequest, Level},
};

/// A [`Job`] laid out for parameters: how rows are encrypted, which keys the server needs, and
/// every scale of the computation. It holds nothing secret.
///
/// Training computes what [`super::reference::train`] does. The first iteration, or the first two
/// with [`Preparation::Scale`](super::Preparation::Scale), takes means of labels alone, which the
/// owner of the rows encrypts beside them; each one after takes 3 levels at degree 3 of the
/// sigmoid and 4 at degrees 5 and 7, or one more if the polynomial is evaluated before it is
/// multiplied with the rows, which is cheaper for many rows. When these run out, weights and
/// momentum are bootstrapped, together. Weights must stay below 16 in absolute value, or below the
/// learning rate of the first of these iterations if that is larger, and prepared rows' inner
/// products with them within the sigmoid's range: nobody can see on the server if they do not, so
/// [`TrainPlan::check`] refuses tables with which they do not.
///
/// A table may have fewer rows than planned: its rows and sums are then encrypted so that means
/// over the planned rows are means over those that there are, and the server does not learn how
/// many there are. Several tables with fewer rows are trained on together
/// ([`TrainPlan::for_groups`]).
///
/// With [`ClassWeights`](super::ClassWeights), each row `x` is encrypted twice, as it is and times
/// its weight `c`: `x . v` is taken with the first and `o(x . v) c x` with the second, so that no
/// level, key or larger prime is spent. The server, which sees that there are two, does not learn
/// the weights, nor how many rows a class has. Heavy rows make errors larger: in each batch, the
/// root mean square of the weights, whose mean over all rows is 1, must be 8 at most, which suits
/// balanced weights of classes of 0.4 % of the rows or more. [`TrainPlan::check`] refuses others,
/// and [`TrainPlan::largest_error`] allows for such rows whatever the weights are.
///
/// Errors of iterations add up, and momentum carries them on: after `k` of them the error of a
/// weight that the rows say little about can be `k^1.5` times that of one.
///
/// A ciphertext holds pieces of rows, and as many ciphertexts as a row has pieces hold a group of
/// rows. Key switches of an iteration at degree 3 with rows multiplied first: one for each
/// ciphertext; `log2` of the entries of a piece and 3 for each group; and
/// `3 pieces - 2 + log2(rows / pieces)`, the rows being those of a group. With the polynomial
/// first, ciphertexts take none, but each piece one for every eight groups. The length of pieces is
/// the one for which these are fewest: with 197 entries and batches of 1,024 rows at `N = 2^15` it
/// is 32, and 32 ciphertexts take about a fourth of the key switches that they take with whole
/// rows.
///
/// Reference: Han, "Bootstrapping Methods for Homomorphic Encryption", Seoul National University,
/// chapter 6, algorithm 7. Deviations: sums of labels are taken in the clear; blocks are twice as
/// long as pieces, so that nothing is masked after sums; pieces of a row are skewed over
/// ciphertexts instead of having a ciphertext each, so that the weights are one ciphertext instead
/// of one for each piece, which is summed over rows and bootstrapped by itself; products are summed
/// before they are relinearised; constants are absorbed into scales, which with the blocks makes 3
/// levels an iteration instead of 5; sums over rows and slots are taken after rescaling, where they
/// are cheaper, at scales that allow for their errors.
#[derive(Debug, Clone)]
pub struct TrainPlan {
    pub(super) job: Job,
    pub(super) params: Params,
    pub(super) layout: Layout,
    pub(super) order: Order,
    pub(super) batches: Batches,
    pub(super) sigmoid: Sigmoid,
    pub(super) scales: Box<Scales>,
    /// Of the rows of the first batch, and of the penalty.
    pub(super) level: Level,
    /// Of encrypted means of labels.
    pub(super) label_level: Level,
    /// How weights are bootstrapped, if they are.
    pub(super) refresh: Option<Box<Refresh>>,
    /// What weights and momentum must not exceed in absolute value.
    pub(super) largest_weight: f64,
    largest_error: f64,
    keys: KeyRequest,
}

impl TrainPlan {
    /// Plans a job for parameters: on their lowest levels, or, if it needs more than there are,
    /// with bootstrapping on all of them.
    ///
    /// # Errors
    /// [`Error::Train`] for a bad specification or an empty table; [`Error::TooManyFeatures`];
    /// [`Error::TooManyIterations`] if they do not fit the levels, which have no room for
    /// bootstrapping either, or are more than 1000: it names the number that fits;
    /// [`Error::Precision`] if the primes are too small to come within 2^-10 of training in the
    /// clear, or for weights to be shared, as are those that are bootstrapped; [`Error::Library`]
    /// if a value would not fit the modulus; [`Error::TooMuchWork`].
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
            fit: fit.min(MOST_ITERATIONS),
        };
        if job.spec.iterations > MOST_ITERATIONS {
            let fit = Job { spec: TrainSpec { iterations: MOST_ITERATIONS, ..job.spec }, ..*job };
            return Err(refuse(match Self::new(&fit, params) {
                Err(Error::TooManyIterations { fit, .. }) => fit,
                _ => MOST_ITERATIONS,
            }));
        }
        let schedule = schedule(&job.spec);
        let mut refused = None;
        for inputs in &orders {
            let needed = u64::from(full) * u64::from(inputs.levels()) + u64::from(spare);
            if needed > u64::from(top) {
                continue;
            }
            match inputs.leveled(&schedule, params) {
                Ok(levels) => return Self::planned(job, params, inputs, levels),
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
            // First to learn what is used beside these, then where.
            plan.keys = refresh.required_keys().clone();
            plan.keys = plan.dry_run()?.into_level_keys(plan.params.rlwe());
        }
        plan.keys = plan.dry_run()?;
        if job.spec.scorable {
            plan.keys |= plan.scoring(1)?.required_keys().clone();
        }
        Ok(plan)
    }

    /// To score `rows` by what this training leaves.
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

    /// The job.
    #[must_use]
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The keys that the server needs, each at the highest level of its use.
    #[must_use]
    pub fn required_keys(&self) -> &KeyRequest {
        &self.keys
    }

    /// A bound of the errors of weights, in absolute value, in the coordinates of the training,
    /// that holds for every table that [`TrainPlan::check`] takes, of a plan for weights to be
    /// shared; for others inner products must be within the range of the sigmoid. It counts all
    /// iterations and the rounding of decoding. Infinite with bootstrapping, of which no bound is
    /// known.
    #[must_use]
    pub fn largest_error(&self) -> f64 {
        self.largest_error
    }

    /// `log2` of the standard deviation of the error that is expected to dominate.
    #[must_use]
    pub fn noise_log2(&self) -> f64 {
        match self.refresh {
            Some(_) => -self.scales.precision_bits.min(refresh::PRECISION_BITS),
            None => -self.scales.precision_bits,
        }
    }

    /// How the rows planned are cut into batches.
    #[must_use]
    pub fn batches(&self) -> &Batches {
        &self.batches
    }

    /// Groups of rows of a batch: those that the plan has room for, or those of the tables that it
    /// is for.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.layout.groups
    }

    /// Ciphertexts of a group of rows.
    #[must_use]
    pub fn group_len(&self) -> usize {
        self.layout.group()
    }

    /// The groups of a batch that a table of so many rows takes.
    #[must_use]
    pub fn groups_for(&self, rows: usize) -> usize {
        self.batches.of_rows(rows).most_rows().div_ceil(self.layout.blocks).max(1)
    }

    /// This plan for tables with so many groups of rows in each batch, together: at most as
    /// many as were planned.
    ///
    /// # Errors
    /// [`Error::NotAsPlanned`] for none, or more.
    pub fn for_groups(&self, groups: usize) -> Result<Self> {
        let most = self.layout.groups;
        if groups == 0 || groups > most {
            let needed = format_args!("1 to {most}");
            return Err(not_as_planned("groups of rows", groups, needed));
        }
        Ok(Self { layout: Layout { groups, ..self.layout }, ..self.clone() })
    }

    /// Ciphertexts of the encrypted rows: of those batches that the training looks at.
    #[must_use]
    pub fn row_ciphertexts(&self) -> usize {
        self.used_batches() * self.layout.ciphertexts()
    }

    /// Batches whose rows are looked at; none by iterations that take means of labels alone.
    pub(super) fn used_batches(&self) -> usize {
        match self.job.spec.iterations > self.job.spec.label_iterations() {
            true => self.batches.used(self.job.spec.iterations),
            false => 0,
        }
    }

    /// Ciphertexts after those of the rows: the means of labels of each model, of all rows or of
    /// each batch, and the penalty, if there is one.
    #[must_use]
    pub fn sum_ciphertexts(&self) -> usize {
        self.label_batches() * self.job.spec.models() + usize::from(self.penalised())
    }

    /// Means of labels of each model.
    pub(super) fn label_batches(&self) -> usize {
        match self.job.spec.preparation {
            super::Preparation::Scale => self.batches.used(self.job.spec.iterations),
            _ => 1,
        }
    }

    pub(super) fn penalised(&self) -> bool {
        self.job.spec.penalty != super::Penalty::None
    }

    /// Ciphertexts of the encrypted table.
    #[must_use]
    pub fn ciphertexts(&self) -> usize {
        self.row_ciphertexts() + self.sum_ciphertexts()
    }

    /// The groups of a batch of a table with so many ciphertexts.
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
            let (sums, most) = (self.sum_ciphertexts(), self.layout.groups);
            let needed = format_args!("{sums} and 1 to {most} times {each}");
            not_as_planned("ciphertexts of the table", ciphertexts, needed)
        })
    }

    /// Which ciphertexts of the encrypted rows an iteration looks at, counted from 0 as it is;
    /// after the last one, those of the last.
    #[must_use]
    pub fn batch(&self, iteration: u32) -> Range<usize> {
        let count = self.layout.ciphertexts();
        let last = self.job.spec.iterations - 1;
        let start = self.batches.of(iteration.min(last)) * count;
        start..start + count
    }

    /// Level and scale of the encrypted rows of a batch, counted from 0: the highest level at which
    /// an iteration takes it.
    #[must_use]
    pub fn input(&self, batch: usize) -> (Level, Scale) {
        let first = self.job.spec.label_iterations();
        let rounds = (first..).zip(&self.scales.rounds);
        let of_batch = rounds.filter(|(iteration, _)| self.batches.of(*iteration) == batch);
        let level = of_batch.map(|(_, round)| round.level).max().unwrap_or(self.level);
        (level, self.scales.data)
    }

    /// Level and scale of the trained weights.
    #[must_use]
    pub fn output(&self) -> (Level, Scale) {
        self.output_after(self.job.spec.iterations)
    }

    /// Level and scale of the weights after so many iterations.
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

    /// Bootstrappings in the first so many iterations, of each model.
    #[must_use]
    pub fn bootstraps(&self, iterations: u32) -> u32 {
        let full = iterations.saturating_sub(self.job.spec.label_iterations());
        let rounds = self.scales.rounds.iter().take(full as usize);
        rounds.map(|round| u32::from(round.refresh)).sum()
    }

    /// Levels between refreshed weights and the lowest that can be refreshed again; none without
    /// bootstrapping.
    #[must_use]
    pub fn bootstrap_levels(&self) -> Option<u32> {
        self.refresh.as_ref().map(|refresh| refresh.usable_levels())
    }

    /// The evaluator on clear values for this plan, which records the keys that it uses.
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

    /// Trains on zeros until the second bootstrapping, after which levels repeat, to learn which
    /// keys are used where.
    fn dry_run(&self) -> Result<KeyRequest> {
        let one = TrainSpec { classes: 2, ..self.job.spec };
        let plan = Self { job: Job { spec: one, ..self.job }, ..self.clone() };
        let e = plan.simulator();
        let slots = match &plan.refresh {
            Some(_) => plan.layout.period(),
            None => 1,
        };
        let iterations = (0..self.job.spec.iterations).take_while(|&t| self.bootstraps(t) < 2);
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
            && plan.bootstraps(training.iteration) < 2
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
