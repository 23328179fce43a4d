//! Transforms on any [`Lanes`], for `N >= 2^11`, blocked for the first-level cache.
//!
//! The passes share their blocks, buffers and factors, so the whole algorithm is in one file.
//!
//! A row is `N / 256` lines of 256 words. Columns come first: the layers that pair lines run on
//! eight adjacent columns at a time, gathered in a buffer. Lines come next: the last eight layers
//! run on eight lines at a time, transposed so that a lane is a line. The result stays transposed,
//! which is the order that [`NttTable`] documents. Shorter vectors process eight columns or lines
//! part by part. Up to four layers at a time run in registers. The inverse is the mirror image.
//!
//! Columns and lines are also available separately, for code that makes a row group by group or
//! uses it block by block. Coefficients are then in [column order](NttTable::column_place): a group
//! of eight columns is contiguous.
//!
//! If each node of the tree had its own factor, a transform would read mostly factors: the size of
//! two rows. Line `l` is a polynomial modulo `X^256 - a^256` with `a = psi^(1 + 2 rev(l))`. Its
//! first layers, [`split`] of them, leave polynomials modulo `X^m - (a b)^m` with `b` a power of
//! the 256th root of unity `psi^(2N/256)`. With `X = a Y`, which multiplies coefficient `j` by the
//! *twist* `a^j`, the remaining layers have the same factors in all lines. A line then has its own
//! factors for few nodes, and `m - 1` twists: 30 in place of 255 if a sweep runs four layers.

use super::{Factor, Lanes, Strided, Vector, prefetch};
use crate::{Modulus, NttTable, Shoup, kernel::ROW};
use core::mem::MaybeUninit;

pub const MIN_LOG_N: u32 = 11;
/// Layers of a line.
const LAYERS: u32 = ROW.ilog2();
/// `log2` of the largest radix of a sweep.
const MAX_LOG_RADIX: u32 = 4;
/// Number of lines of the largest ring.
const MAX_LINES: usize = 1 << (17 - 8);

/// Columns or lines processed together: the words of a cache line.
const WIDTH: usize = 8;

/// Buffer for one group of columns or lines. Code writes to it before it reads.
#[repr(align(64))]
struct Buffer<const WORDS: usize>(MaybeUninit<[u64; WORDS]>);

impl<const WORDS: usize> Buffer<WORDS> {
    #[inline(always)]
    fn new() -> Self {
        Self(MaybeUninit::uninit())
    }

    /// The buffer's rows of eight words.
    #[inline(always)]
    fn rows(&mut self) -> Strided {
        Strided { start: self.0.as_mut_ptr().cast(), stride: WIDTH }
    }
}

/// Number of nodes, with node 0, in the layers of a line that have their own factors: the layers of
/// one sweep.
const fn split<L: Lanes>() -> usize {
    1 << sweep_radix(LAYERS, L::LOG_RADIX, 0)
}

/// Words of a factor for eight lines.
const PAIR: usize = 2 * WIDTH;

/// Lays out the factors. First come pairs of words by node for the layers of the columns, then the
/// same for the shared layers of the lines. Eight pairs, first words first, follow for each group
/// of eight lines: factors by node and twists by coefficient. Node 0 of the columns holds `1/N`.
/// The other trees have no node 0.
pub fn twiddles<L: Lanes>(m: &Modulus, log_n: u32, powers: &[u64]) -> Vec<u64> {
    let lines = (1 << log_n) / ROW;
    let pair = |w| L::factor(m, m.shoup(w));
    // Node `2^t + i` of the tree of a line is node `line 2^t + i` of the layer with
    // `lines 2^t` blocks.
    let own = |node: usize, line: usize| {
        let layer = 1 << node.ilog2();
        powers[lines * layer + line * layer + node - layer]
    };
    // Exponents of `psi` are `rev(i)`, without the line's own contribution.
    let shared = |node: usize| match node - (1 << node.ilog2()) {
        0 => 1,
        i => powers[i],
    };
    let mut table: Vec<u64> = powers[..lines].iter().copied().flat_map(pair).collect();
    table.extend([0; 2]);
    table.extend((1..ROW).map(shared).flat_map(pair));
    let twists = ROW / split::<L>();
    for first in (0..lines).step_by(WIDTH) {
        let mut pairs = |w: &dyn Fn(usize) -> u64| {
            let pairs: [_; WIDTH] = core::array::from_fn(|k| pair(w(first + k)));
            (0..2).for_each(|word| table.extend(pairs.map(|pair| pair[word])));
        };
        pairs(&|_| 0);
        (1..split::<L>()).for_each(|node| pairs(&|line| own(node, line)));
        // Node 128 is the first of the last layer of a line. Its factor is the line's root `a`.
        (0..twists as u64).for_each(|j| pairs(&|line| m.pow(own(ROW / 2, line), j)));
    }
    table
}

