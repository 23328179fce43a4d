//! Portable kernels for any `q < 2^62`: the specification.

use super::{BLOCK, COLUMNS, KernelTable, ROW, Repeated, Rows, TERMS};
use crate::{
    ConstantDot, Modulus, NttTable, Shoup,
    fraction::{Fraction, UNDECIDED},
    wide,
};
use core::slice;

pub(crate) static SCALAR: KernelTable = KernelTable {
    name: "scalar",
    radix_bits: 64,
    wide: None,
    add,
    sub,
    mul_add,
    mul_sum,
    mul_sum_packed,
    pack,
    unpack,
    weight: |_, c| c,
    dot,
    scale,
    scale_add,
    sub_scale,
    add_constant,
    lift,
    round_sum,
    ntt_forward,
    ntt_forward_groups,
    ntt_forward_sums: ntt_forward_groups,
    ntt_forward_block,
    ntt_inverse,
    ntt_inverse_block,
    ntt_inverse_groups,
    min_log_n: 4,
    twiddles,
};

/// Selects the instance of a function for the number of bytes of the modulus' packed words.
macro_rules! by_width {
    ($m:expr, $f:ident($($arg:expr),*)) => {
        match $m.packed_bytes() {
            1 => $f::<1>($($arg),*),
            2 => $f::<2>($($arg),*),
            3 => $f::<3>($($arg),*),
            4 => $f::<4>($($arg),*),
            5 => $f::<5>($($arg),*),
            6 => $f::<6>($($arg),*),
            7 => $f::<7>($($arg),*),
            _ => $f::<8>($($arg),*),
        }
    };
}

/// Returns `a * w mod q` in `[0, 2q)`, for any `a`.
#[inline(always)]
fn mul_lazy(q: u64, a: u64, w: Shoup) -> u64 {
    // Low words suffice, since the difference is in `[0, 2q)`.
    let multiple = wide::high(a, w.quotient).wrapping_mul(q);
    a.wrapping_mul(w.value).wrapping_sub(multiple)
}

/// Returns `a * w mod q` in `[0, 4q)`, for any `a` and `q < 2^62`.
#[inline(always)]
fn mul_lazier(q: u64, a: u64, w: Shoup) -> u64 {
    let multiple = wide::nearly_high(a, w.quotient).wrapping_mul(q);
    a.wrapping_mul(w.value).wrapping_sub(multiple)
}

/// Reduces `[0, 2m)` to `[0, m)`.
#[inline(always)]
fn fold(a: u64, m: u64) -> u64 {
    a.min(a.wrapping_sub(m))
}

/// Products modulo one `q` of `k` bits, by a reciprocal of one word. [`Modulus::reduce_u128`] uses
/// a reciprocal of two.
struct Products {
    q: u64,
    shift: u32,
    reciprocal: u64,
}

impl Products {
    fn new(m: &Modulus) -> Self {
        Self { q: m.value(), shift: m.bits() - 2, reciprocal: m.reciprocal() }
    }

    /// Returns `a b mod q` for residues. The estimate of the quotient is too small by less than 2
    /// in total: by `2^(k - 2) / q`, at most 1/2, as the product is truncated, by `2^(k - 62)` as
    /// the reciprocal is truncated, and by a fraction.
    #[inline(always)]
    fn of(&self, a: u64, b: u64) -> u64 {
        let high = wide::high(a, b);
        let low = a.wrapping_mul(b);
        // Two shifts, because a single one by `64 - shift` overflows for `q = 3`.
        let cut = high << 1 << (63 - self.shift) | low >> self.shift;
        // Below `3 q`, hence the two folds.
        let rest = low.wrapping_sub(wide::high(cut, self.reciprocal).wrapping_mul(self.q));
        fold(fold(rest, 2 * self.q), self.q)
    }
}

unsafe fn add(m: &Modulus, out: *mut u64, a: *const u64, b: *const u64, len: usize) {
    for i in 0..len {
        // SAFETY: the table's contract.
        unsafe { *out.add(i) = m.add(*a.add(i), *b.add(i)) }
    }
}

unsafe fn sub(m: &Modulus, out: *mut u64, a: *const u64, b: *const u64, len: usize) {
    for i in 0..len {
        // SAFETY: the table's contract.
        unsafe { *out.add(i) = m.sub(*a.add(i), *b.add(i)) }
    }
}

