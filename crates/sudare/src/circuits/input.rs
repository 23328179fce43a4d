//! Assumptions of a plan about its input ciphertext.

use super::{Algebra, Ops};
use crate::{
    Error, Result,
    rlwe::{Chain, Level, Scale},
};
use std::borrow::Cow;

/// The level and scale that a circuit is planned for, and the levels it consumes.
#[derive(Debug, Clone)]
pub(super) struct Input<S> {
    /// The name of the circuit in errors.
    op: &'static str,
    level: Level,
    scale: S,
    /// Divisors of the consumed levels, highest first.
    divisors: Vec<S>,
}

impl<S: Scale> Input<S> {
    /// Makes the input of a circuit that goes from `level` down to `end`.
    pub(super) fn new(
        op: &'static str,
        chain: &Chain<S>,
        level: Level,
        scale: S,
        end: Level,
    ) -> Self {
        let consumed = (end.0 + 1..=level.0).rev().map(Level);
        Self { op, level, scale, divisors: consumed.map(|level| chain.divisor(level)).collect() }
    }

    /// Number of levels consumed.
    pub(super) fn depth(&self) -> u32 {
        self.divisors.len() as u32
    }

    /// Returns `x` at the planned level, if its level and scale are as planned.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] below the planned level; the error of [`Scale::check_matches`]
    /// for another scale; [`Error::Circuit`] for an evaluator with another chain.
    pub(super) fn accept<'a, E>(&self, e: &E, x: &'a E::Ct) -> Result<Cow<'a, E::Ct>>
    where
        E: Ops<Algebra: Algebra<Scale = S>>,
    {
        if e.level(x) < self.level {
            return Err(Error::LevelOutOfRange { found: self.level, max: e.level(x) });
        }
        e.scale(x).check_matches(self.scale, self.op)?;
        // Only the levels that the circuit uses must be the same. Lower ones may differ.
        let mut consumed = (1..=self.level.0).rev().map(Level).zip(&self.divisors);
        let highest = e.levels().highest();
        if !consumed.all(|(level, &d)| level <= highest && e.divisor(x, level).matches(d)) {
            return Err(Error::Circuit(format!(
                "{}: planned for other primes than the evaluator has: plan with the chain of \
                 that evaluator",
                self.op
            )));
        }
        at(e, x, self.level)
    }
}

/// Returns the value at a level at or below its own.
pub(super) fn at<'a, E: Ops + ?Sized>(e: &E, a: &'a E::Ct, level: Level) -> Result<Cow<'a, E::Ct>> {
    if e.level(a) == level {
        return Ok(Cow::Borrowed(a));
    }
    let mut a = a.clone();
    e.drop_to(&mut a, level)?;
    Ok(Cow::Owned(a))
}
