//! Measurement of single operations and of bootstrapping, for `sudare bench` and for the program
//! `sudare-bench`, which adds circuits and reproductions of published measurements.
#![cfg_attr(
    not(test),
    allow(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        reason = "computes with what it made itself"
    )
)]

pub mod bootstrap;
pub mod exact;
pub(crate) mod exact_bootstrapping;
pub mod line;
pub mod op;
pub mod options;
pub mod parties;
mod rates;
pub mod refresh;
pub mod scheme;
pub mod timing;
pub mod values;

use crate::output::Output;
use exact_bootstrapping::Way;
use op::{Family, Op};
use options::Options;
use sudare::ckks::Params;
use sudare_roles::{error::Result, plan::sets::Set};

/// Published measurements of bootstrapping, which stand next to ours.
#[derive(Clone, Copy)]
pub struct Publications {
    /// Finds the row for a parameter set of CKKS and `log2` of a number of slots.
    pub bootstrap: fn(&str, u32) -> Option<bootstrap::Published>,
    /// Finds the row for a parameter set of BGV and BFV.
    pub refresh: fn(&str) -> Option<refresh::Published>,
}

impl Publications {
    /// No publication.
    pub const NONE: Self = Self { bootstrap: |_, _| None, refresh: |_| None };
}

/// Measures `ops`, all of `family`, and writes a line for each. The operands are at `level`, or at
/// the highest level.
///
/// # Errors
/// If the parameter set or the level does not fit, memory is too small, or a result is wrong.
pub fn run(
    family: Family,
    ops: &[Op],
    level: Option<u32>,
    options: &Options,
    publications: &Publications,
    output: Output,
) -> Result<()> {
    // `check` has refused operations without a set, so the name is empty only by a bug.
    let set = options.params.as_deref().unwrap_or_default();
    match family {
        Family::Scheme => {
            let preset = Set::named(set)?.into_preset();
            let params = Params::new(preset.spec)?;
            let level = scheme::level(&params, level, ops)?;
            let tasks: Vec<&dyn scheme::Task> =
                ops.iter().map(|op| op as &dyn scheme::Task).collect();
            let job = scheme::Job { set: &preset.name, params: &params, level, runs: options.runs };
            scheme::run(&job, &tasks, output)
        }
        Family::Exact => {
            let options = exact::Options { params: set, level, ops, runs: options.runs };
            exact::run(&options, output)
        }
        Family::Bootstrap => {
            let set = Set::bootstrapping(set)?;
            bootstrap::run(&set, options, publications.bootstrap, output)
        }
        Family::SlimBootstrap => {
            refresh::run(&Way::slim(set)?, options, publications.refresh, output)
        }
        Family::FullBootstrap => {
            refresh::run(&Way::full(set)?, options, publications.refresh, output)
        }
    }
}
