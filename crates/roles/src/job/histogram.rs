use super::{
    KeyColumn, Plan, StatsResult, TableJob, TablePlan, TableStatistics, Takes, expect_precise,
};
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
use sudare_apps::stats::{Cost, Edges, HistogramJob, HistogramPlan};
use sudare_arith::prng::Seed;
use sudare_table::Table;

/// Creates the job that `ROWSxFEATURESxBINS` names.
pub(super) fn named(counts: &[usize]) -> Option<super::Job> {
    let &[rows, features, bins] = counts else { return None };
    Some(super::Job::Histogram(HistogramJob { rows, features, bins }))
}

impl TableJob for HistogramJob {
    fn kind(&self) -> &'static str {
        "histogram"
    }

    fn shape(&self) -> (usize, usize) {
        (self.rows, self.features)
    }

    fn named(&self, rows: usize, features: usize) -> String {
        format!("histogram:{rows}x{features}x{}", self.bins)
    }

    fn takes(&self) -> Takes {
        Takes { bins: Some(self.bins), ..Takes::default() }
    }

    fn exact_params(&self) -> Result<Params> {
        Ok(HistogramPlan::exact_params(self)?)
    }

    fn auto_params(&self) -> Result<Params> {
        Ok(HistogramPlan::auto_params(self)?)
    }

    fn shared_params(&self, bits: u32) -> Result<Params> {
        Ok(HistogramPlan::shared_params(self, bits)?)
    }

    fn plan(&self, params: &Params) -> Result<Plan> {
        Ok(Plan::of_statistics(HistogramPlan::new(self, params)?))
    }
}

plan_of_statistics!(HistogramPlan);

impl TableStatistics for HistogramPlan {
    computed_statistics!();

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
            About::Columns(scaling) => self.uncentred_bins(&scaling),
            _ => return Ok(None),
        };
        let histograms = self.decode(slots, &bins, rows, shared_bits)?;
        Ok(Some(Decrypted::Histograms { rows, columns, histograms }))
    }
}
