use crate::{commands::shared::secret_key, output::Output, passphrase};
use serde::Serialize;
use std::path::PathBuf;
use sudare_roles::{
    error::{Error, Result},
    os::files::{self, Access, NewFile},
    owner::secret,
    text::size,
};

/// Seal the file of a secret key with a passphrase, or unseal it
///
/// Every command accepts a sealed key and asks for the passphrase on the terminal. No one can
/// restore a forgotten passphrase, nor the data that was encrypted for its key.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudare key seal keys/secret.key\n  \
    sudare key unseal keys/secret.key -o clear.key")]
pub struct Args {
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, clap::Subcommand)]
enum Step {
    /// Seal the file with a passphrase
    #[command(after_help = "Example: sudare key seal keys/secret.key")]
    Seal(Files),
    /// Write the key in the clear
    #[command(after_help = "Example: sudare key unseal keys/secret.key -o clear.key")]
    Unseal(Files),
}

#[derive(Debug, clap::Args)]
struct Files {
    /// File of the secret key
    file: PathBuf,
    /// New file; default: replace the old file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long, requires = "output")]
    force: bool,
    #[command(flatten)]
    passphrase: passphrase::Source,
}

#[derive(Serialize)]
struct Report {
    sealed: bool,
    key_id: String,
    bytes: u64,
    path: PathBuf,
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    let (files, seal) = match &args.step {
        Step::Seal(files) => (files, true),
        Step::Unseal(files) => (files, false),
    };
    let path = files.output.as_ref().unwrap_or(&files.file);
    // Without `-o` the key is replaced in place, so that no copy in the clear stays next to a
    // sealed one.
    let overwrite = files.force || files.output.is_none();
    files::check_free(path, overwrite)?;
    let file = secret_key::open(&files.file)?;
    if seal == file.sealed().is_some() {
        let (state, command) = if seal { ("sealed", "unseal") } else { ("in the clear", "seal") };
        return Err(Error::Usage(format!(
            "{} is already {state}: leave it as it is, or run `sudare key {command}` first",
            files.file.display()
        )));
    }
    let params = file.opened().params()?;
    let label = file.opened().info().label.clone();
    // The new file is written whole before it replaces the old one: a key is never lost halfway.
    let mut new = NewFile::create(path, Access::Owner, overwrite)?;
    let key = file.key(&params, || files.passphrase.of(&files.file))?;
    let passphrase = seal.then(|| files.passphrase.to_seal(&files.file)).transpose()?;
    let bytes = secret::write(&mut new, path, &params, &key, &label, passphrase.as_ref())?;
    new.finish()?;
    let report = Report { sealed: seal, key_id: key.id().to_string(), bytes, path: path.clone() };
    output.write(&report, |report| {
        let state = if report.sealed { "sealed with a passphrase" } else { "in the clear" };
        let path = report.path.display();
        let size = size::bytes(report.bytes);
        format!("{path}: secret key {} {state}, {size}\n", report.key_id)
    })
}
