//! Results on standard output, messages on standard error.

use crate::error::{Error, Result};
use serde::Serialize;
use std::io::{self, Write};

/// Where results go and in which form.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// One JSON object a line instead of text.
    pub json: bool,
}

impl Output {
    /// Writes a result: the object itself, or `text` of it.
    pub fn write<T: Serialize>(self, value: &T, text: impl FnOnce(&T) -> String) -> Result<()> {
        let line = if self.json {
            serde_json::to_string(value).map_err(|error| Error::Bug(error.to_string()))?
        } else {
            text(value)
        };
        self.write_text(&line)
    }

    /// Writes text as it is, with a line end if it has none.
    pub fn write_text(self, text: &str) -> Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())
            .and_then(|()| if text.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") })
            .and_then(|()| out.flush())
            .map_err(Error::Stdout)
    }
}

/// Writes a message line to standard error. If nobody can read it, nothing is lost.
pub fn say(message: impl core::fmt::Display) {
    let _ = writeln!(io::stderr().lock(), "{message}");
}

/// A clause about bootstrappings, if there are any.
pub fn bootstraps(count: u32) -> String {
    if count == 0 { String::new() } else { format!(", {count} bootstrappings") }
}

/// Lines `name  value`, the values below each other.
pub fn fields(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
}

/// Columns below each other, the first one to the left and the others to the right.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let head = head.iter().map(|&cell| cell.to_owned()).collect();
    let lines: Vec<&Vec<String>> = core::iter::once(&head).chain(rows).collect();
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|c| c.chars().count()).max()
    };
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().enumerate().map(|(column, cell)| {
            let width = width(column).unwrap_or(0);
            if column == 0 { format!("{cell:width$}") } else { format!("{cell:>width$}") }
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_below_each_other() {
        assert_eq!(fields(&[("a", "1".into()), ("bcd", "2".into())]), "a    1\nbcd  2\n");
        let rows = [vec!["x".into(), "10".into()], vec!["yy".into(), "2".into()]];
        assert_eq!(table(&["op", "ms"], &rows), "op  ms\nx   10\nyy   2\n");
    }
}
