/// Reasons why a table, a stream or a thread pool could not be made. Operations on rows cannot
/// fail.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The modulus is even, below 3, or at least `2^62`.
    #[error("modulus {0} is out of range: an odd q with 3 <= q < 2^62 is needed")]
    ModulusOutOfRange(u64),
    /// `log_n` is outside `4..=17`.
    #[error("ring degree 2^{0} is out of range: 2^4 to 2^17 are supported")]
    DegreeOutOfRange(u32),
    /// `q` is not a prime with `q = 1 mod 2N`.
    #[error(
        "no primitive 2^{log_2n}-th root of unity modulo {q}: a prime q = 1 mod 2^{log_2n} is needed"
    )]
    NoRootOfUnity {
        /// The modulus.
        q: u64,
        /// `log2(2N)`.
        log_2n: u32,
    },
    /// The operating system returned no randomness.
    #[error("the operating system's random generator failed: {0}; nothing was made")]
    NoEntropy(String),
    /// The requested weight exceeds the number of coefficients, or that number is not a power of
    /// two.
    #[error("a weight of {weight} does not fit {len} coefficients")]
    WeightOutOfRange {
        /// Requested number of nonzero coefficients.
        weight: usize,
        /// Number of coefficients.
        len: usize,
    },
    /// The pool would have no threads, or the system refused to start them.
    #[error("cannot run on {0} threads: use at least 1, and no more than the system can start")]
    Threads(usize),
}

/// Results of this crate.
pub type Result<T> = core::result::Result<T, Error>;
