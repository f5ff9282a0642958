//! What is refused, what is completed, and what the versions say of each other.

use super::*;
use kube::api::PostParams;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_wrong_budgets_then_they_are_refused,
        given_surging_in_the_first_version_then_it_becomes_a_surge,
        given_progressive_creation_then_both_versions_say_it,
        given_another_selector_then_the_update_is_refused,
        given_the_examples_of_the_docs_then_the_api_server_takes_them,
    ]
}

/// A set for no node.
fn nowhere() -> Workload {
    let none = ("field".to_owned(), "none".to_owned());
    daemonset("agent").image("agent:1").pod(|pod| pod.node_selector(none))
}

fn code(refused: kube::Error) -> u16 {
    match refused {
        kube::Error::Api(status) => status.code,
        other => panic!("{other}"),
    }
}

async fn given_wrong_budgets_then_they_are_refused(stage: Arc<Stage>) {
    for rules in [
        json!({"maxSurge": 1, "maxUnavailable": 1}),
        json!({"maxSurge": 0, "maxUnavailable": 0}),
        json!({"rollingUpdateType": "InPlaceIfPossible", "maxSurge": 1}),
        json!({"rollingUpdateType": "Surging"}),
        json!({"maxUnavailable": "150%"}),
        json!({"maxUnavailable": 1, "partition": -1}),
    ] {
        let refused = stage.try_create(nowhere().set(ROLLING, &rules)).await;
        assert_eq!(code(refused.unwrap_err()), 500, "{rules}");
    }
    let no_image = nowhere().set("/spec/template/spec/containers", json!([{"name": "main"}]));
    let refused = stage.try_create(no_image).await.unwrap_err();
    assert!(
        refused.to_string().contains("spec.template.spec.containers[0].image"),
        "{refused}"
    );
}

async fn given_surging_in_the_first_version_then_it_becomes_a_surge(stage: Arc<Stage>) {
    let mut set = nowhere().set(ROLLING, json!({"rollingUpdateType": "Surging"})).json();
    set["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    let sets = stage.objects("v1alpha1", "DaemonSet");
    sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap())
        .await
        .unwrap();
    let stored = stage.subjects.get("agent").await.unwrap();
    let rules = &stored.data["spec"]["updateStrategy"]["rollingUpdate"];
    assert_eq!(
        *rules,
        json!({"rollingUpdateType": "Standard", "maxSurge": 1, "maxUnavailable": 0})
    );
}

async fn given_progressive_creation_then_both_versions_say_it(stage: Arc<Stage>) {
    let key = "daemonset.kruise.io/progressive-create-pod";
    let mut set = nowhere().annotation(key, "true").json();
    set["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    let older = stage.objects("v1alpha1", "DaemonSet");
    older
        .create(&PostParams::default(), &serde_json::from_value(set).unwrap())
        .await
        .unwrap();
    let stored = stage.subjects.get("agent").await.unwrap();
    assert_eq!(stored.data["spec"]["scaleStrategy"]["partitionedScaling"], true);
    let other = nowhere()
        .set("/metadata/name", "other")
        .set("/spec/scaleStrategy/partitionedScaling", true);
    stage.create(other).await;
    let shown = older.get("other").await.unwrap();
    assert_eq!(shown.annotations()[key], "true");
}

async fn given_another_selector_then_the_update_is_refused(stage: Arc<Stage>) {
    stage.create(nowhere()).await;
    let change = json!({"spec": {"selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}}}}});
    let refused = stage.try_patch("agent", change).await.unwrap_err();
    assert_eq!(code(refused), 422);
}

async fn given_the_examples_of_the_docs_then_the_api_server_takes_them(stage: Arc<Stage>) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_ours = |file: &std::path::PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("daemonset") && name.ends_with(".yaml")
    };
    let mut taken = 0;
    for file in files.filter(is_ours) {
        let example: Value = serde_saphyr::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let version = example["apiVersion"].as_str().unwrap().split_once('/').unwrap().1;
        let object: kube::api::DynamicObject = serde_json::from_value(example.clone()).unwrap();
        // Unknown fields are mistakes here. As a dry run: these sets are for all nodes.
        let strict = PatchParams {
            field_manager: Some("examples".to_owned()),
            field_validation: Some(kube::api::ValidationDirective::Strict),
            dry_run: true,
            ..PatchParams::default()
        };
        let sets = stage.objects(version, "DaemonSet");
        let applied = sets.patch(&object.name_any(), &strict, &Patch::Apply(&object)).await;
        let applied = applied.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(
            applied.data["spec"]["burstReplicas"],
            250,
            "{}: completed",
            file.display()
        );
        taken += 1;
    }
    assert!(taken >= 7, "{taken}");
}
