//! Jobs of a service whose results the command has computed, too.
use super::{LBW, server::Service, sudare_at};
use serde_json::{Value, json};
use std::{fs, path::Path, sync::OnceLock};
use tempfile::TempDir;

/// Keys and tables for a training and for statistics, and what the command computes of them.
pub fn origin() -> &'static Path {
    static ORIGIN: OnceLock<TempDir> = OnceLock::new();
    let folder = ORIGIN.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        for (kind, job) in [("train", "train:189x9 --iterations 4"), ("stats", "stats:189x9")] {
            sudare_at(at, &format!("keygen --params auto --for {job} --out {kind}")).ok();
            let encrypt = format!("encrypt --public {kind}/public.key --data {LBW} --target y");
            sudare_at(at, &format!("{encrypt} -o {kind}.ct")).ok();
            let history = if kind == "train" { "--history" } else { "" };
            let files = format!("--evaluation-key {kind}/evaluation.key -i {kind}.ct {history}");
            sudare_at(at, &format!("{kind} {files} -o {kind}-local.ct")).ok();
        }
        folder
    });
    folder.path()
}

/// The digest of a file of the origin.
pub fn digest(name: &str) -> String {
    blake3::hash(&fs::read(origin().join(name)).unwrap()).to_string()
}

/// Sends the keys and the table of a job.
pub fn upload(service: &Service, token: &str, kind: &str) {
    let line = format!("upload {kind}/evaluation.key {kind}.ct");
    service.remote(origin(), token, &line).ok();
}

/// What asks for a job.
pub fn request(kind: &str) -> Value {
    let keys = digest(&format!("{kind}/evaluation.key"));
    let table = digest(&format!("{kind}.ct"));
    json!({ "kind": kind, "keys": keys, "tables": [table], "history": kind == "train" })
}

/// Asks for a job by this name for repetitions; returns its own.
pub fn ask(service: &Service, token: &str, kind: &str, name: &str) -> String {
    let job = service.submit(token, name, &request(kind));
    assert_eq!(job.status, 202, "{job:?}");
    job.json()["id"].as_str().unwrap().to_owned()
}

/// Waits until a job is done, and checks that its result is that of the command.
pub fn expect_result(service: &Service, token: &str, id: &str, kind: &str) {
    let job = service.until(token, id, |job| job["state"] != "queued" && job["state"] != "running");
    assert_eq!((&job["state"], &job["error"]), (&"done".into(), &Value::Null));
    assert_eq!(job["result"], digest(&format!("{kind}-local.ct")));
}
