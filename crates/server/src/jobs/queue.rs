//! The queue of jobs, and the results of their processes.

use crate::{
    clock::{Seconds, now},
    job::{Kind, Message, Request, Task},
    jobs::{
        app::{App, Counters, Running, Server, blocking},
        child::{self, Ended, Signal},
        turns::Room,
    },
    problem::internal,
    storage::{
        records::{Change, Claimant, Collection, Job, Object, Removing, State},
        store::{Orphans, Store},
    },
    telemetry,
};
use serde_json::json;
use std::{
    collections::HashSet,
    fs, io,
    path::Path,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};
use sudare_roles::{
    error::{Error, Result},
    os::files,
    server::receipt::Statement,
};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval, sleep},
};
use tracing::Instrument;

/// Maximum processes that may die on a job without a step forward.
// One death may be bad luck, such as memory pressure by other programs.
const MAX_DEATHS: u32 = 3;

/// CPU seconds that a process may use besides the ones of its job.
// Short predictions do not cover the start of the program and the reading of keys.
const EXTRA_CPU_SECONDS: u64 = 10;

/// Seconds after which a server removes the file of a deleted object in place of the server that should
/// have.
const REMOVAL_SECONDS: Seconds = 600;
/// Pause before the first check whether the file of an object is removed. The pause doubles up to the
/// maximum.
const MIN_REMOVAL_PAUSE: Duration = Duration::from_millis(100);
const MAX_REMOVAL_PAUSE: Duration = Duration::from_secs(5);
/// Maximum time that a result waits for the removal: longer than [`REMOVAL_SECONDS`].
const RESULT_PATIENCE: Duration = Duration::from_secs(900);
/// Pause after an error of a shared database or store, before the next attempt.
const PAUSE: Duration = Duration::from_secs(5);
/// Minimum age of an object without a record before its removal, since a new one may be about to get a
/// record.
const ORPHAN_AGE: Duration = Duration::from_secs(86_400);
/// Interval between two checks for such objects. The removal requires that the previous check found the
/// object too.
const ORPHAN_CHECK_INTERVAL: Duration = Duration::from_secs(3600);
/// Interval between two checks of the leases.
const LEASE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Starts jobs while there is room, until the server shuts down. Then tells the running ones to store their
/// progress, and waits for them.
pub async fn run(app: App) {
    let mut ending = app.ending.subscribe();
    let mut news = app.wake.subscribe();
    let mut tasks = tokio::task::JoinSet::new();
    while !*ending.borrow_and_update() {
        // Before the look into the queue, so that a job added meanwhile wakes the loop.
        news.borrow_and_update();
        match blocking(&app, Server::waiting).await {
            Ok(waiting) => {
                while let Some(job) = app.next_local(&waiting) {
                    let (signal, receiver) = watch::channel(Signal::Go);
                    let running = Running { signal, memory: job.memory, fence: None };
                    // Reserves the memory before the search for the next job.
                    app.running().insert(job.id.clone(), running);
                    let span = telemetry::job(job.request.kind.name(), &job.id);
                    tasks.spawn(run_job(Arc::clone(&app), job, receiver).instrument(span));
                }
            }
            Err(error) => tracing::error!(%error, "cannot read the queue"),
        }
        tokio::select! {
            _ = news.changed() => {}
            _ = ending.changed() => {}
            Some(_) = tasks.join_next() => {}
        }
    }
    for running in app.running().values() {
        Signal::stop(&running.signal, app.limits.grace);
    }
    while tasks.join_next().await.is_some() {}
}

/// Checks leases until it is aborted. It queues jobs again whose leases were not renewed. If servers share
/// the records, it also renews the leases of this server, and follows the changes of other servers.
pub async fn watch_leases(app: App) {
    let mut ticks = interval(LEASE_CHECK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // A lease is renewed three times while it is valid.
    let renewals = u64::from(app.limits.lease_seconds / 3).max(1);
    for count in 0_u64.. {
        ticks.tick().await;
        let renew = count.is_multiple_of(renewals);
        match blocking(&app, move |app| app.check_leases(renew)).await {
            Ok(true) => app.wake.send_replace(()),
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "cannot check the leases"),
        }
    }
}

