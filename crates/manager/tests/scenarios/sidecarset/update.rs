//! Sidecars of running Pods follow their set.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::builders::Fixture as _;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::update_support::{LABEL, Set, annotation, condition, container, image, injected, selected};
use crate::cluster::scenario::{Scenario, Stage, scenarios};

pub(crate) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_new_image_then_pods_get_it_in_place_within_the_partition,
        given_ten_pods_then_no_more_than_allowed_are_away_and_the_partition_stays,
        given_a_selector_then_a_label_lets_another_pod_be_updated,
        given_more_than_an_image_then_no_pod_is_updated_and_each_says_so,
        given_a_rollback_then_the_old_revision_comes_back,
        given_other_fields_then_only_a_revision_is_made,
        given_a_pause_then_nothing_is_updated_before_it_ends,
        given_a_set_that_is_deleted_then_pods_keep_their_sidecars,
    ]
}

async fn settled<'a>(stage: &'a Stage, pods: usize, more: &Value) -> Set<'a> {
    let set = Set::create(stage, &[container("log", "log:1")], more).await;
    for number in 0..pods {
        set.pod(&format!("p{number}")).await;
    }
    set.status(&json!({"matchedPods": pods, "updatedPods": pods, "readyPods": pods}))
        .await;
    set
}

fn uids(pods: &[Pod]) -> BTreeMap<String, Option<String>> {
    pods.iter().map(|pod| (pod.name_any(), pod.uid())).collect()
}

async fn given_a_new_image_then_pods_get_it_in_place_within_the_partition(stage: Arc<Stage>) {
    let strategy = json!({"updateStrategy": {"partition": 2, "maxUnavailable": 2}});
    let set = settled(&stage, 5, &strategy).await;
    let before = set.pods().await;
    let live = set.get().await;
    let mut containers = live["spec"]["containers"].clone();
    containers[0]["image"] = json!("log:2");
    let told = stage
        .rehearse(&live, &json!({"spec": {"containers": containers}}))
        .await;
    let waves = told["waves"].as_array().unwrap().iter();
    let in_place: Vec<&Value> = waves
        .flat_map(|wave| wave["inPlace"].as_array().into_iter().flatten())
        .collect();
    assert_eq!(
        (in_place.len(), &told["updated"], &told["leastReady"]),
        (3, &json!(3), &json!(3)),
        "{told:#}"
    );
    assert!(
        in_place
            .iter()
            .all(|name| name.as_str().unwrap().starts_with(stage.namespace())),
        "{told:#}"
    );
    set.image("log:2").await;
    let status = set.status(&json!({"updatedPods": 3, "updatedReadyPods": 3})).await;
    let pods = set.pods().await;
    assert_eq!(uids(&before), uids(&pods));
    let updated: Vec<&Pod> = pods.iter().filter(|pod| image(pod, "log") == "log:2").collect();
    assert_eq!(updated.len(), 3);
    for pod in updated {
        assert_eq!(image(pod, "main"), "app:1");
        let record: Value = serde_json::from_str(&annotation(pod, "kruise.io/sidecarset-hash")).unwrap();
        assert_eq!(record[&set.name]["controllerRevision"], status["latestRevision"]);
        let state: Value = serde_json::from_str(&annotation(pod, "kruise.io/sidecarset-inplace-update-state")).unwrap();
        assert!(
            state[&set.name]["lastContainerStatuses"]["log"]["imageID"].is_string(),
            "{state}"
        );
        let upgradable = stage
            .until_pod(&pod.name_any(), "it says that it can be updated", |pod| {
                condition(pod, "SidecarSetUpgradable")[0] == "True"
            })
            .await;
        let message = json!({&set.name: true}).to_string();
        assert_eq!(
            condition(&upgradable, "SidecarSetUpgradable"),
            ["True", "AllSidecarsetUpgradable", &message]
        );
    }
    set.patch(&json!({"spec": {"updateStrategy": {"partition": 0}}})).await;
    set.status(&json!({"updatedPods": 5, "updatedReadyPods": 5})).await;
    set.delete().await;
}

async fn given_ten_pods_then_no_more_than_allowed_are_away_and_the_partition_stays(stage: Arc<Stage>) {
    let strategy = json!({"partition": 3, "maxUnavailable": 2});
    let containers = json!([{"name": "log", "image": "log:1"}]);
    let more = json!({"spec": {"containers": containers, "updateStrategy": strategy}});
    let set = Set::injecting(&stage, "", &more).await;
    for number in 0..10 {
        let pod = selected(&stage, &format!("p{number}")).label("app", &set.name);
        injected(&stage, pod.script("ready-delay.log", "300ms")).await;
    }
    set.status(&json!({"matchedPods": 10, "updatedReadyPods": 10})).await;
    let history = stage.pod_history(&set.name).await;
    set.image("log:2").await;
    set.status(&json!({"matchedPods": 10, "readyPods": 10, "updatedReadyPods": 7}))
        .await;
    for pods in history.end().await {
        let away = pods.values().filter(|pod| condition(pod, "Ready")[0] != "True").count();
        assert!(away <= 2, "{away} of {:?}", pods.keys());
    }
    let pods = set.pods().await;
    assert_eq!(pods.iter().filter(|pod| image(pod, "log") == "log:2").count(), 7);
    set.delete().await;
}

