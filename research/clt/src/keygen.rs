//! Key generation.

use crate::{
    EvaluationKey, Params, Result, SecretKey, SubsetSum,
    big::{add_wrapping, big, div_round, limbs, negate_wrapping},
    long::weighted_sums,
};
use num_bigint::BigUint;
use std::sync::atomic::{AtomicUsize, Ordering};
use sudare_arith::{
    Isa, par,
    prng::{Seed, Stream},
};

/// Generates the keys of one owner. **Insecure**, for research
/// ([`InsecureResearch`](crate::InsecureResearch)).
#[derive(Debug)]
pub struct KeyGenerator {
    params: Params,
    seed: Seed,
}

impl KeyGenerator {
    /// Takes randomness from the system.
    ///
    /// # Errors
    /// [`Error::Arith`](crate::Error::Arith) if it has none.
    pub fn new(params: &Params) -> Result<Self> {
        Ok(Self::from_seed(params, Seed::random()?))
    }

    /// Derives all randomness from `seed`: the same keys for the same seed. Use it in tests only.
    #[must_use]
    pub fn from_seed(params: &Params, seed: Seed) -> Self {
        Self { params: params.clone(), seed }
    }

    /// Returns the number of ciphertexts that [`KeyGenerator::generate_with`] reports.
    #[must_use]
    pub fn parts(&self) -> usize {
        let spec = self.params.spec();
        spec.convert.len * self.params.words() + spec.bootstrap.len
    }

    /// Generates the owner's key, and the evaluation key for the server.
    ///
    /// # Errors
    /// [`Error::Arith`](crate::Error::Arith).
    pub fn generate(&self) -> Result<(SecretKey, EvaluationKey)> {
        self.generate_with(|_| ())
    }

    /// Makes keys as [`KeyGenerator::generate`] does, and reports the number of finished ciphertexts
    /// from any thread.
    ///
    /// # Errors
    /// The errors of [`KeyGenerator::generate`].
    pub fn generate_with(
        &self,
        report: impl Fn(usize) + Send + Sync,
    ) -> Result<(SecretKey, EvaluationKey)> {
        let secret = self.secret_key()?;
        let done = AtomicUsize::new(0);
        let count = |more: usize| report(done.fetch_add(more, Ordering::Relaxed) + more);
        let params = &self.params;
        let spec = self.params.spec();
        // Public rows have a seed of their own, apart from the streams of secrets.
        let public = self.seed.derive("integers public", 0);

        let subset = Subset::random(params, spec.convert, &mut self.stream("subset", 0));
        let fraction_bits = 64 * params.z_fraction_limbs();
        let z = subset.rows(&public, "z", params.z_limbs(), |slot| {
            let p = secret.prime(slot);
            div_round(BigUint::from(spec.t) << (fraction_bits + spec.eta as usize), &(&p * &p))
        });
        let sigma = self.sigma(&secret, &subset, &count);
        let sigma_offset = sigma_offset(&secret, &sigma);

        let subset = Subset::random(params, spec.bootstrap, &mut self.stream("subset", 1));
        let fraction = BigUint::from(1u32) << (64 * params.u_limbs());
        let u = subset.rows(&public, "u", params.u_limbs(), |slot| {
            div_round(fraction.clone(), &secret.prime(slot))
        });
        let v = self.v(&secret, &subset, &count);
        let v_offset = self.v_offset(&secret, &v);

        let params = params.clone();
        let id = secret.id;
        let modulus = secret.modulus.clone();
        let key = EvaluationKey { params, id, modulus, z, sigma, sigma_offset, u, v, v_offset };
        Ok((secret, key))
    }

    fn stream(&self, label: &str, index: u64) -> Stream {
        Stream::new(&self.seed, &format!("integers {label}"), index)
    }

    fn secret_key(&self) -> Result<SecretKey> {
        let spec = self.params.spec();
        let mut primes: Vec<BigUint> = Vec::new();
        let mut batch = 0;
        // Slots need different primes, so a repetition is drawn again.
        while primes.len() < spec.slots {
            let missing = (primes.len()..spec.slots).map(|slot| (slot, batch));
            let found = par::map(missing, |(slot, batch)| {
                let index = (batch * spec.slots + slot) as u64;
                random_prime(spec.eta, &mut self.stream("prime", index))
            });
            for p in found {
                if !primes.contains(&p) {
                    primes.push(p);
                }
            }
            batch += 1;
        }
        let product: BigUint = primes.iter().map(|p| p * p).product();
        let bits = u64::from(spec.gamma) - product.bits();
        let mut stream = self.stream("cofactor", 0);
        let cofactor = loop {
            let candidate = random_odd(bits, &mut stream);
            if primes.iter().all(|p| &candidate % p != BigUint::ZERO) {
                break candidate;
            }
        };
        SecretKey::new(&self.params, &primes, &cofactor)
    }

