//! Histograms and quantiles of the columns of a table, by comparisons with edges under encryption.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use serde::{Deserialize, Serialize};
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
    Bins, ColumnScaling, Edges, Job, ROOM_BITS, Result, StatsError,
    cost::Inputs,
    packing::{
        self, Learnt, PRIME_BITS, Packing, check_count, check_rows, check_shape, smallest_params,
        total,
    },
    planned::{Circuit, Planned},
    summary::undefined_as_null,
};
use crate::{
    Slots, TablePlan,
    functions::{self, Fit, Function, FunctionPlan},
    release::precise_params,
};

/// Maximum number of bins of a job.
const MAX_BINS: usize = 1 << 8;

/// `log2` of the scale of [`HistogramPlan::auto_params`]. The slope of the sign is about `2^9`,
/// which amplifies errors of its argument.
const LOG2_SCALE: f64 = 40.0;

/// Maximum total error of the steps over all rows.
const STEP_ERROR: f64 = 0.25;

/// Counts with an error below this are rounded to exact ones.
const EXACT_BELOW: f64 = 0.5;

/// Levels for each special prime of [`HistogramPlan::auto_params`].
const LEVELS_PER_DIGIT: u32 = 4;

/// The shape of the table and the number of bins, which are public.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistogramJob {
    /// Maximum number of rows.
    pub rows: usize,
    /// Number of columns, without the target.
    pub features: usize,
    /// Bins of each column.
    pub bins: usize,
}

impl HistogramJob {
    fn table(self) -> Job {
        Job { rows: self.rows, features: self.features }
    }

    fn check(self) -> Result<()> {
        self.table().check()?;
        check_count("bins", self.bins, 2..=MAX_BINS)
    }
}

/// Counts of the values of a column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Edges of the bins, ascending, one more than bins.
    pub edges: Vec<f64>,
    /// Number of values in each bin. A bin includes its lower edge, and the last one also includes
    /// its upper edge.
    pub counts: Vec<f64>,
    /// Bound of the error of each count. 0 if counts are exact. NaN, `null` in JSON, if values were
    /// encrypted without bins: then values near an edge make the error unknown.
    #[serde(with = "undefined_as_null")]
    pub errors: Vec<f64>,
    /// Number of values below the first edge, in no bin.
    pub below: u64,
    /// Number of values above the last edge, in no bin.
    pub above: u64,
}

impl Histogram {
    /// Returns the value below which the fraction `p` of the counted values lies, for
    /// `0 <= p <= 1`. It is linear within bins. For bounds see [`Histogram::quantile_bounds`].
    ///
    /// # Errors
    /// [`StatsError::Quantile`] for another `p`.
    pub fn quantile(&self, p: f64) -> Result<f64> {
        check_quantile(p)?;
        let all: f64 = self.counts.iter().sum();
        if all <= 0.0 {
            return Ok(f64::NAN);
        }
        let mut rest = p * all;
        for (count, edges) in self.counts.iter().zip(self.edges.windows(2)) {
            if rest <= *count && *count > 0.0 {
                let share = rest / count;
                // Not the difference of edges, which may overflow.
                return Ok(edges[0] * (1.0 - share) + edges[1] * share);
            }
            rest -= count;
        }
        // Rounding may leave a small remainder.
        Ok(self.edges.last().copied().unwrap_or(f64::NAN))
    }

