//! Machine words on encrypted integers: arrays of `u8` to `u64` and `i8` to `i64` that wrap as
//! NumPy's do, and booleans.
//!
//! A [`Word`] of `w` bits is a sequence of *planes*. Each plane is the same digit of all elements,
//! in ciphertexts of their own, so no operation rotates slots. A [`Radix`] has digits of 4 or 8
//! bits. Algorithms use the operations of [`Digits`] only. [`Clear`] computes with numbers,
//! [`Planes`] with ciphertexts of BGV or, on the simulator, with their public properties, and
//! [`Paired`] with both at once.
//!
//! # Digits
//! A signed word `x` is stored as its *code* `x + 2^(w-1)`, so that codes are ordered as words are.
//! Digits of a code are from 0 to `B - 1` in *canonical* form. Sums, differences and selections
//! leave digits in a larger range, which every plane knows. Carries are computed when an operation
//! needs canonical digits. An array keeps its canonical form, so this happens once. Decryption
//! needs none.
//!
//! # Carries
//! Two tables of a digit `z` tell if it generates a carry, `z >= B`, or propagates one,
//! `z = B - 1`. A prefix network of logarithmic depth joins them (J. Sklansky, "Conditional-sum
//! addition logic", IRE Transactions on Electronic Computers, 1960). Comparisons are trees of the
//! same form: a digit is less, or equal and the digits below are less.

mod bits;
mod carry;
mod clear;
mod compare;
mod crypt;
mod digits;
mod divide;
mod map;
mod multiply;
mod op;
mod paired;
mod plan;

mod planes;
#[cfg(test)]
mod tests;

use crate::{
    array::{ArrayError, Result},
    exact::{IntegerRange, PlainIntegers, broadcast},
};
use core::{fmt, str::FromStr};
use std::sync::{Arc, OnceLock};

pub use bits::Bitwise;
pub use clear::{Clear, ClearPlane};
pub use crypt::{decrypt, encrypt, word_of_blocks};
pub use digits::Digits;
pub use op::WordOp;
pub use paired::{Paired, PairedPlane};
pub use plan::{Usage, bootstrapping_sets, leveled, measuring_setting, required_keys};

pub use planes::{EncryptedPlane, EncryptedPlanes, Plane, Planes, SimulatedPlanes};

/// Type of the elements of an array of words, named as NumPy names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WordType {
    bits: u32,
    signed: bool,
}

impl WordType {
    /// True or false.
    pub const BOOL: Self = Self { bits: 1, signed: false };

    /// Returns the type of `bits` bits.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] unless `bits` is 8, 16, 32 or 64.
    pub fn new(bits: u32, signed: bool) -> Result<Self> {
        match bits {
            8 | 16 | 32 | 64 => Ok(Self { bits, signed }),
            _ => Err(argument("word", format!("{bits} bits: use 8, 16, 32 or 64"))),
        }
    }

    /// Returns the number of bits, 1 for booleans.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// Returns true if elements may be negative.
    #[must_use]
    pub fn is_signed(self) -> bool {
        self.signed
    }

    /// Returns `2^w - 1`.
    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// Returns the difference of a code and its word: `2^(w-1)` for signed words.
    fn bias(self) -> u64 {
        u64::from(self.signed) << (self.bits - 1)
    }

    /// Returns the code of an element. `word` holds it in two's complement.
    fn code(self, word: u64) -> u64 {
        word.wrapping_add(self.bias()) & self.mask()
    }

    /// Returns the element of a code, extended by its sign to 64 bits.
    fn word(self, code: u64) -> u64 {
        (code & self.mask()).wrapping_sub(self.bias())
    }

    /// Returns true if the type has this element, in two's complement of 64 bits.
    fn holds(self, word: u64) -> bool {
        self.word(self.code(word)) == word
    }
}

impl fmt::Display for WordType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BOOL => f.write_str("bool"),
            Self { bits, signed: false } => write!(f, "uint{bits}"),
            Self { bits, signed: true } => write!(f, "int{bits}"),
        }
    }
}

impl FromStr for WordType {
    type Err = ArrayError;

    fn from_str(name: &str) -> Result<Self> {
        let all = [8, 16, 32, 64]
            .into_iter()
            .flat_map(|bits| [false, true].map(|signed| Self { bits, signed }));
        let found = core::iter::once(Self::BOOL).chain(all).find(|kind| kind.to_string() == name);
        found.ok_or_else(|| {
            argument("word", format!("{name:?} is no type of words: use bool, or uint8 to int64"))
        })
    }
}

