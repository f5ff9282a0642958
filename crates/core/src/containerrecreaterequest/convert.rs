//! v1alpha1 and v1beta1 of ContainerRecreateRequest: two annotations of v1alpha1 are status fields in v1beta1.
//!
//! | v1alpha1 | v1beta1 |
//! |---|---|
//! | annotation "sync container statuses", a JSON list | `status.containerStatusSnapshot` |
//! | annotation "unready acquired", a time | `status.conditions` of type `PreRecreateGrace`, true since that time |
//!
//! The annotations stay on the way up, an unreadable one is left out of the status with a warning. Both are written
//! while a request is being carried out, so an object without a status has none of them to convert; a status of its
//! own would need a phase, and there is none to give. Other conditions, and a false one, are lost in v1alpha1.

use crate::shared::convert::{ConvertError, Rules, Warning};
use crate::shared::tree::{Object, child, metadata, set_metadata};
use jiff::Timestamp;
use kruise_api::names::{annotation, condition};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(super) const GRACE_MESSAGE: &str = "Pod has been forced to not-ready for unreadyGracePeriodSeconds drain";

pub const RULES: Rules = Rules {
    only_v1beta1: &["status.conditions", "status.containerStatusSnapshot"],
    up,
    down,
    ..Rules::SAME
};

/// One entry of the snapshot. The order of the fields is the order in the annotation.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus {
    #[serde(default)]
    name: String,
    #[serde(default)]
    ready: bool,
    #[serde(default)]
    restart_count: i32,
    #[serde(default, rename = "containerID", skip_serializing_if = "Option::is_none")]
    container_id: Option<String>,
    /// What a newer release may have added.
    #[serde(flatten)]
    rest: Object,
}

pub fn up(object: &mut Object, warnings: &mut Vec<Warning>) -> Result<(), ConvertError> {
    let snapshot = snapshot_of_annotation(object, warnings);
    let grace = grace_of_annotation(object, warnings);
    if let Some(status) = child(object, "status") {
        if let Some(snapshot) = snapshot {
            status.insert("containerStatusSnapshot".into(), snapshot);
        }
        if let Some(since) = grace {
            let grace = json!([{
                "type": condition::container_recreate::PRE_RECREATE_GRACE,
                "status": "True",
                "lastTransitionTime": since,
                "reason": condition::container_recreate::PRE_RECREATE_GRACE,
                "message": GRACE_MESSAGE,
            }]);
            status.insert("conditions".into(), grace);
        }
    }
    Ok(())
}

pub fn down(object: &mut Object, warnings: &mut Vec<Warning>) -> Result<(), ConvertError> {
    let Some(status) = child(object, "status") else {
        return Ok(());
    };
    let snapshot = status.remove("containerStatusSnapshot");
    let conditions = status.remove("conditions");
    // An annotation that says the same is left as it is spelled.
    if let Some(list) = snapshot.and_then(|snapshot| list_of_snapshot(&snapshot, warnings))
        && serde_json::to_value(&list).ok() != snapshot_of_annotation(object, &mut Vec::new())
        && let Ok(text) = serde_json::to_string(&list)
    {
        set_metadata(object, "annotations", annotation::CRR_CONTAINER_STATUSES, text);
    }
    let grace = conditions
        .as_ref()
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .find(|condition| {
            condition
                .get("type")
                .is_some_and(|name| name == condition::container_recreate::PRE_RECREATE_GRACE)
                && condition.get("status").is_some_and(|status| status == "True")
        });
    let since = grace
        .and_then(|grace| grace.get("lastTransitionTime"))
        .and_then(Value::as_str);
    if let Some(since) = since.and_then(in_utc)
        && Some(&since) != grace_of_annotation(object, &mut Vec::new()).as_ref()
    {
        set_metadata(object, "annotations", annotation::CRR_UNREADY_ACQUIRED, since);
    }
    Ok(())
}

fn snapshot_of_annotation(object: &Object, warnings: &mut Vec<Warning>) -> Option<Value> {
    let name = annotation::CRR_CONTAINER_STATUSES;
    let text = metadata(object, "annotations", name).filter(|text| !text.is_empty())?;
    let parsed = serde_json::from_str::<Option<Vec<ContainerStatus>>>(text);
    let Ok(snapshot) = parsed.and_then(serde_json::to_value) else {
        warnings.push(Warning::annotation(name, text, "not a JSON list of container statuses"));
        return None;
    };
    snapshot
        .as_array()
        .is_some_and(|list| !list.is_empty())
        .then_some(snapshot)
}

fn list_of_snapshot(snapshot: &Value, warnings: &mut Vec<Warning>) -> Option<Vec<ContainerStatus>> {
    let list = Option::<Vec<ContainerStatus>>::deserialize(snapshot);
    if list.is_err() {
        warnings.push(Warning {
            field: "status.containerStatusSnapshot".into(),
            value: snapshot.to_string(),
            reason: "not a list of container statuses",
        });
    }
    list.ok().flatten().filter(|list| !list.is_empty())
}

fn grace_of_annotation(object: &Object, warnings: &mut Vec<Warning>) -> Option<String> {
    let text = metadata(object, "annotations", annotation::CRR_UNREADY_ACQUIRED).filter(|text| !text.is_empty())?;
    let since = in_utc(text);
    if since.is_none() {
        let name = annotation::CRR_UNREADY_ACQUIRED;
        warnings.push(Warning::annotation(name, text, "not an RFC 3339 time"));
    }
    since
}

/// Kubernetes' spelling of a time: UTC, whole seconds.
fn in_utc(text: &str) -> Option<String> {
    let time: Timestamp = text.parse().ok()?;
    Some(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}
