//! Records of jobs.

use super::{
    Records, TenantLimits,
    audit::note,
    database::{Database, Row, Value, unreadable, values},
    objects::{
        Collection, MIN_BYTES, Object, Removal, Removing, add_object, bytes_of, has_object,
        is_kept, objects_of,
    },
    usage::{CpuPeriod, exceeded, under_way},
};
use crate::{
    clock::{Seconds, now},
    job::Request,
    storage::audit::Event,
};
use serde::Serialize;
use std::io;
use sudare_roles::error::Result;

/// Maximum jobs of one query.
// Databases limit the values of a statement, older versions of SQLite to 999.
const NAMED_AT_ONCE: usize = 500;

/// State of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The job waits for room.
    Queued,
    /// A process computes the job.
    Running,
    /// The result is available.
    Done,
    /// The job failed.
    Failed,
    /// The tenant cancelled the job.
    Cancelled,
}

impl State {
    /// All states.
    pub const ALL: [Self; 5] =
        [Self::Queued, Self::Running, Self::Done, Self::Failed, Self::Cancelled];

    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns whether the state never changes again.
    #[must_use]
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

stored_by_name!(State);

/// A job of a tenant.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Name of the job.
    pub id: String,
    /// Owner of the job.
    pub tenant: String,
    /// The request.
    pub request: Request,
    /// State of the job.
    pub state: State,
    /// Number of changes.
    pub seq: u64,
    /// Completed steps.
    pub done: u64,
    /// Total steps, 0 until they are known.
    pub total: u64,
    /// Predicted duration, in seconds.
    pub seconds: f64,
    /// Predicted CPU time, in seconds.
    pub cpu_seconds: f64,
    /// Reserved memory, in bytes.
    pub memory: u64,
    /// Time of the request.
    pub created: Seconds,
    /// Time of the last start.
    pub started: Option<Seconds>,
    /// Time of the end.
    pub finished: Option<Seconds>,
    /// Processes that died on the job since its last new step.
    pub deaths: u32,
    /// Kind and explanation of the error, if the job failed.
    pub problem: Option<(String, String)>,
    /// Fence of the last claim, 0 before the first.
    pub fence: u64,
    /// The worker that last claimed the job, if it was a worker.
    pub worker: Option<String>,
    /// The server that last claimed the job, if it was a server.
    pub server: Option<String>,
    /// Digest of the result.
    pub result: Option<String>,
    /// Signed receipt of the result.
    pub receipt: Option<String>,
}

/// A job to queue.
#[derive(Debug, Clone)]
pub struct NewJob {
    pub id: String,
    pub tenant: String,
    pub request: Request,
    /// Idempotency key, by which a repeated request is recognized.
    pub idempotency: Option<String>,
    pub seconds: f64,
    /// Predicted CPU time, in seconds.
    pub cpu_seconds: f64,
    pub memory: u64,
    /// Maximum size of the result, in bytes.
    pub result_bytes: u64,
}

/// A change of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Completed steps, and total steps.
    Progress(u64, u64),
    /// The process died.
    Died,
    /// The job waits again.
    Requeued,
    /// The job failed, with a kind and an explanation.
    Failed(String, String),
    /// The tenant cancelled the job.
    Cancelled,
}

pub(super) fn job(row: &Row) -> io::Result<Job> {
    let request = serde_json::from_str(&row.get::<String>("request")?)
        .map_err(|error| unreadable(&format!("the request of a job: {error}")))?;
    let problem: (Option<String>, Option<String>) =
        (row.get("problem_kind")?, row.get("problem_detail")?);
    Ok(Job {
        id: row.get("id")?,
        tenant: row.get("tenant")?,
        request,
        state: row.get("state")?,
        seq: row.get("seq")?,
        done: row.get("done")?,
        total: row.get("total")?,
        seconds: row.get("seconds")?,
        cpu_seconds: row.get("cpu_seconds")?,
        memory: row.get("memory")?,
        created: row.get("created")?,
        started: row.get("started")?,
        finished: row.get("finished")?,
        deaths: row.get("deaths")?,
        problem: problem.0.zip(problem.1),
        fence: row.get("fence")?,
        worker: row.get("worker")?,
        server: row.get("server")?,
        result: row.get("result")?,
        receipt: row.get("receipt")?,
    })
}

