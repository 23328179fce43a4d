//! Encoding of the columns of a frame as numbers.

mod apply;
mod fit;
mod split;
mod stored;

pub use fit::Content;

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::{
    Categorical, DatePart, Frame, ReadOptions, Selection, Table, TableError, TextColumn,
    check_names, error::excerpt,
};
use stored::Stored;

/// Maximum number of values of a column that is encoded, as categories or as classes.
// Each category becomes a column, and trainings whiten at most 1024 columns.
pub(super) const MAX_CATEGORIES: usize = 1000;

/// Name of the category of joined values.
const OTHER: &str = "other";

/// Treatment of missing values. Missing labels are rejected, except with [`Missing::Drop`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// Reject them.
    #[default]
    Refuse,
    /// Replace a missing number by the mean of its column in the fitted table. A missing category
    /// is a category of its own if the fitted table had any.
    Mean,
    /// Drop rows with missing values.
    Drop,
    /// Fill as [`Missing::Mean`] does, and add a feature to number columns that lacked values in
    /// the fitted table. It is 1 where the number is missing and 0 elsewhere. Columns that lack
    /// values only later get no such feature.
    Flag,
    /// Fill as [`Missing::Mean`] does, with the median.
    Median,
    /// Replace a missing value by the most frequent value of its column in the fitted table, the
    /// first in order among equally frequent ones.
    MostFrequent,
}

impl Missing {
    /// All treatments.
    pub const ALL: [Self; 6] =
        [Self::Refuse, Self::Mean, Self::Median, Self::MostFrequent, Self::Drop, Self::Flag];

    /// Returns the name of the treatment, as options of the command have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Mean => "mean",
            Self::Median => "median",
            Self::MostFrequent => "most-frequent",
            Self::Drop => "drop",
            Self::Flag => "flag",
        }
    }

    /// Returns the treatment of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|missing| missing.name() == name)
    }

    /// Returns whether missing values are replaced.
    pub fn fills(self) -> bool {
        !matches!(self, Self::Refuse | Self::Drop)
    }
}

/// Treatment of categories that the fitted table did not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unseen {
    /// Reject them.
    #[default]
    Refuse,
    /// Set all features of the column to 0.
    Zero,
}

/// Options of an encoding.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EncodingOptions {
    /// The columns to encode as categories.
    pub categorical: Categorical,
    /// Treatment of missing values.
    pub missing: Missing,
    /// Treatment of missing values in single columns, by their names. Rows that one of them drops
    /// count nowhere: not in means, and not among categories.
    pub missing_of: BTreeMap<String, Missing>,
    /// The parts that take the place of columns of dates, by their names. A part is a column of
    /// numbers, such as `admitted year`, and other options may name it.
    pub dates: BTreeMap<String, Vec<DatePart>>,
    /// Treatment of categories that the fitted table did not have.
    pub unseen: Unseen,
    /// The columns to use. The target is always used.
    pub selection: Selection,
    /// Joins the categories of a column with fewer rows as one category, `other`, and the next
    /// rarer ones until `other` has this number of rows. Values that the fitted table did not have
    /// then count as `other`, too. 0 joins nothing.
    pub rare: usize,
}

impl EncodingOptions {
    /// Returns the options to read a file whose frame you fit with these options.
    pub fn read_options(&self, target: Option<&str>) -> ReadOptions {
        let with_dates =
            |names: &[String]| names.iter().chain(self.dates.keys()).cloned().collect();
        ReadOptions {
            categorical: match &self.categorical {
                Categorical::None if !self.dates.is_empty() => {
                    Categorical::Columns(with_dates(&[]))
                }
                Categorical::Columns(names) => Categorical::Columns(with_dates(names)),
                other => other.clone(),
            },
            // A fit reports the gaps of all columns together, which needs the whole frame.
            missing: self.missing != Missing::Refuse
                || self.missing_of.values().any(|&rule| rule != Missing::Refuse)
                || matches!(self.categorical, Categorical::Detect(_)),
            target: target.map(str::to_owned),
            selection: self.selection.clone(),
            ..ReadOptions::default()
        }
    }

    /// Returns the content that a fit with these options reads from each column of a frame, in
    /// order. A target counts as any other column.
    pub fn contents(&self, frame: &Frame) -> Vec<Content> {
        fit::contents(frame, self)
    }

    /// Returns the columns named as categories.
    fn named(&self) -> &[String] {
        match &self.categorical {
            Categorical::Columns(names) | Categorical::Detect(names) => names,
            Categorical::None | Categorical::Every => &[],
        }
    }

    /// Returns the treatment of missing values in a column.
    fn rule_of(&self, column: &str) -> Missing {
        self.missing_of.get(column).copied().unwrap_or(self.missing)
    }
}

