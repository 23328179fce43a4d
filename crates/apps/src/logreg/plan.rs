use super::{
    budget::{Budget, LARGEST_ROW_WEIGHT, Scales, Segments, Sigmoid, rounding_bits},
    reference::{Batches, Step, TrainError, TrainSpec, schedule},
    refresh::{self, Refresh},
    score::ScorePlan,
    train::Stage,
};
use crate::{Error, Result, SECURITY_BITS};
use core::ops::Range;
use serde::{Deserialize, Serialize};
use sudare::{
    circuits::sim,
    ckks::{Complex, Params, Release, Scale, Spec},
    rlwe::{KeyRequest, Level, SecretDistribution, max_log2_qp},
};

/// `-log2` of the standard deviations of errors of weights, each on its own, that proposed
/// parameters are made for. Several add up, so the largest error of a weight is some 2^-14.
const PROPOSED_PRECISION_BITS: f64 = 17.0;

/// The same for parameters that a plan accepts: weights come within some 2^-10.
const LEAST_PRECISION_BITS: f64 = 13.0;

/// The largest error of a weight against the one expected to dominate, as `log2`: eight standard
/// deviations of several that add up.
const LARGEST_ERROR_BITS: f64 = 5.0;

/// Rings in which parameters are proposed.
const LOG_N: core::ops::RangeInclusive<u32> = 10..=17;

/// Most iterations of a plan.
const MOST_ITERATIONS: u32 = 1000;

/// What is public about a training: the shape of the table, and how to train.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Rows of the table, at least 1.
    pub rows: usize,
    /// Feature columns, at least 1; the intercept and the target do not count.
    pub features: usize,
    /// How to train.
    pub spec: TrainSpec,
}

/// How a batch of rows lies in ciphertexts.
///
/// A row, its `features + 1` entries and zeros after them, is cut into pieces of `width` entries.
/// Slots are a sequence of blocks twice as long, each with a piece in its first half and zeros in
/// the second, so that sums over the slots around an entry reach all entries of its piece and
/// none of another. A group of as many rows as a ciphertext has blocks takes as many ciphertexts
/// as a row has pieces: block `p` of the `j`-th has piece `p + j`, in a circle, of row `p`.
///
/// Weights have their pieces in order, again and again: rotated by `j` blocks they fit the `j`-th
/// ciphertext of every group, and they are a single ciphertext, however long rows are. With a
/// single piece, a row is a block.
///
/// Where rows have weights, a second copy of the group follows the first, each row times its weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Entries of a row with its intercept.
    pub entries: usize,
    /// Entries of a piece, a power of two.
    pub width: usize,
    /// Pieces of a row and ciphertexts of a copy of a group, a power of two.
    pub pieces: usize,
    /// Copies of each group: 1, or 2 where rows have weights.
    pub copies: usize,
    /// Blocks of a ciphertext and rows of a group, a power of two and at least [`Layout::pieces`].
    pub blocks: usize,
    /// Groups of a batch.
    pub groups: usize,
    /// Groups whose products are summed before they are relinearised.
    pub summed: usize,
}

/// Key switches in an iteration, as many at so many levels below its first.
type Switches = [(f64, u32); 3];

impl Layout {
    /// The most groups whose products are summed before they are relinearised: what is held in
    /// memory of each.
    const SUMMED: usize = 8;

    /// Key switches that the other work on a ciphertext of rows takes as long as: two products
    /// before relinearisation, and a rescaling.
    pub const CIPHERTEXT_COST: f64 = 0.5;

    /// The layout of batches of up to `rows` that takes the fewest key switches, of those that can
    /// be divided among the workers of a training, or among the most if none can.
    fn new(
        (rows, features): (usize, usize),
        spec: &TrainSpec,
        log_n: u32,
        sigmoid: &Sigmoid,
    ) -> Result<Self> {
        let workers = spec.workers.unwrap_or(1);
        let rank = |layout: &Self| {
            let layout = layout.for_workers(workers);
            (workers.saturating_sub(layout.sums()), layout.cost(sigmoid))
        };
        let layout = Self::cheapest(rows, features, log_n, rank)?.for_workers(workers);
        let copies = if spec.class_weights.is_some() { 2 } else { 1 };
        Ok(Self { copies, ..layout })
    }

