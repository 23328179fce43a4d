//! Exact arithmetic on integers modulo a prime power `t = p^k`: what BGV and BFV share.
//!
//! Both schemes have one ciphertext, with the plaintext in the most significant bits:
//!
//! ```text
//! c0 + c1 s = t^-1 f m + e mod Q        gcd(t, Q) = 1
//! ```
//!
//! where `m` is a polynomial modulo `t`, `f` a [`Unit`] modulo `t`, `e` small, and `t^-1` the
//! inverse modulo `Q`. Multiplying by `t` gives the plaintext `f m`, as long as `t e` stays below
//! `Q / 2`. In this form key switching, division by primes and raising to a larger modulus are the
//! same rounding for every `t`, so keys do not depend on it and `t` belongs to the ciphertext
//! alone: a plaintext `p^v m` modulo `p^(v + r)` is the plaintext `m` modulo `p^r`, and back,
//! without any computation.
//!
//! | part | what it holds |
//! |---|---|
//! | [`Modulus`], [`Unit`] | `t`, arithmetic of residues, and the factors `f` |
//! | [`PlainPoly`] | plaintexts: polynomials modulo `t`, also with values as coefficients |
//! | [`BatchEncoder`] | vectors of slots where `p = 1` modulo twice their number |
//! | [`Slots`], [`GaloisRing`] | slots for every odd `p`, and their maps from and to coefficients |

mod batch;
mod galois_ring;
mod modulus;
mod plaintext;
mod slots;
mod transform;

pub use batch::BatchEncoder;
pub use galois_ring::GaloisRing;
pub use modulus::{Modulus, Unit};
pub use plaintext::PlainPoly;
pub use slots::{LinearMap, Slots};
