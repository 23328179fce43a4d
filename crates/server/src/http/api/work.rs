//! `/v1/work`: workers on other machines claim jobs under leases, which they renew.

use super::{
    access::{Path, count_open, forbidden, owner},
    body,
    download::download,
    route::{Route, route},
    spec::{requests, responses},
};
use crate::{
    accounts::token::Owner,
    clock::{SECONDS_A_DAY, Seconds, now},
    cluster::{
        addresses::Address,
        lease::{Assignment, Blob, Leaving, Offer, Report},
    },
    jobs::app::{App, Server, blocking},
    private::make_private,
    problem::{Answer, Problem, REMOVAL_PATIENCE},
    storage::{
        records::{Change, Job, Removing, State as JobState},
        store::Store,
    },
};
use axum::{
    Json,
    body::{Body, Bytes},
    extract::FromRequestParts,
    extract::State,
    http::{HeaderMap, StatusCode, request::Parts},
    response::IntoResponse,
};
use serde_json::json;
use std::{collections::HashMap, io::Write, path::PathBuf, time::Duration};
use sudare_roles::{
    error::{Error, Result as RolesResult},
    os::files::{self, Access, NewFile},
    server::checkpoint::{StateFile, remove_other_states},
};
use tokio::time::{Instant, sleep_until};

/// Maximum time that one request waits for a job, in seconds.
// Proxies close silent requests after a minute by default.
const MAX_WAIT_SECONDS: u64 = 30;
/// Lifetime of a signed URL, if the lease lasts as long.
const ADDRESS_SECONDS: Seconds = SECONDS_A_DAY;
/// Maximum characters of a worker's message about a failed job.
// A worker may be compromised, and tenants and records get this text.
const MAX_DETAIL_CHARS: usize = 4096;

/// Lists the routes for workers.
pub fn routes() -> Vec<Route> {
    const JOB: &str = "/v1/work/{name}/{fence}";
    let of_job = |rest: &str| format!("{JOB}/{rest}");
    vec![
        route!(post "/v1/work/claim", claim, "Claim a job")
            .with_request(&requests::OFFER)
            .with_response(200, "A job under a lease", &responses::ASSIGNMENT)
            .with_response(204, "No job is waiting", &responses::EMPTY)
            .with_failures(&[409]),
        route!(post of_job("renew"), renew, "Renew the lease of a job, and report its progress")
            .with_request(&requests::REPORT)
            .with_response(200, "Seconds until the lease ends", &responses::LEASE)
            .with_failures(&[409]),
        route!(post of_job("leave"), leave, "Return a job without a result")
            .with_request(&requests::LEAVING)
            .with_response(204, "The worker no longer has the job", &responses::EMPTY)
            .with_failures(&[409]),
        route!(put of_job("result/{digest}"), put_result, "Submit the result of a job")
            .with_request(&requests::FILE)
            .with_response(204, "The job is done", &responses::EMPTY)
            .with_failures(&[409, 413, 422, 503]),
        route!(put of_job("states/{file}/{digest}"), put_state, "Store a state of a training")
            .with_request(&requests::FILE)
            .with_response(204, "The state is stored", &responses::EMPTY)
            .with_failures(&[400, 409, 413, 422]),
        route!(
            get of_job("files/{expires}/{signature}/{file}"),
            file,
            "Download a file of a job by a signed URL"
        )
        .with_request(&requests::RANGE)
        .with_response(200, "The whole file", &responses::FILE)
        .with_response(206, "The requested range of the file", &responses::FILE_RANGE)
        .with_failures(&[403, 404, 409, 500, 507])
        .public(),
    ]
}

/// The worker whose token authenticates the request.
pub struct Worker(pub String);

/// The job in the path of a request, which the worker has claimed under the fence in the path.
pub struct Claimed(pub Job);

