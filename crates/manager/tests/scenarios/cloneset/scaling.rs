//! How many Pods there are, and which go first.

use std::sync::Arc;

use kruise_testkit::{
    builders::{Fixture as _, PodBuilder},
    eventually::eventually,
};
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{Scenario, Stage, is, names, scenarios, to_image, uids, web};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_names_and_fewer_replicas_then_exactly_those_go,
        given_a_named_pod_and_the_same_replicas_then_it_is_replaced,
        given_a_named_pod_and_surge_then_its_successor_comes_first,
        given_deletion_costs_then_the_cheapest_goes_but_unready_ones_before,
        given_a_crowded_zone_then_it_loses_pods_first,
        given_a_limit_of_unavailable_pods_then_scaling_out_stops_there,
        given_a_pod_that_leaves_the_selector_then_it_lives_on_alone,
        given_a_failed_pod_then_it_is_replaced_and_stays,
        given_a_call_to_the_scale_subresource_then_it_scales,
        given_a_quota_without_room_for_surge_then_the_pods_there_are_updated,
    ]
}

async fn given_names_and_fewer_replicas_then_exactly_those_go(stage: Arc<Stage>) {
    let before = names(&stage.settled(web(3)).await);
    let chosen = before.iter().nth(1).unwrap();
    let change = json!({"replicas": 2, "scaleStrategy": {"podsToDelete": [chosen, "never-was"]}});
    stage.patch("web", json!({"spec": change})).await;
    let after = stage
        .until("web", "two are left", |pods| {
            pods.len() == 2 && !pods.contains_key(chosen)
        })
        .await;
    assert!(names(&after).is_subset(&before));
    stage
        .status("web", json!({"replicas": 2, "availableReplicas": 2}))
        .await;
    eventually(super::PATIENCE, "the list is empty", || async {
        let set = stage.subjects.get("web").await?;
        let listed = &set.data["spec"]["scaleStrategy"]["podsToDelete"];
        if listed.is_null() {
            Ok(())
        } else {
            Err(listed.clone().into())
        }
    })
    .await;
    assert_eq!(stage.pods("web").await.len(), 2);
    stage
        .event("web", "SuccessfulDelete", &format!("succeed to delete pod {chosen}"))
        .await;
}

/// Whatever the label says.
async fn given_a_named_pod_and_the_same_replicas_then_it_is_replaced(stage: Arc<Stage>) {
    let before = names(&stage.settled(web(2)).await);
    let chosen = before.first().unwrap();
    stage
        .label_pod(chosen, "apps.kruise.io/specified-delete", Some("false"))
        .await;
    stage.gone(chosen).await;
    stage
        .status("web", json!({"replicas": 2, "availableReplicas": 2}))
        .await;
    let after = names(&stage.pods("web").await);
    assert_eq!(after.intersection(&before).count(), 1);
}

async fn given_a_named_pod_and_surge_then_its_successor_comes_first(stage: Arc<Stage>) {
    let rolling = json!({"maxUnavailable": 0, "maxSurge": 1});
    let set = web(2).set("/spec/updateStrategy/rollingUpdate", rolling);
    // Not ready until we say so, so that the moment in between can be seen.
    let before = stage.settled(set.pod(|pod| pod.script("ready-delay", "2s"))).await;
    let chosen = before.keys().next().unwrap();
    stage
        .label_pod(chosen, "apps.kruise.io/specified-delete", Some("true"))
        .await;
    let during = stage.until("web", "there is one more", |pods| pods.len() == 3).await;
    assert!(during.contains_key(chosen));
    stage.gone(chosen).await;
    stage
        .status("web", json!({"replicas": 2, "availableReplicas": 2}))
        .await;
    let after = names(&stage.pods("web").await);
    assert!(after.is_subset(&names(&during)), "{after:?}");
}

async fn given_deletion_costs_then_the_cheapest_goes_but_unready_ones_before(stage: Arc<Stage>) {
    let before: Vec<String> = stage.settled(web(4)).await.into_keys().collect();
    let cost = |cost: &str| json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}}});
    stage.patch_pod(&before[0], cost("10")).await;
    stage.patch_pod(&before[1], cost("-10")).await;
    stage.patch_pod(&before[2], cost("100")).await;
    stage.script_pod(&before[2], "never-ready", Some("true")).await;
    stage.script_pod(&before[2], "restart", Some("now")).await;
    stage.status("web", json!({"replicas": 4, "readyReplicas": 3})).await;

    stage.patch("web", json!({"spec": {"replicas": 3}})).await;
    stage.gone(&before[2]).await;
    stage.patch("web", json!({"spec": {"replicas": 2}})).await;
    stage.gone(&before[1]).await;
    stage
        .status("web", json!({"replicas": 2, "availableReplicas": 2}))
        .await;
    assert_eq!(
        names(&stage.pods("web").await),
        [&before[0], &before[3]].map(Clone::clone).into()
    );
}

