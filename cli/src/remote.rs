//! Client of a service: HTTP requests, repeated after broken connections.

mod client;
mod connection;
mod transfer;
#[cfg(feature = "cluster")]
mod work;

pub use client::{Client, Job, Request, read_token};
#[cfg(feature = "serve")]
pub use client::{check_url, expect_ready, host_of};
