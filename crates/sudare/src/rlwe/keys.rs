use super::{
    GaloisElement, KeyId, KeySecurity, Level, Params, ParamsId, SecretDistribution,
    keygen::small_secret, security_bits,
};
use crate::{
    Error, Result,
    ring::{Eval, LimbSet, PackedPolys, RnsPoly},
};
use core::ops::RangeInclusive;
use std::collections::{BTreeMap, BTreeSet};
use sudare_arith::{
    Permutation,
    mem::{Buf, Secrecy},
    prng::Seed,
};
use zeroize::{Zeroize, Zeroizing};

/// A secret key: wiped when dropped; neither `Clone` nor printable. In a process that is forked
/// from the one that holds it, every use of it is [`Error::Forked`].
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

    /// The key with these coefficients, each -1, 0 or 1, as many nonzero as the parameters say.
    pub(super) fn new(params: &Params, id: KeyId, coeffs: &[i8]) -> Self {
        let s = params.basis().from_small(coeffs, params.basis().all(), Secrecy::Key);
        Self { params: params.clone(), id, s }
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
        Ok(Self::new(params, id, coeffs))
    }

    /// Refuses a key of other parameters, and one that stayed in the process that this one was
    /// forked from.
    pub(crate) fn check(&self, params: &Params) -> Result<()> {
        params.check_id("secret key", self.params.id())?;
        if self.s.is_lost() { Err(Error::Forked { what: "secret key" }) } else { Ok(()) }
    }

    /// Its coefficients, signed bytes, each -1, 0 or 1.
    pub(super) fn coeffs(&self) -> Buf {
        let basis = self.params.basis();
        let mut row = basis.pool().take_as(Secrecy::Key, basis.n());
        row.copy_from_slice(self.s.row(0));
        basis.table(self.s.limbs(), 0).inverse(&mut row);
        let mut coeffs = small_secret(basis);
        for (c, &x) in coeffs.as_signed_mut().iter_mut().zip(row.iter()) {
            // Of 0, 1 and q - 1, without a branch.
            *c = i8::from(x != 0) - 2 * i8::from(x > 1);
        }
        coeffs
    }

    /// A seed that `context` and `material` determine under this key, and that tells nothing of it:
    /// BLAKE3 in key-derivation mode over the coefficients and the material.
    pub(crate) fn derive(&self, context: &str, material: &[u8]) -> Seed {
        let mut hasher = blake3::Hasher::new_derive_key(context);
        hasher.update(self.coeffs().as_bytes()).update(material);
        let mut seed = Zeroizing::new([0; 32]);
        hasher.finalize_xof().fill(&mut *seed);
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

/// Raising from level 0 through an ephemeral sparse secret.
///
/// A polynomial `c_0 + c_1 s` modulo `q_0`, lifted to a larger modulus, is `m + q_0 I`,
/// and `I` is the smaller the sparser the secret is: `|I| <= (weight + 1) / 2`. A main
/// secret so sparse would have to be sparse at the modulus of the whole chain. So the
/// ciphertext is switched to an ephemeral secret, lifted, and switched back. The key to
/// the ephemeral secret has a modulus of `q_0` and a few special primes only.
///
/// Exact ciphertexts are rounded to a modulus `d` before they are lifted, and what is lifted is
/// divided by it on the way back: `c_0 + c_1 s' = m + d I` becomes `d^-1 m + I`. Since `c_1` is
/// small only before that, it is the ephemeral secret that is divided, in the key.
///
/// Reference: [BTH22](https://eprint.iacr.org/2022/024). Deviations: both
/// keys have one digit, and no more special primes than exceed `q_0` together, since
/// what is switched back has coefficients below `q_0 / 2`; the division.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Raise {
    /// The highest level that is raised to.
    pub level: Level,
    /// Nonzero coefficients of the ephemeral secret.
    pub weight: u32,
    /// What ciphertexts are divided by on the way back, `d`: 1 for those of CKKS, a plaintext
    /// modulus for exact ones. 0 in what was merged of requests for several: no key serves them.
    pub divisor: u128,
}

impl Raise {
    /// Keeps `|I|` at 16 or less, and at 14 or less but for a chance of 2^-81 a ciphertext
    /// of 2^16 coefficients.
    pub const DEFAULT_WEIGHT: u32 = 32;

    /// To `level`, through a secret of weight [`Raise::DEFAULT_WEIGHT`], without a division.
    #[must_use]
    pub fn to(level: Level) -> Self {
        Self { level, weight: Self::DEFAULT_WEIGHT, divisor: 1 }
    }

