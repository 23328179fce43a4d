//! BFV: integers modulo `t`, with products that do not depend on how large errors are.
//!
//! Ciphertexts, keys and everything but products are those of [`exact`](crate::exact). Where a
//! product of BGV multiplies errors, so that the modulus has to be switched before, the one here
//! divides by `Q / t`: errors grow by a factor of about `t N` a product, whatever they were.
//!
//! What counts of the factor `f` of a ciphertext is `-f / Q mod t` then. Products multiply it and
//! rescaling leaves it alone, so that of ciphertexts which were encrypted with
//! [`Params::fresh_factor`](crate::exact::Params::fresh_factor) it is 1 and stays so, and all of
//! them can be added. It is what [circuits](crate::circuits) take for the scale, see
//! [`Tensor`](crate::exact::Tensor): they run on this product as on that of BGV, planned with its
//! chain.
//!
//! Reference: Kim, Polyakov, Zucca, "Revisiting Homomorphic Encryption Schemes for Finite Fields"
//! ([2021/204](https://eprint.iacr.org/2021/204)), the variant with an auxiliary modulus `P` in
//! place of `Q` for one factor. Deviation: residues change their basis in exact integers.

mod evaluator;
mod tensor;

pub use crate::exact::{
    BatchEncoder, Ciphertext, Decryptor, Encryptor, IntegerEncoder, Params, PlainPoly, Slots, Spec,
    SymmetricEncryptor, choose, preset,
};
pub use evaluator::Evaluator;
pub(crate) use tensor::AuxiliaryPrimes;

#[cfg(test)]
mod tests;
