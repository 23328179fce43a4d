//! The service as many use it and for long: clients at once, gigabytes, strangers, damaged files, connections that
//! break. `make test-service` runs a part of it, `make test-service-full` as much as is promised.
#![expect(clippy::print_stdout, reason = "what was measured is shown")]

use crate::common::computed;
use crate::common::computed::{digest, expect_result, origin, request, upload};
use crate::common::proxy::Proxy;
use crate::common::server::{Random, Service, children, in_full};
use crate::common::{resealed, sudare_at};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    path::Path,
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

const MIB: u64 = 1 << 20;
/// Options for a tenant that is many clients.
const MANY_REQUESTS: [&str; 6] =
    ["--tenant-requests", "100000", "--tenant-open", "2000", "--tenant-acts", "1000000"];

/// Of these tests, which are about time and memory, one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the server may take, whatever is sent to it: under load it has hundreds of threads that wait for
/// records.
const MAX_SERVER_MEMORY: u64 = 512 * MIB;

/// A figure of a process in bytes, as `VmRSS`.
fn memory(process: u32, figure: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(':'))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

fn expect_small(service: &Service) {
    let most = memory(service.process.id(), "VmHWM").unwrap();
    println!("the server takes {} MiB", most / MIB);
    assert!(most < MAX_SERVER_MEMORY, "{most}");
}

/// The value below which a share of all is.
fn quantile(values: &mut [Duration], share: f64) -> Duration {
    values.sort_unstable();
    values[((values.len() - 1) as f64 * share) as usize]
}

/// While jobs keep all processors busy, and clients read and write, everything is answered as it should be, and
/// in time whether the server lives.
#[test]
#[ignore = "long: make test-service"]
fn many_clients_are_answered_in_time() {
    let _alone = alone();
    const CLIENTS: usize = 64;
    const STREAMS: usize = 1000;
    let service = Service::start(&MANY_REQUESTS);
    let tokens: Vec<String> = (0..8).map(|i| service.token(&format!("tenant-{i}"))).collect();
    for token in &tokens {
        ["train", "stats"].iter().for_each(|kind| upload(&service, token, kind));
    }
    let end = Instant::now() + Duration::from_secs(in_full(600, 20).into());
    let followed: Vec<Mutex<String>> = (0..CLIENTS).map(|_| Mutex::default()).collect();
    let service = &service;
    let tokens = &tokens;
    let followed = &followed;
    let token_of = |client: usize| &tokens[client % tokens.len()][..];
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                scope.spawn(move || {
                    be_active(service, token_of(client), client, &followed[client], end)
                })
            })
            .collect();
        let streams = scope.spawn(move || {
            let of = |stream: usize| (token_of(stream % CLIENTS), &followed[stream % CLIENTS]);
            keep_streams(service, STREAMS, of, end)
        });
        // After all requests have arrived.
        thread::sleep(Duration::from_secs(3));
        let mut waits = Vec::new();
        while Instant::now() < end {
            let begun = Instant::now();
            assert_eq!(service.get("/healthz", "").status, 200);
            waits.push(begun.elapsed());
            thread::sleep(Duration::from_millis(50));
        }
        let count = waits.len();
        let [half, most] = [0.5, 0.99].map(|share| quantile(&mut waits, share));
        let mut requests = 0;
        let mut jobs = 0;
        for client in clients {
            let (asked, done) = client.join().unwrap();
            (requests, jobs) = (requests + asked, jobs + done);
        }
        let opened = streams.join().unwrap();
        println!(
            "{requests} requests, {jobs} jobs, {opened} streams of events for {STREAMS} at a time"
        );
        println!(
            "{count} times asked whether it lives: half within {half:?}, 99 % within {most:?}"
        );
        assert!(most < Duration::from_millis(100), "{most:?}");
        assert!(jobs > 0);
    });
    expect_small(service);
}

