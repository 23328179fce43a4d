//! Fetch by similarity: the payloads or the number of the records near a query, all encrypted.
//!
//! | step | leaves |
//! |---|---|
//! | `client_key_generation` | `keys/evaluation.key`; `secret/secret.key` |
//! | `client_encode_encrypt_db` | `ciphertexts_upload/db`, by the secret key; `secret/db.owner` |
//! | `client_encode_encrypt_query` | `ciphertexts_upload/query.bin`, by the secret key |
//! | `server_encrypted_compute` | `ciphertexts_download/results.bin` |
//! | `client_decrypt_decode` | `secret/answer.json` |
//! | `client_postprocess` | `results.bin` |
//!
//! The preprocessing steps check sizes only.

use crate::{
    instance::{Instance, Steps},
    no_step,
};
use std::{
    collections::BTreeSet,
    fmt,
    fs::{self, File},
    io::{self, BufReader, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};
use sudare::{
    ckks::{
        Decryptor,
        serial::{self, Kind},
    },
    rlwe::{KeyGenerator, SecretKey},
};
use sudare_apps::search::{Answer, Metric, Mode, Plan, Spec, Threshold};
use sudare_roles::{
    error::{Error, Result},
    format::opened::Opened,
    os::files::{self, Access, NewFile},
    owner::secret::{self, SecretFile},
    search::{
        self, Answered, Asked, Batch, Builder, Index, Payload, Records, SearchKind, Searched,
        Server, Session, Setup, Value, Writer,
    },
};

/// Names of the sizes.
pub const SIZES: [&str; 4] = ["toy", "small", "medium", "large"];

/// Number of integers in a payload. Each has `PAYLOAD_BITS` bits.
const PAYLOAD: usize = 7;
const PAYLOAD_BITS: u32 = 9;
/// The suite promises matches above 0.9. By their construction they lie above 0.87, and all other
/// records below 0.7.
const THRESHOLD: Threshold = Threshold { at: 0.785, margin: 0.085 };
/// Maximum number of matches of a query.
const MOST: usize = 32;

/// Returns the number of records and of coordinates of a size.
const fn shape(size: usize) -> (usize, usize) {
    match size {
        0 => (1_000, 128),
        1 => (50_000, 128),
        2 => (1_000_000, 256),
        _ => (20_000_000, 512),
    }
}

/// Runs a step.
///
/// # Errors
/// [`Error::Usage`] for an unknown step; [`Error::Io`]; [`Error::Parse`] for data of another size;
/// errors from [`sudare_roles::search`].
pub fn run(step: &str, instance: &Instance) -> Result<()> {
    let (rows, dimension) = shape(instance.size);
    match step {
        "client_preprocess_dataset" => {
            expect_bytes(&instance.dataset("db.bin"), 4 * rows * dimension)?;
            match instance.has("--count_only") {
                true => Ok(()),
                false => expect_bytes(&instance.dataset("payloads.bin"), 2 * rows * PAYLOAD),
            }
        }
        "client_key_generation" => generate_keys(instance),
        "client_encode_encrypt_db" => encrypt_db(instance),
        "server_preprocess_dataset" => {
            let keys = open(&instance.io("keys/evaluation.key"), Kind::EvaluationKeys)?;
            Index::open(&index(instance), &Session::of(&keys)?).map(drop)
        }
        "client_preprocess_query" => expect_bytes(&instance.dataset("query.bin"), 4 * dimension),
        "client_encode_encrypt_query" => encrypt_query(instance),
        "server_encrypted_compute" => compute(instance),
        "client_decrypt_decode" => decrypt(instance),
        "client_postprocess" => postprocess(instance),
        _ => Err(no_step(step)),
    }
}

/// Refuses a file of another size.
fn expect_bytes(path: &Path, needed: usize) -> Result<()> {
    let found = fs::metadata(path).map_err(|error| Error::io("read", path, error))?.len();
    if found == needed as u64 {
        return Ok(());
    }
    let problem = format!("it has {found} bytes, {needed} are needed");
    Err(Error::Parse { path: path.into(), what: "file of this size", problem })
}

fn open(path: &Path, kind: Kind) -> Result<Opened> {
    Opened::open(path, kind)
}

fn index(instance: &Instance) -> PathBuf {
    instance.io("ciphertexts_upload/db")
}

fn setup(instance: &Instance) -> Result<Setup> {
    let (rows, dimension) = shape(instance.size);
    let (answer, payload) = match instance.has("--count_only") {
        true => (Answer::Count(THRESHOLD), Payload::Rows),
        false => (
            Answer::Matches { threshold: THRESHOLD, most: MOST, payload: 0 },
            Payload::Integers { columns: PAYLOAD, bits: PAYLOAD_BITS },
        ),
    };
    let metric = Metric::Cosine;
    let mode = Mode::Encrypted;
    Setup::new(Spec { dimension, rows, metric, mode, answer }, payload)
}

fn generate_keys(instance: &Instance) -> Result<()> {
    let setup = setup(instance)?;
    let params = Plan::auto_params(&setup.spec)?;
    let plan = Plan::new(&setup.spec, &params)?;
    let label = search::key_label("auto", &setup)?;
    let folder = instance.io_folder("keys")?;
    let own = instance.io_folder("secret")?;
    let mut generator = KeyGenerator::new(params.rlwe())?.small_keys(true);
    let secret = generator.secret_key()?;
    let keys = generator.evaluation_keys(&secret, plan.required_keys())?;
    write(&folder.join("evaluation.key"), Access::Shared, |file, _| {
        Ok(serial::write_evaluation_keys(file, &params, &keys, &label)?)
    })?;
    write(&own.join("secret.key"), Access::Owner, |file, path| {
        secret::write(file, path, &params, &secret, &label, None)
    })
}

/// Writes a whole file, and replaces an older one.
fn write(
    path: &Path,
    access: Access,
    content: impl FnOnce(&mut NewFile, &Path) -> Result<u64>,
) -> Result<()> {
    let mut file = NewFile::create(path, access, true)?;
    content(&mut file, path)?;
    file.finish()
}

fn encrypt_db(instance: &Instance) -> Result<()> {
    let folder = instance.io_folder("ciphertexts_upload/db")?;
    let writer = Arc::new(writer(instance)?);
    let mut builder = Builder::open(&folder, &instance.io("secret/db.owner"), writer)?;
    let setup = builder.session().setup;
    let mut records = RawRecords::open(instance, &setup)?;
    let rows = setup.spec.rows;
    let progress = |done| say(format_args!("encrypted {done} of {rows} records"));
    builder.update(&mut records, &BTreeSet::new(), progress).map(drop)
}

/// Reports progress on the terminal. Write errors are ignored.
fn say(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "  {text}");
}

