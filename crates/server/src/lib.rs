//! The server: tenants upload keys and tables, run jobs, and download results over HTTP.
//!
//! | module | purpose |
//! |---|---|
//! | `http` | connections, the routes of the API, uploads, and the page for the owner's browser |
//! | `jobs` | the shared state, the queue, planning, and the processes that compute |
//! | `storage` | files, records, disk space, the audit log, and inspection of uploads |
//! | `accounts` | tokens, request rates, and allowed origins |
//! | `cluster` | with the feature of that name: shared stores and databases, leases for workers, OpenTelemetry |
//! | `job`, `clock`, `private`, `problem`, `tls`, `telemetry`, `metrics` | requests for jobs, time, private directories, errors of HTTP, certificates, log lines, figures for Prometheus |
//!
//! The server holds no secret key, and rejects secret keys that clients send. It writes to disk before it
//! responds, so you can kill it at any time. Trainings resume from their last iteration when it is back.
#![forbid(unsafe_code)]

mod accounts;
mod clock;
mod cluster;
mod http;
mod job;
mod jobs;
mod metrics;
mod private;
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
    backup::{Backup, back_up, restore},
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
    server::receipt::SigningKey,
};
use telemetry::Telemetry;
use tls::Tls;
use tokio::{
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};

/// Interval between sweeps for stalled uploads.
// docs/deploy.md promises that repeated events are added up for each minute, and that a ballast is
// back within a minute.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum threads that wait for disks, records and turns. Each has a stack of two mebibytes. Further work
/// waits for a thread.
// More threads than the places to wait in `Gate`, so that requests which wait for turns leave
// threads for others.
const MAX_WAITING_THREADS: usize = 128;

/// Configuration of a server.
#[derive(Debug, Clone)]
pub struct Config {
    /// Directory of the server, created if missing.
    pub folder: PathBuf,
    /// Database of the records, which other servers may share. Default: a file in the directory.
    pub database: Option<DatabaseAddress>,
    /// Address of a store for objects and states of trainings, which other servers may share. Default: the
    /// directory.
    pub objects: Option<String>,
    /// File of the signing key, created if missing.
    pub key: PathBuf,
    /// Replace the key that all servers with the same records use.
    pub replace_key: bool,
    /// Address of the server.
    pub place: Endpoint,
    /// Certificates, if the server itself uses TLS.
    pub tls: Option<TlsFiles>,
    /// Address for metrics, which requires no token.
    pub metrics: Option<Endpoint>,
    /// Collector of the server's spans, if there is one.
    pub collector: Option<Collector>,
    /// Limits of the server.
    pub limits: Limits,
    /// The program that computes jobs.
    pub program: Program,
}

