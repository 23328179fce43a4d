//! The server's part of a training.

pub(super) mod check;
pub(super) mod gradient;
pub(super) mod history;
pub(super) mod simulate;
pub(super) mod trained;

use self::gradient::{Gradient, Gradients, Point};
use super::{
    budget::Round,
    plan::{TrainPlan, refresh::Refresh},
    planned::{add_rotations, added, at, expect, expect_scale, not_as_planned},
    spec::{Preparation, TrainSpec},
};
use crate::{Error, Result, maybe_shared::MaybeShared};
use std::sync::{Arc, OnceLock};
use sudare::{
    circuits::ckks::{ComplexOps, bootstrap::Bootstrapper},
    ckks::{Ciphertext, Scale},
    rlwe::Level,
};
use sudare_arith::{par, prng::Seed};

/// A running training. To pause it, save both fields, and pass them to [`TrainPlan::resume`] later.
#[derive(Debug, Clone)]
pub struct Training<C = Ciphertext> {
    /// Iterations done.
    pub iteration: u32,
    /// The encrypted weights `w` of each model, each followed by `v` unless the training is
    /// finished.
    pub state: Vec<C>,
}

/// The server's part of a training: see [`TrainPlan::trainer`].
///
/// On one machine, call [`Trainer::start`] and [`Trainer::step`]. Several machines can share the
/// work. One has the [`Training`] and calls [`Trainer::refresh`] and [`Trainer::update`]. In
/// between, any machine computes [`Gradients::part`] of the [`TrainPlan::shares`] of the batch, and
/// [`Gradients::sum`] of these parts in any order. A step makes these calls in sequence, with one
/// share. The results are the same, bit for bit, for every division.
pub struct Trainer<'a, E: ComplexOps> {
    gradients: Gradients<'a, E>,
    pub(super) sums: Sums<E::Ct>,
    /// Prepared at its first use.
    bootstrapper: OnceLock<Bootstrapper<E>>,
}

/// The vectors that the owner of rows sums in the clear.
pub(super) struct Sums<C> {
    /// Means of labels: of each model for the first batch, then for the next batch.
    labels: Vec<C>,
    penalty: Option<C>,
}

impl<E: ComplexOps> Trainer<'static, E> {
    /// Creates a trainer as [`TrainPlan::trainer`] does, from a shared plan and evaluator.
    ///
    /// # Errors
    /// The errors of [`TrainPlan::trainer`].
    pub fn shared(plan: Arc<TrainPlan>, ev: Arc<E>, sums: Vec<E::Ct>) -> Result<Self> {
        Self::with(MaybeShared::Shared(plan), MaybeShared::Shared(ev), sums)
    }
}

impl<'a, E: ComplexOps> Trainer<'a, E> {
    fn with(
        plan: MaybeShared<'a, TrainPlan>,
        ev: MaybeShared<'a, E>,
        sums: Vec<E::Ct>,
    ) -> Result<Self> {
        let gradients = Gradients::with(plan, ev)?;
        let sums = gradients.plan.checked_sums(&*gradients.ev, sums)?;
        Ok(Self { gradients, sums, bootstrapper: OnceLock::new() })
    }

