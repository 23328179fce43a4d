//! Fit of an encoding to a frame.

use std::collections::HashSet;

use super::{
    super::{
        Frame, Selection, TableError, TextColumn, binary_classes, dates::days, error::excerpt,
        expect_known, unknown_target,
    },
    Categorical, Code, EncodingOptions, Input, Labels, MAX_CATEGORIES, Missing, OTHER, Omission,
    Parts, Source, split,
};

type Result<T, E = TableError> = core::result::Result<T, E>;

/// Number of rows from which a column may count as one that identifies rows.
// In fewer rows, the values of any column may differ by chance.
const MIN_IDENTIFIED: usize = 20;

/// Returns the codes of all columns.
pub(super) fn parts(
    frame: &Frame,
    target: Option<&str>,
    options: &EncodingOptions,
) -> Result<Parts> {
    if options.dates.is_empty() {
        return flat_parts(frame, target, options);
    }
    let split_options = split::options(options, target)?;
    let frame = split::split(frame.clone(), &options.dates)?;
    let mut parts = flat_parts(&frame, target, &split_options)?;
    for (column, of_column) in &options.dates {
        for part in of_column {
            let name = part.column_of(column);
            if let Some(input) = parts.inputs.iter_mut().find(|input| input.name == name) {
                input.source = Some(Source { column: column.clone(), part: *part });
            }
        }
    }
    Ok(parts)
}

/// Returns the codes of all columns of a frame whose dates are split.
fn flat_parts(frame: &Frame, target: Option<&str>, options: &EncodingOptions) -> Result<Parts> {
    let columns = frame.columns();
    let target_at = match target {
        None => None,
        Some(name) => Some(frame.position(name).ok_or_else(|| unknown_target(name, columns))?),
    };
    check_names_of(options, target, columns)?;
    let gaps = frame.gaps();
    let inputs = (0..columns.len()).filter(|&at| Some(at) != target_at);
    let contents = inputs.map(|at| (at, content(frame, at, gaps[at], options)));
    let contents: Vec<(usize, Content)> = contents.collect();
    let used = contents.iter().filter(|(_, content)| !matches!(content, Content::LeftOut(_)));
    let used: Vec<usize> = used.map(|&(at, _)| at).chain(target_at).collect();
    if used.len() == target_at.iter().len() {
        return Err(TableError::Empty { rows: frame.rows(), features: 0 });
    }

    // The first gap of each column, with the row by which a single one is chosen.
    let mut faults: Vec<(usize, TableError)> = Vec::new();
    let rules: Vec<Missing> = columns.iter().map(|column| options.rule_of(column)).collect();
    for &at in used.iter().filter(|&&at| gaps[at] > 0) {
        let column = excerpt(&columns[at]);
        let rule = rules[at];
        if rule != Missing::Refuse && gaps[at] == frame.rows() {
            faults.push((at, TableError::AllMissing { column }));
        } else if rule == Missing::Refuse || (rule.fills() && Some(at) == target_at) {
            let row = (0..frame.rows()).find(|&row| frame.is_missing(row, at)).unwrap_or_default();
            faults.push((at, TableError::Gap { place: frame.place(row), column }));
        }
    }
    let dropping: Vec<usize> =
        used.iter().copied().filter(|&at| rules[at] == Missing::Drop).collect();
    let drops = !dropping.is_empty() && faults.is_empty();
    let kept = drops.then(|| complete(frame, &dropping)).transpose()?.flatten();
    let gaps = match &kept {
        None => gaps,
        Some(kept) => {
            let lacks = |at| {
                kept.iter()
                    .enumerate()
                    .filter(move |&(row, &kept)| kept && frame.is_missing(row, at))
            };
            (0..columns.len()).map(|at| if gaps[at] == 0 { 0 } else { lacks(at).count() }).collect()
        }
    };
    let fit = Fit { frame, options, rules: &rules, gaps, kept };
    let mut inputs = Vec::new();
    for &(at, content) in &contents {
        if faults.iter().any(|&(faulty, _)| faulty == at) {
            continue;
        }
        match fit.code(at, content) {
            Ok(code) => {
                let name = columns[at].clone();
                inputs.push(Input { name, code, rule: rules[at], source: None });
            }
            Err(error) => faults.push((at, error)),
        }
    }
    let labels = match target_at {
        Some(at) if !faults.iter().any(|&(faulty, _)| faulty == at) => fit.labels(at).map(Some),
        _ => Ok(None),
    };
    let target = match labels {
        Ok(labels) => labels,
        Err(error) => {
            faults.extend(target_at.map(|at| (at, error)));
            None
        }
    };
    faults.sort_by_key(|&(at, _)| at);
    if faults.len() > 1 {
        let faults = faults.into_iter().map(|(_, fault)| fault).collect();
        return Err(TableError::Several { faults });
    }
    if let Some((_, fault)) = faults.pop() {
        return Err(fault);
    }
    // The rule of the labels, which have no input.
    let missing = target_at.map_or(options.missing, |at| rules[at]);
    Ok(Parts { inputs, target, missing, unseen: options.unseen })
}

