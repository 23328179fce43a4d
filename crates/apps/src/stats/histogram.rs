//! Histograms and quantiles of the columns of a table, by comparison with edges under
//! encryption.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use serde::{Deserialize, Serialize};
use sudare::{
    circuits::{ComplexOps, Trace, TracePlan, sim},
    ckks::{Ciphertext, Complex, Encryptor, Params, Scale, serial::Shape},
    rlwe::{KeyRequest, Level},
};
use sudare_arith::{par, prng::Seed};

use super::{
    ColumnScaling, Cost, Job, ROOM_BITS, Result, StatsError,
    cost::Inputs,
    packing::{
        self, Learnt, Packing, check_ciphertexts, check_count, check_rows, check_shape,
        smallest_params, total,
    },
};
use crate::{
    Slots,
    functions::{self, Fit, Function, FunctionPlan},
    table::Table,
};

/// Most bins of a job.
const MAX_BINS: usize = 1 << 8;

/// `log2` of the scale of [`HistogramPlan::auto_params`]. The sign is some `2^9` times as
/// steep as its argument.
const LOG2_SCALE: f64 = 40.0;

/// Levels for each special prime of [`HistogramPlan::auto_params`].
const LEVELS_PER_DIGIT: u32 = 4;

/// The shape of the table and the number of bins, which are public.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistogramJob {
    /// Number of rows, at most.
    pub rows: usize,
    /// Number of columns, the target not counted.
    pub features: usize,
    /// Bins of equal width from the smallest to the largest value of each column.
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
    /// Edges of the bins, ascending, one more than bins: from the smallest to the largest
    /// value.
    pub edges: Vec<f64>,
    /// Values in each bin, to about a half: a quarter at each edge. A value nearer to an edge than
    /// an eighth of a bin counts partly in both bins.
    pub counts: Vec<f64>,
}

impl Histogram {
    /// The value below which the part `p` of the values lies, `0 <= p <= 1`: linear within
    /// bins, so right to about the width of a bin.
    ///
    /// # Errors
    /// [`StatsError::Quantile`] for another `p`.
    pub fn quantile(&self, p: f64) -> Result<f64> {
        if !(0.0..=1.0).contains(&p) {
            return Err(StatsError::Quantile { found: p });
        }
        let mut rest = p * self.counts.iter().sum::<f64>();
        for (count, edges) in self.counts.iter().zip(self.edges.windows(2)) {
            if rest <= *count && *count > 0.0 {
                return Ok(edges[0] + (edges[1] - edges[0]) * (rest / count));
            }
            rest -= count;
        }
        // Rounding may leave a little over.
        Ok(self.edges.last().copied().unwrap_or(f64::NAN))
    }
}

/// How to count the values of columns in bins.
///
/// The owner scales columns as for [`StatsPlan`](super::StatsPlan), so that bins are those
/// of the range of each column. For each inner edge the server subtracts it, takes the
/// [`functions::step`] and sums: the number of values above. The step is off by up to a
/// quarter of a value over all rows, and rises from 0 to 1 within an eighth of a bin on
/// either side of the edge.
#[derive(Debug, Clone)]
pub struct HistogramPlan {
    job: HistogramJob,
    params: Params,
    packing: Packing,
    step: FunctionPlan,
    sum: TracePlan,
    pub(super) learnt: Learnt,
}

