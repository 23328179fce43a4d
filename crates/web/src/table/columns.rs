//! The columns of the table, and the owner's choice of them.
//!
//! The coding of [`sudare_table`] says what a column is, here as in the command and in Python. This
//! module shows it to the owner, and turns a choice into the options of that coding.

use crate::table::{Choice, Csv};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use sudare_roles::error::{Error, Result};
use sudare_table::{
    Categorical, Content, EncodingOptions, Frame, Missing, Omission, Selection, TextColumn, Unseen,
};

/// Maximum number of different values to count in a column. A column with more values cannot be
/// encoded as categories.
const MAX_COUNTED: usize = 1000;
/// Number of first values to show.
const EXAMPLES: usize = 3;
/// Maximum number of characters to show of a value.
const EXAMPLE_CHARS: usize = 24;
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
    /// The types that the column can have, first the type that the coding suggests.
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
    /// Numbers, or truth values as 0 and 1.
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
    /// The coding leaves the column out, because it tells rows apart.
    Id,
    /// The column has more values than an encoding can have. The page leaves it out at first.
    Crowded,
    /// The column has no value. The page leaves it out at first.
    Empty,
    /// The column has text among numbers, which only categories can be.
    Mixed,
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

impl Csv {
    /// Returns the columns of the file.
    ///
    /// # Errors
    /// [`Error::TableFile`], which locates the first fault.
    pub fn contents(&self) -> Result<Contents> {
        let frame = self.frame()?;
        let found = suggested().contents(&frame);
        let columns = frame.columns().iter().zip(found).enumerate();
        let columns = columns.map(|(at, (name, found))| column(&frame, at, name, found)).collect();
        Ok(Contents { rows: frame.rows(), columns })
    }

    /// Returns the options of the coding for a choice. Suggestions that the owner did not change are not
    /// named, as in a command without options.
    ///
    /// # Errors
    /// [`Error::TableFile`]; [`Error::Usage`] for a choice that does not suit the file.
    pub fn options(&self, choice: &Choice) -> Result<EncodingOptions> {
        let Choice { job, columns, missing, unseen, rare } = choice;
        let mut options =
            EncodingOptions { missing: *missing, unseen: *unseen, rare: *rare, ..suggested() };
        let Some(chosen) = columns else { return Ok(options) };
        let frame = self.frame()?;
        let names = frame.columns();
        if let Some(Chosen { name, .. }) = chosen.iter().find(|of| !names.contains(&of.name)) {
            return Err(Error::Usage(format!("the table has no column {name:?}: open it again")));
        }
        if chosen.is_empty() {
            return Err(Error::Usage(
                "no column is switched on: switch on the columns to use".into(),
            ));
        }
        let mut named = Vec::new();
        let mut drop = Vec::new();
        let mut identifies = false;
        for (at, (name, found)) in names.iter().zip(options.contents(&frame)).enumerate() {
            let used = chosen.iter().find(|chosen| chosen.name == *name);
            let is_identifier = found == Content::LeftOut(Omission::Identifier);
            match used {
                Some(Chosen { kind, .. }) if job.labels() != Some(name) => {
                    identifies |= is_identifier;
                    if is_renamed(*kind, name, kinds(&frame, at, found))? {
                        named.push(name.clone());
                    }
                }
                None if !is_identifier => drop.push(name.clone()),
                _ => {}
            }
        }
        options.categorical = Categorical::Detect(named);
        options.selection = if identifies {
            // An identifier is used only if all columns are named.
            let columns = chosen.iter().map(|chosen| chosen.name.clone()).collect();
            Selection { columns: Some(columns), drop: Vec::new() }
        } else {
            Selection { columns: None, drop }
        };
        Ok(options)
    }
}

/// Returns the options of the coding that suggests types.
pub(super) fn suggested() -> EncodingOptions {
    EncodingOptions {
        categorical: Categorical::Detect(Vec::new()),
        // The owner chooses the treatment of gaps after this, so gaps must not be refused yet.
        missing: Missing::Mean,
        ..EncodingOptions::default()
    }
}

