use super::{Noted, RequiredInputs, StatisticsJob};
use crate::{
    clear::{
        decrypted::Decrypted,
        groups::KeyColumn,
        note::{About, Note},
    },
    error::Result,
    key::Messages,
};
use sudare::ckks::Params;
use sudare_apps::stats::{BinCounts, Edges, HistogramJob, HistogramPlan};
use sudare_table::Table;

/// Creates the job that `ROWSxFEATURESxBINS` names.
pub(super) fn named(counts: &[usize]) -> Option<super::Job> {
    let &[rows, features, bins] = counts else { return None };
    Some(super::Job::Histogram(HistogramJob { rows, features, bins }))
}

impl StatisticsJob for HistogramJob {
    type Circuit = BinCounts;

    const KIND: &'static str = "histogram";

    fn parts(&self) -> Option<usize> {
        Some(self.bins)
    }

    fn required_inputs(&self) -> RequiredInputs {
        RequiredInputs { bins: self.parts(), ..RequiredInputs::default() }
    }

    fn exact_params(&self) -> Result<Params> {
        Ok(HistogramPlan::exact_params(self)?)
    }
}

impl Noted for HistogramPlan {
    fn about(&self, table: &Table, _key: Option<&KeyColumn>, edges: &[Edges]) -> Result<About> {
        Ok(About::Bins(self.bins(table, edges)?))
    }

    fn pack<'a>(
        &'a self,
        table: &'a Table,
        _key: Option<&'a KeyColumn>,
        about: &'a About,
    ) -> Result<Messages<'a>> {
        let About::Bins(bins) = about else { return Err(super::incomplete()) };
        Ok(Messages::new(self.shapes(), self.pack(table, bins)?))
    }

    fn decode(
        &self,
        slots: &[Vec<f64>],
        note: Note,
        shared_bits: Option<u32>,
    ) -> Result<Option<Decrypted>> {
        let Note { columns, rows, about } = note;
        let bins = match about {
            About::Bins(bins) => bins,
            // Notes of unchanged values have no bins, which follow from the scaling.
            About::Columns(scaling) => self.uncentred_bins(&scaling),
            _ => return Ok(None),
        };
        let histograms = self.decode(slots, &bins, rows, shared_bits)?;
        Ok(Some(Decrypted::Histograms { rows, columns, histograms }))
    }
}
