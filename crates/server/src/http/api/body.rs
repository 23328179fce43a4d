//! Bodies of requests.

use crate::{
    jobs::app::{App, Server, blocking},
    problem::{Answer, Problem},
};
use axum::{
    body::{Body, Bytes, HttpBody, to_bytes},
    http::StatusCode,
};
use futures_util::future::poll_fn;
use serde::de::DeserializeOwned;
use std::{
    pin::Pin,
    time::{Duration, Instant},
};
use tokio::{sync::mpsc, time::timeout};

/// Maximum chunks of a request that wait for the disk.
// Bounds the memory of an upload whose network is faster than the disk.
const QUEUED_CHUNKS: usize = 16;
/// Maximum time between two chunks of a request.
const MAX_SILENCE: Duration = Duration::from_secs(60);
/// Minimum rate of a request, in bytes per second, after a slow start. Without it, a slow sender could hold
/// a connection for any time.
const MIN_BYTES_A_SECOND: u64 = 1 << 10;
const SLOW_START: Duration = Duration::from_secs(30);
/// Maximum bytes of a rejected request that are still read.
// Four parts of the usual size, so that usual clients read the refusal.
const MAX_REFUSED_BYTES: usize = 32 << 20;
/// Maximum bytes of a JSON request.
// A job with 64 tables takes about 5 KB.
const MAX_JSON_BYTES: usize = 64 << 10;

/// Parses a JSON body as `what`.
pub async fn json<T: DeserializeOwned>(body: Body, what: &str) -> Answer<T> {
    // For 64 KiB in all, the limit of silence also serves as the limit of the whole body.
    let body = timeout(MAX_SILENCE, to_bytes(body, MAX_JSON_BYTES)).await;
    let body = body.map_err(|_| incomplete("the request did not arrive within a minute"))?;
    let body = body.map_err(|_| {
        Problem::bad("Usage", format!("the request exceeds the maximum of {MAX_JSON_BYTES} bytes"))
    })?;
    serde_json::from_slice(&body)
        .map_err(|error| Problem::bad("Usage", format!("this is not a valid {what}: {error}")))
}

/// Passes the chunks of a body to `sink`. A thread is in use only while `step` runs, not while the body
/// waits for more data, so slow clients do not block others. Returns the sink, the error that stopped it,
/// and the error that cut the body short.
///
/// # Errors
/// A [`Problem`] if the sink is lost because of a server error.
pub async fn consume<T: Send + 'static>(
    app: &App,
    body: Body,
    sink: T,
    step: fn(&mut T, &Server, Bytes) -> Answer<()>,
) -> Answer<(T, Answer<()>, Answer<()>)> {
    let (sender, mut chunks) = mpsc::channel(QUEUED_CHUNKS);
    let writing = async move {
        let mut sink = sink;
        let mut written = Ok(());
        let mut waiting = Vec::new();
        while written.is_ok() && chunks.recv_many(&mut waiting, QUEUED_CHUNKS).await > 0 {
            let all = core::mem::take(&mut waiting);
            let work = move |app: &Server| {
                let written = all.into_iter().try_for_each(|chunk| step(&mut sink, app, chunk));
                Answer::Ok((sink, written))
            };
            (sink, written) = blocking(app, work).await?;
        }
        Answer::Ok((sink, written))
    };
    let (written, passed_on) = tokio::join!(writing, pass_on(body, sender));
    written.map(|(sink, written)| (sink, written, passed_on))
}

fn incomplete(how: &str) -> Problem {
    Problem::new(StatusCode::REQUEST_TIMEOUT, "Incomplete", how)
}

/// Forwards the chunks of a body until its end.
///
/// # Errors
/// The reason why the body ended early. Earlier chunks are forwarded.
async fn pass_on(mut body: Body, chunks: mpsc::Sender<Bytes>) -> Answer<()> {
    let mut refused = 0_usize;
    let mut pace = Pace::default();
    loop {
        let Some(patience) = pace.patience() else {
            let detail = format!(
                "the request was slower than {MIN_BYTES_A_SECOND} bytes per second: use a faster connection, \
                 or send smaller parts"
            );
            return Err(incomplete(&detail));
        };
        let begun = Instant::now();
        let frame = timeout(patience, poll_fn(|context| Pin::new(&mut body).poll_frame(context)));
        let frame = frame.await;
        pace.waited += begun.elapsed();
        match frame {
            Ok(None) => return Ok(()),
            Ok(Some(Ok(frame))) => {
                // Trailers hold no data.
                let Ok(data) = frame.into_data() else { continue };
                let bytes = data.len();
                pace.bytes = pace.bytes.saturating_add(bytes as u64);
                // Clients read no response before they have sent everything. So chunks are read for a while
                // after the rejection.
                if chunks.send(data).await.is_err() {
                    refused = refused.saturating_add(bytes);
                    if refused > MAX_REFUSED_BYTES {
                        return Ok(());
                    }
                }
            }
            Ok(Some(Err(_))) => return Err(incomplete("the connection broke")),
            Err(_) if patience == MAX_SILENCE => {
                return Err(incomplete("no data arrived for a minute"));
            }
            // The next round reports that the body is too slow.
            Err(_) => {}
        }
    }
}

/// Speed of a body. The time in which the server is busy does not count.
#[derive(Default)]
struct Pace {
    bytes: u64,
    waited: Duration,
}

impl Pace {
    /// Returns how long to wait for the next bytes, or `None` if the body is too slow.
    fn patience(&self) -> Option<Duration> {
        let seconds = self.bytes as f64 / MIN_BYTES_A_SECOND as f64;
        let allowed = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let left = SLOW_START.saturating_add(allowed).checked_sub(self.waited)?;
        (!left.is_zero()).then_some(left.min(MAX_SILENCE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_come_at_a_least_rate() {
        let patience =
            |bytes, seconds| Pace { bytes, waited: Duration::from_secs(seconds) }.patience();
        assert_eq!(patience(0, 0), Some(SLOW_START));
        assert_eq!(patience(0, 29), Some(Duration::from_secs(1)));
        assert_eq!(patience(3, 31), None);
        // One byte every twelve seconds for an hour is too slow. One kilobyte per second is not.
        assert_eq!(patience(300, 3600), None);
        assert_eq!(patience(3600 << 10, 3600), Some(SLOW_START));
        assert_eq!(patience(8 << 20, 10), Some(MAX_SILENCE));
        assert_eq!(patience(u64::MAX, 1), Some(MAX_SILENCE));
    }
}
