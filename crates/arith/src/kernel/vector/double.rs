//! Arithmetic for `q < 2^50` on vectors of doubles, for instruction sets without long products of
//! words.
//!
//! Doubles have 53 bits. With fused multiply-adds a product is computed exactly, as its rounding
//! and the rest. A residue inside a transform is a double: an integer around zero. Its product with
//! a factor `w` is reduced by `c q`, where the integer `c` is next to its product with the rounded
//! `w / q`. This is the method of [HLQ16](https://arxiv.org/abs/1407.3383), but the quotient is
//! precomputed. For `|a| <= 2^52` and `|w| < q / 2` its rounding shifts `c` by at most
//! `2^52 2^-55`. Reduced products are therefore at most `5/8 q`, and all differences on the way are
//! below `2^53`.

use super::{
    Factor, Lanes, Vector,
    rows::{ABREAST, MAX_LANES, advance, full, padded},
};
use crate::{
    ConstantDot, Modulus, Shoup,
    fraction::{Fraction, UNDECIDED},
    kernel::{Repeated, Rows, SCALAR},
};

/// A vector of words whose bits can be reinterpreted as doubles.
///
/// # Safety
/// See [`Vector`].
pub trait Words: Vector {
    type Doubles: Doubles<Words = Self>;

    /// `log2` of the number of values that stay in registers during a sweep.
    const LOG_RADIX: u32;

    /// Reinterprets the bits as doubles.
    unsafe fn doubles(self) -> Self::Doubles;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn or(self, other: Self) -> Self;
    unsafe fn xor(self, other: Self) -> Self;
    /// Returns `other` where the word is negative as a signed word, else 0.
    unsafe fn if_negative(self, other: Self) -> Self;
}

/// Words that are read from memory in packed form, and tested.
///
/// # Safety
/// See [`Vector`].
pub trait Single: Words {
    unsafe fn is_zero(self) -> bool;

    /// Returns the source of each byte of a vector for [`Single::unpack`], for packed words of
    /// `width` bytes, 4 to 7.
    unsafe fn spread(width: usize) -> Self;
    /// Unpacks a vector of packed words from `p` on.
    unsafe fn unpack(p: *const u8, width: usize, spread: Self) -> Self;
}

/// A vector of doubles.
///
/// # Safety
/// See [`Vector`].
pub trait Doubles: Copy {
    type Words: Words<Doubles = Self>;

    unsafe fn splat(x: f64) -> Self;
    /// Reinterprets the bits as words.
    unsafe fn words(self) -> Self::Words;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    /// `self + a b`, rounded once.
    unsafe fn plus_product(self, a: Self, b: Self) -> Self;
    /// `self - a b`, rounded once.
    unsafe fn less_product(self, a: Self, b: Self) -> Self;
    unsafe fn floor(self) -> Self;
    /// Returns `other` where `self` is below zero, else 0.
    unsafe fn if_negative(self, other: Self) -> Self;
    /// Returns all-one words where the numbers differ, else zeros.
    unsafe fn differs(self, other: Self) -> Self::Words;
}

/// Arithmetic of one modulus. Values are doubles of width at most 8.
#[derive(Clone, Copy)]
pub struct Double<W: Words> {
    q: W::Doubles,
    /// `1 / q`.
    inverse: W::Doubles,
    q_words: W,
}

/// Sums of products in two parts. The upper part has an exponent that no addition changes, so the
/// difference of two upper parts is the rounded product. The lower part is minus the sum of the
/// rounding error, an integer of at most `2^52`, and of the residue that the sum started with.
#[derive(Clone, Copy)]
pub struct Sum<D> {
    high: D,
    low: D,
}

/// Returns `log2` of the number of products in a sum: at most 6, since few sums are longer.
///
/// Let the upper part start at `2^exponent`, which a sum of `2^t` products never exceeds. Then its
/// last bit is `2^(exponent - 52)`, each product is rounded by at most half of that, and all
/// together by at most `2^(exponent + t - 53)`. For `exponent = bits + t` this is at most `2^52`.
const fn log_terms(bits: u32) -> u32 {
    let most = (105 - bits) / 2;
    if most < 6 { most } else { 6 }
}