fn encrypt_query(instance: &Instance) -> Result<()> {
    let writer = writer(instance)?;
    let path = instance.dataset("query.bin");
    let vector = Raw::open(&path)?.floats(writer.session().setup.spec.dimension)?;
    let out = instance.io_folder("ciphertexts_upload")?.join("query.bin");
    write(&out, Access::Shared, |file, _| writer.write_query(file, &vector))
}

/// Returns the client's session and its secret key.
fn secret_key(instance: &Instance) -> Result<(Session, Arc<SecretKey>)> {
    let path = instance.io("secret/secret.key");
    let file = SecretFile::open(&path)?;
    let session = Session::of(file.opened())?;
    let key = file.key(session.plan.params(), || Err(Error::Sealed { path: path.clone() }))?;
    Ok((session, Arc::new(key)))
}

/// Returns a writer with the secret key, which halves the bytes.
fn writer(instance: &Instance) -> Result<Writer> {
    let (session, key) = secret_key(instance)?;
    Writer::secret(session, key)
}

fn compute(instance: &Instance) -> Result<()> {
    let mut steps = Steps::default();
    let server = steps.time("Loading keys", || {
        Server::new(open(&instance.io("keys/evaluation.key"), Kind::EvaluationKeys)?, false)
    })?;
    let outcome = steps.time("Encrypted computation", || {
        let index = Index::open(&index(instance), server.session())?;
        let query = open(&instance.io("ciphertexts_upload/query.bin"), Kind::Ciphertexts)?;
        let wanted = SearchKind::of(&server.session().setup);
        let asked = Asked::Encrypted(Box::new(query));
        let blocks = index.blocks();
        let progress = |done| say(format_args!("searched {done} of {blocks} blocks"));
        server.run(asked, Searched::Index(&index), wanted, progress)
    })?;
    let out = instance.io_folder("ciphertexts_download")?.join("results.bin");
    write(&out, Access::Shared, |file, _| outcome.write(file))?;
    steps.write(instance)
}

