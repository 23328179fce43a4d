//! Sizes of the scheme.

use crate::{Error, Result};
use std::sync::Arc;
use sudare_arith::{is_prime, real};

/// The acknowledgement that keys and ciphertexts made with it protect no data.
///
/// The published parameters have no security today. With `gamma` at about twice `2 eta l` bits,
/// public elements span lattices that LLL alone reduces far enough to reveal the secret primes.
#[derive(Debug, Clone, Copy)]
pub struct InsecureResearch(());

/// Acknowledges that the following objects are insecure, meant for research, and will hold no data
/// that matters.
#[must_use]
pub fn insecure_research() -> InsecureResearch {
    InsecureResearch(())
}

/// A subset sum that hides a secret: the public numbers, and the number of them that sum to it for
/// each slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubsetSum {
    /// Number of public numbers: `Theta` of the product key, `Theta'` of the bootstrapping key.
    pub len: usize,
    /// Number of numbers in the sum of a slot: `theta`, `theta'`.
    pub weight: usize,
}

/// Sizes, with the symbols of the publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Number of slots of a ciphertext, `l`.
    pub slots: usize,
    /// Message spaces are the integers modulo powers of this prime.
    pub t: u32,
    /// Bits of each secret prime `p_j`.
    pub eta: u32,
    /// Bits of fresh noise.
    pub rho: u32,
    /// Bits of the public modulus `x_0 = q_0 prod_j p_j^2`.
    pub gamma: u32,
    /// The numbers `z` that turn products into ciphertexts.
    pub convert: SubsetSum,
    /// Bits of the words that products are cut into, `w`.
    pub word_bits: u32,
    /// The numbers `u` of bootstrapping.
    pub bootstrap: SubsetSum,
    /// Number of digits that bootstrapping extracts, `n`.
    pub digits: u32,
}

/// Names, slots, `gamma` and words of the sets.
const PRESETS: [(&str, usize, u32, u32); 3] =
    [("clt-500", 500, 380_000, 16), ("clt-500-w32", 500, 380_000, 32), ("clt-4", 4, 3_040, 16)];

/// Returns the names that [`Spec::named`] accepts.
#[must_use]
pub fn preset_names() -> Vec<&'static str> {
    PRESETS.iter().map(|preset| preset.0).collect()
}

impl Spec {
    /// Returns a named set.
    ///
    /// `clt-500-w32` is the set of the thesis, section 5.4: 500 slots, `eta` 192, `rho` 52, `gamma`
    /// 380,000 and words of 32 bits. `clt-500` has words of 16 bits, which reduce noise by 16 bits:
    /// enough for AES-128, with room to spare. `clt-4` is the same for four slots, with `gamma` in
    /// proportion, for demonstrations. All sets extract four digits, which fifteen roundings need.
    /// The formula of the thesis gives seven digits, and its text five. No set is secure.
    ///
    /// # Errors
    /// [`Error::UnknownPreset`], which lists the names.
    pub fn named(name: &str) -> Result<Self> {
        let Some(&(_, slots, gamma, word_bits)) = PRESETS.iter().find(|preset| preset.0 == name)
        else {
            // The name comes from the command line, and may have any length.
            let name = name.chars().take(40).collect();
            return Err(Error::UnknownPreset { name, known: preset_names().join(", ") });
        };
        Ok(Self {
            slots,
            t: 2,
            eta: 192,
            rho: 52,
            gamma,
            convert: SubsetSum { len: 1500, weight: 100 },
            word_bits,
            bootstrap: SubsetSum { len: 8000, weight: 15 },
            digits: 4,
        })
    }

    /// Returns a set with the noise of `clt-500` for few slots, for tests. `eta` and `rho` are the
    /// same. `gamma` and the subset sums are as short as possible.
    #[must_use]
    pub fn small(slots: usize, t: u32) -> Self {
        // The minimum number of digits that survives a sum of 15 roundings.
        let digits = (1..).find(|&n| u64::from(t).pow(n) > 15).unwrap_or(4);
        Self {
            slots,
            t,
            eta: 192,
            rho: 52,
            gamma: 2 * 192 * slots as u32 + 600,
            convert: SubsetSum { len: slots + 60, weight: 30 },
            word_bits: 16,
            bootstrap: SubsetSum { len: slots + 100, weight: 15 },
            digits,
        }
    }
}

/// A checked [`Spec`], shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params(Arc<Spec>);

