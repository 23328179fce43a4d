//! Proposed parameters for scores by a given model.

use super::ScorePlan;
use crate::{
    Error, Result,
    logreg::{
        TrainError,
        budget::{level_of, room_bits, row_scale_bits},
        layout::Layout,
        score::job::{LARGEST_FEATURE, ScoreJob},
    },
};
use sudare::ckks::{
    Params,
    planner::{self, Errors, RINGS},
};
use sudare_arith::real;

/// `-log2` of the standard deviation of the error of a score that parameters are made for, with the
/// largest possible weights and features.
pub(super) const PRECISION_BITS: f64 = 17.0;

/// `log2` of the scale of the slots of a sigmoid.
const SIGMOID_LOG2_SCALE: f64 = 34.0;

impl ScorePlan {
    /// Returns the parameters of the smallest ring and the shortest chain for scores by a given
    /// model, at 128 bits of security.
    pub(in crate::logreg) fn params_of_given(job: &ScoreJob) -> Result<Params> {
        Self::params_for(job, PRECISION_BITS)
    }

    /// Returns such parameters for errors of this `-log2`.
    pub(super) fn params_for(job: &ScoreJob, precision_bits: f64) -> Result<Params> {
        job.model.check()?;
        let depth = job.model.probability().map(|p| p.sigmoid()).transpose()?.map(|f| f.depth());
        let largest_weight = job.model.largest_given_weight();
        let propose = |log_n| {
            let layout = match Layout::of_scores(job, log_n) {
                Err(Error::TooManyFeatures { .. }) if log_n < *RINGS.end() => return Ok(None),
                other => other?,
            };
            let (q_bits, log2_scale) =
                proposed(&layout, log_n, (largest_weight, precision_bits), depth);
            Ok::<_, Error>(Some(planner::chain(log_n, q_bits, log2_scale)))
        };
        let spec = planner::smallest(RINGS, propose)?.ok_or(TrainError::Empty)?;
        Ok(Params::new(spec)?)
    }
}

/// Returns sizes of primes, and the default scale, for scores and, if there is one, a sigmoid of
/// some depth.
fn proposed(
    layout: &Layout,
    log_n: u32,
    (largest_weight, precision_bits): (f64, f64),
    depth: Option<u32>,
) -> (Vec<Vec<f64>>, f64) {
    let entries = layout.entries as f64;
    let width = layout.width as f64;
    let room = room_bits(layout.entries, largest_weight, LARGEST_FEATURE);
    // One more bit, since several errors add up.
    let precision = precision_bits + 1.0;
    let rows = row_scale_bits(layout.entries, largest_weight, log_n) + precision;
    let weights =
        Errors::new(log_n).fresh + real::log2(LARGEST_FEATURE * entries.sqrt()) + precision;
    let scores = match depth {
        Some(_) => SIGMOID_LOG2_SCALE,
        None => Errors::new(log_n).rounding + real::log2(4.0 * width) / 2.0 + precision,
    };
    // The levels of the polynomial, one to map its range to [-1, 1], and one to clear slots.
    let levels = depth.map_or(0, |depth| depth + 1 + u32::from(layout.width > 1));
    let mut q_bits = vec![level_of(scores + room)];
    q_bits.extend((0..levels).map(|_| vec![scores]));
    q_bits.push(level_of(rows + weights - scores));
    (q_bits, scores)
}
