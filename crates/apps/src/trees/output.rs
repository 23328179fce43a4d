//! Raw scores as integers.

use serde::{Deserialize, Serialize};

/// A raw score as the server returns it: `offset + unit integer`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// The raw score of the integer 0.
    pub offset: f64,
    /// The raw score of one unit.
    pub unit: f64,
    /// A bound on the difference to the score of the model on the grid, because of rounded leaves.
    pub error: f64,
}

impl Output {
    /// Chooses the unit of the sum of leaves of these trees, which is at most `most` in magnitude.
    pub(super) fn of(offset: f64, spans: impl Iterator<Item = Span> + Clone, most: u64) -> Self {
        let trees = spans.clone().count() as f64;
        let half: f64 = spans.clone().map(|span| span.most / 2.0 - span.least / 2.0).sum();
        // Each tree may be rounded up by half a unit, and the sum of floats may be rounded.
        let room = most as f64 - trees;
        let unit = if half > 0.0 { half / room * (1.0 + 1e-9) } else { 1.0 };
        Self { offset: offset + spans.map(Span::middle).sum::<f64>(), unit, error: 0.0 }
    }

    /// Returns the raw score of an integer.
    pub(super) fn score(self, integer: i128) -> f64 {
        self.offset + self.unit * integer as f64
    }
}

/// The least and the greatest number of some leaves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub least: f64,
    pub most: f64,
}

impl Span {
    /// The number that leaves are rounded from. It is part of the offset.
    pub fn middle(self) -> f64 {
        self.least / 2.0 + self.most / 2.0
    }
}