impl Server {
    /// Checks the leases. Returns whether new jobs may be waiting.
    fn check_leases(&self, renew: bool) -> Result<bool> {
        // This call also drops jobs without followers, so it runs even if the records are not shared.
        let followed = self.events.followed();
        if self.records.are_shared() {
            self.check_own_leases(renew)?;
            let followed = self.records.jobs_named(&followed)?;
            followed.iter().for_each(|job| self.events.publish(job));
        }
        let expired = self.records.expire_leases(now())?;
        for job in &expired {
            let by = job.worker.as_ref().or(job.server.as_ref());
            tracing::warn!(job = job.id, by, "a lease was not renewed");
            Counters::add(&self.counters.expired_leases, 1);
            self.events.publish(job);
        }
        // Other servers queue jobs without waking this one.
        Ok(self.records.are_shared() || !expired.is_empty())
    }

    /// Kills the processes of jobs that another server has cancelled or taken, and renews the leases of the
    /// other jobs. A job that is this server's only in the records ends with its lease.
    fn check_own_leases(&self, renew: bool) -> Result<()> {
        let claimed = |(id, running): (&String, &Running)| Some((id.clone(), running.fence?));
        // Read the local jobs first, so that a job claimed meanwhile is not missing among the held ones.
        let mut own: Vec<(String, u64)> = self.running().iter().filter_map(claimed).collect();
        let held: HashSet<(String, u64)> =
            self.records.held_by(self.store.name())?.into_iter().collect();
        own.retain(|named| {
            let is_held = held.contains(named);
            if !is_held && let Some(running) = self.running().get(&named.0) {
                // Another holder has the job, so this process must not write any more.
                running.signal.send_replace(Signal::Kill);
            }
            is_held
        });
        if renew && !own.is_empty() {
            self.records.renew_own(&own, self.lease_end())?;
        }
        Ok(())
    }

    fn waiting(&self) -> Result<Vec<Job>> {
        self.records.jobs_in(State::Queued)
    }

    /// Returns the next job for a local process.
    fn next_local(&self, waiting: &[Job]) -> Option<Job> {
        let running = self.running();
        if running.len() >= self.limits.running_jobs {
            return None;
        }
        let all = self.limits.memory_bytes;
        let used = running.values().map(|job| job.memory).fold(0, u64::saturating_add);
        let room = Room { all, free: all.saturating_sub(used) };
        let new = waiting.iter().filter(|job| !running.contains_key(&job.id));
        self.turns().next(new, room).cloned()
    }

    #[cfg(feature = "cluster")]
    /// Claims the next job for a worker with this memory.
    ///
    /// # Errors
    /// Errors of [`Records`](crate::storage::records::Records).
    pub fn claim_for(&self, worker: &str, memory_bytes: u64) -> Result<Option<Job>> {
        let waiting = self.waiting()?;
        let room = Room { all: memory_bytes, free: memory_bytes };
        // The locks end before the claim, which waits for the database. A job that is about to
        // start in a process here is still queued in the records.
        let job = {
            let running = self.running();
            let new = waiting.iter().filter(|job| !running.contains_key(&job.id));
            self.turns().next(new, room).cloned()
        };
        let Some(job) = job else { return Ok(None) };
        let by = Claimant::Worker { name: worker, until: self.lease_end() };
        let claimed = self.records.claim(&job.id, by, now())?;
        if let Some(job) = &claimed {
            tracing::info!(job = job.id, worker, fence = job.fence, "claimed");
            self.events.publish(job);
        }
        Ok(claimed)
    }

    /// Returns the end of a lease that starts now. One second is added, because the clock of the records
    /// has whole seconds.
    pub fn lease_end(&self) -> Seconds {
        now().saturating_add(self.limits.lease_seconds.into()).saturating_add(1)
    }

    /// Queues the jobs again that were in processes of this server when it last ended.
    ///
    /// # Errors
    /// Errors of [`Records`](crate::storage::records::Records).
    pub fn recover(&self) -> Result<()> {
        let name = self.store.name();
        self.records.take_over(name, !self.records.are_shared())?;
        let running = self.records.jobs_in(State::Running)?;
        for job in running.iter().filter(|job| job.server.as_deref() == Some(name)) {
            tracing::info!(job = job.id, "resumes");
            self.records.change(&job.id, Some(job.fence), &Change::Requeued)?;
        }
        Ok(())
    }

