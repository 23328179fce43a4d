use crate::{Error, Result};
use core::{
    fmt,
    ops::{Div, Mul},
};
use serde::{Deserialize, Serialize};
use sudare_arith::{is_prime, next_prime, previous_prime, real};

/// A plaintext modulus `t = p^k`, with the arithmetic of its residues.
///
/// `p` is a prime below `2^60`, `t` at most `2^124`. Residues are in `[0, t)` before and after
/// every operation unless stated otherwise. Debug builds check this. The times of [`Modulus::pow`],
/// [`Modulus::inverse`] and reductions of larger numbers depend on their arguments. No other code
/// branches on residues.
///
/// Products are reduced by Barrett's method with a reciprocal of `bits(t) + 1` bits. For `t < 2^62`
/// this uses single words of 128 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "(u64, u32)", into = "(u64, u32)")]
pub struct Modulus {
    prime: u64,
    exponent: u32,
    value: u128,
    /// `floor(4^bits / t)`, where `bits` is the number of bits of `t`.
    reciprocal: u128,
}

impl Modulus {
    /// The smallest modulus that is too large.
    const MAX: u128 = 1 << 124;

    /// Primes are below this power of two.
    const PRIME_BITS: u32 = 60;

    /// Makes the modulus `p^k`.
    ///
    /// # Errors
    /// [`Error::PlaintextModulusNotPrime`] if `p` is not a prime;
    /// [`Error::PlaintextModulusOutOfRange`] for `p >= 2^60`, `k = 0` or `p^k > 2^124`.
    pub fn new(p: u64, k: u32) -> Result<Self> {
        let out_of_range = Error::PlaintextModulusOutOfRange { prime: p.into(), exponent: k };
        if p >> Self::PRIME_BITS != 0 || k == 0 {
            return Err(out_of_range);
        }
        if !is_prime(p) {
            let primes = name_primes(&primes_near(p.into(), 1));
            return Err(Error::PlaintextModulusNotPrime { found: p, primes });
        }
        match u128::from(p).checked_pow(k).filter(|&value| value <= Self::MAX) {
            Some(value) => Ok(Self { prime: p, exponent: k, value, reciprocal: reciprocal(value) }),
            None => Err(out_of_range),
        }
    }

    /// Makes the modulus from the prime power `t`.
    ///
    /// # Errors
    /// See [`Modulus::new`].
    pub fn from_value(t: u128) -> Result<Self> {
        // The highest power first, so that its root is the prime itself.
        let powers = (2..=t.max(2).ilog2()).rev();
        let power = { powers }.find_map(|k| Some((exact_root(t, k)?, k)));
        let (root, k) = power.unwrap_or((t, 1));
        match (u64::try_from(root), u64::try_from(t)) {
            // The error names the given number, not its root.
            (Ok(p), Ok(found)) if !is_prime(p) && p >> Self::PRIME_BITS == 0 => {
                let primes = name_primes(&primes_near(t, 1));
                Err(Error::PlaintextModulusNotPrime { found, primes })
            }
            (Ok(p), _) => Self::new(p, k),
            (Err(_), _) => Err(Error::PlaintextModulusOutOfRange { prime: root, exponent: k }),
        }
    }

    /// The prime `p`.
    #[must_use]
    pub fn prime(self) -> u64 {
        self.prime
    }

    /// The exponent `k`.
    #[must_use]
    pub fn exponent(self) -> u32 {
        self.exponent
    }

    /// `t = p^k`.
    #[must_use]
    pub fn value(self) -> u128 {
        self.value
    }

    /// `log2(t)`.
    #[must_use]
    pub fn log2(self) -> f64 {
        f64::from(self.exponent) * real::log2(self.prime as f64)
    }

    /// Returns another power of the same prime.
    ///
    /// # Errors
    /// [`Error::PlaintextModulusOutOfRange`] for `k = 0` and beyond `2^124`.
    pub fn with_exponent(self, k: u32) -> Result<Self> {
        Self::new(self.prime, k)
    }

    /// Number of bits of `t`: the least `b` with `t < 2^b`, 2 to 125.
    fn bits(self) -> u32 {
        u128::BITS - self.value.leading_zeros()
    }

