//! A model of everybody but the controller: an API server that takes every write, and nodes on which everything goes well.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use kruise_api::kind::Kind as _;
use kruise_api::merge_patch;
use kruise_api::names::annotation;
use kruise_api::names::condition::pod::{IN_PLACE_UPDATE_READY, KRUISE_POD_READY};
use kruise_api::pod::Pod;
use kruise_api::read::from_slice;
use kruise_api::revision::ControllerRevision;
use kruise_api::shared::lifecycle::{Lifecycle, LifecycleHook};
use kruise_api::text::Text;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Also, Counts, Rehearsed, Wave};
use crate::plan::{Action, Env, Outcome, Patch, Plan, Progress, Target};
use crate::shared::availability::{CONTAINERS_READY, READY, availability, is_active, is_ready};
use crate::shared::lifecycle::{State, is_fully_hooked, is_hooked, state};
use crate::shared::strategic_merge;

/// What the UIDs of Pods begin with that are made here.
const MADE: &str = "made-";

/// Namespace and name of a Pod.
type FullName = (Text, Box<str>);

fn full_name(pod: &Pod) -> FullName {
    (pod.metadata.namespace.clone(), pod.metadata.name.clone())
}

fn is(pod: &Pod, target: &Target) -> bool {
    *pod.metadata.name == *target.name && *pod.metadata.namespace == *target.namespace
}

/// The objects of a workload, as they would be.
pub(super) struct Stage<R: Rehearsed> {
    observed: R,
    uid: String,
    /// Pods that were written since the nodes last looked at them.
    written: BTreeSet<FullName>,
    /// Of those, Pods whose containers start anew.
    restarting: BTreeSet<FullName>,
    /// Pods that somebody helped already.
    helped: BTreeSet<FullName>,
    made: usize,
}

impl<R: Rehearsed> Stage<R> {
    pub(super) fn new(mut observed: R) -> Self {
        *observed.parts().last = Outcome::default();
        let mut this = Self {
            observed,
            uid: String::new(),
            written: BTreeSet::new(),
            restarting: BTreeSet::new(),
            helped: BTreeSet::new(),
            made: 0,
        };
        let workload = this.workload();
        let uid = workload.pointer("/metadata/uid").and_then(Value::as_str);
        uid.unwrap_or_default().clone_into(&mut this.uid);
        this
    }

    pub(super) fn pods(&mut self) -> &mut Vec<Arc<Pod>> {
        self.observed.parts().pods
    }

    pub(super) fn plan(&self, env: &Env) -> Plan {
        self.observed.plan(env)
    }

    pub(super) fn counts(&mut self, now: Timestamp) -> Counts {
        let restarting = std::mem::take(&mut self.restarting);
        let is_ready = |pod: &Pod| availability(pod, 0, now).is_now() && !restarting.contains(&full_name(pod));
        let active = self.pods().iter().filter(|pod| is_active(pod));
        let counts = active.fold(Counts::default(), |counts, pod| Counts {
            pods: counts.pods + 1,
            ready: counts.ready + usize::from(is_ready(pod)),
        });
        self.restarting = restarting;
        counts
    }

    pub(super) fn updated(&mut self) -> usize {
        self.observed.updated()
    }

    fn workload(&mut self) -> Value {
        serde_json::to_value(&**self.observed.parts().workload).unwrap_or_default()
    }

    fn lifecycle(&mut self) -> Option<Lifecycle> {
        serde_json::from_value(self.workload().pointer("/spec/lifecycle")?.clone()).ok()
    }

    /// Makes all writes of a plan. Returns whether anything is another than before.
    pub(super) fn play(&mut self, plan: &Plan, now: Timestamp, wave: &mut Wave, also: &mut Vec<Also>) -> bool {
        let mut progress = Progress::of(plan);
        let mut has_changed = false;
        while let Some(turn) = progress.next_turn() {
            has_changed |= self.write(turn.action, now, wave, also);
            let _ = progress.answered(turn, Ok(()));
        }
        has_changed
    }

