//! What the owner of a table does last: reading results with the secret key.

use crate::{
    artefacts::{Content, Note, NoteScaling, Opened, Plan, ScoredBy},
    error::{Error, Result},
    model::{Model, ModelKind},
    scoring::Inputs,
};
use std::io::Read;
use sudare::ckks::{Ciphertext, Decryptor, Encoder, Params};
use sudare_apps::{
    logreg::{Scores, TrainPlan},
    note,
    stats::{GroupStatistics, Histogram, Statistics, StatsError},
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
    /// Of rows by a model.
    Scores {
        /// And their probabilities, if the server computed them.
        scores: Scores,
        /// Of the rows, if they are known.
        labels: Option<Vec<bool>>,
    },
}

impl Decrypted {
    /// Reads a result with the key of its job; with `share_bits` as others than the owner of the
    /// key may see it, to so many bits after the point, each time one of the 1024 releases of a key.
    ///
    /// # Errors
    /// [`Error::Usage`] for a file of anything else, and for results that were not computed to be
    /// shared, or not to so many bits; [`Error::File`] for a result of another key, or a damaged one;
    /// [`Error::Parse`], [`Error::Apps`] or [`Error::Stats`] for ciphertexts that are not those of
    /// its job.
    pub fn read<R: Read>(
        result: Opened<R>,
        params: &Params,
        decryptor: &Decryptor,
        share_bits: Option<u32>,
    ) -> Result<Self> {
        let (_, meta) = result.meta(&[Content::Model, Content::Statistics, Content::Scores])?;
        result.expect_key(params.rlwe().id(), decryptor.key_id())?;
        let path = result.path().to_owned();
        let malformed = |problem: &str| Error::Parse {
            path: path.clone(),
            what: "result",
            problem: format!("{problem}; compute it again from an undamaged encrypted table"),
        };
        let mut parts = result.ciphertexts(params, meta.note)?;
        let read_note = |note: &[Ciphertext]| -> Result<Note> {
            let bytes = note::decrypt(decryptor, params, note)?;
            serde_json::from_slice(&bytes).map_err(|_| malformed("its note is not of this program"))
        };
        let model_note = match meta.scored_by {
            Some(ScoredBy::Encrypted(count)) => {
                let rows = parts.note.len().checked_sub(count as usize);
                let rows = rows.ok_or_else(|| malformed("it has not the notes that it lists"))?;
                Some(read_note(&parts.note.split_off(rows))?)
            }
            Some(ScoredBy::Plain(_)) | None => None,
        };
        let Note { columns, scaling } = read_note(&parts.note)?;
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
        let plan = meta.job.plan(params)?;
        let shared = |share: &dyn Fn(u32) -> core::result::Result<Vec<Vec<f64>>, StatsError>| {
            match share_bits {
                None => Ok(slots.clone()),
                Some(bits) => share(bits).map_err(|error| match error {
                    StatsError::Engine(sudare::Error::TooLittlePrecision { .. }) => {
                        Error::Usage(format!(
                            "--share {bits}: the results were not computed with the precision for \
                         that: make keys with --share {bits} and compute again, or share fewer bits"
                        ))
                    }
                    other => other.into(),
                }),
            }
        };
        match (plan, scaling) {
            (Plan::Train(plan), NoteScaling::Train { target, divisors, mut class_weights }) => {
                let Some((slots, earlier)) = slots.split_first() else {
                    return Err(malformed("a model is one ciphertext at least"));
                };
                let (mut weights, features) = (plan.decode(slots), plan.job().features);
                if weights.len() != features + 1 {
                    return Err(malformed("its ciphertext has fewer slots than a model"));
                }
                expect(columns.len() == features && divisors.features() == features)?;
                let mut history = (!earlier.is_empty()).then(|| plan.history(earlier));
                let whole = |history: &Vec<Vec<f64>>| {
                    history.len() == meta.iterations as usize
                        && history.iter().all(|earlier| earlier.len() == weights.len())
                };
                if !history.as_ref().is_none_or(whole) {
                    return Err(malformed("its history is of other iterations"));
                }
                if let Some(bits) = share_bits {
                    weights = shared_weights(&plan, &weights, bits)?;
                    (history, class_weights) = (None, None);
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
                    class_weights,
                    history,
                };
                Ok(Self::Model { model, plan: Box::new(plan) })
            }
            (Plan::Stats(plan), NoteScaling::Stats(scaling)) => {
                expect(columns.len() == plan.job().features)?;
                let slots = shared(&|bits| plan.share(&slots, bits))?;
                Ok(Self::Statistics { columns, statistics: plan.decode(&slots, &scaling)? })
            }
            (Plan::Groups(plan), NoteScaling::Groups { scaling, key, labels }) => {
                let job = plan.job();
                expect(columns.len() == job.features && labels.len() == job.groups)?;
                let slots = shared(&|bits| plan.share(&slots, bits))?;
                let statistics = plan.decode(&slots, &scaling)?;
                Ok(Self::Groups { key, labels, columns, statistics })
            }
            (Plan::Histogram(plan), NoteScaling::Stats(scaling)) => {
                expect(columns.len() == plan.job().features)?;
                let slots = shared(&|bits| plan.share(&slots, bits))?;
                let (rows, histograms) = (plan.job().rows, plan.decode(&slots, &scaling)?);
                Ok(Self::Histograms { rows, columns, histograms })
            }
            (Plan::Predict(plan), NoteScaling::Rows { divisors, labels }) => {
                if share_bits.is_some() {
                    return Err(Error::Usage(
                        "--share is for models and statistics, scores are for the owner of the \
                         key: leave it out"
                            .into(),
                    ));
                }
                let (rows, features) = (plan.job().rows, plan.job().model.features());
                expect(columns.len() == features && divisors.features() == features)?;
                let same = match (meta.scored_by, model_note) {
                    (Some(ScoredBy::Plain(digest)), _) => {
                        digest == Inputs::digest(&columns, &divisors)
                    }
                    (_, Some(Note { columns: others, scaling })) => match scaling {
                        NoteScaling::Train { divisors: other, .. } => {
                            others == columns && other == divisors
                        }
                        _ => false,
                    },
                    _ => return Err(malformed("it does not say what scored it")),
                };
                if !same {
                    return Err(Error::Usage(format!(
                        "{} has scores of rows that were scaled for other columns, or other \
                         ranges, than the model has: encrypt the rows again with --like and that \
                         model, or the table that it was trained on",
                        path.display()
                    )));
                }
                let labels = labels.map(|labels| labels.chars().map(|c| c == '1').collect());
                expect(labels.as_ref().is_none_or(|labels: &Vec<bool>| labels.len() == rows))?;
                Ok(Self::Scores { scores: plan.decode(&slots)?, labels })
            }
            (Plan::Predict(_), NoteScaling::Train { .. }) => Err(Error::Usage(format!(
                "{} is a model that was encrypted to score rows by, not a result: whoever \
                 encrypted it has it in the clear",
                path.display()
            ))),
            _ => Err(malformed("its note is of another computation")),
        }
    }
}

fn shared_weights(plan: &TrainPlan, weights: &[f64], bits: u32) -> Result<Vec<f64>> {
    let planned = plan.job().spec.shared_bits;
    match planned {
        Some(planned) if planned >= bits => Ok(plan.share(weights, bits)?),
        _ => Err(Error::Usage(format!(
            "--share {bits}: the weights were computed {}: make keys with --share {bits} and train \
             again",
            planned.map_or("for the owner of the key alone".into(), |planned| format!(
                "to be shared to {planned} bits"
            ))
        ))),
    }
}