unsafe fn mul_add(
    m: &Modulus,
    out: *mut u64,
    a: *const u64,
    b: *const u64,
    c: *const u64,
    len: usize,
) {
    let products = Products::new(m);
    for i in 0..len {
        // SAFETY: the table's contract.
        unsafe { *out.add(i) = m.add(products.of(*a.add(i), *b.add(i)), *c.add(i)) }
    }
}

unsafe fn mul_sum(m: &Modulus, out: *mut u64, a: &[*const u64], b: &[*const u64], len: usize) {
    // SAFETY: the table's contract.
    unsafe { sum_of_products(m, out, a, b, len, |b, x| *b.add(x)) }
}

unsafe fn mul_sum_packed(
    m: &Modulus,
    out: &[*mut u64],
    a: &[&[*const u64]],
    b: Repeated<'_>,
    len: usize,
) {
    for (&out, a) in out.iter().zip(a) {
        // SAFETY: the table's contract.
        unsafe { by_width!(m, mul_sum_of(m, out, a, b, len)) }
    }
}

unsafe fn mul_sum_of<const WIDTH: usize>(
    m: &Modulus,
    out: *mut u64,
    a: &[*const u64],
    b: Repeated<'_>,
    len: usize,
) {
    // SAFETY: the table's contract.
    unsafe {
        sum_of_products(m, out, a, b.rows, len, |row, x| packed_word::<WIDTH>(row, b.place(x)))
    }
}

/// Computes sums of products, where `read(b[i], x)` is word `x` of row `b[i]`.
#[inline(always)]
unsafe fn sum_of_products<T>(
    m: &Modulus,
    out: *mut u64,
    a: &[*const u64],
    b: &[*const T],
    len: usize,
    read: impl Fn(*const T, usize) -> u64,
) {
    // A single product needs a reciprocal of one word only.
    if let ([a], [b]) = (a, b) {
        let products = Products::new(m);
        for x in 0..len {
            // SAFETY: the table's contract.
            unsafe { *out.add(x) = products.of(*a.add(x), read(*b, x)) }
        }
        return;
    }
    for x in 0..len {
        let mut total = 0;
        for (a, b) in a.chunks(TERMS).zip(b.chunks(TERMS)) {
            // SAFETY: the table's contract. 15 products below 2^124 fit.
            let sum: u128 = a
                .iter()
                .zip(b)
                .map(|(a, &b)| unsafe { wide::product(*a.add(x), read(b, x)) })
                .sum();
            total = m.add(total, m.reduce_u128(sum));
        }
        // SAFETY: the table's contract.
        unsafe { *out.add(x) = total }
    }
}

/// # Safety
/// There are `x + 1` packed words at `p`.
#[inline(always)]
unsafe fn packed_word<const WIDTH: usize>(p: *const u8, x: usize) -> u64 {
    let mut word = [0; 8];
    // SAFETY: guaranteed by the caller.
    let bytes = unsafe { p.add(WIDTH * x).cast::<[u8; WIDTH]>().read() };
    word[..WIDTH].copy_from_slice(&bytes);
    u64::from_le_bytes(word)
}

unsafe fn pack(m: &Modulus, out: *mut u8, a: *const u64, len: usize) {
    // SAFETY: the table's contract.
    unsafe { by_width!(m, pack_as(out, a, len)) }
}

unsafe fn pack_as<const WIDTH: usize>(out: *mut u8, a: *const u64, len: usize) {
    for x in 0..len {
        // SAFETY: the table's contract.
        let word = unsafe { (*a.add(x)).to_le_bytes() };
        for (k, byte) in word[..WIDTH].iter().enumerate() {
            // SAFETY: the table's contract.
            unsafe { *out.add(WIDTH * x + k) = *byte }
        }
    }
}

unsafe fn unpack(m: &Modulus, out: *mut u64, a: *const u8, len: usize) -> bool {
    // SAFETY: the table's contract.
    unsafe { by_width!(m, unpack_as(m.value(), out, a, len)) }
}

unsafe fn unpack_as<const WIDTH: usize>(q: u64, out: *mut u64, a: *const u8, len: usize) -> bool {
    let mut below = true;
    for x in 0..len {
        // SAFETY: the table's contract.
        unsafe {
            let word = packed_word::<WIDTH>(a, x);
            *out.add(x) = word;
            below &= word < q;
        }
    }
    below
}

unsafe fn dot(weights: &[&ConstantDot], out: &[*mut u64], a: Rows<'_>, _lazy: bool, len: usize) {
    for (weights, &out) in weights.iter().zip(out) {
        let c: Vec<*const u64> = weights.factors().iter().map(core::ptr::from_ref).collect();
        // SAFETY: the table's contract.
        unsafe { sum_of_products(weights.modulus(), out, a, &c, len, |c, _| *c) }
    }
}