    /// Returns two edges that enclose the exact quantile for all errors of counts. The exact
    /// quantile is linear between neighbouring values, as in NumPy and pandas.
    ///
    /// # Errors
    /// The errors of [`Histogram::quantile`].
    pub fn quantile_bounds(&self, p: f64) -> Result<(f64, f64)> {
        check_quantile(p)?;
        let ends = (self.edges.first(), self.edges.last());
        let (Some(&first), Some(&last)) = ends else { return Ok((f64::NAN, f64::NAN)) };
        let all: f64 = self.counts.iter().sum();
        // The number of values up to an edge has the error of the first count.
        let error = self.errors.first().copied().unwrap_or(f64::NAN);
        if all <= 0.0 || error.is_nan() {
            return Ok((first, last));
        }
        let place = p * (all.round() - 1.0);
        let up_to = self.counts.iter().scan(0.0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        let bins = || up_to.clone().zip(self.edges.windows(2));
        let low = bins().find(|(up_to, _)| up_to + error > place.floor());
        let high = bins().find(|(up_to, _)| up_to - error > place.ceil());
        Ok((low.map_or(first, |(_, edges)| edges[0]), high.map_or(last, |(_, edges)| edges[1])))
    }
}

fn check_quantile(p: f64) -> Result<()> {
    if (0.0..=1.0).contains(&p) { Ok(()) } else { Err(StatsError::Quantile { found: p }) }
}

/// The circuit that counts values in bins.
#[derive(Debug, Clone)]
pub struct BinCounts {
    step: FunctionPlan,
    sum: TracePlan,
}

/// Plan to count the values of columns in bins.
///
/// The owner chooses the bins of each column ([`HistogramPlan::bins`]) and encrypts each value as
/// the middle of its bin. Encrypted bins have equal width from -1/2 to 1/2. The server therefore
/// learns nothing about edges, and no value is near one. The server subtracts each inner edge,
/// applies the [`functions::step`] and sums. The result is the number of values above the edge. The
/// step has an error of at most a quarter of a value over all rows. It rises from 0 to 1 within an
/// eighth of a bin on either side of the edge. Under [`HistogramPlan::exact_params`], the error
/// including encryption is below a half, so rounding yields exact counts.
pub type HistogramPlan = Planned<BinCounts>;

impl Circuit for BinCounts {
    type Job = HistogramJob;

    const WHAT: &'static str = "counting in bins";

    const LOG2_SCALE: f64 = LOG2_SCALE;

    fn check(job: &HistogramJob) -> Result<()> {
        job.check()
    }

    fn table(job: &HistogramJob) -> Job {
        job.table()
    }

    fn depth(job: &HistogramJob) -> Result<u32> {
        Ok(step(job)?.depth())
    }

    fn propose(job: &HistogramJob, log2_scale: f64) -> Result<Params> {
        let depth = Self::depth(job)?;
        let special = depth.div_ceil(LEVELS_PER_DIGIT) as usize;
        smallest_params(&job.table(), log2_scale, depth, special)
    }

    /// Returns larger primes if this makes counts exact.
    fn auto_params(job: &HistogramJob) -> Result<Params> {
        let usual = Self::propose(job, LOG2_SCALE)?;
        if HistogramPlan::new(job, &usual)?.is_exact() {
            return Ok(usual);
        }
        // The number of primes stays the same, so this costs little.
        let precise = Self::propose(job, PRIME_BITS)?;
        let exact =
            precise.log_n() == usual.log_n() && HistogramPlan::new(job, &precise)?.is_exact();
        Ok(if exact { precise } else { usual })
    }

    fn candidates(
        job: &HistogramJob,
        params: &Params,
        packing: &Packing,
    ) -> Result<impl Iterator<Item = Self>> {
        let step = step(job)?;
        let sum = Trace::inner_sum(params.log_n(), 1, packing.block)?.doubling();
        let levels = (step.depth()..=params.top().0).map(Level);
        // A level that is too low has no plan.
        let plans = levels.filter_map(move |level| step.plan_at(params, level).ok());
        Ok(plans.map(move |step| Self { step, sum: sum.clone() }))
    }

    fn learn(plan: &HistogramPlan) -> Option<Learnt> {
        plan.dry_run()
    }

    fn outputs(plan: &HistogramPlan) -> usize {
        plan.packing.groups() * (plan.job.bins - 1)
    }

    fn output_shapes(plan: &HistogramPlan) -> Vec<(Level, Scale)> {
        plan.learnt.shapes.repeat(Self::outputs(plan))
    }

    fn inputs(plan: &HistogramPlan) -> Vec<Inputs> {
        vec![(plan.packing.ciphertexts(), 1, plan.level(), plan.scale())]
    }

    fn shapes(plan: &HistogramPlan) -> impl Iterator<Item = Shape> + use<> {
        plan.packing.shapes(plan.level(), plan.scale())
    }

