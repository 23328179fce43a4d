//! What a service can be held to: receipts of results, and its audit log; what it lets pages in browsers do;
//! what tenants may take; TLS of its own; and what collectors of spans are told.

use crate::common::server;
use crate::common::server::Service;
use crate::common::{Run, STATS, statistics, sudare_at};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    sync::{Arc, Mutex},
    thread,
};

/// Runs a command in the folder of keys.
fn run(line: &str) -> Run {
    sudare_at(statistics(), line)
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
    let at = statistics();
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

    other_receipts_are_refused(&key, &receipt);
    let stranger = Service::start(&[]);
    let other = server_key(&stranger);
    assert_ne!(other, key);
    assert_eq!(kind(&check(&format!("--server-key {other}"))), "ReceiptOtherServer");

    // A client that pins another server gets neither result nor receipt.
    let line = format!("{STATS} -o other.ct --server-key {other} --json");
    assert_eq!(kind(&service.remote(at, &token, &line)), "ReceiptOtherServer");
    assert!(!at.join("other.ct").exists() && !at.join("other.ct.receipt").exists());
    // A client without a pinned key prints the key and stores the receipt, for every way of
    // download.
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
    // An existing receipt is replaced only on request.
    fs::remove_file(at.join("again.ct")).unwrap();
    service.remote(at, &token, &line).mistake(&["again.ct.receipt exists"]);
    service.remote(at, &token, &format!("{line} --force")).ok();

    // Other tenants cannot read it, and it does not exist before the job is done.
    let path = format!("/v1/jobs/{}/receipt", done["job"].as_str().unwrap());
    let lab = service.token("lab");
    let absent = service.get("/v1/jobs/0123456789abcdef/receipt", &lab);
    let foreign = service.get(&path, &lab);
    assert_eq!((foreign.problem(404), &foreign.body), (absent.problem(404), &absent.body));
    // The key and the receipt survive a restart. A server with another key is another server.
    service.kill_and_restart();
    assert_eq!(
        (server_key(&service), service.get(&path, &token).body),
        (key.clone(), receipt.into())
    );
    service.restart_with_another_key();
    assert_ne!(server_key(&service), key);
    service.remote(at, &token, &format!("remove results {digest}")).ok();
    let line = format!("{STATS} -o new.ct --server-key {key} --json");
    assert_eq!(kind(&service.remote(at, &token, &line)), "ReceiptOtherServer");
}

/// With files of something else, and one that was altered.
fn other_receipts_are_refused(key: &str, receipt: &str) {
    let check = |file: &str, options: &str| {
        run(&format!("receipt check {file} --server-key {key} {options} --json"))
    };
    for other in [
        "--result t.ct",
        "--evaluation-key t.ct",
        "-i pinned.ct",
        "-i t.ct -i t.ct",
        "--model t.ct",
    ] {
        assert_eq!(kind(&check("pinned.ct.receipt", other)), "ReceiptDiffers", "{other}");
    }
    let altered = receipt.replace("\"stats\"", "\"train\"");
    fs::write(statistics().join("false.receipt"), altered).unwrap();
    assert_eq!(kind(&check("false.receipt", "")), "ReceiptForged");
    run("receipt check pinned.ct.receipt --server-key 00").mistake(&["64 hexadecimal digits"]);
}

/// The events of a log, in order, and its text.
fn events(service: &Service) -> (Vec<Value>, String) {
    let folder = service.folder.join("audit");
    let names = crate::common::names(&folder);
    let files = names.iter().filter(|name| name.ends_with(".jsonl"));
    let text: String = files.map(|name| fs::read_to_string(folder.join(name)).unwrap()).collect();
    (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), text)
}

