use super::{GaloisElement, KeyId, Level, Params, ParamsId, SecretDistribution};
use crate::{
    Error, Result,
    ring::{Eval, RnsPoly},
};
use std::collections::BTreeMap;
use sudare_arith::{Permutation, prng::Seed};
use zeroize::Zeroizing;

/// A secret key: wiped when dropped; neither `Clone` nor printable.
pub struct SecretKey {
    pub(crate) params: Params,
    pub(crate) id: KeyId,
    /// Modulo every prime.
    pub(crate) s: RnsPoly<Eval>,
}

impl SecretKey {
    /// Its fingerprint, which says nothing about the key.
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// Its parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The key with these coefficients, if they are as the parameters say.
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub(super) fn from_coeffs(params: &Params, id: KeyId, coeffs: &[i8]) -> Result<Self> {
        let malformed = |problem: String| Err(Error::Malformed { what: "secret key", problem });
        let n = params.basis().n();
        if coeffs.len() != n {
            return malformed(format!("it has {} coefficients, {n} are needed", coeffs.len()));
        }
        // Without branches on a coefficient.
        let ternary = coeffs.iter().fold(true, |all, &c| all & (c.wrapping_add(1) as u8 <= 2));
        if !ternary {
            return malformed("a coefficient is not -1, 0 or 1".into());
        }
        let weight = coeffs.iter().map(|&c| u32::from(c as u8 & 1)).sum::<u32>();
        if let SecretDistribution::FixedWeight { h } = params.spec().secret
            && weight != h
        {
            return malformed(format!("its weight is not {h} as its parameters say"));
        }
        let s = params.basis().from_small(coeffs, params.basis().all(), true);
        Ok(Self { params: params.clone(), id, s })
    }

    /// Its coefficients, each -1, 0 or 1.
    pub(super) fn coeffs(&self) -> Zeroizing<Vec<i8>> {
        let basis = self.params.basis();
        let mut row = basis.pool().take_secret(basis.n());
        row.copy_from_slice(self.s.row(0));
        basis.table(self.s.limbs(), 0).inverse(&mut row);
        // Of 0, 1 and q - 1, without a branch.
        Zeroizing::new(row.iter().map(|&x| i8::from(x != 0) - 2 * i8::from(x > 1)).collect())
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
    /// From which `a` is expanded.
    pub(crate) seed: Seed,
    pub(crate) zero: [RnsPoly<Eval>; 2],
}

impl PublicKey {
    /// The secret key that it belongs to.
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The parameters it was made under.
    #[must_use]
    pub fn params_id(&self) -> ParamsId {
        self.params
    }

    /// The public seed of its uniform half.
    #[must_use]
    pub fn seed(&self) -> &Seed {
        &self.seed
    }
}

/// The keys that a circuit needs. Circuits write it, the key owner fulfils it.
///
/// Requests merge with `|=`; each key keeps the highest level asked for, so that
/// none is larger than needed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyRequest {
    /// Highest level at which something is relinearised.
    pub relinearize: Option<Level>,
    /// Each Galois element with the highest level at which it acts.
    pub galois: BTreeMap<GaloisElement, Level>,
}

impl KeyRequest {
    /// Nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds relinearisation at `level` and below.
    #[must_use]
    pub fn relinearize(mut self, level: Level) -> Self {
        self.relinearize = self.relinearize.max(Some(level));
        self
    }

    /// Adds the automorphism `g` at `level` and below.
    #[must_use]
    pub fn automorphism(mut self, g: GaloisElement, level: Level) -> Self {
        let highest = self.galois.entry(g).or_insert(level);
        *highest = level.max(*highest);
        self
    }

    /// Adds rotations by each of `steps` at `level` and below.
    #[must_use]
    pub fn rotations(self, log_n: u32, steps: impl IntoIterator<Item = i64>, level: Level) -> Self {
        steps
            .into_iter()
            .map(|k| GaloisElement::rotation(log_n, k))
            .filter(|g| g.0 != 1)
            .fold(self, |request, g| request.automorphism(g, level))
    }

    /// Number of keys.
    #[must_use]
    pub fn count(&self) -> usize {
        self.galois.len() + usize::from(self.relinearize.is_some())
    }

    /// Refuses what the parameters have no keys for.
    pub(crate) fn check(&self, params: &Params) -> Result<()> {
        for &level in self.relinearize.iter().chain(self.galois.values()) {
            params.check_level(level)?;
            params.check_price("an evaluation key", params.log2_qp(level))?;
        }
        let log_n = params.log_n();
        match self.galois.keys().find(|g| g.0 % 2 == 0 || g.0 >> (log_n + 1) != 0) {
            None => Ok(()),
            Some(g) => Err(Error::InvalidSpec {
                field: "galois",
                problem: format!("{g} is not an odd number below 2N = {}", 2u64 << log_n),
            }),
        }
    }

    /// Bytes of the keys in memory.
    ///
    /// # Errors
    /// What [`KeyGenerator::evaluation_keys`](super::KeyGenerator::evaluation_keys)
    /// refuses: [`Error::LevelOutOfRange`]; [`Error::InvalidSpec`] for a Galois element
    /// that is even or too large; [`Error::Insecure`].
    pub fn bytes(&self, params: &Params) -> Result<u64> {
        self.check(params)?;
        let levels = self.relinearize.iter().chain(self.galois.values());
        Ok(levels.map(|&level| params.switching_key_bytes(level)).sum())
    }
}

impl core::ops::BitOrAssign<&KeyRequest> for KeyRequest {
    fn bitor_assign(&mut self, other: &Self) {
        self.relinearize = self.relinearize.max(other.relinearize);
        for (&g, &level) in &other.galois {
            let highest = self.galois.entry(g).or_insert(level);
            *highest = level.max(*highest);
        }
    }
}

impl core::ops::BitOrAssign for KeyRequest {
    fn bitor_assign(&mut self, other: Self) {
        *self |= &other;
    }
}

/// One encryption modulo `QP` per digit of the secret it switches from.
pub struct SwitchingKey {
    pub(crate) level: Level,
    /// From which the second halves are expanded.
    pub(crate) seed: Seed,
    pub(crate) digits: Vec<[RnsPoly<Eval>; 2]>,
}

impl SwitchingKey {
    /// The highest level at which it can be used.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// The public seed of its uniform halves.
    #[must_use]
    pub fn seed(&self) -> &Seed {
        &self.seed
    }
}

/// A switching key with the permutation that follows it.
pub(crate) struct GaloisKey {
    pub(crate) key: SwitchingKey,
    pub(crate) permutation: Permutation,
}

/// Public keys of an evaluator.
pub struct EvaluationKeys {
    pub(crate) params: ParamsId,
    pub(crate) id: KeyId,
    pub(crate) relinearize: Option<SwitchingKey>,
    pub(crate) galois: BTreeMap<GaloisElement, GaloisKey>,
}

impl EvaluationKeys {
    /// The secret key that they belong to.
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The parameters they were made under.
    #[must_use]
    pub fn params_id(&self) -> ParamsId {
        self.params
    }

    /// What they can do, as a request that they fulfil.
    #[must_use]
    pub fn fulfils(&self) -> KeyRequest {
        KeyRequest {
            relinearize: self.relinearize.as_ref().map(SwitchingKey::level),
            galois: self.galois.iter().map(|(&g, key)| (g, key.key.level)).collect(),
        }
    }
}
