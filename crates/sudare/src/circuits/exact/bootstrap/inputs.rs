//! Inputs and results of a bootstrapping, by public properties of ciphertexts.

use super::BootstrapPlan;
use crate::{
    Result,
    circuits::{
        Ops,
        exact::{IntegerOps, sim},
    },
    exact::{Form, Params, Unit},
    rlwe::{Level, Work},
};

/// Decides whether a [`BootstrapPlan`] accepts a ciphertext, by its public properties.
#[derive(Debug)]
pub struct Inputs {
    plan: BootstrapPlan,
    evaluator: sim::Evaluator,
    to_coeffs: Vec<sim::Matrix>,
}

/// Predicted results of a bootstrapping.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Simulation {
    /// Form of the result for a fresh ciphertext.
    pub output: Form,
    /// Bits by which the error of the result may grow until it might not decrypt.
    pub budget_bits: f64,
    /// Work of one bootstrapping.
    pub work: Work,
}

impl Simulation {
    /// Simulates `refresh` on a fresh ciphertext of this level and scale, with `e`.
    pub(super) fn of(
        e: &sim::Evaluator,
        params: &Params,
        (level, scale): (Level, Unit),
        refresh: impl FnOnce(&Form) -> Result<Form>,
    ) -> Result<Self> {
        let factor = e.tensor().factor(params, level, scale)?;
        let output = refresh(&e.encrypt(level, factor)?)?;
        Ok(Self { output, budget_bits: output.budget_bits(params), work: e.work() })
    }
}

impl BootstrapPlan {
    /// Runs a bootstrapping on forms. It computes the norms of all weights, which takes seconds for
    /// 2^15 slots.
    ///
    /// # Errors
    /// Errors of bootstrapping a fresh ciphertext at the input level.
    pub fn simulate(&self, params: &Params) -> Result<Simulation> {
        let e = sim::Evaluator::with_tensor(params, self.tensor, self.required_keys())?;
        let bootstrapper = self.prepare(&e)?;
        let input = (self.input_level(), self.input_scale);
        Simulation::of(&e, params, input, |x| bootstrapper.run(&e, x))
    }

    /// Returns the accepted inputs, computed from the weights of SlotsToCoeffs, which takes seconds
    /// for 2^15 slots.
    ///
    /// # Errors
    /// Errors of preparing a matrix.
    pub fn inputs(&self, params: &Params) -> Result<Inputs> {
        let evaluator = sim::Evaluator::with_tensor(params, self.tensor, self.required_keys())?;
        let matrices = self.to_coeffs.iter().map(|plan| evaluator.prepare(plan));
        let to_coeffs = matrices.collect::<Result<_>>()?;
        Ok(Inputs { plan: self.clone(), evaluator, to_coeffs })
    }
}

impl Inputs {
    /// Rejects a ciphertext of this form if its bootstrapping would be rejected after a product
    /// with a constant that brings it to the input level.
    ///
    /// # Errors
    /// [`Error::NoiseExhausted`](crate::Error::NoiseExhausted);
    /// [`Error::LevelOutOfRange`](crate::Error::LevelOutOfRange) below the input level;
    /// [`Error::PlaintextMismatch`](crate::Error::PlaintextMismatch).
    pub fn check(&self, form: Form) -> Result<()> {
        let e = &self.evaluator;
        let plan = &self.plan;
        let mut x = e.match_scale(&form, plan.input_level(), plan.input_scale)?;
        for (plan, matrix) in plan.to_coeffs.iter().zip(&self.to_coeffs) {
            x = plan.run(e, matrix, &x)?;
        }
        let raise = plan.raise;
        let high = plan.spec.high()?;
        e.raise(&x, raise.level, high, raise.weight).map(drop)
    }
}
