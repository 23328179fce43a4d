use super::{
    budget::Round,
    plan::{Layout, TrainPlan},
    reference,
};
use crate::{
    Error, Result,
    held::Held,
    table::{Scaling, Table},
};
use core::fmt::Display;
use std::{borrow::Cow, sync::Arc};
use sudare::{
    circuits::{Ops, bootstrap::Bootstrapper},
    ckks::{Ciphertext, Complex, Encoder, Encryptor, ProductSum, Release, Scale},
    rlwe::Level,
};
use sudare_arith::par;

/// A training under way. To pause it, save both fields; [`TrainPlan::resume`] takes them back.
#[derive(Debug, Clone)]
pub struct Training<C = Ciphertext> {
    /// Iterations done.
    pub iteration: u32,
    /// The encrypted weights `w` and, unless it is finished, `v`.
    pub state: Vec<C>,
}

/// The server's part of a training: see [`TrainPlan::trainer`].
pub struct Trainer<'a, E: Ops> {
    plan: Held<'a, TrainPlan>,
    ev: Held<'a, E>,
    bootstrapper: Option<Bootstrapper<E>>,
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
        if ev.log_n() != plan.params.log_n() || ev.chain() != plan.params.chain() {
            let (found, needed) = (ev.log_n(), plan.params.log_n());
            return Err(not_as_planned(
                "the evaluator's parameters",
                format_args!("other primes, in the ring N = 2^{found}"),
                format_args!("its own, in the ring N = 2^{needed}"),
            ));
        }
        let bootstrapper =
            plan.refresh.as_ref().map(|refresh| refresh.prepare(&*ev)).transpose()?;
        Ok(Self { plan, ev, bootstrapper })
    }

    /// Begins to train on the first batch of encrypted rows, [`TrainPlan::batch`]`(0)`. The first
    /// two iterations, which need no product, are then done already.
    ///
    /// # Errors
    /// [`Error::NotAsPlanned`] for other ciphertexts than planned; [`Error::Engine`] for a missing
    /// key.
    pub fn start(&self, batch: &[E::Ct]) -> Result<Training<E::Ct>> {
        self.plan.check_batch(&*self.ev, batch)?;
        self.plan.sum_rows(&*self.ev, batch)
    }

    /// Does one iteration, on the ciphertexts [`TrainPlan::batch`]`(t.iteration)` of the table.
    ///
    /// # Errors
    /// [`Error::Finished`] if none is left, and then nothing is changed; else as
    /// [`Trainer::start`].
    pub fn step(&self, batch: &[E::Ct], t: &mut Training<E::Ct>) -> Result<()> {
        self.plan.check_batch(&*self.ev, batch)?;
        self.plan.check_state(&*self.ev, t)?;
        self.plan.iterate(&*self.ev, self.bootstrapper.as_ref(), batch, t)
    }
}

impl TrainPlan {
    /// The slots of each ciphertext: the rows `z = y (1, x)` of the table, scaled by
    /// [`Scaling::max_abs`], batch after batch.
    ///
    /// # Errors
    /// [`Error::TableShape`] if the table has not the planned shape; [`Error::Table`] if it has no
    /// target.
    pub fn pack(&self, table: &Table) -> Result<impl Iterator<Item = Vec<f64>> + use<>> {
        Ok(self.packed(self.signed_rows(table)?))
    }

