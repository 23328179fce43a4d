use super::{Noted, StatisticsJob};
use crate::{
    clear::{
        decrypted::Decrypted,
        groups::KeyColumn,
        note::{About, Note},
    },
    error::Result,
    key::Messages,
};
use sudare_apps::stats::{ColumnScaling, ColumnSums, Edges, Job, StatsPlan};
use sudare_table::Table;

/// Creates the job that `ROWSxFEATURES` names.
pub(super) fn named(counts: &[usize]) -> Option<super::Job> {
    let &[rows, features] = counts else { return None };
    Some(super::Job::Stats(Job { rows, features }))
}

impl StatisticsJob for Job {
    type Circuit = ColumnSums;

    const KIND: &'static str = "stats";
}

impl Noted for StatsPlan {
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
