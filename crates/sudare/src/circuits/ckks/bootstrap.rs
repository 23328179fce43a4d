//! Bootstrapping of CKKS ciphertexts: restores many levels to a ciphertext without levels.
//!
//! A ciphertext modulo `q_0` is lifted to the whole chain, which adds `q_0 I` to its polynomial for
//! a small polynomial `I`. Its coefficients are moved to the slots, reduced modulo `q_0` by a
//! periodic function, and moved back.
//!
//! | stage | operation |
//! |---|---|
//! | SlotsToCoeffs | puts slots into coefficients, a matrix |
//! | ModRaise | lifts residues modulo `q_0` to the whole chain; through an ephemeral sparse secret `I` is small |
//! | CoeffsToSlots | puts coefficients into slots, the inverse matrix; for few slots SubSum, after its first factor, projects to the subring of the slots |
//! | EvalMod | removes the integer part, see [`EvalModSpec`] |
//!
//! [`BootstrapSpec`] is a choice of independent parts. Its plan fixes levels, scales and keys
//! before any key exists. A [`Bootstrapper`] holds the matrices that an evaluator prepared.

mod correction;
mod preset;
mod presets;
mod reproductions;
mod stage_levels;
#[cfg(test)]
mod tests;

use super::{
    ComplexOps, EvalModPlan, EvalModSpec, LinearPlan,
    cost::{self, Work},
};
use crate::{
    Error, Result,
    circuits::{LockStep, Ops, TracePlan, failure::log2_exceeds, lock_step::Batch},
    ckks::{Complex, Params, Scale},
    rlwe::{self, GaloisElement, KeyRequest, Level, Raise},
};
use correction::Correction;
pub use preset::BootstrapPreset;
pub use presets::{choose, preset, presets};
use stage_levels::{Rounds, StageLevels};
use sudare_arith::real;

const OP: &str = "bootstrapping";

/// Assumed largest error of a slot if no measurement is known.
const EXPECTED_ERROR: f64 = 1.0 / (1 << 16) as f64;

/// Order of the two maps between slots and coefficients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Applies CoeffsToSlots after raising and SlotsToCoeffs at the end. Inputs may be at level 0,
    /// or at level 1 with a [`Refinement`].
    ///
    /// The common part of the coefficients' errors adds up in slot 0, to 1.3 times the number of
    /// slots. A minimax cosine therefore needs a higher degree for many slots.
    CoeffsToSlotsFirst,
    /// Applies SlotsToCoeffs at the lowest levels, before raising, where it costs little.
    SlotsToCoeffsFirst,
}

/// Kind of numbers in the slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Complex numbers with real and imaginary parts of at most 1.
    Complex,
    /// Real numbers of at most 1 in magnitude. They need one reduction instead of two. Imaginary
    /// parts are lost. With [`Order::CoeffsToSlotsFirst`] they must be as small as noise, and their
    /// size is added to the errors.
    Real,
}

/// A completed stage, in one order or the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The slots are in the coefficients.
    SlotsToCoeffs,
    /// The ciphertext has the modulus of the top level.
    ModRaise,
    /// The coefficients are in the slots.
    CoeffsToSlots,
    /// The integer parts are removed.
    EvalMod,
}

/// Additional bootstrappings that make a result more precise than a single one can.
///
/// The difference between input and result is itself bootstrapped, multiplied by `2^gain_bits`, and
/// added. Each round adds `gain_bits` bits. Differences are computed one level above the input of a
/// single bootstrapping, whose messages, `2^-log2_ratio` of `q_0`, have a smaller scale. The scale
/// at that level limits the precision, together with the scale of the levels that use the result.
/// Each round costs the time of one bootstrapping. Levels and keys stay the same.
///
/// Reference: Bae, Cheon, Cho, Kim, Kim, "META-BTS: bootstrapping precision beyond the limit"
/// ([2022/1167](https://eprint.iacr.org/2022/1167)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Refinement {
    /// Number of bootstrappings after the first, 1 to 8.
    pub rounds: u32,
    /// `-log2` of the largest error of one bootstrapping, rounded down, 1 to 40.
    pub gain_bits: u32,
}

