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

/// The integer part of `x`, modulo `2^128`, and the fraction, for `|x| <= 2^127`. Faster than
/// [`f64::trunc`], a library call on baseline x86-64.
fn truncate(x: f64) -> (u128, f64) {
    // Below 2^63 the conversion is to `i64`: one instruction.
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
    /// π, with a relative error below `2^-107`.
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

    /// Returns the exact sum `a + b`. `Dd::from_sum(x.hi(), x.lo())` is `x`.
    #[must_use]
    pub fn from_sum(a: f64, b: f64) -> Self {
        Self::from_parts(two_sum(a, b))
    }

    /// Returns the exact product `a * b`.
    #[must_use]
    pub fn from_product(a: f64, b: f64) -> Self {
        Self::from_parts(two_prod(a, b))
    }

    /// Converts `x` with a relative error of at most `2^-106`; exact for `|x| <= 2^106`.
    #[must_use]
    pub fn from_i128(x: i128) -> Self {
        let magnitude = x.unsigned_abs();
        let hi = magnitude as f64;
        // `hi` may be rounded up. The rest is then negative.
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

    /// The trailing word, `self - hi`: at most half an ulp of [`hi`](Self::hi).
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

    /// Returns `true` if the number is neither infinite nor NaN.
    #[must_use]
    pub fn is_finite(self) -> bool {
        self.hi.is_finite() && self.lo.is_finite()
    }

    /// Rounds to the nearest integer, a half away from zero. Returns `None` if the integer does not
    /// fit or the number is not finite.
    #[must_use]
    pub fn round_i128(self) -> Option<i128> {
        // At 2^127 itself, a negative `lo` or the sign can still make the integer fit.
        const LIMIT: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0; // 2^127
        let Self { hi, lo } = self.abs();
        if !self.is_finite() || hi > LIMIT {
            return None;
        }
        // |self| = whole + fraction. Where `hi` has a fraction, `lo` is at most half of its last
        // digit. Elsewhere the fraction is the fraction of `lo`, in (-1, 1).
        let (whole_hi, fraction_hi) = truncate(hi);
        let (whole_lo, fraction_lo) = truncate(lo);
        let whole = whole_hi.wrapping_add(whole_lo);
        let fraction = Self::from_sum(fraction_hi, fraction_lo);
        let at_least = |c: f64| fraction >= Self::from(c);
        let magnitude = if at_least(0.5) {
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
        // Beyond 2098 every result is zero or infinite, so the bound only shortens the loop.
        let mut rest = exp.clamp(-4000, 4000);
        while rest != 0 {
            // `pow2` makes normal numbers only.
            let step = rest.clamp(-1022, 1023);
            let factor = pow2(step);
            y = Self { hi: y.hi * factor, lo: y.lo * factor };
            rest -= step;
        }
        y
    }

    /// `self^exp` by squaring: at most `2 log2 |exp|` products, each of which adds its own error
    /// and at most doubles the previous one. The relative error is at most about `5 |exp| u^2`.
    /// `0^0` is 1.
    #[must_use]
    pub fn powi(self, exp: i32) -> Self {
        // Not `-exp`, which overflows for the smallest exponent.
        let mut rest = exp.unsigned_abs();
        let mut square = self;
        let mut product = Self::ONE;
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

    /// Square root; NaN below zero. Reference: Lefèvre, Louvet, Muller, Picot, Rideau, "Accurate
    /// calculation of Euclidean norms using double-word arithmetic", ACM TOMS 49(1), 2023,
    /// algorithm `SQRTDWtoDW`.
    #[must_use]
    pub fn sqrt(self) -> Self {
        // The correction below would divide 0 by 0.
        if self.hi == 0.0 {
            return self;
        }
        let root = self.hi.sqrt();
        let (square_hi, square_lo) = two_prod(root, root);
        // The remainder of a square root is an f64, so both steps are exact.
        let remainder = (self.hi - square_hi) - square_lo;
        Self::from_parts(fast_two_sum(root, (remainder + self.lo) / (2.0 * root)))
    }

    /// Logarithm to base 2, with a relative error below `2^-99`, exact for powers of two; minus
    /// infinity at zero, NaN below.
    ///
    /// Unlike [`f64::log2`], whose last bits depend on the platform, the result has the same bits
    /// everywhere.
    #[must_use]
    pub fn log2(self) -> Self {
        if self.hi == 0.0 {
            return Self::from(f64::NEG_INFINITY);
        }
        if self.hi < 0.0 || !self.is_finite() {
            return Self::from(f64::NAN);
        }
        // The exponent bits of a subnormal number do not give its magnitude.
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
        // The first omitted term is below `2^-122` of the sum.
        let series = (0..=22)
            .rev()
            .fold(Self::ZERO, |sum, k: i32| sum * z2 + Self::ONE / Self::from(2 * k + 1));
        Self::from(exp) + z * series * Self::TWO_LOG2_E
    }

    /// Returns `(sin 2πx, cos 2πx)`, where `x` is the number itself, in turns, with absolute errors
    /// below `2^-102`; exact at quarter turns.
    #[must_use]
    pub fn sin_cos_turns(self) -> (Self, Self) {
        // Remove whole turns of either word, then quarter turns: |rest| <= 1/8.
        let rest = self - Self::from(self.hi.round());
        let rest = rest - Self::from(rest.hi.round());
        let quarters = (4.0 * rest.hi).round();
        let angle = (rest - Self::from(0.25 * quarters)) * Self::PI.mul_pow2(1);
        let angle2 = angle * angle;
        // 1 - a^2/(2*3) (1 - a^2/(4*5) (1 - ...)), truncated below 2^-118.
        let nested = |first: i32| {
            (0..14)
                .rev()
                .map(|k| first + 2 * k)
                .fold(Self::ONE, |inner, m| Self::ONE - inner * angle2 / Self::from(m * (m + 1)))
        };
        let sin = angle * nested(2);
        let cos = nested(1);
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
        // Near 1 Newton's method would divide by a cosine close to 0. The complement has no such
        // point.
        if magnitude.hi > std::f64::consts::FRAC_1_SQRT_2 {
            // `1 - x^2` as a product: the difference of squares would cancel near 1.
            let cos = ((Self::ONE - magnitude) * (Self::ONE + magnitude)).sqrt();
            let turns = Self::from(0.25) - cos.asin_turns();
            return if self.hi < 0.0 { -turns } else { turns };
        }
        // Newton's method for sin 2πy = x. Each step squares the error, below 2^-3 at first.
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
mod tests;
