//! PodUnavailableBudgets: who may disturb a Pod.

use futures::future::join_all;
use kruise_api::podunavailablebudget::v1beta1::PodUnavailableBudget;
use kruise_testkit::{
    builders::{Fixture as _, cloneset},
    eventually::{NotYet, eventually},
    features::{Feature, lacks},
};
use kube::{
    Api,
    api::{DeleteParams, EvictParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::cluster::scenario::{PATIENCE, Scenario, Stage, scenarios};

pub(crate) fn all() -> Vec<Scenario> {
    scenarios![
        given_more_deletions_than_the_budget_then_the_rest_are_refused_and_the_places_come_back,
        given_deletions_of_one_pod_only_then_they_are_charged_once,
        given_no_place_then_only_what_disturbs_an_available_pod_is_refused,
        given_no_place_then_a_resize_is_refused_at_its_own_endpoint_too,
        given_operations_that_are_not_protected_then_they_are_allowed,
        given_a_dry_run_then_it_is_judged_and_nothing_is_written_down,
        given_a_place_that_nobody_used_then_it_is_forgotten_and_told,
        given_a_selector_over_two_workloads_then_their_replicas_are_added,
        given_a_workload_that_scales_in_then_the_floor_follows_and_its_pods_go,
        given_a_rollout_and_no_place_then_the_set_waits_and_says_why_and_goes_on_with_one,
        given_a_workload_of_an_unknown_kind_then_the_budget_says_so,
        given_a_budget_that_is_gone_then_its_pods_may_go,
        given_two_budgets_over_the_same_pods_then_the_second_is_refused,
        given_a_budget_in_the_first_version_then_its_annotations_are_the_fields,
        given_the_examples_of_the_docs_then_they_are_taken,
    ]
}

pub(super) fn budgets(stage: &Stage) -> Api<PodUnavailableBudget> {
    stage.api()
}

pub(super) async fn try_budget(stage: &Stage, name: &str, spec: Value) -> kube::Result<PodUnavailableBudget> {
    let budget = json!({"metadata": {"name": name}, "spec": spec});
    let budget: PodUnavailableBudget = serde_json::from_value(budget).unwrap();
    budgets(stage).create(&PostParams::default(), &budget).await
}

/// A budget over the Pods of a set.
pub(super) async fn budget(stage: &Stage, set: &str, max_unavailable: Value) {
    let target = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": set});
    let spec = json!({"targetRef": target, "maxUnavailable": max_unavailable});
    try_budget(stage, "budget", spec).await.unwrap();
}

/// Waits until fields of a budget's status are as said.
pub(super) async fn status(stage: &Stage, expected: Value) -> Value {
    eventually(PATIENCE, "the budget is counted", || async {
        let budget = budgets(stage).get("budget").await?;
        let status = serde_json::to_value(budget.status).unwrap();
        let fields = expected.as_object().unwrap();
        if fields.iter().all(|(field, value)| status[field] == *value) {
            Ok(status)
        } else {
            Err(NotYet::new(format!("{expected} is not in {status:#}")))
        }
    })
    .await
}

/// A set whose Pods are all available, and their names.
pub(super) async fn settled(stage: &Stage, name: &str, replicas: i32) -> Vec<String> {
    stage
        .settled(cloneset(name).replicas(replicas))
        .await
        .into_keys()
        .collect()
}

pub(super) async fn delete(stage: &Stage, pod: &str) -> Result<(), kube::Error> {
    stage.pods.delete(pod, &DeleteParams::default()).await.map(drop)
}

#[track_caller]
pub(super) fn is_refused<T: std::fmt::Debug>(answer: Result<T, kube::Error>) {
    match answer {
        Err(kube::Error::Api(status)) => {
            assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"), "{status:?}");
            assert!(
                status.message.contains("pub unavailable allowed is negative"),
                "{status:?}"
            );
        }
        other => panic!("not refused: {other:?}"),
    }
}

async fn given_more_deletions_than_the_budget_then_the_rest_are_refused_and_the_places_come_back(stage: Arc<Stage>) {
    let pods = settled(&stage, "web", 10).await;
    budget(&stage, "web", json!(2)).await;
    status(
        &stage,
        json!({"unavailableAllowed": 2, "currentAvailable": 10, "desiredAvailable": 8, "totalReplicas": 10}),
    )
    .await;
    let answers = join_all(pods.iter().take(3).map(|pod| delete(&stage, pod))).await;
    let (granted, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((granted.len(), refused.len()), (2, 1));
    refused.into_iter().for_each(is_refused);
    status(
        &stage,
        json!({"unavailableAllowed": 2, "currentAvailable": 10, "disruptedPods": null}),
    )
    .await;
}

async fn given_deletions_of_one_pod_only_then_they_are_charged_once(stage: Arc<Stage>) {
    let pods = settled(&stage, "web", 3).await;
    budget(&stage, "web", json!(1)).await;
    status(&stage, json!({"unavailableAllowed": 1})).await;
    // A finalizer keeps the Pod.
    stage
        .patch_pod(&pods[0], json!({"metadata": {"finalizers": ["tests.kruise.io/stay"]}}))
        .await;
    delete(&stage, &pods[0]).await.unwrap();
    delete(&stage, &pods[0]).await.unwrap();
    is_refused(delete(&stage, &pods[1]).await);
    stage
        .patch_pod(
            &pods[0],
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["tests.kruise.io/stay"]}}),
        )
        .await;
}

