//! What the owner of a table does first: encrypting it for the job that the keys were made for.

use crate::{
    artefacts::{Content, Job, Meta, Note, NoteScaling, Plan},
    error::{Error, Result},
    model::Model,
    scoring::Inputs,
};
use std::{io::Write, path::Path, sync::Arc};
use sudare::{
    ckks::{
        Ciphertext, Encryptor, Params,
        serial::{CiphertextWriter, Shape},
    },
    rlwe::{KeyId, PublicKey},
};
use sudare_apps::{
    logreg::ScorePlan,
    note,
    stats::{ColumnScaling, Grouping},
    table::{Scaling, Table},
};
use sudare_arith::prng::Seed;

/// A column by whose values rows are grouped.
pub struct KeyColumn {
    /// Its name.
    pub name: String,
    /// Its values.
    pub grouping: Grouping,
}

impl KeyColumn {
    /// A column with these values, one per row.
    #[must_use]
    pub fn new(name: &str, values: &[f64]) -> Self {
        Self { name: name.into(), grouping: Grouping::of(values) }
    }
}

/// Encrypts tables for one job.
pub struct Encryption {
    job: Job,
    plan: Plan,
    params: Params,
    /// Name of the parameters.
    name: String,
    encryptor: Encryptor,
    key: KeyId,
    /// Decides the order of rows, if that is to be known.
    order: Option<Seed>,
    /// Of rows with target 0 and with 1, for a training that is planned with given ones.
    class_weights: Option<[f64; 2]>,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Ciphertexts, those of the note included.
    pub ciphertexts: usize,
    /// Bytes of the file.
    pub bytes: u64,
}

impl Encryption {
    /// For `job`, under a key and parameters of this name.
    ///
    /// # Errors
    /// Those of the job's plan; [`Error::Library`] for a key of other parameters.
    pub fn new(job: Job, params: &Params, name: &str, key: Arc<PublicKey>) -> Result<Self> {
        let (plan, id) = (job.plan(params)?, key.id());
        let encryptor = Encryptor::new(params, key)?;
        Ok(Self {
            job,
            plan,
            params: params.clone(),
            name: name.into(),
            encryptor,
            key: id,
            order: None,
            class_weights: None,
        })
    }

    /// The same, which brings the rows of batches into the order of a seed: for who knows it.
    #[must_use]
    pub fn with_order(self, order: Option<Seed>) -> Self {
        Self { order, ..self }
    }

    /// The same, with the weights of rows with target 0 and with 1, of which only the ratio counts:
    /// for a training that is planned with given ones, and no other.
    #[must_use]
    pub fn with_class_weights(self, class_weights: Option<[f64; 2]>) -> Self {
        Self { class_weights, ..self }
    }

    /// The job as it is planned.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Encrypts a table, with the key column that groups need, and writes its file, which messages
    /// call `path`. Rows are shuffled by [`shuffle`]. `progress` learns the number of ciphertexts
    /// of the table that are made after each, from any thread.
    ///
    /// # Errors
    /// [`Error::Table`], [`Error::Stats`] and [`Error::Apps`] if the table is not the one that was
    /// planned for; [`Error::File`].
    pub fn write(
        &self,
        out: &mut (impl Write + ?Sized),
        path: &Path,
        mut table: Table,
        key: Option<&KeyColumn>,
        progress: impl Fn(usize) + Send + Sync,
    ) -> Result<Written> {
        shuffle(&self.plan, &mut table, self.order.as_ref())?;
        let scaling = self.scaling(&table, key)?;
        let note = Note { columns: table.columns().to_vec(), scaling };
        let (shapes, items) = self.items(&table, key, progress)?;
        drop(table);
        self.write_items((out, path), shapes, items, &note, Content::Table)
    }

    /// Encrypts rows to be scored, scaled as those that the model was trained on, and their labels,
    /// if they have any. Otherwise as [`Encryption::write`].
    ///
    /// # Errors
    /// [`Error::Usage`] for keys of another job, and for other columns than the model has;
    /// [`Error::Apps`] for other rows than planned; [`Error::File`].
    pub fn write_rows(
        &self,
        out: &mut (impl Write + ?Sized),
        path: &Path,
        table: &Table,
        inputs: &Inputs,
        progress: impl Fn(usize) + Send + Sync,
    ) -> Result<Written> {
        let (plan, table) = (self.score_plan()?, inputs.arrange(table)?);
        let digit = |&label: &bool| if label { '1' } else { '0' };
        let labels = table.labels().ok().map(|labels| labels.iter().map(digit).collect());
        let scaling = NoteScaling::Rows { divisors: inputs.divisors.clone(), labels };
        let note = Note { columns: inputs.columns.clone(), scaling };
        let items = plan.encryptions(&self.encryptor, &table, &inputs.divisors)?;
        let (shapes, items) = alike(items, plan.ciphertexts(), progress)?;
        self.write_items((out, path), shapes, items, &note, Content::Table)
    }

    /// Encrypts a model to score by. Otherwise as [`Encryption::write`].
    ///
    /// # Errors
    /// [`Error::Usage`] for keys of another job; [`Error::Apps`] for a model of another size, or
    /// with larger weights than planned; [`Error::File`].
    pub fn write_model(
        &self,
        out: &mut (impl Write + ?Sized),
        path: &Path,
        model: &Model,
    ) -> Result<Written> {
        let weights = self.score_plan()?.encrypt_model(&self.encryptor, &model.weights)?;
        let (target, divisors) = (model.target.clone(), model.divisors.clone());
        let scaling = NoteScaling::Train { target, divisors, class_weights: None };
        let note = Note { columns: model.columns.clone(), scaling };
        let (shapes, items) = of_all(vec![weights]);
        self.write_items((out, path), shapes, items, &note, Content::Model)
    }

