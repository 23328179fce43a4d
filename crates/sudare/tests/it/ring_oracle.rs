//! Every public operation of `ring` against polynomials over the integers.

use crate::oracle::{
    automorphism, centred, integers, lift, lift_eval, moduli, modulo, primes, product,
    product_coefficient, reduce, reduce_eval, rounded,
};
use num_bigint::BigInt;
use sudare::ring::{BaseConverter, Coeff, Divider, Eval, LimbSet, RnsBasis, RnsPoly};
use sudare_arith::{Modulus, NttTable, Permutation, mem::Secrecy};

/// Primes of every kernel range, in no order.
const CHAIN: [u32; 7] = [50, 30, 61, 45, 48, 55, 30];
const SPECIAL: [u32; 3] = [61, 48, 50];

fn mixed(log_n: u32) -> RnsBasis {
    let all = primes(log_n, &[CHAIN.as_slice(), &SPECIAL].concat());
    let (q, p) = all.split_at(CHAIN.len());
    RnsBasis::new(log_n, q, p).unwrap()
}

/// Rings small enough for every coefficient, and one of several tiles of which
/// some are checked.
const LOG_NS: [u32; 4] = [4, 5, 6, 12];

fn places(n: usize) -> Vec<usize> {
    if n <= 64 { (0..n).collect() } else { vec![0, 1, 5, n / 4, n / 2 - 1, n / 2, n - 1] }
}

fn sets() -> Vec<LimbSet> {
    let all = LimbSet::chain(CHAIN.len()).with_special(SPECIAL.len());
    let upper = LimbSet::range(2..5).with_special(1);
    vec![LimbSet::chain(1), LimbSet::chain(4), LimbSet::chain(2).with_special(2), upper, all]
}

fn assert_congruent(found: &[BigInt], expected: &[BigInt], q: &BigInt, what: &str) {
    assert_eq!(found.len(), expected.len());
    for (k, (x, y)) in found.iter().zip(expected).enumerate() {
        assert_eq!(modulo(x, q), modulo(y, q), "{what}, coefficient {k} of {}", found.len());
    }
}

fn canonical<R: sudare::ring::Repr>(basis: &RnsBasis, a: &RnsPoly<R>) -> bool {
    let primes = moduli(basis, a.limbs());
    a.rows().zip(primes).all(|(row, q)| row.iter().all(|&x| x < q))
}

#[test]
fn sums_equal_integers() {
    for log_n in LOG_NS {
        let basis = mixed(log_n);
        for limbs in sets() {
            let q = product(&moduli(&basis, limbs));
            let [a, b] = [1, 2].map(|salt| integers(&q, basis.n(), salt));
            let zip = |f: fn(&BigInt, &BigInt) -> BigInt| -> Vec<BigInt> {
                a.iter().zip(&b).map(|(a, b)| f(a, b)).collect()
            };
            let [sum, difference] = [zip(|a, b| a + b), zip(|a, b| a - b)];
            let negated: Vec<BigInt> = a.iter().map(|a| -a).collect();
            let [x, y] = [&a, &b].map(|a| reduce(&basis, limbs, a));
            let check = |found: &RnsPoly<Coeff>, expected: &[BigInt], what: &str| {
                assert!(canonical(&basis, found));
                assert_congruent(&lift(&basis, found), expected, &q, what);
            };
            check(&x, &a, "lift");
            check(&basis.add(limbs, &x, &y), &sum, "add");
            check(&basis.sub(limbs, &x, &y), &difference, "sub");
            let mut z = x.clone();
            basis.add_assign(&mut z, &y);
            check(&z, &sum, "add_assign");
            let mut z = x.clone();
            basis.sub_assign(&mut z, &y);
            check(&z, &difference, "sub_assign");
            let mut z = x.clone();
            basis.neg_assign(&mut z);
            check(&z, &negated, "neg_assign");
            check(&basis.zero(limbs), &vec![BigInt::ZERO; basis.n()], "zero");
            // A factor as an integer below the product, from its residues.
            let factor = &q / 7 + 5;
            let residues: Vec<u64> =
                moduli(&basis, limbs).iter().map(|&q| crate::oracle::residue(&factor, q)).collect();
            let scaled: Vec<BigInt> = a.iter().map(|a| a * &factor).collect();
            check(&basis.scale(&x, |i| residues[i]), &scaled, "scale");
        }
    }
}

