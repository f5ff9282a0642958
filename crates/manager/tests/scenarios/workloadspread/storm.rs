//! Many Pods at the same time, from several sides.

use super::*;
use futures::future::join_all;
use kruise_testkit::features::{Feature, lacks};
use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_fifty_pods_at_the_same_time_then_exactly_ten_are_in_the_first_subset,
        given_four_clients_that_make_pods_as_fast_as_they_can_then_no_subset_has_too_many,
    ]
}

/// Makes a Pod as a controller of the set would.
async fn make(stage: &Stage, owner: &Value) -> kube::Result<Pod> {
    let mut pod = template();
    pod["metadata"]["generateName"] = json!("web-");
    pod["metadata"]["ownerReferences"] = json!([owner]);
    let pod: Pod = serde_json::from_value(pod).unwrap();
    stage.pods.create(&PostParams::default(), &pod).await
}

/// A subset without nodes: the Pods take no room from those of others.
fn nowhere(name: &str, more: Value) -> Value {
    zone(name, "nowhere", more)
}

/// A Job that nobody works on: the test makes its Pods itself.
async fn owner(stage: &Stage) -> Value {
    let jobs: Api<k8s_openapi::api::batch::v1::Job> = stage.api();
    let mut template = template();
    template["spec"]["restartPolicy"] = json!("Never");
    let job = json!({"metadata": {"name": "web"}, "spec": {"suspend": true, "parallelism": 500, "managedBy": "tests.kruise.io/nobody", "template": template}});
    let job = jobs
        .create(&PostParams::default(), &serde_json::from_value(job).unwrap())
        .await
        .unwrap();
    json!({"apiVersion": "batch/v1", "kind": "Job", "name": "web", "uid": job.uid().unwrap(), "controller": true})
}

async fn given_fifty_pods_at_the_same_time_then_exactly_ten_are_in_the_first_subset(stage: Arc<Stage>) {
    if lacks(Feature::JobManagedBy) {
        return;
    }
    spread(
        &stage,
        "Job",
        json!([nowhere("a", json!({"maxReplicas": 10})), nowhere("b", json!({}))]),
    )
    .await;
    let owner = owner(&stage).await;
    let made = join_all((0..50).map(|_| make(&stage, &owner))).await;
    let made: Vec<Pod> = made.into_iter().map(Result::unwrap).collect();
    assert_eq!(counts(&made), of(&[("a", 10), ("b", 40)]));
    let ids = made
        .iter()
        .filter(|pod| pod.annotations()["apps.kruise.io/matched-workloadspread"].contains("uid"));
    assert_eq!(ids.count(), 10, "each place that is counted has an id");
    until_status(&stage, "all are counted", |status| {
        let first = &status["versionedSubsetStatuses"]["versionIgnored"][0];
        first["replicas"] == 10 && first["missingReplicas"] == 0 && first["creatingPods"].is_null()
    })
    .await;
}

async fn given_four_clients_that_make_pods_as_fast_as_they_can_then_no_subset_has_too_many(stage: Arc<Stage>) {
    const PODS: usize = 500;
    if lacks(Feature::JobManagedBy) {
        return;
    }
    let limited = |name: &str, most: i32| nowhere(name, json!({"maxReplicas": most}));
    let subsets = json!([limited("a", 60), limited("b", 40), nowhere("c", json!({}))]);
    spread(&stage, "Job", subsets).await;
    let owner = owner(&stage).await;
    let next = AtomicUsize::new(0);
    let client = || async {
        while next.fetch_add(1, Ordering::Relaxed) < PODS {
            // Too many at the same time is a reason to try again, as controllers do.
            eventually(PATIENCE, "a Pod is made", || async {
                make(&stage, &owner).await.map_err(NotYet::from)
            })
            .await;
        }
    };
    join_all((0..4).map(|_| client())).await;
    let pods = stage.until("web", "all are there", |pods| pods.len() == PODS).await;
    assert_eq!(counts(pods.values()), of(&[("a", 60), ("b", 40), ("c", PODS - 100)]));
}
