//! Homomorphic encryption from ring learning with errors: computing on encrypted numbers without
//! the key that decrypts them.
//!
//! | layer | content |
//! |---|---|
//! | [`ring`] | polynomials in residue number system form, base conversion, exact division |
//! | [`rlwe`] | parameters and their estimated security, keys, key requests, key switching, noise |
//! | [`exact`] | integers modulo `t`: plaintexts, encryption, bounds of errors, the evaluator of BGV, files |
//! | [`ckks`] | scales and slots: encoding, encryption, the evaluator, named parameters, files |
//! | [`bfv`] | the products of BFV on the same ciphertexts |
//! | [`circuits`] | computations planned before a key exists, for any [`circuits::Ops`] |
//!
//! Each layer uses only the layers before it. To encrypt, you need a [`ckks::Encoder`] and a
//! [`ckks::Encryptor`]. To compute, you need a [`ckks::Evaluator`] with the
//! [`rlwe::EvaluationKeys`] of a [`rlwe::KeyRequest`]. Only the owner of the key has a
//! [`ckks::Decryptor`]:
//!
//! ```
//! use std::sync::Arc;
//! use sudare::{ckks, circuits::Trace, rlwe::KeyGenerator};
//!
//! # fn main() -> sudare::Result<()> {
//! let params = ckks::Params::preset("n13")?;
//! let top = params.top();
//! // Depth and keys of a circuit are known before any key is.
//! let sum = Trace::inner_sum(params.log_n(), 1, 4)?.doubling();
//! let mut keygen = KeyGenerator::new(params.rlwe())?;
//! let secret = keygen.secret_key()?;
//! let public = Arc::new(keygen.public_key(&secret)?);
//! let keys = Arc::new(keygen.evaluation_keys(&secret, &sum.required_keys(top))?);
//!
//! let encoder = ckks::Encoder::new(&params);
//! let plain = encoder.encode_real(&[1.0, 2.5, -4.0, 8.0])?;
//! let encrypted = ckks::Encryptor::new(&params, public)?.encrypt(&plain)?;
//!
//! let result = sum.run(&ckks::Evaluator::new(&params, keys)?, &encrypted)?;
//!
//! let decrypted = ckks::Decryptor::new(&params, secret)?.decrypt(&result)?;
//! assert!((encoder.decode_real(&decrypted)?[0] - 7.5).abs() < 1e-3);
//! # Ok(())
//! # }
//! ```
//!
//! The crate rejects parameters under 128 bits of security unless they set `insecure`. Every error
//! names the found value and the required one. Results are the same bits on every instruction set
//! and number of threads. Show a decrypted value to the owner of the key only; see `SECURITY.md`.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

pub mod bfv;
pub mod bgv;
pub mod circuits;
pub mod ckks;
mod error;
pub mod exact;
pub mod ring;
pub mod rlwe;

pub use error::{Error, IoSource, Result};

/// The program in the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The program on the first page for Rust compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/start/rust.md")]
struct Start;
