//! Selection: sums, over matching records, of the numbers next to their vectors.

use core::f64::consts::SQRT_2;

use sudare::{
    circuits::{
        Ops, Trace, TracePlan,
        ckks::{ComplexOps, sim},
    },
    ckks::{Complex, Params, ProductSum, Scale},
    rlwe::Level,
};

use super::{
    error::{Result, SearchError, check_precision},
    layout::{Layout, powers_of_x},
    sketch::Sketch,
    spec::{Answer, Spec},
};
use crate::functions::{self, Fit, Function, FunctionPlan};
use sudare_arith::real;

/// `log2` of the scale of comparisons.
pub(super) const LOG2_SCALE: f64 = 40.0;

/// Fraction of the gap that is reserved for errors of scores.
const GAP_FOR_ERRORS: f64 = 1.0 / 16.0;

/// Room in `[-1, 1]` for errors of compared values, as a fraction of the largest.
pub(super) const ROOM: f64 = 1.0 / 1024.0;

/// Number of standard deviations within which errors of sums are assumed.
const DEVIATIONS: f64 = 8.0;

/// Distance of the counts of buckets from integers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CountErrors {
    /// Bound of the error by the approximation of the step, over all records of a bucket.
    pub step: f64,
    /// Standard deviation of the error by encryption.
    pub noise: f64,
}

impl CountErrors {
    /// Errors of plans without counts.
    pub const NONE: Self = Self { step: f64::INFINITY, noise: f64::INFINITY };

    /// Returns an estimated bound.
    pub fn largest(self) -> f64 {
        self.step + DEVIATIONS * self.noise
    }

    /// Bounds `log2` of the probability that one of `sums` sums is further than `tolerance` from
    /// its exact value, if noise is normal. This is the union bound over the two-sided tails.
    pub fn log2_beyond(self, tolerance: f64, sums: usize) -> f64 {
        let deviations = (tolerance - self.step) / self.noise;
        real::log2(2.0 * sums as f64) - deviations * deviations / 2.0 * core::f64::consts::LOG2_E
    }
}

/// The step that separates matches from other records, and the numbers that it selects.
pub(super) struct Comparison {
    pub sketch: Sketch,
    pub step: Function,
    /// Half the interval of compared values.
    radius: f64,
    /// The middle of the gap and half its width, in units of the radius.
    middle: f64,
    gap: f64,
}

impl Comparison {
    /// Plans the comparison of a search. Returns `None` if the server answers scores only.
    pub fn new(spec: &Spec, layout: &Layout) -> Result<Option<Self>> {
        let Some(threshold) = spec.answer.threshold() else { return Ok(None) };
        let sketch = Sketch::new(spec, layout).ok_or_else(|| {
            let most = match spec.answer {
                Answer::Matches { most, .. } => most,
                _ => 0,
            };
            // Fewer matches are always possible.
            SearchError::Count { what: "matches", found: most, least: 1, most: most / 2 }
        })?;
        let (middle, half) = spec.metric.gap(threshold)?;
        let radius = (layout.reach() + middle.abs()) * (1.0 + ROOM);
        // A narrower gap than requested is also valid.
        let middle = middle / radius;
        let gap = (half / radius).min(0.5);
        // All records that do not match may add up to a quarter of the tolerance.
        let bits = real::log2(4.0 * sketch.candidates as f64 / sketch.tolerance());
        let fit = Fit::PrecisionBits(bits);
        let step = functions::step(-1.0..1.0, gap * (1.0 - GAP_FOR_ERRORS), fit)?;
        Ok(Some(Self { sketch, step, radius, middle, gap }))
    }

    /// Returns the bits of level 0 above the scale of sums, which may be sums over all records.
    /// Each coefficient of an answer is one of a pair of sums, so packing needs no more bits.
    pub fn room_bits(&self) -> f64 {
        let sketch = &self.sketch;
        real::log2(sketch.candidates as f64 * sketch.largest() * SQRT_2) + 1.25
    }

    /// Returns the levels from inner products to sums.
    pub fn depth(&self) -> u32 {
        self.step.depth() + 1
    }
}

/// A [`Comparison`] with levels and scales.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    pub sketch: Sketch,
    step: FunctionPlan,
    middle: f64,
    /// Scale of inner products, at the level of the step.
    pub product: Scale,
    /// Scale of numbers next to vectors, at level 1.
    pub columns: Scale,
    /// Scale of the sums, at level 0.
    sums: Scale,
    fold: TracePlan,
    layout: Layout,
}

impl Selection {
    /// Level of the numbers next to vectors and of the indicators that select them.
    pub const LEVEL: Level = Level(1);

