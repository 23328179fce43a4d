//! Batch homomorphic encryption over the integers, with bootstrapping by digit extraction, and
//! AES-128 on it.
//!
//! **Not secure.** The parameters of the publication fall to plain lattice reduction: public
//! elements are few and short enough that LLL finds the secret primes from encryptions of zero, as
//! `tests/key_recovery.rs` does for four slots. This crate reproduces a result for researchers. To
//! create anything, a program has to call [`insecure_research`], which declares that it protects no
//! data.
//!
//! | part | contents |
//! |---|---|
//! | [`Params`], [`Spec`] | checked sizes, and the sets of the publication by name |
//! | [`KeyGenerator`], [`SecretKey`], [`EvaluationKey`] | generation of keys, the owner's key, and the server's key |
//! | [`Ciphertext`], [`Noise`] | a vector of slots modulo `t^a`, and a prediction of its noise |
//! | [`Evaluator`] | sums, products, message spaces, digit extraction, bootstrapping |
//! | [`digits`] | digit extraction in the clear and its polynomials |
//! | [`aes`] | AES-128 with a block in each slot |
//! | [`long`] | windows of long products and sums of long integers, on kernels of its own |
//! | `program` | operations of `sudare-clt` and `sudare-bench` on named sets |
//!
//! Reference: K. Han, "Bootstrapping and applications of homomorphic encryption" (thesis), chapter
//! 5, in its batch form. The scheme is from Coron, Lepoint and Tibouchi, "Scale-invariant fully
//! homomorphic encryption over the integers" (PKC 2014). Items describe their deviations, and
//! `docs/explain/integers.md` lists all of them.
//!
//! ```
//! use sudare_research_clt::{Evaluator, KeyGenerator, Params, Spec, insecure_research};
//!
//! let params = Params::new(Spec::small(2, 2), insecure_research())?;
//! let (secret, keys) = KeyGenerator::new(&params)?.generate()?;
//! let evaluator = Evaluator::new(keys.into());
//! let a = secret.encrypt(&[1, 0], 1)?;
//! let b = secret.encrypt(&[1, 1], 1)?;
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
