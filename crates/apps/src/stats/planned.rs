//! Parts common to all plans of statistics.

use core::{fmt::Debug, iter::repeat_n};

use sudare::{
    circuits::ckks::ComplexOps,
    ckks::{Ciphertext, Evaluator, Params, Scale, serial::Shape},
    rlwe::{KeyRequest, Level},
};
use sudare_arith::prng::Seed;

use super::{
    Cost, Job, Result, StatsError,
    cost::Inputs,
    packing::{self, Learnt, Packing, check_ciphertexts},
};
use crate::{TablePlan, table_plan::ciphertext_bytes};

/// The circuit of one kind of statistics, with its levels.
pub trait Circuit: Debug + Clone + Send + Sync + Sized {
    /// The shape of the table and of the result, which is public.
    type Job: Debug + Copy + Send + Sync;

    /// The kind in error messages.
    const WHAT: &'static str;

    /// `log2` of the scale of [`Planned::auto_params`].
    const LOG2_SCALE: f64;

    /// Rejects a job out of range.
    fn check(job: &Self::Job) -> Result<()>;

    /// Returns the shape of the table.
    fn table(job: &Self::Job) -> Job;

    /// Returns the levels from the table to the lowest result.
    fn depth(job: &Self::Job) -> Result<u32>;

    /// Returns the smallest secure parameters with scales of this `log2`.
    fn propose(job: &Self::Job, log2_scale: f64) -> Result<Params>;

    /// Returns the smallest secure parameters for the job.
    fn auto_params(job: &Self::Job) -> Result<Params> {
        Self::propose(job, Self::LOG2_SCALE)
    }

    /// Returns the number of ciphertexts of the table in addition to its columns.
    fn further_ciphertexts(_job: &Self::Job, _packing: &Packing) -> u128 {
        0
    }

    /// Returns the circuit at every possible level, the lowest first.
    fn candidates(
        job: &Self::Job,
        params: &Params,
        packing: &Packing,
    ) -> Result<impl Iterator<Item = Self>>;

    /// Simulates the circuit. Returns `None` if the modulus does not hold sums of all rows.
    fn learn(plan: &Planned<Self>) -> Option<Learnt>;

    /// Returns the number of ciphertexts of the result.
    fn outputs(plan: &Planned<Self>) -> usize;

    /// Returns the level and the scale of each ciphertext of the result.
    fn output_shapes(plan: &Planned<Self>) -> Vec<(Level, Scale)>;

    /// Returns the slots of each ciphertext of the result.
    fn output_slots(plan: &Planned<Self>) -> impl Iterator<Item = usize> {
        repeat_n(plan.params.max_slots(), Self::outputs(plan))
    }

    /// Returns the inputs of a simulation, with the fewest slots that need the same operations.
    fn inputs(plan: &Planned<Self>) -> Vec<Inputs>;

    /// Returns the shape of each ciphertext of the table.
    fn shapes(plan: &Planned<Self>) -> impl Iterator<Item = Shape> + use<Self>;

    /// Computes the result. `table` has the planned number of ciphertexts.
    fn run<E: ComplexOps>(
        plan: &Planned<Self>,
        e: &E,
        table: &[E::Ct],
        progress: &(impl Fn(usize) + Send + Sync),
    ) -> Result<Vec<E::Ct>>;

    /// Rounds shared results that are integers.
    fn round_shared(_plan: &Planned<Self>, _shared: &mut [Vec<f64>]) {}
}

/// Statistics planned for parameters: the owner's encryption, the server's computation, and the
/// owner's decoding.
#[derive(Debug, Clone)]
pub struct Planned<C: Circuit> {
    pub(super) job: C::Job,
    pub(super) params: Params,
    pub(super) packing: Packing,
    pub(super) circuit: C,
    pub(super) learnt: Learnt,
}

impl<C: Circuit> Planned<C> {
    /// Plans the job for `params`, at the lowest levels that hold the sums.
    ///
    /// # Errors
    /// [`StatsError::Empty`], [`StatsError::TooFew`], [`StatsError::TooLarge`],
    /// [`StatsError::ParamsTooSmall`].
    pub fn new(job: &C::Job, params: &Params) -> Result<Self> {
        C::check(job)?;
        let packing = Packing::new(C::table(job), params.max_slots());
        let further = C::further_ciphertexts(job, &packing);
        // Before anything is simulated, because a job may come from a file.
        check_ciphertexts(packing.ciphertexts() as u128 + further)?;
        for circuit in C::candidates(job, params, &packing)? {
            let params = params.clone();
            let plan = Self { job: *job, params, packing, circuit, learnt: Learnt::default() };
            if let Some(learnt) = C::learn(&plan) {
                return Ok(Self { learnt, ..plan });
            }
        }
        Err(StatsError::ParamsTooSmall {
            what: C::WHAT,
            levels: C::depth(job)?,
            rows: packing.padded_rows(),
            log2_q: params.chain().log2_q(params.top()),
            log2_scale: params.spec().log2_scale,
        })
    }

    /// Chooses the smallest ring and the shortest chain for the job at 128 bits of security.
    ///
    /// Histograms get larger primes if this makes the counts exact.
    ///
    /// # Errors
    /// The errors of [`Planned::new`]; [`StatsError::Library`] if no ring is large enough.
    pub fn auto_params(job: &C::Job) -> Result<Params> {
        C::check(job)?;
        C::auto_params(job)
    }

