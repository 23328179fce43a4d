//! The table of promises in SECURITY.md: what it names is there.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};
use sudare_trust::promises::{Promise, root, table};

fn security() -> Vec<Promise> {
    table(&fs::read_to_string(root().join("SECURITY.md")).unwrap())
}

/// Names of all functions that are tests, in Rust and in Python.
fn tests() -> HashSet<String> {
    let mut folders: Vec<PathBuf> =
        ["crates", "cli", "python"].map(|part| root().join(part)).to_vec();
    let mut found = HashSet::new();
    while let Some(path) = folders.pop() {
        if path.is_dir() {
            folders.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|ending| ending == "rs" || ending == "py") {
            found.extend(tests_of(&fs::read_to_string(path).unwrap()));
        }
    }
    found
}

/// In Rust, functions after an attribute `#[test]`, or that of Tokio; in Python, those whose name says so.
fn tests_of(code: &str) -> Vec<String> {
    let name = |rest: &str| rest.split(['(', '<']).next().unwrap_or_default().trim().to_owned();
    let rust = code.replace("#[tokio::test]", "#[test]");
    let rust = rust.split("#[test]").skip(1).filter_map(|rest| rest.split("fn ").nth(1)).map(name);
    let python = code.split("def ").skip(1).map(name).filter(|name| name.starts_with("test_"));
    rust.chain(python).collect()
}

#[test]
fn every_named_test_exists() {
    let promises = security();
    let known = tests();
    assert!(promises.len() >= 12, "{} rows", promises.len());
    for row in &promises {
        assert!(!row.promise.is_empty() && !row.tests.is_empty(), "{row:?}");
        for name in row.tests.iter().chain(&row.controls) {
            assert!(
                known.contains(name),
                "{:?} names {name}, and there is no such test",
                row.promise
            );
        }
    }
}

/// Commands name packages and files of tests that there are.
#[test]
fn every_command_can_be_run() {
    for Promise { promise, command, .. } in security() {
        assert!(!command.is_empty(), "{promise} has no command");
        let words: Vec<&str> = command.split_whitespace().collect();
        for pair in words.windows(2) {
            let package = Path::new("crates").join(pair[1].trim_start_matches("sudare-"));
            let package = if pair[1] == "sudare-cli" { "cli".into() } else { package };
            match pair[0] {
                "-p" => assert!(root().join(&package).is_dir(), "{promise}: {}", pair[1]),
                "--test" => {
                    let files = ["tests/{}.rs", "tests/{}/main.rs"];
                    let files = files.map(|file| file.replace("{}", pair[1]));
                    let folders = [
                        "crates/arith",
                        "crates/sudare",
                        "crates/apps",
                        "crates/roles",
                        "crates/trust",
                        "cli",
                    ];
                    let is_there =
                        |at: &&str| files.iter().any(|file| root().join(at).join(file).is_file());
                    assert!(folders.iter().any(is_there), "{promise}: there is none of {files:?}");
                }
                "make" => {
                    let rules = ["Makefile", "scripts/checks.mk"];
                    let rules = rules.map(|file| fs::read_to_string(root().join(file)).unwrap());
                    let start = format!("{}:", pair[1]);
                    let there = rules.concat().lines().any(|line| line.starts_with(&start));
                    assert!(there, "{promise}: there is no make {}", pair[1]);
                }
                _ => {}
            }
        }
    }
}

/// Filters such as `owner::` must name modules of the test program.
#[test]
fn every_filter_names_a_module() {
    for Promise { promise, command, .. } in security() {
        for part in command.split("&&").filter(|part| part.contains("--test it")) {
            let directory = if part.contains("-p sudare-cli ") { "cli" } else { "crates/sudare" };
            for word in part.split_whitespace() {
                let Some((module, _)) = word.split_once("::") else { continue };
                let file =
                    root().join(directory).join("tests/it").join(module).with_extension("rs");
                assert!(file.is_file(), "{promise}: {} does not exist", file.display());
            }
        }
    }
}

/// A test that is named and missing is found out.
#[test]
fn a_test_that_does_not_exist_is_missed() {
    let document = "# A\n\n## Promises and their tests\nText.\n\n| promise | number | tests | \
                    controls | command |\n|---|---|---|---|---|\n| All is well | 3 | `there`, \
                    `gone` | `control` | `make test` |\n\n## B\n| x | y |\n";
    let [row] = &table(document)[..] else { panic!("one row") };
    assert_eq!(
        (&row.promise[..], &row.number[..], &row.command[..]),
        ("All is well", "3", "make test")
    );
    assert_eq!(
        (&row.tests[..], &row.controls[..]),
        (&["there".into(), "gone".into()][..], &["control".into()][..])
    );
    let code = "#[test]\nfn there() {}\n#[test]\n#[ignore]\nfn control() {}\nfn gone() {}\n\
                def test_x(self):";
    assert_eq!(tests_of(code), ["there", "control", "test_x"]);
}
