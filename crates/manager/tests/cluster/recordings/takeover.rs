//! Our manager on objects of the original, at every state at which it may take over: steady, partitioned, finished, stuck in the middle of an
//! update, waiting for hooks, and recovered. No Pod may notice.
//!
//! All states stand in the cluster at the same time, each in a namespace of its own, and nobody but the manager writes to them: their nodes
//! have no kubelet. Objects get new UIDs and generations; references and what was observed follow them.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kruise_testkit::{
    cluster,
    eventually::{NotYet, eventually, run_test},
    faults::Faults,
    namespace::{self, FreshNamespace},
    sim::{SimOptions, SimulatedNodes},
    storage::{self, LocalStorage},
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{
    super::{
        chart::{Kinds, api, apply, name},
        world::{Replica, World},
    },
    facts::{items, object, text},
    replay::GATES,
};

const RECORDINGS: [&str; 15] = [
    "01-cloneset-beta-inplace",
    "02-cloneset-beta-inplace-pvc",
    "03-cloneset-alpha-inplace",
    "04-cloneset-alpha-inplace-pvc",
    "05-cloneset-beta-recreate",
    "06-cloneset-beta-recreate-pvc",
    "07-cloneset-alpha-recreate",
    "08-cloneset-alpha-recreate-pvc",
    "09-statefulset-inplace-pvc",
    "10-daemonset-inplace",
    "15-launch-priority",
    "16-cloneset-preparing-update",
    "17-cloneset-preparing-delete",
    "18-statefulset-lifecycle",
    "19-daemonset-preparing-delete",
];

/// What a set refers to comes before what refers to it.
const ORDER: [&str; 7] = [
    "CloneSet",
    "DaemonSet",
    "StatefulSet",
    "ControllerRevision",
    "PersistentVolumeClaim",
    "Pod",
    "ConfigMap",
];
/// With the kind of their sets, if it is theirs alone.
const CONTROLLERS: [(&str, Option<&str>); 5] = [
    ("cloneset-controller", Some("CloneSet")),
    ("daemonset-controller", Some("DaemonSet")),
    ("statefulset-controller", Some("StatefulSet")),
    ("container-launch-priority-controller", None),
    ("pod-readiness-controller", None),
];
const CLASS: &str = "takeover";

#[test]
fn given_objects_of_the_original_when_our_manager_takes_over_then_no_pod_is_written() {
    run_test(Duration::from_mins(10), async {
        let world = World::knowing(Kinds::All, &cluster::kubeconfig(), "takeover").await;
        let options = SimOptions {
            count: 3,
            name_prefix: "takeover".to_owned(),
            // No kubelet looks after the Pods.
            namespace: Some(world.work.name().to_owned()),
            ..SimOptions::default()
        };
        let nodes = SimulatedNodes::start(world.client.clone(), options).await.unwrap();
        untainted(&world.client).await;
        apply(&world.client, &storage_class()).await;
        let _storage = LocalStorage::start(world.client.clone());
        let states: Vec<State> = RECORDINGS.into_iter().flat_map(states).collect();
        assert_eq!(states.len(), 67);
        let loaded = states.iter().map(|state| state.load(&world.client));
        let loaded: Vec<Loaded> = futures::future::join_all(loaded).await;
        bound(&world.client, &loaded).await;

        let before = versions(&world.client, &loaded).await;
        let calls = take_over(&world, &[], &loaded).await;
        assert_eq!(
            changes(&before, &versions(&world.client, &loaded).await),
            Vec::<String>::new()
        );
        // Barriers are not watched: the next key of the two Pods that wait is written once more, which changes nothing.
        let (barriers, others): (Vec<_>, Vec<_>) =
            calls.into_iter().partition(|(call, _)| call.contains(" configmaps"));
        assert!(barriers.iter().all(|(_, count)| *count <= 2), "{barriers:?}");
        assert_eq!(others, Vec::new());

        // Some gates have work of their own for sets that are being updated: images are pulled ahead, and the revision remembers it.
        let calls = take_over(&world, &[GATES], &loaded).await;
        let mut changed = changes(&before, &versions(&world.client, &loaded).await);
        changed.retain(|change| !change.contains("/ControllerRevision/") && !change.ends_with("/Events"));
        assert_eq!(changed, Vec::<String>::new(), "{calls:?}");
        let on_pods: Vec<&String> = calls.keys().filter(|call| call.contains(" pods")).collect();
        assert_eq!(on_pods, Vec::<&String>::new());
        let classes = api(&world.client, &storage_class());
        classes.delete(CLASS, &DeleteParams::default()).await.unwrap();
        nodes.stop().await.unwrap();
    });
}

