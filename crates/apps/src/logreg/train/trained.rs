//! Scores by models that are trained under the same keys.

use crate::Result;
use crate::logreg::{
    plan::TrainPlan,
    score::{
        ScorePlan,
        job::{ScoreJob, ScoredModel},
    },
};
use sudare::ckks::Params;

impl ScorePlan {
    /// Plans the job for parameters, at the lowest levels that hold scores.
    ///
    /// # Errors
    /// [`Error::Train`](crate::Error::Train) with `Empty` for no rows or features, and with
    /// `Classes`; [`Error::TooManyFeatures`](crate::Error::TooManyFeatures);
    /// [`Error::NotScorable`](crate::Error::NotScorable) if the training leaves no level;
    /// [`Error::Precision`](crate::Error::Precision) if the primes are too small;
    /// [`Error::Library`](crate::Error::Library) for a sigmoid that no polynomial approximates, or
    /// that needs more levels; for a training, the errors of [`TrainPlan::new`].
    pub fn new(job: &ScoreJob, params: &Params) -> Result<Self> {
        match &job.model {
            ScoredModel::Trained(training) => {
                Self::trained(&TrainPlan::new(training, params)?, job.rows)
            }
            ScoredModel::Given { .. } | ScoredModel::Shared { .. } => Self::given(job, params),
        }
    }

    /// Plans to score `rows` rows by the model of a training.
    ///
    /// # Errors
    /// The errors of [`ScorePlan::new`].
    pub fn trained(training: &TrainPlan, rows: usize) -> Result<Self> {
        training.scoring(rows)
    }

    /// Returns the parameters of the smallest ring and the shortest chain for the job at 128 bits
    /// of security. For a trained model, returns the parameters of the training.
    ///
    /// # Errors
    /// The errors of [`ScorePlan::new`]; [`Error::Library`](crate::Error::Library) if no ring is
    /// large enough.
    pub fn auto_params(job: &ScoreJob) -> Result<Params> {
        match &job.model {
            ScoredModel::Trained(training) => TrainPlan::auto_params(training),
            ScoredModel::Given { .. } | ScoredModel::Shared { .. } => Self::params_of_given(job),
        }
    }
}
