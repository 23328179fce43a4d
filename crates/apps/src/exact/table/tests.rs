use super::*;
use crate::exact::{Scheme, Setting, encrypt_within, plan, tests::Session};
use core::ops::RangeInclusive;
use std::sync::LazyLock;
use sudare::{
    Error,
    exact::{Params, Spec},
};

/// 256 slots modulo 7681, and levels for the comparison of bytes and a selection.
static SESSIONS: LazyLock<[Session; 2]> = LazyLock::new(|| {
    [Scheme::Bgv, Scheme::Bfv].map(|scheme| {
        let choice = plan(7681, 11).unwrap();
        let spec = Spec { log_n: 8, insecure: true, ..choice.spec };
        Session::of(Setting::new(Params::new(spec).unwrap(), scheme, true).unwrap())
    })
});

fn within(s: &Session, values: Vec<i64>, range: RangeInclusive<i64>) -> IntegerArray {
    let plain = PlainIntegers::new(&[values.len()], values);
    let range = IntegerRange { low: *range.start(), high: *range.end() };
    encrypt_within(&s.encryptor, &s.setting, &plain, range).unwrap()
}

fn ends(a: &IntegerArray) -> (i64, i64) {
    (a.range().low, a.range().high)
}

type Holds = fn(i64, i64) -> bool;

const COMPARISONS: [(Comparison, Holds); 6] = [
    (Comparison::Less, |a, b| a < b),
    (Comparison::LessEqual, |a, b| a <= b),
    (Comparison::Greater, |a, b| a > b),
    (Comparison::GreaterEqual, |a, b| a >= b),
    (Comparison::Equal, |a, b| a == b),
    (Comparison::NotEqual, |a, b| a != b),
];

#[test]
fn tables_are_read_on_the_known_range() {
    for s in SESSIONS.iter() {
        let e = &s.engine;
        let values: Vec<i64> = (-20..=100).collect();
        let x = within(s, values.clone(), -20..=100);
        let functions = [
            values.iter().map(|x| x.rem_euclid(7)).collect::<Vec<_>>(),
            values.iter().map(|x| (x * x) % 3000 - 5).collect(),
            vec![9; 121],
            values.iter().map(|&x| i64::from(x == -20) * 7600).collect(),
        ];
        let found = e.tables(&x, &functions).unwrap();
        for (y, f) in found.iter().zip(&functions) {
            s.expect(y, &[121], |i| f[i].into());
        }
        assert_eq!(found.iter().map(ends).collect::<Vec<_>>()[..3], [(0, 6), (-5, 2924), (9, 9)]);
        // 7600 is reduced to -81.
        assert_eq!(ends(&found[3]), (-3840, 3840));
        // Padding is summed as zero, whatever the table has at 0.
        let total: i64 = functions[1].iter().sum();
        s.expect(&e.sum(&found[1]).unwrap(), &[], |_| total.into());

        let short = e.tables(&x, &[vec![0; 120]]).unwrap_err();
        assert!(short.to_string().contains("120 values"), "{short}");
        assert!(short.to_string().contains("from -20 to 100"), "{short}");
        let wide = within(s, values, -3840..=3840);
        let refused = e.tables(&wide, &[vec![0; 7681]]).unwrap_err();
        assert!(matches!(refused, ArrayError::TableRange { count: 7681, most: 4096, .. }));
        let beyond = e.tables(&x, &[vec![7681; 121]]).unwrap_err();
        assert!(matches!(beyond, ArrayError::Library(Error::ValueOutOfRange { .. })), "{beyond}");
    }
}

#[test]
fn encrypted_operands_are_compared() {
    for s in SESSIONS.iter() {
        let a: Vec<i64> = (0..240).map(|i| i * 37 % 256).collect();
        let b: Vec<i64> = (0..240).map(|i| if i % 3 == 0 { a[i as usize] } else { i }).collect();
        let x = Operand::Encrypted(within(s, a.clone(), 0..=255));
        let y = Operand::Encrypted(within(s, b.clone(), 0..=255));
        for (comparison, holds) in COMPARISONS {
            let found = s.engine.compare(&x, comparison, &y).unwrap();
            s.expect(&found, &[240], |i| holds(a[i], b[i]).into());
            assert_eq!(ends(&found), (0, 1));
        }
        let smaller = s.engine.compare(&x, Comparison::Less, &y).unwrap();
        let found = s.engine.select(&smaller, &x, &y).unwrap();
        s.expect(&found, &[240], |i| a[i].min(b[i]).into());
        assert_eq!(ends(&found), (0, 255));
    }
}

