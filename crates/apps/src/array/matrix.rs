//! Products of matrices.

use std::sync::Arc;

use sudare::{
    circuits::{Ops, ckks::ComplexOps},
    ckks::ProductSum,
    rlwe::Level,
};
use sudare_arith::par;

use super::{
    Array, ArrayError, Engine, PlainArray, Range, Result,
    layout::{Layout, Tile, ceil_log2},
    movement::{Diagonals, check_diagonals},
};

const OP: &str = "matrix product";

/// Columns and rows that are spread together. This number of products is summed before
/// relinearisation, and the same number of copies of an operand is in memory.
const SPREAD: usize = 8;

/// Number of summed indices that is worth an additional level.
const MANY: usize = 4;

/// Blocks of a result along an axis. Each entry holds the other blocks in order.
type Stacks<E> = Vec<Vec<Arc<<E as Ops>::Ct>>>;

/// # Products of matrices
///
/// These are NumPy's `@` for vectors and matrices. A vector is a row on the left and a column on
/// the right.
///
/// | product | levels |
/// |---|---|
/// | with a plain matrix, by its diagonals | 1 |
/// | with a plain matrix of few columns, column by column; with a plain vector | 2, for a vector 1 if it sums leading axes |
/// | of an encrypted matrix and a vector | 2, or 1 if it sums leading axes |
/// | of two encrypted matrices, a sum of products of columns and rows | 2 |
/// | of two whose fields make that impossible, as `transpose(x) @ x`, or costly | 3 |
impl<E: ComplexOps> Engine<'_, E> {
    /// Returns `a @ w`, summed over the last axis of `a` and the first axis of `w`. `w` has one or
    /// two axes.
    ///
    /// # Errors
    /// [`ArrayError::Shapes`]; [`ArrayError::Values`]; [`ArrayError::NotFinite`];
    /// [`ArrayError::LevelExhausted`]; errors of the evaluator.
    pub fn matmul_plain(&self, a: &Array<E>, w: &PlainArray) -> Result<Array<E>> {
        let last = a.shape().len().checked_sub(1);
        self.product_with_plain(a, w, last, [a.shape(), &w.shape], false)
    }

    /// Returns `w @ a`, summed over the last axis of `w` and the second-to-last axis of `a`, or its
    /// only axis. `w` has one or two axes.
    ///
    /// # Errors
    /// The errors of [`Engine::matmul_plain`].
    pub fn rmatmul_plain(&self, w: &PlainArray, a: &Array<E>) -> Result<Array<E>> {
        let ndim = a.shape().len();
        let axis = ndim.checked_sub(2).or(ndim.checked_sub(1));
        self.product_with_plain(a, w, axis, [&w.shape, a.shape()], true)
    }

    fn product_with_plain(
        &self,
        a: &Array<E>,
        w: &PlainArray,
        axis: Option<usize>,
        [left, right]: [&[usize]; 2],
        on_the_left: bool,
    ) -> Result<Array<E>> {
        w.check(OP)?;
        let shapes = || ArrayError::Shapes { op: OP, left: left.to_vec(), right: right.to_vec() };
        let axis = axis.ok_or_else(shapes)?;
        let count = a.shape()[axis];
        // Element (j, i) moves the j-th element along the axis to the i-th.
        let (columns, strides) = match (&w.shape[..], on_the_left) {
            (&[size], _) if size == count => (None, [1, 0]),
            (&[size, columns], false) if size == count => (Some(columns), [columns, 1]),
            (&[columns, size], true) if size == count => (Some(columns), [1, size]),
            _ => return Err(shapes()),
        };
        let weight = |j: usize, i: usize| w.values[j * strides[0] + i * strides[1]];
        let column = |i: usize| {
            let mut shape = vec![1; a.shape().len()];
            shape[axis] = count;
            PlainArray::new(&shape, (0..count).map(|j| weight(j, i)).collect())
        };
        // Saving a level is worth twice the work.
        match columns {
            None => self.sum(&self.mul_plain(a, &column(0))?, Some(&[axis]), false),
            Some(1) => self.sum(&self.mul_plain(a, &column(0))?, Some(&[axis]), true),
            // An outer product sums nothing, so broadcasting is enough.
            Some(columns) if count == 1 => {
                let mut shape = vec![1; a.shape().len()];
                shape[axis] = columns;
                self.mul_plain(a, &PlainArray::new(&shape, w.values.clone()))
            }
            Some(columns) => {
                let matrix = Matrix::new(a.layout(), axis, columns, self.log_slots_max());
                let sharing = matrix.target.blocks() / matrix.target.grid(axis);
                let by_diagonals = matrix.diagonals_cost(sharing, self.uses_power_rotations());
                match by_diagonals.is_some_and(|cost| cost <= 2.0 * matrix.columns_cost()) {
                    true => self.product_by_diagonals(a, &matrix, weight),
                    false => self.product_by_columns(a, &matrix, column),
                }
            }
        }
    }

    fn product_by_diagonals(
        &self,
        a: &Array<E>,
        matrix: &Matrix,
        weight: impl Fn(usize, usize) -> f64,
    ) -> Result<Array<E>> {
        let axis = matrix.axis;
        let target = &matrix.target;
        let zero = a.padding_is_zero() || !pads_beside(target, axis);
        let range = weighted_range(a, axis, target.shape()[axis], &weight);
        let a = self.ready(OP, a, 1)?;
        let below = Level(a.level().0 - 1);
        self.check_room(OP, below, &range)?;
        // Masked padding is 0, so the second attempt is the last.
        if !self.holds_padding(below, range.padding()) {
            let clean = self.masked(OP, &self.ready(OP, &a, 2)?, 1.0)?;
            return self.product_by_diagonals(&clean, matrix, weight);
        }
        let a = self.widened(&a, target.log_slots())?;
        let from = a.layout().along(axis);
        let to = target.along(axis);
        let mut blocks = vec![Vec::new(); target.blocks()];
        for (i, to) in to.iter().enumerate() {
            for (j, from) in from.iter().enumerate() {
                let diagonals = matrix.diagonals(j, i, &weight);
                if diagonals.is_empty() {
                    continue;
                }
                let own: Vec<_> = from.iter().map(|&block| &*a.blocks()[block]).collect();
                let products = self.transformed(a.level(), target.log_slots(), &own, &diagonals)?;
                to.iter().zip(products).for_each(|(&block, part)| blocks[block].push(part));
            }
        }
        let blocks = par::try_map(blocks.iter().enumerate(), |(block, parts)| {
            if !parts.is_empty() {
                return Ok(self.total(parts)?);
            }
            // For weights that are all zero.
            let rest = from[0][target.rest(axis, block)];
            let zeros = self.times_constant(a.level(), &a.blocks()[rest..=rest], 0.0)?;
            Result::Ok(Arc::clone(&zeros[0]))
        })?;
        self.array(OP, target.clone(), below, blocks, zero, range)
    }

    fn product_by_columns(
        &self,
        a: &Array<E>,
        matrix: &Matrix,
        column: impl Fn(usize) -> PlainArray,
    ) -> Result<Array<E>> {
        let axis = matrix.axis;
        let target = &matrix.target;
        let field = a.layout().tile(axis);
        let place = target.tile(axis);
        let a = self.ready(OP, a, 1 + u32::from(place.log > 0))?;
        let a = self.widened(&a, target.log_slots())?;
        let level = Level(a.level().0 - 1);
        let end = Level(level.0 - u32::from(place.log > 0));
        let weights: Vec<Vec<f64>> = (0..target.shape()[axis]).map(|i| column(i).values).collect();
        let range = weighted_range(&a, axis, weights.len(), &|j, i| weights[i][j]);
        let range = range.with_padding(0.0);
        self.check_room(OP, end, &range)?;
        let sums = |i| -> Result<_> {
            let products = self.mul_plain(&a, &column(i))?;
            self.field_totals(products.layout(), axis, field, products.blocks())
        };
        let stacks = self.stacked(level, target, axis, sums)?;
        self.array(OP, target.clone(), end, unstacked::<E>(target, axis, stacks), true, range)
    }

    /// Sums blocks along an axis and over its field. The sums are in slots of index 0.
    fn field_totals(
        &self,
        layout: &Layout,
        axis: usize,
        field: Tile,
        blocks: &[Arc<E::Ct>],
    ) -> Result<Vec<Arc<E::Ct>>> {
        let along = layout.along(axis);
        let total = |rest: usize| {
            let own: Vec<_> = along.iter().map(|tile| Arc::clone(&blocks[tile[rest]])).collect();
            let sum = self.total(&own)?;
            match field.log {
                0 => Ok(sum),
                log => self.field_sum(&sum, field.shift, log).map(Arc::new),
            }
        };
        Ok(par::try_map(0..along[0].len(), total)?)
    }

    /// Moves slots of index 0 along an axis of `target` in the `i`-th of `pieces` to index `i`, one
    /// level down. All other slots become zero. If a block has one index only, the pieces are the
    /// blocks.
    fn stacked(
        &self,
        level: Level,
        target: &Layout,
        axis: usize,
        mut piece: impl FnMut(usize) -> Result<Vec<Arc<E::Ct>>>,
    ) -> Result<Stacks<E>> {
        let size = target.shape()[axis];
        let field = target.tile(axis);
        if field.log == 0 {
            return (0..size).map(piece).collect();
        }
        let mask = field.first(target.slots());
        let back = target.slots() - field.stride();
        let stack = |start: usize| {
            let mut stack: Option<Vec<Arc<E::Ct>>> = None;
            // Horner's scheme: each rotation by one index moves all later pieces, so one key is
            // enough.
            for i in (start..size.min(start + field.len())).rev() {
                let piece = piece(i)?;
                let piece: Vec<_> = piece.iter().map(|block| &**block).collect();
                let piece = self.times_vector(level, &piece, &mask)?;
                stack = Some(match stack {
                    None => piece,
                    Some(stack) => par::try_map(stack.iter().zip(&piece), |(stack, piece)| {
                        let turned = self.rotated(stack, back, target.slots())?;
                        self.evaluator().add(&turned, piece).map(Arc::new)
                    })?,
                });
            }
            Ok(stack.unwrap_or_default())
        };
        (0..size).step_by(field.len()).map(stack).collect()
    }

    /// Returns `a @ b` of encrypted vectors and matrices.
    ///
    /// # Errors
    /// [`ArrayError::Shapes`] for shapes that do not match, or more than two axes;
    /// [`ArrayError::LevelExhausted`]; the errors of [`Engine::relayout`].
    pub fn matmul(&self, a: &Array<E>, b: &Array<E>) -> Result<Array<E>> {
        let shapes =
            || ArrayError::Shapes { op: OP, left: a.shape().to_vec(), right: b.shape().to_vec() };
        let row = a.shape().len() == 1;
        let column = b.shape().len() == 1;
        let as_row = a.with_layout(a.layout().with_leading_axes(usize::from(row)));
        let as_column = match column {
            true => b.with_layout(b.layout().with_leading_axes(1).transposed(&[1, 0])),
            false => b.clone(),
        };
        let (&[rows, count], &[found, columns]) = (as_row.shape(), as_column.shape()) else {
            return Err(shapes());
        };
        if found != count {
            return Err(shapes());
        }
        let product = if columns == 1 {
            let across = self.transpose(&as_column, None)?;
            self.sum(&self.mul(&as_row, &across)?, Some(&[1]), true)?
        } else if rows == 1 {
            let down = self.transpose(&as_row, None)?;
            self.sum(&self.mul(&down, &as_column)?, Some(&[0]), true)?
        } else if count == 1 {
            self.mul(&as_row, &as_column)?
        } else {
            self.product_of_two(&as_row, &as_column)?
        };
        let layout =
            product.layout().without_axes(|axis| (axis == 0 && row) || (axis == 1 && column));
        Ok(product.with_layout(layout))
    }

    /// Multiplies index by index of the summed axis, or row by row or column by column of the
    /// result, which takes another level.
    fn product_of_two(&self, a: &Array<E>, b: &Array<E>) -> Result<Array<E>> {
        let rows = a.layout().tile(0);
        let columns = b.layout().tile(1);
        let by_outer = !rows.overlaps(columns);
        let by_inner = a.layout().tile(1) == b.layout().tile(0);
        let count = a.shape()[1];
        let fewest = a.shape()[0].min(b.shape()[1]);
        if by_inner && (!by_outer || MANY * fewest < count) {
            if a.shape()[0] == fewest {
                return self.product_by_inner(a, b);
            }
            let [left, right] = [self.transpose(b, None)?, self.transpose(a, None)?];
            // `(a b)^T = b^T a^T`, so that the shorter side is taken row by row.
            return self.transpose(&self.product_by_inner(&left, &right)?, None);
        }
        if by_outer {
            return self.product_by_outer(a, b);
        }
        // Columns of the result lie above its rows.
        let shape = b.shape();
        let most = self.log_slots_max();
        let log = ceil_log2(shape[1]).min(most - rows.end());
        let right = Tile { log, shift: rows.end() };
        let down = Tile { log: ceil_log2(shape[0]).min(rows.end()), shift: 0 };
        let log_slots = (right.end()).max(down.end());
        let target = Layout::from_tiles(shape.to_vec(), vec![down, right], log_slots)?;
        // One level for the move, two for the product.
        self.product_by_outer(a, &self.relayout(&self.ready(OP, b, 3)?, &target)?)
    }

    /// Sums, over `j`, column `j` of `a`, copied along rows, times row `j` of `b`, copied along
    /// columns.
    fn product_by_outer(&self, a: &Array<E>, b: &Array<E>) -> Result<Array<E>> {
        let fields = [a.layout().tile(1), b.layout().tile(0)];
        let masks = u32::from(fields.iter().any(|field| field.log > 0));
        let [a, b] = self.aligned(OP, a, b, 1 + masks)?;
        let log_slots = a.layout().log_slots().max(b.layout().log_slots());
        let [a, b] = [self.widened(&a, log_slots)?, self.widened(&b, log_slots)?];
        let level = Level(a.level().0 - masks);
        let rows = a.layout();
        let columns = b.layout();
        let shape = vec![rows.shape()[0], columns.shape()[1]];
        let target = Layout::from_tiles(shape, vec![rows.tile(0), columns.tile(1)], log_slots)?;
        let zero = [(&a, 0), (&b, 1)]
            .iter()
            .all(|(own, axis)| own.padding_is_zero() || !own.layout().pads(*axis));
        let count = rows.shape()[1];
        let padding = if zero { 0.0 } else { a.range().reach() * b.range().reach() };
        let range = a.range().product(b.range(), false).total(count as f64);
        let range = range.with_padding(count as f64 * padding);
        let end = Level(level.0 - 1);
        self.check_room(OP, end, &range)?;
        if !self.holds_padding(end, range.padding()) {
            let clean = |x: &Array<E>| match x.padding_is_zero() {
                true => Ok(x.clone()),
                // One level for the mask, the others for the product.
                false => self.masked(OP, &self.ready(OP, x, 2 + masks)?, 1.0),
            };
            return self.product_by_outer(&clean(&a)?, &clean(&b)?);
        }
        let mut across = Copies::new(self, &a, 1, level)?;
        let mut down = Copies::new(self, &b, 0, level)?;
        let mut sums: Option<Vec<Arc<E::Ct>>> = None;
        for start in (0..count).step_by(SPREAD) {
            let some = start..count.min(start + SPREAD);
            let left: Stacks<E> = some.clone().map(|j| across.at(j)).collect::<Result<_>>()?;
            let right: Stacks<E> = some.map(|j| down.at(j)).collect::<Result<_>>()?;
            let products = |(row, column): (usize, usize)| ProductSum {
                products: left.iter().zip(&right).map(|(l, r)| (&*l[row], &*r[column])).collect(),
                addend: None,
            };
            let rows = target.grid(0);
            let columns = target.grid(1);
            let pairs = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
            let parts =
                self.evaluator().mul_sum_rescale_many(&pairs.map(products).collect::<Vec<_>>())?;
            let parts: Vec<_> = parts.into_iter().map(Arc::new).collect();
            sums = Some(match sums {
                None => parts,
                Some(sums) => par::try_map(sums.iter().zip(&parts), |(sum, part)| {
                    self.evaluator().add(sum, part).map(Arc::new)
                })?,
            });
        }
        self.array(OP, target, end, sums.unwrap_or_default(), zero, range)
    }

    /// Multiplies row by row: row `i` of `a`, copied along its rows, times `b`, summed over the
    /// field that both have for the summed axis. Rows of the result lie along that field.
    fn product_by_inner(&self, a: &Array<E>, b: &Array<E>) -> Result<Array<E>> {
        let field = a.layout().tile(1);
        let rows = a.layout().tile(0);
        let spread = u32::from(rows.log > 0);
        // Padding along the summed axis would enter the sums, unless a factor is zero there.
        let sums_padding = a.layout().pads(1) && !(a.padding_is_zero() || b.padding_is_zero());
        let needed = spread + 1 + u32::from(field.log > 0);
        let b = match sums_padding {
            true => self.masked(OP, &self.ready(OP, b, needed + 1)?, 1.0)?,
            false => b.clone(),
        };
        let [a, b] = self.aligned(OP, a, &b, needed)?;
        let log_slots = a.layout().log_slots().max(b.layout().log_slots());
        let [a, b] = [self.widened(&a, log_slots)?, self.widened(&b, log_slots)?];
        // Copies of `a` come one level down, because of their mask.
        let b = self.lowered(OP, &b, Level(b.level().0 - spread))?;
        let zero = b.padding_is_zero() || !b.layout().pads(1);
        let shape = vec![a.shape()[0], b.shape()[1]];
        let target = Layout::from_tiles(shape, vec![field, b.layout().tile(1)], log_slots)?;
        let along = b.layout().along(0);
        let level = Level(b.level().0 - 1);
        let end = Level(level.0 - u32::from(field.log > 0));
        let count = a.shape()[1] as f64;
        let padding = if zero { 0.0 } else { a.range().reach() * b.range().reach() };
        let range = a.range().product(b.range(), false).total(count);
        let range = range.with_padding(count * padding);
        self.check_room(OP, end, &range)?;
        if !self.holds_padding(end, range.padding()) {
            let b = self.masked(OP, &self.ready(OP, &b, needed + 1)?, 1.0)?;
            return self.product_by_inner(&a, &b);
        }
        let mut copies = Copies::new(self, &a, 0, b.level())?;
        let row = |i: usize| -> Result<_> {
            let row = copies.at(i)?;
            let products = |column: usize| ProductSum {
                products: row
                    .iter()
                    .zip(&along)
                    .map(|(r, b_row)| (&**r, &*b.blocks()[b_row[column]]))
                    .collect(),
                addend: None,
            };
            let sums = (0..target.grid(1)).map(products).collect::<Vec<_>>();
            let sums = self.evaluator().mul_sum_rescale_many(&sums)?;
            let total = |sum: E::Ct| match field.log {
                0 => Ok(Arc::new(sum)),
                log => self.field_sum(&sum, field.shift, log).map(Arc::new),
            };
            Ok(par::try_map(sums, total)?)
        };
        let stacks = self.stacked(level, &target, 0, row)?;
        self.array(OP, target.clone(), end, unstacked::<E>(&target, 0, stacks), zero, range)
    }
}

