//! The columns that a job uses, and their types.
//!
//! Tables have columns that are no numbers and no categories: numbers of patients, dates. This
//! module says which columns these are, and rewrites a table to the chosen columns. Everything
//! else reads the rewritten text as it reads any file.

use crate::table::{Choice, Csv};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, collections::HashSet, sync::Arc};
use sudare_roles::{
    clear::model::Model,
    error::{Error, Result},
};
use sudare_table::{Code, Frame, TextColumn, is_exact};

/// Maximum number of different values to count in a column. A column with more values cannot be
/// encoded as categories.
const MAX_COUNTED: usize = 1000;
/// Number of first values to show.
const EXAMPLES: usize = 3;
/// Maximum number of characters to show of a value.
const EXAMPLE_CHARS: usize = 24;
/// Minimum number of values before a text column can look like an ID by its values alone. With
/// fewer values, categories may all differ by chance.
const ID_VALUES: usize = 20;
/// Number of categories from which the page mentions that each becomes a column.
const MANY_CATEGORIES: usize = 50;

/// The content of a CSV file.
#[derive(Debug, Serialize)]
pub struct Contents {
    /// Number of rows.
    pub rows: usize,
    /// Columns in the order of the file.
    pub columns: Vec<Column>,
}

/// A column of the file.
#[derive(Debug, Serialize)]
pub struct Column {
    /// The name of the column.
    pub name: String,
    /// The types that the column can have, first the type that its values suggest.
    pub kinds: Vec<Kind>,
    /// A remark for the owner.
    pub remark: Option<Remark>,
    /// Number of rows without a value.
    pub missing: usize,
    /// Number of different values, up to a maximum.
    pub values: usize,
    /// True if there are more different values.
    pub more: bool,
    /// The first values.
    pub examples: Vec<String>,
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Numbers.
    Number,
    /// Names of categories. Each category becomes a column of 0 and 1.
    Categories,
    /// Dates, as days since 1970-01-01.
    Date,
}

/// A remark about a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Remark {
    /// The column looks like an ID. Left out unless the owner switches it on.
    Id,
    /// The column has more values than an encoding can have. Left out, as [`Remark::Id`].
    Crowded,
    /// The column has no value. Left out, as [`Remark::Id`].
    Empty,
    /// The column has one value in all rows.
    Constant,
    /// Each of many categories becomes a column.
    Wide,
}

/// A column that the job uses.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chosen {
    /// The name of the column.
    pub name: String,
    /// The type of the column.
    pub kind: Kind,
}

/// A table that was rewritten to the chosen columns, for the command.
#[derive(Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// The text of the table, with commas between cells and a point in numbers.
    pub text: Arc<[u8]>,
    /// The columns of categories.
    pub categorical: Vec<String>,
}

impl Csv {
    /// Returns the columns of the file.
    ///
    /// # Errors
    /// [`Error::TableFile`], which locates the first fault.
    pub fn contents(&self) -> Result<Contents> {
        let frame = self.frame(None)?;
        let columns = frame.columns().iter().enumerate();
        let columns = columns.map(|(at, name)| column(&frame, at, name.clone())).collect();
        Ok(Contents { rows: frame.rows(), columns })
    }

    /// Returns the table of the columns of a choice, in the order of the file. Returns the same text
    /// if the job uses all columns with the types that their values suggest.
    ///
    /// # Errors
    /// [`Error::TableFile`]; [`Error::Usage`] for a choice that does not suit the file.
    pub fn chosen(&self, choice: &Choice) -> Result<Self> {
        let Some(columns) = &choice.columns else { return Ok(self.clone()) };
        self.with(columns, choice.job.target())
    }

