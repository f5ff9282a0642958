//! Pods with the readiness gate `KruisePodReady` get the condition of that name.
//!
//! - A Pod that has the gate, has no such condition yet and is not on its way out gets it: true, since now. Without it the Pod would never be ready.
//! - A condition that is there is never touched: others hold the Pod not ready by it.
//! - New Pods of a CloneSet get it from their set, in one write with their other conditions: see [`crate::shared::inplace`].
//! - A Pod that was orphaned or released before its workload wrote `InPlaceUpdateReady` gets that condition as well, for the same reason.
//! - The write is refused when the Pod has changed since we looked: the condition may be there by now.

use std::sync::Arc;

use jiff::Timestamp;
use kruise_api::cloneset::v1beta1::CloneSet;
use kruise_api::kind::Kind as _;
use kruise_api::meta::{OwnerReference, group_of};
use kruise_api::names::condition::pod::IN_PLACE_UPDATE_READY;
use kruise_api::names::label;
use kruise_api::pod::Pod;

use crate::plan::{Action, Env, Observation, Plan};
use crate::shared::pod_change::{Guard, PodChange};
use crate::shared::readiness::{first, has_gate, ready_since};

/// A Pod of any kind.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The Pod.
    pub pod: Arc<Pod>,
}

impl Observation for Observed {
    fn plan(&self, env: &Env) -> Plan {
        plan(self, env)
    }
}

/// What to do for a Pod now.
pub fn plan(observed: &Observed, env: &Env) -> Plan {
    let pod = &*observed.pod;
    let requests = missing(pod, env.now).requests(pod, Guard::Version, env.server.pod_resize);
    Plan {
        status: requests
            .into_iter()
            .next()
            .map(|request| Action::patch_pod(pod, request)),
        ..Plan::default()
    }
}

/// Returns true when there is something to do for a Pod.
pub fn is_due(pod: &Pod) -> bool {
    !missing(pod, Timestamp::UNIX_EPOCH).is_empty()
}

/// What is missing of a Pod; nothing when it waits for nothing, or gets it from its workload.
fn missing(pod: &Pod, now: Timestamp) -> PodChange {
    let is_new = has_gate(pod, IN_PLACE_UPDATE_READY) && pod.status.condition(IN_PLACE_UPDATE_READY).is_none();
    if !is_new {
        return first(pod, now);
    }
    let owner = pod.metadata.controller();
    if owner.is_some_and(OwnerReference::is_a::<CloneSet>) {
        return PodChange::default();
    }
    let mut change = first(pod, now);
    let is_orphan = owner.is_none_or(|owner| group_of(&owner.api_version) != CloneSet::GROUP);
    let was_made_by_workload = pod.metadata.label(label::REVISION).is_some();
    if is_orphan && was_made_by_workload && !pod.metadata.is_deleting() {
        change
            .conditions
            .insert(IN_PLACE_UPDATE_READY.to_owned(), ready_since(now));
    }
    change
}

#[cfg(test)]
mod tests;
