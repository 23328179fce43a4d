//! What the files of the three roles say beside keys and ciphertexts.

use crate::{
    error::{Error, Result},
    files::{self, Access, Watch},
};
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    fs::File,
    io::{BufReader, Cursor, Read, Seek},
    ops::Range,
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Mutex, PoisonError},
};
use sudare::{
    ckks::{
        Ciphertext, Params,
        serial::{self, CiphertextReader, Info, Kind, Label, Reader},
    },
    rlwe::{EvaluationKeys, KeyId, KeyRequest, ParamsId, PublicKey, SecretKey},
};
use sudare_apps::{
    logreg::{
        self, ClassWeights, Probability, ScoreJob, ScorePlan, ScoredModel, TrainPlan, TrainSpec,
    },
    stats::{self, ColumnScaling, GroupJob, GroupPlan, HistogramJob, HistogramPlan, StatsPlan},
    table::{Scaling, Table},
};
use sudare_arith::mem::Mapping;

/// What keys are made for: the public part of a computation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Job {
    /// Logistic regression.
    Train(logreg::Job),
    /// Statistics of columns.
    Stats(stats::Job),
    /// Refreshing ciphertexts, as the parameter set that the label names has it.
    Bootstrap,
    /// Sums of columns by groups of rows.
    Groups(GroupJob),
    /// Counts of the values of columns in bins.
    Histogram(HistogramJob),
    /// Scores of rows by a model.
    Predict(ScoreJob),
}

/// A job as the command line names it, such as `train:189x9`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are those of the jobs")]
pub enum Purpose {
    /// [`Job::Train`], however it is trained.
    Train { rows: usize, features: usize },
    /// [`Job::Stats`].
    Stats { rows: usize, features: usize },
    /// [`Job::Groups`].
    Groups { rows: usize, features: usize, groups: usize },
    /// [`Job::Histogram`].
    Histogram { rows: usize, features: usize, bins: usize },
    /// [`Job::Predict`], by a model that is given.
    Predict { rows: usize, features: usize },
    /// [`Job::Bootstrap`].
    Bootstrap,
}

impl FromStr for Purpose {
    type Err = String;

    fn from_str(text: &str) -> core::result::Result<Self, String> {
        let help = "write train:ROWSxFEATURES, stats:ROWSxFEATURES or bootstrap, such as \
                    train:189x9, where the target does not count as a feature; or \
                    groups:ROWSxFEATURESxGROUPS, where the key column does not, \
                    histogram:ROWSxFEATURESxBINS or predict:ROWSxFEATURES";
        if text == "bootstrap" {
            return Ok(Self::Bootstrap);
        }
        let (what, shape) = text.split_once(':').ok_or(help)?;
        let count = |text: &str| text.parse::<usize>().ok().filter(|&count| count > 0);
        let shape: Option<Vec<usize>> = shape.split('x').map(count).collect();
        match (what, shape.as_deref()) {
            ("train", Some(&[rows, features])) => Ok(Self::Train { rows, features }),
            ("stats", Some(&[rows, features])) => Ok(Self::Stats { rows, features }),
            ("predict", Some(&[rows, features])) => Ok(Self::Predict { rows, features }),
            ("groups", Some(&[rows, features, groups])) => {
                Ok(Self::Groups { rows, features, groups })
            }
            ("histogram", Some(&[rows, features, bins])) => {
                Ok(Self::Histogram { rows, features, bins })
            }
            ("train" | "stats" | "groups" | "histogram" | "predict", _) => Err(help.into()),
            _ => Err(format!("{what:?} is not a job for tables; {help}")),
        }
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Train(job) => {
                let iterations = job.spec.iterations;
                write!(f, "train:{}x{}, {iterations} iterations", job.rows, job.features)?;
                if let Some(batch) = job.spec.batch {
                    write!(f, " of {batch} rows")?;
                }
                if job.spec.l2 > 0.0 {
                    write!(f, ", L2 penalty {}", job.spec.l2)?;
                }
                match job.spec.class_weights {
                    Some(ClassWeights::Balanced) => write!(f, ", balanced class weights"),
                    Some(ClassWeights::Given) => write!(f, ", given class weights"),
                    None => Ok(()),
                }
            }
            Self::Stats(job) => write!(f, "stats:{}x{}", job.rows, job.features),
            Self::Bootstrap => write!(f, "bootstrap"),
            Self::Groups(GroupJob { rows, features, groups }) => {
                write!(f, "groups:{rows}x{features}x{groups}")
            }
            Self::Histogram(HistogramJob { rows, features, bins }) => {
                write!(f, "histogram:{rows}x{features}x{bins}")
            }
            Self::Predict(ScoreJob { rows, model }) => {
                write!(f, "predict:{rows}x{}", model.features())?;
                match model {
                    ScoredModel::Trained(training) => {
                        write!(f, ", after {}", Self::Train(*training))
                    }
                    ScoredModel::Given {
                        probability: Some(Probability { range, bits }), ..
                    } => {
                        write!(f, ", probabilities to {bits} bits up to a score of {range}")
                    }
                    ScoredModel::Given { probability: None, .. } => Ok(()),
                }
            }
        }
    }
}

