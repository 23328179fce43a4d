//! The owner's side.

use crate::{
    Ciphertext, Error, Noise, Params, Result,
    big::{Modulus, big, div_round, limbs},
    keys::KeyId,
    long::weighted_sums,
};
use core::fmt;
use num_bigint::BigUint;
use sudare_arith::{
    Isa, par,
    prng::{Seed, Stream},
    real,
};
use zeroize::Zeroizing;

/// The owner's key, which encrypts and decrypts. **Insecure**: it can be computed from public
/// values ([`InsecureResearch`](crate::InsecureResearch)).
///
/// Encryption uses the secret key. The publication's public elements would take 18 GB, and it does
/// not describe an alternative. The fields of the key are wiped when it is dropped. Intermediate
/// copies of the big-integer library are not wiped, and no operation runs in constant time.
pub struct SecretKey {
    pub(crate) params: Params,
    pub(crate) id: KeyId,
    pub(crate) modulus: Modulus,
    /// `p_j`, of `eta_limbs` each.
    primes: Zeroizing<Vec<u64>>,
    /// `prod_j p_j^2`.
    product: Zeroizing<Vec<u64>>,
    /// `x_0 / prod_j p_j^2`.
    cofactor: Zeroizing<Vec<u64>>,
    /// Rows that are 1 modulo `p_j^2` and 0 modulo the other squares.
    basis: Zeroizing<Vec<u64>>,
    /// `-2^rho` times their sum, modulo the product.
    basis_offset: Zeroizing<Vec<u64>>,
}

impl SecretKey {
    /// Creates the key of these primes and this cofactor, which has no factor in common with them.
    pub(crate) fn new(params: &Params, primes: &[BigUint], cofactor: &BigUint) -> Result<Self> {
        let squares: Vec<BigUint> = primes.iter().map(|p| p * p).collect();
        let product: BigUint = squares.iter().product();
        let stride = Self::product_limbs(params);
        let rows = par::map(&squares, |square| {
            let others = &product / square;
            // Primes are different, so the inverse exists.
            let inverse = (&others % square).modinv(square).unwrap_or_default();
            limbs(&(others * inverse), stride)
        });
        let sum: BigUint = rows.iter().map(|row| big(row)).sum();
        let offset = &product - ((sum << params.spec().rho) % &product);
        let value = &product * cofactor;
        let digest = blake3::hash(&value.to_bytes_le());
        Ok(Self {
            params: params.clone(),
            id: core::array::from_fn(|i| digest.as_bytes()[i]),
            modulus: Modulus::new(value, params.limbs()),
            primes: flat(primes, params.eta_limbs()),
            product: Zeroizing::new(limbs(&product, stride)),
            cofactor: Zeroizing::new(cofactor.to_u64_digits()),
            basis: Zeroizing::new(rows.concat()),
            basis_offset: Zeroizing::new(limbs(&offset, stride)),
        })
    }

    /// Returns the limbs of `prod_j p_j^2`.
    fn product_limbs(params: &Params) -> usize {
        (2 * params.spec().eta as usize * params.spec().slots).div_ceil(64)
    }

    /// Returns the parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Returns the prime of a slot.
    pub(crate) fn prime(&self, slot: usize) -> BigUint {
        let len = self.params.eta_limbs();
        big(&self.primes[slot * len..][..len])
    }

    /// Encrypts messages modulo `t^exponent`, one for each slot.
    ///
    /// # Errors
    /// [`Error::SlotCount`], [`Error::MessageOutOfRange`], [`Error::ExponentOutOfRange`];
    /// [`Error::Arith`] if the system has no randomness.
    pub fn encrypt(&self, messages: &[u64], exponent: u32) -> Result<Ciphertext> {
        let modulus = self.params.message_modulus(exponent)?;
        let slots = self.params.spec().slots;
        if messages.len() != slots {
            return Err(Error::SlotCount { found: messages.len(), slots });
        }
        let outside = messages.iter().copied().enumerate().find(|&(_, m)| m >= modulus);
        if let Some((slot, found)) = outside {
            return Err(Error::MessageOutOfRange { slot, found, modulus });
        }
        // A zero adds nothing to the noise, but would cost a long product.
        let nonzero = messages.iter().enumerate().filter(|&(_, &m)| m != 0);
        let values = nonzero.map(|(slot, m)| (slot, self.prime(slot) / modulus * m));
        let mut stream = Stream::new(&Seed::random()?, "integers encryption", 0);
        let value = self.encrypt_values(values, &mut stream);
        Ok(Ciphertext {
            value,
            exponent,
            noise: Noise::fresh(&self.params, exponent),
            key: self.id,
        })
    }

