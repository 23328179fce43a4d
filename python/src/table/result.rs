//! Results of jobs on tables, encrypted and in the clear.

use super::{Table, in_memory, other_job};
use crate::{
    arguments,
    data::{Data, to_python},
    error::Result,
    job,
    keys::{self, SecretKey},
    source::{IN_MEMORY, Memory, Reduced, save},
};
use pyo3::{prelude::*, types::PyBytes};
use std::{
    io::{self, Cursor},
    path::{Path, PathBuf},
    sync::Arc,
};
use sudare::ckks::serial::{Info, Kind};
use sudare_apps::{
    logreg::Scores,
    stats::{self, StatsError, TTest},
};
use sudare_arith::mem::Mapping;
use sudare_roles::{
    clear::{
        decrypted,
        model::{NamedGroups, NamedHistograms, NamedLeastSquares, NamedScores, NamedStatistics},
    },
    error::Error as Engine,
    format::{
        label::{Content, Meta},
        opened::{self, Opened},
    },
    os::files::Access,
    owner::decryption::Share,
};

/// The encrypted result of a computation on an encrypted table.
#[pyclass(frozen, name = "Result", module = "sudare._native")]
pub struct TableResult {
    file: Memory,
    info: Info,
    meta: Meta,
    content: Content,
}

#[pymethods]
impl TableResult {
    /// Opens the result in the file at `path`.
    #[staticmethod]
    fn open(py: Python<'_>, #[pyo3(from_py_with = arguments::path)] path: PathBuf) -> Result<Self> {
        Self::new(Memory::read(py, path.clone())?, &path)
    }

    /// Reads the result from the result of `to_bytes`.
    #[staticmethod]
    fn from_bytes(data: &Bound<'_, PyAny>) -> Result<Self> {
        Self::new(Memory::from_python(data)?, Path::new(IN_MEMORY))
    }

    /// Returns the result as the bytes of its file.
    fn to_bytes(&self, py: Python<'_>) -> Py<PyBytes> {
        self.file.to_bytes(py)
    }

    /// Writes the result to a file.
    #[pyo3(signature = (path, *, overwrite=false))]
    fn save(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::path)] path: PathBuf,
        #[pyo3(from_py_with = arguments::overwrite)] overwrite: bool,
    ) -> Result<()> {
        let mut input = Cursor::new(self.file.mapping());
        save(py, path, Access::Shared, overwrite, move |file| Ok(io::copy(&mut input, file)?))
    }

    /// The job of the table, as `sudare info` shows it.
    #[getter]
    fn job(&self) -> String {
        self.meta.job.to_string()
    }

    /// `model`, `statistics` or `scores`.
    #[getter]
    fn content(&self) -> &'static str {
        self.content.name()
    }

    /// The number of iterations of a training.
    #[getter]
    fn iterations(&self) -> u32 {
        self.meta.iterations
    }

    /// Fingerprint of the key pair, in hexadecimal.
    #[getter]
    fn key_id(&self) -> String {
        self.info.key_id.to_string()
    }

    /// Size of the file in bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.info.bytes
    }

    /// Decrypts the values, for the owner of the key alone. With `share_bits`, releases them to that
    /// precision for others. With `tables`, refuses a result of other tables. With `assume_range`, assumes
    /// that rows of several owners stay in the range of the sigmoid.
    #[pyo3(signature = (key, share_bits=None, *, assume_range=false, tables=None))]
    fn decrypt(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = keys::secret)] key: PyRef<'_, SecretKey>,
        #[pyo3(from_py_with = arguments::share_bits)] share_bits: Option<u32>,
        #[pyo3(from_py_with = arguments::assume_range)] assume_range: bool,
        tables: Option<Vec<PyRef<'_, Table>>>,
    ) -> Result<Decrypted> {
        if let Some(tables) = tables {
            let digests = tables.iter().map(|table| table.digest()).collect::<Result<_>>()?;
            let names: Vec<String> = tables.iter().map(|table| table.place()).collect();
            let origin = self.meta.origin.as_ref();
            opened::expect_origin(Path::new(IN_MEMORY), origin, digests, &names)?;
        }
        // Bounds of errors follow from the job in the file, which the server could have changed. The
        // key's own label is the trusted one.
        let job = Meta::read(&key.set.label).map(|(_, meta)| meta.job);
        if !job.is_some_and(|job| job.serves(&self.meta.job)) {
            let job = job.map_or("programs on arrays".into(), |job| job.to_string());
            let found = format!("a result of {} and a secret key for {job}", self.meta.job);
            return Err(other_job(&found, "the key that its table was encrypted with"));
        }
        let result = self.opened()?;
        if share_bits.is_some() {
            // A warning that is turned into an exception must end the call before anything is
            // counted.
            key.warn_of_new_ledger(py)?;
        }
        let set = key.set.clone();
        let ledger = key.ledger();
        let key = Arc::clone(&key.decryptor);
        job::run(py, None, move |_| {
            let params = &set.params;
            let key = &key;
            let share = share_bits.map(|bits| Share { bits, assume_range, ledger: &ledger });
            let decrypted = decrypted::Decrypted::read(result, params, key, share)?;
            Ok(Decrypted { values: decrypted, shared: share_bits.is_some() })
        })
    }

    fn __reduce_ex__<'py>(slf: &Bound<'py, Self>, protocol: i32) -> Result<Reduced<'py>> {
        Ok(slf.get().file.reduce(&slf.get_type(), protocol)?)
    }

    fn __repr__(&self) -> String {
        format!(
            "EncryptedResult({} of {}, key_id={})",
            self.content(),
            self.meta.job,
            self.info.key_id
        )
    }
}