/// Rejects options that name columns which do not exist, or contradict each other.
fn check_names_of(
    options: &EncodingOptions,
    target: Option<&str>,
    columns: &[String],
) -> Result<()> {
    let categorical = options.named();
    let Selection { columns: only, drop } = &options.selection;
    let ruled = options.missing_of.keys();
    expect_known(only.iter().flatten().chain(drop).chain(categorical).chain(ruled), columns)?;
    for (column, rule) in &options.missing_of {
        let problem = match () {
            () if target == Some(column) && rule.fills() => {
                "labels are never filled: drop the rows that lack them"
            }
            () if target != Some(column) && !options.selection.takes(column) => {
                "it is left out: use it, or take its rule away"
            }
            () => continue,
        };
        return Err(TableError::Rule { column: excerpt(column), problem });
    }
    for column in drop {
        let among = |names: &[String]| names.contains(column);
        let role = match () {
            () if target == Some(column) => "the target",
            () if only.as_deref().is_some_and(among) => "to be used",
            () if among(categorical) => "to be coded as categories",
            () => continue,
        };
        return Err(TableError::Contradiction { column: excerpt(column), role });
    }
    Ok(())
}

/// The content that a fit reads from a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Nothing, for this reason.
    LeftOut(Omission),
    /// Numbers. A text among them is a fault of the fit.
    Number,
    /// Dates, as days since 1970-01-01.
    Date,
    /// Names of categories.
    Categories,
}

/// Returns the content to read from each column, in order.
pub(super) fn contents(frame: &Frame, options: &EncodingOptions) -> Vec<Content> {
    let gaps = frame.gaps().into_iter().enumerate();
    gaps.map(|(at, gaps)| content(frame, at, gaps, options)).collect()
}

/// Returns the content to read from a column.
fn content(frame: &Frame, at: usize, gaps: usize, options: &EncodingOptions) -> Content {
    let name = &frame.columns()[at];
    if !options.selection.takes(name) {
        return Content::LeftOut(Omission::Unselected);
    }
    let is_named = options.named().contains(name);
    let text = frame.text(at);
    match (&options.categorical, text) {
        (Categorical::Columns(_) | Categorical::Detect(_), _) if is_named => Content::Categories,
        (Categorical::Every, Some(_)) => Content::Categories,
        (Categorical::Detect(_), text) => {
            let is_chosen = options.selection.columns.is_some();
            let values = frame.rows() - gaps;
            let identifies = !is_chosen && values >= MIN_IDENTIFIED;
            let Some(text) = text else {
                let tells = identifies && is_identifier(name) && are_different_integers(frame, at);
                return if tells {
                    Content::LeftOut(Omission::Identifier)
                } else {
                    Content::Number
                };
            };
            let texts = text.values();
            let mut numbers = texts.iter().filter(|text| text.parse::<f64>().is_ok());
            if !texts.is_empty() && texts.iter().all(|text| days(text).is_some()) {
                Content::Date
            } else if identifies && texts.len() * 10 >= values * 9 {
                Content::LeftOut(Omission::Identifier)
            } else if frame.is_guessed() && numbers.next().is_some() {
                // As numbers, the fit rejects the column, and names the first text.
                Content::Number
            } else {
                Content::Categories
            }
        }
        _ => Content::Number,
    }
}

