//! Levels and scales of the stages, planned before the stages themselves.

use super::{BootstrapSpec, OP, Order, Refinement, Values, correction::Correction};
use crate::{
    Error, Result,
    circuits::{
        Trace, TracePlan,
        ckks::{EvalModPlan, LinearPlan, LinearTransform, dft},
    },
    ckks::{Chain, Complex, Params, Scale},
    rlwe::{Level, Raise},
};
use sudare_arith::real;

/// The levels where the stages of a [`BootstrapSpec`] meet in a chain.
pub(super) struct StageLevels<'a> {
    spec: &'a BootstrapSpec,
    params: &'a Params,
    top: Level,
    /// `q_0`, the scale of the raised plaintext.
    pub base: Scale,
    pub input_level: Level,
    pub input_scale: Scale,
    pub refinement: Option<Rounds>,
    /// Scale of messages when they are raised, and of the reduction's result.
    message_scale: Scale,
    /// Factor of the reduction's result over the message.
    pub spare: Scale,
    /// Level of the reduction.
    pub high: Level,
    /// Level of the reduction's result.
    pub reduced: Level,
    pub output_level: Level,
}

/// A [`Refinement`] in a chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rounds {
    pub count: u32,
    /// Factor of the differences that each round bootstraps.
    pub gain: f64,
    /// Level of the input of a single bootstrapping.
    pub level: Level,
    /// Scale of the input of a single bootstrapping: the input scale times an integer, divided by
    /// the primes of the input level.
    pub scale: Scale,
}

impl<'a> StageLevels<'a> {
    pub(super) fn new(spec: &'a BootstrapSpec, params: &'a Params, top: Level) -> Result<Self> {
        params.rlwe().check_level(top)?;
        check_parts(spec, params.log_n())?;
        let base = params.rlwe().primes_of(Level(0)).iter();
        let base = base.fold(Scale::from_u64(1), |q, &prime| q * Scale::from_u64(prime));
        // The largest messages that the reduction supports.
        let largest = base / Scale::from_log2(spec.eval_mod.log2_ratio);

        let [to_slots, to_coeffs] =
            [&spec.coeffs_to_slots, &spec.slots_to_coeffs].map(|layers| layers.len().max(1));
        let (low, last) = match spec.order {
            Order::SlotsToCoeffsFirst => (
                to_coeffs + 2 * usize::from(spec.correction),
                usize::from(spec.halves(params.log_n())),
            ),
            Order::CoeffsToSlotsFirst => (0, to_coeffs),
        };
        let single = Level(low as u32);
        let input_level = Level(single.0 + u32::from(spec.refinement.is_some()));
        below(top, input_level.index())?;
        let high = below(top, to_slots)?;
        let reduced = below(high, spec.eval_mod.depth()? as usize)?;
        let output_level = below(reduced, last)?;
        // A result at a lower level could not be bootstrapped again. Differences are computed at
        // the input level, a rescaling above it.
        below(output_level, input_level.index() + usize::from(spec.refinement.is_some()))?;

        let input_scale = params.scale_at(input_level);
        let rounds = |refinement: Refinement| {
            let divisor = params.chain().divisor(input_level);
            refinement.rounds(single, divisor, input_scale, largest)
        };
        let refinement = spec.refinement.map(rounds).transpose()?;
        let single_scale = refinement.map_or(input_scale, |rounds| rounds.scale);
        let (message_scale, spare) = match spec.order {
            Order::SlotsToCoeffsFirst => (largest, Scale::from_u64(1)),
            Order::CoeffsToSlotsFirst => (single_scale, largest / single_scale),
        };
        // A spare of exactly 1 is allowed, and the quotient of scales is rounded.
        if spare.to_f64() < 1.0 - 1e-6 {
            return Err(Error::Circuit(format!(
                "{OP}: messages at level 0 are 2^{:.2} below q_0, the reduction is for 2^{:.2}: \
                 use a larger prime there, or a smaller ratio",
                (base / message_scale).log2(),
                spec.eval_mod.log2_ratio
            )));
        }
        Ok(Self {
            spec,
            params,
            top,
            base,
            input_level,
            input_scale,
            refinement,
            message_scale,
            spare,
            high,
            reduced,
            output_level,
        })
    }

