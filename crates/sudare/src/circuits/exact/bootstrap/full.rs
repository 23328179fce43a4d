//! Full bootstrapping: refreshes every coefficient of a plaintext, and so slots of arbitrary
//! elements of the [Galois ring](crate::exact::GaloisRing).
//!
//! Digits are removed from integers in slots. A ciphertext holds `k` such slots, and its plaintext
//! has `N = d k` coefficients. The ciphertext is therefore taken apart into `d` *slices*, and put
//! together again, twice:
//!
//! | stage | operation | modulo |
//! |---|---|---|
//! | SlotsToCoeffs | slices of integers in slots, `sum_i b_i(X) w_i`; each is put into coefficients, and together they are `sum_i X^i w_i'(X^d)` | `p^r` |
//! | Raise | as in [slim bootstrapping](super), of all coefficients at once | `p^(r+1)` |
//! | Slices | the slices `w_i'`, and in the end `sum_i b_i(X) w_i` | `p^(r+1)`, in the end `p^r` |
//! | CoeffsToSlots | of each slice | `p^(r+1)` |
//! | DigitRemoval | of each slice | `p^(r+1)`, then `p^r` |
//!
//! The ring is taken apart by halves. An automorphism `g` that is an involution of the current
//! subring keeps `v_0` and `v_1` and negates `b`. It splits `v = v_0 + b v_1` into `v + g(v)` and
//! `v - g(v)`, with one key switch for both. Taking a ciphertext apart needs `d - 1` key switches
//! and `log2(d)` keys. If `b` is a monomial, dividing by it is a product with another monomial.
//! Putting slices together again needs no key switch. A few slices at a time go through the stages
//! in lock step, so that memory does not grow with `d`.
//!
//! The cost is `2 (d - 1)` key switches in addition to `d` slim bootstrappings, half of them at the
//! lowest level. With the `d` images under powers of `X -> X^p`, in one matrix for both maps, it
//! would be `d` keys and `d^2` products with plaintexts.
//!
//! Slices have the basis `b_i = X^i` for `p = 1 mod 4`, where integers in slots are polynomials in
//! `X^d`. For `p = 3 mod 4` integers are the polynomials in `W = X^(d/2)` that `X -> X^p`, which is
//! `W -> -1/W`, keeps. The last split uses this automorphism and `delta = W + 1/W`. The slots of
//! `delta^2` are units, so `delta (v - g(v)) = 2 delta^2 v_1` is also a slice. Its own matrix
//! divides by `delta^2`.
//!
//! Reference: Han, "Bootstrapping methods for homomorphic encryption" (PhD thesis, Seoul National
//! University), section 3.3. Deviations: the deviations of [slim bootstrapping](super); slots are
//! put into coefficients before raising, where it costs least; and slices are taken apart by
//! halves.

mod presets;
mod slices;
#[cfg(test)]
mod tests;

use super::{
    BootstrapSpec, OP, Simulation, Stage, accept, matrix_bytes, prepare_all, removal_keys, run_all,
};
use crate::{
    Error, Result,
    circuits::{
        LockStep,
        exact::{
            IntegerOps, LinearPlan, LinearTransform, PolynomialPlan,
            dft::{coeffs_to_slots, slots_to_coeffs},
            sim,
        },
        linear::Offset,
        lock_step::Batch,
    },
    exact::{self, IntegerEncoder, Modulus, Params, PlainPoly, Slots, Tensor, Unit},
    rlwe::{Chain, KeyRequest, Level, Raise},
};
use slices::{Halving, Slices};
use std::collections::BTreeMap;

pub use presets::{FullPreset, preset, presets, reproductions};

/// Levels, scales and keys of a full bootstrapping for one parameter set.
#[derive(Debug, Clone)]
pub struct FullPlan {
    spec: BootstrapSpec,
    tensor: Tensor,
    log_n: u32,
    input_scale: Unit,
    /// Converts slices of integers in slots to slices of coefficients.
    slots: Slices,
    /// Matrices of all slices, or separate ones for the slices before the last split by `delta` and
    /// after it.
    to_coeffs: Vec<Vec<LinearPlan>>,
    raise: Raise,
    /// Converts slices of coefficients back.
    coeffs: Slices,
    to_slots: Vec<LinearPlan>,
    removal: PolynomialPlan,
    request: KeyRequest,
}

