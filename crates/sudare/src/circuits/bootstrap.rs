//! Bootstrapping of CKKS ciphertexts: out of levels, back to many.
//!
//! A ciphertext modulo `q_0` is read modulo the whole chain, which adds `q_0 I` to its
//! polynomial for a small polynomial `I`. Its coefficients are moved to the slots, reduced
//! modulo `q_0` by a function that is periodic there, and moved back.
//!
//! | stage | what it does |
//! |---|---|
//! | SlotsToCoeffs | puts slots into coefficients, a matrix |
//! | ModRaise | reads residues modulo `q_0` modulo the whole chain; through an ephemeral sparse secret `I` is small |
//! | SubSum | for few slots: projects to the subring that they live in |
//! | CoeffsToSlots | puts coefficients into slots, the inverse matrix |
//! | EvalMod | removes the integer part, see [`EvalModSpec`] |
//!
//! [`BootstrapSpec`] is a choice of independent parts; its plan fixes levels, scales and
//! keys before any key exists, and a [`Bootstrapper`] holds the matrices that an evaluator
//! prepared.

mod correction;
mod failure;
mod presets;

use super::{EvalModPlan, EvalModSpec, LinearPlan, LinearTransform, LockStep, Ops, dft};
use crate::{
    Error, Result,
    ckks::{Chain, Complex, Params, Scale},
    rlwe::{GaloisElement, KeyRequest, Level, Raise},
};
use correction::Correction;
pub use failure::log2_failure;
pub use presets::{BootstrapPreset, preset, presets};

const OP: &str = "bootstrapping";

/// Which of the two maps between slots and coefficients comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// CoeffsToSlots after raising and SlotsToCoeffs at the end: inputs may be at level 0.
    CoeffsToSlotsFirst,
    /// SlotsToCoeffs at the lowest levels, before raising, where it costs little.
    SlotsToCoeffsFirst,
}

/// What slots hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Complex numbers with real and imaginary parts of at most 1.
    Complex,
    /// Real numbers of at most 1; imaginary parts are lost. One reduction instead of two.
    Real,
}

/// What has been done to a ciphertext, in one order or the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Slots are in the coefficients.
    SlotsToCoeffs,
    /// The modulus is that of the top level.
    ModRaise,
    /// Coefficients are in the slots.
    CoeffsToSlots,
    /// Integer parts are gone.
    EvalMod,
}

/// How to bootstrap: independent choices.
#[derive(Debug, Clone, PartialEq)]
pub struct BootstrapSpec {
    /// `log2` of the number of slots.
    pub log_slots: u32,
    /// The order of the maps.
    pub order: Order,
    /// What slots hold.
    pub values: Values,
    /// Weight of the ephemeral secret through which the modulus is raised; None raises
    /// under the main secret.
    pub ephemeral_weight: Option<u32>,
    /// Layers of each factor of CoeffsToSlots, see [`dft::coeffs_to_slots`]; their sum is
    /// `log_slots`.
    pub coeffs_to_slots: Vec<u32>,
    /// Layers of each factor of SlotsToCoeffs, likewise.
    pub slots_to_coeffs: Vec<u32>,
    /// The reduction. With [`Order::SlotsToCoeffsFirst`] messages are brought to its ratio;
    /// otherwise they have the scale of level 0, which must be as far below `q_0`.
    pub eval_mod: EvalModSpec,
    /// Whether messages are bent before raising so that the sine straightens them, which
    /// takes two of the lowest levels. With [`Order::SlotsToCoeffsFirst`] only.
    pub correction: bool,
}

/// Levels, scales and keys of a [`BootstrapSpec`] for one parameter set.
#[derive(Debug, Clone)]
pub struct BootstrapPlan {
    spec: BootstrapSpec,
    log_n: u32,
    input_level: Level,
    input_scale: Scale,
    correction: Option<Correction>,
    to_coeffs: Vec<LinearPlan>,
    top: Level,
    /// `q_0`, the scale of the raised plaintext.
    base: Scale,
    /// Rotations that, with the identity, project to the subring of the slots.
    sub_sum: Vec<i64>,
    to_slots: Vec<LinearPlan>,
    eval_mod: EvalModPlan,
    /// How many times the message the reduction gives.
    spare: Scale,
    /// From real and imaginary halves to complex slots, where no other matrix does that.
    join: Option<LinearPlan>,
    output_level: Level,
    request: KeyRequest,
}

