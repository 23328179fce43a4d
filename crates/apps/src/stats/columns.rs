//! Power sums and products of the columns of a table, under encryption.

use core::{array::from_fn, slice};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use sudare::{
    circuits::{
        Trace, TracePlan,
        ckks::{ComplexOps, sim},
    },
    ckks::{Ciphertext, Complex, Encryptor, Params, Scale, serial::Shape},
    rlwe::Level,
};
use sudare_arith::par;
use sudare_table::Table;

use super::{
    ColumnScaling, Job, ROOM_BITS, Result, Statistics, StatsError,
    cost::Inputs,
    packing::{
        self, LOG2_SCALE, Learnt, Packing, check_rows, check_shape, product, smallest_params, total,
    },
    planned::{Circuit, Planned},
    summary::PowerSums,
};
use crate::{Slots, TablePlan};

/// Levels of fourth powers.
const DEPTH: u32 = 2;

/// Number of power sums of a column.
const POWERS: usize = 4;

/// Number of chunks whose products are relinearised together.
const BATCH: usize = 16;

/// A set of sums that is computed together.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Task {
    /// The first four power sums of a group.
    Powers { group: usize },
    /// The products of groups `lefts` with group `right`, shifted by `shift` blocks.
    Products { lefts: Vec<usize>, right: usize, shift: usize },
}

impl Task {
    fn outputs(&self) -> usize {
        match self {
            Task::Powers { .. } => POWERS,
            Task::Products { lefts, .. } => lefts.len(),
        }
    }
}

/// The circuit that sums powers of columns and their products.
#[derive(Debug, Clone)]
pub struct ColumnSums {
    tasks: Vec<Task>,
    sum: TracePlan,
    /// Level of the results. Values enter [`DEPTH`] levels above.
    base: Level,
}

/// Plan for the statistics of a table of known shape: the owner's encryption, the server's sums,
/// and the owner's decoding.
///
/// Columns are scaled to `[-1, 1]` ([`ColumnScaling`]). The server computes
/// `sum x, sum x^2, sum x^3, sum x^4` of every column and `sum x y` of every pair, in two levels.
/// For pairs of columns in the same ciphertext, one product with the ciphertext rotated by blocks
/// handles all pairs of that distance at once.
///
/// Errors of decrypted sums are near `2^-23` of one scaled value times the square root of the rows
/// under [`StatsPlan::auto_params`]: means, deviations and correlations keep 6 to 8 decimal digits
/// of the half-range of their columns.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use sudare::{ckks::{Decryptor, Encoder, Encryptor, Evaluator}, rlwe::KeyGenerator};
/// use sudare_apps::{TablePlan, stats::{ColumnScaling, Job, StatsPlan}};
/// use sudare_table::Table;
///
/// let table = Table::bundled("lbw")?;
/// let job = Job::of(&table);
/// let params = StatsPlan::auto_params(&job)?;
/// let plan = StatsPlan::new(&job, &params)?;
/// let mut keygen = KeyGenerator::new(params.rlwe())?;
/// let secret = keygen.secret_key()?;
/// let public = Arc::new(keygen.public_key(&secret)?);
/// let keys = Arc::new(keygen.evaluation_keys(&secret, plan.required_keys())?);
///
/// let scaling = ColumnScaling::of(&table);
/// let encrypted = plan.encrypt(&Encryptor::new(&params, public)?, &table, &scaling, |_| {})?;
///
/// let sums = plan.run(&Evaluator::new(&params, keys)?, &encrypted, |_| {})?;
///
/// let decryptor = Decryptor::new(&params, secret)?;
/// let encoder = Encoder::new(&params);
/// let decode = |sum| encoder.decode_real(&decryptor.decrypt(sum)?);
/// let slots = sums.iter().map(decode).collect::<Result<Vec<_>, _>>()?;
/// println!("{:?}", plan.decode(&slots, &scaling, table.rows(), None)?.correlation);
/// # Ok(())
/// # }
/// ```
pub type StatsPlan = Planned<ColumnSums>;

/// The simulation covers power sums, and one sum of products if there are any.
impl Circuit for ColumnSums {
    type Job = Job;

    const WHAT: &'static str = "a table's statistics";

    const LOG2_SCALE: f64 = LOG2_SCALE;

    fn check(job: &Job) -> Result<()> {
        job.check()
    }

    fn table(job: &Job) -> Job {
        *job
    }

    fn depth(_job: &Job) -> Result<u32> {
        Ok(DEPTH)
    }

