//! Arguments of the program.

use crate::{
    circuit::Timed,
    clt, digits, fma,
    matrices::{self, Matrices, Radix},
    op::{Family, Op, Own},
    published::PUBLICATIONS,
    strategies, trace,
};
use clap::{Parser, ValueEnum};
use std::collections::BTreeSet;
use sudare::{
    ckks::{Params, Preset},
    rlwe::Level,
};
use sudare_cli::{
    bench::{
        self,
        op::{Family as SharedFamily, Op as Shared},
        options::{Numbers, Options, check, check_log_slots, whole},
        scheme::{self, Task},
    },
    output::Output,
    program::{Common, Program},
};
use sudare_roles::{
    error::{Error, Result},
    plan::sets::Set,
};

/// Time operations, circuits and reproductions of published measurements, and check every result
///
/// Functions, statistics, transforms of the slots and bootstrapping run only if you name them: they
/// need parameter sets of their own or much memory.
///
/// Each run repeats its operation until it takes two milliseconds; times are per operation. A
/// wrong result ends the program with status 1.
#[derive(Debug, Parser)]
#[command(
    name = "sudare-bench",
    version,
    after_help = "Examples:\n  \
    sudare-bench mul_rescale rotate --params n15 --threads 1 --json\n  \
    sudare-bench inverse exp sigmoid --params functions-n14\n  \
    sudare-bench dft --log-slots 13 --radix 4\n  \
    sudare-bench bootstrap --params seal-boot-1 --log-slots 10..15 --runs 3\n  \
    sudare-bench clt_mul clt_bootstrap --params clt-500 --threads 2\n  \
    sudare-bench trace --m 15 --level 9 --special 1,5,10 --h 4..15 --threads 1\n  \
    sudare-bench strategies --op mult,rotate --levels 1..32 --threads 1,2 --json"
)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Operations; default: the single ones of CKKS
    #[arg(value_name = "OP")]
    ops: Vec<Op>,
    #[command(flatten)]
    options: Options,
    /// Level of the operands; default: the highest; for trace and strategies one or several, such as
    /// 1,4,9 or 1..32
    #[arg(long, visible_alias = "levels", value_name = "L", allow_negative_numbers = true)]
    level: Option<Numbers>,
    /// Values that each factor of dft combines, a power of two; default: 4
    #[arg(long, value_name = "R")]
    radix: Option<Radix>,
    /// Images that trace sums, as log2: one or several such as 2,7,15; log2 of the ring sums all
    #[arg(long, value_name = "M", allow_negative_numbers = true)]
    m: Option<Numbers>,
    /// Special primes of the parameter sets of trace, such as 1,5,10
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    special: Option<Numbers>,
    /// Groups in which trace sums, such as 1..15; default: all numbers
    #[arg(long, value_name = "H", allow_negative_numbers = true)]
    h: Option<Numbers>,
    /// Operations of strategies; default: all
    #[arg(long, value_name = "OP", value_delimiter = ',')]
    op: Vec<strategies::Op>,
    /// Rounds of aes128_block, from the first on; 1 to 10; default: 10
    #[arg(long, value_name = "K", value_parser = whole(1..=10))]
    rounds: Option<u32>,
}

/// `log2` of the slots of dft without --params and --log-slots.
const DFT_LOG_SLOTS: u32 = 13;

impl Args {
    /// Returns the operations named, or the single ones of CKKS.
    fn operations(&self) -> Vec<Op> {
        match &self.ops[..] {
            [] => {
                let all = Shared::value_variants().iter().copied();
                let single = all.filter(|op| op.family() == SharedFamily::Scheme);
                single.map(Op::Shared).collect()
            }
            ops => ops.to_vec(),
        }
    }

    /// Checks that operations go together, and that one of them uses each option.
    fn check(&self, ops: &[Op]) -> Result<()> {
        let mut given = self.options.given();
        given.extend([
            ("--level", self.level.is_some()),
            ("--radix", self.radix.is_some()),
            ("--m", self.m.is_some()),
            ("--special", self.special.is_some()),
            ("--h", self.h.is_some()),
            ("--op", !self.op.is_empty()),
            ("--rounds", self.rounds.is_some()),
        ]);
        check(ops, &given)?;
        let several =
            |numbers: &Option<Numbers>| numbers.as_ref().is_some_and(|all| all.single().is_none());
        let takes_several = |op: &Op| matches!(op.family(), Family::Trace | Family::Strategies);
        if several(&self.level) && !ops.iter().any(takes_several) {
            return usage("several levels are for trace and strategies: write --level L");
        }
        // Bootstrapping accepts several in the same option.
        if several(&self.options.log_slots) && ops.contains(&Op::Own(Own::Dft)) {
            return usage("dft takes one number of slots: write --log-slots K");
        }
        Ok(())
    }

    fn single_level(&self) -> Option<u32> {
        self.level.as_ref().and_then(Numbers::single)
    }

