use super::{
    budget::{LARGEST_ROW_WEIGHT, Round},
    gradient::{Gradient, Point},
    plan::{Layout, TrainPlan},
    reference,
    refresh::Refresh,
};
use crate::{
    Error, Result,
    held::Held,
    table::{Scaling, Table},
};
use core::fmt::Display;
use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
};
use sudare::{
    circuits::{Ops, bootstrap::Bootstrapper},
    ckks::{Ciphertext, Complex, Encoder, Encryptor, Params, Release, Scale},
    rlwe::Level,
};
use sudare_arith::par;

/// A training under way. To pause it, save both fields; [`TrainPlan::resume`] takes them back.
#[derive(Debug, Clone)]
pub struct Training<C = Ciphertext> {
    /// Iterations done.
    pub iteration: u32,
    /// The encrypted weights `w` and, unless it is finished, `v`; nothing before the first
    /// iteration, where both are 0.
    pub state: Vec<C>,
}

impl<C> Training<C> {
    /// A training that has not begun.
    #[must_use]
    pub fn new() -> Self {
        Self { iteration: 0, state: Vec::new() }
    }
}

impl<C> Default for Training<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clone> Training<C> {
    /// Where the next gradient is taken.
    #[must_use]
    pub fn point(&self) -> Point<C> {
        Point { iteration: self.iteration, v: self.state.get(1).cloned() }
    }
}

/// The server's part of a training: see [`TrainPlan::trainer`].
///
/// On one machine, [`Trainer::start`] and [`Trainer::step`] do all of it. Several share it: one
/// has the [`Training`] and calls [`Trainer::refresh`] and [`Trainer::update`]; in between,
/// [`Trainer::gradient`] of the [`TrainPlan::shares`] of the batch is computed anywhere, and
/// [`Trainer::sum`] of these in any order. A step is these calls in a row, with one share, and the
/// results are the same, bit for bit, for all ways to share.
pub struct Trainer<'a, E: Ops> {
    pub(super) plan: Held<'a, TrainPlan>,
    pub(super) ev: Held<'a, E>,
    /// Prepared when it is first needed.
    bootstrapper: OnceLock<Bootstrapper<E>>,
}

impl<E: Ops> Trainer<'static, E> {
    /// As [`TrainPlan::trainer`], of what is shared.
    ///
    /// # Errors
    /// As [`TrainPlan::trainer`].
    pub fn shared(plan: Arc<TrainPlan>, ev: Arc<E>) -> Result<Self> {
        Self::with(Held::Shared(plan), Held::Shared(ev))
    }
}

impl<'a, E: Ops> Trainer<'a, E> {
    fn with(plan: Held<'a, TrainPlan>, ev: Held<'a, E>) -> Result<Self> {
        expect_params(&*ev, &plan.params)?;
        Ok(Self { plan, ev, bootstrapper: OnceLock::new() })
    }

