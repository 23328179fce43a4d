//! Layout of arrays in ciphertexts, and plain arrays.

use crate::array::{ArrayError, Result};
use core::ops::Range;
use sudare::exact::Modulus;

/// Maximum number of elements of an array.
const MAX_ELEMENTS: u64 = 1 << 40;

/// Maximum number of axes of an array.
const MAX_AXES: usize = 32;

/// Map from the elements of an array to *blocks*, each a ciphertext.
///
/// Elements are in C order and fill all slots of each block. An array that needs fewer slots uses
/// the next power of two, at least 2. The first half of these slots is row 0 and the second half
/// row 1. Each row repeats to all columns of the plaintext, so rotations of rows rotate elements.
/// The element of an array of one element is in every slot. Slots beyond the last element are
/// *padding*.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    shape: Vec<usize>,
    /// `log2` of the slots of a block, before they repeat.
    log_slots: u32,
}

impl Layout {
    /// Creates a layout in blocks of at most `2^most` slots.
    pub(super) fn new(shape: &[usize], most: u32) -> Result<Self> {
        let elements = elements(shape)?;
        // At least 2 slots, because a block has two rows.
        let log_slots = elements.next_power_of_two().ilog2().clamp(1, most);
        Ok(Self { shape: shape.to_vec(), log_slots })
    }

    /// Returns the elements along each axis.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns `log2` of the slots of a block, before they repeat.
    #[must_use]
    pub fn log_slots(&self) -> u32 {
        self.log_slots
    }

    /// Returns the number of ciphertexts.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.elements().div_ceil(1 << self.log_slots)
    }

    /// Returns whether there are slots beyond the last element.
    #[must_use]
    pub fn is_padded(&self) -> bool {
        !self.is_everywhere() && !self.elements().is_multiple_of(1 << self.log_slots)
    }

    /// Returns whether the array has one element, in every slot.
    #[must_use]
    pub fn is_everywhere(&self) -> bool {
        self.elements() == 1
    }

    /// Returns the columns of a block, before they repeat.
    pub(crate) fn columns(&self) -> usize {
        1 << (self.log_slots - 1)
    }

    /// Returns the range of the elements in a block.
    pub(crate) fn range(&self, block: usize) -> Range<usize> {
        let start = block << self.log_slots;
        start..self.elements().min(start + (1 << self.log_slots))
    }

    /// Returns the element in a row and a column of a block, or `None` for padding.
    pub(super) fn element(&self, block: usize, row: usize, column: usize) -> Option<usize> {
        if self.is_everywhere() {
            return Some(0);
        }
        let columns = self.columns();
        let element = (block << self.log_slots) + row * columns + column % columns;
        (element < self.elements()).then_some(element)
    }

    /// Returns both rows of a block, before they repeat, filled with the elements.
    pub(crate) fn scattered(&self, block: usize, elements: &[u128]) -> Vec<u128> {
        let columns = self.columns();
        let slot = |i| self.element(block, i / columns, i % columns).map_or(0, |i| elements[i]);
        (0..2 * columns).map(slot).collect()
    }

    /// Returns the layout `to` for an array of this one, which has its elements or one of them.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] for any other array.
    pub(crate) fn repeated(&self, op: &'static str, to: Self) -> Result<Self> {
        if to.elements() == self.elements() {
            return self.reshaped(&to.shape);
        }
        match self.is_everywhere() {
            true => Ok(to),
            false => Err(ArrayError::Argument {
                op,
                problem: format!(
                    "an encrypted array of shape {:?} would be repeated to {:?}, which only one of \
                     a single element can be: encrypt it in that shape",
                    self.shape, to.shape
                ),
            }),
        }
    }

    pub(crate) fn reshaped(&self, shape: &[usize]) -> Result<Self> {
        if elements(shape)? != self.elements() {
            let left = self.shape.clone();
            let right = shape.to_vec();
            return Err(ArrayError::Shapes { op: "reshape", left, right });
        }
        Ok(Self { shape: shape.to_vec(), log_slots: self.log_slots })
    }
}

