//! The commands, one file each: its arguments, its result and what makes it.

#[cfg(not(feature = "serve"))]
pub mod absent;
pub mod bench;
pub mod decrypt;
pub mod demo;
pub mod doctor;
pub mod encrypt;
mod encrypting;
pub mod evaluate;
mod exact;
#[cfg(feature = "serve")]
mod hosting;
pub mod info;
pub mod key;
pub mod keygen;
pub mod params;
pub mod pool;
pub mod predict;
pub mod receipt;
pub mod remote;
pub mod report;
pub mod schema;
pub mod search;
mod secret;
mod security;
pub mod selftest;
#[cfg(feature = "serve")]
pub mod serve;
pub mod server;
pub mod stats;
pub mod train;
#[cfg(feature = "serve")]
pub mod web;
#[cfg(feature = "serve")]
pub mod work;