    /// Returns the table for the columns of a model, from which other columns are left out and in
    /// which dates become days where the model has numbers.
    pub(crate) fn fitting(&self, model: &Model) -> Result<Self> {
        let frame = self.frame(Some(&model.target))?;
        let code = |name: &String| match &model.encoding {
            Some(encoding) => encoding
                .codes()
                .find(|(input, _)| input == name)
                .map(|(_, code)| matches!(code, Code::Categories { .. })),
            None => model.columns.contains(name).then_some(false),
        };
        let needed: Vec<&str> = match &model.encoding {
            Some(encoding) => encoding
                .codes()
                .filter(|(_, code)| !matches!(code, Code::LeftOut { .. }))
                .map(|(name, _)| name)
                .collect(),
            None => model.columns.iter().map(String::as_str).collect(),
        };
        if needed.iter().any(|&name| frame.columns().iter().all(|other| other != name)) {
            // The reader names the columns that the table lacks.
            return Ok(self.clone());
        }
        let columns = frame.columns().iter().enumerate();
        let columns = columns.filter_map(|(at, name)| {
            let kinds = kinds(&frame, at);
            let kind = match code(name) {
                Some(true) => Kind::Categories,
                Some(false) if kinds.contains(&Kind::Date) => Kind::Date,
                // Text in a column of numbers is refused by the reader, with its line.
                Some(false) => Kind::Number,
                None => *kinds.first().filter(|_| *name == model.target)?,
            };
            Some(Chosen { name: name.clone(), kind })
        });
        let columns: Vec<Chosen> = columns.collect();
        // The model's encoding names a text in a column of numbers with its line.
        let readable = |chosen: &Chosen| {
            let at = frame.columns().iter().position(|name| *name == chosen.name);
            at.is_some_and(|at| kinds(&frame, at).contains(&chosen.kind))
        };
        if columns.iter().all(readable) {
            self.with(&columns, Some(&model.target))
        } else {
            Ok(self.clone())
        }
    }

    fn with(&self, columns: &[Chosen], target: Option<&str>) -> Result<Self> {
        let frame = self.frame(target)?;
        let names = frame.columns();
        if let Some(unknown) = columns.iter().find(|chosen| !names.contains(&chosen.name)) {
            let name = &unknown.name;
            return Err(Error::Usage(format!("the table has no column {name:?}: open it again")));
        }
        let mut cells = Vec::new();
        let mut categorical = Vec::new();
        let mut changed = false;
        for (at, name) in names.iter().enumerate() {
            let Some(chosen) = columns.iter().find(|chosen| chosen.name == *name) else {
                changed = true;
                continue;
            };
            let suggested = kinds(&frame, at).first().copied();
            // Days are another text of the same column.
            changed |= suggested != Some(chosen.kind) || chosen.kind == Kind::Date;
            if chosen.kind == Kind::Categories && target != Some(name) {
                categorical.push(name.clone());
            }
            cells.push((name, Cells::new(&frame, at, chosen)?));
        }
        if cells.is_empty() {
            return Err(Error::Usage(
                "no column is switched on: switch on the columns to use".into(),
            ));
        }
        if !changed {
            return Ok(self.clone());
        }
        let mut text = String::new();
        line(&mut text, cells.iter(), |text, (name, _)| text.push_str(&quoted(name)));
        for (row, numbers) in frame.numbers().chunks_exact(names.len()).enumerate() {
            line(&mut text, cells.iter(), |text, (_, cells)| cells.push(text, row, numbers));
        }
        Ok(self.rewritten_as(text, categorical))
    }
}

/// The cells of a column in a rewritten table.
enum Cells<'a> {
    /// The numbers at this place of each row.
    Numbers(usize),
    /// The texts of codes.
    Texts { codes: &'a [u32], texts: Vec<String> },
}

impl<'a> Cells<'a> {
    fn new(frame: &'a Frame, at: usize, chosen: &Chosen) -> Result<Self> {
        let Chosen { name, kind } = chosen;
        let refused = |found: &str, remedy: &str| {
            Err(Error::Usage(format!("column {name:?} contains {found:?}: {remedy}")))
        };
        let Some(text) = frame.text(at) else {
            let refusing = match kind {
                Kind::Number => None,
                // Another number may have been rounded to the same one.
                Kind::Categories => numbers(frame, at).find(|x| !x.is_nan() && !is_exact(*x)),
                Kind::Date => numbers(frame, at).next(),
            };
            return match refusing {
                None => Ok(Self::Numbers(at)),
                Some(found) => refused(
                    &found.to_string(),
                    match kind {
                        Kind::Date => "it is no date; choose the type number",
                        _ => "numbers from 2^53 on are not exact, so they cannot be categories",
                    },
                ),
            };
        };
        let mut texts = Vec::new();
        for value in text.values() {
            texts.push(match (kind, days(value)) {
                (Kind::Categories, _) => quoted(value),
                (Kind::Date, Some(days)) => days.to_string(),
                (Kind::Date, None) => {
                    return refused(value, "it is no date; choose the type categories");
                }
                (Kind::Number, _) => {
                    return refused(value, "it is no number; choose the type categories");
                }
            });
        }
        Ok(Self::Texts { codes: text.codes(), texts })
    }

