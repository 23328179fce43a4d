//! Requests to a service, and its jobs.

use super::connection::Connection;
use crate::output::say;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    io::{BufRead, BufReader, Read},
    net::IpAddr,
    path::Path,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};
use sudare_roles::{
    error::{Error, Result},
    os::files,
};
use ureq::{
    Agent, Body,
    http::{Response, StatusCode},
    tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem},
};

/// Maximum time to connect.
// TCP repeats a lost first packet after 1, 3, 7 and 15 seconds.
const CONNECT: Duration = Duration::from_secs(20);
/// Maximum time without data. Event streams send a sign of life every 15 seconds.
const SILENCE: Duration = Duration::from_secs(90);
/// Maximum time without an answer before a temporary failure becomes an error.
// A server restarts, and a proxy reloads, in less time.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time after which the user is told that there is no answer yet.
const NOTICE: Duration = Duration::from_secs(2);
/// The first pause after a failure; each is twice the one before.
// Most failures pass at once, and the later pauses spare a server that restarts.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Environment variable that may hold a token.
const TOKEN: &str = "SUDARE_TOKEN";
/// Maximum size of the file of a token.
// A token has about a hundred. A larger file is another one, such as a table.
const MAX_TOKEN_BYTES: u64 = 4096;
/// Maximum size of an answer in JSON. A server, or a proxy in its place, may send without an end.
const MAX_JSON_BYTES: u64 = 16 << 20;
/// Maximum size of a line of an event, which holds a job.
const MAX_EVENT_BYTES: u64 = 1 << 20;

/// A service, and the token of this client.
pub struct Client {
    pub(super) agent: Agent,
    pub(super) connection: Connection,
    authorization: String,
}

/// A job to submit.
#[derive(Debug, Clone, Serialize)]
pub struct Request<'a> {
    /// `stats`, `groups`, `histogram`, `train` or `predict`.
    pub kind: &'a str,
    /// Digest of evaluation keys.
    pub keys: &'a str,
    /// Digests of encrypted tables.
    pub tables: &'a [String],
    /// Digest of a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a str>,
    /// Iterations of a training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u32>,
    /// Keep the weights after each iteration.
    pub history: bool,
}

/// A job, as the service describes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// The name of the job.
    pub id: String,
    /// `queued`, `running`, `done`, `failed` or `cancelled`.
    pub state: String,
    /// The submitted request.
    pub request: serde_json::Value,
    /// Steps done, and all steps.
    pub progress: Steps,
    /// Predicted time and memory.
    pub predicted: Predicted,
    /// Reason of its failure.
    pub error: Option<Failure>,
    /// Digest of its result.
    pub result: Option<String>,
}

/// Progress of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    pub done: u64,
    pub total: u64,
}

/// Predicted cost of a job.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Predicted {
    pub seconds: f64,
    pub memory_bytes: u64,
}

/// Reason of a failed job or a refused request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Failure {
    pub kind: String,
    pub detail: String,
}

/// Presence of an object at the service.
pub enum Seen {
    /// The service has it.
    There,
    /// The service does not have it.
    Absent,
}

impl Job {
    /// Decides whether the job has ended.
    pub fn is_final(&self) -> bool {
        !matches!(&self.state[..], "queued" | "running")
    }

    /// Returns the digest of the result of a finished job.
    pub fn result(&self) -> Result<&str> {
        match (&self.result, &self.error) {
            (Some(result), _) => Ok(result),
            (None, Some(Failure { kind, detail })) => {
                Err(Error::Refused { kind: kind.clone(), detail: detail.clone() })
            }
            (None, None) => Err(Error::Usage(format!(
                "job {} is {} and has no result: wait for one that ends well",
                self.id, self.state
            ))),
        }
    }
}

/// Pauses between attempts after a temporary failure.
pub(super) struct Patience {
    since: Instant,
    pause: Duration,
    is_noticed: bool,
}