#[test]
fn constants_are_compared_at_every_place() {
    let s = &SESSIONS[0];
    let values: Vec<i64> = (-3..=4).collect();
    let x = within(s, values.clone(), -3..=4);
    let encrypted = Operand::Encrypted(x.clone());
    for c in [-7681 * 9, -5, -4, -3, -2, 0, 3, 4, 5, 6, i64::MAX, i64::MIN] {
        let scalar = Operand::Plain(PlainIntegers::scalar(c));
        for (comparison, holds) in COMPARISONS {
            let found = s.engine.compare(&encrypted, comparison, &scalar).unwrap();
            s.expect(&found, &[8], |i| holds(values[i], c).into());
            assert!(x.level().0 - found.level().0 <= 4, "{found:?}");
            let found = s.engine.compare(&scalar, comparison, &encrypted).unwrap();
            s.expect(&found, &[8], |i| holds(c, values[i]).into());
        }
    }
    let row: Vec<i64> = vec![-9, -3, -2, 0, 0, 2, 3, 99_999];
    let plain = Operand::Plain(PlainIntegers::new(&[8], row.clone()));
    for (comparison, holds) in COMPARISONS {
        let found = s.engine.compare(&encrypted, comparison, &plain).unwrap();
        s.expect(&found, &[8], |i| holds(values[i], row[i]).into());
        let found = s.engine.compare(&plain, comparison, &encrypted).unwrap();
        s.expect(&found, &[8], |i| holds(row[i], values[i]).into());
    }
    let refused = s.engine.compare(&plain, Comparison::Less, &plain).unwrap_err();
    assert!(matches!(refused, ArrayError::Argument { .. }), "{refused}");
}

#[test]
fn masks_select_from_any_operands() {
    let s = &SESSIONS[0];
    let a: Vec<i64> = vec![5, -6, 7, 8];
    let b: Vec<i64> = vec![100, 200, 300, 400];
    let mask = within(s, vec![1, 0, 0, 1], 0..=1);
    let [x, y] = [&a, &b].map(|v| Operand::Encrypted(within(s, v.clone(), -1000..=1000)));
    let [p, q] = [&a, &b].map(|v| Operand::Plain(PlainIntegers::new(&[4], v.clone())));
    for (left, right) in [(&x, &y), (&x, &q), (&p, &y), (&p, &q)] {
        let found = s.engine.select(&mask, left, right).unwrap();
        s.expect(&found, &[4], |i| if [0, 3].contains(&i) { a[i] } else { b[i] }.into());
    }
    let found = s.engine.select(&mask, &p, &q).unwrap();
    assert_eq!(ends(&found), (-6, 400));
    let Operand::Encrypted(x) = x else { return };
    let refused = s.engine.select(&x, &p, &q).unwrap_err();
    assert!(refused.to_string().contains("from -1000 to 1000"), "{refused}");
}

/// Differences modulo `t` do not tell which of two elements is larger, if they can be too large.
#[test]
fn ambiguous_differences_are_refused() {
    let spec = Spec { insecure: true, ..plan(257, 11).unwrap().spec };
    let params = Params::new(Spec { log_n: 7, ..spec }).unwrap();
    let s = Session::of(Setting::new(params, Scheme::Bgv, true).unwrap());
    let a: Vec<i64> = vec![-128, 128, 0, 60, -60];
    let b: Vec<i64> = vec![128, -128, 0, -60, -60];
    let [x, y] = [&a, &b].map(|v| Operand::Encrypted(within(&s, v.clone(), -128..=128)));
    let refused = s.engine.compare(&x, Comparison::Less, &y).unwrap_err();
    assert!(matches!(refused, ArrayError::TableRange { count: 513, most: 257, .. }), "{refused}");
    // Equality is not ambiguous.
    let found = s.engine.compare(&x, Comparison::Equal, &y).unwrap();
    s.expect(&found, &[5], |i| (a[i] == b[i]).into());
    let [x, y] =
        [&a, &b].map(|v| v[2..].to_vec()).map(|v| Operand::Encrypted(within(&s, v, -64..=64)));
    let found = s.engine.compare(&x, Comparison::Greater, &y).unwrap();
    s.expect(&found, &[3], |i| (a[i + 2] > b[i + 2]).into());
}

