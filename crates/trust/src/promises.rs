//! Reads the table of promises in SECURITY.md. Each row names the test that fails if the promise is
//! broken, and the command that runs it.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Instant,
};

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    /// The promise.
    pub promise: String,
    /// The achieved number.
    pub number: String,
    /// Names of its tests: functions, as `function` or `file::function`.
    pub tests: Vec<String>,
    /// Names of the tests that fail when the defence is switched off.
    pub controls: Vec<String>,
    /// The command that runs the tests.
    pub command: String,
}

impl Promise {
    /// Returns whether the command runs for long.
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.command.contains("ignored") || self.command.contains("-full")
    }
}

/// Returns the root directory of the project.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the rows of a document's table under the heading `## Promises and their tests`.
#[must_use]
pub fn table(document: &str) -> Vec<Promise> {
    let section = document.split("\n## Promises and their tests\n").nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    // The first two lines are the head of the table and the line below it.
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let cell = |at: usize| cells.get(at).copied().unwrap_or_default();
        Promise {
            promise: cell(0).into(),
            number: cell(1).into(),
            tests: code(cell(2)),
            controls: code(cell(3)),
            command: code(cell(4)).concat(),
        }
    })
    .collect()
}

/// Returns the texts between backticks.
fn code(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Runs the commands of all promises, each once, and writes `target/trust.json`.
///
/// # Errors
/// If a command cannot be started, or the report cannot be written.
#[expect(clippy::print_stdout, reason = "the output is a report")]
pub fn run(full: bool) -> Result<ExitCode, Box<dyn Error>> {
    let promises = table(&fs::read_to_string(root().join("SECURITY.md"))?);
    let mut done: Vec<(String, bool, f64)> = Vec::new();
    for command in promises.iter().filter(|row| full || !row.is_long()).map(|row| &row.command) {
        // Several promises share a command.
        if done.iter().any(|(known, ..)| known == command) {
            continue;
        }
        println!("{command}");
        let start = Instant::now();
        // Commands of the table contain `&&`.
        let mut shell = Command::new("sh");
        let kept = shell.args(["-c", command]).current_dir(root()).status()?.success();
        done.push((command.clone(), kept, start.elapsed().as_secs_f64()));
    }
    let rows = promises.iter().filter_map(|row| {
        let (_, kept, seconds) = done.iter().find(|(command, ..)| *command == row.command)?;
        Some(serde_json::json!({
            "promise": row.promise, "number": row.number, "tests": row.tests,
            "controls": row.controls, "command": row.command, "kept": kept, "seconds": seconds,
        }))
    });
    let kept = done.iter().all(|(_, kept, _)| *kept);
    let report = serde_json::json!({
        "kept": kept, "full": full, "promises": rows.collect::<Vec<_>>(),
    });
    let path = root().join("target/trust.json");
    fs::write(&path, serde_json::to_string_pretty(&report)?)?;
    println!(
        "{} promises, {}: {}",
        done.len(),
        if kept { "kept" } else { "broken" },
        path.display()
    );
    Ok(if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