impl Patience {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), pause: FIRST_PAUSE, is_noticed: false }
    }

    /// Pauses before the next attempt. Returns the error if it lasts, or after too long.
    pub(super) fn wait(&mut self, error: Error) -> Result<()> {
        let waited = self.since.elapsed();
        if waited > PATIENCE || matches!(error, Error::NoConnection { .. }) {
            return Err(error);
        }
        if !self.is_noticed && waited.saturating_add(self.pause) >= NOTICE {
            self.is_noticed = true;
            let left = PATIENCE.saturating_sub(waited).as_secs();
            match &error {
                // The text of the last error has the remedy.
                Error::Unreachable { url, problem } => say(format_args!(
                    "cannot reach {url}: {problem}; trying again for up to {left} s"
                )),
                error => say(format_args!("{error}; trying again for up to {left} s")),
            }
        }
        thread::sleep(self.pause);
        self.pause = LONGEST_PAUSE.min(self.pause.saturating_mul(2));
        Ok(())
    }
}

impl Client {
    /// Creates a client of the service at `url`, which sends this token. `authority` is the file of
    /// the certificates that sign the service's certificate, if public authorities do not.
    pub fn new(url: &str, token: &str, authority: Option<&Path>) -> Result<Self> {
        let token = checked_token(token)?;
        let (agent, connection) = connect(url, authority)?;
        Ok(Self { agent, connection, authorization: format!("Bearer {token}") })
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.connection.url())
    }

    pub(super) fn authorization(&self) -> &str {
        &self.authorization
    }

    /// Tells the user after a moment that the service has not answered, until the sender is dropped.
    fn report_silence(&self) -> Sender<()> {
        let (answered, answer) = mpsc::channel();
        let text = format!(
            "{} has not answered yet: check host and port; still waiting",
            self.connection.url()
        );
        thread::spawn(move || {
            if let Err(RecvTimeoutError::Timeout) = answer.recv_timeout(NOTICE) {
                say(text);
            }
        });
        answered
    }

    /// Repeats a request until the answer is not a temporary failure.
    pub(super) fn until_answered(
        &self,
        mut request: impl FnMut() -> core::result::Result<Response<Body>, ureq::Error>,
    ) -> Result<Response<Body>> {
        let mut patience = Patience::new();
        // A firewall may drop the packets to a wrong port, so the first attempt may last long.
        let mut silence = (!self.connection.is_known()).then(|| self.report_silence());
        loop {
            let answer = request();
            drop(silence.take());
            match answer {
                Ok(answer) if !is_passing(&answer) => {
                    self.connection.answered();
                    return Ok(answer);
                }
                Ok(answer) => patience.wait(refusal(answer))?,
                Err(error) => patience.wait(self.connection.error(&error))?,
            }
        }
    }

    /// Returns the status and the body of an answer that arrived completely and is not a temporary
    /// failure.
    fn whole(
        &self,
        mut request: impl FnMut() -> core::result::Result<Response<Body>, ureq::Error>,
    ) -> Result<(StatusCode, Vec<u8>)> {
        let mut patience = Patience::new();
        loop {
            let answer = self.until_answered(&mut request)?;
            let status = answer.status();
            match body_of(answer) {
                Ok(body) => return Ok((status, body)),
                // A repetition would be too long again.
                Err(error @ ureq::Error::BodyExceedsLimit(_)) => return Err(no_answer(&error)),
                Err(error) => patience.wait(self.connection.error(&error))?,
            }
        }
    }

    /// Returns the JSON of an answer.
    fn json<T: DeserializeOwned>(
        &self,
        request: impl FnMut() -> core::result::Result<Response<Body>, ureq::Error>,
    ) -> Result<T> {
        match self.whole(request)? {
            (status, body) if status.is_success() => parsed(&body),
            (status, body) => Err(refusal_of(status, &body)),
        }
    }

    fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.json(self.getting(path))
    }

    /// Returns the answer to a single request. A temporary failure counts as no answer.
    #[cfg(feature = "cluster")]
    pub(super) fn once(
        &self,
        answer: core::result::Result<Response<Body>, ureq::Error>,
    ) -> Result<Response<Body>> {
        match answer {
            Ok(answer) if is_passing(&answer) => Err(self.connection.interrupted(refusal(answer))),
            Ok(answer) => expect_success(answer),
            Err(error) => Err(self.connection.interrupted_by(&error)),
        }
    }

    pub(super) fn get(&self, path: &str) -> Result<Response<Body>> {
        self.until_answered(self.getting(path))
    }

    /// Returns a request for a path that can be repeated.
    fn getting(
        &self,
        path: &str,
    ) -> impl FnMut() -> core::result::Result<Response<Body>, ureq::Error> {
        let url = self.url(path);
        move || self.agent.get(&url).header("authorization", &self.authorization).call()
    }

    /// Asks the service whether it has an object.
    pub fn look_for(&self, path: &str) -> Result<Seen> {
        let url = self.url(path);
        let request = || self.agent.head(&url).header("authorization", &self.authorization).call();
        let answer = self.until_answered(request)?;
        match answer.status() {
            StatusCode::NOT_FOUND => Ok(Seen::Absent),
            status if status.is_success() => Ok(Seen::There),
            // An answer to HEAD has no body, so the reason needs a GET.
            _ => self.get(path).and_then(expect_success).map(|_| Seen::There),
        }
    }

    /// Submits a job. A request that was made before and has not failed is not made again.
    pub fn submit(&self, request: &Request<'_>) -> Result<Job> {
        let body = serde_json::to_vec(request).map_err(|e| Error::Bug(e.to_string()))?;
        // A repeated command sends the same body, so the service finds the job of the first one.
        let name = blake3::hash(&body);
        let mut attempt = 0u32;
        loop {
            let url = self.url("/v1/jobs");
            let job: Job = self.json(|| {
                let post = self.agent.post(&url).header("authorization", &self.authorization);
                let post = post.header("idempotency-key", format!("{name}-{attempt}"));
                post.header("content-type", "application/json").send(&body[..])
            })?;
            let is_of_use = match &job.result {
                Some(result) => {
                    let path = format!("/v1/results/{}", checked(result)?);
                    matches!(self.look_for(&path)?, Seen::There)
                }
                None => !job.is_final(),
            };
            if is_of_use {
                return Ok(job);
            }
            // The job failed, or its result was removed: a new name makes a new job.
            attempt = attempt.saturating_add(1);
        }
    }

    /// Returns a job.
    pub fn job(&self, id: &str) -> Result<Job> {
        self.get_json(&format!("/v1/jobs/{}", checked(id)?))
    }

    /// Returns the receipt of a finished job, unless the service has none.
    pub fn receipt(&self, id: &str) -> Result<Option<String>> {
        match self.whole(self.getting(&format!("/v1/jobs/{}/receipt", checked(id)?)))? {
            (StatusCode::NOT_FOUND, _) => Ok(None),
            (status, body) if status.is_success() => {
                String::from_utf8(body).map(Some).map_err(|error| no_answer(&error))
            }
            (status, body) => Err(refusal_of(status, &body)),
        }
    }

    /// Lists the jobs of the tenant, the newest first.
    pub fn jobs(&self) -> Result<Vec<Job>> {
        self.get_json("/v1/jobs")
    }

    /// Returns the usage and the quotas of the tenant.
    pub fn usage(&self) -> Result<serde_json::Value> {
        self.get_json("/v1/usage")
    }

    /// Lists the objects of the tenant in a collection.
    pub fn list(&self, collection: &str) -> Result<Vec<serde_json::Value>> {
        self.get_json(&format!("/v1/{collection}"))
    }

    /// Removes an object, or cancels a job.
    pub fn remove(&self, collection: &str, name: &str) -> Result<()> {
        let url = self.url(&format!("/v1/{collection}/{}", checked(name)?));
        let request =
            || self.agent.delete(&url).header("authorization", &self.authorization).call();
        expect_success(self.until_answered(request)?).map(|_| ())
    }

    /// Waits until a job has ended. `progress` is called with the job whenever it advances.
    pub fn wait(&self, id: &str, mut progress: impl FnMut(&Job)) -> Result<Job> {
        let path = format!("/v1/jobs/{}/events", checked(id)?);
        let mut last = String::from("0");
        let mut patience = Patience::new();
        loop {
            let url = self.url(&path);
            let answer = self.until_answered(|| {
                let get = self.agent.get(&url).header("authorization", &self.authorization);
                get.header("last-event-id", &last).call()
            })?;
            let mut seen = None;
            let mut events = BufReader::new(expect_success(answer)?.into_body().into_reader());
            while let Some(line) = next_line(&mut events)? {
                if let Some(id) = line.strip_prefix("id:") {
                    last = id.trim().into();
                } else if let Some(data) = line.strip_prefix("data:")
                    && let Ok(job) = serde_json::from_str::<Job>(data.trim())
                {
                    progress(&job);
                    // Each event shows that the service lives, so patience begins anew.
                    patience = Patience::new();
                    seen = Some(job);
                }
            }
            // The stream ends with the job, or with the server.
            match seen.filter(Job::is_final) {
                Some(job) => return Ok(job),
                None => {
                    // The last event may be lost with the connection.
                    let job = self.job(id)?;
                    if job.is_final() {
                        return Ok(job);
                    }
                    patience.wait(self.connection.interrupted("the stream of events ends"))?;
                }
            }
        }
    }
}