#[test]
fn lower_levels_are_the_first_limbs() {
    for (log_n, start) in [(4, 0), (12, 0), (5, 1)] {
        let basis = mixed(log_n);
        let high = LimbSet::range(start..6);
        let low = LimbSet::range(start..start + 3);
        let big = product(&moduli(&basis, high));
        let small = product(&moduli(&basis, low));
        let [a, b] = [3, 4].map(|salt| integers(&big, basis.n(), salt));
        let [x, y] = [&a, &b].map(|a| reduce_eval(&basis, high, a));
        let sum: Vec<BigInt> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        let check = |found: &RnsPoly<Eval>, expected: &[BigInt], what: &str| {
            assert_eq!(found.limbs(), low);
            assert_congruent(&lift_eval(&basis, found), expected, &small, what);
        };
        let restricted = basis.restricted(&x, low);
        check(&restricted, &a, "restricted");
        let mut truncated = x.clone();
        truncated.truncate(3);
        check(&truncated, &a, "truncate");
        assert_eq!(truncated.rows().len(), 3);
        assert_eq!(truncated.clone().words_mut().len(), 3 * basis.n());
        check(&basis.add(low, &x, &y), &sum, "add of higher levels");
        check(&basis.add(low, &restricted, &y), &sum, "add of two levels");
        basis.add_assign(&mut truncated, &y);
        check(&truncated, &sum, "add_assign from above");
        basis.sub_assign(&mut truncated, &y);
        check(&truncated, &a, "sub_assign from above");
        let products = negacyclic_at(&a, &b, &[0, basis.n() - 1]);
        let mut z = restricted.clone();
        basis.mul_assign(&mut z, &y);
        for found in [z, basis.mul_sum(low, &[&restricted], &[&y])] {
            let found = lift_eval(&basis, &found);
            for (k, expected) in &products {
                assert_eq!(modulo(&found[*k], &small), modulo(expected, &small));
            }
        }
    }
}

fn negacyclic_at(a: &[BigInt], b: &[BigInt], places: &[usize]) -> Vec<(usize, BigInt)> {
    places.iter().map(|&k| (k, product_coefficient(a, b, k))).collect()
}

#[test]
fn sums_of_products_equal_schoolbook() {
    for log_n in LOG_NS {
        let basis = mixed(log_n);
        let counts: &[usize] = if log_n == 4 { &[1, 2, 3, 15, 16, 31] } else { &[1, 3] };
        for limbs in [LimbSet::chain(2), basis.all()] {
            let q = product(&moduli(&basis, limbs));
            for &count in counts {
                let list = |base: u64| -> Vec<Vec<BigInt>> {
                    (0..count as u64).map(|i| integers(&q, basis.n(), base + i)).collect()
                };
                let a = list(100);
                let b = list(200);
                let eval = |list: &[Vec<BigInt>]| -> Vec<RnsPoly<Eval>> {
                    list.iter().map(|a| reduce_eval(&basis, limbs, a)).collect()
                };
                let x = eval(&a);
                let y = eval(&b);
                let x: Vec<_> = x.iter().collect();
                let y: Vec<_> = y.iter().collect();
                let found = basis.mul_sum(limbs, &x, &y);
                assert!(canonical(&basis, &found));
                let found = lift_eval(&basis, &found);
                for k in places(basis.n()) {
                    let expected: BigInt =
                        a.iter().zip(&b).map(|(a, b)| product_coefficient(a, b, k)).sum();
                    assert_eq!(modulo(&found[k], &q), modulo(&expected, &q), "{count} terms, {k}");
                }
            }
        }
        let q = product(&moduli(&basis, basis.all()));
        let [a, b] = [7, 8].map(|salt| integers(&q, basis.n(), salt));
        let mut z = reduce_eval(&basis, basis.all(), &a);
        basis.mul_assign(&mut z, &reduce_eval(&basis, basis.all(), &b));
        let found = lift_eval(&basis, &z);
        for (k, expected) in negacyclic_at(&a, &b, &places(basis.n())) {
            assert_eq!(modulo(&found[k], &q), modulo(&expected, &q));
        }
    }
}

