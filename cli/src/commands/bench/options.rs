use super::{
    matrices::Radix,
    op::{Family, Op},
    strategies,
};
use crate::values::whole;
use clap::ValueEnum;
use sudare_roles::error::{Error, Result};

/// Time operations on fresh inputs and check their results
///
/// Functions, statistics, transforms of the slots and bootstrapping, which need parameter sets of
/// their own or much memory, run only if named.
///
/// A run is repeated until it takes two milliseconds; times are per operation. A
/// wrong result ends the command with status 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    sudare bench mul_rescale rotate --params n15 --threads 1 --json\n  \
    sudare bench inverse exp sigmoid --params functions-n14\n  \
    sudare bench dft --log-slots 13 --radix 4\n  \
    sudare bench bootstrap --params n16-boot --log-slots 5..15 --runs 3\n  \
    sudare bench bfv_mul bfv_rotate --params n14-t65537\n  \
    sudare bench bfv_bootstrap --params bfv-full-257 --runs 1\n  \
    sudare bench clt_mul clt_bootstrap --params clt-500 --threads 2\n  \
    sudare bench trace --m 15 --level 9 --special 1,5,10 --h 4..15 --threads 1\n  \
    sudare bench strategies --op mult,rotate --levels 1..32 --threads 1,2 --json")]
pub struct Args {
    /// Operations; all of the scheme if left out
    #[arg(value_name = "OP")]
    pub(super) ops: Vec<Op>,
    /// Parameter set; if left out, for dft alone the smallest leveled one, for strategies and
    /// digit_removal those of the publication
    #[arg(long, value_name = "NAME")]
    pub(super) params: Option<String>,
    /// Level of the operands, the highest if left out; for trace and strategies one or several,
    /// such as 1,4,9 or 1..32
    #[arg(long, visible_alias = "levels", value_name = "L", allow_negative_numbers = true)]
    pub(super) level: Option<Numbers>,
    /// Timed runs of each operation, after a warm-up
    #[arg(long, value_name = "R", default_value_t = 10, allow_negative_numbers = true)]
    #[arg(value_parser = whole(1..=1_000_000))]
    pub(super) runs: u32,
    /// log2 of the slots of dft or bootstrap, such as 15, or several: 5,10,15 or 5..15 with both
    /// ends; all slots of the ring if left out
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    pub(super) log_slots: Option<Numbers>,
    /// Values that each factor of dft combines, a power of two; 4 if left out
    #[arg(long, value_name = "R")]
    pub(super) radix: Option<Radix>,
    /// log2 of the images that trace sums, such as 2,7,15, or log2 of the ring for all of them
    #[arg(long, value_name = "M", allow_negative_numbers = true)]
    pub(super) m: Option<Numbers>,
    /// Special primes of the parameter sets of trace, such as 1,5,10
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    pub(super) special: Option<Numbers>,
    /// Groups in which trace sums, such as 1..15; all numbers if left out
    #[arg(long, value_name = "H", allow_negative_numbers = true)]
    pub(super) h: Option<Numbers>,
    /// Operations of strategies; all if left out
    #[arg(long, value_name = "OP", value_delimiter = ',')]
    pub(super) op: Vec<strategies::Op>,
    /// Ciphertexts that are bootstrapped together; 1 if left out
    #[arg(long, value_name = "M", value_parser = whole(1..=u32::MAX))]
    pub(super) ciphertexts: Option<u32>,
    /// Keep half of the keys for bootstrapping and compute the other when it is needed
    #[arg(long)]
    pub(super) small_keys: bool,
    /// Count what each stage of bootstrapping does, and compare the time that this machine should
    /// take for it with the time measured
    #[arg(long)]
    pub(super) profile: bool,
    /// Rounds of aes128_block, from the first on; all ten if left out
    #[arg(long, value_name = "K", value_parser = whole(1..=10))]
    pub(super) rounds: Option<u32>,
    /// Bootstrap even if keys and matrices seem not to fit in memory
    #[arg(long)]
    pub(super) force: bool,
}

/// Small numbers: a list or a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Numbers(pub(super) Vec<u32>);

impl core::str::FromStr for Numbers {
    type Err = &'static str;

    fn from_str(text: &str) -> core::result::Result<Self, Self::Err> {
        let number = |text: &str| text.parse::<u32>().ok().filter(|&k| k <= MAX_NUMBER);
        let all = match text.split_once("..") {
            Some((first, last)) => number(first).zip(number(last)).map(|(a, b)| (a..=b).collect()),
            None => text.split(',').map(number).collect::<Option<Vec<u32>>>(),
        };
        let all = all.filter(|all| !all.is_empty());
        all.map(Self).ok_or(
            "a number from 0 to 127, a list such as 5,10 or a rising range such as 5..15 is needed",
        )
    }
}

impl Numbers {
    /// The only one, if there is only one.
    pub(super) fn single(&self) -> Option<u32> {
        if let [number] = self.0[..] { Some(number) } else { None }
    }
}

/// Of lists and ranges.
const MAX_NUMBER: u32 = 127;

/// Options that only some operations use.
struct Group<'a> {
    /// Their names, and whether they are given.
    options: &'a [(&'a str, bool)],
    used: bool,
    users: &'a str,
}

impl Group<'_> {
    /// Refuses what is given in vain.
    fn check(&self) -> Result<()> {
        let given = self.options.iter().filter(|(_, given)| *given).map(|(name, _)| *name);
        let given: Vec<&str> = given.collect();
        if self.used || given.is_empty() {
            return Ok(());
        }
        let (are, them) = if given.len() == 1 { ("is", "it") } else { ("are", "them") };
        let (given, users) = (given.join(" and "), self.users);
        Err(Error::Usage(format!("{given} {are} for {users}: leave {them} out")))
    }
}