/// Prepares connections to the service at `url`.
fn connect(url: &str, authority: Option<&Path>) -> Result<(Agent, Connection)> {
    let base = url.trim_end_matches('/');
    let is_local = check_url(base)?;
    let mut tls = TlsConfig::builder();
    if let Some(path) = authority {
        tls = tls.root_certs(RootCerts::new_with_certs(&certificates(path)?));
    }
    let config = Agent::config_builder()
        // The service explains a refusal in the body, which an error of ureq would drop.
        .http_status_as_error(false)
        // A redirect could send the token and the files to another host.
        .max_redirects(0)
        .tls_config(tls.build())
        .timeout_connect(Some(CONNECT))
        .timeout_per_read(Some(SILENCE))
        .timeout_per_write(Some(SILENCE));
    // A proxy of the environment would see a token that is sent to this machine in clear.
    let config = if is_local { config.proxy(None) } else { config };
    Ok((config.build().into(), Connection::new(base, authority.map(Path::to_owned))))
}

/// Asks a service once whether it is ready for jobs, without a token.
#[cfg(feature = "serve")]
pub fn expect_ready(url: &str, authority: Option<&Path>) -> Result<()> {
    let (agent, connection) = connect(url, authority)?;
    let answer = agent.get(format!("{}/readyz", connection.url())).call();
    expect_success(answer.map_err(|error| connection.error(&error))?).map(|_| ())
}