impl Job {
    /// Rows and features of the table.
    ///
    /// # Errors
    /// [`Error::Usage`] if the job has none.
    pub fn shape(&self) -> Result<(usize, usize)> {
        match self {
            Self::Train(job) => Ok((job.rows, job.features)),
            Self::Stats(job) => Ok((job.rows, job.features)),
            Self::Groups(job) => Ok((job.rows, job.features)),
            Self::Histogram(job) => Ok((job.rows, job.features)),
            Self::Predict(job) => Ok((job.rows, job.model.features())),
            Self::Bootstrap => Err(no_table()),
        }
    }

    /// How the model is trained that the job makes, or scores by.
    #[must_use]
    pub fn training(&self) -> Option<&TrainSpec> {
        match self {
            Self::Train(training)
            | Self::Predict(ScoreJob { model: ScoredModel::Trained(training), .. }) => {
                Some(&training.spec)
            }
            _ => None,
        }
    }

    /// Whether the owner of a table has to say what its rows weigh.
    #[must_use]
    pub fn takes_class_weights(&self) -> bool {
        let Self::Train(job) = self else { return false };
        job.spec.class_weights == Some(ClassWeights::Given)
    }

    /// The smallest secure parameters for the table.
    ///
    /// # Errors
    /// [`Error::Usage`] if the job has none; those of the job's plan.
    pub fn auto_params(&self) -> Result<Params> {
        Ok(match self {
            Self::Train(job) => TrainPlan::auto_params(job)?,
            Self::Stats(job) => StatsPlan::auto_params(job)?,
            Self::Groups(job) => GroupPlan::auto_params(job)?,
            Self::Histogram(job) => HistogramPlan::auto_params(job)?,
            Self::Predict(job) => ScorePlan::auto_params(job)?,
            Self::Bootstrap => return Err(no_table()),
        })
    }

    /// Those with as much more precision as sharing the results to `bits` bits takes; trainings
    /// say themselves if they are shared.
    ///
    /// # Errors
    /// As [`Job::auto_params`]; [`Error::Usage`] for results that cannot be shared.
    pub fn shared_params(&self, bits: u32) -> Result<Params> {
        Ok(match self {
            Self::Train(job) => TrainPlan::auto_params(job)?,
            Self::Stats(job) => StatsPlan::shared_params(job, bits)?,
            Self::Groups(job) => GroupPlan::shared_params(job, bits)?,
            Self::Histogram(job) => HistogramPlan::shared_params(job, bits)?,
            Self::Predict(_) | Self::Bootstrap => return Err(not_shared()),
        })
    }

