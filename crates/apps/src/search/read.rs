//! Decoding of decrypted sums by the owner.

use sudare::ckks::Complex;

use super::{
    error::{Result, SearchError, expect},
    plan::Plan,
    select::Selection,
    sketch::{Bucket, log2_crowded},
    spec::Answer,
};

/// Lower limit of reported values of `log2` of a probability.
const MIN_LOG2: f64 = -128.0;

/// A decoded count of matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Number of records that match.
    pub matches: usize,
    /// Number of omitted sums that are not integers. Each contains a record within the margin of
    /// the threshold.
    pub undecided: usize,
}

/// A record that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// The number of the record in the index, from 0.
    pub row: usize,
    /// The payload of the record, in bytes.
    pub payload: Vec<u8>,
}

/// The records that match, as far as an answer resolves them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Matches {
    /// The resolved matches, in the order of their records. If several records of a bucket are
    /// within the margin of the threshold, their errors can compensate each other. A payload is
    /// then wrong with a probability of `2^-15`.
    pub found: Vec<Match>,
    /// Number of further matches in buckets that have too many to resolve. More records match than
    /// planned, or improbably many are in one bucket.
    pub crowded: usize,
    /// Number of omitted buckets whose sums do not come from whole records. Each has a record
    /// within the margin of the threshold.
    pub undecided: usize,
    /// True if more records match than planned.
    pub more_than_planned: bool,
}

impl Matches {
    /// Returns whether `found` contains all matches.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.crowded == 0 && self.undecided == 0
    }
}

impl Plan {
    /// Decodes the number of matches from the slots of a decrypted answer.
    ///
    /// # Errors
    /// [`SearchError::NotPlanned`] if the server answers scores; [`SearchError::Shape`] for another
    /// number of ciphertexts or slots.
    pub fn decode_count(&self, answer: &[Vec<Complex<f64>>]) -> Result<Count> {
        let selection = self.expect_selection("a count")?;
        let sums = self.unpacked(selection, answer)?;
        let mut count = Count { matches: 0, undecided: 0 };
        for sum in sums.first().into_iter().flatten() {
            match selection.sketch.count(sum.re) {
                Some(matches) => count.matches += matches,
                None => count.undecided += 1,
            }
        }
        Ok(count)
    }

    /// Decodes the matches from the slots of a decrypted answer.
    ///
    /// # Errors
    /// [`SearchError::NotPlanned`] if the server does not answer matches; [`SearchError::Shape`]
    /// for another number of ciphertexts or slots.
    pub fn decode_matches(&self, answer: &[Vec<Complex<f64>>]) -> Result<Matches> {
        let selection = self.expect_selection("matches")?;
        let Answer::Matches { most, .. } = self.spec.answer else {
            let asked = "matches";
            let planned = self.spec.answer.name();
            return Err(SearchError::NotPlanned { asked, planned });
        };
        let sketch = &selection.sketch;
        let pairs = self.unpacked(selection, answer)?;
        let mut matches = Matches::default();
        let mut solved = Vec::new();
        for bucket in 0..sketch.buckets {
            let sums: Vec<f64> =
                pairs.iter().flat_map(|pair| [pair[bucket].re, pair[bucket].im]).collect();
            match sketch.read(bucket, &sums) {
                Bucket::Solved(records) => solved.extend(
                    records
                        .into_iter()
                        .map(|(tag, payload)| (sketch.place(&self.layout, bucket, tag), payload)),
                ),
                Bucket::Crowded(count) => matches.crowded += count,
                Bucket::Undecided => matches.undecided += 1,
            }
        }
        // By block, so that the permutation of each block is computed once.
        solved.sort_unstable();
        for solved in solved.chunk_by(|a, b| a.0.0 == b.0.0) {
            let block = solved[0].0.0;
            let first = block * self.layout.block();
            let records = self.layout.records(block);
            let found = solved.iter().map(|((_, place), payload)| Match {
                row: first + records[*place],
                payload: payload.clone(),
            });
            matches.found.extend(found);
        }
        matches.more_than_planned = matches.found.len() + matches.crowded > most;
        matches.found.sort_by_key(|found| found.row);
        Ok(matches)
    }

    /// Returns an estimated bound of the distance of counts from integers, if no record is within
    /// the margin. Decoding accepts at least twice this distance. `None` if the server answers
    /// scores.
    #[must_use]
    pub fn largest_count_error(&self) -> Option<f64> {
        self.selection.as_ref().map(|_| self.count_errors.largest())
    }

    /// Returns `log2` of a bound of the probability that noise makes an answer wrong although no
    /// record is within the margin.
    ///
    /// An answer is wrong if one of its sums is further from an integer than decoding allows
    /// (`docs/notes/search-failures.md`). The minimum is -128, because smaller values would rest on
    /// untested tails of distributions. `None` if the server answers scores.
    #[must_use]
    pub fn log2_wrong(&self) -> Option<f64> {
        let sketch = &self.selection.as_ref()?.sketch;
        let sums = sketch.buckets * sketch.columns();
        Some(self.count_errors.log2_beyond(sketch.tolerance(), sums).max(MIN_LOG2))
    }

    /// Returns `log2` of the probability that an answer does not resolve all matches, if there are
    /// as planned. `None` if that is impossible.
    pub(super) fn log2_incomplete(&self) -> Option<f64> {
        let Answer::Matches { most, .. } = self.spec.answer else { return None };
        let sketch = self.selection.as_ref()?.sketch;
        let possible = sketch.solved < most.min(sketch.candidates);
        possible.then(|| log2_crowded(most, sketch.solved, sketch.buckets))
    }

    pub(super) fn expect_selection(&self, asked: &'static str) -> Result<&Selection> {
        let planned = self.spec.answer.name();
        self.selection.as_ref().ok_or(SearchError::NotPlanned { asked, planned })
    }

    fn unpacked(
        &self,
        selection: &Selection,
        answer: &[Vec<Complex<f64>>],
    ) -> Result<Vec<Vec<Complex<f64>>>> {
        expect("ciphertexts of an answer", answer.len(), selection.sketch.outputs(&self.layout))?;
        for slots in answer {
            expect("slots of an answer", slots.len(), self.layout.slots)?;
        }
        Ok(selection.unpack(answer))
    }
}
