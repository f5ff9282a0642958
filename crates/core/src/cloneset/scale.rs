//! Creating and deleting Pods.
//!
//! In this order, and a round that has done something in one of the steps does nothing in the later ones:
//!
//! 1. Pods that wait for their `preDelete` hook come back, if they are needed after all. (Not when a hook makes Pods
//!    not ready: then somebody has already acted on their leaving.)
//! 2. Missing Pods are created, first those of the current revision, then those of the update revision; as many as
//!    `scaleStrategy.maxUnavailable` allows. As long as Pods are missing, none is deleted, but for those that have ended and whose
//!    successors take over their names and claims.
//! 3. Pods whose `preDelete` hook has let go are deleted.
//! 4. Pods that are specified for deletion go: those that are not ready at once, ready ones as long as enough are
//!    available.
//! 5. When there are too many, some are chosen (see [`super::rank`]) and go in the same way, but only when no deletion
//!    is under way.
//!
//! A Pod with anything of its `preDelete` hook on it is not deleted but waits in `PreparingDelete`. With a Pod go its
//! claims.
//!
//! A round that changes the number of Pods updates none: so the numbers always fit together. One that only tried to, and got nothing done, does.

use std::collections::{BTreeMap, BTreeSet};

use kruise_api::names::{event, pattern};
use kruise_api::pod::Pod;
use kruise_api::resource::Preconditions;

use super::claims;
use super::counts::{Diff, PodCounts};
use super::create::{NewPods, fresh_ids};
use super::rank::{Topology, ranked};
use super::snapshot::Snapshot;
use crate::plan::why;
use crate::plan::{Action, Chain, Event, Hook, OnFailure, Pace, Phase, Plan, PodNames, Step, Target, Write};
use crate::shared::availability::is_active;
use crate::shared::lifecycle::{self, State};
use crate::shared::membership::Member;
use crate::shared::pod_change::Guard;
use crate::shared::pod_update::change_pod;
use kruise_api::gates::Gate;

/// Plans the creation and deletion of Pods. True when there is something to do.
pub(super) fn scale(snapshot: &Snapshot<'_>, plan: &mut Plan) -> bool {
    if cancel_preparing_delete(snapshot, plan) {
        return true;
    }
    let diff = diff(snapshot, &snapshot.members);

    if diff.missing > 0 {
        return create(snapshot, &diff, plan);
    }
    let preparing_delete: Vec<&Member<'_>> = snapshot
        .members
        .iter()
        .filter(|member| member.is_preparing_delete())
        .collect();
    if delete(snapshot, &preparing_delete, i64::MAX, plan) {
        return true;
    }
    let specified_delete: Vec<&Member<'_>> = snapshot
        .members
        .iter()
        .filter(|member| member.is_specified_delete && !member.is_preparing_delete())
        .collect();
    if delete(snapshot, &specified_delete, diff.delete_ready, plan) {
        return true;
    }
    if diff.surplus == 0 {
        return false;
    }
    if !preparing_delete.is_empty() || !specified_delete.is_empty() {
        let pods = preparing_delete
            .iter()
            .chain(&specified_delete)
            .map(|member| member.name())
            .collect();
        plan.because(why::Rollout::DeletionsUnderWay { pods });
        return false;
    }
    let chosen = choose(snapshot, &diff);
    delete(snapshot, &chosen, diff.delete_ready, plan)
}

fn diff(snapshot: &Snapshot<'_>, members: &[Member<'_>]) -> Diff {
    let counts = PodCounts::of(members, |member| is_new(snapshot, member));
    Diff::of(&snapshot.desired, &counts, snapshot.count_options())
}

/// A Pod that is about to be updated may count as updated, so that scaling in does not take the wrong ones.
fn is_new(snapshot: &Snapshot<'_>, member: &Member<'_>) -> bool {
    let counts_early = snapshot.env.gates.enabled(Gate::PreparingUpdateAsUpdate);
    member.is_updated || counts_early && member.state == State::PreparingUpdate
}

/// Of Pods that are to be replaced: those that step 4 of the next round would delete, were they specified for deletion now.
pub(super) fn deleted_at_once<'r>(snapshot: &Snapshot<'_>, members: &[&'r Member<'_>]) -> BTreeSet<&'r str> {
    let chosen: BTreeSet<&'r str> = members.iter().map(|member| member.name()).collect();
    let with_names: Vec<Member<'_>> = snapshot
        .members
        .iter()
        .map(|member| Member {
            is_specified_delete: member.is_specified_delete || chosen.contains(member.name()),
            ..member.clone()
        })
        .collect();
    let diff = diff(snapshot, &with_names);
    if diff.missing > 0 {
        return BTreeSet::new();
    }
    let mut ready = diff.delete_ready;
    let mut goes = |member: &&Member<'_>| {
        ready -= i64::from(member.is_ready);
        let has_room = !member.is_ready || ready >= 0;
        has_room && lifecycle::before_delete(member.pod, snapshot.lifecycle(), snapshot.env.now).is_none()
    };
    let specified_delete = with_names
        .iter()
        .filter(|member| member.is_specified_delete && !member.is_preparing_delete());
    let gone: BTreeSet<&str> = specified_delete
        .filter(|member| goes(member))
        .map(Member::name)
        .collect();
    chosen.into_iter().filter(|name| gone.contains(name)).collect()
}

