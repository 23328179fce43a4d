//! Bootstrapping of exact ciphertexts: restores many levels to a ciphertext without budget and
//! keeps every slot exactly.
//!
//! A ciphertext modulo `q_0` of a plaintext `m` modulo `p^r` is rounded to the modulus `p^(r+1)`
//! and lifted to the whole chain. It then encrypts `p m + I` modulo `p^(r+1)`. The rounding leaves
//! the small polynomial `I`, the lowest digit of each coefficient, which is removed in the slots.
//!
//! | stage | operation | modulo |
//! |---|---|---|
//! | SlotsToCoeffs | puts slots into coefficients, a matrix | `p^r` |
//! | Raise | rounds to `p^(r+1)` under an ephemeral sparse secret and lifts, see [`exact::Evaluator::raise`]; for fewer slots than the ring has, also takes a trace to the subring of the slots | `p^(r+1)` |
//! | CoeffsToSlots | puts coefficients into slots, the inverse matrix | `p^(r+1)` |
//! | DigitRemoval | a polynomial that removes digits up to a bound, see [`ResiduePolynomial::bounded_removal`] | `p^(r+1)`, then `p^r` |
//!
//! The same pipeline serves BGV and BFV, with the product of either: [`BootstrapSpec::plan`] is for
//! evaluators with the product of BGV, and [`BootstrapSpec::plan_with`] for both.
//!
//! Reference: Han, "Bootstrapping methods for homomorphic encryption" (PhD thesis, Seoul National
//! University), chapter 3. Deviations: raising needs no encryption of the secret, and removal
//! relies on the bound of `I` under a sparse ephemeral secret instead of removing the whole digit.
//!
//! [`BootstrapSpec`] is a choice of independent parts. Its plan fixes levels, factors and keys
//! before any key exists. A [`Bootstrapper`] holds the matrices that an evaluator prepared. It
//! refreshes slots of integers, and [`full`] refreshes every coefficient of a plaintext.

mod choose;
pub mod full;
mod inputs;
mod presets;
#[cfg(test)]
mod tests;

use super::{
    IntegerOps, LinearPlan, LinearTransform, PolynomialPlan,
    dft::{coeffs_to_slots, slots_to_coeffs},
    digits::ResiduePolynomial,
};
use crate::{
    Error, Result,
    circuits::{LockStep, Ops, Trace, TracePlan, failure::log2_exceeds, lock_step::Batch},
    exact::{self, IntegerEncoder, Modulus, Params, Tensor, Unit, rules::LOG2_BROUGHT},
    rlwe::{Chain, KeyRequest, Level, Raise, named},
};
use sudare_arith::real;

pub use choose::{RINGS, choose};
pub use inputs::{Inputs, Simulation};
pub use presets::{BootstrapPreset, presets, reproductions};

const OP: &str = "bootstrapping";

/// Returns the set named `name`, from [`presets`] or [`reproductions`], or made by [`choose`]. The
/// latter has names of a ring and a modulus, such as `n15-t40961-auto` and `n15-t31-2-auto`.
///
/// # Errors
/// [`Error::UnknownPreset`], which lists the existing names; errors of [`choose`] and
/// [`Modulus::new`].
pub fn preset(name: &str) -> Result<BootstrapPreset> {
    if let Some((log_n, (prime, exponent))) = choose::parse(name) {
        return choose(Modulus::new(prime, exponent)?, log_n);
    }
    let all = presets().into_iter().chain(reproductions()).collect();
    named(all, name, |set| &set.preset.name)
}

/// Returns the sets that a name may mean: the set of [`preset`], or the candidates from which
/// [`choose`] takes the first that holds its errors. Use it to find the set of given parameters. It
/// tries no candidate, which takes [`preset`] seconds.
///
/// # Errors
/// [`Error::UnknownPreset`]; errors of [`Modulus::new`]; errors of [`choose`] for moduli that no
/// set bootstraps.
pub fn candidates(name: &str) -> Result<Vec<BootstrapPreset>> {
    match choose::parse(name) {
        Some((log_n, (prime, exponent))) => {
            let sets = choose::candidates(Modulus::new(prime, exponent)?, log_n)?;
            Ok(sets.flatten().collect())
        }
        None => preset(name).map(|set| vec![set]),
    }
}

