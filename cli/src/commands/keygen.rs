use super::security::{key_security, least_security};
use crate::{
    output::{self, Output, say},
    passphrase,
    progress::Progress,
    values::{TableFormat, finite, whole},
};
use serde::Serialize;
use std::{
    path::{Path, PathBuf},
    time::Instant,
};
use sudare::{
    circuits::bootstrap::BootstrapPreset,
    ckks::{Params, Preset, serial},
    rlwe::{KeyGenerator, KeyRequest},
};
use sudare_apps::{
    logreg::{
        self, ClassWeights, LearningRate, Penalty, Preparation, Prepared, Probability, ScoredModel,
        SigmoidApprox, SigmoidDegree, TrainSpec,
    },
    pool::Schema,
    stats,
};
use sudare_roles::{
    error::{Error, Result},
    files::{self, Access, NewFile},
    job::{Extent, Job, Purpose},
    label::{Content, Meta},
    machine, opened, pooled, secret,
    sets::Set,
};
use sudare_table::Table;

/// Make the keys that one job needs: a secret, a public and an evaluation key file
///
/// The secret key stays with the owner of the data, the evaluation key goes to the
/// server. What the job is stands in the files, so that the later steps know.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudare keygen --params auto --for train:189x9 --out keys\n  \
    sudare keygen --params auto --for train:189x9 --passphrase --out keys\n  \
    sudare keygen --params auto --for train:births.csv --target low --out keys\n  \
    sudare keygen --params auto --for train:11982x196 --iterations 32 --batch 1024 --out keys\n  \
    sudare keygen --params auto --for train:189x9 --class-weight balanced --out keys\n  \
    sudare keygen --params n14 --for stats:1000x12 --out keys\n  \
    sudare keygen --params auto --for histogram:100000x5x10 --exact --out keys\n  \
    sudare keygen --params auto --for predict:1000x9 --out keys\n  \
    sudare keygen --params auto --for predict:1000x9 --share 8 --score-range 16 --out keys\n  \
    sudare keygen --params n16-boot --for bootstrap --out keys")]
pub struct Args {
    /// Parameter set, or auto for the smallest secure ring for the job
    #[arg(long, value_name = "NAME|auto")]
    params: String,
    /// The job: train:ROWSxFEATURES or stats:ROWSxFEATURES, where the target does not count, or
    /// the table itself in place of the numbers; groups:ROWSxFEATURESxGROUPS,
    /// histogram:ROWSxFEATURESxBINS, predict:ROWSxFEATURES, or bootstrap. Keys serve tables of as
    /// many columns and at most as many rows
    #[arg(long = "for", value_name = "JOB")]
    purpose: Purpose,
    /// To train on the rows of several owners: what they agreed on. --for has the rows of all
    #[arg(long, value_name = "S.json", conflicts_with = "target")]
    schema: Option<PathBuf>,
    /// Of a table that --for names: the column to learn
    #[arg(long, value_name = "COL")]
    target: Option<String>,
    #[command(flatten)]
    training: Training,
    #[command(flatten)]
    format: TableFormat,
    #[command(flatten)]
    files: Files,
    /// Accept a parameter set of less than 128 bits of security
    #[arg(long)]
    insecure: bool,
}

/// Where keys are written.
#[derive(Debug, clap::Args)]
pub struct Files {
    /// Folder for the files, made if it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Seal the secret key by a passphrase, which the terminal asks for unless --passphrase-fd does
    #[arg(long)]
    passphrase: bool,
    #[command(flatten)]
    source: passphrase::Source,
    /// Replace existing files; what an old secret key encrypted is then lost
    #[arg(long)]
    force: bool,
}

