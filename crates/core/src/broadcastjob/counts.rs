//! How the Pods of a job are, and which nodes it is for.
//!
//! | a Pod that | counts as |
//! |---|---|
//! | has ended | succeeded or failed |
//! | is on its way out | nothing |
//! | was restarted more often than `restartLimit`, all containers together, with `restartPolicy: OnFailure` | failed; it runs on |
//! | is anything else | active |
//!
//! A node that has a Pod is desired when it fits that Pod or the Pod is on its way out; otherwise the Pod is misplaced. A node without one is desired, and
//! waits for its turn, when it fits the template.
//!
//! A Pod that is not on a node yet names the one it is for. When that node is gone the Pod is misplaced, too: nobody else would take it away, and it would hold a
//! place for ever. Of two Pods for one node the younger counts there, and people are told.

use std::collections::{BTreeMap, HashMap, HashSet};

use kruise_api::names::{event, label};
use kruise_api::node::Node;
use kruise_api::pod::Pod;
use kruise_api::pod::status::{ContainerStatus, PodPhase};

use super::Observed;
use super::fit::{Cause, Fitter};
use crate::plan::{Event, Plan, PodNames};
use crate::shared::node_eligibility::affinity::only_node;

/// The Pods and nodes of a job, counted.
#[derive(Debug, Default)]
pub(super) struct Counts<'a> {
    pub(super) active: Vec<&'a Pod>,
    pub(super) succeeded: i32,
    pub(super) failed: Vec<&'a Pod>,
    /// Nodes that the job is for.
    pub(super) desired: i32,
    /// Of those, nodes without a Pod, by name.
    pub(super) waiting: Vec<&'a Node>,
    /// Pods whose node does not fit, or is gone before they were on it.
    pub(super) misplaced: Vec<&'a Pod>,
    /// Nodes that the job is not for.
    pub(super) unfit: BTreeMap<Cause, PodNames>,
    /// Desired nodes whose Pod has not ended.
    unfinished: i32,
    /// Nodes with more than one Pod, and those that do not count.
    duplicates: Vec<(&'a str, &'a Pod)>,
}

/// How a Pod counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Active,
    Succeeded,
    Failed,
    Leaving,
}

impl<'a> Counts<'a> {
    pub(super) fn of(observed: &'a Observed, fitter: &Fitter) -> Self {
        let mut counts = Self::default();
        let limit = observed.job.spec.failure_policy.restart_limit;
        let mut on_nodes: HashMap<&str, &Pod> = HashMap::with_capacity(observed.pods.len());
        let pods = pods(observed);
        for &pod in &pods {
            match standing(pod, limit) {
                Standing::Active => counts.active.push(pod),
                Standing::Succeeded => counts.succeeded += 1,
                Standing::Failed => counts.failed.push(pod),
                Standing::Leaving => {}
            }
            let node = node_of(pod);
            if let Some(other) = on_nodes.insert(node, pod).filter(|_| !node.is_empty()) {
                counts.duplicates.push((node, other));
            }
        }
        let mut nodes: Vec<&Node> = observed.nodes.iter().map(|node| &**node).collect();
        nodes.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        for node in nodes {
            counts.add_node(node, on_nodes.get(&*node.metadata.name).copied(), fitter);
        }
        let known: HashSet<&str> = observed.nodes.iter().map(|node| &*node.metadata.name).collect();
        counts
            .misplaced
            .extend(pods.into_iter().filter(|pod| is_lost(pod, &known)));
        counts
    }

    fn add_node(&mut self, node: &'a Node, pod: Option<&'a Pod>, fitter: &Fitter) {
        let Some(pod) = pod else {
            match fitter.misfit(node) {
                None => {
                    self.desired += 1;
                    self.unfinished += 1;
                    self.waiting.push(node);
                }
                Some(cause) => self.unfit.entry(cause).or_default().push(&node.metadata.name),
            }
            return;
        };
        let is_leaving = pod.metadata.is_deleting();
        if is_leaving || Fitter::of_pod(pod).fits(node) {
            self.desired += 1;
            self.unfinished += i32::from(!is_leaving && !has_ended(pod));
        } else {
            self.misplaced.push(pod);
        }
    }

    /// The Pod of every node that the job is for has ended, and there is such a node.
    pub(super) fn is_complete(&self) -> bool {
        self.desired > 0 && self.unfinished == 0
    }

    pub(super) fn warn_of_duplicates(&self, plan: &mut Plan) {
        for (node, pod) in &self.duplicates {
            let message = format!("node {node} has another pod of the job besides {}", pod.metadata.name);
            plan.events.push(Event::warning(event::DUPLICATE_POD_ON_NODE, message));
        }
    }
}

/// The Pods of a job that run, whatever its nodes.
pub(super) fn running(observed: &Observed) -> Vec<&Pod> {
    let limit = observed.job.spec.failure_policy.restart_limit;
    let all = pods(observed).into_iter();
    all.filter(|pod| standing(pod, limit) == Standing::Active).collect()
}

/// The Pods that the job manages and that say so, the oldest first.
fn pods(observed: &Observed) -> Vec<&Pod> {
    let job = &*observed.job;
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let is_ours = |pod: &&Pod| {
        let controller = pod.metadata.controller();
        controller.is_some_and(|owner| owner.uid.to_string() == uid)
            && pod.metadata.label(label::BROADCAST_JOB_NAME) == Some(name)
            && pod.metadata.label(label::BROADCAST_JOB_UID) == Some(uid)
    };
    let mut pods: Vec<&Pod> = observed.pods.iter().map(|pod| &**pod).filter(is_ours).collect();
    pods.sort_by_key(|pod| (pod.metadata.creation_timestamp, &*pod.metadata.name));
    pods
}

fn standing(pod: &Pod, restart_limit: i32) -> Standing {
    match pod.status.phase {
        PodPhase::Succeeded => Standing::Succeeded,
        PodPhase::Failed => Standing::Failed,
        _ if pod.metadata.is_deleting() => Standing::Leaving,
        _ if &*pod.spec.template.restart_policy == "OnFailure" && restarts(pod) > i64::from(restart_limit) => {
            Standing::Failed
        }
        _ => Standing::Active,
    }
}

fn restarts(pod: &Pod) -> i64 {
    let status = &pod.status;
    let all = status.container_statuses.iter().chain(&status.init_container_statuses);
    all.map(|container: &ContainerStatus| i64::from(container.restart_count))
        .sum()
}

/// Whether a Pod has ended by itself.
pub(super) fn has_ended(pod: &Pod) -> bool {
    matches!(pod.status.phase, PodPhase::Succeeded | PodPhase::Failed)
}

/// Whether a Pod waits for a node that is gone.
fn is_lost(pod: &Pod, known: &HashSet<&str>) -> bool {
    let node = node_of(pod);
    let waits = pod.spec.node_name.is_empty() && !pod.metadata.is_deleting() && !has_ended(pod);
    waits && !node.is_empty() && !known.contains(node)
}

/// The node that a Pod is on, or for; empty when it names none.
pub(super) fn node_of(pod: &Pod) -> &str {
    if pod.spec.node_name.is_empty() {
        only_node(&pod.spec.required_nodes.0).unwrap_or_default()
    } else {
        &pod.spec.node_name
    }
}
