//! A new Pod is told which PodUnavailableBudget covers it, so that it is protected from its first moment.
//!
//! - A budget with a `targetRef` covers the Pods of that workload, those of a Deployment's ReplicaSets too; one with a selector the Pods with those labels,
//!   sidecars' labels included. Of several the first by name.
//! - Both annotations are written, over what the Pod brought along: a template may have been copied from elsewhere.
//! - No Pod is refused here. What is not known yet of budgets and owners makes no difference for long: the controller of budgets tells Pods that were not told.

use std::sync::Arc;

use super::{Draft, Env, PodError};
use crate::podunavailablebudget::related;
use crate::shared::workload::WorkloadRef;
use kruise_api::gates::Gate;
use kruise_api::names::annotation;
use kruise_api::podunavailablebudget::v1beta1::PodUnavailableBudget;
use serde_json::{Map, Value};

/// What this step has to know.
pub trait Budgets {
    /// Returns the budgets of a namespace.
    fn budgets(&self, _namespace: &str) -> Vec<Arc<PodUnavailableBudget>> {
        Vec::new()
    }

    /// Returns the workload that an owner of Pods stands for: of a ReplicaSet the Deployment, if that is known.
    fn workload_of(&self, _namespace: &str, owner: WorkloadRef) -> WorkloadRef {
        owner
    }
}

