//! Sums and counts of the rows of a table, by groups that only the owner knows.

use core::iter::repeat_n;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use serde::{Deserialize, Serialize};
use sudare::{
    circuits::{
        Ops, Trace, TracePlan,
        ckks::{ComplexOps, sim},
    },
    ckks::{Ciphertext, Complex, Encryptor, Params, Scale, serial::Shape},
    rlwe::Level,
};
use sudare_arith::par;
use sudare_table::{Table, is_exact};

use super::{
    ColumnScaling, Job, ROOM_BITS, Result, Sample, StatsError,
    bounded::Bounded,
    cost::Inputs,
    packing::{
        self, LOG2_SCALE, Learnt, Packing, check_count, check_shape, product, smallest_params,
        total,
    },
    planned::{Circuit, Planned},
    summary::undefined_as_null,
};
use crate::{Slots, TablePlan};

/// Maximum number of groups of a job.
const MAX_GROUPS: usize = 1 << 10;

/// Levels of a square and its product with the membership.
const DEPTH: u32 = 2;

/// The shape of the table and the number of groups, which are public.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupJob {
    /// Maximum number of rows.
    pub rows: usize,
    /// Number of columns to sum.
    pub features: usize,
    /// Maximum number of groups.
    pub groups: usize,
}

impl GroupJob {
    fn table(self) -> Job {
        Job { rows: self.rows, features: self.features }
    }

    fn check(self) -> Result<()> {
        self.table().check()?;
        check_count("groups", self.groups, 1..=MAX_GROUPS)
    }
}

/// Groups of rows that have the same value in a key column.
#[derive(Debug, Clone, PartialEq)]
pub struct Grouping {
    labels: Vec<f64>,
    /// Index of the label of each row.
    members: Vec<usize>,
}

impl Grouping {
    /// Groups rows by the values of a key column, one per row. Groups are in ascending order of
    /// their values. -0 and 0 are one value.
    ///
    /// # Errors
    /// [`StatsError::GroupKey`] for a value to which neighbouring integers are rounded, and for
    /// NaN.
    pub fn of(keys: &[f64]) -> Result<Self> {
        // Adding 0 removes the sign of -0, which would sort before 0.
        let keys: Vec<f64> = keys.iter().map(|key| key + 0.0).collect();
        if let Some(&found) = keys.iter().find(|key| !is_exact(**key)) {
            return Err(StatsError::GroupKey { found });
        }
        let mut labels = keys.clone();
        labels.sort_by(f64::total_cmp);
        labels.dedup();
        let place = |key: &f64| labels.partition_point(|label| label < key);
        Ok(Self { members: keys.iter().map(place).collect(), labels })
    }

    /// Returns the values of the key column, ascending, one per group.
    #[must_use]
    pub fn labels(&self) -> &[f64] {
        &self.labels
    }

    /// Returns the group of each row.
    #[must_use]
    pub fn members(&self) -> &[usize] {
        &self.members
    }
}

/// Statistics of the rows of each group, by group and column.
///
/// Variances divide by the count minus one. Undefined values are NaN, `null` in JSON: means of
/// empty groups, and variances of groups of fewer than two rows. Values that the error of
/// encryption dominates are NaN, too: a variance below its error, and the mean of a group whose
/// count is below its error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupStatistics {
    /// Rows of each group.
    pub count: Vec<usize>,
    /// Sum of each column over the rows of each group.
    pub sum: Vec<Vec<f64>>,
    /// Mean of each column over the rows of each group.
    #[serde(with = "undefined_as_null::matrix")]
    pub mean: Vec<Vec<f64>>,
    /// Sample variance of each column over the rows of each group.
    #[serde(with = "undefined_as_null::matrix")]
    pub variance: Vec<Vec<f64>>,
    /// Bound of the error of each count, in rows. 0 if counts are exact.
    pub count_error: f64,
    /// Bound of the error of each sum.
    pub sum_error: Vec<Vec<f64>>,
    /// Bound of the error of each mean.
    #[serde(with = "undefined_as_null::matrix")]
    pub mean_error: Vec<Vec<f64>>,
    /// Bound of the error of each variance.
    #[serde(with = "undefined_as_null::matrix")]
    pub variance_error: Vec<Vec<f64>>,
}

