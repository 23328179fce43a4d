//! The special FFT of CKKS encoding: the canonical embedding of `R[X]/(X^{2n} + 1)` restricted to
//! the orbit of 5.
//!
//! Cheon, Kim, Kim, Song, "Homomorphic encryption for arithmetic of approximate numbers", ASIACRYPT
//! 2017, with slots in the order of Cheon, Han, Kim, Kim, Song, "Bootstrapping for approximate
//! homomorphic encryption", EUROCRYPT 2018.
//!
//! To evaluate `u(X)` of degree below `n` at `zeta^(5^j)`, `zeta = exp(2 pi i / 4n)`, reduce it
//! modulo `X^n - i = prod_j (X - zeta^(5^j))`, down a tree of factors. The node at depth `d` with
//! residue `r < 2^d` belongs to the `j = r mod 2^d` and is `X^(n/2^d) - w^2` for
//! `w = exp(2 pi i 5^r / 2^(d+3))`. Its left child `X^(n/2^(d+1)) - w` has residue `r`, its right
//! child `X^(n/2^(d+1)) + w` residue `r + 2^d`. As `w` depends on `d` and `r` only, the tables for
//! one size serve all smaller ones.

mod butterflies;
mod complex;
mod lanes;
mod roots;

pub use complex::Complex;

use crate::dd::Dd;
use butterflies::{
    forward_one_level, forward_pair, forward_right_pair, forward_two_levels, inverse_one_level,
    inverse_pair, inverse_right_pair, inverse_two_levels,
};
use lanes::{DdX8, F64x8};
use roots::Roots;
use sealed::Scalar;

/// A real number type that [`SpecialFft`] computes with: `f64` or [`Dd`].
pub trait Real:
    Scalar + Send + Sync + std::fmt::Debug + PartialEq + PartialOrd + Default + 'static
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Converts exactly.
    fn from_f64(x: f64) -> Self;
    /// Rounds to the nearest number of this type.
    fn from_dd(x: Dd) -> Self;
    /// Rounds to the nearest `f64`.
    fn to_f64(self) -> f64;
    /// Converts exactly.
    fn to_dd(self) -> Dd;
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    #[inline]
    fn from_f64(x: f64) -> Self {
        x
    }
    #[inline]
    fn from_dd(x: Dd) -> Self {
        x.to_f64()
    }
    #[inline]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline]
    fn to_dd(self) -> Dd {
        self.into()
    }
}

impl Real for Dd {
    const ZERO: Self = Self::ZERO;
    const ONE: Self = Self::ONE;
    #[inline]
    fn from_f64(x: f64) -> Self {
        x.into()
    }
    #[inline]
    fn from_dd(x: Dd) -> Self {
        x
    }
    #[inline]
    fn to_f64(self) -> f64 {
        self.to_f64()
    }
    #[inline]
    fn to_dd(self) -> Dd {
        self
    }
}

mod sealed {
    use super::{Real, Row, SpecialFft, lanes::Lanes};
    use std::ops::{Add, Mul, Neg, Sub};

    /// A number type and the type of eight such numbers side by side. The latter consists of the
    /// same `f64`s in another order and of nothing else.
    pub trait Scalar:
        Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Neg<Output = Self>
    {
        type Lanes: Lanes<Scalar = Self>;

        /// Product with a power of two.
        fn scale(self, power_of_two: f64) -> Self;
        /// [`SpecialFft::forward`] on rows. It is not generic: the transforms are compiled in this
        /// crate, at its optimisation level.
        fn forward(fft: &SpecialFft<Self>, rows: &mut [Row<Self>])
        where
            Self: Real;
        /// [`SpecialFft::inverse`] on rows.
        fn inverse(fft: &SpecialFft<Self>, rows: &mut [Row<Self>])
        where
            Self: Real;
    }
}

