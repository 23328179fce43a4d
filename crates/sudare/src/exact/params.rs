use super::{Modulus, Unit};
use crate::{
    Error, Result,
    rlwe::{self, Level, SecretDistribution, Supply, UpperSpec, check_ring, power_of_two},
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Parameters as a user writes them: public fields without invariants.
///
/// Sizes are `log2` and need not be whole. [`Params::new`] chooses the primes. A specification
/// always leads to the same primes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// `log2(N)`, 4 to 17.
    pub log_n: u32,
    /// Sizes of the primes of each level, level 0 first. A level may have several primes, of at
    /// most 720 bits in total.
    pub q_bits: Vec<Vec<f64>>,
    /// Sizes for levels above these; see [`rlwe::UpperChain`].
    #[serde(default, rename = "raised")]
    pub upper: Option<UpperSpec>,
    /// Sizes of the special primes.
    pub p_bits: Vec<f64>,
    /// Sizes of additional special primes for level keys below the top; see
    /// [`KeyRequest::into_level_keys`](crate::rlwe::KeyRequest::into_level_keys).
    #[serde(default, rename = "fitted_p_bits")]
    pub extra_p_bits: Vec<f64>,
    /// The plaintext modulus of messages that do not name another. Keys do not depend on it.
    pub plaintext_modulus: Modulus,
    /// Distribution of the secret key.
    #[serde(default = "uniform_ternary")]
    pub secret: SecretDistribution,
    /// Accept parameters with less than 128 bits of security.
    #[serde(default)]
    pub insecure: bool,
}

fn uniform_ternary() -> SecretDistribution {
    SecretDistribution::UniformTernary
}

impl Spec {
    /// Makes a chain of one prime per level: a base prime, `levels` primes of one size, and special
    /// primes.
    #[must_use]
    pub fn uniform(
        log_n: u32,
        plaintext_modulus: Modulus,
        base_bits: f64,
        levels: usize,
        level_bits: f64,
        p_bits: Vec<f64>,
    ) -> Self {
        let mut q_bits = vec![vec![base_bits]];
        q_bits.resize(levels + 1, vec![level_bits]);
        Self {
            log_n,
            q_bits,
            upper: None,
            p_bits,
            extra_p_bits: Vec::new(),
            plaintext_modulus,
            secret: SecretDistribution::UniformTernary,
            insecure: false,
        }
    }

    /// `log2` of the modulus at the highest level, including upper levels, times the special primes
    /// of all keys, from the requested sizes.
    #[must_use]
    pub fn log2_qp(&self) -> f64 {
        let upper = self.upper.iter().flat_map(|upper| &upper.levels_bits);
        let chain: f64 = self.q_bits.iter().chain(upper).flatten().sum();
        chain + self.p_bits.iter().sum::<f64>()
    }
}

/// Security in bits below which parameters must set `insecure`.
pub(super) const SECURITY_BITS: f64 = 128.0;

/// Checked parameters. Cheap to clone.
///
/// Ciphertexts under them may have any plaintext modulus whose prime is not in the chain.
#[derive(Clone)]
pub struct Params(Arc<Inner>);

struct Inner {
    rlwe: rlwe::Params,
    spec: Spec,
}

impl Params {
    /// Finds primes, checks security and builds tables.
    ///
    /// Special primes and the base primes are the largest of at most their sizes. Other levels use
    /// the primes nearest to their sizes. The prime of the plaintext modulus is never used.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] for sizes out of range or too few primes of a size;
    /// [`Error::Insecure`] below 128 bits, unless the specification sets `insecure`.
    pub fn new(spec: Spec) -> Result<Self> {
        check_sizes(&spec)?;
        // Marked as used, since the plaintext modulus must be coprime to the chain.
        let used = vec![spec.plaintext_modulus.prime()];
        let mut supply = Supply { step: 2 << spec.log_n, used };
        let mut below = |sizes: &[f64]| -> Result<Vec<u64>> {
            sizes.iter().map(|&bits| supply.below(bits)).collect()
        };
        // The order of the searches decides which primes a specification gets. Keys and
        // fingerprints depend on it.
        let p = below(&spec.p_bits)?;
        let extra_p = below(&spec.extra_p_bits)?;
        let mut q = vec![below(&spec.q_bits[0])?];
        for bits in &spec.q_bits[1..] {
            let target = power_of_two(bits.iter().sum());
            // The size that the other primes leave of the level.
            let rest = |others: &[u64]| others.iter().fold(target, |rest, &q| rest / q as f64);
            q.push(supply.several(bits, rest)?);
        }
        let upper = spec.upper.as_ref();
        let upper = upper.map(|upper| supply.upper(upper, &q.concat())).transpose()?;
        let rlwe = rlwe::Params::new(rlwe::Spec {
            log_n: spec.log_n,
            q,
            upper,
            p,
            extra_p,
            secret: spec.secret,
            security_bits: (!spec.insecure).then_some(SECURITY_BITS),
        })?;
        Ok(Self(Arc::new(Inner { rlwe, spec })))
    }

