mod request;

pub use request::{KeyRequest, LevelKeys, Raise};

use super::{
    GaloisElement, KeyId, Level, Params, ParamsId, SecretDistribution, secret::small_secret,
};
use crate::{
    Error, Result,
    ring::{Eval, LimbSet, PackedPolys, RnsPoly},
};
use std::collections::BTreeMap;
use sudare_arith::{
    Permutation,
    mem::{Buf, Secrecy},
    prng::Seed,
};
use zeroize::{Zeroize, Zeroizing};

/// A secret key. It is wiped when dropped, and is neither `Clone` nor printable. In a process
/// forked from the one that holds it, every use returns [`Error::Forked`].
pub struct SecretKey {
    pub(crate) params: Params,
    pub(crate) id: KeyId,
    /// Modulo every prime.
    pub(crate) s: RnsPoly<Eval>,
}

impl SecretKey {
    /// Fingerprint of the key, which reveals nothing about the key.
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// Parameters of the key.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Makes the key with these coefficients, each -1, 0 or 1, with the number of nonzeros of the
    /// parameters.
    pub(super) fn new(params: &Params, id: KeyId, coeffs: &[i8]) -> Self {
        let s = params.basis().from_small(coeffs, params.basis().all(), Secrecy::Key);
        Self { params: params.clone(), id, s }
    }

    /// Makes the key with these coefficients after checking them against the parameters.
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub(super) fn from_coeffs(params: &Params, id: KeyId, coeffs: &[i8]) -> Result<Self> {
        let malformed = |problem: String| Err(Error::Malformed { what: "secret key", problem });
        let n = params.basis().n();
        if coeffs.len() != n {
            return malformed(format!("it has {} coefficients, but {n} are needed", coeffs.len()));
        }
        // Checked without branches on a coefficient.
        let ternary = coeffs.iter().fold(true, |all, &c| all & (c.wrapping_add(1) as u8 <= 2));
        if !ternary {
            return malformed("a coefficient is not -1, 0 or 1".into());
        }
        // The lowest bit of -1 and of 1 is set. As above, without branches.
        let weight = coeffs.iter().map(|&c| u32::from(c as u8 & 1)).sum::<u32>();
        match params.spec().secret {
            SecretDistribution::FixedWeight { h } if weight != h => {
                return malformed(format!("its weight is not {h} as its parameters say"));
            }
            // No file holds such a key: no party knows it.
            SecretDistribution::SharedTernary { parties, .. } => {
                return malformed(format!("its parameters share it among {parties} key holders"));
            }
            SecretDistribution::UniformTernary | SecretDistribution::FixedWeight { .. } => {}
        }
        Ok(Self::new(params, id, coeffs))
    }

    /// Rejects a key of other parameters, and a key that stayed in the process that this one was
    /// forked from.
    pub(crate) fn check(&self, params: &Params) -> Result<()> {
        params.check_id("secret key", self.params.id())?;
        if self.s.is_lost() { Err(Error::Forked { what: "secret key" }) } else { Ok(()) }
    }

    /// Returns the coefficients as signed bytes, each -1, 0 or 1.
    pub(super) fn coeffs(&self) -> Buf {
        let basis = self.params.basis();
        let mut row = basis.pool().take_as(Secrecy::Key, basis.n());
        // One prime determines coefficients of -1, 0 and 1.
        row.copy_from_slice(self.s.row(0));
        basis.table(self.s.limbs(), 0).inverse(&mut row);
        let mut coeffs = small_secret(basis);
        for (c, &x) in coeffs.as_signed_mut().iter_mut().zip(row.iter()) {
            // Maps 0, 1 and q - 1 without a branch.
            *c = i8::from(x != 0) - 2 * i8::from(x > 1);
        }
        coeffs
    }

