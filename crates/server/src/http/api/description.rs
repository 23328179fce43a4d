//! What the server says of itself, in the form of OpenAPI 3.1 (<https://spec.openapis.org/oas/v3.1.1>): the
//! table of routes, with what requests bring and answers have.

mod schemas;
#[cfg(test)]
mod tests;

use super::{ROUTES, Route, jobs::MOST_LETTERS};
use crate::storage::records::Collection;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// Bytes of which nothing more is said.
const BYTES: &str = "application/octet-stream";
/// The bytes of an upload from where it is on.
const PART: &str = "application/offset+octet-stream";
const EVENTS: &str = "text/event-stream";
const TEXT: &str = "text/plain";
const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";

/// What a request brings beside its path and its token.
pub struct Takes {
    headers: &'static [Header],
    body: Option<Body>,
}

/// What an answer has beside its status.
pub struct Gives {
    headers: &'static [Header],
    /// One of these.
    contents: &'static [Content],
}

/// What is sent with a request.
#[derive(Clone, Copy)]
struct Body {
    content: Content,
    /// Whether nothing goes without it.
    needed: bool,
}

/// A media type, and what is written in it.
#[derive(Clone, Copy)]
enum Content {
    /// JSON as the schema of this name has it.
    Json(&'static str),
    /// Server-sent events, each as its schema has it.
    Events,
    /// What has no schema, in a media type.
    Of(&'static str),
}

/// What is said of a header.
#[derive(Clone, Copy)]
struct Header {
    name: &'static str,
    meaning: &'static str,
    form: Form,
    needed: Needed,
}

/// Whether a header is there.
#[derive(Clone, Copy)]
enum Needed {
    Always,
    /// For some of what an operation does.
    For(&'static str),
    No,
}

/// What a header holds.
#[derive(Clone, Copy)]
enum Form {
    Text,
    /// Text of at most so many letters.
    Short(usize),
    Count,
    OneOf(&'static [&'static str]),
}

/// What requests bring.
pub mod takes {
    use super::*;

    const fn of(headers: &'static [Header]) -> Takes {
        Takes { headers, body: None }
    }

    const fn body(content: Content) -> Takes {
        Takes { headers: &[], body: Some(Body { content, needed: true }) }
    }

    pub const NOTHING: Takes = of(&[]);
    pub const RANGE: Takes = of(&[Header::RANGE]);
    pub const LAST_EVENT: Takes = of(&[Header::LAST_EVENT_ID]);
    pub const TUS: Takes = of(&[Header::TUS_RESUMABLE.needed()]);
    pub const BYTES: Takes = body(Content::Of(super::BYTES));
    pub const OFFER: Takes = body(Content::Json("Offer"));
    pub const REPORT: Takes = body(Content::Json("Report"));
    pub const LEAVING: Takes = body(Content::Json("Leaving"));

    /// An upload by its headers, or a job by its body.
    pub const NEW: Takes = Takes {
        headers: &[
            Header::TUS_RESUMABLE.needed_for("an upload"),
            Header::UPLOAD_LENGTH.needed_for("an upload"),
            Header::UPLOAD_METADATA.needed_for("an upload"),
            Header::IDEMPOTENCY_KEY,
        ],
        body: Some(Body { content: Content::Json("JobRequest"), needed: false }),
    };

    pub const PART: Takes = Takes {
        headers: &[Header::TUS_RESUMABLE.needed(), Header::UPLOAD_OFFSET.needed()],
        body: Some(Body { content: Content::Of(super::PART), needed: true }),
    };

    /// A part, or nothing where the upload is given up.
    pub const OVERRIDDEN: Takes = Takes {
        headers: &[
            Header::METHOD_OVERRIDE.needed(),
            Header::TUS_RESUMABLE.needed(),
            Header::UPLOAD_OFFSET.needed_for("PATCH"),
        ],
        body: Some(Body { content: Content::Of(super::PART), needed: false }),
    };
}

/// What answers have.
pub mod gives {
    use super::*;

    const fn json(schema: &'static [Content]) -> Gives {
        Gives { headers: &[], contents: schema }
    }

    pub const NOTHING: Gives = Gives { headers: &[], contents: &[] };
    pub const TEXT: Gives = Gives { headers: &[], contents: &[Content::Of(super::TEXT)] };
    pub const EVENTS: Gives = Gives { headers: &[], contents: &[Content::Events] };
    pub const DOCUMENT: Gives = json(&[Content::Json("Document")]);
    pub const SERVER_KEY: Gives = json(&[Content::Json("ServerKey")]);
    pub const USAGE: Gives = json(&[Content::Json("Usage")]);
    pub const LIST: Gives = json(&[Content::Json("List")]);
    pub const JOB: Gives = json(&[Content::Json("Job")]);
    pub const RECEIPT: Gives = json(&[Content::Json("Receipt")]);
    pub const ASSIGNMENT: Gives = json(&[Content::Json("Assignment")]);
    pub const LEASE: Gives = json(&[Content::Json("Lease")]);

    pub const NEW_JOB: Gives =
        Gives { headers: &[Header::LOCATION.needed()], contents: &[Content::Json("Job")] };

    /// What is known of an object or a job, or the bytes of a result.
    pub const ONE: Gives = Gives {
        headers: &[Header::ACCEPT_RANGES, Header::ETAG],
        contents: &[Content::Json("Item"), Content::Of(BYTES)],
    };

    pub const FILE: Gives = Gives {
        headers: &[Header::ACCEPT_RANGES.needed(), Header::ETAG.needed()],
        contents: &[Content::Of(BYTES)],
    };

    pub const RANGE: Gives = Gives {
        headers: &[
            Header::CONTENT_RANGE.needed(),
            Header::ACCEPT_RANGES.needed(),
            Header::ETAG.needed(),
        ],
        contents: &[Content::Of(BYTES)],
    };

    pub const SPOKEN: Gives = Gives {
        headers: &[
            Header::TUS_RESUMABLE.needed(),
            Header::TUS_VERSION.needed(),
            Header::TUS_EXTENSION.needed(),
        ],
        contents: &[],
    };

    pub const BEGUN: Gives = Gives {
        headers: &[
            Header::TUS_RESUMABLE.needed(),
            Header::LOCATION.needed(),
            Header::UPLOAD_OFFSET.needed(),
            Header::UPLOAD_EXPIRES.needed(),
        ],
        contents: &[],
    };

    pub const PROGRESS: Gives = Gives {
        headers: &[
            Header::TUS_RESUMABLE.needed(),
            Header::UPLOAD_OFFSET.needed(),
            Header::UPLOAD_LENGTH.needed(),
            Header::UPLOAD_METADATA.needed(),
            Header::UPLOAD_EXPIRES.needed(),
        ],
        contents: &[],
    };

    /// As one or the other method has it.
    pub const OVERRIDDEN: Gives = Gives {
        headers: &[
            Header::TUS_RESUMABLE.needed(),
            Header::UPLOAD_OFFSET,
            Header::UPLOAD_LENGTH,
            Header::UPLOAD_METADATA,
            Header::UPLOAD_EXPIRES,
        ],
        contents: &[],
    };

    pub const GIVEN_UP: Gives = Gives { headers: &[Header::TUS_RESUMABLE.needed()], contents: &[] };
}

const fn header(name: &'static str, form: Form, meaning: &'static str) -> Header {
    Header { name, meaning, form, needed: Needed::No }
}

impl Header {
    const TUS_RESUMABLE: Self =
        header("Tus-Resumable", Form::OneOf(&["1.0.0"]), "The version of tus that is spoken");
    const TUS_VERSION: Self = header(
        "Tus-Version",
        Form::OneOf(&["1.0.0"]),
        "The versions of tus that the server speaks",
    );
    const TUS_EXTENSION: Self =
        header("Tus-Extension", Form::Text, "The extensions of tus that there are, with commas");
    const UPLOAD_LENGTH: Self =
        header("Upload-Length", Form::Count, "Bytes of the whole file, at least one");
    const UPLOAD_OFFSET: Self =
        header("Upload-Offset", Form::Count, "Bytes that are there, after which the next ones go");
    const UPLOAD_METADATA: Self = header(
        "Upload-Metadata",
        Form::Text,
        "`digest`, a blank and, in base64, the 64 hexadecimal digits of the BLAKE3 digest of the \
         whole file; other pairs, with commas, count for nothing",
    );
    const UPLOAD_EXPIRES: Self = header(
        "Upload-Expires",
        Form::Text,
        "When the upload is forgotten if nothing comes of it, as HTTP writes times",
    );
    const METHOD_OVERRIDE: Self = header(
        "X-HTTP-Method-Override",
        Form::OneOf(&["PATCH", "DELETE"]),
        "The method that is meant",
    );
    const IDEMPOTENCY_KEY: Self = header(
        "Idempotency-Key",
        Form::Short(MOST_LETTERS),
        "Of a request for a job: its name, in ASCII, under which it makes one job however often it \
         is sent",
    );
    const LAST_EVENT_ID: Self =
        header("Last-Event-ID", Form::Count, "The last event that came; later ones are sent");
    const RANGE: Self = header(
        "Range",
        Form::Text,
        "Which bytes are wanted, as `bytes=0-99`; what is no single range counts for nothing",
    );
    const CONTENT_RANGE: Self =
        header("Content-Range", Form::Text, "Which bytes of how many there are");
    const ACCEPT_RANGES: Self =
        header("Accept-Ranges", Form::OneOf(&["bytes"]), "That a range may be asked for");
    const ETAG: Self = header("ETag", Form::Text, "What the bytes are known by, in quotes");
    const LOCATION: Self = header("Location", Form::Text, "The path of what was made");
    const RETRY_AFTER: Self =
        header("Retry-After", Form::Count, "Seconds after which it may be asked again");
    const WWW_AUTHENTICATE: Self =
        header("WWW-Authenticate", Form::OneOf(&["Bearer"]), "What is needed: a token");

    const fn needed(self) -> Self {
        Self { needed: Needed::Always, ..self }
    }

    const fn needed_for(self, what: &'static str) -> Self {
        Self { needed: Needed::For(what), ..self }
    }

    /// What is said of it beside its name.
    fn object(&self) -> Value {
        let schema = match self.form {
            Form::Text => schemas::text(),
            Form::Short(most) => json!({ "type": "string", "maxLength": most }),
            Form::Count => schemas::count(),
            Form::OneOf(values) => json!({ "type": "string", "enum": values }),
        };
        let meaning = match self.needed {
            Needed::For(what) => format!("{}; needed for {what}", self.meaning),
            _ => self.meaning.into(),
        };
        let needed = matches!(self.needed, Needed::Always);
        json!({ "description": meaning, "required": needed, "schema": schema })
    }

    /// The same as a parameter of a request.
    fn parameter(&self) -> Value {
        let mut parameter = self.object();
        parameter["name"] = self.name.into();
        parameter["in"] = "header".into();
        parameter
    }
}

fn objects(headers: &[Header]) -> Map<String, Value> {
    headers.iter().map(|header| (header.name.into(), header.object())).collect()
}

impl Content {
    /// Its media type, and what is said of that.
    fn media(self) -> (&'static str, Value) {
        let (media, schema) = match self {
            Self::Json(name) => (JSON, schemas::named(name)),
            Self::Events => (EVENTS, schemas::named("Event")),
            Self::Of(TEXT) => (TEXT, schemas::text()),
            Self::Of(bytes) => (bytes, json!({ "type": "string", "format": "binary" })),
        };
        (media, json!({ "schema": schema }))
    }
}

/// What is said of something in these media types.
fn contents(contents: &[Content]) -> Map<String, Value> {
    contents.iter().map(|content| content.media()).map(|(of, media)| (of.into(), media)).collect()
}

impl Gives {
    fn response(&self, meaning: &str) -> Value {
        let mut response = json!({ "description": meaning });
        if !self.headers.is_empty() {
            response["headers"] = objects(self.headers).into();
        }
        if !self.contents.is_empty() {
            response["content"] = contents(self.contents).into();
        }
        response
    }
}

impl Route {
    fn takes_header(&self, name: &str) -> bool {
        self.takes.headers.iter().any(|header| header.name == name)
    }

    /// Names in the path.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
    }

    /// What stands for a name in the path.
    fn in_path(&self, name: &str) -> Value {
        let (meaning, schema) = match name {
            "collection" => {
                // Results are made by jobs.
                let sent = |of: &Collection| self.method != "post" || *of != Collection::Results;
                let objects = Collection::ALL.into_iter().filter(sent).map(Collection::name);
                let names: Vec<_> = objects.chain(["jobs"]).collect();
                ("What it is", json!({ "type": "string", "enum": names }))
            }
            "fence" => ("The number of the lease", schemas::count()),
            "expires" => ("When the address ends, in seconds since 1970", schemas::count()),
            "signature" => ("What the server signed the address with", schemas::digest()),
            "digest" => ("BLAKE3 of the bytes that are sent", schemas::digest()),
            "file" if self.method == "put" => ("The name of a state", schemas::text()),
            "file" => ("The name of a state; the digest of anything else", schemas::text()),
            _ if self.path.starts_with("/v1/uploads/") => {
                ("The name of an upload, with which its `Location` ends", schemas::text())
            }
            _ if self.path.starts_with("/v1/{collection}/") => {
                ("The digest of an object, or the name of a job", schemas::text())
            }
            _ => ("The name of a job", schemas::text()),
        };
        json!({
            "name": name, "in": "path", "description": meaning, "required": true, "schema": schema,
        })
    }

    /// What is answered where it does not go well.
    fn refusal(&self) -> Value {
        let mut headers = Vec::new();
        if self.by_token {
            headers.extend([Header::WWW_AUTHENTICATE, Header::RETRY_AFTER]);
        }
        if self.takes_header(Header::TUS_RESUMABLE.name) {
            headers.extend([Header::TUS_RESUMABLE, Header::TUS_VERSION]);
        }
        if self.takes_header(Header::RANGE.name) {
            headers.push(Header::CONTENT_RANGE);
        }
        json!({
            "description": "why not",
            "headers": objects(&headers),
            "content": { PROBLEM: { "schema": schemas::named("Problem") } },
        })
    }

    fn operation(&self) -> Value {
        let headers = self.takes.headers.iter().map(Header::parameter);
        let parameters = self.names().map(|name| self.in_path(name)).chain(headers);
        let answers = self.answers.iter();
        let mut responses: Map<_, _> = answers
            .map(|(status, meaning, gives)| (status.to_string(), gives.response(meaning)))
            .collect();
        responses.insert("default".into(), self.refusal());
        let mut operation = json!({
            "summary": self.summary,
            "parameters": parameters.collect::<Vec<_>>(),
            "security": if self.by_token { json!([{ "token": [] }]) } else { json!([]) },
            "responses": responses,
        });
        if let Some(Body { content, needed }) = self.takes.body {
            operation["requestBody"] =
                json!({ "required": needed, "content": contents(&[content]) });
        }
        operation
    }
}

/// The table in the form of OpenAPI.
#[must_use]
pub fn description() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let of_path = paths.entry(route.path).or_insert_with(|| json!({}));
        of_path[route.method] = route.operation();
    }
    let token = "that of a tenant or, below /v1/work, of a worker";
    json!({
        "openapi": "3.1.0",
        "info": { "title": "sudare", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": token },
            },
            "schemas": schemas::all(),
        },
    })
}

/// Answers with the description.
pub async fn describe() -> Response {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| description().to_string());
    ([("content-type", JSON)], DOCUMENT.as_str()).into_response()
}
