//! Which nodes take part in an update.
//!
//! 1. Nodes that exist, and that have a Pod or should have one. With the gate `DaemonSetPruneIneligibleNodes` only those that should: without it, Pods on nodes
//!    that only keep theirs are updated, too, and count.
//! 2. By name, the last first, in this order: nodes with a new Pod (or with more Pods than they should have); nodes whose old Pod is gone or about to go; nodes
//!    that the update's `selector` chooses, or without one all others.
//! 3. Without the last so many of all nodes as the partition says.
//!
//! Nodes that do not take part do not count as unavailable either.

use kruise_api::gates::Gate;

use super::counts::rolling;
use super::nodes::NodePods;
use super::snapshot::Snapshot;
use crate::plan::PodNames;
use crate::shared::membership::Member;
use crate::shared::selector;

/// The nodes of an update.
#[derive(Debug, Default)]
pub(super) struct Participants<'s, 'a> {
    /// Those that take part, in their order.
    pub(super) nodes: Vec<(&'a str, &'s NodePods<'a>)>,
    /// Nodes that the selector does not choose.
    pub(super) not_selected: PodNames,
    /// Nodes that the partition leaves out.
    pub(super) kept: usize,
}

/// Returns the nodes of an update.
pub(super) fn participants<'s, 'a>(snapshot: &'s Snapshot<'a>) -> Participants<'s, 'a> {
    let prunes = snapshot.env.gates.enabled(Gate::DaemonSetPruneIneligibleNodes);
    let counts = |node: &NodePods<'_>| node.node.is_some() && (node.runs() || !prunes && !node.pods.is_empty());
    let rolling = rolling(&snapshot.set.spec);
    let chosen = rolling.and_then(|rolling| rolling.selector.as_ref());
    let (mut updated, mut updating, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    let mut not_selected = PodNames::default();
    let mut count = 0_usize;
    for (name, node) in snapshot.nodes.iter().rev().filter(|(_, node)| counts(node)) {
        count += 1;
        match node.pair() {
            None => updated.push((*name, node)),
            Some(pair) if pair.new.is_some() => updated.push((*name, node)),
            Some(pair) if pair.old.is_none_or(Member::is_preparing_delete) => updating.push((*name, node)),
            Some(_) => {
                let label = |key: &str| node.node.and_then(|(node, _)| node.metadata.label(key));
                if chosen.is_none_or(|chosen| selector::matches(chosen, label)) {
                    rest.push((*name, node));
                } else {
                    not_selected.push(name);
                }
            }
        }
    }
    let partition = usize::try_from(snapshot.desired.partition).unwrap_or(0);
    let mut nodes = updated;
    nodes.append(&mut updating);
    nodes.append(&mut rest);
    let all = nodes.len();
    nodes.truncate(count.saturating_sub(partition));
    Participants {
        kept: all - nodes.len(),
        nodes,
        not_selected,
    }
}
