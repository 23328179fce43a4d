//! The service: whole journeys from the command to a server and back, and all that may come between.

use crate::common::server;
use crate::common::server::{Random, Service, children, in_full, signal};
use crate::common::{LBW, Run, names, sudare_at};
use serde_json::{Value, json};
use std::{
    cell::Cell,
    fs,
    io::Write,
    net::TcpStream,
    path::Path,
    process::Command,
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};
use sudare::{
    ckks::{Params, Spec, serial},
    rlwe::{KeyGenerator, KeyRequest, Level},
};
use sudare_roles::{
    format::label::{Content, Meta},
    job::Job,
};
use tempfile::TempDir;

/// Folders of keys and tables for each kind of jobs: `train` for trainings and their scores.
fn origin() -> &'static Path {
    static ORIGIN: OnceLock<TempDir> = OnceLock::new();
    let folder = ORIGIN.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let keygen = |job: &str, out: &str| {
            sudare_at(at, &format!("keygen --params auto --for {job} --out {out}")).ok();
        };
        let encrypt = |keys: &str, options: &str, out: &str| {
            let line =
                format!("encrypt --public {keys}/public.key --data {LBW} {options} -o {out}");
            sudare_at(at, &line).ok();
        };
        keygen("train:189x9 --iterations 4 --predict", "train");
        encrypt("train", "--target y", "train.ct");
        encrypt("train", &format!("--target y --like {LBW}"), "rows.ct");
        keygen("stats:189x9", "stats");
        encrypt("stats", "--target y", "stats.ct");
        folder
    });
    folder.path()
}

fn remote(service: &Service, token: &str, line: &str) -> Run {
    service.remote(origin(), token, line)
}

fn digest(path: &Path) -> String {
    blake3::hash(&fs::read(path).unwrap()).to_string()
}

/// Sends the keys and the table of a job, and returns what asks for it.
fn request(service: &Service, token: &str, kind: &str, keys: &str, table: &str) -> Value {
    let line = format!("upload {keys}/evaluation.key {table} --json");
    remote(service, token, &line).ok();
    let keys = digest(&origin().join(keys).join("evaluation.key"));
    json!({ "kind": kind, "keys": keys, "tables": [digest(&origin().join(table))] })
}

fn submit(service: &Service, token: &str, name: &str, request: &Value) -> server::Answer {
    service.submit(token, name, request)
}

fn job(service: &Service, token: &str, id: &str) -> Value {
    service.get(&format!("/v1/jobs/{id}"), token).json()
}

fn until(service: &Service, token: &str, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    service.until(token, id, wanted)
}

fn state_is(state: &'static str) -> impl Fn(&Value) -> bool {
    move |job| {
        let found = &job["state"];
        assert!(found == state || found == "queued" || found == "running", "{job}");
        found == state
    }
}

