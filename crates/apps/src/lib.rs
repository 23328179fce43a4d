//! Statistics and logistic regression on encrypted tables.
//!
//! | module | contents |
//! |---|---|
//! | [`stats`] | moments, covariances, least squares, sums by groups, histograms, Welch's test |
//! | [`pool`] | several owners of rows, and exact sums of all of them |
//! | [`logreg`] | logistic regression by accelerated gradient, encrypted and in the clear |
//! | [`array`](mod@array) | encrypted arrays of any shape, with NumPy's operations |
//! | [`exact`] | encrypted arrays of integers modulo `t`, by BGV or BFV |
//! | [`words`] | encrypted machine words, which wrap and compare as NumPy's do |
//! | [`functions`] | inverse, exponential, sigmoid, sign, relu, maximum and other functions of encrypted slots |
//! | [`search`] | search among vectors, where the server does not see the index, the query, or either |
//! | [`nn`] | neural networks on encrypted samples: dense and convolutional layers |
//! | [`trees`] | random forests and gradient boosted trees on encrypted rows |
//! | [`note`] | bytes, such as column names, that travel encrypted with a table |
//!
//! Tables come from [`sudare_table`], which reads files and codes them as numbers.
//!
//! Owner and server make the same plan from public facts. The owner encrypts the inputs by the
//! plan, and the server runs it with evaluation keys only. Then the owner decrypts and decodes the
//! results. For complete examples see [`logreg`] and [`stats::StatsPlan`].
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

pub mod array;
mod bootstrap;
pub mod exact;
pub mod functions;
pub mod logreg;
mod maybe_shared;
pub mod nn;
pub mod note;
pub mod pool;
mod release;
pub mod search;
pub mod stats;
mod table_plan;
pub mod trees;
pub mod words;

pub use logreg::{Error, Result};
pub use table_plan::{TablePlan, ciphertext_bytes};

/// Slots to encrypt, with their level and scale.
pub type Slots = (Vec<f64>, sudare::rlwe::Level, sudare::ckks::Scale);