    /// Begins to train on the first batch of encrypted rows, [`TrainPlan::batch`]`(0)`. The first
    /// two iterations, which need no product, are then done already.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn start(&self, batch: &[E::Ct]) -> Result<Training<E::Ct>> {
        let mut t = Training::new();
        self.step(batch, &mut t)?;
        Ok(t)
    }

    /// Does one iteration, or the first two, on the ciphertexts
    /// [`TrainPlan::batch`]`(t.iteration)` of the table.
    ///
    /// # Errors
    /// [`Error::Finished`] if none is left; [`Error::NotAsPlanned`] for other ciphertexts than
    /// planned; [`Error::Engine`] for a missing key. The iterations done are then as before.
    pub fn step(&self, batch: &[E::Ct], t: &mut Training<E::Ct>) -> Result<()> {
        self.refresh(t)?;
        let gradient = self.gradient(&t.point(), self.plan.batch(t.iteration), batch)?;
        self.update(gradient, t)
    }

    /// Bootstraps the weights if the next iteration takes them so and they are not yet.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn refresh(&self, t: &mut Training<E::Ct>) -> Result<()> {
        let Stage::Round(round) = self.plan.stage(t.iteration)? else { return Ok(()) };
        if !self.plan.check_state(&*self.ev, round, t)? {
            return Ok(());
        }
        if let (Some(refresh), [w, v]) = (&self.plan.refresh, &t.state[..]) {
            t.state = refresh.run(&*self.ev, self.bootstrapper(refresh)?, [w, v])?.into();
        }
        Ok(())
    }

    /// Does one iteration, or the first two, with the gradient over all rows of the batch.
    ///
    /// # Errors
    /// As [`Trainer::step`]; [`Error::NotAsPlanned`] for another gradient, or if
    /// [`Trainer::refresh`] was left out.
    pub fn update(&self, gradient: Gradient<E::Ct>, t: &mut Training<E::Ct>) -> Result<()> {
        let (plan, e) = (&*self.plan, &*self.ev);
        let stage = plan.stage(t.iteration)?;
        if let Stage::Round(round) = stage
            && plan.check_state(e, round, t)?
        {
            let (arrival, _) = round.arrival;
            return Err(not_as_planned("level of the training's state", arrival, round.level));
        }
        plan.check_gradient(e, stage, &gradient, t.iteration)?;
        *t = match stage {
            Stage::Start => plan.first(e, gradient.sums)?,
            Stage::Round(round) => plan.next(e, round, gradient.sums, t)?,
        };
        Ok(())
    }

    fn bootstrapper(&self, refresh: &Refresh) -> Result<&Bootstrapper<E>> {
        if let Some(prepared) = self.bootstrapper.get() {
            return Ok(prepared);
        }
        let prepared = refresh.prepare(&*self.ev)?;
        Ok(self.bootstrapper.get_or_init(|| prepared))
    }
}

/// What an iteration computes.
#[derive(Clone, Copy)]
pub(super) enum Stage<'a> {
    /// A sum of rows, which makes the weights after one or two iterations.
    Start,
    /// All of it.
    Round(&'a Round),
}

impl TrainPlan {
    /// The slots of each ciphertext: the rows `z = y (1, x)` of the table, scaled by
    /// [`Scaling::max_abs`], batch after batch; with class weights, of each group of rows once as
    /// they are and once times their weights. `given` are the class weights, of a false and of a
    /// true label, of a plan with [`ClassWeights::Given`](super::ClassWeights::Given).
    ///
    /// # Errors
    /// [`Error::TableShape`] if the table has not the planned shape; [`Error::Table`] if it has no
    /// target; [`Error::Train`] for weights or none where the plan has it otherwise.
    pub fn pack(
        &self,
        table: &Table,
        given: Option<[f64; 2]>,
    ) -> Result<impl Iterator<Item = Vec<f64>> + use<>> {
        Ok(self.packed(self.signed_rows(table, given)?))
    }

