//! Neural networks on encrypted samples. The server has the weights in the clear, and learns
//! nothing about samples and results ([`Plan`]). Or the weights are encrypted as well, and the
//! server learns only an [`Outline`] of the network ([`HiddenPlan`]).
//!
//! A [`Network`] consists of dense and convolutional layers, average pooling, normalisation,
//! activations and residual blocks. Calibrate [`Ranges`] with samples, and make a [`Plan`] for a
//! number of samples.
//!
//! ```
//! use std::sync::Arc;
//! use sudare::{ckks, rlwe::KeyGenerator};
//! use sudare_apps::nn::{Activation, Layer, Network, Options, Plan, Ranges};
//!
//! // The exclusive or of two bits.
//! let dense = |weights: &[&[f64]], bias: &[f64]| Layer::Dense {
//!     weights: weights.iter().map(|row| row.to_vec()).collect(),
//!     bias: bias.to_vec(),
//!     step: 1.0,
//! };
//! let layers = vec![
//!     dense(&[&[1.0, -1.0]], &[0.0]),
//!     Layer::Activation(Activation::Square),
//!     dense(&[&[2.0]], &[-1.0]),
//! ];
//! let network = Network::new(vec![2], layers)?;
//! let samples: [&[f64]; 4] = [&[0.0, 0.0], &[0.0, 1.0], &[1.0, 0.0], &[1.0, 1.0]];
//! let ranges = Ranges::calibrate(&network, samples, 1.25)?;
//!
//! // Owner and server make the same plan.
//! let plan = Plan::new(&network, &ranges, Options::for_samples(4))?;
//!
//! // The owner keeps the secret and sends keys and ciphertexts.
//! let params = plan.params();
//! let mut keygen = KeyGenerator::new(params.rlwe())?;
//! let secret = Arc::new(keygen.secret_key()?);
//! let keys = Arc::new(keygen.evaluation_keys(&secret, plan.required_keys())?);
//! let encryptor = ckks::SymmetricEncryptor::new(params, Arc::clone(&secret))?;
//! let encrypted = plan.encrypt(&encryptor, &samples)?;
//!
//! // The server.
//! let evaluator = ckks::Evaluator::new(params, keys)?;
//! let prepared = plan.prepare(&evaluator)?;
//! let results = plan.run(&evaluator, &prepared, &encrypted)?;
//!
//! // The owner again.
//! let decryptor = ckks::Decryptor::new(params, secret)?;
//! let results = plan.decrypt(&decryptor, &results, 4)?;
//! let bits: Vec<bool> = results.iter().map(|result| result[0] > 0.0).collect();
//! assert_eq!(bits, [false, true, true, false]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
mod affine;
mod diagonals;
mod draft;
mod error;
mod fit;
mod hidden;
mod job;
mod kernel;
mod layout;
mod map;
mod model;
pub(crate) mod onnx;
mod options;
mod outline;
mod plan;
mod ranges;
mod refresh;
mod run;
mod setup;
mod steps;
#[cfg(test)]
mod tests;
mod uses;

pub use error::{NnError, Result};
pub use hidden::{HiddenExplanation, HiddenPlan};
pub use model::{Activation, Convolution, Layer, Network};
pub use onnx::Beside;
pub use options::{Options, Packing};
pub use outline::Outline;
pub use plan::{Explanation, Plan};
pub use ranges::Ranges;
pub use run::{Prepared, Simulation};

/// Returns a network that classifies handwritten digits, and its ranges. A sample is an image of 28
/// by 28 pixels from 0 to 1, as a vector. The result is ten numbers, and the index of the largest
/// is the digit.
///
/// Its layers are 784-128-64-10 with squares. It uses 360 of the pixels, and weights of four bits
/// and a sign. `scripts/train_digits.py` trained it on MNIST and measured 99.2 % on its 10,000 test
/// images.
///
/// # Errors
/// None, unless files of this crate are damaged.
pub fn digits() -> Result<(Network, Ranges)> {
    let problem = |error: serde_json::Error| NnError::Network { problem: error.to_string() };
    let network = serde_json::from_str(include_str!("../data/digits.json")).map_err(problem)?;
    let ranges = include_str!("../data/digits.ranges.json");
    Ok((network, serde_json::from_str(ranges).map_err(problem)?))
}
