//! Which Pods a budget covers, and of how many it goes out.

use kruise_testkit::{
    builders::{Fixture as _, cloneset, deployment, pod},
    eventually::{NotYet, eventually},
};
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::sync::Arc;

use super::super::podunavailablebudget::{budget, budgets, delete, is_refused, settled, status, try_budget};
use crate::cluster::scenario::{PATIENCE, Scenario, Stage, scenarios};

pub(crate) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_budget_then_a_new_pod_is_covered_from_its_first_moment_whatever_else_is_done_to_it,
        given_pods_of_two_deployments_then_each_counts_once_and_scaling_in_is_granted,
        given_a_kind_of_somebody_else_with_a_scale_then_its_replicas_count,
        given_a_kind_without_a_scale_then_the_number_of_the_user_counts,
        given_a_kind_that_the_manager_may_not_read_then_the_right_is_named,
        given_a_workload_that_is_gone_or_empty_then_nothing_is_protected,
        given_two_budgets_over_one_pod_then_the_first_by_name_protects_it_and_the_other_says_so,
        given_numbers_that_mean_nothing_then_the_budget_is_refused,
        given_all_may_be_unavailable_then_nothing_is_ever_written_down,
        given_a_pod_that_is_not_ready_then_it_may_go_and_is_not_charged,
    ]
}

fn labelled(labels: &Value) -> Value {
    json!({"selector": {"matchLabels": labels}, "maxUnavailable": 1})
}

/// Waits until a budget was counted at least once: the manager knows it.
async fn known(stage: &Stage, name: &str) {
    eventually(PATIENCE, "the budget is counted", || async {
        let status = budgets(stage).get(name).await?.status.unwrap_or_default();
        if status.observed_generation > 0 {
            Ok(())
        } else {
            Err(NotYet::new(format!("{status:?}")))
        }
    })
    .await;
}

async fn given_a_budget_then_a_new_pod_is_covered_from_its_first_moment_whatever_else_is_done_to_it(stage: Arc<Stage>) {
    let namespace = stage.namespace();
    try_budget(&stage, "budget", labelled(&json!({"side": namespace})))
        .await
        .unwrap();
    known(&stage, "budget").await;
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "SidecarSet"));
    let sets: Api<DynamicObject> = Api::all_with(stage.client(), &kind);
    let set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": namespace},
        "spec": {"selector": {"matchLabels": {"side": namespace}}, "containers": [{"name": "log", "image": "log:1"}]},
    });
    sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap())
        .await
        .unwrap();
    let zone = json!({"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]});
    let spread = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "WorkloadSpread", "metadata": {"name": "spread"}, "spec": {
            "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"},
            "subsets": [{"name": "a", "requiredNodeSelector": zone, "patch": {"metadata": {"labels": {"tier": "a"}}}}],
        },
    });
    stage
        .objects("v1beta1", "WorkloadSpread")
        .create(&PostParams::default(), &serde_json::from_value(spread).unwrap())
        .await
        .unwrap();
    let owner = cloneset("web").uid("0").json();
    let mut made = pod("web-0")
        .image("nginx:1")
        .label("side", namespace)
        .annotation("apps.kruise.io/container-launch-priority", "Ordered")
        .annotation("pub.kruise.io/related-pub", "somebody-else")
        .container("helper", "busybox:1")
        .owned_by(&owner)
        .build();
    made.metadata.name = None;
    made.metadata.generate_name = Some("web-".to_owned());
    // Set and spread may not be known yet. A Pod in a dry run gets no subset.
    let made = eventually(PATIENCE, "a sidecar and a subset are given", || async {
        let made = json!(stage.pods.create(&PostParams::default(), &made).await?);
        let containers = made["spec"]["containers"].as_array().map(Vec::len);
        if containers == Some(3) && made["metadata"]["labels"]["tier"] == "a" {
            Ok(made)
        } else {
            Err(NotYet::new(made.to_string()))
        }
    })
    .await;
    let annotations = &made["metadata"]["annotations"];
    for key in ["pub.kruise.io/related-pub", "kruise.io/related-pub"] {
        assert_eq!(annotations[key], "budget", "{annotations}");
    }
    assert_eq!(made["spec"]["readinessGates"][0]["conditionType"], "KruisePodReady");
    for container in made["spec"]["containers"].as_array().unwrap() {
        assert!(
            container.to_string().contains("KRUISE_CONTAINER_BARRIER"),
            "{container}"
        );
    }
    sets.delete(namespace, &DeleteParams::background()).await.unwrap();
}

