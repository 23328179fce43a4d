//! Facts about a planned job.
//!
//! | module | content |
//! |---|---|
//! | [`sets`] | parameter sets by name |
//! | [`security`] | the security of the keys |
//! | [`price`] | the cost on a server |

pub mod price;
pub mod security;
pub mod sets;
