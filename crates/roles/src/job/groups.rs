use super::{Plan, StatsResult, TableJob, TablePlan, TableStatistics, Takes, expect_precise};
use crate::{
    decrypted::Decrypted,
    error::Result,
    key::Messages,
    note::{About, Note},
    price::Price,
};
use sudare::{
    ckks::{Ciphertext, Evaluator, Params, Scale},
    rlwe::{KeyRequest, Level},
};
use sudare_apps::stats::{Cost, Edges, GroupJob, GroupPlan, Grouping};
use sudare_arith::prng::Seed;
use sudare_table::Table;

/// A column whose values define groups of rows.
#[derive(Clone)]
pub struct KeyColumn {
    /// The name of the column.
    pub name: String,
    /// The groups of rows.
    pub grouping: Grouping,
}

impl KeyColumn {
    /// Creates a column from its values, one per row.
    ///
    /// # Errors
    /// [`Error::Stats`](crate::error::Error::Stats) for values that [`Grouping::of`] refuses as
    /// ambiguous.
    pub fn new(name: &str, values: &[f64]) -> Result<Self> {
        Ok(Self { name: name.into(), grouping: Grouping::of(values)? })
    }
}

/// Creates the job that `ROWSxFEATURESxGROUPS` names.
pub(super) fn named(counts: &[usize]) -> Option<super::Job> {
    let &[rows, features, groups] = counts else { return None };
    Some(super::Job::Groups(GroupJob { rows, features, groups }))
}

impl TableJob for GroupJob {
    fn kind(&self) -> &'static str {
        "groups"
    }

    fn shape(&self) -> (usize, usize) {
        (self.rows, self.features)
    }

    fn named(&self, rows: usize, features: usize) -> String {
        format!("groups:{rows}x{features}x{}", self.groups)
    }

    fn takes(&self) -> Takes {
        Takes { groups: Some(self.groups), ..Takes::default() }
    }

    fn auto_params(&self) -> Result<Params> {
        Ok(GroupPlan::auto_params(self)?)
    }

    fn shared_params(&self, bits: u32) -> Result<Params> {
        Ok(GroupPlan::shared_params(self, bits)?)
    }

    fn plan(&self, params: &Params) -> Result<Plan> {
        Ok(Plan::of_statistics(GroupPlan::new(self, params)?))
    }
}

plan_of_statistics!(GroupPlan);

impl TableStatistics for GroupPlan {
    computed_statistics!();

    fn about(&self, table: &Table, key: Option<&KeyColumn>, _edges: &[Edges]) -> Result<About> {
        let KeyColumn { name: key, grouping } = key.ok_or_else(super::incomplete)?;
        Ok(About::ScaledGroups {
            scalings: self.scalings(table, grouping),
            key: key.clone(),
            labels: grouping.labels().to_vec(),
        })
    }

    fn pack<'a>(
        &'a self,
        table: &'a Table,
        key: Option<&'a KeyColumn>,
        about: &'a About,
    ) -> Result<Messages<'a>> {
        let (About::ScaledGroups { scalings, .. }, Some(KeyColumn { grouping, .. })) = (about, key)
        else {
            return Err(super::incomplete());
        };
        Ok(Messages::new(self.shapes(), self.pack(table, scalings, grouping)?))
    }

    fn decode(
        &self,
        slots: &[Vec<f64>],
        note: Note,
        shared_bits: Option<u32>,
    ) -> Result<Option<Decrypted>> {
        let Note { columns, about, .. } = note;
        let (scalings, key, labels) = match about {
            About::ScaledGroups { scalings, key, labels } => (scalings, key, labels),
            About::Groups { scaling, key, labels } => {
                (vec![scaling; self.job().groups], key, labels)
            }
            _ => return Ok(None),
        };
        let statistics = self.decode(slots, &scalings, labels.len(), shared_bits)?;
        Ok(Some(Decrypted::Groups { key, labels, columns, statistics }))
    }
}
