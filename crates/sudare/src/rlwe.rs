//! Keys, ciphertexts and key switching, common to all schemes.

mod canonical;
mod ciphertext;
mod combine;
mod gadget;
mod ids;
mod images;
mod keygen;
mod keys;
mod noise;
mod params;
mod rows;
mod security;
pub mod serial;
mod switch;

pub use canonical::CanonicalBounds;
pub use ciphertext::Ciphertext;
pub(crate) use combine::{Combination, StageWeights};
pub use ids::{GaloisElement, KeyId, Level, ParamsId};
pub use keygen::KeyGenerator;
pub use keys::{EvaluationKeys, FittedKeys, KeyRequest, PublicKey, Raise, SecretKey, SwitchingKey};
pub use noise::Noise;
pub(crate) use params::{MAX_PRIMES, check_primes};
pub use params::{Params, PricedKey, RaisedChain, Spec};
pub use security::{SecretDistribution, max_log2_qp, security_bits};
pub use switch::{Digits, KeySwitcher};
pub(crate) use switch::{Down, Operand};
