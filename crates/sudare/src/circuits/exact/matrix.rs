use super::IntegerSlots;
use crate::circuits::linear;

/// A square matrix over both rows of slots, by its diagonals that are not zero; see
/// [`linear::LinearTransform`]. A diagonal is a plaintext, the entries of both rows.
pub type LinearTransform = linear::LinearTransform<IntegerSlots>;

/// How to apply a [`LinearTransform`] to ciphertexts of one level and factor; see
/// [`linear::LinearPlan`].
pub type LinearPlan = linear::LinearPlan<IntegerSlots>;