    /// Encrypts a table for its owner, a ciphertext each time that the next one is asked for.
    /// Batches are of rows as they come: [`Table::shuffle`] them first if there are several.
    ///
    /// # Errors
    /// As [`TrainPlan::pack`]; [`Error::WeightsTooLarge`] if training on this table would exceed
    /// what the plan allows, as training in the clear finds out; [`Error::Train`] if that
    /// diverges; [`Error::RowsTooHeavy`] if class weights are too far from each other. Of a
    /// ciphertext, [`Error::Engine`] if the encryptor has other parameters.
    pub fn encryptions<'a>(
        &'a self,
        encryptor: &'a Encryptor,
        table: &Table,
        given: Option<[f64; 2]>,
    ) -> Result<impl Iterator<Item = Result<Ciphertext>> + use<'a>> {
        let rows = self.checked_rows(table, given)?;
        let encoder = Encoder::new(&self.params);
        Ok(self.packed(rows).map(move |slots| {
            let plain = encoder.encode_real(&slots, self.level, self.scales.data)?;
            Ok(encryptor.encrypt(&plain)?)
        }))
    }

    /// All of [`TrainPlan::encryptions`]. `progress` is told the number of ciphertexts made.
    ///
    /// # Errors
    /// As [`TrainPlan::encryptions`].
    pub fn encrypt(
        &self,
        encryptor: &Encryptor,
        table: &Table,
        given: Option<[f64; 2]>,
        progress: impl Fn(usize),
    ) -> Result<Vec<Ciphertext>> {
        let ciphertexts = self.encryptions(encryptor, table, given)?.enumerate();
        ciphertexts.map(|(i, made)| made.inspect(|_| progress(i + 1))).collect()
    }

    /// Trains on any evaluator with the plan's chain, the simulator included.
    ///
    /// # Errors
    /// [`Error::NotAsPlanned`] for another chain.
    pub fn trainer<'a, E: Ops>(&'a self, ev: &'a E) -> Result<Trainer<'a, E>> {
        Trainer::with(Held::Borrowed(self), Held::Borrowed(ev))
    }

    /// A training as it was after `iteration` iterations, with the state it had then.
    ///
    /// # Errors
    /// [`Error::NotAsPlanned`] if there is no such state.
    pub fn resume<C>(&self, iteration: u32, state: Vec<C>) -> Result<Training<C>> {
        let (first, last) = (self.job.spec.iterations.min(2), self.job.spec.iterations);
        if !(first..=last).contains(&iteration) {
            return Err(not_as_planned(
                "iterations done",
                iteration,
                format_args!("{first} to {last}"),
            ));
        }
        expect("ciphertexts of the training's state", state.len(), self.state_len(iteration))?;
        Ok(Training { iteration, state })
    }

    /// The encrypted weights, as [`TrainPlan::decode`] reads them. Those of an unfinished training
    /// are the weights so far.
    ///
    /// # Errors
    /// [`Error::NotAsPlanned`] if the state is empty.
    pub fn model<C: Clone>(&self, t: &Training<C>) -> Result<C> {
        t.state.first().cloned().ok_or_else(|| self.no_such_state(t))
    }

    /// The weights, intercept first, in the slots of a decrypted model: for features divided by
    /// the divisors of [`Scaling::max_abs`] of the table, as [`super::reference::train`] returns
    /// them. Periods hold the same weights with errors of their own, so their mean is taken.
    #[must_use]
    pub fn decode(&self, plaintext_slots: &[f64]) -> Vec<f64> {
        let Layout { entries, width, .. } = self.layout;
        let mean = |entry| {
            let slot = entry / width * self.layout.block() + entry % width;
            let copies = plaintext_slots.iter().skip(slot).step_by(self.layout.period());
            copies.clone().sum::<f64>() / copies.count() as f64
        };
        let entries = if plaintext_slots.len() < self.layout.period() { 0 } else { entries };
        (0..entries).map(mean).collect()
    }

    /// Weights as others than the owner of the key may see them: with noise that hides their
    /// errors, to `bits` bits after the binary point; see [`Release`]. Each release counts as one
    /// of the 1024 of a key.
    ///
    /// # Errors
    /// [`Error::Engine`] with `TooLittlePrecision` for more bits than the plan has precision for:
    /// [`TrainSpec::shared_bits`](super::TrainSpec::shared_bits) asks for it.
    pub fn share(&self, weights: &[f64], bits: u32) -> Result<Vec<f64>> {
        Ok(Release::default().values(weights, self.largest_error(), bits)?)
    }

    /// The rows of a table that can be trained on.
    pub(super) fn checked_rows(
        &self,
        table: &Table,
        given: Option<[f64; 2]>,
    ) -> Result<WeightedRows> {
        let rows = self.signed_rows(table, given)?;
        self.check_row_weights(&rows)?;
        self.check_weights(&rows.z, given)?;
        Ok(rows)
    }

    /// The rows of a table of the planned shape.
    fn signed_rows(&self, table: &Table, given: Option<[f64; 2]>) -> Result<WeightedRows> {
        let (rows, features) = (table.rows(), table.features());
        if (rows, features) != (self.job.rows, self.job.features) {
            let (needed_rows, needed_features) = (self.job.rows, self.job.features);
            return Err(Error::TableShape { rows, features, needed_rows, needed_features });
        }
        let labels = table.labels()?.into_iter();
        let class_weights = self.job.spec.class_weights(labels, given)?;
        Ok(WeightedRows { z: Scaling::max_abs(table).signed_rows(table)?, class_weights })
    }

    /// The slots of each ciphertext.
    pub(super) fn packed(&self, rows: WeightedRows) -> impl Iterator<Item = Vec<f64>> + use<> {
        let (layout, batches) = (self.layout, self.batches);
        let Layout { pieces, copies, blocks, groups, .. } = layout;
        let used = batches.used(self.job.spec.iterations);
        (0..used * layout.ciphertexts()).map(move |i| {
            let (group, copy, turn) = (i / pieces / copies, i / pieces % copies, i % pieces);
            let z = &rows.z[batches.rows(group / groups)];
            let z = &z[z.len().min(group % groups * blocks)..];
            let mut slots = layout.packed(z, turn);
            if copy > 0 {
                for (block, z) in slots.chunks_exact_mut(layout.block()).zip(z) {
                    let weight = rows.weight(z);
                    block.iter_mut().for_each(|slot| *slot *= weight);
                }
            }
            slots
        })
    }

    /// The weights after one or two iterations, from sums of the rows of the first batch.
    pub(super) fn first<E: Ops>(&self, e: &E, sums: Vec<E::Ct>) -> Result<Training<E::Ct>> {
        let sum = self.total(e, sums)?;
        let mut weights = e.with_scale(&sum, self.scales.start)?;
        if let Some(refresh) = &self.refresh {
            let (level, scale) = (refresh.output_level(), self.scales.first);
            weights = combine(e, [(&weights, 1.0)], level, scale)?;
        }
        let iteration = self.job.spec.iterations.min(2);
        Ok(Training { iteration, state: vec![weights; self.state_len(iteration)] })
    }

    /// The weights and the momentum after an iteration, from [`TrainPlan::slope_sums`] of its
    /// batch.
    pub(super) fn next<E: Ops>(
        &self,
        e: &E,
        round: &Round,
        sums: Vec<E::Ct>,
        t: &Training<E::Ct>,
    ) -> Result<Training<E::Ct>> {
        let [w, v] = &t.state[..] else { return Err(self.no_such_state(t)) };
        let slope = self.total(e, sums)?;
        let weights_scale = e.scale(&slope) * round.read;
        let slope = e.with_scale(&slope, weights_scale)?;
        let (level, eta) = (e.level(&slope), round.step.eta);

        // w' = v + the part with the sigmoids of the inner products.
        let v = self.decayed(e, v, round.step.decay, level, weights_scale)?;
        let next = if self.sigmoid.lead < 0.0 { e.sub(&v, &slope)? } else { e.add(&v, &slope)? };
        let state = if round.last {
            vec![next]
        } else {
            // v' = (1 - eta) w' + eta w.
            let factor = Scale::from_f64(1.0 - eta);
            let ahead = e.with_scale(&next, weights_scale / factor)?;
            let behind = combine(e, [(w, eta)], level, weights_scale / factor)?;
            vec![next, e.add(&ahead, &behind)?]
        };
        Ok(Training { iteration: t.iteration + 1, state })
    }

    /// `v` with all but the intercept multiplied by `decay`, at a level below and a scale.
    fn decayed<E: Ops>(
        &self,
        e: &E,
        v: &E::Ct,
        decay: f64,
        level: Level,
        scale: Scale,
    ) -> sudare::Result<E::Ct> {
        if decay == 1.0 {
            return combine(e, [(v, 1.0)], level, scale);
        }
        let above = Level(level.0 + 1);
        let v = at(e, v, above)?;
        let intercept = |slot: usize| slot.is_multiple_of(self.layout.period());
        let factors: Vec<_> = (0..1usize << e.log_slots(&v))
            .map(|slot| real(if intercept(slot) { 1.0 } else { decay }))
            .collect();
        let factor_scale = scale * e.chain().divisor(above) / e.scale(&v);
        let mut product = e.mul_plain(&v, &factors, factor_scale)?;
        e.rescale_assign(&mut product)?;
        Ok(product)
    }

    /// What follows so many iterations.
    pub(super) fn stage(&self, iteration: u32) -> Result<Stage<'_>> {
        let iterations = self.job.spec.iterations;
        if iteration == 0 {
            return Ok(Stage::Start);
        }
        if iteration >= iterations {
            return Err(Error::Finished { iterations });
        }
        let round = iteration.checked_sub(2).and_then(|k| self.scales.rounds.get(k as usize));
        round.map(Stage::Round).ok_or_else(|| {
            not_as_planned("iterations done", iteration, format_args!("0, or 2 to {iterations}"))
        })
    }

    fn state_len(&self, iteration: u32) -> usize {
        match iteration {
            0 => 0,
            _ if iteration < self.job.spec.iterations => 2,
            _ => 1,
        }
    }

    /// The sum over all rows of each piece, in every period, of the sums over groups.
    fn total<E: Ops>(&self, e: &E, mut sums: Vec<E::Ct>) -> Result<E::Ct> {
        for step in self.layout.turns().rev() {
            let back = sums.split_off(sums.len() / 2);
            let pairs: Vec<_> = sums.iter().zip(&back).collect();
            sums = par::try_map(&pairs, |(a, b)| e.add(a, &e.rotate(b, -step)?))?;
        }
        let sum = sums.into_iter().next().ok_or_else(|| self.no_rows())?;
        Ok(add_rotations(e, sum, self.layout.block_sums())?)
    }

    fn no_such_state<C>(&self, t: &Training<C>) -> Error {
        let needed = self.state_len(t.iteration).max(1);
        not_as_planned("ciphertexts of the training's state", t.state.len(), needed)
    }

    /// Refuses a state that is not one before this iteration; else, whether it has to be
    /// refreshed.
    fn check_state<E: Ops>(&self, e: &E, round: &Round, t: &Training<E::Ct>) -> Result<bool> {
        let [_, v] = &t.state[..] else { return Err(self.no_such_state(t)) };
        let arrived = round.refresh && e.level(v) != round.level;
        let (level, scale) = if arrived { round.arrival } else { (round.level, round.scale) };
        for ciphertext in &t.state {
            expect("level of the training's state", e.level(ciphertext), level)?;
        }
        expect_scale("scale of the training's state", e.scale(v), scale)?;
        Ok(arrived)
    }

    /// Refuses rows whose weights make errors larger than planned.
    fn check_row_weights(&self, rows: &WeightedRows) -> Result<()> {
        let mean_square = |batch| {
            let z = &rows.z[self.batches.rows(batch)];
            z.iter().map(|z| rows.weight(z).powi(2)).sum::<f64>() / z.len() as f64
        };
        let batches = 0..self.batches.used(self.job.spec.iterations);
        let found = batches.map(mean_square).fold(0.0, f64::max).sqrt();
        if found > LARGEST_ROW_WEIGHT {
            return Err(Error::RowsTooHeavy { found, most: LARGEST_ROW_WEIGHT });
        }
        Ok(())
    }

    /// Refuses rows whose training leads to weights that the plan has no room for.
    fn check_weights(&self, z: &[Vec<f64>], given: Option<[f64; 2]>) -> Result<()> {
        let ranges = reference::ranges(z, &self.job.spec, given)?;
        // Before the third iteration, the weights after one are not computed.
        let weights = ranges.max_abs_weight.iter().skip(1);
        let found = weights.chain(&ranges.max_abs_momentum).copied().fold(0.0, f64::max);
        if found > self.largest_weight {
            return Err(Error::WeightsTooLarge { found, most: self.largest_weight });
        }
        Ok(())
    }
}

