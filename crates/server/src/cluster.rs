//! Several machines: object stores that servers share, and leases of jobs for workers.

pub mod addresses;
pub mod bucket;
pub mod lease;
