//! Which job is next, and what becomes of it.

use crate::{
    app::{App, Running, Server, aside},
    child::{self, Ended, Signal},
    clock::now,
    job::{Request, Said, Task},
    problem::internal,
    records::{Change, Collection, Job, Object, State},
};
use serde_json::json;
use std::{
    collections::HashMap,
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use sudare_roles::{
    error::{Error, Result},
    files,
    receipt::Statement,
};
use tokio::sync::watch;

/// Processes that may die on a job without a step forward.
const MOST_DEATHS: u32 = 3;

/// Begins jobs as there is room for them, until the server ends; then tells those under way to keep
/// what they have done, and waits for them.
pub async fn attend(app: App) {
    let mut turns = Turns::default();
    let mut ending = app.ending.subscribe();
    let mut tasks = tokio::task::JoinSet::new();
    while !*ending.borrow_and_update() {
        match aside(&app, Server::waiting).await {
            Ok(waiting) => {
                while let Some(job) = turns.next(&waiting, &app) {
                    let (signal, receiver) = watch::channel(Signal::Go);
                    let running = Running { signal, memory: job.memory };
                    app.running().insert(job.id.clone(), running);
                    tasks.spawn(attend_job(Arc::clone(&app), job, receiver));
                }
            }
            Err(error) => tracing::error!(%error, "jobs cannot be looked up"),
        }
        tokio::select! {
            () = app.wake.notified() => {}
            _ = ending.changed() => {}
            Some(_) = tasks.join_next() => {}
        }
    }
    for running in app.running().values() {
        running.signal.send_replace(Signal::Stop(app.limits.grace));
    }
    while tasks.join_next().await.is_some() {}
}

/// Whose turn it is.
#[derive(Default)]
struct Turns {
    served: HashMap<String, u64>,
    turn: u64,
}

impl Turns {
    /// The next job to begin, if there is room for it: the oldest one of the tenant who has waited
    /// the most turns. It is not overtaken by smaller ones.
    fn next(&mut self, waiting: &[Job], app: &Server) -> Option<Job> {
        let (count, used, job) = {
            let running = app.running();
            let new = waiting.iter().filter(|job| !running.contains_key(&job.id));
            let last = |job: &&Job| self.served.get(&job.tenant).copied().unwrap_or(0);
            let job = new.min_by_key(last)?.clone();
            (running.len(), running.values().map(|job| job.memory).sum::<u64>(), job)
        };
        let fits = used.saturating_add(job.memory) <= app.limits.memory_bytes;
        if count >= app.limits.running_jobs || !fits {
            return None;
        }
        self.turn += 1;
        self.served.insert(job.tenant.clone(), self.turn);
        Some(job)
    }
}

impl Server {
    fn waiting(&self) -> Result<Vec<Job>> {
        self.records.jobs_in(State::Queued)
    }

    /// Queues jobs again that processes worked on when the server before ended, however it did.
    ///
    /// # Errors
    /// Those of [`Records`](crate::records::Records).
    pub fn recover(&self) -> Result<()> {
        for job in self.records.jobs_in(State::Running)? {
            tracing::info!(job = job.id, "goes on");
            self.records.change(&job.id, &Change::Requeued)?;
        }
        Ok(())
    }

    /// What a process is told of a job.
    fn task(&self, job: &Job) -> Result<Task> {
        let folder = self.store.make_job(&job.id)?;
        let object = |digest: &String| -> PathBuf { self.store.object(&job.tenant, digest) };
        let request = &job.request;
        Ok(Task {
            kind: request.kind,
            keys: object(&request.keys),
            tables: request.tables.iter().map(object).collect(),
            model: request.model.as_ref().map(object),
            iterations: request.iterations,
            history: request.history,
            states: folder.join("states"),
            output: folder.join("result.ct"),
        })
    }

    /// Makes an object of a result, and signs that it did.
    fn keep_result(&self, job: &Job, output: &PathBuf) -> Result<Change> {
        let io = |error| Error::io("read", output, error);
        let mut file = fs::File::open(output).map_err(io)?;
        let (digest, bytes) = files::digest_of(&mut file).map_err(io)?;
        self.store.adopt(output, &job.tenant, &digest)?;
        let object = Object {
            tenant: job.tenant.clone(),
            digest: digest.clone(),
            collection: Collection::Results,
            bytes,
            created: now(),
            about: json!({ "kind": job.request.kind.name(), "job": job.id }),
        };
        self.records.add_object(&object, None)?;
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
            result: digest.clone(),
            bytes,
            created: job.created,
            finished: object.created,
            ..Statement::default()
        })?;
        Ok(Change::Done { result: digest, receipt: receipt.text()? })
    }

    /// What an end means for a job; it may go on later.
    fn after(&self, job: &Job, task: &Task, ended: Ended) -> Result<Option<Change>> {
        let failed = |kind: &str, detail: String| Change::Failed(kind.into(), detail);
        Ok(match ended {
            Ended::Done => Some(self.keep_result(job, &task.output)?),
            Ended::Failed { kind, detail } => {
                Some(failed(&kind, self.store.without_paths(&detail)))
            }
            Ended::AsTold => Some(Change::Requeued),
            Ended::Died(how) => {
                tracing::warn!(job = job.id, how, "a process died");
                let died = self.change(&job.id, &Change::Died)?;
                died.filter(|job| job.deaths >= MOST_DEATHS).map(|_| {
                    let detail = "its process died again and again, without a step forward: the \
                                  server may have too little memory for it";
                    failed("Died", detail.into())
                })
            }
        })
    }
}

