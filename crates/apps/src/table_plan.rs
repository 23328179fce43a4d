//! What all plans of jobs on encrypted tables have in common.

use sudare::{
    ckks::{Params, Scale},
    rlwe::{KeyRequest, Level},
};

/// A job on an encrypted table, planned for parameters.
pub trait TablePlan: Send + Sync {
    /// The parameters planned for.
    fn params(&self) -> &Params;

    /// Keys that the server needs.
    fn required_keys(&self) -> &KeyRequest;

    /// Bootstrappings of the whole computation.
    fn bootstraps(&self) -> u32 {
        0
    }

    /// Ciphertexts of the encrypted table.
    fn ciphertexts(&self) -> usize;

    /// Bytes of the encrypted table in memory. A file packs them.
    fn table_bytes(&self) -> u64;

    /// Ciphertexts of the result.
    fn outputs(&self) -> usize;

    /// Level and scale of each ciphertext of the result. A training has the weights after so many
    /// iterations, then the weights after each iteration, where they were kept.
    fn result_shapes(&self, iterations: u32) -> Vec<(Level, Scale)>;
}

/// Bytes in memory of a ciphertext.
#[must_use]
pub fn ciphertext_bytes(params: &Params, level: Level) -> u64 {
    16 * ((params.rlwe().limbs(level).q() as u64) << params.log_n())
}
