//! Double-double arithmetic: a real number as the unevaluated sum of two `f64`,
//! about 106 significant bits.
//!
//! Every operation is a fixed sequence of IEEE additions, multiplications,
//! divisions and square roots, without fused multiply-add, so results are the
//! same bits on every machine.
//!
//! Bounds are relative to the exact result, with `u = 2^-53`. They hold while
//! operands and results are zero or of magnitudes from `2^-900` to `2^990`. Beyond,
//! results lose the lower word or are not finite, mostly NaN.
//!
//! Algorithms and bounds: Joldes, Muller, Popescu, "Tight and rigorous error
//! bounds for basic building blocks of double-word arithmetic", ACM TOMS 44(2),
//! 2017 ("JMP" below), and for the product Muller, Rideau, "Formalization of
//! double-word arithmetic", ACM TOMS 48(1), 2022.

use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

/// A double-double number `hi + lo` with `hi` the `f64` nearest to the sum.
///
/// | operation | relative error at most |
/// |---|---|
/// | `+`, `-` | `3u^2 + 13u^3 < 2^-104.4` |
/// | `*` | `5u^2 < 2^-103.6` |
/// | `/` | `15u^2 + 56u^3 < 2^-102` |
/// | [`sqrt`](Self::sqrt) | `25/8 u^2 < 2^-104.3` |
/// | negation, [`abs`](Self::abs), [`mul_pow2`](Self::mul_pow2) | exact |
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
#[repr(C)]
pub struct Dd {
    hi: f64,
    lo: f64,
}

/// `a + b = s + e` exactly, for any order of magnitudes (Knuth, Møller).
#[inline(always)]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let s = a + b;
    let a_part = s - b;
    let b_part = s - a_part;
    (s, (a - a_part) + (b - b_part))
}

/// `a + b = s + e` exactly, for `a = 0` or `|a| >= |b|` (Dekker).
#[inline(always)]
fn fast_two_sum(a: f64, b: f64) -> (f64, f64) {
    let s = a + b;
    (s, b - (s - a))
}

/// Two halves of at most 26 bits each whose sum is `a` (Veltkamp).
#[inline(always)]
fn split(a: f64) -> (f64, f64) {
    let scaled = 134_217_729.0 * a; // 2^27 + 1
    let head = scaled - (scaled - a);
    (head, a - head)
}

/// `a * b = p + e` exactly (Dekker).
#[inline(always)]
fn two_prod(a: f64, b: f64) -> (f64, f64) {
    let p = a * b;
    let ((ah, al), (bh, bl)) = (split(a), split(b));
    (p, ((ah * bh - p) + ah * bl + al * bh) + al * bl)
}

/// JMP algorithm 6, `AccurateDWPlusDW`.
#[inline(always)]
fn add(x: (f64, f64), y: (f64, f64)) -> (f64, f64) {
    let (sh, sl) = two_sum(x.0, y.0);
    let (th, tl) = two_sum(x.1, y.1);
    let (vh, vl) = fast_two_sum(sh, sl + th);
    fast_two_sum(vh, tl + vl)
}

/// [`add`] with `y` negated.
#[inline(always)]
fn sub(x: (f64, f64), y: (f64, f64)) -> (f64, f64) {
    add(x, (-y.0, -y.1))
}

/// JMP algorithm 10, `DWTimesDW1`.
#[inline(always)]
fn mul(x: (f64, f64), y: (f64, f64)) -> (f64, f64) {
    let (ph, pl) = two_prod(x.0, y.0);
    fast_two_sum(ph, pl + (x.0 * y.1 + x.1 * y.0))
}

/// JMP algorithm 7, `DWTimesFP1`.
#[inline(always)]
fn mul_word(x: (f64, f64), y: f64) -> (f64, f64) {
    let (ph, pl) = two_prod(x.0, y);
    let (th, tl) = fast_two_sum(ph, x.1 * y);
    fast_two_sum(th, tl + pl)
}

/// The integer part of `x`, modulo `2^128`, and what it leaves, for
/// `|x| <= 2^127`. Faster than [`f64::trunc`], a library call on baseline x86-64.
fn truncate(x: f64) -> (u128, f64) {
    const TWO_63: f64 = (1u64 << 63) as f64;
    if x.abs() < TWO_63 {
        let whole = x as i64;
        (i128::from(whole) as u128, x - whole as f64)
    } else if x > 0.0 {
        (x as u128, 0.0)
    } else {
        (((-x) as u128).wrapping_neg(), 0.0)
    }
}

