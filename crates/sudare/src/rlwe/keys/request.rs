//! Keys that a computation needs, and their cost.

use crate::{
    Error, Result,
    ring::LimbSet,
    rlwe::{GaloisElement, KeySecurity, Level, Params, SecretDistribution, security_bits},
};
use core::ops::RangeInclusive;
use std::collections::{BTreeMap, BTreeSet};

/// Raising from level 0 through an ephemeral sparse secret.
///
/// A polynomial `c_0 + c_1 s` modulo `q_0`, lifted to a larger modulus, is `m + q_0 I`. A sparser
/// secret makes `I` smaller: `|I| <= (weight + 1) / 2`. A main secret of this weight would not be
/// secure at the modulus of the whole chain. The ciphertext is therefore switched to an ephemeral
/// secret, lifted, and switched back. The key to the ephemeral secret has a modulus of `q_0` and a
/// few special primes only.
///
/// Exact ciphertexts are rounded to a modulus `d` before they are lifted, and are divided by it on
/// the way back: `c_0 + c_1 s' = m + d I` becomes `d^-1 m + I`. Since `c_1` is small only before
/// the division, the key contains the divided ephemeral secret.
///
/// Reference: [BTH22](https://eprint.iacr.org/2022/024). Deviations: both keys have one digit; they
/// have the minimum number of special primes whose product exceeds `q_0`, since the polynomial
/// switched back has coefficients below `q_0 / 2`; the division.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Raise {
    /// The highest level to raise to.
    pub level: Level,
    /// Nonzero coefficients of the ephemeral secret.
    pub weight: u32,
    /// Divisor `d` applied on the way back: 1 for CKKS, a plaintext modulus for exact ciphertexts.
    /// 0 marks a merged request for several divisors, which no key serves.
    pub divisor: u128,
}

impl Raise {
    /// Keeps `|I|` at 16 or less, and at 14 or less except with probability 2^-81 per ciphertext of
    /// 2^16 coefficients.
    pub const DEFAULT_WEIGHT: u32 = 32;

    /// Raises to `level`, through a secret of weight [`Raise::DEFAULT_WEIGHT`], without a division.
    #[must_use]
    pub fn to(level: Level) -> Self {
        Self { level, weight: Self::DEFAULT_WEIGHT, divisor: 1 }
    }

    /// Raises through a secret of another weight.
    #[must_use]
    pub fn with_weight(self, weight: u32) -> Self {
        Self { weight, ..self }
    }

    /// Raises ciphertexts that are rounded to this plaintext modulus.
    #[must_use]
    pub fn with_divisor(self, divisor: u128) -> Self {
        Self { divisor, ..self }
    }

    /// Returns the request that serves both.
    fn merged(self, other: Self) -> Self {
        Self {
            level: self.level.max(other.level),
            weight: self.weight.min(other.weight),
            divisor: if self.divisor == other.divisor { self.divisor } else { 0 },
        }
    }

    /// Returns the primes of the key to the ephemeral secret and of the key back.
    pub(in crate::rlwe) fn limbs(self, params: &Params) -> [LimbSet; 2] {
        [Level(0), self.level].map(|level| params.raising_limbs(level))
    }

    fn check(self, params: &Params) -> Result<()> {
        // First, because the primes of a level out of range cannot be listed.
        params.check_level(self.level)?;
        let n = params.basis().n();
        let log2_q0 = params.log2_q(Level(0));
        if self.weight == 0 || self.weight as usize > n {
            let problem = format!("a weight of {} is not within 1 to N = {n}", self.weight);
            return Err(Error::InvalidSpec { field: "raise", problem });
        }
        let mut primes = params.basis().tables(params.limbs(self.level));
        // The key contains the secret divided by this number, which needs an inverse modulo each
        // prime.
        if primes.any(|table| table.modulus().reduce_u128(self.divisor) == 0) {
            let problem = match self.divisor {
                0 => "circuits with different plaintext moduli need separate keys".into(),
                d => {
                    format!(
                        "ciphertexts cannot be divided by {d}, which is a multiple of one of their primes"
                    )
                }
            };
            return Err(Error::InvalidSpec { field: "raise", problem });
        }
        let log2_p = params.log2_p();
        if log2_p < log2_q0 {
            let problem = format!(
                "the special primes have {log2_p:.1} bits together, but raising through an \
                 ephemeral secret needs the {log2_q0:.1} bits of level 0"
            );
            return Err(Error::InvalidSpec { field: "p", problem });
        }
        Ok(())
    }
}

