//! Logistic regression by Nesterov's accelerated gradient.

pub mod reference;
