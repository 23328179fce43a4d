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
use sudare_apps::{
    stats::{ColumnScaling, Cost, HistogramJob, HistogramPlan},
    table::Table,
};
use sudare_arith::prng::Seed;

/// The job that `ROWSxFEATURESxBINS` names.
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
    computed_statistics!(columns);

    fn decode(&self, slots: &[Vec<f64>], note: Note) -> Result<Option<Decrypted>> {
        let Note { columns, rows, about: About::Columns(scaling) } = note else { return Ok(None) };
        let histograms = self.decode(slots, &scaling, rows)?;
        Ok(Some(Decrypted::Histograms { rows, columns, histograms }))
    }
}