    pub fn new(comparison: &Comparison, params: &Params, layout: &Layout) -> Result<Self> {
        let found = params.top().0;
        let needed = comparison.depth() + 1;
        let too_few = || SearchError::TooFewLevels { found, needed };
        let levels = (comparison.depth()..found).map(Level);
        let mut plans = levels.filter_map(|level| comparison.step.plan_at(params, level).ok());
        let step = plans.find(|plan| plan.output_level() == Self::LEVEL).ok_or_else(too_few)?;
        let chain = params.chain();
        let sums = chain.log2_q(Level(0)) - comparison.room_bits();
        let sums = Scale::from_log2(sums);
        let period = comparison.sketch.period(layout);
        Ok(Self {
            sketch: comparison.sketch,
            middle: comparison.middle,
            // A real part is half the sum with the conjugate.
            product: step.scale() / Scale::from_f64(2.0 * comparison.radius),
            columns: sums * chain.divisor(Self::LEVEL) / step.output_scale(),
            sums,
            fold: Trace::to_slots(params.log_n(), period.ilog2())?.doubling(),
            layout: *layout,
            step,
        })
    }

    /// Returns the level of inner products.
    pub fn level(&self) -> Level {
        self.step.level()
    }

    /// Returns the arguments of the step: inner products of both halves of a block minus the middle
    /// of the gap, in `[-1, 1]`.
    fn arguments<E: ComplexOps>(&self, e: &E, inner: &E::Ct) -> Result<Vec<E::Ct>> {
        let conjugate = e.conjugate(inner)?;
        // Each half of a block is in the real or the imaginary parts.
        let imaginary = e.sub(inner, &conjugate)?;
        // -i is a monomial, so this is exact.
        let imaginary = e.mul_const(&imaginary, Complex::new(0.0, -1.0), Scale::from_u64(1))?;
        let halves = [e.add(inner, &conjugate)?, imaginary];
        let minus_middle = Complex::new(-self.middle, 0.0);
        let argument =
            |half: &E::Ct| e.add_const(&e.with_scale(half, self.step.scale())?, minus_middle);
        Ok(halves.iter().map(argument).collect::<sudare::Result<_>>()?)
    }

    /// Returns indicators for both halves of a block: near 1 for each matching record, near 0 for
    /// the others.
    pub fn indicators<E: ComplexOps>(&self, e: &E, inner: &E::Ct) -> Result<Vec<E::Ct>> {
        Ok(self.step.run_many(e, &self.arguments(e, inner)?)?)
    }

    /// Packs sums over blocks, one ciphertext for each pair of numbers, into the ciphertexts of an
    /// answer. Sums over buckets repeat after a period. Their polynomials therefore have few
    /// nonzero coefficients, which are interleaved.
    pub fn pack<E: ComplexOps>(&self, e: &E, sums: &[E::Ct]) -> Result<Vec<E::Ct>> {
        let packed = self.sketch.packed(&self.layout);
        let outputs = sums.chunks(packed).map(|sums| {
            let mut output: Option<E::Ct> = None;
            for (class, sum) in sums.iter().enumerate() {
                let sum = self.fold.run(e, &e.with_scale(sum, self.sums)?)?;
                output = Some(match output {
                    None => sum,
                    Some(output) => {
                        let raised = powers_of_x(self.layout.slots, class as i64);
                        e.add(&output, &e.mul_plain(&sum, &raised, Scale::from_u64(1))?)?
                    }
                });
            }
            output.ok_or_else(|| sudare::Error::Circuit("an answer of no sums".into()))
        });
        Ok(outputs.collect::<sudare::Result<_>>()?)
    }

    /// Returns the sums of buckets for each pair of numbers, from the decrypted slots of an answer.
    pub fn unpack(&self, outputs: &[Vec<Complex<f64>>]) -> Vec<Vec<Complex<f64>>> {
        let packed = self.sketch.packed(&self.layout);
        let period = self.sketch.period(&self.layout);
        let pair = |pair: usize| -> Vec<Complex<f64>> {
            let output = &outputs[pair / packed];
            let class = pair % packed;
            let lowered = powers_of_x(self.layout.slots, -(class as i64));
            // The mean over the Galois group of the smaller ring.
            let sum = |bucket: usize| {
                let slots = (bucket * self.layout.group..self.layout.slots).step_by(period);
                let terms = slots.map(|slot| output[slot] * lowered[slot]);
                let sum = terms.fold(Complex::new(0.0, 0.0), |sum, z| sum + z);
                sum * Complex::new(1.0 / packed as f64, 0.0)
            };
            (0..self.sketch.buckets).map(sum).collect()
        };
        (0..self.sketch.pairs()).map(pair).collect()
    }