    /// The job of scoring rows with keys for this one: by a model that is given, or by the one that
    /// is trained, so many rows as one likes.
    ///
    /// # Errors
    /// [`Error::Usage`] for keys of other jobs, and of a training that leaves a model without a
    /// level.
    pub fn scoring(&self, rows: usize) -> Result<Self> {
        match self {
            Self::Predict(_) => Ok(*self),
            Self::Train(training) => {
                let model = ScoredModel::Trained(*training);
                Ok(Self::Predict(ScoreJob { rows, model }))
            }
            _ => Err(Error::Usage(format!(
                "the keys are for {self}, which scores no rows: make keys with --for \
                 predict:ROWSxFEATURES, or with --for train:ROWSxFEATURES --predict"
            ))),
        }
    }

    /// Whether keys for this job serve a table that was encrypted for `other`: for the same, or for
    /// rows that are scored by the model that the keys were made to train.
    #[must_use]
    pub fn serves(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Train(training), Self::Predict(job)) => {
                job.model == ScoredModel::Trained(*training)
            }
            _ => self == other,
        }
    }

    /// What to do with the table under `params`.
    ///
    /// # Errors
    /// [`Error::Usage`] if the job has no table or too large a one; those of the job's plan.
    pub fn plan(&self, params: &Params) -> Result<Plan> {
        let (rows, features) = self.shape()?;
        if rows.checked_mul(features).is_none_or(|cells| cells > Table::DEFAULT_MAX_CELLS) {
            return Err(Error::Usage(format!(
                "a table of {rows} rows and {features} features is too large: at most {} cells",
                Table::DEFAULT_MAX_CELLS
            )));
        }
        Ok(match self {
            Self::Train(job) => Plan::Train(TrainPlan::new(job, params)?),
            Self::Stats(job) => Plan::Stats(StatsPlan::new(job, params)?),
            Self::Groups(job) => Plan::Groups(GroupPlan::new(job, params)?),
            Self::Histogram(job) => Plan::Histogram(Box::new(HistogramPlan::new(job, params)?)),
            Self::Predict(job) => Plan::Predict(Box::new(ScorePlan::new(job, params)?)),
            Self::Bootstrap => return Err(no_table()),
        })
    }
}

fn no_table() -> Error {
    Error::Usage(
        "these keys are for bootstrapping, a table is needed here: make keys with \
         --for train:ROWSxFEATURES or --for stats:ROWSxFEATURES"
            .into(),
    )
}

fn not_shared() -> Error {
    Error::Usage(
        "--share is for trained models and statistics, not for this job: leave it out, and give \
         its results to nobody else"
            .into(),
    )
}

/// A job on a table, planned for parameters.
pub enum Plan {
    /// Of [`Job::Train`].
    Train(TrainPlan),
    /// Of [`Job::Stats`].
    Stats(StatsPlan),
    /// Of [`Job::Groups`].
    Groups(GroupPlan),
    /// Of [`Job::Histogram`].
    Histogram(Box<HistogramPlan>),
    /// Of [`Job::Predict`].
    Predict(Box<ScorePlan>),
}

