//! JSON schemas of requests and responses.

#[cfg(feature = "cluster")]
mod work;

use crate::job::MAX_TABLES;
use crate::storage::records::{Collection, State};
use serde_json::{Map, Value, json};

/// Hexadecimal digits of a digest, of a key and of half a signature.
const DIGEST_HEX_LEN: usize = 64;

const KINDS: [&str; 5] = ["stats", "groups", "histogram", "train", "predict"];

/// Refers to a named schema.
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
    hexadecimal(DIGEST_HEX_LEN)
}

fn hexadecimal(digits: usize) -> Value {
    json!({ "type": "string", "pattern": format!("^[0-9a-f]{{{digits}}}$") })
}

fn seconds() -> Value {
    json!({ "type": "number", "minimum": 0 })
}

/// Describes a time in seconds since 1970.
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

/// Describes an object by its members and their meanings. A `?` after a name marks an optional member.
fn object<const N: usize>(members: [(&str, &str, Value); N]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
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

/// Forbids other members.
fn closed(mut object: Value) -> Value {
    object["additionalProperties"] = false.into();
    object
}

/// Lists all schemas by name.
pub fn all() -> Value {
    let schemas = json!({
        "Document": { "type": "object", "description": "A description by OpenAPI 3.1" },
        "Problem": problem(),
        "Kind": one_of(json!(KINDS)),
        "JobRequest": job_request(),
        "Job": job(),
        "Failure": failure(),
        "Event": event(),
        "Object": object_of_tenant(),
        "ObjectList": list(named("Object")),
        "JobList": list(named("Job")),
        "Receipt": receipt(),
        "ServerKey": server_key(),
        "Usage": usage(),
    });
    #[cfg(feature = "cluster")]
    let schemas = work::with_work(schemas);
    schemas
}

fn problem() -> Value {
    object([
        ("type", "`about:blank`", text()),
        ("title", "Name of the status", text()),
        ("status", "HTTP status", json!({ "type": "integer" })),
        ("detail", "Explanation for people", text()),
        ("kind", "Kind of the error, as the command names it", text()),
    ])
}

fn job_request() -> Value {
    let several = json!({
        "type": "array", "items": digest(), "minItems": 1, "maxItems": MAX_TABLES,
    });
    let from_one =
        json!({ "type": "integer", "format": "int64", "minimum": 1, "maximum": u32::MAX });
    closed(object([
        ("kind", "Kind of computation", named("Kind")),
        ("keys", "Digest of the evaluation keys", digest()),
        ("tables", "Digests of the encrypted tables. Trainings accept several", several),
        (
            "model?",
            "Digest of the model for scoring: an uploaded model, or the result of a training",
            digest(),
        ),
        ("iterations?", "Iterations of a training. Default: all that the keys allow", from_one),
        ("history?", "Store the weights after each iteration", flag()),
    ]))
}

fn failure() -> Value {
    object([
        ("kind", "Kind of the error, as the command names it", text()),
        ("detail", "Explanation for people", text()),
    ])
}

fn job() -> Value {
    let progress = object([
        ("done", "Steps completed", count()),
        ("total", "Total steps, 0 until they are known", count()),
    ]);
    let predicted = object([
        ("seconds", "Predicted duration in seconds", seconds()),
        ("memory_bytes", "Memory for the job in bytes", count()),
    ]);
    object([
        ("id", "Name of the job", text()),
        ("state", "State of the job", one_of(json!(State::ALL))),
        ("request", "The request", named("JobRequest")),
        ("progress", "Progress in steps", progress),
        ("predicted", "Predicted resources", predicted),
        ("created", "Time of the request, in seconds since 1970", time()),
        ("started", "Time of the last start", or_null(time())),
        ("finished", "Time of the end", or_null(time())),
        ("error", "Error, if the job failed", or_null(named("Failure"))),
        ("result", "Digest of the result", or_null(digest())),
    ])
}

/// Describes one event of a stream. OpenAPI 3.1 has no other place for it.
fn event() -> Value {
    let mut data = text();
    data["contentMediaType"] = "application/json".into();
    data["contentSchema"] = named("Job");
    object([
        ("id", "Number of changes to the job, for `Last-Event-ID`", text()),
        ("event", "Subject of the event", one_of(json!(["job"]))),
        ("data", "The job after the change", data),
    ])
}

fn object_of_tenant() -> Value {
    let sent = object([
        ("job", "Job that the file was encrypted for, or the keys were made for", text()),
        ("kind", "Kind of that job", text()),
        ("params", "Name of the parameters", text()),
        ("params_id", "Identifier of the parameters", text()),
        ("key_id", "Identifier of the keys", text()),
        ("iterations", "Iterations of a trained model", or_null(count())),
        ("owners", "Number of owners of the rows, if there are several", or_null(count())),
    ]);
    let plain = object([
        ("plain", "The model is in the clear", json!({ "type": "boolean", "const": true })),
        ("features", "Number of columns that the model uses", count()),
        ("classes", "Number of classes", count()),
    ]);
    let result = object([
        ("job", "Job that made the result", text()),
        ("kind", "Kind of computation", named("Kind")),
    ]);
    object([
        ("digest", "BLAKE3 digest of the file", digest()),
        ("collection", "Collection of the object", one_of(json!(Collection::ALL))),
        ("bytes", "Size in bytes", count()),
        ("created", "Time of creation, in seconds since 1970", time()),
        (
            "about",
            "Facts from the header. For a result: the job that made it",
            any([sent, plain, result]),
        ),
    ])
}

fn receipt() -> Value {
    let statement = object([
        ("version", "Version of this format", count()),
        ("server_key", "Key of the signature", digest()),
        ("program", "Version of the program", text()),
        ("job", "Name of the job", text()),
        ("kind", "Kind of computation", named("Kind")),
        ("keys", "Digest of the evaluation keys", digest()),
        ("tables", "Digests of the encrypted tables", list(digest())),
        ("model?", "Digest of the model for scoring", digest()),
        ("iterations?", "Iterations of a training, if the request set them", count()),
        ("history", "The server stored the weights after each iteration", flag()),
        ("result", "Digest of the result", digest()),
        ("bytes", "Size of the result in bytes", count()),
        ("created", "Time of the request, in seconds since 1970", time()),
        ("finished", "Time of the end", time()),
    ]);
    object([
        ("statement", "Statement of the server", statement),
        (
            "signature",
            "Ed25519 signature of the statement as it is written",
            hexadecimal(2 * DIGEST_HEX_LEN),
        ),
    ])
}

fn server_key() -> Value {
    object([
        ("algorithm", "Signature algorithm", one_of(json!(["Ed25519"]))),
        ("key", "Public key, in hexadecimal", digest()),
        ("program", "Version of the server", text()),
    ])
}

fn usage() -> Value {
    let bytes = object([
        ("used", "Bytes of objects, uploads under way, and results to come", count()),
        ("limit", "Limit", count()),
    ]);
    let jobs =
        object([("under_way", "Jobs that wait or run", count()), ("limit", "Limit", count())]);
    let objects = object([
        ("used", "Keys, tables, models, results, and uploads under way", count()),
        ("limit", "Limit", count()),
    ]);
    let requests = object([
        ("limit_a_second", "Maximum requests per second", count()),
        ("limit_open", "Maximum open requests", count()),
        (
            "audited_limit_an_hour",
            "Maximum uploads, removals, jobs and first downloads of results per hour",
            count(),
        ),
    ]);
    let cpu_seconds = object([
        ("today", "CPU seconds since midnight UTC", seconds()),
        ("daily_limit", "Limit per day", or_null(seconds())),
        ("total", "CPU seconds in total", seconds()),
        ("total_limit", "Limit in total", or_null(seconds())),
    ]);
    object([
        ("bytes", "Storage in bytes", bytes),
        ("objects", "Number of files", objects),
        ("jobs", "Jobs under way", jobs),
        ("requests", "Limits of requests", requests),
        ("cpu_seconds", "CPU time of jobs, in seconds", cpu_seconds),
    ])
}
