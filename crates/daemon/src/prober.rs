//! Containers are probed as the NodePodProbe of this node asks, and what is found is reported in its status.
//!
//! - Each probe of a Pod has a worker of its own, which makes one check at a time: [`worker`]. What the checks mean is decided by [`course`].
//! - A changed probe is taken over by its worker between two checks. With another handler, container or address it begins anew.
//! - The status has the probes that are asked for, in that order. What an earlier daemon found stays until there is something new.
//! - It is written when a state or a message has changed, and for each probe every ten minutes in any case; what comes within a moment goes into one write, and
//!   there are five writes at once and then one a second.
//! - A changed result is an event on the Pod; that nothing is known is none.
//!
//! One task owns all of this; workers send it what they find.

mod course;
mod handler;
mod report;
mod worker;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kruise_api::kind::Kind as _;
use kruise_api::names::component::source;
use kruise_api::names::event;
use kruise_api::nodepodprobe::v1alpha1::NodePodProbe;
use kruise_api::nodepodprobe::{ContainerProbeState, NodePodProbeStatus, PodProbe};
use kruise_api::pod::Pod;
use kruise_api::resource::Preconditions;
use kruise_api::shared::probing::ProbeState;
use kruise_cri::Runtime;
use kruise_runtime::back_off::BackOff;
use kruise_runtime::cache::Store;
use kruise_runtime::error::{Class, Error};
use kruise_runtime::events::{Recorder, Regarding};
use kruise_runtime::queue::limit::Bucket;
use kruise_runtime::shutdown::CancellationToken;
use kruise_runtime::writer::{Patch, Target, Writer};
use serde_json::json;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::platform::Platform;
use report::ProbeKey;
use worker::{Asked, Finding, Worker};

/// Reports at once, and one more each time this has passed.
const REPORTS_AT_ONCE: u32 = 5;
const BETWEEN_REPORTS: Duration = Duration::from_secs(1);
/// What comes within this time goes into one report.
const GATHERING: Duration = Duration::from_millis(100);
/// How long nothing may be written when nothing happens. Workers say something more often.
const QUIET: Duration = Duration::from_hours(1);
/// Pauses after a report that could not be written.
const BACK_OFF: BackOff = BackOff::new(Duration::from_millis(500), Duration::from_secs(50));

/// The one who owns all probes.
pub(crate) struct Prober {
    node: String,
    lists: Store<NodePodProbe>,
    runtime: Runtime,
    writer: Writer,
    recorder: Recorder,
    started: Instant,
    probes: BTreeMap<ProbeKey, Probing>,
    /// Workers that were told to end and may still be at their last check.
    leaving: BTreeMap<ProbeKey, JoinHandle<()>>,
    /// How many workers there have been.
    begun: u64,
    /// Whose probes these are: another NodePodProbe of the same name begins anew.
    uid: String,
    send_findings: mpsc::UnboundedSender<(ProbeKey, Finding)>,
    findings: mpsc::UnboundedReceiver<(ProbeKey, Finding)>,
    /// Since when there is something to report.
    since: Option<Instant>,
    reports: Bucket,
    failures: u32,
    last: Option<Reported>,
}

/// A probe that is asked for.
struct Probing {
    about: Regarding,
    asked: watch::Sender<Asked>,
    /// Which of all workers this one is; what an earlier one still says is of no interest.
    number: u64,
    worker: JoinHandle<()>,
    /// What is reported; nothing before anything is known.
    state: Option<ContainerProbeState>,
}

/// The last report that was written.
struct Reported {
    status: NodePodProbeStatus,
    version: u64,
}

impl Prober {
    pub(crate) fn new(platform: &Platform, lists: Store<NodePodProbe>) -> Self {
        let (send_findings, findings) = mpsc::unbounded_channel();
        Self {
            node: platform.node().to_owned(),
            lists,
            runtime: platform.runtimes().first().clone(),
            writer: platform.writer("pod-probe"),
            recorder: platform.recorder(source::DAEMON_POD_PROBE),
            started: Instant::now(),
            probes: BTreeMap::new(),
            leaving: BTreeMap::new(),
            begun: 0,
            uid: String::new(),
            send_findings,
            findings,
            since: None,
            reports: Bucket::new(1.0 / BETWEEN_REPORTS.as_secs_f64(), REPORTS_AT_ONCE),
            failures: 0,
            last: None,
        }
    }