    /// Counts the values above each inner edge.
    fn run<E: ComplexOps>(
        plan: &HistogramPlan,
        e: &E,
        table: &[E::Ct],
        progress: &(impl Fn(usize) + Send + Sync),
    ) -> Result<Vec<E::Ct>> {
        let columns: Vec<&[E::Ct]> = table.chunks_exact(plan.packing.chunks).collect();
        let edges = 1..plan.job.bins;
        let tasks: Vec<_> =
            columns.iter().flat_map(|x| edges.clone().map(move |edge| (x, edge))).collect();
        let done = AtomicUsize::new(0);
        par::try_map(&tasks, |(chunks, edge)| {
            let above = plan.above(e, chunks, *edge)?;
            progress(1 + done.fetch_add(1, Relaxed));
            Ok::<_, StatsError>(above)
        })
    }
}

impl HistogramPlan {
    /// Returns the smallest secure parameters for exact counts, which are more precise than the
    /// parameters of [`HistogramPlan::auto_params`].
    ///
    /// # Errors
    /// The errors of [`HistogramPlan::auto_params`]; [`StatsError::Library`] with
    /// `TooLittlePrecision` if `f64` is not precise enough for the number of rows.
    pub fn exact_params(job: &HistogramJob) -> Result<Params> {
        job.check()?;
        let needed = EXACT_BELOW - STEP_ERROR;
        let errors = |params: &Params| {
            let found = Self::new(job, params)?.learnt.errors(job.rows, None);
            Ok((found.iter().copied().fold(0.0, f64::max), needed))
        };
        // Above the size of one prime, two primes that are not too small are needed. Rings have few
        // small primes.
        let whole = |scale| if scale > PRIME_BITS { f64::max(scale, 2.0 * 29.0) } else { scale };
        precise_params(LOG2_SCALE, 0, |scale| BinCounts::propose(job, whole(scale)), errors)
    }

    /// Returns whether counts are exact.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.error_above(None) < EXACT_BELOW
    }

    /// Returns a bound of the error of each number of values above an edge, before rounding.
    fn error_above(&self, shared_bits: Option<u32>) -> f64 {
        let errors = self.learnt.errors(self.job.rows, shared_bits);
        STEP_ERROR + errors.iter().copied().fold(0.0, f64::max)
    }

    /// Returns the bins of each column of `table`. Pass edges for each column, or one choice for
    /// all.
    ///
    /// # Errors
    /// [`StatsError::Shape`] for edges of another number of columns; the errors of [`Bins::of`].
    pub fn bins(&self, table: &Table, edges: &[Edges]) -> Result<Vec<Bins>> {
        let features = table.features();
        if edges.len() != 1 {
            check_shape("columns with edges", edges.len(), features)?;
        }
        let of_columns = table.columns().iter().enumerate().zip(edges.iter().cycle());
        let bins = |((column, name), edges): ((usize, &String), &Edges)| {
            let values: Vec<f64> = table.column(column).collect();
            Bins::of(name, &values, self.job.bins, edges)
        };
        of_columns.map(bins).collect()
    }

    /// Returns bins of equal width for a table whose scaled values were encrypted without bins.
    /// Values near an edge count partly in two bins.
    #[must_use]
    pub fn uncentred_bins(&self, scaling: &ColumnScaling) -> Vec<Bins> {
        scaling.maps().iter().map(|&map| Bins::about(map, self.job.bins)).collect()
    }

    fn check_bins(&self, bins: &[Bins]) -> Result<()> {
        check_shape("columns with bins", bins.len(), self.job.features)?;
        let check = |bins: &Bins| check_shape("edges", bins.edges().len(), self.job.bins + 1);
        bins.iter().try_for_each(check)
    }

    /// Returns the level of the encrypted table.
    #[must_use]
    pub fn level(&self) -> Level {
        self.circuit.step.level()
    }

