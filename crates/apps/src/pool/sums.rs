//! Exact sums of the rows of a table.

use core::fmt;

use nalgebra::{DMatrix, DMatrixView};
use num_bigint::BigInt;
use sudare_arith::par;
use sudare_table::Table;

use super::{PoolError, Schema};

/// Fraction bits of a value: it is an integer over `2^47` in the unit of its column.
pub(super) const FRACTION_BITS: u32 = 47;

/// Bits of the lower of the two integers into which a value is split. Each is within `2^23`.
const LIMB_BITS: u32 = 24;

/// Number of rows whose products `f64` sums exactly: `2^7 2^23 2^23` is `2^53`.
const BLOCK: usize = 128;

/// Maximum number of parts of a table that are summed in parallel, and of values in all their sums.
// Fixed, so that sums do not depend on the number of cores of a machine.
const PARTS: usize = 16;
// 128 MiB of sums.
const PART_VALUES: usize = 1 << 24;

/// Maximum number of sums of a table.
const MAX_NUMBERS: u128 = 1 << 22;

/// The list of sums and its order. First come the counts of classes. Then come, for each group, the
/// sums of columns and of their products. Sums of third and of fourth powers are last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    /// Digest of the schema.
    pub digest: [u8; 32],
    /// Number of encoded columns.
    pub columns: usize,
    /// Number of classes of the target, or 1.
    pub classes: usize,
    /// Number of groups of rows whose columns and products are summed separately: the number of
    /// classes, or 1.
    pub groups: usize,
}

impl Shape {
    pub fn new(schema: &Schema, by_class: bool) -> Result<Self, PoolError> {
        let columns = schema.columns().len();
        let classes = schema.classes().len().max(1);
        let groups = if by_class { classes } else { 1 };
        let shape = Self { digest: schema.digest(), columns, classes, groups };
        let found = shape.numbers() as u128;
        if found > MAX_NUMBERS {
            let what = "sums of columns and of their products, by class";
            return Err(PoolError::Count { what, found, least: 1, most: MAX_NUMBERS });
        }
        Ok(shape)
    }

    /// Returns the number of sums.
    pub fn numbers(&self) -> usize {
        self.classes + self.groups * self.group() + 2 * self.columns
    }

    /// Returns the power of values in each sum.
    pub fn powers(&self) -> impl Iterator<Item = u32> + use<> {
        let Self { columns, classes, groups, .. } = *self;
        let times = std::iter::repeat_n::<u32>;
        let group = move |_| times(1, columns).chain(times(2, pairs(columns)));
        let higher = times(3, columns).chain(times(4, columns));
        times(0, classes).chain((0..groups).flat_map(group)).chain(higher)
    }

    /// Returns the number of sums of a group.
    fn group(&self) -> usize {
        self.columns + pairs(self.columns)
    }

    fn group_start(&self, group: usize) -> usize {
        self.classes + group * self.group()
    }

    fn powers_start(&self) -> usize {
        self.group_start(self.groups)
    }
}

/// Returns the number of pairs of columns, including each column with itself.
fn pairs(columns: usize) -> usize {
    columns * (columns + 1) / 2
}

/// Returns the place of a pair, the larger column first.
fn pair(j: usize, k: usize) -> usize {
    // The order of the lower triangle, row by row, in which `Products::add_to` visits the pairs.
    pairs(j.max(k)) + j.min(k)
}

/// Exact sums of the rows of a table that a schema encoded: the number of rows of each class, and
/// `Σ u`, `Σ u_j u_k`, `Σ u³` and `Σ u⁴` of the columns. If rows are weighted by class, the first
/// two are computed for each class.
///
/// A value `x` counts as `u = (x - center) / unit`, within `[-1, 1]` by the bounds of the schema,
/// and rounded to a multiple of `2^-47`. Nothing else is rounded: sums of parts of a table add up
/// to the sums of the whole, to the last bit. If the standard deviation of a column is a millionth
/// of its unit, eight digits of each deviation are kept.
///
/// Sums of few rows reveal much about them, so they stay with the owner of the rows. `Debug` shows
/// the shape only.
#[derive(Clone, PartialEq, Eq)]
pub struct Sums {
    shape: Shape,
    numbers: Vec<BigInt>,
}