    /// Returns, for each number of the subset and each word, the ciphertext of
    /// `round(2^(w b) p_j / 2^(eta + 1))`, or of 0 if the number is not part of a slot's sum.
    fn sigma(
        &self,
        secret: &SecretKey,
        subset: &Subset,
        count: &(impl Fn(usize) + Sync),
    ) -> Vec<u64> {
        let spec = self.params.spec();
        let words = self.params.words();
        let limbs = self.params.limbs();
        let scale = BigUint::from(1u32) << (spec.eta + 1);
        let mut sigma = vec![0; spec.convert.len * words * limbs];
        let rows = sigma.chunks_exact_mut(words * limbs).zip(&subset.slots).enumerate();
        par::for_each(rows, |(i, (rows, slots))| {
            // A stream for each number, so that keys do not depend on threads.
            let mut stream = self.stream("sigma", i as u64);
            for (b, row) in rows.chunks_exact_mut(limbs).enumerate() {
                let shift = spec.word_bits as usize * b;
                let part = |&slot: &usize| (slot, div_round(secret.prime(slot) << shift, &scale));
                write(row, &secret.encrypt_values(slots.iter().map(part), &mut stream));
            }
            count(words);
        });
        sigma
    }

    /// Returns, for each number of the subset, the ciphertext modulo `t^(n + 1)` of the indicator
    /// that it is part of a slot's sum.
    fn v(&self, secret: &SecretKey, subset: &Subset, count: &(impl Fn(usize) + Sync)) -> Vec<u64> {
        let limbs = self.params.limbs();
        let modulus = self.params.power(self.params.max_exponent());
        let mut v = vec![0; self.params.spec().bootstrap.len * limbs];
        let rows = v.chunks_exact_mut(limbs).zip(&subset.slots).enumerate();
        par::for_each(rows, |(i, (row, slots))| {
            let part = |&slot: &usize| (slot, secret.prime(slot) / modulus);
            let mut stream = self.stream("v", i as u64);
            write(row, &secret.encrypt_values(slots.iter().map(part), &mut stream));
            count(1);
        });
        v
    }

    /// Returns the ciphertext of `floor(t^n / 2)` in every slot, minus `floor(t^(n + 1) / 2)` times
    /// the sum of `v`. Multipliers exceed their centred values by this factor.
    fn v_offset(&self, secret: &SecretKey, v: &[u64]) -> BigUint {
        let params = &self.params;
        let spec = self.params.spec();
        let modulus = params.power(params.max_exponent());
        let half = params.power(spec.digits) / 2;
        let values = (0..spec.slots).map(|slot| (slot, secret.prime(slot) / modulus * half));
        let half = secret.encrypt_values(values, &mut self.stream("half", 0));
        let weights = vec![(modulus / 2) as u32; spec.bootstrap.len];
        secret.modulus.add(&half, &secret.modulus.neg(&weighted_sum(secret, v, &weights)))
    }
}

/// Returns `-2` times the sum of `sigma`, each times half of the range of its word. Words exceed
/// their centred values by this half.
fn sigma_offset(secret: &SecretKey, sigma: &[u64]) -> BigUint {
    let params = &secret.params;
    let halves: Vec<u32> = (0..params.words()).map(|b| half_word(params, b)).collect();
    let weights = halves.repeat(params.spec().convert.len);
    let sum = weighted_sum(secret, sigma, &weights);
    secret.modulus.neg(&secret.modulus.add(&sum, &sum))
}

/// Returns half of the range of a word. The highest word may have fewer bits.
pub(crate) fn half_word(params: &Params, word: usize) -> u32 {
    let spec = params.spec();
    1 << (spec.word_bits.min(spec.eta - spec.word_bits * word as u32) - 1)
}

/// Returns the weighted sum of ciphertexts modulo `x_0`.
fn weighted_sum(secret: &SecretKey, rows: &[u64], weights: &[u32]) -> BigUint {
    let stride = secret.params.limbs();
    let mut sum = vec![0; stride + 1];
    weighted_sums(&mut [&mut sum[..]], rows, stride, 0, &[weights], Isa::detect());
    secret.modulus.reduce(big(&sum))
}

fn write(row: &mut [u64], value: &BigUint) {
    row.copy_from_slice(&limbs(value, row.len()));
}

/// Membership of numbers in the sums of slots.
struct Subset {
    /// Slots of each number.
    slots: Vec<Vec<usize>>,
    /// Numbers beyond the first `slots`, for each slot. Number `j` itself corrects the sum of
    /// slot `j`, and is part of no other sum.
    numbers: Vec<Vec<usize>>,
}

