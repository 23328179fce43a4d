use super::{Plan, TableJob, TablePlan, expect_precise};
use crate::{error::Result, note::About, price::Price};
use std::fmt;
use sudare::{
    ckks::{Ciphertext, Encryptor, Evaluator, Params, Scale},
    rlwe::{KeyRequest, Level},
};
use sudare_apps::{
    stats::{ColumnScaling, Grouping, HistogramJob, HistogramPlan},
    table::Table,
};

impl TableJob for HistogramJob {
    fn kind(&self) -> &'static str {
        "histogram"
    }

    fn shape(&self) -> (usize, usize) {
        (self.rows, self.features)
    }

    fn auto_params(&self) -> Result<Params> {
        Ok(HistogramPlan::auto_params(self)?)
    }

    fn shared_params(&self, bits: u32) -> Result<Params> {
        Ok(HistogramPlan::shared_params(self, bits)?)
    }

    fn plan(&self, params: &Params) -> Result<Plan> {
        Ok(Plan::Histogram(Box::new(HistogramPlan::new(self, params)?)))
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, features, bins } = self;
        write!(f, "histogram:{rows}x{features}x{bins}")
    }
}

impl TablePlan for HistogramPlan {
    plan_of_statistics!();

    fn encrypt(
        &self,
        encryptor: &Encryptor,
        table: &Table,
        _key: Option<(&str, &Grouping)>,
        progress: &(dyn Fn(usize) + Send + Sync),
    ) -> Result<Option<(Vec<Ciphertext>, About)>> {
        let scaling = ColumnScaling::of(table);
        let items = self.encrypt(encryptor, table, &scaling, progress)?;
        Ok(Some((items, About::Columns(scaling))))
    }
}
