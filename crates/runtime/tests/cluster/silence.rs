//! A server, or what is in front of it, that does not answer any more.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kruise_runtime::back_off::BackOff;
use kruise_runtime::cache::{Cache, CacheOptions, Kind};
use kruise_testkit::faults::{Cut, Fault, When};
use serde_json::json;

use crate::support::{Running, World, holds, in_world};

/// A cache that does not wait long for answers.
fn impatient(world: &World) -> Cache {
    let options = CacheOptions {
        namespace: world.ns().to_owned(),
        back_off: BackOff::new(Duration::from_millis(20), Duration::from_millis(200)),
        deadline: Duration::from_secs(1),
        ..CacheOptions::default()
    };
    Cache::new(world.program.clone(), options, &world.registry).expect("metrics")
}

fn maps() -> Kind<ConfigMap> {
    Kind::<ConfigMap>::of().fields("metadata.name!=kube-root-ca.crt")
}

#[test]
fn given_a_list_that_is_never_answered_then_it_is_asked_for_again() {
    in_world("silent-list", |world| async move {
        world.create_map("a", &json!({})).await;
        let unanswered = When::verb("list").on("configmaps").times(2);
        world.faults.inject(unanswered, Fault::Unanswered);
        let mut cache = impatient(&world);
        let store = cache.watch(maps());
        let _running = Running::start(cache).await;
        holds(&store, &["a"]).await;
        world
            .metric("kruise_cache_errors_total{at=\"list\",kind=\"configmaps\"} 2")
            .await;
    });
}

#[test]
fn given_a_watch_whose_opening_is_never_answered_then_it_is_opened_again_and_nothing_is_missed() {
    in_world("silent-watch", |world| async move {
        let unanswered = When::verb("watch").on("configmaps").times(2);
        world.faults.inject(unanswered.clone(), Fault::Unanswered);
        let mut cache = impatient(&world);
        let store = cache.watch(maps());
        let _running = Running::start(cache).await;
        world.create_map("a", &json!({})).await;
        holds(&store, &["a"]).await;
        world
            .metric("kruise_cache_errors_total{at=\"watch-start\",kind=\"configmaps\"} 2")
            .await;
        // The same when a watch is resumed.
        world.faults.inject(unanswered, Fault::Unanswered);
        world.faults.cut_watches(Some("configmaps"), Cut::Closed);
        world.create_map("b", &json!({})).await;
        holds(&store, &["a", "b"]).await;
        assert_eq!(store.position().list_done, 1, "by the watch alone");
    });
}
