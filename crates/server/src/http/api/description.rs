//! The OpenAPI 3.1 description of the API (<https://spec.openapis.org/oas/v3.1.1>), made from the table of routes.

mod schemas;
#[cfg(feature = "cluster")]
#[cfg(test)]
mod tests;

use super::{
    jobs::MAX_NAME_CHARS,
    route::{Described, Route},
    routes,
};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// Media type of bytes with no schema.
const BYTES: &str = "application/octet-stream";
/// Media type of a part of an upload.
const PART: &str = "application/offset+octet-stream";
const EVENTS: &str = "text/event-stream";
const TEXT: &str = "text/plain";
const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";

/// Headers and body of a request, besides its path and its token.
pub struct RequestSpec {
    headers: &'static [Header],
    body: Option<Body>,
}

/// Headers and contents of a response.
pub struct ResponseSpec {
    headers: &'static [Header],
    /// Media types, one of which the response has.
    contents: &'static [Content],
}

/// Body of a request.
#[derive(Clone, Copy)]
struct Body {
    content: Content,
    required: bool,
}

/// A media type and its schema.
#[derive(Clone, Copy)]
enum Content {
    /// JSON with a named schema.
    Json(&'static str),
    /// Server-sent events.
    Events,
    /// A media type without a schema of its own.
    Of(&'static str),
}

/// A header of a request or a response.
#[derive(Clone, Copy)]
struct Header {
    name: &'static str,
    meaning: &'static str,
    form: Form,
    required: bool,
}

/// The form of a header's value.
#[derive(Clone, Copy)]
enum Form {
    Text,
    /// Text with a maximum number of characters.
    Short(usize),
    Count,
    OneOf(&'static [&'static str]),
}

/// Specifications of requests.
pub mod requests {
    use super::*;

    const fn headers(headers: &'static [Header]) -> RequestSpec {
        RequestSpec { headers, body: None }
    }

    pub const EMPTY: RequestSpec = headers(&[]);
    pub const RANGE: RequestSpec = headers(&[Header::RANGE]);
    pub const LAST_EVENT: RequestSpec = headers(&[Header::LAST_EVENT_ID]);
    pub const TUS: RequestSpec = headers(&[Header::TUS_RESUMABLE.required()]);
    pub const UPLOAD: RequestSpec = headers(&[
        Header::TUS_RESUMABLE.required(),
        Header::UPLOAD_LENGTH.required(),
        Header::UPLOAD_METADATA.required(),
    ]);

    pub const JOB: RequestSpec = RequestSpec {
        headers: &[Header::IDEMPOTENCY_KEY],
        body: Some(Body { content: Content::Json("JobRequest"), required: true }),
    };

    pub const PART: RequestSpec = RequestSpec {
        headers: &[Header::TUS_RESUMABLE.required(), Header::UPLOAD_OFFSET.required()],
        body: Some(Body { content: Content::Of(super::PART), required: true }),
    };

    /// A part with PATCH, nothing with DELETE.
    pub const OVERRIDE: RequestSpec = RequestSpec {
        headers: &[
            Header::METHOD_OVERRIDE.required(),
            Header::TUS_RESUMABLE.required(),
            Header {
                meaning: "Number of bytes that the server has, required with PATCH",
                ..Header::UPLOAD_OFFSET
            },
        ],
        body: Some(Body { content: Content::Of(super::PART), required: false }),
    };

    #[cfg(feature = "cluster")]
    const fn body(content: Content) -> RequestSpec {
        RequestSpec { headers: &[], body: Some(Body { content, required: true }) }
    }

    #[cfg(feature = "cluster")]
    pub const FILE: RequestSpec = body(Content::Of(BYTES));
    #[cfg(feature = "cluster")]
    pub const OFFER: RequestSpec = body(Content::Json("Offer"));
    #[cfg(feature = "cluster")]
    pub const REPORT: RequestSpec = body(Content::Json("Report"));
    #[cfg(feature = "cluster")]
    pub const LEAVING: RequestSpec = body(Content::Json("Leaving"));
}

/// Specifications of responses.
pub mod responses {
    use super::*;

    const fn contents(contents: &'static [Content]) -> ResponseSpec {
        ResponseSpec { headers: &[], contents }
    }

    const fn headers(headers: &'static [Header]) -> ResponseSpec {
        ResponseSpec { headers, contents: &[] }
    }