impl HistogramPlan {
    /// Plans the job for `params`, at the lowest levels that hold the sums.
    ///
    /// # Errors
    /// [`StatsError::Empty`], [`StatsError::TooFew`], [`StatsError::TooLarge`],
    /// [`StatsError::ParamsTooSmall`].
    pub fn new(job: &HistogramJob, params: &Params) -> Result<Self> {
        job.check()?;
        let packing = Packing::new(job.table(), params.max_slots());
        check_ciphertexts(packing.ciphertexts() as u128)?;
        let step = step(job)?;
        let sum = Trace::inner_sum(params.log_n(), 1, packing.block)?.doubling();
        for level in (step.depth()..=params.top().0).map(Level) {
            // Too low a level takes no plan.
            let Ok(step) = step.plan_at(params, level) else { continue };
            let (params, sum, learnt) = (params.clone(), sum.clone(), Learnt::default());
            let plan = Self { job: *job, params, packing, step, sum, learnt };
            if let Some(learnt) = plan.dry_run() {
                return Ok(Self { learnt, ..plan });
            }
        }
        Err(StatsError::ParamsTooSmall {
            what: "counting in bins",
            levels: step.depth(),
            rows: packing.padded_rows(),
            log2_q: params.chain().log2_q(params.top()),
            log2_scale: params.spec().log2_scale,
        })
    }

    /// The smallest ring and shortest chain for the job at 128 bits of security.
    ///
    /// # Errors
    /// As [`HistogramPlan::new`]; [`StatsError::Library`] if no ring is large enough.
    pub fn auto_params(job: &HistogramJob) -> Result<Params> {
        job.check()?;
        propose(job, step(job)?.depth(), LOG2_SCALE)
    }

    /// Parameters as [`HistogramPlan::auto_params`] makes them, with as much more precision as
    /// [`HistogramPlan::share`] to `bits` bits takes.
    ///
    /// # Errors
    /// As [`HistogramPlan::auto_params`]; [`StatsError::SharedBits`] unless there are 1 to
    /// [`MAX_SHARED_BITS`](super::MAX_SHARED_BITS) bits; [`StatsError::Library`] with
    /// `TooLittlePrecision` if there are so many results that `f64` is not precise enough.
    pub fn shared_params(job: &HistogramJob, bits: u32) -> Result<Params> {
        job.check()?;
        let depth = step(job)?.depth();
        let errors = |params: &Params| {
            let plan = Self::new(job, params)?;
            Ok((plan.largest_error(), plan.largest_shared_error(bits)))
        };
        packing::shared_params(LOG2_SCALE, bits, |scale| propose(job, depth, scale), errors)
    }

    /// The shape planned for.
    #[must_use]
    pub fn job(&self) -> HistogramJob {
        self.job
    }

    /// Keys that the server needs.
    #[must_use]
    pub fn required_keys(&self) -> &KeyRequest {
        &self.learnt.request
    }

    /// Level of the encrypted table.
    #[must_use]
    pub fn level(&self) -> Level {
        self.step.level()
    }