/// Size of the digits of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Radix {
    /// 4 bits: tables have less depth.
    Nibbles,
    /// 8 bits: half the number of planes.
    Bytes,
}

impl Radix {
    /// Returns the bits of a digit.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            Self::Nibbles => 4,
            Self::Bytes => 8,
        }
    }

    /// Returns the radix of digits of this size.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] unless it is 4 or 8.
    pub fn of_bits(bits: u32) -> Result<Self> {
        match bits {
            4 => Ok(Self::Nibbles),
            8 => Ok(Self::Bytes),
            _ => Err(argument("word", format!("digits of {bits} bits: use 4 or 8"))),
        }
    }

    /// `B`: digits are below it.
    fn base(self) -> i64 {
        1 << self.bits()
    }

    /// Returns the number of digits of a type.
    #[must_use]
    pub fn planes(self, kind: WordType) -> usize {
        kind.bits.div_ceil(self.bits()) as usize
    }

    /// Returns the lowest `count` digits of a code.
    fn digits(self, code: u128, count: usize) -> Vec<i64> {
        let digit = |i: usize| match i as u32 * self.bits() {
            shift if shift < u128::BITS => ((code >> shift) as i64) & (self.base() - 1),
            _ => 0,
        };
        (0..count).map(digit).collect()
    }
}

/// An array of words, whose planes have the lowest digit first. Clones are cheap.
#[derive(Debug, Clone)]
pub struct Word<P> {
    kind: WordType,
    radix: Radix,
    planes: Vec<P>,
    /// Planes of canonical digits, once they are known.
    canonical: Arc<OnceLock<Vec<P>>>,
}

impl<P: Clone> Word<P> {
    fn new(kind: WordType, radix: Radix, planes: Vec<P>) -> Self {
        Self { kind, radix, planes, canonical: Arc::default() }
    }

    /// Returns the type of the elements.
    #[must_use]
    pub fn kind(&self) -> WordType {
        self.kind
    }

    /// Returns the size of the digits.
    #[must_use]
    pub fn radix(&self) -> Radix {
        self.radix
    }

    /// Returns the planes, the lowest digit first.
    #[must_use]
    pub fn planes(&self) -> &[P] {
        &self.planes
    }

    /// Applies `map` to each plane, which keeps canonical digits canonical.
    fn map(&self, map: impl Fn(&P) -> Result<P>) -> Result<Self> {
        let planes = self.planes.iter().map(map).collect::<Result<_>>()?;
        Ok(Self::new(self.kind, self.radix, planes))
    }
}

/// An array of words in the clear, in two's complement of 64 bits, in C order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainWords {
    /// Elements along each axis.
    pub shape: Vec<usize>,
    /// The elements.
    pub values: Vec<u64>,
}

impl PlainWords {
    /// Creates an array without axes.
    #[must_use]
    pub fn scalar(value: u64) -> Self {
        Self { shape: Vec::new(), values: vec![value] }
    }

    /// Rejects elements that the type does not have.
    fn check(&self, kind: WordType) -> Result<()> {
        match self.values.iter().position(|&word| !kind.holds(word)) {
            None => Ok(()),
            Some(index) => {
                let found = self.values[index] as i64;
                let problem =
                    format!("value {index} is {found}, which is no {kind}: convert it first");
                Err(argument("word", problem))
            }
        }
    }
}

/// An operand.
#[derive(Debug, Clone)]
pub enum Operand<P> {
    /// Encrypted.
    Encrypted(Word<P>),
    /// In the clear for the machine that computes.
    Plain(PlainWords),
}

/// An operand in the common shape of both: an encrypted array, or one code for all elements.
#[derive(Debug, Clone)]
enum Side<P> {
    Word(Word<P>),
    Scalar(u64),
}

/// Two operands in their common shape.
struct Sides<P> {
    kind: WordType,
    a: Side<P>,
    b: Side<P>,
}

/// The smallest plaintext modulus of words: sums of products of nibbles are below half of it.
const LEAST_MODULUS: u128 = 1 << 13;

/// Largest magnitude of digits that wait for their carries.
const LAZY: i64 = 1024;

/// Operations on arrays of words.
#[derive(Debug)]
pub struct Words<D> {
    digits: D,
}

impl<D: Digits> Words<D> {
    /// Creates operations on these digits.
    pub fn new(digits: D) -> Self {
        Self { digits }
    }