/// `2^exp` for a normal result.
fn pow2(exp: i32) -> f64 {
    debug_assert!((-1022..=1023).contains(&exp));
    f64::from_bits(((exp + 1023) as u64) << 52)
}

impl Dd {
    /// 0.
    pub const ZERO: Self = Self { hi: 0.0, lo: 0.0 };
    /// 1.
    pub const ONE: Self = Self { hi: 1.0, lo: 0.0 };
    /// π, within `2^-107` of it relatively.
    pub const PI: Self = Self { hi: std::f64::consts::PI, lo: 1.2246467991473532e-16 };
    /// `2 / ln 2`.
    const TWO_LOG2_E: Self =
        Self { hi: 2.0 * std::f64::consts::LOG2_E, lo: 4.0710547481862066e-17 };

    #[inline(always)]
    pub(crate) const fn from_parts((hi, lo): (f64, f64)) -> Self {
        Self { hi, lo }
    }

    #[inline(always)]
    const fn parts(self) -> (f64, f64) {
        (self.hi, self.lo)
    }

    /// The exact sum `a + b`. `Dd::from_sum(x.hi(), x.lo())` is `x`.
    #[must_use]
    pub fn from_sum(a: f64, b: f64) -> Self {
        Self::from_parts(two_sum(a, b))
    }

    /// The exact product `a * b`.
    #[must_use]
    pub fn from_product(a: f64, b: f64) -> Self {
        Self::from_parts(two_prod(a, b))
    }

    /// `x` with a relative error of at most `2^-106`; exact for `|x| <= 2^106`.
    #[must_use]
    pub fn from_i128(x: i128) -> Self {
        let magnitude = x.unsigned_abs();
        let hi = magnitude as f64;
        let rest = magnitude.wrapping_sub(hi as u128) as i128;
        let y = Self { hi, lo: rest as f64 };
        if x < 0 { -y } else { y }
    }

    /// The leading word, the `f64` nearest to the number.
    #[inline]
    #[must_use]
    pub const fn hi(self) -> f64 {
        self.hi
    }

    /// What [`hi`](Self::hi) leaves, at most half an ulp of it.
    #[inline]
    #[must_use]
    pub const fn lo(self) -> f64 {
        self.lo
    }

    /// The nearest `f64`.
    #[inline]
    #[must_use]
    pub const fn to_f64(self) -> f64 {
        self.hi
    }

    /// Whether the number is neither infinite nor NaN.
    #[must_use]
    pub fn is_finite(self) -> bool {
        self.hi.is_finite() && self.lo.is_finite()
    }

    /// The nearest integer, a half away from zero; nothing else is rounded.
    /// `None` if it does not fit or the number is not finite.
    #[must_use]
    pub fn round_i128(self) -> Option<i128> {
        const LIMIT: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0; // 2^127
        let Self { hi, lo } = self.abs();
        if !self.is_finite() || hi > LIMIT {
            return None;
        }
        // |self| = whole + fraction, the fraction in (-1, 2).
        let (whole_hi, fraction_hi) = truncate(hi);
        let (whole_lo, fraction_lo) = truncate(lo);
        let whole = whole_hi.wrapping_add(whole_lo);
        let fraction = Self::from_sum(fraction_hi, fraction_lo);
        let at_least = |c: f64| fraction >= Self::from(c);
        let magnitude = if at_least(1.5) {
            whole + 2
        } else if at_least(0.5) {
            whole + 1
        } else if at_least(-0.5) {
            whole
        } else {
            whole - 1
        };
        if self.hi < 0.0 {
            0i128.checked_sub_unsigned(magnitude)
        } else {
            i128::try_from(magnitude).ok()
        }
    }

    /// Absolute value.
    #[must_use]
    pub fn abs(self) -> Self {
        if self.hi < 0.0 { -self } else { self }
    }

    /// `self * 2^exp`, exact unless it overflows or underflows.
    #[must_use]
    pub fn mul_pow2(self, exp: i32) -> Self {
        let mut y = self;
        let mut rest = exp.clamp(-4000, 4000);
        while rest != 0 {
            let step = rest.clamp(-1022, 1023);
            let factor = pow2(step);
            y = Self { hi: y.hi * factor, lo: y.lo * factor };
            rest -= step;
        }
        y
    }

