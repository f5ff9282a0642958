//! Bringing Pods to the newest revision.
//!
//! Nothing happens when the rollout is paused, or when the type is `OnDelete`. Otherwise, of the nodes that take part (see [`super::order`]):
//!
//! **Without surge** those count as unavailable that have no Pod, too many, or a new one that is not available (one that also waits for its deletion counts
//! twice). An old Pod that is not available is replaced at once; of those that are, as many as `maxUnavailable` still allows. With the type
//! `InPlaceIfPossible` a Pod is updated in place, if it has the readiness gate and the change allows it; all others are deleted, and their nodes get new Pods
//! when they are gone. At most `burstReplicas` Pods are updated in place in a round.
//!
//! **With surge** a node gets a new Pod beside its old one, at once when the old one is not available, otherwise as many nodes as `maxSurge` still allows. The old
//! one goes when the new one is available.
//!
//! A Pod whose update in place failed is passed over until its back-off is over; the others do not wait for it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kruise_api::gates::Gate;
use kruise_api::names::condition::pod::IN_PLACE_UPDATE_READY;
use kruise_api::names::event;
use kruise_api::shared::in_place::PodUpdatePolicy;

use super::counts::{is_in_place, rolling};
use super::nodes::{Pair, target_node};
use super::order::{Participants, participants};
use super::scale::{Work, burst_limited, carry_out};
use super::snapshot::Snapshot;
use crate::plan::why;
use crate::plan::{Chain, Guard, OnFailure, Pace, Phase, Plan, PodNames, Step, Why};
use crate::shared::advance::PODS_PER_ROUND;
use crate::shared::membership::Member;
use crate::shared::pod_update::{PodUpdate, PodUpdater, UpdateTarget, leave_alone};
use crate::shared::readiness::has_gate;

/// Plans the update of Pods; `written` are those that were just given what they need.
pub(super) fn update(snapshot: &Snapshot<'_>, written: &BTreeSet<&str>, plan: &mut Plan) {
    let is_old = |member: &&Member<'_>| !member.is_updated && !member.pod.metadata.is_deleting();
    let outdated = snapshot.members().filter(is_old).count() as i32;
    if outdated == 0 {
        return;
    }
    let Some(rolling) = rolling(&snapshot.set.spec) else {
        plan.because(why::Rollout::OnDelete { outdated });
        return;
    };
    if rolling.paused {
        plan.because(why::Rollout::Paused { outdated });
        return;
    }
    let participants = participants(snapshot);
    if participants.kept > 0 {
        plan.because(why::Rollout::Partition {
            keeps: participants.kept as i32,
        });
    }
    if !participants.not_selected.is_empty() {
        plan.because(why::Nodes::NodesNotSelected {
            nodes: participants.not_selected.clone(),
        });
    }
    if snapshot.desired.surge > 0 {
        surge(snapshot, &participants, plan);
    } else {
        replace(snapshot, &participants, written, plan);
    }
}

/// A Pod that does not wait for its deletion.
fn usable<'s, 'a>(member: Option<&'s Member<'a>>) -> Option<&'s Member<'a>> {
    member.filter(|member| !member.is_preparing_delete())
}

/// With surge.
fn surge(snapshot: &Snapshot<'_>, participants: &Participants<'_, '_>, plan: &mut Plan) {
    let mut work = Work::default();
    let mut candidates = Vec::new();
    let mut surging = 0;
    for (name, node) in &participants.nodes {
        let Some(Pair { new, old }) = node.pair() else {
            surging += 1;
            continue;
        };
        match (new, usable(old)) {
            (_, None) => {}
            // A node that only keeps its Pod gets no second one.
            (None, Some(_)) if !node.runs() => {}
            (None, Some(old)) if old.is_available() => candidates.push(*name),
            (None, Some(_)) => work.create.push(name),
            (Some(new), Some(old)) if new.is_available() && !new.is_preparing_delete() => work.delete(old),
            (Some(_), Some(_)) => surging += 1,
        }
    }
    let room = usize::try_from(snapshot.desired.surge - surging).unwrap_or(0);
    if candidates.len() > room {
        plan.because(why::Nodes::SurgeBudget {
            allowed: snapshot.desired.surge,
            surging,
            waiting: (candidates.len() - room) as i32,
        });
    }
    work.create.extend(candidates.into_iter().take(room));
    let asks = snapshot.env.gates.enabled(Gate::PodUnavailableBudgetUpdateGate);
    carry_out(snapshot, &work, Phase::Update, asks, plan);
}