impl BootstrapSpec {
    /// Plans for evaluators with the product of BGV; see [`BootstrapSpec::plan_full_with`].
    ///
    /// # Errors
    /// See [`BootstrapSpec::plan_with`].
    pub fn plan_full(
        &self,
        params: &Params,
        factor: impl Fn(&Params, Level, Modulus) -> Result<Unit>,
    ) -> Result<FullPlan> {
        self.plan_full_with(params, Tensor::Plain, factor)
    }

    /// Plans levels and scales of a full bootstrapping in a parameter set, raising to its top, for
    /// evaluators with one of the products. `log_slots` counts the integers of a slice.
    ///
    /// For `factor` see [`BootstrapSpec::plan_with`].
    ///
    /// # Errors
    /// See [`BootstrapSpec::plan_with`].
    pub fn plan_full_with(
        &self,
        params: &Params,
        tensor: Tensor,
        factor: impl Fn(&Params, Level, Modulus) -> Result<Unit>,
    ) -> Result<FullPlan> {
        let low = self.modulus;
        let high = self.high()?;
        let log_n = params.log_n();
        let encoder = self.encoder(log_n)?;
        let log_slices = log_n.saturating_sub(self.log_slots);
        // Each split multiplies slices by 2. This is taken as part of their scale.
        let multiple = |t: Modulus| Unit::new(1 << log_slices, t);

        let in_slots = Halving::of_slots(&encoder, log_slices)?;
        let of_coeffs = Halving::of_coefficients(low, log_n, log_slices)?;
        let matrices = slots_to_coeffs(&encoder, &self.slots_to_coeffs)?;
        let scale_at = |level, t| tensor.scale(params, level, factor(params, level, t)?);
        let input_scale = self.input_scale(params, matrices.len(), scale_at)?;
        let planned =
            |matrices: &[_]| self.to_coeffs(params, tensor, matrices, input_scale * multiple(low)?);
        let mut to_coeffs = vec![planned(&matrices)?];
        // Slices of the second half are multiples of `delta^2`, which their matrices divide by.
        if let Some(weight) = Halving::excess_inverse(&encoder)? {
            to_coeffs.push(planned(&weighted(matrices, &weight)?)?);
        }

        let raise = exact::raise_to(params.upper_top(), high).with_weight(self.ephemeral_weight);
        let raised = Halving::of_coefficients(high, log_n, log_slices)?;
        let chain = tensor.chain(params, high)?;
        let slices = tensor.scale(params, raise.level, Unit::one(high))? * multiple(high)?;
        let to_slots = self.slices_to_slots((log_n, &chain), raise.level, slices)?;
        let last = to_slots.last().map_or(raise.level, LinearPlan::output_level);
        let scale = Unit::one(high);
        let removal = self.removal(&chain, (last, scale), self.input_levels(), scale_at)?;

        let mut plan = FullPlan {
            spec: self.clone(),
            tensor,
            log_n,
            input_scale,
            slots: Slices::new(low, &in_slots, &of_coeffs)?,
            to_coeffs,
            raise,
            coeffs: Slices::new(high, &raised, &in_slots)?,
            to_slots,
            removal,
            request: KeyRequest::new(),
        };
        plan.request = plan.keys(params);
        Ok(plan)
    }

    /// Number of factors of SlotsToCoeffs, each of which uses a level.
    fn input_levels(&self) -> usize {
        self.slots_to_coeffs.len().max(1)
    }

    /// Plans CoeffsToSlots of slices at `level`, of this scale.
    fn slices_to_slots(
        &self,
        (log_n, chain): (u32, &Chain<Unit>),
        mut level: Level,
        mut scale: Unit,
    ) -> Result<Vec<LinearPlan>> {
        let high = self.high()?;
        let encoder = IntegerEncoder::new(high, log_n, self.log_slots)?;
        let plan = |matrix: &LinearTransform| {
            let plan = matrix.plan(log_n, chain, level, scale, Unit::one(high))?;
            (level, scale) = (plan.output_level(), Unit::one(high));
            Ok(plan)
        };
        coeffs_to_slots(&encoder, &self.coeffs_to_slots)?.iter().map(plan).collect()
    }

