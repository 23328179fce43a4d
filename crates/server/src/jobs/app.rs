//! What all requests and jobs of a server share.

#[cfg(feature = "cluster")]
use crate::cluster::addresses::Addresses;
use crate::{
    accounts::{
        origin::Origin,
        rates::{OpenRequests, Rates},
    },
    clock::Seconds,
    jobs::{
        child::{Program, Signal},
        events::Events,
        gate::{Bounds, Gate},
        planning::{Known, Priced},
        turns::Turns,
    },
    problem::{Answer, Problem, internal},
    storage::{
        audit::{Repeated, Repeats},
        disk::Disk,
        records::{Change, Job, Records, TenantLimits},
        store::{Orphans, Store},
        uploads::Uploads,
    },
};
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use sudare_roles::{error::Result, receipt::SigningKey};
use tokio::sync::watch;
use tracing::Span;

/// What a server may take.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of memory that all jobs under way may take together.
    pub memory_bytes: u64,
    /// Jobs that the server itself computes at a time; none if workers do all.
    pub running_jobs: usize,
    /// Bytes of the disk that stay free; by its size if none are named.
    pub disk_reserve: Option<u64>,
    /// Bytes of copies that are kept here of what is in a store that servers share.
    pub copies_bytes: u64,
    /// What a tenant may have.
    pub tenant: TenantLimits,
    /// Requests that a tenant may make a second; for a moment five times as many.
    pub tenant_requests: u32,
    /// Requests that a tenant may have open at a time.
    pub tenant_open: u32,
    /// Uploads, removals, jobs and first downloads of results of a tenant an hour: each is a line of the
    /// audit log, which is kept for ever.
    pub tenant_acts: u32,
    /// How many times the time of processors that a job is predicted to take its process may.
    pub overtime: f64,
    /// How long an upload is kept of which nothing comes.
    pub upload_seconds: Seconds,
    /// Seconds after which the lease of a worker ends that is not renewed.
    pub lease_seconds: u32,
    /// How long a process has to keep what it has done when the server ends.
    pub grace: Duration,
    /// Whether parameters below 128 bits are taken.
    pub insecure_allowed: bool,
    /// Threads of a job.
    pub threads: usize,
    /// Origins of pages that may ask, in browsers.
    pub origins: Vec<Origin>,
}

/// Number of headers and of jobs whose outcome is remembered.
const MAX_KNOWN: usize = 1024;

/// What has been counted since the server began.
#[derive(Default)]
pub struct Counters {
    /// Requests answered.
    pub requests: AtomicU64,
    /// Requests of tenants that made too many.
    pub limited_requests: AtomicU64,
    /// Bytes of uploads.
    pub uploaded_bytes: AtomicU64,
    /// Bytes of results.
    pub downloaded_bytes: AtomicU64,
    /// Jobs that ended, by whatever.
    pub ended_jobs: AtomicU64,
    /// Leases of workers that were not renewed.
    pub expired_leases: AtomicU64,
}

impl Counters {
    /// Counts so many more.
    pub fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

/// A job that a process works on.
pub struct Running {
    /// Tells the process.
    pub signal: watch::Sender<Signal>,
    /// Memory that it was given.
    pub memory: u64,
    /// The number of its claim, once it is claimed.
    pub fence: Option<u64>,
}

/// What somebody is at, each by a tenant and a digest.
#[derive(Default)]
pub struct ObjectLocks(Mutex<HashSet<(String, String)>>);

/// That nobody else is at something, until it is dropped.
pub struct ObjectLock<'a> {
    locks: &'a ObjectLocks,
    named: (String, String),
}

