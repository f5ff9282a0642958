//! Sidecars end when the main containers have ended.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kruise_testkit::{
    builders::{Fixture as _, node, pod},
    eventually::{NotYet, eventually},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, DynamicObject, PostParams},
};
use serde_json::{Value, json};

use super::update_support::{condition, image};
use crate::cluster::scenario::{PATIENCE, Scenario, Stage, scenarios};

pub(crate) fn all() -> Vec<Scenario> {
    scenarios![
        given_main_containers_that_have_ended_then_the_sidecar_is_stopped_by_one_request,
        given_main_containers_that_failed_and_are_never_restarted_then_the_sidecar_is_stopped_all_the_same,
        given_an_exit_code_to_ignore_then_the_pod_has_its_phase_before_the_sidecar_is_stopped,
        given_a_virtual_node_then_the_sidecar_gets_the_image_that_ends_it,
    ]
}

const SWITCH: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT";
const IMAGE: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE";
const IGNORE: &str = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE";

/// A Pod with a main container that ends by itself, and a sidecar.
async fn start(stage: &Stage, policy: &str, code: &str, variables: &[(&str, &str)]) -> Pod {
    let variables: Vec<Value> = variables
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    let made = pod("job")
        .image("app:1")
        .container("side", "side:1")
        .set("/spec/containers/1/env", json!(variables))
        .restart_policy(policy)
        .annotation("sim.kruise.test/exit-after.main", "1s")
        .annotation("sim.kruise.test/exit-code.main", code)
        .on_node(&stage.node(0));
    stage.pods.create(&PostParams::default(), &made.build()).await.unwrap()
}

/// Waits for the request that stops the sidecars of a Pod.
async fn request(stage: &Stage, pod: &Pod) -> DynamicObject {
    let requests = stage.objects("v1beta1", "ContainerRecreateRequest");
    let name = format!("sidecar-termination-{}", pod.uid().unwrap());
    eventually(PATIENCE, "there is a request", || async {
        let found = requests.get_opt(&name).await?;
        found.ok_or_else(|| NotYet::new("no request"))
    })
    .await
}

async fn given_main_containers_that_have_ended_then_the_sidecar_is_stopped_by_one_request(stage: Arc<Stage>) {
    let pod = start(&stage, "Never", "0", &[(SWITCH, "True")]).await;
    let request = request(&stage, &pod).await;
    let containers = request.data["spec"]["containers"].as_array().unwrap();
    assert_eq!((containers.len(), &containers[0]["name"]), (1, &json!("side")));
    let strategy = &request.data["spec"]["strategy"];
    assert_eq!(
        (&strategy["forceRecreate"], &strategy["failurePolicy"]),
        (&json!(true), &json!("Ignore"))
    );
    let owner = &request.owner_references()[0];
    assert_eq!((&*owner.name, owner.controller), ("job", Some(true)));
    stage.event("job", "SidecarTerminator", "[side] using crr").await;
}

async fn given_main_containers_that_failed_and_are_never_restarted_then_the_sidecar_is_stopped_all_the_same(
    stage: Arc<Stage>,
) {
    let pod = start(&stage, "Never", "1", &[(SWITCH, "true")]).await;
    request(&stage, &pod).await;
}

async fn given_an_exit_code_to_ignore_then_the_pod_has_its_phase_before_the_sidecar_is_stopped(stage: Arc<Stage>) {
    let pod = start(&stage, "Never", "0", &[(SWITCH, "true"), (IGNORE, "true")]).await;
    let ended = stage
        .until_pod("job", "it has its final phase", |pod| {
            condition(pod, "SidecarTerminated")[0] == "True"
        })
        .await;
    assert_eq!(
        condition(&ended, "SidecarTerminated")[2],
        "Terminated by Sidecar Terminator"
    );
    assert_eq!(json!(ended.status)["phase"], "Succeeded");
    request(&stage, &pod).await;
}

async fn given_a_virtual_node_then_the_sidecar_gets_the_image_that_ends_it(stage: Arc<Stage>) {
    // Nobody looks after this node: the test says what its kubelet would say.
    let nodes: Api<Node> = Api::all(stage.client());
    let name = format!("virtual-{}", stage.namespace());
    let made = node(&name).label("type", "virtual-kubelet").build();
    nodes.create(&PostParams::default(), &made).await.unwrap();
    let variables = json!([{"name": SWITCH, "value": "true"}, {"name": IMAGE, "value": "end:1"}]);
    let made = pod("job")
        .image("app:1")
        .container("side", "side:1")
        .set("/spec/containers/1/env", variables)
        .restart_policy("Never")
        .on_node(&name);
    stage.pods.create(&PostParams::default(), &made.build()).await.unwrap();
    let status = |name: &str, image: &str, state: Value| json!({"name": name, "image": image, "imageID": image, "ready": false, "restartCount": 0, "state": state});
    let ended = status("main", "app:1", json!({"terminated": {"exitCode": 0}}));
    let running = status("side", "side:1", json!({"running": {}}));
    stage
        .patch_pod_status(
            "job",
            json!({"status": {"phase": "Running", "containerStatuses": [ended, running]}}),
        )
        .await;
    let swapped = stage
        .until_pod("job", "it has the other image", |pod| image(pod, "side") == "end:1")
        .await;
    assert_eq!(image(&swapped, "main"), "app:1");
    stage
        .event("job", "SidecarTerminator", "[side] using in-place update")
        .await;
    nodes.delete(&name, &DeleteParams::default()).await.unwrap();
}
