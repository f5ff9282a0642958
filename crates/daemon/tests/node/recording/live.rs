//! Everything that happens in a namespace, and to the images of a test on all nodes.

use std::{collections::BTreeMap, sync::Arc};

use futures::StreamExt as _;
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kruise_testkit::{
    eventually::{NotYet, eventually},
    watch::{self, Event},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;

use super::{super::world::PATIENCE, differences};

const KINDS: [&str; 3] = ["ImagePullJob", "ImageListPullJob", "ContainerRecreateRequest"];

/// A container that ends as soon as it has started. A kubelet may see it run or not.
const FLEETING: &str = "once";

pub(super) struct Recording {
    seen: Arc<Mutex<Seen>>,
    tasks: Vec<JoinHandle<()>>,
}

/// All versions of objects, in their order. One that is gone has the word `gone` at its end.
#[derive(Default)]
pub(super) struct Seen {
    /// How many watches have begun.
    begun: usize,
    /// By kind and name.
    versions: BTreeMap<(String, String), Vec<Value>>,
    /// Names of Pods, in the order in which they came.
    pods: Vec<String>,
}

impl Recording {
    pub(super) async fn start(client: &Client, namespace: &str) -> Self {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let follow = |kind: &str, api: Api<DynamicObject>| {
            let (seen, kind) = (Arc::clone(&seen), kind.to_owned());
            tokio::spawn(async move {
                let mut events = watch::events(api).boxed();
                while let Some(event) = events.next().await {
                    match event {
                        Ok(Event::Apply(object) | Event::InitApply(object)) => {
                            seen.lock().add(&kind, &object.name_any(), json!(object));
                        }
                        Ok(Event::Delete(object)) => seen.lock().add(&kind, &object.name_any(), json!("gone")),
                        Ok(Event::InitDone) => seen.lock().begun += 1,
                        // A watch that ends is begun anew.
                        _ => {}
                    }
                }
            })
        };
        let ours = |kind: &str| ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1beta1", kind));
        let inside = |resource: &ApiResource| Api::namespaced_with(client.clone(), namespace, resource);
        let mut tasks: Vec<JoinHandle<()>> = KINDS.iter().map(|kind| follow(kind, inside(&ours(kind)))).collect();
        tasks.push(follow("Pod", inside(&ApiResource::erase::<Pod>(&()))));
        tasks.push(follow("NodeImage", Api::all_with(client.clone(), &ours("NodeImage"))));
        let recording = Self { seen, tasks };
        eventually(PATIENCE, "all watches have begun", || async {
            let begun = recording.seen().begun;
            (begun >= recording.tasks.len())
                .then_some(())
                .ok_or_else(|| NotYet::new(begun.to_string()))
        })
        .await;
        recording
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Seen {
    fn add(&mut self, kind: &str, name: &str, version: Value) {
        if kind == "Pod" && !self.pods.iter().any(|pod| pod == name) {
            self.pods.push(name.to_owned());
        }
        let versions = self.versions.entry((kind.to_owned(), name.to_owned())).or_default();
        versions.push(version);
    }

    /// The states of all objects, by kind and name; objects without a name of their own are called by what they pull.
    pub(super) fn objects(&self) -> BTreeMap<String, Vec<Value>> {
        let containers = self.containers();
        let ours = self
            .versions
            .iter()
            .filter(|((kind, _), _)| KINDS.contains(&kind.as_str()));
        let states = ours.map(|((kind, name), versions)| {
            let first = &versions[0];
            let name = match text(&first["metadata"]["generateName"]) {
                "" => format!("{kind}/{name}"),
                begin => format!("{kind}/{begin}* of {}", text(&first["spec"]["image"])),
            };
            (
                name,
                distinct(versions.iter().map(|version| object_state(version, &containers))),
            )
        });
        states.collect()
    }

    /// What nodes are asked for and what they answer, by node and image, for images whose names begin so.
    pub(super) fn tags(&self, begin: &[String]) -> BTreeMap<String, Vec<Value>> {
        let mut tags: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for ((_, node), versions) in self.versions.iter().filter(|((kind, _), _)| kind == "NodeImage") {
            let moments: Vec<BTreeMap<String, Value>> =
                versions.iter().map(|version| tags_of(version, begin)).collect();
            for image in moments.iter().flat_map(BTreeMap::keys) {
                let states = moments
                    .iter()
                    .map(|tags| tags.get(image).cloned().unwrap_or_else(|| json!({})));
                let states = distinct(states.skip_while(|state| *state == json!({})));
                tags.insert(format!("{node} {image}"), states);
            }
        }
        tags
    }

    /// The hash with which a list of images marks its jobs.
    pub(super) fn list_hash(&self) -> Option<String> {
        let lists = self.versions.iter().filter(|((kind, _), _)| kind == "ImageListPullJob");
        let mut hashes = lists
            .flat_map(|(_, versions)| versions)
            .map(|list| &list["metadata"]["labels"]["controller-revision-hash"]);
        hashes.find_map(Value::as_str).map(str::to_owned)
    }

    /// The Pod that requests are about, in all its versions. Others may come after it.
    pub(super) fn pod(&self) -> impl DoubleEndedIterator<Item = &Value> {
        let versions = self
            .pods
            .first()
            .and_then(|name| self.versions.get(&("Pod".to_owned(), name.clone())));
        versions.into_iter().flatten().filter(|version| version.is_object())
    }

    /// How often containers of the Pod were restarted.
    pub(super) fn restarts(&self) -> BTreeMap<String, i64> {
        let statuses = self
            .pod()
            .last()
            .map(|pod| items(&pod["status"]["containerStatuses"]))
            .unwrap_or_default()
            .iter();
        let counts = statuses.map(|status| {
            (
                text(&status["name"]).to_owned(),
                status["restartCount"].as_i64().unwrap_or(0),
            )
        });
        counts.collect()
    }

    /// When the youngest container of the Pod was started, of those that run.
    pub(super) fn last_start(&self) -> Option<Timestamp> {
        let statuses = items(&self.pod().last()?["status"]["containerStatuses"]).iter();
        let starts = statuses.filter_map(|status| text(&status["state"]["running"]["startedAt"]).parse().ok());
        starts.max()
    }

    /// The states of `KruisePodReady`.
    pub(super) fn ready(&self) -> Value {
        let versions = self
            .pods
            .first()
            .and_then(|name| self.versions.get(&("Pod".to_owned(), name.clone())));
        let states = versions.into_iter().flatten().filter_map(|version| {
            if version.is_string() {
                return Some(version.clone());
            }
            let mut conditions = items(&version["status"]["conditions"]).iter();
            let condition = conditions.find(|condition| condition["type"] == "KruisePodReady")?;
            let fields = object(condition).into_iter();
            Some(
                fields
                    .filter(|(name, _)| ["status", "reason", "message"].contains(&name.as_str()))
                    .collect(),
            )
        });
        Value::Array(distinct(states))
    }

    /// What the daemon reports of the Pod's containers.
    pub(super) fn containers_meta(&self) -> Map<String, Value> {
        let annotations = self.pod().last().map(|pod| &pod["metadata"]["annotations"]);
        let meta = annotations.map(|all| text(&all["apps.kruise.io/runtime-containers-meta"]));
        let meta: Value = meta
            .and_then(|meta| serde_json::from_str(meta).ok())
            .unwrap_or_default();
        let containers = items(&meta["containers"]).iter();
        containers
            .map(|container| (text(&container["name"]).to_owned(), container.clone()))
            .collect()
    }

    /// Names and restarts of all containers that ever ran, by their ids.
    fn containers(&self) -> BTreeMap<&str, (&str, i64)> {
        let pods = self
            .versions
            .iter()
            .filter(|((kind, _), _)| kind == "Pod")
            .flat_map(|(_, versions)| versions);
        let statuses = pods.flat_map(|pod| items(&pod["status"]["containerStatuses"]));
        let counts = statuses.map(|status| {
            let count = status["restartCount"].as_i64().unwrap_or(0);
            (text(&status["containerID"]), (text(&status["name"]), count))
        });
        counts.collect()
    }
}

fn object_state(version: &Value, containers: &BTreeMap<&str, (&str, i64)>) -> Value {
    if version.is_string() {
        return version.clone();
    }
    let metadata = &version["metadata"];
    let mut state = json!({"generation": metadata["generation"], "spec": version["spec"]});
    for field in ["labels", "annotations", "finalizers"] {
        if !metadata[field].is_null() {
            state[field] = metadata[field].clone();
        }
    }
    if let Some(owner) = items(&metadata["ownerReferences"])
        .iter()
        .find(|owner| owner["controller"] == true)
    {
        state["owner"] = json!(format!("{}/{}", text(&owner["kind"]), text(&owner["name"])));
    }
    if !metadata["deletionTimestamp"].is_null() {
        state["terminating"] = json!(true);
    }
    if !version["status"].is_null() {
        state["status"] = version["status"].clone();
    }
    let asked = items(&version["spec"]["containers"]).iter();
    let before: BTreeMap<&str, i64> = asked
        .map(|container| {
            (
                text(&container["name"]),
                container["statusContext"]["restartCount"].as_i64().unwrap_or(0),
            )
        })
        .collect();
    let relative = |name: &str, status: &mut Value| {
        let Some((owner, count)) = containers.get(text(&status["containerID"])) else {
            return;
        };
        let since = before.get(name).copied().unwrap_or(0);
        status["containerID"] = json!(format!("{owner}+{}", count - since));
        status["restartCount"] = json!(status["restartCount"].as_i64().unwrap_or(0) - since);
    };
    for container in list(&mut state, "/spec/containers") {
        let name = text(&container["name"]).to_owned();
        relative(&name, &mut container["statusContext"]);
    }
    if let Some(snapshot) = state.pointer_mut("/status/containerStatusSnapshot") {
        let status = items(snapshot).iter().filter(|status| status["name"] != FLEETING);
        *snapshot = status.cloned().collect();
        if items(snapshot).is_empty() {
            state["status"]
                .as_object_mut()
                .map(|status| status.remove("containerStatusSnapshot"));
        }
    }
    for status in list(&mut state, "/status/containerStatusSnapshot") {
        let name = text(&status["name"]).to_owned();
        relative(&name, status);
    }
    state
}

/// Of one version of a NodeImage, what is asked and answered, by image.
fn tags_of(version: &Value, begin: &[String]) -> BTreeMap<String, Value> {
    let mut tags: BTreeMap<String, Value> = BTreeMap::new();
    for (side, images) in [
        ("spec", &version["spec"]["images"]),
        ("status", &version["status"]["imageStatuses"]),
    ] {
        for (image, tags_of_image) in object(images)
            .iter()
            .filter(|(image, _)| begin.iter().any(|begin| image.starts_with(begin)))
        {
            for tag in items(&tags_of_image["tags"])
                .iter()
                .filter(|tag| !differences::is_under_way(tag))
            {
                let mut tag_state = tag.clone();
                for owner in list(&mut tag_state, "/ownerReferences") {
                    if let Some(owner) = owner.as_object_mut() {
                        owner.remove("uid");
                    }
                }
                let name = format!("{image}:{}", text(&tag["tag"]));
                tags.entry(name).or_insert_with(|| json!({}))[side] = tag_state;
            }
        }
    }
    tags
}

/// Each different from the one before.
fn distinct(states: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut distinct: Vec<Value> = states.into_iter().collect();
    distinct.dedup();
    distinct
}

fn list<'a>(value: &'a mut Value, path: &str) -> impl Iterator<Item = &'a mut Value> {
    let list = value.pointer_mut(path).and_then(Value::as_array_mut);
    list.into_iter().flatten()
}

pub(super) fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}
