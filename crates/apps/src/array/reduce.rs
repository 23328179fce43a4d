//! Sums along axes.

use std::sync::Arc;

use sudare::{circuits::ckks::ComplexOps, rlwe::Level};
use sudare_arith::par;

use super::{
    Array, ArrayError, Engine, Range, Result,
    layout::{Layout, Tile, check_axes},
};

/// # Reductions
///
/// With `keepdims`, a summed axis stays as an axis of one element. Otherwise it is removed. Without
/// named axes, all axes are summed.
///
/// | operation | levels |
/// |---|---|
/// | sum over axes whose fields lie above all other fields | 0 |
/// | sum over other axes | 1 |
/// | mean | 1 |
/// | variance | 3 |
///
/// One more level is needed if a summed axis has nonzero padding, unless the sum already has a
/// level for its factor.
///
/// The leading axes of a new array have fields above all others, and so do axes that have one
/// element in each block.
impl<E: ComplexOps> Engine<'_, E> {
    /// Returns the sum over `axes`.
    ///
    /// # Errors
    /// [`ArrayError::Axis`]; [`ArrayError::LevelExhausted`]; errors of the evaluator.
    pub fn sum(&self, a: &Array<E>, axes: Option<&[usize]>, keepdims: bool) -> Result<Array<E>> {
        let reduction = Reduction::new("sum", a, axes)?;
        self.reduced(a, &reduction, 1.0).map(|sum| reduction.finished(sum, keepdims))
    }

    /// Returns the mean over `axes`.
    ///
    /// # Errors
    /// The errors of [`Engine::sum`].
    pub fn mean(&self, a: &Array<E>, axes: Option<&[usize]>, keepdims: bool) -> Result<Array<E>> {
        let reduction = Reduction::new("mean", a, axes)?;
        let factor = 1.0 / reduction.count as f64;
        self.reduced(a, &reduction, factor).map(|sum| reduction.finished(sum, keepdims))
    }

    /// Returns the variance over `axes`: the sum of squared differences from the mean, divided by
    /// the number of elements minus `ddof`.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] for a `ddof` of the number of elements or more; the errors of
    /// [`Engine::sum`].
    pub fn var(
        &self,
        a: &Array<E>,
        axes: Option<&[usize]>,
        keepdims: bool,
        ddof: usize,
    ) -> Result<Array<E>> {
        let reduction = Reduction::new("variance", a, axes)?;
        let count = reduction.count;
        let Some(freedom) = count.checked_sub(ddof).filter(|&freedom| freedom > 0) else {
            let problem = format!("{count} values minus ddof {ddof}: no degree of freedom is left");
            return Err(ArrayError::Argument { op: reduction.op, problem });
        };
        // A mean that is zero in the padding leaves differences zero there, which saves a mask.
        let layout = a.layout();
        let fills = |&axis: &usize| layout.pads(axis) && layout.grid(axis) == 1;
        // Copies to the size of an axis take rotations by other numbers than powers of two.
        let within: Vec<usize> = match a.padding_is_zero() && !self.uses_power_rotations() {
            true => reduction.axes.iter().copied().filter(fills).collect(),
            false => Vec::new(),
        };
        let mean = self.reduced_within(a, &reduction, 1.0 / count as f64, &within)?;
        let squares = self.square(&self.sub(a, &mean)?)?;
        let sum = self.reduced(&squares, &reduction, 1.0 / freedom as f64)?;
        Ok(reduction.finished(sum, keepdims))
    }

    /// Returns `factor` times the sum, with summed axes of one element.
    fn reduced(&self, a: &Array<E>, reduction: &Reduction, factor: f64) -> Result<Array<E>> {
        self.reduced_within(a, reduction, factor, &[])
    }

    /// Returns the sum with the elements repeated along the axes of `within`. Each of these axes
    /// keeps its size, which is one tile, and its padding is zero.
    fn reduced_within(
        &self,
        a: &Array<E>,
        reduction: &Reduction,
        factor: f64,
        within: &[usize],
    ) -> Result<Array<E>> {
        let layout = a.layout();
        // An axis of one element is its own sum.
        let live = |&axis: &usize| layout.shape()[axis] > 1;
        let summed: Vec<usize> = reduction.axes.iter().copied().filter(live).collect();
        let kept = (0..layout.ndim()).filter(|axis| !summed.contains(axis));
        // Without a kept field below it, summing a field reaches cyclically over the bits above.
        // These have been summed before, so the sum is in all slots.
        let above = kept.map(|axis| layout.tile(axis).end()).max().unwrap_or(0);
        let mut fields: Vec<Tile> = summed.iter().map(|&axis| layout.tile(axis)).collect();
        fields.retain(|tile| tile.log > 0);
        // The highest field first, as sums of the lower ones reach over the bits above.
        fields.sort_by_key(|tile| core::cmp::Reverse(tile.shift));
        let copies: Vec<(Tile, usize)> = summed
            .iter()
            .map(|&axis| (axis, layout.tile(axis)))
            .filter(|(axis, tile)| tile.log > 0 && (tile.shift < above || within.contains(axis)))
            .map(|(axis, tile)| match within.contains(&axis) {
                true => (tile, layout.shape()[axis]),
                false => (tile, tile.len()),
            })
            .collect();

        let dirty = !a.padding_is_zero() && summed.iter().any(|&axis| layout.pads(axis));
        let masks = u32::from(dirty);
        let scales = u32::from(!copies.is_empty());
        let scales_alone = u32::from(factor != 1.0 && masks + scales == 0);
        let mut a = self.ready(reduction.op, a, masks + scales + scales_alone)?;
        let range = total_range(&a, reduction.count, &summed, dirty);
        let level = Level(a.level().0 - masks);
        // Without the factor, which may come last.
        self.check_room(reduction.op, level, &range)?;
        let summed_range = range.scaled(factor);
        let mut factor = factor;
        if dirty {
            // A mask applies the factor for free, unless a later mask does.
            let first = if copies.is_empty() { core::mem::replace(&mut factor, 1.0) } else { 1.0 };
            a = self.masked(reduction.op, &a, first)?;
        }
        let target = reduction
            .axes
            .iter()
            .fold(layout.clone(), |layout, &axis| layout.with_axis(axis, 1, Tile::default()));
        let groups = self.summands(&a, &target);
        let blocks = par::try_map(groups, |blocks| {
            let mut sum = self.total(&blocks)?;
            for field in &fields {
                sum = Arc::new(self.field_sum(&sum, field.shift, field.log)?);
            }
            sudare::Result::Ok(sum)
        })?;
        let zero = a.padding_is_zero();
        let sum = self.array(reduction.op, target, a.level(), blocks, zero, range)?;
        if !copies.is_empty() {
            let sum = self.spread(reduction.op, &sum, &copies, factor)?;
            let filled = within.iter().fold(sum.layout().clone(), |filled, &axis| {
                filled.with_axis(axis, layout.shape()[axis], layout.tile(axis))
            });
            let sum = sum.with_layout(filled);
            self.check_room(reduction.op, sum.level(), &summed_range)?;
            return Ok(Array { range: summed_range, ..sum });
        }
        match factor == 1.0 {
            true => Ok(Array { range: summed_range, ..sum }),
            false => {
                let blocks = self.times_constant(sum.level(), sum.blocks(), factor)?;
                let layout = sum.layout().clone();
                let level = Level(sum.level().0 - 1);
                let zero = sum.padding_is_zero();
                self.array(reduction.op, layout, level, blocks, zero, summed_range)
            }
        }
    }

    /// Returns, for each block of a layout of one element along some axes, the blocks of `a` to
    /// sum.
    fn summands(&self, a: &Array<E>, target: &Layout) -> Vec<Vec<Arc<E::Ct>>> {
        let mut groups = vec![Vec::new(); target.blocks()];
        for (source, block) in a.layout().sources(target).into_iter().zip(a.blocks()) {
            groups[source].push(Arc::clone(block));
        }
        groups
    }

    /// Returns the sum of one or more blocks.
    pub(super) fn total(&self, blocks: &[Arc<E::Ct>]) -> sudare::Result<Arc<E::Ct>> {
        let mut blocks = blocks.iter().cloned();
        let none = || sudare::Error::Circuit("sum of blocks: none".into());
        let first = blocks.next().ok_or_else(none)?;
        blocks.try_fold(first, |sum, block| self.evaluator().add(&sum, &block).map(Arc::new))
    }

    /// Copies slots of index 0 along each field, times `factor`, to the first slots of the field,
    /// one level down. `copies` has the number of slots for each field. All other slots become
    /// zero.
    fn spread(
        &self,
        op: &'static str,
        a: &Array<E>,
        copies: &[(Tile, usize)],
        factor: f64,
    ) -> Result<Array<E>> {
        let first = |slot| copies.iter().all(|(tile, _)| tile.index(slot) == 0);
        let slots = 0..a.layout().slots();
        let mask: Vec<f64> = slots.map(|slot| if first(slot) { factor } else { 0.0 }).collect();
        let blocks: Vec<_> = a.blocks().iter().map(|block| &**block).collect();
        let masked = self.times_vector(a.level(), &blocks, &mask)?;
        let blocks = par::try_map(masked, |mut block| {
            for &(field, count) in copies {
                block = Arc::new(self.field_copy(&block, field.shift, count)?);
            }
            sudare::Result::Ok(block)
        })?;
        let level = Level(a.level().0 - 1);
        let range = a.range().scaled(factor);
        self.array(op, a.layout().clone(), level, blocks, a.padding_is_zero(), range)
    }
}

