//! Options and program of jobs, which services and workers share.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};
use sudare_roles::{
    error::{Error, Result},
    machine,
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