    /// The layout of up to `rows` with the least cost; of equal ones, that with the longest pieces.
    pub fn cheapest<C: PartialOrd>(
        rows: usize,
        features: usize,
        log_n: u32,
        cost: impl Fn(&Self) -> C,
    ) -> Result<Self> {
        if rows == 0 || features == 0 {
            return Err(TrainError::Empty.into());
        }
        let slots = 1usize << (log_n - 1);
        let fit = (slots / 2).saturating_sub(1);
        if features > fit {
            return Err(Error::TooManyFeatures { found: features, log_n, fit });
        }
        let entries = features + 1;
        let padded = entries.next_power_of_two();
        let mut best = Self::of_width(rows, entries, padded, slots);
        let widths = core::iter::successors(Some(padded / 2), |width| Some(width / 2));
        for width in widths.take_while(|&width| width > 0) {
            let other = Self::of_width(rows, entries, width, slots);
            if cost(&other) < cost(&best) {
                best = other;
            }
        }
        Ok(best)
    }

    /// With pieces of `width` entries, for ciphertexts of `slots`.
    pub fn of_width(rows: usize, entries: usize, width: usize, slots: usize) -> Self {
        let pieces = entries.next_power_of_two() / width;
        let blocks = rows.min(slots / (2 * width)).next_power_of_two().max(pieces);
        let groups = rows.div_ceil(blocks);
        Self { entries, width, pieces, copies: 1, blocks, groups, summed: Self::SUMMED }
    }

    /// With as many sums of products as workers, if there are as many groups.
    fn for_workers(self, workers: usize) -> Self {
        Self { summed: (self.groups / workers).clamp(1, Self::SUMMED), ..self }
    }

    fn cost(&self, sigmoid: &Sigmoid) -> f64 {
        let switches: f64 = self.key_switches(sigmoid).iter().map(|(count, _)| count).sum();
        switches + Self::CIPHERTEXT_COST * self.multiplied() as f64
    }

    /// Those of an iteration.
    fn key_switches(&self, sigmoid: &Sigmoid) -> Switches {
        let Self { pieces, groups, .. } = *self;
        let [rows, sums] = [self.row_sums().count(), self.block_sums().count()];
        // `y^2` of each group, and a second product of each ciphertext.
        let (squares, products) = match &sigmoid.tail {
            None => (0, 1),
            Some(tail) => (usize::from(tail.inner.is_some()), 2),
        };
        let turns = (pieces - 1) as f64;
        let within = (rows + 1 + squares) as f64 * groups as f64;
        let last = pieces as f64 * self.sums() as f64;
        [
            (turns + groups as f64, 0),
            (within + products as f64 * self.multiplied() as f64, 1),
            (last + turns + sums as f64, sigmoid.levels() - 1),
        ]
    }

    /// Slots of a block.
    pub fn block(&self) -> usize {
        2 * self.width
    }

    /// Slots after which weights repeat.
    pub fn period(&self) -> usize {
        self.block() * self.pieces
    }

    pub fn slots(&self) -> usize {
        self.block() * self.blocks
    }

    /// Ciphertexts of a group.
    pub fn group(&self) -> usize {
        self.copies * self.pieces
    }

