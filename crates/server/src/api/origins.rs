//! Pages of other origins that may ask, in browsers (CORS, <https://fetch.spec.whatwg.org/#http-cors-protocol>).
//!
//! Whoever has a token may ask from anywhere; origins are about what a browser lets pages do. Each is
//! named exactly. No page is given what a browser would send by itself, as cookies: there are none.

use crate::app::App;
use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use core::{fmt, str::FromStr};

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

/// The origin of pages that may ask, as browsers write it: `https://page.example`, or `http://` of
/// the browser's own machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(HeaderValue);

impl FromStr for Origin {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let advice = "an origin is needed as browsers write it, such as https://page.example or \
                      http://127.0.0.1:8000: small letters, no path, no usual port";
        let (scheme, authority) = text.split_once("://").ok_or(advice)?;
        let (host, port) = match authority.rsplit_once(':') {
            // The colons of an address in brackets are its own.
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        let is_here = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
        let usual = match scheme {
            "https" => 443,
            "http" if is_here => 80,
            _ => return Err(advice),
        };
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-');
        let named = !host.is_empty() && host.chars().all(fits);
        let port_fits = port.is_none_or(|port| {
            let number = port.parse::<u16>().ok();
            number.is_some_and(|number| number != usual && number > 0 && number.to_string() == port)
        });
        let value = HeaderValue::from_str(text).ok().filter(|_| (is_here || named) && port_fits);
        value.map(Self).ok_or(advice)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_str().unwrap_or_default())
    }
}

/// Tells browsers which pages may read answers, and answers when they ask before.
pub async fn allow(State(app): State<App>, request: Request, next: Next) -> Response {
    let origins = &app.limits.origins;
    if origins.is_empty() {
        return next.run(request).await;
    }
    let asking = request.headers().get(header::ORIGIN).cloned();
    let allowed = asking.filter(|asking| origins.iter().any(|origin| origin.0 == asking));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_those_that_browsers_write() {
        for good in [
            "https://page.example",
            "https://page.example:8443",
            "https://10.0.0.7",
            "http://127.0.0.1:8000",
            "http://localhost",
            "http://[::1]:8000",
            "https://[::1]",
        ] {
            assert_eq!(good.parse::<Origin>().map(|origin| origin.to_string()), Ok(good.into()));
        }
        for bad in [
            "*",
            "null",
            "",
            "page.example",
            "https://",
            "https://*.example",
            "https://Page.example",
            "https://page.example/",
            "https://page.example/path",
            "https://user@page.example",
            "https://page.example:443",
            "https://page.example:08443",
            "https://page.example:0",
            "https://page.example:",
            "https://page.example:99999",
            "https://a.example,https://b.example",
            "http://page.example",
            "http://127.0.0.1:80",
            "http://127.0.0.1.example",
            "file://page",
        ] {
            assert!(bad.parse::<Origin>().is_err(), "{bad}");
        }
    }
}
