//! The cache: index, re-list, deletions that nobody watched, kinds that come late, objects that cannot be read, many objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kruise_api::resource::{Preconditions, Resource, Scope};
use kruise_runtime::cache::{Cache, CacheOptions, Index, Kind, Named, SyncState, Version};
use kruise_runtime::writer::{DeleteOptions, Patch, Target};
use kruise_testkit::eventually::eventually;
use kruise_testkit::faults::{Cut, Fault, When};
use kube::api::{Api, DeleteParams, PostParams};
use prometheus::Registry;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{CONFIG_MAPS, PATIENCE, Running, World, config_map, holds, in_world};

const BY_COLOUR: Index<ConfigMap> = Index::new("colour", |map, key| {
    if let Some(colour) = map.data.as_ref().and_then(|data| data.get("colour")) {
        key(colour);
    }
});

async fn delete(world: &World, name: &str) {
    let target = Target::new(CONFIG_MAPS, world.ns(), name);
    world
        .hand()
        .delete(&target, &DeleteOptions::default())
        .await
        .expect("deleted");
}

async fn paint(world: &World, name: &str, colour: &str) {
    let patch = Patch::Merge(json!({ "data": { "colour": colour } }));
    let target = Target::new(CONFIG_MAPS, world.ns(), name);
    world
        .hand()
        .patch(&target, patch, &Preconditions::NONE)
        .await
        .expect("painted");
}

#[test]
fn given_objects_that_come_change_and_go_then_the_cache_and_its_indexes_follow() {
    in_world("cache-follows", |world| async move {
        world.create_map("a", &json!({ "colour": "red" })).await;
        world.create_map("b", &json!({ "colour": "blue" })).await;
        let (store, _running) = world.watch_config_maps(Kind::<ConfigMap>::of().index(&BY_COLOUR)).await;
        holds(&store, &["a", "b"]).await;
        let reds = || -> Vec<_> {
            let reds = store.by(&BY_COLOUR, "red");
            reds.iter().filter_map(|map| map.metadata.name.clone()).collect()
        };
        assert_eq!(reds(), ["a"]);
        world.create_map("c", &json!({ "colour": "red" })).await;
        paint(&world, "a", "green").await;
        delete(&world, "b").await;
        holds(&store, &["a", "c"]).await;
        eventually(PATIENCE, "only c is red", || async {
            if reds() == ["c"] {
                Ok(())
            } else {
                Err(format!("{:?}", reds()).into())
            }
        })
        .await;
        assert!(store.by(&BY_COLOUR, "blue").is_empty());
        let version = store
            .get(world.ns(), "c")
            .and_then(|map| map.metadata.resource_version.clone());
        let version: u64 = version.expect("a version").parse().expect("a number");
        assert!(store.position().version >= version);
        world.metric("kruise_cache_objects{kind=\"configmaps\"} 2").await;
    });
}