/// Returns `log2` of a bound of the probability that any of `coefficients` coefficients of `I`
/// exceeds `k`, for a ternary secret of weight `h`. `I` is the multiple of `q0` that raising the
/// modulus adds.
///
/// A coefficient of `(c0 + c1 s) / q0` is the sum of `h + 1` independent variables, uniform on
/// `[-1/2, 1/2]`, because the parts of the ciphertext look so without the key. It equals `I + m`
/// with `|m| < 1/2`. Thus `|I| > k`, that is `|I| >= k + 1`, implies that the sum exceeds `k + 1/2`
/// in magnitude, or `k + 1 - max |m|` for small messages. The bound is for a sum exceeding `k`,
/// which covers every message; see [`log2_exceeds`].
#[must_use]
pub fn log2_failure(h: u32, k: u32, coefficients: u64) -> f64 {
    log2_exceeds(h.saturating_add(1), f64::from(k), coefficients)
}

/// Specification of a bootstrapping: independent choices.
#[derive(Debug, Clone, PartialEq)]
pub struct BootstrapSpec {
    /// `log2` of the number of slots.
    pub log_slots: u32,
    /// The order of the maps.
    pub order: Order,
    /// Kind of numbers in the slots.
    pub values: Values,
    /// Weight of the ephemeral secret through which the modulus is raised. `None` raises through
    /// any secret that the keys have, by default the main one.
    pub ephemeral_weight: Option<u32>,
    /// Layers of each factor of CoeffsToSlots; see
    /// [`coeffs_to_slots`](super::dft::coeffs_to_slots). Their sum is `log_slots`.
    pub coeffs_to_slots: Vec<u32>,
    /// Layers of each factor of SlotsToCoeffs. Their sum is `log_slots`.
    pub slots_to_coeffs: Vec<u32>,
    /// The reduction modulo 1. With [`Order::SlotsToCoeffsFirst`] messages are brought to its
    /// ratio. Otherwise they have the scale of level 0, which must be at least that ratio below
    /// `q_0`.
    pub eval_mod: EvalModSpec,
    /// `true` to bend messages before raising so that the sine straightens them, which uses two of
    /// the lowest levels. With [`Order::SlotsToCoeffsFirst`] only.
    pub correction: bool,
    /// More precision, at the cost of time. Inputs are then one level higher.
    pub refinement: Option<Refinement>,
}

/// Levels, scales and keys of a [`BootstrapSpec`] for one parameter set.
#[derive(Debug, Clone)]
pub struct BootstrapPlan {
    spec: BootstrapSpec,
    log_n: u32,
    input_level: Level,
    input_scale: Scale,
    refinement: Option<Rounds>,
    correction: Option<Correction>,
    to_coeffs: Vec<LinearPlan>,
    top: Level,
    /// `q_0`, the scale of the raised plaintext.
    base: Scale,
    to_slots: Vec<LinearPlan>,
    /// Number of factors of `to_slots` before SubSum.
    before_sub_sum: usize,
    sub_sum: TracePlan,
    eval_mod: EvalModPlan,
    /// Factor of the reduction's result over the message.
    spare: Scale,
    /// Joins real and imaginary halves to complex slots, if no other matrix does.
    join: Option<LinearPlan>,
    output_level: Level,
    /// Measured largest error, if known.
    largest_error: Option<f64>,
    request: KeyRequest,
}

impl BootstrapSpec {
    /// Returns the specification for `2^log_slots` slots. It has the fewest factors of the maps
    /// with at most as many layers as the largest has now. With a [`Refinement`], whose input level
    /// has primes of its own, SlotsToCoeffs keeps its number of factors while there are layers for
    /// them.
    #[must_use]
    pub fn with_log_slots(&self, log_slots: u32) -> Self {
        let fewest = |factors: &[u32]| {
            let largest = factors.iter().copied().max().unwrap_or(log_slots);
            // A single slot has no layers, and the division needs one.
            log_slots.div_ceil(largest.max(1))
        };
        let split = |count: u32| {
            let parts =
                // Reversed, so that larger factors come first.
                (0..count).rev().map(|i| log_slots * (i + 1) / count - log_slots * i / count);
            parts.collect()
        };
        let to_coeffs = match self.refinement {
            Some(_) => log_slots.min(self.slots_to_coeffs.len() as u32),
            None => fewest(&self.slots_to_coeffs),
        };
        Self {
            log_slots,
            coeffs_to_slots: split(fewest(&self.coeffs_to_slots)),
            slots_to_coeffs: split(to_coeffs),
            ..self.clone()
        }
    }

