//! Encrypts a table for the job that the keys were made for: the first step of a table's owner.

use crate::{
    clear::{
        features::Inputs,
        fingerprint::{Fingerprint, Fingerprints},
        groups::KeyColumn,
        model::Model,
        note::{About, HeldOut, Note, Trained, prepared_digest},
        reading::arranged,
    },
    error::{Error, Result},
    format::label::{Content, Meta, Pooled},
    job::{Job, Plan, incomplete},
    key::{FileEncryptor, Key, Messages},
    pooled::transform::PooledTransform,
};
use core::iter::repeat_n;
use std::{io::Write, path::Path, sync::Arc};
use sudare::ckks::{Params, serial::Shape};
use sudare_apps::{
    Slots, TablePlan,
    logreg::{Prepared, ScorePlan, TrainPlan, Transform},
    stats::Edges,
};
use sudare_arith::prng::Seed;
use sudare_table::{Encoding, Table};

/// A table to be encrypted, and its metadata.
#[derive(Clone)]
pub struct Subject {
    /// The rows to compute with.
    pub table: Table,
    /// The encoding of the columns, if they were not numbers.
    pub encoding: Option<Encoding>,
    /// The held-out rows of a larger table, and how they were chosen.
    pub held_out: Option<(HeldOut, Table)>,
    /// The column that defines groups of rows, for sums by groups.
    pub key: Option<KeyColumn>,
    /// Edges of histogram bins: one entry for all columns, or one for each.
    pub edges: Vec<Edges>,
    /// The name of this owner and the common transform, when several owners train together.
    pub pooled: Option<(String, PooledTransform)>,
}

impl From<Table> for Subject {
    fn from(table: Table) -> Self {
        let edges = vec![Edges::default()];
        Self { table, encoding: None, held_out: None, key: None, edges, pooled: None }
    }
}

/// Encrypts tables for one job.
pub struct Encryption {
    job: Job,
    plan: Arc<Plan>,
    params: Params,
    /// Name of the parameter set.
    name: String,
    encryptor: FileEncryptor,
    /// Seed for the order of rows; random if `None`.
    order: Option<Seed>,
    /// Weights of the classes, for a training that is planned with given weights.
    class_weights: Option<Vec<f64>>,
}

/// Size of an encrypted file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Number of ciphertexts, including the note.
    pub ciphertexts: usize,
    /// Size of the file in bytes.
    pub bytes: u64,
}

impl Encryption {
    /// Plans `job` and encrypts for it under `key`. `name` is the name of the parameter set.
    ///
    /// # Errors
    /// Errors from planning the job; [`Error::Library`] for a key of other parameters, and for a
    /// secret key from before a fork.
    pub fn new(job: Job, params: &Params, name: &str, key: impl Into<Key>) -> Result<Self> {
        Self::planned((job, Arc::new(job.plan(params)?)), params, name, key)
    }

    /// Same as [`Encryption::new`], for a job that is already planned under these parameters.
    ///
    /// # Errors
    /// The errors of [`Encryption::new`], except the errors of planning.
    pub fn planned(
        (job, plan): (Job, Arc<Plan>),
        params: &Params,
        name: &str,
        key: impl Into<Key>,
    ) -> Result<Self> {
        Ok(Self {
            job,
            plan,
            params: params.clone(),
            name: name.into(),
            encryptor: FileEncryptor::new(params, key.into())?,
            order: None,
            class_weights: None,
        })
    }

    /// Shuffles the rows of batches by a seed. Anyone who knows the seed knows the order.
    #[must_use]
    pub fn with_order(self, order: Option<Seed>) -> Self {
        Self { order, ..self }
    }

    /// Sets the weights of the classes, for a training that is planned with given weights and for
    /// no other. With a penalty of `C` their sum over all rows counts; otherwise only their ratios
    /// do.
    #[must_use]
    pub fn with_class_weights(self, class_weights: Option<Vec<f64>>) -> Self {
        Self { class_weights, ..self }
    }