/// A client that asks for all that there is, one job after another; how often it asked, and for how many jobs
/// that were done.
fn be_active(
    service: &Service,
    token: &str,
    client: usize,
    current: &Mutex<String>,
    end: Instant,
) -> (u64, u64) {
    let kind = if client.is_multiple_of(4) { "train" } else { "stats" };
    let job = request(kind);
    let result = digest(&format!("{kind}-local.ct"));
    let table = format!("/v1/tables/{}", digest("train.ct"));
    let mut random = Random::new(client as u64);
    let mut requests = 0;
    let mut done = 0;
    let mut name = 0;
    let set = |id: &str| id.clone_into(&mut current.lock().unwrap());
    while Instant::now() < end {
        let mut id = current.lock().unwrap().clone();
        if id.is_empty() {
            let answer = service.submit(token, &format!("{client}-{name}"), &job);
            assert_eq!(answer.status, 202, "{answer:?}");
            (id, name) = (answer.json()["id"].as_str().unwrap().to_owned(), name + 1);
            set(&id);
        }
        let path = format!("/v1/jobs/{id}");
        let expect = |head: &str, status: u16| {
            let answer = service.send(head, token, "", 0, b"");
            assert_eq!(answer.status, status, "{head}: {answer:?}");
            answer
        };
        match random.below(10) {
            0 => drop(expect("GET /v1/jobs", 200)),
            1 => drop(expect(&format!("GET {table}"), 200)),
            2 => drop(expect("GET /v1/usage", 200)),
            3 => send_model(service, token, random.next()),
            4 if random.below(4) == 0 => {
                expect(&format!("DELETE {path}"), 200);
                set("");
            }
            _ => {
                let job = expect(&format!("GET {path}"), 200).json();
                if job["state"] == "done" {
                    assert_eq!(job["result"], result);
                    expect(&format!("GET {path}/receipt"), 200);
                    let part = "Range: bytes=0-999\r\n";
                    let part =
                        service.send(&format!("GET /v1/results/{result}"), token, part, 0, b"");
                    assert_eq!((part.status, part.body.len()), (206, 1000));
                    done += 1;
                    set("");
                } else {
                    assert!(job["state"] == "queued" || job["state"] == "running", "{job}");
                }
            }
        }
        requests += 1;
        thread::sleep(Duration::from_millis(random.below(200)));
    }
    (requests, done)
}

/// Sends a model in the clear that nobody has sent, and has it removed.
fn send_model(service: &Service, token: &str, number: u64) {
    let model = serde_json::json!({
        "kind": "logistic regression", "weights": [0.5, number as f64], "columns": ["x"],
        "target": "y", "divisors": [1.0], "iterations": 1, "rows": 2,
    });
    let text = model.to_string();
    let digest = blake3::hash(text.as_bytes()).to_string();
    let begun = service.begin("models", token, &digest, text.len());
    assert_eq!(begun.status, 201, "{begun:?}");
    let place = begun.header("location").unwrap();
    let sent = service.append(place, token, 0, text.as_bytes(), text.len());
    assert_eq!(sent.status, 204, "{sent:?}");
    let removed = service.send(&format!("DELETE /v1/models/{digest}"), token, "", 0, b"");
    assert_eq!(removed.status, 204, "{removed:?}");
}

/// Keeps so many streams of events open, each of the job that a client waits for, until the end; how many were
/// opened in all. Every second one is never read.
fn keep_streams<'a>(
    service: &Service,
    count: usize,
    of: impl Fn(usize) -> (&'a str, &'a Mutex<String>),
    end: Instant,
) -> usize {
    let mut streams: Vec<Option<TcpStream>> = (0..count).map(|_| None).collect();
    let mut opened = 0;
    let mut buffer = [0; 4096];
    while Instant::now() < end {
        for (number, stream) in streams.iter_mut().enumerate() {
            let ended = match stream {
                None => true,
                Some(stream) if number % 2 == 0 => match stream.read(&mut buffer) {
                    Ok(read) => read == 0,
                    Err(error) => error.kind() != ErrorKind::WouldBlock,
                },
                Some(_) => false,
            };
            let (token, current) = of(number);
            let id = current.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if ended && !id.is_empty() {
                let mut new = TcpStream::connect(&service.address).unwrap();
                let head = format!(
                    "GET /v1/jobs/{id}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
                );
                new.write_all(head.as_bytes()).unwrap();
                new.set_nonblocking(true).unwrap();
                (*stream, opened) = (Some(new), opened + 1);
            }
        }
        thread::sleep(Duration::from_millis(200));
    }
    let open = streams.iter().flatten().count();
    assert_eq!(open, count, "streams at the end");
    opened
}