/// Source of the factors of a tree's nodes.
trait Tree: Copy {
    /// # Safety
    /// `node` is a node of the tree; as for [`Lanes`].
    unsafe fn factor<L: Lanes>(self, node: usize) -> Factor<L>;

    /// The tree for the lanes from this one on.
    fn lanes_from(self, lane: usize) -> Self;
}

/// A factor shared by all lanes.
#[derive(Clone, Copy)]
struct Same(*const u64);

impl Tree for Same {
    #[inline(always)]
    unsafe fn factor<L: Lanes>(self, node: usize) -> Factor<L> {
        // SAFETY: the table has a pair for each node.
        unsafe {
            let p = self.0.add(2 * node);
            (L::V::splat(*p), L::V::splat(*p.add(1)))
        }
    }

    #[inline(always)]
    fn lanes_from(self, _: usize) -> Self {
        self
    }
}

/// A factor for each lane.
#[derive(Clone, Copy)]
struct Own(*const u64);

impl Tree for Own {
    #[inline(always)]
    unsafe fn factor<L: Lanes>(self, node: usize) -> Factor<L> {
        // SAFETY: the table has eight pairs for each node.
        unsafe {
            let p = self.0.add(PAIR * node);
            (L::V::load(p), L::V::load(p.add(WIDTH)))
        }
    }

    #[inline(always)]
    fn lanes_from(self, lane: usize) -> Self {
        Self(self.0.wrapping_add(lane))
    }
}

/// The factors of a group of eight lines.
#[derive(Clone, Copy)]
struct Group {
    own: Own,
    twists: Own,
    shared: Same,
}

impl Group {
    /// # Safety
    /// `table` is as [`twiddles`] makes it for `L` and at least `8 (group + 1)` lines.
    #[inline(always)]
    unsafe fn new<L: Lanes>(table: *const u64, lines: usize, group: usize) -> Self {
        let words = PAIR * (split::<L>() + ROW / split::<L>());
        // SAFETY: guaranteed by the caller.
        unsafe {
            let shared = table.add(2 * lines);
            let own = shared.add(2 * ROW + group * words);
            Self { own: Own(own), twists: Own(own.add(PAIR * split::<L>())), shared: Same(shared) }
        }
    }
}

/// Returns `log2` of the radix of sweep `k` of `layers` layers. There are as few sweeps as radix
/// `2^max` allows, as even as possible, larger ones first.
#[inline(always)]
const fn sweep_radix(layers: u32, max: u32, k: u32) -> u32 {
    let sweeps = layers.div_ceil(max);
    layers / sweeps + if k < layers % sweeps { 1 } else { 0 }
}

/// Number of blocks of the first layer of sweep `k` of a line.
#[inline(always)]
const fn blocks_above<L: Lanes>(k: u32) -> usize {
    let mut i = 0;
    let mut blocks = 1;
    while i < k {
        blocks <<= sweep_radix(LAYERS, L::LOG_RADIX, i);
        i += 1;
    }
    blocks
}

/// Direction of the transform. The layers of the inverse run backwards.
type Direction = bool;
const FORWARD: Direction = true;
const INVERSE: Direction = false;