impl ObjectLocks {
    /// Nothing if somebody is at it.
    pub fn try_lock(&self, (tenant, digest): (&str, &str)) -> Option<ObjectLock<'_>> {
        let named = (tenant.to_owned(), digest.to_owned());
        self.lock().insert(named.clone()).then_some(ObjectLock { locks: self, named })
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<(String, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ObjectLock<'_> {
    fn drop(&mut self) {
        self.locks.lock().remove(&self.named);
    }
}

/// A server.
pub struct Server {
    /// What it may take.
    pub limits: Limits,
    /// What does jobs.
    pub program: Program,
    /// What it remembers.
    pub records: Records,
    /// The folder of the server.
    pub store: Store,
    /// What it signs receipts with.
    pub key: SigningKey,
    /// Signs the URLs by which workers download files.
    #[cfg(feature = "cluster")]
    pub addresses: Addresses,
    /// Which tenant may make how many requests.
    pub rates: Rates,
    /// Which tenant may do how much that is audited.
    pub acts: Rates,
    /// Requests that tenants and workers have open.
    pub open: Arc<OpenRequests>,
    /// The disk that has the folder.
    pub disk: Disk,
    /// Objects that no record knew when they were last looked for.
    pub orphans: Mutex<Orphans>,
    /// When the server was last found usable or not.
    pub readiness: tokio::sync::Mutex<Option<(Instant, bool)>>,
    /// Uploads that somebody writes to.
    pub uploads: Uploads,
    /// What is taken down in sums.
    pub repeats: Repeats,
    /// Who waits for jobs.
    pub events: Events,
    /// What was counted.
    pub counters: Counters,
    /// Input when a job may begin.
    pub wake: watch::Sender<()>,
    /// Whether the server ends.
    pub ending: watch::Sender<bool>,
    /// Hands out turns to read files of tenants and to plan jobs.
    pub gate: Gate,
    /// Headers that are known to have a plan.
    pub planned: Known<()>,
    /// Prices of jobs, by the headers of their files.
    pub priced: Known<Priced>,
    running: Mutex<HashMap<String, Running>>,
    /// Tenants and digests of files that somebody here removes.
    pub removing: ObjectLocks,
    turns: Mutex<Turns>,
}

/// A server, as all have it.
pub type App = Arc<Server>;

impl Server {
    /// One with nothing to do.
    pub fn new(
        limits: Limits,
        program: Program,
        records: Records,
        store: Store,
        key: SigningKey,
    ) -> App {
        Arc::new(Self {
            rates: Rates::new(limits.tenant_requests),
            acts: Rates::per_hour(limits.tenant_acts),
            open: OpenRequests::new(limits.tenant_open),
            disk: Disk::of(store.root(), limits.disk_reserve),
            orphans: Mutex::default(),
            readiness: tokio::sync::Mutex::default(),
            limits,
            program,
            records,
            store,
            #[cfg(feature = "cluster")]
            addresses: Addresses::of(&key),
            key,
            uploads: Uploads::default(),
            repeats: Repeats::default(),
            events: Events::default(),
            counters: Counters::default(),
            wake: watch::Sender::new(()),
            ending: watch::Sender::new(false),
            gate: Gate::new(Bounds::default()),
            planned: Known::new(MAX_KNOWN),
            priced: Known::new(MAX_KNOWN),
            running: Mutex::default(),
            removing: ObjectLocks::default(),
            turns: Mutex::default(),
        })
    }

    /// The jobs that processes of this server work on.
    pub fn running(&self) -> MutexGuard<'_, HashMap<String, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose turn it is.
    pub fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an act of a tenant that is audited.
    ///
    /// # Errors
    /// A [`Problem`] of 429 if there were too many.
    pub fn count_act(&self, tenant: &str) -> Answer<()> {
        self.acts.take(tenant, Instant::now()).map_err(|wait| {
            let most = self.limits.tenant_acts;
            let detail = format!(
                "{most} uploads, removals, jobs and downloads an hour are what a tenant may make here"
            );
            // Whole seconds, the last one begun.
            Problem::too_many("TooManyRequests", detail, Some(wait.as_secs().saturating_add(1)))
        })
    }

