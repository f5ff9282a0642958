//! Which nodes have no Pod, and why, as far as no other part of the planner has said it already.

use std::collections::BTreeMap;

use kruise_api::node::Taint;

use super::snapshot::Snapshot;
use crate::plan::why;
use crate::plan::{Plan, PodNames};
use crate::shared::availability::is_active;
use crate::shared::node_eligibility::{Fit, Misfit};

/// The condition in which the scheduler says why it does not place a Pod.
const SCHEDULED: &str = "PodScheduled";

/// Adds nodes that are none for the set, nodes that wait for something, and Pods that are not available.
pub(super) fn explain(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    ineligible(snapshot, plan);
    let mut messages: BTreeMap<&str, PodNames> = BTreeMap::new();
    let (mut terminating, mut unavailable) = (PodNames::default(), PodNames::default());
    for (name, node) in snapshot.nodes.iter().filter(|(_, node)| node.runs()) {
        if !node.pods.is_empty() && node.pods.iter().all(|member| member.pod.metadata.is_deleting()) {
            terminating.push(name);
        }
        for member in &node.pods {
            let scheduled = member.pod.status.condition(SCHEDULED);
            let message = scheduled.map(|condition| &*condition.message).unwrap_or_default();
            if member.pod.spec.node_name.is_empty() && !message.is_empty() {
                messages.entry(message).or_default().push(name);
            }
            if is_active(member.pod) && !member.is_available() {
                unavailable.push(member.name());
            }
        }
    }
    for (message, nodes) in messages {
        let message = message.to_owned();
        plan.because(why::Nodes::NotPlaced { message, nodes });
    }
    if !terminating.is_empty() && !snapshot.desired.surges {
        plan.because(why::Nodes::PodsTerminating { nodes: terminating });
    }
    if !unavailable.is_empty() {
        plan.because(why::Pods::NotAvailable { pods: unavailable });
    }
}

fn ineligible(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    // There are few reasons and may be many nodes.
    let mut reasons: Vec<(Fit<'_>, PodNames)> = Vec::new();
    for (name, node) in &snapshot.nodes {
        let Some((_, fit)) = node.node.filter(|(_, fit)| !fit.runs()) else {
            continue;
        };
        match reasons.iter_mut().find(|(known, _)| *known == fit) {
            Some((_, nodes)) => nodes.push(name),
            None => reasons.push((fit, std::iter::once(*name).collect())),
        }
    }
    for (fit, nodes) in reasons {
        match fit {
            Fit::Fits => {}
            Fit::OnlyStays(taint) => {
                let because = tainted(taint);
                plan.because(why::Nodes::NodesOnlyKeepPods { because, nodes });
            }
            Fit::Misfit(misfit) => {
                let because = reason(misfit);
                plan.because(why::Nodes::NodesNotEligible { because, nodes });
            }
        }
    }
}

fn reason(misfit: Misfit<'_>) -> String {
    match misfit {
        Misfit::OtherNode => "the template names another node".to_owned(),
        Misfit::NodeSelector => "they lack a label of nodeSelector".to_owned(),
        Misfit::Affinity => "the required node affinity does not choose them".to_owned(),
        Misfit::Taint(taint) => tainted(taint),
    }
}

fn tainted(Taint { key, value, effect }: &Taint) -> String {
    let value = if value.is_empty() {
        String::new()
    } else {
        format!("={value}")
    };
    format!("taint {key}{value}:{effect} is not tolerated")
}
