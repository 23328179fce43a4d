//! Results on standard output, messages on standard error.

use serde::Serialize;
use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write},
};
use sudare_roles::{
    error::{Error, Result},
    text::escape::{acts_on_terminal, escaped},
};

/// Form of results on standard output.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// One JSON object per line instead of text.
    pub json: bool,
}

impl Output {
    /// Writes a result: the object itself, or `text` of it.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn write<T: Serialize>(self, value: &T, text: impl FnOnce(&T) -> String) -> Result<()> {
        let line = if self.json {
            serde_json::to_string(value).map_err(|error| Error::Bug(error.to_string()))?
        } else {
            text(value)
        };
        self.write_text(&line)
    }

    /// Writes lines of text or of JSON, with a line end if it is missing.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn write_text(self, text: &str) -> Result<()> {
        self.write_unescaped(&printable_lines(text))
    }

    /// Writes data for programs. A terminal gets it as [`Output::write_text`] writes it.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn write_data(self, text: &str) -> Result<()> {
        match io::stdout().is_terminal() {
            // A terminal acts on control characters. A file or pipe must get the data unchanged.
            true => self.write_text(text),
            false => self.write_unescaped(text),
        }
    }

    fn write_unescaped(self, text: &str) -> Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())
            .and_then(|()| if text.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") })
            // A full disk may show only here, and must not end with status 0.
            .and_then(|()| out.flush())
            .map_err(Error::Stdout)
    }
}

/// Writes a message line to standard error, and ignores a failure: nothing depends on it.
pub fn say(message: impl core::fmt::Display) {
    let _ = writeln!(io::stderr().lock(), "{}", printable(&message.to_string()));
}

/// Escapes characters that act on a terminal: control characters and changes of text direction
/// become JSON escapes such as `\u001b`.
///
/// The maker of a result's file chooses the names in it, and anyone with the public key can make such a
/// file.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |c| acts_on_terminal(c) || c == '\n')
}

/// Escapes text of several lines in the same way.
fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, acts_on_terminal)
}

/// Returns a clause about bootstrappings, if there are any.
pub fn bootstraps(count: u32) -> String {
    if count == 0 { String::new() } else { format!(", {count} bootstrappings") }
}

/// Formats lines `name value` with aligned values.
pub fn fields(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("{name:width$}  {}\n", printable(value))).collect()
}

/// Formats columns, the first one aligned left and the others right.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let head = head.iter().map(|cell| printable(cell)).collect();
    let rows = rows.iter().map(|row| row.iter().map(|cell| printable(cell)).collect());
    let lines: Vec<Vec<Cow<'_, str>>> = core::iter::once(head).chain(rows).collect();
    // In characters: those outside ASCII have more bytes than places.
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

    /// Nothing that a terminal acts on is left, what is JSON stays the same JSON, and what is
    /// harmless is as it was.
    #[test]
    fn nothing_acts_on_a_terminal() {
        let harmless = "Größe, 身長, עברית, e\u{301}, 🏥, \u{a0}, back\\slash";
        assert_eq!(printable(harmless), harmless);
        assert_eq!(
            printable("\x1b]0;owned\x07\u{9b}2J\x7f"),
            r"\u001b]0;owned\u0007\u009b2J\u007f"
        );
        assert_eq!(printable("a\r\nerror: b\t\u{202e}c"), r"a\r\nerror: b\t\u202ec");
        assert_eq!(printable_lines("a\r\nb\n"), "a\\r\nb\n");
        let every: String = (0..0x3000).filter_map(char::from_u32).collect();
        let acting = |text: &str| text.chars().filter(|&c| acts_on_terminal(c)).count();
        assert_eq!((acting(&every), acting(&printable(&every))), (32 + 33 - 1 + 12 + 2, 0));
        let json = serde_json::to_string(&every).unwrap();
        assert!(acting(&json) > 0);
        assert_eq!(acting(&printable_lines(&json)), 0);
        assert_eq!(serde_json::from_str::<String>(&printable_lines(&json)).unwrap(), every);

        let evil = "x\x1b[2J\ny".to_owned();
        assert_eq!(fields(&[("a", evil.clone())]), "a  x\\u001b[2J\\ny\n");
        assert_eq!(table(&[&evil], &[vec![evil.clone()]]).lines().count(), 2);
    }

    #[test]
    fn columns_are_below_each_other() {
        assert_eq!(fields(&[("a", "1".into()), ("bcd", "2".into())]), "a    1\nbcd  2\n");
        let rows = [vec!["x".into(), "10".into()], vec!["yy".into(), "2".into()]];
        assert_eq!(table(&["op", "ms"], &rows), "op  ms\nx   10\nyy   2\n");
    }
}