/// Without surge.
fn replace(snapshot: &Snapshot<'_>, participants: &Participants<'_, '_>, written: &BTreeSet<&str>, plan: &mut Plan) {
    let mut chosen = choose(snapshot, participants, plan);
    chosen.retain(|member| !written.contains(member.name()));
    leave_alone(&mut chosen, &snapshot.observed.last, snapshot.env.now, plan);
    let asks = snapshot.env.gates.enabled(Gate::PodUnavailableBudgetUpdateGate);
    let mut work = Work::default();
    if is_in_place(&snapshot.set.spec) {
        in_place(snapshot, &chosen, asks, &mut work, plan);
    } else {
        for member in chosen {
            work.delete(member);
        }
    }
    carry_out(snapshot, &work, Phase::Update, asks, plan);
}

/// The old Pods that may go now.
fn choose<'s, 'a>(
    snapshot: &Snapshot<'a>,
    participants: &Participants<'s, 'a>,
    plan: &mut Plan,
) -> Vec<&'s Member<'a>> {
    let (mut free, mut candidates) = (Vec::new(), Vec::new());
    let mut unavailable = 0;
    for (_, node) in &participants.nodes {
        let Some(Pair { new, old }) = node.pair() else {
            unavailable += 1;
            continue;
        };
        if usable(new).is_some() == usable(old).is_some() {
            unavailable += 1;
        } else if let Some(new) = new {
            unavailable += i32::from(!new.is_available()) + i32::from(new.is_preparing_delete());
        } else if let Some(old) = old {
            let list = if old.is_available() { &mut candidates } else { &mut free };
            list.push(old);
        }
    }
    let room = usize::try_from(snapshot.desired.unavailable - unavailable).unwrap_or(0);
    if candidates.len() > room {
        plan.because(why::Rollout::UpdateBudget {
            allowed: snapshot.desired.unavailable,
            unavailable,
            waiting: (candidates.len() - room) as i32,
        });
    }
    free.extend(candidates.into_iter().take(room));
    free
}

/// Updates Pods in place; those that cannot be go into `work`.
fn in_place<'s, 'a>(
    snapshot: &Snapshot<'a>,
    chosen: &[&'s Member<'a>],
    asks: bool,
    work: &mut Work<'s, 'a>,
    plan: &mut Plan,
) {
    let labels = snapshot.pod_labels();
    let target = UpdateTarget {
        revisions: &snapshot.revisions,
        revision: &snapshot.revisions.update,
        labels: &labels,
        policy: PodUpdatePolicy::InPlaceIfPossible,
        grace_seconds: 0,
    };
    let mut updater = PodUpdater::new(target, snapshot, snapshot.env).recorded_as(&snapshot.hash);
    let pace = if asks { Pace::InOrder } else { Pace::Bounded };
    let mut step = Step::new(Phase::Update, pace, OnFailure::Skip);
    let mut recreated: BTreeMap<String, PodNames> = BTreeMap::new();
    let (burst, mut limited) = (snapshot.desired.burst, PodNames::default());
    for member in chosen {
        let begun = if has_gate(member.pod, IN_PLACE_UPDATE_READY) {
            updater.begin(member.pod, plan)
        } else {
            PodUpdate::Recreate(Some(format!("it has no readiness gate {IN_PLACE_UPDATE_READY}")))
        };
        match begun {
            PodUpdate::InPlace(_) if step.chains.len() >= burst => {
                limited.push(target_node(member.pod).unwrap_or_default());
            }
            PodUpdate::InPlace(_) if step.chains.len() >= PODS_PER_ROUND => plan.wake(Duration::ZERO),
            PodUpdate::InPlace(chain) => {
                let mut chain = with_events(chain, member.name());
                chain.guard = asks.then(|| Guard::Budget {
                    pod: member.name().to_owned(),
                });
                step.push(chain);
            }
            PodUpdate::Recreate(because) => {
                if let Some(because) = because {
                    recreated.entry(because).or_default().push(member.name());
                }
                work.delete(member);
            }
            // The reason is in the plan.
            PodUpdate::Skip(_) | PodUpdate::Stop(_) => {}
        }
    }
    if !limited.is_empty() {
        // What is written has the rest looked at.
        plan.because(burst_limited(burst, limited));
    }
    let recreating = recreated.into_iter();
    plan.why
        .extend(recreating.map(|(because, pods)| Why::Rollout(why::Rollout::Recreating { pods, because })));
    plan.push(step);
}

/// The events of an update in place, in the words that users of DaemonSets know.
fn with_events(mut chain: Chain, pod: &str) -> Chain {
    for write in &mut chain.writes {
        for event in &mut write.succeeded {
            if event.reason == event::SUCCESSFUL_UPDATE_POD_IN_PLACE {
                event.message = format!("successfully update pod {pod} in-place");
            }
        }
        if let Some(event) = &mut write.failed {
            event.message = format!("failed to update pod {pod} in-place");
        }
    }
    chain
}
