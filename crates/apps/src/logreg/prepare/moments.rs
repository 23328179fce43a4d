//! Means and covariances of columns.

use super::{CONSTANT, SMALLEST};
use crate::{Error, Result};
use core::ops::Range;
use nalgebra::{DMatrix, DMatrixView};
use sudare_arith::par;
use sudare_table::Table;

/// Number of rows that change coordinates together.
pub(super) const BLOCK: usize = 512;

/// Maximum number of parts of a table whose products are summed in parallel, and of values in all
/// their sums.
// Fixed, so that sums do not depend on the number of cores of a machine.
const PARTS: usize = 16;
// 128 MiB of sums.
const PART_VALUES: usize = 1 << 24;

/// Means, spreads and correlations of the columns of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    /// Number of rows.
    pub rows: usize,
    /// The weighted mean of each column.
    pub centers: Vec<f64>,
    /// The unweighted standard deviation of each column, 0 for a constant column.
    pub deviations: Vec<f64>,
    /// Weighted covariances of columns divided by their deviations, row-major.
    pub correlations: Vec<f64>,
}

impl Moments {
    /// Maximum number of columns whose correlations are computed. They take 128 MiB.
    pub const MAX_COLUMNS: usize = 4096;

    /// Computes the moments of a table whose rows are weighted by class, and by their own weights
    /// if they have some. Deviations are not weighted by class.
    ///
    /// It makes two passes, over a block of rows at a time.
    ///
    /// # Errors
    /// [`Error::TooManyToCorrelate`].
    pub fn of(table: &Table, row_weights: &[f64]) -> Result<Self> {
        let rows = table.rows();
        let columns = table.features();
        if columns > Self::MAX_COLUMNS {
            let found = columns;
            let most = Self::MAX_COLUMNS;
            return Err(Error::TooManyToCorrelate { found, most });
        }
        let weights = Weights::new(table, row_weights);
        let units = units(table);
        let parts = parts(rows, columns);
        // Means of numbers of magnitude at most 1.
        let sums = par::map(parts.clone(), |part| {
            let mut sums = (vec![0.0; columns], vec![0.0; columns], 0.0);
            for i in part {
                let own = weights.own(i);
                let c = weights.of(i);
                for (j, (x, unit)) in row(table, i).iter().zip(&units).enumerate() {
                    sums.0[j] += own * (x / unit);
                    sums.1[j] += c * (x / unit);
                }
                sums.2 += c;
            }
            sums
        });
        let weight: f64 = sums.iter().map(|part| part.2).sum();
        // The own weights have a mean of 1.
        let means = |over: f64, of: fn(&ColumnSums) -> &[f64]| -> Vec<f64> {
            let sum = |j: usize| sums.iter().map(|part| of(part)[j]).sum::<f64>();
            (0..columns).map(|j| sum(j) / over).collect()
        };
        let plain = means(rows as f64, |part| &part.0);
        let weighted = means(weight, |part| &part.1);
        let products = par::map(parts, |part| {
            let mut squares = vec![0.0; columns];
            let mut products = DMatrix::zeros(columns, columns);
            for block in blocks(part) {
                let mut near = Vec::with_capacity(block.len() * columns);
                let mut heavy = Vec::with_capacity(block.len() * columns);
                for i in block.clone() {
                    let own = weights.own(i);
                    let c = weights.of(i);
                    for (j, (x, unit)) in row(table, i).iter().zip(&units).enumerate() {
                        let x = x / unit;
                        squares[j] += own * ((x - plain[j]) * (x - plain[j]));
                        near.push(x - weighted[j]);
                        heavy.push(c * (x - weighted[j]));
                    }
                }
                let near = DMatrixView::from_slice(&near, columns, block.len());
                let heavy = DMatrixView::from_slice(&heavy, columns, block.len());
                products.gemm(1.0, &heavy, &near.transpose(), 1.0);
            }
            (squares, products)
        });
        let mut all = DMatrix::zeros(columns, columns);
        products.iter().for_each(|(_, part)| all += part);
        let deviation = |j: usize| {
            let squares: f64 = products.iter().map(|(squares, _)| squares[j]).sum();
            let deviation = (squares / rows as f64).sqrt();
            if deviation < CONSTANT || deviation * units[j] < SMALLEST { 0.0 } else { deviation }
        };
        let in_units: Vec<f64> = (0..columns).map(deviation).collect();
        let inverse: Vec<f64> =
            in_units.iter().map(|&d| if d > 0.0 { 1.0 / d } else { 0.0 }).collect();
        let correlations = (0..columns * columns).map(|at| {
            let i = at / columns;
            let j = at % columns;
            // From one triangle, so that rounding leaves the matrix symmetric.
            all[(i.max(j), i.min(j))] / weight * inverse[i] * inverse[j]
        });
        let scaled = |values: &[f64]| values.iter().zip(&units).map(|(x, u)| x * u).collect();
        let centers = scaled(&weighted);
        let deviations = scaled(&in_units);
        let correlations = correlations.collect();
        Ok(Self { rows, centers, deviations, correlations })
    }
}