    /// Returns `true` if products of two residues fit 124 bits.
    fn is_narrow(self) -> bool {
        self.value >> 62 == 0
    }

    /// `a + b mod t`.
    #[must_use]
    pub fn add(self, a: u128, b: u128) -> u128 {
        debug_assert!(a < self.value && b < self.value);
        self.less(a + b)
    }

    /// `a - b mod t`.
    #[must_use]
    pub fn sub(self, a: u128, b: u128) -> u128 {
        debug_assert!(a < self.value && b < self.value);
        let difference = a.wrapping_sub(b);
        difference.min(difference.wrapping_add(self.value))
    }

    /// `-a mod t`.
    #[must_use]
    pub fn neg(self, a: u128) -> u128 {
        self.sub(0, a)
    }

    /// `a * b mod t`.
    #[must_use]
    pub fn mul(self, a: u128, b: u128) -> u128 {
        debug_assert!(a < self.value && b < self.value);
        if self.is_narrow() {
            return self.mul_words(a as u64, b as u64).into();
        }
        // Barrett: for a product `x < t^2` the quotient by `t` is this value or up to 2 more.
        let bits = self.bits();
        let (high, low) = wide_mul(a, b);
        let (high_q, low_q) = wide_mul(shifted(high, low, bits - 1), self.reciprocal);
        let quotient = shifted(high_q, low_q, bits + 1);
        self.less(self.less(low.wrapping_sub(quotient.wrapping_mul(self.value))))
    }

    /// Computes [`Modulus::mul`] modulo a narrow `t`. Only the product `x` exceeds a word: the
    /// shifted `x` and the reciprocal have a bit more than `t`.
    fn mul_words(self, a: u64, b: u64) -> u64 {
        let bits = self.bits();
        let t = self.value as u64;
        let x = u128::from(a) * u128::from(b);
        let high = (x >> (bits - 1)) as u64;
        let quotient = (u128::from(high) * u128::from(self.reciprocal as u64)) >> (bits + 1);
        let less = |a: u64| a.min(a.wrapping_sub(t));
        less(less((x as u64).wrapping_sub((quotient as u64).wrapping_mul(t))))
    }

    /// Returns `a` or `a - t`: the smaller nonnegative one.
    fn less(self, a: u128) -> u128 {
        a.min(a.wrapping_sub(self.value))
    }

    /// `a^e mod t`.
    #[must_use]
    pub fn pow(self, a: u128, e: u128) -> u128 {
        let mut result = 1;
        for bit in (0..u128::BITS - e.leading_zeros()).rev() {
            result = self.mul(result, result);
            if e >> bit & 1 == 1 {
                result = self.mul(result, a);
            }
        }
        result
    }

    /// Returns `true` if `a` has an inverse modulo `t`, that is, if `p` does not divide it.
    #[must_use]
    pub fn is_unit(self, a: u128) -> bool {
        !a.is_multiple_of(u128::from(self.prime))
    }

    /// Returns `a^-1 mod t`, or `None` if it does not exist, by Euclid's algorithm.
    #[must_use]
    pub fn inverse(self, a: u128) -> Option<u128> {
        debug_assert!(a < self.value);
        // Signed numbers hold every step, because `t` is at most `2^124`.
        let mut r0 = self.value as i128;
        let mut r1 = a as i128;
        let mut s0 = 0i128;
        let mut s1 = 1i128;
        while r1 != 0 {
            let quotient = r0 / r1;
            (r0, r1) = (r1, r0 - quotient * r1);
            (s0, s1) = (s1, s0 - quotient * s1);
        }
        (r0 == 1).then(|| self.reduce_i128(s0))
    }