/// Lets a manager take over and go again. Returns what it wrote to objects of the kinds that are here, also what changed nothing.
async fn take_over(world: &World, flags: &[&str], loaded: &[Loaded]) -> BTreeMap<String, u64> {
    let faults = Faults::new(1);
    let replica = world.start_with(&faults, flags);
    replica.becomes_ready().await;
    replica.leads().await;
    eventually(Duration::from_mins(2), "everything has been looked at", || async {
        for (controller, kind) in CONTROLLERS {
            let objects = loaded.iter().flat_map(|state| &state.objects);
            let at_least = objects.filter(|object| object["kind"].as_str() == kind).count();
            has_done(&replica, controller, at_least).await?;
        }
        Ok(())
    })
    .await;
    replica.stop.cancel();
    replica.task.await.unwrap().unwrap();
    let ours = [
        "clonesets",
        "configmaps",
        "controllerrevisions",
        "daemonsets",
        "imagepulljobs",
        "persistentvolumeclaims",
        "pods",
        "statefulsets",
    ];
    let writes = faults.calls().into_iter().filter(|((verb, resource), _)| {
        let is_read = ["get", "list", "watch"].contains(&verb.as_str());
        !is_read && ours.contains(&resource.split('/').next().unwrap_or_default())
    });
    writes
        .map(|((verb, resource), count)| (format!("{verb} {resource}"), count))
        .collect()
}

/// A controller has nothing to do any more, after it has looked at so many objects.
async fn has_done(replica: &Replica, controller: &str, at_least: usize) -> Result<(), NotYet> {
    let mut numbers = Vec::new();
    for metric in [
        "workqueue_adds_total",
        "workqueue_work_duration_seconds_count",
        "workqueue_depth",
    ] {
        let value = replica.metric(&format!("{metric}{{name=\"{controller}\"}}")).await;
        numbers.push(value.unwrap_or(0.0));
    }
    let [added, done, waiting] = numbers[..] else {
        unreachable!("three metrics")
    };
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let enough = added >= at_least as f64;
    if enough && done >= added && waiting == 0.0 {
        Ok(())
    } else {
        Err(NotYet::new(format!(
            "{controller}: {added} added, {done} done, {waiting} waiting"
        )))
    }
}

/// One state of a recording.
struct State {
    name: String,
    objects: BTreeMap<String, Value>,
}

/// A state in the cluster.
struct Loaded {
    name: String,
    namespace: FreshNamespace,
    objects: Vec<Value>,
}

fn states(recording: &str) -> Vec<State> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../core/tests/fixtures/takeover");
    let text = std::fs::read_to_string(format!("{folder}/{recording}.jsonl")).unwrap();
    let mut states: Vec<State> = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if let Some(state) = line["state"].as_str() {
            let mut objects = states.last().map(|last| last.objects.clone()).unwrap_or_default();
            for gone in items(&line["gone"]) {
                objects.remove(gone.as_str().unwrap());
            }
            states.push(State {
                name: format!("{recording}, {state}"),
                objects,
            });
        } else {
            let key = format!("{}/{}", text_of(&line, "kind"), name(&line));
            states.last_mut().unwrap().objects.insert(key, line);
        }
    }
    states
}

fn text_of<'a>(object: &'a Value, field: &str) -> &'a str {
    text(&object[field])
}

impl State {
    async fn load(&self, client: &Client) -> Loaded {
        let namespace = namespace::fresh(client, "takeover").await.unwrap();
        let mut uids: BTreeMap<String, Value> = BTreeMap::new();
        let mut objects = Vec::new();
        for kind in ORDER {
            for recorded in self.objects.values().filter(|object| object["kind"] == kind) {
                let created = create(client, namespace.name(), recorded, &uids).await;
                uids.insert(
                    text(&recorded["metadata"]["uid"]).to_owned(),
                    created["metadata"]["uid"].clone(),
                );
                objects.push(created);
            }
        }
        assert_eq!(objects.len(), self.objects.len(), "{}", self.name);
        Loaded {
            name: self.name.clone(),
            namespace,
            objects,
        }
    }
}