    /// Decides the change of a job whose process died. `how` is for the log.
    ///
    /// # Errors
    /// Errors of [`Records`](crate::storage::records::Records).
    pub fn change_after_death(&self, job: &Job, how: &str) -> Result<Change> {
        tracing::warn!(job = job.id, how, "a process died");
        // Read again: the job's steps since the claim may have reset the deaths.
        let found = self.records.job(&job.tenant, &job.id)?;
        let before = found.map_or(0, |job| job.deaths);
        if before.saturating_add(1) < MAX_DEATHS {
            return Ok(Change::Died);
        }
        let detail = "its process died repeatedly without a step forward, or its files could not be read: \
                      the server may have too little memory";
        Ok(Change::Failed("Died".into(), detail.into()))
    }

    /// Records a change of a job under its fence, unless the job is no longer held. Removes the directory
    /// of a job that has ended. Returns the job.
    ///
    /// # Errors
    /// Errors of [`Records`](crate::storage::records::Records); [`Error::Io`].
    pub fn leave(&self, job: &Job, change: &Change) -> Result<Option<Job>> {
        let left = self.change(&job.id, Some(job.fence), change)?;
        if let Some(left) = &left {
            self.tidy(left)?;
        }
        Ok(left)
    }

    /// Makes an object of a file that is on the disk: uploads it to the shared store, and calls `keep` to
    /// record it. `keep` receives the number of the tenant's finished removals before the upload, and a
    /// function that moves the file to the objects. While a file of the same digest is being removed, the
    /// attempt is repeated, up to `patience` and until the server shuts down.
    ///
    /// # Errors
    /// Errors of [`Records`](crate::storage::records::Records); [`Error::Io`]; errors of `keep`.
    pub fn keep_object<T>(
        &self,
        file: &Path,
        tenant: &str,
        digest: &str,
        patience: Duration,
        keep: impl Fn(u64, &dyn Fn() -> Result<()>) -> Result<core::result::Result<T, Removing>>,
    ) -> Result<core::result::Result<T, Removing>> {
        let adopt = || self.store.adopt(file, tenant, digest);
        let mut until = None;
        let mut pause = MIN_REMOVAL_PAUSE;
        loop {
            // Read before the file is sent: a removal that finishes later may have taken the file
            // along.
            let done = self.records.removals_done(tenant)?;
            self.store.share_object(file, tenant, digest, until.is_none())?;
            let kept = keep(done, &adopt)?;
            // The time to send a large file does not count.
            let until = *until.get_or_insert_with(|| Instant::now() + patience);
            if kept.is_ok() || Instant::now() >= until || *self.ending.borrow() {
                return Ok(kept);
            }
            std::thread::sleep(pause);
            pause = MAX_REMOVAL_PAUSE.min(2 * pause);
            // The removal may be this server's to finish.
            self.finish_removals()?;
        }
    }

    /// Removes the file of a deleted object, unless it is gone or another thread removes it.
    ///
    /// # Errors
    /// Errors of [`Records`](crate::storage::records::Records); [`Error::Io`].
    pub fn finish_removal(&self, tenant: &str, digest: &str) -> Result<()> {
        let server = self.store.name();
        // A second thread need not wait: the first one removes the file for both.
        let Some(_lock) = self.removing.try_lock(tenant, digest) else { return Ok(()) };
        let claimed = self.records.claim_removal(tenant, digest, server, self.long_ago())?;
        let Some(since) = claimed else { return Ok(()) };
        self.store.remove_object(tenant, digest)?;
        // Finishes this claim alone: another server may have taken over a slow removal.
        self.records.removal_done(tenant, digest, server, since)
    }

    /// Finishes the removals of this server, and old ones of other servers.
    fn finish_removals(&self) -> Result<()> {
        for (tenant, digest) in self.records.removals(self.store.name(), self.long_ago())? {
            if let Err(error) = self.finish_removal(&tenant, &digest) {
                tracing::error!(%error, tenant, digest, "cannot finish a removal yet");
            }
        }
        Ok(())
    }

    /// Returns the time before which removals by other servers are this one's to finish: any time, if there
    /// is no other server.
    fn long_ago(&self) -> Seconds {
        match self.records.are_shared() {
            true => now().saturating_sub(REMOVAL_SECONDS),
            false => Seconds::MAX,
        }
    }

