//! Commands of the owner of data and keys, and of readers of results.

pub mod decrypt;
pub mod encrypt;
pub mod evaluate;
pub mod key;
pub mod keygen;
pub mod pool;
pub mod receipt;
pub mod remote;
pub mod report;
pub mod schema;
pub mod search;
pub mod trees;
#[cfg(feature = "serve")]
pub mod web;
