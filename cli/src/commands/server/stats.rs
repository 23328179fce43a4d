use super::inputs::ComputationFiles;
use crate::{output::Output, progress::Progress};
use serde::Serialize;
use std::{path::PathBuf, time::Instant};
use sudare_roles::{error::Result, format::label::Content, os::machine, text::size};

/// Compute statistics of the columns of an encrypted table
///
/// The keys determine which: moments, covariances and correlations (stats), sums by groups of rows
/// (groups), or counts in bins (histogram). The owner reads them with `sudare decrypt`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: sudare stats --evaluation-key evaluation.key -i table.ct -o statistics.ct"
)]
pub struct Args {
    #[command(flatten)]
    files: ComputationFiles,
}

#[derive(Serialize)]
struct Report {
    rows: usize,
    features: usize,
    ciphertexts: usize,
    bytes: u64,
    seconds: f64,
    peak_rss_bytes: Option<u64>,
    path: PathBuf,
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    let (server, file) = args.files.open()?;
    let job = server.meta.job;
    // Reading keys is not part of the time.
    let start = Instant::now();
    let results = {
        let progress = Progress::new("Computing", server.plan.outputs());
        server.statistics(|done| progress.set(done))?
    };
    let seconds = start.elapsed().as_secs_f64();
    let meta = server.meta_of_result();
    let ciphertexts = results.len();
    let bytes = server.write_result(file, results, &meta, Content::Statistics)?;
    let (rows, features) = job.shape()?;
    let path = args.files.output.clone();
    let peak_rss_bytes = machine::peak_rss_bytes();
    let report = Report { rows, features, ciphertexts, bytes, seconds, peak_rss_bytes, path };
    output.write(&report, |report| {
        format!(
            "{}: statistics of {} columns, {}, {:.1} s\n",
            report.path.display(),
            report.features,
            size::bytes(report.bytes),
            report.seconds
        )
    })
}
