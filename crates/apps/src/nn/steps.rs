//! Levels, scales and keys of the stages of a network.

use std::sync::Arc;

use sudare::{
    circuits::{
        Trace, TracePlan,
        ckks::{LinearPlan, Polynomial, PolynomialPlan},
    },
    ckks::{Params, Scale, planner::Errors},
    rlwe::{KeyRequest, Level},
};
use sudare_arith::real;

use super::{
    affine::{Function, Stage},
    diagonals::{MapDiagonals, PartNumber},
    draft::{most_at_ends, part_of},
    error::{NnError, Result},
    job::Job,
    options::Packing,
    setup::Setup,
};

/// A stage with levels and scales.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// Level of the map, to which its sources are lowered.
    pub(super) level: Level,
    /// Scale of the weights for each source, if ciphertexts are multiplied by numbers.
    pub(super) weights: Vec<Scale>,
    /// True if such products are rescaled.
    pub(super) rescales: bool,
    /// The matrix for each source, if slots are multiplied by matrices.
    pub(super) matrices: Vec<Matrix>,
    pub(super) after: After,
}

/// A product with slots.
#[derive(Debug, Clone)]
pub(super) struct Matrix {
    pub(super) plan: LinearPlan,
    /// Sum over slots that hold parts of the same row.
    pub(super) sum: TracePlan,
    /// `log2` of the numbers of columns and of rows.
    pub(super) log_slots: [u32; 2],
}

#[derive(Debug, Clone)]
pub(super) enum Applied {
    Square { rescales: bool },
    Polynomial(Box<PolynomialPlan>),
}

/// Steps after the map of a stage.
#[derive(Debug, Clone)]
pub(super) struct After {
    /// The largest magnitude, if the values are bootstrapped.
    pub(super) refreshed: Option<Scale>,
    pub(super) applied: Option<Applied>,
}

/// The choices from which the steps of a plan are computed.
pub(super) struct Design<'a> {
    pub(super) job: &'a Job,
    pub(super) setup: &'a Setup,
}

/// Form of an input or a result of a stage.
#[derive(Clone, Copy)]
pub(super) struct Value {
    pub(super) level: Level,
    pub(super) scale: Scale,
}

/// Predicted error and size of a value.
#[derive(Clone, Copy)]
struct Foreseen {
    level: Level,
    scale: Scale,
    /// The standard deviation of the error.
    error: f64,
    /// The largest magnitude.
    largest: f64,
}

