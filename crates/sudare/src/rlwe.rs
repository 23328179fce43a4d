//! Keys, ciphertexts and key switching, common to all schemes.

mod canonical;
mod chain;
mod ciphertext;
mod combine;
mod diagonals;
mod evaluator;
mod gadget;
mod ids;
mod images;
mod keygen;
mod keys;
mod levels;
mod noise;
mod params;
mod rows;
mod security;
pub mod serial;
mod switch;
pub(crate) mod work;

pub use canonical::CanonicalBounds;
pub use chain::{Chain, Scale};
pub use ciphertext::Ciphertext;
use combine::{Combination, StageWeights};
pub use diagonals::{AutomorphismSum, EncodedDiagonals};
pub use evaluator::{Evaluator, Hoisted, ProductSum};
pub use ids::{GaloisElement, KeyId, Level, ParamsId};
pub use keygen::KeyGenerator;
pub use keys::{EvaluationKeys, FittedKeys, KeyRequest, PublicKey, Raise, SecretKey, SwitchingKey};
pub use levels::Levels;
pub(crate) use levels::next_level;
pub use noise::Noise;
pub(crate) use params::{MAX_PRIMES, check_primes};
pub use params::{Params, PricedKey, RaisedChain, Spec};
pub use security::{SecretDistribution, max_log2_qp, security_bits};
use switch::{Digits, KeySwitcher, ModDown, Operand};
pub use work::{Rates, Work};
