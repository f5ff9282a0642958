use super::{
    explain::expect,
    stage::{DebugEndpoint, Stage},
};
use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
use kruise_api::podunavailablebudget::v1beta1::PodUnavailableBudget;
use kruise_core::plan::{Why, why};
use kruise_testkit::{
    builders::{Fixture as _, pod},
    eventually::run_test,
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::time::Duration;

/// A budget `web` that has granted a place for `web-0`, which runs, as `web-1` does; `free` belongs to no budget.
async fn stage(test: &str) -> Stage {
    let stage = Stage::with_kind(test, "podunavailablebudgets.policy.kruise.io").await;
    let budgets: Api<PodUnavailableBudget> = stage.namespace.api();
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1});
    let budget = json!({"metadata": {"name": "web"}, "spec": spec});
    budgets
        .create(&PostParams::default(), &serde_json::from_value(budget).unwrap())
        .await
        .unwrap();
    let taken = jiff::Timestamp::now();
    let status = json!({"status": {
        "observedGeneration": 1, "totalReplicas": 3, "desiredAvailable": 2, "currentAvailable": 2, "unavailableAllowed": 0,
        "disruptedPods": {"web-0": taken.to_string()},
    }});
    let params = PatchParams::default();
    budgets
        .patch_status("web", &params, &Patch::Merge(&status))
        .await
        .unwrap();
    let pods: Api<Pod> = stage.namespace.api();
    for name in ["web-0", "web-1", "free"] {
        let mut made = pod(name).image("nginx").label("app", "web");
        if name != "free" {
            made = made.annotation("pub.kruise.io/related-pub", "web");
        }
        pods.create(&PostParams::default(), &made.build()).await.unwrap();
        let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        pods.patch_status(name, &params, &Patch::Strategic(ready))
            .await
            .unwrap();
    }
    stage
}

#[test]
fn given_a_budget_then_who_it_covers_and_what_is_left_and_what_holds_it_back_are_told() {
    run_test(Duration::from_mins(2), async {
        let stage = stage("budget").await;
        let facts = [
            "3 wanted, 2 available, 2 have to be, 0 more may become unavailable",
            "It covers 2 Pods: web-0, web-1.",
            "web-0: deletion granted at 2",
        ];
        let message = "Game web cannot be read: no right to get it".to_owned();
        let why = Why::General(why::General::Invalid { message });
        let plans = json!({"podunavailablebudget-controller": {"why": [&why]}});
        let path = format!("/debug/plan/podunavailablebudget/{}/web", stage.namespace.name());
        let endpoint = DebugEndpoint::start(path, "200 OK", plans.to_string()).await;
        let url = format!("http://127.0.0.1:{}", endpoint.port);
        let asked = stage.explain(&["pub", "web", "--manager", &url]).await;
        expect(&asked, 0, &facts);
        expect(&asked, 0, &[&why.to_string(), "Asked: the manager at"]);
        let alone = stage.explain(&["pub/web"]).await;
        expect(&alone, 3, &facts);
        expect(&alone, 3, &["The manager cannot be asked", "there is no Lease"]);
        let json = stage.explain(&["pub/web", "-o", "json"]).await;
        let json: Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(
            (&json["kind"], &json["manager"]),
            (&json!("PodUnavailableBudget"), &Value::Null)
        );
        assert!(
            json["problem"].as_str().unwrap().contains("there is no Lease"),
            "{json:#}"
        );
        expect(&stage.explain(&["pub", "none"]).await, 1, &["\"none\" not found"]);
    });
}

#[test]
fn given_a_pod_then_all_that_stands_between_it_and_its_deletion_is_told() {
    run_test(Duration::from_mins(2), async {
        let stage = stage("pod").await;
        let others: Api<PodDisruptionBudget> = stage.namespace.api();
        let other = json!({"metadata": {"name": "drains"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 0}});
        others
            .create(&PostParams::default(), &serde_json::from_value(other).unwrap())
            .await
            .unwrap();
        let pods: Api<Pod> = stage.namespace.api();
        let kept = Patch::Merge(json!({"metadata": {"finalizers": ["tests.kruise.io/stay"]}}));
        pods.patch("web-1", &PatchParams::default(), &kept).await.unwrap();
        let refused = stage.explain(&["pod", "web-1"]).await;
        let lines = [
            "what stands between it and its deletion",
            "PodUnavailableBudget web refuses: ",
            "pub unavailable allowed is negative",
            "PodDisruptionBudget drains allows 0 evictions now.",
            "tests.kruise.io/stay",
        ];
        expect(&refused, 0, &lines);
        let granted = stage.explain(&["po/web-0"]).await;
        expect(&granted, 0, &["PodUnavailableBudget web has granted it a moment ago."]);
        let free = stage.explain(&["pod", "free"]).await;
        let lines = [
            "No PodUnavailableBudget covers it.",
            "PodUnavailableBudget web covers it as soon as the manager has told the Pod.",
        ];
        expect(&free, 0, &lines);
        let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        pods.patch("web-1", &PatchParams::default(), &released).await.unwrap();
    });
}