impl Plan {
    /// The command that does it.
    #[must_use]
    pub fn command(&self) -> &'static str {
        match self {
            Self::Train(_) => "train",
            Self::Predict(_) => "predict",
            Self::Stats(_) | Self::Groups(_) | Self::Histogram(_) => "stats",
        }
    }

    /// Keys that the server needs.
    #[must_use]
    pub fn required_keys(&self) -> &KeyRequest {
        match self {
            Self::Train(plan) => plan.required_keys(),
            Self::Stats(plan) => plan.required_keys(),
            Self::Groups(plan) => plan.required_keys(),
            Self::Histogram(plan) => plan.required_keys(),
            Self::Predict(plan) => plan.required_keys(),
        }
    }

    /// Bootstrappings of the whole computation.
    #[must_use]
    pub fn bootstraps(&self) -> u32 {
        match self {
            Self::Train(plan) => plan.bootstraps(plan.job().spec.iterations),
            Self::Stats(_) | Self::Groups(_) | Self::Histogram(_) | Self::Predict(_) => 0,
        }
    }

    /// Ciphertexts of the encrypted table.
    #[must_use]
    pub fn ciphertexts(&self) -> usize {
        match self {
            Self::Train(plan) => plan.ciphertexts(),
            Self::Stats(plan) => plan.ciphertexts(),
            Self::Groups(plan) => plan.ciphertexts(),
            Self::Histogram(plan) => plan.ciphertexts(),
            Self::Predict(plan) => plan.ciphertexts(),
        }
    }

    /// Ciphertexts of the result.
    #[must_use]
    pub fn outputs(&self) -> usize {
        match self {
            Self::Train(_) => 1,
            Self::Stats(plan) => plan.outputs(),
            Self::Groups(plan) => plan.outputs(),
            Self::Histogram(plan) => plan.outputs(),
            Self::Predict(plan) => plan.groups() * plan.outputs(),
        }
    }

    /// Refuses a plan whose results are not precise enough to be shared to `bits` bits.
    ///
    /// # Errors
    /// [`Error::Library`] with `TooLittlePrecision`; [`Error::Usage`] for results that cannot be
    /// shared.
    pub fn expect_shared(&self, bits: u32) -> Result<()> {
        let (found, needed) = match self {
            // Planned for, or refused, by itself.
            Self::Train(_) => return Ok(()),
            Self::Stats(plan) => (plan.largest_error(), plan.largest_shared_error(bits)),
            Self::Groups(plan) => (plan.largest_error(), plan.largest_shared_error(bits)),
            Self::Histogram(plan) => (plan.largest_error(), plan.largest_shared_error(bits)),
            Self::Predict(_) => return Err(not_shared()),
        };
        match found <= needed {
            true => Ok(()),
            false => Err(sudare::Error::TooLittlePrecision { bits, found, needed }.into()),
        }
    }
}

/// What a file holds, as its label says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Of a key pair.
    Keys,
    /// An encrypted table and its note.
    Table,
    /// The weights of a training and the note of its table.
    Model,
    /// Sums or counts and the note of their table.
    Statistics,
    /// The state of a training.
    Checkpoint,
    /// Weights of a training under way.
    Weights,
    /// Scores, the note of their rows and that of an encrypted model.
    Scores,
}

impl Content {
    const ALL: [Self; 7] = [
        Self::Keys,
        Self::Table,
        Self::Model,
        Self::Statistics,
        Self::Checkpoint,
        Self::Weights,
        Self::Scores,
    ];

    /// As labels have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Table => "table",
            Self::Model => "model",
            Self::Statistics => "statistics",
            Self::Checkpoint => "checkpoint",
            Self::Weights => "weights",
            Self::Scores => "scores",
        }
    }
}

/// What the label of a file carries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// What the keys were made for.
    pub job: Job,
    /// Ciphertexts of the note, the last ones of the file.
    pub note: u32,
    /// Iterations done, for models and checkpoints.
    pub iterations: u32,
    /// For checkpoints and weights.
    pub origin: Option<Origin>,
    /// For scores.
    pub scored_by: Option<ScoredBy>,
}

/// What the owner of scores compares the scaling of the rows with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScoredBy {
    /// A plain model, with the digest of its columns and divisors.
    Plain([u8; 32]),
    /// An encrypted model, with the number of ciphertexts of its note, the last ones of all.
    Encrypted(u32),
}

/// What a checkpoint comes from: with all of it the same, a training goes on as if it had never
/// stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Version of this program.
    pub program: String,
    /// Digest of the evaluation keys.
    pub keys: [u8; 32],
    /// Digest of the encrypted table.
    pub table: [u8; 32],
}

impl Origin {
    /// Of this version of the program, with evaluation keys and an encrypted table of these
    /// digests.
    #[must_use]
    pub fn new(keys: [u8; 32], table: [u8; 32]) -> Self {
        Self { program: env!("CARGO_PKG_VERSION").into(), keys, table }
    }
}

