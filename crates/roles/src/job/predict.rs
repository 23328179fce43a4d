use super::{Plan, RequiredInputs, TableJob, not_shared};
use crate::{error::Result, plan::price::GROUPS_AT_ONCE};
use std::fmt;
use sudare::{circuits::ckks::cost::Work, ckks::Params};
use sudare_apps::{
    TablePlan, ciphertext_bytes,
    logreg::{Job, Probability, ScoreJob, ScorePlan, ScoredModel, TrainSpec},
};

impl TableJob for ScoreJob {
    fn kind(&self) -> &'static str {
        "predict"
    }

    fn shape(&self) -> (usize, usize) {
        (self.rows, self.model.features())
    }

    fn required_inputs(&self) -> RequiredInputs {
        RequiredInputs { model: true, ..RequiredInputs::default() }
    }

    fn training(&self) -> Option<&TrainSpec> {
        Some(&self.trained()?.spec)
    }

    fn trained(&self) -> Option<&Job> {
        match &self.model {
            ScoredModel::Trained(training) => Some(training),
            ScoredModel::Given { .. } | ScoredModel::Shared { .. } => None,
        }
    }

    fn auto_params(&self) -> Result<Params> {
        Ok(ScorePlan::auto_params(self)?)
    }

    fn shared_params(&self, bits: u32) -> Result<Params> {
        match self.model {
            ScoredModel::Shared { .. } => Ok(ScorePlan::shared_params(self, bits)?),
            // Released scores need a public range, and only a shared model states one.
            ScoredModel::Given { .. } | ScoredModel::Trained(_) => Err(not_shared()),
        }
    }

    fn plan(&self, params: &Params) -> Result<Plan> {
        Ok(Plan::Predict(Box::new(ScorePlan::new(self, params)?)))
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, model } = self;
        write!(f, "{}", self.named(*rows, model.features()))?;
        match model {
            ScoredModel::Trained(training) => {
                write!(f, ", after ")?;
                training.describe(f)
            }
            ScoredModel::Shared { classes, range, .. } => {
                several(*classes, f)?;
                write!(f, ", for others up to a score of {range}")
            }
            ScoredModel::Given { classes, probability, .. } => {
                several(*classes, f)?;
                match probability {
                    Some(Probability { range, bits }) => {
                        write!(f, ", probabilities to {bits} bits up to a score of {range}")
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

/// Writes the number of classes if there are more than two.
fn several(classes: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match classes {
        2 => Ok(()),
        _ => write!(f, ", {classes} classes"),
    }
}

/// Returns the work and the bytes held at a time for an encrypted model, which costs more than a
/// plain one.
pub(super) fn demand(plan: &ScorePlan) -> Result<(Work, u64)> {
    let params = plan.params();
    let rows = plan.group_len().saturating_mul(plan.groups().min(GROUPS_AT_ONCE));
    // The scores of all groups stay in memory until their file is written.
    let scores = plan.output_shapes().map(|(level, _)| ciphertext_bytes(params, level));
    let held = (rows as u64)
        .saturating_mul(ciphertext_bytes(params, plan.input().0))
        .saturating_add(scores.sum::<u64>().saturating_mul(plan.groups() as u64));
    Ok((plan.work()?, held))
}
