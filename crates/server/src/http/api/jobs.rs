//! `/v1/jobs`: jobs are submitted, listed, followed and cancelled.

use super::{
    access::{Path, Tenant},
    body,
    route::{Route, route},
    spec::{requests, responses},
};
use crate::{
    accounts::token::random_id,
    clock::{SECONDS_A_DAY, now},
    job::{Kind as JobKind, MAX_IDEMPOTENCY_CHARS, MAX_TABLES, Request},
    jobs::{
        app::{App, Server, blocking},
        child::Signal,
        gate::Turn,
        planning::{self, Priced, Question},
    },
    problem::{Answer, Problem},
    storage::{
        inspect,
        records::{Added, Change, Collection, CpuPeriod, Job, NewJob, Object},
    },
};
use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{
        IntoResponse,
        sse::{Event, KeepAlive, Sse},
    },
};
use core::convert::Infallible;
use futures_util::stream;
use serde_json::{Value, json};
use std::{fs::File, io::Read, path::PathBuf, time::Duration};
use sudare::ckks::serial::Kind;
use sudare_roles::{
    error::{Error, Result as RolesResult},
    format::{label::Content, opened::Opened},
};
use tokio::{sync::watch, time::timeout};

/// Maximum bytes of memory per byte of a ciphertext file: files pack residues, and leave out half of a
/// seeded ciphertext.
const MAX_UNPACKED: u64 = 8;
/// Maximum jobs in a list.
// A tenant may have any number of ended jobs, and the list is built in memory.
const MAX_LISTED: u32 = 1000;
/// Maximum time for a cancelled process to end.
// SECURITY.md promises that cancelled jobs are gone within two seconds.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval of keep-alive messages on event streams.
// Proxies close connections without data, nginx after a minute by default.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Lists the routes of jobs.
pub fn routes() -> Vec<Route> {
    const ALL: &str = "/v1/jobs";
    const ONE: &str = "/v1/jobs/{name}";
    vec![
        route!(post ALL, create, "Submit a job")
            .with_request(&requests::JOB)
            .with_response(202, "The job is queued", &responses::JOB_CREATED)
            .with_failures(&[404, 413, 422, 503]),
        route!(get ALL, list, "List the jobs of the tenant").with_response(
            200,
            "The jobs, newest first",
            &responses::JOB_LIST,
        ),
        route!(get ONE, show, "Describe a job").with_response(200, "The job", &responses::JOB),
        route!(delete ONE, cancel, "Cancel a job").with_response(
            200,
            "The job after the cancellation",
            &responses::JOB,
        ),
        route!(get "/v1/jobs/{name}/events", events, "Follow a job, from Last-Event-ID on")
            .with_request(&requests::LAST_EVENT)
            .with_response(200, "Server-sent events", &responses::EVENTS),
        route!(get "/v1/jobs/{name}/receipt", receipt, "Show the receipt of a job that is done")
            .with_response(200, "A signed statement of the server", &responses::RECEIPT),
    ]
}

/// Describes a job to its tenant.
fn view(job: &Job) -> Value {
    let error = job.problem.as_ref();
    json!({
        "id": job.id,
        "state": job.state,
        "request": job.request,
        "progress": { "done": job.done, "total": job.total },
        "predicted": { "seconds": job.seconds, "memory_bytes": job.memory },
        "created": job.created,
        "started": job.started,
        "finished": job.finished,
        "error": error.map(|(kind, detail)| json!({ "kind": kind, "detail": detail })),
        "result": job.result,
    })
}

/// Queues a job. Requests with the same `Idempotency-Key` make one job.
async fn create(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let idempotency = headers.get("idempotency-key").map(|value| {
        let text = value.to_str().ok().filter(|text| text.len() <= MAX_IDEMPOTENCY_CHARS);
        let detail =
            format!("an Idempotency-Key has at most {MAX_IDEMPOTENCY_CHARS} ASCII characters");
        text.map(str::to_owned).ok_or_else(|| Problem::bad("Usage", detail))
    });
    let idempotency = idempotency.transpose()?;
    let request: Request = body::json(body, "request for a job").await?;
    let submission = Submission { tenant, request, idempotency };
    // Before the gate, so that repeated and hopeless requests take no turn.
    let found = blocking(&app, move |app| submission.find(app));
    let job = match found.await? {
        Lookup::Known(job) => *job,
        Lookup::New(submission, files) => {
            let added = blocking(&app, move |app| {
                let mut turn = app.gate.enter(&submission.tenant, files.header_memory()?)?;
                let priced = submission.price(app, &mut turn, files);
                // The next request of the tenant need not wait for the records.
                drop(turn);
                submission.add(app, priced?)
            });
            let (job, is_new) = added.await?;
            if is_new {
                app.wake.send_replace(());
            }
            job
        }
    };
    let location = [(header::LOCATION, format!("/v1/jobs/{}", job.id))];
    Ok((StatusCode::ACCEPTED, location, Json(view(&job))).into_response())
}

