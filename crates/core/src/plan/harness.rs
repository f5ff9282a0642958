//! A model of a cluster for tests of planners: it keeps objects as JSON, applies plans as the API server would,
//! preconditions included, and has a simple kubelet, scheduler and garbage collector.
//!
//! [`Cluster::apply`] can stop after any number of writes, as a crash would, and one write can be refused, as a policy would.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kruise_api::kind::Kind as _;
use kruise_api::names::condition::pod::{IN_PLACE_UPDATE_READY, KRUISE_POD_READY};
use kruise_api::names::label;
use kruise_api::node::Node;
use kruise_api::pod::Pod;
use kruise_api::resource::{Preconditions, Resource, Subresource};
use serde_json::{Map, Value, json};

use super::{Action, FailureClass, Outcome, Patch, Plan, Progress, WriteError};

/// A cluster of one namespace.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) now: Timestamp,
    pub(crate) objects: BTreeMap<(&'static Resource, String), Value>,
    pub(crate) writes: usize,
    /// The write with this number is refused.
    pub(crate) refused: Option<usize>,
    /// The Pods, counted after every write and after every change of a node.
    pub(crate) film: Vec<Counts>,
    /// What a quota or a policy refuses.
    pub(crate) refuses: Option<Policy>,
    version: u64,
}

/// Pods in one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Not on their way out.
    pub(crate) pods: usize,
    /// Of those, ready and between no hooks.
    pub(crate) available: usize,
    /// Of those, named for deletion and not available.
    pub(crate) given_up: usize,
}

/// Whether a write is refused.
pub(crate) type Policy = fn(&Cluster, &Action) -> bool;

/// Why the model refuses a write.
type Refusal = (FailureClass, String);

impl Cluster {
    pub(crate) fn at(now: Timestamp) -> Self {
        Self {
            now,
            objects: BTreeMap::new(),
            writes: 0,
            refused: None,
            film: Vec::new(),
            refuses: None,
            version: 1000,
        }
    }

    pub(crate) fn all(&self, kind: &'static Resource) -> impl Iterator<Item = &Value> {
        self.objects
            .iter()
            .filter(move |((known, _), _)| *known == kind)
            .map(|(_, object)| object)
    }

    pub(crate) fn get(&self, kind: &'static Resource, name: &str) -> Option<&Value> {
        self.objects.get(&(kind, name.to_owned()))
    }

    pub(crate) fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    /// Puts an object in, or changes it, as a user would.
    pub(crate) fn put(&mut self, kind: &'static Resource, mut object: Value) {
        let name = name_of(&object);
        self.version += 1;
        let meta = &mut object["metadata"];
        meta["resourceVersion"] = json!(self.version.to_string());
        if meta.get("uid").is_none() {
            meta["uid"] = json!(format!("uid-{name}-{}", self.version));
        }
        if meta.get("creationTimestamp").is_none() {
            meta["creationTimestamp"] = json!(self.now.to_string());
        }
        self.objects.insert((kind, name), object);
    }

    /// Changes an object; nothing happens to its version when it stays the same.
    pub(crate) fn edit(&mut self, kind: &'static Resource, name: &str, change: impl FnOnce(&mut Value)) {
        let Some(object) = self.objects.get_mut(&(kind, name.to_owned())) else {
            return;
        };
        let before = object.clone();
        change(object);
        if *object != before {
            self.version += 1;
            object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        }
    }

