//! Error responses: problem details (RFC 9457), with the kind that the command uses for the same error.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use std::{fmt, io, time::Duration};
use sudare_roles::error::Error;

/// An error response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// HTTP status.
    pub status: StatusCode,
    /// Stable kind, as [`Error::kind`].
    pub kind: String,
    /// Explanation for people.
    pub detail: String,
    /// Seconds to wait before the next attempt, if known.
    pub retry_after: Option<u64>,
}

/// Maximum time that a request waits for the removal of a file with its digest.
// The request holds one of the few blocking threads meanwhile. The client tries again later.
pub const REMOVAL_PATIENCE: Duration = Duration::from_secs(10);

/// Result of a handler.
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
    /// Makes a problem.
    pub fn new(status: StatusCode, kind: &str, detail: impl Into<String>) -> Self {
        Self { status, kind: kind.into(), detail: detail.into(), retry_after: None }
    }

    /// Makes a problem for a malformed request.
    pub fn bad(kind: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, kind, detail)
    }

    /// Makes a problem for something that the tenant does not have. Other tenants may have it.
    #[must_use]
    pub fn not_found() -> Self {
        // The same words for missing and for foreign objects, so that they cannot be told apart.
        Self::new(StatusCode::NOT_FOUND, "NotFound", "nothing of this name exists here")
    }

    /// Makes a problem for a conflict with the current state.
    pub fn conflict(kind: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, kind, detail)
    }

    /// Makes a problem for too many requests, with the seconds to wait.
    pub fn too_many(kind: &str, detail: impl Into<String>, retry_after: Option<u64>) -> Self {
        Self { retry_after, ..Self::new(StatusCode::TOO_MANY_REQUESTS, kind, detail) }
    }

    /// Makes a problem for a file whose digest is being removed.
    pub fn removing() -> Self {
        let detail = "a file of the same digest is being removed: send it again later";
        let retry_after = Some(REMOVAL_PATIENCE.as_secs());
        Self { retry_after, ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "InUse", detail) }
    }

    /// Returns whether a later attempt may succeed, so that the upload is kept.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        self.retry_after.is_some() || self.status.is_server_error()
    }

    /// Makes a problem for content that cannot be used.
    pub fn unusable(kind: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, kind, detail)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.detail)
    }
}

/// Converts an error. The client's files are at fault, except for errors of the system, whose details only
/// the log has.
impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                let detail = "the server has no disk space left: try again later";
                return Self::new(StatusCode::INSUFFICIENT_STORAGE, "StorageFull", detail);
            }
            Error::Io { .. } | Error::Bug(_) => {
                tracing::error!(%error, "a request failed");
                // The client does not learn paths and errors of the server's disks.
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
        // RFC 9110, 15.5.2 requires this header in a 401.
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

/// Makes an internal error.
pub fn internal(error: impl fmt::Display) -> Error {
    Error::Bug(error.to_string())
}