/// `2^exponent`, for an exponent of doubles.
fn power_of_two(exponent: u32) -> f64 {
    f64::from_bits((1023 + u64::from(exponent)) << 52)
}

/// Added to an integer below it, this leaves the integer in the low bits.
const INTEGER: f64 = (1u64 << 52) as f64;
/// Added to a number below `2^51` and subtracted again, this rounds it to an integer.
const ROUND: f64 = 1.5 * INTEGER;
/// Added to a number of at most `2^53` and subtracted again, this rounds it to a multiple of four.
const ROUND_TO_FOURS: f64 = 4.0 * ROUND;

impl<W: Words> Double<W> {
    /// Returns `whole - c q` for the integer `c` nearest to the estimate `a b`, which is below
    /// `2^51`, where the result is exact.
    #[inline(always)]
    unsafe fn less_multiple(self, whole: W::Doubles, a: W::Doubles, b: W::Doubles) -> W::Doubles {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let round = W::Doubles::splat(ROUND);
            whole.less_product(round.plus_product(a, b).sub(round), self.q)
        }
    }

    /// Returns `a w`, at most `5/8 q` in magnitude.
    #[inline(always)]
    unsafe fn product(self, a: W, w: Factor<Self>) -> W::Doubles {
        // SAFETY: guaranteed by the caller.
        unsafe {
            // No closures here: compilers may give up inlining before they reach the instructions
            // inside (performance log, AVX2).
            let a = a.doubles();
            let quotient = w.1.doubles();
            let w = w.0.doubles();
            let high = a.mul(w);
            let rounded_up = high.less_product(a, w);
            self.less_multiple(high, a, quotient).sub(rounded_up)
        }
    }

    /// Adds a product to a sum.
    #[inline(always)]
    unsafe fn added(sum: Sum<W::Doubles>, a: W::Doubles, b: W::Doubles) -> Sum<W::Doubles> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let high = sum.high.plus_product(a, b);
            let rounded_up = high.sub(sum.high).less_product(a, b);
            Sum { high, low: sum.low.sub(rounded_up) }
        }
    }

    /// Reduces a sum that started at `start` to at most `(q + 1) / 2` in magnitude.
    ///
    /// The quotient of the upper part is at most `2^53`. The rounded reciprocal shifts it by at most
    /// 1, and rounding to a multiple of four by 2, so at most `3 q` remain. With the lower part
    /// these are less than `3 2^50 + 2^52 + 2^49 < 2^53`.
    #[inline(always)]
    unsafe fn residue_of(self, sum: Sum<W::Doubles>, start: W::Doubles) -> W::Doubles {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let round = W::Doubles::splat(ROUND_TO_FOURS);
            let high = sum.high.sub(start);
            let quotient = round.plus_product(high, self.inverse).sub(round);
            let sum = high.less_product(quotient, self.q).add(sum.low);
            self.less_multiple(sum, sum, self.inverse)
        }
    }

    /// Adds `q` to negative words.
    #[inline(always)]
    unsafe fn raise(self, a: W) -> W {
        // SAFETY: guaranteed by the caller.
        unsafe { a.add(a.if_negative(self.q_words)) }
    }
}

/// Returns the words of doubles that are integers in `[0, 2^52)`.
#[inline(always)]
unsafe fn words<D: Doubles>(a: D) -> D::Words {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let offset = D::splat(INTEGER);
        a.add(offset).words().xor(offset.words())
    }
}

impl<W: Words> Lanes for Double<W> {
    type V = W;

    const LIMIT: u32 = 8;
    // Reduced products are at most `5/8 q`. Values of at most `q` are below `3.5 q` after four
    // layers.
    const LAYERS: u32 = 4;
    // Twisted values are at most `5/8 q`, and at most `15/4 q` before a sixth layer. After it they
    // are below `2^53`, so that `reduce` is exact.
    const LAYERS_TWISTED: u32 = 6;
    const LOG_RADIX: u32 = W::LOG_RADIX;
    // Inverse columns of radix 16 do not stay in registers (performance log, AVX-512 without IFMA).
    const LOG_COLUMN_RADIX: u32 = if W::LOG_RADIX < 3 { W::LOG_RADIX } else { 3 };
    const CONVERTS: bool = true;

