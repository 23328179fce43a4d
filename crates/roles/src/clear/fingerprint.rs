//! Recognizes a table by its rows.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use serde::{Deserialize, Serialize};
use sudare_apps::logreg::Transform;
use sudare_arith::{
    prng::{Seed, Stream},
    real,
};
use sudare_table::{Table, TableError};

/// Points at which the characteristic function is sampled.
const POINTS: usize = 4;

/// Rows prepared at a time.
const BLOCK: usize = 512;

/// Tolerated roundings of a value. They cover programs that parse decimals differently, and the
/// sums in this module.
const ROUNDINGS: f64 = 16.0;

/// Tolerance of sums beyond the effect of roundings.
const SLACK: f64 = 1e-9;

/// A fingerprint of the rows of a table and their classes: sums of the cosines of random linear
/// functions of each row, shifted by its class, times its weight.
///
/// It does not depend on the order of rows, and hardly on the last digits of values. Any other row,
/// value, class or weight changes it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint([f64; POINTS]);

/// The fingerprints of the rows of a training.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fingerprints {
    /// Fingerprint of the training rows.
    pub trained: Fingerprint,
    /// Fingerprint of the held-out rows, if there are any.
    pub held_out: Option<Fingerprint>,
}

impl Fingerprint {
    /// Returns the fingerprint of a table with classes. `shown` scales the values to about 1.
    ///
    /// # Errors
    /// [`TableError::NoTarget`] for a table without classes.
    pub fn of(table: &Table, shown: &Transform) -> Result<Self, TableError> {
        let classes = table.classes()?.len();
        let features = table.features();
        let points: [Point; POINTS] =
            core::array::from_fn(|index| Point::new(index as u64, features, classes));
        let mut sums = [0.0; POINTS];
        let blocks = table.values().chunks(BLOCK.saturating_mul(features));
        let own = table.row_weights().unwrap_or_default();
        let mut weights = own.iter().copied().chain(core::iter::repeat(1.0));
        for (block, members) in blocks.zip(table.members()?.chunks(BLOCK)) {
            let rows = shown.rows(block);
            for (row, &class) in rows.chunks_exact(shown.entries()).zip(members) {
                let weight = weights.next().unwrap_or(1.0);
                for (sum, point) in sums.iter_mut().zip(&points) {
                    *sum += weight * point.value(row, class as usize);
                }
            }
        }
        Ok(Self(sums))
    }

    /// Returns whether a table has the rows of this fingerprint. `shown` must be the transform that
    /// the fingerprint was made with.
    ///
    /// # Errors
    /// [`TableError::NoTarget`] for a table without classes.
    pub fn fits(&self, table: &Table, shown: &Transform) -> Result<bool, TableError> {
        let Self(found) = Self::of(table, shown)?;
        let columns = shown.centers().iter().zip(shown.divisors());
        // Roundings of a value are relative to its size, so far centers need more tolerance.
        let sizes: f64 = columns.map(|(center, divisor)| 1.0 + center.abs() / divisor).sum();
        let rows = table.rows() as f64;
        let tolerance = SLACK + rows * ROUNDINGS * f64::EPSILON * Point::LARGEST * (1.0 + sizes);
        Ok(self.0.iter().zip(&found).all(|(a, b)| (a - b).abs() <= tolerance))
    }
}

/// A linear function of the entries of a row, and a shift for each class.
struct Point {
    factors: Vec<f64>,
    shifts: Vec<f64>,
}

impl Point {
    /// The largest factor.
    const LARGEST: f64 = 4.0;

    fn new(index: u64, features: usize, classes: usize) -> Self {
        // Fixed, because every program must get the same numbers from a table.
        let seed = Seed::from_bytes([0; 32]);
        let between = |label, count: usize, least: f64, most: f64| -> Vec<f64> {
            let mut stream = Stream::new(&seed, label, index);
            let mut unit = || stream.next_u64() as f64 / real::exp2(64.0);
            (0..count).map(|_| least + (most - least) * unit()).collect()
        };
        // At least 1, so that a change in any column turns every point by a visible angle.
        let factors = between("factors of a fingerprint", features, 1.0, Self::LARGEST);
        let shifts = between("shifts of a fingerprint", classes, 0.0, core::f64::consts::TAU);
        Self { factors, shifts }
    }

    /// Returns the value for a row, whose first entry is 1.
    fn value(&self, row: &[f64], class: usize) -> f64 {
        let shift = self.shifts.get(class).copied().unwrap_or_default();
        let products = row.iter().skip(1).zip(&self.factors).map(|(x, factor)| x * factor);
        // Not the platform's cosine, whose last bits differ between machines.
        real::cos(shift + products.sum::<f64>())
    }
}

