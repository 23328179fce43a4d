//! Models of trees: files between the owner of rows and a server with a model.
//!
//! | role | operation |
//! |---|---|
//! | server | plans a model, and sends its [`Setup`] as JSON to the owner |
//! | owner | makes keys for the setup, which the label of each key carries ([`key_label`]) |
//! | owner | encrypts rows block by block ([`Owner::write_rows`]) |
//! | server | computes the scores of each block ([`Server::write_scores`]) |
//! | owner | decrypts them ([`read_scores`]) |
//!
//! The setup has no thresholds and no leaves. Everything is streamed: the memory does not depend on
//! the number of rows.

use crate::{
    clear::model::csv_text,
    error::{Error, Result},
    exact_files,
    key::Key,
    os::files::{self, Access},
    sealed::Passphrase,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    io::{Read, Seek, Write},
    path::{Path, PathBuf},
    sync::Arc,
};
use sudare::{
    exact::{
        Ciphertext, Decryptor, Encryptor, Evaluator, Form, Params, PlainPoly, Spec,
        SymmetricEncryptor,
        serial::{CiphertextWriter, Kind, Label, Reader},
    },
    rlwe::{KeyId, Level, SecretKey, Seeded},
};
use sudare_apps::trees::{Feature, Forest, ForestPlan, Outside, Setup};
use sudare_arith::par;
use sudare_table::{Frame, ReadOptions, Selection};

/// Version of the metadata in labels.
const VERSION: u32 = 1;
/// Maximum number of rows of a file.
const MAX_ROWS: usize = 1 << 30;
/// Ciphertexts that are encrypted at once, each on its own thread.
const AT_ONCE: usize = 8;

/// Maximum size of the file of a model, in bytes.
const MAX_MODEL_BYTES: u64 = 256 << 20;
/// Maximum size of the file of a plan, in bytes.
pub const MAX_PLAN_BYTES: u64 = 16 << 20;

/// Contents of files, in their labels.
const KEYS: &str = "keys of trees";
const ROWS: &str = "rows for trees";
const SCORES: &str = "scores of trees";

/// The facts that a server sends to the owner of rows, as a file of JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planned {
    /// Version of this file.
    pub version: u32,
    /// The grids, the outputs and the link.
    pub setup: Setup,
    /// The parameters of the keys to make.
    pub spec: Spec,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Versioned<M> {
    version: u32,
    meta: M,
}

/// Metadata of rows and of scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowsMeta {
    rows: usize,
}

/// Creates the label of a file.
fn label(content: &str, meta: &impl Serialize) -> Result<Label> {
    let meta = serde_json::to_vec(&Versioned { version: VERSION, meta });
    let meta = meta.map_err(|error| Error::Bug(error.to_string()))?;
    Ok(Label { name: "auto".into(), content: content.into(), meta })
}

/// Creates the label of keys for a setup.
///
/// # Errors
/// [`Error::Bug`] if the setup cannot be encoded.
pub fn key_label(setup: &Setup) -> Result<Label> {
    label(KEYS, setup)
}

fn malformed(problem: String) -> sudare::Error {
    sudare::Error::Malformed { what: "file", problem }
}

/// Reads the metadata in the label of a file with this content.
fn read_meta<R: Read, M: DeserializeOwned>(
    reader: &Reader<R>,
    content: &'static str,
) -> sudare::Result<M> {
    let label = &reader.info().label;
    if label.content != content {
        // A stranger may have written the label, so a message shows only its beginning.
        let found: String = label.content.chars().take(40).collect();
        return Err(malformed(format!("it holds {found:?}, but {content:?} are needed")));
    }
    let meta = serde_json::from_slice::<Versioned<M>>(&label.meta).ok();
    let meta = meta.filter(|meta| meta.version == VERSION).map(|versioned| versioned.meta);
    meta.ok_or_else(|| malformed(format!("its label does not fit {content:?} in this version")))
}

impl Planned {
    /// Describes a plan.
    #[must_use]
    pub fn new(plan: &ForestPlan) -> Self {
        Self { version: VERSION, setup: plan.setup().clone(), spec: plan.params().spec().clone() }
    }

