use super::{
    Level, Levels, ParamsId, SecretDistribution, gadget::Gadget, max_log2_qp, security_bits,
};
use crate::{
    Error, Result,
    ring::{Divider, Lifter, LimbSet, RnsBasis},
};
use core::ops::{Range, RangeInclusive};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};
use sudare_arith::real;

/// Parameters in the form that a scheme writes them: the primes themselves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// `log2(N)`, 4 to 17.
    pub log_n: u32,
    /// The primes of each level, from level 0 on: at level `l` the modulus is the
    /// product of entries `0..=l`.
    pub q: Vec<Vec<u64>>,
    /// Levels above these, with other primes.
    pub upper: Option<UpperChain>,
    /// Special primes.
    pub p: Vec<u64>,
    /// Additional special primes for level keys
    /// ([`KeyRequest::into_level_keys`](super::KeyRequest::into_level_keys)) below the top, where
    /// the modulus has room for them.
    pub extra_p: Vec<u64>,
    /// Distribution of the secret.
    pub secret: SecretDistribution,
    /// Minimum security, in bits, of every key. `None` accepts any: the caller wrote `insecure`.
    pub security_bits: Option<f64>,
}

/// Levels above the top of the chain, with primes of their own, for raised ciphertexts.
///
/// The modulus of such a level is the product of `base`, which replaces all primes of the chain,
/// and of the primes of this raised level and the raised levels below. A chain of many small primes
/// can thus have a few large ones in its place at the levels where bootstrapping takes most of its
/// time. Rescaling from the lowest upper level to the top of the chain changes the primes. It
/// multiplies by the modulus of the top and divides, rounding, by the modulus of the level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpperChain {
    /// Primes that replace the primes of the chain.
    pub base: Vec<u64>,
    /// The primes of each level above the top, from the lowest on.
    pub levels: Vec<Vec<u64>>,
}

/// Maximum number of primes of a chain, and of special primes. A division removes primes of both
/// kinds. Base conversion has room for 255.
pub(crate) const MAX_PRIMES: usize = 128;

/// Approximate bytes of tables per residue of a polynomial.
pub(crate) const TABLE_BYTES: u64 = 32;

/// Maximum number of residues of a polynomial modulo all primes. Each residue needs tables, and a
/// small file could ask for any number.
const MAX_RESIDUES: usize = 1 << 24;

/// Rejects more primes than the ring has room for.
pub(crate) fn check_primes(log_n: u32, primes: usize) -> Result<()> {
    let most = MAX_RESIDUES >> log_n;
    if primes <= most {
        return Ok(());
    }
    let problem = format!("{primes} primes are too many at N = 2^{log_n}: at most {most}");
    Err(Error::InvalidSpec { field: "q", problem })
}

/// Checked, immutable parameters. Cheap to clone.
#[derive(Clone)]
pub struct Params(Arc<Inner>);

struct Inner {
    id: ParamsId,
    spec: Spec,
    basis: RnsBasis,
    /// Chain primes of each level.
    limbs_at: Vec<LimbSet>,
    /// Number of special primes of level keys, by level.
    level_keys: Vec<usize>,
    /// Gadgets of the chain and of upper levels, indexed by the number of special primes less one.
    /// Each serves the levels whose primes its special primes cover. Built on first use.
    gadgets: [Vec<OnceLock<Gadget>>; 2],
    /// Lifts from the primes of level 0 to every prime.
    lift: Lifter,
    /// Indexed by level less one: division by the primes of the level.
    rescale: Vec<Divider>,
}

/// Estimated security of a published key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeySecurity {
    /// The object, such as `evaluation keys`.
    pub what: String,
    /// `log2` of its modulus.
    pub log2_q: f64,
    /// Estimated security in bits.
    pub security_bits: f64,
}

