//! The secret primes of a small instance, computed from public values by lattice reduction.
//!
//! Numbers are those of the publication, but four slots: `eta` 192, `rho` 52, and `gamma` in the same
//! proportion to `2 eta l`. What it takes is `x_0` and encryptions of zero, which the publication's
//! public key is made of. `docs/explain/integers-security.md` explains it.

use num_bigint::{BigInt, BigUint, Sign};
use sudare_arith::prng::{Seed, Stream};

const SLOTS: usize = 4;
const ETA: u32 = 192;
const RHO: u32 = 52;
/// `gamma / (2 eta l)` of the publication.
const GAMMA: u32 = (1.979 * 2.0 * ETA as f64 * SLOTS as f64) as u32;

/// A key pair of its own, so that the attack shares no code with what it attacks.
struct Victim {
    primes: Vec<BigInt>,
    modulus: BigInt,
    /// Unit vectors of the Chinese remainders, that of the cofactor last.
    basis: Vec<BigInt>,
    cofactor: BigInt,
    stream: Stream,
}

impl Victim {
    fn new() -> Self {
        let mut stream = Stream::new(&Seed::from_bytes([9; 32]), "victim", 0);
        let primes: Vec<BigInt> = (0..SLOTS).map(|_| prime(&mut stream)).collect();
        let squares: BigInt = primes.iter().map(|p| p * p).product();
        let cofactor = random(u64::from(GAMMA) - squares.bits(), &mut stream) | BigInt::from(1);
        let modulus = &squares * &cofactor;
        let parts = primes.iter().map(|p| p * p).chain([cofactor.clone()]);
        let basis = parts.map(|part| {
            let others = &modulus / &part;
            let inverse = (&others % &part).modinv(&part).unwrap();
            others * inverse
        });
        Self { basis: basis.collect(), primes, modulus, cofactor, stream }
    }

    /// A ciphertext of zero: small modulo every `p_j^2`.
    fn zero(&mut self) -> BigInt {
        let mut sum = BigInt::ZERO;
        for unit in &self.basis[..SLOTS] {
            sum += unit * (random(u64::from(RHO) + 1, &mut self.stream) - (BigInt::from(1) << RHO));
        }
        sum += &self.basis[SLOTS] * random(self.cofactor.bits() + 64, &mut self.stream);
        modulo(&sum, &self.modulus)
    }
}

fn random(bits: u64, stream: &mut Stream) -> BigInt {
    let mut words = vec![0; bits.div_ceil(64) as usize];
    stream.fill(&mut words);
    let words: Vec<u32> = words.iter().flat_map(|&w: &u64| [w as u32, (w >> 32) as u32]).collect();
    BigInt::from(BigUint::new(words)) >> (bits.div_ceil(64) * 64 - bits)
}

fn prime(stream: &mut Stream) -> BigInt {
    let two = BigInt::from(2);
    loop {
        let p = random(ETA.into(), stream) | (BigInt::from(1) << (ETA - 1)) | BigInt::from(1);
        // Fermat's test to the base 2 is enough for a random number.
        if two.modpow(&(&p - 1), &p) == BigInt::from(1) {
            return p;
        }
    }
}

fn modulo(a: &BigInt, m: &BigInt) -> BigInt {
    let rest = a % m;
    if rest.sign() == Sign::Minus { rest + m } else { rest }
}