/// The blocks of one index along an axis, copied to all slots of the field.
struct Copies<'e, 'a, E: ComplexOps> {
    engine: &'e Engine<'a, E>,
    a: Array<E>,
    field: Tile,
    /// Blocks by tile of the axis and by all other coordinates.
    along: Vec<Vec<usize>>,
    mask: Vec<f64>,
    /// The last index, and the blocks rotated so that this index is at 0.
    last: Option<(usize, Vec<Arc<E::Ct>>)>,
}

impl<'e, 'a, E: ComplexOps> Copies<'e, 'a, E> {
    /// Prepares copies at `level`: one below the level of `a`, or the same level if each index has
    /// its own blocks.
    fn new(engine: &'e Engine<'a, E>, a: &Array<E>, axis: usize, level: Level) -> Result<Self> {
        let field = a.layout().tile(axis);
        let along = a.layout().along(axis);
        let mask = field.first(a.layout().slots());
        let a = if field.log == 0 { engine.lowered(OP, a, level)? } else { a.clone() };
        Ok(Self { engine, a, field, along, mask, last: None })
    }

    /// Returns, for index `i`, a block for all blocks that differ along the axis only. Ask
    /// for indices in ascending order: an index right after the last one costs the least.
    fn at(&mut self, i: usize) -> Result<Vec<Arc<E::Ct>>> {
        let tile = i / self.field.len();
        let index = i % self.field.len();
        let own = || self.along[tile].iter().map(|&block| Arc::clone(&self.a.blocks()[block]));
        if self.field.log == 0 {
            return Ok(own().collect());
        }
        let engine = self.engine;
        let slots = self.a.layout().slots();
        let (start, blocks) = match self.last.take() {
            Some((last, blocks)) if last / self.field.len() == tile => (last, blocks),
            _ => (i - index, own().collect()),
        };
        let step = (i + slots - start) % slots * self.field.stride() % slots;
        let turned = match step {
            0 => blocks,
            step => engine.each(&blocks, |block| engine.rotated(block, step, slots))?,
        };
        let own: Vec<_> = turned.iter().map(|block| &**block).collect();
        let masked = engine.times_vector(self.a.level(), &own, &self.mask)?;
        // Stored without the mask, so that the next index is one rotation away.
        self.last = Some((i, turned));
        let field = self.field;
        engine.each(&masked, |block| engine.field_copy(block, field.shift, field.len()))
    }
}

