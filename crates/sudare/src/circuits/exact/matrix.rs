use super::IntegerSlots;
#[cfg(doc)]
use crate::Error;
use crate::{Result, circuits::linear, exact::PlainPoly};

/// A square matrix over both rows of slots, by its nonzero diagonals; see
/// [`linear::LinearTransform`]. A diagonal is a plaintext with the entries of both rows.
pub type LinearTransform = linear::LinearTransform<IntegerSlots>;

impl LinearTransform {
    /// Returns the product with the slots of `x`, in the clear.
    ///
    /// # Errors
    /// [`Error::PlaintextMismatch`] for a plaintext of another ring than the diagonals, and errors
    /// of multiplying by them.
    pub fn apply(&self, x: &PlainPoly) -> Result<PlainPoly> {
        let log_n = x.log_n();
        let zero = PlainPoly::constant(x.modulus(), log_n, 0)?;
        self.diagonals.iter().try_fold(zero, |sum, (offset, entries)| {
            sum.add(&entries.mul(&x.image(offset.element(log_n)))?)
        })
    }
}

/// A plan to apply a [`LinearTransform`] to ciphertexts of one level and factor; see
/// [`linear::LinearPlan`].
pub type LinearPlan = linear::LinearPlan<IntegerSlots>;
