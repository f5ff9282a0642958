//! The records of an update in place that a Pod carries as annotations. They are the same, byte for byte, as the original's: either of the two
//! can go on with what the other began.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kruise_api::names::annotation;
use kruise_api::pod::Pod;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::change_set::{ChangeSet, RefMetadata};
use crate::shared::go_json;
use crate::shared::pod_change::{PodChange, ResourceChange};
use crate::shared::tree;

/// How far the latest update in place has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct State {
    /// The revision it goes to.
    pub revision: String,
    /// When it began; a grace period counts from here.
    pub update_timestamp: Option<String>,
    /// What the containers ran before they were changed.
    pub last_container_statuses: Option<BTreeMap<String, LastStatus>>,
    /// Whether it changes environment that is made from metadata.
    #[serde(skip_serializing_if = "is_false")]
    pub update_env_from_metadata: bool,
    /// Whether it changes resources.
    #[serde(skip_serializing_if = "is_false")]
    pub update_resources: bool,
    /// Whether it changes images.
    #[serde(skip_serializing_if = "is_false")]
    pub update_images: bool,
    /// Images of later batches.
    #[serde(skip_serializing_if = "is_none_or_empty")]
    pub next_container_images: Option<BTreeMap<String, String>>,
    /// Metadata that feeds the environment of containers in later batches.
    #[serde(skip_serializing_if = "is_none_or_empty")]
    pub next_container_ref_metadata: Option<BTreeMap<String, RefMetadata>>,
    /// Resources of later batches.
    #[serde(skip_serializing_if = "is_none_or_empty")]
    pub next_container_resources: Option<BTreeMap<String, ResourceChange>>,
    /// What the next batch waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_check_before_next: Option<PreCheck>,
    /// The batches so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_batches_record: Option<Vec<Batch>>,
}

/// What a container ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastStatus {
    /// ID of the image.
    #[serde(rename = "imageID", skip_serializing_if = "String::is_empty")]
    pub image_id: String,
}

/// What the next batch waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreCheck {
    /// Containers that have to be ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub containers_required_ready: Vec<String>,
}

/// Containers that were changed together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Batch {
    /// When.
    pub timestamp: Option<String>,
    /// Which.
    pub containers: Vec<String>,
}

/// A change that waits for the end of the grace period.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Grace {
    /// The revision it goes to.
    pub revision: String,
    /// New images by container.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub container_images: BTreeMap<String, String>,
    /// Metadata that feeds the environment of containers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub container_ref_metadata: BTreeMap<String, RefMetadata>,
    /// New resources by container.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub container_resources: BTreeMap<String, ResourceChange>,
    /// Other metadata: a patch in base64.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub meta_data_patch: String,
    /// Whether environment is made from metadata that changes.
    #[serde(skip_serializing_if = "is_false")]
    pub update_env_from_metadata: bool,
    /// How long to wait.
    #[serde(skip_serializing_if = "is_zero")]
    pub grace_seconds: i32,
}

/// A record that cannot be read; nothing is done to the Pod until somebody repairs or removes it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("annotation {key} cannot be read: {reason}")]
pub struct Unreadable {
    /// The annotation.
    pub key: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

/// The record of the Pod's latest update in place, if there was one.
pub fn state_of(pod: &Pod) -> Result<Option<State>, Unreadable> {
    let new = read(pod, annotation::IN_PLACE_STATE)?;
    if new.is_some() {
        Ok(new)
    } else {
        read(pod, annotation::IN_PLACE_STATE_OLD)
    }
}

/// The change that waits for the end of the grace period, if there is one. An empty annotation is none.
pub fn grace_of(pod: &Pod) -> Result<Option<Grace>, Unreadable> {
    match grace_text(pod) {
        Some((_, "")) | None => Ok(None),
        Some((key, _)) => read(pod, key),
    }
}

/// True when a change waits for the end of its grace period, be it readable or not. An empty annotation is none.
pub fn is_in_grace(pod: &Pod) -> bool {
    grace_text(pod).is_some_and(|(_, text)| !text.is_empty())
}

/// The grace annotation as it is, new or old key.
pub(super) fn grace_text(pod: &Pod) -> Option<(&'static str, &str)> {
    let keys = [annotation::IN_PLACE_GRACE, annotation::IN_PLACE_GRACE_OLD];
    keys.into_iter()
        .find_map(|key| Some((key, pod.metadata.annotation(key)?)))
}

/// Takes the waiting change away from its Pod.
pub(super) fn remove_grace(pod: &Pod, change: &mut PodChange) {
    change.remove_annotation(pod, annotation::IN_PLACE_GRACE);
    change.remove_annotation(pod, annotation::IN_PLACE_GRACE_OLD);
}

fn read<T: for<'de> Deserialize<'de>>(pod: &Pod, key: &'static str) -> Result<Option<T>, Unreadable> {
    let text = pod.metadata.annotation(key);
    let unreadable = |error: serde_json::Error| Unreadable {
        key,
        reason: error.to_string(),
    };
    text.map(serde_json::from_str).transpose().map_err(unreadable)
}

impl State {
    /// A record for the beginning of an update.
    pub fn begin(change: &ChangeSet, now: String) -> Self {
        Self {
            revision: change.revision.clone(),
            update_timestamp: Some(now),
            update_env_from_metadata: change.updates_env(),
            update_resources: !change.resources.is_empty(),
            update_images: !change.images.is_empty(),
            ..Self::default()
        }
    }

