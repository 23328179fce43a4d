//! Circuits for complex slots: approximations of functions, discrete Fourier transforms,
//! bootstrapping, and evaluators on clear values.

mod approximations;
pub mod bootstrap;
pub mod cost;
pub mod dft;
mod eval_mod;
mod matrix;
pub mod minimax;
mod ops;
mod polynomial;
mod ranged;
pub mod sim;
mod value;
mod worst_case;

pub use crate::ckks::{Chain, Complex};
pub use approximations::ScaledCosine;
pub use eval_mod::{EvalModPlan, EvalModSpec, ModMethod};
pub use matrix::{LinearPlan, LinearTransform};
pub use ops::{ComplexOps, ComplexSlots};
pub use polynomial::{Basis, Polynomial, PolynomialPlan};
pub use ranged::{Ranged, RangedCiphertext};
pub use worst_case::WorstCase;