/// How to train. What is left out is chosen by the number of rows and columns.
#[derive(Debug, Clone, clap::Args)]
pub struct Training {
    /// How the owner prepares columns: whiten, so that few iterations lead far; standardize; or
    /// scale, by their largest magnitude, as in the papers on encrypted training
    #[arg(long, value_name = "whiten|standardize|scale", default_value = "whiten", value_parser = preparation)]
    pub preparation: Preparation,
    /// Iterations of training; bootstrapped when that takes less time than more levels
    #[arg(long, value_name = "K", value_parser = whole(1..=u32::MAX))]
    iterations: Option<u32>,
    /// Rows of a batch, at most
    #[arg(long, value_name = "B", value_parser = whole(1..=u32::MAX))]
    batch: Option<u32>,
    /// Step size of the first iteration
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = finite)]
    learning_rate: Option<f64>,
    /// Step sizes of iterations t = 0, 1, …: constant; slowing, divided by 1 + t / 2; or decaying,
    /// by 1 + t
    #[arg(long, value_name = "constant|slowing|decaying", value_parser = rate)]
    rate: Option<Rate>,
    /// The same step size in all iterations
    #[arg(long, conflicts_with = "rate")]
    constant_rate: bool,
    /// Strength of the L2 penalty as scikit-learn has it: the smaller the stronger [default: 1, of
    /// columns that are scaled no penalty]
    #[arg(long = "C", value_name = "C", allow_negative_numbers = true, value_parser = finite)]
    c: Option<f64>,
    /// The same as a weight of the penalty: half the sum of the squares of the weights of
    /// standardised columns, times this, is added to the mean loss
    #[arg(long, visible_alias = "l2", value_name = "ALPHA", conflicts_with = "c", allow_negative_numbers = true, value_parser = finite)]
    alpha: Option<f64>,
    /// Classes of the target [default: those of the table or schema, or of a shape 2]
    #[arg(long, value_name = "N", value_parser = whole(2..=TrainSpec::MAX_CLASSES))]
    classes: Option<u32>,
    /// What rows weigh by their class: balanced, so that all classes count alike, or given, as
    /// `sudare encrypt --class-weight` says. The server does not learn the weights
    #[arg(long, value_name = "balanced|given", value_parser = weighting)]
    class_weight: Option<ClassWeights>,
    /// Workers that each batch is to be divided among, where the training is distributed
    #[arg(long, value_name = "N", value_parser = whole(1..=u32::MAX))]
    workers: Option<u32>,
    /// Bits after the binary point to which weights, statistics or scores are to be shared with
    /// others: see `sudare decrypt --share`
    #[arg(long, value_name = "BITS", value_parser = whole(1..=TrainSpec::MAX_SHARED_BITS))]
    share: Option<u32>,
    /// For histograms: parameters that are precise enough for exact counts, of any number of rows.
    /// Without, counts come with a bound of their errors, which is 0 for tables of few rows
    #[arg(long, conflicts_with = "share")]
    exact: bool,
    /// Of a training: leave the model fit to score encrypted rows by before it is decrypted, as
    /// many as one likes: see `sudare predict`
    #[arg(long)]
    predict: bool,
    /// Of predict: have the server compute probabilities beside scores, to so many bits, for scores
    /// up to the range of the sigmoid
    #[arg(long, value_name = "BITS", value_parser = whole(1..=Probability::MAX_BITS))]
    probability: Option<u32>,
    /// Of predict with --share: what no score exceeds in absolute value, 1 to 1024. A model whose
    /// weights could bring scores beyond it is refused
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = finite)]
    score_range: Option<f64>,
    /// Largest inner product of a row and the weights that the sigmoid is approximated for
    /// [default: what the table takes, or of a shape 8, of several owners 16]
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = finite)]
    sigmoid_range: Option<f64>,
    /// Degree of the sigmoid's polynomial: 3, 5 or 7
    #[arg(long, value_name = "D", value_parser = whole(3..=7))]
    sigmoid_degree: Option<u32>,
}

/// How step sizes change.
#[derive(Debug, Clone, Copy)]
enum Rate {
    Constant,
    Slowing,
    Decaying,
}

impl Rate {
    fn from(self, initial: f64) -> LearningRate {
        match self {
            Self::Constant => LearningRate::Constant(initial),
            Self::Slowing => LearningRate::Slowing { initial },
            Self::Decaying => LearningRate::Decaying { initial },
        }
    }
}