/// What a server computes for a client is what the command computes, bit for bit; what it has is not
/// sent again, and a command that is run again finds the job.
#[test]
fn results_equal_the_command() {
    let at = origin();
    let service = Service::start(&[]);
    let token = service.token("clinic");
    let same = |kind: &str, of_remote: &str, local: &str, name: &str| {
        sudare_at(at, &format!("{local} -o local-{name}")).ok();
        let line = format!("{kind} {of_remote} -o remote-{name} --force --json");
        let report = remote(&service, &token, &line).json();
        let found = fs::read(at.join(format!("remote-{name}")));
        let expected = fs::read(at.join(format!("local-{name}")));
        assert!(found.unwrap() == expected.unwrap(), "{name} differs");
        report
    };
    let stats = "--evaluation-key stats/evaluation.key -i stats.ct";
    let first = same("stats", stats, &format!("stats {stats}"), "stats.ct");
    let train = "--evaluation-key train/evaluation.key -i train.ct --history --iterations 3";
    same("train", train, &format!("train {train}"), "short.ct");
    let train = "--evaluation-key train/evaluation.key -i train.ct";
    let trained = same("train", train, &format!("train {train}"), "model.ct");
    // Scores by a model on the server, and by the same model in a file.
    let rows = "--evaluation-key train/evaluation.key -i rows.ct --model";
    let line = format!("{rows} {}", trained["digest"].as_str().unwrap());
    same("predict", &line, &format!("predict {rows} local-model.ct"), "scores.ct");
    sudare_at(at, "decrypt --secret train/secret.key -i local-model.ct -o model.json").ok();
    let line = format!("{rows} model.json");
    let plain = format!("{line} --plain-model");
    same("predict", &plain, &format!("predict {line}"), "plain.ct");
    // The same request returns the same job, with its result.
    let line = format!("stats {stats} -o again.ct --json");
    let again = remote(&service, &token, &line).json();
    assert_eq!((&again["job"], &again["digest"]), (&first["job"], &first["digest"]));
    let jobs = remote(&service, &token, "status --json").json();
    assert_eq!(jobs.as_array().unwrap().len(), 5);
    assert!(jobs.as_array().unwrap().iter().all(|job| job["state"] == "done"));
    // Ranges of a result are parts of it, and a finished job has one event, its end.
    let digest = first["digest"].as_str().unwrap();
    let headers = "Range: bytes=100-299\r\n";
    let part = service.send(&format!("GET /v1/results/{digest}"), &token, headers, 0, b"");
    assert_eq!((part.status, part.body.len()), (206, 200));
    assert!(part.body == fs::read(at.join("local-stats.ct")).unwrap()[100..300]);
    let events =
        service.get(&format!("/v1/jobs/{}/events", first["job"].as_str().unwrap()), &token);
    let text = String::from_utf8(events.body).unwrap();
    assert_eq!(text.matches("event: job").count(), 1, "{text}");
    // A file that no job uses can be removed, with its bytes.
    let keys = blake3::hash(&fs::read(at.join("stats/evaluation.key")).unwrap());
    remote(&service, &token, &format!("remove keys {keys}")).ok();
    assert!(!service.folder.join(format!("objects/clinic/{keys}")).exists());
}

#[test]
fn groups_and_histograms_are_those_of_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let rows: String = (1..=40).map(|i| format!("{},{i},{}\n", i % 2, 1 + i % 3)).collect();
    fs::write(at.join("t.csv"), format!("g,a,w\n{rows}")).unwrap();
    let service = Service::start(&[]);
    fs::write(at.join("token"), service.token("clinic")).unwrap();
    for (kind, job, options) in
        [("groups", "groups:40x2x2", "--by g"), ("histogram", "histogram:40x3x4", "")]
    {
        let run = |line: &str| sudare_at(at, line);
        run(&format!("keygen --params auto --for {job} --out keys --force")).ok();
        run(&format!("encrypt --public keys/public.key --data t.csv {options} -o t.ct --force"))
            .ok();
        run("stats --evaluation-key keys/evaluation.key -i t.ct -o local.ct --force").ok();
        let url = service.url();
        let line = "--evaluation-key keys/evaluation.key -i t.ct -o remote.ct --force";
        run(&format!("remote {kind} {line} --url {url} --token-file token")).ok();
        let read = |name: &str| fs::read(at.join(name)).unwrap();
        assert!(read("remote.ct") == read("local.ct"), "{kind}");
        // Another kind of job than the table's.
        let line = format!("remote train {line} --url {url} --token-file token --json");
        run(&line).mistake(&[job, "not a train job"]);
    }
}