impl Design<'_> {
    /// Returns the levels and scales of all stages, and the keys that a run needs.
    pub(super) fn steps(&self) -> Result<(Vec<Step>, KeyRequest)> {
        let mut steps = Vec::new();
        let mut keys = KeyRequest::new();
        let (level, scale) = self.setup.input;
        let mut values = vec![Value { level, scale }];
        for number in 0..self.job.stages.len() {
            let (step, value) = self.step(number, &values, &mut keys)?;
            steps.push(step);
            values.push(value);
        }
        Ok((steps, self.setup.all_keys(keys)))
    }

    /// Plans a stage, and returns the form of its result.
    fn step(
        &self,
        number: usize,
        values: &[Value],
        keys: &mut KeyRequest,
    ) -> Result<(Step, Value)> {
        let params = &self.setup.params;
        let (level, sources) = self.taken(number, values);
        let mut weights = Vec::new();
        let mut matrices = Vec::new();
        let compact = self.setup.weights.get(number).zip(sources.first().copied());
        let value = match compact {
            Some((&scale, source)) => {
                weights.push(scale);
                Value { scale: source.scale * scale, ..source }
            }
            None => {
                let (below, out) = self.below(number, level)?;
                for (part, source) in sources.into_iter().enumerate() {
                    let part = PartNumber { stage: number, source: part };
                    weights.push(out * params.chain().divisor(level) / source.scale);
                    if self.job.options.packing == Packing::Sample {
                        let form = (level, source.scale, out);
                        let matrix = Matrix::new(self.job, part, params, form)?;
                        *keys |= matrix.plan.required_keys().clone();
                        *keys |= matrix.sum.required_keys(below);
                        matrices.push(matrix);
                    }
                }
                Value { level: below, scale: out }
            }
        };
        let (after, value) = self.after(number, value, keys)?;
        Ok((Step { level, weights, rescales: compact.is_none(), matrices, after }, value))
    }

    /// Returns the inputs of a stage, and the level to which all of them are lowered.
    pub(super) fn taken(&self, number: usize, values: &[Value]) -> (Level, Vec<Value>) {
        let sources = self.job.stages[number].sources.iter().map(|source| values[source.value]);
        let level = sources.clone().map(|value| value.level).min();
        (level.unwrap_or(self.setup.input.0), sources.collect())
    }

    /// Returns the level and the scale of the values of a stage's map, starting from this level.
    pub(super) fn below(&self, number: usize, level: Level) -> Result<(Level, Scale)> {
        let below = below(level)?;
        let scale = self.setup.params.scale_at(below);
        // Values have the default scale as a fraction of their range, where that is of use.
        let refreshed = self.setup.refresh_after(number).is_some();
        Ok((
            below,
            match self.job.polynomials[number] {
                _ if refreshed => scale / self.most(number),
                Some(_) => scale / part_of(self.job.ranges.of_stage(number)),
                None => scale,
            },
        ))
    }

    /// Returns the largest magnitude of the values of a stage's map.
    fn most(&self, number: usize) -> Scale {
        Scale::from_f64(self.job.ranges.of_stage(number))
    }

    /// Returns the steps after the map of a stage, whose values have the form `value`, and the form
    /// of the stage's result.
    pub(super) fn after(
        &self,
        number: usize,
        mut value: Value,
        keys: &mut KeyRequest,
    ) -> Result<(After, Value)> {
        let params = &self.setup.params;
        let mut after = After { refreshed: None, applied: None };
        if let Some(refresh) = self.setup.refresh_after(number) {
            let most = self.most(number);
            value.level = refresh.plan.output_level();
            value.scale = params.scale_at(value.level) / most;
            after.refreshed = Some(most);
        }
        if self.job.stages[number].function.is_some() {
            let polynomial = self.job.polynomials[number].as_ref();
            let form = (value.level, value.scale);
            let range = self.job.ranges.of_stage(number);
            let (applied, form) = Applied::new(polynomial, range, params, form, keys)?;
            (value.level, value.scale) = form;
            after.applied = Some(applied);
        }
        Ok((after, value))
    }

    /// Returns the standard deviation of the error of a result, if all numbers are at the ends of
    /// their ranges.
    pub(super) fn predicted_error(&self, steps: &[Step]) -> f64 {
        let (level, scale) = self.setup.input;
        let error = real::exp2(Errors::new(self.setup.params.log_n()).secret_fresh - scale.log2());
        let largest = self.job.ranges.largest_input();
        let mut values = vec![Foreseen { level, scale, error, largest }];
        for (k, (stage, step)) in self.job.stages.iter().zip(steps).enumerate() {
            let sources: Vec<_> = stage.sources.iter().map(|s| values[s.value]).collect();
            let range = self.job.ranges.of_stage(k);
            let mut value = self.foresee_map(stage, step, &sources);
            value.largest = range;
            if let Some(refresh) = self.setup.refresh_after(k) {
                value.level = refresh.plan.output_level();
                value.scale = self.setup.params.scale_at(value.level) / self.most(k);
                value.error = real::hypot(value.error, range * refresh.error);
            }
            values.push(match (&step.after.applied, &stage.function) {
                (Some(applied), Some(function)) => self.foresee_function(applied, function, value),
                _ => value,
            });
        }
        values.last().map_or(f64::INFINITY, |value| value.error)
    }

    fn rounding(&self, scale: Scale) -> f64 {
        real::exp2(Errors::new(self.setup.params.log_n()).rounding - scale.log2())
    }

    fn foresee_map(&self, stage: &Stage, step: &Step, sources: &[Foreseen]) -> Foreseen {
        let worst = |of: fn(&Foreseen) -> f64| sources.iter().map(of).fold(0.0, f64::max);
        let error = worst(|x| x.error);
        let largest = worst(|x| x.largest);
        let exact = stage.affine.step.is_some() && step.matrices.is_empty() && !step.rescales;
        // Encoding rounds each coefficient of a diagonal.
        let diagonal = real::exp2(0.5 * f64::from(self.setup.params.log_n()));
        let matrices = step.matrices.iter().map(|m| diagonal / m.plan.weight_scale().to_f64());
        let weights = step.weights.iter().map(|scale| 1.0 / scale.to_f64());
        let weight = match step.matrices.is_empty() {
            true => weights.fold(0.0, f64::max),
            false => matrices.fold(0.0, f64::max),
        };
        let weight = if exact { 0.0 } else { weight * largest };
        let widest = stage.affine.widest() as f64;
        let mut error = real::hypot(stage.affine.norm() * error, weight * (widest / 12.0).sqrt());
        let mut level = step.level;
        // All products have one scale.
        let product = sources.first().zip(step.weights.first()).map(|(x, &w)| x.scale * w);
        let mut scale = product.unwrap_or(self.setup.input.1);
        if step.rescales {
            scale = scale / self.setup.params.chain().divisor(level);
            level = Level(level.0.saturating_sub(1));
            error = real::hypot(error, self.rounding(scale));
        }
        let parts = step.matrices.iter().map(|m| m.log_slots[0] - m.log_slots[1]).max();
        error *= f64::from(1u32 << parts.unwrap_or(0)).sqrt();
        Foreseen { level, scale, error, largest }
    }

    /// Predicts the error of a function of numbers up to the largest of `x`.
    fn foresee_function(&self, applied: &Applied, function: &Function, x: Foreseen) -> Foreseen {
        let Foreseen { mut level, mut scale, mut error, largest: range } = x;
        match applied {
            Applied::Square { rescales } => {
                (error, scale) = (2.0 * range * error, scale * scale);
                if *rescales {
                    scale = scale / self.setup.params.chain().divisor(level);
                    level = Level(level.0.saturating_sub(1));
                    error = real::hypot(error, self.rounding(scale));
                }
                Foreseen { level, scale, error, largest: range * range }
            }
            Applied::Polynomial(plan) => {
                let level = plan.output_level();
                let scale = plan.output_scale();
                let (slope, most) = steepest(function, range);
                // The roundings inside the function are a few times the rounding of its result.
                let rounding = 4.0 * self.rounding(scale);
                Foreseen {
                    level,
                    scale,
                    error: real::hypot(slope * error, rounding),
                    largest: most,
                }
            }
        }
    }
}

