//! Moves of elements to other slots.

use core::ops::Range;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use sudare::{
    circuits::ckks::{Complex, ComplexOps, LinearTransform},
    rlwe::Level,
};
use sudare_arith::par;

use super::{
    Array, ArrayError, Engine, Layout, Range as Bounds, Result,
    layout::{PADDING, Tile, c_strides, check_axes},
};
use crate::bootstrap::TOGETHER;

/// Maximum number of entries of the diagonals of one matrix. An entry takes 16 bytes, and the same
/// again for every prime where it is encoded.
const MAX_ENTRIES: usize = 1 << 23;

const OP: &str = "change of layout";

/// A matrix over the slots, by its diagonals, in the form that [`LinearTransform`] has.
pub(super) type Diagonals = BTreeMap<usize, Vec<f64>>;

impl<E: ComplexOps> Engine<'_, E> {
    /// Moves an array to another layout, of any shape with the same number of elements in C order.
    /// One linear transform of the slots does it, at the cost of a level. If the transform would
    /// have too many diagonals, several transforms each move some bits of the fields. The padding
    /// of the result is zero.
    ///
    /// # Errors
    /// [`ArrayError::Shapes`] for another number of elements; [`ArrayError::TooManyDiagonals`] if
    /// elements move by too many different distances; [`ArrayError::LevelExhausted`]; errors of the
    /// evaluator.
    pub fn relayout(&self, a: &Array<E>, target: &Layout) -> Result<Array<E>> {
        let layout = a.layout();
        if layout == target {
            return Ok(a.clone());
        }
        if layout.elements() != target.elements() {
            let left = a.shape().to_vec();
            let right = target.shape().to_vec();
            return Err(ArrayError::Shapes { op: OP, left, right });
        }
        if target.log_slots() > self.log_slots_max() {
            let problem = format!(
                "blocks of {} slots; at most 2^{} are possible",
                target.slots(),
                self.log_slots_max()
            );
            return Err(ArrayError::Argument { op: OP, problem });
        }
        let log_slots = layout.log_slots().max(target.log_slots());
        let a = self.widened(&self.ready(OP, a, 1)?, log_slots)?;
        let whole = target.with_log_slots(log_slots);
        match Moves::new(a.layout(), &whole, Layout::elements_of).matrices(OP) {
            Ok(matrices) => {
                let below = Level(a.level().0 - 1);
                self.check_room(OP, below, a.range())?;
                let blocks = self.applied(&a, target.blocks(), matrices)?;
                self.copied(OP, target, below, log_slots, blocks, a.range().moved())
            }
            // One matrix has too many diagonals.
            Err(error) => match Moves::in_steps(a.layout(), &whole) {
                Some(steps) => self.relayout_in_steps(&a, target, steps),
                None => Err(error),
            },
        }
    }

    fn relayout_in_steps(
        &self,
        a: &Array<E>,
        target: &Layout,
        steps: Vec<Moves>,
    ) -> Result<Array<E>> {
        let mut a = self.ready(OP, a, steps.len() as u32)?;
        let log_slots = a.layout().log_slots();
        for moves in steps {
            let blocks = self.applied(&a, target.blocks(), moves.matrices(OP)?)?;
            let level = Level(a.level().0 - 1);
            // Each transform moves some fields of the target to their places.
            let range = a.range().moved();
            a = self.array(OP, target.with_log_slots(log_slots), level, blocks, false, range)?;
        }
        let range = a.range().moved();
        self.copied(OP, target, a.level(), log_slots, a.blocks().to_vec(), range)
    }

    /// Applies the matrices and returns `count` blocks, each the sum of the products moved there,
    /// one level down.
    fn applied(
        &self,
        a: &Array<E>,
        count: usize,
        matrices: Vec<(Diagonals, Pairs)>,
    ) -> Result<Vec<Arc<E::Ct>>> {
        let mut parts: Vec<Vec<Arc<E::Ct>>> = vec![Vec::new(); count];
        for (diagonals, pairs) in matrices {
            let own: Vec<_> = pairs.iter().map(|&(_, source)| &*a.blocks()[source]).collect();
            let moved = self.transformed(a.level(), a.layout().log_slots(), &own, &diagonals)?;
            pairs.iter().zip(moved).for_each(|(&(to, _), block)| parts[to].push(block));
        }
        Ok(par::try_map(parts, |parts| self.total(&parts))?)
    }

    /// Copies the slots that are 0 in all bits outside the fields of `target` to all slots. Blocks
    /// have `2^log_slots` slots.
    fn copied(
        &self,
        op: &'static str,
        target: &Layout,
        level: Level,
        log_slots: u32,
        blocks: Vec<Arc<E::Ct>>,
        range: Bounds,
    ) -> Result<Array<E>> {
        let range = range.with_padding(0.0);
        let runs = free_runs(target);
        let blocks = par::try_map(blocks, |mut block| {
            for run in &runs {
                block = Arc::new(self.field_copy(&block, run.shift, run.len())?);
            }
            // Only one of the copies above the target's slots was written, so sums fill all of
            // them.
            if log_slots > target.log_slots() {
                let log = log_slots - target.log_slots();
                let whole = self.field_sum(&block, target.log_slots(), log)?;
                block = Arc::new(self.evaluator().with_log_slots(&whole, target.log_slots())?);
            }
            sudare::Result::Ok(block)
        })?;
        self.array(op, target.clone(), level, blocks, true, range)
    }

    /// Returns the array with axis `axes[i]` in place `i`, or with all axes reversed. This is free.
    ///
    /// # Errors
    /// [`ArrayError::Axis`] unless every axis is named once.
    pub fn transpose(&self, a: &Array<E>, axes: Option<&[usize]>) -> Result<Array<E>> {
        const OP: &str = "transpose";
        let ndim = a.shape().len();
        let axes = axes.map_or_else(|| (0..ndim).rev().collect(), <[usize]>::to_vec);
        check_axes(OP, &axes, ndim)?;
        if axes.len() != ndim {
            return Err(ArrayError::Axis { op: OP, axis: axes.len(), ndim });
        }
        Ok(a.reordered(a.layout().transposed(&axes), |at| {
            let mut own = vec![0; ndim];
            axes.iter().zip(at).for_each(|(&axis, at)| own[axis] = at);
            own
        }))
    }

    /// Returns the array in another shape with the same number of elements, in C order. This is
    /// free if only axes of one element come or go, or other axes are split or joined within whole
    /// fields. Otherwise [`Engine::relayout`] moves the array to the layout of a new one.
    ///
    /// # Errors
    /// [`ArrayError::Shapes`] for another number of elements; the errors of [`Engine::relayout`].
    pub fn reshape(&self, a: &Array<E>, shape: &[usize]) -> Result<Array<E>> {
        let target = Layout::new(shape, self.log_slots_max())?;
        match a.layout().reshaped(shape) {
            Some(layout) => Ok(a.moved().with_layout(layout)),
            None => self.relayout(a, &target),
        }
    }

    /// Returns `a[ranges[0], ranges[1], ..]`. Axes without a range stay whole, and tiles keep their
    /// size.
    ///
    /// This costs no level if each range begins with a tile or lies within one, and has two
    /// elements or more. The other elements of its tiles then become nonzero padding. Otherwise it
    /// costs one level, and the padding is zero.
    ///
    /// # Errors
    /// [`ArrayError::Range`] for a range that is empty or beyond the axis; [`ArrayError::Axis`] for
    /// more ranges than axes; [`ArrayError::LevelExhausted`]; errors of the evaluator.
    pub fn slice(&self, a: &Array<E>, ranges: &[Range<usize>]) -> Result<Array<E>> {
        const OP: &str = "slice";
        let layout = a.layout();
        if ranges.len() > layout.ndim() {
            return Err(ArrayError::Axis { op: OP, axis: layout.ndim(), ndim: layout.ndim() });
        }
        let mut target = layout.clone();
        let mut start = vec![0; layout.ndim()];
        let mut turn = 0;
        let mut moves = false;
        let mut dirty = false;
        for (axis, &Range { start: first, end }) in ranges.iter().enumerate() {
            let size = layout.shape()[axis];
            let tile = layout.tile(axis);
            if first >= end || end > size {
                return Err(ArrayError::Range { op: OP, axis, size, start: first, end });
            }
            if end - first == size {
                continue;
            }
            target = target.with_axis(axis, end - first, tile);
            start[axis] = first;
            let tiles = first / tile.len();
            let index = first % tile.len();
            let spans = index > 0 && end > (tiles + 1) * tile.len();
            // A single element must fill the field that its axis had, so it has to be copied.
            moves |= spans || (end - first == 1 && tile.log > 0);
            dirty |= index > 0 || (end < size && !end.is_multiple_of(tile.len()));
            turn += index * tile.stride();
        }
        if moves {
            let strides = c_strides(layout.shape());
            let base: usize = start.iter().zip(&strides).map(|(&i, stride)| i * stride).sum();
            let a = self.ready(OP, a, 1)?;
            let moves = Moves::new(layout, &target, |target, block| {
                let shift = |offset| if offset == PADDING { PADDING } else { base + offset };
                target.offsets(block, &strides).into_iter().map(shift).collect()
            });
            let level = Level(a.level().0 - 1);
            self.check_room(OP, level, a.range())?;
            let blocks = self.applied(&a, target.blocks(), moves.matrices(OP)?)?;
            return self.copied(
                OP,
                &target,
                level,
                layout.log_slots(),
                blocks,
                a.range().clone().loose(),
            );
        }
        let tiles: Vec<usize> =
            (0..layout.ndim()).map(|axis| start[axis] / layout.tile(axis).len()).collect();
        let part = a.reordered(target, |at| at.iter().zip(&tiles).map(|(at, t)| at + t).collect());
        let layout = part.layout().clone();
        let slots = part.layout().slots();
        let zero = a.padding_is_zero() && !dirty;
        let padding = if dirty { a.range().reach() } else { a.padding() };
        let range = a.range().clone().loose().with_padding(padding);
        // The range begins at the start of tiles, so blocks stay as they are.
        if turn == 0 {
            return Ok(Array { padding_is_zero: zero, range, ..part });
        }
        let part = self.ready(OP, &part, 0)?;
        let blocks = self.each(part.blocks(), |block| self.rotated(block, turn, slots))?;
        self.array(OP, layout, part.level(), blocks, zero, range)
    }

    /// Multiplies blocks at `level` by a matrix, one level down.
    pub(super) fn transformed(
        &self,
        level: Level,
        log_slots: u32,
        blocks: &[&E::Ct],
        diagonals: &Diagonals,
    ) -> Result<Vec<Arc<E::Ct>>> {
        let e = self.evaluator();
        // Without rotations, a matrix is a mask.
        if let [(&0, mask)] = diagonals.iter().collect::<Vec<_>>()[..] {
            return self.times_vector(level, blocks, mask);
        }
        let complex = |entries: &Vec<f64>| -> Vec<_> {
            entries.iter().map(|&x| Complex::new(x, 0.0)).collect()
        };
        // Baby and giant steps need keys for other rotations.
        if self.uses_power_rotations() {
            let scale = self.factor_scale(level);
            let diagonals: Vec<_> = diagonals.iter().map(|(&k, d)| (k, complex(d))).collect();
            let product = |block: &&E::Ct| {
                let term = |(k, entries): &(usize, Vec<_>)| {
                    e.mul_plain(&self.rotated(block, *k, 1 << log_slots)?, entries, scale)
                };
                let terms = diagonals.iter().map(term);
                let sum = terms.reduce(|sum, next| e.add(&sum?, &next?));
                let none = || Err(sudare::Error::Circuit("matrix of no diagonals".into()));
                let mut sum = sum.unwrap_or_else(none)?;
                // One rescaling for the whole sum.
                e.rescale_assign(&mut sum)?;
                Ok(Arc::new(sum))
            };
            return Ok(blocks.iter().map(product).collect::<sudare::Result<_>>()?);
        }
        let diagonals = diagonals.iter().map(|(&k, entries)| (k, complex(entries))).collect();
        let scale = self.scale_at(level);
        let below = self.scale_at(Level(level.0 - 1));
        let matrix = LinearTransform::new(log_slots, diagonals)?;
        let matrix = e.prepare(&matrix.plan(e.log_n(), e.chain(), level, scale, below)?)?;
        let mut products = Vec::with_capacity(blocks.len());
        for part in blocks.chunks(TOGETHER) {
            products.extend(e.transform_many(part, &matrix)?.into_iter().map(Arc::new));
        }
        Ok(products)
    }
}

