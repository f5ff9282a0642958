//! Sidecars end when the main containers have ended.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kruise_testkit::{
    builders::{Fixture as _, PodBuilder, node, pod},
    eventually::{NotYet, eventually},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, PostParams},
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
        given_pods_whose_main_containers_are_not_done_then_nothing_is_stopped_before_they_are,
        given_a_sidecar_that_has_ended_then_only_the_other_is_stopped,
        given_sidecars_of_both_kinds_then_the_exit_code_is_ignored_last_and_nothing_is_asked_for_twice,
        given_a_failed_main_container_then_the_final_phase_says_so_and_other_ended_pods_take_no_request,
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

/// A Pod whose containers end when the test says so, see [`end`]. A container with variables is a sidecar.
fn waiting(stage: &Stage, name: &str, policy: &str, sidecars: &[(&str, &[(&str, &str)])]) -> PodBuilder {
    let made = pod(name).image("app:1").restart_policy(policy).on_node(&stage.node(0));
    (1..).zip(sidecars).fold(made, |made, (index, (name, variables))| {
        let variables = variables
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value}));
        let variables: Vec<Value> = variables.collect();
        made.container(name, "side:1")
            .set(&format!("/spec/containers/{index}/env"), variables)
    })
}

async fn create(stage: &Stage, pod: PodBuilder) -> Pod {
    stage.pods.create(&PostParams::default(), &pod.build()).await.unwrap()
}

/// Ends a container, and waits until its Pod says so.
async fn end(stage: &Stage, pod: &str, container: &str, code: &str) {
    stage
        .script_pod(pod, &format!("exit-code.{container}"), Some(code))
        .await;
    stage
        .script_pod(pod, &format!("exit-after.{container}"), Some("1ms"))
        .await;
    stage
        .until_pod(pod, "the container has ended", |pod| {
            let statuses = json!(pod.status)["containerStatuses"].clone();
            let statuses = statuses.as_array().cloned().unwrap_or_default();
            let status = statuses.into_iter().find(|status| status["name"] == container);
            let status = status.unwrap_or_default();
            status["state"]["terminated"].is_object() || status["lastState"]["terminated"].is_object()
        })
        .await;
}

/// The Pods for which there is a request, and the containers that it names.
async fn requested(stage: &Stage) -> Vec<(String, Vec<String>)> {
    let requests = stage.objects("v1beta1", "ContainerRecreateRequest");
    let all = requests.list(&ListParams::default()).await.unwrap().items;
    let mut all: Vec<_> = all.iter().map(of_request).collect();
    all.sort();
    all
}

fn of_request(request: &DynamicObject) -> (String, Vec<String>) {
    let containers = request.data["spec"]["containers"].as_array().unwrap();
    let names = containers
        .iter()
        .map(|container| container["name"].as_str().unwrap().to_owned());
    (
        request.data["spec"]["podName"].as_str().unwrap().to_owned(),
        names.collect(),
    )
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
            condition(pod, "SidecarTerminated")[0] == "True" && json!(pod.status)["phase"] == "Succeeded"
        })
        .await;
    assert_eq!(
        condition(&ended, "SidecarTerminated")[2],
        "Terminated by Sidecar Terminator"
    );
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

