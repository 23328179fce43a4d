#[cfg(doc)]
use crate::Error;
use crate::{
    Result,
    exact::{Modulus, Params},
    ring::{Divider, Eval, Lifter, LimbSet, RnsBasis, RnsPoly},
    rlwe::{self, Level, ProductSum, check_primes},
};
use std::sync::OnceLock;
use sudare_arith::{previous_prime, real};

/// Auxiliary primes are below this power of two, so that the fastest kernels support them.
const PRIME_BITS: u32 = 50;

/// The auxiliary primes of some parameters. Their product exceeds the modulus of any level.
#[derive(Debug)]
pub(crate) struct AuxiliaryPrimes(Vec<u64>);

impl AuxiliaryPrimes {
    /// Chooses the largest primes that no level uses.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] for more primes in total than the ring has room for.
    pub(crate) fn new(params: &Params) -> Result<Self> {
        let rlwe = params.rlwe();
        let log_n = params.log_n();
        let levels = level_primes(rlwe);
        let mut primes: Vec<u64> = Vec::new();
        let log2_q = rlwe.log2_q(rlwe.top()).max(rlwe.log2_q(rlwe.upper_top()));
        let mut end = 1 << PRIME_BITS;
        let mut missing = log2_q;
        // One bit more than the modulus, so that rounding of logarithms does not matter.
        while missing > -1.0 {
            let Some(prime) = previous_prime(end, 2 << log_n) else { break };
            end = prime;
            // Only primes that no level uses: a residue number system needs different primes.
            if !levels.contains(&prime) {
                missing -= real::log2(prime as f64);
                primes.push(prime);
            }
        }
        check_primes(log_n, levels.len() + primes.len())?;
        Ok(Self(primes))
    }

    /// Number of auxiliary primes whose product exceeds a modulus of `log2_q` bits.
    pub(crate) fn count_for(&self, log2_q: f64) -> usize {
        let mut log2_p = 0.0;
        let below = |&prime: &u64| {
            log2_p += real::log2(prime as f64);
            // Half a bit more than the modulus, so that rounding of logarithms does not matter.
            log2_p <= log2_q + 0.5
        };
        let below = self.0.iter().copied().take_while(below).count();
        (below + 1).min(self.0.len())
    }
}

/// The primes of all levels, including upper ones, in order.
fn level_primes(params: &rlwe::Params) -> Vec<u64> {
    let basis = params.basis();
    let all = LimbSet::chain(params.basis().all().q());
    basis.tables(all).map(|table| table.modulus().value()).collect()
}

/// The product of BFV: `round(t a b / Q)` of the representatives next to zero, as
/// `round(t a b' / P)` modulo `Q` with `b' = round(P b / Q)` for an auxiliary modulus `P >= Q`.
///
/// Keys contain no auxiliary primes: ciphertexts are brought to them and back.
pub(super) struct Auxiliary {
    primes: AuxiliaryPrimes,
    /// The primes of all levels, with the auxiliary primes as special primes.
    basis: RnsBasis,
    /// Tables by level, built on first use.
    levels: Vec<OnceLock<Tables>>,
}

/// Changes of basis at one level.
struct Tables {
    q: LimbSet,
    p: LimbSet,
    /// Changes of basis from `Q` to `P` and from `P` to `Q`.
    up: Lifter,
    back: Lifter,
    /// `round(P b / Q)` modulo `P`, and `round(c / P)` modulo `Q`.
    over: Divider,
    down: Divider,
}

impl Auxiliary {
    /// Prepares for ciphertexts of these parameters.
    pub(super) fn new(params: &Params) -> Result<Self> {
        let rlwe = params.rlwe();
        let primes = AuxiliaryPrimes::new(params)?;
        let basis = RnsBasis::new(params.log_n(), &level_primes(rlwe), &primes.0)?;
        let levels = (0..=rlwe.upper_top().0).map(|_| OnceLock::new()).collect();
        Ok(Self { primes, basis, levels })
    }

    fn tables(&self, params: &rlwe::Params, level: Level) -> &Tables {
        self.levels[level.index()].get_or_init(|| {
            let basis = &self.basis;
            let q = params.limbs(level);
            let p = LimbSet::chain(0).with_special(self.primes.count_for(params.log2_q(level)));
            Tables {
                q,
                p,
                up: Lifter::new(basis, q, p),
                back: Lifter::new(basis, p, q),
                over: Divider::new(basis, q, p),
                down: Divider::new(basis, q.with_special(p.p()), q),
            }
        })
    }