/// Lenstra, Lenstra and Lovasz's reduction of a basis, `delta = 3/4`, in integers: Cohen, "A course in
/// computational algebraic number theory", algorithm 2.6.7.
fn reduce(b: &mut [Vec<BigInt>]) {
    let n = b.len();
    let dot = |a: &[BigInt], b: &[BigInt]| -> BigInt { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    // d[i + 1] is the determinant of the Gram matrix of the first i + 1 vectors.
    let mut d = vec![BigInt::from(1); n + 1];
    let mut lambda = vec![vec![BigInt::ZERO; n]; n];
    let orthogonalise =
        |k: usize, b: &[Vec<BigInt>], d: &mut [BigInt], lambda: &mut [Vec<BigInt>]| {
            for j in 0..=k {
                let mut u = dot(&b[k], &b[j]);
                for i in 0..j {
                    u = (&d[i + 1] * &u - &lambda[k][i] * &lambda[j][i]) / &d[i];
                }
                if j < k { lambda[k][j] = u } else { d[k + 1] = u }
            }
        };
    let subtract =
        |k: usize, l: usize, b: &mut [Vec<BigInt>], d: &[BigInt], lambda: &mut [Vec<BigInt>]| {
            let top = &lambda[k][l];
            let bottom = &d[l + 1];
            if (top.magnitude() << 1u32) <= *bottom.magnitude() {
                return;
            }
            // The nearest integer.
            let doubled = bottom << 1u32;
            let q = (modulo_div(&((top << 1u32) + bottom), &doubled)).clone();
            let (low, high) = b.split_at_mut(k);
            high[0].iter_mut().zip(&low[l]).for_each(|(x, y)| *x -= &q * y);
            let (low, high) = lambda.split_at_mut(k);
            high[0][l] -= &q * &d[l + 1];
            (0..l).for_each(|i| high[0][i] -= &q * &low[l][i]);
        };
    orthogonalise(0, b, &mut d, &mut lambda);
    let mut k = 1;
    let mut known = 0;
    while k < n {
        if k > known {
            known = k;
            orthogonalise(k, b, &mut d, &mut lambda);
        }
        subtract(k, k - 1, b, &d, &mut lambda);
        let square = &lambda[k][k - 1] * &lambda[k][k - 1];
        if (&d[k + 1] * &d[k - 1] + &square) << 2u32 < &d[k] * &d[k] * 3 {
            b.swap(k, k - 1);
            let (low, high) = lambda.split_at_mut(k);
            low[k - 1][..k - 1].swap_with_slice(&mut high[0][..k - 1]);
            let l = lambda[k][k - 1].clone();
            let new = (&d[k - 1] * &d[k + 1] + &l * &l) / &d[k];
            for row in &mut lambda[k + 1..=known] {
                let t = row[k].clone();
                row[k] = (&d[k + 1] * &row[k - 1] - &l * &t) / &d[k];
                row[k - 1] = (&new * &t + &l * &row[k]) / &d[k + 1];
            }
            d[k] = new;
            k = (k - 1).max(1);
        } else {
            for l in (0..k - 1).rev() {
                subtract(k, l, b, &d, &mut lambda);
            }
            k += 1;
        }
    }
}

/// `floor(a / b)` for positive `b`.
fn modulo_div(a: &BigInt, b: &BigInt) -> BigInt {
    (a - modulo(a, b)) / b
}

/// A basis of what is orthogonal to the rows modulo a prime.
fn orthogonal(mut rows: Vec<Vec<BigInt>>, p: &BigInt) -> Vec<Vec<BigInt>> {
    let columns = rows[0].len();
    let mut pivots = Vec::new();
    for column in 0..columns {
        let done = pivots.len();
        let Some(pivot) = (done..rows.len()).find(|&i| rows[i][column] != BigInt::ZERO) else {
            continue;
        };
        rows.swap(done, pivot);
        let inverse = rows[done][column].modinv(p).unwrap();
        rows[done].iter_mut().for_each(|x| *x = modulo(&(&*x * &inverse), p));
        let scaled = rows[done].clone();
        for (i, row) in rows.iter_mut().enumerate() {
            let factor = row[column].clone();
            if i != done && factor != BigInt::ZERO {
                row.iter_mut().zip(&scaled).for_each(|(x, y)| *x = modulo(&(&*x - &factor * y), p));
            }
        }
        pivots.push(column);
        if pivots.len() == rows.len() {
            break;
        }
    }
    (0..columns)
        .filter(|column| !pivots.contains(column))
        .map(|free| {
            let mut vector = vec![BigInt::ZERO; columns];
            vector[free] = BigInt::from(1);
            for (row, &pivot) in rows.iter().zip(&pivots) {
                vector[pivot] = modulo(&-&row[free], p);
            }
            vector
        })
        .collect()
}

/// `A^-1 B` modulo a prime.
fn solved(a: &[Vec<BigInt>], b: &[Vec<BigInt>], p: &BigInt) -> Vec<Vec<BigInt>> {
    let n = a.len();
    let mut rows: Vec<Vec<BigInt>> =
        a.iter().zip(b).map(|(a, b)| a.iter().chain(b).cloned().collect()).collect();
    for column in 0..n {
        let pivot = (column..n).find(|&i| rows[i][column] != BigInt::ZERO).unwrap();
        rows.swap(column, pivot);
        let inverse = rows[column][column].modinv(p).unwrap();
        rows[column].iter_mut().for_each(|x| *x = modulo(&(&*x * &inverse), p));
        let scaled = rows[column].clone();
        for (i, row) in rows.iter_mut().enumerate() {
            let factor = row[column].clone();
            if i != column {
                row.iter_mut().zip(&scaled).for_each(|(x, y)| *x = modulo(&(&*x - &factor * y), p));
            }
        }
    }
    rows.into_iter().map(|row| row[n..].to_vec()).collect()
}

type Polynomial = Vec<BigInt>;

/// The characteristic polynomial modulo a prime, from the highest coefficient, by Faddeev and
/// Leverrier's method.
fn characteristic(m: &[Vec<BigInt>], p: &BigInt) -> Polynomial {
    let n = m.len();
    let mut coefficients = vec![BigInt::from(1)];
    let mut power = vec![vec![BigInt::ZERO; n]; n];
    for k in 1..=n {
        for (i, row) in power.iter_mut().enumerate() {
            row[i] += coefficients.last().unwrap();
        }
        let product: Vec<Vec<BigInt>> = (0..n)
            .map(|i| {
                let entry = |j| modulo(&(0..n).map(|l| &m[i][l] * &power[l][j]).sum(), p);
                (0..n).map(entry).collect()
            })
            .collect();
        power = product;
        let trace: BigInt = (0..n).map(|i| &power[i][i]).sum();
        coefficients.push(modulo(&(-trace * BigInt::from(k).modinv(p).unwrap()), p));
    }
    coefficients
}

/// What is left of `a` modulo `b`, both from the highest coefficient.
fn remainder(mut a: Polynomial, b: &Polynomial, p: &BigInt) -> Polynomial {
    let inverse = b[0].modinv(p).unwrap();
    while a.len() >= b.len() {
        let factor = &a[0] * &inverse;
        for (x, y) in a.iter_mut().zip(b) {
            *x = modulo(&(&*x - &factor * y), p);
        }
        a.remove(0);
    }
    let zeros = a.iter().take_while(|x| **x == BigInt::ZERO).count();
    a.split_off(zeros)
}

fn common_divisor(mut a: Polynomial, mut b: Polynomial, p: &BigInt) -> Polynomial {
    while !b.is_empty() {
        (a, b) = (b.clone(), remainder(a, &b, p));
    }
    a
}

/// The roots of a polynomial that is a product of different linear factors: those of its common
/// divisor with `(X + s)^((p - 1) / 2) - 1` and of the rest, for random `s`.
fn roots(f: &Polynomial, p: &BigInt, stream: &mut Stream) -> Vec<BigInt> {
    match f.len() {
        0 | 1 => return Vec::new(),
        2 => return vec![modulo(&(-&f[1] * f[0].modinv(p).unwrap()), p)],
        _ => {}
    }
    loop {
        let base = vec![BigInt::from(1), random(100, stream)];
        let exponent: BigInt = (p - 1) >> 1u32;
        let mut power = vec![BigInt::from(1)];
        for bit in (0..exponent.bits()).rev() {
            power = remainder(multiplied(&power, &power, p), f, p);
            if exponent.bit(bit) {
                power = remainder(multiplied(&power, &base, p), f, p);
            }
        }
        match power.last_mut() {
            Some(constant) => *constant = modulo(&(&*constant - 1), p),
            None => continue,
        }
        let zeros = power.iter().take_while(|x| **x == BigInt::ZERO).count();
        let part = common_divisor(f.clone(), power.split_off(zeros), p);
        if part.len() > 1 && part.len() < f.len() {
            let rest = quotient(f.clone(), &part, p);
            let mut all = roots(&part, p, stream);
            all.extend(roots(&rest, p, stream));
            return all;
        }
    }
}

fn multiplied(a: &Polynomial, b: &Polynomial, p: &BigInt) -> Polynomial {
    let mut product = vec![BigInt::ZERO; a.len() + b.len() - 1];
    for (i, x) in a.iter().enumerate() {
        for (j, y) in b.iter().enumerate() {
            product[i + j] = modulo(&(&product[i + j] + x * y), p);
        }
    }
    product
}

fn quotient(mut a: Polynomial, b: &Polynomial, p: &BigInt) -> Polynomial {
    let inverse = b[0].modinv(p).unwrap();
    let mut quotient = Vec::new();
    while a.len() >= b.len() {
        let factor = modulo(&(&a[0] * &inverse), p);
        for (x, y) in a.iter_mut().zip(b) {
            *x = modulo(&(&*x - &factor * y), p);
        }
        a.remove(0);
        quotient.push(factor);
    }
    quotient
}

fn gcd(mut a: BigInt, mut b: BigInt) -> BigInt {
    while b != BigInt::ZERO {
        (a, b) = (b.clone(), a % b);
    }
    a
}

/// What the attacker computes from the modulus and encryptions of zero: divisors of the modulus.
fn attack(modulus: &BigInt, zeros: &[BigInt], b: &BigInt) -> Vec<BigInt> {
    // Small factors that values share with the modulus by chance belong to its cofactor.
    let mut rest = modulus.clone();
    for x in zeros.iter().chain([b]) {
        while gcd(x.clone(), rest.clone()) != BigInt::from(1) {
            rest /= gcd(x.clone(), rest.clone());
        }
    }
    let modulus = &rest;
    // Vectors orthogonal to (x_i, b x_i) modulo x_0.
    let values: Vec<BigInt> =
        zeros.iter().cloned().chain(zeros.iter().map(|x| modulo(&(b * x), modulus))).collect();
    let inverse = values[0].modinv(modulus).unwrap();
    let count = values.len();
    let mut basis = vec![vec![BigInt::ZERO; count]; count];
    basis[0][0] = modulus.clone();
    for (i, row) in basis.iter_mut().enumerate().skip(1) {
        row[0] = modulo(&(-&values[i] * &inverse), modulus);
        row[i] = BigInt::from(1);
    }
    reduce(&mut basis);

    // The short ones are orthogonal to the noise of every slot, without the modulus.
    let p = (BigInt::from(1) << 521u32) - 1;
    let short = basis[..count - SLOTS].iter();
    let short: Vec<Vec<BigInt>> =
        short.map(|row| row.iter().map(|x| modulo(x, &p)).collect()).collect();
    // Their orthogonal space is the span of (r_ij) and (b_j r_ij) over the slots j.
    let span = orthogonal(short, &p);
    assert_eq!(span.len(), SLOTS);
    let half = count / 2;
    let transposed = |from: usize| -> Vec<Vec<BigInt>> {
        (from..from + SLOTS).map(|i| span.iter().map(|v| v[i].clone()).collect()).collect()
    };
    // The second half is the first one times the residues b_j, in some basis.
    let matrix = solved(&transposed(0), &transposed(half), &p);
    let mut stream = Stream::new(&Seed::from_bytes([1; 32]), "attack", 0);
    let eigenvalues = roots(&characteristic(&matrix, &p), &p, &mut stream);
    let residues =
        eigenvalues.into_iter().map(|root| if &root + &root > p { root - &p } else { root });
    residues.map(|residue| gcd(modulo(&(b - residue), modulus), modulus.clone())).collect()
}

#[test]
fn lattice_reduction_finds_the_secret_primes() {
    let mut victim = Victim::new();
    let bits = f64::from(GAMMA - 2 * ETA * SLOTS as u32 + 2 * RHO * SLOTS as u32);
    let count = ((SLOTS as f64 + bits / f64::from(2 * ETA - 2 * RHO - 28)) / 2.0) as usize + 3;
    let zeros: Vec<BigInt> = (0..count).map(|_| victim.zero()).collect();
    let b = victim.zero();

    let divisors = attack(&victim.modulus, &zeros, &b);
    for p in &victim.primes {
        let square = p * p;
        let found = divisors
            .iter()
            .any(|d| d % &square == BigInt::ZERO && d.bits() < 2 * victim.modulus.bits() / 3);
        assert!(found, "a prime was not found");
    }
}