/// Of the encoding of [`Meta`].
const META_VERSION: u8 = 4;

/// The one before, the same for jobs without a training.
const META_VERSION_OF_OTHERS: u8 = 3;

impl Meta {
    /// Of a file without note or iterations.
    #[must_use]
    pub fn of(job: Job) -> Self {
        Self { job, note: 0, iterations: 0, origin: None, scored_by: None }
    }

    /// A label with this, under parameters of this name.
    ///
    /// # Errors
    /// [`Error::Bug`] if it cannot be encoded.
    pub fn label(&self, params: &str, content: Content) -> Result<Label> {
        let meta = postcard::to_extend(self, vec![META_VERSION])
            .map_err(|error| Error::Bug(error.to_string()))?;
        Ok(Label { name: params.into(), content: content.name().into(), meta })
    }

    /// What `label` carries, if it is of this program.
    #[must_use]
    pub fn read(label: &Label) -> Option<(Content, Self)> {
        let content = Content::ALL.into_iter().find(|content| content.name() == label.content)?;
        let (&version, bytes) = label.meta.split_first()?;
        let Ok((meta, [])) = postcard::take_from_bytes::<Self>(bytes) else { return None };
        let readable = match version {
            META_VERSION => true,
            META_VERSION_OF_OTHERS => meta.job.training().is_none(),
            _ => false,
        };
        readable.then_some((content, meta))
    }
}

/// What the owner of a table wants back with a result, and nobody else may know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// Names of the features.
    pub columns: Vec<String>,
    /// What brings decrypted values back to those of the table.
    pub scaling: NoteScaling,
}

/// How features were scaled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteScaling {
    /// For a training.
    Train {
        /// Name of the target.
        target: String,
        /// Of the features.
        divisors: Scaling,
        /// Of rows with target 0 and with 1, if they were given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        class_weights: Option<[f64; 2]>,
    },
    /// For statistics and histograms.
    Stats(ColumnScaling),
    /// For sums by groups.
    Groups {
        /// Of the features.
        scaling: ColumnScaling,
        /// Name of the key column.
        key: String,
        /// Its values.
        labels: Vec<f64>,
    },
    /// For rows to be scored.
    Rows {
        /// Of the features of the model.
        divisors: Scaling,
        /// For each row a 0 or 1, if they are known.
        labels: Option<String>,
    },
}

/// An open file of keys or ciphertexts, its header read.
pub struct Opened<R: Read = BufReader<File>> {
    path: PathBuf,
    reader: Reader<R>,
}

impl Opened<Cursor<Mapping>> {
    /// Opens a file of evaluation keys that stay in it, and watches it.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::File`].
    pub fn mapped(path: &Path) -> Result<(Self, Watch)> {
        let (file, _) = files::open(path, Access::Shared)?;
        let watch = Watch::new(path, file.get_ref())?;
        let reader = Reader::mapped(file.get_ref()).map_err(Error::in_file(path))?;
        Ok((Self { path: path.into(), reader }.expect(Kind::EvaluationKeys)?, watch))
    }
}

impl Opened {
    /// Opens a file that must hold `kind`.
    ///
    /// # Errors
    /// As [`Opened::any`].
    pub fn open(path: &Path, kind: Kind) -> Result<Self> {
        let access = if kind == Kind::SecretKey { Access::Owner } else { Access::Shared };
        Self::any(path, access)?.expect(kind)
    }

    /// Opens a file of any kind.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::File`].
    pub fn any(path: &Path, access: Access) -> Result<Self> {
        let (file, bytes) = files::open(path, access)?;
        Self::new(file, bytes, path)
    }
}