    /// Plans levels and scales in a parameter set, raising to level `top`. A higher `top` leaves
    /// more levels in the result and makes bootstrapping slower.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`]; [`Error::LevelExhausted`] if the chain is too short;
    /// [`Error::ScaleOutOfRange`] and [`Error::Circuit`] for parts that do not fit each other or
    /// the chain, or a result above its top.
    pub fn plan(&self, params: &Params, top: Level) -> Result<BootstrapPlan> {
        let stage_levels = StageLevels::new(self, params, top)?;
        stage_levels.check_output()?;
        let correction = stage_levels.correction()?;
        let to_coeffs = stage_levels.to_coeffs(correction.as_ref())?;
        let mut plan = BootstrapPlan {
            spec: self.clone(),
            log_n: params.log_n(),
            input_level: stage_levels.input_level,
            input_scale: stage_levels.input_scale,
            refinement: stage_levels.refinement,
            correction,
            to_coeffs,
            top,
            base: stage_levels.base,
            to_slots: stage_levels.to_slots()?,
            before_sub_sum: stage_levels.before_sub_sum(),
            sub_sum: stage_levels.sub_sum()?,
            eval_mod: stage_levels.eval_mod()?,
            spare: stage_levels.spare,
            join: stage_levels.join()?,
            output_level: stage_levels.output_level,
            largest_error: None,
            request: KeyRequest::new(),
        };
        plan.request = plan.keys(params.rlwe(), stage_levels.high);
        Ok(plan)
    }

    /// Returns `true` if half of the coefficients are reduced, which determine the coefficients of
    /// real slots.
    fn mirrors(&self) -> bool {
        self.order == Order::CoeffsToSlotsFirst && self.values == Values::Real
    }

    /// Returns `true` if real and imaginary parts are reduced side by side in one ciphertext.
    fn halves(&self, log_n: u32) -> bool {
        self.values == Values::Complex && self.log_slots + 1 < log_n
    }
}

impl BootstrapPlan {
    /// The specification of the plan.
    #[must_use]
    pub fn spec(&self) -> &BootstrapSpec {
        &self.spec
    }

    /// The minimum level of an input.
    #[must_use]
    pub fn input_level(&self) -> Level {
        self.input_level
    }

    /// The scale of an input at the minimum level. Other inputs are brought to it.
    #[must_use]
    pub fn input_scale(&self) -> Scale {
        self.input_scale
    }

    /// `log2` of the largest slot in magnitude: 0, or larger if `q_0` exceeds the scale of level 0
    /// by more than the reduction's ratio.
    #[must_use]
    pub fn log2_bound(&self) -> f64 {
        self.spare.log2()
    }

    /// The approximate largest error of a slot in magnitude: `2^-16` unless set by
    /// [`BootstrapPlan::with_precision`]. Circuits that continue with the result leave room for it.
    #[must_use]
    pub fn largest_error(&self) -> f64 {
        self.largest_error.unwrap_or(EXPECTED_ERROR)
    }

    /// Sets the mean error of the plan to `2^-bits`. The largest of many errors is some six times
    /// the mean. The plan assumes eight times.
    #[must_use]
    pub fn with_precision(self, bits: f64) -> Self {
        Self { largest_error: Some(real::exp2(3.0 - bits)), ..self }
    }

    /// The level that ciphertexts are raised to.
    #[must_use]
    pub fn top(&self) -> Level {
        self.top
    }

    /// Level of the result.
    #[must_use]
    pub fn output_level(&self) -> Level {
        self.output_level
    }