impl GroupStatistics {
    /// Returns the values of a column in a group as a sample, for a test between groups.
    ///
    /// # Errors
    /// [`StatsError::Group`] and [`StatsError::Column`] if there is no such group or column.
    pub fn sample(&self, group: usize, column: usize) -> Result<Sample> {
        let Some((&count, means)) = self.count.get(group).zip(self.mean.get(group)) else {
            return Err(StatsError::Group { found: group, groups: self.count.len() });
        };
        let Some(&mean) = means.get(column) else {
            return Err(StatsError::Column { found: column, columns: means.len() });
        };
        Ok(Sample {
            count,
            mean,
            variance: self.variance[group][column],
            mean_error: self.mean_error[group][column],
            variance_error: self.variance_error[group][column],
        })
    }
}

/// The circuit that sums columns by groups.
#[derive(Debug, Clone)]
pub struct GroupSums {
    sum: TracePlan,
    /// Level of the results. Values enter [`DEPTH`] levels above, and memberships one level above.
    base: Level,
}

/// Plan to sum the columns of a table by groups.
///
/// The owner encrypts the columns as [`StatsPlan`](super::StatsPlan) does, but scales them by the
/// rows of each group ([`GroupPlan::scalings`]). No group then loses precision to another. For each
/// group, a column follows that is 1 in its rows and 0 elsewhere. The server sums these columns,
/// and their products with every column and its square, in two levels. It learns neither the group
/// of a row nor the sizes of groups.
pub type GroupPlan = Planned<GroupSums>;

impl Circuit for GroupSums {
    type Job = GroupJob;

    const WHAT: &'static str = "sums by groups";

    const LOG2_SCALE: f64 = LOG2_SCALE;

    fn check(job: &GroupJob) -> Result<()> {
        job.check()
    }

    fn table(job: &GroupJob) -> Job {
        job.table()
    }

    fn depth(_job: &GroupJob) -> Result<u32> {
        Ok(DEPTH)
    }

    fn propose(job: &GroupJob, log2_scale: f64) -> Result<Params> {
        smallest_params(&job.table(), log2_scale, DEPTH, 1)
    }

    /// Returns the ciphertexts of the memberships of each group.
    fn further_ciphertexts(job: &GroupJob, packing: &Packing) -> u128 {
        job.groups as u128 * packing.chunks as u128
    }

    fn candidates(
        _job: &GroupJob,
        params: &Params,
        packing: &Packing,
    ) -> Result<impl Iterator<Item = Self>> {
        let sum = Trace::inner_sum(params.log_n(), 1, packing.block)?.doubling();
        let bases = (0..=params.top().0.saturating_sub(DEPTH)).map(Level);
        Ok(bases.map(move |base| Self { sum: sum.clone(), base }))
    }

    fn learn(plan: &GroupPlan) -> Option<Learnt> {
        plan.dry_run()
    }

    fn outputs(plan: &GroupPlan) -> usize {
        plan.job.groups * (1 + 2 * plan.packing.groups())
    }

    fn output_shapes(plan: &GroupPlan) -> Vec<(Level, Scale)> {
        let Some((count, sums)) = plan.learnt.shapes.split_first() else { return Vec::new() };
        let of_group = [&[*count][..], &sums.repeat(plan.packing.groups())].concat();
        of_group.repeat(plan.job.groups)
    }

    fn output_slots(plan: &GroupPlan) -> impl Iterator<Item = usize> {
        let count = plan.packing.block;
        let all = plan.params.max_slots();
        let each = 1 + 2 * plan.packing.groups();
        (0..Self::outputs(plan)).map(move |i| if i % each == 0 { count } else { all })
    }

    fn inputs(plan: &GroupPlan) -> Vec<Inputs> {
        let (wide, narrow) = plan.simulated_slots();
        let values = plan.packing.ciphertexts();
        let inputs = [
            (values, wide, plan.level_of_values()),
            (plan.ciphertexts() - values, narrow, plan.level_of_groups()),
        ];
        let scaled = |(count, slots, level)| (count, slots, level, plan.params.scale_at(level));
        inputs.map(scaled).to_vec()
    }

    fn shapes(plan: &GroupPlan) -> impl Iterator<Item = Shape> + use<> {
        let level = plan.level_of_values();
        let values = plan.packing.shapes(level, plan.params.scale_at(level));
        let level = plan.level_of_groups();
        let log_slots = plan.packing.block.ilog2();
        let members = Shape { level, scale: plan.params.scale_at(level), log_slots };
        values.chain(repeat_n(members, plan.ciphertexts() - plan.packing.ciphertexts()))
    }

