//! Detection of the character between the cells of a file.

use super::{Decimal, lines::UnixLines, parse};

/// The candidates, in order of preference.
const CANDIDATES: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Number of records to examine, including the header.
const RECORDS: usize = 100;

/// Detects the delimiter of a file that starts with `head`. Set `whole` if `head` is the whole
/// file. A file of one column has no delimiter, and gets a comma.
pub(super) fn recognised(head: &[u8], whole: bool) -> u8 {
    let mut best: Option<(Fit, u8)> = None;
    for delimiter in CANDIDATES {
        // Strictly better, so that the preferred candidate wins a tie.
        if let Some(fit) = Fit::of(head, whole, delimiter)
            && best.as_ref().is_none_or(|(other, _)| fit > *other)
        {
            best = Some((fit, delimiter));
        }
    }
    let [usual, ..] = CANDIDATES;
    best.map_or(usual, |(_, delimiter)| delimiter)
}

/// Quality of a delimiter for a file. Fields are compared in order.
#[derive(Debug, PartialEq, PartialOrd)]
struct Fit {
    /// True if all rows have the number of cells of the header.
    even: bool,
    /// Fraction of numbers among the cells of nonempty rows.
    numbers: f64,
    /// Number of cells of the header.
    cells: usize,
}

impl Fit {
    /// Measures a delimiter. Returns `None` if it does not occur in the header, or does not occur
    /// in the rows.
    fn of(head: &[u8], whole: bool, delimiter: u8) -> Option<Self> {
        // Saves splitting the head into records.
        if !head.contains(&delimiter) {
            return None;
        }
        // A comma between cells cannot be a decimal mark, too.
        let decimal = if delimiter == b',' { Decimal::Point } else { Decimal::Either };
        let records = records(head, whole, delimiter);
        let (header, rows) = records.split_first()?;
        let cells = header.len();
        if cells < 2 || (!rows.is_empty() && rows.iter().all(|row| row.len() < 2)) {
            return None;
        }
        let mut filled = 0_u32;
        let mut numbers = 0_u32;
        for cell in rows.iter().flatten() {
            let text = std::str::from_utf8(cell).unwrap_or_default().trim();
            filled = filled.saturating_add(u32::from(!text.is_empty()));
            numbers = numbers.saturating_add(u32::from(parse(text, decimal).is_some()));
        }
        // Without a filled cell, 0 / 0 would be NaN, which is neither better nor worse.
        let numbers = f64::from(numbers) / f64::from(filled.max(1));
        Some(Self { even: rows.iter().all(|row| row.len() == cells), numbers, cells })
    }
}

/// Returns the first records, without a last one that may be cut off.
fn records(head: &[u8], whole: bool, delimiter: u8) -> Vec<csv::ByteRecord> {
    let reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(delimiter)
        .from_reader(UnixLines::new(head));
    let records = reader.into_byte_records().map_while(Result::ok);
    // One more, because the last one may be cut off.
    let mut records: Vec<_> = records.take(RECORDS + 1).collect();
    // A header that is longer than the head is all there is, so it stays.
    if !whole && records.len() > 1 {
        records.pop();
    }
    records.truncate(RECORDS);
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> char {
        char::from(recognised(text.as_bytes(), true))
    }

    #[test]
    fn delimiters_that_split_all_lines_alike() {
        for (text, delimiter) in [
            ("a,b\n1,2\n", ','),
            ("a;b\n1;2\n", ';'),
            ("a\tb\n1\t2\n", '\t'),
            ("a|b\n1|2\n", '|'),
            // Decimal commas, and commas in texts.
            ("a;b\n1,5;2,5\n3,5;1\n", ';'),
            ("a;b;c\nx, y;1,5;2\nz;3;4\n", ';'),
            ("name, first;size, cm\nx, y;1,5\n", ';'),
            ("Preis, EUR;Menge, kg\n3,5;1,5\n2,5;1,0\n", ';'),
            // Quotes.
            ("\"a;b\",c\n1,\"2;3\"\n", ','),
            ("\"a,b\";c\n\"1,5\";2\n", ';'),
            // Blanks around commas.
            ("a,\tb\n1,\t2\n", ','),
            ("a\t,\tb\n1\t,\t2\n", ','),
            // Headers alone.
            ("a;b;c\n", ';'),
            ("a,b", ','),
            // One column.
            ("", ','),
            ("a\n1\n", ','),
            ("a|b\n1\n2\n", ','),
            ("a\n1,5\n2,5\n", ','),
            // Rows that lack cells.
            ("a;b;c\n1;2;3\n4;5\n", ';'),
            ("a,b\n1\n", ','),
        ] {
            assert_eq!(of(text), delimiter, "{text:?}");
            assert_eq!(of(&text.replace('\n', "\r\n")), delimiter, "{text:?}");
            assert_eq!(of(&text.replace('\n', "\r")), delimiter, "{text:?}");
        }
    }

    #[test]
    fn a_line_that_is_cut_off_does_not_count() {
        let text = "a;b;c\n1;2;3\n4;5";
        assert!(Fit::of(text.as_bytes(), false, b';').unwrap().even);
        assert!(!Fit::of(text.as_bytes(), true, b';').unwrap().even);
        assert_eq!(recognised(b"a|b|c", false), b'|');
    }
}
