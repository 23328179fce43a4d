//! Compares the description with actual responses, and with the parsers of requests.

use super::{super::spec::PART, *};
use crate::{
    accounts::token::{Owner, Token},
    clock::now,
    cluster::lease::{Assignment, Leaving, Offer, Report},
    http::api::router,
    job::{Kind, Request},
    jobs::app::{App, testing::server},
    storage::{
        inspect,
        records::{
            Collection, NewJob, Object,
            testing::{new_job, queue},
        },
    },
};
use axum::{
    body::{Body, to_bytes},
    http::{self, HeaderMap},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde::{Serialize, de::DeserializeOwned};
use std::{collections::BTreeSet, fs};
use sudare_roles::{format::label::Meta, job::Job};
use tempfile::TempDir;

const TENANT: &str = "clinic";
const SCHEMAS: &str = "/components/schemas";

/// Visits all values in a document, with their JSON pointers (RFC 6901).
fn walk<'a>(at: &str, value: &'a Value, visit: &mut dyn FnMut(&str, &'a Value)) {
    visit(at, value);
    let mut visit_at = |name: &str, value| walk(&format!("{at}/{}", escaped(name)), value, visit);
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| visit_at(name, value)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| visit_at(&at.to_string(), item));
        }
        _ => {}
    }
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn is_digits(value: &Value, pattern: &str) -> bool {
    let text = value.as_str().unwrap_or_default();
    let count = pattern.strip_prefix("^[0-9a-f]{").and_then(|rest| rest.strip_suffix("}$"));
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == count.unwrap().parse::<usize>().unwrap() && text.bytes().all(is_digit)
}

/// A description, with the schema members that occurred.
struct Described {
    document: Value,
    seen: BTreeSet<String>,
}

impl Described {
    fn new() -> Self {
        Self { document: description(), seen: BTreeSet::new() }
    }

    fn at(&self, at: &str) -> &Value {
        self.document.pointer(at).unwrap_or_else(|| panic!("there is no {at}"))
    }

    /// Records the members of a value, all of which must be in the schema at a pointer.
    fn expect(&mut self, at: &str, value: &Value) {
        let found = self.members(at, value).unwrap_or_else(|problem| panic!("{problem}: {value}"));
        self.seen.extend(found);
    }

    fn members(&self, at: &str, value: &Value) -> Result<BTreeSet<String>, String> {
        let schema = self.at(at);
        if let Some(name) = schema["$ref"].as_str() {
            return self.members(name.strip_prefix('#').unwrap(), value);
        }
        if let Some(any) = schema["anyOf"].as_array() {
            let of_each = |number| self.members(&format!("{at}/anyOf/{number}"), value);
            let mut problems = Vec::new();
            for number in 0..any.len() {
                match of_each(number) {
                    Ok(found) => return Ok(found),
                    Err(problem) => problems.push(problem),
                }
            }
            return Err(problems.join(", and "));
        }
        let of_type = match schema["type"].as_str() {
            Some("string") => value.is_string(),
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("number") => value.is_number(),
            Some("boolean") => value.is_boolean(),
            Some("array") => value.is_array(),
            Some("object") => value.is_object(),
            Some("null") => value.is_null(),
            _ => false,
        };
        let is_one = schema["enum"].as_array().is_none_or(|values| values.contains(value));
        let pattern = schema["pattern"].as_str();
        let fits = pattern.is_none_or(|pattern| is_digits(value, pattern));
        if !of_type || !is_one || !fits {
            return Err(format!("{value} is not as {at} has it"));
        }
        let mut found = BTreeSet::new();
        if schema.get("contentSchema").is_some() {
            let content = serde_json::from_str(value.as_str().unwrap()).unwrap();
            found.extend(self.members(&format!("{at}/contentSchema"), &content)?);
        }
        for item in value.as_array().into_iter().flatten() {
            found.extend(self.members(&format!("{at}/items"), item)?);
        }
        let (Some(members), Some(properties)) =
            (value.as_object(), schema["properties"].as_object())
        else {
            return Ok(found);
        };
        for (name, value) in members {
            if !properties.contains_key(name) {
                return Err(format!("{at} has no {name}"));
            }
            let member = format!("{at}/properties/{name}");
            found.extend(self.members(&member, value)?);
            found.insert(member);
        }
        let required = schema["required"].as_array().into_iter().flatten();
        match required.filter_map(Value::as_str).find(|name| !members.contains_key(*name)) {
            Some(missing) => Err(format!("{at} needs {missing}")),
            None => Ok(found),
        }
    }

