//! The choices that determine a plan.

use std::sync::Arc;

use sudare::{circuits::ckks::Polynomial, ckks::Params};

use super::{
    affine::Stage,
    error::Result,
    layout::{Layout, layouts},
    options::{Options, Packing},
    ranges::Ranges,
};

/// A network with its ranges and options: all choices of a plan.
#[derive(Clone)]
pub(super) struct Job {
    pub(super) ranges: Ranges,
    pub(super) options: Options,
    pub(super) stages: Arc<Vec<Stage>>,
    /// The places of each value in slots, if a ciphertext holds a sample: of the sample, and of the
    /// result of each stage.
    pub(super) layouts: Vec<Layout>,
    /// The polynomial that replaces the function of each stage. Squares have none.
    pub(super) polynomials: Vec<Option<Polynomial>>,
}

impl Job {
    pub(super) fn new(stages: Vec<Stage>, ranges: &Ranges, options: Options) -> Result<Self> {
        ranges.check_stages(&stages)?;
        let ranges = ranges.clone().with_fits(&stages);
        options.check()?;
        let polynomials = ranges.polynomials(&stages)?;
        let layouts = match options.packing {
            Packing::Features => Vec::new(),
            Packing::Sample => layouts(&stages),
        };
        Ok(Self { ranges, options, stages: Arc::new(stages), layouts, polynomials })
    }

    /// Returns `log2` of the slots of the widest value, if a ciphertext holds a sample.
    pub(super) fn log2_slots(&self) -> u32 {
        self.layouts.iter().map(Layout::slots).max().unwrap_or(1).ilog2()
    }

    /// Returns the number of samples of one run.
    pub(super) fn slots(&self, params: &Params) -> usize {
        match self.options.packing {
            Packing::Features => params.max_slots().min(self.options.samples.next_power_of_two()),
            Packing::Sample => 1,
        }
    }
}
