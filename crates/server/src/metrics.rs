//! Metrics in the text format of Prometheus, version 0.0.4, and histograms of times.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Upper bounds of histograms of responses, in seconds.
const RESPONSE_BOUNDS: &[f64] =
    &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// Upper bounds of histograms of jobs, in seconds: up to a day.
const JOB_BOUNDS: &[f64] =
    &[1.0, 5.0, 15.0, 30.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 14400.0, 43200.0, 86400.0];

/// Times since the start of the server.
pub struct Times {
    /// From requests to the heads of their responses, by method and route.
    pub responses: Histograms<2>,
    /// From the last starts of jobs to their ends, by kind and state.
    pub jobs: Histograms<2>,
    /// From the requests of jobs to their last starts, by kind.
    pub waits: Histograms<1>,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            responses: Histograms::new(["method", "route"], RESPONSE_BOUNDS),
            jobs: Histograms::new(["kind", "state"], JOB_BOUNDS),
            waits: Histograms::new(["kind"], JOB_BOUNDS),
        }
    }
}

/// A histogram for each combination of the values of some labels.
pub struct Histograms<const LABELS: usize> {
    labels: [&'static str; LABELS],
    bounds: &'static [f64],
    found: Mutex<BTreeMap<[String; LABELS], Histogram>>,
}

/// Numbers of times up to each bound, and their number and sum.
#[derive(Clone, Default)]
struct Histogram {
    up_to: Vec<u64>,
    count: u64,
    sum: f64,
}

impl<const LABELS: usize> Histograms<LABELS> {
    fn new(labels: [&'static str; LABELS], bounds: &'static [f64]) -> Self {
        Self { labels, bounds, found: Mutex::default() }
    }

    /// Adds a time. The values of labels must be few, because each combination has a histogram.
    pub fn observe(&self, values: [&str; LABELS], time: Duration) {
        let seconds = time.as_secs_f64();
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let of = found.entry(values.map(str::to_owned)).or_default();
        of.up_to.resize(self.bounds.len(), 0);
        for (count, bound) in of.up_to.iter_mut().zip(self.bounds) {
            *count = count.saturating_add(u64::from(seconds <= *bound));
        }
        of.count = of.count.saturating_add(1);
        of.sum += seconds;
    }
}

/// A page of metrics.
#[derive(Default)]
pub struct Text(String);

impl Text {
    /// Begins the metric `name`, of the type `kind`.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) -> &mut Self {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
        self
    }

    /// Writes a value. Values of labels need no escapes: they have letters, digits and simple signs.
    pub fn value(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        match labels.is_empty() {
            true => self.line(format_args!("{name} {value}")),
            false => self.line(format_args!("{name}{{{}}} {value}", labels.join(","))),
        }
    }

    /// Writes histograms as the metric `name`.
    pub fn histograms<const LABELS: usize>(
        &mut self,
        name: &str,
        help: &str,
        all: &Histograms<LABELS>,
    ) {
        self.family(name, "histogram", help);
        // Copied, so that requests do not wait until the text is made.
        let found = all.found.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (values, of) in &found {
            let labels: Vec<_> =
                all.labels.into_iter().zip(values.iter().map(|value| &value[..])).collect();
            let bounds = all.bounds.iter().map(f64::to_string).zip(&of.up_to);
            for (bound, count) in bounds.chain([("+Inf".to_owned(), &of.count)]) {
                let labels = [&labels[..], &[("le", &bound[..])]].concat();
                self.value(&format!("{name}_bucket"), &labels, *count as f64);
            }
            self.value(&format!("{name}_sum"), &labels, of.sum);
            self.value(&format!("{name}_count"), &labels, of.count as f64);
        }
    }

    /// Returns the page.
    pub fn finish(self) -> String {
        self.0
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Buckets are cumulative, as Prometheus defines them, and the last one counts all.
    #[test]
    fn histograms_count_up_to_each_bound() {
        let times = Histograms::new(["kind", "state"], &[0.5, 2.0]);
        for seconds in [0.25, 0.5, 1.0, 7.0] {
            times.observe(["train", "done"], Duration::from_secs_f64(seconds));
        }
        times.observe(["stats", "failed"], Duration::ZERO);
        let mut text = Text::default();
        text.histograms("x_seconds", "Some times", &times);
        let expected = "# HELP x_seconds Some times\n# TYPE x_seconds histogram\n\
            x_seconds_bucket{kind=\"stats\",state=\"failed\",le=\"0.5\"} 1\n\
            x_seconds_bucket{kind=\"stats\",state=\"failed\",le=\"2\"} 1\n\
            x_seconds_bucket{kind=\"stats\",state=\"failed\",le=\"+Inf\"} 1\n\
            x_seconds_sum{kind=\"stats\",state=\"failed\"} 0\n\
            x_seconds_count{kind=\"stats\",state=\"failed\"} 1\n\
            x_seconds_bucket{kind=\"train\",state=\"done\",le=\"0.5\"} 2\n\
            x_seconds_bucket{kind=\"train\",state=\"done\",le=\"2\"} 3\n\
            x_seconds_bucket{kind=\"train\",state=\"done\",le=\"+Inf\"} 4\n\
            x_seconds_sum{kind=\"train\",state=\"done\"} 8.75\n\
            x_seconds_count{kind=\"train\",state=\"done\"} 4\n";
        assert_eq!(text.finish(), expected);
    }

    #[test]
    fn bounds_rise() {
        assert!(RESPONSE_BOUNDS.is_sorted() && JOB_BOUNDS.is_sorted());
    }
}