impl Params {
    /// Checks the specification, estimates the security of the keys and builds every table.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`]; [`Error::Insecure`] unless the specification accepts any security;
    /// [`Error::Arith`] for a number that is not a prime `1 mod 2N` below `2^62`.
    pub fn new(spec: Spec) -> Result<Self> {
        // Everything is checked before a table is built: a small file can ask for large tables.
        check_shape(&spec)?;
        let primes = chain_primes(&spec);
        let limbs_at = level_limbs(&spec);
        let of = |limbs: &LimbSet| &primes[limbs.start()..][..limbs.q()];
        let log2_p = log2(&spec.p);
        let highest = limbs_at.last().filter(|_| spec.upper.is_some());
        for (what, limbs) in [
            ("the evaluation keys at the top level", limbs_at.get(spec.q.len() - 1)),
            ("the evaluation keys at the highest upper level", highest),
        ] {
            let Some(chain) = limbs.map(of) else { continue };
            check_security(&spec, what, spec.secret, log2(chain) + log2_p)?;
            // A prime that the special primes do not cover would belong to no digit.
            if digit_widths(chain, log2_p).iter().sum::<usize>() < chain.len() {
                return Err(Error::InvalidSpec {
                    field: "p",
                    problem: format!(
                        "the special primes have {log2_p:.1} bits together, less than the \
                         largest prime of the chain"
                    ),
                });
            }
        }
        let special = special_primes(&spec);
        let basis = RnsBasis::new(spec.log_n, &primes, &special)?;
        Ok(Self(Arc::new(Inner {
            id: fingerprint(&spec)?,
            level_keys: limbs_at.iter().map(|limbs| level_key_special(&spec, of(limbs))).collect(),
            gadgets: [(); 2].map(|()| special.iter().map(|_| OnceLock::new()).collect()),
            lift: Lifter::new(&basis, limbs_at[0], basis.all()),
            rescale: limbs_at
                .windows(2)
                .map(|pair| Divider::new(&basis, pair[1], pair[0]))
                .collect(),
            limbs_at,
            basis,
            spec,
        })))
    }