    /// Derives a seed from `context` and `material` under this key: BLAKE3 in key-derivation mode
    /// over the coefficients and the material. The seed reveals nothing about the key.
    pub(crate) fn derive(&self, context: &str, material: &[u8]) -> Seed {
        let mut hasher = blake3::Hasher::new_derive_key(context);
        hasher.update(self.coeffs().as_bytes()).update(material);
        let mut seed = Zeroizing::new([0; 32]);
        hasher.finalize_xof().fill(&mut *seed);
        // It buffers coefficients of the key.
        hasher.zeroize();
        Seed::from_bytes(*seed)
    }
}

impl core::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "SecretKey({}, ..)", self.id)
    }
}

/// An encryption of zero, `(-a s + e, a)`, for encrypting without the secret.
pub struct PublicKey {
    pub(crate) params: ParamsId,
    pub(crate) id: KeyId,
    /// The seed that `a` is expanded from.
    pub(crate) seed: Seed,
    pub(crate) zero: [RnsPoly<Eval>; 2],
}

impl core::fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "PublicKey({})", self.id)
    }
}

impl PublicKey {
    /// The secret key that the public key belongs to.
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// Parameters of the key.
    #[must_use]
    pub fn params_id(&self) -> ParamsId {
        self.params
    }

    /// The public seed of the uniform half.
    #[must_use]
    pub fn seed(&self) -> &Seed {
        &self.seed
    }
}

/// One encryption modulo `QP` per digit of the secret that it switches from. `P` is the product of
/// the key's special primes.
pub struct SwitchingKey {
    pub(crate) level: Level,
    /// The seed that the second halves are expanded from. `None` for the relinearisation key of a
    /// shared secret, whose second halves are sums over the key holders.
    pub(crate) seed: Option<Seed>,
    /// The first halves of all digits.
    pub(super) first: PackedPolys,
    /// The second halves; `None` if they are expanded at each use from the seed.
    pub(super) second: Option<PackedPolys>,
}

impl core::fmt::Debug for SwitchingKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "SwitchingKey(level {})", self.level)
    }
}

impl SwitchingKey {
    /// The highest level that the key serves.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// The public seed of the uniform halves, unless they are sums over the holders of a shared
    /// secret.
    #[must_use]
    pub fn seed(&self) -> Option<&Seed> {
        self.seed.as_ref()
    }

    /// Bytes of memory in use.
    fn bytes(&self) -> u64 {
        [Some(&self.first), self.second.as_ref()]
            .into_iter()
            .flatten()
            .map(PackedPolys::memory_bytes)
            .sum()
    }

    /// The primes of the key.
    pub(super) fn limbs(&self) -> LimbSet {
        self.first.limbs()
    }
}

/// Keys to an ephemeral secret, at level 0, and back, as [`Raise`] requires.
pub(crate) struct RaisingKeys {
    pub(crate) weight: u32,
    pub(crate) divisor: u128,
    pub(crate) to_sparse: SwitchingKey,
    pub(crate) to_dense: SwitchingKey,
    /// Keys back from images of the ephemeral secret.
    pub(crate) images: BTreeMap<GaloisElement, GaloisKey>,
}

impl RaisingKeys {
    fn fulfils(&self) -> Raise {
        Raise { level: self.to_dense.level, weight: self.weight, divisor: self.divisor }
    }
}

/// A switching key with the permutation that follows it.
pub(crate) struct GaloisKey {
    pub(crate) key: SwitchingKey,
    pub(crate) permutation: Permutation,
}

/// Public keys of an evaluator.
///
/// Half of a key is uniform and follows from its seed. Keys normally store both halves, which is
/// fastest. A generator ([`KeyGenerator::small_keys`](super::KeyGenerator::small_keys)) or a reader
/// can make small keys instead. Then only the relinearisation key is whole, and the uniform half of
/// every other key is expanded, row by row, at each use. The first halves of keys that a reader
/// maps stay in the file. All variants return the same bits.
pub struct EvaluationKeys {
    pub(crate) params: ParamsId,
    pub(crate) id: KeyId,
    pub(crate) relinearize: Option<SwitchingKey>,
    pub(crate) galois: BTreeMap<GaloisElement, GaloisKey>,
    pub(crate) raise: Option<RaisingKeys>,
    pub(crate) level_keys: BTreeMap<Level, LevelSwitchingKeys>,
}