/// Whatever comes in between, each byte is taken once, and only what was declared is there at the end.
#[test]
fn uploads_are_resumed_and_misuse_is_refused() {
    let mut service = Service::start(&["--tenant-bytes", "0.5"]);
    let token = service.token("clinic");
    let other = service.token("lab");
    let file = fs::read(origin().join("stats.ct")).unwrap();
    let digest = blake3::hash(&file).to_string();
    let begun = service.begin("tables", &token, &digest, file.len());
    assert_eq!(begun.status, 201, "{begun:?}");
    let place = begun.header("location").unwrap().to_owned();

    requests_of_other_forms_are_refused(&service, &place, [&token, &other]);
    let huge = service.begin("keys", &token, &"0".repeat(64), 1 << 29);
    assert_eq!(huge.problem(413), "Quota");
    assert_eq!(service.begin("tables", &token, "../../x", 9).problem(400), "Usage");
    assert_eq!(service.begin("results", &token, &digest, 9).problem(405), "Method");
    assert_eq!(service.begin("keys", &token, &digest, 9).problem(409), "UploadDiffers");
    upload_with_cuts(&mut service, &place, &token, &file);
    let found = service.get(&format!("/v1/tables/{digest}"), &token);
    assert_eq!((found.status, &found.json()["bytes"]), (200, &file.len().into()));
    assert_eq!(found.json()["about"]["kind"], "stats");
    assert_eq!(fs::read(service.folder.join("objects/clinic").join(&digest)).unwrap(), file);
    assert_eq!(service.append(&place, &token, file.len(), b"x", 1).problem(409), "UploadComplete");
    // Some clients end with an empty part.
    assert_eq!(service.append(&place, &token, file.len(), b"", 0).status, 204);
    // The file is not sent again, under any name.
    let again = service.begin("tables", &token, &digest, file.len());
    assert_eq!(again.header("upload-offset"), Some(&file.len().to_string()[..]));
    // Other tenants get the same response as for a missing table.
    let foreign = service.get(&format!("/v1/tables/{digest}"), &other);
    let absent = service.get(&format!("/v1/tables/{}", "0".repeat(64)), &other);
    assert_eq!((foreign.problem(404), &foreign.body), (absent.problem(404), &absent.body));

    damaged_uploads_are_refused(&service, [&token, &other], &file);
}

fn requests_of_other_forms_are_refused(service: &Service, place: &str, [token, other]: [&str; 2]) {
    let patch = format!("PATCH {place}");
    let kind = "Content-Type: application/offset+octet-stream\r\n";
    let no_version = format!("Upload-Offset: 0\r\n{kind}");
    let answer = service.send(&patch, token, &no_version, 1, b"x");
    assert_eq!(
        (answer.problem(412), answer.header("tus-version")),
        ("TusVersion".into(), Some("1.0.0"))
    );
    let old = format!("Tus-Resumable: 0.2.2\r\n{no_version}");
    assert_eq!(service.send(&patch, token, &old, 1, b"x").problem(412), "TusVersion");
    let no_kind = "Tus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\n";
    assert_eq!(service.send(&patch, token, no_kind, 1, b"x").problem(415), "ContentType");
    assert_eq!(service.append(place, token, 7, b"x", 1).problem(409), "UploadOffset");
    let at_seven = format!("Tus-Resumable: 1.0.0\r\nUpload-Offset: 7\r\n{kind}");
    // A client without PATCH and DELETE.
    let posted = |over: &str| {
        let headers = format!("{at_seven}X-HTTP-Method-Override: {over}\r\n");
        service.send(&format!("POST {place}"), token, &headers, 1, b"x")
    };
    assert_eq!(posted("PATCH").problem(409), "UploadOffset");
    assert_eq!(posted("GET").problem(405), "Method");
    let here = service.send(&format!("HEAD {place}"), token, "Tus-Resumable: 1.0.0\r\n", 0, b"");
    assert!(here.header("upload-metadata").unwrap().starts_with("digest "));
    // Names that are not valid UTF-8 name nothing.
    for path in ["/v1/keys/%ff", "/v1/jobs/%ff/events", "/v1/work/%ff/1/files/1/1/1"] {
        assert_eq!(service.get(path, token).problem(404), "NotFound");
    }
    // Other tenants do not have it.
    assert_eq!(service.append(place, other, 0, b"x", 1).problem(404), "NotFound");
    // Refusals have the headers of tus.
    for (head, token, status) in
        [(&patch[..], "", 401), ("POST /v1/keys", "", 401), (&format!("PUT {place}"), token, 405)]
    {
        let answer = service.send(head, token, "", 0, b"");
        assert_eq!(
            (answer.status, answer.header("tus-resumable")),
            (status, Some("1.0.0")),
            "{head}"
        );
    }
    assert_eq!(service.offset(place, other), None);
}