    /// Reads the file of a plan. Messages call it `path`.
    ///
    /// # Errors
    /// [`Error::Parse`] for other content; [`Error::TreesFile`] for an impossible setup.
    pub fn from_json(bytes: &[u8], path: &Path) -> Result<Self> {
        let parse =
            |problem: String| Error::Parse { path: path.into(), what: "plan of trees", problem };
        let planned: Self = serde_json::from_slice(bytes).map_err(|e| parse(e.to_string()))?;
        if planned.version != VERSION {
            let found = planned.version;
            return Err(parse(format!("its version is {found}, but this program reads {VERSION}")));
        }
        planned.setup.check().map_err(Error::in_trees(path))?;
        Ok(planned)
    }

    /// Returns the plan as JSON.
    ///
    /// # Errors
    /// [`Error::Bug`] if it cannot be encoded.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|error| Error::Bug(error.to_string()))
    }

    /// Returns the session of new keys with this identity.
    ///
    /// # Errors
    /// [`Error::Library`] for parameters that are not possible or not secure.
    pub fn params(&self) -> Result<Params> {
        Ok(Params::new(self.spec.clone())?)
    }
}

/// The public facts of a key pair.
#[derive(Debug, Clone)]
pub struct Session {
    /// The setup of the model.
    pub setup: Setup,
    /// The parameters.
    pub params: Params,
    /// The key pair.
    pub key: KeyId,
}

impl Session {
    /// Reads the session that the file of a key is for.
    ///
    /// # Errors
    /// [`sudare::Error::Malformed`] for keys of something else, and for an impossible setup; the
    /// errors of [`Reader::params`].
    pub fn of<R: Read>(reader: &Reader<R>) -> sudare::Result<Self> {
        let setup: Setup = read_meta(reader, KEYS)?;
        setup.check().map_err(|error| malformed(error.to_string()))?;
        Ok(Self { setup, params: reader.params()?, key: reader.info().key_id })
    }

    /// Checks a file of rows or of scores, and returns its number of rows.
    fn rows<R: Read>(&self, reader: &Reader<R>, content: &'static str) -> sudare::Result<usize> {
        let info = reader.info();
        if info.kind != Kind::Ciphertexts {
            let needed = Kind::Ciphertexts;
            return Err(sudare::Error::WrongKind { found: info.kind, needed });
        }
        let RowsMeta { rows } = read_meta(reader, content)?;
        if info.key_id != self.key {
            let what = "file";
            let expected = self.key;
            return Err(sudare::Error::KeyMismatch { what, found: info.key_id, expected });
        }
        match (1..=MAX_ROWS).contains(&rows) {
            true => Ok(rows),
            false => Err(malformed(format!("it has {rows} rows: 1 to {MAX_ROWS} are possible"))),
        }
    }

    fn blocks(&self, rows: usize) -> usize {
        Setup::blocks(rows, &self.params)
    }
}

/// The secret key of a session.
pub struct Secret {
    /// The public facts.
    pub session: Session,
    /// The key.
    pub key: Arc<SecretKey>,
    /// Warning for the owner if others can read the file.
    pub warning: Option<String>,
}

/// Reads the file of a secret key; `passphrase` is called if it is sealed.
///
/// # Errors
/// The errors of [`exact_files::read_secret`] and of [`Session::of`].
pub fn read_secret(path: &Path, passphrase: impl FnOnce() -> Result<Passphrase>) -> Result<Secret> {
    let read = |reader: exact_files::Unsealed<'_>| {
        let session = Session::of(&reader)?;
        let key = reader.secret_key(&session.params)?;
        Ok((session, Arc::new(key)))
    };
    let ((session, key), warning) = exact_files::with_secret(path, passphrase, read)?;
    Ok(Secret { session, key, warning })
}

/// Rows to encrypt: a number for each feature of each row.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// The numbers, row after row.
    pub numbers: &'a [f64],
    /// The treatment of numbers outside the grids.
    pub outside: Outside,
}

/// Encrypts rows.
pub struct Owner {
    session: Session,
    key: Encrypts,
}

enum Encrypts {
    Public(Encryptor),
    Secret(SymmetricEncryptor),
}

enum Fresh {
    Whole(Ciphertext),
    Seeded(Seeded<Ciphertext>),
}

