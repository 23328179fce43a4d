//! The scripts in `examples` run as they stand.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

/// Runs a script with `sudare` on the path, and returns its output.
fn run(script: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_sudare")).parent().unwrap();
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(binary.into()).chain(std::env::split_paths(&inherited));
    let output = Command::new("sh")
        .arg(examples().join(script))
        .current_dir(directory.path())
        .env("PATH", std::env::join_paths(path).unwrap())
        .env("TMPDIR", directory.path())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{stderr}");
    // Scripts remove their directories.
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    stdout
}

#[test]
fn three_roles_exchange_files() {
    let printed = run("three_roles.sh");
    let scores = printed.lines().skip_while(|line| *line != "score,probability,predicted");
    assert_eq!(scores.count(), 6, "{printed}");
}

#[test]
fn statistics_by_groups_are_released() {
    let printed = run("groups.sh");
    let mean = |group: &str| -> f64 {
        let row = printed.lines().find(|line| line.starts_with(group)).unwrap();
        row.split(',').nth(4).unwrap().parse().unwrap()
    };
    // Means of the mothers' weight, and the share of children of normal weight.
    for (group, expected, error) in
        [("0,lwt,115,", 130.89, 0.6), ("1,lwt,74,", 128.14, 0.6), ("0,y,115,", 0.748, 0.01)]
    {
        let found = mean(group);
        assert!((found - expected).abs() < error, "{group}: {found} for {expected}");
    }
}

#[cfg(feature = "serve")]
#[test]
fn a_service_does_a_job() {
    let printed = run("service_job.sh");
    assert!(printed.contains("compared with   result, evaluation key, tables"), "{printed}");
    assert!(printed.lines().any(|line| line.contains("stats   done")), "{printed}");
}

#[test]
fn the_index_lists_every_script() {
    let index = std::fs::read_to_string(examples().join("README.md")).unwrap();
    for entry in std::fs::read_dir(examples()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "README.md" || index.contains(&format!("`{name}`")), "{name}");
    }
}