/// A run of layers of eight columns or lines.
#[derive(Clone, Copy)]
struct Sweep<'a> {
    /// Number of layers: 1 to 4.
    log_radix: u32,
    /// Blocks of the first layer, or of the last layer of the inverse.
    blocks: usize,
    /// Number of rows of eight words.
    count: usize,
    from: Strided,
    to: Strided,
    /// Twists by coefficient. They multiply values before the layers, or after the layers of the
    /// inverse.
    twists: Option<Own>,
    /// `true` if inputs are words: for the forward transform in the range of [`Lanes::enter`], for
    /// the inverse only if words are not values.
    first: bool,
    /// The first [`Lanes::LAYERS`] layers of the forward transform need no [`Lanes::centre`].
    centred: bool,
    /// `true` for canonical outputs. The inverse also multiplies by the factor of node 0; for half
    /// of the outputs the factor of node 1 includes it.
    last: bool,
    prefetch: Prefetch<'a>,
}

/// Memory to prefetch a little at a time. Prefetching all at once is no faster and stalls the
/// computation.
#[derive(Clone, Copy)]
struct Prefetch<'a> {
    group: Option<Ahead>,
    /// Rows in the order of memory.
    rows: &'a [&'a [u8]],
    /// Part of each row to prefetch: its number, and the logarithm of the number of parts.
    part: (usize, u32),
}

/// A group of words: 64 at each of several places.
#[derive(Clone, Copy)]
struct Ahead {
    start: *mut u64,
    /// Distance between places.
    stride: usize,
    /// Total number of cache lines.
    lines: usize,
}

impl Prefetch<'_> {
    const NOTHING: Self = Self { group: None, rows: &[], part: (0, 0) };

    /// Returns the part for sweep `k`: only the first two sweeps prefetch.
    #[inline(always)]
    fn share(self, k: u32, sweeps: u32) -> Self {
        match k {
            0 if sweeps == 1 => self,
            0 | 1 => Self { part: (k as usize, 1), ..self },
            _ => Self::NOTHING,
        }
    }

    /// Prefetches the share of iteration `i` of `2^log_count`.
    #[inline(always)]
    fn fetch(self, i: usize, log_count: u32) {
        let (number, log_parts) = self.part;
        let place = (number << log_count) + i;
        let share = |lines: usize| {
            let start = |place| (lines * place) >> (log_parts + log_count);
            start(place)..start(place + 1)
        };
        if let Some(Ahead { start, stride, lines }) = self.group {
            for k in share(lines) {
                let place = start.wrapping_add(k / WIDTH * stride + k % WIDTH * WIDTH);
                prefetch::<2>(place.cast_const().cast());
            }
        }
        for row in self.rows {
            for k in share(row.len() / (8 * WIDTH)) {
                prefetch::<2>(row.as_ptr().wrapping_add(8 * WIDTH * k));
            }
        }
    }
}

impl<'a> Sweep<'a> {
    /// A sweep from values to values without twists. The caller sets the number of layers and
    /// blocks.
    #[inline(always)]
    fn plain(count: usize, from: Strided, to: Strided, prefetch: Prefetch<'a>) -> Self {
        Self {
            log_radix: 0,
            blocks: 0,
            count,
            from,
            to,
            twists: None,
            first: false,
            centred: false,
            last: false,
            prefetch,
        }
    }