    /// Returns the scale of the encrypted table.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.circuit.step.scale()
    }

    /// Returns the slots of the ciphertexts of a table: the middles of the bins of its values. They
    /// are in `[-1/2, 1/2]`, so differences from edges lie in `[-1, 1]`.
    ///
    /// # Errors
    /// [`StatsError::Rows`] for more rows than planned, [`StatsError::Shape`] for other columns.
    pub fn pack<'a>(
        &'a self,
        table: &'a Table,
        bins: &'a [Bins],
    ) -> Result<impl Iterator<Item = Slots> + use<'a>> {
        self.job.table().check_table(table, &[])?;
        self.check_bins(bins)?;
        let middle = |bin| (self.edge(bin) + self.edge(bin + 1)) / 2.0;
        // Padding is in the first bin, which is above no edge.
        Ok((0..self.ciphertexts()).map(move |index| {
            let place = |_, column: usize, x| middle(bins[column].place(x));
            (self.packing.slots(table, index, place, middle(0)), self.level(), self.scale())
        }))
    }

    /// Encrypts the bins of the values of a table. `progress` is called with the number of finished
    /// ciphertexts after each, from any thread.
    ///
    /// # Errors
    /// The errors of [`HistogramPlan::pack`]; [`StatsError::Library`] if the encryptor has other
    /// parameters.
    pub fn encrypt(
        &self,
        encryptor: &Encryptor,
        table: &Table,
        bins: &[Bins],
        progress: impl Fn(usize) + Send + Sync,
    ) -> Result<Vec<Ciphertext>> {
        packing::encrypt(&self.params, encryptor, self.pack(table, bins)?, progress)
    }

    /// Returns edge `index` of `0..=bins`, for values in `[-1/2, 1/2]`.
    fn edge(&self, index: usize) -> f64 {
        index as f64 / self.job.bins as f64 - 0.5
    }

    /// Counts the values above an edge.
    fn above<E: ComplexOps>(&self, e: &E, chunks: &[E::Ct], edge: usize) -> sudare::Result<E::Ct> {
        let above = chunks.iter().map(|x| self.steps(e, x, edge));
        let above = above.collect::<sudare::Result<Vec<_>>>()?;
        self.circuit.sum.run(e, &total(e, &above)?)
    }

    /// Returns 1 where a value is above an edge, and 0 elsewhere.
    fn steps<E: ComplexOps>(&self, e: &E, x: &E::Ct, edge: usize) -> sudare::Result<E::Ct> {
        self.circuit.step.run(e, &e.add_const(x, Complex::new(-self.edge(edge), 0.0))?)
    }

    /// Runs the job on the simulator, if the modulus holds counts of all rows.
    fn dry_run(&self) -> Option<Learnt> {
        let e = sim::Evaluator::for_params(&self.params);
        // Counts are largest for values far above an edge.
        let x = e.encrypt(&[Complex::new(0.5, 0.0)], self.level(), self.scale()).ok()?;
        let x = x.standing_for(self.params.max_slots());
        // All chunks are alike.
        let above = self.steps(&e, &x, 1).ok()?;
        let total = total(&e, core::iter::repeat_n(&above, self.packing.chunks)).ok()?;
        let total = self.circuit.sum.run(&e, &total).ok()?;
        (total.headroom_bits >= ROOM_BITS).then(|| Learnt::of(&e, &[total], self.job.rows))
    }

    /// The histogram of each column, from the slots of the decrypted outputs in their order, and
    /// the rows and the bins of the table that was encrypted. Slots that [`TableStatistics::share`](super::TableStatistics::share)
    /// made to some bits come with these.
    ///
    /// # Errors
    /// [`StatsError::Rows`]; [`StatsError::Shape`] for another number of outputs, slots, columns or
    /// edges than planned, [`StatsError::OutOfRange`] for an impossible count.
    pub fn decode(
        &self,
        slots: &[Vec<f64>],
        bins: &[Bins],
        rows: usize,
        shared_bits: Option<u32>,
    ) -> Result<Vec<Histogram>> {
        let HistogramJob { rows: most, .. } = self.job;
        check_rows(rows, most)?;
        let Packing { block, blocks, .. } = self.packing;
        check_shape("outputs", slots.len(), self.outputs())?;
        self.check_bins(bins)?;
        for output in slots {
            check_shape("slots", output.len(), block * blocks)?;
        }
        let inner = self.job.bins - 1;
        let error = self.error_above(shared_bits);
        let exact = error < EXACT_BELOW;
        let histogram = |(column, bins): (usize, &Bins)| {
            let group = column / blocks;
            let place = column % blocks;
            let exact = exact && bins.is_centred();
            let above = |edge: usize| {
                let output = group * inner + edge;
                let found = slots[output][place * block];
                // An eighth more is tolerated. Only counts far from every possible value are
                // rejected.
                let off = (found - found.round()).abs();
                let most = 1.125 * error.max(1.0);
                if !(-most..=rows as f64 + most).contains(&found) || exact && off > error {
                    return Err(StatsError::OutOfRange { output, rows, found });
                }
                Ok(if exact { found.round() } else { found })
            };
            let above: Vec<f64> = (0..inner).map(above).collect::<Result<_>>()?;
            // The owner knows the counts at both ends, so they are not computed under encryption.
            let upper = core::iter::once(rows as f64 - bins.below() as f64);
            let lower = core::iter::once(bins.above() as f64);
            let upper = upper.chain(above.iter().copied());
            let lower = above.iter().copied().chain(lower);
            // Errors may make an empty bin negative. Adding 0 turns -0 into 0: which of them `max`
            // returns differs by platform.
            let counts = upper.zip(lower).map(|(a, b)| (a - b).max(0.0) + 0.0);
            let counts: Vec<f64> = counts.collect();
            let of_count = |bin: usize| match (exact, bins.is_centred()) {
                (true, _) => 0.0,
                // The first and the last bin have one edge whose count is exact.
                (false, true) if bin == 0 || bin == inner => error,
                (false, true) => 2.0 * error,
                (false, false) => f64::NAN,
            };
            let errors = (0..=inner).map(of_count).collect();
            Ok(Histogram {
                edges: bins.edges().to_vec(),
                counts,
                errors,
                below: bins.below(),
                above: bins.above(),
            })
        };
        bins.iter().enumerate().map(histogram).collect()
    }
}