/// Additional bits of the fractions `u`, `kappa' - gamma`, so that a sum of fractions is exact
/// enough.
const FRACTION_ROOM: u32 = 72;

impl Params {
    /// Checks sizes.
    ///
    /// # Errors
    /// [`Error::InvalidParams`].
    pub fn new(spec: Spec, _: InsecureResearch) -> Result<Self> {
        check(&spec)?;
        Ok(Self(Arc::new(spec)))
    }

    /// Returns the sizes.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.0
    }

    /// Returns the largest exponent `a` of a message space `t^a`: one more than the digits that
    /// bootstrapping extracts.
    #[must_use]
    pub fn max_exponent(&self) -> u32 {
        self.0.digits + 1
    }

    /// Returns `t^exponent`.
    ///
    /// # Errors
    /// [`Error::ExponentOutOfRange`].
    pub fn message_modulus(&self, exponent: u32) -> Result<u64> {
        let most = self.max_exponent();
        if (1..=most).contains(&exponent) {
            return Ok(self.power(exponent));
        }
        Err(Error::ExponentOutOfRange { found: exponent, most })
    }

    /// Returns the bits of noise below which a message modulo `t^exponent` decrypts correctly.
    #[must_use]
    pub fn noise_limit_bits(&self, exponent: u32) -> f64 {
        f64::from(self.0.eta) - 2.0 - f64::from(exponent) * self.log2_t()
    }

    /// Returns the bits of noise below which a ciphertext modulo `t` bootstraps correctly, for all
    /// roundings.
    #[must_use]
    pub fn bootstrap_limit_bits(&self) -> f64 {
        let roundings = self.0.bootstrap.weight as f64 / 2.0 / self.power(self.0.digits) as f64;
        f64::from(self.0.eta) - 1.0 - self.log2_t() + real::log2(0.5 - roundings)
    }

    /// Returns the bytes of a ciphertext.
    #[must_use]
    pub fn ciphertext_bytes(&self) -> u64 {
        8 * self.limbs() as u64
    }

    /// Returns the bytes of the evaluation key in memory.
    #[must_use]
    pub fn evaluation_key_bytes(&self) -> u64 {
        let Spec { convert, bootstrap, .. } = *self.spec();
        let z = convert.len * self.z_limbs();
        let sigma = convert.len * self.words() * self.limbs();
        let u_and_v = bootstrap.len * (self.u_limbs() + self.limbs());
        8 * (z + sigma + u_and_v) as u64
    }

    /// Returns the products of a bootstrapping. The polynomial of a digit is evaluated
    /// `n (n + 1) / 2` times, with `t - 1` products each.
    #[must_use]
    pub fn bootstrap_products(&self) -> u32 {
        self.0.digits * (self.0.digits + 1) / 2 * (self.0.t - 1)
    }

    pub(crate) fn log2_t(&self) -> f64 {
        real::log2(f64::from(self.0.t))
    }

    pub(crate) fn power(&self, exponent: u32) -> u64 {
        u64::from(self.0.t).pow(exponent)
    }

    /// Returns the limbs of a ciphertext.
    pub(crate) fn limbs(&self) -> usize {
        self.0.gamma.div_ceil(64) as usize
    }

    /// Returns the number of words of a product's remainder.
    pub(crate) fn words(&self) -> usize {
        self.0.eta.div_ceil(self.0.word_bits) as usize
    }

    /// Returns the limbs of the fractions of `z`. `kappa` is 64 times this number. Ciphertexts are
    /// reduced modulo `x_0` before the product with `z`, so `gamma + 2` bits are enough, in place
    /// of the `2 gamma + 2` of the publication.
    pub(crate) fn z_fraction_limbs(&self) -> usize {
        (self.0.gamma + 2).div_ceil(64) as usize
    }

    /// Returns the limbs of the remainders modulo `2^eta`.
    pub(crate) fn eta_limbs(&self) -> usize {
        self.0.eta.div_ceil(64) as usize
    }

    /// Returns the limbs of a `z_i`.
    pub(crate) fn z_limbs(&self) -> usize {
        self.z_fraction_limbs() + self.eta_limbs()
    }

    /// Returns the limbs of a `u_i`, which is a fraction.
    pub(crate) fn u_limbs(&self) -> usize {
        (self.0.gamma + FRACTION_ROOM).div_ceil(64) as usize
    }
}

