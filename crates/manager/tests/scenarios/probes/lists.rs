//! What is listed for the daemons of nodes.

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::sync::Arc;

use super::{
    Scenario, Stage, create, exec, listed, markers, node_probes, nodes, patch, pod, running, scenarios, until_list,
    until_marker,
};
use kruise_testkit::builders::{Fixture as _, node};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_running_pod_then_its_node_lists_it_and_the_marker_counts_it,
        given_a_pod_that_is_deleted_then_its_entry_goes,
        given_a_marker_that_is_deleted_then_its_probes_go_before_it,
        given_a_port_by_name_then_it_is_a_number_and_an_unknown_one_leaves_out_its_probe,
        given_a_node_then_a_list_comes_when_it_is_ready_and_goes_with_it_but_not_for_a_virtual_one,
        given_a_probe_that_is_changed_or_dropped_then_the_list_follows,
        given_a_pod_that_is_not_initialized_then_it_is_not_listed_before_it_is,
    ]
}

async fn given_a_running_pod_then_its_node_lists_it_and_the_marker_counts_it(stage: Arc<Stage>) {
    let nodes = nodes(&stage, 1).await;
    let node = nodes.names().swap_remove(0);
    let made = running(&stage, "web", &node).await;
    create(&stage, "game", &json!([exec("idle", &json!([]))])).await;
    let list = until_list(&stage, &node, "the Pod is listed", |list| {
        listed(list, "web") == ["game#idle"]
    })
    .await;
    let entry = &list["spec"]["podProbes"][0];
    let status = made.status.unwrap();
    assert_eq!(entry["uid"], json!(made.metadata.uid));
    assert_eq!(entry["namespace"], stage.namespace());
    assert_eq!(entry["IP"], json!(status.pod_ip.unwrap_or_default()));
    let marker = until_marker(&stage, "game", "it is counted", |marker| {
        marker["status"]["matchedPods"] == 1
    })
    .await;
    assert_eq!(marker["status"]["observedGeneration"], 1);
    assert_eq!(
        marker["metadata"]["finalizers"],
        json!(["kruise.io/node-pod-probe-cleanup"])
    );
    nodes.stop().await.unwrap();
}

async fn given_a_pod_that_is_deleted_then_its_entry_goes(stage: Arc<Stage>) {
    let nodes = nodes(&stage, 1).await;
    let node = nodes.names().swap_remove(0);
    for pod in ["one", "two"] {
        running(&stage, pod, &node).await;
    }
    create(&stage, "game", &json!([exec("idle", &json!([]))])).await;
    until_list(&stage, &node, "both are listed", |list| {
        listed(list, "one").len() + listed(list, "two").len() == 2
    })
    .await;
    stage.delete_pod("one").await;
    let list = until_list(&stage, &node, "one is gone", |list| listed(list, "one").is_empty()).await;
    assert_eq!(listed(&list, "two"), ["game#idle"]);
    until_marker(&stage, "game", "one is left", |marker| {
        marker["status"]["matchedPods"] == 1
    })
    .await;
    nodes.stop().await.unwrap();
}

async fn given_a_marker_that_is_deleted_then_its_probes_go_before_it(stage: Arc<Stage>) {
    let nodes = nodes(&stage, 2).await;
    let names = nodes.names();
    for (pod, node) in ["one", "two"].iter().zip(&names) {
        running(&stage, pod, node).await;
    }
    create(&stage, "game", &json!([exec("idle", &json!([]))])).await;
    create(&stage, "ame", &json!([exec("other", &json!([]))])).await;
    for (pod, node) in ["one", "two"].iter().zip(&names) {
        until_list(&stage, node, "both markers list", |list| listed(list, pod).len() == 2).await;
    }
    markers(&stage).delete("game", &DeleteParams::default()).await.unwrap();
    until_marker(&stage, "game", "it is gone", Value::is_null).await;
    for (pod, node) in ["one", "two"].iter().zip(&names) {
        let list = until_list(&stage, node, "there is a list", Value::is_object).await;
        assert_eq!(
            listed(&list, pod),
            ["ame#other"],
            "a name that ends alike is another one"
        );
    }
    nodes.stop().await.unwrap();
}

