//! Tables in the clear, from Python.

use crate::{
    error::{Error, Result},
    job,
    numbers::Numbers,
    source::IN_MEMORY,
};
use pyo3::prelude::*;
use serde::{Serialize, de::DeserializeOwned};
use std::{collections::BTreeMap, path::Path, sync::Arc};
use sudare_apps::stats::Edges;
use sudare_roles::{clear::groups::KeyColumn, error::Error as Engine, owner::encryption::Subject};
use sudare_table::{
    Categorical, DatePart, Encoding, EncodingOptions, Frame, Missing, Selection, Table, TextColumn,
    Unseen,
};

/// Name of the target, its classes, and the place among these of the class of each row.
type Labels = (String, Vec<String>, Vec<u32>);

/// Rows of named columns of numbers and, if they are known, their classes.
#[pyclass(frozen, module = "sudare._native")]
#[derive(Clone)]
pub struct Data {
    pub(crate) table: Arc<Table>,
    /// The coding of columns as numbers, if any were not numbers.
    pub(crate) encoding: Option<Encoding>,
}

#[pymethods]
impl Data {
    /// Makes a table with rows of `columns`. `encoding` (JSON) states how other columns became these.
    /// With `text_labels`, classes are text even where they look like numbers. `row_weights` has the
    /// weight of each row in a training.
    #[new]
    #[pyo3(signature = (
        columns, numbers, *, labels=None, encoding=None, text_labels=false, row_weights=None
    ))]
    fn new(
        py: Python<'_>,
        columns: Vec<String>,
        numbers: Numbers,
        labels: Option<Labels>,
        encoding: Option<&str>,
        text_labels: bool,
        row_weights: Option<Vec<f64>>,
    ) -> Result<Self> {
        let encoding: Option<Encoding> = encoding.map(from_json).transpose()?;
        job::detached(py, || {
            let values = values(&columns, numbers)?;
            let table = match labels {
                None => Table::new(columns, values, None),
                Some(labels) => Table::with_classes(columns, values, labels),
            };
            let mut table = table.map_err(Engine::from)?;
            if text_labels {
                table = table.with_text_labels();
            }
            if let Some(weights) = row_weights {
                table = table.with_row_weights(weights).map_err(Engine::from)?;
            }
            Ok(Self { table: Arc::new(table), encoding })
        })
    }

    #[getter]
    fn rows(&self) -> usize {
        self.table.rows()
    }

    #[getter]
    fn features(&self) -> usize {
        self.table.features()
    }

    /// The number of classes.
    #[getter]
    fn classes(&self) -> usize {
        self.table.classes().map_or(0, <[_]>::len)
    }
}

impl Data {
    /// Returns the subject of an encryption. Column `by`, or the target of this name, groups the rows, and
    /// bins have these edges.
    pub(crate) fn subject(&self, by: Option<&str>, edges: Vec<Edges>) -> Result<Subject> {
        let mut table = (*self.table).clone();
        let mut key = None;
        if by.is_some() && by == table.target() {
            let key = KeyColumn::of_target(&table, table.has_text_labels())?;
            let encoding = self.encoding.clone();
            return Ok(Subject { encoding, key: Some(key), edges, ..Subject::from(table) });
        }
        if let Some(by) = by {
            let (rest, values) = table.without(by).map_err(Engine::from)?;
            table = rest;
            key = Some(KeyColumn::new(by, &values)?);
        }
        let encoding = self.encoding.clone();
        Ok(Subject { encoding, key, edges, ..Subject::from(table) })
    }
}

/// Returns the numbers, if they are rows of `columns`.
fn values(columns: &[String], numbers: Numbers) -> Result<Vec<f64>> {
    let Numbers { shape, values } = numbers;
    let width = columns.len();
    if !matches!(shape[..], [_, found] if found == width) {
        let found = format!("numbers of shape {shape:?}");
        return Err(Error::Shape { found, needed: format!("rows of {width} columns") });
    }
    Ok(values)
}

/// Columns of text: the place of each, and its values.
pub(crate) type Texts = Vec<(usize, Vec<Option<String>>)>;

/// Makes a frame. The columns at the places of `texts` are text.
pub(crate) fn frame(columns: Vec<String>, numbers: Numbers, texts: Texts) -> Result<Frame> {
    let values = values(&columns, numbers)?;
    let mut columns: Vec<_> = columns.into_iter().map(|name| (name, None)).collect();
    for (at, text) in texts {
        let (_, place) = columns.get_mut(at).ok_or(Error::Bug("text without a column"))?;
        *place = Some(text.into_iter().collect::<TextColumn>());
    }
    Ok(Frame::new(columns, values).map_err(Engine::from)?)
}

