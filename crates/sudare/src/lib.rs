//! Homomorphic encryption from ring learning with errors.
//!
//! Layers, each using only those before it: [`ring`], [`rlwe`], [`ckks`],
//! [`circuits`]. The traits of [`circuits::Ops`] are what schemes implement and
//! circuits use.
#![forbid(unsafe_code)]

pub mod circuits;
pub mod ckks;
mod error;
pub mod ring;
pub mod rlwe;

pub use error::{Error, Result};
