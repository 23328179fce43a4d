//! Transforms on any [`Lanes`], for `N >= 2^11`, blocked for the first cache.
//!
//! A row is `N / 256` lines of 256 words. Columns first: the layers that pair
//! lines run on eight adjacent columns at a time, gathered in a buffer. Then the
//! lines: the last eight layers run on eight lines at a time, transposed so that
//! a lane is a line; the result stays transposed, which is the order that
//! [`NttTable`] documents. Layers are done up to four at a time in registers.
//! The inverse is the mirror image.

use super::{Factor, LANES, Lanes, load, splat, store};
use crate::{
    Modulus, NttTable,
    kernel::{BLOCK, ROW},
};
use core::arch::x86_64::*;

pub(super) const MIN_LOG_N: u32 = 11;
/// Lines of the largest ring.
const MAX_LINES: usize = 1 << (17 - 8);
/// Words of the twiddles of one group of eight lines: a factor in eight lanes
/// for each node of the tree of eight layers.
const GROUP: usize = 2 * LANES * ROW;

/// A buffer of vectors for one group of columns or lines.
#[repr(align(64))]
struct Buffer<const WORDS: usize>([u64; WORDS]);

/// The first `N / 256` twiddles as pairs of words for the columns, then those
/// of each group of eight lines as pairs of vectors, by node.
pub(super) fn twiddles<L: Lanes>(m: &Modulus, log_n: u32, powers: &[u64]) -> Vec<u64> {
    let lines = (1 << log_n) / ROW;
    let quotient = |w| m.quotient(w) >> (64 - L::RADIX_BITS);
    let mut table: Vec<u64> = powers[..lines].iter().flat_map(|&w| [w, quotient(w)]).collect();
    for first in (0..lines).step_by(LANES) {
        table.extend([0; 2 * LANES]);
        for node in 1..ROW {
            // Node `2^t + i` of the tree of a line is node `line 2^t + i` of
            // the layer with `lines 2^t` blocks.
            let layer = 1 << node.ilog2();
            let power = |lane| powers[lines * layer + (first + lane) * layer + node - layer];
            table.extend((0..LANES).map(power));
            table.extend((0..LANES).map(|lane| quotient(power(lane))));
        }
    }
    table
}

/// Where the factors of the nodes of a tree come from.
trait Tree: Copy {
    /// # Safety
    /// `node` is a node of the tree; as for [`Lanes`].
    unsafe fn factor(self, node: usize) -> Factor;
}

/// The same factor in all lanes.
#[derive(Clone, Copy)]
struct Columns(*const u64);

impl Tree for Columns {
    #[inline(always)]
    unsafe fn factor(self, node: usize) -> Factor {
        // SAFETY: the table has a pair for each node.
        unsafe { (splat(*self.0.add(2 * node)), splat(*self.0.add(2 * node + 1))) }
    }
}

/// A factor for each lane.
#[derive(Clone, Copy)]
struct Lines(*const u64);

impl Tree for Lines {
    #[inline(always)]
    unsafe fn factor(self, node: usize) -> Factor {
        // SAFETY: the table has a pair of vectors for each node.
        unsafe {
            let p = self.0.add(2 * LANES * node);
            (load(p), load(p.add(LANES)))
        }
    }
}

/// Vectors at a fixed distance, in words.
#[derive(Clone, Copy)]
struct Strided {
    start: *mut u64,
    stride: usize,
}

impl Strided {
    #[inline(always)]
    unsafe fn load(self, i: usize) -> __m512i {
        // SAFETY: the caller's.
        unsafe { load(self.start.add(i * self.stride)) }
    }

    #[inline(always)]
    unsafe fn store(self, i: usize, v: __m512i) {
        // SAFETY: the caller's.
        unsafe { store(self.start.add(i * self.stride), v) }
    }
}

/// `log2` of the radix of sweep `k` of `layers` layers: as few sweeps as radix
/// `2^max` allows, as even as can be, larger ones first.
#[inline(always)]
fn sweep_radix(layers: u32, max: u32, k: u32) -> u32 {
    let sweeps = layers.div_ceil(max);
    layers / sweeps + u32::from(k < layers % sweeps)
}

