//! Proposals of the parameters in which a training is fastest.

use crate::logreg::{
    budget::Segments,
    job::{Job, MAX_ITERATIONS},
    layout::{Layout, Order},
    plan::{TrainPlan, inputs::PlanInputs, refresh},
    spec::{LearningRate, Preparation, Step, TrainSpec, schedule},
};
use crate::{Error, Result};
use sudare::ckks::{
    Params, Spec,
    planner::{self, Errors, RINGS, Room},
};
use sudare_arith::real;

/// `-log2` of the standard deviation of each single error of weights, for proposed parameters.
/// Several errors add up, so the largest error of a weight is about 2^-14.
const PROPOSED_PRECISION_BITS: f64 = 17.0;

/// Initial estimate of the largest error of a weight over the standard deviation of a single one,
/// as `log2`.
const WORST_CASE_BITS: f64 = 8.0;

/// Maximum number of proposals until the worst case is precise enough.
const MAX_PROPOSALS: usize = 8;

impl TrainPlan {
    /// Returns the estimated fastest parameters for the job, secure at 128 bits with a uniform
    /// ternary secret. The candidates are the smallest ring with levels for all iterations, and
    /// parameters for bootstrapping.
    ///
    /// # Errors
    /// [`Error::Train`]; [`Error::TooManyFeatures`] and [`Error::TooManyIterations`] if even the
    /// ring of dimension 2^17 is too small, the latter with the number of iterations that fit;
    /// [`Error::Library`] if there are too few primes.
    pub fn auto_params(job: &Job) -> Result<Params> {
        let largest = *RINGS.end();
        let inputs = PlanInputs::new(job, largest, Order::RowsFirst)?;
        if let Some((_, params)) = secure(job)? {
            return Ok(params);
        }
        let fits = |iterations: u32| {
            let job = Job { spec: TrainSpec { iterations, ..job.spec }, ..*job };
            match job.spec.shared_bits {
                None => propose(&job, (0.0, 0.0)).is_ok_and(|proposal| proposal.is_some()),
                Some(_) => secure(&job).is_ok_and(|found| found.is_some()),
            }
        };
        let found = job.spec.iterations;
        let mut fit = 0;
        let mut above = found.min(MAX_ITERATIONS + 1);
        while above - fit > 1 {
            let middle = fit + (above - fit) / 2;
            *(if fits(middle) { &mut fit } else { &mut above }) = middle;
        }
        let full = found - job.spec.label_iterations();
        Err(Error::TooManyIterations {
            found,
            needed: u64::from(full) * u64::from(inputs.levels()),
            log_n: largest,
            fit,
        })
    }
}

/// The largest ring in which an additional iteration is worth its time.
const AMPLE_LOG_N: u32 = 15;

impl TrainSpec {
    /// Returns the recommended specification for a table of this shape.
    ///
    /// Whitened columns get five iterations, or fewer if five would need bootstrapping or a ring of
    /// dimension above 2^15. Standardised columns get ten. Each iteration uses all rows. Tables of
    /// more rows than [`TrainSpec::AMPLE_BATCH`] are trained in batches of this size, at a falling
    /// rate. Scaled columns get [`TrainSpec::published`].
    ///
    /// # Errors
    /// The errors of [`TrainPlan::auto_params`](super::TrainPlan::auto_params).
    pub fn recommended(rows: usize, features: usize, preparation: Preparation) -> Result<Self> {
        let initial = Self::PREPARED_STEP;
        let (learning_rate, batch) = match rows > Self::AMPLE_BATCH {
            true => (LearningRate::Slowing { initial }, Some(Self::AMPLE_BATCH)),
            false => (LearningRate::Constant(initial), None),
        };
        let prepared = Self { preparation, learning_rate, batch, ..Self::default() };
        match preparation {
            Preparation::Scale => Ok(Self::published()),
            Preparation::Standardize => Ok(Self { iterations: 10, ..prepared }),
            Preparation::Whiten => {
                for iterations in [5, 4] {
                    let spec = Self { iterations, ..prepared };
                    let proposal = secure(&Job { rows, features, spec })?;
                    if proposal.is_some_and(|(p, _)| p.leveled && p.chain.log_n <= AMPLE_LOG_N) {
                        return Ok(spec);
                    }
                }
                Ok(Self { iterations: 3, ..prepared })
            }
        }
    }
}

/// Parameters for a training.
struct Proposal {
    /// Cost, in transforms of a limb of dimension 1.
    cost: f64,
    chain: Spec,
    /// True if nothing is bootstrapped.
    leveled: bool,
}

/// Bits of the modulus to reserve for primes above their requested size. None are reserved at
/// first.
const SPARE_BITS: [f64; 3] = [0.0, 2.0, 8.0];

