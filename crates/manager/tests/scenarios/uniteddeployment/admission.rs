//! What is refused, and what is filled in.

use std::sync::Arc;

use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::{
    ADVANCED_SET, CLONE_SET, DEPLOYMENT, NATIVE_SET, Scenario, Stage, create, is_invalid, scenarios, spec, try_create,
};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_bad_input_then_it_is_refused_with_its_fields,
        given_a_change_of_what_cannot_be_changed_then_it_is_refused,
        given_little_then_the_rest_is_filled_in,
        given_a_protected_object_then_it_goes_only_when_it_is_scaled_to_zero,
    ]
}

async fn given_bad_input_then_it_is_refused_with_its_fields(stage: Arc<Stage>) {
    let refuses = async |name: &str, given: Value, text: &str| {
        is_invalid(try_create(&stage, name, &given).await, text);
    };
    let limits = json!([{"name": "a", "maxReplicas": 1}, {"name": "b", "maxReplicas": 9}]);
    let text = "spec.topology.subsets: Invalid value: 2: at least one subset.maxReplicas must be empty";
    refuses("all-limited", spec(CLONE_SET, 3, limits), text).await;
    let mixed = json!([{"name": "a", "replicas": 1}, {"name": "b", "minReplicas": 1}]);
    refuses("mixed", spec(CLONE_SET, 3, mixed), "mutually exclusive").await;
    let mut reserved = spec(NATIVE_SET, 3, json!([{"name": "a"}]));
    reserved["topology"]["scheduleStrategy"] =
        json!({"type": "Adaptive", "adaptive": {"reserveUnschedulablePods": true}});
    refuses("reserved", reserved, "spec.topology.scheduleStrategy: Invalid value").await;
    for field in [NATIVE_SET, ADVANCED_SET, DEPLOYMENT] {
        let mut given = spec(field, 3, json!([{"name": "a"}]));
        given["template"][field]["spec"]["replicas"] = json!(3);
        let text =
            format!("spec.template.{field}.spec.replicas: Invalid value: 3: replicas in {field} will not be used");
        refuses("replicas", given, &text).await;
    }
    let mut nothing = spec(DEPLOYMENT, 3, json!([{"name": "a"}]));
    nothing["template"][DEPLOYMENT]["spec"]["template"]["spec"]["containers"] = json!([{"name": "main"}]);
    let text = "spec.template.deploymentTemplate.spec.template.spec.containers[0].image: Required value";
    refuses("no-image", nothing, text).await;
    let sum = json!([{"name": "a", "replicas": 1}, {"name": "b", "replicas": 1}]);
    refuses(
        "sum",
        spec(CLONE_SET, 3, sum),
        "replicas 2 should equal UnitedDeployment replicas 3",
    )
    .await;
}

async fn given_a_change_of_what_cannot_be_changed_then_it_is_refused(stage: Arc<Stage>) {
    let subsets = |zone: &str| {
        let expression = json!({"key": "zone", "operator": "In", "values": [zone]});
        json!([{"name": "a", "nodeSelectorTerm": {"matchExpressions": [expression]}}])
    };
    create(&stage, &spec(ADVANCED_SET, 0, subsets("a"))).await;
    let change = json!({"spec": {"topology": {"subsets": subsets("b")}}});
    let text = "spec.topology.subsets[0].nodeSelectorTerm: Forbidden: may not be changed in an update";
    is_invalid(stage.try_patch("web", change).await, text);
    let change = json!({"spec": {"template": {(ADVANCED_SET): {"spec": {"serviceName": "other"}}}}});
    let text = "spec.template.advancedStatefulSetTemplate.spec: Forbidden";
    is_invalid(stage.try_patch("web", change).await, text);
    // Users of the first releases are told the same.
    let change = json!({"spec": {"updateStrategy": {"manualUpdate": {"partitions": {"z": 1}}}}});
    let text = "spec.updateStrategy.manualUpdate.partitions: Invalid value";
    is_invalid(stage.patch_v1alpha1("web", change).await, text);
}

async fn given_little_then_the_rest_is_filled_in(stage: Arc<Stage>) {
    let mut given = spec(NATIVE_SET, 0, json!([{"name": "a", "maxReplicas": 1}, {"name": "b"}]));
    given.as_object_mut().unwrap().remove("replicas");
    let made = create(&stage, &given).await.data;
    let made = &made["spec"];
    assert_eq!(
        (&made["replicas"], &made["revisionHistoryLimit"]),
        (&json!(1), &json!(10))
    );
    assert_eq!(made["updateStrategy"], json!({"type": "Manual", "manualUpdate": {}}));
    assert_eq!(made["topology"]["subsets"][1]["minReplicas"], 0);
    let pod = &made["template"][NATIVE_SET]["spec"]["template"]["spec"];
    assert_eq!(pod["restartPolicy"], "Always");
}

async fn given_a_protected_object_then_it_goes_only_when_it_is_scaled_to_zero(stage: Arc<Stage>) {
    create(&stage, &spec(CLONE_SET, 1, json!([{"name": "a"}]))).await;
    let label = json!({"metadata": {"labels": {"policy.kruise.io/delete-protection": "Cascading"}}});
    stage.patch("web", label).await;
    match stage.subjects.delete("web", &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 403, "{status:?}"),
        other => panic!("not refused: {other:?}"),
    }
    stage.patch("web", json!({"spec": {"replicas": 0}})).await;
    stage.subjects.delete("web", &DeleteParams::default()).await.unwrap();
}
