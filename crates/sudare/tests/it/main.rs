//! Tests of the crate as its users see it, in one program: each further program would be linked with all of
//! the crate once more. Two stand apart: `golden`, which other platforms run alone, and `headers`, which
//! counts the memory of its process.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../estimator/mod.rs"]
mod estimator;
#[path = "../matrix/mod.rs"]
mod matrix;
#[path = "../oracle/mod.rs"]
mod oracle;
#[path = "../session/mod.rs"]
mod session;

mod aligned;
mod allocations;
mod bootstrap;
mod bootstrap_reproductions;
mod circles;
mod ckks_end_to_end;
mod corrupted_bytes;
mod eval_mod;
mod exact_misuse_matrix;
mod examples;
mod files;
mod key_storage;
mod key_switch_oracle;
mod laws;
mod layers;
mod linear_transforms;
mod malformed_cases;
mod misuse;
mod misuse_matrix;
mod mod_raise;
mod noise;
mod others_bugs;
mod peer_slots;
mod portable;
mod prices;
mod release_attack;
mod ring_oracle;
mod rules;
mod short_inputs;
mod upper_levels;
mod value;
