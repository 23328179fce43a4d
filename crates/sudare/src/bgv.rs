//! BGV: integers modulo `t`, with a level for each product.
//!
//! Ciphertexts, keys and encoders are the ones of [`exact`](crate::exact), which BGV shares with
//! [`bfv`](crate::bfv). This module gathers them under the name of the scheme:
//!
//! ```
//! use sudare::{Value, bgv, rlwe::{KeyGenerator, KeyRequest}};
//!
//! # fn main() -> sudare::Result<()> {
//! let params = bgv::Params::preset("n12-t65537")?;
//! let mut keygen = KeyGenerator::new(params.rlwe())?;
//! let secret = keygen.secret_key()?;
//! let public = keygen.public_key(&secret)?;
//! let request = KeyRequest::new().relinearize(params.top());
//! let keys = keygen.evaluation_keys(&secret, &request)?;
//!
//! let encoder = bgv::BatchEncoder::new(params.plaintext_modulus(), params.log_n())?;
//! let encrypted = bgv::Encryptor::new(&params, public)?.encrypt(&encoder.encode(&[3, -4, 5])?)?;
//! let evaluator = bgv::Evaluator::new(&params, keys)?;
//! let x = Value::new(&evaluator, encrypted);
//! let y = (&x * &x + 2 * &x).into_ciphertext()?;
//!
//! let opened = bgv::Decryptor::new(&params, secret)?.decrypt(&y)?;
//! assert_eq!(encoder.decode(&opened)?[..3], [15, 8, 35]);
//! # Ok(())
//! # }
//! ```
//!
//! Reference: Brakerski, Gentry, Vaikuntanathan, "(Leveled) Fully Homomorphic Encryption without
//! Bootstrapping" ([2011/277](https://eprint.iacr.org/2011/277)). Deviation: the plaintext stands in
//! the most significant bits, as in BFV, next to an exact factor; see [`exact`](crate::exact).

pub use crate::exact::{
    BatchEncoder, Ciphertext, Decryptor, Encryptor, Evaluator, Hoisted, IntegerEncoder, Modulus,
    Needs, Params, PlainPoly, Slots, Spec, SymmetricEncryptor, choose, preset,
};
