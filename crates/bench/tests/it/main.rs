//! The program, run as its users run it.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

#[path = "../../../../cli/tests/it/common/run.rs"]
mod run;

use run::{BENCH_FIELDS, Run, assert_fields};
use serde_json::Value;
use std::process::Command;

/// Runs `sudare-bench` with a line of arguments that hold no blanks.
fn bench(line: &str) -> Run {
    Run::of(Command::new(env!("CARGO_BIN_EXE_sudare-bench")).args(line.split_whitespace()))
}

#[test]
fn functions_and_statistics_are_timed_and_checked() {
    for (line, needed_bits) in [
        ("inverse exp sigmoid --params functions-n14", 32.0),
        ("mean variance --params stats-n14", 20.0),
        ("inverse exp sigmoid --params fullrns-functions", 32.0),
        ("mean variance --params fullrns-stats", 20.0),
    ] {
        let run = bench(&format!("{line} --runs 1 --json"));
        for line in run.ok().stdout.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            assert!(line["precision_bits"].as_f64().unwrap() > needed_bits, "{line}");
        }
    }
    bench("inverse --params n13").mistake(&["level"]);
}

#[test]
fn transforms_are_timed_and_checked() {
    // Two factors take two levels, which the smallest set has.
    let run = bench("dft --log-slots 8 --radix 16 --runs 1 --json").json();
    assert_fields(&run, &BENCH_FIELDS);
    assert_eq!((&run["params"], &run["log_slots"]), (&"n13".into(), &8.into()));
    assert!(run["precision_bits"].as_f64().unwrap() > 17.0, "{run}");
    let run = bench("linear_transform --params n13 --level 2 --runs 1 --json").json();
    assert_eq!((&run["level"], &run["log_slots"]), (&2.into(), &12.into()));
    assert!(run["precision_bits"].as_f64().unwrap() > 17.0, "{run}");
}

#[test]
fn traces_are_timed_and_checked_beside_published_ones() {
    let run = bench("trace --m 3,2 --level 1 --special 10 --h 1..2 --runs 1 --json");
    let lines: Vec<Value> =
        run.ok().stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let groups = |line: &Value| line["groups"].to_string();
    assert_eq!(lines.iter().map(groups).collect::<Vec<_>>(), ["[8]", "[4,2]", "[4]", "[2,2]"]);
    for line in &lines {
        assert_eq!(line["params"], "trace-k10-l1");
        assert!(line["precision_bits"].as_f64().unwrap() > 13.0, "{line}");
        assert!(line["expected_ms"].as_f64().unwrap() > 0.0 && line["chosen"].is_boolean());
        assert_eq!(line["published"].is_null(), line["m"] == 3, "{line}");
    }
}

#[test]
fn strategies_give_the_same_results_and_are_timed_in_turn() {
    let run = bench("strategies --params n13 --levels 1,3 --threads 1,3 --runs 1 --json");
    let lines: Vec<Value> =
        run.ok().stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let key = |line: &Value| {
        let op = line["op"].as_str().unwrap().to_owned();
        (op, line["level"].as_u64().unwrap(), line["threads"].as_u64().unwrap())
    };
    let expected = ["add", "cmult", "mult", "rescale", "rotate"].into_iter().flat_map(|op| {
        [(1, 1), (1, 3), (3, 1), (3, 3)].map(|(level, threads)| (op.to_owned(), level, threads))
    });
    assert_eq!(lines.iter().map(key).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    // A different result of one strategy is an error; here the threads are compared.
    for pair in lines.chunks(2) {
        assert_eq!(pair[0]["digest"], pair[1]["digest"]);
    }
    let mut digests: Vec<&str> =
        lines.iter().map(|line| line["digest"].as_str().unwrap()).collect();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), lines.len() / 2);
    for line in &lines {
        assert_fields(line, &BENCH_FIELDS);
        assert!(line["precision_bits"].as_f64().unwrap() > 17.0, "{line}");
        let ratios = ["coefficients", "limbs", "both"].map(|name| {
            let times = &line["strategies"][name];
            assert!(times["median_ms"].as_f64() >= times["min_ms"].as_f64(), "{line}");
            times["ratio"].as_f64().unwrap()
        });
        let worst = line["ratio"].as_f64().unwrap();
        assert!(ratios.contains(&worst) && ratios.iter().all(|&ratio| ratio <= worst), "{line}");
        assert_eq!(line["slower"], worst > 1.05, "{line}");
        assert!(line["published"]["ms"].is_null());
    }
    let one = bench("strategies --params n13 --op rotate --level 1 --threads 2 --runs 1");
    assert_eq!(one.ok().stdout.matches("rotate").count(), 1, "{}", one.stdout);
}