    fn factor(m: &Modulus, w: Shoup) -> [u64; 2] {
        // Centred, because the bound of the reduction requires |w| < q / 2.
        let w = m.centered(w.value) as f64;
        [w.to_bits(), (w / m.value() as f64).to_bits()]
    }

    fn residue(m: &Modulus, first: u64) -> u64 {
        m.reduce_i64(f64::from_bits(first) as i64)
    }

    #[inline(always)]
    unsafe fn new(m: &Modulus) -> Self {
        let q = m.value();
        // SAFETY: guaranteed by the caller.
        unsafe {
            Self {
                q: W::Doubles::splat(q as f64),
                inverse: W::Doubles::splat(1.0 / q as f64),
                q_words: W::splat(q),
            }
        }
    }

    #[inline(always)]
    unsafe fn value(words: W) -> W {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let offset = W::Doubles::splat(INTEGER);
            words.or(offset.words()).doubles().sub(offset).words()
        }
    }

    #[inline(always)]
    unsafe fn fold(self, a: W) -> W {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let a = a.doubles();
            words(a.add(a.if_negative(self.q)))
        }
    }

    #[inline(always)]
    unsafe fn reduce(self, a: W) -> W {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let a = a.doubles();
            self.less_multiple(a, a, self.inverse).words()
        }
    }

    #[inline(always)]
    unsafe fn centre(self, a: W) -> W {
        // SAFETY: guaranteed by the caller.
        unsafe { self.reduce(a) }
    }

    #[inline(always)]
    unsafe fn enter(self, words: W) -> W {
        // SAFETY: guaranteed by the caller.
        unsafe { Self::value(words) }
    }

    #[inline(always)]
    unsafe fn mul_lazy(self, a: W, w: Factor<Self>) -> W {
        // SAFETY: guaranteed by the caller.
        unsafe { self.product(a, w).words() }
    }

    #[inline(always)]
    unsafe fn mul_centred(self, a: W, w: Factor<Self>) -> W {
        // SAFETY: guaranteed by the caller.
        unsafe { self.mul_lazy(a, w) }
    }

    #[inline(always)]
    unsafe fn forward(self, x: W, y: W, w: Factor<Self>) -> (W, W) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let x = x.doubles();
            let t = self.product(y, w);
            (x.add(t).words(), x.sub(t).words())
        }
    }

    #[inline(always)]
    unsafe fn inverse(self, x: W, y: W, w: Factor<Self>) -> (W, W) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let x = x.doubles();
            let y = y.doubles();
            (x.add(y).words(), self.mul_lazy(x.sub(y).words(), w))
        }
    }

    #[inline(always)]
    unsafe fn add(self, a: W, b: W) -> W {
        // SAFETY: guaranteed by the caller.
        unsafe { self.raise(a.add(b).sub(self.q_words)) }
    }

    #[inline(always)]
    unsafe fn sub(self, a: W, b: W) -> W {
        // SAFETY: guaranteed by the caller.
        unsafe { self.raise(a.sub(b)) }
    }

    #[inline(always)]
    unsafe fn sub_lazy(self, a: W, b: W) -> W {
        // SAFETY: guaranteed by the caller.
        unsafe { a.sub(b).add(self.q_words) }
    }

    /// The quotient is below `q`. The rounded reciprocal shifts it by less than `1/8`, so `5/8 q`
    /// and the part rounded off remain, less than `q`.
    #[inline(always)]
    unsafe fn mul(self, a: W, b: W) -> W {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let a = Self::value(a).doubles();
            let b = Self::value(b).doubles();
            let high = a.mul(b);
            let rounded_up = high.less_product(a, b);
            let rest = self.less_multiple(high, high, self.inverse);
            self.fold(rest.sub(rounded_up).words())
        }
    }
}

