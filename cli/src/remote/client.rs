//! Requests, and jobs.

use crate::output::say;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    io::{BufRead, BufReader, Read},
    net::IpAddr,
    path::Path,
    thread,
    time::{Duration, Instant},
};
use sudare_roles::{
    error::{Error, Result},
    files,
};
use ureq::{
    Agent, Body,
    http::{Response, StatusCode},
    tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem},
};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(20);
/// How long nothing may come; events come with signs of life.
const SILENCE: Duration = Duration::from_secs(90);
/// How long a server may be away before that is an error.
const PATIENCE: Duration = Duration::from_secs(120);
/// The first pause after a failure; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The variable of the environment that may have a token.
const TOKEN: &str = "SUDARE_TOKEN";
/// Most bytes of the file of a token.
const MOST_TOKEN_BYTES: u64 = 4096;
/// Most bytes of an answer in JSON.
const MOST_JSON_BYTES: u64 = 16 << 20;
/// A line of an event, which holds a job, is never longer.
const MAX_EVENT_BYTES: u64 = 1 << 20;

/// A service and the token by which it knows this client.
pub struct Client {
    pub(super) agent: Agent,
    base: String,
    authorization: String,
}

/// What a client says of a job.
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
    /// Whether the weights after each iteration are kept.
    pub history: bool,
}

/// A job, as the service tells of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// The name of the job.
    pub id: String,
    /// `queued`, `running`, `done`, `failed` or `cancelled`.
    pub state: String,
    /// What was asked for.
    pub request: serde_json::Value,
    /// Steps done, and in all.
    pub progress: Steps,
    /// What the server thinks that it takes.
    pub predicted: Predicted,
    /// Why it failed.
    pub error: Option<Failure>,
    /// Digest of its result.
    pub result: Option<String>,
}

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    pub done: u64,
    pub total: u64,
}

/// What a job takes.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Predicted {
    pub seconds: f64,
    pub memory_bytes: u64,
}

/// Why a job failed, or a request was refused.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Failure {
    pub kind: String,
    pub detail: String,
}

/// What a request for something that there may be is answered with.
pub enum Seen {
    /// It is there.
    There,
    /// It is not.
    Absent,
}

impl Job {
    /// Whether nothing happens to it any more.
    pub fn is_final(&self) -> bool {
        !matches!(&self.state[..], "queued" | "running")
    }

    /// The digest of its result, once it is done.
    pub fn result(&self) -> Result<&str> {
        match (&self.result, &self.error) {
            (Some(result), _) => Ok(result),
            (None, Some(Failure { kind, detail })) => {
                Err(Error::Refused { kind: kind.clone(), detail: detail.clone() })
            }
            (None, None) => Err(Error::Usage(format!("job {} is {}", self.id, self.state))),
        }
    }
}

/// A failure that may pass.
pub(super) struct Patience {
    since: Instant,
    pause: Duration,
}

impl Patience {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), pause: FIRST_PAUSE }
    }

    /// Waits for a moment, unless that was done for too long.
    pub(super) fn wait(&mut self, error: Error) -> Result<()> {
        if self.since.elapsed() > PATIENCE {
            return Err(error);
        }
        thread::sleep(self.pause);
        self.pause = LONGEST_PAUSE.min(self.pause.saturating_mul(2));
        Ok(())
    }
}

