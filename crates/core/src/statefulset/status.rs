//! What a StatefulSet's status says.
//!
//! - `replicas` are all Pods of the set, wanted or not, ended and terminating ones too.
//! - *Ready* looks at the Pod's own conditions only; *available* also asks for `minReadySeconds` and for no lifecycle hook in between.
//! - `currentReplicas` and `updatedReplicas` leave out Pods on their way out. A Pod that waits for the hook before its update is neither: it no longer counts as current.
//! - `currentRevision` becomes `updateRevision` when all wanted Pods are there, updated and ready, or none are wanted; with `OnDelete` never. While one is missing,
//!   the partition still has to know at which revision it comes back.
//! - `volumeClaims` say how far the claims of wanted Pods follow their templates.
//! - `FailedCreatePod` and `FailedUpdatePod` are there as long as something fails, with the reason for it in the message.
//!
//! The status is written when it says something new, and then as a patch of what changed.

use kruise_api::kind::Kind as _;
use kruise_api::names::condition::stateful_set as names;
use kruise_api::pod::Pod;
use kruise_api::shared::conditions::Condition;
use kruise_api::statefulset::v1beta1::StatefulSetStatus;

use super::counts::is_rolling;
use super::snapshot::{OrdinalPod, Snapshot};
use crate::plan::{Action, Failure, Phase};
use crate::shared::conditions::{StatusCondition as _, to_second};
use crate::shared::lifecycle::{self, State};
use crate::shared::{availability, revision, selector, status};

/// Why Pods cannot be created or updated, as far as this round knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Failures {
    /// Why Pods cannot be created.
    pub(super) create: Option<String>,
    /// Why Pods cannot be updated.
    pub(super) update: Option<String>,
}

/// Returns the write that brings the status up to date; none when it is.
pub(super) fn write(snapshot: &Snapshot<'_>, failures: &Failures) -> Option<Action> {
    let old = snapshot.set.status.as_ref();
    status::patch(snapshot.set, old, &new_status(snapshot, failures))
}

fn new_status(snapshot: &Snapshot<'_>, failures: &Failures) -> StatefulSetStatus {
    let set = snapshot.set;
    let before = set.status.clone().unwrap_or_default();
    let count = |of: &dyn Fn(&OrdinalPod<'_>) -> bool| snapshot.all_pods().filter(|pod| of(pod)).count() as i32;
    let (current, update) = (snapshot.revisions.current.name(), snapshot.revisions.update.name());
    let is_at = |pod: &OrdinalPod<'_>, name: &str| !pod.is_terminating() && revision::of_pod(pod.pod()) == name;
    let is_leaving = |pod: &OrdinalPod<'_>| current != update && lifecycle::state(pod.pod()) == State::PreparingUpdate;
    let is_ready = |pod: &OrdinalPod<'_>| availability::is_ready(pod.pod());
    let is_available = |pod: &OrdinalPod<'_>| pod.member.is_available();
    let ordinals: Vec<i32> = snapshot.replicas.keys().copied().collect();
    let generation = set.metadata.generation.unwrap_or_default();
    let mut new = StatefulSetStatus {
        observed_generation: before.observed_generation.max(generation),
        replicas: count(&|_| true),
        ready_replicas: count(&is_ready),
        available_replicas: count(&is_available),
        current_replicas: count(&|pod| is_at(pod, current) && !is_leaving(pod)),
        updated_replicas: count(&|pod| is_at(pod, update)),
        updated_ready_replicas: count(&|pod| is_at(pod, update) && is_ready(pod)),
        updated_available_replicas: count(&|pod| is_at(pod, update) && is_available(pod)),
        current_revision: current.to_owned(),
        update_revision: update.to_owned(),
        collision_count: Some(snapshot.revisions.collisions),
        conditions: conditions(snapshot, failures, &before.conditions),
        label_selector: selector::text(&set.spec.selector),
        volume_claims: snapshot.claims.status(&ordinals),
    };
    let is_complete = new.updated_replicas == new.replicas && new.replicas == new.ready_replicas;
    if is_rolling(&set.spec) && is_complete && snapshot.missing() == 0 {
        new.current_replicas = new.updated_replicas;
        new.current_revision.clone_from(&new.update_revision);
    }
    new
}

fn conditions(snapshot: &Snapshot<'_>, failures: &Failures, before: &[Condition]) -> Vec<Condition> {
    let last = &snapshot.observed.last;
    // A Pod that is there was not to be created: only its deletion can have failed.
    let is_creation = |failure: &&Failure| {
        let object = &failure.object;
        object.resource != Pod::RESOURCE || !snapshot.all_pods().any(|pod| *pod.name() == object.name)
    };
    let create = last.first(Phase::Scale).filter(is_creation);
    let update = last.first(Phase::Update).or_else(|| last.first(Phase::Claims));
    let message = |failure: Option<&Failure>| failure.map(|failure| failure.message.clone());
    let all = [
        (
            names::FAILED_CREATE_POD,
            failures.create.clone().or_else(|| message(create)),
        ),
        (
            names::FAILED_UPDATE_POD,
            failures.update.clone().or_else(|| message(update)),
        ),
    ];
    let failed = all.into_iter().filter_map(|(type_, message)| Some((type_, message?)));
    failed
        .map(|(type_, message)| {
            let known = before
                .iter()
                .find(|known| known.type_ == type_ && known.message == message);
            known
                .cloned()
                .unwrap_or_else(|| Condition::holds(type_, &message, to_second(snapshot.now())))
        })
        .collect()
}
