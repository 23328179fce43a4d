//! Chains of primes for a computation: how large its levels are, which special primes a ring has
//! room for, and which ring is the smallest.
//!
//! A caller knows the bits of each level in a ring. [`level`] cuts these bits into primes,
//! [`Room::complete`] adds special primes, and [`smallest`] goes through [`RINGS`]:
//!
//! ```
//! use sudare::ckks::{Params, planner};
//!
//! # fn main() -> sudare::Result<()> {
//! let chain = |log_n| {
//!     let scale = f64::from(log_n) + 26.0;
//!     let base = planner::level(scale + 10.0, planner::PRIME_BITS);
//!     let levels = vec![planner::level(scale, planner::PRIME_BITS); 3];
//!     Ok::<_, sudare::Error>(Some(planner::chain(log_n, [vec![base], levels].concat(), scale)))
//! };
//! let spec = planner::smallest(planner::RINGS, chain)?.unwrap();
//! assert_eq!(spec.log_n, 14);
//! let params = Params::new(spec)?;
//! # Ok(())
//! # }
//! ```

use super::Spec;
use crate::rlwe::{SecretDistribution, max_log2_qp};
use core::ops::RangeInclusive;
use sudare_arith::{real, sample::CBD21_VARIANCE};

/// Security of the parameters that plans propose, in bits.
pub const SECURITY_BITS: f64 = 128.0;

/// Rings that plans try, as `log2(N)`: in smaller ones no chain with a level is secure.
pub const RINGS: RangeInclusive<u32> = 10..=17;

/// Largest size of a prime with the fastest kernels.
pub const FAST_BITS: f64 = 50.0;

/// Size of primes that also have the fastest kernels when they are found above that size.
pub const PRIME_BITS: f64 = 49.5;

/// Largest size of a prime of a level.
pub const MAX_PRIME_BITS: f64 = 60.0;

/// Largest number of primes in a level. No ring has room for half of them.
const MAX_PRIMES: f64 = 128.0;

/// Primes are not exactly as large as requested: a chain may differ from its sizes by this much.
pub const SLACK_BITS: f64 = 0.5;

/// Margin above the product of a digit's primes, which keeps errors of key switching below rounding
/// errors.
const MARGIN_BITS: f64 = 4.0;

/// Cuts a level into the fewest primes of at most `widest` bits, all of one size.
#[must_use]
pub fn level(bits: f64, widest: f64) -> Vec<f64> {
    let primes = (bits / widest).ceil().clamp(1.0, MAX_PRIMES);
    vec![bits / primes; primes as usize]
}

/// A specification with these levels, without special primes, for a uniform ternary secret.
#[must_use]
pub fn chain(log_n: u32, q_bits: Vec<Vec<f64>>, log2_scale: f64) -> Spec {
    Spec { q_bits, ..Spec::uniform(log_n, 0.0, 0, log2_scale, Vec::new()) }
}

/// Returns the chain of the first ring that has room for it and its special primes.
///
/// `propose` returns a [`chain`] for a ring, or `None` to skip the ring. If no ring has room, the
/// result is the last proposal with one special prime: [`Params::new`](super::Params::new) refuses
/// it and names the figures.
///
/// # Errors
/// The first error of `propose`.
pub fn smallest<E>(
    rings: impl IntoIterator<Item = u32>,
    mut propose: impl FnMut(u32) -> Result<Option<Spec>, E>,
) -> Result<Option<Spec>, E> {
    let mut last = None;
    for log_n in rings {
        let Some(spec) = propose(log_n)? else { continue };
        match Room::new(log_n).complete(spec.clone()) {
            Some(complete) => return Ok(Some(complete)),
            None => last = Some(Spec { p_bits: vec![FAST_BITS], ..spec }),
        }
    }
    Ok(last)
}

/// The modulus that a ring has room for at [`SECURITY_BITS`], with a uniform ternary secret.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Room {
    log2_qp: f64,
}

impl Room {
    /// Room for any modulus: for parameters that need not be secure, as in tests.
    pub const UNLIMITED: Self = Self { log2_qp: f64::INFINITY };

    /// The room of the ring of dimension `2^log_n`.
    #[must_use]
    pub fn new(log_n: u32) -> Self {
        Self::at(log_n, SECURITY_BITS)
    }

    /// Returns the room of the ring of dimension `2^log_n` at another security, in bits.
    #[must_use]
    pub fn at(log_n: u32, security_bits: f64) -> Self {
        let secret = SecretDistribution::UniformTernary;
        Self { log2_qp: max_log2_qp(log_n, secret, security_bits) }
    }

    /// Returns the room less `bits` bits.
    #[must_use]
    pub fn without(self, bits: f64) -> Self {
        Self { log2_qp: self.log2_qp - bits }
    }

    /// Tests whether a modulus of `log2_qp` bits is secure.
    #[must_use]
    pub fn holds(self, log2_qp: f64) -> bool {
        log2_qp <= self.log2_qp
    }

    /// Adds the special primes for the fastest key switching at the top level, if there is room for
    /// any.
    #[must_use]
    pub fn complete(self, spec: Spec) -> Option<Spec> {
        let p_bits = self.special_primes(&spec.q_bits)?;
        Some(Spec { p_bits, ..spec })
    }

