//! Encryption, decryption, and the ciphertexts of words in files.

use super::{EncryptedPlane, PlainWords, Plane, Radix, Word, WordType};
use crate::{
    array::{ArrayError, Result},
    exact::{IntegerRange, Setting},
};
use sudare::exact::{Ciphertext, Decryptor, Encryptor};

impl PlainWords {
    /// Returns the canonical digits of each plane, in order.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] for elements that the type does not have; [`ArrayError::Values`].
    pub fn digits(&self, kind: WordType, radix: Radix) -> Result<Vec<Vec<i64>>> {
        self.check(kind)?;
        if self.values.len() != self.shape.iter().product::<usize>() {
            return Err(ArrayError::Values { found: self.values.len(), shape: self.shape.clone() });
        }
        let planes = radix.planes(kind);
        let mut digits = vec![Vec::with_capacity(self.values.len()); planes];
        for &word in &self.values {
            let own = radix.digits(kind.code(word).into(), planes);
            digits.iter_mut().zip(own).for_each(|(plane, digit)| plane.push(digit));
        }
        Ok(digits)
    }

    /// Returns the words of digits, which need not be canonical. `digits` has a row for each plane.
    #[must_use]
    pub fn of_digits(kind: WordType, radix: Radix, shape: &[usize], digits: &[Vec<i64>]) -> Self {
        let place = |plane: usize| 1u64 << (plane as u32 * radix.bits());
        let code = |i: usize| {
            let parts = digits.iter().enumerate();
            parts.fold(0u64, |code, (plane, digits)| {
                code.wrapping_add((digits[i] as u64).wrapping_mul(place(plane)))
            })
        };
        let count = digits.first().map_or(0, Vec::len);
        Self { shape: shape.to_vec(), values: (0..count).map(|i| kind.word(code(i))).collect() }
    }
}

/// Returns the range of canonical digits.
fn canonical_range(kind: WordType, radix: Radix) -> IntegerRange {
    let high = if kind == WordType::BOOL { 1 } else { radix.base() - 1 };
    IntegerRange { low: 0, high }
}

impl<P: Clone> Word<P> {
    /// Makes a word of canonical digits. `plane` makes each plane of its shape, digits and range.
    ///
    /// # Errors
    /// The errors of [`PlainWords::digits`] and of `plane`.
    pub fn made_of(
        plain: &PlainWords,
        kind: WordType,
        radix: Radix,
        plane: impl Fn(&[usize], Vec<i64>, IntegerRange) -> Result<P>,
    ) -> Result<Self> {
        let range = canonical_range(kind, radix);
        let planes = plain.digits(kind, radix)?.into_iter();
        let planes = planes.map(|digits| plane(&plain.shape, digits, range));
        Ok(Self::new(kind, radix, planes.collect::<Result<_>>()?))
    }
}

/// Encrypts words. Type, shape and radix are public.
///
/// # Errors
/// [`ArrayError::Argument`] for elements that the type does not have; [`ArrayError::Values`];
/// [`ArrayError::Empty`]; [`sudare::Error::ParamsMismatch`].
pub fn encrypt(
    encryptor: &Encryptor,
    setting: &Setting,
    plain: &PlainWords,
    kind: WordType,
    radix: Radix,
) -> Result<Word<EncryptedPlane>> {
    Word::made_of(plain, kind, radix, |shape, digits, range| {
        let layout = setting.layout(shape)?;
        let residues: Vec<u128> = digits.into_iter().map(|digit| digit as u128).collect();
        let block = |i| encryptor.encrypt(&setting.encode(&layout.scattered(i, &residues))?);
        let blocks = (0..layout.blocks()).map(block).collect::<sudare::Result<_>>()?;
        Ok(Plane::new(layout, blocks, range))
    })
}

/// Decrypts words.
///
/// # Errors
/// [`sudare::Error::ParamsMismatch`]; [`sudare::Error::KeyMismatch`];
/// [`sudare::Error::NotInSlots`] for ciphertexts that were not computed from arrays.
pub fn decrypt(
    decryptor: &Decryptor,
    setting: &Setting,
    word: &Word<EncryptedPlane>,
) -> Result<PlainWords> {
    let t = setting.modulus();
    let plane = |plane: &EncryptedPlane| {
        let layout = plane.layout();
        let mut digits = Vec::with_capacity(layout.elements());
        for (i, block) in plane.blocks().iter().enumerate() {
            let slots = setting.decode(&decryptor.decrypt(block)?, layout.columns())?;
            digits.extend(slots[..layout.range(i).len()].iter().map(|&x| t.centered(x) as i64));
        }
        Ok(digits)
    };
    let digits = word.planes().iter().map(plane).collect::<Result<Vec<_>>>()?;
    let shape = word.planes()[0].layout().shape();
    Ok(PlainWords::of_digits(word.kind(), word.radix(), shape, &digits))
}

/// Makes a word of its ciphertexts in order, the lowest plane first, and the range of each plane.
///
/// # Errors
/// [`ArrayError::Blocks`] unless the number of ciphertexts and ranges matches shape and type, and
/// the ciphertexts of each plane are alike; [`ArrayError::Argument`] for a range that the elements
/// cannot have; the errors of [`crate::exact::IntegerArray::from_blocks`].
pub fn word_of_blocks(
    setting: &Setting,
    shape: &[usize],
    kind: WordType,
    radix: Radix,
    blocks: Vec<Ciphertext>,
    ranges: &[IntegerRange],
) -> Result<Word<EncryptedPlane>> {
    let layout = setting.layout(shape)?;
    let planes = radix.planes(kind);
    let needed = planes * layout.blocks();
    if blocks.len() != needed || ranges.len() != planes {
        return Err(ArrayError::Blocks {
            what: "number of blocks of words",
            found: format!("{} and {} ranges", blocks.len(), ranges.len()),
            needed: format!("{needed} and {planes} ranges"),
        });
    }
    let mut blocks = blocks.into_iter();
    let mut made = Vec::with_capacity(planes);
    for &range in ranges {
        setting.check_centered(range)?;
        let own: Vec<_> = blocks.by_ref().take(layout.blocks()).collect();
        // Refuses what is no array of the setting.
        crate::exact::IntegerArray::from_blocks(setting, layout.clone(), own.clone(), false)?;
        made.push(Plane::new(layout.clone(), own, range));
    }
    Ok(Word::new(kind, radix, made))
}
