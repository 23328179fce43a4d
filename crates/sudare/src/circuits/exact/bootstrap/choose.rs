//! Sets for bootstrapping of moduli without a named set.

use super::{
    BootstrapPlan, BootstrapPreset,
    presets::{BOUND, Factor, Shape, removal_depth},
};
use crate::{
    Error, Result,
    circuits::{Ops, exact::sim},
    exact::{Form, IntegerEncoder, Modulus, NoiseBound, Params},
    rlwe::{Level, Raise, SecretDistribution, max_log2_qp},
};
use sudare_arith::real;

const SECURITY_BITS: f64 = 128.0;

/// `log2` of the degrees of rings with room for bootstrapping.
pub const RINGS: core::ops::RangeInclusive<u32> = 13..=16;

/// Maximum bits of primes: no ring has room for the digit removal of larger ones.
const MAX_PRIME_BITS: u32 = 50;

/// Suffix of the names of chosen sets.
const MODE: &str = "auto";

/// Layers of the largest factors of either map.
const TO_COEFFS_LAYERS: u32 = 7;
const TO_SLOTS_LAYERS: u32 = 5;

/// Size of special primes in bits, unless there is only one.
const SPECIAL_BITS: f64 = 49.5;
/// Maximum number of special primes.
const MAX_SPECIALS: usize = 8;
/// Maximum number of digits of a key switch at the top that counts as few. Special primes are worth
/// their bits if they leave few digits and at least this number of levels.
const FEW_DIGITS: f64 = 5.0;
const FEW_LEVELS: usize = 2;

/// Margin, in bits, of a level for squares over `t` times the rounding error at a root: four times
/// that error has a fixed point. Also the margin of level 0 and of the last factor of SlotsToCoeffs
/// over their remaining coefficients and weights.
const SQUARES: f64 = 2.0;
const BROUGHT: f64 = 9.0;
const LAST: f64 = 4.0;

/// Bits by which sizes grow until errors fit, and the maximum number of attempts.
const STEP: f64 = 0.5;
const STEPS: u32 = 6;

/// Chooses a set that bootstraps integers modulo `t = p^r`, in all slots of the ring of degree
/// `2^log_n`, with 128 bits of security and the maximum number of levels.
///
/// Sizes of levels follow from the growth of errors in each part, by
/// [`NoiseBound`](crate::exact::NoiseBound). They are tested with the bounds of a bootstrapping, of
/// products down to the lowest level, and of another bootstrapping. The same modulus and ring
/// always lead to the same set.
///
/// # Errors
/// [`Error::NoSlots`] for a modulus without slots of integers in the ring, such as every even one;
/// it names primes with a slot per coefficient of the ring; [`Error::InvalidSpec`] for a prime of
/// more than 50 bits or below 31, a ring other than of degree `2^13` to `2^16`, and a modulus that
/// leaves no level; the message names a ring that would leave one.
pub fn choose(t: Modulus, log_n: u32) -> Result<BootstrapPreset> {
    let tries = candidates(t, log_n)?.map(|set| {
        let set = set?;
        let params = Params::new(set.preset.spec.clone())?;
        let plan = set.plan(&params, Params::factor_at)?;
        check_errors(&plan, &params)?;
        check_keys(&plan, &params)?;
        Ok(set)
    });
    // Only errors that do not fit ask for larger sizes. Any other error ends the search.
    let holds = |tried: &Result<_>| !matches!(tried, Err(Error::NoiseExhausted { .. }));
    let none = || Err(no_room(t, log_n, "no sizes of levels hold its errors"));
    tries.into_iter().find(holds).unwrap_or_else(none)
}

/// Returns the candidates from which [`choose`] takes the first that holds its errors.
pub(super) fn candidates(
    t: Modulus,
    log_n: u32,
) -> Result<impl Iterator<Item = Result<BootstrapPreset>>> {
    check(t, log_n)?;
    Ok((0..=STEPS).map(move |step| Sizes::new(t, log_n, f64::from(step) * STEP)?.set()))
}

