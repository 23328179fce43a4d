//! Products.

use super::{Bitwise, Digits, Operand, Radix, Side, Sides, Word, WordType, Words, in_the_clear};
use crate::array::Result;

impl<D: Digits> Words<D> {
    /// Returns the product, which wraps.
    ///
    /// The products of nibbles that belong to one digit are a *column*, whose sum takes one
    /// relinearisation. Tables split a column of 16 products, at most 3,600, into three digits.
    ///
    /// # Errors
    /// The errors of [`Words::add`].
    pub fn mul(&self, a: &Operand<D::Plane>, b: &Operand<D::Plane>) -> Result<Word<D::Plane>> {
        const OP: &str = "multiply";
        let Sides { kind, a, b } = self.sides(OP, a, b)?;
        if kind == WordType::BOOL {
            return self.bitwise_of(Bitwise::And, &a, &b);
        }
        match (&a, &b) {
            (Side::Word(a), Side::Word(b)) => self.product(a, b),
            (Side::Word(x), Side::Scalar(c)) | (Side::Scalar(c), Side::Word(x)) => {
                self.multiple(x, kind.word(*c) & kind.mask())
            }
            (Side::Scalar(_), Side::Scalar(_)) => Err(in_the_clear(OP)),
        }
    }

    fn product(&self, a: &Word<D::Plane>, b: &Word<D::Plane>) -> Result<Word<D::Plane>> {
        let Word { kind, radix, .. } = *a;
        let half = if kind.is_signed() { Radix::Nibbles.base() / 2 } else { 0 };
        // Digits of the numbers themselves: the top one of a signed number has its sign.
        let digits = |x: &Word<D::Plane>| -> Result<Vec<D::Plane>> {
            let mut planes = self.recoded(self.canonical(x)?, radix, Radix::Nibbles)?;
            if half > 0
                && let Some(top) = planes.last_mut()
            {
                *top = self.digits.sum(&[(top, 1)], -half)?;
            }
            Ok(planes)
        };
        let x = digits(a)?;
        let y = digits(b)?;
        let column = |n: usize| (0..=n).map(|i| (x[i].clone(), y[n - i].clone())).collect();
        let columns: Vec<_> = (0..x.len()).map(column).collect();
        let mut sums = self.digits.products(&columns)?;
        if half > 0
            && let Some(top) = sums.last_mut()
        {
            *top = self.digits.sum(&[(top, 1)], half)?;
        }
        let planes = self.normalized(sums, Radix::Nibbles)?;
        Ok(Word::new(kind, radix, self.recoded(planes, Radix::Nibbles, radix)?))
    }

    /// Returns the product with a number below `2^w`. Tables of each digit give the digits of its
    /// multiple.
    pub(super) fn multiple(&self, x: &Word<D::Plane>, c: u64) -> Result<Word<D::Plane>> {
        let Word { kind, radix, .. } = *x;
        if c == 0 {
            return self.constant_word(x, 0);
        }
        // Small negative numbers have few digits.
        if c > kind.mask() / 2 + 1 {
            return self.neg(&self.multiple(x, c.wrapping_neg() & kind.mask())?);
        }
        if c.is_power_of_two() {
            return self.shift_left(x, c.trailing_zeros());
        }
        let planes = self.canonical(x)?;
        let count = planes.len();
        // `c (u - H) + H` for the code `u`.
        let bias = kind.bias().wrapping_mul(1u64.wrapping_sub(c)) & kind.mask();
        let constants = radix.digits(bias.into(), count);
        let sums =
            self.mapped(&planes, &constants, |i, j| multiples(radix, c.into(), j.checked_sub(i)?))?;
        Ok(Word::new(kind, radix, self.normalized(sums, radix)?))
    }
}

/// Returns a digit of the multiples of all digits by `c`, which may have 120 bits.
pub(super) fn multiples(radix: Radix, c: u128, place: usize) -> Option<Vec<i64>> {
    let shift = place as u32 * radix.bits();
    let mask = radix.base() as u128 - 1;
    let digit = |v: i64| (((v as u128 * c) >> shift) & mask) as i64;
    (shift < u128::BITS).then(|| (0..radix.base()).map(digit).collect())
}