/// Returns the number of elements of a shape.
fn elements(shape: &[usize]) -> Result<usize> {
    if let Some(axis) = shape.iter().position(|&size| size == 0) {
        return Err(ArrayError::Empty { shape: shape.to_vec(), axis });
    }
    // Sizes are not limited yet, so their product may overflow.
    let product = shape.iter().try_fold(1usize, |all, &size| all.checked_mul(size));
    match product {
        Some(elements) if elements as u64 <= MAX_ELEMENTS && shape.len() <= MAX_AXES => {
            Ok(elements)
        }
        _ => Err(ArrayError::TooLarge { shape: shape.to_vec() }),
    }
}

/// Returns the shape that two shapes are broadcast to, as in NumPy.
pub(crate) fn broadcast(op: &'static str, left: &[usize], right: &[usize]) -> Result<Vec<usize>> {
    let axes = left.len().max(right.len());
    let size = |shape: &[usize], axis: usize| {
        (axis + shape.len()).checked_sub(axes).map_or(1, |axis| shape[axis])
    };
    let joint = |axis| match (size(left, axis), size(right, axis)) {
        (a, b) if a == b || b == 1 => Ok(a),
        (1, b) => Ok(b),
        _ => Err(ArrayError::Shapes { op, left: left.to_vec(), right: right.to_vec() }),
    };
    (0..axes).map(joint).collect()
}

/// An array of plain integers, in C order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainIntegers {
    /// Elements along each axis.
    pub shape: Vec<usize>,
    /// The elements. An operation checks that they fill the shape.
    pub values: Vec<i64>,
}

impl PlainIntegers {
    /// Creates an array. Operations check its values, not this function.
    #[must_use]
    pub fn new(shape: &[usize], values: Vec<i64>) -> Self {
        Self { shape: shape.to_vec(), values }
    }

    /// Creates an array without axes.
    #[must_use]
    pub fn scalar(value: i64) -> Self {
        Self { shape: Vec::new(), values: vec![value] }
    }

    /// Returns the only value, if an array of this shape stays in its shape when it is combined with
    /// this one.
    pub(super) fn scalar_for(&self, shape: &[usize]) -> Option<i64> {
        match self.values[..] {
            // A scalar of more axes would add axes to the result.
            [c] if self.shape.len() <= shape.len() && self.shape.iter().all(|&size| size == 1) => {
                Some(c)
            }
            _ => None,
        }
    }

    /// Returns the negatives. The smallest word stays as it is: no modulus has it in its range.
    #[must_use]
    pub fn negated(&self) -> Self {
        Self::new(&self.shape, self.values.iter().map(|x| x.wrapping_neg()).collect())
    }

    /// Rejects values that do not fill the shape, or are out of the range of elements modulo `t`:
    /// signed, unsigned, or both.
    pub(super) fn check(&self, t: Modulus, range: Values) -> Result<()> {
        let found = self.values.len();
        if elements(&self.shape)? != found {
            return Err(ArrayError::Values { found, shape: self.shape.clone() });
        }
        let most = match range {
            Values::Signed => t.value() / 2,
            Values::Unsigned | Values::Any => t.value() - 1,
        };
        let signed = range != Values::Unsigned;
        let fits = |x: i64| u128::from(x.unsigned_abs()) <= most && (signed || x >= 0);
        match self.values.iter().position(|&x| !fits(x)) {
            None => Ok(()),
            Some(index) => {
                let value = self.values[index].to_string();
                Err(sudare::Error::ValueOutOfRange { index, value, most, signed }.into())
            }
        }
    }

    /// Returns the residues, repeated to `shape`, which this array is broadcast to.
    pub(super) fn residues(&self, t: Modulus, shape: &[usize]) -> Vec<u128> {
        self.repeated(shape).into_iter().map(|x| t.reduce_i128(x.into())).collect()
    }