/// Returns whether a column's name suggests an identifier, such as `patient_id`, `MRN` or `caseNo`.
fn is_identifier(name: &str) -> bool {
    let mut words: Vec<String> = Vec::new();
    let mut was_lower = false;
    let mut starts = true;
    for letter in name.chars() {
        if !letter.is_alphanumeric() {
            starts = true;
            continue;
        }
        if starts || (was_lower && letter.is_uppercase()) {
            words.push(String::new());
        }
        (starts, was_lower) = (false, letter.is_lowercase());
        if let Some(word) = words.last_mut() {
            word.extend(letter.to_lowercase());
        }
    }
    const FIRST: [&str; 3] = ["id", "unnamed", "rowid"];
    const LAST: [&str; 17] = [
        "id",
        "ids",
        "uid",
        "uuid",
        "guid",
        "pid",
        "rowid",
        "no",
        "nr",
        "number",
        "ssn",
        "mrn",
        "nhs",
        "patient",
        "subject",
        "participant",
        "case",
    ];
    let is_one_of = |word: Option<&String>, words: &[&str]| {
        word.is_some_and(|word| words.contains(&word.as_str()))
    };
    // An index of prices is a quantity, but a column that is called index numbers rows.
    words == ["index"] || is_one_of(words.first(), &FIRST) || is_one_of(words.last(), &LAST)
}

/// Returns whether all numbers of a column are integers, and none occurs twice.
fn are_different_integers(frame: &Frame, at: usize) -> bool {
    let mut seen = HashSet::new();
    let numbers = frame.numbers().iter().skip(at).step_by(frame.columns().len());
    let mut numbers = numbers.filter(|number| !number.is_nan());
    numbers.all(|number| number.fract() == 0.0 && seen.insert(number.to_bits()))
}

/// A frame with findings about its columns.
struct Fit<'a> {
    frame: &'a Frame,
    options: &'a EncodingOptions,
    /// Treatment of missing values in each column.
    rules: &'a [Missing],
    /// Number of missing values of each column in the kept rows.
    gaps: Vec<usize>,
    /// True for each row that is kept. `None` keeps all rows.
    kept: Option<Vec<bool>>,
}

