//! Pulling the images of a new revision onto the nodes before their Pods are updated.
//!
//! - Worth it only for a rollout that takes several steps and leaves Pods on their nodes: of more than a few replicas, and not all at once.
//! - Whether it is worth it is decided once per revision, and noted on it with a label; later changes of the workload do not matter.
//! - One ImagePullJob per container whose image differs; it covers the nodes of all Pods that are not at the new revision.
//! - When all Pods are at the new revision, the jobs go.
//!
//! What fails here holds nothing back.

mod steps;

pub use steps::{clean_up, is_due, pre_download};

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kruise_api::imagepulljob::v1beta1::ImagePullJob;
use kruise_api::kind::Kind as _;
use kruise_api::names::{label, pattern};
use kruise_api::revision::ControllerRevision;
use kruise_api::shared::IntOrPercent;
use serde_json::{Value, json};

use super::owner::Owner;
use super::revision::{short, template};

/// The rollout of a workload.
#[derive(Clone, Debug)]
pub struct Rollout<'a> {
    /// The workload, owner of the jobs.
    pub owner: &'a Owner,
    /// Its namespace.
    pub namespace: &'a str,
    /// Which Pods are its own.
    pub selector: &'a LabelSelector,
    /// The revisions that Pods are at; an image counts that differs from that of any of them.
    pub old: &'a [&'a ControllerRevision],
    /// The revision that they shall be at.
    pub update: &'a ControllerRevision,
    /// Whether Pods stay on their nodes while they are updated, so that images help which are there before.
    pub stays_on_nodes: bool,
    /// Replicas up to which a rollout is over before images would be there.
    pub few: i32,
    /// Wanted number of Pods.
    pub replicas: i32,
    /// Pods that stay at the old revision.
    pub partition: i32,
    /// Most Pods that may be unavailable.
    pub max_unavailable: i32,
    /// Pods at the new revision that are ready; 0 when the status is about another revision.
    pub updated_ready: i32,
    /// So many of these there have to be first.
    pub min_updated_ready: i32,
    /// Most nodes that pull at the same time; 1 when not given.
    pub parallelism: Option<&'a IntOrPercent>,
    /// Seconds for one pull; 300 when not given.
    pub timeout_seconds: Option<i32>,
}

/// What to do about images.
#[derive(Clone, Debug, PartialEq)]
pub enum Predownload {
    /// Nothing: it was decided before.
    Decided,
    /// Nothing yet: there are not enough updated Pods.
    Wait,
    /// Nothing ever: label the revision so.
    Ignore {
        /// A merge patch of the revision.
        label: Value,
    },
    /// Make jobs, then label the revision, also if some of them could not be made.
    Create {
        /// The jobs; one that exists already is fine.
        jobs: Vec<Job>,
        /// A merge patch of the revision.
        label: Value,
    },
}

/// A job to make.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// The image it pulls.
    pub image: String,
    /// The object.
    pub object: Value,
}

const TIMEOUT_SECONDS: i32 = 300;
const TTL_SECONDS: i32 = 600;

/// Returns what to do about the images of a rollout.
pub fn predownload(rollout: &Rollout<'_>) -> Predownload {
    if is_decided(rollout) {
        return Predownload::Decided;
    }
    let is_worth_it = rollout.stays_on_nodes && rollout.replicas > rollout.few && !is_all_at_once(rollout);
    if !is_worth_it {
        let label = labelled(label::PRE_DOWNLOAD_IGNORED);
        return Predownload::Ignore { label };
    }
    if rollout.updated_ready < rollout.min_updated_ready {
        return Predownload::Wait;
    }
    Predownload::Create {
        jobs: jobs(rollout),
        label: labelled(label::PRE_DOWNLOAD_CREATED),
    }
}

fn is_all_at_once(rollout: &Rollout<'_>) -> bool {
    rollout.partition <= 0 && rollout.max_unavailable >= rollout.replicas
}