    /// Checks that a request matches its schema: removing a member fails exactly if it is required, and
    /// adding one fails exactly if the schema is closed.
    fn expect_request<T: Serialize + DeserializeOwned>(&mut self, name: &str, request: &T) {
        let at = format!("{SCHEMAS}/{name}");
        let whole = serde_json::to_value(request).unwrap();
        self.expect(&at, &whole);
        let is_read = |value: Value| serde_json::from_value::<T>(value).is_ok();
        let schema = self.at(&at);
        for member in schema["properties"].as_object().unwrap().keys() {
            let mut less = whole.clone();
            less.as_object_mut().unwrap().remove(member).unwrap();
            let is_required = schema["required"].as_array().unwrap().contains(&json!(member));
            assert_eq!(is_read(less), !is_required, "{name} without {member}");
        }
        let mut more = whole;
        more["more"] = true.into();
        assert_eq!(is_read(more), schema["additionalProperties"] != false, "{name}");
    }

    /// Lists the schema members that never occurred.
    fn unseen(&self) -> Vec<String> {
        let mut all = Vec::new();
        walk(SCHEMAS, self.at(SCHEMAS), &mut |at, _| {
            if at.rsplit('/').nth(1) == Some("properties") {
                all.push(at.to_owned());
            }
        });
        assert!(all.len() > 50);
        all.retain(|at| !self.seen.contains(at));
        all
    }
}

/// A server, the tokens for it, and the description to check responses against.
struct Asked {
    described: Described,
    app: App,
    tenant: String,
    worker: String,
    folder: TempDir,
}

