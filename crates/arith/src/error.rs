/// Reasons why a table, a stream or a thread pool could not be made. Operations on rows cannot
/// fail.
#[derive(
    Debug, Clone, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames,
)]
#[non_exhaustive]
pub enum Error {
    /// The modulus is even, below 3, or at least `2^62`.
    #[error("modulus {0} is out of range: choose an odd modulus from 3 to 2^62 - 1")]
    ModulusOutOfRange(u64),
    /// `log_n` is outside `4..=17`.
    #[error("ring degree 2^{0} is out of range: choose one from 2^4 to 2^17")]
    DegreeOutOfRange(u32),
    /// `q` is not a prime with `q = 1 mod 2N`.
    #[error(
        "there is no primitive 2^{log_2n}-th root of unity modulo {q}: choose a prime that is 1 modulo \
         2^{log_2n}"
    )]
    NoRootOfUnity {
        /// The modulus.
        q: u64,
        /// `log2(2N)`.
        log_2n: u32,
    },
    /// The operating system returned no randomness.
    #[error(
        "the operating system's random generator failed: {0}; nothing was created, so \
         try again"
    )]
    NoEntropy(String),
    /// The requested weight exceeds the number of coefficients, or that number is not a power of
    /// two.
    #[error(
        "a vector of {len} coefficients cannot have weight {weight}: choose a length that is a power \
         of two, and a weight of at most the length"
    )]
    WeightOutOfRange {
        /// Requested number of nonzero coefficients.
        weight: usize,
        /// Number of coefficients.
        len: usize,
    },
    /// The pool would have no threads, or the system refused to start them.
    #[error(
        "cannot start {0} threads: use at least 1, and at most the number that the system allows"
    )]
    Threads(usize),
}

/// Results of this crate.
pub type Result<T> = core::result::Result<T, Error>;
