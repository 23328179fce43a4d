//! The weights of a training after each of its iterations.

use super::{plan::TrainPlan, reference::schedule, train::Training};
use crate::Result;
use sudare::{circuits::Ops, rlwe::Level};

/// Bits of a modulus above the largest weight: for signs and, after a bootstrapping, for the slots
/// that hold differences of weights and momentum, up to 5 times both.
const SPARE_BITS: [f64; 2] = [1.0, 5.0];

impl TrainPlan {
    /// The encrypted weights so far at the lowest level that holds them: a small ciphertext, of use for
    /// decryption alone. [`TrainPlan::history`] reads those of a training.
    ///
    /// # Errors
    /// [`Error::NotAsPlanned`](crate::Error::NotAsPlanned) if the state is empty;
    /// [`Error::Engine`](crate::Error::Engine) for ciphertexts of other parameters.
    pub fn snapshot<E: Ops>(&self, e: &E, t: &Training<E::Ct>) -> Result<E::Ct> {
        let mut weights = self.model(t)?;
        let spare = SPARE_BITS[usize::from(self.refresh.is_some())];
        let needed = e.scale(&weights).log2() + self.largest_weight.log2() + spare;
        let mut levels = (0..e.level(&weights).0).map(Level);
        if let Some(level) = levels.find(|&level| e.chain().log2_q(level) >= needed) {
            e.drop_to(&mut weights, level)?;
        }
        Ok(weights)
    }

    /// Snapshots that a training of so many iterations has: one after each, but one for the first
    /// two, which are one step.
    #[must_use]
    pub fn snapshots(&self, iterations: u32) -> usize {
        iterations.saturating_sub(1).max(1) as usize
    }

    /// The weights after each iteration, as [`TrainPlan::decode`] gives them, in the slots of the
    /// decrypted [`TrainPlan::snapshot`]s of a training, in order. Those after the first of several
    /// iterations, which encrypted training passes over, are those after the second at the step
    /// size of the first ([`schedule`]).
    #[must_use]
    pub fn history(&self, plaintext_slots: &[impl AsRef<[f64]>]) -> Vec<Vec<f64>> {
        let steps = schedule(&self.job.spec);
        let after = plaintext_slots.iter().map(|slots| self.decode(slots.as_ref()));
        let mut history: Vec<Vec<f64>> = after.collect();
        if let ([first, second, ..], Some(weights)) = (&steps[..], history.first()) {
            let part = first.gamma / second.gamma;
            history.insert(0, weights.iter().map(|weight| part * weight).collect());
        }
        history
    }
}
