//! Functions of two numbers through their difference.

use core::ops::Range;

use sudare::{
    Result,
    circuits::ckks::ComplexOps,
    ckks::{Params, Scale},
    rlwe::{KeyRequest, Level},
};

use super::{Fit, Function, FunctionPlan, relu, sign::kinked, step};

/// Compares `a` and `b` in `interval`: `1` for `a > b`, `0` for `a < b`, and one half for equal
/// numbers. If they differ by less than `gap`, the result lies anywhere between.
///
/// # Errors
/// The errors of [`sign`](super::sign())for the interval of differences.
pub fn compare(interval: Range<f64>, gap: f64, fit: Fit) -> Result<PairFunction> {
    let of_difference = Function { name: "compare", ..step(differences(&interval), gap, fit)? };
    Ok(PairFunction { interval, of_difference, adds_second: false })
}

/// Returns the larger of two numbers in `interval`: `b + relu(a - b)`.
///
/// # Errors
/// The errors of [`relu`]for the interval of differences.
pub fn maximum(interval: Range<f64>, fit: Fit) -> Result<PairFunction> {
    let of_difference = Function { name: "maximum", ..relu(differences(&interval), fit)? };
    Ok(PairFunction { interval, of_difference, adds_second: true })
}

/// Returns the smaller of two numbers in `interval`: `b` plus the smaller of `a - b` and 0.
///
/// # Errors
/// The errors of [`relu`]for the interval of differences.
pub fn minimum(interval: Range<f64>, fit: Fit) -> Result<PairFunction> {
    let exact = |x: f64| x.min(0.0);
    let of_difference = kinked("minimum", exact, &differences(&interval), fit, [0.5, -0.5])?;
    Ok(PairFunction { interval, of_difference, adds_second: true })
}

/// Returns the interval of differences of two numbers in `interval`.
fn differences(interval: &Range<f64>) -> Range<f64> {
    let width = interval.end - interval.start;
    -width..width
}

/// A function `f(a - b)` or `b + f(a - b)` of two numbers.
#[derive(Debug, Clone)]
pub struct PairFunction {
    interval: Range<f64>,
    of_difference: Function,
    adds_second: bool,
}

impl PairFunction {
    /// Returns the function of the difference, first minus second number. Its interval, gap, error
    /// and depth apply to the whole.
    #[must_use]
    pub fn of_difference(&self) -> &Function {
        &self.of_difference
    }

    /// Returns the interval in which both numbers must lie.
    #[must_use]
    pub fn interval(&self) -> Range<f64> {
        self.interval.clone()
    }

    /// Returns whether the second number is added to the function of the difference.
    #[must_use]
    pub fn adds_second(&self) -> bool {
        self.adds_second
    }

    /// Returns the value of the exact function.
    #[must_use]
    pub fn exact(&self, a: f64, b: f64) -> f64 {
        self.of_difference.exact(a - b) + if self.adds_second { b } else { 0.0 }
    }

    /// Returns the value of the approximation, in the clear.
    #[must_use]
    pub fn evaluate(&self, a: f64, b: f64) -> f64 {
        self.of_difference.evaluate(a - b) + if self.adds_second { b } else { 0.0 }
    }

    /// Plans the evaluation on two ciphertexts as [`Function::plan`] does.
    ///
    /// # Errors
    /// The errors of [`Function::plan`].
    pub fn plan(&self, params: &Params) -> Result<PairPlan> {
        self.planned(self.of_difference.plan(params)?)
    }

    /// Plans the evaluation on two ciphertexts as [`Function::plan_at`] does.
    ///
    /// # Errors
    /// The errors of [`Function::plan_at`].
    pub fn plan_at(&self, params: &Params, level: Level) -> Result<PairPlan> {
        self.planned(self.of_difference.plan_at(params, level)?)
    }

    fn planned(&self, of_difference: FunctionPlan) -> Result<PairPlan> {
        Ok(PairPlan { of_difference, adds_second: self.adds_second })
    }
}