/// Rejects sizes that cannot work. This is no check of security, since no set is secure.
fn check(spec: &Spec) -> Result<()> {
    let refuse =
        |name, found: u64, needed: String| Err(Error::InvalidParams { name, found, needed });
    let within = |name, found: u64, least: u64, most: u64| match (least..=most).contains(&found) {
        true => Ok(()),
        false => refuse(name, found, format!("{least} to {most} are possible")),
    };
    within("the number of slots", spec.slots as u64, 1, 1 << 12)?;
    within("t", spec.t.into(), 2, 31)?;
    if !is_prime(spec.t.into()) {
        return refuse("t", spec.t.into(), "digits are extracted for primes only".into());
    }
    within("n, the number of digits,", spec.digits.into(), 1, 16)?;
    within("eta", spec.eta.into(), 64, 1 << 10)?;
    // One random word a slot gives the noise, with a bit for the sign.
    within("rho", spec.rho.into(), 1, 60)?;
    // Words are the weights of `weighted_sums`.
    within("w, the bits of a word,", spec.word_bits.into(), 1, 32)?;
    // The squares of the primes. The cofactor gets the rest, at least a word.
    let used = 2 * u64::from(spec.eta) * spec.slots as u64;
    within("gamma", spec.gamma.into(), used + 64, 1 << 22)?;
    for (name, sum) in [("Theta", spec.convert), ("Theta'", spec.bootstrap)] {
        within(name, sum.len as u64, spec.slots as u64, 1 << 16)?;
        // One number in each slot corrects its sum. The others are shared.
        let most = sum.len - spec.slots + 1;
        within("the weight of a subset sum", sum.weight as u64, 1, most as u64)?;
    }
    let log2_modulus = f64::from(spec.digits + 1) * real::log2(f64::from(spec.t));
    // `lifting_polynomial` has the same limit.
    if log2_modulus > 16.0 {
        return refuse("n", spec.digits.into(), "t^(n + 1) has to be at most 2^16".into());
    }
    if u64::from(spec.t).pow(spec.digits) <= spec.bootstrap.weight as u64 {
        let needed = "t^n has to exceed theta', lest sums of roundings change the digit".into();
        return refuse("n", spec.digits.into(), needed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl Fn(&mut Spec)) -> Error {
        let mut spec = Spec::small(4, 2);
        change(&mut spec);
        Params::new(spec, insecure_research()).unwrap_err()
    }

    #[test]
    fn impossible_sizes_are_refused() {
        type Change = fn(&mut Spec);
        let changes: [Change; 15] = [
            |s| s.slots = 0,
            |s| s.slots = usize::MAX,
            |s| s.t = 1,
            |s| s.t = 4,
            |s| s.t = u32::MAX,
            |s| s.eta = 63,
            |s| s.rho = 61,
            |s| s.gamma = 2 * 192 * 4,
            |s| s.gamma = u32::MAX,
            |s| s.word_bits = 0,
            |s| s.word_bits = 33,
            |s| s.convert.weight = s.convert.len,
            |s| s.bootstrap.len = 3,
            |s| s.digits = 3,
            |s| s.digits = 16,
        ];
        for change in changes {
            assert!(matches!(refused(change), Error::InvalidParams { .. }));
        }
        let unknown = Spec::named("clt-501").unwrap_err();
        assert!(unknown.to_string().contains("clt-500-w32"), "{unknown}");
    }

    /// Fifteen roundings are off by at most 7.5, of the 16 or 32 of a unit of the message.
    #[test]
    fn bootstrapping_leaves_room_for_roundings() {
        for (digits, room) in [(4, 0.5 - 7.5 / 16.0), (5, 0.5 - 7.5 / 32.0)] {
            let spec = Spec { digits, ..Spec::small(4, 2) };
            let bits = Params::new(spec, insecure_research()).unwrap().bootstrap_limit_bits();
            assert!((bits - (190.0 + f64::log2(room))).abs() < 1e-9, "{digits} {bits}");
        }
    }

    #[test]
    fn full_size_keys_are_below_three_gibibytes() {
        for name in preset_names() {
            let params = Params::new(Spec::named(name).unwrap(), insecure_research()).unwrap();
            assert!(params.evaluation_key_bytes() < 2 << 30, "{name}");
        }
        let params = Params::new(Spec::named("clt-500").unwrap(), insecure_research()).unwrap();
        assert_eq!(params.ciphertext_bytes(), 47_504);
    }
}
