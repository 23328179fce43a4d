use super::{
    Ciphertext, KeyId, Level, Params, PublicKey, SecretKey, Seeded, keygen::encrypt_zero,
    secret::small_secret,
};
use crate::{
    Error, Result,
    ring::{Eval, LimbSet, RnsPoly, TILE},
};
use std::sync::Arc;
use sudare_arith::{
    mem::Secrecy,
    par,
    prng::{Seed, Stream},
    sample,
};

/// A key that encrypts: a [`PublicKey`], or a [`SecretKey`] itself, with smaller errors.
pub trait EncryptionKey {
    /// `true` for the secret key.
    const IS_SECRET: bool;

    /// The key pair.
    fn key_id(&self) -> KeyId;

    /// Rejects a key that does not encrypt under these parameters.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::Forked`] for a secret key.
    fn check_encrypts(&self, params: &Params) -> Result<()>;

    /// Encrypts a message that has the primes of `level`, with randomness derived from `seed`.
    ///
    /// # Errors
    /// Errors of [`EncryptionKey::check_encrypts`]; [`Error::LevelOutOfRange`] above the top of the
    /// chain.
    fn encrypt(
        &self,
        params: &Params,
        message: &RnsPoly<Eval>,
        level: Level,
        seed: &Seed,
    ) -> Result<Ciphertext>;
}

/// Encrypts under a key of type `K`. `P` are the parameters of a scheme, which defines the
/// messages.
#[derive(Debug)]
pub struct Encryptor<P, K> {
    pub(crate) params: P,
    pub(crate) key: Arc<K>,
}

impl<P: AsRef<Params> + Clone, K: EncryptionKey> Encryptor<P, K> {
    /// Makes an encryptor that holds `key`.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::Forked`] for a secret key.
    pub fn new(params: &P, key: impl Into<Arc<K>>) -> Result<Self> {
        let key = key.into();
        key.check_encrypts(params.as_ref())?;
        Ok(Self { params: params.clone(), key })
    }

    /// The key pair.
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        self.key.key_id()
    }
}

impl<P: Clone> Clone for Encryptor<P, PublicKey> {
    fn clone(&self) -> Self {
        Self { params: self.params.clone(), key: Arc::clone(&self.key) }
    }
}

impl EncryptionKey for PublicKey {
    const IS_SECRET: bool = false;

    fn key_id(&self) -> KeyId {
        self.id
    }

    fn check_encrypts(&self, params: &Params) -> Result<()> {
        params.check_id("public key", self.params)
    }

    /// `v (b, a) + (e_0 + m, e_1)`, with a ternary `v` and binomial errors.
    fn encrypt(
        &self,
        params: &Params,
        message: &RnsPoly<Eval>,
        level: Level,
        seed: &Seed,
    ) -> Result<Ciphertext> {
        self.check_encrypts(params)?;
        params.check_chain_level(level)?;
        let basis = params.basis();
        let limbs = params.limbs(level);
        let small = |label: &str, fill: fn(&mut Stream, &mut [i8])| {
            let mut coeffs = small_secret(basis);
            fill(&mut Stream::new(seed, label, 0), coeffs.as_signed_mut());
            coeffs
        };
        // The labels are fixed by docs/notes/randomness.md, and known-answer tests depend on them.
        let v = small("encryption, v", sample::ternary);
        let errors =
            [small("encryption, e0", sample::cbd21), small("encryption, e1", sample::cbd21)];
        let mut polys = [basis.take(limbs), basis.take(limbs)];
        let [c0, c1] = &mut polys;
        let rows = c0.rows_mut().zip(c1.rows_mut()).zip(message.rows());
        par::for_each(rows.enumerate(), |(i, ((c0, c1), message))| {
            let table = basis.table(limbs, i);
            let m = basis.modulus(limbs, i);
            let mut v_row = basis.pool().take_as(Secrecy::Key, basis.n());
            m.lift(&mut v_row, v.as_signed());
            m.lift(c0, errors[0].as_signed());
            m.lift(c1, errors[1].as_signed());
            // Together, so that the three rows find the transform's table in cache.
            table.forward_rows(&mut [&mut v_row, c0, c1]);
            m.add_assign(c0, message);
            // Secret: `v` follows from its product with the public key.
            let mut product = basis.pool().take_as(Secrecy::Key, TILE.min(basis.n()));
            for (out, key) in [c0, c1].into_iter().zip(&self.zero) {
                let parts = v_row.chunks(TILE).zip(key.row(i).chunks(TILE));
                for (out, (v, key)) in out.chunks_mut(TILE).zip(parts) {
                    let product = &mut product[..out.len()];
                    m.mul_rows(product, v, key);
                    m.add_assign(out, product);
                }
            }
        });
        Ok(Ciphertext { polys, level, params: params.id(), key: self.id })
    }
}

