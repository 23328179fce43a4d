use super::{Plan, TableJob, TablePlan, expect_precise};
use crate::{error::Result, note::About, price::Price};
use std::fmt;
use sudare::{
    ckks::{Ciphertext, Encryptor, Evaluator, Params, Scale},
    rlwe::{KeyRequest, Level},
};
use sudare_apps::{
    stats::{ColumnScaling, GroupJob, GroupPlan, Grouping},
    table::Table,
};

impl TableJob for GroupJob {
    fn kind(&self) -> &'static str {
        "groups"
    }

    fn shape(&self) -> (usize, usize) {
        (self.rows, self.features)
    }

    fn auto_params(&self) -> Result<Params> {
        Ok(GroupPlan::auto_params(self)?)
    }

    fn shared_params(&self, bits: u32) -> Result<Params> {
        Ok(GroupPlan::shared_params(self, bits)?)
    }

    fn plan(&self, params: &Params) -> Result<Plan> {
        Ok(Plan::Groups(GroupPlan::new(self, params)?))
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, features, groups } = self;
        write!(f, "groups:{rows}x{features}x{groups}")
    }
}

impl TablePlan for GroupPlan {
    plan_of_statistics!();

    fn encrypt(
        &self,
        encryptor: &Encryptor,
        table: &Table,
        key: Option<(&str, &Grouping)>,
        progress: &(dyn Fn(usize) + Send + Sync),
    ) -> Result<Option<(Vec<Ciphertext>, About)>> {
        let scaling = ColumnScaling::of(table);
        let (name, grouping) = key.ok_or_else(super::incomplete)?;
        let items = self.encrypt(encryptor, table, &scaling, grouping, progress)?;
        let (key, labels) = (name.to_owned(), grouping.labels().to_vec());
        Ok(Some((items, About::Groups { scaling, key, labels })))
    }
}