impl Sums {
    // Two values have at most 94 bits in their product, so `i128` holds the sum over 2^32 rows.
    /// Maximum number of rows of all owners' tables.
    pub const MAX_ROWS: u64 = 1 << 32;

    /// Computes the sums of a table from [`Schema::apply`]. With `by_class`, rows can later be
    /// weighted by class.
    ///
    /// # Errors
    /// [`PoolError::OtherTable`] or [`PoolError::OutOfBounds`] for another table;
    /// [`PoolError::Count`] for too many columns of too many classes, or too many rows.
    pub fn of(schema: &Schema, table: &Table, by_class: bool) -> Result<Self, PoolError> {
        schema.check(table)?;
        check_rows(table.rows())?;
        let shape = Shape::new(schema, by_class)?;
        let mut rows = vec![Vec::new(); shape.classes];
        let members = table.members().unwrap_or_default();
        for row in 0..table.rows() {
            rows[members.get(row).map_or(0, |&class| class as usize)].push(row);
        }
        let mut numbers: Vec<BigInt> = rows.iter().map(|rows| rows.len().into()).collect();
        if !by_class {
            // One group does not need sums by class. Only the counts above keep the classes apart.
            rows = vec![(0..table.rows()).collect()];
        }
        let grid = Grid::new(schema);
        let mut powers = vec![BigInt::ZERO; 2 * shape.columns];
        for rows in rows {
            let group = Part::of_rows(table, &grid, &rows);
            group.powers().zip(&mut powers).for_each(|(sum, all)| *all += sum);
            numbers.extend(group.sums.into_iter().chain(group.products).map(BigInt::from));
        }
        numbers.extend(powers);
        Ok(Self { shape, numbers })
    }

    /// Creates sums from the numbers that a plan decoded.
    pub(super) fn from_numbers(shape: Shape, numbers: Vec<BigInt>) -> Self {
        Self { shape, numbers }
    }

    /// Adds the sums of other rows.
    ///
    /// # Errors
    /// [`PoolError::OtherSchema`] unless both have the same schema, and both or neither are by
    /// class; [`PoolError::Count`] for more than [`Sums::MAX_ROWS`] together.
    pub fn add(&mut self, other: &Self) -> Result<(), PoolError> {
        if self.shape != other.shape {
            return Err(PoolError::OtherSchema { what: "sums to be added".to_owned() });
        }
        // Checked before any number changes, so that an error leaves the sums as they were.
        check_rows(self.rows().saturating_add(other.rows()))?;
        self.numbers.iter_mut().zip(&other.numbers).for_each(|(sum, other)| *sum += other);
        Ok(())
    }

    /// Returns the number of rows summed.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.counts().sum()
    }

    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns all sums, in the order of their shape.
    pub(super) fn numbers(&self) -> &[BigInt] {
        &self.numbers
    }

    /// Returns the rows of each class.
    pub(super) fn counts(&self) -> impl Iterator<Item = usize> {
        // A count is at most `MAX_ROWS`, so it fits.
        let count = |number: &BigInt| usize::try_from(number).unwrap_or(usize::MAX);
        self.numbers[..self.shape.classes].iter().map(count)
    }

    /// Returns the rows of each group.
    pub(super) fn group_rows(&self) -> Vec<usize> {
        if self.shape.groups == 1 { vec![self.rows()] } else { self.counts().collect() }
    }

    /// Returns `Σ u` of column `j` in a group.
    pub(super) fn sum(&self, group: usize, j: usize) -> &BigInt {
        &self.numbers[self.shape.group_start(group) + j]
    }

    /// Returns `Σ u_j u_k` in a group.
    pub(super) fn product(&self, group: usize, j: usize, k: usize) -> &BigInt {
        &self.numbers[self.shape.group_start(group) + self.shape.columns + pair(j, k)]
    }

    /// Returns `Σ u³` of column `j`.
    pub(super) fn cube(&self, j: usize) -> &BigInt {
        &self.numbers[self.shape.powers_start() + j]
    }

    /// Returns `Σ u⁴` of column `j`.
    pub(super) fn fourth(&self, j: usize) -> &BigInt {
        &self.numbers[self.shape.powers_start() + self.shape.columns + j]
    }
}

