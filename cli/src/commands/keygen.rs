use super::params::{least_security, priced_keys};
use crate::{
    args::{finite, whole},
    output::{self, Output, say},
    progress,
};
use serde::Serialize;
use std::{path::PathBuf, time::Instant};
use sudare::{
    circuits::bootstrap::BootstrapPreset,
    ckks::{Params, Preset, serial},
    rlwe::{KeyGenerator, KeyRequest},
};
use sudare_apps::{
    logreg::{
        self, ClassWeights, LearningRate, Probability, ScoredModel, SigmoidApprox, SigmoidDegree,
        TrainSpec,
    },
    stats,
};
use sudare_roles::{
    artefacts::{Content, Job, Meta, Purpose},
    error::{Error, Result},
    files::{self, Access, NewFile},
    machine,
    sets::Set,
};

/// Make the keys that one job needs: a secret, a public and an evaluation key file
///
/// The secret key stays with the owner of the data, the evaluation key goes to the
/// server. What the job is stands in the files, so that the later steps know.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudare keygen --params auto --for train:189x9 --out keys\n  \
    sudare keygen --params auto --for train:11982x196 --iterations 32 --batch 1024 --out keys\n  \
    sudare keygen --params auto --for train:189x9 --class-weight balanced --out keys\n  \
    sudare keygen --params n14 --for stats:1000x12 --out keys\n  \
    sudare keygen --params auto --for predict:1000x9 --out keys\n  \
    sudare keygen --params n16-boot --for bootstrap --out keys")]
pub struct Args {
    /// Parameter set, or auto for the smallest secure ring for the job
    #[arg(long, value_name = "NAME|auto")]
    params: String,
    /// The job: train:ROWSxFEATURES or stats:ROWSxFEATURES, where the target does not count,
    /// groups:ROWSxFEATURESxGROUPS, histogram:ROWSxFEATURESxBINS, predict:ROWSxFEATURES, or
    /// bootstrap
    #[arg(long = "for", value_name = "JOB")]
    purpose: Purpose,
    #[command(flatten)]
    training: Training,
    /// Folder for the files, made if it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Accept a parameter set of less than 128 bits of security
    #[arg(long)]
    insecure: bool,
    /// Replace existing files; what an old secret key encrypted is then lost
    #[arg(long)]
    force: bool,
}

/// How to train.
#[derive(Debug, clap::Args)]
pub struct Training {
    /// Iterations of training; bootstrapped when that takes less time than more levels
    #[arg(long, value_name = "K", default_value_t = 5, value_parser = whole(1..=u32::MAX))]
    pub iterations: u32,
    /// Rows of a batch, at most; all of the table in every iteration if left out
    #[arg(long, value_name = "B", value_parser = whole(1..=u32::MAX))]
    batch: Option<u32>,
    /// First step size of training; step t takes R / t
    #[arg(long, value_name = "R", default_value_t = 10.0, allow_negative_numbers = true, value_parser = finite)]
    learning_rate: f64,
    /// The same step size in all iterations
    #[arg(long)]
    constant_rate: bool,
    /// L2 penalty on the weights of features scaled into [-1, 1], all but the intercept
    #[arg(long, value_name = "LAMBDA", default_value_t = 0.0, allow_negative_numbers = true, value_parser = finite)]
    l2: f64,
    /// What rows weigh by their class: balanced, so that both classes count alike, or given, as
    /// `sudare encrypt --class-weight` says. The server does not learn the weights
    #[arg(long, value_name = "balanced|given", value_parser = weighting)]
    class_weight: Option<ClassWeights>,
    /// Workers that each batch is to be divided among, where the training is distributed
    #[arg(long, value_name = "N", value_parser = whole(1..=u32::MAX))]
    workers: Option<u32>,
    /// Bits after the binary point to which weights or statistics are to be shared with others:
    /// see `sudare decrypt --share`
    #[arg(long, value_name = "BITS", value_parser = whole(1..=TrainSpec::MAX_SHARED_BITS))]
    share: Option<u32>,
    /// Of a training: leave the model fit to score encrypted rows by before it is decrypted, as
    /// many as one likes: see `sudare predict`
    #[arg(long)]
    predict: bool,
    /// Of predict: have the server compute probabilities beside scores, to so many bits, for scores
    /// up to the range of the sigmoid
    #[arg(long, value_name = "BITS", value_parser = whole(1..=Probability::MAX_BITS))]
    probability: Option<u32>,
    /// Largest inner product of a row and the weights that the sigmoid is approximated for
    #[arg(long, value_name = "X", default_value_t = SigmoidApprox::default().range, allow_negative_numbers = true, value_parser = finite)]
    sigmoid_range: f64,
    /// Degree of the sigmoid's polynomial: 3, 5 or 7
    #[arg(long, value_name = "D", default_value_t = 3, value_parser = whole(3..=7))]
    sigmoid_degree: u32,
}

impl Training {
    /// Not yet checked, but for the degree.
    fn spec(&self) -> Result<TrainSpec> {
        let rate = self.learning_rate;
        let learning_rate = match self.constant_rate {
            true => LearningRate::Constant(rate),
            false => LearningRate::Decaying { initial: rate },
        };
        let degree = SigmoidDegree::try_from(self.sigmoid_degree)?;
        let sigmoid = SigmoidApprox { degree, range: self.sigmoid_range };
        let batch = self.batch.map(|rows| rows as usize);
        let workers = self.workers.map(|workers| workers as usize);
        let (iterations, shared_bits, l2) = (self.iterations, self.share, self.l2);
        let (scorable, class_weights) = (self.predict, self.class_weight);
        Ok(TrainSpec {
            iterations,
            learning_rate,
            sigmoid,
            batch,
            shared_bits,
            scorable,
            l2,
            workers,
            class_weights,
        })
    }

