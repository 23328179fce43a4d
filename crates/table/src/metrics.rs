//! Quality of real scores for classes. The metrics of separation are accuracy, the ROC curve and
//! the area under it, and the Kolmogorov–Smirnov statistic. The metrics of the scores'
//! probabilities are logarithmic loss, Brier score and calibration.
//!
//! All counts are exact integers, so the only rounding is the final division.

use serde::Serialize;
use std::cmp::Ordering;
use sudare_arith::real;

/// Reason why a metric is undefined.
#[derive(
    Debug, Clone, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames,
)]
#[non_exhaustive]
pub enum MetricError {
    /// Scores and labels differ in number.
    #[error("found {scores} scores for {labels} labels; pass one score for each label")]
    Length {
        /// Number of scores.
        scores: usize,
        /// Number of labels.
        labels: usize,
    },
    /// There are no scores.
    #[error("there are no scores; a metric needs at least one")]
    Empty,
    /// A score is NaN.
    #[error("the score of row {row} is not a number; check the model's weights and the row")]
    NotANumber {
        /// Row of the score, counted from 0.
        row: usize,
    },
    /// All labels are the same.
    #[error("found {positives} positive and {negatives} negative rows; pass rows of both classes")]
    OneClass {
        /// Rows with a true label.
        positives: usize,
        /// Rows with a false label.
        negatives: usize,
    },
}

/// Quality of the scores of rows whose classes are known.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Quality {
    /// Number of rows.
    pub rows: usize,
    /// Fraction of the rows in the largest class: the accuracy of always predicting it.
    pub largest_class: f64,
    /// Fraction of the rows whose class has the largest score.
    pub accuracy: f64,
    /// Area under the ROC curve. For more than two classes, it is the mean over classes, each
    /// against all others, by its probability. `None` if a class has no rows.
    pub auc: Option<f64>,
    /// Kolmogorov–Smirnov statistic of two classes. `None` for more classes, or if a class has no
    /// rows.
    pub ks: Option<f64>,
    /// Mean of `-ln p` for the probability `p` of the class of a row.
    pub log_loss: f64,
    /// Mean squared distance of the probabilities from 1 for the class of a row and from 0 for
    /// others. For two classes, the distance of one of them.
    pub brier: f64,
    /// Mean distance between predicted probabilities and frequencies, over [`Quality::BINS`] bins
    /// of equal numbers of rows. The predicted class counts, or for two classes the second one. In
    /// each bin, the fraction of its rows is compared to the mean of its probabilities.
    pub calibration_error: f64,
}

impl Quality {
    /// Number of bins of [`Quality::calibration_error`].
    pub const BINS: usize = 10;

    /// Measures the quality of scores. For two classes, a row has one score, for the second class.
    /// For more classes, a row has a score for each, and their softmax is the probability.
    /// `members` are the classes of the rows, counted from 0.
    ///
    /// # Errors
    /// [`MetricError::Length`], [`MetricError::Empty`] or [`MetricError::NotANumber`].
    pub fn of(scores: &[Vec<f64>], members: &[u32]) -> Result<Self, MetricError> {
        let rows = members.len();
        for scores in scores {
            // Labels only lend their number to the check.
            check(scores, &vec![false; rows])?;
        }
        let classes = if scores.len() == 1 { 2 } else { scores.len() };
        if scores.is_empty() || members.iter().any(|&class| class as usize >= classes) {
            return Err(MetricError::Length { scores: scores.len(), labels: classes });
        }
        let mut counts = vec![0_usize; classes];
        members.iter().for_each(|&class| counts[class as usize] += 1);
        let largest = counts.iter().copied().max().unwrap_or(0);
        let probabilities = probabilities(scores);
        let right = |row: usize| named(scores, row) == members[row] as usize;
        let is = |class: usize| -> Vec<bool> {
            members.iter().map(|&member| member as usize == class).collect()
        };
        let (auc, ks) = match scores {
            [scores] => (known(auc(scores, &is(1)))?, known(ks(scores, &is(1)))?),
            _ => {
                // A raw score says little without the scores of the other classes of its row.
                let of_class = |class: usize| known(auc(&probabilities[class], &is(class)));
                let all: Option<Vec<f64>> = (0..classes).map(of_class).collect::<Result<_, _>>()?;
                (all.map(|all| all.iter().sum::<f64>() / classes as f64), None)
            }
        };
        let log_loss = match scores {
            [scores] => log_loss(scores, &is(1))?,
            _ => {
                let own = |row: usize| -log_softmax(scores, row, members[row] as usize);
                (0..rows).map(own).sum::<f64>() / rows as f64
            }
        };
        let distance = |class: usize, row: usize| {
            let truth = if members[row] as usize == class { 1.0 } else { 0.0 };
            real::powi(probabilities[class][row] - truth, 2)
        };
        // For two classes both distances are equal, so one counts.
        let counted = if scores.len() == 1 { 1..2 } else { 0..classes };
        let brier: f64 = counted
            .flat_map(|c| (0..rows).map(move |row| (c, row)))
            .map(|(class, row)| distance(class, row))
            .sum();
        let stated: Vec<(f64, bool)> = (0..rows)
            .map(|row| match scores {
                [_] => (probabilities[1][row], members[row] == 1),
                _ => (probabilities[named(scores, row)][row], right(row)),
            })
            .collect();
        Ok(Self {
            rows,
            largest_class: largest as f64 / rows as f64,
            accuracy: (0..rows).filter(|&row| right(row)).count() as f64 / rows as f64,
            auc,
            ks,
            log_loss,
            brier: brier / rows as f64,
            calibration_error: calibration_error(stated),
        })
    }
}

