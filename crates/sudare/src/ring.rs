//! Polynomials of `Z_Q[X]/(X^N + 1)` in residue number system (RNS) form.
//!
//! Operations assume operands that a scheme has checked; shapes are asserted in
//! debug builds. Results are exact integers with a stated definition, so that
//! they are the same on every machine.

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
pub use packed::{PackedPolys, Packer};
pub(crate) use poly::Half;
pub use poly::{Coeff, Eval, Repr, RnsPoly};
pub(crate) use rows::{columns, finish};

/// Words of a row that are worked on at a time where many rows meet, those of a block of
/// evaluations: a few dozen such pieces fit the second cache.
pub(crate) const TILE: usize = 1 << 11;

/// Room for a tile, aligned to vectors.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Tile(pub(crate) [u64; TILE]);

impl Tile {
    pub(crate) const ZERO: Self = Self([0; TILE]);
}