    /// Rejects a result above the top of the chain.
    pub(super) fn check_output(&self) -> Result<()> {
        let found = self.output_level;
        let most = self.params.top();
        if found <= most {
            return Ok(());
        }
        Err(Error::Circuit(format!(
            "{OP}: raised to level {}, the result has level {found}, whose primes differ from the \
             primes of levels up to {most}: raise by {} less",
            self.top,
            found.0 - most.0
        )))
    }

    /// Returns the number of levels between two bootstrappings.
    pub(super) fn usable_levels(&self) -> u32 {
        self.output_level.0.saturating_sub(self.input_level.0)
    }

    /// Returns level and scale of the input of a single bootstrapping.
    fn single(&self) -> (Level, Scale) {
        match &self.refinement {
            Some(rounds) => (rounds.level, rounds.scale),
            None => (self.input_level, self.input_scale),
        }
    }

    /// Returns the scale of a result of the reduction or the stages after it, which a refinement
    /// multiplies.
    fn result_scale(&self, level: Level) -> Scale {
        let gains =
            self.refinement.map_or(1.0, |rounds| real::powi(rounds.gain, rounds.count as i32));
        self.params.scale_at(level) / Scale::from_f64(gains)
    }

    /// Returns the scale of the input of the reduction.
    fn reduction_scale(&self) -> Scale {
        self.chain().divisor(self.high) / Scale::from_f64(self.spec.eval_mod.bound())
    }

