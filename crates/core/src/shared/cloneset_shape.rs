//! The two shapes of a CloneSet, as an object of its own and as the template inside a UnitedDeployment.
//!
//! | v1alpha1 | v1beta1 |
//! |---|---|
//! | `updateStrategy.type` is the pod update policy | `type: RollingUpdate`, and `rollingUpdate.podUpdatePolicy` |
//! | `updateStrategy.type: OnDelete` | the same; rolling fields mean nothing then and are dropped |
//! | `updateStrategy.{partition, maxUnavailable, ...}` | `updateStrategy.rollingUpdate.*` |
//! | pre-download annotations | `rollingUpdate.inPlaceUpdateStrategy.imagePreDownload*`; the annotations stay |
//! | `scaleStrategy.disablePVCReuse` | `scaleStrategy.enablePVCReuse`, the opposite |
//! | label "exclude preparing delete" | `scaleStrategy.excludePreparingDelete`; the label stays |
//!
//! Only what v1beta1 accepts goes up from an annotation: a percent or a negative number would make every later
//! v1beta1 write of the object fail. The annotation itself is kept in any case, so a v1alpha1 user sees no change; a
//! percentage of updated Pods to wait for is read from there.
//! The three pre-download *fields* that the v1alpha1 schema shows have never had an effect and do not get one here.

use crate::shared::convert::Warning;
use crate::shared::tree::{Object, child, child_or_new, drop_empty, metadata, set_metadata, take_child};
use kruise_api::names::{annotation, label};
use kruise_api::shared::int_or_percent::Percent;
use serde_json::{Map, Value};

/// Fields that moved from `updateStrategy` into `updateStrategy.rollingUpdate`.
pub const MOVED: [&str; 6] = [
    "maxSurge",
    "maxUnavailable",
    "partition",
    "paused",
    "priorityStrategy",
    "scatterStrategy",
];
const IN_PLACE: &str = "inPlaceUpdateStrategy";
const POLICIES: [&str; 3] = ["ReCreate", "InPlaceIfPossible", "InPlaceOnly"];
const RECREATE: &str = "ReCreate";
const ON_DELETE: &str = "OnDelete";
const ROLLING_UPDATE: &str = "RollingUpdate";

/// Annotation of v1alpha1 and field of v1beta1's in-place block.
const PRE_DOWNLOAD: [(&str, &str); 3] = [
    (annotation::PRE_DOWNLOAD_PARALLELISM, "imagePreDownloadParallelism"),
    (
        annotation::PRE_DOWNLOAD_TIMEOUT_SECONDS,
        "imagePreDownloadTimeoutSeconds",
    ),
    (
        annotation::PRE_DOWNLOAD_MIN_UPDATED_READY,
        "imagePreDownloadMinUpdatedReadyPods",
    ),
];

/// Rewrites `spec` of `owner` (which also has `metadata`) from the v1alpha1 shape.
pub fn up(owner: &mut Object, warnings: &mut Vec<Warning>) {
    let exclude = metadata(owner, "labels", label::SCALING_EXCLUDE_PREPARING_DELETE) == Some("true");
    let pre_download = pre_download_of_annotations(owner, warnings);
    let Some(spec) = child(owner, "spec") else { return };
    pvc_reuse_up(spec, warnings);
    if exclude && let Some(scale) = child(spec, "scaleStrategy") {
        scale.insert("excludePreparingDelete".into(), Value::Bool(true));
    }
    if let Some(update) = child_or_new(spec, "updateStrategy") {
        update_up(update, pre_download);
    }
}

/// Rewrites `spec` of `owner` into the v1alpha1 shape.
pub fn down(owner: &mut Object, warnings: &mut Vec<Warning>) {
    let Some(spec) = child(owner, "spec") else { return };
    scale_down(spec, warnings);
    let Some(update) = child_or_new(spec, "updateStrategy") else {
        return;
    };
    for (name, value) in update_down(update, warnings) {
        // An annotation that says the same is left as it is spelled.
        let annotated = metadata(owner, "annotations", name).and_then(accepted);
        if annotated.is_none() || annotated != accepted(&value) {
            set_metadata(owner, "annotations", name, value);
        }
    }
}

/// Whether an update strategy is written the v1alpha1 way. An empty one, or a bare `OnDelete`, reads the same in both.
pub fn is_old_strategy(update: &Object) -> bool {
    if update.get("rollingUpdate").is_some_and(|rolling| !rolling.is_null()) {
        return false;
    }
    let policy = update.get("type").and_then(Value::as_str);
    policy.is_some_and(|policy| POLICIES.contains(&policy))
        || MOVED.iter().chain([&IN_PLACE]).any(|field| update.contains_key(*field))
}

/// `disablePVCReuse` of v1alpha1 becomes its opposite. Always written: left out, v1beta1 would not reuse.
pub fn pvc_reuse_up(spec: &mut Object, warnings: &mut Vec<Warning>) {
    if let Some(scale) = child_or_new(spec, "scaleStrategy") {
        let disabled = take_bool(scale, "disablePVCReuse", warnings);
        scale.insert("enablePVCReuse".into(), Value::Bool(!disabled));
    }
}

