//! Schemas of the operations for workers.

use super::{any, closed, count, digest, flag, list, named, object, one_of, or_null, text};
use serde_json::{Value, json};

/// Adds the schemas of the operations for workers.
pub fn with_work(mut schemas: Value) -> Value {
    schemas["Offer"] = offer();
    schemas["Assignment"] = assignment();
    schemas["Blob"] = blob();
    schemas["Report"] = report();
    schemas["Lease"] = lease();
    schemas["Leaving"] = leaving();
    schemas
}

fn offer() -> Value {
    closed(object([
        ("program", "Version of the worker, which must equal the server's", text()),
        ("memory_bytes", "Memory for a job in bytes", count()),
        ("wait_seconds", "Seconds to wait for a job, at most 30", count()),
    ]))
}

fn assignment() -> Value {
    object([
        ("job", "Name of the job", text()),
        ("fence", "Number of the lease", count()),
        ("lease_seconds", "Seconds until the lease ends, unless it is renewed", count()),
        ("done", "Steps completed, as the server knows them", count()),
        ("total", "Total steps, 0 until they are known", count()),
        ("kind", "Kind of computation", named("Kind")),
        ("iterations", "Iterations of a training, if the request set them", or_null(count())),
        ("history", "Store the weights after each iteration", flag()),
        ("most_cpu_seconds", "CPU seconds after which the process is stopped", count()),
        ("keys", "Evaluation keys", named("Blob")),
        ("tables", "Encrypted tables", list(named("Blob"))),
        ("model", "Model for scoring", or_null(named("Blob"))),
        ("states", "States from which the training resumes", list(named("Blob"))),
    ])
}

fn blob() -> Value {
    object([
        ("name", "Name of a state, or digest of another file", text()),
        ("digest", "BLAKE3 digest of the file", digest()),
        ("bytes", "Size in bytes", count()),
        ("path", "Signed path at the server, which requires no token", text()),
    ])
}

fn report() -> Value {
    closed(object([
        ("done", "Steps completed", count()),
        ("total", "Total steps, 0 until they are known", count()),
        ("cpu_milliseconds", "CPU time since the claim, in milliseconds", count()),
    ]))
}

fn lease() -> Value {
    object([("lease_seconds", "Seconds until the lease ends, unless it is renewed", count())])
}

fn leaving() -> Value {
    let failed = object([("failed", "The error, if the job failed", named("Failure"))]);
    let other = one_of(json!(["released", "died"]));
    any([other, failed])
}