/// Step 1.
fn cancel_preparing_delete(snapshot: &Snapshot<'_>, plan: &mut Plan) -> bool {
    let going = snapshot
        .members
        .iter()
        .filter(|member| member.is_specified_delete || member.is_preparing_delete())
        .count() as i64;
    let staying = snapshot.members.len() as i64 - going;
    let mut needed = snapshot.desired.replicas - staying;
    let mut step = Step::new(Phase::Scale, Pace::Bounded, OnFailure::Skip);
    for member in snapshot
        .members
        .iter()
        .filter(|member| member.is_preparing_delete() && !member.is_specified_delete)
    {
        if needed <= 0 {
            break;
        }
        if let Some(change) = lifecycle::cancel_preparing_delete(member.pod, snapshot.lifecycle(), snapshot.env.now) {
            step.push(change_pod(member.pod, change, Guard::Version, snapshot.env));
            needed -= 1;
        }
    }
    let modified = !step.chains.is_empty();
    plan.push(step);
    modified
}

/// Step 2.
fn create(snapshot: &Snapshot<'_>, diff: &Diff, plan: &mut Plan) -> bool {
    if diff.create < diff.missing {
        let limit = diff.create;
        let message = format!(
            "scaling up is limited to {limit} of {} pods by scaleStrategy.maxUnavailable",
            diff.missing
        );
        plan.events.push(Event::warning(event::SCALE_UP_LIMITED, message));
        plan.because(why::Rollout::ScaleUpLimited {
            missing: diff.missing as i32,
            limit: limit as i32,
        });
    }
    let Slots { ids, ended } = slots(snapshot, usize::try_from(diff.create).unwrap_or(0), plan);
    let mut step = Step::new(Phase::Scale, Pace::Bounded, OnFailure::GoOn);
    for pod in &ended {
        step.push(Chain::of(deletion(pod, Preconditions::unchanged(&pod.metadata))));
    }
    plan.push(step);
    if ids.is_empty() {
        return !ended.is_empty();
    }
    let old = usize::try_from(diff.missing_old).unwrap_or(0).min(ids.len());
    let mut step = Step::new(Phase::Scale, Pace::SlowStart, OnFailure::Skip);
    let (old_ids, new_ids) = ids.split_at_checked(old).unwrap_or((&[], &ids));
    let revisions = &snapshot.revisions;
    if !old_ids.is_empty() {
        let current = &revisions.current;
        let pods = NewPods::of(snapshot, &current.template(), current.name());
        for id in old_ids {
            step.push(pods.with_id(id));
        }
    }
    if !new_ids.is_empty() {
        // Not from the revision's data: that has only the fields which count for its hash.
        let template = snapshot.set.spec.template.value();
        let pods = NewPods::of(snapshot, &template, revisions.update.name());
        for id in new_ids {
            step.push(pods.with_id(id));
        }
    }
    plan.push(step);
    true
}

/// Slots of new Pods: an id, and with it a name and claims.
struct Slots<'a> {
    /// Ids for Pods to be made now.
    ids: Vec<String>,
    /// Pods that have ended, and whose successors take over their names and claims.
    ended: Vec<&'a Pod>,
}

/// Slots for new Pods. Ids whose claims wait for a Pod come first; while the old Pod of that name is still there, its slot is
/// kept. A name that a Pod of somebody else has is not free.
fn slots<'a>(snapshot: &Snapshot<'a>, count: usize, plan: &mut Plan) -> Slots<'a> {
    let mut taken: BTreeSet<&str> = BTreeSet::new();
    let mut active: BTreeSet<&str> = BTreeSet::new();
    let mut going: BTreeSet<&str> = BTreeSet::new();
    let mut ended: BTreeMap<&str, &Pod> = BTreeMap::new();
    for pod in snapshot.all_pods() {
        let Some(id) = pod_id(pod) else { continue };
        taken.insert(id);
        if is_active(pod) {
            active.insert(id);
        } else if pod.metadata.is_deleting() {
            going.insert(id);
        } else if snapshot.selects(pod) {
            ended.insert(id, pod);
        }
    }
    let mut slots = Slots {
        ids: Vec::with_capacity(count),
        ended: Vec::new(),
    };
    let mut kept = PodNames::default();
    if snapshot.reuses_claims() {
        let name = |id: &str| pattern::clone_set_pod(&snapshot.owner.name, id);
        let waiting: Vec<&str> = snapshot.claims.ids().filter(|id| !active.contains(id)).collect();
        let free = |id: &&str| !taken.contains(id) && !snapshot.observed.names_taken.contains(&name(id));
        slots
            .ids
            .extend(waiting.iter().copied().filter(free).take(count).map(str::to_owned));
        let rest = count - slots.ids.len();
        waiting
            .iter()
            .filter(|id| going.contains(*id))
            .take(rest)
            .for_each(|id| kept.push(&name(id)));
        let ended = waiting.iter().filter_map(|id| ended.get(id).copied());
        slots.ended.extend(ended.take(rest - kept.count()));
        slots.ended.iter().for_each(|pod| kept.push(&pod.metadata.name));
    }
    let fresh = count - slots.ids.len() - kept.count();
    if !kept.is_empty() {
        plan.because(why::Rollout::NameTaken { pods: kept });
    }
    taken.extend(snapshot.claims.ids());
    slots.ids.extend(fresh_ids(snapshot.env.ids.clone(), &taken, fresh));
    slots
}