/// Specification of a bootstrapping: independent choices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootstrapSpec {
    /// The modulus of plaintexts, `p^r`.
    pub modulus: Modulus,
    /// `log2` of the number of slots of integers, in both rows.
    pub log_slots: u32,
    /// Weight of the ephemeral secret through which ciphertexts are raised.
    pub ephemeral_weight: u32,
    /// The largest lowest digit that is removed, `B`. Removal has degree `(r + 1)(2B + 1) - 1` and
    /// requires `2B + 1 <= p`. A coefficient of `I` exceeds `B` with the probability of
    /// [`BootstrapPlan::log2_failure`].
    pub bound: u32,
    /// Layers of each factor of SlotsToCoeffs; see [`slots_to_coeffs`]. Their sum is
    /// `log_slots - 1`.
    pub slots_to_coeffs: Vec<u32>,
    /// Layers of each factor of CoeffsToSlots. Their sum is `log_slots - 1`.
    pub coeffs_to_slots: Vec<u32>,
}

/// A completed stage of bootstrapping, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The slots are in the coefficients.
    SlotsToCoeffs,
    /// The ciphertext has the modulus of the highest level.
    Raise,
    /// In [full] bootstrapping: slices are taken apart, or put together again.
    Slices,
    /// The coefficients are in the slots.
    CoeffsToSlots,
    /// The lowest digits are removed.
    DigitRemoval,
}

/// Levels, scales and keys of a [`BootstrapSpec`] for one parameter set.
#[derive(Debug, Clone)]
pub struct BootstrapPlan {
    spec: BootstrapSpec,
    tensor: Tensor,
    input_scale: Unit,
    to_coeffs: Vec<LinearPlan>,
    raise: Raise,
    /// Matrices of CoeffsToSlots. The first includes the raising.
    to_slots: Vec<LinearPlan>,
    /// Trace to the subring of the slots, after the first matrix, and the multiple by which it
    /// multiplies a plaintext.
    trace: Option<(TracePlan, Unit)>,
    removal: PolynomialPlan,
    request: KeyRequest,
}

impl BootstrapSpec {
    /// Plans for evaluators with the product of BGV, for any product that continues with the
    /// results; see [`BootstrapSpec::plan_with`].
    ///
    /// # Errors
    /// See [`BootstrapSpec::plan_with`].
    pub fn plan(
        &self,
        params: &Params,
        factor: impl Fn(&Params, Level, Modulus) -> Result<Unit>,
    ) -> Result<BootstrapPlan> {
        self.plan_with(params, Tensor::Plain, factor)
    }

    /// Plans levels and scales in a parameter set, raising to its top, for evaluators with one of
    /// the products.
    ///
    /// `factor` returns the factor of ciphertexts at a level: [`Params::factor_at`] if products of
    /// BGV follow, [`Params::fresh_factor`] if products of BFV follow. Inputs of another factor are
    /// accepted, and the factor of the result differs by the same quotient.
    ///
    /// # Errors
    /// [`Error::NoSlots`] for a modulus with fewer slots; [`Error::Circuit`] for parts that do not
    /// fit each other; [`Error::LevelExhausted`] if the chain is too short;
    /// [`Error::PlaintextModulusNotCoprime`].
    pub fn plan_with(
        &self,
        params: &Params,
        tensor: Tensor,
        factor: impl Fn(&Params, Level, Modulus) -> Result<Unit>,
    ) -> Result<BootstrapPlan> {
        // Rejects a modulus without slots before anything divides by their number.
        let encoder = self.encoder(params.log_n())?;
        let high = self.high()?;
        let raise = exact::raise_to(params.upper_top(), high);
        let raise = raise.with_weight(self.ephemeral_weight);
        let trace = self.trace(params, raise)?;
        let matrices = slots_to_coeffs(&encoder, &self.slots_to_coeffs)?;
        let scale_at = |level, t| tensor.scale(params, level, factor(params, level, t)?);
        let input_scale = self.input_scale(params, matrices.len(), scale_at)?;
        let to_coeffs = self.to_coeffs(params, tensor, &matrices, input_scale)?;
        let to_slots = self.to_slots(params, tensor, raise, trace.as_ref())?;
        let last = to_slots.last().map_or(raise.level, LinearPlan::output_level);
        // A second factor divides by the multiple of the trace. Without one, the removal has to.
        let scale = match (&trace, to_slots.len()) {
            (Some((_, multiple)), 1) => *multiple,
            _ => Unit::one(high),
        };
        let chain = tensor.chain(params, high)?;
        let removal = self.removal(&chain, (last, scale), to_coeffs.len(), scale_at)?;
        let mut plan = BootstrapPlan {
            spec: self.clone(),
            tensor,
            input_scale,
            to_coeffs,
            raise,
            to_slots,
            trace,
            removal,
            request: KeyRequest::new(),
        };
        plan.request = plan.keys(params);
        Ok(plan)
    }

