//! Batch homomorphic encryption over the integers, with bootstrapping by digit extraction, and
//! AES-128 on it.
//!
//! **Not secure.** The parameters of the publication fall to plain lattice reduction: public
//! elements are few and short enough that LLL finds the secret primes from encryptions of zero, as
//! `tests/key_recovery.rs` does for four slots. This crate reproduces a result for researchers.
//! Nothing is made without [`insecure_research`], by which a program says that it protects no data.
//!
//! | part | what it holds |
//! |---|---|
//! | [`Params`], [`Spec`] | sizes, checked, and the sets of the publication by name |
//! | [`KeyGenerator`], [`SecretKey`], [`EvaluationKey`] | what the owner makes, keeps and gives away |
//! | [`Ciphertext`], [`Noise`] | a vector of slots modulo `t^a`, and what is known of its noise |
//! | [`Evaluator`] | sums, products, message spaces, digit extraction, bootstrapping |
//! | [`digits`] | digit extraction in the clear and its polynomials |
//! | [`aes`] | AES-128 with a slot a block |
//! | [`long`] | windows of long products and sums of long integers, on kernels of its own |
//! | `program` | what `sudare-clt` and `sudare-bench` do with a named set |
//!
//! Reference: K. Han, "Bootstrapping and applications of homomorphic encryption" (thesis), chapter
//! 5, in its batch form; the scheme is that of Coron, Lepoint and Tibouchi, "Scale-invariant fully
//! homomorphic encryption over the integers" (PKC 2014). Where this crate deviates, the item says
//! so; `docs/explain/integers.md` lists all deviations.
//!
//! ```
//! use sudare_research_clt::{Evaluator, KeyGenerator, Params, Spec, insecure_research};
//!
//! let params = Params::new(Spec::small(2, 2), insecure_research())?;
//! let (secret, keys) = KeyGenerator::new(&params)?.generate()?;
//! let evaluator = Evaluator::new(keys.into());
//! let (a, b) = (secret.encrypt(&[1, 0], 1)?, secret.encrypt(&[1, 1], 1)?);
//! let product = evaluator.bootstrap(&evaluator.mul(&a, &b)?)?;
//! assert_eq!(secret.decrypt(&product)?, [1, 0]);
//! # Ok::<(), sudare_research_clt::Error>(())
//! ```
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![deny(unsafe_code)]

pub mod aes;
mod big;
mod ciphertext;
pub mod digits;
mod error;
mod evaluator;
mod keygen;
mod keys;
#[allow(unsafe_code, reason = "kernels for AVX-512, which this scheme alone needs")]
pub mod long;
mod noise;
mod params;
#[cfg(feature = "program")]
pub mod program;
mod secret;

pub use ciphertext::Ciphertext;
pub use error::{Error, Result};
pub use evaluator::Evaluator;
pub use keygen::KeyGenerator;
pub use keys::EvaluationKey;
pub use noise::Noise;
pub use params::{InsecureResearch, Params, Spec, SubsetSum, insecure_research, preset_names};
pub use secret::SecretKey;
