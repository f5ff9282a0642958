//! What is written into a DaemonSet where its user said nothing.
//!
//! | field | default |
//! |---|---|
//! | `burstReplicas`, `revisionHistoryLimit` | 250, 10 |
//! | update `type` | `RollingUpdate`, and with it a `rollingUpdate` |
//! | `rollingUpdateType` | `Standard` |
//! | `maxUnavailable`, `maxSurge` | 1 and 0, when both are missing |
//!
//! In v1alpha1 the type `Surging` becomes `Standard`, with `maxSurge: 1` and `maxUnavailable: 0` where these are missing.
//!
//! The Pod template is not completed, unlike those of other workloads: a default more would be a new revision, and every Pod would be replaced. It is only written
//! as the original writes it, when anything else is.

use serde_json::{Value, json};

use crate::admission::Version;
use crate::pod_template;
use crate::shared::revision;
use crate::shared::tree::{Object, child, child_or_new, fill, fill_missing};

/// Completes a DaemonSet.
pub fn default(object: &mut Object, version: Version) {
    let Some(spec) = child_or_new(object, "spec") else {
        return;
    };
    let mut wrote = child(spec, "template").is_some_and(|template| template.remove(revision::DIRECTIVE).is_some());
    wrote |= fill_missing(spec, "burstReplicas", json!(250));
    wrote |= fill_missing(spec, "revisionHistoryLimit", json!(10));
    wrote |= fill(spec, "updateStrategy", json!({}));
    if let Some(update) = child(spec, "updateStrategy") {
        wrote |= strategy(update, version);
    }
    if let Some(template) = child(spec, "template").filter(|_| wrote) {
        pod_template::artefacts(template);
    }
}

/// Says whether there was anything to write.
fn strategy(update: &mut Object, version: Version) -> bool {
    let mut wrote = fill(update, "type", json!("RollingUpdate"));
    if update.get("type").and_then(Value::as_str) != Some("RollingUpdate") {
        return wrote;
    }
    wrote |= fill(update, "rollingUpdate", json!({}));
    let Some(rolling) = child(update, "rollingUpdate") else {
        return wrote;
    };
    let is_surging = rolling.get("rollingUpdateType").and_then(Value::as_str) == Some("Surging");
    if is_surging && version == Version::V1alpha1 {
        fill_missing(rolling, "maxSurge", json!(1));
        fill_missing(rolling, "maxUnavailable", json!(0));
        rolling.insert("rollingUpdateType".to_owned(), json!("Standard"));
        return true;
    }
    wrote |= fill(rolling, "rollingUpdateType", json!("Standard"));
    let is_missing = |name: &str| rolling.get(name).is_none_or(Value::is_null);
    if is_missing("maxUnavailable") && is_missing("maxSurge") {
        rolling.insert("maxUnavailable".to_owned(), json!(1));
        rolling.insert("maxSurge".to_owned(), json!(0));
        wrote = true;
    }
    wrote
}
