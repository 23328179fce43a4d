//! Operations for operators, and about the server and its tenants.

use super::{
    access::Tenant,
    description,
    route::{Route, route},
    spec::responses,
};
use crate::{
    clock::now,
    jobs::app::{App, Server, blocking},
    metrics::Text,
    problem::{Answer, Problem},
    storage::records::{State as JobState, Usage},
};
use axum::{Json, Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use serde_json::{Value, json};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Time for which a readiness check stays valid.
const READINESS_TTL: Duration = Duration::from_secs(5);

/// Lists the routes for operators, and those about the server and its tenants.
pub fn routes() -> Vec<Route> {
    vec![
        route!(get "/healthz", healthy, "Check that the server is running")
            .with_response(200, "The server is running", &responses::TEXT)
            .public(),
        route!(get "/readyz", ready, "Check that the server can process jobs")
            .with_response(200, "Ready for jobs", &responses::TEXT)
            .with_failures(&[500, 503])
            .public(),
        route!(get "/v1/openapi.json", description::show, "Describe the API")
            .with_response(200, "This document", &responses::DOCUMENT)
            .public(),
        route!(get "/v1/server-key", server_key, "Show the key that signs receipts")
            .with_response(200, "The Ed25519 public key of the server", &responses::SERVER_KEY)
            .public(),
        route!(get "/v1/usage", usage, "Show what the tenant has used, and its limits")
            .with_response(200, "Storage, jobs, requests and CPU time", &responses::USAGE),
    ]
}

pub async fn healthy() -> &'static str {
    // Asks neither the disk nor the records, so that a busy server does not look dead.
    "ok\n"
}

/// Shows the key that verifies receipts. Clients that pin the key should also learn it by another way.
async fn server_key(State(app): State<App>) -> Json<Value> {
    Json(json!({
        "algorithm": "Ed25519",
        "key": app.key.public().to_string(),
        "program": env!("CARGO_PKG_VERSION"),
    }))
}

/// Shows the usage of the tenant, and its limits.
async fn usage(State(app): State<App>, Tenant(tenant): Tenant) -> Answer {
    let used = blocking(&app, move |app| app.records.usage(&tenant, now())).await?;
    let limits = &app.limits;
    let usage = json!({
        "bytes": { "used": used.bytes, "limit": limits.tenant.bytes },
        "objects": { "used": used.objects, "limit": limits.tenant.objects },
        "jobs": { "under_way": used.jobs, "limit": limits.tenant.jobs },
        "requests": {
            "limit_a_second": limits.tenant_requests,
            "limit_open": limits.tenant_open,
            "audited_limit_an_hour": limits.tenant_acts,
        },
        "cpu_seconds": {
            "today": used.cpu_seconds_today,
            "daily_limit": limits.tenant.cpu.daily_seconds,
            "total": used.cpu_seconds,
            "total_limit": limits.tenant.cpu.total_seconds,
        },
    });
    Ok(Json(usage).into_response())
}

/// Checks that the records and the directory are usable, and that the server is not shutting down.
pub async fn ready(State(app): State<App>) -> Answer<&'static str> {
    let unready = |what: &str| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "Unready", what);
    // A load balancer then sends requests elsewhere before connections are refused.
    if *app.ending.borrow() {
        return Err(unready("the server is shutting down"));
    }
    // One check serves all requests that wait for it, so that requests cannot load the disk and the store.
    let mut known = app.readiness.lock().await;
    let is_usable = match *known {
        Some((looked, is_usable)) if looked.elapsed() < READINESS_TTL => is_usable,
        _ => {
            let usable = blocking(&app, |app| {
                // Any query shows that the records respond.
                app.records.leases()?;
                Ok::<_, Problem>(app.store.is_usable())
            });
            let usable = usable.await?;
            *known = Some((Instant::now(), usable));
            usable
        }
    };
    if is_usable {
        Ok("ready\n")
    } else {
        Err(unready("the directory or the store cannot be used"))
    }
}