/// More uploads than the server has threads, of which nothing more comes, do not have other requests wait.
#[test]
fn uploads_that_stand_still_keep_nobody_waiting() {
    const UPLOADS: usize = 600;
    let service = Service::start(&["--tenant-requests", "10000", "--tenant-open", "1000"]);
    let token = service.token("clinic");
    // The server closes a stalled request after a minute.
    let begun = Instant::now();
    let standing: Vec<TcpStream> = (0..UPLOADS)
        .map(|number| {
            let begun = service.begin("models", &token, &format!("{number:064x}"), 100);
            let mut stream = TcpStream::connect(&service.address).unwrap();
            let head = format!(
                "PATCH {} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nTus-Resumable: 1.0.0\r\n\
                 Upload-Offset: 0\r\nContent-Type: application/offset+octet-stream\r\n\
                 Content-Length: 100\r\n\r\n{{",
                begun.header("location").unwrap()
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    assert_eq!(service.get("/v1/models", &token).status, 200);
    assert!(begun.elapsed() < Duration::from_secs(50), "{:?}", begun.elapsed());
    drop(standing);
}

/// Connections that break at some byte; once the server does, too.
fn upload_with_cuts(service: &mut Service, place: &str, token: &str, file: &[u8]) {
    let mut at = 0;
    let mut random = 12345_usize;
    let mut cuts = 0;
    while at < file.len() {
        let part = &file[at..(at + (1 << 16)).min(file.len())];
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let sent = if cuts < 30 { (random >> 33) % part.len() } else { part.len() };
        cuts += 1;
        service.append(place, token, at, part, sent);
        if cuts == 10 {
            service.kill_and_restart();
        }
        // Bytes sent before the break may still be on their way to the disk.
        let begun = Instant::now();
        let mut now = service.offset(place, token).unwrap();
        while now < at + sent && begun.elapsed() < Duration::from_millis(300) {
            thread::sleep(Duration::from_millis(5));
            now = service.offset(place, token).unwrap();
        }
        assert!((at..=at + part.len()).contains(&now), "{at} {now}");
        at = now;
    }
}

/// Of a wrong digest, or longer than declared.
fn damaged_uploads_are_refused(service: &Service, [token, other]: [&str; 2], file: &[u8]) {
    let digest = blake3::hash(file).to_string();
    let mut damaged = file.to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    let wrong = blake3::hash(b"another").to_string();
    let begun = service.begin("tables", token, &wrong, file.len());
    let place = begun.header("location").unwrap().to_owned();
    assert_eq!(
        service.append(&place, token, 0, &damaged, damaged.len()).problem(422),
        "DigestMismatch"
    );
    assert_eq!(service.offset(&place, token), None);
    let begun = service.begin("tables", other, &digest, file.len());
    let place = begun.header("location").unwrap().to_owned();
    let long = [file, b"x"].concat();
    assert_eq!(service.append(&place, other, 0, &long, long.len()).problem(413), "UploadTooLong");
}

/// Files that must not be there are refused by their first bytes, and a secret key leaves none.
#[test]
fn wrong_files_are_refused_by_their_headers() {
    let service = Service::start(&[]);
    let token = service.token("clinic");
    let send = |collection: &str, file: &[u8], length: usize| {
        let digest = blake3::hash(file).to_string();
        let begun = service.begin(collection, &token, &digest, length);
        let place = begun.header("location").unwrap().to_owned();
        let part = &file[..file.len().min(1 << 20)];
        let answer = service.append(&place, &token, 0, part, part.len());
        (answer, place)
    };
    let at = origin();
    let secret = fs::read(at.join("stats/secret.key")).unwrap();
    for collection in ["keys", "tables", "models"] {
        let (answer, place) = send(collection, &secret, secret.len());
        assert_eq!(answer.problem(422), "SecretKey");
        let id = place.rsplit('/').next().unwrap();
        assert!(!service.folder.join("uploads").join(id).exists());
        assert_eq!(service.offset(&place, &token), None);
    }
    // A request that arrives byte by byte, so that the server stores some of it.
    let digest = blake3::hash(&secret).to_string();
    let begun = service.begin("keys", &token, &digest, secret.len());
    let place = begun.header("location").unwrap().to_owned();
    assert_eq!(service.append(&place, &token, 0, &secret[..15], 15).status, 204);
    assert_eq!(service.append(&place, &token, 15, &secret[15..16], 1).problem(422), "SecretKey");
    let left = fs::read_dir(service.folder.join("uploads")).unwrap().count();
    assert_eq!(left, 0);

    let keys = fs::read(at.join("stats/evaluation.key")).unwrap();
    let table = fs::read(at.join("stats.ct")).unwrap();
    let public = fs::read(at.join("stats/public.key")).unwrap();
    // The rest of a megabyte may be missing.
    assert_eq!(send("tables", &keys, keys.len()).0.problem(422), "WrongKind");
    assert_eq!(send("keys", &table, table.len()).0.problem(422), "WrongKind");
    assert_eq!(send("keys", &public, public.len()).0.problem(422), "WrongKind");
    assert_eq!(send("models", &table, table.len()).0.problem(422), "Usage");
    assert_eq!(send("keys", &keys, keys.len() + 64).0.problem(422), "Malformed");
    assert_eq!(send("tables", &[7; 4096], 4096).0.problem(422), "Malformed");
    assert_eq!(send("models", b"{\"no\": \"model\"}", 15).0.problem(422), "Parse");
    let keys = insecure_keys();
    assert_eq!(send("keys", &keys, keys.len()).0.problem(422), "Insecure");
    let lenient = Service::start(&["--insecure"]);
    let token = lenient.token("clinic");
    let begun = lenient.begin("keys", &token, &blake3::hash(&keys).to_string(), keys.len());
    let place = begun.header("location").unwrap();
    // No plan exists for such a small ring, which is the next check.
    let refused = lenient.append(place, &token, 0, &keys, keys.len());
    assert_ne!(refused.problem(422), "Insecure");
    // A file without keys is refused before its parameters are built.
    let none = insecure_keys_of(&KeyRequest::new());
    let begun = lenient.begin("keys", &token, &blake3::hash(&none).to_string(), none.len());
    let place = begun.header("location").unwrap();
    let refused = lenient.append(place, &token, 0, &none, none.len());
    assert_eq!(refused.problem(422), "Malformed");
    assert!(refused.json()["detail"].as_str().unwrap().contains("only a header"));
}

/// Evaluation keys for statistics under parameters that say that they are insecure.
fn insecure_keys() -> Vec<u8> {
    insecure_keys_of(&KeyRequest::new().relinearize(Level(1)))
}

/// The same keys that a request names.
fn insecure_keys_of(request: &KeyRequest) -> Vec<u8> {
    let spec = Spec { insecure: true, ..Spec::uniform(10, 40.0, 1, 30.0, vec![40.0]) };
    let params = Params::new(spec).unwrap();
    let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
    let secret = keygen.secret_key().unwrap();
    let keys = keygen.evaluation_keys(&secret, request).unwrap();
    let job = Job::Stats(sudare_apps::stats::Job { rows: 20, features: 2 });
    let label = Meta::of(job).label("small", Content::Keys).unwrap();
    let mut file = Vec::new();
    serial::write_evaluation_keys(&mut file, &params, &keys, &label).unwrap();
    file
}

#[test]
fn jobs_that_cannot_be_done_are_refused() {
    let at = origin();
    let service = Service::start(&["--tenant-jobs", "1", "--jobs", "1"]);
    let token = service.token("clinic");
    let other = service.token("lab");
    let train = request(&service, &token, "train", "train", "train.ct");
    let stats = request(&service, &token, "stats", "stats", "stats.ct");
    let refused = |request: Value, status| submit(&service, &token, "x", &request).problem(status);
    let with = |name: &str, value: Value| {
        let mut request = train.clone();
        request[name] = value;
        request
    };
    // A table for another kind of job is refused before any other comparison.
    assert_eq!(refused(with("tables", stats["tables"].clone()), 422), "Usage");
    assert_eq!(refused(with("keys", stats["keys"].clone()), 422), "ParamsMismatch");
    sudare_at(
        at,
        "keygen --params auto --for train:189x9 --iterations 4 --predict --out twin --force",
    )
    .ok();
    let twin = request(&service, &token, "train", "twin", "train.ct");
    assert_eq!(refused(twin, 422), "KeyMismatch");
    assert_eq!(refused(with("keys", json!("0".repeat(64))), 404), "NotFound");
    assert_eq!(refused(with("keys", train["tables"][0].clone()), 404), "NotFound");
    assert_eq!(refused(with("tables", json!([])), 422), "Usage");
    assert_eq!(refused(with("kind", json!("predict")), 422), "Usage");
    assert_eq!(refused(with("kind", json!("bake")), 400), "Usage");
    assert_eq!(refused(with("iterations", json!(5)), 422), "Usage");
    assert_eq!(refused(with("surprise", json!(1)), 400), "Usage");
    let twice = train["tables"][0].clone();
    assert!(refused(with("tables", json!([twice, twice])), 422).starts_with("Pooled"));
    // Other tenants see nothing of it.
    assert_eq!(submit(&service, &other, "x", &train).problem(404), "NotFound");

    let job = submit(&service, &token, "x", &train);
    assert_eq!(job.status, 202, "{job:?}");
    let id = job.json()["id"].as_str().unwrap().to_owned();
    assert!(job.json()["predicted"]["seconds"].as_f64().unwrap() > 0.1);
    assert!(job.json()["predicted"]["memory_bytes"].as_u64().unwrap() > 50 << 20);
    // The same request under the same name is the same job. Another request is a mistake.
    assert_eq!(submit(&service, &token, "x", &train).json()["id"], id);
    assert_eq!(submit(&service, &token, "x", &stats).problem(422), "IdempotencyKey");
    assert_eq!(submit(&service, &token, "y", &train).problem(429), "TooManyJobs");
    for path in [format!("/v1/jobs/{id}"), format!("/v1/jobs/{id}/events")] {
        assert_eq!(service.get(&path, &other).problem(404), "NotFound");
    }
    let removed = format!("DELETE /v1/keys/{}", train["keys"].as_str().unwrap());
    assert_eq!(service.send(&removed, &token, "", 0, b"").problem(409), "InUse");

    // Within two seconds after the cancellation, the process and the job's directory are gone.
    until(&service, &token, &id, |job| job["progress"]["total"] == 4);
    let processes = children(&service.process);
    assert_eq!(processes.len(), 1);
    // The system grants slightly more memory than predicted, and dumps no core.
    let limits = fs::read_to_string(format!("/proc/{}/limits", processes[0])).unwrap();
    let limit = |name: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    let predicted = job.json()["predicted"]["memory_bytes"].as_u64().unwrap();
    if service.option("--database").is_empty() {
        let beside = limit("Max data size") - predicted - predicted / 4;
        assert!((256 << 20..2 << 30).contains(&beside), "{beside}");
        assert_eq!(limit("Max core file size"), 0);
    }
    // The CPU time has a limit, too: thirty times the prediction, for at most all threads.
    let predicted = job.json()["predicted"]["seconds"].as_f64().unwrap();
    let most = (limit("Max cpu time") - 10) as f64;
    let threads = thread::available_parallelism().unwrap().get() as f64;
    let expected = 30.0 * predicted..30.0 * threads * predicted + 1.0;
    assert!(expected.contains(&most), "{most}, {expected:?}");
    let begun = Instant::now();
    let cancelled = service.send(&format!("DELETE /v1/jobs/{id}"), &token, "", 0, b"");
    assert_eq!(cancelled.json()["state"], "cancelled");
    assert!(begun.elapsed() < Duration::from_secs(3));
    assert!(!Path::new(&format!("/proc/{}", processes[0])).exists());
    assert_eq!(fs::read_dir(service.folder.join("jobs")).unwrap().count(), 0);
    let late = remote(&service, &token, &format!("wait {id} -o never.ct"));
    late.mistake(&["cancelled"]);
    assert!(!at.join("never.ct").exists());
}

/// Of a job that takes more memory than there is for jobs, and of a server that may not be asked.
#[test]
fn limits_and_tokens_are_kept() {
    let service = Service::start(&["--memory", "0.01"]);
    let token = service.token("clinic");
    let stats = request(&service, &token, "stats", "stats", "stats.ct");
    assert_eq!(submit(&service, &token, "x", &stats).problem(422), "Memory");
    let folder = service.folder.display();
    for bad in ["", "x", &token[..token.len() - 1], &token.replace("sudare_", "sudare-")] {
        assert_eq!(service.get("/v1/keys", bad).problem(401), "Unauthorized");
    }
    let mut wrong = token.clone();
    wrong.replace_range(40..41, if &token[40..41] == "0" { "1" } else { "0" });
    assert_eq!(service.get("/v1/keys", &wrong).problem(401), "Unauthorized");
    assert_eq!(service.get("/v1/keys", &token).status, 200);
    assert_eq!(service.get("/v1/songs", &token).problem(404), "NotFound");
    assert_eq!(service.get("/elsewhere", &token).problem(404), "NotFound");
    assert_eq!(service.send("PUT /v1/keys", &token, "", 0, b"").problem(405), "Method");
    assert_eq!((service.get("/healthz", "").status, service.get("/readyz", "").status), (200, 200));
    let api = service.get("/v1/openapi.json", "").json();
    assert!(api["paths"]["/v1/uploads/{name}"]["patch"].is_object(), "{api}");
    // A second server refuses the directory, and a revoked token is invalid.
    let twin = sudare_at(Path::new("."), &format!("serve --folder {folder} --listen 127.0.0.1:0"));
    twin.mistake(&["in use by another process"]);
    let list = format!("serve token list {} --json", service.place());
    let listed = sudare_at(Path::new("."), &list).json();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["tenant"]), (1, &"clinic".into()));
    assert!(!listed.to_string().contains(&token[23..]));
    let line = format!("serve token revoke {} --tenant clinic", service.place());
    sudare_at(Path::new("."), &line).ok();
    assert_eq!(service.get("/v1/keys", &token).problem(401), "Unauthorized");
    // The disk has no byte of the secret.
    let records = fs::read(service.folder.join("records.sqlite")).unwrap_or_default();
    let wal = fs::read(service.folder.join("records.sqlite-wal")).unwrap_or_default();
    let secret = &token.as_bytes()[23..];
    assert!([records, wal].iter().all(|file| !file.windows(64).any(|part| part == secret)));
}

/// Kills processes of jobs and servers at random; the model is that of a training that nobody
/// disturbed.
fn killed_at_random(kills: u32) {
    let at = origin();
    let mut service = Service::start(&[]);
    let token = service.token("clinic");
    let train = request(&service, &token, "train", "train", "train.ct");
    let begun = Instant::now();
    let line =
        format!("train --evaluation-key train/evaluation.key -i train.ct -o whole-{kills}.ct");
    sudare_at(at, &line).ok();
    let whole = begun.elapsed();
    let expected = fs::read(at.join(format!("whole-{kills}.ct"))).unwrap();
    let mut random = Random::of_now();
    let mut name = 0;
    let mut done = 0;
    let mut id = String::new();
    for kill_number in 0..kills {
        if id.is_empty() {
            let job = submit(&service, &token, &name.to_string(), &train);
            id = job.json()["id"].as_str().unwrap().to_owned();
            (name, done) = (name + 1, 0);
        }
        thread::sleep(whole.mul_f64(0.7 / 1000.0 * random.below(1000) as f64));
        match (kill_number % 2, children(&service.process).first()) {
            // A killed process cannot report, so the job may fail.
            (0, Some(&child)) if job(&service, &token, &id)["progress"]["done"] != done => {
                signal("KILL", child)
            }
            _ => service.kill_and_restart(),
        }
        let found = job(&service, &token, &id);
        let steps = found["progress"]["done"].as_u64().unwrap();
        assert!(steps >= done, "{found} after {done}");
        done = steps;
        if found["state"] == "done" {
            assert_eq!(found["result"], blake3::hash(&expected).to_string());
            id.clear();
        }
    }
    if !id.is_empty() {
        let last = until(&service, &token, &id, state_is("done"));
        assert_eq!(last["result"], blake3::hash(&expected).to_string());
    }
    // On SIGTERM, the server saves the finished iterations, and a restart continues from there.
    let job_of = submit(&service, &token, "last", &train).json();
    let id = job_of["id"].as_str().unwrap().to_owned();
    until(&service, &token, &id, |job| job["progress"]["done"].as_u64().unwrap() >= 2);
    let before = children(&service.process);
    Command::new("kill").arg(service.process.id().to_string()).status().unwrap();
    assert!(service.process.wait().unwrap().success());
    assert!(before.iter().all(|child| !Path::new(&format!("/proc/{child}")).exists()));
    service.kill_and_restart();
    let found = job(&service, &token, &id);
    assert!(found["progress"]["done"].as_u64().unwrap() >= 2, "{found}");
    until(&service, &token, &id, state_is("done"));
    let line = format!("wait {id} -o resumed-{kills}.ct");
    remote(&service, &token, &line).ok();
    assert!(fs::read(at.join(format!("resumed-{kills}.ct"))).unwrap() == expected);
}

#[test]
fn killed_trainings_reach_the_same_model() {
    killed_at_random(4);
}

/// A training goes on from its state in a backup that was made while it ran, to the same model.
#[test]
fn trainings_go_on_from_a_backup() {
    let at = origin();
    let mut service = Service::start(&[]);
    if !service.option("--database").is_empty() {
        return;
    }
    let token = service.token("clinic");
    let mut train = request(&service, &token, "train", "train", "train.ct");
    train["history"] = true.into();
    let id = submit(&service, &token, "backup", &train).json()["id"].as_str().unwrap().to_owned();
    until(&service, &token, &id, |job| job["progress"]["done"].as_u64().unwrap() >= 2);
    let own = tempfile::tempdir().unwrap();
    let run = |line: &str| sudare_at(own.path(), line);
    let made = run(&format!("serve backup {} b --json", service.place())).json();
    assert_eq!(made["trainings"], 1, "{made}");
    service.process.kill().unwrap();
    run("serve restore --folder new b").ok();
    let states = own.path().join("new/jobs").join(&id).join("states");
    let names = names(&states);
    let begun = |name: &String| name.starts_with("iteration-") && **name >= *"iteration-000002.ct";
    assert!(names.iter().any(begun) && names.contains(&"weights-000001.ct".into()), "{names:?}");

    let second = Service::start_in(&own.path().join("new"), &[]);
    let least = Cell::new(u64::MAX);
    until(&second, &token, &id, |job| {
        least.set(least.get().min(job["progress"]["done"].as_u64().unwrap()));
        state_is("done")(job)
    });
    assert!(least.get() >= 2, "the training began again: {}", least.get());
    let line =
        "train --evaluation-key train/evaluation.key -i train.ct --history -o backup-whole.ct";
    sudare_at(at, line).ok();
    remote(&second, &token, &format!("wait {id} -o backup-resumed.ct")).ok();
    let [whole, resumed] =
        ["whole", "resumed"].map(|name| fs::read(at.join(format!("backup-{name}.ct"))).unwrap());
    assert!(whole == resumed);
}

#[test]
#[ignore = "long: make test-service"]
fn trainings_killed_often_reach_the_same_model() {
    killed_at_random(in_full(500, 50));
}
