//! Both managers are replaced, one after the other, while Pods are created: none is refused, and none lacks its sidecars.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::{
    builders::{Fixture as _, pod},
    eventually::{NotYet, eventually, run_test},
    faults::Faults,
};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use super::world::{PATIENCE, World};

const SETS: usize = 20;
const PODS: usize = 1000;
/// Between two Pods: 200 each second, as far as the API server can follow.
const PACE: Duration = Duration::from_millis(5);
/// Pods that are asked for at the same time.
const AT_ONCE: usize = 100;

#[test]
fn given_a_rolling_restart_while_pods_are_created_then_none_is_refused_and_none_lacks_its_sidecars() {
    run_test(Duration::from_mins(10), async {
        let world = World::new("rolling").await;
        let first = world.ready(&Faults::new(1)).await;
        world.all_trust().await;
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "SidecarSet"));
        let sets: Api<DynamicObject> = Api::all_with(world.client.clone(), &kind);
        for number in 0..SETS {
            let name = format!("set-{number:02}");
            let container = json!({"name": format!("side-{number:02}"), "image": "side:1"});
            let set = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
                "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [container]}});
            let set: DynamicObject = serde_json::from_value(set).unwrap();
            sets.create(&PostParams::default(), &set).await.unwrap();
        }
        let pods: Api<Pod> = world.work.api();
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        eventually(PATIENCE, "the first manager knows all sets", || async {
            let found = sidecars(&pods.create(&dry_run, &web(PODS)).await?);
            (found == SETS)
                .then_some(())
                .ok_or_else(|| NotYet::new(found.to_string()))
        })
        .await;
        let second = world.ready(&Faults::new(2)).await;

        let creation = tokio::spawn(create_all(pods));
        let mut replicas = vec![first, second];
        for number in 3..5 {
            replicas.push(world.ready(&Faults::new(number)).await);
            world.stop(replicas.remove(0)).await;
        }
        let made = creation.await.unwrap();
        assert_eq!(made.len(), PODS);
        let refused: Vec<&String> = made.iter().filter_map(|made| made.as_ref().err()).collect();
        assert!(
            refused.is_empty(),
            "{} are refused: {:?}",
            refused.len(),
            refused.first()
        );
        let lacking = made.iter().flatten().filter(|found| **found != SETS);
        assert_eq!(lacking.count(), 0);
        for replica in replicas {
            world.stop(replica).await;
        }
    });
}

fn web(number: usize) -> Pod {
    pod(&format!("web-{number}")).label("app", "web").build()
}

/// How many sidecars a Pod has.
fn sidecars(pod: &Pod) -> usize {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .filter(|container| container.name.starts_with("side-"))
        .count()
}

/// Creates Pods at a steady pace; returns how many sidecars each got, or why it was refused.
async fn create_all(pods: Api<Pod>) -> Vec<Result<usize, String>> {
    let mut ticks = interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let begun = stream::unfold((ticks, 0), |(mut ticks, number)| async move {
        ticks.tick().await;
        (number < PODS).then_some((number, (ticks, number + 1)))
    });
    let made = begun.map(|number| {
        let pods = pods.clone();
        async move {
            let made = pods.create(&PostParams::default(), &web(number)).await;
            made.map(|pod| sidecars(&pod)).map_err(|error| error.to_string())
        }
    });
    made.buffer_unordered(AT_ONCE).collect().await
}
