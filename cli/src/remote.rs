//! A service, as its clients see it: requests by HTTP, repeated where the connection breaks.

mod client;
mod transfer;
#[cfg(feature = "cluster")]
mod work;

pub use client::{Client, Job, Request, read_token};
#[cfg(feature = "serve")]
pub use client::{check_url, host_of};