    /// Returns the primitive `2^log_order`-th root of unity that is least modulo `p`, or `None`
    /// unless `p = 1 mod 2^log_order`.
    ///
    /// Modulo each power of `p` it is the root of that order with the same lowest digit. A root
    /// modulo `p^k` thus reduces to the root modulo a lower power. Runs in time proportional to the
    /// order.
    #[must_use]
    pub fn root_of_unity(self, log_order: u32) -> Option<u128> {
        let p = Self::new(self.prime, 1).ok()?;
        let order = 1u64.checked_shl(log_order)?;
        if log_order == 0 {
            return Some(1 % self.value);
        }
        if self.prime % order != 1 {
            return None;
        }
        let candidates = (2..p.value).map(|x| p.pow(x, (p.value - 1) >> log_order));
        let root = { candidates }.find(|&x| p.pow(x, u128::from(order) / 2) == p.value - 1)?;
        // The primitive roots are the odd powers of any one of them.
        let square = p.mul(root, root);
        let roots = core::iter::successors(Some(root), |&x| Some(p.mul(x, square)));
        let least = roots.take(order as usize / 2).min()?;
        // The power `p^(k-1)` turns any number with this lowest digit into the root of the same
        // order modulo `p^k`.
        Some(self.pow(least, self.value / p.value))
    }

    /// `a mod t` for any `a`.
    #[must_use]
    pub fn reduce(self, a: u128) -> u128 {
        a % self.value
    }

    /// `a mod t` for any signed `a`.
    #[must_use]
    pub fn reduce_i128(self, a: i128) -> u128 {
        let size = self.reduce(a.unsigned_abs());
        if a < 0 { self.neg(size) } else { size }
    }

    /// The representative of `a` in `(-t/2, t/2]`.
    #[must_use]
    pub fn centered(self, a: u128) -> i128 {
        debug_assert!(a < self.value);
        let is_high = ((self.value / 2) as i128 - a as i128) >> 127;
        a as i128 - (self.value as i128 & is_high)
    }

    /// [`Modulus::centered`] as the nearest double.
    pub(super) fn centered_f64(self, a: u128) -> f64 {
        let a = self.centered(a);
        // Conversions of long integers are function calls.
        if self.is_narrow() { a as i64 as f64 } else { a as f64 }
    }
}

/// Reduces words modulo `t`, in a time independent of the words.
#[derive(Debug, Clone, Copy)]
pub(super) struct WordReducer {
    t: Modulus,
    /// `floor(2^64 / t)`.
    reciprocal: u128,
    /// `2^63 mod t`.
    offset: u128,
}

impl WordReducer {
    /// Prepares for residues modulo `t`.
    pub(super) fn new(t: Modulus) -> Self {
        Self { t, reciprocal: (1 << 64) / t.value, offset: t.reduce(1 << 63) }
    }

    /// `a mod t`.
    pub(super) fn reduce(self, a: i64) -> u128 {
        // A choice by the sign would compile to a branch. `a + 2^63` has none.
        let raised = u128::from(a as u64 ^ 1 << 63);
        // Barrett: the quotient by `t` is this value or one more.
        let quotient = (raised * self.reciprocal) >> 64;
        let rest = self.t.less(raised - quotient * self.t.value);
        self.t.sub(rest, self.offset)
    }
}

/// Returns the primes that are 1 modulo `step` and nearest to a number: one below and one above it,
/// or two above. For numbers that are too large, both are below.
pub(super) fn primes_near(number: u128, step: u64) -> Vec<u64> {
    const END: u64 = 1 << Modulus::PRIME_BITS;
    let number = u64::try_from(number).unwrap_or(END).min(END);
    let above = |p: u64| next_prime(p + 1, step).filter(|&p| p < END);
    let next = above(number);
    let near = match (previous_prime(number, step), next) {
        (Some(below), next) => [Some(below), next],
        (None, next) => [next, next.and_then(above)],
    };
    near.into_iter().flatten().collect()
}

/// Formats primes for messages.
pub(super) fn name_primes(primes: &[u64]) -> String {
    primes.iter().map(u64::to_string).collect::<Vec<_>>().join(" or ")
}

impl TryFrom<(u64, u32)> for Modulus {
    type Error = Error;
    fn try_from(power: (u64, u32)) -> Result<Self> {
        let (p, k) = power;
        Self::new(p, k)
    }
}

impl From<Modulus> for (u64, u32) {
    fn from(t: Modulus) -> Self {
        (t.prime, t.exponent)
    }
}

