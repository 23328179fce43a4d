//! Operations on bits, and shifts.

use super::{
    Digits, Operand, PlainWords, Radix, Side, Sides, Word, WordType, Words, argument, in_the_clear,
};
use crate::array::Result;

/// An operation on two bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bitwise {
    /// True if both are.
    And,
    /// True if one or both are.
    Or,
    /// True if one is.
    Xor,
}

impl Bitwise {
    fn apply(self, a: i64, b: i64) -> i64 {
        match self {
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
        }
    }

    /// Returns the coefficients of `a + b` and of `a & b`.
    fn linear(self) -> (i64, i64) {
        match self {
            Self::And => (0, 1),
            Self::Or => (1, -1),
            Self::Xor => (1, -2),
        }
    }
}

/// Returns what changes a digit of a code into a digit of two's complement, by an exclusive or.
fn flipped(kind: WordType, radix: Radix, i: usize) -> i64 {
    let is_top = i + 1 == radix.planes(kind);
    if kind.is_signed() && is_top { radix.base() / 2 } else { 0 }
}

impl<D: Digits> Words<D> {
    /// Returns an operation on every bit.
    ///
    /// # Errors
    /// The errors of [`Words::add`].
    pub fn bitwise(
        &self,
        op: Bitwise,
        a: &Operand<D::Plane>,
        b: &Operand<D::Plane>,
    ) -> Result<Word<D::Plane>> {
        let Sides { a, b, .. } = self.sides("bitwise", a, b)?;
        self.bitwise_of(op, &a, &b)
    }

    pub(super) fn bitwise_of(
        &self,
        op: Bitwise,
        a: &Side<D::Plane>,
        b: &Side<D::Plane>,
    ) -> Result<Word<D::Plane>> {
        match (a, b) {
            (Side::Word(a), Side::Word(b)) if a.kind == WordType::BOOL => {
                let both =
                    self.digits.products(&[vec![(a.planes[0].clone(), b.planes[0].clone())]])?;
                let (sum, and) = op.linear();
                let mut terms = vec![(&both[0], and)];
                if sum != 0 {
                    terms.extend([(&a.planes[0], sum), (&b.planes[0], sum)]);
                }
                let plane = self.within(&self.digits.sum(&terms, 0)?, 0, 1);
                Ok(Word::new(a.kind, a.radix, vec![plane]))
            }
            (Side::Word(a), Side::Word(b)) => self.bits_joined(op, a, b),
            (Side::Word(x), Side::Scalar(c)) | (Side::Scalar(c), Side::Word(x)) => {
                self.with_bits(op, x, *c)
            }
            (Side::Scalar(_), Side::Scalar(_)) => Err(in_the_clear("bitwise")),
        }
    }

    /// Joins the bits of an array with the bits of a code.
    fn with_bits(&self, op: Bitwise, x: &Word<D::Plane>, c: u64) -> Result<Word<D::Plane>> {
        let Word { kind, radix, .. } = *x;
        if kind == WordType::BOOL {
            let c = c as i64;
            let found = op.apply(1, c) - op.apply(0, c);
            let plane = match found {
                0 => self.constant(&x.planes[0], op.apply(0, c))?,
                sign => self.digits.sum(&[(&x.planes[0], sign)], op.apply(0, c))?,
            };
            return Ok(Word::new(kind, radix, vec![plane]));
        }
        let x = self.canonical(x)?;
        let digits = radix.digits(c.into(), x.len());
        let planes = self.mapped(&x, &vec![0; x.len()], |i, j| {
            let flip = flipped(kind, radix, i);
            let joined = |v: i64| op.apply(v ^ flip, digits[i] ^ flip) ^ flip;
            (i == j).then(|| (0..radix.base()).map(joined).collect())
        })?;
        Ok(Word::new(kind, radix, planes))
    }

