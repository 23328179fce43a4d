//! Reads results with the secret key: the last step of a table's owner.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::{
    clear::{
        decrypted::{Decrypted, TrainedModel},
        model::Model,
        note::{About, Note, Trained, prepared_digest},
    },
    error::{Error, Result},
    format::{
        label::{Content, Meta, ScoredBy},
        opened::{Opened, SplitCiphertexts},
    },
    job::Plan,
    owner::ledger::{Draft, Ledger},
};
use std::{io::Read, path::PathBuf};
use sudare::ckks::{Ciphertext, Decryptor, Encoder, Params, serial};
use sudare_apps::{
    logreg::{ScorePlan, Scores, TrainPlan, Transform},
    stats::StatsError,
};
use sudare_arith::{prng::Seed, real};

/// A result after the decryption of its ciphertexts.
struct Reader<'a> {
    path: PathBuf,
    meta: Meta,
    params: &'a Params,
    decryptor: &'a Decryptor,
    share: Option<(Share<'a>, Draft)>,
    slots: Vec<Vec<f64>>,
}

/// Parameters of a release: a result that anyone may see.
#[derive(Clone, Copy)]
pub struct Share<'a> {
    /// Fractional bits of the released values.
    pub bits: u32,
    /// Assumes that no row of the owners exceeds the bound for which the model's error is computed.
    /// No owner can check the rows of all. See [`TrainPlan::share`].
    pub assume_range: bool,
    /// The ledger that counts the release before the result is returned.
    pub ledger: &'a Ledger,
}

impl Decrypted {
    /// Reads a result with the key of its job. With `share` the result is released, so that others
    /// than the owner of the key may see it. A release counts as one of the key's 1024 releases; a
    /// model counts one for each vector of weights. Releasing the same result to the same bits
    /// again returns the same values and does not count again.
    ///
    /// # Errors
    /// [`Error::ReleasesSpent`] and [`Error::NotCounted`] for a release that cannot be counted;
    /// [`Error::Usage`] for any other file, and for results that were not computed to be shared, or
    /// only to fewer bits; [`Error::File`] for a result of another key, or a damaged one;
    /// [`Error::Parse`], [`Error::Apps`] or [`Error::Stats`] for ciphertexts that do not fit the
    /// job.
    pub fn read<R: Read>(
        result: Opened<R>,
        params: &Params,
        decryptor: &Decryptor,
        share: Option<Share<'_>>,
    ) -> Result<Self> {
        let (_, meta) = result.meta(&Content::RESULTS)?;
        // Decrypting with another key would give random numbers and no error.
        result.expect_key(params.rlwe().id(), decryptor.key_id())?;
        let path = result.path().to_owned();
        let label = result.info().label.clone();
        let SplitCiphertexts { content, note } = result.ciphertexts(params, meta.note)?;
        let mut reader = Reader { path, meta, params, decryptor, share: None, slots: Vec::new() };
        let (read, of_model) = reader.notes(note.clone())?;
        let plan = reader.meta.job.plan(params)?;
        // An encrypted model for scoring has other shapes. The match in `decoded` refuses it.
        if !matches!(read.about, About::Model { .. }) {
            reader.expect_shapes(&plan, &content)?;
        }
        let encoder = Encoder::new(params);
        let slots = content.iter().map(|item| encoder.decode_real(&decryptor.decrypt(item)?));
        reader.slots = slots.collect::<sudare::Result<_>>()?;
        if let Some(share) = share {
            let values = reader.slots.iter().flatten().copied();
            let all = [&content[..], &note].concat();
            let write = |out: &mut _| serial::write_ciphertexts(out, params, &all, &label);
            reader.share = Some((share, Draft::new(decryptor, share.bits, values, write)?));
        }
        let decrypted = reader.decoded(plan, read, of_model)?;
        // Before any value is returned: a result that cannot be counted must not be seen.
        if let Some((share, draft)) = reader.share {
            draft.count(share.ledger)?;
        }
        Ok(decrypted)
    }
}

const OTHER_COMPUTATION: &str = "its note belongs to another computation";