async fn given_a_port_by_name_then_it_is_a_number_and_an_unknown_one_leaves_out_its_probe(stage: Arc<Stage>) {
    let nodes = nodes(&stage, 1).await;
    let node = nodes.names().swap_remove(0);
    running(&stage, "web", &node).await;
    let tcp = |name: &str, port: &str| {
        let mut probe = exec(name, &json!([]));
        probe["probe"] = json!({"tcpSocket": {"port": port}});
        probe
    };
    create(
        &stage,
        "game",
        &json!([tcp("open", "web"), tcp("other", "other"), exec("idle", &json!([]))]),
    )
    .await;
    let list = until_list(&stage, &node, "what can be is listed", |list| {
        listed(list, "web") == ["game#open", "game#idle"]
    })
    .await;
    assert_eq!(
        list["spec"]["podProbes"][0]["probes"][0]["probe"]["tcpSocket"]["port"],
        8080
    );
    let why = stage.why("game", "noSuchPort").await;
    assert_eq!(why["pods"]["names"], json!(["web"]));
    nodes.stop().await.unwrap();
}

async fn given_a_node_then_a_list_comes_when_it_is_ready_and_goes_with_it_but_not_for_a_virtual_one(stage: Arc<Stage>) {
    let nodes: Api<Node> = Api::all(stage.client());
    let (name, other) = (
        format!("{}-a", stage.namespace()),
        format!("{}-virtual", stage.namespace()),
    );
    for (name, labels) in [(&other, json!({"type": "virtual-kubelet"})), (&name, json!({}))] {
        let made = node(name)
            .unschedulable()
            .ready()
            .set("/metadata/labels", labels)
            .build();
        let ready = json!({"status": json!(made)["status"]});
        nodes.create(&PostParams::default(), &made).await.unwrap();
        nodes
            .patch_status(name, &PatchParams::default(), &Patch::Merge(ready))
            .await
            .unwrap();
    }
    let list = until_list(&stage, &name, "it has a list", Value::is_object).await;
    assert_eq!(list["spec"], json!({}));
    assert!(
        node_probes(&stage).get_opt(&other).await.unwrap().is_none(),
        "no daemon runs there"
    );
    for node in [&name, &other] {
        nodes.delete(node, &DeleteParams::default()).await.unwrap();
    }
    until_list(&stage, &name, "it goes with the node", Value::is_null).await;
}

async fn given_a_probe_that_is_changed_or_dropped_then_the_list_follows(stage: Arc<Stage>) {
    let nodes = nodes(&stage, 1).await;
    let node = nodes.names().swap_remove(0);
    running(&stage, "web", &node).await;
    let (idle, busy) = (exec("idle", &json!([])), exec("busy", &json!([])));
    create(&stage, "game", &json!([idle, busy])).await;
    until_list(&stage, &node, "both are listed", |list| listed(list, "web").len() == 2).await;
    let mut changed = busy.clone();
    changed["probe"] = json!({"exec": {"command": ["false"]}, "periodSeconds": 7});
    patch(&stage, "game", &json!({"probes": [changed]})).await;
    let list = until_list(&stage, &node, "one is left", |list| {
        listed(list, "web") == ["game#busy"]
    })
    .await;
    let probe = &list["spec"]["podProbes"][0]["probes"][0]["probe"];
    assert_eq!(*probe, json!({"exec": {"command": ["false"]}, "periodSeconds": 7}));
    until_marker(&stage, "game", "it is seen", |marker| {
        marker["status"]["observedGeneration"] == 2
    })
    .await;
    nodes.stop().await.unwrap();
}

async fn given_a_pod_that_is_not_initialized_then_it_is_not_listed_before_it_is(stage: Arc<Stage>) {
    let nodes = nodes(&stage, 1).await;
    let node = nodes.names().swap_remove(0);
    create(&stage, "game", &json!([exec("idle", &json!([]))])).await;
    // Nobody's kubelet runs this one: it is as the test says.
    let made = pod("early").image("nginx:1").label("app", "game").on_node("nobody");
    stage.pods.create(&PostParams::default(), &made.build()).await.unwrap();
    let why = stage.why("game", "notInitialized").await;
    assert_eq!(why["pods"]["names"], json!(["early"]));
    let marker = until_marker(&stage, "game", "it is seen", |marker| marker["status"].is_object()).await;
    assert!(marker["status"]["matchedPods"].is_null());
    running(&stage, "web", &node).await;
    until_list(&stage, &node, "the other one is listed", |list| {
        listed(list, "web") == ["game#idle"]
    })
    .await;
    stage
        .patch_pod_status(
            "early",
            json!({"conditions": [{"type": "Initialized", "status": "True"}]}),
        )
        .await;
    let why = stage.why("game", "nodeUnknown").await;
    assert_eq!(why["pods"]["names"], json!(["early"]));
    nodes.stop().await.unwrap();
}
