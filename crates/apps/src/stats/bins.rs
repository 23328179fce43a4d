//! Bins of the values of columns, which the owner of the values chooses.

use serde::{Deserialize, Serialize};
use sudare_arith::real;

use super::{Result, StatsError};

/// Integers below this in magnitude have exact numbers halfway between them.
const HALVES: f64 = 4_503_599_627_370_496.0;

/// Choice of the edges of bins.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Edges {
    /// Bins of equal width, from the smallest to the largest value.
    #[default]
    Equal,
    /// Bins with about the same number of values each.
    Quantiles,
    /// Bins whose widths grow by a constant factor, from the smallest to the largest value, which
    /// must be positive.
    Logarithmic,
    /// These edges, ascending, one more than bins. Values below the first and above the last edge
    /// are counted in no bin.
    Given(Vec<f64>),
}

/// Bins of a column, and the numbers of values outside all bins. They stay with the owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bins {
    edges: Vec<f64>,
    below: u64,
    above: u64,
    /// True if each value is encrypted as the middle of its bin, far from every edge.
    centred: bool,
}

impl Bins {
    /// Chooses the bins of a column with these values, at least one, all finite. In columns of
    /// integers, chosen edges lie halfway between integers. Bins of equal width then end beyond the
    /// largest value.
    ///
    /// # Errors
    /// [`StatsError::Edges`] for given edges of another number or order, and for logarithmic ones
    /// of a column with a value that is not positive.
    pub fn of(column: &str, values: &[f64], bins: usize, edges: &Edges) -> Result<Self> {
        let refused =
            |problem: String| Err(StatsError::Edges { column: column.to_owned(), problem });
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (Some(&low), Some(&high)) = (sorted.first(), sorted.last()) else {
            return refused("it has no values".into());
        };
        let whole = values.iter().all(|x| x.fract() == 0.0 && x.abs() < HALVES);
        let mut edges = match edges {
            Edges::Given(edges) => {
                let ascend = edges.windows(2).all(|pair| pair[0] < pair[1]);
                if edges.len() != bins + 1 || !ascend || !edges.iter().all(|e| e.is_finite()) {
                    return refused(format!(
                        "found {} edges, but {bins} bins need {} finite, ascending edges",
                        edges.len(),
                        bins + 1
                    ));
                }
                return Ok(Self::between(edges.clone(), &sorted));
            }
            Edges::Logarithmic if low <= 0.0 => {
                return refused(format!(
                    "its smallest value is {low}, but logarithmic ones need positive values: \
                     choose bins of equal width"
                ));
            }
            // An integer width, so that every bin has the same number of integers.
            Edges::Equal if whole => {
                let width = ((high - low + 1.0) / bins as f64).ceil();
                let edge = |k| low - 0.5 + width * k as f64;
                return Ok(Self::between((0..=bins).map(edge).collect(), &sorted));
            }
            Edges::Equal => (0..=bins).map(|k| part(low, high, k, bins)).collect(),
            Edges::Quantiles => quantiles(&sorted, bins),
            Edges::Logarithmic => {
                let ends = (real::ln(low), real::ln(high));
                // The exponential of a logarithm may be rounded beyond the ends.
                let edge = |k| real::exp(part(ends.0, ends.1, k, bins)).clamp(low, high);
                (0..=bins).map(edge).collect::<Vec<f64>>()
            }
        };
        if let [first, .., last] = &mut edges[..] {
            // Rounding must not move the ends, or the extreme values would be in no bin.
            *first = low;
            *last = high;
        }
        if whole {
            let halves = edges.iter().map(|edge| edge.floor() + 0.5);
            edges = halves.collect();
            edges[0] = low - 0.5;
        }
        Ok(Self::between(edges, &sorted))
    }

    /// Builds bins from edges and ascending values.
    fn between(edges: Vec<f64>, sorted: &[f64]) -> Self {
        let low = edges[0];
        let high = edges[edges.len() - 1];
        let below = sorted.partition_point(|&x| x < low) as u64;
        let above = (sorted.len() - sorted.partition_point(|&x| x <= high)) as u64;
        Self { edges, below, above, centred: true }
    }

    /// Returns bins of equal width about a centre, for a table that was encrypted without bins. Its
    /// values may be near an edge.
    pub(super) fn about(scaling: (f64, f64), bins: usize) -> Self {
        let (centre, half_range) = scaling;
        let low = centre - half_range;
        let high = centre + half_range;
        let edges = (0..=bins).map(|k| part(low, high, k, bins)).collect();
        Self { edges, below: 0, above: 0, centred: false }
    }

    /// Returns the edges, ascending, one more than bins. With [`Edges::Quantiles`], neighbouring
    /// edges may be equal where many values are equal.
    #[must_use]
    pub fn edges(&self) -> &[f64] {
        &self.edges
    }

    /// Returns the number of values below the first edge.
    #[must_use]
    pub fn below(&self) -> u64 {
        self.below
    }

    /// Returns the number of values above the last edge.
    #[must_use]
    pub fn above(&self) -> u64 {
        self.above
    }

    pub(super) fn is_centred(&self) -> bool {
        self.centred
    }