    /// # Safety
    /// Both places have `count` rows, a multiple of `2^log_radix` for each block, and `tree` and
    /// `twists` have their factors. As for [`Lanes`].
    #[inline(always)]
    unsafe fn run<const D: Direction, L: Lanes>(self, lanes: L, tree: impl Tree) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self.log_radix {
                // The last layer of an odd number.
                1 if L::LOG_COLUMN_RADIX == 2 => self.of_radix::<D, L, _, 2>(lanes, tree),
                2 => self.of_radix::<D, L, _, 4>(lanes, tree),
                3 => self.of_radix::<D, L, _, 8>(lanes, tree),
                _ => self.of_radix::<D, L, _, 16>(lanes, tree),
            }
        }
    }

    /// Runs [`Sweep::run`] with radix `R`.
    #[inline(always)]
    unsafe fn of_radix<const D: Direction, L: Lanes, T: Tree, const R: usize>(
        self,
        lanes: L,
        tree: T,
    ) {
        let Self { blocks, count, from, to, first, centred, last, .. } = self;
        let apart = count / blocks / R;
        for block in 0..blocks {
            for offset in 0..apart {
                let coefficient = |k: usize| k * apart + offset;
                let at = |k: usize| block * (count / blocks) + coefficient(k);
                let node = blocks + block;
                for lane in (0..WIDTH).step_by(L::V::LANES) {
                    let tree = tree.lanes_from(lane);
                    let twists = self.twists.map(|twists| twists.lanes_from(lane));
                    // SAFETY: guaranteed by the caller.
                    unsafe {
                        let mut v = [L::V::splat(0); R];
                        for (k, v) in v.iter_mut().enumerate() {
                            *v = L::V::load(from.row(at(k)).add(lane));
                            if first {
                                // The multiplication converts the other half.
                                let enters = D == FORWARD && k < R / 2;
                                *v = if enters { lanes.enter(*v) } else { L::value(*v) };
                            }
                            if let (FORWARD, Some(twists)) = (D, twists) {
                                *v = lanes.mul_centred(*v, twists.factor::<L>(coefficient(k)));
                            }
                        }
                        // Between the sweeps of the inverse, values have width 2.
                        let mut width = [2; R];
                        if D == FORWARD {
                            forward_layer::<L, T, R, 1>(lanes, tree, node, &mut v, centred);
                            forward_layer::<L, T, R, 2>(lanes, tree, node, &mut v, centred);
                            forward_layer::<L, T, R, 4>(lanes, tree, node, &mut v, centred);
                            forward_layer::<L, T, R, 8>(lanes, tree, node, &mut v, centred);
                        } else {
                            inverse_layer::<L, T, R, 8>(lanes, tree, node, &mut v, &mut width);
                            inverse_layer::<L, T, R, 4>(lanes, tree, node, &mut v, &mut width);
                            inverse_layer::<L, T, R, 2>(lanes, tree, node, &mut v, &mut width);
                            inverse_layer::<L, T, R, 1>(lanes, tree, node, &mut v, &mut width);
                        }
                        for (k, mut v) in v.into_iter().enumerate() {
                            if D == FORWARD {
                                if last {
                                    v = lanes.reduce(v);
                                }
                            } else if let Some(twists) = twists {
                                v = lanes.mul_lazy(v, twists.factor::<L>(coefficient(k)));
                            } else if last && k < R / 2 {
                                v = lanes.mul_lazy(v, tree.factor::<L>(0));
                            } else if width[k] > 2 {
                                v = lanes.reduce(v);
                            }
                            let v = if last { lanes.fold(v) } else { v };
                            v.store(to.row(at(k)).add(lane));
                        }
                    }
                }
                self.prefetch.fetch(block * apart + offset, (count / R).ilog2());
            }
        }
    }
}

/// Returns `true` if values that enter a forward transform within `q` of the middle of their range
/// stay in the range up to the twists: 9 layers of columns and 4 of lines.
#[inline(always)]
const fn runs_through<L: Lanes>() -> bool {
    L::LAYERS >= 9 + 4
}

/// Returns `true` if sweep `k` of a line needs no [`Lanes::centre`] before its first
/// [`Lanes::LAYERS`] layers: values stay in the range from the twists, before sweep 1, up to its
/// end.
#[inline(always)]
const fn stays_twisted<L: Lanes>(k: u32) -> bool {
    let layers = (blocks_above::<L>(k + 1) / blocks_above::<L>(1)).ilog2();
    k == 1 || layers <= L::LAYERS_TWISTED
}

/// Runs one forward layer of `BLOCKS` blocks on `R` vectors below node `node`; see
/// [`Sweep::centred`].
#[inline(always)]
unsafe fn forward_layer<L: Lanes, T: Tree, const R: usize, const BLOCKS: usize>(
    lanes: L,
    tree: T,
    node: usize,
    v: &mut [L::V; R],
    centred: bool,
) {
    if BLOCKS >= R {
        return;
    }
    let half = R / BLOCKS / 2;
    // The first layers need no centring: count the layers after them.
    let first = if centred { L::LAYERS } else { 0 };
    let drifted = BLOCKS.ilog2().checked_sub(first);
    let centre = drifted.is_some_and(|layers| layers.is_multiple_of(L::LAYERS_CENTRED));
    for block in 0..BLOCKS {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let w = tree.factor::<L>(node * BLOCKS + block);
            for i in 2 * half * block..2 * half * block + half {
                let x = if centre { lanes.centre(v[i]) } else { v[i] };
                (v[i], v[i + half]) = lanes.forward(x, v[i + half], w);
            }
        }
    }
}