    /// Writes the cell of a row.
    fn push(&self, out: &mut String, row: usize, numbers: &[f64]) {
        let text = match self {
            // Adding 0 turns -0 into 0, so both are one category.
            Self::Numbers(at) => {
                let number = numbers.get(*at).filter(|number| !number.is_nan());
                number.map(|number| Cow::Owned((number + 0.0).to_string()))
            }
            Self::Texts { codes, texts } => {
                let code = codes.get(row).map_or(usize::MAX, |&code| code as usize);
                texts.get(code).map(|text| Cow::Borrowed(&text[..]))
            }
        };
        // An empty cell in quotes, because an empty line would be no row.
        out.push_str(&text.unwrap_or(Cow::Borrowed("\"\"")));
    }
}

fn numbers(frame: &Frame, at: usize) -> impl Iterator<Item = f64> {
    frame.numbers().iter().skip(at).step_by(frame.columns().len()).copied()
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

fn line<T>(text: &mut String, cells: impl Iterator<Item = T>, push: impl Fn(&mut String, T)) {
    for (at, cell) in cells.enumerate() {
        if at > 0 {
            text.push(',');
        }
        push(text, cell);
    }
    text.push('\n');
}

/// Returns the types that a column can have, first the type that its values suggest.
fn kinds(frame: &Frame, at: usize) -> Vec<Kind> {
    match frame.text(at) {
        Some(text) if text.values().iter().all(|value| days(value).is_some()) => {
            vec![Kind::Date, Kind::Categories]
        }
        Some(_) => vec![Kind::Categories],
        None => vec![Kind::Number, Kind::Categories],
    }
}

fn column(frame: &Frame, at: usize, name: String) -> Column {
    let mut missing = 0_usize;
    let mut values = 0;
    let mut more = false;
    let mut examples = Vec::new();
    if let Some(text) = frame.text(at) {
        missing = text.codes().iter().filter(|&&code| code == TextColumn::MISSING).count();
        values = text.values().len().min(MAX_COUNTED);
        more = text.values().len() > MAX_COUNTED;
        examples.extend(text.values().iter().take(EXAMPLES).map(|value| excerpt(value)));
    } else {
        let mut found = HashSet::new();
        for number in numbers(frame, at) {
            if number.is_nan() {
                missing = missing.saturating_add(1);
            } else if found.len() < MAX_COUNTED {
                if found.insert(number.to_bits()) && examples.len() < EXAMPLES {
                    examples.push(excerpt(&number.to_string()));
                }
            } else {
                // The set is full. A column of measurements may have another value in every row.
                more |= !found.contains(&number.to_bits());
            }
        }
        values = values.max(found.len());
    }
    let kinds = kinds(frame, at);
    let categories = kinds.first() == Some(&Kind::Categories);
    let present = frame.rows().saturating_sub(missing);
    // Nine of ten values differ.
    let unlike = categories
        && present >= ID_VALUES
        && frame
            .text(at)
            .is_some_and(|text| text.values().len() >= present.div_ceil(10).saturating_mul(9));
    let remark = match (present, values) {
        (0, _) => Some(Remark::Empty),
        _ if unlike || names_id(&name) => Some(Remark::Id),
        _ if categories && more => Some(Remark::Crowded),
        (_, 1) => Some(Remark::Constant),
        _ if categories && values >= MANY_CATEGORIES => Some(Remark::Wide),
        _ => None,
    };
    Column { name, kinds, remark, missing, values, more, examples }
}

/// Returns whether the name of a column says that it contains IDs: `id`, `patient_id`, `Patient ID`,
/// `patientId`, `uuid`.
fn names_id(name: &str) -> bool {
    let camel = name.ends_with("Id") && name.len() > 2;
    let mut words = name.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    let last = words.rfind(|word| !word.is_empty()).unwrap_or_default();
    camel || matches!(&last[..], "id" | "uuid" | "guid")
}

fn excerpt(value: &str) -> String {
    let mut shown: String = value.chars().take(EXAMPLE_CHARS).collect();
    if shown.len() < value.len() {
        shown.push('…');
    }
    shown
}

/// Returns the days from 1970-01-01 to a date: `2024-03-01`, `2024/03/01` or `1.3.2024`, perhaps
/// with a time of the day such as `T08:30` or ` 08:30:15`.
fn days(text: &str) -> Option<f64> {
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (date, part_of_day(time)?),
        None => (text, 0.0),
    };
    let mark = date.chars().find(|c| !c.is_ascii_digit())?;
    let parts: Vec<&str> = date.split(mark).collect();
    let (year, month, day) = match (mark, &parts[..]) {
        ('-' | '/', &[year, month, day]) | ('.', &[day, month, year]) => (year, month, day),
        _ => return None,
    };
    let plain = |text: &str, lengths: &[usize]| -> Option<u32> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| digits && lengths.contains(&text.len()))
    };
    let year = plain(year, &[4]).filter(|&year| year > 0)?;
    let month = plain(month, &[1, 2])?;
    let day = plain(day, &[1, 2])?;
    Some(sudare_table::days(&format!("{year:04}-{month:02}-{day:02}"))? + time)
}

