use super::server;
use crate::{
    args::{finite, whole},
    artefacts::{Content, Meta, Opened, Plan},
    error::{Error, Result},
    files::{self, Access, NewFile},
    machine,
    output::{self, Output, say},
    progress::Progress,
};
use serde::Serialize;
use std::{
    path::{Path, PathBuf},
    time::Instant,
};
use sudare::ckks::serial::Kind;
use sudare_apps::logreg::{LearningRate, TrainPlan, Training};

/// Train a logistic regression on an encrypted table
///
/// The step sizes and the number of iterations are those that the keys were made for. Weights
/// are bootstrapped when levels run out.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: sudare train --evaluation-key evaluation.key -i table.ct -o model.ct --checkpoint state --resume"
)]
pub struct Args {
    #[command(flatten)]
    files: server::Files,
    /// Iterations, at most as many as the keys were made for
    #[arg(long, value_name = "K", allow_negative_numbers = true, value_parser = whole(1..=u32::MAX))]
    iterations: Option<u32>,
    /// First step size; only the one that the keys were made for
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = finite)]
    learning_rate: Option<f64>,
    /// Rows of a batch; only all of them
    #[arg(long, value_name = "B", value_parser = whole(1..=u32::MAX))]
    batch: Option<u32>,
    /// Folder for the state after each iteration, made if it does not exist
    #[arg(long, value_name = "DIR")]
    checkpoint: Option<PathBuf>,
    /// Go on from the state in the checkpoint folder, if there is one
    #[arg(long, requires = "checkpoint")]
    resume: bool,
}

#[derive(Serialize)]
struct Report {
    iterations: u32,
    resumed_after: u32,
    bootstraps: u32,
    seconds: f64,
    seconds_per_iteration: f64,
    peak_rss_bytes: Option<u64>,
    bytes: u64,
    path: PathBuf,
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    let (server, file) = server::Session::open(&args.files)?;
    let Plan::Train(plan) = &server.plan else {
        return Err(Error::Usage(format!(
            "{} was encrypted for {}: use `sudare stats`, or make keys with --for train:…",
            args.files.input.display(),
            server.meta.job
        )));
    };
    let iterations = check(args, plan)?;
    let checkpoint = match &args.checkpoint {
        Some(folder) => Some(Checkpoint::open(folder, args)?),
        None => None,
    };

    let start = Instant::now();
    let data = &server.table.content;
    let resumed = match &checkpoint {
        Some(checkpoint) if args.resume => checkpoint.read(plan, &server)?,
        _ => None,
    };
    let resumed_after = resumed.as_ref().map_or(0, |training| training.iteration);
    if resumed_after > iterations {
        return Err(Error::Usage(format!(
            "the checkpoint has {resumed_after} iterations, more than the {iterations} asked for: \
             ask for as many, or leave --resume out"
        )));
    }
    let mut training = match resumed {
        Some(training) => training,
        None => plan.start(&server.evaluator, data)?,
    };
    let progress = Progress::new("Training", iterations as usize);
    loop {
        progress.set(training.iteration as usize);
        if let Some(checkpoint) = &checkpoint {
            checkpoint.write(&training, &server)?;
        }
        if training.iteration >= iterations {
            break;
        }
        plan.step(&server.evaluator, data, &mut training)?;
    }
    drop(progress);
    let seconds = start.elapsed().as_secs_f64();
    let model = plan.model(&training)?;
    let meta = Meta { iterations: training.iteration, ..server.meta.clone() };
    let bytes = server.write_result(file, vec![model], &meta, Content::Model)?;

    let done = training.iteration - resumed_after;
    let report = Report {
        iterations: training.iteration,
        resumed_after,
        bootstraps: plan.bootstraps(training.iteration) - plan.bootstraps(resumed_after),
        seconds,
        seconds_per_iteration: seconds / f64::from(done.max(1)),
        peak_rss_bytes: machine::peak_rss_bytes(),
        bytes,
        path: args.files.output.clone(),
    };
    output.write(&report, |report| {
        format!(
            "{}: model after {} iterations{}, {}, {:.1} s\n",
            report.path.display(),
            report.iterations,
            output::bootstraps(report.bootstraps),
            output::bytes(report.bytes),
            report.seconds
        )
    })
}

/// Iterations to do, if what is asked for is what the keys were made for.
fn check(args: &Args, plan: &TrainPlan) -> Result<u32> {
    let job = plan.job();
    let planned = job.spec.iterations;
    let iterations = args.iterations.unwrap_or(planned);
    let usage = |message: String| Err(Error::Usage(message));
    if iterations > planned {
        return usage(format!(
            "{iterations} iterations asked for, the keys are for {planned}: ask for at most as \
             many, or make keys with --iterations {iterations}"
        ));
    }
    let least = planned.min(2);
    if iterations < least {
        return usage(format!(
            "{iterations} iteration(s) asked for, but the first {least} are one step: ask for at \
             least {least}, or make keys with --iterations {iterations}"
        ));
    }
    if let Some(rate) = args.learning_rate {
        let (LearningRate::Decaying { initial } | LearningRate::Constant(initial)) =
            job.spec.learning_rate;
        if rate != initial {
            return usage(format!(
                "a learning rate of {rate} asked for, the keys are for {initial}: leave it out, or \
                 make keys with --learning-rate {rate}"
            ));
        }
    }
    match args.batch {
        Some(batch) if batch as usize != job.rows => usage(format!(
            "batches of {batch} rows asked for, but this version trains on all {} rows in every \
             iteration: leave --batch out",
            job.rows
        )),
        _ => Ok(iterations),
    }
}

/// The state of a training, in a file.
struct Checkpoint {
    path: PathBuf,
    /// Of the encrypted table.
    digest: [u8; 32],
}

impl Checkpoint {
    /// A training that is not resumed does not overwrite another's state unless forced.
    fn open(folder: &Path, args: &Args) -> Result<Self> {
        files::make_folder(folder)?;
        let path = folder.join("training.ct");
        if !args.resume {
            files::check_free(&path, args.files.force)?;
        }
        Ok(Self { path, digest: files::digest(&args.files.input)? })
    }

    fn read(&self, plan: &TrainPlan, server: &server::Session) -> Result<Option<Training>> {
        if !self.path.exists() {
            say(format_args!("{} does not exist: training from the start", self.path.display()));
            return Ok(None);
        }
        let file = Opened::open(&self.path, Kind::Ciphertexts)?;
        let (_, meta) = file.meta(&[Content::Checkpoint])?;
        if meta.job != server.meta.job || meta.table != self.digest {
            return Err(Error::Usage(format!(
                "{} belongs to the training of another encrypted table: name another folder, or \
                 leave --resume out",
                self.path.display()
            )));
        }
        let state = file.ciphertexts(&server.params, 0)?.content;
        Ok(Some(plan.resume(meta.iterations, state)?))
    }

    fn write(&self, training: &Training, server: &server::Session) -> Result<()> {
        let meta = Meta {
            iterations: training.iteration,
            table: self.digest,
            ..Meta::of(server.meta.job)
        };
        let file = NewFile::create(&self.path, Access::Shared, true)?;
        server.write(file, &training.state, &meta, Content::Checkpoint)?;
        Ok(())
    }
}
