use super::{
    Ciphertext, Params, Plaintext,
    encode::{self, IntegerReader},
};
use crate::{
    Error, Result,
    rlwe::{self, EncryptionKey, KeyId, Level, PublicKey, SecretKey, Seeded},
};
use std::sync::Arc;
use sudare_arith::{prng::Seed, real};

/// Encrypts under a public key.
pub type Encryptor = rlwe::Encryptor<Params, PublicKey>;

/// Encrypts under the secret key itself, with errors that are `sqrt(4 N / 3)` times smaller.
pub type SymmetricEncryptor = rlwe::Encryptor<Params, SecretKey>;

impl<K: EncryptionKey> rlwe::Encryptor<Params, K> {
    /// Encrypts with randomness of the operating system: `v (b, a) + (e_0 + m, e_1)`, with a
    /// ternary `v` and binomial errors, or `(-a s + e + m, a)` under the secret key.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::LevelOutOfRange`] above the top of the chain;
    /// [`Error::Arith`] if the system returns no randomness; [`Error::Forked`] under the secret
    /// key.
    pub fn encrypt(&self, a: &Plaintext) -> Result<Ciphertext> {
        self.encrypt_with(a, &Seed::random()?)
    }

    /// Encrypts with randomness derived from `seed`: anyone who knows the seed can decrypt. For
    /// known-answer tests. See [`Encryptor::encrypt`].
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::LevelOutOfRange`]; [`Error::Forked`] under the secret
    /// key.
    pub fn encrypt_with(&self, a: &Plaintext, seed: &Seed) -> Result<Ciphertext> {
        let params = self.params.rlwe();
        params.check_id("plaintext", a.params)?;
        let inner = self.key.encrypt(params, &a.poly, a.level, seed)?;
        Ok(Ciphertext { inner, scale: a.scale, log_slots: a.log_slots })
    }
}

impl SymmetricEncryptor {
    /// Encrypts for files of half the size
    /// ([`CiphertextWriter::seeded`](super::serial::CiphertextWriter::seeded)); see
    /// [`Encryptor::encrypt`].
    ///
    /// # Errors
    /// See [`Encryptor::encrypt`].
    pub fn encrypt_seeded(&self, a: &Plaintext) -> Result<Seeded<Ciphertext>> {
        self.encrypt_seeded_with(a, &Seed::random()?)
    }

    /// Encrypts like [`SymmetricEncryptor::encrypt_seeded`], with randomness derived from `seed`.
    /// Anyone who knows the seed can decrypt, and with the message as well can compute the key. For
    /// known-answer tests.
    ///
    /// # Errors
    /// See [`Encryptor::encrypt_with`].
    pub fn encrypt_seeded_with(&self, a: &Plaintext, seed: &Seed) -> Result<Seeded<Ciphertext>> {
        let params = self.params.rlwe();
        params.check_id("plaintext", a.params)?;
        let inner = self.key.encrypt_seeded(params, &a.poly, a.level, seed)?;
        Ok(inner.map(|inner| Ciphertext { inner, scale: a.scale, log_slots: a.log_slots }))
    }
}

/// Decrypts. Not `Clone`. Servers do not have one.
#[derive(Debug)]
pub struct Decryptor {
    params: Params,
    key: Arc<SecretKey>,
}

impl Decryptor {
    /// Bits above the scale that decryption reads, for the integer part of values and the sign, if
    /// the modulus of the ciphertext is large enough. Larger values decrypt to wrong ones.
    pub const VALUE_BITS: f64 = encode::VALUE_BITS;

    /// Makes a decryptor that holds `key`.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::Forked`].
    pub fn new(params: &Params, key: impl Into<Arc<SecretKey>>) -> Result<Self> {
        let key = key.into();
        key.check(params.rlwe())?;
        Ok(Self { params: params.clone(), key })
    }

    /// The key pair.
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        self.key.id
    }

    /// The decryptor's key.
    #[must_use]
    pub fn key(&self) -> &Arc<SecretKey> {
        &self.key
    }

    /// Derives the seed of the noise of one release. It is a function of the key and of `subject`,
    /// the digest of the values to be shown and of everything that they follow from.
    ///
    /// The same release thus has the same noise each time. Different releases have noise that looks
    /// independent without the key (`docs/notes/release-noise.md`).
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn release_seed(&self, subject: &[u8; 32]) -> Result<Seed> {
        self.key.check(self.params.rlwe())?;
        // Fixed by docs/notes/release-noise.md: under another context the same release would have
        // new noise.
        Ok(self.key.derive("sudare v1 release", subject))
    }

    /// Returns `c_0 + c_1 s`, at the lowest level whose modulus has [`Decryptor::VALUE_BITS`] above
    /// the scale, or at the level of `a` if no level has.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`]; [`Error::Forked`].
    pub fn decrypt(&self, a: &Ciphertext) -> Result<Plaintext> {
        let params = self.params.rlwe();
        self.key.check(params)?;
        a.inner.check_owner(params, self.key.id)?;
        let enough = |level: &Level| params.log2_q(*level) >= a.scale.log2() + Self::VALUE_BITS;
        // A prime more costs work, and adds nothing to a value that fits without it.
        let level = params.levels().below(a.level()).find(enough).unwrap_or(a.level());
        let poly = self.key.phase(params, &a.inner, params.limbs(level))?;
        let scale = a.scale;
        let log_slots = a.log_slots;
        Ok(Plaintext { poly, level, scale, log_slots, params: params.id() })
    }

    /// Measures the noise of `a`: `log2` of the standard deviation of the coefficients of its
    /// decryption minus `expected`. For tests and diagnostics. The result depends on the secret
    /// key.
    ///
    /// # Errors
    /// Errors of [`Decryptor::decrypt`]; [`Error::LevelOutOfRange`] if `expected` was encoded below
    /// the level at which decryption reads.
    pub fn measure_noise(&self, a: &Ciphertext, expected: &Plaintext) -> Result<f64> {
        let mut found = self.decrypt(a)?;
        self.params.rlwe().check_id("plaintext", expected.params)?;
        if expected.level < found.level {
            return Err(Error::LevelOutOfRange { found: found.level, max: expected.level });
        }
        // Levels above the top have other primes, so no difference of both kinds exists.
        self.params.chain().levels().lower(expected.level, found.level)?;
        let basis = self.params.rlwe().basis();
        basis.sub_assign(&mut found.poly, &expected.poly);
        let difference = basis.into_coeff(found.poly);
        let limbs = difference.limbs();
        let mut reader = IntegerReader::new(basis.tables(limbs).map(|t| *t.modulus()).collect());
        let rows: Vec<&[u64]> = difference.rows().collect();
        let squares = (0..basis.n()).map(|k| real::powi(reader.read(&rows, k).to_f64(), 2));
        Ok(real::log2((squares.sum::<f64>() / basis.n() as f64).sqrt()))
    }
}
