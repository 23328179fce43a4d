//! What is answered to requests that are refused: problem details (RFC 9457) with the word that the
//! command has for the same error.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use std::{fmt, io, time::Duration};
use sudare_roles::error::Error;

/// A request that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Status of HTTP.
    pub status: StatusCode,
    /// A stable word, as [`Error::kind`].
    pub kind: String,
    /// For people.
    pub detail: String,
    /// Seconds after which it is no problem any more, if that is known.
    pub retry_after: Option<u64>,
}

/// How long a request waits until what has the digest of its file is removed.
pub const REMOVAL_PATIENCE: Duration = Duration::from_secs(10);

/// Answers of handlers.
pub type Answer<T = Response> = Result<T, Problem>;

#[derive(Serialize)]
struct Body<'a> {
    r#type: &'static str,
    title: &'a str,
    status: u16,
    detail: &'a str,
    kind: &'a str,
}

impl Problem {
    /// With this status, word and text.
    pub fn new(status: StatusCode, kind: &str, detail: impl Into<String>) -> Self {
        Self { status, kind: kind.into(), detail: detail.into(), retry_after: None }
    }

    /// A request that does not say what it should.
    pub fn bad(kind: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, kind, detail)
    }

    /// What the tenant does not have, whether others have it or not.
    #[must_use]
    pub fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", "there is no such thing here")
    }

    /// Something that goes against what is there.
    pub fn conflict(kind: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, kind, detail)
    }

    /// Too much for now; after so many seconds it is not any more.
    pub fn too_many(kind: &str, detail: impl Into<String>, retry_after: Option<u64>) -> Self {
        Self { retry_after, ..Self::new(StatusCode::TOO_MANY_REQUESTS, kind, detail) }
    }

    /// What is sent has the digest of what is being removed.
    pub fn removing() -> Self {
        let detail = "a file of the same digest is being removed: send it again later";
        let retry_after = Some(REMOVAL_PATIENCE.as_secs());
        Self { retry_after, ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "InUse", detail) }
    }

    /// Returns whether the same request may be answered otherwise in a moment, so that an upload is kept.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        self.retry_after.is_some() || self.status.is_server_error()
    }

    /// What was sent cannot be used.
    pub fn unusable(kind: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, kind, detail)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.detail)
    }
}

/// Files of clients are at fault, but for what the system refused, of which only the log has more.
impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                let detail = "the server has no room left: try again later";
                return Self::new(StatusCode::INSUFFICIENT_STORAGE, "StorageFull", detail);
            }
            Error::Io { .. } | Error::Bug(_) => {
                tracing::error!(%error, "a request failed");
                let detail = "the server failed: try again later";
                return Self::new(StatusCode::INTERNAL_SERVER_ERROR, &error.kind(), detail);
            }
            Error::Memory { .. } => StatusCode::INSUFFICIENT_STORAGE,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self::new(status, &error.kind(), error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = Body {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Problem"),
            status: self.status.as_u16(),
            detail: &self.detail,
            kind: &self.kind,
        };
        let body = serde_json::to_vec(&body).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        let problem = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, problem);
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

/// What cannot be helped.
pub fn internal(error: impl fmt::Display) -> Error {
    Error::Bug(error.to_string())
}
