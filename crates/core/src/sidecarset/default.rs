//! What is written into a SidecarSet where its user said nothing.
//!
//! | field | default |
//! |---|---|
//! | `updateStrategy.type`, `partition`, `maxUnavailable` | `RollingUpdate`, 0, 1 |
//! | `revisionHistoryLimit` | 10 |
//! | `injectionStrategy.revision.policy` | `Always` |
//! | `patchPodMetadata[].patchPolicy` | `Retain` |
//! | `podInjectPolicy` | `BeforeAppContainer`; of init containers `AfterAppContainer` |
//! | `upgradeStrategy.upgradeType`, `shareVolumePolicy.type` | `ColdUpgrade`, `disabled` |
//! | `fieldRef.apiVersion` of variables to take over | `v1` |
//! | of containers and volumes | what Kubernetes writes, but nothing into a startup probe |
//!
//! Then both hashes are written, whatever stood there. All of it works on the JSON as it came: fields nobody knows stay, and do not count in the hashes.

use super::hash::Hashes;
use crate::pod_template;
use crate::shared::tree::{Object, child, child_or_new, each, fill, fill_missing, set_metadata};
use kruise_api::gates::Gates;
use kruise_api::names::annotation;
use serde_json::{Value, json};

/// Completes a SidecarSet of either version.
pub fn default(object: &mut Object) {
    let Some(spec) = child_or_new(object, "spec") else {
        return;
    };
    strategies(spec);
    containers(spec, "initContainers", "AfterAppContainer");
    containers(spec, "containers", "BeforeAppContainer");
    volumes(spec);
    let list = |field: &str| -> Vec<Value> {
        let list = spec.get(field).and_then(Value::as_array);
        list.cloned().unwrap_or_default()
    };
    let hashes = Hashes::of(&list("containers"), &list("initContainers"));
    set_metadata(object, "annotations", annotation::SIDECAR_SET_HASH, hashes.hash);
    let key = annotation::SIDECAR_SET_HASH_WITHOUT_IMAGE;
    set_metadata(object, "annotations", key, hashes.without_image);
}

fn strategies(spec: &mut Object) {
    fill_missing(spec, "revisionHistoryLimit", json!(10));
    if let Some(update) = child_or_new(spec, "updateStrategy") {
        fill(update, "type", json!("RollingUpdate"));
        fill_missing(update, "partition", json!(0));
        fill_missing(update, "maxUnavailable", json!(1));
    }
    if let Some(injection) = child_or_new(spec, "injectionStrategy")
        && let Some(revision) = child(injection, "revision")
    {
        fill(revision, "policy", json!("Always"));
    }
    each(spec, "patchPodMetadata[].patchPolicy", &mut |patch, name| {
        fill(patch, name, json!("Retain"));
    });
}

fn containers(spec: &mut Object, field: &str, inject_policy: &str) {
    let Some(Value::Array(list)) = spec.get_mut(field) else {
        return;
    };
    for container in list.iter_mut().filter_map(Value::as_object_mut) {
        fill(container, "podInjectPolicy", json!(inject_policy));
        if let Some(upgrade) = child_or_new(container, "upgradeStrategy") {
            fill(upgrade, "upgradeType", json!("ColdUpgrade"));
        }
        if let Some(share) = child_or_new(container, "shareVolumePolicy") {
            fill(share, "type", json!("disabled"));
        }
        let version = "transferEnv[].sourceContainerNameFrom.fieldRef.apiVersion";
        each(container, version, &mut |reference, name| {
            fill(reference, name, json!("v1"));
        });
    }
    let startup_probes: Vec<Option<Value>> = list
        .iter_mut()
        .map(|container| {
            container
                .as_object_mut()
                .and_then(|container| container.remove("startupProbe"))
        })
        .collect();
    // As init containers, whose pull policy goes by the image.
    let mut template = object(json!({"spec": {"initContainers": std::mem::take(list)}}));
    complete(&mut template);
    if let Some(Value::Array(completed)) = child(&mut template, "spec").and_then(|spec| spec.remove("initContainers")) {
        *list = completed;
    }
    for (container, probe) in list.iter_mut().zip(startup_probes) {
        if let (Some(container), Some(probe)) = (container.as_object_mut(), probe) {
            container.insert("startupProbe".to_owned(), probe);
        }
    }
}

fn volumes(spec: &mut Object) {
    let Some(Value::Array(list)) = spec.get_mut("volumes") else {
        return;
    };
    let mut template = object(json!({"spec": {"volumes": std::mem::take(list)}}));
    complete(&mut template);
    if let Some(Value::Array(completed)) = child(&mut template, "spec").and_then(|spec| spec.remove("volumes")) {
        *list = completed;
    }
}

/// Writes what Kubernetes writes. The gates about templates of workloads do not count here.
fn complete(template: &mut Object) {
    pod_template::default(template, Gates::default());
    pod_template::artefacts(template);
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}
