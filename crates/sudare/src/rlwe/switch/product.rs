//! Products of digits with keys, limb by limb.

use super::{ModDown, Operand};
use crate::{
    ring::{Block, Dividend, Eval, LimbSet, RnsPoly, TILE, cut},
    rlwe::{Params, rows::KeyRows},
};
use std::sync::Arc;
use sudare_arith::{
    NttTable, Permutation, Shoup,
    mem::{Buf, Pool},
    par::Within,
};

/// Returns the `i`-th limb of the product of a lifted ciphertext with a key of one digit.
pub(in crate::rlwe) fn extended_product<'a>(
    params: &'a Params,
    limbs: LimbSet,
    c: &'a [RnsPoly<Eval>; 2],
    keys: KeyRows<'a>,
    i: usize,
) -> Product<'a> {
    let special = |i| Owner { digit: None, limb: i, special: params.gadget(limbs).special(i) };
    Product {
        table: params.basis().table(limbs, i),
        pool: params.basis().pool(),
        operand: Operand::Ciphertext(c),
        digits: Limb::Ready(vec![c[1].row(i)]),
        keys,
        owner: (i < limbs.q()).then(|| special(i)),
        kept: Kept::TimesP,
    }
}

/// Rows of the digits of one limb.
pub(in crate::rlwe) enum Limb<'a> {
    /// Half transformed; without the digit that owns the prime.
    Extended(Vec<&'a [u64]>),
    /// Transformed; without the digit that owns the prime.
    Ready(Vec<&'a [u64]>),
}

/// A limb of `P kept + <digits, key>`.
pub(in crate::rlwe) struct Product<'a> {
    pub(in crate::rlwe) table: &'a NttTable,
    pub(in crate::rlwe) pool: &'a Arc<Pool>,
    pub(in crate::rlwe) operand: Operand<'a>,
    pub(in crate::rlwe) digits: Limb<'a>,
    pub(in crate::rlwe) keys: KeyRows<'a>,
    pub(super) owner: Option<Owner>,
    pub(super) kept: Kept,
}

/// Place where the kept polynomials are added.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// To the product, times `P`.
    TimesP,
    /// To the quotient by `P`, which is the same and costs less.
    Quotient,
}

/// Ownership of a chain prime.
pub(super) struct Owner {
    /// The digit that owns the prime, if the digits have no row for it.
    pub(super) digit: Option<usize>,
    pub(super) limb: usize,
    /// `P` modulo the prime.
    pub(super) special: Shoup,
}

impl Product<'_> {
    /// Returns the same product, to be divided.
    pub(super) fn divided(mut self, down: ModDown) -> Self {
        self.kept = match down {
            ModDown::P => Kept::Quotient,
            // The primes of the level divide the kept polynomials too, so these are part of the
            // dividend.
            ModDown::PAndLevel => Kept::TimesP,
        };
        self
    }

    /// Lists the memory of the operand that [`Product::write`] reads in `len` words of the row.
    fn parts(&self, start: usize, len: usize) -> Vec<&[u8]> {
        let Some(owner) = &self.owner else { return Vec::new() };
        let place = (owner.limb, start, len);
        let mut parts = match owner.digit {
            Some(_) => self.operand.switched_parts(place),
            None => Vec::new(),
        };
        if self.kept == Kept::TimesP {
            parts.extend((0..2).flat_map(|half| self.operand.kept_parts(half, place)));
        }
        parts
    }

    /// Returns the evaluations of the lifted digits `rows`, `len` words of each from `start` on.
    fn transformed(&self, rows: &[&[u64]], start: usize, len: usize) -> Buf {
        let words = Permutation::block_words(self.table.log_n());
        let starts = || (start..start + len).step_by(words);
        let parts: Vec<_> = starts().map(|start| self.parts(start, words)).collect();
        let mut out = self.pool.take(rows.len() * len);
        for (digit, (row, out)) in rows.iter().zip(out.chunks_exact_mut(len)).enumerate() {
            let blocks = starts().zip(&parts).zip(out.chunks_exact_mut(words));
            for ((start, parts), out) in blocks {
                // Each digit prefetches a share of the next memory.
                // `chunks` rejects 0, the share where there is nothing to prefetch.
                let share = parts.len().div_ceil(rows.len()).max(1);
                let wanted = parts.chunks(share).nth(digit).unwrap_or_default();
                self.table.forward_lines(row, start / words, out, wanted);
            }
        }
        out
    }

    /// Adds the kept polynomial to a half from `start` on, if `place` is the right one.
    fn add_kept(&self, place: Kept, half: usize, start: usize, out: &mut [u64]) {
        if let Some(owner) = self.owner.as_ref().filter(|_| self.kept == place) {
            let w = Some(owner.special).filter(|_| place == Kept::TimesP);
            self.operand.add_kept(half, self.table.modulus(), (owner.limb, start), w, out);
        }
    }

    /// Adds blocks of the image of the product under the permutation that follows the key, with the
    /// row `kept` added to its first half. The sources of the blocks are contiguous from `start`
    /// on. `scratch` has room for two blocks of each and one more.
    pub(in crate::rlwe) fn add_image(
        &self,
        permutation: &Permutation,
        kept: &[u64],
        start: usize,
        scratch: &mut [u64],
        blocks: &mut [Block<'_, 2>],
    ) {
        let m = self.table.modulus();
        let words = Permutation::block_words(self.table.log_n());
        let len = blocks.len() * words;
        let (image, rest) = scratch.split_at_mut(words);
        let (a, rest) = rest.split_at_mut(len);
        let b = &mut rest[..len];
        self.write(start, [&mut *a, &mut *b]);
        // Before the permutation, which acts on the kept polynomial too.
        m.add_assign(a, &kept[start..][..len]);
        for (half, values) in [&*a, &*b].into_iter().enumerate() {
            for (values, (block, sums)) in values.chunks_exact(words).zip(&mut *blocks) {
                permutation.apply_block(*block, image, values);
                m.add_assign(sums[half], image);
            }
        }
    }
}

