//! What controllers have made of the objects of a namespace, from its first to its last version.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod};
use kruise_testkit::watch::{self, Event};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;

/// Everything that was seen of a namespace, from the moment this was made.
pub(super) struct Recording {
    seen: Arc<Mutex<Seen>>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Default)]
pub(super) struct Seen {
    pub(super) pods: BTreeMap<String, Track>,
    pub(super) claims: BTreeMap<String, Track>,
    pub(super) barriers: BTreeMap<String, Track>,
    pub(super) pull_jobs: BTreeMap<String, Track>,
    /// After each change of a Pod: how many were under update, and how many were there.
    pub(super) moments: Vec<(usize, usize)>,
    /// Names of images by their ids.
    images: BTreeMap<String, String>,
}

/// The states of one object, each different from the one before.
#[derive(Default)]
pub(super) struct Track {
    pub(super) states: Vec<Value>,
    /// The object as it was last.
    pub(super) latest: Value,
    /// What the controller said when it took the Pod's readiness away, until it gave it back.
    unready: Option<String>,
}

impl Track {
    fn add(&mut self, state: Value) {
        if self.states.last() != Some(&state) {
            self.states.push(state);
        }
    }
}

impl Recording {
    pub(super) fn start(client: &Client, namespace: &str) -> Self {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let jobs = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "ImagePullJob"));
        let follow = |resource: &ApiResource, take: fn(&mut Seen, &str, Option<Value>)| {
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
            let seen = seen.clone();
            tokio::spawn(async move {
                let mut events = watch::events(api).boxed();
                while let Some(event) = events.next().await {
                    // A watch that ends is begun anew.
                    let (object, is_there) = match event {
                        Ok(Event::Apply(object) | Event::InitApply(object)) => (object, true),
                        Ok(Event::Delete(object)) => (object, false),
                        _ => continue,
                    };
                    let name = object.name_any();
                    take(&mut lock(&seen), &name, is_there.then(|| json!(object)));
                }
            })
        };
        let tasks = vec![
            follow(&ApiResource::erase::<Pod>(&()), Seen::pod),
            follow(&ApiResource::erase::<PersistentVolumeClaim>(&()), Seen::claim),
            follow(&ApiResource::erase::<ConfigMap>(&()), Seen::barrier),
            follow(&jobs, Seen::pull_job),
        ];
        Self { seen, tasks }
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seen {
    fn pod(&mut self, name: &str, pod: Option<Value>) {
        let track = self.pods.entry(name.to_owned()).or_default();
        match pod {
            None => track.add(json!("gone")),
            Some(pod) => {
                for status in items(&pod["status"]["containerStatuses"]) {
                    let (id, image) = (text(&status["imageID"]), text(&status["image"]));
                    if !id.is_empty() {
                        self.images
                            .insert(id.to_owned(), image.replace("docker.io/library/", ""));
                    }
                }
                let state = pod_state(&pod, &self.images, &mut track.unready);
                track.add(state);
                track.latest = pod;
            }
        }
        let alive = self.pods.values().filter_map(|track| track.states.last());
        let alive = alive.filter(|state| state.is_object() && state["terminating"].is_null());
        let (mut count, mut updating) = (0, 0);
        for state in alive {
            count += 1;
            let phase = text(&state["labels"]["lifecycle.apps.kruise.io/state"]);
            let held = state["conditions"]["InPlaceUpdateReady"]["status"] == "False";
            updating += usize::from(held || ["PreparingUpdate", "Updating"].contains(&phase));
        }
        self.moments.push((updating, count));
    }

    fn claim(&mut self, name: &str, claim: Option<Value>) {
        let state = claim.map_or_else(
            || json!("gone"),
            |claim| {
                let metadata = &claim["metadata"];
                let mut state = json!({"labels": labels(metadata), "owner": owner(metadata)});
                if !metadata["deletionTimestamp"].is_null() {
                    state["terminating"] = json!(true);
                }
                state
            },
        );
        self.claims.entry(name.to_owned()).or_default().add(state);
    }

    fn barrier(&mut self, name: &str, map: Option<Value>) {
        if name.ends_with("-barrier") {
            let state = map.map_or_else(
                || json!("gone"),
                |map| json!({"data": object(&map["data"]), "owner": owner(&map["metadata"])}),
            );
            self.barriers.entry(name.to_owned()).or_default().add(state);
        }
    }

    fn pull_job(&mut self, name: &str, job: Option<Value>) {
        let state = job.map_or_else(
            || json!("gone"),
            |job| {
                let metadata = &job["metadata"];
                let mut spec = object(&job["spec"]);
                spec.remove("imagePullPolicy");
                json!({"labels": metadata["labels"], "annotations": object(&metadata["annotations"]), "spec": spec})
            },
        );
        self.pull_jobs.entry(name.to_owned()).or_default().add(state);
    }

    /// Pods of which a kubelet or the daemon has still something to tell. The user of the recordings waited for them.
    pub(super) fn restless(&self) -> Vec<&str> {
        let alive = self.pods.iter().filter(|(_, track)| {
            let state = track.states.last();
            state.is_some_and(|state| state.is_object() && state["terminating"].is_null())
        });
        let restless = alive.filter(|(_, track)| !is_told(&track.latest));
        restless.map(|(name, _)| name.as_str()).collect()
    }

    /// A text in which every Pod has the same name.
    pub(super) fn without_names(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for name in self.pods.keys() {
            // The name of a revision may begin like that of a Pod.
            let parts: Vec<&str> = text.split(name.as_str()).collect();
            let mut joined = parts[0].to_owned();
            for part in &parts[1..] {
                let goes_on = part.starts_with(|next: char| next.is_ascii_alphanumeric());
                joined.push_str(if goes_on { name } else { "POD" });
                joined.push_str(part);
            }
            text = joined;
        }
        text
    }
}