/// Reads the next line of an event stream; nothing once the stream ends or breaks.
fn next_line(events: &mut impl BufRead) -> Result<Option<String>> {
    let mut line = Vec::new();
    let read = events.take(MAX_EVENT_BYTES).read_until(b'\n', &mut line);
    // `take` ends a longer line without an error.
    if line.len() as u64 == MAX_EVENT_BYTES {
        let problem = format!("a line of events of more than {MAX_EVENT_BYTES} bytes");
        return Err(no_answer(&problem));
    }
    let is_whole = read.is_ok() && line.ends_with(b"\n");
    Ok(String::from_utf8(line).ok().filter(|_| is_whole))
}

/// Reads the token from a file, or else from the environment. Warns if other users can read the
/// file.
pub fn read_token(file: Option<&Path>) -> Result<String> {
    match file {
        Some(path) => {
            let token = files::read_text(path, MAX_TOKEN_BYTES)?;
            if path.metadata().is_ok_and(|found| files::others_may_read(&found)) {
                say(format_args!(
                    "warning: other users of this machine can read {}, and then use the service in your \
                     place: remove the permission, for example with chmod 600",
                    path.display()
                ));
            }
            Ok(token)
        }
        None => std::env::var(TOKEN).map_err(|_| {
            Error::Usage(format!("no token: pass its file with --token-file, or set {TOKEN}"))
        }),
    }
}