/// Returns the step on differences from edges. Its total error is a quarter of a value over all
/// rows, including padding.
fn step(job: &HistogramJob) -> Result<Function> {
    let gap = 1.0 / (8 * job.bins) as f64;
    let bits = f64::from(job.rows.next_power_of_two().ilog2()) + 2.0;
    Ok(functions::step(-1.0..1.0, gap, Fit::PrecisionBits(bits))?)
}

#[cfg(test)]
mod tests {
    use sudare::ckks::Spec;

    use super::*;

    fn params(log_n: u32, levels: usize) -> Params {
        let spec = Spec::uniform(log_n, 60.0, levels, 40.0, vec![60.0; 3]);
        Params::new(Spec { insecure: true, ..spec }).unwrap()
    }

    fn simulate(plan: &HistogramPlan, table: &Table) -> Vec<Histogram> {
        let params = &plan.params;
        let e = sim::Evaluator::new(params.log_n(), params.chain().clone());
        let bins = plan.bins(table, &[Edges::Equal]).unwrap();
        let encrypt = |(slots, level, scale): Slots| {
            let slots: Vec<_> = slots.iter().map(|&x| Complex::new(x, 0.0)).collect();
            e.encrypt(&slots, level, scale).unwrap()
        };
        let encrypted: Vec<_> = plan.pack(table, &bins).unwrap().map(encrypt).collect();
        let above = plan.run(&e, &encrypted, |_| {}).unwrap();
        assert_eq!(above.len(), plan.outputs());
        assert_eq!(&e.used_keys(), plan.required_keys());
        assert!(above.iter().all(|x| x.headroom_bits > 0.0));
        let slots: Vec<Vec<f64>> =
            above.iter().map(|x| x.slots.iter().map(|z| z.re).collect()).collect();
        plan.decode(&slots, &bins, table.rows(), None).unwrap()
    }

