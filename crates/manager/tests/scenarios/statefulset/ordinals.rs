//! Which Pods there are, and in which order they come and go.

use std::sync::Arc;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kruise_testkit::{
    builders::Fixture as _,
    eventually::{NotYet, eventually},
};
use kube::{ResourceExt as _, api::PostParams};
use serde_json::json;

use super::{PATIENCE, Scenario, Stage, kubectl, ordinals, parallel, scenarios, web};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_ordered_ready_then_pods_come_one_after_another_and_go_from_the_top,
        given_a_scale_limit_then_no_more_are_unavailable,
        given_reserved_ordinals_then_others_take_their_place,
        given_kubectl_scale_then_replicas_follow,
        given_an_autoscaler_then_it_scales_and_finds_the_pods,
        given_a_failed_pod_then_it_is_replaced_under_its_name,
        given_a_start_then_ordinals_begin_there_and_move_with_it,
        given_an_orphan_of_a_wanted_name_then_it_is_adopted,
        given_somebody_elses_pod_then_the_others_come_and_it_is_told,
        given_a_pod_then_it_has_the_identity_of_its_ordinal,
    ]
}

async fn given_ordered_ready_then_pods_come_one_after_another_and_go_from_the_top(stage: Arc<Stage>) {
    stage
        .create(web(3).pod(|pod| pod.annotation("sim.kruise.test/never-ready", "true")))
        .await;
    stage
        .until("web", "the first is there", |pods| ordinals(pods) == [0])
        .await;
    stage.why("web", "inOrder").await;
    for ordinal in 0..3 {
        let name = format!("web-{ordinal}");
        stage
            .until("web", "the next is there", |pods| pods.len() == ordinal + 1)
            .await;
        stage.script_pod(&name, "never-ready", None).await;
    }
    stage
        .status("web", json!({"replicas": 3, "availableReplicas": 3}))
        .await;
    stage.patch("web", json!({"spec": {"replicas": 1}})).await;
    stage.gone("web-2").await;
    stage.gone("web-1").await;
    let pods = stage.pods("web").await;
    assert_eq!(ordinals(&pods), [0]);
}

async fn given_a_scale_limit_then_no_more_are_unavailable(stage: Arc<Stage>) {
    let set = parallel(5)
        .set("/spec/scaleStrategy/maxUnavailable", 2)
        .pod(|pod| pod.annotation("sim.kruise.test/never-ready", "true"));
    stage.create(set).await;
    stage.until("web", "two are there", |pods| pods.len() == 2).await;
    stage.why("web", "scaleUpLimited").await;
    stage.script_pod("web-1", "never-ready", None).await;
    let pods = stage.until("web", "one more", |pods| pods.len() == 3).await;
    assert_eq!(ordinals(&pods), [0, 1, 2]);
}

async fn given_reserved_ordinals_then_others_take_their_place(stage: Arc<Stage>) {
    stage.settled(parallel(3)).await;
    stage.patch("web", json!({"spec": {"reserveOrdinals": [1]}})).await;
    stage
        .until("web", "1 is left out", |pods| ordinals(pods) == [0, 2, 3])
        .await;
    stage.patch("web", json!({"spec": {"replicas": 2}})).await;
    stage
        .until("web", "only two are left", |pods| ordinals(pods) == [0, 2])
        .await;
    stage
        .patch("web", json!({"spec": {"replicas": 4, "reserveOrdinals": [1, "3-5"]}}))
        .await;
    stage
        .until("web", "a range is left out", |pods| ordinals(pods) == [0, 2, 6, 7])
        .await;
}

async fn given_kubectl_scale_then_replicas_follow(stage: Arc<Stage>) {
    stage.settled(parallel(1)).await;
    let set = "statefulsets.apps.kruise.io/web";
    kubectl(&stage, &["scale", set, "--replicas=3"]).await;
    stage.status("web", json!({"availableReplicas": 3})).await;
    let refused = kubectl(&stage, &["scale", set, "--current-replicas=1", "--replicas=5"]).await;
    assert!(refused.contains("Expected replicas to be 1, was 3"), "{refused}");
    let scale = stage.subjects.get_scale("web").await.unwrap();
    let (spec, status) = (scale.spec.unwrap(), scale.status.unwrap());
    assert_eq!((spec.replicas, status.replicas), (Some(3), 3));
    assert_eq!(status.selector.as_deref(), Some("app=web"));
}