async fn attend_job(app: App, job: Job, signal: watch::Receiver<Signal>) {
    let id = job.id.clone();
    // Who cancels waits for as long as somebody has it.
    let held = signal.clone();
    if let Err(error) = work_on(&app, job, signal).await {
        tracing::error!(job = id, %error, "a job failed for a fault of the server");
        let change = Change::Failed(error.kind(), "the server failed".into());
        let name = id.clone();
        let told = aside(&app, move |app| app.change(&name, &change)).await;
        if let Err(error) = told {
            tracing::error!(job = id, %error, "it cannot be taken down");
        }
    }
    app.running().remove(&id);
    drop(held);
    app.wake.notify_one();
}

async fn work_on(app: &App, job: Job, signal: watch::Receiver<Signal>) -> Result<()> {
    let id = job.id.clone();
    let begun = aside(app, move |app| {
        let begun = app.change(&id, &Change::Started)?;
        begun.map(|job| app.task(&job).map(|task| (job, task))).transpose()
    });
    // It may have been cancelled.
    let Some((job, task)) = begun.await? else { return Ok(()) };
    tracing::info!(job = job.id, tenant = job.tenant, kind = job.request.kind.name(), "begins");
    let counted = AtomicU64::new(0);
    let told = |said| {
        let (app, id, tenant) = (Arc::clone(app), job.id.clone(), job.tenant.clone());
        let before = &counted;
        async move {
            let told = match said {
                Said::Progress(done, total) => {
                    let change = Change::Progress(done, total);
                    aside(&app, move |app| app.change(&id, &change).map(|_| ())).await
                }
                Said::Cpu(all) => {
                    let new = all.saturating_sub(before.swap(all, Ordering::Relaxed));
                    aside(&app, move |app| app.records.use_cpu(&tenant, now(), new)).await
                }
                _ => Ok(()),
            };
            if let Err(error) = told {
                tracing::warn!(%error, "what a process says cannot be taken down");
            }
        }
    };
    let ended = child::run(&app.program, &task, signal, told).await.map_err(internal)?;
    aside(app, move |app| {
        if let Some(change) = app.after(&job, &task, ended)? {
            app.change(&job.id, &change)?;
        }
        let now = app.records.job(&job.tenant, &job.id)?;
        if let Some(now) = now.filter(|job| job.state.is_final()) {
            tracing::info!(job = now.id, state = ?now.state, "ended");
            app.store.remove_job(&now.id)?;
        }
        Ok(())
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        app::Limits,
        child::Program,
        job::Kind,
        records::CpuLimits,
        records::{Added, NewJob, Records},
        store::Store,
    };
    use std::time::Duration;
    use sudare_roles::receipt::SigningKey;

    fn server(folder: &std::path::Path, running_jobs: usize) -> App {
        let limits = Limits {
            memory_bytes: 100,
            running_jobs,
            tenant_bytes: 1,
            tenant_jobs: 100,
            tenant_requests: 100,
            tenant_cpu: CpuLimits::default(),
            upload_seconds: 1,
            grace: Duration::from_secs(1),
            insecure_allowed: false,
            threads: 1,
            origins: Vec::new(),
        };
        let program = Program { file: "none".into(), args: Vec::new() };
        let records = Records::open(&folder.join("records")).unwrap();
        let (store, key) = (Store::open(&folder.join("store")), SigningKey::random());
        Server::new(limits, program, records, store.unwrap(), key.unwrap())
    }

    fn add(app: &Server, id: &str, memory: u64) {
        let request = Request {
            kind: Kind::Stats,
            keys: "k".into(),
            tables: vec!["t".into()],
            model: None,
            iterations: None,
            history: false,
        };
        let (tenant, id) = (id[..1].to_owned(), id.to_owned());
        let cpu_seconds = 1.0;
        let new =
            NewJob { id, tenant, request, idempotency: None, seconds: 1.0, cpu_seconds, memory };
        let added = app.records.add_job(&new, 100, &CpuLimits::default());
        assert!(matches!(added.unwrap(), Added::New(_)));
    }

    /// Begins a job, and says which.
    fn begin(turns: &mut Turns, app: &Server) -> Option<String> {
        let job = turns.next(&app.waiting().unwrap(), app)?;
        let running = Running { signal: watch::Sender::new(Signal::Go), memory: job.memory };
        app.running().insert(job.id.clone(), running);
        Some(job.id)
    }

    /// Who asks for much waits for those who ask for little, and each tenant's jobs are in order.
    #[test]
    fn tenants_take_turns() {
        let folder = tempfile::tempdir().unwrap();
        let app = server(folder.path(), 10);
        ["a1", "a2", "a3", "b1", "c1", "b2"].iter().for_each(|id| add(&app, id, 10));
        let mut turns = Turns::default();
        let order: Vec<_> = std::iter::from_fn(|| begin(&mut turns, &app)).collect();
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
        let mut turns = Turns::default();
        assert_eq!(begin(&mut turns, &app).as_deref(), Some("a1"));
        assert_eq!(begin(&mut turns, &app), None);
        let (result, receipt) = ("d".into(), "r".into());
        app.records.change("a1", &Change::Done { result, receipt }).unwrap();
        app.running().remove("a1");
        assert_eq!(begin(&mut turns, &app).as_deref(), Some("b1"));
        assert_eq!(begin(&mut turns, &app).as_deref(), Some("c1"));
        assert_eq!(begin(&mut turns, &app), None);
    }
}