    /// Returns a random integer below `x_0` that is `r_j` plus the value for `p_j^2` modulo
    /// `p_j^2`, or `r_j` without a value. Each `r_j` is uniform in `[-2^rho, 2^rho)`.
    pub(crate) fn encrypt_values(
        &self,
        values: impl Iterator<Item = (usize, BigUint)>,
        stream: &mut Stream,
    ) -> BigUint {
        let spec = self.params.spec();
        let product = big(&self.product);
        let stride = self.product.len();
        let mut words = Zeroizing::new(vec![0; spec.slots]);
        stream.fill(&mut words);
        // Uniform below 2^(rho + 1). `basis_offset` centres it.
        words.iter_mut().for_each(|word| *word >>= 63 - spec.rho);
        // Weights have 32 bits, so the noise is added in two halves.
        let low = Zeroizing::new(words.iter().map(|&word| word as u32).collect::<Vec<_>>());
        let high =
            Zeroizing::new(words.iter().map(|&word| (word >> 32) as u32).collect::<Vec<_>>());
        let mut sums = [(); 2].map(|()| Zeroizing::new(vec![0; stride + 1]));
        let [low_sum, high_sum] = &mut sums;
        weighted_sums(
            &mut [&mut low_sum[..], &mut high_sum[..]],
            &self.basis,
            stride,
            0,
            &[&low, &high],
            Isa::detect(),
        );
        let noise = big(&sums[0]) + (big(&sums[1]) << 32u32) + big(&self.basis_offset);
        let row = |slot: usize| big(&self.basis[slot * stride..][..stride]);
        let residue = values.fold(noise, |sum, (slot, value)| sum + row(slot) * value) % &product;
        // A limb more than the cofactor has, so that the remainder is nearly uniform.
        let mut multiple = Zeroizing::new(vec![0; self.cofactor.len() + 1]);
        stream.fill(&mut multiple);
        residue + big(&multiple) % big(&self.cofactor) * product
    }

    /// Decrypts the message of each slot.
    ///
    /// # Errors
    /// [`Error::OtherKey`].
    pub fn decrypt(&self, ciphertext: &Ciphertext) -> Result<Vec<u64>> {
        let modulus = self.params.message_modulus(ciphertext.exponent)?;
        self.with_residues(ciphertext, |residue, p| {
            let message = div_round(residue * modulus, p) % modulus;
            message.iter_u64_digits().next().unwrap_or(0)
        })
    }

    /// Measures the bits of the largest error of a slot. Predictions have to exceed it.
    ///
    /// # Errors
    /// [`Error::OtherKey`].
    pub fn measure_noise(&self, ciphertext: &Ciphertext) -> Result<f64> {
        let modulus = self.params.message_modulus(ciphertext.exponent)?;
        let errors = self.with_residues(ciphertext, |residue, p| {
            // t^a times the distance to the nearest multiple of p / t^a.
            let rest = residue * modulus % p;
            let rest = if &rest + &rest > *p { p - rest } else { rest };
            log2(&rest) - real::log2(modulus as f64)
        })?;
        Ok(errors.into_iter().fold(0.0, f64::max))
    }

    /// Applies `read` to each slot's residue modulo `p_j^2` and to `p_j`.
    fn with_residues<T: Send>(
        &self,
        ciphertext: &Ciphertext,
        read: impl Fn(BigUint, &BigUint) -> T + Send + Sync,
    ) -> Result<Vec<T>> {
        if ciphertext.key != self.id {
            return Err(Error::OtherKey);
        }
        Ok(par::map(0..self.params.spec().slots, |slot| {
            let p = self.prime(slot);
            read(&ciphertext.value % (&p * &p), &p)
        }))
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretKey")
            .field("insecure", &true)
            .field("params", &self.params)
            .finish_non_exhaustive()
    }
}

/// Returns integers as limbs, `len` each.
fn flat(integers: &[BigUint], len: usize) -> Zeroizing<Vec<u64>> {
    Zeroizing::new(integers.iter().flat_map(|x| limbs(x, len)).collect())
}

/// Returns `log2`, and 0 for 0.
fn log2(x: &BigUint) -> f64 {
    let bits = x.bits();
    let shift = bits.saturating_sub(53);
    let top = (x >> shift).iter_u64_digits().next().unwrap_or(1);
    shift as f64 + real::log2(top as f64)
}