/// Conditions that scheduler and kubelet write. Every other one is compared.
const OF_OTHERS: [&str; 5] = [
    "PodScheduled",
    "PodReadyToStartContainers",
    "Initialized",
    "ContainersReady",
    "Ready",
];

fn pod_state(pod: &Value, images: &BTreeMap<String, String>, unready: &mut Option<String>) -> Value {
    let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
    let all: BTreeMap<&str, &Value> = items(&pod["status"]["conditions"])
        .iter()
        .map(|condition| (text(&condition["type"]), condition))
        .collect();
    let mut conditions = Map::new();
    for (kind, condition) in all.iter().filter(|(kind, _)| !OF_OTHERS.contains(kind)) {
        let told = object(condition)
            .into_iter()
            .filter(|(name, _)| ["status", "reason", "message"].contains(&name.as_str()));
        conditions.insert((*kind).to_owned(), told.collect());
    }
    let ready = all.get("Ready").copied().unwrap_or(&Value::Null);
    // A kubelet always says when.
    if ready["status"] == "False" && ready["lastTransitionTime"].is_null() {
        *unready = Some(text(&ready["message"]).to_owned());
    }
    if conditions
        .values()
        .filter(|condition| condition["status"] == "True")
        .count()
        == 2
    {
        *unready = None;
    }
    let annotations: Map<String, Value> = object(&metadata["annotations"])
        .into_iter()
        .filter(|(key, _)| !key.starts_with("sim.kruise.test/") && key != "apps.kruise.io/runtime-containers-meta")
        .map(|(key, value)| (key, json!(plain(text(&value), images))))
        .collect();
    let containers = items(&spec["containers"]).iter();
    let images: Map<String, Value> = containers
        .map(|container| (text(&container["name"]).to_owned(), container["image"].clone()))
        .collect();
    let gates = items(&spec["readinessGates"]).iter();
    let gates: Vec<&Value> = gates.map(|gate| &gate["conditionType"]).collect();
    let mut state = json!({
        "labels": labels(metadata), "annotations": annotations, "images": images, "gates": gates, "conditions": conditions,
    });
    if !items(&metadata["finalizers"]).is_empty() {
        state["finalizers"] = metadata["finalizers"].clone();
    }
    if !metadata["deletionTimestamp"].is_null() {
        state["terminating"] = json!(true);
    }
    let owner = owner(metadata);
    if !owner.is_empty() {
        state["owner"] = json!(owner);
    }
    if let Some(said) = unready {
        state["unready"] = json!(said);
    }
    state
}

/// The kubelet has drawn its conclusions from the conditions, and the daemon knows all containers.
fn is_told(pod: &Value) -> bool {
    let holds = |kind: &str| {
        let mut conditions = items(&pod["status"]["conditions"]).iter();
        conditions.any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    let gates = items(&pod["spec"]["readinessGates"]).iter();
    let should = holds("ContainersReady") && gates.map(|gate| text(&gate["conditionType"])).all(holds);
    let report = text(&pod["metadata"]["annotations"]["apps.kruise.io/runtime-containers-meta"]);
    let mut statuses = items(&pod["status"]["containerStatuses"]).iter();
    holds("ContainersReady")
        && holds("Ready") == should
        && statuses.all(|status| report.contains(text(&status["containerID"])))
}

/// A text without times and ids of images.
fn plain(text: &str, images: &BTreeMap<String, String>) -> String {
    let parts: Vec<&str> = text
        .split('"')
        .map(|part| match images.get(part) {
            Some(image) => image,
            None if part.parse::<jiff::Timestamp>().is_ok() => "T",
            None => part,
        })
        .collect();
    parts.join("\"")
}

fn labels(metadata: &Value) -> Map<String, Value> {
    let mut labels = object(&metadata["labels"]);
    if let Some(id) = labels.get_mut("apps.kruise.io/cloneset-instance-id") {
        *id = json!("ID");
    }
    labels
}

/// Kind and name of what an object belongs to: of its controller, if it has one.
pub(super) fn owner(metadata: &Value) -> String {
    let owners = items(&metadata["ownerReferences"]);
    let owner = owners
        .iter()
        .find(|owner| owner["controller"] == true)
        .or(owners.first());
    owner.map_or_else(String::new, |owner| match text(&owner["kind"]) {
        "Pod" => "Pod/POD".to_owned(),
        kind => format!("{kind}/{}", text(&owner["name"])),
    })
}

pub(super) fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}
