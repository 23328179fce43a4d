use super::{
    budget::{Budget, Scales, Sigmoid},
    reference::{TrainError, TrainSpec, schedule},
};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use sudare::{
    circuits::sim,
    ckks::{Chain, Complex, Params, Scale, Spec},
    rlwe::{KeyRequest, Level, SecretDistribution, max_log2_qp},
};

/// Security of the parameters that a plan proposes, in bits.
const SECURITY_BITS: f64 = 128.0;

/// `-log2` of the standard deviations of errors of weights, each on its own, that proposed
/// parameters are made for. Several add up, so the largest error of a weight is some 2^-14.
const PROPOSED_PRECISION_BITS: f64 = 17.0;

/// The same for parameters that a plan accepts: weights come within some 2^-10.
const LEAST_PRECISION_BITS: f64 = 13.0;

/// Rings in which parameters are proposed.
const LOG_N: core::ops::RangeInclusive<u32> = 10..=17;

/// More iterations than any chain of at most 128 primes can take.
const MOST_ITERATIONS: u32 = 64;

/// What is public about a training: the shape of the table, and how to train.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Rows of the table, at least 1.
    pub rows: usize,
    /// Feature columns, at least 1; the intercept and the target do not count.
    pub features: usize,
    /// How to train.
    pub spec: TrainSpec,
}

/// How a table lies in ciphertexts: each row begins a block of slots, its `features + 1` entries
/// first and zeros after them; the number of blocks is a power of two, and those without a row
/// are 0.
///
/// Blocks are at least twice as long as rows, so that sums over the slots around an entry reach
/// all entries of its row and none of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub rows: usize,
    /// Entries of a row with its intercept.
    pub entries: usize,
    /// Slots of a block: twice the next power of two of `entries`.
    pub block: usize,
    /// Blocks of a ciphertext.
    pub blocks: usize,
    pub ciphertexts: usize,
}

impl Layout {
    fn new(job: &Job, log_n: u32) -> Result<Self> {
        let (rows, features) = (job.rows, job.features);
        if rows == 0 || features == 0 {
            return Err(TrainError::Empty.into());
        }
        let slots = 1usize << (log_n - 1);
        let fit = (slots / 2).saturating_sub(1);
        if features > fit {
            return Err(Error::TooManyFeatures { found: features, log_n, fit });
        }
        let entries = features + 1;
        let block = 2 * entries.next_power_of_two();
        let most = slots / block;
        let blocks = rows.min(most).next_power_of_two();
        Ok(Self { rows, entries, block, blocks, ciphertexts: rows.div_ceil(blocks) })
    }

    pub fn slots(&self) -> usize {
        self.block * self.blocks
    }

    /// Rotations, each followed by a sum with what was rotated, that put the sum of a row into
    /// each of its entries.
    pub fn row_sums(&self) -> impl Iterator<Item = i64> {
        let half = (self.block / 2) as i64;
        core::iter::once(-half).chain(powers_of_two(1, half))
    }

    /// The same, that put the sum of all blocks into each block.
    pub fn block_sums(&self) -> impl Iterator<Item = i64> {
        powers_of_two(self.block as i64, self.slots() as i64)
    }
}

/// `start, 2 start, 4 start, …` below `end`.
fn powers_of_two(start: i64, end: i64) -> impl Iterator<Item = i64> {
    core::iter::successors(Some(start), |k| Some(2 * k)).take_while(move |&k| k < end)
}