/// The keys that a circuit needs. The circuit writes the request, and the key owner fulfils it.
///
/// Requests merge with `|=`. Each key keeps the highest requested level, so that no key is larger
/// than needed. Of two weights of an ephemeral secret the smaller is kept: a plan for the larger
/// `I` also works with the smaller one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyRequest {
    /// Highest level of relinearisations.
    pub relinearize: Option<Level>,
    /// Each Galois element with its highest level.
    pub galois: BTreeMap<GaloisElement, Level>,
    /// Raising through an ephemeral secret. Without it, raising uses the main secret.
    pub raise: Option<Raise>,
    /// Galois elements that act on ciphertexts raised through the ephemeral secret, on the way back
    /// from it. Their keys have one digit.
    pub raised: BTreeSet<GaloisElement>,
    /// Level keys by level, see [`KeyRequest::into_level_keys`].
    pub level_keys: BTreeMap<Level, LevelKeys>,
}

/// The level keys for one level in a [`KeyRequest`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LevelKeys {
    /// `true` for a relinearisation key.
    pub relinearize: bool,
    /// Galois elements that act.
    pub galois: BTreeSet<GaloisElement>,
}

impl LevelKeys {
    /// Number of keys.
    #[must_use]
    pub fn count(&self) -> usize {
        usize::from(self.relinearize) + self.galois.len()
    }
}

