//! The service: keys and tables are uploaded, jobs computed and results downloaded over HTTP.
//!
//! | module | what it is for |
//! |---|---|
//! | `net`, `tls`, `api` | connections, also by TLS; what may be asked for, in one table |
//! | `page` | apart from all that, the files of a page for the owner's own browser |
//! | `token`, `origin`, `rates` | who may ask, from which pages, and how often |
//! | `gate`, `look` | how many files of tenants are looked at at a time and in how much memory, and the process that plans |
//! | `uploads`, `receive`, `inspect` | bytes that come: who sends them, on their way to the disk, and what they are by their header |
//! | `audit` | what happened that matters for security, chained by digests |
//! | `store`, `bucket`, `records`, `disk` | files, here and where other servers find them, all else that outlives the process, and room for it |
//! | `queue`, `turns`, `child`, `events` | which job is next, its process, and who waits for it |
//! | `lease`, `addresses`, `worker`, `cache` | jobs on other machines: what is said, which files are read, who works there, and what it keeps |
//! | `work` | what that process does: the same as the command of its name |
//! | `job`, `clock`, `problem` | a job in words; the time; why something is refused |
//! | `telemetry` | log lines, and spans of requests and jobs |
//!
//! A server holds no secret key, and refuses those that are sent to it. What is remembered is on
//! the disk before it is answered, so that a server may be killed at any time; trainings go on from
//! their last iteration when it comes back.
#![forbid(unsafe_code)]

mod accounts;
mod clock;
mod cluster;
mod http;
mod job;
mod jobs;
mod problem;
mod storage;
mod telemetry;
mod tls;

pub use accounts::{
    origin::Origin,
    token::{Owner, Token, TokenRecord},
};
pub use clock::{SECONDS_A_DAY, Seconds, now};
pub use cluster::Collector;
#[cfg(feature = "cluster")]
pub use cluster::lease::{Assignment, Blob, Desk, Hold, Leaving, Offer, Report};
pub use http::{
    api::description,
    net::Endpoint,
    page::{PageFile, serve_page},
};
pub use job::Kind;
#[cfg(feature = "cluster")]
pub use jobs::worker::WorkerConfig;
pub use jobs::{app::Limits, child::Program, work::work};
pub use storage::{
    audit::Checked,
    records::{CpuLimits, DatabaseAddress, Records, TenantLimits},
    store::key_path,
};
pub use tls::TlsFiles;

use cluster::Bucket;
use http::{
    api,
    net::{self, Listener},
};
#[cfg(feature = "cluster")]
use jobs::worker;
use jobs::{
    app::{App, Server},
    queue,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use storage::{
    audit::{Event, Log},
    records,
    store::{self, Store},
};
use sudare_roles::{
    error::{Error, Result},
    receipt::SigningKey,
};
use telemetry::Telemetry;
use tls::Tls;
use tokio::{
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};

/// Between two looks for uploads of which nothing comes any more.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Threads that wait for disks, records and turns: each has a stack of two mebibytes, and what comes beyond
/// waits for one of them.
const MAX_WAITING_THREADS: usize = 128;

/// What a server is to be.
#[derive(Debug, Clone)]
pub struct Config {
    /// The folder of the server, made if it does not exist.
    pub folder: PathBuf,
    /// The database that has its records, which other servers may share; if there is none, a file of the
    /// folder has them.
    pub database: Option<DatabaseAddress>,
    /// The address of a store that has its objects and states of its trainings, which other servers may
    /// share; if there is none, its folder has them.
    pub objects: Option<String>,
    /// File of the key that it signs with, made if it does not exist.
    pub key: PathBuf,
    /// Whether it is to be the key of all servers that share the records, in the place of another.
    pub replace_key: bool,
    /// Where it is reached.
    pub place: Endpoint,
    /// Certificates, if it speaks TLS by itself.
    pub tls: Option<TlsFiles>,
    /// Where its figures are read, if anywhere: nobody needs a token there.
    pub metrics: Option<Endpoint>,
    /// Who gets spans of its requests and jobs, if anybody.
    pub collector: Option<Collector>,
    /// What it may take.
    pub limits: Limits,
    /// The program that does jobs.
    pub program: Program,
}

impl Config {
    /// Refuses what is shared in part: what one server knows of, another could not find.
    fn check(&self) -> Result<()> {
        if self.database.is_some() && self.objects.is_none() {
            return Err(Error::Usage(
                "servers that share a database share a store of objects, too: name one with --objects"
                    .into(),
            ));
        }
        #[cfg(not(feature = "cluster"))]
        if self.limits.running_jobs == 0 {
            let what = "workers, which `--jobs 0` leaves all jobs to";
            return Err(Error::Usage(cluster::absent::lacks(what)));
        }
        Ok(())
    }
}

/// Serves until the process is told to end (SIGTERM, Ctrl-C). `listening` is told where, once
/// requests are answered. Log lines go to standard error, in JSON.
///
/// # Errors
/// [`Error::InUse`] if another server has the folder; [`Error::Io`]; [`Error::Usage`].
pub fn serve(config: Config, listening: impl FnOnce(&str)) -> Result<()> {
    config.check()?;
    protect_memory();
    let _telemetry = Telemetry::start("sudare-server", config.collector.as_ref())?;
    let runtime = runtime(&config.folder)?;
    let records = Records::of(&config.folder, config.database.as_ref())?;
    let bucket = config.objects.as_deref().map(Bucket::open).transpose()?;
    let store = Store::open(&config.folder, bucket)?;
    let key = SigningKey::open(&config.key)?;
    tracing::info!(server_key = %key.public(), name = store.name(), "signs receipts");
    let app = Server::new(config.limits.clone(), config.program.clone(), records, store, key);
    let (program, server_key) = (env!("CARGO_PKG_VERSION"), app.key.public().to_string());
    if app.records.are_shared() {
        app.records.agree_on_key(&server_key, config.replace_key)?;
    }
    app.records.note(&Event::ServerStarted { program, server_key: &server_key })?;
    app.records.sync_log()?;
    app.recover()?;
    app.restore_ballast();
    runtime.block_on(run(&app, &config, listening))?;
    app.note_repeats()
}

/// Does jobs of the server that `desk` reaches, one at a time, until the process is told to end
/// (SIGTERM, Ctrl-C); that under way is left where others go on. Log lines go to standard error, in
/// JSON.
///
/// # Errors
/// [`Error::InUse`] if another worker has the folder; [`Error::Refused`] by the server, as for a token
/// that is none of a worker; [`Error::Io`].
#[cfg(feature = "cluster")]
pub fn work_for(desk: impl Desk, config: WorkerConfig) -> Result<()> {
    protect_memory();
    let _telemetry = Telemetry::start("sudare-worker", config.collector.as_ref())?;
    let runtime = runtime(&config.folder)?;
    let ended = runtime.block_on(worker::run(config, desk));
    // Requests that nobody waits for any more may take their time.
    runtime.shutdown_background();
    ended
}

/// Has the system keep memory and environment of this process from others of the same user: processes of jobs
/// read files of tenants, and must not find secrets there if one of these takes hold of them.
fn protect_memory() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

/// What a server or a worker with this folder runs on.
fn runtime(folder: &Path) -> Result<tokio::runtime::Runtime> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.max_blocking_threads(MAX_WAITING_THREADS).enable_all().build();
    runtime.map_err(|error| Error::io("start", folder, error))
}