/// Runs a transform in the version compiled for the CPU's instruction set.
macro_rules! dispatch {
    ($name:ident, $portable:ident, $avx2:ident, $avx512:ident) => {
        fn $name(fft: &SpecialFft<Self>, rows: &mut [Row<Self>]) {
            match fft.simd {
                Simd::Portable => fft.$portable(rows),
                // SAFETY: a `Simd` value exists only if the CPU has the set.
                #[cfg(target_arch = "x86_64")]
                Simd::Avx2 => unsafe { fft.$avx2(rows) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Simd::Avx512 => unsafe { fft.$avx512(rows) },
            }
        }
    };
}

impl Scalar for f64 {
    type Lanes = F64x8;
    #[inline(always)]
    fn scale(self, power_of_two: f64) -> Self {
        self * power_of_two
    }
    dispatch!(forward, forward_rows, forward_avx2, forward_avx512);
    dispatch!(inverse, inverse_rows, inverse_avx2, inverse_avx512);
}

impl Scalar for Dd {
    type Lanes = DdX8;
    #[inline(always)]
    fn scale(self, power_of_two: f64) -> Self {
        Self::from_parts((self.hi() * power_of_two, self.lo() * power_of_two))
    }
    dispatch!(forward, forward_rows, forward_avx2, forward_avx512);
    dispatch!(inverse, inverse_rows, inverse_avx2, inverse_avx512);
}

/// Eight complex numbers. In `values` they are one after the other. Within a transform, real parts
/// precede imaginary parts, so that a loop over the lanes compiles to vector instructions for any
/// width of registers.
type Row<T> = Complex<<T as Scalar>::Lanes>;

/// Rows of an inner block. Its passes follow one another while the block is in the first-level
/// cache (32 KiB of `f64`).
const INNER_ROWS: usize = 256;

/// The transform between slots and half-coefficients for every power of two up to a maximum, and
/// the roots of unity it needs.
///
/// For `n` values, half-coefficient `k` is `c_k + i c_(k+n)` of the real polynomial
/// `sum_(k < 2n) c_k X^k`, and slot `j` is its value at `zeta^(5^j)`, `zeta = exp(2 pi i / 4n)`.
/// The values at the conjugates are the conjugates. The cyclic rotation of slots by `r` is
/// `X -> X^(5^r)`.
///
/// The root mean square of the errors, over the root mean square of the result, is below `4 log2(n)
/// u` with `u = 2^-53` for `f64` and `2^-103` for [`Dd`]. Results are the same bits on every
/// machine, whatever its vector instructions.
///
/// ```
/// use sudare_arith::fft::{Complex, SpecialFft};
///
/// let fft = SpecialFft::<f64>::new(14);
/// let slots = [Complex::new(1.0, 2.0), Complex::new(-0.5, 0.0)];
/// let mut values = slots;
/// fft.inverse(&mut values);
/// // c_0 + c_1 X + c_2 X^2 + c_3 X^3 with values 1 + 2i at zeta and -0.5 at zeta^5.
/// let coefficients = [values[0].re, values[1].re, values[0].im, values[1].im];
/// assert!((coefficients[0] - 0.25).abs() < 1e-15);
/// fft.forward(&mut values);
/// assert!((values[0] - slots[0]).re.abs() < 1e-15);
/// ```
#[derive(Debug, Clone)]
pub struct SpecialFft<T: Real> {
    log_slots_max: u32,
    simd: Simd,
    /// `w` at `2^d + r`, for transforms too short for rows.
    short: Vec<Complex<T>>,
    /// `v`, `v^2`, `v^3` at `2^d + b` for the node `b` from the left at depth `d`, with `v` the `w`
    /// of its left child. Two levels at a time use them.
    radix4: Vec<[Complex<T>; 3]>,
    /// `w` at `2^d + r`, eight a row, for the last three levels.
    tail: Vec<Row<T>>,
}

impl<T: Real> SpecialFft<T> {
    /// Tables for up to `2^log_slots_max` values.
    ///
    /// # Panics
    /// If `log_slots_max` is over 28.
    #[must_use]
    pub fn new(log_slots_max: u32) -> Self {
        Self::with_simd(log_slots_max, Simd::detect())
    }

    fn with_simd(log_slots_max: u32, simd: Simd) -> Self {
        assert!(log_slots_max <= 28, "2^{log_slots_max} slots: at most 2^28 are supported");
        let roots = Roots::new(log_slots_max + 2);
        // w of residue r at depth d, as a power of the primitive root of order
        // 2^(log_slots_max + 2).
        let index = |d: u32, r: u32| {
            // Wrapping is harmless: the mask keeps the residue modulo a power of two.
            let five_r = 5u32.wrapping_pow(r) & ((8 << d) - 1);
            five_r << (log_slots_max - 1 - d)
        };
        let root = |index: u32| {
            let Complex { re, im } = roots.power(index);
            Complex::new(T::from_dd(re), T::from_dd(im))
        };
        let heap = |depths: u32| (0..depths).flat_map(|d| (0..1u32 << d).map(move |r| (d, r)));

        // Heap order from 1 on: place 0 of each table is unused.
        let mut short = vec![Complex::default(); 1];
        short.extend(heap(log_slots_max.min(LOG_SHORT)).map(|(d, r)| root(index(d, r))));
        let mut radix4 = vec![[Complex::default(); 3]; 1];
        radix4.extend(heap(log_slots_max.saturating_sub(4)).map(|(d, node)| {
            let v = index(d + 1, reverse_bits(node as usize, d) as u32);
            [root(v), root(2 * v), root(v.wrapping_mul(3))]
        }));
        let mut tail = vec![Row::<T>::default(); 1];
        // The seven nodes of depths 0 to 2 do not fill rows of eight. No tile asks for them.
        for (d, r) in heap(log_slots_max).skip(7) {
            let lane = r as usize % 8;
            if lane == 0 {
                tail.push(Row::<T>::default());
            }
            if let Some(row) = tail.last_mut() {
                row.set(lane, root(index(d, r)));
            }
        }
        Self { log_slots_max, simd, short, radix4, tail }
    }

    /// `log2` of the largest number of values.
    #[must_use]
    pub fn log_slots_max(&self) -> u32 {
        self.log_slots_max
    }

    /// Transforms half-coefficients to slots, in place (decoding).
    ///
    /// # Panics
    /// If `values.len()` is not a power of two up to `2^log_slots_max`.
    pub fn forward(&self, values: &mut [Complex<T>]) {
        self.check(values.len());
        if values.len() < MIN_ROWS_LEN {
            self.forward_short(values);
            return;
        }
        T::forward(self, as_rows(values));
    }

    /// Transforms slots to half-coefficients, in place, with the factor `1/n` (encoding).
    ///
    /// # Panics
    /// If `values.len()` is not a power of two up to `2^log_slots_max`.
    pub fn inverse(&self, values: &mut [Complex<T>]) {
        self.check(values.len());
        if values.len() < MIN_ROWS_LEN {
            self.inverse_short(values);
            return;
        }
        T::inverse(self, as_rows(values));
    }

    fn check(&self, len: usize) {
        assert!(
            len.is_power_of_two() && len <= 1 << self.log_slots_max,
            "{len} values: a power of two up to 2^{} is needed",
            self.log_slots_max
        );
    }

    /// Runs the levels from the leaves up, so that each node's values are in order.
    fn forward_short(&self, values: &mut [Complex<T>]) {
        permute_by_reversed_bits(values);
        let mut half = 1;
        while half < values.len() {
            for node in values.chunks_exact_mut(2 * half) {
                let (low, high) = node.split_at_mut(half);
                for ((x, y), &w) in low.iter_mut().zip(high).zip(&self.short[half..]) {
                    let wy = *y * w;
                    (*x, *y) = (*x + wy, *x - wy);
                }
            }
            half *= 2;
        }
    }

    fn inverse_short(&self, values: &mut [Complex<T>]) {
        let mut half = values.len() / 2;
        while half > 0 {
            for node in values.chunks_exact_mut(2 * half) {
                let (low, high) = node.split_at_mut(half);
                for ((x, y), &w) in low.iter_mut().zip(high).zip(&self.short[half..]) {
                    (*x, *y) = (*x + *y, (*x - *y).mul_conj(w));
                }
            }
            half /= 2;
        }
        permute_by_reversed_bits(values);
        let factor = 1.0 / values.len() as f64;
        for x in values {
            *x = x.scale(factor);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
    fn forward_avx512(&self, rows: &mut [Row<T>]) {
        self.forward_rows(rows);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
    fn inverse_avx512(&self, rows: &mut [Row<T>]) {
        self.inverse_rows(rows);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn forward_avx2(&self, rows: &mut [Row<T>]) {
        self.forward_rows(rows);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn inverse_avx2(&self, rows: &mut [Row<T>]) {
        self.inverse_rows(rows);
    }

    /// Runs the levels from the root down: one or two in `head`, then two at a time, then the last
    /// three with the permutation in `tiles`.
    #[inline(always)]
    fn forward_rows(&self, rows: &mut [Row<T>]) {
        let mut depth = self.forward_head(rows);
        let mut len = rows.len() >> depth;
        while len > INNER_ROWS {
            self.forward_pass(rows, len, depth, 0);
            depth += 2;
            len /= 4;
        }
        for (b, block) in rows.chunks_exact_mut(len).enumerate() {
            let mut len = len;
            let mut depth = depth;
            let mut first = b;
            while len > 1 {
                self.forward_pass(block, len, depth, first);
                depth += 2;
                len /= 4;
                first *= 4;
            }
        }
        self.tiles::<true>(rows);
    }

    #[inline(always)]
    fn inverse_rows(&self, rows: &mut [Row<T>]) {
        self.tiles::<false>(rows);
        // Blocks that the head of the forward transform leaves: halves for an odd power of two,
        // else quarters.
        let blocks_len = rows.len() >> (2 - rows.len().ilog2() % 2);
        let mut inner = 4;
        while inner < blocks_len && inner < INNER_ROWS {
            inner *= 4;
        }
        let count = rows.len();
        let depth_of = |len: usize| (count / len).ilog2();
        for (b, block) in rows.chunks_exact_mut(inner).enumerate() {
            let mut len = 4;
            while len <= inner {
                self.inverse_pass(block, len, depth_of(len), b * (inner / len));
                len *= 4;
            }
        }
        let mut len = 4 * inner;
        while len <= blocks_len {
            self.inverse_pass(rows, len, depth_of(len), 0);
            len *= 4;
        }
        self.inverse_head(rows);
    }

    /// Runs one level if the rows are an odd power of two, otherwise two, and returns the number of
    /// levels. Blocks of a power of four of rows remain.
    #[inline(always)]
    fn forward_head(&self, rows: &mut [Row<T>]) -> u32 {
        if rows.len().ilog2() % 2 == 1 {
            let (low, high) = rows.split_at_mut(rows.len() / 2);
            for (x, y) in low.iter_mut().zip(high) {
                x.deinterleave();
                y.deinterleave();
                forward_one_level::<T>([&mut *x, &mut *y], self.short[1]);
            }
            1
        } else {
            let [x0, x1, x2, x3] = quarters(rows);
            for (((x0, x1), x2), x3) in x0.iter_mut().zip(x1).zip(x2).zip(x3) {
                x0.deinterleave();
                x1.deinterleave();
                x2.deinterleave();
                x3.deinterleave();
                forward_two_levels::<T>([&mut *x0, &mut *x1, &mut *x2, &mut *x3], self.radix4[1]);
                // The right child's w is i v at the root and -i v below.
                std::mem::swap(x2, x3);
            }
            2
        }
    }

    #[inline(always)]
    fn inverse_head(&self, rows: &mut [Row<T>]) {
        // `1/n` for eight values a row, applied once, in the last pass. A power of two rounds
        // nothing.
        let factor = 0.125 / rows.len() as f64;
        if rows.len().ilog2() % 2 == 1 {
            let (low, high) = rows.split_at_mut(rows.len() / 2);
            for (x, y) in low.iter_mut().zip(high) {
                inverse_one_level::<T>([&mut *x, &mut *y], self.short[1], factor);
                x.interleave();
                y.interleave();
            }
        } else {
            let [x0, x1, x2, x3] = quarters(rows);
            for (((x0, x1), x2), x3) in x0.iter_mut().zip(x1).zip(x2).zip(x3) {
                std::mem::swap(x2, x3);
                inverse_two_levels::<T>(
                    [&mut *x0, &mut *x1, &mut *x2, &mut *x3],
                    self.radix4[1],
                    factor,
                );
                x0.interleave();
                x1.interleave();
                x2.interleave();
                x3.interleave();
            }
        }
    }

    /// Runs two levels of the nodes at `depth`, of `len` rows each. Node `first` starts at the
    /// beginning of `rows`.
    #[inline(always)]
    fn forward_pass(&self, rows: &mut [Row<T>], len: usize, depth: u32, first: usize) {
        let roots = &self.radix4[(1 << depth) + first..];
        for (node, &v) in rows.chunks_exact_mut(len).zip(roots) {
            let [x0, x1, x2, x3] = quarters(node);
            for (((x0, x1), x2), x3) in x0.iter_mut().zip(x1).zip(x2).zip(x3) {
                forward_two_levels::<T>([x0, x1, x2, x3], v);
            }
        }
    }

    #[inline(always)]
    fn inverse_pass(&self, rows: &mut [Row<T>], len: usize, depth: u32, first: usize) {
        let roots = &self.radix4[(1 << depth) + first..];
        for (node, &v) in rows.chunks_exact_mut(len).zip(roots) {
            let [x0, x1, x2, x3] = quarters(node);
            for (((x0, x1), x2), x3) in x0.iter_mut().zip(x1).zip(x2).zip(x3) {
                inverse_two_levels::<T>([x0, x1, x2, x3], v, 1.0);
            }
        }
    }

    /// Runs the last three levels, or the first three of the inverse. Tile `t` is the rows `t`,
    /// `t + T`, ..., `t + 7T` for `T = n / 64`; its 64 values go, transposed, to the tile with the
    /// bits of `t` reversed.
    #[inline(always)]
    fn tiles<const FORWARD: bool>(&self, rows: &mut [Row<T>]) {
        let tiles = rows.len() / 8;
        for t in 0..tiles {
            let u = reverse_bits(t, tiles.ilog2());
            // Done together with tile `u`: a permutation in place swaps pairs.
            if t > u {
                continue;
            }
            let mut tile = load_tile::<T>(rows, t);
            for (from, to) in [(t, u), (u, t)] {
                // Read before tile `to` is overwritten.
                let next = load_tile::<T>(rows, to);
                let done = if FORWARD {
                    self.forward_tile(tile, tiles, to)
                } else {
                    self.inverse_tile(tile, tiles, from)
                };
                store_tile::<T>(rows, to, &done);
                tile = next;
                // A tile that stays in its place has no partner.
                if t == u {
                    break;
                }
            }
        }
    }

    /// Each row of `x` is a node eight values wide. After the transposition lane `l` is the node of
    /// residue `8 slot_tile + l`, because tiles are loaded in bit-reversed order.
    #[inline(always)]
    fn forward_tile(&self, x: [Row<T>; 8], tiles: usize, slot_tile: usize) -> [Row<T>; 8] {
        let [w, v, u, u_right] = self.tile_roots(tiles, slot_tile);
        let mut x = Row::<T>::transpose(&x);
        forward_pair::<T, 0, 4>(&mut x, &w);
        forward_pair::<T, 1, 5>(&mut x, &w);
        forward_pair::<T, 2, 6>(&mut x, &w);
        forward_pair::<T, 3, 7>(&mut x, &w);
        forward_pair::<T, 0, 2>(&mut x, &v);
        forward_pair::<T, 1, 3>(&mut x, &v);
        forward_right_pair::<T, 4, 6>(&mut x, &v);
        forward_right_pair::<T, 5, 7>(&mut x, &v);
        forward_pair::<T, 0, 1>(&mut x, &u);
        forward_right_pair::<T, 2, 3>(&mut x, &u);
        forward_pair::<T, 4, 5>(&mut x, &u_right);
        forward_right_pair::<T, 6, 7>(&mut x, &u_right);
        for row in &mut x {
            row.interleave();
        }
        x
    }

    #[inline(always)]
    fn inverse_tile(&self, mut x: [Row<T>; 8], tiles: usize, slot_tile: usize) -> [Row<T>; 8] {
        let [w, v, u, u_right] = self.tile_roots(tiles, slot_tile);
        for row in &mut x {
            row.deinterleave();
        }
        inverse_pair::<T, 0, 1>(&mut x, &u);
        inverse_right_pair::<T, 2, 3>(&mut x, &u);
        inverse_pair::<T, 4, 5>(&mut x, &u_right);
        inverse_right_pair::<T, 6, 7>(&mut x, &u_right);
        inverse_pair::<T, 0, 2>(&mut x, &v);
        inverse_pair::<T, 1, 3>(&mut x, &v);
        inverse_right_pair::<T, 4, 6>(&mut x, &v);
        inverse_right_pair::<T, 5, 7>(&mut x, &v);
        inverse_pair::<T, 0, 4>(&mut x, &w);
        inverse_pair::<T, 1, 5>(&mut x, &w);
        inverse_pair::<T, 2, 6>(&mut x, &w);
        inverse_pair::<T, 3, 7>(&mut x, &w);
        Row::<T>::transpose(&x)
    }

    /// The `w` of the eight nodes of a tile, of their left children, and of the left children of
    /// either child. The `w` of a right child is `-i` times the `w` of the left child.
    #[inline(always)]
    fn tile_roots(&self, tiles: usize, slot_tile: usize) -> [Row<T>; 4] {
        [1, 2, 4, 5].map(|k| self.tail[k * tiles + slot_tile])
    }
}

#[inline(always)]
fn quarters<R>(rows: &mut [R]) -> [&mut [R]; 4] {
    let (front, back) = rows.split_at_mut(rows.len() / 2);
    let (x0, x1) = front.split_at_mut(front.len() / 2);
    let (x2, x3) = back.split_at_mut(back.len() / 2);
    [x0, x1, x2, x3]
}

/// The numbers below 8 with their bits reversed.
const REVERSED_8: [usize; 8] = [0, 4, 2, 6, 1, 5, 3, 7];

#[inline(always)]
fn load_tile<T: Real>(rows: &[Row<T>], t: usize) -> [Row<T>; 8] {
    REVERSED_8.map(|l| rows[l * (rows.len() / 8) + t])
}

#[inline(always)]
fn store_tile<T: Real>(rows: &mut [Row<T>], t: usize, tile: &[Row<T>; 8]) {
    let tiles = rows.len() / 8;
    for (l, row) in REVERSED_8.into_iter().zip(tile) {
        rows[l * tiles + t] = *row;
    }
}

fn reverse_bits(x: usize, bits: u32) -> usize {
    // For 0 bits the shift by a whole word would overflow. The reversal is then 0.
    x.reverse_bits().checked_shr(usize::BITS - bits).unwrap_or(0)
}

fn permute_by_reversed_bits<T>(values: &mut [T]) {
    let bits = values.len().ilog2();
    for i in 0..values.len() {
        let j = reverse_bits(i, bits);
        if i < j {
            values.swap(i, j);
        }
    }
}

/// Minimum number of values of a transform on rows.
const MIN_ROWS_LEN: usize = 1 << (LOG_SHORT + 1);
/// `log2` of the longest transform that does not work on rows.
// A tile is eight rows of eight values, so transforms on rows start at 64 values.
const LOG_SHORT: u32 = 5;

/// Views the values, a multiple of eight, as rows in the same memory.
fn as_rows<T: Real>(values: &mut [Complex<T>]) -> &mut [Row<T>] {
    const { assert!(size_of::<Row<T>>() == 8 * size_of::<Complex<T>>()) };
    const { assert!(align_of::<Row<T>>() == align_of::<Complex<T>>()) };
    // SAFETY: both types are `repr(C)` aggregates of `f64` only (`Scalar` is sealed), of the sizes
    // and alignments just checked, so every bit pattern of one is valid for the other; the rows
    // cover no more than the values do.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), values.len() / 8) }
}

/// The compiled versions of the transforms. All return the same bits: rustc neither fuses nor
/// reorders floating-point operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Simd {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Simd {
    /// All versions, narrowest first.
    const ALL: &[Self] = &[
        Self::Portable,
        #[cfg(target_arch = "x86_64")]
        Self::Avx2,
        #[cfg(target_arch = "x86_64")]
        Self::Avx512,
    ];

    fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
        }
    }

    /// Returns the widest version that this CPU can run.
    fn detect() -> Self {
        Self::ALL.iter().rev().copied().find(|simd| simd.is_available()).unwrap_or(Self::Portable)
    }
}

#[cfg(test)]
mod tests;
