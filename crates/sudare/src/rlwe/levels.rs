use super::Level;
use crate::{Error, Result};
use core::ops::RangeInclusive;

/// The levels of a modulus chain, and the primes that they have in common.
///
/// Levels up to the top share primes with each other: dropping some brings a ciphertext to a lower
/// level. Levels above the top, of an [`UpperChain`](super::UpperChain), share primes among
/// themselves but not with the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Levels {
    top: Level,
    highest: Level,
}

impl Levels {
    /// Makes levels 0 to `top`, and the levels above it to `highest`.
    #[must_use]
    pub fn new(top: Level, highest: Level) -> Self {
        debug_assert!(top <= highest);
        Self { top, highest }
    }

    /// The highest level of fresh ciphertexts.
    #[must_use]
    pub fn top(self) -> Level {
        self.top
    }

    /// The highest level of all.
    #[must_use]
    pub fn highest(self) -> Level {
        self.highest
    }

    /// Returns `true` if `level` is above the top, where primes differ.
    #[must_use]
    pub fn is_raised(self, level: Level) -> bool {
        level > self.top
    }

    /// Returns the levels from `level` up whose primes include all primes of `level`. An object
    /// made for any of them serves at `level`.
    #[must_use]
    pub fn above(self, level: Level) -> RangeInclusive<Level> {
        level..=if self.is_raised(level) { self.highest } else { self.top }
    }

    /// Returns the levels that a ciphertext at `level` reaches by dropping primes, from the lowest
    /// to `level`.
    pub fn below(self, level: Level) -> impl Iterator<Item = Level> + use<> {
        let lowest = if self.is_raised(level) { self.top.0 + 1 } else { 0 };
        (lowest..=level.0).map(Level)
    }

    /// Rejects a level above the highest; for levels that a user names.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`].
    pub fn check(self, level: Level) -> Result<()> {
        at_most(level, self.highest)
    }

    /// Rejects a level above the top.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`].
    pub fn check_chain(self, level: Level) -> Result<()> {
        at_most(level, self.top)
    }

    /// Returns the lower of two levels, if dropping primes brings a ciphertext from the higher to
    /// the lower one.
    ///
    /// # Errors
    /// [`Error::RaisedLevel`].
    pub fn lower(self, a: Level, b: Level) -> Result<Level> {
        let low = a.min(b);
        let high = a.max(b);
        if self.above(low).contains(&high) {
            return Ok(low);
        }
        Err(Error::RaisedLevel { found: high, needed: low, top: self.top })
    }

    /// Returns `level`, if dropping primes brings a ciphertext from `from` down to it.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] if `level` is above `from`; [`Error::RaisedLevel`].
    pub fn drop(self, from: Level, level: Level) -> Result<Level> {
        // First, because only this error says that the level is too high.
        at_most(level, from)?;
        self.lower(from, level)
    }
}

/// Returns the level below, for an operation that uses one level.
///
/// # Errors
/// [`Error::LevelExhausted`] at level 0.
pub(crate) fn next_level(op: &'static str, level: Level) -> Result<Level> {
    level.0.checked_sub(1).map(Level).ok_or(Error::LevelExhausted { op, needed: 1, level })
}

fn at_most(found: Level, max: Level) -> Result<()> {
    if found <= max { Ok(()) } else { Err(Error::LevelOutOfRange { found, max }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_above_the_top_share_primes_among_themselves_only() {
        let levels = Levels::new(Level(3), Level(5));
        assert_eq!(levels.above(Level(1)), Level(1)..=Level(3));
        assert_eq!(levels.above(Level(4)), Level(4)..=Level(5));
        assert_eq!(levels.below(Level(2)).collect::<Vec<_>>(), [0, 1, 2].map(Level));
        assert_eq!(levels.below(Level(5)).collect::<Vec<_>>(), [4, 5].map(Level));
        assert_eq!(levels.lower(Level(3), Level(1)), Ok(Level(1)));
        let other = Error::RaisedLevel { found: Level(4), needed: Level(3), top: Level(3) };
        assert_eq!(levels.lower(Level(3), Level(4)), Err(other.clone()));
        assert_eq!(levels.drop(Level(4), Level(3)), Err(other));
        let above = Error::LevelOutOfRange { found: Level(3), max: Level(2) };
        assert_eq!(levels.drop(Level(2), Level(3)), Err(above));
        assert!(levels.check(Level(5)).is_ok() && levels.check(Level(6)).is_err());
        assert!(levels.check_chain(Level(3)).is_ok() && levels.check_chain(Level(4)).is_err());
    }
}