impl Owner {
    /// Creates an owner with either key.
    ///
    /// # Errors
    /// [`Error::Library`] for a key of other parameters.
    pub fn new(session: Session, key: Key) -> Result<Self> {
        let key = match key {
            Key::Public(key) => Encrypts::Public(Encryptor::new(&session.params, key)?),
            Key::Secret(key) => Encrypts::Secret(SymmetricEncryptor::new(&session.params, key)?),
        };
        Ok(Self { session, key })
    }

    /// Returns the public facts.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the number of ciphertexts for this number of rows.
    #[must_use]
    pub fn ciphertexts(&self, rows: usize) -> usize {
        self.session.blocks(rows) * self.session.setup.inputs()
    }

    fn encrypt(&self, plain: &PlainPoly) -> sudare::Result<Fresh> {
        Ok(match &self.key {
            Encrypts::Public(key) => Fresh::Whole(key.encrypt(plain)?),
            Encrypts::Secret(key) => Fresh::Seeded(key.encrypt_seeded(plain)?),
        })
    }

    /// Encrypts rows, writes their file and returns its bytes. Calls `progress` with the number of
    /// written ciphertexts.
    ///
    /// # Errors
    /// [`Error::Usage`] without rows; [`Error::Trees`] for rows that do not fit the setup;
    /// [`Error::Library`] if the file cannot be written.
    pub fn write_rows(
        &self,
        out: &mut (impl Write + ?Sized),
        rows: Rows<'_>,
        mut progress: impl FnMut(usize),
    ) -> Result<u64> {
        let Session { setup, params, key } = &self.session;
        // All rows are checked before the first one is encrypted.
        let codes = setup.codes(rows.numbers, rows.outside)?;
        let width = setup.features.len();
        let count = codes.len() / width;
        if !(1..=MAX_ROWS).contains(&count) {
            return Err(Error::Usage(format!(
                "there are {count} rows: encrypt 1 to {MAX_ROWS} rows at once"
            )));
        }
        let label = label(ROWS, &RowsMeta { rows: count })?;
        let total = self.ciphertexts(count);
        let mut writer: Option<CiphertextWriter<'_, _>> = None;
        let mut out = Some(out);
        let mut done = 0;
        for block in codes.chunks(width * Setup::block_rows(params)) {
            let mut plains = setup.plaintexts(params, block)?;
            loop {
                let some: Vec<PlainPoly> = plains
                    .by_ref()
                    .take(par::threads().min(AT_ONCE))
                    .collect::<core::result::Result<_, _>>()?;
                if some.is_empty() {
                    break;
                }
                for item in par::try_map(some, |plain| self.encrypt(&plain))? {
                    if let Some(out) = out.take() {
                        writer = Some(self.writer(out, &item, total, *key, &label)?);
                    }
                    if let Some(writer) = &mut writer {
                        match &item {
                            Fresh::Whole(item) => writer.write(item)?,
                            Fresh::Seeded(item) => writer.write_seeded(item)?,
                        }
                    }
                    done += 1;
                    progress(done);
                }
            }
        }
        match writer {
            Some(writer) => Ok(writer.finish()?),
            None => Err(Error::Bug("rows had no ciphertexts".into())),
        }
    }

    /// Starts the file of this number of ciphertexts, all of the form of the first one.
    fn writer<'a, W: Write + ?Sized>(
        &self,
        out: &'a mut W,
        first: &Fresh,
        count: usize,
        key: KeyId,
        label: &Label,
    ) -> sudare::Result<CiphertextWriter<'a, W>> {
        let params = &self.session.params;
        match first {
            Fresh::Whole(item) => {
                CiphertextWriter::new(out, params, key, vec![item.form(); count], label)
            }
            Fresh::Seeded(item) => {
                let forms: Vec<Form> = vec![item.ciphertext().form(); count];
                CiphertextWriter::seeded(out, params, key, forms, label)
            }
        }
    }
}

/// A server with a model and the keys of an owner.
pub struct Server {
    session: Session,
    plan: ForestPlan,
    evaluator: Evaluator,
}

