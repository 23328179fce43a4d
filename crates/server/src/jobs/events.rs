//! Changes of jobs, for their followers.

use crate::storage::records::Job;
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

/// Followers of jobs.
#[derive(Default)]
pub struct Events {
    jobs: Mutex<HashMap<String, watch::Sender<Option<Job>>>>,
}

impl Events {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<Option<Job>>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows a job. A slow follower receives the latest change only.
    pub fn follow(&self, id: &str) -> watch::Receiver<Option<Job>> {
        let mut jobs = self.lock();
        jobs.entry(id.into()).or_insert_with(|| watch::Sender::new(None)).subscribe()
    }

    /// Lists the jobs that have followers, and drops the others.
    pub fn followed(&self) -> Vec<String> {
        let mut jobs = self.lock();
        jobs.retain(|_, sender| sender.receiver_count() > 0);
        jobs.keys().cloned().collect()
    }

    /// Notifies the followers of a job, unless they know the change.
    pub fn publish(&self, job: &Job) {
        let mut jobs = self.lock();
        if let Some(sender) = jobs.get(&job.id) {
            sender.send_if_modified(|last| {
                // Threads may publish in another order, and the look at shared records repeats
                // changes.
                let is_new = last.as_ref().is_none_or(|last| last.seq < job.seq);
                if is_new {
                    *last = Some(job.clone());
                }
                is_new
            });
            if job.state.is_final() || sender.receiver_count() == 0 {
                jobs.remove(&job.id);
            }
        }
    }
}