    /// Removes files that are no longer needed: directories of ended jobs, shared states of ended jobs, incomplete
    /// files in the shared store, and local copies of shared objects.
    ///
    /// # Errors
    /// Errors of [`Records`](crate::storage::records::Records); [`Error::Io`].
    pub fn tidy_folder(&self) -> Result<()> {
        // The directories first: the job of each one then has a record, if it has one at all.
        let folders = self.store.jobs_here()?;
        let mut live: HashSet<String> = HashSet::new();
        for job in self.records.jobs_named(&folders)? {
            live.extend((!job.state.is_final()).then_some(job.id));
        }
        self.store.tidy_jobs(folders.into_iter().filter(|id| !live.contains(id)))?;
        self.finish_removals()?;
        self.tidy_orphans(SystemTime::now())?;
        if !self.store.is_shared() {
            return Ok(());
        }
        // Processes of these jobs have the files mapped.
        let mut used = HashSet::new();
        for job in self.records.jobs_in(State::Running)? {
            let objects = job.request.objects();
            used.extend(objects.map(|digest| (job.tenant.clone(), digest.to_owned())));
        }
        let known = self.records.all_objects()?;
        self.store.tidy_copies(self.limits.copies_bytes, &known, &used)?;
        let shared = self.records.jobs_named(&self.store.jobs_shared()?)?;
        let mut ended = shared.iter().filter(|job| job.state.is_final());
        ended.try_for_each(|job| self.store.remove_shared_states(&job.id))?;
        self.store.tidy_shared()
    }

    /// Removes objects without a record, which a server leaves when it is killed between storing and
    /// recording an object. Such an object must be a day old, belong to a known tenant, and have been found
    /// an hour ago, too. The log names each when it is found.
    ///
    /// # Errors
    /// Errors of [`Records`](crate::storage::records::Records); [`Error::Io`].
    fn tidy_orphans(&self, now: SystemTime) -> Result<()> {
        let since = |then: SystemTime| now.duration_since(then).unwrap_or_default();
        let mut orphans = self.orphans.lock().unwrap_or_else(PoisonError::into_inner);
        if orphans.looked.is_some_and(|looked| since(looked) < ORPHAN_CHECK_INTERVAL) {
            return Ok(());
        }
        // List the store first, so that objects recorded meanwhile count as known.
        let stored = self.store.objects_stored()?;
        let known = self.records.all_objects()?;
        let tenants = self.records.tenants()?;
        // Objects of unknown tenants may belong to another service in the same store.
        let is_orphan = |named: &(String, String), written: SystemTime| {
            !known.contains(named) && tenants.contains(&named.0) && since(written) >= ORPHAN_AGE
        };
        let found = stored.into_iter().filter(|(named, written)| is_orphan(named, *written));
        let found: HashSet<(String, String)> = found.map(|(named, _)| named).collect();
        for (tenant, digest) in &found {
            if !orphans.found.contains(&(tenant.clone(), digest.clone())) {
                tracing::warn!(tenant, digest, "an object has no record, and will be removed");
            } else if self.records.remove_orphan(tenant, digest, self.store.name())? {
                tracing::warn!(tenant, digest, "an object without a record is removed");
                self.finish_removal(tenant, digest)?;
            }
        }
        *orphans = Orphans { looked: Some(now), found };
        Ok(())
    }

    /// Removes the directory of a job that has ended.
    fn tidy(&self, job: &Job) -> Result<()> {
        if job.state.is_final() {
            tracing::info!(job = job.id, state = ?job.state, "ended");
            self.store.remove_job(&job.id)?;
        }
        Ok(())
    }

    /// Returns the CPU seconds after which the process of a job is ended.
    pub fn most_cpu_seconds(&self, job: &Job) -> u64 {
        let most = (self.limits.overtime * job.cpu_seconds).ceil() as u64;
        most.saturating_add(EXTRA_CPU_SECONDS)
    }

    /// Makes the task for the process of a job.
    fn task(&self, job: &Job) -> Result<Task> {
        let folder = self.store.make_job(&job.id)?;
        self.store.fetch_states(&job.id)?;
        let object = |digest: &String| self.store.fetch_object(&job.tenant, digest);
        let request = &job.request;
        Ok(Task {
            kind: request.kind,
            keys: object(&request.keys)?,
            tables: request.tables.iter().map(object).collect::<Result<_>>()?,
            model: request.model.as_ref().map(object).transpose()?,
            iterations: request.iterations,
            history: request.history,
            // Another server may have predicted it for a different number of threads.
            memory: (!self.records.are_shared()).then_some(job.memory),
            most_cpu_seconds: self.most_cpu_seconds(job),
            states: Store::states_in(&folder),
            output: Store::result_in(&folder),
        })
    }

