//! The numbers of work queues, under the names that dashboards know.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

use super::state::Ages;

/// The counters of all queues of a process. Register once, then give it to every queue.
#[derive(Clone)]
pub struct QueueMetrics {
    depth: IntGaugeVec,
    adds: IntCounterVec,
    retries: IntCounterVec,
    waited: HistogramVec,
    worked: HistogramVec,
    in_flight: InFlight,
}

/// The counters of one queue.
pub(super) struct Meter {
    pub(super) depth: IntGauge,
    pub(super) adds: IntCounter,
    pub(super) retries: IntCounter,
    pub(super) waited: Histogram,
    pub(super) worked: Histogram,
}

const NAME: &[&str] = &["name"];

impl QueueMetrics {
    /// Registers the counters.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        // From ten nanoseconds to ten seconds, as client-go has them.
        let buckets: Vec<f64> = (-8..=1).map(|exponent| 10_f64.powi(exponent)).collect();
        let histogram =
            |name: &str, help: &str| HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.clone()), NAME);
        let this = Self {
            depth: IntGaugeVec::new(Opts::new("workqueue_depth", "Keys that wait to be handed out."), NAME)?,
            adds: IntCounterVec::new(Opts::new("workqueue_adds_total", "Keys that were added."), NAME)?,
            retries: IntCounterVec::new(
                Opts::new("workqueue_retries_total", "Keys that were added after a failure."),
                NAME,
            )?,
            waited: histogram("workqueue_queue_duration_seconds", "How long a key waited.")?,
            worked: histogram("workqueue_work_duration_seconds", "How long a key was worked on.")?,
            in_flight: InFlight::new()?,
        };
        registry.register(Box::new(this.depth.clone()))?;
        registry.register(Box::new(this.adds.clone()))?;
        registry.register(Box::new(this.retries.clone()))?;
        registry.register(Box::new(this.waited.clone()))?;
        registry.register(Box::new(this.worked.clone()))?;
        registry.register(Box::new(this.in_flight.clone()))?;
        Ok(this)
    }

    pub(super) fn meter(&self, name: &str) -> Meter {
        let label = &[name];
        Meter {
            depth: self.depth.with_label_values(label),
            adds: self.adds.with_label_values(label),
            retries: self.retries.with_label_values(label),
            waited: self.waited.with_label_values(label),
            worked: self.worked.with_label_values(label),
        }
    }

    /// Asks `ages` at each scrape.
    pub(super) fn ask(&self, name: &str, ages: impl Fn() -> Option<Ages> + Send + Sync + 'static) {
        self.in_flight.queues.lock().insert(name.to_owned(), Box::new(ages));
    }
}

impl std::fmt::Debug for QueueMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("QueueMetrics")
    }
}

type AskAges = Box<dyn Fn() -> Option<Ages> + Send + Sync>;

/// Ages of keys in flight: they grow by themselves, so they are looked up when somebody asks.
#[derive(Clone)]
struct InFlight {
    queues: Arc<Mutex<BTreeMap<String, AskAges>>>,
    unfinished: GaugeVec,
    longest: GaugeVec,
}

impl InFlight {
    fn new() -> prometheus::Result<Self> {
        Ok(Self {
            queues: Arc::default(),
            unfinished: GaugeVec::new(
                Opts::new(
                    "workqueue_unfinished_work_seconds",
                    "Seconds of work in flight, all keys together.",
                ),
                NAME,
            )?,
            longest: GaugeVec::new(
                Opts::new(
                    "workqueue_longest_running_processor_seconds",
                    "Seconds of the key in flight that takes longest.",
                ),
                NAME,
            )?,
        })
    }
}

impl Collector for InFlight {
    fn desc(&self) -> Vec<&Desc> {
        [self.unfinished.desc(), self.longest.desc()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        for (name, ages) in &*self.queues.lock() {
            let ages = ages().unwrap_or_default();
            self.unfinished.with_label_values(&[name]).set(ages.total.as_secs_f64());
            self.longest.with_label_values(&[name]).set(ages.longest.as_secs_f64());
        }
        [self.unfinished.collect(), self.longest.collect()].concat()
    }
}