impl<E: ComplexOps> Array<E> {
    /// Returns the array in a layout of the same blocks. `source` maps coordinates in it to
    /// coordinates here.
    fn reordered(&self, layout: Layout, source: impl Fn(Vec<usize>) -> Vec<usize>) -> Self {
        let place = |block| self.layout.block_at(&source(layout.coordinates(block)));
        let order: Vec<usize> = (0..layout.blocks()).map(place).collect();
        let same = order.iter().enumerate().all(|(i, &block)| i == block);
        // The same blocks in the same order keep their refreshed copies.
        if same && order.len() == self.blocks.len() {
            return self.moved().with_layout(layout);
        }
        let blocks = order.into_iter().map(|block| Arc::clone(&self.blocks[block])).collect();
        Self { layout, blocks, refreshed: Arc::default(), ..self.moved() }
    }
}

/// Rejects a matrix of too many diagonals.
pub(super) fn check_diagonals(op: &'static str, found: usize, slots: usize) -> Result<()> {
    let most = MAX_ENTRIES / slots;
    if found <= most { Ok(()) } else { Err(ArrayError::TooManyDiagonals { op, found, most }) }
}

/// Returns the runs of bits below the highest field that belong to no field.
fn free_runs(layout: &Layout) -> Vec<Tile> {
    let mut runs: Vec<Tile> = Vec::new();
    for bit in layout.free_bits() {
        match runs.last_mut() {
            Some(run) if run.end() == bit => run.log += 1,
            _ => runs.push(Tile { log: 1, shift: bit }),
        }
    }
    runs
}

