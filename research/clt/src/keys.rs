//! Public keys.

use crate::{Ciphertext, Error, Params, Result, big::Modulus};
use core::fmt;
use num_bigint::BigUint;

/// The key of the server. **Insecure**: lattice reduction computes the secret primes from it
/// ([`InsecureResearch`](crate::InsecureResearch)).
///
/// `z` and `u` come from a seed and are uniform, except one number for each slot. The whole key is
/// in memory, in [`Params::evaluation_key_bytes`].
pub struct EvaluationKey {
    pub(crate) params: Params,
    pub(crate) id: KeyId,
    pub(crate) modulus: Modulus,
    /// Rows `z_i`. For each slot `j`, `theta` of them sum to `t 2^eta / p_j^2` modulo `2^eta`.
    pub(crate) z: Vec<u64>,
    /// Rows of ciphertexts: one for each word of each `z_i`.
    pub(crate) sigma: Vec<u64>,
    /// Correction of a conversion for the centring of words.
    pub(crate) sigma_offset: BigUint,
    /// Rows `u_i`. For each slot `j`, `theta'` of them sum to `1 / p_j` modulo 1.
    pub(crate) u: Vec<u64>,
    /// Rows of ciphertexts modulo `t^(n + 1)`: for each `u_i` the indicator that it is part of a
    /// slot's sum.
    pub(crate) v: Vec<u64>,
    /// A half in the digits to extract, minus the correction of a sum for centring.
    pub(crate) v_offset: BigUint,
}

/// Identifies a key.
pub(crate) type KeyId = [u8; 16];

impl EvaluationKey {
    /// Returns the parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Rejects ciphertexts of another key.
    pub(crate) fn check(&self, ciphertext: &Ciphertext) -> Result<()> {
        if ciphertext.key == self.id { Ok(()) } else { Err(Error::OtherKey) }
    }
}

impl fmt::Debug for EvaluationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvaluationKey")
            .field("insecure", &true)
            .field("params", &self.params)
            .finish_non_exhaustive()
    }
}
