//! Keys, tables and results for the targets, identical in every run except for fresh encryptions.

use std::{
    fs,
    io::Cursor,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};
use sudare::{
    ckks::{
        Ciphertext, Complex, Decryptor, Encoder, Encryptor, Evaluator, Params, Spec,
        SymmetricEncryptor, UpperSpec,
        serial::{self, Label},
    },
    rlwe::{
        EvaluationKeys, GaloisElement, KeyGenerator, KeyId, KeyRequest, Level, PublicKey, Raise,
        SecretDistribution,
    },
};
use sudare_apps::{
    logreg::{self, Probability, ScoreJob, ScoredModel, TrainSpec},
    stats::{self, GroupJob, HistogramJob},
};
use sudare_arith::prng::Seed;
use sudare_roles::{
    clear::{groups::KeyColumn, model::Model},
    error::Result,
    format::{
        label::{Content, Meta, Origin},
        opened::Opened,
    },
    job::{Job, Plan},
    owner::encryption::{Encryption, Subject},
    server::{checkpoint::Checkpoints, scoring::AnyModel, session::Session},
};
use sudare_table::Table;
use tempfile::TempDir;

/// A key pair in the smallest of rings, and its files.
pub struct Pair {
    /// The parameters of keys and ciphertexts.
    pub params: Params,
    /// An evaluator with keys of every kind.
    pub evaluator: Evaluator,
    /// Ciphertexts of every level.
    pub items: Vec<Ciphertext>,
    /// A decryptor with the secret key.
    pub decryptor: Decryptor,
    /// Files of the secret key, the public key, evaluation keys, ciphertexts, and ciphertexts with
    /// seeds in place of uniform halves.
    pub files: [Vec<u8>; 5],
}

/// Pairs with a sparse secret, with upper levels, and with level keys.
pub static PAIRS: LazyLock<[Pair; 3]> = LazyLock::new(|| {
    let base = Spec { insecure: true, ..Spec::uniform(5, 30.0, 1, 25.0, vec![31.0]) };
    let raised = UpperSpec { base_bits: vec![27.5; 2], levels_bits: vec![vec![25.0], vec![26.0]] };
    [
        Pair::new(Spec { secret: SecretDistribution::FixedWeight { h: 9 }, ..base.clone() }),
        Pair::new(Spec { upper: Some(raised), ..base.clone() }),
        Pair::new(Spec { p_bits: vec![31.0; 2], ..base }),
    ]
});

impl Pair {
    fn new(spec: Spec) -> Self {
        let params = Params::new(spec).unwrap();
        let log_n = params.log_n();
        let mut request = KeyRequest::new()
            .relinearize(params.top())
            .rotations(log_n, [1, -3], params.top())
            .automorphism(GaloisElement::conjugation(log_n), Level(0))
            .raise(Raise::to(params.upper_top()).with_weight(7));
        if params.upper_top() > params.top() {
            let steps = [1, -3].map(|k| GaloisElement::rotation(log_n, k));
            request = request.raised_automorphisms(steps);
        }
        if params.spec().p_bits.len() > 1 {
            let low = KeyRequest::new().relinearize(Level(0)).rotations(log_n, [1, 2], Level(0));
            request |= low.into_level_keys(params.rlwe());
        }
        let mut keygen = KeyGenerator::from_seed(params.rlwe(), &Seed::from_bytes([1; 32]));
        let secret = Arc::new(keygen.secret_key().unwrap());
        let public = Arc::new(keygen.public_key(&secret).unwrap());
        let keys = Arc::new(keygen.evaluation_keys(&secret, &request).unwrap());
        let evaluator = Evaluator::new(&params, Arc::clone(&keys)).unwrap();

        let encryptor = Encryptor::new(&params, Arc::clone(&public)).unwrap();
        let encrypt = |slots: usize, level: Level| {
            let values = vec![Complex { re: 0.5, im: -0.25 }; slots];
            let scale = params.scale_at(level);
            let plain = Encoder::new(&params).encode_at(&values, level, scale).unwrap();
            encryptor.encrypt_with(&plain, &Seed::from_bytes([2; 32])).unwrap()
        };
        let mut items = vec![encrypt(16, params.top()), encrypt(2, Level(0))];
        if params.upper_top() > params.top() {
            items.push(evaluator.mod_raise(&items[1], params.upper_top()).unwrap());
        }

        let label = Label { name: "tiny".into(), content: "test".into(), meta: vec![1, 2, 3] };
        let own = SymmetricEncryptor::new(&params, Arc::clone(&secret)).unwrap();
        let plain =
            Encoder::new(&params).encode_real_at(&[0.5; 4], Level(0), params.scale_at(Level(0)));
        let seed = Seed::from_bytes([3; 32]);
        let seeded = [own.encrypt_seeded_with(&plain.unwrap(), &seed).unwrap()];
        let mut files = [(); 5].map(|()| Vec::new());
        let [of_secret, of_public, of_keys, of_items, of_seeded] = &mut files;
        serial::write_secret_key(of_secret, &params, &secret, &label).unwrap();
        serial::write_public_key(of_public, &params, &public, &label).unwrap();
        serial::write_evaluation_keys(of_keys, &params, &keys, &label).unwrap();
        serial::write_ciphertexts(of_items, &params, &items, &label).unwrap();
        serial::write_seeded_ciphertexts(of_seeded, &params, &seeded, &label).unwrap();
        let decryptor = Decryptor::new(&params, secret).unwrap();
        Self { params, evaluator, items, decryptor, files }
    }

