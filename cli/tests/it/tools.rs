//! The commands that need no key files.

use crate::common::{BENCH_FIELDS, assert_fields, sudare};
use serde_json::Value;

/// Fields of every parameter set.
const PARAMS_FIELDS: [&str; 12] = [
    "name",
    "log_n",
    "log_q",
    "log_p",
    "log_qp",
    "secret",
    "security_bits",
    "levels",
    "slots",
    "log2_scale",
    "source",
    "dnum",
];

#[test]
fn every_command_has_help_with_an_example() {
    let help = sudare("--help");
    let listed: Vec<&str> = help
        .ok()
        .stdout
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(listed.len() >= 5, "{listed:?}");
    for command in listed {
        let help = sudare(&format!("{command} --help"));
        assert!(help.ok().stdout.contains("Example"), "{command}");
        assert!(help.stdout.contains(&format!("sudare {command}")), "{command}");
    }
}

#[test]
fn parameters_are_listed_and_explained() {
    let list = sudare("params --json").json();
    let presets = list["presets"].as_array().unwrap();
    for name in ["n13", "n16-d24", "bench-n15-q610", "fullrns-logreg", "trace-k5-l9"] {
        assert!(presets.iter().any(|preset| preset["name"] == name), "{name}");
    }
    let n14 = sudare("params n14 --json").json();
    assert_fields(&n14, &PARAMS_FIELDS);
    assert_eq!((n14["log_n"].as_u64(), n14["dnum"].as_u64()), (Some(14), Some(4)));
    assert!(n14["security_bits"].as_f64().unwrap() >= 128.0);
    // The list prices the sizes as written, the explanation the primes found and level keys,
    // which may be a little larger.
    for preset in presets.iter().filter(|preset| preset["log_n"].as_u64() < Some(16)) {
        let name = preset["name"].as_str().unwrap();
        let exact = sudare(&format!("params {name} --json")).json();
        for field in ["log_qp", "security_bits"] {
            let difference = preset[field].as_f64().unwrap() - exact[field].as_f64().unwrap();
            let most = if preset.get("precision_bits").is_some() { 2.0 } else { 0.1 };
            assert!(difference.abs() < most, "{name} {field}: {difference}");
        }
    }
    assert!(sudare("params fullrns-5").ok().stdout.contains("for reproduction only"));
}

/// Published limits of 128 bits: ePrint 2024/463, Table 5.2, and ePrint 2026/279.
#[test]
fn keys_of_any_library_are_estimated() {
    for (sizes, secret) in [
        ("--log-n 15 --log-qp 868", "uniform ternary"),
        ("--log-n 16 --log-qp 345 --weight 32", "ternary of weight 32"),
    ] {
        let price = sudare(&format!("params {sizes} --json")).json();
        assert!((price["security_bits"].as_f64().unwrap() - 128.0).abs() < 0.1, "{price}");
        assert_eq!(price["secret"], secret);
        assert!(sudare(&format!("params {sizes}")).ok().stdout.contains("128.0 bits"));
    }
    sudare("params --log-n 15").mistake(&["--log-qp"]);
    for (sizes, needed) in [
        ("--log-n 0 --log-qp 400", "a whole number from 1 to 63"),
        ("--log-n x --log-qp 400", "a whole number from 1 to 63"),
        ("--log-n 15 --log-qp nan", "a number such as"),
        ("--log-n 15 --log-qp x", "a number such as"),
        ("--log-n 15 --log-qp 0", "must be greater than 0"),
        ("--log-n 15 --log-qp -5", "--log-qp -5"),
        ("--log-n 15 --log-qp 400 --weight 0", "a whole number from 1"),
        ("--log-n 15 --log-qp 400 --weight 32769", "--weight 1 to 2^15"),
    ] {
        sudare(&format!("params {sizes}")).mistake(&[needed]);
    }
    sudare("params n15 --log-n 15 --log-qp 868").mistake(&["NAME"]);
}

