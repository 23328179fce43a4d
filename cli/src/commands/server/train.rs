use super::inputs::ComputationFiles;
use crate::{
    output::{self, Output, say},
    progress::Progress,
    values::{finite, whole},
};
use serde::Serialize;
use std::{
    io::{Read, Seek},
    path::PathBuf,
    time::Instant,
};
use sudare_apps::logreg::TrainPlan;
use sudare_roles::{
    error::{Error, Result},
    format::label::Content,
    job::Plan,
    os::machine,
    server::training::{CheckpointFolder, TrainingServer, iterations_of},
    text::size,
};

/// Train a logistic regression on an encrypted table, or on the tables of several owners
///
/// The keys determine the step sizes, the batches and the maximum number of iterations. The server
/// bootstraps weights when levels run out. It reads rows from their files when it needs them, in
/// parts of at most a gigabyte.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: sudare train --evaluation-key evaluation.key -i table.ct -o model.ct --checkpoint state --resume"
)]
pub struct Args {
    #[command(flatten)]
    files: ComputationFiles,
    /// Iterations; default and maximum: the number that the keys were made for
    #[arg(long, value_name = "K", allow_negative_numbers = true, value_parser = whole(1..=u32::MAX))]
    iterations: Option<u32>,
    /// Step size of the first iteration, as a check: it must equal the value of the keys
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = finite)]
    learning_rate: Option<f64>,
    /// Maximum rows of a batch, as a check: it must equal the number of the keys
    #[arg(long, value_name = "B", value_parser = whole(1..=u32::MAX))]
    batch: Option<u32>,
    /// Directory for the states after the last two iterations, created if it does not exist
    #[arg(long, value_name = "DIR")]
    checkpoint: Option<PathBuf>,
    /// Store the weights after each iteration with the model, for `sudare report`. Each iteration
    /// adds a ciphertext of the lowest level that holds them, 0.2 to 1 MB in the model and in the
    /// checkpoint directory, at almost no cost of time
    #[arg(long)]
    history: bool,
    /// Resume from the last state in the checkpoint directory, if there is one
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
    let (session, file) = args.files.open()?;
    let Plan::Train(plan) = &session.plan else {
        return Err(Error::Usage(format!(
            "{} was encrypted for {}: use `sudare {}`, or make keys with --for train:…",
            args.files.first().display(),
            session.meta.job,
            session.plan.command()
        )));
    };
    // Before the checkpoint directory is opened, which a wrong option must not change.
    let iterations = check(args, plan)?;
    let start = Instant::now();
    let checkpoint = checkpoint_folder(args);
    let notice = |damaged: &str| say(format_args!("{damaged}"));
    let mut server = TrainingServer::open(session, checkpoint, args.history, notice)?;
    let resumed_after = if server.resumed() { server.training().iteration } else { 0 };
    if let (0, true, Some(folder)) = (resumed_after, args.resume, &args.checkpoint) {
        say(format_args!("{} has no state: training from the start", folder.display()));
    }
    // Only the last states are kept, so the training cannot go back.
    if resumed_after > iterations {
        return Err(Error::Usage(format!(
            "the checkpoint has {resumed_after} iterations, more than --iterations {iterations}: pass \
             --iterations {resumed_after} or more, or leave --resume out"
        )));
    }
    train(&mut server, iterations)?;
    let seconds = start.elapsed().as_secs_f64();
    let (model, meta) = server.model()?;
    let bytes = server.session().write_result(file, model, &meta, Content::Model)?;

    let plan = server.plan();
    let done = meta.iterations.saturating_sub(resumed_after);
    let report = Report {
        iterations: meta.iterations,
        resumed_after,
        bootstraps: plan
            .bootstraps_within(meta.iterations)
            .saturating_sub(plan.bootstraps_within(resumed_after)),
        seconds,
        // A resumed training may have nothing left to do.
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
            size::bytes(report.bytes),
            report.seconds
        )
    })
}

/// Does iterations until `iterations` are done.
fn train(server: &mut TrainingServer<impl Read + Seek + Send>, iterations: u32) -> Result<()> {
    let progress = Progress::new("Training", iterations as usize);
    let first = server.training().iteration;
    let begun = Instant::now();
    progress.set(first as usize);
    while server.training().iteration < iterations {
        let before = Instant::now();
        server.step()?;
        let training = server.training();
        let done = training.iteration;
        let level = training.state.first().map_or(0, |weights| weights.level().0);
        let seconds = before.elapsed().as_secs_f64();
        let so_far = begun.elapsed().as_secs_f64();
        // The mean of all iterations: those that bootstrap take far longer than the others.
        let left = so_far / f64::from(done.saturating_sub(first))
            * f64::from(iterations.saturating_sub(done));
        let details = format!(", level {level:>2}, {seconds:>7.1} s, {left:>7.0} s left");
        progress.set_with(done as usize, &details);
    }
    Ok(())
}

/// Returns the directory for states, if the user wants them.
fn checkpoint_folder(args: &Args) -> Option<CheckpointFolder> {
    let folder = args.checkpoint.as_ref()?;
    Some(CheckpointFolder {
        folder: folder.clone(),
        resume: args.resume,
        replace: args.files.force,
    })
}

/// Returns the iterations to do, if the arguments agree with the keys.
fn check(args: &Args, plan: &TrainPlan) -> Result<u32> {
    let job = plan.job();
    let iterations = iterations_of(plan, args.iterations)?;
    let usage = |message: String| Err(Error::Usage(message));
    if let Some(rate) = args.learning_rate {
        let initial = job.spec.learning_rate.at(0);
        if rate != initial {
            return usage(format!(
                "a learning rate of {rate} does not fit: the keys are for {initial}; leave it out, or make \
                 keys with --learning-rate {rate}"
            ));
        }
    }
    // Without batches, each iteration uses all rows.
    let planned = job.spec.batch.unwrap_or(job.rows);
    match args.batch {
        Some(batch) if batch as usize != planned => usage(format!(
            "batches of {batch} rows do not fit: the keys are for {planned}; leave --batch out, or make \
             keys with --batch {batch}"
        )),
        _ => Ok(iterations),
    }
}
