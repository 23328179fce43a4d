//! The owner's part: encrypts tables, decrypts results, and keeps the secret key.
//!
//! | module | content |
//! |---|---|
//! | [`encryption`], [`decryption`] | encrypts tables, and reads results |
//! | [`secret`] | files of secret keys |
//! | [`ledger`] | the number of released results of a key |
//! | [`outgoing`] | files that may leave their owner's machine |

pub mod decryption;
pub mod encryption;
pub mod ledger;
pub mod outgoing;
pub mod secret;