/// Returns the fraction of a day before a time.
fn part_of_day(text: &str) -> Option<f64> {
    let parts: Vec<&str> = text.split(':').collect();
    let (hours, minutes, seconds) = match parts[..] {
        [hours, minutes] => (hours, minutes, "00"),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    let part = |text: &str, limit: f64| -> Option<f64> {
        let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        text.parse().ok().filter(|&number: &f64| plain && number < limit)
    };
    let seconds = part(seconds, 60.0)?;
    Some((part(hours, 24.0)? * 3600.0 + part(minutes, 60.0)? * 60.0 + seconds) / 86_400.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Wanted;
    use sudare_table::Missing;

    fn csv(text: &str) -> Csv {
        Csv::new("t.csv".into(), text.into())
    }

    #[test]
    fn columns_are_told_as_they_are() {
        let contents = csv("\u{feff}ward;age;y\r\n\"A\";1,5;0\r\nB;NA;1\r\n;1,5;1\r\n").contents();
        let Contents { rows, columns } = contents.unwrap();
        let found: Vec<_> = columns
            .iter()
            .map(|c| (&c.name[..], c.kinds[0], c.missing, c.values, c.more))
            .collect();
        assert_eq!(rows, 3);
        let number = Kind::Number;
        let text = Kind::Categories;
        assert_eq!(
            found,
            [("ward", text, 1, 2, false), ("age", number, 1, 1, false), ("y", number, 0, 2, false)]
        );
        assert_eq!(
            (&columns[0].examples[..], &columns[1].examples[..]),
            (&["A".to_owned(), "B".to_owned()][..], &["1.5".to_owned()][..])
        );
        let many: String = (0..=MAX_COUNTED).map(|i| format!("{i}\n")).collect();
        let column = &csv(&format!("x\n{many}")).contents().unwrap().columns[0];
        assert!(column.more && column.values == MAX_COUNTED && column.remark.is_none());
        assert_eq!(csv("a,b\n1\n").contents().unwrap_err().kind(), "Ragged");
    }

    #[test]
    fn ids_are_noticed_by_their_names_or_values() {
        for name in ["id", "ID", "patient_id", "Patient ID", "patientId", "row.uuid"] {
            assert!(names_id(name), "{name}");
        }
        for name in ["Id card kind", "humid", "valid", "identity", "age", "Madrid"] {
            assert!(!names_id(name), "{name}");
        }
        let table = |cell: &dyn Fn(usize) -> String| {
            let rows: String = (0..40).map(|i| format!("{i},{}\n", cell(i))).collect();
            csv(&format!("x,c\n{rows}")).contents().unwrap().columns[1].remark
        };
        assert_eq!(table(&|i| format!("P-{i:04}")), Some(Remark::Id));
        // Every value twice, and measurements that all differ.
        assert_eq!(table(&|i| format!("P-{:04}", i / 2)), None);
        assert_eq!(table(&|i| format!("{i}.5")), None);
        assert_eq!(table(&|i| format!("2024-01-{:02}", i % 31 + 1)), None);
        assert_eq!(table(&|_| "same".into()), Some(Remark::Constant));
        let rows: String = (0..200).map(|i| format!("c{}\n", i % 60)).collect();
        let column = &csv(&format!("x\n{rows}")).contents().unwrap().columns[0];
        assert_eq!(column.remark, Some(Remark::Wide));
        let rows: String = (0..3000).map(|i| format!("c{}\n", i % 1500)).collect();
        let column = &csv(&format!("x\n{rows}")).contents().unwrap().columns[0];
        assert_eq!(column.remark, Some(Remark::Crowded));
    }

    /// Days from Python: `(datetime.date(…) - datetime.date(1970, 1, 1)).days`.
    #[test]
    fn dates_are_days_since_1970() {
        for (text, expected) in [
            ("1970-01-01", 0.0),
            ("1969-12-31", -1.0),
            ("2000-02-29", 11_016.0),
            ("2000/03/01", 11_017.0),
            ("1.3.2024", 19_783.0),
            ("1900-03-01", -25_508.0),
            ("0001-01-01", -719_162.0),
            ("9999-12-31", 2_932_896.0),
            ("2024-03-01T06:00", 19_783.25),
            ("2024-03-01 23:59:30", 19_783.0 + 86_370.0 / 86_400.0),
        ] {
            assert_eq!(days(text), Some(expected), "{text}");
        }
        for text in [
            "2023-02-29",
            "1900-02-29",
            "2024-13-01",
            "2024-00-01",
            "2024-01-32",
            "2024-04-31",
            "2024-01-00",
            "24-01-01",
            "01/02/2024",
            "2024-1",
            "2024-01-01Z",
            "2024.01.01",
            "+024-01-01",
            "2024-01-01T24:00",
            "2024-01-01T-1:00",
            "2024-01-01T12",
            "",
            "A-1-2",
        ] {
            assert_eq!(days(text), None, "{text}");
        }
    }

    fn chosen(columns: &[(&str, Kind)]) -> Choice {
        let column = |&(name, kind): &(&str, Kind)| Chosen { name: name.into(), kind };
        let columns = Some(columns.iter().map(column).collect());
        let job = Wanted::Train { target: "y".into(), iterations: None };
        Choice { job, missing: Missing::Mean, columns }
    }

    const TABLE: &str = "id;when;ward;age;y\na1;2024-03-01;\"A \"\"1\"\", x\";1,5;no\na2;;;NA;yes\n\
                         a3;1970-01-02;B;2;no\n";

    #[test]
    fn chosen_columns_are_rewritten() {
        let table = csv(TABLE);
        let choice = chosen(&[
            ("y", Kind::Categories),
            ("when", Kind::Date),
            ("ward", Kind::Categories),
            ("age", Kind::Number),
        ]);
        let Rewritten { text, categorical } = table.rewritten(&choice).unwrap().unwrap();
        let expected = "\"when\",\"ward\",\"age\",\"y\"\n19783,\"A \"\"1\"\", x\",1.5,\"no\"\n\
                        \"\",\"\",\"\",\"yes\"\n1,\"B\",2,\"no\"\n";
        assert_eq!(
            (std::str::from_utf8(&text).unwrap(), &categorical[..]),
            (expected, &["ward".to_owned()][..])
        );
        let again = table.chosen(&choice).unwrap().frame(Some("y")).unwrap();
        assert_eq!((again.columns().len(), again.rows()), (4, 3));
        // A number may be a category.
        let choice = chosen(&[("age", Kind::Categories), ("y", Kind::Categories)]);
        assert_eq!(table.rewritten(&choice).unwrap().unwrap().categorical, ["age"]);
        assert!(table.plan(&choice).is_ok());
    }

    #[test]
    fn a_table_of_which_all_is_chosen_stays_as_it_is() {
        let table = csv("ward,y\nA,1\nB,0\n,1\n");
        let all = chosen(&[("ward", Kind::Categories), ("y", Kind::Number)]);
        assert_eq!(table.rewritten(&all).unwrap(), None);
        assert_eq!(table.rewritten(&Choice { columns: None, ..all }).unwrap(), None);
        // One column with a gap is no table with an empty line.
        let one = table.chosen(&chosen(&[("ward", Kind::Categories)])).unwrap();
        assert_eq!(one.contents().unwrap().rows, 3);
    }

    #[test]
    fn choices_that_do_not_suit_the_table_are_refused() {
        let refused = |columns: &[(&str, Kind)]| {
            csv(TABLE).chosen(&chosen(columns)).map(|_| ()).unwrap_err().to_string()
        };
        assert!(refused(&[]).contains("no column is switched on"));
        assert!(refused(&[("wing", Kind::Number)]).contains("no column \"wing\""));
        assert!(refused(&[("ward", Kind::Number)]).contains("is no number"));
        assert!(refused(&[("ward", Kind::Date)]).contains("is no date"));
        assert!(refused(&[("age", Kind::Date)]).contains("choose the type number"));
        let large = csv("a,y\n9007199254740993,1\n1,0\n");
        let choice = chosen(&[("a", Kind::Categories), ("y", Kind::Number)]);
        assert!(large.chosen(&choice).map(|_| ()).unwrap_err().to_string().contains("2^53"));
    }
}
