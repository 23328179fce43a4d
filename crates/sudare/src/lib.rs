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
//! use sudare::{Value, circuits::Trace, ckks::{self, Needs}, rlwe::KeyGenerator};
//!
//! # fn main() -> sudare::Result<()> {
//! let needs = Needs { slots: 4, depth: 1, magnitude: 128.0, ..Needs::default() };
//! let params = ckks::Params::new(ckks::choose(needs)?.spec)?;
//! let top = params.top();
//! // Depth and keys of a circuit are known before any key is.
//! let sum = Trace::inner_sum(params.log_n(), 1, 4)?.doubling();
//! let request = sum.required_keys(top).relinearize(top);
//! let mut keygen = KeyGenerator::new(params.rlwe())?;
//! let secret = keygen.secret_key()?;
//! let public = keygen.public_key(&secret)?;
//! let keys = keygen.evaluation_keys(&secret, &request)?;
//!
//! let encoder = ckks::Encoder::new(&params);
//! let plain = encoder.encode_real(&[1.0, 2.5, -4.0, 8.0])?;
//! let encrypted = ckks::Encryptor::new(&params, public)?.encrypt(&plain)?;
//!
//! let evaluator = ckks::Evaluator::new(&params, keys)?;
//! let x = Value::new(&evaluator, encrypted);
//! let result = (&x * &x + &x).apply(|e, y| sum.run(e, y)).into_ciphertext()?;
//!
//! let decrypted = ckks::Decryptor::new(&params, secret)?.decrypt(&result)?;
//! assert!((encoder.decode_real(&decrypted)?[0] - 94.75).abs() < 1e-3);
//! # Ok(())
//! # }
//! ```
//!
//! | you compute with | scheme | parameters |
//! |---|---|---|
//! | real or complex numbers, with a small error | [`ckks`] | [`ckks::choose`] |
//! | integers modulo `t`, exactly | [`bgv`], or [`bfv`] | [`exact::choose`] |
//! | more products than a ring has levels for | [`circuits::ckks::bootstrap`], [`circuits::exact::bootstrap`] | `choose` in each |
//!
//! Formulas are written on [`Value`]s, which align levels and scales. Evaluators do single
//! operations by [one rule](ckks::Evaluator#levels-and-scales).
//!
//! The crate rejects parameters under 128 bits of security unless they set `insecure`. Every error
//! names the found value and the required one. Results are the same bits on every instruction set
//! and number of threads. Show a decrypted value to the owner of the key only; see `SECURITY.md`.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

pub mod bfv;
pub mod bgv;
pub mod circuits;
pub mod ckks;
mod error;
pub mod exact;
pub mod ring;
pub mod rlwe;

pub use circuits::Value;
pub use error::{Error, IoSource, Result};

/// The program in the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The program on the first page for Rust compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/start/rust.md")]
struct Start;
