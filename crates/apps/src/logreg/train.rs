use super::{
    budget::Round,
    plan::{Layout, TrainPlan},
    reference,
};
use crate::{
    Error, Result,
    table::{Scaling, Table},
};
use core::fmt::Display;
use std::borrow::Cow;
use sudare::{
    circuits::Ops,
    ckks::{Ciphertext, Complex, Encoder, Encryptor, Scale},
    rlwe::Level,
};
use sudare_arith::par;

/// A training under way. To pause it, save both fields; [`TrainPlan::resume`] takes them back.
#[derive(Debug, Clone)]
pub struct Training<C = Ciphertext> {
    /// Iterations done.
    pub iteration: u32,
    /// The encrypted weights `w`; and, unless it is finished, `v` and the sum of all rows.
    pub state: Vec<C>,
}

impl TrainPlan {
    /// The slots of each ciphertext: the rows `z = y (1, x)` of the table, scaled by
    /// [`Scaling::max_abs`], each at the start of its block.
    ///
    /// # Errors
    /// [`Error::TableShape`] if the table has not the planned shape; [`Error::Table`] if it has no
    /// target.
    pub fn pack(&self, table: &Table) -> Result<impl Iterator<Item = Vec<f64>> + use<>> {
        let (rows, features) = (table.rows(), table.features());
        if (rows, features) != (self.job.rows, self.job.features) {
            let (needed_rows, needed_features) = (self.job.rows, self.job.features);
            return Err(Error::TableShape { rows, features, needed_rows, needed_features });
        }
        let z = Scaling::max_abs(table).signed_rows(table)?;
        let layout = self.layout;
        Ok((0..layout.ciphertexts).map(move |i| {
            let mut slots = vec![0.0; layout.slots()];
            let rows = z.iter().skip(i * layout.blocks);
            for (block, row) in slots.chunks_exact_mut(layout.block).zip(rows) {
                block[..row.len()].copy_from_slice(row);
            }
            slots
        }))
    }

    /// Encrypts a table for its owner. `progress` is told the number of ciphertexts made.
    ///
    /// # Errors
    /// As [`TrainPlan::pack`]; [`Error::WeightsTooLarge`] if training on this table would exceed
    /// what the plan allows, as training in the clear finds out; [`Error::Train`] if that
    /// diverges; [`Error::Engine`] if the encryptor has other parameters.
    pub fn encrypt(
        &self,
        encryptor: &Encryptor,
        table: &Table,
        progress: impl Fn(usize),
    ) -> Result<Vec<Ciphertext>> {
        let packed = self.pack(table)?;
        self.check_weights(table)?;
        let encoder = Encoder::new(&self.params);
        packed
            .enumerate()
            .map(|(i, slots)| {
                let plain = encoder.encode_real(&slots, self.level, self.scales.data)?;
                let ciphertext = encryptor.encrypt(&plain)?;
                progress(i + 1);
                Ok(ciphertext)
            })
            .collect()
    }

