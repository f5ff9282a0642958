use super::*;
use crate::plan::Plan;
use crate::shared::fixture::{Fixture as _, PodBuilder, at, running_pod};
use serde_json::{Value, json};

/// The types of the conditions that a plan writes.
fn written(pod: &PodBuilder) -> Vec<String> {
    let pod = Arc::new(pod.typed());
    let due = is_due(&pod);
    let plan = plan(&Observed { pod }, &Env::at(at("10:00:00")));
    assert_eq!(due, !plan.is_idle());
    let conditions = conditions(&plan);
    for condition in &conditions {
        assert_eq!(condition["status"], "True");
        assert_eq!(condition["lastTransitionTime"], "2024-05-01T10:00:00Z");
    }
    let types = conditions.iter().filter_map(|condition| condition["type"].as_str());
    types.map(str::to_owned).collect()
}

fn conditions(plan: &Plan) -> Vec<Value> {
    let Some(Action::Patch { patch, .. }) = &plan.status else {
        return Vec::new();
    };
    let conditions = patch.document()["status"]["conditions"].as_array();
    conditions.expect("conditions").clone()
}

fn owned(group: &str, kind: &str) -> PodBuilder {
    let owner =
        json!([{"apiVersion": format!("{group}/v1"), "kind": kind, "name": "x", "uid": "u", "controller": true}]);
    running_pod("p").at("demo-1").set("/metadata/ownerReferences", owner)
}

#[test]
fn given_pods_then_only_those_with_the_gate_and_without_the_condition_get_it() {
    assert_eq!(written(&running_pod("p")), ["KruisePodReady"], "made by no workload");
    assert_eq!(
        written(&running_pod("p").condition("Other", "True")),
        ["KruisePodReady"]
    );
    for status in ["True", "False", ""] {
        assert!(
            written(&running_pod("p").condition("KruisePodReady", status)).is_empty(),
            "{status:?}"
        );
    }
    assert!(written(&running_pod("p").set("/spec/readinessGates", json!([]))).is_empty());
    let deleting = json!("2024-05-01T10:00:00Z");
    assert!(written(&running_pod("p").set("/metadata/deletionTimestamp", deleting)).is_empty());
}

#[test]
fn given_a_pod_that_changes_then_the_write_is_refused() {
    let pod = running_pod("p").set("/metadata/resourceVersion", json!("7"));
    let observed = Observed {
        pod: Arc::new(pod.typed()),
    };
    let plan = plan(&observed, &Env::at(at("10:00:00")));
    let Some(Action::Patch { preconditions, .. }) = plan.status else {
        panic!("nothing is written");
    };
    assert_eq!(preconditions.resource_version.as_deref(), Some("7"));
}

#[test]
fn given_an_owner_then_only_new_pods_of_a_cloneset_are_left_to_it() {
    assert!(
        written(&owned("apps.kruise.io", "CloneSet")).is_empty(),
        "its set writes both"
    );
    assert_eq!(written(&owned("apps.kruise.io", "StatefulSet")), ["KruisePodReady"]);
    let without =
        owned("apps.kruise.io", "CloneSet").set("/spec/readinessGates", json!([{"conditionType": "KruisePodReady"}]));
    assert_eq!(written(&without), ["KruisePodReady"]);
    // A takeover in the middle of a creation: one condition is there, the other is not, and its set has nothing to do.
    for status in ["True", "False"] {
        let half = owned("apps.kruise.io", "CloneSet").condition("InPlaceUpdateReady", status);
        assert_eq!(written(&half), ["KruisePodReady"]);
        assert!(
            written(&half.condition("KruisePodReady", "False")).is_empty(),
            "a hold is left alone"
        );
    }
}

#[test]
fn given_an_orphan_then_what_nobody_else_writes_is_written() {
    let both = ["InPlaceUpdateReady", "KruisePodReady"];
    let orphan = running_pod("p").at("demo-1");
    assert_eq!(written(&orphan), both);
    assert_eq!(written(&orphan.clone().set("/spec/nodeName", json!(""))), both);
    assert_eq!(written(&owned("apps", "ReplicaSet")), both, "adopted by somebody else");
    assert_eq!(
        written(&orphan.clone().condition("KruisePodReady", "False")),
        ["InPlaceUpdateReady"]
    );
    assert_eq!(
        written(&orphan.clone().condition("InPlaceUpdateReady", "False")),
        ["KruisePodReady"]
    );
    assert!(written(&orphan.set("/metadata/deletionTimestamp", json!("2024-05-01T10:00:00Z"))).is_empty());
}