/// Plan to evaluate a [`PairFunction`] on two ciphertexts of one level and scale.
#[derive(Debug, Clone)]
pub struct PairPlan {
    of_difference: FunctionPlan,
    adds_second: bool,
}

impl PairPlan {
    /// Returns the level at which to encrypt. Ciphertexts of higher levels are lowered to it.
    #[must_use]
    pub fn level(&self) -> Level {
        self.of_difference.level()
    }

    /// Returns the scale at which to encrypt.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.of_difference.scale()
    }

    /// Returns the level of the result.
    #[must_use]
    pub fn output_level(&self) -> Level {
        self.of_difference.output_level()
    }

    /// Returns the scale of the result.
    #[must_use]
    pub fn output_scale(&self) -> Scale {
        self.of_difference.output_scale()
    }

    /// Returns the keys that the evaluation needs, see [`FunctionPlan::required_keys`].
    #[must_use]
    pub fn required_keys(&self) -> &KeyRequest {
        self.of_difference.required_keys()
    }

    /// Evaluates the function at every pair of slots.
    ///
    /// # Errors
    /// The errors of [`FunctionPlan::run`]; [`sudare::Error::ScaleMismatch`] if the scales of `a`
    /// and `b` differ.
    pub fn run<E: ComplexOps>(&self, e: &E, a: &E::Ct, b: &E::Ct) -> Result<E::Ct> {
        let y = self.of_difference.run(e, &e.sub(a, b)?)?;
        if !self.adds_second {
            return Ok(y);
        }
        e.add(&y, &e.match_scale(b, e.level(&y), e.scale(&y))?)
    }
}

#[cfg(test)]
mod tests {
    use sudare::{
        circuits::ckks::sim,
        ckks::{Complex, Spec},
    };

    use super::*;

    #[test]
    fn pairs_are_compared_and_chosen_from() {
        let spec = Spec::uniform(10, 50.0, 14, 40.0, vec![50.0; 4]);
        let params = Params::new(Spec { insecure: true, ..spec }).unwrap();
        let values = [-1.0, -0.62, -0.1, 0.0, 0.33, 0.8, 1.0];
        let pairs: Vec<(f64, f64)> = values.iter().flat_map(|&a| values.map(|b| (a, b))).collect();
        let interval = || -1.0..1.0;
        for (f, exact) in [
            (compare(interval(), 0.1, Fit::PrecisionBits(12.0)).unwrap(), None),
            (
                maximum(interval(), Fit::PrecisionBits(8.0)).unwrap(),
                Some(f64::max as fn(f64, f64) -> f64),
            ),
            (minimum(interval(), Fit::PrecisionBits(7.0)).unwrap(), Some(f64::min)),
        ] {
            let top = params.top();
            for plan in [f.plan(&params).unwrap(), f.plan_at(&params, top).unwrap()] {
                let e = sim::Evaluator::new(params.log_n(), params.chain().clone());
                let encrypt = |values: Vec<f64>| {
                    let slots: Vec<_> = values.iter().map(|&x| Complex::new(x, 0.0)).collect();
                    e.encrypt(&slots, plan.level(), plan.scale()).unwrap()
                };
                let a = encrypt(pairs.iter().map(|p| p.0).collect());
                let b = encrypt(pairs.iter().map(|p| p.1).collect());
                let y = plan.run(&e, &a, &b).unwrap();
                assert_eq!(y.level, plan.output_level());
                assert_eq!(&e.used_keys(), plan.required_keys());
                for (&(a, b), y) in pairs.iter().zip(&y.slots) {
                    let exact = match exact {
                        Some(exact) => exact(a, b),
                        None if a == b => 0.5,
                        None => f64::from(a > b),
                    };
                    assert!((f.exact(a, b) - exact).abs() < 1e-15);
                    assert!((f.evaluate(a, b) - y.re).abs() < 1e-10);
                    let error = (y.re - exact).abs();
                    let most = f.of_difference().max_error() * 1.001 + 1e-10;
                    assert!(error <= most, "{} of {a}, {b}: {error:e}", f.of_difference().name());
                }
            }
        }
    }
}