impl Training {
    /// How to train on tables of a shape, not yet checked but for the degree.
    fn spec(&self, rows: usize, features: usize) -> Result<TrainSpec> {
        let mut spec = TrainSpec::recommended(rows, features, self.preparation)?;
        spec.iterations = self.iterations.unwrap_or(spec.iterations);
        if let Some(batch) = self.batch {
            spec.batch = Some(batch as usize);
        }
        spec.learning_rate = self.rate(&spec);
        spec.sigmoid.range = self.sigmoid_range.unwrap_or(spec.sigmoid.range);
        if let Some(degree) = self.sigmoid_degree {
            spec.sigmoid.degree = SigmoidDegree::try_from(degree)?;
        }
        spec.penalty = match (self.alpha, self.c) {
            (Some(0.0), _) => Penalty::None,
            (Some(alpha), _) => Penalty::Alpha(alpha),
            (None, Some(c)) => Penalty::C(c),
            (None, None) => spec.penalty,
        };
        spec.classes = self.classes.unwrap_or(spec.classes);
        spec.class_weights = self.class_weight;
        spec.shared_bits = self.share;
        spec.scorable = self.predict;
        spec.workers = self.workers.map(|workers| workers as usize);
        Ok(spec)
    }

    /// The model of so many columns to score rows by.
    fn scored(&self, features: usize) -> ScoredModel {
        let classes = self.classes.unwrap_or(2);
        if let Some(range) = self.score_range {
            return ScoredModel::Shared { features, classes, range };
        }
        let range = self.sigmoid_range.unwrap_or(SigmoidApprox::default().range);
        let probability = self.probability.map(|bits| Probability { range, bits });
        ScoredModel::Given { features, classes, probability }
    }

    /// The same for the rows of several owners, of whom none can see whether the sigmoid suits
    /// those of the others.
    fn pooled(&self, spec: TrainSpec, features: usize, schema: &Schema) -> Result<TrainSpec> {
        let columns = schema.columns().len();
        if columns != features {
            return Err(Error::Usage(format!(
                "the schema has {columns} columns, {features} are asked for: write --for \
                 train:ROWSx{columns}"
            )));
        }
        if spec.preparation == Preparation::Scale {
            return Err(Error::Usage(
                "the columns of several owners cannot be scaled, as nobody may tell their largest \
                 values: leave out --preparation, or standardize"
                    .into(),
            ));
        }
        let (tables, classes) = (schema.owners().len(), schema.classes().len() as u32);
        let mut spec = TrainSpec { tables, classes, ..spec };
        if self.sigmoid_range.is_none() {
            spec.sigmoid.range = SigmoidApprox::POOLED_RANGE;
        }
        Ok(spec)
    }

    /// As asked for. Of prepared columns, batches take smaller and smaller steps.
    fn rate(&self, usual: &TrainSpec) -> LearningRate {
        let initial = self.learning_rate.unwrap_or(usual.learning_rate.at(0));
        match (self.rate, usual.learning_rate) {
            (Some(rate), _) => rate.from(initial),
            (None, _) if self.constant_rate => LearningRate::Constant(initial),
            (None, LearningRate::Constant(_)) if usual.batch.is_none() => {
                LearningRate::Constant(initial)
            }
            (None, LearningRate::Decaying { .. }) => LearningRate::Decaying { initial },
            (None, _) => LearningRate::Slowing { initial },
        }
    }

    /// How to train on a table that is at hand: with a sigmoid for its inner products, unless
    /// another is asked for.
    ///
    /// # Errors
    /// [`Error::Table`] and [`Error::Apps`] for a table that cannot be trained on so.
    pub fn spec_for(&self, table: &Table) -> Result<TrainSpec> {
        table.check_for_training()?;
        let mut spec = self.spec(table.rows(), table.features())?;
        if self.classes.is_none() {
            spec.classes = table.classes()?.len() as u32;
        }
        let fixed = self.sigmoid_range.is_some() || spec.class_weights == Some(ClassWeights::Given);
        if fixed || spec.preparation == Preparation::Scale {
            return Ok(spec);
        }
        let usual = spec.sigmoid.range;
        let spec = spec.with_fitting_range(&Prepared::new(table, &spec, table.rows(), None)?)?;
        if spec.sigmoid.range > usual {
            say(format_args!(
                "inner products of rows and weights exceed {usual}: the sigmoid is approximated up \
                 to {}",
                spec.sigmoid.range
            ));
        }
        Ok(spec)
    }

