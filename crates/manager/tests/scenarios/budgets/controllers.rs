//! Controllers of ours ask budgets before they disturb Pods. A Pod that is refused waits, the reason is told, and others go on.

use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::builders::{Fixture as _, Workload, cloneset, daemonset, pod, statefulset};
use kruise_testkit::eventually::{NotYet, eventually};
use kruise_testkit::sim::{SimOptions, SimulatedNodes};
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::sync::Arc;

use super::super::podunavailablebudget::{budgets, status, try_budget};
use crate::cluster::scenario::{PATIENCE, Scenario, Stage, pod_history::PodsByName, scenarios};

pub(crate) fn all() -> Vec<Scenario> {
    scenarios![
        given_no_place_then_a_clone_set_keeps_the_pod_it_should_delete_and_goes_on_with_another,
        given_no_place_then_pods_that_are_recreated_wait,
        given_no_place_then_a_stateful_set_updates_nothing_and_says_why,
        given_no_place_then_a_daemon_set_replaces_nothing_and_says_why,
        given_no_place_then_a_sidecar_set_updates_nothing_and_others_go_on,
        given_no_place_then_containers_are_recreated_all_the_same,
    ]
}

/// A budget over all Pods of a set, of any kind, that grants nothing.
async fn nothing_may_go(stage: &Stage, labels: Value, replicas: i32) {
    let spec = json!({"selector": {"matchLabels": labels}, "maxUnavailable": 0, "protectTotalReplicas": replicas});
    try_budget(stage, "budget", spec).await.unwrap();
    status(
        stage,
        json!({"desiredAvailable": replicas, "currentAvailable": replicas, "unavailableAllowed": 0}),
    )
    .await;
}

async fn one_may_go(stage: &Stage) {
    let one = Patch::Merge(json!({"spec": {"maxUnavailable": 1}}));
    budgets(stage)
        .patch("budget", &PatchParams::default(), &one)
        .await
        .unwrap();
}

fn to_image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

/// Nothing was done to these Pods since.
async fn are_the_same(stage: &Stage, set: &str, before: &PodsByName) {
    let after = stage.pods(set).await;
    let facts = |pods: &PodsByName| -> Vec<Value> {
        let fact = |pod: &Pod| json!([pod.uid(), json!(pod.spec)["containers"][0]["image"]]);
        pods.values().map(fact).collect()
    };
    assert_eq!(facts(&after), facts(before));
}

async fn given_no_place_then_a_clone_set_keeps_the_pod_it_should_delete_and_goes_on_with_another(stage: Arc<Stage>) {
    let all = ("/spec/updateStrategy/rollingUpdate/maxUnavailable", "100%");
    let before = stage.settled(cloneset("web").replicas(3).set(all.0, all.1)).await;
    nothing_may_go(&stage, json!({"app": "web"}), 3).await;
    let names: Vec<&String> = before.keys().collect();
    let free = json!({"metadata": {"annotations": {"pub.kruise.io/no-protect": "true"}}});
    stage.patch_pod(names[2], free).await;
    for name in &names[1..] {
        stage
            .label_pod(name, "apps.kruise.io/specified-delete", Some("true"))
            .await;
    }
    stage.gone(names[2]).await;
    let why = stage.why("web", "budgetRefused").await;
    assert!(why.to_string().contains(names[1].as_str()), "{why}");
    let still = stage.pods.get(names[1]).await.unwrap();
    assert_eq!(
        (still.uid(), still.metadata.deletion_timestamp),
        (before[names[1]].uid(), None)
    );
    one_may_go(&stage).await;
    stage.gone(names[1]).await;
    stage
        .status("web", json!({"replicas": 3, "availableReplicas": 3}))
        .await;
}

async fn given_no_place_then_pods_that_are_recreated_wait(stage: Arc<Stage>) {
    let before = stage.settled(cloneset("web").replicas(2)).await;
    nothing_may_go(&stage, json!({"app": "web"}), 2).await;
    stage.patch("web", to_image("nginx:2")).await;
    stage.why("web", "budgetRefused").await;
    are_the_same(&stage, "web", &before).await;
    one_may_go(&stage).await;
    stage
        .status("web", json!({"updatedReplicas": 2, "availableReplicas": 2}))
        .await;
}

async fn given_no_place_then_a_stateful_set_updates_nothing_and_says_why(stage: Arc<Stage>) {
    let sets = stage.about("StatefulSet");
    let rules = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 2});
    let set = statefulset("web")
        .replicas(2)
        .image("nginx:1")
        .set("/spec/podManagementPolicy", "Parallel")
        .set(
            "/spec/updateStrategy",
            json!({"type": "RollingUpdate", "rollingUpdate": rules}),
        );
    let before = sets.settled(set).await;
    nothing_may_go(&stage, json!({"app": "web"}), 2).await;
    sets.patch("web", to_image("nginx:2")).await;
    sets.why("web", "budgetRefused").await;
    are_the_same(&stage, "web", &before).await;
    one_may_go(&stage).await;
    sets.status("web", json!({"updatedReplicas": 2, "availableReplicas": 2}))
        .await;
    sets.subjects.delete("web", &DeleteParams::background()).await.unwrap();
}

