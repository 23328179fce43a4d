#![cfg_attr(
    not(test),
    allow(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        reason = "computes with what it made itself"
    )
)]

mod bootstrap;
mod circuit;
mod digits;
mod exact;
mod fma;
mod integers;
mod line;
mod matrices;
mod op;
mod options;
mod parties;
mod published;
mod rates;
mod refresh;
mod scheme;
mod strategies;
mod thesis;
mod timing;
mod trace;
mod values;

pub use options::Args;
pub use values::{horner, precision};

use crate::{commands::ways::Way, output::Output};
use op::{Family, Op};
use options::Numbers;
use std::collections::BTreeSet;
use sudare_roles::{error::Result, sets::Set};

/// Runs on the ambient threads; `threads` are those asked for.
pub fn run(args: &Args, threads: &[usize], output: Output) -> Result<()> {
    let ops = args.operations();
    args.check(&ops)?;
    let params = args.params.as_deref().unwrap_or_default();
    let list = |numbers: &Option<Numbers>| {
        numbers.as_ref().map_or_else(Vec::new, |Numbers(all)| all.clone())
    };
    // In the order of families: what takes longest comes last.
    let families: BTreeSet<Family> = ops.iter().map(|op| op.family()).collect();
    for family in families {
        let ops: Vec<Op> = ops.iter().copied().filter(|op| op.family() == family).collect();
        match family {
            Family::Scheme => scheme::run(args, &ops, output)?,
            Family::Trace => {
                let options = trace::Options {
                    m: list(&args.m),
                    levels: list(&args.level),
                    special: list(&args.special),
                    h: list(&args.h),
                    runs: args.runs,
                };
                trace::run(&options, output)?;
            }
            Family::Fma => fma::run(args.runs, output)?,
            Family::Strategies => {
                let options = strategies::Options {
                    params: args.params.as_deref(),
                    ops: args.op.clone(),
                    levels: list(&args.level),
                    threads: threads.to_vec(),
                    runs: args.runs,
                };
                strategies::run(&options, output)?;
            }
            Family::Bootstrap => {
                let options = bootstrap::Options {
                    log_slots: &list(&args.log_slots),
                    ciphertexts: args.ciphertexts.unwrap_or(1) as usize,
                    small_keys: args.small_keys,
                    profile: args.profile,
                    runs: args.runs,
                    force: args.force,
                };
                let set = Set::bootstrapping(params)?;
                bootstrap::run(&set, &options, output)?;
            }
            Family::Exact => {
                let level = args.single_level();
                let options = exact::Options { params, level, ops: &ops, runs: args.runs };
                exact::run(&options, output)?;
            }
            Family::SlimBootstrap | Family::FullBootstrap => {
                let options = refresh::Options {
                    ciphertexts: args.ciphertexts.unwrap_or(1) as usize,
                    runs: args.runs,
                    small_keys: args.small_keys,
                    force: args.force,
                };
                let full = family == Family::FullBootstrap;
                let way = if full { Way::full(params) } else { Way::slim(params) }?;
                refresh::run(&way, &options, output)?;
            }
            Family::Digits => digits::run(args.params.as_deref(), args.runs, output)?,
            Family::Integers => {
                let rounds = args.rounds.unwrap_or(sudare_integers::aes::ROUNDS);
                let options = integers::Options { params, ops: &ops, runs: args.runs, rounds };
                integers::run(&options, output)?;
            }
        }
    }
    Ok(())
}