impl BootstrapSpec {
    /// The same for `2^log_slots` slots: as many factors of the maps, or one a layer if there
    /// are fewer layers.
    #[must_use]
    pub fn with_log_slots(&self, log_slots: u32) -> Self {
        let split = |factors: &[u32]| {
            let count = (factors.len() as u32).min(log_slots).max(1);
            let parts =
                (0..count).rev().map(|i| log_slots * (i + 1) / count - log_slots * i / count);
            parts.filter(|&layers| layers > 0).collect()
        };
        Self {
            log_slots,
            coeffs_to_slots: split(&self.coeffs_to_slots),
            slots_to_coeffs: split(&self.slots_to_coeffs),
            ..self.clone()
        }
    }

    /// Fixes levels and scales in a parameter set, raising to level `top`. Slots are the
    /// fresher the higher it is, and bootstrapping takes the longer.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`]; [`Error::LevelExhausted`] if the chain is too short; [`Error::ScaleOutOfRange`] and
    /// [`Error::Circuit`] for parts that do not fit each other or the chain.
    pub fn plan(&self, params: &Params, top: Level) -> Result<BootstrapPlan> {
        params.rlwe().check_level(top)?;
        let (log_n, chain) = (params.log_n(), params.chain());
        let invalid = |problem: &str| Err(Error::Circuit(format!("{OP}: {problem}")));
        if self.log_slots >= log_n {
            return invalid(&format!("2^{} slots do not fit degree 2^{log_n}", self.log_slots));
        }
        let slots_first = self.order == Order::SlotsToCoeffsFirst;
        if self.correction && !slots_first {
            return invalid(
                "the correction of the sine comes before raising, so SlotsToCoeffs must",
            );
        }
        let base = params.rlwe().primes_of(Level(0)).iter();
        let base = base.fold(Scale::from_u64(1), |q, &prime| q * Scale::from_u64(prime));
        let needs = |needed: usize, level: Level| match level.0.checked_sub(needed as u32) {
            Some(level) => Ok(Level(level)),
            None => Err(Error::LevelExhausted { op: OP, needed: needed as u32, level }),
        };
        let halves = self.halves(log_n);

        // Before raising.
        let steps = self.slots_to_coeffs.len();
        let low = if slots_first { steps + 2 * usize::from(self.correction) } else { 0 };
        needs(low, top)?;
        let input_level = Level(low as u32);
        let input_scale = params.scale_at(input_level);
        let message_scale = match self.order {
            Order::SlotsToCoeffsFirst => base / Scale::from_log2(self.eval_mod.log2_ratio),
            Order::CoeffsToSlotsFirst => input_scale,
        };
        let spare_bits = (base / message_scale).log2() - self.eval_mod.log2_ratio;
        if spare_bits < -1e-6 {
            return invalid(&format!(
                "messages at level 0 are 2^{:.2} below q_0, the reduction is for 2^{:.2}",
                spare_bits + self.eval_mod.log2_ratio,
                self.eval_mod.log2_ratio
            ));
        }
        let correction = match self.correction {
            true => {
                let (real, ratio) = (self.values == Values::Real, self.eval_mod.log2_ratio);
                Some(Correction::plan(chain, input_level, input_scale, ratio, real)?)
            }
            false => None,
        };

        // After raising.
        let mut to_slots = dft::coeffs_to_slots(self.log_slots, &self.coeffs_to_slots)?;
        let gap = (log_n - 1 - self.log_slots) as i32;
        if let Some(first) = to_slots.first_mut() {
            // Half of the sum with the conjugate, and one of the terms of SubSum.
            *first = first.clone().scaled(Complex::new(0.5 * (-f64::from(gap)).exp2(), 0.0));
        }
        if halves && let Some(last) = to_slots.last_mut() {
            *last = last.to_halves();
        }
        let high = needs(to_slots.len(), top)?;
        let reduction_scale = chain.divisor(high) / Scale::from_f64(self.eval_mod.bound());
        let to_slots = plan_all(&to_slots, log_n, chain, top, base, |_| reduction_scale)?;
        let depth = self.eval_mod.depth()?;
        let reduced = needs(depth as usize, high)?;
        let ends = if slots_first { usize::from(halves) } else { steps };
        let output_level = needs(ends, reduced)?;
        let result_scale = |level: Level| params.scale_at(level);
        // What the reduction gives is the message times 2^spare_bits.
        let spare = Scale::from_log2(spare_bits);
        let out = result_scale(reduced) * spare;
        let eval_mod = self.eval_mod.plan(chain, high, reduction_scale, out)?;

        let mut to_coeffs = dft::slots_to_coeffs(self.log_slots, &self.slots_to_coeffs)?;
        let mut join = None;
        if halves {
            let same = LinearTransform::identity(self.log_slots).of_halves();
            match self.order {
                Order::CoeffsToSlotsFirst => {
                    if let Some(first) = to_coeffs.first_mut() {
                        *first = first.of_halves();
                    }
                }
                Order::SlotsToCoeffsFirst => {
                    let (from, to) = (result_scale(reduced), result_scale(output_level));
                    join = Some(same.plan(log_n, chain, reduced, from, to)?);
                }
            }
        }
        let to_coeffs = match self.order {
            Order::SlotsToCoeffsFirst => {
                let (level, scale) = match &correction {
                    Some(correction) => (correction.output_level(), correction.output_scale()),
                    None => (input_level, input_scale),
                };
                plan_all(&to_coeffs, log_n, chain, level, scale, |_| message_scale)?
            }
            Order::CoeffsToSlotsFirst => {
                let from = result_scale(reduced);
                plan_all(&to_coeffs, log_n, chain, reduced, from, result_scale)?
            }
        };

        let slots = 1i64 << self.log_slots;
        let mut plan = BootstrapPlan {
            spec: self.clone(),
            log_n,
            input_level,
            input_scale,
            correction,
            to_coeffs,
            top,
            base,
            sub_sum: (0..gap).map(|i| slots << i).collect(),
            to_slots,
            eval_mod,
            spare,
            join,
            output_level,
            request: KeyRequest::new(),
        };
        plan.request = plan.keys(high);
        Ok(plan)
    }