#[test]
fn security_events_are_in_the_audit_log() {
    let at = statistics();
    let mut service = Service::start(&[]);
    let token = service.token("clinic");
    for _ in 0..50 {
        assert_eq!(service.get("/v1/keys", &token.replace('0', "1")).problem(401), "Unauthorized");
    }
    let line = format!("{STATS} -o audited.ct --json");
    let done = service.remote(at, &token, &line).json();
    service.remote(at, &token, &format!("{line} --force")).ok();
    let secret = fs::read(at.join("keys/secret.key")).unwrap();
    let digest = blake3::hash(&secret).to_string();
    let begun = service.begin("keys", &token, &digest, secret.len());
    let place = begun.header("location").unwrap();
    assert_eq!(service.append(place, &token, 0, &secret[..100], 100).problem(422), "SecretKey");
    let result = done["digest"].as_str().unwrap();
    service.remote(at, &token, &format!("remove results {result}")).ok();
    let folder = service.folder.display().to_string();
    run(&format!("serve token revoke {} --tenant clinic", service.place())).ok();

    let audit = |options: &str| run(&format!("serve audit {options} --json"));
    let whole = audit(&service.place()).json();
    let (all, text) = events(&service);
    // Repeated events are added up once a minute, which may have passed.
    let mut seen = std::collections::HashSet::new();
    let is_first =
        |event: &&Value| event.get("times").is_none() || seen.insert(event["event"].to_string());
    let found: Vec<Value> = all.iter().filter(is_first).cloned().collect();
    let names: Vec<&str> = found.iter().map(|event| event["event"].as_str().unwrap()).collect();
    let expected = [
        "server-started",
        "token-added",
        "authentication-refused",
        "upload-completed",
        "upload-completed",
        "job-submitted",
        "job-started",
        "job-ended",
        "result-fetched",
        "secret-key-refused",
        "object-deleted",
        "token-revoked",
    ];
    assert_eq!(names, expected);
    assert_eq!((&whole["last"], &whole["pending"]), (&all.len().into(), &0.into()));
    assert_eq!(found[0]["server_key"], server_key(&service));
    assert_eq!((&found[7]["job"], &found[7]["result"]), (&done["job"], &result.into()));
    assert_eq!((&found[7]["state"], &found[8]["result"]), (&"done".into(), &result.into()));
    assert!(found[3..].iter().all(|event| event["tenant"] == "clinic"));
    assert!(!text.contains(&token[23..]) && !text.contains("sudare_"));

    // After a kill, the log continues. A copy is a valid log with the noted head.
    service.kill_and_restart();
    let head = whole["head"].as_str().unwrap();
    let copy = format!("--log {folder}/audit --head {head}");
    assert_eq!(audit(&copy).json()["last"], all.len() + 1);
    audit("--log nowhere --head 1:0").mistake(&["expected NUMBER:DIGEST"]);
    // On SIGTERM, the server records the number of refusals.
    for _ in 0..5 {
        assert_eq!(service.get("/v1/keys", "x").status, 401);
    }
    std::process::Command::new("kill").arg(service.process.id().to_string()).status().unwrap();
    assert!(service.process.wait().unwrap().success());
    let (found, _) = events(&service);
    let refused = found[all.len() + 1..].iter().filter_map(|event| event["times"].as_u64());
    assert_eq!(refused.sum::<u64>(), 5);

    altered_logs_are_found_out(&mut service, &copy, found.len());
}

