//! The controllers die after any of their writes for a WorkloadSpread; their successors bring its Pods and its status to the same end.

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kruise_api::workloadspread::v1beta1::WorkloadSpread;
use kruise_testkit::{
    builders::{Fixture as _, cloneset},
    cluster,
    eventually::{NotYet, eventually, run_test},
    faults::Faults,
    namespace,
    sim::{SimOptions, SimulatedNodes},
    torture,
};
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{chart::Kinds, controllers::Controllers, world::World};

const PATIENCE: Duration = Duration::from_secs(90);
const AT_ONCE: usize = 4;
/// Crashes in an ordinary run.
const SAMPLE: u64 = 4;
const PODS: i32 = 4;

#[test]
fn given_a_crash_after_any_write_for_a_spread_then_its_pods_are_assigned_and_counted_all_the_same() {
    run_test(torture::deadline(Duration::from_mins(10)), async {
        let world = World::knowing(Kinds::All, &cluster::kubeconfig(), "crash-spread").await;
        let zone = |name: &str| [("topology.kubernetes.io/zone".to_owned(), name.to_owned())].into();
        let options = SimOptions {
            count: 2,
            name_prefix: "crash-spread".to_owned(),
            labels_in_turn: vec![zone("a"), zone("b")],
            ..SimOptions::default()
        };
        let nodes = SimulatedNodes::start(world.client.clone(), options).await.unwrap();
        let writes = attempt(&world, None).await;
        assert!(writes > 3, "{writes}");
        let crashes = stream::iter(torture::sample(1, writes, SAMPLE)).map(|write| attempt(&world, Some(write)));
        crashes.buffer_unordered(AT_ONCE).for_each(|_| async {}).await;
        nodes.stop().await.unwrap();
    });
}

/// Spreads the Pods of a set; the controllers die with a write, or do not. How many writes it took.
async fn attempt(world: &World, crash_after: Option<u64>) -> u64 {
    let work = namespace::fresh(&world.client, "crash-spread").await.unwrap();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "CloneSet"));
    let sets: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), work.name(), &kind);
    let set = serde_json::from_value(cloneset("web").replicas(PODS).json()).unwrap();
    sets.create(&PostParams::default(), &set).await.unwrap();
    let faults = Faults::new(1);
    let controllers = Controllers::start(work.name(), &faults).await;
    eventually(PATIENCE, "the set is available", || async {
        let set = sets.get("web").await?;
        let available = set.data["status"]["availableReplicas"] == PODS;
        available
            .then_some(())
            .ok_or_else(|| NotYet::new(format!("{:#}", set.data["status"])))
    })
    .await;
    let before = faults.writes();
    if let Some(write) = crash_after {
        faults.crash_after_writes(before + write);
    }
    let (spreads, pods): (Api<WorkloadSpread>, Api<Pod>) = (work.api(), work.api());
    spreads.create(&PostParams::default(), &spread()).await.unwrap();
    tokio::select! {
        () = faults.until_crashed() => {}
        () = comes_to_its_end(&pods, &spreads) => {}
    }
    let writes = faults.writes() - before;
    if crash_after.is_some() {
        crashes(&spreads, &faults).await;
        let successor = Controllers::start(work.name(), &Faults::new(2)).await;
        comes_to_its_end(&pods, &spreads).await;
        successor.stop().await;
    }
    controllers.stop().await;
    writes
}

/// A run may need a write less than the first one did, when two reports of the status become one. Then the spread is changed in a way that asks for nothing but
/// another report, until the crash has happened.
async fn crashes(spreads: &Api<WorkloadSpread>, faults: &Faults) {
    for filter in [json!({}), Value::Null].iter().cycle() {
        if faults.crashed() {
            return;
        }
        let change = Patch::Merge(json!({"spec": {"targetFilter": filter}}));
        let changed = spreads.patch("spread", &PatchParams::default(), &change).await.unwrap();
        let seen = eventually(PATIENCE, "the change is seen", || async {
            let status = json!(spreads.get("spread").await?.status);
            let is_seen = status["observedGeneration"].as_i64() >= changed.metadata.generation;
            is_seen.then_some(()).ok_or_else(|| NotYet::new(format!("{status:#}")))
        });
        tokio::select! {
            () = faults.until_crashed() => {}
            () = seen => {}
        }
    }
}

fn spread() -> WorkloadSpread {
    let zone = |zone: &str| json!({"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]});
    let object = json!({"metadata": {"name": "spread"}, "spec": {
        "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"},
        "subsets": [
            {"name": "a", "requiredNodeSelector": zone("a"), "patch": {"metadata": {"labels": {"tier": "a"}}}},
            {"name": "b", "requiredNodeSelector": zone("b")},
        ],
    }});
    serde_json::from_value(object).unwrap()
}

async fn comes_to_its_end(pods: &Api<Pod>, spreads: &Api<WorkloadSpread>) {
    eventually(PATIENCE, "all Pods are assigned and counted", || async {
        let pods = pods.list(&ListParams::default()).await?.items;
        let mut counts: BTreeMap<String, i32> = BTreeMap::new();
        for pod in &pods {
            let annotations = pod.annotations();
            let matched = annotations
                .get("apps.kruise.io/matched-workloadspread")
                .ok_or("a Pod without a subset")?;
            let matched: Value = serde_json::from_str(matched).unwrap();
            let subset = matched["subset"].as_str().unwrap_or_default().to_owned();
            let cost = annotations
                .get("controller.kubernetes.io/pod-deletion-cost")
                .map(String::as_str);
            let expected = if subset == "a" { "200" } else { "100" };
            let has_label = pod.labels().get("tier").is_some_and(|tier| tier == "a");
            if cost != Some(expected) || has_label != (subset == "a") {
                return Err(NotYet::new(format!("{annotations:?}")));
            }
            *counts.entry(subset).or_default() += 1;
        }
        let status = json!(spreads.get("spread").await?.status);
        let counted = |subset: &str, index: usize| {
            status["subsetStatuses"][index]["replicas"] == counts.get(subset).copied().unwrap_or_default()
        };
        let is_all = pods.len() == usize::try_from(PODS).unwrap() && counted("a", 0) && counted("b", 1);
        is_all
            .then_some(())
            .ok_or_else(|| NotYet::new(format!("{counts:?} {status:#}")))
    })
    .await;
}