#[test]
fn given_a_watch_that_expired_then_a_new_list_shows_what_was_deleted_meanwhile() {
    in_world("cache-410", |world| async move {
        for name in ["a", "b", "c"] {
            world.create_map(name, &json!({})).await;
        }
        let (store, _running) = world.watch_config_maps(Kind::of()).await;
        holds(&store, &["a", "b", "c"]).await;
        let kept = store.get(world.ns(), "c").expect("c");
        let gone = Arc::new(AtomicUsize::new(0));
        let counted = gone.clone();
        store.subscribe(move |event| {
            if event.new.is_none() {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        // Nothing can be listed until the deletions are done, so the watch cannot tell of them.
        world
            .faults
            .inject(When::verb("list").on("configmaps"), Fault::Refuse(503));
        world.faults.cut_watches(Some("configmaps"), Cut::Expired);
        world
            .metric("kruise_cache_errors_total{at=\"watch-expired\",kind=\"configmaps\"} 1")
            .await;
        delete(&world, "a").await;
        delete(&world, "b").await;
        world.create_map("d", &json!({})).await;
        assert_eq!(store.len(), 3, "nobody could tell yet");
        world.faults.heal();
        holds(&store, &["c", "d"]).await;
        assert_eq!(gone.load(Ordering::Relaxed), 2, "each deletion is told");
        assert!(
            Arc::ptr_eq(&kept, &store.get(world.ns(), "c").expect("c")),
            "what did not change is not replaced"
        );
        world.metric("kruise_cache_lists_total{kind=\"configmaps\"} 2").await;
        assert_eq!(store.position().list_done, store.position().list_begun);
    });
}

#[test]
fn given_a_watch_that_broke_then_it_is_resumed_without_a_list() {
    in_world("cache-resumes", |world| async move {
        world.create_map("a", &json!({})).await;
        let (store, _running) = world.watch_config_maps(Kind::of()).await;
        world
            .faults
            .inject(When::verb("watch").on("configmaps").times(3), Fault::Refuse(500));
        world.faults.cut_watches(Some("configmaps"), Cut::Closed);
        delete(&world, "a").await;
        world.create_map("b", &json!({})).await;
        holds(&store, &["b"]).await;
        assert_eq!(store.position().list_done, 1);
        assert_eq!(world.faults.count("list", "configmaps"), 1);
    });
}

#[test]
fn given_a_server_that_refuses_to_resume_at_our_version_then_it_is_listed_anew() {
    in_world("cache-resume-410", |world| async move {
        world.create_map("a", &json!({})).await;
        let (store, _running) = world.watch_config_maps(Kind::of()).await;
        // As an answer, not as an event: kube's watcher would try the same version for ever.
        world
            .faults
            .inject(When::verb("watch").on("configmaps").times(1), Fault::Refuse(410));
        world.faults.cut_watches(Some("configmaps"), Cut::Closed);
        world.create_map("b", &json!({})).await;
        holds(&store, &["a", "b"]).await;
        assert_eq!(store.position().list_done, 2);
    });
}

#[test]
fn given_late_events_then_the_cache_is_late_and_then_right() {
    in_world("cache-late", |world| async move {
        let (store, _running) = world.watch_config_maps(Kind::of()).await;
        world.faults.hold_watches();
        world.create_map("a", &json!({})).await;
        world.create_map("b", &json!({})).await;
        delete(&world, "a").await;
        assert!(store.is_empty());
        world.faults.release_watches();
        holds(&store, &["b"]).await;
    });
}

/// A kind of which only a number is of interest.
#[derive(Debug, Deserialize)]
struct Gadget {
    metadata: Meta,
    spec: GadgetSpec,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
}

#[derive(Debug, Deserialize)]
struct GadgetSpec {
    number: u32,
}

fn gadgets(group: &'static str) -> Kind<Gadget> {
    fn name(gadget: &Gadget) -> Named<'_> {
        Named {
            namespace: &gadget.metadata.namespace,
            name: &gadget.metadata.name,
        }
    }
    fn version(gadget: &Gadget) -> Version {
        Version {
            uid: gadget.metadata.uid.as_str().into(),
            resource_version: gadget.metadata.resource_version.parse().unwrap_or(0),
            deleting: false,
        }
    }
    Kind::projected(
        Resource::interned(&format!("{group}/v1"), "Gadget", "gadgets", Scope::Namespaced),
        name,
        version,
    )
}

/// A CRD that is deleted at the end.
struct Definition {
    api: Api<CustomResourceDefinition>,
    name: String,
}

impl Definition {
    async fn create(world: &World, group: &str) -> Self {
        let name = format!("gadgets.{group}");
        let schema = json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": name },
            "spec": { "group": group, "scope": "Namespaced",
                      "names": { "kind": "Gadget", "plural": "gadgets", "singular": "gadget", "listKind": "GadgetList" },
                      "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }] },
        });
        let api: Api<CustomResourceDefinition> = Api::all(world.client.clone());
        let crd = serde_json::from_value(crd).expect("a CRD");
        api.create(&PostParams::default(), &crd).await.expect("created");
        Self { api, name }
    }

    async fn remove(self) {
        self.api
            .delete(&self.name, &DeleteParams::default())
            .await
            .expect("deleted");
    }
}

async fn put_gadget(world: &World, group: &'static str, name: &str, number: Value) {
    let resource = Resource::interned(&format!("{group}/v1"), "Gadget", "gadgets", Scope::Namespaced);
    let spec = json!({ "number": number });
    let object = json!({ "apiVersion": format!("{group}/v1"), "kind": "Gadget",
                         "metadata": { "name": name, "namespace": world.ns() }, "spec": spec });
    eventually(PATIENCE, "the gadget is written", || async {
        let created = world.hand().create(resource, world.ns(), object.to_string()).await;
        let Err(error) = created else {
            return Ok(());
        };
        if error.is_already_exists() {
            let target = Target::new(resource, world.ns(), name);
            let patch = Patch::Merge(json!({ "spec": spec }));
            world
                .hand()
                .patch(&target, patch, &Preconditions::NONE)
                .await
                .expect("patched");
            return Ok(());
        }
        // The server needs a moment after its CRD is made.
        Err(error.to_string().into())
    })
    .await;
}

#[test]
fn given_a_kind_whose_crd_comes_late_then_the_others_do_not_wait_and_it_appears() {
    in_world("cache-late-crd", |world| async move {
        const GROUP: &str = "late.example.com";
        world.create_map("a", &json!({})).await;
        let mut cache = world.cache();
        let late = cache.watch(gadgets(GROUP));
        let maps = cache.watch(Kind::<ConfigMap>::of().fields("metadata.name!=kube-root-ca.crt"));
        let syncing = cache.syncing();
        let _running = Running::start(cache).await;
        assert_eq!(syncing.missing(), [format!("gadgets.{GROUP}")]);
        assert_eq!((late.state(), maps.state()), (SyncState::Missing, SyncState::Synced));
        holds(&maps, &["a"]).await;
        let missing = |value| format!("kruise_cache_kind_missing{{kind=\"gadgets.{GROUP}\"}} {value}");
        world.metric(&missing(1)).await;
        let definition = Definition::create(&world, GROUP).await;
        put_gadget(&world, GROUP, "g", json!(7)).await;
        eventually(PATIENCE, "the gadget is in the cache", || async {
            let gadget = late.get(world.ns(), "g").ok_or("not there")?;
            assert_eq!(gadget.spec.number, 7);
            Ok(())
        })
        .await;
        assert_eq!(late.state(), SyncState::Synced);
        world.metric(&missing(0)).await;
        definition.remove().await;
    });
}

#[test]
fn given_a_kind_that_is_named_later_then_it_is_watched_until_nobody_needs_it() {
    in_world("cache-latecomer", |world| async move {
        const GROUP: &str = "named.example.com";
        world.create_map("a", &json!({})).await;
        let mut cache = world.cache();
        let maps = cache.watch(Kind::<ConfigMap>::of().fields("metadata.name!=kube-root-ca.crt"));
        let (late, contact) = (cache.late_watches(), cache.contact());
        let _running = Running::start(cache).await;
        // Its CRD is not there yet.
        let (gadgets, watch) = late.watch(gadgets(GROUP));
        let kept = |value| format!("kruise_cache_objects{{kind=\"gadgets.{GROUP}\"}} {value}");
        world
            .metric(&format!("kruise_cache_kind_missing{{kind=\"gadgets.{GROUP}\"}} 1"))
            .await;
        let definition = Definition::create(&world, GROUP).await;
        put_gadget(&world, GROUP, "g", json!(7)).await;
        world.metric(&kept(1)).await;
        assert_eq!(gadgets.get(world.ns(), "g").expect("there").spec.number, 7);
        drop(watch);
        world.metric(&kept(0)).await;
        // The others go on, and nobody misses it.
        world.create_map("b", &json!({})).await;
        holds(&maps, &["a", "b"]).await;
        assert_eq!(contact.check(), Ok(()));
        definition.remove().await;
    });
}

#[test]
fn given_objects_that_cannot_be_read_then_they_are_counted_and_the_others_are_there() {
    in_world("cache-unreadable", |world| async move {
        const GROUP: &str = "unreadable.example.com";
        let definition = Definition::create(&world, GROUP).await;
        put_gadget(&world, GROUP, "bad", json!("seven")).await;
        put_gadget(&world, GROUP, "good", json!(7)).await;
        let mut cache = world.cache();
        let store = cache.watch(gadgets(GROUP));
        let _running = Running::start(cache).await;
        let unreadable = |value| format!("kruise_cache_unreadable_objects{{kind=\"gadgets.{GROUP}\"}} {value}");
        let number = |name: &'static str, expected: Option<u32>| {
            let store = store.clone();
            let namespace = world.ns().to_owned();
            async move {
                eventually(PATIENCE, "the number", || async {
                    let number = store.get(&namespace, name).map(|gadget| gadget.spec.number);
                    if number == expected {
                        Ok(())
                    } else {
                        Err(format!("{name}: {number:?}, not {expected:?}").into())
                    }
                })
                .await;
            }
        };
        number("good", Some(7)).await;
        number("bad", None).await;
        world.metric(&unreadable(1)).await;
        // It is mended, and the other one is spoilt: its last readable version stays.
        put_gadget(&world, GROUP, "bad", json!(8)).await;
        number("bad", Some(8)).await;
        world.metric(&unreadable(0)).await;
        put_gadget(&world, GROUP, "good", json!({ "nested": true })).await;
        world.metric(&unreadable(1)).await;
        number("good", Some(7)).await;
        // A new list does not change that, and what comes later is seen.
        world.faults.cut_watches(None, Cut::Expired);
        put_gadget(&world, GROUP, "third", json!(3)).await;
        number("third", Some(3)).await;
        number("good", Some(7)).await;
        world.metric(&unreadable(1)).await;
        let resource = Resource::interned(&format!("{GROUP}/v1"), "Gadget", "gadgets", Scope::Namespaced);
        let target = Target::new(resource, world.ns(), "good");
        world
            .hand()
            .delete(&target, &DeleteOptions::default())
            .await
            .expect("deleted");
        number("good", None).await;
        world.metric(&unreadable(0)).await;
        definition.remove().await;
    });
}

