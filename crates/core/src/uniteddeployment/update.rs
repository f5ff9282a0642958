//! Bringing workloads to what they have to be, and what goes with it.
//!
//! - A workload is written when it is of another revision or patch, when it has other replicas or another partition, or when Pods of it have still to be
//!   updated; then only if something is missing in it.
//! - Pods get the label that says whether they are reserved, before the status says so.
//! - Of a StatefulSet of Kubernetes that has seen the wanted revision, Pods above the partition that are old and not ready are deleted: it waits for them to be
//!   ready before it goes on, and they never will be.

use kruise_api::names::{event, label};
use kruise_api::pod::Pod;
use kruise_api::resource::Preconditions;
use serde_json::json;

use super::allocate::Mode;
use super::child::Existing;
use super::render::{change, patch_text, render};
use super::snapshot::{Place, Snapshot};
use super::template::WorkloadKind;
use crate::plan::{Action, Chain, Event, OnFailure, Pace, Phase, Plan, Step, Target, Write};
use crate::shared::availability::is_ready;

/// Writes the workloads that have to change.
pub(super) fn update(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    let mut step = Step::new(Phase::Update, Pace::SlowStart, OnFailure::GoOn);
    let mut grows = false;
    for place in &snapshot.places {
        let existing = place.existing.as_ref().filter(|existing| !existing.child.is_deleting());
        let Some(existing) = existing else { continue };
        if let Some(action) = next(snapshot, place, existing) {
            grows |= place.replicas > existing.replicas();
            let message = format!(
                "Failed to update subset {} ({})",
                place.subset.name,
                existing.child.name()
            );
            let failed = Event::warning(event::FAILED_UPDATE_SUBSET, message);
            step.push(Chain::of(Write::from(action).or_else(failed)));
        }
    }
    plan.push(step);
    if grows && snapshot.mode != Mode::Fixed {
        plan.wake(snapshot.patience.critical_time());
    }
}

/// The write that a workload needs.
fn next(snapshot: &Snapshot<'_>, place: &Place<'_>, existing: &Existing<'_>) -> Option<Action> {
    let is_whole = existing.revision() != snapshot.revision() || !existing.has_patch(patch_text(place.subset));
    let has_partition = snapshot.template.kind.has_partition() && !existing.is_on_delete();
    let (updated, _) = place.updated(snapshot);
    let is_due = is_whole
        || existing.replicas() != place.replicas
        || (has_partition && existing.partition() != place.partition)
        || updated < existing.counts().0;
    if !is_due {
        return None;
    }
    change(existing, &render(&snapshot.wanted(place)), is_whole)
}

/// Says on Pods whether they are reserved.
pub(super) fn relabel(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    let mut step = Step::new(Phase::Claims, Pace::Bounded, OnFailure::Stop);
    for (pod, is_reserved) in snapshot.places.iter().flat_map(|place| &place.outlook.relabel) {
        let value = if *is_reserved { "true" } else { "false" };
        let labels = json!({ "metadata": { "labels": { (label::RESERVED_POD): value } } });
        let same = Preconditions::same(*pod);
        step.push(Chain::of(Action::patch(Target::of(*pod), None, labels, same).into()));
    }
    plan.push(step);
}

/// Deletes Pods that keep a StatefulSet of Kubernetes from going on.
pub(super) fn delete_stuck(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    if snapshot.template.kind != WorkloadKind::StatefulSet {
        return;
    }
    let mut step = Step::new(Phase::Update, Pace::Bounded, OnFailure::GoOn);
    for place in &snapshot.places {
        let Some(existing) = &place.existing else { continue };
        let has_seen = existing.is_observed() && existing.revision() == snapshot.revision();
        if !has_seen || existing.is_on_delete() || existing.child.is_deleting() {
            continue;
        }
        // A partition counts Pods, wherever their ordinals begin.
        let first_updated = existing.first_ordinal().saturating_add(existing.partition());
        let is_stuck = |pod: &&&Pod| {
            let ordinal = pod
                .metadata
                .name
                .rsplit_once('-')
                .and_then(|(_, ordinal)| ordinal.parse::<i32>().ok());
            ordinal.is_some_and(|ordinal| ordinal >= first_updated) && !snapshot.is_updated(pod) && !is_ready(pod)
        };
        for pod in place.pods.iter().filter(is_stuck) {
            let unchanged = Preconditions::unchanged(*pod);
            step.push(Chain::of(Action::delete(Target::of(*pod), unchanged).into()));
        }
    }
    plan.push(step);
}