    /// Returns the operations on digits.
    pub fn digits(&self) -> &D {
        &self.digits
    }

    /// Returns the elements along each axis.
    pub fn shape<'a>(&'a self, a: &'a Word<D::Plane>) -> &'a [usize] {
        self.digits.layout(&a.planes[0]).shape()
    }

    /// Returns the same elements in another shape.
    ///
    /// # Errors
    /// [`ArrayError::Shapes`] for another number of elements; [`ArrayError::Empty`].
    pub fn reshaped(&self, a: &Word<D::Plane>, shape: &[usize]) -> Result<Word<D::Plane>> {
        a.map(|plane| self.digits.reshaped(plane, shape))
    }

    /// Returns both operands in their common shape, and their type.
    fn sides(
        &self,
        op: &'static str,
        a: &Operand<D::Plane>,
        b: &Operand<D::Plane>,
    ) -> Result<Sides<D::Plane>> {
        let ((Operand::Encrypted(first), _) | (_, Operand::Encrypted(first))) = (a, b) else {
            let problem = "both operands are in the clear: encrypt one of them, or use NumPy";
            return Err(argument(op, problem.into()));
        };
        if let (Operand::Encrypted(a), Operand::Encrypted(b)) = (a, b)
            && (a.kind != b.kind || a.radix != b.radix)
        {
            let named =
                |x: &Word<D::Plane>| format!("{} in digits of {} bits", x.kind, x.radix.bits());
            let problem =
                format!("operands are {} and {}: convert one of them", named(a), named(b));
            return Err(argument(op, problem));
        }
        let shape_of = |x: &Operand<D::Plane>| match x {
            Operand::Encrypted(x) => self.shape(x).to_vec(),
            Operand::Plain(x) => x.shape.clone(),
        };
        let shape = broadcast(op, &shape_of(a), &shape_of(b))?;
        let side = |x: &Operand<D::Plane>| match x {
            Operand::Encrypted(x) if self.shape(x) == shape => Ok(Side::Word(x.clone())),
            Operand::Encrypted(x) => {
                Ok(Side::Word(x.map(|plane| self.digits.repeated(op, plane, &shape))?))
            }
            Operand::Plain(x) => {
                x.check(first.kind)?;
                match x.values[..] {
                    [word] => Ok(Side::Scalar(first.kind.code(word))),
                    _ => self.lifted(first, x, &shape).map(Side::Word),
                }
            }
        };
        Ok(Sides { kind: first.kind, a: side(a)?, b: side(b)? })
    }

    /// Returns a plain array as a word, to compute with it as with encrypted ones.
    fn lifted(
        &self,
        like: &Word<D::Plane>,
        plain: &PlainWords,
        shape: &[usize],
    ) -> Result<Word<D::Plane>> {
        let like_plane = match self.shape(like) == shape {
            true => like.planes[0].clone(),
            false => self.digits.repeated("broadcast", &like.planes[0], shape)?,
        };
        let zero = self.constant(&like_plane, 0)?;
        let values = repeated(plain, shape);
        let Word { kind, radix, .. } = *like;
        let plane = |i: usize| {
            let digit = |&word: &u64| radix.digits(kind.code(word).into(), i + 1)[i];
            let plane =
                self.digits.add_plain(&zero, &values.iter().map(digit).collect::<Vec<_>>())?;
            let high = if kind == WordType::BOOL { 1 } else { radix.base() - 1 };
            Ok(self.digits.within(&plane, IntegerRange { low: 0, high }))
        };
        let planes = (0..radix.planes(kind)).map(plane).collect::<Result<_>>()?;
        Ok(Word::new(kind, radix, planes))
    }

    /// Returns a constant in every element, in the form of a plane.
    fn constant(&self, like: &D::Plane, c: i64) -> Result<D::Plane> {
        let sum = self.digits.sum(&[(like, 1), (like, -1)], c)?;
        // The engine does not see that both terms are the same.
        Ok(self.within(&sum, c, c))
    }

    /// Promises a range of a plane.
    fn within(&self, a: &D::Plane, low: i64, high: i64) -> D::Plane {
        self.digits.within(a, IntegerRange { low, high })
    }

