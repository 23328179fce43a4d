//! Joint bootstrapping of the weights and the momentum of a training.
//!
//! Both are a few numbers in one ciphertext. They repeat after a period of slots, in blocks whose
//! second halves are free. Side by side they fill one period, so one bootstrapping with the slots
//! of a period refreshes both. This also averages errors over all periods.

use crate::logreg::{budget::level_of, layout::Layout};
use sudare::{
    circuits::ckks::{
        ComplexOps, EvalModSpec, LinearTransform, ModMethod,
        bootstrap::{BootstrapPlan, BootstrapSpec, Bootstrapper, Order, Values},
    },
    ckks::{Complex, Params, Scale},
    rlwe::{KeyRequest, Level, Raise},
};
use sudare_arith::real;

/// `-log2` of the error of one slot that proposed primes allow, for weights of 1. The average over
/// periods is smaller.
pub const PRECISION_BITS: f64 = 15.0;

/// Layers of a factor of the maps between slots and coefficients. Fewer levels are worth more
/// diagonals, because there are few slots.
const LAYERS: u32 = 5;

/// `-log2` of the fraction of `q_0` that the largest weight occupies. The error of the sine is up
/// to `(2 pi 2^-8)^2 / 6 = 2^-13.3` of a weight at the bound. It falls with the square of the
/// weight over the bound.
const LOG2_RATIO: f64 = 8.0;

const EVAL_MOD: EvalModSpec = EvalModSpec {
    k: 14,
    log2_ratio: LOG2_RATIO,
    method: ModMethod::Cosine { degree: 28, double_angles: 3 },
    inverse_sine: None,
};

/// Levels of [`EVAL_MOD`]: 5 for the polynomial, 3 for the doublings.
const EVAL_MOD_LEVELS: u32 = 8;

/// Bits of the scale that the reduction loses, in addition to the rounding of a slot: 4 bits for
/// the size of `I`, 5 for the doublings of the angle.
const REDUCTION_LOSS_BITS: f64 = 9.0;

/// Bootstrapping of weights.
#[derive(Debug, Clone)]
pub(in crate::logreg) struct Refresh {
    plan: BootstrapPlan,
    /// `log2` of the slots of a period.
    log_slots: u32,
    /// Slots of half a block.
    half: usize,
    /// Divisor of the weights.
    largest: Scale,
    /// Scale of refreshed weights.
    scale: Scale,
}

fn spec(layout: &Layout) -> BootstrapSpec {
    let factor = BootstrapSpec {
        log_slots: LAYERS,
        order: Order::SlotsToCoeffsFirst,
        values: Values::Real,
        ephemeral_weight: Some(Raise::DEFAULT_WEIGHT),
        coeffs_to_slots: vec![LAYERS],
        slots_to_coeffs: vec![LAYERS],
        eval_mod: EVAL_MOD,
        correction: false,
        refinement: None,
    };
    factor.with_log_slots(layout.period().ilog2())
}

/// Sizes of primes, and the default scale, for bootstrapping around the levels of a segment.
pub(in crate::logreg) struct Sizes {
    /// From level 0 to the lowest level from which weights can be refreshed.
    pub low: Vec<Vec<f64>>,
    /// Above the levels of a segment.
    pub high: Vec<Vec<f64>>,
    /// `log2` of the scale of the refreshed period.
    pub log2_scale: f64,
}

impl Sizes {
    /// Chooses sizes for weights of this scale, of at most `largest`, in the ring of dimension
    /// `2^log_n`. `rounding` is `log2` of the error that rescaling adds to a slot.
    pub fn new(layout: &Layout, log_n: u32, rounding: f64, weights: f64, largest: f64) -> Self {
        let factors = layout.period().ilog2().div_ceil(LAYERS) as usize;
        let log2_scale = weights + real::log2(largest);
        let needed = PRECISION_BITS + real::log2(largest);
        // In coefficients, rounding is smaller than in slots by the square root of the dimension.
        let message = needed + rounding - f64::from(log_n) / 2.0 + 4.0;
        // The error of encoding in a slot is the square root of the dimension.
        let matrix = needed + f64::from(log_n) / 2.0 + 2.0;
        let drop = (log2_scale - message) / factors as f64;
        let mut low = vec![level_of(message + LOG2_RATIO)];
        low.extend(vec![level_of(matrix + drop); factors]);
        low.push(level_of(matrix));
        let high = level_of(rounding + REDUCTION_LOSS_BITS + LOG2_RATIO + needed);
        Self { low, high: vec![high; factors + EVAL_MOD_LEVELS as usize], log2_scale }
    }
}