fn altered_logs_are_found_out(service: &mut Service, copy: &str, events: usize) {
    let audit = |options: &str| run(&format!("serve audit {options} --json"));
    // An altered line in the middle is detected and named.
    let file = service.folder.join("audit/audit-0000000000000001.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen("secret-key-refused", "secret-key-received", 1)).unwrap();
    let line = "audit-0000000000000001.jsonl is not a valid unbroken audit log: line 1";
    for options in [service.place(), copy.to_owned()] {
        assert!(audit(&options).mistake(&[line]).stderr.contains("Parse"));
    }
    // With an altered last line, the server refuses to start.
    fs::write(&file, [&text[..text.len() - 10], "0123456\"}\n"].concat()).unwrap();
    let shared = service.option("--objects");
    let line = format!("serve {} {shared} --listen 127.0.0.1:0", service.place());
    run(&line).mistake(&[
        "its last line is invalid: its digest does not match its content; move the directory",
    ]);
    fs::rename(service.folder.join("audit"), service.folder.join("evidence")).unwrap();
    service.kill_and_restart();
    let whole = audit(&service.place()).json();
    assert_eq!((&whole["first"], &whole["last"]), (&1.into(), &(events + 1).into()));
}

/// Killed at any moment, a server leaves a log that is whole, and that has what was answered.
#[test]
fn killed_servers_leave_whole_logs() {
    let mut service = Service::start(&[]);
    let token = service.token("clinic");
    let table = fs::read(statistics().join("t.ct")).unwrap();
    let digest = blake3::hash(&table).to_string();
    let path = format!("DELETE /v1/tables/{digest}");
    let mut deleted = 0_usize;
    let mut random = 1_u64;
    for _ in 0..12 {
        let begun = service.begin("tables", &token, &digest, table.len());
        let place = begun.header("location").unwrap().to_owned();
        service.append(&place, &token, 0, &table, table.len());
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let pause = random >> 51;
        let process = service.process.id();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_micros(pause));
            std::process::Command::new("kill").args(["-9", &process.to_string()]).status().unwrap();
        });
        // No listener means no response.
        let answer = std::panic::catch_unwind(|| service.send(&path, &token, "", 0, b"").status);
        deleted += usize::from(answer.is_ok_and(|status| status == 204));
        killer.join().unwrap();
        service.kill_and_restart();
        let line = format!("serve audit {} --json", service.place());
        assert_eq!(run(&line).json()["pending"], 0);
        let (found, _) = events(&service);
        let count = found.iter().filter(|event| event["event"] == "object-deleted").count();
        assert!(count >= deleted, "{count} of {deleted}");
        deleted = count;
    }
}

/// What a browser asks for a page before it sends what the page wants.
fn preflight(service: &Service, path: &str, origin: &str, method: &str) -> server::Answer {
    let headers = format!(
        "Origin: {origin}\r\nAccess-Control-Request-Method: {method}\r\n\
         Access-Control-Request-Headers: authorization,tus-resumable,upload-offset,content-type\r\n"
    );
    service.send(&format!("OPTIONS {path}"), "", &headers, 0, b"")
}

const ALLOW: &str = "access-control-allow-origin";

#[test]
fn pages_of_named_origins_may_ask_and_no_others() {
    let page = "https://page.example:8443";
    let service =
        Service::start(&["--allow-origin", page, "--allow-origin", "http://127.0.0.1:8000"]);
    let token = service.token("clinic");
    let asked = |name: &str, answer: &server::Answer| {
        let text = answer.header(name).unwrap_or_default().to_ascii_lowercase();
        text.split(',').map(|part| part.trim().to_owned()).collect::<Vec<_>>()
    };
    for path in ["/v1/uploads/0123", "/v1/keys", "/v1/jobs/0123/events", "/v1/results/0123"] {
        let answer = preflight(&service, path, page, "PATCH");
        assert_eq!((answer.status, answer.header(ALLOW)), (204, Some(page)), "{path}");
        let methods = asked("access-control-allow-methods", &answer);
        assert!(
            ["get", "head", "post", "patch", "delete"]
                .iter()
                .all(|one| methods.contains(&(*one).into()))
        );
        let headers = asked("access-control-allow-headers", &answer);
        for needed in [
            "authorization",
            "content-type",
            "tus-resumable",
            "upload-length",
            "upload-metadata",
            "upload-offset",
            "range",
            "idempotency-key",
            "last-event-id",
        ] {
            assert!(headers.contains(&needed.into()), "{needed}");
        }
        assert!(answer.header("access-control-allow-credentials").is_none());
    }
    // The browser then reads a response with its headers, also a refusal.
    for (path, token, status) in
        [("/v1/keys", &token[..], 200), ("/v1/keys", "", 401), ("/v1/keys/0", &token, 404)]
    {
        let answer = get(&service, path, page, token);
        assert_eq!((answer.status, answer.header(ALLOW)), (status, Some(page)));
        assert_eq!(answer.header("vary"), Some("origin"));
        let read = asked("access-control-expose-headers", &answer);
        for needed in
            ["location", "upload-offset", "upload-expires", "content-range", "etag", "retry-after"]
        {
            assert!(read.contains(&needed.into()), "{needed}");
        }
    }
    assert_eq!(
        get(&service, "/v1/keys", "http://127.0.0.1:8000", &token).header(ALLOW),
        Some("http://127.0.0.1:8000")
    );
    strangers_are_told_nothing(&service, &token);
    // Discovery of tus works as before.
    let options = service.send("OPTIONS /v1/keys", "", &format!("Origin: {page}\r\n"), 0, b"");
    assert_eq!((options.status, options.header("tus-version")), (204, Some("1.0.0")));
    // Without the option no page may use the service.
    let closed = Service::start(&[]);
    let answer = preflight(&closed, "/v1/keys", page, "POST");
    assert!(answer.header(ALLOW).is_none() && answer.header("vary").is_none());
    run("serve --folder never --allow-origin https://page.example/").mistake(&["without a path"]);
}

