//! What the owner of a table does last: reading results with the secret key.

use crate::{
    artefacts::{Content, Note, NoteScaling, Opened, Plan},
    error::{Error, Result},
    model::{Model, ModelKind},
};
use std::io::Read;
use sudare::ckks::{Decryptor, Encoder, Params};
use sudare_apps::{
    logreg::TrainPlan,
    note,
    stats::{GroupStatistics, Histogram, Statistics},
};

/// What a result holds, for the owner of the key alone.
pub enum Decrypted {
    /// Of a training.
    Model {
        /// As it was trained.
        model: Model,
        /// How, which also says whether it can be shared.
        plan: Box<TrainPlan>,
    },
    /// Of the columns of a table.
    Statistics {
        /// Their names.
        columns: Vec<String>,
        /// In their order.
        statistics: Statistics,
    },
    /// Of columns by groups of rows.
    Groups {
        /// Name of the column whose values tell groups apart.
        key: String,
        /// Its values, ascending.
        labels: Vec<f64>,
        /// Names of the other columns.
        columns: Vec<String>,
        /// In the order of both.
        statistics: GroupStatistics,
    },
    /// Of the values of columns.
    Histograms {
        /// Rows of the table.
        rows: usize,
        /// Names of the columns.
        columns: Vec<String>,
        /// In their order.
        histograms: Vec<Histogram>,
    },
}

impl Decrypted {
    /// Reads a result.
    ///
    /// # Errors
    /// [`Error::Usage`] for a file of anything else; [`Error::File`] for a result of another key, or
    /// a damaged one; [`Error::Parse`], [`Error::Apps`] or [`Error::Stats`] for ciphertexts that are
    /// not those of its job.
    pub fn read<R: Read>(
        result: Opened<R>,
        params: &Params,
        decryptor: &Decryptor,
    ) -> Result<Self> {
        let (_, meta) = result.meta(&[Content::Model, Content::Statistics])?;
        result.expect_key(params.rlwe().id(), decryptor.key_id())?;
        let path = result.path().to_owned();
        let malformed = |problem: &str| Error::Parse {
            path: path.clone(),
            what: "result",
            problem: format!("{problem}; compute it again from an undamaged encrypted table"),
        };
        let parts = result.ciphertexts(params, meta.note)?;
        let bytes = note::decrypt(decryptor, params, &parts.note)?;
        let Note { columns, scaling } = serde_json::from_slice(&bytes)
            .map_err(|_| malformed("its note is not of this program"))?;
        let encoder = Encoder::new(params);
        let slots = parts
            .content
            .iter()
            .map(|item| encoder.decode_real(&decryptor.decrypt(item)?))
            .collect::<sudare::Result<Vec<_>>>()?;
        let expect = |same: bool| match same {
            true => Ok(()),
            false => Err(malformed("its note is of another table")),
        };
        match (meta.job.plan(params)?, scaling) {
            (Plan::Train(plan), NoteScaling::Train { target, divisors }) => {
                let Some((slots, earlier)) = slots.split_first() else {
                    return Err(malformed("a model is one ciphertext at least"));
                };
                let (weights, features) = (plan.decode(slots), plan.job().features);
                if weights.len() != features + 1 {
                    return Err(malformed("its ciphertext has fewer slots than a model"));
                }
                expect(columns.len() == features && divisors.features() == features)?;
                let history = (!earlier.is_empty()).then(|| plan.history(earlier));
                let whole = |history: &Vec<Vec<f64>>| {
                    history.len() == meta.iterations as usize
                        && history.iter().all(|earlier| earlier.len() == weights.len())
                };
                if !history.as_ref().is_none_or(whole) {
                    return Err(malformed("its history is of other iterations"));
                }
                let model = Model {
                    kind: ModelKind::LogisticRegression,
                    weights,
                    columns,
                    target,
                    divisors,
                    iterations: meta.iterations,
                    rows: plan.job().rows,
                    training: Some(plan.job().spec),
                    history,
                };
                Ok(Self::Model { model, plan: Box::new(plan) })
            }
            (Plan::Stats(plan), NoteScaling::Stats(scaling)) => {
                expect(columns.len() == plan.job().features)?;
                Ok(Self::Statistics { columns, statistics: plan.decode(&slots, &scaling)? })
            }
            (Plan::Groups(plan), NoteScaling::Groups { scaling, key, labels }) => {
                let job = plan.job();
                expect(columns.len() == job.features && labels.len() == job.groups)?;
                let statistics = plan.decode(&slots, &scaling)?;
                Ok(Self::Groups { key, labels, columns, statistics })
            }
            (Plan::Histogram(plan), NoteScaling::Stats(scaling)) => {
                expect(columns.len() == plan.job().features)?;
                let (rows, histograms) = (plan.job().rows, plan.decode(&slots, &scaling)?);
                Ok(Self::Histograms { rows, columns, histograms })
            }
            _ => Err(malformed("its note is of another computation")),
        }
    }
}