async fn given_a_crowded_zone_then_it_loses_pods_first(stage: Arc<Stage>) {
    let spread = json!([{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}}}]);
    let by_hand = |pod: PodBuilder| {
        pod.set("/spec/schedulerName", "by-hand")
            .set("/spec/topologySpreadConstraints", spread)
    };
    stage.create(web(4).pod(by_hand)).await;
    let pods = stage.until("web", "there are four", |pods| pods.len() == 4).await;
    // One in zone b, and three on two nodes of zone a.
    let nodes = [1, 0, 2, 0];
    for (pod, node) in pods.keys().zip(nodes) {
        let target = json!({"kind": "Node", "name": stage.node(node)});
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target});
        let params = PostParams::default();
        let _: Value = stage
            .pods
            .create_subresource("binding", pod, &params, &binding)
            .await
            .unwrap();
    }
    stage.status("web", json!({"availableReplicas": 4})).await;
    stage.patch("web", json!({"spec": {"replicas": 2}})).await;
    stage
        .status("web", json!({"replicas": 2, "availableReplicas": 2}))
        .await;
    let left = stage.pods("web").await;
    assert!(left.contains_key(pods.keys().next().unwrap()), "{:?}", names(&left));
}

async fn given_a_limit_of_unavailable_pods_then_scaling_out_stops_there(stage: Arc<Stage>) {
    let set = web(0).set("/spec/scaleStrategy/maxUnavailable", 2);
    let set = set.pod(|pod| pod.script("never-ready", "true"));
    stage.create(set).await;
    stage.status("web", json!({"replicas": 0})).await;
    stage.patch("web", json!({"spec": {"replicas": 10}})).await;
    stage.status("web", json!({"replicas": 2, "readyReplicas": 0})).await;
    stage.event("web", "ScaleUpLimited", "").await;
    let why = stage.why("web", "scaleUpLimited").await;
    assert_eq!((&why["missing"], &why["limit"]), (&json!(8), &json!(0)));
    let two = stage.pods("web").await;
    assert_eq!(two.len(), 2);
    // As soon as one is available, one more comes.
    stage.script_pod(two.keys().next().unwrap(), "never-ready", None).await;
    stage
        .status("web", json!({"replicas": 3, "availableReplicas": 1}))
        .await;
}

async fn given_a_pod_that_leaves_the_selector_then_it_lives_on_alone(stage: Arc<Stage>) {
    let before = stage.settled(web(2)).await;
    let chosen = before.keys().next().unwrap();
    stage.label_pod(chosen, "app", Some("other")).await;
    let alone = stage
        .until_pod(chosen, "it has no owner", |pod| pod.owner_references().is_empty())
        .await;
    assert_eq!(alone.uid(), before[chosen].uid());
    stage.until("web", "there are two again", |pods| pods.len() == 2).await;
    stage
        .status("web", json!({"replicas": 2, "availableReplicas": 2}))
        .await;
    // Coming back does not help: Pods without an owner are not taken.
    stage.label_pod(chosen, "app", Some("web")).await;
    stage.patch("web", json!({"spec": {"replicas": 3}})).await;
    stage
        .status("web", json!({"replicas": 3, "availableReplicas": 3}))
        .await;
    assert!(stage.pods.get(chosen).await.unwrap().owner_references().is_empty());
}

async fn given_a_failed_pod_then_it_is_replaced_and_stays(stage: Arc<Stage>) {
    let before = stage.settled(web(2)).await;
    let chosen = before.keys().next().unwrap();
    stage.script_pod(chosen, "phase", Some("Failed")).await;
    stage.until("web", "there is another", |pods| pods.len() == 3).await;
    stage
        .status("web", json!({"replicas": 2, "availableReplicas": 2}))
        .await;
    stage
        .until_pod(chosen, "it has failed", |pod| json!(pod.status)["phase"] == "Failed")
        .await;
}

/// As an autoscaler does.
async fn given_a_call_to_the_scale_subresource_then_it_scales(stage: Arc<Stage>) {
    stage.settled(web(1)).await;
    let scale = stage.subjects.get_scale("web").await.unwrap();
    let status = json!(scale.status);
    assert_eq!(
        (&status["replicas"], &status["selector"]),
        (&json!(1), &json!("app=web"))
    );
    let patch = Patch::Merge(json!({"spec": {"replicas": 3}}));
    stage
        .subjects
        .patch_scale("web", &PatchParams::default(), &patch)
        .await
        .unwrap();
    stage
        .status(
            "web",
            json!({"replicas": 3, "availableReplicas": 3, "labelSelector": "app=web"}),
        )
        .await;
}

/// What cannot be created holds up neither the update nor, once there is room, itself.
async fn given_a_quota_without_room_for_surge_then_the_pods_there_are_updated(stage: Arc<Stage>) {
    let rolling = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1, "maxSurge": 1});
    let before = stage
        .settled(web(3).set("/spec/updateStrategy/rollingUpdate", rolling))
        .await;
    stage.set_quota(3).await;

    let history = stage.pod_history("web").await;
    stage.patch("web", to_image("nginx:2")).await;
    stage
        .status("web", json!({"replicas": 3, "updatedAvailableReplicas": 3}))
        .await;
    assert_eq!(uids(&stage.pods("web").await), uids(&before));
    for pods in history.end().await {
        let ready = pods.values().filter(|pod| is(pod, "Ready")).count();
        assert!(pods.len() == 3 && ready >= 2, "{:?}", names(&pods));
    }
    let failed = stage.condition("web", "FailedScale", "True").await;
    assert!(failed["message"].to_string().contains("exceeded quota"), "{failed}");

    stage.patch("web", json!({"spec": {"replicas": 4}})).await;
    stage.event("web", "FailedCreate", "exceeded quota").await;
    stage.lift_quota().await;
    stage
        .status("web", json!({"replicas": 4, "availableReplicas": 4}))
        .await;
}