/// Sums of the values of each column, unweighted and weighted, and the sum of the weights.
type ColumnSums = (Vec<f64>, Vec<f64>, f64);

/// Returns a power of two for each column that is at least its largest magnitude. It is close
/// enough that squares of quotients neither overflow nor vanish.
pub(super) fn units(table: &Table) -> Vec<f64> {
    let largest = largest(table, &vec![0.0; table.features()]);
    let unit = |&largest: &f64| match largest {
        0.0 => 1.0,
        // Twice the power of two below the value. Clamped, it is neither subnormal nor infinite.
        _ => f64::from_bits((largest.to_bits() >> 52).clamp(1, 2045) << 52) * 2.0,
    };
    largest.iter().map(unit).collect()
}

/// Returns the largest distance of a value of each column from its center.
pub(super) fn largest(table: &Table, centers: &[f64]) -> Vec<f64> {
    let of_parts = par::map(parts(table.rows(), 1), |part| {
        let mut largest = vec![0.0_f64; table.features()];
        for i in part {
            let row = row(table, i).iter().zip(centers);
            largest.iter_mut().zip(row).for_each(|(most, (x, c))| *most = most.max((x - c).abs()));
        }
        largest
    });
    let mut all = vec![0.0; table.features()];
    for part in of_parts {
        all.iter_mut().zip(part).for_each(|(all, part)| *all = f64::max(*all, part));
    }
    all
}

pub(super) fn row(table: &Table, i: usize) -> &[f64] {
    let columns = table.features();
    &table.values()[i * columns..][..columns]
}

/// Weights of rows.
pub(super) struct Weights<'a> {
    members: &'a [u32],
    of_classes: &'a [f64],
    of_rows: Option<&'a [f64]>,
}

impl<'a> Weights<'a> {
    pub(super) fn new(table: &'a Table, of_classes: &'a [f64]) -> Self {
        let members = table.members().unwrap_or_default();
        Self { members, of_classes, of_rows: table.row_weights() }
    }

    /// Returns the weight that a row has by itself.
    pub(super) fn own(&self, row: usize) -> f64 {
        self.of_rows.and_then(|weights| weights.get(row)).copied().unwrap_or(1.0)
    }

    /// Returns the weight of a row, by itself and by its class.
    pub(super) fn of(&self, row: usize) -> f64 {
        let class = self.members.get(row).map(|&class| class as usize);
        let of_class = class.and_then(|class| self.of_classes.get(class)).copied().unwrap_or(1.0);
        self.own(row) * of_class
    }
}

/// Returns the parts of rows that are summed separately. They do not depend on the number of
/// threads.
pub(super) fn parts(rows: usize, columns: usize) -> Vec<Range<usize>> {
    let most = (PART_VALUES / columns.pow(2).max(1)).clamp(1, PARTS);
    let size = rows.div_ceil(most).next_multiple_of(BLOCK);
    (0..rows).step_by(size).map(|start| start..rows.min(start + size)).collect()
}

pub(super) fn blocks(part: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = part.end;
    part.step_by(BLOCK).map(move |start| start..end.min(start + BLOCK))
}
