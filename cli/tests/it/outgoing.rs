//! Bytes that leave a client: only files that a service takes, to the server that was named, past
//! every proxy on the way to this machine.

use crate::common::{LBW, sudare_at};
use serde_json::json;
use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
    sync::{Arc, Mutex, OnceLock},
    thread,
    time::{Duration, Instant},
};
use sudare::{exact, rlwe::KeyGenerator};
use sudare_apps::exact::{Scheme, Setting};
use sudare_roles::{exact_files, sealed::Passphrase};
use tempfile::TempDir;

const TOKEN: &str = "sudare_0123456789abcdef_secret";

/// What a listener got of a connection.
type Taken = Arc<Mutex<Vec<Vec<u8>>>>;

/// A server that keeps every byte it gets, and answers by `answer`, which gets the first line of a
/// request.
struct Listener {
    address: String,
    taken: Taken,
}

impl Listener {
    fn start(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let taken = Taken::default();
        let answer = Arc::new(answer);
        let keeps = Arc::clone(&taken);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let keeps = Arc::clone(&keeps);
                let answer = Arc::clone(&answer);
                thread::spawn(move || attend(stream, &keeps, &*answer));
            }
        });
        Self { address, taken }
    }

    /// One that refuses everything.
    fn refusing() -> Self {
        Self::start(|_| refusal())
    }

    fn requests(&self) -> Vec<String> {
        let taken = self.taken.lock().unwrap();
        taken.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect()
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

fn answer_of(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn refusal() -> Vec<u8> {
    answer_of("403 Forbidden", "", br#"{"kind": "Test", "detail": "not here"}"#)
}

/// Answers one request, and keeps it.
fn attend(mut stream: TcpStream, keeps: &Taken, answer: &(impl Fn(&str) -> Vec<u8> + ?Sized)) {
    let place = {
        let mut taken = keeps.lock().unwrap();
        taken.push(Vec::new());
        taken.len() - 1
    };
    let mut buffer = [0; 1 << 16];
    loop {
        let count = stream.read(&mut buffer).unwrap_or(0);
        let mut taken = keeps.lock().unwrap();
        let request = &mut taken[place];
        request.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(request).to_lowercase();
        let head = text.split_once("\r\n\r\n").map(|(head, _)| head.len() + 4);
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length = length.map_or(0, |length| length.trim().parse::<usize>().unwrap());
        if count > 0 && head.is_none_or(|head| request.len() < head + length) {
            continue;
        }
        let line = String::from_utf8_lossy(request).lines().next().unwrap_or_default().to_owned();
        drop(taken);
        let _ = stream.write_all(&answer(&line));
        return;
    }
}

/// Files of every kind.
fn files() -> &'static Path {
    static FILES: OnceLock<TempDir> = OnceLock::new();
    let folder = FILES.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let run = |line: &str| {
            sudare_at(at, line).ok();
        };
        run("keygen --params auto --for train:189x9 --iterations 2 --predict --out keys");
        run(&format!("encrypt --public keys/public.key --data {LBW} --target y -o table.ct"));
        run("train --evaluation-key keys/evaluation.key -i table.ct -o model.ct");
        run("decrypt --secret keys/secret.key -i model.ct -o model.json");
        fs::write(at.join("t.csv"), "a,b\n1,2\n3,4\n5,6\n").unwrap();
        run("keygen --params auto --for stats:3x2 --out stats");
        run("encrypt --public stats/public.key --data t.csv -o stats.ct");
        run("stats --evaluation-key stats/evaluation.key -i stats.ct -o statistics.ct");
        run("decrypt --secret stats/secret.key -i statistics.ct -o statistics.json");
        run("decrypt --secret stats/secret.key -i statistics.ct -o statistics.csv");
        run(&format!("schema --data {LBW} --target y --owners east,west -o schema.json"));
        let passphrase = Passphrase::new(b"six random words".to_vec()).unwrap();
        let secret = fs::read(at.join("keys/secret.key")).unwrap();
        fs::write(at.join("sealed.key"), sudare_roles::sealed::seal(&secret, &passphrase).unwrap())
            .unwrap();
        write_integers(at, Scheme::Bgv, "bgv");
        write_integers(at, Scheme::Bfv, "bfv");
        fs::write(at.join("t.npy"), b"\x93NUMPY\x01\x00v\x00{'descr': '<f8'}").unwrap();
        fs::write(at.join("t.parquet"), b"PAR1\x15\x04\x15\x10PAR1").unwrap();
        fs::write(at.join("ledger"), b"\x89sudareL\x01\0\0\0\0\0\0\0").unwrap();
        fs::write(at.join("notes.txt"), "remember the milk").unwrap();
        fs::write(at.join("empty"), "").unwrap();
        fs::write(at.join("token"), TOKEN).unwrap();
        fs::set_permissions(at.join("token"), fs::Permissions::from_mode(0o600)).unwrap();
        let keys = fs::read(at.join("keys/evaluation.key")).unwrap();
        fs::write(at.join("cut.key"), &keys[..1000]).unwrap();
        folder
    });
    folder.path()
}

