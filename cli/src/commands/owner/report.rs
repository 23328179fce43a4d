use super::evaluate::Labelled;
use crate::output::Output;
use serde::Serialize;
use std::path::PathBuf;
use sudare_roles::{
    error::Result,
    files,
    report::{self, Report},
};

/// Show a decrypted model and how well it does on a table, as a page for a browser
///
/// One HTML file that needs no other: quality, ROC curve, how scores are spread and how right
/// probabilities are, weights, and where the model has a history (`sudare train --history`) the
/// loss and the AUC after each iteration, beside the same training in the clear if the table is
/// the one that was trained on and that takes seconds at most.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: sudare report --model model.json --data births.csv -o report.html"
)]
pub struct Args {
    #[command(flatten)]
    labelled: Labelled,
    /// Another table, whose rows the model was not trained on, to measure it on as well
    #[arg(long, value_name = "T.csv")]
    test: Option<PathBuf>,
    /// The page; standard output if left out, unless --json asks for the figures
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// The figures of a page, and where it is.
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