    /// Computes the number of rows of each group and then, for each ciphertext of columns, the sums
    /// of the columns and the sums of their squares.
    fn run<E: ComplexOps>(
        plan: &GroupPlan,
        e: &E,
        table: &[E::Ct],
        progress: &(impl Fn(usize) + Send + Sync),
    ) -> Result<Vec<E::Ct>> {
        let (values, memberships) = table.split_at(plan.packing.ciphertexts());
        // Once for all groups.
        let squares = par::try_map(values, |x| e.mul_rescale(x, x))?;
        let values: Vec<&E::Ct> = values.iter().collect();
        let squares: Vec<&E::Ct> = squares.iter().collect();
        let memberships: Vec<&E::Ct> = memberships.iter().collect();
        let groups: Vec<&[&E::Ct]> = memberships.chunks_exact(plan.packing.chunks).collect();
        let done = AtomicUsize::new(0);
        let sums = par::try_map(&groups, |members| {
            let sums = plan.sums(e, &values, &squares, members)?;
            progress(sums.len() + done.fetch_add(sums.len(), Relaxed));
            Ok::<_, StatsError>(sums)
        })?;
        Ok(sums.into_iter().flatten().collect())
    }

    /// Counts are integers, so rounding removes noise from them.
    fn round_shared(plan: &GroupPlan, shared: &mut [Vec<f64>]) {
        for counts in shared.iter_mut().step_by(1 + 2 * plan.packing.groups()) {
            counts.iter_mut().for_each(|count| *count = count.round().max(0.0));
        }
    }
}

impl GroupPlan {
    /// Returns the slots of simulated ciphertexts of columns and of groups. They are fewer than
    /// real ones where all slots are alike.
    fn simulated_slots(&self) -> (usize, usize) {
        let Packing { block, blocks, .. } = self.packing;
        if blocks == 1 { (1, 1) } else { (block * blocks, block) }
    }

    fn level_of_values(&self) -> Level {
        Level(self.circuit.base.0 + DEPTH)
    }

    fn level_of_groups(&self) -> Level {
        Level(self.circuit.base.0 + 1)
    }

    /// Returns the scaling of the columns of each planned group by its rows. Groups that the table
    /// does not have scale to 0.
    #[must_use]
    pub fn scalings(&self, table: &Table, grouping: &Grouping) -> Vec<ColumnScaling> {
        let mut rows = vec![Vec::new(); self.job.groups];
        for (row, &group) in grouping.members().iter().enumerate().take(table.rows()) {
            // Groups beyond the plan are rejected when the table is packed.
            if let Some(rows) = rows.get_mut(group) {
                rows.push(row);
            }
        }
        rows.iter().map(|rows| ColumnScaling::of_rows(table, rows.iter().copied())).collect()
    }

    /// Returns the slots, the level and the scale of ciphertext `index`.
    fn slots(
        &self,
        table: &Table,
        scalings: &[ColumnScaling],
        grouping: &Grouping,
        index: usize,
    ) -> Slots {
        let (slots, level) = match index.checked_sub(self.packing.ciphertexts()) {
            None => {
                let members = grouping.members();
                let scaled = |row: usize, column, x| scalings[members[row]].scaled(column, x);
                (self.packing.slots(table, index, scaled, 0.0), self.level_of_values())
            }
            Some(index) => {
                let group = index / self.packing.chunks;
                let chunk = index % self.packing.chunks;
                let members = grouping.members().iter().skip(chunk * self.packing.block);
                let mut slots: Vec<f64> = members
                    .take(self.packing.block)
                    .map(|&member| f64::from(u8::from(member == group)))
                    .collect();
                slots.resize(self.packing.block, 0.0);
                (slots, self.level_of_groups())
            }
        };
        (slots, level, self.params.scale_at(level))
    }

