//! What is known of the ConfigMap that lets the containers of a Pod start.
//!
//! Nobody watches it, so it is remembered as it was left or found last.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ConfigMap;
use kruise_api::kind::Kind as _;
use kruise_api::meta::{Meta, OwnerReference};
use kruise_api::pod::Pod;
use serde::Deserialize;
use serde_json::Value;

use crate::plan::{Action, FailureClass, Outcome, Plan, Target};

/// What is known of the ConfigMap that has the name of a Pod's barrier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Barrier {
    pub(super) whose: Whose,
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) keys: BTreeSet<String>,
}

/// Whose a [`Barrier`] is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Whose {
    /// Nobody has looked yet.
    #[default]
    Unknown,
    /// The Pod's own.
    Own,
    /// That of an earlier Pod of the same name, which is no more. It may be removed.
    Predecessor,
    /// It will be gone soon, or the Pod is not the latest of its name.
    Leaving,
    /// It has nothing to do with the Pod.
    Foreign,
}

/// A ConfigMap as the server has it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Found {
    metadata: Meta,
    data: Option<BTreeMap<String, String>>,
}

impl Barrier {
    /// What is known after a ConfigMap was read on behalf of a Pod.
    pub fn found(found: &Found, pod: &Pod) -> Self {
        Self {
            whose: found.whose(pod),
            uid: found.metadata.uid.to_string(),
            resource_version: found.metadata.resource_version.to_string(),
            keys: found.data.iter().flat_map(BTreeMap::keys).cloned().collect(),
        }
    }

    pub(super) fn own(uid: &str, keys: BTreeSet<String>) -> Self {
        Self {
            whose: Whose::Own,
            uid: uid.to_owned(),
            keys,
            ..Self::default()
        }
    }
}

impl Found {
    /// Whose it is, seen from a Pod that needs it.
    pub(super) fn whose(&self, pod: &Pod) -> Whose {
        let owners = &*self.metadata.owner_references.0;
        let of_this_name = |owner: &OwnerReference| {
            &*owner.kind == "Pod" && &*owner.api_version == "v1" && owner.name == pod.metadata.name && !owner.controller
        };
        // A Pod that came later wrote its barrier after this Pod was made.
        let is_later = self.metadata.creation_timestamp > pod.metadata.creation_timestamp;
        match owners {
            _ if self.metadata.is_deleting() => Whose::Leaving,
            owners if owners.iter().any(|owner| owner.uid == pod.metadata.uid) => Whose::Own,
            [owner] if of_this_name(owner) && is_later => Whose::Leaving,
            [owner] if of_this_name(owner) => Whose::Predecessor,
            _ => Whose::Foreign,
        }
    }
}

/// Returns what is known of the barrier after a plan was applied. `created` is the UID of the ConfigMap that it made.
pub fn after(barrier: Option<Barrier>, plan: &Plan, outcome: &Outcome, created: Option<&str>) -> Option<Barrier> {
    let is_barrier = |object: &Target| object.resource == ConfigMap::RESOURCE;
    let failed = |action: &Action| {
        let mut failures = outcome.failures.iter();
        failures.find(|failure| failure.object == *action.object())
    };
    if let Some(failure) = outcome.failures.iter().find(|failure| is_barrier(&failure.object)) {
        return match failure.class {
            FailureClass::Exists => Some(Barrier::default()),
            // Somebody removed or replaced it: it is made again.
            FailureClass::Gone | FailureClass::Conflict => barrier.filter(|barrier| barrier.whose != Whose::Own),
            _ => barrier,
        };
    }
    let mut barrier = barrier;
    for action in plan.writes() {
        match action {
            Action::Create { object, body } if is_barrier(object) => {
                barrier = created.map(|uid| Barrier::own(uid, data_keys(&body.json())));
            }
            Action::Patch { object, patch, .. } if is_barrier(object) => {
                if let Some(barrier) = &mut barrier {
                    barrier.keys.extend(data_keys(patch.document()));
                }
            }
            // The Pod is done.
            Action::Patch { .. } if failed(action).is_none() => barrier = None,
            _ => {}
        }
    }
    barrier
}

/// The keys of the Pod's own barrier; nothing when there is none.
pub(super) fn keys(barrier: Option<&Barrier>) -> Option<&BTreeSet<String>> {
    let own = barrier.filter(|barrier| barrier.whose == Whose::Own);
    own.map(|barrier| &barrier.keys)
}

/// The keys of a ConfigMap, or of a patch of one.
fn data_keys(written: &Value) -> BTreeSet<String> {
    let data = written.get("data").and_then(Value::as_object);
    data.into_iter().flat_map(|data| data.keys().cloned()).collect()
}
