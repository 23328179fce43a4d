//! The choices that determine a plan.

use sudare::{circuits::ckks::Polynomial, ckks::Params};

use super::{
    affine::Stage,
    error::Result,
    options::{Options, Packing},
    ranges::Ranges,
};

/// A network with its ranges and options: all choices of a plan.
#[derive(Clone)]
pub(super) struct Job<'a> {
    pub(super) ranges: &'a Ranges,
    pub(super) options: Options,
    pub(super) stages: Vec<Stage>,
    /// The polynomial that replaces the function of each stage. Squares have none.
    pub(super) polynomials: Vec<Option<Polynomial>>,
}

impl<'a> Job<'a> {
    pub(super) fn new(stages: Vec<Stage>, ranges: &'a Ranges, options: Options) -> Result<Self> {
        ranges.check_stages(&stages)?;
        options.check()?;
        let polynomials = ranges.polynomials(&stages)?;
        Ok(Self { ranges, options, stages, polynomials })
    }

    /// Returns `log2` of the slots of the widest matrix.
    pub(super) fn log2_slots(&self) -> u32 {
        let widths = |stage: &Stage| {
            let sources = stage.sources.iter().map(|source| source.width);
            sources.chain([stage.affine.rows.len()]).max()
        };
        let widest = self.stages.iter().filter_map(widths).max();
        match self.options.packing {
            Packing::Features => 0,
            Packing::Sample => widest.unwrap_or(1).next_power_of_two().ilog2(),
        }
    }

    /// Returns the number of samples of one run.
    pub(super) fn slots(&self, params: &Params) -> usize {
        match self.options.packing {
            Packing::Features => params.max_slots().min(self.options.samples.next_power_of_two()),
            Packing::Sample => 1,
        }
    }
}
