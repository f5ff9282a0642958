//! State metrics: what [`kruise_core::state_metrics`] tells about the objects in the cache, on an address of its own.
//!
//! - The page is written from the stores that controllers read; nothing is copied, and nothing is kept between two pages.
//! - Every replica answers, but only the one that leads tells about objects: two that do would have every sum twice. The others announce the families.
//! - There is no page before the first list of each kind is complete: half of the objects would look like a loss.
//! - A value that cannot be read is counted at every page, and named in the log once.

mod traffic;

use crate::platform::{Platform, Watched};
use kruise_api::{
    advancedcronjob::v1beta1::AdvancedCronJob, broadcastjob::v1beta1::BroadcastJob, cloneset::v1beta1::CloneSet,
    containerrecreaterequest::v1beta1::ContainerRecreateRequest, daemonset::v1beta1::DaemonSet,
    ephemeraljob::v1alpha1::EphemeralJob, imagelistpulljob::v1beta1::ImageListPullJob,
    imagepulljob::v1beta1::ImagePullJob, nodeimage::CachedNodeImage, nodepodprobe::CachedNodePodProbe,
    persistentpodstate::v1beta1::PersistentPodState, podprobemarker::v1alpha1::PodProbeMarker,
    podunavailablebudget::v1beta1::PodUnavailableBudget, resourcedistribution::v1beta1::ResourceDistribution,
    sidecarset::v1beta1::SidecarSet, statefulset::v1beta1::StatefulSet, uniteddeployment::v1beta1::UnitedDeployment,
    workloadspread::v1beta1::WorkloadSpread,
};
use kruise_core::state_metrics::{Exposition, Options, Sampled, Unreadable};
use kruise_runtime::{
    cache::{Store, SyncState},
    lease::Leadership,
};
use parking_lot::Mutex;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};
use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tracing::warn;
use traffic::TrafficCollector;

/// Writes pages of state metrics.
pub(crate) struct StateMetrics {
    kinds: Vec<Box<dyn KindPage>>,
    leadership: Leadership,
    /// Length of the last page, so that the next is written into one piece of memory.
    length: AtomicUsize,
    reported: Mutex<BTreeSet<Unreadable>>,
    unreadable: IntCounterVec,
    duration: HistogramVec,
}

/// The page of one kind.
trait KindPage: Send + Sync {
    /// Returns the name of the kind while its first list is not complete.
    fn pending(&self) -> Option<String>;
    /// Writes the page, with its objects or without.
    fn write(&self, with_objects: bool, out: &mut String) -> Vec<Unreadable>;
}

struct Watching<K: 'static> {
    store: Store<K>,
    exposition: Exposition<K>,
}

impl<K: Sampled> KindPage for Watching<K> {
    fn pending(&self) -> Option<String> {
        (self.store.state() == SyncState::Pending).then(|| self.store.resource().to_string())
    }

    fn write(&self, with_objects: bool, out: &mut String) -> Vec<Unreadable> {
        let objects = if with_objects { self.store.list() } else { Vec::new() };
        self.exposition.write(&objects, out)
    }
}

/// Asks for the store of a kind, if it is shown.
type Build = fn(&mut Platform, &Arc<Options>) -> Option<Box<dyn KindPage>>;

/// Every kind, by plural: the page has them in this order.
const KINDS: &[Build] = &[
    watch::<AdvancedCronJob>,
    watch::<BroadcastJob>,
    watch::<CloneSet>,
    watch::<ContainerRecreateRequest>,
    watch::<DaemonSet>,
    watch::<EphemeralJob>,
    watch::<ImageListPullJob>,
    watch::<ImagePullJob>,
    watch::<CachedNodeImage>,
    watch::<CachedNodePodProbe>,
    watch::<PersistentPodState>,
    watch::<PodProbeMarker>,
    watch::<PodUnavailableBudget>,
    watch::<ResourceDistribution>,
    watch::<SidecarSet>,
    watch::<StatefulSet>,
    watch::<UnitedDeployment>,
    watch::<WorkloadSpread>,
];

fn watch<K: Sampled + Watched>(platform: &mut Platform, options: &Arc<Options>) -> Option<Box<dyn KindPage>> {
    options.shows_resource(K::PLURAL).then(|| {
        let watching: Box<dyn KindPage> = Box::new(Watching::<K> {
            store: platform.store(),
            exposition: Exposition::new(options),
        });
        watching
    })
}

impl StateMetrics {
    /// Asks for the stores of all kinds that are shown. What it tells about itself is registered.
    pub(crate) fn new(
        platform: &mut Platform,
        options: &Arc<Options>,
        leadership: Leadership,
        registry: &Registry,
    ) -> prometheus::Result<Self> {
        let unreadable = IntCounterVec::new(
            Opts::new(
                "kruise_state_metrics_unreadable_values_total",
                "Values of objects that could not be read for a page of state metrics.",
            ),
            &["family"],
        )?;
        registry.register(Box::new(unreadable.clone()))?;
        let duration = HistogramVec::new(
            HistogramOpts::new(
                "http_request_duration_seconds",
                "How long it took to write a page of state metrics.",
            ),
            &["handler", "method"],
        )?;
        registry.register(Box::new(duration.clone()))?;
        let kinds = KINDS.iter().filter_map(|build| build(platform, options)).collect();
        registry.register(Box::new(TrafficCollector::new(platform.traffic())?))?;
        Ok(Self {
            kinds,
            leadership,
            length: AtomicUsize::default(),
            reported: Mutex::default(),
            unreadable,
            duration,
        })
    }

    /// Writes the page, or says why there is none yet.
    pub(crate) fn page(&self) -> Result<String, String> {
        let timer = self.duration.with_label_values(&["metrics", "get"]).start_timer();
        let pending: Vec<_> = self.kinds.iter().filter_map(|kind| kind.pending()).collect();
        if !pending.is_empty() {
            timer.stop_and_discard();
            return Err(format!("not listed yet: {}\n", pending.join(", ")));
        }
        let leads = self.leadership.leads();
        let mut page = String::with_capacity(self.length.load(Ordering::Relaxed));
        let mut unreadable = BTreeSet::new();
        for kind in &self.kinds {
            unreadable.extend(kind.write(leads, &mut page));
        }
        self.length.store(page.len() + page.len() / 16, Ordering::Relaxed);
        self.report(unreadable);
        timer.observe_duration();
        Ok(page)
    }

    fn report(&self, unreadable: BTreeSet<Unreadable>) {
        let mut reported = self.reported.lock();
        for value in &unreadable {
            self.unreadable.with_label_values(&[&value.family]).inc();
            if !reported.contains(value) {
                let Unreadable {
                    family,
                    namespace,
                    name,
                } = value;
                warn!(
                    family,
                    namespace, name, "this object has a value that cannot be read, and no sample"
                );
            }
        }
        *reported = unreadable;
    }
}

impl fmt::Debug for StateMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StateMetrics({} kinds)", self.kinds.len())
    }
}

#[cfg(test)]
mod tests;
