use super::*;
use crate::{Found, Freshness, LookUp, metrics::Metrics};
use futures::future::BoxFuture;
use kruise_api::{
    gates::Gates, kind::Kind as _, namespace::Namespace, persistentpodstate::v1beta1::PersistentPodState,
    revision::ControllerRevision, sidecarset::v1beta1::SidecarSet,
};
use kruise_core::admission::{Lookups, Needs};
use kruise_core::json_patch;
use kruise_runtime::cache::{Change, Kind, Store, Stores};
use prometheus::Registry;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// An API server that has these objects, and remembers what it was asked for.
#[derive(Debug, Default)]
struct Server {
    objects: BTreeMap<ObjectRef, Value>,
    asked: Mutex<Vec<ObjectRef>>,
    is_down: bool,
}

impl LookUp for Server {
    fn look_up<'a>(&'a self, _: &'a str, needs: Needs, _: Freshness) -> BoxFuture<'a, Found> {
        Box::pin(async move {
            let mut lookups = Lookups::default();
            for object in needs.objects {
                self.asked.lock().unwrap().push(object.clone());
                let found = if self.is_down {
                    Err("no answer".to_owned())
                } else {
                    Ok(self.objects.get(&object).cloned())
                };
                lookups.objects.insert(object, found);
            }
            Found {
                lookups,
                is_cached: false,
            }
        })
    }
}

struct World {
    context: Context,
    server: Arc<Server>,
    sets: Store<SidecarSet>,
    namespaces: Store<Namespace>,
    revisions: Store<ControllerRevision>,
}

impl World {
    fn new(server: Server) -> Self {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = kube::Client::try_from(config).unwrap();
        let metrics = Metrics::register(&Registry::new()).unwrap();
        let (sets, namespaces) = (
            Store::new(Kind::<SidecarSet>::of().index(&SETS_BY_POD)),
            Store::new(Kind::<Namespace>::of()),
        );
        let revisions = Store::new(Kind::<ControllerRevision>::of().index(&REVISIONS_BY_SIDECAR_SET));
        let mut stores = Stores::default();
        stores.insert(sets.clone());
        stores.insert(namespaces.clone());
        stores.insert(revisions.clone());
        let server = Arc::new(server);
        let context = Context {
            lookup: server.clone(),
            stores,
            ..Context::new(client, Gates::default(), true, &metrics)
        };
        Self {
            context,
            server,
            sets,
            namespaces,
            revisions,
        }
    }

    fn listed(self, sets: &[Value]) -> Self {
        self.sets.feed(Change::ListBegins);
        for set in sets {
            self.sets
                .feed(Change::Listed(serde_json::from_value(set.clone()).unwrap()));
        }
        self.sets.feed(Change::ListEnds);
        self.namespaces.feed(Change::ListBegins);
        self.namespaces.feed(Change::ListEnds);
        self.revisions.feed(Change::ListBegins);
        self.revisions.feed(Change::ListEnds);
        self
    }

    fn asked(&self) -> Vec<ObjectRef> {
        std::mem::take(&mut *self.server.asked.lock().unwrap())
    }

    async fn create(&self, pod: &Value) -> Result<Value, (u16, String)> {
        let raw = serde_json::value::to_raw_value(pod).unwrap();
        let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "operation": "CREATE", "namespace": "ns1", "resource": {"group": "", "version": "v1", "resource": "pods"},
            "object": pod}})
        .to_string();
        let (_, request) = crate::review::read(body.as_bytes()).unwrap();
        let verdict = decide(raw.get(), &request, &self.context).await;
        if !verdict.allowed {
            return Err((verdict.code, verdict.message));
        }
        let mut after = pod.clone();
        for operation in verdict.patch {
            assert!(json_patch::apply(&mut after, &operation), "{operation:?}");
        }
        Ok(after)
    }
}

fn set(name: &str, spec: &Value) -> Value {
    let mut all = json!({"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": name, "image": "i"}]});
    for (key, value) in spec.as_object().unwrap() {
        all[key] = value.clone();
    }
    json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name}, "spec": all})
}

fn pod() -> Value {
    json!({"metadata": {"name": "p", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "main"}]}})
}

