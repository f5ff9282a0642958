//! The condition `SidecarSetUpgradable` of a Pod: whether each of its sets could update it in place.
//!
//! - The message is a JSON map with an entry per set; the condition holds when all entries are true. A set changes only its own.
//! - A Pod that cannot be updated gets `false`. One that is at the hash of its set gets `true` when it was updated in place, or had `false` before.
//!   One that was injected and never touched since has no entry.
//! - The time moves only when the status does. A message that cannot be read is left alone.

use std::collections::{BTreeMap, BTreeSet};

use kruise_api::names::condition::pod::{ALL_SIDECAR_SETS_UPGRADABLE, SIDECAR_SET_UPGRADABLE, UPDATE_IMMUTABLE_FIELD};
use kruise_api::pod::status::Holds;

use super::snapshot::{Member, Snapshot};
use crate::plan::{Action, Chain, OnFailure, Pace, Phase, Plan, Step, Target};
use crate::shared::pod_change::{Guard, NewCondition, PodChange};

/// Says of Pods that have arrived that they can be updated. One that is written in the same round has its turn later: the second write would be refused.
pub(super) fn confirm(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    let written: BTreeSet<Target> = plan.writes().map(|action| action.object().clone()).collect();
    let is_arrived = |member: &&Member<'_>| member.is_updated && !written.contains(&Target::of(member.pod));
    let mut step = Step::new(Phase::Update, Pace::Bounded, OnFailure::Skip);
    for member in snapshot.members.iter().filter(is_arrived) {
        let entry = entries(member)
            .ok()
            .and_then(|entries| entries.get(snapshot.name).copied());
        let was_updated = matches!(member.state, Ok(Some(_)));
        if entry == Some(false) || (entry.is_none() && was_updated) {
            step.push(set(snapshot, member, true));
        }
    }
    plan.push(step);
}

/// The write that gives a Pod this entry; nothing when it has it already.
pub(super) fn set(snapshot: &Snapshot<'_>, member: &Member<'_>, is_upgradable: bool) -> Chain {
    let Ok(mut entries) = entries(member) else {
        return Chain::default();
    };
    if entries.insert(snapshot.name.to_owned(), is_upgradable) == Some(is_upgradable) {
        return Chain::default();
    }
    let holds = entries.values().all(|is_upgradable| *is_upgradable);
    let before = member.pod.status.condition(SIDECAR_SET_UPGRADABLE);
    let kept = before
        .filter(|before| (before.status == Holds::True) == holds && before.status != Holds::Unknown)
        .and_then(|before| before.last_transition_time);
    let reason = if holds {
        ALL_SIDECAR_SETS_UPGRADABLE
    } else {
        UPDATE_IMMUTABLE_FIELD
    };
    let condition = NewCondition {
        holds,
        reason: Some(reason.to_owned()),
        message: Some(super::records::written(&entries)),
        since: Some(kept.map_or(snapshot.env.now, kruise_api::meta::CompactTimestamp::timestamp)),
    };
    let mut change = PodChange::default();
    change.conditions.insert(SIDECAR_SET_UPGRADABLE.to_owned(), condition);
    let requests = change.requests(member.pod, Guard::Version, true);
    let write = |request| Action::patch_pod(member.pod, request).into();
    requests.into_iter().map(write).collect()
}

fn entries(member: &Member<'_>) -> Result<BTreeMap<String, bool>, ()> {
    let condition = member.pod.status.condition(SIDECAR_SET_UPGRADABLE);
    match condition.map(|condition| &*condition.message) {
        None | Some("") => Ok(BTreeMap::new()),
        Some(message) => serde_json::from_str(message).map_err(|_| ()),
    }
}