/// Builds the router for the metrics port, which requires no token.
pub fn metrics_router(app: App) -> Router {
    Router::new().route("/metrics", get(metrics)).with_state(app)
}

async fn metrics(State(app): State<App>) -> Answer {
    let text = blocking(&app, figures).await?;
    Ok(([("content-type", "text/plain; version=0.0.4")], text).into_response())
}

fn figures(app: &Server) -> Answer<String> {
    let counters = &app.counters;
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let queued = app.records.jobs_in(JobState::Queued)?.len() as u64;
    let (running, memory) = {
        let running = app.running();
        (running.len() as u64, running.values().map(|job| job.memory).sum())
    };
    let mut text = Text::default();
    let counts = [
        ("sudare_requests_total", "Requests that got a response", &counters.requests),
        (
            "sudare_requests_limited_total",
            "Requests that were refused because a tenant made too many",
            &counters.limited_requests,
        ),
        ("sudare_uploaded_bytes_total", "Bytes of uploads", &counters.uploaded_bytes),
        (
            "sudare_downloaded_bytes_total",
            "Bytes of downloaded results",
            &counters.downloaded_bytes,
        ),
        (
            "sudare_jobs_ended_total",
            "Jobs that are done, failed or cancelled",
            &counters.ended_jobs,
        ),
        (
            "sudare_leases_expired_total",
            "Leases of workers that were not renewed",
            &counters.expired_leases,
        ),
    ];
    for (name, help, counter) in counts {
        text.family(name, "counter", help).value(name, &[], read(counter) as f64);
    }
    let gauges = [
        ("sudare_leases", "Jobs that workers have claimed", app.records.leases()?),
        ("sudare_jobs_queued", "Jobs that wait", queued),
        ("sudare_jobs_running", "Jobs in processes of this server", running),
        ("sudare_jobs_memory_bytes", "Memory reserved for the running jobs", memory),
        (
            "sudare_jobs_memory_limit_bytes",
            "Memory that jobs may reserve together",
            app.limits.memory_bytes,
        ),
    ];
    for (name, help, value) in gauges {
        text.family(name, "gauge", help).value(name, &[], value as f64);
    }
    let tenants = app.records.usage_of_all(now())?;
    let mut of_tenants = |name: &str, kind: &str, help: &str, value: &dyn Fn(&Usage) -> f64| {
        text.family(name, kind, help);
        for of in &tenants {
            text.value(name, &[("tenant", &of.tenant)], value(of));
        }
    };
    let bytes = "Bytes of objects and of unfinished uploads";
    of_tenants("sudare_tenant_bytes", "gauge", bytes, &|of| of.bytes as f64);
    of_tenants("sudare_tenant_jobs", "gauge", "Unfinished jobs", &|of| of.jobs as f64);
    let seconds = "CPU time of jobs in seconds";
    of_tenants("sudare_tenant_cpu_seconds_total", "counter", seconds, &|of| of.cpu_seconds);
    text.histograms(
        "sudare_request_duration_seconds",
        "Time from a request to the head of its response, by route; claims of workers wait for jobs",
        &app.times.responses,
    );
    text.histograms(
        "sudare_job_duration_seconds",
        "Time from the last start of a job to its end",
        &app.times.jobs,
    );
    text.histograms(
        "sudare_job_wait_seconds",
        "Time that a job waited until its last start",
        &app.times.waits,
    );
    Ok(text.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::app::testing::server;

    /// Frequent requests do not access the disk each time.
    #[tokio::test]
    async fn readiness_is_known_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let app = server(folder.path(), 1);
        assert!(ready(State(app.clone())).await.is_ok());
        // Writing fails from here on, which the next check notices.
        std::fs::remove_dir_all(folder.path().join("store")).unwrap();
        assert!(ready(State(app.clone())).await.is_ok());
        let long_ago = Instant::now().checked_sub(2 * READINESS_TTL).unwrap();
        *app.readiness.lock().await = Some((long_ago, true));
        assert_eq!(ready(State(app)).await.unwrap_err().kind, "Unready");
    }
}
