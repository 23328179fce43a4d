//! Application of an encoding to a frame.

use std::{borrow::Cow, collections::HashMap};

use super::{
    super::{
        Cell, Frame, ReadOptions, Table, TableError, Target, TextColumn,
        error::{excerpt, lacking, list},
        frame::{Places, is_exact},
    },
    Code, Encoding, Input, Labels, Missing, Parts, Unseen, split,
};

type Result<T, E = TableError> = core::result::Result<T, E>;

/// Encodes the features and labels of a frame as a table.
pub(super) fn table(encoding: &Encoding, mut frame: Frame) -> Result<Table> {
    let Encoding { parts, columns } = encoding;
    let dates = parts.dates();
    if !dates.is_empty() {
        let lacks: Vec<&String> =
            dates.keys().filter(|&name| !frame.columns().contains(name)).collect();
        if !lacks.is_empty() {
            let missing = lacking(&lacks, frame.columns());
            return Err(TableError::MissingColumns { missing, columns: list(frame.columns()) });
        }
        frame = split::split(frame, &dates)?;
    }
    let Matched { inputs, target: target_at } = matched(parts, &frame)?;
    for &(index, at) in &inputs {
        match parts.inputs[index].code {
            Code::Number { .. } => frame.make_numbers(at)?,
            Code::Date { .. } => frame.make_days(at)?,
            Code::Categories { .. } | Code::Joined { .. } | Code::LeftOut { .. } => {}
        }
    }
    let rows = frame.rows();
    let width = frame.columns.len();
    let features = columns.len();
    // A frame that was read with a higher limit may stay at its size.
    let limit = Table::DEFAULT_MAX_CELLS.max(rows.saturating_mul(width));
    if rows.checked_mul(features).is_none_or(|cells| cells > limit) {
        return Err(TableError::TooLarge { rows, columns: features, limit });
    }

    let Frame { columns: names, numbers, text, places } = frame;
    let texts = |at: usize| TextColumn::or_numbers(text[at].as_ref(), &numbers, at, &names);
    let labels = parts.target.as_ref().zip(target_at);
    let classes = |(labels, at)| Ok::<_, TableError>(Classes::new(labels, texts(at)?));
    let coder = Coder {
        cells: cells(&parts.inputs, &inputs, texts)?,
        labels: labels.map(classes).transpose()?,
        parts,
        places: &places,
    };
    let (values, members) = coder.rows(numbers, width, features)?;
    let kept = values.len() / features;
    if kept == 0 {
        return Err(TableError::NoCompleteRow { rows });
    }
    let target = labels.map(|(Labels { name, classes }, _)| Target {
        name: name.clone(),
        classes: classes.clone(),
        members,
        is_text: false,
    });
    Ok(Table { columns: columns.clone(), values, target, row_weights: None, dropped: rows - kept })
}

/// Places of columns in a frame.
struct Matched {
    /// Columns with features: the index of the input, and its place.
    inputs: Vec<(usize, usize)>,
    target: Option<usize>,
}

/// Finds the columns with features, and the target.
fn matched(parts: &Parts, frame: &Frame) -> Result<Matched> {
    let columns = frame.columns();
    let places = columns.iter().enumerate().map(|(at, name)| (name.as_str(), at));
    let mut places: HashMap<&str, usize> = places.collect();
    let mut inputs = Vec::new();
    let mut missing = Vec::new();
    for (index, Input { name, code, .. }) in parts.inputs.iter().enumerate() {
        match (places.remove(name.as_str()), code) {
            (_, Code::LeftOut { .. }) => {}
            (Some(at), _) => inputs.push((index, at)),
            (None, _) => missing.push(name),
        }
    }
    let target = parts.target.as_ref();
    // The target may be absent: later rows need no labels.
    let target_at = target.and_then(|target| places.remove(target.name.as_str()));
    if !missing.is_empty() {
        let missing = lacking(&missing, columns);
        let columns = list(columns);
        return Err(TableError::MissingColumns { missing, columns });
    }
    if !places.is_empty() {
        let surplus = columns.iter().filter(|name| places.contains_key(name.as_str()));
        let surplus: Vec<&String> = surplus.collect();
        let known = parts.inputs.iter().map(Input::column);
        let known: Vec<&String> = known.chain(target.map(|target| &target.name)).collect();
        let surplus = list(&surplus);
        let columns = list(&known);
        return Err(TableError::SurplusColumns { surplus, columns });
    }
    Ok(Matched { inputs, target: target_at })
}

/// Encoder of the rows of a frame.
struct Coder<'a> {
    parts: &'a Parts,
    /// Codes of all inputs, in order.
    cells: Vec<Cells<'a>>,
    labels: Option<Classes<'a>>,
    places: &'a Places,
}