/// Defines the [`KernelTable`](crate::kernel::KernelTable) for primes below `2^50` with vectors
/// `$words`, and `$lanes` in transforms, compiled for the CPU features `$features`. Small coefficients are lifted by the kernel
/// `$lift`, if any.
macro_rules! kernels {
    ($name:literal, $words:ty, $lanes:ty, $features:literal $(, $lift:expr)?) => {
        $crate::kernel::vector::entry_points!($features);
        $crate::kernel::vector::entry_points! {
            $features, $crate::kernel::vector::double, Single;
            mul_sum_packed(
                m: &Modulus,
                out: &[*mut u64],
                a: &[Rows<'_>],
                b: Repeated<'_>,
                len: usize
            );
            mul_sum(m: &Modulus, out: *mut u64, a: &[*const u64], b: &[*const u64], len: usize);
            round_sum(f: &[Fraction], y: &[*const u64], out: *mut u64, len: usize) -> bool;
            dot(weights: &[&ConstantDot], out: &[*mut u64], a: Rows<'_>, lazy: bool, len: usize);
        }
        $crate::kernel::vector::entry_points! {
            $features, $crate::kernel::vector::transform, Lanes;
            forward_sums(t: &NttTable, groups: *mut u64, count: usize);
        }

        pub(in crate::kernel) static BELOW_50: KernelTable = KernelTable {
            name: $name,
            // Words of more than 52 bits are no exact doubles.
            wide: Some(&SCALAR),
            add: add::<Double<$words>>,
            sub: sub::<Double<$words>>,
            mul_add: mul_add::<Double<$words>>,
            mul_sum: mul_sum::<$words>,
            mul_sum_packed: mul_sum_packed::<$words>,
            weight: double::weight,
            dot: dot::<$words>,
            scale: scale::<Double<$words>>,
            scale_add: scale_add::<Double<$words>>,
            sub_scale: sub_scale::<Double<$words>>,
            add_constant: add_constant::<Double<$words>>,
            round_sum: round_sum::<$words>,
            ntt_forward: forward::<Double<$lanes>>,
            ntt_forward_groups: forward_groups::<Double<$lanes>>,
            ntt_forward_sums: forward_sums::<Double<$lanes>>,
            ntt_forward_block: forward_block::<Double<$lanes>>,
            ntt_inverse: inverse::<Double<$lanes>>,
            ntt_inverse_block: inverse_block::<Double<$lanes>>,
            ntt_inverse_groups: inverse_groups::<Double<$lanes>>,
            min_log_n: transform::MIN_LOG_N,
            twiddles: transform::twiddles::<Double<$lanes>>,
            $(lift: $lift,)?
            // Packing, unpacking and small coefficients stay portable: only making, reading and
            // writing keys and encryption use them (performance log, AVX2).
            ..SCALAR
        };
    };
}
pub(in crate::kernel) use kernels;

/// Returns the bits of a centred constant.
pub fn weight(m: &Modulus, c: u64) -> u64 {
    (m.centered(c) as f64).to_bits()
}

/// Pairs of factors of `S` sums.
///
/// # Safety
/// See [`Vector`]. `t` is the number of a row, and a vector at place `x` is within the rows.
trait Factors<W: Words, const S: usize>: Copy {
    /// Returns term `t` of each sum at place `x`.
    unsafe fn term(self, t: usize, x: usize) -> [[W::Doubles; 2]; S];
}

/// Sums modulo one prime.
#[derive(Clone, Copy)]
struct Target<W: Words> {
    lanes: Double<W>,
    /// Initial upper part of each part of a sum.
    start: W::Doubles,
    /// Initial lower part of the first part.
    first: W::Doubles,
    /// `log2` of the terms of a part.
    log_terms: u32,
}

impl<W: Words> Target<W> {
    /// Sums of products of two residues. A quotient is less than `2^(terms + bits) <= 2^53`.
    ///
    /// # Safety
    /// See [`Vector`].
    #[inline(always)]
    unsafe fn residues(m: &Modulus) -> Self {
        let bits = 2 * m.bits();
        let log_terms = log_terms(bits);
        // SAFETY: guaranteed by the caller.
        unsafe {
            Self {
                lanes: Double::new(m),
                start: W::Doubles::splat(power_of_two(bits + log_terms)),
                first: W::Doubles::splat(0.0),
                log_terms,
            }
        }
    }

    /// Sums of products of weights and words, both centred. Words are centred by subtracting half
    /// of the largest one. The subtraction that makes a word a double does this too, so it costs
    /// nothing and saves a bit.
    ///
    /// # Safety
    /// See [`Vector`].
    #[inline(always)]
    unsafe fn weighted(weights: &ConstantDot) -> Self {
        let m = weights.modulus();
        let word_bits = (u64::BITS - weights.widest().leading_zeros()).max(1);
        debug_assert!(word_bits <= 52 && word_bits + m.bits() <= 100);
        // Magnitudes are at most half as large. The sum has a sign, so it moves the upper part by
        // half of its start in both directions.
        let bits = word_bits - 1 + m.bits() - 1 + 1;
        // A quotient is at most `2^(terms + word_bits - 2)`.
        let log_terms = log_terms(bits).min(55 - word_bits);
        // SAFETY: guaranteed by the caller.
        unsafe {
            Self {
                lanes: Double::new(m),
                start: W::Doubles::splat(1.5 * power_of_two(bits + log_terms)),
                first: W::Doubles::splat(m.centered(weights.middle().1) as f64),
                log_terms,
            }
        }
    }
}

/// Returns sums of `terms` products at place `x`, of `V` vectors side by side, at most `(q + 1) / 2`
/// in magnitude.
#[inline(always)]
unsafe fn sums<W: Words, const S: usize, const V: usize>(
    targets: [Target<W>; S],
    factors: impl Factors<W, S>,
    terms: usize,
    x: usize,
) -> [[W::Doubles; V]; S] {
    let mut part = terms;
    for target in targets {
        part = part.min(1 << target.log_terms);
    }
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut sums = [[Sum { high: targets[0].start, low: targets[0].first }; V]; S];
        for (sums, target) in sums.iter_mut().zip(targets) {
            *sums = [Sum { high: target.start, low: target.first }; V];
        }
        let mut t = 0;
        loop {
            let end = terms.min(t + part);
            while t < end {
                for v in 0..V {
                    let pairs = factors.term(t, x + v * W::LANES);
                    for (sums, [a, b]) in sums.iter_mut().zip(pairs) {
                        sums[v] = Double::<W>::added(sums[v], a, b);
                    }
                }
                t += 1;
            }
            // The residue of a part is in the lower part of the next one.
            for (sums, target) in sums.iter_mut().zip(targets) {
                for sum in sums {
                    let residue = target.lanes.residue_of(*sum, target.start);
                    *sum = Sum { high: target.start, low: residue };
                }
            }
            if t == terms {
                break;
            }
        }
        let mut residues = [[targets[0].first; V]; S];
        for s in 0..S {
            for v in 0..V {
                residues[s][v] = sums[s][v].low;
            }
        }
        residues
    }
}

/// Stores `V` vectors of each sum at place `x` of each output: doubles if `lazy`, else words in
/// `[0, q)`.
#[inline(always)]
unsafe fn store_sums<W: Words, const S: usize, const V: usize>(
    targets: [Target<W>; S],
    out: [*mut u64; S],
    factors: impl Factors<W, S>,
    terms: usize,
    x: usize,
    lazy: bool,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let sums = sums::<W, S, V>(targets, factors, terms, x);
        for s in 0..S {
            for (v, sum) in sums[s].iter().enumerate() {
                let sum = sum.words();
                let sum = if lazy { sum } else { targets[s].lanes.fold(sum) };
                sum.store(out[s].add(x + v * W::LANES));
            }
        }
    }
}

