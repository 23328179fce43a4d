//! What a server does: it holds evaluation keys and an encrypted table.

use crate::{
    artefacts::{Content, Meta, Opened, Plan, Stored},
    error::{Error, Result},
    files::{NewFile, Watch},
    scoring::AnyModel,
};
use std::{
    fs::File,
    io::{BufReader, Read, Seek, Write},
    ops::Range,
    path::Path,
    sync::Arc,
    thread,
};
use sudare::{
    ckks::{
        Ciphertext, Evaluator, Params,
        serial::{self, Label},
    },
    rlwe::{EvaluationKeys, KeyId},
};
use sudare_apps::logreg::ScorePlan;

/// Groups of rows that are in memory at once to be scored.
const GROUPS_AT_ONCE: usize = 8;

/// A server ready to compute with a table in a file.
pub struct Session<R = BufReader<File>> {
    /// Those of keys and table.
    pub params: Params,
    /// What to do with the table.
    pub plan: Plan,
    /// Has the keys.
    pub evaluator: Evaluator,
    /// What the table says of itself.
    pub meta: Meta,
    /// The table.
    pub table: Stored<R>,
    /// The key pair of keys and table.
    pub key: KeyId,
    /// The file that the keys are mapped from, if they are.
    watch: Option<Arc<Watch>>,
    /// Name of the parameters.
    name: String,
}

impl<R: Read + Seek> Session<R> {
    /// With a table and keys, given by their parameters, label and key pair, that must belong to
    /// it; `read` brings the keys themselves, after that is known, and the file that they are
    /// mapped from, if they are.
    ///
    /// # Errors
    /// [`Error::Usage`] for what is no table, or keys for another job; [`Error::File`] for a table
    /// of another key, or a damaged one; what `read` refuses.
    pub fn new(
        table: Opened<R>,
        params: &Params,
        label: &Label,
        key: KeyId,
        read: impl FnOnce() -> Result<(Arc<EvaluationKeys>, Option<Arc<Watch>>)>,
    ) -> Result<Self> {
        let (_, meta) = table.meta(&[Content::Table])?;
        table.expect_key(params.rlwe().id(), key)?;
        let made_for = Meta::read(label).map(|(_, meta)| meta.job);
        if !made_for.is_some_and(|made_for| made_for.serves(&meta.job)) {
            return Err(Error::Usage(format!(
                "{} was encrypted for {}, the keys are for {}: use files of one job",
                table.path().display(),
                meta.job,
                made_for.map_or("programs on arrays".into(), |job| job.to_string())
            )));
        }
        let plan = meta.job.plan(params)?;
        let path = table.path().to_owned();
        let table = table.into_stored(params, meta.note)?;
        let (found, needed) = (table.count(), plan.ciphertexts());
        if found != needed {
            let problem = format!("it has {found} ciphertexts of a table, its job has {needed}");
            let source = sudare::Error::Malformed { what: "file", problem };
            return Err(Error::in_file(&path)(source));
        }
        let (keys, watch) = read()?;
        let evaluator = Evaluator::new(params, keys)?;
        let (params, name) = (params.clone(), label.name.clone());
        Ok(Self { params, plan, evaluator, meta, table, key, watch, name })
    }

    /// Refuses to trust keys whose file was changed while it was mapped: before and after they
    /// are used.
    ///
    /// # Errors
    /// As [`Watch::check`].
    pub fn check_keys(&self) -> Result<()> {
        self.watch.as_ref().map_or(Ok(()), |watch| watch.check())
    }

    /// The statistics that the table was encrypted for. `progress` learns the number of
    /// ciphertexts of the result that are done, of [`Plan::outputs`], from any thread.
    ///
    /// # Errors
    /// [`Error::Usage`] for a table to train on; [`Error::Stats`] for what the evaluator refuses;
    /// as [`Session::check_keys`].
    pub fn statistics(&self, progress: impl Fn(usize) + Send + Sync) -> Result<Vec<Ciphertext>> {
        let (e, table) = (&self.evaluator, || self.table.read(0..self.table.count()));
        self.check_keys()?;
        let result = match &self.plan {
            Plan::Stats(plan) => plan.run(e, &table()?, progress)?,
            Plan::Groups(plan) => plan.run(e, &table()?, progress)?,
            Plan::Histogram(plan) => plan.run(e, &table()?, progress)?,
            Plan::Train(_) | Plan::Predict(_) => {
                return Err(Error::Usage(format!(
                    "the table was encrypted for {}: use `sudare {}`, or make keys with --for \
                     stats:…",
                    self.meta.job,
                    self.plan.command()
                )));
            }
        };
        self.check_keys()?;
        Ok(result)
    }

