//! Statistics and logistic regression on encrypted tables.

pub mod logreg;
pub mod metrics;
pub mod table;