    /// The same through a secret of another weight.
    #[must_use]
    pub fn with_weight(self, weight: u32) -> Self {
        Self { weight, ..self }
    }

    /// The same with a division.
    #[must_use]
    pub fn with_divisor(self, divisor: u128) -> Self {
        Self { divisor, ..self }
    }

    /// What serves both.
    fn merged(self, other: Self) -> Self {
        Self {
            level: self.level.max(other.level),
            weight: self.weight.min(other.weight),
            divisor: if self.divisor == other.divisor { self.divisor } else { 0 },
        }
    }

    /// Primes of the key to the ephemeral secret and of the one back.
    pub(super) fn limbs(self, params: &Params) -> [LimbSet; 2] {
        [Level(0), self.level].map(|level| params.raising_limbs(level))
    }

    fn check(self, params: &Params) -> Result<()> {
        params.check_level(self.level)?;
        let (n, log2_q0) = (params.basis().n(), params.log2_q(Level(0)));
        if self.weight == 0 || self.weight as usize > n {
            let problem = format!("a weight of {} is not within 1 to N = {n}", self.weight);
            return Err(Error::InvalidSpec { field: "raise", problem });
        }
        let mut primes = params.basis().tables(params.limbs(self.level));
        if primes.any(|table| table.modulus().reduce_u128(self.divisor) == 0) {
            let problem = match self.divisor {
                0 => "circuits with different plaintext moduli need keys of their own".into(),
                d => {
                    format!("ciphertexts cannot be divided by {d}, a multiple of a prime of theirs")
                }
            };
            return Err(Error::InvalidSpec { field: "raise", problem });
        }
        let log2_p = params.log2_p();
        if log2_p < log2_q0 {
            let problem = format!(
                "the special primes have {log2_p:.1} bits together, raising through an \
                 ephemeral secret needs the {log2_q0:.1} bits of level 0"
            );
            return Err(Error::InvalidSpec { field: "p", problem });
        }
        Ok(())
    }
}

/// The keys that a circuit needs. Circuits write it, the key owner fulfils it.
///
/// Requests merge with `|=`; each key keeps the highest level asked for, so that
/// none is larger than needed. Of two weights of an ephemeral secret the smaller is
/// kept: what was planned for the larger `I` works with the smaller one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyRequest {
    /// Highest level at which something is relinearised.
    pub relinearize: Option<Level>,
    /// Each Galois element with the highest level at which it acts.
    pub galois: BTreeMap<GaloisElement, Level>,
    /// Raising through an ephemeral secret. Without it, raising is under the main one.
    pub raise: Option<Raise>,
    /// Galois elements that act on what is raised through the ephemeral secret, on the way
    /// back from it. Such keys have one digit.
    pub raised: BTreeSet<GaloisElement>,
    /// Level keys by level, see [`KeyRequest::into_level_keys`].
    pub level_keys: BTreeMap<Level, LevelKeys>,
}

