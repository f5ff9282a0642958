//! WorkloadSpreads: where Pods go, who goes first, and what the status says.

mod adaptive;
mod kinds;
mod listed;
mod recorded;
mod rules;
mod storm;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kruise_api::workloadspread::v1beta1::WorkloadSpread;
use kruise_testkit::{
    builders::cloneset,
    eventually::{NotYet, eventually},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

use crate::cluster::scenario::{PATIENCE, Scenario, Stage, scenarios};

pub(crate) fn all() -> Vec<Scenario> {
    let mut all = scenarios![
        given_two_subsets_then_the_first_is_filled_and_scaling_in_empties_the_last,
        given_a_rollout_then_the_new_pods_are_in_the_first_subset_again,
        given_pods_that_were_there_before_then_they_are_assigned_by_their_nodes,
        given_pods_that_are_to_be_left_alone_then_they_get_no_labels_of_the_patch,
        given_a_pod_that_is_refused_later_then_its_place_is_free_again,
        given_a_deletion_that_never_happens_then_its_place_is_taken_again,
        given_shares_then_they_are_rounded_up,
        given_a_priority_class_in_a_patch_then_the_pod_has_its_number,
        given_a_subset_that_is_removed_then_its_pods_stay_and_go_first,
        given_a_dry_run_then_nothing_is_written_down,
        given_an_eviction_then_the_pod_in_its_place_lands_in_the_same_subset,
        given_a_limit_that_is_lowered_then_those_too_many_go_first,
    ];
    all.extend(adaptive::all());
    all.extend(kinds::all());
    all.extend(listed::all());
    all.extend(recorded::all());
    all.extend(rules::all());
    all.extend(storm::all());
    all
}

fn spreads(stage: &Stage) -> Api<WorkloadSpread> {
    stage.api()
}

/// A subset of nodes in a zone.
#[expect(clippy::needless_pass_by_value, reason = "as `json!` gives it")]
fn zone(name: &str, zone: &str, more: Value) -> Value {
    let term =
        json!({"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]});
    let mut subset = json!({"name": name, "requiredNodeSelector": term});
    for (key, value) in more.as_object().unwrap() {
        subset[key] = value.clone();
    }
    subset
}

/// `a` with room for so many, and `b` for the rest.
#[expect(clippy::needless_pass_by_value, reason = "as `json!` gives it")]
fn two_zones(most: Value) -> Value {
    json!([zone("a", "a", json!({"maxReplicas": most})), zone("b", "b", json!({}))])
}

async fn try_spread(stage: &Stage, name: &str, spec: Value) -> kube::Result<WorkloadSpread> {
    let spread = json!({"metadata": {"name": name}, "spec": spec});
    let spread: WorkloadSpread = serde_json::from_value(spread).unwrap();
    spreads(stage).create(&PostParams::default(), &spread).await
}

/// A spread over a workload called `web`, once its status says so.
async fn spread(stage: &Stage, kind: &str, subsets: Value) {
    spread_by(stage, kind, subsets, json!({})).await;
}

async fn spread_by(stage: &Stage, kind: &str, subsets: Value, strategy: Value) {
    let api_version = match kind {
        "CloneSet" => "apps.kruise.io/v1alpha1",
        "Job" => "batch/v1",
        _ => "apps/v1",
    };
    let target = json!({"apiVersion": api_version, "kind": kind, "name": "web"});
    let spec = json!({"targetRef": target, "subsets": subsets, "scheduleStrategy": strategy});
    try_spread(stage, "spread", spec).await.unwrap();
    seen(stage).await;
}

/// Waits until the latest spec has been looked at.
async fn seen(stage: &Stage) {
    until_status(stage, "the spread is looked at", |_| true).await;
}

/// Waits until the status of the latest spec is as wanted.
async fn until_status(stage: &Stage, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    eventually(PATIENCE, what, || async {
        let spread = spreads(stage).get("spread").await?;
        let status = json!(spread.status);
        let is_seen = status["observedGeneration"].as_i64() == spread.metadata.generation;
        if is_seen && wanted(&status) {
            Ok(status)
        } else {
            Err(NotYet::new(format!("{status:#}")))
        }
    })
    .await
}

fn subset_of(pod: &Pod) -> String {
    let text = pod.annotations().get("apps.kruise.io/matched-workloadspread");
    let matched: Value = text.map(|text| serde_json::from_str(text).unwrap()).unwrap_or_default();
    matched["subset"].as_str().unwrap_or_default().to_owned()
}

fn cost(pod: &Pod) -> Option<i64> {
    pod.annotations()
        .get("controller.kubernetes.io/pod-deletion-cost")?
        .parse()
        .ok()
}

/// How many Pods each subset has.
fn counts<'p>(pods: impl IntoIterator<Item = &'p Pod>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for pod in pods {
        *counts.entry(subset_of(pod)).or_default() += 1;
    }
    counts
}

fn of(counts: &[(&str, usize)]) -> BTreeMap<String, usize> {
    counts
        .iter()
        .map(|(subset, count)| ((*subset).to_owned(), *count))
        .collect()
}

/// Waits until the living Pods of `web` are spread like this.
async fn spread_like(stage: &Stage, expected: &[(&str, usize)]) -> BTreeMap<String, Pod> {
    let expected = of(expected);
    stage
        .until("web", "the Pods are spread", move |pods| {
            counts(pods.values()) == expected
        })
        .await
}

/// Waits until every living Pod of `web` costs what its subset says.
async fn costing(stage: &Stage, costs: &[(&str, i64)]) -> BTreeMap<String, Pod> {
    let costs: BTreeMap<String, i64> = costs
        .iter()
        .map(|(subset, cost)| ((*subset).to_owned(), *cost))
        .collect();
    stage
        .until("web", "the Pods cost what they should", move |pods| {
            pods.values()
                .all(|pod| cost(pod).is_some() && cost(pod) == costs.get(&subset_of(pod)).copied())
        })
        .await
}

pub(super) fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "nginx:1"}]}})
}