/// Refuses an evaluator of other parameters than those of a plan.
pub(super) fn expect_params<E: Ops>(ev: &E, params: &Params) -> Result<()> {
    if ev.log_n() == params.log_n() && ev.chain() == params.chain() {
        return Ok(());
    }
    let (found, needed) = (ev.log_n(), params.log_n());
    Err(not_as_planned(
        "the evaluator's parameters",
        format_args!("other primes, in the ring N = 2^{found}"),
        format_args!("its own, in the ring N = 2^{needed}"),
    ))
}

/// Rows `z = y (1, x)`, and what they weigh.
pub(super) struct WeightedRows {
    z: Vec<Vec<f64>>,
    /// Of a false and of a true label.
    class_weights: [f64; 2],
}

impl WeightedRows {
    fn weight(&self, z: &[f64]) -> f64 {
        self.class_weights[usize::from(reference::label(z))]
    }
}

/// The sum with itself rotated by the first of `steps`, then of that with itself rotated by the
/// next, and so on.
pub(super) fn add_rotations<E: Ops>(
    e: &E,
    mut a: E::Ct,
    steps: impl Iterator<Item = i64>,
) -> sudare::Result<E::Ct> {
    for k in steps {
        a = e.add(&a, &e.rotate(&a, k)?)?;
    }
    Ok(a)
}

