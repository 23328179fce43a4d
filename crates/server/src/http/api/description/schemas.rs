//! What is written in JSON: requests, and what is answered.

use super::super::jobs::MOST_TABLES;
use crate::storage::records::{Collection, State};
use serde_json::{Map, Value, json};

/// Letters of a digest, of a key and of half a signature, in hexadecimal.
const LETTERS: usize = 64;

/// Kinds of jobs.
const KINDS: [&str; 5] = ["stats", "groups", "histogram", "train", "predict"];

/// The schema of this name.
pub fn named(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

pub fn text() -> Value {
    json!({ "type": "string" })
}

pub fn count() -> Value {
    json!({ "type": "integer", "format": "int64", "minimum": 0 })
}

pub fn digest() -> Value {
    hexadecimal(LETTERS)
}

fn hexadecimal(letters: usize) -> Value {
    json!({ "type": "string", "pattern": format!("^[0-9a-f]{{{letters}}}$") })
}

fn seconds() -> Value {
    json!({ "type": "number", "minimum": 0 })
}

/// Seconds since 1970.
fn time() -> Value {
    json!({ "type": "integer", "format": "int64" })
}

fn flag() -> Value {
    json!({ "type": "boolean" })
}

fn list(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

fn any<const N: usize>(schemas: [Value; N]) -> Value {
    json!({ "anyOf": schemas.as_slice() })
}

fn or_null(schema: Value) -> Value {
    any([schema, json!({ "type": "null" })])
}

fn one_of(values: Value) -> Value {
    json!({ "type": "string", "enum": values })
}

/// An object of members, each with a meaning; those with a `?` after their names may be left out.
fn object<const N: usize>(members: [(&str, &str, Value); N]) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (name, meaning, mut schema) in members {
        schema["description"] = meaning.into();
        let optional = name.strip_suffix('?');
        if optional.is_none() {
            required.push(name);
        }
        properties.insert(optional.unwrap_or(name).into(), schema);
    }
    json!({ "type": "object", "required": required, "properties": properties })
}

/// The same of a request that has no other members.
fn closed(mut object: Value) -> Value {
    object["additionalProperties"] = false.into();
    object
}

/// All by their names.
pub fn all() -> Value {
    json!({
        "Document": { "type": "object", "description": "a description by OpenAPI 3.1" },
        "Problem": problem(),
        "Kind": one_of(json!(KINDS)),
        "JobRequest": job_request(),
        "Job": job(),
        "Failure": failure(),
        "Event": event(),
        "Object": object_of_tenant(),
        "Item": any([named("Object"), named("Job")]),
        "List": any([list(named("Object")), list(named("Job"))]),
        "Receipt": receipt(),
        "ServerKey": server_key(),
        "Usage": usage(),
        "Offer": offer(),
        "Assignment": assignment(),
        "Blob": blob(),
        "Report": report(),
        "Lease": lease(),
        "Leaving": leaving(),
    })
}

fn problem() -> Value {
    object([
        ("type", "`about:blank`", text()),
        ("title", "The status in words", text()),
        ("status", "The status", json!({ "type": "integer" })),
        ("detail", "For people", text()),
        ("kind", "The command's word for the error", text()),
    ])
}

fn job_request() -> Value {
    let several = json!({
        "type": "array", "items": digest(), "minItems": 1, "maxItems": MOST_TABLES,
    });
    let from_one =
        json!({ "type": "integer", "format": "int64", "minimum": 1, "maximum": u32::MAX });
    closed(object([
        ("kind", "What is computed", named("Kind")),
        ("keys", "Digest of evaluation keys", digest()),
        ("tables", "Digests of encrypted tables, of which trainings may have several", several),
        (
            "model?",
            "Digest of what rows are scored by: a model, or the result of a training",
            digest(),
        ),
        ("iterations?", "Of a training; all that the keys are for if left out", from_one),
        ("history?", "Whether the weights after each iteration are kept", flag()),
    ]))
}

fn failure() -> Value {
    object([("kind", "The command's word for the error", text()), ("detail", "For people", text())])
}

fn job() -> Value {
    let progress = object([
        ("done", "Steps done", count()),
        ("total", "Steps in all; 0 before they are known", count()),
    ]);
    let predicted = object([
        ("seconds", "About the seconds that it takes", seconds()),
        ("memory_bytes", "Bytes of memory that it is given", count()),
    ]);
    object([
        ("id", "Its name", text()),
        ("state", "How far it is", one_of(json!(State::ALL))),
        ("request", "What was asked for", named("JobRequest")),
        ("progress", "How far it is in steps", progress),
        ("predicted", "What it takes", predicted),
        ("created", "When it was asked for, in seconds since 1970", time()),
        ("started", "When it was begun last", or_null(time())),
        ("finished", "When it ended", or_null(time())),
        ("error", "Why it failed", or_null(named("Failure"))),
        ("result", "Digest of its result", or_null(digest())),
    ])
}

/// One of a stream: OpenAPI 3.1 has no other place for what each is.
fn event() -> Value {
    let mut data = text();
    data["contentMediaType"] = "application/json".into();
    data["contentSchema"] = named("Job");
    object([
        ("id", "Counts what has changed of the job, for `Last-Event-ID`", text()),
        ("event", "What it is about", one_of(json!(["job"]))),
        ("data", "The job as it is then", data),
    ])
}

fn object_of_tenant() -> Value {
    let sent = object([
        ("job", "What it was encrypted for, or the keys were made for", text()),
        ("kind", "The kind of that", text()),
        ("params", "The name of its parameters", text()),
        ("params_id", "Identifies its parameters", text()),
        ("key_id", "Identifies its keys", text()),
        ("iterations", "Of a trained model", or_null(count())),
        ("owners", "How many owners the rows are of, if of several", or_null(count())),
    ]);
    let plain = object([
        ("plain", "That it is a model in the clear", json!({ "type": "boolean", "const": true })),
        ("features", "Columns that it takes", count()),
        ("classes", "Classes that it tells", count()),
    ]);
    let result = object([
        ("job", "The job that made it", text()),
        ("kind", "What was computed", named("Kind")),
    ]);
    object([
        ("digest", "BLAKE3 of its bytes", digest()),
        ("collection", "What it is", one_of(json!(Collection::ALL))),
        ("bytes", "How large it is", count()),
        ("created", "Since when it is here, in seconds since 1970", time()),
        ("about", "What its header says; of a result, what made it", any([sent, plain, result])),
    ])
}

fn receipt() -> Value {
    let statement = object([
        ("version", "The version of this form", count()),
        ("server_key", "The key that signs it", digest()),
        ("program", "The version of the program that computed", text()),
        ("job", "The name of the job", text()),
        ("kind", "What was computed", named("Kind")),
        ("keys", "Digest of evaluation keys", digest()),
        ("tables", "Digests of encrypted tables", list(digest())),
        ("model?", "Digest of the model that rows were scored by", digest()),
        ("iterations?", "Of a training, if they were asked for", count()),
        ("history", "Whether the weights after each iteration were kept", flag()),
        ("result", "Digest of the result", digest()),
        ("bytes", "Bytes of the result", count()),
        ("created", "When it was asked for, in seconds since 1970", time()),
        ("finished", "When it was done", time()),
    ]);
    object([
        ("statement", "What the server says", statement),
        ("signature", "By Ed25519, of the statement as it is written", hexadecimal(2 * LETTERS)),
    ])
}

fn server_key() -> Value {
    object([
        ("algorithm", "What it is a key of", one_of(json!(["Ed25519"]))),
        ("key", "The public key, in hexadecimal", digest()),
        ("program", "The version of the server", text()),
    ])
}

fn usage() -> Value {
    let bytes = object([
        ("used", "Of objects, of uploads under way, and what results under way may have", count()),
        ("limit", "What there may be", count()),
    ]);
    let jobs = object([
        ("under_way", "That wait or run", count()),
        ("limit", "What there may be", count()),
    ]);
    let objects = object([
        ("used", "Keys, tables, models, results, and uploads under way", count()),
        ("limit", "What there may be", count()),
    ]);
    let requests = object([
        ("limit_a_second", "What there may be", count()),
        ("limit_open", "Requests that may be open at a time", count()),
        (
            "audited_limit_an_hour",
            "Uploads, removals, jobs and first downloads of results that there may be",
            count(),
        ),
    ]);
    let cpu_seconds = object([
        ("today", "Since midnight in UTC", seconds()),
        ("daily_limit", "What there may be of that", or_null(seconds())),
        ("total", "In all", seconds()),
        ("total_limit", "What there may be of that", or_null(seconds())),
    ]);
    object([
        ("bytes", "Bytes at the server", bytes),
        ("objects", "Files at the server", objects),
        ("jobs", "Jobs", jobs),
        ("requests", "Requests", requests),
        ("cpu_seconds", "Seconds of processors", cpu_seconds),
    ])
}

fn offer() -> Value {
    closed(object([
        ("program", "The version of the worker, which is that of the server", text()),
        ("memory_bytes", "Bytes of memory that a job may take", count()),
        ("wait_seconds", "For how long a job is waited for, at most 30", count()),
    ]))
}

fn assignment() -> Value {
    object([
        ("job", "The name of the job", text()),
        ("fence", "The number of the lease", count()),
        ("lease_seconds", "After which the lease ends that is not renewed", count()),
        ("done", "Steps done, as the server knows them", count()),
        ("total", "Steps in all; 0 before they are known", count()),
        ("kind", "What is computed", named("Kind")),
        ("iterations", "Of a training, if they were asked for", or_null(count())),
        ("history", "Whether the weights after each iteration are kept", flag()),
        ("most_cpu_seconds", "Of processors, after which a process is ended", count()),
        ("keys", "Evaluation keys", named("Blob")),
        ("tables", "Encrypted tables", list(named("Blob"))),
        ("model", "What rows are scored by", or_null(named("Blob"))),
        ("states", "States of a training to go on from", list(named("Blob"))),
    ])
}

fn blob() -> Value {
    object([
        ("name", "The name of a state; the digest of anything else", text()),
        ("digest", "BLAKE3 of its bytes", digest()),
        ("bytes", "How large it is", count()),
        ("path", "A signed path at the server, which takes no token", text()),
    ])
}

fn report() -> Value {
    closed(object([
        ("done", "Steps done", count()),
        ("total", "Steps in all; 0 before they are known", count()),
        ("cpu_milliseconds", "Of processors, used since the claim", count()),
    ]))
}

fn lease() -> Value {
    object([("lease_seconds", "After which the lease ends that is not renewed", count())])
}

fn leaving() -> Value {
    let failed = object([("failed", "The job cannot be done, and why", named("Failure"))]);
    let other = one_of(json!(["released", "died"]));
    any([other, failed])
}
