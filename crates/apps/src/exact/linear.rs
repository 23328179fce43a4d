//! Products with plain matrices.

use super::{Engine, IntegerArray, IntegerRange, Layout, PlainIntegers, layout::Values};
use crate::array::{ArrayError, Result};
use std::collections::BTreeMap;
use sudare::{
    exact::{Ciphertext, PlainPoly},
    rlwe::Level,
};

const OP: &str = "multiply by a plain matrix";

/// A linear map from the elements of one array to the elements of another.
struct Map<'a> {
    from: &'a Layout,
    to: Layout,
    /// Residues of the plain matrix.
    entries: Vec<u128>,
    /// Columns of the plain matrix.
    width: usize,
    side: Side,
}

/// Side of the array on which the matrix stands.
#[derive(Clone, Copy)]
enum Side {
    /// `A x`, with the number of columns of `x`.
    Left { columns: usize },
    /// `x B`, with the number of columns of `x`.
    Right { columns: usize },
}

impl Map<'_> {
    /// Returns the weight of an element in an element of the result.
    fn entry(&self, to: usize, from: usize) -> u128 {
        let (row, column) = match self.side {
            Side::Left { columns } => {
                if to % columns != from % columns {
                    return 0;
                }
                (to / columns, from / columns)
            }
            Side::Right { columns } => {
                if to / self.width != from / columns {
                    return 0;
                }
                (from % columns, to % self.width)
            }
        };
        self.entries[row * self.width + column]
    }

    /// Returns the number of columns of slots after which both layouts repeat.
    fn columns(&self) -> usize {
        self.from.columns().max(self.to.columns())
    }

    /// Returns the weights by which a block's image, rotated by `step` and possibly with its rows
    /// swapped, is multiplied. The product is then rotated by `turn` and added to a block of the
    /// result. `None` if all weights are zero.
    ///
    /// The slots of the result are `out[c] = sum_k w_k[c] x[c + k]` for `k = turn + step`. The
    /// weights apply before the turn, at `c + turn`.
    fn weights(&self, (to, turn): (usize, usize), from: Factor) -> Option<Vec<u128>> {
        let columns = self.columns();
        // A single element is in both rows.
        if from.swapped && self.from.is_everywhere() {
            return None;
        }
        let weight = |row: usize, column: usize| {
            let place = (column + columns - turn % columns) % columns;
            let source = (column + from.step) % self.from.columns();
            let out = self.to.element(to, row, place)?;
            let element = self.from.element(from.block, row ^ usize::from(from.swapped), source)?;
            Some(self.entry(out, element))
        };
        let all = (0..2).flat_map(|row| (0..columns).map(move |column| (row, column)));
        let all: Vec<u128> = all.map(|(row, c)| weight(row, c).unwrap_or(0)).collect();
        all.iter().any(|&w| w != 0).then_some(all)
    }
}

/// An image of a block, to be multiplied by weights.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Factor {
    block: usize,
    swapped: bool,
    step: usize,
}

impl Engine {
    /// Returns `matrix @ a`, one level below. `matrix` has two axes, or one axis that is a row.
    ///
    /// Each nonzero diagonal of the matrix in the slots costs a product with a plaintext. Let `d`
    /// be their number, at most the number of elements along its columns. About `sqrt(d)` rotations
    /// are needed, each of one key switch.
    ///
    /// # Errors
    /// [`ArrayError::Shapes`] unless `a` has one or two axes and its first axis matches the columns
    /// of the matrix; [`sudare::Error::ValueOutOfRange`]; [`sudare::Error::LevelExhausted`];
    /// [`sudare::Error::MissingGaloisKey`]; [`sudare::Error::NoiseExhausted`].
    pub fn matmul_left(&self, matrix: &PlainIntegers, a: &IntegerArray) -> Result<IntegerArray> {
        let (shape, columns) = match (&matrix.shape[..], a.shape()) {
            ([n], [m]) if n == m => (vec![], 1),
            ([rows, n], [m]) if n == m => (vec![*rows], 1),
            ([n], [m, columns]) if n == m => (vec![*columns], *columns),
            ([rows, n], [m, columns]) if n == m => (vec![*rows, *columns], *columns),
            (left, right) => return Err(mismatch(left, right)),
        };
        let width = matrix.shape.last().copied().unwrap_or(1);
        self.linear(a, matrix, &shape, width, Side::Left { columns })
    }

    /// Returns `a @ matrix`, one level below, at the cost of [`Engine::matmul_left`]. `matrix` has
    /// two axes, or one axis that is a column.
    ///
    /// # Errors
    /// The errors of [`Engine::matmul_left`].
    pub fn matmul_right(&self, a: &IntegerArray, matrix: &PlainIntegers) -> Result<IntegerArray> {
        let (shape, columns) = match (a.shape(), &matrix.shape[..]) {
            ([n], [m]) if n == m => (vec![], *n),
            ([n], [m, width]) if n == m => (vec![*width], *n),
            ([rows, n], [m]) if n == m => (vec![*rows], *n),
            ([rows, n], [m, width]) if n == m => (vec![*rows, *width], *n),
            (left, right) => return Err(mismatch(left, right)),
        };
        let width = if matrix.shape.len() == 2 { matrix.shape[1] } else { 1 };
        self.linear(a, matrix, &shape, width, Side::Right { columns })
    }

    fn linear(
        &self,
        a: &IntegerArray,
        matrix: &PlainIntegers,
        shape: &[usize],
        width: usize,
        side: Side,
    ) -> Result<IntegerArray> {
        let t = self.setting.modulus();
        matrix.check(t, Values::Any)?;
        let entries = matrix.residues(t, &matrix.shape);
        let map = Map { from: &a.layout, to: self.setting.layout(shape)?, entries, width, side };
        let ends = sums(matrix, width, side, a.range);
        let product = self.where_it_fits(OP, [a], 1, |[a]| self.mapped(&a, &map))?;
        Ok(self.ranged(product, ends))
    }