    /// The scores of all rows by a model. `progress` learns the number of groups of rows done.
    ///
    /// # Errors
    /// [`Error::Apps`] for a model that was not planned for and for what the evaluator refuses;
    /// [`Error::File`] for damaged rows; as [`Session::check_keys`].
    pub fn scores(
        &self,
        plan: &ScorePlan,
        model: &AnyModel,
        progress: impl Fn(usize),
    ) -> Result<Vec<Ciphertext>> {
        let scorer = plan.scorer(&self.evaluator, model.weights())?;
        let mut results = Vec::with_capacity(plan.groups() * plan.outputs());
        for first in (0..plan.groups()).step_by(GROUPS_AT_ONCE) {
            let last = plan.groups().min(first + GROUPS_AT_ONCE);
            let rows = self.table.read(first * plan.group_len()..last * plan.group_len())?;
            self.check_keys()?;
            results.extend(scorer.score(&rows)?);
            progress(last);
        }
        self.check_keys()?;
        Ok(results)
    }

    /// What a model after so many iterations says of itself.
    pub fn meta_after(&self, iterations: u32) -> Meta {
        Meta { iterations, ..self.meta.clone() }
    }

    /// Writes a result with the note of the table; returns its bytes.
    ///
    /// # Errors
    /// As [`Session::write`].
    pub fn write_result(
        &self,
        file: NewFile,
        result: Vec<Ciphertext>,
        meta: &Meta,
        content: Content,
    ) -> Result<u64> {
        self.write(file, &self.with_note(result), meta, content)
    }

    /// Writes ciphertexts as they are; returns the bytes.
    ///
    /// # Errors
    /// [`Error::File`]; [`Error::Io`]; [`Error::Exists`].
    pub fn write(
        &self,
        mut file: NewFile,
        items: &[Ciphertext],
        meta: &Meta,
        content: Content,
    ) -> Result<u64> {
        let path = file.path().to_owned();
        let bytes = self.write_to(&mut file, &path, items, meta, content)?;
        file.finish()?;
        Ok(bytes)
    }

    /// Writes ciphertexts as they are where messages call `path`; returns the bytes.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write_to(
        &self,
        out: &mut impl Write,
        path: &Path,
        items: &[Ciphertext],
        meta: &Meta,
        content: Content,
    ) -> Result<u64> {
        let label = meta.label(&self.name, content)?;
        serial::write_ciphertexts(out, &self.params, items, &label).map_err(Error::in_file(path))
    }

    /// A result and the note of the table.
    pub fn with_note(&self, mut result: Vec<Ciphertext>) -> Vec<Ciphertext> {
        result.extend(self.table.note.iter().cloned());
        result
    }
}

/// The ciphertexts of a batch, of all that a table has.
#[derive(Default)]
pub struct Batch {
    numbers: Range<usize>,
    held: Vec<Ciphertext>,
}

impl Batch {
    /// Holds these and no others.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn bring<R: Read + Seek>(
        &mut self,
        table: &Stored<R>,
        numbers: Range<usize>,
    ) -> Result<&[Ciphertext]> {
        if self.numbers != numbers {
            // What is held goes before others are read.
            *self = Self::default();
            self.held = table.read(numbers.clone())?;
            self.numbers = numbers;
        }
        Ok(&self.held)
    }

    /// Computes with what is held while the next ones are read, and holds those then.
    ///
    /// # Errors
    /// Those of `compute`; [`Error::File`].
    pub fn with_next<R: Read + Seek + Send>(
        &mut self,
        table: &Stored<R>,
        numbers: Range<usize>,
        compute: impl FnOnce(&[Ciphertext]) -> Result<()>,
    ) -> Result<()> {
        if self.numbers == numbers {
            return compute(&self.held);
        }
        let (computed, read) = thread::scope(|scope| {
            let reading = scope.spawn(|| table.read(numbers.clone()));
            (compute(&self.held), reading.join())
        });
        computed?;
        self.held = read.map_err(|_| Error::Bug("reading a batch failed".into()))??;
        self.numbers = numbers;
        Ok(())
    }
}
