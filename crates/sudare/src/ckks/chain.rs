use super::Scale;
use crate::rlwe::Level;

/// The divisors of a modulus chain: rescaling from level `l` divides by
/// `divisor(l)`, the product of the primes dropped.
#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    divisors: Vec<Scale>,
    log2_q: Vec<f64>,
}

impl Chain {
    /// From the divisors of levels `1, 2, …` and `log2` of the modulus of levels
    /// `0, 1, 2, …`.
    #[must_use]
    pub fn new(divisors: Vec<Scale>, log2_q: Vec<f64>) -> Self {
        debug_assert_eq!(divisors.len() + 1, log2_q.len());
        Self { divisors, log2_q }
    }

    /// The highest level.
    #[must_use]
    pub fn top(&self) -> Level {
        Level(self.divisors.len() as u32)
    }

    /// What rescaling from `level >= 1` divides by.
    ///
    /// # Panics
    /// If `level` is 0 or above the top.
    #[must_use]
    pub fn divisor(&self, level: Level) -> Scale {
        self.divisors[level.index() - 1]
    }

    /// `log2` of the modulus at `level`.
    ///
    /// # Panics
    /// If `level` is above the top.
    #[must_use]
    pub fn log2_q(&self, level: Level) -> f64 {
        self.log2_q[level.index()]
    }
}