/// Code of some cells of a row.
enum Cells<'a> {
    /// Numbers of consecutive inputs. The first is at this place of the row.
    Numbers {
        at: usize,
        inputs: &'a [Input],
    },
    /// Flag for a missing number at this place.
    Flag {
        at: usize,
    },
    Categories(Categories<'a>),
}

/// The categories of a column.
struct Categories<'a> {
    name: &'a str,
    /// Treatment of missing values.
    rule: Missing,
    known: &'a [String],
    text: Cow<'a, TextColumn>,
    /// Feature of the column that each value of the text sets to 1.
    features: Vec<Option<usize>>,
    /// The feature that is 1 where the value is missing.
    missing: Option<usize>,
    /// Number of features of the column.
    count: usize,
}

/// The classes of the labels.
struct Classes<'a> {
    labels: &'a Labels,
    text: Cow<'a, TextColumn>,
    /// The class of each value of the text.
    classes: Vec<Option<u32>>,
}

/// Returns the codes of inputs that have these places in the frame.
fn cells<'a>(
    inputs: &'a [Input],
    places: &[(usize, usize)],
    texts: impl Fn(usize) -> Result<Cow<'a, TextColumn>>,
) -> Result<Vec<Cells<'a>>> {
    let mut cells = Vec::new();
    // Start of the current run of consecutive inputs.
    let mut first = 0;
    for &(index, place) in places {
        let input = &inputs[index];
        let flag = match &input.code {
            Code::Categories { .. } | Code::Joined { .. } => {
                cells.push(Cells::Categories(Categories::new(input, texts(place)?)));
                continue;
            }
            Code::Number { flag, .. } | Code::Date { flag, .. } => *flag,
            Code::LeftOut { .. } => continue,
        };
        match cells.last_mut() {
            Some(Cells::Numbers { at, inputs: together })
                if *at + together.len() == place && first + together.len() == index =>
            {
                *together = &inputs[first..=index];
            }
            _ => {
                first = index;
                cells.push(Cells::Numbers { at: place, inputs: &inputs[index..=index] });
            }
        }
        // The flag is the next feature after its number, so it ends the run.
        if flag {
            cells.push(Cells::Flag { at: place });
        }
    }
    Ok(cells)
}

impl<'a> Categories<'a> {
    fn new(input: &'a Input, text: Cow<'a, TextColumn>) -> Self {
        let Input { name, code, rule, .. } = input;
        let (known, other, missing, fill) = match code {
            Code::Categories { values, missing } => (&values[..], false, *missing, None),
            Code::Joined { values, other, missing, fill } => (&values[..], *other, *missing, *fill),
            _ => (&[][..], false, false, None),
        };
        let places: HashMap<&String, usize> = known.iter().zip(0..).collect();
        let other_feature = other.then_some(known.len());
        let flagged = known.len() + usize::from(other);
        let missing_feature = missing.then_some(flagged).or(fill.map(|fill| fill as usize));
        // Encodings of earlier versions treated such words in CSV files as missing values.
        let gap = |value: &String| {
            missing_feature.filter(|_| ReadOptions::MISSING.contains(&value.as_str()))
        };
        let feature =
            |value: &String| places.get(value).copied().or(other_feature).or_else(|| gap(value));
        Self {
            name,
            rule: *rule,
            known,
            features: text.values().iter().map(feature).collect(),
            missing: missing_feature,
            count: flagged + usize::from(missing),
            text,
        }
    }
}

impl<'a> Classes<'a> {
    fn new(labels: &'a Labels, text: Cow<'a, TextColumn>) -> Self {
        let known: HashMap<&str, u32> =
            labels.classes.iter().map(String::as_str).zip(0..).collect();
        // Labels that are written differently from their class may still be the same number.
        let number = |value: &String| {
            let number = value.parse().ok().filter(|&number| is_exact(number));
            number.map(TextColumn::name_of)
        };
        let class = |value: &String| {
            // The label as written comes first, because `1` and `1.0` may be two classes.
            let exact = known.get(value.as_str()).copied();
            exact.or_else(|| known.get(number(value)?.as_str()).copied())
        };
        Self { labels, classes: text.values().iter().map(class).collect(), text }
    }
}