/// What another tenant has is answered like what nobody has: the same words, and as fast.
#[test]
#[ignore = "long: make test-service"]
fn strangers_learn_nothing_by_answers_nor_by_their_time() {
    let _alone = alone();
    let service = Service::start(&[&["--jobs", "0"], &MANY_REQUESTS[..]].concat());
    let owner = service.token("clinic");
    let stranger = service.token("lab");
    upload(&service, &owner, "stats");
    let job = service.submit(&owner, "a", &request("stats")).json();
    let file = fs::read(origin().join("train.ct")).unwrap();
    let begun = service.begin("tables", &owner, &digest("train.ct"), file.len());
    let place = begun.header("location").unwrap();
    service.append(place, &owner, 0, &file[..1000], 1000);
    let id = job["id"].as_str().unwrap();
    let tus = "Tus-Resumable: 1.0.0\r\n";
    let offset = "Tus-Resumable: 1.0.0\r\nUpload-Offset: 1000\r\n\
                  Content-Type: application/offset+octet-stream\r\n";
    let table = digest("stats.ct");
    let keys = digest("stats/evaluation.key");
    let pairs = [
        ("GET", "tables", &table[..], "", ""),
        ("DELETE", "tables", &table, "", ""),
        ("GET", "keys", &keys, "", ""),
        ("GET", "jobs", id, "", ""),
        ("DELETE", "jobs", id, "", ""),
        ("GET", "jobs", id, "/events", ""),
        ("GET", "jobs", id, "/receipt", ""),
        ("HEAD", "uploads", place.strip_prefix("/v1/uploads/").unwrap(), "", tus),
        ("PATCH", "uploads", place.strip_prefix("/v1/uploads/").unwrap(), "", offset),
        ("DELETE", "uploads", place.strip_prefix("/v1/uploads/").unwrap(), "", tus),
    ];
    let rounds = in_full(500, 50);
    let mut random = Random::new(7);
    for (method, collection, name, rest, headers) in pairs {
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..2 * rounds {
            // The order alternates, because caches remember.
            let foreign = (round + round / 2) % 2 == 0;
            let absent: String =
                (0..name.len()).map(|_| format!("{:x}", random.below(16))).collect();
            let name = if foreign { name } else { &absent[..] };
            let head = format!("{method} /v1/{collection}/{name}{rest}");
            let begun = Instant::now();
            let answer = service.send(&head, &stranger, headers, 0, b"");
            times[usize::from(foreign)].push(begun.elapsed());
            assert_eq!(answer.status, 404, "{head}");
            // A response to HEAD has no body.
            let said = answer.json();
            assert!(method == "HEAD" || said["kind"] == "NotFound", "{head}: {said}");
            assert!(!String::from_utf8_lossy(&answer.body).contains(name), "{said}");
        }
        // The probability that a time of the first sample exceeds one of the second.
        let [absent, foreign] = &times;
        let longer = |time: &Duration| absent.iter().filter(|other| *other < time).count();
        let longer: usize = foreign.iter().map(longer).sum();
        let chance = longer as f64 / (absent.len() * foreign.len()) as f64;
        println!("{method} {collection}{rest}: {chance:.3}");
        // Six standard deviations of chance.
        let most = 6.0 / (6.0 * f64::from(rounds)).sqrt();
        assert!((chance - 0.5).abs() < most, "{method} {collection}{rest}: {chance}");
    }
    // The server stores nothing about these requests either.
    let before = memory(service.process.id(), "VmRSS").unwrap();
    for number in 0..in_full(10_000, 2000) {
        let path = format!("/v1/jobs/{}{number}/events", "a".repeat(8000));
        assert_eq!(service.get(&path, &stranger).status, 404);
    }
    let grown = memory(service.process.id(), "VmRSS").unwrap().saturating_sub(before);
    assert!(grown < 8 * MIB, "{grown}");
    // No data was lost.
    assert_eq!(service.get(&format!("/v1/jobs/{id}"), &owner).json()["state"], "queued");
    assert_eq!(service.offset(place, &owner), Some(1000));
}

