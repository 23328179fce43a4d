//! The owner of an encrypted table in a browser, for the page in `page`.
//!
//! | module | what it is for |
//! |---|---|
//! | [`table`] | the table that was chosen, and what is planned for it |
//! | [`owner`] | keys, encryption, decryption |
//! | [`shown`] | a result as the page shows it and gives it away |
//! | `bindings` | all of it as classes of JavaScript, where this is built for a browser |
//!
//! All that is computed is [`sudare_roles`]: files that are made here and those of the command are
//! the same. Bytes leave through writers that the page gives, so that no file of keys is ever in
//! memory.
// Bindings are made by a macro that writes some.
#![cfg_attr(not(target_family = "wasm"), forbid(unsafe_code))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

#[cfg(target_family = "wasm")]
mod bindings;
pub mod owner;
mod plan;
pub mod shown;
pub mod table;
