use super::{KeyColumn, Plan, StatsResult, TableJob, TablePlan, TableStatistics, expect_precise};
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
use sudare_apps::stats::{ColumnScaling, Cost, Edges, Job, StatsPlan};
use sudare_arith::prng::Seed;
use sudare_table::Table;

/// Creates the job that `ROWSxFEATURES` names.
pub(super) fn named(counts: &[usize]) -> Option<super::Job> {
    let &[rows, features] = counts else { return None };
    Some(super::Job::Stats(Job { rows, features }))
}

impl TableJob for Job {
    fn kind(&self) -> &'static str {
        "stats"
    }

    fn shape(&self) -> (usize, usize) {
        (self.rows, self.features)
    }

    fn auto_params(&self) -> Result<Params> {
        Ok(StatsPlan::auto_params(self)?)
    }

    fn shared_params(&self, bits: u32) -> Result<Params> {
        Ok(StatsPlan::shared_params(self, bits)?)
    }

    fn plan(&self, params: &Params) -> Result<Plan> {
        Ok(Plan::of_statistics(StatsPlan::new(self, params)?))
    }
}

plan_of_statistics!(StatsPlan);

impl TableStatistics for StatsPlan {
    computed_statistics!();

    fn about(&self, table: &Table, _key: Option<&KeyColumn>, _edges: &[Edges]) -> Result<About> {
        Ok(About::Columns(ColumnScaling::of(table)))
    }

    fn pack<'a>(
        &'a self,
        table: &'a Table,
        _key: Option<&'a KeyColumn>,
        about: &'a About,
    ) -> Result<Messages<'a>> {
        let About::Columns(scaling) = about else { return Err(super::incomplete()) };
        Ok(Messages::new(self.shapes(), self.pack(table, scaling)?))
    }

    fn decode(
        &self,
        slots: &[Vec<f64>],
        note: Note,
        shared_bits: Option<u32>,
    ) -> Result<Option<Decrypted>> {
        let Note { columns, rows, about: About::Columns(scaling) } = note else { return Ok(None) };
        let statistics = self.decode(slots, &scaling, rows, shared_bits)?;
        Ok(Some(Decrypted::Statistics { columns, statistics }))
    }
}