/// A request for a job.
struct Submission {
    tenant: String,
    request: Request,
    idempotency: Option<String>,
}

/// Result of looking up a request.
enum Lookup {
    /// The job that the same idempotency key made.
    Known(Box<Job>),
    /// A new request, and its files.
    New(Submission, Files),
}

#[derive(Clone)]
struct Files {
    keys: PathBuf,
    tables: Vec<PathBuf>,
}

impl Files {
    /// Returns the memory for reading all headers, in bytes.
    fn header_memory(&self) -> RolesResult<u64> {
        let mut sum = 0_u64;
        for path in self.tables.iter().chain([&self.keys]) {
            let io = |error| Error::io("read", path, error);
            let mut start = Vec::new();
            let file = File::open(path).map_err(io)?;
            file.take(inspect::START_BYTES as u64).read_to_end(&mut start).map_err(io)?;
            let header = inspect::header_bytes(&start).unwrap_or(0);
            sum = sum.saturating_add(inspect::memory_of(header));
        }
        Ok(sum)
    }
}

impl Submission {
    /// Returns the job if it has the same request.
    fn same(&self, job: Job) -> Answer<Job> {
        if job.request == self.request {
            return Ok(job);
        }
        let detail = "another request used this Idempotency-Key: choose a new one";
        Err(Problem::unusable("IdempotencyKey", detail))
    }

    fn too_many(most: u64) -> Problem {
        let detail = format!("a tenant may have {most} jobs under way: wait for one to end");
        Problem::too_many("TooManyJobs", detail, None)
    }

    /// Looks up a job with the same idempotency key. Otherwise checks the request, and fetches its files.
    fn find(self, app: &Server) -> Answer<Lookup> {
        if let Some(name) = &self.idempotency
            && let Some(known) = app.records.repeated_job(&self.tenant, name)?
        {
            return self.same(known).map(|job| Lookup::Known(Box::new(job)));
        }
        // This check precedes the pricing, which may take seconds.
        let most = app.limits.tenant.jobs;
        if app.records.under_way(&self.tenant)? >= most {
            return Err(Self::too_many(most));
        }
        let files = self.files(app)?;
        app.disk.expect_room(0)?;
        // Last, so that rejected requests use up no audited acts.
        app.count_act(&self.tenant)?;
        Ok(Lookup::New(self, files))
    }

    /// Fetches the files of the job. Rejects everything that is wrong without reading the files.
    fn files(&self, app: &Server) -> Answer<Files> {
        let Self { tenant, request, .. } = self;
        if request.kind != JobKind::Train && (request.history || request.iterations.is_some()) {
            let detail = "only trainings have iterations and a history: leave them out";
            return Err(Problem::unusable("Usage", detail));
        }
        let find = |digest: &str, needed: &[Collection]| {
            let found = app.records.object(tenant, digest)?;
            let found = found.filter(|object| needed.contains(&object.collection));
            let found = found.ok_or_else(|| {
                let needed: Vec<&str> = needed.iter().map(|collection| collection.name()).collect();
                let detail = format!(
                    "{digest:?} is not among your {}: upload it first",
                    needed.join(" and ")
                );
                Problem::new(StatusCode::NOT_FOUND, "NotFound", detail)
            })?;
            Answer::Ok(found)
        };
        let bring = |object: &Object| Answer::Ok(app.store.fetch_object(tenant, &object.digest)?);
        if request.tables.is_empty() || request.tables.len() > MAX_TABLES {
            let detail = format!("pass 1 to {MAX_TABLES} encrypted tables");
            return Err(Problem::unusable("Usage", detail));
        }
        let keys = find(&request.keys, &[Collection::Keys])?;
        let tables = request.tables.iter().map(|digest| find(digest, &[Collection::Tables]));
        let tables = tables.collect::<Answer<Vec<_>>>()?;
        for table in &tables {
            inspect::expect_kind(&table.about, request.kind.name())?;
        }
        let scores = request.kind == JobKind::Predict;
        match &request.model {
            Some(model) if scores => {
                // The price does not depend on the model. A lost file is reported before the job is
                // queued.
                bring(&find(model, &[Collection::Models, Collection::Results])?)?;
            }
            None if !scores => {}
            _ => {
                let detail = "a prediction needs a model, and other jobs must not have one";
                return Err(Problem::unusable("Usage", detail));
            }
        }
        let tables = tables.iter().map(bring).collect::<Answer<_>>()?;
        Ok(Files { keys: bring(&keys)?, tables })
    }

