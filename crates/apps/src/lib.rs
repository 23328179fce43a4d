//! Statistics and logistic regression on encrypted tables.
//!
//! | module | what it holds |
//! |---|---|
//! | [`stats`] | moments, covariances, least squares, sums by groups, histograms, Welch's test |
//! | [`pool`] | several owners of rows, and exact sums of all of them |
//! | [`logreg`] | logistic regression by accelerated gradient, encrypted and in the clear |
//! | [`array`](mod@array) | encrypted arrays of any shape, computed with as by NumPy |
//! | [`exact`] | encrypted arrays of integers modulo `t`, by BGV or BFV |
//! | [`functions`] | inverse, exponential, sigmoid, sign, relu, maximum and others of encrypted slots |
//! | [`search`] | an index of vectors that a server searches without seeing it, the query, or both |
//! | [`nn`] | networks on encrypted samples: dense and convolutional layers, planned and run |
//! | [`note`] | bytes that travel encrypted with a table |
//!
//! Tables come from [`sudare_table`], which reads files and codes them as numbers.
//!
//! Owner and server make the same plan from public facts. The owner encrypts by it, the
//! server runs it with evaluation keys only, the owner decrypts and decodes; [`logreg`] and
//! [`stats::StatsPlan`] show all of it.
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

pub use logreg::{Error, Result};

/// Slots to be encrypted, with their level and scale.
pub type Slots = (Vec<f64>, sudare::rlwe::Level, sudare::ckks::Scale);