/// Returns a mask of the bits of slots that belong to no field.
fn free_mask(layout: &Layout) -> usize {
    layout.free_bits().fold(0, |bits, bit| bits | 1 << bit)
}

/// Returns, for each element, its block and its first slot there.
fn places(layout: &Layout) -> Vec<(usize, usize)> {
    let free = free_mask(layout);
    let mut places = vec![(0, 0); layout.elements()];
    for block in 0..layout.blocks() {
        for (slot, index) in layout.elements_of(block).into_iter().enumerate() {
            if index != PADDING && slot & free == 0 {
                places[index] = (block, slot);
            }
        }
    }
    places
}

/// Pairs of blocks: the target and the source of a move.
type Pairs = Vec<(usize, usize)>;

/// Moves from the elements of one layout to another.
struct Moves {
    slots: usize,
    /// Blocks to and from, by the slots moved and the distance of the move.
    pairs: HashMap<Vec<(u32, u32)>, Pairs>,
}

impl Moves {
    /// Plans the moves between two layouts of the same number of slots. `indices` returns the
    /// element of `from`, in C order, for each slot of a block of `to`. Only slots whose bits
    /// outside all fields are 0 are written. Among equal sources, the slot with the target's bits
    /// outside the fields is read, which makes the move short.
    fn new(from: &Layout, to: &Layout, indices: impl Fn(&Layout, usize) -> Vec<usize>) -> Self {
        let slots = from.slots();
        let places = places(from);
        let from_free = free_mask(from);
        let to_free = free_mask(to);
        let moves = (0..to.blocks()).flat_map(|block| {
            let places = &places;
            let indices = indices(to, block).into_iter().enumerate();
            let written =
                indices.filter(move |&(slot, index)| index != PADDING && slot & to_free == 0);
            written.map(move |(slot, index)| {
                let (source, place) = places[index];
                ((block, slot), (source, place | slot & from_free))
            })
        });
        Self::of(slots, moves)
    }

