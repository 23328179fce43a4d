//! BFV: integers modulo `t`, with products that do not depend on the size of errors.
//!
//! Ciphertexts, keys and all operations except products come from [`exact`](crate::exact). A
//! product of BGV multiplies errors, so the modulus must be switched before it. A product of BFV
//! divides by `Q / t` instead: errors of any size grow by a factor of about `t N` per product.
//!
//! The relevant quantity is `-f / Q mod t` for the factor `f` of a ciphertext. Products multiply
//! it, and rescaling keeps it. It is 1 for ciphertexts encrypted with
//! [`Params::fresh_factor`](crate::exact::Params::fresh_factor) and stays 1, so all of them can be
//! added. [Circuits](crate::circuits) use it as the scale, see [`Tensor`](crate::exact::Tensor).
//! They run with either product, BFV or BGV, and are planned with its chain.
//!
//! Reference: Kim, Polyakov, Zucca, "Revisiting Homomorphic Encryption Schemes for Finite Fields"
//! ([2021/204](https://eprint.iacr.org/2021/204)), the variant with an auxiliary modulus `P` in
//! place of `Q` for one factor. Deviation: residues change their basis in exact integers.

mod evaluator;
mod tensor;

pub use crate::exact::{
    BatchEncoder, Ciphertext, Decryptor, Encryptor, IntegerEncoder, Modulus, Needs, Params,
    PlainPoly, Slots, Spec, SymmetricEncryptor, choose, preset,
};
pub use evaluator::Evaluator;
pub(crate) use tensor::AuxiliaryPrimes;

#[cfg(test)]
mod tests;
