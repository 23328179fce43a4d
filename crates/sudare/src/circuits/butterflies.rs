//! Fourier transforms of slots and the maps between slots and coefficients, as products of sparse
//! matrices whose entries are roots of unity of any algebra.
//!
//! The `log2(n)` layers of butterflies of an FFT of `n` values are matrices of three diagonals:
//! offsets 0 and `±2^b`, where `b` is the bit of the index that the layer combines. Layers of `k`
//! consecutive bits from `b` upwards multiply to one factor whose offsets are the multiples of
//! `2^b` from `-(2^k - 1) 2^b` to `(2^k - 1) 2^b`: `2^(k+1) - 1` diagonals, or `2^k` if the highest
//! bit of the index is among them, because offsets count modulo `n`. Each factor costs one level.
//! `radices` lists the `k` of each factor in the order of application, and so trades levels for
//! diagonals.
//!
//! Every entry of a factor is a single root of unity, times `2^-k` in inverses, because only one
//! path through the layers leads from a column to a row. Its angle is a multiple of a fixed
//! fraction of a turn.

use super::{
    Algebra,
    algebra::OwnedVector,
    linear::{LinearTransform, MAX_LOG_SLOTS},
};
use crate::{Error, Result};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::Range,
};

/// `log2` of the maximum number of entries of a factor: 256 MiB.
const MAX_LOG_ENTRIES: u32 = 24;

/// The side of a transform that is in bit-reversed order: place `i` holds the element of index
/// [`bit_reversed`]`(log2(n), i)`. The other side is in natural order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BitReversed {
    /// The vector that the first factor is applied to.
    Input,
    /// The result of the last factor.
    Output,
}

/// Returns the lowest `bits` bits of `i` in reverse order.
#[must_use]
pub fn bit_reversed(bits: u32, i: usize) -> usize {
    i.reverse_bits().checked_shr(usize::BITS.saturating_sub(bits)).unwrap_or(0)
}

/// Roots of unity in the slots of an algebra.
pub(super) trait Roots {
    /// The algebra of the slots.
    type Algebra: Algebra;
    /// `log2` of the number of slots `n`, per row if they form several.
    fn log_slots(&self) -> u32;
    /// Returns the vector whose slot `i` is `2^-halvings` times a root of unity. `angle(i)` is its
    /// angle, in parts `1 / 4n` of a turn; without an angle the slot is zero. A second row has the
    /// inverse roots.
    ///
    /// # Errors
    /// Errors of encoding it.
    fn vector(
        &self,
        halvings: u32,
        angle: impl Fn(usize) -> Option<usize>,
    ) -> Result<OwnedVector<Self::Algebra>>;
}

/// Checks that factors with these numbers of layers can transform `2^log_slots` slots.
///
/// # Errors
/// [`Error::Circuit`] if `radices` holds a 0 or does not sum to `log_slots`, if there are more than
/// 2^16 slots, or if a factor might have more than 2^24 entries.
pub(super) fn check(log_slots: u32, radices: &[u32]) -> Result<()> {
    let refuse = |problem: &str| Err(Error::Circuit(format!("Fourier transform: {problem}")));
    if log_slots > MAX_LOG_SLOTS {
        return refuse(&format!("2^{log_slots} slots; at most 2^{MAX_LOG_SLOTS} are supported"));
    }
    let sum: u64 = radices.iter().map(|&k| u64::from(k)).sum();
    if sum != u64::from(log_slots) || radices.contains(&0) {
        return refuse(&format!(
            "factors of {radices:?} layers for 2^{log_slots} slots; positive numbers that sum to \
             {log_slots} are needed"
        ));
    }
    let log_entries = |k: &u32| (k + 1).min(log_slots) + log_slots;
    if let Some(k) = radices.iter().find(|k| log_entries(k) > MAX_LOG_ENTRIES) {
        return refuse(&format!(
            "a factor of {k} layers for 2^{log_slots} slots might have 2^{} entries, more than \
             2^{MAX_LOG_ENTRIES}; split it",
            log_entries(k)
        ));
    }
    Ok(())
}

/// Returns the angles of `w` for slots, which are ordered by the powers of 5.
pub(super) fn powers_of_5(log_slots: u32) -> Vec<usize> {
    let mask = (4 << log_slots) - 1;
    let powers = std::iter::successors(Some(1), |power| Some((5 * power) & mask));
    powers.take(1 << log_slots).collect()
}

