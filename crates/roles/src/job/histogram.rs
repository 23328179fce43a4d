use super::{Plan, TableJob, TablePlan, expect_precise};
use crate::{error::Result, note::About};
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
    fn command(&self) -> &'static str {
        "stats"
    }

    fn required_keys(&self) -> &KeyRequest {
        self.required_keys()
    }

    fn ciphertexts(&self) -> usize {
        self.ciphertexts()
    }

    fn outputs(&self) -> usize {
        self.outputs()
    }

    fn result_shapes(&self, _iterations: u32) -> Result<Vec<(Level, Scale)>> {
        Ok(self.output_shapes()?)
    }

    fn expect_shared(&self, bits: u32) -> Result<()> {
        expect_precise(bits, self.largest_error(), self.largest_shared_error(bits))
    }

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

    fn statistics(
        &self,
        e: &Evaluator,
        table: &dyn Fn() -> Result<Vec<Ciphertext>>,
        progress: &(dyn Fn(usize) + Send + Sync),
    ) -> Result<Option<Vec<Ciphertext>>> {
        Ok(Some(self.run(e, &table()?, progress)?))
    }
}
