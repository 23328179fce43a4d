use clap::ValueEnum;

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum Op {
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
    /// Discrete Fourier transform of the slots, over the square root of their number
    Dft,
    /// Sums of 2^M images in h groups, beside those of a thesis
    Trace,
    /// a b + c of rows modulo primes of 60 bits, beside those of the same thesis
    Fma,
    /// Operations with their limbs and coefficients cut over threads as in a paper, beside the
    /// engine's own way: transforms on one thread and all else by coefficients, a job a limb, or
    /// both
    Strategies,
    /// Back to a level for more products, and its stages
    Bootstrap,
    /// Product of BFV, relinearised
    BfvMul,
    /// Rotation of rows by one, with operands of BFV
    BfvRotate,
    /// Product of BGV, relinearised
    BgvMul,
    /// Rotation of rows by one, with operands of BGV
    BgvRotate,
    /// Back to a level for more products of integers, every coefficient exact, and its stages: for BGV
    /// and BFV alike, with the product of BGV
    BfvBootstrap,
    /// The same of slots of integers alone
    BfvBootstrapSlim,
    /// Lowest digits removed from integers, of the sizes of a thesis or of digits-P-E-V: the V lowest
    /// of integers modulo P^E
    DigitRemoval,
    /// Product of bits over the integers (insecure, for research)
    CltMul,
    /// Bootstrapping of bits over the integers (insecure, for research)
    CltBootstrap,
    /// AES-128 over the integers, a block a slot, once; times are per block (insecure, for
    /// research)
    Aes128Block,
}

/// Operations that share parameter sets and lines of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    /// Single operations of CKKS, circuits and matrices, under one key pair.
    Scheme,
    Trace,
    Fma,
    Strategies,
    Bootstrap,
    /// Products and rotations of BGV and BFV.
    Exact,
    SlimBootstrap,
    FullBootstrap,
    Digits,
    Integers,
}

impl Family {
    /// What is said of operations in the company of one of this family, if only some may be.
    fn own(self) -> Option<&'static str> {
        match self {
            Self::Scheme | Self::Fma | Self::Bootstrap => None,
            Self::Trace => Some("trace has parameter sets of its own"),
            Self::Strategies => Some("strategies have lines of their own"),
            Self::Exact => Some("BGV and BFV have parameter sets of their own"),
            Self::SlimBootstrap => Some("bfv_bootstrap_slim has parameter sets of its own"),
            Self::FullBootstrap => Some("bfv_bootstrap has parameter sets of its own"),
            Self::Digits => Some("digit_removal has parameter sets of its own"),
            Self::Integers => Some("integers have parameter sets of their own"),
        }
    }

    /// The first reason why operations of these families cannot run together.
    pub(super) fn conflict(families: &[Self]) -> Option<&'static str> {
        let others = |family: Self| {
            let goes_with = |other| other == family || (family, other) == (Self::Trace, Self::Fma);
            !families.iter().all(|&other| goes_with(other))
        };
        families.iter().filter(|&&family| others(family)).find_map(|family| family.own())
    }
}

impl Op {
    pub(super) fn family(self) -> Family {
        match self {
            Self::Trace => Family::Trace,
            Self::Fma => Family::Fma,
            Self::Strategies => Family::Strategies,
            Self::Bootstrap => Family::Bootstrap,
            Self::BfvMul | Self::BfvRotate | Self::BgvMul | Self::BgvRotate => Family::Exact,
            Self::BfvBootstrapSlim => Family::SlimBootstrap,
            Self::BfvBootstrap => Family::FullBootstrap,
            Self::DigitRemoval => Family::Digits,
            Self::CltMul | Self::CltBootstrap | Self::Aes128Block => Family::Integers,
            _ => Family::Scheme,
        }
    }

    /// Whether it is one operation of CKKS, and runs if nothing is named.
    pub(super) fn is_basic(self) -> bool {
        self.family() == Family::Scheme
            && !(self.is_circuit() || matches!(self, Self::LinearTransform | Self::Dft))
    }

    /// Whether it is a rotation of BGV or BFV.
    pub(super) fn is_rotation(self) -> bool {
        matches!(self, Self::BfvRotate | Self::BgvRotate)
    }

    /// Whether it has levels and a scale of its own.
    pub(super) fn is_circuit(self) -> bool {
        matches!(self, Self::Inverse | Self::Exp | Self::Sigmoid | Self::Mean | Self::Variance)
    }

    /// Whether its result has the product of two scales, or comes from one that has.
    pub(super) fn is_product(self) -> bool {
        matches!(
            self,
            Self::MulConst | Self::MulPlain | Self::Mul | Self::MulRescale | Self::Rescale
        )
    }

    /// The set that messages name as an example; nothing where there is a default.
    pub(super) fn example_set(self) -> Option<&'static str> {
        match self.family() {
            Family::Trace | Family::Fma | Family::Strategies | Family::Digits => None,
            Family::Scheme if self == Self::Dft => None,
            Family::Scheme => Some("n15"),
            Family::Bootstrap => Some("n16-boot"),
            Family::Exact => Some("n14-t65537"),
            Family::SlimBootstrap => Some("n15-t65537-boot"),
            Family::FullBootstrap => Some("n15-t257-full"),
            Family::Integers => Some("clt-500"),
        }
    }

    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_with_sets_of_their_own_run_alone() {
        use Family::*;
        for alone in [Trace, Strategies, Exact, SlimBootstrap, FullBootstrap, Digits, Integers] {
            assert_eq!(Family::conflict(&[alone, alone]), None);
            assert_eq!(Family::conflict(&[Scheme, alone]), alone.own());
            assert!(Family::conflict(&[alone, Bootstrap]).is_some());
        }
        for together in [[Trace, Fma], [Scheme, Fma], [Scheme, Bootstrap], [Bootstrap, Fma]] {
            assert_eq!(Family::conflict(&together), None, "{together:?}");
        }
    }
}