impl fmt::Debug for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sums")
            .field("columns", &self.shape.columns)
            .field("groups", &self.shape.groups)
            .finish_non_exhaustive()
    }
}

pub(super) fn check_rows(rows: usize) -> Result<(), PoolError> {
    if (1..=Sums::MAX_ROWS).contains(&(rows as u64)) {
        return Ok(());
    }
    let found = rows as u128;
    let most = u128::from(Sums::MAX_ROWS);
    Err(PoolError::Count { what: "rows", found, least: 1, most })
}

/// Conversion of values to integers.
struct Grid {
    centers: Vec<f64>,
    units: Vec<f64>,
}

impl Grid {
    fn new(schema: &Schema) -> Self {
        Self { centers: schema.centers(), units: schema.units() }
    }

    /// Returns the integer of `x` in column `j`, up to `2^47` in magnitude.
    fn integer(&self, j: usize, x: f64) -> i64 {
        // A value at a bound may exceed 1 by rounding here.
        let u = ((x - self.centers[j]) / self.units[j]).clamp(-1.0, 1.0);
        (u * (1_u64 << FRACTION_BITS) as f64).round_ties_even() as i64
    }
}

/// Sums of some rows, over the integers of their values.
struct Part {
    sums: Vec<i128>,
    /// Sums of pairs, in the order of [`pair`].
    products: Vec<i128>,
    /// Sums of the parts of third and fourth powers.
    powers: Vec<PowerParts>,
}

// Both parts are at most 2^47, like `v`, so sums of their products over 2^32 rows fit `i128`.
/// Sums of `v q_1, v q_0, q_1 q_1, q_1 q_0, q_0 q_0`, where `v² = 2^47 q_1 + q_0`.
type PowerParts = [i128; 5];

impl Part {
    fn zero(columns: usize) -> Self {
        let products = vec![0; pairs(columns)];
        Self { sums: vec![0; columns], products, powers: vec![[0; 5]; columns] }
    }

    /// Sums these rows, in parallel parts.
    fn of_rows(table: &Table, grid: &Grid, rows: &[usize]) -> Self {
        let columns = table.features();
        // Every part has its own sums of all pairs, so many columns leave room for fewer parts.
        let most = (PART_VALUES / columns.pow(2).max(1)).clamp(1, PARTS);
        // Parts of whole blocks: only the last block of all rows may not be full.
        let size = rows.len().div_ceil(most).next_multiple_of(BLOCK).max(BLOCK);
        let parts = par::map(rows.chunks(size), |rows| {
            let mut part = Self::zero(columns);
            let mut products = Products::new(columns);
            for block in rows.chunks(BLOCK) {
                part.add_block(table, grid, block, &mut products);
            }
            part
        });
        let mut all = Self::zero(columns);
        for Self { sums, products, powers } in parts {
            add(&mut all.sums, &sums);
            add(&mut all.products, &products);
            all.powers.iter_mut().zip(&powers).for_each(|(all, part)| add(all, part));
        }
        all
    }

