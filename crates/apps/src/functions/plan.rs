//! Functions on ciphertexts of one level and scale.

use core::ops::Range;

use sudare::{
    Error, Result,
    circuits::{ComplexOps, LockStep, PolynomialPlan, sim},
    ckks::{Complex, Params, Scale},
    rlwe::{KeyRequest, Level},
};

use super::{Finish, Function, Noise, SAMPLES, inverse::ProductForm};
use sudare_arith::real;

/// Bits of scale that a result may lack before it is left at a higher level.
const MAX_LOST_BITS: f64 = 2.0;

impl Function {
    /// Fixes level and scale for a ciphertext of `params` that is encrypted for this
    /// function alone: it starts one level above the depth, or at the depth if the chain
    /// is no longer, so that no prime is carried that is not needed, and ends at level 0
    /// with the largest scale, up to the default, at which that holds the values. If this
    /// is over two bits below the default and the chain has levels to spare, it ends above.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] if the chain has too few levels, and what
    /// [`Polynomial::plan`](sudare::circuits::Polynomial::plan) refuses.
    pub fn plan(&self, params: &Params) -> Result<FunctionPlan> {
        let (depth, chain) = (self.depth(), params.chain());
        let spare = self.spare_levels(params.top())?;
        let highest = spare.saturating_sub(1);
        // Evaluators want room for 1 in any case.
        let bound = self.points(0.0, SAMPLES).map(|x| self.evaluate(x).abs()).fold(1.0, f64::max);
        // Sign, and a few hundredths of a bit for what lies between the points.
        let room_bits = |level| chain.log2_q(Level(level)) - 1.03 - real::log2(bound);
        let lost_bits = |level: &u32| params.scale_at(Level(*level)).log2() - room_bits(*level);
        let base = (0..highest).find(|level| lost_bits(level) <= MAX_LOST_BITS).unwrap_or(highest);
        let lost_bits = lost_bits(&base).max(0.0);
        let out = params.scale_at(Level(base)) * Scale::from_log2(-lost_bits);
        let start = Level(base + depth);
        // The variable on [-1, 1] has the default scale of its level, or what ends at `out`.
        let Range { start: a, end: b } = self.stages[0].interval();
        let scale = match &self.product {
            Some(form) => form.input_scale(chain, start, out),
            None => params.scale_at(start) / Scale::from_f64(b / 2.0 - a / 2.0),
        };
        let steps = self.steps(params, (start, scale), false, |_| out)?;
        let entry = match spare {
            0 => Entry { level: start, scale, rescales: false },
            _ => {
                let level = Level(start.0 + 1);
                Entry { level, scale: scale * chain.divisor(level), rescales: true }
            }
        };
        self.checked(params, entry, scale, steps)
    }

    /// Fixes how to evaluate it on ciphertexts of `level` that have the default scale
    /// there ([`Params::scale_at`]), with a result of the default scale of its level.
    ///
    /// Imaginary parts of their slots must be no larger than fresh encryptions have them: of
    /// ciphertexts that were computed, take real parts before
    /// ([`ComplexOps::twice_real_part`]). Where even those would disturb the first polynomial, the
    /// plan takes real parts first, with an interval of half-width near 1 at one level more.
    ///
    /// # Errors
    /// [`Error::LevelExhausted`] if `level` is below the depth, or at it if the interval
    /// takes a level to be brought to `[-1, 1]`; what
    /// [`Polynomial::plan`](sudare::circuits::Polynomial::plan) refuses.
    pub fn plan_at(&self, params: &Params, level: Level) -> Result<FunctionPlan> {
        params.chain().levels().check(level)?;
        self.spare_levels(level)?;
        let scale = params.scale_at(level);
        let entry = Entry { level, scale, rescales: false };
        let fresh = Noise::fresh(params.log_n(), scale);
        let real = self.needs_real_argument(0, fresh.argument);
        let steps = match &self.product {
            Some(form) => self.product_steps(form, params, level, real)?,
            None => self.steps(params, (level, scale), real, |end| params.scale_at(end))?,
        };
        self.checked(params, entry, scale, steps)
    }