    /// Returns the pair with these parameters, or the first pair.
    #[must_use]
    pub fn of(id: sudare::rlwe::ParamsId) -> &'static Self {
        PAIRS.iter().find(|pair| pair.params.rlwe().id() == id).unwrap_or(&PAIRS[0])
    }
}

/// A job with its keys, its encrypted table and its encrypted result.
pub struct Case {
    /// The job.
    pub job: Job,
    /// The parameters of keys and files, in a ring that is too small to be secure.
    pub params: Params,
    /// A decryptor with the secret key.
    pub decryptor: Decryptor,
    /// An encryptor with the public key.
    pub encryptor: Encryptor,
    /// The label of the keys.
    pub label: Label,
    /// The key pair.
    pub key: KeyId,
    /// The owner's file.
    pub table: Vec<u8>,
    /// The server's file.
    pub result: Vec<u8>,
    keys: Arc<EvaluationKeys>,
}

/// One case for every kind of job.
pub static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let rows = 16;
    let features = 2;
    let given = |probability| ScoredModel::Given { features, classes: 2, probability };
    let probability = Some(Probability { range: 8.0, bits: 4 });
    let spec = TrainSpec { iterations: 2, ..TrainSpec::default() };
    vec![
        Case::new(Job::Stats(stats::Job { rows, features })),
        Case::new(Job::Groups(GroupJob { rows, features, groups: 3 })),
        Case::new(Job::Histogram(HistogramJob { rows, features, bins: 3 })),
        Case::new(Job::Train(logreg::Job { rows, features, spec })),
        Case::new(Job::Predict(ScoreJob { rows, model: given(None) })),
        Case::new(Job::Predict(ScoreJob { rows, model: given(probability) })),
    ]
});

/// The path of files in messages.
pub const PATH: &str = "file";

/// Returns rows of numbers with labels.
fn rows(job: &Job) -> Table {
    let (rows, features) = job.shape().unwrap();
    let values = (0..rows * features).map(|i| ((i * 37 % 101) as f64) / 10.0 - 3.0).collect();
    let labels = (0..rows).map(|i| i % 3 == 0).collect();
    let columns = (0..features).map(|i| format!("c{i}")).collect();
    Table::new(columns, values, Some(("y".into(), labels))).unwrap()
}

/// A model of the columns of these rows, in the form of its file.
pub const MODEL: &str = r#"{
  "kind": "logistic regression",
  "weights": [0.5, -0.25, 0.125],
  "columns": ["c0", "c1"],
  "target": "y",
  "classes": ["0", "1"],
  "centers": [0.5, 0.25],
  "divisors": [4.0, 8.0],
  "iterations": 2,
  "rows": 16
}"#;

impl Case {
    fn new(job: Job) -> Self {
        let spec = job.auto_params().unwrap().spec().clone();
        // Only the ring shrinks. Levels and scales are those that real keys of the job have.
        let params = Params::new(Spec { log_n: 7, insecure: true, ..spec }).unwrap();
        let plan = job.plan(&params).unwrap();
        let mut keygen = KeyGenerator::from_seed(params.rlwe(), &Seed::from_bytes([3; 32]));
        let secret = keygen.secret_key().unwrap();
        let public = Arc::new(keygen.public_key(&secret).unwrap());
        let keys = Arc::new(keygen.evaluation_keys(&secret, plan.required_keys()).unwrap());
        let mut case = Self {
            table: Self::encrypted(job, &params, Arc::clone(&public)),
            encryptor: Encryptor::new(&params, public).unwrap(),
            label: Meta::of(job).label("auto", Content::Keys).unwrap(),
            key: secret.id(),
            decryptor: Decryptor::new(&params, secret).unwrap(),
            result: Vec::new(),
            job,
            params,
            keys,
        };
        case.result = case.compute(&case.table).unwrap();
        case
    }