    /// Applies a plan, at most so many writes of it. Returns what failed.
    ///
    /// What may be under way at the same time is written before any answer to it is known.
    pub(crate) fn apply(&mut self, plan: &Plan, budget: usize) -> Outcome {
        let mut progress = Progress::of(plan);
        let mut left = budget;
        'process: loop {
            let mut answers = Vec::new();
            while let Some(turn) = progress.next_turn() {
                if left == 0 {
                    break 'process;
                }
                left -= 1;
                let answer = self.write(turn.action);
                if answer.is_ok() {
                    self.film.push(self.counts());
                }
                answers.push((turn, answer));
            }
            if answers.is_empty() {
                break;
            }
            for (turn, answer) in answers {
                let answer = answer.map_err(|(class, message)| WriteError {
                    class,
                    message,
                    may_have_applied: false,
                });
                progress.answered(turn, answer);
            }
        }
        progress.finish().outcome
    }

    fn write(&mut self, action: &Action) -> Result<(), Refusal> {
        self.writes += 1;
        let is_refused = self.refused == Some(self.writes) || self.refuses.is_some_and(|refuses| refuses(self, action));
        if is_refused {
            return Err((FailureClass::Denied, format!("{} is forbidden", action.object())));
        }
        match action {
            Action::Create { object, body } => {
                if self.get(object.resource, &object.name).is_some() {
                    return Err((FailureClass::Exists, format!("{object} already exists")));
                }
                let mut body = body.json();
                assert_eq!(name_of(&body), object.name, "{body}");
                if object.resource == Pod::RESOURCE {
                    admit_pod(&mut body);
                }
                body["metadata"].as_object_mut().unwrap().remove("uid");
                self.put(object.resource, body);
                Ok(())
            }
            Action::Patch {
                object,
                subresource,
                patch,
                preconditions,
            } => {
                self.check(object.resource, &object.name, preconditions)?;
                let patch = patch.clone();
                let subresource = *subresource;
                if subresource == Some(Subresource::EphemeralContainers) {
                    self.check_ephemeral(&object.name, &patch)?;
                }
                self.edit(object.resource, &object.name, |object| {
                    apply_patch(object, subresource, &patch);
                });
                Ok(())
            }
            Action::Replace {
                object,
                body,
                preconditions,
            } => {
                self.check(object.resource, &object.name, preconditions)?;
                self.edit(object.resource, &object.name, |live| {
                    let mut new = body.over(&live["metadata"], &Preconditions::NONE);
                    for field in ["uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"] {
                        if let Some(value) = live["metadata"].get(field) {
                            new["metadata"][field] = value.clone();
                        }
                    }
                    *live = new;
                });
                Ok(())
            }
            Action::CopySecret {
                object,
                from,
                annotations,
                preconditions,
            } => {
                let data = from.as_ref().and_then(|from| self.get(from.resource, &from.name));
                let data = data.map(|source| source["data"].clone());
                match preconditions {
                    Some(preconditions) => self.check(object.resource, &object.name, preconditions)?,
                    None => self.put(
                        object.resource,
                        json!({"metadata": {"name": object.name, "namespace": object.namespace}}),
                    ),
                }
                self.edit(object.resource, &object.name, |copy| {
                    for (key, value) in annotations {
                        copy["metadata"]["annotations"][key] = json!(value);
                    }
                    if let Some(data) = data {
                        copy["data"] = data;
                    }
                });
                Ok(())
            }
            Action::Delete { object, preconditions } | Action::Evict { object, preconditions } => {
                self.check(object.resource, &object.name, preconditions)?;
                self.delete(object.resource, &object.name);
                Ok(())
            }
        }
    }

    fn check(&self, kind: &'static Resource, name: &str, preconditions: &Preconditions) -> Result<(), Refusal> {
        let Some(object) = self.get(kind, name) else {
            return Err((FailureClass::Gone, format!("{name} not found")));
        };
        let meta = &object["metadata"];
        let holds =
            |wanted: &Option<String>, field: &str| wanted.as_ref().is_none_or(|wanted| meta[field] == json!(wanted));
        if holds(&preconditions.uid, "uid") && holds(&preconditions.resource_version, "resourceVersion") {
            Ok(())
        } else {
            Err((FailureClass::Conflict, format!("{name} has been modified")))
        }
    }

    /// Ephemeral containers that are there stay as they are, and others have names of their own.
    fn check_ephemeral(&self, pod: &str, patch: &Patch) -> Result<(), Refusal> {
        let list = |pod: &Value, field: &str| pod["spec"][field].as_array().cloned().unwrap_or_default();
        let pod = self.get(Pod::RESOURCE, pod).unwrap();
        let names = |field: &str| -> Vec<Value> { list(pod, field).iter().map(|each| each["name"].clone()).collect() };
        let taken = [
            names("containers"),
            names("initContainers"),
            names("ephemeralContainers"),
        ]
        .concat();
        let new = list(patch.document(), "ephemeralContainers");
        match new.iter().find(|container| taken.contains(&container["name"])) {
            Some(container) => Err((FailureClass::Permanent, format!("{} is taken", container["name"]))),
            None => Ok(()),
        }
    }

    /// Deletes as a user would: Pods and claims take their time, other objects go at once.
    pub(crate) fn delete(&mut self, kind: &'static Resource, name: &str) {
        if matches!(kind, Pod::RESOURCE | PersistentVolumeClaim::RESOURCE) {
            let now = self.now.to_string();
            self.edit(kind, name, |object| {
                if object["metadata"].get("deletionTimestamp").is_none() {
                    object["metadata"]["deletionTimestamp"] = json!(now);
                }
            });
        } else {
            self.objects.remove(&(kind, name.to_owned()));
        }
    }

    /// Lets the scheduler, kubelets and the garbage collector do all they have to do. Images with `bad` in them never
    /// get ready.
    pub(crate) fn settle(&mut self) {
        let pods: Vec<String> = self.all(Pod::RESOURCE).map(name_of).collect();
        let now = self.now;
        for name in pods {
            let pod = self.get(Pod::RESOURCE, &name).unwrap();
            if pod["metadata"].get("deletionTimestamp").is_some() {
                if pod["metadata"]
                    .get("finalizers")
                    .is_none_or(|list| list.as_array().unwrap().is_empty())
                {
                    self.objects.remove(&(Pod::RESOURCE, name));
                }
                continue;
            }
            if self.is_node_gone(&name) {
                continue;
            }
            self.edit(Pod::RESOURCE, &name, |pod| run_pod(pod, now));
            self.film.push(self.counts());
        }
        self.collect_claims();
    }

    /// The one node that a Pod asks for is not there.
    fn is_node_gone(&self, pod: &str) -> bool {
        let pod = self.get(Pod::RESOURCE, pod);
        pod.and_then(only_node)
            .is_some_and(|node| self.get(Node::RESOURCE, node).is_none())
    }

    /// The Pods as they are now.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        let living = |pod: &&Value| pod["metadata"].get("deletionTimestamp").is_none();
        for pod in self.all(Pod::RESOURCE).filter(living) {
            let labels = &pod["metadata"]["labels"];
            let state = labels[label::LIFECYCLE_STATE].as_str();
            let is_available = is_ready(pod) && state.is_none_or(|state| state == "Normal");
            counts.pods += 1;
            counts.available += usize::from(is_available);
            counts.given_up += usize::from(!is_available && labels[label::SPECIFIED_DELETE].is_string());
        }
        counts
    }

    fn collect_claims(&mut self) {
        let pods: Vec<Value> = self.all(Pod::RESOURCE).cloned().collect();
        let is_used = |claim: &Value| {
            pods.iter().any(|pod| {
                let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
                volumes
                    .into_iter()
                    .any(|volume| volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"])
            })
        };
        let owner_lives = |claim: &Value| {
            let owners = claim["metadata"]["ownerReferences"].as_array();
            owners
                .into_iter()
                .flatten()
                .all(|owner| owner["kind"] != "Pod" || pods.iter().any(|pod| pod["metadata"]["uid"] == owner["uid"]))
        };
        self.objects.retain(|(kind, _), object| {
            let goes =
                object["metadata"].get("deletionTimestamp").is_some() || !owner_lives_of(kind, object, &owner_lives);
            *kind != PersistentVolumeClaim::RESOURCE || !goes || is_used(object)
        });
    }
}

