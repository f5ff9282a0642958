//! Two replicas of the webhook let Pods into the subsets of a WorkloadSpread as fast as clients ask, and what one of them knows from its watches is old. No subset ever
//! has more Pods than it may.
//!
//! An ordinary run makes a few Pods; a run of torture makes 500.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures::future::join_all;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kruise_api::workloadspread::v1beta1::WorkloadSpread;
use kruise_testkit::{
    cluster,
    eventually::{NotYet, eventually, run_test},
    faults::Faults,
    features::{Feature, lacks},
    torture,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};

use super::{chart::Kinds, world::World};

const PATIENCE: Duration = Duration::from_mins(2);
const CLIENTS: usize = 4;
/// Far more than a question takes.
const LATE: Duration = Duration::from_secs(3);
const SUBSETS: [(&str, usize); 2] = [("a", 12), ("b", 8)];

#[test]
fn given_two_replicas_and_one_with_an_old_cache_then_no_subset_has_more_pods_than_it_may() {
    if lacks(Feature::JobManagedBy) {
        return;
    }
    run_test(torture::deadline(Duration::from_mins(5)), async {
        let count = if torture::is_on() { 500 } else { 60 };
        let world = World::knowing(Kinds::All, &cluster::kubeconfig(), "spread-replicas").await;
        let one = world.ready(&Faults::new(1)).await;
        world.all_trust().await;
        let owner = owner(&world).await;
        spread(&world).await;
        // It begins with what is there, and hears everything late from then on.
        let late = Faults::new(2);
        let other = world.ready(&late).await;
        late.delay_watches(LATE);
        let before = [one.sum(ANSWERED).await, other.sum(ANSWERED).await];

        let pods: Api<Pod> = world.work.api();
        let open = AtomicUsize::new(count);
        join_all((0..CLIENTS).map(|_| make_many(&pods, &owner, &open))).await;
        let expected = count - SUBSETS.iter().map(|(_, most)| most).sum::<usize>();
        let expected = of(&[("a", SUBSETS[0].1), ("b", SUBSETS[1].1), ("c", expected)]);
        assert_eq!(counts(&pods).await, expected, "places were given twice, or not at all");

        // Pods that go make room; whoever comes then finds it, or goes on to the last subset. None comes twice for one place.
        let limited = pods.list(&labelled()).await.unwrap().items.into_iter();
        let limited: Vec<Pod> = limited.filter(|pod| subset_of(pod) != "c").collect();
        let shares = limited.chunks(limited.len().div_ceil(CLIENTS));
        join_all(shares.map(|share| replace_all(&pods, &owner, share))).await;
        let found = counts(&pods).await;
        for (subset, most) in SUBSETS {
            let there = found.get(subset).copied().unwrap_or_default();
            assert!(there <= most, "{there} in {subset}, which may have {most}: {found:?}");
        }
        assert_eq!(found.values().sum::<usize>(), count, "{found:?}");
        let after = [one.sum(ANSWERED).await, other.sum(ANSWERED).await];
        assert!(
            after[0] > before[0] && after[1] > before[1],
            "both were asked: {before:?}, {after:?}"
        );
        world.stop(one).await;
        world.stop(other).await;
    });
}

/// Requests that a replica has answered.
const ANSWERED: &str = "controller_runtime_webhook_requests_total";

fn labelled() -> ListParams {
    ListParams::default().labels("app=web")
}

/// A subset with nodes that are not there: nobody has to run the Pods.
fn subset(name: &str, most: Option<usize>) -> Value {
    let nowhere = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["nowhere"]});
    json!({"name": name, "maxReplicas": most, "requiredNodeSelector": {"matchExpressions": [nowhere]}})
}

/// Creates the spread, and returns when it was counted.
async fn spread(world: &World) {
    let spreads: Api<WorkloadSpread> = world.work.api();
    let limited = SUBSETS.iter().map(|(name, most)| subset(name, Some(*most)));
    let subsets: Vec<Value> = limited.chain([subset("c", None)]).collect();
    let target = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "web"});
    let object = json!({"metadata": {"name": "spread"}, "spec": {"targetRef": target, "subsets": subsets}});
    let object = serde_json::from_value(object).unwrap();
    spreads.create(&PostParams::default(), &object).await.unwrap();
    eventually(PATIENCE, "the spread is counted", || async {
        let spread = spreads.get("spread").await?;
        let is_counted = spread
            .status
            .as_ref()
            .is_some_and(|status| !status.subset_statuses.is_empty());
        is_counted
            .then_some(())
            .ok_or_else(|| NotYet::new(format!("{:?}", spread.status)))
    })
    .await;
}

/// A Job that nobody works on: its Pods are made here.
async fn owner(world: &World) -> Value {
    let jobs: Api<Job> = world.work.api();
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "nginx:1"}]}});
    let spec =
        json!({"suspend": true, "parallelism": 500, "managedBy": "tests.kruise.io/nobody", "template": template});
    let job = json!({"metadata": {"name": "web"}, "spec": spec});
    let job = serde_json::from_value(job).unwrap();
    let job = jobs.create(&PostParams::default(), &job).await.unwrap();
    json!({"apiVersion": "batch/v1", "kind": "Job", "name": "web", "uid": job.uid(), "controller": true})
}

/// Makes a Pod as a controller would, which tries again.
async fn make(pods: &Api<Pod>, owner: &Value) {
    let pod = json!({
        "metadata": {"generateName": "web-", "labels": {"app": "web"}, "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}], "terminationGracePeriodSeconds": 0},
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    eventually(PATIENCE, "a Pod is made", || async {
        pods.create(&PostParams::default(), &pod).await.map_err(NotYet::from)
    })
    .await;
}

async fn make_many(pods: &Api<Pod>, owner: &Value, open: &AtomicUsize) {
    let next = || open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
    while next().is_ok() {
        make(pods, owner).await;
    }
}

/// Deletes each of these Pods, and makes another.
async fn replace_all(pods: &Api<Pod>, owner: &Value, old: &[Pod]) {
    for pod in old {
        let name = pod.name_any();
        eventually(PATIENCE, "a Pod is deleted", || async {
            pods.delete(&name, &DeleteParams::default())
                .await
                .map(drop)
                .map_err(NotYet::from)
        })
        .await;
        make(pods, owner).await;
    }
}

fn subset_of(pod: &Pod) -> String {
    let text = pod.annotations().get("apps.kruise.io/matched-workloadspread");
    let matched: Value = text.map(|text| serde_json::from_str(text).unwrap()).unwrap_or_default();
    matched["subset"].as_str().unwrap_or_default().to_owned()
}

async fn counts(pods: &Api<Pod>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for pod in pods.list(&labelled()).await.unwrap().items {
        *counts.entry(subset_of(&pod)).or_default() += 1;
    }
    counts
}

fn of(counts: &[(&str, usize)]) -> BTreeMap<String, usize> {
    counts
        .iter()
        .map(|(name, count)| ((*name).to_owned(), *count))
        .collect()
}