    /// `self^exp` by squaring: at most `2 log2 |exp|` products, each of which
    /// adds its error and doubles or keeps the one before, so the relative error
    /// is at most about `5 |exp| u^2`. `0^0` is 1.
    #[must_use]
    pub fn powi(self, exp: i32) -> Self {
        let mut rest = exp.unsigned_abs();
        let (mut square, mut product) = (self, Self::ONE);
        loop {
            if rest & 1 == 1 {
                product *= square;
            }
            rest >>= 1;
            if rest == 0 {
                break;
            }
            square *= square;
        }
        if exp < 0 { Self::ONE / product } else { product }
    }

    /// Square root; NaN below zero. Lefèvre, Louvet, Muller, Picot, Rideau,
    /// "Accurate calculation of Euclidean norms using double-word arithmetic",
    /// ACM TOMS 49(1), 2023, algorithm `SQRTDWtoDW`.
    #[must_use]
    pub fn sqrt(self) -> Self {
        if self.hi == 0.0 {
            return self;
        }
        let root = self.hi.sqrt();
        let (square_hi, square_lo) = two_prod(root, root);
        // The remainder of a square root is an f64, so both steps are exact.
        let remainder = (self.hi - square_hi) - square_lo;
        Self::from_parts(fast_two_sum(root, (remainder + self.lo) / (2.0 * root)))
    }

    /// Logarithm to base 2, with a relative error below `2^-99`, exact for powers
    /// of two; minus infinity at zero, NaN below.
    ///
    /// Unlike [`f64::log2`], which a platform may define as it likes, the bits
    /// are the same everywhere.
    #[must_use]
    pub fn log2(self) -> Self {
        if self.hi == 0.0 {
            return Self::from(f64::NEG_INFINITY);
        }
        if self.hi < 0.0 || !self.is_finite() {
            return Self::from(f64::NAN);
        }
        if self.hi < f64::MIN_POSITIVE {
            return self.mul_pow2(200).log2() - Self::from(200);
        }
        // self = 2^exp * m with m in [sqrt(1/2), sqrt(2)], and
        // ln m = 2 artanh z = 2 (z + z^3/3 + z^5/5 + ...), |z| < 0.172.
        let mut exp = ((self.hi.to_bits() >> 52) & 0x7ff) as i32 - 1023;
        let mut m = self.mul_pow2(-exp);
        if m.hi > std::f64::consts::SQRT_2 {
            m = m.mul_pow2(-1);
            exp += 1;
        }
        let z = (m - Self::ONE) / (m + Self::ONE);
        let z2 = z * z;
        let series = (0..=22)
            .rev()
            .fold(Self::ZERO, |sum, k: i32| sum * z2 + Self::ONE / Self::from(2 * k + 1));
        Self::from(exp) + z * series * Self::TWO_LOG2_E
    }

    /// `(sin 2πx, cos 2πx)` for `x` the number itself, in turns, with absolute
    /// errors below `2^-102`; exact at quarter turns.
    #[must_use]
    pub fn sin_cos_turns(self) -> (Self, Self) {
        // Whole turns of either word, then quarter turns: |rest| <= 1/8.
        let rest = self - Self::from(self.hi.round());
        let rest = rest - Self::from(rest.hi.round());
        let quarters = (4.0 * rest.hi).round();
        let angle = (rest - Self::from(0.25 * quarters)) * Self::PI.mul_pow2(1);
        let angle2 = angle * angle;
        // 1 - a^2/(2*3) (1 - a^2/(4*5) (1 - ...)), cut below 2^-118.
        let nested = |first: i32| {
            (0..14)
                .rev()
                .map(|k| first + 2 * k)
                .fold(Self::ONE, |inner, m| Self::ONE - inner * angle2 / Self::from(m * (m + 1)))
        };
        let (sin, cos) = (angle * nested(2), nested(1));
        match (quarters as i32).rem_euclid(4) {
            0 => (sin, cos),
            1 => (cos, -sin),
            2 => (-sin, -cos),
            _ => (-cos, sin),
        }
    }