    /// Returns the slots of the ciphertexts of a table: its columns, scaled by groups, and the
    /// membership of rows in each group.
    ///
    /// # Errors
    /// [`StatsError::Rows`] for more rows than planned, [`StatsError::TooLarge`] for more groups,
    /// [`StatsError::Shape`] for other columns or groups of other rows.
    pub fn pack<'a>(
        &'a self,
        table: &'a Table,
        scalings: &'a [ColumnScaling],
        grouping: &'a Grouping,
    ) -> Result<impl Iterator<Item = Slots> + use<'a>> {
        self.job.table().check_table(table, scalings)?;
        check_shape("scaled groups", scalings.len(), self.job.groups)?;
        check_shape("rows with a group", grouping.members().len(), table.rows())?;
        check_count("groups", grouping.labels().len(), 1..=self.job.groups)?;
        Ok((0..self.ciphertexts()).map(|index| self.slots(table, scalings, grouping, index)))
    }

    /// Scales and encrypts a table with its groups. `progress` is called with the number of
    /// finished ciphertexts after each, from any thread.
    ///
    /// # Errors
    /// The errors of [`GroupPlan::pack`]; [`StatsError::Library`] if the encryptor has other
    /// parameters.
    pub fn encrypt(
        &self,
        encryptor: &Encryptor,
        table: &Table,
        scalings: &[ColumnScaling],
        grouping: &Grouping,
        progress: impl Fn(usize) + Send + Sync,
    ) -> Result<Vec<Ciphertext>> {
        packing::encrypt(&self.params, encryptor, self.pack(table, scalings, grouping)?, progress)
    }

    /// Computes the sums of one group.
    fn sums<E: ComplexOps>(
        &self,
        e: &E,
        values: &[&E::Ct],
        squares: &[&E::Ct],
        members: &[&E::Ct],
    ) -> sudare::Result<Vec<E::Ct>> {
        let mut count = total(e, members.iter().copied())?;
        // A count takes no product, so it is summed at the lowest level.
        e.drop_to(&mut count, self.circuit.base)?;
        let mut sums = vec![self.circuit.sum.run(e, &count)?];
        // Several blocks in a ciphertext mean one chunk.
        let wide = match (self.packing.blocks, members) {
            (1, _) | (_, []) => None,
            (_, &[member, ..]) => {
                let log_slots = self.packing.all().ilog2();
                Some(e.with_log_slots(member, log_slots)?)
            }
        };
        let wide = wide.as_ref().map(|member| [member]);
        let members = wide.as_ref().map_or(members, |wide| &wide[..]);
        for columns in 0..self.packing.groups() {
            let chunks = columns * self.packing.chunks..(columns + 1) * self.packing.chunks;
            for factors in [values, squares] {
                let factors = factors[chunks.clone()].iter().copied();
                let products = product(e, factors, members.iter().copied())?;
                sums.push(self.circuit.sum.run(e, &products)?);
            }
        }
        Ok(sums)
    }

    /// Finds the keys that the job uses and the largest error of its results, if the modulus holds
    /// sums of rows that are all 1.
    fn dry_run(&self) -> Option<Learnt> {
        let e = sim::Evaluator::for_params(&self.params);
        if self.level_of_values() > self.params.top() {
            return None;
        }
        let ones = |level, slots: usize| {
            let ones = vec![Complex::new(1.0, 0.0); slots];
            let x = e.encrypt(&ones, level, self.params.scale_at(level)).ok()?;
            Some(x.standing_for(self.params.max_slots()))
        };
        let (chunks, (wide, narrow)) = (self.packing.chunks, self.simulated_slots());
        let x = ones(self.level_of_values(), wide)?;
        let square = e.mul_rescale(&x, &x).ok()?;
        let member = ones(self.level_of_groups(), narrow)?;
        // All groups of columns use the same keys and have sums of the same size.
        let one = Self { packing: Packing { features: 1, ..self.packing }, ..self.clone() };
        let sums = one.sums(&e, &vec![&x; chunks], &vec![&square; chunks], &vec![&member; chunks]);
        let sums = sums.ok()?;
        let fits = sums.iter().all(|sum| sum.headroom_bits >= ROOM_BITS);
        fits.then(|| Learnt::of(&e, &sums, self.job.rows))
    }

    /// The statistics, from the slots of the decrypted outputs in their order, the scaling of each
    /// group of the table that was encrypted, and the number of its groups. Slots that
    /// [`TableStatistics::share`](super::TableStatistics::share) made to some bits come with these.
    ///
    /// # Errors
    /// [`StatsError::Shape`] for another number of outputs, slots, columns or scalings than
    /// planned, [`StatsError::TooLarge`] for more groups, [`StatsError::OutOfRange`] for a sum that
    /// scaled values cannot have, and for a count that is not an integer.
    pub fn decode(
        &self,
        slots: &[Vec<f64>],
        scalings: &[ColumnScaling],
        groups: usize,
        shared_bits: Option<u32>,
    ) -> Result<GroupStatistics> {
        let GroupJob { rows, features, groups: most } = self.job;
        check_count("groups", groups, 1..=most)?;
        check_shape("outputs", slots.len(), self.outputs())?;
        check_shape("scaled groups", scalings.len(), most)?;
        self.job.table().check_scalings(scalings)?;
        let all = self.packing.block * self.packing.blocks;
        let each = 1 + 2 * self.packing.groups();
        let errors = self.learnt.errors(rows, shared_bits);
        let error = |kind: usize| errors.get(kind).copied().unwrap_or(f64::INFINITY);
        let read = |output, place, kind| {
            let value = self.packing.sum(slots, output, place, rows)?;
            Ok::<_, StatsError>(Bounded::new(value, error(kind)))
        };
        // Rounding makes counts exact if their error is below a half.
        // If counts are not exact, rounding adds up to a half.
        let count_error = if error(0) < 0.5 { 0.0 } else { error(0) + 0.5 };
        let mut found = GroupStatistics {
            count: Vec::with_capacity(groups),
            sum: vec![Vec::with_capacity(features); groups],
            mean: vec![Vec::with_capacity(features); groups],
            variance: vec![Vec::with_capacity(features); groups],
            count_error,
            sum_error: vec![Vec::with_capacity(features); groups],
            mean_error: vec![Vec::with_capacity(features); groups],
            variance_error: vec![Vec::with_capacity(features); groups],
        };
        for (group, scaling) in scalings.iter().enumerate().take(groups) {
            let first = group * each;
            check_shape("slots", slots[first].len(), self.packing.block)?;
            for output in &slots[first + 1..first + each] {
                check_shape("slots", output.len(), all)?;
            }
            let n = read(first, 0, 0)?.value;
            if (n - n.round()).abs() > 0.25 || n.round() < 0.0 {
                return Err(StatsError::OutOfRange { output: first, rows, found: n });
            }
            let count = Bounded::new(n.round(), count_error);
            found.count.push(count.value as usize);
            for (column, &(centre, half_range)) in scaling.maps().iter().enumerate() {
                let columns = column / self.packing.blocks;
                let place = column % self.packing.blocks;
                let output = first + 1 + 2 * columns;
                let sums = [read(output, place, 1)?, read(output + 1, place, 2)?];
                // The scaled values of a constant column are 0 exactly.
                let constant = half_range == 0.0;
                let sums = if constant { [Bounded::exact(0.0); 2] } else { sums };
                let [sum, mean, variance] = moments(count, sums, centre, half_range);
                found.sum[group].push(sum.value);
                found.sum_error[group].push(sum.error);
                found.mean[group].push(mean.value);
                found.mean_error[group].push(mean.error);
                let several = count.value >= 2.0;
                let constant = constant && several;
                found.variance[group].push(if constant { 0.0 } else { variance.positive() });
                found.variance_error[group].push(if constant { 0.0 } else { variance.error });
            }
        }
        Ok(found)
    }
}