fn scale_down(spec: &mut Object, warnings: &mut Vec<Warning>) {
    let Some(scale) = child_or_new(spec, "scaleStrategy") else {
        return;
    };
    if !take_bool(scale, "enablePVCReuse", warnings) {
        scale.insert("disablePVCReuse".into(), Value::Bool(true));
    }
    scale.remove("excludePreparingDelete");
    drop_empty(spec, "scaleStrategy");
}

fn update_up(update: &mut Object, pre_download: Object) {
    if update.get("type").and_then(Value::as_str) == Some(ON_DELETE) {
        for field in MOVED.iter().chain([&IN_PLACE]) {
            update.remove(*field);
        }
        drop_empty(update, "rollingUpdate");
        return;
    }
    // Whatever else stands under this name is not ours to overwrite.
    let mut rolling = match update.remove("rollingUpdate") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(rolling)) => rolling,
        Some(other) => {
            update.insert("rollingUpdate".into(), other);
            return;
        }
    };
    for field in MOVED.iter().chain([&IN_PLACE]) {
        if let Some(value) = update.remove(*field) {
            rolling.insert((*field).to_owned(), value);
        }
    }
    if let Some(block) = child(&mut rolling, IN_PLACE) {
        for (_, field) in PRE_DOWNLOAD {
            block.remove(field);
        }
    }
    if !pre_download.is_empty()
        && let Some(block) = child_or_new(&mut rolling, IN_PLACE)
    {
        block.extend(pre_download);
    }
    let policy = update.get("type").and_then(Value::as_str).unwrap_or_default();
    let policy = POLICIES.into_iter().find(|known| *known == policy).unwrap_or(RECREATE);
    rolling.insert("podUpdatePolicy".into(), policy.into());
    update.insert("rollingUpdate".into(), rolling.into());
    update.insert("type".into(), ROLLING_UPDATE.into());
}

/// Returns the annotations to be written.
fn update_down(update: &mut Object, warnings: &mut Vec<Warning>) -> Vec<(&'static str, String)> {
    let mut annotations = Vec::new();
    let mut rolling = match update.get("rollingUpdate") {
        None | Some(Value::Null | Value::Object(_)) => take_child(update, "rollingUpdate").unwrap_or_default(),
        Some(_) => return annotations,
    };
    update.remove("rollingUpdate");
    let policy = rolling.remove("podUpdatePolicy");
    let policy = policy.as_ref().and_then(Value::as_str).unwrap_or_default();
    let policy = POLICIES.into_iter().find(|known| *known == policy).unwrap_or(RECREATE);
    if update.get("type").and_then(Value::as_str) != Some(ON_DELETE) {
        update.insert("type".into(), policy.into());
    }
    if let Some(block) = child(&mut rolling, IN_PLACE) {
        for (name, field) in PRE_DOWNLOAD {
            match block.remove(field) {
                None | Some(Value::Null) => {}
                Some(Value::String(text)) if name == annotation::PRE_DOWNLOAD_PARALLELISM => {
                    annotations.push((name, text));
                }
                Some(Value::Number(number)) if number.is_i64() => annotations.push((name, number.to_string())),
                Some(other) => warnings.push(Warning {
                    field: format!("spec.updateStrategy.rollingUpdate.{IN_PLACE}.{field}"),
                    value: other.to_string(),
                    reason: "not an integer",
                }),
            }
        }
        // A grace period of 0 is the default and all that a block without other fields could say.
        if block.len() == 1 && block.get("gracePeriodSeconds").and_then(Value::as_i64) == Some(0) {
            block.clear();
        }
        drop_empty(&mut rolling, IN_PLACE);
    }
    for field in MOVED.iter().chain([&IN_PLACE]) {
        if let Some(value) = rolling.remove(*field) {
            update.insert((*field).to_owned(), value);
        }
    }
    // What a newer release may have added stays in place for the way back.
    if !rolling.is_empty() {
        update.insert("rollingUpdate".into(), rolling.into());
    }
    annotations
}

fn pre_download_of_annotations(owner: &Object, warnings: &mut Vec<Warning>) -> Object {
    let mut fields = Map::new();
    for (name, field) in PRE_DOWNLOAD {
        match metadata(owner, "annotations", name) {
            None | Some("") => {}
            Some(text) => match accepted(text) {
                Some(number) => {
                    fields.insert(field.to_owned(), number.into());
                }
                None if name == annotation::PRE_DOWNLOAD_MIN_UPDATED_READY && is_share(text) => {}
                None => warnings.push(Warning::annotation(
                    name,
                    text,
                    "not an integer of 0 or more, v1beta1 would refuse it",
                )),
            },
        }
    }
    fields
}

/// A percentage that is not negative.
fn is_share(text: &str) -> bool {
    Percent::parse(text).is_ok_and(|share| share.floor_of(100) >= 0)
}

/// What v1beta1 accepts of an annotation.
fn accepted(text: &str) -> Option<i32> {
    text.parse().ok().filter(|number| *number >= 0)
}

/// Takes a boolean; absent and null are false.
fn take_bool(scale: &mut Object, name: &str, warnings: &mut Vec<Warning>) -> bool {
    match scale.remove(name) {
        None | Some(Value::Null) => false,
        Some(Value::Bool(value)) => value,
        Some(other) => {
            warnings.push(Warning {
                field: format!("spec.scaleStrategy.{name}"),
                value: other.to_string(),
                reason: "not a boolean, taken as false",
            });
            false
        }
    }
}