    /// The specification.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.0.spec
    }

    /// The part that all schemes share.
    #[must_use]
    pub fn rlwe(&self) -> &rlwe::Params {
        &self.0.rlwe
    }

    /// `log2(N)`.
    #[must_use]
    pub fn log_n(&self) -> u32 {
        self.0.spec.log_n
    }

    /// The highest level: the level of fresh ciphertexts.
    #[must_use]
    pub fn top(&self) -> Level {
        self.0.rlwe.top()
    }

    /// The plaintext modulus of messages that do not name another.
    #[must_use]
    pub fn plaintext_modulus(&self) -> Modulus {
        self.0.spec.plaintext_modulus
    }

    /// The highest level that ciphertexts are raised to: the top, or a level above it with an
    /// [`rlwe::UpperChain`].
    #[must_use]
    pub fn upper_top(&self) -> Level {
        self.0.rlwe.upper_top()
    }

    /// Rejects a plaintext modulus that shares a prime with the chain.
    ///
    /// # Errors
    /// [`Error::PlaintextModulusNotCoprime`].
    pub fn check_modulus(&self, t: Modulus) -> Result<()> {
        let spec = self.0.rlwe.spec();
        let upper = spec.upper.iter().flat_map(|upper| [upper.levels.concat(), upper.base.clone()]);
        let mut primes = spec.q.iter().cloned().chain(upper).flatten();
        match primes.any(|q| q == t.prime()) {
            true => Err(Error::PlaintextModulusNotCoprime { modulus: t.into() }),
            false => Ok(()),
        }
    }

    /// Returns the divisor of factors for rescaling from `level >= 1`: the product of the primes of
    /// the level. For the lowest upper level it is the quotient of moduli.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`]; [`Error::PlaintextModulusNotCoprime`].
    pub fn divisor(&self, level: Level, t: Modulus) -> Result<Unit> {
        let rlwe = &self.0.rlwe;
        rlwe.check_level(level)?;
        let above = level.0.checked_sub(self.top().0 + 1).zip(rlwe.spec().upper.as_ref());
        let Some((above, upper)) = above else {
            return self.product(rlwe.primes_of(level), t);
        };
        let divisor = self.product(&upper.levels[above as usize], t)?;
        if above > 0 {
            return Ok(divisor);
        }
        Ok(divisor * self.product(&upper.base, t)? / self.product(&rlwe.spec().q.concat(), t)?)
    }

    /// Returns the ciphertext modulus of `level`, as a factor.
    ///
    /// # Errors
    /// See [`Params::divisor`].
    pub fn modulus_at(&self, level: Level, t: Modulus) -> Result<Unit> {
        (0..=level.0).try_fold(Unit::one(t), |product, l| Ok(product * self.divisor(Level(l), t)?))
    }

    fn product(&self, primes: &[u64], t: Modulus) -> Result<Unit> {
        self.check_modulus(t)?;
        let residue = |&q: &u64| t.reduce(q.into());
        Unit::new(primes.iter().map(residue).fold(1 % t.value(), |a, b| t.mul(a, b)), t)
    }

    /// Returns the default factor of fresh ciphertexts at `level`: `-Q mod t` with the modulus `Q`
    /// of the level. The scale of BFV, `-f / Q`, then is 1 and stays 1.
    ///
    /// # Errors
    /// See [`Params::divisor`].
    pub fn fresh_factor(&self, level: Level, t: Modulus) -> Result<Unit> {
        let modulus = self.modulus_at(level, t)?;
        Unit::new(t.neg(modulus.value()), t)
    }

    /// Returns the factor at `level` after squaring and rescaling with BGV, starting from fresh
    /// ciphertexts at the top.
    ///
    /// # Errors
    /// See [`Params::divisor`].
    pub fn factor_at(&self, level: Level, t: Modulus) -> Result<Unit> {
        self.0.rlwe.check_chain_level(level)?;
        let fresh = self.fresh_factor(self.top(), t)?;
        let mut dropped = (level.0 + 1..=self.top().0).rev();
        dropped.try_fold(fresh, |f, l| Ok(f * f / self.divisor(Level(l), t)?))
    }
}

impl AsRef<rlwe::Params> for Params {
    fn as_ref(&self) -> &rlwe::Params {
        self.rlwe()
    }
}

