//! Bodies of requests.

use crate::problem::{Answer, Problem};
use axum::{
    body::{Body, Bytes, HttpBody, to_bytes},
    http::StatusCode,
};
use futures_util::future::poll_fn;
use serde::de::DeserializeOwned;
use std::{pin::Pin, time::Duration};
use tokio::{sync::mpsc, time::timeout};

/// Chunks of a request that wait to be written.
const WAITING_CHUNKS: usize = 16;
/// How long nothing may come of a request.
const SILENCE: Duration = Duration::from_secs(60);
/// Bytes of a refused request that are read nevertheless.
const MOST_REFUSED_BYTES: usize = 32 << 20;
/// Most bytes of a request in JSON.
const MOST_JSON_BYTES: usize = 64 << 10;

/// What a body says in JSON, which is to be `what`.
pub async fn json<T: DeserializeOwned>(body: Body, what: &str) -> Answer<T> {
    let body = to_bytes(body, MOST_JSON_BYTES).await;
    let body = body.map_err(|_| Problem::bad("Usage", "the request has too many bytes"))?;
    serde_json::from_slice(&body)
        .map_err(|error| Problem::bad("Usage", format!("this is no {what}: {error}")))
}

/// What takes bytes as they come, and where they come from.
pub fn chunks() -> (mpsc::Sender<Bytes>, mpsc::Receiver<Bytes>) {
    mpsc::channel(WAITING_CHUNKS)
}

/// Passes on the bytes of a body as they come, until its end.
///
/// # Errors
/// Why they ended before; what came was passed on.
pub async fn pass_on(mut body: Body, chunks: mpsc::Sender<Bytes>) -> Answer<()> {
    let incomplete = |how: &str| Problem::new(StatusCode::REQUEST_TIMEOUT, "Incomplete", how);
    let mut refused = 0_usize;
    loop {
        let frame = timeout(SILENCE, poll_fn(|context| Pin::new(&mut body).poll_frame(context)));
        match frame.await {
            Ok(None) => return Ok(()),
            Ok(Some(Ok(frame))) => {
                let Ok(data) = frame.into_data() else { continue };
                let bytes = data.len();
                // What is refused is not taken, but read for a while: who sends reads no answer
                // before all is sent.
                if chunks.send(data).await.is_err() {
                    refused = refused.saturating_add(bytes);
                    if refused > MOST_REFUSED_BYTES {
                        return Ok(());
                    }
                }
            }
            Ok(Some(Err(_))) => return Err(incomplete("the connection broke")),
            Err(_) => return Err(incomplete("nothing came for a minute")),
        }
    }
}
