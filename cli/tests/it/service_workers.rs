//! Workers of a service: jobs on other machines, whatever is lost, and nothing else for who works there.

use crate::common::computed::{ask, digest, expect_result, origin, upload};
use crate::common::server::{Answer, Random, Service, children, in_full, signal};
use crate::common::{Run, sudare_at};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Sends the keys and the table of a job, and asks for it by this name for repetitions; returns its own.
fn submit(service: &Service, token: &str, kind: &str, name: &str) -> String {
    upload(service, token, kind);
    ask(service, token, kind, name)
}

fn done(service: &Service, token: &str, id: &str) -> u64 {
    let job = service.get(&format!("/v1/jobs/{id}"), token).json();
    job["progress"]["done"].as_u64().unwrap()
}

/// A worker in a process, which is killed when it is dropped.
struct Worker {
    process: Child,
    url: String,
    token: PathBuf,
    folder: TempDir,
}

impl Worker {
    fn start(service: &Service, name: &str) -> Self {
        let url = service.url();
        let token = service.token_file(&service.worker_token(name));
        let folder = tempfile::tempdir().unwrap();
        Self { process: spawn(&url, &token, folder.path()), url, token, folder }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Kills it, and starts it again with the folder that it has.
    fn kill_and_restart(&mut self) {
        self.kill();
        self.process = spawn(&self.url, &self.token, self.folder.path());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(url: &str, token: &Path, folder: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_sudare"))
        .args(["work", "--server", url, "--token-file"])
        .arg(token)
        .arg("--folder")
        .arg(folder)
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// The events of the audit log of a kind.
fn events(service: &Service, kind: &str) -> Vec<Value> {
    let text = fs::read_to_string(service.folder.join("audit/audit-0000000000000001.jsonl"));
    let text = text.unwrap();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["event"] == kind).collect()
}

/// What workers compute is what the command computes; keys are fetched once.
#[test]
fn results_of_workers_equal_the_command() {
    let service = Service::start(&["--jobs", "0"]);
    let token = service.token("clinic");
    let worker = Worker::start(&service, "north");
    for kind in ["stats", "train"] {
        let id = submit(&service, &token, kind, kind);
        expect_result(&service, &token, &id, kind);
        // The server signs the receipt, as for jobs of its own.
        service.remote(origin(), &token, &format!("wait {id} -o {kind}-remote.ct")).ok();
    }
    let started = events(&service, "job-started");
    assert_eq!(started.len(), 2);
    assert!(started.iter().all(|event| event["worker"] == "north"), "{started:?}");
    let mut kept = crate::common::names(&worker.folder.path().join("objects"));
    let mut needed =
        ["stats/evaluation.key", "stats.ct", "train/evaluation.key", "train.ct"].map(digest);
    kept.sort();
    needed.sort();
    assert_eq!(kept, needed);
    assert_eq!(crate::common::names(&service.folder.join("jobs")), [""; 0]);
    let usage = service.get("/v1/usage", &token).json();
    assert!(usage["cpu_seconds"]["total"].as_f64().unwrap() > 0.1, "{usage}");
}

/// A worker is lost in the middle of a training, and another one goes on from its last state.
#[test]
fn a_lost_worker_is_replaced() {
    let service = Service::start(&["--jobs", "0", "--lease", "2"]);
    let token = service.token("clinic");
    let mut workers = ["north", "south"].map(|name| Worker::start(&service, name));
    let id = submit(&service, &token, "train", "x");
    service.until(&token, &id, |job| job["progress"]["done"].as_u64() >= Some(1));
    let holds = |worker: &&mut Worker| !children(&worker.process).is_empty();
    let holder = workers.iter_mut().find(holds).unwrap();
    let begun = Instant::now();
    holder.kill();
    let steps = done(&service, &token, &id);
    service.until(&token, &id, |job| {
        assert!(job["progress"]["done"].as_u64() >= Some(steps), "{job}");
        job["progress"]["done"].as_u64() > Some(steps) || job["state"] == "done"
    });
    assert!(begun.elapsed() < Duration::from_secs(60));
    expect_result(&service, &token, &id, "train");
    let expired = events(&service, "lease-expired");
    assert_eq!((expired.len(), &expired[0]["job"]), (1, &id.into()));
    let names: Vec<Value> =
        events(&service, "job-started").iter().map(|event| event["worker"].clone()).collect();
    assert_eq!(names.len(), 2);
    assert_ne!(names[0], names[1]);
}

/// A worker that is told to end leaves its job at once, with its last state, and needs no lease to end.
#[test]
fn a_worker_that_ends_leaves_its_job() {
    let service = Service::start(&["--jobs", "0", "--lease", "3600"]);
    let token = service.token("clinic");
    let mut first = Worker::start(&service, "north");
    let id = submit(&service, &token, "train", "x");
    service.until(&token, &id, |job| job["progress"]["done"].as_u64() >= Some(1));
    signal("TERM", first.process.id());
    assert!(first.process.wait().unwrap().success());
    let steps = done(&service, &token, &id);
    let job = service.get(&format!("/v1/jobs/{id}"), &token).json();
    assert!(job["state"] == "queued" || job["state"] == "done", "{job}");
    assert_eq!(crate::common::names(&first.folder.path().join("objects")).len(), 2);
    let _second = Worker::start(&service, "south");
    service.until(&token, &id, |job| {
        assert!(job["progress"]["done"].as_u64() >= Some(steps), "{job}");
        job["state"] == "done"
    });
    expect_result(&service, &token, &id, "train");
}

/// Requests of a worker, without one.
struct Raw<'a> {
    service: &'a Service,
    token: String,
}

impl Raw<'_> {
    fn send(&self, head: &str, body: &[u8]) -> Answer {
        self.service.send(head, &self.token, "", body.len(), body)
    }

    fn claim(&self, memory: u64) -> Answer {
        let program = env!("CARGO_PKG_VERSION");
        let offer = json!({ "program": program, "memory_bytes": memory, "wait_seconds": 0 });
        self.send("POST /v1/work/claim", offer.to_string().as_bytes())
    }

    /// Claims a job that is there.
    fn claimed(&self) -> Value {
        let claimed = self.claim(1 << 40);
        assert_eq!(claimed.status, 200, "{claimed:?}");
        claimed.json()
    }

    fn put(&self, of: &Value, what: &str, bytes: &[u8], digest: &str) -> Answer {
        let job = of["job"].as_str().unwrap();
        let fence = &of["fence"];
        self.send(&format!("PUT /v1/work/{job}/{fence}/{what}/{digest}"), bytes)
    }

    fn finish(&self, of: &Value, result: &[u8]) -> Answer {
        self.put(of, "result", result, blake3::hash(result).to_hex().as_str())
    }

    fn post(&self, of: &Value, what: &str, body: &Value) -> Answer {
        let job = of["job"].as_str().unwrap();
        let fence = &of["fence"];
        self.send(&format!("POST /v1/work/{job}/{fence}/{what}"), body.to_string().as_bytes())
    }

    fn renew(&self, of: &Value) -> Answer {
        self.post(of, "renew", &json!({ "done": 1, "total": 4, "cpu_milliseconds": 10 }))
    }
}

/// A worker whose lease has ended hands nothing in, a hundred times, and neither does another one that
/// knows the number of the lease.
#[test]
fn data_of_stale_workers_is_refused() {
    let service = Service::start(&["--jobs", "0"]);
    let token = service.token("clinic");
    let id = submit(&service, &token, "stats", "x");
    let raw = |name: &str| Raw { service: &service, token: service.worker_token(name) };
    let [north, south] = ["north", "south"].map(raw);
    let released = json!("released");
    let mut fences = Vec::new();
    for round in 0..100 {
        let old = north.claimed();
        assert_eq!(north.post(&old, "leave", &released).status, 204);
        let new = south.claimed();
        assert!(new["fence"].as_u64() > old["fence"].as_u64());
        fences.push(old["fence"].clone());
        assert_eq!(north.finish(&old, b"stale").problem(409), "Stale", "{round}");
        if round == 0 {
            let state = b"state";
            let sum = blake3::hash(state).to_string();
            let kept = north.put(&old, "states/iteration-000001.ct", state, &sum);
            assert_eq!(kept.problem(409), "Stale");
            assert_eq!(north.renew(&old).problem(409), "Stale");
            assert_eq!(north.post(&old, "leave", &released).problem(409), "Stale");
            assert_eq!(north.finish(&new, b"of another").problem(409), "Stale");
            assert_eq!(north.renew(&new).problem(409), "Stale");
        }
        assert_eq!(south.post(&new, "leave", &released).status, 204);
    }
    fences.dedup();
    assert_eq!(fences.len(), 100);
    // The result of the lease holder is accepted, once.
    let now = south.claimed();
    let result = fs::read(origin().join("stats-local.ct")).unwrap();
    let sum = blake3::hash(&result).to_string();
    assert_eq!(south.put(&now, "result", b"torn", &sum).problem(422), "DigestMismatch");
    assert_eq!(south.finish(&now, &result).status, 204);
    assert_eq!(south.finish(&now, &result).problem(409), "Stale");
    expect_result(&service, &token, &id, "stats");
}

/// A lease ends that is not renewed, and lasts as long as it is.
#[test]
fn leases_end_unless_they_are_renewed() {
    let service = Service::start(&["--jobs", "0", "--lease", "1"]);
    let token = service.token("clinic");
    let id = submit(&service, &token, "train", "x");
    let north = Raw { service: &service, token: service.worker_token("north") };
    let claimed = north.claimed();
    for _ in 0..20 {
        assert_eq!(north.renew(&claimed).status, 200);
        thread::sleep(Duration::from_millis(200));
    }
    let job = service.get(&format!("/v1/jobs/{id}"), &token).json();
    assert_eq!((&job["state"], &job["progress"]["done"]), (&"running".into(), &1.into()));
    service.until(&token, &id, |job| job["state"] == "queued");
    assert_eq!(north.renew(&claimed).problem(409), "Stale");
    // The maximum number of deaths of a job's processes.
    for _ in 0..3 {
        let claimed = north.claimed();
        assert_eq!(north.post(&claimed, "leave", &json!("died")).status, 204);
    }
    let failed = service.until(&token, &id, |job| job["state"] == "failed");
    assert_eq!(failed["error"]["kind"], "Died");
    // The tenant gets the worker's message about a job that cannot be done.
    let id = submit(&service, &token, "stats", "y");
    let failed = json!({ "failed": { "kind": "Memory", "detail": "too little" } });
    assert_eq!(north.post(&north.claimed(), "leave", &failed).status, 204);
    let job = service.get(&format!("/v1/jobs/{id}"), &token).json();
    assert_eq!((&job["state"], &job["error"]["kind"]), (&"failed".into(), &"Memory".into()));
}

/// Tokens of workers are good for claimed jobs alone, those of tenants for none.
#[test]
fn workers_and_tenants_have_their_own_tokens() {
    let service = Service::start(&["--jobs", "0"]);
    let token = service.token("clinic");
    let north = Raw { service: &service, token: service.worker_token("north") };
    for path in ["keys", "tables", "results", "jobs", "usage", "jobs/0123", "jobs/0123/events"] {
        assert_eq!(north.send(&format!("GET /v1/{path}"), b"").problem(403), "Forbidden", "{path}");
    }
    assert_eq!(service.begin("keys", &north.token, &"0".repeat(64), 9).problem(403), "Forbidden");
    let clinic = Raw { service: &service, token: token.clone() };
    assert_eq!(clinic.claim(1 << 40).problem(403), "Forbidden");
    assert_eq!(clinic.renew(&json!({ "job": "0123", "fence": 1 })).problem(403), "Forbidden");
    assert_eq!(north.renew(&json!({ "job": "0123", "fence": 1 })).problem(409), "Stale");
    let stranger = Raw { service: &service, token: "x".into() };
    assert_eq!(stranger.claim(1 << 40).problem(401), "Unauthorized");
    // No job waits, or no waiting job fits.
    assert_eq!(north.claim(1 << 40).status, 204);
    let id = submit(&service, &token, "stats", "x");
    assert_eq!(north.claim(1 << 10).status, 204);
    let old = json!({ "program": "0.1.0", "memory_bytes": 1_u64 << 40, "wait_seconds": 0 });
    let refused = north.send("POST /v1/work/claim", old.to_string().as_bytes());
    assert_eq!(refused.problem(409), "OtherProgram");
    assert_eq!(north.send("POST /v1/work/claim", b"{}").problem(400), "Usage");

    let claimed = north.claimed();
    addresses_are_kept(&service, &claimed);
    let sum = blake3::hash(b"x").to_string();
    let bad = north.put(&claimed, "states/..%2fresult.ct", b"x", &sum);
    assert_eq!(bad.problem(400), "Usage");
    let cancelled = service.send(&format!("DELETE /v1/jobs/{id}"), &token, "", 0, b"");
    assert_eq!(cancelled.json()["state"], "cancelled");
    assert_eq!(north.renew(&claimed).problem(409), "Cancelled");
    assert_eq!(north.finish(&claimed, b"late").problem(409), "Cancelled");
    assert_eq!(crate::common::names(&service.folder.join("jobs")), [""; 0]);
    let path = claimed["keys"]["path"].as_str().unwrap();
    assert_eq!(service.get(path, "").problem(409), "Cancelled");
    // A lost worker.
    let line = format!("serve token revoke {} --worker north", service.place());
    sudare_at(Path::new("."), &line).ok();
    assert_eq!(north.claim(1 << 40).problem(401), "Unauthorized");
    let file = service.token_file(&token);
    let url = service.url();
    let file = file.display();
    let line =
        format!("work --server {url} --token-file {file} --folder {}-x", service.folder.display());
    let refused: Run = sudare_at(Path::new("."), &line);
    refused.mistake(&["token of a tenant"]);
}

/// Files are read by the addresses that the server signed, and by no others.
fn addresses_are_kept(service: &Service, claimed: &Value) {
    let path = claimed["tables"][0]["path"].as_str().unwrap();
    let table = fs::read(origin().join("stats.ct")).unwrap();
    assert!(service.get(path, "").body == table);
    let part = service.send(&format!("GET {path}"), "", "Range: bytes=10-29\r\n", 0, b"");
    assert_eq!((part.status, &part.body[..]), (206, &table[10..30]));
    let parts: Vec<&str> = path.split('/').collect();
    let keys = claimed["keys"]["digest"].as_str().unwrap();
    for (at, other) in [(3, "0123456789abcdef"), (4, "9"), (6, "99999999999"), (6, "1"), (8, keys)]
    {
        let mut parts = parts.clone();
        parts[at] = other;
        assert_eq!(service.get(&parts.join("/"), "").problem(403), "Address", "{at}");
    }
    let flipped = if parts[7].starts_with('0') { "1" } else { "0" };
    let signature = format!("{flipped}{}", &parts[7][1..]);
    for altered in [&signature[..], "", "0"] {
        let mut parts = parts.clone();
        parts[7] = altered;
        let refused = service.get(&parts.join("/"), "");
        assert!(refused.status == 403 || refused.status == 404, "{refused:?}");
    }
}

/// A job that is cancelled is left by its worker, which then does others.
#[test]
fn a_cancelled_job_is_left() {
    let service = Service::start(&["--jobs", "0", "--lease", "2"]);
    let token = service.token("clinic");
    let worker = Worker::start(&service, "north");
    let id = submit(&service, &token, "train", "x");
    service.until(&token, &id, |job| job["progress"]["total"] == 4);
    let processes = children(&worker.process);
    assert_eq!(processes.len(), 1);
    service.send(&format!("DELETE /v1/jobs/{id}"), &token, "", 0, b"");
    let begun = Instant::now();
    while Path::new(&format!("/proc/{}", processes[0])).exists() {
        assert!(begun.elapsed() < Duration::from_secs(10));
        thread::sleep(Duration::from_millis(20));
    }
    let id = submit(&service, &token, "stats", "y");
    expect_result(&service, &token, &id, "stats");
}

/// Kills the server, workers and processes of jobs at random; the models are those that nobody disturbed.
fn killed_at_random(kills: u32) {
    let mut service = Service::start(&["--jobs", "0", "--lease", "2"]);
    let token = service.token("clinic");
    let mut workers = ["north", "south"].map(|name| Worker::start(&service, name));
    let begun = Instant::now();
    let id = submit(&service, &token, "train", "first");
    expect_result(&service, &token, &id, "train");
    let whole = begun.elapsed();
    let mut random = Random::of_now();
    let mut id = String::new();
    let mut steps = 0;
    for kill in 0..kills {
        if id.is_empty() {
            (id, steps) = (submit(&service, &token, "train", &kill.to_string()), 0);
        }
        thread::sleep(whole.mul_f64(0.5 / 1000.0 * random.below(1000) as f64));
        let child = workers.iter().find_map(|worker| children(&worker.process).first().copied());
        match (random.below(3), child) {
            // A killed process cannot report, so the job may fail.
            (0, Some(child)) if done(&service, &token, &id) != steps => signal("KILL", child),
            (1, _) => service.kill_and_restart(),
            _ => workers[random.below(2) as usize].kill_and_restart(),
        }
        let job = service.get(&format!("/v1/jobs/{id}"), &token).json();
        let found = job["progress"]["done"].as_u64().unwrap();
        assert!(found >= steps, "{job} after {steps}");
        steps = found;
        if job["state"] == "done" {
            expect_result(&service, &token, &id, "train");
            id.clear();
        }
    }
    if !id.is_empty() {
        expect_result(&service, &token, &id, "train");
    }
}

#[test]
fn killed_workers_and_servers_lead_to_the_same_models() {
    killed_at_random(4);
}

#[test]
#[ignore = "long: make test-service"]
fn workers_and_servers_that_are_killed_often_lead_to_the_same_models() {
    killed_at_random(in_full(500, 50));
}