/// Returns the angles of `w` for the discrete Fourier transform,
/// `exp(2 pi i (i mod 2^b) / (2 2^b))`.
pub(super) fn multiples_of_4(log_slots: u32) -> Vec<usize> {
    (0..1 << log_slots).map(|i| 4 * i).collect()
}

/// Multiplies consecutive layers to factors, in the order of application: each factor combines the
/// number of layers in `radices`. `twiddles` are the angles of a transform of this number of slots,
/// by [`powers_of_5`] or [`multiples_of_4`]. Call [`check`] first.
///
/// # Errors
/// Errors of [`LinearTransform::new`] and [`Roots::vector`].
pub(super) fn factors<R: Roots>(
    roots: &R,
    radices: &[u32],
    twiddles: fn(u32) -> Vec<usize>,
    reversed: BitReversed,
    inverse: bool,
) -> Result<Vec<LinearTransform<R::Algebra>>> {
    let log_slots = roots.log_slots();
    let layers = Layers { log_slots, reversed, inverse, twiddles: twiddles(log_slots) };
    let mut applied = 0;
    let factors = radices.iter().map(|&k| {
        let done = applied;
        applied += k;
        let bits = match reversed {
            BitReversed::Input => done..applied,
            BitReversed::Output => log_slots - applied..log_slots - done,
        };
        layers.factor(roots, bits)
    });
    factors.collect()
}

/// The layers of butterflies of one transform.
///
/// With bit-reversed input, the layer of bit `b` acts on each pair of values `x` and `y` whose
/// indices `i` and `i + 2^b` differ in that bit only. It maps them to `x + w y` and `x - w y`, with
/// `w` a root of unity chosen by `b` and `i mod 2^b`. Bit-reversed output is the transpose: `x + y`
/// and `w (x - y)`. Inverses have the inverse roots, halved.
struct Layers {
    log_slots: u32,
    reversed: BitReversed,
    inverse: bool,
    /// The angle of `w` at bit `b` is `twiddles[i mod 2^b] / (8 2^b)` turns.
    twiddles: Vec<usize>,
}

impl Layers {
    /// Returns the product of the layers of these bits. Every way to set the bits is a column with
    /// one entry in the row.
    fn factor<R: Roots>(&self, roots: &R, bits: Range<u32>) -> Result<LinearTransform<R::Algebra>> {
        let slots = 1usize << self.log_slots;
        let reach = (1isize << bits.len()) - 1;
        let moved = (reach as usize) << bits.start;
        let halvings = if self.inverse { bits.len() as u32 } else { 0 };
        let mut diagonals = BTreeMap::new();
        for offset in (-reach..=reach).map(|i| (i << bits.start) as usize & (slots - 1)) {
            let angle = |row: usize| {
                let column = (row + offset) & (slots - 1);
                let is_reached = (row ^ column) & !moved == 0;
                is_reached.then(|| self.angle(row, column, bits.clone()))
            };
            // Offsets that are equal modulo `n` belong to the same diagonal.
            if let Entry::Vacant(place) = diagonals.entry(offset) {
                place.insert(roots.vector(halvings, angle)?);
            }
        }
        LinearTransform::new(self.log_slots, diagonals)
    }

    /// Returns the angle of the product of the entries on the path from `column` to `row`, in parts
    /// `1 / 4n` of a turn.
    fn angle(&self, row: usize, column: usize, bits: Range<u32>) -> usize {
        let half_turn = 2usize << self.log_slots;
        let angles = bits.map(|bit| {
            let below = (1usize << bit) - 1;
            // At this layer the lower bits are the bits of `other`: already combined with
            // bit-reversed input, not yet with bit-reversed output.
            let (index, other) = match self.reversed {
                BitReversed::Input => (column, row),
                BitReversed::Output => (row, column),
            };
            let twiddle = self.twiddles[other & below] << (self.log_slots - 1 - bit);
            match (index >> bit & 1, other >> bit & 1) {
                (0, _) => 0,
                (_, minus) => twiddle + minus * half_turn,
            }
        });
        // Angles count modulo a power of two, so wrapping does no harm.
        let angle = angles.fold(0, usize::wrapping_add);
        if self.inverse { angle.wrapping_neg() } else { angle }
    }
}