unsafe fn scale(m: &Modulus, out: *mut u64, a: *const u64, w: Shoup, len: usize) {
    for i in 0..len {
        // SAFETY: the table's contract.
        unsafe { *out.add(i) = fold(mul_lazy(m.value(), *a.add(i), w), m.value()) }
    }
}

unsafe fn scale_add(m: &Modulus, out: *mut u64, a: *const u64, w: Shoup, len: usize) {
    for i in 0..len {
        // SAFETY: the table's contract.
        unsafe {
            let product = fold(mul_lazy(m.value(), *a.add(i), w), m.value());
            *out.add(i) = m.add(*out.add(i), product);
        }
    }
}

unsafe fn sub_scale(
    m: &Modulus,
    out: *mut u64,
    a: *const u64,
    b: *const u64,
    w: Shoup,
    len: usize,
) {
    let q = m.value();
    for i in 0..len {
        // SAFETY: the table's contract.
        unsafe { *out.add(i) = fold(mul_lazy(q, *a.add(i) + q - *b.add(i), w), q) }
    }
}

unsafe fn add_constant(m: &Modulus, out: *mut u64, c: u64, len: usize) {
    for i in 0..len {
        // SAFETY: the table's contract.
        unsafe { *out.add(i) = m.add(*out.add(i), c) }
    }
}

unsafe fn lift(m: &Modulus, out: *mut u64, a: *const i8, len: usize) {
    for i in 0..len {
        // SAFETY: the table's contract.
        let a = unsafe { i64::from(*a.add(i)) } as u64;
        // A negative number is the larger of the two before q is added. SAFETY: the table's
        // contract.
        unsafe { *out.add(i) = a.min(a.wrapping_add(m.value())) }
    }
}

/// Rounds in units of `2^-55`. Each term is underestimated by less than two units.
unsafe fn round_sum(fractions: &[Fraction], y: &[*const u64], out: *mut u64, len: usize) -> bool {
    // 256 terms below 2^55 and a half sum to less than 2^64.
    const BITS: u32 = 55;
    let slack = 2 * fractions.len() as u64;
    let mut decided = true;
    for x in 0..len {
        let mut sum = 1u64 << (BITS - 1);
        for (f, y) in fractions.iter().zip(y) {
            // SAFETY: the table's contract.
            let y = unsafe { *y.add(x) } << f.shift;
            // Together `2^-66`, the unit of docs/notes/base-conversion.md: `2^-64` by the high
            // word, the rest here.
            sum += wide::high(y, f.reciprocal) >> 2;
        }
        let v = sum >> BITS;
        let sure = (sum + slack) >> BITS == v;
        decided &= sure;
        // SAFETY: the table's contract.
        unsafe { *out.add(x) = if sure { v } else { UNDECIDED } }
    }
    decided
}

/// Returns pairs `w, floor(w * 2^64 / q)` in the order of `powers`.
fn twiddles(m: &Modulus, _log_n: u32, powers: &[u64]) -> Vec<u64> {
    powers.iter().flat_map(|&w| [w, m.quotient(w)]).collect()
}

#[inline(always)]
fn twiddle(table: &[u64], k: usize) -> Shoup {
    Shoup { value: table[2 * k], quotient: table[2 * k + 1] }
}

/// Returns `true` if words have room for values that start below `2q` and grow by `4q` in each
/// layer of a forward transform, for the maximum of 17 layers.
fn may_grow(q: u64) -> bool {
    // `2 + 17 * 4` moduli are `70 q < 2^64`.
    q >> 57 == 0
}

/// Cooley-Tukey butterflies on `[0, 4q)`, or on values that [grow](may_grow). Node `m + i` of the
/// twiddle tree belongs to block `i` of the layer with `m` blocks.
unsafe fn ntt_forward(t: &NttTable, rows: &[*mut u64]) {
    for row in rows {
        // SAFETY: the table's contract.
        forward_row(t, unsafe { slice::from_raw_parts_mut(*row, 1 << t.log_n()) });
    }
}

fn forward_row(t: &NttTable, row: &mut [u64]) {
    forward_layers(t, row, 1, 1);
    finish_forward(t.modulus(), row);
}