impl TableResult {
    /// Opens the file, to read ciphertexts.
    pub(super) fn opened(&self) -> Result<Opened<Cursor<Mapping>>> {
        in_memory(&self.file, Path::new(IN_MEMORY))
    }

    /// Reads a file. Messages call it `path`.
    pub(crate) fn new(file: Memory, path: &Path) -> Result<Self> {
        let opened = in_memory(&file, path)?.expect(Kind::Ciphertexts)?;
        let (content, meta) = opened.meta(&Content::RESULTS)?;
        Ok(Self { info: opened.info().clone(), file, meta, content })
    }
}

/// A result in the clear, and the figures that follow from it.
#[pyclass(frozen, module = "sudare._native")]
pub struct Decrypted {
    values: decrypted::Decrypted,
    /// True if the result was released, so that others may see it.
    shared: bool,
}

impl Decrypted {
    /// Wraps values for the owner of the key alone.
    pub(crate) fn of(values: decrypted::Decrypted) -> Self {
        Self { values, shared: false }
    }
}

#[pymethods]
impl Decrypted {
    /// Returns the values, as `sudare decrypt --json` does. Undefined figures become None.
    fn values<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        match &self.values {
            decrypted::Decrypted::Model(trained) => to_python(py, &trained.model),
            decrypted::Decrypted::Statistics { columns, statistics } => {
                to_python(py, &NamedStatistics::new(columns.clone(), statistics.clone()))
            }
            decrypted::Decrypted::Groups { key, labels, columns, statistics } => {
                let labels = (key.clone(), labels.clone());
                to_python(py, &NamedGroups::new(columns.clone(), labels, statistics.clone()))
            }
            decrypted::Decrypted::Histograms { rows, columns, histograms } => {
                let quartiles = NamedHistograms::QUARTILES.to_vec();
                let histograms = histograms.clone();
                let named = NamedHistograms::new(columns.clone(), *rows, histograms, quartiles)?;
                to_python(py, &named)
            }
            decrypted::Decrypted::Scores { scores, classes, text_labels, members } => {
                let Scores { scores, probabilities } = scores.clone();
                let members = members.as_deref();
                let named = NamedScores::new(scores, probabilities, classes, members)?;
                to_python(py, &NamedScores { text_labels: *text_labels, ..named })
            }
        }
    }

    /// Returns the model of a training, calibrated on its table and the table's labels.
    fn calibrated<'py>(&self, py: Python<'py>, data: &Data) -> Result<Bound<'py, PyAny>> {
        let decrypted::Decrypted::Model(trained) = &self.values else {
            return Err(other_job("another result", "the result of a training"));
        };
        // Calibration looks at the labels of all rows, and no noise covers its numbers.
        if self.shared {
            return Err(Engine::Usage(
                "a calibrated model reveals more about its table than a shared model may: leave out \
                 share_bits, or use the values without calibration"
                    .into(),
            )
            .into());
        }
        let model = job::detached(py, || Ok(trained.calibrated(&data.table)?))?;
        to_python(py, &model)
    }

    /// Returns the means weighted by column `weights`, for statistics.
    fn weighted_mean(&self, weights: usize) -> Result<Vec<f64>> {
        Ok(self.statistics()?.1.weighted_mean(weights).map_err(Engine::from)?)
    }

    /// Returns the linear model of column `target` on all others, for statistics.
    fn least_squares<'py>(&self, py: Python<'py>, target: usize) -> Result<Bound<'py, PyAny>> {
        let (columns, statistics) = self.statistics()?;
        let fit = statistics.least_squares(target).map_err(Engine::from)?;
        to_python(py, &NamedLeastSquares::new(fit, columns))
    }

    /// Runs Welch's test. For statistics, it compares columns `a` and `b` and returns a list of one. For
    /// groups, it compares groups `a` and `b` in each column. A column without a test gets None.
    fn t_test<'py>(&self, py: Python<'py>, a: usize, b: usize) -> Result<Bound<'py, PyAny>> {
        let tests = || -> core::result::Result<Vec<Option<TTest>>, StatsError> {
            match &self.values {
                decrypted::Decrypted::Groups { columns, statistics, .. } => {
                    let test = |j| {
                        let a = statistics.sample(a, j)?;
                        let b = statistics.sample(b, j)?;
                        Ok(TTest::welch(&a, &b).ok())
                    };
                    (0..columns.len()).map(test).collect()
                }
                decrypted::Decrypted::Statistics { statistics, .. } => {
                    let a = statistics.sample(a)?;
                    let b = statistics.sample(b)?;
                    Ok(vec![Some(TTest::welch(&a, &b)?)])
                }
                _ => Ok(Vec::new()),
            }
        };
        to_python(py, &tests().map_err(Engine::from)?)
    }

    /// Returns the quantiles of each column, for histograms.
    fn quantiles(&self, probabilities: Vec<f64>) -> Result<Vec<Vec<f64>>> {
        let of_column = |histogram: &stats::Histogram| {
            probabilities
                .iter()
                .map(|&p| Ok(histogram.quantile(p).map_err(Engine::from)?))
                .collect()
        };
        self.histograms()?.iter().map(of_column).collect()
    }

    /// Returns the edges on both sides of the quantiles of each column, for histograms.
    fn quantile_bounds(&self, probabilities: Vec<f64>) -> Result<Vec<Vec<(f64, f64)>>> {
        let of_column = |histogram: &stats::Histogram| {
            probabilities
                .iter()
                .map(|&p| Ok(histogram.quantile_bounds(p).map_err(Engine::from)?))
                .collect()
        };
        self.histograms()?.iter().map(of_column).collect()
    }
}

impl Decrypted {
    fn histograms(&self) -> Result<&[stats::Histogram]> {
        match &self.values {
            decrypted::Decrypted::Histograms { histograms, .. } => Ok(histograms),
            _ => Err(other_job("another result", "a result of histograms")),
        }
    }

    fn statistics(&self) -> Result<(&[String], &stats::Statistics)> {
        match &self.values {
            decrypted::Decrypted::Statistics { columns, statistics } => Ok((columns, statistics)),
            _ => Err(other_job("another result", "a result of statistics")),
        }
    }
}