fn get(service: &Service, path: &str, origin: &str, token: &str) -> server::Answer {
    service.send(&format!("GET {path}"), token, &format!("Origin: {origin}\r\n"), 0, b"")
}

/// However near they come.
fn strangers_are_told_nothing(service: &Service, token: &str) {
    for stranger in [
        "https://page.example",
        "http://page.example:8443",
        "https://page.example:8443.evil.example",
        "https://PAGE.example:8443",
        "null",
        "*",
        "http://127.0.0.1:8001",
    ] {
        for path in ["/v1/uploads/0123", "/v1/results/0123"] {
            let answer = preflight(service, path, stranger, "PATCH");
            assert!(
                !answer.head.to_ascii_lowercase().contains("access-control"),
                "{}",
                answer.head
            );
        }
        assert_eq!(get(service, "/v1/keys", stranger, token).header(ALLOW), None);
    }
}

/// A limit is reached by one tenant, is told as such, and is none for others.
#[test]
fn requests_a_second_are_limited() {
    let service = Service::start(&["--tenant-requests", "1"]);
    let token = service.token("clinic");
    let other = service.token("lab");
    let answers: Vec<_> = (0..20).map(|_| service.get("/v1/keys", &token)).collect();
    let limited: Vec<_> = answers.iter().filter(|answer| answer.status != 200).collect();
    assert!((10..=15).contains(&limited.len()), "{}", limited.len());
    for answer in limited {
        assert_eq!(answer.problem(429), "TooManyRequests");
        let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=2).contains(&seconds));
    }
    assert_eq!(service.get("/v1/keys", &other).status, 200);
    assert_eq!(service.get("/healthz", "").status, 200);
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(service.get("/v1/keys", &token).status, 200);
    // Clients wait, and succeed.
    let line = format!("{STATS} -o limited.ct");
    service.remote(statistics(), &token, &line).ok();
}

