//! ContainerRecreateRequests: what the manager does while a daemon restarts containers.

use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::{
    builders::pod,
    eventually::{NotYet, eventually},
};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::cluster::scenario::{PATIENCE, Scenario, Stage, scenarios};

pub(crate) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_running_pod_then_its_container_restarts_and_the_request_ends_and_goes,
        given_a_grace_period_then_the_pod_is_not_ready_before_its_container_stops_and_ready_afterwards,
        given_a_request_that_is_deleted_meanwhile_then_the_pod_is_ready_again,
        given_a_container_that_does_not_come_back_then_the_deadline_ends_the_request,
        given_a_pod_that_goes_meanwhile_then_the_request_ends,
        given_what_does_not_fit_the_pod_then_it_is_refused_with_its_field,
        given_a_user_of_the_first_version_then_what_the_kubelet_says_is_in_an_annotation,
    ]
}

/// A ready Pod called `web`, made where our own readiness gate is put in.
async fn running(stage: &Stage) -> Pod {
    let made = pod("web").image("nginx:1").container("side", "busybox:1");
    let made = made
        .readiness_gate("KruisePodReady")
        .grace_seconds(5)
        .on_node(&stage.node(0));
    stage.pods.create(&PostParams::default(), &made.build()).await.unwrap();
    stage.until_pod("web", "it is ready", is_ready).await
}

fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready") == "True"
}

fn condition(pod: &Pod, kind: &str) -> String {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.clone())
        .unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition.type_ == kind);
    found.map(|condition| condition.status).unwrap_or_default()
}

fn container(pod: &Pod, name: &str) -> (String, i32) {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.clone())
        .unwrap_or_default();
    let found = statuses.into_iter().find(|status| status.name == name).unwrap();
    (found.container_id.unwrap_or_default(), found.restart_count)
}

fn request(name: &str, spec: &Value) -> DynamicObject {
    let mut full = json!({"podName": "web", "containers": [{"name": "main"}]});
    full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let request = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest", "metadata": {"name": name}, "spec": full});
    serde_json::from_value(request).unwrap()
}

async fn create(stage: &Stage, name: &str, spec: Value) -> kube::Result<DynamicObject> {
    let requests = stage.objects("v1beta1", "ContainerRecreateRequest");
    requests.create(&PostParams::default(), &request(name, &spec)).await
}