/// Runs [`store_sums`] on the words before `end`, full vectors.
#[inline(always)]
unsafe fn write_sums<W: Words, const S: usize, const V: usize>(
    targets: [Target<W>; S],
    out: [*mut u64; S],
    factors: impl Factors<W, S>,
    terms: usize,
    end: usize,
    lazy: bool,
) {
    let wide = end / (V * W::LANES) * (V * W::LANES);
    // SAFETY: guaranteed by the caller.
    unsafe {
        for x in (0..wide).step_by(V * W::LANES) {
            store_sums::<W, S, V>(targets, out, factors, terms, x, lazy);
        }
        for x in (wide..end).step_by(W::LANES) {
            store_sums::<W, S, 1>(targets, out, factors, terms, x, lazy);
        }
    }
}

/// The same words, centred, and weights of each sum.
#[derive(Clone, Copy)]
struct Weights<'a, W: Words, const S: usize> {
    a: Rows<'a>,
    /// Subtracted from the bits of a word as a double next to [`INTEGER`].
    offset: W::Doubles,
    weights: [*const u64; S],
}

impl<W: Words, const S: usize> Factors<W, S> for Weights<'_, W, S> {
    #[inline(always)]
    unsafe fn term(self, t: usize, x: usize) -> [[W::Doubles; 2]; S] {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let word = W::load(self.a.get_unchecked(t).add(x));
            let word = word.or(W::Doubles::splat(INTEGER).words()).doubles().sub(self.offset);
            let mut pairs = [[word; 2]; S];
            for (pair, weights) in pairs.iter_mut().zip(self.weights) {
                pair[1] = W::splat(*weights.add(t)).doubles();
            }
            pairs
        }
    }
}

