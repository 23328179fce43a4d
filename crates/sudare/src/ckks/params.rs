use super::{Chain, Scale, rules::Rules};
use crate::{
    Error, Result,
    rlwe::{
        self, Level, SecretDistribution, Supply, UpperChain, UpperSpec, check_ring, power_of_two,
    },
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use sudare_arith::{dd::Dd, fft::SpecialFft};

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
    /// Sizes of additional special primes for level keys below the top, where the modulus has room
    /// for them; see [`KeyRequest::into_level_keys`](crate::rlwe::KeyRequest::into_level_keys).
    #[serde(default, rename = "fitted_p_bits")]
    pub extra_p_bits: Vec<f64>,
    /// `log2` of the default scale.
    pub log2_scale: f64,
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
    /// Makes a chain of one prime per level: a base prime, `levels` primes of the size of the
    /// scale, and special primes.
    #[must_use]
    pub fn uniform(
        log_n: u32,
        base_bits: f64,
        levels: usize,
        log2_scale: f64,
        p_bits: Vec<f64>,
    ) -> Self {
        let mut q_bits = vec![vec![base_bits]];
        q_bits.resize(levels + 1, vec![log2_scale]);
        Self {
            log_n,
            q_bits,
            upper: None,
            p_bits,
            extra_p_bits: Vec::new(),
            log2_scale,
            secret: SecretDistribution::UniformTernary,
            insecure: false,
        }
    }

    /// `log2` of the modulus at the highest level, including upper levels, times the special primes
    /// of all keys, from the requested sizes.
    #[must_use]
    pub fn log2_qp(&self) -> f64 {
        let level = |bits: &Vec<f64>| bits.iter().sum::<f64>();
        let upper = self.upper.iter().flat_map(|upper| &upper.levels_bits).map(level);
        let chain: f64 = self.q_bits.iter().map(level).chain(upper).sum();
        chain + self.p_bits.iter().sum::<f64>()
    }
}

/// Security in bits below which parameters must set `insecure`.
const SECURITY_BITS: f64 = 128.0;

/// Scales above this size, in bits, are encoded in double-double arithmetic: a double holds 53 bits
/// of a coefficient, and the transform loses some.
pub(crate) const MAX_LOG2_SCALE_F64: f64 = 45.0;

/// Checked parameters. Cheap to clone.
#[derive(Clone)]
pub struct Params(Arc<Inner>);

struct Inner {
    rlwe: rlwe::Params,
    spec: Spec,
    chain: Chain,
    /// Default scale at each level.
    scales: Vec<Scale>,
    fft: SpecialFft<f64>,
    fft_dd: std::sync::OnceLock<SpecialFft<Dd>>,
}

