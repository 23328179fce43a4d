//! What administrators do: backups, checks of health, metrics, warnings, and proxies.

use crate::common::{STATS, names, server::Service, statistics, sudare_at};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Fails unless all below a folder is for its owner alone.
fn expect_private(folder: &Path) {
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(folder), 0o700, "{folder:?}");
    // Locks are empty files.
    for name in names(folder).into_iter().filter(|name| name != "lock") {
        let path = folder.join(name);
        match path.is_dir() {
            true => expect_private(&path),
            false => assert_eq!(mode(&path), 0o600, "{path:?}"),
        }
    }
}

#[test]
fn backups_bring_jobs_and_results_back() {
    let own = tempfile::tempdir().unwrap();
    let at = own.path();
    let store = at.join("store");
    let mut service = Service::start_in(&store, &[]);
    let run = |line: &str| sudare_at(at, line);
    if !service.option("--database").is_empty() {
        run(&format!("serve backup {} b", service.place())).mistake(&["pg_dump", "--objects"]);
        return;
    }
    let token = service.token("clinic");
    let done = service.remote(statistics(), &token, &format!("{STATS} -o before.ct --json")).json();
    // A queued job, and a partial upload.
    service.restart_with(&["--jobs", "0"]);
    let known = service.get(&format!("/v1/jobs/{}", done["job"].as_str().unwrap()), &token).json();
    let waiting = service.submit(&token, "again", &known["request"]).json();
    assert_eq!(waiting["state"], "queued", "{waiting}");
    let part = json!({"not": "a model"}).to_string();
    let begun = service.begin("models", &token, &blake3::hash(b"x").to_string(), 1 << 20);
    let place = begun.header("location").unwrap().to_owned();
    service.append(&place, &token, 0, part.as_bytes(), part.len());

    let made = run("serve backup --folder store backup --json").json();
    assert_eq!((&made["objects"], &made["has_key"]), (&3.into(), &true.into()));
    expect_private(&at.join("backup"));
    // The backup lacks later data, and the original continues.
    let later = service.token("later");
    assert_eq!(service.get("/v1/jobs", &later).status, 200);
    run("serve backup --folder store backup").mistake(&["backup is not empty"]);
    run("serve restore --folder store backup").mistake(&["store is not empty"]);
    run("serve backup --folder nowhere b").mistake(&["nowhere has no records of a server"]);
    assert!(!at.join("b").exists());

    fs::create_dir(at.join("new")).unwrap();
    let restored = run("serve restore --folder new backup --json").json();
    assert_eq!(restored, made);
    expect_private(&at.join("new"));
    run("serve audit --folder new").ok();
    let second = Service::start_in(&at.join("new"), &[]);
    assert_eq!(second.get("/v1/jobs", &later).status, 401);
    // The same digest and receipt, of the same key: the client accepts it as the pinned one.
    let key = run("serve key --folder store").stdout;
    let line = format!("{STATS} -o after.ct --server-key {} --json", key.trim());
    let again = second.remote(statistics(), &token, &line).json();
    assert_eq!((&again["job"], &again["digest"]), (&done["job"], &done["digest"]));
    let [before, after] =
        ["before.ct", "after.ct"].map(|name| fs::read(statistics().join(name)).unwrap());
    assert_eq!(before, after);
    let id = waiting["id"].as_str().unwrap();
    let ended = second.until(&token, id, |job| job["state"] == "done" || job["state"] == "failed");
    assert_eq!((&ended["state"], &ended["result"]), (&"done".into(), &done["digest"]));
    assert_eq!(second.offset(&place, &token), None);
    drop(service);
    // A stopped server is copied as well.
    run("serve backup --folder store stopped").ok();
    damaged_backups_are_refused(at);
}

fn damaged_backups_are_refused(at: &Path) {
    let run = |line: &str| sudare_at(at, line);
    let objects = at.join("backup/objects/clinic");
    let name = names(&objects).remove(0);
    let object = objects.join(&name);
    let whole = fs::read(&object).unwrap();
    let mut altered = whole.clone();
    altered[whole.len() / 2] ^= 1;
    fs::write(&object, altered).unwrap();
    run("serve restore --folder third backup").mistake(&[&name, "was expected"]);
    // No partial files remain, so that the next attempt finds an empty directory.
    assert!(names(&at.join("third")).is_empty());
    fs::remove_file(&object).unwrap();
    run("serve restore --folder third backup").mistake(&["is missing: the backup is damaged"]);
    fs::write(&object, whole).unwrap();
    run("serve restore --folder third backup").ok();
    fs::remove_file(at.join("backup/backup.json")).unwrap();
    run("serve restore --folder fourth backup").mistake(&["is no complete backup"]);
    // Objects in a store must not look like lost ones.
    fs::remove_dir_all(at.join("third/objects")).unwrap();
    run("serve backup --folder third b").mistake(&["--without-objects"]);
    let made = run("serve backup --folder third b --without-objects --json").json();
    assert_eq!((&made["objects"], &made["is_without_objects"]), (&0.into(), &true.into()));
    run("serve restore --folder fifth b").ok();
}

