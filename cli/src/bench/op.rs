//! Names of operations, and the options that each uses.

use clap::ValueEnum;

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Op {
    /// Transform of one limb, the largest prime of at most 50 bits
    NttForward,
    /// Inverse transform of the same limb
    NttInverse,
    /// Complex slots to a plaintext
    Encode,
    /// Plaintext to complex slots
    Decode,
    /// Encryption under a public key
    Encrypt,
    /// Decryption to a plaintext
    Decrypt,
    /// Sum of two ciphertexts
    Add,
    /// Product with a constant
    MulConst,
    /// Product with a plaintext
    MulPlain,
    /// Product, relinearised
    Mul,
    /// Product, relinearised and rescaled
    MulRescale,
    /// Division by the primes of the level
    Rescale,
    /// Rotation by one
    Rotate,
    /// Complex conjugate
    Conjugate,
    /// Rotations by 1 to 8 of one ciphertext
    #[value(name = "rotate_hoisted_8")]
    RotateHoisted8,
    /// Key switch of an automorphism that rotates and conjugates
    Keyswitch,
    /// CKKS bootstrapping to a level for more products, and its stages
    Bootstrap,
    /// BFV product, relinearised
    BfvMul,
    /// Rotation of rows by one, with BFV operands
    BfvRotate,
    /// BGV product, relinearised
    BgvMul,
    /// Rotation of rows by one, with BGV operands
    BgvRotate,
    /// BGV and BFV bootstrapping of all coefficients to a level for more products, and its stages
    BfvBootstrap,
    /// BGV and BFV bootstrapping of slots of integers, and its stages
    BfvBootstrapSlim,
}

/// Operations that share parameter sets and lines of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Single operations of CKKS, under one key pair.
    Scheme,
    /// Bootstrapping of CKKS.
    Bootstrap,
    /// Products and rotations of BGV and BFV.
    Exact,
    /// Bootstrapping of slots of integers.
    SlimBootstrap,
    /// Bootstrapping of all coefficients.
    FullBootstrap,
}

/// An operation to which options belong.
pub trait Operation: ValueEnum + Copy + PartialEq + 'static {
    /// Returns the reason why the operation runs only with its own kind.
    fn alone(self) -> Option<&'static str>;

    /// Decides whether the operation may run with one that runs only with its own kind.
    fn is_compatible_with(self, other: Self) -> bool;

    /// Lists the options that the operation uses, `--runs` excepted.
    fn options(self) -> &'static [&'static str];

    /// Returns an example of its parameter sets; nothing where it has a default.
    fn example_set(self) -> Option<&'static str>;

    /// Returns the name on the command line.
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl Op {
    /// Returns the family of the operation.
    #[must_use]
    pub fn family(self) -> Family {
        match self {
            Self::Bootstrap => Family::Bootstrap,
            Self::BfvMul | Self::BfvRotate | Self::BgvMul | Self::BgvRotate => Family::Exact,
            Self::BfvBootstrapSlim => Family::SlimBootstrap,
            Self::BfvBootstrap => Family::FullBootstrap,
            _ => Family::Scheme,
        }
    }

    /// Decides whether the operation is a rotation of BGV or BFV.
    pub(super) fn is_rotation(self) -> bool {
        matches!(self, Self::BfvRotate | Self::BgvRotate)
    }

    /// Decides whether the result has the product of two scales, or comes from one that has.
    pub(super) fn is_product(self) -> bool {
        matches!(
            self,
            Self::MulConst | Self::MulPlain | Self::Mul | Self::MulRescale | Self::Rescale
        )
    }
}

impl Operation for Op {
    fn alone(self) -> Option<&'static str> {
        match self.family() {
            Family::Scheme | Family::Bootstrap => None,
            Family::Exact => Some("BGV and BFV have parameter sets of their own"),
            Family::SlimBootstrap => Some("bfv_bootstrap_slim has parameter sets of its own"),
            Family::FullBootstrap => Some("bfv_bootstrap has parameter sets of its own"),
        }
    }

    fn is_compatible_with(self, other: Self) -> bool {
        self.family() == other.family()
    }

    fn options(self) -> &'static [&'static str] {
        match self.family() {
            Family::Scheme | Family::Exact => &["--params", "--level"],
            Family::Bootstrap => &[
                "--params",
                "--log-slots",
                "--ciphertexts",
                "--small-keys",
                "--force",
                "--profile",
            ],
            Family::SlimBootstrap | Family::FullBootstrap => {
                &["--params", "--ciphertexts", "--small-keys", "--force"]
            }
        }
    }

    fn example_set(self) -> Option<&'static str> {
        Some(match self.family() {
            Family::Scheme => "n15",
            Family::Bootstrap => "n16-boot",
            Family::Exact => "n14-t65537",
            Family::SlimBootstrap => "n15-t65537-boot",
            Family::FullBootstrap => "n15-t257-full",
        })
    }
}
