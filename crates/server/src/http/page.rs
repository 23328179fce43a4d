//! A page and its files, for the browser on this machine.

use crate::{
    http::net::{self, Endpoint, Listener},
    wait_for_shutdown,
};
use axum::{
    Router,
    body::Bytes,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use std::{collections::BTreeMap, net::SocketAddr, path::Path, sync::Arc};
use sudare_roles::error::{Error, Result};
use tokio::sync::watch;

/// File for the path `/`.
const INDEX: &str = "index.html";

/// A file of a page.
#[derive(Debug, Clone)]
pub struct PageFile {
    /// Media type of the file.
    pub media_type: &'static str,
    /// Content-Security-Policy: the permitted sources and connections of the file.
    pub policy: String,
    /// Content of the file.
    pub content: Vec<u8>,
}

type Files = Arc<BTreeMap<String, (HeaderMap, Bytes)>>;

/// Serves files by name until the process is told to stop. Calls `listening` with the URL once the server
/// responds.
///
/// # Errors
/// [`Error::Io`]; [`Error::Usage`] for a policy that is not a valid header.
pub fn serve_page(
    address: SocketAddr,
    files: BTreeMap<String, PageFile>,
    listening: impl FnOnce(&str),
) -> Result<()> {
    let files = files.into_iter().map(|(name, file)| {
        let headers = headers(&file)?;
        Ok((name, (headers, Bytes::from(file.content))))
    });
    let files: Files = Arc::new(files.collect::<Result<_>>()?);
    let router = Router::new().fallback(answer).with_state(files);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let failed = |error| Error::io("start", Path::new("the server of the page"), error);
    runtime.map_err(failed)?.block_on(async {
        let listener = Listener::bind(&Endpoint::Tcp(address)).await?;
        let place = listener.url("http");
        let (end, ending) = watch::channel(false);
        let routers = net::Routers { health: router.clone(), all: router };
        let answering = tokio::spawn(net::serve(listener, routers, None, ending));
        listening(&place);
        wait_for_shutdown().await;
        end.send_replace(true);
        let _ = answering.await;
        Ok(())
    })
}

fn headers(file: &PageFile) -> Result<HeaderMap> {
    let policy = HeaderValue::from_str(&file.policy);
    let policy =
        policy.map_err(|_| Error::Usage("the policy of the page is not a valid header".into()))?;
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    for (name, value) in [
        (header::CONTENT_TYPE, file.media_type),
        // A cached page of another version does not match the files of this one.
        (header::CACHE_CONTROL, "no-cache"),
        // A browser must not take another file for a script.
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in [
        // Pages of other origins get no handle to this window, and cannot embed its files.
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-embedder-policy", "require-corp"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Ok(headers)
}

async fn answer(State(files): State<Files>, request: Request) -> Response {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let name = request.uri().path().trim_start_matches('/');
    // Files are in memory: no path in a request reaches the disk.
    match files.get(if name.is_empty() { INDEX } else { name }) {
        Some((headers, content)) => (headers.clone(), content.clone()).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
