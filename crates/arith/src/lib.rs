//! Word-level modular arithmetic, transforms, aligned memory, random streams and threads.
//!
//! | part | content |
//! |---|---|
//! | [`Modulus`], [`NttTable`] | arithmetic on rows of `u64` residues and negacyclic transforms, on the kernels that the CPU supports ([`Isa`]) |
//! | [`ConstantDot`] | sums of products with constants, also straight into transforms |
//! | [`Fractions`], [`dd`], [`fft`] | rounding of sums of fractions, double-double arithmetic, the transform of CKKS encoding |
//! | [`prng`], [`sample`] | seeds and counter-mode streams, samplers |
//! | [`mem`], [`par`], [`stop`] | pooled aligned buffers, threads, cancellation of their work |
//! | [`is_prime`], [`next_prime`], [`previous_prime`] | primes of a given form |
//!
//! The crate contains no RNS, RLWE or encryption code. All kernels return the same bits, and
//! results do not depend on the number of threads. All `unsafe` of the library is in this crate.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_debug_implementations)]
#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, unused_mut, reason = "what only vector kernels take")
)]

mod constant_dot;
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
pub mod real;
pub mod sample;
pub mod stop;
mod wide;

pub use constant_dot::{Column, ConstantDot};
pub use error::{Error, Result};
pub use fraction::Fractions;
pub use kernel::Isa;
pub use modulus::{Modulus, Shoup};
pub use ntt::{NttTable, Permutation};
pub use primes::{is_prime, next_prime, previous_prime};
