//! Slots of integers are those of another implementation, Lattigo: encodings, and results of encrypted
//! operations.
//!
//! What Lattigo computes is in `data/lattigo_slots.csv`, which says how it is made again; keys and
//! ciphertexts there were its own. Both put slot `(0, j)` at the power `5^j` of a root of unity, and
//! `(1, j)` at `-5^j`, so vectors, rotations and rows are the same. The root of unity is not: ours is the least, and
//! Lattigo's follows from a generator of the units. Where ours is the `k`-th power of Lattigo's, its
//! plaintexts are ours with `X^k` for `X`.

use crate::examples::integer_slots;

use integer_slots::{ROTATIONS, run};
use sudare::{
    exact::{Modulus, PlainPoly},
    rlwe::GaloisElement,
};

/// The numbers of `what` was done modulo `t` in the ring of degree `2^log_n`.
fn fact(t: u64, log_n: u32, what: &str) -> Vec<u128> {
    let start = format!("{t},{log_n},{what},");
    let mut lines = include_str!("../data/lattigo_slots.csv").lines();
    let numbers = lines.find_map(|line| line.strip_prefix(&start)).unwrap();
    numbers.split(',').map(|number| number.parse().unwrap()).collect()
}

/// The sum of value `i` times `i + 1` modulo `2^61 - 1`, and the first 8 values.
fn summary(values: &[u128]) -> Vec<u128> {
    let sum = values.iter().zip(1..).fold(0, |sum, (value, i)| (sum + value * i) % ((1 << 61) - 1));
    [&[sum][..], &values[..8]].concat()
}

#[test]
fn slots_are_those_of_lattigo() {
    for (t, log_n) in [(12_289, 10), (65_537, 12), (1_099_511_480_321, 12)] {
        let results = run(t, log_n).unwrap();
        assert_eq!(results.len(), 5 + ROTATIONS.len());
        let ((first, coefficients), encrypted) = results.split_first().unwrap();

        let modulus = Modulus::new(t, 1).unwrap();
        let own = modulus.root_of_unity(log_n + 1).unwrap();
        let peer = fact(t, log_n, "root")[0];
        let k = (1..2 << log_n).step_by(2).find(|&k| modulus.pow(peer, k.into()) == own).unwrap();
        let plaintext = PlainPoly::new(modulus, coefficients.clone()).unwrap();
        let image = plaintext.image(GaloisElement(k));
        assert_eq!(summary(image.coeffs()), fact(t, log_n, first), "modulo {t}");

        for (op, slots) in encrypted {
            assert_eq!(summary(slots), fact(t, log_n, op), "{op} modulo {t}");
        }
    }
}
