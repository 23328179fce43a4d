//! A worker on another machine: it claims jobs of a server and computes them one at a time.

mod cache;

use crate::{
    cluster::{
        Collector,
        lease::{Assignment, Blob, Desk, Hold, Leaving, Offer, Report},
    },
    job::{Kind, Message, Task},
    jobs::child::{self, Ended, Program, Signal},
    private::make_private,
    problem::internal,
    storage::store::{Store, without_paths},
    telemetry, wait_for_shutdown,
};
use cache::Cache;
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use sudare_roles::{
    error::{Error, Result},
    os::files::{self, Access, NewFile},
    server::checkpoint::StateFile,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout_at},
};
use tracing::{Instrument, Span};

/// Seconds that one request waits for a job. A shutdown of the worker takes as long.
const WAIT_SECONDS: u64 = 10;
/// Pause after a failed request, and after a job that could not start.
const PAUSE: Duration = Duration::from_secs(1);
/// Pauses between attempts to submit a result.
// A result may have taken hours. So the worker gives the server 85 seconds to make room.
const SUBMIT_PAUSES: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(4),
    Duration::from_secs(16),
    Duration::from_secs(64),
];
/// Renewals during the time of a lease.
// One renewal, or two, may get lost.
const RENEWALS: u32 = 3;
/// Maximum time between two renewals, since a tenant may cancel the job. Progress is reported at once.
const MAX_RENEWAL_INTERVAL: Duration = Duration::from_secs(10);

/// Configuration of a worker.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// Directory of the worker, created if missing.
    pub folder: PathBuf,
    /// Memory for a job, in bytes.
    pub memory_bytes: u64,
    /// Maximum size of cached keys and tables, in bytes.
    pub cache_bytes: u64,
    /// Time for a training to finish its iteration when the worker shuts down.
    pub grace: Duration,
    /// Collector of the worker's spans, if there is one.
    pub collector: Option<Collector>,
    /// The program that computes jobs.
    pub program: Program,
}

/// A worker.
struct Worker<D> {
    config: WorkerConfig,
    desk: D,
    cache: Cache,
    /// Lock on the directory, which the system releases when the process ends.
    _lock: File,
}

