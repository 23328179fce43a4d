//! The OpenAPI 3.1 description of the API (<https://spec.openapis.org/oas/v3.1.1>), made from the table of routes.

mod schemas;
#[cfg(feature = "cluster")]
#[cfg(test)]
mod tests;

use super::{
    route::{Described, Route},
    routes,
    spec::{Body, Content, EVENTS, Form, Header, JSON, PROBLEM, ResponseSpec, TEXT},
};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// Statuses of requests that fail, with their meanings.
const FAILURES: [(u16, &str); 17] = [
    (400, "A header or the body is not valid"),
    (401, "The request has no valid token"),
    (403, "The token belongs to another role, or the server did not sign the URL"),
    (404, "Nothing of this name exists here"),
    (405, "The header names an unsupported method"),
    (408, "The body did not arrive in time"),
    (409, "The request conflicts with the state of the object, upload or job"),
    (412, "The server does not support this version of tus"),
    (413, "The file or the result exceeds a limit"),
    (415, "The body has an unsupported media type"),
    (416, "The range lies outside the file"),
    (422, "The server cannot use the content"),
    (423, "Another request writes to the upload"),
    (429, "The tenant or the worker exceeds a limit for now"),
    (500, "The server failed"),
    (503, "The server is busy or not ready"),
    (507, "The server has no disk space left"),
];

impl Header {
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

    /// Returns whether a request can fail with a status.
    fn may_fail(&self, status: u16) -> bool {
        let has_json =
            self.request.body.is_some_and(|body| matches!(body.content, Content::Json(_)));
        let of_request = match status {
            400 => has_json,
            // An operation with a token reads the records, and may write to the audit log.
            401 | 403 | 429 | 500 | 507 => self.needs_token,
            404 => self.needs_token && self.names().next().is_some(),
            408 => self.request.body.is_some(),
            412 => self.has_header(Header::TUS_RESUMABLE.name),
            416 => self.has_header(Header::RANGE.name),
            _ => false,
        };
        of_request || self.failures.contains(&status)
    }

    /// Describes the response to a request that fails.
    fn failure(&self, status: u16, meaning: &str) -> Value {
        let mut headers = Vec::new();
        if self.has_header(Header::TUS_RESUMABLE.name) {
            headers.push(Header::TUS_RESUMABLE.required());
        }
        match status {
            401 => headers.push(Header::WWW_AUTHENTICATE.required()),
            412 => headers.push(Header::TUS_VERSION.required()),
            416 => headers.push(Header::CONTENT_RANGE.required()),
            // Only the client can lift some limits, such as the number of its jobs.
            429 | 503 => headers.push(Header::RETRY_AFTER),
            _ => {}
        }
        let mut response = json!({
            "description": meaning,
            "content": { PROBLEM: { "schema": schemas::named("Problem") } },
        });
        if !headers.is_empty() {
            response["headers"] = objects(&headers).into();
        }
        response
    }

    fn operation(&self) -> Value {
        let headers = self.request.headers.iter().map(Header::parameter);
        let parameters = self.names().map(|name| self.path_parameter(name)).chain(headers);
        let described = self.responses.iter();
        let mut responses: Map<_, _> =
            described.map(|response| (response.status.to_string(), response.object())).collect();
        let failures = FAILURES.iter().filter(|(status, _)| self.may_fail(*status));
        responses.extend(
            failures.map(|(status, meaning)| (status.to_string(), self.failure(*status, meaning))),
        );
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
