//! The HTTP API: a table of routes for each resource, from which the server is built and described.

mod access;
mod body;
mod description;
mod download;
mod jobs;
mod objects;
mod operation;
mod origins;
mod results;
mod route;
mod spec;
mod uploads;
#[cfg(feature = "cluster")]
mod work;

pub use description::description;
pub use operation::metrics_router;
pub use uploads::sweep;

use crate::{
    accounts::rates::OpenRequest,
    jobs::app::{App, Counters},
    problem::Problem,
    storage::records::Collection,
    telemetry,
};
use access::Held;
use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    extract::{MatchedPath, Request, State},
    http::{Method, StatusCode},
    middleware::{self, Next},
    response::Response,
    routing::get,
};
use hyper::body::{Frame, SizeHint};
use route::Route;
use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};
use tracing::Instrument;

/// Lists all routes of the API.
fn routes() -> Vec<Route> {
    let mut routes = operation::routes();
    routes.extend(objects::routes(Collection::Keys));
    routes.extend(objects::routes(Collection::Tables));
    routes.extend(objects::routes(Collection::Models));
    routes.extend(results::routes());
    routes.extend(jobs::routes());
    routes.extend(uploads::routes());
    #[cfg(feature = "cluster")]
    routes.extend(work::routes());
    routes
}

/// Builds the router of the API.
pub fn router(app: App) -> Router {
    let mut router = Router::new();
    for route in routes() {
        router = router.route(&route.path, route.handler);
    }
    router
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async || {
            let detail = "this path does not support the method: see /v1/openapi.json";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "Method", detail)
        })
        .layer(middleware::from_fn(uploads::add_tus_headers))
        .layer(middleware::from_fn_with_state(app.clone(), origins::allow))
        // The last layer is the outermost: it also counts preflights and requests that the router
        // rejects.
        .layer(middleware::from_fn_with_state(app.clone(), count))
        .with_state(app)
}

/// Builds the router for the connections that are reserved for health checks, when all others are taken.
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

/// A response body that holds its request open until the last byte is sent.
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

/// Returns the name of a method for metrics. Clients can make up others, without an end.
fn method_label(method: &Method) -> String {
    let is_known = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PATCH,
        Method::PUT,
        Method::DELETE,
        Method::OPTIONS,
    ];
    if is_known.contains(method) { method.as_str().into() } else { "other".into() }
}

/// Counts requests, measures the time of each, and records the status of each response in its span.
async fn count(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let held = Held::default();
    request.extensions_mut().insert(held.clone());
    // A path without a route may contain anything, so spans do not show it.
    let route = request.extensions().get::<MatchedPath>().map_or("/", MatchedPath::as_str);
    let span = telemetry::request(request.method().as_str(), route);
    let begun = Instant::now();
    let labels = [method_label(request.method()), route.to_owned()];
    let response = next.run(request).instrument(span.clone()).await;
    app.times.responses.observe(labels.each_ref().map(|label| &label[..]), begun.elapsed());
    Counters::add(&app.counters.requests, 1);
    telemetry::responded(&span, response.status().as_u16());
    // Bodies of events and downloads may take hours. The request counts as open until its body is
    // dropped.
    match held.take() {
        Some(request) => response.map(|body| Body::new(Counted { body, _request: request })),
        None => response,
    }
}
