//! Bodies of requests.

use crate::{
    app::{App, Server, aside},
    problem::{Answer, Problem},
};
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
    let body = timeout(SILENCE, to_bytes(body, MOST_JSON_BYTES)).await;
    let body = body.map_err(|_| incomplete("not all of it came within a minute"))?;
    let body = body.map_err(|_| Problem::bad("Usage", "the request has too many bytes"))?;
    serde_json::from_slice(&body)
        .map_err(|error| Problem::bad("Usage", format!("this is no {what}: {error}")))
}

/// Has `taker` take the bytes of a body as they come, on threads that are held for as long as it takes them and
/// not while it waits for more: a thousand slow clients keep nobody else waiting. Returns the taker, why it took
/// no more if it refused some, and why they ended before the body did if they have.
///
/// # Errors
/// [`Problem`] if the taker is lost by a fault of the server.
pub async fn take<T: Send + 'static>(
    app: &App,
    body: Body,
    taker: T,
    step: fn(&mut T, &Server, Bytes) -> Answer<()>,
) -> Answer<(T, Answer<()>, Answer<()>)> {
    let (sender, mut chunks) = mpsc::channel(WAITING_CHUNKS);
    let taking = async move {
        let (mut taker, mut taken) = (taker, Ok(()));
        let mut waiting = Vec::new();
        while taken.is_ok() && chunks.recv_many(&mut waiting, WAITING_CHUNKS).await > 0 {
            let all = core::mem::take(&mut waiting);
            let work = move |app: &Server| {
                let taken = all.into_iter().try_for_each(|chunk| step(&mut taker, app, chunk));
                Answer::Ok((taker, taken))
            };
            (taker, taken) = aside(app, work).await?;
        }
        Answer::Ok((taker, taken))
    };
    let (taken, passed_on) = tokio::join!(taking, pass_on(body, sender));
    taken.map(|(taker, taken)| (taker, taken, passed_on))
}

fn incomplete(how: &str) -> Problem {
    Problem::new(StatusCode::REQUEST_TIMEOUT, "Incomplete", how)
}

/// Passes on the bytes of a body as they come, until its end.
///
/// # Errors
/// Why they ended before; what came was passed on.
async fn pass_on(mut body: Body, chunks: mpsc::Sender<Bytes>) -> Answer<()> {
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