impl FromRequestParts<App> for Worker {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let owner = owner(parts, app).await?;
        count_open(parts, app, &owner)?;
        match owner {
            Owner::Worker(worker) => Ok(Self(worker)),
            Owner::Tenant(_) => {
                Err(forbidden("this is a token of a tenant: use a token of a worker"))
            }
        }
    }
}

impl FromRequestParts<App> for Claimed {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let Worker(worker) = Worker::from_request_parts(parts, app).await?;
        let Path(path) = Path::<HashMap<String, String>>::from_request_parts(parts, app).await?;
        let fence = path.get("fence").and_then(|text| text.parse::<u64>().ok());
        let (id, fence) = path.get("name").cloned().zip(fence).ok_or_else(Problem::not_found)?;
        let found = blocking(app, move |app| {
            let held = app.records.leased_job(&id, fence)?;
            // Names and numbers of leases are no secrets, so the token must be the claimant's.
            let held = held.filter(|job| job.worker.as_ref() == Some(&worker));
            held.ok_or_else(|| stale(app, &id))
        });
        found.await.map(Self)
    }
}

/// Explains that a job is not the worker's, or no longer.
pub fn stale(app: &Server, id: &str) -> Problem {
    match app.records.state_of(id) {
        Ok(Some(JobState::Cancelled)) => {
            Problem::conflict("Cancelled", "the tenant cancelled this job: leave it")
        }
        Ok(_) => {
            let detail =
                "the lease with this number has ended: leave the job, and claim another one";
            Problem::conflict("Stale", detail)
        }
        Err(error) => error.into(),
    }
}