pub(super) fn add(pod: &mut Draft<'_>, env: &Env<'_>) -> Result<(), PodError> {
    let gates = [
        Gate::PodUnavailableBudgetDeleteGate,
        Gate::PodUnavailableBudgetUpdateGate,
    ];
    if !gates.into_iter().any(|gate| env.gates.enabled(gate)) {
        return Ok(());
    }
    let namespace = pod.head().namespace().unwrap_or(env.namespace).to_owned();
    let budgets = env.view.budgets(&namespace);
    if budgets.is_empty() {
        return Ok(());
    }
    let owner = pod.head().controller();
    let workload = owner.map(|owner| env.view.workload_of(&namespace, owner));
    let labels = pod.labels();
    let budgets = budgets.iter().map(|budget| &**budget);
    let Some(name) = related::choose(budgets, workload.as_ref(), |key| labels.get(key).copied()) else {
        return Ok(());
    };
    let name = Value::from(name);
    let Some(metadata) = pod.whole()?.get_mut("metadata").and_then(Value::as_object_mut) else {
        return Ok(());
    };
    let annotations = metadata.entry("annotations").or_insert_with(|| Map::new().into());
    if annotations.is_null() {
        *annotations = Map::new().into();
    }
    if let Some(annotations) = annotations.as_object_mut() {
        for key in [annotation::RELATED_BUDGET, annotation::RELATED_BUDGET_OLD] {
            annotations.insert(key.to_owned(), name.clone());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Env, PersistentPodStates, ProbeMarkers, SidecarSets, mutate};
    use super::*;
    use kruise_api::gates::Gates;
    use serde_json::json;

    /// A namespace with these budgets, where ReplicaSet `web-1` is of Deployment `web`.
    struct World(Vec<Arc<PodUnavailableBudget>>);

    impl crate::pod::WorkloadSpreads for World {}

    impl Budgets for World {
        fn budgets(&self, namespace: &str) -> Vec<Arc<PodUnavailableBudget>> {
            if namespace == "shop" {
                self.0.clone()
            } else {
                Vec::new()
            }
        }

        fn workload_of(&self, _: &str, owner: WorkloadRef) -> WorkloadRef {
            if owner.is_of("apps", "ReplicaSet") && owner.name == "web-1" {
                WorkloadRef::new("apps/v1", "Deployment", "web")
            } else {
                owner
            }
        }
    }

    impl SidecarSets for World {}

    impl PersistentPodStates for World {}

    impl ProbeMarkers for World {}

    #[expect(clippy::needless_pass_by_value, reason = "it reads better where it is called")]
    fn budget(name: &str, spec: Value) -> Arc<PodUnavailableBudget> {
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap())
    }

    fn world() -> World {
        let target = |kind: &str, api_version: &str| json!({"targetRef": {"apiVersion": api_version, "kind": kind, "name": "web"}});
        World(vec![
            budget("z-labels", json!({"selector": {"matchLabels": {"app": "web"}}})),
            budget("deployment", target("Deployment", "apps/v1")),
            budget("set", target("CloneSet", "apps.kruise.io/v1alpha1")),
            budget("everything", json!({"selector": {}})),
        ])
    }

    fn patch(pod: &Value, gates: Gates, namespace: &str) -> Value {
        let world = world();
        let env = Env {
            gates,
            now: jiff::Timestamp::UNIX_EPOCH,
            chance: 0,
            view: &world,
            namespace,
            dry_run: true,
            name_suffix: "",
        };
        serde_json::to_value(mutate(&pod.to_string(), &env).unwrap()).unwrap()
    }

    fn pod(app: &str, api_version: &str, kind: &str, owner: &str) -> Value {
        let owner = json!([{"apiVersion": api_version, "kind": kind, "name": owner, "controller": true}]);
        json!({"metadata": {"generateName": "web-", "labels": {"app": app}, "ownerReferences": owner}, "spec": {"readinessGates": [{"conditionType": "KruisePodReady"}]}})
    }

    #[test]
    fn given_budgets_then_the_first_that_covers_a_new_pod_is_written_on_it() {
        let gates = Gates::default();
        for (pod, expected) in [
            (pod("web", "batch/v1", "Job", "web"), Some("z-labels")),
            (pod("web", "apps/v1", "ReplicaSet", "web-1"), Some("deployment")),
            (pod("other", "apps/v1", "ReplicaSet", "web-1"), Some("deployment")),
            (pod("other", "apps/v1", "ReplicaSet", "web-2"), None),
            (pod("other", "apps.kruise.io/v1beta1", "CloneSet", "web"), Some("set")),
            (pod("other", "apps.kruise.io/v1beta1", "StatefulSet", "web"), None),
            (json!({"metadata": {"labels": {"app": "web"}}}), Some("z-labels")),
            (
                json!({"metadata": {"labels": {"app": "web"}, "annotations": null}}),
                Some("z-labels"),
            ),
            (json!({"metadata": {}}), None),
            (json!({}), None),
        ] {
            let patch = patch(&pod, gates, "shop");
            let found = patch.to_string();
            let written = |key: &str| found.contains(key);
            match expected {
                Some(name) => assert!(
                    written("pub.kruise.io") && written(&format!("\"{name}\"")) && written("kruise.io/related-pub"),
                    "{pod}: {patch}"
                ),
                None => assert_eq!(patch, json!([]), "{pod}"),
            }
            assert_eq!(super::tests::patch(&pod, gates, "elsewhere"), json!([]));
        }
    }

    #[test]
    fn given_an_annotation_from_elsewhere_then_it_is_written_over() {
        let mut pod = pod("web", "v1", "ReplicationController", "web");
        pod["metadata"]["annotations"] = json!({"pub.kruise.io/related-pub": "foreign", "a": "b"});
        let patch = patch(&pod, Gates::default(), "shop").to_string();
        assert!(patch.contains("z-labels") && !patch.contains("\"b\""), "{patch}");
    }

    #[test]
    fn given_no_gate_of_budgets_then_nothing_is_written() {
        let gates = Gates::default().with(Gate::PodUnavailableBudgetDeleteGate, false);
        let pod = pod("web", "v1", "ReplicationController", "web");
        assert_eq!(patch(&pod, gates, "shop"), json!([]));
        let gates = gates.with(Gate::PodUnavailableBudgetUpdateGate, true);
        assert_ne!(patch(&pod, gates, "shop"), json!([]));
    }
}
