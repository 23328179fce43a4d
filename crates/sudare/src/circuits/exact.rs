//! Circuits for slots of integers modulo a prime power.

pub mod bootstrap;
pub mod dft;
pub mod digits;
mod matrix;
mod ops;
mod polynomial;
pub mod sim;
mod value;

pub use matrix::{LinearPlan, LinearTransform};
pub use ops::{IntegerOps, IntegerSlots};
pub use polynomial::PolynomialPlan;

#[cfg(test)]
mod tests;