async fn run(app: &App, config: &Config, listening: impl FnOnce(&str)) -> Result<()> {
    net::raise_file_limit();
    let listener = Listener::bind(&config.place).await?;
    let tls = config.tls.as_ref().map(Tls::open).transpose()?.map(Arc::new);
    let place = listener.url(if tls.is_some() { "https" } else { "http" });
    let mut tasks = tokio::task::JoinSet::new();
    let [all, health] = [api::router, api::health_router].map(|router| router(Arc::clone(app)));
    let routers = net::Routers { all, health };
    tasks.spawn(net::serve(listener, routers, tls.clone(), app.ending.subscribe()));
    let reloading = tls.and_then(reload_on_hangup);
    if let Some(place) = &config.metrics {
        let listener = Listener::bind(place).await?;
        tracing::info!(place = listener.url("http"), "shows figures");
        let all = api::metrics_router(Arc::clone(app));
        let routers = net::Routers { health: all.clone(), all };
        tasks.spawn(net::serve(listener, routers, None, app.ending.subscribe()));
    }
    tasks.spawn(queue::run(Arc::clone(app)));
    // For as long as others wait for jobs that end.
    let leases = tokio::spawn(queue::watch_leases(Arc::clone(app)));
    let sweeping = tokio::spawn(sweep(Arc::clone(app)));
    tracing::info!(place, "serves");
    listening(&place);
    wait_for_shutdown().await;
    tracing::info!("ends");
    app.ending.send_replace(true);
    while tasks.join_next().await.is_some() {}
    sweeping.abort();
    leases.abort();
    if let Some(reloading) = reloading {
        reloading.abort();
    }
    Ok(())
}

/// Has certificates read again whenever the process is told to, by SIGHUP; from now on that does not
/// end it.
fn reload_on_hangup(tls: Arc<Tls>) -> Option<JoinHandle<()>> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut told = signal(SignalKind::hangup()).ok()?;
        Some(tokio::spawn(async move {
            while told.recv().await.is_some() {
                match tls.reload() {
                    Ok(()) => tracing::info!("certificates are read again"),
                    Err(error) => tracing::error!(%error, "the certificates stay those of before"),
                }
            }
        }))
    }
    #[cfg(not(unix))]
    {
        drop(tls);
        None
    }
}

async fn sweep(app: App) {
    let mut ticks = interval(SWEEP_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        api::sweep(&app).await;
    }
}

/// Checks the audit log of the server in a folder, also while it runs. `noted` are numbers and digests of
/// lines that were noted elsewhere.
///
/// # Errors
/// [`Error::Parse`], which names the first line that is broken; [`Error::Io`].
pub fn check_audit(
    folder: &Path,
    database: Option<&DatabaseAddress>,
    noted: &[(u64, String)],
) -> Result<Checked> {
    let lines = records::last_lines(&folder.join(store::RECORDS), database)?;
    Log::of(folder).check(&lines, noted)
}

/// Checks an audit log by its files alone, as of a copy.
///
/// # Errors
/// As [`check_audit`].
pub fn check_audit_files(folder: &Path, noted: &[(u64, String)]) -> Result<Checked> {
    Log::at(folder.into()).check(&[], noted)
}

/// Waits until the process is told to end.
async fn wait_for_shutdown() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let (Ok(mut terminate), Ok(mut interrupt)) =
            (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