/// Copies are of one moment while tenants delete and upload, so each can be restored.
#[test]
fn backups_of_busy_servers_are_consistent() {
    let own = tempfile::tempdir().unwrap();
    let service = Service::start_in(&own.path().join("store"), &[]);
    if !service.option("--database").is_empty() {
        return;
    }
    let token = service.token("clinic");
    let table = fs::read(statistics().join("t.ct")).unwrap();
    let digest = blake3::hash(&table).to_string();
    thread::scope(|scope| {
        let tenant = scope.spawn(|| {
            let until = Instant::now() + Duration::from_secs(3);
            while Instant::now() < until {
                let begun = service.begin("tables", &token, &digest, table.len());
                if let Some(place) = begun.header("location") {
                    service.append(place, &token, 0, &table, table.len());
                }
                service.send(&format!("DELETE /v1/tables/{digest}"), &token, "", 0, b"");
            }
        });
        let mut count = 0;
        while !tenant.is_finished() {
            count += 1;
            let at = own.path();
            sudare_at(at, &format!("serve backup --folder store backup-{count}")).ok();
            sudare_at(at, &format!("serve restore --folder new-{count} backup-{count}")).ok();
            sudare_at(at, &format!("serve audit --folder new-{count}")).ok();
            // Opening the records compares their end with the log.
            sudare_at(at, &format!("serve token list --folder new-{count}")).ok();
        }
        assert!(count > 2, "{count} copies");
    });
}

#[test]
fn health_is_checked_without_a_token() {
    let service = Service::start(&[]);
    let check = |url: &str| sudare_at(Path::new("."), &format!("serve health --url {url} --json"));
    assert_eq!(check(&service.url()).json()["ready"], true);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    check(&format!("http://{free}")).mistake(&["nothing listens there"]);
}

/// Starts a server, and returns the lines of its log up to the one that it listens, and one more if it follows
/// at once.
fn log_of(listen: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_sudare"))
        .args(["serve", "--listen", listen, "--folder"])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It says where it listens after the warning.
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    server.kill().unwrap();
    let output = server.wait_with_output().unwrap();
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn servers_without_tls_warn_where_others_may_reach_them() {
    for (listen, warns) in [
        ("0.0.0.0:0", true),
        ("[::]:0", true),
        ("127.0.0.1:0", false),
        ("[::ffff:127.0.0.1]:0", false),
    ] {
        let log = log_of(listen);
        assert_eq!(log.contains("serves without TLS at an address"), warns, "{listen}: {log}");
        assert!(log.contains("\"listening\""), "{log}");
    }
}

/// A free port, which nothing else takes in a moment.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn metrics_explain_themselves_and_have_latencies() {
    let port = free_port();
    let service = Service::start(&["--metrics", &format!("127.0.0.1:{port}")]);
    let token = service.token("clinic");
    service.remote(statistics(), &token, &format!("{STATS} -o measured.ct --force")).ok();
    service.send("BREW /v1/jobs", &token, "", 0, b"");
    let text = metrics(port);
    // Each metric has its help and type before its values.
    let mut named = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(help.len() > 10, "{line}");
            named.push(name.to_owned());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            assert_eq!(rest.split(' ').next(), named.last().map(|name| &name[..]), "{line}");
        } else {
            assert!(line.starts_with(named.last().unwrap()), "{line}");
        }
    }
    let value = |line: &str| {
        let found = text.lines().find_map(|found| found.strip_prefix(line));
        found.unwrap_or_else(|| panic!("{line} is not in {text}")).trim().parse::<f64>().unwrap()
    };
    assert_eq!(value("sudare_jobs_ended_total"), 1.0);
    assert_eq!(value("sudare_job_duration_seconds_count{kind=\"stats\",state=\"done\"}"), 1.0);
    assert_eq!(value("sudare_job_wait_seconds_bucket{kind=\"stats\",le=\"+Inf\"}"), 1.0);
    let posts = "{method=\"POST\",route=\"/v1/jobs\"";
    assert_eq!(value(&format!("sudare_request_duration_seconds_count{posts}}}")), 1.0);
    let sum = value(&format!("sudare_request_duration_seconds_sum{posts}}}"));
    assert!(sum > 0.0 && sum < 60.0, "{sum}");
    assert_eq!(value(&format!("sudare_request_duration_seconds_bucket{posts},le=\"+Inf\"}}")), 1.0);
    // Made-up methods share a label.
    value("sudare_request_duration_seconds_count{method=\"other\",route=\"/v1/jobs\"}");
    assert!(value("sudare_jobs_memory_limit_bytes") > 1e8);
}