    /// Returns the sum of products modulo the primes of `level`, before relinearisation. All
    /// ciphertexts have these primes and plaintexts modulo `t`.
    ///
    /// A product costs 4 transforms of polynomials to `P` and 2 back. A sum costs 3 divisions by
    /// `P`.
    pub(super) fn tensor(
        &self,
        params: &rlwe::Params,
        sum: &ProductSum<'_, rlwe::Ciphertext>,
        level: Level,
        t: Modulus,
    ) -> [RnsPoly<Eval>; 3] {
        let basis = &self.basis;
        let tables = self.tables(params, level);
        let limbs = tables.q.with_special(tables.p.p());
        let times_t =
            |a: &RnsPoly<Eval>| basis.scale(a, |i| basis.modulus(limbs, i).reduce_u128(t.value()));
        let pair = |&(a, b): &(&rlwe::Ciphertext, &rlwe::Ciphertext)| {
            let lifted = tables.up.lift(basis, a.polys.each_ref());
            let [a0, a1] =
                core::array::from_fn(|k| times_t(&self.joined(tables, &a.polys[k], &lifted[k])));
            let b = b.polys.each_ref().map(|b| basis.restricted(b, tables.q));
            let scaled = tables.over.divide(basis, b.each_ref());
            let back = tables.back.lift(basis, scaled.each_ref());
            let [b0, b1] = core::array::from_fn(|k| self.joined(tables, &back[k], &scaled[k]));
            [a0, a1, b0, b1]
        };
        let factors: Vec<[RnsPoly<Eval>; 4]> = sum.products.iter().map(pair).collect();
        let all = |k: usize| factors.iter().map(|f| &f[k]).collect::<Vec<_>>();
        let [a0, a1, b0, b1] = [0, 1, 2, 3].map(all);
        let c0 = basis.mul_sum(limbs, &a0, &b0);
        let c2 = basis.mul_sum(limbs, &a1, &b1);
        let c1 = basis.mul_sum(limbs, &[a0, a1].concat(), &[b1, b0].concat());
        // Their buffers return to the pool, which the quotients are taken from.
        drop(factors);
        let mut tensor = tables.down.divide(basis, [&c0, &c1, &c2]);
        if let Some(addend) = sum.addend {
            for (c, a) in tensor.iter_mut().zip(&addend.polys) {
                basis.add_assign(c, a);
            }
        }
        tensor
    }

