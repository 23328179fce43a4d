//! The service beside a tenant who takes what it can: memory, processors, connections, records and the disk.
//! Others are served as before, and the one who takes too much is told so.

use crate::common::computed::{ask, digest, expect_result, origin, request, upload};
use crate::common::server::{Answer, Service, children};
use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
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

/// Bytes of memory that a small machine gives a server.
const SMALL_MEMORY: u64 = 1 << 30;

/// The header of evaluation keys for large parameters: a kilobyte whose tables take 100 MB or more. It comes
/// with the size of the whole file.
fn large_header() -> (Vec<u8>, usize) {
    let params = Params::new(Spec::uniform(17, 36.0, 80, 36.0, vec![39.0, 39.0])).unwrap();
    let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
    let secret = keygen.secret_key().unwrap();
    let request = KeyRequest::new().relinearize(Level(0));
    let keys = keygen.evaluation_keys(&secret, &request).unwrap();
    let job = Job::Stats(sudare_apps::stats::Job { rows: 20, features: 2 });
    let label = Meta::of(job).label("large", Content::Keys).unwrap();
    let mut file = Vec::new();
    serial::write_evaluation_keys(&mut file, &params, &keys, &label).unwrap();
    let encoded = u64::from_le_bytes(file[48..56].try_into().unwrap()) as usize;
    let bytes = file.len();
    file.truncate((64 + encoded + 32).next_multiple_of(64));
    (file, bytes)
}

/// The same parameters, written differently: both name the largest prime of at most 36 bits as the first.
fn variant(header: &[u8], number: u64) -> Vec<u8> {
    let mut header = header.to_vec();
    // log2 of N, the number of levels, and the number of primes of the first level are a byte each.
    let place = 67..75;
    assert_eq!(header[place.clone()], 36.0_f64.to_le_bytes());
    let size = 36.0 + (number + 1) as f64 * f64::EPSILON * 32.0;
    header[place].copy_from_slice(&size.to_le_bytes());
    let checksum = header.len() - 32;
    let sum = blake3::hash(&header[..checksum]);
    header[checksum..].copy_from_slice(sum.as_bytes());
    header
}

/// Begins an upload, however often that is refused for now; where it is.
fn begin(service: &Service, token: &str, number: u64, bytes: usize) -> String {
    loop {
        let begun = service.begin("keys", token, &format!("{number:064x}"), bytes);
        match begun.status {
            429 => thread::sleep(Duration::from_millis(50)),
            _ => return begun.header("location").unwrap().to_owned(),
        }
    }
}

fn peak_memory(service: &Service) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", service.process.id())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

/// Two hundred files of a kilobyte each at once, again and again, whose parameters would take more than ten
/// times the memory of the machine: the server lives, refuses most of them for now, and serves others.
#[test]
fn small_files_of_large_parameters_end_no_server() {
    const AT_ONCE: u64 = 200;
    let (header, bytes) = large_header();
    assert!(header.len() < 2048, "{}", header.len());
    let mut service = Service::start(&["--tenant-requests", "10000"]);
    let token = service.token("clinic");
    let other = service.token("lab");
    let limit = format!("--data={SMALL_MEMORY}");
    assert!(service.is_restarted_under(vec!["prlimit".into(), limit]));
    let counts: Mutex<BTreeMap<u16, u64>> = Mutex::default();
    let numbers = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let longest = thread::scope(|scope| {
        let sending: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let number = numbers.fetch_add(1, Ordering::Relaxed);
                        let place = begin(&service, &token, number, bytes);
                        let part = variant(&header, number);
                        let answer = append(&service, &place, &token, &part, bytes);
                        *counts.lock().unwrap().entry(answer).or_default() += 1;
                    }
                })
            })
            .collect();
        thread::sleep(Duration::from_secs(2));
        // Another tenant sends its usual requests.
        let mut longest = Duration::ZERO;
        for _ in 0..2 {
            let begun = Instant::now();
            upload(&service, &other, "stats");
            longest = longest.max(begun.elapsed());
            let stats = request("stats");
            let removed = format!("DELETE /v1/tables/{}", stats["tables"][0].as_str().unwrap());
            assert_eq!(service.send(&removed, &other, "", 0, b"").status, 204);
        }
        stop.store(true, Ordering::Relaxed);
        sending.into_iter().for_each(|thread| thread.join().unwrap());
        longest
    });
    assert!(service.process.try_wait().unwrap().is_none(), "the server died");
    let counts = counts.into_inner().unwrap();
    let most = peak_memory(&service);
    assert!(counts.keys().all(|status| [204, 429, 503].contains(status)), "{counts:?}");
    assert!(counts[&429] > AT_ONCE && counts[&204] > 0, "{counts:?}");
    assert!(most < SMALL_MEMORY, "{most}");
    // The limit is for a busy machine. An idle one takes a fraction of a second.
    assert!(longest < Duration::from_secs(8), "{longest:?}");
    // A file that was refused for a moment is accepted later.
    let place = begin(&service, &token, u64::MAX, bytes);
    let part = variant(&header, 0);
    while append(&service, &place, &token, &part, bytes) == 429 {}
    assert_eq!(service.offset(&place, &token), Some(part.len()));
}

