//! Keys, encryption and decryption.

use crate::shown::Shown;
use serde::Serialize;
use std::{io::Write, path::Path, sync::Arc};
use sudare::{
    ckks::{
        Decryptor, Params,
        serial::{self, Label},
    },
    rlwe::KeyGenerator,
};
use sudare_apps::{ciphertext_bytes, logreg::TrainSpec};
use sudare_roles::{
    clear::{decrypted::Decrypted, model::Model},
    error::{Error, Result},
    format::{
        label::{Content, Meta},
        opened::Opened,
    },
    job::{Job, Plan},
    owner::{
        encryption::{Encryption, Subject},
        secret::{self, SecretFile},
    },
    plan::security,
    sealed::Passphrase,
};
use sudare_table::Table;

/// The name of parameters that are selected for a job.
const PARAMS: &str = "auto";
/// Names of files in messages.
const SECRET: &str = "secret.key";
const EVALUATION: &str = "evaluation.key";
const TABLE: &str = "the encrypted table";
const MODEL: &str = "the encrypted model";
const RESULT: &str = "the result";

/// A table and the plan of its job, before keys are made.
pub struct Owner {
    job: Job,
    plan: Arc<Plan>,
    params: Params,
    label: Label,
    data: Data,
    /// Makes evaluation keys once the secret key is drawn.
    generator: Option<KeyGenerator>,
}

/// The data that an owner encrypts.
pub(crate) enum Data {
    /// A table to compute with.
    Table(Box<Subject>),
    /// Rows to score by a model.
    Rows {
        table: Table,
        model: Box<Model>,
        /// Columns of the file that the model does not have.
        unused: Vec<String>,
    },
}

impl Data {
    fn table(&self) -> &Table {
        match self {
            Self::Table(subject) => &subject.table,
            Self::Rows { table, .. } => table,
        }
    }
}

/// Summary of a plan, for the user's consent.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Description of the job, as in every file.
    pub job: String,
    /// Name of the job on the command line.
    pub named: String,
    /// Number of rows in the computation.
    pub rows: usize,
    /// Number of rows that are left out because of missing values.
    pub dropped: usize,
    /// Number of columns after encoding, without the target and the column that defines groups.
    pub features: usize,
    /// Number of groups of rows, for statistics by groups.
    pub groups: Option<usize>,
    /// Further facts about a training.
    pub training: Option<Training>,
    /// Further facts about scores.
    pub scoring: Option<Scoring>,
    /// Number of bootstrappings.
    pub bootstraps: u32,
    /// `log2` of the dimension of the ring.
    pub log_n: u32,
    /// Security of the weakest key in bits.
    pub security_bits: f64,
    /// Number of evaluation keys.
    pub keys: usize,
    /// Bytes of the file of evaluation keys.
    pub key_bytes: u64,
    /// Number of ciphertexts of the encrypted table, without its note.
    pub ciphertexts: usize,
    /// Bytes of the encrypted table in memory. Its file is smaller.
    pub table_bytes: u64,
    /// Approximate run time in seconds on one thread of a server.
    pub seconds: f64,
}

/// Facts about a planned training.
#[derive(Debug, Serialize)]
pub struct Training {
    /// Number of classes of the target.
    pub classes: usize,
    /// Number of iterations.
    pub iterations: u32,
    /// Bound of the sigmoid's approximation. No other number that the server learns depends on
    /// values of the table.
    pub sigmoid_range: f64,
}

/// Facts about planned scores.
#[derive(Debug, Serialize)]
pub struct Scoring {
    /// Number of classes of the model.
    pub classes: usize,
    /// Columns of the file that the model does not have.
    pub unused: Vec<String>,
}

/// Size and digest of a written file.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Written {
    /// Size in bytes.
    pub bytes: u64,
    /// BLAKE3 digest in hexadecimal.
    pub digest: String,
}

/// The holder of a secret key.
pub struct Holder {
    params: Params,
    decryptor: Decryptor,
}