    /// Joins the bits of two arrays. Each bit is a table of its digit, and all products of the bits
    /// of a digit share one relinearisation.
    fn bits_joined(
        &self,
        op: Bitwise,
        a: &Word<D::Plane>,
        b: &Word<D::Plane>,
    ) -> Result<Word<D::Plane>> {
        let Word { kind, radix, .. } = *a;
        let left = self.canonical(a)?;
        let right = self.canonical(b)?;
        let base = radix.base();
        // The sign has a negative weight, so that sums of bits are numbers in two's complement.
        let weight = |bit: u32, flip: i64| if flip >> bit & 1 == 1 { -flip } else { 1 << bit };
        let request = |(i, x): (usize, &D::Plane), weighted: bool| {
            let flip = flipped(kind, radix, i);
            let function = |bit: u32| {
                let factor = if weighted { weight(bit, flip) } else { 1 };
                (0..base).map(|v| ((v ^ flip) >> bit & 1) * factor).collect()
            };
            self.request(x, (0..radix.bits()).map(function).collect())
        };
        let of_left = left.iter().enumerate().map(|x| request(x, true));
        let of_right = right.iter().enumerate().map(|x| request(x, false));
        let mut bits = self.evaluated(of_left.chain(of_right).collect())?;
        let others = bits.split_off(left.len());
        let pairs = bits.into_iter().zip(others).map(|(a, b)| a.into_iter().zip(b).collect());
        let both = self.digits.products(&pairs.collect::<Vec<_>>())?;
        let (sum, and) = op.linear();
        let plane = |(i, both): (usize, &D::Plane)| {
            let mut terms = vec![(both, and)];
            if sum != 0 {
                terms.extend([(&left[i], sum), (&right[i], sum)]);
            }
            // Codes have half of the base more at the top.
            let flip = flipped(kind, radix, i);
            let constant = if sum == 0 { flip } else { -flip };
            Ok(self.within(&self.digits.sum(&terms, constant)?, 0, base - 1))
        };
        let planes = both.iter().enumerate().map(plane).collect::<Result<_>>()?;
        Ok(Word::new(kind, radix, planes))
    }

    /// Returns elements times `2^count`, which wrap. Shifts by the width or more give 0.
    ///
    /// # Errors
    /// [`ArrayError::Argument`](crate::array::ArrayError::Argument) for booleans; the errors of
    /// [`Digits`].
    pub fn shift_left(&self, a: &Word<D::Plane>, count: u32) -> Result<Word<D::Plane>> {
        let Word { kind, radix, .. } = *a;
        self.refuse_booleans("shift", kind)?;
        if count == 0 {
            return Ok(a.clone());
        }
        let places = a.planes.len();
        let top = |j: usize| flipped(kind, radix, j);
        let constants: Vec<i64> = (0..places).map(top).collect();
        let moved = (count / radix.bits()) as usize;
        let rest = count % radix.bits();
        let mask = radix.base() - 1;
        // Digits that leave at the top are not needed.
        let needed = places.saturating_sub(moved);
        if needed == 0 {
            return self.constant_word(a, 0);
        }
        let x = self.canonical(a)?;
        let planes = self.mapped(&x[..needed], &constants, |i, j| {
            let flip = flipped(kind, radix, i);
            let shifted = |v: i64| (v ^ flip) << rest;
            let values = (0..=mask).map(shifted);
            match j.checked_sub(i + moved)? {
                // The top has its constant, which the digit then changes back.
                0 => Some(values.map(|v| ((v & mask) ^ top(j)) - top(j)).collect()),
                1 => Some(values.map(|v| v >> radix.bits()).collect()),
                _ => None,
            }
        })?;
        let planes = planes.iter().map(|plane| self.within(plane, 0, mask)).collect();
        Ok(Word::new(kind, radix, planes))
    }

