//! Commands that need no files of a role.

pub mod bench;
pub mod demo;
pub mod doctor;
pub mod info;
pub mod params;
pub mod selftest;