async fn deployment(stage: &Stage, replicas: i32) -> Api<Deployment> {
    let deployments: Api<Deployment> = stage.api();
    let deployment = json!({"metadata": {"name": "web"}, "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template()}});
    let deployment: Deployment = serde_json::from_value(deployment).unwrap();
    deployments.create(&PostParams::default(), &deployment).await.unwrap();
    deployments
}

async fn merge<K>(api: &Api<K>, name: &str, patch: Value)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

async fn given_two_subsets_then_the_first_is_filled_and_scaling_in_empties_the_last(stage: Arc<Stage>) {
    stage.create(cloneset("web").replicas(0)).await;
    spread(&stage, "CloneSet", two_zones(json!(2))).await;
    stage.patch("web", json!({"spec": {"replicas": 5}})).await;
    let pods = spread_like(&stage, &[("a", 2), ("b", 3)]).await;
    for pod in pods.values() {
        let affinity = json!(pod.spec.as_ref().unwrap().affinity);
        let terms = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
        assert_eq!(
            terms[0]["matchExpressions"][0]["values"],
            json!([subset_of(pod)]),
            "{affinity}"
        );
    }
    costing(&stage, &[("a", 200), ("b", 100)]).await;
    stage.patch("web", json!({"spec": {"replicas": 2}})).await;
    spread_like(&stage, &[("a", 2)]).await;
    let status = until_status(&stage, "all is counted", |status| {
        status["subsetStatuses"][1]["replicas"] == 0
    })
    .await;
    assert_eq!(
        status["subsetStatuses"],
        json!([
        {"name": "a", "replicas": 2, "missingReplicas": 0}, {"name": "b", "replicas": 0, "missingReplicas": -1}])
    );
}

async fn given_a_rollout_then_the_new_pods_are_in_the_first_subset_again(stage: Arc<Stage>) {
    let deployments = deployment(&stage, 0).await;
    spread(&stage, "Deployment", two_zones(json!(3))).await;
    merge(&deployments, "web", json!({"spec": {"replicas": 5}})).await;
    spread_like(&stage, &[("a", 3), ("b", 2)]).await;
    costing(&stage, &[("a", 200), ("b", 100)]).await;
    let image = json!([{"name": "main", "image": "nginx:2"}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": image}}}});
    deployments
        .patch("web", &PatchParams::default(), &Patch::Strategic(patch))
        .await
        .unwrap();
    stage
        .until("web", "all Pods are new, and three in a", |pods| {
            let is_new = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some("nginx:2");
            pods.values().all(is_new) && counts(pods.values()) == of(&[("a", 3), ("b", 2)])
        })
        .await;
    costing(&stage, &[("a", 200), ("b", 100)]).await;
    let versions = |status: &Value| {
        status["versionedSubsetStatuses"]
            .as_object()
            .map_or(0, serde_json::Map::len)
    };
    until_status(&stage, "the old version is forgotten", |status| versions(status) == 1).await;
}

async fn given_pods_that_were_there_before_then_they_are_assigned_by_their_nodes(stage: Arc<Stage>) {
    let pods = stage.settled(cloneset("web").replicas(6)).await;
    let in_a: Vec<_> = [0, 2].into_iter().map(|number| stage.node(number)).collect();
    let on_a = |pod: &Pod| {
        pod.spec
            .as_ref()
            .unwrap()
            .node_name
            .as_ref()
            .is_some_and(|node| in_a.contains(node))
    };
    let (first, second) = (
        pods.values().filter(|pod| on_a(pod)).count(),
        pods.values().filter(|pod| !on_a(pod)).count(),
    );
    spread(
        &stage,
        "CloneSet",
        json!([
            zone("a", "a", json!({"patch": {"metadata": {"labels": {"tier": "a"}}}})),
            zone("b", "b", json!({}))
        ]),
    )
    .await;
    let expected: Vec<_> = [("a", first), ("b", second)]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .collect();
    let pods = spread_like(&stage, &expected).await;
    assert!(pods.values().all(|pod| on_a(pod) == (subset_of(pod) == "a")));
    assert!(
        pods.values()
            .all(|pod| on_a(pod) == (pod.labels().get("tier").map(String::as_str) == Some("a")))
    );
    costing(&stage, &[("a", 200), ("b", 100)]).await;
}

async fn given_pods_that_are_to_be_left_alone_then_they_get_no_labels_of_the_patch(stage: Arc<Stage>) {
    stage.settled(cloneset("web").replicas(2)).await;
    let patch = json!({"patch": {"metadata": {"labels": {"tier": "x"}}}});
    let spec = json!({"targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"},
        "subsets": [zone("a", "a", patch.clone()), zone("b", "b", patch)]});
    let object = json!({"metadata": {"name": "spread", "annotations": {"workloadspread.kruise.io/ignore-patch-existing-pods-metadata": "True"}}, "spec": spec});
    let object: WorkloadSpread = serde_json::from_value(object).unwrap();
    spreads(&stage).create(&PostParams::default(), &object).await.unwrap();
    let pods = costing(&stage, &[("a", 200), ("b", 100)]).await;
    assert!(pods.values().all(|pod| !pod.labels().contains_key("tier")), "{pods:?}");
}

async fn given_a_pod_that_is_refused_later_then_its_place_is_free_again(stage: Arc<Stage>) {
    stage.create(cloneset("web").replicas(0)).await;
    spread(&stage, "CloneSet", two_zones(json!(2))).await;
    stage.set_quota(1).await;
    stage.patch("web", json!({"spec": {"replicas": 2}})).await;
    spread_like(&stage, &[("a", 1)]).await;
    until_status(&stage, "the refused one is written down", |status| {
        status["versionedSubsetStatuses"]["versionIgnored"][0]["creatingPods"].is_object()
    })
    .await;
    stage.event("spread", "CreatePodFailed", "").await;
    stage.patch("web", json!({"spec": {"replicas": 1}})).await;
    until_status(&stage, "its place is free", |status| {
        let first = &status["versionedSubsetStatuses"]["versionIgnored"][0];
        first["missingReplicas"] == 1 && first["creatingPods"].is_null()
    })
    .await;
}

async fn given_a_deletion_that_never_happens_then_its_place_is_taken_again(stage: Arc<Stage>) {
    stage.create(cloneset("web").replicas(0)).await;
    spread(&stage, "CloneSet", two_zones(json!(2))).await;
    stage.patch("web", json!({"spec": {"replicas": 2}})).await;
    let pods = spread_like(&stage, &[("a", 2)]).await;
    until_status(&stage, "all are counted", |status| {
        status["versionedSubsetStatuses"]["versionIgnored"][0]["creatingPods"].is_null()
    })
    .await;
    // What the webhook notes when a Pod is deleted. Another webhook may refuse the deletion after that.
    let (name, _) = pods.first_key_value().unwrap();
    let status = json!(spreads(&stage).get("spread").await.unwrap().status);
    let mut list = status["versionedSubsetStatuses"]["versionIgnored"].clone();
    // Times are in whole seconds: this one is later than the Pod was made.
    let now = k8s_openapi::jiff::Timestamp::now().as_second() + 2;
    let now = k8s_openapi::jiff::Timestamp::from_second(now).unwrap().to_string();
    list[0]["deletingPods"] = json!({name: now});
    list[0]["missingReplicas"] = json!(1);
    let noted = json!({"status": {"versionedSubsetStatuses": {"versionIgnored": list}}});
    let params = PatchParams::default();
    spreads(&stage)
        .patch_status("spread", &params, &Patch::Merge(noted))
        .await
        .unwrap();
    stage.event("spread", "DeletePodFailed", name).await;
    until_status(&stage, "its place is taken", |status| {
        let first = &status["versionedSubsetStatuses"]["versionIgnored"][0];
        first["missingReplicas"] == 0 && first["deletingPods"].is_null()
    })
    .await;
}

async fn given_shares_then_they_are_rounded_up(stage: Arc<Stage>) {
    // The workload is made after its spread: its replicas are known when the first Pod comes.
    let subsets = json!([
        zone("a", "a", json!({"maxReplicas": "50%"})),
        zone("b", "b", json!({"maxReplicas": "50%"}))
    ]);
    spread(&stage, "CloneSet", subsets).await;
    stage.create(cloneset("web").replicas(5)).await;
    spread_like(&stage, &[("a", 3), ("b", 2)]).await;
    until_status(&stage, "one more fits", |status| {
        status["subsetStatuses"][1]["missingReplicas"] == 1
    })
    .await;
}

async fn given_a_priority_class_in_a_patch_then_the_pod_has_its_number(stage: Arc<Stage>) {
    stage.create(cloneset("web").replicas(0)).await;
    let patch = json!({"patch": {"spec": {"priorityClassName": "system-node-critical"}}});
    spread(&stage, "CloneSet", json!([zone("a", "a", patch)])).await;
    stage.patch("web", json!({"spec": {"replicas": 1}})).await;
    let pods = spread_like(&stage, &[("a", 1)]).await;
    let spec = pods.values().next().unwrap().spec.as_ref().unwrap();
    assert_eq!(
        (spec.priority_class_name.as_deref(), spec.priority),
        (Some("system-node-critical"), Some(2_000_001_000))
    );
}

async fn given_a_subset_that_is_removed_then_its_pods_stay_and_go_first(stage: Arc<Stage>) {
    stage.create(cloneset("web").replicas(0)).await;
    spread(&stage, "CloneSet", two_zones(json!(1))).await;
    stage.patch("web", json!({"spec": {"replicas": 3}})).await;
    let before = spread_like(&stage, &[("a", 1), ("b", 2)]).await;
    merge(
        &spreads(&stage),
        "spread",
        json!({"spec": {"subsets": [zone("b", "b", json!({}))]}}),
    )
    .await;
    let pods = costing(&stage, &[("a", -200), ("b", 100)]).await;
    assert_eq!(pods.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    stage.about("WorkloadSpread").why("spread", "inNoSubset").await;
    stage.patch("web", json!({"spec": {"replicas": 2}})).await;
    spread_like(&stage, &[("b", 2)]).await;
}

async fn given_a_dry_run_then_nothing_is_written_down(stage: Arc<Stage>) {
    stage.create(cloneset("web").replicas(0)).await;
    spread(&stage, "CloneSet", two_zones(json!(2))).await;
    stage.patch("web", json!({"spec": {"replicas": 1}})).await;
    let pods = spread_like(&stage, &[("a", 1)]).await;
    let settled = until_status(&stage, "the Pod is counted", |status| {
        let first = &status["versionedSubsetStatuses"]["versionIgnored"][0];
        first["replicas"] == 1 && first["creatingPods"].is_null()
    })
    .await;
    let mut copy = pods.values().next().unwrap().clone();
    copy.metadata.name = Some("copy".to_owned());
    copy.metadata.resource_version = None;
    copy.metadata.uid = None;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    stage.pods.create(&dry, &copy).await.unwrap();
    let name = pods.keys().next().unwrap();
    stage
        .pods
        .delete(name, &DeleteParams::default().dry_run())
        .await
        .unwrap();
    let evict = EvictParams {
        post_options: dry,
        ..EvictParams::default()
    };
    stage.pods.evict(name, &evict).await.unwrap();
    assert_eq!(json!(spreads(&stage).get("spread").await.unwrap().status), settled);
}

async fn given_an_eviction_then_the_pod_in_its_place_lands_in_the_same_subset(stage: Arc<Stage>) {
    stage.create(cloneset("web").replicas(0)).await;
    spread(&stage, "CloneSet", two_zones(json!(2))).await;
    stage.patch("web", json!({"spec": {"replicas": 4}})).await;
    let pods = spread_like(&stage, &[("a", 2), ("b", 2)]).await;
    let (name, _) = pods.iter().find(|(_, pod)| subset_of(pod) == "a").unwrap();
    stage.pods.evict(name, &EvictParams::default()).await.unwrap();
    let name = name.clone();
    stage
        .until("web", "there is another in a", move |pods| {
            !pods.contains_key(&name) && counts(pods.values()) == of(&[("a", 2), ("b", 2)])
        })
        .await;
}

async fn given_a_limit_that_is_lowered_then_those_too_many_go_first(stage: Arc<Stage>) {
    stage.create(cloneset("web").replicas(0)).await;
    spread(&stage, "CloneSet", two_zones(json!(2))).await;
    stage.patch("web", json!({"spec": {"replicas": 3}})).await;
    spread_like(&stage, &[("a", 2), ("b", 1)]).await;
    merge(
        &spreads(&stage),
        "spread",
        json!({"spec": {"subsets": two_zones(json!(1))}}),
    )
    .await;
    stage
        .until("web", "one of a is too many", |pods| {
            let mut costs: Vec<_> = pods.values().filter_map(cost).collect();
            costs.sort_unstable();
            costs == [-100, 100, 200]
        })
        .await;
    stage.about("WorkloadSpread").why("spread", "tooMany").await;
    stage.patch("web", json!({"spec": {"replicas": 2}})).await;
    spread_like(&stage, &[("a", 1), ("b", 1)]).await;
    // Whoever lists them finds none of another kind.
    assert_eq!(
        spreads(&stage).list(&ListParams::default()).await.unwrap().items.len(),
        1
    );
}
