//! Several machines: stores and databases that servers share, leases of jobs for workers, and OpenTelemetry.

#[cfg(not(feature = "cluster"))]
pub mod absent;
#[cfg(feature = "cluster")]
pub mod addresses;
#[cfg(feature = "cluster")]
pub mod bucket;
#[cfg(feature = "cluster")]
pub mod lease;
#[cfg(feature = "cluster")]
pub mod otlp;

#[cfg(not(feature = "cluster"))]
pub use absent::{Bucket, Collector};
#[cfg(feature = "cluster")]
pub use bucket::Bucket;
#[cfg(feature = "cluster")]
pub use otlp::Collector;