    /// Values of irregular spread, many of them at an edge or next to one. Every other column has
    /// integers.
    fn table(rows: usize, features: usize) -> Table {
        let value = |i: usize, j: usize| match (((i * i + 7 * j) % 101) as f64, j % 2) {
            (x, 0) => 40.0 + (j + 1) as f64 * (x / 50.0 - 1.0),
            (x, _) => x - 30.0,
        };
        let values = (0..rows).flat_map(|i| (0..features).map(move |j| value(i, j))).collect();
        Table::new((0..features).map(|j| format!("c{j}")).collect(), values, None).unwrap()
    }

    /// Counts the values in each bin, the last one with both ends.
    fn counted(values: &[f64], edges: &[f64]) -> Vec<f64> {
        let last = edges.len() - 2;
        let count = |(k, ends): (usize, &[f64])| {
            let within =
                |x: &&f64| ends[0] <= **x && (**x < ends[1] || k == last && **x == ends[1]);
            values.iter().filter(within).count() as f64
        };
        edges.windows(2).enumerate().map(count).collect()
    }

    #[test]
    fn counts_are_those_of_the_values() {
        for (log_n, rows, spare, features, bins) in
            [(6, 20, 0, 3, 4), (5, 70, 0, 2, 7), (7, 9, 0, 6, 2), (6, 20, 19, 2, 4)]
        {
            let table = table(rows, features);
            let job = HistogramJob { rows: rows + spare, features, bins };
            let plan = HistogramPlan::new(&job, &params(log_n, 14)).unwrap();
            assert!(plan.is_exact());
            let found = simulate(&plan, &table);
            assert_eq!(found.len(), features);
            for (j, histogram) in found.iter().enumerate() {
                let values: Vec<f64> = table.column(j).collect();
                assert_eq!(histogram.counts, counted(&values, &histogram.edges), "column {j}");
                assert_eq!(histogram.counts.iter().sum::<f64>(), rows as f64);
                assert_eq!(histogram.errors, vec![0.0; bins]);
                assert!(j % 2 == 0 || histogram.edges.iter().all(|e| e.fract().abs() == 0.5));
            }
        }
    }

    #[test]
    fn values_beyond_given_edges_are_in_no_bin() {
        let table = table(20, 2);
        let job = HistogramJob { rows: 20, features: 2, bins: 3 };
        let plan = HistogramPlan::new(&job, &params(6, 14)).unwrap();
        let edges = vec![0.0, 39.5, 40.0, 41.0];
        let edges = [Edges::Given(edges.clone()), Edges::Given(edges)];
        let bins = plan.bins(&table, &edges).unwrap();
        let e = sim::Evaluator::for_params(&plan.params);
        let encrypt = |(slots, level, scale): Slots| {
            let slots: Vec<_> = slots.iter().map(|&x| Complex::new(x, 0.0)).collect();
            e.encrypt(&slots, level, scale).unwrap()
        };
        let data: Vec<_> = plan.pack(&table, &bins).unwrap().map(encrypt).collect();
        let above = plan.run(&e, &data, |_| {}).unwrap();
        let slots: Vec<Vec<f64>> =
            above.iter().map(|x| x.slots.iter().map(|z| z.re).collect()).collect();
        for (j, found) in plan.decode(&slots, &bins, 20, None).unwrap().iter().enumerate() {
            let values: Vec<f64> = table.column(j).collect();
            assert_eq!(found.counts, counted(&values, &found.edges), "column {j}");
            let below = values.iter().filter(|x| **x < 0.0).count() as u64;
            let above = values.iter().filter(|x| **x > 41.0).count() as u64;
            assert_eq!((found.below, found.above), (below, above), "column {j}");
        }
        // Edges of one column for two, and for three.
        assert!(plan.bins(&table, &edges[..1]).is_ok());
        let three = [Edges::Equal, Edges::Equal, Edges::Equal];
        assert!(matches!(plan.bins(&table, &three), Err(StatsError::Shape { .. })));
    }