/// Rows of each sum, and rows that they share.
#[derive(Clone, Copy)]
struct Plain<'a, const S: usize> {
    a: [Rows<'a>; S],
    b: Rows<'a>,
}

impl<W: Words, const S: usize> Factors<W, S> for Plain<'_, S> {
    #[inline(always)]
    unsafe fn term(self, t: usize, x: usize) -> [[W::Doubles; 2]; S] {
        // SAFETY: guaranteed by the caller.
        unsafe { shared(self.a, t, x, W::load(self.b.get_unchecked(t).add(x))) }
    }
}

/// [`Plain`], with packed words of `width` bytes in the shared rows.
#[derive(Clone, Copy)]
struct Packed<'a, W: Single, const S: usize> {
    a: [Rows<'a>; S],
    b: Repeated<'a>,
    width: usize,
    spread: W,
}

impl<W: Single, const S: usize> Factors<W, S> for Packed<'_, W, S> {
    #[inline(always)]
    unsafe fn term(self, t: usize, x: usize) -> [[W::Doubles; 2]; S] {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let packed = self.b.rows.get_unchecked(t).add(self.b.place(x) * self.width);
            shared(self.a, t, x, W::unpack(packed, self.width, self.spread))
        }
    }
}

/// Returns the words of each sum as doubles, each with the word that all share.
#[inline(always)]
unsafe fn shared<W: Words, const S: usize>(
    a: [Rows<'_>; S],
    t: usize,
    x: usize,
    b: W,
) -> [[W::Doubles; 2]; S] {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut pairs = [[Double::value(b).doubles(); 2]; S];
        for (pair, a) in pairs.iter_mut().zip(a) {
            pair[0] = Double::value(W::load(a.get_unchecked(t).add(x))).doubles();
        }
        pairs
    }
}

/// Sums over one reading of the words, up to four at a time. Results for the next transform are
/// doubles around zero.
#[inline(always)]
pub unsafe fn dot<W: Words>(
    weights: &[&ConstantDot],
    out: &[*mut u64],
    a: Rows<'_>,
    lazy: bool,
    len: usize,
) {
    let mut k = 0;
    // SAFETY: the table's contract.
    unsafe {
        while let (&[w0, w1, w2, w3, ..], &[o0, o1, o2, o3, ..]) = (&weights[k..], &out[k..]) {
            if !alike([w0, w1, w2, w3]) {
                break;
            }
            dots_of::<W, 4, 1>([w0, w1, w2, w3], [o0, o1, o2, o3], a, lazy, len);
            k += 4;
        }
        while let (&[w0, w1, ..], &[o0, o1, ..]) = (&weights[k..], &out[k..]) {
            if !alike([w0, w1]) {
                break;
            }
            dots_of::<W, 2, 2>([w0, w1], [o0, o1], a, lazy, len);
            k += 2;
        }
        for (&weights, &out) in weights[k..].iter().zip(&out[k..]) {
            dots_of::<W, 1, ABREAST>([weights], [out], a, lazy, len);
        }
    }
}

/// Returns `true` if words can be centred once for all weights.
fn alike<const S: usize>(weights: [&ConstantDot; S]) -> bool {
    weights.iter().all(|w| w.widest() == weights[0].widest())
}