    /// Number of levels that a refreshed ciphertext can use before the next bootstrapping.
    #[must_use]
    pub fn usable_levels(&self) -> u32 {
        self.output_level.0.saturating_sub(self.input_level.0)
    }

    /// Required keys.
    #[must_use]
    pub fn required_keys(&self) -> &KeyRequest {
        &self.request
    }

    /// The matrices.
    pub fn matrices(&self) -> impl Iterator<Item = &LinearPlan> {
        self.to_coeffs.iter().chain(&self.to_slots).chain(&self.join)
    }

    /// Bytes of the matrices that an evaluator of `params` prepares.
    #[must_use]
    pub fn matrix_bytes(&self, params: &Params) -> u64 {
        self.matrices().map(|plan| plan.bytes(params.rlwe(), &self.request)).sum()
    }

    /// Returns the work of each stage, in order, to refresh `count` ciphertexts together, at the
    /// input level and with whole keys. With a [`Refinement`] all stages repeat in each round.
    ///
    /// # Errors
    /// Errors of the evaluator, for other parameters than planned.
    pub fn work(&self, params: &Params, count: usize) -> Result<Vec<(Stage, Work)>> {
        let e = cost::Evaluator::new(params, &self.request);
        // Work does not depend on values.
        let zeros = vec![Complex::new(0.0, 0.0); 1 << self.spec.log_slots];
        let input = e.slots().encrypt(&zeros, self.input_level, self.input_scale)?;
        let mut stages = Vec::new();
        let mut before = Work::default();
        self.prepare(&e)?.run_with(&e, &vec![input; count], |stage| {
            let done = e.work();
            stages.push((stage, done - before));
            before = done;
        })?;
        Ok(stages)
    }

    /// The reduction modulo 1.
    #[must_use]
    pub fn eval_mod(&self) -> &EvalModPlan {
        &self.eval_mod
    }

    /// `log2` of the probability that a bootstrapping fails because a coefficient of `I` exceeds
    /// the range of the reduction. `weight` is the number of nonzero coefficients of the main
    /// secret, used if there is no ephemeral one.
    #[must_use]
    pub fn log2_failure(&self, weight: u32) -> f64 {
        let h = self.spec.ephemeral_weight.unwrap_or(weight);
        log2_failure(h, self.spec.eval_mod.k, 2 << self.spec.log_slots)
    }

    /// Returns the keys of every stage. The reduction is at level `high`. They are made for their
    /// levels, unless CoeffsToSlots comes first, as in published sets.
    fn keys(&self, params: &rlwe::Params, high: Level) -> KeyRequest {
        let conjugation = GaloisElement::conjugation(self.log_n);
        let summed = Level(self.top.0 - self.before_sub_sum as u32);
        let mut stages = vec![
            self.eval_mod.required_keys(self.log_n),
            KeyRequest::new().automorphism(conjugation, high),
            self.sub_sum.required_keys(summed),
        ];
        // The reduction multiplies many times, so some of its levels have keys of their own.
        let lowest = Level(self.eval_mod.output_level().0 + 1);
        let reduction = params.key_levels(lowest..=high).into_iter();
        stages.extend(reduction.map(|level| KeyRequest::new().relinearize(level)));
        stages.extend(self.correction.iter().map(|plan| plan.required_keys(self.log_n)));
        let matrices = self.to_coeffs.iter().chain(&self.to_slots).chain(&self.join);
        stages.extend(matrices.map(|plan| plan.required_keys().clone()));
        if self.spec.halves(self.log_n) {
            let joined = match self.spec.order {
                Order::SlotsToCoeffsFirst => self.output_level,
                Order::CoeffsToSlotsFirst => Level(self.eval_mod.output_level().0 - 1),
            };
            let steps = [1 << self.spec.log_slots];
            stages.push(KeyRequest::new().rotations(self.log_n, steps, joined));
        }
        let request = match self.spec.order {
            Order::SlotsToCoeffsFirst => KeyRequest::of_stages(stages, params),
            Order::CoeffsToSlotsFirst => stages.iter().fold(KeyRequest::new(), |mut all, keys| {
                all |= keys;
                all
            }),
        };
        match self.spec.ephemeral_weight {
            Some(weight) => request.raise(Raise::to(self.top).with_weight(weight)),
            None => request,
        }
    }