    /// Refuses options of other jobs.
    fn check(&self, purpose: &Purpose) -> Result<()> {
        let (train, predict) = match purpose {
            Purpose::Train(_) => (true, false),
            Purpose::Predict { .. } => (false, true),
            _ => (false, false),
        };
        if self.predict && !train {
            return Err(Error::Usage(
                "--predict is for the model of a training: leave it out, or make keys with --for \
                 train:ROWSxFEATURES"
                    .into(),
            ));
        }
        if self.class_weight.is_some() && !train {
            return Err(Error::Usage(
                "--class-weight is for trainings: leave it out, or make keys with --for \
                 train:ROWSxFEATURES"
                    .into(),
            ));
        }
        if self.probability.is_some() && !predict {
            return Err(Error::Usage(
                "--probability is for scores of a model that is given: leave it out, or make keys \
                 with --for predict:ROWSxFEATURES"
                    .into(),
            ));
        }
        if self.score_range.is_some() && !(predict && self.share.is_some()) {
            return Err(Error::Usage(
                "--score-range is for scores that are shared: leave it out, or make keys with \
                 --for predict:ROWSxFEATURES --share BITS"
                    .into(),
            ));
        }
        if self.probability.is_some() && self.share.is_some() {
            return Err(Error::Usage(
                "--probability is not for scores that are shared, from which all who see them \
                 compute probabilities: leave it out"
                    .into(),
            ));
        }
        if self.probability.is_some() && self.classes.is_some_and(|classes| classes > 2) {
            return Err(Error::Usage(
                "--probability is for two classes: leave it out, probabilities of more are computed \
                 from decrypted scores"
                    .into(),
            ));
        }
        Ok(())
    }
}

/// Reads how columns are prepared.
fn preparation(text: &str) -> core::result::Result<Preparation, &'static str> {
    match text {
        "whiten" => Ok(Preparation::Whiten),
        "standardize" => Ok(Preparation::Standardize),
        "scale" => Ok(Preparation::Scale),
        _ => Err("whiten, standardize or scale is needed"),
    }
}

/// Reads how step sizes change.
fn rate(text: &str) -> core::result::Result<Rate, &'static str> {
    match text {
        "constant" => Ok(Rate::Constant),
        "slowing" => Ok(Rate::Slowing),
        "decaying" => Ok(Rate::Decaying),
        _ => Err("constant, slowing or decaying is needed"),
    }
}

/// Reads where class weights come from.
fn weighting(text: &str) -> core::result::Result<ClassWeights, &'static str> {
    match text {
        "balanced" => Ok(ClassWeights::Balanced),
        "given" => Ok(ClassWeights::Given),
        _ => Err("balanced or given is needed; the server would learn weights that keys are made \
                  for, so `sudare encrypt --class-weight` takes them"),
    }
}

/// The files of a folder of keys.
const FILES: [&str; 3] = ["secret.key", "public.key", "evaluation.key"];

#[derive(Serialize)]
struct Report {
    params: String,
    log_n: u32,
    security_bits: f64,
    job: String,
    key_id: String,
    keys: usize,
    secret_key_bytes: u64,
    public_key_bytes: u64,
    evaluation_key_bytes: u64,
    public_key_digest: String,
    evaluation_key_digest: String,
    seconds: f64,
    out: PathBuf,
}

impl Args {
    /// Refuses options about tables that the job does not take.
    fn check_sources(&self) -> Result<()> {
        let of_file =
            matches!(&self.purpose, Purpose::Train(Extent::File(_)) | Purpose::StatsOf(_));
        if self.target.is_some() && !of_file {
            return Err(Error::Usage(
                "--target is a column of the table that --for names, which names none: leave it \
                 out here, and give it to `sudare encrypt`"
                    .into(),
            ));
        }
        if self.schema.is_some() && !matches!(&self.purpose, Purpose::Train(_)) {
            return Err(Error::Usage(
                "--schema is for trainings on the rows of several owners: leave it out, keys for \
                 statistics of theirs are for as many rows and columns"
                    .into(),
            ));
        }
        Ok(())
    }
}