/// Returns the range of sums of `count` elements over axes. If `a` is `dirty`, its padding is
/// masked first.
fn total_range<E: ComplexOps>(a: &Array<E>, count: usize, summed: &[usize], dirty: bool) -> Range {
    let layout = a.layout();
    let slots = |&axis: &usize| (layout.grid(axis) * layout.tile(axis).len()) as f64;
    let padding = if dirty { 0.0 } else { a.padding() };
    let padding = summed.iter().map(slots).product::<f64>() * padding;
    a.range().total(count as f64).with_padding(padding)
}

/// Axes to sum.
struct Reduction {
    op: &'static str,
    axes: Vec<usize>,
    /// Number of elements in a sum.
    count: usize,
}

impl Reduction {
    fn new<E: ComplexOps>(op: &'static str, a: &Array<E>, axes: Option<&[usize]>) -> Result<Self> {
        let ndim = a.shape().len();
        let axes = axes.map_or_else(|| (0..ndim).collect(), <[usize]>::to_vec);
        check_axes(op, &axes, ndim)?;
        let count = axes.iter().map(|&axis| a.shape()[axis]).product();
        Ok(Self { op, axes, count })
    }

    fn finished<E: ComplexOps>(&self, sum: Array<E>, keepdims: bool) -> Array<E> {
        if keepdims {
            return sum;
        }
        let layout = sum.layout().without_axes(|axis| self.axes.contains(&axis));
        sum.with_layout(layout)
    }
}