    /// Whether real and imaginary parts are reduced side by side in one ciphertext.
    fn halves(&self, log_n: u32) -> bool {
        self.values == Values::Complex && self.log_slots + 1 < log_n
    }
}

/// Plans of matrices that follow each other, from `level` and `scale` on; `out` is the scale
/// of the last result by its level. Those in between change theirs evenly.
fn plan_all(
    matrices: &[LinearTransform],
    log_n: u32,
    chain: &Chain,
    level: Level,
    scale: Scale,
    out: impl Fn(Level) -> Scale,
) -> Result<Vec<LinearPlan>> {
    let count = matrices.len() as u32;
    let Some(end) = level.0.checked_sub(count).map(Level) else {
        return Err(Error::LevelExhausted { op: OP, needed: count, level });
    };
    let out = out(end);
    let step = (out / scale).log2() / f64::from(count.max(1));
    let mut from = scale;
    let mut plans = Vec::with_capacity(matrices.len());
    for (i, matrix) in matrices.iter().enumerate() {
        let last = i + 1 == matrices.len();
        let to = if last { out } else { from * Scale::from_log2(step) };
        plans.push(matrix.plan(log_n, chain, Level(level.0 - i as u32), from, to)?);
        from = to;
    }
    Ok(plans)
}

impl BootstrapPlan {
    /// What it was planned from.
    #[must_use]
    pub fn spec(&self) -> &BootstrapSpec {
        &self.spec
    }

    /// The lowest level of an input.
    #[must_use]
    pub fn input_level(&self) -> Level {
        self.input_level
    }

    /// The scale of an input at the lowest level; others are brought to it.
    #[must_use]
    pub fn input_scale(&self) -> Scale {
        self.input_scale
    }

    /// Level of the result.
    #[must_use]
    pub fn output_level(&self) -> Level {
        self.output_level
    }

    /// Levels that a refreshed ciphertext can use before it is bootstrapped again.
    #[must_use]
    pub fn usable_levels(&self) -> u32 {
        self.output_level.0.saturating_sub(self.input_level.0)
    }