impl<R: Read> Opened<R> {
    /// A file of so many bytes, wherever they are; messages call it `path`.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn new(file: R, bytes: u64, path: &Path) -> Result<Self> {
        let reader = Reader::new(file, bytes).map_err(Error::in_file(path))?;
        Ok(Self { path: path.into(), reader })
    }

    /// The same file, which must hold `needed`.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn expect(self, needed: Kind) -> Result<Self> {
        let found = self.info().kind;
        if found == needed {
            Ok(self)
        } else {
            Err(Error::in_file(&self.path)(sudare::Error::WrongKind { found, needed }))
        }
    }

    /// What the header says.
    pub fn info(&self) -> &Info {
        self.reader.info()
    }

    /// What messages call the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the label carries; its content must be one of `contents`.
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub fn meta(&self, contents: &[Content]) -> Result<(Content, Meta)> {
        let path = self.path.display();
        let label = &self.info().label;
        let needed = || {
            let names: Vec<&str> = contents.iter().map(|content| content.name()).collect();
            names.join(" or ")
        };
        match Meta::read(label) {
            Some((content, meta)) if contents.contains(&content) => Ok((content, meta)),
            Some((content, _)) => Err(Error::Usage(format!(
                "{path} holds {}, but {} is needed here: name another file",
                content.name(),
                needed()
            ))),
            None => Err(Error::Usage(format!(
                "{path} does not say what it is for, but {} of this program is needed here: make \
                 it with `sudare keygen` and `sudare encrypt` of this version",
                needed()
            ))),
        }
    }

    /// The parameters.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn params(&self) -> Result<Params> {
        self.reader.params().map_err(Error::in_file(&self.path))
    }

    /// Refuses this file unless it belongs to these parameters and this key.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn expect_key(&self, params: ParamsId, key: KeyId) -> Result<()> {
        let (info, what) = (self.info(), "file");
        let (found, expected) = (info.params_id, params);
        if found != expected {
            let source = sudare::Error::ParamsMismatch { what, found, expected };
            return Err(Error::in_file(&self.path)(source));
        }
        let (found, expected) = (info.key_id, key);
        if found != expected {
            let source = sudare::Error::KeyMismatch { what, found, expected };
            return Err(Error::in_file(&self.path)(source));
        }
        Ok(())
    }

    /// The keys that evaluation keys are.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn key_request(&self, params: &Params) -> Result<KeyRequest> {
        self.reader.key_request(params).map_err(Error::in_file(&self.path))
    }

    /// The secret key.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn secret_key(self, params: &Params) -> Result<SecretKey> {
        self.reader.secret_key(params).map_err(Error::in_file(&self.path))
    }

    /// The public key.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn public_key(self, params: &Params) -> Result<PublicKey> {
        self.reader.public_key(params).map_err(Error::in_file(&self.path))
    }

    /// The evaluation keys; `small` ones compute their uniform halves when these are used.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn evaluation_keys(self, params: &Params, small: bool) -> Result<EvaluationKeys> {
        self.reader.small_keys(small).evaluation_keys(params).map_err(Error::in_file(&self.path))
    }

    /// The ciphertexts, of which the last `note` are apart.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn ciphertexts(self, params: &Params, note: u32) -> Result<Parts> {
        let mut content = self.reader.ciphertexts(params).map_err(Error::in_file(&self.path))?;
        let note = content.split_off(before_note(&self.path, content.len(), note)?);
        Ok(Parts { content, note })
    }

    /// The same, of which only the note is read now.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn into_stored(self, params: &Params, note: u32) -> Result<Stored<R>>
    where
        R: Seek,
    {
        let Self { path, reader } = self;
        let mut reader = reader.into_ciphertexts(params).map_err(Error::in_file(&path))?;
        let all = reader.shapes().len();
        let count = before_note(&path, all, note)?;
        let note = reader.read(count..all).map_err(Error::in_file(&path))?;
        Ok(Stored { path, reader: Mutex::new(reader), count, note })
    }
}

/// How many of `all` ciphertexts are before the `note` last ones.
fn before_note(path: &Path, all: usize, note: u32) -> Result<usize> {
    all.checked_sub(note as usize).ok_or_else(|| Error::File {
        path: path.into(),
        source: sudare::Error::Malformed {
            what: "file",
            problem: format!("it lists {note} ciphertexts of a note and has {all}"),
        },
    })
}

