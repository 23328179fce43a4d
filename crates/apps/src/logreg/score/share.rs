//! Scores for people other than the key's owner.

use super::{ScorePlan, propose::PRECISION_BITS};
use crate::{
    Result,
    logreg::{
        score::job::{ScoreJob, ScoredModel},
        spec::{TrainError, TrainSpec},
    },
    release::{DECODING_ERROR, precise_params},
};
use sudare::ckks::{Params, Release};
use sudare_arith::prng::Seed;

impl ScorePlan {
    /// Returns the parameters of the smallest ring and the shortest chain at 128 bits of security
    /// for a job of [`ScoredModel::Shared`]. They have the precision that [`ScorePlan::share`] to
    /// `bits` bits needs.
    ///
    /// # Errors
    /// The errors of [`ScorePlan::auto_params`]; [`TrainError::SharedBits`] unless there are 1 to
    /// [`TrainSpec::MAX_SHARED_BITS`] bits; [`Error::Library`](crate::Error::Library) with
    /// `TooLittlePrecision` for other jobs, and for more bits, rows or a larger range than `f64`
    /// has digits for.
    pub fn shared_params(job: &ScoreJob, bits: u32) -> Result<Params> {
        check_bits(bits)?;
        job.model.check()?;
        // The error of encryption may equal the error of decoding. A smaller one would enlarge
        // moduli without a benefit.
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

    /// Returns the largest error of scores with which the scores of all rows can be shared to
    /// `bits` bits.
    #[must_use]
    pub fn largest_shared_error(&self, bits: u32) -> f64 {
        largest_error(&self.job, bits)
    }

    /// Returns the error that noise has to hide. It is infinite for models without a known range of
    /// scores.
    fn error_to_hide(&self) -> f64 {
        match self.job.model {
            ScoredModel::Shared { .. } => self.largest_error,
            ScoredModel::Given { .. } | ScoredModel::Trained(_) => f64::INFINITY,
        }
    }

    /// Prepares decoded scores for people other than the key's owner. Noise that hides their errors
    /// is added, and they are rounded to `bits` bits after the binary point; see [`Release`]. The
    /// scores of all rows count as one of the 1024 releases of a key. Use a new seed for each
    /// release.
    ///
    /// # Errors
    /// [`TrainError::SharedBits`]; [`Error::Library`](crate::Error::Library) with
    /// `TooLittlePrecision` for jobs other than [`ScoredModel::Shared`], and for more bits than the
    /// precision of the parameters allows.
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