    /// Encrypts a table for its owner, a ciphertext each time that the next one is asked for.
    /// Batches are of rows as they come: [`Table::shuffle`] them first if there are several.
    ///
    /// # Errors
    /// As [`TrainPlan::pack`]; [`Error::WeightsTooLarge`] if training on this table would exceed
    /// what the plan allows, as training in the clear finds out; [`Error::Train`] if that
    /// diverges. Of a ciphertext, [`Error::Engine`] if the encryptor has other parameters.
    pub fn encryptions<'a>(
        &'a self,
        encryptor: &'a Encryptor,
        table: &Table,
    ) -> Result<impl Iterator<Item = Result<Ciphertext>> + use<'a>> {
        let rows = self.signed_rows(table)?;
        self.check_weights(&rows)?;
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
        progress: impl Fn(usize),
    ) -> Result<Vec<Ciphertext>> {
        let ciphertexts = self.encryptions(encryptor, table)?.enumerate();
        ciphertexts.map(|(i, made)| made.inspect(|_| progress(i + 1))).collect()
    }

    /// Trains on any evaluator with the plan's chain, the simulator included.
    ///
    /// # Errors
    /// [`Error::NotAsPlanned`] for another chain; [`Error::Engine`] if the matrices of
    /// bootstrapping cannot be encoded.
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
        t.state.first().cloned().ok_or_else(|| {
            not_as_planned("ciphertexts of the training's state", 0, self.state_len(t.iteration))
        })
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
        (0..entries.min(plaintext_slots.len())).map(mean).collect()
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

    /// The rows of a table of the planned shape.
    fn signed_rows(&self, table: &Table) -> Result<Vec<Vec<f64>>> {
        let (rows, features) = (table.rows(), table.features());
        if (rows, features) != (self.job.rows, self.job.features) {
            let (needed_rows, needed_features) = (self.job.rows, self.job.features);
            return Err(Error::TableShape { rows, features, needed_rows, needed_features });
        }
        Ok(Scaling::max_abs(table).signed_rows(table)?)
    }

    /// The slots of each ciphertext.
    fn packed(&self, z: Vec<Vec<f64>>) -> impl Iterator<Item = Vec<f64>> + use<> {
        let (layout, batches) = (self.layout, self.batches);
        let Layout { pieces, blocks, groups, .. } = layout;
        let used = batches.used(self.job.spec.iterations);
        (0..used * layout.ciphertexts()).map(move |i| {
            let (batch, group, turn) = (i / pieces / groups, i / pieces % groups, i % pieces);
            let rows = &z[batches.rows(batch)];
            layout.packed(&rows[rows.len().min(group * blocks)..], turn)
        })
    }

    /// The sum of the rows of the first batch, read as the weights after one or two iterations.
    pub(super) fn sum_rows<E: Ops>(&self, e: &E, batch: &[E::Ct]) -> Result<Training<E::Ct>> {
        let sums = (0..self.layout.pieces).map(|turn| {
            let mut same_turn = batch.iter().skip(turn).step_by(self.layout.pieces);
            let first = same_turn.next().ok_or_else(|| self.no_rows())?.clone();
            Ok(same_turn.try_fold(first, |sum, next| e.add(&sum, next))?)
        });
        let sum = self.total(e, sums.collect::<Result<_>>()?)?;
        let mut weights = e.with_scale(&sum, self.scales.start)?;
        if let Some(refresh) = &self.refresh {
            let (level, scale) = (refresh.output_level(), self.scales.first);
            weights = combine(e, [(&weights, 1.0)], level, scale)?;
        }
        let iteration = self.job.spec.iterations.min(2);
        Ok(Training { iteration, state: vec![weights; self.state_len(iteration)] })
    }

    pub(super) fn iterate<E: Ops>(
        &self,
        e: &E,
        bootstrapper: Option<&Bootstrapper<E>>,
        batch: &[E::Ct],
        t: &mut Training<E::Ct>,
    ) -> Result<()> {
        let iterations = self.job.spec.iterations;
        let (Some(round), [w, v]) = (self.round(t.iteration), &t.state[..]) else {
            return Err(Error::Finished { iterations });
        };
        let refreshed = match self.refresh.as_ref().zip(bootstrapper) {
            Some((refresh, bootstrapper)) if round.refresh => {
                Some(refresh.run(e, bootstrapper, [w, v])?)
            }
            _ => None,
        };
        let [w, v] = refreshed.as_ref().map_or([w, v], |[w, v]| [w, v]);
        let slope = self.slope_sum(e, round, batch, v)?;
        let weights_scale = e.scale(&slope) * round.read;
        let slope = e.with_scale(&slope, weights_scale)?;
        let (level, eta) = (e.level(&slope), round.step.eta);

        // w' = v + the part with the sigmoids of the inner products.
        let v = combine(e, [(v, 1.0)], level, weights_scale)?;
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
        *t = Training { iteration: t.iteration + 1, state };
        Ok(())
    }

    /// The round that follows so many iterations.
    fn round(&self, iteration: u32) -> Option<&Round> {
        self.scales.rounds.get(iteration.checked_sub(2)? as usize)
    }

    fn state_len(&self, iteration: u32) -> usize {
        if iteration < self.job.spec.iterations { 2 } else { 1 }
    }

    /// `1/|lead| sum_i s(z_i . v) z_i` in the pieces of every period, up to a sign, where `s` is
    /// the sigmoid's polynomial and `lead` its first coefficient.
    fn slope_sum<E: Ops>(&self, e: &E, round: &Round, batch: &[E::Ct], v: &E::Ct) -> Result<E::Ct> {
        let mut turned = vec![v.clone()];
        for step in self.layout.turns() {
            let further = par::try_map(&turned, |v| e.rotate(v, step))?;
            turned.extend(further);
        }
        let pieces = self.layout.pieces;
        let mut sums: Option<Vec<E::Ct>> = None;
        for part in batch.chunks(Layout::SUMMED * pieces) {
            let groups: Vec<&[E::Ct]> = part.chunks(pieces).collect();
            let slopes = par::try_map(&groups, |rows| self.slopes(e, round, rows, &turned))?;
            let next = par::try_map(0..pieces, |turn| {
                let products: Vec<_> = slopes.iter().map(|slope| slope.product(turn)).collect();
                let Some(&(a, b)) = products.first() else { return Err(no_groups()) };
                let (level, scale) = (e.level(a).min(e.level(b)), e.scale(a) * e.scale(b));
                // What the sigmoid's polynomial has beside the product: 1/2 and, at higher
                // degrees, another power.
                let halves = groups.iter().map(|rows| (&rows[turn], 0.5 / self.sigmoid.lead));
                let tails = self
                    .sigmoid
                    .tail
                    .iter()
                    .flat_map(|tail| slopes.iter().map(|slope| (&slope.rows[turn], tail.rest)));
                let low: Vec<_> = halves
                    .chain(tails)
                    .map(|(a, c)| Ok((at(e, a, level)?, c)))
                    .collect::<sudare::Result<_>>()?;
                let terms: Vec<_> =
                    low.iter().map(|(a, c)| (a.as_ref(), *c, scale / e.scale(a))).collect();
                let addend = e.mul_const_sum(&terms)?;
                e.mul_sum_rescale(&ProductSum { products, addend: Some(&addend) })
            })?;
            sums = Some(match sums {
                Some(sums) => sums
                    .iter()
                    .zip(&next)
                    .map(|(a, b)| e.add(a, b))
                    .collect::<sudare::Result<_>>()?,
                None => next,
            });
        }
        self.total(e, sums.ok_or_else(|| self.no_rows())?)
    }

    /// What [`TrainPlan::slope_sum`] sums, for the rows of a group, each in its block.
    fn slopes<E: Ops>(
        &self,
        e: &E,
        round: &Round,
        rows: &[E::Ct],
        turned: &[E::Ct],
    ) -> sudare::Result<Slopes<E::Ct>> {
        let rows: Vec<Cow<'_, E::Ct>> =
            rows.iter().map(|a| at(e, a, round.level)).collect::<sudare::Result<_>>()?;
        let products = rows.iter().map(AsRef::as_ref).zip(turned).collect();
        let inner = e.mul_sum_rescale(&ProductSum { products, addend: None })?;
        // Slots beyond a piece's entries get sums of a part of them, and are cleared by the zeros
        // that they are multiplied with.
        let inner = add_rotations(e, inner, self.layout.row_sums())?;
        let t = e.with_scale(&inner, e.scale(&inner) * Scale::from_f64(self.sigmoid.range))?;
        let y = e.mul_rescale(&t, &t)?;
        let shifted = e.add_const(&y, real(self.sigmoid.shift))?;
        let a = par::try_map(&rows, |rows| {
            let mut lifted = e.mul_const(rows, real(1.0), round.lift)?;
            e.rescale_assign(&mut lifted)?;
            e.mul_rescale(&t, &lifted)
        })?;
        let Some(tail) = &self.sigmoid.tail else {
            return Ok(Slopes { rows: a, products: None, factor: shifted });
        };
        let products = par::try_map(&a, |a| e.mul_rescale(a, &shifted))?;
        let factor = match tail.inner {
            Some(inner) => e.add_const(&e.mul_rescale(&y, &y)?, real(inner))?,
            None => y,
        };
        Ok(Slopes { rows: a, products: Some(products), factor })
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

    fn no_rows(&self) -> Error {
        not_as_planned("ciphertexts of the batch", 0, self.layout.ciphertexts())
    }

    fn check_batch<E: Ops>(&self, e: &E, batch: &[E::Ct]) -> Result<()> {
        expect("ciphertexts of the batch", batch.len(), self.layout.ciphertexts())?;
        batch.iter().try_for_each(|ciphertext| {
            expect("level of the encrypted table", e.level(ciphertext), self.level)?;
            expect_scale("scale of the encrypted table", e.scale(ciphertext), self.scales.data)
        })
    }

    fn check_state<E: Ops>(&self, e: &E, t: &Training<E::Ct>) -> Result<()> {
        let Some(round) = self.round(t.iteration) else {
            return Err(Error::Finished { iterations: self.job.spec.iterations });
        };
        expect("ciphertexts of the training's state", t.state.len(), self.state_len(t.iteration))?;
        let (level, scale) = round.arrival;
        for ciphertext in &t.state {
            expect("level of the training's state", e.level(ciphertext), level)?;
        }
        expect_scale("scale of the training's state", e.scale(&t.state[1]), scale)
    }

    /// Refuses rows whose training leads to weights that the plan has no room for.
    fn check_weights(&self, z: &[Vec<f64>]) -> Result<()> {
        let ranges = reference::ranges(z, &self.job.spec)?;
        // Before the third iteration, the weights after one are not computed.
        let weights = ranges.max_abs_weight.iter().skip(1);
        let found = weights.chain(&ranges.max_abs_momentum).copied().fold(0.0, f64::max);
        if found > self.largest_weight {
            return Err(Error::WeightsTooLarge { found, most: self.largest_weight });
        }
        Ok(())
    }
}

/// For a group of rows and each of its ciphertexts, the factors of what is summed.
struct Slopes<C> {
    /// The inner product with `v`, times the row.
    rows: Vec<C>,
    /// At degrees above 3, what else that is multiplied with.
    products: Option<Vec<C>>,
    /// The last factor.
    factor: C,
}

impl<C> Slopes<C> {
    fn product(&self, turn: usize) -> (&C, &C) {
        (&self.products.as_ref().unwrap_or(&self.rows)[turn], &self.factor)
    }
}

/// The sum with itself rotated by the first of `steps`, then of that with itself rotated by the
/// next, and so on.
fn add_rotations<E: Ops>(
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
fn at<'a, E: Ops>(e: &E, a: &'a E::Ct, level: Level) -> sudare::Result<Cow<'a, E::Ct>> {
    if e.level(a) == level {
        return Ok(Cow::Borrowed(a));
    }
    let mut a = a.clone();
    e.drop_to(&mut a, level)?;
    Ok(Cow::Owned(a))
}

fn no_groups() -> sudare::Error {
    sudare::Error::Circuit("a sum over no group of rows".into())
}

fn real(re: f64) -> Complex<f64> {
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