/// There are no metrics here. An autoscaler brings a target within its limits without them, and reads the selector before it asks for them.
async fn given_an_autoscaler_then_it_scales_and_finds_the_pods(stage: Arc<Stage>) {
    stage.settled(parallel(1)).await;
    let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}});
    let autoscaler = json!({"metadata": {"name": "web"}, "spec": {
        "minReplicas": 2, "maxReplicas": 3, "metrics": [{"type": "Resource", "resource": cpu}],
        "scaleTargetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web"},
    }});
    let autoscalers = stage.api::<HorizontalPodAutoscaler>();
    let autoscaler = serde_json::from_value(autoscaler).unwrap();
    autoscalers.create(&PostParams::default(), &autoscaler).await.unwrap();
    stage.status("web", json!({"availableReplicas": 2})).await;
    eventually(PATIENCE, "it knows how to find the Pods", || async {
        let status = json!(autoscalers.get("web").await?.status);
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let mut reasons = conditions.filter_map(|condition| condition["reason"].as_str());
        let is_found = reasons.any(|reason| reason == "FailedGetResourceMetric");
        (is_found && status["currentReplicas"] == 2)
            .then_some(())
            .ok_or_else(|| NotYet::new(format!("{status:#}")))
    })
    .await;
}

async fn given_a_failed_pod_then_it_is_replaced_under_its_name(stage: Arc<Stage>) {
    for set in [web(2), parallel(2).set("/metadata/name", "other")] {
        let name = set.clone().json()["metadata"]["name"].as_str().unwrap().to_owned();
        let labels = json!({"app": name});
        let set = set
            .set("/spec/selector/matchLabels", &labels)
            .set("/spec/template/metadata/labels", &labels)
            .set("/spec/scaleStrategy/maxUnavailable", 1);
        let before = stage.settled(set).await;
        let pod = format!("{name}-1");
        stage.script_pod(&pod, "phase", Some("Failed")).await;
        let old = before[&pod].uid();
        stage
            .until(&name, "another one is there", |pods| {
                pods.get(&pod).is_some_and(|pod| pod.uid() != old)
            })
            .await;
        stage.status(&name, json!({"availableReplicas": 2})).await;
    }
}

async fn given_a_start_then_ordinals_begin_there_and_move_with_it(stage: Arc<Stage>) {
    let before = stage.settled(parallel(2).set("/spec/ordinals/start", 5)).await;
    assert_eq!(ordinals(&before), [5, 6]);
    stage.patch("web", json!({"spec": {"ordinals": {"start": 6}}})).await;
    let after = stage
        .until("web", "they have moved", |pods| ordinals(pods) == [6, 7])
        .await;
    assert_eq!(after["web-6"].uid(), before["web-6"].uid());
    stage.status("web", json!({"availableReplicas": 2})).await;
}

async fn given_an_orphan_of_a_wanted_name_then_it_is_adopted(stage: Arc<Stage>) {
    let orphan = kruise_testkit::builders::pod("web-0")
        .label("app", "web")
        .readiness_gate("InPlaceUpdateReady")
        .build();
    stage.pods.create(&PostParams::default(), &orphan).await.unwrap();
    stage.create(parallel(2)).await;
    let pod = stage
        .until_pod("web-0", "it is adopted", |pod| !pod.owner_references().is_empty())
        .await;
    assert_eq!(pod.owner_references()[0].kind, "StatefulSet");
    stage
        .until("web", "the other one is made", |pods| ordinals(pods) == [0, 1])
        .await;
}

async fn given_somebody_elses_pod_then_the_others_come_and_it_is_told(stage: Arc<Stage>) {
    let foreign = kruise_testkit::builders::pod("web-1").label("app", "other").build();
    stage.pods.create(&PostParams::default(), &foreign).await.unwrap();
    stage.create(parallel(3)).await;
    stage
        .until("web", "the others are there", |pods| ordinals(pods) == [0, 2])
        .await;
    stage.condition("web", "FailedCreatePod", "True").await;
    stage.event("web", "FailedCreate", "web-1").await;
    stage.why("web", "namesOfOthers").await;
    stage.delete_pod("web-1").await;
    stage.status("web", json!({"availableReplicas": 3})).await;
    stage
        .condition_is("web", "FailedCreatePod", serde_json::Value::is_null)
        .await;
}

async fn given_a_pod_then_it_has_the_identity_of_its_ordinal(stage: Arc<Stage>) {
    let pods = stage.settled(web(1)).await;
    let pod = &pods["web-0"];
    let spec = pod.spec.as_ref().unwrap();
    assert_eq!(
        (spec.hostname.as_deref(), spec.subdomain.as_deref()),
        (Some("web-0"), Some("web"))
    );
    assert_eq!(pod.labels()["statefulset.kubernetes.io/pod-name"], "web-0");
    assert_eq!(pod.labels()["apps.kubernetes.io/pod-index"], "0");
    let set = stage.subjects.get("web").await.unwrap();
    assert_eq!(
        pod.labels()["controller-revision-hash"],
        set.data["status"]["updateRevision"].as_str().unwrap()
    );
    stage
        .event(
            "web",
            "SuccessfulCreate",
            "create Pod web-0 in StatefulSet web successful",
        )
        .await;
}
