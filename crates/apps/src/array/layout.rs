use core::{cmp::Ordering, ops::Range};
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ArrayError, Result};

/// Maximum number of elements of an array.
const MAX_ELEMENTS: u64 = 1 << 40;

/// Maximum number of axes of an array.
const MAX_AXES: usize = 32;

/// `log2` of the maximum number of slots of a block, in the largest ring.
const MAX_LOG_SLOTS: u32 = 16;

/// Index that marks a slot of padding.
pub(super) const PADDING: usize = usize::MAX;

/// Map from the elements of an array to the slots of *blocks*, each a ciphertext of `2^log_slots`
/// slots.
///
/// Axis `i` is cut into tiles of `2^log_i` elements, and a block holds one tile of every axis. The
/// index within a tile is a field of bits of the slot's index, `log_i` bits from bit `shift_i` up.
/// Values repeat along bits that belong to no field. Blocks are in C order of the tiles. Slots
/// beyond the end of an axis are *padding*.
///
/// A new array fills the fields from the last axis on, so slots are in C order. An axis of one
/// element has no field: it may be broadcast along any bits that are free.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "RawLayout", into = "RawLayout")]
pub struct Layout {
    shape: Vec<usize>,
    tiles: Vec<Tile>,
    log_slots: u32,
}

/// Tile of an axis: a field of bits of the slot's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tile {
    /// `log2` of the elements of a tile.
    pub log: u32,
    /// The lowest bit of the field.
    pub shift: u32,
}

impl Tile {
    pub fn len(self) -> usize {
        1 << self.log
    }

    /// Distance in slots from one index to the next.
    pub fn stride(self) -> usize {
        1 << self.shift
    }

    /// The bit just above the field.
    pub fn end(self) -> u32 {
        self.shift + self.log
    }

    fn bits(self) -> Range<u32> {
        self.shift..self.end()
    }

    pub fn overlaps(self, other: Self) -> bool {
        self.shift.max(other.shift) < self.end().min(other.end())
    }

    /// Returns the index of a slot along the axis.
    pub fn index(self, slot: usize) -> usize {
        (slot >> self.shift) & (self.len() - 1)
    }

