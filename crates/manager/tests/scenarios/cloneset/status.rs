//! What a set says about itself: counts, conditions, deadlines.

use std::{sync::Arc, time::Duration};

use kruise_testkit::{builders::Fixture as _, eventually::consistently};
use serde_json::{Value, json};

use super::{Scenario, Stage, rolling, scenarios, to_image, web, web_in_place};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_min_ready_seconds_then_pods_are_available_later_than_ready_and_rolling_waits,
        given_a_deadline_and_a_pod_that_never_gets_ready_then_it_is_exceeded_until_fixed,
        given_a_deadline_then_pause_and_partition_stop_the_clock,
    ]
}

async fn given_min_ready_seconds_then_pods_are_available_later_than_ready_and_rolling_waits(stage: Arc<Stage>) {
    let set = web_in_place(2).set("/spec/minReadySeconds", 3600);
    stage
        .create(set.set("/spec/updateStrategy/rollingUpdate/maxUnavailable", 1))
        .await;
    stage
        .status("web", json!({"readyReplicas": 2, "availableReplicas": 0}))
        .await;
    stage.patch("web", json!({"spec": {"minReadySeconds": 5}})).await;
    stage
        .status("web", json!({"readyReplicas": 2, "availableReplicas": 2}))
        .await;
    stage.patch("web", to_image("nginx:2")).await;
    stage
        .status(
            "web",
            json!({"updatedReadyReplicas": 1, "readyReplicas": 2, "availableReplicas": 1}),
        )
        .await;
    consistently(Duration::from_secs(1), "the second waits", || async {
        let status = stage.subjects.get("web").await?.data["status"].clone();
        if status["updatedReplicas"] == 1 {
            Ok(())
        } else {
            Err(status.into())
        }
    })
    .await;
    stage.status("web", json!({"updatedAvailableReplicas": 2})).await;
}

fn reason(wanted: &'static str) -> impl Fn(&Value) -> bool {
    move |condition| condition["reason"] == wanted
}

async fn given_a_deadline_and_a_pod_that_never_gets_ready_then_it_is_exceeded_until_fixed(stage: Arc<Stage>) {
    let set = web(1).set("/spec/progressDeadlineSeconds", 2);
    let set = set.pod(|pod| pod.script("pull-error", "nginx:bad").image("nginx:bad"));
    stage.create(set).await;
    stage
        .condition_is("web", "Progressing", reason("CloneSetUpdated"))
        .await;
    let late = stage.condition("web", "Progressing", "False").await;
    assert_eq!(late["reason"], "ProgressDeadlineExceeded");
    stage.patch("web", to_image("nginx:good")).await;
    let done = stage
        .condition_is("web", "Progressing", reason("CloneSetAvailable"))
        .await;
    assert_eq!(done["status"], "True");
    // Whoever wants no deadline gets no condition.
    stage
        .patch("web", json!({"spec": {"progressDeadlineSeconds": null}}))
        .await;
    stage.condition_is("web", "Progressing", Value::is_null).await;
}

async fn given_a_deadline_then_pause_and_partition_stop_the_clock(stage: Arc<Stage>) {
    let set = web_in_place(2).set("/spec/progressDeadlineSeconds", 600);
    stage
        .settled(set.set("/spec/updateStrategy/rollingUpdate/partition", 1))
        .await;
    stage
        .condition_is("web", "Progressing", reason("CloneSetAvailable"))
        .await;
    stage.patch("web", to_image("nginx:2")).await;
    stage
        .condition_is("web", "Progressing", reason("ProgressPartitionAvailable"))
        .await;
    stage.patch("web", rolling("paused", true)).await;
    stage.condition_is("web", "Progressing", reason("CloneSetPaused")).await;
    let go = json!({"paused": false, "partition": 0});
    stage
        .patch("web", json!({"spec": {"updateStrategy": {"rollingUpdate": go}}}))
        .await;
    stage
        .condition_is("web", "Progressing", reason("CloneSetAvailable"))
        .await;
}
