//! The owner of an encrypted table in a browser, for the page in `page`.
//!
//! | module | content |
//! |---|---|
//! | [`table`] | the chosen table, and the owner's choice of a job |
//! | [`table::columns`] | columns of the table, and the coding that a choice of them means |
//! | [`scorer`] | a decrypted model that scores rows |
//! | [`fault`] | errors in the words of the page |
//! | [`owner`] | keys, encryption and decryption |
//! | [`shown`] | a result in the forms that the page shows and downloads |
//! | `bindings` | JavaScript classes for all of it, in builds for a browser |
//!
//! [`sudare_roles`] does all computation, so the files are the same as the command's. Bytes leave
//! through writers that the page provides. A file of keys is therefore never in memory as a whole.
// The macro of the bindings generates `unsafe` code.
#![cfg_attr(not(target_family = "wasm"), forbid(unsafe_code))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

#[cfg(target_family = "wasm")]
mod bindings;
pub mod fault;
pub mod owner;
mod plan;
pub mod scorer;
pub mod shown;
pub mod table;