    /// Collects moves as pairs of (block, slot), target first. Moves to one block must follow each
    /// other.
    fn of(slots: usize, moves: impl Iterator<Item = ((usize, usize), (usize, usize))>) -> Self {
        let mut by_blocks = BTreeMap::<_, Vec<(u32, u32)>>::new();
        for ((block, slot), (source, place)) in moves {
            let offset = (place + slots - slot) % slots;
            by_blocks.entry((block, source)).or_default().push((slot as u32, offset as u32));
        }
        // Pairs of blocks with the same moves share a matrix, which is encoded once.
        let mut pairs = HashMap::<_, Pairs>::new();
        for (blocks, moved) in by_blocks {
            pairs.entry(moved).or_default().push(blocks);
        }
        Self { slots, pairs }
    }

    /// Splits the moves between layouts of the same axes into steps. Each step moves the maximum
    /// number of bits of the fields that keeps its diagonals few enough. Returns `None` if bits
    /// obstruct each other, or there is nothing to split. The first step moves data between blocks.
    fn in_steps(from: &Layout, to: &Layout) -> Option<Vec<Self>> {
        if from.shape() != to.shape() {
            return None;
        }
        let slots = from.slots();
        let mut bits = Vec::new();
        let mut still = Vec::new();
        for (from, to) in (0..from.ndim()).map(|axis| (from.tile(axis), to.tile(axis))) {
            for bit in 0..to.log {
                let old = from.shift + bit;
                let new = to.shift + bit;
                match bit < from.log && old != new {
                    true => bits.push((old, new)),
                    false => still.push(new),
                }
            }
        }
        // Bits that move up go highest first, and bits that move down lowest first, so that none
        // overwrites another.
        bits.sort_by_key(|&(old, new)| if new > old { -i64::from(old) } else { old.into() });
        // From two steps on, because one step has been tried.
        let fits =
            |count: &usize| check_diagonals(OP, 1 << bits.len().div_ceil(*count), slots).is_ok();
        let size = bits.len().div_ceil((2..=bits.len()).find(fits)?);
        let to_free = free_mask(to);
        let written: Vec<(usize, usize, usize)> = (0..to.blocks())
            .flat_map(|block| {
                let indices = to.elements_of(block).into_iter().enumerate();
                indices.map(move |(slot, index)| (block, slot, index))
            })
            .filter(|&(_, slot, index)| index != PADDING && slot & to_free == 0)
            .collect();
        let places = places(from);
        let mut sources: Vec<_> = written.iter().map(|&(_, _, index)| places[index]).collect();
        let mut steps = Vec::new();
        for done in (size..bits.len() + size).step_by(size) {
            let left = &bits[done.min(bits.len())..];
            let moved = bits[..done.min(bits.len())].iter().map(|&(_, new)| new);
            let taken = still.iter().copied().chain(moved).chain(left.iter().map(|&(old, _)| old));
            let taken: Vec<u32> = taken.collect();
            if taken.iter().enumerate().any(|(i, bit)| taken[..i].contains(bit)) {
                return None;
            }
            let kept = left.iter().fold(!0, |kept, &(_, new)| kept & !(1 << new));
            // Slot of the result until the remaining bits have moved.
            let place = |slot: usize| {
                let back = |place, &(old, new): &(u32, u32)| place | (slot >> new & 1) << old;
                left.iter().fold(slot & kept, back)
            };
            let targets: Vec<_> =
                written.iter().map(|&(block, slot, _)| (block, place(slot))).collect();
            steps.push(Self::of(slots, targets.iter().copied().zip(sources)));
            sources = targets;
        }
        Some(steps)
    }

    /// Returns the matrices, each with the pairs of blocks that it applies to.
    fn matrices(self, op: &'static str) -> Result<Vec<(Diagonals, Pairs)>> {
        let slots = self.slots;
        let matrix = |(moved, pairs): (Vec<(u32, u32)>, Pairs)| {
            let mut offsets: Vec<u32> = moved.iter().map(|&(_, offset)| offset).collect();
            offsets.sort_unstable();
            offsets.dedup();
            check_diagonals(op, offsets.len(), slots)?;
            let mut diagonals = Diagonals::new();
            for (slot, offset) in moved {
                let entries = diagonals.entry(offset as usize).or_insert_with(|| vec![0.0; slots]);
                entries[slot as usize] = 1.0;
            }
            Ok((diagonals, pairs))
        };
        let mut matrices = self.pairs.into_iter().map(matrix).collect::<Result<Vec<_>>>()?;
        // The order of a hash map is random, and a run must not depend on it.
        matrices.sort_by(|a, b| a.1.cmp(&b.1));
        Ok(matrices)
    }
}
