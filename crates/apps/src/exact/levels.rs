//! The level at which operations run, which execution and simulation choose alike.

use super::Setting;
use crate::array::{ArrayError, Result};
use sudare::rlwe::Level;

/// An engine on values that have a level.
pub(crate) trait Leveled {
    /// A value.
    type Value: Clone;

    /// Returns the parameters and the scheme.
    fn setting(&self) -> &Setting;

    /// Returns the level of a value.
    fn level(&self, a: &Self::Value) -> Level;

    /// Returns a value lowered to `level`, with the factor of that level.
    fn lowered(&self, a: &Self::Value, level: Level) -> Result<Self::Value>;

    /// Returns a value with its ciphertexts bootstrapped.
    fn refreshed(&self, a: &Self::Value) -> Result<Self::Value>;

    /// Checks that a value can be bootstrapped, if the setting has bootstrapping.
    fn check_refreshable(&self, a: &Self::Value) -> sudare::Result<()>;

    /// Runs `compute` on operands at one level. This is the highest level, from theirs down, where
    /// errors leave room for the results and at least `above` levels remain above the lowest. If
    /// there is no such level and the setting has bootstrapping, the operands are bootstrapped.
    /// This also happens if errors leave no room for the results, or for bootstrapping them.
    fn where_all_fit(
        &self,
        op: &'static str,
        operands: &[&Self::Value],
        above: u32,
        compute: impl Fn(&[Self::Value]) -> Result<Vec<Self::Value>>,
    ) -> Result<Vec<Self::Value>> {
        let mut operands: Vec<_> = operands.iter().map(|&a| a.clone()).collect();
        let Some(plan) = self.setting().bootstrapping() else {
            return self.descend(op, &operands, Level(above), compute);
        };
        // Results must not be below the input level, or they could not be bootstrapped later.
        let lowest = Level(plan.input_level().0 + above);
        let highest = plan.output_level();
        if lowest > highest {
            let left = plan.usable_levels();
            return Err(ArrayError::LevelExhausted { op, needed: above, left });
        }
        // A result that could not be bootstrapped counts as one that does not fit.
        let compute = |operands: &[Self::Value]| {
            let results = compute(operands)?;
            results.iter().try_for_each(|a| self.check_refreshable(a))?;
            Ok(results)
        };
        self.raise(&mut operands, lowest)?;
        match self.descend(op, &operands, lowest, compute) {
            // Errors are too large, not levels too few. Bootstrapping replaces them by small ones.
            Err(ArrayError::Library(sudare::Error::NoiseExhausted { .. })) => {
                self.raise(&mut operands, highest)?;
                self.descend(op, &operands, lowest, compute)
            }
            result => result,
        }
    }

    /// Bootstraps the operands that are below `level`.
    fn raise(&self, operands: &mut [Self::Value], level: Level) -> Result<()> {
        for a in operands.iter_mut().filter(|a| self.level(a) < level) {
            *a = self.refreshed(a)?;
        }
        Ok(())
    }

    /// Runs `compute` on operands at the highest level, down to `lowest`, where the results fit.
    fn descend(
        &self,
        op: &'static str,
        operands: &[Self::Value],
        lowest: Level,
        compute: impl Fn(&[Self::Value]) -> Result<Vec<Self::Value>>,
    ) -> Result<Vec<Self::Value>> {
        // The operands have to share a level, which cannot be above the lowest of theirs.
        let mut level = operands.iter().map(|a| self.level(a)).min().unwrap_or(Level(0));
        if level < lowest {
            let needed = lowest.0;
            return Err(sudare::Error::LevelExhausted { op, needed, level }.into());
        }
        let at = |level| {
            let lowered = operands.iter().map(|a| self.lowered(a, level));
            compute(&lowered.collect::<Result<Vec<_>>>()?)
        };
        loop {
            match at(level) {
                Err(ArrayError::Library(sudare::Error::NoiseExhausted { .. }))
                    if level > lowest =>
                {
                    level = Level(level.0 - 1);
                }
                result => return result,
            }
        }
    }
}