impl Coder<'_> {
    /// Returns the features of the kept rows, and their classes. Features that are not more than
    /// the columns of the frame reuse its memory, row by row.
    fn rows(
        &self,
        mut numbers: Vec<f64>,
        width: usize,
        features: usize,
    ) -> Result<(Vec<f64>, Vec<u32>)> {
        let rows = numbers.len() / width;
        // Kept rows are written at or before the row that is read, so one buffer is enough.
        let in_place = features <= width;
        let mut values = Vec::with_capacity(if in_place { 0 } else { rows * features });
        let mut cells = vec![0.0; width];
        let mut coded = Vec::with_capacity(features);
        let mut kept = 0;
        let mut members = Vec::new();
        let drops = self.parts.missing == Missing::Drop
            || self.parts.inputs.iter().any(|input| input.rule == Missing::Drop);
        for row in 0..rows {
            // A copy, because in place the coded row overwrites it.
            cells.copy_from_slice(&numbers[row * width..][..width]);
            if drops && self.is_dropped(row, &cells) {
                continue;
            }
            coded.clear();
            self.row(row, &cells, &mut coded)?;
            if let Some(labels) = &self.labels {
                members.push(self.class(row, labels)?);
            }
            if in_place {
                numbers[kept * features..][..features].copy_from_slice(&coded);
            } else {
                values.extend_from_slice(&coded);
            }
            kept += 1;
        }
        if in_place {
            numbers.truncate(kept * features);
            values = numbers;
        }
        Ok((values, members))
    }

    /// Returns whether a row lacks a value or a label whose rows are dropped.
    fn is_dropped(&self, row: usize, numbers: &[f64]) -> bool {
        let unlabelled = self.parts.missing == Missing::Drop
            && self.labels.as_ref().is_some_and(|labels| labels.text.get(row).is_none());
        unlabelled
            || self.cells.iter().any(|cells| match cells {
                Cells::Numbers { at, inputs } => inputs
                    .iter()
                    .zip(&numbers[*at..])
                    .any(|(input, number)| input.rule == Missing::Drop && number.is_nan()),
                Cells::Flag { .. } => false,
                Cells::Categories(Categories { rule, text, .. }) => {
                    *rule == Missing::Drop && text.get(row).is_none()
                }
            })
    }

    /// Appends the features of a row.
    fn row(&self, row: usize, numbers: &[f64], coded: &mut Vec<f64>) -> Result<()> {
        for cells in &self.cells {
            let first = coded.len();
            match cells {
                Cells::Numbers { at, inputs } => {
                    coded.extend_from_slice(&numbers[*at..][..inputs.len()]);
                    if coded[first..].iter().any(|number| number.is_nan()) {
                        self.fill(row, inputs, &mut coded[first..])?;
                    }
                }
                Cells::Flag { at } => coded.push(f64::from(u8::from(numbers[*at].is_nan()))),
                Cells::Categories(categories) => {
                    coded.resize(first + categories.count, 0.0);
                    if let Some(feature) = self.category(row, categories)? {
                        coded[first + feature] = 1.0;
                    }
                }
            }
        }
        Ok(())
    }

    /// Replaces the missing numbers of a row by the means of these inputs.
    fn fill(&self, row: usize, inputs: &[Input], numbers: &mut [f64]) -> Result<()> {
        let gaps = numbers.iter_mut().zip(inputs).filter(|(number, _)| number.is_nan());
        for (number, Input { name, code, .. }) in gaps {
            let (Code::Number { mean: Some(mean), .. } | Code::Date { mean: Some(mean), .. }) =
                code
            else {
                return Err(self.gap(row, name));
            };
            *number = *mean;
        }
        Ok(())
    }

    /// Returns the feature of a column that is 1.
    fn category(&self, row: usize, categories: &Categories<'_>) -> Result<Option<usize>> {
        let Parts { unseen, .. } = self.parts;
        let Categories { name, rule, known, text, features, .. } = categories;
        let Some(value) = text.get(row) else {
            return match categories.missing {
                // A gap without a feature is a category that the fitted table did not have.
                None if *rule == Missing::Refuse || *unseen == Unseen::Refuse => {
                    Err(self.gap(row, name))
                }
                feature => Ok(feature),
            };
        };
        let feature = features[text.codes()[row] as usize];
        if feature.is_some() || *unseen == Unseen::Zero {
            return Ok(feature);
        }
        Err(TableError::UnseenCategory { cell: self.cell(row, name, value), known: list(known) })
    }

    fn class(&self, row: usize, labels: &Classes<'_>) -> Result<u32> {
        let Labels { name, classes } = labels.labels;
        let value = labels.text.get(row).ok_or_else(|| self.gap(row, name))?;
        let class = labels.classes[labels.text.codes()[row] as usize];
        class.ok_or_else(|| TableError::UnknownClass {
            cell: self.cell(row, name, value),
            classes: list(classes),
        })
    }

    fn cell(&self, row: usize, name: &str, value: &str) -> Box<Cell> {
        let place = self.places.of(row);
        let column = excerpt(name);
        Box::new(Cell { place, column, found: excerpt(value) })
    }

    fn gap(&self, row: usize, name: &str) -> TableError {
        TableError::Gap { place: self.places.of(row), column: excerpt(name) }
    }
}