/// Encoding of the columns of a table as numbers. It is fitted to the owner's table and stored, so
/// that later rows are encoded in the same way.
///
/// A number column becomes one feature, or two with [`Missing::Flag`]. A category column `purpose`
/// becomes one feature for each value: `purpose=car`, `purpose=home` and so on. The feature is 1
/// where the row has the value and 0 elsewhere. If values were missing, `purpose missing` is added.
/// Values and classes are sorted numerically if all of them are numbers, and alphabetically
/// otherwise.
///
/// With [`Categorical::Detect`], a text column of dates becomes one feature, the days since
/// 1970-01-01. Columns that identify rows are left out: columns of at least 20 rows with text
/// where nine in ten values differ, or with different integers under the name of an identifier,
/// such as `patient_id`. Name such a column in [`Selection::columns`] or in
/// [`Categorical::Detect`] to use it. Tables that the encoding is applied to may lack columns that
/// are left out. Columns of [`EncodingOptions::dates`] become one column for each part.
///
/// A serialised encoding may travel with a model. It reveals columns, categories, classes, and the
/// means that replace missing numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Encoding {
    parts: Parts,
    /// Names of the features.
    columns: Vec<String>,
}

/// The content of an encoding.
#[derive(Debug, Clone, PartialEq)]
struct Parts {
    /// The columns, with parts of dates in place of columns of dates.
    inputs: Vec<Input>,
    target: Option<Labels>,
    /// Treatment of missing labels, and the rule of most columns.
    missing: Missing,
    unseen: Unseen,
}

/// A column of the frame, or a part of a column of dates.
#[derive(Debug, Clone, PartialEq)]
struct Input {
    name: String,
    code: Code,
    /// Treatment of missing values.
    rule: Missing,
    source: Option<Source>,
}

/// The column of dates that a part belongs to.
#[derive(Debug, Clone, PartialEq)]
struct Source {
    column: String,
    part: DatePart,
}

/// Code of a column, which defines its features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The column's numbers.
    Number {
        /// The value that replaces missing numbers.
        mean: Option<f64>,
        /// Adds a feature that is 1 where a number is missing.
        flag: bool,
    },
    /// One feature for each value.
    Categories {
        /// The values, in order.
        values: Vec<String>,
        /// Adds a feature that is 1 where a value is missing.
        missing: bool,
    },
    /// Days since 1970-01-01 of a column of dates.
    Date {
        /// The value that replaces missing dates.
        mean: Option<f64>,
        /// Adds a feature that is 1 where a date is missing.
        flag: bool,
    },
    /// One feature for each value, and further rules.
    Joined {
        /// The values with a feature of their own, in order.
        values: Vec<String>,
        /// Adds a feature `other` that is 1 for all other values.
        other: bool,
        /// Adds a feature that is 1 where a value is missing.
        missing: bool,
        /// The index of the feature that is 1 where a value is missing, if it is one of the above.
        fill: Option<u32>,
    },
    /// No feature.
    LeftOut {
        /// The reason.
        reason: Omission,
    },
}

/// The reason why a column is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Omission {
    /// The owner did not choose it.
    Unselected,
    /// It identifies rows.
    Identifier,
}

/// The target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Labels {
    name: String,
    classes: Vec<String>,
}

impl Encoding {
    /// Fits the encoding to a frame, with the labels of column `target`.
    ///
    /// Labels may be numbers or text. Numbers that are all 0 or 1 have the classes "0" and "1",
    /// even if one of them does not occur.
    ///
    /// # Errors
    /// [`TableError`] names the place of a missing value or a text that `options` do not allow; a
    /// column without any value, or with more than 1000 categories or classes; a target or a column
    /// of the options that does not exist; two columns whose codes would have one name.
    pub fn fit(
        frame: &Frame,
        target: Option<&str>,
        options: &EncodingOptions,
    ) -> Result<Self, TableError> {
        Self::try_from(fit::parts(frame, target, options)?)
    }

    /// Builds an encoding by agreement instead of by a fit, from the codes of its columns and the
    /// name and classes of its target.
    ///
    /// # Errors
    /// [`TableError`] if names or codes contradict each other or the rule for missing values.
    pub fn of_codes(
        columns: impl IntoIterator<Item = (String, Code)>,
        target: Option<(String, Vec<String>)>,
        missing: Missing,
        unseen: Unseen,
    ) -> Result<Self, TableError> {
        let of_column = |(name, code)| Input { name, code, rule: missing, source: None };
        let inputs = columns.into_iter().map(of_column).collect();
        let target = target.map(|(name, classes)| Labels { name, classes });
        Self::try_from(Parts { inputs, target, missing, unseen })
    }

