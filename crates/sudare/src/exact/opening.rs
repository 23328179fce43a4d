use super::{
    Ciphertext, Evaluator, Form, Params, PlainPoly, encrypt, noise::NoiseModel, rules::Rules,
};
use crate::{
    Error, Result,
    rlwe::{
        EvaluationKeys, Level,
        shared::{self, Ceremony, Flood, OpeningShare, Pieces},
    },
};
use sudare_arith::real;

/// A BGV or BFV ciphertext that a set of key holders decrypts together. No other holder learns
/// anything, and a holder with all shares learns the plaintext.
///
/// The ciphertext is rescaled to the lowest level with room for the noise of all shares, where its
/// error is smallest. `docs/notes/shared-keys.md` explains the amount.
#[derive(Debug, Clone)]
pub struct Opening {
    inner: shared::Opening,
    params: Params,
    ciphertext: Ciphertext,
}

/// Name of the operation in errors.
const OP: &str = "open";

impl Opening {
    /// Makes the opening of `a` by the key holders of `set`.
    ///
    /// The noise of shares follows from [`Ciphertext::noise`]. So the bounds of all inputs must be
    /// the bounds of fresh encryptions, and no claims of others.
    ///
    /// # Errors
    /// [`Error::NoiseExhausted`] if no level has room for the error and the noise;
    /// [`Error::InvalidSpec`] for a set out of range; [`Error::ParamsMismatch`] and
    /// [`Error::KeyMismatch`] for another ciphertext.
    pub fn new(
        ceremony: &Ceremony,
        params: &Params,
        a: &Ciphertext,
        set: &[usize],
    ) -> Result<Self> {
        let rlwe = params.rlwe();
        rlwe.check_id("ceremony", ceremony.params().id())?;
        let rules = Rules::new(params);
        let model = NoiseModel::new(rlwe, a.plaintext_modulus());
        let fits = |form: Form| {
            let flood = Flood::hiding(form.noise.log2_two()).ok()?;
            // Half of the room for the error, and half for the noise.
            let room = model.log2_room(form.level) - 1.0;
            let holds = form.noise.log2() < room && flood.log2_reach(set.len()) < room;
            holds.then_some((form.level, flood))
        };
        // From the level of `a` down: each form is known without its ciphertext.
        let mut form = rules.checked(OP, a.form())?;
        let mut found = fits(form);
        while form.level > Level(0) {
            form = match rules.rescaled(OP, form) {
                Ok(lower) => lower,
                Err(Error::NoiseExhausted { .. }) => break,
                Err(error) => return Err(error),
            };
            found = fits(form).or(found);
        }
        let (level, flood) = found.ok_or_else(|| Error::NoiseExhausted {
            op: OP,
            log2_noise: form.noise.log2_two() + Flood::log2_factor(),
            log2_room: model.log2_room(form.level),
        })?;
        let none = EvaluationKeys::none(rlwe, ceremony.key_id());
        let evaluator = Evaluator::new(params, none)?;
        let mut ciphertext = a.clone();
        while ciphertext.level() > level {
            evaluator.rescale_assign(&mut ciphertext)?;
        }
        let inner = shared::Opening::new(ceremony, &ciphertext.inner, level, 1, flood, set)?;
        Ok(Self { inner, params: params.clone(), ciphertext })
    }

    /// Digest of the ciphertext, the set and the noise. The same opening has the same shares.
    #[must_use]
    pub fn id(&self) -> &[u8; 32] {
        self.inner.id()
    }

    /// Level of the ciphertext in the opening.
    #[must_use]
    pub fn level(&self) -> Level {
        self.inner.level()
    }

    /// `log2` of the deviation of the noise of all shares together.
    #[must_use]
    pub fn log2_deviation(&self) -> f64 {
        let one = f64::from(self.inner.flood().log2_deviation());
        one + real::log2(self.inner.set().len() as f64) / 2.0
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

    /// Adds the shares of the whole set and returns the plaintext, exactly.
    ///
    /// # Errors
    /// [`Error::Malformed`] unless there is one share of each key holder of the set.
    pub fn open(&self, shares: &[OpeningShare]) -> Result<PlainPoly> {
        let sum = self.inner.combine(self.params.rlwe(), shares)?;
        Ok(encrypt::opened_plaintext(&self.params, &sum, self.ciphertext.factor()))
    }
}

#[cfg(test)]
mod tests;