#[test]
fn small_polynomials_are_what_they_say() {
    for log_n in LOG_NS {
        let basis = mixed(log_n);
        let coeffs: Vec<i8> = (0..basis.n()).map(|k| (k * 7 % 255) as u8 as i8).collect();
        let expected: Vec<BigInt> = coeffs.iter().map(|&c| c.into()).collect();
        for limbs in sets() {
            for secrecy in [Secrecy::Public, Secrecy::Key] {
                let found = basis.from_small(&coeffs, limbs, secrecy);
                assert_eq!(found.secrecy(), secrecy);
                assert_eq!(lift_eval(&basis, &found), expected);
            }
        }
    }
}

#[test]
fn transforms_evaluate_at_odd_powers_of_one_root() {
    for log_n in LOG_NS {
        let basis = mixed(log_n);
        let limbs = basis.all();
        let n = basis.n();
        let q = product(&moduli(&basis, limbs));
        let mut x = vec![BigInt::ZERO; n];
        x[1] = BigInt::from(1);
        let a = integers(&q, n, 9);
        let roots = reduce_eval(&basis, limbs, &x);
        let values = reduce_eval(&basis, limbs, &a);
        assert!(canonical(&basis, &values));
        for i in 0..limbs.count() {
            let m = basis.modulus(limbs, i);
            let psi = roots.row(i)[NttTable::place(log_n, 1)];
            assert_eq!(m.pow(psi, n as u64), m.value() - 1, "a primitive 2N-th root");
            let coeffs: Vec<u64> = a.iter().map(|a| crate::oracle::residue(a, m.value())).collect();
            for place in places(n) {
                let e = NttTable::exponent(log_n, place);
                let at = m.pow(psi, e as u64);
                assert_eq!(roots.row(i)[place], at);
                let value = coeffs.iter().rev().fold(0, |sum, &c| m.add(m.mul(sum, at), c));
                assert_eq!(values.row(i)[place], value);
            }
        }
        assert_congruent(&lift_eval(&basis, &values), &a, &q, "there and back");
    }
}

#[test]
fn permutations_are_automorphisms() {
    for log_n in LOG_NS {
        let basis = mixed(log_n);
        let limbs = LimbSet::chain(3).with_special(1);
        let n = basis.n();
        let q = product(&moduli(&basis, limbs));
        let a = integers(&q, n, 10);
        let x = reduce_eval(&basis, limbs, &a);
        let elements: Vec<usize> = if n <= 32 {
            (1..2 * n).step_by(2).collect()
        } else {
            vec![1, 3, 5, 25, n + 1, 2 * n - 1]
        };
        for g in elements {
            let permutation = Permutation::galois(log_n, g);
            let found = basis.automorphism(&x, &permutation);
            assert_congruent(&lift_eval(&basis, &found), &automorphism(&a, g), &q, "automorphism");
            let twice = basis.automorphism(&found, &Permutation::galois(log_n, 5));
            let once = Permutation::galois(log_n, 5 * g % (2 * n));
            let once = basis.automorphism(&x, &once);
            assert!(twice.rows().eq(once.rows()), "X -> X^{g} and then X -> X^5");
        }
    }
}

/// `y_i = a (Q / q_i)^-1 mod q_i`, a row for each source prime.
fn prepared(converter: &BaseConverter, from: &[Modulus], a: &[BigInt]) -> Vec<Vec<u64>> {
    from.iter()
        .enumerate()
        .map(|(i, m)| {
            let mut row: Vec<u64> =
                a.iter().map(|a| crate::oracle::residue(a, m.value())).collect();
            m.scale_assign(&mut row, converter.inverse(i));
            row
        })
        .collect()
}

/// `q / 2` and what is next to it on both sides, and multiples of a unit in the
/// last place of short fractions.
fn near_half(q: &BigInt) -> Vec<BigInt> {
    let mut list: Vec<BigInt> = (-6..=6).map(|d| q / 2 + d).collect();
    for units in 1..=40 {
        let step: BigInt = (q * units) >> 58;
        list.extend([q / 2 - &step, q / 2 + &step]);
    }
    list.into_iter().map(|x| modulo(&x, q)).collect()
}