    /// Returns elements divided by `2^count`, rounded down. Shifts by the width or more give 0, and
    /// -1 for negative elements.
    ///
    /// # Errors
    /// The errors of [`Words::shift_left`].
    pub fn shift_right(&self, a: &Word<D::Plane>, count: u32) -> Result<Word<D::Plane>> {
        let Word { kind, radix, .. } = *a;
        self.refuse_booleans("shift", kind)?;
        if count == 0 {
            return Ok(a.clone());
        }
        let count = count.min(kind.bits());
        if !kind.is_signed() && count == kind.bits() {
            return self.constant_word(a, 0);
        }
        let places = a.planes.len();
        // A signed word has a bit more than the others to keep.
        let count = if kind.is_signed() { count.min(kind.bits() - 1) } else { count };
        let x = self.canonical(a)?;
        let planes = self.moved_down(&x, radix, count, places, |i, v| {
            // Digits beyond the top extend the number by its sign.
            let flip = flipped(kind, radix, i);
            let own = v ^ flip;
            if flip != 0 && own >= flip { own - radix.base() } else { own }
        })?;
        let top = flipped(kind, radix, places - 1);
        let last = planes.len() - 1;
        let restored = |(i, plane): (usize, D::Plane)| match i == last && top != 0 {
            true => self.digits.sum(&[(&plane, 1)], top),
            false => Ok(plane),
        };
        let planes = planes.into_iter().enumerate().map(restored).collect::<Result<_>>()?;
        Ok(Word::new(kind, radix, planes))
    }

    /// Returns the `places` digits of a number above its lowest `count` bits. `value` gives the
    /// number that a digit stands for, which is negative only for the last one of a signed number.
    /// The last digit of the result then has its sign.
    pub(super) fn moved_down(
        &self,
        x: &[D::Plane],
        radix: Radix,
        count: u32,
        places: usize,
        value: impl Fn(usize, i64) -> i64,
    ) -> Result<Vec<D::Plane>> {
        let moved = (count / radix.bits()) as usize;
        let rest = count % radix.bits();
        let base = radix.base();
        let last = x.len() - 1;
        let planes = self.mapped(x, &vec![0; places], |i, j| {
            let values = (0..base).map(|v| value(i, v));
            let end = j + 1 == places;
            match (i as i64) - (j + moved) as i64 {
                // The last digit fills all places above its own.
                0 if i == last && end => Some(values.map(|v| v >> rest).collect()),
                0 if i == last => Some(values.map(|v| (v >> rest) & (base - 1)).collect()),
                0 => Some(values.map(|v| v >> rest).collect()),
                1 if rest > 0 => {
                    Some(values.map(|v| (v << (radix.bits() - rest)) & (base - 1)).collect())
                }
                n if n < 0 && i == last => {
                    let fill = if end { -1 } else { base - 1 };
                    Some(values.map(|v| if v < 0 { fill } else { 0 }).collect())
                }
                _ => None,
            }
        })?;
        let range = |(j, plane): (usize, &D::Plane)| match j + 1 == places {
            true => plane.clone(),
            false => self.within(plane, 0, base - 1),
        };
        Ok(planes.iter().enumerate().map(range).collect())
    }

    /// Returns an array with one element everywhere, given in two's complement.
    pub(super) fn constant_word(&self, like: &Word<D::Plane>, word: u64) -> Result<Word<D::Plane>> {
        let Word { kind, radix, .. } = *like;
        let digits = radix.digits(kind.code(word).into(), radix.planes(kind));
        let planes = digits.into_iter().map(|digit| self.constant(&like.planes[0], digit));
        Ok(Word::new(kind, radix, planes.collect::<Result<_>>()?))
    }

    /// Returns an array of the shape of `like` with one element everywhere, in two's complement.
    ///
    /// # Errors
    /// [`ArrayError::Argument`](crate::array::ArrayError::Argument) for an element that the type does
    /// not have; the errors of [`Digits`].
    pub fn full_like(&self, like: &Word<D::Plane>, word: u64) -> Result<Word<D::Plane>> {
        PlainWords::scalar(word).check(like.kind)?;
        if like.kind == WordType::BOOL && word > 1 {
            return Err(argument("full", format!("{word} is no boolean")));
        }
        self.constant_word(like, word)
    }
}