/// Estimates the key switches of a bootstrapping: in the projection, in baby and giant steps, and
/// in the reduction.
pub(in crate::logreg) fn key_switches(layout: &Layout, log_n: u32) -> u32 {
    let log_slots = layout.period().ilog2();
    log_n.saturating_sub(1 + log_slots) + 12 * log_slots.div_ceil(LAYERS) + 14
}

impl Refresh {
    /// Plans bootstrapping that raises to level `top`, for weights of at most `largest`.
    pub fn plan(
        params: &Params,
        top: Level,
        layout: &Layout,
        largest: f64,
    ) -> sudare::Result<Self> {
        let spec = spec(layout);
        let log_slots = spec.log_slots;
        let half = layout.width;
        let plan = spec.plan(params, top)?;
        let largest = Scale::from_f64(largest);
        let scale = params.scale_at(plan.output_level()) / largest;
        Ok(Self { plan, log_slots, half, largest, scale })
    }

    /// Returns the weight of the ephemeral secret.
    pub fn ephemeral_weight(&self) -> u32 {
        Raise::DEFAULT_WEIGHT
    }

    /// Returns the keys that bootstrapping needs.
    pub fn required_keys(&self) -> &KeyRequest {
        self.plan.required_keys()
    }

    /// Returns the level of refreshed weights.
    pub fn output_level(&self) -> Level {
        self.plan.output_level()
    }

    /// Returns the scale of refreshed weights.
    pub fn output_scale(&self) -> Scale {
        self.scale
    }

    /// Returns the levels between refreshed weights and the lowest level that can be refreshed
    /// again.
    pub fn usable_levels(&self) -> u32 {
        // The masks before bootstrapping take one level.
        self.plan.usable_levels().saturating_sub(1)
    }

    /// Encodes the matrices for `e`.
    pub fn prepare<E: ComplexOps>(&self, e: &E) -> sudare::Result<Bootstrapper<E>> {
        self.plan.prepare(e)
    }

    /// Returns the refreshed weights and momentum, using the matrices from [`Refresh::prepare`].
    /// The second halves of blocks then contain meaningless values.
    pub fn run<E: ComplexOps>(
        &self,
        e: &E,
        bootstrapper: &Bootstrapper<E>,
        [w, v]: [&E::Ct; 2],
    ) -> sudare::Result<[E::Ct; 2]> {
        let half = self.half as i64;
        let log_slots = e.log_slots(v);
        let momentum = self.masked(e, v, false)?;
        let weights = self.masked(e, &e.rotate(w, -half)?, true)?;
        let period = e.add(&momentum, &weights)?;
        let refreshed = bootstrapper.run(e, &period)?;
        let v = e.with_log_slots(&e.with_scale(&refreshed, self.scale)?, log_slots)?;
        Ok([e.rotate(&v, half)?, v])
    }

    /// Returns the first or the second halves of blocks, as fractions of the largest weight, at the
    /// input level and scale of bootstrapping.
    fn masked<E: ComplexOps>(&self, e: &E, a: &E::Ct, second: bool) -> sudare::Result<E::Ct> {
        let level = Level(self.plan.input_level().0 + 1);
        let mut a = e.with_log_slots(a, self.log_slots)?;
        a = e.with_scale(&a, e.scale(&a) * self.largest)?;
        let entry = |slot| if (slot / self.half) % 2 == usize::from(second) { 1.0 } else { 0.0 };
        let mask = (0..1usize << self.log_slots).map(|slot| Complex::new(entry(slot), 0.0));
        let mask = LinearTransform::new(self.log_slots, [(0, mask.collect())].into())?;
        let from = e.scale(&a);
        let to = self.plan.input_scale();
        let mask = e.prepare(&mask.plan(e.log_n(), e.chain(), level, from, to)?)?;
        let masked = e.transform(&a, &mask)?;
        e.with_scale(&masked, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reduction_has_its_levels() {
        assert_eq!(EVAL_MOD.depth().unwrap(), EVAL_MOD_LEVELS);
    }
}
