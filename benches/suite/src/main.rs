//! The command `sudare-suite WORKLOAD STEP SIZE [OPTION…]`, which a harness runs once for each step.
#![forbid(unsafe_code)]

use std::{
    env,
    io::{self, Write},
    process::ExitCode,
};

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    match sudare_suite::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error}");
            error.exit_code().into()
        }
    }
}
