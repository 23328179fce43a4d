//! Word-level modular arithmetic, transforms, aligned memory, random streams
//! and threads.
//!
//! Works on rows of `u64` residues; knows nothing of RNS, RLWE or encryption.
//! All `unsafe` of the library is in this crate.

pub mod dd;
mod error;
pub mod fft;
mod fraction;
mod kernel;
pub mod mem;
mod modulus;
mod ntt;
pub mod par;
mod primes;
pub mod prng;
pub mod sample;

pub use error::{Error, Result};
pub use fraction::Fractions;
pub use kernel::Isa;
pub use modulus::{Modulus, Shoup};
pub use ntt::{NttTable, Permutation};
pub use primes::{is_prime, next_prime, previous_prime};