fn names(pod: &Value) -> Vec<&str> {
    let containers = pod["spec"]["containers"].as_array().unwrap();
    containers
        .iter()
        .map(|container| container["name"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn given_a_complete_cache_then_nobody_else_is_asked() {
    let world = World::new(Server::default()).listed(&[
        set("log", &json!({})),
        set("other", &json!({"selector": {"matchLabels": {"app": "db"}}})),
    ]);
    assert_eq!(names(&world.create(&pod()).await.unwrap()), ["main", "log"]);
    assert_eq!(world.asked(), []);
}

#[tokio::test]
async fn given_a_cache_that_is_not_ready_then_the_sets_are_read_from_the_server() {
    let list = json!({"items": [set("log", &json!({})), {"kind": "Odd", "spec": 1}]});
    let world = World::new(Server {
        objects: BTreeMap::from([(ObjectRef::SidecarSets, list)]),
        ..Server::default()
    });
    assert_eq!(names(&world.create(&pod()).await.unwrap()), ["main", "log"]);
    assert_eq!(world.asked(), [ObjectRef::SidecarSets]);
    // A server that does not answer is a reason to refuse: the Pod would lack its sidecars.
    let down = World::new(Server {
        is_down: true,
        ..Server::default()
    });
    assert_eq!(down.create(&pod()).await.unwrap_err().0, 500);
}

#[tokio::test]
async fn given_a_namespace_that_the_cache_lacks_then_it_is_read() {
    let object = ObjectRef::Namespace("ns1".into());
    let read = json!({"metadata": {"name": "ns1", "labels": {"team": "infra"}}});
    let world = World::new(Server {
        objects: BTreeMap::from([(object.clone(), read)]),
        ..Server::default()
    })
    .listed(&[set(
        "log",
        &json!({"namespaceSelector": {"matchLabels": {"team": "infra"}}}),
    )]);
    assert_eq!(names(&world.create(&pod()).await.unwrap()), ["main", "log"]);
    assert_eq!(world.asked(), [object]);
    // One that cannot be found is selected by nobody.
    let world = World::new(Server::default()).listed(&[set(
        "log",
        &json!({"namespaceSelector": {"matchLabels": {"team": "infra"}}}),
    )]);
    assert_eq!(names(&world.create(&pod()).await.unwrap()), ["main"]);
}

#[tokio::test]
async fn given_a_named_revision_then_it_is_injected_and_without_it_the_pod_is_refused() {
    let data = json!({"spec": {"$patch": "replace", "containers": [{"name": "log", "image": "old"}]}});
    let revision = json!({"metadata": {"name": "log-1", "namespace": "kruise-system",
        "annotations": {"kruise.io/sidecarset-hash": "h", "kruise.io/sidecarset-hash-without-image": "w"},
        "labels": {"kruise.io/sidecarset-name": "log", "apps.kruise.io/sidecarset-custom-version": "v1"}},
        "revision": 1, "data": data});
    for (named, object, found) in [
        (
            json!({"revisionName": "log-1"}),
            ObjectRef::Revision("log-1".into()),
            revision.clone(),
        ),
        (
            json!({"customVersion": "v1"}),
            ObjectRef::RevisionsOfSidecarSet("log".into()),
            json!({"items": [revision]}),
        ),
    ] {
        let sets = [set("log", &json!({"injectionStrategy": {"revision": named}}))];
        let world = World::new(Server {
            objects: BTreeMap::from([
                (object.clone(), found.clone()),
                (ObjectRef::SidecarSet("log".into()), sets[0].clone()),
            ]),
            ..Server::default()
        })
        .listed(&sets);
        let made = world.create(&pod()).await.unwrap();
        assert_eq!(made["spec"]["containers"][1]["image"], "old");
        let hash = made["metadata"]["annotations"]["kruise.io/sidecarset-hash"]
            .as_str()
            .unwrap();
        assert!(
            hash.contains(r#""hash":"h""#) && hash.contains(r#""controllerRevision":"log-1""#),
            "{hash}"
        );
        assert!(world.asked().contains(&object));
        // In the cache, nobody is asked.
        world
            .revisions
            .feed(Change::Applied(serde_json::from_value(revision.clone()).unwrap()));
        world.create(&pod()).await.unwrap();
        assert_eq!(world.asked(), []);

        let world = World::new(Server {
            objects: BTreeMap::from([(ObjectRef::SidecarSet("log".into()), sets[0].clone())]),
            ..Server::default()
        })
        .listed(&sets);
        let (code, message) = world.create(&pod()).await.unwrap_err();
        assert!(code == 500 && message.contains("log"), "{message}");
    }
}

#[tokio::test]
async fn given_a_set_in_the_cache_that_would_refuse_then_the_newest_one_counts() {
    let policy = json!({"targetContainersMode": "sum", "targetContainersNameRegex": "^nothing$",
        "resourcesExpr": {"limits": {"cpu": "cpu"}}});
    let bad = set(
        "log",
        &json!({"containers": [{"name": "log", "image": "i", "resourcesPolicy": policy}]}),
    );
    let object = ObjectRef::SidecarSet("log".into());
    // Mended meanwhile.
    let world = World::new(Server {
        objects: BTreeMap::from([(object.clone(), set("log", &json!({})))]),
        ..Server::default()
    })
    .listed(std::slice::from_ref(&bad));
    assert_eq!(names(&world.create(&pod()).await.unwrap()), ["main", "log"]);
    assert_eq!(world.asked(), std::slice::from_ref(&object));
    // Gone meanwhile.
    let world = World::new(Server::default()).listed(std::slice::from_ref(&bad));
    assert_eq!(names(&world.create(&pod()).await.unwrap()), ["main"]);
    // As bad as before.
    let world = World::new(Server {
        objects: BTreeMap::from([(object, bad.clone())]),
        ..Server::default()
    })
    .listed(&[bad]);
    let (code, message) = world.create(&pod()).await.unwrap_err();
    assert!(code == 500 && message.contains("^nothing$"), "{message}");
}

#[tokio::test]
async fn given_a_record_of_a_pod_then_it_is_found_in_the_cache_and_before_that_at_the_server() {
    let target = |kind: &str| json!({"apiVersion": "example.com/v1", "kind": kind, "name": "web"});
    let state = |namespace: &str, target: Value| {
        json!({
            "metadata": {"name": "keep", "namespace": namespace},
            "spec": {"targetRef": target, "requiredPersistentTopology": {"keys": ["zone"]}},
            "status": {"observedGeneration": 1, "podStates": {"web-0": {"nodeTopologyLabels": {"zone": "z1"}}}},
        })
    };
    let of_set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"});
    let all = ObjectRef::AllOf(PersistentPodState::RESOURCE);
    let items = [state("other", of_set.clone()), state("ns1", of_set.clone())];
    let list = r#"{"workloads": [{"Group": "example.com", "Kind": "Game"}]}"#;
    let server = Server {
        objects: BTreeMap::from([
            (all.clone(), json!({"items": items})),
            (
                ObjectRef::Configuration,
                json!({"data": {"PPS_Watch_Custom_Workload_WhiteList": list}}),
            ),
        ]),
        ..Server::default()
    };
    let mut world = World::new(server).listed(&[]);
    let states = Store::new(Kind::<PersistentPodState>::of().index(&STATES_BY_TARGET));
    world.context.stores.insert(states.clone());
    let pod = |owner: &Value| {
        let mut owner = owner.clone();
        owner["controller"] = json!(true);
        json!({"metadata": {"name": "web-0", "ownerReferences": [owner]}, "spec": {"containers": []}})
    };
    let there = json!({"zone": "z1"});
    let created = world.create(&pod(&of_set)).await.unwrap();
    assert_eq!(created["spec"]["nodeSelector"], there);
    assert_eq!(world.asked(), [all]);

    states.feed(Change::ListBegins);
    states.feed(Change::Listed(
        serde_json::from_value(state("ns1", of_set.clone())).unwrap(),
    ));
    states.feed(Change::ListEnds);
    let created = world.create(&pod(&of_set)).await.unwrap();
    assert_eq!(created["spec"]["nodeSelector"], there);
    assert_eq!(world.asked(), []);

    let mut of_game = state("ns1", target("Game"));
    of_game["metadata"]["name"] = json!("game");
    states.feed(Change::Applied(serde_json::from_value(of_game).unwrap()));
    let created = world.create(&pod(&target("Game"))).await.unwrap();
    assert_eq!(created["spec"]["nodeSelector"], there);
    assert_eq!(world.asked(), [ObjectRef::Configuration]);
}