#[test]
fn base_conversion_keeps_the_integer_next_to_zero() {
    let log_n = 4;
    let sizes: Vec<Vec<u32>> = vec![
        vec![30],
        vec![61],
        vec![30, 61],
        vec![50, 30, 61, 45, 48, 55],
        vec![48; 15],
        vec![50; 15],
        vec![51; 12],
        vec![52; 15],
        vec![61; 16],
        vec![45; 17],
        vec![60; 40],
        vec![30; 255],
    ];
    let to = primes(log_n, &[30, 45, 48, 49, 50, 55, 61, 20]);
    for bits in sizes {
        let from = primes(log_n, &bits);
        let q = product(&from);
        // As in raising digits, the sources are among the targets.
        let to: Vec<u64> = to.iter().chain(&from[..1]).copied().collect();
        let [from, to] = [from, to]
            .map(|list| list.iter().map(|&q| Modulus::new(q).unwrap()).collect::<Vec<_>>());
        let mut a = integers(&q, 200, 11);
        a.extend(near_half(&q));
        // Every y_i is as large as possible.
        let others = from.iter().map(|m| &q / m.value());
        a.push(modulo(&-others.sum::<BigInt>(), &q));
        let converter = BaseConverter::new(&from, &to);
        let y = prepared(&converter, &from, &a);
        let mut out = vec![vec![0; a.len()]; to.len()];
        let rows = out.iter_mut().map(Vec::as_mut_slice).enumerate();
        converter.convert(y.iter().map(Vec::as_slice), rows);
        for (m, out) in to.iter().zip(&out) {
            for (x, a) in out.iter().zip(&a) {
                assert_eq!(
                    *x,
                    crate::oracle::residue(&centred(a, &q), m.value()),
                    "{}",
                    from.len()
                );
            }
        }
    }
}

/// Integers in `[0, q)` on both sides of the ties of multiplication by `to / q`.
fn near_ties(q: &BigInt, to: &BigInt, len: usize) -> Vec<BigInt> {
    let tie = |(k, below): (usize, &BigInt)| q * (2 * below + 1) / (2 * to) + k % 4 - 1;
    integers(to, len, 12).iter().enumerate().map(tie).collect()
}

fn check_division(basis: &RnsBasis, divider: &Divider, before: LimbSet, after: LimbSet) {
    let [q, to] = [before, after].map(|limbs| product(&moduli(basis, limbs)));
    let a = near_ties(&q, &to, basis.n());
    let b = integers(&q, basis.n(), 13);
    let found =
        divider.divide(basis, [&reduce_eval(basis, before, &a), &reduce_eval(basis, before, &b)]);
    for (found, a) in found.iter().zip([&a, &b]) {
        assert_eq!(found.limbs(), after);
        assert!(canonical(basis, found));
        let expected: Vec<BigInt> = a.iter().map(|a| rounded(&(a * &to), &q)).collect();
        let what = format!("{before:?} to {after:?}");
        assert_congruent(&lift_eval(basis, found), &expected, &to, &what);
        // The choice of a negative representative changes nothing.
        let below: Vec<BigInt> = a.iter().map(|a| rounded(&((a - &q) * &to), &q)).collect();
        assert_congruent(&expected, &below, &to, "other representative");
    }
}

#[test]
fn division_rounds_to_the_nearest_everywhere() {
    for log_n in LOG_NS {
        let basis = mixed(log_n);
        let all = basis.all();
        for (before, after) in [
            (LimbSet::chain(7), LimbSet::chain(6)),
            (LimbSet::chain(7), LimbSet::chain(5)),
            (LimbSet::chain(2), LimbSet::chain(1)),
            (LimbSet::chain(4).with_special(3), LimbSet::chain(3)),
            (LimbSet::chain(7).with_special(1), LimbSet::chain(1)),
            (all, LimbSet::chain(6)),
            (all, LimbSet::chain(1)),
            (LimbSet::range(2..6).with_special(1), LimbSet::range(2..4)),
            // To new primes: fewer, more, with a product of the same size or larger.
            (LimbSet::range(2..5), LimbSet::chain(2)),
            (LimbSet::range(3..7).with_special(3), LimbSet::chain(3)),
            (LimbSet::range(4..5), LimbSet::chain(2)),
            (LimbSet::range(5..7), LimbSet::chain(5)),
        ] {
            check_division(&basis, &Divider::new(&basis, before, after), before, after);
        }
        // A table for the whole chain divides by the special primes at every level.
        let divider = Divider::new(&basis, all, LimbSet::chain(all.q()));
        for limbs in (1..=all.q()).map(LimbSet::chain) {
            check_division(&basis, &divider, limbs.with_special(all.p()), limbs);
        }
    }
}
