//! Options of measurements, and the check that each belongs to an operation.

use super::op::Operation;
pub use crate::values::whole;
use sudare_roles::error::{Error, Result};

/// Options of single operations and of bootstrapping.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Parameter set; `sudare params` lists them
    #[arg(long, value_name = "NAME")]
    pub params: Option<String>,
    /// Timed runs of each operation, after a warm-up; 1 to 1000000
    #[arg(long, value_name = "R", default_value_t = 10, allow_negative_numbers = true)]
    #[arg(value_parser = whole(1..=1_000_000))]
    pub runs: u32,
    /// Slots in use, as log2: 15, or several such as 5,10,15 or 5..15; default: all of the ring
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    pub log_slots: Option<Numbers>,
    /// Ciphertexts to bootstrap together; default: 1
    #[arg(long, value_name = "M", value_parser = whole(1..=u32::MAX))]
    pub ciphertexts: Option<u32>,
    /// Store half of each bootstrapping key and compute the other half when it is needed
    #[arg(long)]
    pub small_keys: bool,
    /// Count the work of each bootstrapping stage, and compare the time predicted for this machine
    /// with the time measured
    #[arg(long, conflicts_with = "small_keys")]
    pub profile: bool,
    /// Bootstrap even if keys and matrices seem not to fit in memory
    #[arg(long)]
    pub force: bool,
}

impl Options {
    /// Lists the options by name, and whether each is given.
    #[must_use]
    pub fn given(&self) -> Vec<(&'static str, bool)> {
        vec![
            ("--params", self.params.is_some()),
            ("--log-slots", self.log_slots.is_some()),
            ("--ciphertexts", self.ciphertexts.is_some()),
            ("--small-keys", self.small_keys),
            ("--force", self.force),
            ("--profile", self.profile),
        ]
    }

    /// Returns the number of ciphertexts that are bootstrapped together.
    #[must_use]
    pub fn ciphertexts(&self) -> usize {
        self.ciphertexts.unwrap_or(1) as usize
    }
}

/// Small numbers: a list or a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbers(pub Vec<u32>);

/// The largest number of a list or range.
const MAX_NUMBER: u32 = 127;

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
            "expected a number from 0 to 127, a list such as 5,10 or a rising range such as 5..15",
        )
    }
}

impl Numbers {
    /// Returns the number, if it is the only one.
    #[must_use]
    pub fn single(&self) -> Option<u32> {
        if let [number] = self.0[..] { Some(number) } else { None }
    }
}

/// The largest number of operations that a message lists. More would hide the advice.
const LISTED: usize = 4;

/// Checks that operations go together, that they have a parameter set, and that one of them uses
/// each option that is `given`.
///
/// # Errors
/// [`Error::Usage`] for the first conflict.
pub fn check<O: Operation>(ops: &[O], given: &[(&str, bool)]) -> Result<()> {
    let is_alone = |op: &O| !ops.iter().all(|&other| op.is_compatible_with(other));
    if let Some(reason) = ops.iter().filter(|op| is_alone(op)).find_map(|op| op.alone()) {
        return usage(format!("{reason}: time other operations on their own"));
    }
    let is_given = |name| given.contains(&(name, true));
    for op in ops {
        if let (Some(example), false) = (op.example_set(), is_given("--params")) {
            return usage(format!(
                "{} needs a parameter set: pass one with --params, such as {example}; `sudare params` \
                 lists them",
                op.name()
            ));
        }
    }
    for (option, _) in given.iter().filter(|(_, given)| *given) {
        let uses = |op: &O| op.options().contains(option);
        // One user among the operations is enough: a call can mix operations with different
        // options.
        if let (Some(op), false) = (ops.first(), ops.iter().any(uses)) {
            let users: Vec<O> = O::value_variants().iter().copied().filter(uses).collect();
            return usage(if users.len() <= LISTED {
                let users: Vec<String> = users.into_iter().map(Operation::name).collect();
                format!("{option} is for {}: leave it out", users.join(", "))
            } else {
                format!("{} does not use {option}: leave it out", op.name())
            });
        }
    }
    Ok(())
}

fn usage<T>(problem: String) -> Result<T> {
    Err(Error::Usage(problem))
}

/// Checks that a ring of degree `2^log_n` has `2^log_slots` slots, at least two.
///
/// # Errors
/// [`Error::Usage`] with the numbers that are possible with the parameter set `name`.
pub fn check_log_slots(name: &str, log_n: u32, log_slots: u32) -> Result<()> {
    // A ring of degree N has N / 2 slots. Plans need two slots or more.
    let range = 1..=log_n - 1;
    if range.contains(&log_slots) {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "2^{log_slots} slots are not possible with {name}: pass --log-slots {} to {}",
        range.start(),
        range.end()
    )))
}

#[cfg(test)]
mod tests {
    use super::{super::op::Op, *};
    use clap::ValueEnum;

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

    #[test]
    fn operations_with_sets_of_their_own_run_alone() {
        let set = [("--params", true)];
        for &op in Op::value_variants() {
            assert!(check(&[op, op], &set).is_ok());
            assert_eq!(check(&[op, Op::Add], &set).is_err(), op.alone().is_some());
            assert_eq!(check(&[Op::Bootstrap, op], &set).is_err(), op.alone().is_some());
        }
    }

    #[test]
    fn options_belong_to_operations() {
        let given = [("--params", true), ("--profile", true), ("--force", false)];
        assert!(check(&[Op::Add, Op::Bootstrap], &given).is_ok());
        let refused = check(&[Op::Add], &given).unwrap_err().to_string();
        assert_eq!(refused, "--profile is for bootstrap: leave it out");
        let refused = check(&[Op::Bootstrap], &[("--params", true), ("--level", true)]);
        assert_eq!(
            refused.unwrap_err().to_string(),
            "bootstrap does not use --level: leave it out"
        );
    }
}