#[test]
fn bootstrapping_sets_are_listed_and_explained() {
    let list = sudare("params --json").json();
    let listed = |name: &str| {
        let sets = list["presets"].as_array().unwrap();
        sets.iter().find(|set| set["name"] == name).unwrap().clone()
    };
    assert!(listed("n16").get("precision_bits").is_none());
    let leveled = sudare("params n13 --json").json();
    assert!(leveled.get("levels_after").is_none());
    for (name, values, weight) in [
        ("n16-boot", "complex", 32),
        ("n16-boot-real", "real", 32),
        ("n16-boot-h48", "complex", 48),
    ] {
        let set = sudare(&format!("params {name} --json")).json();
        assert_eq!(set["precision_bits"], listed(name)["precision_bits"]);
        assert_fields(&set, &PARAMS_FIELDS);
        assert_fields(
            &set,
            &[
                "levels_after",
                "precision_bits",
                "log2_failure",
                "evaluation_key_bytes",
                "evaluation_key_memory_bytes",
                "matrix_bytes",
                "order",
                "k",
                "degree",
                "coeffs_to_slots",
                "slots_to_coeffs",
            ],
        );
        assert_eq!((&set["values"], &set["ephemeral_weight"]), (&values.into(), &weight.into()));
        // All keys, including the two for raising.
        let keys = set["keys"].as_array().unwrap();
        let bits = |key: &Value| key["security_bits"].as_f64().unwrap();
        let named =
            |what: &str| keys.iter().any(|key| key["what"].as_str().unwrap().contains(what));
        assert!(named("public key") && named("evaluation keys"), "{keys:?}");
        assert!(named("to an ephemeral secret") && named("from the ephemeral"), "{keys:?}");
        let least = keys.iter().map(bits).fold(f64::INFINITY, f64::min);
        assert_eq!(set["security_bits"].as_f64(), Some(least));
        assert!(least >= 128.0 && set["log2_failure"].as_f64().unwrap() < -60.0);
        // Stages use levels, and the rest is left to use.
        let number = |field: &str| set[field].as_u64().unwrap();
        assert_eq!(number("output_level") - number("input_level"), number("levels_after"));
        assert!(number("output_level") <= number("levels"));
        let layers = |field: &str| {
            let layers = set[field].as_array().unwrap().iter();
            layers.map(|layers| layers.as_u64().unwrap()).sum::<u64>()
        };
        assert_eq!(layers("coeffs_to_slots"), number("log_slots"));
        assert_eq!(layers("slots_to_coeffs"), number("log_slots"));
        let text = sudare(&format!("params {name}"));
        let raised = format!("an ephemeral secret of weight {weight}");
        assert!(text.ok().stdout.contains(&raised), "{}", text.stdout);
    }
}

#[test]
fn mistakes_have_status_2_and_say_what_there_is() {
    sudare("params n99").mistake(&["n99", "n16-d24"]);
    sudare("bench rotate --params n99").mistake(&["n99", "n16-d24"]);
    sudare("bench spin --params n13").mistake(&["spin", "rotate"]);
    sudare("bench rotate").mistake(&["rotate needs a parameter set", "--params", "such as n15"]);
    sudare("bench add --params n13 --level 9").mistake(&["level 9", "at most 3"]);
    for op in ["mul_const", "mul_plain", "mul", "mul_rescale", "rescale"] {
        let line = format!("bench add {op} --params n13 --level 0 --json");
        sudare(&line).mistake(&[op, "at level 0", "--level 1"]);
    }
    for (option, needed) in [
        ("--runs 0", "a whole number from 1 to 1000000"),
        ("--runs x", "a whole number from 1 to 1000000"),
        ("--ciphertexts 0", "a whole number from 1 to 4294967295"),
        ("--log-slots -1", "a number from 0 to 127"),
        ("--log-slots 3..1", "a rising range such as 5..15"),
        ("--level x", "invalid digit"),
        ("--threads 0", "a whole number from 1 to 1024"),
        ("--threads 1..4", "several such as 1,2"),
    ] {
        sudare(&format!("bench add --params n13 {option}")).mistake(&["invalid value", needed]);
    }
    sudare("bench bootstrap").mistake(&["bootstrap needs", "--params", "n16-boot"]);
    sudare("bench bootstrap --params n16").mistake(&["n16 has no bootstrapping", "n16-boot"]);
    sudare("bench bootstrap --params n99").mistake(&["n99", "n16-boot", "n13"]);
    sudare("bench bootstrap --params n16-boot --log-slots 0").mistake(&["2^0", "1 to 15"]);
    sudare("bench bootstrap --params n16-boot --log-slots 5..x").mistake(&["5..15"]);
    sudare("bench bootstrap --params n16-boot --level 3").mistake(&["--level"]);
    sudare("bench mul --params n13 --profile").mistake(&["--profile is for bootstrap: leave it"]);
    sudare("bench bootstrap --params n16-boot --profile --small-keys").mistake(&["--small-keys"]);
    sudare("bench add --params n13 --log-slots 5").mistake(&["--log-slots is for"]);
    sudare("bench add --params n13 --ciphertexts 2").mistake(&[
        "--ciphertexts is for bootstrap, bfv_bootstrap, bfv_bootstrap_slim: leave it out",
    ]);
    sudare("bench dft --radix 4").mistake(&["sudare-bench dft"]);
    sudare("bench --params n13 --m 2").mistake(&["sudare-bench"]);
    sudare("bench add trace --params n13").mistake(&["sudare-bench trace"]);
    sudare("bench add --params n13 --threads 1,2").mistake(&["sudare-bench strategies"]);
    sudare("doctor --threads 0").mistake(&["1 to 1024"]);
    sudare("doctor --threads 99999").mistake(&["1 to 1024"]);
    sudare("doctor --threads 1,").mistake(&["1 to 1024"]);
    sudare("fly").mistake(&["fly"]);
}

