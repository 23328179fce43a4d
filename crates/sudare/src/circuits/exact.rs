//! Circuits for slots that hold integers modulo a prime power.

pub mod dft;
pub mod digits;
mod matrix;
mod ops;
mod polynomial;

pub use matrix::{LinearPlan, LinearTransform};
pub use ops::IntegerSlots;
pub use polynomial::PolynomialPlan;
