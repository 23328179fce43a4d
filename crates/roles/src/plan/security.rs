//! The security of the keys of a job.

use crate::error::Result;
use sudare::{
    ckks::Params,
    rlwe::{KeyRequest, KeySecurity},
};

/// Estimates the security of every kind of published key under the parameters, including the keys
/// of `request`.
///
/// # Errors
/// [`Error::Library`](crate::error::Error::Library) for keys that the parameters do not have.
pub fn key_security(params: &Params, request: &KeyRequest) -> Result<Vec<KeySecurity>> {
    let mut keys = params.rlwe().key_security();
    for key in request.key_security(params.rlwe())? {
        // The list already has switching keys at the highest level.
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    Ok(keys)
}

/// Returns the security of the weakest key in bits.
#[must_use]
pub fn least_security(keys: &[KeySecurity]) -> f64 {
    // An attacker chooses the weakest key, so no mean or first key counts.
    keys.iter().map(|key| key.security_bits).fold(f64::INFINITY, f64::min)
}