/// Runs one inverse layer of `BLOCKS` blocks on `R` vectors below node `node`. Each vector has its
/// own width.
#[inline(always)]
unsafe fn inverse_layer<L: Lanes, T: Tree, const R: usize, const BLOCKS: usize>(
    lanes: L,
    tree: T,
    node: usize,
    v: &mut [L::V; R],
    width: &mut [u32; R],
) {
    if BLOCKS >= R {
        return;
    }
    let half = R / BLOCKS / 2;
    for block in 0..BLOCKS {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let w = tree.factor::<L>(node * BLOCKS + block);
            for i in 2 * half * block..2 * half * block + half {
                for k in [i, i + half] {
                    if width[k] > L::LIMIT / 2 {
                        v[k] = lanes.reduce(v[k]);
                        width[k] = 2;
                    }
                }
                (v[i], v[i + half]) = lanes.inverse(v[i], v[i + half], w);
                width[i] += width[i + half];
                width[i + half] = 2;
            }
        }
    }
}

/// Runs all layers of eight columns of `lines` lines, of canonical `WORDS` or of values that sums
/// left, which are in the range of [`Lanes::centre`].
#[inline(always)]
unsafe fn forward_columns<L: Lanes, const WORDS: bool>(
    lanes: L,
    tree: Same,
    lines: usize,
    far: Strided,
    near: Strided,
) {
    let layers = lines.ilog2();
    let sweeps = layers.div_ceil(L::LOG_COLUMN_RADIX);
    let mut blocks = 1;
    // Layers since values were centred.
    let mut drifted = 0;
    for k in 0..sweeps {
        let log_radix = sweep_radix(layers, L::LOG_COLUMN_RADIX, k);
        drifted += log_radix;
        let centred = k == 0 || drifted <= L::LAYERS;
        if !centred {
            drifted = log_radix;
        }
        let from = if k == 0 { far } else { near };
        let to = if k + 1 == sweeps { far } else { near };
        let sweep = Sweep { log_radix, blocks, ..Sweep::plain(lines, from, to, Prefetch::NOTHING) };
        // SAFETY: guaranteed by the caller.
        unsafe {
            if k == 0 {
                Sweep { first: WORDS, centred, ..sweep }.run::<FORWARD, L>(lanes, tree);
            } else {
                Sweep { centred, ..sweep }.run::<FORWARD, L>(lanes, tree);
            }
        }
        blocks <<= log_radix;
    }
}

/// Runs all layers of eight columns of `lines` lines, with the second tree for the last sweep.
#[inline(always)]
unsafe fn inverse_columns<L: Lanes>(
    lanes: L,
    (tree, top): (Same, Same),
    lines: usize,
    from: Strided,
    near: Strided,
    to: Strided,
    prefetch: Prefetch<'_>,
) {
    let layers = lines.ilog2();
    let sweeps = layers.div_ceil(L::LOG_COLUMN_RADIX);
    let mut sweep = Sweep { blocks: lines, ..Sweep::plain(lines, from, near, prefetch) };
    for k in (0..sweeps).rev() {
        sweep.log_radix = sweep_radix(layers, L::LOG_COLUMN_RADIX, k);
        sweep.blocks >>= sweep.log_radix;
        sweep.prefetch = prefetch.share(sweeps - 1 - k, sweeps);
        // SAFETY: guaranteed by the caller.
        unsafe {
            if k > 0 {
                sweep.run::<INVERSE, L>(lanes, tree);
            } else {
                Sweep { to, last: true, ..sweep }.run::<INVERSE, L>(lanes, top);
            }
        }
        sweep.from = near;
    }
}

