//! A server in a process, and requests to it by bytes alone.

use super::{Run, sudare_at};
use serde_json::Value;
use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tempfile::TempDir;

/// A server, which is killed when it is dropped; one that shares a database and a store of its own where
/// `SUDARE_TEST_POSTGRES` names a server of PostgreSQL (`make test-stores`).
pub struct Service {
    pub folder: PathBuf,
    pub address: String,
    pub process: Child,
    options: Vec<String>,
    /// A program that starts it, with the arguments that come before.
    under: Vec<String>,
    _own: Option<TempDir>,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The word of a problem that is answered with this status.
    pub fn problem(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        assert!(self.head.contains("application/problem+json"), "{}", self.head);
        let problem = self.json();
        assert_eq!(problem["status"], status, "{problem}");
        problem["kind"].as_str().unwrap().to_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, text)| text)
    }
}

impl Service {
    pub fn start(options: &[&str]) -> Self {
        let own = tempfile::tempdir().unwrap();
        let folder = own.path().join("store");
        let mut service = Self::start_in(&folder, options);
        service._own = Some(own);
        service
    }

    /// A server with this folder, which stays.
    pub fn start_in(folder: &Path, options: &[&str]) -> Self {
        let folder = folder.to_owned();
        let mut options: Vec<String> = options.iter().map(|&option| option.into()).collect();
        if let Ok(server) = env::var("SUDARE_TEST_POSTGRES")
            && !options.iter().any(|option| option == "--objects")
        {
            let store = folder.with_file_name("shared");
            fs::create_dir(&store).unwrap();
            options.extend(["--objects".into(), format!("file://{}", store.display())]);
            options.extend(["--database".into(), new_database(&server)]);
        }
        let (process, address) = spawn(&[], &folder, &options, "127.0.0.1:0");
        let address = address.unwrap();
        Self { folder, address, process, options, under: Vec::new(), _own: None }
    }

    /// Kills the server at once, and starts it again where it was.
    pub fn kill_and_restart(&mut self) {
        assert!(self.is_restarted());
    }

    /// The same with further options.
    pub fn restart_with(&mut self, options: &[&str]) {
        self.options.extend(options.iter().map(|&option| option.to_owned()));
        self.kill_and_restart();
    }

    /// The same with another key, which it makes for itself.
    pub fn restart_with_another_key(&mut self) {
        fs::remove_file(self.folder.join("server.key")).unwrap();
        if !self.option("--database").is_empty() {
            self.options.push("--replace-key".into());
        }
        self.kill_and_restart();
    }

    /// The same by another program, with its arguments, that becomes the server; whether it gets so far as to
    /// serve.
    pub fn is_restarted_under(&mut self, under: Vec<String>) -> bool {
        self.under = under;
        self.is_restarted()
    }

    fn is_restarted(&mut self) -> bool {
        let _ = self.process.kill();
        self.process.wait().unwrap();
        let (process, address) = spawn(&self.under, &self.folder, &self.options, &self.address);
        self.process = process;
        address.is_some()
    }

    /// Options that say where it has its records.
    pub fn place(&self) -> String {
        format!("--folder {} {}", self.folder.display(), self.option("--database"))
    }

