use super::{TableJob, TablePlan, Takes};
use crate::{
    error::Result,
    price::{MOST_SHARE_BYTES, Price, ciphertext_bytes},
};
use core::iter::repeat_n;
use std::fmt;
use sudare::{
    ckks::{Params, Scale},
    rlwe::{KeyRequest, Level},
};
use sudare_apps::logreg::{ClassWeights, Job, Penalty, Preparation, TrainPlan, TrainSpec};

impl TableJob for Job {
    fn kind(&self) -> &'static str {
        "train"
    }

    fn shape(&self) -> (usize, usize) {
        (self.rows, self.features)
    }

    fn takes(&self) -> Takes {
        let class_weights = self.spec.class_weights == Some(ClassWeights::Given);
        Takes { labels: true, class_weights, ..Takes::default() }
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

impl TablePlan for TrainPlan {
    fn command(&self) -> &'static str {
        "train"
    }

    fn required_keys(&self) -> &KeyRequest {
        self.required_keys()
    }

    fn bootstraps(&self) -> u32 {
        self.bootstraps(self.job().spec.iterations)
    }

    fn ciphertexts(&self) -> usize {
        self.ciphertexts()
    }

    fn table_bytes(&self) -> Result<u64> {
        Ok(self.shapes().map(|shape| ciphertext_bytes(self.params(), shape.level)).sum())
    }

    fn outputs(&self) -> usize {
        self.job().spec.models()
    }

    fn result_shapes(&self, iterations: u32) -> Result<Vec<(Level, Scale)>> {
        let kept = self.snapshot_shapes(iterations);
        let all = core::iter::once(self.output_after(iterations)).chain(kept);
        Ok(all.flat_map(|shape| repeat_n(shape, self.job().spec.models())).collect())
    }

    /// Accepts every plan: the job's own plan covers releases.
    fn expect_shared(&self, _bits: u32) -> Result<()> {
        Ok(())
    }

    /// Holds the rows of a share and of the next one, and the matrices of bootstrapping.
    fn price(&self, threads: usize) -> Result<Price> {
        let params = self.params();
        let iterations = 0..self.job().spec.iterations;
        let batches = iterations.map(|iteration| {
            let (level, _) = self.input(self.batches().of(iteration));
            let ciphertexts = self.batch(iteration).len() as u64;
            ciphertexts.saturating_mul(ciphertext_bytes(params, level))
        });
        let share = batches.max().unwrap_or(0).min(MOST_SHARE_BYTES);
        let work = self.work()?;
        // Bootstrapping reads all matrices at least once.
        let bootstraps = self.bootstraps(self.job().spec.iterations);
        let matrices =
            work.matrix_bytes.checked_div(bootstraps.into()).unwrap_or(work.matrix_bytes);
        let held = share.saturating_mul(2).saturating_add(matrices);
        Price::new(params, self.required_keys(), work, held, threads)
    }
}