    /// Returns the modulus of raised plaintexts.
    fn high(&self) -> Result<Modulus> {
        self.modulus.with_exponent(self.modulus.exponent() + 1)
    }

    /// Returns the encoder of the refreshed slots, in the ring of degree `2^log_n`.
    ///
    /// # Errors
    /// See [`IntegerEncoder::new`].
    pub fn encoder(&self, log_n: u32) -> Result<IntegerEncoder> {
        IntegerEncoder::new(self.modulus, log_n, self.log_slots)
    }

    /// Returns the scale of inputs, for `matrices` factors of SlotsToCoeffs.
    fn input_scale(
        &self,
        params: &Params,
        matrices: usize,
        scale_at: impl Fn(Level, Modulus) -> Result<Unit>,
    ) -> Result<Unit> {
        let level = Level(matrices as u32);
        params.rlwe().check_chain_level(level)?;
        scale_at(level, self.modulus)
    }

    /// Plans SlotsToCoeffs down to level 0, for inputs of this scale.
    fn to_coeffs(
        &self,
        params: &Params,
        tensor: Tensor,
        matrices: &[LinearTransform],
        mut scale: Unit,
    ) -> Result<Vec<LinearPlan>> {
        let t = self.modulus;
        let chain = tensor.chain(params, self.modulus)?;
        // At level 0, use the scale of the factor that raising multiplies by 1.
        let lowest = tensor.scale(params, Level(0), params.fresh_factor(Level(0), t)?)?;
        let mut level = Level(matrices.len() as u32);
        let plan = |matrix: &LinearTransform| {
            let out = if level == Level(1) { lowest } else { Unit::one(t) };
            let plan = matrix.plan(params.log_n(), &chain, level, scale, out)?;
            (level, scale) = (plan.output_level(), out);
            Ok(plan)
        };
        matrices.iter().map(plan).collect()
    }

    /// Plans the removal of digits from this level and scale, down to the level of inputs at the
    /// lowest.
    fn removal(
        &self,
        chain: &Chain<Unit>,
        (level, scale): (Level, Unit),
        input_level: usize,
        scale_at: impl Fn(Level, Modulus) -> Result<Unit>,
    ) -> Result<PolynomialPlan> {
        if level.0 < input_level as u32 {
            return Err(Error::LevelExhausted { op: OP, needed: input_level as u32, level });
        }
        let high = self.high()?;
        let removal = ResiduePolynomial::bounded_removal(high, self.bound)?.centered();
        let out = |level| Unit::new(scale_at(level, self.modulus)?.value(), high);
        PolynomialPlan::new(&removal, chain, level, scale, out)
    }

    /// Returns [`BootstrapPlan::log2_failure`] for a number of coefficients.
    fn log2_failure(&self, coefficients: u64) -> f64 {
        let size = f64::from(self.bound) + 0.5 - real::exp2(LOG2_BROUGHT);
        log2_exceeds(self.ephemeral_weight, size, coefficients)
    }

    /// Returns the trace to the subring of the slots, and the multiple by which it multiplies a
    /// plaintext there.
    fn trace(&self, params: &Params, raise: Raise) -> Result<Option<(TracePlan, Unit)>> {
        let gap = params.log_n().saturating_sub(self.log_slots);
        if gap == 0 {
            return Ok(None);
        }
        let trace = Trace::to_slots(params.log_n(), self.log_slots.saturating_sub(1))?;
        // The trace sums `2^gap` images, and each leaves the subring of the slots as it is.
        let multiple = Unit::new(1 << gap, self.high()?)?;
        Ok(Some((trace.fastest(params.rlwe(), traced(raise))?, multiple)))
    }