/// A [`Job`] laid out for parameters: how rows are encrypted, which keys the server needs, and
/// every scale of the computation. It holds nothing secret.
///
/// Training computes what [`super::reference::train`] does, without bootstrapping. The first two
/// iterations are a sum of all rows; each one after takes 3 levels at degree 3 of the sigmoid and
/// 4 at degrees 5 and 7. Weights must stay below 16 in absolute value, or below the learning rate
/// of the second iteration if that is larger: nobody can see on the server if they do not.
///
/// Key switches: `log2(blocks)` for the sum of all rows and as many in each iteration, and
/// `log2(block) + 4` for each ciphertext and iteration at degree 3, where a block takes the slots
/// of a row: 2 to 4 times `features + 1`.
///
/// Reference: Han, "Bootstrapping Methods for Homomorphic Encryption", Seoul National University,
/// chapter 6, algorithm 7. Deviations: blocks are twice as long as rows, so that nothing is masked
/// after sums; constants are absorbed into scales, which with that makes 3 levels an iteration
/// instead of 5; sums over rows and slots are taken after rescaling, where they are cheaper, at
/// scales that allow for their errors.
#[derive(Debug, Clone)]
pub struct TrainPlan {
    pub(super) job: Job,
    pub(super) params: Params,
    pub(super) layout: Layout,
    pub(super) sigmoid: Sigmoid,
    pub(super) scales: Scales,
    /// Of encrypted rows.
    pub(super) level: Level,
    keys: KeyRequest,
}

impl TrainPlan {
    /// Plans a job for parameters, of which it uses the lowest levels.
    ///
    /// # Errors
    /// [`Error::Train`] for a bad specification or an empty table; [`Error::TooManyFeatures`];
    /// [`Error::TooManyIterations`], which names the number that fits; [`Error::Precision`] if the
    /// primes are too small to come within 2^-10 of training in the clear; [`Error::Engine`] if a
    /// value would not fit the modulus.
    pub fn new(job: &Job, params: &Params) -> Result<Self> {
        let log_n = params.log_n();
        let (layout, sigmoid) = check(job, log_n)?;
        let (top, levels) = (params.top().0, sigmoid.levels());
        let full = job.spec.iterations.saturating_sub(2);
        if full > top / levels {
            return Err(Error::TooManyIterations {
                found: job.spec.iterations,
                needed: u64::from(full) * u64::from(levels),
                log_n,
                fit: 2 + top / levels,
            });
        }
        let schedule = schedule(&job.spec);
        let budget = Budget { layout: &layout, sigmoid: &sigmoid, schedule: &schedule, log_n };
        let (level, scales) = (Level(budget.depth()), budget.scales(params.chain()));
        if scales.precision_bits.is_nan() || scales.precision_bits < LEAST_PRECISION_BITS {
            return Err(Error::Precision {
                what: "a trained weight",
                found: scales.precision_bits,
                needed: LEAST_PRECISION_BITS,
            });
        }
        let keys = KeyRequest::new();
        let params = params.clone();
        let mut plan = Self { job: *job, params, layout, sigmoid, scales, level, keys };
        plan.keys = plan.dry_run()?;
        Ok(plan)
    }

    /// Parameters in the smallest ring that is secure at 128 bits with a uniform ternary secret
    /// and a modulus long enough for the job.
    ///
    /// # Errors
    /// [`Error::Train`]; [`Error::TooManyFeatures`] and [`Error::TooManyIterations`] if even the
    /// ring of dimension 2^17 is too small, the latter naming the iterations that fit;
    /// [`Error::Engine`] if there are too few primes.
    pub fn auto_params(job: &Job) -> Result<Params> {
        let largest = *LOG_N.end();
        let (_, sigmoid) = check(job, largest)?;
        if job.spec.iterations <= MOST_ITERATIONS {
            for log_n in LOG_N {
                if let Some(spec) = propose(job, log_n)? {
                    return Ok(Params::new(spec)?);
                }
            }
        }
        let fits = |&iterations: &u32| {
            let job = Job { spec: TrainSpec { iterations, ..job.spec }, ..*job };
            propose(&job, largest).is_ok_and(|spec| spec.is_some())
        };
        let found = job.spec.iterations;
        Err(Error::TooManyIterations {
            found,
            needed: u64::from(found.saturating_sub(2)) * u64::from(sigmoid.levels()),
            log_n: largest,
            fit: (1..found.min(MOST_ITERATIONS)).rev().find(fits).unwrap_or(0),
        })
    }

