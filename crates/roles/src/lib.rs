//! Operations of a table's owner and of a server, and the files that they exchange.
//!
//! | module | content |
//! |---|---|
//! | [`job`] | jobs that keys are made for |
//! | [`key`], [`sealed`] | keys that encrypt; secret keys, sealed by a passphrase |
//! | [`owner`] | the owner's part: encrypts tables, decrypts results, and keeps the secret key |
//! | [`clear`] | tables and results in the clear |
//! | [`server`] | the server's part, with evaluation keys and ciphertexts only |
//! | [`pooled`] | tables of several owners |
//! | [`search`] | indices of vectors, queries and answers |
//! | [`trees`] | keys, encrypted rows and predictions of models of trees |
//! | [`exact_files`] | files of exact arrays (BGV and BFV) and of their keys |
//! | [`mod@format`] | files that an owner and a server exchange |
//! | [`plan`] | the security and the cost of a planned job |
//! | [`os`] | files that are whole or absent, processors and memory |
//! | [`text`] | text for people |
//! | [`error`] | all errors of this crate |
//!
//! The command line and the Python package both build on this crate, so each can do any step of the
//! other.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

pub mod clear;
pub mod error;
pub mod exact_files;
pub mod format;
pub mod job;
pub mod key;
pub mod os;
pub mod owner;
pub mod plan;
pub mod pooled;
pub mod sealed;
pub mod search;
pub mod server;
pub mod text;
pub mod trees;
