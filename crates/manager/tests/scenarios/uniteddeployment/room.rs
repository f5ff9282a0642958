//! Subsets in which Pods find no node.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{CLONE_SET, RESERVED, Scenario, Stage, create, divided, entry_is, in_subset, scale, scenarios, spec};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_subset_without_room_then_other_subsets_make_up_for_it_for_a_while,
        given_reservation_then_waiting_pods_stay_until_they_run,
    ]
}

/// A subset whose Pods need a label that no node has, and one for which all nodes do.
#[expect(clippy::needless_pass_by_value, reason = "as `json!` gives it")]
fn adaptive(stage: &Stage, adaptive: Value) -> Value {
    let expression = json!({"key": "example.com/room", "operator": "In", "values": [stage.namespace()]});
    let subsets = json!([
        {"name": "a", "maxReplicas": 4, "nodeSelectorTerm": {"matchExpressions": [expression]}},
        {"name": "b"},
    ]);
    let mut given = spec(CLONE_SET, 6, subsets);
    given["topology"]["scheduleStrategy"] = json!({"type": "Adaptive", "adaptive": adaptive});
    given
}

async fn label_node(stage: &Stage, value: Option<&str>) {
    let nodes: Api<Node> = Api::all(stage.client());
    let patch = json!({"metadata": {"labels": {"example.com/room": value}}});
    nodes
        .patch(&stage.node(0), &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

async fn given_a_subset_without_room_then_other_subsets_make_up_for_it_for_a_while(stage: Arc<Stage>) {
    let times = json!({"rescheduleCriticalSeconds": 2, "unschedulableDuration": 8});
    create(&stage, &adaptive(&stage, times)).await;
    divided(&stage, CLONE_SET, &[("a", 4), ("b", 2)]).await;
    let is = |status: &'static str, reason: &'static str| {
        move |entry: &Value| {
            let condition = &entry["conditions"][0];
            condition["status"] == status && condition["reason"] == reason
        }
    };
    entry_is(&stage, "a", is("False", "reschedule")).await;
    divided(&stage, CLONE_SET, &[("a", 0), ("b", 6)]).await;
    stage.status("web", json!({"readyReplicas": 6})).await;
    // What runs stays when it is tried again.
    entry_is(&stage, "a", is("True", "recover")).await;
    divided(&stage, CLONE_SET, &[("a", 0), ("b", 6)]).await;
    scale(&stage, 8).await;
    divided(&stage, CLONE_SET, &[("a", 2), ("b", 6)]).await;
    entry_is(&stage, "a", is("False", "reschedule")).await;
    divided(&stage, CLONE_SET, &[("a", 0), ("b", 8)]).await;
}

async fn given_reservation_then_waiting_pods_stay_until_they_run(stage: Arc<Stage>) {
    let times = json!({"rescheduleCriticalSeconds": 2, "unschedulableDuration": 3, "reserveUnschedulablePods": true});
    let mut given = adaptive(&stage, times);
    given["replicas"] = json!(2);
    given["topology"]["subsets"][0]["maxReplicas"] = json!(1);
    create(&stage, &given).await;
    divided(&stage, CLONE_SET, &[("a", 1), ("b", 2)]).await;
    let status = stage
        .status("web", json!({"replicas": 2, "readyReplicas": 2, "reservedPods": 1}))
        .await;
    assert_eq!(status["labelSelector"], format!("app=web,{RESERVED}=false"));
    stage.why("web", "reserved").await;
    let pods = stage.pods("web").await;
    let waiting = in_subset(&pods, "a");
    assert_eq!(waiting[0].labels().get(RESERVED).map(String::as_str), Some("true"));
    label_node(&stage, Some(stage.namespace())).await;
    divided(&stage, CLONE_SET, &[("a", 1), ("b", 1)]).await;
    stage
        .status("web", json!({"replicas": 2, "readyReplicas": 2, "reservedPods": 0}))
        .await;
    label_node(&stage, None).await;
    settled_again(&stage).await;
}

/// Without reservation nothing reminds of it.
async fn settled_again(stage: &Stage) {
    let fixed = json!({"spec": {"topology": {"scheduleStrategy": {"type": "Fixed"}}}});
    stage.patch("web", fixed).await;
    stage.status("web", json!({"labelSelector": "app=web"})).await;
    entry_is(stage, "a", |entry| entry.get("conditions").is_none()).await;
}
