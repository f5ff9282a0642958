//! Pods by their nodes.
//!
//! A Pod's node is the one it is on, or before that the one that its affinity names. The Pods of a node are in the order in which they came: those that are on
//! it before those that are not yet, then by time of creation, then by name. The first of them is the one that the status tells about.

use std::collections::BTreeMap;
use std::sync::Arc;

use kruise_api::meta::CompactTimestamp;
use kruise_api::node::Node;
use kruise_api::pod::Pod;

use crate::shared::membership::Member;
use crate::shared::node_eligibility::affinity::only_node;
use crate::shared::node_eligibility::{Fit, NodeRequirements};

/// A node, or only the name of one that is gone, and the set's Pods there.
#[derive(Clone, Debug, Default)]
pub(super) struct NodePods<'a> {
    /// The node, and whether it is one for Pods of the set.
    pub(super) node: Option<(&'a Node, Fit<'a>)>,
    /// The Pods, terminating ones too, the oldest first.
    pub(super) pods: Vec<Member<'a>>,
}

/// The Pods of a node that are not on their way out, by revision.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pair<'s, 'a> {
    pub(super) new: Option<&'s Member<'a>>,
    pub(super) old: Option<&'s Member<'a>>,
}

impl<'a> NodePods<'a> {
    /// A Pod should run there.
    pub(super) fn runs(&self) -> bool {
        self.node.is_some_and(|(_, fit)| fit.runs())
    }

    /// A Pod that is there stays.
    pub(super) fn stays(&self) -> bool {
        self.node.is_some_and(|(_, fit)| fit.stays())
    }

    /// The new and the old Pod; none when there are several of either.
    pub(super) fn pair(&self) -> Option<Pair<'_, 'a>> {
        let mut pair = Pair::default();
        for member in self.pods.iter().filter(|member| !member.pod.metadata.is_deleting()) {
            let place = if member.is_updated {
                &mut pair.new
            } else {
                &mut pair.old
            };
            if place.replace(member).is_some() {
                return None;
            }
        }
        Some(pair)
    }
}

/// The node of a Pod; none when it names none.
pub fn target_node(pod: &Pod) -> Option<&str> {
    if pod.spec.node_name.is_empty() {
        only_node(&pod.spec.required_nodes.0)
    } else {
        Some(&pod.spec.node_name)
    }
}

/// All nodes by name, and the Pods on each. Nodes that are gone are among them if a Pod names them.
pub(super) fn by_node<'a>(
    nodes: &'a [Arc<Node>],
    members: Vec<Member<'a>>,
    requirements: &NodeRequirements,
) -> BTreeMap<&'a str, NodePods<'a>> {
    let known = nodes.iter().map(|node| {
        let node = &**node;
        let pods = NodePods {
            node: Some((node, requirements.fit(node))),
            pods: Vec::new(),
        };
        (&*node.metadata.name, pods)
    });
    let mut by_node: BTreeMap<&str, NodePods<'_>> = known.collect();
    for member in members {
        if let Some(name) = target_node(member.pod) {
            by_node.entry(name).or_default().pods.push(member);
        }
    }
    for node in by_node.values_mut().filter(|node| node.pods.len() > 1) {
        node.pods.sort_by_key(|member| {
            let pod = member.pod;
            let created = pod.metadata.creation_timestamp.map(CompactTimestamp::timestamp);
            (pod.spec.node_name.is_empty(), created, member.name())
        });
    }
    by_node
}