/// Of processors and bytes, too, by what was used and what is under way.
#[test]
fn jobs_of_tenants_stay_within_their_limits() {
    let at = statistics();
    let unlimited = Service::start(&[]);
    let token = unlimited.token("clinic");
    let usage = |service: &Service, token: &str| service.get("/v1/usage", token).json();
    assert_eq!(usage(&unlimited, &token)["cpu_seconds"]["total"], 0.0);
    unlimited.remote(at, &token, &format!("{STATS} -o unlimited.ct")).ok();
    let used = usage(&unlimited, &token);
    let seconds = used["cpu_seconds"]["today"].as_f64().unwrap();
    assert!(seconds > 0.02 && used["cpu_seconds"]["total"] == seconds, "{used}");
    assert!(used["bytes"]["used"].as_u64().unwrap() > 1 << 20 && used["jobs"]["under_way"] == 0);
    assert_eq!(usage(&unlimited, &unlimited.token("lab"))["cpu_seconds"]["total"], 0.0);
    let shown = unlimited.remote(at, &token, "usage");
    assert!(shown.ok().stdout.contains("processors today"));

    // A job that can never fit.
    let tight = Service::start(&["--tenant-cpu-daily", "0.0001"]);
    let token = tight.token("clinic");
    assert_eq!(
        kind(&tight.remote(at, &token, &format!("{STATS} -o tight.ct --json"))),
        "CpuSeconds"
    );
    // A job that fits once: it counts while it is under way, and not afterwards.
    let digest = |name: &str| blake3::hash(&fs::read(at.join(name)).unwrap()).to_string();
    let request = serde_json::json!({
        "kind": "stats", "keys": digest("keys/evaluation.key"), "tables": [digest("t.ct")],
    });
    let begin = |options: &[&str]| {
        let service = Service::start(&[&["--threads", "1"], options].concat());
        let token = service.token("clinic");
        service.remote(at, &token, "upload keys/evaluation.key t.ct --json").ok();
        let job = service.submit(&token, "a", &request).json();
        (service, token, job)
    };
    let predicted = begin(&[]).2["predicted"]["seconds"].as_f64().unwrap();
    let most = (1.5 * predicted).to_string();
    let (service, token, job) = begin(&["--tenant-cpu-total", &most]);
    let refused = service.submit(&token, "b", &request);
    assert_eq!((refused.problem(429), refused.header("retry-after")), ("CpuSeconds".into(), None));
    let path = format!("DELETE /v1/jobs/{}", job["id"].as_str().unwrap());
    assert_eq!(service.send(&path, &token, "", 0, b"").json()["state"], "cancelled");
    assert_eq!(service.submit(&token, "b", &request).status, 202);
    let (service, token, _) = begin(&["--tenant-cpu-daily", &most]);
    let retry = service.submit(&token, "b", &request);
    assert_eq!(retry.problem(429), "CpuSeconds");
    assert!((1..=86_400).contains(&retry.header("retry-after").unwrap().parse::<u32>().unwrap()));

    // Results count before they exist, with their maximum size.
    let bytes = |service: &Service, token: &str| usage(service, token)["bytes"]["used"].as_u64();
    let (service, token, job) = begin(&[]);
    let foreseen = bytes(&service, &token).unwrap();
    service.until(&token, job["id"].as_str().unwrap(), |job| job["state"] == "done");
    let kept = bytes(&service, &token).unwrap();
    assert!((foreseen / 2..=foreseen).contains(&kept), "{kept} of {foreseen}");
    for (most, status) in [(foreseen, 202), (foreseen - 1, 413)] {
        let most = (most as f64 / f64::from(1 << 30)).to_string();
        let (service, token, job) = begin(&["--tenant-bytes", &most]);
        let found = job["status"].as_u64().unwrap_or(202);
        assert_eq!(found, status, "{job}");
        if status == 413 {
            assert_eq!(job["kind"], "Quota");
            assert!(bytes(&service, &token).unwrap() < foreseen);
        }
    }
}

/// Something that takes what is sent to it over HTTP: its address, and the paths and bodies of requests.
type Sent = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

fn collector() -> (String, Sent) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let sent = Sent::default();
    let taken = Arc::clone(&sent);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            loop {
                let mut head = Vec::new();
                let mut line = String::new();
                while stream.read_line(&mut line).unwrap() > 2 {
                    head.push(std::mem::take(&mut line).to_lowercase());
                }
                let Some(first) = head.first() else { break };
                let path = first.split(' ').nth(1).unwrap().to_owned();
                let length = head.iter().find_map(|line| line.strip_prefix("content-length:"));
                let mut body = vec![0; length.unwrap().trim().parse().unwrap()];
                stream.read_exact(&mut body).unwrap();
                taken.lock().unwrap().push((path, body));
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                stream.get_mut().write_all(answer).unwrap();
            }
        }
    });
    (address, sent)
}

