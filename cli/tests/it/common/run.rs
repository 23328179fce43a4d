//! The output of programs, and checks of it.
#![allow(dead_code, reason = "each test file uses a part")]

use serde_json::Value;
use std::process::{Command, Output};

/// Fields of every timing; `precision_bits` is null where results are exact.
pub const BENCH_FIELDS: [&str; 9] =
    ["op", "params", "level", "threads", "isa", "median_ms", "min_ms", "runs", "bytes"];

/// Output and exit status of a finished program.
pub struct Run {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Run {
    fn from(Output { status, stdout, stderr }: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { status: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }
}

impl Run {
    /// Runs a program to its end.
    pub fn of(command: &mut Command) -> Self {
        command.output().unwrap().into()
    }

    /// The one JSON object on standard output of a run that went well.
    pub fn json(&self) -> Value {
        self.ok();
        assert_eq!(self.stdout.lines().count(), 1, "{}", self.stdout);
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// A run that went well.
    pub fn ok(&self) -> &Self {
        assert_eq!(self.status, Some(0), "{}\n{}", self.stdout, self.stderr);
        self
    }

    /// A mistake of the user: status 2, nothing on standard output, and a message
    /// that has every one of `parts`.
    pub fn mistake(&self, parts: &[&str]) -> &Self {
        assert_eq!(self.status, Some(2), "{}\n{}", self.stdout, self.stderr);
        assert_eq!(self.stdout, "");
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} is not in {:?}", self.stderr);
        }
        self
    }
}

/// Asserts that `object` has every one of `names`, none of them null.
pub fn assert_fields(object: &Value, names: &[&str]) {
    for name in names {
        assert!(object.get(name).is_some_and(|value| !value.is_null()), "{name} in {object}");
    }
}