    /// Encodes the matrices in the form that `e` uses.
    ///
    /// # Errors
    /// Errors of the evaluator.
    pub fn prepare<E: ComplexOps>(&self, e: &E) -> Result<Bootstrapper<E>> {
        let all = |plans: &[LinearPlan]| -> Result<Vec<_>> {
            plans.iter().map(|plan| e.prepare(plan)).collect()
        };
        Ok(Bootstrapper {
            plan: self.clone(),
            to_coeffs: all(&self.to_coeffs)?,
            to_slots: all(&self.to_slots)?,
            join: self.join.as_ref().map(|plan| e.prepare(plan)).transpose()?,
        })
    }
}

/// Refreshes ciphertexts: a plan with its matrices. Run it on the evaluator that prepared the
/// matrices or on one like it.
pub struct Bootstrapper<E: ComplexOps> {
    plan: BootstrapPlan,
    to_coeffs: Vec<E::Matrix>,
    to_slots: Vec<E::Matrix>,
    join: Option<E::Matrix>,
}

impl<E: ComplexOps> core::fmt::Debug for Bootstrapper<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Bootstrapper").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl<E: ComplexOps> Bootstrapper<E> {
    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &BootstrapPlan {
        &self.plan
    }

    /// Refreshes `a`, from any level at or above the input level to the output level, with the
    /// default scale there. Slots that exceed [`BootstrapPlan::log2_bound`] in magnitude lead to
    /// wrong results.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] for a ciphertext below the input level; [`Error::ScaleMismatch`]
    /// for another scale at the input level, or above it for a scale that is too large to be
    /// brought down, such as the scale of a product before it is rescaled; [`Error::SlotMismatch`];
    /// [`Error::EphemeralSecretMismatch`] for keys without the planned ephemeral secret; errors of
    /// the evaluator, such as a missing key.
    pub fn run(&self, e: &E, a: &E::Ct) -> Result<E::Ct> {
        Ok(self.run_many(e, core::slice::from_ref(a))?.remove(0))
    }

    /// Runs [`Bootstrapper::run`] on each of `xs`, which share the passes over keys and matrices.
    ///
    /// # Errors
    /// See [`Bootstrapper::run`].
    pub fn run_many(&self, e: &E, xs: &[E::Ct]) -> Result<Vec<E::Ct>> {
        self.run_with(e, xs, |_| {})
    }

    /// Runs [`Bootstrapper::run_many`], calling `progress` after each stage. With a [`Refinement`]
    /// all stages repeat in each round.
    ///
    /// # Errors
    /// See [`Bootstrapper::run`].
    pub fn run_with(
        &self,
        e: &E,
        xs: &[E::Ct],
        mut progress: impl FnMut(Stage),
    ) -> Result<Vec<E::Ct>> {
        // Before any work: a bootstrapping takes long, and a later input may not be acceptable.
        let accepted: Vec<_> = xs.iter().map(|a| self.plan.accept(e, a)).collect::<Result<_>>()?;
        LockStep::new(e).run(&accepted, |many, xs| {
            let fresh = match self.plan.refinement {
                None => self.once(many, xs.clone(), &mut progress)?,
                Some(rounds) => self.refined(many, xs, rounds, &mut progress)?,
            };
            Ok(match self.plan.largest_error {
                Some(error) => many.off_by(fresh, error),
                None => fresh,
            })
        })
    }

    /// Runs a bootstrapping, then bootstraps the difference in the planned number of rounds.
    fn refined(
        &self,
        many: &LockStep<'_, E>,
        xs: &Batch<E::Ct>,
        rounds: Rounds,
        progress: &mut impl FnMut(Stage),
    ) -> Result<Batch<E::Ct>> {
        let plan = &self.plan;
        // Bootstraps an input of `size` times the input scale of a single bootstrapping.
        let single = |x: &Batch<E::Ct>, size: f64| {
            let x = many.with_scale(x, plan.input_scale * Scale::from_f64(size))?;
            many.match_scale(&x, rounds.level, rounds.scale)
        };
        let mut result = self.once(many, single(xs, 1.0)?, progress)?;
        for round in 1..=rounds.count {
            let lowered = lower(many, &result, plan.input_level, plan.input_scale)?;
            let mut lacking = many.sub(xs, &lowered)?;
            let mut size = real::powi(rounds.gain, -(round as i32));
            // Imaginary parts would add to the errors of real slots, and this difference is
            // magnified.
            if plan.spec.mirrors() {
                lacking = many.twice_real_part(&lacking)?;
                size *= 2.0;
            }
            let part = self.once(many, single(&lacking, size)?, progress)?;
            let gain = Scale::from_f64(rounds.gain);
            result = many.mul_const(&result, Complex::new(1.0, 0.0), gain)?;
            let scale = many.scale(&result);
            result = many.add(&result, &many.with_scale(&part, scale)?)?;
        }
        Ok(result)
    }

    fn once(
        &self,
        many: &LockStep<'_, E>,
        mut x: Batch<E::Ct>,
        progress: &mut impl FnMut(Stage),
    ) -> Result<Batch<E::Ct>> {
        let slots_first = self.plan.spec.order == Order::SlotsToCoeffsFirst;
        if slots_first {
            x = self.slots_to_coeffs(many, x)?;
            progress(Stage::SlotsToCoeffs);
        }
        x = self.mod_raise(many, x)?;
        progress(Stage::ModRaise);
        x = self.coeffs_to_slots(many, x)?;
        progress(Stage::CoeffsToSlots);
        x = self.eval_mod(many, x)?;
        progress(Stage::EvalMod);
        if !slots_first {
            x = self.slots_to_coeffs(many, x)?;
            progress(Stage::SlotsToCoeffs);
        }
        Ok(x)
    }
}