/// Sends the first part of a file alone, by a request of its own; the status.
fn append(service: &Service, place: &str, token: &str, part: &[u8], bytes: usize) -> u16 {
    assert!(part.len() < bytes);
    service.append(place, token, 0, part, part.len()).status
}

/// A job that records alone rule out is refused before files are read, and so takes no processors.
#[test]
fn jobs_of_another_kind_are_refused_without_a_price() {
    let service = Service::start(&[]);
    let token = service.token("clinic");
    upload(&service, &token, "stats");
    let mut asked = request("stats");
    let keys = asked["keys"].as_str().unwrap().to_owned();
    fs::write(service.folder.join("objects/clinic").join(keys), b"unreadable").unwrap();
    assert_eq!(service.submit(&token, "read", &asked).status, 422);
    asked["kind"] = "histogram".into();
    let refused = service.submit(&token, "kind", &asked);
    assert_eq!(refused.problem(422), "Usage");
    assert!(refused.json()["detail"].as_str().unwrap().contains("not a histogram job"));
    asked["kind"] = "stats".into();
    asked["iterations"] = 3.into();
    let refused = service.submit(&token, "iterations", &asked);
    assert!(refused.json()["detail"].as_str().unwrap().contains("only trainings"));
}

/// Begins to send a part of an upload: one byte, and no more.
fn standing(service: &Service, token: &str, number: u64) -> TcpStream {
    let place = begin(service, token, number, 100_000);
    let mut stream = TcpStream::connect(&service.address).unwrap();
    let head = format!(
        "PATCH {place} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\
         Tus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\nContent-Length: 100000\r\n\
         Content-Type: application/offset+octet-stream\r\n\r\nx"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

fn retry_after(answer: &Answer) -> u64 {
    answer.header("retry-after").unwrap().parse().unwrap()
}

/// Requests that are open count until their answers have been sent: parts of uploads and streams of events.
#[test]
fn tenants_have_few_requests_open() {
    let service = Service::start(&["--tenant-open", "4", "--jobs", "0"]);
    let token = service.token("clinic");
    let other = service.token("lab");
    upload(&service, &token, "stats");
    let job = ask(&service, &token, "stats", "a");
    let mut held: Vec<TcpStream> =
        (0..2).map(|number| standing(&service, &token, number)).collect();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(&service.address).unwrap();
        let head = format!(
            "GET /v1/jobs/{job}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        assert!(stream.read(&mut [0; 100]).unwrap() > 0);
        held.push(stream);
    }
    let refused = until(|| service.get("/v1/keys", &token), 429);
    assert_eq!((refused.problem(429), retry_after(&refused)), ("TooManyRequests".into(), 1));
    assert_eq!(service.get("/v1/keys", &other).status, 200);
    assert_eq!(service.get("/healthz", "").status, 200);
    for _ in 0..4 {
        held.pop();
        until(|| service.get("/v1/keys", &token), 200);
    }
}

/// Asks until that is answered with a status.
fn until(ask: impl Fn() -> Answer, status: u16) -> Answer {
    let begun = Instant::now();
    loop {
        let answer = ask();
        if answer.status == status {
            return answer;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{answer:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Limits the number of objects, and of lines of the audit log.
#[test]
fn tenants_have_so_many_objects_and_acts() {
    let service = Service::start(&["--tenant-objects", "3", "--tenant-acts", "5"]);
    let token = service.token("clinic");
    let other = service.token("lab");
    upload(&service, &token, "stats");
    let begun = |number: u64| service.begin("keys", &token, &format!("{number:064x}"), 9);
    // A file of a few bytes takes a block of the disk.
    let bytes = |answer: Answer| answer.json()["bytes"]["used"].as_u64().unwrap();
    let before = bytes(service.get("/v1/usage", &token));
    assert_eq!(begun(1).status, 201);
    assert_eq!(bytes(service.get("/v1/usage", &token)), before + 4096);
    let place = begun(1).header("location").unwrap().to_owned();
    assert_eq!(begun(2).problem(413), "Quota");
    let stats = request("stats");
    assert_eq!(service.submit(&token, "a", &stats).problem(413), "Quota");
    let usage = service.get("/v1/usage", &token).json();
    assert_eq!(usage["objects"], serde_json::json!({ "used": 3, "limit": 3 }));
    // An upload of an existing object takes no space, and always has the same name.
    let keys = stats["keys"].as_str().unwrap();
    let size = fs::metadata(origin().join("stats/evaluation.key")).unwrap().len() as usize;
    let found =
        |_| service.begin("keys", &token, keys, size).header("location").unwrap().to_owned();
    let places: Vec<String> = (0..20).map(found).collect();
    assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
    assert_eq!(
        service.send(&format!("DELETE {place}"), &token, "Tus-Resumable: 1.0.0\r\n", 0, b"").status,
        204
    );
    // Five audited acts: two uploads, a third, a refused fourth, and a refused job.
    let refused = begun(3);
    assert_eq!(refused.problem(429), "TooManyRequests");
    assert!((600..=720).contains(&retry_after(&refused)), "{refused:?}");
    let removed = format!("DELETE /v1/keys/{keys}");
    assert_eq!(service.send(&removed, &token, "", 0, b"").problem(429), "TooManyRequests");
    assert_eq!(service.submit(&token, "b", &stats).problem(429), "TooManyRequests");
    upload(&service, &other, "stats");
}

/// A process of a job has none of the secrets in the server's environment.
#[test]
fn jobs_do_not_inherit_secrets() {
    let mut service = Service::start(&[]);
    let token = service.token("clinic");
    let secret = "AWS_SECRET_ACCESS_KEY=of-the-store";
    assert!(service.is_restarted_under(vec!["env".into(), secret.into()]));
    upload(&service, &token, "train");
    let id = ask(&service, &token, "train", "a");
    let begun = Instant::now();
    let variables = loop {
        let process = children(&service.process).first().copied();
        // The process runs the server's program before the job's.
        let read = process.and_then(|id| {
            let named = fs::read_to_string(format!("/proc/{id}/cmdline")).ok()?;
            named.ends_with("serve\0job\0").then(|| fs::read(format!("/proc/{id}/environ")).ok())?
        });
        match read.filter(|variables| !variables.is_empty()) {
            Some(variables) => break String::from_utf8_lossy(&variables).into_owned(),
            None => assert!(begun.elapsed() < Duration::from_secs(60)),
        }
    };
    assert!(variables.contains("PATH=") && !variables.contains("of-the-store"), "{variables}");
    expect_result(&service, &token, &id, "train");
}

/// With less than the reserve free, nothing is taken; what frees the disk goes on, and so does a start.
#[test]
fn a_disk_that_is_nearly_full_takes_nothing_more() {
    let mut service = Service::start(&[]);
    let token = service.token("clinic");
    upload(&service, &token, "stats");
    let id = ask(&service, &token, "stats", "a");
    expect_result(&service, &token, &id, "stats");
    assert!(fs::metadata(service.folder.join("ballast")).unwrap().len() > 0);
    let begun = service.begin("keys", &token, &"0".repeat(64), 100);
    let place = begun.header("location").unwrap().to_owned();
    service.restart_with(&["--disk-reserve", "1000000"]);
    assert_eq!(service.begin("keys", &token, &"1".repeat(64), 9).problem(507), "StorageFull");
    assert_eq!(service.append(&place, &token, 0, b"0123456789", 10).problem(507), "StorageFull");
    assert_eq!(service.submit(&token, "b", &request("stats")).problem(507), "StorageFull");
    // The earlier job is known, and its result is there.
    assert_eq!(service.submit(&token, "a", &request("stats")).json()["id"], id);
    let result = format!("/v1/results/{}", digest("stats-local.ct"));
    assert_eq!(service.get(&result, &token).status, 200);
    assert_eq!(service.get("/v1/keys", &token.replace("sudare_", "sudare_0")).status, 401);
    let keys = request("stats")["keys"].as_str().unwrap().to_owned();
    assert_eq!(service.send(&format!("DELETE /v1/keys/{keys}"), &token, "", 0, b"").status, 204);
    service.kill_and_restart();
    assert_eq!(service.get(&result, &token).status, 200);
}

/// A file system of its own, which goes with the test.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    /// None where the system does not permit that.
    fn new(folder: &'a Path, options: &str) -> Option<Self> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(folder)
            .output();
        mounted.is_ok_and(|done| done.status.success()).then_some(Self(folder))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

/// On a disk without a free byte objects are removed, results fetched and wrong tokens refused, and a server that
/// was killed begins: by the room of its ballast.
#[test]
fn a_full_disk_comes_free_again() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_mounted) = Mounted::new(folder.path(), "size=24m") else { return };
    let mut service = Service::start_in(&folder.path().join("store"), &[]);
    let token = service.token("clinic");
    upload(&service, &token, "stats");
    let id = ask(&service, &token, "stats", "a");
    expect_result(&service, &token, &id, "stats");
    // Uploads end before the ballast is needed, for any size of uploads.
    let large = service.begin("keys", &token, &"2".repeat(64), 20 << 20);
    assert_eq!(large.problem(507), "StorageFull");
    assert!(service.folder.join("ballast").exists());
    let mut fill = fs::File::create(folder.path().join("fill")).unwrap();
    while fill.write(&[0; 4096]).is_ok() {}
    let wrong = format!("{}{}", &token[..23], "0".repeat(token.len() - 23));
    let result = format!("/v1/results/{}", digest("stats-local.ct"));
    assert_eq!(service.get("/healthz", "").status, 200);
    assert_eq!(service.get("/v1/keys", &wrong).problem(401), "Unauthorized");
    assert_eq!(service.get(&result, &token).status, 200);
    assert_eq!(service.begin("keys", &token, &"1".repeat(64), 9).problem(507), "StorageFull");
    service.kill_and_restart();
    assert_eq!(service.get(&result, &token).status, 200);
    for (collection, place) in [("tables", "stats.ct"), ("keys", "stats/evaluation.key")] {
        let removed = format!("DELETE /v1/{collection}/{}", digest(place));
        assert_eq!(service.send(&removed, &token, "", 0, b"").status, 204);
    }
    drop(fill);
    fs::remove_file(folder.path().join("fill")).unwrap();
    upload(&service, &token, "stats");
    crate::common::sudare_at(origin(), &format!("serve audit {}", service.place())).ok();
}
