//! Columns of dates, split into columns of their parts.

use std::collections::{BTreeMap, HashSet};

use super::{
    super::{Frame, TableError, check_names, dates::DatePart, error::excerpt, expect_known},
    EncodingOptions, Missing,
};

type Result<T, E = TableError> = core::result::Result<T, E>;

/// Names of columns of dates, with the parts that take their place.
pub(super) type Dates = BTreeMap<String, Vec<DatePart>>;

/// Returns the frame with a column for each part in place of each column of dates.
pub(super) fn split(mut frame: Frame, dates: &Dates) -> Result<Frame> {
    expect_known(dates.keys(), frame.columns())?;
    let width = frame.columns.len();
    let mut columns = Vec::new();
    let mut places = Vec::new();
    for at in 0..width {
        let Some(parts) = dates.get(&frame.columns[at]) else {
            columns.push(frame.columns[at].clone());
            places.push((at, None));
            continue;
        };
        frame.make_days(at)?;
        columns.extend(parts.iter().map(|part| part.column_of(&frame.columns[at])));
        places.extend(parts.iter().map(|&part| (at, Some(part))));
    }
    check_names(columns.iter())?;
    let number = |row: &[f64], at: usize, part: Option<DatePart>| match part {
        Some(part) => part.of(row[at]),
        None => row[at],
    };
    let rows = frame.numbers.chunks_exact(width);
    let numbers = rows.flat_map(|row| places.iter().map(|&(at, part)| number(row, at, part)));
    let numbers = numbers.collect();
    // A column of dates has become numbers, so it has no text here.
    let text = places.iter().map(|&(at, _)| frame.text[at].clone()).collect();
    Ok(Frame { columns, numbers, text, places: frame.places })
}

/// Returns the options for the frame whose dates are split: names of columns of dates become names
/// of their parts.
pub(super) fn options(options: &EncodingOptions, target: Option<&str>) -> Result<EncodingOptions> {
    let mut split = options.clone();
    let categorical = options.named();
    for (column, parts) in &options.dates {
        let problem = match () {
            () if target == Some(column) => {
                "it is the target, whose labels stay whole: split another column"
            }
            () if !options.selection.takes(column) => {
                "it is left out: use it, or take its rule away"
            }
            () if categorical.contains(column) => {
                "as a whole it cannot be coded as categories: name one of its parts instead, such as \
                 \"admitted weekday\""
            }
            () if parts.is_empty() => "it has no parts: name at least one part of its dates",
            () if parts.iter().collect::<HashSet<_>>().len() < parts.len() => {
                "a part of its dates occurs twice: name each once"
            }
            () => "",
        };
        if !problem.is_empty() {
            return Err(TableError::Rule { column: excerpt(column), problem });
        }
        let names: Vec<String> = parts.iter().map(|part| part.column_of(column)).collect();
        if let Some(columns) = &mut split.selection.columns {
            columns.retain(|name| name != column);
            columns.extend(names.iter().cloned());
        }
        let own = split.missing_of.remove(column).unwrap_or(options.missing);
        for (at, name) in names.into_iter().enumerate() {
            // All parts are missing in the same rows, and equal flags would say nothing more.
            let rule = if own == Missing::Flag && at > 0 { Missing::Mean } else { own };
            split.missing_of.entry(name).or_insert(rule);
        }
    }
    Ok(split)
}