/// Keys for exact integers, the secret one also sealed.
fn write_integers(at: &Path, scheme: Scheme, name: &str) {
    let params = exact::Params::new(exact::preset("toy-n5").unwrap().spec).unwrap();
    let setting = Setting::named("toy-n5", params.clone(), scheme, true).unwrap();
    let label = exact_files::key_label("toy-n5", &setting).unwrap();
    let mut generator = KeyGenerator::new(params.rlwe()).unwrap();
    let secret = generator.secret_key().unwrap();
    let public = generator.public_key(&secret).unwrap();
    let passphrase = Passphrase::new(b"six random words".to_vec()).unwrap();
    for (ending, passphrase) in [("", None), ("-sealed", Some(&passphrase))] {
        let path = at.join(format!("{name}{ending}.key"));
        let mut file = Vec::new();
        exact_files::write_secret(&mut file, &path, &params, &secret, &label, passphrase).unwrap();
        fs::write(path, file).unwrap();
    }
    let mut file = Vec::new();
    exact::serial::write_public_key(&mut file, &params, &public, &label).unwrap();
    fs::write(at.join(format!("{name}-public.key")), file).unwrap();
}

const SECRET: [&str; 7] = [
    "keys/secret.key",
    "stats/secret.key",
    "sealed.key",
    "bgv.key",
    "bfv.key",
    "bgv-sealed.key",
    "bfv-sealed.key",
];

const OTHERS: [&str; 17] = [
    "keys/public.key",
    "bgv-public.key",
    "bfv-public.key",
    "statistics.ct",
    "statistics.json",
    "statistics.csv",
    "schema.json",
    "t.csv",
    "t.npy",
    "t.parquet",
    "ledger",
    "notes.txt",
    "empty",
    "cut.key",
    "token",
    "keys",
    "never.ct",
];

const KEYS: &str = "--evaluation-key keys/evaluation.key";

/// Every command that sends a file, with `FILE` in its place, and the files that belong there.
fn commands() -> Vec<(String, Vec<&'static str>)> {
    let all = ["keys/evaluation.key", "table.ct", "model.ct"];
    let mut commands = vec![
        ("upload FILE".into(), all.to_vec()),
        ("upload table.ct FILE".into(), all.to_vec()),
        ("upload FILE --plain-model".into(), [&all[..], &["model.json"]].concat()),
    ];
    for kind in ["stats", "groups", "histogram", "train", "predict --model model.ct"] {
        let line = format!("{kind} --evaluation-key FILE -i table.ct --detach");
        commands.push((line, vec!["keys/evaluation.key"]));
        commands.push((format!("{kind} {KEYS} -i FILE --detach"), vec!["table.ct"]));
    }
    for (line, right) in [
        (format!("train {KEYS} -i table.ct -i FILE --detach"), vec!["table.ct"]),
        (format!("train {KEYS} -i FILE -o out.ct"), vec!["table.ct"]),
        (format!("predict {KEYS} -i table.ct --model FILE --detach"), vec!["model.ct"]),
        (format!("predict {KEYS} -i table.ct --model FILE -o out.ct"), vec!["model.ct"]),
        (
            format!("predict {KEYS} -i table.ct --model FILE --plain-model --detach"),
            vec!["model.ct", "model.json"],
        ),
    ] {
        commands.push((line, right));
    }
    commands
}