impl Server {
    /// Creates a server for a model from a file of evaluation keys. Messages call it `path`.
    ///
    /// # Errors
    /// [`Error::File`] for another file; [`Error::TreesFile`] for keys of another model.
    pub fn new<R: Read>(keys: Reader<R>, path: &Path, forest: &Forest) -> Result<Self> {
        let in_file = Error::in_file(path);
        let session = Session::of(&keys).map_err(&in_file)?;
        let plan = ForestPlan::with_setup(forest, &session.setup, &session.params);
        let plan = plan.map_err(Error::in_trees(path))?;
        let keys = keys.evaluation_keys(&session.params).map_err(&in_file)?;
        let evaluator = Evaluator::new(&session.params, Arc::new(keys))?;
        Ok(Self { session, plan, evaluator })
    }

    /// Returns the plan.
    #[must_use]
    pub fn plan(&self) -> &ForestPlan {
        &self.plan
    }

    /// Computes the scores of the rows in a file, block by block, and writes their file. Returns its
    /// bytes and the number of rows. Calls `progress` with the numbers of finished and of all
    /// blocks. Messages call the rows `path`.
    ///
    /// # Errors
    /// [`Error::File`] for rows of other keys, or that are damaged; [`Error::Library`] if scores
    /// cannot be written.
    pub fn write_scores<R: Read + Seek>(
        &self,
        rows: Reader<R>,
        path: &Path,
        out: &mut (impl Write + ?Sized),
        mut progress: impl FnMut(usize, usize),
    ) -> Result<Scored> {
        let in_file = Error::in_file(path);
        let session = &self.session;
        let count = session.rows(&rows, ROWS).map_err(&in_file)?;
        let mut input = rows.into_ciphertexts(&session.params).map_err(&in_file)?;
        let blocks = session.blocks(count);
        let inputs = session.setup.inputs();
        if input.shapes().len() != blocks * inputs {
            let found = input.shapes().len();
            return Err(in_file(malformed(format!(
                "{count} rows have {blocks} blocks of {inputs} ciphertexts, not {found} ciphertexts"
            ))));
        }
        let outputs = session.setup.outputs.len();
        let label = label(SCORES, &RowsMeta { rows: count })?;
        let mut writer: Option<CiphertextWriter<'_, _>> = None;
        let mut out = Some(out);
        progress(0, blocks);
        for block in 0..blocks {
            let read = |place: usize| -> Result<Ciphertext> {
                let number = block * inputs + place;
                let mut read = input.read(number..number + 1).map_err(&in_file)?;
                read.pop().ok_or_else(|| Error::Bug("no ciphertext was read".into()))
            };
            let scores = self.plan.run(&self.evaluator, read)?;
            if let Some(out) = out.take() {
                let forms: Vec<Form> = scores.iter().map(Ciphertext::form).collect();
                let forms = forms.repeat(blocks);
                let new = CiphertextWriter::new(out, &session.params, session.key, forms, &label);
                writer = Some(new?);
            }
            if let Some(writer) = &mut writer {
                scores.iter().try_for_each(|score| writer.write(score))?;
            }
            progress(block + 1, blocks);
        }
        match writer {
            Some(writer) => Ok(Scored { rows: count, blocks, outputs, bytes: writer.finish()? }),
            None => Err(Error::Bug("rows had no blocks".into())),
        }
    }
}

/// Facts about written scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scored {
    /// Number of rows.
    pub rows: usize,
    /// Number of blocks.
    pub blocks: usize,
    /// Number of raw scores of a row.
    pub outputs: usize,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Decrypts the scores in a file, and returns the predictions: the numbers of each row, one row after