/// Parses the name of a chosen set: the ring, and prime and exponent of the modulus.
pub(super) fn parse(name: &str) -> Option<(u32, (u64, u32))> {
    let mut parts = name.strip_suffix(MODE)?.strip_suffix('-')?.split('-');
    let log_n = parts.next()?.strip_prefix('n')?.parse().ok()?;
    let prime = parts.next()?.strip_prefix('t')?.parse().ok()?;
    let exponent = parts.next().map_or(Ok(1), str::parse).ok()?;
    // A name with further parts cannot be the name of a chosen set.
    parts.next().is_none().then_some((log_n, (prime, exponent)))
}

fn check(t: Modulus, log_n: u32) -> Result<()> {
    let refuse = |problem| Err(Error::InvalidSpec { field: "plaintext modulus", problem });
    if !RINGS.contains(&log_n) {
        let problem = format!("2^{log_n}: bootstrapping is in rings of degree 2^13 to 2^16");
        return Err(Error::InvalidSpec { field: "log_n", problem });
    }
    let p = t.prime();
    if p % 4 == 3 && !(p + 1).is_multiple_of(16) {
        return refuse(format!(
            "{t}: there are too few slots of integers to bootstrap; a prime p is needed that is 1 \
             modulo 4 or for which p + 1 is a multiple of 16"
        ));
    }
    if p >> MAX_PRIME_BITS != 0 {
        return refuse(format!(
            "{t}: removing a digit of a prime of more than {MAX_PRIME_BITS} bits leaves no level in \
             any ring; a prime of at most {MAX_PRIME_BITS} bits is needed"
        ));
    }
    // An even modulus passes here: the encoder rejects it with an error that names primes.
    if p > 2 && p < u64::from(2 * BOUND + 1) {
        return refuse(format!(
            "{t}: bootstrapping removes digits up to {BOUND}, but the prime has fewer digits: choose \
             a prime of at least {}",
            2 * BOUND + 1
        ));
    }
    Ok(())
}

fn no_room(t: Modulus, log_n: u32, why: &str) -> Error {
    let larger = (log_n + 1..=*RINGS.end()).find_map(|log_n| {
        // An estimate for the message: without a margin, and before any check of errors.
        let usable = Sizes::new(t, log_n, 0.0).ok()?.specials()?.1;
        Some(format!("N = 2^{log_n} leaves {usable} levels"))
    });
    let advice = larger.unwrap_or_else(|| "use a smaller modulus".into());
    let problem = format!("bootstrapping modulo {t} in a ring of N = 2^{log_n}: {why}; {advice}");
    Error::InvalidSpec { field: "plaintext modulus", problem }
}

/// Rejects a plan in which errors might not decrypt: in a bootstrapping, in products down to its
/// input level, or in a bootstrapping of the result.
pub(super) fn check_errors(plan: &BootstrapPlan, params: &Params) -> Result<()> {
    let e = sim::Evaluator::with_tensor(params, plan.tensor(), plan.required_keys())?;
    let bootstrapper = plan.prepare(&e)?;
    let level = plan.input_level();
    let t = plan.spec().modulus;
    check_refreshed(&e, params, (level, t), |x| bootstrapper.run(&e, x))
}

/// Does the check of [`check_errors`] for any method that refreshes inputs from a level.
pub(super) fn check_refreshed(
    e: &sim::Evaluator,
    params: &Params,
    (level, t): (Level, Modulus),
    refresh: impl Fn(&Form) -> Result<Form>,
) -> Result<()> {
    let mut x = e.encrypt(level, params.factor_at(level, t)?)?;
    // Twice, because the first round starts from a fresh error and the second from a refreshed one.
    for _ in 0..2 {
        x = refresh(&x)?;
        while x.level > level {
            x = e.mul_rescale(&x, &x)?;
        }
    }
    refresh(&x).map(drop)
}