/// Returns the sum, the mean and the sample variance of a column in a group, from its count, the
/// sums of its scaled values and of their squares, and its scaling.
fn moments(
    count: Bounded,
    [sum, squares]: [Bounded; 2],
    centre: f64,
    half_range: f64,
) -> [Bounded; 3] {
    let mean = sum / count;
    let deviations = squares / count - mean * mean;
    let variance = deviations * (count / (count - Bounded::exact(1.0)));
    let shift = Bounded::exact(centre);
    [
        sum.times(half_range) + count.times(centre),
        mean.times(half_range) + shift,
        variance.times(half_range).times(half_range),
    ]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sudare::ckks::Spec;

    use super::*;

    fn simulate(plan: &GroupPlan, table: &Table, grouping: &Grouping) -> GroupStatistics {
        let params = &plan.params;
        let e = sim::Evaluator::new(params.log_n(), params.chain().clone());
        let scalings = plan.scalings(table, grouping);
        let encrypt = |(slots, level, scale): Slots| {
            let slots: Vec<_> = slots.iter().map(|&x| Complex::new(x, 0.0)).collect();
            e.encrypt(&slots, level, scale).unwrap()
        };
        let packed = plan.pack(table, &scalings, grouping).unwrap();
        let encrypted: Vec<_> = packed.map(encrypt).collect();
        let sums = plan.run(&e, &encrypted, |_| {}).unwrap();
        assert_eq!(sums.len(), plan.outputs());
        assert_eq!(&e.used_keys(), plan.required_keys());
        assert!(sums.iter().all(|sum| sum.headroom_bits > 0.0));
        let slots: Vec<Vec<f64>> =
            sums.iter().map(|sum| sum.slots.iter().map(|z| z.re).collect()).collect();
        plan.decode(&slots, &scalings, grouping.labels().len(), None).unwrap()
    }

    fn small_params(log_n: u32) -> Params {
        let spec = Spec::uniform(log_n, 60.0, 2, 40.0, vec![60.0]);
        Params::new(Spec { insecure: true, ..spec }).unwrap()
    }

    fn table(rows: usize, features: usize, values: &[f64]) -> Table {
        let columns = (0..features).map(|i| format!("c{i}")).collect();
        Table::new(columns, values[..rows * features].to_vec(), None).unwrap()
    }

    proptest! {
        #[test]
        fn every_shape_equals_sums_over_the_rows(
            log_n in 4_u32..7,
            keys in prop::collection::vec(0_u8..4, 1..40),
            features in 1_usize..6,
            spare in 0_usize..20,
            values in prop::collection::vec(-50.0..150.0, 240),
        ) {
            let keys: Vec<f64> = keys.into_iter().map(f64::from).collect();
            let rows = keys.len();
            let grouping = Grouping::of(&keys).unwrap();
            let groups = grouping.labels().len();
            let table = table(rows, features, &values);
            // A plan for more rows and groups than the table has.
            let rows = rows + spare;
            let groups = groups + spare % 3;
            let plan = GroupPlan::new(&GroupJob { rows, features, groups }, &small_params(log_n));
            let plan = plan.unwrap();
            let found = simulate(&plan, &table, &grouping);
            for (group, label) in grouping.labels().iter().enumerate() {
                let members = |j| {
                    let values: Vec<f64> = table.column(j).collect();
                    keys.iter().zip(values).filter(|(key, _)| *key == label).map(|(_, x)| x)
                        .collect::<Vec<f64>>()
                };
                for j in 0..features {
                    let x = members(j);
                    let n = x.len() as f64;
                    let sum: f64 = x.iter().sum();
                    let squares: f64 = x.iter().map(|x| (x - sum / n).powi(2)).sum();
                    prop_assert_eq!(found.count[group], x.len());
                    prop_assert!((found.sum[group][j] - sum).abs() < 1e-8);
                    let sample = found.sample(group, j).unwrap();
                    prop_assert!((sample.mean - sum / n).abs() < 1e-9);
                    let variance = squares / (n - 1.0);
                    let same = sample.variance.is_nan() && variance.is_nan();
                    prop_assert!(same || (sample.variance - variance).abs() < 1e-6);
                }
            }
        }
    }

    /// Results of a group do not depend on the size of other groups, and digits that a scaling of
    /// all rows would lose are not reported.
    #[test]
    fn no_group_takes_digits_from_another() {
        let params = small_params(5);
        let plan = GroupPlan::new(&GroupJob { rows: 8, features: 1, groups: 2 }, &params).unwrap();
        let grouping = Grouping::of(&[0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]).unwrap();
        let far = table(8, 1, &[1.0, 1.1, 0.9, 1.05, 2e7, -1e7, 3e6, 4e6]);
        let found = simulate(&plan, &far, &grouping);
        let expected =
            (0.0125_f64.powi(2) + 0.0875_f64.powi(2) + 0.1125_f64.powi(2) + 0.0375_f64.powi(2))
                / 3.0;
        assert!((found.variance[0][0] / expected - 1.0).abs() < 1e-9, "{found:?}");
        assert!(found.variance_error[0][0] < 1e-3 * expected);
        // One scaling for all groups, as earlier versions encrypted tables.
        let scaling = ColumnScaling::of(&far);
        let scaled = |x: f64| scaling.scaled(0, x);
        let mut slots: Vec<_> = [8, 16, 16, 8, 16, 16].map(|count| vec![0.0; count]).into();
        slots[0][0] = 4.0;
        slots[1][0] = [1.0, 1.1, 0.9, 1.05].map(scaled).iter().sum();
        slots[2][0] = [1.0, 1.1, 0.9, 1.05].map(scaled).iter().map(|x| x * x).sum();
        let found = plan.decode(&slots, &vec![scaling; 2], 2, None).unwrap();
        assert!(found.variance[0][0].is_nan() && found.variance_error[0][0] > expected);
        let sample = found.sample(0, 0).unwrap();
        assert!(crate::stats::TTest::welch(&sample, &sample).is_err());
    }

    #[test]
    fn groups_are_the_values_of_the_key() {
        let grouping = Grouping::of(&[3.0, -1.0, 3.0, 0.5]).unwrap();
        assert_eq!(grouping.labels(), [-1.0, 0.5, 3.0]);
        assert_eq!(grouping.members(), [2, 0, 2, 1]);
        // Zeros of both signs are one group, which is shown without a sign.
        for keys in [[-1.0, -0.0, 0.0, -1.0], [-1.0, 0.0, -0.0, -1.0]] {
            let grouping = Grouping::of(&keys).unwrap();
            assert_eq!(grouping.members(), [0, 1, 1, 0]);
            assert_eq!(grouping.labels()[1].to_bits(), 0.0_f64.to_bits());
        }
        // 2^53 + 1 is read as 2^53.
        assert!(Grouping::of(&[9_007_199_254_740_991.0, -9_007_199_254_740_991.0]).is_ok());
        for key in [9_007_199_254_740_993.0, -1e300, f64::NAN] {
            assert!(matches!(Grouping::of(&[1.0, key]), Err(StatsError::GroupKey { .. })));
        }
    }

    #[test]
    fn impossible_jobs_are_refused() {
        let job = |rows, features, groups| GroupJob { rows, features, groups };
        let params = small_params(5);
        let refused = GroupPlan::new(&job(4, 1, 0), &params).unwrap_err();
        assert_eq!(refused, StatsError::TooFew { what: "groups", found: 0, needed: 1 });
        for (job, what) in [(job(1 << 25, 1, 2), "rows"), (job(4, 1, 2000), "groups")] {
            let refused = GroupPlan::new(&job, &params).unwrap_err();
            assert!(matches!(&refused, StatsError::TooLarge { what: w, .. } if *w == what));
            assert_eq!(GroupPlan::auto_params(&job).unwrap_err(), refused);
        }
        let flat = Spec { insecure: true, ..Spec::uniform(5, 50.0, 1, 40.0, vec![50.0]) };
        assert!(matches!(
            GroupPlan::new(&job(4, 1, 2), &Params::new(flat).unwrap()),
            Err(StatsError::ParamsTooSmall { levels: 2, .. })
        ));
        let auto = GroupPlan::auto_params(&job(189, 9, 3)).unwrap();
        assert!(auto.rlwe().security_bits() >= 128.0 && auto.log_n() == 13);
        let plan = GroupPlan::new(&job(4, 1, 2), &params).unwrap();
        let scaling = vec![ColumnScaling::new(vec![(0.0, 1.0)]).unwrap(); 2];
        let mut slots: Vec<_> = [4, 16, 16, 4, 16, 16].map(|count| vec![0.0; count]).into();
        let found = plan.decode(&slots, &scaling, 2, None).unwrap();
        assert!(found.count == [0, 0] && found.mean[0][0].is_nan());
        assert!(serde_json::to_string(&found).unwrap().contains("null"));
        assert!(matches!(found.sample(2, 0), Err(StatsError::Group { found: 2, groups: 2 })));
        assert!(matches!(found.sample(0, 1), Err(StatsError::Column { found: 1, .. })));
        for wrong in [0.5, -1.0, 9.0, f64::NAN] {
            slots[3][0] = wrong;
            assert!(matches!(
                plan.decode(&slots, &scaling, 2, None),
                Err(StatsError::OutOfRange { output: 3, .. })
            ));
        }
        slots[3] = vec![0.0; 16];
        assert!(matches!(plan.decode(&slots, &scaling, 2, None), Err(StatsError::Shape { .. })));
    }
}
