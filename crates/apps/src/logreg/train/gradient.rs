//! Gradients in parts, which several machines can compute.

use crate::logreg::{
    budget::Round,
    layout::Order,
    plan::TrainPlan,
    planned::{
        add_rotations, added, at, expect, expect_params, expect_scale, not_as_planned, real,
    },
};
use crate::{Result, maybe_shared::MaybeShared};
use core::ops::Range;
use std::sync::Arc;
use sudare::{
    circuits::ckks::ComplexOps,
    ckks::{Ciphertext, ProductSum, Scale},
};
use sudare_arith::par;

/// The point at which a gradient is computed. A worker needs nothing else about a training.
#[derive(Debug, Clone)]
pub struct Point<C = Ciphertext> {
    /// Iterations done.
    pub iteration: u32,
    /// The encrypted `v` of each model.
    pub v: Vec<C>,
}

/// A part of the sum over the rows of a batch, from [`Gradients::part`] or [`Gradients::sum`]. To
/// send it, write its ciphertexts and the other fields. Every field is checked before use.
#[derive(Debug, Clone)]
pub struct Gradient<C = Ciphertext> {
    /// Iterations done before this gradient.
    pub iteration: u32,
    /// The included ciphertexts of the encrypted rows, as ascending ranges with gaps between them.
    pub shares: Vec<Range<usize>>,
    /// The sums: for each model, one for each piece of a row.
    pub sums: Vec<C>,
}

/// The ciphertexts of a group of rows: those for inner products, and those to sum.
type Group<'a, C> = (&'a [C], &'a [C]);

/// Computes parts of gradients. It needs the evaluation keys and rows, and nothing else of a
/// training.
pub struct Gradients<'a, E: ComplexOps> {
    pub(in crate::logreg) plan: MaybeShared<'a, TrainPlan>,
    pub(in crate::logreg) ev: MaybeShared<'a, E>,
}

impl<E: ComplexOps> Gradients<'static, E> {
    /// Creates gradients as [`TrainPlan::gradients`] does, from a shared plan and evaluator.
    ///
    /// # Errors
    /// The errors of [`TrainPlan::gradients`].
    pub fn shared(plan: Arc<TrainPlan>, ev: Arc<E>) -> Result<Self> {
        Self::with(MaybeShared::Shared(plan), MaybeShared::Shared(ev))
    }
}

impl<'a, E: ComplexOps> Gradients<'a, E> {
    pub(in crate::logreg) fn with(
        plan: MaybeShared<'a, TrainPlan>,
        ev: MaybeShared<'a, E>,
    ) -> Result<Self> {
        expect_params(&*ev, &plan.params)?;
        Ok(Self { plan, ev })
    }

    /// Computes the part of a gradient over the rows of a share. A share is a range of
    /// [`TrainPlan::batch`]`(point.iteration)`. Its ends must be possible ends of the ranges of
    /// [`TrainPlan::shares`].
    ///
    /// # Errors
    /// [`Error::Finished`](crate::Error::Finished) if no iteration is left;
    /// [`Error::NotAsPlanned`](crate::Error::NotAsPlanned) for another point, for ciphertexts that
    /// differ from the plan, or a share with other ends; [`Error::Library`](crate::Error::Library)
    /// for a missing key.
    pub fn part(
        &self,
        point: &Point<E::Ct>,
        share: Range<usize>,
        rows: &[E::Ct],
    ) -> Result<Gradient<E::Ct>> {
        let plan = &*self.plan;
        let e = &*self.ev;
        let round = plan.round(point.iteration)?;
        plan.check_rows(e, point.iteration, &share, rows)?;
        expect("ciphertexts of the point of a gradient", point.v.len(), plan.job.spec.models())?;
        let mut sums = Vec::new();
        for v in &point.v {
            expect("level of the training's state", e.level(v), round.level)?;
            expect_scale("scale of the training's state", e.scale(v), round.scale)?;
            sums.extend(plan.slope_sums(e, round, rows, v)?);
        }
        Ok(Gradient { iteration: point.iteration, shares: vec![share], sums })
    }

    /// Sums parts of one gradient. The result is the same, bit for bit, for any order and any
    /// intermediate parts.
    ///
    /// # Errors
    /// [`Error::NotAsPlanned`](crate::Error::NotAsPlanned) for no parts, parts of different
    /// iterations, or a share in two of them; [`Error::Library`](crate::Error::Library) for
    /// ciphertexts of another training.
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

/// Sorts ranges and joins adjacent ones.
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

impl TrainPlan {
    /// Returns the worker that computes parts of gradients, on any evaluator with the plan's chain.
    ///
    /// # Errors
    /// [`Error::NotAsPlanned`](crate::Error::NotAsPlanned) for another chain.
    pub fn gradients<'a, E: ComplexOps>(&'a self, ev: &'a E) -> Result<Gradients<'a, E>> {
        Gradients::with(MaybeShared::Borrowed(self), MaybeShared::Borrowed(ev))
    }

