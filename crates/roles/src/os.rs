//! The operating system.
//!
//! | module | content |
//! |---|---|
//! | [`files`] | files that are whole or absent |
//! | [`machine`], [`memory`] | processors and memory, and limits of memory |

pub mod files;
pub mod machine;
pub mod memory;