/// The digest of a file of keys or ciphertexts, by the checksums in it.
///
/// # Errors
/// [`Error::Io`]; [`Error::File`].
pub fn digest(path: &Path) -> Result<[u8; 32]> {
    let (file, bytes) = files::open(path, Access::Shared)?;
    // Few bytes are read at many places.
    serial::digest(file.into_inner(), bytes).map_err(Error::in_file(path))
}

/// The ciphertexts of a file.
pub struct Parts {
    /// But those of the note.
    pub content: Vec<Ciphertext>,
    /// Those of the note.
    pub note: Vec<Ciphertext>,
}

/// The ciphertexts of a table, left in their file until they are needed.
pub struct Stored<R = BufReader<File>> {
    path: PathBuf,
    reader: Mutex<CiphertextReader<R>>,
    count: usize,
    /// Those of the note, which are read.
    pub note: Vec<Ciphertext>,
}

impl<R: Read + Seek> Stored<R> {
    /// Without those of the note.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Those with these numbers.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn read(&self, numbers: Range<usize>) -> Result<Vec<Ciphertext>> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        reader.read(numbers).map_err(Error::in_file(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes_are_read() {
        let (rows, features) = (189, 9);
        assert_eq!("train:189x9".parse(), Ok(Purpose::Train { rows, features }));
        assert_eq!("stats:189x9".parse(), Ok(Purpose::Stats { rows, features }));
        assert_eq!("bootstrap".parse(), Ok(Purpose::Bootstrap));
        assert_eq!("groups:189x9x3".parse(), Ok(Purpose::Groups { rows, features, groups: 3 }));
        let histogram = Purpose::Histogram { rows, features, bins: 8 };
        assert_eq!("histogram:189x9x8".parse(), Ok(histogram));
        let bad = ["train", "train:0x9", "train:9", "stats:x", "bootstrap:", "groups:1x1"];
        for text in bad.into_iter().chain(["stats:1x1x1", "histogram:1x1x0"]) {
            let refused: core::result::Result<Purpose, _> = text.parse();
            assert!(refused.unwrap_err().contains("stats:ROWSxFEATURES or bootstrap"), "{text}");
        }
        let refused: core::result::Result<Purpose, _> = "bootstrap:1x1".parse();
        assert!(refused.unwrap_err().contains("\"bootstrap\" is not a job for tables"));
    }

    #[test]
    fn labels_carry_the_job() {
        let spec = TrainSpec::default();
        let job = Job::Train(logreg::Job { rows: 189, features: 9, spec });
        let program = "1.2.3".to_owned();
        let origin = Some(Origin { program, keys: [2; 32], table: [3; 32] });
        let meta = Meta { note: 2, iterations: 5, origin, ..Meta::of(job) };
        let label = meta.label("n14", Content::Model).unwrap();
        assert_eq!(Meta::read(&label), Some((Content::Model, meta)));
        let label_of = |job| Meta::of(job).label("n16-boot", Content::Keys).unwrap();
        let bootstrap = Meta::of(Job::Bootstrap);
        let mut earlier = label_of(Job::Bootstrap);
        assert_eq!(Meta::read(&earlier), Some((Content::Keys, bootstrap.clone())));
        earlier.meta[0] = 3;
        assert_eq!(Meta::read(&earlier), Some((Content::Keys, bootstrap)));
        for bad in [
            Label { content: "song".into(), ..label.clone() },
            Label { meta: label.meta[1..].to_vec(), ..label.clone() },
            Label { meta: [&[3], &label.meta[1..]].concat(), ..label.clone() },
            Label { meta: [&label.meta[..], &[0]].concat(), ..label.clone() },
            Label::default(),
        ] {
            assert_eq!(Meta::read(&bad), None);
        }
    }
}
