//! What a service can be held to: receipts of results.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

mod common;
#[path = "common/service.rs"]
mod service;

use common::{LBW, Run, sudare_at};
use serde_json::Value;
use service::Service;
use std::{fs, os::unix::fs::PermissionsExt, path::Path, sync::OnceLock};
use tempfile::TempDir;

/// A folder of keys and a table for statistics.
fn origin() -> &'static Path {
    static ORIGIN: OnceLock<TempDir> = OnceLock::new();
    let folder = ORIGIN.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        sudare_at(at, "keygen --params auto --for stats:189x9 --out keys").ok();
        let line = format!("encrypt --public keys/public.key --data {LBW} --target y -o t.ct");
        sudare_at(at, &line).ok();
        folder
    });
    folder.path()
}

const STATS: &str = "stats --evaluation-key keys/evaluation.key -i t.ct";

/// Runs a command in the folder of keys.
fn run(line: &str) -> Run {
    sudare_at(origin(), line)
}

/// The word for what a command refused.
fn kind(run: &Run) -> String {
    run.mistake(&[]);
    let report = run.stderr.lines().last().unwrap();
    serde_json::from_str::<Value>(report).unwrap()["kind"].as_str().unwrap().to_owned()
}

fn server_key(service: &Service) -> String {
    let line = format!("serve key --folder {} --json", service.folder.display());
    run(&line).json()["server_key"].as_str().unwrap().to_owned()
}

#[test]
fn results_come_with_receipts_of_the_pinned_server() {
    let at = origin();
    let mut service = Service::start(&[]);
    let token = service.token("clinic");
    let key = server_key(&service);
    let file = service.folder.join("server.key");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(service.get("/v1/server-key", "").json()["key"], key);

    let line = format!("{STATS} -o pinned.ct --server-key {key} --json");
    let done = service.remote(at, &token, &line).json();
    assert_eq!((&done["server_key"], &done["pinned"]), (&key.clone().into(), &true.into()));
    let receipt = fs::read_to_string(at.join("pinned.ct.receipt")).unwrap();
    let files = "--result pinned.ct --evaluation-key keys/evaluation.key -i t.ct";
    let check = |options: &str| run(&format!("receipt check pinned.ct.receipt {options} --json"));
    let checked = check(&format!("--server-key {key} {files}")).json();
    let said = &checked["statement"];
    assert_eq!((&said["kind"], &said["job"]), (&"stats".into(), &done["job"]));
    assert_eq!(said["program"], env!("CARGO_PKG_VERSION"));
    assert_eq!(checked["compared"].as_array().unwrap().len(), 3);

    // Files of something else, another server, and a receipt that was altered.
    for other in ["--result t.ct", "--evaluation-key t.ct", "-i pinned.ct", "-i t.ct -i t.ct", "--model t.ct"] {
        assert_eq!(kind(&check(&format!("--server-key {key} {other}"))), "ReceiptDiffers", "{other}");
    }
    let stranger = Service::start(&[]);
    let other = server_key(&stranger);
    assert_ne!(other, key);
    assert_eq!(kind(&check(&format!("--server-key {other}"))), "ReceiptOtherServer");
    fs::write(at.join("false.receipt"), receipt.replace("\"stats\"", "\"train\"")).unwrap();
    let line = format!("receipt check false.receipt --server-key {key} --json");
    assert_eq!(kind(&run(&line)), "ReceiptForged");
    run("receipt check pinned.ct.receipt --server-key 00").mistake(&["64 hexadecimal digits"]);

    // Who expects another server gets neither result nor receipt.
    let line = format!("{STATS} -o other.ct --server-key {other} --json");
    assert_eq!(kind(&service.remote(at, &token, &line)), "ReceiptOtherServer");
    assert!(!at.join("other.ct").exists() && !at.join("other.ct.receipt").exists());
    // Who expects none is told the key, and keeps the receipt, by whatever way the result comes.
    let line = format!("{STATS} -o unpinned.ct --json");
    let unpinned = service.remote(at, &token, &line);
    assert_eq!(unpinned.json()["pinned"], false);
    assert!(unpinned.stderr.contains(&key) && unpinned.stderr.contains("--server-key"));
    let digest = done["digest"].as_str().unwrap();
    let line = format!("download {digest} -o again.ct --server-key {key}");
    service.remote(at, &token, &line).ok();
    for name in ["unpinned.ct.receipt", "again.ct.receipt"] {
        assert_eq!(fs::read_to_string(at.join(name)).unwrap(), receipt);
    }
    // A receipt that is there is not replaced unless that is asked for.
    fs::remove_file(at.join("again.ct")).unwrap();
    service.remote(at, &token, &line).mistake(&["again.ct.receipt exists"]);
    service.remote(at, &token, &format!("{line} --force")).ok();

    // It is nobody else's, and not there before the job is done.
    let path = format!("/v1/jobs/{}/receipt", done["job"].as_str().unwrap());
    let lab = service.token("lab");
    let absent = service.get("/v1/jobs/0123456789abcdef/receipt", &lab);
    let foreign = service.get(&path, &lab);
    assert_eq!((foreign.problem(404), &foreign.body), (absent.problem(404), &absent.body));
    // The key stays, and so does the receipt; a server with another key is another one.
    service.kill_and_restart();
    assert_eq!((server_key(&service), service.get(&path, &token).body), (key.clone(), receipt.into()));
    fs::remove_file(&file).unwrap();
    service.kill_and_restart();
    assert_ne!(server_key(&service), key);
    service.remote(at, &token, &format!("remove results {digest}")).ok();
    let line = format!("{STATS} -o new.ct --server-key {key} --json");
    assert_eq!(kind(&service.remote(at, &token, &line)), "ReceiptOtherServer");
}