/// The job that the arguments name, its specification not yet checked.
fn job(args: &Args) -> Result<Job> {
    let (purpose, training) = (&args.purpose, &args.training);
    training.check(purpose)?;
    args.check_sources()?;
    Ok(match purpose {
        Purpose::Job(job) => *job,
        &Purpose::Predict { rows, features } => {
            let model = training.scored(features);
            Job::Predict(logreg::ScoreJob { rows, model })
        }
        &Purpose::Train(Extent::Shape { rows, features }) => {
            let mut spec = training.spec(rows, features)?;
            if let Some(path) = &args.schema {
                spec = training.pooled(spec, features, &pooled::read_schema(path)?)?;
            }
            Job::Train(logreg::Job { rows, features, spec })
        }
        Purpose::Train(Extent::File(path)) => {
            if args.schema.is_some() {
                return Err(Error::Usage(
                    "with --schema, --for has the rows of all owners together, which no file has: \
                     write train:ROWSxFEATURES"
                        .into(),
                ));
            }
            let Some(target) = args.target.as_deref() else {
                return Err(Error::Usage(format!(
                    "which column of {} is to be learnt is not said: name it with --target",
                    path.display()
                )));
            };
            let (table, _) = args.format.reading().table(path, Some(target))?;
            let spec = training.spec_for(&table)?;
            Job::Train(logreg::Job { rows: table.rows(), features: table.features(), spec })
        }
        Purpose::StatsOf(path) => {
            let (table, _) = args.format.reading().table(path, args.target.as_deref())?;
            Job::Stats(stats::Job { rows: table.rows(), features: table.features() })
        }
    })
}

/// What keys are made for.
struct Planned {
    name: String,
    params: Params,
    request: KeyRequest,
    /// Bootstrappings in a training.
    bootstraps: u32,
}

/// The name of the parameters, the parameters named or the smallest for the job, and its keys.
fn planned(args: &Args, job: &Job) -> Result<Planned> {
    let auto = args.params == "auto";
    let Training { share, exact, .. } = args.training;
    if exact && !auto {
        return Err(Error::Usage(
            "--exact makes parameters of its own: pass --params auto, or leave it out".into(),
        ));
    }
    if *job == Job::Bootstrap {
        if exact {
            // Refused.
            job.exact_params()?;
        }
        if let Some(bits) = share {
            // Refused.
            job.shared_params(bits)?;
        }
        let set = if auto { smallest()? } else { Set::bootstrapping(&args.params)? };
        let params = accepted(args, &set.preset)?;
        let plan = set.bootstrap.plan(&params, params.upper_top())?;
        let request = plan.required_keys().clone();
        return Ok(Planned { name: set.preset.name, params, request, bootstraps: 0 });
    }
    let params = match (auto, share) {
        (true, None) if exact => job.exact_params()?,
        (true, None) => job.auto_params()?,
        (true, Some(bits)) => job.shared_params(bits)?,
        (false, _) => accepted(args, Set::named(&args.params)?.preset())?,
    };
    let plan = job.plan(&params)?;
    share.map_or(Ok(()), |bits| plan.expect_shared(bits))?;
    let (request, bootstraps) = (plan.required_keys().clone(), plan.bootstraps());
    Ok(Planned { name: args.params.clone(), params, request, bootstraps })
}

/// The first secure set with bootstrapping in the smallest ring.
fn smallest() -> Result<Box<BootstrapPreset>> {
    let sets = Set::all().filter_map(|set| match set {
        Set::Bootstrapping(set) if !set.preset.spec.insecure => Some(set),
        _ => None,
    });
    sets.min_by_key(|set| set.preset.spec.log_n)
        .ok_or_else(|| Error::Bug("there is no secure set with bootstrapping".into()))
}

/// The parameters of a set, if the user accepts its security.
fn accepted(args: &Args, preset: &Preset) -> Result<Params> {
    let params = Params::new(preset.spec.clone())?;
    let bits = params.rlwe().security_bits();
    if preset.spec.insecure && !args.insecure {
        return Err(Error::Usage(format!(
            "{} has {bits:.1} bits of security, 128 are needed: choose another set, or write \
             --insecure for a reproduction with data that anyone may read",
            preset.name
        )));
    }
    Ok(params)
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    args.files.check_free()?;
    let job = job(args)?;
    let Planned { name, params, request, bootstraps } = planned(args, &job)?;
    let label = Meta::of(job).label(&name, Content::Keys)?;
    let bootstraps = output::bootstraps(bootstraps);
    args.files.make((&params, &request), (&job.to_string(), &bootstraps), &label, output)
}