impl Dividend<2> for Product<'_> {
    fn prepare(&mut self, _: Within) {
        self.keys.prepare();
    }

    fn write(&self, start: usize, out: [&mut [u64]; 2]) {
        let m = self.table.modulus();
        let [first, second] = out;
        let len = first.len();
        let (transformed, mut own);
        let mut digits = match &self.digits {
            Limb::Extended(rows) => {
                transformed = self.transformed(rows, start, len);
                transformed.chunks_exact(len).collect()
            }
            Limb::Ready(rows) => cut(rows, start, len),
        };
        if let Some(Owner { digit: Some(digit), limb, .. }) = self.owner {
            let own = match self.operand.switched() {
                Some(c) => &c.row(limb)[start..][..len],
                None => {
                    own = self.pool.take(len);
                    self.operand.write_switched(m, limb, start, &mut own);
                    &own
                }
            };
            // At the place of this digit's row in the key.
            digits.insert(digit, own);
        }
        self.keys.multiply(&digits, start, [first, second]);
        for (half, out) in [first, second].into_iter().enumerate() {
            // `Operand::add_kept` has scratch room for one tile.
            for (start, out) in (start..).step_by(TILE).zip(out.chunks_mut(TILE)) {
                self.add_kept(Kept::TimesP, half, start, out);
            }
        }
    }

    fn deferred(&self, k: usize, start: usize) -> Vec<&[u8]> {
        match &self.owner {
            Some(owner) if self.kept == Kept::Quotient => {
                let words = Permutation::block_words(self.table.log_n());
                self.operand.kept_parts(k, (owner.limb, start, words))
            }
            _ => Vec::new(),
        }
    }

    fn add_deferred(&self, k: usize, start: usize, out: &mut [u64]) {
        self.add_kept(Kept::Quotient, k, start, out);
    }
}

/// The same limb of two products with one key.
pub(super) struct Pair<'a>(pub(super) [Product<'a>; 2]);

impl Dividend<4> for Pair<'_> {
    fn prepare(&mut self, within: Within) {
        self.0.iter_mut().for_each(|product| product.prepare(within));
    }

    fn write(&self, start: usize, [a, b, c, d]: [&mut [u64]; 4]) {
        self.0[0].write(start, [a, b]);
        self.0[1].write(start, [c, d]);
    }

    fn deferred(&self, k: usize, start: usize) -> Vec<&[u8]> {
        self.0[k / 2].deferred(k % 2, start)
    }

    fn add_deferred(&self, k: usize, start: usize, out: &mut [u64]) {
        self.0[k / 2].add_deferred(k % 2, start, out);
    }
}
