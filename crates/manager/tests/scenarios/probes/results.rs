//! What results leave on Pods.

use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::eventually::consistently;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{Scenario, Stage, condition, create, exec, listed, nodes, patch, report, running, scenarios, until_list};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_results_then_condition_and_labels_follow_and_a_message_alone_is_news,
        given_two_policies_with_one_key_then_it_flips_and_is_never_gone,
        given_a_restarted_container_then_the_condition_is_false_until_the_next_success,
        given_two_markers_with_one_condition_then_only_one_writes_it,
        given_changed_policies_then_the_same_result_marks_anew,
    ]
}

fn labels(pod: &Pod) -> Value {
    json!(pod.metadata.labels)
}

async fn given_results_then_condition_and_labels_follow_and_a_message_alone_is_news(stage: Arc<Stage>) {
    let nodes = nodes(&stage, 1).await;
    let node = nodes.names().swap_remove(0);
    let made = running(&stage, "web", &node).await;
    let policies =
        json!([{"state": "Succeeded", "labels": {"idle": "true"}, "annotations": {"example.com/idle": "yes"}}]);
    create(&stage, "game", &json!([exec("idle", &policies)])).await;
    until_list(&stage, &node, "it is listed", |list| {
        listed(list, "web") == ["game#idle"]
    })
    .await;
    report(&stage, &node, &made, &[("game#idle", "Succeeded", "one", 1)]).await;
    let pod = stage
        .until_pod("web", "it is marked", |pod| labels(pod)["idle"] == "true")
        .await;
    let first = condition(&pod, "game.io/idle");
    assert_eq!((&first["status"], &first["message"]), (&json!("True"), &json!("one")));
    assert_eq!(first["lastTransitionTime"], "2026-05-01T10:00:01Z");
    assert_eq!(json!(pod.metadata.annotations)["example.com/idle"], "yes");
    report(&stage, &node, &made, &[("game#idle", "Succeeded", "two", 2)]).await;
    let pod = stage
        .until_pod("web", "the message is new", |pod| {
            condition(pod, "game.io/idle")["message"] == "two"
        })
        .await;
    assert_eq!(
        condition(&pod, "game.io/idle")["lastTransitionTime"],
        "2026-05-01T10:00:02Z"
    );
    report(&stage, &node, &made, &[("game#idle", "Failed", "", 3)]).await;
    let pod = stage
        .until_pod("web", "it has failed", |pod| {
            condition(pod, "game.io/idle")["status"] == "False"
        })
        .await;
    assert!(labels(&pod)["idle"].is_null());
    assert!(json!(pod.metadata.annotations)["example.com/idle"].is_null());
    assert!(condition(&pod, "game.io/idle")["message"].is_null());
    nodes.stop().await.unwrap();
}

async fn given_two_policies_with_one_key_then_it_flips_and_is_never_gone(stage: Arc<Stage>) {
    let nodes = nodes(&stage, 1).await;
    let node = nodes.names().swap_remove(0);
    let made = running(&stage, "web", &node).await;
    let policies = json!([
        {"state": "Succeeded", "labels": {"idle": "true"}}, {"state": "Failed", "labels": {"idle": "false"}},
    ]);
    create(&stage, "game", &json!([exec("idle", &policies)])).await;
    until_list(&stage, &node, "it is listed", |list| {
        listed(list, "web") == ["game#idle"]
    })
    .await;
    report(&stage, &node, &made, &[("game#idle", "Failed", "", 1)]).await;
    stage
        .until_pod("web", "it is busy", |pod| labels(pod)["idle"] == "false")
        .await;
    let history = stage.pod_history("game").await;
    for (second, state, label) in [
        (2, "Succeeded", "true"),
        (3, "Failed", "false"),
        (4, "Succeeded", "true"),
    ] {
        report(&stage, &node, &made, &[("game#idle", state, "", second)]).await;
        stage
            .until_pod("web", "the label flips", |pod| labels(pod)["idle"] == label)
            .await;
    }
    let seen = history.end().await;
    let mut pods = seen.iter().flat_map(BTreeMap::values);
    assert!(
        pods.all(|pod| labels(pod)["idle"].is_string()),
        "the key was gone for a moment"
    );
    nodes.stop().await.unwrap();
}

async fn given_a_restarted_container_then_the_condition_is_false_until_the_next_success(stage: Arc<Stage>) {
    let nodes = nodes(&stage, 1).await;
    let node = nodes.names().swap_remove(0);
    let made = running(&stage, "web", &node).await;
    create(&stage, "game", &json!([exec("idle", &json!([]))])).await;
    until_list(&stage, &node, "it is listed", |list| {
        listed(list, "web") == ["game#idle"]
    })
    .await;
    for (second, state, status) in [
        (1, "Succeeded", "True"),
        (2, "Unknown", "False"),
        (3, "Succeeded", "True"),
    ] {
        report(&stage, &node, &made, &[("game#idle", state, "", second)]).await;
        stage
            .until_pod("web", "the condition follows", |pod| {
                condition(pod, "game.io/idle")["status"] == status
            })
            .await;
    }
    nodes.stop().await.unwrap();
}

async fn given_two_markers_with_one_condition_then_only_one_writes_it(stage: Arc<Stage>) {
    let nodes = nodes(&stage, 1).await;
    let node = nodes.names().swap_remove(0);
    let made = running(&stage, "web", &node).await;
    for name in ["one", "two"] {
        create(&stage, name, &json!([exec("idle", &json!([]))])).await;
    }
    until_list(&stage, &node, "both are listed", |list| listed(list, "web").len() == 2).await;
    report(
        &stage,
        &node,
        &made,
        &[("one#idle", "Failed", "one", 1), ("two#idle", "Succeeded", "two", 1)],
    )
    .await;
    stage
        .until_pod("web", "the first one wrote", |pod| {
            condition(pod, "game.io/idle")["message"] == "one"
        })
        .await;
    consistently(Duration::from_secs(3), "the second one does not", || async {
        let found = condition(&stage.pods.get("web").await?, "game.io/idle");
        assert_eq!(found["message"], "one");
        Ok(())
    })
    .await;
    nodes.stop().await.unwrap();
}

async fn given_changed_policies_then_the_same_result_marks_anew(stage: Arc<Stage>) {
    let nodes = nodes(&stage, 1).await;
    let node = nodes.names().swap_remove(0);
    let made = running(&stage, "web", &node).await;
    let policy = |value: &str| json!([{"state": "Succeeded", "labels": {"idle": value}}]);
    create(&stage, "game", &json!([exec("idle", &policy("one"))])).await;
    until_list(&stage, &node, "it is listed", |list| {
        listed(list, "web") == ["game#idle"]
    })
    .await;
    report(&stage, &node, &made, &[("game#idle", "Succeeded", "", 1)]).await;
    stage
        .until_pod("web", "it is marked", |pod| labels(pod)["idle"] == "one")
        .await;
    patch(&stage, "game", &json!({"probes": [exec("idle", &policy("two"))]})).await;
    stage
        .until_pod("web", "it is marked anew", |pod| labels(pod)["idle"] == "two")
        .await;
    nodes.stop().await.unwrap();
}
