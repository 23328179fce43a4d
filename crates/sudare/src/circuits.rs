//! Circuits, written once against [`Ops`] and run by any evaluator.
//!
//! A circuit is first *planned* from clear data. The plan states depth, keys and cost before a key
//! exists. Running it is the last step.
//!
//! Sums of automorphisms ([`Trace`]), products with matrices ([`linear`]), polynomials
//! ([`polynomial`]), batches in lock step ([`LockStep`]) and formulas ([`Value`]) depend only on the
//! [`Algebra`] of a scheme. Circuits on complex slots require [`ComplexOps`](ckks::ComplexOps).

mod algebra;
mod butterflies;
pub mod ckks;
mod counts;
pub mod exact;
mod failure;
mod input;
pub mod linear;
mod lock_step;
mod meter;
mod ops;
pub mod polynomial;
mod trace;
mod value;

pub use algebra::{Algebra, Coefficient, OwnedVector};
pub use failure::log2_exceeds;
pub use lock_step::{Batch, LockStep};
pub use ops::{ArgumentError, CoefficientOf, ConstantOf, Extremes, Ops, ScaleOf, VectorOf};
pub use trace::{Trace, TracePlan};
pub use value::Value;