    /// Returns the bin of a value. A bin includes its lower edge, and the last one also includes
    /// its upper edge. A value outside all bins gets the first or the last one.
    pub(super) fn place(&self, x: f64) -> usize {
        let last = self.edges.len().saturating_sub(2);
        self.edges.partition_point(|&edge| edge <= x).saturating_sub(1).min(last)
    }
}

/// Returns the end of part `k` of `parts` of an interval. The length of the interval may overflow.
fn part(low: f64, high: f64, k: usize, parts: usize) -> f64 {
    let step = (high - low) / parts as f64;
    if k == parts {
        high
    } else if step.is_finite() {
        // Rounding may exceed the end of an interval that contains few floating-point numbers.
        (low + step * k as f64).min(high)
    } else {
        let share = k as f64 / parts as f64;
        low * (1.0 - share) + high * share
    }
}

/// Returns the quantiles that divide sorted values into `parts` parts, linear between values.
fn quantiles(sorted: &[f64], parts: usize) -> Vec<f64> {
    let last = sorted.len() - 1;
    let quantile = |k: usize| {
        let place = (k * last) as f64 / parts as f64;
        let floor = place.floor() as usize;
        let rest = place.fract();
        let a = sorted[floor];
        let b = sorted[(floor + 1).min(last)];
        // Neither product overflows, and equal values yield themselves.
        if rest == 0.0 || a == b { a } else { a * (1.0 - rest) + b * rest }
    };
    (0..=parts).map(quantile).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bins(values: &[f64], count: usize, edges: &Edges) -> Bins {
        Bins::of("x", values, count, edges).unwrap()
    }

    #[test]
    fn edges_of_whole_numbers_lie_between_them() {
        let ages: Vec<f64> = (14..=45).map(f64::from).collect();
        let found = bins(&ages, 6, &Edges::Equal);
        assert_eq!(found.edges(), [13.5, 19.5, 25.5, 31.5, 37.5, 43.5, 49.5]);
        assert_eq!([14.0, 19.0, 20.0, 45.0].map(|x| found.place(x)), [0, 0, 1, 5]);
        // Fewer numbers than bins.
        assert_eq!(bins(&[0.0, 1.0], 3, &Edges::Equal).edges(), [-0.5, 0.5, 1.5, 2.5]);
        assert_eq!(bins(&[7.0], 2, &Edges::Equal).edges(), [6.5, 7.5, 8.5]);
        assert_eq!(bins(&ages, 2, &Edges::Quantiles).edges(), [13.5, 29.5, 45.5]);
        let decades = [1.0, 10.0, 100.0, 1000.0];
        assert_eq!(bins(&decades, 3, &Edges::Logarithmic).edges()[0], 0.5);
        assert_eq!(bins(&decades, 3, &Edges::Logarithmic).edges()[3], 1000.5);
    }

    #[test]
    fn edges_of_other_numbers() {
        let x = [0.25, 0.5, 2.0, 4.25];
        assert_eq!(bins(&x, 4, &Edges::Equal).edges(), [0.25, 1.25, 2.25, 3.25, 4.25]);
        // numpy.quantile(x, [0, 1/3, 2/3, 1])
        assert_eq!(bins(&x, 3, &Edges::Quantiles).edges(), [0.25, 0.5, 2.0, 4.25]);
        assert_eq!(bins(&x, 2, &Edges::Quantiles).edges(), [0.25, 1.25, 4.25]);
        let found = bins(&[0.5, 4.5, 40.5], 2, &Edges::Logarithmic);
        assert!((found.edges()[1] - 4.5).abs() < 1e-12 && found.edges()[2] == 40.5);
        let given = bins(&x, 2, &Edges::Given(vec![0.5, 1.0, 2.0]));
        assert_eq!((given.below(), given.above()), (1, 1));
        assert_eq!(x.map(|x| given.place(x)), [0, 0, 1, 1]);
        let tied = bins(&[0.5; 5], 3, &Edges::Quantiles);
        assert_eq!((tied.edges(), tied.place(0.5)), (&[0.5; 4][..], 2));
    }

    #[test]
    fn ranges_beyond_the_largest_number_have_edges() {
        let found = bins(&[-1e308, 0.0, 1e308], 4, &Edges::Equal);
        assert!((found.edges()[1] / -5e307 - 1.0).abs() < 1e-12, "{found:?}");
        assert_eq!([-1e308, 0.0, 1e308].map(|x| found.place(x)), [0, 2, 3]);
        let found = bins(&[-1e308, 1e308], 3, &Edges::Quantiles);
        assert!(found.edges().windows(2).all(|pair| pair[0] < pair[1]), "{found:?}");
    }

    #[test]
    fn impossible_edges_are_refused() {
        for edges in [vec![0.0, 1.0], vec![0.0, 2.0, 1.0], vec![0.0, 1.0, f64::INFINITY]] {
            let refused = Bins::of("x", &[1.0], 2, &Edges::Given(edges)).unwrap_err();
            assert!(refused.to_string().contains("2 bins need 3"), "{refused}");
        }
        let refused = Bins::of("dose", &[0.0, 1.0], 2, &Edges::Logarithmic).unwrap_err();
        assert!(refused.to_string().contains("\"dose\""), "{refused}");
    }
}
