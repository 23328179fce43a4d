use super::{Bitwise, Digits, Operand, Word, WordType, Words, argument};
use crate::{array::Result, exact::Comparison};

/// An operation on arrays of words, as a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordOp {
    /// [`Words::add`].
    Add,
    /// [`Words::sub`].
    Sub,
    /// [`Words::mul`].
    Mul,
    /// [`Words::neg`].
    Neg,
    /// [`Words::abs`].
    Abs,
    /// [`Words::invert`].
    Invert,
    /// [`Words::carried`].
    Carry,
    /// [`Words::compare`].
    Compare(Comparison),
    /// [`Words::select`]: mask, choice where it is true, other choice.
    Select,
    /// [`Words::minimum`].
    Minimum,
    /// [`Words::maximum`].
    Maximum,
    /// [`Words::bitwise`].
    Bitwise(Bitwise),
    /// [`Words::shift_left`].
    ShiftLeft(u32),
    /// [`Words::shift_right`].
    ShiftRight(u32),
    /// [`Words::quotient`].
    Quotient(u64),
    /// [`Words::remainder`].
    Remainder(u64),
    /// [`Words::is_in`].
    IsIn(Vec<u64>),
    /// [`Words::search_sorted`].
    SearchSorted {
        /// The edges, in two's complement.
        edges: Vec<u64>,
        /// True to count edges that are equal to an element.
        right: bool,
    },
    /// [`Words::converted`].
    Convert(WordType),
    /// [`Words::reshaped`].
    Reshape(Vec<usize>),
}

impl WordOp {
    /// Returns the result for the operands of the operation.
    ///
    /// # Errors
    /// [`ArrayError::Argument`](crate::array::ArrayError::Argument) for another number of operands, or
    /// a plain operand where only encrypted ones are possible; the errors of the operation.
    pub fn apply<D: Digits>(
        &self,
        w: &Words<D>,
        operands: &[Operand<D::Plane>],
    ) -> Result<Word<D::Plane>> {
        match (self, operands) {
            (Self::Select, [mask, a, b]) => w.select(mask, a, b),
            (_, [a, b]) => self.of_two(w, a, b),
            (_, [Operand::Encrypted(a)]) => self.of_one(w, a),
            _ => self.refused(operands.len()),
        }
    }

    fn of_two<D: Digits>(
        &self,
        w: &Words<D>,
        a: &Operand<D::Plane>,
        b: &Operand<D::Plane>,
    ) -> Result<Word<D::Plane>> {
        match self {
            Self::Add => w.add(a, b),
            Self::Sub => w.sub(a, b),
            Self::Mul => w.mul(a, b),
            Self::Compare(comparison) => w.compare(a, *comparison, b),
            Self::Minimum => w.minimum(a, b),
            Self::Maximum => w.maximum(a, b),
            Self::Bitwise(op) => w.bitwise(*op, a, b),
            _ => self.refused(2),
        }
    }

    fn of_one<D: Digits>(&self, w: &Words<D>, a: &Word<D::Plane>) -> Result<Word<D::Plane>> {
        match self {
            Self::Neg => w.neg(a),
            Self::Abs => w.abs(a),
            Self::Invert => w.invert(a),
            Self::Carry => w.carried(a),
            Self::ShiftLeft(count) => w.shift_left(a, *count),
            Self::ShiftRight(count) => w.shift_right(a, *count),
            Self::Quotient(divisor) => w.quotient(a, *divisor),
            Self::Remainder(divisor) => w.remainder(a, *divisor),
            Self::IsIn(numbers) => w.is_in(a, numbers),
            Self::SearchSorted { edges, right } => w.search_sorted(edges, a, *right),
            Self::Convert(to) => w.converted(a, *to),
            Self::Reshape(shape) => w.reshaped(a, shape),
            _ => self.refused(1),
        }
    }

    fn refused<T>(&self, found: usize) -> Result<T> {
        let needed = match self {
            Self::Select => 3,
            Self::Add | Self::Sub | Self::Mul | Self::Compare(_) | Self::Bitwise(_) => 2,
            Self::Minimum | Self::Maximum => 2,
            _ => 1,
        };
        let problem = format!("{found} operands: pass {needed}, one of them encrypted");
        Err(argument("words", problem))
    }
}