    /// Chooses parameters as [`Planned::auto_params`] does, with the additional precision that
    /// [`TableStatistics::share`] to `bits` bits needs.
    ///
    /// # Errors
    /// The errors of [`Planned::auto_params`]; [`StatsError::SharedBits`] unless there are 1 to
    /// [`MAX_SHARED_BITS`](super::MAX_SHARED_BITS) bits; [`StatsError::Library`] with
    /// `TooLittlePrecision` if `f64` is not precise enough for the number of results.
    pub fn shared_params(job: &C::Job, bits: u32) -> Result<Params> {
        C::check(job)?;
        let errors = |params: &Params| {
            let plan = Self::new(job, params)?;
            Ok((plan.largest_error(), plan.largest_shared_error(bits)))
        };
        packing::shared_params(C::LOG2_SCALE, bits, |scale| C::propose(job, scale), errors)
    }

    /// Returns the shape planned for.
    #[must_use]
    pub fn job(&self) -> C::Job {
        self.job
    }

    /// Returns the shape of each ciphertext of a table.
    pub fn shapes(&self) -> impl Iterator<Item = Shape> + use<C> {
        C::shapes(self)
    }

    /// Returns the level and the scale of each ciphertext of the result.
    #[must_use]
    pub fn output_shapes(&self) -> Vec<(Level, Scale)> {
        C::output_shapes(self)
    }

    /// Computes the result, on the server. `progress` is called with the number of finished
    /// outputs, from any thread.
    ///
    /// # Errors
    /// [`StatsError::Shape`] for another number of ciphertexts than planned,
    /// [`StatsError::Library`] for errors of the evaluator.
    pub fn run<E: ComplexOps>(
        &self,
        e: &E,
        table: &[E::Ct],
        progress: impl Fn(usize) + Send + Sync,
    ) -> Result<Vec<E::Ct>> {
        packing::check_shape("ciphertexts", table.len(), self.ciphertexts())?;
        C::run(self, e, table, &progress)
    }
}

impl<C: Circuit> TablePlan for Planned<C> {
    fn params(&self) -> &Params {
        &self.params
    }

    fn required_keys(&self) -> &KeyRequest {
        &self.learnt.request
    }

    fn ciphertexts(&self) -> usize {
        self.packing.ciphertexts() + C::further_ciphertexts(&self.job, &self.packing) as usize
    }

    fn table_bytes(&self) -> u64 {
        self.shapes().map(|shape| ciphertext_bytes(&self.params, shape.level)).sum()
    }

    fn outputs(&self) -> usize {
        C::outputs(self)
    }

    fn result_shapes(&self, _iterations: u32) -> Vec<(Level, Scale)> {
        self.output_shapes()
    }
}

/// Planned statistics of any kind.
pub trait TableStatistics: TablePlan {
    /// Predicts the server's work, before any key exists.
    ///
    /// # Errors
    /// [`StatsError::Library`] if it cannot be simulated.
    fn cost(&self) -> Result<Cost>;

    /// Returns a bound of the errors of results, for any table. A result is a decrypted sum divided
    /// by the number of rows.
    fn largest_error(&self) -> f64;

    /// Returns the largest error with which results can be shared to `bits` bits.
    fn largest_shared_error(&self, bits: u32) -> f64;

    /// Prepares the slots of the decrypted outputs for people other than the key's owner
    /// ([how](super#results-for-others)). They may also see everything that `decode` computes from
    /// these slots. Use a new seed for each release.
    ///
    /// Counts of groups are rounded to integers, and their error is at most `rows 2^-bits`.
    ///
    /// # Errors
    /// [`StatsError::SharedBits`] unless there are 1 to [`MAX_SHARED_BITS`](super::MAX_SHARED_BITS)
    /// bits; [`StatsError::Library`] with `TooLittlePrecision` for more bits than the precision
    /// allows: use [`Planned::shared_params`].
    fn share(&self, slots: &[Vec<f64>], bits: u32, noise: &Seed) -> Result<Vec<Vec<f64>>>;

    /// Computes the result as [`Planned::run`] does.
    ///
    /// # Errors
    /// The errors of [`Planned::run`].
    fn compute(
        &self,
        e: &Evaluator,
        table: &[Ciphertext],
        progress: &(dyn Fn(usize) + Send + Sync),
    ) -> Result<Vec<Ciphertext>>;
}

impl<C: Circuit> TableStatistics for Planned<C> {
    fn cost(&self) -> Result<Cost> {
        let inputs = C::inputs(self);
        Cost::of(&self.params, self.required_keys(), inputs, |e, table| self.run(e, table, |_| {}))
    }

    fn largest_error(&self) -> f64 {
        self.learnt.largest_error
    }

    fn largest_shared_error(&self, bits: u32) -> f64 {
        self.packing.largest_shared_error(C::output_slots(self), bits)
    }

    fn share(&self, slots: &[Vec<f64>], bits: u32, noise: &Seed) -> Result<Vec<Vec<f64>>> {
        // The planned rows, because the actual number is not public.
        let rows = C::table(&self.job).rows;
        let mut shared = self.packing.share(slots, rows, self.largest_error(), (bits, noise))?;
        C::round_shared(self, &mut shared);
        Ok(shared)
    }

    fn compute(
        &self,
        e: &Evaluator,
        table: &[Ciphertext],
        progress: &(dyn Fn(usize) + Send + Sync),
    ) -> Result<Vec<Ciphertext>> {
        self.run(e, table, progress)
    }
}