    /// Begins to train on encrypted rows. The first two iterations, which need no product, are
    /// then done already.
    ///
    /// Works on any evaluator with the plan's chain, the simulator included.
    ///
    /// # Errors
    /// [`Error::NotAsPlanned`] for other ciphertexts or another chain than planned;
    /// [`Error::Engine`] for a missing key.
    pub fn start<E: Ops>(&self, ev: &E, data: &[E::Ct]) -> Result<Training<E::Ct>> {
        self.check_data(ev, data)?;
        self.sum_rows(ev, data)
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

    /// Does one iteration.
    ///
    /// # Errors
    /// [`Error::Finished`] if none is left, and then nothing is changed; else as
    /// [`TrainPlan::start`].
    pub fn step<E: Ops>(&self, ev: &E, data: &[E::Ct], t: &mut Training<E::Ct>) -> Result<()> {
        self.check_data(ev, data)?;
        self.check_state(ev, t)?;
        self.iterate(ev, data, t)
    }

    /// The encrypted weights: each block of slots begins with the intercept and the weights of the
    /// features in order. Those of an unfinished training are the weights so far.
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
    /// them. Blocks hold the same weights with errors of their own, so their mean is taken.
    #[must_use]
    pub fn decode(&self, plaintext_slots: &[f64]) -> Vec<f64> {
        let Layout { entries, block, .. } = self.layout;
        let mean = |entry| {
            let copies = plaintext_slots.iter().skip(entry).step_by(block);
            copies.clone().sum::<f64>() / copies.count() as f64
        };
        (0..entries.min(plaintext_slots.len())).map(mean).collect()
    }

    /// The sum of all rows, read as the weights after one or two iterations.
    pub(super) fn sum_rows<E: Ops>(&self, e: &E, data: &[E::Ct]) -> Result<Training<E::Ct>> {
        let Some((first, rest)) = data.split_first() else {
            return Err(not_as_planned("encrypted rows", 0, self.layout.ciphertexts));
        };
        let mut sum = first.clone();
        for ciphertext in rest {
            sum = e.add(&sum, ciphertext)?;
        }
        let sum = add_rotations(e, sum, self.layout.block_sums())?;
        let mut weights = e.with_scale(&sum, self.scales.start)?;
        if let Some(refresh) = &self.refresh {
            let (level, scale) = (refresh.output_level(), self.scales.first);
            weights = combine(e, [(&weights, 1.0)], level, scale)?;
        }
        let iteration = self.job.spec.iterations.min(2);
        let state = match self.state_len(iteration) {
            1 => vec![weights],
            _ => vec![weights.clone(), weights, sum],
        };
        Ok(Training { iteration, state })
    }

    pub(super) fn iterate<E: Ops>(
        &self,
        e: &E,
        data: &[E::Ct],
        t: &mut Training<E::Ct>,
    ) -> Result<()> {
        let iterations = self.job.spec.iterations;
        let (Some(round), [w, v, rows]) = (self.round(t.iteration), &t.state[..]) else {
            return Err(Error::Finished { iterations });
        };
        let refreshed = match &self.refresh {
            Some(refresh) if round.refresh => {
                Some(refresh.run(e, [w, v], self.layout.slots().ilog2())?)
            }
            _ => None,
        };
        let [w, v] = refreshed.as_ref().map_or([w, v], |[w, v]| [w, v]);
        let slope = self.slope_sum(e, round, data, v)?;
        let weights_scale = e.scale(&slope) * round.read;
        let slope = e.with_scale(&slope, weights_scale)?;
        let (level, eta) = (e.level(&slope), round.step.eta);

        // w' = v + gamma/(2m) sum of rows + the part with powers of the inner products.
        let half = round.step.gamma / (2.0 * self.job.rows as f64);
        let rest = combine(e, [(v, 1.0), (rows, half)], level, weights_scale)?;
        let next =
            if self.sigmoid.lead < 0.0 { e.sub(&rest, &slope)? } else { e.add(&rest, &slope)? };
        let state = if round.last {
            vec![next]
        } else {
            // v' = (1 - eta) w' + eta w.
            let factor = Scale::from_f64(1.0 - eta);
            let ahead = e.with_scale(&next, weights_scale / factor)?;
            let behind = combine(e, [(w, eta)], level, weights_scale / factor)?;
            vec![next, e.add(&ahead, &behind)?, rows.clone()]
        };
        *t = Training { iteration: t.iteration + 1, state };
        Ok(())
    }

    /// The round that follows so many iterations.
    fn round(&self, iteration: u32) -> Option<&Round> {
        self.scales.rounds.get(iteration.checked_sub(2)? as usize)
    }

    fn state_len(&self, iteration: u32) -> usize {
        if iteration < self.job.spec.iterations { 3 } else { 1 }
    }

    /// `1/|lead| sum_i (s(z_i . v) - 1/2) z_i` in every block, up to a sign, where `s` is the
    /// sigmoid's polynomial and `lead` its first coefficient.
    fn slope_sum<E: Ops>(&self, e: &E, round: &Round, data: &[E::Ct], v: &E::Ct) -> Result<E::Ct> {
        let mut sum: Option<E::Ct> = None;
        // As many at a time as there are threads, for the memory of no more.
        for part in data.chunks(par::threads()) {
            for slope in par::try_map(part, |rows| self.slope(e, round, rows, v))? {
                sum = Some(match sum {
                    Some(sum) => e.add(&sum, &slope)?,
                    None => slope,
                });
            }
        }
        let sum =
            sum.ok_or_else(|| not_as_planned("encrypted rows", 0, self.layout.ciphertexts))?;
        Ok(add_rotations(e, sum, self.layout.block_sums())?)
    }

    /// The summand of [`TrainPlan::slope_sum`] for each row of a ciphertext, in the row's block.
    fn slope<E: Ops>(
        &self,
        e: &E,
        round: &Round,
        rows: &E::Ct,
        v: &E::Ct,
    ) -> sudare::Result<E::Ct> {
        let rows = at(e, rows, round.level)?;
        // Slots beyond a row's entries get sums of a part of them, and are cleared by the zeros
        // that they are multiplied with.
        let inner = add_rotations(e, e.mul_rescale(&rows, v)?, self.layout.row_sums())?;
        let t = e.with_scale(&inner, e.scale(&inner) * Scale::from_f64(self.sigmoid.range))?;
        let mut lifted = e.mul_const(&rows, real(1.0), round.lift)?;
        e.rescale_assign(&mut lifted)?;
        let a = e.mul_rescale(&t, &lifted)?;
        let y = e.mul_rescale(&t, &t)?;
        let shifted = e.add_const(&y, real(self.sigmoid.shift))?;
        let product = e.mul_rescale(&a, &shifted)?;
        let Some(tail) = &self.sigmoid.tail else { return Ok(product) };
        let factor = match tail.inner {
            Some(inner) => e.add_const(&e.mul_rescale(&y, &y)?, real(inner))?,
            None => at(e, &y, e.level(&product))?.into_owned(),
        };
        let mut slope = e.mul(&product, &factor)?;
        let a = at(e, &a, e.level(&slope))?;
        let rest = e.mul_const(&a, real(tail.rest), e.scale(&slope) / e.scale(&a))?;
        slope = e.add(&slope, &rest)?;
        e.rescale_assign(&mut slope)?;
        Ok(slope)
    }

    fn check_data<E: Ops>(&self, e: &E, data: &[E::Ct]) -> Result<()> {
        if e.log_n() != self.params.log_n() || e.chain() != self.params.chain() {
            let (found, needed) = (e.log_n(), self.params.log_n());
            return Err(not_as_planned(
                "the evaluator's parameters",
                format_args!("other primes, in the ring N = 2^{found}"),
                format_args!("its own, in the ring N = 2^{needed}"),
            ));
        }
        expect("ciphertexts of the table", data.len(), self.layout.ciphertexts)?;
        data.iter().try_for_each(|ciphertext| {
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
        for (ciphertext, level) in t.state.iter().zip([level, level, self.level]) {
            expect("level of the training's state", e.level(ciphertext), level)?;
        }
        expect_scale("scale of the training's state", e.scale(&t.state[1]), scale)
    }

    /// Refuses a table whose training leads to weights that the plan has no room for.
    fn check_weights(&self, table: &Table) -> Result<()> {
        let z = Scaling::max_abs(table).signed_rows(table)?;
        let ranges = reference::ranges(&z, &self.job.spec)?;
        // Before the third iteration, the weights after one are not computed.
        let weights = ranges.max_abs_weight.iter().skip(1);
        let found = weights.chain(&ranges.max_abs_momentum).copied().fold(0.0, f64::max);
        if found > self.largest_weight {
            return Err(Error::WeightsTooLarge { found, most: self.largest_weight });
        }
        Ok(())
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

fn real(re: f64) -> Complex<f64> {
    Complex { re, im: 0.0 }
}

fn not_as_planned(what: &'static str, found: impl Display, needed: impl Display) -> Error {
    Error::NotAsPlanned { what, found: found.to_string(), needed: needed.to_string() }
}

fn expect<T: PartialEq + Display>(what: &'static str, found: T, needed: T) -> Result<()> {
    if found == needed { Ok(()) } else { Err(not_as_planned(what, found, needed)) }
}

fn expect_scale(what: &'static str, found: Scale, needed: Scale) -> Result<()> {
    if found.matches(needed) { Ok(()) } else { Err(not_as_planned(what, found, needed)) }
}