/// Returns the class of a row with the largest score, the first of equal ones. A single score of 0
/// predicts the first class.
#[must_use]
pub fn named(scores: &[Vec<f64>], row: usize) -> usize {
    match scores {
        [scores] => usize::from(scores[row] > 0.0),
        _ => (1..scores.len()).fold(0, |best, class| {
            if scores[class][row] > scores[best][row] { class } else { best }
        }),
    }
}

/// Returns the probability of each class of each row. A single score is the score of the second of
/// two classes, and its sigmoid is the probability. Several scores have their softmax.
#[must_use]
pub fn probabilities(scores: &[Vec<f64>]) -> Vec<Vec<f64>> {
    match scores {
        [scores] => {
            // Where `exp(-s)` overflows to infinity, the quotient is 0, which is the limit.
            let second: Vec<f64> = scores.iter().map(|s| 1.0 / (1.0 + real::exp(-s))).collect();
            vec![second.iter().map(|p| 1.0 - p).collect(), second]
        }
        _ => {
            let rows = scores.first().map_or(0, Vec::len);
            let of_class = |class: usize| {
                (0..rows).map(|row| real::exp(log_softmax(scores, row, class))).collect()
            };
            (0..scores.len()).map(of_class).collect()
        }
    }
}

fn log_softmax(scores: &[Vec<f64>], row: usize, class: usize) -> f64 {
    // The largest exponent becomes 0, so that no exponential overflows.
    let largest = scores.iter().map(|of_class| of_class[row]).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = scores.iter().map(|of_class| real::exp(of_class[row] - largest)).sum();
    scores[class][row] - largest - real::ln(sum)
}

/// Returns `None` if a class that the metric needs is missing.
fn known(metric: Result<f64, MetricError>) -> Result<Option<f64>, MetricError> {
    match metric {
        Err(MetricError::OneClass { .. }) => Ok(None),
        other => other.map(Some),
    }
}

/// Returns the calibration error of pairs of a probability and its outcome.
fn calibration_error(mut stated: Vec<(f64, bool)>) -> f64 {
    stated.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let rows = stated.len();
    // At most one bin for each row, so that no bin is empty.
    let bins = Quality::BINS.min(rows);
    let of_bin = |bin: usize| {
        // Integer boundaries put every row into exactly one bin.
        let rows = &stated[bin * rows / bins..(bin + 1) * rows / bins];
        let predicted: f64 = rows.iter().map(|(probability, _)| probability).sum();
        let observed = rows.iter().filter(|(_, truth)| *truth).count() as f64;
        // Not divided by the rows of the bin, so the sum over bins is weighted by them.
        (observed - predicted).abs()
    };
    (0..bins).map(of_bin).sum::<f64>() / rows as f64
}

/// Returns the fraction of rows whose label is true exactly if the score is above 0.
///
/// A score of 0 predicts false.
///
/// # Errors
/// [`MetricError::Length`], [`MetricError::Empty`] or [`MetricError::NotANumber`].
pub fn accuracy(scores: &[f64], labels: &[bool]) -> Result<f64, MetricError> {
    check(scores, labels)?;
    let right = scores.iter().zip(labels).filter(|&(&score, &label)| (score > 0.0) == label);
    Ok(right.count() as f64 / scores.len() as f64)
}

