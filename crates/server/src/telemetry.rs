//! Telemetry: log lines, and spans of requests and jobs.

use crate::cluster::Collector;
#[cfg(feature = "cluster")]
use crate::cluster::otlp::Exporter;
use sudare_roles::error::Result;
use tracing::{Span, field::Empty, level_filters::LevelFilter};
use tracing_subscriber::{
    Layer, Registry, filter::filter_fn, fmt as lines, layer::SubscriberExt, util::SubscriberInitExt,
};

/// Holds the exporter of spans, which sends the last ones when it is dropped.
pub struct Telemetry {
    #[cfg(feature = "cluster")]
    _exporter: Option<Exporter>,
}

impl Telemetry {
    /// Starts to write log lines to standard error, in JSON, and to send spans of `service` to the collector,
    /// if there is one.
    ///
    /// # Errors
    /// [`Error::Usage`](sudare_roles::error::Error::Usage) for a collector that cannot be sent to.
    pub fn start(service: &'static str, collector: Option<&Collector>) -> Result<Self> {
        let subscriber = Registry::default().with(LevelFilter::INFO);
        #[cfg(feature = "cluster")]
        let exporter = collector.map(|to| Exporter::open(service, to)).transpose()?;
        #[cfg(feature = "cluster")]
        let subscriber = subscriber.with(exporter.as_ref().map(Exporter::layer));
        #[cfg(not(feature = "cluster"))]
        let _ = (service, collector);
        let lines = lines::layer().json().with_writer(std::io::stderr);
        let lines = lines.with_filter(filter_fn(|metadata| metadata.is_event()));
        // A process has one subscriber, and a caller may have set it.
        let _ = subscriber.with(lines).try_init();
        Ok(Self {
            #[cfg(feature = "cluster")]
            _exporter: exporter,
        })
    }
}

/// Opens the span of a request. `route` has names in place of the parts that vary, since a path itself
/// may reveal more than a collector should know. [`responded`] completes the span.
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

/// Records the status of the response in the span of a request.
pub fn responded(span: &Span, status: u16) {
    span.record("http.response.status_code", status);
    // By the conventions of OpenTelemetry a 4xx is the client's fault, and no error of a server's
    // span.
    if status >= 500 {
        span.record("otel.status_code", "ERROR");
    }
}

/// Opens the span of a job. Log lines about the job are events of the span.
pub fn job(kind: &str, id: &str) -> Span {
    tracing::info_span!("job", otel.name = kind, job = id)
}
