use super::evaluate::Labelled;
use crate::output::Output;
use serde::Serialize;
use std::path::PathBuf;
use sudare_roles::{
    clear::report::{self, Report},
    error::Result,
    os::files,
};

/// Show a decrypted model and its quality on a table, as a page for a browser
///
/// The page is one self-contained HTML file. It shows quality, ROC curve, distribution of scores,
/// calibration of probabilities and weights. If the model has a history (`sudare train --history`),
/// it also shows the loss and the AUC after each iteration. For the training table, it adds the
/// same training in the clear, if that takes only seconds.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: sudare report --model model.json --data births.csv -o report.html"
)]
pub struct Args {
    #[command(flatten)]
    labelled: Labelled,
    /// Second table to measure the model on, with rows that it was not trained on
    #[arg(long, value_name = "T.csv")]
    test: Option<PathBuf>,
    /// File for the page; default: standard output, or with --json the figures
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// The figures of a page, and its path.
#[derive(Serialize)]
struct Reported<'a> {
    #[serde(flatten)]
    report: Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a PathBuf>,
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    if let Some(path) = &args.output {
        files::check_free(path, args.force)?;
    }
    let (model, table) = args.labelled.read()?;
    let test = args.test.as_ref().map(|path| args.labelled.table(&model, path)).transpose()?;
    let report = Report::new(&model, &table, test.as_ref())?;
    // The name alone: a page that is passed on should not show the owner's directories.
    let data = args.labelled.data.file_name().map_or("".into(), |name| name.to_string_lossy());
    match &args.output {
        Some(path) => {
            files::write_text(path, &report.page(&data), args.force)?;
            let reported = Reported { report, path: Some(path) };
            output.write(&reported, |reported| {
                let figures = report::fields(reported.report.quality()).into_iter().take(4);
                let figures: Vec<_> =
                    figures.map(|(name, value)| format!("{name} {value}")).collect();
                format!("{}: {}\n", path.display(), figures.join(", "))
            })
        }
        None => output.write(&Reported { report, path: None }, |shown| shown.report.page(&data)),
    }
}
