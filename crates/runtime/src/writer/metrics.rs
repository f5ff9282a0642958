//! What the writer tells about itself.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry};

/// The counters of all writers of a process.
#[derive(Clone, Debug)]
pub struct WriterMetrics {
    writes: IntCounterVec,
    seconds: HistogramVec,
    pub(super) limit: IntGauge,
}

impl WriterMetrics {
    /// Registers the counters.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let this = Self {
            writes: IntCounterVec::new(
                Opts::new(
                    "kruise_writes_total",
                    "Writes to the API server, by how they ended: ok or the class of the error.",
                ),
                &["controller", "verb", "resource", "result"],
            )?,
            seconds: HistogramVec::new(
                HistogramOpts::new(
                    "kruise_write_duration_seconds",
                    "How long the API server took to answer a write.",
                )
                .buckets(vec![
                    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
                ]),
                &["verb", "resource"],
            )?,
            limit: IntGauge::new(
                "kruise_write_concurrency_limit",
                "Writes that may be under way at the same time, as the API server lets us.",
            )?,
        };
        registry.register(Box::new(this.writes.clone()))?;
        registry.register(Box::new(this.seconds.clone()))?;
        registry.register(Box::new(this.limit.clone()))?;
        Ok(this)
    }

    pub(super) fn wrote(&self, controller: &str, verb: &str, resource: &str, result: &str, took: Option<Duration>) {
        self.writes
            .with_label_values(&[controller, verb, resource, result])
            .inc();
        if let Some(took) = took {
            self.seconds
                .with_label_values(&[verb, resource])
                .observe(took.as_secs_f64());
        }
    }
}