    /// Works until `stop`; the next daemon goes on from what was reported.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<(), Infallible> {
        let changed = Arc::new(Notify::new());
        let wake = changed.clone();
        self.lists.subscribe(move |event| {
            let asked =
                |list: Option<&Arc<NodePodProbe>>| list.map(|list| (list.metadata.uid.clone(), list.spec.clone()));
            if event.old.is_none() || asked(event.old) != asked(event.new) {
                wake.notify_one();
            }
        });
        self.sync();
        loop {
            let pause = self.report().await;
            tokio::select! {
                () = stop.cancelled() => break,
                () = changed.notified() => self.sync(),
                Some((key, finding)) = self.findings.recv() => self.on_finding(&key, finding),
                () = tokio::time::sleep(pause) => {}
            }
            while let Ok((key, finding)) = self.findings.try_recv() {
                self.on_finding(&key, finding);
            }
        }
        for key in self.probes.keys().cloned().collect::<Vec<_>>() {
            self.end(&key);
        }
        Ok(())
    }

    /// Brings workers in line with what is asked for.
    fn sync(&mut self) {
        let list = self.lists.get("", &self.node);
        let uid = list
            .as_ref()
            .and_then(|list| list.metadata.uid.clone())
            .unwrap_or_default();
        if uid != self.uid {
            self.uid = uid;
            self.last = None;
            for key in self.probes.keys().cloned().collect::<Vec<_>>() {
                self.end(&key);
            }
        }
        self.leaving.retain(|_, worker| !worker.is_finished());
        let Some(list) = list else { return };
        let mut asked = BTreeMap::new();
        for pod in &list.spec.pod_probes {
            for probe in &pod.probes {
                asked
                    .entry(ProbeKey::new(&pod.uid, &probe.name))
                    .or_insert((pod, probe));
            }
        }
        let dropped: Vec<ProbeKey> = self
            .probes
            .keys()
            .filter(|key| !asked.contains_key(key))
            .cloned()
            .collect();
        for key in &dropped {
            self.end(key);
        }
        for (key, (pod, probe)) in asked {
            let asked = Asked {
                container: probe.container_name.clone(),
                address: pod.ip.clone(),
                probe: probe.probe.clone(),
            };
            match self.probes.get(&key) {
                Some(known) => drop(known.asked.send_if_modified(|now| {
                    let changed = *now != asked;
                    *now = asked;
                    changed
                })),
                None => self.begin(key, pod, asked, report::reported(&list, &pod.uid, &probe.name)),
            }
        }
        // Probes that were dropped leave the report as well.
        self.since.get_or_insert_with(Instant::now);
    }

    fn begin(&mut self, key: ProbeKey, pod: &PodProbe, asked: Asked, reported: Option<ContainerProbeState>) {
        self.begun += 1;
        let (send, receive) = watch::channel(asked);
        let worker = Worker {
            key: key.clone(),
            number: self.begun,
            runtime: self.runtime.clone(),
            asked: receive,
            findings: self.send_findings.clone(),
            daemon_started: self.started,
        };
        let (before, known) = (self.leaving.remove(&key), reported.clone());
        let worker = tokio::spawn(async move {
            if let Some(before) = before {
                // It was told to end. Two checks of one probe never meet.
                let _ = before.await;
            }
            worker.run(known).await;
        });
        let probing = Probing {
            about: Regarding::new(Pod::RESOURCE, &pod.namespace, &pod.name, &pod.uid),
            asked: send,
            number: self.begun,
            worker,
            state: reported,
        };
        self.probes.insert(key, probing);
    }

    fn end(&mut self, key: &ProbeKey) {
        if let Some(probing) = self.probes.remove(key) {
            probing.worker.abort();
            self.leaving.insert(key.clone(), probing.worker);
        }
    }

    fn on_finding(&mut self, key: &ProbeKey, finding: Finding) {
        let probing = self.probes.get_mut(key);
        let Some(probing) = probing.filter(|probing| probing.number == finding.worker) else {
            return;
        };
        let old = probing.state.as_ref();
        let is_new = old.is_none_or(|old| old.state != finding.state || old.message != finding.message);
        if is_new && finding.state != ProbeState::Unknown {
            let reason = if finding.state == ProbeState::Succeeded {
                event::PROBE_SUCCEEDED
            } else {
                event::PROBE_FAILED
            };
            self.recorder.normal(&probing.about, reason, finding.message.clone());
        }
        probing.state = Some(report::state(
            &key.probe,
            old,
            finding.state,
            finding.message,
            Timestamp::now(),
        ));
        self.since.get_or_insert_with(Instant::now);
    }

    /// Writes the report if there is something new. Gives the time after which to look again.
    async fn report(&mut self) -> Duration {
        let Some(since) = self.since else { return QUIET };
        let left = GATHERING.saturating_sub(since.elapsed());
        if !left.is_zero() {
            return left;
        }
        let Some(list) = self.lists.get("", &self.node) else {
            self.since = None;
            return QUIET;
        };
        let status = report::status(&list, |key| {
            self.probes.get(key).and_then(|probing| probing.state.clone())
        });
        let seen = self.lists.version(&list).resource_version;
        let shown = match &self.last {
            // The cache does not show yet what we wrote.
            Some(last) if last.version > seen => Some(&last.status),
            _ => list.status.as_ref(),
        };
        // No report is as good as one of nothing.
        if shown.map_or_else(|| status == NodePodProbeStatus::default(), |shown| *shown == status) {
            self.since = None;
            return QUIET;
        }
        if !self.reports.try_take(Instant::now().into_std()) {
            return BETWEEN_REPORTS;
        }
        match self.write(&status).await {
            Ok(version) => {
                self.failures = 0;
                self.since = None;
                self.last = Some(Reported { status, version });
                QUIET
            }
            Err(error) if error.class() == Class::Gone => {
                self.since = None;
                QUIET
            }
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                tracing::warn!("what probes found cannot be reported: {error}");
                BACK_OFF.after(self.failures)
            }
        }
    }

    async fn write(&self, status: &NodePodProbeStatus) -> Result<u64, Error> {
        let target = Target::new(self.lists.resource(), "", &self.node).status();
        let patch = Patch::Json(vec![json!({ "op": "add", "path": "/status", "value": status })]);
        let same = Preconditions::uid(&self.uid);
        let written = self.writer.patch(&target, patch, &same).await?;
        Ok(written.resource_version.parse().unwrap_or(0))
    }
}
