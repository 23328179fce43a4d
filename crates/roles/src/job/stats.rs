use super::{Plan, TableJob, TablePlan, expect_precise};
use crate::{error::Result, note::About, price::Price};
use std::fmt;
use sudare::{
    ckks::{Ciphertext, Encryptor, Evaluator, Params, Scale},
    rlwe::{KeyRequest, Level},
};
use sudare_apps::{
    stats::{ColumnScaling, Grouping, Job, StatsPlan},
    table::Table,
};

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
        Ok(Plan::Stats(StatsPlan::new(self, params)?))
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stats:{}x{}", self.rows, self.features)
    }
}

impl TablePlan for StatsPlan {
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
