//! HTTP: connections, the routes of the API, and uploads on their way to the disk.

pub mod api;
pub mod net;
pub mod page;
mod receive;