    /// The ciphertexts of a group that inner products are taken with, and those that are summed.
    pub fn split<'a, C>(&self, group: &'a [C]) -> (&'a [C], &'a [C]) {
        (&group[..self.pieces], &group[group.len() - self.pieces..])
    }

    /// Ciphertexts of the groups whose products are summed before they are relinearised.
    pub fn summed_ciphertexts(&self) -> usize {
        self.summed * self.group()
    }

    /// Ciphertexts of a batch.
    pub fn ciphertexts(&self) -> usize {
        self.groups * self.group()
    }

    /// Ciphertexts of a batch that inner products are taken with, as many as are then multiplied.
    pub fn multiplied(&self) -> usize {
        self.groups * self.pieces
    }

    /// Sums of products of a batch that are relinearised for each piece.
    pub fn sums(&self) -> usize {
        self.groups.div_ceil(self.summed)
    }

    /// Rotations, each followed by a sum with what was rotated, that put the sum of a piece into
    /// each of its entries.
    pub fn row_sums(&self) -> impl Iterator<Item = i64> {
        let width = self.width as i64;
        // A piece of one entry is its sum.
        let copy = (width > 1).then_some(-width);
        copy.into_iter().chain(powers_of_two(1, width))
    }

    /// The same, that put the sum of all periods into each period.
    pub fn block_sums(&self) -> impl Iterator<Item = i64> {
        powers_of_two(self.period() as i64, self.slots() as i64)
    }

    /// The slots of the ciphertext of a group that has its pieces turned by `turn` blocks.
    pub fn packed(&self, rows: &[Vec<f64>], turn: usize) -> Vec<f64> {
        let mut slots = vec![0.0; self.slots()];
        for (p, (block, row)) in slots.chunks_exact_mut(self.block()).zip(rows).enumerate() {
            if let Some(piece) = row.chunks(self.width).nth((p + turn) % self.pieces) {
                block[..piece.len()].copy_from_slice(piece);
            }
        }
        slots
    }

    /// Steps of rotation whose sums turn pieces to every place: 1, 2, 4 … blocks.
    pub fn turns(&self) -> impl DoubleEndedIterator<Item = i64> {
        let block = self.block() as i64;
        (0..self.pieces.ilog2()).map(move |k| block << k)
    }
}

/// `start, 2 start, 4 start, …` below `end`.
pub(super) fn powers_of_two(start: i64, end: i64) -> impl Iterator<Item = i64> {
    core::iter::successors(Some(start), |k| Some(2 * k)).take_while(move |&k| k < end)
}

