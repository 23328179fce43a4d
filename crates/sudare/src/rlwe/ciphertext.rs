use super::{KeyId, Level, ParamsId};
use crate::ring::{Eval, RnsPoly};
use sudare_arith::prng::Seed;

/// `c_0 + c_1 s`: the part of a ciphertext common to all schemes, which add their metadata.
#[derive(Debug, Clone)]
pub struct Ciphertext {
    pub(crate) polys: [RnsPoly<Eval>; 2],
    pub(crate) level: Level,
    pub(crate) params: ParamsId,
    pub(crate) key: KeyId,
}

impl Ciphertext {
    /// Number of rescalings left.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// Parameters of the ciphertext.
    #[must_use]
    pub fn params_id(&self) -> ParamsId {
        self.params
    }

    /// The secret key that decrypts it.
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        self.key
    }
}

/// A fresh encryption under the secret key, with the public seed of its uniform half. Files store
/// the seed in place of that half and are half the size.
#[derive(Debug, Clone)]
pub struct Seeded<C> {
    ciphertext: C,
    seed: Seed,
}

impl<C> Seeded<C> {
    /// Combines a ciphertext with its seed. Its second half is number 0 of the seed.
    pub(crate) fn new(ciphertext: C, seed: Seed) -> Self {
        Self { ciphertext, seed }
    }

    /// The encryption, with both halves.
    #[must_use]
    pub fn ciphertext(&self) -> &C {
        &self.ciphertext
    }

    /// Returns the encryption without the seed.
    #[must_use]
    pub fn into_ciphertext(self) -> C {
        self.ciphertext
    }

    pub(crate) fn seed(&self) -> &Seed {
        &self.seed
    }

    /// Applies `wrap`, a scheme's constructor, to the encryption.
    pub(crate) fn map<D>(self, wrap: impl FnOnce(C) -> D) -> Seeded<D> {
        Seeded { ciphertext: wrap(self.ciphertext), seed: self.seed }
    }
}
