//! Bootstrapping of CKKS ciphertexts.

mod failure;

pub use failure::log2_failure;