    fn propose(job: &Job, log2_scale: f64) -> Result<Params> {
        smallest_params(job, log2_scale, DEPTH, 1)
    }

    fn candidates(
        job: &Job,
        params: &Params,
        packing: &Packing,
    ) -> Result<impl Iterator<Item = Self>> {
        packing::check_results(job.features, |features| {
            results(&Packing { features, ..*packing })
        })?;
        let tasks = tasks(packing);
        let sum = Trace::inner_sum(params.log_n(), 1, packing.block)?.doubling();
        let bases = (0..=params.top().0.saturating_sub(DEPTH)).map(Level);
        Ok(bases.map(move |base| Self { tasks: tasks.clone(), sum: sum.clone(), base }))
    }

    fn learn(plan: &StatsPlan) -> Option<Learnt> {
        plan.dry_run()
    }

    fn outputs(plan: &StatsPlan) -> usize {
        plan.circuit.tasks.iter().map(Task::outputs).sum()
    }

    fn output_shapes(plan: &StatsPlan) -> Vec<(Level, Scale)> {
        let shapes = &plan.learnt.shapes;
        let (powers, products) = shapes.split_at(shapes.len().min(POWERS));
        let of_task = |task: &Task| match task {
            Task::Powers { .. } => powers.to_vec(),
            Task::Products { lefts, .. } => {
                products.first().map_or(Vec::new(), |shape| vec![*shape; lefts.len()])
            }
        };
        plan.circuit.tasks.iter().flat_map(of_task).collect()
    }

    fn inputs(plan: &StatsPlan) -> Vec<Inputs> {
        vec![(plan.packing.ciphertexts(), 1, plan.level(), plan.scale())]
    }

    fn shapes(plan: &StatsPlan) -> impl Iterator<Item = Shape> + use<> {
        plan.packing.shapes(plan.level(), plan.scale())
    }

    fn run<E: ComplexOps>(
        plan: &StatsPlan,
        e: &E,
        table: &[E::Ct],
        progress: &(impl Fn(usize) + Send + Sync),
    ) -> Result<Vec<E::Ct>> {
        let done = AtomicUsize::new(0);
        let sums = par::try_map(&plan.circuit.tasks, |task| {
            let sums = plan.sums(e, task, |index| &table[index])?;
            progress(sums.len() + done.fetch_add(sums.len(), Relaxed));
            Ok::<_, StatsError>(sums)
        })?;
        Ok(sums.into_iter().flatten().collect())
    }
}

impl StatsPlan {
    /// Returns the level of the encrypted table.
    #[must_use]
    pub fn level(&self) -> Level {
        Level(self.circuit.base.0 + DEPTH)
    }