    fn write(&mut self, action: &Action, now: Timestamp, wave: &mut Wave, also: &mut Vec<Also>) -> bool {
        let object = action.object();
        match (object.resource, action) {
            (Pod::RESOURCE, Action::Create { body, .. }) => self.create(body.json(), now, wave),
            (Pod::RESOURCE, Action::Patch { patch, .. }) => self.patch(object, patch, wave),
            (Pod::RESOURCE, Action::Delete { .. } | Action::Evict { .. }) => self.delete(object, now, wave),
            (ControllerRevision::RESOURCE, _) => self.write_revision(action),
            (resource, Action::Patch { patch, .. })
                if (resource.group, resource.kind) == (R::Workload::GROUP, R::Workload::KIND) =>
            {
                self.write_workload(patch)
            }
            (resource, Action::Create { body, .. }) => {
                let made = self.new_object(body.json());
                let is_known = self.observed.put(resource.kind, &made);
                if is_known {
                    count(also, "create", resource.kind);
                }
                is_known
            }
            (resource, Action::Delete { .. }) => {
                let is_known = self.observed.remove(resource.kind, &object.name);
                if is_known {
                    count(also, "delete", resource.kind);
                }
                is_known
            }
            // What is written to claims and jobs changes nothing that Pods wait for.
            _ => false,
        }
    }

    /// The object as the API server would have it.
    fn new_object(&mut self, mut object: Value) -> Value {
        self.made += 1;
        let identity = json!({"uid": format!("{MADE}{}", self.made), "resourceVersion": self.made.to_string()});
        merge_patch::merge(&mut object, &json!({"metadata": identity}));
        object
    }

    fn create(&mut self, pod: Value, now: Timestamp, wave: &mut Wave) -> bool {
        let mut pod = self.new_object(pod);
        let new = json!({"metadata": {"creationTimestamp": now.to_string()}, "status": {"phase": "Pending"}});
        merge_patch::merge(&mut pod, &new);
        let Some(pod) = read::<Pod>(&pod) else {
            return false;
        };
        self.written.insert(full_name(&pod));
        wave.created += 1;
        wave.places.extend(R::place_of(&pod));
        self.pods().push(pod);
        true
    }

    fn patch(&mut self, target: &Target, patch: &Patch, wave: &mut Wave) -> bool {
        let Some(place) = self.pods().iter().position(|pod| is(pod, target)) else {
            return false;
        };
        let mut pods = std::mem::take(self.pods());
        let mut has_changed = false;
        if let Some(pod) = pods.get_mut(place) {
            let was_owned = self.owns(pod);
            let new = change(pod, |json| match patch {
                Patch::Merge(patch) => merge_patch::merge(json, patch),
                Patch::Strategic(patch) => {
                    // A patch of ours that could not be merged would change nothing in the cluster either.
                    let _ = strategic_merge::apply(json, patch);
                }
            });
            if let Some(new) = new.filter(|new| new != pod) {
                if R::is_update(pod, &new) {
                    wave.in_place.push(called::<R>(&new));
                    self.restarting.insert(full_name(&new));
                }
                has_changed = true;
                *pod = new;
                self.written.insert(full_name(pod));
            }
            if was_owned && !self.owns(pod) {
                wave.released.push(called::<R>(pod));
                pods.remove(place);
            }
        }
        *self.pods() = pods;
        has_changed
    }

    fn owns(&self, pod: &Pod) -> bool {
        let mut owners = pod.metadata.owner_references.0.iter();
        owners.any(|owner| owner.uid.to_string() == self.uid)
    }

    fn delete(&mut self, target: &Target, now: Timestamp, wave: &mut Wave) -> bool {
        let Some(pod) = self.pods().iter_mut().find(|pod| is(pod, target)) else {
            return false;
        };
        if pod.metadata.is_deleting() {
            return false;
        }
        wave.deleted.push(called::<R>(pod));
        Arc::make_mut(pod).metadata.deletion_timestamp = Some(now.into());
        true
    }