/// Rejects keys of less security.
fn check_keys(plan: &BootstrapPlan, params: &Params) -> Result<()> {
    let keys = plan.required_keys().key_security(params.rlwe())?;
    match keys.iter().find(|key| key.security_bits < SECURITY_BITS) {
        None => Ok(()),
        Some(key) => Err(no_room(
            plan.spec().modulus,
            params.log_n(),
            &format!(
                "a key of {:.0} bits would have {:.0} bits of security",
                key.log2_q, key.security_bits
            ),
        )),
    }
}

/// Bits of the levels in each part of a bootstrapping.
struct Sizes {
    t: Modulus,
    log_n: u32,
    log_slots: u32,
    single: f64,
    to_coeffs: Vec<Factor>,
    usable: f64,
    removal: f64,
    removal_depth: u32,
    to_slots: Vec<Factor>,
}

/// Rounds up to half a bit, so that rounding of logarithms does not matter.
fn half_bits(bits: f64) -> f64 {
    (2.0 * bits).ceil() / 2.0
}

/// Splits `layers` layers into factors of at most `most` layers, as evenly as possible, the larger
/// first.
fn split(layers: u32, most: u32, least_factors: u32) -> Vec<u32> {
    let factors = layers.div_ceil(most).max(least_factors).min(layers);
    (0..factors).map(|i| (layers + factors - 1 - i) / factors).collect()
}

/// Returns the layers of the factors of CoeffsToSlots. There are two or more factors if possible.
/// The last one has one layer fewer, since it joins the rows.
fn joined_last(layers: u32) -> Vec<u32> {
    // Joining the rows counts as a layer of the last factor while layers are distributed.
    let mut all = split(layers + 1, TO_SLOTS_LAYERS + 1, 2);
    match all.last_mut() {
        Some(last) if *last > 1 => *last -= 1,
        _ => all = split(layers, TO_SLOTS_LAYERS, 2),
    }
    all
}

impl Sizes {
    /// Computes sizes with a margin beyond the expected errors.
    fn new(t: Modulus, log_n: u32, margin: f64) -> Result<Self> {
        // An even modulus has no slots, and the error names primes.
        let log_slots = IntegerEncoder::most_slots(t, log_n).unwrap_or(log_n);
        IntegerEncoder::new(t, log_n, log_slots)?;
        let high = t.with_exponent(t.exponent() + 1)?;
        let removal_depth = removal_depth(high)?;
        let high = high.log2();
        let log2_t = t.log2();
        let rounding = NoiseBound::rounding(log_n, SecretDistribution::UniformTernary);
        // Few primes have fewer bits than this.
        let least = f64::from(log_n) + 10.0;
        let size = |bits: f64| half_bits(bits + margin).max(least);
        // Consecutive squares, each rescaled, stay below twice the rounding error.
        let stable = |log2_t: f64| size(log2_t + rounding.canonical_log2() + SQUARES);
        let layers = log_slots - 1;
        let gap = f64::from(log_n - log_slots);
        let slim = t.prime() % 4 == 3;
        // The sum of roots of sums of squares of weights. Each weight has about as many
        // coefficients as there are slots.
        let weights = |modulus: f64, count: usize| {
            let coefficients = f64::from(log_slots + u32::from(slim));
            modulus - real::log2(12.0) / 2.0 + coefficients / 2.0 + real::log2(count as f64)
        };
        let radices = split(layers, TO_COEFFS_LAYERS, 1);
        let last = radices.len().saturating_sub(1);
        let to_coeffs = radices.iter().enumerate().map(|(i, &k)| {
            // The first factor joins the rows.
            let diagonals = diagonals(k, i == last) << u32::from(i == 0);
            let brought = if i == last { LAST } else { 1.0 };
            (k, size(weights(log2_t, diagonals) + brought))
        });
        let to_coeffs = to_coeffs.collect();
        let radices = joined_last(layers);
        let last = radices.len().saturating_sub(1);
        let to_slots = radices.iter().enumerate().map(|(i, &k)| {
            let diagonals = diagonals(k, i == 0) << u32::from(i == last);
            // The trace before this factor adds `2^gap` images of an error.
            let traced = if i == 1 { gap } else { 0.0 };
            let brought = if i == 0 { 0.5 } else { 2.5 };
            (k, size(weights(high, diagonals) + traced + brought))
        });
        let to_slots = to_slots.collect();
        Ok(Self {
            t,
            log_n,
            log_slots,
            single: size(high + rounding.log2() + BROUGHT),
            to_coeffs,
            usable: stable(log2_t),
            removal: stable(high),
            removal_depth,
            to_slots,
        })
    }