    /// Returns the scale of the encrypted table.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.params.scale_at(self.level())
    }

    /// Returns the slots of the ciphertexts of a table: its scaled columns.
    ///
    /// # Errors
    /// [`StatsError::Rows`] for more rows than planned, [`StatsError::Shape`] for other columns.
    pub fn pack<'a>(
        &'a self,
        table: &'a Table,
        scaling: &'a ColumnScaling,
    ) -> Result<impl Iterator<Item = Slots> + use<'a>> {
        self.job.check_table(table, slice::from_ref(scaling))?;
        Ok((0..self.ciphertexts()).map(|index| {
            let scaled = |_, column, x| scaling.scaled(column, x);
            (self.packing.slots(table, index, scaled, 0.0), self.level(), self.scale())
        }))
    }

    /// Scales and encrypts a table. `progress` is called with the number of finished ciphertexts
    /// after each, from any thread.
    ///
    /// # Errors
    /// The errors of [`StatsPlan::pack`]; [`StatsError::Library`] if the encryptor has other
    /// parameters.
    pub fn encrypt(
        &self,
        encryptor: &Encryptor,
        table: &Table,
        scaling: &ColumnScaling,
        progress: impl Fn(usize) + Send + Sync,
    ) -> Result<Vec<Ciphertext>> {
        packing::encrypt(&self.params, encryptor, self.pack(table, scaling)?, progress)
    }

    /// Computes the sums of one task. `table` returns a ciphertext by its index.
    fn sums<'a, E: ComplexOps>(
        &self,
        e: &E,
        task: &Task,
        table: impl Fn(usize) -> &'a E::Ct,
    ) -> sudare::Result<Vec<E::Ct>>
    where
        E::Ct: 'a,
    {
        let input = |group: usize, chunk: usize, above_base: u32| {
            let mut x = table(group * self.packing.chunks + chunk).clone();
            e.drop_to(&mut x, Level(self.circuit.base.0 + above_base)).map(|()| x)
        };
        let mut sums: Vec<E::Ct> = Vec::new();
        for first in (0..self.packing.chunks).step_by(BATCH) {
            let chunks = first..self.packing.chunks.min(first + BATCH);
            let inputs = |group: usize, above_base: u32| -> sudare::Result<Vec<E::Ct>> {
                chunks.clone().map(|chunk| input(group, chunk, above_base)).collect()
            };
            let terms = match task {
                &Task::Powers { group } => {
                    let squares = inputs(group, 2)?;
                    let squares = squares.iter().map(|x| e.mul_rescale(x, x));
                    let squares = squares.collect::<sudare::Result<Vec<_>>>()?;
                    let mut square = total(e, &squares)?;
                    e.drop_to(&mut square, self.circuit.base)?;
                    // Each product takes its factors at the lowest level from which it ends at the
                    // base.
                    vec![
                        total(e, &inputs(group, 0)?)?,
                        square,
                        product(e, &squares, &inputs(group, 1)?)?,
                        product(e, &squares, &squares)?,
                    ]
                }
                Task::Products { lefts, right, shift } => {
                    let mut right = inputs(*right, 1)?;
                    if *shift > 0 {
                        for x in &mut right {
                            *x = e.rotate(x, (shift * self.packing.block) as i64)?;
                        }
                    }
                    let left = |&left: &usize| product(e, &inputs(left, 1)?, &right);
                    lefts.iter().map(left).collect::<sudare::Result<_>>()?
                }
            };
            if first == 0 {
                sums = terms;
            } else {
                for (sum, term) in sums.iter_mut().zip(&terms) {
                    *sum = e.add(sum, term)?;
                }
            }
        }
        // The sum over slots comes last, once for all chunks.
        sums.iter().map(|sum| self.circuit.sum.run(e, sum)).collect()
    }

    /// Computes the statistics of a table in the clear, by the program that computes them under
    /// encryption. `progress` is called as by [`StatsPlan::run`].
    ///
    /// # Errors
    /// The errors of [`StatsPlan::encrypt`] and [`StatsPlan::run`].
    pub fn simulate(
        &self,
        table: &Table,
        progress: impl Fn(usize) + Send + Sync,
    ) -> Result<Statistics> {
        let e = self.simulator();
        let scaling = ColumnScaling::of(table);
        let sums = self.run(&e, &self.in_clear(&e, table, &scaling)?, progress)?;
        let slots = |sum: &sim::Ciphertext| sum.slots.iter().map(|z| z.re).collect();
        let slots: Vec<_> = sums.iter().map(slots).collect();
        self.decode(&slots, &scaling, table.rows(), None)
    }

    fn simulator(&self) -> sim::Evaluator {
        sim::Evaluator::for_params(&self.params)
    }

    /// Returns the scaled table as simulated ciphertexts.
    fn in_clear(
        &self,
        e: &sim::Evaluator,
        table: &Table,
        scaling: &ColumnScaling,
    ) -> Result<Vec<sim::Ciphertext>> {
        let encrypt = |(slots, level, scale): Slots| {
            let slots: Vec<_> = slots.into_iter().map(|x| Complex::new(x, 0.0)).collect();
            Ok(e.encrypt(&slots, level, scale)?)
        };
        self.pack(table, scaling)?.map(encrypt).collect()
    }

    /// Finds the keys that the job uses and the largest error of its results, if the modulus holds
    /// sums of rows that are all 1.
    fn dry_run(&self) -> Option<Learnt> {
        let e = self.simulator();
        if self.level() > self.params.top() {
            return None;
        }
        let x = e.encrypt(&[Complex::new(1.0, 0.0)], self.level(), self.scale()).ok()?;
        let x = x.standing_for(self.params.max_slots());
        let mut shifts = std::collections::BTreeSet::new();
        let mut all = Vec::new();
        for task in &self.circuit.tasks {
            // Tasks of the same shift use the same keys and have sums of the same size.
            let task = match task {
                Task::Powers { group: 0 } => task.clone(),
                &Task::Products { right, shift, .. } if shifts.insert(shift) => {
                    Task::Products { lefts: vec![right], right, shift }
                }
                _ => continue,
            };
            let sums = self.sums(&e, &task, |_| &x).ok()?;
            if sums.iter().any(|sum| sum.headroom_bits < ROOM_BITS) {
                return None;
            }
            all.extend(sums);
        }
        Some(Learnt::of(&e, &all, self.job.rows))
    }

    /// The statistics, from the slots of the decrypted outputs in their order, and the rows and
    /// the scaling of the table that was encrypted. Slots that [`TableStatistics::share`](super::TableStatistics::share) made to some
    /// bits come with these.
    ///
    /// # Errors
    /// [`StatsError::Rows`]; [`StatsError::Shape`] for another number of outputs, slots or columns
    /// than planned, [`StatsError::OutOfRange`] for a sum that scaled values cannot have.
    pub fn decode(
        &self,
        slots: &[Vec<f64>],
        scaling: &ColumnScaling,
        rows: usize,
        shared_bits: Option<u32>,
    ) -> Result<Statistics> {
        let Job { rows: most, features } = self.job;
        check_rows(rows, most)?;
        let Packing { block, blocks, .. } = self.packing;
        check_shape("outputs", slots.len(), self.outputs())?;
        self.job.check_scalings(slice::from_ref(scaling))?;
        for output in slots {
            check_shape("slots", output.len(), block * blocks)?;
        }
        let read = |output, place| self.packing.sum(slots, output, place, most);
        let mut powers = vec![[0.0; 4]; features];
        let mut products: Vec<Vec<f64>> = (0..features).rev().map(|n| vec![0.0; n]).collect();
        let mut output = 0;
        for task in &self.circuit.tasks {
            match task {
                &Task::Powers { group } => {
                    for place in 0..self.packing.columns(group) {
                        for (k, power) in powers[group * blocks + place].iter_mut().enumerate() {
                            *power = read(output + k, place)?;
                        }
                    }
                }
                Task::Products { lefts, right, shift } => {
                    for (k, &left) in lefts.iter().enumerate() {
                        // Products of blocks without a column are not read.
                        for place in 0..blocks {
                            let i = self.packing.column(left, place);
                            let j = self.packing.column(*right, (place + shift) % blocks);
                            if let (Some(i), Some(j)) = (i, j) {
                                let low = i.min(j);
                                let high = i.max(j);
                                products[low][high - low - 1] = read(output + k, place)?;
                            }
                        }
                    }
                }
            }
            output += task.outputs();
        }
        let errors = self.learnt.errors(most, shared_bits);
        let power_errors = from_fn(|k| errors.get(k).copied().unwrap_or(f64::INFINITY));
        let product_error = errors.iter().skip(POWERS).copied().fold(0.0, f64::max);
        Ok(PowerSums { rows, powers, products, power_errors, product_error }.statistics(scaling))
    }
}