    /// Returns the slots that full bootstrapping refreshes, in the ring of degree `2^log_n`:
    /// elements of a Galois ring. Any other interpretation of plaintexts is refreshed as well.
    ///
    /// # Errors
    /// See [`Slots::new`].
    pub fn full_slots(&self, log_n: u32) -> Result<Slots> {
        Slots::new(self.modulus, log_n)
    }
}

/// Returns the factors of a matrix times `weight`.
fn weighted(mut factors: Vec<LinearTransform>, weight: &PlainPoly) -> Result<Vec<LinearTransform>> {
    if let Some(first) = factors.first_mut() {
        // The weight comes before the rotation of this diagonal, so its image stands behind it.
        let product = |(offset, entries): (&Offset, &PlainPoly)| -> Result<_> {
            Ok((*offset, entries.mul(&weight.image(offset.element(weight.log_n())))?))
        };
        let diagonals: BTreeMap<_, _> =
            first.diagonals().iter().map(product).collect::<Result<_>>()?;
        *first = LinearTransform::new(first.log_slots(), diagonals)?;
    }
    Ok(factors)
}

impl FullPlan {
    /// The specification of the plan.
    #[must_use]
    pub fn spec(&self) -> &BootstrapSpec {
        &self.spec
    }

    /// The product of the evaluators that the plan is for.
    #[must_use]
    pub fn tensor(&self) -> Tensor {
        self.tensor
    }

    /// The minimum level of an input.
    #[must_use]
    pub fn input_level(&self) -> Level {
        Level(self.to_coeffs.first().map_or(0, Vec::len) as u32)
    }

    /// The level that ciphertexts are raised to.
    #[must_use]
    pub fn top(&self) -> Level {
        self.raise.level
    }

    /// Level of the result.
    #[must_use]
    pub fn output_level(&self) -> Level {
        self.removal.output_level()
    }

    /// Number of levels that a refreshed ciphertext can use before the next bootstrapping.
    #[must_use]
    pub fn usable_levels(&self) -> u32 {
        self.output_level().0.saturating_sub(self.input_level().0)
    }

    /// Number of slices of a ciphertext.
    #[must_use]
    pub fn slices(&self) -> usize {
        1 << self.log_n.saturating_sub(self.spec.log_slots)
    }

    /// Required keys.
    #[must_use]
    pub fn required_keys(&self) -> &KeyRequest {
        &self.request
    }

    /// The matrices.
    pub fn matrices(&self) -> impl Iterator<Item = &LinearPlan> {
        self.to_coeffs.iter().flatten().chain(&self.to_slots)
    }

    /// Bytes of the matrices in memory.
    #[must_use]
    pub fn matrix_bytes(&self, params: &Params) -> u64 {
        matrix_bytes(params, self.matrices())
    }

    /// `log2` of a bound of the probability that a bootstrapping fails: that any of all
    /// coefficients exceeds the bound; see
    /// [`BootstrapPlan::log2_failure`](super::BootstrapPlan::log2_failure).
    #[must_use]
    pub fn log2_failure(&self) -> f64 {
        self.spec.log2_failure(1 << self.log_n)
    }

    /// Returns the keys of every stage, made for their levels.
    fn keys(&self, params: &Params) -> KeyRequest {
        let mut stages: Vec<_> = self.matrices().map(|plan| plan.required_keys().clone()).collect();
        stages.push(self.slots.required_keys(self.input_level()));
        stages.push(self.coeffs.required_keys(self.top()));
        let highest = Level(self.top().0 - self.to_slots.len() as u32);
        stages.extend(removal_keys(params, self.output_level(), highest));
        KeyRequest::of_stages(stages, params.rlwe()).raise(self.raise)
    }