impl Config {
    /// Rejects a database that is shared without a shared store: other servers could not find the files.
    fn check(&self) -> Result<()> {
        if self.database.is_some() && self.objects.is_none() {
            return Err(Error::Usage(
                "servers that share a database must share a store of objects: pass it with --objects"
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

    /// Returns true if other machines may reach the server without TLS.
    fn is_exposed(&self) -> bool {
        match &self.place {
            Endpoint::Tcp(address) => {
                // Canonical, because `::ffff:127.0.0.1` is this machine, too.
                self.tls.is_none() && !address.ip().to_canonical().is_loopback()
            }
            Endpoint::Unix(_) => false,
        }
    }
}

/// Runs a server until the process is told to stop (SIGTERM, Ctrl-C). Calls `listening` with the URL once
/// the server responds. Log lines go to standard error, in JSON.
///
/// # Errors
/// [`Error::InUse`] if another server has the directory; [`Error::Io`]; [`Error::Usage`].
pub fn serve(config: Config, listening: impl FnOnce(&str)) -> Result<()> {
    config.check()?;
    // Before the signing key and passwords are read.
    protect_memory();
    let _telemetry = Telemetry::start("sudare-server", config.collector.as_ref())?;
    let runtime = runtime(&config.folder)?;
    let records = Records::of(&config.folder, config.database.as_ref())?;
    let bucket = config.objects.as_deref().map(Bucket::open).transpose()?;
    let store = Store::open(&config.folder, bucket)?;
    let key = SigningKey::open(&config.key)?;
    tracing::info!(server_key = %key.public(), name = store.name(), "key of receipts");
    let app = Server::new(config.limits.clone(), config.program.clone(), records, store, key);
    let program = env!("CARGO_PKG_VERSION");
    let server_key = app.key.public().to_string();
    // A server with another key ends here, before it records anything or takes over a job.
    if app.records.are_shared() {
        app.records.agree_on_key(&server_key, config.replace_key)?;
    }
    app.records.note(&Event::ServerStarted { program, server_key: &server_key })?;
    // Later writes only log that the files cannot be written. A start fails.
    app.records.sync_log()?;
    app.recover()?;
    app.restore_ballast();
    runtime.block_on(run(&app, &config, listening))?;
    // Events since the last sweep exist in memory only.
    app.note_repeats()
}

/// Computes jobs of the server that `desk` reaches, one at a time, until the process is told to stop
/// (SIGTERM, Ctrl-C). Then returns the current job to the queue. Log lines go to standard error, in JSON.
///
/// # Errors
/// [`Error::InUse`] if another worker has the directory; [`Error::Refused`] by the server, as for a token
/// that is not a worker's; [`Error::Io`].
#[cfg(feature = "cluster")]
pub fn work_for(desk: impl Desk, config: WorkerConfig) -> Result<()> {
    protect_memory();
    let _telemetry = Telemetry::start("sudare-worker", config.collector.as_ref())?;
    let runtime = runtime(&config.folder)?;
    let ended = runtime.block_on(worker::run(config, desk));
    // Open requests may take their time, since nothing waits for them.
    runtime.shutdown_background();
    ended
}

/// Protects the memory and the environment of this process from other processes of the same user. Processes
/// of jobs read files of tenants. If a file exploits one of them, it must not find secrets here.
fn protect_memory() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

/// Makes the runtime of a server or a worker.
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
        tracing::info!(place = listener.url("http"), "serves metrics");
        let all = api::metrics_router(Arc::clone(app));
        // This port is for the operator, so its reserved connections serve metrics, too.
        let routers = net::Routers { health: all.clone(), all };
        tasks.spawn(net::serve(listener, routers, None, app.ending.subscribe()));
    }
    tasks.spawn(queue::run(Arc::clone(app)));
    // These tasks run on while others wait for jobs to end.
    let leases = tokio::spawn(queue::watch_leases(Arc::clone(app)));
    let sweeping = tokio::spawn(sweep(Arc::clone(app)));
    tracing::info!(place, "listening");
    if config.is_exposed() {
        tracing::warn!(
            place,
            "serves without TLS at an address that other machines may reach, so tokens and files travel in \
             clear: use --tls-cert with --tls-key, or --tls-self-signed, or let only a proxy that does TLS reach \
             this address"
        );
    }
    listening(&place);
    wait_for_shutdown().await;
    tracing::info!("shutting down");
    app.ending.send_replace(true);
    while tasks.join_next().await.is_some() {}
    sweeping.abort();
    leases.abort();
    if let Some(reloading) = reloading {
        reloading.abort();
    }
    Ok(())
}

/// Reloads the certificates at each SIGHUP, which no longer ends the process.
fn reload_on_hangup(tls: Arc<Tls>) -> Option<JoinHandle<()>> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut told = signal(SignalKind::hangup()).ok()?;
        Some(tokio::spawn(async move {
            while told.recv().await.is_some() {
                match tls.reload() {
                    Ok(()) => tracing::info!("reloaded the certificates"),
                    Err(error) => {
                        tracing::error!(%error, "cannot reload the certificates: the old ones stay")
                    }
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
    // A machine that was suspended must not catch up with a burst of sweeps.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        api::sweep(&app).await;
    }
}

/// Checks the audit log of the server in a directory, even while the server runs. `noted` are numbers and
/// digests of lines that you noted elsewhere.
///
/// # Errors
/// [`Error::Parse`], which names the first line that is broken; [`Error::Io`].
pub fn check_audit(
    folder: &Path,
    database: Option<&DatabaseAddress>,
    noted: &[(u64, String)],
) -> Result<Checked> {
    // The records first: lines that a running server adds meanwhile are then in the files alone,
    // which the check accepts.
    let lines = records::last_lines(&folder.join(store::RECORDS), database)?;
    Log::of(folder).check(&lines, noted)
}

/// Checks the files of an audit log alone, such as a copy.
///
/// # Errors
/// Same as [`check_audit`].
pub fn check_audit_files(folder: &Path, noted: &[(u64, String)]) -> Result<Checked> {
    Log::at(folder.into()).check(&[], noted)
}

/// Waits until the process is told to stop.
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
