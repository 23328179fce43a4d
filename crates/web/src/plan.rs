//! From a table and a choice to an owner with a plan.

use crate::{
    owner::Owner,
    table::{Choice, Csv, Wanted},
};
use sudare_apps::{
    logreg::{self, Preparation, Prepared, TrainSpec},
    stats,
};
use sudare_roles::{
    clear::groups::KeyColumn,
    error::{Error, Result},
    job::Job,
    owner::encryption::Subject,
};
use sudare_table::Table;

impl Csv {
    /// Plans the requested computation.
    ///
    /// # Errors
    /// [`Error::TableFile`], [`Error::Table`], [`Error::Stats`] and [`Error::Apps`] for a table with which
    /// it cannot be done; [`Error::Usage`] for columns that the table does not have as chosen.
    pub fn plan(&self, choice: &Choice) -> Result<Owner> {
        let in_table = Error::in_table(self.parts().1);
        let target = choice.job.target();
        let chosen = self.chosen(choice)?;
        let reading = chosen.reading(choice.missing);
        let (mut table, encoding) = reading.table_of_text(chosen.parts(), target)?;
        let mut key = None;
        if let Wanted::Groups { by } = &choice.job {
            // The column of groups is no feature, so no statistics of it are computed.
            let (rest, values) = table.without(by).map_err(&in_table)?;
            (table, key) = (rest, Some(KeyColumn::new(by, &values)?));
        }
        let rows = table.rows();
        let features = table.features();
        let job = match choice.job {
            Wanted::Train { iterations, .. } => {
                table.check_for_training().map_err(in_table)?;
                Job::Train(training(&table, iterations)?)
            }
            Wanted::Stats {} => Job::Stats(stats::Job { rows, features }),
            Wanted::Groups { .. } => {
                let groups = key.as_ref().map_or(0, |key| key.grouping.labels().len());
                Job::Groups(stats::GroupJob { rows, features, groups })
            }
            Wanted::Histogram { bins } => {
                Job::Histogram(stats::HistogramJob { rows, features, bins })
            }
        };
        Owner::new(job, Subject { encoding: Some(encoding), key, ..table.into() })
    }
}

/// The training that suits a table.
fn training(table: &Table, iterations: Option<u32>) -> Result<logreg::Job> {
    let rows = table.rows();
    let features = table.features();
    let mut spec = TrainSpec::recommended(rows, features, Preparation::Whiten)?;
    spec.iterations = iterations.unwrap_or(spec.iterations);
    spec.classes = table.classes()?.len() as u32;
    // Fitted to this table, whose training must stay in the range of the sigmoid.
    let spec = spec.with_fitting_range(&Prepared::new(table, &spec, rows, None)?)?;
    Ok(logreg::Job { rows, features, spec })
}