    /// Returns the plan of the job.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Encrypts a table and writes its file. Messages call the file `path`. A training in batches
    /// has a public row order, so its rows are first shuffled into a random order.
    /// Calls `progress` with the number of written ciphertexts of the table, after each.
    ///
    /// # Errors
    /// [`Error::Table`], [`Error::Stats`] and [`Error::Apps`] if the table does not fit the plan;
    /// [`Error::File`].
    pub fn write(
        &self,
        out: &mut (impl Write + ?Sized),
        path: &Path,
        subject: Subject,
        progress: impl Fn(usize) + Send + Sync,
    ) -> Result<Written> {
        // Rows of several owners use the common transform, so they must not be prepared on their
        // own.
        if let (Plan::Train(plan), Some(_)) = (&*self.plan, &subject.pooled) {
            return self.write_pooled(out, path, plan, subject, progress);
        }
        let Subject { table, encoding, held_out, key, edges, .. } = subject;
        let columns = table.columns().to_vec();
        let rows = table.rows();
        let note = |about| Note { columns, rows, about };
        match &*self.plan {
            Plan::Train(plan) if plan.job().spec.tables > 1 => Err(Error::Usage(format!(
                "the keys are for {}: encrypt the table with --transform, as all owners must",
                self.job
            ))),
            Plan::Train(plan) => {
                // A plain encoding says nothing that the columns do not, so the note leaves it out.
                let encoding = encoding.filter(|encoding| !encoding.is_plain());
                let prepared = PreparedTable::new(
                    plan,
                    table,
                    self.class_weights.as_deref(),
                    self.order.as_ref(),
                )?;
                let weights = self.class_weights.clone();
                let trained = prepared.trained(weights, encoding, held_out)?;
                let about = About::Train(Box::new(trained));
                let rows = prepared.rows(plan)?;
                // The last chance to check: the server sees no values.
                plan.check(&rows)?;
                let messages = Messages::new(plan.shapes(), plan.pack(&rows));
                self.write_messages(out, path, messages, Described::table(&note(about)), progress)
            }
            Plan::Predict(_) => Err(unprepared()),
            Plan::Statistics(plan) => {
                let key = key.as_ref();
                let note = note(plan.0.about(&table, key, &edges)?);
                let messages = plan.0.pack(&table, key, &note.about)?;
                self.write_messages(out, path, messages, Described::table(&note), progress)
            }
        }
    }

    /// Encrypts the table of one owner of several. The number of row groups follows from its rows.
    fn write_pooled(
        &self,
        out: &mut (impl Write + ?Sized),
        path: &Path,
        plan: &TrainPlan,
        subject: Subject,
        progress: impl Fn(usize) + Send + Sync,
    ) -> Result<Written> {
        let Subject { mut table, pooled, .. } = subject;
        let Some((owner, common)) = pooled else { return Err(incomplete()) };
        let pooled = common.of_owner(&owner)?;
        // The plan of the training is for exactly this number of tables.
        if pooled.of.len() != plan.job().spec.tables {
            return Err(Error::Usage(format!(
                "the transform is for {} owners, but the keys are for {}: use files made with one \
                 schema",
                pooled.of.len(),
                self.job
            )));
        }
        shuffle(plan, &mut table, self.order.as_ref())?;
        // The tables of several owners have only the groups that their rows need in each batch.
        let plan = plan.for_groups(plan.groups_for(table.rows()))?;
        let weights = common.row_weights().to_vec();
        let transform = common.transform().clone();
        let rows = plan.prepare_with(&table, weights, transform)?;
        let messages = Messages::new(plan.shapes(), plan.pack(&rows));
        let about = About::Train(Box::new(common.trained()?));
        let note = Note { columns: table.columns().to_vec(), rows: common.rows(), about };
        let described = Described { pooled: Some(pooled), ..Described::table(&note) };
        self.write_messages(out, path, messages, described, progress)
    }