/// Returns the cheapest parameters for a job whose actual primes are secure, if there are any.
fn secure(job: &Job) -> Result<Option<(Proposal, Params)>> {
    // Weights to be shared need the precision of the worst case, which only a plan determines.
    let mut further = 0.0;
    for _ in 0..MAX_PROPOSALS {
        let Some((proposal, params)) = secure_with(job, further)? else { return Ok(None) };
        match job.spec.shared_bits.map(|_| TrainPlan::new(job, &params)) {
            Some(Err(Error::Precision { found, needed, .. })) => {
                // An infinite error does not tell how many bits are lacking.
                further += if found.is_finite() { needed - found + 0.5 } else { 16.0 };
            }
            _ => return Ok(Some((proposal, params))),
        }
    }
    Ok(None)
}

/// Returns the same with `further` more bits of precision, which apply to weights to be shared.
fn secure_with(job: &Job, further: f64) -> Result<Option<(Proposal, Params)>> {
    for spare in SPARE_BITS {
        let Some(proposal) = propose(job, (spare, further))? else { return Ok(None) };
        match Params::new(proposal.chain.clone()) {
            Err(sudare::Error::Insecure { .. }) => {}
            params => return Ok(Some((proposal, params?))),
        }
    }
    Ok(None)
}

/// Returns the cheapest parameters for a job by the sizes of primes, if there are any.
fn propose(job: &Job, (spare, further): (f64, f64)) -> Result<Option<Proposal>> {
    if job.spec.iterations > MAX_ITERATIONS {
        return Ok(None);
    }
    let schedule = schedule(&job.spec);
    let mut best: Option<Proposal> = None;
    // Orders for which a ring has levels for all iterations. Larger rings cost more.
    let mut leveled = Vec::new();
    for log_n in RINGS {
        let orders = Order::ALL.map(|order| PlanInputs::new(job, log_n, order));
        let orders: Vec<_> = match orders.into_iter().collect::<Result<_>>() {
            Err(Error::TooManyFeatures { .. }) => continue,
            other => other?,
        };
        for inputs in &orders {
            if !leveled.contains(&inputs.order)
                && let Some(proposal) = propose_levels(inputs, &schedule, (spare, further))
            {
                best = cheaper(best, proposal);
                leveled.push(inputs.order);
            }
        }
        // Bootstrapped weights are not precise enough to be shared.
        let rounds = if job.spec.shared_bits.is_none() { schedule.len() } else { 1 };
        for inputs in &orders {
            let proposals =
                (1..rounds).map(|r| propose_bootstrapping(inputs, &schedule, (r, spare)));
            // More iterations between bootstrappings need longer chains, so the first failure is
            // final.
            best = proposals.map_while(|proposal| proposal).fold(best, cheaper);
        }
    }
    Ok(best)
}

fn cheaper(best: Option<Proposal>, other: Proposal) -> Option<Proposal> {
    match best {
        Some(best) if best.cost <= other.cost => Some(best),
        _ => Some(other),
    }
}

/// Returns `-log2` of the standard deviations that proposed primes are made for, for rows of weight
/// 1. For weights to be shared, it is `further` bits below the largest error.
fn precision_bits(inputs: &PlanInputs, further: f64) -> f64 {
    let shared = |bits: f64| bits + WORST_CASE_BITS + further;
    inputs.shared_bits().map_or(PROPOSED_PRECISION_BITS, shared)
}

/// Proposes a chain with a level for every step of every iteration.
fn propose_levels(
    inputs: &PlanInputs,
    schedule: &[Step],
    (spare, further): (f64, f64),
) -> Option<Proposal> {
    let budget = inputs.budget(schedule, Segments::One);
    let precision_bits = precision_bits(inputs, further);
    let chain = PrimeSizes {
        log_n: inputs.log_n,
        q_bits: budget.prime_bits(precision_bits),
        log2_scale: precision_bits + f64::from(inputs.log_n),
        spare,
    };
    let levels = inputs.levels() as usize;
    let top = budget.depth() as usize;
    chain.propose(None, key_switches(inputs, (1..=top).rev().step_by(levels)))
}

