//! What operators look at.

use crate::{
    app::{App, Server, aside},
    problem::{Answer, Problem},
    records::State as JobState,
};
use axum::{Json, Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

pub async fn healthy() -> &'static str {
    "ok\n"
}

/// The key by which receipts are checked. Whoever pins it learns it by another way, too.
pub async fn server_key(State(app): State<App>) -> Json<Value> {
    Json(json!({
        "algorithm": "Ed25519",
        "key": app.key.public().to_string(),
        "program": env!("CARGO_PKG_VERSION"),
    }))
}

/// Whether records and folder can be used, and the server does not end.
pub async fn ready(State(app): State<App>) -> Answer<&'static str> {
    let unready = |what: &str| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "Unready", what);
    if *app.ending.borrow() {
        return Err(unready("the server ends"));
    }
    let usable = aside(&app, |app| {
        app.records.tokens(Some(""))?;
        Ok::<_, Problem>(app.store.is_usable())
    });
    if usable.await? { Ok("ready\n") } else { Err(unready("the folder cannot be written to")) }
}

/// What answers on the port of its own for metrics, without tokens.
pub fn metrics_router(app: App) -> Router {
    Router::new().route("/metrics", get(metrics)).with_state(app)
}

async fn metrics(State(app): State<App>) -> Answer {
    let text = aside(&app, figures).await?;
    Ok(([("content-type", "text/plain; version=0.0.4")], text).into_response())
}

fn figures(app: &Server) -> Answer<String> {
    let counters = &app.counters;
    let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let queued = app.records.jobs_in(JobState::Queued)?.len() as u64;
    let (running, memory) = {
        let running = app.running();
        (running.len() as u64, running.values().map(|job| job.memory).sum())
    };
    let figures = [
        ("sudare_requests_total", "counter", read(&counters.requests)),
        ("sudare_uploaded_bytes_total", "counter", read(&counters.uploaded_bytes)),
        ("sudare_downloaded_bytes_total", "counter", read(&counters.downloaded_bytes)),
        ("sudare_jobs_ended_total", "counter", read(&counters.ended_jobs)),
        ("sudare_jobs_queued", "gauge", queued),
        ("sudare_jobs_running", "gauge", running),
        ("sudare_jobs_memory_bytes", "gauge", memory),
    ];
    let line = |(name, kind, value)| format!("# TYPE {name} {kind}\n{name} {value}\n");
    Ok(figures.into_iter().map(line).collect())
}
