//! The owner of an encrypted table in a browser, for the page in `page`.
//!
//! | module | content |
//! |---|---|
//! | [`table::columns`] | columns of the table, their types, and which of them the job uses |
//! | [`table`] | the chosen table, and the plan of a job |
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
pub mod owner;
mod plan;
pub mod shown;
pub mod table;