impl Client {
    /// A client of the service at `url`, which sends this token. `authority` is the file of the
    /// certificates that the service's are signed by, if not by public ones.
    pub fn new(url: &str, token: &str, authority: Option<&Path>) -> Result<Self> {
        let base = url.trim_end_matches('/').to_owned();
        let is_local = check_url(&base)?;
        let token = checked_token(token)?;
        let mut tls = TlsConfig::builder();
        if let Some(path) = authority {
            tls = tls.root_certs(RootCerts::new_with_certs(&certificates(path)?));
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .tls_config(tls.build())
            .timeout_connect(Some(CONNECT))
            .timeout_per_read(Some(SILENCE))
            .timeout_per_write(Some(SILENCE));
        // A proxy of the environment would see a token that is sent to this machine in clear.
        let config = if is_local { config.proxy(None) } else { config };
        let authorization = format!("Bearer {token}");
        Ok(Self { agent: config.build().into(), base, authorization })
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub(super) fn authorization(&self) -> &str {
        &self.authorization
    }

    pub(super) fn unreachable(&self, error: impl core::fmt::Display) -> Error {
        Error::Unreachable { url: self.base.clone(), problem: error.to_string() }
    }

    /// An answer, once it is none of a failure that passes.
    pub(super) fn until_answered(
        &self,
        mut request: impl FnMut() -> core::result::Result<Response<Body>, ureq::Error>,
    ) -> Result<Response<Body>> {
        let mut patience = Patience::new();
        loop {
            match request() {
                Ok(answer) if !is_passing(&answer) => return Ok(answer),
                Ok(answer) => patience.wait(refusal(answer))?,
                Err(error) => patience.wait(self.unreachable(error))?,
            }
        }
    }

    /// The status and the body of an answer, once it came whole and is none of a failure that passes.
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
                Err(error @ ureq::Error::BodyExceedsLimit(_)) => return Err(no_answer(&error)),
                Err(error) => patience.wait(self.unreachable(error))?,
            }
        }
    }

    /// What is answered in JSON.
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

    /// The answer to one request; that of a failure that passes is as none.
    #[cfg(feature = "cluster")]
    pub(super) fn once(
        &self,
        answer: core::result::Result<Response<Body>, ureq::Error>,
    ) -> Result<Response<Body>> {
        match answer {
            Ok(answer) if is_passing(&answer) => Err(self.unreachable(refusal(answer))),
            Ok(answer) => expect_success(answer),
            Err(error) => Err(self.unreachable(error)),
        }
    }

    pub(super) fn get(&self, path: &str) -> Result<Response<Body>> {
        self.until_answered(self.getting(path))
    }

    /// The request for what is at a path, as often as it is made.
    fn getting(
        &self,
        path: &str,
    ) -> impl FnMut() -> core::result::Result<Response<Body>, ureq::Error> {
        let url = self.url(path);
        move || self.agent.get(&url).header("authorization", &self.authorization).call()
    }

    /// Whether the service has something.
    pub fn look_for(&self, path: &str) -> Result<Seen> {
        let url = self.url(path);
        let request = || self.agent.head(&url).header("authorization", &self.authorization).call();
        let answer = self.until_answered(request)?;
        match answer.status() {
            StatusCode::NOT_FOUND => Ok(Seen::Absent),
            status if status.is_success() => Ok(Seen::There),
            // Without a body it does not say why.
            _ => self.get(path).and_then(expect_success).map(|_| Seen::There),
        }
    }

    /// Asks for a job. A request that was made before, and did not fail since, is not made again.
    pub fn submit(&self, request: &Request<'_>) -> Result<Job> {
        let body = serde_json::to_vec(request).map_err(|e| Error::Bug(e.to_string()))?;
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
            attempt = attempt.saturating_add(1);
        }
    }

    /// A job.
    pub fn job(&self, id: &str) -> Result<Job> {
        self.get_json(&format!("/v1/jobs/{}", checked(id)?))
    }

    /// The receipt of a job that is done, unless the service has none.
    pub fn receipt(&self, id: &str) -> Result<Option<String>> {
        match self.whole(self.getting(&format!("/v1/jobs/{}/receipt", checked(id)?)))? {
            (StatusCode::NOT_FOUND, _) => Ok(None),
            (status, body) if status.is_success() => {
                String::from_utf8(body).map(Some).map_err(|error| no_answer(&error))
            }
            (status, body) => Err(refusal_of(status, &body)),
        }
    }

    /// The jobs of this client's tenant, the newest first.
    pub fn jobs(&self) -> Result<Vec<Job>> {
        self.get_json("/v1/jobs")
    }

    /// What the tenant has taken, and what it may take.
    pub fn usage(&self) -> Result<serde_json::Value> {
        self.get_json("/v1/usage")
    }

    /// What the tenant has in a collection.
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

    /// Waits until a job has ended; `progress` is told how far it is.
    pub fn wait(&self, id: &str, mut progress: impl FnMut(&Job)) -> Result<Job> {
        let path = format!("/v1/jobs/{}/events", checked(id)?);
        let (mut last, mut patience) = (String::from("0"), Patience::new());
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
                    patience = Patience::new();
                    seen = Some(job);
                }
            }
            // The stream ends with the job, or with the server.
            match seen.filter(Job::is_final) {
                Some(job) => return Ok(job),
                None => {
                    let job = self.job(id)?;
                    if job.is_final() {
                        return Ok(job);
                    }
                    patience.wait(self.unreachable("the stream of events ends"))?;
                }
            }
        }
    }
}

/// The next line of a stream of events; none once the stream ends or breaks.
fn next_line(events: &mut impl BufRead) -> Result<Option<String>> {
    let mut line = Vec::new();
    let read = events.take(MAX_EVENT_BYTES).read_until(b'\n', &mut line);
    if line.len() as u64 == MAX_EVENT_BYTES {
        let problem = format!("a line of events of more than {MAX_EVENT_BYTES} bytes");
        return Err(no_answer(&problem));
    }
    let is_whole = read.is_ok() && line.ends_with(b"\n");
    Ok(String::from_utf8(line).ok().filter(|_| is_whole))
}

