//! Commands of the server, which has evaluation keys and ciphertexts alone.

mod inputs;
#[cfg(feature = "serve")]
mod jobs;
pub mod predict;
#[cfg(feature = "serve")]
pub mod serve;
pub mod stats;
pub mod train;
#[cfg(feature = "cluster")]
pub mod work;