    /// Divides the batch of an iteration ([`TrainPlan::batch`]) into shares for
    /// [`Gradients::part`], as evenly as possible. There are at most `most` shares, and at least
    /// one.
    ///
    /// Products of eight groups of rows, or fewer for a job with
    /// [`TrainSpec::workers`](super::TrainSpec::workers), are summed before they are relinearised
    /// and rounded. A share is therefore a multiple of this number of groups, or the rest of the
    /// batch. A group has one ciphertext for each piece of a row. Sums of shares are sums of
    /// integers, so they are exact.
    #[must_use]
    pub fn shares(&self, iteration: u32, most: usize) -> Vec<Range<usize>> {
        let batch = self.batch(iteration);
        let sums = self.layout.sums();
        let count = most.clamp(1, sums);
        let each = sums / count;
        let more = sums % count;
        let edge = |k: usize| {
            let summed = k * each + k.min(more);
            batch.end.min(batch.start + summed * self.layout.summed_ciphertexts())
        };
        (0..count).map(|k| edge(k)..edge(k + 1)).collect()
    }

    /// Computes `1/|lead| sum_i o(x_i . v) c_i x_i` over the rows of each block, up to a sign, for
    /// each piece. `o` is the sigmoid's polynomial without its 1/2, `lead` its first coefficient,
    /// and `c_i` the weight of a row.
    pub(in crate::logreg) fn slope_sums<E: ComplexOps>(
        &self,
        e: &E,
        round: &Round,
        rows: &[E::Ct],
        v: &E::Ct,
    ) -> Result<Vec<E::Ct>> {
        let mut turned = vec![v.clone()];
        // Each step doubles the number of turns.
        for step in self.layout.turns() {
            let further = par::try_map(&turned, |v| e.rotate(v, step))?;
            turned.extend(further);
        }
        let mut sums: Option<Vec<E::Ct>> = None;
        for part in rows.chunks(self.layout.summed_ciphertexts()) {
            let groups: Vec<_> =
                part.chunks(self.layout.group()).map(|group| self.layout.split(group)).collect();
            let next = match self.order {
                Order::RowsFirst => self.rows_first(e, round, &groups, &turned)?,
                Order::SigmoidFirst => self.sigmoid_first(e, round, &groups, &turned)?,
            };
            sums = Some(match sums {
                Some(sums) => added(e, &sums, &next)?,
                None => next,
            });
        }
        let needed = self.layout.ciphertexts();
        sums.ok_or_else(|| not_as_planned("ciphertexts of the batch", 0, needed))
    }