/// `sum_i c_i a_i` at a level and scale; the level must be below those of the summands.
fn combine<E: Ops, const K: usize>(
    e: &E,
    summands: [(&E::Ct, f64); K],
    level: Level,
    scale: Scale,
) -> sudare::Result<E::Ct> {
    let above = Level(level.0 + 1);
    let scale = scale * e.chain().divisor(above);
    let mut sum: Option<E::Ct> = None;
    for (a, c) in summands {
        let term = e.mul_const(&*at(e, a, above)?, real(c), scale / e.scale(a))?;
        sum = Some(match sum {
            Some(sum) => e.add(&sum, &term)?,
            None => term,
        });
    }
    let mut sum = sum.ok_or_else(|| sudare::Error::Circuit("a sum of nothing".into()))?;
    e.rescale_assign(&mut sum)?;
    Ok(sum)
}

/// The value at a level at or below its own.
pub(super) fn at<'a, E: Ops>(e: &E, a: &'a E::Ct, level: Level) -> sudare::Result<Cow<'a, E::Ct>> {
    if e.level(a) == level {
        return Ok(Cow::Borrowed(a));
    }
    let mut a = a.clone();
    e.drop_to(&mut a, level)?;
    Ok(Cow::Owned(a))
}

pub(super) fn real(re: f64) -> Complex<f64> {
    Complex { re, im: 0.0 }
}

pub(super) fn not_as_planned(
    what: &'static str,
    found: impl Display,
    needed: impl Display,
) -> Error {
    Error::NotAsPlanned { what, found: found.to_string(), needed: needed.to_string() }
}

pub(super) fn expect<T: PartialEq + Display>(
    what: &'static str,
    found: T,
    needed: T,
) -> Result<()> {
    if found == needed { Ok(()) } else { Err(not_as_planned(what, found, needed)) }
}

pub(super) fn expect_scale(what: &'static str, found: Scale, needed: Scale) -> Result<()> {
    if found.matches(needed) { Ok(()) } else { Err(not_as_planned(what, found, needed)) }
}