async fn given_no_place_then_only_what_disturbs_an_available_pod_is_refused(stage: Arc<Stage>) {
    let pods = settled(&stage, "web", 3).await;
    budget(&stage, "web", json!(0)).await;
    status(
        &stage,
        json!({"unavailableAllowed": 0, "desiredAvailable": 3, "currentAvailable": 3}),
    )
    .await;
    let (pod, other) = (&pods[0], &pods[1]);
    is_refused(delete(&stage, pod).await);
    is_refused(stage.pods.evict(pod, &EvictParams::default()).await);
    let patch = |patch: Value| {
        let params = PatchParams::default();
        let (pods, pod) = (stage.pods.clone(), pod.clone());
        async move { pods.patch(&pod, &params, &Patch::Strategic(patch)).await }
    };
    is_refused(patch(json!({"metadata": {"labels": {"unavailable-pod.kruise.io/x": "1"}}})).await);
    is_refused(patch(json!({"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}})).await);
    patch(json!({"metadata": {"labels": {"harmless": "yes"}}}))
        .await
        .unwrap();
    stage
        .event(pod, "PubPreventPodDeletion", "openkruise pub prevents pod deletion")
        .await;
    let condition = json!([{"type": "Ready", "status": "False"}]);
    stage
        .patch_pod_status(other, json!({"status": {"conditions": condition}}))
        .await;
    // The kubelet makes it ready again at its own time; until then it may go.
    stage
        .patch_pod(
            other,
            json!({"metadata": {"annotations": {"pub.kruise.io/no-protect": "true"}}}),
        )
        .await;
    delete(&stage, other).await.unwrap();
}

async fn given_no_place_then_a_resize_is_refused_at_its_own_endpoint_too(stage: Arc<Stage>) {
    if lacks(Feature::Resize) {
        return;
    }
    let set = cloneset("web").replicas(2);
    let set = set.pod(|pod| pod.set("/spec/containers/0/resources/requests/cpu", "100m"));
    let pods: Vec<String> = stage.settled(set).await.into_keys().collect();
    budget(&stage, "web", json!(0)).await;
    status(&stage, json!({"desiredAvailable": 2, "currentAvailable": 2})).await;
    let resize = async |pod: &String| {
        let container = json!({"name": "main", "resources": {"requests": {"cpu": "200m"}}});
        let more = Patch::Strategic(json!({"spec": {"containers": [container]}}));
        let params = PatchParams::default();
        stage.pods.patch_subresource("resize", pod, &params, &more).await
    };
    is_refused(resize(&pods[0]).await);
    let one = json!({"spec": {"maxUnavailable": 1}});
    budgets(&stage)
        .patch("budget", &PatchParams::default(), &Patch::Merge(one))
        .await
        .unwrap();
    status(&stage, json!({"unavailableAllowed": 1})).await;
    resize(&pods[0]).await.unwrap();
    is_refused(resize(&pods[1]).await);
    let written = budgets(&stage).get("budget").await.unwrap().status.unwrap();
    assert!(written.disrupted_pods.contains_key(&pods[0]), "{written:?}");
}

async fn given_operations_that_are_not_protected_then_they_are_allowed(stage: Arc<Stage>) {
    let pods = settled(&stage, "web", 2).await;
    let target = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"});
    let spec = json!({"targetRef": target, "minAvailable": "100%", "protectOperations": ["EVICT"]});
    try_budget(&stage, "budget", spec).await.unwrap();
    status(&stage, json!({"desiredAvailable": 2, "currentAvailable": 2})).await;
    is_refused(stage.pods.evict(&pods[0], &EvictParams::default()).await);
    delete(&stage, &pods[0]).await.unwrap();
}

async fn given_a_dry_run_then_it_is_judged_and_nothing_is_written_down(stage: Arc<Stage>) {
    let pods = settled(&stage, "web", 2).await;
    budget(&stage, "web", json!(1)).await;
    let before = status(&stage, json!({"unavailableAllowed": 1, "currentAvailable": 2})).await;
    let dry = DeleteParams::default().dry_run();
    stage.pods.delete(&pods[0], &dry).await.unwrap();
    let evict = EvictParams {
        post_options: PostParams {
            dry_run: true,
            ..PostParams::default()
        },
        ..EvictParams::default()
    };
    stage.pods.evict(&pods[0], &evict).await.unwrap();
    let after = budgets(&stage).get("budget").await.unwrap().status;
    assert_eq!(serde_json::to_value(after).unwrap(), before);
    let none = json!({"spec": {"maxUnavailable": 0}});
    budgets(&stage)
        .patch("budget", &PatchParams::default(), &Patch::Merge(none))
        .await
        .unwrap();
    status(&stage, json!({"unavailableAllowed": 0, "desiredAvailable": 2})).await;
    is_refused(stage.pods.delete(&pods[0], &dry).await.map(drop));
}

async fn given_a_place_that_nobody_used_then_it_is_forgotten_and_told(stage: Arc<Stage>) {
    let pods = settled(&stage, "web", 2).await;
    budget(&stage, "web", json!(1)).await;
    status(&stage, json!({"unavailableAllowed": 1})).await;
    let place = json!({"status": {"disruptedPods": {(&pods[0]): jiff::Timestamp::now().to_string()}}});
    budgets(&stage)
        .patch_status("budget", &PatchParams::default(), &Patch::Merge(place))
        .await
        .unwrap();
    status(&stage, json!({"unavailableAllowed": 0, "currentAvailable": 1})).await;
    status(
        &stage,
        json!({"unavailableAllowed": 1, "currentAvailable": 2, "disruptedPods": null}),
    )
    .await;
    stage.event(&pods[0], "NotDeleted", "").await;
}

async fn given_a_selector_over_two_workloads_then_their_replicas_are_added(stage: Arc<Stage>) {
    for (name, replicas) in [("one", 3), ("other", 5)] {
        let set = cloneset(name).replicas(replicas).pod(|pod| pod.image("nginx:1"));
        let mut set = set.json();
        set["spec"]["template"]["metadata"]["labels"]["tier"] = json!("web");
        let set = serde_json::from_value(set).unwrap();
        stage.subjects.create(&PostParams::default(), &set).await.unwrap();
        stage.status(name, json!({"availableReplicas": replicas})).await;
    }
    let spec = json!({"selector": {"matchLabels": {"tier": "web"}}, "minAvailable": "50%"});
    try_budget(&stage, "budget", spec).await.unwrap();
    status(
        &stage,
        json!({"totalReplicas": 8, "desiredAvailable": 4, "unavailableAllowed": 4}),
    )
    .await;
}

async fn given_a_workload_that_scales_in_then_the_floor_follows_and_its_pods_go(stage: Arc<Stage>) {
    settled(&stage, "web", 6).await;
    budget(&stage, "web", json!(0)).await;
    status(&stage, json!({"desiredAvailable": 6, "currentAvailable": 6})).await;
    stage.patch("web", json!({"spec": {"replicas": 3}})).await;
    stage
        .status("web", json!({"replicas": 3, "availableReplicas": 3}))
        .await;
    status(
        &stage,
        json!({"totalReplicas": 3, "desiredAvailable": 3, "currentAvailable": 3}),
    )
    .await;
}

async fn given_a_rollout_and_no_place_then_the_set_waits_and_says_why_and_goes_on_with_one(stage: Arc<Stage>) {
    let set = cloneset("web").replicas(2).image("nginx:1");
    let mut set = set.json();
    set["spec"]["updateStrategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "InPlaceOnly", "maxUnavailable": 2}});
    let set = serde_json::from_value(set).unwrap();
    stage.subjects.create(&PostParams::default(), &set).await.unwrap();
    stage.status("web", json!({"availableReplicas": 2})).await;
    budget(&stage, "web", json!(0)).await;
    status(&stage, json!({"desiredAvailable": 2, "currentAvailable": 2})).await;
    let containers = json!([{"name": "main", "image": "nginx:2"}]);
    stage
        .patch(
            "web",
            json!({"spec": {"template": {"spec": {"containers": containers}}}}),
        )
        .await;
    stage.why("web", "budgetRefused").await;
    assert_eq!(
        stage.subjects.get("web").await.unwrap().data["status"]["updatedReplicas"],
        0
    );
    let one = json!({"spec": {"maxUnavailable": 1}});
    budgets(&stage)
        .patch("budget", &PatchParams::default(), &Patch::Merge(one))
        .await
        .unwrap();
    stage
        .status("web", json!({"updatedReplicas": 2, "availableReplicas": 2}))
        .await;
}

async fn given_a_workload_of_an_unknown_kind_then_the_budget_says_so(stage: Arc<Stage>) {
    let target = json!({"apiVersion": "example.com/v1", "kind": "Game", "name": "web"});
    try_budget(&stage, "budget", json!({"targetRef": target, "maxUnavailable": 1}))
        .await
        .unwrap();
    stage
        .event("budget", "CalculateExpectedPodCountFailed", "Game web")
        .await;
}

async fn given_a_budget_that_is_gone_then_its_pods_may_go(stage: Arc<Stage>) {
    let pods = settled(&stage, "web", 2).await;
    budget(&stage, "web", json!(0)).await;
    status(&stage, json!({"desiredAvailable": 2, "currentAvailable": 2})).await;
    is_refused(delete(&stage, &pods[0]).await);
    budgets(&stage)
        .delete("budget", &DeleteParams::default())
        .await
        .unwrap();
    delete(&stage, &pods[0]).await.unwrap();
}

async fn given_two_budgets_over_the_same_pods_then_the_second_is_refused(stage: Arc<Stage>) {
    let labels = |labels: Value| json!({"selector": labels, "maxUnavailable": 1});
    try_budget(&stage, "one", labels(json!({"matchLabels": {"app": "x"}})))
        .await
        .unwrap();
    let overlapping = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]});
    let Err(kube::Error::Api(refused)) = try_budget(&stage, "other", labels(overlapping)).await else {
        panic!("not refused")
    };
    assert_eq!(refused.code, 400, "{refused:?}");
    assert!(
        refused.message.contains("conflict with other PodUnavailableBudget one"),
        "{refused:?}"
    );
    try_budget(
        &stage,
        "other",
        labels(json!({"matchLabels": {"app": "x", "tier": "web"}})),
    )
    .await
    .unwrap();
    let changed = json!({"spec": {"selector": {"matchLabels": {"app": "z"}}}});
    let changed = budgets(&stage)
        .patch("one", &PatchParams::default(), &Patch::Merge(changed))
        .await;
    assert!(matches!(changed, Err(kube::Error::Api(status)) if status.code == 400));
}

async fn given_a_budget_in_the_first_version_then_its_annotations_are_the_fields(stage: Arc<Stage>) {
    let old: Api<kruise_api::podunavailablebudget::v1alpha1::PodUnavailableBudget> = stage.api();
    let budget = json!({
        "metadata": {"name": "budget", "annotations": {"kruise.io/pub-protect-operations": "DELETE,EVICT", "pub.kruise.io/protect-total-replicas": "15"}},
        "spec": {"selector": {"matchLabels": {"app": "nobody"}}, "maxUnavailable": "10%"},
    });
    old.create(&PostParams::default(), &serde_json::from_value(budget).unwrap())
        .await
        .unwrap();
    status(
        &stage,
        json!({"totalReplicas": 15, "desiredAvailable": 13, "currentAvailable": 0}),
    )
    .await;
    stage.event("budget", "NoPods", "").await;
    let new = budgets(&stage).get("budget").await.unwrap();
    assert_eq!(new.spec.protect_total_replicas, Some(15));
    let only = Patch::Merge(json!({"spec": {"protectOperations": ["EVICT"]}}));
    budgets(&stage)
        .patch("budget", &PatchParams::default(), &only)
        .await
        .unwrap();
    let read = old.get("budget").await.unwrap().metadata.annotations.unwrap();
    assert_eq!(read["kruise.io/pub-protect-operations"], "EVICT");
}

async fn given_the_examples_of_the_docs_then_they_are_taken(stage: Arc<Stage>) {
    for (name, example) in [
        (
            "web",
            include_str!("../../../../docs/examples/pod-unavailable-budget.yaml"),
        ),
        (
            "shop",
            include_str!("../../../../docs/examples/pod-unavailable-budget-selector.yaml"),
        ),
    ] {
        let example: Value = serde_saphyr::from_str(example).unwrap();
        let strict = PatchParams {
            field_manager: Some("examples".to_owned()),
            field_validation: Some(kube::api::ValidationDirective::Strict),
            ..PatchParams::default()
        };
        budgets(&stage)
            .patch(name, &strict, &Patch::Apply(&example))
            .await
            .unwrap();
    }
}