    /// Whether something is left for later batches.
    pub fn has_next(&self) -> bool {
        !(is_none_or_empty(&self.next_container_images)
            && is_none_or_empty(&self.next_container_ref_metadata)
            && is_none_or_empty(&self.next_container_resources))
    }

    /// What is left for later batches.
    pub fn next(&self) -> ChangeSet {
        ChangeSet {
            revision: self.revision.clone(),
            images: self.next_container_images.clone().unwrap_or_default(),
            resources: self.next_container_resources.clone().unwrap_or_default(),
            referenced: self.next_container_ref_metadata.clone().unwrap_or_default(),
            ..ChangeSet::default()
        }
    }

    /// As the annotation has it.
    pub fn to_json(&self) -> String {
        go_json::escape(&serde_json::to_string(self).unwrap_or_default())
    }

    /// Puts the record into a change of its Pod.
    pub(super) fn write_to(&self, pod: &Pod, change: &mut PodChange) {
        change.set_annotation(annotation::IN_PLACE_STATE, self.to_json());
        change.remove_annotation(pod, annotation::IN_PLACE_STATE_OLD);
    }
}

impl Grace {
    /// A change that shall wait.
    pub fn of(change: &ChangeSet) -> Self {
        let patch = if change.metadata.is_empty() {
            String::new()
        } else {
            STANDARD.encode(go_json::to_string(&json!({"metadata": change.metadata})))
        };
        Self {
            revision: change.revision.clone(),
            container_images: change.images.clone(),
            container_ref_metadata: change.referenced.clone(),
            container_resources: change.resources.clone(),
            meta_data_patch: patch,
            update_env_from_metadata: change.updates_env(),
            grace_seconds: change.grace_seconds,
        }
    }

    /// The change that waits.
    pub fn change(&self) -> Result<ChangeSet, Unreadable> {
        Ok(ChangeSet {
            revision: self.revision.clone(),
            images: self.container_images.clone(),
            resources: self.container_resources.clone(),
            metadata: self.metadata()?,
            referenced: self.container_ref_metadata.clone(),
            grace_seconds: self.grace_seconds,
        })
    }

    fn metadata(&self) -> Result<Map<String, Value>, Unreadable> {
        let unreadable = |reason: String| Unreadable {
            key: annotation::IN_PLACE_GRACE,
            reason,
        };
        if self.meta_data_patch.is_empty() {
            return Ok(Map::new());
        }
        let bytes = STANDARD
            .decode(&self.meta_data_patch)
            .map_err(|error| unreadable(error.to_string()))?;
        let mut patch: Map<String, Value> =
            serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
        // A patch of the Pod; a patch of its metadata alone is understood as well.
        Ok(tree::take_child(&mut patch, "metadata").unwrap_or(patch))
    }

    /// As the annotation has it.
    pub fn to_json(&self) -> String {
        go_json::escape(&serde_json::to_string(self).unwrap_or_default())
    }
}

// The signatures below are what serde calls.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(value: &bool) -> bool {
    !*value
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(value: &i32) -> bool {
    *value == 0
}

#[allow(clippy::ref_option)]
fn is_none_or_empty<V>(map: &Option<BTreeMap<String, V>>) -> bool {
    map.as_ref().is_none_or(BTreeMap::is_empty)
}
