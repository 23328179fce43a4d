//! The server's side: evaluation keys and encrypted tables.

use crate::{
    error::{Error, Result},
    format::{
        label::{Content, Meta, Origin},
        opened::{self, Opened, Stored},
    },
    job::Plan,
    os::files::{NewFile, Watch},
    plan::price::GROUPS_AT_ONCE,
    pooled,
};
use std::{
    fs::File,
    io::{BufReader, Read, Seek, Write},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};
use sudare::{
    ckks::{
        Ciphertext, Evaluator, Params,
        serial::{self, Kind, Label},
    },
    rlwe::{EvaluationKeys, KeyId},
};
use sudare_apps::{
    TablePlan,
    logreg::{ScorePlan, TrainPlan, Weights},
};

/// A server that is ready to compute on tables in files.
pub struct Session<R = BufReader<File>> {
    /// Parameters of keys and tables.
    pub params: Params,
    /// The plan for the tables.
    pub plan: Plan,
    /// The evaluator with the keys.
    pub evaluator: Arc<Evaluator>,
    /// Metadata of the table, or joint metadata of several tables.
    pub meta: Meta,
    /// One table, or several tables of one training.
    pub tables: Tables<R>,
    /// The key pair of keys and tables.
    pub key: KeyId,
    /// Origin of the results.
    pub origin: Origin,
    /// Watches the file of mapped keys.
    watch: Option<Arc<Watch>>,
    /// Name of the parameter set.
    name: String,
}

/// Tables that match evaluation keys, and their plan. Only the header of the keys is known.
pub struct Matched<R = BufReader<File>> {
    /// The plan for the tables.
    pub plan: Plan,
    /// Metadata of the table, or joint metadata of several tables.
    pub meta: Meta,
    tables: Tables<R>,
}

impl<R: Read + Seek> Matched<R> {
    /// Matches tables with evaluation keys, given by their parameters, label and key pair.
    ///
    /// # Errors
    /// [`Error::Usage`] for other files, or keys for another job; [`Error::Pooled`] for tables that
    /// do not fit together; [`Error::File`] for a table of another key, or a damaged one.
    pub fn new(tables: Vec<Opened<R>>, params: &Params, label: &Label, key: KeyId) -> Result<Self> {
        let mut all = Vec::with_capacity(tables.len());
        for table in tables {
            let (_, meta) = table.meta(&[Content::Table])?;
            // Before the tables are read: rows under another key would give random results.
            table.expect_key(params.rlwe().id(), key)?;
            expect_made_for(table.path(), &meta, label)?;
            all.push((table, meta));
        }
        let meta = pooled::together(&mut all)?;
        let plan = meta.job.plan(params)?;
        let tables = all.into_iter().map(|(table, meta)| table.into_stored(params, meta.note));
        let (tables, plan) = Tables::new(tables.collect::<Result<_>>()?, plan)?;
        Ok(Self { plan, meta, tables })
    }
}

/// Input files of a computation.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    /// Evaluation keys.
    pub evaluation_key: PathBuf,
    /// Encrypted tables.
    pub tables: Vec<PathBuf>,
    /// Maps the keys instead of reading them into memory.
    pub map_keys: bool,
    /// Computes half of each key at each use.
    pub small_keys: bool,
}

impl Session {
    /// Opens the files of keys and tables, which must belong together.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::FileChanged`] for keys that change while they are mapped; the errors
    /// of [`Session::new`].
    pub fn open(inputs: &Inputs) -> Result<Self> {
        let path = &inputs.evaluation_key;
        if inputs.map_keys {
            let (keys, watch) = Opened::mapped(path)?;
            Self::with_keys(inputs, (keys, opened::digest(path)?), Some(watch))
        } else {
            Self::with_keys(inputs, Opened::digested(path, Kind::EvaluationKeys)?, None)
        }
    }