#[test]
fn fused_products_and_sums_are_timed_and_checked() {
    let run = bench("fma --runs 1 --json");
    let lines: Vec<Value> =
        run.ok().stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 6 * 15);
    assert_eq!(lines[89]["published_fused_us"].as_f64(), Some(475.72));
}

#[test]
fn removal_of_digits_is_timed_and_checked() {
    let line = bench("digit_removal --params digits-5-3-1 --runs 1 --json").json();
    assert_fields(&line, &BENCH_FIELDS);
    assert_eq!((&line["op"], &line["plaintext_modulus"]), (&"digit_removal".into(), &"5^3".into()));
    assert_eq!((line["slots"].as_u64(), line["levels_left"].as_u64()), (Some(2), Some(2)));
    assert!(line["published"].is_null());
}

#[test]
fn integers_are_timed_and_checked() {
    let run = bench("clt_mul clt_bootstrap aes128_block --params clt-4 --runs 2 --rounds 1 --json");
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
fn mistakes_have_status_2_and_say_what_there_is() {
    for (option, needed) in [
        ("--level -1", "a number from 0 to 127"),
        ("--level 3..1", "a rising range such as 5..15"),
        ("--threads 1..4", "several such as 1,2"),
    ] {
        bench(&format!("add --params n13 {option}")).mistake(&["invalid value", needed]);
    }
    bench("bgv_mul --params toy-n5 --level 1,2").mistake(&["several levels"]);
    bench("bgv_mul --params toy-n5 --rounds 2").mistake(&["--rounds is for aes128_block"]);
    for (line, needed) in [
        ("clt_mul", "clt-500"),
        ("clt_mul --params n15", "clt-500-w32"),
        ("clt_mul add --params clt-4", "integers have parameter sets of their own"),
        ("clt_mul --params clt-4 --level 1", "clt_mul does not use --level"),
        ("clt_mul --params clt-4 --rounds 2", "--rounds is for aes128_block"),
        ("aes128_block --params clt-4 --rounds 11", "1 to 10"),
        ("add --params clt-500", "n15"),
    ] {
        bench(line).mistake(&[needed]);
    }
    bench("add --params n13 --radix 4").mistake(&["--radix is for"]);
    bench("dft --radix 3").mistake(&["a power of two"]);
    bench("dft --log-slots 3,4").mistake(&["one number of slots"]);
    bench("dft --log-slots 12 --radix 2 --params n13").mistake(&["needs 12 ", "level 3"]);
    bench("linear_transform --params n13 --level 0").mistake(&["needs 1 ", "level 0"]);
    bench("dft --log-slots 13 --params n13").mistake(&["2^13 slots", "n13", "1 to 12"]);
    bench("dft --log-slots 127 --params n13").mistake(&["2^127 slots", "1 to 12"]);
    bench("dft --log-slots 0").mistake(&["2^0 slots", "1 to 12"]);
    bench("inverse --params functions-n14 --level 1")
        .mistake(&["inverse does not use --level: leave it out"]);
    bench("fma --level 1").mistake(&["fma does not use --level"]);
    bench("add --params n13 --level 1,2").mistake(&["several levels are for trace"]);
    bench("add --params n13 --op add").mistake(&["--op is for strategies"]);
    bench("add --params n13 --threads 1,2").mistake(&["sudare-bench strategies", "--threads N"]);
    bench("strategies add --params n13").mistake(&["on their own"]);
    bench("strategies --params n13 --levels 0..2").mistake(&["from level 1 on"]);
    bench("strategies --params n13 --levels 4").mistake(&["level 4", "at most 3"]);
    bench("add --params n13 --m 2").mistake(&["--m is for trace: leave it out"]);
    bench("trace add").mistake(&["trace has parameter sets of its own"]);
    bench("trace --params n13").mistake(&["trace does not use --params"]);
    bench("digit_removal --params 127").mistake(&["digits-127-3-1"]);
    bench("digit_removal --params digits-127-3-3").mistake(&["at least one stays"]);
    bench("digit_removal bgv_mul --params n15").mistake(&["of its own"]);
    for (sizes, parts) in [
        ("--m 2,16 --level 1 --special 1", &["2^16 images", "1 to 15"]),
        ("--m 2 --level 1,2 --special 1", &["level 2 with 1 special", "1, 4, 9"]),
        ("--m 2 --level 1 --special 1,2", &["level 1 with 2 special", "1, 5, 10"]),
    ] {
        bench(&format!("trace {sizes} --h 2 --runs 1 --json")).mistake(parts);
    }
    for sizes in ["--m 2 --h 3", "--m 2 --h 0", "--m 0"] {
        let run = bench(&format!("trace {sizes} --level 1 --special 1"));
        run.mistake(&["--m must be at least 1", "--h from 1 to M"]);
    }
}
