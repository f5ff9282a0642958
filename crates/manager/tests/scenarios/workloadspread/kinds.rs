//! Workloads of other kinds than CloneSets.

use super::*;
use k8s_openapi::api::{
    apps::v1::{ReplicaSet, StatefulSet},
    batch::v1::Job,
};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_stateful_set_then_its_pods_go_by_their_ordinals,
        given_a_job_then_its_pods_are_spread,
        given_a_replica_set_then_its_pods_are_spread,
        given_a_filter_then_only_pods_with_the_labels_are_spread,
        given_both_versions_then_they_say_the_same,
    ]
}

async fn given_a_stateful_set_then_its_pods_go_by_their_ordinals(stage: Arc<Stage>) {
    let subsets = json!([
        zone("a", "a", json!({"maxReplicas": 2})),
        zone("b", "b", json!({"maxReplicas": 2})),
        zone("c", "a", json!({}))
    ]);
    spread(&stage, "StatefulSet", subsets).await;
    let sets: Api<StatefulSet> = stage.api();
    let set = json!({"metadata": {"name": "web"}, "spec": {"replicas": 5, "serviceName": "web", "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": "web"}}, "template": template()}});
    let set: StatefulSet = serde_json::from_value(set).unwrap();
    sets.create(&PostParams::default(), &set).await.unwrap();
    let expected = || {
        let subsets = ["a", "a", "b", "b", "c"].into_iter().enumerate();
        subsets
            .map(|(ordinal, subset)| (format!("web-{ordinal}"), subset.to_owned()))
            .collect::<BTreeMap<_, _>>()
    };
    let are_there = move |pods: &BTreeMap<String, Pod>| {
        let found: BTreeMap<_, _> = pods.iter().map(|(name, pod)| (name.clone(), subset_of(pod))).collect();
        found == expected()
    };
    let pods = stage.until("web", "each is in its subset", are_there).await;
    let old = pods["web-1"].uid();
    stage.delete_pod("web-1").await;
    stage
        .until("web", "another is in the same subset", move |pods| {
            are_there(pods) && pods["web-1"].uid() != old
        })
        .await;
}

async fn given_a_job_then_its_pods_are_spread(stage: Arc<Stage>) {
    spread(&stage, "Job", two_zones(json!("34%"))).await;
    let jobs: Api<Job> = stage.api();
    let mut template = template();
    template["spec"]["restartPolicy"] = json!("Never");
    let job = json!({"metadata": {"name": "web"}, "spec": {"parallelism": 3, "completions": 9, "template": template}});
    let job: Job = serde_json::from_value(job).unwrap();
    jobs.create(&PostParams::default(), &job).await.unwrap();
    let pods = spread_like(&stage, &[("a", 2), ("b", 1)]).await;
    assert!(pods.values().all(|pod| cost(pod).is_none()));
}

async fn given_a_replica_set_then_its_pods_are_spread(stage: Arc<Stage>) {
    spread(&stage, "ReplicaSet", two_zones(json!(1))).await;
    let sets: Api<ReplicaSet> = stage.api();
    let set = json!({"metadata": {"name": "web"}, "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template()}});
    let set: ReplicaSet = serde_json::from_value(set).unwrap();
    sets.create(&PostParams::default(), &set).await.unwrap();
    spread_like(&stage, &[("a", 1), ("b", 2)]).await;
    merge(&sets, "web", json!({"spec": {"replicas": 1}})).await;
    stage.until("web", "one is left", |pods| pods.len() == 1).await;
}

async fn given_a_filter_then_only_pods_with_the_labels_are_spread(stage: Arc<Stage>) {
    stage.create(cloneset("web").replicas(0)).await;
    for (selector, expected) in [(json!({"app": "other"}), ("", 1)), (json!({"app": "web"}), ("a", 1))] {
        let target = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"});
        let spec = json!({"targetRef": target, "targetFilter": {"selector": {"matchLabels": selector}}, "subsets": two_zones(json!(1))});
        try_spread(&stage, "spread", spec).await.unwrap();
        seen(&stage).await;
        stage.patch("web", json!({"spec": {"replicas": 1}})).await;
        spread_like(&stage, &[expected]).await;
        stage.patch("web", json!({"spec": {"replicas": 0}})).await;
        stage.until("web", "none is left", BTreeMap::is_empty).await;
        spreads(&stage)
            .delete("spread", &DeleteParams::default())
            .await
            .unwrap();
    }
}

async fn given_both_versions_then_they_say_the_same(stage: Arc<Stage>) {
    let old = stage.objects("v1alpha1", "WorkloadSpread");
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let term = json!({"matchExpressions": [{"key": "pool", "operator": "Exists"}]});
    let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "WorkloadSpread", "metadata": {"name": "spread"},
        "spec": {"targetRef": target, "subsets": [{"name": "a", "requiredNodeSelectorTerm": term}]}});
    let object = serde_json::from_value(object).unwrap();
    old.create(&PostParams::default(), &object).await.unwrap();
    let read = spreads(&stage).get("spread").await.unwrap();
    let subset = json!(read.spec.subsets[0]);
    assert_eq!(subset["requiredNodeSelector"], term);
}
