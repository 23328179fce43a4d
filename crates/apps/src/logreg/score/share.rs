//! Scores that others than the owner of the key may see.

use super::{ScorePlan, propose::PRECISION_BITS};
use crate::{
    Result,
    logreg::{
        score_job::{ScoreJob, ScoredModel},
        spec::{TrainError, TrainSpec},
    },
    release::{DECODING_ERROR, precise_params},
};
use sudare::ckks::{Params, Release};
use sudare_arith::prng::Seed;

impl ScorePlan {
    /// The smallest ring and shortest chain at 128 bits of security with as much precision as
    /// [`ScorePlan::share`] to `bits` bits takes, for a job of [`ScoredModel::Shared`].
    ///
    /// # Errors
    /// The errors of [`ScorePlan::auto_params`]; [`TrainError::SharedBits`] unless there are 1 to
    /// [`TrainSpec::MAX_SHARED_BITS`] bits; [`Error::Library`](crate::Error::Library) with
    /// `TooLittlePrecision` for other jobs, and for more bits, rows or a larger range than `f64`
    /// has digits for.
    pub fn shared_params(job: &ScoreJob, bits: u32) -> Result<Params> {
        check_bits(bits)?;
        job.model.check()?;
        // Encryption has as much room as decoding takes: with less, moduli grow for nothing.
        let found = match job.model {
            ScoredModel::Shared { range, .. } => 2.0 * DECODING_ERROR * range,
            ScoredModel::Given { .. } | ScoredModel::Trained(_) => f64::INFINITY,
        };
        let needed = largest_error(job, bits);
        if found > needed {
            return Err(sudare::Error::TooLittlePrecision { bits, found, needed }.into());
        }
        let errors = |params: &Params| {
            let plan = Self::new(job, params)?;
            Ok((plan.largest_error(), plan.largest_shared_error(bits)))
        };
        precise_params(PRECISION_BITS, bits, |precision| Self::params_for(job, precision), errors)
    }

    /// The largest error of scores with which those of all rows can be shared to `bits` bits.
    #[must_use]
    pub fn largest_shared_error(&self, bits: u32) -> f64 {
        largest_error(&self.job, bits)
    }

    /// What noise has to hide: infinite for models whose scores no range is known of.
    fn error_to_hide(&self) -> f64 {
        match self.job.model {
            ScoredModel::Shared { .. } => self.largest_error,
            ScoredModel::Given { .. } | ScoredModel::Trained(_) => f64::INFINITY,
        }
    }

    /// Decoded scores as others than the owner of the key may see them: with noise that hides their
    /// errors, to `bits` bits after the binary point; see [`Release`]. Those of all rows are one of
    /// the 1024 releases of a key, and one seed serves one of them.
    ///
    /// # Errors
    /// [`TrainError::SharedBits`]; [`Error::Library`](crate::Error::Library) with
    /// `TooLittlePrecision` for other jobs than those of [`ScoredModel::Shared`], and for more bits
    /// than the parameters have precision for.
    pub fn share(&self, scores: &[Vec<f64>], bits: u32, noise: &Seed) -> Result<Vec<Vec<f64>>> {
        check_bits(bits)?;
        let values = scores.concat();
        let shared = Release::default().values(&values, self.error_to_hide(), bits, noise)?;
        let mut shared = shared.into_iter();
        Ok(scores.iter().map(|scores| shared.by_ref().take(scores.len()).collect()).collect())
    }
}

fn largest_error(job: &ScoreJob, bits: u32) -> f64 {
    Release::default().largest_error(job.rows.saturating_mul(job.model.models()), bits)
}

fn check_bits(bits: u32) -> Result<()> {
    match bits {
        1..=TrainSpec::MAX_SHARED_BITS => Ok(()),
        found => Err(TrainError::SharedBits { found }.into()),
    }
}
