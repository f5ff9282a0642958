//! What is written into a StatefulSet where its user said nothing.
//!
//! | field | default |
//! |---|---|
//! | `replicas`, `revisionHistoryLimit` | 1, 10 |
//! | `podManagementPolicy` | `OrderedReady` |
//! | update `type` | `RollingUpdate` |
//! | `partition`, `maxUnavailable`, `podUpdatePolicy`, `minReadySeconds` | 0, 1, `ReCreate`, 0; not for `OnDelete` |
//! | `persistentVolumeClaimRetentionPolicy` (v1beta1) | `Retain` for both, with the gate `StatefulSetAutoDeletePVC` |
//! | `volumeClaimUpdateStrategy.type` (v1beta1) | `OnDelete`, with the gate `StatefulSetAutoResizePVCGate` |
//! | Pod and claim templates | see [`crate::pod_template::workload`] |
//!
//! Of v1alpha1 only what it has a place for: the fields that v1beta1 adds stay absent, and their absence means the same as their defaults.
//!
//! All of it works on the JSON as it came. Fields nobody knows stay; a value of a wrong type is left for the API server to refuse.

use kruise_api::gates::{Gate, Gates};
use serde_json::{Value, json};

use crate::admission::Version;
use crate::pod_template::workload;
use crate::shared::tree::{Object, child, child_or_new, fill, fill_missing};

/// Completes a StatefulSet; `old` is what it was before an update.
pub fn default(object: &mut Object, old: Option<&Object>, version: Version, gates: Gates) {
    let old = old.and_then(|old| old.get("spec")).and_then(Value::as_object);
    let Some(spec) = child_or_new(object, "spec") else {
        return;
    };
    workload::drop_directive(spec);
    let mut wrote = fields(spec);
    if version == Version::V1beta1 {
        wrote |= newer_fields(spec, gates);
    }
    workload::default(spec, old, wrote, gates);
}

/// Writes the defaults that both versions have. Says whether there was anything to write.
fn fields(spec: &mut Object) -> bool {
    let mut wrote = fill(spec, "replicas", json!(1));
    wrote |= fill(spec, "revisionHistoryLimit", json!(10));
    wrote |= fill(spec, "podManagementPolicy", json!("OrderedReady"));
    wrote |= fill(spec, "updateStrategy", json!({}));
    let Some(update) = child(spec, "updateStrategy") else {
        return wrote;
    };
    wrote |= fill(update, "type", json!("RollingUpdate"));
    if update.get("type").and_then(Value::as_str) != Some("RollingUpdate") {
        return wrote;
    }
    wrote |= fill(update, "rollingUpdate", json!({}));
    let Some(rules) = child(update, "rollingUpdate") else {
        return wrote;
    };
    wrote |= fill(rules, "partition", json!(0));
    wrote |= fill_missing(rules, "maxUnavailable", json!(1));
    wrote |= fill(rules, "podUpdatePolicy", json!("ReCreate"));
    wrote | fill(rules, "minReadySeconds", json!(0))
}

/// The same for the fields that only v1beta1 has.
fn newer_fields(spec: &mut Object, gates: Gates) -> bool {
    let mut wrote = false;
    if gates.enabled(Gate::StatefulSetAutoDeletePVC) {
        wrote |= fill(spec, "persistentVolumeClaimRetentionPolicy", json!({}));
        if let Some(policy) = child(spec, "persistentVolumeClaimRetentionPolicy") {
            wrote |= fill(policy, "whenDeleted", json!("Retain"));
            wrote |= fill(policy, "whenScaled", json!("Retain"));
        }
    }
    if gates.enabled(Gate::StatefulSetAutoResizePVCGate) {
        wrote |= fill(spec, "volumeClaimUpdateStrategy", json!({}));
        if let Some(strategy) = child(spec, "volumeClaimUpdateStrategy") {
            wrote |= fill(strategy, "type", json!("OnDelete"));
        }
    }
    if let Some(ordinals) = child(spec, "ordinals") {
        wrote |= fill(ordinals, "start", json!(0));
    }
    wrote
}
