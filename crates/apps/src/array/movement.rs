//! Elements moved to other slots.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use sudare::{
    circuits::{Complex, LinearTransform, Ops},
    rlwe::Level,
};
use sudare_arith::par;

use super::{
    Array, ArrayError, Engine, Layout, Result,
    engine::TOGETHER,
    layout::{PADDING, Tile},
    reduce::check_axes,
};

/// Most entries of the diagonals of one matrix: 16 bytes each, and as many again for every
/// prime where it is encoded.
const MAX_ENTRIES: usize = 1 << 23;

/// A matrix over the slots, by its diagonals as [`LinearTransform`] has them.
pub(super) type Diagonals = BTreeMap<usize, Vec<f64>>;

impl<E: Ops> Engine<'_, E> {
    /// The same array in another layout, of any shape with as many elements in C order, by one
    /// linear transform of the slots: one level, or none where it only says otherwise what
    /// slots hold. Padding is zero then.
    ///
    /// # Errors
    /// [`ArrayError::Shapes`] for another number of elements; [`ArrayError::TooManyDiagonals`]
    /// where elements move in too many ways; [`ArrayError::LevelExhausted`]; what the evaluator
    /// refuses.
    pub fn relayout(&self, a: &Array<E>, target: &Layout) -> Result<Array<E>> {
        const OP: &str = "change of layout";
        let layout = a.layout();
        if layout == target {
            return Ok(a.clone());
        }
        if layout.elements() != target.elements() {
            let (left, right) = (a.shape().to_vec(), target.shape().to_vec());
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
        let moves = Moves::new(a.layout(), &target.with_log_slots(log_slots));
        let mut parts: Vec<Vec<Arc<E::Ct>>> = vec![Vec::new(); target.blocks()];
        for (diagonals, pairs) in moves.matrices(OP)? {
            let own: Vec<_> = pairs.iter().map(|&(_, source)| &*a.blocks()[source]).collect();
            let moved = self.transformed(a.level(), log_slots, &own, &diagonals)?;
            pairs.iter().zip(moved).for_each(|(&(to, _), block)| parts[to].push(block));
        }
        let runs = free_runs(target);
        let blocks = par::try_map(parts, |parts| {
            let mut block = self.total(&parts)?;
            for run in &runs {
                block = Arc::new(self.field_copy(&block, run.shift, run.log)?);
            }
            if log_slots > target.log_slots() {
                let log = log_slots - target.log_slots();
                let whole = self.field_sum(&block, target.log_slots(), log)?;
                block = Arc::new(self.e.with_log_slots(&whole, target.log_slots())?);
            }
            sudare::Result::Ok(block)
        })?;
        Ok(self.array(target.clone(), Level(a.level().0 - 1), blocks, true))
    }

    /// The array with axis `axes[i]` in place `i`, or all in reverse; free.
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

    /// The array in another shape of as many elements, in C order. Free where axes of one element
    /// come or go and where others are cut or joined within whole fields; else by
    /// [`Engine::relayout`] to that of a new array.
    ///
    /// # Errors
    /// [`ArrayError::Shapes`] for another number of elements; as [`Engine::relayout`].
    pub fn reshape(&self, a: &Array<E>, shape: &[usize]) -> Result<Array<E>> {
        let target = Layout::new(shape, self.log_slots_max())?;
        match a.layout().reshaped(shape) {
            Some(layout) => Ok(a.with_layout(layout)),
            None => self.relayout(a, &target),
        }
    }

    /// Products of a matrix with blocks at `level`, one level down.
    pub(super) fn transformed(
        &self,
        level: Level,
        log_slots: u32,
        blocks: &[&E::Ct],
        diagonals: &Diagonals,
    ) -> Result<Vec<Arc<E::Ct>>> {
        let e = self.e;
        if let [(&0, mask)] = diagonals.iter().collect::<Vec<_>>()[..] {
            return self.times_vector(level, blocks, mask);
        }
        let complex = |entries: &Vec<f64>| -> Vec<_> {
            entries.iter().map(|&x| Complex::new(x, 0.0)).collect()
        };
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
                e.rescale_assign(&mut sum)?;
                Ok(Arc::new(sum))
            };
            return Ok(blocks.iter().map(product).collect::<sudare::Result<_>>()?);
        }
        let diagonals = diagonals.iter().map(|(&k, entries)| (k, complex(entries))).collect();
        let (scale, below) = (self.scale_at(level), self.scale_at(Level(level.0 - 1)));
        let matrix = LinearTransform::new(log_slots, diagonals)?;
        let matrix = e.prepare(&matrix.plan(e.log_n(), e.chain(), level, scale, below)?)?;
        let mut products = Vec::with_capacity(blocks.len());
        for part in blocks.chunks(TOGETHER) {
            products.extend(e.transform_many(part, &matrix)?.into_iter().map(Arc::new));
        }
        Ok(products)
    }
}

