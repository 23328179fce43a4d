//! Ranges of the elements of arrays.

use super::{Engine, IntegerArray, PlainIntegers, Setting};
use crate::array::{ArrayError, Result};
use core::fmt;
use serde::{Deserialize, Serialize};

/// The lowest and the highest integer that an element of an array can be. Files store it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntegerRange {
    /// The lowest integer.
    pub low: i64,
    /// The highest integer.
    pub high: i64,
}

impl fmt::Display for IntegerRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {} to {}", self.low, self.high)
    }
}

impl IntegerRange {
    /// Returns the range of these values, which are not empty.
    pub(crate) fn of(values: &[i64]) -> Self {
        let low = values.iter().copied().min().unwrap_or(0);
        let high = values.iter().copied().max().unwrap_or(0);
        Self { low, high }
    }

    /// Returns a range that tells only the sizes of both ends: they move outward to 0, `-2^k` or
    /// `2^k - 1`.
    #[must_use]
    pub fn rounded(self) -> Self {
        let above = |x: u64| match x.checked_next_power_of_two() {
            // Moduli are below 2^62, so ends of arrays never reach this.
            None => i64::MAX,
            Some(power) => i64::try_from(power).unwrap_or(i64::MAX),
        };
        Self {
            low: if self.low < 0 { -above(self.low.unsigned_abs()) } else { 0 },
            high: if self.high > 0 { above(self.high.unsigned_abs() + 1) - 1 } else { 0 },
        }
    }

    /// Returns the number of integers in the range.
    #[must_use]
    pub fn count(self) -> u128 {
        (i128::from(self.high) - i128::from(self.low) + 1).max(0).unsigned_abs()
    }

    /// Returns the smallest range that contains both.
    #[must_use]
    pub fn hull(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// Both ends.
    pub(crate) fn ends(self) -> [i128; 2] {
        [self.low.into(), self.high.into()]
    }

    /// Returns the lowest and the highest value of an operation that is linear in each operand.
    pub(crate) fn extremes(self, other: Self, op: impl Fn(i128, i128) -> i128) -> [i128; 2] {
        let values = self.ends().map(|x| other.ends().map(|y| op(x, y)));
        let values = values.as_flattened();
        let low = values.iter().copied().min().unwrap_or(0);
        let high = values.iter().copied().max().unwrap_or(0);
        [low, high]
    }
}

impl Setting {
    /// Returns the range of all elements: from `-(t - 1) / 2` or so to `t / 2` if they are signed,
    /// and from 0 to `t - 1` otherwise.
    #[must_use]
    pub fn range(&self) -> IntegerRange {
        let t = self.modulus();
        // Moduli are below 2^62, so the casts keep the values.
        match self.is_signed() {
            true => {
                let high = (t.value() / 2) as i64;
                IntegerRange { low: high + 1 - t.value() as i64, high }
            }
            false => IntegerRange { low: 0, high: (t.value() - 1) as i64 },
        }
    }

    /// Returns the range of elements that are between two integers before they are reduced modulo
    /// `t`: all elements if some may be reduced.
    pub(super) fn reduced(&self, [low, high]: [i128; 2]) -> IntegerRange {
        let whole = self.range();
        let [least, most] = whole.ends();
        match least <= low && low <= high && high <= most {
            // Both ends are within words, as the whole range is.
            true => IntegerRange { low: low as i64, high: high as i64 },
            false => whole,
        }
    }

    /// Rejects a range with ends in the wrong order, or beyond half of the modulus on either side.
    pub(crate) fn check_centered(&self, range: IntegerRange) -> Result<()> {
        let most = (self.modulus().value() / 2) as i64;
        if -most <= range.low && range.low <= range.high && range.high <= most {
            return Ok(());
        }
        let problem = format!("{range} is no range of digits: they are from -{most} to {most}");
        Err(ArrayError::Argument { op: "range", problem })
    }

    /// Rejects a range with ends in the wrong order, or with integers that are no elements.
    pub(super) fn check_range(&self, range: IntegerRange) -> Result<()> {
        let whole = self.range();
        if range.low <= range.high && whole.low <= range.low && range.high <= whole.high {
            return Ok(());
        }
        let problem = format!(
            "{range} is no range of elements: pass the lower end first, and ends within the range \
             of this modulus, {whole}"
        );
        Err(ArrayError::Argument { op: "range", problem })
    }
}

impl IntegerArray {
    /// Returns the range that the elements are known to have.
    #[must_use]
    pub fn range(&self) -> IntegerRange {
        self.range
    }

    /// Returns the same array with the promise that elements lie in a range. Results are wrong
    /// where they do not.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] for a range that contains none of the known range, or integers that
    /// are no elements.
    pub fn within(&self, setting: &Setting, range: IntegerRange) -> Result<Self> {
        setting.check_range(range)?;
        let known = self.range;
        let low = known.low.max(range.low);
        let high = known.high.min(range.high);
        if low > high {
            let problem = format!(
                "elements are known to be {known}, so none can be {range}: promise a part of the \
                 known range"
            );
            return Err(ArrayError::Argument { op: "range", problem });
        }
        Ok(Self { range: IntegerRange { low, high }, ..self.clone() })
    }
}

impl Engine {
    /// Gives an array the range of elements between two integers before they are reduced.
    pub(super) fn ranged(&self, a: IntegerArray, ends: [i128; 2]) -> IntegerArray {
        IntegerArray { range: self.setting.reduced(ends), ..a }
    }

    /// Returns the range of the values of a plain array, which are not empty.
    pub(super) fn plain_range(plain: &PlainIntegers) -> IntegerRange {
        IntegerRange::of(&plain.values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_rounded_outward() {
        let rounded = |low, high| {
            let range = IntegerRange { low, high }.rounded();
            (range.low, range.high)
        };
        assert_eq!(rounded(3, 200), (0, 255));
        assert_eq!(rounded(0, 255), (0, 255));
        assert_eq!(rounded(0, 256), (0, 511));
        assert_eq!(rounded(-5, -2), (-8, 0));
        assert_eq!(rounded(-8, 0), (-8, 0));
        assert_eq!(rounded(0, 1), (0, 1));
        assert_eq!(rounded(i64::MIN + 1, i64::MAX).1, i64::MAX - 1);
    }
}
