//! Other resources for a running Pod, with the gate `InPlaceWorkloadVerticalScaling`.

use std::sync::Arc;

use kruise_testkit::{
    builders::{Fixture as _, Workload},
    features::{Feature, lacks},
};
use serde_json::{Value, json};

use super::{Scenario, Stage, is, scenarios, state, uids, web_in_place};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_more_cpu_then_the_pod_stays_ready_and_counts_as_updating_until_it_has_it,
        given_a_limit_where_there_was_none_then_the_pod_is_made_anew,
        given_another_quality_of_service_then_the_pod_is_made_anew,
    ]
}

fn with(resources: Value) -> Workload {
    web_in_place(1).pod(|pod| pod.set("/spec/containers/0/resources", resources))
}

fn to(resources: &Value) -> Value {
    let container = json!({"name": "main", "image": "nginx:1", "resources": resources});
    json!({"spec": {"template": {"spec": {"containers": [container]}}}})
}

async fn given_more_cpu_then_the_pod_stays_ready_and_counts_as_updating_until_it_has_it(stage: Arc<Stage>) {
    if lacks(Feature::Resize) {
        return;
    }
    let set = with(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}}));
    let before = stage.settled(set.pod(|pod| pod.script("resize-delay", "1s"))).await;
    let history = stage.pod_history("web").await;
    stage
        .patch("web", to(&json!({"limits": {"cpu": "2"}, "requests": {"cpu": "500m"}})))
        .await;
    stage
        .until("web", "it is being updated", |pods| {
            pods.values().all(|pod| state(pod) == "Updating")
        })
        .await;
    stage
        .status("web", json!({"updatedReplicas": 1, "updatedAvailableReplicas": 1}))
        .await;
    let after = stage.pods("web").await;
    assert_eq!(uids(&after), uids(&before));
    let pod = after.values().next().unwrap();
    let status = json!(pod.status)["containerStatuses"][0].clone();
    assert_eq!(
        (&status["resources"]["limits"]["cpu"], &status["restartCount"]),
        (&json!("2"), &json!(0))
    );
    for pods in history.end().await {
        assert!(
            pods.values()
                .all(|pod| is(pod, "Ready") && is(pod, "InPlaceUpdateReady"))
        );
    }
}

async fn made_anew(stage: &Stage, before: Value, after: &Value) {
    let old = stage.settled(with(before)).await;
    stage.patch("web", to(after)).await;
    stage
        .status("web", json!({"replicas": 1, "updatedAvailableReplicas": 1}))
        .await;
    assert!(uids(&old).is_disjoint(&uids(&stage.pods("web").await)));
}

async fn given_a_limit_where_there_was_none_then_the_pod_is_made_anew(stage: Arc<Stage>) {
    let requests = json!({"cpu": "100m"});
    let after = json!({"limits": {"cpu": "1"}, "requests": requests});
    made_anew(&stage, json!({"requests": requests}), &after).await;
}

async fn given_another_quality_of_service_then_the_pod_is_made_anew(stage: Arc<Stage>) {
    let resources =
        |request: &str| json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": request, "memory": "1Gi"}});
    made_anew(&stage, resources("1"), &resources("500m")).await;
}