impl Matrix {
    /// Plans the matrix of a source of a stage, by the numbers of both, from this level and scale to
    /// the level below.
    fn new(
        job: &Job,
        part: PartNumber,
        params: &Params,
        (level, scale, out): (Level, Scale, Scale),
    ) -> Result<Self> {
        let source = job.stages[part.stage].sources[part.source].value;
        let [from, to] = [&job.layouts[source], &job.layouts[part.stage + 1]];
        let diagonals = MapDiagonals::new(&job.stages, part, from, to);
        let rows = to.slots();
        let columns = from.slots().max(rows);
        let scales = [scale, out];
        let plan =
            LinearPlan::new(Arc::new(diagonals), params.log_n(), params.chain(), level, scales)?;
        let sum = Trace::inner_sum(params.log_n(), rows, columns / rows)?.doubling();
        Ok(Self { plan, sum, log_slots: [columns, rows].map(usize::ilog2) })
    }
}

impl Applied {
    /// Plans the polynomial of numbers of this range, level and scale, or their square for `None`,
    /// and returns the form of the result. Adds the keys that it needs.
    fn new(
        polynomial: Option<&Polynomial>,
        range: f64,
        params: &Params,
        (mut level, mut scale): (Level, Scale),
        keys: &mut KeyRequest,
    ) -> Result<(Self, (Level, Scale))> {
        let chain = params.chain();
        let Some(polynomial) = polynomial else {
            *keys |= KeyRequest::new().relinearize(level);
            // In a compact chain the last square may be at level 0.
            let rescales = level > Level(0);
            scale = scale * scale;
            if rescales {
                scale = scale / chain.divisor(level);
                level = below(level)?;
            }
            return Ok((Self::Square { rescales }, (level, scale)));
        };
        let part = part_of(most_at_ends(polynomial, range));
        let out = |level| Ok(params.scale_at(level) / part);
        let plan = polynomial.plan_to(chain, level, scale, out)?;
        *keys |= plan.required_keys().clone();
        let form = (plan.output_level(), plan.output_scale());
        Ok((Self::Polynomial(Box::new(plan)), form))
    }
}

/// Returns the level below.
pub(super) fn below(level: Level) -> Result<Level> {
    let needed = sudare::Error::LevelExhausted { op: "a layer", needed: 1, level };
    level.0.checked_sub(1).map(Level).ok_or(NnError::Library(needed))
}

/// Returns the largest slope and magnitude of a function on `[-r, r]`, by sampling.
fn steepest(function: &Function, r: f64) -> (f64, f64) {
    const SAMPLES: usize = 512;
    let at = |i: usize| function.value(r * (2.0 * i as f64 / SAMPLES as f64 - 1.0));
    let width = 2.0 * r / SAMPLES as f64;
    (0..SAMPLES).map(|i| (at(i), at(i + 1))).fold((0.0, 0.0), |(slope, most), (a, b)| {
        (f64::max(slope, (b - a).abs() / width), f64::max(most, a.abs().max(b.abs())))
    })
}