/// Altered files are refused, or are tables that no job can be done with: never a failure of the server.
#[test]
#[ignore = "long: make test-service"]
fn altered_files_do_the_server_no_harm() {
    let _alone = alone();
    let service = Service::start(&[&["--tenant-jobs", "100000"], &MANY_REQUESTS[..]].concat());
    let token = service.token("clinic");
    upload(&service, &token, "stats");
    let file = fs::read(origin().join("stats.ct")).unwrap();
    let mut random = Random::new(3);
    let encoded = u64::from_le_bytes(file[48..56].try_into().unwrap());
    let mut counts = BTreeMap::<String, u32>::new();
    let mut jobs = Vec::new();
    for number in 0..in_full(10_000, 200) {
        let mut altered = file.clone();
        let way = random.below(4);
        let at = |random: &mut Random| match way {
            // The start, the output, and all of it.
            0 => random.below(64) as usize,
            1 | 2 => (64 + random.below(encoded)) as usize,
            _ => random.below(file.len() as u64) as usize,
        };
        for _ in 0..=random.below(3) {
            altered[at(&mut random)] ^= 1 << random.below(8);
        }
        if way == 2 {
            altered = resealed(&altered);
        } else if random.below(4) == 0 {
            altered.truncate(1 + random.below(file.len() as u64) as usize);
        }
        let digest = blake3::hash(&altered).to_string();
        let begun = service.begin("tables", &token, &digest, altered.len());
        assert_eq!(begun.status, 201, "{begun:?}");
        let place = begun.header("location").unwrap();
        let sent = service.append(place, &token, 0, &altered, altered.len());
        let mut said = sent.status.to_string();
        if sent.status == 204 {
            let mut job = request("stats");
            job["tables"] = vec![digest].into();
            let answer = service.submit(&token, &number.to_string(), &job);
            said += &format!(" {}", answer.status);
            if answer.status == 202 {
                jobs.push(answer.json()["id"].as_str().unwrap().to_owned());
            } else {
                said += &format!(" {}", answer.problem(answer.status));
            }
            assert!(answer.status < 500, "{answer:?}");
        } else {
            said += &format!(" {}", sent.problem(sent.status));
            assert!((400..500).contains(&sent.status), "{sent:?}");
        }
        *counts.entry(said).or_default() += 1;
    }
    let mut ends = BTreeMap::<String, u32>::new();
    for id in &jobs {
        let ended = |job: &Value| job["state"] != "queued" && job["state"] != "running";
        let job = service.until(&token, id, ended);
        assert_eq!(job["state"], "failed", "{job}");
        let kind = job["error"]["kind"].as_str().unwrap();
        assert_ne!(kind, "Died", "{job}");
        *ends.entry(kind.into()).or_default() += 1;
    }
    println!("{counts:?}\njobs: {ends:?}");
    // Some files passed, and intact ones are still computed.
    assert!(!jobs.is_empty());
    let id = computed::ask(&service, &token, "stats", "whole");
    expect_result(&service, &token, &id, "stats");
    expect_small(&service);
}

/// Large keys are taken as fast as the disk takes them, and never into memory.
#[test]
#[ignore = "gigabytes: make test-service"]
fn gigabytes_are_stored_in_little_memory() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let line = "keygen --params auto --for train:2000x100 --iterations 30 --out keys";
    sudare_at(at, line).ok();
    let bytes = fs::metadata(at.join("keys/evaluation.key")).unwrap().len();
    let service = Service::start(&[]);
    let token = service.token("clinic");
    let before = memory(service.process.id(), "VmHWM").unwrap();
    let begun = Instant::now();
    service.remote(at, &token, "upload keys/evaluation.key").ok();
    let took = begun.elapsed().as_secs_f64();
    let grown = memory(service.process.id(), "VmHWM").unwrap() - before;
    let speed = bytes as f64 / took / 1e6;
    println!("{bytes} bytes, {speed:.0} MB/s, {} MiB more memory", grown / MIB);
    assert!(bytes > 1_000_000_000 && grown <= 64 * MIB);
    assert!(speed > 200.0);
}

