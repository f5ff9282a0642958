//! The workloads of subsets: made, deleted, and got at by others.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use kruise_testkit::eventually::{NotYet, eventually};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{
    CLONE_SET, DEPLOYMENT, NATIVE_SET, PATIENCE, REVISION, SUBSET, Scenario, Stage, children, divided, entry,
    scenarios, settled, spec, template, try_children,
};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_subset_removed_then_its_workload_is_deleted,
        given_another_kind_of_template_then_new_workloads_come_and_the_old_ones_go,
        given_long_names_then_workloads_begin_with_the_objects_name,
        given_a_name_that_is_too_long_for_its_labels_then_the_condition_says_so,
        given_nodes_and_tolerations_then_the_pods_have_them,
        given_a_workload_deleted_or_edited_by_hand_then_it_is_mended,
        given_a_workload_of_nobody_then_it_is_adopted_when_it_says_its_subset,
        given_an_object_at_rest_then_nothing_is_written,
    ]
}

fn two() -> Value {
    json!([{"name": "a"}, {"name": "b"}])
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

async fn given_a_subset_removed_then_its_workload_is_deleted(stage: Arc<Stage>) {
    settled(&stage, &spec(CLONE_SET, 4, two())).await;
    let subsets = json!({"spec": {"topology": {"subsets": [{"name": "b"}]}}});
    stage.patch("web", subsets).await;
    stage
        .event("web", "SuccessfulUpdateSubset", "Delete 1 Subset (CloneSet)")
        .await;
    divided(&stage, CLONE_SET, &[("b", 4)]).await;
    let status = stage.status("web", json!({"replicas": 4, "readyReplicas": 4})).await;
    assert!(entry(&status, "a").is_null(), "{status:#}");
}

async fn given_another_kind_of_template_then_new_workloads_come_and_the_old_ones_go(stage: Arc<Stage>) {
    settled(&stage, &spec(NATIVE_SET, 2, two())).await;
    let mut new = template(CLONE_SET);
    new[NATIVE_SET] = Value::Null;
    stage.patch("web", json!({"spec": {"template": new}})).await;
    divided(&stage, CLONE_SET, &[("a", 1), ("b", 1)]).await;
    divided(&stage, NATIVE_SET, &[]).await;
    stage
        .status("web", json!({"replicas": 2, "updatedReadyReplicas": 2}))
        .await;
}

async fn given_long_names_then_workloads_begin_with_the_objects_name(stage: Arc<Stage>) {
    // Its revision has to be the value of a label, so it can hardly be longer.
    let united = "w".repeat(50);
    let subset = "s".repeat(63);
    super::try_create(&stage, &united, &spec(DEPLOYMENT, 1, json!([{"name": subset}])))
        .await
        .unwrap();
    divided(&stage, DEPLOYMENT, &[(&subset, 1)]).await;
    let found = &children(&stage, DEPLOYMENT).await[&subset];
    assert!(name(found).starts_with(&format!("{united}-")), "{found:#}");
}

async fn given_a_name_that_is_too_long_for_its_labels_then_the_condition_says_so(stage: Arc<Stage>) {
    let united = "w".repeat(63);
    super::try_create(&stage, &united, &spec(DEPLOYMENT, 1, two()))
        .await
        .unwrap();
    let condition = stage.condition(&united, "SubsetProvisioned", "False").await;
    assert!(condition["message"].as_str().unwrap().contains("63"), "{condition:#}");
}

async fn given_nodes_and_tolerations_then_the_pods_have_them(stage: Arc<Stage>) {
    let zone = "topology.kubernetes.io/zone";
    let subset = |name: &str| {
        json!({
            "name": name,
            "nodeSelectorTerm": {"matchExpressions": [{"key": zone, "operator": "In", "values": [name]}]},
            "tolerations": [{"key": "pool", "operator": "Exists"}],
        })
    };
    settled(&stage, &spec(CLONE_SET, 4, json!([subset("a"), subset("b")]))).await;
    let in_zone: Vec<String> = [stage.node(0), stage.node(2)].into();
    for pod in stage.pods("web").await.values() {
        let labels = json!(pod.metadata.labels);
        let spec = json!(pod.spec);
        assert!(
            spec["tolerations"]
                .as_array()
                .unwrap()
                .iter()
                .any(|one| one["key"] == "pool")
        );
        let is_in_a = in_zone.iter().any(|node| spec["nodeName"] == *node);
        assert_eq!(labels[SUBSET] == "a", is_in_a, "{labels} {}", spec["nodeName"]);
        assert!(labels[REVISION].as_str().unwrap().starts_with("web-"));
    }
}

async fn given_a_workload_deleted_or_edited_by_hand_then_it_is_mended(stage: Arc<Stage>) {
    settled(&stage, &spec(DEPLOYMENT, 2, two())).await;
    let before = children(&stage, DEPLOYMENT).await;
    let api = stage.api::<Deployment>();
    let edit = Patch::Merge(json!({"spec": {"replicas": 7}}));
    api.patch(&name(&before["a"]), &PatchParams::default(), &edit)
        .await
        .unwrap();
    api.delete(&name(&before["b"]), &DeleteParams::background())
        .await
        .unwrap();
    divided(&stage, DEPLOYMENT, &[("a", 1), ("b", 1)]).await;
    let after = children(&stage, DEPLOYMENT).await;
    assert_eq!(name(&after["a"]), name(&before["a"]));
    assert_ne!(name(&after["b"]), name(&before["b"]));
    stage.status("web", json!({"replicas": 2, "readyReplicas": 2})).await;
}

async fn given_a_workload_of_nobody_then_it_is_adopted_when_it_says_its_subset(stage: Arc<Stage>) {
    let stray = |name: &str, subset: Option<&str>| -> Deployment {
        let mut labels = json!({"app": "web"});
        if let Some(subset) = subset {
            labels[SUBSET] = json!(subset);
        }
        let pod =
            json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "nginx:1.19"}]}});
        let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": pod});
        let json = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
        serde_json::from_value(json).unwrap()
    };
    let api = stage.api::<Deployment>();
    api.create(&PostParams::default(), &stray("found", Some("a")))
        .await
        .unwrap();
    api.create(&PostParams::default(), &stray("other", None)).await.unwrap();
    super::create(&stage, &spec(DEPLOYMENT, 4, two())).await;
    eventually(PATIENCE, "one is adopted", || async {
        let all = try_children(&stage, DEPLOYMENT).await?;
        let owned: Vec<String> = all
            .iter()
            .filter(|child| child["metadata"]["ownerReferences"][0]["name"] == "web")
            .map(name)
            .collect();
        let has = |wanted: &str| owned.iter().any(|found| found == wanted);
        (owned.len() == 2 && has("found") && !has("other"))
            .then_some(())
            .ok_or_else(|| NotYet::new(format!("{owned:?}")))
    })
    .await;
    stage.status("web", json!({"updatedReadyReplicas": 4})).await;
}

async fn given_an_object_at_rest_then_nothing_is_written(stage: Arc<Stage>) {
    let mut given = spec(CLONE_SET, 4, two());
    given["updateStrategy"] = json!({"manualUpdate": {"partitions": {"a": 1, "b": 2}}});
    settled(&stage, &given).await;
    stage.patch("web", super::to_image(CLONE_SET, "nginx:1.21")).await;
    stage
        .status("web", json!({"updatedReadyReplicas": 1, "readyReplicas": 4}))
        .await;
    stage.why("web", "subsetPartition").await;
    let versions = async || -> Vec<Value> {
        let united = json!(stage.subjects.get("web").await.unwrap());
        let all = children(&stage, CLONE_SET).await.into_values().chain([united]);
        all.map(|object| object["metadata"]["resourceVersion"].clone())
            .collect()
    };
    let before = versions().await;
    // A touch has it looked at again; what it writes itself is that touch alone.
    let touch = json!({"metadata": {"annotations": {"touched": "yes"}}});
    let touched = stage.patch("web", touch).await.metadata.resource_version;
    stage.why("web", "subsetPartition").await;
    let after = versions().await;
    assert_eq!((&before[..2], after.last()), (&after[..2], Some(&json!(touched))));
}
