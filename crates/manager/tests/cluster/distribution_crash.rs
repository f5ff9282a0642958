//! The controllers die after any of their writes for a ResourceDistribution; their successors bring all copies to the same end.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kruise_testkit::{
    cluster,
    eventually::{NotYet, eventually, run_test},
    faults::Faults,
    namespace, torture,
};
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{
    chart::{Kinds, api, name},
    controllers::Controllers,
    world::World,
};

const PATIENCE: Duration = Duration::from_secs(90);
/// Crashes in an ordinary run: one after each write.
const SAMPLE: u64 = 6;
const FLAGS: &[&str] = &["--feature-gates=ResourceDistributionGate=true,KruiseDaemon=false"];

#[test]
fn given_a_crash_after_any_write_of_a_distribution_then_copies_end_where_they_should_be() {
    run_test(torture::deadline(Duration::from_mins(10)), async {
        let world = World::knowing(Kinds::All, &cluster::kubeconfig(), "crash-distribution").await;
        // Nobody answers webhooks here, and those of the cluster's own kinds reach everywhere.
        for object in world
            .objects
            .iter()
            .filter(|object| object["kind"] == "ValidatingWebhookConfiguration")
        {
            api(&world.client, object)
                .delete(&name(object), &DeleteParams::default())
                .await
                .unwrap();
        }
        let writes = attempt(&world, 0, None).await;
        // A copy is made, one is changed, one is deleted, and the status is written.
        assert!(writes >= 4, "{writes}");
        for write in torture::sample(1, writes, SAMPLE) {
            attempt(&world, write, Some(write)).await;
        }
    });
}

/// Makes, changes and deletes copies at once; the controllers die with a write of that, or do not. How many writes it took.
async fn attempt(world: &World, number: u64, crash_after: Option<u64>) -> u64 {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "apps.kruise.io",
        "v1beta1",
        "ResourceDistribution",
    ));
    let all: Api<DynamicObject> = Api::all_with(world.client.clone(), &kind);
    let subject = format!("{}-{number}", world.work.name());
    let mut spaces = Vec::new();
    for _ in 0..3 {
        spaces.push(namespace::fresh(&world.client, "crash").await.unwrap());
    }
    let targets = |chosen: &[usize]| {
        let list: Vec<Value> = chosen
            .iter()
            .map(|place| json!({"name": spaces[*place].name()}))
            .collect();
        json!({"includedNamespaces": {"list": list}})
    };
    let resource = |text: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": subject}, "data": {"k": text}});
    let object = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "ResourceDistribution", "metadata": {"name": subject},
        "spec": {"resource": resource("v1"), "targets": targets(&[0, 1])},
    });
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    all.create(&PostParams::default(), &object).await.unwrap();

    let ends = async |text: &str, with: [bool; 3]| {
        eventually(PATIENCE, &format!("all is well after {crash_after:?}"), || async {
            let object = all.get(&subject).await?;
            let status = &object.data["status"];
            let is_seen = status["observedGeneration"].as_i64() == object.metadata.generation;
            let mut found = Vec::new();
            for space in &spaces {
                let maps: Api<ConfigMap> = space.api();
                let ours = maps
                    .list(&ListParams::default())
                    .await?
                    .items
                    .into_iter()
                    .find(|map| map.name_any() == subject);
                found.push(ours.map(|map| json!(map.data)["k"].clone()));
            }
            let expected = with.map(|is_there| is_there.then(|| json!(text)));
            (is_seen && status["succeeded"] == 2 && found == expected)
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{found:?} {status:#}")))
        })
        .await;
    };
    let faults = Faults::new(1);
    let controllers = Controllers::start_with("", &faults, FLAGS).await;
    ends("v1", [true, true, false]).await;
    let before = faults.writes();
    if let Some(write) = crash_after {
        faults.crash_after_writes(before + write);
    }
    let change = Patch::Merge(json!({"spec": {"resource": resource("v2"), "targets": targets(&[1, 2])}}));
    all.patch(&subject, &PatchParams::default(), &change).await.unwrap();
    tokio::select! {
        () = faults.until_crashed() => {}
        () = ends("v2", [false, true, true]) => {}
    }
    let writes = faults.writes() - before;
    if crash_after.is_some() {
        assert!(faults.crashed(), "no crash after {crash_after:?}");
        let successor = Controllers::start_with("", &Faults::new(2), FLAGS).await;
        ends("v2", [false, true, true]).await;
        successor.stop().await;
    }
    controllers.stop().await;
    all.delete(&subject, &DeleteParams::background()).await.unwrap();
    writes
}