    fn write_revision(&mut self, action: &Action) -> bool {
        let name = &action.object().name;
        let revisions = self.observed.parts().revisions;
        let known = revisions.iter().position(|known| known.name() == name);
        match (action, known) {
            (Action::Create { body, .. }, None) => {
                let made = read(&self.new_object(body.json()));
                let has_changed = made.is_some();
                self.observed.parts().revisions.extend(made);
                has_changed
            }
            (Action::Delete { .. }, Some(place)) => {
                revisions.remove(place);
                true
            }
            (Action::Patch { patch, .. }, Some(place)) => {
                let Some(known) = revisions.get_mut(place) else {
                    return false;
                };
                let mut json = json!({"metadata": known.metadata.to_json(), "revision": known.revision});
                merge_patch::merge(&mut json, patch.document());
                let Some(new) = read::<ControllerRevision>(&json) else {
                    return false;
                };
                let new = ControllerRevision {
                    data: known.data.clone(),
                    ..(*new).clone()
                };
                let has_changed = new != **known;
                *known = Arc::new(new);
                has_changed
            }
            _ => false,
        }
    }

    /// Its status, mostly. A status that is another is no reason to go on.
    fn write_workload(&mut self, patch: &Patch) -> bool {
        let before = self.workload();
        let mut after = before.clone();
        merge_patch::merge(&mut after, patch.document());
        let has_changed = before != after;
        if let Some(after) = read(&after) {
            *self.observed.parts().workload = after;
        }
        has_changed
    }

    /// Nodes do what they have to: Pods that were written run and are ready, and those that are deleted are gone.
    pub(super) fn settle(&mut self, now: Timestamp) {
        let written = std::mem::take(&mut self.written);
        self.restarting.clear();
        let pods = self.pods();
        pods.retain(|pod| !pod.metadata.is_deleting());
        for pod in pods.iter_mut().filter(|pod| written.contains(&full_name(pod))) {
            run(pod, now);
        }
    }

    /// Assumes what somebody else would have to do, once for each Pod and hook. Returns whether there was anything.
    pub(super) fn assume(&mut self, now: Timestamp, wave: &mut Wave) -> bool {
        let lifecycle = self.lifecycle();
        let mut helped = std::mem::take(&mut self.helped);
        for pod in self.pods().iter_mut().filter(|pod| is_active(pod)) {
            if let Some(new) = lifecycle.as_ref().and_then(|lifecycle| answer(pod, lifecycle)) {
                *pod = new;
                wave.hooks_answered.push(called::<R>(pod));
            } else if !is_ready(pod) && helped.insert(full_name(pod)) {
                run(pod, now);
                wave.assumed_ready.push(called::<R>(pod));
            }
        }
        self.helped = helped;
        !(wave.assumed_ready.is_empty() && wave.hooks_answered.is_empty())
    }
}

fn count(also: &mut Vec<Also>, verb: &str, kind: &str) {
    match also.iter_mut().find(|known| known.verb == verb && known.kind == kind) {
        Some(known) => known.count += 1,
        None => also.push(Also {
            verb: verb.to_owned(),
            kind: kind.to_owned(),
            count: 1,
        }),
    }
}

/// The name of a Pod; that of one that was made here may be chance.
fn called<R: Rehearsed>(pod: &Pod) -> String {
    if pod.metadata.uid.to_string().starts_with(MADE) {
        "a new Pod".to_owned()
    } else {
        R::name_of(pod)
    }
}

fn read<T: DeserializeOwned>(object: &Value) -> Option<Arc<T>> {
    // Through text, because raw parts keep what was written.
    from_slice(object.to_string().as_bytes()).ok().map(Arc::new)
}

fn change(pod: &Pod, change: impl FnOnce(&mut Value)) -> Option<Arc<Pod>> {
    let mut json = pod.to_json();
    change(&mut json);
    read(&json)
}