impl fmt::Display for Modulus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.exponent {
            1 => write!(f, "{}", self.prime),
            k => write!(f, "{}^{k}", self.prime),
        }
    }
}

impl fmt::Debug for Modulus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A unit modulo `t`: the factor by which a plaintext is multiplied in a ciphertext.
///
/// The exact counterpart of a CKKS scale: products multiply factors, dividing by a prime of the
/// chain divides them by it, and sums need equal ones.
///
/// Products and quotients of factors modulo two powers of one prime are modulo the lower power. For
/// different primes the result is not [valid](Unit::is_valid) and matches nothing, like NaN among
/// scales.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Unit {
    /// A unit, or 0 if not valid.
    value: u128,
    modulus: Modulus,
}

impl Unit {
    /// Makes the unit `value mod t`.
    ///
    /// # Errors
    /// [`Error::NotAUnit`] if `p` divides it.
    pub fn new(value: u128, t: Modulus) -> Result<Self> {
        let unit = Self { value: t.reduce(value), modulus: t };
        if unit.is_valid() { Ok(unit) } else { Err(Error::NotAUnit { value, modulus: t.into() }) }
    }

    /// The factor 1.
    #[must_use]
    pub fn one(t: Modulus) -> Self {
        Self { value: 1, modulus: t }
    }

    /// The residue, in `[1, t)`.
    #[must_use]
    pub fn value(self) -> u128 {
        self.value
    }

    /// `t`.
    #[must_use]
    pub fn modulus(self) -> Modulus {
        self.modulus
    }

    /// Returns `true` if this is a unit. Only operations on units of different primes return an
    /// invalid one.
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.modulus.is_unit(self.value)
    }

    /// Rejects an invalid unit.
    ///
    /// # Errors
    /// [`Error::NotAUnit`].
    pub(crate) fn check_unit(self) -> Result<()> {
        match self.is_valid() {
            true => Ok(()),
            false => Err(Error::NotAUnit { value: self.value, modulus: self.modulus.into() }),
        }
    }

    /// Returns `true` if both are valid and equal, with the same modulus.
    #[must_use]
    pub fn matches(self, other: Self) -> bool {
        self.is_valid() && self == other
    }

    /// `f^-1`.
    #[must_use]
    pub fn inverse(self) -> Self {
        // 0 marks an invalid unit.
        Self { value: self.modulus.inverse(self.value).unwrap_or(0), ..self }
    }

    /// Returns units `[u, v]` with `u / v` equal to this one, both next to zero: at most about
    /// `sqrt(t)` in magnitude, except for a few units modulo higher powers of a prime.
    pub(crate) fn as_fraction(self) -> [Self; 2] {
        let t = self.modulus;
        // Euclid's algorithm, halfway: every remainder is `factor` times the unit, modulo `t`.
        let mut before = (t.value, 0i128);
        let mut now = (self.value, 1i128);
        while now.0 > t.value.isqrt() {
            let quotient = before.0 / now.0;
            let next = (before.0 - quotient * now.0, before.1 - quotient as i128 * now.1);
            before = now;
            now = next;
        }
        let fraction = [now.0, t.reduce_i128(now.1)].map(|value| Self { value, modulus: t });
        if fraction.iter().all(|unit| unit.is_valid()) { fraction } else { [self, Self::one(t)] }
    }

    /// Returns this factor modulo a lower power of its prime, for example after multiples of `p` in
    /// the plaintext were divided by it. The result is not valid for any other modulus.
    #[must_use]
    pub fn reduced(self, t: Modulus) -> Self {
        let divides = t.prime == self.modulus.prime && t.exponent <= self.modulus.exponent;
        Self { value: if divides { t.reduce(self.value) } else { 0 }, modulus: t }
    }
}

impl Mul for Unit {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        // The lower power: residues modulo the higher one determine residues modulo the lower.
        let t = if other.modulus.exponent < self.modulus.exponent { other } else { self }.modulus;
        let a = self.reduced(t);
        let b = other.reduced(t);
        Self { value: t.mul(a.value, b.value), modulus: t }
    }
}

