//! Servers that share what they have: objects in a store, and records in a database.
//!
//! Those with a database are run by `make test-stores`, which starts a server of PostgreSQL and names it in
//! `SUDARE_TEST_POSTGRES`; a store of objects is a folder unless `SUDARE_TEST_OBJECTS` names another.

use crate::common::computed::{ask, digest, expect_result, origin, upload};
use crate::common::server::{Service, children, new_database, signal};
use crate::common::{Run, sudare_at};
use serde_json::Value;
use std::{
    env, fs,
    path::Path,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Waits until a training is done, and checks that its result is that of the command, and can be fetched
/// with its receipt.
fn expect_trained(service: &Service, token: &str, id: &str) {
    expect_result(service, token, id, "train");
    service.remote(origin(), token, &format!("wait {id} --force -o {id}.ct")).ok();
    let read = |name: &str| fs::read(origin().join(name)).unwrap();
    assert_eq!(read(&format!("{id}.ct")), read("train-local.ct"));
}

/// A store of objects, empty.
struct Store {
    url: String,
    folder: Option<TempDir>,
}

impl Store {
    fn new() -> Self {
        match env::var("SUDARE_TEST_OBJECTS") {
            Ok(url) => {
                let random = tempfile::tempdir().unwrap();
                let name = random.path().file_name().unwrap().to_str().unwrap().replace('.', "");
                Self { url: format!("{url}/{name}"), folder: None }
            }
            Err(_) => {
                let folder = tempfile::tempdir().unwrap();
                let url = format!("file://{}", folder.path().display());
                Self { url, folder: Some(folder) }
            }
        }
    }

    /// Files of a store that is a folder, whose names begin with this one; not what a server that was killed had
    /// not sent whole, which stays for an hour under a name with `#`.
    fn names(&self, start: &str) -> Vec<String> {
        let Some(folder) = &self.folder else { return Vec::new() };
        let mut names = Vec::new();
        let mut folders = vec![folder.path().join(start)];
        while let Some(next) = folders.pop() {
            for entry in fs::read_dir(next).into_iter().flatten().flatten() {
                if entry.path().is_dir() {
                    folders.push(entry.path());
                } else {
                    let name = entry.file_name().into_string().unwrap();
                    names.extend((!name.contains('#')).then_some(name));
                }
            }
        }
        names.sort();
        names
    }
}

/// What a store has outlives the copies of a server, and what is removed is gone from both.
#[test]
fn a_store_has_what_a_lost_folder_had() {
    let store = Store::new();
    let mut service = Service::start(&["--objects", &store.url]);
    let token = service.token("clinic");
    upload(&service, &token, "train");
    let id = ask(&service, &token, "train", "first");
    service.until(&token, &id, |job| job["progress"]["done"].as_u64() >= Some(1));
    service.process.kill().unwrap();
    service.process.wait().unwrap();
    for lost in ["objects", "jobs"] {
        fs::remove_dir_all(service.folder.join(lost)).unwrap();
    }
    service.kill_and_restart();
    let job = service.get(&format!("/v1/jobs/{id}"), &token).json();
    assert!(job["progress"]["done"].as_u64() >= Some(1), "{job}");
    expect_trained(&service, &token, &id);
    if store.folder.is_some() {
        let mut wanted = ["train/evaluation.key", "train.ct", "train-local.ct"].map(digest);
        wanted.sort();
        assert_eq!(store.names("objects"), wanted);
        assert_eq!(store.names("jobs"), [""; 0]);
    }
    // An altered object in the store is not used.
    if let Some(folder) = &store.folder {
        let path = folder.path().join("objects/clinic").join(digest("train-local.ct"));
        let mut bytes = fs::read(&path).unwrap();
        bytes[100] ^= 1;
        fs::write(&path, bytes).unwrap();
        fs::remove_file(service.folder.join("objects/clinic").join(digest("train-local.ct")))
            .unwrap();
        let refused = service.get(&format!("/v1/results/{}", digest("train-local.ct")), &token);
        assert_eq!(refused.status, 500, "{refused:?}");
    }
    let gone =
        service.send(&format!("DELETE /v1/tables/{}", digest("train.ct")), &token, "", 0, b"");
    assert_eq!(gone.status, 204, "{gone:?}");
    assert!(!store.names("objects").contains(&digest("train.ct")));
    assert!(!service.folder.join("objects/clinic").join(digest("train.ct")).exists());
}

/// Servers with the same database, store and key.
struct Servers {
    store: Store,
    key: TempDir,
    database: String,
}

impl Servers {
    fn new() -> Self {
        let server = env::var("SUDARE_TEST_POSTGRES").unwrap();
        let key = tempfile::tempdir().unwrap();
        let database = new_database(&server);
        Self { store: Store::new(), key, database }
    }

    fn start(&self, jobs: &str) -> Service {
        let key = self.key.path().join("server.key");
        let key = key.to_str().unwrap();
        let objects = &self.store.url;
        let database = &self.database;
        Service::start(&[
            "--jobs",
            jobs,
            "--lease",
            "3",
            "--key",
            key,
            "--objects",
            objects,
            "--database",
            database,
        ])
    }

    /// Receipts and addresses of one server are to hold at all of them.
    fn expect_no_other_key(&self) {
        let folder = tempfile::tempdir().unwrap();
        let objects = &self.store.url;
        let database = &self.database;
        let line = format!(
            "serve --folder store --listen 127.0.0.1:0 --objects {objects} --database {database}"
        );
        let Run { status, stderr, .. } = sudare_at(folder.path(), &line);
        assert_eq!(status, Some(2), "{stderr}");
        assert!(stderr.contains("--replace-key"), "{stderr}");
    }

    fn check_log(&self, service: &Service) {
        let folder = service.folder.display();
        sudare_at(
            Path::new("."),
            &format!("serve audit --folder {folder} --database {}", self.database),
        )
        .ok();
    }
}

/// A server is lost in the middle of a training, and another one goes on from its last state.
#[test]
#[ignore = "takes a server of PostgreSQL: make test-stores"]
fn a_lost_server_is_replaced() {
    let servers = Servers::new();
    let mut first = servers.start("1");
    let second = servers.start("0");
    // A record of one server is visible at the others.
    let token = first.token("clinic");
    upload(&first, &token, "train");
    let id = ask(&second, &token, "train", "x");
    assert_eq!(ask(&first, &token, "train", "x"), id);
    // Clients of one server get events of the other.
    let followed = std::thread::scope(|scope| {
        let following = scope.spawn(|| second.get(&format!("/v1/jobs/{id}/events"), &token));
        first.until(&token, &id, |job| job["progress"]["done"].as_u64() >= Some(1));
        first.process.kill().unwrap();
        first.process.wait().unwrap();
        let begun = Instant::now();
        let third = servers.start("1");
        let steps =
            second.get(&format!("/v1/jobs/{id}"), &token).json()["progress"]["done"].as_u64();
        second.until(&token, &id, |job| {
            assert!(job["progress"]["done"].as_u64() >= steps, "{job}");
            job["progress"]["done"].as_u64() > steps || job["state"] == "done"
        });
        assert!(begun.elapsed() < Duration::from_secs(60));
        expect_trained(&second, &token, &id);
        expect_trained(&third, &token, &id);
        servers.check_log(&third);
        following.join().unwrap()
    });
    let text = String::from_utf8(followed.body).unwrap();
    assert!(text.contains("\"state\":\"done\""), "{text}");
    servers.check_log(&second);
    let log = fs::read_to_string(second.folder.join("audit/audit-0000000000000001.jsonl")).unwrap();
    let count = |event: &str| log.matches(&format!("\"event\":\"{event}\"")).count();
    assert_eq!(
        ["server-started", "job-started", "lease-expired", "job-ended"].map(count),
        [3, 2, 1, 1]
    );
    // The first server continues, with the missed part of the log.
    first.kill_and_restart();
    servers.check_log(&first);
    expect_trained(&first, &token, &id);
}

/// A job is cancelled at a server that does not work on it: the process at the other one is gone.
#[test]
#[ignore = "takes a server of PostgreSQL: make test-stores"]
fn jobs_of_other_servers_are_cancelled() {
    let servers = Servers::new();
    let first = servers.start("1");
    let second = servers.start("0");
    let token = second.token("clinic");
    upload(&first, &token, "train");
    let id = ask(&second, &token, "train", "x");
    first.until(&token, &id, |job| job["progress"]["done"].as_u64() >= Some(1));
    let gone = second.send(&format!("DELETE /v1/jobs/{id}"), &token, "", 0, b"");
    assert_eq!(gone.status, 200, "{gone:?}");
    // The states that its process shared until then disappear afterwards.
    let begun = Instant::now();
    while !children(&first.process).is_empty() || !servers.store.names("jobs").is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(3));
        std::thread::sleep(Duration::from_millis(20));
    }
    let job = first.get(&format!("/v1/jobs/{id}"), &token).json();
    assert_eq!(job["state"], "cancelled");
    // An upload that began at one server starts again at the other.
    let begun = first.begin("tables", &token, &"0".repeat(64), 100);
    let place = begun.header("location").unwrap();
    assert_eq!(first.offset(place, &token), Some(0));
    assert_eq!(second.offset(place, &token), None);
    servers.expect_no_other_key();
}

