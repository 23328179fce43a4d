//! A service, as its clients see it: requests by HTTP, repeated where the connection breaks.

mod client;
mod transfer;
mod work;

pub use client::{Client, Job, Request, check_url, host_of, read_token};