impl Asked {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let app = server(folder.path(), 0);
        let token = |owner: Owner| {
            let token = Token::random().unwrap();
            app.records.add_token(&token.record(owner, now(), None)).unwrap();
            token.text().to_string()
        };
        let tenant = token(Owner::Tenant(TENANT.into()));
        let worker = token(Owner::Worker("north".into()));
        Self { described: Described::new(), app, tenant, worker, folder }
    }

    /// Sends a request, and checks the response against the description.
    async fn ask(
        &mut self,
        route: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, HeaderMap, String) {
        let (method, template) = route.split_once(' ').unwrap();
        let token = if path.starts_with("/v1/work/") { &self.worker } else { &self.tenant };
        let mut request = http::Request::builder().method(method.to_uppercase().as_str()).uri(path);
        request = request.header("authorization", format!("Bearer {token}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let service = TowerToHyperService::new(router(App::clone(&self.app)));
        let (parts, body) = service.call(request).await.unwrap().into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        let responses = format!("/paths/{}/{method}/responses", escaped(template));
        let status = parts.status.as_str();
        let known = self.described.at(&responses).get(status).is_some();
        assert!(known, "{route}: {status}");
        let response = format!("{responses}/{status}");
        let described = self.described.at(&response);
        for (name, of) in described["headers"].as_object().into_iter().flatten() {
            let is_there = parts.headers.contains_key(name);
            assert!(is_there || of["required"] == false, "{route}: {status} without {name}");
        }
        let content = described["content"].as_object();
        let kind = parts.headers.get("content-type").map(|kind| kind.to_str().unwrap());
        let kind = kind.and_then(|kind| kind.split(';').next()).filter(|_| !body.is_empty());
        assert_eq!(kind.is_some(), content.is_some(), "{route}: {status}");
        if let Some(kind) = kind {
            assert!(content.unwrap().contains_key(kind), "{route}: {status} {kind}");
            if kind.ends_with("json") {
                let at = format!("{response}/content/{}/schema", escaped(kind));
                self.described.expect(&at, &serde_json::from_str(&body).unwrap());
            }
        }
        (parts.status.as_u16(), parts.headers, body)
    }

    /// Sends a request that must succeed.
    async fn done(&mut self, route: &str, path: &str, body: &str) -> String {
        let (status, _, body) = self.ask(route, path, &[], body).await;
        assert!(status < 300, "{route}: {status} {body}");
        body
    }

    fn add_object(&self, content: &str, collection: Collection, about: Value) -> String {
        let digest = blake3::hash(content.as_bytes()).to_string();
        let tenant = TENANT.to_owned();
        let bytes = content.len() as u64;
        let object =
            Object { tenant, digest: digest.clone(), collection, bytes, created: now(), about };
        let upload = self.app.store.upload(&digest);
        fs::write(&upload, content).unwrap();
        let adopt = || self.app.store.adopt(&upload, TENANT, &digest);
        self.app.records.complete_upload(&digest, &object, 0, adopt).unwrap().unwrap();
        digest
    }

    fn add_job(&self, id: &str, request: &Request) {
        let request = request.clone();
        let new = NewJob { request, seconds: 1.5, memory: 10, ..new_job(id, TENANT) };
        queue(&self.app.records, &new);
    }
}

fn request() -> Request {
    Request {
        kind: Kind::Predict,
        keys: "0f".repeat(32),
        tables: vec!["1f".repeat(32)],
        model: Some("2f".repeat(32)),
        iterations: Some(3),
        history: true,
    }
}

fn offer() -> Offer {
    Offer { program: env!("CARGO_PKG_VERSION").into(), memory_bytes: 100, wait_seconds: 0 }
}

fn failure() -> Leaving {
    Leaving::Failed { kind: "Bug".into(), detail: "it does not work".into() }
}

fn json_of(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

#[test]
fn all_that_is_referred_to_is_there() {
    let described = Described::new();
    let mut count = 0;
    walk("", &described.document, &mut |at, value| {
        if let Some(name) = value["$ref"].as_str() {
            let to = name.strip_prefix('#').unwrap();
            assert!(described.document.pointer(to).is_some(), "{at}: {name}");
            count += 1;
        }
    });
    assert!(count > routes().len());
}

#[test]
fn routes_are_described_whole() {
    let described = Described::new();
    for route in routes() {
        let operation = described.at(&format!("/paths/{}/{}", escaped(&route.path), route.method));
        let parameters = operation["parameters"].as_array().unwrap();
        let in_path = parameters.iter().filter(|parameter| parameter["in"] == "path");
        let declared: Vec<_> = in_path.map(|of| of["name"].as_str().unwrap()).collect();
        assert_eq!(declared, route.names().collect::<Vec<_>>(), "{}", route.path);
        for (status, response) in operation["responses"].as_object().unwrap() {
            // All other responses have bodies.
            let is_bare = ["201", "204"].contains(&status.as_str())
                || route.method == "head" && status == "200";
            let content = response["content"].as_object();
            assert_eq!(content.is_none(), is_bare, "{}", route.path);
            for (media, of) in content.into_iter().flatten() {
                let name = of["schema"]["$ref"].as_str();
                let is_told = media.ends_with("json") || media == EVENTS;
                assert_eq!(name.is_some(), is_told, "{}", route.path);
            }
        }
    }
}

/// Lists the names of variants that the parser accepts.
fn variants<T: DeserializeOwned>() -> Vec<String> {
    let error = serde_json::from_value::<T>("none of them".into()).err().unwrap().to_string();
    let (_, names) = error.split_once("expected one of ").unwrap();
    names.split(", ").map(|name| name.trim_matches('`').to_owned()).collect()
}

#[test]
fn requests_are_read_as_described() {
    let mut described = Described::new();
    described.expect_request("JobRequest", &request());
    described.expect_request("Offer", &offer());
    let report = Report { done: 1, total: 2, cpu_milliseconds: 3 };
    described.expect_request("Report", &report);
    for leaving in [Leaving::Released, Leaving::Died, failure()] {
        let value = serde_json::to_value(leaving).unwrap();
        described.expect(&format!("{SCHEMAS}/Leaving"), &value);
    }
    let [kinds, leavings] = [variants::<Kind>(), variants::<Leaving>()];
    assert_eq!(described.at(&format!("{SCHEMAS}/Kind/enum")), &json!(kinds));
    assert_eq!(leavings, ["released", "died", "failed"]);
}

/// Checks that each member of each schema occurs in a request or a response, and that nothing else does.
#[tokio::test]
async fn answers_are_as_described() {
    let mut asked = Asked::new();
    for (route, path) in [
        ("get /healthz", "/healthz"),
        ("get /readyz", "/readyz"),
        ("get /v1/openapi.json", "/v1/openapi.json"),
        ("get /v1/server-key", "/v1/server-key"),
        ("get /v1/usage", "/v1/usage"),
        ("options /v1/keys", "/v1/keys"),
    ] {
        asked.done(route, path, "").await;
    }

    uploads_are_as_described(&mut asked).await;
    objects_are_as_described(&mut asked).await;
    jobs_are_as_described(&mut asked).await;
    for (route, path, expected) in [
        ("get /v1/keys/{digest}", "/v1/keys/none", 404),
        ("post /v1/jobs", "/v1/jobs", 400),
        ("patch /v1/uploads/{name}", "/v1/uploads/none", 412),
    ] {
        assert_eq!(asked.ask(route, path, &[], "").await.0, expected, "{route}");
    }
    asked.tenant.clear();
    assert_eq!(asked.ask("get /v1/usage", "/v1/usage", &[], "").await.0, 401);
    let described = &mut asked.described;
    for (name, value) in [
        ("Offer", serde_json::to_value(offer())),
        ("Report", serde_json::to_value(Report::default())),
        ("Leaving", serde_json::to_value(failure())),
    ] {
        described.expect(&format!("{SCHEMAS}/{name}"), &value.unwrap());
    }
    assert_eq!(described.unseen(), Vec::<String>::new());
}

async fn uploads_are_as_described(asked: &mut Asked) {
    let tus = ("tus-resumable", "1.0.0");
    let digest = STANDARD.encode(blake3::hash(b"m").to_string());
    let metadata = format!("digest {digest}");
    let headers = [tus, ("upload-length", "1"), ("upload-metadata", &metadata)];
    let (status, answered, _) = asked.ask("post /v1/models", "/v1/models", &headers, "").await;
    assert_eq!(status, 201);
    let path = answered["location"].to_str().unwrap();
    let part = [tus, ("upload-offset", "0"), ("content-type", PART)];
    let overridden = [&part[..], &[("x-http-method-override", "PATCH")]].concat();
    for (route, headers, expected) in [
        ("options /v1/uploads/{name}", &[][..], 204),
        ("head /v1/uploads/{name}", &[tus], 200),
        ("patch /v1/uploads/{name}", &part, 204),
        ("post /v1/uploads/{name}", &overridden, 204),
        ("delete /v1/uploads/{name}", &[tus], 204),
    ] {
        assert_eq!(asked.ask(route, path, headers, "").await.0, expected, "{route}");
    }
}

async fn objects_are_as_described(asked: &mut Asked) {
    let about = |iterations| {
        let meta = Meta { iterations, ..Meta::of(Job::Bootstrap) };
        inspect::about(&meta, "n14", "p".into(), "k".into())
    };
    let keys = asked.add_object("keys", Collection::Keys, about(0));
    asked.add_object("model", Collection::Models, about(3));
    let text = r#"{"kind":"logistic regression","weights":[1.0,2.0],"columns":["a"],
        "target":"y","divisors":[1.0],"iterations":1,"rows":2}"#;
    let file = asked.folder.path().join("model");
    fs::write(&file, text).unwrap();
    let file = fs::File::open(&file).unwrap();
    let about = inspect::plain_model(&file, text.len() as u64).unwrap();
    asked.add_object(text, Collection::Models, about);
    asked.done("get /v1/models", "/v1/models", "").await;
    let path = format!("/v1/keys/{keys}");
    asked.done("get /v1/keys/{digest}", &path, "").await;
    asked.done("delete /v1/keys/{digest}", &path, "").await;
}

async fn jobs_are_as_described(asked: &mut Asked) {
    let claim = "post /v1/work/claim";
    assert_eq!(asked.done(claim, "/v1/work/claim", &json_of(&offer())).await, "");
    asked.add_job("1", &request());
    asked.done("get /v1/jobs/{name}", "/v1/jobs/1", "").await;
    let claimed = asked.done(claim, "/v1/work/claim", &json_of(&offer())).await;
    let claimed: Assignment = serde_json::from_str(&claimed).unwrap();
    let work = "/v1/work/{name}/{fence}";
    let lease = format!("/v1/work/1/{}", claimed.fence);
    let report = json_of(&Report { done: 1, total: 2, cpu_milliseconds: 3 });
    asked.done(&format!("post {work}/renew"), &format!("{lease}/renew"), &report).await;
    let digest = blake3::hash(b"r");
    let state = format!("{lease}/states/weights-000001.ct/{digest}");
    asked.done(&format!("put {work}/states/{{file}}/{{digest}}"), &state, "r").await;
    let result = format!("{lease}/result/{digest}");
    asked.done(&format!("put {work}/result/{{digest}}"), &result, "r").await;
    asked.done("get /v1/jobs/{name}", "/v1/jobs/1", "").await;
    let event = asked.done("get /v1/jobs/{name}/events", "/v1/jobs/1/events", "").await;
    let fields = event.lines().filter_map(|line| line.split_once(": "));
    let event: Map<_, _> = fields.map(|(name, value)| (name.into(), value.into())).collect();
    asked.described.expect(&format!("{SCHEMAS}/Event"), &event.into());
    asked.done("get /v1/jobs/{name}/receipt", "/v1/jobs/1/receipt", "").await;
    asked.done("get /v1/results", "/v1/results", "").await;
    let show = "get /v1/results/{digest}";
    let path = format!("/v1/results/{digest}");
    for (range, expected) in [("none", 200), ("bytes=0-0", 206), ("bytes=9-", 416)] {
        assert_eq!(asked.ask(show, &path, &[("range", range)], "").await.0, expected);
    }

    let stats = Request { model: None, iterations: None, kind: Kind::Stats, ..request() };
    for id in ["2", "3"] {
        asked.add_job(id, &stats);
    }
    let claimed = asked.done(claim, "/v1/work/claim", &json_of(&offer())).await;
    let claimed: Assignment = serde_json::from_str(&claimed).unwrap();
    let leave = format!("/v1/work/2/{}/leave", claimed.fence);
    asked.done(&format!("post {work}/leave"), &leave, &json_of(&failure())).await;
    asked.done("delete /v1/jobs/{name}", "/v1/jobs/3", "").await;
    asked.done("get /v1/jobs", "/v1/jobs", "").await;
}