    /// Runs the selection on the simulator to find the keys, and checks that answers are correct.
    /// Inner products have their largest errors, and later values their estimated errors. Returns
    /// the errors of the count of a bucket.
    pub fn dry_run(
        &self,
        e: &sim::Evaluator,
        comparison: &Comparison,
        inner: &sim::Ciphertext,
    ) -> Result<CountErrors> {
        let layout = &self.layout;
        let argument = &self.arguments(e, inner)?[0];
        let allowed = comparison.gap * GAP_FOR_ERRORS;
        check_precision("a score next to the margin", argument.worst.error, allowed)?;
        // Values at which the step is 0 or 1.
        let value = |slot: usize| {
            let part = slot as f64 / layout.slots as f64;
            let beyond = comparison.gap + (1.0 - comparison.gap) * (2.0 * part - 1.0).abs();
            Complex::new(if slot.is_multiple_of(2) { beyond } else { -beyond }, 0.0)
        };
        let slots = (0..layout.slots).map(value).collect();
        // Errors of arguments narrow the gap, which was checked, and do not change the step
        // otherwise.
        let noise_log2 = f64::NEG_INFINITY;
        let argument = sim::Ciphertext { slots, noise_log2, ..argument.clone() };
        let selected = self.step.run(e, &argument)?;
        let in_selection = real::exp2(selected.noise_log2);

        // Matches, whose numbers have errors of encryption.
        let one = vec![Complex::new(1.0, 0.0); layout.slots];
        let selected = sim::Ciphertext { slots: one, noise_log2, ..selected };
        let zeros = vec![Complex::new(0.0, 0.0); layout.slots];
        let numbers = e.encrypt(&zeros, Self::LEVEL, self.columns)?;
        let products = vec![(&selected, &numbers); 2];
        let sum = e.mul_sum_rescale(&ProductSum { products, addend: None })?;
        let folded = self.fold.run(e, &e.with_scale(&sum, self.sums)?)?;

        let sketch = &self.sketch;
        let candidates = sketch.candidates as f64;
        // Matches of a bucket have errors of encryption, and blocks have errors of rounding.
        let terms = sketch.solved.max(layout.blocks) as f64;
        let noise = candidates.sqrt() * in_selection + terms.sqrt() * real::exp2(folded.noise_log2);
        let errors = CountErrors { step: candidates * comparison.step.max_error(), noise };
        check_precision("the count of a bucket", errors.largest(), sketch.tolerance() / 2.0)?;
        Ok(errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{Answer, Metric, Mode, Plan, Threshold};

    /// Recomputes the numbers of `docs/notes/search-failures.md` for the small size of the public
    /// suite, from their definitions and from the plan.
    #[test]
    fn failures_are_as_improbable_as_documented() {
        let at = 0.8;
        let margin = 0.1;
        let answer = Answer::Matches { threshold: Threshold { at, margin }, most: 32, payload: 8 };
        let metric = Metric::Cosine;
        let mode = Mode::Encrypted;
        let spec = Spec { dimension: 128, rows: 50_000, metric, mode, answer };
        let plan = Plan::new(&spec, &Plan::auto_params(&spec).unwrap()).unwrap();
        let comparison = Comparison::new(&spec, &plan.layout).unwrap().unwrap();
        let sketch = comparison.sketch;
        let errors = plan.count_errors;

        // Two blocks of 2^15 records in 512 buckets, numbers modulo 257.
        assert_eq!((sketch.buckets, sketch.candidates, sketch.solved), (512, 128, 5));
        let tolerance = 0.25 / 256.0;
        assert_eq!(sketch.tolerance(), tolerance);

        // The step, by cosines.
        let radius = 1.8 * (1.0 + 1.0 / 1024.0);
        let off = |cosine: f64| {
            let found = comparison.step.evaluate((cosine - at) / radius);
            (found - if cosine > at { 1.0 } else { 0.0 }).abs()
        };
        let part = |i: u32| f64::from(i) / 20_000.0;
        let outside = (0..=20_000).flat_map(|i| [-1.0 + 1.7 * part(i), 0.9 + 0.1 * part(i)]);
        let step = outside.map(off).fold(0.0, f64::max);
        assert!((step / comparison.step.max_error() - 1.0).abs() < 1e-3, "{step:e}");
        assert_eq!(errors.step, 128.0 * comparison.step.max_error());
        assert!((1.89e-4..1.91e-4).contains(&errors.step), "{errors:?}");
        assert!((1.9e-5..1.95e-5).contains(&errors.noise), "{errors:?}");
        // Matches of a bucket that are a little nearer to the threshold than promised.
        let within = [0.89, 0.88, 0.87, 0.86].map(|cosine| 5.0 * off(cosine) / tolerance);
        let documented = [0.115, 2.25, 13.8, 53.0];
        let mut pairs = within.iter().zip(documented);
        assert!(pairs.all(|(x, y)| (x / y - 1.0).abs() < 0.02), "{within:?}");

        // Noise of the sums of all buckets, each of one number and five times eleven.
        let deviations = (tolerance - errors.step) / errors.noise;
        let sums = 512.0_f64 * 56.0;
        let log2 = (2.0 * sums).log2() - deviations * deviations / 2.0 / 2f64.ln();
        let found = errors.log2_beyond(tolerance, 28_672);
        assert!((log2 - found).abs() < 1e-6 * found.abs(), "{log2} {found}");
        assert!((40.0..42.0).contains(&deviations), "{deviations}");
        assert!((-1196.0..-1195.0).contains(&found), "{found}");
        assert_eq!(plan.log2_wrong(), Some(-128.0));
        // Too many in one bucket: six of 32 matches.
        let sets: f64 = (0..6).map(|i| (f64::from(32 - i) / f64::from(i + 1)).log2()).sum();
        let crowded = sets - 5.0 * 9.0;
        assert!((crowded - plan.log2_incomplete().unwrap()).abs() < 1e-9, "{crowded}");
        assert!(crowded < -25.0, "{crowded}");
    }
}