    /// The specification.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.0.spec
    }

    /// Fingerprint of the specification.
    #[must_use]
    pub fn id(&self) -> ParamsId {
        self.0.id
    }

    /// Every prime with its tables.
    #[must_use]
    pub fn basis(&self) -> &RnsBasis {
        &self.0.basis
    }

    /// `log2(N)`.
    #[must_use]
    pub fn log_n(&self) -> u32 {
        self.0.basis.log_n()
    }

    /// The highest level of the chain: the level of fresh ciphertexts.
    #[must_use]
    pub fn top(&self) -> Level {
        Level(self.0.spec.q.len() as u32 - 1)
    }

    /// The highest level of all: of the [`UpperChain`], or the top without one.
    #[must_use]
    pub fn upper_top(&self) -> Level {
        Level(self.0.limbs_at.len() as u32 - 1)
    }

    /// Returns `true` if `level` is above the top, where primes differ.
    #[must_use]
    pub fn is_raised(&self, level: Level) -> bool {
        level > self.top()
    }

    /// The levels, and the primes that they have in common.
    #[must_use]
    pub fn levels(&self) -> Levels {
        Levels::new(self.top(), self.upper_top())
    }

    /// Rejects a level above the highest; for levels that a user names.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`].
    pub fn check_level(&self, level: Level) -> Result<()> {
        self.levels().check(level)
    }

    /// Rejects a level above the top.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`].
    pub fn check_chain_level(&self, level: Level) -> Result<()> {
        self.levels().check_chain(level)
    }

    /// The chain primes at `level`.
    ///
    /// # Panics
    /// If `level` is too high, which [`Params::check_level`] rejects.
    #[must_use]
    pub fn limbs(&self, level: Level) -> LimbSet {
        self.0.limbs_at[level.index()]
    }

    /// The primes of a level and the special primes of keys for every level.
    ///
    /// # Panics
    /// If `level` is too high, which [`Params::check_level`] rejects.
    #[must_use]
    pub fn key_limbs(&self, level: Level) -> LimbSet {
        self.limbs(level).with_special(self.0.spec.p.len())
    }

    /// The primes of a key back from an ephemeral secret: the chain primes of `level` and the
    /// minimum number of special primes whose product exceeds level 0.
    ///
    /// # Panics
    /// If `level` is too high, which [`Params::check_level`] rejects.
    #[must_use]
    pub fn raising_limbs(&self, level: Level) -> LimbSet {
        let spec = &self.0.spec;
        let exceed = |&p: &usize| log2(&spec.p[..p]) >= log2(&spec.q[0]);
        // `Raise::check` rejects special primes that do not reach level 0 together.
        let p = (1..spec.p.len()).find(exceed).unwrap_or(spec.p.len());
        self.limbs(level).with_special(p)
    }

    /// The primes of a level key for `level`; see
    /// [`KeyRequest::into_level_keys`](super::KeyRequest::into_level_keys): the chain primes of the
    /// level and the number of special primes that makes a key switch cheapest. `None` if the keys
    /// for every level have the same special primes. At upper levels such keys do not exist, so the
    /// result is always `Some`.
    ///
    /// # Panics
    /// If `level` is too high, which [`Params::check_level`] rejects.
    #[must_use]
    pub fn level_key_limbs(&self, level: Level) -> Option<LimbSet> {
        let p = self.0.level_keys[level.index()];
        let differs = p != self.0.spec.p.len() || self.is_raised(level);
        differs.then(|| self.limbs(level).with_special(p))
    }

    /// The chain primes of `level` and the special primes of level keys for `key_level`, or of keys
    /// for every level.
    pub(crate) fn limbs_of_keys(&self, key_level: Option<Level>, level: Level) -> LimbSet {
        let p =
            key_level.map_or(self.0.spec.p.len(), |key_level| self.0.level_keys[key_level.index()]);
        self.limbs(level).with_special(p)
    }

    /// Returns the levels of `levels` that get level keys of their own, and the highest. A level
    /// gets its own if no other key serves it, or if its own make a key switch cheaper by at least
    /// a twentieth than the keys of the next higher level.
    pub(crate) fn key_levels(&self, levels: RangeInclusive<Level>) -> Vec<Level> {
        let cost = |level, key_level| {
            let limbs = self.limbs_of_keys(Some(key_level), level);
            switch_cost(limbs.count(), self.digit_primes_of(limbs).len())
        };
        let mut key_levels = vec![*levels.end()];
        for level in (levels.start().0..levels.end().0).rev().map(Level) {
            let above = key_levels.last().copied().unwrap_or(level);
            let serves = self.levels().above(level).contains(&above);
            if !serves || 20 * cost(level, level) <= 19 * cost(level, above) {
                key_levels.push(level);
            }
        }
        key_levels
    }

    /// The chain primes of each key-switching digit at `level`. If all primes have about the same
    /// size, there are `dnum` digits of `alpha` primes.
    ///
    /// # Panics
    /// If `level` is too high, which [`Params::check_level`] rejects.
    #[must_use]
    pub fn digit_primes(&self, level: Level) -> Vec<Range<usize>> {
        self.digit_primes_of(self.key_limbs(level))
    }

    /// The digits of keys with these primes, as [`Params::key_limbs`] or
    /// [`Params::level_key_limbs`] returns them.
    #[must_use]
    pub fn digit_primes_of(&self, limbs: LimbSet) -> Vec<Range<usize>> {
        self.gadget(limbs).digits(limbs.q()).collect()
    }

    /// Number of key-switching digits at `level`, `dnum`.
    ///
    /// # Panics
    /// If `level` is too high, which [`Params::check_level`] rejects.
    #[must_use]
    pub fn digits(&self, level: Level) -> usize {
        self.digit_primes(level).len()
    }

    /// Returns the gadget for the special primes of `limbs`, at least one, in the section of levels
    /// with its chain primes. It serves the levels whose primes the special primes cover.
    pub(super) fn gadget(&self, limbs: LimbSet) -> &Gadget {
        let Inner { basis, limbs_at, spec, gadgets, .. } = &*self.0;
        let upper = limbs.start() > 0;
        let p = limbs.p();
        gadgets[usize::from(upper)][p - 1].get_or_init(|| {
            let top = self.top();
            let (lowest, highest) = if upper { (top, self.upper_top()) } else { (Level(0), top) };
            let chain = self.limbs(highest);
            let primes = &chain_primes(spec)[chain.start()..][..chain.q()];
            let widths = digit_widths(primes, log2(&special_primes(spec)[..p]));
            let covered = widths.iter().sum();
            let levels = &limbs_at[lowest.index()..=highest.index()];
            // The lowest level is only reached by rescaling, so its primes need not be covered.
            let end = 1 + levels[1..].partition_point(|limbs| limbs.q() <= covered);
            Gadget::new(basis, chain, (lowest, &levels[..end]), &widths, p)
        })
    }

    /// Lifts from the primes of level 0 to every prime.
    pub(super) fn lift(&self) -> &Lifter {
        &self.0.lift
    }

    /// `log2` of the modulus at `level`.
    ///
    /// # Panics
    /// If `level` is too high, which [`Params::check_level`] rejects.
    #[must_use]
    pub fn log2_q(&self, level: Level) -> f64 {
        self.0.basis.log2_product(self.limbs(level))
    }

    /// `log2` of the modulus of a key at `level`: chain and special primes.
    ///
    /// # Panics
    /// If `level` is too high, which [`Params::check_level`] rejects.
    #[must_use]
    pub fn log2_qp(&self, level: Level) -> f64 {
        self.0.basis.log2_product(self.key_limbs(level))
    }

    /// `log2` of the product of the special primes.
    #[must_use]
    pub fn log2_p(&self) -> f64 {
        self.log2_special(self.0.spec.p.len())
    }

    /// `log2` of the product of the first `p` special primes, with the special primes of level
    /// keys.
    pub(crate) fn log2_special(&self, p: usize) -> f64 {
        self.0.basis.log2_product(LimbSet::chain(0).with_special(p))
    }

    /// The primes that a level of the chain adds to the levels below.
    ///
    /// # Panics
    /// If `level` is too high, which [`Params::check_chain_level`] rejects.
    #[must_use]
    pub fn primes_of(&self, level: Level) -> &[u64] {
        &self.0.spec.q[level.index()]
    }

    /// The estimated security of each kind of key that these parameters publish.
    #[must_use]
    pub fn key_security(&self) -> Vec<KeySecurity> {
        let security = |what: &str, log2_q: f64| KeySecurity {
            what: what.into(),
            log2_q,
            security_bits: security_bits(self.log_n(), self.0.spec.secret, log2_q),
        };
        let mut keys = vec![
            security("public key and ciphertexts", self.log2_q(self.top())),
            security("evaluation keys", self.log2_qp(self.top())),
        ];
        let highest = self.upper_top();
        if self.is_raised(highest) {
            // Upper levels have level keys only.
            let limbs = self.limbs_of_keys(Some(highest), highest);
            keys.push(security("upper evaluation keys", self.basis().log2_product(limbs)));
        }
        keys
    }

    /// The minimum security of any key that these parameters publish, in bits.
    #[must_use]
    pub fn security_bits(&self) -> f64 {
        self.key_security().iter().map(|key| key.security_bits).fold(f64::INFINITY, f64::min)
    }

    /// Bytes of a switching key at `level` in memory, with its seed expanded.
    ///
    /// # Panics
    /// If `level` is too high, which [`Params::check_level`] rejects.
    #[must_use]
    pub fn switching_key_bytes(&self, level: Level) -> u64 {
        2 * self.half_key_bytes(self.key_limbs(level))
    }

    /// Bytes of one half of a switching key with these primes.
    pub(super) fn half_key_bytes(&self, limbs: LimbSet) -> u64 {
        self.digit_primes_of(limbs).len() as u64 * self.basis().packed_bytes(limbs)
    }

    /// Rejects a key of modulus `2^log2_q` that would be less secure than required.
    pub(super) fn check_price(
        &self,
        what: &str,
        secret: SecretDistribution,
        log2_q: f64,
    ) -> Result<()> {
        check_security(&self.0.spec, what, secret, log2_q)
    }

    pub(crate) fn check_id(&self, what: &'static str, found: ParamsId) -> Result<()> {
        let expected = self.id();
        if found == expected {
            Ok(())
        } else {
            Err(Error::ParamsMismatch { what, found, expected })
        }
    }

    pub(crate) fn rescale(&self, level: Level) -> &Divider {
        &self.0.rescale[level.index() - 1]
    }
}

