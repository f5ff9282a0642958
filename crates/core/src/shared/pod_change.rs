//! What shall be changed of one Pod, and in how few requests that is possible.
//!
//! Decisions collect into a [`PodChange`]; [`PodChange::requests`] turns it into strategic merge patches. Labels and annotations travel
//! with whatever is written anyway: the status subresource takes them too, so a condition and a label are one request. A change that
//! others may wait to see ([`PodChange::seen_by_admission`]) is written to the Pod itself: webhooks and policies for Pods are not asked about
//! their status.
//!
//! Requests go in this order: status, resize, Pod. Each names the Pod's UID; the first also its version when the decision was made from
//! the Pod's content ([`Guard::Version`]), so that a decision on an outdated Pod is refused instead of applied.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kruise_api::pod::Pod;
use kruise_api::resource::{Preconditions, Subresource};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::seconds::to_the_second;

/// One request: a strategic merge patch.
#[derive(Clone, Debug, PartialEq)]
pub struct PodPatch {
    /// The part that is patched; nothing for the Pod itself.
    pub subresource: Option<Subresource>,
    /// The patch.
    pub body: Value,
    /// What has to be true of the Pod.
    pub preconditions: Preconditions,
}

/// What has to be true of the Pod for a request to be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// It is still the same Pod.
    Identity,
    /// Nothing about it has changed.
    Version,
}

/// A condition as it shall be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewCondition {
    /// Whether it holds.
    pub holds: bool,
    /// Why, in one word.
    pub reason: Option<String>,
    /// Details.
    pub message: Option<String>,
    /// Since when; left empty for kubelet when not given.
    pub since: Option<Timestamp>,
}

/// Requests and limits to set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(default)]
pub struct ResourceChange {
    /// Limits by resource.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
    /// Requests by resource.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, String>,
}

impl ResourceChange {
    /// True when nothing changes.
    pub fn is_empty(&self) -> bool {
        self.limits.is_empty() && self.requests.is_empty()
    }
}

/// Everything that shall be changed of one Pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodChange {
    /// Labels to set, or to remove.
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations to set, or to remove.
    pub annotations: BTreeMap<String, Option<String>>,
    /// Finalizers to add.
    pub finalizers: Vec<String>,
    /// More of the metadata, as a strategic merge patch of it. What the fields above say wins.
    pub metadata: Map<String, Value>,
    /// Conditions by type.
    pub conditions: BTreeMap<String, NewCondition>,
    /// Images by container.
    pub images: BTreeMap<String, String>,
    /// Resources by container.
    pub resources: BTreeMap<String, ResourceChange>,
    /// Admission of others shall see the labels and annotations.
    pub seen_by_admission: bool,
}

impl PodChange {
    /// True when nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Sets a label.
    pub fn set_label(&mut self, key: &str, value: &str) {
        self.labels.insert(key.to_owned(), Some(value.to_owned()));
    }

    /// Sets an annotation.
    pub fn set_annotation(&mut self, key: &str, value: impl Into<String>) {
        self.annotations.insert(key.to_owned(), Some(value.into()));
    }

    /// Removes an annotation, if the Pod has it.
    pub fn remove_annotation(&mut self, pod: &Pod, key: &str) {
        if pod.metadata.annotation(key).is_some() {
            self.annotations.insert(key.to_owned(), None);
        }
    }

    /// Adds another change; where both say something, the other one counts.
    pub fn merge(&mut self, other: Self) {
        self.labels.extend(other.labels);
        self.annotations.extend(other.annotations);
        self.finalizers.extend(other.finalizers);
        self.metadata.extend(other.metadata);
        self.conditions.extend(other.conditions);
        self.images.extend(other.images);
        self.resources.extend(other.resources);
        self.seen_by_admission |= other.seen_by_admission;
    }