pub(super) fn by_id(db: &dyn Database, id: &str) -> io::Result<Option<Job>> {
    db.find("SELECT * FROM jobs WHERE id = ?1", &values![id], job)
}

/// Finds the job with an idempotency key. Returns `None` without a key.
fn by_idempotency(
    db: &dyn Database,
    tenant: &str,
    idempotency: Option<&str>,
) -> io::Result<Option<Job>> {
    let sql = "SELECT * FROM jobs WHERE tenant = ?1 AND idempotency = ?2";
    db.find(sql, &values![tenant, idempotency], job)
}

/// Makes the audit event of a job that has ended.
fn event(job: &Job) -> Option<Event<'_>> {
    let Job { tenant, id, state, result, problem, .. } = job;
    let problem = problem.as_ref().map(|(kind, _)| &kind[..]);
    let state = state.is_final().then(|| state.name())?;
    let result = result.as_deref();
    Some(Event::JobEnded { tenant, job: id, state, result, problem })
}

/// Returns a job that has just changed. Records the event if the job has ended.
fn changed(db: &dyn Database, id: &str) -> io::Result<Option<Job>> {
    let job = by_id(db, id)?;
    if let Some(event) = job.as_ref().and_then(event) {
        note(db, &event)?;
    }
    Ok(job)
}

/// Sets the completed steps to `?3` and the total to `?4`. Only a new step resets the deaths, so that a job
/// which dies at the same step each time fails.
pub(super) const STEP_FORWARD: &str = "done = ?3, total = ?4, \
    furthest = CASE WHEN ?3 > furthest THEN ?3 ELSE furthest END, \
    deaths = CASE WHEN ?3 > furthest THEN 0 ELSE deaths END";

/// Outcome of adding a job.
#[derive(Debug, PartialEq)]
pub enum Added {
    /// The job is queued.
    New(Job),
    /// The job exists already, with the same idempotency key.
    Known(Job),
    /// The tenant does not have this object, or no longer.
    Missing(String),
    /// The tenant has the maximum of jobs under way.
    TooMany,
    /// The tenant would exceed its storage with the result.
    TooLarge,
    /// The tenant would exceed its number of objects with the result.
    TooManyObjects,
    /// The tenant would exceed its CPU time.
    TooLong(CpuPeriod),
}

/// Returns whether a job under way uses an object.
fn is_used(db: &dyn Database, tenant: &str, digest: &str) -> io::Result<bool> {
    let sql = "SELECT * FROM jobs WHERE tenant = ?1 AND state IN ('queued', 'running')";
    let jobs = db.all(sql, &values![tenant], job)?;
    Ok(jobs.iter().any(|job| job.request.objects().any(|used| used == digest)))
}

