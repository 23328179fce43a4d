//! Polynomials of `Z_Q[X]/(X^N + 1)` in residue number system (RNS) form.
//!
//! A scheme checks the operands before it calls these operations. Debug builds assert their shapes.
//! Results are exact integers with a stated definition, hence the same on every machine.

mod basis;
mod convert;
mod limb_set;
mod mixed_radix;
mod packed;
mod poly;
mod rows;

pub use basis::RnsBasis;
pub use convert::{BaseConverter, Divider, Lifter};
pub(crate) use convert::{
    Block, Blocks, Dividend, STRETCH, convert_rows, cut, stretches, to_columns,
};
pub use limb_set::LimbSet;
pub(crate) use mixed_radix::MixedRadix;
pub use packed::{PackedPolys, Packer, RepeatPacker};
pub(crate) use poly::Half;
pub use poly::{Coeff, Eval, Repr, RnsPoly};
pub(crate) use rows::{columns, finish};

/// Words of a row processed at a time where many rows meet: a block of evaluations. A few dozen
/// such pieces fit the second-level cache.
pub(crate) const TILE: usize = 1 << 11;

/// Scratch space for a tile, aligned to vectors.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Tile(pub(crate) [u64; TILE]);

impl Tile {
    pub(crate) const ZERO: Self = Self([0; TILE]);
}
