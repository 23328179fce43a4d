//! Circuits for slots of integers modulo a prime power.

pub mod bootstrap;
pub mod dft;
pub mod digits;
mod interpolation;
mod matrix;
mod ops;
mod polynomial;
pub mod sim;
mod table;
mod value;

pub use interpolation::interpolated;
pub use matrix::{LinearPlan, LinearTransform};
pub use ops::{IntegerOps, IntegerSlots};
pub use polynomial::{PolynomialPlan, PolynomialsPlan};
pub use table::Tables;

#[cfg(test)]
mod tests;