impl Files {
    fn paths(&self) -> [PathBuf; 3] {
        FILES.map(|name| self.out.join(name))
    }

    /// Refuses names that are taken, before anything is planned.
    pub fn check_free(&self) -> Result<()> {
        if self.out.exists() {
            for path in self.paths() {
                files::check_free(&path, self.force)?;
            }
        }
        Ok(())
    }

    /// Makes the keys of a request for a job, with this label, and reports them; of bootstrappings
    /// a clause.
    pub fn make(
        &self,
        (params, request): (&Params, &KeyRequest),
        (job, bootstraps): (&str, &str),
        label: &serial::Label,
        output: Output,
    ) -> Result<()> {
        let [secret_path, public_path, evaluation_path] = self.paths();
        let name = &label.name;
        let evaluation_bytes = serial::evaluation_keys_bytes(params, request, label)?;
        let memory_bytes = request.bytes(params.rlwe())?;
        let security_bits = least_security(&key_security(params, request)?);
        say(format_args!(
            "{job}: {name}, N = 2^{}, {} levels, {security_bits:.0} bits of security{bootstraps}; {} keys, {} \
             in memory, {} in {}",
            params.log_n(),
            params.top(),
            request.count(),
            machine::bytes(memory_bytes),
            machine::bytes(evaluation_bytes),
            evaluation_path.display(),
        ));
        let seal = self.passphrase || self.source.is_named();
        let passphrase = seal.then(|| self.source.to_seal(&secret_path)).transpose()?;
        files::make_folder(&self.out)?;
        let mut secret_file = NewFile::create(&secret_path, Access::Owner, self.force)?;
        let mut public_file = NewFile::create(&public_path, Access::Shared, self.force)?;
        let mut evaluation_file = NewFile::create(&evaluation_path, Access::Shared, self.force)?;
        let start = Instant::now();
        let mut generator = KeyGenerator::new(params.rlwe())?.small_keys(true);
        let secret = generator.secret_key()?;
        let public = generator.public_key(&secret)?;
        let evaluation_key_bytes = {
            let progress = Progress::new("Making keys", request.count());
            let made = |keys| progress.set(keys);
            let owner = (&mut generator, &secret);
            serial::generate_evaluation_keys(
                &mut evaluation_file,
                params,
                owner,
                request,
                label,
                made,
            )
            .map_err(Error::in_file(&evaluation_path))?
        };

        // All files are complete before the first one gets its name.
        let (out, passphrase) = ((&mut secret_file, &*secret_path), passphrase.as_ref());
        let secret_key_bytes = secret::write(out, (params, &secret), label, passphrase)?;
        let public_key_bytes = serial::write_public_key(&mut public_file, params, &public, label)
            .map_err(Error::in_file(&public_path))?;
        for file in [secret_file, public_file, evaluation_file] {
            file.finish()?;
        }

        let report = Report {
            params: name.clone(),
            log_n: params.log_n(),
            security_bits,
            job: job.into(),
            key_id: secret.id().to_string(),
            keys: request.count(),
            secret_key_bytes,
            public_key_bytes,
            evaluation_key_bytes,
            public_key_digest: digest(&public_path)?,
            evaluation_key_digest: digest(&evaluation_path)?,
            seconds: start.elapsed().as_secs_f64(),
            out: self.out.clone(),
        };
        output.write(&report, text)
    }
}

/// The digest of a file, in hexadecimal.
fn digest(path: &Path) -> Result<String> {
    Ok(blake3::Hash::from(opened::digest(path)?).to_string())
}

fn text(report: &Report) -> String {
    let file = |name: &str, bytes| {
        format!("{} ({})", report.out.join(name).display(), machine::bytes(bytes))
    };
    let [secret, public, evaluation] = FILES;
    output::fields(&[
        ("for you alone", file(secret, report.secret_key_bytes)),
        ("to encrypt", file(public, report.public_key_bytes)),
        ("  its digest", report.public_key_digest.clone()),
        ("for the server", file(evaluation, report.evaluation_key_bytes)),
        ("  its digest", report.evaluation_key_digest.clone()),
        ("key", report.key_id.clone()),
        ("time", format!("{:.1} s", report.seconds)),
    ])
}