/// Runs sweep `K` of eight lines, if it exists.
#[inline(always)]
unsafe fn line_sweep<const D: Direction, L: Lanes, const K: u32>(
    lanes: L,
    Group { own, twists, shared }: Group,
    near: Strided,
    block: Strided,
    prefetch: Prefetch<'_>,
) {
    let sweeps = LAYERS.div_ceil(L::LOG_RADIX);
    if K >= sweeps {
        return;
    }
    let done = if D == FORWARD { K } else { sweeps - 1 - K };
    let end = K + 1 == sweeps;
    let below = if end { block } else { near };
    let (from, to) = if D == FORWARD { (near, below) } else { (below, near) };
    let sweep = Sweep {
        log_radix: sweep_radix(LAYERS, L::LOG_RADIX, K),
        blocks: blocks_above::<L>(K),
        twists: (K == 1).then_some(twists),
        first: D == INVERSE && end && L::CONVERTS,
        centred: runs_through::<L>() || K > 0 && stays_twisted::<L>(K),
        last: D == FORWARD && end,
        ..Sweep::plain(ROW, from, to, prefetch.share(done, sweeps))
    };
    // SAFETY: guaranteed by the caller.
    unsafe {
        match K {
            0 => sweep.run::<D, L>(lanes, own),
            _ => sweep.run::<D, L>(lanes, shared),
        }
    }
}

/// Storage order of a row's coefficients: word distances between neighbours.
#[derive(Clone, Copy)]
struct Order {
    line: usize,
    /// Distance for columns that are multiples of eight. The eight columns from there on are
    /// adjacent.
    column: usize,
}

impl Order {
    /// Line after line.
    const LINES: Self = Self { line: ROW, column: 1 };

    /// Stores eight columns after eight columns; see [`NttTable::column_place`].
    fn columns(lines: usize) -> Self {
        Self { line: WIDTH, column: lines }
    }

    /// Eight columns of a row, by line.
    fn column(self, row: *mut u64, column: usize) -> Strided {
        Strided { start: row.wrapping_add(column * self.column), stride: self.line }
    }

    /// The start of a group of eight lines.
    fn group(self, row: *mut u64, group: usize) -> *mut u64 {
        row.wrapping_add(group * WIDTH * self.line)
    }

    /// All words of a group, none of them prefetched yet.
    fn ahead(self, row: *mut u64, group: usize) -> Ahead {
        let stride = if self.column == 1 { WIDTH * WIDTH } else { WIDTH * self.column };
        Ahead { start: self.group(row, group), stride, lines: ROW }
    }
}

/// Runs all layers of a group of eight lines, from `row` to the block `out`.
#[inline(always)]
unsafe fn forward_group<L: Lanes>(
    lanes: L,
    factors: Group,
    (row, order, group): (*mut u64, Order, usize),
    near: Strided,
    out: *mut u64,
    prefetch: Prefetch<'_>,
) {
    let out = Strided { start: out, stride: WIDTH };
    // SAFETY: guaranteed by the caller.
    unsafe {
        for column in (0..ROW).step_by(WIDTH) {
            L::V::transpose(
                order.column(order.group(row, group), column),
                Strided { start: near.start.add(column * WIDTH), stride: WIDTH },
            );
        }
        line_sweep::<FORWARD, L, 0>(lanes, factors, near, out, prefetch);
        line_sweep::<FORWARD, L, 1>(lanes, factors, near, out, prefetch);
        line_sweep::<FORWARD, L, 2>(lanes, factors, near, out, prefetch);
        line_sweep::<FORWARD, L, 3>(lanes, factors, near, out, prefetch);
    }
}

#[inline(always)]
pub unsafe fn forward<L: Lanes>(t: &NttTable, rows: &[*mut u64]) {
    let lines = (1 << t.log_n()) / ROW;
    let order = Order::LINES;
    let twiddles = t.forward_twiddles().as_ptr();
    let mut buffer = Buffer::<{ WIDTH * MAX_LINES }>::new();
    let near = buffer.rows();
    // SAFETY: rows have N words; `twiddles` laid the table out for this code.
    unsafe {
        let lanes = L::new(t.modulus());
        // Columns would meet the row a cache line at a time, several times slower than in order
        // (performance log, key switching).
        if let Some(row) = rows.first() {
            (0..lines * ROW)
                .step_by(WIDTH)
                .for_each(|i| prefetch::<2>(row.add(i).cast_const().cast()));
        }
        for (k, &row) in rows.iter().enumerate() {
            for column in (0..ROW).step_by(WIDTH) {
                let far = order.column(row, column);
                forward_columns::<L, true>(lanes, Same(twiddles), lines, far, near);
            }
            // After the last group, prefetch the row that follows the first: the next limb of its
            // polynomial.
            let next = rows.get(k + 1).copied().unwrap_or(rows[0].wrapping_add(lines * ROW));
            for group in 0..lines / WIDTH {
                let factors = Group::new::<L>(twiddles, lines, group);
                let out = order.group(row, group);
                let prefetch =
                    Prefetch { group: Some(order.ahead(next, group)), ..Prefetch::NOTHING };
                forward_group(lanes, factors, (row, order, group), near, out, prefetch);
            }
        }
    }
}

