//! Circuits: written once against [`Ops`], run by any evaluator.
//!
//! A circuit is first *planned* from clear data. The plan knows depth, keys and
//! cost before a key exists; running it is the last step.

mod approximations;
pub mod bootstrap;
pub mod cost;
pub mod dft;
mod eval_mod;
mod input;
mod linear;
mod lock_step;
pub mod minimax;
mod ops;
mod polynomial;
pub mod sim;
mod trace;
mod worst_case;

pub use crate::ckks::{Chain, Complex};
pub use approximations::ScaledCosine;
pub use eval_mod::{EvalModPlan, EvalModSpec, ModMethod};
pub use linear::{LinearPlan, LinearTransform};
pub use lock_step::LockStep;
pub use ops::Ops;
pub use polynomial::{Basis, Polynomial, PolynomialPlan};
pub use trace::{Trace, TracePlan};
pub use worst_case::WorstCase;
