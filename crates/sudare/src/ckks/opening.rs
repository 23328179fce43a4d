use super::{Ciphertext, Params, Plaintext, Scale, encode::VALUE_BITS};
use crate::{
    Error, Result,
    rlwe::{
        Level,
        shared::{self, Ceremony, Flood, OpeningShare, Pieces},
    },
};
use sudare_arith::real;

/// A CKKS ciphertext that a set of key holders decrypts together. No other holder learns anything,
/// and a holder with all shares learns the slots plus noise.
///
/// Only the coefficients of the message are opened: `2 K` for `K` different slots. The noise of
/// each share hides the error of all slots alone, as [`Release`](super::Release) does for `K`
/// values. `docs/notes/shared-keys.md` explains the amount.
#[derive(Debug, Clone)]
pub struct Opening {
    inner: shared::Opening,
    params: Params,
    scale: Scale,
    log_slots: u32,
}

/// Bits of the modulus above the noise of all shares: a sign, and room for the message next to it.
const ROOM_BITS: f64 = 2.0;

/// Standard deviations of noise below the last digit of an opened value.
const LAST_DIGIT_BITS: f64 = 4.0;

impl Opening {
    /// Makes the opening of `a` by the key holders of `set`.
    ///
    /// - `slots` is a power of two: the slots of `a` repeat after this many, or are all of them. It
    ///   follows from the plan of the circuit. Values that do not repeat are averaged.
    /// - `error` bounds the errors of all slots in absolute value, for the circuit with any inputs.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] for slots, a set or a level out of range; [`Error::NoErrorBound`];
    /// [`Error::ParamsMismatch`] and [`Error::KeyMismatch`] for another ciphertext.
    pub fn new(
        ceremony: &Ceremony,
        params: &Params,
        a: &Ciphertext,
        slots: usize,
        error: f64,
        set: &[usize],
    ) -> Result<Self> {
        let rlwe = params.rlwe();
        rlwe.check_id("ceremony", ceremony.params().id())?;
        if !slots.is_power_of_two() || slots > a.slots() {
            let problem = format!("{slots} is no power of two up to {}", a.slots());
            return Err(Error::InvalidSpec { field: "slots", problem });
        }
        // The error of each slot is its value at a root. Averages over repetitions are no larger,
        // and the Euclidean norm of coefficients is the mean of the squares of these values.
        let log2_norm = match error > 0.0 {
            true => real::log2(error) + a.scale.log2(),
            false => f64::NAN,
        };
        let flood = Flood::hiding(log2_norm)?;
        let with_noise = flood.log2_reach(set.len()) + ROOM_BITS;
        let holds = |bits: f64| move |level: &Level| rlwe.log2_q(*level) >= bits;
        let below = || rlwe.levels().below(a.level());
        let wanted = (a.scale.log2() + VALUE_BITS).max(with_noise);
        // As for decryption: a level that holds large values, or the highest there is.
        let level = below().find(holds(wanted)).unwrap_or(a.level());
        if !holds(with_noise)(&level) {
            let problem = format!(
                "the modulus of level {level} has {:.1} bits, but the noise of {} shares needs \
                 {with_noise:.1}: open a result at a higher level",
                rlwe.log2_q(level),
                set.len()
            );
            return Err(Error::InvalidSpec { field: "level", problem });
        }
        let gap = params.max_slots() / slots;
        let inner = shared::Opening::new(ceremony, &a.inner, level, gap, flood, set)?;
        let log_slots = slots.ilog2();
        Ok(Self { inner, params: params.clone(), scale: a.scale, log_slots })
    }

    /// Digest of the ciphertext, the set and the noise. The same opening has the same shares.
    #[must_use]
    pub fn id(&self) -> &[u8; 32] {
        self.inner.id()
    }

    /// Standard deviation of the noise in the real part of a slot, once all shares are added.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        // A real part is a sum of coefficients times cosines, whose squares add up to `K`.
        let terms = real::exp2(f64::from(self.log_slots)) * self.inner.set().len() as f64;
        let one = real::exp2(f64::from(self.inner.flood().log2_deviation()));
        terms.sqrt() * one / self.scale.to_f64()
    }

    /// Number of bits after the binary point that the noise leaves right: its deviation is at most
    /// a sixteenth of the last one. It may be negative.
    #[must_use]
    pub fn bits(&self) -> i32 {
        (-real::log2(self.deviation()) - LAST_DIGIT_BITS).floor() as i32
    }

    /// Makes the share of a key holder; see [`shared::Opening::share`]. Open only results that you
    /// computed yourself from the inputs of all parties.
    ///
    /// # Errors
    /// See [`shared::Opening::share`].
    pub fn share(self, pieces: &Pieces) -> Result<OpeningShare> {
        self.inner.share(pieces)
    }

    /// Reads the share of a key holder.
    ///
    /// # Errors
    /// See [`shared::Opening::read`].
    pub fn read(&self, party: usize, bytes: &[u8]) -> Result<OpeningShare> {
        self.inner.read(self.params.rlwe(), party, bytes)
    }

    /// Adds the shares of the whole set, and returns the message with their noise. It has `slots`
    /// slots. Decode it with [`Encoder`](super::Encoder).
    ///
    /// # Errors
    /// [`Error::Malformed`] unless there is one share of each key holder of the set.
    pub fn open(&self, shares: &[OpeningShare]) -> Result<Plaintext> {
        let rlwe = self.params.rlwe();
        let sum = self.inner.combine(rlwe, shares)?;
        let poly = rlwe.basis().into_eval(sum);
        Ok(Plaintext {
            poly,
            level: self.inner.level(),
            scale: self.scale,
            log_slots: self.log_slots,
            params: rlwe.id(),
        })
    }
}

#[cfg(test)]
mod tests;