/// Decides whether an answer reports a temporary failure.
pub(super) fn is_passing(answer: &Response<Body>) -> bool {
    let soon = || {
        let text = answer.headers().get("retry-after")?.to_str().ok()?;
        text.parse().ok().filter(|&seconds: &u64| seconds <= LONGEST_PAUSE.as_secs())
    };
    match answer.status() {
        // Limits by the second pass soon. Limits by the hour or day do not, and are errors now.
        StatusCode::TOO_MANY_REQUESTS => soon().is_some(),
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            true
        }
        _ => false,
    }
}

/// Turns a refusal of the service into an error.
pub(super) fn refusal(answer: Response<Body>) -> Error {
    let status = answer.status();
    refusal_of(status, &body_of(answer).unwrap_or_default())
}

fn refusal_of(status: StatusCode, body: &[u8]) -> Error {
    let Failure { kind, detail } = parsed(body).unwrap_or_else(|_| Failure {
        kind: "Http".into(),
        detail: format!("it answered {status} without a reason: is this a sudare service?"),
    });
    Error::Refused { kind, detail }
}

pub(super) fn expect_success(answer: Response<Body>) -> Result<Response<Body>> {
    if answer.status().is_success() { Ok(answer) } else { Err(refusal(answer)) }
}

/// Reads the JSON of one answer.
#[cfg(feature = "cluster")]
pub(super) fn json<T: DeserializeOwned>(answer: Response<Body>) -> Result<T> {
    parsed(&body_of(answer).map_err(|error| no_answer(&error))?)
}

fn body_of(answer: Response<Body>) -> core::result::Result<Vec<u8>, ureq::Error> {
    answer.into_body().into_with_config().limit(MAX_JSON_BYTES).read_to_vec()
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(|error| no_answer(&error))
}

pub(super) fn no_answer(error: &dyn core::fmt::Display) -> Error {
    Error::Refused { kind: "Http".into(), detail: format!("its answer is {error}") }
}

/// Returns the name if it can be part of a path.
pub(super) fn checked(name: &str) -> Result<&str> {
    // A name becomes part of a path: `/` or `..` would reach other resources.
    if !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Ok(name);
    }
    Err(Error::Usage(format!(
        "{name:?} is neither the name of a job nor a digest: `sudare remote status` and `sudare remote \
         list` print them"
    )))
}

/// Returns host and port of an address without its scheme.
pub fn host_of(rest: &str) -> &str {
    rest.split('/').next().unwrap_or_default()
}

/// Returns the token in a text, if a header can carry it. Messages never repeat it.
fn checked_token(text: &str) -> Result<&str> {
    let token = text.trim();
    // A line end in a header would begin another header.
    if !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(token);
    }
    Err(Error::Usage(
        "the token is empty, or has blanks or other invalid characters: use the line that `sudare \
         serve token add` printed"
            .into(),
    ))
}

/// Returns the host of a host and port.
fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        // A colon inside brackets belongs to the address.
        Some((host, port)) if !port.contains(']') => host,
        _ => authority,
    }
}

