//! The status: the counts of all subsets together and of each, and how the last steps went.
//!
//! - Replicas and ready ones are what the workloads say of themselves; reserved Pods do not count as replicas. Updated ones are counted among the Pods.
//! - The rollout has reached the wanted revision when as many Pods as there should be are at it and ready.
//! - A subset has an entry as long as it is there, or has a workload.
//! - `SubsetProvisioned` and `SubsetUpdated` are False while the API server refuses to have workloads made, deleted or changed, and say why.

use std::collections::BTreeSet;

use kruise_api::names::condition::united_deployment as condition;
use kruise_api::names::label;
use kruise_api::shared::conditions::ConditionStatus;
use kruise_api::uniteddeployment::v1beta1::UnitedDeploymentStatus;
use kruise_api::uniteddeployment::{SubsetStatus, UnitedDeploymentCondition};

use super::allocate::Mode;
use super::schedule::set_condition;
use super::snapshot::{Place, Snapshot};
use crate::plan::{Action, Phase};
use crate::shared::conditions::to_second;
use crate::shared::{selector, status};

/// The write of the status that has to come before workloads are changed: subsets take Pods otherwise than before.
pub(super) fn first(snapshot: &Snapshot<'_>) -> Option<Action> {
    let changes = |place: &Place<'_>| {
        let mut entry = place.status.cloned().unwrap_or_default();
        let before = entry.conditions.clone();
        settle(snapshot, place, &mut entry);
        entry.conditions != before
    };
    if snapshot.mode != Mode::Fixed && snapshot.places.iter().any(changes) {
        write(snapshot)
    } else {
        None
    }
}

/// The write of the status; none when it is right already.
pub(super) fn write(snapshot: &Snapshot<'_>) -> Option<Action> {
    let old = snapshot.united.status.as_ref();
    status::patch(snapshot.united, old, &next(snapshot, old))
}

fn settle(snapshot: &Snapshot<'_>, place: &Place<'_>, entry: &mut SubsetStatus) {
    if snapshot.mode == Mode::Fixed {
        entry.conditions.clear();
    } else if let Some((holds, reason)) = &place.outlook.condition {
        set_condition(entry, holds.clone(), reason, snapshot.env.now);
    }
}

fn next(snapshot: &Snapshot<'_>, old: Option<&UnitedDeploymentStatus>) -> UnitedDeploymentStatus {
    let mut new = old.cloned().unwrap_or_default();
    new.observed_generation = snapshot.united.metadata.generation.unwrap_or_default();
    new.label_selector = label_selector(snapshot);
    snapshot.revision().clone_into(&mut new.updated_revision);
    if snapshot.revisions.collisions > 0 {
        new.collision_count = Some(snapshot.revisions.collisions);
    }
    new.subset_statuses = subsets(snapshot, &new.subset_statuses);
    (new.replicas, new.ready_replicas) = (0, 0);
    for existing in snapshot.claims.children.values() {
        let (replicas, ready) = existing.counts();
        new.replicas = new.replicas.saturating_add(replicas);
        new.ready_replicas = new.ready_replicas.saturating_add(ready);
    }
    let places = snapshot.places.iter();
    new.reserved_pods = places.clone().map(Place::reserved).sum();
    new.replicas = new.replicas.saturating_sub(new.reserved_pods).max(0);
    let counts = places.clone().map(|place| place.updated(snapshot));
    (new.updated_replicas, new.updated_ready_replicas) =
        counts.fold((0, 0), |sum: (i32, i32), count| (sum.0 + count.0, sum.1 + count.1));
    let asked: i32 = places.fold(0, |sum: i32, place| sum.saturating_add(place.replicas));
    let wanted = asked.min(snapshot.total()).max(new.replicas);
    if snapshot.revisions.are_same() || new.updated_ready_replicas >= wanted {
        snapshot.revision().clone_into(&mut new.current_revision);
    } else {
        snapshot.revisions.current.name().clone_into(&mut new.current_revision);
    }
    conditions(snapshot, &mut new);
    new
}

/// Autoscalers do not see reserved Pods.
fn label_selector(snapshot: &Snapshot<'_>) -> String {
    let text = selector::text(&snapshot.united.spec.selector);
    match snapshot.mode {
        Mode::Reserving => format!("{text},{}=false", label::RESERVED_POD),
        _ => text,
    }
}

/// The entries that stay keep their order; new ones follow in that of the subsets.
fn subsets(snapshot: &Snapshot<'_>, old: &[SubsetStatus]) -> Vec<SubsetStatus> {
    let mut entries: Vec<SubsetStatus> = Vec::new();
    let mut seen = BTreeSet::new();
    let of = |name: &str| snapshot.places.iter().find(|place| place.subset.name == name);
    for known in old {
        let stays = of(&known.name).is_some() || snapshot.claims.children.contains_key(&known.name);
        if stays && seen.insert(known.name.clone()) {
            entries.push(known.clone());
        }
    }
    for place in &snapshot.places {
        if seen.insert(place.subset.name.clone()) {
            entries.push(SubsetStatus {
                name: place.subset.name.clone(),
                ..SubsetStatus::default()
            });
        }
    }
    for entry in &mut entries {
        let existing = snapshot.claims.children.get(&entry.name);
        entry.ready_replicas = existing.map_or(0, |existing| existing.counts().1);
        let Some(place) = of(&entry.name) else {
            (entry.replicas, entry.partition, entry.reserved_pods) = (0, 0, 0);
            continue;
        };
        entry.replicas = place.replicas;
        entry.partition = place.partition;
        entry.reserved_pods = place.reserved();
        settle(snapshot, place, entry);
    }
    entries
}

fn conditions(snapshot: &Snapshot<'_>, status: &mut UnitedDeploymentStatus) {
    let revision = snapshot.revision();
    if status.current_revision == revision {
        let message = format!("updated to revision {revision}");
        set(
            snapshot,
            status,
            condition::UPDATED,
            true,
            condition::REVISION_UPDATED,
            &message,
        );
    } else {
        let message = format!("updating to revision {revision}");
        set(
            snapshot,
            status,
            condition::UPDATED,
            false,
            condition::REVISION_UPDATING,
            &message,
        );
    }
    for (type_, phase) in [
        (condition::SUBSET_PROVISIONED, Phase::Scale),
        (condition::SUBSET_UPDATED, Phase::Update),
    ] {
        match snapshot.observed.last.first(phase) {
            Some(failure) => set(snapshot, status, type_, false, condition::ERROR, &failure.message),
            // Where nothing was made yet there is nothing to tell.
            None if snapshot.claims.children.is_empty() => {}
            None => set(snapshot, status, type_, true, "", ""),
        }
    }
    status
        .conditions
        .retain(|known| known.type_ != condition::SUBSET_FAILURE);
}

/// A condition that stays what it is keeps its words.
fn set(
    snapshot: &Snapshot<'_>,
    status: &mut UnitedDeploymentStatus,
    type_: &str,
    holds: bool,
    reason: &str,
    message: &str,
) {
    let holds = if holds {
        ConditionStatus::True
    } else {
        ConditionStatus::False
    };
    let known = status.conditions.iter().position(|known| known.type_ == type_);
    let new = UnitedDeploymentCondition {
        type_: type_.to_owned(),
        status: holds,
        last_transition_time: Some(to_second(snapshot.env.now)),
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    match known.and_then(|at| status.conditions.get_mut(at)) {
        Some(known) if known.status == new.status => {}
        Some(known) => *known = new,
        None => status.conditions.push(new),
    }
}