#[test]
fn given_one_namespace_then_only_its_objects_and_those_of_the_cluster_are_seen() {
    in_world("cache-namespace", |world| async move {
        let other = kruise_testkit::namespace::fresh(&world.client, "cache-other")
            .await
            .expect("a namespace");
        let elsewhere = config_map(other.name(), "elsewhere", &json!({}));
        world
            .hand()
            .create(CONFIG_MAPS, other.name(), elsewhere)
            .await
            .expect("created");
        world.create_map("here", &json!({})).await;
        let mut cache = world.cache();
        let maps = cache.watch(Kind::<ConfigMap>::of());
        let namespaces = cache.watch(Kind::<k8s_openapi::api::core::v1::Namespace>::of());
        let _running = Running::start(cache).await;
        assert!(maps.get(world.ns(), "here").is_some());
        assert!(maps.get(other.name(), "elsewhere").is_none());
        assert!(
            namespaces.get("", other.name()).is_some(),
            "kinds of the cluster stay visible"
        );

        let mut whole = Cache::new(world.program.clone(), CacheOptions::default(), &Registry::new()).expect("metrics");
        let everywhere = whole.watch(Kind::<ConfigMap>::of());
        let _running = Running::start(whole).await;
        assert!(everywhere.get(other.name(), "elsewhere").is_some());
    });
}