/// the other. Messages call the file `path`.
///
/// # Errors
/// [`Error::File`] for scores of other keys, or that are damaged; [`Error::Trees`].
pub fn read_scores<R: Read + Seek>(
    secret: &Secret,
    scores: Reader<R>,
    path: &Path,
) -> Result<Vec<f64>> {
    let Session { setup, params, .. } = &secret.session;
    let in_file = Error::in_file(path);
    let rows = secret.session.rows(&scores, SCORES).map_err(&in_file)?;
    let mut input = scores.into_ciphertexts(params).map_err(&in_file)?;
    let blocks = secret.session.blocks(rows);
    let outputs = setup.outputs.len();
    if input.shapes().len() != blocks * outputs {
        let found = input.shapes().len();
        return Err(in_file(malformed(format!(
            "{rows} rows have {blocks} blocks of {outputs} scores, not {found} ciphertexts"
        ))));
    }
    let decryptor = Decryptor::new(params, Arc::clone(&secret.key))?;
    let t = params.plaintext_modulus();
    if input.shapes().iter().any(|form| form.factor.modulus() != t || form.level != Level(0)) {
        return Err(in_file(malformed("its scores have another level or modulus".into())));
    }
    let mut predictions = Vec::new();
    for block in 0..blocks {
        let first = block * outputs;
        let read = input.read(first..first + outputs).map_err(&in_file)?;
        let plains = read.iter().map(|score| decryptor.decrypt(score));
        let plains = plains.collect::<sudare::Result<Vec<_>>>().map_err(&in_file)?;
        let left = rows - block * Setup::block_rows(params);
        predictions.extend(setup.predictions(&setup.raw(params, &plains, left)?));
    }
    Ok(predictions)
}

/// Reads the model of trees in a file; see [`Forest::read`].
///
/// # Errors
/// [`Error::Io`]; [`Error::TreesFile`].
pub fn read_forest(path: &Path) -> Result<Forest> {
    let (file, bytes) = files::open(path, Access::Shared)?;
    let io = |error| Error::io("read", path, error);
    // Before memory is allocated.
    if bytes > MAX_MODEL_BYTES {
        return Err(io(std::io::ErrorKind::FileTooLarge.into()));
    }
    let mut content = Vec::new();
    file.take(bytes).read_to_end(&mut content).map_err(io)?;
    Forest::read(&content).map_err(Error::in_trees(path))
}

/// Reads the columns of these features from a CSV or Parquet file: the numbers of each row, one row
/// after the other.
///
/// # Errors
/// [`Error::Table`] and [`Error::TableFile`] for a file without these columns, or with text or missing
/// values in them.
pub fn read_rows(path: &Path, features: &[String]) -> Result<Vec<f64>> {
    let in_table = Error::in_table(path);
    let selection = Selection { columns: Some(features.to_vec()), drop: Vec::new() };
    let options = ReadOptions { selection, ..ReadOptions::default() };
    let frame = Frame::read(path, &options).map_err(&in_table)?;
    frame.expect(features).map_err(&in_table)?;
    let names = frame.columns();
    let places: Vec<usize> = features
        .iter()
        .filter_map(|feature| names.iter().position(|name| name == feature))
        .collect();
    let rows = frame.numbers().chunks_exact(names.len());
    Ok(rows.flat_map(|row| places.iter().map(|&place| row[place])).collect())
}

/// Fits a grid of this number of digits to each feature of rows.
///
/// # Errors
/// [`Error::Trees`]; see [`Feature::fitted`].
pub fn fitted(features: &[String], rows: &[f64], digits: u32) -> Result<Vec<Feature>> {
    let width = features.len();
    let fit = |(place, name): (usize, &String)| {
        let numbers = rows.iter().skip(place).step_by(width).copied();
        Ok(Feature::fitted(name, numbers, digits)?)
    };
    features.iter().enumerate().map(fit).collect()
}

/// Returns the names of the columns of predictions: the classes, if there are any.
#[must_use]
pub fn prediction_names(setup: &Setup) -> Vec<String> {
    if !setup.classes.is_empty() {
        return setup.classes.clone();
    }
    match setup.link.predictions(setup.outputs.len()) {
        1 => vec!["prediction".into()],
        count => (0..count).map(|number| number.to_string()).collect(),
    }
}

/// Returns a table of numbers as the text of a CSV file. Names come from a model that others made,
/// so spreadsheets must not read them as formulas.
///
/// # Errors
/// See [`csv_text`].
pub fn csv(columns: &[String], rows: &[Vec<f64>]) -> Result<String> {
    csv_text(columns, rows.iter().map(|row| row.iter().map(f64::to_string).collect()))
}

/// The paths of the secret, the public and the evaluation key in a directory.
#[must_use]
pub fn key_paths(folder: &Path) -> [PathBuf; 3] {
    ["secret.key", "public.key", "evaluation.key"].map(|name| folder.join(name))
}

#[cfg(test)]
mod tests;