    fn encrypted(job: Job, params: &Params, public: Arc<PublicKey>) -> Vec<u8> {
        let encryption = Encryption::new(job, params, "auto", public).unwrap();
        let table = rows(&job);
        let mut file = Vec::new();
        let path = Path::new(PATH);
        if let Job::Predict(_) = job {
            let model: Model = serde_json::from_str(MODEL).unwrap();
            let inputs = model.inputs().unwrap();
            encryption.write_rows(&mut file, path, &table, &inputs, |_| ()).unwrap();
            return file;
        }
        let by: Vec<f64> = (0..table.rows()).map(|i| (i % 3) as f64).collect();
        let key = matches!(job, Job::Groups(_)).then(|| KeyColumn::new("g", &by).unwrap());
        let subject = Subject { key, ..Subject::from(table) };
        encryption.write(&mut file, path, subject, |_| ()).unwrap();
        file
    }

    fn session(&self, table: &[u8]) -> Result<Session<Cursor<Vec<u8>>>> {
        let keys = || Ok((Arc::clone(&self.keys), None));
        let origin = Origin::new([1; 32], vec![[2; 32]]);
        Session::new(vec![open(table)?], &self.params, &self.label, self.key, origin, keys)
    }

    /// Computes as a server with a file that may be a table.
    ///
    /// # Errors
    /// Errors from the server.
    pub fn compute(&self, table: &[u8]) -> Result<Vec<u8>> {
        let session = self.session(table)?;
        let (items, meta, content) = match &session.plan {
            Plan::Train(plan) => {
                let sums = session.tables.sums(plan)?;
                let sums = plan.add_sums(&*session.evaluator, sums)?;
                let trainer = plan.trainer(&*session.evaluator, sums)?;
                let mut training = trainer.start()?;
                while training.iteration < plan.job().spec.iterations {
                    let rows = session.tables.read(plan.batch(training.iteration))?;
                    trainer.step(&rows, &mut training)?;
                }
                let items = session.with_note(plan.model(&training)?);
                let iterations = training.iteration;
                let meta = Meta { iterations, ..session.meta_of_result() };
                (items, meta, Content::Model)
            }
            Plan::Predict(plan) => {
                let model = Model::checked(serde_json::from_str(MODEL).unwrap()).unwrap();
                let model = AnyModel::plain(&model, plan)?;
                let scores = session.scores(plan, model.weights(), |_| ())?;
                let (items, meta) = model.results(scores, &session);
                (items, meta, Content::Scores)
            }
            _ => {
                let items = session.with_note(session.statistics(|_| ())?);
                (items, session.meta_of_result(), Content::Statistics)
            }
        };
        let mut out = Vec::new();
        session.write_to(&mut out, Path::new(PATH), &items, &meta, content)?;
        Ok(out)
    }
}

/// Opens a file in memory and reads its header.
///
/// # Errors
/// Errors from the reader.
pub fn open(file: &[u8]) -> Result<Opened<Cursor<Vec<u8>>>> {
    Opened::new(Cursor::new(file.to_vec()), file.len() as u64, Path::new(PATH))
}

/// A training that can resume from an untrusted state.
pub struct Resumable {
    /// The training.
    pub case: &'static Case,
    /// The file of its last state.
    pub state: Vec<u8>,
    session: Session<Cursor<Vec<u8>>>,
    checkpoints: Checkpoints,
    path: PathBuf,
    /// A temporary directory, removed when the process ends.
    _folder: TempDir,
}

impl Resumable {
    /// Returns the training, the same one each time.
    #[must_use]
    pub fn get() -> &'static Self {
        static ONE: LazyLock<Resumable> = LazyLock::new(Resumable::new);
        &ONE
    }

    fn new() -> Self {
        let case = CASES.iter().find(|case| matches!(case.job, Job::Train(_))).unwrap();
        let session = case.session(&case.table).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let origin = Origin::new([1; 32], vec![[2; 32]]);
        let checkpoints = Checkpoints::open(folder.path(), origin, true).unwrap();
        let Plan::Train(plan) = &session.plan else { unreachable!("the case is a training") };
        let sums = session.tables.sums(plan).unwrap();
        let sums = plan.add_sums(&*session.evaluator, sums).unwrap();
        let training = plan.trainer(&*session.evaluator, sums).unwrap().start().unwrap();
        checkpoints.write(&training, &session).unwrap();
        let mut names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        // The directory also has the lock, whose name has no extension.
        let path = names.find(|path| path.extension().is_some()).unwrap();
        let state = fs::read(&path).unwrap();
        Self { case, state, session, checkpoints, path, _folder: folder }
    }

    /// Resumes from a file that may be a state.
    ///
    /// # Errors
    /// Errors from the training.
    pub fn resume(&self, state: &[u8]) -> Result<()> {
        // Under the name of the last state, where a resumption looks for it.
        fs::write(&self.path, state).unwrap();
        let Plan::Train(plan) = &self.session.plan else { unreachable!("the case is a training") };
        self.checkpoints.last(plan, &self.session, |_| ()).map(drop)
    }
}
