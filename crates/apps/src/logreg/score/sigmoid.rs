//! Sigmoids of scores.

use crate::{
    Result,
    functions::{self, Fit, FunctionPlan},
    logreg::{layout::Layout, score::job::Probability},
};
use sudare::{
    circuits::ckks::ComplexOps,
    ckks::{Complex, Params},
    rlwe::Level,
};

/// The polynomial in place of the sigmoid.
#[derive(Debug, Clone)]
pub(super) struct Sigmoid {
    pub(super) range: f64,
    pub(super) plan: FunctionPlan,
    /// Largest error of the polynomial and of its evaluation.
    pub(super) largest_error: f64,
}

impl Probability {
    /// Returns the function that replaces the sigmoid.
    pub(super) fn sigmoid(&self) -> sudare::Result<functions::Function> {
        let &Self { range, bits } = self;
        if !(1..=Self::MAX_BITS).contains(&bits) {
            let problem =
                format!("probabilities to {bits} bits: 1 to {} are possible", Self::MAX_BITS);
            return Err(sudare::Error::Circuit(problem));
        }
        if range > Self::MAX_RANGE {
            let problem = format!(
                "probabilities of scores up to {range}: at most {} are possible",
                Self::MAX_RANGE
            );
            return Err(sudare::Error::Circuit(problem));
        }
        functions::sigmoid(-range..range, Fit::PrecisionBits(f64::from(bits)))
    }
}

impl Sigmoid {
    /// Plans the polynomial at the lowest possible level.
    pub(super) fn new(probability: &Probability, params: &Params) -> Result<Self> {
        let function = probability.sigmoid()?;
        let first = function.depth().min(params.top().0);
        let mut plan = function.plan_at(params, Level(first));
        for level in (first + 1..=params.top().0).map(Level) {
            if plan.is_ok() {
                break;
            }
            plan = function.plan_at(params, level);
        }
        Ok(Self { range: probability.range, plan: plan?, largest_error: function.max_error() })
    }

    /// Evaluates the polynomial of scores. Other slots are cleared first, unless they are zero.
    /// They hold sums over parts of rows, for which the polynomial may be too large.
    pub(super) fn run<E: ComplexOps>(
        &self,
        e: &E,
        layout: &Layout,
        scores: &E::Ct,
    ) -> Result<E::Ct> {
        if layout.width == 1 {
            return Ok(self.plan.run(e, scores)?);
        }
        let level = Level(self.plan.level().0 + 1);
        let slots = (0..1usize << e.log_slots(scores)).map(|slot| slot % layout.block() == 0);
        let mask: Vec<f64> = slots.map(|is_score| f64::from(u8::from(is_score))).collect();
        let mut masked = scores.clone();
        e.drop_to(&mut masked, level)?;
        // The scale of the mask takes scores to the scale of the plan.
        let factor = self.plan.scale() * e.chain().divisor(level) / e.scale(scores);
        masked = e.mul_plain(&masked, &real(&mask), factor)?;
        e.rescale_assign(&mut masked)?;
        Ok(self.plan.run(e, &e.with_scale(&masked, self.plan.scale())?)?)
    }
}

/// Returns real slots as complex numbers.
pub(super) fn real(slots: &[f64]) -> Vec<Complex<f64>> {
    slots.iter().map(|&x| Complex::new(x, 0.0)).collect()
}