    /// Plans CoeffsToSlots from the raised level. The trace comes after the first factor.
    fn to_slots(
        &self,
        params: &Params,
        tensor: Tensor,
        raise: Raise,
        trace: Option<&(TracePlan, Unit)>,
    ) -> Result<Vec<LinearPlan>> {
        let high = self.high()?;
        let chain = tensor.chain(params, high)?;
        let one = Unit::one(high);
        let raised = tensor.scale(params, raise.level, one)?;
        let mut level = raise.level;
        let log_n = params.log_n();
        let encoder = IntegerEncoder::new(high, log_n, self.log_slots)?;
        let matrices = coeffs_to_slots(&encoder, &self.coeffs_to_slots)?;
        if let (IntegerEncoder::Slim(_), [_]) = (&encoder, &matrices[..]) {
            return Err(Error::Circuit(format!(
                "{OP}: modulo {high} the only factor of CoeffsToSlots leaves the subring that is \
                 selected after it: two factors or more are needed"
            )));
        }
        let plan = |(i, matrix): (usize, &LinearTransform)| {
            let plan = match i {
                0 => matrix.plan_raised(log_n, &chain, raise, [raised, one])?,
                // The multiple of the trace is read as part of the scale, so this factor divides by
                // it.
                1 => matrix.plan(log_n, &chain, level, trace.map_or(one, |trace| trace.1), one)?,
                _ => matrix.plan(log_n, &chain, level, one, one)?,
            };
            level = plan.output_level();
            Ok(plan)
        };
        matrices.iter().enumerate().map(plan).collect()
    }
}

/// Returns the level of the trace, after the first factor of CoeffsToSlots.
fn traced(raise: Raise) -> Level {
    Level(raise.level.0.saturating_sub(1))
}

impl BootstrapPlan {
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
        Level(self.to_coeffs.len() as u32)
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

    /// Required keys.
    #[must_use]
    pub fn required_keys(&self) -> &KeyRequest {
        &self.request
    }

    /// The matrices.
    pub fn matrices(&self) -> impl Iterator<Item = &LinearPlan> {
        self.to_coeffs.iter().chain(&self.to_slots)
    }

    /// Bytes of the matrices in memory.
    #[must_use]
    pub fn matrix_bytes(&self, params: &Params) -> u64 {
        matrix_bytes(params, self.matrices())
    }

    /// `log2` of a bound of the probability that a bootstrapping fails, because a coefficient of
    /// `I` exceeds the bound `B`. The coefficient is the integer next to a sum of `h` rounding
    /// errors and a contribution of the input's error, at most 1/32 ([`exact::Evaluator::raise`]).
    /// It fails only if the rounding errors exceed `B + 1/2 - 1/32`.
    #[must_use]
    pub fn log2_failure(&self) -> f64 {
        self.spec.log2_failure(1 << self.spec.log_slots)
    }

    /// Returns the keys of every stage, made for their levels.
    fn keys(&self, params: &Params) -> KeyRequest {
        let rlwe = params.rlwe();
        let mut stages: Vec<_> = self.matrices().map(|plan| plan.required_keys().clone()).collect();
        let trace = self.trace.iter();
        stages.extend(trace.map(|(trace, _)| trace.required_keys(traced(self.raise))));
        // The removal starts below CoeffsToSlots.
        let highest = Level(self.top().0 - self.to_slots.len() as u32);
        stages.extend(removal_keys(params, self.output_level(), highest));
        KeyRequest::of_stages(stages, rlwe).raise(self.raise)
    }

    /// Encodes the matrices in the form that `e` uses.
    ///
    /// # Errors
    /// Errors of the evaluator.
    pub fn prepare<E: IntegerOps>(&self, e: &E) -> Result<Bootstrapper<E>> {
        let to_coeffs = prepare_all(e, &self.to_coeffs)?;
        let to_slots = prepare_all(e, &self.to_slots)?;
        Ok(Bootstrapper { plan: self.clone(), to_coeffs, to_slots })
    }
}

/// Refreshes ciphertexts: a plan with its matrices. Run it on the evaluator that prepared the
/// matrices or on one like it.
pub struct Bootstrapper<E: IntegerOps> {
    plan: BootstrapPlan,
    to_coeffs: Vec<E::Matrix>,
    to_slots: Vec<E::Matrix>,
}

