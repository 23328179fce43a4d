//! Gradients in parts, which several machines can compute.

use super::{
    budget::Round,
    plan::TrainPlan,
    train::{Stage, Trainer, add_rotations, at, expect, expect_scale, not_as_planned, real},
};
use crate::{Error, Result};
use core::ops::Range;
use sudare::{
    circuits::Ops,
    ckks::{Ciphertext, ProductSum, Scale},
};
use sudare_arith::par;

/// Where a gradient is taken: all that computing a part of it needs to know of a training.
#[derive(Debug, Clone)]
pub struct Point<C = Ciphertext> {
    /// Iterations done.
    pub iteration: u32,
    /// The encrypted `v`; none before the first iteration, where it is 0.
    pub v: Option<C>,
}

/// A part of what an iteration sums over the rows of its batch, as [`Trainer::gradient`] and
/// [`Trainer::sum`] make it. To send it, write its ciphertexts, and the other fields beside them;
/// all of it is checked where it is used.
#[derive(Debug, Clone)]
pub struct Gradient<C = Ciphertext> {
    /// Iterations done before.
    pub iteration: u32,
    /// Which ciphertexts of the table it is of, in order and with gaps between.
    pub shares: Vec<Range<usize>>,
    /// The sums, one for each piece of a row.
    pub sums: Vec<C>,
}

impl<E: Ops> Trainer<'_, E> {
    /// The part of a gradient that the rows of a share make, which are these ciphertexts of the
    /// table. A share is a part of [`TrainPlan::batch`]`(point.iteration)` that begins and ends
    /// where those of [`TrainPlan::shares`] can.
    ///
    /// # Errors
    /// [`Error::Finished`] if no iteration is left; [`Error::NotAsPlanned`] for another point, for
    /// other ciphertexts than planned, or a share that begins or ends elsewhere;
    /// [`Error::Engine`] for a missing key.
    pub fn gradient(
        &self,
        point: &Point<E::Ct>,
        share: Range<usize>,
        rows: &[E::Ct],
    ) -> Result<Gradient<E::Ct>> {
        let (plan, e) = (&*self.plan, &*self.ev);
        let stage = plan.stage(point.iteration)?;
        plan.check_rows(e, point.iteration, &share, rows)?;
        let sums = match (stage, &point.v) {
            (Stage::Start, None) => plan.row_sums(e, rows)?,
            (Stage::Round(round), Some(v)) => {
                expect("level of the training's state", e.level(v), round.level)?;
                expect_scale("scale of the training's state", e.scale(v), round.scale)?;
                plan.slope_sums(e, round, rows, v)?
            }
            (stage, v) => {
                let (found, needed) = (v.is_some(), matches!(stage, Stage::Round(_)));
                let what = "ciphertexts of the point of a gradient";
                return Err(not_as_planned(what, u8::from(found), u8::from(needed)));
            }
        };
        Ok(Gradient { iteration: point.iteration, shares: vec![share], sums })
    }

    /// The sum of parts of one gradient. The same, bit for bit, in any order and for any parts in
    /// between.
    ///
    /// # Errors
    /// [`Error::NotAsPlanned`] for no parts, parts of different iterations, or a share in two of
    /// them; [`Error::Engine`] for ciphertexts of another training.
    pub fn sum(&self, parts: &[Gradient<E::Ct>]) -> Result<Gradient<E::Ct>> {
        let Some((first, rest)) = parts.split_first() else {
            return Err(not_as_planned("parts of a gradient", 0, "at least 1"));
        };
        let mut sums = first.sums.clone();
        for part in rest {
            expect("iterations done before a gradient", part.iteration, first.iteration)?;
            expect("ciphertexts of a gradient", part.sums.len(), sums.len())?;
            sums = added(&*self.ev, &sums, &part.sums)?;
        }
        let shares = joined(parts.iter().flat_map(|part| part.shares.iter().cloned()).collect())?;
        Ok(Gradient { iteration: first.iteration, shares, sums })
    }
}

