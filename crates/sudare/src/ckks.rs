//! CKKS: approximate arithmetic on vectors of complex or real slots.
//!
//! References: [CKKS17](https://eprint.iacr.org/2016/421) for the scheme,
//! [CHKKS18](https://eprint.iacr.org/2018/931) for its RNS variant,
//! [KPP20](https://eprint.iacr.org/2020/1118) for exact scales.

mod choose;
mod ciphertext;
mod encode;
mod encrypt;
mod evaluator;
mod opening;
mod params;
pub mod planner;
mod presets;
mod release;
pub(crate) mod rules;
mod scale;
pub mod serial;
pub(crate) mod transform;

pub use crate::rlwe::ProductSum;
pub use crate::rlwe::UpperSpec;
pub use choose::{Choice, Needs, choose};
pub use ciphertext::{Ciphertext, Plaintext};
pub use encode::Encoder;
pub use encrypt::{Decryptor, Encryptor, SymmetricEncryptor};
pub use evaluator::{Evaluator, Hoisted};
pub use opening::Opening;
pub(crate) use params::MAX_LOG2_SCALE_F64;
pub use params::{Params, Spec};
pub use presets::{Preset, preset, presets};
pub use release::Release;
pub use scale::Scale;
pub use sudare_arith::fft::Complex;
pub use transform::EncodedMatrix;

/// The moduli of levels, with the divisors of scales.
pub type Chain = crate::rlwe::Chain<Scale>;