/// Proposes a chain with a bootstrapping after every `rounds` iterations.
fn propose_bootstrapping(
    inputs: &PlanInputs,
    schedule: &[Step],
    (rounds, spare): (usize, f64),
) -> Option<Proposal> {
    let &PlanInputs { log_n, ref layout, .. } = inputs;
    let budget = inputs.budget(schedule, Segments::One);
    let (segment, weights) = budget.segment_bits(rounds, PROPOSED_PRECISION_BITS);
    let largest = budget.largest_weight();
    let rounding = Errors::new(log_n).rounding;
    let sizes = refresh::Sizes::new(layout, log_n, rounding, weights, largest);
    let above = sizes.low.len() - 1 + segment.len();
    let q_bits = [sizes.low, segment, sizes.high].concat();
    let levels = inputs.levels() as usize;
    let full = budget.full().len();
    // Such a chain would be planned without bootstrapping.
    if full * levels < q_bits.len() {
        return None;
    }
    let top = q_bits.len() - 1;
    let switches = f64::from(refresh::key_switches(layout, log_n));
    let bootstraps = core::iter::repeat_n((switches, top), full.div_ceil(rounds) - 1);
    let rounds = key_switches(inputs, (0..full).map(|k| above - levels * (k % rounds)));
    let chain = PrimeSizes { log_n, q_bits, log2_scale: sizes.log2_scale, spare };
    chain.propose(Some(above), rounds.chain(bootstraps))
}

/// Returns the key switches of iterations that start at these levels, with the level of each. Other
/// work is included as equivalent key switches.
fn key_switches(
    inputs: &PlanInputs,
    levels: impl Iterator<Item = usize>,
) -> impl Iterator<Item = (f64, usize)> {
    let &PlanInputs { ref layout, order, ref sigmoid, .. } = inputs;
    let switches = layout.key_switches(order, sigmoid);
    let others = Layout::ciphertext_cost(order) * layout.multiplied() as f64;
    levels.flat_map(move |level| {
        let below = switches.into_iter().chain([(others, 0)]);
        below.map(move |(count, below)| (count, level.saturating_sub(below as usize)))
    })
}

/// A chain without special primes.
struct PrimeSizes {
    log_n: u32,
    q_bits: Vec<Vec<f64>>,
    log2_scale: f64,
    /// Bits of the modulus to reserve.
    spare: f64,
}

impl PrimeSizes {
    /// Returns the whole chain, if it is secure, and the cost of these numbers of key switches at
    /// some levels. Keys for levels up to `fitted` may have more special primes than keys for all
    /// levels.
    fn propose(
        self,
        fitted: Option<usize>,
        used: impl Iterator<Item = (f64, usize)>,
    ) -> Option<Proposal> {
        let leveled = fitted.is_none();
        let Self { log_n, q_bits, log2_scale, spare } = self;
        let room = Room::new(log_n).without(spare);
        let mut chain = room.complete(planner::chain(log_n, q_bits, log2_scale))?;
        if let Some(level) = fitted {
            chain.extra_p_bits =
                room.further_special_primes(&chain.q_bits[..=level], &chain.p_bits);
        }
        let all = [&chain.p_bits[..], &chain.extra_p_bits].concat();
        let cost_at = |level| room.switch_cost(&chain.q_bits[..=level], &all, chain.p_bits.len());
        let costs: Vec<f64> = (0..chain.q_bits.len()).map(cost_at).collect();
        let transforms: f64 = used.map(|(count, level)| count * costs[level]).sum();
        let cost = transforms * f64::from(log_n) * real::exp2(f64::from(log_n));
        Some(Proposal { cost, chain, leveled })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logreg::{Penalty, SigmoidApprox};
    use sudare::ckks::planner::SECURITY_BITS;

    /// The penalty of few rows needs larger primes than their inner products.
    #[test]
    fn tables_of_few_rows_and_many_columns_are_planned() {
        for (rows, features) in [(2, 4), (3, 8), (10, 16), (50, 64), (64, 255), (100, 256)] {
            let spec = TrainSpec::recommended(rows, features, Preparation::Whiten).unwrap();
            for penalty in [spec.penalty, Penalty::Alpha(0.5), Penalty::None] {
                let job = Job { rows, features, spec: TrainSpec { penalty, ..spec } };
                let params = TrainPlan::auto_params(&job).unwrap();
                assert!(params.rlwe().security_bits() >= SECURITY_BITS);
                let plan = TrainPlan::new(&job, &params);
                assert!(plan.is_ok(), "{rows} x {features}, {penalty:?}: {:?}", plan.err());
            }
        }
    }

    /// This includes primes that turn out larger than requested.
    #[test]
    fn proposed_parameters_are_secure() {
        for (rows, features) in (55..66).map(|features| (700, features)).chain([(398, 30)]) {
            let spec = TrainSpec::recommended(rows, features, Preparation::Whiten).unwrap();
            for range in [6.0, 8.0, 12.0, 16.0] {
                let sigmoid = SigmoidApprox { range, ..spec.sigmoid };
                let job = Job { rows, features, spec: TrainSpec { sigmoid, ..spec } };
                let params = TrainPlan::auto_params(&job).unwrap();
                assert!(params.rlwe().security_bits() >= SECURITY_BITS);
            }
        }
    }
}
