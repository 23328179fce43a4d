use crate::{Result, rlwe::Scale};
use core::{
    fmt::Debug,
    ops::{Add, Sub},
};

/// What slots hold, and how numbers are encoded: all that a circuit needs to know of a scheme.
pub trait Algebra: Copy + PartialEq + Debug + Send + Sync + 'static {
    /// What plaintexts are multiplied by.
    type Scale: Scale;
    /// A number that stands in every slot.
    type Constant: Copy + PartialEq + Debug + Send + Sync;
    /// A coefficient of the polynomials that are evaluated.
    type Coefficient: Coefficient + Into<Self::Constant>;
    /// A plaintext in the clear, a number for each slot.
    type Vector: ?Sized + ToOwned<Owned: Clone + PartialEq + Debug + Send + Sync>;

    /// Whether a vector has a number for each of so many slots.
    ///
    /// # Errors
    /// [`Error::NotFinite`](crate::Error::NotFinite) for what is not a number.
    fn fits(vector: &Self::Vector, slots: usize) -> Result<bool>;
    /// The vector whose slot `i` is slot `i - k` of this one, indices modulo the number of slots,
    /// within each row if slots form several.
    fn rotated_right(vector: &Self::Vector, k: usize) -> <Self::Vector as ToOwned>::Owned;
}

/// A coefficient of a polynomial.
pub trait Coefficient:
    Copy + PartialEq + Debug + Send + Sync + Add<Output = Self> + Sub<Output = Self>
{
    /// The coefficient of what is not there.
    const ZERO: Self;
    /// That of a lone power.
    const ONE: Self;
}

/// A vector of an algebra that is owned.
pub type OwnedVector<A> = <<A as Algebra>::Vector as ToOwned>::Owned;