    /// `asin(x) / 2π`, in turns, within `[-1/4, 1/4]` and with a relative error below
    /// `2^-97`; NaN for `|x| > 1`.
    #[must_use]
    pub fn asin_turns(self) -> Self {
        let magnitude = self.abs();
        if magnitude > Self::ONE || !self.is_finite() {
            return Self::from(f64::NAN);
        }
        if magnitude.hi > std::f64::consts::FRAC_1_SQRT_2 {
            let cos = ((Self::ONE - magnitude) * (Self::ONE + magnitude)).sqrt();
            let turns = Self::from(0.25) - cos.asin_turns();
            return if self.hi < 0.0 { -turns } else { turns };
        }
        // Newton's method for sin 2πy = x; each step squares the error, below 2^-3 at first.
        let turn = Self::PI.mul_pow2(1);
        (0..6).fold(self / turn, |y, _| {
            let (sin, cos) = y.sin_cos_turns();
            y + (self - sin) / (cos * turn)
        })
    }
}

impl From<f64> for Dd {
    #[inline(always)]
    fn from(x: f64) -> Self {
        Self { hi: x, lo: 0.0 }
    }
}

impl From<i32> for Dd {
    fn from(x: i32) -> Self {
        Self { hi: f64::from(x), lo: 0.0 }
    }
}

/// Exact.
impl From<i64> for Dd {
    fn from(x: i64) -> Self {
        Self::from_i128(x.into())
    }
}

/// Exact.
impl From<u64> for Dd {
    fn from(x: u64) -> Self {
        Self::from_i128(x.into())
    }
}

impl Add for Dd {
    type Output = Self;
    #[inline(always)]
    fn add(self, y: Self) -> Self {
        Self::from_parts(add(self.parts(), y.parts()))
    }
}

impl Sub for Dd {
    type Output = Self;
    #[inline(always)]
    fn sub(self, y: Self) -> Self {
        Self::from_parts(sub(self.parts(), y.parts()))
    }
}

impl Mul for Dd {
    type Output = Self;
    #[inline(always)]
    fn mul(self, y: Self) -> Self {
        Self::from_parts(mul(self.parts(), y.parts()))
    }
}

/// JMP algorithm 17, `DWDivDW2`.
impl Div for Dd {
    type Output = Self;
    fn div(self, y: Self) -> Self {
        let quotient = self.hi / y.hi;
        let (rh, rl) = mul_word(y.parts(), quotient);
        let rest = (self.hi - rh) + (self.lo - rl);
        Self::from_parts(fast_two_sum(quotient, rest / y.hi))
    }
}

impl Neg for Dd {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self { hi: -self.hi, lo: -self.lo }
    }
}