impl Reader<'_> {
    fn malformed(&self, problem: &str) -> Error {
        Error::Parse {
            path: self.path.clone(),
            what: "result",
            problem: format!("{problem}; compute it again from an undamaged encrypted table"),
        }
    }

    fn expect(&self, same: bool) -> Result<()> {
        match same {
            true => Ok(()),
            false => Err(self.malformed("its note belongs to another table")),
        }
    }

    /// Returns the note of a table, and the note of the encrypted model that scored its rows.
    fn notes(&self, mut all: Vec<Ciphertext>) -> Result<(Note, Option<Note>)> {
        let read = |note: &[Ciphertext]| -> Result<Note> {
            let note = Note::decrypt(self.decryptor, self.params, note)?;
            note.ok_or_else(|| self.malformed("its note comes from another version of the program"))
        };
        let of_model = match self.meta.scored_by {
            Some(ScoredBy::Encrypted(count)) => {
                // The count comes from the label, which anyone can write, so it may exceed the
                // notes.
                let rows = all.len().checked_sub(count as usize);
                let lacks = || self.malformed("it lacks notes that it lists");
                Some(read(&all.split_off(rows.ok_or_else(lacks)?))?)
            }
            Some(ScoredBy::Plain(_)) | None => None,
        };
        Ok((read(&all)?, of_model))
    }

    /// Refuses ciphertexts whose level or scale differs from the job's plan, since their values and
    /// errors would differ too.
    fn expect_shapes(&self, plan: &Plan, content: &[Ciphertext]) -> Result<()> {
        let shapes = plan.result_shapes(self.meta.iterations);
        for (index, (item, (level, scale))) in content.iter().zip(shapes).enumerate() {
            if item.level() != level || !item.scale().matches(scale) {
                return Err(self.malformed(&format!(
                    "its ciphertext {index} has level {} and scale {}, but its job gives level {level} \
                     and scale {scale}",
                    item.level(),
                    item.scale()
                )));
            }
        }
        Ok(())
    }

    fn decoded(&mut self, plan: Plan, note: Note, of_model: Option<Note>) -> Result<Decrypted> {
        if let Plan::Statistics(plan) = plan {
            let (_, features) = self.meta.job.shape()?;
            self.expect(note.columns.len() == features)?;
            let slots = self.shared(|slots, bits, noise| plan.0.share(slots, bits, noise))?;
            let shared_bits = self.share.as_ref().map(|(share, _)| share.bits);
            let decoded = plan.0.decode(&slots, note, shared_bits)?;
            return decoded.ok_or_else(|| self.malformed(OTHER_COMPUTATION));
        }
        let Note { columns, rows, about } = note;
        match (plan, about) {
            (Plan::Train(plan), About::Train(trained)) => {
                Ok(Decrypted::Model(Box::new(self.model(plan, (columns, rows, *trained))?)))
            }
            (Plan::Predict(plan), About::Rows { prepared, classes, members, text_labels }) => {
                self.expect(columns.len() == plan.job().model.features())?;
                self.expect_prepared(prepared, of_model)?;
                self.scores(&plan, (classes, text_labels), members, rows)
            }
            (Plan::Predict(_), About::Model { .. }) => Err(Error::Usage(format!(
                "{} is an encrypted model for scoring rows, not a result: ask the owner who \
                 encrypted it for the model in the clear",
                self.path.display()
            ))),
            _ => Err(self.malformed(OTHER_COMPUTATION)),
        }
    }

    fn model(
        &mut self,
        plan: Box<TrainPlan>,
        (columns, rows, trained): (Vec<String>, usize, Trained),
    ) -> Result<TrainedModel> {
        let features = plan.job().features;
        let models = plan.job().spec.models();
        // Before the split, which would panic for a file that lists fewer ciphertexts.
        if self.slots.len() < models {
            return Err(self.malformed("it has fewer ciphertexts than models"));
        }
        let (slots, earlier) = self.slots.split_at(models);
        let mut weights: Vec<Vec<f64>> = slots.iter().map(|slots| plan.decode(slots)).collect();
        if weights.iter().any(|weights| weights.len().checked_sub(1) != Some(features)) {
            return Err(self.malformed("its ciphertexts have fewer slots than a model"));
        }
        let Trained { transform, shown, classes, encoding, .. } = &trained;
        // The label and the note are written separately, so each may belong to another table.
        let same = [columns.len(), transform.columns(), shown.columns()] == [features; 3]
            && classes.len() == plan.job().spec.classes as usize
            && encoding.as_ref().is_none_or(|encoding| encoding.columns() == columns);
        self.expect(same)?;
        let mut history = (!earlier.is_empty()).then(|| plan.history(earlier)).transpose()?;
        let iterations = self.meta.iterations as usize;
        if history.as_ref().is_some_and(|history| history.len() != iterations) {
            return Err(self.malformed("its history has another number of iterations"));
        }
        if let Some((share, draft)) = &mut self.share {
            let mut share = |weights| shared_weights(&plan, weights, *share, &draft.noise());
            weights = weights.iter().map(|weights| share(weights)).collect::<Result<_>>()?;
            // The history has no noise, so it is not shared.
            history = None;
        }
        let note = (columns, rows, trained);
        let mut trained =
            TrainedModel::new((plan, self.meta.iterations), note, (weights, history))?;
        if let Some((share, _)) = self.share {
            // Before the release is counted.
            trained.model.expect_no_small_categories()?;
            trained.model =
                Model { shared_bits: Some(share.bits), ..without_ranges(trained.model)? };
        }
        Ok(trained)
    }

    /// Returns the slots, with noise added if they are shared.
    fn shared(
        &mut self,
        share: impl Fn(&[Vec<f64>], u32, &Seed) -> core::result::Result<Vec<Vec<f64>>, StatsError>,
    ) -> Result<Vec<Vec<f64>>> {
        let Some((Share { bits, .. }, draft)) = &mut self.share else {
            return Ok(self.slots.clone());
        };
        let bits = *bits;
        share(&self.slots, bits, &draft.noise()).map_err(|error| match error {
            StatsError::Library(sudare::Error::TooLittlePrecision { .. }) => too_imprecise(bits),
            other => other.into(),
        })
    }

    /// Refuses scores by a model that the rows were not prepared for.
    fn expect_prepared(&self, prepared: [u8; 32], of_model: Option<Note>) -> Result<()> {
        let needed = match (self.meta.scored_by, of_model) {
            (Some(ScoredBy::Plain(digest)), _) => digest,
            (_, Some(Note { columns, about: About::Train(trained), .. })) => {
                prepared_digest(&columns, &trained.transform)?
            }
            (_, Some(Note { about: About::Model { prepared }, .. })) => prepared,
            _ => return Err(self.malformed("it does not name the model that scored it")),
        };
        match needed == prepared {
            true => Ok(()),
            // Rows that were prepared in another way give plausible scores that are wrong.
            false => Err(Error::Usage(format!(
                "{} has scores by a model that its rows were not prepared for: encrypt the rows \
                 again with --like and that model, or with --like and the table that it was \
                 trained on",
                self.path.display()
            ))),
        }
    }

    fn scores(
        &mut self,
        plan: &ScorePlan,
        (classes, text_labels): (Vec<String>, bool),
        members: Option<Vec<[u8; 2]>>,
        rows: usize,
    ) -> Result<Decrypted> {
        let member = |bytes: [u8; 2]| u32::from(u16::from_le_bytes(bytes));
        let members: Option<Vec<u32>> =
            members.map(|members| members.into_iter().map(member).collect());
        self.expect(rows <= plan.job().rows)?;
        self.expect(members.as_ref().is_none_or(|members| members.len() == rows))?;
        let Scores { mut scores, mut probabilities } = plan.decode(&self.slots)?;
        if let Some((Share { bits, .. }, draft)) = &mut self.share {
            // Probabilities follow from released scores.
            probabilities = None;
            scores = plan.share(&scores, *bits, &draft.noise()).map_err(|error| match error {
                sudare_apps::Error::Library(sudare::Error::TooLittlePrecision { .. }) => {
                    too_imprecise(*bits)
                }
                other => other.into(),
            })?;
        }
        // The padding rows of the plan have no scores.
        scores.iter_mut().chain(probabilities.iter_mut().flatten()).for_each(|s| s.truncate(rows));
        let scores = Scores { scores, probabilities };
        Ok(Decrypted::Scores { scores, classes, text_labels, members })
    }
}