/// Returns the mean of `-ln p`, where `p` is the probability of the label by its score:
/// `sigmoid(score)` for a true label and `sigmoid(-score)` for a false one. Logistic regression
/// minimises this mean.
///
/// # Errors
/// [`MetricError::Length`], [`MetricError::Empty`] or [`MetricError::NotANumber`].
pub fn log_loss(scores: &[f64], labels: &[bool]) -> Result<f64, MetricError> {
    check(scores, labels)?;
    let loss = |(&score, &label): (&f64, &bool)| {
        let against = if label { -score } else { score };
        // `ln(1 + exp(against))`, without overflow.
        against.max(0.0) + real::ln_1p(real::exp(-against.abs()))
    };
    Ok(scores.iter().zip(labels).map(loss).sum::<f64>() / scores.len() as f64)
}

/// Returns the ROC curve. For falling thresholds, its points are the fractions of negative and of
/// positive rows that score at or above the threshold. It runs from `[0, 0]` to `[1, 1]`, with one
/// corner for each different score. Time O(n log n).
///
/// # Errors
/// [`MetricError`]; both classes must occur.
pub fn roc(scores: &[f64], labels: &[bool]) -> Result<Vec<[f64; 2]>, MetricError> {
    let ranking = Ranking::new(scores, labels)?;
    let mut negatives = 0;
    let mut positives = 0;
    let corner = |group: &Group| {
        negatives += group.negatives;
        positives += group.positives;
        [negatives as f64 / ranking.negatives as f64, positives as f64 / ranking.positives as f64]
    };
    Ok(core::iter::once([0.0, 0.0]).chain(ranking.groups.iter().rev().map(corner)).collect())
}

/// Returns the area under the ROC curve: the probability that a random positive row scores above a
/// random negative one, ties counted half (the Mann-Whitney statistic). Time O(n log n).
///
/// # Errors
/// [`MetricError`]; both classes must occur.
pub fn auc(scores: &[f64], labels: &[bool]) -> Result<f64, MetricError> {
    let ranking = Ranking::new(scores, labels)?;
    // Doubled, so that a tie counts 1 instead of a half.
    let mut doubled_wins = 0_u128;
    let mut below = 0_u128;
    for group in &ranking.groups {
        let positives = group.positives as u128;
        let negatives = group.negatives as u128;
        doubled_wins += positives * (2 * below + negatives);
        below += negatives;
    }
    Ok(doubled_wins as f64 / (2.0 * ranking.pairs()))
}

/// Returns the Kolmogorov–Smirnov statistic: the largest difference, over all thresholds, between
/// the fractions of negative and of positive rows that score at or below the threshold. It is in
/// [0, 1]. Credit scoring reports it times 100. Time O(n log n).
///
/// # Errors
/// [`MetricError`]; both classes must occur.
pub fn ks(scores: &[f64], labels: &[bool]) -> Result<f64, MetricError> {
    let ranking = Ranking::new(scores, labels)?;
    let mut positives = 0_u128;
    let mut negatives = 0_u128;
    let mut largest = 0_u128;
    for group in &ranking.groups {
        positives += group.positives as u128;
        negatives += group.negatives as u128;
        let difference =
            // Fractions over a common denominator, so that only the final division rounds.
            (positives * ranking.negatives as u128).abs_diff(negatives * ranking.positives as u128);
        largest = largest.max(difference);
    }
    Ok(largest as f64 / ranking.pairs())
}

/// Rows by increasing score, equal scores together.
struct Ranking {
    groups: Vec<Group>,
    positives: usize,
    negatives: usize,
}

#[derive(Default)]
struct Group {
    positives: usize,
    negatives: usize,
}

impl Ranking {
    fn new(scores: &[f64], labels: &[bool]) -> Result<Self, MetricError> {
        check(scores, labels)?;
        let positives = labels.iter().filter(|&&label| label).count();
        let negatives = labels.len() - positives;
        if positives == 0 || negatives == 0 {
            return Err(MetricError::OneClass { positives, negatives });
        }
        let mut rows: Vec<(f64, bool)> =
            scores.iter().copied().zip(labels.iter().copied()).collect();
        // 0 and -0 are equal here, unlike in `total_cmp`. `check` has refused NaN.
        rows.sort_unstable_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal));
        let groups = rows
            .chunk_by(|a, b| a.0 == b.0)
            .map(|group| {
                let positives = group.iter().filter(|row| row.1).count();
                Group { positives, negatives: group.len() - positives }
            })
            .collect();
        Ok(Self { groups, positives, negatives })
    }

    fn pairs(&self) -> f64 {
        (self.positives as u128 * self.negatives as u128) as f64
    }
}

