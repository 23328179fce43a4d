//! The state that all requests and jobs of a server share.

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
    metrics::Times,
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
use sudare_roles::{error::Result, server::receipt::SigningKey};
use tokio::sync::watch;
use tracing::Span;

/// Limits of a server.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Memory for all running jobs together, in bytes.
    pub memory_bytes: u64,
    /// Maximum jobs that the server computes at a time. 0 leaves all jobs to workers.
    pub running_jobs: usize,
    /// Disk space that stays free, in bytes. Default: by the size of the disk.
    pub disk_reserve: Option<u64>,
    /// Maximum size of local copies of objects in a shared store, in bytes.
    pub copies_bytes: u64,
    /// Limits of each tenant.
    pub tenant: TenantLimits,
    /// Maximum requests of a tenant per second. A short burst may be five times as large.
    pub tenant_requests: u32,
    /// Maximum open requests of a tenant.
    pub tenant_open: u32,
    /// Maximum uploads, removals, jobs and first downloads of results of a tenant per hour. Each is a line
    /// of the audit log, which is never shortened.
    pub tenant_acts: u32,
    /// Maximum CPU time of a job, as a multiple of its prediction.
    pub overtime: f64,
    /// Seconds without data after which an upload is deleted.
    pub upload_seconds: Seconds,
    /// Seconds after which a worker's lease ends, unless it is renewed.
    pub lease_seconds: u32,
    /// Time for a process to store its progress when the server shuts down.
    pub grace: Duration,
    /// Accept parameters below 128 bits of security.
    pub insecure_allowed: bool,
    /// Threads of a job.
    pub threads: usize,
    /// Origins of pages that may call the API.
    pub origins: Vec<Origin>,
}

/// Maximum headers and jobs whose outcome is cached.
const MAX_KNOWN: usize = 1024;

/// Counters since the start of the server.
#[derive(Default)]
pub struct Counters {
    /// Requests that got a response.
    pub requests: AtomicU64,
    /// Requests of tenants that made too many.
    pub limited_requests: AtomicU64,
    /// Bytes of uploads.
    pub uploaded_bytes: AtomicU64,
    /// Bytes of downloaded results.
    pub downloaded_bytes: AtomicU64,
    /// Jobs that ended, for any reason.
    pub ended_jobs: AtomicU64,
    /// Leases of workers that were not renewed.
    pub expired_leases: AtomicU64,
}

impl Counters {
    /// Adds `count` to a counter.
    pub fn add(counter: &AtomicU64, count: u64) {
        // Nothing else depends on the order of counts.
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

/// A job in a local process.
pub struct Running {
    /// Signals the process.
    pub signal: watch::Sender<Signal>,
    /// Memory reserved for the job, in bytes.
    pub memory: u64,
    /// Fence of the claim, once the job is claimed.
    pub fence: Option<u64>,
}

/// Locks on objects, by tenant and digest.
#[derive(Default)]
pub struct ObjectLocks(Mutex<HashSet<(String, String)>>);

/// Guard for exclusive access to one object.
pub struct ObjectLock<'a> {
    locks: &'a ObjectLocks,
    named: (String, String),
}

impl ObjectLocks {
    /// Locks an object. Returns `None` if the object is locked.
    pub fn try_lock(&self, tenant: &str, digest: &str) -> Option<ObjectLock<'_>> {
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
    /// Limits of the server.
    pub limits: Limits,
    /// The program that computes jobs.
    pub program: Program,
    /// The records of the server.
    pub records: Records,
    /// The directory of the server.
    pub store: Store,
    /// The key that signs receipts.
    pub key: SigningKey,
    /// Signs the URLs by which workers download files.
    #[cfg(feature = "cluster")]
    pub addresses: Addresses,
    /// Requests per second of each tenant.
    pub rates: Rates,
    /// Audited acts per hour of each tenant.
    pub acts: Rates,
    /// Open requests of tenants and workers.
    pub open: Arc<OpenRequests>,
    /// The disk with the directory.
    pub disk: Disk,
    /// Objects without a record, as of the last check.
    pub orphans: Mutex<Orphans>,
    /// Time and result of the last readiness check.
    pub readiness: tokio::sync::Mutex<Option<(Instant, bool)>>,
    /// Locks of uploads.
    pub uploads: Uploads,
    /// Repeated events that are recorded as sums.
    pub repeats: Repeats,
    /// Followers of jobs.
    pub events: Events,
    /// Counters for metrics.
    pub counters: Counters,
    /// Times of requests and jobs since the start.
    pub times: Times,
    /// Wakes the queue when a job may start.
    pub wake: watch::Sender<()>,
    /// True once the server is shutting down.
    pub ending: watch::Sender<bool>,
    /// Limits the reading of tenants' files and the planning of jobs.
    pub gate: Gate,
    /// Headers that have a plan.
    pub planned: Known<()>,
    /// Prices of jobs, by the headers of their files.
    pub priced: Known<Priced>,
    running: Mutex<HashMap<String, Running>>,
    /// Locks of objects that this server is removing.
    pub removing: ObjectLocks,
    turns: Mutex<Turns>,
}

/// A shared reference to the server.
pub type App = Arc<Server>;

impl Server {
    /// Makes an idle server.
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
            times: Times::default(),
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