/// What scheduler, kubelet and daemon make of a Pod when all goes well.
fn run(pod: &mut Arc<Pod>, now: Timestamp) {
    let gates: Vec<&str> = pod.spec.template.readiness_gates.iter().map(|gate| &**gate).collect();
    // Those of ours are written by the planner, but for what holds from the beginning.
    let is_held = |gate: &&str| match *gate {
        IN_PLACE_UPDATE_READY => !pod.status.is_true(gate),
        KRUISE_POD_READY => pod.status.condition(gate).is_some() && !pod.status.is_true(gate),
        _ => false,
    };
    let ready = !gates.iter().any(is_held);
    let gates: Vec<String> = gates
        .into_iter()
        .filter(|gate| *gate != IN_PLACE_UPDATE_READY && (*gate != KRUISE_POD_READY || ready))
        .map(str::to_owned)
        .collect();
    // Pods of a DaemonSet name theirs.
    let mut named = pod.spec.required_nodes.0.iter().flat_map(|term| &term.match_fields);
    let named = named
        .find_map(|field| field.values.first())
        .map_or("somewhere", |node| &**node);
    let node = Some(&*pod.spec.node_name)
        .filter(|node| !node.is_empty())
        .unwrap_or(named)
        .to_owned();
    let record = pod.metadata.annotation(annotation::IN_PLACE_STATE);
    let record = record.and_then(|text| serde_json::from_str::<Value>(text).ok());
    let new = change(pod, |json| {
        let containers = json.pointer("/spec/containers").and_then(Value::as_array);
        let statuses = containers.into_iter().flatten().map(|container| runs(container, now));
        let status = json!({"phase": "Running", "containerStatuses": statuses.collect::<Vec<_>>()});
        merge_patch::merge(json, &json!({"spec": {"nodeName": node}, "status": status}));
        for gate in &gates {
            holds(json, gate, true, now);
        }
        holds(json, CONTAINERS_READY, true, now);
        holds(json, READY, ready, now);
        // The daemon has seen the new environment.
        if let Some(mut record) = record {
            merge_patch::merge(&mut record, &json!({"updateEnvFromMetadata": false}));
            let annotations = json!({(annotation::IN_PLACE_STATE): record.to_string()});
            merge_patch::merge(json, &json!({"metadata": {"annotations": annotations}}));
        }
    });
    if let Some(new) = new {
        *pod = new;
    }
}

/// How a container is that runs.
fn runs(container: &Value, now: Timestamp) -> Value {
    let text = |field: &str| container.get(field).and_then(Value::as_str).unwrap_or_default();
    let image = text("image");
    json!({
        "name": text("name"), "image": image, "imageID": format!("id-of-{image}"), "ready": true, "started": true,
        "state": {"running": {"startedAt": now.to_string()}}, "resources": container.get("resources"),
    })
}

fn holds(pod: &mut Value, type_: &str, holds: bool, now: Timestamp) {
    let status = if holds { "True" } else { "False" };
    let is = |known: &Value, field: &str, text: &str| known.get(field).and_then(Value::as_str) == Some(text);
    let Some(conditions) = pod.pointer_mut("/status/conditions").and_then(Value::as_array_mut) else {
        return;
    };
    if conditions
        .iter()
        .any(|known| is(known, "type", type_) && is(known, "status", status))
    {
        return;
    }
    conditions.retain(|known| !is(known, "type", type_));
    conditions.push(json!({"type": type_, "status": status, "lastTransitionTime": now.to_string()}));
}

/// The Pod after its hook has answered; nothing when none is asked.
fn answer(pod: &Pod, lifecycle: &Lifecycle) -> Option<Arc<Pod>> {
    let (hook, goes) = match state(pod) {
        State::PreparingUpdate => (lifecycle.in_place_update.as_ref(), true),
        State::PreparingDelete => (lifecycle.pre_delete.as_ref(), true),
        State::Updated => (lifecycle.in_place_update.as_ref(), false),
        State::PreparingNormal => (lifecycle.pre_normal.as_ref(), false),
        _ => return None,
    };
    let asked = if goes {
        is_hooked(pod, hook)
    } else {
        hook.is_some() && !is_fully_hooked(pod, hook)
    };
    let hook: &LifecycleHook = hook.filter(|_| asked)?;
    change(pod, |json| {
        let label = |value: &String| if goes { Value::Null } else { json!(value) };
        let labels = hook
            .labels_handler
            .iter()
            .map(|(key, value)| (key.clone(), label(value)));
        let labels = Value::Object(labels.collect());
        merge_patch::merge(json, &json!({"metadata": {"labels": labels}}));
        if let Some(finalizers) = json.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
            for name in &hook.finalizers_handler {
                finalizers.retain(|known| *known != **name);
                if !goes {
                    finalizers.push(json!(&**name));
                }
            }
        }
    })
}