    /// Times operations, circuits and matrices under one key pair.
    fn scheme(&self, ops: &[Op], output: Output) -> Result<()> {
        let radix = self.radix.unwrap_or_default();
        let log_slots = self.options.log_slots.as_ref().and_then(Numbers::single);
        let preset = match &self.options.params {
            Some(name) => Set::named(name)?.into_preset(),
            None => {
                let log_slots = log_slots.unwrap_or(DFT_LOG_SLOTS);
                matrices::smallest(radix.layers(log_slots).len(), log_slots)?
            }
        };
        let params = Params::new(preset.spec.clone())?;
        let shared: Vec<Shared> = ops.iter().filter_map(|op| op.shared()).collect();
        let level = scheme::level(&params, self.single_level(), &shared)?;
        let tasks = ops.iter().map(|&op| self.task(op, &preset, &params, level));
        let tasks: Vec<Box<dyn Task>> = tasks.collect::<Result<_>>()?;
        let tasks: Vec<&dyn Task> = tasks.iter().map(|task| &**task).collect();
        let job =
            scheme::Job { set: &preset.name, params: &params, level, runs: self.options.runs };
        scheme::run(&job, &tasks, output)
    }

    fn task(&self, op: Op, set: &Preset, params: &Params, level: Level) -> Result<Box<dyn Task>> {
        Ok(match op {
            Op::Shared(op) => Box::new(op),
            Op::Own(Own::LinearTransform) => Box::new(Matrices::random(params, level)?),
            Op::Own(Own::Dft) => {
                let all = match self.options.params {
                    // A named set has its own slots. The default set was chosen for the default
                    // number.
                    Some(_) => params.log_n() - 1,
                    None => DFT_LOG_SLOTS,
                };
                let chosen = self.options.log_slots.as_ref().and_then(Numbers::single);
                let log_slots = chosen.unwrap_or(all);
                check_log_slots(&set.name, params.log_n(), log_slots)?;
                Box::new(Matrices::dft(params, level, log_slots, self.radix.unwrap_or_default())?)
            }
            Op::Own(op) => Box::new(Timed(op)),
        })
    }

    fn family(&self, family: Family, ops: &[Op], threads: &[usize], output: Output) -> Result<()> {
        let list = |numbers: &Option<Numbers>| {
            numbers.as_ref().map_or_else(Vec::new, |Numbers(all)| all.clone())
        };
        let set = self.options.params.as_deref();
        let runs = self.options.runs;
        match family {
            Family::Scheme => self.scheme(ops, output),
            Family::Trace => {
                let options = trace::Options {
                    m: list(&self.m),
                    levels: list(&self.level),
                    special: list(&self.special),
                    h: list(&self.h),
                    runs,
                };
                trace::run(&options, output)
            }
            Family::Fma => fma::run(runs, output),
            Family::Strategies => {
                let options = strategies::Options {
                    params: set,
                    ops: self.op.clone(),
                    levels: list(&self.level),
                    threads: threads.to_vec(),
                    runs,
                };
                strategies::run(&options, output)
            }
            Family::Shared(family) => {
                let ops: Vec<Shared> = ops.iter().filter_map(|op| op.shared()).collect();
                let level = self.single_level();
                bench::run(family, &ops, level, &self.options, &PUBLICATIONS, output)
            }
            Family::Digits => digits::run(set, runs, output),
            Family::Integers => {
                let ops: Vec<Own> = ops.iter().filter_map(|op| op.own()).collect();
                let options = clt::Options {
                    params: set.unwrap_or_default(),
                    ops: &ops,
                    runs,
                    rounds: self.rounds.unwrap_or(sudare_research_clt::aes::ROUNDS),
                };
                clt::run(&options, output)
            }
        }
    }
}

impl Program for Args {
    fn common(&self) -> &Common {
        &self.common
    }

    fn compares_threads(&self) -> bool {
        // Other operations run in one pool, whose size the program fixes before they start.
        self.ops == [Op::Own(Own::Strategies)]
    }

    /// Times the operations on the ambient threads.
    fn run(&self, threads: &[usize], output: Output) -> Result<()> {
        let ops = self.operations();
        self.check(&ops)?;
        // In order: `Family` puts the longest runs last.
        let families: BTreeSet<Family> = ops.iter().map(|op| op.family()).collect();
        families.into_iter().try_for_each(|family| {
            let ops: Vec<Op> = ops.iter().copied().filter(|op| op.family() == family).collect();
            self.family(family, &ops, threads, output)
        })
    }
}

fn usage<T>(problem: &str) -> Result<T> {
    Err(Error::Usage(problem.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sudare_cli::bench::op::Operation;

    #[test]
    fn operations_with_sets_of_their_own_run_alone() {
        let set = [("--params", true)];
        let add = Op::Shared(Shared::Add);
        let fma = Op::Own(Own::Fma);
        for &op in Op::value_variants() {
            assert!(check(&[op, op], &[]).is_ok() || op.example_set().is_some());
            assert_eq!(check(&[add, op], &set).is_err(), op.alone().is_some(), "{}", op.name());
        }
        for together in [[Op::Own(Own::Trace), fma], [add, fma]] {
            assert!(Operation::alone(fma).is_none());
            assert!(check(&together, &[]).is_ok() || together[0] == add);
        }
        let bootstrap = Op::Shared(Shared::Bootstrap);
        assert!(check(&[bootstrap, fma], &set).is_ok() && check(&[bootstrap, add], &set).is_ok());
    }
}