fn is_decided(rollout: &Rollout<'_>) -> bool {
    let is_labelled = |key| rollout.update.metadata.label(key).is_some();
    is_labelled(label::PRE_DOWNLOAD_CREATED) || is_labelled(label::PRE_DOWNLOAD_IGNORED)
}

fn labelled(key: &str) -> Value {
    json!({"metadata": {"labels": {(key): "true"}}})
}

fn jobs(rollout: &Rollout<'_>) -> Vec<Job> {
    let read = |revision: &ControllerRevision| template(&revision.data.value()).unwrap_or_default();
    let after = read(rollout.update);
    let before: Vec<Value> = rollout.old.iter().map(|revision| read(revision)).collect();
    let differs = |(name, image): &(&str, &str)| before.iter().any(|before| images(before).get(name) != Some(image));
    let changed = images(&after).into_iter().filter(differs);
    changed.map(|(name, image)| job(rollout, &after, name, image)).collect()
}

/// Images by container.
fn images<'a>(template: &'a Value) -> BTreeMap<&'a str, &'a str> {
    let containers = template.pointer("/spec/containers").and_then(Value::as_array);
    let pair = |container: &'a Value| {
        let text = |key: &str| container.get(key)?.as_str();
        Some((text("name")?, text("image")?))
    };
    containers.into_iter().flatten().filter_map(pair).collect()
}

fn job(rollout: &Rollout<'_>, template: &Value, container: &str, image: &str) -> Job {
    let revision = rollout.update.name();
    let name = pattern::pre_download_job(revision, container);
    let hash = rollout
        .update
        .metadata
        .label(label::REVISION_DATA_HASH)
        .unwrap_or_else(|| short(revision));
    let map = |path: &str| {
        template
            .pointer(path)
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default()
    };
    let mut labels = map("/metadata/labels");
    labels.insert(label::REVISION_DATA_HASH.to_owned(), json!(hash));
    let secrets = template.pointer("/spec/imagePullSecrets").and_then(Value::as_array);
    let secrets: Vec<&str> = secrets
        .into_iter()
        .flatten()
        .filter_map(|secret| secret.get("name").and_then(Value::as_str))
        .collect();
    let annotations = map("/metadata/annotations");
    let mut sandbox = json!({ "labels": labels });
    if let (Value::Object(sandbox), false) = (&mut sandbox, annotations.is_empty()) {
        sandbox.insert("annotations".to_owned(), json!(annotations));
    }
    let mut spec = json!({
        "image": image,
        "podSelector": not_at(rollout.selector, revision),
        "parallelism": rollout.parallelism.unwrap_or(&IntOrPercent::Int(1)),
        "pullPolicy": {
            "backoffLimit": 1,
            "timeoutSeconds": rollout.timeout_seconds.unwrap_or(TIMEOUT_SECONDS),
        },
        "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": TTL_SECONDS},
        "sandboxConfig": sandbox,
    });
    if let (Value::Object(spec), false) = (&mut spec, secrets.is_empty()) {
        spec.insert("pullSecrets".to_owned(), json!(secrets));
    }
    let object = json!({
        "apiVersion": ImagePullJob::API_VERSION,
        "kind": ImagePullJob::KIND,
        "metadata": {
            "name": name,
            "namespace": rollout.namespace,
            "labels": labels,
            "ownerReferences": [rollout.owner.reference()],
        },
        "spec": spec,
    });
    Job {
        name,
        image: image.to_owned(),
        object,
    }
}

/// The workload's selector, without Pods that are at the revision.
fn not_at(selector: &LabelSelector, revision: &str) -> LabelSelector {
    let mut selector = selector.clone();
    let others = LabelSelectorRequirement {
        key: label::REVISION.to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(vec![revision.to_owned(), short(revision).to_owned()]),
    };
    selector.match_expressions.get_or_insert_default().push(others);
    selector
}

#[cfg(test)]
mod tests;
