//! Pages of other origins that may ask, in browsers (CORS, <https://fetch.spec.whatwg.org/#http-cors-protocol>).
//!
//! Whoever has a token may ask from anywhere; origins are about what a browser lets pages do. Each is
//! named exactly. No page is given what a browser would send by itself, as cookies: there are none.

use crate::jobs::app::App;
use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

/// What pages may do.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PATCH, DELETE");
/// What they may send: tokens, uploads of tus, ranges of results, and where they were in events.
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, idempotency-key, last-event-id, range, tus-resumable, \
     upload-length, upload-metadata, upload-offset",
);
/// What they may read of answers, beside what they always may.
const ANSWER_HEADERS: HeaderValue = HeaderValue::from_static(
    "accept-ranges, content-range, etag, location, retry-after, tus-extension, tus-resumable, \
     tus-version, upload-expires, upload-length, upload-offset",
);
/// For how many seconds a browser need not ask again what is allowed.
const REMEMBERED: HeaderValue = HeaderValue::from_static("600");

/// Tells browsers which pages may read answers, and answers when they ask before.
pub async fn allow(State(app): State<App>, request: Request, next: Next) -> Response {
    let origins = &app.limits.origins;
    if origins.is_empty() {
        return next.run(request).await;
    }
    let asking = request.headers().get(header::ORIGIN).cloned();
    let allowed = asking.filter(|asking| origins.iter().any(|origin| origin.is(asking)));
    let asks_before = request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = match asks_before && allowed.is_some() {
        true => StatusCode::NO_CONTENT.into_response(),
        false => next.run(request).await,
    };
    let headers = response.headers_mut();
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
