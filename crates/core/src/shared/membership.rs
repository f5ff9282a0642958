//! Which Pods are a workload's.
//!
//! | controlled by | belongs | what becomes of it |
//! |---|---|---|
//! | the workload | yes | it is a *member* |
//! | the workload | no | it is *released*: it loses its owner and lives on, and a new Pod takes its place |
//! | nobody | yes | it can be *adopted*, unless it is on its way out |
//! | another | – | it is left alone |
//!
//! A Pod *belongs* when the selector chooses it, and whatever else its kind asks for (a name with an ordinal, say). A kind that adopts nobody does not
//! look at Pods that can be adopted. Neither is done for a workload that is on its way out.

mod member;

pub use member::Member;

use std::time::Duration;

use kruise_api::kind::Kind as _;
use kruise_api::meta::Uid;
use kruise_api::pod::Pod;

use super::owner::{self, Owner, is_controlled_by};
use crate::plan::{Chain, Plan, PodNames, why};

/// When a workload looks again of whose Pods some cannot be read.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// The Pods of a workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Membership<'a> {
    /// Pods that it controls and that belong to it.
    pub members: Vec<&'a Pod>,
    /// Pods that it controls and that no longer belong to it.
    pub released: Vec<&'a Pod>,
    /// Pods that belong to it and that nobody controls.
    pub adoptable: Vec<&'a Pod>,
}

impl<'a> Membership<'a> {
    /// Sorts Pods by whose they are. Pods that stay in their order.
    pub fn of(pods: impl IntoIterator<Item = &'a Pod>, owner: &Uid, belongs: impl Fn(&Pod) -> bool) -> Self {
        let mut membership = Self::default();
        for pod in pods {
            let meta = &pod.metadata;
            if is_controlled_by(meta, owner) {
                let list = if belongs(pod) {
                    &mut membership.members
                } else {
                    &mut membership.released
                };
                list.push(pod);
            } else if meta.controller().is_none() && !meta.is_deleting() && belongs(pod) {
                membership.adoptable.push(pod);
            }
        }
        membership
    }
}

/// Says that some Pods cannot be read, and looks again after a while: nobody tells the workload when one that could never be read is gone.
pub fn wait_for_unreadable(pods: PodNames, plan: &mut Plan) {
    plan.because(why::Pods::PodsUnreadable { pods });
    plan.wake(LOOK_AGAIN);
}

/// Takes our name off a Pod that is no longer ours.
pub fn release(pod: &Pod, owner: &Uid) -> Chain {
    Chain::of(owner::release(Pod::RESOURCE, &pod.metadata, owner).into())
}

/// Puts our name on a Pod that is nobody's.
pub fn adopt(pod: &Pod, owner: &Owner) -> Chain {
    Chain::of(owner::adopt(Pod::RESOURCE, &pod.metadata, owner).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Action;
    use crate::shared::fixture::{Fixture as _, running_pod};
    use serde_json::json;

    fn owned(name: &str, uid: &str) -> crate::shared::fixture::PodBuilder {
        let owner =
            json!([{"apiVersion": "apps.kruise.io/v1beta1", "kind": "X", "name": "x", "uid": uid, "controller": true}]);
        running_pod(name).set("/metadata/ownerReferences", owner)
    }

    #[test]
    fn pods_are_members_released_adoptable_or_somebody_elses() {
        let going = json!("2024-05-01T10:00:00Z");
        let pods = [
            owned("member", "u").label("app", "x"),
            owned("released", "u"),
            owned("foreign", "v").label("app", "x"),
            running_pod("orphan").label("app", "x"),
            running_pod("stranger"),
            running_pod("going")
                .label("app", "x")
                .set("/metadata/deletionTimestamp", going),
        ]
        .map(|pod| pod.typed());
        let membership = Membership::of(&pods, &Uid::from("u"), |pod| pod.metadata.label("app") == Some("x"));
        let names = |pods: &[&Pod]| -> Vec<String> { pods.iter().map(|pod| pod.metadata.name.to_string()).collect() };
        assert_eq!(names(&membership.members), ["member"]);
        assert_eq!(names(&membership.released), ["released"]);
        assert_eq!(names(&membership.adoptable), ["orphan"]);
    }

    #[test]
    fn who_adopts_or_releases_a_pod_has_seen_its_last_version() {
        let pod = running_pod("p").typed();
        let owner = Owner {
            api_version: "apps.kruise.io/v1beta1".to_owned(),
            kind: "X".to_owned(),
            name: "x".to_owned(),
            uid: "u".to_owned(),
        };
        let patched = |chain: &Chain| match &chain.writes[..] {
            [write] => match &write.action {
                Action::Patch {
                    patch, preconditions, ..
                } => (
                    patch.document()["metadata"]["ownerReferences"].clone(),
                    preconditions.clone(),
                ),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        let (owners, preconditions) = patched(&adopt(&pod, &owner));
        assert_eq!(owners, json!([owner.reference()]));
        assert_eq!(preconditions.resource_version.as_deref(), Some("7"));
        let (owners, preconditions) = patched(&release(&pod, &Uid::from("u")));
        assert_eq!(owners, json!([{"$patch": "delete", "uid": "u"}]));
        assert_eq!(preconditions.resource_version.as_deref(), Some("7"));
    }
}