    /// Returns the sum.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] for operands of different types, or both in the clear;
    /// [`ArrayError::Shapes`]; the errors of [`Digits`].
    pub fn add(&self, a: &Operand<D::Plane>, b: &Operand<D::Plane>) -> Result<Word<D::Plane>> {
        let Sides { kind, a, b } = self.sides("add", a, b)?;
        if kind == WordType::BOOL {
            return self.bitwise_of(Bitwise::Or, &a, &b);
        }
        match (&a, &b) {
            // The codes of signed words have the bias twice.
            (Side::Word(a), Side::Word(b)) => self.combined(a, b, 1, -1),
            (Side::Word(a), Side::Scalar(c)) | (Side::Scalar(c), Side::Word(a)) => {
                self.shifted(a, 1, kind.word(*c), 1)
            }
            (Side::Scalar(_), Side::Scalar(_)) => Err(in_the_clear("add")),
        }
    }

    /// Returns the difference.
    ///
    /// # Errors
    /// The errors of [`Words::add`]; [`ArrayError::Argument`] for booleans.
    pub fn sub(&self, a: &Operand<D::Plane>, b: &Operand<D::Plane>) -> Result<Word<D::Plane>> {
        const OP: &str = "subtract";
        let Sides { kind, a, b } = self.sides(OP, a, b)?;
        self.refuse_booleans(OP, kind)?;
        match (&a, &b) {
            // The biases of both cancel.
            (Side::Word(a), Side::Word(b)) => self.combined(a, b, -1, 1),
            (Side::Word(a), Side::Scalar(c)) => self.shifted(a, 1, kind.word(*c), -1),
            (Side::Scalar(c), Side::Word(b)) => self.shifted(b, -1, kind.word(*c), 1),
            (Side::Scalar(_), Side::Scalar(_)) => Err(in_the_clear(OP)),
        }
    }

    /// Returns the negative, which wraps: the lowest word stays as it is.
    ///
    /// # Errors
    /// [`ArrayError::Argument`] for booleans; the errors of [`Digits`].
    pub fn neg(&self, a: &Word<D::Plane>) -> Result<Word<D::Plane>> {
        self.refuse_booleans("negate", a.kind)?;
        self.shifted(a, -1, 0, 1)
    }

    /// Returns the complement of every bit.
    ///
    /// # Errors
    /// The errors of [`Digits`].
    pub fn invert(&self, a: &Word<D::Plane>) -> Result<Word<D::Plane>> {
        let high = if a.kind == WordType::BOOL { 1 } else { a.radix.base() - 1 };
        let planes = self.canonical(a)?;
        let planes = planes.iter().map(|plane| self.digits.sum(&[(plane, -1)], high));
        Ok(Word::new(a.kind, a.radix, planes.collect::<Result<_>>()?))
    }

    /// Returns the magnitude, which wraps: the lowest word stays as it is.
    ///
    /// # Errors
    /// The errors of [`Words::select`].
    pub fn abs(&self, a: &Word<D::Plane>) -> Result<Word<D::Plane>> {
        if !a.kind.signed {
            return Ok(a.clone());
        }
        let a = Word::new(a.kind, a.radix, self.canonical(a)?);
        let zero = Operand::Plain(PlainWords::scalar(0));
        let x = Operand::Encrypted(a.clone());
        let negative = self.compare(&x, crate::exact::Comparison::Less, &zero)?;
        self.select(&Operand::Encrypted(negative), &Operand::Encrypted(self.neg(&a)?), &x)
    }

    /// Returns `sign a + c` or `sign a - c` for a number in two's complement, digit by digit.
    fn shifted(&self, a: &Word<D::Plane>, sign: i64, c: u64, of_c: i64) -> Result<Word<D::Plane>> {
        let digits = a.radix.digits((c & a.kind.mask()).into(), a.planes.len());
        self.lazily(&[a], |words| {
            let plane = |(plane, c): (&D::Plane, &i64)| self.digits.sum(&[(plane, sign)], of_c * c);
            words[0].iter().zip(&digits).map(plane).collect()
        })
    }

    /// Returns `a + sign b`, digit by digit, with the half of the base added to the top digit of
    /// signed words, or subtracted from it.
    fn combined(
        &self,
        a: &Word<D::Plane>,
        b: &Word<D::Plane>,
        sign: i64,
        half: i64,
    ) -> Result<Word<D::Plane>> {
        let top = a.planes.len() - 1;
        let half = if a.kind.signed { half * a.radix.base() / 2 } else { 0 };
        self.lazily(&[a, b], |words| {
            let plane = |(i, (a, b)): (usize, (&D::Plane, &D::Plane))| {
                self.digits.sum(&[(a, 1), (b, sign)], if i == top { half } else { 0 })
            };
            words[0].iter().zip(words[1]).enumerate().map(plane).collect()
        })
    }

