//! Statistics and logistic regression on encrypted tables.

pub mod functions;
pub mod logreg;
pub mod metrics;
pub mod stats;
pub mod table;
