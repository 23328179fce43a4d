//! Turns of tenants in the queue.

use crate::storage::records::Job;
use std::collections::HashMap;

/// Memory for jobs, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Total memory, for a job that runs alone.
    pub all: u64,
    /// Memory that no job has reserved.
    pub free: u64,
}

/// The order of the tenants' last turns.
#[derive(Default)]
pub struct Turns {
    served: HashMap<String, u64>,
    turn: u64,
}

impl Turns {
    /// Returns the next job to start, if there is room for it: among the jobs that fit into the total
    /// memory, the oldest one of the tenant with the oldest last turn. Smaller jobs do not overtake it.
    /// `waiting` lists the jobs, oldest first.
    pub fn next<'a>(
        &mut self,
        waiting: impl IntoIterator<Item = &'a Job>,
        room: Room,
    ) -> Option<&'a Job> {
        let possible = waiting.into_iter().filter(|job| job.memory <= room.all);
        let last = |job: &&Job| self.served.get(&job.tenant).copied().unwrap_or(0);
        // `min_by_key` returns the first minimum, hence the tenant's oldest job.
        let job = possible.min_by_key(last).filter(|job| job.memory <= room.free)?;
        self.turn += 1;
        self.served.insert(job.tenant.clone(), self.turn);
        Some(job)
    }
}
