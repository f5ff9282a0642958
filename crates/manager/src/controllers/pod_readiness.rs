//! Pods with the readiness gate `KruisePodReady` get the condition of that name.
//!
//! - A Pod that has the gate, has no such condition yet and is not on its way out gets it: true, since now. Without it the Pod would never be ready.
//! - A condition that is there is never touched: others hold the Pod not ready by it.
//! - The write is refused when the Pod has changed since we looked: the condition may be there by now.

use super::Part;
use crate::platform::{Platform, Workplace};
use jiff::Timestamp;
use kruise_admission::descriptor::Controller;
use kruise_api::{names::condition::pod::KRUISE_POD_READY, pod::Pod};
use kruise_runtime::{
    cache::Store,
    controller::{Outcome, priority},
    error::Error,
    expectations::Visible,
    resource::ObjectKey,
    writer::{Patch, Preconditions, Target},
};
use serde_json::{Value, json};
use std::sync::Arc;

struct PodReadiness {
    pods: Store<Pod>,
    place: Workplace,
}

pub(super) fn build(platform: &mut Platform, controller: &'static Controller) -> Part {
    let this = Arc::new(PodReadiness {
        pods: platform.store(),
        place: platform.workplace(controller),
    });
    let explained = this.pods.clone();
    platform.plans().add(
        "Pod",
        controller.name,
        Arc::new(move |key| {
            let pod = explained.get(&key.namespace, &key.name)?;
            let patch = lacks_condition(&pod).then(|| condition(Timestamp::now()));
            Some(json!({ "patchStatus": patch }))
        }),
    );
    let (pods, queue) = (this.pods.clone(), this.place.queue().clone());
    Part::new(controller.name, this.place.controller(), move |key| {
        let this = this.clone();
        async move { this.reconcile(&key).await }
    })
    .wake(move || {
        pods.subscribe(move |event| {
            if let Some(pod) = event.new.filter(|pod| lacks_condition(pod)) {
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
        if let Visible::NotYet { ask_after, .. } = self.place.expectations().check(key) {
            return Ok(Outcome::wake_after(ask_after));
        }
        let Some(pod) = self.pods.get(&key.namespace, &key.name) else {
            self.place.expectations().forget(key);
            return Ok(Outcome::done());
        };
        if !lacks_condition(&pod) {
            return Ok(Outcome::done());
        }
        let patch = Patch::Strategic(condition(Timestamp::now()));
        let (uid, version) = (pod.metadata.uid.to_string(), pod.metadata.resource_version.to_string());
        let target = Target::new(self.pods.resource(), &key.namespace, &key.name).status();
        let written = self
            .place
            .writer()
            .patch(&target, patch, &Preconditions::uid(&uid).at(&version))
            .await?;
        self.place
            .expectations()
            .changed(key, &self.pods, &key.namespace, &written);
        Ok(Outcome::done())
    }
}

/// Whether the Pod waits for its first condition.
fn lacks_condition(pod: &Pod) -> bool {
    let has_gate = pod
        .spec
        .template
        .readiness_gates
        .iter()
        .any(|gate| gate == KRUISE_POD_READY);
    has_gate && pod.status.condition(KRUISE_POD_READY).is_none() && !pod.metadata.is_deleting()
}

fn condition(now: Timestamp) -> Value {
    // Times of Kubernetes have whole seconds.
    let whole_seconds = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let condition =
        json!({"type": KRUISE_POD_READY, "status": "True", "lastTransitionTime": whole_seconds.to_string()});
    json!({"status": {"conditions": [condition]}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(status: &Value, deleted: Option<&str>) -> Pod {
        let pod = json!({
            "metadata": {"name": "a", "namespace": "n", "deletionTimestamp": deleted},
            "spec": {"readinessGates": [{"conditionType": "Other"}, {"conditionType": "KruisePodReady"}]},
            "status": status,
        });
        serde_json::from_value(pod).expect("a Pod")
    }

    #[test]
    fn given_pods_then_only_those_with_the_gate_and_without_the_condition_get_it() {
        assert!(lacks_condition(&pod(&json!({}), None)));
        assert!(lacks_condition(&pod(
            &json!({"conditions": [{"type": "Other", "status": "True"}]}),
            None
        )));
        for status in ["True", "False", ""] {
            let held = json!({"conditions": [{"type": "KruisePodReady", "status": status}]});
            assert!(!lacks_condition(&pod(&held, None)), "{status:?}");
        }
        assert!(!lacks_condition(&pod(&json!({}), Some("2026-01-01T00:00:00Z"))));
        assert!(!lacks_condition(&Pod::default()));
    }

    #[test]
    fn given_a_time_then_the_condition_has_it_in_whole_seconds() {
        let now = "2026-01-01T10:00:00.9Z".parse().expect("a time");
        let expected =
            json!({"type": "KruisePodReady", "status": "True", "lastTransitionTime": "2026-01-01T10:00:00Z"});
        assert_eq!(condition(now)["status"]["conditions"], json!([expected]));
    }
}