/// Returns the number of ciphertexts of the results of all tasks.
fn results(packing: &Packing) -> u128 {
    let groups = packing.groups();
    let Some(last) = groups.checked_sub(1) else { return 0 };
    // A group of several columns needs half of the shifts for its own pairs.
    let within = |group| packing.columns(group).saturating_sub(1).min(packing.blocks / 2);
    let of_groups = POWERS * groups + last * within(0) + within(last);
    of_groups as u128 + groups as u128 * last as u128 / 2 * packing.blocks as u128
}

/// Returns the tasks: powers of every group, then products of every pair of columns.
fn tasks(packing: &Packing) -> Vec<Task> {
    let groups = packing.groups();
    let powers = (0..groups).map(|group| Task::Powers { group });
    let products = (0..groups).flat_map(|right| {
        (0..packing.blocks).filter_map(move |shift| {
            let lefts: Vec<usize> =
                (0..=right).filter(|&left| packing.is_needed(left, right, shift)).collect();
            (!lefts.is_empty()).then_some(Task::Products { lefts, right, shift })
        })
    });
    powers.chain(products).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sudare::ckks::Spec;

    use super::*;
    use crate::stats::testkit::{assert_close, two_passes};

    /// A ring with few slots, so that columns need several ciphertexts.
    fn small_params(log_n: u32) -> Params {
        let spec = Spec::uniform(log_n, 60.0, 2, 40.0, vec![60.0]);
        Params::new(Spec { insecure: true, ..spec }).unwrap()
    }

    fn table(rows: usize, features: usize, values: Vec<f64>) -> Table {
        let columns = (0..features).map(|i| format!("c{i}")).collect();
        Table::new(columns, values[..rows * features].to_vec(), None).unwrap()
    }

    /// Computes the plan's statistics of a table on the simulator.
    fn simulate(plan: &StatsPlan, table: &Table) -> Statistics {
        let e = plan.simulator();
        let scaling = ColumnScaling::of(table);
        let encrypted = plan.in_clear(&e, table, &scaling).unwrap();
        let most = std::sync::Mutex::new(0);
        let progress = |done: usize| {
            let mut most = most.lock().unwrap();
            *most = done.max(*most);
        };
        let sums = plan.run(&e, &encrypted, progress).unwrap();
        assert_eq!(sums.len(), plan.outputs());
        assert_eq!(most.into_inner().unwrap(), plan.outputs());
        assert_eq!(&e.used_keys(), plan.required_keys());
        assert!(sums.iter().all(|sum| sum.headroom_bits > 0.0));
        let slots: Vec<Vec<f64>> =
            sums.iter().map(|sum| sum.slots.iter().map(|z| z.re).collect()).collect();
        let statistics = plan.decode(&slots, &scaling, table.rows(), None).unwrap();
        // Debug, because undefined statistics are NaN.
        let again = plan.simulate(table, |_| {}).unwrap();
        assert_eq!(format!("{again:?}"), format!("{statistics:?}"));
        statistics
    }

    proptest! {
        #[test]
        fn every_shape_equals_two_passes(
            log_n in 4_u32..7,
            rows in 1_usize..40,
            spare in 0_usize..40,
            features in 1_usize..10,
            centre in -1e4_f64..1e4,
            values in prop::collection::vec(-1.0..1.0, 400),
        ) {
            let values = values.iter().map(|x| centre + x).collect();
            let table = table(rows, features, values);
            // A plan for more rows than the table has.
            let job = Job { rows: rows + spare, features };
            let plan = StatsPlan::new(&job, &small_params(log_n)).unwrap();
            assert_close(&simulate(&plan, &table), &two_passes(&table), 1e-6);
        }
    }

    #[test]
    fn long_columns_are_summed_in_batches() {
        let values: Vec<f64> = (0..300).map(|i| f64::from(i * i % 37) - 9.0).collect();
        let table = table(150, 2, values);
        let plan = StatsPlan::new(&Job::of(&table), &small_params(4)).unwrap();
        assert!(plan.packing.chunks > BATCH);
        assert_close(&simulate(&plan, &table), &two_passes(&table), 1e-9);
    }

    #[test]
    fn constant_columns_and_single_rows_are_undefined_where_they_must_be() {
        let constant = table(3, 2, vec![7.0, 1.0, 7.0, 2.0, 7.0, 4.0]);
        let plan = StatsPlan::new(&Job::of(&constant), &small_params(5)).unwrap();
        let found = simulate(&plan, &constant);
        assert_eq!((found.mean[0], found.variance[0], found.covariance[0][1]), (7.0, 0.0, 0.0));
        assert!(found.skewness[0].is_nan() && found.correlation[0][1].is_nan());
        assert!(found.skewness[1] > 0.0);
        let text = serde_json::to_string(&found).unwrap();
        assert!(text.contains("null"));
        let back: Statistics = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), text);

        let single = table(1, 2, vec![7.0, 1.0]);
        let plan = StatsPlan::new(&Job::of(&single), &small_params(5)).unwrap();
        let found = simulate(&plan, &single);
        assert_eq!(found.mean, [7.0, 1.0]);
        assert!(found.variance[0].is_nan() && found.kurtosis[0].is_nan());
    }

    #[test]
    fn automatic_parameters_are_secure_and_enough() {
        for (rows, features) in [(1, 1), (189, 9), (575, 8), (5000, 3), (1 << 24, 4)] {
            let job = Job { rows, features };
            let params = StatsPlan::auto_params(&job).unwrap();
            assert!(params.rlwe().security_bits() >= 128.0);
            assert_eq!(params.log_n(), 13);
            let plan = StatsPlan::new(&job, &params).unwrap();
            assert_eq!(plan.level(), params.top());
        }
    }

    /// The number of results is known before the tasks are listed, and limits the columns that a
    /// remedy names.
    #[test]
    fn wide_tables_are_limited_by_their_results() {
        for (block, blocks) in [(4, 1), (4, 2), (2, 8), (1, 32)] {
            for features in 1..80 {
                let packing = Packing { features, block, blocks, chunks: 1 };
                let outputs: usize = tasks(&packing).iter().map(Task::outputs).sum();
                assert_eq!(results(&packing), outputs as u128, "{packing:?}");
            }
        }
        let plan = |rows, features| {
            let job = Job { rows, features };
            StatsPlan::new(&job, &StatsPlan::auto_params(&job)?)
        };
        assert!(plan(800, 300).is_ok() && plan(250, 1024).is_ok());
        let refused = plan(20_000, 1000).unwrap_err();
        let StatsError::TooLarge { what, limit, .. } = refused else { panic!("{refused}") };
        assert_eq!(what, "columns of this length");
        assert!(plan(20_000, limit as usize).is_ok() && plan(20_000, limit as usize + 1).is_err());
        assert_eq!(limit, 358);
    }

    /// More columns than one ciphertext has slots for, in several groups.
    #[test]
    fn hundreds_of_columns_equal_two_passes() {
        let values: Vec<f64> =
            (0..8 * 300).map(|i| f64::from((i * i + 7 * i) % 101) - 40.0).collect();
        let table = table(8, 300, values);
        let plan = StatsPlan::new(&Job::of(&table), &small_params(9)).unwrap();
        assert!(plan.packing.groups() > 8);
        assert_close(&simulate(&plan, &table), &two_passes(&table), 1e-6);
    }

    #[test]
    fn shapes_are_counted_as_documented() {
        let params = StatsPlan::auto_params(&Job { rows: 189, features: 9 }).unwrap();
        let plan = StatsPlan::new(&Job { rows: 189, features: 9 }, &params).unwrap();
        // 16 blocks of 256: one group, shifts 1 to 8.
        assert_eq!((plan.ciphertexts(), plan.outputs()), (1, 4 + 8));
        assert_eq!(plan.required_keys().count(), 1 + 8 + 8);
        let params = StatsPlan::auto_params(&Job { rows: 10_000, features: 3 }).unwrap();
        let plan = StatsPlan::new(&Job { rows: 10_000, features: 3 }, &params).unwrap();
        assert_eq!((plan.ciphertexts(), plan.outputs()), (9, 3 * 4 + 3));
    }

    #[test]
    fn impossible_jobs_are_refused() {
        let job = |rows, features| Job { rows, features };
        let params = small_params(5);
        for (job, what) in
            [(job(1 << 25, 1), "rows"), (job(1, 1025), "columns"), (job(1 << 20, 200), "cells")]
        {
            let refused = StatsPlan::new(&job, &params).unwrap_err();
            assert!(matches!(&refused, StatsError::TooLarge { what: w, .. } if *w == what));
            assert_eq!(StatsPlan::auto_params(&job).unwrap_err(), refused);
        }
        assert!(matches!(StatsPlan::new(&job(0, 3), &params), Err(StatsError::Empty { .. })));
        // 2^10 rows at a scale of 40 bits do not fit the 45 bits of level 0.
        let shallow =
            Params::new(Spec { insecure: true, ..Spec::uniform(5, 45.0, 2, 40.0, vec![50.0]) })
                .unwrap();
        assert!(matches!(
            StatsPlan::new(&job(1 << 10, 1), &shallow),
            Err(StatsError::ParamsTooSmall { levels: 2, .. })
        ));
        assert!(StatsPlan::new(&job(8, 1), &shallow).is_ok());

        let plan = StatsPlan::new(&job(4, 2), &params).unwrap();
        let e = sim::Evaluator::new(5, params.chain().clone());
        assert!(matches!(
            plan.run(&e, &[], |_| {}),
            Err(StatsError::Shape { what: "ciphertexts", .. })
        ));
        let scaling = ColumnScaling::new(vec![(0.0, 1.0); 2]).unwrap();
        let mut slots = vec![vec![0.0; 16]; plan.outputs()];
        assert!(plan.decode(&slots, &scaling, 4, None).is_ok());
        let refused = plan.decode(&slots, &scaling, 5, None).unwrap_err();
        assert_eq!(refused, StatsError::Rows { found: 5, most: 4 });
        slots[3][0] = 5.0;
        assert!(matches!(
            plan.decode(&slots, &scaling, 4, None),
            Err(StatsError::OutOfRange { output: 3, .. })
        ));
        slots[3][0] = f64::NAN;
        assert!(matches!(
            plan.decode(&slots, &scaling, 4, None),
            Err(StatsError::OutOfRange { .. })
        ));
        slots[3].pop();
        assert!(matches!(plan.decode(&slots, &scaling, 4, None), Err(StatsError::Shape { .. })));
        let other = ColumnScaling::new(vec![(0.0, 1.0)]).unwrap();
        assert!(matches!(plan.decode(&slots, &other, 4, None), Err(StatsError::Shape { .. })));
    }
}
