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
    rows::{ABREAST, Residues, advance, full, write_sums},
};
use crate::{
    Modulus, Shoup,
    fraction::{Fraction, UNDECIDED},
    kernel::SCALAR,
};

/// A vector of words whose bits can be reinterpreted as doubles.
///
/// # Safety
/// See [`Vector`].
pub trait Words: Vector {
    type Doubles: Doubles<Words = Self>;

    /// Reinterprets the bits as doubles.
    unsafe fn doubles(self) -> Self::Doubles;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn or(self, other: Self) -> Self;
    unsafe fn xor(self, other: Self) -> Self;
    /// Returns `other` where the word is negative as a signed word, else 0.
    unsafe fn if_negative(self, other: Self) -> Self;
    unsafe fn is_zero(self) -> bool;

    /// Returns the source of each byte of a vector for [`Words::unpack`], for packed words of
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
    /// Rounds to the nearest integer, a half to even.
    unsafe fn round(self) -> Self;
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
/// difference of two upper parts is the rounded product.
#[derive(Clone, Copy)]
pub struct Sum<D> {
    /// `2^103` plus a multiple of `2^51`.
    high: D,
    low: D,
}

/// Initial upper part of a sum. Its exponent stays the same while up to eight products are added.
const SUM_START: f64 = (1u128 << 103) as f64;
/// Added to an integer below it, this leaves the integer in the low bits.
const INTEGER: f64 = (1u64 << 52) as f64;
/// Added to a number below `2^51` and subtracted again, this rounds it to an integer.
const ROUND: f64 = 1.5 * INTEGER;

impl<W: Words> Double<W> {
    /// Returns `a - c q` for the integer `c` nearest to `estimate`, where that is exact.
    #[inline(always)]
    unsafe fn remainder(self, a: W::Doubles, estimate: W::Doubles) -> W::Doubles {
        // SAFETY: guaranteed by the caller.
        unsafe { a.less_product(estimate.round(), self.q) }
    }

    /// Computes [`Double::remainder`] for an estimate `a b` below `2^51`.
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
            let [a, w, quotient] = [a, w.0, w.1].map(|v| v.doubles());
            let high = a.mul(w);
            let rounded_up = high.less_product(a, w);
            self.less_multiple(high, a, quotient).sub(rounded_up)
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
    type Sum = Sum<W::Doubles>;

    const LIMIT: u32 = 8;
    // Sixteen registers hold eight values, but not their factors too (performance log, AVX2).
    const LOG_RADIX: u32 = 2;
    // More products would change the exponent of the upper part of a sum.
    const TERMS: usize = 8;
    const DOTS: usize = 1;
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

    #[inline(always)]
    unsafe fn empty_sum() -> Self::Sum {
        // SAFETY: guaranteed by the caller.
        unsafe { Sum { high: W::Doubles::splat(SUM_START), low: W::Doubles::splat(0.0) } }
    }

    /// Exact: eight products below `2^100` keep `high` below `2^104` and round to multiples of
    /// `2^51`. The parts rounded off are at most `2^50` each, together `2^53`.
    #[inline(always)]
    unsafe fn accumulate(sum: Self::Sum, a: W, b: W) -> Self::Sum {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let [a, b] = [a, b].map(|v| Self::value(v).doubles());
            let high = sum.high.plus_product(a, b);
            let rounded_up = high.sub(sum.high).less_product(a, b);
            Sum { high, low: sum.low.sub(rounded_up) }
        }
    }

    /// The quotient of the upper part is below `2^55` for `q < 2^48`, and `2^53` next to `2^50`.
    /// Its estimate is off by `2^-52` of it and a rounding, so the remainder is below `9 q` and
    /// `3 q` respectively, always below `2^52`. The remainder of the lower part is below `2 q`.
    #[inline(always)]
    unsafe fn reduce_sum(self, sum: Self::Sum) -> W {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let high = sum.high.sub(W::Doubles::splat(SUM_START));
            let high = self.remainder(high, high.mul(self.inverse));
            let low = self.remainder(sum.low, sum.low.mul(self.inverse));
            self.fold(self.reduce(high.add(low).words()))
        }
    }
}

/// Defines the [`KernelTable`](crate::kernel::KernelTable) for primes below `2^50` with vectors
/// `$words`, compiled for the CPU features `$features`.
macro_rules! kernels {
    ($name:literal, $words:ty, $features:literal) => {
        $crate::kernel::vector::entry_points!($features);
        $crate::kernel::vector::entry_points! {
            $features, $crate::kernel::vector::double, Words;
            mul_sum_packed(
                m: &Modulus, out: &[*mut u64], a: &[Rows<'_>], b: &[*const u8], len: usize
            );
            round_sum(f: &[Fraction], y: &[*const u64], out: *mut u64, len: usize) -> bool;
        }

        pub(super) static BELOW_50: KernelTable = KernelTable {
            name: $name,
            // Words of more than 52 bits are no exact doubles.
            wide: Some(&SCALAR),
            add: add::<Double<$words>>,
            sub: sub::<Double<$words>>,
            mul_add: mul_add::<Double<$words>>,
            mul_sum: mul_sum::<Double<$words>>,
            mul_sum_packed: mul_sum_packed::<$words>,
            dot: dot::<Double<$words>>,
            scale: scale::<Double<$words>>,
            scale_add: scale_add::<Double<$words>>,
            sub_scale: sub_scale::<Double<$words>>,
            add_constant: add_constant::<Double<$words>>,
            round_sum: round_sum::<$words>,
            ntt_forward: forward::<Double<$words>>,
            ntt_forward_groups: forward_groups::<Double<$words>>,
            ntt_forward_block: forward_block::<Double<$words>>,
            ntt_inverse: inverse::<Double<$words>>,
            ntt_inverse_block: inverse_block::<Double<$words>>,
            ntt_inverse_groups: inverse_groups::<Double<$words>>,
            min_log_n: transform::MIN_LOG_N,
            twiddles: transform::twiddles::<Double<$words>>,
            // Packing, unpacking and small coefficients stay portable: only making, reading and
            // writing keys and encryption use them (performance log, AVX2).
            ..SCALAR
        };
    };
}
pub(in crate::kernel) use kernels;

#[inline(always)]
pub unsafe fn mul_sum_packed<W: Words>(
    m: &Modulus,
    out: &[*mut u64],
    a: &[&[*const u64]],
    b: &[*const u8],
    len: usize,
) {
    let width = m.packed_bytes();
    // The two halves of a vector overlap within its packed bytes only from this width on.
    let end = if width < 4 { 0 } else { full::<W>(len) };
    for (&out, a) in out.iter().zip(a) {
        // SAFETY: the table's contract; packed words of moduli below 2^50 have at most seven bytes.
        unsafe {
            if end > 0 {
                let lanes = Double::<W>::new(m);
                let spread = W::spread(width);
                let factors = |t: usize, i: usize| {
                    let packed = b.get_unchecked(t).add(i * width);
                    [(W::load(a.get_unchecked(t).add(i)), W::unpack(packed, width, spread))]
                };
                write_sums::<_, Residues, 1, ABREAST>([lanes], [out], a.len(), factors, end);
            }
            if end < len {
                let a = advance(a, end);
                let b = advance(b, end * width);
                (SCALAR.mul_sum_packed)(m, &[out.add(end)], &[&a], &b, len - end);
            }
        }
    }
}

/// Sums at most 256 terms below 1, each with an error below `2^-44`: half a unit in the last place
/// of the sum and the rounding of the reciprocal.
#[inline(always)]
pub unsafe fn round_sum<W: Words>(
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
