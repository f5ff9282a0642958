//! PodProbeMarker: probes of its user's own for the containers of Pods. What they find becomes a condition, labels or annotations of the Pod.
//!
//! 1. The Pods are those of the namespace that its selector chooses, that are active, initialized and on a node that exists ([`is_probed`]).
//! 2. Each of their nodes has a NodePodProbe, the work of the node's daemon: the marker's probes of each Pod are listed there under
//!    `<marker>#<probe>` ([`distribute`]). What no longer belongs there goes: probes that were dropped, and Pods that are not chosen any more.
//! 3. A finalizer keeps a marker that is deleted until its probes are gone from every node.
//! 4. On virtual nodes there is no daemon. With gate `EnablePodProbeMarkerOnServerless` whoever runs the Pods there also probes them and writes the
//!    conditions; the marker adds labels and annotations ([`serverless`]).
//!
//! What the daemons find is written to Pods by [`crate::nodepodprobe`].

mod admit;
mod distribute;
mod handler;
mod serverless;
#[cfg(test)]
mod tests;
pub mod validate;

use std::collections::BTreeMap;
use std::sync::Arc;

use kruise_api::gates::Gate;
use kruise_api::names::{annotation, finalizer};
use kruise_api::node::Node;
use kruise_api::nodepodprobe::CachedNodePodProbe;
use kruise_api::pod::Pod;
use kruise_api::podprobemarker::v1alpha1::PodProbeMarker;
use kruise_api::podprobemarker::{PodProbeMarkerSpec, PodProbeMarkerStatus};
use kruise_api::resource::Preconditions;
use serde_json::json;

use crate::admission;
use crate::plan::why;
use crate::plan::{Action, Chain, Env, OnFailure, Outcome, Pace, Phase, Plan, PodNames, Step, Target};
use crate::shared::availability::is_active;
use crate::shared::explain::explain_last;
use crate::shared::probe_marks::Written;
use crate::shared::{selector, status};

/// A PodProbeMarker as a user submitted it.
pub type Submitted = admission::Submitted<PodProbeMarkerSpec>;

/// A marker and what it depends on.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The marker.
    pub marker: Arc<PodProbeMarker>,
    /// The Pods of its namespace that its selector chooses.
    pub pods: Vec<Arc<Pod>>,
    /// The nodes of these Pods, by name.
    pub nodes: BTreeMap<String, Arc<Node>>,
    /// The NodePodProbes of these nodes, and all others that list probes of the marker, by name.
    pub node_probes: BTreeMap<String, Arc<CachedNodePodProbe>>,
    /// What was written to Pods last.
    pub written: Written,
    /// What came of the last plan.
    pub last: Outcome,
}

impl crate::plan::Observation for Observed {
    fn plan(&self, env: &Env) -> Plan {
        plan(self, env)
    }
}

/// Whether a Pod can be probed: it has neither ended nor is it on its way out, its init containers have finished, and it has a node.
pub fn is_probed(pod: &Pod) -> bool {
    is_active(pod) && pod.status.is_true(INITIALIZED) && !pod.spec.node_name.is_empty()
}

const INITIALIZED: &str = "Initialized";

/// Whether a marker chooses a Pod of its namespace.
pub fn chooses(marker: &PodProbeMarker, pod: &Pod) -> bool {
    selects(marker, |key| pod.metadata.label(key))
}

/// The same, by its labels; `label` looks one up.
pub fn selects<'a>(marker: &PodProbeMarker, label: impl Fn(&str) -> Option<&'a str>) -> bool {
    let labels = marker
        .spec
        .selector
        .as_ref()
        .filter(|labels| !selector::is_empty(labels));
    labels.is_some_and(|labels| selector::matches(labels, label))
}

/// Whether a change of a Pod is one for a marker that chooses or chose it. On a virtual node conditions count that the marker knows.
pub fn concerns(marker: &PodProbeMarker, old: Option<&Pod>, new: Option<&Pod>, is_virtual: bool) -> bool {
    let counts = |pod: Option<&Pod>| pod.is_some_and(|pod| is_probed(pod) && chooses(marker, pod));
    if counts(old) != counts(new) {
        return true;
    }
    let (Some(old), Some(new)) = (old, new) else {
        return false;
    };
    counts(Some(new))
        && (old.metadata.uid != new.metadata.uid
            || old.status.pod_ip != new.status.pod_ip
            || is_virtual && serverless::has_changed(marker, old, new))
}