    fn add_block(&mut self, table: &Table, grid: &Grid, rows: &[usize], products: &mut Products) {
        let columns = table.features();
        products.clear();
        for &row in rows {
            let values = &table.values()[row * columns..][..columns];
            for (j, &x) in values.iter().enumerate() {
                let v = grid.integer(j, x);
                self.sums[j] += i128::from(v);
                add_powers(&mut self.powers[j], v);
                products.push(v);
            }
        }
        products.add_to(&mut self.products, columns);
    }

    /// Returns the sums of third powers of the columns, then the sums of fourth powers.
    fn powers(&self) -> impl Iterator<Item = BigInt> {
        let high = |sum: i128| BigInt::from(sum) << FRACTION_BITS;
        let cube = move |[v_q1, v_q0, ..]: &PowerParts| high(*v_q1) + v_q0;
        let fourth = move |[.., high_high, high_low, low_low]: &PowerParts| {
            ((high(*high_high) + 2 * high_low) << FRACTION_BITS) + low_low
        };
        self.powers.iter().map(cube).chain(self.powers.iter().map(fourth))
    }
}

fn add(sums: &mut [i128], others: &[i128]) {
    sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
}

/// Adds the parts of `v³` and `v⁴`.
fn add_powers(sums: &mut PowerParts, v: i64) {
    let product = |a: i64, b: i64| i128::from(a) * i128::from(b);
    let square = product(v, v);
    let high = (square >> FRACTION_BITS) as i64;
    let low = (square & ((1 << FRACTION_BITS) - 1)) as i64;
    let parts = [(v, high), (v, low), (high, high), (high, low), (low, low)];
    sums.iter_mut().zip(parts).for_each(|(sum, (a, b))| *sum += product(a, b));
}

/// Products of the columns of a block, by integers of two limbs.
struct Products {
    /// Row by row.
    high: Vec<f64>,
    low: Vec<f64>,
    /// Products high by high, high by low, and low by low.
    sums: [DMatrix<f64>; 3],
}

impl Products {
    fn new(columns: usize) -> Self {
        let limbs = || Vec::with_capacity(BLOCK * columns);
        let zero = || DMatrix::zeros(columns, columns);
        Self { high: limbs(), low: limbs(), sums: [zero(), zero(), zero()] }
    }

    fn clear(&mut self) {
        self.high.clear();
        self.low.clear();
    }

    fn push(&mut self, v: i64) {
        // Rounded to the nearest multiple, so the low limb is signed and within 2^23, like the high
        // one.
        let high = (v + (1 << (LIMB_BITS - 1))) >> LIMB_BITS;
        self.high.push(high as f64);
        self.low.push((v - (high << LIMB_BITS)) as f64);
    }

    /// Adds the products of all pairs.
    fn add_to(&mut self, all: &mut [i128], columns: usize) {
        let rows = self.high.len() / columns;
        let [high, low] =
            [&self.high, &self.low].map(|limbs| DMatrixView::from_slice(limbs, columns, rows));
        let [high_rows, low_rows] = [high.transpose(), low.transpose()];
        let [high_high, high_low, low_low] = &mut self.sums;
        // Real products are exact here, since sums over a block stay within 2^53, and much faster
        // than products of integers.
        high_high.gemm(1.0, &high, &high_rows, 0.0);
        high_low.gemm(1.0, &high, &low_rows, 0.0);
        low_low.gemm(1.0, &low, &low_rows, 0.0);
        let mut all = all.iter_mut();
        // The range is first in the `zip`: it ends without taking a sum that belongs to the next
        // row.
        for j in 0..columns {
            for (k, sum) in (0..=j).zip(&mut all) {
                let at = |sums: &DMatrix<f64>, j, k| i128::from(sums[(j, k)] as i64);
                // Products of high by low limbs are not symmetric: a pair has one on each side of
                // the diagonal.
                let mixed = at(high_low, j, k) + at(high_low, k, j);
                let high = (at(high_high, j, k) << LIMB_BITS) + mixed;
                *sum += (high << LIMB_BITS) + at(low_low, j, k);
            }
        }
    }
}

#[cfg(test)]
mod tests;