/// A server that stood still for longer than its leases last finds its job taken, and ends what it does.
#[test]
#[ignore = "takes a server of PostgreSQL: make test-stores"]
fn a_server_that_stood_still_leaves_its_job() {
    let servers = Servers::new();
    let first = servers.start("1");
    let token = first.token("clinic");
    upload(&first, &token, "train");
    let id = ask(&first, &token, "train", "x");
    first.until(&token, &id, |job| job["progress"]["done"].as_u64() >= Some(1));
    let stopped: Vec<u32> =
        children(&first.process).into_iter().chain([first.process.id()]).collect();
    stopped.iter().for_each(|&process| signal("STOP", process));
    let second = servers.start("1");
    second.until(&token, &id, |job| job["state"] == "running" && job["started"].is_u64());
    let taken = |job: &Value| job["state"] == "done" || job["progress"]["done"].as_u64() >= Some(2);
    second.until(&token, &id, taken);
    stopped.iter().for_each(|&process| signal("CONT", process));
    expect_trained(&second, &token, &id);
    let begun = Instant::now();
    while !children(&first.process).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(20));
    }
    expect_trained(&first, &token, &id);
    servers.check_log(&first);
}

/// What is shared in part is refused, and so is what is no address, without its password.
#[test]
fn addresses_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let serve = |options: &str| {
        let line = format!("serve --folder store --listen 127.0.0.1:0 {options}");
        let Run { status, stderr, .. } = sudare_at(folder.path(), &line);
        assert_ne!(status, Some(0), "{options}");
        stderr
    };
    let refused = serve("--database postgresql://a:secret@127.0.0.1:1/b");
    assert!(refused.contains("--objects") && !refused.contains("secret"), "{refused}");
    let refused = serve("--objects file:///tmp --database postgresql://a:secret@127.0.0.1:1/b");
    assert!(refused.contains("the database") && !refused.contains("secret"), "{refused}");
    let refused = serve("--objects file:///tmp --database postgresql://a:secret@[b/c");
    assert!(!refused.contains("secret"), "{refused}");
    assert!(serve("--replace-key").contains("--database"));
    for objects in ["nowhere", "file:///missing/folder", "ftp://a/b"] {
        let refused = serve(&format!("--objects {objects}"));
        assert!(refused.contains(objects.trim_start_matches("file://")), "{refused}");
    }
}