impl Fit<'_> {
    /// Returns the code of column `at`.
    fn code(&self, at: usize, content: Content) -> Result<Code> {
        let has_gaps = self.gaps[at] > 0;
        let flag = has_gaps && self.rules[at] == Missing::Flag;
        let rows = self
            .kept
            .as_ref()
            .map_or(self.frame.rows(), |kept| kept.iter().filter(|&&kept| kept).count());
        // All rows with a value may have been dropped for other columns.
        if self.gaps[at] == rows && !matches!(content, Content::LeftOut(_)) {
            return Err(TableError::AllMissing { column: excerpt(&self.frame.columns()[at]) });
        }
        match content {
            Content::LeftOut(reason) => Ok(Code::LeftOut { reason }),
            Content::Number => Ok(Code::Number { mean: self.fill(at, Frame::numbers_of)?, flag }),
            Content::Date => Ok(Code::Date { mean: self.fill(at, Frame::days_of)?, flag }),
            Content::Categories => self.categories(at),
        }
    }

    /// Returns the value that replaces missing numbers of column `at`. `parsed` converts its texts,
    /// if it has texts.
    fn fill(
        &self,
        at: usize,
        parsed: impl Fn(&Frame, usize, &TextColumn) -> Result<Vec<f64>>,
    ) -> Result<Option<f64>> {
        let frame = self.frame;
        // In the numbers of the frame a text column is NaN everywhere, so its numbers come from
        // its texts.
        if let Some(text) = frame.text(at) {
            let numbers = parsed(frame, at, text)?;
            let codes = self.of_kept(text.codes().iter());
            // The code of a missing value is beyond all values, so gaps drop out.
            let numbers = codes.filter_map(|&code| numbers.get(code as usize));
            return Ok(filling(self.rules[at], numbers.copied()));
        }
        let numbers = frame.numbers().iter().skip(at).step_by(frame.columns().len());
        let numbers = self.of_kept(numbers).copied().filter(|number| !number.is_nan());
        Ok(filling(self.rules[at], numbers))
    }

    /// Returns the values of the kept rows.
    fn of_kept<T>(&self, values: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
        let kept = |&(row, _): &(usize, T)| self.kept.as_ref().is_none_or(|kept| kept[row]);
        values.enumerate().filter(kept).map(|(_, value)| value)
    }

    /// Returns the code of the categories of column `at`.
    fn categories(&self, at: usize) -> Result<Code> {
        let counts = self.counts(at)?;
        let rare = self.options.rare;
        let kept = common(&counts, rare);
        let joined = kept.len() < counts.len();
        if kept.is_empty() && joined {
            let column = excerpt(&self.frame.columns()[at]);
            return Err(TableError::AllRare { column, rare });
        }
        let values: Vec<String> = kept.iter().map(|&(value, _)| value.clone()).collect();
        self.expect_few(at, values.len())?;
        let values = in_order(values);
        let fills = self.gaps[at] > 0 && self.rules[at].fills();
        // Later tables may have gaps where this one has none.
        let replaces = self.rules[at] == Missing::MostFrequent;
        // `Drop` fills nothing, and rows with gaps do not reach the encoding.
        let missing = fills && !replaces;
        if !joined && !replaces {
            return Ok(Code::Categories { values, missing });
        }
        let count = |value: &String| counts.iter().find(|(other, _)| other == value);
        let mut rows: Vec<usize> =
            values.iter().map(|value| count(value).map_or(0, |(_, rows)| *rows)).collect();
        if joined {
            let all: usize = counts.iter().map(|(_, rows)| rows).sum();
            rows.push(all - rows.iter().sum::<usize>());
        }
        let most = rows.iter().max();
        let fill = rows.iter().position(|rows| Some(rows) == most).filter(|_| replaces);
        Ok(Code::Joined { values, other: joined, missing, fill: fill.map(|fill| fill as u32) })
    }

    /// Returns the classes of column `at`.
    fn labels(&self, at: usize) -> Result<Labels> {
        let name = self.frame.columns()[at].clone();
        let binary = binary_classes();
        let classes: Vec<String> = self.counts(at)?.into_iter().map(|(class, _)| class).collect();
        self.expect_few(at, classes.len())?;
        let classes = in_order(classes);
        let is_binary = classes.iter().all(|class| binary.contains(class));
        Ok(Labels { name, classes: if is_binary { binary } else { classes } })
    }

    /// Returns the different values of column `at` in the kept rows, with their numbers of rows.
    fn counts(&self, at: usize) -> Result<Vec<(String, usize)>> {
        let text = self.frame.texts(at)?;
        let mut rows = vec![0; text.values().len()];
        for (row, &code) in text.codes().iter().enumerate() {
            // A value of dropped rows alone would become a feature that is always 0.
            let kept = self.kept.as_ref().is_none_or(|kept| kept[row]);
            if let Some(rows) = rows.get_mut(code as usize).filter(|_| kept) {
                *rows += 1;
            }
        }
        let values = text.values().iter().cloned().zip(rows);
        Ok(values.filter(|&(_, rows)| rows > 0).collect())
    }

    fn expect_few(&self, at: usize, found: usize) -> Result<()> {
        if found <= MAX_CATEGORIES {
            return Ok(());
        }
        let column = excerpt(&self.frame.columns()[at]);
        Err(TableError::TooManyCategories { column, found, limit: MAX_CATEGORIES })
    }
}

/// Returns the values with at least `rare` rows. If others are joined, values are joined until they
/// have `rare` rows together, the rarest first.
fn common(counts: &[(String, usize)], rare: usize) -> Vec<(&String, usize)> {
    let mut values: Vec<(&String, usize)> =
        counts.iter().map(|(value, rows)| (value, *rows)).collect();
    values.sort_by(|a, b| a.1.cmp(&b.1).then_with(|| a.0.cmp(b.0)));
    let mut joined = 0;
    let mut rows = 0;
    while let Some((_, count)) = values.get(joined)
        && (*count < rare || (joined > 0 && rows < rare))
    {
        rows += count;
        joined += 1;
    }
    let mut kept = values.split_off(joined);
    if joined > 0 {
        // Its feature would have the name of the joined values.
        kept.retain(|(value, _)| *value != OTHER);
    }
    kept
}

