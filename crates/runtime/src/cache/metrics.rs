//! What the cache tells about itself.

use kruise_api::resource::Resource;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// Counters of all kinds.
#[derive(Clone, Debug)]
pub(super) struct CacheMetrics {
    objects: IntGaugeVec,
    missing: IntGaugeVec,
    unreadable: IntGaugeVec,
    lists: IntCounterVec,
    watches: IntCounterVec,
    events: IntCounterVec,
    errors: IntCounterVec,
    handler_panics: IntCounterVec,
}

/// Counters of one kind.
#[derive(Clone, Debug)]
pub(super) struct KindMetrics {
    pub(super) objects: IntGauge,
    pub(super) missing: IntGauge,
    pub(super) unreadable: IntGauge,
    pub(super) lists: IntCounter,
    pub(super) watches: IntCounter,
    pub(super) events: IntCounter,
    pub(super) errors: IntCounterVec,
    pub(super) handler_panics: IntCounter,
    kind: String,
}

const KIND: &[&str] = &["kind"];

impl CacheMetrics {
    pub(super) fn new(registry: &Registry) -> prometheus::Result<Self> {
        let this = Self {
            objects: IntGaugeVec::new(Opts::new("kruise_cache_objects", "Objects in the cache."), KIND)?,
            missing: IntGaugeVec::new(
                Opts::new(
                    "kruise_cache_kind_missing",
                    "1 while the API server does not serve the kind.",
                ),
                KIND,
            )?,
            unreadable: IntGaugeVec::new(
                Opts::new(
                    "kruise_cache_unreadable_objects",
                    "Objects that cannot be read and are left out.",
                ),
                KIND,
            )?,
            lists: IntCounterVec::new(Opts::new("kruise_cache_lists_total", "Lists that were finished."), KIND)?,
            watches: IntCounterVec::new(
                Opts::new("kruise_cache_watches_total", "Watches that were opened."),
                KIND,
            )?,
            events: IntCounterVec::new(Opts::new("kruise_cache_events_total", "Watch events taken in."), KIND)?,
            errors: IntCounterVec::new(
                Opts::new(
                    "kruise_cache_errors_total",
                    "Failures of lists and watches, by where they happened.",
                ),
                &["kind", "at"],
            )?,
            handler_panics: IntCounterVec::new(
                Opts::new(
                    "kruise_cache_subscriber_panics_total",
                    "Panics while a change was turned into work.",
                ),
                KIND,
            )?,
        };
        for gauge in [&this.objects, &this.missing, &this.unreadable] {
            registry.register(Box::new(gauge.clone()))?;
        }
        for counter in [
            &this.lists,
            &this.watches,
            &this.events,
            &this.errors,
            &this.handler_panics,
        ] {
            registry.register(Box::new(counter.clone()))?;
        }
        Ok(this)
    }

    pub(super) fn of(&self, kind: &str) -> KindMetrics {
        let label = &[kind];
        KindMetrics {
            objects: self.objects.with_label_values(label),
            missing: self.missing.with_label_values(label),
            unreadable: self.unreadable.with_label_values(label),
            lists: self.lists.with_label_values(label),
            watches: self.watches.with_label_values(label),
            events: self.events.with_label_values(label),
            errors: self.errors.clone(),
            handler_panics: self.handler_panics.with_label_values(label),
            kind: kind.to_owned(),
        }
    }
}

/// What the cache asked the API server for so far, kind by kind.
#[derive(Clone, Debug, Default)]
pub struct Traffic(Vec<(&'static Resource, KindMetrics)>);

/// What was asked of one kind so far.
#[derive(Clone, Copy, Debug)]
pub struct KindTraffic {
    pub resource: &'static Resource,
    /// Lists that were finished.
    pub lists: u64,
    pub list_errors: u64,
    /// Watches that were opened.
    pub watches: u64,
    /// Watches that could not be opened, or broke. One that fell behind is none of them: that is how the server says to list again.
    pub watch_errors: u64,
}

impl Traffic {
    pub(super) fn add(&mut self, resource: &'static Resource, metrics: KindMetrics) {
        self.0.push((resource, metrics));
    }

    /// Returns the counts of every kind.
    pub fn kinds(&self) -> impl Iterator<Item = KindTraffic> {
        self.0.iter().map(|(resource, metrics)| KindTraffic {
            resource,
            lists: metrics.lists.get(),
            list_errors: metrics.failures(&["list", "no-version"]),
            watches: metrics.watches.get(),
            watch_errors: metrics.failures(&["watch-start", "watch"]),
        })
    }
}

impl KindMetrics {
    fn failures(&self, at: &[&str]) -> u64 {
        let count = |at: &&str| self.errors.with_label_values(&[self.kind.as_str(), at]).get();
        at.iter().map(count).sum()
    }

    /// The kind is not watched any more.
    pub(super) fn end(&self) {
        for gauge in [&self.objects, &self.missing, &self.unreadable] {
            gauge.set(0);
        }
    }

    pub(super) fn failed(&self, at: &str) {
        self.errors.with_label_values(&[self.kind.as_str(), at]).inc();
    }
}