#[test]
fn given_two_thousand_objects_then_all_are_listed_in_pages_and_followed() {
    in_world("cache-many", |world| async move {
        const MANY: usize = 2000;
        let hand = world.hand();
        let created = futures::stream::iter(0..MANY)
            .map(|number| {
                let (hand, namespace) = (hand.clone(), world.ns().to_owned());
                let body = config_map(
                    &namespace,
                    &format!("m{number:04}"),
                    &json!({ "colour": (number % 10).to_string() }),
                );
                async move { hand.create(CONFIG_MAPS, &namespace, body).await.map(drop) }
            })
            .buffer_unordered(32);
        let results: Vec<_> = created.collect().await;
        results
            .into_iter()
            .collect::<Result<Vec<_>, _>>()
            .expect("all are created");
        let begin = Instant::now();
        let (store, _running) = world.watch_config_maps(Kind::<ConfigMap>::of().index(&BY_COLOUR)).await;
        println!("{MANY} objects were listed in {:?}", begin.elapsed());
        assert_eq!(store.len(), MANY);
        assert_eq!(store.by(&BY_COLOUR, "3").len(), MANY / 10);
        assert_eq!(
            world.faults.count("list", "configmaps"),
            9,
            "a small page, then pages of 250"
        );
        let all: Api<ConfigMap> = world.namespace.api();
        let list = kube::api::ListParams::default().fields("metadata.name!=kube-root-ca.crt");
        all.delete_collection(&DeleteParams::default(), &list)
            .await
            .expect("deleted");
        eventually(Duration::from_mins(1), "all are gone", || async {
            if store.is_empty() {
                Ok(())
            } else {
                Err(format!("{} are left", store.len()).into())
            }
        })
        .await;
        assert!(store.by(&BY_COLOUR, "3").is_empty());
        assert_eq!(store.position().list_done, 1, "by the watch alone");
    });
}