/// Writes the count, or the payloads of matches that the answer contains.
fn decrypt(instance: &Instance) -> Result<()> {
    let (session, key) = secret_key(instance)?;
    let params = session.plan.params();
    let answer = open(&instance.io("ciphertexts_download/results.bin"), Kind::Ciphertexts)?;
    let answered = search::open_answer(&session, &Decryptor::new(params, key)?, answer)?;
    let decoded: Vec<Vec<u64>> = match answered {
        Answered::Count { matches, .. } => vec![vec![matches as u64]],
        Answered::Matches { found, .. } => {
            let payloads = found.into_iter().map(|found| match found.payload {
                Value::Integers(numbers) => numbers,
                Value::Nothing | Value::Bytes(_) => Vec::new(),
            });
            payloads.collect()
        }
        Answered::Scores(_) => Vec::new(),
    };
    let text = serde_json::to_string(&decoded).map_err(|error| Error::Bug(error.to_string()))?;
    files::write_text(&instance.io("secret/answer.json"), &text, true)
}

/// Sorts payloads, and converts either kind of result to the format of the harness.
fn postprocess(instance: &Instance) -> Result<()> {
    let path = instance.io("secret/answer.json");
    let text = files::read_text(&path, 1 << 20)?;
    let mut decoded: Vec<Vec<u64>> = serde_json::from_str(&text).map_err(|error| {
        let what = "decoded answer";
        Error::Parse { path: path.clone(), what, problem: error.to_string() }
    })?;
    decoded.sort_unstable();
    let numbers = decoded.into_iter().flatten();
    let bytes: Vec<u8> = match instance.has("--count_only") {
        true => numbers.flat_map(u64::to_le_bytes).collect(),
        // Numbers of 9 bits.
        false => numbers.flat_map(|number| (number as u16).to_le_bytes()).collect(),
    };
    let path = instance.io("results.bin");
    fs::write(&path, bytes).map_err(|error| Error::io("write", &path, error))
}

/// A file of consecutive numbers.
struct Raw {
    path: PathBuf,
    file: BufReader<File>,
}

impl Raw {
    fn open(path: &Path) -> Result<Self> {
        let (file, _) = files::open(path, Access::Shared)?;
        Ok(Self { path: path.into(), file })
    }

    fn bytes(&mut self, count: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        let read = self.file.read_exact(&mut bytes);
        read.map_err(|error| Error::io("read", &self.path, error))?;
        Ok(bytes)
    }

    fn floats(&mut self, count: usize) -> Result<Vec<f64>> {
        let bytes = self.bytes(4 * count)?;
        let number = |bytes: &[u8]| match *bytes {
            [a, b, c, d] => f32::from_le_bytes([a, b, c, d]).into(),
            _ => f64::NAN,
        };
        Ok(bytes.chunks_exact(4).map(number).collect())
    }
}

/// Reads the records of the harness.
struct RawRecords {
    vectors: Raw,
    payloads: Option<Raw>,
    setup: Setup,
    /// Number of the next record to read.
    row: usize,
}

impl RawRecords {
    fn open(instance: &Instance, setup: &Setup) -> Result<Self> {
        let payloads = match setup.payload {
            Payload::Rows => None,
            _ => Some(Raw::open(&instance.dataset("payloads.bin"))?),
        };
        let vectors = Raw::open(&instance.dataset("db.bin"))?;
        Ok(Self { vectors, payloads, setup: *setup, row: 0 })
    }
}

impl Records for RawRecords {
    fn next(&mut self, most: usize) -> Result<Batch> {
        let Spec { rows, dimension, .. } = self.setup.spec;
        let count = most.min(rows - self.row);
        let vectors = self.vectors.floats(count * dimension)?;
        let values = match &mut self.payloads {
            None => vec![Value::Nothing; count],
            Some(file) => {
                let bytes = file.bytes(2 * count * PAYLOAD)?;
                let number = |pair: &[u8]| u64::from(pair[0]) | u64::from(pair[1]) << 8;
                let rows = bytes.chunks_exact(2 * PAYLOAD);
                rows.map(|row| Value::Integers(row.chunks_exact(2).map(number).collect())).collect()
            }
        };
        let packed = values.iter().enumerate();
        let packed = packed.map(|(i, value)| self.setup.payload.pack(self.row + i, value));
        let batch = Batch { vectors, payloads: packed.collect::<Result<_>>()? };
        self.row += count;
        Ok(batch)
    }
}