impl<E: Ops> Array<E> {
    /// In a layout of the same blocks, of which `source` says the coordinates here.
    fn reordered(&self, layout: Layout, source: impl Fn(Vec<usize>) -> Vec<usize>) -> Self {
        let place = |block| self.layout.block_at(&source(layout.coordinates(block)));
        let order: Vec<usize> = (0..layout.blocks()).map(place).collect();
        if order.iter().enumerate().all(|(i, &block)| i == block) {
            return self.with_layout(layout);
        }
        let blocks = order.into_iter().map(|block| Arc::clone(&self.blocks[block])).collect();
        Self { layout, blocks, refreshed: Arc::default(), ..self.clone() }
    }
}

/// Refuses a matrix of too many diagonals.
pub(super) fn check_diagonals(op: &'static str, found: usize, slots: usize) -> Result<()> {
    let most = MAX_ENTRIES / slots;
    if found <= most { Ok(()) } else { Err(ArrayError::TooManyDiagonals { op, found, most }) }
}

/// The runs of bits below the highest field that no field has.
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

/// Where the elements of a layout go.
struct Moves {
    slots: usize,
    /// By the slots moved, to and by how much, the blocks that they are moved to and from.
    pairs: HashMap<Vec<(u32, u32)>, Vec<(usize, usize)>>,
}

impl Moves {
    /// Both of as many slots. Slots with an index in bits that no field has are not written, and
    /// read where that is nearest.
    fn new(from: &Layout, to: &Layout) -> Self {
        let slots = from.slots();
        let free = |layout: &Layout| layout.free_bits().fold(0, |bits, bit| bits | 1 << bit);
        let (from_free, to_free): (usize, usize) = (free(from), free(to));
        let mut places = vec![(0u32, 0u32); from.elements()];
        for block in 0..from.blocks() {
            for (slot, index) in from.elements_of(block).into_iter().enumerate() {
                if index != PADDING && slot & from_free == 0 {
                    places[index] = (block as u32, slot as u32);
                }
            }
        }
        let mut pairs = HashMap::<_, Vec<_>>::new();
        for block in 0..to.blocks() {
            let mut moved = BTreeMap::<usize, Vec<(u32, u32)>>::new();
            for (slot, index) in to.elements_of(block).into_iter().enumerate() {
                if index != PADDING && slot & to_free == 0 {
                    let (source, place) = places[index];
                    let place = place as usize | slot & from_free;
                    let offset = (place + slots - slot) % slots;
                    moved.entry(source as usize).or_default().push((slot as u32, offset as u32));
                }
            }
            for (source, moved) in moved {
                pairs.entry(moved).or_default().push((block, source));
            }
        }
        Self { slots, pairs }
    }

    /// The matrices, each with the blocks that it takes to and from.
    #[allow(clippy::type_complexity)]
    fn matrices(self, op: &'static str) -> Result<Vec<(Diagonals, Vec<(usize, usize)>)>> {
        let slots = self.slots;
        let matrix = |(moved, pairs): (Vec<(u32, u32)>, Vec<(usize, usize)>)| {
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
        matrices.sort_by(|a, b| a.1.cmp(&b.1));
        Ok(matrices)
    }
}