    /// The requests that make the change, in order. Resources go through the `resize` endpoint where the server has one.
    pub fn requests(mut self, pod: &Pod, guard: Guard, has_resize: bool) -> Vec<PodPatch> {
        let mut requests = Vec::new();
        let conditions = std::mem::take(&mut self.conditions);
        let resources = std::mem::take(&mut self.resources);
        let resize = if has_resize { resources.clone() } else { BTreeMap::new() };
        let in_spec = if has_resize { BTreeMap::new() } else { resources };

        let shown = std::mem::take(&mut self.seen_by_admission);
        let needs_pod_write = shown
            || !(self.images.is_empty()
                && in_spec.is_empty()
                && self.finalizers.is_empty()
                && self.metadata.is_empty());
        if !conditions.is_empty() {
            let mut body = json!({"status": {"conditions": conditions_list(&conditions)}});
            if !needs_pod_write {
                self.write_metadata(&mut body);
            }
            requests.push((Some(Subresource::Status), body));
        }
        if !resize.is_empty() {
            let containers = containers_list(&BTreeMap::new(), &resize);
            requests.push((Some(Subresource::Resize), json!({"spec": {"containers": containers}})));
        }
        if !self.is_empty() || needs_pod_write {
            let mut body = json!({});
            self.write_metadata(&mut body);
            if !(self.images.is_empty() && in_spec.is_empty())
                && let Value::Object(body) = &mut body
            {
                let containers = containers_list(&self.images, &in_spec);
                body.insert("spec".to_owned(), json!({"containers": containers}));
            }
            requests.push((None, body));
        }
        let mut guard = guard;
        let guarded = |(subresource, body)| {
            let preconditions = match guard {
                Guard::Identity => Preconditions::same(pod),
                Guard::Version => Preconditions::unchanged(pod),
            };
            // What follows must not be refused because of what went before.
            guard = Guard::Identity;
            PodPatch {
                subresource,
                body,
                preconditions,
            }
        };
        requests.into_iter().map(guarded).collect()
    }

    /// Moves everything about the metadata into the body of a patch.
    fn write_metadata(&mut self, body: &mut Value) {
        let mut metadata = std::mem::take(&mut self.metadata);
        let labels = std::mem::take(&mut self.labels);
        let annotations = std::mem::take(&mut self.annotations);
        for (name, values) in [("labels", labels), ("annotations", annotations)] {
            if !values.is_empty()
                && let Some(map) = super::tree::child_or_new(&mut metadata, name)
            {
                map.extend(values.into_iter().map(|(key, value)| (key, json!(value))));
            }
        }
        if !self.finalizers.is_empty() {
            let mut all = std::mem::take(&mut self.finalizers);
            let listed = metadata.remove("finalizers");
            let listed = listed.as_ref().and_then(Value::as_array).into_iter().flatten();
            all.extend(listed.filter_map(Value::as_str).map(str::to_owned));
            all.sort();
            all.dedup();
            metadata.insert("finalizers".to_owned(), json!(all));
        }
        if !metadata.is_empty()
            && let Value::Object(body) = body
        {
            body.insert("metadata".to_owned(), Value::Object(metadata));
        }
    }
}

/// As patches of conditions, by type. What is not said is removed: an earlier reason must not stay.
fn conditions_list(conditions: &BTreeMap<String, NewCondition>) -> Vec<Value> {
    let condition = |(type_, new): (&String, &NewCondition)| {
        json!({
            "type": type_,
            "status": if new.holds { "True" } else { "False" },
            "reason": new.reason,
            "message": new.message,
            "lastTransitionTime": new.since.map(to_the_second),
        })
    };
    conditions.iter().map(condition).collect()
}

fn containers_list(images: &BTreeMap<String, String>, resources: &BTreeMap<String, ResourceChange>) -> Vec<Value> {
    let mut containers: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for (name, image) in images {
        containers
            .entry(name)
            .or_default()
            .insert("image".to_owned(), json!(image));
    }
    for (name, change) in resources {
        containers
            .entry(name)
            .or_default()
            .insert("resources".to_owned(), json!(change));
    }
    let named = |(name, mut fields): (&str, Map<String, Value>)| {
        fields.insert("name".to_owned(), json!(name));
        Value::Object(fields)
    };
    containers.into_iter().map(named).collect()
}