/// A collector is told of requests and jobs, by names that stand for what varies; never of tokens, nor, where
/// nothing fails, which objects there are.
#[test]
fn spans_are_sent_to_a_collector() {
    let (address, sent) = collector();
    let mut service = Service::start(&["--otlp", &address]);
    let token = service.token("clinic");
    let done = service.remote(statistics(), &token, &format!("{STATS} -o traced.ct --json")).json();
    assert_eq!(service.get("/v1/keys", "x").status, 401);
    // On SIGTERM, it sends the remaining spans.
    server::signal("TERM", service.process.id());
    assert!(service.process.wait().unwrap().success());

    let sent = sent.lock().unwrap();
    assert!(!sent.is_empty() && sent.iter().all(|(path, _)| path == "/v1/traces"));
    let bodies: Vec<u8> = sent.iter().flat_map(|(_, body)| body.clone()).collect();
    let says = |text: &str| bodies.windows(text.len()).any(|part| part == text.as_bytes());
    for text in ["sudare-server", "POST /v1/keys", "PATCH /v1/uploads/{name}", "starts"] {
        assert!(says(text), "{text}");
    }
    assert!(says("stats") && says(done["job"].as_str().unwrap()) && says("ended"));
    let table = blake3::hash(&fs::read(statistics().join("t.ct")).unwrap()).to_string();
    assert!(!says(&token[23..]) && !says("Bearer") && !says(&table));

    let refused = run("serve --folder never --otlp ftp://x");
    refused.mistake(&["an address such as http://localhost:4318"]);
    assert!(!statistics().join("never").exists());
}

/// TLS by files in PEM, which are read again when the process is told to.
#[test]
fn the_service_speaks_tls_and_changes_its_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let make = |name: &str| {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
        fs::write(path(&format!("{name}.pem")), made.cert.pem()).unwrap();
        fs::write(path(&format!("{name}.key")), made.signing_key.serialize_pem()).unwrap();
    };
    make("first");
    make("second");
    let cert = path("cert.pem");
    let key = path("cert.key");
    let put = |name: &str| {
        fs::copy(path(&format!("{name}.pem")), &cert).unwrap();
        fs::copy(path(&format!("{name}.key")), &key).unwrap();
    };
    put("first");
    let options = ["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let service = Service::start(&options);
    let token = service.token("clinic");
    fs::write(path("token"), &token).unwrap();
    let list = |name: &str| {
        let url = format!("https://{}", service.address);
        let line =
            format!("remote list keys --url {url} --token-file token --ca {name}.pem --json");
        sudare_at(folder.path(), &line)
    };
    assert_eq!(list("first").ok().stdout, "[]\n");
    // Requests without TLS get no response.
    assert_eq!(service.get("/healthz", "").status, 0);
    let hang_up = || {
        let process = service.process.id().to_string();
        std::process::Command::new("kill").args(["-HUP", &process]).status().unwrap();
    };
    put("second");
    hang_up();
    assert_eq!(list("second").ok().stdout, "[]\n");
    // Mismatched files change nothing, and the server does not start with them.
    fs::copy(path("first.pem"), &cert).unwrap();
    hang_up();
    assert_eq!(list("second").ok().stdout, "[]\n");
    let folder = path("other").display().to_string();
    let line = format!("serve --folder {folder} --listen 127.0.0.1:0 {}", options.join(" "));
    run(&line).mistake(&["cert.pem cannot be used for TLS"]);
    run(&format!("serve --folder {folder} --tls-cert x.pem")).mistake(&["--tls-key"]);
}