/// Sums for `S` weights, of `V` vectors side by side.
#[inline(always)]
unsafe fn dots_of<W: Words, const S: usize, const V: usize>(
    weights: [&ConstantDot; S],
    out: [*mut u64; S],
    a: Rows<'_>,
    lazy: bool,
    len: usize,
) {
    let end = full::<W>(len);
    // SAFETY: the table's contract.
    unsafe {
        let mut targets = [Target::<W>::weighted(weights[0]); S];
        for (target, weights) in targets.iter_mut().zip(weights) {
            *target = Target::weighted(weights);
        }
        let factors = Weights::<W, S> {
            a,
            offset: W::Doubles::splat(INTEGER + weights[0].middle().0 as f64),
            weights: weights.map(|weights| weights.factors().as_ptr()),
        };
        write_sums::<W, S, V>(targets, out, factors, a.len(), end, lazy);
        if end < len {
            // Padded, because the scalar kernels cannot read the weights.
            let rest = padded(a, end, len);
            let rest: Vec<*const u64> = rest.iter().map(|row| row.as_ptr()).collect();
            let mut words = [[0; MAX_LANES]; S];
            let places = words.each_mut().map(|row| row.as_mut_ptr());
            let factors = Weights { a: &rest, ..factors };
            store_sums::<W, S, 1>(targets, places, factors, a.len(), 0, lazy);
            for (words, out) in words.iter().zip(out) {
                words[..len - end].as_ptr().copy_to(out.add(end), len - end);
            }
        }
    }
}

#[inline(always)]
pub unsafe fn mul_sum<W: Words>(
    m: &Modulus,
    out: *mut u64,
    a: &[*const u64],
    b: &[*const u64],
    len: usize,
) {
    let end = full::<W>(len);
    // SAFETY: the table's contract.
    unsafe {
        let factors = Plain { a: [a], b };
        write_sums::<W, 1, ABREAST>([Target::residues(m)], [out], factors, a.len(), end, false);
        if end < len {
            (SCALAR.mul_sum)(m, out.add(end), &advance(a, end), &advance(b, end), len - end);
        }
    }
}

