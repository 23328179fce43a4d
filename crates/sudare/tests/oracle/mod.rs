//! Polynomials over the integers: what residues stand for.
#![allow(dead_code, reason = "each test uses a part")]

use num_bigint::BigInt;
use sudare::ring::{Coeff, Eval, LimbSet, RnsBasis, RnsPoly};
use sudare_arith::{
    previous_prime,
    prng::{Seed, Stream},
};

pub fn stream(label: &str, index: u64) -> Stream {
    Stream::new(&Seed::from_bytes([3; 32]), label, index)
}

/// Distinct primes `1 mod 2N`, the largest free ones of the sizes in bits.
pub fn primes(log_n: u32, bits: &[u32]) -> Vec<u64> {
    let mut found: Vec<u64> = Vec::new();
    for &bits in bits {
        let mut end = 1 << bits;
        loop {
            let prime = previous_prime(end, 2 << log_n).unwrap();
            if !found.contains(&prime) {
                found.push(prime);
                break;
            }
            end = prime;
        }
    }
    found
}

pub fn product(primes: &[u64]) -> BigInt {
    primes.iter().fold(BigInt::from(1), |product, &q| product * q)
}

/// `a mod m` in `[0, m)`.
pub fn modulo(a: &BigInt, m: &BigInt) -> BigInt {
    let r = a % m;
    if r < BigInt::ZERO { r + m } else { r }
}

/// `a mod m` in `(-m/2, m/2)`, for an odd `m`.
pub fn centred(a: &BigInt, m: &BigInt) -> BigInt {
    let r = modulo(a, m);
    if &r * 2 > *m { r - m } else { r }
}

/// The nearest integer to `a / d`, for an odd `d > 0`: there are no ties.
pub fn rounded(a: &BigInt, d: &BigInt) -> BigInt {
    let twice: BigInt = a * 2 + d;
    let d2: BigInt = d * 2;
    (&twice - modulo(&twice, &d2)) / d2
}

pub fn residue(a: &BigInt, q: u64) -> u64 {
    u64::try_from(modulo(a, &BigInt::from(q))).unwrap()
}

pub fn to_f64(a: &BigInt) -> f64 {
    a.to_string().parse().unwrap()
}

/// The primes of `limbs`.
pub fn moduli(basis: &RnsBasis, limbs: LimbSet) -> Vec<u64> {
    basis.tables(limbs).map(|t| t.modulus().value()).collect()
}

/// The polynomial with these integer coefficients.
pub fn reduce(basis: &RnsBasis, limbs: LimbSet, a: &[BigInt]) -> RnsPoly<Coeff> {
    let mut out: RnsPoly<Coeff> = basis.take(limbs);
    for (row, q) in out.rows_mut().zip(moduli(basis, limbs)) {
        for (x, a) in row.iter_mut().zip(a) {
            *x = residue(a, q);
        }
    }
    out
}

/// Same as [`reduce`], transformed.
pub fn reduce_eval(basis: &RnsBasis, limbs: LimbSet, a: &[BigInt]) -> RnsPoly<Eval> {
    basis.into_eval(reduce(basis, limbs, a))
}

/// The coefficients in `(-Q/2, Q/2)`, by the Chinese remainder theorem.
pub fn lift(basis: &RnsBasis, a: &RnsPoly<Coeff>) -> Vec<BigInt> {
    let primes = moduli(basis, a.limbs());
    let q = product(&primes);
    let units: Vec<BigInt> = primes
        .iter()
        .map(|&p| {
            let others = &q / p;
            let inverse = others.modpow(&BigInt::from(p - 2), &BigInt::from(p));
            others * inverse
        })
        .collect();
    (0..basis.n())
        .map(|k| {
            let sum: BigInt = a.rows().zip(&units).map(|(row, unit)| unit * row[k]).sum();
            centred(&sum, &q)
        })
        .collect()
}

/// Same as [`lift`], of evaluations.
pub fn lift_eval(basis: &RnsBasis, a: &RnsPoly<Eval>) -> Vec<BigInt> {
    lift(basis, &basis.into_coeff(a.clone()))
}

/// Coefficient `k` of the product modulo `X^N + 1`.
pub fn product_coefficient(a: &[BigInt], b: &[BigInt], k: usize) -> BigInt {
    let n = a.len();
    (0..n).map(|i| if i <= k { &a[i] * &b[k - i] } else { -(&a[i] * &b[n + k - i]) }).sum()
}

/// The product modulo `X^N + 1`.
pub fn negacyclic(a: &[BigInt], b: &[BigInt]) -> Vec<BigInt> {
    (0..a.len()).map(|k| product_coefficient(a, b, k)).collect()
}

/// `a(X^g)` modulo `X^N + 1`.
pub fn automorphism(a: &[BigInt], g: usize) -> Vec<BigInt> {
    let n = a.len();
    let mut out = vec![BigInt::ZERO; n];
    for (i, x) in a.iter().enumerate() {
        let k = i * g % (2 * n);
        out[k % n] = if k < n { x.clone() } else { -x };
    }
    out
}

/// Integers in `[0, q)`: the edges 0, 1, `q - 1`, both sides of `q / 2`, and then
/// at random.
pub fn integers(q: &BigInt, len: usize, salt: u64) -> Vec<BigInt> {
    let mut stream = stream("oracle integers", salt);
    let words = (q.bits() as usize).div_ceil(64) + 1;
    let edges = [BigInt::ZERO, BigInt::from(1), q - 1, q / 2, q / 2 + 1];
    (0..len)
        .map(|k| match edges.get((k + salt as usize) % 23) {
            Some(edge) => edge.clone(),
            None => {
                let random = (0..words).fold(BigInt::ZERO, |x, _| (x << 64) + stream.next_u64());
                modulo(&random, q)
            }
        })
        .collect()
}
