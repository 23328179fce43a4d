//! Scores of encrypted rows, by a model that is plain or encrypted.

pub(super) mod job;
mod propose;
mod scorer;
mod share;
mod sigmoid;

pub use scorer::Scorer;

use self::{
    job::{LARGEST_FEATURE, ScoreJob, ScoredModel},
    scorer::Turned,
    sigmoid::{Sigmoid, real},
};
use super::{
    budget::{room_bits, trained_room_bits},
    job::Job,
    layout::{Layout, Order, powers_of_two},
    planned::{expect, expect_params, expect_scale, not_as_planned},
    prepare::Transform,
    spec::TrainError,
    work,
};
use crate::{Error, Result, TablePlan, ciphertext_bytes, release::DECODING_ERROR};
use core::iter::repeat_n;
use sudare::{
    circuits::ckks::{
        ComplexOps,
        cost::{self, Work},
        sim,
    },
    ckks::{
        Ciphertext, Complex, Encoder, Encryptor, Params, Scale, planner::SLACK_BITS, serial::Shape,
    },
    rlwe::{KeyRequest, Level},
};
use sudare_arith::par;
use sudare_table::Table;

/// Minimum `-log2` of the standard deviation of the error of a score, with the largest possible
/// weights and features.
const MIN_PRECISION_BITS: f64 = 13.0;

/// Weights of each model to score by, intercept first, for rows transformed by
/// [`ScorePlan::encryptions`].
#[derive(Debug)]
pub enum Weights<'a, C> {
    /// The weights in the clear.
    Plain(&'a [Vec<f64>]),
    /// Ciphertexts from [`ScorePlan::encrypt_model`] or from a training.
    Encrypted(&'a [C]),
}

/// Decrypted scores.
#[derive(Debug, Clone, PartialEq)]
pub struct Scores {
    /// `weights . (1, x)` of each row, for each model.
    pub scores: Vec<Vec<f64>>,
    /// Sigmoids of the scores, if the job includes them.
    pub probabilities: Option<Vec<Vec<f64>>>,
}

/// The result of a training, for scoring by its model.
pub(super) struct Leaves<'a> {
    pub job: &'a Job,
    pub params: &'a Params,
    pub layout: &'a Layout,
    /// Level and scale of the model.
    pub model: (Level, Scale),
    /// Bound of the absolute value of its weights.
    pub largest_weight: f64,
}