    /// Runs [`BootstrapPlan::simulate`](super::BootstrapPlan::simulate) for all slices.
    ///
    /// # Errors
    /// Errors of bootstrapping a fresh ciphertext at the input level.
    pub fn simulate(&self, params: &Params) -> Result<Simulation> {
        let e = sim::Evaluator::with_tensor(params, self.tensor, &self.request)?;
        let bootstrapper = self.prepare(&e)?;
        let input = (self.input_level(), self.input_scale);
        Simulation::of(&e, params, input, |x| bootstrapper.run(&e, x))
    }

    /// Encodes the matrices in the form that `e` uses.
    ///
    /// # Errors
    /// Errors of the evaluator.
    pub fn prepare<E: IntegerOps>(&self, e: &E) -> Result<FullBootstrapper<E>> {
        let to_coeffs = self.to_coeffs.iter().map(|plans| prepare_all(e, plans));
        let to_coeffs = to_coeffs.collect::<Result<_>>()?;
        let to_slots = prepare_all(e, &self.to_slots)?;
        Ok(FullBootstrapper { plan: self.clone(), to_coeffs, to_slots })
    }
}

/// Refreshes ciphertexts: a plan with its matrices. Run it on the evaluator that prepared the
/// matrices or on one like it.
pub struct FullBootstrapper<E: IntegerOps> {
    plan: FullPlan,
    to_coeffs: Vec<Vec<E::Matrix>>,
    to_slots: Vec<E::Matrix>,
}

impl<E: IntegerOps> core::fmt::Debug for FullBootstrapper<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FullBootstrapper").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl<E: IntegerOps> FullBootstrapper<E> {
    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &FullPlan {
        &self.plan
    }

    /// Refreshes `a`, from any level at or above the input level to the output level. Every
    /// coefficient of the plaintext is preserved.
    ///
    /// # Errors
    /// See [`Bootstrapper::run`](super::Bootstrapper::run).
    pub fn run(&self, e: &E, a: &E::Ct) -> Result<E::Ct> {
        self.run_with(e, a, |_| {})
    }

    /// Runs [`FullBootstrapper::run`], calling `progress` after each stage. The last three stages
    /// repeat for each group of slices.
    ///
    /// # Errors
    /// See [`FullBootstrapper::run`].
    pub fn run_with(&self, e: &E, a: &E::Ct, mut progress: impl FnMut(Stage)) -> Result<E::Ct> {
        let plan = &self.plan;
        let (x, quotient) = accept(e, a, plan.input_level(), plan.input_scale)?;
        let x = plan.slots.through(e, x, &mut |many, slices| self.slots_to_coeffs(many, slices))?;
        progress(Stage::SlotsToCoeffs);
        let high = plan.spec.high()?;
        let x = e.raise(&x, plan.raise.level, high, plan.raise.weight)?;
        progress(Stage::Raise);
        let x = plan.coeffs.through(e, x, &mut |many, slices| {
            progress(Stage::Slices);
            let x = run_all(many, &plan.to_slots, &self.to_slots, slices)?;
            progress(Stage::CoeffsToSlots);
            let x = plan.removal.run(many, &x)?;
            let x = many.with_plaintext_modulus(&x, plan.spec.modulus)?;
            progress(Stage::DigitRemoval);
            Ok(x)
        })?;
        progress(Stage::Slices);
        e.with_scale(&x, e.scale(&x) * quotient)
    }

    /// Applies SlotsToCoeffs to slices. The second half came last out of the last split.
    fn slots_to_coeffs(&self, e: &LockStep<'_, E>, x: Batch<E::Ct>) -> Result<Batch<E::Ct>> {
        let run = |i: usize, x| match (self.plan.to_coeffs.get(i), self.to_coeffs.get(i)) {
            (Some(plans), Some(matrices)) => run_all(e, plans, matrices, x),
            _ => Err(Error::Circuit(format!("{OP}: there is no matrix {i}"))),
        };
        if self.to_coeffs.len() < 2 {
            return run(0, x);
        }
        let [first, second] = x.halves();
        Ok(run(0, first)?.join(run(1, second)?))
    }
}