impl Owner {
    pub(crate) fn new(job: Job, data: Data) -> Result<Self> {
        let params = job.auto_params()?;
        let plan = Arc::new(job.plan(&params)?);
        let label = Meta::of(job).label(PARAMS, Content::Keys)?;
        Ok(Self { job, plan, params, label, data, generator: None })
    }

    /// Returns the summary of the plan.
    ///
    /// # Errors
    /// [`Error::Apps`] and [`Error::Stats`] if the job cannot be simulated.
    pub fn summary(&self) -> Result<Summary> {
        let request = self.plan.required_keys();
        let label = &self.label;
        let table = self.data.table();
        let training = |spec: &TrainSpec| Training {
            classes: spec.classes as usize,
            iterations: spec.iterations,
            sigmoid_range: spec.sigmoid.range,
        };
        let scoring = match &self.data {
            Data::Table(_) => None,
            Data::Rows { model, unused, .. } => {
                Some(Scoring { classes: model.classes.len(), unused: unused.clone() })
            }
        };
        let table_bytes = self.plan.table_bytes().saturating_add(self.model_bytes());
        let key_bytes = serial::evaluation_keys_bytes(&self.params, request, label)?;
        let keys = security::key_security(&self.params, request)?;
        Ok(Summary {
            job: self.job.to_string(),
            named: self.job.named(table.rows(), table.features())?,
            rows: table.rows(),
            dropped: table.dropped(),
            features: table.features(),
            groups: self.job.required_inputs().groups,
            training: self.job.training().map(training),
            scoring,
            bootstraps: self.plan.bootstraps(),
            log_n: self.params.log_n(),
            security_bits: security::least_security(&keys),
            keys: request.count(),
            key_bytes,
            ciphertexts: self.plan.ciphertexts(),
            // Secret-key encryption stores seeds in place of one half.
            table_bytes: table_bytes / 2,
            seconds: self.plan.price(1)?.seconds(1),
        })
    }

    /// Returns the bytes in memory of the encrypted model that scores rows, if there is one.
    fn model_bytes(&self) -> u64 {
        match (&*self.plan, &self.data) {
            (Plan::Predict(plan), Data::Rows { model, .. }) => {
                let (level, _) = plan.model();
                ciphertext_bytes(&self.params, level).saturating_mul(model.weights.len() as u64)
            }
            _ => 0,
        }
    }

    /// Draws a secret key. Its holder encrypts and decrypts.
    ///
    /// # Errors
    /// [`Error::Library`] if the browser has no randomness.
    pub fn draw(&mut self) -> Result<Holder> {
        // Keys are only written here, and their file has seeds in place of the uniform halves.
        let mut generator = KeyGenerator::new(self.params.rlwe())?.small_keys(true);
        let key = generator.secret_key()?;
        self.generator = Some(generator);
        let decryptor = Decryptor::new(&self.params, key)?;
        Ok(Holder { params: self.params.clone(), decryptor })
    }

    /// Makes the evaluation keys of the last drawn secret key, and writes them to `out`. Calls
    /// `progress` with the number of finished keys.
    ///
    /// # Errors
    /// [`Error::Usage`] before a key is drawn; [`Error::File`] for errors from `out`.
    pub fn make_keys(
        &mut self,
        holder: &Holder,
        out: impl Write,
        progress: impl FnMut(usize),
    ) -> Result<Written> {
        let params = &self.params;
        let label = &self.label;
        let generator = self.generator.as_mut().ok_or_else(undrawn)?;
        let mut out = Digesting::new(out);
        let pair = (generator, holder.decryptor.key().as_ref());
        let request = self.plan.required_keys();
        serial::generate_evaluation_keys(&mut out, params, pair, request, label, progress)
            .map_err(Error::in_file(Path::new(EVALUATION)))?;
        out.finish(EVALUATION)
    }

    /// Returns the file of a drawn secret key, sealed by a passphrase.
    ///
    /// # Errors
    /// [`Error::Seal`]; [`Error::File`] for a key of other parameters.
    pub fn seal(&self, holder: &Holder, passphrase: &Passphrase) -> Result<Vec<u8>> {
        let mut sealed = Vec::new();
        let key = holder.decryptor.key();
        let path = Path::new(SECRET);
        // Never in clear: the browser's storage holds this file.
        secret::write(&mut sealed, path, &self.params, key, &self.label, Some(passphrase))?;
        Ok(sealed)
    }

