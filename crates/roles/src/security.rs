//! How secure the keys of a job are.

use crate::error::Result;
use sudare::{
    ckks::Params,
    rlwe::{KeyRequest, KeySecurity},
};

/// The estimated security of every kind of key that is published under the parameters, those of a
/// request included.
///
/// # Errors
/// [`Error::Library`](crate::error::Error::Library) for keys that the parameters do not have.
pub fn key_security(params: &Params, request: &KeyRequest) -> Result<Vec<KeySecurity>> {
    let mut keys = params.rlwe().key_security();
    for key in request.key_security(params.rlwe())? {
        // Switching keys at the highest level are there already.
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    Ok(keys)
}

/// The security of the weakest key, in bits.
#[must_use]
pub fn least_security(keys: &[KeySecurity]) -> f64 {
    keys.iter().map(|key| key.security_bits).fold(f64::INFINITY, f64::min)
}