fn owner_lives_of(kind: &'static Resource, object: &Value, lives: &dyn Fn(&Value) -> bool) -> bool {
    kind != PersistentVolumeClaim::RESOURCE || lives(object)
}

pub(crate) fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

/// What our own webhook does to a new Pod.
fn admit_pod(pod: &mut Value) {
    pod["status"] = json!({ "phase": "Pending" });
    let gates = &mut pod["spec"]["readinessGates"];
    if !gates.is_array() {
        *gates = json!([]);
    }
    gates
        .as_array_mut()
        .unwrap()
        .push(json!({ "conditionType": KRUISE_POD_READY }));
}

/// The node that the affinity of a Pod names.
fn only_node(pod: &Value) -> Option<&str> {
    let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let named = pod.pointer(&format!("{required}/nodeSelectorTerms/0/matchFields/0/values/0"));
    named.and_then(Value::as_str)
}

/// What scheduler and kubelet make of a Pod. Images with `fail` in them make it fail.
fn run_pod(pod: &mut Value, now: Timestamp) {
    if pod["spec"].get("nodeName").is_none() {
        pod["spec"]["nodeName"] = json!(only_node(pod).unwrap_or("n1"));
    }
    let containers = pod["spec"]["containers"].as_array().unwrap().clone();
    // What has failed stays failed, as on a real node.
    if pod["status"]["phase"] == "Failed"
        || containers
            .iter()
            .any(|container| container["image"].as_str().unwrap().contains("fail"))
    {
        pod["status"]["phase"] = json!("Failed");
        set_condition(pod, "Ready", false, now);
        return;
    }
    let good = containers
        .iter()
        .all(|container| !container["image"].as_str().unwrap().contains("bad"));
    let statuses: Vec<Value> = containers
        .iter()
        .map(|container| {
            let image = container["image"].as_str().unwrap();
            json!({ "name": container["name"], "image": image, "imageID": format!("id-of-{image}"), "ready": good, "restartCount": 0 })
        })
        .collect();
    pod["status"]["phase"] = json!("Running");
    pod["status"]["containerStatuses"] = json!(statuses);
    let gates = pod["spec"]["readinessGates"].as_array().cloned().unwrap_or_default();
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let holds = |type_: &Value| {
        conditions
            .iter()
            .any(|condition| condition["type"] == *type_ && condition["status"] == "True")
    };
    let ready = good && gates.iter().all(|gate| holds(&gate["conditionType"]));
    set_condition(pod, "ContainersReady", good, now);
    set_condition(pod, "Ready", ready, now);
}