/// Runs the layers down to blocks of `last` words on a part of a row with root `node`.
fn forward_layers(t: &NttTable, part: &mut [u64], node: usize, last: usize) {
    if may_grow(t.modulus().value()) {
        butterflies::<true>(t, part, node, last);
    } else {
        butterflies::<false>(t, part, node, last);
    }
}

/// Runs two layers at a time, which halves the reads and writes of words.
#[inline(always)]
fn butterflies<const GROW: bool>(t: &NttTable, part: &mut [u64], node: usize, last: usize) {
    let q = t.modulus().value();
    let w = |k: usize| twiddle(t.forward_twiddles(), k);
    let of = |node: usize| [w(node), w(2 * node), w(2 * node + 1)];
    let mut node = node;
    let mut size = part.len();
    // The loops below run two layers at a time, so an odd layer runs alone, first.
    if (size / last).ilog2() % 2 == 1 {
        for (i, block) in part.chunks_exact_mut(size).enumerate() {
            let (w, (left, right)) = (w(node + i), block.split_at_mut(size / 2));
            for (x, y) in left.iter_mut().zip(right) {
                [*x, *y] = butterfly::<GROW>(q, [*x, *y], w);
            }
        }
        (node, size) = (2 * node, size / 2);
    }
    while size > 4.max(2 * last) {
        for (i, block) in part.chunks_exact_mut(size).enumerate() {
            let (w, (left, right)) = (of(node + i), block.split_at_mut(size / 2));
            let ((a, b), (c, d)) = (left.split_at_mut(size / 4), right.split_at_mut(size / 4));
            for ((a, b), (c, d)) in a.iter_mut().zip(b).zip(c.iter_mut().zip(d)) {
                [*a, *b, *c, *d] = both::<GROW>(q, [*a, *b, *c, *d], w);
            }
        }
        (node, size) = (4 * node, size / 4);
    }
    // The last two layers work on four adjacent words, as arrays without bounds checks.
    if size > last {
        for (i, words) in part.as_chunks_mut().0.iter_mut().enumerate() {
            *words = both::<GROW>(q, *words, of(node + i));
        }
    }
}

/// Runs two layers on words a quarter of a block apart.
#[inline(always)]
fn both<const GROW: bool>(
    q: u64,
    [a, b, c, d]: [u64; 4],
    [top, left, right]: [Shoup; 3],
) -> [u64; 4] {
    let ([a, c], [b, d]) = (butterfly::<GROW>(q, [a, c], top), butterfly::<GROW>(q, [b, d], top));
    let ([a, b], [c, d]) =
        (butterfly::<GROW>(q, [a, b], left), butterfly::<GROW>(q, [c, d], right));
    [a, b, c, d]
}

/// `(x + w y, x - w y)`.
#[inline(always)]
fn butterfly<const GROW: bool>(q: u64, [x, y]: [u64; 2], w: Shoup) -> [u64; 2] {
    if GROW {
        let v = mul_lazier(q, y, w);
        // `mul_lazier` is below `4 q`, so the difference stays positive.
        [x + v, x + 4 * q - v]
    } else {
        // Without room to grow, `u` must be below `2 q` for results below `4 q`.
        let u = fold(x, 2 * q);
        let v = mul_lazy(q, y, w);
        [u + v, u + 2 * q - v]
    }
}

/// Reduces to canonical residues and puts them in the order of evaluations.
fn finish_forward(m: &Modulus, row: &mut [u64]) {
    let q = m.value();
    let one = m.one();
    if may_grow(q) {
        // A product with 1 takes any word to below `2 q`.
        row.iter_mut().for_each(|x| *x = fold(mul_lazy(q, *x, one), q));
    } else {
        row.iter_mut().for_each(|x| *x = fold(fold(*x, 2 * q), q));
    }
    interleave(row, ROW);
}

/// Runs the layers that pair lines. Each line has eight words in a group of columns.
unsafe fn ntt_forward_groups(t: &NttTable, groups: *mut u64, count: usize) {
    let words = NttTable::group_words(t.log_n());
    // A shorter row is one group. `ntt_forward_block` then runs all of its layers.
    if words < 1 << t.log_n() {
        // SAFETY: the table's contract.
        let groups = unsafe { slice::from_raw_parts_mut(groups, count * words) };
        groups.chunks_exact_mut(words).for_each(|group| forward_layers(t, group, 1, COLUMNS));
    }
}

