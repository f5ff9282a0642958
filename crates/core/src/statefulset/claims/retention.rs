//! Who owns claims, and so when they go. The garbage collector does the rest.
//!
//! | `whenScaled` / `whenDeleted` | the set owns them | their Pod owns them |
//! |---|---|---|
//! | Retain / Retain | no | no |
//! | Retain / Delete | yes | no |
//! | Delete / Retain | no | if the set does not want the ordinal |
//! | Delete / Delete | if the set wants the ordinal | if it does not |
//!
//! These owners manage nothing: they are not the claim's controller. A word that is not known is Retain: better a claim too many.

use kruise_api::kind::Kind as _;
use kruise_api::meta::{Meta, Uid};
use kruise_api::names::event;
use kruise_api::pod::Pod;
use kruise_api::statefulset::v1beta1::{ClaimRetention, StatefulSet};
use kruise_api::storage::PersistentVolumeClaim;

use crate::plan::{Event, Write};
use crate::shared::owner::{Owner, change_plain_owners};

/// What the policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Retention {
    deletes_with_set: bool,
    deletes_with_pod: bool,
}

impl Retention {
    pub(super) fn of(set: &StatefulSet) -> Self {
        let policy = set.spec.persistent_volume_claim_retention_policy.as_ref();
        Self {
            deletes_with_set: policy.is_some_and(|policy| policy.when_deleted == ClaimRetention::Delete),
            deletes_with_pod: policy.is_some_and(|policy| policy.when_scaled == ClaimRetention::Delete),
        }
    }

    /// The set owns the claims of an ordinal; one in `excess` is not wanted by it.
    pub(super) fn wants_set(self, excess: bool) -> bool {
        self.deletes_with_set && !(self.deletes_with_pod && excess)
    }

    fn wants_pod(self, excess: bool) -> bool {
        self.deletes_with_pod && excess
    }

    /// Returns the write that gives a claim its owners, if it has others.
    pub(super) fn fix(self, claim: &Meta, pod: &Pod, set: &Owner, excess: bool) -> Option<Write> {
        let set_uid = Uid::from(&*set.uid);
        let pod_owner = Owner::of_pod(pod);
        let wanted = [
            (self.wants_set(excess), &set_uid, set),
            (self.wants_pod(excess), &pod.metadata.uid, &pod_owner),
        ];
        let has = |uid: &Uid| claim.owner_references.0.iter().any(|owner| owner.uid == *uid);
        let remove = wanted.iter().filter(|(wants, uid, _)| !wants && has(uid));
        let remove: Vec<&Uid> = remove.map(|(_, uid, _)| *uid).collect();
        let add = wanted.iter().filter(|(wants, uid, _)| *wants && !has(uid));
        let add: Vec<&Owner> = add.map(|(_, _, owner)| *owner).collect();
        if remove.is_empty() && add.is_empty() {
            return None;
        }
        let failed = format!("failed to change the owners of claim {}", claim.name);
        let action = change_plain_owners(PersistentVolumeClaim::RESOURCE, claim, &remove, &add);
        Some(Write::from(action).or_else(Event::warning(event::FAILED_UPDATE, failed)))
    }
}

/// A claim is another one's who manages it, so its owners are not for us to change.
pub(super) fn is_of_others(claim: &Meta, pod: &Pod, set: &Owner) -> bool {
    let controller = claim.controller().map(|owner| &owner.uid);
    controller.is_some_and(|uid| *uid != pod.metadata.uid && *uid != Uid::from(&*set.uid))
}

/// A claim goes with a Pod of this name, though there is none now, or with a set that had our name before us. It must not become a new Pod's.
pub(super) fn is_stale(claim: &Meta, pod: &str, set: &Owner) -> bool {
    let uid = Uid::from(&*set.uid);
    claim.owner_references.0.iter().any(|owner| {
        let is_pod = owner.kind == Pod::KIND && *owner.name == *pod;
        let is_set = owner.is_a::<StatefulSet>() && *owner.name == *set.name;
        is_pod || (is_set && owner.uid != uid)
    })
}