/// Returns the names of the columns whose centers or divisors differ between two transforms.
/// `found` is the transform of `table`, and `shown` is the known one.
#[must_use]
pub fn other_columns(table: &Table, shown: &Transform, found: &Transform) -> Vec<String> {
    const NEAR: f64 = 1e-6;
    let near = |a: f64, b: f64, divisor: f64| {
        // The first term covers summation in another order, the second decimals parsed differently.
        (a - b).abs() <= NEAR * divisor + ROUNDINGS * f64::EPSILON * a.abs()
    };
    let known = shown.centers().iter().zip(shown.divisors());
    let other = found.centers().iter().zip(found.divisors());
    let differs =
        |((center, divisor), (other_center, other_divisor)): ((&f64, &f64), (&f64, &f64))| {
            !near(*center, *other_center, *divisor) || !near(*divisor, *other_divisor, *divisor)
        };
    let pairs = table.columns().iter().zip(known.zip(other));
    pairs.filter(|(_, pair)| differs(*pair)).map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rebuilt(table: &Table, values: Vec<f64>, members: Vec<u32>) -> Table {
        let classes = table.classes().unwrap().to_vec();
        let labels = ("y".to_owned(), classes, members);
        Table::with_classes(table.columns().to_vec(), values, labels).unwrap()
    }

    #[test]
    fn rows_in_another_order_and_roundings_are_the_same() {
        for far in [0.0, 1e9] {
            let table = Table::bundled("lbw").unwrap();
            let members = table.members().unwrap().to_vec();
            let moved = table.values().iter().map(|x| x * 0.1 + far).collect();
            let table = rebuilt(&table, moved, members.clone());
            let shown = Transform::spreading(&table);
            let print = Fingerprint::of(&table, &shown).unwrap();
            let mut shuffled = table.clone();
            shuffled.shuffle(&Seed::from_bytes([1; 32]));
            assert!(print.fits(&shuffled, &shown).unwrap());
            let up = |x: &f64| if *x > 0.0 { x.next_up() } else { *x };
            let rounded = rebuilt(&table, table.values().iter().map(up).collect(), members);
            assert!(print.fits(&rounded, &shown).unwrap());
            let text = serde_json::to_string(&print).unwrap();
            assert_eq!(serde_json::from_str::<Fingerprint>(&text).unwrap(), print);
        }
    }

    #[test]
    fn other_rows_values_and_classes_are_not() {
        let table = Table::bundled("uis").unwrap();
        let shown = Transform::spreading(&table);
        let print = Fingerprint::of(&table, &shown).unwrap();
        let members = table.members().unwrap().to_vec();
        let mut one = members.clone();
        one[7] = 1 - one[7];
        let flipped = members.iter().map(|class| 1 - class).collect();
        let mut value = table.values().to_vec();
        value[20] += 1e-3 * shown.divisors()[20 % table.features()];
        // Swaps two values of a column within one class.
        let mut column = table.values().to_vec();
        let a = 3;
        let b = (4..575).find(|&row| members[row] == members[3]).unwrap();
        column.swap(a * table.features(), b * table.features());
        let scaled = table
            .values()
            .iter()
            .enumerate()
            .map(|(at, x)| if at % table.features() == 1 { 3.0 * x } else { *x });
        for other in [
            rebuilt(&table, table.values().to_vec(), one),
            rebuilt(&table, table.values().to_vec(), flipped),
            rebuilt(&table, value, members.clone()),
            rebuilt(&table, column, members.clone()),
            rebuilt(&table, scaled.collect(), members),
            table.take(&Vec::from_iter(0..574)).unwrap(),
            table.take(&Vec::from_iter((0..574).chain([0]))).unwrap(),
        ] {
            assert!(!print.fits(&other, &shown).unwrap());
        }
    }

    #[test]
    fn columns_with_other_values_are_named() {
        let table = Table::bundled("lbw").unwrap();
        let shown = Transform::spreading(&table);
        assert!(other_columns(&table, &shown, &Transform::spreading(&table)).is_empty());
        let values = table.values().iter().enumerate().map(|(at, x)| match at % 9 {
            1 => 3.0 * x,
            4 => x + 1.0,
            _ => *x,
        });
        let other = rebuilt(&table, values.collect(), table.members().unwrap().to_vec());
        let names = table.columns();
        let found = other_columns(&other, &shown, &Transform::spreading(&other));
        assert_eq!(found, [names[1].clone(), names[4].clone()]);
    }
}
