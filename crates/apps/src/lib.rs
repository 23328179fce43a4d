//! Statistics and logistic regression on encrypted tables.

mod error;
pub mod functions;
pub mod logreg;
pub mod metrics;
pub mod note;
pub mod stats;
pub mod table;

pub use error::{Error, Result};