fn too_imprecise(bits: u32) -> Error {
    Error::Usage(format!(
        "--share {bits}: the results are not precise enough: make keys with --share {bits} (for \
         scores also with --score-range) and compute again, or share fewer bits"
    ))
}

/// Returns a model that reveals no more of the table than the weights do: its columns are centered
/// at 0, and its divisors are powers of two.
fn without_ranges(model: Model) -> Result<Model> {
    let shown = model.inputs()?.shown;
    // A power of two covers the range without showing it: centers and divisors are data of the
    // owner.
    let spans = model.centers.iter().zip(&model.divisors).map(|(c, d)| c.abs() + d);
    let divisors: Vec<f64> = spans.map(|span| real::exp2(real::log2(span).ceil())).collect();
    let plain = Transform::affine(vec![0.0; divisors.len()], divisors.clone())?;
    let under = |weights: &Vec<f64>| Ok(shown.weights_under(weights, &plain)?);
    Ok(Model {
        weights: model.weights.iter().map(under).collect::<Result<_>>()?,
        centers: vec![0.0; divisors.len()],
        divisors,
        // These fields describe the owner's rows, and the noise of the release does not cover them.
        class_weights: None,
        held_out: None,
        fingerprints: None,
        transform: None,
        ..model
    })
}

fn shared_weights(
    plan: &TrainPlan,
    weights: &[f64],
    Share { bits, assume_range, .. }: Share<'_>,
    noise: &Seed,
) -> Result<Vec<f64>> {
    let planned = plan.job().spec.shared_bits;
    match planned {
        // Fewer bits than planned mean more noise, which hides the same error.
        Some(planned) if planned >= bits => Ok(plan.share(weights, bits, assume_range, noise)?),
        _ => Err(Error::Usage(format!(
            "--share {bits}: the weights were computed {}: make keys with --share {bits} and train \
             again",
            planned.map_or("for the owner of the key alone".into(), |planned| format!(
                "to be shared to {planned} bits"
            ))
        ))),
    }
}