async fn given_no_place_then_a_daemon_set_replaces_nothing_and_says_why(stage: Arc<Stage>) {
    let options = SimOptions {
        count: 2,
        name_prefix: stage.namespace().to_owned(),
        labels: [("field".to_owned(), stage.namespace().to_owned())].into(),
        namespace: Some(stage.namespace().to_owned()),
        ..SimOptions::default()
    };
    let nodes = SimulatedNodes::start(stage.client(), options).await.unwrap();
    let sets = stage.about("DaemonSet");
    let here = ("field".to_owned(), stage.namespace().to_owned());
    let set: Workload = daemonset("agent").image("agent:1").pod(|pod| pod.node_selector(here));
    sets.create(set).await;
    let all = json!({"desiredNumberScheduled": 2, "numberAvailable": 2});
    sets.status("agent", all).await;
    let before = stage.pods("agent").await;
    nothing_may_go(&stage, json!({"app": "agent"}), 2).await;
    sets.patch("agent", to_image("agent:2")).await;
    sets.why("agent", "budgetRefused").await;
    are_the_same(&stage, "agent", &before).await;
    one_may_go(&stage).await;
    sets.status("agent", json!({"updatedNumberScheduled": 2, "numberAvailable": 2}))
        .await;
    sets.subjects
        .delete("agent", &DeleteParams::background())
        .await
        .unwrap();
    nodes.stop().await.unwrap();
}

async fn given_no_place_then_a_sidecar_set_updates_nothing_and_others_go_on(stage: Arc<Stage>) {
    let name = stage.namespace();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "SidecarSet"));
    let sets: Api<DynamicObject> = Api::all_with(stage.client(), &kind);
    let set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"side": name}}, "updateStrategy": {"maxUnavailable": 1},
            "containers": [{"name": "log", "image": "log:1"}],
        },
    });
    sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap())
        .await
        .unwrap();
    // Two Pods of a budget that grants nothing, and one without: its name is the last.
    for (pod_name, app) in [("a", "web"), ("b", "web"), ("c", "other")] {
        let made = pod(pod_name).image("app:1").label("side", name).label("app", app);
        let made = made.on_node(&stage.node(0)).build();
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        eventually(PATIENCE, "the sidecar is injected", || async {
            let tried = stage.pods.create(&dry, &made).await?;
            let containers = tried.spec.map(|spec| spec.containers.len());
            (containers == Some(2))
                .then_some(())
                .ok_or_else(|| NotYet::new("it is not"))
        })
        .await;
        stage.pods.create(&PostParams::default(), &made).await.unwrap();
    }
    nothing_may_go(&stage, json!({"app": "web"}), 2).await;
    let mut containers = sets.get(name).await.unwrap().data["spec"]["containers"].clone();
    containers[0]["image"] = json!("log:2");
    let change = Patch::Merge(json!({"spec": {"containers": containers}}));
    sets.patch(name, &PatchParams::default(), &change).await.unwrap();
    let image = |pod: &Pod| {
        let containers = pod
            .spec
            .as_ref()
            .map(|spec| spec.containers.clone())
            .unwrap_or_default();
        let log = containers.into_iter().find(|container| container.name == "log");
        log.and_then(|log| log.image).unwrap_or_default()
    };
    stage.until_pod("c", "it is updated", |pod| image(pod) == "log:2").await;
    let why = stage.why_of(format!("SidecarSet/{name}"), "budgetRefused").await;
    assert!(why.to_string().contains(&format!("{name}/")), "{why}");
    for pod in ["a", "b"] {
        assert_eq!(image(&stage.pods.get(pod).await.unwrap()), "log:1");
    }
    one_may_go(&stage).await;
    for pod in ["a", "b"] {
        stage.until_pod(pod, "it is updated", |pod| image(pod) == "log:2").await;
    }
    sets.delete(name, &DeleteParams::background()).await.unwrap();
}

async fn given_no_place_then_containers_are_recreated_all_the_same(stage: Arc<Stage>) {
    // Its containers are restarted by the daemon of the node, which changes nothing that is asked about.
    stage.settled(cloneset("web").replicas(1).image("nginx:1")).await;
    let name = stage.pods("web").await.into_keys().next().unwrap();
    nothing_may_go(&stage, json!({"app": "web"}), 1).await;
    let requests = stage.objects("v1beta1", "ContainerRecreateRequest");
    let request = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest", "metadata": {"name": "again"},
        "spec": {"podName": name, "containers": [{"name": "main"}]},
    });
    requests
        .create(&PostParams::default(), &serde_json::from_value(request).unwrap())
        .await
        .unwrap();
    eventually(PATIENCE, "the request is done", || async {
        let phase = requests.get("again").await?.data["status"]["phase"].clone();
        (phase == "Completed")
            .then_some(())
            .ok_or_else(|| NotYet::new(phase.to_string()))
    })
    .await;
    let pod = stage.pods.get(&name).await.unwrap();
    let restarts = pod
        .status
        .and_then(|status| status.container_statuses)
        .unwrap_or_default();
    assert!(restarts.iter().any(|status| status.restart_count > 0), "{restarts:?}");
}
