//! Limits on the work of planning. Readers of a file plan the job that its label describes, so the
//! label must not cause unlimited work.

use crate::{Error, Result};

/// Maximum number of simulated slots, over all ciphertexts, levels and iterations of a plan.
const MAX_SLOTS: u64 = 1 << 25;

/// Maximum number of slots of the maps of a bootstrapping, over all levels that it is planned for.
const MAX_REFRESHED: u64 = 1 << 18;

/// Rejects the simulation of `ciphertexts` ciphertexts of `slots` slots, repeated `times` times, if
/// it exceeds the limit.
///
/// # Errors
/// [`Error::TooMuchWork`].
pub(super) fn simulated(times: usize, ciphertexts: usize, slots: usize) -> Result<()> {
    let found = [times, ciphertexts, slots].iter().fold(1, |product: u64, &factor| {
        product.saturating_mul(u64::try_from(factor).unwrap_or(u64::MAX))
    });
    check(found, MAX_SLOTS)
}

/// Rejects planning a bootstrapping of `slots` slots, repeated `times` times, if it exceeds the
/// limit.
///
/// # Errors
/// [`Error::TooMuchWork`].
pub(super) fn refreshed(times: usize, slots: usize) -> Result<()> {
    check((times as u64).saturating_mul(slots as u64), MAX_REFRESHED)
}

fn check(found: u64, limit: u64) -> Result<()> {
    if found > limit { Err(Error::TooMuchWork { found, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logreg::{
        ClassWeights, Job, ScoreJob, ScorePlan, ScoredModel, TrainPlan, TrainSpec,
    };
    use sudare::ckks::{Params, Spec};

    fn chain(log_n: u32, levels: usize) -> Params {
        let spec = Spec::uniform(log_n, 50.0, levels, 30.0, vec![50.0]);
        Params::new(Spec { insecure: true, ..spec }).unwrap()
    }

    #[test]
    fn hostile_shapes_are_refused_before_they_are_planned() {
        let too_much =
            |error: Error| assert!(matches!(error, Error::TooMuchWork { .. }), "{error}");
        // Rows of many pieces, at many levels.
        let params = chain(14, 100);
        let model = ScoredModel::Given { features: 4000, classes: 2, probability: None };
        let job = ScoreJob { rows: 1 << 16, model };
        too_much(ScorePlan::new(&job, &params).unwrap_err());
        // The same, with refreshed weights.
        let spec = TrainSpec {
            iterations: 1000,
            class_weights: Some(ClassWeights::Balanced),
            ..TrainSpec::default()
        };
        let job = Job { rows: 1 << 16, features: 4000, spec };
        too_much(TrainPlan::new(&job, &params).unwrap_err());
        for (times, ciphertexts) in [(usize::MAX, 2), (1 << 20, 1 << 10)] {
            too_much(simulated(times, ciphertexts, 1).unwrap_err());
        }
        too_much(refreshed(usize::MAX, usize::MAX).unwrap_err());
        assert_eq!(simulated(4, 128, 1 << 15), Ok(()));
        assert_eq!(refreshed(100, 512), Ok(()));
    }
}