unsafe fn ntt_forward_block(
    t: &NttTable,
    row: *const u64,
    block: usize,
    out: *mut u64,
    _: &[&[u8]],
) {
    let n = 1 << t.log_n();
    let words = n.min(BLOCK);
    // SAFETY: the table's contract.
    let (row, out) =
        unsafe { (slice::from_raw_parts(row, n), slice::from_raw_parts_mut(out, words)) };
    let first = block * words;
    for (i, word) in (first..).zip(&mut *out) {
        *word = row[NttTable::column_place(t.log_n(), i)];
    }
    if n < BLOCK {
        return forward_row(t, out);
    }
    for (line, part) in (first / ROW..).zip(out.chunks_exact_mut(ROW)) {
        forward_layers(t, part, n / ROW + line, 1);
    }
    finish_forward(t.modulus(), out);
}

/// Gentleman-Sande butterflies on `[0, 2q)`, the inverse of [`ntt_forward`].
unsafe fn ntt_inverse(t: &NttTable, rows: &[*mut u64], scale: Shoup) {
    for row in rows {
        // SAFETY: the table's contract.
        inverse_row(t, unsafe { slice::from_raw_parts_mut(*row, 1 << t.log_n()) }, scale);
    }
}

fn inverse_row(t: &NttTable, row: &mut [u64], scale: Shoup) {
    interleave(row, COLUMNS);
    inverse_layers(t, row, 1, 1);
    finish_inverse(t, row, scale);
}

/// Runs the layers from blocks of `first` words on, on a part of a row with root `node`.
fn inverse_layers(t: &NttTable, part: &mut [u64], node: usize, first: usize) {
    let q = t.modulus().value();
    let mut blocks = part.len() / 2 / first;
    let mut half = first;
    while blocks > 0 {
        for i in 0..blocks {
            let w = twiddle(t.inverse_twiddles(), node * blocks + i);
            let (left, right) = part[2 * half * i..][..2 * half].split_at_mut(half);
            for (x, y) in left.iter_mut().zip(right) {
                let u = *x;
                let v = *y;
                *x = fold(u + v, 2 * q);
                *y = mul_lazy(q, u + 2 * q - v, w);
            }
        }
        blocks /= 2;
        half *= 2;
    }
}

/// Reduces to canonical residues, times `scale / N`.
fn finish_inverse(t: &NttTable, row: &mut [u64], scale: Shoup) {
    let m = t.modulus();
    let q = t.modulus().value();
    // One product for both factors: node 0 holds `1/N`.
    let value = m.mul(twiddle(t.inverse_twiddles(), 0).value, scale.value);
    let scale = Shoup { value, quotient: m.quotient(value) };
    for x in row.iter_mut() {
        *x = fold(mul_lazy(q, *x, scale), q);
    }
}

unsafe fn ntt_inverse_block(
    t: &NttTable,
    block: usize,
    from: *const u64,
    out: *mut u64,
    _: &[&[u8]],
) {
    let n = 1 << t.log_n();
    let words = n.min(BLOCK);
    // SAFETY: the table's contract.
    let (from, out) =
        unsafe { (slice::from_raw_parts(from, words), slice::from_raw_parts_mut(out, words)) };
    out.copy_from_slice(from);
    if n >= BLOCK {
        interleave(out, COLUMNS);
        for (line, part) in (block * COLUMNS..).zip(out.chunks_exact_mut(ROW)) {
            inverse_layers(t, part, n / ROW + line, 1);
        }
    }
}

unsafe fn ntt_inverse_groups(t: &NttTable, row: *const u64, out: *mut u64, scale: Shoup) {
    let n = 1 << t.log_n();
    // SAFETY: the table's contract.
    let (row, out) = unsafe { (slice::from_raw_parts(row, n), slice::from_raw_parts_mut(out, n)) };
    for (i, &word) in row.iter().enumerate() {
        out[NttTable::column_place(t.log_n(), i)] = word;
    }
    if n < BLOCK {
        return inverse_row(t, out, scale);
    }
    for group in out.chunks_exact_mut(NttTable::group_words(t.log_n())) {
        inverse_layers(t, group, 1, COLUMNS);
    }
    finish_inverse(t, out, scale);
}

/// Transposes each block, seen as rows of `width` words. Shorter rows keep their order.
fn interleave(row: &mut [u64], width: usize) {
    let mut copy = [0; BLOCK];
    for block in row.chunks_exact_mut(BLOCK) {
        copy.copy_from_slice(block);
        for (k, word) in block.iter_mut().enumerate() {
            *word = copy[k % (BLOCK / width) * width + k / (BLOCK / width)];
        }
    }
}