#[test]
fn mistakes_are_objects_for_programs() {
    for (line, kind) in [("params n99 --json", "UnknownPreset"), ("fly --json", "Usage")] {
        let run = sudare(line);
        let last = run.mistake(&[]).stderr.lines().last().unwrap();
        let object: Value = serde_json::from_str(last).unwrap();
        assert_eq!((object["kind"].as_str(), object["exit_code"].as_u64()), (Some(kind), Some(2)));
        assert_fields(&object, &["error"]);
    }
}

#[test]
fn doctor_describes_the_machine() {
    let report = sudare("doctor --json --threads 1").json();
    assert_fields(&report, &["isa", "cores", "version", "kernels"]);
    assert_eq!(report["threads"].as_u64(), Some(1));
    if cfg!(target_os = "linux") {
        assert_fields(&report, &["memory_bytes"]);
    }
    let kernels = report["kernels"].as_array().unwrap();
    assert_eq!(kernels.len(), 7);
}

#[test]
fn the_selftest_passes() {
    let report = sudare("selftest --json").json();
    assert_fields(&report, &["passed", "failed", "isa"]);
    assert_eq!(report["failed"].as_u64(), Some(0));
    assert!(report["passed"].as_u64().unwrap() >= 17);
}

#[test]
fn benchmarks_print_one_checked_line_per_operation() {
    let run = sudare("bench --params n13 --runs 2 --threads 1 --json");
    let lines: Vec<Value> =
        run.ok().stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ops: Vec<&str> = lines.iter().map(|line| line["op"].as_str().unwrap()).collect();
    assert_eq!(
        ops,
        [
            "ntt_forward",
            "ntt_inverse",
            "encode",
            "decode",
            "encrypt",
            "decrypt",
            "add",
            "mul_const",
            "mul_plain",
            "mul",
            "mul_rescale",
            "rescale",
            "rotate",
            "conjugate",
            "rotate_hoisted_8",
            "keyswitch",
        ]
    );
    for line in &lines {
        assert_fields(line, &BENCH_FIELDS);
        assert!(line["min_ms"].as_f64().unwrap() > 0.0);
        assert!(line["median_ms"].as_f64() >= line["min_ms"].as_f64());
        let exact = line["op"].as_str().unwrap().starts_with("ntt");
        assert_eq!(line["precision_bits"].is_null(), exact, "{line}");
        assert!(exact || line["precision_bits"].as_f64().unwrap() > 17.0, "{line}");
    }
}

/// Before any key is made, so in no time at full size.
#[cfg(target_os = "linux")]
#[test]
fn bootstrapping_that_does_not_fit_in_memory_is_refused() {
    let line = "bench bootstrap --params n16-boot --log-slots 2,15 --ciphertexts 1000000 --json";
    let run = sudare(line);
    run.mistake(&["2^2 slots", "2^15 slots", "keys of", "matrices of", "are available", "--force"]);
    let last: Value = serde_json::from_str(run.stderr.lines().last().unwrap()).unwrap();
    assert_eq!((&last["kind"], &last["exit_code"]), (&"Memory".into(), &2.into()));
}

#[test]
fn benchmarks_run_at_lower_levels() {
    let run = sudare("bench mul rotate --params n13 --level 1 --runs 1 --json");
    for line in run.ok().stdout.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["level"].as_u64(), Some(1));
    }
}

#[test]
fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = sudare(&format!("completions {shell}"));
        assert!(script.ok().stdout.contains("selftest"), "{shell}");
    }
}