#[inline(always)]
pub unsafe fn forward_groups<L: Lanes>(t: &NttTable, groups: *mut u64, count: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { groups_of::<L, true>(t, groups, count) }
}

#[inline(always)]
pub unsafe fn forward_sums<L: Lanes>(t: &NttTable, groups: *mut u64, count: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { groups_of::<L, false>(t, groups, count) }
}

#[inline(always)]
unsafe fn groups_of<L: Lanes, const WORDS: bool>(t: &NttTable, groups: *mut u64, count: usize) {
    let lines = (1 << t.log_n()) / ROW;
    let tree = Same(t.forward_twiddles().as_ptr());
    // SAFETY: there are `count` groups of eight columns; `twiddles` laid the table out for this
    // code.
    unsafe {
        let lanes = L::new(t.modulus());
        for group in 0..count {
            let place = Order::columns(lines).column(groups, group * WIDTH);
            forward_columns::<L, WORDS>(lanes, tree, lines, place, place);
        }
    }
}

#[inline(always)]
pub unsafe fn forward_block<L: Lanes>(
    t: &NttTable,
    row: *const u64,
    block: usize,
    out: *mut u64,
    prefetch: &[&[u8]],
) {
    let lines = (1 << t.log_n()) / ROW;
    let order = Order::columns(lines);
    let row = row.cast_mut();
    let mut buffer = Buffer::<{ WIDTH * ROW }>::new();
    let near = buffer.rows();
    // After the last block, prefetch the next limb of the polynomial.
    let last = (block + 1) * WIDTH == lines;
    let next = if last { (row.wrapping_add(lines * ROW), 0) } else { (row, block + 1) };
    // SAFETY: the row has N words, which are only read, and `out` has the words of a block;
    // `twiddles` laid the table out for this code.
    unsafe {
        let factors = Group::new::<L>(t.forward_twiddles().as_ptr(), lines, block);
        let group = Some(order.ahead(next.0, next.1));
        let prefetch = Prefetch { group, rows: prefetch, ..Prefetch::NOTHING };
        forward_group(L::new(t.modulus()), factors, (row, order, block), near, out, prefetch);
    }
}

/// Runs all layers of a group of eight lines, from the block `from` to the lines `out`, which may
/// be the same words.
#[inline(always)]
unsafe fn inverse_group<L: Lanes>(
    lanes: L,
    factors: Group,
    (from, out): (*mut u64, *mut u64),
    near: Strided,
    prefetch: Prefetch<'_>,
) {
    let from = Strided { start: from, stride: WIDTH };
    // SAFETY: guaranteed by the caller.
    unsafe {
        line_sweep::<INVERSE, L, 3>(lanes, factors, near, from, prefetch);
        line_sweep::<INVERSE, L, 2>(lanes, factors, near, from, prefetch);
        line_sweep::<INVERSE, L, 1>(lanes, factors, near, from, prefetch);
        line_sweep::<INVERSE, L, 0>(lanes, factors, near, from, prefetch);
        for column in (0..ROW).step_by(WIDTH) {
            L::V::transpose(
                Strided { start: near.start.add(column * WIDTH), stride: WIDTH },
                Order::LINES.column(out, column),
            );
        }
    }
}

