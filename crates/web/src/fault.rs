//! Errors in the words of the page.
//!
//! Messages of the library name options of the command and arguments of Python. Here the remedies
//! are the page's own controls.

use sudare_roles::error::Error;
use sudare_table::TableError;

/// Returns the sentences about an error, one for each fault.
#[must_use]
pub fn sentences(error: &Error) -> Vec<String> {
    let (place, source) = match error {
        Error::TableFile { path, source } => (format!("{}: ", path.display()), source),
        Error::Table(source) => (String::new(), source),
        other => return vec![other.to_string()],
    };
    match source {
        TableError::Several { faults } => {
            let count = faults.len();
            let head = format!("{place}{count} columns cannot be used as they are.");
            core::iter::once(head).chain(faults.iter().map(sentence)).collect()
        }
        one => vec![format!("{place}{}", sentence(one))],
    }
}

/// Returns a sentence about a fault of a table.
fn sentence(fault: &TableError) -> String {
    match fault {
        TableError::Gap { place, column } => format!(
            "column {column:?} lacks a value, first on {place}: choose a treatment of missing values, or \
             fill the gap"
        ),
        TableError::Text { place, column, found } => format!(
            "column {column:?} has text among numbers, {found:?} on {place}: choose the type categories, \
             or correct the cell"
        ),
        TableError::AllMissing { column } => {
            format!("column {column:?} has no value in any row: switch it off")
        }
        TableError::TooManyCategories { column, found, limit } => format!(
            "column {column:?} has {found} different values, but at most {limit} can be categories or \
             classes: switch it off, or join rare categories under More options"
        ),
        TableError::AllRare { column, rare } => format!(
            "no value of column {column:?} has {rare} rows, so all of them would be joined: switch it off, \
             or lower the number of rows under More options"
        ),
        TableError::NoCompleteRow { rows } => format!(
            "each of the {rows} rows lacks a value, so no row is left: choose another treatment of missing \
             values, or switch off the columns with many gaps"
        ),
        TableError::UnseenCategory { cell, known } => format!(
            "column {:?} has {:?} on {}, but the model knows {known}: correct it, or train with unknown \
             categories as zeros under More options",
            cell.column, cell.found, cell.place
        ),
        TableError::DecimalMarks { point: Some(point), comma: Some(comma) } => format!(
            "{point} has a decimal point, but {comma} has a decimal comma: save the table with one of them"
        ),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{
        Choice, Csv, Wanted,
        columns::{Chosen, Kind},
    };
    use sudare_table::Missing;

    fn refused(text: &str, choice: &Choice) -> Vec<String> {
        let csv = Csv::new("t.csv".into(), text.into());
        sentences(&csv.plan(choice).map(|_| ()).unwrap_err())
    }

    #[test]
    fn several_faults_have_a_sentence_each() {
        let text = "a,b,c,y\n1,,x,0\n2,3,,1\n";
        let found = refused(text, &Choice::new(Wanted::Stats {}));
        assert_eq!(found.len(), 3);
        assert_eq!(found[0], "t.csv: 2 columns cannot be used as they are.");
        assert!(found[1].starts_with("column \"b\" lacks a value, first on line 2: choose a"));
        assert!(found[2].starts_with("column \"c\" lacks a value, first on line 3"));
    }

    #[test]
    fn remedies_are_controls_of_the_page() {
        let number = |name: &str| Chosen { name: name.into(), kind: Kind::Number };
        let columns = Some(vec![number("a"), number("b")]);
        let stats = Choice { columns, ..Choice::new(Wanted::Stats {}) };
        let many: String = (0..1200).map(|i| format!("{i},v{}\n", i % 1001)).collect();
        let several = "a,b\n1,2\n2,high\n3,4\n";
        let all = Choice::new(Wanted::Stats {});
        let mean = Choice { missing: Missing::Mean, ..all.clone() };
        let drop = Choice { missing: Missing::Drop, ..all.clone() };
        let rare = Choice { rare: 9, ..all.clone() };
        for (text, choice, expected) in [
            (several, &stats, "text among numbers, \"high\" on line 3: choose the type categories"),
            (&format!("a,b\n{many}"), &all, "1001 different values"),
            ("a,b\n1,\n2,\n", &mean, "no value in any row: switch it off"),
            ("a,b\n1,\n,2\n", &drop, "no row is left: choose another treatment"),
            ("a,b\n1,x\n2,y\n", &rare, "no value of column \"b\" has 9 rows"),
        ] {
            let found = refused(text, choice).join("\n");
            assert!(found.contains(expected), "{found}");
            assert!(!found.contains("--") && !found.contains("Python"), "{found}");
        }
    }
}
