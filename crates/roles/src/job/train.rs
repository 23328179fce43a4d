use super::{RequiredInputs, TableJob};
use crate::{error::Result, plan::price::MAX_SHARE_BYTES};
use std::fmt;
use sudare::{circuits::ckks::cost::Work, ckks::Params};
use sudare_apps::{
    TablePlan, ciphertext_bytes,
    logreg::{ClassWeights, Job, Penalty, Preparation, TrainPlan, TrainSpec},
};

impl TableJob for Job {
    fn kind(&self) -> &'static str {
        "train"
    }

    fn shape(&self) -> (usize, usize) {
        (self.rows, self.features)
    }

    fn required_inputs(&self) -> RequiredInputs {
        let class_weights = self.spec.class_weights == Some(ClassWeights::Given);
        RequiredInputs { labels: true, class_weights, ..RequiredInputs::default() }
    }

    fn training(&self) -> Option<&TrainSpec> {
        Some(&self.spec)
    }

    fn auto_params(&self) -> Result<Params> {
        Ok(TrainPlan::auto_params(self)?)
    }

    /// Returns the parameters of the job, whose settings say whether its weights are released.
    fn shared_params(&self, _bits: u32) -> Result<Params> {
        self.auto_params()
    }

    fn plan(&self, params: &Params) -> Result<super::Plan> {
        Ok(super::Plan::Train(Box::new(TrainPlan::new(self, params)?)))
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = &self.spec;
        write!(f, "{}, {} iterations", self.named(self.rows, self.features), spec.iterations)?;
        if let Some(batch) = spec.batch {
            write!(f, " of {batch} rows")?;
        }
        if spec.classes > 2 {
            write!(f, ", {} classes", spec.classes)?;
        }
        let prepared = match spec.preparation {
            Preparation::Whiten => "whitened",
            Preparation::Standardize => "standardized",
            Preparation::Scale => "scaled",
        };
        write!(f, ", {prepared} columns")?;
        match spec.penalty {
            Penalty::None => {}
            Penalty::Alpha(alpha) => write!(f, ", L2 penalty {alpha}")?,
            Penalty::C(c) => write!(f, ", C = {c}")?,
        }
        match spec.class_weights {
            Some(ClassWeights::Balanced) => write!(f, ", balanced class weights")?,
            Some(ClassWeights::Given) => write!(f, ", given class weights")?,
            None => {}
        }
        match spec.tables {
            1 => Ok(()),
            tables => write!(f, ", {tables} tables"),
        }
    }
}

/// The work, and the bytes held at a time: the rows of a share and of the next, and the matrices of
/// bootstrapping.
pub(super) fn demand(plan: &TrainPlan) -> Result<(Work, u64)> {
    let params = plan.params();
    let iterations = 0..plan.job().spec.iterations;
    let batches = iterations.map(|iteration| {
        let (level, _) = plan.input(plan.batches().of(iteration));
        let ciphertexts = plan.batch(iteration).len() as u64;
        ciphertexts.saturating_mul(ciphertext_bytes(params, level))
    });
    let share = batches.max().unwrap_or(0).min(MAX_SHARE_BYTES);
    let work = plan.work()?;
    // All matrices are read at least once.
    let matrices =
        work.matrix_bytes.checked_div(plan.bootstraps().into()).unwrap_or(work.matrix_bytes);
    // Doubled: the next share is read while the current one is computed with.
    let held = share.saturating_mul(2).saturating_add(matrices);
    Ok((work, held))
}
