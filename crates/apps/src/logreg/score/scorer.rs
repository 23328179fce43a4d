//! Scoring on a server.

use super::{ScorePlan, sigmoid::real};
use crate::{
    Error, Result,
    logreg::planned::{add_rotations, expect, expect_scale, not_as_planned},
};
use sudare::{circuits::ckks::ComplexOps, ckks::ProductSum};
use sudare_arith::par;

/// The server's part of scoring: see [`ScorePlan::scorer`].
pub struct Scorer<'a, E: ComplexOps> {
    pub(super) plan: &'a ScorePlan,
    pub(super) ev: &'a E,
    /// The turned weights of each model.
    pub(super) turned: Vec<Turned<E::Ct>>,
}

/// The weights, turned once for each piece of a row.
pub(super) enum Turned<C> {
    /// A period of each turn.
    Plain(Vec<Vec<f64>>),
    Encrypted(Vec<C>),
}

impl<E: ComplexOps> Scorer<'_, E> {
    /// The scores of the rows of whole groups, [`ScorePlan::group_len`] ciphertexts each;
    /// [`ScorePlan::group_outputs`] of each group, in order.
    ///
    /// # Errors
    /// [`Error::NotAsPlanned`] for ciphertexts that differ from the plan; [`Error::Library`] for a
    /// missing key.
    pub fn score(&self, rows: &[E::Ct]) -> Result<Vec<E::Ct>> {
        let plan = self.plan;
        let e = self.ev;
        let pieces = self.plan.layout.pieces;
        if rows.is_empty() || rows.len() % pieces != 0 {
            let needed = format_args!("a multiple of {pieces}");
            return Err(not_as_planned("ciphertexts of rows", rows.len(), needed));
        }
        for row in rows {
            expect("level of encrypted rows", e.level(row), plan.level)?;
            expect_scale("scale of encrypted rows", e.scale(row), plan.rows)?;
        }
        let of_model = |turned| {
            par::try_map(self.sums(rows, turned)?, |mut scores| {
                let sigmoid = plan.sigmoid.as_ref();
                let probabilities = sigmoid.map(|s| s.run(e, &plan.layout, &scores)).transpose()?;
                // Only now, because the sigmoid needs the higher level.
                e.drop_to(&mut scores, plan.lowest)?;
                Ok::<_, Error>([Some(scores), probabilities])
            })
        };
        let of_models = self.turned.iter().map(of_model).collect::<Result<Vec<_>>>()?;
        // Results are in order of groups.
        let mut of_models: Vec<_> = of_models.into_iter().map(Vec::into_iter).collect();
        let mut results = Vec::with_capacity(rows.len() / pieces * plan.group_outputs());
        for _ in 0..rows.len() / pieces {
            let group = of_models.iter_mut().flat_map(Iterator::next);
            results.extend(group.flatten().flatten());
        }
        Ok(results)
    }

    fn plain_products(&self, groups: &[&[E::Ct]], turned: &[Vec<f64>]) -> Result<Vec<E::Ct>> {
        let plan = self.plan;
        let e = self.ev;
        let slots = plan.layout.slots();
        let mut sums: Option<Vec<E::Ct>> = None;
        for (turn, period) in turned.iter().enumerate() {
            let same_turn: Vec<&E::Ct> = groups.iter().map(|rows| &rows[turn]).collect();
            let weights: Vec<_> = real(period).into_iter().cycle().take(slots).collect();
            let products = e.mul_plain_many(&same_turn, &weights, plan.model.1)?;
            sums = Some(match sums {
                None => products,
                Some(sums) => {
                    let pairs = sums.iter().zip(&products);
                    pairs.map(|(a, b)| e.add(a, b)).collect::<sudare::Result<_>>()?
                }
            });
        }
        let mut sums = sums.unwrap_or_default();
        sums.iter_mut().try_for_each(|sum| e.rescale_assign(sum))?;
        Ok(sums)
    }

    /// Returns the scores of groups by a model, in the first slots of blocks.
    pub(super) fn sums(&self, rows: &[E::Ct], turned: &Turned<E::Ct>) -> Result<Vec<E::Ct>> {
        let plan = self.plan;
        let e = self.ev;
        let groups: Vec<&[E::Ct]> = rows.chunks(plan.layout.pieces).collect();
        let products = match turned {
            Turned::Encrypted(turned) => par::try_map(&groups, |rows| {
                let products = rows.iter().zip(turned).collect();
                e.mul_sum_rescale(&ProductSum { products, addend: None })
            })?,
            Turned::Plain(turned) => self.plain_products(&groups, turned)?,
        };
        Ok(par::try_map(&products, |product| {
            add_rotations(e, e.with_scale(product, plan.scale)?, plan.layout.piece_sums())
        })?)
    }
}
