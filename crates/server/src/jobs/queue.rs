//! Which job is next, and what becomes of it.

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
    files,
    receipt::Statement,
};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval, sleep},
};
use tracing::Instrument;

/// Processes that may die on a job without a step forward.
const MAX_DEATHS: u32 = 3;

/// Seconds of processors that a process may take beside those of its job.
const EXTRA_CPU_SECONDS: u64 = 10;

/// After how long the file of an object that was forgotten is removed if who should have done so did not.
const REMOVAL_SECONDS: Seconds = 600;
/// Before it is looked again whether the file of an object is removed: twice as long each time, up to the other.
const MIN_REMOVAL_PAUSE: Duration = Duration::from_millis(100);
const MAX_REMOVAL_PAUSE: Duration = Duration::from_secs(5);
/// How long a result waits for that: longer than until others see to it.
const RESULT_PATIENCE: Duration = Duration::from_secs(900);
/// After a fault of what is not this server's, before it is tried again.
const PAUSE: Duration = Duration::from_secs(5);
/// How old an object that no record knows is before it is removed: one may be about to be known.
const ORPHAN_AGE: Duration = Duration::from_secs(86_400);
/// Between two looks for them; what is removed was found by the one before, too.
const ORPHAN_CHECK_INTERVAL: Duration = Duration::from_secs(3600);
/// Between two looks for leases that were not renewed.
const LEASE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Begins jobs as there is room for them, until the server ends; then tells those under way to keep
/// what they have done, and waits for them.
pub async fn run(app: App) {
    let (mut ending, mut news) = (app.ending.subscribe(), app.wake.subscribe());
    let mut tasks = tokio::task::JoinSet::new();
    while !*ending.borrow_and_update() {
        news.borrow_and_update();
        match blocking(&app, Server::waiting).await {
            Ok(waiting) => {
                while let Some(job) = app.next_local(&waiting) {
                    let (signal, receiver) = watch::channel(Signal::Go);
                    let running = Running { signal, memory: job.memory, fence: None };
                    app.running().insert(job.id.clone(), running);
                    let span = telemetry::job(job.request.kind.name(), &job.id);
                    tasks.spawn(run_job(Arc::clone(&app), job, receiver).instrument(span));
                }
            }
            Err(error) => tracing::error!(%error, "jobs cannot be looked up"),
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

/// Looks after leases, for as long as it is let: jobs are queued again whose leases were not renewed,
/// and where servers share the records, those of this one are renewed, and what others did is minded.
pub async fn watch_leases(app: App) {
    let mut ticks = interval(LEASE_CHECK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Three times while a lease is valid.
    let renewals = u64::from(app.limits.lease_seconds / 3).max(1);
    for count in 0_u64.. {
        ticks.tick().await;
        let renew = count.is_multiple_of(renewals);
        match blocking(&app, move |app| app.check_leases(renew)).await {
            Ok(true) => app.wake.send_replace(()),
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "leases cannot be looked up"),
        }
    }
}

impl Server {
    /// Minds what became of leases; returns whether there may be jobs that wait now.
    fn check_leases(&self, renew: bool) -> Result<bool> {
        // Those that nobody follows any more are forgotten by that, shared or not.
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
        Ok(self.records.are_shared() || !expired.is_empty())
    }

    /// Kills processes whose jobs another server has cancelled or has taken, and renews the leases of the
    /// others. What is this server's by the records alone ends with its lease.
    fn check_own_leases(&self, renew: bool) -> Result<()> {
        let claimed = |(id, running): (&String, &Running)| Some((id.clone(), running.fence?));
        // First, so that what is claimed meanwhile is not missed among what is held.
        let mut own: Vec<(String, u64)> = self.running().iter().filter_map(claimed).collect();
        let held: HashSet<(String, u64)> =
            self.records.held_by(self.store.name())?.into_iter().collect();
        own.retain(|named| {
            let is_held = held.contains(named);
            if !is_held && let Some(running) = self.running().get(&named.0) {
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

    /// The next job for a process of this server.
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
    /// Gives the next job to a worker that has so much memory for it.
    ///
    /// # Errors
    /// Those of [`Records`](crate::storage::records::Records).
    pub fn claim_for(&self, worker: &str, memory_bytes: u64) -> Result<Option<Job>> {
        let waiting = self.waiting()?;
        let room = Room { all: memory_bytes, free: memory_bytes };
        let job = {
            let running = self.running();
            let new = waiting.iter().filter(|job| !running.contains_key(&job.id));
            self.turns().next(new, room).cloned()
        };
        let Some(job) = job else { return Ok(None) };
        let by = Claimant::Worker { name: worker, until: self.lease_end() };
        let claimed = self.records.claim(&job.id, by, now())?;
        if let Some(job) = &claimed {
            tracing::info!(job = job.id, worker, fence = job.fence, "is claimed");
            self.events.publish(job);
        }
        Ok(claimed)
    }

    /// When a lease ends that is begun or renewed now, or a second later: the clock of the records has
    /// whole ones.
    pub fn lease_end(&self) -> Seconds {
        now().saturating_add(self.limits.lease_seconds.into()).saturating_add(1)
    }

    /// Queues jobs again that processes of the server before worked on when it ended, however it did.
    ///
    /// # Errors
    /// Those of [`Records`](crate::storage::records::Records).
    pub fn recover(&self) -> Result<()> {
        let name = self.store.name();
        self.records.take_over(name, !self.records.are_shared())?;
        let running = self.records.jobs_in(State::Running)?;
        for job in running.iter().filter(|job| job.server.as_deref() == Some(name)) {
            tracing::info!(job = job.id, "goes on");
            self.records.change(&job.id, Some(job.fence), &Change::Requeued)?;
        }
        Ok(())
    }

    /// What the death of its process means for a job; `how` is for the log.
    ///
    /// # Errors
    /// Those of [`Records`](crate::storage::records::Records).
    pub fn change_after_death(&self, job: &Job, how: &str) -> Result<Change> {
        tracing::warn!(job = job.id, how, "a process died");
        let found = self.records.job(&job.tenant, &job.id)?;
        let before = found.map_or(0, |job| job.deaths);
        if before.saturating_add(1) < MAX_DEATHS {
            return Ok(Change::Died);
        }
        let detail = "its process died again and again, without a step forward, or what it takes could \
                      not be read: the server may have too little memory for it";
        Ok(Change::Failed("Died".into(), detail.into()))
    }

    /// Takes down what became of a job under the number of its claim, unless it was somebody else's by
    /// then; of a job that has ended the folder goes. Returns the job.
    ///
    /// # Errors
    /// Those of [`Records`](crate::storage::records::Records); [`Error::Io`].
    pub fn leave(&self, job: &Job, change: &Change) -> Result<Option<Job>> {
        let left = self.change(&job.id, Some(job.fence), change)?;
        if let Some(left) = &left {
            self.tidy(left)?;
        }
        Ok(left)
    }

    /// Makes an object of a file, which is on the disk: has it where other servers find it, and `keep` take it
    /// down, which is told how many removals of the tenant's had been done before, and puts the file among
    /// the objects here by what it is given. While one of its digest is removed it is tried again, for so
    /// long and as long as the server does not end.
    ///
    /// # Errors
    /// Those of [`Records`](crate::storage::records::Records); [`Error::Io`]; those of `keep`.
    pub fn keep_object<T>(
        &self,
        file: &Path,
        (tenant, digest): (&str, &str),
        patience: Duration,
        keep: impl Fn(u64, &dyn Fn() -> Result<()>) -> Result<core::result::Result<T, Removing>>,
    ) -> Result<core::result::Result<T, Removing>> {
        let adopt = || self.store.adopt(file, tenant, digest);
        let (mut until, mut pause) = (None, MIN_REMOVAL_PAUSE);
        loop {
            let done = self.records.removals_done(tenant)?;
            self.store.share_object(file, tenant, digest, until.is_none())?;
            let kept = keep(done, &adopt)?;
            let until = *until.get_or_insert_with(|| Instant::now() + patience);
            if kept.is_ok() || Instant::now() >= until || *self.ending.borrow() {
                return Ok(kept);
            }
            std::thread::sleep(pause);
            pause = MAX_REMOVAL_PAUSE.min(2 * pause);
            self.finish_removals()?;
        }
    }

    /// Removes the file of an object that was forgotten, unless it is gone or somebody else removes it.
    ///
    /// # Errors
    /// Those of [`Records`](crate::storage::records::Records); [`Error::Io`].
    pub fn finish_removal(&self, tenant: &str, digest: &str) -> Result<()> {
        let (named, server) = ((tenant, digest), self.store.name());
        let Some(_place) = self.removing.try_lock(named) else { return Ok(()) };
        let claimed = self.records.claim_removal(named, server, self.long_ago())?;
        let Some(since) = claimed else { return Ok(()) };
        self.store.remove_object(tenant, digest)?;
        self.records.removal_done(named, server, since)
    }

    /// Removes the files of objects that are not gone though this server was to remove them, or another one
    /// long ago.
    fn finish_removals(&self) -> Result<()> {
        for (tenant, digest) in self.records.removals(self.store.name(), self.long_ago())? {
            if let Err(error) = self.finish_removal(&tenant, &digest) {
                tracing::error!(%error, tenant, digest, "what is being removed cannot be, yet");
            }
        }
        Ok(())
    }

    /// What was begun before by another server is this one's to end: at any time, if there is no other.
    fn long_ago(&self) -> Seconds {
        match self.records.are_shared() {
            true => now().saturating_sub(REMOVAL_SECONDS),
            false => Seconds::MAX,
        }
    }

    /// Removes what is not needed any more: folders of jobs that have ended, wherever that was, states of such
    /// jobs that a server or worker has left where others find them, what was not sent there whole, and copies
    /// of objects that others have, too.
    ///
    /// # Errors
    /// Those of [`Records`](crate::storage::records::Records); [`Error::Io`].
    pub fn tidy_folder(&self) -> Result<()> {
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

    /// Removes objects that no record knows, as a server leaves them that is killed after it put them there and
    /// before it took that down: those that are a day old, belong to a tenant that is known, and were found
    /// an hour ago, too. Each is named in the log when it is found.
    ///
    /// # Errors
    /// Those of [`Records`](crate::storage::records::Records); [`Error::Io`].
    fn tidy_orphans(&self, now: SystemTime) -> Result<()> {
        let since = |then: SystemTime| now.duration_since(then).unwrap_or_default();
        let mut orphans = self.orphans.lock().unwrap_or_else(PoisonError::into_inner);
        if orphans.looked.is_some_and(|looked| since(looked) < ORPHAN_CHECK_INTERVAL) {
            return Ok(());
        }
        // First, so that what becomes known meanwhile is.
        let stored = self.store.objects_stored()?;
        let (known, tenants) = (self.records.all_objects()?, self.records.tenants()?);
        let is_orphan = |named: &(String, String), written: SystemTime| {
            !known.contains(named) && tenants.contains(&named.0) && since(written) >= ORPHAN_AGE
        };
        let found = stored.into_iter().filter(|(named, written)| is_orphan(named, *written));
        let found: HashSet<(String, String)> = found.map(|(named, _)| named).collect();
        for (tenant, digest) in &found {
            if !orphans.found.contains(&(tenant.clone(), digest.clone())) {
                tracing::warn!(tenant, digest, "no record knows this object: it will be removed");
            } else if self.records.remove_orphan((tenant, digest), self.store.name())? {
                tracing::warn!(tenant, digest, "an object that no record knows is removed");
                self.finish_removal(tenant, digest)?;
            }
        }
        *orphans = Orphans { looked: Some(now), found };
        Ok(())
    }

    /// Removes the folder of a job that has ended.
    fn tidy(&self, job: &Job) -> Result<()> {
        if job.state.is_final() {
            tracing::info!(job = job.id, state = ?job.state, "ended");
            self.store.remove_job(&job.id)?;
        }
        Ok(())
    }

    /// Seconds of processors after which a process of a job is ended.
    pub fn most_cpu_seconds(&self, job: &Job) -> u64 {
        let most = (self.limits.overtime * job.cpu_seconds).ceil() as u64;
        most.saturating_add(EXTRA_CPU_SECONDS)
    }

    /// What a process is told of a job.
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
            // Servers that share may have predicted it for other numbers of threads.
            memory: (!self.records.are_shared()).then_some(job.memory),
            most_cpu_seconds: self.most_cpu_seconds(job),
            states: Store::states_in(&folder),
            output: Store::result_in(&folder),
        })
    }

    /// Ends a job with a result, of which it makes an object as [`Server::keep_object`] does, and signs that it
    /// did; unless the job was somebody else's by then. Returns the job.
    ///
    /// # Errors
    /// Those of [`Records`](crate::storage::records::Records); [`Error::Io`].
    pub fn keep_result(
        &self,
        job: &Job,
        output: &Path,
        patience: Duration,
    ) -> Result<core::result::Result<Option<Job>, Removing>> {
        let io = |error| Error::io("read", output, error);
        let mut file = fs::File::open(output).map_err(io)?;
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
            ..Statement::default()
        })?;
        let receipt = receipt.text()?;
        let keep = |done, adopt: &dyn Fn() -> _| {
            self.records.finish((&job.id, job.fence), (&object, &receipt), done, adopt)
        };
        let named = (&job.tenant[..], &object.digest[..]);
        let done = self.keep_object(output, named, patience, keep)?;
        if let Ok(Some(done)) = &done {
            self.publish(done);
            self.tidy(done)?;
        }
        Ok(done)
    }

    /// Takes down what the end of its process means for a job, which may go on later; returns the job,
    /// unless it was somebody else's by then.
    fn after(&self, job: &Job, task: &Task, ended: Ended) -> Result<Option<Job>> {
        let change = match ended {
            Ended::Done => match self.keep_result(job, &task.output, RESULT_PATIENCE)? {
                Ok(done) => return Ok(done),
                Err(Removing) => Change::Requeued,
            },
            Ended::Failed { kind, detail } => {
                Change::Failed(kind, self.store.without_paths(&detail))
            }
            Ended::AsTold => Change::Requeued,
            Ended::Died(how) => self.change_after_death(job, &how)?,
        };
        self.leave(job, &change)
    }
}

async fn run_job(app: App, job: Job, signal: watch::Receiver<Signal>) {
    let id = job.id.clone();
    // Who cancels waits for as long as somebody has it.
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
                tracing::error!(job = id, %error, "a job failed for a fault of the server");
                // What is elsewhere may be out of reach for a while; a database goes with a store. What is
                // not there, or was altered, stays so.
                let stays = [io::ErrorKind::NotFound, io::ErrorKind::InvalidData];
                let may_pass = app.store.is_shared()
                    && matches!(&error, Error::Io { source, .. } if !stays.contains(&source.kind()));
                let change = if may_pass {
                    sleep(PAUSE).await;
                    Change::Requeued
                } else {
                    Change::Failed(error.kind(), "the server failed".into())
                };
                let name = id.clone();
                let told = blocking(&app, move |app| app.change(&name, Some(fence), &change)).await;
                if let Err(error) = told {
                    tracing::error!(job = id, %error, "it cannot be taken down");
                }
            }
        }
        // It was cancelled, or a worker has it.
        Ok(None) => {}
        Err(error) => {
            tracing::error!(job = id, %error, "it cannot be claimed");
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
    tracing::info!(job = job.id, tenant = job.tenant, kind = job.request.kind.name(), "begins");
    let counted = AtomicU64::new(0);
    let is_training = job.request.kind == Kind::Train;
    let told = |said| {
        let (app, id, tenant) = (Arc::clone(app), job.id.clone(), job.tenant.clone());
        let fence = Some(job.fence);
        let before = &counted;
        async move {
            let told = match said {
                Message::Progress(done, total) => {
                    let change = Change::Progress(done, total);
                    blocking(&app, move |app| {
                        // Who goes on after a kill begins no earlier than was told.
                        if is_training {
                            app.store.share_states(&id)?;
                        }
                        app.change(&id, fence, &change).map(|_| ())
                    })
                    .await
                }
                Message::Cpu(all) => {
                    let new = all.saturating_sub(before.swap(all, Ordering::Relaxed));
                    blocking(&app, move |app| app.records.use_cpu(&tenant, now(), new)).await
                }
                _ => Ok(()),
            };
            if let Err(error) = told {
                tracing::warn!(%error, "what a process says cannot be taken down");
            }
        }
    };
    let ended = child::run(&app.program, &task, signal, told).await.map_err(internal)?;
    blocking(app, move |app| {
        if app.after(&job, &task, ended)?.is_none()
            && let Some(now) = app.records.job(&job.tenant, &job.id)?
        {
            // It was cancelled meanwhile.
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

    /// A server that shares its objects and states with others.
    fn sharing(folder: &Path) -> App {
        let [store, _] = store::testing::sharing(folder);
        with_store(folder, 1, store)
    }

    fn add(app: &Server, id: &str, memory: u64) {
        queue(&app.records, &NewJob { memory, ..new_job(id, &id[..1]) });
    }

    /// Copies of what a store has are within their limit also where one server has it alone.
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
        // It was sent first, for it was not there.
        assert_eq!(fs::read(app.store.fetch_object("a", &object.digest).unwrap()).unwrap(), text);
    }

    /// Removes an object that no record knows after a day, if it was seen twice and its tenant is known; one that
    /// is being sent again stays.
    #[test]
    fn what_no_record_knows_is_removed_after_a_day() {
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
            // Nothing is old; then it is found; then it is not looked for yet.
            for time in [0, 23, 24, 24] {
                app.tidy_orphans(hours(time)).unwrap();
                assert_eq!(here("a"), [true; 3], "{time}");
            }
            app.tidy_orphans(hours(25)).unwrap();
            assert_eq!((here("a"), here("stranger")), ([true, false, true], [true; 3]));
            assert!(app.records.removals(app.store.name(), 0).unwrap().is_empty());
        }
    }

    /// What one has left for others of a job that had ended by then goes; that of a job that goes on stays, and
    /// so does what nobody knows.
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
            fs::write(states.join(sudare_roles::checkpoint::StateFile::State(1).name()), b"state")
                .unwrap();
            app.store.share_states(id).unwrap();
        }
        app.change("a1", None, &Change::Cancelled).unwrap();
        app.tidy_folder().unwrap();
        assert_eq!(app.store.jobs_shared().unwrap(), ["a2", "a3"]);
    }

    /// Begins a job, and says which.
    fn begin(app: &Server) -> Option<String> {
        let job = app.next_local(&app.waiting().unwrap())?;
        let running =
            Running { signal: watch::Sender::new(Signal::Go), memory: job.memory, fence: None };
        app.running().insert(job.id.clone(), running);
        Some(job.id)
    }

    /// Who asks for much waits for those who ask for little, and each tenant's jobs are in order.
    #[test]
    fn tenants_take_turns() {
        let folder = tempfile::tempdir().unwrap();
        let app = server(folder.path(), 10);
        ["a1", "a2", "a3", "b1", "c1", "b2"].iter().for_each(|id| add(&app, id, 10));
        let order: Vec<_> = std::iter::from_fn(|| begin(&app)).collect();
        assert_eq!(order, ["a1", "b1", "c1", "a2", "b2", "a3"]);
    }

    /// There is room for so many jobs, and for so much memory; a large job is not overtaken for ever.
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
