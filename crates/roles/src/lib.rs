//! What the owner of a table and a server do, and the files that they exchange.
//!
//! | module | what it is for |
//! |---|---|
//! | [`encryption`], [`decryption`], [`decrypted`] | the owner's part: tables to be encrypted, results to be read, what these hold |
//! | [`server`], [`training`], [`checkpoint`], [`scoring`] | the server's part, with evaluation keys and ciphertexts only |
//! | [`job`] | what keys are made for |
//! | [`label`], [`note`] | what files say beside keys and ciphertexts: to everybody, and to who has the secret key |
//! | [`ledger`] | how many results of a key others have seen |
//! | [`receipt`] | what a server says under its signature of a result |
//! | [`price`], [`security`] | what a planned job takes of a server; how secure its keys are |
//! | [`opened`], [`files`] | files that are read; files that are whole or absent |
//! | [`outgoing`] | files that may leave their owner's machine |
//! | [`key`] | keys that encrypt: public and secret ones |
//! | [`secret`], [`sealed`] | files of secret keys; their bytes, sealed by a passphrase |
//! | [`integers`] | files of arrays of integers and of their keys |
//! | [`pooled`] | tables of several owners |
//! | [`search`] | indices of vectors, queries and answers |
//! | [`reading`], [`features`], [`model`] | tables as they come; rows for a model; results in the clear |
//! | [`fingerprint`] | whether a table has the rows that a model was trained on |
//! | [`report`] | pages about models |
//! | [`machine`], [`memory`] | what the operating system says; memory that it can give |
//! | [`hex`], [`escape`] | bytes as hexadecimal digits; text that does nothing to a terminal or a spreadsheet |
//! | [`sets`] | parameter sets by name |
//! | [`error`] | everything that ends the work early |
//!
//! The command line and the Python package stand side by side on this crate, so that each can do
//! any step of the other.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

pub mod checkpoint;
pub mod decrypted;
pub mod decryption;
pub mod encryption;
pub mod error;
pub mod escape;
pub mod features;
pub mod files;
pub mod fingerprint;
pub mod hex;
pub mod integers;
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