    /// Completes a job with its result: makes an object of it as [`Server::keep_object`] does, and signs
    /// the receipt, unless the job is no longer held. Returns the job.
    ///
    /// # Errors
    /// Errors of [`Records`](crate::storage::records::Records); [`Error::Io`].
    pub fn keep_result(
        &self,
        job: &Job,
        output: &Path,
        patience: Duration,
    ) -> Result<core::result::Result<Option<Job>, Removing>> {
        let io = |error| Error::io("read", output, error);
        let mut file = fs::File::open(output).map_err(io)?;
        // The receipt signs the file that is here, not a digest that a process or a worker reports.
        let (digest, bytes) = files::digest_of(&mut file).map_err(io)?;
        let object = Object {
            tenant: job.tenant.clone(),
            digest: digest.clone(),
            collection: Collection::Results,
            bytes,
            created: now(),
            about: json!({ "kind": job.request.kind.name(), "job": job.id }),
        };
        let Request { kind, keys, tables, model, iterations, history } = job.request.clone();
        let receipt = self.key.sign(Statement {
            program: env!("CARGO_PKG_VERSION").into(),
            job: job.id.clone(),
            kind: kind.name().into(),
            keys,
            tables,
            model,
            iterations,
            history,
            result: digest,
            bytes,
            created: job.created,
            finished: object.created,
            // `sign` fills in the version and the key.
            ..Statement::default()
        })?;
        let receipt = receipt.text()?;
        let keep = |done, adopt: &dyn Fn() -> _| {
            self.records.finish(&job.id, job.fence, &object, &receipt, done, adopt)
        };
        let done = self.keep_object(output, &job.tenant, &object.digest, patience, keep)?;
        if let Ok(Some(done)) = &done {
            self.publish(done);
            self.tidy(done)?;
        }
        Ok(done)
    }

    /// Records the outcome of a process. The job may continue later. Returns the job, unless it is no
    /// longer held.
    fn after(&self, job: &Job, task: &Task, ended: Ended) -> Result<Option<Job>> {
        let change = match ended {
            Ended::Done => match self.keep_result(job, &task.output, RESULT_PATIENCE)? {
                Ok(done) => return Ok(done),
                // Another attempt gives the same bits.
                Err(Removing) => Change::Requeued,
            },
            Ended::Failed { kind, detail } => {
                // The tenant reads this.
                Change::Failed(kind, self.store.without_paths(&detail))
            }
            Ended::Signalled => Change::Requeued,
            Ended::Died(how) => self.change_after_death(job, &how)?,
        };
        self.leave(job, &change)
    }
}

async fn run_job(app: App, job: Job, signal: watch::Receiver<Signal>) {
    let id = job.id.clone();
    // A cancellation waits until this receiver is dropped.
    let held = signal.clone();
    let name = id.clone();
    let claimed = blocking(&app, move |app| {
        let until = app.records.are_shared().then(|| app.lease_end());
        let by = Claimant::Server { name: app.store.name(), until };
        let claimed = app.records.claim(&name, by, now())?;
        if let Some(running) = app.running().get_mut(&name) {
            running.fence = claimed.as_ref().map(|job| job.fence);
        }
        Ok::<_, Error>(claimed)
    });
    let claimed = claimed.await;
    match claimed {
        Ok(Some(job)) => {
            app.events.publish(&job);
            let fence = job.fence;
            if let Err(error) = work_on(&app, job, signal).await {
                tracing::error!(job = id, %error, "a job failed because of a server error");
                // A shared store may be out of reach for a while, as may its database. A missing or altered
                // file stays so.
                let stays = [io::ErrorKind::NotFound, io::ErrorKind::InvalidData];
                let may_pass = app.store.is_shared()
                    && matches!(&error, Error::Io { source, .. } if !stays.contains(&source.kind()));
                let change = if may_pass {
                    sleep(PAUSE).await;
                    Change::Requeued
                } else {
                    // The tenant learns nothing about the server's disks.
                    Change::Failed(error.kind(), "the server failed".into())
                };
                let name = id.clone();
                let recorded =
                    blocking(&app, move |app| app.change(&name, Some(fence), &change)).await;
                if let Err(error) = recorded {
                    tracing::error!(job = id, %error, "cannot record the outcome");
                }
            }
        }
        // The job was cancelled, or a worker has it.
        Ok(None) => {}
        Err(error) => {
            tracing::error!(job = id, %error, "cannot claim the job");
            // Without a pause the queue would try again at once.
            sleep(PAUSE).await;
        }
    }
    app.running().remove(&id);
    drop(held);
    app.wake.send_replace(());
}