    /// Keys needed.
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
        let row_bytes = 8u64 << self.log_n;
        let bytes = |plan: &LinearPlan| {
            let limbs = params.rlwe().key_limbs(plan.level()).count() as u64;
            plan.weights() as u64 * limbs * row_bytes
        };
        self.matrices().map(bytes).sum()
    }

    /// The reduction modulo 1.
    #[must_use]
    pub fn eval_mod(&self) -> &EvalModPlan {
        &self.eval_mod
    }

    /// `log2` of the probability that a bootstrapping fails: that a coefficient of `I`
    /// exceeds what the reduction covers, for a main secret of `weight` nonzero coefficients
    /// if there is no ephemeral one.
    #[must_use]
    pub fn log2_failure(&self, weight: u32) -> f64 {
        let h = self.spec.ephemeral_weight.unwrap_or(weight);
        log2_failure(h, self.spec.eval_mod.k, 2 << self.spec.log_slots)
    }

    /// The keys of every stage; the reduction is at level `high`.
    fn keys(&self, high: Level) -> KeyRequest {
        let mut request = self.eval_mod.required_keys(self.log_n);
        if let Some(correction) = &self.correction {
            request |= correction.required_keys(self.log_n);
        }
        for plan in self.matrices() {
            request |= plan.required_keys();
        }
        request = request
            .rotations(self.log_n, self.sub_sum.iter().copied(), self.top)
            .automorphism(GaloisElement::conjugation(self.log_n), high);
        if self.spec.halves(self.log_n) {
            let joined = match self.spec.order {
                Order::SlotsToCoeffsFirst => self.output_level,
                Order::CoeffsToSlotsFirst => Level(self.eval_mod.output_level().0 - 1),
            };
            request = request.rotations(self.log_n, [1 << self.spec.log_slots], joined);
        }
        match self.spec.ephemeral_weight {
            Some(weight) => request.raise(Raise { level: self.top, weight }),
            None => request,
        }
    }

    /// Encodes the matrices where `e` can reach them.
    ///
    /// # Errors
    /// What the evaluator refuses.
    pub fn prepare<E: Ops>(&self, e: &E) -> Result<Bootstrapper<E>> {
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

/// Refreshes ciphertexts: a plan with its matrices, for evaluators like the one that
/// prepared them.
pub struct Bootstrapper<E: Ops> {
    plan: BootstrapPlan,
    to_coeffs: Vec<E::Matrix>,
    to_slots: Vec<E::Matrix>,
    join: Option<E::Matrix>,
}

impl<E: Ops> Bootstrapper<E> {
    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &BootstrapPlan {
        &self.plan
    }

    /// Refreshes `a`, from any level at or above the input level to the output level, with
    /// the default scale there. Slots above 1 in magnitude give wrong results.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] for a ciphertext below the input level;
    /// [`Error::ScaleMismatch`] for one at the input level with another scale;
    /// [`Error::SlotMismatch`]; what the evaluator refuses, such as a missing key.
    pub fn run(&self, e: &E, a: &E::Ct) -> Result<E::Ct> {
        Ok(self.run_many(e, core::slice::from_ref(a))?.remove(0))
    }

    /// [`Bootstrapper::run`] of each of `xs`, which share the passes over keys and matrices.
    ///
    /// # Errors
    /// As [`Bootstrapper::run`].
    pub fn run_many(&self, e: &E, xs: &[E::Ct]) -> Result<Vec<E::Ct>> {
        self.run_with(e, xs, |_| {})
    }

    /// As [`Bootstrapper::run_many`], calling `progress` after each stage.
    ///
    /// # Errors
    /// As [`Bootstrapper::run`].
    pub fn run_with(
        &self,
        e: &E,
        xs: &[E::Ct],
        mut progress: impl FnMut(Stage),
    ) -> Result<Vec<E::Ct>> {
        let accepted: Vec<_> = xs.iter().map(|a| self.plan.accept(e, a)).collect::<Result<_>>()?;
        LockStep::new(e).run(&accepted, |many, xs| {
            let slots_first = self.plan.spec.order == Order::SlotsToCoeffsFirst;
            let mut x = xs.clone();
            if slots_first {
                x = self.slots_to_coeffs(many, x)?;
                progress(Stage::SlotsToCoeffs);
            }
            x = self.mod_raise(many, x)?;
            progress(Stage::ModRaise);
            x = self.coeffs_to_slots(many, x)?;
            progress(Stage::CoeffsToSlots);
            x = self.eval_mod(e, many, x)?;
            progress(Stage::EvalMod);
            if !slots_first {
                x = self.slots_to_coeffs(many, x)?;
                progress(Stage::SlotsToCoeffs);
            }
            Ok(x)
        })
    }
}

impl BootstrapPlan {
    /// Brings an input to the input level and scale.
    fn accept<E: Ops>(&self, e: &E, a: &E::Ct) -> Result<E::Ct> {
        let (level, scale) = (e.level(a), e.scale(a));
        let above = Level(self.input_level.0 + 1);
        if level < self.input_level {
            let needed = self.input_level.0;
            return Err(Error::LevelExhausted { op: OP, needed, level });
        }
        let mut a = a.clone();
        if level == self.input_level {
            if scale.matches(self.input_scale) {
                return Ok(a);
            }
            let (left, right) = (scale.log2(), self.input_scale.log2());
            return Err(Error::ScaleMismatch { op: OP, left, right });
        }
        // A product with 1 at the scale that is lacking.
        e.drop_to(&mut a, above)?;
        let lacking = self.input_scale * e.chain().divisor(above) / scale;
        let mut a = e.mul_const(&a, Complex::new(1.0, 0.0), lacking)?;
        e.rescale_assign(&mut a)?;
        e.with_scale(&a, self.input_scale)
    }
}

/// The stages, each on several ciphertexts in lock step.
impl<E: Ops> Bootstrapper<E> {
    fn slots_to_coeffs(&self, e: &LockStep<'_, E>, mut x: Vec<E::Ct>) -> Result<Vec<E::Ct>> {
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
        Ok(x)
    }

    /// `m` to `m + q_0 I`, read as `m / q_0 + I`.
    fn mod_raise(&self, e: &LockStep<'_, E>, x: Vec<E::Ct>) -> Result<Vec<E::Ct>> {
        e.with_scale(&e.mod_raise(&x, self.plan.top)?, self.plan.base)
    }

    /// Coefficients in the slots, as complex numbers or, for few slots, as halves of a vector
    /// whose real part they are.
    fn coeffs_to_slots(&self, e: &LockStep<'_, E>, mut x: Vec<E::Ct>) -> Result<Vec<E::Ct>> {
        let plan = &self.plan;
        for &k in &plan.sub_sum {
            x = e.add(&x, &e.rotate(&x, k)?)?;
        }
        let last = plan.to_slots.len().saturating_sub(1);
        for (i, (factor, matrix)) in plan.to_slots.iter().zip(&self.to_slots).enumerate() {
            if i == last && plan.spec.halves(plan.log_n) {
                x = e.with_log_slots(&x, plan.spec.log_slots + 1)?;
            }
            x = factor.run(e, matrix, &x)?;
        }
        Ok(x)
    }

    /// Real and imaginary parts reduced modulo 1, and complex numbers again unless
    /// SlotsToCoeffs makes them.
    fn eval_mod(&self, e: &E, many: &LockStep<'_, E>, x: Vec<E::Ct>) -> Result<Vec<E::Ct>> {
        let plan = &self.plan;
        let separate = plan.spec.values == Values::Complex && !plan.spec.halves(plan.log_n);
        let (i, one) = (Complex::new(0.0, 1.0), Scale::from_u64(1));
        let conjugate = many.conjugate(&x)?;
        let mut parts = many.add(&x, &conjugate)?;
        let count = parts.len();
        if separate {
            parts.extend(many.mul_const(&many.sub(&x, &conjugate)?, i.conj(), one)?);
        }
        drop((x, conjugate));
        let mut real = plan.eval_mod.run_many(e, &parts)?;
        let imaginary = real.split_off(count);
        if separate {
            real = many.add(&real, &many.mul_const(&imaginary, i, one)?)?;
        }
        // Messages at level 0 may be smaller than the reduction expects.
        let scale = many.scale(&real) / plan.spare;
        let x = many.with_scale(&real, scale)?;
        match plan.join.as_ref().zip(self.join.as_ref()) {
            Some((plan, matrix)) => self.fold_halves(many, &plan.run(many, matrix, &x)?),
            None => Ok(x),
        }
    }

    /// The sum of both halves of the slots, in half as many.
    fn fold_halves(&self, e: &LockStep<'_, E>, x: &Vec<E::Ct>) -> Result<Vec<E::Ct>> {
        let log_slots = self.plan.spec.log_slots;
        let sum = e.add(x, &e.rotate(x, 1 << log_slots)?)?;
        e.with_log_slots(&sum, log_slots)
    }
}
