//! Creating Pods where they are missing, and deleting those that should not be there.
//!
//! For each node, without its terminating Pods:
//!
//! | the node | its Pods | what is done |
//! |---|---|---|
//! | should run a Pod | none at all, not even a terminating one | one is created |
//! | keeps its Pod | one has failed | it is deleted, after a pause that grows (see [`super::failed_pods`]) |
//! | keeps its Pod | one waits for its `preDelete` hook | it is deleted as soon as the hook lets go |
//! | keeps its Pod, no surge | several | the oldest stays |
//! | should run a Pod, surge | none | one is created; it does not wait for one that terminates, but for the pause after a failed one |
//! | keeps its Pod, surge | several | the oldest new and the oldest old one stay; of the two the old one goes when it is not ready, or when the new one is available |
//! | keeps no Pod | any | they are deleted |
//!
//! Pods for a node that is gone are deleted unless they were on it: those are collected by Kubernetes.
//!
//! With `partitionedScaling` only so many nodes get a new Pod as the partition lets through, by name. In one round at most `burstReplicas` Pods are created,
//! and as many deleted. A Pod with anything of its `preDelete` hook on it is not deleted but waits in `PreparingDelete`.

use jiff::Timestamp;
use kruise_api::names::event;
use kruise_api::pod::status::PodPhase;
use kruise_api::resource::Preconditions;

use super::create::new_pods;
use super::failed_pods::until;
use super::nodes::NodePods;
use super::snapshot::Snapshot;
use crate::plan::why;
use crate::plan::{Action, Chain, Event, Guard, Hook, OnFailure, Pace, Phase, Plan, PodNames, Step, Target, Write};
use crate::shared::availability::Availability;
use crate::shared::lifecycle;
use crate::shared::membership::Member;
use crate::shared::pod_change;
use crate::shared::pod_update::change_pod;
use crate::shared::seconds::whole_seconds;

/// What is to be made and what is to go.
#[derive(Debug, Default)]
pub(super) struct Work<'s, 'a> {
    /// Nodes that get a Pod, by name.
    pub(super) create: Vec<&'a str>,
    /// Pods that go.
    pub(super) delete: Vec<Deletion<'s, 'a>>,
}

/// A Pod that goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deletion<'s, 'a> {
    member: &'s Member<'a>,
    /// The node, when the Pod has failed there.
    failed_on: Option<&'a str>,
}

impl<'s, 'a> Work<'s, 'a> {
    pub(super) fn delete(&mut self, member: &'s Member<'a>) {
        self.delete.push(Deletion {
            member,
            failed_on: None,
        });
    }
}

/// Plans the creation and deletion of Pods. True when there is something to write.
pub(super) fn scale(snapshot: &Snapshot<'_>, plan: &mut Plan) -> bool {
    let mut look = Look {
        snapshot,
        work: Work::default(),
        paused: PodNames::default(),
        pause_ends: None,
    };
    for (name, node) in &snapshot.nodes {
        look.at(name, node, plan);
    }
    let Look {
        mut work,
        paused,
        pause_ends,
        ..
    } = look;
    if let Some(end) = pause_ends {
        plan.wake(until(end, snapshot.env.now));
        plan.because(why::Nodes::FailedPodsBackOff {
            nodes: paused,
            until: end,
        });
    }
    limit_to_partition(snapshot, &mut work.create, plan);
    carry_out(snapshot, &work, Phase::Scale, false, plan)
}

/// A look at all nodes, one after the other.
struct Look<'s, 'a> {
    snapshot: &'s Snapshot<'a>,
    work: Work<'s, 'a>,
    /// Nodes whose failed Pod stays for a while.
    paused: PodNames,
    pause_ends: Option<Timestamp>,
}

impl<'s, 'a> Look<'s, 'a> {
    fn at(&mut self, name: &'a str, node: &'s NodePods<'a>, plan: &mut Plan) {
        if node.pods.is_empty() {
            if node.runs() {
                self.work.create.push(name);
            }
        } else if node.stays() {
            self.keep(name, node, plan);
        } else {
            let is_gone = node.node.is_none();
            let leaves = |member: &&Member<'_>| {
                let is_collected = is_gone && !member.pod.spec.node_name.is_empty();
                !is_collected && !member.pod.metadata.is_deleting()
            };
            for member in node.pods.iter().filter(leaves) {
                self.work.delete(member);
            }
        }
    }

    /// A node that keeps its Pod.
    fn keep(&mut self, name: &'a str, node: &'s NodePods<'a>, plan: &mut Plan) {
        let mut live: Vec<&Member<'_>> = Vec::new();
        let mut is_paused = false;
        for member in node.pods.iter().filter(|member| !member.pod.metadata.is_deleting()) {
            if member.pod.status.phase == PodPhase::Failed {
                is_paused |= self.failed(name, member);
            } else if member.is_preparing_delete() {
                self.work.delete(member);
            } else {
                live.push(member);
            }
        }
        if !self.snapshot.desired.surges {
            for member in live.into_iter().skip(1) {
                self.work.delete(member);
            }
        } else if live.is_empty() {
            if node.runs() && !is_paused {
                self.work.create.push(name);
            }
        } else if live.len() > 1 {
            self.keep_two(&live, plan);
        }
    }

    /// Deletes a failed Pod, or leaves it for a while. True when it stays.
    fn failed(&mut self, node: &'a str, member: &'s Member<'a>) -> bool {
        let now = self.snapshot.env.now;
        if let Some(end) = self.snapshot.observed.failed_pods.pause_ends(node, now) {
            self.paused.push(node);
            self.pause_ends = Some(self.pause_ends.map_or(end, |earlier| earlier.min(end)));
            return true;
        }
        self.work.delete.push(Deletion {
            member,
            failed_on: Some(node),
        });
        false
    }

    /// Of several Pods on a node that may have two.
    fn keep_two(&mut self, live: &[&'s Member<'a>], plan: &mut Plan) {
        let (new, old): (Vec<&Member<'_>>, Vec<&Member<'_>>) =
            live.iter().partition(|member| self.snapshot.has_hash(member));
        for member in new.iter().skip(1).chain(old.iter().skip(1)) {
            self.work.delete(member);
        }
        let (Some(new), Some(old)) = (new.first(), old.first()) else {
            return;
        };
        match new.availability {
            _ if !old.is_ready => self.work.delete(old),
            Availability::Available => self.work.delete(old),
            Availability::After(rest) => plan.wake(whole_seconds(rest)),
            Availability::Unavailable => {}
        }
    }
}