    /// Returns the jobs in local processes.
    pub fn running(&self) -> MutexGuard<'_, HashMap<String, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the turns of tenants.
    pub fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an audited act of a tenant.
    ///
    /// # Errors
    /// A [`Problem`] of 429 if there were too many.
    pub fn count_act(&self, tenant: &str) -> Answer<()> {
        self.acts.take(tenant, Instant::now()).map_err(|wait| {
            let most = self.limits.tenant_acts;
            let detail = format!(
                "a tenant may make {most} uploads, removals, jobs and downloads per hour: try again later"
            );
            // Round up to whole seconds.
            Problem::too_many("TooManyRequests", detail, Some(wait.as_secs().saturating_add(1)))
        })
    }

    /// Records an event that may repeat: the first one at once, later ones in a sum.
    ///
    /// # Errors
    /// Errors of [`Records`] and of [`Server::count_act`].
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
            // A full disk must not turn a 401 into a 507. The next sweep records it.
            (Repeated::Refused, Err(problem)) => {
                tracing::error!(%problem, "a rejected request cannot be recorded yet");
                // The first call makes the entry anew, and the second one counts this request.
                self.repeats.is_first(what);
                self.repeats.is_first(what);
                Ok(())
            }
            (_, noted) => noted,
        }
    }

    /// Restores the ballast, if there is room.
    pub fn restore_ballast(&self) {
        if let Err(error) = self.disk.restore_ballast() {
            tracing::warn!(%error, "cannot write the ballast");
        }
    }

    /// Records the repeated events since the last call.
    ///
    /// # Errors
    /// Errors of [`Records`].
    pub fn note_repeats(&self) -> Result<()> {
        let repeats = self.repeats.sweep();
        repeats.iter().try_for_each(|(what, times)| self.records.note(&what.event(*times)))
    }

    /// Records a change of a job, as [`Records::change`], and notifies its followers.
    ///
    /// # Errors
    /// Errors of [`Records`].
    pub fn change(&self, id: &str, fence: Option<u64>, change: &Change) -> Result<Option<Job>> {
        let job = self.records.change(id, fence, change)?;
        if let Some(job) = &job {
            self.publish(job);
        }
        Ok(job)
    }

    fn count_ended(&self, job: &Job) {
        Counters::add(&self.counters.ended_jobs, 1);
        // A cancelled job may never have started.
        let (Some(started), Some(finished)) = (job.started, job.finished) else { return };
        let kind = job.request.kind.name();
        // Zero if the clock was set back.
        let between = |from: Seconds, to: Seconds| {
            Duration::from_secs(to.saturating_sub(from).try_into().unwrap_or(0))
        };
        self.times.waits.observe([kind], between(job.created, started));
        self.times.jobs.observe([kind, job.state.name()], between(started, finished));
    }

    /// Notifies the followers of a job.
    pub fn publish(&self, job: &Job) {
        self.events.publish(job);
        if job.state.is_final() {
            self.count_ended(job);
        }
    }
}

/// Runs `work` on a thread that may block, so that other requests do not wait for disks or computations.
///
/// # Errors
/// Errors of `work`.
pub async fn blocking<T, E>(
    app: &App,
    work: impl FnOnce(&Server) -> core::result::Result<T, E> + Send + 'static,
) -> core::result::Result<T, E>
where
    T: Send + 'static,
    E: Send + From<sudare_roles::error::Error> + 'static,
{
    let app = Arc::clone(app);
    let span = Span::current();
    let done = tokio::task::spawn_blocking(move || span.in_scope(|| work(&app))).await;
    // A panic of one request is an error of that request alone.
    done.unwrap_or_else(|error| Err(internal(error).into()))
}

/// Servers for tests, which compute nothing.
#[cfg(test)]
pub mod testing {
    use super::*;
    use std::path::Path;

    /// Makes a server with its records and its store in a directory.
    pub fn server(folder: &Path, running_jobs: usize) -> App {
        with_store(folder, running_jobs, Store::open(&folder.join("store"), None).unwrap())
    }

    /// Makes a server with the given store.
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