fn check(scores: &[f64], labels: &[bool]) -> Result<(), MetricError> {
    if scores.len() != labels.len() {
        return Err(MetricError::Length { scores: scores.len(), labels: labels.len() });
    }
    if scores.is_empty() {
        return Err(MetricError::Empty);
    }
    match scores.iter().position(|score| score.is_nan()) {
        Some(row) => Err(MetricError::NotANumber { row }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Compares two classes with the metrics of this module, and with sums written out by hand.
    #[test]
    fn quality_of_two_classes() {
        let scores = vec![vec![-2.0, -1.0, 0.5, 1.0, 3.0]];
        let members = [0, 1, 0, 1, 1];
        let labels = members.map(|class| class == 1);
        let found = Quality::of(&scores, &members).unwrap();
        assert_eq!((found.rows, found.largest_class, found.accuracy), (5, 0.6, 0.6));
        assert_eq!(found.auc, Some(auc(&scores[0], &labels).unwrap()));
        assert_eq!(found.ks, Some(ks(&scores[0], &labels).unwrap()));
        assert_eq!(found.log_loss, log_loss(&scores[0], &labels).unwrap());
        let p = scores[0].iter().map(|s: &f64| 1.0 / (1.0 + (-s).exp()));
        let distances = p.zip(labels).map(|(p, label)| p - f64::from(u8::from(label)));
        let (squares, sizes): (Vec<f64>, Vec<f64>) = distances.map(|d| (d * d, d.abs())).unzip();
        assert!((found.brier - squares.iter().sum::<f64>() / 5.0).abs() < 1e-15);
        // A bin for each row.
        assert!((found.calibration_error - sizes.iter().sum::<f64>() / 5.0).abs() < 1e-15);
        let one = Quality::of(&scores, &[1; 5]).unwrap();
        assert_eq!((one.auc, one.ks, one.largest_class), (None, None, 1.0));
    }

    /// Three classes, against figures of scikit-learn 1.9.1: `accuracy_score`, `roc_auc_score` with
    /// `multi_class="ovr"` and `log_loss` of the softmax.
    #[test]
    fn quality_of_three_classes() {
        let scores = vec![
            vec![2.0, 0.1, -1.0, 0.0, 0.3, 1.5],
            vec![0.0, 0.3, 0.5, 1.0, 0.2, -0.5],
            vec![-1.0, 0.2, 1.5, 0.4, 0.1, 0.9],
        ];
        let members = [0, 1, 2, 1, 2, 0];
        let found = Quality::of(&scores, &members).unwrap();
        let expected = [5.0 / 6.0, 0.9166666666666666, 0.6528550343607954, 0.3606449963825303];
        let found = [found.accuracy, found.auc.unwrap(), found.log_loss, found.brier];
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        let sums = probabilities(&scores);
        assert!(
            (0..6).all(|row| { (sums.iter().map(|p| p[row]).sum::<f64>() - 1.0).abs() < 1e-15 })
        );
    }

    #[test]
    fn impossible_qualities_are_refused() {
        let nan = Quality::of(&[vec![f64::NAN]], &[0]);
        assert_eq!(nan, Err(MetricError::NotANumber { row: 0 }));
        assert_eq!(Quality::of(&[vec![]], &[]), Err(MetricError::Empty));
        let short = Quality::of(&[vec![1.0]], &[0, 1]);
        assert_eq!(short, Err(MetricError::Length { scores: 1, labels: 2 }));
        assert!(Quality::of(&[vec![1.0]], &[2]).is_err());
        assert!(Quality::of(&[], &[]).is_err());
    }

    /// All pairs.
    fn auc_by_pairs(scores: &[f64], labels: &[bool]) -> f64 {
        let mut wins = 0.0;
        let mut pairs = 0.0;
        for (a, _) in scores.iter().zip(labels).filter(|row| *row.1) {
            for (b, _) in scores.iter().zip(labels).filter(|row| !*row.1) {
                pairs += 1.0;
                wins += if a > b {
                    1.0
                } else if a == b {
                    0.5
                } else {
                    0.0
                };
            }
        }
        wins / pairs
    }

    /// Both distribution functions at every score.
    fn ks_by_thresholds(scores: &[f64], labels: &[bool]) -> f64 {
        let share = |class: bool, threshold: f64| {
            let of_class = || scores.iter().zip(labels).filter(move |row| *row.1 == class);
            of_class().filter(|row| *row.0 <= threshold).count() as f64 / of_class().count() as f64
        };
        scores.iter().map(|&t| (share(false, t) - share(true, t)).abs()).fold(0.0, f64::max)
    }

    /// The four-row example of scikit-learn's `roc_auc_score` documentation.
    #[test]
    fn textbook_example() {
        let scores = [0.1, 0.4, 0.35, 0.8];
        let labels = [false, false, true, true];
        assert_eq!(auc(&scores, &labels), Ok(0.75));
        assert_eq!(ks(&scores, &labels), Ok(0.5));
        assert_eq!(accuracy(&scores, &labels), Ok(0.5));
    }

    #[test]
    fn perfect_reversed_and_useless_rankings() {
        let labels = [false, false, false, true, true];
        let up = [-2.0, -1.0, -0.5, 0.5, f64::INFINITY];
        let down = up.map(|score: f64| -score);
        assert_eq!((auc(&up, &labels), ks(&up, &labels)), (Ok(1.0), Ok(1.0)));
        assert_eq!((auc(&down, &labels), ks(&down, &labels)), (Ok(0.0), Ok(1.0)));
        assert_eq!(accuracy(&up, &labels), Ok(1.0));
        assert_eq!(accuracy(&down, &labels), Ok(0.0));
        let flat = [0.0, -0.0, 0.0, -0.0, 0.0];
        assert_eq!((auc(&flat, &labels), ks(&flat, &labels)), (Ok(0.5), Ok(0.0)));
        assert_eq!(accuracy(&flat, &labels), Ok(0.6));
    }

    #[test]
    fn losses_of_known_probabilities() {
        let close = |scores: &[f64], labels: &[bool], expected: f64| {
            let found = log_loss(scores, labels).unwrap();
            assert!((found - expected).abs() < 1e-15 * expected.max(1.0), "{found} {expected}");
        };
        close(&[0.0, 0.0], &[true, false], 2f64.ln());
        // Probabilities 3/4 and 1/4 of a true label.
        let odds = 3f64.ln();
        close(&[odds, odds, -odds], &[true, true, false], (4.0 / 3.0_f64).ln());
        close(&[odds, -odds], &[false, true], 4f64.ln());
        close(&[1e9, -1e9], &[false, false], 5e8);
        close(&[800.0], &[true], 0.0);
    }

    #[test]
    fn undefined_cases_are_errors() {
        assert_eq!(accuracy(&[], &[]), Err(MetricError::Empty));
        assert_eq!(auc(&[1.0], &[]), Err(MetricError::Length { scores: 1, labels: 0 }));
        assert_eq!(ks(&[1.0, f64::NAN], &[true, false]), Err(MetricError::NotANumber { row: 1 }));
        assert_eq!(
            auc(&[1.0, 2.0], &[true, true]),
            Err(MetricError::OneClass { positives: 2, negatives: 0 })
        );
    }

    proptest! {
        #[test]
        fn rankings_equal_brute_force(
            rows in prop::collection::vec((-6_i8..6, any::<bool>()), 2..60),
        ) {
            let scores: Vec<f64> = rows.iter().map(|row| f64::from(row.0) / 4.0).collect();
            let labels: Vec<bool> = rows.iter().map(|row| row.1).collect();
            prop_assume!(labels.iter().any(|&y| y) && labels.iter().any(|&y| !y));
            let area = auc(&scores, &labels).unwrap();
            prop_assert!((area - auc_by_pairs(&scores, &labels)).abs() < 1e-12);
            let curve = roc(&scores, &labels).unwrap();
            prop_assert_eq!((curve[0], *curve.last().unwrap()), ([0.0; 2], [1.0; 2]));
            let trapezoid = |pair: &[[f64; 2]]| {
                let [[x, y], [to_x, to_y]] = [pair[0], pair[1]];
                prop_assert!(x <= to_x && y <= to_y);
                Ok((to_x - x) * (y + to_y) / 2.0)
            };
            let under: f64 = curve.windows(2).map(trapezoid).sum::<Result<f64, _>>()?;
            prop_assert!((area - under).abs() < 1e-12);
            let farthest = curve.iter().map(|[x, y]| (x - y).abs()).fold(0.0, f64::max);
            let distance = ks(&scores, &labels).unwrap();
            prop_assert!((distance - farthest).abs() < 1e-12);
            prop_assert!((distance - ks_by_thresholds(&scores, &labels)).abs() < 1e-12);
        }
    }
}
