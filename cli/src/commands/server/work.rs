use super::jobs::{Telemetry, job_program, memory_for_jobs};
use crate::{
    output::{Output, say},
    remote::{Client, read_token},
    values::gibibytes,
};
use std::{path::PathBuf, time::Duration};
use sudare_roles::error::Result;
use sudare_server::WorkerConfig;

/// Do jobs of a service (`sudare serve`) on this machine
///
/// A worker claims one job at a time, and renews its lease while a process computes. It stores
/// states of trainings at the service, so that another worker can continue if this one is lost or
/// stopped. It needs a token of a worker (`sudare serve token add --worker`), and sees only
/// evaluation keys and ciphertexts.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    sudare work --server https://server.example --token-file north.token --folder /var/lib/sudare-worker")]
pub struct Args {
    /// Address of the service, such as https://server.example
    #[arg(long, value_name = "URL")]
    server: String,
    /// File of the token; default: the variable SUDARE_TOKEN
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File of the certificates, in PEM, that sign the service's certificate; default: public
    /// authorities
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Directory of the worker, created if it does not exist
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    /// Memory that a job may use, in GiB; default: three quarters of the machine's, or of the limit
    /// of its container
    #[arg(long, value_name = "GIB", value_parser = gibibytes)]
    memory: Option<u64>,
    /// Maximum size of the keys and tables stored for further jobs, in GiB
    #[arg(long, value_name = "GIB", default_value = "64", value_parser = gibibytes)]
    cache: u64,
    /// Seconds in which a training may finish its iteration when the worker is stopped
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    grace: u32,
    #[command(flatten)]
    telemetry: Telemetry,
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    let token = read_token(args.token_file.as_deref())?;
    let client = Client::new(&args.server, &token, args.ca.as_deref())?;
    if !output.json {
        say(format_args!("claiming jobs of {}", args.server));
    }
    let config = WorkerConfig {
        folder: args.folder.clone(),
        memory_bytes: args.memory.unwrap_or_else(memory_for_jobs),
        cache_bytes: args.cache,
        grace: Duration::from_secs(args.grace.into()),
        collector: args.telemetry.collector()?,
        program: job_program()?,
    };
    sudare_server::work_for(client, config)
}
