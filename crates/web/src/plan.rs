//! From a table and a choice to an owner with a plan.

use crate::{
    owner::{Data, Owner},
    scorer::Scorer,
    table::{Choice, Csv, Wanted},
};
use sudare_apps::{
    logreg::{self, Preparation, Prepared, ScoreJob, ScoredModel, TrainSpec},
    stats,
};
use sudare_roles::{
    clear::reading::Reading,
    error::{Error, Result},
    job::Job,
    owner::encryption::Subject,
};
use sudare_table::{EncodingOptions, Selection, Table};

impl Csv {
    /// Plans the requested computation.
    ///
    /// # Errors
    /// [`Error::TableFile`], [`Error::Table`], [`Error::Stats`] and [`Error::Apps`] for a table with which
    /// it cannot be done; [`Error::Usage`] for columns that the table does not have as chosen.
    pub fn plan(&self, choice: &Choice) -> Result<Owner> {
        let reading = Reading { encoding: self.options(choice)?, ..Reading::default() };
        let (table, key, encoding) = match &choice.job {
            Wanted::Groups { by } => {
                let (text, path) = self.parts();
                let (table, key, encoding) = reading.grouped_of_text(text, path, by)?;
                (table, Some(key), encoding)
            }
            job => {
                let (table, encoding) = reading.table_of_text(self.parts(), job.labels())?;
                (table, None, encoding)
            }
        };
        let rows = table.rows();
        let features = table.features();
        let job = match choice.job {
            Wanted::Train { iterations, .. } => {
                table.check_for_training().map_err(Error::in_table(self.parts().1))?;
                Job::Train(training(&table, iterations)?)
            }
            Wanted::Stats {} => Job::Stats(stats::Job { rows, features }),
            Wanted::Groups { .. } => {
                let groups = key.as_ref().map_or(0, |key| key.labels.count());
                Job::Groups(stats::GroupJob { rows, features, groups })
            }
            Wanted::Histogram { bins } => {
                Job::Histogram(stats::HistogramJob { rows, features, bins })
            }
        };
        let subject = Subject { encoding: Some(encoding), key, ..table.into() };
        Owner::new(job, Data::Table(Box::new(subject)))
    }

    /// Plans scores of the rows by a model. Columns that the model does not have are left out.
    ///
    /// # Errors
    /// [`Error::TableFile`] and [`Error::Usage`] for a table without the columns, categories or
    /// classes of the model; [`Error::Apps`] if the model cannot be planned.
    pub fn plan_scores(&self, scorer: &Scorer) -> Result<Owner> {
        let model = scorer.model();
        let inputs = model.inputs()?;
        let frame = self.frame()?;
        let unused: Vec<String> =
            frame.columns().iter().filter(|name| !scorer.knows(name)).cloned().collect();
        // Read again with the model's own types.
        drop(frame);
        let selection = Selection { columns: None, drop: unused.clone() };
        let encoding = EncodingOptions { selection, ..EncodingOptions::default() };
        let reading = Reading { encoding, ..Reading::default() };
        let labels = (&inputs.target[..], &inputs.classes[..]);
        let table = reading.rows_of_text(
            self.parts(),
            &inputs.columns,
            labels,
            inputs.encoding.as_ref(),
        )?;
        let features = table.features();
        let classes = inputs.classes.len() as u32;
        let scored = ScoredModel::Given { features, classes, probability: None };
        let job = Job::Predict(ScoreJob { rows: table.rows(), model: scored });
        Owner::new(job, Data::Rows { table, model: Box::new(model.clone()), unused })
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
