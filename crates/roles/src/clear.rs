//! Tables and results in the clear, which only their owner has.
//!
//! | module | content |
//! |---|---|
//! | [`reading`], [`features`] | tables as they arrive, and rows for a model |
//! | [`coding`] | how a table was read when its keys were planned |
//! | [`groups`] | the column that groups rows |
//! | [`decrypted`], [`model`] | the content of results, and models |
//! | [`fingerprint`] | a check that a table has the rows that a model was trained on |
//! | [`note`] | facts next to ciphertexts that only the secret key decrypts |
//! | [`report`] | pages about models |

pub mod coding;
pub mod decrypted;
pub mod features;
pub mod fingerprint;
pub mod groups;
pub mod model;
pub mod note;
pub mod reading;
pub mod report;
