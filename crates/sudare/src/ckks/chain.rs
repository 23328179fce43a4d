use super::Scale;
use crate::rlwe::{Level, Levels};

/// The moduli of levels: rescaling from level `l` divides by `divisor(l)`, the quotient of the
/// modulus there and one level down.
#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    divisors: Vec<Scale>,
    log2_q: Vec<f64>,
    /// Highest level whose primes those above have, too.
    top: Level,
}

impl Chain {
    /// From the divisors of levels `1, 2, …` and `log2` of the modulus of levels
    /// `0, 1, 2, …`.
    #[must_use]
    pub fn new(divisors: Vec<Scale>, log2_q: Vec<f64>) -> Self {
        debug_assert_eq!(divisors.len() + 1, log2_q.len());
        let top = Level(divisors.len() as u32);
        Self { divisors, log2_q, top }
    }

    /// The same, whose levels above `top` are those of a
    /// [`RaisedChain`](crate::rlwe::RaisedChain).
    #[must_use]
    pub fn raised_above(self, top: Level) -> Self {
        Self { top, ..self }
    }

    /// Which levels there are, and which have primes in common.
    #[must_use]
    pub fn levels(&self) -> Levels {
        Levels::new(self.top, Level(self.divisors.len() as u32))
    }

    /// The highest level of fresh ciphertexts.
    #[must_use]
    pub fn top(&self) -> Level {
        self.top
    }

    /// What rescaling from `level >= 1` divides by.
    ///
    /// # Panics
    /// If `level` is 0 or too high.
    #[must_use]
    pub fn divisor(&self, level: Level) -> Scale {
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
