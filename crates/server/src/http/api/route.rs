//! Routes: the handler of an operation, and its description.

use super::spec::{RequestSpec, ResponseSpec, requests};
use crate::jobs::app::App;
use axum::routing::MethodRouter;

/// An operation of the API.
pub struct Route {
    /// HTTP method, in lower case.
    pub method: &'static str,
    /// Path, with `{names}` for the parts that vary.
    pub path: String,
    /// One line about the operation.
    pub summary: String,
    /// Headers and body of the request.
    pub request: &'static RequestSpec,
    /// Responses to requests that succeed.
    pub responses: Vec<Described>,
    /// Statuses of requests that fail, besides the statuses that follow from token, path and
    /// headers.
    pub failures: &'static [u16],
    /// The operation requires a token: a worker's below `/v1/work`, a tenant's elsewhere.
    pub needs_token: bool,
    /// Handler of the operation.
    pub handler: MethodRouter<App>,
}

/// A response with its meaning.
pub struct Described {
    /// HTTP status.
    pub status: u16,
    /// Meaning of the status.
    pub meaning: &'static str,
    /// Headers and contents.
    pub response: &'static ResponseSpec,
}

/// Makes a [`Route`] from a method, a path, a handler and a summary.
macro_rules! route {
    ($method:ident $path:expr, $handler:expr, $summary:expr) => {
        $crate::http::api::route::Route::new(
            stringify!($method),
            $path.into(),
            axum::routing::$method($handler),
            $summary.into(),
        )
    };
}
pub(super) use route;

impl Route {
    /// Makes a route that requires a token and has no request headers or body.
    pub fn new(
        method: &'static str,
        path: String,
        handler: MethodRouter<App>,
        summary: String,
    ) -> Self {
        Self {
            method,
            path,
            summary,
            request: &requests::EMPTY,
            responses: Vec::new(),
            failures: &[],
            needs_token: true,
            handler,
        }
    }

    /// Sets the headers and the body of the request.
    pub fn with_request(self, request: &'static RequestSpec) -> Self {
        Self { request, ..self }
    }

    /// Adds a response.
    pub fn with_response(
        mut self,
        status: u16,
        meaning: &'static str,
        response: &'static ResponseSpec,
    ) -> Self {
        self.responses.push(Described { status, meaning, response });
        self
    }

    /// Adds statuses of requests that fail.
    pub fn with_failures(self, failures: &'static [u16]) -> Self {
        Self { failures, ..self }
    }

    /// Makes the route public: it requires no token.
    pub fn public(self) -> Self {
        Self { needs_token: false, ..self }
    }
}
