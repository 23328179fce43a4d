//! Jobs: the state that requests and jobs share, the queue, and the processes that compute.

pub mod app;
pub mod child;
pub mod events;
pub mod gate;
pub mod planning;
pub mod queue;
pub mod turns;
pub mod work;
#[cfg(feature = "cluster")]
pub mod worker;
