//! Every parameter set at its full size.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

mod common;

use common::sudare;
use serde_json::Value;
use std::sync::{Mutex, PoisonError};

/// One test at a time, for the sake of memory.
static MEMORY: Mutex<()> = Mutex::new(());

/// Operations of `sudare bench`.
const OPS: usize = 16;

/// A wrong result ends the benchmark with status 1.
#[test]
#[ignore = "minutes at full ring size"]
fn every_operation_is_right_in_every_parameter_set() {
    let _alone = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let list = sudare("params --json").json();
    let sets = list["presets"].as_array().unwrap();
    assert!(!sets.is_empty());
    for set in sets {
        let name = set["name"].as_str().unwrap();
        let run = sudare(&format!("bench --params {name} --runs 1 --json"));
        let lines: Vec<Value> =
            run.ok().stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), OPS, "{name}");
        for line in lines {
            assert_eq!((&line["params"], &line["level"]), (&set["name"], &set["levels"]), "{line}");
            let exact = line["op"].as_str().unwrap().starts_with("ntt");
            assert_eq!(line["precision_bits"].is_null(), exact, "{line}");
        }
    }
}

#[test]
#[ignore = "minutes at full ring size"]
fn training_is_right_in_a_ring_of_2_16() {
    let _alone = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let report = sudare("demo --iterations 12 --json").json();
    assert_eq!((&report["log_n"], &report["iterations"]), (&16.into(), &12.into()));
    assert_eq!(report["accuracy"], report["plain_accuracy"]);
}