    /// A table whose values were encrypted as they are has counts of unknown errors.
    #[test]
    fn counts_of_values_near_edges_are_not_told_to_be_exact() {
        let job = HistogramJob { rows: 4, features: 1, bins: 2 };
        let plan = HistogramPlan::new(&job, &params(5, 14)).unwrap();
        let scaling = ColumnScaling::new(vec![(0.0, 1.0)]).unwrap();
        let bins = plan.uncentred_bins(&scaling);
        assert_eq!(bins[0].edges(), [-1.0, 0.0, 1.0]);
        // One of four is at the edge.
        let found = &plan.decode(&[vec![1.5; 16]], &bins, 4, None).unwrap()[0];
        assert_eq!(found.counts, [2.5, 1.5]);
        assert!(found.errors.iter().all(|error| error.is_nan()));
        assert_eq!(found.quantile_bounds(0.5).unwrap(), (-1.0, 1.0));
        assert!(serde_json::to_string(found).unwrap().contains("[null,null]"));
        // Values in the middles of bins cannot make a half.
        let bins = [Bins::of("x", &[-1.0, 0.5, 1.0, 1.0], 2, &Edges::Equal).unwrap()];
        let refused = plan.decode(&[vec![1.5; 16]], &bins, 4, None).unwrap_err();
        assert!(matches!(refused, StatsError::OutOfRange { .. }));
    }

    /// Values spread evenly have their order statistics as quantiles, and quantiles by linear
    /// interpolation lie within their bounds.
    #[test]
    fn quantiles_are_right_to_a_bin() {
        let bins = 8;
        let values: Vec<f64> = (0..64).map(|i| 10.0 + f64::from(i * 37 % 64) / 63.0).collect();
        let table = Table::new(vec!["x".into()], values, None).unwrap();
        let job = HistogramJob { rows: 64, features: 1, bins };
        let plan = HistogramPlan::new(&job, &params(7, 14)).unwrap();
        let histogram = &simulate(&plan, &table)[0];
        for p in [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0] {
            let found = histogram.quantile(p).unwrap();
            assert!((found - 10.0 - p).abs() < 0.5 / bins as f64, "{p}: {found}");
            let (low, high) = histogram.quantile_bounds(p).unwrap();
            assert!(low <= 10.0 + p && 10.0 + p <= high, "{p}: {low} {high}");
            assert!(low <= found && found <= high && high - low < 2.1 / bins as f64);
        }
        for p in [-0.1, 1.1, f64::NAN] {
            assert!(matches!(histogram.quantile(p), Err(StatsError::Quantile { .. })));
            assert!(matches!(histogram.quantile_bounds(p), Err(StatsError::Quantile { .. })));
        }
        let empty_ends = Histogram {
            edges: vec![0.0, 1.0, 2.0, 3.0],
            counts: vec![0.0, 4.0, 0.0],
            errors: vec![0.0; 3],
            below: 0,
            above: 0,
        };
        let quartiles = [0.0, 0.25, 0.5, 1.0].map(|p| empty_ends.quantile(p).unwrap());
        assert_eq!(quartiles, [1.0, 1.25, 1.5, 2.0]);
        let bounds = [0.0, 0.5, 1.0].map(|p| empty_ends.quantile_bounds(p).unwrap());
        assert_eq!(bounds, [(1.0, 2.0); 3]);
        // One value may be in a neighbouring bin.
        let off = Histogram { errors: vec![1.0, 2.0, 1.0], ..empty_ends };
        let bounds = [0.0, 0.5, 1.0].map(|p| off.quantile_bounds(p).unwrap());
        assert_eq!(bounds, [(0.0, 2.0), (1.0, 2.0), (1.0, 3.0)]);
    }

    #[test]
    fn exact_parameters_make_counts_exact() {
        let job = HistogramJob { rows: 100_000, features: 2, bins: 10 };
        let exact = |params: &Params| HistogramPlan::new(&job, params).unwrap().is_exact();
        assert!(!exact(&HistogramPlan::auto_params(&job).unwrap()));
        let params = HistogramPlan::exact_params(&job).unwrap();
        assert!(exact(&params) && params.rlwe().security_bits() >= 128.0);
    }