/// The markers by which a Pod on a virtual node was given its probes.
pub fn markers_of(pod: &Pod) -> impl Iterator<Item = &str> {
    let names = pod
        .metadata
        .annotation(annotation::POD_PROBE_MARKERS)
        .unwrap_or_default();
    names.split(',').filter(|name| !name.is_empty())
}

/// What to do for a marker now.
pub fn plan(observed: &Observed, env: &Env) -> Plan {
    let marker = &*observed.marker;
    let mut plan = Plan::default();
    if marker.metadata.deletion_timestamp.is_some() {
        plan.push(distribute::take_back(observed));
        plan.push(protect(marker, false));
        plan.because(why::General::Deleting);
        explain_last(&observed.last, &mut plan);
        return plan;
    }
    let protect = protect(marker, true);
    let is_protected = protect.chains.is_empty();
    plan.push(protect);
    let pods = Pods::of(observed, &mut plan);
    let step = distribute::step(observed, &pods.on_nodes, &mut plan.why);
    plan.push(step);
    if env.gates.enabled(Gate::EnablePodProbeMarkerOnServerless) {
        plan.push(serverless::step(observed, &pods.on_virtual_nodes));
    } else {
        let names: PodNames = pods.on_virtual_nodes.iter().map(|pod| &*pod.metadata.name).collect();
        if !names.is_empty() {
            plan.because(why::Probes::VirtualNode { pods: names });
        }
    }
    explain_last(&observed.last, &mut plan);
    if is_protected {
        let count: usize = pods.on_nodes.values().map(Vec::len).sum::<usize>() + pods.on_virtual_nodes.len();
        let new = PodProbeMarkerStatus {
            observed_generation: marker.metadata.generation.unwrap_or_default(),
            matched_pods: i64::try_from(count).unwrap_or(i64::MAX),
        };
        plan.status = status::patch(marker, marker.status.as_ref(), &new);
    }
    plan
}

/// The Pods that count.
#[derive(Default)]
struct Pods<'a> {
    /// By the name of their node.
    on_nodes: BTreeMap<&'a str, Vec<&'a Pod>>,
    on_virtual_nodes: Vec<&'a Pod>,
}

impl<'a> Pods<'a> {
    fn of(observed: &'a Observed, plan: &mut Plan) -> Self {
        let mut pods = Self::default();
        let (mut early, mut lost) = (PodNames::default(), PodNames::default());
        for pod in &observed.pods {
            let name = &*pod.metadata.name;
            if !is_probed(pod) {
                if is_active(pod) {
                    early.push(name);
                }
                continue;
            }
            match observed.nodes.get(&*pod.spec.node_name) {
                None => lost.push(name),
                Some(node) if node.is_virtual() => pods.on_virtual_nodes.push(pod),
                Some(_) => pods.on_nodes.entry(&pod.spec.node_name).or_default().push(pod),
            }
        }
        if !early.is_empty() {
            plan.because(why::Probes::NotInitialized { pods: early });
        }
        if !lost.is_empty() {
            plan.because(why::Probes::NodeUnknown { pods: lost });
        }
        pods
    }
}

/// Puts the finalizer on, or takes it off; nothing when that is so already.
fn protect(marker: &PodProbeMarker, wanted: bool) -> Step {
    let mut step = Step::new(Phase::Housekeeping, Pace::InOrder, OnFailure::Stop);
    let mut all = marker.metadata.finalizers.clone().unwrap_or_default();
    if all.iter().any(|known| known == finalizer::POD_PROBE_MARKER) == wanted {
        return step;
    }
    if wanted {
        all.push(finalizer::POD_PROBE_MARKER.to_owned());
    } else {
        all.retain(|known| known != finalizer::POD_PROBE_MARKER);
    }
    let patch = json!({"metadata": {"finalizers": all}});
    let action = Action::merge(Target::of(marker), None, patch, Preconditions::unchanged(marker));
    step.push(Chain::of(action.into()));
    step
}