    fn with_keys<K: Read>(
        inputs: &Inputs,
        (keys, digest): (Opened<K>, [u8; 32]),
        watch: Option<Arc<Watch>>,
    ) -> Result<Self> {
        keys.meta(&[Content::Keys])?;
        // All headers come before the parameters, which take time and memory.
        let tables = inputs.tables.iter().map(|path| Opened::digested(path, Kind::Ciphertexts));
        let (tables, digests) = tables.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let origin = Origin::new(digest, digests);
        let params = keys.params()?;
        let key = keys.info().key_id;
        let label = keys.info().label.clone();
        let read = || Ok((Arc::new(keys.evaluation_keys(&params, inputs.small_keys)?), watch));
        Self::new(tables, &params, &label, key, origin, read)
    }
}

impl<R: Read + Seek> Session<R> {
    /// Matches tables with evaluation keys, given by their parameters, label and key pair, then
    /// reads the keys. `origin` has the digests of all files. `read` returns the keys, and a watch
    /// of their file if they are mapped. It is called only for matching tables.
    ///
    /// # Errors
    /// The errors of [`Matched::new`] and of `read`.
    pub fn new(
        tables: Vec<Opened<R>>,
        params: &Params,
        label: &Label,
        key: KeyId,
        origin: Origin,
        read: impl FnOnce() -> Result<(Arc<EvaluationKeys>, Option<Arc<Watch>>)>,
    ) -> Result<Self> {
        let Matched { plan, meta, tables } = Matched::new(tables, params, label, key)?;
        let (keys, watch) = read()?;
        let evaluator = Arc::new(Evaluator::new(params, keys)?);
        let params = params.clone();
        let name = label.name.clone();
        Ok(Self { params, plan, evaluator, meta, tables, key, origin, watch, name })
    }

    /// Refuses keys whose file was changed while it was mapped. Call this before and after the keys
    /// are used.
    ///
    /// # Errors
    /// The errors of [`Watch::check`].
    pub fn check_keys(&self) -> Result<()> {
        self.watch.as_ref().map_or(Ok(()), |watch| watch.check())
    }

    /// The statistics that the table was encrypted for. `progress` learns the number of
    /// ciphertexts of the result that are done, of [`TablePlan::outputs`], from any thread.
    ///
    /// # Errors
    /// [`Error::Usage`] for a table to train on; [`Error::Stats`] from the evaluator; the errors of
    /// [`Session::check_keys`].
    pub fn statistics(&self, progress: impl Fn(usize) + Send + Sync) -> Result<Vec<Ciphertext>> {
        let Plan::Statistics(plan) = &self.plan else {
            return Err(Error::Usage(format!(
                "the table was encrypted for {}: use `sudare {}`, or make keys with --for stats:…",
                self.meta.job,
                self.plan.command()
            )));
        };
        self.check_keys()?;
        let table = self.tables.read(0..self.tables.rows())?;
        let result = plan.0.compute(&self.evaluator, &table, &progress)?;
        // Keys that changed during the computation may have spoilt the result.
        self.check_keys()?;
        Ok(result)
    }

    /// Computes the scores of all rows by a model. Calls `progress` with the number of finished row
    /// groups.
    ///
    /// # Errors
    /// [`Error::Apps`] for an unplanned model and from the evaluator; [`Error::File`] for damaged
    /// rows; the errors of [`Session::check_keys`].
    pub fn scores(
        &self,
        plan: &ScorePlan,
        weights: Weights<'_, Ciphertext>,
        progress: impl Fn(usize),
    ) -> Result<Vec<Ciphertext>> {
        let scorer = plan.scorer(&*self.evaluator, weights)?;
        let mut results = Vec::with_capacity(plan.groups() * plan.outputs());
        for first in (0..plan.groups()).step_by(GROUPS_AT_ONCE) {
            let last = plan.groups().min(first + GROUPS_AT_ONCE);
            let rows = self.tables.read(first * plan.group_len()..last * plan.group_len())?;
            // Before each group and not only at the end, so that spoilt keys stop a long job early.
            self.check_keys()?;
            results.extend(scorer.score(&rows)?);
            progress(last);
        }
        self.check_keys()?;
        Ok(results)
    }

    /// Returns the metadata of a result.
    pub fn meta_of_result(&self) -> Meta {
        Meta { origin: Some(self.origin.clone()), ..self.meta.clone() }
    }

