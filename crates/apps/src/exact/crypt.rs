//! Encryption and decryption of arrays.

use super::{IntegerArray, IntegerRange, PlainIntegers, Setting, layout::Values};
use crate::array::{ArrayError, Result};
use sudare::exact::{Decryptor, Encryptor};

/// Encrypts an array. It has the range of the values, with ends that move outward to powers of two.
/// The range is public, like the shape.
///
/// # Errors
/// [`ArrayError::Values`](crate::array::ArrayError::Values) and similar errors if the shape does
/// not match the values; [`sudare::Error::ValueOutOfRange`]; [`sudare::Error::ParamsMismatch`].
pub fn encrypt(
    encryptor: &Encryptor,
    setting: &Setting,
    plain: &PlainIntegers,
) -> Result<IntegerArray> {
    let array = encrypted(encryptor, setting, plain)?;
    let range = IntegerRange::of(&plain.values).rounded();
    let whole = setting.range();
    let low = range.low.max(whole.low);
    let high = range.high.min(whole.high);
    Ok(IntegerArray { range: IntegerRange { low, high }, ..array })
}

/// Encrypts an array of elements in a range, which is public.
///
/// # Errors
/// [`ArrayError::Argument`](crate::array::ArrayError::Argument) for a range with integers that are
/// no elements; [`ArrayError::OutsideIntegers`](crate::array::ArrayError::OutsideIntegers) for a value
/// outside the range; the errors of [`encrypt`].
pub fn encrypt_within(
    encryptor: &Encryptor,
    setting: &Setting,
    plain: &PlainIntegers,
    range: IntegerRange,
) -> Result<IntegerArray> {
    setting.check_range(range)?;
    if let Some(index) = plain.values.iter().position(|x| !(range.low..=range.high).contains(x)) {
        let value = plain.values[index];
        let IntegerRange { low, high } = range;
        return Err(ArrayError::OutsideIntegers { index, value, low, high });
    }
    Ok(IntegerArray { range, ..encrypted(encryptor, setting, plain)? })
}

fn encrypted(
    encryptor: &Encryptor,
    setting: &Setting,
    plain: &PlainIntegers,
) -> Result<IntegerArray> {
    let t = setting.modulus();
    let layout = setting.layout(&plain.shape)?;
    plain.check(t, if setting.is_signed() { Values::Signed } else { Values::Unsigned })?;
    let residues = plain.residues(t, &plain.shape);
    let block = |block| encryptor.encrypt(&setting.encode(&layout.scattered(block, &residues))?);
    let blocks = (0..layout.blocks()).map(block).collect::<sudare::Result<_>>()?;
    IntegerArray::from_blocks(setting, layout, blocks, true)
}

/// Decrypts the elements of an array.
///
/// # Errors
/// [`sudare::Error::ParamsMismatch`]; [`sudare::Error::KeyMismatch`]; [`sudare::Error::NotInSlots`]
/// for ciphertexts that were not computed from arrays.
pub fn decrypt(
    decryptor: &Decryptor,
    setting: &Setting,
    array: &IntegerArray,
) -> Result<PlainIntegers> {
    let layout = array.layout();
    let mut values = Vec::with_capacity(layout.elements());
    for (number, block) in array.blocks().iter().enumerate() {
        let slots = setting.decode(&decryptor.decrypt(block)?, layout.columns())?;
        let t = setting.modulus();
        let value = |&slot: &u128| match setting.is_signed() {
            true => t.centered(slot) as i64,
            false => slot as i64,
        };
        values.extend(slots[..layout.range(number).len()].iter().map(value));
    }
    Ok(PlainIntegers::new(array.shape(), values))
}

/// Returns the bits by which errors of the worst block could grow before it fails to decrypt. They
/// depend on the secret key: share them with its owner only.
///
/// # Errors
/// [`sudare::Error::ParamsMismatch`]; [`sudare::Error::KeyMismatch`].
pub fn budget(decryptor: &Decryptor, array: &IntegerArray) -> Result<f64> {
    let budgets = array.blocks().iter().map(|block| decryptor.budget(block));
    Ok(budgets.collect::<sudare::Result<Vec<_>>>()?.into_iter().fold(f64::INFINITY, f64::min))
}