impl core::fmt::Debug for Params {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Params").field("id", &self.0.rlwe.id()).field("spec", self.spec()).finish()
    }
}

/// Rejects sizes out of range, without a search for primes.
pub(super) fn check_sizes(spec: &Spec) -> Result<()> {
    check_ring(spec.log_n, &spec.q_bits)?;
    let special = [&spec.p_bits[..], &spec.extra_p_bits].concat();
    rlwe::check_sizes(spec.log_n, &spec.q_bits, spec.upper.as_ref(), &special)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modulus(p: u64) -> Modulus {
        Modulus::new(p, 1).unwrap()
    }

    fn params(t: Modulus) -> Params {
        let spec = Spec::uniform(5, t, 30.0, 3, 27.0, vec![40.0]);
        Params::new(Spec { insecure: true, ..spec }).unwrap()
    }

    #[test]
    fn factors_follow_the_primes() {
        let t = modulus(257);
        let params = params(t);
        let primes = params.rlwe().spec().q.concat();
        assert!(primes.iter().any(|q| q % 257 != 1));
        let product = |primes: &[u64]| primes.iter().fold(1, |a, q| a * (q % 257) % 257);
        for level in 0..4 {
            let q = params.modulus_at(Level(level), t).unwrap();
            assert_eq!(q.value(), u128::from(product(&primes[..=level as usize])));
            let fresh = params.fresh_factor(Level(level), t).unwrap();
            assert_eq!(fresh.value() + q.value(), 257);
        }
        let top = params.fresh_factor(Level(3), t).unwrap();
        assert!(params.factor_at(Level(3), t).unwrap().matches(top));
        let next = top * top / params.divisor(Level(3), t).unwrap();
        assert!(params.factor_at(Level(2), t).unwrap().matches(next));
        assert!(params.factor_at(Level(4), t).is_err());
    }

    #[test]
    fn divisors_are_quotients_of_moduli_above_the_chain_too() {
        let t = modulus(257);
        let spec = Spec::uniform(5, t, 30.0, 3, 27.0, vec![40.0]);
        let upper = Some(UpperSpec { base_bits: vec![37.0; 3], levels_bits: vec![vec![33.0]; 2] });
        let params = Params::new(Spec { upper, insecure: true, ..spec }).unwrap();
        assert_eq!((params.top(), params.upper_top()), (Level(3), Level(5)));
        let product = |level: u32| {
            let basis = params.rlwe().basis();
            let primes = basis.tables(params.rlwe().limbs(Level(level)));
            let primes = primes.map(|table| t.reduce(table.modulus().value().into()));
            Unit::new(primes.fold(1, |product, q| t.mul(product, q)), t).unwrap()
        };
        for level in 1..=5 {
            let quotient = product(level) / product(level - 1);
            assert!(params.divisor(Level(level), t).unwrap().matches(quotient), "{level}");
            assert!(params.modulus_at(Level(level), t).unwrap().matches(product(level)));
        }
        assert!(params.divisor(Level(6), t).is_err());
        let levels = params.chain(t).unwrap().levels();
        assert_eq!(levels.check(Level(5)), Ok(()));
        assert!(levels.check_chain(Level(4)).is_err());
        let inside = modulus(params.rlwe().spec().upper.as_ref().unwrap().base[1]);
        assert!(params.check_modulus(inside).is_err());
    }

    #[test]
    fn primes_of_the_chain_are_no_plaintext_moduli() {
        let params = params(modulus(257));
        let t = modulus(params.rlwe().spec().q[1][0]);
        assert_eq!(
            params.divisor(Level(2), t),
            Err(Error::PlaintextModulusNotCoprime { modulus: t.into() })
        );
        // A prime that would be chosen if it were not the plaintext modulus.
        let other = self::params(t);
        assert!(!other.rlwe().spec().q.concat().contains(&t.prime()));
        assert_eq!(other.check_modulus(t), Ok(()));
    }

    #[test]
    fn insecure_chains_and_odd_sizes_are_refused() {
        let t = modulus(65537);
        let spec = |bits: f64, levels| Spec::uniform(12, t, 40.0, levels, bits, vec![40.0]);
        assert!(matches!(Params::new(spec(40.0, 3)), Err(Error::Insecure { .. })));
        for bad in [spec(13.0, 1), spec(62.0, 1), spec(f64::NAN, 1)] {
            assert!(matches!(Params::new(bad), Err(Error::InvalidSpec { field: "q_bits", .. })));
        }
        let none = Spec { p_bits: vec![], ..spec(40.0, 1) };
        assert!(matches!(Params::new(none), Err(Error::InvalidSpec { field: "p", .. })));
    }
}