async fn given_pods_of_two_deployments_then_each_counts_once_and_scaling_in_is_granted(stage: Arc<Stage>) {
    let api: Api<k8s_openapi::api::apps::v1::Deployment> = stage.api();
    for (name, replicas) in [("one", 3), ("other", 5)] {
        let made = deployment(name)
            .replicas(replicas)
            .pod(|pod| pod.image("nginx:1").label("tier", "web"));
        api.create(&PostParams::default(), &made.build()).await.unwrap();
    }
    let spec = json!({"selector": {"matchLabels": {"tier": "web"}}, "minAvailable": "50%"});
    try_budget(&stage, "budget", spec).await.unwrap();
    status(
        &stage,
        json!({"totalReplicas": 8, "desiredAvailable": 4, "currentAvailable": 8, "unavailableAllowed": 4}),
    )
    .await;
    // Another one, whose Pods are covered from their beginning.
    let target = json!({"apiVersion": "apps/v1beta9", "kind": "Deployment", "name": "third"});
    let spec = json!({"targetRef": target, "maxUnavailable": 0});
    try_budget(&stage, "floor", spec).await.unwrap();
    known(&stage, "floor").await;
    let made = deployment("third").replicas(5).image("nginx:1");
    api.create(&PostParams::default(), &made.build()).await.unwrap();
    floor_is(&stage, 5).await;
    let pods = stage.pods("third").await;
    is_refused(delete(&stage, pods.keys().next().unwrap()).await);
    let two = Patch::Merge(json!({"spec": {"replicas": 2}}));
    api.patch("third", &PatchParams::default(), &two).await.unwrap();
    stage.until("third", "two are left", |pods| pods.len() == 2).await;
    floor_is(&stage, 2).await;
}

/// Waits until all of so many Pods are available, and have to be.
async fn floor_is(stage: &Stage, count: i32) {
    eventually(PATIENCE, "the budget follows", || async {
        let status = budgets(stage).get("floor").await?.status.unwrap_or_default();
        if [
            status.total_replicas,
            status.desired_available,
            status.current_available,
        ] == [count; 3]
        {
            Ok(())
        } else {
            Err(NotYet::new(format!("{status:?}")))
        }
    })
    .await;
}

/// A kind of the scenario's own, which goes with this.
struct OwnKind {
    definitions: Api<DynamicObject>,
    name: String,
    objects: Api<DynamicObject>,
    kind: ApiResource,
}

impl OwnKind {
    async fn define(stage: &Stage, plural: &str, subresources: Value) -> Self {
        let definition = ApiResource::from_gvk(&GroupVersionKind::gvk(
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
        ));
        let definitions: Api<DynamicObject> = Api::all_with(stage.client(), &definition);
        let name = format!("{plural}.budgets.kruise.test");
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
            "spec": {
                "group": "budgets.kruise.test", "scope": "Namespaced", "names": {"kind": plural, "plural": plural},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": subresources,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }],
            },
        });
        definitions
            .create(&PostParams::default(), &serde_json::from_value(crd).unwrap())
            .await
            .unwrap();
        let kind =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("budgets.kruise.test", "v1", plural), plural);
        Self {
            objects: Api::namespaced_with(stage.client(), stage.namespace(), &kind),
            definitions,
            name,
            kind,
        }
    }

    /// Creates an object `web` as soon as the API server serves the kind.
    async fn make(&self, spec: Value) {
        let object = json!({"apiVersion": "budgets.kruise.test/v1", "kind": self.kind.kind, "metadata": {"name": "web"}, "spec": spec});
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        eventually(PATIENCE, "the kind is served", || async {
            self.objects.create(&PostParams::default(), &object).await?;
            Ok(())
        })
        .await;
    }

    fn target(&self) -> Value {
        json!({"apiVersion": "budgets.kruise.test/v1", "kind": self.kind.kind, "name": "web"})
    }

    async fn forget(self) {
        self.definitions
            .delete(&self.name, &DeleteParams::default())
            .await
            .unwrap();
    }
}