    /// Applies a map to an array by baby and giant steps. Each step is a power of two.
    fn mapped(&self, a: &IntegerArray, map: &Map<'_>) -> Result<IntegerArray> {
        let log_columns = map.from.columns().ilog2();
        // Baby and giant steps are about as many, which takes the fewest rotations.
        let baby = 1usize << log_columns.div_ceil(2);
        let giants = map.from.columns() / baby;
        let mut images = BTreeMap::new();
        let mut blocks = Vec::with_capacity(map.to.blocks());
        for to in 0..map.to.blocks() {
            let mut sum: Option<Ciphertext> = None;
            // Horner's scheme: each rotation by `baby` moves the sums of all later giant steps at
            // once.
            for giant in (0..giants).rev() {
                if let Some(sum) = &mut sum {
                    *sum = self.exact().rotate(sum, baby as i64)?;
                }
                let turn = giant * baby;
                for from in factors(a.blocks.len(), baby) {
                    // Diagonals of zeros cost neither a product nor the rotations of their image.
                    let Some(weights) = map.weights((to, turn), from) else { continue };
                    let term = self.weighted(a, &mut images, from, &weights)?;
                    sum = Some(match &sum {
                        Some(sum) => self.exact().add(sum, &term)?,
                        None => term,
                    });
                }
            }
            let sum = match sum {
                Some(sum) => sum,
                // All its weights are zero.
                None => self.zero(a)?,
            };
            // Products are rescaled after their sum: one rescaling of a block instead of one for
            // each product.
            blocks.push(self.exact().rescale(&sum)?);
        }
        let layout = map.to.clone();
        // Weights are 0 for slots beyond the last element of the result.
        let padding_is_zero = true;
        Ok(IntegerArray { layout, blocks: blocks.into(), padding_is_zero, range: a.range })
    }

    /// Multiplies an image of a block by weights, without rescaling.
    fn weighted(
        &self,
        a: &IntegerArray,
        images: &mut BTreeMap<Factor, Ciphertext>,
        factor: Factor,
        weights: &[u128],
    ) -> Result<Ciphertext> {
        let image = self.image(a, images, factor)?;
        let plain = self.setting.encode(weights)?;
        self.unrescaled(&image, &plain)
    }

    fn unrescaled(&self, block: &Ciphertext, plain: &PlainPoly) -> Result<Ciphertext> {
        let factor = self.setting.weight_factor(OP, block.level())?;
        Ok(self.exact().mul_plain_many(&[block], plain, factor)?.remove(0))
    }

    /// Returns zero in the form of a product.
    fn zero(&self, a: &IntegerArray) -> Result<Ciphertext> {
        let block = &a.blocks[0];
        debug_assert!(block.level() > Level(0));
        let t = self.setting.modulus();
        let log_n = self.setting.params().log_n();
        self.unrescaled(block, &PlainPoly::constant(t, log_n, 0)?)
    }

    /// Rotates and swaps a block, starting from the image whose step lacks the lowest digit.
    fn image(
        &self,
        a: &IntegerArray,
        images: &mut BTreeMap<Factor, Ciphertext>,
        factor: Factor,
    ) -> Result<Ciphertext> {
        if let Some(known) = images.get(&factor) {
            return Ok(known.clone());
        }
        let image = match factor {
            Factor { block, swapped: false, step: 0 } => a.blocks[block].clone(),
            Factor { block, swapped: true, step: 0 } => self.exact().swap_rows(&a.blocks[block])?,
            Factor { step, .. } => {
                // Keys exist for powers of two only. Removing the lowest digit lets steps share
                // images.
                let lowest = step & step.wrapping_neg();
                let before = self.image(a, images, Factor { step: step - lowest, ..factor })?;
                self.exact().rotate(&before, lowest as i64)?
            }
        };
        images.insert(factor, image.clone());
        Ok(image)
    }
}

/// Returns the lowest and the highest sum of a row (on the left) or a column of a matrix, times
/// elements of a range.
fn sums(matrix: &PlainIntegers, width: usize, side: Side, range: IntegerRange) -> [i128; 2] {
    let of_column = matches!(side, Side::Right { .. });
    // A matrix of one axis is a row on the left and a column on the right, as its width says.
    let lines = if of_column { width } else { matrix.values.len() / width };
    let mut all = vec![[0i128; 2]; lines];
    for (i, &weight) in matrix.values.iter().enumerate() {
        let line = if of_column { i % width } else { i / width };
        let weight = IntegerRange { low: weight, high: weight };
        let [low, high] = range.extremes(weight, i128::saturating_mul);
        let [least, most] = &mut all[line];
        *least = least.saturating_add(low);
        *most = most.saturating_add(high);
    }
    let low = all.iter().map(|[low, _]| *low).min().unwrap_or(0);
    let high = all.iter().map(|[_, high]| *high).max().unwrap_or(0);
    [low, high]
}

/// Returns every image that baby steps can make of `blocks` blocks.
fn factors(blocks: usize, baby: usize) -> impl Iterator<Item = Factor> {
    (0..blocks).flat_map(move |block| {
        [false, true]
            .into_iter()
            .flat_map(move |swapped| (0..baby).map(move |step| Factor { block, swapped, step }))
    })
}

fn mismatch(left: &[usize], right: &[usize]) -> ArrayError {
    ArrayError::Shapes { op: OP, left: left.to_vec(), right: right.to_vec() }
}
