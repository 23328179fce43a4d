//! The commands, one file each: its arguments, its result and the work between them.

#[cfg(not(feature = "cluster"))]
pub mod absent;
pub mod owner;
pub mod server;
mod shared;
pub mod tools;