async fn given_a_kind_of_somebody_else_with_a_scale_then_its_replicas_count(stage: Arc<Stage>) {
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"});
    let games = OwnKind::define(&stage, "games", json!({"status": {}, "scale": scale})).await;
    games.make(json!({"replicas": 3})).await;
    let known = Patch::Merge(json!({"status": {"replicas": 3, "selector": "app=web"}}));
    games
        .objects
        .patch_status("web", &PatchParams::default(), &known)
        .await
        .unwrap();
    for number in 0..3 {
        let made = pod(&format!("web-{number}")).image("nginx:1").label("app", "web");
        let made = made.on_node(&stage.node(0)).build();
        stage.pods.create(&PostParams::default(), &made).await.unwrap();
    }
    try_budget(
        &stage,
        "budget",
        json!({"targetRef": games.target(), "maxUnavailable": 1}),
    )
    .await
    .unwrap();
    status(
        &stage,
        json!({"totalReplicas": 3, "desiredAvailable": 2, "currentAvailable": 3, "unavailableAllowed": 1}),
    )
    .await;
    delete(&stage, "web-0").await.unwrap();
    is_refused(delete(&stage, "web-1").await);
    // Nobody tells when such a workload changes: it shows when the budget is counted next.
    let more = Patch::Merge(json!({"spec": {"replicas": 5}}));
    games
        .objects
        .patch("web", &PatchParams::default(), &more)
        .await
        .unwrap();
    let two = Patch::Merge(json!({"spec": {"maxUnavailable": 2}}));
    budgets(&stage)
        .patch("budget", &PatchParams::default(), &two)
        .await
        .unwrap();
    status(&stage, json!({"totalReplicas": 5, "desiredAvailable": 3})).await;
    // A new Pod of it is covered before anything else happens.
    let made = pod("web-3")
        .image("nginx:1")
        .label("app", "web")
        .on_node(&stage.node(0));
    stage.pods.create(&PostParams::default(), &made.build()).await.unwrap();
    let is_covered = |pod: &k8s_openapi::api::core::v1::Pod| {
        pod.annotations()
            .get("pub.kruise.io/related-pub")
            .is_some_and(|name| name == "budget")
    };
    stage.until_pod("web-3", "it is covered", is_covered).await;
    games.forget().await;
}

async fn given_a_kind_without_a_scale_then_the_number_of_the_user_counts(stage: Arc<Stage>) {
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "web"},
        "spec": {"parallelism": 4, "completions": 4, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "nginx:1"}],
        }}},
    });
    let jobs: Api<k8s_openapi::api::batch::v1::Job> = stage.api();
    jobs.create(&PostParams::default(), &serde_json::from_value(job).unwrap())
        .await
        .unwrap();
    let target = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "web"});
    let spec = json!({"targetRef": target, "maxUnavailable": 1});
    try_budget(&stage, "budget", spec).await.unwrap();
    status(
        &stage,
        json!({"totalReplicas": -1, "desiredAvailable": 0, "currentAvailable": 4}),
    )
    .await;
    let four = Patch::Merge(json!({"spec": {"protectTotalReplicas": 4}}));
    budgets(&stage)
        .patch("budget", &PatchParams::default(), &four)
        .await
        .unwrap();
    status(
        &stage,
        json!({"totalReplicas": 4, "desiredAvailable": 3, "currentAvailable": 4, "unavailableAllowed": 1}),
    )
    .await;
    jobs.delete("web", &DeleteParams::background()).await.unwrap();
}

async fn given_a_kind_that_the_manager_may_not_read_then_the_right_is_named(stage: Arc<Stage>) {
    let toys = OwnKind::define(&stage, "toys", json!({})).await;
    toys.make(json!({})).await;
    try_budget(
        &stage,
        "budget",
        json!({"targetRef": toys.target(), "maxUnavailable": 1}),
    )
    .await
    .unwrap();
    let event = stage
        .event(
            "budget",
            "CalculateExpectedPodCountFailed",
            "cannot get resource \"toys\"",
        )
        .await;
    let message = event.message.unwrap();
    assert!(
        message.contains("toys web") && message.contains("budgets.kruise.test"),
        "{message}"
    );
    toys.forget().await;
}

async fn given_a_workload_that_is_gone_or_empty_then_nothing_is_protected(stage: Arc<Stage>) {
    let pods = settled(&stage, "web", 2).await;
    let target = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"});
    try_budget(&stage, "budget", json!({"targetRef": target, "minAvailable": "100%"}))
        .await
        .unwrap();
    status(&stage, json!({"desiredAvailable": 2, "currentAvailable": 2})).await;
    is_refused(delete(&stage, &pods[0]).await);
    // Its Pods stay behind.
    stage.subjects.delete("web", &DeleteParams::orphan()).await.unwrap();
    status(
        &stage,
        json!({"totalReplicas": 0, "desiredAvailable": 0, "currentAvailable": 0}),
    )
    .await;
    stage.event("budget", "NoPods", "No matching pods found").await;
    delete(&stage, &pods[0]).await.unwrap();
    stage.create(cloneset("none").replicas(0)).await;
    let target = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "none"});
    try_budget(&stage, "none", json!({"targetRef": target, "maxUnavailable": "10%"}))
        .await
        .unwrap();
    known(&stage, "none").await;
    let counted = budgets(&stage).get("none").await.unwrap().status.unwrap();
    let numbers = [
        counted.total_replicas,
        counted.desired_available,
        counted.unavailable_allowed,
    ];
    assert_eq!(numbers, [0, 0, 0], "a share of nothing is nothing");
}

