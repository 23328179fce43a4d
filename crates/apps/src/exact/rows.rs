//! Rotations of rows, and sums of all elements.

use super::{Engine, IntegerArray, PlainIntegers};
use crate::array::{ArrayError, Result};
use sudare::exact::Ciphertext;

impl Engine {
    /// Rejects arrays whose last two axes are not the rows of their blocks.
    fn check_rows(&self, op: &'static str, a: &IntegerArray) -> Result<()> {
        let columns = a.layout.columns();
        match a.shape() {
            [.., 2, found] if *found == columns && !a.layout.is_padded() => Ok(()),
            shape => Err(ArrayError::SlotRows {
                op,
                shape: shape.to_vec(),
                columns: self.setting.slots() / 2,
            }),
        }
    }

    /// Rolls the elements of the last axis to the left by `k`. The last two axes of the array must
    /// be the two rows of slots. The array has either 2 rows of a power of two of columns, or
    /// several pairs of rows with all columns of the slots. A key switch is needed for each binary
    /// digit 1 of `k`, or of the number of columns minus `k`.
    ///
    /// # Errors
    /// [`ArrayError::SlotRows`]; [`sudare::Error::MissingGaloisKey`];
    /// [`sudare::Error::NoiseExhausted`].
    pub fn rotate(&self, a: &IntegerArray, k: i64) -> Result<IntegerArray> {
        const OP: &str = "rotate";
        self.check_rows(OP, a)?;
        let columns = a.layout.columns();
        // A negative step goes the other way round, so its remainder must be positive.
        let steps = k.rem_euclid(columns as i64) as usize;
        self.where_it_fits(OP, [a], 0, |[a]| a.map(|block| self.rotated(block, steps)))
    }

    /// Rotates by `steps` columns, in steps of powers of two.
    pub(super) fn rotated(&self, block: &Ciphertext, steps: usize) -> sudare::Result<Ciphertext> {
        // Keys exist for powers of two only.
        let mut powers = (0..usize::BITS).filter(|i| steps >> i & 1 == 1);
        powers.try_fold(block.clone(), |block, i| self.exact().rotate(&block, 1 << i))
    }

    /// Exchanges the two rows of an array that [`Engine::rotate`] accepts, by one key switch.
    ///
    /// # Errors
    /// The errors of [`Engine::rotate`].
    pub fn swap_rows(&self, a: &IntegerArray) -> Result<IntegerArray> {
        const OP: &str = "swap rows";
        self.check_rows(OP, a)?;
        self.where_it_fits(OP, [a], 0, |[a]| a.map(|block| self.exact().swap_rows(block)))
    }

    /// Returns the sum of all elements. An array in `2^k` slots needs `k` key switches. The error
    /// grows by about the number of elements.
    ///
    /// # Errors
    /// [`sudare::Error::MissingGaloisKey`]; [`sudare::Error::NoiseExhausted`];
    /// [`sudare::Error::LevelExhausted`] if slots beyond the last element have to be masked.
    pub fn sum(&self, a: &IntegerArray) -> Result<IntegerArray> {
        self.check(a)?;
        let scalar = self.setting.layout(&[])?;
        // The element fills all slots, so a sum of slots would be a multiple of it.
        if a.layout.is_everywhere() {
            return a.reshaped(&[]);
        }
        // Slots beyond the last element would enter the sum.
        let masked = match a.padding_is_zero() {
            true => a.clone(),
            false => {
                let ones = PlainIntegers::new(a.shape(), vec![1; a.layout.elements()]);
                self.mul_plain_array(a, &ones)?
            }
        };
        let elements = a.layout.elements() as i128;
        let ends = a.range.ends().map(|end| end.saturating_mul(elements));
        let sum = self.where_it_fits("sum", [&masked], 0, |[a]| {
            let exact = self.exact();
            // Blocks are added first, so that one block needs key switches instead of all.
            let total = a.blocks.iter().cloned().map(Ok);
            let Some(total) = total.reduce(|a, b| exact.add(&a?, &b?)) else { return Ok(a) };
            let row = exact.inner_sum(&total?, a.layout.columns())?;
            // `inner_sum` stays within a row, so the other row is still missing.
            let sum = exact.add(&row, &exact.swap_rows(&row)?)?;
            Ok(IntegerArray {
                layout: scalar.clone(),
                blocks: vec![sum].into(),
                padding_is_zero: true,
                range: a.range,
            })
        })?;
        Ok(self.ranged(sum, ends))
    }
}
