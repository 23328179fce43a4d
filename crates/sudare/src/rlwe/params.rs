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

/// Parameters as a scheme writes them: the primes themselves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// `log2(N)`, 4 to 17.
    pub log_n: u32,
    /// The primes of each level, from level 0 on: at level `l` the modulus is the
    /// product of entries `0..=l`.
    pub q: Vec<Vec<u64>>,
    /// Levels above these, of other primes.
    pub upper: Option<UpperChain>,
    /// Special primes.
    pub p: Vec<u64>,
    /// Further special primes, for level keys
    /// ([`KeyRequest::into_level_keys`](super::KeyRequest::into_level_keys)) below the top, whose
    /// modulus has room for them.
    pub extra_p: Vec<u64>,
    /// Distribution of the secret.
    pub secret: SecretDistribution,
    /// Security in bits that every key must have. `None` accepts any: the caller
    /// has written `insecure`.
    pub security_bits: Option<f64>,
}

/// Levels above the top of the chain, of primes of their own, for ciphertexts that are raised.
///
/// The modulus of such a level is the product of `base`, which is in place of all primes of the
/// chain, and of the primes of this level and the raised ones below. A chain of many small primes
/// may so have few large ones in its place where most of the time of bootstrapping goes.
/// Rescaling from the lowest upper level to the top of the chain changes from the ones to the
/// others: it multiplies by the modulus of the top and divides, rounding, by that of the level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpperChain {
    /// In place of the primes of the chain.
    pub base: Vec<u64>,
    /// The primes of each level above the top, from the lowest on.
    pub levels: Vec<Vec<u64>>,
}

/// Most primes of a chain, and most special primes; a division by both kinds is
/// by at most 255, which is what base conversion has room for.
pub(crate) const MAX_PRIMES: usize = 128;

/// Bytes of tables of a residue of a polynomial, about.
pub(crate) const TABLE_BYTES: u64 = 32;

/// Most residues of a polynomial modulo all primes: each takes tables, and a small file can ask for
/// them.
const MAX_RESIDUES: usize = 1 << 24;

/// Refuses more primes than the ring has room for.
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
    /// Chain primes at each level.
    limbs_at: Vec<LimbSet>,
    /// Special primes of level keys, by level.
    level_keys: Vec<usize>,
    /// Of the chain and of upper levels, by number of special primes less one: for key
    /// switching at the levels whose primes they cover. Made when they are first used.
    gadgets: [Vec<OnceLock<Gadget>>; 2],
    /// From the primes of level 0 to every prime.
    lift: Lifter,
    /// By level less one: division by the primes of the level.
    rescale: Vec<Divider>,
}