/// Plan to score rows: the owner's encryption, the server's keys, and the decoding of results.
///
/// A score is the inner product of a row with the weights, which takes one level. Rows have the
/// layout of a training ([`TrainPlan`](super::TrainPlan)). They are cut into pieces. A group has
/// one row for each block of a ciphertext, and one ciphertext for each piece of a row. Products of
/// a group are summed before relinearisation, which a plain model does not need. Sums over a piece
/// of `n` entries take `log2(n)` rotations. The length of pieces minimises key switches. With
/// pieces of one entry, the computation is a product by diagonals, without rotations of rows.
///
/// A model trained under the same key can score rows directly, at its final level and with the keys
/// of the training. [`TrainSpec::scorable`](super::TrainSpec::scorable) reserves a level for this.
/// Rows are then in pieces of the training's length.
///
/// For a given model, the absolute values of transformed features must not exceed 4, and of weights
/// 64. If others may see the scores, scores must not exceed their range instead. For a trained
/// model, the root mean square of the entries of a row must not exceed 32. The moduli have room for
/// such scores.
///
/// ```
/// use std::sync::Arc;
/// use sudare::{ckks, rlwe::KeyGenerator};
/// use sudare_apps::TablePlan;
/// use sudare_apps::logreg::{ScoreJob, ScorePlan, ScoredModel, Transform, Weights};
/// use sudare_table::Table;
///
/// let rows = Table::bundled("lbw")?;
/// let features = rows.features();
/// let model = ScoredModel::Given { features, classes: 2, probability: None };
/// let job = ScoreJob { rows: rows.rows(), model };
/// let params = ScorePlan::auto_params(&job)?;
/// let plan = ScorePlan::new(&job, &params)?;
///
/// let mut keygen = KeyGenerator::new(params.rlwe())?;
/// let secret = keygen.secret_key()?;
/// let public = Arc::new(keygen.public_key(&secret)?);
/// let keys = Arc::new(keygen.evaluation_keys(&secret, plan.required_keys())?);
/// let encryptor = ckks::Encryptor::new(&params, public)?;
/// let transform = Transform::spreading(&rows);
/// let encrypted: Vec<_> =
///     plan.encryptions(&encryptor, &rows, &transform)?.collect::<Result<_, _>>()?;
///
/// // The server holds `keys`, `encrypted` and a model.
/// let evaluator = ckks::Evaluator::new(&params, keys)?;
/// let weights = vec![0.5; 1 + features];
/// let scorer = plan.scorer(&evaluator, Weights::Plain(&[weights]))?;
/// let scores = scorer.score(&encrypted)?;
///
/// let decryptor = ckks::Decryptor::new(&params, secret)?;
/// let encoder = ckks::Encoder::new(&params);
/// let decode = |ciphertext| encoder.decode_real(&decryptor.decrypt(ciphertext)?);
/// let slots = scores.iter().map(decode).collect::<Result<Vec<_>, _>>()?;
/// let first: f64 = transform.rows(&rows.values()[..features]).iter().map(|x| 0.5 * x).sum();
/// assert!((plan.decode(&slots)?.scores[0][0] - first).abs() < plan.largest_error());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct ScorePlan {
    job: ScoreJob,
    params: Params,
    layout: Layout,
    /// Bound of the absolute value of weights.
    largest_weight: f64,
    /// Level and scale of the encrypted model.
    model: (Level, Scale),
    /// Level of rows and of their product with the model.
    level: Level,
    /// Scale of encrypted rows.
    rows: Scale,
    /// Scale of scores.
    scale: Scale,
    /// The lowest level that has room for scores.
    lowest: Level,
    sigmoid: Option<Sigmoid>,
    keys: KeyRequest,
    largest_error: f64,
}

impl Layout {
    /// Returns the layout of rows to score with the fewest key switches.
    fn of_scores(job: &ScoreJob, log_n: u32) -> Result<Self> {
        let each = Self::ciphertext_cost(Order::RowsFirst);
        let cost =
            |layout: &Self| layout.score_key_switches() as f64 + each * layout.ciphertexts() as f64;
        Self::cheapest(job.rows, job.model.features(), log_n, cost)
    }

    /// Returns the rotations whose sums put the sum of a piece into its first slot.
    fn piece_sums(&self) -> impl Iterator<Item = i64> {
        powers_of_two(1, self.width as i64)
    }

    /// Returns the key switches for an encrypted model: the rotations that turn it, and for each
    /// group a relinearisation and sums.
    fn score_key_switches(&self) -> usize {
        self.pieces - 1 + self.groups * (1 + self.piece_sums().count())
    }
}

impl ScorePlan {
    /// Plans to score `rows` rows by the model of a training. `simulator` has its simulated
    /// results.
    pub(super) fn after(
        training: &Leaves<'_>,
        rows: usize,
        simulator: impl Fn() -> sim::Evaluator,
    ) -> Result<Self> {
        let &Leaves { params, model, .. } = training;
        if rows == 0 {
            return Err(TrainError::Empty.into());
        }
        // The product of rows with the model takes a level below the model's.
        if model.0 == Level(0) {
            return Err(Error::NotScorable);
        }
        let &Layout { entries, width, .. } = training.layout;
        let job = ScoreJob { rows, model: ScoredModel::Trained(*training.job) };
        let layout = Layout::of_width(rows, entries, width, params.max_slots());
        let largest_weight = training.largest_weight;
        let chain = params.chain();
        let room = trained_room_bits(entries, largest_weight);
        let plan = Self::unchecked(&job, params, layout, largest_weight);
        work::simulated(model.0.0 as usize, layout.pieces, layout.period())?;
        let at = |level: Level| {
            let scale = Scale::from_log2(chain.log2_q(Level(level.0 - 1)) - room);
            let rows = scale * chain.divisor(level) / model.1;
            (plan.clone().with_scales(model, level, rows, scale), simulator())
        };
        Self::first_precise((1..=model.0.0).map(Level).map(at))?.ok_or(Error::NotScorable)
    }