impl Args {
    /// Whether several numbers of threads can be compared.
    pub fn compares_threads(&self) -> bool {
        self.ops == [Op::Strategies]
    }

    /// The operations named, or all single ones of CKKS.
    pub(super) fn operations(&self) -> Vec<Op> {
        match &self.ops[..] {
            [] => Op::value_variants().iter().copied().filter(|&op| op.is_basic()).collect(),
            ops => ops.to_vec(),
        }
    }

    /// The level, if there is one and no more.
    pub(super) fn single_level(&self) -> Option<u32> {
        self.level.as_ref().and_then(Numbers::single)
    }

    /// Refuses operations that do not go together, and options that none of them uses.
    pub(super) fn check(&self, ops: &[Op]) -> Result<()> {
        let families: Vec<Family> = ops.iter().map(|op| op.family()).collect();
        if let Some(reason) = Family::conflict(&families) {
            return usage(&format!("{reason}: time other operations on their own"));
        }
        self.check_params(ops)?;
        self.check_groups(ops)?;
        self.check_level(ops)?;
        let several = self.log_slots.as_ref().is_some_and(|all| all.single().is_none());
        if several && ops.contains(&Op::Dft) {
            return usage("dft takes one number of slots: write --log-slots K");
        }
        if self.profile && self.small_keys {
            return usage("--profile knows what whole keys cost: leave --small-keys out");
        }
        Ok(())
    }

    fn check_params(&self, ops: &[Op]) -> Result<()> {
        let own = |op: &Op| matches!(op.family(), Family::Trace | Family::Fma);
        if self.params.is_some() && !ops.is_empty() && ops.iter().all(own) {
            return usage("trace and fma have parameters of their own: leave --params out");
        }
        let needing = ops.iter().find_map(|op| Some((op, op.example_set()?)));
        match (&self.params, needing) {
            (None, Some((op, example))) => usage(&format!(
                "{} needs a parameter set: name one with --params, such as {example}; `sudare \
                 params` lists them",
                op.name()
            )),
            _ => Ok(()),
        }
    }

    fn check_groups(&self, ops: &[Op]) -> Result<()> {
        let has = |family| ops.iter().any(|op| op.family() == family);
        let [dft, aes] = [Op::Dft, Op::Aes128Block].map(|op| ops.contains(&op));
        let bootstrap = has(Family::Bootstrap);
        let exact = has(Family::SlimBootstrap) || has(Family::FullBootstrap);
        let groups = [
            Group {
                options: &[("--op", !self.op.is_empty())],
                used: has(Family::Strategies),
                users: "strategies",
            },
            Group {
                options: &[("--log-slots", self.log_slots.is_some())],
                used: dft || bootstrap,
                users: "dft and bootstrap",
            },
            Group { options: &[("--radix", self.radix.is_some())], used: dft, users: "dft" },
            Group {
                options: &[
                    ("--m", self.m.is_some()),
                    ("--special", self.special.is_some()),
                    ("--h", self.h.is_some()),
                ],
                used: has(Family::Trace),
                users: "trace",
            },
            Group {
                options: &[
                    ("--ciphertexts", self.ciphertexts.is_some()),
                    ("--small-keys", self.small_keys),
                    ("--force", self.force),
                ],
                used: bootstrap || exact,
                users: "bootstrap, bfv_bootstrap and bfv_bootstrap_slim",
            },
            Group { options: &[("--profile", self.profile)], used: bootstrap, users: "bootstrap" },
            Group {
                options: &[("--rounds", self.rounds.is_some())],
                used: aes,
                users: "aes128_block",
            },
        ];
        groups.iter().try_for_each(Group::check)
    }

    fn check_level(&self, ops: &[Op]) -> Result<()> {
        let Some(level) = &self.level else { return Ok(()) };
        let has = |family| ops.iter().any(|op| op.family() == family);
        if level.single().is_none() && !(has(Family::Trace) || has(Family::Strategies)) {
            return usage("several levels are for trace and strategies: write --level L");
        }
        let bootstraps = [Family::Bootstrap, Family::SlimBootstrap, Family::FullBootstrap];
        if bootstraps.into_iter().any(has) {
            return usage("bootstrap takes ciphertexts at its input level: leave --level out");
        }
        if has(Family::Digits) {
            return usage("digit_removal takes fresh ciphertexts: leave --level out");
        }
        if has(Family::Integers) {
            return usage("integers have no levels: leave --level out");
        }
        match ops {
            [op, ..] if ops.iter().all(|op| op.is_circuit() || *op == Op::Fma) => {
                usage(&format!("{} has a level of its own: leave --level out", op.name()))
            }
            _ => Ok(()),
        }
    }
}

fn usage<T>(problem: &str) -> Result<T> {
    Err(Error::Usage(problem.into()))
}

/// Refuses numbers of slots that a ring does not have, and one slot alone.
pub(super) fn check_log_slots(name: &str, log_n: u32, log_slots: u32) -> Result<()> {
    let range = 1..=log_n - 1;
    if range.contains(&log_slots) {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "2^{log_slots} slots are not possible with {name}: --log-slots may be {} to {}",
        range.start(),
        range.end()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_lists_and_ranges() {
        let read = |text: &str| text.parse::<Numbers>().map(|Numbers(all)| all);
        assert_eq!(read("15"), Ok(vec![15]));
        assert_eq!(read("5,10,15"), Ok(vec![5, 10, 15]));
        assert_eq!(read("3..5"), Ok(vec![3, 4, 5]));
        for bad in ["", "5,", "5..", "5..3", "128", "5...7", "1,2..3", "-1"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