/// Minimum size, in bits, of the factor of a product with 1 that changes a scale: the factor is
/// rounded to an integer.
const MIN_FACTOR_BITS: f64 = 20.0;

/// Runs [`Ops::match_scale`] if the scales leave a factor with enough precision.
fn lower<E: ComplexOps>(e: &E, a: &E::Ct, level: Level, scale: Scale) -> Result<E::Ct> {
    let factor = scale * e.chain().divisor(Level(level.0 + 1)) / e.scale(a);
    if factor.log2() < MIN_FACTOR_BITS {
        let left = e.scale(a).log2();
        let right = scale.log2();
        let levels = Some([e.level(a), level]);
        return Err(Error::ScaleMismatch { op: OP, left, right, levels });
    }
    e.match_scale(a, level, scale)
}

impl BootstrapPlan {
    /// Brings an input to the input level and scale.
    fn accept<E: ComplexOps>(&self, e: &E, a: &E::Ct) -> Result<E::Ct> {
        let level = e.level(a);
        let scale = e.scale(a);
        let found = e.log_slots(a);
        let expected = self.spec.log_slots;
        if found != expected {
            let found = 1 << found;
            let expected = 1 << expected;
            return Err(Error::SlotMismatch { op: OP, found, expected });
        }
        if level < self.input_level {
            let needed = self.input_level.0;
            return Err(Error::LevelExhausted { op: OP, needed, level });
        }
        if level > self.input_level {
            return lower(e, a, self.input_level, self.input_scale);
        }
        if scale.matches(self.input_scale) {
            return Ok(a.clone());
        }
        // At the input level there is no level left for the product that changes a scale.
        let left = scale.log2();
        let right = self.input_scale.log2();
        Err(Error::ScaleMismatch { op: OP, left, right, levels: Some([level, self.input_level]) })
    }
}