    /// Encodes a frame, which has this encoding's columns in any order, as a table.
    ///
    /// The table has labels if the frame has the target. It reuses the memory of the frame if it is
    /// not larger.
    ///
    /// # Errors
    /// [`TableError`] names missing and surplus columns of the frame, or the place of the first
    /// missing value, text, category or label that the encoding does not code.
    pub fn apply(&self, frame: Frame) -> Result<Table, TableError> {
        apply::table(self, frame)
    }

    /// Returns the options to read a file whose frame you encode with [`Encoding::apply`].
    pub fn read_options(&self) -> ReadOptions {
        let Parts { inputs, target, missing, .. } = &self.parts;
        let is_text = |input: &Input| match input.code {
            Code::Categories { .. } | Code::Date { .. } | Code::Joined { .. } => true,
            Code::Number { .. } | Code::LeftOut { .. } => input.source.is_some(),
        };
        let texts = inputs.iter().filter(|input| is_text(input)).map(Input::column);
        let drop = self.left_out().map(|(name, _)| name.to_owned()).collect();
        // Labels that were numbers may be written differently from their classes.
        let text = target.iter().filter(|target| !target.classes.iter().all(is_number));
        let names = texts.chain(text.map(|target| &target.name));
        ReadOptions {
            categorical: Categorical::Columns(names.cloned().collect()),
            missing: *missing != Missing::Refuse
                || inputs.iter().any(|input| input.rule != Missing::Refuse),
            target: target.as_ref().map(|target| target.name.clone()),
            selection: Selection { columns: None, drop },
            ..ReadOptions::default()
        }
    }

    /// Returns the columns without features, with the reasons.
    pub fn left_out(&self) -> impl Iterator<Item = (&str, Omission)> {
        self.codes().filter_map(|(name, code)| match code {
            Code::LeftOut { reason } => Some((name, *reason)),
            _ => None,
        })
    }

    /// Returns the columns that were left out because they identify rows.
    pub fn identifiers(&self) -> Vec<&str> {
        let left_out = self.left_out();
        left_out
            .filter(|(_, reason)| *reason == Omission::Identifier)
            .map(|(name, _)| name)
            .collect()
    }

    /// Returns whether the encoding changes nothing: all columns are numbers, none may be missing,
    /// and labels are 0 and 1. Then [`Table::read_csv`] reads the same table.
    pub fn is_plain(&self) -> bool {
        let Parts { inputs, target, missing, .. } = &self.parts;
        let binary = target.as_ref().is_none_or(|target| target.classes == super::binary_classes());
        let number = |input: &Input| {
            let unchanged = input.rule == Missing::Refuse && input.source.is_none();
            unchanged && matches!(input.code, Code::Number { .. })
        };
        binary && *missing == Missing::Refuse && inputs.iter().all(number)
    }

    /// Returns the names of the features, in order.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the names of the encoded columns, without the target, in the order of the fitted
    /// table. Parts of dates are columns.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = &str> {
        self.parts.inputs.iter().map(|input| input.name.as_str())
    }

    /// Returns the encoded columns with their codes, in the order of [`Encoding::inputs`].
    pub fn codes(&self) -> impl Iterator<Item = (&str, &Code)> {
        self.parts.inputs.iter().map(|input| (input.name.as_str(), &input.code))
    }

    /// Returns the name of the target, if any.
    pub fn target(&self) -> Option<&str> {
        self.parts.target.as_ref().map(|target| target.name.as_str())
    }

    /// Returns the encoding with another name of the target. An encoding without a target stays
    /// unchanged.
    ///
    /// # Errors
    /// [`TableError::DuplicateColumn`] or [`TableError::EncodedName`] if a column has that name.
    pub fn with_target(mut self, name: &str) -> Result<Self, TableError> {
        if let Some(target) = &mut self.parts.target {
            name.clone_into(&mut target.name);
        }
        Self::try_from(self.parts)
    }

    /// Returns the encoding with a target of these classes, in this order.
    ///
    /// # Errors
    /// [`TableError::DuplicateColumn`] or [`TableError::EncodedName`] if a column has that name;
    /// [`TableError::Encoding`] unless there are 1 to 1000 different classes.
    pub fn with_labels(mut self, name: String, classes: Vec<String>) -> Result<Self, TableError> {
        self.parts.target = Some(Labels { name, classes });
        Self::try_from(self.parts)
    }

    /// Returns the classes of the target in order, empty without a target.
    pub fn classes(&self) -> &[String] {
        self.parts.target.as_ref().map_or(&[], |target| &target.classes)
    }
}

impl TryFrom<Parts> for Encoding {
    type Error = TableError;

    fn try_from(parts: Parts) -> Result<Self, TableError> {
        // A stored encoding may come from anybody, so it passes the same checks as a fitted one.
        parts.check()?;
        let columns = parts.columns()?;
        Ok(Self { parts, columns })
    }
}