    /// Scale of the encrypted table.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.step.scale()
    }

    /// Ciphertexts of the encrypted table.
    #[must_use]
    pub fn ciphertexts(&self) -> usize {
        self.packing.ciphertexts()
    }

    /// Ciphertexts of the result.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.packing.groups() * (self.job.bins - 1)
    }

    /// The parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// What the server does, before any key exists.
    ///
    /// # Errors
    /// [`StatsError::Library`] if it cannot be simulated.
    pub fn cost(&self) -> Result<Cost> {
        Cost::of(&self.params, self.required_keys(), self.inputs(), |e, table| {
            self.run(e, table, |_| {})
        })
    }

    /// Level and scale of each ciphertext of the result.
    #[must_use]
    pub fn output_shapes(&self) -> Vec<(Level, Scale)> {
        self.learnt.shapes.repeat(self.outputs())
    }

    /// Of so many slots that what is done is the same.
    pub(super) fn inputs(&self) -> [Inputs; 1] {
        [(self.ciphertexts(), 1, self.level(), self.scale())]
    }

    /// What the ciphertexts of a table hold: its columns, scaled to
    /// `[-1/2, 1/2]`, so that differences from edges lie in `[-1, 1]`.
    ///
    /// # Errors
    /// [`StatsError::Rows`] for more rows than planned, [`StatsError::Shape`] for other columns.
    pub fn pack<'a>(
        &'a self,
        table: &'a Table,
        scaling: &'a ColumnScaling,
    ) -> Result<impl Iterator<Item = Slots> + use<'a>> {
        self.job.table().check_table(table, scaling)?;
        // Padding is in the middle of the first bin, above no edge.
        let padding = (self.edge(0) + self.edge(1)) / 2.0;
        Ok((0..self.ciphertexts()).map(move |index| {
            let slots = self.packing.slots(table, scaling, index, |x| x / 2.0, padding);
            (slots, self.level(), self.scale())
        }))
    }

    /// The shape of each ciphertext of a table.
    pub fn shapes(&self) -> impl Iterator<Item = Shape> + use<> {
        self.packing.shapes(self.level(), self.scale())
    }

    /// The table scaled and encrypted. `progress` learns the number of ciphertexts done after each, from
    /// any thread.
    ///
    /// # Errors
    /// As [`HistogramPlan::pack`]; [`StatsError::Library`] if the encryptor has other parameters.
    pub fn encrypt(
        &self,
        encryptor: &Encryptor,
        table: &Table,
        scaling: &ColumnScaling,
        progress: impl Fn(usize) + Send + Sync,
    ) -> Result<Vec<Ciphertext>> {
        packing::encrypt(&self.params, encryptor, self.pack(table, scaling)?, progress)
    }

    /// Edge `index` of `0..=bins`, of values in `[-1/2, 1/2]`.
    fn edge(&self, index: usize) -> f64 {
        index as f64 / self.job.bins as f64 - 0.5
    }

    /// The numbers of values above each inner edge, on the server. `progress` learns the
    /// number of outputs done, from any thread.
    ///
    /// # Errors
    /// [`StatsError::Shape`] for another number of ciphertexts than planned,
    /// [`StatsError::Library`] for what the evaluator refuses.
    pub fn run<E: ComplexOps>(
        &self,
        e: &E,
        table: &[E::Ct],
        progress: impl Fn(usize) + Send + Sync,
    ) -> Result<Vec<E::Ct>> {
        check_shape("ciphertexts", table.len(), self.ciphertexts())?;
        let columns: Vec<&[E::Ct]> = table.chunks_exact(self.packing.chunks).collect();
        let edges = 1..self.job.bins;
        let tasks: Vec<_> =
            columns.iter().flat_map(|x| edges.clone().map(move |edge| (x, edge))).collect();
        let done = AtomicUsize::new(0);
        par::try_map(&tasks, |(chunks, edge)| {
            let above = self.above(e, chunks, *edge)?;
            progress(1 + done.fetch_add(1, Relaxed));
            Ok::<_, StatsError>(above)
        })
    }

    /// How many values are above an edge.
    fn above<E: ComplexOps>(&self, e: &E, chunks: &[E::Ct], edge: usize) -> sudare::Result<E::Ct> {
        let above = chunks.iter().map(|x| self.steps(e, x, edge));
        let above = above.collect::<sudare::Result<Vec<_>>>()?;
        self.sum.run(e, &total(e, &above)?)
    }

    /// 1 where a value is above an edge, else 0.
    fn steps<E: ComplexOps>(&self, e: &E, x: &E::Ct, edge: usize) -> sudare::Result<E::Ct> {
        self.step.run(e, &e.add_const(x, Complex::new(-self.edge(edge), 0.0))?)
    }

    /// What the simulator tells, if the modulus holds counts of all rows.
    fn dry_run(&self) -> Option<Learnt> {
        let e = sim::Evaluator::for_params(&self.params);
        // Counts are largest far above an edge.
        let x = e.encrypt(&[Complex::new(0.5, 0.0)], self.level(), self.scale()).ok()?;
        let x = x.standing_for(self.params.max_slots());
        // In all chunks alike.
        let above = self.steps(&e, &x, 1).ok()?;
        let total = total(&e, core::iter::repeat_n(&above, self.packing.chunks)).ok()?;
        let total = self.sum.run(&e, &total).ok()?;
        (total.headroom_bits >= ROOM_BITS).then(|| Learnt::of(&e, &[total], self.job.rows))
    }

    /// A bound of the errors of results, of each decrypted sum divided by the number of rows,
    /// whatever the table.
    #[must_use]
    pub fn largest_error(&self) -> f64 {
        self.learnt.largest_error
    }

    /// The largest such error with which results can be shared to `bits` bits.
    #[must_use]
    pub fn largest_shared_error(&self, bits: u32) -> f64 {
        let slots = core::iter::repeat_n(self.params.max_slots(), self.outputs());
        self.packing.largest_shared_error(slots, bits)
    }

    /// The slots of the decrypted outputs as others than the owner of the key may see them and
    /// all that [`HistogramPlan::decode`] makes of them ([how](super#results-for-others)).
    /// One seed serves one release.
    ///
    /// # Errors
    /// [`StatsError::SharedBits`] unless there are 1 to
    /// [`MAX_SHARED_BITS`](super::MAX_SHARED_BITS) bits; [`StatsError::Library`] with
    /// `TooLittlePrecision` for more bits than there is precision for:
    /// [`HistogramPlan::shared_params`] gives it.
    pub fn share(&self, slots: &[Vec<f64>], bits: u32, noise: &Seed) -> Result<Vec<Vec<f64>>> {
        self.packing.share(slots, self.job.rows, self.largest_error(), (bits, noise))
    }

    /// The histogram of each column, from the slots of the decrypted outputs in their order, and
    /// the rows and the scaling of the table that was encrypted.
    ///
    /// # Errors
    /// [`StatsError::Rows`]; [`StatsError::Shape`] for another number of outputs, slots or columns
    /// than planned, [`StatsError::OutOfRange`] for a count that there cannot be.
    pub fn decode(
        &self,
        slots: &[Vec<f64>],
        scaling: &ColumnScaling,
        rows: usize,
    ) -> Result<Vec<Histogram>> {
        let HistogramJob { rows: most, features, bins } = self.job;
        check_rows(rows, most)?;
        let Packing { block, blocks, .. } = self.packing;
        check_shape("outputs", slots.len(), self.outputs())?;
        check_shape("scaled columns", scaling.features(), features)?;
        for output in slots {
            check_shape("slots", output.len(), block * blocks)?;
        }
        let histogram = |(column, &(centre, half_range)): (usize, &(f64, f64))| {
            let (group, place) = (column / blocks, column % blocks);
            let mut counts = Vec::with_capacity(bins);
            let mut above_last = rows as f64;
            for edge in 1..bins {
                let output = group * (bins - 1) + edge - 1;
                let found = slots[output][place * block];
                if !(-1.0..=rows as f64 + 1.0).contains(&found) {
                    return Err(StatsError::OutOfRange { output, rows, found });
                }
                counts.push((above_last - found).max(0.0));
                above_last = found;
            }
            counts.push(above_last.max(0.0));
            let edge = |index| centre + 2.0 * half_range * self.edge(index);
            Ok(Histogram { edges: (0..=bins).map(edge).collect(), counts })
        };
        scaling.maps().iter().enumerate().map(histogram).collect()
    }
}