    pub const EMPTY: ResponseSpec = contents(&[]);
    pub const TEXT: ResponseSpec = contents(&[Content::Of(super::TEXT)]);
    pub const EVENTS: ResponseSpec = contents(&[Content::Events]);
    pub const DOCUMENT: ResponseSpec = contents(&[Content::Json("Document")]);
    pub const SERVER_KEY: ResponseSpec = contents(&[Content::Json("ServerKey")]);
    pub const USAGE: ResponseSpec = contents(&[Content::Json("Usage")]);
    pub const OBJECT: ResponseSpec = contents(&[Content::Json("Object")]);
    pub const OBJECT_LIST: ResponseSpec = contents(&[Content::Json("ObjectList")]);
    pub const JOB: ResponseSpec = contents(&[Content::Json("Job")]);
    pub const JOB_LIST: ResponseSpec = contents(&[Content::Json("JobList")]);
    pub const RECEIPT: ResponseSpec = contents(&[Content::Json("Receipt")]);
    #[cfg(feature = "cluster")]
    pub const ASSIGNMENT: ResponseSpec = contents(&[Content::Json("Assignment")]);
    #[cfg(feature = "cluster")]
    pub const LEASE: ResponseSpec = contents(&[Content::Json("Lease")]);

    pub const JOB_CREATED: ResponseSpec =
        ResponseSpec { headers: &[Header::LOCATION.required()], contents: &[Content::Json("Job")] };

    pub const FILE: ResponseSpec = ResponseSpec {
        headers: &[Header::ACCEPT_RANGES.required(), Header::ETAG.required()],
        contents: &[Content::Of(BYTES)],
    };

    pub const FILE_RANGE: ResponseSpec = ResponseSpec {
        headers: &[
            Header::CONTENT_RANGE.required(),
            Header::ACCEPT_RANGES.required(),
            Header::ETAG.required(),
        ],
        contents: &[Content::Of(BYTES)],
    };

    pub const TUS: ResponseSpec = headers(&[
        Header::TUS_RESUMABLE.required(),
        Header::TUS_VERSION.required(),
        Header::TUS_EXTENSION.required(),
    ]);

    pub const UPLOAD_CREATED: ResponseSpec = headers(&[
        Header::TUS_RESUMABLE.required(),
        Header::LOCATION.required(),
        Header::UPLOAD_OFFSET.required(),
        Header::UPLOAD_EXPIRES.required(),
    ]);

    pub const PROGRESS: ResponseSpec = headers(&[
        Header::TUS_RESUMABLE.required(),
        Header::UPLOAD_OFFSET.required(),
        Header::UPLOAD_LENGTH.required(),
        Header::UPLOAD_METADATA.required(),
        Header::UPLOAD_EXPIRES.required(),
    ]);

    /// Progress after PATCH, nothing after DELETE.
    pub const OVERRIDE: ResponseSpec = headers(&[
        Header::TUS_RESUMABLE.required(),
        Header::UPLOAD_OFFSET,
        Header::UPLOAD_LENGTH,
        Header::UPLOAD_METADATA,
        Header::UPLOAD_EXPIRES,
    ]);

    pub const CANCELLED: ResponseSpec = headers(&[Header::TUS_RESUMABLE.required()]);
}

const fn header(name: &'static str, form: Form, meaning: &'static str) -> Header {
    Header { name, meaning, form, required: false }
}

impl Header {
    const TUS_RESUMABLE: Self =
        header("Tus-Resumable", Form::OneOf(&["1.0.0"]), "Version of tus in use");
    const TUS_VERSION: Self =
        header("Tus-Version", Form::OneOf(&["1.0.0"]), "Versions of tus that the server supports");
    const TUS_EXTENSION: Self = header(
        "Tus-Extension",
        Form::Text,
        "Extensions of tus that the server supports, separated by commas",
    );
    const UPLOAD_LENGTH: Self =
        header("Upload-Length", Form::Count, "Size of the whole file in bytes, at least 1");
    const UPLOAD_OFFSET: Self =
        header("Upload-Offset", Form::Count, "Number of bytes that the server has");
    const UPLOAD_METADATA: Self = header(
        "Upload-Metadata",
        Form::Text,
        "`digest`, a space and the BLAKE3 digest of the whole file: 64 hexadecimal digits, in \
         base64. The server ignores other pairs, which commas separate",
    );
    const UPLOAD_EXPIRES: Self = header(
        "Upload-Expires",
        Form::Text,
        "Time at which the server deletes the upload if no more data arrives, as an HTTP date",
    );
    const METHOD_OVERRIDE: Self = header(
        "X-HTTP-Method-Override",
        Form::OneOf(&["PATCH", "DELETE"]),
        "Method to use in place of POST",
    );
    const IDEMPOTENCY_KEY: Self = header(
        "Idempotency-Key",
        Form::Short(MAX_NAME_CHARS),
        "A name for the request, in ASCII. Requests with the same name make one job",
    );
    const LAST_EVENT_ID: Self = header(
        "Last-Event-ID",
        Form::Count,
        "The last event received. The server sends later events only",
    );
    const RANGE: Self = header(
        "Range",
        Form::Text,
        "The bytes to send, such as `bytes=0-99`. The server ignores anything but a single range",
    );
    const CONTENT_RANGE: Self =
        header("Content-Range", Form::Text, "The range of bytes sent, and the size of the file");
    const ACCEPT_RANGES: Self =
        header("Accept-Ranges", Form::OneOf(&["bytes"]), "The server accepts ranges of bytes");
    const ETAG: Self = header("ETag", Form::Text, "Identifier of the bytes, in quotes");
    const LOCATION: Self = header("Location", Form::Text, "Path of the new resource");
    const RETRY_AFTER: Self =
        header("Retry-After", Form::Count, "Seconds to wait before the next attempt");
    const WWW_AUTHENTICATE: Self =
        header("WWW-Authenticate", Form::OneOf(&["Bearer"]), "The server requires a token");