/// A plain matrix to apply along an axis, and the field of its result.
struct Matrix {
    axis: usize,
    /// Elements along the axis before.
    size: usize,
    /// Field of the axis before.
    field: Tile,
    target: Layout,
}

impl Matrix {
    /// Plans a matrix to `columns` elements. A block has the same number of slots as before, or
    /// more if nothing lies above.
    fn new(layout: &Layout, axis: usize, columns: usize, log_slots_max: u32) -> Self {
        let size = layout.shape()[axis];
        let field = layout.tile(axis);
        let others = (0..layout.ndim()).filter(|&other| other != axis);
        let above = others.map(|other| layout.tile(other).end()).max().unwrap_or(0);
        let mut place = field;
        if above <= field.shift {
            let log = ceil_log2(columns).min(log_slots_max.saturating_sub(field.shift));
            place.log = log.max(field.log);
        }
        let log_slots = layout.log_slots().max(place.end());
        let target = layout.with_axis(axis, columns, place).with_log_slots(log_slots);
        Self { axis, size, field, target }
    }

    /// Returns the number of diagonals of a block without zero diagonals.
    fn diagonals_count(&self) -> usize {
        let rows = self.field.len().min(self.size);
        let columns = self.field.len().min(self.target.shape()[self.axis]);
        // More diagonals than distances in a block do not exist, because rotations are cyclic.
        (rows + columns - 1).min(self.target.slots() / self.field.stride())
    }