/// With scales of `2^log2_scale` for a step of this depth.
fn propose(job: &HistogramJob, depth: u32, log2_scale: f64) -> Result<Params> {
    let special = depth.div_ceil(LEVELS_PER_DIGIT) as usize;
    smallest_params(&job.table(), log2_scale, depth, special)
}

/// The step on differences from edges, exact to a quarter of a value over all rows, those
/// of padding included.
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
        let scaling = ColumnScaling::of(table);
        let encrypt = |(slots, level, scale): Slots| {
            let slots: Vec<_> = slots.iter().map(|&x| Complex::new(x, 0.0)).collect();
            e.encrypt(&slots, level, scale).unwrap()
        };
        let encrypted: Vec<_> = plan.pack(table, &scaling).unwrap().map(encrypt).collect();
        let above = plan.run(&e, &encrypted, |_| {}).unwrap();
        assert_eq!(above.len(), plan.outputs());
        assert_eq!(&e.used_keys(), plan.required_keys());
        assert!(above.iter().all(|x| x.headroom_bits > 0.0));
        let slots: Vec<Vec<f64>> =
            above.iter().map(|x| x.slots.iter().map(|z| z.re).collect()).collect();
        plan.decode(&slots, &scaling, table.rows()).unwrap()
    }

    /// Values of irregular spread; those next to an edge are moved to the middle of a bin.
    fn table(rows: usize, features: usize, bins: usize) -> Table {
        let column = |j: usize| {
            let value = move |i: usize| ((i * i + 7 * j) % 101) as f64 / 50.0 - 1.0;
            let mut x: Vec<f64> = (0..rows).map(value).collect();
            let (low, high) =
                (x.iter().copied().fold(2.0, f64::min), x.iter().copied().fold(-2.0, f64::max));
            let width = (high - low) / bins as f64;
            for x in &mut x {
                let place = (*x - low) / width;
                if (place - place.round()).abs() < 0.13 && *x != low && *x != high {
                    *x = low + (place.floor() + 0.5).min(bins as f64 - 0.5) * width;
                }
            }
            x.iter().map(|x| 40.0 + (j + 1) as f64 * x).collect::<Vec<f64>>()
        };
        let columns: Vec<_> = (0..features).map(column).collect();
        let values = (0..rows).flat_map(|i| columns.iter().map(move |c| c[i])).collect();
        Table::new((0..features).map(|j| format!("c{j}")).collect(), values, None).unwrap()
    }

    #[test]
    fn counts_are_those_of_the_values() {
        for (log_n, rows, spare, features, bins) in
            [(6, 20, 0, 3, 4), (5, 70, 0, 2, 7), (7, 9, 0, 6, 2), (6, 20, 19, 2, 4)]
        {
            let table = table(rows, features, bins);
            let job = HistogramJob { rows: rows + spare, features, bins };
            let plan = HistogramPlan::new(&job, &params(log_n, 14)).unwrap();
            let found = simulate(&plan, &table);
            assert_eq!(found.len(), features);
            for (j, histogram) in found.iter().enumerate() {
                let values: Vec<f64> = table.column(j).collect();
                assert_eq!((histogram.edges.len(), histogram.counts.len()), (bins + 1, bins));
                for (k, edges) in histogram.edges.windows(2).enumerate() {
                    let within = |x: &&f64| {
                        **x >= edges[0]
                            && (**x < edges[1] || k + 1 == bins && **x <= edges[1] + 1e-9)
                    };
                    let exact = values.iter().filter(within).count() as f64;
                    let error = (histogram.counts[k] - exact).abs();
                    assert!(error < 0.3, "column {j}, bin {k}: {} {exact}", histogram.counts[k]);
                }
            }
        }
    }

    /// Values spread evenly have their order statistics as quantiles.
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
        }
        for p in [-0.1, 1.1, f64::NAN] {
            assert!(matches!(histogram.quantile(p), Err(StatsError::Quantile { .. })));
        }
        let empty_ends = Histogram { edges: vec![0.0, 1.0, 2.0, 3.0], counts: vec![0.0, 4.0, 0.0] };
        let quartiles = [0.0, 0.25, 0.5, 1.0].map(|p| empty_ends.quantile(p).unwrap());
        assert_eq!(quartiles, [1.0, 1.25, 1.5, 2.0]);
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
        let scaling = ColumnScaling::new(vec![(0.0, 1.0); 9]).unwrap();
        let mut slots = vec![vec![0.0; 1 << 14]; plan.outputs()];
        assert_eq!(plan.decode(&slots, &scaling, 1000).unwrap()[8].counts[0], 1000.0);
        slots[2][0] = 1002.0;
        let refused = plan.decode(&slots, &scaling, 1000);
        assert!(matches!(refused, Err(StatsError::OutOfRange { output: 2, .. })));
        slots.pop();
        assert!(matches!(plan.decode(&slots, &scaling, 1000), Err(StatsError::Shape { .. })));
    }
}