    const fn required(self) -> Self {
        Self { required: true, ..self }
    }

    /// Describes the header, without its name.
    fn object(&self) -> Value {
        let schema = match self.form {
            Form::Text => schemas::text(),
            Form::Short(max) => json!({ "type": "string", "maxLength": max }),
            Form::Count => schemas::count(),
            Form::OneOf(values) => json!({ "type": "string", "enum": values }),
        };
        json!({ "description": self.meaning, "required": self.required, "schema": schema })
    }

    /// Describes the header as a parameter of a request.
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
    /// Returns the media type with its description.
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

fn contents(contents: &[Content]) -> Map<String, Value> {
    contents.iter().map(|content| content.media()).map(|(of, media)| (of.into(), media)).collect()
}

impl Described {
    fn object(&self) -> Value {
        let ResponseSpec { headers, contents: media } = self.response;
        let mut response = json!({ "description": self.meaning });
        if !headers.is_empty() {
            response["headers"] = objects(headers).into();
        }
        if !media.is_empty() {
            response["content"] = contents(media).into();
        }
        response
    }
}

impl Route {
    fn has_header(&self, name: &str) -> bool {
        self.request.headers.iter().any(|header| header.name == name)
    }

    /// Lists the names in the path.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
    }

    /// Describes a name in the path.
    fn path_parameter(&self, name: &str) -> Value {
        let is_work = self.path.starts_with("/v1/work/");
        let (meaning, schema) = match name {
            "fence" => ("Number of the lease", schemas::count()),
            "expires" => ("Time at which the URL expires, in seconds since 1970", schemas::count()),
            "signature" => ("Signature of the server on the URL", schemas::digest()),
            "digest" if is_work => ("BLAKE3 digest of the body", schemas::digest()),
            "digest" => ("BLAKE3 digest of the object", schemas::text()),
            "file" if self.method == "put" => ("Name of a state", schemas::text()),
            "file" => ("Name of a state, or digest of another file", schemas::text()),
            _ if self.path.starts_with("/v1/uploads/") => {
                ("Name of an upload: the last part of its `Location`", schemas::text())
            }
            _ => ("Name of a job", schemas::text()),
        };
        json!({
            "name": name, "in": "path", "description": meaning, "required": true, "schema": schema,
        })
    }

    /// Describes the response to a request that fails.
    fn failure(&self) -> Value {
        let mut headers = Vec::new();
        if self.needs_token {
            headers.extend([Header::WWW_AUTHENTICATE, Header::RETRY_AFTER]);
        }
        if self.has_header(Header::TUS_RESUMABLE.name) {
            headers.extend([Header::TUS_RESUMABLE, Header::TUS_VERSION]);
        }
        if self.has_header(Header::RANGE.name) {
            headers.push(Header::CONTENT_RANGE);
        }
        json!({
            "description": "The request failed",
            "headers": objects(&headers),
            "content": { PROBLEM: { "schema": schemas::named("Problem") } },
        })
    }

    fn operation(&self) -> Value {
        let headers = self.request.headers.iter().map(Header::parameter);
        let parameters = self.names().map(|name| self.path_parameter(name)).chain(headers);
        let described = self.responses.iter();
        let mut responses: Map<_, _> =
            described.map(|response| (response.status.to_string(), response.object())).collect();
        responses.insert("default".into(), self.failure());
        let mut operation = json!({
            "summary": self.summary,
            "parameters": parameters.collect::<Vec<_>>(),
            "security": if self.needs_token { json!([{ "token": [] }]) } else { json!([]) },
            "responses": responses,
        });
        if let Some(Body { content, required }) = self.request.body {
            operation["requestBody"] =
                json!({ "required": required, "content": contents(&[content]) });
        }
        operation
    }
}

/// Describes the API by OpenAPI.
#[must_use]
pub fn description() -> Value {
    let mut paths = Map::new();
    for route in routes() {
        let of_path = paths.entry(route.path.as_str()).or_insert_with(|| json!({}));
        of_path[route.method] = route.operation();
    }
    let token = "A worker's token below /v1/work, a tenant's token elsewhere";
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

/// Responds with the description.
pub async fn show() -> Response {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| description().to_string());
    ([("content-type", JSON)], DOCUMENT.as_str()).into_response()
}