    /// Estimates the key switches of the diagonals for one block, if `sharing` blocks share a
    /// matrix. Returns `None` for too many diagonals.
    fn diagonals_cost(&self, sharing: usize, power_rotations: bool) -> Option<f64> {
        let count = self.diagonals_count();
        check_diagonals(OP, count, self.target.slots()).ok()?;
        let diagonals = count as f64;
        Some(match power_rotations {
            // On average a rotation takes a third of the field's powers of two, the density of a
            // non-adjacent form.
            true => diagonals * (1.0 + f64::from(self.field.log) / 3.0),
            // Baby and giant steps, products, and weights that are encoded once.
            false => {
                let encoded = diagonals / (2.0 * sharing as f64);
                2.0 * (3.0 * diagonals).sqrt() + diagonals / 16.0 + encoded
            }
        })
    }

    /// Estimates the same for sums column by column.
    fn columns_cost(&self) -> f64 {
        self.target.shape()[self.axis] as f64 * f64::from(self.field.log + 2)
    }

    /// Returns the diagonals from tile `from` of the axis to tile `to`.
    fn diagonals(&self, from: usize, to: usize, weight: impl Fn(usize, usize) -> f64) -> Diagonals {
        let slots = self.target.slots();
        let stride = self.field.stride();
        let place = self.target.tile(self.axis);
        let first = from * self.field.len();
        let start = to * place.len();
        let rows = self.field.len().min(self.size - first);
        let columns = place.len().min(self.target.shape()[self.axis] - start);
        let mut diagonals = Diagonals::new();
        for (j, i) in (0..rows).flat_map(|j| (0..columns).map(move |i| (j, i))) {
            let weight = weight(first + j, start + i);
            if weight == 0.0 {
                continue;
            }
            // Values repeat above the field, so the copy nearest to the target is read.
            let copy = i - i % self.field.len();
            let offset = (j + copy + slots - i) % slots * stride % slots;
            let entries = diagonals.entry(offset).or_insert_with(|| vec![0.0; slots]);
            for high in (0..slots).step_by(place.len() * stride) {
                entries[high + i * stride..][..stride].fill(weight);
            }
        }
        diagonals
    }
}

/// Returns the range of sums along an axis with the weights of `columns` columns.
fn weighted_range<E: ComplexOps>(
    a: &Array<E>,
    axis: usize,
    columns: usize,
    weight: &impl Fn(usize, usize) -> f64,
) -> Range {
    let count = a.shape()[axis];
    let sums = (0..columns).map(|i| {
        let weights = (0..count).map(|j| weight(j, i));
        weights.fold([0.0, 0.0], |[up, down], w| [up + w.max(0.0), down + w.min(0.0)])
    });
    a.range().weighted(sums)
}

/// Returns whether another axis has padding.
fn pads_beside(layout: &Layout, axis: usize) -> bool {
    (0..layout.ndim()).any(|other| other != axis && layout.pads(other))
}

/// Returns blocks that are grouped by the tile of an axis in the order of the layout.
fn unstacked<E: ComplexOps>(layout: &Layout, axis: usize, stacks: Stacks<E>) -> Vec<Arc<E::Ct>> {
    let places = layout.along(axis).into_iter().flatten();
    let mut blocks: Vec<_> = places.zip(stacks.into_iter().flatten()).collect();
    blocks.sort_by_key(|&(place, _)| place);
    blocks.into_iter().map(|(_, block)| block).collect()
}