    /// Checks that the files belong together, and predicts the resources of the job. Headers are compared
    /// before parameters are built.
    fn price(&self, app: &Server, turn: &mut Turn<'_>, files: Files) -> Answer<Priced> {
        let threads = app.limits.threads;
        let Request { iterations, history, .. } = self.request;
        let mut priced = || -> Answer<_> {
            let keys = Opened::open(&files.keys, Kind::EvaluationKeys)?;
            keys.meta(&[Content::Keys])?;
            let info = keys.info();
            let mut hasher = blake3::Hasher::new();
            let table_bytes = keys.table_bytes()?;
            // The notes of tables are read with the headers. They take half of what the tables of their
            // prime take.
            let mut memory = table_bytes;
            for path in &files.tables {
                let table = Opened::open(path, Kind::Ciphertexts)?;
                let (_, meta) = table.meta(&[Content::Table])?;
                table.expect_key(info.params_id, info.key_id)?;
                let whole = table.info().bytes.saturating_mul(MAX_UNPACKED);
                let note = (table_bytes / 2).saturating_mul(meta.note.into()).min(whole);
                memory = memory.saturating_add(note);
                hasher.update(&inspect::digest_of_header(path)?);
            }
            hasher.update(&inspect::digest_of_header(&files.keys)?);
            let settings = (iterations, history, threads);
            hasher.update(format!("{settings:?}").as_bytes());
            let of = *hasher.finalize().as_bytes();
            if let Some(priced) = app.priced.get(&of) {
                return Ok(priced);
            }
            // Frees the header before the wait for memory.
            drop(keys);
            turn.reserve(memory)?;
            let Files { keys, tables } = files.clone();
            let question = Question::Price { keys, tables, iterations, history, threads };
            let priced = planning::price(&app.program, question, memory)?;
            app.priced.insert(of, priced);
            Ok(priced)
        };
        priced().map_err(|problem| Problem {
            // Errors name files by their paths, and clients must not learn the server's
            // directories.
            detail: app.store.without_paths(&problem.detail),
            ..problem
        })
    }

    /// Queues the job within the limits. Returns the job, and whether it is new.
    fn add(self, app: &Server, priced: Priced) -> Answer<(Job, bool)> {
        let Priced { seconds, cpu_seconds, memory_bytes, result_bytes } = priced;
        app.disk.expect_room(result_bytes)?;
        // The job could never start, so it must not wait in the queue.
        if memory_bytes > app.limits.memory_bytes {
            let detail = format!(
                "the job needs {memory_bytes} bytes of memory, but jobs may use at most {} on this server",
                app.limits.memory_bytes
            );
            return Err(Problem::unusable("Memory", detail));
        }
        let limits = &app.limits.tenant;
        let cpu = limits.cpu.daily_seconds.into_iter().chain(limits.cpu.total_seconds);
        let most = cpu.fold(f64::INFINITY, f64::min);
        // Even an unused account has no room, so the request is refused for good (422), not for now
        // (429).
        if cpu_seconds > most {
            let detail = format!(
                "the job needs {cpu_seconds:.0} CPU seconds, but the jobs of a tenant may use at most {most}"
            );
            return Err(Problem::unusable("CpuSeconds", detail));
        }
        let new = NewJob {
            id: random_id()?,
            tenant: self.tenant.clone(),
            request: self.request.clone(),
            idempotency: self.idempotency.clone(),
            seconds,
            cpu_seconds,
            memory: memory_bytes,
            result_bytes,
        };
        match app.records.add_job(&new, limits)? {
            Added::New(job) => Ok((job, true)),
            Added::Known(job) => Ok((self.same(job)?, false)),
            Added::Missing(digest) => {
                let detail = format!("{digest:?} was removed: upload it again");
                Err(Problem::new(StatusCode::NOT_FOUND, "NotFound", detail))
            }
            Added::TooMany => Err(Self::too_many(limits.jobs)),
            Added::TooLarge => {
                let detail = format!(
                    "the result may have {result_bytes} bytes: together with your objects, uploads and results \
                     under way, that exceeds the {} bytes of a tenant; remove objects that you no longer \
                     need",
                    limits.bytes
                );
                Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "Quota", detail))
            }
            Added::TooManyObjects => {
                let detail = format!(
                    "a tenant may have {} keys, tables, models and results: remove some that you no longer \
                     need",
                    limits.objects
                );
                Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "Quota", detail))
            }
            Added::TooLong(period) => {
                let detail = format!(
                    "the job needs {cpu_seconds:.0} CPU seconds: together with the time used and the jobs \
                     under way, that exceeds the limit of a tenant; GET /v1/usage shows the limit"
                );
                let tomorrow = SECONDS_A_DAY - now().rem_euclid(SECONDS_A_DAY);
                // Only the limit of a day comes back by itself.
                let retry = u64::try_from(tomorrow).ok().filter(|_| period == CpuPeriod::Day);
                Err(Problem::too_many("CpuSeconds", detail, retry))
            }
        }
    }
}

