//! What is written into a CloneSet where its user said nothing.
//!
//! | field | default |
//! |---|---|
//! | `replicas` | 1 |
//! | `revisionHistoryLimit` | 10 |
//! | update `type` | `RollingUpdate` (v1alpha1: `ReCreate`) |
//! | `podUpdatePolicy` (v1beta1) | `ReCreate` |
//! | `partition`, `maxUnavailable`, `maxSurge` | 0, `20%`, 0; not for `OnDelete` |
//! | `inPlaceUpdateStrategy` | an empty one, when Pods are updated in place |
//! | Pod and claim templates | see [`crate::pod_template::workload`] |
//!
//! All of it works on the JSON as it came. Fields nobody knows stay; a value of a wrong type is left for the API server to refuse.

use crate::admission::Version;
use crate::pod_template::workload;
use crate::shared::tree::{Object, child, child_or_new, fill, fill_missing};
use kruise_api::gates::Gates;
use serde_json::{Value, json};

/// Completes a CloneSet; `old` is what it was before an update.
pub fn default(object: &mut Object, old: Option<&Object>, version: Version, gates: Gates) {
    let old = old.and_then(|old| old.get("spec")).and_then(Value::as_object);
    let Some(spec) = child_or_new(object, "spec") else {
        return;
    };
    workload::drop_directive(spec);
    let wrote = fields(spec, version);
    workload::default(spec, old, wrote, gates);
}

/// Writes the defaults of the kind's own fields. Says whether there was anything to write.
fn fields(spec: &mut Object, version: Version) -> bool {
    let mut wrote = fill(spec, "replicas", json!(1));
    wrote |= fill(spec, "revisionHistoryLimit", json!(10));
    // The API server completes what is inside, where the object is there.
    wrote |= fill(spec, "scaleStrategy", json!({}));
    wrote |= fill(spec, "updateStrategy", json!({}));
    let Some(update) = child(spec, "updateStrategy") else {
        return wrote;
    };
    match version {
        Version::V1alpha1 => {
            wrote |= fill(update, "type", json!("ReCreate"));
            wrote | rolling(update, "type")
        }
        Version::V1beta1 => {
            wrote |= fill(update, "type", json!("RollingUpdate"));
            if update.get("type").and_then(Value::as_str) != Some("RollingUpdate") {
                return wrote;
            }
            wrote |= fill(update, "rollingUpdate", json!({}));
            let Some(rules) = child(update, "rollingUpdate") else {
                return wrote;
            };
            wrote |= fill(rules, "podUpdatePolicy", json!("ReCreate"));
            wrote | rolling(rules, "podUpdatePolicy")
        }
    }
}

fn rolling(rules: &mut Object, policy: &str) -> bool {
    let mut wrote = fill(rules, "partition", json!(0));
    wrote |= fill_missing(rules, "maxUnavailable", json!("20%"));
    wrote |= fill_missing(rules, "maxSurge", json!(0));
    let policy = rules.get(policy).and_then(Value::as_str);
    if matches!(policy, Some("InPlaceIfPossible" | "InPlaceOnly")) {
        wrote |= fill(rules, "inPlaceUpdateStrategy", json!({}));
    }
    wrote
}