    pub(super) fn given(job: &ScoreJob, params: &Params) -> Result<Self> {
        job.model.check()?;
        let layout = Layout::of_scores(job, params.log_n())?;
        let chain = params.chain();
        let entries = layout.entries;
        let largest_weight = job.model.largest_given_weight();
        let mut plan = Self::unchecked(job, params, layout, largest_weight);
        let mut first = Level(1);
        if let Some(probability) = job.model.probability() {
            let sigmoid = Sigmoid::new(&probability, params)?;
            // One level for the product with weights, and one for the mask of pieces of several
            // entries.
            first = Level(sigmoid.plan.level().0 + 1 + u32::from(layout.width > 1));
            plan.sigmoid = Some(sigmoid);
        }
        let room = room_bits(entries, largest_weight, LARGEST_FEATURE);
        let at = |level: Level| {
            let below = Level(level.0 - 1);
            let scale = match &plan.sigmoid {
                Some(_) => params.scale_at(below),
                None => Scale::from_log2(chain.log2_q(below) - room),
            };
            // Errors of rows are multiplied by weights, and errors of weights by features.
            let ratio = Scale::from_f64((largest_weight / LARGEST_FEATURE).sqrt());
            let mean = (scale * chain.divisor(level)).sqrt();
            let rows = mean * ratio;
            let weights = mean / ratio;
            let e = sim::Evaluator::for_params(params);
            (plan.clone().with_scales((level, weights), level, rows, scale), e)
        };
        // A sigmoid's polynomial fixes the level.
        let last = if plan.sigmoid.is_some() { first } else { params.top() };
        let exhausted =
            || sudare::Error::LevelExhausted { op: "scores", needed: first.0, level: params.top() };
        if first > params.top() {
            return Err(exhausted().into());
        }
        let levels = (last.0 - first.0) as usize + 1;
        work::simulated(levels, layout.pieces, layout.period())?;
        let found = Self::first_precise((first.0..=last.0).map(Level).map(at))?;
        found.ok_or_else(|| exhausted().into())
    }

    /// Returns the first of these plans that is precise enough. A new simulator finds its keys and
    /// errors. Returns `None` if it rejects all plans.
    fn first_precise(plans: impl Iterator<Item = (Self, sim::Evaluator)>) -> Result<Option<Self>> {
        let mut precision_bits = None;
        for (mut plan, e) in plans {
            let found = match plan.dry_run(&e) {
                Ok(found) => found,
                // At this level, such scales or values have no room.
                Err(Error::Library(
                    sudare::Error::ScaleOutOfRange { .. } | sudare::Error::ValueTooLarge { .. },
                )) => continue,
                Err(error) => return Err(error),
            };
            if found >= MIN_PRECISION_BITS {
                return Ok(Some(plan));
            }
            precision_bits = Some(found);
        }
        let what = "a score";
        let needed = MIN_PRECISION_BITS;
        precision_bits.map_or(Ok(None), |found| Err(Error::Precision { what, found, needed }))
    }

    /// Creates a plan without levels and scales.
    fn unchecked(job: &ScoreJob, params: &Params, layout: Layout, largest_weight: f64) -> Self {
        let none = Scale::from_f64(1.0);
        Self {
            job: *job,
            params: params.clone(),
            layout,
            largest_weight,
            model: (Level(0), none),
            level: Level(0),
            rows: none,
            scale: none,
            lowest: Level(0),
            sigmoid: None,
            keys: KeyRequest::new(),
            largest_error: f64::INFINITY,
        }
    }

    fn with_scales(self, model: (Level, Scale), level: Level, rows: Scale, scale: Scale) -> Self {
        let largest_entry = self.job.model.largest_entry();
        let room = room_bits(self.layout.entries, self.largest_weight, largest_entry);
        let bits = scale.log2() + room - SLACK_BITS;
        let chain = self.params.chain();
        let lowest = (0..level.0).map(Level).find(|&level| chain.log2_q(level) >= bits);
        let lowest = lowest.unwrap_or(Level(level.0 - 1));
        Self { model, level, rows, scale, lowest, ..self }
    }