/// Prints the request that the keys fulfil, not the keys.
impl core::fmt::Debug for EvaluationKeys {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("EvaluationKeys")
            .field("id", &self.id)
            .field("fulfils", &self.fulfils())
            .finish_non_exhaustive()
    }
}

/// Level keys for one level.
#[derive(Default)]
pub(crate) struct LevelSwitchingKeys {
    pub(crate) relinearize: Option<SwitchingKey>,
    pub(crate) galois: BTreeMap<GaloisElement, GaloisKey>,
}

/// The keys of a section of a file, and their purpose.
pub(super) enum KeySection {
    Relinearization(SwitchingKey),
    Galois(GaloisElement, SwitchingKey),
    /// Keys to the ephemeral secret and back.
    Raising(Raise, Box<[SwitchingKey; 2]>),
    Raised(GaloisElement, SwitchingKey),
    LevelRelinearization(Level, SwitchingKey),
    LevelGalois(Level, GaloisElement, SwitchingKey),
}

impl KeySection {
    pub(super) fn keys(&self) -> &[SwitchingKey] {
        match self {
            Self::Relinearization(key)
            | Self::Galois(_, key)
            | Self::Raised(_, key)
            | Self::LevelRelinearization(_, key)
            | Self::LevelGalois(_, _, key) => core::slice::from_ref(key),
            Self::Raising(_, keys) => &**keys,
        }
    }
}

impl EvaluationKeys {
    /// Stores the keys of a section. Sections for raising precede the keys that act on raised
    /// ciphertexts.
    pub(super) fn put(&mut self, params: &Params, section: KeySection) {
        let with_permutation = |g: GaloisElement, key| {
            (g, GaloisKey { key, permutation: Permutation::galois(params.log_n(), g.0 as usize) })
        };
        match section {
            KeySection::Relinearization(key) => self.relinearize = Some(key),
            KeySection::Galois(g, key) => self.galois.extend([with_permutation(g, key)]),
            KeySection::Raising(Raise { weight, divisor, .. }, keys) => {
                let ([to_sparse, to_dense], images) = (*keys, BTreeMap::new());
                self.raise = Some(RaisingKeys { weight, divisor, to_sparse, to_dense, images });
            }
            KeySection::Raised(g, key) => {
                if let Some(keys) = &mut self.raise {
                    keys.images.extend([with_permutation(g, key)]);
                }
            }
            KeySection::LevelRelinearization(level, key) => {
                self.level_keys.entry(level).or_default().relinearize = Some(key);
            }
            KeySection::LevelGalois(level, g, key) => {
                let keys = self.level_keys.entry(level).or_default();
                keys.galois.extend([with_permutation(g, key)]);
            }
        }
    }

    /// Returns an empty set of keys, for an evaluator that only adds ciphertexts of the key pair
    /// `id`.
    #[must_use]
    pub fn none(params: &Params, id: KeyId) -> Self {
        Self {
            params: params.id(),
            id,
            relinearize: None,
            galois: BTreeMap::new(),
            raise: None,
            level_keys: BTreeMap::new(),
        }
    }

    /// Returns the key level that relinearises at `level`, if any.
    pub(crate) fn relinearization_key_level(&self, params: &Params, level: Level) -> Option<Level> {
        let mut above = self.level_keys.range(params.levels().above(level));
        above.find(|(_, keys)| keys.relinearize.is_some()).map(|(&key_level, _)| key_level)
    }

    /// Returns the key that relinearises at `level`.
    pub(super) fn relinearization_key(
        &self,
        params: &Params,
        level: Level,
    ) -> Option<&SwitchingKey> {
        // The lowest key level that serves, because its keys have the fewest primes.
        let mut above = self.level_keys.range(params.levels().above(level));
        let level_keys = above.find_map(|(_, keys)| keys.relinearize.as_ref());
        level_keys.or(self.relinearize.as_ref().filter(|key| key.level >= level))
    }

