//! The program, on four slots.

#[path = "../../../../cli/tests/it/common/run.rs"]
mod run;

use run::Run;
use std::process::Command;

/// Runs `sudare-clt` with a line of arguments that hold no blanks.
fn clt(line: &str) -> Run {
    Run::of(Command::new(env!("CARGO_BIN_EXE_sudare-clt")).args(line.split_whitespace()))
}

#[test]
fn sets_are_listed_and_called_insecure() {
    let list = clt("params --json").json();
    for name in ["clt-500", "clt-500-w32", "clt-4"] {
        assert!(list["sets"].as_array().unwrap().iter().any(|set| set == name), "{name}");
        let set = clt(&format!("params {name} --json")).json();
        assert_eq!((&set["insecure"], set["security_bits"].as_f64()), (&true.into(), Some(0.0)));
        assert_eq!((set["eta"].as_u64(), set["rho"].as_u64()), (Some(192), Some(52)));
        assert!(clt(&format!("params {name}")).ok().stdout.contains("insecure"), "{name}");
    }
    let full = clt("params clt-500 --json").json();
    assert_eq!((full["slots"].as_u64(), full["gamma"].as_u64()), (Some(500), Some(380_000)));
    assert_eq!(full["aes_refreshed_before"], serde_json::json!([4, 6, 8, 10]));
    assert!(full["evaluation_key_bytes"].as_u64().unwrap() < 2 << 30);
    assert!(clt("params").ok().stdout.contains("clt-500"));
}

#[test]
#[ignore = "a minute"]
fn demonstration_encrypts_the_block_of_the_standard() {
    let report = clt("aes --json").json();
    assert_eq!(report["first_result"], "69c4e0d86a7b0430d8cdb78070b4c55a");
    assert_eq!((report["blocks"].as_u64(), report["products"].as_u64()), (Some(4), Some(5440)));
    assert_eq!(report["bootstraps"].as_u64(), Some(512));
    assert!(report["noise_bits"].as_f64() < report["noise_limit_bits"].as_f64());
}

#[test]
fn mistakes_are_told() {
    clt("aes --params n15").mistake(&["clt-4"]);
    clt("params clt-9").mistake(&["clt-500-w32"]);
}
