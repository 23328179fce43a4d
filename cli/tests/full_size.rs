//! Every parameter set at its full size.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

#[path = "it/common/mod.rs"]
mod common;

use common::{BENCH_FIELDS, assert_fields, sudare, sudare_at};
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
    let report = sudare("demo --paper --iterations 12 --json").json();
    assert_eq!((&report["log_n"], &report["iterations"]), (&16.into(), &12.into()));
    assert_eq!(report["accuracy"], report["plain_accuracy"]);
}

/// A wrong result ends the benchmark with status 1.
#[test]
fn bootstrapping_is_right_and_timed_by_stages() {
    let _alone = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let set = sudare("params n15-boot --json").json();
    let run = sudare("bench bootstrap --params n15-boot --runs 1 --profile --json");
    let lines: Vec<Value> =
        run.ok().stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ops: Vec<&str> = lines.iter().map(|line| line["op"].as_str().unwrap()).collect();
    assert_eq!(ops, ["bootstrap", "slots_to_coeffs", "mod_raise", "coeffs_to_slots", "eval_mod"]);
    for line in &lines {
        assert_fields(line, &BENCH_FIELDS);
        assert_fields(
            line,
            &[
                "log_slots",
                "ciphertexts",
                "levels_left",
                "amortised_ms",
                "key_bytes",
                "matrix_bytes",
                "keygen_s",
                "prepare_s",
            ],
        );
    }
    let time = |line: &Value| line["median_ms"].as_f64().unwrap();
    let stages: f64 = lines[1..].iter().map(time).sum();
    assert!((stages - time(&lines[0])).abs() < 1e-3 * stages, "{stages}");
    assert_profiles(&lines);
    let whole = &lines[0];
    let bits = |field: &str| lines[0][field].as_f64().unwrap();
    assert!((bits("precision_bits") - set["precision_bits"].as_f64().unwrap()).abs() < 1.5);
    assert!(bits("worst_precision_bits") < bits("precision_bits"));
    assert_eq!(whole["levels_left"], set["levels_after"]);
    assert_eq!(whole["key_bytes"], set["evaluation_key_memory_bytes"]);
    assert_eq!(whole["matrix_bytes"], set["matrix_bytes"]);
}

/// Counts of the whole are the sums of those of stages, and times of the right size even if the
/// machine has other work.
fn assert_profiles(lines: &[Value]) {
    let counts = [
        "narrow_transforms",
        "wide_transforms",
        "streamed_products",
        "cached_products",
        "permuted",
        "key_bytes",
        "matrix_bytes",
        "row_bytes",
    ];
    for name in counts {
        let count = |line: &Value| line["profile"][name].as_u64().unwrap();
        assert_eq!(count(&lines[0]), lines[1..].iter().map(count).sum::<u64>(), "{name}");
    }
    // Each matrix is read once.
    assert_eq!(lines[0]["profile"]["matrix_bytes"], lines[0]["matrix_bytes"]);
    for line in lines {
        let profile = &line["profile"];
        let number = |value: &Value| value.as_f64().unwrap();
        let ratio = number(&profile["predicted_ms"]) / number(&line["median_ms"]);
        assert!((number(&profile["predicted_ratio"]) - ratio).abs() < 1e-9, "{line}");
        assert!((0.2..5.0).contains(&ratio), "{line}");
    }
    let rates = [
        "narrow_transform_ns",
        "wide_transform_ns",
        "streamed_product_ns",
        "cached_product_ns",
        "permuted_ns",
        "row_byte_ns",
    ];
    assert_fields(&lines[0]["profile"]["rates"], &rates);
    assert!(lines[1]["profile"]["rates"].is_null());
}

#[test]
#[ignore = "minutes at full ring size, 7 GiB of memory and 4 GiB of disk"]
fn keys_for_bootstrapping_are_written_and_explained() {
    let _alone = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let set = sudare("params n16-boot --json").json();
    let line = "keygen --params n16-boot --for bootstrap --out keys --json";
    let keygen = sudare_at(folder.path(), line).json();
    assert_eq!((&keygen["params"], &keygen["job"]), (&"n16-boot".into(), &"bootstrap".into()));
    assert_eq!(keygen["keys"], set["evaluation_keys"]);
    assert_eq!(keygen["evaluation_key_bytes"], set["evaluation_key_bytes"]);
    let info = sudare_at(folder.path(), "info keys/evaluation.key --json").json();
    let above = set["raised"]["levels_bits"].as_array().unwrap().len() as u64;
    let top = set["levels"].as_u64().unwrap() + above;
    assert_eq!((&info["job"], &info["raising"]["level"]), (&"bootstrap".into(), &top.into()));
    assert_eq!(info["raising"]["ephemeral_weight"], set["ephemeral_weight"]);
    // Keys to the ephemeral secret and back, and all others.
    let keys = info["keys"].as_array().unwrap();
    let known = set["keys"].as_array().unwrap();
    assert!(keys.len() == 3 && keys.iter().all(|key| known.contains(key)), "{keys:?}");
    assert_eq!(info["memory_bytes"], set["evaluation_key_memory_bytes"]);
    assert_eq!(info["security_bits"], set["security_bits"]);
    let line = "encrypt --public keys/public.key --data t.csv -o t.ct";
    sudare_at(folder.path(), line).mistake(&["for bootstrapping", "--for train"]);
}

/// An error of a weight above 2^-10 of the largest ends the demonstration with status 1.
#[test]
#[ignore = "minutes at full ring size"]
fn thirty_iterations_are_bootstrapped() {
    let _alone = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let report = sudare("demo --paper --iterations 30 --json").json();
    assert_eq!(report["iterations"], 30);
    assert!(report["bootstraps"].as_u64() > Some(0));
    assert!(report["security_bits"].as_f64() >= Some(128.0));
    assert_eq!(report["accuracy"], report["plain_accuracy"]);
}
