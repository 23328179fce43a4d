//! Arguments and texts that several commands share.

pub mod encryption_key;
pub mod exact_key_files;
pub mod key_files;
pub mod secret_key;
pub mod security;
pub mod training;