    /// Writes a result with the note of the table, and returns its bytes.
    ///
    /// # Errors
    /// The errors of [`Session::write`].
    pub fn write_result(
        &self,
        file: NewFile,
        result: Vec<Ciphertext>,
        meta: &Meta,
        content: Content,
    ) -> Result<u64> {
        self.write(file, &self.with_note(result), meta, content)
    }

    /// Writes ciphertexts without a note, and returns the bytes written.
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

    /// Writes ciphertexts without a note to `out`, and returns the bytes written. Messages call the
    /// file `path`.
    ///
    /// # Errors
    /// [`Error::File`]; the errors of [`Session::check_keys`], since changed keys may have spoilt
    /// the ciphertexts.
    pub fn write_to(
        &self,
        out: &mut impl Write,
        path: &Path,
        items: &[Ciphertext],
        meta: &Meta,
        content: Content,
    ) -> Result<u64> {
        self.check_keys()?;
        let label = meta.label(&self.name, content)?;
        serial::write_ciphertexts(out, &self.params, items, &label).map_err(Error::in_file(path))
    }

    /// Appends the note of the first table to a result.
    pub fn with_note(&self, mut result: Vec<Ciphertext>) -> Vec<Ciphertext> {
        result.extend(self.tables.note().iter().cloned());
        result
    }
}

/// Refuses a table that was encrypted for a job other than the job of the keys.
fn expect_made_for(path: &Path, table: &Meta, keys: &Label) -> Result<()> {
    let made_for = Meta::read(keys).map(|(_, meta)| meta.job);
    if made_for.is_some_and(|made_for| made_for.serves(&table.job)) {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{} was encrypted for {}, but the keys are for {}: use files of one job",
        path.display(),
        table.job,
        made_for.map_or("programs on arrays".into(), |job| job.to_string())
    )))
}

/// The ciphertexts of encrypted tables, in their files.
///
/// The ciphertexts of rows are numbered batch after batch and, within a batch, table after table.
pub struct Tables<R = BufReader<File>> {
    all: Vec<OfTable<R>>,
    /// Number of ciphertexts of rows.
    rows: usize,
}

struct OfTable<R> {
    stored: Stored<R>,
    /// Number of ciphertexts of rows in a batch.
    of_batch: usize,
}

impl<R: Read + Seek> Tables<R> {
    /// Checks the number of ciphertexts in each table against the plan. Returns the tables, and the
    /// plan for their total number of row groups.
    fn new(stored: Vec<Stored<R>>, plan: Plan) -> Result<(Self, Plan)> {
        let Plan::Train(plan) = plan else {
            let mut all = Vec::with_capacity(stored.len());
            for stored in stored {
                let found = stored.count();
                let needed = plan.ciphertexts();
                // A table has the number of ciphertexts in the plan, whatever its number of rows.
                if found != needed {
                    let problem =
                        format!("it has {found} ciphertexts of a table, but its job has {needed}");
                    return Err(stored.malformed(problem));
                }
                all.push(OfTable { stored, of_batch: needed });
            }
            let rows = plan.ciphertexts();
            return Ok((Self { all, rows }, plan));
        };
        let group_len = plan.group_len();
        let mut all = Vec::with_capacity(stored.len());
        for stored in stored {
            let groups = plan.groups_of(stored.count());
            let groups = groups.map_err(|error| stored.malformed(error.to_string()))?;
            all.push(OfTable { stored, of_batch: groups * group_len });
        }
        let of_batch: usize = all.iter().map(|table| table.of_batch).sum();
        // Tables of several owners may have fewer groups together than the keys are for.
        let plan = plan.for_groups(of_batch / group_len)?;
        let rows = plan.row_ciphertexts();
        Ok((Self { all, rows }, Plan::Train(Box::new(plan))))
    }

    /// Returns the number of ciphertexts of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the note of the first table.
    #[must_use]
    pub fn note(&self) -> &[Ciphertext] {
        self.all.first().map_or(&[], |table| &table.stored.note)
    }