/// Options of an encoding: see `EncodingOptions` of the library. Columns of text are categories, dates,
/// or identifiers. The name `*` stands for all columns without a treatment of missing values of their
/// own.
#[pyclass(frozen, module = "sudare._native")]
pub struct Rules(pub(crate) EncodingOptions);

#[pymethods]
impl Rules {
    #[new]
    #[pyo3(signature = (*, missing, dates, unseen, categorical, columns, drop, rare))]
    fn new(
        missing: BTreeMap<String, String>,
        dates: BTreeMap<String, Vec<String>>,
        unseen: &str,
        categorical: Vec<String>,
        columns: Option<Vec<String>>,
        drop: Vec<String>,
        rare: usize,
    ) -> Result<Self> {
        let of_column = |(column, rule): (String, String)| Ok((column, missing_rule(&rule)?));
        let mut rules =
            missing.into_iter().map(of_column).collect::<Result<BTreeMap<String, Missing>>>()?;
        let parts = |(column, parts): (String, Vec<String>)| {
            let parts = parts.iter().map(|part| date_part(part));
            Ok((column, parts.collect::<Result<_>>()?))
        };
        Ok(Self(EncodingOptions {
            categorical: Categorical::Detect(categorical),
            missing: rules.remove("*").unwrap_or_default(),
            missing_of: rules,
            dates: dates.into_iter().map(parts).collect::<Result<_>>()?,
            unseen: match unseen {
                "refuse" => Unseen::Refuse,
                "zero" => Unseen::Zero,
                found => return Err(choice("unseen", found, "refuse or zero")),
            },
            selection: Selection { columns, drop },
            rare,
        }))
    }
}

/// Reads a treatment of missing values.
fn missing_rule(text: &str) -> Result<Missing> {
    // Python spells names with underscores.
    Missing::named(&text.replace('_', "-"))
        .ok_or_else(|| choice("missing", text, "refuse, mean, median, most_frequent, drop or flag"))
}

/// Reads a part of dates.
fn date_part(text: &str) -> Result<DatePart> {
    let names = DatePart::ALL.map(DatePart::name).join(", ");
    DatePart::named(text).ok_or_else(|| choice("a part of dates", text, &format!("one of {names}")))
}

/// Fits the coding of a frame, and returns it as JSON. `target` names the target and its classes. NaN and
/// None are missing.
#[pyfunction]
#[pyo3(signature = (columns, numbers, texts, rules, *, target=None))]
pub fn fit_encoding(
    py: Python<'_>,
    columns: Vec<String>,
    numbers: Numbers,
    texts: Texts,
    rules: &Rules,
    target: Option<(String, Vec<String>)>,
) -> Result<String> {
    job::detached(py, || {
        let frame = frame(columns, numbers, texts)?;
        let encoding = Encoding::fit(&frame, None, &rules.0).map_err(Engine::from)?;
        let encoding = match target {
            None => encoding,
            Some((name, classes)) => encoding.with_labels(name, classes).map_err(Engine::from)?,
        };
        to_json(&encoding)
    })
}

/// Applies an encoding (JSON) to the rows of a frame. Returns the columns and their numbers.
#[pyfunction]
pub fn encode(
    py: Python<'_>,
    encoding: &str,
    columns: Vec<String>,
    numbers: Numbers,
    texts: Texts,
) -> Result<(Vec<String>, Numbers)> {
    let encoding: Encoding = from_json(encoding)?;
    let table = job::detached(py, || {
        let frame = frame(columns, numbers, texts)?;
        Ok(encoding.apply(frame).map_err(Engine::from)?)
    })?;
    let shape = vec![table.rows(), table.features()];
    let coded = Numbers { shape, values: table.values().to_vec() };
    Ok((table.columns().to_vec(), coded))
}

/// Makes the error for an option with a wrong word. `needed` lists the right ones.
pub(crate) fn choice(name: &str, found: &str, needed: &str) -> Error {
    Engine::Usage(format!("{name} is {found:?}: pass {needed}")).into()
}

/// Parses JSON from Python.
pub(crate) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| malformed(error.to_string()))
}

/// Makes the error for wrong JSON from Python.
pub(crate) fn malformed(problem: String) -> Error {
    let path = Path::new(IN_MEMORY).to_owned();
    Engine::Parse { path, what: "model", problem }.into()
}

pub(crate) fn to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|_| Error::Bug("a value has no JSON"))
}

/// Converts a value to Python objects, by its JSON.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &impl Serialize) -> Result<Bound<'py, PyAny>> {
    // Python's parser makes dictionaries and lists without a converter for each type here.
    Ok(py.import("json")?.call_method1("loads", (to_json(value)?,))?)
}
