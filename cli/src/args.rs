//! The arguments of every command.

use crate::commands::{
    bench, decrypt, demo, doctor, encrypt, evaluate, info, keygen, params, predict, report,
    selftest, stats, train,
};
use clap::{Parser, Subcommand};
use clap_complete::Shell;
use std::{num::NonZeroU16, ops::RangeInclusive};

/// Computing on encrypted tables: statistics and logistic regression on data that
/// the computing machine cannot read.
///
/// The data owner makes keys, encrypts a table and decrypts the result. The server
/// gets evaluation keys and ciphertexts only.
#[derive(Debug, Parser)]
#[command(name = "sudare", version, after_help = "Start with: sudare demo")]
pub struct Args {
    /// Print one JSON object, or JSON lines, on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// Threads to work on, as many as there are processors if left out; several numbers, such as
    /// 1,2, for bench strategies
    #[arg(long, global = true, value_name = "N")]
    pub threads: Option<Threads>,
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    Demo(demo::Args),
    Params(params::Args),
    Keygen(keygen::Args),
    Encrypt(encrypt::Args),
    Stats(stats::Args),
    Train(train::Args),
    Decrypt(decrypt::Args),
    Predict(predict::Args),
    Evaluate(evaluate::Args),
    Report(report::Args),
    Info(info::Args),
    Bench(bench::Args),
    Selftest(selftest::Args),
    Doctor(doctor::Args),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example: sudare completions bash > ~/.local/share/bash-completion/completions/sudare"
    )]
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Numbers of threads, 1 to 1024 each.
#[derive(Debug, Clone)]
pub struct Threads(Vec<NonZeroU16>);

impl core::str::FromStr for Threads {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number =
            |text: &str| text.parse::<NonZeroU16>().ok().filter(|count| count.get() <= 1024);
        let all = text.split(',').map(number).collect::<Option<_>>();
        all.map(Self).ok_or(
            "a whole number from 1 to 1024 is needed, or for bench strategies several such as 1,2",
        )
    }
}

impl Threads {
    /// All of them.
    pub fn counts(&self) -> Vec<usize> {
        self.0.iter().map(|&count| count.get().into()).collect()
    }
}

/// Reads a whole number, or says which ones there are.
pub fn whole(
    range: RangeInclusive<u32>,
) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let (first, last) = (range.start(), range.end());
        number.ok_or_else(|| format!("a whole number from {first} to {last} is needed"))
    }
}

/// Reads a number that is not infinite.
pub fn finite(text: &str) -> Result<f64, &'static str> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or("a number such as 2.5 is needed")
}

/// Reads the weights of two classes, such as 1,2.5.
pub fn class_weights(text: &str) -> Result<[f64; 2], &'static str> {
    let positive = |text: &str| text.parse().ok().filter(|&w: &f64| w.is_finite() && w > 0.0);
    let pair = text.split_once(',').and_then(|(zero, one)| positive(zero).zip(positive(one)));
    pair.map(|(zero, one)| [zero, one]).ok_or(
        "two positive numbers are needed, the weight of a row with target 0 and that of one with \
         1, such as 1,2.5",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_told_the_range() {
        let read = whole(1..=9);
        assert_eq!((read("1"), read("9")), (Ok(1), Ok(9)));
        for bad in ["0", "10", "-1", "1.5", "x", "", "99999999999"] {
            assert_eq!(read(bad), Err("a whole number from 1 to 9 is needed".into()), "{bad}");
        }
        assert_eq!((finite("2.5"), finite("-1e3")), (Ok(2.5), Ok(-1e3)));
        for bad in ["nan", "inf", "1e999", "x", ""] {
            assert!(finite(bad).is_err(), "{bad}");
        }
        assert_eq!(class_weights("1,2.5"), Ok([1.0, 2.5]));
        for bad in ["1", "1,", "1,0", "-1,1", "1,2,3", "inf,1", "nan,1", ""] {
            assert!(class_weights(bad).is_err(), "{bad}");
        }
    }
}
