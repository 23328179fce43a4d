//! Exact arithmetic on integers modulo a prime power `t = p^k`, for BGV and BFV.
//!
//! Both schemes use the same ciphertext, with the plaintext in the most significant bits:
//!
//! ```text
//! c0 + c1 s = t^-1 f m + e mod Q        gcd(t, Q) = 1
//! ```
//!
//! where `m` is a polynomial modulo `t`, `f` a [`Unit`] modulo `t`, `e` small, and `t^-1` the
//! inverse modulo `Q`. Multiplying by `t` yields the plaintext `f m`, as long as `t e` stays below
//! `Q / 2`. In this form key switching, division by primes and raising to a larger modulus are the
//! same rounding for every `t`. Keys therefore do not depend on `t`, which belongs to the
//! ciphertext alone. A plaintext `p^v m` modulo `p^(v + r)` is the plaintext `m` modulo `p^r`, and
//! the reverse, without any computation.
//!
//! ```
//! use std::sync::Arc;
//! use sudare::{
//!     exact::{self, BatchEncoder},
//!     rlwe::{KeyGenerator, KeyRequest},
//! };
//!
//! # fn main() -> sudare::Result<()> {
//! // For a secure set, `n12-t65537` and up, or those that `exact::choose` finds.
//! let params = exact::Params::preset("toy-n8")?;
//! let mut keygen = KeyGenerator::new(params.rlwe())?;
//! let secret = Arc::new(keygen.secret_key()?);
//! let public = Arc::new(keygen.public_key(&secret)?);
//! let request = KeyRequest::new().relinearize(params.top());
//! let keys = Arc::new(keygen.evaluation_keys(&secret, &request)?);
//!
//! let encoder = BatchEncoder::new(params.plaintext_modulus(), params.log_n())?;
//! let plain = encoder.encode(&[3, -4, 5])?;
//! let encrypted = exact::Encryptor::new(&params, public)?.encrypt(&plain)?;
//! let square = exact::Evaluator::new(&params, keys)?.mul_rescale(&encrypted, &encrypted)?;
//!
//! let opened = exact::Decryptor::new(&params, secret)?.decrypt(&square)?;
//! assert_eq!(encoder.decode(&opened)?[..3], [9, 16, 25]);
//! # Ok(())
//! # }
//! ```
//!
//! | part | content |
//! |---|---|
//! | [`Modulus`], [`Unit`] | `t`, arithmetic of residues, and the factors `f` |
//! | [`PlainPoly`] | plaintexts: polynomials modulo `t`, also with values as coefficients |
//! | [`BatchEncoder`] | vectors of slots where `p = 1` modulo twice their number |
//! | [`IntegerEncoder`] | vectors of slots of integers for every odd `p`, which bootstrapping refreshes |
//! | [`Slots`], [`GaloisRing`] | slots for every odd `p`, and their maps from and to coefficients |
//! | [`Params`], [`Spec`] | the ring, the chain of moduli, and a default for `t` |
//! | [`choose`], [`presets()`] | parameters for a computation, and named ones |
//! | [`Encryptor`], [`Decryptor`], [`Ciphertext`] | encryption under either key, exact decryption, measured errors |
//! | [`NoiseBound`] | bounds of errors, known without a key; operations that exceed them are rejected |
//! | [`Evaluator`] | operations common to both schemes, and the product of BGV |
//! | [`Tensor`] | either product, and the scales that circuits use with it |
//! | [`EncodedMatrix`] | linear maps of plaintexts, as weighted sums of automorphisms |
//! | [`serial`] | files of keys and ciphertexts |

mod batch;
mod chain;
mod ciphertext;
mod encrypt;
mod evaluator;
mod galois_ring;
mod integers;
mod matrix;
mod modulus;
mod noise;
pub(crate) mod norms;
mod opening;
mod params;
mod plaintext;
mod presets;
mod raise;
pub(crate) mod rules;
pub mod serial;
mod slots;
mod tensor;
mod transform;

pub use batch::BatchEncoder;
pub use ciphertext::Ciphertext;
pub use encrypt::{Decryptor, Encryptor, SymmetricEncryptor};
pub use evaluator::{Evaluator, Hoisted, inner_sum_keys};
pub use galois_ring::GaloisRing;
pub use integers::IntegerEncoder;
pub use matrix::EncodedMatrix;
pub use modulus::{Modulus, Unit};
pub use noise::NoiseBound;
pub use norms::PlainNorms;
pub use opening::Opening;
pub use params::{Params, Spec};
pub use plaintext::PlainPoly;
pub(crate) use plaintext::Products;
pub use presets::{Choice, Needs, Preset, choose, preset, presets};
pub use raise::raise_to;
pub use rules::Form;
pub use slots::{LinearMap, Slots};
pub use tensor::Tensor;

#[cfg(test)]
pub(crate) mod tests;
