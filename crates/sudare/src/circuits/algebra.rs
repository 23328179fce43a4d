use crate::{Result, rlwe::Scale};
use core::{
    fmt::Debug,
    ops::{Add, Sub},
};

/// The content of slots and the encoding of numbers: all that a circuit depends on in a scheme.
pub trait Algebra: Copy + PartialEq + Debug + Send + Sync + 'static {
    /// The factor of plaintexts.
    type Scale: Scale;
    /// A number that fills every slot.
    type Constant: Copy + PartialEq + Debug + Send + Sync;
    /// A coefficient of the polynomials to evaluate.
    type Coefficient: Coefficient + Into<Self::Constant>;
    /// A plaintext in the clear: one number per slot.
    type Vector: ?Sized + ToOwned<Owned: Clone + PartialEq + Debug + Send + Sync>;

    /// Returns `true` if a vector has one number for each of `slots` slots.
    ///
    /// # Errors
    /// [`Error::NotFinite`](crate::Error::NotFinite) for NaN and infinity.
    fn fits(vector: &Self::Vector, slots: usize) -> Result<bool>;
    /// Returns `log2` of the largest power `g` of two, at most half the dimension, such that the
    /// plaintext of the vector in the ring of degree `2^log_n` is a polynomial in `X^g`: the shorter
    /// the period of the slots, the larger.
    fn log_gap(vector: &Self::Vector, log_n: u32) -> u32;
    /// Returns the vector whose slot `i` is slot `i - k` of this one. Indices count modulo the
    /// number of slots, within each row if slots form several.
    fn rotated_right(vector: &Self::Vector, k: usize) -> <Self::Vector as ToOwned>::Owned;
}

/// A coefficient of a polynomial.
pub trait Coefficient:
    Copy + PartialEq + Debug + Send + Sync + Add<Output = Self> + Sub<Output = Self>
{
    /// The coefficient of an absent term.
    const ZERO: Self;
    /// The coefficient of a power alone.
    const ONE: Self;
}

/// A vector of an algebra that is owned.
pub type OwnedVector<A> = <<A as Algebra>::Vector as ToOwned>::Owned;
