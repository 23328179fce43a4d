#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::output::{self, Output};
use serde::Serialize;
use std::path::{Path, PathBuf};
use sudare_roles::{
    error::{Error, Result},
    os::files,
    server::receipt::{Expected, Receipt, ServerKey, Statement},
};

/// Check the signed receipt of a result, without the service
///
/// A receipt names the keys and tables that a server computed a result from. It makes the server
/// accountable for the result, and does not prove that the result is right.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    sudare receipt check model.ct.receipt --server-key KEY --result model.ct \
    --evaluation-key keys/evaluation.key -i births.ct")]
pub struct Args {
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, clap::Subcommand)]
enum Step {
    /// Check a receipt with the public key of the server, and compare it with files
    Check(Check),
}

#[derive(Debug, clap::Args)]
struct Check {
    /// Receipt, which `sudare remote` writes next to the result
    file: PathBuf,
    /// Public key of the server, as its operator publishes it (`sudare serve key`)
    #[arg(long, value_name = "KEY", env = "SUDARE_SERVER_KEY")]
    server_key: ServerKey,
    /// Result that the receipt must be for
    #[arg(long, value_name = "FILE")]
    result: Option<PathBuf>,
    /// Evaluation key that the receipt must name
    #[arg(long, value_name = "FILE")]
    evaluation_key: Option<PathBuf>,
    /// Encrypted tables that the receipt must name, one -i for each
    #[arg(short, long, value_name = "FILE")]
    input: Vec<PathBuf>,
    /// Model that the receipt must name
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
}

#[derive(Serialize)]
struct Checked<'a> {
    statement: &'a Statement,
    compared: Vec<&'static str>,
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    let Step::Check(args) = &args.step;
    let receipt = Receipt::open(&args.file)?;
    let refused = Error::in_receipt(&args.file);
    // The server first: statements of another one are not worth comparing.
    receipt.expect_server(&args.server_key).map_err(&refused)?;
    let digest = |path: &Option<PathBuf>| path.as_deref().map(files::digest).transpose();
    let result = digest(&args.result)?;
    let keys = digest(&args.evaluation_key)?;
    let model = digest(&args.model)?;
    let tables = args.input.iter().map(|path: &PathBuf| files::digest(Path::new(path)));
    let tables = tables.collect::<Result<Vec<_>>>()?;
    let known = Expected {
        keys: keys.as_deref(),
        // Files that you do not name are not compared. The report lists those that were.
        tables: (!tables.is_empty()).then_some(&tables),
        model: model.as_deref().map(Some),
        result: result.as_deref(),
        ..Expected::default()
    };
    receipt.expect(&known).map_err(&refused)?;
    let compared = [
        ("result", result.is_some()),
        ("evaluation key", keys.is_some()),
        ("tables", !tables.is_empty()),
        ("model", model.is_some()),
    ];
    let compared = compared.into_iter().filter_map(|(name, given)| given.then_some(name)).collect();
    output.write(&Checked { statement: receipt.statement(), compared }, text)
}

fn text(checked: &Checked<'_>) -> String {
    let Checked { statement: said, compared } = checked;
    let compared = match &compared[..] {
        [] => "no file: pass --result, --evaluation-key, -i or --model".into(),
        names => names.join(", "),
    };
    let iterations =
        said.iterations.map_or_else(String::new, |count| format!(", {count} iterations"));
    let mut rows = vec![
        ("signed by", said.server_key.clone()),
        ("job", format!("{} of {}{iterations}", said.kind, said.job)),
        ("program", format!("sudare {}", said.program)),
        ("result", said.result.clone()),
        ("evaluation key", said.keys.clone()),
    ];
    rows.extend(said.tables.iter().map(|table| ("table", table.clone())));
    rows.extend(said.model.iter().map(|model| ("model", model.clone())));
    rows.push(("compared with", compared));
    output::fields(&rows)
}
