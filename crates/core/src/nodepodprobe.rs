//! NodePodProbe: the probes that the daemon of one node runs, and what they found.
//!
//! 1. Every node that is ready gets one, whether anything is probed or not; virtual nodes get none. It goes with its node.
//! 2. Markers list their probes in it. A Pod that is gone, has ended, or was made anew under its name is dropped.
//! 3. What the daemon reports is written to the Pods: conditions, labels and annotations ([`results`]).

mod results;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kruise_api::kind::Kind as _;
use kruise_api::names::pattern;
use kruise_api::node::Node;
use kruise_api::nodepodprobe::{CachedNodePodProbe, PodProbe, PodProbeStatus};
use kruise_api::pod::Pod;
use kruise_api::podprobemarker::v1alpha1::PodProbeMarker;
use kruise_api::resource::Preconditions;
use serde_json::json;

use crate::plan::why;
use crate::plan::{Action, Chain, Env, OnFailure, Outcome, Pace, Phase, Plan, PodNames, Step, Target};
use crate::shared::availability::is_active;
use crate::shared::explain::explain_last;
use crate::shared::probe_marks::Written;

/// A node, its NodePodProbe, and what that depends on.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Name of both.
    pub name: String,
    /// The node.
    pub node: Option<Arc<Node>>,
    /// Its NodePodProbe.
    pub list: Option<Arc<CachedNodePodProbe>>,
    /// The Pods that it names, by namespace and name.
    pub pods: BTreeMap<(String, String), Arc<Pod>>,
    /// The markers that it names, by namespace and name.
    pub markers: BTreeMap<(String, String), Arc<PodProbeMarker>>,
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

/// Whether a node shall have a NodePodProbe made.
pub fn is_due(node: &Node) -> bool {
    !node.metadata.is_deleting() && !node.is_virtual() && node.ready_since().is_some()
}

/// The Pods that a NodePodProbe names, by namespace and name.
pub fn pods_named(list: &CachedNodePodProbe) -> BTreeSet<(String, String)> {
    let asked = list.spec.pod_probes.iter().map(|pod| (&pod.namespace, &pod.name));
    let answered = statuses(list).iter().map(|pod| (&pod.namespace, &pod.name));
    let all = asked.chain(answered);
    all.map(|(namespace, name)| (namespace.clone(), name.clone())).collect()
}

/// The markers that a NodePodProbe names, by namespace and name.
pub fn markers_named(list: &CachedNodePodProbe) -> BTreeSet<(String, String)> {
    let asked = list.spec.pod_probes.iter().flat_map(|pod| {
        let names = pod.probes.iter().map(|probe| &probe.name);
        names.map(move |name| (&pod.namespace, name))
    });
    let answered = statuses(list).iter().flat_map(|pod| {
        let names = pod.probe_states.iter().map(|state| &state.name);
        names.map(move |name| (&pod.namespace, name))
    });
    let marker = |(namespace, name): (&String, &String)| {
        let (marker, _) = pattern::parse_node_probe(name)?;
        Some((namespace.clone(), marker.to_owned()))
    };
    asked.chain(answered).filter_map(marker).collect()
}

/// Whether a NodePodProbe lists a Pod.
pub fn lists(list: &CachedNodePodProbe, pod: &Pod) -> bool {
    let uid = pod.metadata.uid.to_string();
    list.spec.pod_probes.iter().any(|entry| entry.uid == uid)
}

/// What to do for a node now.
pub fn plan(observed: &Observed, _: &Env) -> Plan {
    let mut plan = Plan::default();
    let node = observed.node.as_deref().filter(|node| !node.metadata.is_deleting());
    let Some(list) = &observed.list else {
        if node.is_some_and(is_due) {
            let body = json!({
                "apiVersion": CachedNodePodProbe::API_VERSION, "kind": CachedNodePodProbe::KIND,
                "metadata": {"name": observed.name}, "spec": {},
            });
            let object = Target::new(CachedNodePodProbe::RESOURCE, "", &observed.name);
            plan.push(single(Action::create(object, body)));
        }
        return plan;
    };
    if list.metadata.is_deleting() {
        plan.because(why::General::Deleting);
        return plan;
    }
    if node.is_none() {
        let same = Preconditions::same(&**list);
        plan.push(single(Action::delete(Target::of(&**list), same)));
        return plan;
    }
    drop_gone(observed, list, &mut plan);
    plan.push(results::step(observed, list));
    explain(list, &mut plan);
    explain_last(&observed.last, &mut plan);
    plan
}

/// Drops Pods that are not there any more.
fn drop_gone(observed: &Observed, list: &CachedNodePodProbe, plan: &mut Plan) {
    let is_there = |entry: &&PodProbe| {
        let pod = observed.pods.get(&(entry.namespace.clone(), entry.name.clone()));
        pod.is_some_and(|pod| is_active(pod) && pod.metadata.uid.to_string() == entry.uid)
    };
    let kept: Vec<&PodProbe> = list.spec.pod_probes.iter().filter(is_there).collect();
    if kept.len() < list.spec.pod_probes.len() {
        let patch = json!({"spec": {"podProbes": kept}});
        let unchanged = Preconditions::unchanged(list);
        let mut step = Step::new(Phase::Distribute, Pace::InOrder, OnFailure::GoOn);
        step.push(Chain::of(
            Action::merge(Target::of(list), None, patch, unchanged).into(),
        ));
        plan.push(step);
    }
}

/// Tells Pods about which the daemon owes an answer.
fn explain(list: &CachedNodePodProbe, plan: &mut Plan) {
    let is_answered = |pod: &PodProbe, probe: &str| {
        let statuses = statuses(list).iter().filter(|status| status.uid == pod.uid);
        let mut states = statuses.flat_map(|status| &status.probe_states);
        states.any(|state| state.name == probe)
    };
    let asked = list.spec.pod_probes.iter();
    let silent = asked.filter(|pod| pod.probes.iter().any(|probe| !is_answered(pod, &probe.name)));
    let pods: PodNames = silent.map(|pod| pod.name.as_str()).collect();
    if !pods.is_empty() {
        plan.because(why::Probes::NoResult { pods });
    }
}

/// What the daemon has said.
fn statuses(list: &CachedNodePodProbe) -> &[PodProbeStatus] {
    &list.status.pod_probe_statuses
}

fn single(action: Action) -> Step {
    let mut step = Step::new(Phase::Housekeeping, Pace::InOrder, OnFailure::Stop);
    step.push(Chain::of(action.into()));
    step
}
