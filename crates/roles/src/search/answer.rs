//! Decrypted answers.

use super::{
    payload::Value,
    server::{AnswerMeta, SearchKind},
    setup::{self, Content, Session},
};
use crate::{
    error::{Error, Result},
    format::opened::Opened,
};
use serde::Serialize;
use std::{collections::BTreeSet, io::Read};
use sudare::ckks::Decryptor;
use sudare_apps::search::Metric;

/// A matching record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The number of the record in the index, from 0.
    pub row: usize,
    /// The payload of the record.
    pub payload: Value,
}

/// An answer in the clear.
#[derive(Debug, Clone, PartialEq)]
pub enum Answered {
    /// The similarity of each record: a cosine, an inner product, or the square of a distance. NaN
    /// for records that the server knows to be deleted. Meaningless for records that were deleted
    /// from an encrypted index.
    Scores(Vec<f64>),
    /// The number of matching records.
    Count {
        /// Number of matching records.
        matches: usize,
        /// Number of sums that were left out, each with a record within the margin of the
        /// threshold.
        undecided: usize,
    },
    /// The matching records.
    Matches {
        /// The matching records with their payloads.
        found: Vec<Found>,
        /// Number of further matches, in buckets with too many matches to separate.
        crowded: usize,
        /// Number of buckets that were left out, each with a record within the margin of the
        /// threshold.
        undecided: usize,
        /// True if more records match than planned.
        more_than_planned: bool,
    },
}

/// Decrypts the answer in a file and reads it.
///
/// # Errors
/// [`Error::File`] for an answer under another key pair; [`Error::Usage`] for an answer of another
/// search; [`Error::Search`].
pub fn open_answer<R: Read>(
    session: &Session,
    decryptor: &Decryptor,
    answer: Opened<R>,
) -> Result<Answered> {
    // Under another key pair the answer would decrypt to random numbers.
    session.expect(&answer)?;
    let AnswerMeta { setup, wanted, rows, deleted } = setup::read(&answer, Content::Answer)?;
    let path = answer.path().to_owned();
    if setup != session.setup {
        return Err(Error::Usage(format!(
            "{} belongs to another search: read it with the keys of that search",
            path.display()
        )));
    }
    let plan = &session.plan;
    // From the rows in the label, which anyone can write, so the count is compared below.
    let blocks = plan.blocks(rows)?;
    let slots = plan.decrypt(decryptor, &answer.ciphertexts(plan.params(), 0)?.content)?;
    match wanted {
        SearchKind::Scores => {
            if slots.len() != blocks {
                let problem = format!(
                    "{blocks} blocks have {blocks} ciphertexts of scores, not {}",
                    slots.len()
                );
                let malformed = sudare::Error::Malformed { what: "file", problem };
                return Err(Error::in_file(&path)(malformed));
            }
            let length = plan.block_len();
            let mut scores = Vec::with_capacity(rows);
            for (block, slots) in slots.iter().enumerate() {
                let records = length.min(rows.saturating_sub(block * length));
                scores.extend(plan.decode_scores(block, records, slots)?);
            }
            for row in deleted {
                // The server may name rows that do not exist, and they have no score to remove.
                if let Some(score) = scores.get_mut(row) {
                    *score = f64::NAN;
                }
            }
            Ok(Answered::Scores(scores))
        }
        SearchKind::Count => {
            let count = plan.decode_count(&slots)?;
            Ok(Answered::Count { matches: count.matches, undecided: count.undecided })
        }
        SearchKind::Matches => {
            let matches = plan.decode_matches(&slots)?;
            let payload = session.setup.payload;
            let found = matches.found.into_iter();
            let found = found
                .map(|found| Found { row: found.row, payload: payload.unpack(&found.payload) });
            Ok(Answered::Matches {
                found: found.collect(),
                crowded: matches.crowded,
                undecided: matches.undecided,
                more_than_planned: matches.more_than_planned,
            })
        }
    }
}

impl Answered {
    /// Returns the `most` nearest records with their similarities, nearest first, without the
    /// deleted ones. The similarity is a cosine, an inner product, or a distance (the root of a
    /// score). Returns `None` for other kinds of answers.
    #[must_use]
    pub fn nearest(
        &self,
        session: &Session,
        deleted: &BTreeSet<usize>,
        most: usize,
    ) -> Option<Vec<(usize, f64)>> {
        let Self::Scores(scores) = self else { return None };
        let scores = scores.iter().copied().enumerate();
        // NaN marks records that only the server knows as deleted, the list those of the owner.
        let kept = scores.filter(|(row, score)| !score.is_nan() && !deleted.contains(row));
        let mut nearest = session.plan.nearest(kept, most);
        if matches!(session.setup.spec.metric, Metric::Euclidean { .. }) {
            // Noise can make squares of small distances negative.
            nearest.iter_mut().for_each(|(_, score)| *score = score.max(0.0).sqrt());
        }
        Some(nearest)
    }
}