impl<E: IntegerOps> core::fmt::Debug for Bootstrapper<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Bootstrapper").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl<E: IntegerOps> Bootstrapper<E> {
    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &BootstrapPlan {
        &self.plan
    }

    /// Refreshes `a`, from any level at or above the input level to the output level.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] for a ciphertext below the input level;
    /// [`Error::PlaintextMismatch`] for a ciphertext of another modulus;
    /// [`Error::EphemeralSecretMismatch`] for keys without the planned ephemeral secret; errors of
    /// the evaluator, such as a missing key or an error that is too large.
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

    /// Runs [`Bootstrapper::run_many`], calling `progress` after each stage.
    ///
    /// # Errors
    /// See [`Bootstrapper::run`].
    pub fn run_with(
        &self,
        e: &E,
        xs: &[E::Ct],
        mut progress: impl FnMut(Stage),
    ) -> Result<Vec<E::Ct>> {
        let level = self.plan.input_level();
        let scale = self.plan.input_scale;
        let accepted: Vec<_> =
            xs.iter().map(|a| accept(e, a, level, scale)).collect::<Result<_>>()?;
        let (inputs, quotients): (Vec<_>, Vec<_>) = accepted.into_iter().unzip();
        let results = LockStep::new(e).run(&inputs, |many, x| {
            let x = run_all(many, &self.plan.to_coeffs, &self.to_coeffs, x.clone())?;
            progress(Stage::SlotsToCoeffs);
            let x = self.coeffs_to_slots(many, &x, || progress(Stage::Raise))?;
            progress(Stage::CoeffsToSlots);
            let x = self.plan.removal.run(many, &x)?;
            let x = many.with_plaintext_modulus(&x, self.plan.spec.modulus)?;
            progress(Stage::DigitRemoval);
            Ok(x)
        })?;
        let restored = |(x, quotient): (&E::Ct, Unit)| e.with_scale(x, e.scale(x) * quotient);
        results.iter().zip(quotients).map(restored).collect()
    }

    /// Raises and applies CoeffsToSlots. The first factor includes the raising.
    fn coeffs_to_slots(
        &self,
        e: &LockStep<'_, E>,
        x: &Batch<E::Ct>,
        raised: impl FnOnce(),
    ) -> Result<Batch<E::Ct>> {
        let mut matrices = self.plan.to_slots.iter().zip(&self.to_slots);
        let mut x = match matrices.next() {
            Some((_, first)) => e.raise_transform(x, first)?,
            None => x.clone(),
        };
        raised();
        if let Some((trace, multiple)) = &self.plan.trace {
            x = e.with_scale(&trace.run(e, &x)?, *multiple)?;
        }
        matrices.try_fold(x, |x, (plan, matrix)| plan.run(e, matrix, &x))
    }
}

/// Encodes matrices in the form that `e` uses.
fn prepare_all<E: IntegerOps>(e: &E, plans: &[LinearPlan]) -> Result<Vec<E::Matrix>> {
    plans.iter().map(|plan| e.prepare(plan)).collect()
}

/// Applies matrices one after the other.
fn run_all<E: IntegerOps>(
    e: &LockStep<'_, E>,
    plans: &[LinearPlan],
    matrices: &[E::Matrix],
    x: Batch<E::Ct>,
) -> Result<Batch<E::Ct>> {
    plans.iter().zip(matrices).try_fold(x, |x, (plan, matrix)| plan.run(e, matrix, &x))
}

/// Bytes of encoded matrices, for keys of their levels.
fn matrix_bytes<'a>(params: &Params, plans: impl Iterator<Item = &'a LinearPlan>) -> u64 {
    let rlwe = params.rlwe();
    plans.fold(0u64, |sum, matrix| {
        // An upper bound: weights modulo all special primes, although level keys may have fewer.
        let limbs = match matrix.raise() {
            Some(raise) => rlwe.raising_limbs(raise.level),
            None => rlwe.level_key_limbs(matrix.level()).unwrap_or(rlwe.key_limbs(matrix.level())),
        };
        sum.saturating_add(matrix.weight_bytes(rlwe, limbs))
    })
}

/// Returns the keys of the removal. It multiplies many times, from one level down to another, so
/// some levels have keys of their own.
fn removal_keys(
    params: &Params,
    lowest: Level,
    highest: Level,
) -> impl Iterator<Item = KeyRequest> + use<> {
    // The last product of the removal is a level above its result.
    let levels = params.rlwe().key_levels(Level(lowest.0 + 1)..=highest);
    levels.into_iter().map(|level| KeyRequest::new().relinearize(level))
}

/// Brings an input to the input level and interprets it at the input scale. Its plaintext is
/// divided by the returned quotient.
fn accept<E: IntegerOps>(
    e: &E,
    a: &E::Ct,
    input_level: Level,
    input_scale: Unit,
) -> Result<(E::Ct, Unit)> {
    if e.level(a) < input_level {
        let needed = input_level.0;
        let level = e.level(a);
        return Err(Error::LevelExhausted { op: OP, needed, level });
    }
    let mut x = a.clone();
    while e.level(&x) > input_level {
        // Rescale from just above the input level, if the error fits there.
        let mut lower = x.clone();
        if e.drop_to(&mut lower, Level(input_level.0 + 1)).is_ok() {
            x = lower;
        }
        e.rescale_assign(&mut x)?;
    }
    let quotient = e.scale(&x) / input_scale;
    Ok((e.with_scale(&x, input_scale)?, quotient))
}
