//! The controllers die after any of their writes for a PodUnavailableBudget; their successors tell its Pods, count it, and forget places all the same.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kruise_api::podunavailablebudget::v1beta1::PodUnavailableBudget;
use kruise_testkit::{
    builders::{Fixture as _, cloneset},
    eventually::{NotYet, eventually, run_test},
    faults::Faults,
    namespace::{self, FreshNamespace},
    sim::{SimOptions, SimulatedNodes},
    torture,
};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{controllers::Controllers, world::World};

const PATIENCE: Duration = Duration::from_secs(90);
const AT_ONCE: usize = 4;
/// Crashes in an ordinary run.
const SAMPLE: u64 = 4;
const PODS: usize = 3;

#[test]
fn given_a_crash_after_any_write_for_a_budget_then_it_covers_its_pods_and_counts_them_all_the_same() {
    run_test(torture::deadline(Duration::from_mins(10)), async {
        let world = World::new("crash-pub").await;
        let options = SimOptions {
            count: 1,
            name_prefix: "crash-pub".to_owned(),
            ..SimOptions::default()
        };
        let nodes = SimulatedNodes::start(world.client.clone(), options).await.unwrap();
        let writes = attempt(&world, None).await;
        assert!(writes > PODS as u64, "{writes}");
        let crashes = stream::iter(torture::sample(1, writes, SAMPLE)).map(|write| attempt(&world, Some(write)));
        crashes.buffer_unordered(AT_ONCE).for_each(|_| async {}).await;
        nodes.stop().await.unwrap();
    });
}

/// Makes a budget over the Pods of a set; the controllers die with a write, or do not. How many writes it took.
async fn attempt(world: &World, crash_after: Option<u64>) -> u64 {
    let work = namespace::fresh(&world.client, "crash-pub").await.unwrap();
    let sets: Api<DynamicObject> = Api::namespaced_with(
        world.client.clone(),
        work.name(),
        &kube::api::ApiResource::from_gvk(&kube::api::GroupVersionKind::gvk(
            "apps.kruise.io",
            "v1beta1",
            "CloneSet",
        )),
    );
    let set = cloneset("web").replicas(i32::try_from(PODS).unwrap());
    let set = serde_json::from_value(set.json()).unwrap();
    sets.create(&PostParams::default(), &set).await.unwrap();
    let faults = Faults::new(1);
    let controllers = Controllers::start(work.name(), &faults).await;
    eventually(PATIENCE, "the set is available", || async {
        let status = sets.get("web").await?.data["status"].clone();
        let is_available = status["availableReplicas"] == PODS;
        is_available
            .then_some(())
            .ok_or_else(|| NotYet::new(status.to_string()))
    })
    .await;
    let before = faults.writes();
    if let Some(write) = crash_after {
        faults.crash_after_writes(before + write);
    }
    let budgets: Api<PodUnavailableBudget> = work.api();
    let target = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"});
    let budget = json!({"metadata": {"name": "budget"}, "spec": {"targetRef": target, "maxUnavailable": 1}});
    budgets
        .create(&PostParams::default(), &serde_json::from_value(budget).unwrap())
        .await
        .unwrap();
    tokio::select! {
        () = faults.until_crashed() => {}
        () = story(&work) => {}
    }
    let writes = faults.writes() - before;
    if crash_after.is_some() {
        // A run may need a write less than the first one did.
        while !faults.crashed() {
            tokio::select! {
                () = faults.until_crashed() => {}
                () = story(&work) => {}
            }
        }
        let successor = Controllers::start(work.name(), &Faults::new(2)).await;
        story(&work).await;
        successor.stop().await;
    }
    controllers.stop().await;
    writes
}

/// Its Pods are told and counted; a place that nobody uses is forgotten.
async fn story(work: &FreshNamespace) {
    is_well(work).await;
    let pods: Api<Pod> = work.api();
    let one = pods.list(&ListParams::default()).await.unwrap().items.swap_remove(0);
    let long_ago = Timestamp::now() - SignedDuration::from_secs(18);
    let place = json!({"status": {"disruptedPods": {(one.name_any()): long_ago.to_string()}, "unavailableAllowed": 0}});
    let budgets: Api<PodUnavailableBudget> = work.api();
    budgets
        .patch_status("budget", &PatchParams::default(), &Patch::Merge(place))
        .await
        .unwrap();
    is_well(work).await;
}

async fn is_well(work: &FreshNamespace) {
    let (pods, budgets): (Api<Pod>, Api<PodUnavailableBudget>) = (work.api(), work.api());
    eventually(PATIENCE, "the budget covers its Pods and is counted", || async {
        let status = budgets.get("budget").await?.status.unwrap_or_default();
        let named = pods.list(&ListParams::default()).await?.items;
        let is_told = |pod: &Pod| {
            ["pub.kruise.io/related-pub", "kruise.io/related-pub"]
                .iter()
                .all(|key| pod.annotations().get(*key).is_some_and(|name| name == "budget"))
        };
        let told = named.iter().filter(|pod| is_told(pod)).count();
        let is_free = status.disrupted_pods.is_empty() && status.unavailable_allowed == 1;
        (told == PODS && is_free)
            .then_some(())
            .ok_or_else(|| NotYet::new(format!("{told} are told, {status:?}")))
    })
    .await;
}
