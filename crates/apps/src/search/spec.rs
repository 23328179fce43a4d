//! The public facts of a search, and the embedding of vectors into unit balls.

use serde::{Deserialize, Serialize};

use super::error::{Place, Result, SearchError};
use sudare_arith::real;

/// Maximum number of records of an index.
const MAX_ROWS: usize = 1 << 26;
/// Maximum number of coordinates of a vector.
const MAX_DIMENSION: usize = 1 << 12;
/// Maximum payload of a record, in bytes.
const MAX_PAYLOAD: usize = 1 << 10;
/// Maximum number of matches that an answer is planned for.
const MAX_MATCHES: usize = 1 << 10;

/// The public facts of a search. Owner and server make the same [`Plan`](super::Plan) from them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Coordinates of a vector, 1 to 4096.
    pub dimension: usize,
    /// Maximum number of records that the index will hold, including records appended later: 1 to
    /// `2^26`.
    pub rows: usize,
    /// Measure of similarity of vectors.
    pub metric: Metric,
    /// The parts of a search that the server sees.
    pub mode: Mode,
    /// The answer of the server. A search planned for matches also answers scores and counts.
    pub answer: Answer,
}

/// Measure of similarity of vectors.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Metric {
    /// The cosine of the angle between vectors, -1 to 1. Their lengths do not matter.
    Cosine,
    /// The inner product of vectors.
    InnerProduct {
        /// Largest Euclidean norm of a vector of the index.
        largest: f64,
        /// Largest Euclidean norm of a query.
        largest_query: f64,
    },
    /// The Euclidean distance between vectors.
    Euclidean {
        /// Largest Euclidean norm of a vector of the index or of a query.
        largest: f64,
    },
}

/// The parts of a search that the server sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// The server has the index in the clear, and learns nothing about queries.
    PlainIndex,
    /// The server has the index and queries encrypted under one key, and learns sizes only.
    Encrypted,
    /// The server has the index encrypted, and sees queries.
    PlainQuery,
}

/// The answer of the server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Answer {
    /// The similarity of each record, for the owner to rank.
    Scores,
    /// The number of records that match.
    Count(Threshold),
    /// The rows and payloads of the records that match.
    Matches {
        /// The threshold of a match.
        threshold: Threshold,
        /// Number of matches up to which answers are complete, 1 to 1024. They are incomplete with
        /// a probability below `2^-20`.
        most: usize,
        /// Bytes of the payload of each record, 0 to 1024.
        payload: usize,
    },
}

impl Answer {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Scores => "scores",
            Self::Count(_) => "counts",
            Self::Matches { .. } => "matches",
        }
    }

    pub(super) fn threshold(&self) -> Option<Threshold> {
        match *self {
            Self::Scores => None,
            Self::Count(threshold) | Self::Matches { threshold, .. } => Some(threshold),
        }
    }
}

/// The similarity at which records match, in the unit of the [`Metric`]: a cosine or an inner
/// product of at least `at`, or a distance of at most `at`.
///
/// Answers are correct beyond `margin`. Within `margin` of `at`, a record may or may not match, or
/// its bucket of an answer is undecided.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    /// The similarity of the threshold.
    pub at: f64,
    /// Half the width of the gap around it, positive.
    pub margin: f64,
}

impl Spec {
    pub(super) fn check(&self) -> Result<()> {
        check_count("coordinates", self.dimension, 1, MAX_DIMENSION)?;
        check_count("records", self.rows, 1, MAX_ROWS)?;
        let norms = match self.metric {
            Metric::Cosine => [1.0, 1.0],
            Metric::InnerProduct { largest, largest_query } => [largest, largest_query],
            Metric::Euclidean { largest } => [largest, largest],
        };
        for found in norms {
            // Squares of norms and their inverses must be finite, too.
            if !(1e-100..=1e100).contains(&found) {
                let needed = "1e-100 to 1e100 is possible".into();
                return Err(SearchError::Number { what: "a largest norm", found, needed });
            }
        }
        if let Answer::Matches { most, payload, .. } = self.answer {
            check_count("matches", most, 1, MAX_MATCHES)?;
            check_count("bytes of payload", payload, 0, MAX_PAYLOAD)?;
        }
        self.answer.threshold().map_or(Ok(()), |t| self.metric.gap(t).map(drop))
    }

    pub(super) fn check_rows(&self, found: usize) -> Result<()> {
        check_count("records", found, 0, self.rows)
    }

    /// Returns the bytes of each payload.
    pub(super) fn payload(&self) -> usize {
        match self.answer {
            Answer::Matches { payload, .. } => payload,
            _ => 0,
        }
    }
}

impl Metric {
    /// Returns the number of coordinates that the embedding adds to a vector.
    pub(super) fn further(&self) -> usize {
        match self {
            Self::Euclidean { .. } => 2,
            Self::Cosine | Self::InnerProduct { .. } => 0,
        }
    }

    /// Returns the middle of the gap around a threshold and half its width, as inner products of
    /// embedded vectors.
    pub(super) fn gap(&self, threshold: Threshold) -> Result<(f64, f64)> {
        let Threshold { at, margin } = threshold;
        let number = |what, found, needed: String| Err(SearchError::Number { what, found, needed });
        let range = match self {
            Self::Cosine => -1.0..=1.0,
            Self::InnerProduct { largest, largest_query } => {
                -(largest * largest_query)..=largest * largest_query
            }
            Self::Euclidean { largest } => 0.0..=2.0 * largest,
        };
        let least = *range.start();
        let most = *range.end();
        if !range.contains(&at) {
            return number("a threshold", at, format!("{least} to {most} is possible"));
        }
        let widest = most - least;
        if !(margin > 0.0 && margin <= widest) {
            return number("a margin", margin, format!("above 0 and at most {widest} is possible"));
        }
        Ok(match self {
            Self::Cosine => (at, margin),
            Self::InnerProduct { largest, largest_query } => {
                (at / largest / largest_query, margin / largest / largest_query)
            }
            Self::Euclidean { .. } => {
                let [near, far] =
                    [(at - margin).max(0.0), at + margin].map(|d| self.embedded_distance(d));
                (f64::midpoint(near, far), (near - far) / 2.0)
            }
        })
    }

