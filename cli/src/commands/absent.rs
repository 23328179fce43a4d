//! Commands that this build leaves out. Their error says how to get them, so that you do not mistake a small
//! build for an old version.

use clap::Subcommand;
use std::ffi::OsString;
use sudare_roles::error::{Error, Result};

/// The commands of the service.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve owners over HTTP (not in this build)
    #[cfg(not(feature = "serve"))]
    #[command(disable_help_flag = true)]
    Serve(Rest),
    /// Run jobs for a server (not in this build)
    #[command(disable_help_flag = true)]
    Work(Rest),
    /// Open the owner's side in a browser (not in this build)
    #[cfg(not(feature = "serve"))]
    #[command(disable_help_flag = true)]
    Web(Rest),
}

/// Arguments that nothing reads.
#[derive(Debug, clap::Args)]
pub struct Rest {
    // Accepts anything: the command is missing, so a complaint about its options would mislead.
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

/// Refuses.
///
/// # Errors
/// [`Error::Usage`] always, with the way to a build that has the command.
pub fn run(command: &Command) -> Result<()> {
    let name = match command {
        #[cfg(not(feature = "serve"))]
        Command::Serve(_) => "serve",
        Command::Work(_) => "work",
        #[cfg(not(feature = "serve"))]
        Command::Web(_) => "web",
    };
    Err(Error::Usage(format!(
        "this build has no `sudare {name}`: install the whole command with `cargo install --locked \
         --path cli --features full`, or install the Python package, which has it"
    )))
}