/// The page of metrics at a port of this machine.
fn metrics(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// The files for containers and systemd name options that the command has.
#[test]
fn examples_of_deployments_name_real_options() {
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
    let read = |name: &str| fs::read_to_string(at.join(name)).unwrap();
    let words = |line: &str| {
        let list = &line[line.find('[').unwrap()..];
        serde_json::from_str::<Vec<String>>(list).unwrap()
    };
    let has_options = |command: &[String], words: &[String]| {
        let help =
            sudare_at(Path::new("."), &format!("{} --help", command.join(" "))).ok().stdout.clone();
        for word in words.iter().filter(|word| word.starts_with("--")) {
            assert!(help.contains(&word[..]), "{word}");
        }
    };
    let compose = read("compose.yaml");
    let line = |name: &str| compose.lines().find(|line| line.trim().starts_with(name)).unwrap();
    let command = words(line("command: [\"serve\""));
    has_options(&command[..1], &command);
    assert_eq!(words(line("test:"))[1..], ["sudare", "serve", "health"]);
    let docker = read("Dockerfile");
    for start in ["HEALTHCHECK", "CMD"] {
        let line = docker.lines().find(|line| line.starts_with(start)).unwrap();
        let mut words = words(line);
        words.retain(|word| word != "sudare");
        let sub =
            words.iter().take_while(|word| !word.starts_with('-')).cloned().collect::<Vec<_>>();
        has_options(&sub, &words);
    }
    for unit in ["sudare.service", "sudare-worker.service"] {
        let text = read(unit);
        let line =
            text.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/sudare "));
        let words: Vec<String> = line.unwrap().split(' ').map(str::to_owned).collect();
        has_options(&words[..1], &words);
    }
}

/// A process in the foreground, which is told to end when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // The workers of nginx end only if nginx ends by a signal.
        crate::common::server::signal("TERM", self.0.id());
        let _ = self.0.wait();
    }
}

/// Sends keys and a table and gets a result through a proxy, with its configuration from `deploy`.
fn journey_through(name: &str, start: impl FnOnce(&Path, &str, u16) -> Child) {
    let own = tempfile::tempdir().unwrap();
    let at = own.path();
    let socket = at.join("http");
    let port = free_port();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    fs::write(at.join("cert.pem"), made.cert.pem()).unwrap();
    fs::write(at.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_sudare"))
        .args(["serve", "--socket", "http", "--folder", "store"])
        .current_dir(at)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let server = Process(server);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(name);
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains("/run/sudare/http"), "{text}");
    let text = text.replace("/run/sudare/http", socket.to_str().unwrap());
    let proxy = Process(start(at, &text, port));
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{name} does not listen");
        thread::sleep(Duration::from_millis(50));
    }
    let token = sudare_at(at, "serve token add --folder store --tenant clinic --json").json();
    fs::write(at.join("token"), token["token"].as_str().unwrap()).unwrap();
    let place = at.display();
    let options =
        format!("--url https://127.0.0.1:{port} --token-file {place}/token --ca {place}/cert.pem");
    let line = format!("remote {STATS} -o {place}/result.ct {options} --json");
    let done: Value = sudare_at(statistics(), &line).json();
    let whole = fs::read(at.join("result.ct")).unwrap();
    assert_eq!(blake3::hash(&whole).to_string(), done["digest"].as_str().unwrap());
    drop((proxy, server));
}

#[test]
#[ignore = "needs nginx (Debian's nginx-light): make test-service"]
fn the_configuration_of_nginx_works() {
    journey_through("nginx.conf", |at, text, port| {
        let text = text
            .replace("    listen [::]:443 ssl;\n", "")
            .replace("listen 443 ssl", &format!("listen 127.0.0.1:{port} ssl"))
            .replace("/etc/sudare/", &format!("{}/", at.display()));
        let frame = format!(
            "pid nginx.pid;\nerror_log stderr;\ndaemon off;\nevents {{}}\nhttp {{\naccess_log off;\n\
             client_body_temp_path body;\nproxy_temp_path proxy;\nfastcgi_temp_path fastcgi;\n\
             uwsgi_temp_path uwsgi;\nscgi_temp_path scgi;\n{text}\n}}\n"
        );
        // The workers of nginx would run as another user, who cannot open the socket.
        let frame = format!("user root;\n{frame}");
        fs::write(at.join("nginx.conf"), frame).unwrap();
        let mut nginx = Command::new("/usr/sbin/nginx");
        nginx.args(["-e", "stderr", "-p"]).arg(at).args(["-c", "nginx.conf"]).spawn().unwrap()
    });
}

#[test]
#[ignore = "needs Caddy (Debian's caddy): make test-service"]
fn the_configuration_of_caddy_works() {
    journey_through("Caddyfile", |at, text, port| {
        let place = at.display();
        let site = format!("https://127.0.0.1:{port} {{\n\ttls {place}/cert.pem {place}/key.pem");
        let text = text.replace("server.example {", &site);
        let text = format!("{{\n\tadmin off\n\tauto_https disable_redirects\n}}\n{text}");
        fs::write(at.join("Caddyfile"), text).unwrap();
        let mut caddy = Command::new("caddy");
        caddy
            .args(["run", "--config", "Caddyfile"])
            .current_dir(at)
            .env("HOME", at)
            .spawn()
            .unwrap()
    });
}