    /// Encrypts rows for scoring. They are prepared in the same way as the model's training rows.
    /// Includes their classes if these are known. See [`Encryption::write`] for the arguments.
    ///
    /// # Errors
    /// [`Error::Usage`] for keys of another job, for columns that are not the model's, and if the
    /// preparation of rows is unknown; [`Error::Apps`] for more rows than planned; [`Error::File`].
    pub fn write_rows(
        &self,
        out: &mut (impl Write + ?Sized),
        path: &Path,
        table: &Table,
        inputs: &Inputs,
        progress: impl Fn(usize) + Send + Sync,
    ) -> Result<Written> {
        let plan = self.score_plan()?;
        let transform = inputs.prepares_for(&plan.job().model)?;
        let table = arranged(table, &inputs.columns, &inputs.classes)?;
        let members = table.members().ok();
        // Members are optional: rows to be scored have no known classes in general.
        let members = members.map(|all| all.iter().map(|&m| (m as u16).to_le_bytes()).collect());
        let about = About::Rows {
            prepared: prepared_digest(&inputs.columns, transform)?,
            classes: inputs.classes.clone(),
            members,
            text_labels: inputs.text_labels,
        };
        let note = Note { columns: inputs.columns.clone(), rows: table.rows(), about };
        let Shape { level, scale, .. } = plan.shape();
        let slots = plan.pack(&table, transform)?.map(move |slots| (slots, level, scale));
        let messages = Messages::new(repeat_n(plan.shape(), plan.ciphertexts()), slots);
        self.write_messages(out, path, messages, Described::table(&note), progress)
    }

    /// Encrypts a model for scoring. See [`Encryption::write`] for the arguments.
    ///
    /// # Errors
    /// [`Error::Usage`] for keys of another job, and for a model without the preparation of its
    /// rows; [`Error::Apps`] for a model of another size, or with larger weights than planned;
    /// [`Error::File`].
    pub fn write_model(
        &self,
        out: &mut (impl Write + ?Sized),
        path: &Path,
        model: &Model,
    ) -> Result<Written> {
        let plan = self.score_plan()?;
        let inputs = model.inputs()?;
        let prepares = inputs.prepares_for(&plan.job().model)?;
        let (level, scale) = plan.model();
        let pack = |weights: &Vec<f64>| -> Result<Slots> {
            let weights = inputs.shown.weights_under(weights, prepares)?;
            Ok((plan.pack_model(&weights)?, level, scale))
        };
        let weights: Vec<_> = model.weights.iter().map(pack).collect::<Result<_>>()?;
        let about = About::Model { prepared: prepared_digest(&inputs.columns, prepares)? };
        let note = Note { columns: inputs.columns, rows: model.rows, about };
        let messages = Messages::of(weights);
        let described = Described { content: Content::Model, ..Described::table(&note) };
        self.write_messages(out, path, messages, described, |_| ())
    }

    fn score_plan(&self) -> Result<&ScorePlan> {
        match &*self.plan {
            Plan::Predict(plan) => Ok(plan),
            _ => Err(Error::Usage(format!(
                "the keys are for {}: make keys for scoring with --for predict:ROWSxFEATURES, or \
                 keys for a training with --predict",
                self.job
            ))),
        }
    }

    fn write_messages(
        &self,
        out: &mut (impl Write + ?Sized),
        path: &Path,
        messages: Messages<'_>,
        described: Described<'_>,
        progress: impl Fn(usize),
    ) -> Result<Written> {
        let Described { note, pooled, content } = described;
        let of_table = messages.len();
        let note = note.pack(&self.params)?;
        let meta = Meta { note: note.len() as u32, pooled, ..Meta::of(self.job) };
        let label = meta.label(&self.name, content)?;
        let messages = messages.and(note);
        let ciphertexts = messages.len();
        let progress = |done| {
            // The note is not part of the table, so its ciphertexts do not count as progress.
            if done <= of_table {
                progress(done);
            }
        };
        let params = &self.params;
        let bytes = self.encryptor.write(out, path, &label, params, messages, progress)?;
        Ok(Written { ciphertexts, bytes })
    }
}