    /// Joins limbs modulo `Q`, taken from `q`, and limbs modulo `P` in one polynomial.
    fn joined(&self, tables: &Tables, q: &RnsPoly<Eval>, p: &RnsPoly<Eval>) -> RnsPoly<Eval> {
        let mut out: RnsPoly<Eval> = self.basis.take(tables.q.with_special(tables.p.p()));
        let chain = (0..tables.q.q()).map(|i| q.row(i));
        for (out, row) in out.rows_mut().zip(chain.chain(p.rows())) {
            out.copy_from_slice(row);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exact::{
        Spec,
        tests::{Session, chain, mixed, modulus},
    };
    use crate::{ring::Coeff, rlwe::UpperSpec};
    use num_bigint::BigInt;

    fn product(primes: impl IntoIterator<Item = u64>) -> BigInt {
        primes.into_iter().fold(BigInt::from(1), |product, q| product * q)
    }

    /// Returns the representative in `(-m/2, m/2)`, for odd `m`.
    fn centered(a: &BigInt, m: &BigInt) -> BigInt {
        let rest = ((a % m) + m) % m;
        if &rest * 2 > *m { rest - m } else { rest }
    }

    fn rounded(a: &BigInt, m: &BigInt) -> BigInt {
        (a - centered(a, m)) / m
    }

    /// Returns the product modulo `X^N + 1`.
    fn ring_product(a: &[BigInt], b: &[BigInt]) -> Vec<BigInt> {
        let n = a.len();
        let mut out = vec![BigInt::ZERO; n];
        for (i, x) in a.iter().enumerate() {
            for (j, y) in b.iter().enumerate() {
                if i + j < n { out[i + j] += x * y } else { out[i + j - n] -= x * y }
            }
        }
        out
    }

    /// Makes the polynomial with these coefficients.
    fn poly(params: &rlwe::Params, level: Level, coeffs: &[BigInt]) -> RnsPoly<Eval> {
        let basis = params.basis();
        let limbs = params.limbs(level);
        let mut poly: RnsPoly<Coeff> = basis.take(limbs);
        for (table, row) in basis.tables(limbs).zip(poly.rows_mut()) {
            let q = BigInt::from(table.modulus().value());
            for (x, c) in row.iter_mut().zip(coeffs) {
                *x = u64::try_from(((c % &q) + &q) % &q).unwrap();
            }
        }
        basis.into_eval(poly)
    }

    /// Returns coefficients next to zero, by the Chinese remainder theorem.
    fn read(params: &rlwe::Params, poly: &RnsPoly<Eval>) -> Vec<BigInt> {
        let basis = params.basis();
        let limbs = poly.limbs();
        let primes: Vec<u64> = basis.tables(limbs).map(|t| t.modulus().value()).collect();
        let q = product(primes.iter().copied());
        let coeffs = basis.into_coeff(basis.restricted(poly, limbs));
        let column = |k: usize| {
            let terms = primes.iter().enumerate().map(|(i, &prime)| {
                let others = &q / prime;
                let inverse = others.modpow(&BigInt::from(prime - 2), &BigInt::from(prime));
                others * inverse * coeffs.row(i)[k]
            });
            centered(&terms.sum(), &q)
        };
        (0..basis.n()).map(column).collect()
    }

    fn check(spec: Spec, level: Level) {
        let mut session = Session::new(spec, 31);
        let params = session.params.clone();
        let t = session.params.plaintext_modulus();
        let rlwe = params.rlwe();
        let auxiliary = Auxiliary::new(&params).unwrap();
        let tables = auxiliary.tables(rlwe, level);
        let q = product(rlwe.basis().tables(rlwe.limbs(level)).map(|t| t.modulus().value()));
        let p = product(auxiliary.basis.tables(tables.p).map(|t| t.modulus().value()));
        assert!(p > q);
        let n = rlwe.basis().n();
        let half: BigInt = (&q - 1) / 2;
        let edges = [BigInt::ZERO, half.clone(), -&half, BigInt::from(1), &half - 1];
        let mut coeffs = |edge: bool| -> Vec<BigInt> {
            let mut coefficient = |k: usize| match edge {
                true => edges[k * k % 5].clone(),
                false => {
                    let words = (0..16).map(|_| session.stream.next_u64());
                    centered(&words.fold(BigInt::ZERO, |a, w| (a << 64) + w), &q)
                }
            };
            (0..n).map(&mut coefficient).collect()
        };
        for edge in [true, false] {
            let [a0, a1, b0, b1] = [(); 4].map(|()| coeffs(edge));
            let ciphertext = |c0, c1| rlwe::Ciphertext {
                polys: [poly(rlwe, level, c0), poly(rlwe, level, c1)],
                level,
                params: rlwe.id(),
                key: session.secret.id(),
            };
            let a = ciphertext(&a0, &a1);
            let b = ciphertext(&b0, &b1);
            let found = auxiliary.tensor(rlwe, &ProductSum::of(&a, &b), level, t);
            let found = found.each_ref().map(|c| read(rlwe, c));

            let big_t = BigInt::from(t.value());
            let scaled = |b: &[BigInt]| -> Vec<BigInt> {
                b.iter().map(|b| rounded(&(b * &p), &q)).collect()
            };
            let tensor = |b0: &[BigInt], b1: &[BigInt]| -> [Vec<BigInt>; 3] {
                let cross = ring_product(&a0, b1).into_iter().zip(ring_product(&a1, b0));
                [ring_product(&a0, b0), cross.map(|(x, y)| x + y).collect(), ring_product(&a1, b1)]
            };
            // Compare with the definition.
            let through_p = tensor(&scaled(&b0), &scaled(&b1));
            for (found, exact) in found.iter().zip(&through_p) {
                for (found, exact) in found.iter().zip(exact) {
                    assert_eq!(*found, centered(&rounded(&(exact * &big_t), &p), &q));
                }
            }
            // Compare with the exact product: within `t Q / (4 P)` for each of at most `2 N`
            // products.
            let bound = (&big_t * &q * n) / (&p * 2) + 2;
            for (found, exact) in found.iter().zip(&tensor(&b0, &b1)) {
                for (found, exact) in found.iter().zip(exact) {
                    let error = centered(&(found - rounded(&(exact * &big_t), &q)), &q);
                    assert!(error <= bound && -error <= bound);
                }
            }
        }
    }

    #[test]
    fn tensors_are_those_of_big_integers() {
        let small = modulus(257, 1);
        let large = modulus(1_099_511_627_689, 1);
        for level in 0..4 {
            check(mixed(5, small), Level(level));
        }
        check(mixed(4, large), Level(3));
        check(chain(6, modulus(65537, 1), 3), Level(2));
        // Primes of levels above the top are different ones.
        let spec = Spec { p_bits: vec![60.0], ..chain(5, modulus(257, 1), 3) };
        let bits: f64 = spec.q_bits.concat().iter().sum();
        let upper = UpperSpec { base_bits: vec![bits / 2.0; 2], levels_bits: vec![vec![45.0]; 2] };
        let raised = Spec { upper: Some(upper), ..spec };
        for level in 3..=5 {
            check(raised.clone(), Level(level));
        }
    }
}