/// Returns, for each row, whether it has all values of the used columns, or `None` if all rows have.
fn complete(frame: &Frame, used: &[usize]) -> Result<Option<Vec<bool>>> {
    let complete = |row| !used.iter().any(|&at| frame.is_missing(row, at));
    let kept: Vec<bool> = (0..frame.rows()).map(complete).collect();
    match (kept.contains(&true), kept.contains(&false)) {
        (false, _) => Err(TableError::NoCompleteRow { rows: frame.rows() }),
        (true, lacking) => Ok(lacking.then_some(kept)),
    }
}

/// Returns the value that replaces missing numbers among these, if any does.
fn filling(missing: Missing, numbers: impl Iterator<Item = f64>) -> Option<f64> {
    match missing {
        Missing::Refuse | Missing::Drop => None,
        Missing::Mean | Missing::Flag => {
            Some(numbers.fold(Mean::default(), |mean, number| mean.and(number)).value)
        }
        Missing::Median => {
            let sorted = sorted(numbers);
            let middle = sorted.len() / 2;
            let upper = sorted.get(middle).copied()?;
            let is_odd = sorted.len() % 2 == 1;
            Some(if is_odd { upper } else { sorted[middle - 1].midpoint(upper) })
        }
        Missing::MostFrequent => {
            let sorted = sorted(numbers);
            let mut best = None;
            for run in sorted.chunk_by(|a, b| a == b) {
                if best.is_none_or(|(_, rows)| run.len() > rows) {
                    best = Some((run[0], run.len()));
                }
            }
            best.map(|(number, _)| number)
        }
    }
}

fn sorted(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

/// The mean of some numbers. It lies between them, however large they are, and is exact if they are
/// equal.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    value: f64,
    count: f64,
}

impl Mean {
    /// Adds a number.
    fn and(self, number: f64) -> Self {
        let count = self.count + 1.0;
        let step = (number - self.value) / count;
        // The difference of two huge numbers overflows, although their mean does not.
        let step = if step.is_finite() { step } else { number / count - self.value / count };
        Self { value: self.value + step, count }
    }
}

/// Sorts values numerically if all of them are numbers, and alphabetically otherwise.
fn in_order(mut values: Vec<String>) -> Vec<String> {
    // `inf` and `nan` parse as numbers, but are words here.
    let number = |value: &String| value.parse().ok().filter(|number: &f64| number.is_finite());
    let numbers: Option<Vec<f64>> = values.iter().map(number).collect();
    let Some(numbers) = numbers else {
        values.sort_unstable();
        return values;
    };
    let mut pairs: Vec<(f64, String)> = numbers.into_iter().zip(values).collect();
    // Different texts may be equal numbers, such as `10` and `1e1`. The text decides between these.
    pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    pairs.into_iter().map(|(_, value)| value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(numbers: &[f64]) -> f64 {
        numbers.iter().fold(Mean::default(), |mean, &number| mean.and(number)).value
    }

    #[test]
    fn means_of_any_size() {
        assert_eq!(mean(&[1.0, 2.0, 6.0]), 3.0);
        assert_eq!(mean(&[0.1; 1000]), 0.1);
        assert_eq!(mean(&[f64::MAX; 7]), f64::MAX);
        assert_eq!(mean(&[1e300, 3e300]), 2e300);
        assert!((mean(&[1e-300, 3e-300]) / 2e-300 - 1.0).abs() < 1e-15);
        let apart = mean(&[f64::MAX, -f64::MAX, f64::MAX, -f64::MAX]);
        assert!(apart.abs() < 1e300, "{apart}");
        // The mean of 1 to n is known.
        let numbers: Vec<f64> = (1..=1_000_001).map(f64::from).collect();
        assert!((mean(&numbers) - 500_001.0).abs() < 1e-6);
    }

    #[test]
    fn numbers_have_their_order() {
        let order = |values: &[&str]| in_order(values.iter().map(|&v| v.to_owned()).collect());
        assert_eq!(order(&["10", "9", "-1", "1e1", "2.5"]), ["-1", "2.5", "9", "10", "1e1"]);
        assert_eq!(order(&["10", "9", "b", "B"]), ["10", "9", "B", "b"]);
        assert_eq!(order(&["inf", "2", "10"]), ["10", "2", "inf"]);
    }
}