    /// Returns a combination of digits, or of canonical digits if the others would become too
    /// large.
    fn lazily(
        &self,
        words: &[&Word<D::Plane>],
        combine: impl Fn(&[&[D::Plane]]) -> Result<Vec<D::Plane>>,
    ) -> Result<Word<D::Plane>> {
        let known = |word: &&Word<D::Plane>| match word.canonical.get() {
            Some(planes) => planes.clone(),
            None => word.planes.clone(),
        };
        let held: Vec<_> = words.iter().map(known).collect();
        let planes = combine(&held.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let fits = |plane: &D::Plane| {
            let IntegerRange { low, high } = self.digits.range(plane);
            -LAZY <= low && high <= LAZY
        };
        let planes = match planes {
            Ok(planes) if planes.iter().all(fits) => planes,
            Err(error) if !matches!(error, ArrayError::TableRange { .. }) => return Err(error),
            _ => {
                let held =
                    words.iter().map(|word| self.canonical(word)).collect::<Result<Vec<_>>>()?;
                combine(&held.iter().map(Vec::as_slice).collect::<Vec<_>>())?
            }
        };
        Ok(Word::new(words[0].kind, words[0].radix, planes))
    }

    /// Returns the planes of canonical digits, which the word keeps.
    fn canonical(&self, a: &Word<D::Plane>) -> Result<Vec<D::Plane>> {
        if let Some(planes) = a.canonical.get() {
            return Ok(planes.clone());
        }
        let planes = match a.kind {
            WordType::BOOL => a.planes.clone(),
            _ => self.normalized(a.planes.clone(), a.radix)?,
        };
        Ok(a.canonical.get_or_init(|| planes).clone())
    }

    /// Returns the word with its carries computed, which later operations then need not do.
    ///
    /// # Errors
    /// The errors of [`Digits`].
    pub fn carried(&self, a: &Word<D::Plane>) -> Result<Word<D::Plane>> {
        Ok(Word::new(a.kind, a.radix, self.canonical(a)?))
    }

    /// Converts to another type as NumPy's `astype` does: numbers wrap, and booleans are true
    /// unless a number is 0.
    ///
    /// # Errors
    /// The errors of [`Digits`].
    pub fn converted(&self, a: &Word<D::Plane>, to: WordType) -> Result<Word<D::Plane>> {
        if a.kind == to {
            return Ok(a.clone());
        }
        if to == WordType::BOOL {
            let zero = Operand::Plain(PlainWords::scalar(0));
            let x = Operand::Encrypted(a.clone());
            return self.compare(&x, crate::exact::Comparison::NotEqual, &zero);
        }
        let radix = a.radix;
        let count = radix.planes(to);
        // Without its highest digits, a word needs no carry. With more, it must be known.
        let mut planes = match count > a.planes.len() {
            true => self.canonical(a)?,
            false => a.planes[..count].to_vec(),
        };
        while planes.len() < count {
            planes.push(self.constant(&planes[0], 0)?);
        }
        let half = radix.base() / 2;
        let place = a.planes.len() - 1;
        // The bias of the new type replaces the old one. At the top, its sign is free.
        let mut add = |i: usize, c: i64| {
            planes[i] = self.digits.sum(&[(&planes[i], 1)], c)?;
            Ok::<_, ArrayError>(())
        };
        if a.kind.signed && place < count {
            add(place, -half)?;
        }
        if to.signed {
            add(count - 1, half)?;
        }
        Ok(Word::new(to, radix, planes))
    }

    fn refuse_booleans(&self, op: &'static str, kind: WordType) -> Result<()> {
        match kind {
            WordType::BOOL => {
                Err(argument(op, "operands are booleans: use ^, ~ or &, or convert them".into()))
            }
            _ => Ok(()),
        }
    }
}

fn argument(op: &'static str, problem: String) -> ArrayError {
    ArrayError::Argument { op, problem }
}

fn in_the_clear(op: &'static str) -> ArrayError {
    argument(op, "both operands are in the clear: encrypt one of them, or use NumPy".into())
}

/// Returns the elements of a plain array, repeated to `shape`, which it is broadcast to.
fn repeated(plain: &PlainWords, shape: &[usize]) -> Vec<u64> {
    // Places of elements fit a word, as the elements themselves might not.
    let places = (0..plain.values.len() as i64).collect();
    let places = PlainIntegers::new(&plain.shape, places).repeated(shape);
    places.into_iter().map(|place| plain.values[place as usize]).collect()
}
