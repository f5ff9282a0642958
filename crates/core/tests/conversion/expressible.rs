//! What both versions can express: makes a valid object of one version into one that the other can hold in full.
//!
//! Read as a list, these are all the losses of a round trip. Everything that is not changed here comes back exactly.

use super::generate::Version;
use kruise_api::names::{annotation, label};
use kruise_core::shared::tree::{Object, child, child_or_new, drop_empty, each};
use serde_json::{Value, json};

pub(crate) fn expressible(kind: &str, version: Version, object: &mut Object) {
    match (kind, version) {
        ("advancedcronjob", Version::V1beta1) => {
            drop(object, &["spec.template.imageListPullJobTemplate"]);
        }
        ("cloneset", Version::V1alpha1) => cloneset_v1alpha1(object),
        ("cloneset", Version::V1beta1) => cloneset_v1beta1(object),
        ("containerrecreaterequest", Version::V1alpha1) => {
            // Unreadable or differently spelled values are not rewritten to the letter.
            annotations(
                object,
                &[annotation::CRR_CONTAINER_STATUSES, annotation::CRR_UNREADY_ACQUIRED],
            );
        }
        ("containerrecreaterequest", Version::V1beta1) => {
            drop(object, &["status.conditions", "status.containerStatusSnapshot"]);
            annotations(
                object,
                &[annotation::CRR_CONTAINER_STATUSES, annotation::CRR_UNREADY_ACQUIRED],
            );
        }
        ("daemonset", _) => {
            each(
                object,
                "spec.updateStrategy.rollingUpdate.rollingUpdateType",
                &mut |rolling, name| {
                    if rolling.get(name).is_some_and(|value| value == "Surging") {
                        rolling.insert(name.to_owned(), "Standard".into());
                    }
                },
            );
            if version == Version::V1beta1 {
                let progressive = annotated(object, annotation::DAEMON_SET_PROGRESSIVE_CREATE) == "true";
                if let Some(spec) = child(object, "spec") {
                    spec.remove("scaleStrategy");
                    if progressive {
                        spec.insert("scaleStrategy".into(), json!({"partitionedScaling": true}));
                    }
                }
            }
        }
        ("nodeimage", Version::V1beta1) => drop(object, &["spec.images{}.pullSecrets[].mode"]),
        ("podunavailablebudget", _) => {
            drop(
                object,
                &[
                    "spec.ignoredPodSelector",
                    "spec.protectOperations",
                    "spec.protectTotalReplicas",
                ],
            );
            annotations(
                object,
                &[annotation::BUDGET_PROTECT_OPERATIONS, annotation::BUDGET_TOTAL_REPLICAS],
            );
        }
        ("sidecarset", Version::V1alpha1) => drop(object, &["spec.namespace"]),
        ("sidecarset", Version::V1beta1) => {
            if let Some(labels) = child(object, "metadata").and_then(|metadata| child(metadata, "labels")) {
                labels.remove(label::SIDECAR_SET_CUSTOM_VERSION);
            }
            drop_empty(object, "metadata.labels");
            each(object, "spec.customVersion", &mut |spec, name| {
                if spec.get(name).is_some_and(|version| version == "") {
                    spec.remove(name);
                }
            });
        }
        ("statefulset", Version::V1beta1) => drop(object, kruise_core::statefulset::convert::RULES.only_v1beta1),
        ("uniteddeployment", _) => uniteddeployment(version, object),
        ("workloadspread", _) => {
            for path in [
                "status.subsetStatuses[].conditions[].x",
                "status.versionedSubsetStatuses{}[].conditions[].x",
            ] {
                each(object, path, &mut |condition, _| {
                    condition.remove("observedGeneration");
                    condition.insert("reason".into(), "Known".into());
                    condition.insert("message".into(), "".into());
                    condition.insert("lastTransitionTime".into(), "2024-01-02T03:04:05Z".into());
                });
            }
        }
        _ => {}
    }
}

fn cloneset_v1alpha1(object: &mut Object) {
    canonical_numbers(object);
    let Some(spec) = child(object, "spec") else { return };
    if let Some(scale) = child(spec, "scaleStrategy")
        && scale.get("disablePVCReuse") == Some(&Value::Bool(false))
    {
        scale.remove("disablePVCReuse");
    }
    drop_empty(spec, "scaleStrategy");
    let Some(update) = child_or_new(spec, "updateStrategy") else {
        return;
    };
    let policies = ["ReCreate", "InPlaceIfPossible", "InPlaceOnly", "OnDelete"];
    let known = update
        .get("type")
        .and_then(Value::as_str)
        .is_some_and(|policy| policies.contains(&policy));
    if !known {
        update.insert("type".into(), "ReCreate".into());
    }
    if update["type"] == "OnDelete" {
        update.retain(|name, _| name == "type");
    }
    if let Some(block) = child(update, "inPlaceUpdateStrategy") {
        block.retain(|name, value| name == "gracePeriodSeconds" && *value != 0);
    }
    drop_empty(update, "inPlaceUpdateStrategy");
}

