//! The API over HTTP: one table of what there is, which requests go by and its description is made
//! from.

mod access;
mod body;
mod description;
mod download;
mod jobs;
mod objects;
mod operation;
mod origins;
mod uploads;
mod work;

pub use description::description;
pub use operation::metrics_router;
pub use uploads::sweep;

use crate::{
    accounts::rates::OpenRequest,
    jobs::app::{App, Counters},
    problem::Problem,
    telemetry,
};
use access::Held;
use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    extract::{MatchedPath, Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::Response,
    routing::{MethodRouter, delete, get, head, options, patch, post, put},
};
use description::{Gives, Takes};
use hyper::body::{Frame, SizeHint};
use std::{
    pin::Pin,
    task::{Context, Poll},
};
use tracing::Instrument;

/// Something that may be asked for.
pub struct Route {
    /// Method of HTTP, in lower case.
    pub method: &'static str,
    /// With `{names}` of what varies.
    pub path: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// What is sent with it.
    pub takes: &'static Takes,
    /// Status, meaning and content of what it answers when it goes well, each that there may be.
    pub answers: &'static [(u16, &'static str, &'static Gives)],
    /// Whether a token is needed: that of a tenant or, below `/v1/work`, of a worker.
    pub by_token: bool,
    handler: fn() -> MethodRouter<App>,
}

/// A route by its method, its path, what a request brings of [`description::takes`], what does it, what it
/// answers with what of [`description::gives`], and what it is for.
macro_rules! route {
    ($method:ident $path:literal $takes:ident, $handler:path, $($status:literal $answer:literal $gives:ident)|+, $summary:literal) => {
        route!($method $path $takes, $handler, $($status $answer $gives)|+, $summary, true)
    };
    ($method:ident $path:literal $takes:ident, $handler:path, $($status:literal $answer:literal $gives:ident)|+, $summary:literal, $by_token:literal) => {
        Route {
            method: stringify!($method),
            path: $path,
            summary: $summary,
            takes: &description::takes::$takes,
            answers: &[$(($status, $answer, &description::gives::$gives)),+],
            by_token: $by_token,
            handler: || $method($handler),
        }
    };
}

/// All that may be asked for.
pub const ROUTES: &[Route] = &[
    route!(get "/healthz" NOTHING, operation::healthy, 200 "it does" TEXT, "Whether the server answers", false),
    route!(get "/readyz" NOTHING, operation::ready, 200 "it is" TEXT, "Whether the server can be used", false),
    route!(get "/v1/openapi.json" NOTHING, description::describe, 200 "this" DOCUMENT, "What the server can be asked for", false),
    route!(get "/v1/server-key" NOTHING, operation::server_key, 200 "its Ed25519 key" SERVER_KEY, "By which key receipts are signed", false),
    route!(get "/v1/usage" NOTHING, operation::usage, 200 "bytes, jobs, requests and seconds of processors" USAGE, "What the tenant has taken, and what it may take"),
    route!(options "/v1/{collection}" NOTHING, uploads::options, 204 "headers of tus" SPOKEN, "How uploads are sent", false),
    route!(post "/v1/{collection}" NEW, objects::create, 201 "where it is sent to" BEGUN | 202 "a job" NEW_JOB, "Begin an upload by tus 1.0, with its digest as metadata; or, of jobs, a job"),
    route!(get "/v1/{collection}" NOTHING, objects::list, 200 "all of them" LIST, "What the tenant has: keys, tables, models, results or jobs"),
    route!(get "/v1/{collection}/{name}" RANGE, objects::show, 200 "it; of a result its bytes" ONE | 206 "a range of them" RANGE, "One of them, by its digest, or a job by its name"),
    route!(delete "/v1/{collection}/{name}" NOTHING, objects::remove, 200 "a job as it was left" JOB | 204 "it is gone" NOTHING, "Remove an object, or cancel a job"),
    route!(get "/v1/jobs/{name}/events" LAST_EVENT, jobs::events, 200 "server-sent events" EVENTS, "What happens to a job, from Last-Event-ID on"),
    route!(get "/v1/jobs/{name}/receipt" NOTHING, jobs::receipt, 200 "a signed statement" RECEIPT, "What the server says, under its signature, of a job that is done"),
    route!(options "/v1/uploads/{name}" NOTHING, uploads::options, 204 "headers of tus" SPOKEN, "How uploads are sent", false),
    route!(head "/v1/uploads/{name}" TUS, uploads::offset, 200 "Upload-Offset" PROGRESS, "How much of an upload is here"),
    route!(patch "/v1/uploads/{name}" PART, uploads::append, 204 "Upload-Offset" PROGRESS, "Send what comes next of an upload"),
    route!(post "/v1/uploads/{name}" OVERRIDDEN, uploads::overridden, 204 "as of that method" OVERRIDDEN, "Send what comes next, or give an upload up, as X-HTTP-Method-Override says"),
    route!(delete "/v1/uploads/{name}" TUS, uploads::give_up, 204 "it is gone" GIVEN_UP, "Give an upload up"),
    route!(post "/v1/work/claim" OFFER, work::claim, 200 "a job under a lease" ASSIGNMENT | 204 "there is none" NOTHING, "Claim a job, for a worker"),
    route!(post "/v1/work/{name}/{fence}/renew" REPORT, work::renew, 200 "seconds until the lease ends" LEASE, "Renew the lease of a job, with how far it is"),
    route!(post "/v1/work/{name}/{fence}/leave" LEAVING, work::leave, 204 "it is left" NOTHING, "Leave a job without a result"),
    route!(put "/v1/work/{name}/{fence}/result/{digest}" BYTES, work::finish, 204 "the job is done" NOTHING, "Hand the result of a job in"),
    route!(put "/v1/work/{name}/{fence}/states/{file}/{digest}" BYTES, work::keep_state, 204 "it is kept" NOTHING, "Leave a state of a training"),
    route!(get "/v1/work/{name}/{fence}/files/{expires}/{signature}/{file}" RANGE, work::file, 200 "its bytes" FILE | 206 "a range of them" RANGE, "Read a file of a job by a signed address", false),
];

/// What answers requests.
pub fn router(app: App) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        router = router.route(route.path, (route.handler)());
    }
    router
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "Method", "that cannot be done here")
        })
        .layer(middleware::from_fn(uploads::speak_tus))
        .layer(middleware::from_fn_with_state(app.clone(), origins::allow))
        .layer(middleware::from_fn_with_state(app.clone(), counted))
        .with_state(app)
}

/// Answers on the connections that are reserved for health checks, when all others are taken.
pub fn health_router(app: App) -> Router {
    Router::new()
        .route("/healthz", get(operation::healthy))
        .route("/readyz", get(operation::ready))
        .fallback(async || {
            let detail = "all connections are taken: try again in a moment";
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "Busy", detail);
            Problem { retry_after: Some(1), ..problem }
        })
        .with_state(app)
}

/// The body of an answer, with what counts until it has been sent.
struct Counted {
    body: Body,
    _request: OpenRequest,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Counts requests, and takes down what was answered.
async fn counted(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let held = Held::default();
    request.extensions_mut().insert(held.clone());
    let route = request.extensions().get::<MatchedPath>().map_or("/", MatchedPath::as_str);
    let span = telemetry::request(request.method().as_str(), route);
    let response = next.run(request).instrument(span.clone()).await;
    Counters::add(&app.counters.requests, 1);
    telemetry::answered(&span, response.status().as_u16());
    match held.take() {
        Some(request) => response.map(|body| Body::new(Counted { body, _request: request })),
        None => response,
    }
}