    /// Returns the key for `g` at `level`, among the level keys for `key_level` or among the
    /// others.
    pub(super) fn galois_key(
        &self,
        key_level: Option<Level>,
        g: GaloisElement,
        level: Level,
    ) -> Option<&GaloisKey> {
        let keys = match &key_level {
            Some(key_level) => &self.level_keys.get(key_level)?.galois,
            None => &self.galois,
        };
        keys.get(&g).filter(|key| key.key.level >= level)
    }

    /// Returns `true` if there is a key for `g` at `level`.
    pub(crate) fn reaches(&self, params: &Params, g: GaloisElement, level: Level) -> bool {
        self.galois_key(self.key_level(params, level, &[g]), g, level).is_some()
    }

    /// Returns the key level for an operation at `level` that needs the keys of `elements`, or
    /// `None` for keys for every level; see [`KeyRequest::into_level_keys`]. If no key level has
    /// all of them, the one that lacks the fewest is chosen.
    pub(crate) fn key_level(
        &self,
        params: &Params,
        level: Level,
        elements: &[GaloisElement],
    ) -> Option<Level> {
        let lacks = |key_level: &Option<Level>| {
            // The identity needs no key, so it is never missing.
            let missing =
                |g: &&GaloisElement| g.0 != 1 && self.galois_key(*key_level, **g, level).is_none();
            elements.iter().filter(missing).count()
        };
        let above = || self.level_keys.range(params.levels().above(level));
        // From the lowest key level, which has the fewest primes, to the keys for every level.
        let key_levels = || above().map(|(&key_level, _)| Some(key_level)).chain([None]);
        let complete = key_levels().find(|key_level| lacks(key_level) == 0);
        // Reversed, so that the keys for every level win a tie.
        complete.or_else(|| key_levels().rev().min_by_key(lacks)).flatten()
    }

    /// The secret key that the keys belong to.
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// Parameters of the keys.
    #[must_use]
    pub fn params_id(&self) -> ParamsId {
        self.params
    }

    /// Returns the request that the keys fulfil.
    #[must_use]
    pub fn fulfils(&self) -> KeyRequest {
        KeyRequest {
            relinearize: self.relinearize.as_ref().map(SwitchingKey::level),
            galois: self.galois.iter().map(|(&g, key)| (g, key.key.level)).collect(),
            raise: self.raise.as_ref().map(RaisingKeys::fulfils),
            raised: self.raise.iter().flat_map(|keys| keys.images.keys().copied()).collect(),
            level_keys: self
                .level_keys
                .iter()
                .map(|(&level, keys)| (level, keys.fulfils()))
                .collect(),
        }
    }

    /// Bytes of memory in use.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sections().flatten().map(SwitchingKey::bytes).sum()
    }

    /// Iterates over all keys by the sections of files, in their order. The keys to an ephemeral
    /// secret and back share one section.
    pub(super) fn sections(&self) -> impl Iterator<Item = Vec<&SwitchingKey>> {
        let single = self.relinearize.iter().chain(self.galois.values().map(|key| &key.key));
        let raising = self.raise.iter().flat_map(|keys| {
            let images = keys.images.values().map(|image| vec![&image.key]);
            core::iter::once(vec![&keys.to_sparse, &keys.to_dense]).chain(images)
        });
        let level_keys = self.level_keys.values().flat_map(|keys| {
            keys.relinearize.iter().chain(keys.galois.values().map(|key| &key.key))
        });
        let alone = |key| vec![key];
        single.map(alone).chain(raising).chain(level_keys.map(alone))
    }
}

impl LevelSwitchingKeys {
    fn fulfils(&self) -> LevelKeys {
        LevelKeys {
            relinearize: self.relinearize.is_some(),
            galois: self.galois.keys().copied().collect(),
        }
    }
}

#[cfg(test)]
mod tests;
