//! Big objects do not need memory all at once.

use std::process::Command;
use std::time::Duration;

use futures::StreamExt as _;
use kruise_api::meta::PartialObject;
use kruise_runtime::cache::{Cache, CacheOptions, Kind};
use kruise_testkit::cluster;
use kruise_testkit::eventually::run_test;
use kube::Client;
use prometheus::Registry;
use serde_json::json;

use crate::support::{CONFIG_MAPS, Running, config, config_map, in_world};

const OBJECTS: usize = 200;
const TEST: &str = "memory::given_two_hundred_objects_of_a_megabyte_then_a_cache_of_their_metadata_stays_small";
/// The namespace to list, for the process that is measured.
const LISTS: &str = "KRUISE_TEST_LISTS";

#[test]
fn given_two_hundred_objects_of_a_megabyte_then_a_cache_of_their_metadata_stays_small() {
    if let Ok(namespace) = std::env::var(LISTS) {
        return list(namespace);
    }
    in_world("cache-big", |world| async move {
        let hand = world.hand();
        let created = futures::stream::iter(0..OBJECTS)
            .map(|number| {
                let (hand, namespace) = (hand.clone(), world.ns().to_owned());
                async move {
                    let data = json!({ "big": "x".repeat(1_000_000) });
                    let body = config_map(&namespace, &format!("m{number:03}"), &data);
                    hand.create(CONFIG_MAPS, &namespace, body).await.map(drop)
                }
            })
            .buffer_unordered(4);
        let results: Vec<_> = created.collect().await;
        results
            .into_iter()
            .collect::<Result<Vec<_>, _>>()
            .expect("all are created");
        // A process of its own, whose memory is nobody else's.
        let mut measured = Command::new(std::env::current_exe().expect("this program"));
        measured.args(["--exact", TEST, "--nocapture"]);
        measured
            .env(LISTS, world.ns())
            .env(cluster::KUBECONFIG, cluster::kubeconfig());
        let output = tokio::task::spawn_blocking(move || measured.output())
            .await
            .expect("a thread");
        let output = output.expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{text}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        println!(
            "{}",
            text.lines()
                .find(|line| line.contains("KB at most"))
                .unwrap_or_default()
        );
    });
}

/// Lists the namespace and looks at the most memory that this took.
fn list(namespace: String) {
    run_test(Duration::from_mins(2), async move {
        let client = Client::try_from(config().await).expect("a client");
        let options = CacheOptions {
            namespace,
            ..CacheOptions::default()
        };
        let mut cache = Cache::new(client, options, &Registry::new()).expect("metrics");
        let objects = cache.watch(Kind::<PartialObject>::partial(CONFIG_MAPS));
        let _running = Running::start(cache).await;
        assert!(objects.len() >= OBJECTS, "{}", objects.len());
        let status = std::fs::read_to_string("/proc/self/status").expect("the status of this process");
        let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let most: usize = most
            .and_then(|text| text.split_whitespace().next()?.parse().ok())
            .expect("a number");
        println!("{OBJECTS} objects of a megabyte: {most} KB at most");
        assert!(most < 100_000, "{most} KB");
    });
}