    /// Returns the job.
    #[must_use]
    pub fn job(&self) -> &ScoreJob {
        &self.job
    }

    /// Returns a bound of the absolute errors of scores by the encryption of rows and given models.
    /// If others may see the scores, it includes decoding. A trained model adds
    /// [`TrainPlan::largest_error`](super::TrainPlan::largest_error) for each of its weights.
    #[must_use]
    pub fn largest_error(&self) -> f64 {
        self.largest_error
    }

    /// Returns a bound of the errors of probabilities by the polynomial in place of the sigmoid and
    /// by encryption, for scores within [`Probability::range`](super::Probability::range).
    #[must_use]
    pub fn largest_probability_error(&self) -> Option<f64> {
        self.sigmoid.as_ref().map(|sigmoid| sigmoid.largest_error)
    }

    /// Returns the bound of the absolute value of weights.
    #[must_use]
    pub fn largest_weight(&self) -> f64 {
        self.largest_weight
    }

    /// Returns the key switches of scoring all rows by an encrypted model, which take nearly all
    /// the time. Key switches of sigmoids are not included.
    #[must_use]
    pub fn key_switches(&self) -> usize {
        self.layout.score_key_switches() * self.job.model.models()
    }

    /// Returns the number of groups of rows.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.layout.groups
    }

    /// Returns the number of ciphertexts of a group. [`Scorer::score`] accepts any number of
    /// groups.
    #[must_use]
    pub fn group_len(&self) -> usize {
        self.layout.pieces
    }

    /// Returns the number of ciphertexts of the result of a group: scores and, if the job includes
    /// them, probabilities for each model.
    #[must_use]
    pub fn group_outputs(&self) -> usize {
        self.job.model.models() * (1 + usize::from(self.sigmoid.is_some()))
    }

    /// Returns the level and the scale of each of these ciphertexts.
    pub fn output_shapes(&self) -> impl Iterator<Item = (Level, Scale)> {
        let scores = (self.lowest, self.scale);
        let probabilities = self.sigmoid.as_ref().map(|sigmoid| {
            let plan = &sigmoid.plan;
            (plan.output_level(), plan.output_scale())
        });
        let of_model = core::iter::once(scores).chain(probabilities);
        core::iter::repeat_n(of_model, self.job.model.models()).flatten()
    }

    /// Returns the shape of each ciphertext of encrypted rows.
    #[must_use]
    pub fn shape(&self) -> Shape {
        let log_slots = self.layout.slots().ilog2();
        Shape { level: self.level, scale: self.rows, log_slots }
    }

    /// Returns the level and the scale of encrypted rows.
    #[must_use]
    pub fn input(&self) -> (Level, Scale) {
        (self.level, self.rows)
    }

    /// Returns the slots of each ciphertext: the transformed rows, group after group, and zeros in
    /// place of missing rows.
    ///
    /// # Errors
    /// [`Error::TableShape`] for more rows or other features than planned;
    /// [`Error::TransformColumns`]; [`Error::FeatureTooLarge`]; [`Error::RowTooLarge`].
    pub fn pack(
        &self,
        table: &Table,
        transform: &Transform,
    ) -> Result<impl Iterator<Item = Vec<f64>> + use<>> {
        let needed_rows = self.job.rows;
        let needed_features = self.job.model.features();
        let rows = table.rows();
        let features = table.features();
        if rows > needed_rows || features != needed_features {
            return Err(Error::TableShape { rows, features, needed_rows, needed_features });
        }
        if transform.columns() != features {
            let found = transform.columns();
            let needed = features;
            return Err(Error::TransformColumns { found, needed });
        }
        let layout = self.layout;
        let design = transform.rows(table.values());
        // All rows are checked before the first ciphertext, since the iterator cannot fail.
        for (row, entries) in design.chunks_exact(layout.entries).enumerate() {
            self.check_row(row, entries, table, transform)?;
        }
        Ok((0..layout.ciphertexts()).map(move |i| {
            // Groups beyond the rows of the table begin beyond its end and are zeros.
            let start = i / layout.pieces * layout.blocks * layout.entries;
            layout.packed(&design[design.len().min(start)..], i % layout.pieces)
        }))
    }

    fn check_row(
        &self,
        row: usize,
        entries: &[f64],
        table: &Table,
        transform: &Transform,
    ) -> Result<()> {
        let most = self.job.model.largest_entry();
        if !matches!(self.job.model, ScoredModel::Trained(_)) {
            // Plans and the range of scores assume an intercept entry of at most 1.
            if entries[0] > 1.0 {
                let found = entries[0];
                let needed = "1 at most";
                return Err(not_as_planned("entry of the intercept", found, needed));
            }
            let features = entries[1..].iter().zip(table.columns());
            let mut too_large = features.filter(|(x, _)| x.is_nan() || x.abs() > most);
            return match too_large.next() {
                Some((x, column)) => {
                    let column = column.clone();
                    let found = x.abs();
                    Err(Error::FeatureTooLarge { row, column, found, most })
                }
                None => Ok(()),
            };
        }
        let squares: f64 = entries.iter().map(|x| x * x).sum();
        let found = (squares / entries.len() as f64).sqrt();
        // Not negated: the mean square of a row with NaN fails here, as it must.
        if found <= most {
            return Ok(());
        }
        let values = &table.values()[row * table.features()..][..table.features()];
        let column = table.columns()[transform.farthest(values)].clone();
        Err(Error::RowTooLarge { row, column, found, most })
    }

    /// Encrypts rows for their owner, with the transform of the model's training rows. The iterator
    /// encrypts one ciphertext per call.
    ///
    /// # Errors
    /// The errors of [`ScorePlan::pack`]. A ciphertext is [`Error::Library`] if the encryptor has
    /// other parameters.
    pub fn encryptions<'a>(
        &'a self,
        encryptor: &'a Encryptor,
        table: &Table,
        transform: &Transform,
    ) -> Result<impl Iterator<Item = Result<Ciphertext>> + use<'a>> {
        let encoder = Encoder::new(&self.params);
        Ok(self.pack(table, transform)?.map(move |slots| {
            Ok(encryptor.encrypt(&encoder.encode_real_at(&slots, self.level, self.rows)?)?)
        }))
    }

    /// Returns the level and the scale of an encrypted model.
    #[must_use]
    pub fn model(&self) -> (Level, Scale) {
        self.model
    }

    /// Returns the slots of a weight vector, intercept first.
    ///
    /// # Errors
    /// [`Error::NotAsPlanned`] for another number of weights; [`Error::WeightTooLarge`];
    /// [`Error::ScoresTooLarge`].
    pub fn pack_model(&self, weights: &[f64]) -> Result<Vec<f64>> {
        self.check_weights(weights)?;
        Ok(self.layout.packed_vector(weights, 0))
    }

    /// Encrypts a weight vector of a model, intercept first.
    ///
    /// # Errors
    /// The errors of [`ScorePlan::pack_model`]; [`Error::Library`] if the encryptor has other
    /// parameters.
    pub fn encrypt_model(&self, encryptor: &Encryptor, weights: &[f64]) -> Result<Ciphertext> {
        let (level, scale) = self.model;
        let slots = self.pack_model(weights)?;
        Ok(encryptor.encrypt(&Encoder::new(&self.params).encode_real_at(&slots, level, scale)?)?)
    }

    /// Returns the server's part: scoring by a model, on any evaluator with the plan's chain,
    /// including the simulator.
    ///
    /// # Errors
    /// The errors of [`ScorePlan::encrypt_model`] for plain weights; [`Error::NotAsPlanned`] for
    /// encrypted weights of another number, level or scale, and for another chain;
    /// [`Error::Library`] for a missing key.
    pub fn scorer<'a, E: ComplexOps>(
        &'a self,
        ev: &'a E,
        weights: Weights<'_, E::Ct>,
    ) -> Result<Scorer<'a, E>> {
        expect_params(ev, &self.params)?;
        if let Weights::Plain(models) = weights {
            models.iter().try_for_each(|weights| self.check_weights(weights))?;
        }
        let turned = self.turned(ev, weights)?;
        expect("weights of models", turned.len(), self.job.model.models())?;
        Ok(Scorer { plan: self, ev, turned })
    }

    /// Returns the server's work to score all rows by an encrypted model.
    ///
    /// # Errors
    /// [`Error::Library`] if it cannot be simulated.
    pub fn work(&self) -> Result<Work> {
        let e = cost::Evaluator::new(&self.params, &self.keys);
        let zeros = |level, scale| {
            e.slots().encrypt(&vec![Complex::default(); self.layout.slots()], level, scale)
        };
        let (level, scale) = self.model;
        let models = vec![zeros(level, scale)?; self.job.model.models()];
        let scorer = self.scorer(&e, Weights::Encrypted(&models))?;
        let mut work = e.work();
        let before = e.work();
        scorer.score(&vec![zeros(self.level, self.rows)?; self.group_len()])?;
        let of_group = e.work() - before;
        // All groups take the same work, so one is run.
        (0..self.groups()).for_each(|_| work += of_group);
        Ok(work)
    }

    fn check_weights(&self, weights: &[f64]) -> Result<()> {
        expect("weights of the model", weights.len(), self.layout.entries)?;
        let sizes = weights.iter().map(|w| w.abs());
        if let Some(range) = self.job.model.range() {
            // The intercept's entry is 1.
            let intercept = weights.first().map_or(0.0, |w| w.abs());
            let found = intercept + LARGEST_FEATURE * (sizes.clone().sum::<f64>() - intercept);
            if found > range {
                return Err(Error::ScoresTooLarge { found, range });
            }
        }
        // The condition also finds NaN.
        let mut too_large = sizes.filter(|&size| size.is_nan() || size > self.largest_weight);
        too_large
            .next()
            .map_or(Ok(()), |found| Err(Error::WeightTooLarge { found, most: self.largest_weight }))
    }

    /// Turns the weights of each model to match the pieces of rows.
    fn turned<E: ComplexOps>(
        &self,
        ev: &E,
        weights: Weights<'_, E::Ct>,
    ) -> Result<Vec<Turned<E::Ct>>> {
        let of_plain = |weights: &Vec<f64>| {
            let turns = 0..self.layout.pieces;
            Turned::Plain(turns.map(|turn| self.layout.packed_vector(weights, turn)).collect())
        };
        match weights {
            Weights::Plain(models) => Ok(models.iter().map(of_plain).collect()),
            Weights::Encrypted(models) => {
                models.iter().map(|model| self.turned_model(ev, model)).collect()
            }
        }
    }

    fn turned_model<E: ComplexOps>(&self, ev: &E, model: &E::Ct) -> Result<Turned<E::Ct>> {
        let (level, scale) = self.model;
        expect("level of the encrypted model", ev.level(model), level)?;
        expect_scale("scale of the encrypted model", ev.scale(model), scale)?;
        let mut model = ev.with_log_slots(model, self.layout.slots().ilog2())?;
        // Dropped before it is turned, because rotations are cheaper at lower levels.
        ev.drop_to(&mut model, self.level)?;
        let mut turned = vec![model];
        for step in self.layout.turns() {
            let further = par::try_map(&turned, |model| ev.rotate(model, step))?;
            turned.extend(further);
        }
        Ok(Turned::Encrypted(turned))
    }

    /// Finds keys and largest errors, for both kinds of models, with the largest rows and weights.
    /// Returns `-log2` of the standard deviation of the error of a score.
    fn dry_run(&mut self, e: &sim::Evaluator) -> Result<f64> {
        let Layout { entries, pieces, .. } = self.layout;
        // One period is enough, because slots repeat.
        let layout = Layout { blocks: pieces, groups: 1, ..self.layout };
        let period = Self { layout, sigmoid: None, ..self.clone() };
        let rows = vec![self.job.model.largest_entry(); entries * pieces];
        let encrypt = |turn| {
            let x = e.encrypt(&real(&layout.packed(&rows, turn)), self.level, self.rows)?;
            Ok(x.standing_for(self.layout.slots()))
        };
        let rows = (0..pieces).map(encrypt).collect::<Result<Vec<_>>>()?;
        let weights = vec![self.largest_weight; entries];
        let mut model =
            e.encrypt(&real(&layout.packed_vector(&weights, 0)), self.model.0, self.model.1)?;
        if let ScoredModel::Trained(_) = self.job.model {
            // Errors of a trained model come from the training, whose plan bounds them.
            (model.noise_log2, model.worst.error) = (f64::NEG_INFINITY, 0.0);
        }
        let mut noise_log2 = f64::NEG_INFINITY;
        let mut in_scores = 0.0;
        let mut in_probabilities = 0.0;
        for weights in [Weights::Plain(&[weights]), Weights::Encrypted(&[model])] {
            let scorer = Scorer { plan: &period, ev: e, turned: period.turned(e, weights)? };
            let scores = scorer.sums(&rows, &scorer.turned[0])?.remove(0);
            noise_log2 = scores.noise_log2.max(noise_log2);
            in_scores = scores.worst.largest_error().max(in_scores);
            if let Some(sigmoid) = &self.sigmoid {
                let slots = vec![Complex::new(sigmoid.range, 0.0); scores.slots.len()];
                let scores = sim::Ciphertext { slots, ..scores };
                let probabilities = sigmoid.run(e, &layout, &scores)?;
                in_probabilities = probabilities.worst.error.max(in_probabilities);
            }
        }
        if let ScoredModel::Shared { range, .. } = self.job.model {
            // A slot of a result contains each weight once, with one entry, so none is larger.
            in_scores += DECODING_ERROR * range;
        }
        (self.keys, self.largest_error) = (e.used_keys(), in_scores);
        if let Some(sigmoid) = &mut self.sigmoid {
            sigmoid.largest_error += in_probabilities;
        }
        Ok(-noise_log2)
    }

    /// Decodes the scores from the slots of the decrypted results of all groups in their order.
    ///
    /// # Errors
    /// [`Error::NotAsPlanned`] for another number of results or slots.
    pub fn decode(&self, slots: &[Vec<f64>]) -> Result<Scores> {
        let outputs = self.group_outputs();
        let layout = &self.layout;
        expect("ciphertexts of scores", slots.len(), layout.groups * outputs)?;
        for slots in slots {
            expect("slots of scores", slots.len(), layout.slots())?;
        }
        let read = |output: usize| -> Vec<f64> {
            let groups = slots.iter().skip(output).step_by(outputs);
            // Slots beyond the planned rows are zeros of the last group.
            let all = groups.flat_map(|slots| slots.iter().step_by(layout.block()).copied());
            all.take(self.job.rows).collect()
        };
        let each = outputs / self.job.model.models();
        let of_models = |kind: usize| (kind..outputs).step_by(each).map(read).collect();
        let probabilities = self.sigmoid.as_ref().map(|_| of_models(1));
        Ok(Scores { scores: of_models(0), probabilities })
    }
}

impl TablePlan for ScorePlan {
    fn params(&self) -> &Params {
        &self.params
    }

    /// The keys are enough for plain and encrypted models.
    fn required_keys(&self) -> &KeyRequest {
        &self.keys
    }

    fn ciphertexts(&self) -> usize {
        self.layout.ciphertexts()
    }

    fn table_bytes(&self) -> u64 {
        let each = ciphertext_bytes(&self.params, self.input().0);
        each.saturating_mul(self.ciphertexts() as u64)
    }

    fn outputs(&self) -> usize {
        self.groups().saturating_mul(self.group_outputs())
    }

    fn result_shapes(&self, _iterations: u32) -> Vec<(Level, Scale)> {
        let of_group: Vec<_> = self.output_shapes().collect();
        repeat_n(of_group, self.groups()).flatten().collect()
    }
}
