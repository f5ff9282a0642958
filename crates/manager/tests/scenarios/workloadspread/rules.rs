//! What is refused, and where the error is.

use super::{
    Arc, DeleteParams, Patch, PatchParams, Scenario, Stage, Value, WorkloadSpread, cloneset, json, scenarios, spreads,
    try_spread,
};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_spreads_that_make_no_sense_then_they_are_refused_with_the_field,
        given_a_second_spread_on_a_workload_then_it_is_refused,
        given_a_patch_that_makes_invalid_pods_then_it_is_refused,
        given_the_examples_of_the_docs_then_they_are_taken,
    ]
}

fn target() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})
}

#[track_caller]
fn refused(answer: kube::Result<WorkloadSpread>, code: u16, part: &str) {
    match answer {
        Err(kube::Error::Api(status)) => {
            assert_eq!(status.code, code, "{status:?}");
            assert!(status.message.contains(part), "{status:?}");
        }
        other => panic!("not refused: {other:?}"),
    }
}

async fn given_spreads_that_make_no_sense_then_they_are_refused_with_the_field(stage: Arc<Stage>) {
    let adaptive = |seconds: i32| json!({"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": seconds}});
    let three = json!([{"name": "a", "maxReplicas": 1}, {"name": "b", "maxReplicas": 1}, {"name": "c"}]);
    for (subsets, strategy, field) in [
        (
            json!([{"name": "a", "maxReplicas": "50%"}, {"name": "b", "maxReplicas": "40%"}]),
            json!({}),
            "spec.subsets[0].maxReplicas",
        ),
        (
            json!([{"name": "a", "maxReplicas": 1}, {"name": "b", "maxReplicas": "40%"}]),
            json!({}),
            "spec.subsets[1].maxReplicas",
        ),
        (
            json!([{"name": "a", "maxReplicas": 1}, {"name": "b", "maxReplicas": 2}]),
            adaptive(3),
            "spec.scheduleStrategy.adaptive",
        ),
        (
            three.clone(),
            adaptive(148),
            "spec.scheduleStrategy.adaptive.rescheduleCriticalSeconds",
        ),
        (json!([{"name": "a"}, {"name": "a"}]), json!({}), "spec.subsets[1].name"),
        (json!([]), json!({}), "spec.subsets"),
        (
            json!([{"name": "a", "tolerations": [{"key": "a", "operator": "Like"}]}]),
            json!({}),
            "spec.subsets[0].tolerations[0].operator",
        ),
    ] {
        let spec = json!({"targetRef": target(), "subsets": subsets, "scheduleStrategy": strategy});
        refused(try_spread(&stage, "spread", spec).await, 400, field);
    }
    let shares = json!([{"name": "a", "maxReplicas": "90%"}, {"name": "b"}]);
    for (name, subsets, strategy, web) in [("one", shares, json!({}), "one"), ("two", three, adaptive(147), "two")] {
        let mut target = target();
        target["name"] = json!(web);
        let spec = json!({"targetRef": target, "subsets": subsets, "scheduleStrategy": strategy});
        try_spread(&stage, name, spec).await.unwrap();
    }
    let other = json!({"spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}}});
    let changed = spreads(&stage)
        .patch("one", &PatchParams::default(), &Patch::Merge(other))
        .await;
    refused(changed, 400, "spec.targetRef");
    let unknown = json!({"targetRef": {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w"}, "subsets": [{"name": "a"}]});
    refused(try_spread(&stage, "spread", unknown).await, 400, "spec.targetRef");
}

async fn given_a_second_spread_on_a_workload_then_it_is_refused(stage: Arc<Stage>) {
    let spec = |version: &str| {
        let target = json!({"apiVersion": format!("apps.kruise.io/{version}"), "kind": "CloneSet", "name": "web"});
        json!({"targetRef": target, "subsets": [{"name": "a"}]})
    };
    try_spread(&stage, "one", spec("v1alpha1")).await.unwrap();
    refused(try_spread(&stage, "two", spec("v1beta1")).await, 400, "one");
}

async fn given_a_patch_that_makes_invalid_pods_then_it_is_refused(stage: Arc<Stage>) {
    stage.create(cloneset("web").replicas(0)).await;
    let target = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"});
    for (patch, part) in [
        (
            json!({"spec": {"containers": [{"name": "x"}]}}),
            "spec.subsets[0].patch",
        ),
        (
            json!({"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]}}),
            "spec.subsets[0].patch.containers[0].resources.requests",
        ),
        (json!({"spec": {"containers": "x"}}), "spec.subsets[0].patch"),
        (json!("text"), "spec.subsets[0].patch"),
    ] {
        let spec = json!({"targetRef": target, "subsets": [{"name": "a", "patch": patch}]});
        refused(try_spread(&stage, "spread", spec).await, 400, part);
    }
    for patch in [
        json!({}),
        json!({"spec": {"nope": 1}}),
        json!({"spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "b"}]}]}}),
    ] {
        let spec = json!({"targetRef": target, "subsets": [{"name": "a", "patch": patch}]});
        try_spread(&stage, "spread", spec).await.unwrap();
        spreads(&stage)
            .delete("spread", &DeleteParams::default())
            .await
            .unwrap();
    }
}

async fn given_the_examples_of_the_docs_then_they_are_taken(stage: Arc<Stage>) {
    for example in [
        include_str!("../../../../../docs/examples/workloadspread.yaml"),
        include_str!("../../../../../docs/examples/workloadspread-shares.yaml"),
    ] {
        let object: Value = serde_saphyr::from_str(example).unwrap();
        let name = object["metadata"]["name"].as_str().unwrap();
        try_spread(&stage, name, object["spec"].clone()).await.unwrap();
    }
}
