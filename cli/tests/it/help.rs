//! The help text of every command.

use crate::common::sudare;
use std::{env, fs};

const SNAPSHOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/help.txt");

/// Phrases that help texts do without: each has a plainer form.
const BANNED: [&str; 22] = [
    "as many",
    "as ever",
    "at most as",
    "but for",
    "beside ",
    "if left out",
    "is none",
    "is said",
    "it is left out",
    "likewise",
    "mended",
    "nobody may",
    "of which",
    "of whom",
    "older than that",
    "so many",
    "so large",
    "that of",
    "those of",
    "Whoever",
    "whoever",
    "folder",
];

/// Appends the help of a command and of the commands below it.
fn collect(path: &str, all: &mut String) {
    let help = sudare(&format!("{path} --help"));
    let text = &help.ok().stdout;
    *all += &format!("$ sudare {path}\n{text}\n").replace("sudare  ", "sudare ");
    let commands = text.split("\nCommands:\n").nth(1).unwrap_or_default();
    let names = commands.lines().take_while(|line| !line.is_empty());
    let names = names.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    for name in names.filter(|name| !name.is_empty() && *name != "help") {
        collect(format!("{path} {name}").trim(), all);
    }
}

fn help() -> String {
    let mut all = String::new();
    collect("", &mut all);
    let lines: Vec<&str> = all.lines().map(str::trim_end).collect();
    lines.join("\n").trim_end().to_owned() + "\n"
}

/// `SUDARE_WRITE_HELP=1` writes the file again.
#[test]
fn help_texts_are_those_of_the_snapshot() {
    let found = help();
    if env::var_os("SUDARE_WRITE_HELP").is_some() {
        fs::write(SNAPSHOT, &found).unwrap();
    }
    let expected = fs::read_to_string(SNAPSHOT).unwrap();
    let differs = found.lines().zip(expected.lines()).find(|(a, b)| a != b);
    assert!(
        found == expected,
        "help texts differ from {SNAPSHOT}, first at {differs:?}: if that is meant, run this test \
         with SUDARE_WRITE_HELP=1"
    );
}

#[test]
fn help_texts_have_no_banned_phrase() {
    let found = help();
    // Names of options stay.
    let lines = found.lines().map(|line| line.trim_start().replace("--folder", "--…"));
    for line in lines {
        for phrase in BANNED {
            assert!(!line.contains(phrase), "{phrase:?} in {line:?}");
        }
        for opener in ["What ", "Who ", "Whether ", "How ", "Of "] {
            assert!(!line.starts_with(opener), "{line:?} opens with {opener:?}");
        }
    }
    assert!(found.matches("$ sudare ").count() > 45, "{found}");
}