    fn score_plan(&self) -> Result<&ScorePlan> {
        match &self.plan {
            Plan::Predict(plan) => Ok(plan),
            _ => Err(Error::Usage(format!(
                "the keys are for {}: make keys for scoring with --for predict:ROWSxFEATURES, or \
                 for a training with --predict",
                self.job
            ))),
        }
    }

    fn write_items(
        &self,
        (out, path): (&mut (impl Write + ?Sized), &Path),
        mut shapes: Vec<Shape>,
        items: Items<'_>,
        note: &Note,
        content: Content,
    ) -> Result<Written> {
        let note = serde_json::to_vec(note).map_err(|error| Error::Bug(error.to_string()))?;
        let note = note::encrypt(&self.encryptor, &self.params, &note)?;
        let meta = Meta { note: note.len() as u32, ..Meta::of(self.job) };
        let label = meta.label(&self.name, content)?;
        shapes.extend(note.iter().map(Shape::of));
        let ciphertexts = shapes.len();
        let in_file = Error::in_file(path);
        let mut file =
            CiphertextWriter::new(out, &self.params, self.key, shapes, &label).map_err(&in_file)?;
        for item in items.chain(note.into_iter().map(Ok)) {
            file.write(&item?).map_err(&in_file)?;
        }
        let bytes = file.finish().map_err(&in_file)?;
        Ok(Written { ciphertexts, bytes })
    }

    /// What the owner needs to read a result.
    fn scaling(&self, table: &Table, key: Option<&KeyColumn>) -> Result<NoteScaling> {
        Ok(match &self.plan {
            Plan::Train(_) => {
                let target = table.target().unwrap_or_default().to_owned();
                let (divisors, class_weights) = (Scaling::max_abs(table), self.class_weights);
                NoteScaling::Train { target, divisors, class_weights }
            }
            Plan::Stats(_) | Plan::Histogram(_) => NoteScaling::Stats(ColumnScaling::of(table)),
            Plan::Groups(_) => {
                let KeyColumn { name, grouping } = key.ok_or_else(missing)?;
                let (scaling, labels) = (ColumnScaling::of(table), grouping.labels().to_vec());
                NoteScaling::Groups { scaling, key: name.clone(), labels }
            }
            Plan::Predict(_) => return Err(unscaled()),
        })
    }

    /// The ciphertexts of a table as they are made, and their shapes.
    fn items<'a>(
        &'a self,
        table: &Table,
        key: Option<&KeyColumn>,
        progress: impl Fn(usize) + Send + Sync + 'a,
    ) -> Result<(Vec<Shape>, Items<'a>)> {
        let encryptor = &self.encryptor;
        Ok(match &self.plan {
            Plan::Train(plan) => {
                let items = plan.encryptions(encryptor, table, self.class_weights)?;
                alike(items, plan.ciphertexts(), progress)?
            }
            Plan::Stats(plan) => {
                of_all(plan.encrypt(encryptor, table, &ColumnScaling::of(table), progress)?)
            }
            Plan::Histogram(plan) => {
                of_all(plan.encrypt(encryptor, table, &ColumnScaling::of(table), progress)?)
            }
            Plan::Groups(plan) => {
                let KeyColumn { grouping, .. } = key.ok_or_else(missing)?;
                let scaling = ColumnScaling::of(table);
                of_all(plan.encrypt(encryptor, table, &scaling, grouping, progress)?)
            }
            Plan::Predict(_) => return Err(unscaled()),
        })
    }
}

/// Ciphertexts as they are made.
type Items<'a> = Box<dyn Iterator<Item = Result<Ciphertext>> + 'a>;

/// Those that there are already, with their shapes.
fn of_all<'a>(items: Vec<Ciphertext>) -> (Vec<Shape>, Items<'a>) {
    (items.iter().map(Shape::of).collect(), Box::new(items.into_iter().map(Ok)))
}

/// Those that are made one after the other, all of the same shape.
fn alike<'a>(
    mut items: impl Iterator<Item = sudare_apps::Result<Ciphertext>> + 'a,
    count: usize,
    progress: impl Fn(usize) + 'a,
) -> Result<(Vec<Shape>, Items<'a>)> {
    let first = items.next().transpose()?;
    let shapes = vec![first.as_ref().map(Shape::of); count];
    let items = first.map(Ok).into_iter().chain(items).enumerate();
    let items = items.map(move |(i, item)| {
        progress(i + 1);
        Ok(item?)
    });
    Ok((shapes.into_iter().flatten().collect(), Box::new(items)))
}

/// Brings the rows of a table into the order of a seed, or one that nobody knows, if they are
/// trained on in batches, whose order is public.
///
/// # Errors
/// [`Error::Library`] if the machine has no randomness to give.
pub fn shuffle(plan: &Plan, table: &mut Table, seed: Option<&Seed>) -> Result<()> {
    if let Plan::Train(plan) = plan
        && plan.batches().count() > 1
    {
        match seed {
            Some(seed) => table.shuffle(seed),
            None => table.shuffle(&Seed::random().map_err(sudare::Error::from)?),
        }
    }
    Ok(())
}

/// What to do with keys for scoring rows and rows that are not said to be scaled as any model's.
#[must_use]
pub fn unscaled() -> Error {
    Error::Usage(
        "these keys are for scoring rows, which are scaled as those that the model was trained \
         on: name the model, or the table that it was trained on, with --like"
            .into(),
    )
}

fn missing() -> Error {
    Error::Bug("groups without a key column".into())
}
