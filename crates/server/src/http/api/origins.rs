//! Cross-origin requests from pages in browsers (CORS,
//! <https://fetch.spec.whatwg.org/#http-cors-protocol>).
//!
//! A client with a token may send requests from anywhere. Origins restrict what a browser allows pages to
//! do, and each allowed origin is named exactly. The server never allows credentials that a browser adds by
//! itself, such as cookies.
//!
//! This is not `tower_http::cors`, which responds to every OPTIONS request itself: clients of tus need the
//! router's response.

use crate::jobs::app::App;
use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

/// Methods for pages.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PATCH, DELETE");
/// Request headers for pages: tokens, uploads by tus, ranges of results, and positions in event streams.
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, idempotency-key, last-event-id, range, tus-resumable, \
     upload-length, upload-metadata, upload-offset",
);
/// Response headers for pages, besides the ones that are always readable.
const ANSWER_HEADERS: HeaderValue = HeaderValue::from_static(
    "accept-ranges, content-range, etag, location, retry-after, tus-extension, tus-resumable, \
     tus-version, upload-expires, upload-length, upload-offset",
);
/// Seconds for which a browser may remember permissions.
const REMEMBERED: HeaderValue = HeaderValue::from_static("600");

/// Tells browsers which pages may read responses, and responds to preflight requests.
pub async fn allow(State(app): State<App>, request: Request, next: Next) -> Response {
    let origins = &app.limits.origins;
    if origins.is_empty() {
        return next.run(request).await;
    }
    let asking = request.headers().get(header::ORIGIN).cloned();
    let allowed = asking.filter(|asking| origins.iter().any(|origin| origin.is(asking)));
    let asks_before = request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    // A preflight from another page gets the router's response without CORS headers, so the browser
    // stops the page.
    let mut response = match asks_before && allowed.is_some() {
        true => StatusCode::NO_CONTENT.into_response(),
        false => next.run(request).await,
    };
    let headers = response.headers_mut();
    // In every response: a cache must not reuse a response for a page of another origin.
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = allowed {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        answer(headers, asks_before);
    }
    response
}

fn answer(headers: &mut HeaderMap, asks_before: bool) {
    if asks_before {
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS);
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, REMEMBERED);
    } else {
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, ANSWER_HEADERS);
    }
}
