//! Which Pod goes first when there are too many.
//!
//! Earlier criteria win:
//!
//! 1. a Pod without a node before one with a node;
//! 2. by phase: `Pending`, then `Unknown`, then `Running`;
//! 3. a Pod that is not available before one that is, then one that is not ready before one that is;
//! 4. the lower `controller.kubernetes.io/pod-deletion-cost`;
//! 5. the Pod in the more crowded topology domain (see below);
//! 6. of two ready Pods the one that became ready later;
//! 7. the one whose containers were restarted more often;
//! 8. the younger one. And, so that the order is always the same, by name.
//!
//! *Crowded*: without `topologySpreadConstraints` in the template, of several Pods on one node all but one rank higher
//! than a Pod that is alone on its node. With constraints, the Pods of each domain (value of a `topologyKey`) get a rank, higher
//! in larger domains, and the ranks of all constraints are added. Within a domain the Pod that would go first anyway
//! gets the highest rank. How strict a constraint is does not matter.
//!
//! Old and new Pods are ranked apart from each other.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use kruise_api::meta::{CompactTimestamp, Labels};
use kruise_api::names::label;
use kruise_api::pod::Pod;

use crate::shared::availability::READY;
use crate::shared::membership::Member;
use crate::shared::pod_rank::{deletion_cost, later_or_unknown, placement, restarts};

/// Labels of nodes by name, and the node labels over which Pods are spread.
#[derive(Clone, Debug, Default)]
pub(super) struct Topology<'a> {
    /// Keys of the template's `topologySpreadConstraints`.
    pub(super) keys: Vec<String>,
    /// Labels of the nodes.
    pub(super) nodes: HashMap<&'a str, &'a Labels>,
}

/// The Pods in the order in which they should go.
pub(super) fn ranked<'a, 'b>(group: &[&'b Member<'a>], topology: &Topology<'_>) -> Vec<&'b Member<'a>> {
    let ranks = spread_ranks(group, topology);
    let mut order: Vec<(f64, Key<'_>, &Member<'_>)> = group
        .iter()
        .zip(ranks)
        .map(|(member, rank)| (rank, Key::of(member.pod), *member))
        .collect();
    order.sort_by(|(rank, one, member), (other_rank, other, other_member)| {
        let placed = one.placement.cmp(&other.placement);
        placed
            .then(member.is_available().cmp(&other_member.is_available()))
            .then(one.ready.cmp(&other.ready))
            .then(one.cost.cmp(&other.cost))
            .then(other_rank.total_cmp(rank))
            .then_with(|| one.by_age(other))
    });
    order.into_iter().map(|(_, _, member)| member).collect()
}

/// What the criteria look at, read once per Pod.
struct Key<'a> {
    placement: (bool, u8),
    ready: bool,
    cost: i32,
    ready_since: Option<CompactTimestamp>,
    restarts: i32,
    created: Option<CompactTimestamp>,
    name: &'a str,
}

impl<'a> Key<'a> {
    fn of(pod: &'a Pod) -> Self {
        let ready = pod.status.condition(READY);
        Self {
            placement: placement(pod),
            ready: pod.status.is_true(READY),
            cost: deletion_cost(pod),
            ready_since: ready.and_then(|ready| ready.last_transition_time),
            restarts: restarts(pod),
            created: pod.metadata.creation_timestamp,
            name: &pod.metadata.name,
        }
    }

    /// Criteria 6 to 8.
    fn by_age(&self, other: &Self) -> Ordering {
        let both_ready = self.ready && other.ready;
        let ready_since = if both_ready {
            later_or_unknown(self.ready_since, other.ready_since)
        } else {
            Ordering::Equal
        };
        ready_since
            .then(other.restarts.cmp(&self.restarts))
            .then(later_or_unknown(self.created, other.created))
            .then(self.name.cmp(other.name))
    }

    /// All criteria but availability, with the given rank for criterion 5.
    fn within_domain(&self, rank: u32, other: &Self, other_rank: u32) -> Ordering {
        let placed = self.placement.cmp(&other.placement);
        placed
            .then(self.ready.cmp(&other.ready))
            .then(self.cost.cmp(&other.cost))
            .then(other_rank.cmp(&rank))
            .then_with(|| self.by_age(other))
    }
}

/// Ranks for criterion 5, in the order of the group.
fn spread_ranks(group: &[&Member<'_>], topology: &Topology<'_>) -> Vec<f64> {
    let keys: Vec<Key<'_>> = group.iter().map(|member| Key::of(member.pod)).collect();
    let on_node = same_node(group, &keys);
    if topology.keys.is_empty() {
        return on_node.into_iter().map(f64::from).collect();
    }
    let mut ranks = vec![0.0; group.len()];
    for key in &topology.keys {
        let domains = domains(group, |pod| {
            let labels = topology.nodes.get(&*pod.spec.node_name)?;
            labels.get(key)
        });
        let weight = (f64::from(u32::try_from(domains.len()).unwrap_or(u32::MAX)) + 2.0).ln();
        let breaks_ties = key != label::NODE_HOSTNAME;
        for domain in domains.into_values() {
            let tie = |index: usize| {
                if breaks_ties {
                    on_node.get(index).copied().unwrap_or(0)
                } else {
                    0
                }
            };
            for (index, position) in sorted(domain, &keys, tie).into_iter().rev().zip(1_u32..) {
                if let Some(rank) = ranks.get_mut(index) {
                    *rank += f64::from(position) * weight;
                }
            }
        }
    }
    ranks
}

/// For each Pod how many of its node's Pods should stay rather than it.
fn same_node(group: &[&Member<'_>], keys: &[Key<'_>]) -> Vec<u32> {
    let mut ranks = vec![0; group.len()];
    let nodes = domains(group, |pod| Some(&*pod.spec.node_name).filter(|node| !node.is_empty()));
    for domain in nodes.into_values().filter(|domain| domain.len() > 1) {
        for (index, position) in sorted(domain, keys, |_| 0).into_iter().rev().zip(0_u32..) {
            if let Some(rank) = ranks.get_mut(index) {
                *rank = position;
            }
        }
    }
    ranks
}

/// Positions in the group's list by topology domain.
fn domains<'a>(group: &[&Member<'a>], domain: impl Fn(&'a Pod) -> Option<&'a str>) -> BTreeMap<&'a str, Vec<usize>> {
    let mut domains: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, member) in group.iter().enumerate() {
        if let Some(domain) = domain(member.pod) {
            domains.entry(domain).or_default().push(index);
        }
    }
    domains
}

fn sorted(mut domain: Vec<usize>, keys: &[Key<'_>], tie: impl Fn(usize) -> u32) -> Vec<usize> {
    domain.sort_by(|&one, &other| match (keys.get(one), keys.get(other)) {
        (Some(first), Some(second)) => first.within_domain(tie(one), second, tie(other)),
        _ => Ordering::Equal,
    });
    domain
}

#[cfg(test)]
mod tests;