/// An object as it was, with references to the objects as they are here.
async fn create(client: &Client, namespace: &str, recorded: &Value, uids: &BTreeMap<String, Value>) -> Value {
    let kind = text_of(recorded, "kind");
    let mut new = recorded.clone();
    let metadata = &recorded["metadata"];
    new["apiVersion"] = json!(match kind {
        kind if is_set(kind) => "apps.kruise.io/v1beta1",
        "ControllerRevision" => "apps/v1",
        _ => "v1",
    });
    new["metadata"] = json!({
        "name": metadata["name"], "namespace": namespace, "labels": metadata["labels"], "finalizers": metadata["finalizers"],
        "annotations": metadata["annotations"], "ownerReferences": metadata["ownerReferences"],
    });
    for owner in new["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten() {
        owner["uid"] = uids[text(&owner["uid"])].clone();
    }
    match kind {
        "Pod" => {
            // Not `node1`, but one that exists.
            let mut spec = new["spec"].to_string();
            for number in 1..=3 {
                spec = spec.replace(&format!("\"node{number}\""), &format!("\"takeover-{}\"", number - 1));
            }
            new["spec"] = serde_json::from_str(&spec).unwrap();
        }
        "PersistentVolumeClaim" => {
            new["spec"] = json!({
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}, "storageClassName": CLASS,
            });
            // Volumes are provided anew.
            new["status"] = Value::Null;
            let annotations = object(&metadata["annotations"]);
            let kept = annotations
                .into_iter()
                .filter(|(key, _)| !key.contains("kubernetes.io/"));
            new["metadata"]["annotations"] = kept.collect();
        }
        _ => {}
    }
    let api = api(client, &new);
    let created = api
        .create(&PostParams::default(), &serde_json::from_value(new.clone()).unwrap())
        .await;
    let created = created.unwrap_or_else(|error| panic!("{error}: {new}"));
    if new["status"].is_null() {
        return json!(created);
    }
    let mut status = new["status"].clone();
    if status["observedGeneration"] == metadata["generation"] && is_set(kind) {
        status["observedGeneration"] = json!(created.metadata.generation);
    }
    let patch = Patch::Merge(json!({"status": status}));
    let written = api.patch_status(&name(&new), &PatchParams::default(), &patch).await;
    json!(written.unwrap_or_else(|error| panic!("{error}: {status}")))
}

fn is_set(kind: &str) -> bool {
    CONTROLLERS.iter().any(|(_, of)| *of == Some(kind))
}

/// Claims are served at once, as they were then.
fn storage_class() -> Value {
    let mut class = storage::class(CLASS);
    class["volumeBindingMode"] = json!("Immediate");
    class
}

/// Waits until nodes are as they are in a cluster at rest.
async fn untainted(client: &Client) {
    let nodes: Api<Node> = Api::all(client.clone());
    eventually(Duration::from_mins(1), "nodes have no taints", || async {
        let found = nodes.list(&ListParams::default()).await?.items.into_iter();
        let taints: Vec<_> = found.filter_map(|node| node.spec?.taints).collect();
        taints
            .is_empty()
            .then_some(())
            .ok_or_else(|| NotYet::new(format!("{taints:?}")))
    })
    .await;
}

/// Waits until all claims have their volumes.
async fn bound(client: &Client, loaded: &[Loaded]) {
    let objects = loaded.iter().flat_map(|state| &state.objects);
    for claim in objects.filter(|object| object["kind"] == "PersistentVolumeClaim") {
        eventually(Duration::from_mins(1), "the claim is bound", || async {
            let live = api(client, claim).get(&name(claim)).await?;
            let status = live.data["status"].clone();
            (status["phase"] == "Bound" && status["capacity"].is_object())
                .then_some(())
                .ok_or_else(|| NotYet::new(status.to_string()))
        })
        .await;
    }
}

/// The version of every object whose changes can only be ours. Claims are looked after by Kubernetes.
async fn versions(client: &Client, loaded: &[Loaded]) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    for state in loaded {
        for object in state
            .objects
            .iter()
            .filter(|object| object["kind"] != "PersistentVolumeClaim")
        {
            let live = api(client, object).get(&name(object)).await.unwrap();
            assert!(
                live.metadata.deletion_timestamp.is_none(),
                "{}: {}",
                state.name,
                name(object)
            );
            let key = format!("{}: {}/{}", state.name, text_of(object, "kind"), name(object));
            versions.insert(
                key.replace(": ", "/"),
                live.metadata.resource_version.unwrap_or_default(),
            );
        }
        // Nothing new either.
        let pods: Api<Pod> = state.namespace.api();
        let count = pods.list(&ListParams::default()).await.unwrap().items.len();
        versions.insert(format!("{}/Pods", state.name), count.to_string());
        let events: Api<Event> = state.namespace.api();
        let events = events.list(&ListParams::default()).await.unwrap().items.into_iter();
        let about_sets = events.filter(|event| is_set(event.involved_object.kind.as_deref().unwrap_or_default()));
        let count = about_sets.count();
        versions.insert(format!("{}/Events", state.name), count.to_string());
    }
    versions
}

fn changes(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let changed = after
        .iter()
        .filter(|(name, version)| before.get(*name) != Some(version));
    changed.map(|(name, _)| name.clone()).collect()
}