impl Parts {
    /// Returns the columns of dates, with the parts that take their place.
    fn dates(&self) -> split::Dates {
        let mut dates = split::Dates::new();
        for Source { column, part } in self.inputs.iter().filter_map(|input| input.source.as_ref())
        {
            dates.entry(column.clone()).or_default().push(*part);
        }
        dates
    }

    /// Rejects encodings that no fit produces.
    fn check(&self) -> Result<(), TableError> {
        let bad = |problem: String| Err(TableError::Encoding { problem });
        if self.inputs.iter().all(|input| matches!(input.code, Code::LeftOut { .. })) {
            return bad("it has no columns".to_owned());
        }
        let target = self.target.iter().map(|target| &target.name);
        check_names(self.inputs.iter().map(|input| &input.name).chain(target))?;
        for Input { name, code, rule, source } in &self.inputs {
            let of_dates = source.is_some() && matches!(code, Code::Date { .. });
            let problem = if of_dates { Some("a part of a date is a date") } else { None };
            if let Some(problem) = problem.or_else(|| code.problem(*rule)) {
                return bad(format!("of column {:?}, {problem}", excerpt(name)));
            }
        }
        match &self.target {
            Some(Labels { classes, .. }) if !is_set(classes) => {
                bad("the classes are not 1 to 1000 different ones".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Returns the names of the features.
    fn columns(&self) -> Result<Vec<String>, TableError> {
        let target = self.target.iter().map(|target| (target.name.clone(), &target.name));
        let inputs = self.inputs.iter();
        let features = inputs.flat_map(|input| input.columns().map(|column| (column, &input.name)));
        let mut origins = HashMap::new();
        let mut columns = Vec::new();
        for (column, origin) in features.chain(target) {
            if let Some(other) = origins.insert(column.clone(), origin) {
                let first = excerpt(other);
                let second = excerpt(origin);
                return Err(TableError::EncodedName { name: excerpt(&column), first, second });
            }
            columns.push(column);
        }
        // The target, which is last, only took part in the comparison of names.
        columns.truncate(columns.len() - self.target.iter().len());
        Ok(columns)
    }
}

impl Code {
    /// Returns the contradiction between the code and this treatment of missing values, if any.
    fn problem(&self, missing: Missing) -> Option<&'static str> {
        let fills = missing.fills();
        let fits = match self {
            Self::Number { mean, flag } | Self::Date { mean, flag } => {
                let flags = !flag || missing == Missing::Flag;
                mean.is_some() == fills && mean.is_none_or(f64::is_finite) && flags
            }
            Self::Joined { values, .. } if !is_set(values) => {
                return Some("the categories are not 1 to 1000 different ones");
            }
            Self::Joined { values, other, .. }
                if *other && values.iter().any(|value| value == OTHER) =>
            {
                return Some("two categories are named other");
            }
            Self::Joined { values, other, missing, fill } => {
                let features = values.len() + usize::from(*other);
                let is_feature = fill.is_none_or(|fill| (fill as usize) < features);
                (fills || (!missing && fill.is_none()))
                    && is_feature
                    && !(*missing && fill.is_some())
            }
            Self::LeftOut { .. } => true,
            Self::Categories { values, .. } if !is_set(values) => {
                return Some("the categories are not 1 to 1000 different ones");
            }
            Self::Categories { missing, .. } => fills || !missing,
        };
        (!fits).then_some("what fills gaps is not what the encoding says")
    }
}

impl Input {
    /// Returns the name of its column in files.
    fn column(&self) -> &String {
        self.source.as_ref().map_or(&self.name, |source| &source.column)
    }

    /// Returns the names of the column's features.
    fn columns(&self) -> impl Iterator<Item = String> {
        let (own, values, other, missing) = match &self.code {
            Code::Number { flag, .. } | Code::Date { flag, .. } => {
                (Some(self.name.clone()), &[][..], false, *flag)
            }
            Code::Categories { values, missing } => (None, &values[..], false, *missing),
            Code::Joined { values, other, missing, .. } => (None, &values[..], *other, *missing),
            Code::LeftOut { .. } => (None, &[][..], false, false),
        };
        let values = values.iter().map(String::as_str).chain(other.then_some(OTHER));
        let values = values.map(|value| format!("{}={value}", self.name));
        own.into_iter().chain(values).chain(missing.then(|| format!("{} missing", self.name)))
    }
}

/// Returns whether the name of a class is a number.
fn is_number(class: &String) -> bool {
    // Other forms, such as `01`, are texts: as numbers they would lose their form.
    class.parse().is_ok_and(|number| TextColumn::name_of(number) == *class)
}

/// Returns whether these are 1 to [`MAX_CATEGORIES`] different values.
fn is_set(values: &[String]) -> bool {
    let different: HashSet<_> = values.iter().collect();
    (1..=MAX_CATEGORIES).contains(&values.len()) && different.len() == values.len()
}

#[cfg(test)]
mod tests;
