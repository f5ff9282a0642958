//! Lists and watches of the kinds in the cache, under the names that alerts on state metrics know: with the prefix that the exporter is documented with, and with the
//! one that it has. Nothing is sharded.

use std::collections::HashMap;

use kruise_runtime::cache::Traffic;
use parking_lot::Mutex;
use prometheus::{
    IntCounterVec, IntGauge, IntGaugeVec, Opts,
    core::{Collector, Desc},
    proto::MetricFamily,
};

const LABELS: &[&str] = &["result", "resource"];

pub(super) struct TrafficCollector {
    traffic: Traffic,
    lists: [IntCounterVec; 2],
    watches: [IntCounterVec; 2],
    shards: [IntGauge; 2],
    ordinals: [IntGaugeVec; 2],
    /// What was counted so far: a counter cannot be set.
    counted: Mutex<HashMap<(usize, String, &'static str), u64>>,
}

impl TrafficCollector {
    pub(super) fn new(traffic: Traffic) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str| IntCounterVec::new(Opts::new(name, help), LABELS);
        let total = |name: &str, help: &str| IntGauge::new(name, help);
        let ordinal = |name: &str, help: &str| IntGaugeVec::new(Opts::new(name, help), &["shard_ordinal"]);
        let this = Self {
            traffic,
            lists: [
                counter("kruise_state_metrics_list_total", "Lists of a kind, by how they ended.")?,
                counter("kube_state_metrics_list_total", "Lists of a kind, by how they ended.")?,
            ],
            watches: [
                counter(
                    "kruise_state_metrics_watch_total",
                    "Watches of a kind, by how they ended.",
                )?,
                counter(
                    "kube_state_metrics_watch_total",
                    "Watches of a kind, by how they ended.",
                )?,
            ],
            shards: [
                total("kruise_state_metrics_total_shards", "Always 1: nothing is sharded.")?,
                total("kube_state_metrics_total_shards", "Always 1: nothing is sharded.")?,
            ],
            ordinals: [
                ordinal("kruise_state_metrics_shard_ordinal", "Always 0: nothing is sharded.")?,
                ordinal("kube_state_metrics_shard_ordinal", "Always 0: nothing is sharded.")?,
            ],
            counted: Mutex::default(),
        };
        for total in &this.shards {
            total.set(1);
        }
        for ordinal in &this.ordinals {
            ordinal.with_label_values(&["0"]).set(0);
        }
        Ok(this)
    }

    fn all(&self) -> Vec<&dyn Collector> {
        let mut all: Vec<&dyn Collector> = Vec::new();
        all.extend(
            self.lists
                .iter()
                .chain(&self.watches)
                .map(|counter| counter as &dyn Collector),
        );
        all.extend(self.shards.iter().map(|gauge| gauge as &dyn Collector));
        all.extend(self.ordinals.iter().map(|gauge| gauge as &dyn Collector));
        all
    }
}

impl Collector for TrafficCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.all().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut counted = self.counted.lock();
        for kind in self.traffic.kinds() {
            let resource = format!("*{}.{}", kind.resource.version, kind.resource.kind);
            for (family, (counters, result, now)) in [
                (&self.lists, "success", kind.lists),
                (&self.lists, "error", kind.list_errors),
                (&self.watches, "success", kind.watches),
                (&self.watches, "error", kind.watch_errors),
            ]
            .into_iter()
            .enumerate()
            {
                let before = counted.entry((family, resource.clone(), result)).or_default();
                for counter in counters {
                    counter
                        .with_label_values(&[result, &resource])
                        .inc_by(now.saturating_sub(*before));
                }
                *before = now.max(*before);
            }
        }
        self.all().into_iter().flat_map(Collector::collect).collect()
    }
}
