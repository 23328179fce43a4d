//! Names of operations, from `sudare bench` and from this program.

use clap::{ValueEnum, builder::PossibleValue};
use std::sync::LazyLock;
use sudare_cli::bench::op::{Family as SharedFamily, Op as Shared, Operation};

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// One of `sudare bench`.
    Shared(Shared),
    /// One of this program alone.
    Own(Own),
}

/// An operation of this program alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Own {
    /// 1/x on [1/2, 3/2] of every slot, degree 15
    Inverse,
    /// Exponential on [-1, 1] of every slot, degree 7
    Exp,
    /// Sigmoid on [-4, 4] of every slot, degree 7
    Sigmoid,
    /// Mean of all slots
    Mean,
    /// Variance of all slots
    Variance,
    /// Product with a matrix of 32 diagonals on all slots
    LinearTransform,
    /// Discrete Fourier transform of the slots, divided by the square root of their number
    Dft,
    /// Sums of 2^M images in h groups, next to the times of a thesis
    Trace,
    /// a b + c of rows modulo primes of 60 bits, next to the times of the same thesis
    Fma,
    /// Operations cut over threads by limbs, by coefficients or by both as in a paper, next to the
    /// engine's own way: transforms on one thread and everything else by coefficients, a job a limb,
    /// or both
    Strategies,
    /// Removal of the lowest digits of integers: the sizes of a thesis, or digits-P-E-V for the V
    /// lowest digits of integers modulo P^E
    DigitRemoval,
    /// Product of bits over the integers (insecure, for research)
    CltMul,
    /// Bootstrapping of bits over the integers (insecure, for research)
    CltBootstrap,
    /// AES-128 over the integers, a block a slot, once; times are per block (insecure, for
    /// research)
    Aes128Block,
}

/// Operations that share parameter sets and lines of results, in the order of their runs: the
/// longest runs come last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Single operations of CKKS, circuits and matrices, under one key pair.
    Scheme,
    /// Sums of images.
    Trace,
    /// Sums of products of rows.
    Fma,
    /// Ways to cut operations over threads.
    Strategies,
    /// Any other family of `sudare bench`.
    Shared(SharedFamily),
    /// Removal of digits.
    Digits,
    /// The scheme over the integers.
    Integers,
}

impl Op {
    /// Returns the family of the operation.
    pub fn family(self) -> Family {
        match self {
            Self::Shared(op) if op.family() == SharedFamily::Scheme => Family::Scheme,
            Self::Shared(op) => Family::Shared(op.family()),
            Self::Own(Own::Trace) => Family::Trace,
            Self::Own(Own::Fma) => Family::Fma,
            Self::Own(Own::Strategies) => Family::Strategies,
            Self::Own(Own::DigitRemoval) => Family::Digits,
            Self::Own(Own::CltMul | Own::CltBootstrap | Own::Aes128Block) => Family::Integers,
            Self::Own(_) => Family::Scheme,
        }
    }

    /// Returns the operation of `sudare bench`, if it is one.
    pub fn shared(self) -> Option<Shared> {
        if let Self::Shared(op) = self { Some(op) } else { None }
    }

    /// Returns the operation of this program alone, if it is one.
    pub fn own(self) -> Option<Own> {
        if let Self::Own(op) = self { Some(op) } else { None }
    }
}

impl Own {
    /// Returns the name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

// `ValueEnum` returns a slice, and its derive does not accept variants with fields.
static ALL: LazyLock<Vec<Op>> = LazyLock::new(|| {
    let shared = Shared::value_variants().iter().copied().map(Op::Shared);
    shared.chain(Own::value_variants().iter().copied().map(Op::Own)).collect()
});

impl ValueEnum for Op {
    fn value_variants<'a>() -> &'a [Self] {
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Shared(op) => op.to_possible_value(),
            Self::Own(op) => op.to_possible_value(),
        }
    }
}

impl Operation for Op {
    fn alone(self) -> Option<&'static str> {
        match self {
            Self::Shared(op) => op.alone(),
            Self::Own(_) => match self.family() {
                Family::Trace => Some("trace has parameter sets of its own"),
                Family::Strategies => Some("strategies have lines of their own"),
                Family::Digits => Some("digit_removal has parameter sets of its own"),
                Family::Integers => Some("integers have parameter sets of their own"),
                _ => None,
            },
        }
    }

    fn is_compatible_with(self, other: Self) -> bool {
        let families = (self.family(), other.family());
        // `trace` and `fma` reproduce the same thesis, and may run in one call.
        families.0 == families.1 || families == (Family::Trace, Family::Fma)
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Shared(op) => op.options(),
            Self::Own(op) => match op {
                Own::LinearTransform => &["--params", "--level"],
                Own::Dft => &["--params", "--level", "--log-slots", "--radix"],
                Own::Trace => &["--level", "--m", "--special", "--h"],
                Own::Fma => &[],
                Own::Strategies => &["--params", "--level", "--op"],
                Own::Aes128Block => &["--params", "--rounds"],
                _ => &["--params"],
            },
        }
    }

    fn example_set(self) -> Option<&'static str> {
        match self {
            Self::Shared(op) => op.example_set(),
            Self::Own(Own::Dft) => None,
            Self::Own(_) => match self.family() {
                Family::Scheme => Some("n15"),
                Family::Integers => Some("clt-500"),
                _ => None,
            },
        }
    }
}