    /// Returns the values, repeated to `shape`, which this array is broadcast to.
    pub(crate) fn repeated(&self, shape: &[usize]) -> Vec<i64> {
        if self.shape == shape {
            return self.values.clone();
        }
        let missing = shape.len() - self.shape.len();
        // Distance of neighbours along each axis, 0 where the axis is repeated.
        let mut strides = vec![0; shape.len()];
        let mut stride = 1;
        for (axis, &size) in self.shape.iter().enumerate().rev() {
            strides[missing + axis] = if size == 1 { 0 } else { stride };
            stride *= size;
        }
        let mut places = vec![0];
        for (&size, stride) in shape.iter().zip(strides) {
            places = places.iter().flat_map(|p| (0..size).map(move |i| p + i * stride)).collect();
        }
        places.into_iter().map(|place| self.values[place]).collect()
    }
}

/// Range of the integers that represent residues modulo `t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Values {
    /// Magnitudes up to `t / 2`.
    Signed,
    /// From 0 to `t - 1`.
    Unsigned,
    /// Magnitudes below `t`.
    Any,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_fill_blocks_and_repeat() {
        let layout = Layout::new(&[2, 3], 5).unwrap();
        assert_eq!((layout.log_slots(), layout.blocks(), layout.is_padded()), (3, 1, true));
        assert_eq!((layout.element(0, 1, 1), layout.element(0, 1, 6)), (Some(5), None));
        assert_eq!(layout.element(0, 0, 7), Some(3));
        let layout = Layout::new(&[5, 16], 5).unwrap();
        assert_eq!((layout.log_slots(), layout.blocks(), layout.is_padded()), (5, 3, true));
        assert_eq!((layout.range(2), layout.element(1, 1, 2)), (64..80, Some(50)));
        let one = Layout::new(&[1, 1], 5).unwrap();
        assert_eq!((one.log_slots(), one.is_padded()), (1, false));
        assert_eq!((one.element(0, 1, 0), one.scattered(0, &[7])), (Some(0), vec![7, 7]));
        assert!(matches!(Layout::new(&[3, 0], 5), Err(ArrayError::Empty { axis: 1, .. })));
        assert!(matches!(Layout::new(&[usize::MAX / 2], 5), Err(ArrayError::TooLarge { .. })));
        assert!(layout.reshaped(&[80]).is_ok() && layout.reshaped(&[81]).is_err());
    }

    #[test]
    fn plain_arrays_are_broadcast() {
        let t = Modulus::new(17, 1).unwrap();
        let shape = broadcast("test", &[2, 1, 3], &[4, 1]).unwrap();
        assert_eq!(shape, [2, 4, 3]);
        let residues = PlainIntegers::new(&[4, 1], vec![1, 2, -1, 0]).residues(t, &shape);
        let row = [1, 1, 1, 2, 2, 2, 16, 16, 16, 0, 0, 0];
        assert_eq!(residues, [row, row].concat());
        assert_eq!(PlainIntegers::scalar(5).residues(t, &[2, 2]), [5; 4]);
        assert!(matches!(broadcast("test", &[2], &[3]), Err(ArrayError::Shapes { .. })));
        assert_eq!(broadcast("test", &[], &[]).unwrap(), [0; 0]);
    }

    #[test]
    fn values_out_of_range_are_found() {
        let t = Modulus::new(17, 1).unwrap();
        let refused = |values: &[i64], range| {
            let plain = PlainIntegers::new(&[values.len()], values.to_vec());
            match plain.check(t, range) {
                Err(ArrayError::Library(sudare::Error::ValueOutOfRange { index, .. })) => {
                    Some(index)
                }
                result => {
                    result.unwrap();
                    None
                }
            }
        };
        assert_eq!(refused(&[8, -8], Values::Signed), None);
        assert_eq!(refused(&[8, -9], Values::Signed), Some(1));
        assert_eq!(refused(&[0, 16], Values::Unsigned), None);
        assert_eq!(refused(&[-1], Values::Unsigned), Some(0));
        assert_eq!(refused(&[-16, 16], Values::Any), None);
        assert_eq!(refused(&[0, 17], Values::Any), Some(1));
        assert_eq!(refused(&[i64::MIN], Values::Any), Some(0));
        let few = PlainIntegers::new(&[3], vec![1]).check(t, Values::Any);
        assert!(matches!(few, Err(ArrayError::Values { found: 1, .. })));
    }
}
