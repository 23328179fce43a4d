//! What a server or a worker tells while it runs: lines of a log, and spans of requests and jobs for
//! those who collect them by OpenTelemetry.

use crate::tls;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use std::{fmt, str::FromStr, time::Duration};
use sudare_roles::error::{Error, Result};
use tracing::{Metadata, Span, field::Empty, level_filters::LevelFilter};
use tracing_subscriber::{
    Layer, Registry, filter::filter_fn, fmt as lines, layer::SubscriberExt, util::SubscriberInitExt,
};
use url::Url;

/// How long the last spans may take when the process ends.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where spans are sent, by OTLP in HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector(Url);

impl FromStr for Collector {
    type Err = String;

    /// Reads an address such as `http://localhost:4318`, as `OTEL_EXPORTER_OTLP_ENDPOINT` has it.
    fn from_str(text: &str) -> core::result::Result<Self, String> {
        let help = "an address such as http://localhost:4318 is needed";
        let mut url = Url::parse(text).map_err(|error| format!("{error}: {help}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(help.into());
        }
        url.path_segments_mut().map_err(|()| help)?.pop_if_empty().extend(["v1", "traces"]);
        Ok(Self(url))
    }
}

/// What sends spans, the last ones when it is dropped.
pub struct Telemetry(Option<SdkTracerProvider>);

impl Telemetry {
    /// From now on log lines are written to standard error, in JSON, and spans are sent to the collector, if
    /// there is one, under the name of this service. Headers that it wants, such as those that have a password,
    /// are in the environment (`OTEL_EXPORTER_OTLP_HEADERS`).
    ///
    /// # Errors
    /// [`Error::Usage`] for a collector that cannot be sent to.
    pub fn begin(service: &'static str, collector: Option<&Collector>) -> Result<Self> {
        let provider = collector.map(|collector| provider(service, collector)).transpose()?;
        let spans = provider.as_ref().map(|provider| {
            let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("sudare"));
            layer.with_location(false).with_threads(false).with_filter(filter_fn(is_ours))
        });
        let lines = lines::layer().json().with_writer(std::io::stderr);
        let subscriber = Registry::default()
            .with(LevelFilter::INFO)
            .with(spans)
            .with(lines.with_filter(filter_fn(|metadata| metadata.is_event())));
        // Once for the process; others may have.
        let _ = subscriber.try_init();
        Ok(Self(provider))
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        if let Some(provider) = &self.0
            && let Err(error) = provider.shutdown_with_timeout(PATIENCE)
        {
            tracing::warn!(%error, "the last spans cannot be sent");
        }
    }
}

/// Spans and events of this program, not of libraries.
fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("sudare")
}

fn provider(service: &'static str, collector: &Collector) -> Result<SdkTracerProvider> {
    tls::provide();
    let usage = |problem: &dyn fmt::Display| Error::Usage(format!("{}: {problem}", collector.0));
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(collector.0.as_str())
        .build()
        .map_err(|error| usage(&error))?;
    let resource = Resource::builder().with_service_name(service).build();
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build())
}

/// The span of a request by this method for what has this path, with names where it varies: a path itself
/// may say more than a collector should know. [`responded`] ends it.
pub fn request(method: &str, route: &str) -> Span {
    tracing::info_span!(
        "request",
        otel.name = format!("{method} {route}"),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method,
        http.route = route,
        http.response.status_code = Empty,
    )
}

/// Has the span of a request say what was answered.
pub fn responded(span: &Span, status: u16) {
    span.record("http.response.status_code", status);
    if status >= 500 {
        span.record("otel.status_code", "ERROR");
    }
}

/// The span of a job of this kind while it is computed; what is logged of it are its events.
pub fn job(kind: &str, id: &str) -> Span {
    tracing::info_span!("job", otel.name = kind, job = id)
}