/// The id of a Pod; of one without the label, the end of its name.
fn pod_id(pod: &Pod) -> Option<&str> {
    let in_name = pod.metadata.name.rsplit_once('-').map(|(_, id)| id);
    claims::instance_id(&pod.metadata).or(in_name)
}

/// Step 5: which Pods are too many, in the order in which they go.
fn choose<'r, 'a>(snapshot: &'r Snapshot<'a>, diff: &Diff) -> Vec<&'r Member<'a>> {
    let (new, old): (Vec<&Member<'_>>, Vec<&Member<'_>>) =
        snapshot.members.iter().partition(|member| is_new(snapshot, member));
    let surplus = usize::try_from(diff.surplus).unwrap_or(0);
    let from_old = usize::try_from(diff.surplus_old)
        .unwrap_or(0)
        .min(surplus)
        .min(old.len());
    let from_new = (surplus - from_old).min(new.len());
    let topology = snapshot.topology();
    let mut chosen = first(old, from_old, &topology);
    chosen.extend(first(new, from_new, &topology));
    chosen
}

/// The first of a group; the order does not matter when all go.
fn first<'r, 'a>(group: Vec<&'r Member<'a>>, count: usize, topology: &Topology<'_>) -> Vec<&'r Member<'a>> {
    if count == 0 || count >= group.len() {
        return if count == 0 { Vec::new() } else { group };
    }
    let mut ranked = ranked(&group, topology);
    ranked.truncate(count);
    ranked
}

/// Deletes Pods, of the ready ones at most so many. True when there is something to write.
fn delete(snapshot: &Snapshot<'_>, members: &[&Member<'_>], mut ready: i64, plan: &mut Plan) -> bool {
    let allowed = ready;
    let mut step = Step::new(Phase::Scale, Pace::Bounded, OnFailure::Skip);
    let (mut waiting, mut hooked) = (PodNames::default(), PodNames::default());
    for member in members {
        if member.is_ready {
            if ready <= 0 {
                waiting.push(member.name());
                continue;
            }
            ready -= 1;
        }
        match lifecycle::before_delete(member.pod, snapshot.lifecycle(), snapshot.env.now) {
            None => step.push(removal(snapshot, member)),
            Some(change) => {
                hooked.push(member.name());
                step.push(change_pod(member.pod, change, Guard::Version, snapshot.env));
            }
        }
    }
    if !waiting.is_empty() {
        plan.because(why::Rollout::DeleteBudget {
            allowed: allowed as i32,
            waiting,
        });
    }
    if !hooked.is_empty() {
        plan.because(why::Pods::HookWaiting {
            hook: Hook::PreDelete,
            pods: hooked,
        });
    }
    let modified = !step.chains.is_empty();
    plan.push(step);
    modified
}

/// Deletes a Pod.
fn deletion(pod: &Pod, preconditions: Preconditions) -> Write {
    let object = Target::of(pod);
    let name = &pod.metadata.name;
    Write::from(Action::Delete { object, preconditions })
        .then(Event::normal(
            event::SUCCESSFUL_DELETE,
            format!("succeed to delete pod {name}"),
        ))
        .or_else(Event::warning(
            event::FAILED_DELETE,
            format!("failed to delete pod {name}"),
        ))
}

/// Deletes a Pod and its claims, which go with it also when we get no further than the Pod. That it is not ready, or free
/// to go, was true of this version of it.
pub(super) fn removal(snapshot: &Snapshot<'_>, member: &Member<'_>) -> Chain {
    let meta = &member.pod.metadata;
    let preconditions = if member.is_ready {
        Preconditions::same(meta)
    } else {
        Preconditions::unchanged(meta)
    };
    let claims = snapshot.claims.of_pod(meta);
    let transferred = claims.iter().filter(|_| snapshot.reuses_claims());
    let all = claims.iter().chain(snapshot.pods_claims.of_pod(meta));
    transferred
        .map(|claim| claims::transfer_to_pod(claim, member.pod, &snapshot.uid))
        .chain(std::iter::once(deletion(member.pod, preconditions)))
        .chain(all.map(|claim| claims::delete(claim)))
        .collect()
}

#[cfg(test)]
mod tests;
