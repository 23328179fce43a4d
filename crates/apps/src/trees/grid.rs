//! Public grids of features.

use super::{
    error::{Result, TreesError},
    model::Split,
};
use serde::{Deserialize, Serialize};

/// Bits of a digit.
pub(super) const DIGIT_BITS: u32 = 4;
/// Maximum number of points of a grid: eight digits.
const MAX_POINTS: u64 = 1 << (8 * DIGIT_BITS);

/// The public grid of a feature: `low + step code` for each code below `points`.
///
/// The owner replaces each number by the nearest point. The server computes the answers of the model
/// on these points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// The name of the feature.
    pub name: String,
    /// The point of code 0.
    pub low: f64,
    /// The distance of two points.
    pub step: f64,
    /// The number of points.
    pub points: u64,
}

/// The treatment of numbers outside a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Outside {
    /// They are errors.
    #[default]
    Refuse,
    /// They become the first or the last point.
    Clamp,
}

impl Feature {
    /// Makes a grid.
    ///
    /// # Errors
    /// [`TreesError::Grid`] for ends that are not finite, a step that is not positive, or so small
    /// that two points are equal, and for no points or more than `2^32`.
    pub fn new(name: &str, low: f64, step: f64, points: u64) -> Result<Self> {
        let feature = Self { name: name.into(), low, step, points };
        feature.check()?;
        Ok(feature)
    }

    /// Makes a grid for numbers like these. Whole numbers with at most `16^digits` values in their
    /// range get a grid of step 1, which keeps them as they are. Other numbers get `16^digits`
    /// points from the least to the greatest.
    ///
    /// # Errors
    /// [`TreesError::Grid`] without numbers, for numbers that are not finite, and for 0 or more than
    /// 8 digits.
    pub fn fitted(name: &str, numbers: impl IntoIterator<Item = f64>, digits: u32) -> Result<Self> {
        let refused = |problem: String| Err(TreesError::Grid { feature: name.into(), problem });
        if !(1..=8).contains(&digits) {
            return refused(format!("{digits} digits: 1 to 8 are possible"));
        }
        let mut low = f64::INFINITY;
        let mut high = f64::NEG_INFINITY;
        let mut whole = true;
        for x in numbers {
            if !x.is_finite() {
                return refused(format!(
                    "it has the number {x}: fill in or leave out rows with missing values"
                ));
            }
            low = low.min(x);
            high = high.max(x);
            whole &= x.trunc() == x;
        }
        if low > high {
            return refused("it has no numbers: pass a row or more".into());
        }
        let most = 1u64 << (DIGIT_BITS * digits);
        let width = high - low;
        if whole && width < most as f64 {
            // A number below `2^32`, so the cast is exact.
            return Self::new(name, low, 1.0, width as u64 + 1);
        }
        // A column of one number that is not whole needs a step, too.
        let step = if width > 0.0 { width / (most - 1) as f64 } else { 1.0 };
        Self::new(name, low, step, if width > 0.0 { most } else { 1 })
    }

    pub(super) fn check(&self) -> Result<()> {
        let refused =
            |problem: String| Err(TreesError::Grid { feature: self.name.clone(), problem });
        if !(1..=MAX_POINTS).contains(&self.points) {
            return refused(format!("{} points: 1 to {MAX_POINTS} are possible", self.points));
        }
        let high = self.point(self.points - 1);
        if !(self.low.is_finite() && high.is_finite() && self.step > 0.0) {
            return refused(format!(
                "a grid from {} to {high} in steps of {}: finite ends and a positive step are needed",
                self.low, self.step
            ));
        }
        // A point is within a unit in the last place of the larger end, and so is the difference to
        // `low`. Eight units therefore tell all points apart.
        let unit = self.low.abs().max(high.abs()) * f64::EPSILON;
        if self.points > 1 && self.step < 8.0 * unit {
            return refused(format!(
                "a step of {} is lost next to {high}: shift the feature towards 0",
                self.step
            ));
        }
        Ok(())
    }

    /// Returns the point of a code.
    #[must_use]
    pub fn point(&self, code: u64) -> f64 {
        self.low + self.step * code as f64
    }

    /// Returns the code of the nearest point.
    ///
    /// # Errors
    /// [`TreesError::Row`], for row 0, unless the number is finite, and at most half a step outside
    /// the grid or clamped.
    pub fn code(&self, x: f64, outside: Outside) -> Result<u64> {
        let last = self.points - 1;
        let place = ((x - self.low) / self.step).round();
        let inside = (0.0..=last as f64).contains(&place);
        if x.is_finite() && (inside || outside == Outside::Clamp) {
            // The cast saturates at 0.
            return Ok((place as u64).min(last));
        }
        Err(TreesError::Row {
            feature: self.name.clone(),
            row: 0,
            found: x,
            least: self.low,
            most: self.point(last),
        })
    }

    /// Returns the number of digits of a code.
    #[must_use]
    pub fn digits(&self) -> u32 {
        (u64::BITS - (self.points - 1).leading_zeros()).div_ceil(DIGIT_BITS).max(1)
    }

    /// Returns the number of values of a digit, counted from the lowest one.
    pub(super) fn values(&self, digit: u32) -> u64 {
        let above = (self.points - 1) >> (DIGIT_BITS * digit);
        (above + 1).min(1 << DIGIT_BITS)
    }

    /// Returns the number of points that pass a test, which are the first ones.
    pub(super) fn cut(&self, split: &Split) -> u64 {
        let mut passing = 0;
        let mut failing = self.points;
        while passing < failing {
            let middle = passing + (failing - passing) / 2;
            match split.passes(self.point(middle)) {
                true => passing = middle + 1,
                false => failing = middle,
            }
        }
        passing
    }
}
