//! Nobody is forgotten: Pods that should have sidecars and do not.

use std::sync::Arc;

use k8s_openapi::{
    api::core::v1::{ConfigMap, Pod},
    jiff::Timestamp,
};
use kruise_testkit::{
    builders::{Fixture as _, config_map, pod},
    eventually::{NotYet, eventually},
    namespace,
};
use kube::{Api, ResourceExt as _, api::PostParams};
use serde_json::json;

use super::update_support::{LABEL, Set, container};
use crate::cluster::scenario::{PATIENCE, Scenario, Stage, scenarios};

pub(crate) fn all() -> Vec<Scenario> {
    scenarios![given_a_pod_that_was_made_while_nobody_answered_then_it_is_told_and_evicted_where_that_is_asked_for]
}

async fn given_a_pod_that_was_made_while_nobody_answered_then_it_is_told_and_evicted_where_that_is_asked_for(
    stage: Arc<Stage>,
) {
    // Webhooks do not reach this namespace, as if nobody answered.
    let elsewhere = namespace::fresh(&stage.client(), "unanswered").await.unwrap();
    let set = Set::create(
        &stage,
        &[container("log", "log:1")],
        &json!({"injectionStrategy": {"paused": false}}),
    )
    .await;
    let made = set.get().await["metadata"]["creationTimestamp"]
        .as_str()
        .unwrap()
        .to_owned();
    let made: Timestamp = made.parse().unwrap();
    eventually(PATIENCE, "a Pod that is made now is younger than the set", || async {
        let is_later = Timestamp::now().as_second() > made.as_second();
        is_later.then_some(()).ok_or_else(|| NotYet::new("not yet"))
    })
    .await;
    let owners: Api<ConfigMap> = elsewhere.api();
    let owner = owners
        .create(&PostParams::default(), &config_map("owner").build())
        .await
        .unwrap();
    let reference =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid(), "controller": true}]);
    let forgotten = pod("forgotten")
        .image("app:1")
        .label(LABEL, &set.name)
        .on_node(&stage.node(0))
        .set("/metadata/ownerReferences", reference);
    let pods: Api<Pod> = elsewhere.api();
    pods.create(&PostParams::default(), &forgotten.build()).await.unwrap();

    let status = set.status(&json!({"podsWithoutSidecars": 1, "matchedPods": 0})).await;
    let condition = &status["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"]),
        (&json!("PodsWithoutSidecars"), &json!("True"))
    );
    assert!(
        condition["message"].as_str().unwrap().contains("/forgotten"),
        "{condition}"
    );
    assert!(
        pods.get("forgotten")
            .await
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_none()
    );

    set.patch(&json!({"metadata": {"annotations": {"apps.kruise.io/sidecarset-evict-uninjected-pods": "true"}}}))
        .await;
    eventually(PATIENCE, "the Pod is gone", || async {
        match pods.get_opt("forgotten").await? {
            None => Ok(()),
            Some(pod) => Err(kruise_testkit::eventually::not_yet(&pod)),
        }
    })
    .await;
    set.status(&json!({"podsWithoutSidecars": 0})).await;
    set.delete().await;
}