impl Subset {
    fn random(params: &Params, sum: SubsetSum, stream: &mut Stream) -> Self {
        let slots = params.spec().slots;
        let mut subset =
            Self { slots: (0..slots).map(|slot| vec![slot]).collect(), numbers: vec![] };
        subset.slots.resize(sum.len, Vec::new());
        let mut numbers: Vec<usize> = (slots..sum.len).collect();
        for slot in 0..slots {
            for chosen in 0..sum.weight - 1 {
                // A partial shuffle. Lists have at most 2^16 numbers, so the bias is below 2^-48.
                let left = (numbers.len() - chosen) as u128;
                let next = chosen + ((u128::from(stream.next_u64()) * left) >> 64) as usize;
                numbers.swap(chosen, next);
                subset.slots[numbers[chosen]].push(slot);
            }
            subset.numbers.push(numbers[..sum.weight - 1].to_vec());
        }
        subset
    }

    /// Returns uniform rows of `stride` limbs, except that the rows of each slot sum to its target
    /// modulo `2^(64 stride)`.
    fn rows(
        &self,
        seed: &Seed,
        label: &str,
        stride: usize,
        target: impl Fn(usize) -> BigUint + Send + Sync,
    ) -> Vec<u64> {
        let mut rows = vec![0; self.slots.len() * stride];
        let (sums, random) = rows.split_at_mut(self.numbers.len() * stride);
        par::for_each(random.chunks_exact_mut(stride).enumerate(), |(i, row)| {
            Stream::new(seed, &format!("integers {label}"), i as u64).fill(row);
        });
        let first = self.numbers.len();
        par::for_each(sums.chunks_exact_mut(stride).enumerate(), |(slot, row)| {
            for i in &self.numbers[slot] {
                add_wrapping(row, &random[(i - first) * stride..][..stride]);
            }
            negate_wrapping(row);
            add_wrapping(row, &limbs(&target(slot), stride));
        });
        rows
    }
}

/// Returns a random odd number of exactly `bits` bits.
fn random_odd(bits: u64, stream: &mut Stream) -> BigUint {
    let mut words = vec![0; bits.div_ceil(64) as usize];
    stream.fill(&mut words);
    let excess = 64 * words.len() as u64 - bits;
    let mut number = big(&words) >> excess;
    number.set_bit(bits - 1, true);
    number.set_bit(0, true);
    number
}

/// Returns a random prime of exactly `bits` bits.
fn random_prime(bits: u32, stream: &mut Stream) -> BigUint {
    loop {
        let candidate = random_odd(bits.into(), stream);
        if is_probable_prime(&candidate, stream) {
            return candidate;
        }
    }
}

/// The odd primes below 54, whose product fits into a word.
const SMALL_PRIMES: [u64; 15] = [3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53];
/// Number of rounds of the Miller–Rabin test. A composite number passes each round with a
/// probability of at most 1/4.
const ROUNDS: usize = 32;

/// Decides whether a random odd number, which is larger than the small primes, is prime.
fn is_probable_prime(n: &BigUint, stream: &mut Stream) -> bool {
    let rest = n % SMALL_PRIMES.iter().product::<u64>();
    let rest = rest.iter_u64_digits().next().unwrap_or(0);
    if SMALL_PRIMES.iter().any(|p| rest.is_multiple_of(*p)) {
        return false;
    }
    let one = BigUint::from(1u32);
    let last = n - 1u32;
    let twos = last.trailing_zeros().unwrap_or(0);
    let odd = &last >> twos;
    (0..ROUNDS).all(|_| {
        // A base of 0 or 1 would let every number pass.
        let mut power = BigUint::from(stream.next_u64() | 2).modpow(&odd, n);
        if power == one || power == last {
            return true;
        }
        (1..twos).any(|_| {
            power = &power * &power % n;
            power == last
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_are_told_from_other_numbers() {
        let mut stream = Stream::new(&Seed::from_bytes([1; 32]), "primes", 0);
        let mersenne = |bits: u32| (BigUint::from(1u32) << bits) - 1u32;
        for bits in [61, 89, 107, 127, 521] {
            assert!(is_probable_prime(&mersenne(bits), &mut stream), "2^{bits} - 1");
        }
        for bits in [67, 101, 103, 109] {
            assert!(!is_probable_prime(&mersenne(bits), &mut stream), "2^{bits} - 1");
        }
        assert!(!is_probable_prime(&(mersenne(61) * mersenne(89)), &mut stream));
        let p = random_prime(192, &mut stream);
        assert_eq!(p.bits(), 192);
    }
}
