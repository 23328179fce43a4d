//! Functions on ciphertexts of one level and scale.

use core::ops::Range;

use sudare::{
    Error, Result,
    circuits::{
        LockStep,
        ckks::{ComplexOps, PolynomialPlan, sim},
    },
    ckks::{Complex, Params, Scale},
    rlwe::{KeyRequest, Level, Scale as _},
};

use super::{Finish, Function, Noise, SAMPLES, inverse::ProductForm};
use sudare_arith::real;

/// Maximum bits of scale that a result may lack. If it lacks more, it ends at a higher level.
const MAX_LOST_BITS: f64 = 2.0;

impl Function {
    /// Fixes level and scale for a ciphertext of `params` that is encrypted for this function
    /// alone.
    ///
    /// It starts one level above the depth, or at the depth if the chain is no longer, so no unused
    /// primes are carried. It ends at level 0 with the largest scale, up to the default, at which
    /// level 0 holds the values. If this scale is over two bits below the default and the chain has
    /// levels to spare, the evaluation ends at a higher level.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] if the chain has too few levels; the errors of
    /// [`Polynomial::plan`](sudare::circuits::ckks::Polynomial::plan).
    pub fn plan(&self, params: &Params) -> Result<FunctionPlan> {
        let depth = self.depth();
        let chain = params.chain();
        let spare = self.spare_levels(params.top())?;
        // One level is kept for the rescaling of fresh ciphertexts.
        let highest = spare.saturating_sub(1);
        // Evaluators need room for 1 in any case.
        let bound = self.points(0.0, SAMPLES).map(|x| self.evaluate(x).abs()).fold(1.0, f64::max);
        // One bit for the sign, and a few hundredths for values between the sampled points.
        let room_bits = |level| chain.log2_q(Level(level)) - 1.03 - real::log2(bound);
        let lost_bits = |level: &u32| params.scale_at(Level(*level)).log2() - room_bits(*level);
        let base = (0..highest).find(|level| lost_bits(level) <= MAX_LOST_BITS).unwrap_or(highest);
        let lost_bits = lost_bits(&base).max(0.0);
        let out = params.scale_at(Level(base)) * Scale::from_log2(-lost_bits);
        let start = Level(base + depth);
        // Either the variable on [-1, 1] has the default scale of its level, or the scale from
        // which the product form ends at `out`.
        let Range { start: a, end: b } = self.stages[0].interval();
        let scale = match &self.product {
            Some(form) => form.input_scale(chain, start, out),
            None => params.scale_at(start) / Scale::from_f64(b / 2.0 - a / 2.0),
        };
        let steps = self.steps(params, start, scale, false, |_| out)?;
        let entry = match spare {
            0 => Entry { level: start, scale, rescales: false },
            _ => {
                // Rescaling first removes most of the noise of encryption.
                let level = Level(start.0 + 1);
                Entry { level, scale: scale * chain.divisor(level), rescales: true }
            }
        };
        self.checked(params, entry, scale, steps)
    }

    /// Plans the evaluation on ciphertexts of `level` with the default scale there
    /// ([`Params::scale_at`]). The result has the default scale of its level.
    ///
    /// Imaginary parts of the slots must be no larger than in fresh encryptions. For computed
    /// ciphertexts, take real parts first ([`ComplexOps::twice_real_part`]). If even the imaginary
    /// parts of fresh encryptions would disturb the first polynomial, the plan takes real parts
    /// first. For an interval of half-width near 1, this costs one level.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] if `level` is below the depth, or equal to the depth for an
    /// interval that needs a level to be scaled to `[-1, 1]`; the errors of
    /// [`Polynomial::plan`](sudare::circuits::ckks::Polynomial::plan).
    pub fn plan_at(&self, params: &Params, level: Level) -> Result<FunctionPlan> {
        params.chain().levels().check(level)?;
        self.spare_levels(level)?;
        let scale = params.scale_at(level);
        let entry = Entry { level, scale, rescales: false };
        let fresh = Noise::fresh(params.log_n(), scale);
        let real = self.needs_real_argument(0, fresh.argument);
        let steps = match &self.product {
            Some(form) => self.product_steps(form, params, level, real)?,
            None => self.steps(params, level, scale, real, |end| params.scale_at(end))?,
        };
        self.checked(params, entry, scale, steps)
    }