    /// Returns the worker that computes parts of gradients on this machine.
    #[must_use]
    pub fn gradients(&self) -> &Gradients<'a, E> {
        &self.gradients
    }

    /// Starts a training, and does the first iterations, which use means of labels alone.
    ///
    /// # Errors
    /// [`Error::Library`] for a missing key.
    pub fn start(&self) -> Result<Training<E::Ct>> {
        let plan = &*self.gradients.plan;
        let e = &*self.gradients.ev;
        let iteration = plan.job.spec.label_iterations();
        let mut state = Vec::with_capacity(plan.state_len(iteration));
        for labels in self.sums.labels_of(plan, iteration - 1) {
            let mut weights = e.with_scale(labels, plan.scales.start)?;
            if let Some(refresh) = &plan.refresh {
                let level = refresh.output_level();
                let scale = plan.scales.first;
                weights = combine(e, &[(&weights, 1.0)], level, scale)?;
            }
            let copies = plan.state_len(iteration) / plan.job.spec.models();
            state.extend(core::iter::repeat_n(weights, copies));
        }
        Ok(Training { iteration, state })
    }

    /// Runs one iteration on the ciphertexts [`TrainPlan::batch`]`(t.iteration)` of the rows.
    ///
    /// # Errors
    /// [`Error::Finished`] if none is left; [`Error::NotAsPlanned`] for ciphertexts that differ
    /// from the plan; [`Error::Library`] for a missing key. After an error, the number of
    /// iterations done is unchanged.
    pub fn step(&self, batch: &[E::Ct], t: &mut Training<E::Ct>) -> Result<()> {
        self.refresh(t)?;
        let share = self.gradients.plan.batch(t.iteration);
        let gradient = self.gradients.part(&self.point(t), share, batch)?;
        self.update(gradient, t)
    }

    /// Returns the point of the next gradient.
    #[must_use]
    pub fn point(&self, t: &Training<E::Ct>) -> Point<E::Ct> {
        Point { iteration: t.iteration, v: t.state.iter().skip(1).step_by(2).cloned().collect() }
    }

    /// Bootstraps the weights if the next iteration needs it and it has not happened yet.
    ///
    /// # Errors
    /// The errors of [`Trainer::step`].
    pub fn refresh(&self, t: &mut Training<E::Ct>) -> Result<()> {
        let plan = &*self.gradients.plan;
        let e = &*self.gradients.ev;
        let round = plan.round(t.iteration)?;
        if !plan.check_state(e, round, t)? {
            return Ok(());
        }
        if let Some(refresh) = &plan.refresh {
            let bootstrapper = self.bootstrapper(refresh)?;
            let mut state = Vec::with_capacity(t.state.len());
            for model in t.state.chunks_exact(2) {
                state.extend(refresh.run(e, bootstrapper, [&model[0], &model[1]])?);
            }
            t.state = state;
        }
        Ok(())
    }

    /// Runs one iteration with the gradient over all rows of the batch.
    ///
    /// # Errors
    /// The errors of [`Trainer::step`]; [`Error::NotAsPlanned`] for another gradient, or if
    /// [`Trainer::refresh`] was not called.
    pub fn update(&self, gradient: Gradient<E::Ct>, t: &mut Training<E::Ct>) -> Result<()> {
        let plan = &*self.gradients.plan;
        let e = &*self.gradients.ev;
        let round = plan.round(t.iteration)?;
        if plan.check_state(e, round, t)? {
            let (arrival, _) = round.arrival;
            return Err(not_as_planned("level of the training's state", arrival, round.level));
        }
        plan.check_gradient(e, round, &gradient, t.iteration)?;
        *t = plan.next(e, round, &self.sums, gradient.sums, t)?;
        Ok(())
    }

    fn bootstrapper(&self, refresh: &Refresh) -> Result<&Bootstrapper<E>> {
        if let Some(prepared) = self.bootstrapper.get() {
            return Ok(prepared);
        }
        let prepared = refresh.prepare(&*self.gradients.ev)?;
        Ok(self.bootstrapper.get_or_init(|| prepared))
    }
}

impl<C> Sums<C> {
    /// Returns the means of labels of each model for an iteration.
    fn labels_of(&self, plan: &TrainPlan, iteration: u32) -> &[C] {
        let models = plan.job.spec.models();
        // Prepared columns have one mean of labels for all batches.
        let batch = plan.batches.of(iteration) % plan.label_batches();
        &self.labels[batch * models..][..models]
    }
}

