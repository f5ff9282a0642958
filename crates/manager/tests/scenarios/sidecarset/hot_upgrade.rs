//! Sidecars that are never away.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::update_support::{Set, annotation, condition, hot, image};
use crate::cluster::scenario::{Scenario, Stage, scenarios};

pub(crate) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_new_image_then_both_containers_take_turns,
        given_a_container_that_never_gets_ready_then_the_old_one_works_on_and_the_next_image_replaces_it,
        given_a_pause_in_the_middle_then_both_work_on_until_it_ends,
    ]
}

fn images(pod: &Pod) -> [String; 2] {
    [image(pod, "mesh-1"), image(pod, "mesh-2")]
}

async fn settled(stage: &Stage) -> Set<'_> {
    let set = Set::create(stage, &[hot("mesh", "mesh:1")], &json!({})).await;
    set.pod("p0").await;
    set.status(&json!({"matchedPods": 1, "updatedReadyPods": 1})).await;
    set
}

async fn given_a_new_image_then_both_containers_take_turns(stage: Arc<Stage>) {
    let set = settled(&stage).await;
    stage.script_pod("p0", "ready-delay.mesh-2", Some("2s")).await;
    set.image("mesh:2").await;
    let both = stage
        .until_pod("p0", "both are there", |pod| images(pod) == ["mesh:1", "mesh:2"])
        .await;
    let version = annotation(&both, "version.sidecarset.kruise.io/mesh-2");
    assert_eq!(annotation(&both, "versionalt.sidecarset.kruise.io/mesh-1"), version);
    assert_eq!(annotation(&both, "version.sidecarset.kruise.io/mesh-1"), "1");
    let working = "kruise.io/sidecarset-working-hotupgrade-container";
    assert_eq!(annotation(&both, working), r#"{"mesh":"mesh-2"}"#);

    let reset = stage
        .until_pod("p0", "the old one is reset", |pod| images(pod) == ["empty:1", "mesh:2"])
        .await;
    assert_eq!(annotation(&reset, "version.sidecarset.kruise.io/mesh-1"), "0");
    assert_eq!(annotation(&reset, "versionalt.sidecarset.kruise.io/mesh-2"), "0");
    stage.event("p0", "ResetContainerSucceed", "successfully").await;
    set.status(&json!({"readyPods": 1, "updatedReadyPods": 1})).await;

    set.image("mesh:3").await;
    stage
        .until_pod("p0", "they took turns", |pod| images(pod) == ["mesh:3", "empty:1"])
        .await;
    set.status(&json!({"readyPods": 1, "updatedReadyPods": 1})).await;
    set.delete().await;
}

async fn given_a_container_that_never_gets_ready_then_the_old_one_works_on_and_the_next_image_replaces_it(
    stage: Arc<Stage>,
) {
    let set = settled(&stage).await;
    stage.script_pod("p0", "pull-error.mesh-2", Some("mesh:bad")).await;
    set.image("mesh:bad").await;
    stage
        .until_pod("p0", "both are there", |pod| images(pod) == ["mesh:1", "mesh:bad"])
        .await;
    set.status(&json!({"updatedPods": 1, "readyPods": 0})).await;
    set.image("mesh:3").await;
    let pod = stage
        .until_pod("p0", "the broken one is replaced", |pod| {
            image(pod, "mesh-2") == "mesh:3"
        })
        .await;
    assert_ne!(image(&pod, "mesh-1"), "mesh:bad");
    stage
        .until_pod("p0", "the old one is reset", |pod| images(pod) == ["empty:1", "mesh:3"])
        .await;
    set.delete().await;
}

async fn given_a_pause_in_the_middle_then_both_work_on_until_it_ends(stage: Arc<Stage>) {
    let set = settled(&stage).await;
    stage.script_pod("p0", "never-ready.mesh-2", Some("true")).await;
    set.image("mesh:2").await;
    stage
        .until_pod("p0", "both are there", |pod| images(pod) == ["mesh:1", "mesh:2"])
        .await;
    set.patch(&json!({"spec": {"updateStrategy": {"paused": true}}})).await;
    set.status(&json!({"updatedPods": 1, "readyPods": 0})).await;
    stage.script_pod("p0", "never-ready.mesh-2", None).await;
    stage
        .until_pod("p0", "the new one is ready", |pod| condition(pod, "Ready")[0] == "True")
        .await;
    // A Pod that comes now is counted, so the manager has seen the other one.
    set.pod("p1").await;
    set.status(&json!({"matchedPods": 2, "readyPods": 1})).await;
    let pod = stage.pods.get("p0").await.unwrap();
    assert_eq!(images(&pod), ["mesh:1", "mesh:2"]);
    set.patch(&json!({"spec": {"updateStrategy": {"paused": false}}})).await;
    stage
        .until_pod("p0", "the old one is reset", |pod| images(pod) == ["empty:1", "mesh:2"])
        .await;
    set.status(&json!({"readyPods": 1, "updatedReadyPods": 1})).await;
    set.delete().await;
}