macro_rules! assign {
    ($($trait:ident :: $method:ident, $op:tt;)*) => {$(
        impl $trait for Dd {
            #[inline(always)]
            fn $method(&mut self, y: Self) {
                *self = *self $op y;
            }
        }
    )*};
}
assign! { AddAssign::add_assign, +; SubAssign::sub_assign, -; MulAssign::mul_assign, *; DivAssign::div_assign, /; }

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::{BigInt, Sign};
    use proptest::prelude::*;

    /// Numbers are integers times `2^-POINT`; every finite `f64` is one.
    const POINT: u32 = 1074;

    fn big_f64(x: f64) -> BigInt {
        let bits = x.to_bits();
        let (exp, fraction) = ((bits >> 52) & 0x7ff, bits & ((1 << 52) - 1));
        let mantissa = if exp == 0 { fraction } else { fraction | 1 << 52 };
        let y = BigInt::from(mantissa) << exp.saturating_sub(1);
        if x < 0.0 { -y } else { y }
    }

    fn big(x: Dd) -> BigInt {
        assert_eq!(x.hi + x.lo, x.hi, "not normalised");
        big_f64(x.hi) + big_f64(x.lo)
    }

    fn magnitude(x: &BigInt) -> BigInt {
        x.magnitude().clone().into()
    }

    /// `|got - exact| <= sixteenths / 16 * 2^-106 * |exact|`.
    fn assert_close(got: &BigInt, exact: &BigInt, sixteenths: u32) {
        let error: BigInt = magnitude(&(got - exact)) << 110;
        assert!(error <= magnitude(exact) * sixteenths, "got {got}, exact {exact}");
    }

    fn word(exps: std::ops::Range<i32>) -> impl Strategy<Value = f64> {
        (any::<bool>(), exps, prop_oneof![any::<u64>(), Just(0), Just(u64::MAX), 0u64..4]).prop_map(
            |(negative, exp, bits)| {
                let x = f64::from_bits(1023 << 52 | bits >> 12) * pow2(exp);
                if negative { -x } else { x }
            },
        )
    }

    /// Any double-double of exponent `exps`, with all sorts of gaps between the
    /// words, and `lo = 0` at times.
    fn number(exps: std::ops::Range<i32>) -> impl Strategy<Value = Dd> {
        (word(exps), prop_oneof![word(-54..-53), word(-120..-53), Just(0.0)])
            .prop_map(|(hi, ratio)| Dd::from_sum(hi, hi * ratio))
    }

    /// `arctan(1/k) 2^bits`.
    fn arctan_inverse(k: u32, bits: u32) -> BigInt {
        let mut power = (BigInt::from(1) << bits) / k;
        let (mut sum, mut m) = (power.clone(), 1u32);
        while power.sign() != Sign::NoSign {
            power /= k * k;
            m += 2;
            if m % 4 == 3 { sum -= &power / m } else { sum += &power / m }
        }
        sum
    }

    /// `pi 2^bits` by Machin's formula.
    fn pi(bits: u32) -> BigInt {
        (4 * arctan_inverse(5, bits + 20) - arctan_inverse(239, bits + 20)) >> 18
    }

    #[test]
    fn pi_is_machins() {
        assert_close(&big(Dd::PI), &pi(POINT), 8);
    }

    proptest! {
        #[test]
        fn sum_and_difference(x in number(-60..60), y in number(-60..60)) {
            assert_close(&big(x + y), &(big(x) + big(y)), 49);
            assert_close(&big(x - y), &(big(x) - big(y)), 49);
        }

        /// Cancellation leaves the relative bound as it is.
        #[test]
        fn difference_of_neighbours(x in number(-60..60), steps in -4i64..5, lo in word(-120..-53)) {
            let hi = f64::from_bits((x.hi().to_bits() as i64 + steps) as u64);
            let y = Dd::from_sum(hi, hi * lo);
            assert_close(&big(x - y), &(big(x) - big(y)), 49);
        }

        #[test]
        fn product(x in number(-200..200), y in number(-200..200)) {
            assert_close(&(big(x * y) << POINT), &(big(x) * big(y)), 81);
        }

        #[test]
        fn quotient(x in number(-200..200), y in number(-200..200)) {
            assert_close(&(big(x / y) * big(y)), &(big(x) << POINT), 241);
        }

        #[test]
        fn square_root(x in number(-300..300)) {
            let root = big(x.abs().sqrt());
            assert_close(&(&root * &root), &(big(x.abs()) << POINT), 101);
        }

        #[test]
        fn exact_operations(a in word(-100..100), b in word(-100..100), exp in -300i32..300) {
            prop_assert_eq!(big(Dd::from_sum(a, b)), big_f64(a) + big_f64(b));
            prop_assert_eq!(big(Dd::from_product(a, b)) << POINT, big_f64(a) * big_f64(b));
            let x = Dd::from_sum(a, b);
            let scaled = big(x.mul_pow2(exp)) << 600;
            prop_assert_eq!(scaled, big(x) << (600 + exp));
        }

        #[test]
        fn powers(x in number(-3..3), exp in -60i32..60) {
            let got = big(x.powi(exp));
            let power = big(x).pow(exp.unsigned_abs());
            let one = BigInt::from(1) << (POINT * exp.unsigned_abs());
            let bound = 16 * 6 * exp.unsigned_abs() + 400;
            if exp >= 0 {
                assert_close(&(got << (POINT * exp.unsigned_abs())), &(power << POINT), bound);
            } else {
                assert_close(&(got * power), &(one << POINT), bound);
            }
        }

        #[test]
        fn order_is_that_of_the_numbers(x in number(-2..2), y in number(-2..2)) {
            prop_assert_eq!(x.partial_cmp(&y), Some(big(x).cmp(&big(y))));
            prop_assert_eq!(x.partial_cmp(&x.abs()), Some(big(x).cmp(&magnitude(&big(x)))));
        }

        #[test]
        fn integers_in(x in any::<i128>(), shift in 0u32..127) {
            let x = x >> shift;
            let y = Dd::from_i128(x);
            assert_close(&big(y), &(BigInt::from(x) << POINT), 16);
            if x.unsigned_abs() <= 1 << 106 {
                prop_assert_eq!(y.round_i128(), Some(x));
            }
            prop_assert_eq!(big(Dd::from(x as i64)), BigInt::from(x as i64) << POINT);
            prop_assert_eq!(big(Dd::from(x as u64)), BigInt::from(x as u64) << POINT);
        }

        #[test]
        fn integers_out(x in prop_oneof![number(-3..130), number(-3..5), number(50..56)]) {
            check_rounding(x);
        }

        /// Halves, and numbers next to them.
        #[test]
        fn halves_out(n in any::<i64>(), shift in 0u32..63, nudge in word(-70..-40), side in -1i8..2) {
            let half = Dd::from(n >> shift) + Dd::from(0.5);
            check_rounding(half + Dd::from(nudge * f64::from(side)));
        }

        #[test]
        fn logarithm(x in number(-200..200)) {
            check_log2(x.abs());
        }

        #[test]
        fn logarithm_near_one(x in number(-60..-1)) {
            check_log2(Dd::ONE + x);
        }

        #[test]
        fn arcsine(x in prop_oneof![number(-1..0), number(-30..-1), number(-300..-30)]) {
            check_asin(x);
        }

        /// Next to the ends of its domain.
        #[test]
        fn arcsine_near_one(x in number(-90..-2)) {
            check_asin(Dd::ONE - x.abs());
            check_asin(x.abs() - Dd::ONE);
        }

        #[test]
        fn sine_and_cosine(x in prop_oneof![number(-20..1), number(-3..60)]) {
            check_sin_cos(x);
        }
    }

    fn check_rounding(x: Dd) {
        let half = BigInt::from(1) << (POINT - 1);
        let rounded: BigInt = (magnitude(&big(x)) + half) >> POINT;
        let exact = if x.hi < 0.0 { -rounded } else { rounded };
        assert_eq!(x.round_i128(), i128::try_from(exact).ok(), "{x:?}");
    }

    #[test]
    fn rounding_at_the_limits() {
        let two_127 = Dd::ONE.mul_pow2(127);
        assert_eq!(two_127.round_i128(), None);
        assert_eq!((-two_127).round_i128(), Some(i128::MIN));
        assert_eq!((two_127 - Dd::from(0.75)).round_i128(), Some(i128::MAX));
        assert_eq!((two_127 - Dd::from(0.5)).round_i128(), None);
        assert_eq!((-two_127 - Dd::from(0.5)).round_i128(), None);
        assert_eq!((-two_127 - Dd::from(0.25)).round_i128(), Some(i128::MIN));
        assert_eq!(Dd::from_i128(i128::MAX), Dd::from_sum(two_127.hi(), -1.0));
        assert_eq!(Dd::from_i128(i128::MAX - 1).round_i128(), Some(i128::MAX - 1));
        assert_eq!(Dd::from_i128(i128::MIN), -two_127);
        for x in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX] {
            assert_eq!(Dd::from(x).round_i128(), None);
        }
        check_rounding(Dd::from_sum((1u64 << 60) as f64, -0.5));
        check_rounding(Dd::from_sum((1u64 << 60) as f64, -0.75));
        check_rounding(Dd::from_sum((1u64 << 53) as f64, 0.5));
        check_rounding(Dd::from_sum(0.5, -2f64.powi(-60)));
        check_rounding(Dd::from_sum(-0.5, 2f64.powi(-60)));
    }

    /// `log2` bit by bit, by squaring.
    fn check_log2(x: Dd) {
        const BITS: u32 = 200;
        let value = big(x);
        let exp = value.bits() as i64 - 1 - i64::from(POINT);
        let mut m = if exp + i64::from(POINT) >= 400 {
            value >> (exp + i64::from(POINT) - 400)
        } else {
            value << (400 - exp - i64::from(POINT))
        };
        let mut log = BigInt::from(exp);
        for _ in 0..BITS {
            m = (&m * &m) >> 400;
            log <<= 1;
            if m.bits() > 401 {
                m >>= 1;
                log += 1;
            }
        }
        let got = big(x.log2()) >> (POINT - BITS);
        let error = magnitude(&(got - &log));
        // 2^-99 relatively, and what 200 bits cut off.
        assert!(error <= (magnitude(&log) >> 99) + 4, "log2 of {x:?}");
    }

    #[test]
    fn logarithm_of_powers_of_two_and_of_no_number() {
        for exp in [-1074, -1073, -1022, -500, -1, 0, 1, 52, 1023] {
            assert_eq!(Dd::ONE.mul_pow2(exp).log2(), Dd::from(exp));
        }
        assert_eq!(Dd::ZERO.log2().to_f64(), f64::NEG_INFINITY);
        assert!(Dd::from(-1.0).log2().to_f64().is_nan());
        // OEIS A020862, log2(10) = 3.32192809488736234787031942948939017586...
        assert_eq!(Dd::from(10).log2().hi(), std::f64::consts::LOG2_10);
        assert!((Dd::from(10).log2().lo() - 1.661617516973592e-16).abs() < 1e-30);
    }

    /// An angle of up to a turn and its sine and cosine, times `2^bits`, by Taylor series.
    fn sin_cos(turns: BigInt, bits: u32) -> (BigInt, BigInt, BigInt) {
        let angle: BigInt = (turns * 2 * pi(bits)) >> POINT;
        let (mut sin, mut cos) = (BigInt::ZERO, BigInt::ZERO);
        let mut term = BigInt::from(1) << bits;
        for k in 0u32..120 {
            match k % 4 {
                0 => cos += &term,
                1 => sin += &term,
                2 => cos -= &term,
                _ => sin -= &term,
            }
            term = ((term * &angle) >> bits) / (k + 1);
        }
        (angle, sin, cos)
    }

    fn check_sin_cos(x: Dd) {
        const BITS: u32 = 300;
        let turns = big(x) & ((BigInt::from(1) << POINT) - 1);
        let (_, sin, cos) = sin_cos(turns, BITS);
        let (got_sin, got_cos) = x.sin_cos_turns();
        for (got, exact) in [(got_sin, sin), (got_cos, cos)] {
            let error = magnitude(&((big(got) >> (POINT - BITS)) - exact));
            assert!(error < BigInt::from(1) << (BITS - 102), "sin or cos of {x:?} turns");
        }
    }

    /// The sine of the result; the derivative takes the error in `x` to one in the result.
    fn check_asin(x: Dd) {
        const BITS: u32 = 600;
        let got = x.asin_turns();
        assert!(got.abs() <= Dd::from(0.25));
        let (angle, sin, cos) = sin_cos(big(got), BITS);
        let error = magnitude(&((big(x) >> (POINT - BITS)) - sin));
        // 2^-97 of the angle, times the cosine, and the curvature at quarter turns.
        let allowed: BigInt = ((magnitude(&angle) * magnitude(&cos)) >> (BITS + 97))
            + (BigInt::from(1) << (BITS - 190))
            + (magnitude(&angle) >> 190);
        assert!(error <= allowed, "asin of {x:?}");
    }

    #[test]
    fn arcsine_of_exact_values_and_beyond() {
        assert_eq!(Dd::ZERO.asin_turns(), Dd::ZERO);
        assert_eq!(Dd::ONE.asin_turns(), Dd::from(0.25));
        assert_eq!((-Dd::ONE).asin_turns(), Dd::from(-0.25));
        let error = Dd::from(0.5).asin_turns() - Dd::ONE / Dd::from(12);
        assert!(error.abs() < Dd::ONE.mul_pow2(-100));
        for x in [1.0 + f64::EPSILON, -2.0, f64::INFINITY, f64::NAN] {
            assert!(Dd::from(x).asin_turns().to_f64().is_nan());
        }
    }

    #[test]
    fn sine_and_cosine_at_quarter_turns() {
        let (zero, one) = (Dd::ZERO, Dd::ONE);
        for (quarters, sin, cos) in
            [(0, zero, one), (1, one, zero), (2, zero, -one), (3, -one, zero), (-1, -one, zero)]
        {
            let far = Dd::from(f64::from(quarters) * 0.25) + Dd::ONE.mul_pow2(80);
            assert_eq!(far.sin_cos_turns(), (sin, cos));
        }
    }
}
