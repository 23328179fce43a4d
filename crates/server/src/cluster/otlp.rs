//! Spans of requests and jobs, sent to a collector by OpenTelemetry.

use crate::tls;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use std::{fmt, str::FromStr, time::Duration};
use sudare_roles::error::{Error, Result};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};
use url::Url;

/// Maximum time to send the last spans when the process ends.
// A collector that is out of reach must not hold up the end of the process.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Address of a collector of spans, by OTLP over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector(Url);

impl FromStr for Collector {
    type Err = String;

    /// Parses an address such as `http://localhost:4318`, in the form of `OTEL_EXPORTER_OTLP_ENDPOINT`.
    fn from_str(text: &str) -> core::result::Result<Self, String> {
        let help = "pass an address such as http://localhost:4318";
        let mut url = Url::parse(text).map_err(|error| format!("{error}: {help}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(help.into());
        }
        url.path_segments_mut().map_err(|()| help)?.pop_if_empty().extend(["v1", "traces"]);
        Ok(Self(url))
    }
}

/// Sends spans to a collector until it is dropped.
pub struct Exporter(SdkTracerProvider);

impl Exporter {
    /// Starts to send spans under the name of a service. Headers for the collector, such as a password,
    /// are in the environment (`OTEL_EXPORTER_OTLP_HEADERS`).
    ///
    /// # Errors
    /// [`Error::Usage`] for a collector that cannot be sent to.
    pub fn open(service: &'static str, collector: &Collector) -> Result<Self> {
        tls::install_provider();
        let usage =
            |problem: &dyn fmt::Display| Error::Usage(format!("{}: {problem}", collector.0));
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(collector.0.as_str())
            .build()
            .map_err(|error| usage(&error))?;
        let resource = Resource::builder().with_service_name(service).build();
        let provider = SdkTracerProvider::builder();
        Ok(Self(provider.with_batch_exporter(exporter).with_resource(resource).build()))
    }

    /// Makes the layer of a subscriber that records the spans.
    pub fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(&self) -> impl Layer<S> + use<S> {
        let layer = tracing_opentelemetry::layer().with_tracer(self.0.tracer("sudare"));
        layer.with_location(false).with_threads(false).with_filter(filter_fn(is_ours))
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown_with_timeout(SHUTDOWN_TIMEOUT) {
            tracing::warn!(%error, "cannot send the last spans");
        }
    }
}

/// Returns whether a span or an event is of this program, not of a library.
fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("sudare")
}