/// Decides whether a host is this machine, which needs no proxy.
fn is_loopback(host: &str) -> bool {
    // A final dot means the same host.
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    name == "localhost"
        || name.ends_with(".localhost")
        // Canonical, because `::ffff:127.0.0.1` is this machine, too.
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Rejects addresses to which a token would travel unencrypted. Returns true for an address of this
/// machine.
pub fn check_url(url: &str) -> Result<bool> {
    let host = |rest| without_port(host_of(rest));
    match url.split_once("://") {
        // Text before an `@` looks like a host but is a name and a password. The host is behind it. Messages
        // never repeat a password.
        Some((scheme, rest)) if host_of(rest).contains('@') => {
            let behind = host_of(rest).rsplit('@').next().unwrap_or_default();
            Err(Error::Usage(format!(
                "{scheme}://…@{behind}: leave out the name and the password, because a service accepts only \
                 tokens"
            )))
        }
        Some(("https", rest)) if !rest.is_empty() => Ok(is_loopback(host(rest))),
        // Exact spellings only. Other names of this machine may resolve to another one.
        Some(("http", rest)) if matches!(host(rest), "127.0.0.1" | "localhost" | "[::1]") => {
            Ok(true)
        }
        Some(("http", _)) => Err(Error::Usage(format!(
            "{url}: the token would travel unencrypted: use https, or a tunnel to this machine and \
             http://127.0.0.1:PORT"
        ))),
        _ => Err(Error::Usage(format!(
            "{url:?} is not an address: pass one such as https://server.example"
        ))),
    }
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>> {
    let pem = std::fs::read(path).map_err(|error| Error::io("read", path, error))?;
    let certificates = parse_pem(&pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<_> = certificates.collect();
    if certificates.is_empty() {
        return Err(Error::Usage(format!(
            "{} has no certificate in PEM: pass a file with one",
            path.display()
        )));
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_do_not_travel_in_clear() {
        for good in [
            "https://server.example",
            "https://server.example:8443/sudare",
            "http://127.0.0.1:8470",
            "http://localhost:1/x",
            "http://[::1]:8470",
        ] {
            assert!(check_url(good).is_ok(), "{good}");
        }
        for bad in [
            "http://server.example",
            "http://127.0.0.1.example:80",
            "http://localhost@server.example",
            "http://127.0.0.1:80@server.example/",
            "https://name:password@server.example",
            "server.example",
            "https://",
            "ftp://127.0.0.1",
        ] {
            assert!(check_url(bad).is_err(), "{bad}");
        }
        let refused = check_url("https://name:hunter2@server.example/x").unwrap_err().to_string();
        assert!(!refused.contains("hunter2") && refused.contains("server.example"), "{refused}");
    }

    #[test]
    fn this_machine_is_known_by_its_addresses() {
        for (url, is_local) in [
            ("http://127.0.0.1:8470", true),
            ("https://127.0.0.1:8470/sudare", true),
            ("https://127.9.8.7", true),
            ("https://LocalHost.:443", true),
            ("https://service.localhost", true),
            ("https://[::1]", true),
            ("https://[::1]:8470", true),
            ("https://[::ffff:127.0.0.1]:8470", true),
            ("https://[2001:db8::1]:8470", false),
            ("https://server.example:8470", false),
            ("https://127.0.0.1.example", false),
            ("https://localhost.example", false),
            ("https://10.0.0.1", false),
        ] {
            assert_eq!(check_url(url).unwrap(), is_local, "{url}");
        }
    }

    #[test]
    fn tokens_that_no_header_can_carry_are_refused_and_not_repeated() {
        assert_eq!(checked_token(" sudare_0123\n").unwrap(), "sudare_0123");
        for bad in ["", " \n", "sudare_01\n23", "sudare_01 23", "sudare_é", "sudare_\0"] {
            let refused = checked_token(bad).unwrap_err().to_string();
            assert!(!refused.contains("sudare_"), "{refused}");
        }
    }

    #[test]
    fn lines_of_events_have_an_end() {
        let lines = |text: &[u8]| {
            let mut events = text;
            let mut found = Vec::new();
            while let Some(line) = next_line(&mut events)? {
                found.push(line.trim_end().to_owned());
            }
            Ok::<_, Error>(found)
        };
        assert_eq!(
            lines(b"id: 1\ndata: {}\r\n\nid: 2\nda").unwrap(),
            ["id: 1", "data: {}", "", "id: 2"]
        );
        let limit = MAX_EVENT_BYTES as usize;
        let longest = [&vec![b'x'; limit - 2][..], b"\n"].concat();
        assert_eq!(lines(&longest).unwrap()[0].len(), limit - 2);
        let refused = lines(&vec![b'x'; limit]).unwrap_err();
        assert!(refused.to_string().contains("a line of events"), "{refused}");
    }

    #[test]
    fn names_cannot_lead_elsewhere() {
        assert!(checked("0123abcdef").is_ok());
        for bad in ["", "../jobs", "a/b", "a?b", "a%2f"] {
            assert!(checked(bad).is_err(), "{bad}");
        }
    }
}