/// Sums with the same packed words two at a time, which unpacks these once. Two vectors side by side
/// hide the latency of a product already, since unpacking takes as long.
#[inline(always)]
pub unsafe fn mul_sum_packed<W: Single>(
    m: &Modulus,
    out: &[*mut u64],
    a: &[Rows<'_>],
    b: Repeated<'_>,
    len: usize,
) {
    let pairs = out.len() / 2 * 2;
    // SAFETY: the table's contract.
    unsafe {
        for k in (0..pairs).step_by(2) {
            packed_sums::<W, 2, 2>(m, [out[k], out[k + 1]], [a[k], a[k + 1]], b, len);
        }
        for k in pairs..out.len() {
            packed_sums::<W, 1, 2>(m, [out[k]], [a[k]], b, len);
        }
    }
}

#[inline(always)]
unsafe fn packed_sums<W: Single, const S: usize, const V: usize>(
    m: &Modulus,
    out: [*mut u64; S],
    a: [Rows<'_>; S],
    b: Repeated<'_>,
    len: usize,
) {
    let width = m.packed_bytes();
    // The two halves of a vector overlap within its packed bytes only from this width on.
    let end = if width < 4 { 0 } else { full::<W>(len) };
    // SAFETY: the table's contract; packed words of moduli below 2^50 have at most seven bytes.
    unsafe {
        if end > 0 {
            let targets = [Target::residues(m); S];
            let factors = Packed { a, b, width, spread: W::spread(width) };
            write_sums::<W, S, V>(targets, out, factors, b.rows.len(), end, false);
        }
        if end < len {
            let rows = advance(b.rows, b.place(end) * width);
            let b = Repeated { rows: &rows[..], ..b };
            for (out, a) in out.into_iter().zip(a) {
                (SCALAR.mul_sum_packed)(m, &[out.add(end)], &[&advance(a, end)], b, len - end);
            }
        }
    }
}

/// Sums at most 256 terms below 1, each with an error below `2^-44`: half a unit in the last place
/// of the sum and the rounding of the reciprocal.
#[inline(always)]
pub unsafe fn round_sum<W: Single>(
    fractions: &[Fraction],
    y: &[*const u64],
    out: *mut u64,
    len: usize,
) -> bool {
    const UNIT: f64 = 1.0 / (1u64 << 44) as f64;
    // Residues of larger moduli may exceed 2^52, where doubles are not exact.
    if fractions.iter().any(|f| f.q >> 50 != 0) {
        // SAFETY: the table's contract.
        return unsafe { (SCALAR.round_sum)(fractions, y, out, len) };
    }
    let end = full::<W>(len);
    let reciprocals: Vec<f64> = fractions.iter().map(|f| 1.0 / f.q as f64).collect();
    // SAFETY: the table's contract.
    unsafe {
        let slack = W::Doubles::splat(fractions.len() as f64 * UNIT);
        let mut any = W::splat(0);
        for x in (0..end).step_by(W::LANES) {
            let mut sum = W::Doubles::splat(0.5);
            for (reciprocal, row) in reciprocals.iter().zip(y) {
                let y = Double::value(W::load(row.add(x))).doubles();
                sum = sum.plus_product(y, W::Doubles::splat(*reciprocal));
            }
            let v = sum.sub(slack).floor();
            let unsure = v.differs(sum.add(slack).floor());
            any = any.or(unsure);
            // The mark consists of ones only.
            const { assert!(UNDECIDED == u64::MAX) }
            words(v).or(unsure).store(out.add(x));
        }
        let rest = advance(y, end);
        (SCALAR.round_sum)(fractions, &rest, out.add(end), len - end) && any.is_zero()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::{next_prime, previous_prime};

    /// Returns `a w mod q` as the kernels compute it.
    ///
    /// # Safety
    /// See [`Vector`].
    #[inline(always)]
    unsafe fn product<W: Words>(m: &Modulus, a: i64, w: u64) -> i64 {
        let [value, quotient] = Double::<W>::factor(m, m.shoup(w));
        // SAFETY: guaranteed by the caller; the array has as many words as the longest vector.
        unsafe {
            let factor = (W::splat(value), W::splat(quotient));
            let found = Double::<W>::new(m).product(W::splat((a as f64).to_bits()), factor);
            let mut out = [0; 8];
            found.words().store(out.as_mut_ptr());
            assert!(out[..W::LANES].iter().all(|&x| x == out[0]));
            let found = f64::from_bits(out[0]);
            assert_eq!(found.fract(), 0.0);
            found as i64
        }
    }

    /// # Safety
    /// See [`Vector`].
    #[inline(always)]
    pub unsafe fn check_products<W: Words>() {
        let mut moduli = vec![3, 5, 97, (1 << 50) - 27];
        for bits in [30, 47, 48, 49, 50] {
            moduli.extend(previous_prime(1 << bits, 32));
            moduli.extend(next_prime(1 << (bits - 1), 32));
        }
        let random = (1..100u64).map(|k| k.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let edges = [0, 1, 2, 3, 4].into_iter().flat_map(|k| [k, (1 << 52) - k, (1 << 51) + k]);
        let values: Vec<i64> = edges.chain(random.clone().map(|x| (x >> 12) as i64)).collect();
        for q in moduli {
            let m = Modulus::new(q).unwrap();
            let edges = [0, 1, q / 2 - 1, q / 2, q / 2 + 1, q - 1];
            for w in edges.into_iter().chain(random.clone().map(|x| x % q)) {
                assert_eq!(Double::<W>::residue(&m, Double::<W>::factor(&m, m.shoup(w))[0]), w);
                for a in values.iter().flat_map(|&a| [a, -a]) {
                    // SAFETY: guaranteed by the caller.
                    let found = unsafe { product::<W>(&m, a, w) };
                    let expected = m.reduce_i128(i128::from(a) * i128::from(w));
                    assert_eq!(m.reduce_i64(found), expected, "{a} times {w} modulo {q}");
                    assert!(8 * found.unsigned_abs() <= 5 * q, "{a} times {w} modulo {q}");
                }
            }
        }
    }
}