    /// A million rows, all in one bin: every bin and every edge, at the parameters for exact counts. The
    /// sum of the errors of all steps, and the bound of the errors of encryption, stay below a half.
    #[test]
    fn counts_of_a_million_rows_are_exact() {
        let rows = 1_000_000;
        let job = HistogramJob { rows, features: 1, bins: 10 };
        let params = HistogramPlan::exact_params(&job).unwrap();
        assert!(params.rlwe().security_bits() >= 128.0);
        let plan = HistogramPlan::new(&job, &params).unwrap();
        assert!(plan.is_exact());
        // A ring with few slots: the steps of a slot do not depend on the others.
        let e = sim::Evaluator::for_params(&params);
        let middle = |bin: usize| (plan.edge(bin) + plan.edge(bin + 1)) / 2.0;
        let slots: Vec<_> = (0..16).map(|k| Complex::new(middle(k % 10), 0.0)).collect();
        let x = e.encrypt(&slots, plan.level(), plan.scale()).unwrap();
        let padded = plan.packing.padded_rows() as f64;
        let mut worst = 0.0_f64;
        for edge in 1..10 {
            let steps = plan.steps(&e, &x, edge).unwrap();
            for (k, step) in steps.slots.iter().enumerate() {
                let above = if k % 10 >= edge { 1.0 } else { 0.0 };
                worst = worst.max((step.re - above).abs());
            }
        }
        assert!(padded * worst < STEP_ERROR, "{}", padded * worst);
        assert!(padded * worst > 1e-9, "a bound that is never near says nothing");
        // A count that is off by this much is still read as the right one.
        let values = vec![0.0; 4];
        let bins =
            [Bins::of("x", &values, 10, &Edges::Given((0..=10).map(f64::from).collect())).unwrap()];
        let off = 0.99 * plan.error_above(None);
        let mut slots = vec![vec![0.0; plan.packing.all()]; plan.outputs()];
        slots[0][0] = 777_777.0 + off;
        let found = &plan.decode(&slots, &bins, rows, None).unwrap()[0];
        assert_eq!(found.counts[..3], [222_223.0, 777_777.0, 0.0]);
        assert_eq!(found.errors, [0.0; 10]);
    }

    #[test]
    fn impossible_jobs_are_refused() {
        let job = |rows, features, bins| HistogramJob { rows, features, bins };
        for (job, what) in [(job(1 << 25, 1, 4), "rows"), (job(4, 1, 300), "bins")] {
            let refused = HistogramPlan::new(&job, &params(5, 4)).unwrap_err();
            assert!(matches!(&refused, StatsError::TooLarge { what: w, .. } if *w == what));
            assert_eq!(HistogramPlan::auto_params(&job).unwrap_err(), refused);
        }
        let refused = HistogramPlan::new(&job(4, 1, 1), &params(5, 4)).unwrap_err();
        assert_eq!(refused, StatsError::TooFew { what: "bins", found: 1, needed: 2 });
        assert!(matches!(
            HistogramPlan::new(&job(8, 1, 4), &params(5, 4)),
            Err(StatsError::ParamsTooSmall { .. })
        ));
        let job = job(1000, 9, 10);
        let auto = HistogramPlan::auto_params(&job).unwrap();
        assert!(auto.rlwe().security_bits() >= 128.0 && auto.log_n() == 15);
        let plan = HistogramPlan::new(&job, &auto).unwrap();
        assert_eq!(plan.level(), auto.top());
        let bins = vec![Bins::of("x", &[0.5], 10, &Edges::Equal).unwrap(); 9];
        let mut slots = vec![vec![0.0; 1 << 14]; plan.outputs()];
        assert_eq!(plan.decode(&slots, &bins, 1000, None).unwrap()[8].counts[0], 1000.0);
        slots[2][0] = 1000.0 + 2.0 * plan.error_above(None).max(1.0);
        let refused = plan.decode(&slots, &bins, 1000, None);
        assert!(matches!(refused, Err(StatsError::OutOfRange { output: 2, .. })));
        slots.pop();
        assert!(matches!(plan.decode(&slots, &bins, 1000, None), Err(StatsError::Shape { .. })));
    }
}
