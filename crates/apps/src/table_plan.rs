//! Parts common to all plans of jobs on encrypted tables.

use sudare::{
    ckks::{Params, Scale},
    rlwe::{KeyRequest, Level},
};

/// A job on an encrypted table, planned for parameters.
pub trait TablePlan: Send + Sync {
    /// Returns the parameters planned for.
    fn params(&self) -> &Params;

    /// Returns the keys that the server needs.
    fn required_keys(&self) -> &KeyRequest;

    /// Returns the number of bootstrappings of the whole computation.
    fn bootstraps(&self) -> u32 {
        0
    }

    /// Returns the number of ciphertexts of the encrypted table.
    fn ciphertexts(&self) -> usize;

    /// Returns the size of the encrypted table in memory, in bytes. A file packs it.
    fn table_bytes(&self) -> u64;

    /// Returns the number of ciphertexts of the result.
    fn outputs(&self) -> usize;

    /// Returns the level and the scale of each ciphertext of the result. A training has the weights
    /// after `iterations` iterations, then the weights after each iteration if they are kept.
    fn result_shapes(&self, iterations: u32) -> Vec<(Level, Scale)>;
}

/// Returns the size of a ciphertext in memory, in bytes.
#[must_use]
pub fn ciphertext_bytes(params: &Params, level: Level) -> u64 {
    16 * ((params.rlwe().limbs(level).q() as u64) << params.log_n())
}
