//! What is public.

use crate::{Ciphertext, Error, Params, Result, big::Modulus};
use core::fmt;
use num_bigint::BigUint;

/// The key of whoever computes: **insecure**, since the secret primes can be computed from it by
/// lattice reduction ([`InsecureResearch`](crate::InsecureResearch)).
///
/// `z` and `u` are uniform but for one number a slot, and come from a seed; all is kept in memory,
/// [`Params::evaluation_key_bytes`] in all.
pub struct EvaluationKey {
    pub(crate) params: Params,
    pub(crate) id: KeyId,
    pub(crate) modulus: Modulus,
    /// Rows `z_i`, `theta` of which sum to `t 2^eta / p_j^2` for slot `j`, modulo `2^eta`.
    pub(crate) z: Vec<u64>,
    /// Rows of ciphertexts: for each `z_i` one a word.
    pub(crate) sigma: Vec<u64>,
    /// What centring the words takes from a conversion.
    pub(crate) sigma_offset: BigUint,
    /// Rows `u_i`, `theta'` of which sum to `1 / p_j` for slot `j`, modulo 1.
    pub(crate) u: Vec<u64>,
    /// Rows of ciphertexts modulo `t^(n + 1)`: for each `u_i` whether it is part of a slot's sum.
    pub(crate) v: Vec<u64>,
    /// A half in the digits to be extracted, less what centring takes from a sum.
    pub(crate) v_offset: BigUint,
}

/// Tells keys apart.
pub(crate) type KeyId = [u8; 16];

impl EvaluationKey {
    /// The parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Refuses what was not encrypted under the key that this one belongs to.
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