    /// Encrypts the table to `out`. Calls `progress` with the number of finished ciphertexts of the
    /// table, from any thread.
    ///
    /// # Errors
    /// The errors of [`Encryption::write`] and [`Encryption::write_rows`].
    pub fn encrypt(
        &self,
        holder: &Holder,
        out: impl Write,
        progress: impl Fn(usize) + Send + Sync,
    ) -> Result<Written> {
        let encryption = self.encryption(holder)?;
        let mut out = Digesting::new(out);
        let path = Path::new(TABLE);
        match &self.data {
            Data::Table(subject) => {
                encryption.write(&mut out, path, (**subject).clone(), progress)?;
            }
            Data::Rows { table, model, .. } => {
                encryption.write_rows(&mut out, path, table, &model.inputs()?, progress)?;
            }
        }
        out.finish(TABLE)
    }

    /// Encrypts the model that scores the rows to `out`. Returns `None` for other jobs.
    ///
    /// # Errors
    /// The errors of [`Encryption::write_model`].
    pub fn encrypt_model(&self, holder: &Holder, out: impl Write) -> Result<Option<Written>> {
        let Data::Rows { model, .. } = &self.data else { return Ok(None) };
        let mut out = Digesting::new(out);
        self.encryption(holder)?.write_model(&mut out, Path::new(MODEL), model)?;
        out.finish(MODEL).map(Some)
    }

    fn encryption(&self, holder: &Holder) -> Result<Encryption> {
        let plan = (self.job, Arc::clone(&self.plan));
        // The owner's own key: its ciphertexts need half the bytes and have smaller errors.
        let key = Arc::clone(holder.decryptor.key());
        Encryption::planned(plan, &self.params, PARAMS, key)
    }
}

impl Holder {
    /// Opens the sealed file of a secret key.
    ///
    /// # Errors
    /// [`Error::Seal`]; [`Error::File`].
    pub fn unseal(sealed: Vec<u8>, passphrase: Passphrase) -> Result<Self> {
        let file = SecretFile::from_sealed(sealed, Path::new(SECRET))?;
        let params = file.opened().params()?;
        let key = file.key(&params, || Ok(passphrase))?;
        Ok(Self { decryptor: Decryptor::new(&params, key)?, params })
    }

    /// Decrypts the result of a job, which must have this digest.
    ///
    /// # Errors
    /// [`Error::OtherFile`] for another digest; the errors of [`Decrypted::read`].
    pub fn decrypt(&self, result: &[u8], digest: &str) -> Result<Shown> {
        // A server may send another file than the result of the job.
        let found = blake3::hash(result).to_string();
        if found != digest {
            let expected = digest.into();
            return Err(Error::OtherFile { path: RESULT.into(), found, expected });
        }
        let opened = Opened::new(result, result.len() as u64, Path::new(RESULT))?;
        // The page shows results to the owner of the key alone, so nothing is released.
        Shown::new(Decrypted::read(opened, &self.params, &self.decryptor, None)?)
    }
}

fn undrawn() -> Error {
    Error::Usage("there is no key yet: draw one".into())
}

/// Forwards bytes and computes their digest.
struct Digesting<W> {
    out: W,
    hasher: blake3::Hasher,
}

impl<W: Write> Digesting<W> {
    fn new(out: W) -> Self {
        Self { out, hasher: blake3::Hasher::new() }
    }

    fn finish(mut self, name: &str) -> Result<Written> {
        // Before the digest is returned, because a file that is not whole must not be sent under
        // it.
        self.out.flush().map_err(|error| Error::io("write", Path::new(name), error))?;
        let bytes = self.hasher.count();
        Ok(Written { bytes, digest: self.hasher.finalize().to_string() })
    }
}

impl<W: Write> Write for Digesting<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.out.write(bytes)?;
        // Only the bytes that were accepted: the caller passes the rest again.
        self.hasher.update(bytes.get(..count).unwrap_or_default());
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