    /// Reads the ciphertexts of rows with these numbers.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn read(&self, numbers: Range<usize>) -> Result<Vec<Ciphertext>> {
        // A single table needs no splitting, and its numbers are the numbers in the file.
        if let [table] = &self.all[..] {
            return table.stored.read(numbers);
        }
        let mut items = Vec::with_capacity(numbers.len());
        let of_batch: Vec<usize> = self.all.iter().map(|table| table.of_batch).collect();
        for (table, part) in parts(&of_batch, numbers) {
            items.extend(self.all[table].stored.read(part)?);
        }
        Ok(items)
    }

    /// Reads the sums of the rows of each table of a training.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn sums(&self, plan: &TrainPlan) -> Result<Vec<Vec<Ciphertext>>> {
        let sums = |table: &OfTable<R>| {
            let count = table.stored.count();
            // The sums follow the rows, whose number differs from table to table.
            table.stored.read(count - plan.sum_ciphertexts()..count)
        };
        self.all.iter().map(sums).collect()
    }
}

/// Locates the ciphertexts of rows with these numbers: returns pairs of a table and a range within
/// it. `of_batch` has the number of ciphertexts of each table in a batch.
fn parts(of_batch: &[usize], numbers: Range<usize>) -> Vec<(usize, Range<usize>)> {
    let all: usize = of_batch.iter().sum();
    let mut parts = Vec::new();
    for batch in numbers.start / all..numbers.end.div_ceil(all) {
        let mut start = batch * all;
        for (table, count) in of_batch.iter().enumerate() {
            let first = numbers.start.max(start);
            let last = numbers.end.min(start + count);
            if first < last {
                let own = batch * count;
                parts.push((table, own + first - start..own + last - start));
            }
            start += count;
        }
    }
    parts
}

/// The ciphertexts of some rows, held in memory.
#[derive(Default)]
pub struct Share {
    numbers: Range<usize>,
    held: Vec<Ciphertext>,
}

impl Share {
    /// Holds the ciphertexts with these numbers and no others.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn load<R: Read + Seek>(
        &mut self,
        tables: &Tables<R>,
        numbers: Range<usize>,
    ) -> Result<()> {
        if self.numbers != numbers {
            // Frees the held ciphertexts before it reads others.
            *self = Self::default();
            self.held = tables.read(numbers.clone())?;
            self.numbers = numbers;
        }
        Ok(())
    }

    /// Computes with the held ciphertexts while it reads the next ones, then holds these.
    ///
    /// # Errors
    /// Errors from `compute`; [`Error::File`].
    pub fn with_next<T, R: Read + Seek + Send>(
        &mut self,
        tables: &Tables<R>,
        numbers: Range<usize>,
        compute: impl FnOnce(&[Ciphertext]) -> Result<T>,
    ) -> Result<T> {
        // Nothing to read: the share that is held is the next one as well.
        if self.numbers == numbers {
            return compute(&self.held);
        }
        let (computed, read) = thread::scope(|scope| {
            let reading = scope.spawn(|| tables.read(numbers.clone()));
            (compute(&self.held), reading.join())
        });
        // An error of the computation counts first, since the rows read for it are of no use then.
        let computed = computed?;
        self.held = read.map_err(|_| Error::Bug("reading rows failed".into()))??;
        self.numbers = numbers;
        Ok(computed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batch after batch and, within a batch, table after table, each ciphertext once.
    #[test]
    fn rows_of_several_tables_are_numbered_through() {
        assert_eq!(parts(&[2, 3], 0..5), [(0, 0..2), (1, 0..3)]);
        assert_eq!(parts(&[2, 3], 1..8), [(0, 1..2), (1, 0..3), (0, 2..4), (1, 3..4)]);
        assert_eq!(parts(&[2, 3], 12..13), [(1, 6..7)]);
        assert_eq!(parts(&[4], 3..9), [(0, 3..4), (0, 4..8), (0, 8..9)]);
        assert_eq!(parts(&[1, 1], 3..3), []);
        let all = |at: usize| parts(&[2, 1, 3], at..at + 1);
        let mut places: Vec<_> = (0..30).flat_map(all).collect();
        places.sort_by_key(|(table, range)| (*table, range.start));
        let counts = [10, 5, 15].into_iter().enumerate();
        let expected = counts.flat_map(|(table, n)| (0..n).map(move |i| (table, i..i + 1)));
        assert_eq!(places, expected.collect::<Vec<_>>());
    }
}