impl TrainPlan {
    /// Returns the server's part of the training, on any evaluator with the plan's chain, including
    /// the simulator. Pass the sums of a table, or the added sums of several tables
    /// ([`TrainPlan::add_sums`]).
    ///
    /// # Errors
    /// [`Error::NotAsPlanned`] for another chain, or sums that differ from the plan.
    pub fn trainer<'a, E: ComplexOps>(
        &'a self,
        ev: &'a E,
        sums: Vec<E::Ct>,
    ) -> Result<Trainer<'a, E>> {
        Trainer::with(MaybeShared::Borrowed(self), MaybeShared::Borrowed(ev), sums)
    }

    /// Combines the sums of several tables. Means of labels are added, and the penalty is taken
    /// from the first table.
    ///
    /// # Errors
    /// [`Error::NotAsPlanned`] for no tables, or sums that differ from the plan.
    pub fn add_sums<E: ComplexOps>(&self, e: &E, tables: Vec<Vec<E::Ct>>) -> Result<Vec<E::Ct>> {
        let mut tables = tables.into_iter();
        let Some(first) = tables.next() else {
            return Err(not_as_planned("encrypted tables", 0, "at least 1"));
        };
        let mut all = self.checked_sums(e, first)?;
        for table in tables {
            let table = self.checked_sums(e, table)?;
            all.labels = added(e, &all.labels, &table.labels)?;
        }
        Ok(all.labels.into_iter().chain(all.penalty).collect())
    }

    /// Checks sums against the plan.
    fn checked_sums<E: ComplexOps>(&self, e: &E, mut sums: Vec<E::Ct>) -> Result<Sums<E::Ct>> {
        expect("ciphertexts of sums", sums.len(), self.sum_ciphertexts())?;
        // The penalty is the last ciphertext.
        let penalty = if self.penalised() { sums.pop() } else { None };
        let labels = sums.iter().map(|sum| (sum, self.label_level, self.scales.labels));
        let penalties = penalty.iter().map(|sum| (sum, self.level, self.scales.penalty));
        for (sum, level, scale) in labels.chain(penalties) {
            expect("level of encrypted sums", e.level(sum), level)?;
            expect_scale("scale of encrypted sums", e.scale(sum), scale)?;
        }
        Ok(Sums { labels: sums, penalty })
    }

    /// Returns a training after `iteration` iterations, from its state at that time.
    ///
    /// # Errors
    /// [`Error::NotAsPlanned`] if the state does not match.
    pub fn resume<C>(&self, iteration: u32, state: Vec<C>) -> Result<Training<C>> {
        let first = self.job.spec.label_iterations();
        let last = self.job.spec.iterations;
        if !(first..=last).contains(&iteration) {
            let needed = format_args!("{first} to {last}");
            return Err(not_as_planned("iterations done", iteration, needed));
        }
        expect("ciphertexts of the training's state", state.len(), self.state_len(iteration))?;
        Ok(Training { iteration, state })
    }

    /// Returns the encrypted weights of each model, for [`TrainPlan::decode`]. For an unfinished
    /// training these are the current weights.
    ///
    /// # Errors
    /// [`Error::NotAsPlanned`] for a state that differs from the plan.
    pub fn model<C: Clone>(&self, t: &Training<C>) -> Result<Vec<C>> {
        let needed = self.state_len(t.iteration);
        expect("ciphertexts of the training's state", t.state.len(), needed)?;
        Ok(t.state.iter().step_by(needed / self.job.spec.models()).cloned().collect())
    }

    /// Decodes the weights, intercept first, from the slots of a decrypted model. They are in the
    /// coordinates of the training, like the weights of [`super::reference::train`]. To convert
    /// them to weights of the columns, use [`Transform::of_columns`](super::Transform::of_columns).
    #[must_use]
    pub fn decode(&self, plaintext_slots: &[f64]) -> Vec<f64> {
        self.layout.unpacked_vector(plaintext_slots)
    }

    /// Prepares weights, in the coordinates of the training, for people other than the key's owner.
    /// Noise that hides their errors is added, and they are rounded to `bits` bits after the binary
    /// point; see [`Release`]. Each release counts as one of the 1024 releases of a key. Use a new
    /// seed for each release.
    ///
    /// The bound of errors assumes, in every iteration, inner products within the range of the
    /// sigmoid and weights within the plan. [`TrainPlan::check`] verifies this. It cannot if rows
    /// belong to several owners, because no owner has all rows. It also does not check columns
    /// without preparation unless the training is planned for sharing. In these cases weights are
    /// released only with `assume_range`. If the assumption is wrong, the noise may not hide the
    /// information about the key in the errors.
    ///
    /// [`Release`]: sudare::ckks::Release
    ///
    /// # Errors
    /// [`Error::RangeUnchecked`] if the range is neither checked nor assumed;
    /// [`Error::WeightsTooLarge`] for weights above the bound; [`Error::Library`] with
    /// `TooLittlePrecision` for more bits than the precision of the plan: request it with
    /// [`TrainSpec::shared_bits`](super::TrainSpec::shared_bits).
    pub fn share(
        &self,
        weights: &[f64],
        bits: u32,
        assume_range: bool,
        noise: &Seed,
    ) -> Result<Vec<f64>> {
        let TrainSpec { tables, sigmoid, preparation, shared_bits, .. } = self.job.spec;
        let checks = tables == 1 && (preparation != Preparation::Scale || shared_bits.is_some());
        if !(checks || assume_range) {
            let range = sigmoid.range;
            let weight = self.largest_weight;
            return Err(Error::RangeUnchecked { range, weight });
        }
        let found = weights.iter().fold(0.0, |most, w| w.abs().max(most));
        if found > self.largest_weight {
            return Err(Error::WeightsTooLarge { found, most: self.largest_weight });
        }
        let release = sudare::ckks::Release::default();
        Ok(release.values(weights, self.largest_error(), bits, noise)?)
    }

    /// Returns the weights and the momentum of each model after an iteration, from
    /// [`TrainPlan::slope_sums`] of its batch.
    pub(super) fn next<E: ComplexOps>(
        &self,
        e: &E,
        round: &Round,
        sums: &Sums<E::Ct>,
        slopes: Vec<E::Ct>,
        t: &Training<E::Ct>,
    ) -> Result<Training<E::Ct>> {
        let labels = sums.labels_of(self, t.iteration);
        let models = t.state.chunks_exact(2).zip(slopes.chunks(self.layout.pieces)).zip(labels);
        let mut state = Vec::with_capacity(self.state_len(t.iteration + 1));
        for ((of_model, slopes), labels) in models {
            let [w, v] = of_model else { return Err(self.no_such_state(t)) };
            let penalty = sums.penalty.as_ref();
            state.extend(self.next_of_model(e, round, (labels, penalty), slopes, [w, v])?);
        }
        Ok(Training { iteration: t.iteration + 1, state })
    }

    fn next_of_model<E: ComplexOps>(
        &self,
        e: &E,
        round: &Round,
        (labels, penalty): (&E::Ct, Option<&E::Ct>),
        slopes: &[E::Ct],
        [w, v]: [&E::Ct; 2],
    ) -> Result<Vec<E::Ct>> {
        // Set to the planned scale, so that rounding of scales does not grow from iteration to
        // iteration.
        let weights_scale = round.sum * round.read;
        let slope = e.with_scale(&self.total(e, slopes)?, weights_scale)?;
        let level = e.level(&slope);
        let gamma = round.step.gamma;
        let eta = round.step.eta;

        // w' = v + gamma (means of labels - h v) + the part with inner products.
        let pull = penalty.map(|h| e.mul_rescale(v, h)).transpose()?;
        let mut terms = vec![(v, 1.0), (labels, gamma)];
        terms.extend(pull.as_ref().map(|pull| (pull, -gamma)));
        let rest = combine(e, &terms, level, weights_scale)?;
        let next =
            // Scales are positive, so a negative leading coefficient becomes a difference.
            if self.sigmoid.lead < 0.0 { e.sub(&rest, &slope)? } else { e.add(&rest, &slope)? };
        if round.last {
            return Ok(vec![next]);
        }
        // v' = (1 - eta) w' + eta w.
        let factor = Scale::from_f64(1.0 - eta);
        // Reading at another scale multiplies by `1 - eta`, without a level.
        let ahead = e.with_scale(&next, weights_scale / factor)?;
        let behind = combine(e, &[(w, eta)], level, weights_scale / factor)?;
        let v = e.add(&ahead, &behind)?;
        Ok(vec![next, v])
    }

    /// Returns the round, an iteration with inner products, after this number of iterations.
    pub(super) fn round(&self, iteration: u32) -> Result<&Round> {
        let first = self.job.spec.label_iterations();
        let iterations = self.job.spec.iterations;
        if iteration >= iterations {
            return Err(Error::Finished { iterations });
        }
        let round = iteration.checked_sub(first).and_then(|k| self.scales.rounds.get(k as usize));
        round.ok_or_else(|| {
            let needed = format_args!("{first} to {iterations}");
            not_as_planned("iterations done", iteration, needed)
        })
    }

    /// Returns the number of ciphertexts of the state after this number of iterations.
    pub(super) fn state_len(&self, iteration: u32) -> usize {
        let models = self.job.spec.models();
        if iteration < self.job.spec.iterations { 2 * models } else { models }
    }

    /// Sums, for each piece, the sums over groups over all rows, in every period.
    fn total<E: ComplexOps>(&self, e: &E, sums: &[E::Ct]) -> Result<E::Ct> {
        let mut sums = sums.to_vec();
        for step in self.layout.turns().rev() {
            let back = sums.split_off(sums.len() / 2);
            let pairs: Vec<_> = sums.iter().zip(&back).collect();
            sums = par::try_map(&pairs, |(a, b)| e.add(a, &e.rotate(b, -step)?))?;
        }
        let needed = self.layout.pieces;
        let sum = sums.into_iter().next();
        let sum = sum.ok_or_else(|| not_as_planned("ciphertexts of a gradient", 0, needed))?;
        Ok(add_rotations(e, sum, self.layout.block_sums())?)
    }

    fn no_such_state<C>(&self, t: &Training<C>) -> Error {
        let needed = self.state_len(t.iteration);
        not_as_planned("ciphertexts of the training's state", t.state.len(), needed)
    }

    /// Checks that a state is valid before this iteration. Returns whether it has to be refreshed.
    fn check_state<E: ComplexOps>(
        &self,
        e: &E,
        round: &Round,
        t: &Training<E::Ct>,
    ) -> Result<bool> {
        if t.state.len() != 2 * self.job.spec.models() {
            return Err(self.no_such_state(t));
        }
        let arrived = round.refresh && t.state.iter().any(|c| e.level(c) != round.level);
        let (level, scale) = if arrived { round.arrival } else { (round.level, round.scale) };
        for ciphertext in &t.state {
            expect("level of the training's state", e.level(ciphertext), level)?;
        }
        for v in t.state.iter().skip(1).step_by(2) {
            expect_scale("scale of the training's state", e.scale(v), scale)?;
        }
        Ok(arrived)
    }
}

/// Returns `sum_i c_i a_i` at a level and scale. The level must be below the levels of the
/// summands.
fn combine<E: ComplexOps>(
    e: &E,
    summands: &[(&E::Ct, f64)],
    level: Level,
    scale: Scale,
) -> sudare::Result<E::Ct> {
    // The product with constants takes a level.
    let above = Level(level.0 + 1);
    let scale = scale * e.chain().divisor(above);
    let low = summands.iter().map(|(a, c)| Ok((at(e, a, above)?, *c)));
    let low: Vec<_> = low.collect::<sudare::Result<_>>()?;
    let terms: Vec<_> = low.iter().map(|(a, c)| (a.as_ref(), *c, scale / e.scale(a))).collect();
    let mut sum = e.mul_const_sum(&terms)?;
    e.rescale_assign(&mut sum)?;
    Ok(sum)
}
