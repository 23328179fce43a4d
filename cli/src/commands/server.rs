//! What the commands of the server share: the files that they read and write, and what does jobs.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};
use sudare_roles::{
    error::{Error, Result},
    files::{Access, NewFile},
    machine,
    server::{Inputs, Session},
};
use sudare_server::{Collector, Program};

/// Of the memory of the machine, the part that jobs leave free if it is not said.
const FREE_MEMORY: u64 = 4;

/// Bytes of memory that jobs may take together if it is not said.
pub fn memory_for_jobs() -> u64 {
    machine::memory_bytes().map_or(u64::MAX, |all| all.saturating_sub(all / FREE_MEMORY))
}

/// Who is told of requests and jobs besides those who read the log.
#[derive(Debug, clap::Args)]
pub struct Telemetry {
    /// Send spans of requests and jobs to this collector of OpenTelemetry, such as http://localhost:4318, by OTLP in HTTP; headers for it are in OTEL_EXPORTER_OTLP_HEADERS
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    otlp: Option<String>,
}

impl Telemetry {
    /// The collector; an empty address names none, as a variable without a value.
    pub fn collector(&self) -> Result<Option<Collector>> {
        let address = self.otlp.as_deref().filter(|address| !address.is_empty());
        let collector = address.map(|address| {
            address.parse().map_err(|error| Error::Usage(format!("--otlp {address}: {error}")))
        });
        collector.transpose()
    }
}

/// Files that a computation reads and writes.
#[derive(Debug, clap::Args)]
pub struct Files {
    /// Evaluation key
    #[arg(long, value_name = "FILE")]
    pub evaluation_key: PathBuf,
    /// Encrypted table; to train on those of several owners, one -i for each
    #[arg(short, long, value_name = "FILE", required = true)]
    pub input: Vec<PathBuf>,
    /// Encrypted result
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Leave the evaluation key in its file, which must not change meanwhile, and read it there
    #[arg(long)]
    pub map_keys: bool,
    /// Keep half of the evaluation key and compute the other when it is needed: half the memory
    /// for a fifth more time
    #[arg(long)]
    pub small_keys: bool,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
}

impl Files {
    /// The first encrypted table, of which there is one at least.
    pub fn first(&self) -> &Path {
        self.input.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// Reads keys and table, which must belong together, and begins the file of the result, so
    /// that no work is done that cannot be written.
    pub fn open(&self) -> Result<(Session, NewFile)> {
        let output = NewFile::create(&self.output, Access::Shared, self.force)?;
        let inputs = Inputs {
            evaluation_key: self.evaluation_key.clone(),
            tables: self.input.clone(),
            map_keys: self.map_keys,
            small_keys: self.small_keys,
        };
        Ok((Session::open(&inputs)?, output))
    }
}

/// The variable of the environment in which Python says how it was started: the system tells of the
/// program alone, and not of the environment of packages that it belongs to.
const PYTHON: &str = "SUDARE_PYTHON";

/// What does a job in a process of its own: this program, or the Python that runs it.
pub fn job_program() -> Result<Program> {
    let file = std::env::current_exe();
    let file = file.map_err(|error| Error::io("find", Path::new("this program"), error))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (file, module): (_, &[&str]) = match name.starts_with("python") {
        true => (std::env::var_os(PYTHON).map_or(file, PathBuf::from), &["-m", "sudare"]),
        false => (file, &[]),
    };
    let args = module.iter().chain(&["serve", "job"]).map(OsString::from).collect();
    Ok(Program { file, args })
}
