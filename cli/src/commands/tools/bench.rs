use crate::{
    bench::{
        self, Publications,
        op::{Family, Op},
        options::{Options, check},
    },
    output::Output,
};
use clap::{ValueEnum, builder::PossibleValue};
use std::collections::BTreeSet;
use sudare_roles::error::Result;

/// Time single operations and bootstrapping on fresh inputs, and check every result
///
/// Bootstrapping, BGV and BFV run only if you name them. The program `sudare-bench` also times circuits, transforms of
/// the slots and reproductions of published measurements.
///
/// Each run repeats its operation until it takes two milliseconds; times are per operation. A
/// wrong result ends the command with status 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudare bench mul_rescale rotate --params n15 --threads 1 --json\n  \
    sudare bench bootstrap --params n16-boot --log-slots 5..15 --runs 3\n  \
    sudare bench bfv_mul bfv_rotate --params n14-t65537\n  \
    sudare bench bfv_bootstrap --params bfv-full-257 --runs 1")]
pub struct Args {
    /// Operations; default: the single ones of CKKS
    #[arg(value_name = "OP", value_parser = Operations)]
    ops: Vec<Op>,
    /// Level of the operands; default: the highest
    #[arg(long, value_name = "L")]
    level: Option<u32>,
    #[command(flatten)]
    options: Options,
    /// An option of `sudare-bench` alone, whose error names that program
    // Unknown to this program alone: the parser would only say that it does not exist.
    #[arg(long = "radix", aliases = ["m", "special", "h", "op", "rounds", "levels"])]
    #[arg(hide = true, value_parser = OptionElsewhere)]
    option_elsewhere: Option<String>,
}

/// Operations that only the program `sudare-bench` times.
const ELSEWHERE: [&str; 14] = [
    "inverse",
    "exp",
    "sigmoid",
    "mean",
    "variance",
    "linear_transform",
    "dft",
    "trace",
    "fma",
    "strategies",
    "digit_removal",
    "clt_mul",
    "clt_bootstrap",
    "aes128_block",
];

/// Reads names of operations.
#[derive(Debug, Clone)]
struct Operations;

impl clap::builder::TypedValueParser for Operations {
    type Value = Op;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> core::result::Result<Op, clap::Error> {
        let name = value.to_string_lossy();
        if ELSEWHERE.contains(&&*name) {
            let problem = format!(
                "{name} is not an operation of this command: run the program `sudare-bench {name}` with the same \
                 options\n"
            );
            return Err(command.clone().error(clap::error::ErrorKind::InvalidValue, problem));
        }
        clap::builder::EnumValueParser::<Op>::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Op::value_variants().iter().filter_map(ValueEnum::to_possible_value)))
    }
}

/// Rejects an option of the program `sudare-bench`.
#[derive(Debug, Clone)]
struct OptionElsewhere;

impl clap::builder::TypedValueParser for OptionElsewhere {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _arg: Option<&clap::Arg>,
        _value: &std::ffi::OsStr,
    ) -> core::result::Result<String, clap::Error> {
        let problem = "--radix, --m, --special, --h, --op, --rounds and --levels are options of the \
                       program `sudare-bench`: run that one\n";
        Err(command.clone().error(clap::error::ErrorKind::UnknownArgument, problem))
    }
}

impl Args {
    /// Returns the operations named, or the single ones of CKKS.
    fn operations(&self) -> Vec<Op> {
        match &self.ops[..] {
            [] => {
                let all = Op::value_variants().iter().copied();
                all.filter(|op| op.family() == Family::Scheme).collect()
            }
            ops => ops.to_vec(),
        }
    }
}

/// Times the operations on the ambient threads.
pub fn run(args: &Args, output: Output) -> Result<()> {
    let ops = args.operations();
    let mut given = args.options.given();
    given.push(("--level", args.level.is_some()));
    check(&ops, &given)?;
    // Families are ordered by duration: the longest one comes last.
    let families: BTreeSet<Family> = ops.iter().map(|op| op.family()).collect();
    for family in families {
        let ops: Vec<Op> = ops.iter().copied().filter(|op| op.family() == family).collect();
        bench::run(family, &ops, args.level, &args.options, &Publications::NONE, output)?;
    }
    Ok(())
}