/// Leaves out nodes that the partition does not let through yet.
fn limit_to_partition(snapshot: &Snapshot<'_>, create: &mut Vec<&str>, plan: &mut Plan) {
    let desired = &snapshot.desired;
    if !desired.creates_in_steps {
        return;
    }
    let has_new = |node: &&NodePods<'_>| node.pair().is_some_and(|pair| pair.new.is_some());
    let new = snapshot.nodes.values().filter(has_new).count();
    let wanted = usize::try_from(desired.nodes - desired.partition.min(desired.nodes)).unwrap_or(0);
    let allowed = wanted.saturating_sub(new).min(create.len());
    let nodes: PodNames = create.split_off(allowed).into_iter().collect();
    if !nodes.is_empty() {
        plan.because(why::Nodes::CreationPartitioned { nodes });
    }
}

/// Plans the writes, of each kind at most as many as `burstReplicas` allows; with `asks`, each deletion has to be granted by a PodUnavailableBudget. True when
/// there is something to write.
pub(super) fn carry_out(
    snapshot: &Snapshot<'_>,
    work: &Work<'_, '_>,
    phase: Phase,
    asks: bool,
    plan: &mut Plan,
) -> bool {
    let burst = snapshot.desired.burst;
    let mut limited = PodNames::default();
    let pace = if asks { Pace::InOrder } else { Pace::Bounded };
    let mut deletions = Step::new(phase, pace, OnFailure::Skip);
    let mut hooked = PodNames::default();
    let mut deleted = 0;
    for deletion in &work.delete {
        let member = deletion.member;
        let grant = |mut chain: Chain| {
            chain.guard = asks.then(|| Guard::Budget {
                pod: member.name().to_owned(),
            });
            chain
        };
        match lifecycle::before_delete(member.pod, snapshot.lifecycle(), snapshot.env.now) {
            Some(change) => {
                hooked.push(member.name());
                deletions.push(grant(change_pod(
                    member.pod,
                    change,
                    pod_change::Guard::Version,
                    snapshot.env,
                )));
            }
            None if deleted == burst => limited.push(super::target_node(member.pod).unwrap_or_default()),
            None => {
                deleted += 1;
                deletions.push(grant(removal(deletion)));
            }
        }
    }
    let (now, later) = work.create.split_at(burst.min(work.create.len()));
    for node in later {
        limited.push(node);
    }
    let mut creations = Step::new(phase, Pace::SlowStart, OnFailure::Skip);
    for chain in new_pods(snapshot, now) {
        creations.push(chain);
    }
    if !hooked.is_empty() {
        plan.because(why::Pods::HookWaiting {
            hook: Hook::PreDelete,
            pods: hooked,
        });
    }
    if !limited.is_empty() {
        plan.because(burst_limited(burst, limited));
    }
    let writes = !(deletions.chains.is_empty() && creations.chains.is_empty());
    plan.push(deletions);
    plan.push(creations);
    writes
}

/// Nodes wait because `burstReplicas` allows no more at a time.
pub(super) fn burst_limited(burst: usize, nodes: PodNames) -> why::Nodes {
    why::Nodes::BurstLimited {
        limit: i32::try_from(burst).unwrap_or(i32::MAX),
        nodes,
    }
}

/// Deletes a Pod. That it is not ready was true of this version of it.
fn removal(Deletion { member, failed_on }: &Deletion<'_, '_>) -> Chain {
    let pod = member.pod;
    let preconditions = if member.is_ready {
        Preconditions::same(pod)
    } else {
        Preconditions::unchanged(pod)
    };
    let mut write = Write::from(Action::delete(Target::of(pod), preconditions));
    if let Some(node) = failed_on {
        let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
        let found = format!("Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it");
        write = write.then(Event::warning(event::FAILED_DAEMON_POD, found));
    }
    let text = format!("Deleted pod: {}", pod.metadata.name);
    Chain::of(
        write
            .then(Event::normal(event::SUCCESSFUL_DELETE, text))
            .or_else(Event::warning(event::FAILED_DELETE, "Error deleting")),
    )
}
