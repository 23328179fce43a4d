//! Modulus, scales and levels of a network.

use sudare::{
    circuits::ckks::{Chain, Polynomial},
    ckks::{
        Scale, Spec,
        planner::{self, Errors, PRIME_BITS, RINGS, Room},
    },
    rlwe::Level,
};
use sudare_arith::real;

use super::{
    affine::{Function, Stage},
    error::{NnError, Result},
    job::Job,
    options::Packing,
    ranges::Ranges,
};

/// Bits of the smallest primes above the bits of the ring's degree. There are many primes of this
/// size.
const MIN_BITS: f64 = 7.0;
/// Bits between a value and the modulus, for the sign and for primes that miss their nominal size.
const ROOM_BITS: f64 = 2.0;
/// Bits of the scale above the precision, in chains of one scale.
const SCALE_ROOM_BITS: f64 = 6.0;
/// Tolerance of sums of the sizes of primes.
const SLACK_BITS: f64 = 0.3;

/// Draft of the chain of a network, before primes are chosen.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Draft {
    pub(super) spec: Spec,
    /// Scale of inputs. `None` is the default scale of the top level.
    pub(super) input: Option<Scale>,
    /// Scale of the weights of each stage, whose products are not rescaled. If empty, products are
    /// rescaled to default scales.
    pub(super) weights: Vec<Scale>,
}

/// Drafts the smallest ring for a network that needs `2^log2_slots` slots, with the compact chain
/// if possible.
pub(super) fn draft(job: &Job, log2_slots: u32) -> Result<Draft> {
    let stages = &job.stages;
    let squares = |stage: &Stage| !matches!(stage.function, Some(Function::Of(_)));
    let chained = stages.iter().enumerate().all(|(k, stage)| stage.follows(k));
    let compact = job.options.packing == Packing::Features && chained && stages.iter().all(squares);
    let mut most = (0, 0.0);
    for log_n in RINGS.filter(|&log_n| log_n > log2_slots) {
        let drafted = match compact {
            true => compact_chain(job, log_n),
            false => even_chain(job, log_n)?,
        };
        match drafted {
            Ok(draft) => return Ok(draft),
            Err(needed) => most = needed,
        }
    }
    let (levels, log2_q) = most;
    Err(NnError::TooDeep { levels, log2_q, log_n: *RINGS.end() })
}

/// Largest difference of a prime's size from its plan, in bits: primes of 20 bits are sparse in large
/// rings.
const PRIME_ERROR_BITS: f64 = 0.25;

/// Levels and bits that a network needs, if a ring does not have them.
type Needed = (usize, f64);

/// Drafts a chain for networks of squares without residual blocks. Products with weights are not
/// rescaled. Each level has the bits that its square needs. The last square is not rescaled if that
/// is unnecessary.
fn compact_chain(job: &Job, log_n: u32) -> core::result::Result<Draft, Needed> {
    let Job { ranges, options, stages, .. } = job;
    let both = [true, false].map(|rescaled| {
        let rescales = stages.len().saturating_sub(if rescaled { 1 } else { 2 });
        compact_levels(stages, ranges, options.precision_bits, log_n, rescales)
    });
    let fitting = both.iter().filter_map(|levels| {
        let (primes, special) = cut(&levels.bits, log_n)?;
        Some((primes.iter().map(Vec::len).sum::<usize>(), levels, primes, special))
    });
    let best = fitting.min_by_key(|(count, ..)| *count);
    let Some((_, levels, q_bits, special)) = best else {
        let totals = both.iter().map(|levels| levels.bits.iter().sum::<f64>());
        return Err((stages.len() - 1, totals.fold(f64::INFINITY, f64::min) + PRIME_BITS));
    };
    let chain = planner::chain(log_n, q_bits, levels.log2_input.max(1.0));
    let spec = Spec { p_bits: vec![special], ..chain };
    let scales = |bits: &[f64]| bits.iter().map(|&bits| Scale::from_log2(bits)).collect();
    Ok(Draft {
        spec,
        input: Some(Scale::from_log2(levels.log2_input)),
        weights: scales(&levels.log2_weights),
    })
}

struct CompactLevels {
    /// Bits of each level, from level 0.
    bits: Vec<f64>,
    log2_input: f64,
    log2_weights: Vec<f64>,
}

fn compact_levels(
    stages: &[Stage],
    ranges: &Ranges,
    precision_bits: f64,
    log_n: u32,
    rescales: usize,
) -> CompactLevels {
    let size = |k: usize| ranges.of_stage(k);
    let errors = Errors::new(log_n);
    let least_bits = f64::from(log_n) + MIN_BITS;
    // Scale of the input of stage `k` at which its error is negligible.
    let mut inputs: Vec<f64> = (0..stages.len())
        .map(|k| {
            // Samples are encrypted under the secret key. Later values have the error of rescaling.
            let error = if k == 0 { errors.secret_fresh } else { errors.rounding };
            error + precision_bits + real::log2(stages[k].affine.norm()) - real::log2(size(k))
        })
        .collect();
    let weights: Vec<f64> = (0..stages.len())
        .map(|k| {
            let largest = if k == 0 { ranges.largest_input() } else { real::powi(size(k - 1), 2) };
            log2_weights(&stages[k], largest, size(k), precision_bits)
        })
        .collect();
    let mut bits = vec![0.0; rescales + 1];
    // Square `k` is rescaled from this level.
    for k in (0..rescales).rev() {
        let level = rescales - k;
        let found = 2.0 * (inputs[k] + weights[k]) - inputs[k + 1];
        // A prime cannot be smaller, so the scale of the square's input grows instead.
        inputs[k] += (least_bits - found).max(0.0) / 2.0;
        bits[level] = found.max(least_bits);
    }
    // Without rescaling, a square squares its scale.
    for k in rescales..stages.len() - 1 {
        inputs[k + 1] = 2.0 * (inputs[k] + weights[k]);
    }
    for k in 0..stages.len() {
        // The modulus must also hold the scale of values below 1. Each square doubles the difference
        // of earlier scales from their plan.
        let drift = PRIME_ERROR_BITS * (real::exp2(k.min(rescales) as f64) - 1.0);
        // A bias may be larger than the results.
        let largest = stages[k].affine.bias.iter().fold(size(k), |most, bias| most.max(bias.abs()));
        let value = inputs[k] + weights[k] + drift + real::log2(largest).max(0.0);
        let value = if k + 1 == stages.len() { value } else { 2.0 * value };
        let above = &bits[1..=rescales.saturating_sub(k)];
        let lacking = value + ROOM_BITS - above.iter().sum::<f64>();
        bits[0] = lacking.max(bits[0]).max(least_bits);
    }
    CompactLevels { bits, log2_input: inputs[0], log2_weights: weights }
}

