//! What the owner of a table and a server do, and the files that they exchange.
//!
//! | module | what it is for |
//! |---|---|
//! | [`encryption`], [`decryption`] | the owner's part: tables to be encrypted, results to be read |
//! | [`server`], [`scoring`], [`checkpoint`] | the server's part, with evaluation keys and ciphertexts only |
//! | [`artefacts`], [`model`] | what files say beside keys and ciphertexts, and files of results in the clear |
//! | [`files`], [`machine`] | files that are whole or absent; what the operating system says |
//! | [`sets`] | parameter sets by name |
//! | [`error`] | everything that ends the work early |
//!
//! The command line and the Python package stand side by side on this crate, so that each can do
//! any step of the other.
#![forbid(unsafe_code)]

pub mod artefacts;
pub mod checkpoint;
pub mod decryption;
pub mod encryption;
pub mod error;
pub mod files;
pub mod machine;
pub mod model;
pub mod scoring;
pub mod server;
pub mod sets;