    /// Bits of all levels except usable ones.
    fn fixed(&self) -> f64 {
        let of = |factors: &[Factor]| factors.iter().map(|&(_, bits)| bits).sum::<f64>();
        let removal = self.removal * f64::from(self.removal_depth);
        self.single + of(&self.to_coeffs) + of(&self.to_slots) + removal
    }

    /// Returns the sizes of special primes with the number of usable levels that they leave.
    fn specials(&self) -> Option<(Vec<f64>, usize)> {
        let most = |secret| max_log2_qp(self.log_n, secret, SECURITY_BITS) - 0.5;
        let limit = most(SecretDistribution::UniformTernary);
        let ephemeral = most(SecretDistribution::FixedWeight { h: Raise::DEFAULT_WEIGHT });
        let room = |p_bits: Vec<f64>| {
            // Keys under the ephemeral secret have enough special primes to cover level 0.
            let size = p_bits.first().copied()?;
            let covering = (self.single / size).ceil();
            let bits = limit - p_bits.iter().sum::<f64>() - self.fixed();
            let fits = bits >= self.usable
                && covering <= p_bits.len() as f64
                && self.single + covering * size <= ephemeral;
            fits.then(|| (p_bits, (bits / self.usable) as usize))
        };
        let many = (1..=MAX_SPECIALS).map(|count| vec![SPECIAL_BITS; count]);
        // A single special prime has the size of the largest prime.
        let largest = self.single.max(self.removal).min(SPECIAL_BITS) + 0.5;
        let options: Vec<_> =
            room(vec![largest]).into_iter().chain(many.filter_map(room)).collect();
        let is_quick = |(p_bits, usable): &&(Vec<f64>, usize)| {
            limit / p_bits.iter().sum::<f64>() - 1.0 <= FEW_DIGITS && *usable >= FEW_LEVELS
        };
        let deepest = || options.iter().max_by_key(|(_, usable)| *usable);
        options.iter().find(is_quick).or_else(deepest).cloned()
    }

    fn set(&self) -> Result<BootstrapPreset> {
        let Some((p_bits, usable)) = self.specials() else {
            let why = format!("the parts of it take {:.0} bits and leave no level", self.fixed());
            return Err(no_room(self.t, self.log_n, &why));
        };
        let special = p_bits.first().copied().unwrap_or(SPECIAL_BITS);
        Shape {
            log_n: self.log_n,
            prime: self.t.prime(),
            exponent: self.t.exponent(),
            log_slots: self.log_slots,
            single_bits: self.single,
            to_coeffs: &self.to_coeffs,
            usable: (self.usable, usable),
            removal_bits: self.removal,
            to_slots: &self.to_slots,
            base_bits: special - 0.5,
            p_bits: &p_bits,
            extra_p_bits: &[special; 4],
        }
        .preset(MODE, 0.0)
    }
}

/// Returns the number of diagonals of a factor of `k` layers, with or without the highest bit of
/// the index.
fn diagonals(k: u32, highest: bool) -> usize {
    if highest { 1 << k } else { (2 << k) - 1 }
}