    /// Refuses options of other jobs.
    fn check(&self, purpose: Purpose) -> Result<()> {
        let (train, predict) = match purpose {
            Purpose::Train { .. } => (true, false),
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
        Ok(())
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
    seconds: f64,
    out: PathBuf,
}

/// The job that the arguments name, its specification not yet checked.
pub fn job(purpose: Purpose, training: &Training) -> Result<Job> {
    training.check(purpose)?;
    Ok(match purpose {
        Purpose::Predict { rows, features } => {
            let range = training.sigmoid_range;
            let probability = training.probability.map(|bits| Probability { range, bits });
            let model = ScoredModel::Given { features, probability };
            Job::Predict(logreg::ScoreJob { rows, model })
        }
        Purpose::Train { rows, features } => {
            Job::Train(logreg::Job { rows, features, spec: training.spec()? })
        }
        Purpose::Stats { rows, features } => Job::Stats(stats::Job { rows, features }),
        Purpose::Groups { rows, features, groups } => {
            Job::Groups(stats::GroupJob { rows, features, groups })
        }
        Purpose::Histogram { rows, features, bins } => {
            Job::Histogram(stats::HistogramJob { rows, features, bins })
        }
        Purpose::Bootstrap => Job::Bootstrap,
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
    let share = args.training.share;
    if *job == Job::Bootstrap {
        if let Some(bits) = share {
            // Refused.
            job.shared_params(bits)?;
        }
        let set = if auto { smallest()? } else { Set::bootstrapping(&args.params)? };
        let params = accepted(args, &set.preset)?;
        let plan = set.bootstrap.plan(&params, params.raised_top())?;
        let request = plan.required_keys().clone();
        return Ok(Planned { name: set.preset.name, params, request, bootstraps: 0 });
    }
    let params = match (auto, share) {
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
    let [secret_path, public_path, evaluation_path] = FILES.map(|name| args.out.join(name));
    if args.out.exists() {
        for path in [&secret_path, &public_path, &evaluation_path] {
            files::check_free(path, args.force)?;
        }
    }
    let job = job(args.purpose, &args.training)?;
    let Planned { name, params, request, bootstraps } = planned(args, &job)?;
    let label = Meta::of(job).label(&name, Content::Keys)?;
    let evaluation_bytes = serial::evaluation_keys_bytes(&params, &request, &label)?;
    let memory_bytes = request.bytes(params.rlwe())?;
    let security_bits = least_security(&priced_keys(&params, &request)?);
    say(format_args!(
        "{job}: {name}, N = 2^{}, {} levels, {security_bits:.0} bits of security{}; {} keys, {} \
         in memory, {} in {}",
        params.log_n(),
        params.top(),
        output::bootstraps(bootstraps),
        request.count(),
        machine::bytes(memory_bytes),
        machine::bytes(evaluation_bytes),
        evaluation_path.display(),
    ));
    let advice = "choose a smaller ring or job, or a larger machine";
    // Half of them is enough to write them.
    machine::check_memory("the keys", request.small_bytes(params.rlwe())?, advice)?;

    files::make_folder(&args.out)?;
    let mut secret_file = NewFile::create(&secret_path, Access::Owner, args.force)?;
    let mut public_file = NewFile::create(&public_path, Access::Shared, args.force)?;
    let mut evaluation_file = NewFile::create(&evaluation_path, Access::Shared, args.force)?;
    let start = Instant::now();
    let mut generator = KeyGenerator::new(params.rlwe())?.small_keys(true);
    let secret = generator.secret_key()?;
    let public = generator.public_key(&secret)?;
    let keys = progress::evaluation_keys("Making keys", &mut generator, &secret, &request)?;

    // All files are complete before the first one gets its name.
    let secret_key_bytes = serial::write_secret_key(&mut secret_file, &params, &secret, &label)
        .map_err(Error::in_file(&secret_path))?;
    let public_key_bytes = serial::write_public_key(&mut public_file, &params, &public, &label)
        .map_err(Error::in_file(&public_path))?;
    let evaluation_key_bytes =
        serial::write_evaluation_keys(&mut evaluation_file, &params, &keys, &label)
            .map_err(Error::in_file(&evaluation_path))?;
    for file in [secret_file, public_file, evaluation_file] {
        file.finish()?;
    }

    let report = Report {
        params: name,
        log_n: params.log_n(),
        security_bits,
        job: job.to_string(),
        key_id: secret.id().to_string(),
        keys: request.count(),
        secret_key_bytes,
        public_key_bytes,
        evaluation_key_bytes,
        seconds: start.elapsed().as_secs_f64(),
        out: args.out.clone(),
    };
    output.write(&report, text)
}

fn text(report: &Report) -> String {
    let file = |name: &str, bytes| {
        format!("{} ({})", report.out.join(name).display(), machine::bytes(bytes))
    };
    let [secret, public, evaluation] = FILES;
    output::fields(&[
        ("for you alone", file(secret, report.secret_key_bytes)),
        ("to encrypt", file(public, report.public_key_bytes)),
        ("for the server", file(evaluation, report.evaluation_key_bytes)),
        ("key", report.key_id.clone()),
        ("time", format!("{:.1} s", report.seconds)),
    ])
}
