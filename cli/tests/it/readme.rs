//! The documents hold: their commands run as written, their targets and links exist.
//!
//! Blocks marked `sh` are run, in order and in one shell; `console` marks what is not,
//! such as builds.

use crate::common::{LBW, names};
use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

fn read(document: &str) -> String {
    fs::read_to_string(root().join(document)).unwrap()
}

/// Every line but fences, with the mark of the block that it is in.
fn lines(document: &str) -> Vec<(Option<&str>, &str)> {
    let mut block: Option<&str> = None;
    let mut found = Vec::new();
    for line in document.lines() {
        match line.strip_prefix("```") {
            Some(mark) => block = if block.is_none() { Some(mark) } else { None },
            None => found.push((block, line)),
        }
    }
    assert!(block.is_none(), "a block does not end");
    found
}

/// The lines of every block marked `language`.
fn blocks(document: &str, language: &str) -> String {
    let inside = lines(document).into_iter().filter(|(block, _)| *block == Some(language));
    inside.map(|(_, line)| format!("{line}\n")).collect()
}

/// The lines outside blocks.
fn prose(document: &str) -> String {
    let outside = lines(document).into_iter().filter(|(block, _)| block.is_none());
    outside.map(|(_, line)| format!("{line}\n")).collect()
}

/// Runs a script that stops at the first command to fail, with `sudare` on the path.
#[cfg(unix)]
fn run(folder: &Path, script: &str) {
    let binary = Path::new(env!("CARGO_BIN_EXE_sudare")).parent().unwrap();
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(binary.into()).chain(std::env::split_paths(&inherited));
    let output = std::process::Command::new("sh")
        .args(["-eux", "-c", script])
        .current_dir(folder)
        .env("PATH", std::env::join_paths(path).unwrap())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let stdout = text(&output.stdout);
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{stderr}");
}

#[cfg(unix)]
#[test]
fn the_commands_of_the_readme_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::os::unix::fs::symlink(root().join("crates"), folder.join("crates")).unwrap();
    let script = blocks(&read("README.md"), "sh");
    for command in ["keygen", "encrypt", "train", "decrypt", "evaluate", "predict", "report"] {
        assert!(script.contains(&format!("\nsudare {command} ")), "{command} is not shown");
    }
    run(folder, &script);
    let roles = folder.join("target/roles");
    assert_eq!(names(&roles.join("server")), ["evaluation.key", "model.ct", "table.ct"]);
    let owner = names(&roles.join("owner"));
    let made = ["keys", "model.ct", "model.json", "report.html", "scores.csv"];
    assert_eq!(owner, [&made[..], &["table.csv", "table.ct"]].concat());
}

#[cfg(unix)]
#[test]
fn the_commands_of_the_interface_run() {
    let folder = tempfile::tempdir().unwrap();
    let table = fs::read_to_string(LBW).unwrap().replacen(",y\n", ",low\n", 1);
    fs::write(folder.path().join("births.csv"), table).unwrap();
    run(folder.path(), &blocks(&read("docs/interfaces.md"), "sh"));
    assert!(names(folder.path()).contains(&"model.json".to_owned()));
}

#[test]
fn the_targets_that_are_named_exist() {
    let rules = [read("Makefile"), read("scripts/checks.mk")].concat();
    let mut named = 0;
    for document in ["README.md", "CONTRIBUTING.md"] {
        let text = blocks(&read(document), "console");
        for target in text.lines().filter_map(|line| line.strip_prefix("make ")) {
            let target = target.split_whitespace().next().unwrap();
            let rule = format!("\n{target}:");
            assert!(rules.contains(&rule), "{document}: there is no `make {target}`");
            named += 1;
        }
    }
    assert!(named > 0);
}

/// Files below folders whose names have one of these endings, outside folders of builds.
fn files_below(folders: &[&str], endings: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.extend(Some(entry).filter(|entry| !entry.ends_with("target")));
            } else if entry
                .extension()
                .is_some_and(|ending| endings.iter().any(|one| ending == *one))
            {
                files.push(entry);
            }
        }
    }
    files
}

/// Nothing is published under the name yet, so a registry may have a package of a stranger.
#[test]
fn no_text_has_the_name_installed_from_a_registry() {
    let endings = ["md", "rs", "py", "toml", "yml", "yaml", "html", "js", "sh", "ipynb"];
    let mut files =
        files_below(&["docs", "crates", "cli", "python", "deploy", "scripts"], &endings);
    files.extend(
        ["README.md", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md"]
            .map(|name| root().join(name)),
    );
    let mut lines = 0;
    for file in files {
        // This file names the commands that it looks for.
        if file.ends_with("it/readme.rs") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        for line in text.lines() {
            for command in
                ["pip install", "cargo install", "cargo add", "docker pull", "npm install"]
            {
                let Some((_, rest)) = line.split_once(command) else { continue };
                lines += 1;
                // `cargo install --path cli` and a wheel at `./` name files. The command ends at a
                // backtick, a comment or a colon.
                let command = rest.split(['`', '#', ':']).next().unwrap_or_default();
                let words = command.split_whitespace().map(|word| word.trim_matches(['\'', '"']));
                let named = words.map(str::to_owned).find(|word| word.starts_with("sudare"));
                assert!(named.is_none(), "{}: {line}", file.display());
            }
            assert!(!line.starts_with("sudare = \""), "{}: {line}", file.display());
        }
    }
    assert!(lines > 10, "{lines}");
}

#[test]
fn links_lead_somewhere() {
    let mut documents = files_below(&["docs", "benches", "crates", "cli"], &["md"]);
    for name in ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"] {
        documents.push(root().join(name));
    }
    let mut followed = 0;
    for document in documents {
        let text = prose(&fs::read_to_string(&document).unwrap());
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.starts_with("https://") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let place = match file {
                "" => document.clone(),
                file => document.parent().unwrap().join(file),
            };
            assert!(place.exists(), "{}: there is no {target}", document.display());
            if !heading.is_empty() {
                let found = headings(&fs::read_to_string(&place).unwrap());
                assert!(
                    found.iter().any(|found| found == heading),
                    "{}: no heading {target}",
                    document.display()
                );
            }
            followed += 1;
        }
    }
    assert!(followed > 20, "{followed} links found");
}

/// Headings as links name them: lower case, blanks as hyphens, no punctuation.
fn headings(text: &str) -> Vec<String> {
    let name = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    let text = prose(text);
    let lines = text.lines().filter(|line| line.starts_with('#'));
    lines
        .map(|line| line.trim_start_matches('#').trim().chars().filter_map(name).collect())
        .collect()
}