impl Div for Unit {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        self.mul(other.inverse())
    }
}

impl fmt::Debug for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} mod {}", self.value, self.modulus)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Returns `floor(4^bits / t)`, where `bits` is the number of bits of `t`, by long division.
fn reciprocal(t: u128) -> u128 {
    let bits = u128::BITS - t.leading_zeros();
    let mut quotient = 0;
    let mut rest = 1u128;
    for _ in 0..2 * bits {
        rest <<= 1;
        quotient <<= 1;
        if rest >= t {
            rest -= t;
            quotient |= 1;
        }
    }
    quotient
}

/// Returns `a * b`, high word first.
fn wide_mul(a: u128, b: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let a1 = a >> 64;
    let a0 = a & LOW;
    let b1 = b >> 64;
    let b0 = b & LOW;
    let low = a0 * b0;
    let mid = a1 * b0 + (low >> 64);
    let mid_low = a0 * b1 + (mid & LOW);
    (a1 * b1 + (mid >> 64) + (mid_low >> 64), mid_low << 64 | low & LOW)
}

/// Returns the low word of `(high, low) >> by`, for `0 < by < 128`.
fn shifted(high: u128, low: u128, by: u32) -> u128 {
    high << (u128::BITS - by) | low >> by
}

/// Returns the `k`-th root of `a`, if it is an integer, for `k >= 2`.
fn exact_root(a: u128, k: u32) -> Option<u128> {
    let bits = u128::BITS - a.leading_zeros();
    let mut low = 0;
    // The root has at most this number of bits.
    let mut high = 1u128 << bits.div_ceil(k);
    while low < high {
        let mid = low.midpoint(high);
        // A power that overflows is too large.
        if mid.checked_pow(k).is_some_and(|power| power < a) { low = mid + 1 } else { high = mid }
    }
    (low.checked_pow(k) == Some(a)).then_some(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::{BigInt, BigUint};
    use proptest::prelude::*;

    fn moduli() -> Vec<Modulus> {
        let large = previous_prime(1 << 60, 1).unwrap();
        let middle = previous_prime(1 << 31, 1).unwrap();
        [
            (2, 1),
            (2, 61),
            (2, 62),
            (2, 63),
            (2, 124),
            (3, 1),
            // Just below 2^62.
            (3, 39),
            (3, 78),
            (257, 2),
            (127, 3),
            (127, 17),
            (65537, 1),
            (65537, 7),
            (middle, 2),
            (middle, 4),
            (large, 1),
            (large, 2),
        ]
        .map(|(p, k)| Modulus::new(p, k).unwrap())
        .to_vec()
    }

    fn big(a: u128) -> BigUint {
        BigUint::from(a)
    }

    proptest! {
        #[test]
        fn operations_equal_those_of_big_integers(
            x: u128,
            y: u128,
            s: i128,
            word: i64,
            e in 0u32..40,
        ) {
            for t in moduli() {
                let a = x % t.value();
                let b = y % t.value();
                let w = big(t.value());
                prop_assert_eq!(big(t.add(a, b)), (big(a) + big(b)) % &w);
                prop_assert_eq!(big(t.sub(a, b)), (big(a) + &w - big(b)) % &w);
                prop_assert_eq!(t.add(a, t.neg(a)), 0);
                prop_assert_eq!(big(t.mul(a, b)), big(a) * big(b) % &w);
                prop_assert_eq!(big(t.pow(a, e.into())), big(a).pow(e) % &w);
                for word in [word, word >> (word & 63), i64::MIN, i64::MAX, 0, -1] {
                    prop_assert_eq!(WordReducer::new(t).reduce(word), t.reduce_i128(word.into()));
                }
                let residue = t.reduce_i128(s);
                prop_assert!(residue < t.value());
                let difference = BigInt::from(s) - BigInt::from(residue);
                prop_assert_eq!(difference % BigInt::from(w), BigInt::ZERO);
                prop_assert_eq!(t.reduce_i128(t.centered(a)), a);
                prop_assert!(2 * t.centered(a).unsigned_abs() <= t.value());
                prop_assert_eq!(t.centered_f64(a), t.centered(a) as f64);
                match t.inverse(a) {
                    Some(inverse) => prop_assert_eq!(t.mul(inverse, a), 1),
                    None => prop_assert_eq!(a % u128::from(t.prime()), 0),
                }
                prop_assert_eq!(t.is_unit(a), t.inverse(a).is_some());
            }
        }
    }

    #[test]
    fn extreme_residues_multiply() {
        for t in moduli() {
            let last = t.value() - 1;
            assert_eq!(t.mul(last, last), 1 % t.value(), "{t}");
            assert_eq!(t.mul(last, 1), last);
            assert_eq!(t.mul(0, last), 0);
            assert_eq!(t.add(last, last), t.sub(last, 1 % t.value()));
            assert_eq!(t.reduce_i128(i128::MIN), t.neg(t.reduce(1 << 127)));
            assert_eq!(t.reduce_i128(-1), last);
        }
        let t = Modulus::new(5, 1).unwrap();
        assert_eq!([0, 1, 2, 3, 4].map(|a| t.centered(a)), [0, 1, 2, -2, -1]);
        let t = Modulus::new(2, 2).unwrap();
        assert_eq!([0, 1, 2, 3].map(|a| t.centered(a)), [0, 1, 2, -1]);
    }

    #[test]
    fn small_moduli_multiply_as_they_should() {
        for (p, k) in [(2, 1), (2, 2), (2, 5), (3, 1), (3, 3), (7, 2), (31, 1)] {
            let t = Modulus::new(p, k).unwrap();
            for a in 0..t.value() {
                for b in 0..t.value() {
                    assert_eq!(t.mul(a, b), a * b % t.value());
                }
            }
        }
    }

    #[test]
    fn only_prime_powers_in_range_are_moduli() {
        let refused = |p, k| Modulus::new(p, k).unwrap_err();
        let last = ((1u64 << 60) - 93).to_string();
        for (found, primes) in [
            (0, "2 or 3"),
            (1, "2 or 3"),
            (4, "3 or 5"),
            (65536, "65521 or 65537"),
            ((1 << 60) - 1, &last),
        ] {
            let primes = primes.to_owned();
            assert_eq!(refused(found, 1), Error::PlaintextModulusNotPrime { found, primes });
        }
        let prime = previous_prime(1 << 60, 1).unwrap();
        for (p, k) in [(1 << 60, 1), (u64::MAX, 1), (2, 125), (257, 16), (prime, 3), (3, 0)] {
            let error = Error::PlaintextModulusOutOfRange { prime: p.into(), exponent: k };
            assert_eq!(refused(p, k), error);
        }
        let t = Modulus::new(127, 3).unwrap();
        assert_eq!((t.prime(), t.exponent(), t.value()), (127, 3, 127 * 127 * 127));
        assert!((t.log2() - 20.966).abs() < 1e-3);
        assert_eq!(t.with_exponent(2), Modulus::new(127, 2));
        assert_eq!(format!("{t} {:?}", Modulus::new(65537, 1).unwrap()), "127^3 65537");
    }

    #[test]
    fn powers_are_recognised() {
        for t in moduli() {
            assert_eq!(Modulus::from_value(t.value()), Ok(t));
        }
        let not_prime = |t| match Modulus::from_value(t) {
            Err(Error::PlaintextModulusNotPrime { found, .. }) => found,
            other => panic!("{other:?}"),
        };
        let composite = [0, 1, 6, 36, 1000, 1_000_000];
        assert_eq!(composite.map(|t| u128::from(not_prime(t))), composite);
        let error = Modulus::from_value(1_000_000).unwrap_err().to_string();
        assert!(error.contains("1000000 is neither") && error.contains("1000003"), "{error}");
        for (t, prime, exponent) in [(u128::MAX, u128::MAX, 1), (1 << 125, 2, 125)] {
            let out_of_range = Error::PlaintextModulusOutOfRange { prime, exponent };
            assert_eq!(Modulus::from_value(t), Err(out_of_range));
        }
    }

    #[test]
    fn roots_of_unity_have_their_order_modulo_every_power() {
        for (p, k, log_order) in [(257, 3, 8), (65537, 7, 16), (3, 5, 1), (5, 2, 2), (17, 1, 0)] {
            let t = Modulus::new(p, k).unwrap();
            let root = t.root_of_unity(log_order).unwrap();
            let order = 1u128 << log_order;
            assert_eq!(t.pow(root, order), 1);
            assert_eq!(log_order == 0, t.pow(root, order / 2) == 1);
            let lower = Modulus::new(p, 1).unwrap();
            assert_eq!(lower.root_of_unity(log_order), Some(root % u128::from(p)));
        }
        let least = (2..257).find(|&x| x * x % 257 == 256);
        assert_eq!(Modulus::new(257, 1).unwrap().root_of_unity(2), least);
        let none = Modulus::new(127, 2).unwrap();
        assert_eq!((none.root_of_unity(2), none.root_of_unity(64)), (None, None));
    }

    #[test]
    fn moduli_are_read_as_they_were_written() {
        for t in moduli() {
            let bytes = postcard::to_allocvec(&t).unwrap();
            assert_eq!(postcard::from_bytes::<Modulus>(&bytes).unwrap(), t);
        }
        let bytes = postcard::to_allocvec(&(6u64, 1u32)).unwrap();
        assert!(postcard::from_bytes::<Modulus>(&bytes).is_err());
    }

    #[test]
    fn factors_are_a_group() {
        let t = Modulus::new(257, 2).unwrap();
        let unit = |a| Unit::new(a, t).unwrap();
        let f = unit(1234);
        let q = unit(987_654_321);
        assert!((f * q / q).matches(f));
        assert!((f / f).matches(Unit::one(t)));
        assert_eq!((f * q).value(), 1234 * (987_654_321 % t.value()) % t.value());
        assert!(!f.matches(q));
        assert_eq!(Unit::new(514, t), Err(Error::NotAUnit { value: 514, modulus: t.into() }));
    }

    #[test]
    fn units_are_fractions_of_small_integers() {
        for t in moduli() {
            let root = t.value().isqrt();
            let step = (t.value() / 97).max(1);
            let units = (0..97).filter_map(|i| Unit::new(1 + i * step, t).ok());
            let mut large = 0;
            for unit in units {
                let [u, v] = unit.as_fraction();
                assert!(u.is_valid() && v.is_valid() && (u / v).matches(unit), "{unit:?}");
                let size = [u, v].map(|part| t.centered(part.value()).unsigned_abs());
                // Halfway, the product of a remainder and the next integer is at most `t`.
                large += usize::from(size[0] > root || size[1] > root + 1);
            }
            // Modulo a prime every halfway point has units.
            assert!(t.exponent() > 1 || large == 0, "{t}: {large}");
        }
        // For 2/3 modulo 65537, and minus a half.
        let t = Modulus::new(65537, 1).unwrap();
        let unit = |x: i128| Unit::new(t.reduce_i128(x), t).unwrap();
        for (u, v) in [(2, 3), (-1, 2), (1, 1), (200, -177)] {
            let [found, below] = (unit(u) / unit(v)).as_fraction();
            let pair = [found, below].map(|part| t.centered(part.value()));
            assert!(pair == [u, v] || pair == [-u, -v], "{pair:?} for {u}/{v}");
        }
    }

    #[test]
    fn factors_of_other_moduli() {
        let [low, high, other] =
            [(257, 1), (257, 2), (127, 1)].map(|(p, k)| Modulus::new(p, k).unwrap());
        let a = Unit::new(1000, high).unwrap();
        let b = Unit::new(3, low).unwrap();
        assert!((a * b).matches(Unit::new(3000, low).unwrap()));
        assert!((b / a * a).matches(b));
        assert!(!a.matches(a.reduced(low)));
        assert!(a.reduced(low).is_valid() && !b.reduced(high).is_valid());
        let none = a * Unit::one(other);
        assert!(!none.is_valid() && !none.matches(none) && !(none * none).is_valid());
        assert!(!(b / none).is_valid() && !(none / b).is_valid());
    }
}