/// One forward layer of `BLOCKS` blocks on `R` vectors below node `node`.
#[inline(always)]
unsafe fn forward_layer<L: Lanes, T: Tree, const R: usize, const BLOCKS: usize>(
    lanes: L,
    tree: T,
    node: usize,
    v: &mut [__m512i; R],
) {
    if BLOCKS >= R {
        return;
    }
    let half = R / BLOCKS / 2;
    // Values drift by q a layer from the middle of the range.
    let refresh = BLOCKS.ilog2().is_multiple_of(L::LIMIT / 2 - 1);
    for block in 0..BLOCKS {
        // SAFETY: the caller's.
        unsafe {
            let w = tree.factor(node * BLOCKS + block);
            for i in 2 * half * block..2 * half * block + half {
                (v[i], v[i + half]) = if refresh {
                    lanes.forward::<true>(v[i], v[i + half], w)
                } else {
                    lanes.forward::<false>(v[i], v[i + half], w)
                };
            }
        }
    }
}

/// `log2(R)` forward layers on all of `count` vectors, starting with the layer
/// of `blocks` blocks. Outputs are canonical if `LAST`.
#[inline(always)]
unsafe fn forward_sweep<L: Lanes, T: Tree, const R: usize, const LAST: bool>(
    lanes: L,
    tree: T,
    blocks: usize,
    count: usize,
    from: Strided,
    to: Strided,
) {
    let apart = count / blocks / R;
    for block in 0..blocks {
        for offset in 0..apart {
            let at = |k: usize| block * (count / blocks) + k * apart + offset;
            let node = blocks + block;
            // SAFETY: the caller's.
            unsafe {
                let mut v = [_mm512_setzero_si512(); R];
                for (k, v) in v.iter_mut().enumerate() {
                    *v = from.load(at(k));
                }
                forward_layer::<L, T, R, 1>(lanes, tree, node, &mut v);
                forward_layer::<L, T, R, 2>(lanes, tree, node, &mut v);
                forward_layer::<L, T, R, 4>(lanes, tree, node, &mut v);
                forward_layer::<L, T, R, 8>(lanes, tree, node, &mut v);
                for (k, v) in v.into_iter().enumerate() {
                    to.store(at(k), if LAST { lanes.fold(lanes.reduce(v)) } else { v });
                }
            }
        }
    }
}