/// Returns the factors of the first sweep of columns. The first two nodes combine the factor of the
/// last layer with `scale / N`, so half of the words need one multiplication for both.
fn scaled_top<L: Lanes>(t: &NttTable, scale: Shoup) -> [u64; 2 << MAX_LOG_RADIX] {
    let m = t.modulus();
    let twiddles = t.inverse_twiddles();
    let mut top = [0; 2 << MAX_LOG_RADIX];
    top.copy_from_slice(&twiddles[..2 << MAX_LOG_RADIX]);
    let scale = m.mul(L::residue(m, twiddles[0]), scale.value);
    let root = m.mul(L::residue(m, twiddles[2]), scale);
    top[..2].copy_from_slice(&L::factor(m, m.shoup(scale)));
    top[2..4].copy_from_slice(&L::factor(m, m.shoup(root)));
    top
}

#[inline(always)]
pub unsafe fn inverse<L: Lanes>(t: &NttTable, rows: &[*mut u64], scale: Shoup) {
    let lines = (1 << t.log_n()) / ROW;
    let order = Order::LINES;
    let twiddles = t.inverse_twiddles().as_ptr();
    let top = scaled_top::<L>(t, scale);
    let mut buffer = Buffer::<{ WIDTH * MAX_LINES }>::new();
    let near = buffer.rows();
    // SAFETY: rows have N words; `twiddles` laid the table out for this code.
    unsafe {
        let lanes = L::new(t.modulus());
        for (k, &row) in rows.iter().enumerate() {
            // Lines first: the inverse runs the layers of `forward` backwards.
            for group in 0..lines / WIDTH {
                let ahead = match rows.get(k + 1) {
                    _ if group + 1 < lines / WIDTH => Some((row, group + 1)),
                    next => next.map(|next| (*next, 0)),
                };
                let group_ahead = ahead.map(|(row, group)| order.ahead(row, group));
                let prefetch = Prefetch { group: group_ahead, ..Prefetch::NOTHING };
                let factors = Group::new::<L>(twiddles, lines, group);
                let block = order.group(row, group);
                inverse_group(lanes, factors, (block, block), near, prefetch);
            }
            for column in (0..ROW).step_by(WIDTH) {
                let far = order.column(row, column);
                let trees = (Same(twiddles), Same(top.as_ptr()));
                inverse_columns(lanes, trees, lines, far, near, far, Prefetch::NOTHING);
            }
        }
    }
}

#[inline(always)]
pub unsafe fn inverse_block<L: Lanes>(
    t: &NttTable,
    block: usize,
    from: *const u64,
    out: *mut u64,
    prefetch: &[&[u8]],
) {
    let lines = (1 << t.log_n()) / ROW;
    let mut buffer = Buffer::<{ WIDTH * ROW }>::new();
    let near = buffer.rows();
    // SAFETY: both have the words of a block, and the first is only read; `twiddles` laid the table
    // out for this code.
    unsafe {
        let factors = Group::new::<L>(t.inverse_twiddles().as_ptr(), lines, block);
        let prefetch = Prefetch { rows: prefetch, ..Prefetch::NOTHING };
        inverse_group(L::new(t.modulus()), factors, (from.cast_mut(), out), near, prefetch);
    }
}

#[inline(always)]
pub unsafe fn inverse_groups<L: Lanes>(t: &NttTable, row: *const u64, out: *mut u64, scale: Shoup) {
    let lines = (1 << t.log_n()) / ROW;
    let top = scaled_top::<L>(t, scale);
    let trees = (Same(t.inverse_twiddles().as_ptr()), Same(top.as_ptr()));
    let mut buffer = Buffer::<{ WIDTH * MAX_LINES }>::new();
    let near = buffer.rows();
    // SAFETY: rows have N words, and the first is only read; `twiddles` laid the table out for this
    // code.
    unsafe {
        let lanes = L::new(t.modulus());
        for column in (0..ROW).step_by(WIDTH) {
            let far = Order::LINES.column(row.cast_mut(), column);
            let to = Order::columns(lines).column(out, column);
            // Prefetch in the order of memory, in which the layers do not write.
            let next = out.wrapping_add((column + WIDTH) * lines);
            let group = Some(Ahead { start: next, stride: WIDTH * WIDTH, lines });
            let prefetch = Prefetch { group, ..Prefetch::NOTHING };
            inverse_columns(lanes, trees, lines, far, near, to, prefetch);
        }
    }
}