/// The content of a file, its note, and the owners of its rows if there are several.
struct Described<'a> {
    note: &'a Note,
    pooled: Option<Pooled>,
    content: Content,
}

impl<'a> Described<'a> {
    /// Describes the table of a single owner.
    fn table(note: &'a Note) -> Self {
        Self { note, pooled: None, content: Content::Table }
    }
}

/// A table in its training order, and its preparation.
pub struct PreparedTable {
    table: Table,
    row_weights: Vec<f64>,
    transform: Transform,
    shown: Transform,
}

impl PreparedTable {
    /// Prepares a table for a plan, then shuffles its rows. The preparation uses the rows in their
    /// original order. A training in batches has a public row order, so its rows are shuffled by
    /// the seed `order`, or by a random one.
    ///
    /// # Errors
    /// [`Error::Table`] and [`Error::Apps`] for a table that does not fit the training;
    /// [`Error::Library`] if the machine has no randomness.
    pub fn new(
        plan: &TrainPlan,
        mut table: Table,
        class_weights: Option<&[f64]>,
        order: Option<&Seed>,
    ) -> Result<Self> {
        table.check_for_training()?;
        // Before the shuffle: `Inputs::of` must find the same digest from the table in its own
        // order.
        let prepared = plan.prepare(&table, class_weights)?;
        let row_weights = prepared.row_weights().to_vec();
        let transform = prepared.transform().clone();
        let shown = Transform::spreading(&table);
        shuffle(plan, &mut table, order)?;
        Ok(Self { table, row_weights, transform, shown })
    }

    /// Returns the prepared rows in training order.
    ///
    /// # Errors
    /// [`Error::Apps`] for another plan.
    pub fn rows(&self, plan: &TrainPlan) -> Result<Prepared<'_>> {
        let weights = self.row_weights.clone();
        let transform = self.transform.clone();
        Ok(plan.prepare_with(&self.table, weights, transform)?)
    }

    /// Returns the metadata that turns trained weights into a model, including the held-out rows.
    ///
    /// # Errors
    /// [`Error::Table`] for held-out rows without classes.
    pub fn trained(
        &self,
        class_weights: Option<Vec<f64>>,
        encoding: Option<Encoding>,
        held_out: Option<(HeldOut, Table)>,
    ) -> Result<Trained> {
        let of_held = |(_, held): &(HeldOut, Table)| Fingerprint::of(held, &self.shown);
        let fingerprints = Fingerprints {
            trained: Fingerprint::of(&self.table, &self.shown)?,
            held_out: held_out.as_ref().map(of_held).transpose()?,
        };
        Ok(Trained {
            target: self.table.target().unwrap_or_default().to_owned(),
            classes: self.table.classes().map(<[_]>::to_vec).unwrap_or_default(),
            transform: self.transform.clone(),
            shown: self.shown.clone(),
            class_weights,
            encoding,
            held_out: held_out.map(|(held_out, _)| held_out),
            fingerprints: Some(fingerprints),
            text_labels: self.table.has_text_labels(),
        })
    }
}

/// Shuffles the rows of a training in batches by a seed, or by a random one. The order of rows in
/// batches is public.
fn shuffle(plan: &TrainPlan, table: &mut Table, order: Option<&Seed>) -> Result<()> {
    // A single batch has all rows in every iteration, so their order reveals nothing.
    if plan.batches().count() > 1 {
        match order {
            Some(seed) => table.shuffle(seed),
            None => table.shuffle(&Seed::random().map_err(sudare::Error::from)?),
        }
    }
    Ok(())
}

/// Returns the error for keys that score rows if no model is given to prepare the rows for.
#[must_use]
pub fn unprepared() -> Error {
    Error::Usage(
        "these keys are for scoring rows, which must be prepared like the model's training rows: \
         pass the model, or the table that it was trained on, with --like"
            .into(),
    )
}
