//! Commands over the integers, on four slots.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

mod common;

use common::{BENCH_FIELDS, assert_fields, sudare};
use serde_json::Value;

#[test]
fn sets_are_listed_and_called_insecure() {
    let list = sudare("params --json").json();
    for name in ["clt-500", "clt-500-w32", "clt-4"] {
        assert!(list["integers"].as_array().unwrap().iter().any(|set| set == name), "{name}");
        let set = sudare(&format!("params {name} --json")).json();
        assert_eq!((&set["insecure"], set["security_bits"].as_f64()), (&true.into(), Some(0.0)));
        assert_eq!((set["eta"].as_u64(), set["rho"].as_u64()), (Some(192), Some(52)));
        assert!(sudare(&format!("params {name}")).ok().stdout.contains("insecure"), "{name}");
    }
    let full = sudare("params clt-500 --json").json();
    assert_eq!((full["slots"].as_u64(), full["gamma"].as_u64()), (Some(500), Some(380_000)));
    assert_eq!(full["aes_refreshed_before"], serde_json::json!([4, 6, 8, 10]));
    assert!(full["evaluation_key_bytes"].as_u64().unwrap() < 2 << 30);
    assert!(sudare("params").ok().stdout.contains("clt-500"));
}

#[test]
fn operations_are_timed_and_checked() {
    let run = sudare(
        "bench clt_mul clt_bootstrap aes128_block --params clt-4 --runs 2 --rounds 1 --json",
    );
    assert!(run.ok().stderr.contains("insecure"), "{}", run.stderr);
    let lines: Vec<Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ops: Vec<&str> = lines.iter().map(|line| line["op"].as_str().unwrap()).collect();
    assert_eq!(ops, ["clt_mul", "clt_bootstrap", "aes128_block"]);
    for line in &lines {
        assert_fields(line, &BENCH_FIELDS);
        assert_fields(line, &["slots", "noise_bits", "predicted_noise_bits", "insecure"]);
        assert!(line["min_ms"].as_f64().unwrap() > 0.0);
        assert!(line["noise_bits"].as_f64() <= line["predicted_noise_bits"].as_f64(), "{line}");
    }
    assert!(lines[1]["noise_bits"].as_f64().unwrap() <= 125.0);
    assert_eq!((lines[2]["rounds"].as_u64(), lines[2]["runs"].as_u64()), (Some(1), Some(1)));
}

#[test]
#[ignore = "a minute"]
fn demonstration_encrypts_the_block_of_the_standard() {
    let report = sudare("demo aes --json").json();
    assert_eq!(report["first_result"], "69c4e0d86a7b0430d8cdb78070b4c55a");
    assert_eq!((report["blocks"].as_u64(), report["products"].as_u64()), (Some(4), Some(5440)));
    assert_eq!(report["bootstraps"].as_u64(), Some(512));
    assert!(report["noise_bits"].as_f64() < report["noise_limit_bits"].as_f64());
}

#[test]
fn mistakes_are_told() {
    for (line, needed) in [
        ("bench clt_mul", "clt-500"),
        ("bench clt_mul --params n15", "clt-500-w32"),
        ("bench clt_mul add --params clt-4", "integers have parameter sets of their own"),
        ("bench clt_mul --params clt-4 --level 1", "integers have no levels"),
        ("bench clt_mul --params clt-4 --rounds 2", "--rounds is for aes128_block"),
        ("bench aes128_block --params clt-4 --rounds 11", "1 to 10"),
        ("demo aes --params n15", "clt-4"),
        ("demo --paper aes", "aes"),
        ("bench add --params clt-500", "n15"),
    ] {
        sudare(line).mistake(&[needed]);
    }
}
