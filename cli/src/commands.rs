//! The commands, one file each: its arguments, its result and what makes it.

pub mod bench;
pub mod decrypt;
pub mod demo;
pub mod doctor;
pub mod encrypt;
pub mod evaluate;
mod exact;
pub mod info;
pub mod integers;
pub mod key;
pub mod keygen;
pub mod params;
pub mod pool;
pub mod predict;
mod public;
pub mod remote;
pub mod report;
pub mod schema;
pub mod search;
mod secret;
mod security;
pub mod selftest;
pub mod serve;
pub mod server;
pub mod stats;
pub mod train;
mod ways;