async fn given_pods_whose_main_containers_are_not_done_then_nothing_is_stopped_before_they_are(stage: Arc<Stage>) {
    let switch: &[(&str, &str)] = &[(SWITCH, "true")];
    let side = [("side", switch)];
    for made in [
        waiting(&stage, "always", "Always", &side),
        waiting(&stage, "fails", "OnFailure", &side),
        waiting(&stage, "half", "Never", &[("side", switch), ("other", &[])]),
        waiting(&stage, "yes", "Never", &[("side", &[(SWITCH, "yes")])]),
        waiting(&stage, "image", "Never", &[("side", &[(IMAGE, "end:1")])]),
    ] {
        create(&stage, made).await;
    }
    for (pod, code) in [
        ("always", "0"),
        ("fails", "1"),
        ("half", "0"),
        ("yes", "0"),
        ("image", "0"),
    ] {
        end(&stage, pod, "main", code).await;
    }
    // What comes after them is done, and they are not.
    let due = create(&stage, waiting(&stage, "due", "Never", &side)).await;
    end(&stage, "due", "main", "0").await;
    request(&stage, &due).await;
    let of_side = |pod: &str| (pod.to_owned(), vec!["side".to_owned()]);
    assert_eq!(requested(&stage).await, [of_side("due")]);
    assert_eq!(image(&stage.pods.get("image").await.unwrap(), "side"), "side:1");
    // A restart that ends well, and the other of two.
    end(&stage, "fails", "main", "0").await;
    request(&stage, &stage.pods.get("fails").await.unwrap()).await;
    end(&stage, "half", "other", "3").await;
    request(&stage, &stage.pods.get("half").await.unwrap()).await;
    assert_eq!(
        requested(&stage).await,
        [of_side("due"), of_side("fails"), of_side("half")]
    );
}

async fn given_a_sidecar_that_has_ended_then_only_the_other_is_stopped(stage: Arc<Stage>) {
    let switch: &[(&str, &str)] = &[(SWITCH, "true")];
    let pod = create(
        &stage,
        waiting(&stage, "job", "Never", &[("one", switch), ("two", switch)]),
    )
    .await;
    end(&stage, "job", "one", "0").await;
    end(&stage, "job", "main", "0").await;
    let request = request(&stage, &pod).await;
    assert_eq!(of_request(&request).1, ["two"]);
    stage.event("job", "SidecarTerminator", "[two] using crr").await;
}

async fn given_sidecars_of_both_kinds_then_the_exit_code_is_ignored_last_and_nothing_is_asked_for_twice(
    stage: Arc<Stage>,
) {
    let sidecars: [(&str, &[(&str, &str)]); 2] = [
        ("side", &[(SWITCH, "true")]),
        ("quiet", &[(SWITCH, "true"), (IGNORE, "true")]),
    ];
    let pod = create(&stage, waiting(&stage, "job", "Never", &sidecars)).await;
    end(&stage, "job", "main", "0").await;
    let first = request(&stage, &pod).await;
    assert_eq!(of_request(&first).1, ["side"]);
    end(&stage, "job", "side", "137").await;
    stage
        .until_pod("job", "it has its final phase", |pod| {
            condition(pod, "SidecarTerminated")[0] == "True" && json!(pod.status)["phase"] == "Succeeded"
        })
        .await;
    assert_eq!(requested(&stage).await, [("job".to_owned(), vec!["side".to_owned()])]);
}

async fn given_a_failed_main_container_then_the_final_phase_says_so_and_other_ended_pods_take_no_request(
    stage: Arc<Stage>,
) {
    let quiet: [(&str, &[(&str, &str)]); 1] = [("quiet", &[(SWITCH, "true"), (IGNORE, "true")])];
    let pod = create(&stage, waiting(&stage, "job", "Never", &quiet)).await;
    end(&stage, "job", "main", "2").await;
    // Admission lets this request pass for the sake of the condition.
    request(&stage, &pod).await;
    stage
        .until_pod("job", "its final phase is that it failed", |pod| {
            condition(pod, "SidecarTerminated")[0] == "True" && json!(pod.status)["phase"] == "Failed"
        })
        .await;

    create(&stage, waiting(&stage, "plain", "Never", &[])).await;
    end(&stage, "plain", "main", "0").await;
    stage
        .until_pod("plain", "it has ended", |pod| json!(pod.status)["phase"] == "Succeeded")
        .await;
    let by_hand = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest",
        "metadata": {"name": "by-hand"}, "spec": {"podName": "plain", "containers": [{"name": "main"}]}});
    let by_hand: DynamicObject = serde_json::from_value(by_hand).unwrap();
    let requests = stage.objects("v1beta1", "ContainerRecreateRequest");
    let refusal = requests.create(&PostParams::default(), &by_hand).await.unwrap_err();
    assert!(refusal.to_string().contains("inactive Pod"), "{refusal}");
}