/// The stages, each on several ciphertexts in lock step.
impl<E: ComplexOps> Bootstrapper<E> {
    fn slots_to_coeffs(&self, e: &LockStep<'_, E>, mut x: Batch<E::Ct>) -> Result<Batch<E::Ct>> {
        let plan = &self.plan;
        if let Some(correction) = &plan.correction {
            x = correction.run(e, &x)?;
        }
        let halved = plan.spec.order == Order::CoeffsToSlotsFirst && plan.spec.halves(plan.log_n);
        for (i, (plan, matrix)) in plan.to_coeffs.iter().zip(&self.to_coeffs).enumerate() {
            x = plan.run(e, matrix, &x)?;
            if i == 0 && halved {
                x = self.fold_halves(e, &x)?;
            }
        }
        if plan.spec.mirrors() { e.twice_real_part(&x) } else { Ok(x) }
    }

    /// Maps `m` to `m + q_0 I`, interpreted as `m / q_0 + I`, and to the slots of the first matrix
    /// if raising includes it.
    fn mod_raise(&self, e: &LockStep<'_, E>, x: Batch<E::Ct>) -> Result<Batch<E::Ct>> {
        let x = e.with_scale(&x, self.plan.base)?;
        match self.plan.to_slots.first().zip(self.to_slots.first()) {
            Some((first, matrix)) if first.raise().is_some() => e.raise_transform(&x, matrix),
            _ => e.mod_raise(&x, self.plan.top, self.plan.spec.ephemeral_weight),
        }
    }

    /// Moves coefficients to the slots, as complex numbers. For few slots the result has halves of
    /// a vector with these as its real part.
    fn coeffs_to_slots(&self, e: &LockStep<'_, E>, mut x: Batch<E::Ct>) -> Result<Batch<E::Ct>> {
        let plan = &self.plan;
        let last = plan.to_slots.len().saturating_sub(1);
        for (i, (factor, matrix)) in plan.to_slots.iter().zip(&self.to_slots).enumerate() {
            if i == plan.before_sub_sum {
                x = plan.sub_sum.run(e, &x)?;
            }
            if i == last && plan.spec.halves(plan.log_n) {
                x = e.with_log_slots(&x, plan.spec.log_slots + 1)?;
            }
            // A factor with raising was already applied when the modulus was raised.
            if factor.raise().is_none() {
                x = factor.run(e, matrix, &x)?;
            }
        }
        Ok(x)
    }

    /// Reduces real and imaginary parts modulo 1, and combines them to complex numbers unless
    /// SlotsToCoeffs does.
    fn eval_mod(&self, many: &LockStep<'_, E>, x: Batch<E::Ct>) -> Result<Batch<E::Ct>> {
        let plan = &self.plan;
        let separate = plan.spec.values == Values::Complex && !plan.spec.halves(plan.log_n);
        let i = Complex::new(0.0, 1.0);
        let one = Scale::from_u64(1);
        let parts = match separate {
            true => {
                let conjugate = many.conjugate(&x)?;
                let difference = many.sub(&x, &conjugate)?;
                // Both parts in one batch: their products share the reading of the key.
                many.add(&x, &conjugate)?.join(many.mul_const(&difference, i.conj(), one)?)
            }
            false => many.twice_real_part(&x)?,
        };
        // Frees its buffers for the reduction.
        drop(x);
        let mut real = plan.eval_mod.run(many, &parts)?;
        if separate {
            let [re, im] = real.halves();
            real = many.add(&re, &many.mul_const(&im, i, one)?)?;
        }
        // Messages at level 0 may be smaller than the reduction assumes.
        let scale = many.scale(&real) / plan.spare;
        let x = many.with_scale(&real, scale)?;
        match plan.join.as_ref().zip(self.join.as_ref()) {
            Some((plan, matrix)) => self.fold_halves(many, &plan.run(many, matrix, &x)?),
            None => Ok(x),
        }
    }

    /// Returns the sum of both halves of the slots, in half the number of slots.
    fn fold_halves(&self, e: &LockStep<'_, E>, x: &Batch<E::Ct>) -> Result<Batch<E::Ct>> {
        let log_slots = self.plan.spec.log_slots;
        let sum = e.add(x, &e.rotate(x, 1 << log_slots)?)?;
        e.with_log_slots(&sum, log_slots)
    }
}