    fn chain(&self) -> &'a Chain {
        self.params.chain()
    }

    fn halves(&self) -> bool {
        self.spec.halves(self.params.log_n())
    }

    /// Returns `log2` of the number of times that the slots fit the ring.
    fn log_gap(&self) -> u32 {
        self.params.log_n() - 1 - self.spec.log_slots
    }

    /// Returns the number of factors of CoeffsToSlots before SubSum, which commutes with all of
    /// them. The first factor comes with raising. SubSum comes before the last one, because it
    /// would sum the rounding errors of that one.
    pub(super) fn before_sub_sum(&self) -> usize {
        usize::from(self.log_gap() == 0 || self.spec.coeffs_to_slots.len() > 1)
    }

    /// Plans SubSum, which projects to the subring of the slots.
    pub(super) fn sub_sum(&self) -> Result<TracePlan> {
        let level = below(self.top, self.before_sub_sum())?;
        let trace = Trace::to_slots(self.params.log_n(), self.spec.log_slots)?;
        trace.fastest(self.params.rlwe(), level)
    }

    pub(super) fn correction(&self) -> Result<Option<Correction>> {
        if !self.spec.correction {
            return Ok(None);
        }
        let (level, scale) = self.single();
        let ratio = self.spec.eval_mod.log2_ratio;
        let real = self.spec.values == Values::Real;
        Correction::plan(self.chain(), level, scale, ratio, real).map(Some)
    }

    /// Plans CoeffsToSlots.
    pub(super) fn to_slots(&self) -> Result<Vec<LinearPlan>> {
        let spec = self.spec;
        let mut matrices = self.matrices(&spec.coeffs_to_slots, dft::coeffs_to_slots)?;
        if let Some(first) = matrices.first_mut() {
            // Half of the sum with the conjugate, divided by the number of terms of SubSum.
            let part = 0.5 * real::exp2(-f64::from(self.log_gap()));
            *first = first.clone().scaled(Complex::new(part, 0.0));
        }
        if self.halves()
            && let Some(last) = matrices.last_mut()
        {
            *last = last.to_halves();
        }
        let first = self.before_sub_sum() > 0;
        let raised = spec.ephemeral_weight.filter(|_| first);
        if raised.is_some() {
            // Any rotation costs the same in the first matrix.
            start_at_the_identity(&mut matrices);
        }
        // SubSum adds the rounding errors of the first matrix in each of its terms.
        let room_bits = if first { f64::from(self.log_gap()) / 2.0 } else { 0.0 };
        let out = self.reduction_scale();
        self.plan_all(&matrices, (self.top, self.base), raised, room_bits, |_| out)
    }

    pub(super) fn eval_mod(&self) -> Result<EvalModPlan> {
        let out = self.result_scale(self.reduced) * self.spare;
        self.spec.eval_mod.plan(self.chain(), self.high, self.reduction_scale(), out)
    }

    /// Plans the matrix from real and imaginary halves to complex slots, unless SlotsToCoeffs
    /// includes it.
    pub(super) fn join(&self) -> Result<Option<LinearPlan>> {
        if !self.halves() || self.spec.order == Order::CoeffsToSlotsFirst {
            return Ok(None);
        }
        let from = self.result_scale(self.reduced);
        let to = self.result_scale(self.output_level);
        let matrix = LinearTransform::identity(self.spec.log_slots).of_halves();
        matrix.plan(self.params.log_n(), self.chain(), self.reduced, from, to).map(Some)
    }

    /// Plans SlotsToCoeffs.
    pub(super) fn to_coeffs(&self, correction: Option<&Correction>) -> Result<Vec<LinearPlan>> {
        let spec = self.spec;
        let mut matrices = self.matrices(&spec.slots_to_coeffs, dft::slots_to_coeffs)?;
        if spec.order == Order::SlotsToCoeffsFirst {
            let from = correction.map_or(self.single(), |correction| {
                (correction.output_level(), correction.output_scale())
            });
            return self.plan_all(&matrices, from, None, 0.0, |_| self.message_scale);
        }
        if let Some(first) = matrices.first_mut() {
            if self.halves() {
                *first = first.of_halves();
            }
            if spec.mirrors() {
                *first = first.after(&halved_constant(spec.log_slots)?);
            }
        }
        let from = (self.reduced, self.result_scale(self.reduced));
        self.plan_all(&matrices, from, None, 0.0, |level| self.result_scale(level))
    }

    /// Returns the factors of a map, at least one, because scales change there.
    fn matrices(
        &self,
        layers: &[u32],
        map: fn(u32, &[u32]) -> Result<Vec<LinearTransform>>,
    ) -> Result<Vec<LinearTransform>> {
        let mut factors = map(self.spec.log_slots, layers)?;
        if factors.is_empty() {
            factors.push(LinearTransform::identity(self.spec.log_slots));
        }
        Ok(factors)
    }

    /// Plans consecutive matrices from `level` and `scale` on. `out` returns the scale of the last
    /// result by its level. The scales in between change evenly, except for `room_bits` more in the
    /// first.
    fn plan_all(
        &self,
        matrices: &[LinearTransform],
        (level, scale): (Level, Scale),
        raised: Option<u32>,
        room_bits: f64,
        out: impl Fn(Level) -> Scale,
    ) -> Result<Vec<LinearPlan>> {
        let log_n = self.params.log_n();
        let chain = self.chain();
        // Each matrix uses a level, so the scale is that of the level below all of them.
        let out = out(below(level, matrices.len())?);
        let step = (out / scale).log2() / matrices.len().max(1) as f64;
        let mut from = scale;
        let mut plans = Vec::with_capacity(matrices.len());
        for (i, matrix) in matrices.iter().enumerate() {
            let last = i + 1 == matrices.len();
            let even = scale * Scale::from_log2(step * (i + 1) as f64);
            let to = match i {
                _ if last => out,
                0 => even * Scale::from_log2(room_bits),
                _ => even,
            };
            let at = Level(level.0 - i as u32);
            plans.push(match raised.filter(|_| i == 0) {
                Some(weight) => {
                    let raise = Raise::to(at).with_weight(weight);
                    matrix.plan_raised(log_n, chain, raise, [from, to])?
                }
                None => matrix.plan(log_n, chain, at, from, to)?,
            });
            from = to;
        }
        Ok(plans)
    }
}