    /// Takes down what may come often: the first of its kind at once.
    ///
    /// # Errors
    /// Those of [`Records`]; as [`Server::count_act`].
    pub fn note(&self, what: &Repeated) -> Answer<()> {
        if !self.repeats.is_first(what) {
            return Ok(());
        }
        let noted = match what {
            Repeated::Fetched { tenant, .. } => self.count_act(tenant),
            Repeated::Refused => Ok(()),
        };
        let noted = noted.and_then(|()| Ok(self.records.note(&what.event(1))?));
        if noted.is_err() {
            self.repeats.forget(what);
        }
        match (what, noted) {
            // A full disk must not turn a 401 into a 507. The next sweep takes it down.
            (Repeated::Refused, Err(problem)) => {
                tracing::error!(%problem, "a refused request cannot be taken down yet");
                self.repeats.is_first(what);
                self.repeats.is_first(what);
                Ok(())
            }
            (_, noted) => noted,
        }
    }

    /// Has the ballast take its room again, if there is enough.
    pub fn restore_ballast(&self) {
        if let Err(error) = self.disk.restore_ballast() {
            tracing::warn!(%error, "the ballast cannot be written");
        }
    }

    /// Takes down what came often since the last time.
    ///
    /// # Errors
    /// Those of [`Records`].
    pub fn note_repeats(&self) -> Result<()> {
        let repeats = self.repeats.sweep();
        repeats.iter().try_for_each(|(what, times)| self.records.note(&what.event(*times)))
    }

    /// Takes down what happens to a job, as [`Records::change`], and tells those who wait for it.
    ///
    /// # Errors
    /// Those of [`Records`].
    pub fn change(&self, id: &str, fence: Option<u64>, change: &Change) -> Result<Option<Job>> {
        let job = self.records.change(id, fence, change)?;
        if let Some(job) = &job {
            self.publish(job);
        }
        Ok(job)
    }

    /// Tells those who wait for a job what it is now.
    pub fn publish(&self, job: &Job) {
        self.events.publish(job);
        if job.state.is_final() {
            Counters::add(&self.counters.ended_jobs, 1);
        }
    }
}

/// Does what waits for disks or computes for long, where other requests do not wait for it.
///
/// # Errors
/// Those of `work`.
pub async fn blocking<T, E>(
    app: &App,
    work: impl FnOnce(&Server) -> core::result::Result<T, E> + Send + 'static,
) -> core::result::Result<T, E>
where
    T: Send + 'static,
    E: Send + From<sudare_roles::error::Error> + 'static,
{
    let (app, span) = (Arc::clone(app), Span::current());
    let done = tokio::task::spawn_blocking(move || span.in_scope(|| work(&app))).await;
    done.unwrap_or_else(|error| Err(internal(error).into()))
}

/// Servers for tests, which compute nothing.
#[cfg(test)]
pub mod testing {
    use super::*;
    use std::path::Path;

    /// One with its records and its store in a folder.
    pub fn server(folder: &Path, running_jobs: usize) -> App {
        with_store(folder, running_jobs, Store::open(&folder.join("store"), None).unwrap())
    }

    /// One with another store.
    pub fn with_store(folder: &Path, running_jobs: usize, store: Store) -> App {
        let limits = Limits {
            memory_bytes: 100,
            running_jobs,
            disk_reserve: Some(0),
            copies_bytes: 1,
            tenant: TenantLimits::default(),
            tenant_requests: 100,
            tenant_open: 64,
            tenant_acts: 3600,
            overtime: 1.0,
            upload_seconds: 1,
            lease_seconds: 30,
            grace: Duration::from_secs(1),
            insecure_allowed: false,
            threads: 1,
            origins: Vec::new(),
        };
        let program = Program { file: "none".into(), args: Vec::new() };
        let records = Records::open(&folder.join("records")).unwrap();
        Server::new(limits, program, records, store, SigningKey::random().unwrap())
    }
}
