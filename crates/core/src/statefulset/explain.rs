//! Why not more is done now, as far as no other part of the planner has said it already.

use std::collections::BTreeMap;

use kruise_api::names::event;

use super::counts::is_rolling;
use super::snapshot::{OrdinalPod, Snapshot};
use crate::plan::why;
use crate::plan::{Event, Plan, PodNames};
use crate::shared::explain::{explain_last, explain_unavailable};

/// Adds what failed last, what the partition keeps, Pods that are on their way out or simply not available yet, and what holds up their claims.
pub(super) fn explain(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    explain_last(&snapshot.observed.last, plan);
    let old = snapshot.replicas.values().filter(|pod| !pod.member.is_updated).count() as i64;
    let keeps = snapshot.desired.partition.min(old);
    if keeps > 0 && is_rolling(&snapshot.set.spec) {
        plan.because(why::Rollout::Partition { keeps: keeps as i32 });
    }
    let pods: PodNames = snapshot
        .all_pods()
        .filter(|pod| is_waited_for(snapshot, pod))
        .map(OrdinalPod::name)
        .collect();
    if !pods.is_empty() {
        plan.because(why::Ordinals::Terminating { pods });
    }
    let living = snapshot.all_pods().filter(|pod| !pod.is_terminating());
    let members: Vec<_> = living.map(|pod| pod.member.clone()).collect();
    explain_unavailable(&members, plan);
    for why in snapshot.claims.explain(snapshot.replicas.keys().copied()) {
        plan.because(why);
    }
    let pods = snapshot.all_pods().map(|pod| (pod.ordinal, pod.pod()));
    let claims = snapshot.claims.of_others(pods);
    if !claims.is_empty() {
        plan.because(why::Claims::ClaimsOfOthers { claims });
    }
}

/// Tells of claims that could not be made bigger. Returns why the update does not go on for them, if so.
pub(super) fn failed_claims(snapshot: &Snapshot<'_>, plan: &mut Plan) -> Option<String> {
    let mut failure = None;
    for (ordinal, why) in snapshot.claims.failed_to_grow(snapshot.replicas.keys().copied()) {
        let set = &snapshot.owner.name;
        let text = format!("resize Claims for Pod {set}-{ordinal} in StatefulSet {set} failed error: {why}");
        plan.events.push(Event::warning(event::FAILED_RESIZE, text));
        failure.get_or_insert_with(|| why.to_string());
        plan.because(why);
    }
    failure
}

fn is_waited_for(snapshot: &Snapshot<'_>, pod: &OrdinalPod<'_>) -> bool {
    pod.is_terminating() && !is_lost(snapshot, pod)
}

fn is_lost(snapshot: &Snapshot<'_>, pod: &OrdinalPod<'_>) -> bool {
    pod.is_terminating() && snapshot.observed.lost_nodes.contains(&*pod.pod().spec.node_name)
}

/// Tells of Pods that are on their way out on nodes that cannot let them go. They are not forced: they may still run there. Returns why Pods
/// cannot be created, if so.
pub(super) fn lost_nodes(snapshot: &Snapshot<'_>, plan: &mut Plan) -> Option<String> {
    let mut by_node: BTreeMap<&str, PodNames> = BTreeMap::new();
    for pod in snapshot.all_pods().filter(|pod| is_lost(snapshot, pod)) {
        by_node.entry(&pod.pod().spec.node_name).or_default().push(pod.name());
    }
    let mut failure = None;
    for (node, pods) in by_node {
        let message = format!("terminating on node {node}, which is gone or does not answer: {pods}");
        let set = &snapshot.owner.name;
        let text = format!("create Pods in StatefulSet {set} failed error: {message}");
        plan.events.push(Event::warning(event::FAILED_CREATE, text));
        plan.because(why::Ordinals::NodeLost {
            node: node.to_owned(),
            pods,
        });
        failure.get_or_insert(message);
    }
    failure
}