/// What level keys for one level are asked for, in a [`KeyRequest`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LevelKeys {
    /// Whether something is relinearised.
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

    /// Adds raising through an ephemeral secret.
    #[must_use]
    pub fn raise(mut self, raise: Raise) -> Self {
        self.raise = Some(self.raise.map_or(raise, |own| own.merged(raise)));
        self
    }

    /// Adds automorphisms of what is raised through the ephemeral secret.
    #[must_use]
    pub fn raised_automorphisms(
        mut self,
        elements: impl IntoIterator<Item = GaloisElement>,
    ) -> Self {
        self.raised.extend(elements.into_iter().filter(|g| g.0 != 1));
        self
    }

    /// The same with level keys instead of keys for relinearisation and automorphisms, where
    /// the parameters have them ([`Params::level_key_limbs`]).
    ///
    /// A level key is for the level that it is asked for and those below, with as many
    /// special primes as make a key switch at that level cheapest: next to a key that serves
    /// the top, which may be there for the same automorphism, fewer at the lowest levels,
    /// and in the middle more, where the modulus of a key has room for them, so that there
    /// are fewer digits. An operation uses the level keys for the lowest level at or above
    /// its own that has all it needs, and else the others.
    #[must_use]
    pub fn into_level_keys(self, params: &Params) -> Self {
        let has =
            |level: Level| level <= params.upper_top() && params.level_key_limbs(level).is_some();
        self.moved_to_level_keys(|level| has(level).then_some(level))
    }

    /// The keys of several stages, with keys for the level of each. A stage without level keys
    /// shares those of another that has all it needs.
    pub(crate) fn of_stages(stages: Vec<Self>, params: &Params) -> Self {
        let mut request = Self::new();
        let mut others = Vec::new();
        for stage in stages {
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

    /// The highest level of keys for every level.
    fn highest(&self) -> Option<Level> {
        self.relinearize.iter().chain(self.galois.values()).max().copied()
    }

    /// The same with level keys for a level given by that of each key, where there is one.
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

    /// The key level for an operation that needs the keys of `needed`, if not
    /// others, where those for any of `levels` serve.
    pub(crate) fn key_level(&self, levels: RangeInclusive<Level>, needed: &Self) -> Option<Level> {
        let has = |keys: &LevelKeys| {
            (keys.relinearize || needed.relinearize.is_none())
                && needed.galois.keys().all(|g| keys.galois.contains(g))
        };
        self.level_keys.range(levels).find(|(_, keys)| has(keys)).map(|(&key_level, _)| key_level)
    }

    /// Number of keys; those to an ephemeral secret and back count as one.
    #[must_use]
    pub fn count(&self) -> usize {
        let single = [self.relinearize.is_some(), self.raise.is_some()];
        let single: usize = single.into_iter().map(usize::from).sum();
        let level_keys: usize = self.level_keys.values().map(LevelKeys::count).sum();
        self.galois.len() + self.raised.len() + single + level_keys
    }

    /// Each kind of key with its secret and the `log2` of its modulus. Levels are in
    /// range.
    fn moduli(&self, params: &Params) -> Vec<(String, SecretDistribution, f64)> {
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

    /// What each kind of key asked for costs an attacker, whether or not that is enough.
    ///
    /// # Errors
    /// As [`KeyRequest::bytes`], but for [`Error::Insecure`].
    pub fn key_security(&self, params: &Params) -> Result<Vec<KeySecurity>> {
        self.check_shape(params)?;
        let security = |(what, secret, log2_q)| KeySecurity {
            what,
            log2_q,
            security_bits: security_bits(params.log_n(), secret, log2_q),
        };
        Ok(self.moduli(params).into_iter().map(security).collect())
    }

    /// Refuses what the parameters have no keys for.
    pub(crate) fn check(&self, params: &Params) -> Result<()> {
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
                    "level {level} has no level keys, as they would be like others: ask for \
                     those, as into_level_keys does"
                ));
            }
            if keys.count() == 0 {
                return invalid(format!("there is no key in those for level {level}"));
            }
        }
        if let Some(raise) = self.raise {
            raise.check(params)?;
        } else if !self.raised.is_empty() {
            return Err(Error::InvalidSpec {
                field: "raised",
                problem: "automorphisms of what is raised need raising through an ephemeral \
                          secret"
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
    /// What [`KeyGenerator::evaluation_keys`](super::KeyGenerator::evaluation_keys)
    /// refuses: [`Error::LevelOutOfRange`]; [`Error::InvalidSpec`] for a Galois element
    /// that is even or too large, the weight of an ephemeral secret, or special primes
    /// below the modulus of level 0 where there is one; [`Error::Insecure`].
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

    /// Bytes of small keys in memory: see [`EvaluationKeys`].
    ///
    /// # Errors
    /// As [`KeyRequest::bytes`].
    pub fn small_bytes(&self, params: &Params) -> Result<u64> {
        let whole = Self {
            relinearize: self.relinearize,
            level_keys: (self.level_keys.iter().filter(|(_, keys)| keys.relinearize))
                .map(|(&level, _)| (level, LevelKeys { relinearize: true, ..LevelKeys::default() }))
                .collect(),
            ..Self::default()
        };
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

/// One encryption modulo `QP` per digit of the secret it switches from; `P` is the
/// product of the special primes that it has.
pub struct SwitchingKey {
    pub(crate) level: Level,
    /// From which the second halves are expanded.
    pub(crate) seed: Seed,
    /// The first halves of all digits.
    pub(super) first: PackedPolys,
    /// The second ones, unless they are to be expanded when they are used.
    pub(super) second: Option<PackedPolys>,
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

    /// Bytes of memory that it takes.
    fn bytes(&self) -> u64 {
        [Some(&self.first), self.second.as_ref()]
            .into_iter()
            .flatten()
            .map(PackedPolys::memory_bytes)
            .sum()
    }

    /// Its primes.
    pub(super) fn limbs(&self) -> LimbSet {
        self.first.limbs()
    }
}

/// Keys to an ephemeral secret, at level 0, and back: what [`Raise`] asks for.
pub(crate) struct RaisingKeys {
    pub(crate) weight: u32,
    pub(crate) divisor: u128,
    pub(crate) to_sparse: SwitchingKey,
    pub(crate) to_dense: SwitchingKey,
    /// Back from images of the ephemeral secret.
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
/// Half of a key is uniform and follows from its seed. Keys hold both halves, which is
/// fastest, unless a generator
/// ([`KeyGenerator::small_keys`](super::KeyGenerator::small_keys)) or a reader was asked for
/// small ones: then only the relinearisation key is whole, and the uniform half of every other
/// is expanded, row by row, each time it is used. The first halves of keys that a reader maps
/// stay in the file. All give the same bits.
pub struct EvaluationKeys {
    pub(crate) params: ParamsId,
    pub(crate) id: KeyId,
    pub(crate) relinearize: Option<SwitchingKey>,
    pub(crate) galois: BTreeMap<GaloisElement, GaloisKey>,
    pub(crate) raise: Option<RaisingKeys>,
    pub(crate) level_keys: BTreeMap<Level, LevelSwitchingKeys>,
}

/// Level keys for one level.
#[derive(Default)]
pub(crate) struct LevelSwitchingKeys {
    pub(crate) relinearize: Option<SwitchingKey>,
    pub(crate) galois: BTreeMap<GaloisElement, GaloisKey>,
}

impl EvaluationKeys {
    /// No keys, for an evaluator that only adds what is encrypted under the key pair `id`.
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

    /// The key level that relinearises at `level`, if one does.
    pub(crate) fn relinearization_key_level(&self, params: &Params, level: Level) -> Option<Level> {
        let mut above = self.level_keys.range(params.levels().above(level));
        above.find(|(_, keys)| keys.relinearize.is_some()).map(|(&key_level, _)| key_level)
    }

    /// The key that relinearises at `level`.
    pub(super) fn relinearization_key(
        &self,
        params: &Params,
        level: Level,
    ) -> Option<&SwitchingKey> {
        let mut above = self.level_keys.range(params.levels().above(level));
        let level_keys = above.find_map(|(_, keys)| keys.relinearize.as_ref());
        level_keys.or(self.relinearize.as_ref().filter(|key| key.level >= level))
    }

    /// The key for `g` at `level`, among the level keys for `key_level` or among the others.
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

    /// Whether there is a key for `g` at `level`.
    pub(crate) fn reaches(&self, params: &Params, g: GaloisElement, level: Level) -> bool {
        self.galois_key(self.key_level(params, level, &[g]), g, level).is_some()
    }

    /// The key level for an operation at `level` that needs those of `elements`,
    /// if not the others, as [`KeyRequest::into_level_keys`] says. Where none has all, those that
    /// lack the fewest.
    pub(crate) fn key_level(
        &self,
        params: &Params,
        level: Level,
        elements: &[GaloisElement],
    ) -> Option<Level> {
        let lacks = |key_level: &Option<Level>| {
            let missing =
                |g: &&GaloisElement| g.0 != 1 && self.galois_key(*key_level, **g, level).is_none();
            elements.iter().filter(missing).count()
        };
        let above = || self.level_keys.range(params.levels().above(level));
        let key_levels = || above().map(|(&key_level, _)| Some(key_level)).chain([None]);
        let complete = key_levels().find(|key_level| lacks(key_level) == 0);
        complete.or_else(|| key_levels().rev().min_by_key(lacks)).flatten()
    }

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
            raise: self.raise.as_ref().map(RaisingKeys::fulfils),
            raised: self.raise.iter().flat_map(|keys| keys.images.keys().copied()).collect(),
            level_keys: self
                .level_keys
                .iter()
                .map(|(&level, keys)| (level, keys.fulfils()))
                .collect(),
        }
    }

    /// Bytes of memory that they take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sections().flatten().map(SwitchingKey::bytes).sum()
    }

    /// All of them by the sections of files, in their order: the keys to an ephemeral secret and
    /// back share one.
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
mod tests {
    use super::*;
    use crate::rlwe::{KeyGenerator, Spec};

    /// The kind of each key that was made, as `KeyRequest::moduli` counts them, and the `log2` of
    /// its own modulus.
    fn published(keys: &EvaluationKeys, params: &Params) -> Vec<(usize, f64)> {
        let log2_q = |key: &SwitchingKey| params.basis().log2_product(key.limbs());
        let galois = keys.galois.values().map(|galois| &galois.key);
        let single = keys.relinearize.iter().chain(galois).map(|key| (0, log2_q(key)));
        let level_keys = keys.level_keys.values().flat_map(|keys| {
            keys.relinearize.iter().chain(keys.galois.values().map(|galois| &galois.key))
        });
        let level_keys = level_keys.map(|key| (1, log2_q(key)));
        let raising = keys.raise.iter().flat_map(|raise| {
            let images = raise.images.values().map(|image| (3, log2_q(&image.key)));
            [(2, log2_q(&raise.to_sparse)), (3, log2_q(&raise.to_dense))].into_iter().chain(images)
        });
        single.chain(level_keys).chain(raising).collect()
    }

    /// Whether the largest modulus of each kind of key is the one that its security was estimated
    /// for.
    fn is_priced(request: &KeyRequest, keys: &EvaluationKeys, params: &Params) -> bool {
        let security: Vec<f64> =
            request.moduli(params).into_iter().map(|(.., log2_q)| log2_q).collect();
        let found = published(keys, params);
        let largest =
            |kind| found.iter().filter(|key| key.0 == kind).map(|key| key.1).fold(0.0, f64::max);
        assert_eq!(security.len(), 4);
        (0..4).all(|kind| security[kind] == largest(kind))
    }

    /// A key at a level above the one that its estimate is for has cost other libraries their
    /// security.
    #[test]
    fn keys_have_the_moduli_that_they_are_priced_at() {
        let mut end = 1 << 30;
        let mut prime = || {
            end = sudare_arith::previous_prime(end, 256).unwrap();
            end
        };
        let mut primes = |count: usize| (0..count).map(|_| prime()).collect::<Vec<u64>>();
        let params = Params::new(Spec {
            log_n: 7,
            q: primes(6).into_iter().map(|prime| vec![prime]).collect(),
            p: primes(2),
            upper: None,
            extra_p: primes(2),
            secret: SecretDistribution::UniformTernary,
            security_bits: None,
        })
        .unwrap();
        let level_keys: Vec<Level> =
            (0..6).map(Level).filter(|&level| params.level_key_limbs(level).is_some()).collect();
        assert!(!level_keys.is_empty());
        let mut generator = KeyGenerator::new(&params).unwrap();
        let secret = generator.secret_key().unwrap();
        let raise = Raise::to(Level(4));
        let mut request = KeyRequest::new()
            .relinearize(Level(3))
            .rotations(7, [1, 5], Level(2))
            .raise(raise)
            .raised_automorphisms([GaloisElement::rotation(7, 2)]);
        let keys =
            LevelKeys { relinearize: true, galois: request.galois.keys().copied().collect() };
        request.level_keys = level_keys.iter().map(|&level| (level, keys.clone())).collect();
        let mut keys = generator.evaluation_keys(&secret, &request).unwrap();
        assert_eq!(published(&keys, &params).len(), 6 + 3 * level_keys.len());
        assert!(is_priced(&request, &keys, &params));

        // A planted key at too high a level, of each kind that can be swapped.
        let top = KeyRequest::new().relinearize(params.top());
        let mut planted = || generator.evaluation_keys(&secret, &top).unwrap().relinearize.unwrap();
        let mut raise = keys.raise.take().unwrap();
        let sparse = core::mem::replace(&mut raise.to_sparse, planted());
        keys.raise = Some(raise);
        assert!(!is_priced(&request, &keys, &params));
        keys.raise.as_mut().unwrap().to_sparse = sparse;
        assert!(is_priced(&request, &keys, &params));
        keys.relinearize = Some(planted());
        assert!(!is_priced(&request, &keys, &params));
    }

    #[test]
    fn no_keys_belong_to_a_pair_and_do_nothing() {
        let params = Params::new(Spec {
            log_n: 7,
            q: vec![vec![12289], vec![13313]],
            p: vec![15361],
            upper: None,
            extra_p: vec![],
            secret: SecretDistribution::UniformTernary,
            security_bits: None,
        })
        .unwrap();
        let secret = KeyGenerator::new(&params).unwrap().secret_key().unwrap();
        let keys = EvaluationKeys::none(&params, secret.id());
        assert_eq!((keys.id(), keys.params_id()), (secret.id(), params.id()));
        assert_eq!((keys.fulfils(), keys.bytes()), (KeyRequest::new(), 0));
        assert_eq!(keys.sections().count(), 0);
    }
}