/// What a published key costs an attacker.
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
    /// [`Error::InvalidSpec`]; [`Error::Insecure`] unless the specification
    /// accepts any security; [`Error::Arith`] for a number that is not a prime
    /// `1 mod 2N` below `2^62`.
    pub fn new(spec: Spec) -> Result<Self> {
        check_shape(&spec)?;
        let (primes, limbs_at) = (chain_primes(&spec), level_limbs(&spec));
        let of = |limbs: &LimbSet| &primes[limbs.start()..][..limbs.q()];
        let log2_p = log2(&spec.p);
        let highest = limbs_at.last().filter(|_| spec.upper.is_some());
        for (what, limbs) in [
            ("the evaluation keys at the top level", limbs_at.get(spec.q.len() - 1)),
            ("the evaluation keys at the highest upper level", highest),
        ] {
            let Some(chain) = limbs.map(of) else { continue };
            check_security(&spec, what, spec.secret, log2(chain) + log2_p)?;
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

    /// The highest level of the chain: that of fresh ciphertexts.
    #[must_use]
    pub fn top(&self) -> Level {
        Level(self.0.spec.q.len() as u32 - 1)
    }

    /// The highest level that there is: of the [`UpperChain`], or the top without one.
    #[must_use]
    pub fn upper_top(&self) -> Level {
        Level(self.0.limbs_at.len() as u32 - 1)
    }

    /// Whether `level` is above the top, where there are other primes.
    #[must_use]
    pub fn is_raised(&self, level: Level) -> bool {
        level > self.top()
    }

    /// Which levels there are, and which have primes in common.
    #[must_use]
    pub fn levels(&self) -> Levels {
        Levels::new(self.top(), self.upper_top())
    }

    /// Refuses a level that is higher than any; for levels that a user names.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`].
    pub fn check_level(&self, level: Level) -> Result<()> {
        self.levels().check(level)
    }

    /// Refuses an upper level, too.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`].
    pub fn check_chain_level(&self, level: Level) -> Result<()> {
        self.levels().check_chain(level)
    }

    /// The chain primes at `level`.
    ///
    /// # Panics
    /// If `level` is too high, which [`Params::check_level`] refuses.
    #[must_use]
    pub fn limbs(&self, level: Level) -> LimbSet {
        self.0.limbs_at[level.index()]
    }

    /// The primes of a level and the special primes of keys for every level.
    ///
    /// # Panics
    /// If `level` is too high, which [`Params::check_level`] refuses.
    #[must_use]
    pub fn key_limbs(&self, level: Level) -> LimbSet {
        self.limbs(level).with_special(self.0.spec.p.len())
    }

    /// The primes of a key back from an ephemeral secret: those of the chain at `level` and
    /// as few special ones as exceed level 0 together.
    ///
    /// # Panics
    /// If `level` is too high, which [`Params::check_level`] refuses.
    #[must_use]
    pub fn raising_limbs(&self, level: Level) -> LimbSet {
        let spec = &self.0.spec;
        let exceed = |&p: &usize| log2(&spec.p[..p]) >= log2(&spec.q[0]);
        let p = (1..spec.p.len()).find(exceed).unwrap_or(spec.p.len());
        self.limbs(level).with_special(p)
    }

    /// The primes of a level key for `level`, see
    /// [`KeyRequest::into_level_keys`](super::KeyRequest::into_level_keys): those of the chain
    /// there and as many special ones as make a key switch cheapest. None if other keys have as
    /// many and there are others, which is not so at upper levels.
    ///
    /// # Panics
    /// If `level` is too high, which [`Params::check_level`] refuses.
    #[must_use]
    pub fn level_key_limbs(&self, level: Level) -> Option<LimbSet> {
        let p = self.0.level_keys[level.index()];
        let differs = p != self.0.spec.p.len() || self.is_raised(level);
        differs.then(|| self.limbs(level).with_special(p))
    }

    /// The chain primes at `level` and the special primes of level keys for `key_level`, or of
    /// others.
    pub(crate) fn limbs_of_keys(&self, key_level: Option<Level>, level: Level) -> LimbSet {
        let p =
            key_level.map_or(self.0.spec.p.len(), |key_level| self.0.level_keys[key_level.index()]);
        self.limbs(level).with_special(p)
    }

    /// Those of `levels` at which level keys of their own make a key switch cheaper by a
    /// twentieth than those for the next one higher up, or the only ones, and the highest.
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

    /// The chain primes of each key-switching digit at `level`. There are `dnum` digits of
    /// `alpha` primes where all primes have about one size.
    ///
    /// # Panics
    /// If `level` is too high, which [`Params::check_level`] refuses.
    #[must_use]
    pub fn digit_primes(&self, level: Level) -> Vec<Range<usize>> {
        self.digit_primes_of(self.key_limbs(level))
    }

    /// Digits of keys with these primes, which [`Params::key_limbs`] or
    /// [`Params::level_key_limbs`] returned.
    #[must_use]
    pub fn digit_primes_of(&self, limbs: LimbSet) -> Vec<Range<usize>> {
        self.gadget(limbs).digits(limbs.q()).collect()
    }

    /// Key-switching digits at `level`, `dnum`.
    ///
    /// # Panics
    /// If `level` is too high, which [`Params::check_level`] refuses.
    #[must_use]
    pub fn digits(&self, level: Level) -> usize {
        self.digit_primes(level).len()
    }

    /// For key switching with the special primes of `limbs`, at least one, at those levels of
    /// the section that has the chain primes of `limbs` whose primes the special ones cover.
    pub(super) fn gadget(&self, limbs: LimbSet) -> &Gadget {
        let Inner { basis, limbs_at, spec, gadgets, .. } = &*self.0;
        let (upper, p) = (limbs.start() > 0, limbs.p());
        gadgets[usize::from(upper)][p - 1].get_or_init(|| {
            let top = self.top();
            let (lowest, highest) = if upper { (top, self.upper_top()) } else { (Level(0), top) };
            let chain = self.limbs(highest);
            let primes = &chain_primes(spec)[chain.start()..][..chain.q()];
            let widths = digit_widths(primes, log2(&special_primes(spec)[..p]));
            let covered = widths.iter().sum();
            let levels = &limbs_at[lowest.index()..=highest.index()];
            let end = 1 + levels[1..].partition_point(|limbs| limbs.q() <= covered);
            Gadget::new(basis, chain, (lowest, &levels[..end]), &widths, p)
        })
    }

    /// From the primes of level 0 to every prime.
    pub(super) fn lift(&self) -> &Lifter {
        &self.0.lift
    }

    /// `log2` of the modulus at `level`.
    ///
    /// # Panics
    /// If `level` is too high, which [`Params::check_level`] refuses.
    #[must_use]
    pub fn log2_q(&self, level: Level) -> f64 {
        self.0.basis.log2_product(self.limbs(level))
    }

    /// `log2` of the modulus of a key at `level`: chain and special primes.
    ///
    /// # Panics
    /// If `level` is too high, which [`Params::check_level`] refuses.
    #[must_use]
    pub fn log2_qp(&self, level: Level) -> f64 {
        self.0.basis.log2_product(self.key_limbs(level))
    }

    /// `log2` of the product of the special primes.
    #[must_use]
    pub fn log2_p(&self) -> f64 {
        self.log2_special(self.0.spec.p.len())
    }

    /// `log2` of the product of the first `p` special primes, those of level keys included.
    pub(crate) fn log2_special(&self, p: usize) -> f64 {
        self.0.basis.log2_product(LimbSet::chain(0).with_special(p))
    }

    /// The primes of a level of the chain that those below do not have.
    ///
    /// # Panics
    /// If `level` is too high, which [`Params::check_chain_level`] refuses.
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
            let limbs = self.limbs_of_keys(Some(highest), highest);
            keys.push(security("upper evaluation keys", self.basis().log2_product(limbs)));
        }
        keys
    }

    /// The least security of any key that these parameters publish, in bits.
    #[must_use]
    pub fn security_bits(&self) -> f64 {
        self.key_security().iter().map(|key| key.security_bits).fold(f64::INFINITY, f64::min)
    }

    /// Bytes of a switching key at `level` in memory, its seed expanded.
    ///
    /// # Panics
    /// If `level` is too high, which [`Params::check_level`] refuses.
    #[must_use]
    pub fn switching_key_bytes(&self, level: Level) -> u64 {
        2 * self.half_key_bytes(self.key_limbs(level))
    }

    /// Bytes of one half of a switching key with these primes.
    pub(super) fn half_key_bytes(&self, limbs: LimbSet) -> u64 {
        self.digit_primes_of(limbs).len() as u64 * self.basis().packed_bytes(limbs)
    }

    /// Refuses a key of modulus `2^log2_q` that would be less secure than asked.
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