    /// Returns a mask of `slots` slots: 1 in slots of index 0, and 0 in the others.
    pub fn first(self, slots: usize) -> Vec<f64> {
        (0..slots).map(|slot| if self.index(slot) == 0 { 1.0 } else { 0.0 }).collect()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLayout {
    shape: Vec<usize>,
    tiles: Vec<Tile>,
    log_slots: u32,
}

impl From<Layout> for RawLayout {
    fn from(layout: Layout) -> Self {
        let Layout { shape, tiles, log_slots } = layout;
        Self { shape, tiles, log_slots }
    }
}

impl TryFrom<RawLayout> for Layout {
    type Error = ArrayError;

    fn try_from(raw: RawLayout) -> Result<Self> {
        Self::from_tiles(raw.shape, raw.tiles, raw.log_slots)
    }
}

impl Layout {
    /// Creates the layout of a new array, in blocks of at most `2^log_slots_max` slots.
    ///
    /// # Errors
    /// [`ArrayError::Empty`] for an axis of no elements; [`ArrayError::TooLarge`] for more than
    /// 2^40 elements or 32 axes.
    pub fn new(shape: &[usize], log_slots_max: u32) -> Result<Self> {
        check_shape(shape)?;
        let mut tiles = vec![Tile::default(); shape.len()];
        let mut used = 0;
        let most = log_slots_max.min(MAX_LOG_SLOTS);
        for (tile, &size) in tiles.iter_mut().zip(shape).rev() {
            if size > 1 {
                let log = ceil_log2(size).min(most - used);
                *tile = Tile { log, shift: used };
                used += log;
            }
        }
        Self::from_tiles(shape.to_vec(), tiles, used)
    }

    /// Builds a layout of these fields. Fields of axes of one element get no bits.
    pub(super) fn from_tiles(
        shape: Vec<usize>,
        mut tiles: Vec<Tile>,
        log_slots: u32,
    ) -> Result<Self> {
        check_shape(&shape)?;
        let invalid = |problem: String| Err(ArrayError::InvalidLayout { problem });
        if tiles.len() != shape.len() || log_slots > MAX_LOG_SLOTS {
            return invalid(format!(
                "{} fields for {} axes in 2^{log_slots} slots",
                tiles.len(),
                shape.len()
            ));
        }
        let mut used = 0u64;
        for (axis, (tile, &size)) in tiles.iter_mut().zip(&shape).enumerate() {
            // A layout may come from a file, so its sums may overflow.
            let end = tile.shift.checked_add(tile.log);
            if end.is_none_or(|end| end > log_slots) {
                return invalid(format!("axis {axis} exceeds the 2^{log_slots} slots"));
            }
            if size == 1 && tile.log > 0 {
                return invalid(format!("axis {axis} has one element and a field of its own"));
            }
            // Axes without a field have one form, so that equal layouts compare as equal.
            if tile.log == 0 {
                *tile = Tile::default();
            }
            let bits = ((1u64 << tile.log) - 1) << tile.shift;
            if used & bits != 0 {
                return invalid(format!("axis {axis} shares bits of the slots with another"));
            }
            used |= bits;
        }
        Ok(Self { shape, tiles, log_slots })
    }

    /// Returns the number of elements along each axis.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns `log2` of the slots of a block.
    #[must_use]
    pub fn log_slots(&self) -> u32 {
        self.log_slots
    }

    /// Returns the slots of a block.
    #[must_use]
    pub fn slots(&self) -> usize {
        1 << self.log_slots
    }

    /// Returns the number of blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        (0..self.shape.len()).map(|axis| self.grid(axis)).product()
    }

    /// Returns whether there is padding.
    #[must_use]
    pub fn is_padded(&self) -> bool {
        (0..self.shape.len()).any(|axis| self.pads(axis))
    }

    /// Returns the layout of the sum over `axes`, without these axes. An array encrypted in it
    /// matches such sums. It also matches the summed array if it is broadcast along `axes`. In both
    /// cases no element has to move.
    ///
    /// # Errors
    /// [`ArrayError::Axis`] for an axis that does not exist or is named twice.
    pub fn summed(&self, axes: &[usize]) -> Result<Self> {
        check_axes("sum", axes, self.ndim())?;
        let ones = axes
            .iter()
            .fold(self.clone(), |layout, &axis| layout.with_axis(axis, 1, Tile::default()));
        Ok(ones.without_axes(|axis| axes.contains(&axis)))
    }

    pub(super) fn ndim(&self) -> usize {
        self.shape.len()
    }

    pub(super) fn tile(&self, axis: usize) -> Tile {
        self.tiles[axis]
    }

    /// Returns the blocks along an axis.
    pub(super) fn grid(&self, axis: usize) -> usize {
        self.shape[axis].div_ceil(self.tiles[axis].len())
    }

    /// Returns whether the last block along an axis has padding.
    pub(super) fn pads(&self, axis: usize) -> bool {
        !self.shape[axis].is_multiple_of(self.tiles[axis].len())
    }

    /// Returns whether values repeat in all bits from `bit` up.
    pub(super) fn repeats_from(&self, bit: u32) -> bool {
        self.tiles.iter().all(|tile| tile.end() <= bit)
    }

    /// Returns the bits that belong to no field, from the lowest.
    pub(super) fn free_bits(&self) -> impl Iterator<Item = u32> {
        (0..self.log_slots).filter(|bit| !self.tiles.iter().any(|tile| tile.bits().contains(bit)))
    }

    /// Returns the coordinates of a block in the grid.
    pub(super) fn coordinates(&self, mut block: usize) -> Vec<usize> {
        let mut coordinates = vec![0; self.ndim()];
        for (axis, at) in coordinates.iter_mut().enumerate().rev() {
            *at = block % self.grid(axis);
            block /= self.grid(axis);
        }
        coordinates
    }

    /// Returns the block at these coordinates.
    pub(super) fn block_at(&self, coordinates: &[usize]) -> usize {
        let places = coordinates.iter().enumerate();
        places.fold(0, |block, (axis, at)| block * self.grid(axis) + at)
    }

    /// Returns, for each tile of an axis, the blocks that contain it, ordered by their other
    /// coordinates.
    pub(super) fn along(&self, axis: usize) -> Vec<Vec<usize>> {
        let mut along = vec![Vec::new(); self.grid(axis)];
        for block in 0..self.blocks() {
            along[self.coordinates(block)[axis]].push(block);
        }
        along
    }

    /// Returns the place of a block among the blocks with the same tile of an axis.
    pub(super) fn rest(&self, axis: usize, block: usize) -> usize {
        let places = self.coordinates(block).into_iter().enumerate();
        let others = places.filter(|&(other, _)| other != axis);
        others.fold(0, |rest, (other, at)| rest * self.grid(other) + at)
    }

    /// Returns, for each slot of a block, the sum of `strides[axis] * index` over the axes, or
    /// [`PADDING`].
    pub(super) fn offsets(&self, block: usize, strides: &[usize]) -> Vec<usize> {
        let mut offsets = vec![0usize; self.slots()];
        for (axis, at) in self.coordinates(block).into_iter().enumerate() {
            let tile = self.tiles[axis];
            let size = self.shape[axis];
            let start = at * tile.len();
            let valid = tile.len().min(size - start);
            let stride = strides[axis];
            // Such an axis has neither padding here nor a distance to add.
            if valid == tile.len() && (stride == 0 || size == 1) {
                continue;
            }
            for (slot, offset) in offsets.iter_mut().enumerate() {
                let index = tile.index(slot);
                *offset = match index < valid {
                    true if *offset != PADDING => *offset + (start + index) * stride,
                    _ => PADDING,
                };
            }
        }
        offsets
    }

    /// Returns, for each slot of a block, the index of its element in C order, or [`PADDING`].
    pub(super) fn elements_of(&self, block: usize) -> Vec<usize> {
        self.offsets(block, &c_strides(&self.shape))
    }

    /// Returns the slots of each block. Pass the values in C order; missing values are 0.
    #[must_use]
    pub fn scatter(&self, values: &[f64]) -> Vec<Vec<f64>> {
        (0..self.blocks()).map(|block| self.scatter_block(values, block)).collect()
    }

    pub(super) fn scatter_block(&self, values: &[f64], block: usize) -> Vec<f64> {
        // `PADDING` is beyond all values, so it yields 0.
        let value = |index| values.get(index).copied().unwrap_or(0.0);
        self.elements_of(block).into_iter().map(value).collect()
    }

    /// Returns the values of these slots in C order, without padding. Missing slots yield NaN.
    #[must_use]
    pub fn gather(&self, blocks: &[Vec<f64>]) -> Vec<f64> {
        let mut values = vec![f64::NAN; self.elements()];
        for (block, slots) in blocks.iter().enumerate().take(self.blocks()) {
            for (index, &slot) in self.elements_of(block).into_iter().zip(slots) {
                if index != PADDING {
                    values[index] = slot;
                }
            }
        }
        values
    }

    /// Returns the layout in blocks of more slots, where values repeat.
    pub(super) fn with_log_slots(&self, log_slots: u32) -> Self {
        debug_assert!(self.repeats_from(log_slots));
        Self { log_slots, ..self.clone() }
    }

    /// Returns the layout with axis `axes[i]` in place `i`.
    pub(super) fn transposed(&self, axes: &[usize]) -> Self {
        Self {
            shape: axes.iter().map(|&axis| self.shape[axis]).collect(),
            tiles: axes.iter().map(|&axis| self.tiles[axis]).collect(),
            log_slots: self.log_slots,
        }
    }

    /// Returns the layout of the same slots for another shape with the same number of elements in C
    /// order, if there is one.
    ///
    /// Axes of one element come and go. Other axes are divided into runs before and after, each run
    /// with the same number of elements on both sides. The fields of a run follow each other
    /// without padding, and only the first field of a run may have several tiles.
    pub(super) fn reshaped(&self, shape: &[usize]) -> Option<Self> {
        let live: Vec<usize> = (0..self.ndim()).filter(|&axis| self.shape[axis] > 1).collect();
        let mut tiles = vec![Tile::default(); shape.len()];
        let mut own = live.into_iter().peekable();
        let mut next = (0..shape.len()).filter(|&axis| shape[axis] > 1).peekable();
        while own.peek().is_some() && next.peek().is_some() {
            // The shortest runs of axes, before and after, with the same number of elements.
            let mut before = vec![own.next()?];
            let mut after = vec![next.next()?];
            let count = |axes: &[usize], shape: &[usize]| -> usize {
                axes.iter().map(|&axis| shape[axis]).product()
            };
            loop {
                let found = count(&before, &self.shape);
                let needed = count(&after, shape);
                match found.cmp(&needed) {
                    Ordering::Equal => break,
                    Ordering::Less => before.push(own.next()?),
                    Ordering::Greater => after.push(next.next()?),
                }
            }
            if let ([axis], [to]) = (&before[..], &after[..]) {
                tiles[*to] = self.tiles[*axis];
                continue;
            }
            // All fields of the run as one; only the first axis may have several tiles.
            let mut field = self.tiles[before[0]];
            for &axis in &before[1..] {
                let tile = self.tiles[axis];
                let whole = tile.len() == self.shape[axis] && field.log > 0;
                if !whole || field.shift != tile.end() {
                    return None;
                }
                field = Tile { log: field.log + tile.log, shift: tile.shift };
            }
            let mut log = field.log;
            for &axis in after[1..].iter().rev() {
                let own = ceil_log2(shape[axis]);
                // A bit must be left for the first axis, which has several elements.
                if shape[axis] != 1 << own || own >= log {
                    return None;
                }
                tiles[axis] = Tile { log: own, shift: field.shift + field.log - log };
                log -= own;
            }
            tiles[after[0]] = Tile { log, shift: field.end() - log };
        }
        if own.peek().is_some() || next.peek().is_some() {
            return None;
        }
        Self::from_tiles(shape.to_vec(), tiles, self.log_slots).ok()
    }

    /// Returns the layout with `count` axes of one element before the others.
    pub(super) fn with_leading_axes(&self, count: usize) -> Self {
        Self {
            shape: [&vec![1; count], &self.shape[..]].concat(),
            tiles: [&vec![Tile::default(); count], &self.tiles[..]].concat(),
            log_slots: self.log_slots,
        }
    }

    /// Returns the layout with `size` elements along an axis, in the tile passed.
    pub(super) fn with_axis(&self, axis: usize, size: usize, tile: Tile) -> Self {
        let mut layout = self.clone();
        layout.shape[axis] = size;
        layout.tiles[axis] = if size == 1 || tile.log == 0 { Tile::default() } else { tile };
        layout
    }

    /// Returns the layout with `size` elements along an axis that has one. They use the free bits
    /// above all fields, up to blocks of at most `2^log_slots_max` slots.
    pub(super) fn stretched(&self, axis: usize, size: usize, log_slots_max: u32) -> Self {
        let shift = self.tiles.iter().map(|tile| tile.end()).max().unwrap_or(0);
        let log = ceil_log2(size).min(log_slots_max.saturating_sub(shift));
        let layout = self.with_axis(axis, size, Tile { log, shift });
        Self { log_slots: self.log_slots.max(shift + log), ..layout }
    }

    /// Returns one layout for two operands that are broadcast to `shape`, if neither has to move.
    pub(super) fn merged(&self, other: &Self, shape: &[usize]) -> Option<Self> {
        let mut tiles = vec![Tile::default(); shape.len()];
        for (axis, tile) in tiles.iter_mut().enumerate() {
            let live = [self, other].map(|own| (own.shape[axis] > 1).then_some(own.tiles[axis]));
            *tile = match live {
                [Some(a), Some(b)] if a != b => return None,
                [a, b] => a.or(b).unwrap_or_default(),
            };
        }
        let log_slots = self.log_slots.max(other.log_slots);
        // Fields that overlap are an error there, and here a reason to move an operand.
        Self::from_tiles(shape.to_vec(), tiles, log_slots).ok()
    }

    /// Returns, for each block, the matching block of `own`, a layout of the same fields that has
    /// one element where this layout is broadcast.
    pub(super) fn sources(&self, own: &Self) -> Vec<usize> {
        let source = |block| {
            let mut at = self.coordinates(block);
            for (axis, at) in at.iter_mut().enumerate() {
                if own.shape[axis] == 1 {
                    *at = 0;
                }
            }
            own.block_at(&at)
        };
        (0..self.blocks()).map(source).collect()
    }

    /// Groups blocks whose slots are alike. Blocks differ by their coordinate along axes for which
    /// `varies` returns true. Along other axes they differ by whether the axis ends within the
    /// block.
    pub(super) fn alike(&self, varies: impl Fn(usize) -> bool) -> BTreeMap<Vec<usize>, Vec<usize>> {
        let mut groups = BTreeMap::<_, Vec<usize>>::new();
        for block in 0..self.blocks() {
            let mut at = self.coordinates(block);
            for (axis, at) in at.iter_mut().enumerate() {
                if !varies(axis) {
                    *at = usize::from(self.pads(axis) && *at + 1 == self.grid(axis));
                }
            }
            groups.entry(at).or_default().push(block);
        }
        groups
    }

    /// Returns the layout without the axes for which `drop` returns true. All of them have one
    /// element.
    pub(super) fn without_axes(&self, drop: impl Fn(usize) -> bool) -> Self {
        let kept = || (0..self.ndim()).filter(|&axis| !drop(axis));
        Self {
            shape: kept().map(|axis| self.shape[axis]).collect(),
            tiles: kept().map(|axis| self.tiles[axis]).collect(),
            log_slots: self.log_slots,
        }
    }
}

/// Rejects axes that do not exist or are named twice.
pub(super) fn check_axes(op: &'static str, axes: &[usize], ndim: usize) -> Result<()> {
    for (i, &axis) in axes.iter().enumerate() {
        if axis >= ndim || axes[..i].contains(&axis) {
            return Err(ArrayError::Axis { op, axis, ndim });
        }
    }
    Ok(())
}

fn check_shape(shape: &[usize]) -> Result<()> {
    if let Some(axis) = shape.iter().position(|&size| size == 0) {
        return Err(ArrayError::Empty { shape: shape.to_vec(), axis });
    }
    let elements = shape.iter().try_fold(1usize, |all, &size| all.checked_mul(size));
    if shape.len() > MAX_AXES || elements.is_none_or(|elements| elements as u64 > MAX_ELEMENTS) {
        // A shape from a file may have any number of axes.
        let shape = shape.iter().take(MAX_AXES + 1).copied().collect();
        return Err(ArrayError::TooLarge { shape });
    }
    Ok(())
}

/// Returns `ceil(log2(n))` for `n` of at least 1.
pub(super) fn ceil_log2(n: usize) -> u32 {
    n.next_power_of_two().ilog2()
}

/// Returns the distance in elements from one index to the next along each axis, in C order.
pub(super) fn c_strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

/// Returns the broadcast shape of two operands. Axes are aligned at the last, and axes of one
/// element match any size.
pub(super) fn broadcast_shape(op: &'static str, a: &[usize], b: &[usize]) -> Result<Vec<usize>> {
    let ndim = a.len().max(b.len());
    let size = |shape: &[usize], axis: usize| {
        (axis + shape.len()).checked_sub(ndim).map_or(1, |axis| shape[axis])
    };
    let sizes = (0..ndim).map(|axis| match (size(a, axis), size(b, axis)) {
        (a, b) if a == b || b == 1 => Some(a),
        (1, b) => Some(b),
        _ => None,
    });
    let shape = sizes.collect::<Option<Vec<_>>>().ok_or_else(|| ArrayError::Shapes {
        op,
        left: a.to_vec(),
        right: b.to_vec(),
    })?;
    check_shape(&shape)?;
    Ok(shape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn new_layouts_fill_the_slots_from_the_last_axis() {
        let tiles = |shape: &[usize], most| {
            let layout = Layout::new(shape, most).unwrap();
            let tiles: Vec<_> = layout.tiles.iter().map(|tile| (tile.log, tile.shift)).collect();
            (tiles, layout.log_slots, layout.blocks())
        };
        assert_eq!(tiles(&[], 5), (vec![], 0, 1));
        assert_eq!(tiles(&[5], 5), (vec![(3, 0)], 3, 1));
        assert_eq!(tiles(&[100], 5), (vec![(5, 0)], 5, 4));
        assert_eq!(tiles(&[100, 3], 5), (vec![(3, 2), (2, 0)], 5, 13));
        assert_eq!(tiles(&[2, 1, 33], 5), (vec![(0, 0), (0, 0), (5, 0)], 5, 4));
    }

    #[test]
    fn shapes_without_elements_or_too_many_are_refused() {
        assert!(matches!(Layout::new(&[3, 0], 5), Err(ArrayError::Empty { axis: 1, .. })));
        for shape in [&[usize::MAX, 2][..], &[1 << 20, 1 << 21], &[1; 33]] {
            assert!(matches!(Layout::new(shape, 5), Err(ArrayError::TooLarge { .. })));
        }
    }

    #[test]
    fn layouts_come_back_from_their_json_and_wrong_ones_are_refused() {
        let layout = Layout::new(&[7, 5], 4).unwrap();
        let json = serde_json::to_string(&layout).unwrap();
        assert_eq!(serde_json::from_str::<Layout>(&json).unwrap(), layout);
        for (from, to) in [
            ("\"shift\":0", "\"shift\":1"),
            ("\"shift\":3", "\"shift\":4294967295"),
            ("\"log_slots\":4", "\"log_slots\":64"),
            ("[7,5]", "[7,1]"),
            ("[7,5]", "[7,0]"),
            ("[7,5]", "[7]"),
        ] {
            assert!(json.contains(from), "{json}");
            assert!(serde_json::from_str::<Layout>(&json.replace(from, to)).is_err(), "{to}");
        }
    }

    proptest! {
        #[test]
        fn gathering_undoes_scattering(
            shape in prop::collection::vec(1usize..9, 0..4),
            most in 0u32..7,
            order in any::<prop::sample::Index>(),
        ) {
            let layout = Layout::new(&shape, most).unwrap();
            let mut axes: Vec<usize> = (0..shape.len()).collect();
            if !axes.is_empty() {
                let turn = order.index(axes.len());
                axes.rotate_left(turn);
            }
            let layout = layout.transposed(&axes);
            let values: Vec<f64> = (1..=layout.elements()).map(|i| i as f64).collect();
            let blocks = layout.scatter(&values);
            prop_assert_eq!(blocks.len(), layout.blocks());
            let nonzero = blocks.concat().iter().filter(|&&x| x != 0.0).count();
            prop_assert_eq!(nonzero, values.len());
            prop_assert_eq!(layout.gather(&blocks), values);
        }
    }
}