/// Whether a Pod gets traffic.
fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let holds = |type_: &str| {
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == type_ && condition["status"] == "True")
    };
    let gates = pod["spec"]["readinessGates"].as_array().into_iter().flatten();
    let is_gated = gates
        .into_iter()
        .any(|gate| gate["conditionType"] == IN_PLACE_UPDATE_READY);
    holds("Ready") && (!is_gated || holds(IN_PLACE_UPDATE_READY))
}

fn set_condition(pod: &mut Value, type_: &str, holds: bool, now: Timestamp) {
    let status = if holds { "True" } else { "False" };
    let list = &mut pod["status"]["conditions"];
    if !list.is_array() {
        *list = json!([]);
    }
    let list = list.as_array_mut().unwrap();
    if list
        .iter()
        .any(|known| known["type"] == type_ && known["status"] == status && known["lastTransitionTime"].is_string())
    {
        return;
    }
    list.retain(|known| known["type"] != type_);
    list.push(json!({ "type": type_, "status": status, "lastTransitionTime": now.to_string() }));
}

fn apply_patch(object: &mut Value, subresource: Option<Subresource>, patch: &Patch) {
    let allowed: &[&str] = match subresource {
        None => &["metadata", "spec", "revision"],
        Some(Subresource::Status) => &["metadata", "status"],
        Some(Subresource::Resize | Subresource::EphemeralContainers) => &["spec"],
        Some(other) => panic!("the model has no {other}"),
    };
    for key in patch.document().as_object().unwrap().keys() {
        assert!(
            allowed.contains(&key.as_str()),
            "{key} is not written through {subresource:?}"
        );
    }
    match patch {
        Patch::Merge(patch) => merge(object, patch, false),
        Patch::Strategic(patch) => merge(object, patch, true),
    }
}

fn merge(object: &mut Value, patch: &Value, strategic: bool) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    for (key, value) in patch {
        let object = object.as_object_mut().unwrap();
        match value {
            Value::Null => {
                object.remove(key);
            }
            Value::Array(items) if strategic => {
                let list = object.entry(key.clone()).or_insert_with(|| json!([]));
                merge_list(list, key, items);
            }
            value => merge(object.entry(key.clone()).or_insert(Value::Null), value, strategic),
        }
    }
}

/// Lists as Kubernetes merges them: by key, or as sets.
fn merge_list(list: &mut Value, name: &str, items: &[Value]) {
    let key = match name {
        "conditions" => Some("type"),
        "containers" | "ephemeralContainers" | "env" => Some("name"),
        "ownerReferences" => Some("uid"),
        "finalizers" => None,
        other => panic!("the model does not know how to merge {other}"),
    };
    let list = list.as_array_mut().unwrap();
    for item in items {
        let Some(key) = key else {
            if !list.contains(item) {
                list.push(item.clone());
            }
            continue;
        };
        if item["$patch"] == "delete" {
            list.retain(|known| known[key] != item[key]);
        } else if let Some(known) = list.iter_mut().find(|known| known[key] == item[key]) {
            merge(known, item, true);
        } else {
            let mut new = json!({});
            merge(&mut new, item, true);
            list.push(new);
        }
    }
}