/// Computes jobs until the process is told to stop (SIGTERM, Ctrl-C). Then returns the current job to the
/// queue.
///
/// # Errors
/// [`Error::InUse`] if another worker has the directory; [`Error::Io`]; [`Error::Refused`] by the server,
/// as for a token that is not a worker's.
pub async fn run(config: WorkerConfig, desk: impl Desk) -> Result<()> {
    make_private(&config.folder)?;
    let lock = files::lock_folder(&config.folder)?;
    let cache = Cache::open(config.folder.join("objects"), config.cache_bytes)?;
    let worker = Arc::new(Worker { config, desk, cache, _lock: lock });
    let (sender, ending) = watch::channel(false);
    tokio::spawn(async move {
        wait_for_shutdown().await;
        sender.send_replace(true);
    });
    while !*ending.borrow() {
        let offer = Offer {
            program: env!("CARGO_PKG_VERSION").into(),
            memory_bytes: worker.config.memory_bytes,
            wait_seconds: WAIT_SECONDS,
        };
        match blocking(&worker, move |worker| worker.desk.claim(&offer)).await {
            Ok(Some(assignment)) => {
                // A genuine server sends no wrong names. So the worker ends, and does not claim again.
                assignment.check()?;
                let span = telemetry::job(assignment.kind.name(), &assignment.job);
                worker.run_job(assignment, ending.clone()).instrument(span).await;
            }
            Ok(None) => {}
            Err(error @ Error::Unreachable { .. }) => {
                tracing::warn!(%error, "cannot claim a job");
                pause(ending.clone()).await;
            }
            // The token or the version is wrong, which no further attempt changes.
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits for a moment, or for the shutdown.
async fn pause(mut ending: watch::Receiver<bool>) {
    tokio::select! {
        () = sleep(PAUSE) => {}
        _ = ending.wait_for(|ending| *ending) => {}
    }
}

/// Runs `work` on a thread that may block.
async fn blocking<D: Desk, T: Send + 'static>(
    worker: &Arc<Worker<D>>,
    work: impl FnOnce(&Worker<D>) -> Result<T> + Send + 'static,
) -> Result<T> {
    let worker = Arc::clone(worker);
    let span = Span::current();
    let done = tokio::task::spawn_blocking(move || span.in_scope(|| work(&worker))).await;
    done.unwrap_or_else(|error| Err(internal(error)))
}

/// Returns whether the server says that the job is no longer the worker's.
fn is_lost(error: &Error) -> bool {
    matches!(error, Error::Refused { kind, .. } if kind == "Stale" || kind == "Cancelled")
}

/// A job that a worker has claimed.
struct Claim {
    hold: Hold,
    lease: Duration,
    /// Progress to report to the server.
    report: watch::Sender<Report>,
    /// Signal to the process: kill, once the lease is lost.
    signal: watch::Sender<Signal>,
}

impl Claim {
    /// Records the CPU time used, in milliseconds.
    fn used(&self, milliseconds: u64) {
        // CPU time alone is not worth a request.
        self.report.send_if_modified(|report| {
            report.cpu_milliseconds = milliseconds;
            false
        });
    }

    fn is_lost(&self) -> bool {
        *self.signal.borrow() == Signal::Kill
    }

    /// Stops all work on the job.
    fn lose(&self, why: &str) {
        tracing::warn!(job = self.hold.job, why, "lost the job");
        self.signal.send_replace(Signal::Kill);
    }
}

impl<D: Desk> Worker<D> {
    fn folder(&self) -> PathBuf {
        self.config.folder.join("job")
    }

    /// Computes a job, or returns it.
    async fn run_job(self: &Arc<Self>, assignment: Assignment, mut ending: watch::Receiver<bool>) {
        let Assignment { job, fence, lease_seconds, kind, done, total, .. } = &assignment;
        tracing::info!(job, fence, kind = kind.name(), "claimed");
        let claim = Arc::new(Claim {
            hold: Hold { job: job.clone(), fence: *fence },
            lease: Duration::from_secs(*lease_seconds),
            report: watch::Sender::new(Report { done: *done, total: *total, cpu_milliseconds: 0 }),
            signal: watch::Sender::new(Signal::Go),
        });
        let renewing = tokio::spawn(Arc::clone(self).renew(Arc::clone(&claim)));
        let ends = ending.clone();
        let grace = self.config.grace;
        let stopped = Arc::clone(&claim);
        let stopping = tokio::spawn(async move {
            let _ = ending.wait_for(|ending| *ending).await;
            Signal::stop(&stopped.signal, grace);
        });
        let done = self.work_on(&claim, assignment).await;
        let left = match done {
            Ok(None) => Ok(()),
            // The server has taken the job back already.
            _ if claim.is_lost() => Ok(()),
            Ok(Some(why)) => self.leave(&claim, why).await,
            Err(error) => {
                tracing::error!(job = claim.hold.job, %error, "cannot compute the job");
                // The server may give the same response to every worker, so the attempt counts as a death.
                let may_stay = match &error {
                    Error::Refused { kind, .. } => kind != "Http",
                    error => matches!(error, Error::OtherFile { .. }),
                };
                let why = if may_stay { Leaving::Died } else { Leaving::Released };
                let left = self.leave(&claim, why).await;
                // Let another worker claim it first.
                pause(ends).await;
                left
            }
        };
        // Only now: the lease must last until the job is returned.
        renewing.abort();
        stopping.abort();
        if let Err(error) = left.and_then(|()| self.clear()) {
            tracing::warn!(job = claim.hold.job, %error, "cannot return the job properly");
        }
    }

    async fn leave(self: &Arc<Self>, claim: &Claim, why: Leaving) -> Result<()> {
        tracing::info!(job = claim.hold.job, ?why, "returned");
        let hold = claim.hold.clone();
        blocking(self, move |worker| worker.desk.leave(&hold, &why)).await
    }

    /// Removes the files of the last job.
    fn clear(&self) -> Result<()> {
        let folder = self.folder();
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io("remove", &folder, error))
            }
            _ => Ok(()),
        }
    }

    /// Renews a lease until it is lost. The lease is also lost when the server was out of reach for its
    /// whole time, so that two workers never hold the same job.
    async fn renew(self: Arc<Self>, claim: Arc<Claim>) {
        let mut news = claim.report.subscribe();
        let mut until = Instant::now() + claim.lease;
        loop {
            let sent = Instant::now();
            let hold = claim.hold.clone();
            let report = *news.borrow_and_update();
            let within = until.saturating_duration_since(sent);
            let renewed = blocking(&self, move |worker| worker.desk.renew(&hold, &report, within));
            let next = match timeout_at(until, renewed).await {
                Ok(Ok(())) => {
                    // Counts from the request. The server counts from its arrival, so its lease
                    // ends later than this one.
                    until = sent + claim.lease;
                    sent + (claim.lease / RENEWALS).min(MAX_RENEWAL_INTERVAL)
                }
                Ok(Err(error)) if is_lost(&error) => return claim.lose(&error.to_string()),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "cannot renew a lease");
                    Instant::now() + PAUSE
                }
                Err(_) => until,
            };
            tokio::select! {
                () = sleep_until(next.min(until)) => {}
                _ = news.changed() => {}
            }
            if Instant::now() >= until {
                return claim.lose("the lease has ended");
            }
        }
    }

    /// Computes a job. Returns the reason if the job is returned without a result.
    async fn work_on(
        self: &Arc<Self>,
        claim: &Arc<Claim>,
        assignment: Assignment,
    ) -> Result<Option<Leaving>> {
        let mut wanted = claim.signal.subscribe();
        let of = assignment.clone();
        let stops = claim.signal.subscribe();
        let task = tokio::select! {
            task = blocking(self, move |worker| worker.prepare(&of, &stops)) => task?,
            _ = wanted.wait_for(|signal| *signal != Signal::Go) => {
                return Ok(Some(Leaving::Released));
            }
        };
        let (progress, steps) = watch::channel((0, 0));
        let sent = assignment.states.iter().filter_map(|state| StateFile::of_name(&state.name));
        let keeping = tokio::spawn(Arc::clone(self).store_states(
            Arc::clone(claim),
            task.clone(),
            steps,
            sent.collect(),
        ));
        let on_message = |message| {
            match message {
                Message::Progress(done, total) => _ = progress.send_replace((done, total)),
                Message::Cpu(milliseconds) => claim.used(milliseconds),
                _ => {}
            }
            core::future::ready(())
        };
        let ended =
            child::run(&self.config.program, &task, claim.signal.subscribe(), on_message).await;
        drop(progress);
        // States, progress and CPU time reach the server before the outcome.
        let _ = keeping.await;
        let hold = claim.hold.clone();
        let report = *claim.report.borrow();
        let within = claim.lease;
        let renewed = blocking(self, move |worker| worker.desk.renew(&hold, &report, within)).await;
        match renewed {
            Err(error) if is_lost(&error) => return Err(error),
            // The result is submitted in any case.
            Err(error) => tracing::warn!(%error, "cannot renew a lease"),
            Ok(()) => {}
        }
        Ok(match ended.map_err(internal)? {
            Ended::Done => {
                let left = self.submit(claim, &task.output).await?;
                if left.is_none() {
                    tracing::info!(job = claim.hold.job, "done");
                }
                left
            }
            // Another machine may not have this error.
            Ended::Failed { kind, detail } if kind == "Io" || kind == "Checkpoint" => {
                tracing::warn!(job = claim.hold.job, kind, detail, "the machine has an error");
                Some(Leaving::Died)
            }
            Ended::Failed { kind, detail } => {
                let detail = without_paths(&self.config.folder, &detail);
                Some(Leaving::Failed { kind, detail })
            }
            Ended::Signalled => Some(Leaving::Released),
            Ended::Died(how) => {
                tracing::warn!(job = claim.hold.job, how, "a process died");
                Some(Leaving::Died)
            }
        })
    }

    /// Submits a result. Repeats it if the server has no room or fails, while the lease holds and no other
    /// signal came. Returns the reason if the job is returned.
    async fn submit(self: &Arc<Self>, claim: &Claim, result: &Path) -> Result<Option<Leaving>> {
        let mut wanted = claim.signal.subscribe();
        let mut pauses = SUBMIT_PAUSES.into_iter();
        loop {
            let hold = claim.hold.clone();
            let result = result.to_owned();
            let handed_in = blocking(self, move |worker| worker.desk.finish(&hold, &result)).await;
            match (handed_in, pauses.next()) {
                (Err(error), Some(pause)) if !is_lost(&error) => {
                    tracing::warn!(job = claim.hold.job, %error, "cannot submit a result");
                    tokio::select! {
                        () = sleep(pause) => {}
                        _ = wanted.wait_for(|signal| *signal != Signal::Go) => {
                            return Ok(Some(Leaving::Released));
                        }
                    }
                }
                (handed_in, _) => return handed_in.map(|()| None),
            }
        }
    }

    /// Downloads the files of a job, unless another signal comes meanwhile, and makes the task for its
    /// process.
    fn prepare(&self, of: &Assignment, wanted: &watch::Receiver<Signal>) -> Result<Task> {
        // States of the last job must not count as states of this one.
        self.clear()?;
        let fetch = |blob: &Blob, file: NewFile| {
            if *wanted.borrow() != Signal::Go {
                return Err(Error::Usage("the job is abandoned".into()));
            }
            self.desk.fetch(blob, file)
        };
        let tables = of.tables.iter().chain([&of.keys]).chain(&of.model).cloned();
        let mut places = self.cache.ensure(&tables.collect::<Vec<_>>(), fetch)?.into_iter();
        let tables = places.by_ref().take(of.tables.len()).collect();
        let keys = places.next().ok_or_else(|| internal("keys without a place"))?;
        let folder = self.folder();
        let states = Store::states_in(&folder);
        make_private(&states)?;
        for blob in &of.states {
            let state = StateFile::of_name(&blob.name)
                .ok_or_else(|| internal(format!("{:?} is not the name of a state", blob.name)))?;
            fetch(blob, NewFile::create(&states.join(state.name()), Access::Shared, true)?)?;
        }
        Ok(Task {
            kind: of.kind,
            keys,
            tables,
            model: places.next(),
            iterations: of.iterations,
            history: of.history,
            // The prediction is for the threads of the server.
            memory: None,
            most_cpu_seconds: of.most_cpu_seconds,
            states,
            output: Store::result_in(&folder),
        })
    }

    /// Stores states of a training at the server as its process writes them, and reports a step once its
    /// state is stored.
    async fn store_states(
        self: Arc<Self>,
        claim: Arc<Claim>,
        task: Task,
        mut steps: watch::Receiver<(u64, u64)>,
        mut sent: BTreeSet<StateFile>,
    ) {
        while steps.changed().await.is_ok() {
            let (done, total) = *steps.borrow_and_update();
            // The state after the last step is not needed, because the result follows.
            if task.kind == Kind::Train && done < total {
                let hold = claim.hold.clone();
                let folder = task.states.clone();
                let before = sent.clone();
                let kept = blocking(&self, move |worker| {
                    let files = StateFile::all_in(&folder)?;
                    for file in unsent(&files, &before) {
                        let name = file.name();
                        worker.desk.store_state(&hold, &name, &folder.join(&name))?;
                    }
                    Ok(files)
                });
                match kept.await {
                    Ok(files) => sent.extend(files),
                    Err(error) if is_lost(&error) => return claim.lose(&error.to_string()),
                    Err(error) => {
                        tracing::warn!(%error, "cannot store a state at the server");
                        continue;
                    }
                }
            }
            claim.report.send_modify(|report| (report.done, report.total) = (done, total));
        }
    }
}

