//! What the commands of the server share: it holds evaluation keys and ciphertexts.

use crate::{
    artefacts::{self, Content, Meta, Opened, Plan, Stored},
    error::{Error, Result},
    files::{self, Access, NewFile},
};
use std::{io::Read, path::PathBuf, sync::Arc};
use sudare::ckks::{Ciphertext, Evaluator, Params, serial::Kind};

/// Files that a computation reads and writes.
#[derive(Debug, clap::Args)]
pub struct Files {
    /// Evaluation key
    #[arg(long, value_name = "FILE")]
    pub evaluation_key: PathBuf,
    /// Encrypted table
    #[arg(short, long, value_name = "FILE")]
    pub input: PathBuf,
    /// Encrypted result
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Leave the evaluation key in its file, which must not change meanwhile, and read it there
    #[arg(long)]
    pub map_keys: bool,
    /// Keep half of the evaluation key and compute the other when it is needed: half the memory
    /// for a fifth more time
    #[arg(long)]
    pub small_keys: bool,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
}

/// A server ready to compute.
pub struct Session {
    pub params: Params,
    pub plan: Plan,
    pub evaluator: Evaluator,
    pub meta: Meta,
    pub table: Stored,
    /// Name of the parameters.
    name: String,
}

impl Session {
    /// Reads keys and table, which must belong together, and begins the file of the result, so
    /// that no work is done that cannot be written.
    pub fn open(files: &Files) -> Result<(Self, NewFile)> {
        files::check_free(&files.output, files.force)?;
        if files.map_keys {
            Self::with(files, Opened::mapped(&files.evaluation_key)?)
        } else {
            Self::with(files, Opened::open(&files.evaluation_key, Kind::EvaluationKeys)?)
        }
    }

    fn with<R: Read>(files: &Files, keys: Opened<R>) -> Result<(Self, NewFile)> {
        let (_, made_for) = keys.meta(&[Content::Keys])?;
        let table = Opened::open(&files.input, Kind::Ciphertexts)?;
        let (_, meta) = table.meta(&[Content::Table])?;
        table.expect_same_key(&keys)?;
        if made_for.job != meta.job {
            return Err(Error::Usage(format!(
                "{} was encrypted for {}, the keys of {} are for {}: use files of one job",
                files.input.display(),
                meta.job,
                files.evaluation_key.display(),
                made_for.job
            )));
        }
        let name = keys.info().label.name.clone();
        let params = keys.params()?;
        let plan = meta.job.plan(&params)?;
        let output = NewFile::create(&files.output, Access::Shared, files.force)?;
        let table = table.into_stored(&params, meta.note)?;
        let (found, needed) = (table.count(), plan.ciphertexts());
        if found != needed {
            let problem = format!("it has {found} ciphertexts of a table, its job has {needed}");
            let source = sudare::Error::Malformed { what: "file", problem };
            return Err(Error::in_file(&files.input)(source));
        }
        let keys = keys.evaluation_keys(&params, files.small_keys)?;
        let evaluator = Evaluator::new(&params, Arc::new(keys))?;
        Ok((Self { params, plan, evaluator, meta, table, name }, output))
    }

    /// What a model after so many iterations says of itself.
    pub fn meta_after(&self, iterations: u32) -> Meta {
        Meta { iterations, ..self.meta.clone() }
    }

    /// Writes a result with the note of the table; returns its bytes.
    pub fn write_result(
        &self,
        file: NewFile,
        mut result: Vec<Ciphertext>,
        meta: &Meta,
        content: Content,
    ) -> Result<u64> {
        result.extend(self.table.note.iter().cloned());
        self.write(file, &result, meta, content)
    }

    /// Writes ciphertexts as they are; returns the bytes.
    pub fn write(
        &self,
        file: NewFile,
        items: &[Ciphertext],
        meta: &Meta,
        content: Content,
    ) -> Result<u64> {
        let label = meta.label(&self.name, content)?;
        artefacts::write_ciphertexts(file, &self.params, items, &label)
    }
}
