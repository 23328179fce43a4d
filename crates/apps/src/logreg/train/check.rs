//! The owner's part of a training: preparing a table, checking it, and encrypting it.

use crate::logreg::{
    layout::Layout,
    plan::TrainPlan,
    prepare::{Prepared, Transform},
    reference,
    spec::{LearningRate, Preparation, SigmoidApprox, TrainError, TrainSpec},
};
use crate::{Error, Result, Slots};
use core::iter::repeat_n;
use sudare::ckks::{Ciphertext, Encoder, Encryptor, serial::Shape};
use sudare_arith::real;
use sudare_table::Table;

impl TrainSpec {
    /// Returns the specification with a sigmoid range that fits a prepared table.
    ///
    /// Training in the clear finds the smallest of [`SigmoidApprox::RANGES`] that contains all
    /// inner products. With class weights, inner products near the end of a range can turn the
    /// weights away from the model that training aims at. One of the next two ranges is then taken,
    /// if its weights point in a much better direction. Apart from the table's shape, the server
    /// learns only the range about the table.
    ///
    /// # Errors
    /// [`Error::InnerProductsTooLarge`] if no range is wide enough; [`Error::Train`].
    pub fn with_fitting_range(self, rows: &Prepared<'_>) -> Result<Self> {
        let mut refused = None;
        for range in SigmoidApprox::RANGES {
            let spec = Self { sigmoid: SigmoidApprox { range, ..self.sigmoid }, ..self };
            match spec.fitting_weights(rows) {
                Ok(weights) => return Ok(spec.or_wider(rows, &weights)),
                Err(Error::Train(TrainError::Diverged { iteration, largest: found })) => {
                    refused = Some(Error::InnerProductsTooLarge { found, iteration, range });
                }
                Err(error @ Error::InnerProductsTooLarge { .. }) => refused = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(refused.unwrap_or(Error::Train(TrainError::Empty)))
    }

    /// Returns the weights of a training in the clear whose inner products the range contains.
    fn fitting_weights(&self, rows: &Prepared<'_>) -> Result<Vec<Vec<f64>>> {
        let ranges = reference::ranges(rows, self)?;
        inner_fits(&ranges, self)?;
        Ok(ranges.weights)
    }

    /// Returns this specification, or the one of the next two ranges whose weights point best in the
    /// direction of the exact model, if they deviate at most half as much.
    ///
    /// Directions count, because calibration scales and shifts scores afterwards. Shared models are
    /// not calibrated, and batches do not converge, so they keep the range. So do trainings without
    /// class weights, and tables whose comparison would take long.
    fn or_wider(self, rows: &Prepared<'_>, weights: &[Vec<f64>]) -> Self {
        let table = rows.table;
        let cells = table.rows().saturating_mul(table.features());
        let compares = self.class_weights.is_some()
            && self.batch.is_none()
            && self.shared_bits.is_none()
            && self.preparation != Preparation::Scale
            && cells.saturating_mul(self.models()) <= MAX_COMPARED;
        let longer = Self {
            iterations: EXACT_ITERATIONS,
            learning_rate: LearningRate::Constant(Self::PREPARED_STEP),
            ..self
        };
        let Some(Ok(exact)) = compares.then(|| reference::train_exact(rows, &longer)) else {
            return self;
        };
        let mut best = self;
        let mut least = deviation(weights, &exact) / 2.0;
        let wider = SigmoidApprox::RANGES.into_iter().filter(|&range| range > self.sigmoid.range);
        for range in wider.take(2) {
            let spec = Self { sigmoid: SigmoidApprox { range, ..self.sigmoid }, ..self };
            let found = spec.fitting_weights(rows);
            if let Ok(off) = found.map(|weights| deviation(&weights, &exact))
                && off < least
            {
                best = spec;
                least = off;
            }
        }
        best
    }
}

/// Number of iterations with the exact sigmoid after which the directions of weights stay the same to
/// three digits, for class weights up to 200.
const EXACT_ITERATIONS: u32 = 200;

/// Maximum number of cells times models of a table whose exact model is computed. It takes about a
/// second.
const MAX_COMPARED: usize = 1 << 21;

/// Returns the largest square of the sine of the angle between the weights of a model and its exact
/// weights, without intercepts.
fn deviation(weights: &[Vec<f64>], exact: &[Vec<f64>]) -> f64 {
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).skip(1).map(|(a, b)| a * b).sum::<f64>();
    let square = |(found, exact): (&Vec<f64>, &Vec<f64>)| {
        let cosine = product(found, exact);
        1.0 - cosine * cosine / (product(found, found) * product(exact, exact))
    };
    weights.iter().zip(exact).map(square).fold(0.0, f64::max)
}

/// Rejects inner products beyond the sigmoid's range. Columns without preparation are not checked,
/// because their step sizes are the caller's choice. If the weights are to be shared they are
/// checked as well, because the bound of errors relies on the range.
fn inner_fits(ranges: &reference::Ranges, spec: &TrainSpec) -> Result<()> {
    if spec.preparation == Preparation::Scale && spec.shared_bits.is_none() {
        return Ok(());
    }
    let range = spec.sigmoid.range;
    match (0..).zip(&ranges.inner).find(|&(_, &inner)| inner > range) {
        Some((iteration, &found)) => Err(Error::InnerProductsTooLarge { found, iteration, range }),
        None => Ok(()),
    }
}

impl TrainPlan {
    /// Prepares a table by its own moments. It has at most the planned number of rows. Pass the
    /// weights of its classes in `given` for a plan with
    /// [`ClassWeights::Given`](crate::logreg::ClassWeights::Given).
    ///
    /// # Errors
    /// [`Error::TableShape`] for more rows or other features than planned; [`Error::TableClasses`]
    /// for another number of classes; [`Error::Table`] if there is no target; [`Error::Train`] for
    /// weights that the plan does not expect, or missing ones that it expects.
    pub fn prepare<'a>(&self, table: &'a Table, given: Option<&[f64]>) -> Result<Prepared<'a>> {
        self.check_shape(table)?;
        Prepared::new(table, &self.job.spec, self.job.rows, given)
    }

    /// Prepares a table by a transform that it shares with the tables of other owners.
    /// `row_weights` are the weights of its classes.
    ///
    /// # Errors
    /// The errors of [`TrainPlan::prepare`]; [`Error::TransformColumns`].
    pub fn prepare_with<'a>(
        &self,
        table: &'a Table,
        row_weights: Vec<f64>,
        transform: Transform,
    ) -> Result<Prepared<'a>> {
        self.check_shape(table)?;
        Prepared::with(table, &self.job.spec, self.job.rows, row_weights, transform)
    }

    fn check_shape(&self, table: &Table) -> Result<()> {
        let rows = table.rows();
        let features = table.features();
        let needed_rows = self.job.rows;
        let needed_features = self.job.features;
        if rows > needed_rows || features != needed_features {
            return Err(Error::TableShape { rows, features, needed_rows, needed_features });
        }
        let found = table.classes()?.len();
        let needed = self.job.spec.classes as usize;
        if found != needed {
            return Err(Error::TableClasses { found, needed });
        }
        Ok(())
    }

    /// Rejects rows whose training exceeds the plan, by training on them in the clear. This covers
    /// weights and inner products without room, and class weights that would amplify errors of
    /// encryption too much.
    ///
    /// # Errors
    /// [`Error::RowsTooHeavy`]; [`Error::WeightsTooLarge`]; [`Error::InnerProductsTooLarge`];
    /// [`Error::Train`] if training diverges.
    pub fn check(&self, rows: &Prepared<'_>) -> Result<()> {
        let batches = rows.batches;
        let mean_square = |batch| {
            let rows_of = batches.rows(batch);
            let count = rows_of.len() as f64;
            rows_of.map(|row| real::powi(rows.weight(row), 2)).sum::<f64>() / count
        };
        let used = 0..batches.used(self.job.spec.iterations);
        let found = used.map(mean_square).fold(0.0, f64::max).sqrt();
        if found > TrainSpec::MAX_ROW_WEIGHT {
            return Err(Error::RowsTooHeavy { found, most: TrainSpec::MAX_ROW_WEIGHT });
        }
        let ranges = reference::ranges(rows, &self.job.spec)?;
        inner_fits(&ranges, &self.job.spec)?;
        // Weights that the last iteration with labels alone undoes are not computed under
        // encryption.
        let passed = self.job.spec.label_iterations() as usize - 1;
        let weights = ranges.weight.iter().skip(passed).chain(&ranges.momentum);
        let found = weights.copied().fold(0.0, f64::max);
        if found > self.largest_weight {
            return Err(Error::WeightsTooLarge { found, most: self.largest_weight });
        }
        Ok(())
    }

    /// Returns the slots of the ciphertexts of a table.
    ///
    /// The groups of rows come first, batch after batch, with the planned number of groups in each
    /// batch. With class weights each group occurs twice: unchanged, and times the weights of its
    /// rows. The means of labels of each model follow, and the penalty.
    pub fn pack<'a>(&'a self, rows: &'a Prepared<'_>) -> impl Iterator<Item = Slots> + use<'a> {
        let of_batches = 0..self.used_batches();
        let of_groups =
            of_batches.flat_map(move |batch| (0..self.layout.groups).map(move |g| (batch, g)));
        let of_rows = of_groups.flat_map(move |(batch, group)| {
            let (level, scale) = self.input(batch);
            let packed = self.packed_group(rows, batch, group).into_iter();
            packed.map(move |slots| (slots, level, scale))
        });
        of_rows.chain(self.sums(rows))
    }

    /// Returns the shape of each ciphertext of [`TrainPlan::encryptions`].
    pub fn shapes(&self) -> impl Iterator<Item = Shape> + use<'_> {
        let of_batches = (0..self.used_batches()).map(|batch| self.input(batch));
        let rows = of_batches.flat_map(|shape| repeat_n(shape, self.layout.ciphertexts()));
        let labels = (self.label_level, self.scales.labels);
        let labels = repeat_n(labels, self.label_batches() * self.job.spec.models());
        let penalty = self.penalised().then_some((self.level, self.scales.penalty));
        let log_slots = self.layout.slots().ilog2();
        let all = rows.chain(labels).chain(penalty);
        all.map(move |(level, scale)| Shape { level, scale, log_slots })
    }

    /// Returns the slots of the ciphertexts of a group of rows.
    fn packed_group(&self, rows: &Prepared<'_>, batch: usize, group: usize) -> Vec<Vec<f64>> {
        let Layout { entries, pieces, copies, blocks, .. } = self.layout;
        let all = rows.batches.rows(batch);
        // Groups beyond the table's rows are zeros, so that the number of rows stays hidden.
        let start = all.end.min(all.start + group * blocks);
        let own = start..all.end.min(start + blocks);
        let mut values = rows.rows(own.clone());
        let mut packed = Vec::with_capacity(self.layout.group());
        for copy in 0..copies {
            if copy > 0 {
                for (row, values) in own.clone().zip(values.chunks_exact_mut(entries)) {
                    let weight = rows.weight(row);
                    values.iter_mut().for_each(|value| *value *= weight);
                }
            }
            packed.extend((0..pieces).map(|turn| self.layout.packed(&values, turn)));
        }
        packed
    }

    /// Returns the means of labels of each model, and the penalty.
    fn sums<'a>(&'a self, rows: &'a Prepared<'_>) -> impl Iterator<Item = Slots> + use<'a> {
        let models = self.job.spec.models();
        let level = self.label_level;
        let scale = self.scales.labels;
        let of_batches = 0..self.label_batches();
        let of_models = of_batches.flat_map(move |batch| (0..models).map(move |m| (batch, m)));
        let labels = of_models.map(move |(batch, model)| {
            (self.everywhere(&rows.label_mean(batch, model, models)), level, scale)
        });
        let penalty = self
            .penalised()
            .then(|| (self.everywhere(&rows.transform.penalty()), self.level, self.scales.penalty));
        labels.chain(penalty)
    }

    /// Returns a vector with an entry for each entry of a row, in the layout of weights.
    fn everywhere(&self, entries: &[f64]) -> Vec<f64> {
        let period = self.layout.packed_vector(entries, 0);
        period.iter().copied().cycle().take(self.layout.slots()).collect()
    }

    /// Encrypts a checked table for its owner. The iterator encrypts one ciphertext per call.
    /// Batches are consecutive rows: if there are several, call [`Table::shuffle`] first.
    pub fn encryptions<'a>(
        &'a self,
        encryptor: &'a Encryptor,
        rows: &'a Prepared<'_>,
    ) -> impl Iterator<Item = Result<Ciphertext>> + use<'a> {
        let encoder = Encoder::new(&self.params);
        self.pack(rows).map(move |(slots, level, scale)| {
            Ok(encryptor.encrypt(&encoder.encode_real_at(&slots, level, scale)?)?)
        })
    }

    /// Prepares a table by its own moments, calls [`TrainPlan::check`], and returns all ciphertexts
    /// of [`TrainPlan::encryptions`]. `progress` is called with the number of finished ciphertexts.
    ///
    /// # Errors
    /// The errors of [`TrainPlan::prepare`] and [`TrainPlan::check`]; [`Error::Library`] if the
    /// encryptor has other parameters.
    pub fn encrypt(
        &self,
        encryptor: &Encryptor,
        table: &Table,
        given: Option<&[f64]>,
        progress: impl Fn(usize),
    ) -> Result<Vec<Ciphertext>> {
        let rows = self.prepare(table, given)?;
        self.check(&rows)?;
        let ciphertexts = self.encryptions(encryptor, &rows).enumerate();
        ciphertexts.map(|(i, made)| made.inspect(|_| progress(i + 1))).collect()
    }
}
