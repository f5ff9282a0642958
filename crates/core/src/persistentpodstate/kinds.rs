//! Workloads whose Pods have ordinals: StatefulSets of both groups, and those that an administrator lists.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::StatefulSet;
use kruise_api::configuration::{Configuration, CustomWorkload};
use kruise_api::kind::Kind as _;
use kruise_api::statefulset::v1beta1::StatefulSet as OurStatefulSet;
use serde_json::Value;

use crate::shared::workload::WorkloadRef;

/// Whether a workload is a StatefulSet of one of both groups.
pub fn is_stateful_set(workload: &WorkloadRef) -> bool {
    workload.is_of(OurStatefulSet::GROUP, OurStatefulSet::KIND) || workload.is_of(StatefulSet::GROUP, StatefulSet::KIND)
}

/// Whether the white list has the kind of a workload, in any version.
pub fn is_listed(workload: &WorkloadRef, list: &[CustomWorkload]) -> bool {
    list.iter()
        .any(|custom| workload.is_of(&custom.kind.group, &custom.kind.kind))
}

/// Reads the white list from the ConfigMap, if there is one.
///
/// # Errors
/// In words, when its value cannot be read.
pub fn white_list(map: Option<&Value>) -> Result<Vec<CustomWorkload>, String> {
    let data: BTreeMap<String, String> = match map.and_then(|map| map.get("data")) {
        Some(data) => serde_json::from_value(data.clone()).unwrap_or_default(),
        None => BTreeMap::new(),
    };
    Configuration::read(&data)
        .persistent_pod_state
        .map_err(|error| error.to_string())
}