    /// Returns [`Self::steps`] in product form where that saves a level. The product form works at
    /// one scale only, and the polynomial has the same value.
    fn product_steps(
        &self,
        form: &ProductForm,
        params: &Params,
        level: Level,
        real: bool,
    ) -> Result<Vec<Step>> {
        let chain = params.chain();
        let mut steps = if real { vec![Step::RealPart] } else { Vec::new() };
        let scale = params.scale_at(level) * twice(real);
        let plan = self.stages[0].plan_to(chain, level, scale, |end| Ok(params.scale_at(end)));
        if let Ok(plan) = plan
            && plan.depth() <= form.depth()
        {
            steps.push(Step::Polynomial(Box::new(plan)));
            return Ok(steps);
        }
        // Matching the scale takes a level.
        let needed = form.depth() + 1;
        let end = level.0.checked_sub(needed).ok_or_else(|| self.exhausted(needed, level))?;
        let start = Level(level.0 - 1);
        let out = params.scale_at(Level(end));
        let scale = form.input_scale(chain, start, out);
        steps.extend([Step::MatchScale(start, scale), Step::Product(form.clone(), out)]);
        Ok(steps)
    }

    /// Returns the levels of a ciphertext beyond the depth.
    fn spare_levels(&self, level: Level) -> Result<u32> {
        let needed = self.depth();
        level.0.checked_sub(needed).ok_or_else(|| self.exhausted(needed, level))
    }

    fn exhausted(&self, needed: u32, level: Level) -> Error {
        Error::LevelExhausted { op: self.name, needed, level }
    }

    /// Returns the steps for an argument at `level` and `scale`, after real parts are taken if
    /// necessary. Results have the scale `out`.
    fn steps(
        &self,
        params: &Params,
        level: Level,
        scale: Scale,
        real: bool,
        out: impl Fn(Level) -> Scale,
    ) -> Result<Vec<Step>> {
        if let Some(form) = &self.product {
            let end = Level(level.0 - form.depth());
            return Ok(vec![Step::Product(form.clone(), out(end))]);
        }
        let chain = params.chain();
        let mut steps = if real { vec![Step::RealPart] } else { Vec::new() };
        let mut at = level;
        let mut read = scale * twice(real);
        for (index, stage) in self.stages.iter().enumerate() {
            let last = index + 1 == self.stages.len();
            let plan = stage.plan_to(chain, at, read, |end| {
                Ok(match (last, self.finish) {
                    // Real parts are read at twice the scale.
                    (false, _) => params.scale_at(end) / twice(true),
                    (true, Finish::Value) => out(end),
                    (true, Finish::TimesArgument) => {
                        let exhausted = || self.exhausted(level.0 - end.0 + 1, level);
                        let below = end.0.checked_sub(1).ok_or_else(exhausted)?;
                        // Times the argument, and rescaled, this ends at `out`.
                        out(Level(below)) * chain.divisor(end) / scale
                    }
                })
            })?;
            at = plan.output_level();
            read = plan.output_scale() * twice(!last);
            steps.push(Step::Polynomial(Box::new(plan)));
            if !last {
                // Imaginary parts of noise grow from stage to stage, and the next polynomial
                // amplifies them.
                steps.push(Step::RealPart);
            }
        }
        if self.finish == Finish::TimesArgument {
            steps.push(Step::TimesArgument);
        }
        Ok(steps)
    }

    /// Runs the plan once in the clear. This rejects every error that a run would have, and
    /// functions that noise makes wrong.
    fn checked(
        &self,
        params: &Params,
        entry: Entry,
        scale: Scale,
        steps: Vec<Step>,
    ) -> Result<FunctionPlan> {
        let Noise { argument, .. } = Noise::fresh(params.log_n(), entry.scale);
        let Noise { between, .. } = Noise::fresh(params.log_n(), params.scale_at(entry.level));
        self.for_noise(Noise { argument: argument + between, between })?;
        let output = (entry.level, scale);
        let request = KeyRequest::new();
        let products = 0;
        let plan = FunctionPlan { name: self.name, entry, scale, steps, output, request, products };
        let e = sim::Evaluator::new(params.log_n(), params.chain().clone());
        let ends = [self.interval.0, self.interval.1].map(|x| Complex::new(x, 0.0));
        let y = plan.run(&e, &e.encrypt(&ends, plan.entry.level, plan.entry.scale)?)?;
        let products = e.counts().products as usize;
        Ok(FunctionPlan { output: (y.level, y.scale), request: e.used_keys(), products, ..plan })
    }
}

