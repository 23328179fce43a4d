use super::{KeyId, Level, ParamsId};
use crate::ring::{Eval, RnsPoly};
use sudare_arith::prng::Seed;

/// `c_0 + c_1 s`: what every scheme wraps and adds its metadata to.
#[derive(Clone)]
pub struct Ciphertext {
    pub(crate) polys: [RnsPoly<Eval>; 2],
    pub(crate) level: Level,
    pub(crate) params: ParamsId,
    pub(crate) key: KeyId,
}

impl Ciphertext {
    /// How many more rescalings it can take.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// The parameters it was made under.
    #[must_use]
    pub fn params_id(&self) -> ParamsId {
        self.params
    }

    /// The secret key that opens it.
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        self.key
    }
}

/// A fresh encryption under the secret key, with the public seed that its uniform half follows
/// from. Files hold the seed in place of that half, and are half as large.
#[derive(Clone)]
pub struct Seeded<C> {
    ciphertext: C,
    seed: Seed,
}

impl<C> Seeded<C> {
    /// A ciphertext whose second half is number 0 of the seed.
    pub(crate) fn new(ciphertext: C, seed: Seed) -> Self {
        Self { ciphertext, seed }
    }

    /// The encryption, both halves of it.
    #[must_use]
    pub fn ciphertext(&self) -> &C {
        &self.ciphertext
    }

    /// The encryption alone, as any other one.
    #[must_use]
    pub fn into_ciphertext(self) -> C {
        self.ciphertext
    }

    pub(crate) fn seed(&self) -> &Seed {
        &self.seed
    }

    /// The same in what a scheme wraps around it.
    pub(crate) fn map<D>(self, wrap: impl FnOnce(C) -> D) -> Seeded<D> {
        Seeded { ciphertext: wrap(self.ciphertext), seed: self.seed }
    }
}
