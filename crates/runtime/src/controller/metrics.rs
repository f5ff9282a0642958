//! The numbers of controllers, under the names that dashboards know.

use std::time::Duration;

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

/// The counters of all controllers of a process.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    total: IntCounterVec,
    errors: IntCounterVec,
    terminal_errors: IntCounterVec,
    panics: IntCounterVec,
    timeouts: IntCounterVec,
    seconds: HistogramVec,
    workers: IntGaugeVec,
    active: IntGaugeVec,
}

/// The counters of one controller.
#[derive(Debug)]
pub(super) struct Meter {
    name: String,
    total: IntCounterVec,
    pub(super) errors: IntCounter,
    pub(super) terminal_errors: IntCounter,
    pub(super) panics: IntCounter,
    pub(super) timeouts: IntCounter,
    seconds: Histogram,
    pub(super) active: IntGauge,
}

const CONTROLLER: &[&str] = &["controller"];

/// Bounds of the histogram, as controller-runtime has them.
const SECONDS: [f64; 36] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 30.0,
];

impl ControllerMetrics {
    /// Registers the counters.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str| IntCounterVec::new(Opts::new(name, help), CONTROLLER);
        let this = Self {
            total: IntCounterVec::new(
                Opts::new("controller_runtime_reconcile_total", "Reconciles, by how they ended."),
                &["controller", "result"],
            )?,
            errors: counter("controller_runtime_reconcile_errors_total", "Reconciles that failed.")?,
            terminal_errors: counter(
                "controller_runtime_terminal_reconcile_errors_total",
                "Reconciles that failed in a way that only a change can mend.",
            )?,
            panics: counter("controller_runtime_reconcile_panics_total", "Reconciles that panicked.")?,
            timeouts: counter(
                "kruise_reconcile_timeouts_total",
                "Reconciles that were ended by their deadline.",
            )?,
            seconds: HistogramVec::new(
                HistogramOpts::new("controller_runtime_reconcile_time_seconds", "How long reconciles took.")
                    .buckets([&SECONDS[..], &[40.0, 50.0, 60.0]].concat()),
                CONTROLLER,
            )?,
            workers: IntGaugeVec::new(
                Opts::new(
                    "controller_runtime_max_concurrent_reconciles",
                    "Workers of a controller.",
                ),
                CONTROLLER,
            )?,
            active: IntGaugeVec::new(
                Opts::new("controller_runtime_active_workers", "Workers that are busy."),
                CONTROLLER,
            )?,
        };
        for counter in [
            &this.total,
            &this.errors,
            &this.terminal_errors,
            &this.panics,
            &this.timeouts,
        ] {
            registry.register(Box::new(counter.clone()))?;
        }
        for gauge in [&this.workers, &this.active] {
            registry.register(Box::new(gauge.clone()))?;
        }
        registry.register(Box::new(this.seconds.clone()))?;
        Ok(this)
    }

    pub(super) fn meter(&self, name: &str, workers: usize) -> Meter {
        let label = &[name];
        self.workers.with_label_values(label).set(workers as i64);
        // All results are there from the start, so that a dashboard shows 0 and not nothing.
        for result in ["success", "error", "requeue", "requeue_after"] {
            self.total.with_label_values(&[name, result]);
        }
        Meter {
            name: name.to_owned(),
            total: self.total.clone(),
            errors: self.errors.with_label_values(label),
            terminal_errors: self.terminal_errors.with_label_values(label),
            panics: self.panics.with_label_values(label),
            timeouts: self.timeouts.with_label_values(label),
            seconds: self.seconds.with_label_values(label),
            active: self.active.with_label_values(label),
        }
    }
}

impl Meter {
    pub(super) fn ended(&self, result: &str, took: Duration) {
        self.total.with_label_values(&[self.name.as_str(), result]).inc();
        self.seconds.observe(took.as_secs_f64());
    }
}
