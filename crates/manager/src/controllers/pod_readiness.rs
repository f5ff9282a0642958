//! Pods with the readiness gate `KruisePodReady` get the condition of that name.
//!
//! - A Pod that has the gate, has no such condition yet and is not on its way out gets it: true, since now. Without it the Pod would never be ready.
//! - A condition that is there is never touched: others hold the Pod not ready by it.
//! - New Pods of a CloneSet get it from their set, in one write with their other conditions.
//! - A Pod that was orphaned or released before its workload wrote `InPlaceUpdateReady` gets that condition as well, for the same reason.
//! - The write is refused when the Pod has changed since we looked: the condition may be there by now.

use super::ControllerHandle;
use crate::platform::{ControllerContext, Platform};
use jiff::Timestamp;
use kruise_admission::descriptor::Controller;
use kruise_api::pod::Pod;
use kruise_core::shared::{
    pod_change::{Guard, PodPatch},
    readiness::first_unless_advanced,
};
use kruise_runtime::{
    cache::Store,
    controller::{Outcome, priority},
    error::Error,
    resource::ObjectKey,
    writer::{Patch, Target},
};
use serde_json::json;
use std::sync::Arc;

struct PodReadiness {
    pods: Store<Pod>,
    context: ControllerContext,
}

pub(super) fn build(platform: &mut Platform, controller: &'static Controller) -> ControllerHandle {
    let this = Arc::new(PodReadiness {
        pods: platform.store(),
        context: platform.context(controller),
    });
    let explained = this.pods.clone();
    platform.plans().add(
        "Pod",
        controller.name,
        Arc::new(move |key| {
            let pod = explained.get(&key.namespace, &key.name)?;
            let patch = missing(&pod, Timestamp::now()).map(|patch| patch.body);
            Some(json!({ "patchStatus": patch }))
        }),
    );
    let (pods, queue) = (this.pods.clone(), this.context.queue().clone());
    ControllerHandle::new(controller.name, this.context.controller(), move |key| {
        let this = this.clone();
        async move { this.reconcile(&key).await }
    })
    .on_start(move || {
        pods.subscribe(move |event| {
            if let Some(pod) = event.new.filter(|pod| missing(pod, Timestamp::now()).is_some()) {
                queue.add(
                    ObjectKey::new(&pod.metadata.namespace, &pod.metadata.name),
                    priority(event),
                );
            }
        });
    })
}

impl PodReadiness {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, Error> {
        let Some(pod) = self.pods.get(&key.namespace, &key.name) else {
            self.context.expectations().forget(key);
            return Ok(Outcome::done());
        };
        let Some(patch) = missing(&pod, Timestamp::now()) else {
            return Ok(Outcome::done());
        };
        let target = Target::new(self.pods.resource(), &key.namespace, &key.name).status();
        let written = self
            .context
            .writer()
            .patch(&target, Patch::Strategic(patch.body), &patch.preconditions)
            .await?;
        self.context
            .expectations()
            .changed(key, &self.pods, &key.namespace, &written);
        Ok(Outcome::done())
    }
}

/// What is missing of the Pod; nothing when it waits for nothing, or gets it from its workload.
fn missing(pod: &Pod, now: Timestamp) -> Option<PodPatch> {
    let change = first_unless_advanced(pod, now);
    change.requests(pod, Guard::Version, true).into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kruise_api::resource::{Preconditions, Subresource};
    use serde_json::Value;

    fn lacks_condition(status: &Value, deleted: Option<&str>, owner: &Value) -> bool {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "n", "deletionTimestamp": deleted, "ownerReferences": owner},
            "spec": {"readinessGates": [{"conditionType": "InPlaceUpdateReady"}, {"conditionType": "KruisePodReady"}]},
            "status": status,
        }))
        .expect("a Pod");
        missing(&pod, Timestamp::UNIX_EPOCH).is_some()
    }

    #[test]
    fn given_pods_then_only_those_with_the_gate_and_without_the_condition_get_it() {
        let (none, nobody) = (json!({}), json!([]));
        assert!(lacks_condition(&none, None, &nobody));
        let other = json!({"conditions": [{"type": "Other", "status": "True"}]});
        assert!(lacks_condition(&other, None, &nobody));
        for status in ["True", "False", ""] {
            let held = json!({"conditions": [{"type": "KruisePodReady", "status": status}]});
            assert!(!lacks_condition(&held, None, &nobody), "{status:?}");
        }
        assert!(!lacks_condition(&none, Some("2026-01-01T00:00:00Z"), &nobody));
        assert!(missing(&Pod::default(), Timestamp::UNIX_EPOCH).is_none());
    }

    #[test]
    fn given_an_owner_then_only_pods_of_a_cloneset_are_left_to_it() {
        for (kind, expected) in [("CloneSet", false), ("StatefulSet", true)] {
            let owner = json!([{"apiVersion": "apps.kruise.io/v1beta1", "kind": kind, "name": "o", "uid": "u", "controller": true}]);
            assert_eq!(lacks_condition(&json!({}), None, &owner), expected, "{kind}");
        }
    }

    #[test]
    fn given_a_time_then_the_condition_has_it_in_whole_seconds() {
        let pod = json!({"metadata": {"uid": "u", "resourceVersion": "7"}, "spec": {"readinessGates": [{"conditionType": "KruisePodReady"}]}});
        let pod: Pod = serde_json::from_value(pod).expect("a Pod");
        let now = "2026-01-01T10:00:00.9Z".parse().expect("a time");
        let patch = missing(&pod, now).expect("a patch");
        assert_eq!(patch.subresource, Some(Subresource::Status));
        let expected = json!({
            "type": "KruisePodReady", "status": "True", "reason": null, "message": null,
            "lastTransitionTime": "2026-01-01T10:00:00Z",
        });
        assert_eq!(patch.body["status"]["conditions"], json!([expected]));
        assert_eq!(patch.preconditions, Preconditions::uid("u").at("7"));
    }
}