/// Of the product of `primes`.
fn log2(primes: &[u64]) -> f64 {
    primes.iter().map(|&p| real::log2(p as f64)).sum()
}

/// All primes of levels: of the chain, then of upper levels.
fn chain_primes(spec: &Spec) -> Vec<u64> {
    let upper = spec.upper.iter();
    let upper = upper.flat_map(|upper| upper.base.iter().chain(upper.levels.iter().flatten()));
    spec.q.iter().flatten().chain(upper).copied().collect()
}

/// Which of them each level has.
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
        let (start, base) = (top.q(), upper.base.len());
        let ends = ends(start + base, &upper.levels);
        limbs.extend(ends.into_iter().map(|end| LimbSet::range(start..end)));
    }
    limbs
}

/// Those of all keys, then those of level keys.
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
    let (chain, special) = (chain_primes(spec), special_primes(spec));
    for (field, count) in [("q", chain.len()), ("p", special.len())] {
        if count > MAX_PRIMES {
            return invalid(field, format!("{count} primes are too many: at most {MAX_PRIMES}"));
        }
    }
    if spec.p.is_empty() {
        return invalid("p", "at least one special prime is needed".into());
    }
    let mut all = [chain, special].concat();
    check_primes(spec.log_n, all.len())?;
    all.sort_unstable();
    if let Some(pair) = all.windows(2).find(|pair| pair[0] == pair[1]) {
        return invalid("q", format!("the prime {} is there twice", pair[0]));
    }
    if let SecretDistribution::FixedWeight { h } = spec.secret
        && (h == 0 || h > 1 << spec.log_n)
    {
        return invalid("secret", format!("a weight of {h} does not fit 2^{}", spec.log_n));
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

/// Chain primes per digit, from the bottom as many as the product of the special primes
/// covers: that bounds the noise of key switching. Ends before a prime that it does not cover.
fn digit_widths(chain: &[u64], log2_p: f64) -> Vec<usize> {
    let mut widths: Vec<usize> = Vec::new();
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

/// What a key switch costs for each of its primes: with `d` digits that is `d + 2` transforms
/// and `2 d` products with rows of the key; a product costs a third of a transform.
fn switch_cost(primes: usize, digits: usize) -> usize {
    primes * (3 * (digits + 2) + 2 * digits)
}

/// The number of special primes with which a key switch of a polynomial modulo `chain` costs
/// least, the fewest of these; all of `p` if no key would be secure.
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
    let hash = blake3::derive_key("sudare v1 parameter id", &bytes);
    let mut word = [0; 8];
    word.copy_from_slice(&hash[..8]);
    Ok(ParamsId(u64::from_le_bytes(word)))
}