impl EncryptionKey for SecretKey {
    const IS_SECRET: bool = true;

    fn key_id(&self) -> KeyId {
        self.id
    }

    fn check_encrypts(&self, params: &Params) -> Result<()> {
        self.check(params)
    }

    /// `(-a s + e + m, a)`, with a uniform `a` and a binomial error.
    fn encrypt(
        &self,
        params: &Params,
        message: &RnsPoly<Eval>,
        level: Level,
        seed: &Seed,
    ) -> Result<Ciphertext> {
        Ok(self.encrypt_seeded(params, message, level, seed)?.into_ciphertext())
    }
}

impl SecretKey {
    /// Runs [`EncryptionKey::encrypt`] with a separate seed for `a`. That seed is public, and
    /// `seed` cannot be derived from it.
    pub(crate) fn encrypt_seeded(
        &self,
        params: &Params,
        message: &RnsPoly<Eval>,
        level: Level,
        seed: &Seed,
    ) -> Result<Seeded<Ciphertext>> {
        self.check(params)?;
        params.check_chain_level(level)?;
        // These labels are fixed by docs/notes/randomness.md.
        let [secret, public] = ["symmetric encryption, secret", "symmetric encryption, public"]
            .map(|label| seed.derive(label, 0));
        let limbs = params.limbs(level);
        let [mut c0, c1] = encrypt_zero(params, &self.s, limbs, &secret, &public, 0);
        params.basis().add_assign(&mut c0, message);
        let polys = [c0, c1];
        Ok(Seeded::new(Ciphertext { polys, level, params: params.id(), key: self.id }, public))
    }

    /// Returns `c_0 + c_1 s` modulo the primes of `limbs`, which are among the primes of `a`.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`]; [`Error::Forked`].
    pub(crate) fn phase(
        &self,
        params: &Params,
        a: &Ciphertext,
        limbs: LimbSet,
    ) -> Result<RnsPoly<Eval>> {
        self.check(params)?;
        a.check_owner(params, self.id)?;
        let basis = params.basis();
        let [c0, c1] = &a.polys;
        let mut poly = basis.take_as(Secrecy::Value, limbs);
        par::for_each(
            poly.rows_mut().zip(c0.rows().zip(c1.rows())).enumerate(),
            |(i, (out, (c0, c1)))| {
                let m = basis.modulus(limbs, i);
                m.mul_rows(out, c1, self.s.row(limbs.place(i, self.s.limbs())));
                m.add_assign(out, c0);
            },
        );
        Ok(poly)
    }
}

impl Ciphertext {
    /// Rejects a ciphertext of other parameters or of another key.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub(crate) fn check_owner(&self, params: &Params, expected: KeyId) -> Result<()> {
        const WHAT: &str = "ciphertext";
        params.check_id(WHAT, self.params)?;
        match self.key {
            found if found == expected => Ok(()),
            found => Err(Error::KeyMismatch { what: WHAT, found, expected }),
        }
    }
}