/// Runs `sudare remote`, with these variables of the environment and none of proxies.
fn remote(line: &str, url: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sudare"));
    command.current_dir(files()).arg("remote").args(line.split_whitespace());
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy", "sudare_token"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    command.args(["--url", url, "--token-file", "token", "--json"]);
    command.envs(variables.iter().copied()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn no_byte_of_a_wrong_file_leaves() {
    let listener = Listener::refusing();
    let right = ["keys/evaluation.key", "table.ct", "model.ct", "model.json"];
    for (line, fits) in commands() {
        listener.taken.lock().unwrap().clear();
        let files = SECRET.iter().chain(&OTHERS).chain(&right);
        for name in files.filter(|name| !fits.contains(name)) {
            let output = remote(&line.replace("FILE", name), &listener.url(), &[]);
            assert_eq!(output.status.code(), Some(2), "{line}, {name}: {}", said(&output));
            assert!(!said(&output).contains("not here"), "{line}, {name}: {}", said(&output));
            if SECRET.contains(name) {
                assert!(said(&output).contains("secret key"), "{line}, {name}: {}", said(&output));
            }
            assert!(listener.requests().is_empty(), "{line}, {name}: {:?}", listener.requests());
        }
        for name in fits {
            listener.taken.lock().unwrap().clear();
            let output = remote(&line.replace("FILE", name), &listener.url(), &[]);
            assert!(said(&output).contains("not here"), "{line}, {name}: {}", said(&output));
            assert!(!listener.requests().is_empty(), "{line}, {name}");
        }
    }
    assert!(!files().join("out.ct").exists());
}

const PROXIES: [&str; 6] =
    ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];

#[test]
fn no_proxy_sees_what_stays_on_this_machine() {
    let proxy = Listener::refusing();
    let server = Listener::refusing();
    let (_, port) = server.address.split_once(':').unwrap();
    let all: Vec<(&str, String)> = PROXIES.iter().map(|name| (*name, proxy.url())).collect();
    let all: Vec<(&str, &str)> = all.iter().map(|(name, url)| (*name, &url[..])).collect();
    let sets = PROXIES.map(|name| vec![all.iter().find(|(of, _)| *of == name).copied().unwrap()]);
    for variables in sets.iter().chain([&all]) {
        for url in [server.url(), format!("http://localhost:{port}")] {
            for line in ["usage", "upload table.ct"] {
                let output = remote(line, &url, variables);
                assert!(said(&output).contains("not here"), "{variables:?}: {}", said(&output));
            }
        }
        assert!(proxy.requests().is_empty(), "{variables:?}: {:?}", proxy.requests());
    }
    // Three requests for each of two addresses.
    assert_eq!(server.requests().len(), 6 * (PROXIES.len() + 1));
}

/// A proxy may pass on what is encrypted for another machine, and sees no token.
#[test]
fn a_proxy_passes_on_tls_and_nothing_else() {
    let proxy = Listener::refusing();
    let line = ["remote", "usage", "--url", "https://service.invalid", "--token-file", "token"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_sudare"));
    command.current_dir(files()).args(line).env("ALL_PROXY", proxy.url()).env_remove("NO_PROXY");
    let mut running = command.spawn().unwrap();
    let begun = Instant::now();
    while proxy.requests().iter().all(|request| !request.contains("\r\n\r\n")) {
        assert!(begun.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(10));
    }
    running.kill().unwrap();
    running.wait().unwrap();
    for request in proxy.requests() {
        assert!(request.starts_with("CONNECT service.invalid:443 "), "{request}");
        assert!(!request.contains(TOKEN), "{request}");
    }
}

#[test]
fn uploads_and_answers_stay_at_the_server() {
    let other = Listener::refusing();
    for place in [
        format!("http://{}/v1/uploads/0", other.address),
        format!("@{}/v1/uploads/0", other.address),
        format!("//{}/v1/uploads/0", other.address),
        "/v1/uploads/../keys".into(),
        String::new(),
    ] {
        let server = Listener::start(move |line| match line.starts_with("POST ") {
            true => {
                answer_of("201 Created", &format!("location: {place}\r\nupload-offset: 0\r\n"), b"")
            }
            false => answer_of("404 Not Found", "", b""),
        });
        let output = remote("upload table.ct", &server.url(), &[]);
        assert_eq!(output.status.code(), Some(2));
        assert!(said(&output).contains("upload of its own"), "{}", said(&output));
        assert!(server.requests().iter().all(|request| !request.starts_with("PATCH")));
    }
    let to = format!("location: http://{}/v1/usage\r\n", other.address);
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        let to = to.clone();
        let server = Listener::start(move |_| answer_of(status, &to, b""));
        for line in ["usage", "status", "upload table.ct", "list keys"] {
            let output = remote(line, &server.url(), &[]);
            assert_eq!(output.status.code(), Some(2), "{status}: {}", said(&output));
        }
    }
    assert!(other.requests().is_empty(), "{:?}", other.requests());
}

/// A job whose events and result do not end where they should.
#[test]
fn answers_without_an_end_are_refused() {
    let job = |state: &str| {
        let job = json!({
            "id": "ab", "state": state, "request": {}, "progress": { "done": 0, "total": 1 },
            "predicted": { "seconds": 1.0, "memory_bytes": 1 }, "error": null, "result": "0".repeat(64),
        });
        job.to_string()
    };
    let running = job("running");
    let done = job("done");
    let chunked = |head: &str, first: &str| {
        let head =
            format!("HTTP/1.1 {head}\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n");
        let chunk = [b"100000\r\n", &vec![b'x'; 1 << 20][..], b"\r\n"].concat();
        [head.as_bytes(), first.as_bytes(), &chunk.repeat(20), b"0\r\n\r\n"].concat()
    };
    let endless = chunked("200 OK", "5\r\ndata:\r\n");
    let longer = chunked("206 Partial Content\r\ncontent-range: bytes 0-9/10", "");
    let server = Listener::start(move |line| {
        let path = line.split(' ').nth(1).unwrap_or_default();
        match path {
            "/v1/jobs/ab/events" => endless.clone(),
            "/v1/jobs/cd/events" => answer_of("200 OK", "", format!("data:{done}\n\n").as_bytes()),
            _ if path.ends_with("/receipt") => answer_of("404 Not Found", "", b"{}"),
            _ if path.starts_with("/v1/results/") => longer.clone(),
            "/v1/jobs" => answer_of("200 OK", "", b"[]"),
            _ => answer_of("200 OK", "", running.as_bytes()),
        }
    });
    let output = remote("wait ab -o never.ct", &server.url(), &[]);
    assert!(said(&output).contains("a line of events of more than"), "{}", said(&output));
    for line in ["wait cd -o never.ct", &format!("download {} -o never.ct", "0".repeat(64))] {
        let output = remote(line, &server.url(), &[]);
        assert!(said(&output).contains("longer than the 10 bytes"), "{}", said(&output));
    }
    assert!(crate::common::names(files()).iter().all(|name| !name.contains("never")));
}

/// Messages name no token; a file of one that others can read is warned of.
#[test]
fn tokens_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let server = Listener::refusing();
    let path = folder.path().join("token");
    let usage = |url: &str, token: &str, mode: u32| {
        fs::write(&path, token).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let line = format!("remote usage --url {url} --token-file token");
        let run = sudare_at(folder.path(), &line);
        assert_eq!((run.status, run.stdout.as_str()), (Some(2), ""));
        assert!(!run.stderr.contains("sudare_0123"), "{}", run.stderr);
        run.stderr
    };
    assert!(!usage(&server.url(), TOKEN, 0o600).contains("warning"));
    for mode in [0o640, 0o604, 0o644] {
        assert!(usage(&server.url(), TOKEN, mode).contains("other users of this machine can read"));
    }
    for bad in ["sudare_0123\nx: y", "sudare_0123 4", "sudare_0123é", ""] {
        assert!(usage(&server.url(), bad, 0o600).contains("the token is empty, or has"));
    }
    let refused = usage("https://name:hunter2@service.invalid", TOKEN, 0o600);
    assert!(refused.contains("leave out the name") && !refused.contains("hunter2"), "{refused}");
}