impl Params {
    /// Finds primes, checks security and builds tables.
    ///
    /// Special primes and the base prime are the largest of at most their sizes. For a level of the
    /// size of the scale, the primes are the nearest to `scale(l)^2 / 2^log2_scale`. The default
    /// scales follow `scale(l - 1) = scale(l)^2 / divisor(l)` and so stay within a quarter of a bit
    /// of `2^log2_scale`. Other levels use the primes nearest to their sizes. Upper levels have the
    /// default scale of the top.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] for sizes out of range or too few primes of a size;
    /// [`Error::Insecure`] below 128 bits, unless the specification sets `insecure`.
    pub fn new(spec: Spec) -> Result<Self> {
        check_sizes(&spec)?;
        let Primes { q, mut scales, upper, mut p } = choose_primes(&spec)?;
        // One search for all special primes, since the order of searches decides the primes.
        let extra_p = p.split_off(spec.p_bits.len());
        let mut divisors: Vec<Scale> = q[1..].iter().map(|level| product(level)).collect();
        if let Some(UpperChain { base, levels }) = &upper {
            let exchanged = quotient(base, &q.concat());
            for (i, level) in levels.iter().enumerate() {
                let divisor = product(level);
                // Rescaling from the lowest upper level also exchanges the base for the primes of
                // the chain.
                divisors.push(if i == 0 { divisor * exchanged } else { divisor });
                scales.push(Scale::from_log2(spec.log2_scale));
            }
        }
        let rlwe = rlwe::Params::new(rlwe::Spec {
            log_n: spec.log_n,
            q,
            upper,
            p,
            extra_p,
            secret: spec.secret,
            security_bits: (!spec.insecure).then_some(SECURITY_BITS),
        })?;
        let log2_q = (0..scales.len()).map(|l| rlwe.log2_q(Level(l as u32))).collect();
        Ok(Self(Arc::new(Inner {
            chain: Chain::new(divisors, log2_q).raised_above(rlwe.top()),
            scales,
            fft: SpecialFft::new(spec.log_n - 1),
            fft_dd: std::sync::OnceLock::new(),
            rlwe,
            spec,
        })))
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

    /// Maximum number of slots of a plaintext, `N / 2`.
    #[must_use]
    pub fn max_slots(&self) -> usize {
        1 << (self.log_n() - 1)
    }

    /// The highest level of the chain: the level of fresh ciphertexts.
    #[must_use]
    pub fn top(&self) -> Level {
        self.0.rlwe.top()
    }

    /// The highest level that ciphertexts are raised to: the top, or a level above it with an
    /// [`UpperSpec`].
    #[must_use]
    pub fn upper_top(&self) -> Level {
        self.0.rlwe.upper_top()
    }

    /// The divisor of rescaling and the modulus at each level.
    #[must_use]
    pub fn chain(&self) -> &Chain {
        &self.0.chain
    }

    /// The default scale at `level`. At the top and above it is `2^log2_scale`. Below, it is the
    /// scale after squaring and rescaling from the level above.
    ///
    /// # Panics
    /// If `level` is too high, which [`rlwe::Params::check_level`] rejects.
    #[must_use]
    pub fn scale_at(&self, level: Level) -> Scale {
        self.0.scales[level.index()]
    }

    /// The rules for the forms of results.
    pub(crate) fn rules(&self) -> Rules<'_> {
        Rules::new(self.chain(), self.log_n())
    }

    pub(super) fn fft(&self) -> &SpecialFft<f64> {
        &self.0.fft
    }

    pub(super) fn fft_dd(&self) -> &SpecialFft<Dd> {
        // On first use, because only large scales and values need these tables.
        self.0.fft_dd.get_or_init(|| SpecialFft::new(self.log_n() - 1))
    }