/// Plan to evaluate a [`Function`] on ciphertexts of one level and scale.
#[derive(Debug, Clone)]
pub struct FunctionPlan {
    name: &'static str,
    entry: Entry,
    /// Scale of the argument after its entry.
    scale: Scale,
    steps: Vec<Step>,
    output: (Level, Scale),
    request: KeyRequest,
    products: usize,
}

/// Preparation of ciphertexts before the first step.
#[derive(Debug, Clone, Copy)]
struct Entry {
    level: Level,
    scale: Scale,
    /// True if they are rescaled first.
    rescales: bool,
}

#[derive(Debug, Clone)]
enum Step {
    Polynomial(Box<PolynomialPlan>),
    /// Takes real parts, at twice the scale.
    RealPart,
    /// Lowers the ciphertext to this level and scale.
    MatchScale(Level, Scale),
    /// Evaluates the product form. The result is read at this scale exactly, up to rounding.
    Product(ProductForm, Scale),
    /// Multiplies by the prepared argument and rescales.
    TimesArgument,
}

/// Returns the factor of the scale that [`real_part`] causes, or 1 without real parts.
pub(crate) fn twice(real: bool) -> Scale {
    Scale::from_u64(if real { 2 } else { 1 })
}

/// Returns the real part of every slot, at twice the scale and without a level.
pub(crate) fn real_part<E: ComplexOps>(e: &E, x: &E::Ct) -> Result<E::Ct> {
    let sum = e.twice_real_part(x)?;
    e.with_scale(&sum, e.scale(&sum) * twice(true))
}

impl FunctionPlan {
    /// Returns the level at which to encrypt. Ciphertexts of higher levels are lowered to it.
    #[must_use]
    pub fn level(&self) -> Level {
        self.entry.level
    }

    /// Returns the scale at which to encrypt.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.entry.scale
    }

    /// Returns the level of the result.
    #[must_use]
    pub fn output_level(&self) -> Level {
        self.output.0
    }

    /// Returns the scale of the result.
    #[must_use]
    pub fn output_scale(&self) -> Scale {
        self.output.1
    }

    /// Returns the keys that the evaluation needs: the relinearisation key, and the conjugation key
    /// if real parts are taken.
    #[must_use]
    pub fn required_keys(&self) -> &KeyRequest {
        &self.request
    }

    /// Returns the number of products of two ciphertexts.
    #[must_use]
    pub fn products(&self) -> usize {
        self.products
    }

    /// Evaluates the function at every slot of `x`. A ciphertext of a higher level is lowered
    /// first.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] if `x` is below the planned level, [`Error::ScaleMismatch`] if it
    /// has another scale than planned, and errors of the evaluator.
    pub fn run<E: ComplexOps>(&self, e: &E, x: &E::Ct) -> Result<E::Ct> {
        let Entry { level, scale, rescales } = self.entry;
        if e.level(x) < level {
            return Err(Error::LevelOutOfRange { found: level, max: e.level(x) });
        }
        e.scale(x).check_matches(scale, self.name)?;
        let mut x = x.clone();
        e.drop_to(&mut x, level)?;
        if rescales {
            e.rescale_assign(&mut x)?;
        }
        let x = e.with_scale(&x, self.scale)?;
        self.steps.iter().try_fold(x.clone(), |y, step| match step {
            Step::Polynomial(plan) => plan.run(e, &y),
            Step::RealPart => real_part(e, &y),
            Step::MatchScale(level, scale) => e.match_scale(&y, *level, *scale),
            Step::Product(form, out) => e.with_scale(&form.run(e, &y)?, *out),
            Step::TimesArgument => e.mul_rescale(&x, &y),
        })
    }

    /// Runs [`FunctionPlan::run`] on each of `xs` in lock step, see [`LockStep`].
    ///
    /// # Errors
    /// The errors of [`FunctionPlan::run`], and [`Error::ScaleMismatch`] if the scales of `xs`
    /// differ.
    pub fn run_many<E: ComplexOps>(&self, e: &E, xs: &[E::Ct]) -> Result<Vec<E::Ct>> {
        LockStep::new(e).run(xs, |e, x| self.run(e, x))
    }
}