/// Lists the files to send, in order: weights, and then the last state.
fn unsent<'a>(
    files: &'a [StateFile],
    sent: &BTreeSet<StateFile>,
) -> impl Iterator<Item = &'a StateFile> {
    let last = files.last();
    let is_needed =
        move |file: &&StateFile| matches!(file, StateFile::Weights(_)) || Some(*file) == last;
    files.iter().filter(is_needed).filter(|file| !sent.contains(file))
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use StateFile::{State, Weights};
    use std::sync::Mutex;

    /// A server that responds to no renewal, has files or an error, and records the outcome of jobs.
    struct Notes {
        files: fn() -> Result<()>,
        ends: Mutex<Vec<Option<Leaving>>>,
        /// Number of results to reject.
        refusals: Mutex<u32>,
    }

    impl Desk for Notes {
        fn claim(&self, _: &Offer) -> Result<Option<Assignment>> {
            Ok(None)
        }
        fn renew(&self, _: &Hold, _: &Report, _: Duration) -> Result<()> {
            unreachable()
        }
        fn fetch(&self, _: &Blob, mut file: NewFile) -> Result<()> {
            (self.files)()?;
            file.write_text("a file")?;
            file.finish()
        }
        fn store_state(&self, _: &Hold, _: &str, _: &Path) -> Result<()> {
            Ok(())
        }
        fn finish(&self, _: &Hold, _: &Path) -> Result<()> {
            let mut left = self.refusals.lock().unwrap();
            if *left > 0 {
                *left -= 1;
                return refused();
            }
            self.ends.lock().unwrap().push(None);
            Ok(())
        }
        fn leave(&self, _: &Hold, why: &Leaving) -> Result<()> {
            self.ends.lock().unwrap().push(Some(why.clone()));
            Ok(())
        }
    }

    fn unreachable() -> Result<()> {
        Err(Error::Unreachable { url: "a server".into(), problem: "it is far".into() })
    }

    fn refused() -> Result<()> {
        Err(Error::Refused { kind: "Io".into(), detail: "a disk".into() })
    }

    /// Submits a result though the last renewal fails, and again if it is rejected. A file that the server
    /// cannot send counts as a death. A server out of reach may be back soon.
    #[tokio::test]
    async fn jobs_are_left_for_what_happened() {
        for (files, refusals, end) in [
            ((|| Ok(())) as fn() -> _, 1, None),
            (refused, 0, Some(Leaving::Died)),
            (unreachable, 0, Some(Leaving::Released)),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let args = vec!["-c".into(), "read task; echo '\"done\"'".into()];
            let config = WorkerConfig {
                folder: folder.path().into(),
                memory_bytes: 1,
                cache_bytes: 1 << 20,
                grace: Duration::ZERO,
                collector: None,
                program: Program { file: "/bin/sh".into(), args },
            };
            let worker = Arc::new(Worker {
                _lock: files::lock_folder(folder.path()).unwrap(),
                cache: Cache::open(folder.path().join("objects"), 1 << 20).unwrap(),
                desk: Notes { files, ends: Mutex::default(), refusals: Mutex::new(refusals) },
                config,
            });
            let blob = |name: &str| {
                let digest = blake3::hash(b"a file").to_string();
                Blob { name: name.into(), digest, bytes: 6, path: String::new() }
            };
            let assignment = Assignment {
                job: "1".into(),
                fence: 1,
                lease_seconds: 60,
                done: 0,
                total: 0,
                kind: Kind::Stats,
                iterations: None,
                history: false,
                most_cpu_seconds: 10,
                keys: blob("keys"),
                tables: vec![blob("table")],
                model: None,
                states: vec![],
            };
            let (_ending, ends) = watch::channel(false);
            worker.run_job(assignment, ends).await;
            assert_eq!(*worker.desk.ends.lock().unwrap(), [end]);
        }
    }

    #[test]
    fn the_last_state_is_sent_after_all_weights() {
        let files = [Weights(1), Weights(2), Weights(3), State(2), State(3)];
        let sent = |sent: &[StateFile]| -> Vec<StateFile> {
            unsent(&files, &sent.iter().copied().collect()).copied().collect()
        };
        assert_eq!(sent(&[]), [Weights(1), Weights(2), Weights(3), State(3)]);
        assert_eq!(sent(&[Weights(1), Weights(2), State(2)]), [Weights(3), State(3)]);
        assert_eq!(sent(&files), []);
    }
}