    /// Returns `true` if plaintexts of `scale` need double-double arithmetic.
    pub(super) fn needs_dd(&self, scale: Scale) -> bool {
        scale.log2() > MAX_LOG2_SCALE_F64
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

fn product(primes: &[u64]) -> Scale {
    primes.iter().fold(Scale::from_u64(1), |product, &q| product * Scale::from_u64(q))
}

/// Returns [`rlwe::quotient`] as a scale.
fn quotient(above: &[u64], below: &[u64]) -> Scale {
    let quotient = rlwe::quotient(above, below);
    (quotient.hi(), quotient.lo()).into()
}

/// Returns `true` if rescaling at a level of these sizes divides by about one scale.
fn is_scale_level(spec: &Spec, bits: &[f64]) -> bool {
    (bits.iter().sum::<f64>() - spec.log2_scale).abs() < 0.5
}

/// Relative difference up to which primes are chosen for a scale in doubles.
const TRACKING_ERROR: f64 = 1.0 / 1024.0;

/// Maximum difference, in bits, between a default scale and the requested scale.
const SCALE_DRIFT_BITS: f64 = 0.25;

/// Rejects a default scale too far from the requested one, as happens when few primes of that size
/// are left.
fn check_scale(spec: &Spec, level: usize, scale: Scale) -> Result<()> {
    let goal = spec.log2_scale;
    // The comparison is also false for NaN.
    let is_near = (scale.log2() - goal).abs() <= SCALE_DRIFT_BITS;
    if is_near {
        return Ok(());
    }
    let problem = format!(
        "a ring of N = 2^{} has too few primes near 2^{goal} for {} levels: the default scale of \
         level {level} would be 2^{:.2}; choose a larger scale with levels of its size, or fewer \
         levels",
        spec.log_n,
        spec.q_bits.len() - 1,
        scale.log2(),
    );
    Err(Error::InvalidSpec { field: "q_bits", problem })
}

/// Refuses sizes out of range, without a search for primes.
pub(super) fn check_sizes(spec: &Spec) -> Result<()> {
    let invalid = |field, problem: String| Err(Error::InvalidSpec { field, problem });
    check_ring(spec.log_n, &spec.q_bits)?;
    let special = [&spec.p_bits[..], &spec.extra_p_bits].concat();
    rlwe::check_sizes(spec.log_n, &spec.q_bits, spec.upper.as_ref(), &special)?;
    // A scaled value has at most 127 bits, and the scale must leave some of them to the value.
    if !(1.0..=120.0).contains(&spec.log2_scale) {
        return invalid("log2_scale", format!("{} is not within 1 to 120", spec.log2_scale));
    }
    Ok(())
}

/// Searches the primes of a specification, without making tables.
#[cfg(test)]
pub(super) fn check_primes(spec: &Spec) -> Result<()> {
    check_sizes(spec)?;
    choose_primes(spec).map(drop)
}

struct Primes {
    /// Primes of each level.
    q: Vec<Vec<u64>>,
    /// Default scale at each level of the chain.
    scales: Vec<Scale>,
    upper: Option<UpperChain>,
    /// All special primes.
    p: Vec<u64>,
}

fn choose_primes(spec: &Spec) -> Result<Primes> {
    // The order of the searches decides which primes a specification gets. Keys and fingerprints
    // depend on it.
    let mut supply = Supply { step: 2 << spec.log_n, used: Vec::new() };
    let special = spec.p_bits.iter().chain(&spec.extra_p_bits);
    let p = special.map(|&bits| supply.below(bits)).collect::<Result<_>>()?;
    let mut q = vec![Vec::new(); spec.q_bits.len()];
    q[0] = spec.q_bits[0].iter().map(|&bits| supply.below(bits)).collect::<Result<_>>()?;
    let goal = power_of_two(spec.log2_scale);
    let mut scales = vec![Scale::from_f64(goal); q.len()];
    let mut tracked = goal;
    // From the top down: the scale of a level follows from the level above.
    for (level, bits) in spec.q_bits.iter().enumerate().skip(1).rev() {
        let scale = scales[level];
        let follows = is_scale_level(spec, bits);
        let target =
            if follows { tracked * (tracked / goal) } else { power_of_two(bits.iter().sum()) };
        q[level] = supply.several(bits, |others| target / product(others).to_f64())?;
        let below = if follows { scale * scale / product(&q[level]) } else { scale };
        check_scale(spec, level - 1, below)?;
        scales[level - 1] = below;
        if follows {
            tracked *= tracked / product(&q[level]).to_f64();
            // Correct the rounding that doubles accumulate, once it matters: it doubles at each
            // level. Until then, chains keep the primes that doubles chose, because keys with them
            // exist.
            if (tracked / below.to_f64() - 1.0).abs() > TRACKING_ERROR {
                tracked = below.to_f64();
            }
        }
    }
    let upper = spec.upper.as_ref().map(|upper| supply.upper(upper, &q.concat())).transpose()?;
    Ok(Primes { q, scales, upper, p })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ckks::{Decryptor, Encoder, Encryptor, Evaluator},
        rlwe::{KeyGenerator, KeyRequest},
    };
    use num_bigint::BigInt;
    use sudare_arith::{next_prime, previous_prime};

    #[test]
    fn levels_beyond_the_range_of_scales_are_refused() {
        let params = |count| {
            let q_bits = vec![vec![60.0], vec![60.0; count]];
            let spec = Spec::uniform(10, 0.0, 0, 40.0, vec![61.0; 2]);
            Params::new(Spec { q_bits, insecure: true, ..spec }).map(|params| params.top())
        };
        assert_eq!(params(12), Ok(Level(1)));
        for count in [13, 17, 18, 40] {
            assert!(matches!(params(count), Err(Error::InvalidSpec { field: "q_bits", .. })));
        }
    }

    /// A file of a few bytes can name such primes, whose tables may use at most half a gibibyte.
    #[test]
    fn more_primes_than_tables_have_room_for_are_refused() {
        let sizes = |log_n, chain: usize| {
            let q_bits = vec![vec![60.0]; chain];
            let spec = Spec::uniform(log_n, 0.0, 0, 60.0, vec![61.0; 2]);
            check_sizes(&Spec { q_bits, insecure: true, ..spec })
        };
        assert_eq!((sizes(17, 126), sizes(16, 128)), (Ok(()), Ok(())));
        assert!(matches!(sizes(17, 127), Err(Error::InvalidSpec { field: "q", .. })));
    }

    fn integer(primes: &[u64]) -> BigInt {
        primes.iter().fold(BigInt::from(1), |product, &q| product * q)
    }

    /// Returns `true` if `scale denominator / numerator` is 1 up to `2^-bits`.
    fn is_quotient(scale: Scale, numerator: &BigInt, denominator: &BigInt, bits: u32) -> bool {
        // The number times `2^1200`, exactly.
        let part = |x: f64| {
            let exponent = (x.to_bits() >> 52 & 0x7ff) as i32 - 1075 + 1200;
            let mantissa = BigInt::from(x.to_bits() & ((1 << 52) - 1) | 1 << 52);
            let size = mantissa << u32::try_from(exponent).unwrap();
            match x {
                0.0 => BigInt::ZERO,
                _ if x < 0.0 => -size,
                _ => size,
            }
        };
        let (hi, lo) = scale.into();
        let found = (part(hi) + part(lo)) * denominator;
        let exact = numerator << 1200u32;
        let difference = (found - &exact) << bits;
        difference <= exact && -difference <= exact
    }

    /// The largest primes `1 mod 2^18` below these sizes.
    fn primes(bits: &[f64]) -> Vec<u64> {
        let mut supply = Supply { step: 1 << 18, used: Vec::new() };
        bits.iter().map(|&bits| supply.below(bits).unwrap()).collect()
    }

    #[test]
    fn quotients_of_products_beyond_the_range_of_doubles() {
        let few = primes(&[61.0; 2]);
        let many = primes(&[60.0; 127]);
        // Products of up to 7,620 bits, in the same number of primes and in far fewer or more.
        let cases = [
            (&few[..1], &many[..1]),
            (&many[..64], &many[63..]),
            (&many[..63], &many[64..]),
            (&many[..34], &primes(&[51.0; 40])),
            (&primes(&[30.0; 80]), &many[..40]),
            (&many[..40], &primes(&[30.0; 80])),
            (&many[..20], &many[..20]),
            (&many[..1], &[]),
        ];
        for (above, below) in cases {
            let found = quotient(above, below);
            let numerator = integer(above);
            let denominator = integer(below);
            assert!(is_quotient(found, &numerator, &denominator, 90), "{found:?}");
            let found = quotient(below, above);
            assert!(is_quotient(found, &denominator, &numerator, 90), "{found:?}");
        }
        assert_eq!(quotient(&[], &[]), Scale::from_u64(1));
        // A base with one prime fewer than it needs is about the size of that prime.
        assert!(quotient(&many, &many[1..]).matches(Scale::from_u64(many[0])));
    }

    fn deep(log_n: u32, levels: usize, bits: f64) -> Result<Params> {
        let spec = Spec::uniform(log_n, bits + 10.0, levels, bits, vec![60.0]);
        Params::new(Spec { insecure: true, ..spec })
    }

    /// Compares with fixed point of 600 bits after the point, whose rounding also doubles at each
    /// level.
    #[test]
    fn default_scales_of_deep_chains_are_those_of_their_primes() {
        for (log_n, levels, bits) in
            [(10, 60, 40.0), (8, 100, 35.0), (12, 50, 45.0), (10, 120, 30.0)]
        {
            let params = deep(log_n, levels, bits).unwrap();
            let one = BigInt::from(1) << 600u32;
            // Scale over the requested scale, from the top down.
            let mut ratio = one.clone();
            for level in (0..=levels).rev() {
                let scale = params.scale_at(Level(level as u32));
                let drift = scale.log2() - bits;
                assert!(drift.abs() < 0.02, "N = 2^{log_n}, level {level}: {drift}");
                // Double words are correct to about 2^-100 at the top.
                let lost = (levels - level) as u32;
                if lost < 60 {
                    let goal = BigInt::from(1) << bits as u32;
                    let exact = &goal * &ratio;
                    assert!(is_quotient(scale, &exact, &one, 96 - lost), "{levels}: {level}");
                }
                if level > 0 {
                    let prime = params.rlwe().spec().q[level][0];
                    ratio = ((&ratio * &ratio) << bits as u32) / &one / prime;
                }
            }
        }
    }

    /// Such a chain is rejected instead of using a scale far from the requested one.
    #[test]
    fn chains_that_use_up_the_primes_of_their_size_are_refused() {
        let mut refused = 0;
        for levels in 1..=40 {
            match deep(10, levels, 18.0) {
                Ok(params) => {
                    let far = |level| (params.scale_at(Level(level)).log2() - 18.0).abs() > 0.25;
                    assert!(!(0..=levels as u32).any(far), "{levels}");
                }
                Err(error) => {
                    assert!(matches!(error, Error::InvalidSpec { field: "q_bits", .. }), "{error}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 0);
        let error = check_scale(deep(10, 3, 40.0).unwrap().spec(), 1, Scale::from_log2(40.5));
        let text = error.unwrap_err().to_string();
        assert!(text.contains("for 3 levels") && text.contains("2^40.50"), "{text}");
        assert!(check_scale(&raised_specs()[0], 1, Scale::from_log2(f64::NAN)).is_err());
    }

    #[test]
    fn products_down_a_deep_chain_keep_their_values() {
        let params = deep(8, 60, 40.0).unwrap();
        let top = params.top();
        let low = Level(0);
        let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
        let secret = keygen.secret_key().unwrap();
        let public = Arc::new(keygen.public_key(&secret).unwrap());
        let request = KeyRequest::new().relinearize(top);
        let keys = Arc::new(keygen.evaluation_keys(&secret, &request).unwrap());
        let encoder = Encoder::new(&params);
        let evaluator = Evaluator::new(&params, keys).unwrap();
        let encryptor = Encryptor::new(&params, public).unwrap();
        let decryptor = Decryptor::new(&params, secret).unwrap();
        let encrypt = |values: &[f64]| {
            let plain = encoder.encode_real_at(values, top, params.scale_at(top)).unwrap();
            encryptor.encrypt(&plain).unwrap()
        };
        let x = encrypt(&[0.3, 20.0]);
        let ones = encrypt(&[1.0, 1.0]);
        // Multiply each product by ciphertexts brought to its level.
        let mut product = x.clone();
        for level in (0..top.0).rev().map(Level) {
            let above = Level(level.0 + 1);
            let one = match above == top {
                true => ones.clone(),
                false => evaluator.match_scale(&ones, above, params.scale_at(above)).unwrap(),
            };
            product = evaluator.mul_rescale(&product, &one).unwrap();
            assert!(product.scale().matches(params.scale_at(level)), "{level}");
        }
        let brought = evaluator.match_scale(&x, low, params.scale_at(low)).unwrap();
        for found in [product, brought] {
            let found = encoder.decode_real(&decryptor.decrypt(&found).unwrap()).unwrap();
            assert!((found[0] - 0.3).abs() < 1e-5, "{}", found[0]);
            assert!((found[1] - 20.0).abs() < 1e-3, "{}", found[1]);
        }
    }

    fn upper(log_n: u32, q_bits: &[f64], base_bits: &[f64], levels_bits: &[&[f64]]) -> Spec {
        let levels_bits = levels_bits.iter().map(|level| level.to_vec()).collect();
        Spec {
            q_bits: q_bits.iter().map(|&bits| vec![bits]).collect(),
            upper: Some(UpperSpec { base_bits: base_bits.to_vec(), levels_bits }),
            insecure: true,
            ..Spec::uniform(log_n, 0.0, 0, 40.0, vec![61.0; 2])
        }
    }

    fn raised_specs() -> Vec<Spec> {
        let chain = [50.0, 40.0, 40.0, 30.0];
        let long = [[60.0].as_slice(), &[37.0; 24]].concat();
        vec![
            upper(10, &chain, &[40.0; 4], &[&[45.0], &[40.0]]),
            upper(10, &chain, &[53.5, 53.5, 53.0], &[&[30.0, 25.0]]),
            upper(12, &chain, &[32.0; 5], &[&[61.0], &[24.0], &[40.0]]),
            // Equal to half a bit.
            upper(10, &chain, &[60.0, 60.0, 40.5], &[&[45.0]]),
            upper(10, &chain, &[60.0, 60.0, 39.5], &[&[45.0]]),
            // Sizes of 948 bits, and of 1,260.
            upper(11, &long, &[948.0 / 19.0; 19], &[&[50.0], &[50.0], &[50.0]]),
            upper(10, &[60.0; 21], &[45.0; 28], &[&[60.0; 12]]),
        ]
    }

    /// The last prime is among the nearest `1 mod 2N`, at a distance of about `N ln(2) bits` on
    /// either side.
    #[test]
    fn the_base_is_as_large_as_the_chain() {
        for spec in raised_specs() {
            let Primes { q, upper, .. } = choose_primes(&spec).unwrap();
            let base = upper.unwrap().base;
            let sizes = &spec.upper.as_ref().unwrap().base_bits;
            assert_eq!(base.len(), sizes.len());
            for (i, (&prime, bits)) in base.iter().zip(sizes).enumerate() {
                let most = if i + 1 == sizes.len() { 0.6 } else { 0.01 };
                assert!(((prime as f64).log2() - bits).abs() < most, "{prime} of {bits} bits");
            }
            let chain = integer(&q.concat());
            let product = integer(&base);
            let last = *base.last().unwrap() as f64;
            let spacing = (1u64 << spec.log_n) as f64 * last.ln();
            // Gaps exceed ten times their mean once in e^10 cases.
            let most = BigInt::from((10.0 * spacing) as u64);
            let difference = (&chain - &product) * BigInt::from(last as u64);
            assert!(difference <= &most * &chain && -difference <= most * &chain, "{spec:?}");
            // No free prime is nearer.
            let others = integer(&base[..base.len() - 1]);
            let all: Vec<u64> = [q.concat(), base.clone()].concat();
            let step = 2u64 << spec.log_n;
            let distance = |prime: u64| {
                let difference = &chain - &others * prime;
                if difference < BigInt::ZERO { -difference } else { difference }
            };
            let mut nearest = base[base.len() - 1];
            for next in [previous_prime, |from, step| next_prime(from + 1, step)] {
                let mut prime = base[base.len() - 1];
                while let Some(other) = next(prime, step) {
                    prime = other;
                    if !all.contains(&prime) {
                        break;
                    }
                }
                if distance(prime) < distance(nearest) {
                    nearest = prime;
                }
            }
            assert_eq!(nearest, base[base.len() - 1], "{spec:?}");
        }
    }

    #[test]
    fn divisors_are_the_quotients_of_moduli() {
        for spec in raised_specs() {
            let params = Params::new(spec.clone()).unwrap();
            let rlwe::Spec { q, upper, .. } = params.rlwe().spec();
            let UpperChain { base, levels } = upper.clone().unwrap();
            let mut moduli: Vec<BigInt> =
                (0..q.len()).map(|l| integer(&q[..=l].concat())).collect();
            moduli.extend(
                (0..levels.len()).map(|l| integer(&base) * integer(&levels[..=l].concat())),
            );
            let top = params.top();
            let highest = params.upper_top();
            assert_eq!((top.index() + 1, highest.index() + 1), (q.len(), moduli.len()));
            let chain = params.chain();
            assert_eq!((chain.top(), chain.levels().highest()), (top, highest));
            for level in (1..=highest.0).map(Level) {
                let [below, at] = [level.index() - 1, level.index()].map(|l| &moduli[l]);
                assert!(is_quotient(chain.divisor(level), at, below, 90), "{level} of {spec:?}");
                let bits = chain.log2_q(level) - chain.log2_q(Level(level.0 - 1));
                assert!((chain.divisor(level).log2() - bits).abs() < 1e-9);
                assert_eq!(chain.log2_q(level), params.rlwe().log2_q(level));
            }
            // Below the top, where levels have the size of the scale, a default scale is the square
            // of the previous one over the divisor. Above the top, it is the default scale of the
            // top.
            let unit = Scale::from_log2(spec.log2_scale);
            for level in (top.0..=highest.0).map(Level) {
                assert_eq!(params.scale_at(level), unit);
            }
            for level in (1..=top.0).map(Level) {
                let scale = params.scale_at(level);
                let below = params.scale_at(Level(level.0 - 1));
                let follows = is_scale_level(&spec, &spec.q_bits[level.index()]);
                let expected = if follows { scale * scale / chain.divisor(level) } else { scale };
                assert!(below.matches(expected));
            }
        }
    }

    #[test]
    fn levels_have_primes_in_common_on_either_side_of_the_top() {
        let params = Params::new(raised_specs().swap_remove(2)).unwrap();
        let chain = params.chain();
        let rlwe = params.rlwe();
        let primes = |level| {
            let limbs = rlwe.limbs(level);
            let tables = rlwe.basis().tables(limbs);
            tables.map(|table| table.modulus().value()).collect::<Vec<_>>()
        };
        let all = || (0..=params.upper_top().0).map(Level);
        for (a, b) in all().flat_map(|a| all().map(move |b| (a, b))) {
            let low = primes(a.min(b));
            let high = primes(a.max(b));
            let common = high.starts_with(&low);
            assert_eq!(common, !low.iter().any(|prime| !high.contains(prime)));
            let error = Error::RaisedLevel { found: a.max(b), needed: a.min(b), top: params.top() };
            assert_eq!(chain.levels().lower(a, b), if common { Ok(a.min(b)) } else { Err(error) });
            assert_eq!(chain.levels().above(a.min(b)).contains(&a.max(b)), common);
            assert_eq!(rlwe.levels().above(a.min(b)).contains(&a.max(b)), common);
            assert_eq!(rlwe.levels().below(a.max(b)).any(|l| l == a.min(b)), common);
        }
        let above = Level(params.upper_top().0 + 1);
        assert_eq!(chain.levels().check(above).unwrap_err(), rlwe.check_level(above).unwrap_err());
    }

    #[test]
    fn bases_of_another_size_are_refused() {
        let with =
            |last: f64| upper(10, &[50.0, 40.0, 40.0, 30.0], &[60.0, 60.0, last], &[&[45.0]]);
        for last in [39.49, 40.51, 38.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let found = Params::new(with(last)).map(drop);
            assert!(matches!(found, Err(Error::InvalidSpec { field: "upper", .. })), "{found:?}");
        }
        assert!(Params::new(with(40.49)).is_ok());
        let mut nan = with(40.0);
        nan.q_bits[1][0] = f64::NAN;
        let found = Params::new(nan).map(drop);
        assert!(matches!(found, Err(Error::InvalidSpec { .. })), "{found:?}");
        // The last prime would be beyond the range left for it.
        let tight = upper(10, &[50.0, 60.0], &[61.3, 48.3], &[&[45.0]]);
        assert!(Params::new(tight).is_ok());
        let large = upper(10, &[61.5, 61.5], &[61.3, 61.3], &[&[45.0]]);
        let found = Params::new(large).map(drop);
        assert!(!matches!(found, Err(Error::Arith(_))), "{found:?}");
    }
}
