use super::{Plan, TableJob, TablePlan, Takes, expect_precise, not_shared};
use crate::{
    error::Result,
    price::{GROUPS_AT_ONCE, Price, ciphertext_bytes},
};
use core::iter::repeat_n;
use std::fmt;
use sudare::{
    ckks::{Params, Scale},
    rlwe::{KeyRequest, Level},
};
use sudare_apps::logreg::{Job, Probability, ScoreJob, ScorePlan, ScoredModel, TrainSpec};

impl TableJob for ScoreJob {
    fn kind(&self) -> &'static str {
        "predict"
    }

    fn shape(&self) -> (usize, usize) {
        (self.rows, self.model.features())
    }

    fn takes(&self) -> Takes {
        Takes { model: true, ..Takes::default() }
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

impl TablePlan for ScorePlan {
    fn command(&self) -> &'static str {
        "predict"
    }

    fn required_keys(&self) -> &KeyRequest {
        self.required_keys()
    }

    fn ciphertexts(&self) -> usize {
        self.ciphertexts()
    }

    fn table_bytes(&self) -> Result<u64> {
        let each = ciphertext_bytes(self.params(), self.input().0);
        Ok(each.saturating_mul(self.ciphertexts() as u64))
    }

    fn outputs(&self) -> usize {
        self.groups().saturating_mul(self.outputs())
    }

    fn result_shapes(&self, _iterations: u32) -> Result<Vec<(Level, Scale)>> {
        let of_group: Vec<_> = self.output_shapes().collect();
        Ok(repeat_n(of_group, self.groups()).flatten().collect())
    }

    fn expect_shared(&self, bits: u32) -> Result<()> {
        match self.job().model {
            ScoredModel::Shared { .. } => {
                expect_precise(bits, self.largest_error(), self.largest_shared_error(bits))
            }
            ScoredModel::Given { .. } | ScoredModel::Trained(_) => Err(not_shared()),
        }
    }

    /// Prices an encrypted model, which is more work than a plain one.
    fn price(&self, threads: usize) -> Result<Price> {
        let params = self.params();
        let rows = self.group_len().saturating_mul(self.groups().min(GROUPS_AT_ONCE));
        let scores = self.output_shapes().map(|(level, _)| ciphertext_bytes(params, level));
        let held = (rows as u64)
            .saturating_mul(ciphertext_bytes(params, self.input().0))
            .saturating_add(scores.sum::<u64>().saturating_mul(self.groups() as u64));
        Price::new(params, self.required_keys(), self.work()?, held, threads)
    }
}
