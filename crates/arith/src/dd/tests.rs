use super::*;
use num_bigint::{BigInt, Sign};
use proptest::prelude::*;

/// Numbers are integers times `2^-POINT`. Every finite `f64` is such a number.
const POINT: u32 = 1074;

fn big_f64(x: f64) -> BigInt {
    let bits = x.to_bits();
    let exp = (bits >> 52) & 0x7ff;
    let fraction = bits & ((1 << 52) - 1);
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

/// Any double-double with an exponent in `exps`, gaps of all sizes between the words, and sometimes
/// `lo = 0`.
fn number(exps: std::ops::Range<i32>) -> impl Strategy<Value = Dd> {
    (word(exps), prop_oneof![word(-54..-53), word(-120..-53), Just(0.0)])
        .prop_map(|(hi, ratio)| Dd::from_sum(hi, hi * ratio))
}

/// `arctan(1/k) 2^bits`.
fn arctan_inverse(k: u32, bits: u32) -> BigInt {
    let mut power = (BigInt::from(1) << bits) / k;
    let mut sum = power.clone();
    let mut m = 1u32;
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

    /// Cancellation does not worsen the relative bound.
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

    /// Halves and numbers next to them.
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

    /// Arguments next to the ends of the domain.
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
    check_rounding(Dd::from_sum((1u64 << 63) as f64, 0.5));
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
    // 2^-99 relatively, and the truncation at 200 bits.
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
    let mut sin = BigInt::ZERO;
    let mut cos = BigInt::ZERO;
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

/// Checks the sine of the result. The derivative converts the error in `x` to the error in the
/// result.
fn check_asin(x: Dd) {
    const BITS: u32 = 600;
    let got = x.asin_turns();
    assert!(got.abs() <= Dd::from(0.25));
    let (angle, sin, cos) = sin_cos(big(got), BITS);
    let error = magnitude(&((big(x) >> (POINT - BITS)) - sin));
    // 2^-97 of the angle, times the cosine, and the curvature term at quarter turns.
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
    let zero = Dd::ZERO;
    let one = Dd::ONE;
    for (quarters, sin, cos) in
        [(0, zero, one), (1, one, zero), (2, zero, -one), (3, -one, zero), (-1, -one, zero)]
    {
        let far = Dd::from(f64::from(quarters) * 0.25) + Dd::ONE.mul_pow2(80);
        assert_eq!(far.sin_cos_turns(), (sin, cos));
    }
}
