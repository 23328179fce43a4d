//! The command, run as its users run it.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

mod common;

mod bad_input;
mod checkpoints;
mod exact;
#[cfg(unix)]
mod examples;
mod help;
mod journey;
#[cfg(unix)]
mod outgoing;
mod owner;
mod pooled;
mod readme;
mod report;
mod scoring;
mod search;
#[cfg(unix)]
mod service;
#[cfg(target_os = "linux")]
mod service_abuse;
#[cfg(unix)]
mod service_accounts;
#[cfg(unix)]
mod service_connections;
#[cfg(target_os = "linux")]
mod service_faults;
#[cfg(target_os = "linux")]
mod service_load;
#[cfg(unix)]
mod service_operation;
#[cfg(unix)]
mod service_shared;
#[cfg(unix)]
mod service_workers;
mod tables;
mod tools;
mod trees;
