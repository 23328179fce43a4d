use super::{Level, Levels};
use crate::Result;
use core::{
    fmt::Debug,
    ops::{Div, Mul},
};

/// The factor that multiplies a plaintext before encryption: a real number, or a unit modulo the
/// plaintext modulus.
///
/// In every scheme, products multiply scales, rescaling divides them by the primes dropped, and
/// sums need equal ones.
pub trait Scale:
    Copy + PartialEq + Debug + Send + Sync + Mul<Output = Self> + Div<Output = Self>
{
    /// Returns `true` if the two count as equal.
    fn matches(self, other: Self) -> bool;

    /// Rejects two scales that do not match, in an operation named `op`.
    ///
    /// # Errors
    /// The scheme's error for a mismatch: [`Error::ScaleMismatch`](crate::Error::ScaleMismatch) if
    /// scales are numbers.
    fn check_matches(self, other: Self, op: &'static str) -> Result<()>;

    /// Rejects a scale at which integers up to 1 in magnitude do not fit a modulus of `log2_q`
    /// bits, in an operation named `op`.
    ///
    /// # Errors
    /// [`Error::ScaleOutOfRange`](crate::Error::ScaleOutOfRange) if scales are numbers.
    fn check_fits(self, op: &'static str, log2_q: f64) -> Result<()>;

    /// Returns `true` if a product with 1, encoded at this scale, gives a value of 1 the scale `result`
    /// with an error of at most one integer, once it is rescaled. Encoding rounds to an integer.
    fn encodes_one(self, result: Self) -> bool;

    /// Does the checks of [`Scale::check_fits`] and rejects a scale below 1, which would round
    /// weights to zero.
    ///
    /// # Errors
    /// See [`Scale::check_fits`].
    fn check_weights(self, op: &'static str, log2_q: f64) -> Result<()>;
}

/// The moduli of levels. Rescaling from level `l` divides by `divisor(l)`, the modulus at `l`
/// divided by the modulus one level down.
#[derive(Debug, Clone, PartialEq)]
pub struct Chain<S> {
    divisors: Vec<S>,
    log2_q: Vec<f64>,
    /// Highest level that shares its primes with the levels above.
    top: Level,
}

impl<S: Copy> Chain<S> {
    /// Makes a chain from the divisors of levels `1, 2, …` and `log2` of the modulus of levels
    /// `0, 1, 2, …`.
    #[must_use]
    pub fn new(divisors: Vec<S>, log2_q: Vec<f64>) -> Self {
        debug_assert_eq!(divisors.len() + 1, log2_q.len());
        let top = Level(divisors.len() as u32);
        Self { divisors, log2_q, top }
    }

    /// Marks the levels above `top` as levels of an [`UpperChain`](crate::rlwe::UpperChain).
    #[must_use]
    pub fn raised_above(self, top: Level) -> Self {
        Self { top, ..self }
    }

    /// The levels, and the primes that they have in common.
    #[must_use]
    pub fn levels(&self) -> Levels {
        Levels::new(self.top, Level(self.divisors.len() as u32))
    }

    /// The highest level of fresh ciphertexts.
    #[must_use]
    pub fn top(&self) -> Level {
        self.top
    }

    /// Returns the divisor of rescaling from `level >= 1`.
    ///
    /// # Panics
    /// If `level` is 0 or too high.
    #[must_use]
    pub fn divisor(&self, level: Level) -> S {
        self.divisors[level.index() - 1]
    }

    /// `log2` of the modulus at `level`.
    ///
    /// # Panics
    /// If `level` is too high.
    #[must_use]
    pub fn log2_q(&self, level: Level) -> f64 {
        self.log2_q[level.index()]
    }
}