/// All layers of a tree on `count` vectors, by way of the buffer `near`.
#[inline(always)]
unsafe fn forward_layers<L: Lanes, T: Tree, const LAST: bool>(
    lanes: L,
    tree: T,
    count: usize,
    from: Strided,
    near: Strided,
    to: Strided,
) {
    let layers = count.ilog2();
    let sweeps = layers.div_ceil(L::LOG_RADIX);
    let mut blocks = 1;
    for k in 0..sweeps {
        let source = if k == 0 { from } else { near };
        let radix = sweep_radix(layers, L::LOG_RADIX, k);
        // SAFETY: the caller's.
        unsafe {
            if k + 1 < sweeps {
                match radix {
                    2 => forward_sweep::<L, T, 4, false>(lanes, tree, blocks, count, source, near),
                    3 => forward_sweep::<L, T, 8, false>(lanes, tree, blocks, count, source, near),
                    _ => forward_sweep::<L, T, 16, false>(lanes, tree, blocks, count, source, near),
                }
            } else {
                match radix {
                    2 => forward_sweep::<L, T, 4, LAST>(lanes, tree, blocks, count, source, to),
                    3 => forward_sweep::<L, T, 8, LAST>(lanes, tree, blocks, count, source, to),
                    _ => forward_sweep::<L, T, 16, LAST>(lanes, tree, blocks, count, source, to),
                }
            }
        }
        blocks <<= radix;
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn forward<L: Lanes>(t: &NttTable, rows: &[*mut u64]) {
    let lines = (1 << t.log_n()) / ROW;
    let twiddles = t.forward_twiddles().as_ptr();
    let mut buffer = Buffer([0; LANES * MAX_LINES]);
    let near = Strided { start: buffer.0.as_mut_ptr(), stride: LANES };
    // SAFETY: rows have N words; `twiddles` laid the table out for this code.
    unsafe {
        let lanes = L::new(t.modulus());
        for row in rows {
            prefetch(*row, lines * ROW);
            for column in (0..ROW).step_by(LANES) {
                let far = Strided { start: row.add(column), stride: ROW };
                forward_layers::<L, _, false>(lanes, Columns(twiddles), lines, far, near, far);
            }
        }
        for group in 0..lines / LANES {
            let tree = Lines(twiddles.add(2 * lines + group * GROUP));
            for row in rows {
                let block = row.add(group * BLOCK);
                for column in (0..ROW).step_by(LANES) {
                    transpose(
                        Strided { start: block.add(column), stride: ROW },
                        Strided { start: near.start.add(column * LANES), stride: LANES },
                    );
                }
                let out = Strided { start: block, stride: LANES };
                forward_layers::<L, _, true>(lanes, tree, ROW, near, near, out);
            }
        }
    }
}

/// One inverse layer of `BLOCKS` blocks on `R` vectors below node `node`.
/// `bound[i] * q` bounds `v[i]`.
#[inline(always)]
unsafe fn inverse_layer<L: Lanes, T: Tree, const R: usize, const BLOCKS: usize>(
    lanes: L,
    tree: T,
    node: usize,
    v: &mut [__m512i; R],
    bound: &mut [u32; R],
) {
    if BLOCKS >= R {
        return;
    }
    let half = R / BLOCKS / 2;
    for block in 0..BLOCKS {
        // SAFETY: the caller's.
        unsafe {
            let w = tree.factor(node * BLOCKS + block);
            for i in 2 * half * block..2 * half * block + half {
                for k in [i, i + half] {
                    if bound[k] > L::LIMIT / 2 {
                        v[k] = lanes.reduce(v[k]);
                        bound[k] = 2;
                    }
                }
                (v[i], v[i + half]) = lanes.inverse(v[i], v[i + half], w);
                bound[i] += bound[i + half];
                bound[i + half] = 2;
            }
        }
    }
}

/// `log2(R)` inverse layers on all of `count` vectors, ending with the layer of
/// `blocks` blocks. Inputs are below `2q`, and so are outputs; with `SCALE` they
/// are multiplied by `scale` and canonical.
#[inline(always)]
unsafe fn inverse_sweep<L: Lanes, T: Tree, const R: usize, const SCALE: bool>(
    lanes: L,
    tree: T,
    blocks: usize,
    count: usize,
    from: Strided,
    to: Strided,
    scale: Factor,
) {
    let apart = count / blocks / R;
    for block in 0..blocks {
        for offset in 0..apart {
            let at = |k: usize| block * (count / blocks) + k * apart + offset;
            let node = blocks + block;
            // SAFETY: the caller's.
            unsafe {
                let mut v = [_mm512_setzero_si512(); R];
                let mut bound = [2; R];
                for (k, v) in v.iter_mut().enumerate() {
                    *v = from.load(at(k));
                }
                inverse_layer::<L, T, R, 8>(lanes, tree, node, &mut v, &mut bound);
                inverse_layer::<L, T, R, 4>(lanes, tree, node, &mut v, &mut bound);
                inverse_layer::<L, T, R, 2>(lanes, tree, node, &mut v, &mut bound);
                inverse_layer::<L, T, R, 1>(lanes, tree, node, &mut v, &mut bound);
                for (k, v) in v.into_iter().enumerate() {
                    let value = if SCALE {
                        lanes.fold(lanes.mul_lazy(v, scale))
                    } else if bound[k] > 2 {
                        lanes.reduce(v)
                    } else {
                        v
                    };
                    to.store(at(k), value);
                }
            }
        }
    }
}

/// All layers of a tree on `count` vectors, by way of the buffer `near`.
#[inline(always)]
unsafe fn inverse_layers<L: Lanes, T: Tree, const SCALE: bool>(
    lanes: L,
    tree: T,
    count: usize,
    from: Strided,
    near: Strided,
    to: Strided,
    scale: Factor,
) {
    let layers = count.ilog2();
    let sweeps = layers.div_ceil(L::LOG_RADIX);
    let mut blocks = count;
    for k in 0..sweeps {
        let source = if k == 0 { from } else { near };
        let radix = sweep_radix(layers, L::LOG_RADIX, sweeps - 1 - k);
        blocks >>= radix;
        // SAFETY: the caller's.
        unsafe {
            let b = blocks;
            if k + 1 < sweeps {
                match radix {
                    2 => {
                        inverse_sweep::<L, T, 4, false>(lanes, tree, b, count, source, near, scale)
                    }
                    3 => {
                        inverse_sweep::<L, T, 8, false>(lanes, tree, b, count, source, near, scale)
                    }
                    _ => {
                        inverse_sweep::<L, T, 16, false>(lanes, tree, b, count, source, near, scale)
                    }
                }
            } else {
                match radix {
                    2 => inverse_sweep::<L, T, 4, SCALE>(lanes, tree, b, count, source, to, scale),
                    3 => inverse_sweep::<L, T, 8, SCALE>(lanes, tree, b, count, source, to, scale),
                    _ => inverse_sweep::<L, T, 16, SCALE>(lanes, tree, b, count, source, to, scale),
                }
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma")]
pub(super) unsafe fn inverse<L: Lanes>(t: &NttTable, rows: &[*mut u64]) {
    let lines = (1 << t.log_n()) / ROW;
    let twiddles = t.inverse_twiddles().as_ptr();
    let mut buffer = Buffer([0; LANES * MAX_LINES]);
    let near = Strided { start: buffer.0.as_mut_ptr(), stride: LANES };
    // SAFETY: rows have N words; `twiddles` laid the table out for this code.
    unsafe {
        let lanes = L::new(t.modulus());
        // The place of node 0 holds 1/N.
        let scale = Columns(twiddles).factor(0);
        for group in 0..lines / LANES {
            let tree = Lines(twiddles.add(2 * lines + group * GROUP));
            for row in rows {
                let block = row.add(group * BLOCK);
                let source = Strided { start: block, stride: LANES };
                inverse_layers::<L, _, false>(lanes, tree, ROW, source, near, near, scale);
                for column in (0..ROW).step_by(LANES) {
                    transpose(
                        Strided { start: near.start.add(column * LANES), stride: LANES },
                        Strided { start: block.add(column), stride: ROW },
                    );
                }
            }
        }
        for row in rows {
            for column in (0..ROW).step_by(LANES) {
                let far = Strided { start: row.add(column), stride: ROW };
                inverse_layers::<L, _, true>(
                    lanes,
                    Columns(twiddles),
                    lines,
                    far,
                    near,
                    far,
                    scale,
                );
            }
        }
    }
}

/// Asks for words in the second cache, in order: memory is several times slower where
/// columns meet it a vector at a time.
#[inline(always)]
unsafe fn prefetch(row: *const u64, words: usize) {
    for i in (0..words).step_by(LANES) {
        // SAFETY: a prefetch never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(row.wrapping_add(i).cast()) };
    }
}

/// Transposes eight vectors.
#[inline(always)]
unsafe fn transpose(from: Strided, to: Strided) {
    // SAFETY: the caller's.
    unsafe {
        // Halves of lines two apart, joined as they are loaded: that is not work
        // for the one port that shuffles.
        let half = |line: usize, k: usize| {
            _mm256_loadu_si256(from.start.add(line * from.stride + 4 * k).cast())
        };
        let joined = |line: usize, k: usize| {
            let low = _mm512_castsi256_si512(half(line, k));
            _mm512_inserti64x4::<1>(low, half(line + 2, k))
        };
        for k in 0..2 {
            let (a, b) = (joined(0, k), joined(1, k));
            let (c, d) = (joined(4, k), joined(5, k));
            let even = (_mm512_unpacklo_epi64(a, b), _mm512_unpacklo_epi64(c, d));
            let odd = (_mm512_unpackhi_epi64(a, b), _mm512_unpackhi_epi64(c, d));
            to.store(4 * k, _mm512_shuffle_i64x2::<0x88>(even.0, even.1));
            to.store(4 * k + 1, _mm512_shuffle_i64x2::<0x88>(odd.0, odd.1));
            to.store(4 * k + 2, _mm512_shuffle_i64x2::<0xdd>(even.0, even.1));
            to.store(4 * k + 3, _mm512_shuffle_i64x2::<0xdd>(odd.0, odd.1));
        }
    }
}