fn cloneset_v1beta1(object: &mut Object) {
    canonical_numbers(object);
    let exclude = labelled(object, label::SCALING_EXCLUDE_PREPARING_DELETE) == "true";
    let fields = [
        (annotation::PRE_DOWNLOAD_PARALLELISM, "imagePreDownloadParallelism"),
        (
            annotation::PRE_DOWNLOAD_TIMEOUT_SECONDS,
            "imagePreDownloadTimeoutSeconds",
        ),
        (
            annotation::PRE_DOWNLOAD_MIN_UPDATED_READY,
            "imagePreDownloadMinUpdatedReadyPods",
        ),
    ]
    .map(|(name, field)| {
        (
            field,
            annotated(object, name)
                .parse::<i32>()
                .ok()
                .filter(|number| *number >= 0),
        )
    });
    let Some(spec) = child(object, "spec") else { return };
    let Some(scale) = child_or_new(spec, "scaleStrategy") else {
        return;
    };
    scale.entry("enablePVCReuse").or_insert(Value::Bool(false));
    scale.remove("excludePreparingDelete");
    if exclude {
        scale.insert("excludePreparingDelete".into(), Value::Bool(true));
    }
    let Some(update) = child_or_new(spec, "updateStrategy") else {
        return;
    };
    if update.get("type").is_some_and(|kind| kind == "OnDelete") {
        update.retain(|name, _| name == "type");
        return;
    }
    update.insert("type".into(), "RollingUpdate".into());
    let Some(rolling) = child_or_new(update, "rollingUpdate") else {
        return;
    };
    if rolling
        .get("podUpdatePolicy")
        .is_none_or(|policy| policy == "" || policy == "Other")
    {
        rolling.insert("podUpdatePolicy".into(), "ReCreate".into());
    }
    let Some(block) = child_or_new(rolling, "inPlaceUpdateStrategy") else {
        return;
    };
    block.retain(|name, value| name == "gracePeriodSeconds" && *value != 0);
    for (field, value) in fields {
        if let Some(value) = value {
            block.insert(field.to_owned(), value.into());
        }
    }
    drop_empty(rolling, "inPlaceUpdateStrategy");
}

fn uniteddeployment(version: Version, object: &mut Object) {
    // Templates of the old shape are rewritten for good.
    drop(object, kruise_core::uniteddeployment::convert::RULES.only_v1alpha1);
    each(
        object,
        "spec.template.cloneSetTemplate.spec.updateStrategy.type",
        &mut |update, name| {
            update.insert(name.to_owned(), "RollingUpdate".into());
        },
    );
    let Some(status) = child(object, "status") else { return };
    status.remove("updateStatus");
    // Two subsets of one name cannot both be kept in a map.
    if let Some(subsets) = status.get_mut("subsetStatuses").and_then(Value::as_array_mut) {
        for (index, subset) in subsets.iter_mut().enumerate() {
            subset["name"] = format!("subset-{index}").into();
        }
    }
    if status.get("updatedRevision").is_some_and(|revision| revision == "") {
        status.remove("updatedRevision");
    }
    if version == Version::V1beta1 {
        return;
    }
    // The maps of v1alpha1 are another view of the list.
    let subsets = status
        .get("subsetStatuses")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    if subsets.is_empty() {
        return;
    }
    let count = |field: &str| {
        let entry = |subset: &Value| {
            let name = subset["name"].as_str().expect("named above").to_owned();
            (name, subset.get(field).cloned().unwrap_or(json!(0)))
        };
        Value::Object(subsets.iter().map(entry).collect())
    };
    let (replicas, partitions) = (count("replicas"), count("partition"));
    status.insert("subsetReplicas".into(), replicas);
    status.insert("updateStatus".into(), json!({"currentPartitions": partitions}));
}

/// Only annotations that v1beta1 accepts and spells the same way.
fn canonical_numbers(object: &mut Object) {
    let names = [
        annotation::PRE_DOWNLOAD_PARALLELISM,
        annotation::PRE_DOWNLOAD_TIMEOUT_SECONDS,
        annotation::PRE_DOWNLOAD_MIN_UPDATED_READY,
    ];
    let bad: Vec<&str> = names
        .into_iter()
        .filter(|name| annotated(object, name).parse::<i32>().map_or(true, |number| number < 0))
        .collect();
    // On OnDelete there is no block that could hold the fields; the annotations stay either way.
    annotations(object, &bad);
}

fn annotations(object: &mut Object, remove: &[&str]) {
    if let Some(annotations) = child(object, "metadata").and_then(|metadata| child(metadata, "annotations")) {
        for name in remove {
            annotations.remove(*name);
        }
    }
}

fn annotated(object: &Object, name: &str) -> String {
    entry(object, "annotations", name)
}

fn labelled(object: &Object, name: &str) -> String {
    entry(object, "labels", name)
}

fn entry(object: &Object, map: &str, name: &str) -> String {
    object["metadata"]
        .get(map)
        .and_then(|map| map.get(name))
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn drop(object: &mut Object, paths: &[&str]) {
    for path in paths {
        kruise_core::shared::tree::drop_field(object, path);
    }
}