impl core::fmt::Debug for Params {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Params").field("id", &self.id()).field("spec", self.spec()).finish()
    }
}

impl PartialEq for Params {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

/// `log2` of the product of `primes`.
fn log2(primes: &[u64]) -> f64 {
    primes.iter().map(|&p| real::log2(p as f64)).sum()
}

/// All primes of levels: first of the chain, then of upper levels.
fn chain_primes(spec: &Spec) -> Vec<u64> {
    let upper = spec.upper.iter();
    let upper = upper.flat_map(|upper| upper.base.iter().chain(upper.levels.iter().flatten()));
    spec.q.iter().flatten().chain(upper).copied().collect()
}

/// The primes of each level, among the primes of the chain and of upper levels.
fn level_limbs(spec: &Spec) -> Vec<LimbSet> {
    let ends = |first: usize, levels: &[Vec<u64>]| -> Vec<usize> {
        let ends = levels.iter().scan(first, |end, primes| {
            *end += primes.len();
            Some(*end)
        });
        ends.collect()
    };
    let mut limbs: Vec<_> = ends(0, &spec.q).into_iter().map(LimbSet::chain).collect();
    if let (Some(upper), Some(&top)) = (&spec.upper, limbs.last()) {
        let start = top.q();
        let base = upper.base.len();
        let ends = ends(start + base, &upper.levels);
        limbs.extend(ends.into_iter().map(|end| LimbSet::range(start..end)));
    }
    limbs
}

/// The special primes of all keys, then the additional ones of level keys.
fn special_primes(spec: &Spec) -> Vec<u64> {
    [&spec.p[..], &spec.extra_p].concat()
}

fn check_shape(spec: &Spec) -> Result<()> {
    let invalid = |field, problem: String| Err(Error::InvalidSpec { field, problem });
    if !(4..=17).contains(&spec.log_n) {
        return invalid("log_n", format!("{} is out of range: 4 to 17 are supported", spec.log_n));
    }
    if spec.q.is_empty() || spec.q.iter().any(Vec::is_empty) {
        return invalid("q", "every level needs at least one prime".into());
    }
    if let Some(upper) = &spec.upper
        && (upper.base.is_empty()
            || upper.levels.is_empty()
            || upper.levels.iter().any(Vec::is_empty))
    {
        let problem = "the base needs at least one prime, and so does each of one level or more";
        return invalid("upper", problem.into());
    }
    let chain = chain_primes(spec);
    let special = special_primes(spec);
    for (field, count) in [("q", chain.len()), ("p", special.len())] {
        if count > MAX_PRIMES {
            return invalid(field, format!("{count} primes are too many: at most {MAX_PRIMES}"));
        }
    }
    // Key switching divides by the special primes, which also keep its error small.
    if spec.p.is_empty() {
        return invalid("p", "at least one special prime is needed".into());
    }
    let mut all = [chain, special].concat();
    check_primes(spec.log_n, all.len())?;
    all.sort_unstable();
    // The residue number system needs coprime moduli.
    if let Some(pair) = all.windows(2).find(|pair| pair[0] == pair[1]) {
        return invalid("q", format!("the prime {} is listed twice", pair[0]));
    }
    if let SecretDistribution::FixedWeight { h } = spec.secret
        && (h == 0 || h > 1 << spec.log_n)
    {
        return invalid("secret", format!("a weight of {h} does not fit 2^{}", spec.log_n));
    }
    if let SecretDistribution::SharedTernary { parties, pieces } = spec.secret
        && !(2 <= parties && parties <= pieces && pieces <= SecretDistribution::MAX_PIECES)
    {
        let most = SecretDistribution::MAX_PIECES;
        let problem = format!(
            "{parties} key holders cannot share {pieces} pieces: 2 or more share at least one piece \
             each, and at most {most} together"
        );
        return invalid("secret", problem);
    }
    Ok(())
}

fn check_security(spec: &Spec, what: &str, secret: SecretDistribution, log2_qp: f64) -> Result<()> {
    let Some(needed) = spec.security_bits else { return Ok(()) };
    let found = security_bits(spec.log_n, secret, log2_qp);
    if found >= needed {
        return Ok(());
    }
    Err(Error::Insecure {
        what: what.into(),
        log_n: spec.log_n,
        log2_qp,
        security_bits: found,
        needed,
        limit: max_log2_qp(spec.log_n, secret, needed),
    })
}

/// Returns the number of chain primes per digit, from the bottom: the maximum that the product of
/// the special primes covers, which bounds the noise of key switching. Stops before a prime that it
/// does not cover.
fn digit_widths(chain: &[u64], log2_p: f64) -> Vec<usize> {
    let mut widths: Vec<usize> = Vec::new();
    // Nothing fits the digit before the first, so the first prime opens one.
    let mut bits = f64::INFINITY;
    for log2_q in chain.iter().map(|&q| real::log2(q as f64)) {
        match widths.last_mut() {
            _ if log2_q > log2_p => break,
            Some(width) if bits + log2_q <= log2_p => {
                *width += 1;
                bits += log2_q;
            }
            _ => {
                widths.push(1);
                bits = log2_q;
            }
        }
    }
    widths
}

/// Cost of a key switch for each of its primes: `d` digits need `d + 2` transforms and `2 d`
/// products with rows of the key. A product costs a third of a transform.
fn switch_cost(primes: usize, digits: usize) -> usize {
    primes * (3 * (digits + 2) + 2 * digits)
}

/// Returns the number of special primes that minimises the cost of a key switch of a polynomial
/// modulo `chain`, the smallest in a tie. Returns all of `p` if no key would be secure.
fn level_key_special(spec: &Spec, chain: &[u64]) -> usize {
    let special = special_primes(spec);
    let cost = |&p: &usize| {
        let log2_p = log2(&special[..p]);
        let widths = digit_widths(chain, log2_p);
        let secure = check_security(spec, "", spec.secret, log2(chain) + log2_p).is_ok();
        let covered = widths.iter().sum::<usize>() == chain.len();
        (secure && covered).then(|| switch_cost(chain.len() + p, widths.len()))
    };
    let costs = (1..=special.len()).filter_map(|p| cost(&p).map(|cost| (cost, p)));
    costs.min().map_or(spec.p.len(), |(_, p)| p)
}

fn fingerprint(spec: &Spec) -> Result<ParamsId> {
    let bytes = postcard::to_allocvec(spec)
        .map_err(|e| Error::Malformed { what: "specification", problem: e.to_string() })?;
    // Files store the fingerprint, so neither the encoding nor the context may change.
    let hash = blake3::derive_key("sudare v1 parameter id", &bytes);
    let mut word = [0; 8];
    word.copy_from_slice(&hash[..8]);
    Ok(ParamsId(u64::from_le_bytes(word)))
}
