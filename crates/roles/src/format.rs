//! Files that an owner and a server exchange.
//!
//! | module | content |
//! |---|---|
//! | [`opened`] | files that are read, with checks of their kind, keys and digests |
//! | [`label`] | public metadata |

pub mod label;
pub mod opened;