/// Ranges in order, those that touch as one.
fn joined(mut ranges: Vec<Range<usize>>) -> Result<Vec<Range<usize>>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for next in ranges {
        match joined.last_mut() {
            Some(last) if next.start < last.end => {
                let found = format_args!("ciphertext {} twice", next.start);
                return Err(not_as_planned("shares of a gradient", found, "each once"));
            }
            Some(last) if next.start == last.end => last.end = next.end,
            _ => joined.push(next),
        }
    }
    Ok(joined)
}

/// The sums of two lists, one by one.
fn added<E: Ops>(e: &E, a: &[E::Ct], b: &[E::Ct]) -> sudare::Result<Vec<E::Ct>> {
    a.iter().zip(b).map(|(a, b)| e.add(a, b)).collect()
}

impl TrainPlan {
    /// The batch of an iteration ([`TrainPlan::batch`]) cut into shares for
    /// [`Trainer::gradient`], as even as can be: at most `most` of them, at least one.
    ///
    /// Products of eight groups of rows, or fewer for a job with
    /// [`TrainSpec::workers`](super::TrainSpec::workers), are summed before they are relinearised
    /// and rounded. So a share is a multiple of as many groups, or what is left at the end of the
    /// batch; a group has as many ciphertexts as a row has pieces. What is summed of shares then
    /// are integers, and that is exact.
    #[must_use]
    pub fn shares(&self, iteration: u32, most: usize) -> Vec<Range<usize>> {
        let (batch, sums) = (self.batch(iteration), self.layout.sums());
        let count = most.clamp(1, sums);
        let (each, more) = (sums / count, sums % count);
        let edge = |k: usize| {
            let summed = k * each + k.min(more);
            batch.end.min(batch.start + summed * self.layout.summed_ciphertexts())
        };
        (0..count).map(|k| edge(k)..edge(k + 1)).collect()
    }

    /// The sum of rows, times their weights, over groups, for each piece.
    pub(super) fn row_sums<E: Ops>(&self, e: &E, rows: &[E::Ct]) -> Result<Vec<E::Ct>> {
        let mut groups = rows.chunks(self.layout.group()).map(|group| self.layout.split(group).1);
        let first = groups.next().ok_or_else(|| self.no_rows())?.to_vec();
        Ok(groups.try_fold(first, |sums, next| added(e, &sums, next))?)
    }

    /// `1/|lead| sum_i s(z_i . v) c_i z_i` over the rows of each block, up to a sign, where `s` is the
    /// sigmoid's polynomial, `lead` its first coefficient and `c_i` the weight of a row; for each
    /// piece.
    pub(super) fn slope_sums<E: Ops>(
        &self,
        e: &E,
        round: &Round,
        rows: &[E::Ct],
        v: &E::Ct,
    ) -> Result<Vec<E::Ct>> {
        let mut turned = vec![v.clone()];
        for step in self.layout.turns() {
            let further = par::try_map(&turned, |v| e.rotate(v, step))?;
            turned.extend(further);
        }
        let pieces = self.layout.pieces;
        let mut sums: Option<Vec<E::Ct>> = None;
        for part in rows.chunks(self.layout.summed_ciphertexts()) {
            let groups: Vec<_> =
                part.chunks(self.layout.group()).map(|group| self.layout.split(group)).collect();
            let slopes = par::try_map(&groups, |rows| self.slopes(e, round, *rows, &turned))?;
            let next = par::try_map(0..pieces, |turn| {
                let products: Vec<_> = slopes.iter().map(|slope| slope.product(turn)).collect();
                let Some(&(a, b)) = products.first() else { return Err(no_groups()) };
                let (level, scale) = (e.level(a).min(e.level(b)), e.scale(a) * e.scale(b));
                // What the sigmoid's polynomial has beside the product: 1/2 and, at higher
                // degrees, another power.
                let halves = groups.iter().map(|(_, rows)| (&rows[turn], 0.5 / self.sigmoid.lead));
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
                Some(sums) => added(e, &sums, &next)?,
                None => next,
            });
        }
        sums.ok_or_else(|| self.no_rows())
    }

