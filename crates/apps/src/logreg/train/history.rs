//! The weights of a training after each of its iterations.

use crate::Result;
use crate::logreg::{plan::TrainPlan, planned::expect, spec::schedule, train::Training};
use sudare::{circuits::ckks::ComplexOps, ckks::Scale, rlwe::Level};
use sudare_arith::real;

/// Bits of a modulus above the largest weight: for signs and, after a bootstrapping, for the slots
/// that hold differences of weights and momentum, up to 5 times both.
const SPARE_BITS: [f64; 2] = [1.0, 5.0];

impl TrainPlan {
    /// Returns the current encrypted weights of each model at the lowest level that holds them.
    /// These ciphertexts are small, and useful for decryption only. [`TrainPlan::history`] reads
    /// the snapshots of a training.
    ///
    /// # Errors
    /// [`Error::NotAsPlanned`](crate::Error::NotAsPlanned) for another state than planned;
    /// [`Error::Library`](crate::Error::Library) for ciphertexts of other parameters.
    pub fn snapshot<E: ComplexOps>(&self, e: &E, t: &Training<E::Ct>) -> Result<Vec<E::Ct>> {
        let mut models = self.model(t)?;
        for weights in &mut models {
            let level = self.snapshot_level(e.level(weights), e.scale(weights));
            e.drop_to(weights, level)?;
        }
        Ok(models)
    }

    /// Returns the lowest level that holds weights of this level and scale.
    fn snapshot_level(&self, own: Level, scale: Scale) -> Level {
        let spare = SPARE_BITS[usize::from(self.refresh.is_some())];
        let needed = scale.log2() + real::log2(self.largest_weight) + spare;
        let chain = self.params.chain();
        let mut levels = (0..own.0).map(Level);
        levels.find(|&level| chain.log2_q(level) >= needed).unwrap_or(own)
    }

    /// Returns the level and the scale of the weights in each [`TrainPlan::snapshot`] of a training
    /// of this number of iterations, in order.
    pub fn snapshot_shapes(&self, iterations: u32) -> impl Iterator<Item = (Level, Scale)> {
        let first = self.job.spec.label_iterations();
        (first..=iterations.max(first)).map(|done| {
            let (level, scale) = self.output_after(done);
            (self.snapshot_level(level, scale), scale)
        })
    }

    /// Returns the number of snapshots of a training of this number of iterations: one for all
    /// iterations that use means of labels alone, and one after each other iteration.
    #[must_use]
    pub fn snapshots(&self, iterations: u32) -> usize {
        let label_iterations = self.job.spec.label_iterations();
        (iterations.max(label_iterations) + 1 - label_iterations) as usize
    }

    /// Decodes the weights of each model after each iteration, as [`TrainPlan::decode`] does. Pass
    /// the slots of the decrypted [`TrainPlan::snapshot`]s of a training, in order.
    ///
    /// If two iterations use means of labels alone, encrypted training skips the first. The weights
    /// after the first are the weights after the second at the step size of the first
    /// ([`schedule`]).
    ///
    /// # Errors
    /// [`Error::NotAsPlanned`](crate::Error::NotAsPlanned) for slots that are not of whole
    /// snapshots.
    pub fn history(&self, plaintext_slots: &[impl AsRef<[f64]>]) -> Result<Vec<Vec<Vec<f64>>>> {
        let models = self.job.spec.models();
        let whole = plaintext_slots.len() / models * models;
        expect("ciphertexts of a history", plaintext_slots.len(), whole)?;
        let snapshots = plaintext_slots.chunks_exact(models);
        let mut history: Vec<Vec<Vec<f64>>> = snapshots
            .map(|snapshot| snapshot.iter().map(|slots| self.decode(slots.as_ref())).collect())
            .collect();
        if self.job.spec.label_iterations() == 2
            && let ([first, second, ..], Some(after)) =
                (&schedule(&self.job.spec)[..], history.first())
        {
            let part = first.gamma / second.gamma;
            let of_model = |weights: &Vec<f64>| weights.iter().map(|w| part * w).collect();
            history.insert(0, after.iter().map(of_model).collect());
        }
        Ok(history)
    }
}