    /// Returns `-(d / 2 B)^2`, the inner product of embedded vectors at the distance `d`.
    fn embedded_distance(&self, distance: f64) -> f64 {
        match self {
            Self::Euclidean { largest } => -real::powi(distance / (2.0 * largest), 2),
            Self::Cosine | Self::InnerProduct { .. } => f64::NAN,
        }
    }

    /// Returns the similarity of vectors whose embeddings have this inner product: a cosine, an
    /// inner product or the square of a distance.
    pub(super) fn similarity(&self, inner: f64) -> f64 {
        match self {
            Self::Cosine => inner,
            Self::InnerProduct { largest, largest_query } => inner * largest * largest_query,
            Self::Euclidean { largest } => -inner * real::powi(2.0 * largest, 2),
        }
    }

    /// Returns whether the largest similarity is the nearest.
    pub(super) fn descends(&self) -> bool {
        !matches!(self, Self::Euclidean { .. })
    }

    /// Returns a coordinate of a vector that is short enough, but not zero.
    pub(super) fn small(&self) -> f64 {
        match self {
            Self::Cosine => 1.0,
            Self::InnerProduct { largest_query, .. } => largest_query / MAX_DIMENSION as f64,
            Self::Euclidean { largest } => largest / MAX_DIMENSION as f64,
        }
    }

    /// Embeds a vector of the index as a vector of norm at most 1.
    ///
    /// For distances, all coordinates are divided by the bound of norms. The inner product of
    /// `(k, -|k|^2 / sqrt 2, -1 / sqrt 2) / sqrt 2` and `(q, 1 / sqrt 2, |q|^2 / sqrt 2) / sqrt 2`
    /// is then `-|q - k|^2 / 4`.
    pub(super) fn embed_row(&self, row: usize, vector: &[f64]) -> Result<Vec<f64>> {
        let place = Place::Row(row);
        match *self {
            Self::Cosine => unit(place, vector),
            Self::InnerProduct { largest, .. } => scaled(place, vector, largest),
            Self::Euclidean { largest } => {
                let vector = scaled(place, vector, largest)?;
                let square = vector.iter().map(|x| x * x).sum::<f64>();
                Ok(extended(&vector, [-square, -1.0]))
            }
        }
    }

    /// Embeds a query as a vector of norm at most 1: see [`Metric::embed_row`].
    pub(super) fn embed_query(&self, vector: &[f64]) -> Result<Vec<f64>> {
        let place = Place::Query;
        match *self {
            Self::Cosine => unit(place, vector),
            Self::InnerProduct { largest_query, .. } => scaled(place, vector, largest_query),
            Self::Euclidean { largest } => {
                let vector = scaled(place, vector, largest)?;
                let square = vector.iter().map(|x| x * x).sum::<f64>();
                Ok(extended(&vector, [1.0, square]))
            }
        }
    }
}

fn check_count(what: &'static str, found: usize, least: usize, most: usize) -> Result<()> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(SearchError::Count { what, found, least, most })
}

fn extended(vector: &[f64], further: [f64; 2]) -> Vec<f64> {
    let root = 0.5f64.sqrt();
    let further = further.map(|x| x * root);
    vector.iter().chain(&further).map(|x| x * root).collect()
}

/// Returns the largest magnitude of the coordinates. All of them must be finite.
fn largest(place: Place, vector: &[f64]) -> Result<f64> {
    if let Some(index) = vector.iter().position(|x| !x.is_finite()) {
        let problem =
            format!("coordinate {index} is {}; replace it by a finite number", vector[index]);
        return Err(SearchError::Vector { place, problem });
    }
    Ok(vector.iter().fold(0.0, |most: f64, x| most.max(x.abs())))
}

fn unit(place: Place, vector: &[f64]) -> Result<Vec<f64>> {
    let largest = largest(place, vector)?;
    if largest == 0.0 {
        let problem = "the zero vector has no direction; leave it out".into();
        return Err(SearchError::Vector { place, problem });
    }
    // Divided first, since squares of numbers near either end of their range overflow or vanish.
    let vector: Vec<f64> = vector.iter().map(|x| x / largest).collect();
    let norm = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    Ok(vector.iter().map(|x| x / norm).collect())
}

fn scaled(place: Place, vector: &[f64], most: f64) -> Result<Vec<f64>> {
    largest(place, vector)?;
    let found = vector.iter().map(|x| real::powi(x / most, 2)).sum::<f64>().sqrt() * most;
    // The slack accepts a norm that equalled the bound before rounding.
    if found.is_nan() || found > most * (1.0 + 1e-6) {
        let problem = format!(
            "its norm is {found}, but the plan is for norms of at most {most}; scale all vectors down, \
             or plan for larger norms"
        );
        return Err(SearchError::Vector { place, problem });
    }
    // A norm slightly above the bound becomes 1.
    let divisor = most.max(found);
    Ok(vector.iter().map(|x| x / divisor).collect())
}