/// Returns `log2` of the scale of weights: the scale of their step, or one at which their rounding
/// is negligible.
fn log2_weights(stage: &Stage, largest: f64, size: f64, precision_bits: f64) -> f64 {
    // Rounding to an integer has the variance 1/12.
    let rounding = (stage.affine.widest() as f64 / 12.0).sqrt() * largest / size;
    let rounded = || precision_bits + real::log2(rounding);
    stage.affine.step.map_or_else(rounded, |step| -real::log2(step)).max(0.0)
}

/// Splits levels of these bits into primes, and adds special primes. Uses the fewest primes that
/// the modulus allows.
fn cut(levels: &[f64], log_n: u32) -> Option<(Vec<Vec<f64>>, f64)> {
    let least = f64::from(log_n) + MIN_BITS;
    let caps = core::iter::successors(Some(PRIME_BITS), |cap| Some(cap - 0.5));
    let cut_to = |cap: f64| {
        let primes = levels.iter().map(|bits| {
            let level = planner::level(*bits, cap).into_iter();
            level.map(|bits| bits.max(least)).collect()
        });
        let primes: Vec<Vec<f64>> = primes.collect();
        let special = primes.iter().flatten().copied().fold(least, f64::max) + SLACK_BITS;
        let total: f64 = primes.iter().flatten().sum();
        Room::new(log_n).holds(total + special + SLACK_BITS).then_some((primes, special))
    };
    let cuts = caps.take_while(|&cap| cap > least).filter_map(cut_to);
    cuts.min_by_key(|(primes, _)| primes.iter().map(Vec::len).sum::<usize>())
}

/// Drafts levels of one scale. Each affine map uses one level, and each function the levels of its
/// polynomial.
fn even_chain(job: &Job, log_n: u32) -> Result<core::result::Result<Draft, Needed>> {
    let Job { ranges, options, stages, polynomials, .. } = job;
    let log2_scale = Errors::new(log_n).rounding + options.precision_bits + SCALE_ROOM_BITS;
    let scale = Scale::from_log2(log2_scale);
    let mut levels = 0;
    let mut largest = ranges.output.max(ranges.largest_input());
    for (polynomial, &r) in polynomials.iter().zip(&ranges.activations) {
        let (depth, most) = depth_and_most(polynomial.as_ref(), r, scale)?;
        levels += depth as usize;
        largest = largest.max(most).max(r);
    }
    levels += stages.len();
    let base = log2_scale + real::log2(largest).max(0.0) + ROOM_BITS;
    let mut q_bits = vec![planner::level(base, PRIME_BITS)];
    q_bits.resize(levels + 1, vec![log2_scale]);
    let spec = planner::chain(log_n, q_bits, log2_scale);
    let log2_q = spec.log2_qp();
    Ok(match Room::new(log_n).complete(spec) {
        Some(spec) => Ok(Draft { spec, input: None, weights: Vec::new() }),
        None => Err((levels, log2_q + log2_scale)),
    })
}

/// Returns the number that arguments and values of polynomials up to `r` are encrypted as parts of.
///
/// Polynomials bring their argument to `[-1, 1]`. As a change of scale this is free, if the map
/// before has that scale. With values as parts, too, the scale of the weights between them is not
/// less. Numbers below 1 would need a larger scale, for which moduli have no room.
pub(super) fn part_of(r: f64) -> Scale {
    Scale::from_f64(r.max(1.0))
}

/// Returns the largest magnitude of a polynomial at the ends of `[-r, r]`.
pub(super) fn most_at_ends(polynomial: &Polynomial, r: f64) -> f64 {
    let [low, high] = [-r, r].map(|x| polynomial.evaluate(x).abs());
    low.max(high)
}

/// Returns the levels of a polynomial of numbers within `[-r, r]`, encrypted as parts of `r` if that
/// is above 1, and its largest magnitude at the ends. `None` stands for a square.
pub(super) fn depth_and_most(
    polynomial: Option<&Polynomial>,
    r: f64,
    scale: Scale,
) -> Result<(u32, f64)> {
    const LEVELS: usize = 40;
    let Some(polynomial) = polynomial else { return Ok((1, r * r)) };
    // Any chain that is long enough shows the depth.
    let log2_q = (0..=LEVELS).map(|l| 80.0 + scale.log2() * l as f64).collect();
    let chain = Chain::new(vec![scale; LEVELS], log2_q);
    let part = scale / part_of(r);
    let plan = polynomial.plan(&chain, Level(LEVELS as u32), part, scale)?;
    Ok((plan.depth(), most_at_ends(polynomial, r)))
}
