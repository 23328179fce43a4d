//! Whose turn it is.

use crate::storage::records::Job;
use std::collections::HashMap;

/// Memory for jobs, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// All of it, for jobs that take it alone.
    pub all: u64,
    /// What no job has.
    pub free: u64,
}

/// Which tenants had their turns when.
#[derive(Default)]
pub struct Turns {
    served: HashMap<String, u64>,
    turn: u64,
}

impl Turns {
    /// The next job to begin, if there is room for it: of those that all of the room would hold the
    /// oldest one of the tenant who has waited the most turns. It is not overtaken by smaller ones.
    /// `waiting` are jobs, the oldest first.
    pub fn next<'a>(
        &mut self,
        waiting: impl IntoIterator<Item = &'a Job>,
        room: Room,
    ) -> Option<&'a Job> {
        let possible = waiting.into_iter().filter(|job| job.memory <= room.all);
        let last = |job: &&Job| self.served.get(&job.tenant).copied().unwrap_or(0);
        let job = possible.min_by_key(last).filter(|job| job.memory <= room.free)?;
        self.turn += 1;
        self.served.insert(job.tenant.clone(), self.turn);
        Some(job)
    }
}