impl Records {
    /// Queues a job, unless it exists, an object is missing, or the tenant would exceed a limit.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn add_job(&self, new: &NewJob, limits: &TenantLimits) -> Result<Added> {
        let NewJob { id, tenant, request, idempotency, seconds, cpu_seconds, memory, .. } = new;
        let text = request.to_json();
        self.write(|db| {
            // First, so that a repeated request finds its job even when the tenant is at a limit.
            if let Some(known) = by_idempotency(db, tenant, idempotency.as_deref())? {
                return Ok(Added::Known(known));
            }
            for digest in request.objects() {
                if !has_object(db, tenant, digest)? {
                    return Ok(Added::Missing(digest.into()));
                }
            }
            // In the transaction of the insertion: requests at the same time cannot exceed a limit
            // together.
            if under_way(db, tenant)? >= limits.jobs {
                return Ok(Added::TooMany);
            }
            if objects_of(db, tenant)?.saturating_add(under_way(db, tenant)?) >= limits.objects {
                return Ok(Added::TooManyObjects);
            }
            let more = new.result_bytes.max(MIN_BYTES);
            if bytes_of(db, tenant)?.saturating_add(more) > limits.bytes {
                return Ok(Added::TooLarge);
            }
            let now = now();
            if let Some(period) = exceeded(db, tenant, *cpu_seconds, &limits.cpu, now)? {
                return Ok(Added::TooLong(period));
            }
            // Times have whole seconds, so a number gives the order of jobs within a second.
            let sql = "INSERT INTO jobs (id, tenant, request, idempotency, state, seq, done, total, \
                       seconds, cpu_seconds, memory, result_bytes, created, deaths, number) \
                       VALUES (?1, ?2, ?3, ?4, 'queued', 1, 0, 0, ?5, ?6, ?7, ?8, ?9, 0, \
                       (SELECT coalesce(max(number), 0) + 1 FROM jobs))";
            let name = idempotency.as_deref();
            let seconds = *seconds;
            let cpu = *cpu_seconds;
            let mut values = values![id, tenant, &text, name, seconds, cpu].to_vec();
            values.extend(values![memory, new.result_bytes, now]);
            db.execute(sql, &values)?;
            let job = by_id(db, id)?.ok_or_else(|| unreadable("a new job is missing"))?;
            let Request { kind, keys, tables, model, .. } = &job.request;
            let kind = kind.name();
            let model = model.as_deref();
            note(db, &Event::JobSubmitted { tenant, job: id, kind, keys, tables, model })?;
            Ok(Added::New(job))
        })
    }

    /// Deletes an object, unless a job under way uses it. `server` must then remove its file
    /// ([`Records::claim_removal`]).
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn remove_object(&self, tenant: &str, digest: &str, server: &str) -> Result<Removal> {
        self.write(|db| {
            if is_used(db, tenant, digest)? {
                return Ok(Removal::InUse);
            }
            let named = values![tenant, digest];
            // Rows of complete uploads would still say that the server has the file.
            db.execute("DELETE FROM uploads WHERE tenant = ?1 AND digest = ?2", &named)?;
            let sql = "DELETE FROM objects WHERE tenant = ?1 AND digest = ?2 RETURNING collection";
            let gone: Option<Collection> = db.find(sql, &named, Row::first)?;
            let Some(collection) = gone.map(Collection::name) else { return Ok(Removal::Absent) };
            let sql = "INSERT INTO removals (tenant, digest, server, since) \
                       VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
            db.execute(sql, &values![tenant, digest, server, now()])?;
            note(db, &Event::ObjectDeleted { tenant, collection, object: digest })?;
            Ok(Removal::Begun)
        })
    }

    /// Finds the job with an idempotency key.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn repeated_job(&self, tenant: &str, idempotency: &str) -> Result<Option<Job>> {
        self.read(|db| by_idempotency(db, tenant, Some(idempotency)))
    }

    /// Finds a job of a tenant by name.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn job(&self, tenant: &str, id: &str) -> Result<Option<Job>> {
        // Jobs of other tenants are not even read, so that timing does not reveal them.
        let sql = "SELECT * FROM jobs WHERE id = ?1 AND tenant = ?2";
        self.read(|db| db.find(sql, &values![id, tenant], job))
    }

    /// Finds the jobs with these names.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn jobs_named(&self, ids: &[String]) -> Result<Vec<Job>> {
        let mut found = Vec::new();
        for ids in ids.chunks(NAMED_AT_ONCE) {
            let numbers: Vec<String> = (1..=ids.len()).map(|at| format!("?{at}")).collect();
            let sql = format!("SELECT * FROM jobs WHERE id IN ({})", numbers.join(", "));
            let values: Vec<Value> = ids.iter().map(Value::from).collect();
            found.extend(self.read(|db| db.all(&sql, &values, job))?);
        }
        Ok(found)
    }

    /// Returns the state of a job, of any tenant.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn state_of(&self, id: &str) -> Result<Option<State>> {
        Ok(self.read(|db| by_id(db, id))?.map(|job| job.state))
    }

    /// Lists at most `most` jobs of a tenant, newest first.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn jobs(&self, tenant: &str, most: u32) -> Result<Vec<Job>> {
        let sql = "SELECT * FROM jobs WHERE tenant = ?1 \
                   ORDER BY created DESC, number DESC LIMIT ?2";
        self.read(|db| db.all(sql, &values![tenant, most], job))
    }

    /// Lists the jobs of all tenants in a state, oldest first.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn jobs_in(&self, state: State) -> Result<Vec<Job>> {
        let sql = "SELECT * FROM jobs WHERE state = ?1 ORDER BY created, number";
        self.read(|db| db.all(sql, &values![state], job))
    }

    /// Completes a job under its fence with a result, which becomes an object: `adopt` moves the file.
    /// Returns the job. Does nothing, and does not call `adopt`, if the job has ended or is no longer held
    /// under that fence. `adopt` must not use the records. `done` is the number of finished removals before
    /// the file was uploaded to the shared store.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails; errors of `adopt`, which leave
    /// the records unchanged.
    pub fn finish(
        &self,
        id: &str,
        fence: u64,
        result: &Object,
        receipt: &str,
        done: u64,
        adopt: impl FnOnce() -> Result<()>,
    ) -> Result<core::result::Result<Option<Job>, Removing>> {
        let sql = "UPDATE jobs SET seq = seq + 1, state = 'done', done = total, finished = ?2, \
                   result = ?3, receipt = ?4 WHERE id = ?1";
        let held = "SELECT EXISTS \
                    (SELECT 1 FROM jobs WHERE id = ?1 AND fence = ?2 AND state = 'running')";
        let mut adopted = Ok(());
        let finished = self.write_once(|db| {
            if !db.value::<bool>(held, &values![id, fence])? {
                return Ok(Ok(None));
            }
            if !is_kept(db, result, done)? {
                return Ok(Err(Removing));
            }
            // Within the transaction: if the commit fails, there is a file without a record, but no
            // record without a file.
            adopted = adopt();
            if adopted.is_err() {
                return Ok(Ok(None));
            }
            add_object(db, result)?;
            db.execute(sql, &values![id, result.created, &result.digest, receipt])?;
            changed(db, id).map(Ok)
        })?;
        adopted.map(|()| finished)
    }

    /// Records a change of a job under way. A change by the job's process names its fence, any other change
    /// has none. Returns the job, or nothing if it has ended or is no longer held under that fence.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn change(&self, id: &str, fence: Option<u64>, change: &Change) -> Result<Option<Job>> {
        let mut values = values![id, fence].to_vec();
        let set = match change {
            Change::Progress(done, total) => {
                values.extend(values![done, total]);
                STEP_FORWARD
            }
            Change::Died => "state = 'queued', deaths = deaths + 1",
            Change::Requeued => "state = 'queued'",
            Change::Failed(kind, detail) => {
                values.extend(values![kind, detail, now()]);
                "state = 'failed', problem_kind = ?3, problem_detail = ?4, finished = ?5"
            }
            Change::Cancelled => {
                values.extend(values![now()]);
                "state = 'cancelled', finished = ?3"
            }
        };
        let sql = format!(
            "UPDATE jobs SET seq = seq + 1, {set} \
             WHERE id = ?1 AND state IN ('queued', 'running') \
             AND (CAST(?2 AS BIGINT) IS NULL OR (fence = ?2 AND state = 'running'))"
        );
        self.write(|db| match db.execute(&sql, &values)? {
            0 => Ok(None),
            _ => changed(db, id),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::records::testing::{places, send_objects};
    use crate::{
        job::Kind,
        storage::records::{Claimant, Collection},
    };
    use sudare_roles::error::Error;

    const SERVER: Claimant<'_> = Claimant::Server { name: "one", until: None };

    fn new(id: &str, tenant: &str, idempotency: Option<&str>) -> NewJob {
        let request = Request {
            kind: Kind::Train,
            keys: "k".repeat(64),
            tables: vec!["t".repeat(64)],
            model: None,
            iterations: Some(3),
            history: true,
        };
        let id = id.into();
        let tenant = tenant.into();
        let idempotency = idempotency.map(Into::into);
        let seconds = 1.5;
        let cpu_seconds = 3.0;
        let memory = 1 << 40;
        let result_bytes = 5000;
        NewJob { id, tenant, request, idempotency, seconds, cpu_seconds, memory, result_bytes }
    }

    #[test]
    fn jobs_go_through_their_states_once() {
        for place in places() {
            let records = place.open();
            ["a", "b"].iter().for_each(|tenant| {
                send_objects(&records, tenant, &new("", tenant, None).request);
            });
            // Each tenant has two objects, which count as a block each, and two results of 5,000 bytes.
            let limits = TenantLimits { jobs: 3, bytes: 21_500, ..TenantLimits::default() };
            let add = |new: &NewJob| records.add_job(new, &limits);
            let Added::New(job) = add(&new("1", "a", Some("x"))).unwrap() else {
                panic!("it is new");
            };
            assert_eq!((job.state, job.memory, job.seconds), (State::Queued, 1 << 40, 1.5));
            assert_eq!(job.request, new("1", "a", None).request);
            // A repeated request makes no second job, even with another name for the job. Other tenants
            // have their own keys.
            let again = add(&new("2", "a", Some("x"))).unwrap();
            assert!(matches!(again, Added::Known(known) if known == job));
            assert!(matches!(add(&new("3", "b", Some("x"))).unwrap(), Added::New(_)));
            assert!(matches!(add(&new("4", "a", None)).unwrap(), Added::New(_)));
            assert_eq!(add(&new("5", "a", None)).unwrap(), Added::TooLarge);
            let few = TenantLimits { objects: 4, ..TenantLimits::default() };
            let fifth = records.add_job(&new("5", "a", None), &few).unwrap();
            assert_eq!(fifth, Added::TooManyObjects);
            assert_eq!(records.bytes_of("a").unwrap(), 2 * MIN_BYTES + 10_000);
            let small = NewJob { result_bytes: 0, ..new("5", "b", None) };
            assert!(matches!(add(&small).unwrap(), Added::New(_)));
            let small = NewJob { id: "7".into(), ..small };
            assert!(matches!(add(&small).unwrap(), Added::New(_)));
            assert_eq!(add(&NewJob { id: "8".into(), ..small }).unwrap(), Added::TooMany);
            assert_eq!(records.job("b", "1").unwrap(), None);
            let remove = || records.remove_object("a", &"k".repeat(64), "one").unwrap();
            assert_eq!(remove(), Removal::InUse);

            let change = |change| records.change("1", None, &change).unwrap();
            let started = records.claim("1", SERVER, now()).unwrap().unwrap();
            assert_eq!((started.state, started.fence), (State::Running, 1));
            let died = change(Change::Died).unwrap();
            assert_eq!((died.state, died.deaths), (State::Queued, 1));
            let forward = change(Change::Progress(2, 3)).unwrap();
            assert_eq!((forward.done, forward.total, forward.deaths), (2, 3, 0));
            // Steps that were complete before the death are no step forward.
            change(Change::Died).unwrap();
            for done in 0..=2 {
                assert_eq!(change(Change::Progress(done, 3)).unwrap().deaths, 1);
            }
            assert_eq!(change(Change::Progress(3, 3)).unwrap().deaths, 0);
            let result = Object {
                tenant: "a".into(),
                digest: "d".into(),
                collection: Collection::Results,
                bytes: 7,
                created: now(),
                about: serde_json::Value::Null,
            };
            let bug = || Error::Bug("a disk".into());
            // An outdated claim completes nothing, and neither does a file that cannot be moved.
            let unused = || panic!("nothing is adopted");
            assert_eq!(records.finish("1", 1, &result, "r", 0, unused).unwrap(), Ok(None));
            let claimed = records.claim("1", SERVER, now()).unwrap().unwrap();
            assert_eq!((claimed.fence, claimed.done), (2, 3));
            assert_eq!(records.finish("1", 1, &result, "r", 0, unused).unwrap(), Ok(None));
            records.finish("1", 2, &result, "r", 0, || Err(bug())).unwrap_err();
            assert_eq!(records.finish("1", 2, &result, "r", 1, unused).unwrap(), Err(Removing));
            assert_eq!(records.state_of("1").unwrap(), Some(State::Running));
            assert_eq!(records.object("a", "d").unwrap(), None);
            let done =
                records.finish("1", 2, &result, "r", 0, || Ok(())).unwrap().unwrap().unwrap();
            assert_eq!(records.object("a", "d").unwrap(), Some(result.clone()));
            assert_eq!(records.finish("1", 2, &result, "r", 0, unused).unwrap(), Ok(None));
            assert_eq!((done.state, done.done, done.seq), (State::Done, 3, 11));
            assert_eq!((done.result.as_deref(), done.receipt.as_deref()), (Some("d"), Some("r")));
            assert!(done.finished >= done.started && done.started >= Some(done.created));
            // A job that has ended never changes.
            assert_eq!(change(Change::Cancelled), None);
            assert_eq!(records.job("a", "1").unwrap(), Some(done));
            let failed =
                records.change("4", None, &Change::Failed("Memory".into(), "why".into())).unwrap();
            assert_eq!(failed.unwrap().problem, Some(("Memory".into(), "why".into())));
            assert_eq!(remove(), Removal::Begun);
            let gone = new("6", "a", None);
            assert_eq!(add(&gone).unwrap(), Added::Missing(gone.request.keys));
            assert_eq!(records.jobs("a", 10).unwrap().len(), 2);
            assert_eq!(records.jobs_in(State::Queued).unwrap().len(), 3);
        }
    }
}