    /// What [`TrainPlan::slope_sums`] sums, for the rows of a group, each in its block: as they are
    /// and as they are summed.
    fn slopes<E: Ops>(
        &self,
        e: &E,
        round: &Round,
        (rows, summed): (&[E::Ct], &[E::Ct]),
        turned: &[E::Ct],
    ) -> sudare::Result<Slopes<E::Ct>> {
        let rows =
            rows.iter().map(|a| at(e, a, round.level)).collect::<sudare::Result<Vec<_>>>()?;
        let products = rows.iter().map(AsRef::as_ref).zip(turned).collect();
        let inner = e.mul_sum_rescale(&ProductSum { products, addend: None })?;
        // Slots beyond a piece's entries get sums of a part of them, and are cleared by the zeros
        // that they are multiplied with.
        let inner = add_rotations(e, inner, self.layout.row_sums())?;
        let t = e.with_scale(&inner, e.scale(&inner) * Scale::from_f64(self.sigmoid.range))?;
        let y = e.mul_rescale(&t, &t)?;
        let shifted = e.add_const(&y, real(self.sigmoid.shift))?;
        let a = par::try_map(summed, |rows| {
            let mut lifted = e.mul_const(&*at(e, rows, round.level)?, real(1.0), round.lift)?;
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

    pub(super) fn no_rows(&self) -> Error {
        not_as_planned("ciphertexts of the batch", 0, self.layout.ciphertexts())
    }

    /// Refuses other ciphertexts than those of a share.
    fn check_rows<E: Ops>(
        &self,
        e: &E,
        iteration: u32,
        share: &Range<usize>,
        rows: &[E::Ct],
    ) -> Result<()> {
        let (batch, unit) = (self.batch(iteration), self.layout.summed_ciphertexts());
        let edge = |at: usize| {
            at == batch.end || batch.contains(&at) && (at - batch.start).is_multiple_of(unit)
        };
        if share.is_empty() || !edge(share.start) || !edge(share.end) {
            return Err(not_as_planned(
                "share of a batch",
                format_args!("ciphertexts {share:?}"),
                format_args!("multiples of {unit} in {batch:?}"),
            ));
        }
        let what =
            if *share == batch { "ciphertexts of the batch" } else { "ciphertexts of the share" };
        expect(what, rows.len(), share.len())?;
        rows.iter().try_for_each(|ciphertext| {
            expect("level of the encrypted table", e.level(ciphertext), self.level)?;
            expect_scale("scale of the encrypted table", e.scale(ciphertext), self.scales.data)
        })
    }

    /// Refuses all but the gradient over the whole batch.
    pub(super) fn check_gradient<E: Ops>(
        &self,
        e: &E,
        stage: Stage<'_>,
        gradient: &Gradient<E::Ct>,
        iteration: u32,
    ) -> Result<()> {
        expect("iterations done before a gradient", gradient.iteration, iteration)?;
        let batch = self.batch(iteration);
        if gradient.shares != [batch.clone()] {
            return Err(not_as_planned(
                "shares of a gradient",
                format_args!("ciphertexts {:?}", gradient.shares),
                format_args!("all of {batch:?}"),
            ));
        }
        expect("ciphertexts of a gradient", gradient.sums.len(), self.layout.pieces)?;
        let (level, scale) = match stage {
            Stage::Start => (self.level, self.scales.data),
            Stage::Round(round) => (round.left, round.sum),
        };
        gradient.sums.iter().try_for_each(|sum| {
            expect("level of a gradient", e.level(sum), level)?;
            expect_scale("scale of a gradient", e.scale(sum), scale)
        })
    }
}

fn no_groups() -> sudare::Error {
    sudare::Error::Circuit("a sum over no group of rows".into())
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
