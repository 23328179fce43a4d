//! Operations of a table's owner and of a server, and the files that they exchange.
//!
//! | module | content |
//! |---|---|
//! | [`encryption`], [`decryption`], [`decrypted`] | the owner's part: encrypts tables, reads results, and represents their content |
//! | [`server`], [`training`], [`checkpoint`], [`scoring`] | the server's part, with evaluation keys and ciphertexts only |
//! | [`job`] | jobs that keys are made for |
//! | [`label`], [`note`] | metadata of files: public labels, and notes that only the secret key decrypts |
//! | [`ledger`] | the number of released results of a key |
//! | [`receipt`] | signed statements of a server about its results |
//! | [`price`], [`security`] | the cost of a planned job on a server, and the security of its keys |
//! | [`opened`], [`files`] | files that are read, and files that are whole or absent |
//! | [`outgoing`] | files that may leave their owner's machine |
//! | [`key`] | keys that encrypt: public and secret ones |
//! | [`secret`], [`sealed`] | files of secret keys; their bytes, sealed by a passphrase |
//! | [`exact_files`] | files of exact arrays (BGV and BFV) and of their keys |
//! | [`pooled`] | tables of several owners |
//! | [`search`] | indices of vectors, queries and answers |
//! | [`reading`], [`features`], [`model`] | tables as they arrive, rows for a model, and results in the clear |
//! | [`fingerprint`] | a check that a table has the rows that a model was trained on |
//! | [`report`] | pages about models |
//! | [`machine`], [`memory`] | facts from the operating system, and limits of memory |
//! | [`hex`], [`escape`] | bytes as hexadecimal digits, and text that is harmless in a terminal or a spreadsheet |
//! | [`sets`] | parameter sets by name |
//! | [`error`] | all errors of this crate |
//!
//! The command line and the Python package both build on this crate, so each can do any step of the
//! other.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

pub mod checkpoint;
pub mod decrypted;
pub mod decryption;
pub mod encryption;
pub mod error;
pub mod escape;
pub mod exact_files;
pub mod features;
pub mod files;
pub mod fingerprint;
pub mod hex;
pub mod job;
pub mod key;
pub mod label;
pub mod ledger;
pub mod machine;
pub mod memory;
pub mod model;
pub mod note;
pub mod opened;
pub mod outgoing;
pub mod pooled;
pub mod price;
pub mod reading;
pub mod receipt;
pub mod report;
pub mod scoring;
pub mod sealed;
pub mod search;
pub mod secret;
pub mod security;
pub mod server;
pub mod sets;
pub mod training;
