//! What an update of a Pod means for its availability.
//!
//! - A change of its spec disturbs it, and so does the first label that takes it out of service. No other change does.
//! - A *resize* changes nothing but CPU and memory of containers that need no restart for it, and leaves the Pod's quality of service as it is.

use kruise_api::names::pattern;
use serde_json::Value;

use super::ledger::Operation;
use crate::shared::inplace::has_same_qos;
use crate::shared::quantity;

/// Returns what an update of a Pod is; nothing when it does not disturb the Pod.
pub fn of_update(old: &Value, new: &Value) -> Option<Operation> {
    let takes_out = !has_unavailable_label(old) && has_unavailable_label(new);
    if old.get("spec") == new.get("spec") {
        return takes_out.then_some(Operation::Update);
    }
    let is_resize = !takes_out && is_resize(old, new);
    Some(if is_resize {
        Operation::Resize
    } else {
        Operation::Update
    })
}

fn has_unavailable_label(pod: &Value) -> bool {
    let labels = pod.pointer("/metadata/labels").and_then(Value::as_object);
    labels.is_some_and(|labels| labels.keys().any(|key| pattern::is_unavailable_label(key)))
}

fn is_resize(old: &Value, new: &Value) -> bool {
    if is_static(old) || is_static(new) || !has_same_qos(old, new) {
        return false;
    }
    let without = |pod: &Value| {
        let mut spec = pod.get("spec").cloned().unwrap_or_default();
        for container in spec
            .get_mut("containers")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(container) = container.as_object_mut() {
                container.remove("resources");
            }
        }
        spec
    };
    if without(old) != without(new) {
        return false;
    }
    let containers = |pod: &Value| {
        pod.pointer("/spec/containers")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let (before, after) = (containers(old), containers(new));
    before
        .iter()
        .zip(&after)
        .all(|(before, after)| changes_without_restart(before, after))
}

/// Whether a container takes its new resources without a restart.
fn changes_without_restart(before: &Value, after: &Value) -> bool {
    ["requests", "limits"].into_iter().all(|list| {
        let amounts = |container: &Value| {
            let amounts = container
                .pointer(&format!("/resources/{list}"))
                .and_then(Value::as_object);
            amounts.cloned().unwrap_or_default()
        };
        let (before, now) = (amounts(before), amounts(after));
        let names = before.keys().chain(now.keys());
        names
            .filter(|name| !is_same(before.get(*name), now.get(*name)))
            .all(|name| ["cpu", "memory"].contains(&name.as_str()) && !restarts_for(after, name))
    })
}

fn is_same(one: Option<&Value>, other: Option<&Value>) -> bool {
    match (one.and_then(Value::as_str), other.and_then(Value::as_str)) {
        (Some(one), Some(other)) => quantity::is_same(one, other),
        _ => one == other,
    }
}

fn restarts_for(container: &Value, resource: &str) -> bool {
    let policies = container
        .get("resizePolicy")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let mut of_it = policies.filter(|policy| policy.get("resourceName").and_then(Value::as_str) == Some(resource));
    of_it.any(|policy| {
        let restart = policy.get("restartPolicy").and_then(Value::as_str).unwrap_or_default();
        !["", "NotRequired"].contains(&restart)
    })
}

/// Pods that a kubelet made from a file, and their mirrors.
fn is_static(pod: &Value) -> bool {
    let annotation = |key: &str| {
        pod.pointer("/metadata/annotations")
            .and_then(|all| all.get(key))
            .and_then(Value::as_str)
    };
    annotation("kubernetes.io/config.mirror").is_some()
        || annotation("kubernetes.io/config.source").is_some_and(|source| source != "api")
}