    /// Computes [`TrainPlan::slope_sums`] of groups of rows whose products are summed together.
    fn rows_first<E: ComplexOps>(
        &self,
        e: &E,
        round: &Round,
        groups: &[Group<'_, E::Ct>],
        turned: &[E::Ct],
    ) -> Result<Vec<E::Ct>> {
        let slopes = par::try_map(groups, |rows| self.slopes(e, round, *rows, turned))?;
        par::try_map(0..self.layout.pieces, |turn| {
            let products: Vec<_> = slopes.iter().map(|slope| slope.product(turn)).collect();
            // The additional terms of the sigmoid's polynomial at higher degrees.
            let addend = match &self.sigmoid.tail {
                None => None,
                Some(tail) => {
                    let rest: Vec<&E::Ct> = slopes.iter().map(|slope| &slope.rows[turn]).collect();
                    Some(rest_of(e, &products, &rest, tail.rest)?)
                }
            };
            Ok(e.mul_sum_rescale(&ProductSum { products, addend: addend.as_ref() })?)
        })
    }

    /// Computes the same with the polynomial first.
    fn sigmoid_first<E: ComplexOps>(
        &self,
        e: &E,
        round: &Round,
        groups: &[Group<'_, E::Ct>],
        turned: &[E::Ct],
    ) -> Result<Vec<E::Ct>> {
        let slopes = par::try_map(groups, |(rows, _)| {
            let t = self.inner(e, rows, turned)?;
            let y = e.mul_rescale(&t, &t)?;
            let shifted = e.add_const(&y, real(self.sigmoid.shift))?;
            let mut lifted = e.mul_const(&t, real(1.0), round.lift)?;
            e.rescale_assign(&mut lifted)?;
            let product = e.mul_rescale(&lifted, &shifted)?;
            let Some(tail) = &self.sigmoid.tail else { return Ok(product) };
            let factor = match tail.inner {
                Some(inner) => e.add_const(&e.mul_rescale(&y, &y)?, real(inner))?,
                None => y,
            };
            let products = vec![(&product, &factor)];
            let rest = rest_of(e, &products, &[&lifted], tail.rest)?;
            e.mul_sum_rescale(&ProductSum { products, addend: Some(&rest) })
        })?;
        par::try_map(0..self.layout.pieces, |turn| {
            let products = slopes.iter().zip(groups).map(|(slope, (_, rows))| (slope, &rows[turn]));
            Ok(e.mul_sum_rescale(&ProductSum { products: products.collect(), addend: None })?)
        })
    }

    /// Returns the inner products of rows with the weights, over the sigmoid's range, in all slots
    /// of their blocks that hold entries.
    fn inner<E: ComplexOps>(
        &self,
        e: &E,
        rows: &[E::Ct],
        turned: &[E::Ct],
    ) -> sudare::Result<E::Ct> {
        let products = rows.iter().zip(turned).collect();
        let inner = e.mul_sum_rescale(&ProductSum { products, addend: None })?;
        // Slots beyond a piece's entries get sums of a part of them. The zeros that they are
        // multiplied by clear them later.
        let inner = add_rotations(e, inner, self.layout.row_sums())?;
        e.with_scale(&inner, e.scale(&inner) * Scale::from_f64(self.sigmoid.range))
    }

    /// Returns the factors that [`TrainPlan::rows_first`] multiplies and sums, for the rows of a
    /// group, each in its block. `rows` are for inner products, and `summed` are the rows to sum.
    fn slopes<E: ComplexOps>(
        &self,
        e: &E,
        round: &Round,
        (rows, summed): (&[E::Ct], &[E::Ct]),
        turned: &[E::Ct],
    ) -> sudare::Result<Slopes<E::Ct>> {
        let t = self.inner(e, rows, turned)?;
        let y = e.mul_rescale(&t, &t)?;
        let shifted = e.add_const(&y, real(self.sigmoid.shift))?;
        let a = par::try_map(summed, |rows| {
            // A product with 1 brings rows to the scale that the budget has chosen.
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

    /// Rejects ciphertexts that differ from the ciphertexts of a share.
    fn check_rows<E: ComplexOps>(
        &self,
        e: &E,
        iteration: u32,
        share: &Range<usize>,
        rows: &[E::Ct],
    ) -> Result<()> {
        let batch = self.batch(iteration);
        let unit = self.layout.summed_ciphertexts();
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
        let (level, scale) = self.input(self.batches.of(iteration));
        rows.iter().try_for_each(|ciphertext| {
            expect("level of the encrypted table", e.level(ciphertext), level)?;
            expect_scale("scale of the encrypted table", e.scale(ciphertext), scale)
        })
    }

    /// Rejects every gradient except the one over the whole batch.
    pub(in crate::logreg) fn check_gradient<E: ComplexOps>(
        &self,
        e: &E,
        round: &Round,
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
        let needed = self.layout.pieces * self.job.spec.models();
        expect("ciphertexts of a gradient", gradient.sums.len(), needed)?;
        gradient.sums.iter().try_for_each(|sum| {
            expect("level of a gradient", e.level(sum), round.left)?;
            expect_scale("scale of a gradient", e.scale(sum), round.sum)
        })
    }
}

/// Returns the sum of the terms that have a constant factor, at the level and the scale of the
/// products.
fn rest_of<E: ComplexOps>(
    e: &E,
    products: &[(&E::Ct, &E::Ct)],
    rest: &[&E::Ct],
    constant: f64,
) -> sudare::Result<E::Ct> {
    let &[(a, b), ..] = products else {
        return Err(sudare::Error::Circuit("a sum over no group of rows".into()));
    };
    let level = e.level(a).min(e.level(b));
    let scale = e.scale(a) * e.scale(b);
    let low: Vec<_> = rest.iter().map(|a| at(e, a, level)).collect::<sudare::Result<_>>()?;
    let terms: Vec<_> = low.iter().map(|a| (a.as_ref(), constant, scale / e.scale(a))).collect();
    e.mul_const_sum(&terms)
}

/// Factors of the summed products, for each ciphertext of a group of rows.
struct Slopes<C> {
    /// The inner product with `v`, times the row.
    rows: Vec<C>,
    /// At degrees above 3, the second factor.
    products: Option<Vec<C>>,
    /// The last factor.
    factor: C,
}

impl<C> Slopes<C> {
    fn product(&self, turn: usize) -> (&C, &C) {
        (&self.products.as_ref().unwrap_or(&self.rows)[turn], &self.factor)
    }
}
