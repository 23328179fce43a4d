/// Why a table or a stream could not be made. Operations on rows cannot fail.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Even, below 3, or at least `2^62`.
    #[error("modulus {0} is out of range: an odd q with 3 <= q < 2^62 is needed")]
    ModulusOutOfRange(u64),
    /// `log_n` outside `4..=17`.
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
    /// The operating system gave no randomness.
    #[error("the operating system's random generator failed: {0}; nothing was made")]
    NoEntropy(String),
    /// More nonzero coefficients asked for than there are coefficients.
    #[error("a weight of {weight} does not fit {len} coefficients")]
    WeightOutOfRange {
        /// Nonzero coefficients asked for.
        weight: usize,
        /// Coefficients.
        len: usize,
    },
    /// A pool of no threads was asked for, or the system refused the threads.
    #[error("cannot run on {0} threads")]
    Threads(usize),
}

/// This crate's results.
pub type Result<T> = core::result::Result<T, Error>;