async fn given_two_budgets_over_one_pod_then_the_first_by_name_protects_it_and_the_other_says_so(stage: Arc<Stage>) {
    // These do not conflict by the rules of admission: they ask for different labels.
    try_budget(&stage, "b", labelled(&json!({"app": "web", "tier": "x"})))
        .await
        .unwrap();
    try_budget(&stage, "a", labelled(&json!({"app": "web"}))).await.unwrap();
    known(&stage, "a").await;
    known(&stage, "b").await;
    let made = pod("web").image("nginx:1").label("app", "web").label("tier", "x");
    let made = made.on_node(&stage.node(0)).build();
    let made = stage.pods.create(&PostParams::default(), &made).await.unwrap();
    assert_eq!(made.annotations()["pub.kruise.io/related-pub"], "a");
    let path = format!("PodUnavailableBudget/{}/b", stage.namespace());
    let why = stage.why_of(path, "ofOthers").await;
    assert!(why.to_string().contains("web"), "{why}");
    // It stays with the first one, even without it.
    budgets(&stage).delete("a", &DeleteParams::default()).await.unwrap();
    let none = Patch::Merge(json!({"spec": {"maxUnavailable": 0}}));
    budgets(&stage)
        .patch("b", &PatchParams::default(), &none)
        .await
        .unwrap();
    stage
        .until_pod("web", "it is as it was", |pod| {
            pod.annotations()
                .get("pub.kruise.io/related-pub")
                .is_some_and(|name| name == "a")
        })
        .await;
    delete(&stage, "web").await.unwrap();
}

async fn given_numbers_that_mean_nothing_then_the_budget_is_refused(stage: Arc<Stage>) {
    let selector = json!({"matchLabels": {"app": "web"}});
    // What the schema says already is said by the API server.
    let none_at_all = json!({"selector": selector, "maxUnavailable": 1, "protectTotalReplicas": 0});
    match try_budget(&stage, "budget", none_at_all).await {
        Err(kube::Error::Api(refused)) => {
            assert_eq!(refused.code, 422, "{refused:?}");
            assert!(refused.message.contains("spec.protectTotalReplicas"), "{refused:?}");
        }
        other => panic!("{other:?}"),
    }
    for (spec, text) in [
        (
            json!({"selector": selector, "maxUnavailable": 1, "minAvailable": 1}),
            "mutually exclusive",
        ),
        (json!({"selector": selector}), "no maxUnavailable or minAvailable"),
        (
            json!({"selector": selector, "maxUnavailable": "5"}),
            "spec.maxUnavailable",
        ),
        (
            json!({"selector": selector, "maxUnavailable": "101%"}),
            "spec.maxUnavailable",
        ),
        (json!({"selector": selector, "minAvailable": -1}), "spec.minAvailable"),
        (json!({"selector": {}, "maxUnavailable": 1}), "spec.selector"),
        (json!({"maxUnavailable": 1}), "spec.selector, targetRef"),
        (
            json!({"targetRef": {"apiVersion": "v1", "kind": "", "name": "a"}, "maxUnavailable": 1}),
            "spec.targetRef",
        ),
    ] {
        match try_budget(&stage, "budget", spec.clone()).await {
            Err(kube::Error::Api(refused)) => {
                assert_eq!(refused.code, 400, "{spec}: {refused:?}");
                assert!(refused.message.contains(text), "{spec}: {refused:?}");
            }
            other => panic!("{spec}: {other:?}"),
        }
    }
}

async fn given_all_may_be_unavailable_then_nothing_is_ever_written_down(stage: Arc<Stage>) {
    let pods = settled(&stage, "web", 2).await;
    budget(&stage, "web", json!("100%")).await;
    status(&stage, json!({"desiredAvailable": 0, "unavailableAllowed": 2})).await;
    for pod in &pods {
        delete(&stage, pod).await.unwrap();
        let written = budgets(&stage).get("budget").await.unwrap().status.unwrap();
        assert!(written.disrupted_pods.is_empty(), "{written:?}");
    }
}

async fn given_a_pod_that_is_not_ready_then_it_may_go_and_is_not_charged(stage: Arc<Stage>) {
    let pods = settled(&stage, "web", 2).await;
    budget(&stage, "web", json!(0)).await;
    status(&stage, json!({"desiredAvailable": 2, "currentAvailable": 2})).await;
    is_refused(delete(&stage, &pods[0]).await);
    stage.script_pod(&pods[0], "never-ready", Some("true")).await;
    stage.script_pod(&pods[0], "restart", Some("now")).await;
    status(&stage, json!({"currentAvailable": 1, "unavailableAllowed": 0})).await;
    delete(&stage, &pods[0]).await.unwrap();
    let written = budgets(&stage).get("budget").await.unwrap().status.unwrap();
    assert!(written.disrupted_pods.is_empty(), "{written:?}");
    is_refused(delete(&stage, &pods[1]).await);
}