    /// The job.
    #[must_use]
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The keys that the server needs, each at the highest level of its use.
    #[must_use]
    pub fn required_keys(&self) -> &KeyRequest {
        &self.keys
    }

    /// Ciphertexts of the encrypted table.
    #[must_use]
    pub fn ciphertexts(&self) -> usize {
        self.layout.ciphertexts
    }

    /// Level and scale of the encrypted table.
    #[must_use]
    pub fn input(&self) -> (Level, Scale) {
        (self.level, self.scales.data)
    }

    /// Trains on zeros, to learn which keys are used where.
    fn dry_run(&self) -> Result<KeyRequest> {
        let chain: Chain = self.params.chain().clone();
        let e = sim::Evaluator::new(self.params.log_n(), chain);
        let zeros = e.encrypt(&[Complex::default()], self.level, self.scales.data)?;
        let data = vec![zeros; self.layout.ciphertexts.min(2)];
        let mut training = self.sum_rows(&e, &data)?;
        while training.iteration < self.job.spec.iterations {
            self.iterate(&e, &data, &mut training)?;
        }
        Ok(e.used_keys())
    }
}

fn check(job: &Job, log_n: u32) -> Result<(Layout, Sigmoid)> {
    job.spec.check()?;
    Ok((Layout::new(job, log_n)?, Sigmoid::new(&job.spec.sigmoid)?))
}

/// Parameters for a job in a ring, if they are secure there.
fn propose(job: &Job, log_n: u32) -> Result<Option<Spec>> {
    let (layout, sigmoid) = match check(job, log_n) {
        Err(Error::TooManyFeatures { .. }) => return Ok(None),
        other => other?,
    };
    let schedule = schedule(&job.spec);
    let budget = Budget { layout: &layout, sigmoid: &sigmoid, schedule: &schedule, log_n };
    let q_bits = budget.prime_bits(PROPOSED_PRECISION_BITS);
    let limit = max_log2_qp(log_n, SecretDistribution::UniformTernary, SECURITY_BITS);
    Ok(special_primes(&q_bits.concat(), limit).map(|p_bits| Spec {
        log_n,
        log2_scale: PROPOSED_PRECISION_BITS + f64::from(log_n),
        q_bits,
        p_bits,
        secret: SecretDistribution::UniformTernary,
        insecure: false,
    }))
}

/// Sizes of special primes for the fastest key switching at the top level of a chain, if the
/// modulus with them can stay below `2^limit`.
fn special_primes(q_bits: &[f64], limit: f64) -> Option<Vec<f64>> {
    /// Above the product of a digit's primes: keeps what key switching adds below rounding errors.
    const MARGIN_BITS: f64 = 4.0;
    /// Special primes up to this size have the fastest kernels.
    const PRIME_BITS: f64 = 50.0;
    /// Primes are not exactly as large as asked for.
    const SLACK_BITS: f64 = 0.5;
    let log2_q: f64 = q_bits.iter().sum();
    (1..=q_bits.len())
        .map(|alpha| {
            let digits = q_bits.chunks(alpha).map(|digit| digit.iter().sum::<f64>());
            (alpha, digits.fold(0.0, f64::max) + MARGIN_BITS)
        })
        .filter(|(_, log2_p)| log2_q + log2_p + SLACK_BITS <= limit)
        .map(|(alpha, log2_p)| {
            let count = (log2_p / PRIME_BITS).ceil();
            // Transforms: raising each digit, and dividing two polynomials by P.
            let cost = (q_bits.len() + count as usize) * (q_bits.len().div_ceil(alpha) + 2);
            (cost, vec![log2_p / count; count as usize])
        })
        .min_by_key(|&(cost, _)| cost)
        .map(|(_, p_bits)| p_bits)
}
