//! Parameters for scores by a given model.

use super::ScorePlan;
use crate::{
    Error, Result, SECURITY_BITS,
    logreg::{
        TrainError,
        budget::{self, Errors, room_bits, row_scale_bits, split},
        layout::Layout,
        score_job::{LARGEST_FEATURE, ScoreJob},
        special_primes::special_primes,
    },
};
use sudare::{
    ckks::{Params, Spec},
    rlwe::{SecretDistribution, max_log2_qp},
};
use sudare_arith::real;

/// `-log2` of the standard deviation of the error of a score that parameters are made for, with the
/// largest weights and features that there may be.
pub(super) const PRECISION_BITS: f64 = 17.0;

/// `log2` of the scale of the slots of a sigmoid.
const SIGMOID_LOG2_SCALE: f64 = 34.0;

/// Rings in which parameters are proposed.
const LOG_N: core::ops::RangeInclusive<u32> = 11..=17;

impl ScorePlan {
    /// The smallest ring and shortest chain for scores by a given model, at 128 bits of security.
    pub(in crate::logreg) fn params_of_given(job: &ScoreJob) -> Result<Params> {
        Self::params_for(job, PRECISION_BITS)
    }

    /// The same for errors of a given `-log2`.
    pub(super) fn params_for(job: &ScoreJob, precision_bits: f64) -> Result<Params> {
        job.model.check()?;
        let depth = job.model.probability().map(|p| p.sigmoid()).transpose()?.map(|f| f.depth());
        let largest_weight = job.model.largest_given_weight();
        let secret = SecretDistribution::UniformTernary;
        let mut spec = None;
        for log_n in LOG_N {
            let layout = match Layout::of_scores(job, log_n) {
                Err(Error::TooManyFeatures { .. }) if log_n < *LOG_N.end() => continue,
                other => other?,
            };
            let limit = max_log2_qp(log_n, secret, SECURITY_BITS);
            let (q_bits, log2_scale) =
                proposed(&layout, log_n, (largest_weight, precision_bits), depth);
            let p_bits = special_primes(&q_bits.concat(), limit);
            let fits = p_bits.is_some();
            spec = Some(Spec {
                log_n,
                log2_scale,
                q_bits,
                p_bits: p_bits.unwrap_or_else(|| vec![50.0]),
                upper: None,
                extra_p_bits: Vec::new(),
                secret,
                insecure: false,
            });
            if fits {
                break;
            }
        }
        // The last ring is refused for its security, with the figures.
        let spec = spec.ok_or(TrainError::Empty)?;
        Ok(Params::new(spec)?)
    }
}

/// Sizes of primes, and the default scale, for scores and, if there is one, a sigmoid of some
/// depth.
fn proposed(
    layout: &Layout,
    log_n: u32,
    (largest_weight, precision_bits): (f64, f64),
    depth: Option<u32>,
) -> (Vec<Vec<f64>>, f64) {
    let (entries, width) = (layout.entries as f64, layout.width as f64);
    let room = room_bits(layout.entries, largest_weight, LARGEST_FEATURE);
    // A bit more, since several errors add up.
    let precision = precision_bits + 1.0;
    let rows = row_scale_bits(layout.entries, largest_weight, log_n) + precision;
    let weights =
        Errors::new(log_n).fresh + real::log2(LARGEST_FEATURE * entries.sqrt()) + precision;
    let scores = match depth {
        Some(_) => SIGMOID_LOG2_SCALE,
        None => budget::rounding_bits(log_n) + real::log2(4.0 * width) / 2.0 + precision,
    };
    // Beside those of the polynomial one to bring its range to [-1, 1], and one to clear slots.
    let levels = depth.map_or(0, |depth| depth + 1 + u32::from(layout.width > 1));
    let mut q_bits = vec![split(scores + room)];
    q_bits.extend((0..levels).map(|_| vec![scores]));
    q_bits.push(split(rows + weights - scores));
    (q_bits, scores)
}