/// A [`Job`] laid out for parameters: how rows are encrypted, which keys the server needs, and
/// every scale of the computation. It holds nothing secret.
///
/// Training computes what [`super::reference::train`] does. The first two iterations are a sum of
/// rows; each one after takes 3 levels at degree 3 of the sigmoid and 4 at degrees 5 and 7.
/// When these run out, weights and momentum are bootstrapped, together. Weights must stay below 16
/// in absolute value, or below the learning rate of the second iteration if that is larger: nobody
/// can see on the server if they do not, so [`TrainPlan::encrypt`] refuses tables with which they
/// do not.
///
/// With [`ClassWeights`](super::ClassWeights), each row `z` is encrypted twice, as it is and times
/// its weight `c`: `z . v` is taken with the first and `s(z . v) c z` with the second, so that no
/// level, key or larger prime is spent. The server, which sees that there are two, does not learn
/// the weights, nor how many rows a class has. Heavy rows make errors larger: in each batch, the root
/// mean square of the weights, whose mean over all rows is 1, must be 8 at most, which suits
/// balanced weights of classes of 0.4 % of the rows or more. [`TrainPlan::encrypt`] refuses others,
/// and [`TrainPlan::largest_error`] allows for such rows whatever the weights are.
///
/// Errors of iterations add up, and momentum carries them on: after `k` of them the error of a weight
/// that the rows say little about can be `k^1.5` times that of one.
///
/// A ciphertext holds pieces of rows, and as many ciphertexts as a row has pieces hold a group of
/// rows. Key switches of an iteration at degree 3: one for each ciphertext; `log2` of the entries of
/// a piece and 3 for each group; and `3 pieces - 2 + log2(rows / pieces)`, the rows being those of
/// a group. The length of pieces is the one for which these are fewest: with 197 entries and batches
/// of 1,024 rows at `N = 2^15` it is 32, and 32 ciphertexts take about a fourth of the key switches
/// that they take with whole rows.
///
/// Reference: Han, "Bootstrapping Methods for Homomorphic Encryption", Seoul National University,
/// chapter 6, algorithm 7. Deviations: blocks are twice as long as pieces, so that nothing is
/// masked after sums; pieces of a row are skewed over ciphertexts instead of having a ciphertext
/// each, so that the weights are one ciphertext instead of one for each piece, which is summed
/// over rows and bootstrapped by itself; products are summed before they are relinearised;
/// constants are absorbed into scales, which with the blocks makes 3 levels an iteration instead
/// of 5; sums over rows and slots are taken after rescaling, where they are cheaper, at scales
/// that allow for their errors.
#[derive(Debug, Clone)]
pub struct TrainPlan {
    pub(super) job: Job,
    pub(super) params: Params,
    pub(super) layout: Layout,
    pub(super) batches: Batches,
    pub(super) sigmoid: Sigmoid,
    pub(super) scales: Box<Scales>,
    /// Of encrypted rows.
    pub(super) level: Level,
    /// How weights are bootstrapped, if they are.
    pub(super) refresh: Option<Box<Refresh>>,
    /// What weights and momentum must not exceed in absolute value.
    pub(super) largest_weight: f64,
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
    /// clear, or for weights to be shared, as are those that are bootstrapped; [`Error::Engine`] if
    /// a value would not fit the modulus.
    pub fn new(job: &Job, params: &Params) -> Result<Self> {
        let log_n = params.log_n();
        let parts = Parts::new(job, log_n)?;
        let (top, levels) = (params.top().0, parts.sigmoid.levels());
        let full = job.spec.iterations.saturating_sub(2);
        let refuse = |fit: u32| Error::TooManyIterations {
            found: job.spec.iterations,
            needed: u64::from(full) * u64::from(levels),
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
        let largest_weight = parts.budget(&schedule, Segments::One).largest_weight();
        let Course { refresh, level, scales } =
            if u64::from(full) * u64::from(levels) + u64::from(parts.spare) <= u64::from(top) {
                let budget = parts.budget(&schedule, Segments::One);
                parts.course(None, Level(budget.depth()), budget.scales(params.chain()))?
            } else {
                parts
                    .segments(&schedule, params, largest_weight)?
                    .ok_or_else(|| refuse(2 + top.saturating_sub(parts.spare) / levels))?
            };
        let Parts { layout, batches, sigmoid, .. } = parts;
        let keys = KeyRequest::new();
        let params = params.clone();
        let mut plan = Self {
            job: *job,
            params,
            layout,
            batches,
            sigmoid,
            scales: Box::new(scales),
            level,
            refresh,
            largest_weight,
            keys,
        };
        if let Some(refresh) = &plan.refresh {
            // First to learn what is used beside these, then where.
            plan.keys = refresh.required_keys().clone();
            plan.keys = plan.dry_run()?.into_fitted(plan.params.rlwe());
        }
        plan.keys = plan.dry_run()?;
        if job.spec.scorable {
            plan.keys |= ScorePlan::trained(&plan, 1)?.required_keys().clone();
        }
        Ok(plan)
    }

    /// Parameters, secure at 128 bits with a uniform ternary secret, in which the job is done in
    /// the least time by an estimate: those of the smallest ring with levels for all iterations,
    /// or some for bootstrapping.
    ///
    /// # Errors
    /// [`Error::Train`]; [`Error::TooManyFeatures`] and [`Error::TooManyIterations`] if even the
    /// ring of dimension 2^17 is too small, the latter naming the iterations that fit;
    /// [`Error::Engine`] if there are too few primes.
    pub fn auto_params(job: &Job) -> Result<Params> {
        let largest = *LOG_N.end();
        let sigmoid = Parts::new(job, largest)?.sigmoid;
        if let Some(spec) = propose(job)? {
            return Ok(Params::new(spec)?);
        }
        let fits = |iterations: u32| {
            let job = Job { spec: TrainSpec { iterations, ..job.spec }, ..*job };
            propose(&job).is_ok_and(|spec| spec.is_some())
        };
        let found = job.spec.iterations;
        let (mut fit, mut above) = (0, found.min(MOST_ITERATIONS + 1));
        while above - fit > 1 {
            let middle = fit + (above - fit) / 2;
            *(if fits(middle) { &mut fit } else { &mut above }) = middle;
        }
        Err(Error::TooManyIterations {
            found,
            needed: u64::from(found.saturating_sub(2)) * u64::from(sigmoid.levels()),
            log_n: largest,
            fit,
        })
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

    /// A bound of the errors of weights, in absolute value, that holds for every table that
    /// [`TrainPlan::encrypt`] takes.
    #[must_use]
    pub fn largest_error(&self) -> f64 {
        let precision_bits = match self.refresh {
            Some(_) => self.scales.precision_bits.min(refresh::PRECISION_BITS),
            None => self.scales.precision_bits,
        };
        (LARGEST_ERROR_BITS - precision_bits).exp2()
    }

    /// How the rows are cut into batches.
    #[must_use]
    pub fn batches(&self) -> &Batches {
        &self.batches
    }

    /// Ciphertexts of the encrypted table: of those batches that the training looks at.
    #[must_use]
    pub fn ciphertexts(&self) -> usize {
        self.batches.used(self.job.spec.iterations) * self.layout.ciphertexts()
    }

    /// Which ciphertexts of the encrypted table an iteration looks at, counted from 0 as it is;
    /// after the last one, those of the last.
    #[must_use]
    pub fn batch(&self, iteration: u32) -> Range<usize> {
        let count = self.layout.ciphertexts();
        let last = self.job.spec.iterations - 1;
        let start = self.batches.of(iteration.min(last)) * count;
        start..start + count
    }

    /// Level and scale of the encrypted table.
    #[must_use]
    pub fn input(&self) -> (Level, Scale) {
        (self.level, self.scales.data)
    }

    /// Level and scale of the trained weights.
    #[must_use]
    pub fn output(&self) -> (Level, Scale) {
        let level = match (self.scales.rounds.last(), &self.refresh) {
            (Some(round), _) => round.left,
            (None, Some(refresh)) => refresh.output_level(),
            (None, None) => self.level,
        };
        (level, self.scales.end)
    }

    /// Bootstrappings in the first so many iterations.
    #[must_use]
    pub fn bootstraps(&self, iterations: u32) -> u32 {
        let rounds = self.scales.rounds.iter().take(iterations.saturating_sub(2) as usize);
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
        let e = sim::Evaluator::new(self.params.log_n(), self.params.chain().clone());
        match &self.refresh {
            Some(refresh) => {
                e.with_ephemeral_secret(refresh.ephemeral_weight()).with_fitted_keys(&self.keys)
            }
            None => e,
        }
    }

    /// Trains on zeros until the second bootstrapping, after which levels repeat, to learn which
    /// keys are used where.
    fn dry_run(&self) -> Result<KeyRequest> {
        let e = self.simulator();
        let slots = match &self.refresh {
            Some(_) => self.layout.period(),
            None => 1,
        };
        let zeros = e.encrypt(&vec![Complex::default(); slots], self.level, self.scales.data)?;
        let group = vec![zeros; self.layout.group()];
        let trainer = self.trainer(&e)?;
        let mut training = self.first(&e, self.row_sums(&e, &group)?)?;
        while training.iteration < self.job.spec.iterations
            && self.bootstraps(training.iteration) < 2
            && let Stage::Round(round) = self.stage(training.iteration)?
        {
            trainer.refresh(&mut training)?;
            let sums = self.slope_sums(&e, round, &group, &training.state[1])?;
            training = self.next(&e, round, sums, &training)?;
        }
        drop(trainer);
        Ok(e.used_keys())
    }
}

/// What the levels of a chain are used for.
struct Course {
    refresh: Option<Box<Refresh>>,
    /// Of encrypted rows.
    level: Level,
    scales: Scales,
}

/// What a ring decides about a job.
struct Parts {
    log_n: u32,
    layout: Layout,
    batches: Batches,
    sigmoid: Sigmoid,
    /// Levels below those of the training: one, if rows are to be scored.
    spare: u32,
    /// Root mean square of the weights of the rows of a batch, at most.
    row_weight: f64,
    /// `-log2` of the standard deviation of an error that sharing the weights takes, if they are
    /// to be.
    shared_precision_bits: Option<f64>,
}

impl Parts {
    fn new(job: &Job, log_n: u32) -> Result<Self> {
        job.spec.check()?;
        let sigmoid = Sigmoid::new(&job.spec.sigmoid)?;
        let batches = Batches::new(job.rows, &job.spec);
        let shape = (batches.most_rows(), job.features);
        let layout = Layout::new(shape, &job.spec, log_n, &sigmoid)?;
        let shared_precision_bits = job.spec.shared_bits.map(|bits| {
            let largest = Release::default().largest_error(1 + job.features, bits);
            LARGEST_ERROR_BITS - largest.log2()
        });
        let spare = u32::from(job.spec.scorable);
        let row_weight = job.spec.class_weights.map_or(1.0, |_| LARGEST_ROW_WEIGHT);
        Ok(Self { log_n, layout, batches, sigmoid, spare, row_weight, shared_precision_bits })
    }

    fn course(
        &self,
        refresh: Option<Box<Refresh>>,
        level: Level,
        scales: Scales,
    ) -> Result<Course> {
        let (what, found, needed) = match self.shared_precision_bits {
            None => ("a trained weight", scales.precision_bits, LEAST_PRECISION_BITS),
            Some(needed) if refresh.is_some() => {
                ("a bootstrapped weight to be shared", refresh::PRECISION_BITS, needed)
            }
            Some(needed) => ("a weight to be shared", scales.precision_bits, needed),
        };
        if found.is_nan() || found < needed {
            return Err(Error::Precision { what, found, needed });
        }
        Ok(Course { refresh, level, scales })
    }

    /// Of proposed parameters, for rows of weight 1. Primes are not exactly as large as asked for.
    fn proposed_precision_bits(&self) -> f64 {
        let shared = |bits| bits + 1.0 + self.row_weight.log2();
        self.shared_precision_bits.map_or(PROPOSED_PRECISION_BITS, shared)
    }

    fn budget<'a>(&'a self, schedule: &'a [Step], segments: Segments) -> Budget<'a> {
        let &Self { log_n, ref layout, ref batches, ref sigmoid, spare, row_weight, .. } = self;
        Budget { layout, batches, sigmoid, schedule, log_n, segments, spare, row_weight }
    }

    /// With bootstrapping that raises to the highest level at which what it leaves of the chain
    /// suits the weights; none if no level leaves enough. A set made for bootstrapping of more slots
    /// has its large primes further down than they are needed here.
    fn segments(
        &self,
        schedule: &[Step],
        params: &Params,
        largest_weight: f64,
    ) -> Result<Option<Course>> {
        let mut refused = None;
        for raised in (0..=params.raised_top().0).rev().map(Level) {
            let refresh = match Refresh::plan(params, raised, &self.layout, largest_weight) {
                Err(sudare::Error::LevelExhausted { .. }) => break,
                Err(sudare::Error::ScaleOutOfRange { .. } | sudare::Error::Circuit(_)) => continue,
                other => other?,
            };
            let top = refresh.output_level();
            if top >= params.top() {
                // There is no level for the sum.
                continue;
            }
            let rounds = (refresh.usable_levels() / self.sigmoid.levels()) as usize;
            if rounds == 0 {
                break;
            }
            let budget = self.budget(schedule, Segments::Many { top, rounds });
            let scales = budget.segment_scales(params.chain(), refresh.output_scale());
            // The sum of all rows is brought to the scale of refreshed weights.
            match self.course(Some(Box::new(refresh)), Level(top.0 + 1), scales) {
                Ok(course) => return Ok(Some(course)),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        refused.map_or(Ok(None), Err)
    }
}

impl Parts {
    /// Key switches of iterations that begin at these levels, with the level of each.
    fn key_switches(
        &self,
        levels: impl Iterator<Item = usize>,
    ) -> impl Iterator<Item = (f64, usize)> {
        let switches = self.layout.key_switches(&self.sigmoid);
        levels.flat_map(move |level| {
            switches.map(|(count, below)| (count, level.saturating_sub(below as usize)))
        })
    }
}

/// A proposed chain, and what training on it costs, in transforms of a limb of dimension 1.
type Proposal = (f64, Spec);

/// The cheapest parameters for a job, if there are any.
fn propose(job: &Job) -> Result<Option<Spec>> {
    if job.spec.iterations > MOST_ITERATIONS {
        return Ok(None);
    }
    let schedule = schedule(&job.spec);
    let mut best: Option<Proposal> = None;
    let mut leveled = false;
    for log_n in LOG_N {
        let parts = match Parts::new(job, log_n) {
            Err(Error::TooManyFeatures { .. }) => continue,
            other => other?,
        };
        if !leveled && let Some(proposal) = propose_levels(&parts, &schedule) {
            best = cheaper(best, proposal);
            leveled = true;
        }
        // Bootstrapped weights are not precise enough to be shared.
        let rounds = if job.spec.shared_bits.is_none() { schedule.len() } else { 1 };
        for rounds in 1..rounds {
            match propose_bootstrapping(&parts, &schedule, rounds) {
                Some(proposal) => best = cheaper(best, proposal),
                None => break,
            }
        }
    }
    Ok(best.map(|(_, spec)| spec))
}

fn cheaper(best: Option<Proposal>, other: Proposal) -> Option<Proposal> {
    match best {
        Some(best) if best.0 <= other.0 => Some(best),
        _ => Some(other),
    }
}

/// With a level for every step of every iteration.
fn propose_levels(parts: &Parts, schedule: &[Step]) -> Option<Proposal> {
    let budget = parts.budget(schedule, Segments::One);
    let chain = PrimeSizes {
        log_n: parts.log_n,
        q_bits: budget.prime_bits(parts.proposed_precision_bits()),
        log2_scale: parts.proposed_precision_bits() + f64::from(parts.log_n),
    };
    let (levels, top) = (parts.sigmoid.levels() as usize, budget.depth() as usize);
    chain.propose(None, parts.key_switches((1..=top).rev().step_by(levels)))
}

/// With bootstrapping after every so many iterations.
fn propose_bootstrapping(parts: &Parts, schedule: &[Step], rounds: usize) -> Option<Proposal> {
    let &Parts { log_n, ref layout, ref sigmoid, .. } = parts;
    let budget = parts.budget(schedule, Segments::One);
    let (segment, weights) = budget.segment_bits(rounds, PROPOSED_PRECISION_BITS);
    let largest = budget.largest_weight();
    let rounding = rounding_bits(log_n);
    let sizes = refresh::Sizes::new(layout, log_n, rounding, weights, largest);
    let above = sizes.low.len() - 1 + segment.len();
    let q_bits = [sizes.low, segment, sizes.high].concat();
    let (levels, full) = (sigmoid.levels() as usize, schedule.len().saturating_sub(2));
    // Such a chain would be planned without bootstrapping.
    if full * levels < q_bits.len() {
        return None;
    }
    let top = q_bits.len() - 1;
    let switches = f64::from(refresh::key_switches(layout, log_n));
    let bootstraps = core::iter::repeat_n((switches, top), full.div_ceil(rounds) - 1);
    let rounds = parts.key_switches((0..full).map(|k| above - levels * (k % rounds)));
    let chain = PrimeSizes { log_n, q_bits, log2_scale: sizes.log2_scale };
    chain.propose(Some(above), rounds.chain(bootstraps))
}

/// A chain without special primes.
struct PrimeSizes {
    log_n: u32,
    q_bits: Vec<Vec<f64>>,
    log2_scale: f64,
}

impl PrimeSizes {
    /// The whole chain, if it is secure, and what a number of key switches at each of some levels
    /// cost. Keys for levels up to `fitted` may have more special primes than those for all.
    fn propose(
        self,
        fitted: Option<usize>,
        used: impl Iterator<Item = (f64, usize)>,
    ) -> Option<Proposal> {
        let Self { log_n, q_bits, log2_scale } = self;
        let limit = max_log2_qp(log_n, SecretDistribution::UniformTernary, SECURITY_BITS);
        let p_bits = special_primes(&q_bits.concat(), limit)?;
        let fitted_p_bits = match fitted {
            Some(level) => further_special_primes(&q_bits[..=level].concat(), &p_bits, limit),
            None => Vec::new(),
        };
        let all = [&p_bits[..], &fitted_p_bits].concat();
        let costs: Vec<f64> = (0..q_bits.len())
            .map(|level| switch_cost(&q_bits[..=level].concat(), &all, p_bits.len(), limit))
            .collect();
        let transforms: f64 = used.map(|(count, level)| count * costs[level]).sum();
        let cost = transforms * f64::from(log_n) * f64::from(log_n).exp2();
        let secret = SecretDistribution::UniformTernary;
        Some((
            cost,
            Spec {
                log_n,
                log2_scale,
                q_bits,
                p_bits,
                raised: None,
                fitted_p_bits,
                secret,
                insecure: false,
            },
        ))
    }
}

/// Above the product of a digit's primes: keeps what key switching adds below rounding errors.
const MARGIN_BITS: f64 = 4.0;

/// Special primes up to this size have the fastest kernels.
const PRIME_BITS: f64 = 50.0;

/// Primes are not exactly as large as asked for.
pub(super) const SLACK_BITS: f64 = 0.5;

/// Transforms of a key switch: raising each digit, and dividing two polynomials by the special
/// primes.
fn transforms(primes: usize, digits: usize) -> usize {
    primes * (digits + 2)
}

/// Sizes of special primes for the fastest key switching at the top level of a chain, if the
/// modulus with them can stay below `2^limit`.
pub(crate) fn special_primes(q_bits: &[f64], limit: f64) -> Option<Vec<f64>> {
    let log2_q: f64 = q_bits.iter().sum();
    (1..=q_bits.len())
        .map(|alpha| {
            let digits = q_bits.chunks(alpha).map(|digit| digit.iter().sum::<f64>());
            (alpha, digits.fold(0.0, f64::max) + MARGIN_BITS)
        })
        .filter(|(_, log2_p)| log2_q + log2_p + SLACK_BITS <= limit)
        .map(|(alpha, log2_p)| {
            let count = (log2_p / PRIME_BITS).ceil();
            let cost = transforms(q_bits.len() + count as usize, q_bits.len().div_ceil(alpha));
            (cost, vec![log2_p / count; count as usize])
        })
        .min_by_key(|&(cost, _)| cost)
        .map(|(_, p_bits)| p_bits)
}

/// Sizes of special primes beside `p_bits` for keys of a level with these primes: as many as make
/// one digit of them, or as its modulus has room for.
fn further_special_primes(q_bits: &[f64], p_bits: &[f64], limit: f64) -> Vec<f64> {
    let (log2_q, log2_p) = (q_bits.iter().sum::<f64>(), p_bits.iter().sum::<f64>());
    let wanted = ((log2_q + MARGIN_BITS - log2_p) / PRIME_BITS).ceil();
    let room = ((limit - SLACK_BITS - log2_q - log2_p) / PRIME_BITS).floor();
    vec![PRIME_BITS; wanted.min(room).max(0.0) as usize]
}

/// Transforms of a key switch at a level with these primes, with as many special primes as make
/// it cheapest: the first `least`, or more where the modulus has room for them.
fn switch_cost(q_bits: &[f64], p_bits: &[f64], least: usize, limit: f64) -> f64 {
    let log2_q: f64 = q_bits.iter().sum();
    let cost = |count: usize| {
        let log2_p: f64 = p_bits[..count].iter().sum();
        // As many primes from the bottom in each digit as have a product of at most that of the
        // special ones.
        let (mut digits, mut digit) = (1, 0.0);
        for bits in q_bits {
            digit += bits;
            if digit > log2_p {
                (digits, digit) = (digits + 1, *bits);
            }
        }
        let secure = count <= least || log2_q + log2_p + SLACK_BITS <= limit;
        secure.then(|| transforms(q_bits.len() + count, digits))
    };
    (least..=p_bits.len()).filter_map(cost).min().unwrap_or(usize::MAX) as f64
}