/// Returns the options of `sudare keygen` that read a table in this way, each as a word.
#[must_use]
pub fn words(options: &EncodingOptions) -> Vec<String> {
    let EncodingOptions { categorical, missing, missing_of, dates, unseen, selection, rare } =
        options;
    let mut named = match categorical {
        Categorical::Detect(names) | Categorical::Columns(names) => names.clone(),
        Categorical::None | Categorical::Every => Vec::new(),
    };
    // Alone, this name would stand for every column.
    if named == ["all"] {
        named.push("all".into());
    }
    let lists = [
        ("--columns", selection.columns.as_deref().unwrap_or_default()),
        ("--drop", &selection.drop),
        ("--categorical", &named),
    ];
    let mut words = Vec::new();
    for (option, names) in lists.into_iter().filter(|(_, names)| !names.is_empty()) {
        let names: Vec<String> = names.iter().map(|name| listed(name)).collect();
        words.extend([option.to_owned(), names.join(",")]);
    }
    for (column, parts) in dates {
        let parts: Vec<&str> = parts.iter().map(|part| part.name()).collect();
        words.extend(["--dates".to_owned(), format!("{column}={}", parts.join(","))]);
    }
    for (column, rule) in missing_of {
        words.extend(["--missing".to_owned(), format!("{column}={}", rule.name())]);
    }
    let others = [
        ("--missing", (*missing != Missing::Refuse).then(|| missing.name().to_owned())),
        ("--unseen", (*unseen == Unseen::Zero).then(|| "zero".to_owned())),
        ("--rare", (*rare > 0).then(|| rare.to_string())),
    ];
    for (option, value) in others {
        words.extend(value.into_iter().flat_map(|value| [option.to_owned(), value]));
    }
    words
}

/// Writes a name for a list of names between commas.
fn listed(name: &str) -> String {
    if name.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.into()
    }
}

/// Returns whether a column must be named to become categories.
///
/// # Errors
/// [`Error::Usage`] for a type that the column cannot have.
fn is_renamed(kind: Kind, name: &str, kinds: Vec<Kind>) -> Result<bool> {
    if !kinds.contains(&kind) {
        return Err(Error::Usage(format!(
            "column {name:?} cannot have the type {kind:?}: choose one of {kinds:?}"
        )));
    }
    Ok(kind == Kind::Categories && kinds.first() != Some(&kind))
}

/// Returns the types that a column can have, first the type that the coding suggests.
fn kinds(frame: &Frame, at: usize, found: Content) -> Vec<Kind> {
    let is_text = frame.text(at).is_some();
    match found {
        Content::Date => vec![Kind::Date, Kind::Categories],
        Content::Number => vec![Kind::Number, Kind::Categories],
        Content::Categories => vec![Kind::Categories],
        Content::LeftOut(_) if is_text => vec![Kind::Categories],
        Content::LeftOut(_) => vec![Kind::Number, Kind::Categories],
    }
}

fn numbers(frame: &Frame, at: usize) -> impl Iterator<Item = f64> {
    frame.numbers().iter().skip(at).step_by(frame.columns().len()).copied()
}

fn column(frame: &Frame, at: usize, name: &str, found: Content) -> Column {
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
    let kinds = kinds(frame, at, found);
    let categories = kinds.first() == Some(&Kind::Categories);
    let remark = match (frame.rows().saturating_sub(missing), values) {
        (0, _) => Some(Remark::Empty),
        _ if matches!(found, Content::LeftOut(_)) => Some(Remark::Id),
        _ if categories && more => Some(Remark::Crowded),
        _ if found == Content::Number && frame.text(at).is_some() => Some(Remark::Mixed),
        (_, 1) => Some(Remark::Constant),
        _ if categories && values >= MANY_CATEGORIES => Some(Remark::Wide),
        _ => None,
    };
    Column { name: name.to_owned(), kinds, remark, missing, values, more, examples }
}

fn excerpt(value: &str) -> String {
    let mut shown: String = value.chars().take(EXAMPLE_CHARS).collect();
    if shown.len() < value.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests;