/// Claims a job. Waits if no job fits.
async fn claim(State(app): State<App>, Worker(worker): Worker, body: Body) -> Answer {
    let Offer { program, memory_bytes, wait_seconds } =
        body::json(body, "offer of a worker").await?;
    let own = env!("CARGO_PKG_VERSION");
    if program != own {
        let detail = format!(
            "the worker runs sudare {program}, and the server {own}: install the same version, since others \
             may compute other results and cannot resume trainings"
        );
        return Err(Problem::conflict("OtherProgram", detail));
    }
    let wait = Duration::from_secs(wait_seconds.min(MAX_WAIT_SECONDS));
    let until = Instant::now() + wait;
    let mut ending = app.ending.subscribe();
    let mut news = app.wake.subscribe();
    loop {
        // Before the look into the queue, so that a job queued meanwhile wakes this loop.
        news.borrow_and_update();
        if !*ending.borrow() {
            let worker = worker.clone();
            let claimed = blocking(&app, move |app| {
                let job = app.claim_for(&worker, memory_bytes)?;
                job.map(|job| assignment(app, &job)).transpose()
            });
            if let Some(assignment) = claimed.await? {
                return Ok(Json(assignment).into_response());
            }
        }
        tokio::select! {
            _ = news.changed() => {}
            _ = ending.wait_for(|ending| *ending) => break,
            () = sleep_until(until) => break,
        }
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Describes a claimed job to its worker.
fn assignment(app: &Server, job: &Job) -> RolesResult<Assignment> {
    let expires = now().saturating_add(ADDRESS_SECONDS);
    let blob = |name: &str, digest: String, bytes: u64| {
        let address = Address { job: &job.id, fence: job.fence, expires, name };
        Blob { name: name.into(), digest, bytes, path: app.addresses.path(&address) }
    };
    let object = |digest: &String| {
        let known = app.records.object(&job.tenant, digest)?;
        // A missing object fails when the worker downloads it.
        let bytes = known.map_or(0, |object| object.bytes);
        Ok(blob(digest, digest.clone(), bytes))
    };
    app.store.fetch_states(&job.id)?;
    let folder = Store::states_in(&app.store.job(&job.id));
    let state = |file: StateFile| {
        let name = file.name();
        let path = folder.join(file.name());
        let bytes = path.metadata().map_err(|error| Error::io("read", &path, error))?.len();
        Ok(blob(&name, files::digest(&path)?, bytes))
    };
    let request = &job.request;
    Ok(Assignment {
        job: job.id.clone(),
        fence: job.fence,
        lease_seconds: app.limits.lease_seconds.into(),
        done: job.done,
        total: job.total,
        kind: request.kind,
        iterations: request.iterations,
        history: request.history,
        most_cpu_seconds: app.most_cpu_seconds(job),
        keys: object(&request.keys)?,
        tables: request.tables.iter().map(object).collect::<RolesResult<_>>()?,
        model: request.model.as_ref().map(object).transpose()?,
        states: StateFile::all_in(&folder)?.into_iter().map(state).collect::<RolesResult<_>>()?,
    })
}

/// Renews a lease, and records the progress.
async fn renew(State(app): State<App>, Claimed(job): Claimed, body: Body) -> Answer {
    let report: Report = body::json(body, "report of a worker").await?;
    blocking(&app, move |app| {
        let until = app.lease_end();
        let fence = job.fence;
        let renewed = app.records.renew(&job.id, fence, until, &report, now())?;
        let renewed = renewed.ok_or_else(|| stale(app, &job.id))?;
        if renewed.seq > job.seq {
            app.events.publish(&renewed);
        }
        Ok::<_, Problem>(())
    })
    .await?;
    let seconds = app.limits.lease_seconds;
    Ok(Json(json!({ "lease_seconds": seconds })).into_response())
}

/// Sends a file to a worker that has a signed URL.
async fn file(
    State(app): State<App>,
    Path((job, fence, expires, signature, name)): Path<(String, String, String, String, String)>,
    headers: HeaderMap,
) -> Answer {
    let found = blocking(&app, move |app| {
        let forbidden = || {
            let detail = "the server did not sign this URL, or it has expired: request a new one";
            Problem::new(StatusCode::FORBIDDEN, "Address", detail)
        };
        // The signature comes before any look-up, so that strangers do not learn which jobs exist.
        let numbers = fence.parse::<u64>().ok().zip(expires.parse::<Seconds>().ok());
        let (fence, expires) = numbers.ok_or_else(forbidden)?;
        let address = Address { job: &job, fence, expires, name: &name };
        if !app.addresses.is_valid(&address, &signature, now()) {
            return Err(forbidden());
        }
        // A URL ends with its lease, even before its day is over.
        let held = app.records.leased_job(&job, fence)?.ok_or_else(|| stale(app, &job))?;
        let path = match StateFile::of_name(&name) {
            Some(file) => {
                let path = Store::states_in(&app.store.job(&held.id)).join(file.name());
                if !path.exists() {
                    // Another server may have had the claim.
                    app.store.fetch_states(&held.id)?;
                }
                // A later state may have replaced it.
                path.exists().then_some(path).ok_or_else(Problem::not_found)?
            }
            // The signature covers the name, so the job uses this object.
            None => app.store.fetch_object(&held.tenant, &name)?,
        };
        Ok((path, name))
    });
    let (path, name) = found.await?;
    download(&app, &path, &name, &headers).await
}

/// Stores a state of a training.
async fn put_state(
    State(app): State<App>,
    Claimed(job): Claimed,
    Path((_, _, name, digest)): Path<(String, String, String, String)>,
    body: Body,
) -> Answer {
    let state = StateFile::of_name(&name).ok_or_else(|| {
        Problem::bad("Usage", format!("{name:?} is not a valid name for a state of a training"))
    })?;
    let folder = Store::states_in(&app.store.job(&job.id));
    let file = receive(&app, &job, folder.join(state.name()), digest, body).await?;
    blocking(&app, move |app| {
        let kept = || {
            file.finish()?;
            match state {
                StateFile::State(iterations) => remove_other_states(&folder, iterations),
                StateFile::Weights(_) => Ok(()),
            }
        };
        // In the transaction that checks the fence: a stale worker must not replace a state of the
        // next one.
        let kept = app.records.under_lease(&job.id, job.fence, app.lease_end(), kept)?;
        kept.ok_or_else(|| stale(app, &job.id))?;
        Ok::<_, Problem>(app.store.share_state(&job.id, state)?)
    })
    .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Stores the result of a job, which completes it.
async fn put_result(
    State(app): State<App>,
    Claimed(job): Claimed,
    Path((_, _, digest)): Path<(String, String, String)>,
    body: Body,
) -> Answer {
    let path = Store::result_in(&app.store.job(&job.id));
    let file = receive(&app, &job, path.clone(), digest, body).await?;
    blocking(&app, move |app| {
        let finish = || file.finish();
        // As for states: only the holder of the lease may name the file.
        let written = app.records.under_lease(&job.id, job.fence, app.lease_end(), finish)?;
        written.ok_or_else(|| stale(app, &job.id))?;
        let kept = app.keep_result(&job, &path, REMOVAL_PATIENCE)?;
        kept.map_err(|Removing| Problem::removing())?.ok_or_else(|| stale(app, &job.id))
    })
    .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Takes a job back without a result.
async fn leave(State(app): State<App>, Claimed(job): Claimed, body: Body) -> Answer {
    let why: Leaving = body::json(body, "reason of a worker").await?;
    blocking(&app, move |app| {
        let short = |text: String| text.chars().take(MAX_DETAIL_CHARS).collect();
        let change = match why {
            Leaving::Released => Change::Requeued,
            Leaving::Died => app.change_after_death(&job, "at a worker")?,
            Leaving::Failed { kind, detail } => Change::Failed(short(kind), short(detail)),
        };
        app.leave(&job, &change)?.ok_or_else(|| stale(app, &job.id))
    })
    .await?;
    app.wake.send_replace(());
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Receives a file of a job from its worker. The file has no name until it is finished.
async fn receive(
    app: &App,
    job: &Job,
    path: PathBuf,
    digest: String,
    body: Body,
) -> Answer<NewFile> {
    let of = job.clone();
    let writing = blocking(app, move |app| Writing::begin(app, &of, path)).await?;
    let (mut writing, written, passed_on) =
        body::consume(app, body, writing, Writing::write).await?;
    passed_on.and(written)?;
    let found = writing.hasher.finalize().to_string();
    if found == digest {
        // Sync the data before the records are locked for the name.
        let synced = blocking(app, move |_| writing.file.sync().map(|()| writing.file));
        return Ok(synced.await?);
    }
    let detail = format!(
        "the received file has the digest {found}, not the declared {digest}: send it again"
    );
    Err(Problem::unusable("DigestMismatch", detail))
}

/// A new file of a job, and the digest of its data.
struct Writing {
    path: PathBuf,
    file: NewFile,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl Writing {
    fn begin(app: &Server, job: &Job, path: PathBuf) -> Answer<Self> {
        let folder = app.store.job(&job.id);
        // A cancelled job has no directory any more.
        let begin = || {
            make_private(&Store::states_in(&folder))?;
            NewFile::create(&path, Access::Shared, true)
        };
        let begun = app.records.under_lease(&job.id, job.fence, app.lease_end(), begin)?;
        let file = begun.ok_or_else(|| stale(app, &job.id))?;
        Ok(Self { path, file, hasher: blake3::Hasher::new(), bytes: 0 })
    }

    fn write(&mut self, app: &Server, chunk: Bytes) -> Answer<()> {
        self.bytes = self.bytes.saturating_add(chunk.len() as u64);
        // A compromised worker must not fill the disk.
        if self.bytes > app.limits.tenant.bytes {
            let detail = format!(
                "the file exceeds the {} bytes that a tenant may have",
                app.limits.tenant.bytes
            );
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "Quota", detail));
        }
        self.hasher.update(&chunk);
        let written = self.file.write_all(&chunk);
        Ok(written.map_err(|error| Error::io("write", &self.path, error))?)
    }
}