/// Rejects parts that do not fit each other or the ring.
fn check_parts(spec: &BootstrapSpec, log_n: u32) -> Result<()> {
    let problem = if spec.log_slots >= log_n {
        format!("2^{} slots do not fit degree 2^{log_n}", spec.log_slots)
    } else if spec.correction && spec.order == Order::CoeffsToSlotsFirst {
        "the correction of the sine comes before raising, so SlotsToCoeffs must".into()
    } else {
        return Ok(());
    };
    Err(Error::Circuit(format!("{OP}: {problem}")))
}

/// Returns the level `count` levels down.
fn below(level: Level, count: usize) -> Result<Level> {
    let needed = count as u32;
    let left = level.0.checked_sub(needed).map(Level);
    left.ok_or(Error::LevelExhausted { op: OP, needed, level })
}

impl Refinement {
    /// Plans rounds for inputs of `scale`, a level of prime product `divisor` above `level`. Single
    /// bootstrappings there have messages at a scale of at most `largest`.
    fn rounds(self, level: Level, divisor: Scale, scale: Scale, largest: Scale) -> Result<Rounds> {
        let within = |name: &str, found: u32, most: u32| match (1..=most).contains(&found) {
            true => Ok(()),
            false => Err(Error::Circuit(format!(
                "{OP}: {name} {found} of a refinement: choose it from 1 to {most}"
            ))),
        };
        within("rounds", self.rounds, 8)?;
        within("gain_bits", self.gain_bits, 40)?;
        let gain = real::exp2(f64::from(self.gain_bits));
        // Rounded down: the product must stay within `largest`, and the factor is an integer.
        let factor = (largest * divisor / scale).to_f64().floor();
        let total_bits = f64::from(self.rounds * self.gain_bits);
        if !(factor >= 1.0 && real::log2(factor) + total_bits <= divisor.log2() + 1.0) {
            return Err(Error::Circuit(format!(
                "{OP}: a refinement by {total_bits} bits from a scale of 2^{:.2} to one of \
                 2^{:.2} at most, by primes of {:.2} bits: the scales must differ by that much, \
                 and by less than the primes of the input level",
                scale.log2(),
                largest.log2(),
                divisor.log2()
            )));
        }
        let scale = scale * Scale::from_f64(factor) / divisor;
        Ok(Rounds { count: self.rounds, gain, level, scale })
    }
}

/// Moves rotations from each matrix to the one before it, so that the baby steps of all but the
/// first begin with the identity, which needs no key.
fn start_at_the_identity(matrices: &mut [LinearTransform]) {
    for i in (1..matrices.len()).rev() {
        if let [.., before, matrix] = &mut matrices[..=i] {
            let start = matrix.first_step();
            *matrix = matrix.clone().of_rotated(start);
            // It may have half as many rows, and its result then repeats.
            *before = before.rotated(start % (1 << before.log_slots()));
        }
    }
}

/// Returns the matrix that halves the first of `2^log_slots` coefficients.
///
/// Real slots belong to a polynomial with `c_(2n-k) = -c_k`, where `2n` is its length. Its value is
/// therefore twice the real part of the value of its lower half with half of `c_0`.
fn halved_constant(log_slots: u32) -> Result<LinearTransform> {
    let mut factors = vec![Complex::new(1.0, 0.0); 1 << log_slots];
    if let Some(constant) = factors.first_mut() {
        constant.re = 0.5;
    }
    LinearTransform::new(log_slots, [(0, factors)].into())
}