/// The process of a job that is cancelled is gone within two seconds, whenever that is.
#[test]
#[ignore = "long: make test-service"]
fn cancelled_jobs_are_gone_within_two_seconds() {
    let _alone = alone();
    let service = Service::start(&[]);
    let token = service.token("clinic");
    upload(&service, &token, "train");
    let mut random = Random::new(11);
    let mut longest = Duration::ZERO;
    for number in 0..in_full(100, 10) {
        let id = computed::ask(&service, &token, "train", &number.to_string());
        let begun = Instant::now();
        while children(&service.process).is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(60));
        }
        thread::sleep(Duration::from_millis(random.below(1500)));
        let processes = children(&service.process);
        let begun = Instant::now();
        let answer = service.send(&format!("DELETE /v1/jobs/{id}"), &token, "", 0, b"");
        let gone = processes.iter().all(|id| !Path::new(&format!("/proc/{id}")).exists());
        longest = longest.max(begun.elapsed());
        // A finished job cannot be cancelled.
        let state = answer.json()["state"].clone();
        assert!(gone && (state == "cancelled" || state == "done"), "{state}");
    }
    println!("the longest took {longest:?}");
    assert!(longest < Duration::from_secs(2), "{longest:?}");
}

/// What jobs take of memory is what they were predicted to take.
#[test]
#[ignore = "long: make test-service"]
fn jobs_take_the_memory_that_is_predicted() {
    let _alone = alone();
    let service = Service::start(&["--tenant-requests", "1000"]);
    let token = service.token("clinic");
    for kind in ["stats", "train"] {
        upload(&service, &token, kind);
        let id = computed::ask(&service, &token, kind, kind);
        let mut most = 0;
        let job = loop {
            let figure = |id: &u32| memory(*id, "VmHWM");
            most = children(&service.process).iter().filter_map(figure).fold(most, u64::max);
            let job = service.get(&format!("/v1/jobs/{id}"), &token).json();
            if job["state"] != "queued" && job["state"] != "running" {
                break job;
            }
            thread::sleep(Duration::from_millis(2));
        };
        assert_eq!(job["state"], "done", "{job}");
        let predicted = job["predicted"]["memory_bytes"].as_u64().unwrap();
        println!("{kind}: {} MiB, predicted {}", most / MIB, predicted / MIB);
        assert!(most > 0 && most as f64 <= 1.1 * predicted as f64, "{kind}: {most} {predicted}");
    }
}

/// Whatever is dropped, delayed or sent twice between them, client and server come to the same result, and for
/// each connection that breaks one part is sent again at most.
#[test]
#[ignore = "long: make test-service"]
fn broken_connections_change_nothing() {
    let _alone = alone();
    let service = Service::start(&MANY_REQUESTS);
    let proxy = Proxy::start(&service.address);
    for round in 0..in_full(40, 3) {
        let token = service.token(&format!("tenant-{round}"));
        let url = format!("http://{}", proxy.address);
        let file = service.token_file(&token);
        let line = format!(
            "remote train --evaluation-key train/evaluation.key -i train.ct --history -o far.ct --force \
             --url {url} --token-file {}",
            file.display()
        );
        // Killed during the transfer, and requested again.
        let mut first = Command::new(env!("CARGO_BIN_EXE_sudare"))
            .args(line.split_whitespace())
            .current_dir(origin())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(300 + 100 * u64::from(round)));
        first.kill().unwrap();
        first.wait().unwrap();
        sudare_at(origin(), &line).ok();
        assert_eq!(digest("far.ct"), digest("train-local.ct"));
    }
    let counts = proxy.counts;
    println!("{counts:?}");
    for count in [&counts.broken, &counts.repeated, &counts.delayed] {
        assert!(count.load(Ordering::Relaxed) > 0);
    }
}