    /// As [`Self::steps`] of the product form, which takes one scale only: the polynomial
    /// has the same value and is taken where that saves a level.
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
        let needed = form.depth() + 1;
        let end = level.0.checked_sub(needed).ok_or_else(|| self.exhausted(needed, level))?;
        let start = Level(level.0 - 1);
        let out = params.scale_at(Level(end));
        let scale = form.input_scale(chain, start, out);
        steps.extend([Step::MatchScale(start, scale), Step::Product(form.clone(), out)]);
        Ok(steps)
    }

    /// Levels of a ciphertext beyond the depth.
    fn spare_levels(&self, level: Level) -> Result<u32> {
        let needed = self.depth();
        level.0.checked_sub(needed).ok_or_else(|| self.exhausted(needed, level))
    }

    fn exhausted(&self, needed: u32, level: Level) -> Error {
        Error::LevelExhausted { op: self.name, needed, level }
    }

    /// What is done to an argument at `level` of `scale`, after its real parts are taken if they
    /// must be; results have the scale `out`.
    fn steps(
        &self,
        params: &Params,
        (level, scale): (Level, Scale),
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
                    (false, _) => params.scale_at(end) / twice(true),
                    (true, Finish::Value) => out(end),
                    (true, Finish::TimesArgument) => {
                        let exhausted = || self.exhausted(level.0 - end.0 + 1, level);
                        let below = end.0.checked_sub(1).ok_or_else(exhausted)?;
                        out(Level(below)) * chain.divisor(end) / scale
                    }
                })
            })?;
            at = plan.output_level();
            read = plan.output_scale() * twice(!last);
            steps.push(Step::Polynomial(Box::new(plan)));
            if !last {
                // The imaginary parts of noise grow from stage to stage, and off the real line
                // the next polynomial runs away.
                steps.push(Step::RealPart);
            }
        }
        if self.finish == Finish::TimesArgument {
            steps.push(Step::TimesArgument);
        }
        Ok(steps)
    }

    /// The plan, run once in the clear: what it would be refused is refused here, and a function
    /// that noise makes wrong.
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
        let (output, request, products) = ((entry.level, scale), KeyRequest::new(), 0);
        let plan = FunctionPlan { name: self.name, entry, scale, steps, output, request, products };
        let e = sim::Evaluator::new(params.log_n(), params.chain().clone());
        let ends = [self.interval.0, self.interval.1].map(|x| Complex::new(x, 0.0));
        let y = plan.run(&e, &e.encrypt(&ends, plan.entry.level, plan.entry.scale)?)?;
        let products = e.counts().products as usize;
        Ok(FunctionPlan { output: (y.level, y.scale), request: e.used_keys(), products, ..plan })
    }
}

/// How to evaluate a [`Function`] on ciphertexts of one level and scale.
#[derive(Debug, Clone)]
pub struct FunctionPlan {
    name: &'static str,
    entry: Entry,
    /// Of the argument once it has entered.
    scale: Scale,
    steps: Vec<Step>,
    output: (Level, Scale),
    request: KeyRequest,
    products: usize,
}

/// How ciphertexts come in.
#[derive(Debug, Clone, Copy)]
struct Entry {
    level: Level,
    scale: Scale,
    /// Whether they are rescaled first.
    rescales: bool,
}

#[derive(Debug, Clone)]
enum Step {
    Polynomial(Box<PolynomialPlan>),
    /// Without imaginary parts, at twice the scale.
    RealPart,
    /// Down to this level and scale.
    MatchScale(Level, Scale),
    /// The scale that it ends at, but for rounding, which is read exactly.
    Product(ProductForm, Scale),
    /// The product with what entered, rescaled.
    TimesArgument,
}

/// The factor of the scale of what [`real_part`] gives, if it is taken.
pub(crate) fn twice(real: bool) -> Scale {
    Scale::from_u64(if real { 2 } else { 1 })
}

/// The real part of every slot, at twice the scale and without a level.
pub(crate) fn real_part<E: ComplexOps>(e: &E, x: &E::Ct) -> Result<E::Ct> {
    let sum = e.twice_real_part(x)?;
    e.with_scale(&sum, e.scale(&sum) * twice(true))
}

impl FunctionPlan {
    /// Level at which to encrypt; ciphertexts of higher levels are dropped to it.
    #[must_use]
    pub fn level(&self) -> Level {
        self.entry.level
    }

    /// Scale at which to encrypt.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.entry.scale
    }

    /// Level of the result.
    #[must_use]
    pub fn output_level(&self) -> Level {
        self.output.0
    }

    /// Scale of the result.
    #[must_use]
    pub fn output_scale(&self) -> Scale {
        self.output.1
    }

    /// Keys needed: one to relinearise, and where real parts are taken one to conjugate.
    #[must_use]
    pub fn required_keys(&self) -> &KeyRequest {
        &self.request
    }

    /// Number of products of two ciphertexts.
    #[must_use]
    pub fn products(&self) -> usize {
        self.products
    }

    /// The function of every slot of `x`. A ciphertext of a higher level is dropped first.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] if `x` is below the planned level, [`Error::ScaleMismatch`] if it
    /// has another scale than planned, and errors of the evaluator.
    pub fn run<E: ComplexOps>(&self, e: &E, x: &E::Ct) -> Result<E::Ct> {
        let Entry { level, scale, rescales } = self.entry;
        if e.level(x) < level {
            return Err(Error::LevelOutOfRange { found: level, max: e.level(x) });
        }
        if !e.scale(x).matches(scale) {
            let (left, right) = (e.scale(x).log2(), scale.log2());
            return Err(Error::ScaleMismatch { op: self.name, left, right });
        }
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

    /// As [`FunctionPlan::run`] of each of `xs`, in lock step: see [`LockStep`].
    ///
    /// # Errors
    /// The errors of [`FunctionPlan::run`], and [`Error::ScaleMismatch`] if the scales of `xs`
    /// differ.
    pub fn run_many<E: ComplexOps>(&self, e: &E, xs: &[E::Ct]) -> Result<Vec<E::Ct>> {
        LockStep::new(e).run(xs, |e, x| self.run(e, x))
    }
}
