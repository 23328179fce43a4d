//! Options and program of jobs, which services and workers share.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};
use sudare_roles::{
    error::{Error, Result},
    os::machine,
};
use sudare_server::{Collector, Program};

/// Jobs leave this part of the machine's memory free by default: one in four.
// The rest serves the server itself, cached files and the system.
const FREE_MEMORY: u64 = 4;

/// Returns the bytes of memory that jobs may use together by default.
pub fn memory_for_jobs() -> u64 {
    // Where the system does not tell, no job is refused for its memory.
    machine::memory_bytes().map_or(u64::MAX, |all| all.saturating_sub(all / FREE_MEMORY))
}

/// Receiver of spans of requests and jobs.
#[derive(Debug, clap::Args)]
pub struct Telemetry {
    /// OpenTelemetry collector to send spans of requests and jobs to, such as
    /// http://localhost:4318, by OTLP over HTTP; default: no spans. OTEL_EXPORTER_OTLP_HEADERS has
    /// its headers
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    otlp: Option<String>,
}

impl Telemetry {
    /// Returns the collector. An empty address means no collector, as an empty variable does.
    pub fn collector(&self) -> Result<Option<Collector>> {
        let address = self.otlp.as_deref().filter(|address| !address.is_empty());
        let collector = address.map(|address| {
            address.parse().map_err(|error| Error::Usage(format!("--otlp {address}: {error}")))
        });
        collector.transpose()
    }
}

/// Environment variable with the Python that started this process. The system knows only the
/// program, not the virtual environment of its packages.
const PYTHON: &str = "SUDARE_PYTHON";

/// Returns the program that does a job in a process of its own: this program, or the Python that
/// runs it.
pub fn job_program() -> Result<Program> {
    let file = std::env::current_exe();
    let file = file.map_err(|error| Error::io("find", Path::new("this program"), error))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // In the Python package the process is the interpreter, which needs the module to run.
    let (file, module): (_, &[&str]) = match name.starts_with("python") {
        true => (std::env::var_os(PYTHON).map_or(file, PathBuf::from), &["-m", "sudare"]),
        false => (file, &[]),
    };
    let args = module.iter().chain(&["serve", "job"]).map(OsString::from).collect();
    Ok(Program { file, args })
}