    fn special_primes(self, q_bits: &[Vec<f64>]) -> Option<Vec<f64>> {
        let q_bits = q_bits.concat();
        let log2_q: f64 = q_bits.iter().sum();
        // The search below takes the square of the number of primes, which is bounded only here.
        if !self.holds(log2_q) {
            return None;
        }
        (1..=q_bits.len())
            .map(|alpha| {
                let digits = q_bits.chunks(alpha).map(|digit| digit.iter().sum::<f64>());
                (alpha, digits.fold(0.0, f64::max) + MARGIN_BITS)
            })
            .filter(|(_, log2_p)| self.holds(log2_q + log2_p + SLACK_BITS))
            .map(|(alpha, log2_p)| {
                let count = (log2_p / FAST_BITS).ceil();
                let cost = transforms(q_bits.len() + count as usize, q_bits.len().div_ceil(alpha));
                (cost, vec![log2_p / count; count as usize])
            })
            // In a tie the first wins, with the smallest special primes.
            .min_by_key(|&(cost, _)| cost)
            .map(|(_, p_bits)| p_bits)
    }

    /// Returns the sizes of further special primes, after `p_bits`, for keys of the level with the
    /// primes `q_bits`. They make one digit of these primes, or fill the room.
    #[must_use]
    pub fn further_special_primes(self, q_bits: &[Vec<f64>], p_bits: &[f64]) -> Vec<f64> {
        let log2_q: f64 = q_bits.concat().iter().sum();
        let log2_p: f64 = p_bits.iter().sum();
        let wanted = ((log2_q + MARGIN_BITS - log2_p) / FAST_BITS).ceil();
        let room = ((self.log2_qp - SLACK_BITS - log2_q - log2_p) / FAST_BITS).floor();
        // The room may be used up, or the digit may need no further prime.
        vec![FAST_BITS; wanted.min(room).max(0.0) as usize]
    }

    /// Transforms of a key switch at the level with the primes `q_bits`, with the number of special
    /// primes that makes it cheapest: the first `least` of `p_bits`, or more where there is room.
    #[must_use]
    pub fn switch_cost(self, q_bits: &[Vec<f64>], p_bits: &[f64], least: usize) -> f64 {
        let q_bits = q_bits.concat();
        let log2_q: f64 = q_bits.iter().sum();
        let cost = |count: usize| {
            let log2_p: f64 = p_bits.get(..count)?.iter().sum();
            // A digit has primes from the bottom as long as their product is at most the product of
            // the special primes.
            let mut digits = 1;
            let mut digit = 0.0;
            for bits in &q_bits {
                digit += bits;
                if digit > log2_p {
                    digits += 1;
                    digit = *bits;
                }
            }
            // The first `least` exist in any case.
            let secure = count <= least || self.holds(log2_q + log2_p + SLACK_BITS);
            secure.then(|| transforms(q_bits.len() + count, digits))
        };
        (least..=p_bits.len()).filter_map(cost).min().unwrap_or(usize::MAX) as f64
    }
}

/// Transforms of a key switch: raising each digit, and dividing two polynomials by the special
/// primes.
fn transforms(primes: usize, digits: usize) -> usize {
    primes * (digits + 2)
}

/// `log2` of the standard deviations of the integer errors in a slot, under a uniform ternary
/// secret.
#[derive(Debug, Clone, Copy)]
pub struct Errors {
    /// Error of a fresh encryption under a public key, `v e + e_0 + e_1 s`.
    pub fresh: f64,
    /// Error of a fresh encryption under the secret key.
    pub secret_fresh: f64,
    /// Error of rounding both parts of a ciphertext: `N / 18` in coefficients, `N` times that in
    /// slots.
    pub rounding: f64,
}

impl Errors {
    /// Errors in the ring of dimension `2^log_n`.
    #[must_use]
    pub fn new(log_n: u32) -> Self {
        let log_n = f64::from(log_n);
        Self {
            fresh: log_n + real::log2(CBD21_VARIANCE * 4.0 / 3.0) / 2.0,
            secret_fresh: (real::log2(CBD21_VARIANCE) + log_n) / 2.0,
            rounding: log_n - real::log2(18.0) / 2.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At once, although digits of every number of primes would take hours to go through.
    #[test]
    fn chains_that_no_ring_has_room_for_have_none() {
        let special = |log2_qp, primes| Room { log2_qp }.special_primes(&vec![vec![40.0]; primes]);
        assert_eq!(special(3500.0, 1 << 20), None);
        assert_eq!(special(160.0, 3), None);
        assert!(special(170.0, 3).is_some());
    }

    #[test]
    fn levels_have_the_fewest_primes_of_one_size() {
        assert_eq!(level(40.0, MAX_PRIME_BITS), [40.0]);
        assert_eq!(level(90.0, MAX_PRIME_BITS), [45.0; 2]);
        assert_eq!(level(0.0, PRIME_BITS), [0.0]);
        assert_eq!(level(f64::INFINITY, PRIME_BITS).len(), 128);
    }

    #[test]
    fn the_smallest_ring_is_found_or_the_last_is_refused() {
        let proposed = |levels| {
            let chain = |log_n| Some(chain(log_n, vec![vec![40.0]; levels], 40.0));
            smallest(RINGS, |log_n| Ok::<_, ()>(chain(log_n))).unwrap().unwrap()
        };
        assert_eq!([3, 8, 20].map(|levels| proposed(levels).log_n), [13, 14, 15]);
        let refused = proposed(100);
        assert_eq!((refused.log_n, &refused.p_bits[..]), (17, &[FAST_BITS][..]));
        let refused = crate::ckks::Params::new(refused);
        assert!(matches!(refused, Err(crate::Error::Insecure { .. })), "{refused:?}");
        assert_eq!(smallest(RINGS, |_| Ok::<_, ()>(None)), Ok(None));
    }
}