#[test]
fn ranges_follow_operations() {
    let s = &SESSIONS[0];
    let e = &s.engine;
    let x = within(s, vec![1, 2, 3], -2..=10);
    let y = within(s, vec![7, 8, 9], 0..=20);
    let plain = PlainIntegers::new(&[3], vec![-1, 0, 5]);
    assert_eq!(ends(&e.add(&x, &y).unwrap()), (-2, 30));
    assert_eq!(ends(&e.sub(&x, &y).unwrap()), (-22, 10));
    assert_eq!(ends(&e.neg(&x).unwrap()), (-10, 2));
    assert_eq!(ends(&e.mul(&x, &y).unwrap()), (-40, 200));
    assert_eq!(ends(&e.mul(&x, &x).unwrap()), (0, 100));
    assert_eq!(ends(&e.power(&x, 3).unwrap()), (-8, 1000));
    assert_eq!(ends(&e.power(&x, 4).unwrap()), (-3840, 3840));
    assert_eq!(ends(&e.add_plain(&x, &plain).unwrap()), (-3, 15));
    assert_eq!(ends(&e.add_plain(&x, &PlainIntegers::scalar(9)).unwrap()), (7, 19));
    assert_eq!(ends(&e.mul_plain_array(&x, &plain).unwrap()), (-10, 50));
    assert_eq!(ends(&e.mul_plain_array(&x, &PlainIntegers::scalar(-3)).unwrap()), (-30, 6));
    assert_eq!(ends(&e.sum(&x).unwrap()), (-6, 30));
    let matrix = PlainIntegers::new(&[2, 3], vec![1, 1, -1, 0, 2, 0]);
    assert_eq!(ends(&e.matmul_left(&matrix, &x).unwrap()), (-14, 22));
    let matrix = PlainIntegers::new(&[3, 2], vec![1, 0, 1, 2, -1, 0]);
    assert_eq!(ends(&e.matmul_right(&x, &matrix).unwrap()), (-14, 22));
    let row = PlainIntegers::new(&[3], vec![1, 2, -1]);
    assert_eq!(ends(&e.matmul_left(&row, &x).unwrap()), (-16, 32));
    assert_eq!(ends(&e.matmul_right(&x, &row).unwrap()), (-16, 32));
    assert_eq!(ends(&e.polynomial(&x, &[1, 2]).unwrap()), (-3840, 3840));
    assert_eq!(ends(&x.reshaped(&[3, 1]).unwrap()), (-2, 10));
    // Results that may be reduced have the range of the modulus.
    let big = within(s, vec![3000], 0..=3000);
    assert_eq!(ends(&e.add(&big, &big).unwrap()), (-3840, 3840));

    // Data are rounded outward, and within the range of the modulus.
    assert_eq!(ends(&s.encrypt(&PlainIntegers::new(&[3], vec![-5, 0, 200]))), (-8, 255));
    assert_eq!(ends(&s.encrypt(&PlainIntegers::new(&[1], vec![3000]))), (0, 3840));
    let promised = |low, high| x.within(&s.setting, IntegerRange { low, high });
    assert_eq!(promised(0, 3).map(|x| ends(&x)).unwrap(), (0, 3));
    assert_eq!(promised(-50, 3).map(|x| ends(&x)).unwrap(), (-2, 3));
    for (low, high) in [(11, 20), (3, 2), (0, 7680)] {
        assert!(matches!(promised(low, high), Err(ArrayError::Argument { .. })), "{low}");
    }
    let outside = PlainIntegers::new(&[2], vec![3, 11]);
    let range = IntegerRange { low: 0, high: 10 };
    let refused = encrypt_within(&s.encryptor, &s.setting, &outside, range).unwrap_err();
    assert!(matches!(refused, ArrayError::OutsideIntegers { index: 1, value: 11, .. }));
}

#[test]
fn elements_of_any_size_are_equal_by_a_power() {
    let set = crate::exact::bootstrapping_set("n15-t65537-boot", Some(8)).unwrap();
    let params = Params::new(set.preset.spec).unwrap();
    let s = Session::of(Setting::named("n15-t65537-boot", params, Scheme::Bgv, true).unwrap());
    let a: Vec<i64> = vec![-32768, 32768, 5, 0];
    let b: Vec<i64> = vec![-32768, -32768, 5, 1];
    let [x, y] = [&a, &b].map(|v| Operand::Encrypted(within(&s, v.clone(), -32768..=32768)));
    for (comparison, equal) in [(Comparison::Equal, true), (Comparison::NotEqual, false)] {
        let found = s.engine.compare(&x, comparison, &y).unwrap();
        s.expect(&found, &[4], |i| ((a[i] == b[i]) == equal).into());
        assert_eq!(ends(&found), (0, 1));
        let five = Operand::Plain(PlainIntegers::scalar(5));
        let found = s.engine.compare(&x, comparison, &five).unwrap();
        s.expect(&found, &[4], |i| ((a[i] == 5) == equal).into());
    }
    let refused = s.engine.compare(&x, Comparison::Less, &y).unwrap_err();
    assert!(matches!(refused, ArrayError::TableRange { .. }), "{refused}");
    // A table of 128 integers uses all seven levels, and elements are bootstrapped before.
    let low = s.engine.power(&within(&s, vec![3, 4, 5], 0..=127), 2).unwrap();
    let low = low.within(&s.setting, IntegerRange { low: 0, high: 127 }).unwrap();
    let f: Vec<i64> = (0..128).map(|x| x % 5).collect();
    let found = s.engine.tables(&low, core::slice::from_ref(&f)).unwrap();
    s.expect(&found[0], &[3], |i| f[[9, 16, 25][i]].into());
    assert!(s.engine.bootstraps() > 0);
}