async fn work_on(app: &App, job: Job, signal: watch::Receiver<Signal>) -> Result<()> {
    let of = job.clone();
    let task = blocking(app, move |app| app.task(&of)).await?;
    tracing::info!(job = job.id, tenant = job.tenant, kind = job.request.kind.name(), "starts");
    let counted = AtomicU64::new(0);
    let is_training = job.request.kind == Kind::Train;
    let on_message = |message| {
        let app = Arc::clone(app);
        let id = job.id.clone();
        let tenant = job.tenant.clone();
        let fence = Some(job.fence);
        let before = &counted;
        async move {
            let recorded = match message {
                Message::Progress(done, total) => {
                    let change = Change::Progress(done, total);
                    blocking(&app, move |app| {
                        // Share the states first, so that a job that resumes after a kill starts no earlier
                        // than followers were recorded.
                        if is_training {
                            app.store.share_states(&id)?;
                        }
                        app.change(&id, fence, &change).map(|_| ())
                    })
                    .await
                }
                Message::Cpu(all) => {
                    // Processes report totals, and the records add.
                    let new = all.saturating_sub(before.swap(all, Ordering::Relaxed));
                    blocking(&app, move |app| app.records.use_cpu(&tenant, now(), new)).await
                }
                _ => Ok(()),
            };
            if let Err(error) = recorded {
                // A lost report is no reason to end hours of work.
                tracing::warn!(%error, "cannot record the message of a process");
            }
        }
    };
    let ended = child::run(&app.program, &task, signal, on_message).await.map_err(internal)?;
    blocking(app, move |app| {
        if app.after(&job, &task, ended)?.is_none()
            && let Some(now) = app.records.job(&job.tenant, &job.id)?
        {
            // The job was cancelled meanwhile.
            app.tidy(&now)?;
        }
        Ok(())
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        jobs::app::testing::{server, with_store},
        storage::{
            records::{
                NewJob,
                testing::{new_job, queue},
            },
            store,
        },
    };

    /// Makes a server that shares its objects and states with another.
    fn sharing(folder: &Path) -> App {
        let [store, _] = store::testing::sharing(folder);
        with_store(folder, 1, store)
    }

    fn add(app: &Server, id: &str, memory: u64) {
        queue(&app.records, &NewJob { memory, ..new_job(id, &id[..1]) });
    }

    /// Local copies stay within their limit, even if one server uses the store alone.
    #[cfg(feature = "cluster")]
    #[test]
    fn copies_are_within_their_limit() {
        let folder = tempfile::tempdir().unwrap();
        let app = sharing(folder.path());
        let text = b"more than one byte";
        let object = Object {
            tenant: "a".into(),
            digest: blake3::hash(text).to_string(),
            collection: Collection::Keys,
            bytes: text.len() as u64,
            created: now(),
            about: serde_json::Value::Null,
        };
        let upload = app.store.upload("1");
        fs::write(&upload, text).unwrap();
        let adopt = || app.store.adopt(&upload, "a", &object.digest);
        app.records.complete_upload("1", &object, 0, adopt).unwrap().unwrap();
        let path = app.store.fetch_object("a", &object.digest).unwrap();
        app.tidy_folder().unwrap();
        assert!(path.exists());
        let long_ago = std::time::SystemTime::UNIX_EPOCH;
        let times = fs::FileTimes::new().set_modified(long_ago).set_accessed(long_ago);
        fs::File::options().append(true).open(&path).unwrap().set_times(times).unwrap();
        app.tidy_folder().unwrap();
        assert!(!path.exists());
        // The removal uploaded the missing object first.
        assert_eq!(fs::read(app.store.fetch_object("a", &object.digest).unwrap()).unwrap(), text);
    }

    /// Removes an object without a record after a day, if two checks found it and its tenant is known. An
    /// object that is being sent again stays.
    #[test]
    fn objects_without_records_are_removed_after_a_day() {
        for is_shared in [false, cfg!(feature = "cluster")] {
            let folder = tempfile::tempdir().unwrap();
            let app = if is_shared { sharing(folder.path()) } else { server(folder.path(), 1) };
            let place =
                folder.path().join(if is_shared { "shared/objects" } else { "store/objects" });
            let texts = ["known", "lost", "sent"];
            let digests = texts.map(|text| blake3::hash(text.as_bytes()).to_string());
            for tenant in ["a", "stranger"] {
                fs::create_dir_all(place.join(tenant)).unwrap();
                for (text, digest) in texts.iter().zip(&digests) {
                    fs::write(place.join(tenant).join(digest), text).unwrap();
                }
            }
            let mut request = new_job("1", "a").request;
            (request.keys, request.tables) = (digests[0].clone(), Vec::new());
            crate::storage::records::testing::send_objects(&app.records, "a", &request);
            let sent = crate::storage::records::Upload {
                id: "u".into(),
                tenant: "a".into(),
                server: app.store.name().into(),
                collection: Collection::Keys,
                digest: digests[2].clone(),
                bytes: 4,
                received: 0,
                complete: false,
                touched: now(),
            };
            app.records.begin_upload(&sent, &app.limits.tenant).unwrap();
            let here = |tenant: &str| {
                digests.each_ref().map(|digest| place.join(tenant).join(digest).exists())
            };
            let now = SystemTime::now();
            let hours = |hours: u64| now + Duration::from_secs(3600 * hours + 60);
            // At first nothing is old, then the object is found, then the next check is not due.
            for time in [0, 23, 24, 24] {
                app.tidy_orphans(hours(time)).unwrap();
                assert_eq!(here("a"), [true; 3], "{time}");
            }
            app.tidy_orphans(hours(25)).unwrap();
            assert_eq!((here("a"), here("stranger")), ([true, false, true], [true; 3]));
            assert!(app.records.removals(app.store.name(), 0).unwrap().is_empty());
        }
    }

    /// Removes shared states of jobs that have ended. States of live and unknown jobs stay.
    #[cfg(feature = "cluster")]
    #[test]
    fn states_of_ended_jobs_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let app = sharing(folder.path());
        for id in ["a1", "a2"] {
            add(&app, id, 1);
        }
        for id in ["a1", "a2", "a3"] {
            let states = Store::states_in(&app.store.make_job(id).unwrap());
            fs::create_dir_all(&states).unwrap();
            fs::write(
                states.join(sudare_roles::server::checkpoint::StateFile::State(1).name()),
                b"state",
            )
            .unwrap();
            app.store.share_states(id).unwrap();
        }
        app.change("a1", None, &Change::Cancelled).unwrap();
        app.tidy_folder().unwrap();
        assert_eq!(app.store.jobs_shared().unwrap(), ["a2", "a3"]);
    }

    /// Starts the next job, and returns its name.
    fn begin(app: &Server) -> Option<String> {
        let job = app.next_local(&app.waiting().unwrap())?;
        let running =
            Running { signal: watch::Sender::new(Signal::Go), memory: job.memory, fence: None };
        app.running().insert(job.id.clone(), running);
        Some(job.id)
    }

    /// Tenants with many jobs wait for tenants with few, and each tenant's jobs run in order.
    #[test]
    fn tenants_take_turns() {
        let folder = tempfile::tempdir().unwrap();
        let app = server(folder.path(), 10);
        ["a1", "a2", "a3", "b1", "c1", "b2"].iter().for_each(|id| add(&app, id, 10));
        let order: Vec<_> = std::iter::from_fn(|| begin(&app)).collect();
        assert_eq!(order, ["a1", "b1", "c1", "a2", "b2", "a3"]);
    }

    /// Limits the number and the memory of running jobs. Small jobs do not overtake a large one forever.
    #[test]
    fn jobs_wait_for_room() {
        let folder = tempfile::tempdir().unwrap();
        let app = server(folder.path(), 2);
        for (id, memory) in [("a1", 60), ("b1", 80), ("c1", 10), ("d1", 10)] {
            add(&app, id, memory);
        }
        assert_eq!(begin(&app).as_deref(), Some("a1"));
        assert_eq!(begin(&app), None);
        app.records.change("a1", None, &Change::Cancelled).unwrap();
        app.running().remove("a1");
        assert_eq!(begin(&app).as_deref(), Some("b1"));
        assert_eq!(begin(&app).as_deref(), Some("c1"));
        assert_eq!(begin(&app), None);
    }
}
