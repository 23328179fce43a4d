use super::server::Files;
use crate::{
    args::{finite, whole},
    output::{self, Output, say},
    progress::Progress,
};
use serde::Serialize;
use std::{path::PathBuf, time::Instant};
use sudare_apps::logreg::{LearningRate, TrainPlan, Training};
use sudare_roles::{
    artefacts::{self, Content, Origin, Plan},
    checkpoint::Checkpoints,
    error::{Error, Result},
    machine,
    server::Batch,
};

/// Train a logistic regression on an encrypted table
///
/// The step sizes, the batches and the number of iterations are those that the keys were made
/// for. Weights are bootstrapped when levels run out. Of the table, the rows of two batches at most
/// are in memory.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: sudare train --evaluation-key evaluation.key -i table.ct -o model.ct --checkpoint state --resume"
)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// Iterations, at most as many as the keys were made for
    #[arg(long, value_name = "K", allow_negative_numbers = true, value_parser = whole(1..=u32::MAX))]
    iterations: Option<u32>,
    /// First step size; only the one that the keys were made for
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = finite)]
    learning_rate: Option<f64>,
    /// Rows of a batch; only as many as the keys were made for
    #[arg(long, value_name = "B", value_parser = whole(1..=u32::MAX))]
    batch: Option<u32>,
    /// Folder for the states after the last two iterations, made if it does not exist
    #[arg(long, value_name = "DIR")]
    checkpoint: Option<PathBuf>,
    /// Keep the weights after each iteration with the model, for `sudare report`: a ciphertext
    /// each, of the lowest level that holds them, 0.2 to 1 MB in the model and the checkpoint
    /// folder, and hardly any time
    #[arg(long)]
    history: bool,
    /// Go on from the last state in the checkpoint folder, if there is one
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
    let (server, file) = args.files.open()?;
    let Plan::Train(plan) = &server.plan else {
        return Err(Error::Usage(format!(
            "{} was encrypted for {}: use `sudare {}`, or make keys with --for train:…",
            args.files.input.display(),
            server.meta.job,
            server.plan.command()
        )));
    };
    let iterations = check(args, plan)?;
    let checkpoints = match &args.checkpoint {
        Some(folder) => {
            let origin = Origin::new(
                artefacts::digest(&args.files.evaluation_key)?,
                artefacts::digest(&args.files.input)?,
            );
            Some(Checkpoints::open(folder, origin, args.resume || args.files.force)?)
        }
        None => None,
    };
    let resumed = match &checkpoints {
        Some(checkpoints) if args.resume => {
            checkpoints.last(plan, &server, |damaged| say(format_args!("{damaged}")))?
        }
        _ => None,
    };
    if let (None, true, Some(folder)) = (&resumed, args.resume, &args.checkpoint) {
        say(format_args!("{} has no state: training from the start", folder.display()));
    }
    let resumed_after = resumed.as_ref().map_or(0, |training| training.iteration);
    if resumed_after > iterations {
        return Err(Error::Usage(format!(
            "the checkpoint has {resumed_after} iterations, more than the {iterations} asked for: \
             ask for as many, or leave --resume out"
        )));
    }

    let mut history = match (&checkpoints, &resumed) {
        (Some(checkpoints), Some(training)) if args.history => {
            checkpoints.weights(training, &server)?
        }
        _ => Vec::new(),
    };
    let mut keep = |training: &Training| -> Result<()> {
        server.check_keys()?;
        if args.history {
            let weights = plan.snapshot(&server.evaluator, training)?;
            if let Some(checkpoints) = &checkpoints {
                checkpoints.write_weights(&weights, training.iteration, &server)?;
            }
            history.push(weights);
        }
        match &checkpoints {
            Some(checkpoints) => checkpoints.write(training, &server),
            None => Ok(()),
        }
    };

    let start = Instant::now();
    let trainer = plan.trainer(&server.evaluator)?;
    let (mut rows, table) = (Batch::default(), &server.table);
    let progress = Progress::new("Training", iterations as usize);
    let mut training = match resumed {
        Some(training) => training,
        None => {
            let training = trainer.start(rows.bring(table, plan.batch(0))?)?;
            keep(&training)?;
            training
        }
    };
    let (first, begun) = (training.iteration, Instant::now());
    progress.set(first as usize);
    while training.iteration < iterations {
        let before = Instant::now();
        let iteration = training.iteration;
        rows.bring(table, plan.batch(iteration))?;
        let next = if iteration + 1 < iterations { iteration + 1 } else { iteration };
        rows.with_next(table, plan.batch(next), |batch| Ok(trainer.step(batch, &mut training)?))?;
        keep(&training)?;
        let done = training.iteration;
        let level = training.state.first().map_or(0, |weights| weights.level().0);
        let (seconds, so_far) = (before.elapsed().as_secs_f64(), begun.elapsed().as_secs_f64());
        let left = so_far / f64::from(done - first) * f64::from(iterations - done);
        let details = format!(", level {level:>2}, {seconds:>7.1} s, {left:>7.0} s left");
        progress.set_with(done as usize, &details);
    }
    drop(progress);
    let seconds = start.elapsed().as_secs_f64();
    let mut result = vec![plan.model(&training)?];
    result.append(&mut history);
    let meta = server.meta_after(training.iteration);
    let bytes = server.write_result(file, result, &meta, Content::Model)?;

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
            machine::bytes(report.bytes),
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
    let planned = job.spec.batch.unwrap_or(job.rows);
    match args.batch {
        Some(batch) if batch as usize != planned => usage(format!(
            "batches of {batch} rows asked for, the keys are for {planned}: leave --batch out, or \
             make keys with --batch {batch}"
        )),
        _ => Ok(iterations),
    }
}