/// The token in a file, or else in the environment. Says so if other users can read the file.
pub fn read_token(file: Option<&Path>) -> Result<String> {
    match file {
        Some(path) => {
            let token = files::read_text(path, MOST_TOKEN_BYTES)?;
            if path.metadata().is_ok_and(|found| files::others_may_read(&found)) {
                say(format_args!(
                    "warning: {} can be read by other users of this machine, who can then use the \
                     service in your place: take the permission away, as with chmod 600",
                    path.display()
                ));
            }
            Ok(token)
        }
        None => std::env::var(TOKEN).map_err(|_| {
            Error::Usage(format!(
                "a token is needed: name its file with --token-file, or set {TOKEN}"
            ))
        }),
    }
}

/// Whether an answer is that of a failure that may pass soon.
pub(super) fn is_passing(answer: &Response<Body>) -> bool {
    let soon = || {
        let text = answer.headers().get("retry-after")?.to_str().ok()?;
        text.parse().ok().filter(|&seconds: &u64| seconds <= LONGEST_PAUSE.as_secs())
    };
    match answer.status() {
        StatusCode::TOO_MANY_REQUESTS => soon().is_some(),
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            true
        }
        _ => false,
    }
}

/// What a service refused, in its words.
pub(super) fn refusal(answer: Response<Body>) -> Error {
    let status = answer.status();
    refusal_of(status, &body_of(answer).unwrap_or_default())
}

fn refusal_of(status: StatusCode, body: &[u8]) -> Error {
    let Failure { kind, detail } = parsed(body).unwrap_or_else(|_| Failure {
        kind: "Http".into(),
        detail: format!("it answered {status} without saying why: is this a service of sudare?"),
    });
    Error::Refused { kind, detail }
}

pub(super) fn expect_success(answer: Response<Body>) -> Result<Response<Body>> {
    if answer.status().is_success() { Ok(answer) } else { Err(refusal(answer)) }
}

/// What one answer says in JSON.
#[cfg(feature = "cluster")]
pub(super) fn json<T: DeserializeOwned>(answer: Response<Body>) -> Result<T> {
    parsed(&body_of(answer).map_err(|error| no_answer(&error))?)
}

fn body_of(answer: Response<Body>) -> core::result::Result<Vec<u8>, ureq::Error> {
    answer.into_body().into_with_config().limit(MOST_JSON_BYTES).read_to_vec()
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(|error| no_answer(&error))
}

pub(super) fn no_answer(error: &dyn core::fmt::Display) -> Error {
    Error::Refused { kind: "Http".into(), detail: format!("its answer is {error}") }
}

/// A name that may stand in a path.
pub(super) fn checked(name: &str) -> Result<&str> {
    if !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Ok(name);
    }
    Err(Error::Usage(format!("{name:?} is neither the name of a job nor a digest")))
}

/// Host and port of an address without its scheme.
pub fn host_of(rest: &str) -> &str {
    rest.split('/').next().unwrap_or_default()
}

/// The token in a text, if a header can carry it. Messages never repeat it.
fn checked_token(text: &str) -> Result<&str> {
    let token = text.trim();
    if !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(token);
    }
    Err(Error::Usage(
        "the token is empty, or has blanks or other characters that no token has: use the line that \
         `sudare serve token add` has printed"
            .into(),
    ))
}

/// The host of a host and port.
fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        // A colon inside brackets belongs to the address.
        Some((host, port)) if !port.contains(']') => host,
        _ => authority,
    }
}

/// Whether a host is this machine, whose addresses no proxy is asked for.
fn is_loopback(host: &str) -> bool {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    name == "localhost"
        || name.ends_with(".localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Refuses addresses to which a token would travel in clear; returns whether the address is that of
/// this machine.
pub fn check_url(url: &str) -> Result<bool> {
    let host = |rest| without_port(host_of(rest));
    match url.split_once("://") {
        // What looks like a host before an `@` is a name and a password; the host is behind it. A
        // password is not repeated.
        Some((scheme, rest)) if host_of(rest).contains('@') => {
            let behind = host_of(rest).rsplit('@').next().unwrap_or_default();
            Err(Error::Usage(format!(
                "{scheme}://…@{behind}: leave out the name and the password: a service takes tokens \
                 alone"
            )))
        }
        Some(("https", rest)) if !rest.is_empty() => Ok(is_loopback(host(rest))),
        Some(("http", rest)) if matches!(host(rest), "127.0.0.1" | "localhost" | "[::1]") => {
            Ok(true)
        }
        Some(("http", _)) => Err(Error::Usage(format!(
            "{url}: the token would travel in clear: use https, or a tunnel to this machine and \
             http://127.0.0.1:PORT"
        ))),
        _ => Err(Error::Usage(format!("{url:?} is no address such as https://server.example"))),
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
        return Err(Error::Usage(format!("{} has no certificate in PEM", path.display())));
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
