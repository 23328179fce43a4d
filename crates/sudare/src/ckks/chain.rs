use super::Scale;
use crate::{Error, Result, rlwe::Level};
use core::ops::RangeInclusive;

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

    /// The highest level of fresh ciphertexts.
    #[must_use]
    pub fn top(&self) -> Level {
        self.top
    }

    /// The highest level.
    #[must_use]
    pub fn raised_top(&self) -> Level {
        Level(self.divisors.len() as u32)
    }

    /// The levels from `level` up whose primes include all of those at `level`.
    #[must_use]
    pub fn levels_above(&self, level: Level) -> RangeInclusive<Level> {
        level..=if level > self.top { self.raised_top() } else { self.top }
    }

    /// Refuses a level that is higher than any.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`].
    pub fn check_level(&self, level: Level) -> Result<()> {
        let (found, max) = (level, self.raised_top());
        if found <= max { Ok(()) } else { Err(Error::LevelOutOfRange { found, max }) }
    }

    /// The lower of two levels, if a ciphertext of the higher one is brought to it by
    /// forgetting primes.
    ///
    /// # Errors
    /// [`Error::RaisedLevel`].
    pub fn lower(&self, a: Level, b: Level) -> Result<Level> {
        let (low, high) = (a.min(b), a.max(b));
        if self.levels_above(low).contains(&high) {
            return Ok(low);
        }
        Err(Error::RaisedLevel { found: high, needed: low, top: self.top })
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