impl KeyRequest {
    /// Returns an empty request.
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
        // Some rotations are the identity, such as the one by all slots. It needs no key.
        steps
            .into_iter()
            .map(|k| GaloisElement::rotation(log_n, k))
            .filter(|g| g.0 != 1)
            .fold(self, |request, g| request.automorphism(g, level))
    }

    /// Adds raising through an ephemeral secret.
    #[must_use]
    pub fn raise(mut self, raise: Raise) -> Self {
        self.raise = Some(self.raise.map_or(raise, |own| own.merged(raise)));
        self
    }

    /// Adds automorphisms of ciphertexts raised through the ephemeral secret.
    #[must_use]
    pub fn raised_automorphisms(
        mut self,
        elements: impl IntoIterator<Item = GaloisElement>,
    ) -> Self {
        self.raised.extend(elements.into_iter().filter(|g| g.0 != 1));
        self
    }

    /// Turns keys for relinearisation and automorphisms into level keys where the parameters have
    /// them ([`Params::level_key_limbs`]).
    ///
    /// A level key serves the requested level and the levels below. It has the number of special
    /// primes that makes a key switch at that level cheapest, compared with a key that serves the
    /// top. At the lowest levels it has fewer. In the middle it has more, where the modulus of a
    /// key has room for them, so that there are fewer digits. An operation uses the level keys for
    /// the lowest level at or above its own that has all the keys it needs. Otherwise it uses the
    /// keys for every level.
    #[must_use]
    pub fn into_level_keys(self, params: &Params) -> Self {
        let has =
            |level: Level| level <= params.upper_top() && params.level_key_limbs(level).is_some();
        self.moved_to_level_keys(|level| has(level).then_some(level))
    }

    /// Returns the keys of several stages, with keys for the level of each. A stage without level
    /// keys shares the keys of another that has all it needs.
    pub(crate) fn of_stages(stages: Vec<Self>, params: &Params) -> Self {
        let mut request = Self::new();
        let mut others = Vec::new();
        for stage in stages {
            // Each stage on its own: merged requests keep only the highest level of each key.
            let mut keys = stage.into_level_keys(params);
            request |= Self { level_keys: core::mem::take(&mut keys.level_keys), ..Self::new() };
            others.push(keys);
        }
        others.retain(|keys| {
            keys.highest()
                .is_none_or(|level| request.key_level(params.levels().above(level), keys).is_none())
        });
        others.iter().for_each(|keys| request |= keys);
        request
    }

    /// Returns the highest level of keys for every level.
    fn highest(&self) -> Option<Level> {
        self.relinearize.iter().chain(self.galois.values()).max().copied()
    }

    /// Returns the same request with level keys for a level, computed from the level of each key,
    /// where one is given.
    pub(crate) fn moved_to_level_keys(
        mut self,
        key_level: impl Fn(Level) -> Option<Level>,
    ) -> Self {
        if let Some(key_level) = self.relinearize.and_then(&key_level) {
            self.relinearize = None;
            self.level_keys.entry(key_level).or_default().relinearize = true;
        }
        self.galois.retain(|&g, &mut level| match key_level(level) {
            Some(key_level) => {
                self.level_keys.entry(key_level).or_default().galois.insert(g);
                false
            }
            None => true,
        });
        self
    }

    /// Returns the key level for an operation that needs the keys of `needed`, if keys for any of
    /// `levels` serve it.
    pub(crate) fn key_level(&self, levels: RangeInclusive<Level>, needed: &Self) -> Option<Level> {
        let has = |keys: &LevelKeys| {
            (keys.relinearize || needed.relinearize.is_none())
                && needed.galois.keys().all(|g| keys.galois.contains(g))
        };
        self.level_keys.range(levels).find(|(_, keys)| has(keys)).map(|(&key_level, _)| key_level)
    }

    /// Number of keys. The keys to an ephemeral secret and back count as one.
    #[must_use]
    pub fn count(&self) -> usize {
        let single = [self.relinearize.is_some(), self.raise.is_some()];
        let single: usize = single.into_iter().map(usize::from).sum();
        let level_keys: usize = self.level_keys.values().map(LevelKeys::count).sum();
        self.galois.len() + self.raised.len() + single + level_keys
    }

    /// Returns each kind of key with its secret and the `log2` of its modulus. Levels must be in
    /// range.
    pub(super) fn moduli(&self, params: &Params) -> Vec<(String, SecretDistribution, f64)> {
        let main = params.spec().secret;
        let switching =
            self.highest().map(|level| ("evaluation keys".into(), main, params.log2_qp(level)));
        let level_keys = self.level_keys.keys().filter_map(|&level| params.level_key_limbs(level));
        let level_keys =
            level_keys.map(|limbs| params.basis().log2_product(limbs)).reduce(f64::max);
        let level_keys = level_keys.map(|log2_q| ("level evaluation keys".into(), main, log2_q));
        let raising = self.raise.map(|raise| {
            let h = raise.weight;
            let [to, from] = raise.limbs(params).map(|limbs| params.basis().log2_product(limbs));
            let sparse = SecretDistribution::FixedWeight { h };
            [
                (format!("key to an ephemeral secret of weight {h}"), sparse, to),
                ("key from the ephemeral secret".into(), main, from),
            ]
        });
        switching.into_iter().chain(level_keys).chain(raising.into_iter().flatten()).collect()
    }

    /// Estimates the security of each kind of requested key, sufficient or not.
    ///
    /// # Errors
    /// Errors of [`KeyRequest::bytes`], except [`Error::Insecure`].
    pub fn key_security(&self, params: &Params) -> Result<Vec<KeySecurity>> {
        self.check_shape(params)?;
        let security = |(what, secret, log2_q)| KeySecurity {
            what,
            log2_q,
            security_bits: security_bits(params.log_n(), secret, log2_q),
        };
        Ok(self.moduli(params).into_iter().map(security).collect())
    }

    /// Rejects keys that the parameters do not support.
    pub(crate) fn check(&self, params: &Params) -> Result<()> {
        // First, because the moduli of keys need levels in range.
        self.check_shape(params)?;
        for (what, secret, log2_q) in self.moduli(params) {
            params.check_price(&format!("the {what}"), secret, log2_q)?;
        }
        Ok(())
    }

    fn check_shape(&self, params: &Params) -> Result<()> {
        for &level in self.relinearize.iter().chain(self.galois.values()) {
            params.check_chain_level(level)?;
        }
        for (&level, keys) in &self.level_keys {
            params.check_level(level)?;
            let invalid = |problem| Err(Error::InvalidSpec { field: "level_keys", problem });
            if params.level_key_limbs(level).is_none() {
                return invalid(format!(
                    "level {level} has no level keys, because they would equal other keys: request \
                     the others, as into_level_keys does"
                ));
            }
            if keys.count() == 0 {
                return invalid(format!(
                    "the level keys for level {level} are empty: add a key, or leave them out"
                ));
            }
        }
        if let Some(raise) = self.raise {
            raise.check(params)?;
        } else if !self.raised.is_empty() {
            return Err(Error::InvalidSpec {
                field: "raised",
                problem: "automorphisms of raised ciphertexts need raising through an ephemeral \
                          secret: request it with `Raise`"
                    .into(),
            });
        }
        let log_n = params.log_n();
        match self
            .galois
            .keys()
            .chain(&self.raised)
            .chain(self.level_keys.values().flat_map(|keys| &keys.galois))
            .find(|g| g.0 % 2 == 0 || g.0 >> (log_n + 1) != 0)
        {
            None => Ok(()),
            Some(g) => Err(Error::InvalidSpec {
                field: "galois",
                problem: format!("{g} is not an odd number below 2N = {}", 2u64 << log_n),
            }),
        }
    }

    /// Bytes of whole keys in memory.
    ///
    /// # Errors
    /// Errors of [`KeyGenerator::evaluation_keys`](crate::rlwe::KeyGenerator::evaluation_keys):
    /// [`Error::LevelOutOfRange`]; [`Error::InvalidSpec`] for a Galois element that is even or too
    /// large, the weight of an ephemeral secret, or special primes below the modulus of level 0
    /// where there is one; [`Error::Insecure`].
    pub fn bytes(&self, params: &Params) -> Result<u64> {
        self.check(params)?;
        let levels = self.relinearize.iter().chain(self.galois.values());
        let switching: u64 = levels.map(|&level| params.switching_key_bytes(level)).sum();
        let packed = |limbs| 2 * params.basis().packed_bytes(limbs);
        let raising = self.raise.map_or(0, |raise| {
            let [to, back] = raise.limbs(params).map(packed);
            to + back * (1 + self.raised.len() as u64)
        });
        let level_keys = |(&level, keys): (&Level, &LevelKeys)| {
            let limbs = params.limbs_of_keys(Some(level), level);
            2 * params.half_key_bytes(limbs) * keys.count() as u64
        };
        Ok(switching + raising + self.level_keys.iter().map(level_keys).sum::<u64>())
    }

    /// Bytes of small keys in memory: see [`EvaluationKeys`](crate::rlwe::EvaluationKeys).
    ///
    /// # Errors
    /// See [`KeyRequest::bytes`].
    pub fn small_bytes(&self, params: &Params) -> Result<u64> {
        let whole = Self {
            relinearize: self.relinearize,
            level_keys: (self.level_keys.iter().filter(|(_, keys)| keys.relinearize))
                .map(|(&level, _)| (level, LevelKeys { relinearize: true, ..LevelKeys::default() }))
                .collect(),
            ..Self::default()
        };
        // Half of all keys, and the other half of the keys that stay whole.
        Ok(self.bytes(params)?.midpoint(whole.bytes(params)?))
    }
}

impl core::ops::BitOrAssign<&KeyRequest> for KeyRequest {
    fn bitor_assign(&mut self, other: &Self) {
        self.relinearize = self.relinearize.max(other.relinearize);
        for (&g, &level) in &other.galois {
            let highest = self.galois.entry(g).or_insert(level);
            *highest = level.max(*highest);
        }
        if let Some(raise) = other.raise {
            // Merged and not replaced, because the smaller weight serves both circuits.
            *self = core::mem::take(self).raise(raise);
        }
        self.raised.extend(&other.raised);
        for (&level, keys) in &other.level_keys {
            let level_keys = self.level_keys.entry(level).or_default();
            level_keys.relinearize |= keys.relinearize;
            level_keys.galois.extend(&keys.galois);
        }
    }
}

impl core::ops::BitOrAssign for KeyRequest {
    fn bitor_assign(&mut self, other: Self) {
        *self |= &other;
    }
}