/// Waits until a request is as wanted.
async fn until(stage: &Stage, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> DynamicObject {
    let requests = stage.objects("v1beta1", "ContainerRecreateRequest");
    eventually(PATIENCE, what, || async {
        let request = requests.get(name).await?;
        let whole = serde_json::to_value(&request).unwrap();
        if wanted(&whole) {
            Ok(request)
        } else {
            Err(NotYet::new(format!("{whole:#}")))
        }
    })
    .await
}

async fn gone(stage: &Stage, name: &str) {
    let requests = stage.objects("v1beta1", "ContainerRecreateRequest");
    eventually(PATIENCE, "the request is gone", || async {
        match requests.get_opt(name).await? {
            None => Ok(()),
            Some(request) => Err(NotYet::new(format!("{:#}", request.data))),
        }
    })
    .await;
}

async fn given_a_running_pod_then_its_container_restarts_and_the_request_ends_and_goes(stage: Arc<Stage>) {
    let before = running(&stage).await;
    let made = create(&stage, "again", json!({"ttlSecondsAfterFinished": 2}))
        .await
        .unwrap();
    let labels = made.labels();
    assert_eq!(labels["crr.apps.kruise.io/node-name"], stage.node(0));
    assert_eq!(labels["crr.apps.kruise.io/pod-uid"], before.uid().unwrap());
    assert_eq!(labels["crr.apps.kruise.io/active"], "true");
    let strategy = json!({"failurePolicy": "Fail", "terminationGracePeriodSeconds": 5});
    assert_eq!(made.data["spec"]["strategy"], strategy);
    let (id, restarts) = container(&before, "main");
    let context = json!({"containerID": id, "restartCount": restarts});
    assert_eq!(made.data["spec"]["containers"][0]["statusContext"], context);

    let done = until(
        &stage,
        "again",
        "it has ended and is out of the daemon's sight",
        |request| {
            request["status"]["phase"] == "Completed"
                && request["metadata"]["labels"]["crr.apps.kruise.io/active"].is_null()
        },
    )
    .await;
    assert_eq!(done.data["status"]["containerRecreateStates"][0]["phase"], "Succeeded");
    let after = stage.pods.get("web").await.unwrap();
    let (new_id, new_restarts) = container(&after, "main");
    assert!(new_id != id && new_restarts == restarts + 1);
    assert_eq!(done.data["status"]["containerStatusSnapshot"][0]["containerID"], new_id);
    assert_eq!(
        container(&after, "side"),
        container(&before, "side"),
        "the other container runs on"
    );
    gone(&stage, "again").await;
}

async fn given_a_grace_period_then_the_pod_is_not_ready_before_its_container_stops_and_ready_afterwards(
    stage: Arc<Stage>,
) {
    let before = running(&stage).await;
    create(&stage, "drained", json!({"strategy": {"unreadyGracePeriodSeconds": 2}}))
        .await
        .unwrap();
    let held = stage.until_pod("web", "it is held", |pod| !is_ready(pod)).await;
    assert_eq!(
        container(&held, "main"),
        container(&before, "main"),
        "its container runs on"
    );
    assert_eq!(condition(&held, "KruisePodReady"), "False");
    let done = until(&stage, "drained", "it has ended", |request| {
        request["status"]["phase"] == "Completed" && request["metadata"]["finalizers"].is_null()
    })
    .await;
    let grace = &done.data["status"]["conditions"][0];
    assert_eq!(
        (&grace["type"], &grace["status"]),
        (&json!("PreRecreateGrace"), &json!("True"))
    );
    let after = stage.until_pod("web", "it is ready again", is_ready).await;
    assert_ne!(container(&after, "main"), container(&before, "main"));
    assert_eq!(condition(&after, "KruisePodReady"), "True");
}

async fn given_a_request_that_is_deleted_meanwhile_then_the_pod_is_ready_again(stage: Arc<Stage>) {
    running(&stage).await;
    create(
        &stage,
        "dropped",
        json!({"strategy": {"unreadyGracePeriodSeconds": 600}}),
    )
    .await
    .unwrap();
    stage
        .until_pod("web", "it is held", |pod| condition(pod, "KruisePodReady") == "False")
        .await;
    let requests = stage.objects("v1beta1", "ContainerRecreateRequest");
    requests.delete("dropped", &DeleteParams::default()).await.unwrap();
    gone(&stage, "dropped").await;
    stage.until_pod("web", "it is ready again", is_ready).await;
}

async fn given_a_container_that_does_not_come_back_then_the_deadline_ends_the_request(stage: Arc<Stage>) {
    running(&stage).await;
    stage.script_pod("web", "never-ready.main", Some("true")).await;
    create(&stage, "late", json!({"activeDeadlineSeconds": 4}))
        .await
        .unwrap();
    let done = until(&stage, "late", "it has ended", |request| {
        request["status"]["phase"] == "Completed"
    })
    .await;
    assert_eq!(
        done.data["status"]["message"],
        "recreating has exceeded the activeDeadlineSeconds"
    );
    assert_eq!(done.data["status"]["containerRecreateStates"][0]["phase"], "Recreating");
}

async fn given_a_pod_that_goes_meanwhile_then_the_request_ends(stage: Arc<Stage>) {
    running(&stage).await;
    create(&stage, "silent-gone", json!({})).await.unwrap();
    stage.delete_pod("web").await;
    let done = until(&stage, "silent-gone", "it has ended", |request| {
        request["status"]["phase"] == "Completed"
    })
    .await;
    assert_eq!(done.data["status"]["message"], "pod has gone");
}

async fn given_what_does_not_fit_the_pod_then_it_is_refused_with_its_field(stage: Arc<Stage>) {
    running(&stage).await;
    for (spec, told) in [
        (
            json!({"podName": "other"}),
            "spec.podName: Invalid value: \"other\": no found Pod named other",
        ),
        (
            json!({"containers": [{"name": "x"}]}),
            "spec.containers[0].name: Invalid value: \"x\": container x not found in Pod",
        ),
        (
            json!({"containers": [{"name": "main"}, {"name": "main"}]}),
            "spec.containers[1].name",
        ),
        (
            json!({"activeDeadlineSeconds": 2}),
            "spec.activeDeadlineSeconds: Invalid value: 2",
        ),
        (
            json!({"containers": [{"name": "main", "preStop": {"exec": {"command": ["a"]}}}]}),
            "spec.containers[0].preStop: Forbidden",
        ),
    ] {
        let error = create(&stage, "refused", spec.clone()).await.unwrap_err();
        assert!(error.to_string().contains(told), "{spec}: {error}");
    }
    create(&stage, "silent-kept", json!({})).await.unwrap();
    let requests = stage.objects("v1beta1", "ContainerRecreateRequest");
    for patch in [
        json!({"spec": {"podName": "other"}}),
        json!({"metadata": {"labels": {"crr.apps.kruise.io/pod-uid": "other"}}}),
    ] {
        let error = requests
            .patch("silent-kept", &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap_err();
        let kube::Error::Api(status) = &error else {
            panic!("{error}")
        };
        assert_eq!(status.code, 403, "{patch}: {error}");
    }
}

async fn given_a_user_of_the_first_version_then_what_the_kubelet_says_is_in_an_annotation(stage: Arc<Stage>) {
    running(&stage).await;
    create(&stage, "seen", json!({})).await.unwrap();
    until(&stage, "seen", "it has ended", |request| {
        request["status"]["phase"] == "Completed"
    })
    .await;
    let old = stage
        .objects("v1alpha1", "ContainerRecreateRequest")
        .get("seen")
        .await
        .unwrap();
    let said: Value = serde_json::from_str(&old.annotations()["crr.apps.kruise.io/sync-container-statuses"]).unwrap();
    assert_eq!((&said[0]["name"], &said[0]["ready"]), (&json!("main"), &json!(true)));
}