async fn list(State(app): State<App>, Tenant(tenant): Tenant) -> Answer {
    let jobs = blocking(&app, move |app| app.records.jobs(&tenant, MAX_LISTED)).await?;
    Ok(Json(jobs.iter().map(view).collect::<Vec<_>>()).into_response())
}

async fn find(app: &App, tenant: &str, id: &str) -> Answer<Job> {
    let tenant = tenant.to_owned();
    let id = id.to_owned();
    blocking(app, move |app| app.records.job(&tenant, &id)).await?.ok_or_else(Problem::not_found)
}

async fn show(State(app): State<App>, Tenant(tenant): Tenant, Path(id): Path<String>) -> Answer {
    Ok(Json(view(&find(&app, &tenant, &id).await?)).into_response())
}

/// Cancels a job, unless it has ended, and waits for the end of its process.
async fn cancel(State(app): State<App>, Tenant(tenant): Tenant, Path(id): Path<String>) -> Answer {
    find(&app, &tenant, &id).await?;
    let name = id.clone();
    // Recorded before the process is killed. Otherwise the queue would start the job again.
    blocking(&app, move |app| app.change(&name, None, &Change::Cancelled)).await?;
    let signalled = app.running().get(&id).map(|job| job.signal.clone());
    if let Some(signal) = signalled {
        signal.send_replace(Signal::Kill);
        // The receivers are dropped when the process and the directory of the job are gone.
        let _ = timeout(CANCEL_TIMEOUT, signal.closed()).await;
    } else {
        let name = id.clone();
        blocking(&app, move |app| app.store.remove_job(&name)).await?;
    }
    app.wake.send_replace(());
    Ok(Json(view(&find(&app, &tenant, &id).await?)).into_response())
}

/// Sends the receipt of a job that is done.
async fn receipt(State(app): State<App>, Tenant(tenant): Tenant, Path(id): Path<String>) -> Answer {
    let receipt = find(&app, &tenant, &id).await?.receipt.ok_or_else(|| {
        let detail = "the job is not done, or is older than receipts";
        Problem::new(StatusCode::NOT_FOUND, "NoReceipt", detail)
    })?;
    Ok(([(header::CONTENT_TYPE, "application/json")], receipt).into_response())
}

/// Sends server-sent events about a job. Each event is the job after a change, and its id is the number of
/// changes. A client that reconnects with `Last-Event-ID` receives no event twice.
async fn events(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let last = last.and_then(|text| text.parse().ok()).unwrap_or(0);
    // An unknown job must leave no entry in the map of followers.
    find(&app, &tenant, &id).await?;
    // Subscribe before reading the job, so that no change in between is lost.
    let news = app.events.follow(&id);
    let job = find(&app, &tenant, &id).await?;
    let ending = app.ending.subscribe();
    let following = Following { last, job: Some(job), news, ending, ended: false };
    let events = stream::unfold(following, Following::next);
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_INTERVAL)).into_response())
}

struct Following {
    /// Id of the last event sent.
    last: u64,
    /// The job to send, if it has changed.
    job: Option<Job>,
    news: watch::Receiver<Option<Job>>,
    ending: watch::Receiver<bool>,
    ended: bool,
}

impl Following {
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            if self.ended {
                return None;
            }
            if let Some(job) = self.job.take() {
                self.ended = job.state.is_final();
                if job.seq > self.last {
                    self.last = job.seq;
                    let event = Event::default().id(job.seq.to_string()).event("job");
                    return Some((Ok(event.data(view(&job).to_string())), self));
                }
                continue;
            }
            tokio::select! {
                changed = self.news.changed() => match changed {
                    Ok(()) => self.job = self.news.borrow_and_update().clone(),
                    // All changes are sent.
                    Err(_) => return None,
                },
                // An open stream would hold up the end of the server.
                _ = self.ending.wait_for(|ending| *ending) => return None,
            }
        }
    }
}