async fn given_a_selector_then_a_label_lets_another_pod_be_updated(stage: Arc<Stage>) {
    let strategy = json!({"updateStrategy": {"selector": {"matchLabels": {"canary": "true"}}}});
    let set = settled(&stage, 2, &strategy).await;
    stage.label_pod("p0", "canary", Some("true")).await;
    set.image("log:2").await;
    set.status(&json!({"updatedReadyPods": 1})).await;
    assert_eq!(image(&stage.pods.get("p1").await.unwrap(), "log"), "log:1");
    stage.label_pod("p1", "canary", Some("true")).await;
    set.status(&json!({"updatedReadyPods": 2})).await;
    set.delete().await;
}

async fn given_more_than_an_image_then_no_pod_is_updated_and_each_says_so(stage: Arc<Stage>) {
    let set = settled(&stage, 2, &json!({})).await;
    let mut changed = container("log", "log:2");
    changed["command"] = json!(["run"]);
    set.patch(&json!({"spec": {"containers": [changed]}})).await;
    set.event("NotUpgradablePods", "2 not upgradable pod(s)").await;
    for name in ["p0", "p1"] {
        let pod = stage
            .until_pod(name, "it says that it cannot be updated", |pod| {
                condition(pod, "SidecarSetUpgradable")[0] == "False"
            })
            .await;
        assert_eq!(condition(&pod, "SidecarSetUpgradable")[1], "UpdateImmutableField");
        assert_eq!(image(&pod, "log"), "log:1");
    }
    set.status(&json!({"updatedPods": 0, "readyPods": 2})).await;
    set.delete().await;
}

async fn given_a_rollback_then_the_old_revision_comes_back(stage: Arc<Stage>) {
    let set = settled(&stage, 1, &json!({})).await;
    let first = set.status(&json!({})).await["latestRevision"].clone();
    set.image("log:2").await;
    set.status(&json!({"updatedReadyPods": 1})).await;
    set.image("log:1").await;
    set.status(&json!({"updatedReadyPods": 1, "latestRevision": first}))
        .await;
    let revisions = set.revisions().await;
    let found: Vec<_> = revisions
        .iter()
        .map(|revision| (json!(revision.name_any()), json!(revision.revision)))
        .collect();
    assert_eq!((found.len(), &found[1]), (2, &(first, json!(3))), "{found:?}");
    set.delete().await;
}

async fn given_other_fields_then_only_a_revision_is_made(stage: Arc<Stage>) {
    let set = settled(&stage, 1, &json!({})).await;
    let first = set.status(&json!({})).await["latestRevision"].clone();
    set.patch(&json!({"spec": {"volumes": [{"name": "buf", "emptyDir": {}}], "customVersion": "v2"}}))
        .await;
    let status = set.status(&json!({"updatedPods": 1, "matchedPods": 1})).await;
    assert_ne!(status["latestRevision"], first);
    let revisions = set.revisions().await;
    let newest = revisions.last().unwrap();
    assert_eq!(json!(newest.name_any()), status["latestRevision"]);
    assert_eq!(newest.labels()["apps.kruise.io/sidecarset-custom-version"], "v2");
    set.delete().await;
}

async fn given_a_pause_then_nothing_is_updated_before_it_ends(stage: Arc<Stage>) {
    let set = settled(&stage, 2, &json!({"updateStrategy": {"paused": true}})).await;
    set.image("log:2").await;
    set.status(&json!({"updatedPods": 0, "readyPods": 2})).await;
    assert!(set.pods().await.iter().all(|pod| image(pod, "log") == "log:1"));
    set.patch(&json!({"spec": {"updateStrategy": {"paused": false}}})).await;
    set.status(&json!({"updatedReadyPods": 2})).await;
    set.delete().await;
}

async fn given_a_set_that_is_deleted_then_pods_keep_their_sidecars(stage: Arc<Stage>) {
    let set = settled(&stage, 1, &json!({})).await;
    assert_eq!(set.revisions().await.len(), 1);
    set.delete().await;
    kruise_testkit::eventually::eventually(crate::cluster::scenario::PATIENCE, "its revisions are gone", || async {
        let left = set.revisions().await.len();
        (left == 0)
            .then_some(())
            .ok_or_else(|| kruise_testkit::eventually::NotYet::new(left.to_string()))
    })
    .await;
    let pod = stage.pods.get("p0").await.unwrap();
    assert_eq!(
        (image(&pod, "log"), pod.labels()[LABEL].clone()),
        ("log:1".to_owned(), set.name.clone())
    );
}