    /// An option of the server with its value, if it has it.
    pub fn option(&self, name: &str) -> String {
        let at = self.options.iter().position(|option| option == name);
        at.map_or(String::new(), |at| self.options[at..at + 2].join(" "))
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A new token of a tenant.
    pub fn token(&self, tenant: &str) -> String {
        self.token_of("tenant", tenant)
    }

    /// A new token of a worker.
    pub fn worker_token(&self, worker: &str) -> String {
        self.token_of("worker", worker)
    }

    fn token_of(&self, role: &str, name: &str) -> String {
        let line = format!("serve token add {} --{role} {name} --json", self.place());
        let token = sudare_at(Path::new("."), &line).json()["token"].take();
        token.as_str().unwrap().to_owned()
    }

    /// What a request is answered with, whose body may be shorter than it says.
    pub fn send(
        &self,
        head: &str,
        token: &str,
        headers: &str,
        length: usize,
        body: &[u8],
    ) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!(
            "{head} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: {length}\r\n{headers}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        // A server that refuses the request may have closed the connection.
        let _ = stream.write_all(body);
        if body.len() < length {
            let _ = stream.shutdown(Shutdown::Both);
            return Answer { status: 0, head: String::new(), body: Vec::new() };
        }
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(0);
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
        Answer { status, head, body: answer.split_off((end + 4).min(answer.len())) }
    }

    /// A file with a token.
    pub fn token_file(&self, token: &str) -> PathBuf {
        let file = self.folder.with_file_name(format!("token-{}", &token[7..23]));
        fs::write(&file, token).unwrap();
        file
    }

    /// Runs `sudare remote` for this service in a folder.
    pub fn remote(&self, folder: &Path, token: &str, line: &str) -> Run {
        let url = self.url();
        let token = self.token_file(token);
        let token = token.display();
        sudare_at(folder, &format!("remote {line} --url {url} --token-file {token}"))
    }

    /// Asks for a job by this name for repetitions.
    pub fn submit(&self, token: &str, name: &str, request: &Value) -> Answer {
        let body = request.to_string();
        let headers = format!("Idempotency-Key: {name}\r\nContent-Type: application/json\r\n");
        self.send("POST /v1/jobs", token, &headers, body.len(), body.as_bytes())
    }

    /// Waits until a job is as `wanted`.
    pub fn until(&self, token: &str, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let job = self.get(&format!("/v1/jobs/{id}"), token).json();
            if wanted(&job) {
                return job;
            }
            assert!(begun.elapsed() < Duration::from_secs(600), "{job}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn get(&self, path: &str, token: &str) -> Answer {
        self.send(&format!("GET {path}"), token, "", 0, b"")
    }

    /// Begins an upload of tus: where it is.
    pub fn begin(&self, collection: &str, token: &str, digest: &str, bytes: usize) -> Answer {
        let metadata = base64(digest.as_bytes());
        let headers = format!(
            "Tus-Resumable: 1.0.0\r\nUpload-Length: {bytes}\r\nUpload-Metadata: digest {metadata}\r\n"
        );
        self.send(&format!("POST /v1/{collection}"), token, &headers, 0, b"")
    }

    /// Sends a part, of which `sent` bytes come.
    pub fn append(&self, place: &str, token: &str, at: usize, part: &[u8], sent: usize) -> Answer {
        let headers = format!(
            "Tus-Resumable: 1.0.0\r\nUpload-Offset: {at}\r\n\
             Content-Type: application/offset+octet-stream\r\n"
        );
        self.send(&format!("PATCH {place}"), token, &headers, part.len(), &part[..sent])
    }

    /// How many bytes of an upload are there.
    pub fn offset(&self, place: &str, token: &str) -> Option<usize> {
        let answer = self.send(&format!("HEAD {place}"), token, "Tus-Resumable: 1.0.0\r\n", 0, b"");
        answer.header("upload-offset")?.parse().ok()
    }
}

/// Room for records of its own at a server of PostgreSQL.
pub fn new_database(server: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let schema = format!("t{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let made = format!("CREATE SCHEMA {schema}");
    let made = Command::new("psql").args([server, "--quiet", "--command", &made]).status();
    assert!(made.unwrap().success());
    format!("{server}?options=-csearch_path%3D{schema}")
}

/// The processes of jobs of a server or a worker.
pub fn children(parent: &Child) -> Vec<u32> {
    // Memory of all its threads.
    let threads =
        fs::read_dir(format!("/proc/{}/task", parent.id())).into_iter().flatten().flatten();
    let of_thread = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children"));
    let lists = threads.filter_map(|thread| of_thread(thread).ok());
    lists
        .flat_map(|list| list.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}

/// How much of a long test is run: all of it by `make test-service-full`.
pub fn in_full(full: u32, short: u32) -> u32 {
    if env::var_os("SUDARE_TEST_FULL").is_some() { full } else { short }
}

/// Numbers without a pattern, by xorshift.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Others in each run.
    pub fn of_now() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Self::new(now.subsec_nanos().into())
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }
}

/// Sends a signal to a process.
pub fn signal(name: &str, process: u32) {
    Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status().unwrap();
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A server and where it listens, unless it ends before it does.
fn spawn(
    under: &[String],
    folder: &Path,
    options: &[String],
    listen: &str,
) -> (Child, Option<String>) {
    let words = [under, &[env!("CARGO_BIN_EXE_sudare").to_owned()]].concat();
    let mut process = Command::new(&words[0])
        .args(&words[1..])
        .args(["serve", "--json", "--listen", listen, "--folder"])
        .arg(folder)
        .args(options)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let serving = serde_json::from_str::<Value>(&line).ok();
    let address = serving
        .and_then(|serving| Some(serving["listening"].as_str()?.split_once("://")?.1.to_owned()));
    (process, address)
}

pub fn base64(bytes: &[u8]) -> String {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0_u32, |word, &byte| word << 8 | u32::from(byte));
        let word = word << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = digits[(word >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= group.len() { digit.into() } else { '=' });
        }
    }
    text
}
