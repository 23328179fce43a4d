//! Workloads of the public benchmarking suite of homomorphic encryption, step by step.
//!
//! A harness makes the data, runs one process for each step, measures time and bytes, and checks
//! the result. See `docs/suite.md`. A workload is a module with a function `run`, which takes the
//! name of a step and an [`Instance`].
#![forbid(unsafe_code)]

pub mod fetch_by_similarity;
mod instance;
pub mod ml_inference;

pub use instance::{Instance, Steps};

use std::path::Path;
use sudare_roles::error::{Error, Result};

/// Runs `WORKLOAD STEP SIZE [OPTION…]` in the current directory, which must be the directory of the
/// harness.
///
/// # Errors
/// [`Error::Usage`] for other arguments; errors from the step.
pub fn run(args: &[String]) -> Result<()> {
    let [workload, step, size, options @ ..] = args else {
        return Err(usage("a workload, a step and a size are needed"));
    };
    let root = Path::new(".");
    match workload.as_str() {
        "fetch-by-similarity" => {
            let instance = Instance::new(root, size, fetch_by_similarity::SIZES, options)?;
            fetch_by_similarity::run(step, &instance)
        }
        "ml-inference" => {
            let instance = Instance::new(root, size, ml_inference::SIZES, options)?;
            ml_inference::run(step, &instance)
        }
        _ => Err(usage(&format!("there is no workload {workload:?}"))),
    }
}

/// Creates the error for wrong arguments.
fn usage(problem: &str) -> Error {
    Error::Usage(format!(
        "{problem}: write sudare-suite WORKLOAD STEP SIZE [OPTION…], such as sudare-suite \
         fetch-by-similarity client_key_generation 1"
    ))
}

/// Creates the error for an unknown step.
fn no_step(step: &str) -> Error {
    usage(&format!("there is no step {step:?}"))
}
