//! Taints, and what tolerates them.
//!
//! A toleration is for a taint when its key and effect are the same or not given, and when its operator is `Exists`, or `Equal` (which is also meant when none
//! is given) with the same value.
//!
//! Pods of a DaemonSet tolerate what would otherwise take them off a node that is in trouble, since there is no other place for them.

use kruise_api::names::node::taint;
use kruise_api::node::{Node, Taint};
use kruise_api::pod::Toleration;
use kruise_api::text::Text;
use serde_json::{Value, json};

use crate::shared::tree::Object;

/// The effect that keeps new Pods away.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// The effect that also ends Pods that are there.
pub const NO_EXECUTE: &str = "NoExecute";

/// The first taint of a node with one of these effects that is not tolerated.
pub fn untolerated<'n>(node: &'n Node, tolerations: &[Toleration], effects: &[&str]) -> Option<&'n Taint> {
    let mut counted = node
        .spec
        .taints
        .iter()
        .filter(|taint| effects.contains(&&*taint.effect));
    counted.find(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

/// Whether a toleration is for a taint.
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let fits = |wanted: &Text, is: &Text| wanted.is_empty() || wanted == is;
    let value = match &*toleration.operator {
        "" | "Equal" => toleration.value == taint.value,
        "Exists" => true,
        _ => false,
    };
    fits(&toleration.effect, &taint.effect) && fits(&toleration.key, &taint.key) && value
}

/// What every Pod of a DaemonSet tolerates.
pub fn daemon_tolerations(is_host_network: bool) -> impl Iterator<Item = Toleration> {
    let always = [
        (taint::NOT_READY, NO_EXECUTE),
        (taint::UNREACHABLE, NO_EXECUTE),
        (taint::DISK_PRESSURE, NO_SCHEDULE),
        (taint::MEMORY_PRESSURE, NO_SCHEDULE),
        (taint::PID_PRESSURE, NO_SCHEDULE),
        (taint::UNSCHEDULABLE, NO_SCHEDULE),
    ];
    let network = is_host_network.then_some((taint::NETWORK_UNAVAILABLE, NO_SCHEDULE));
    always.into_iter().chain(network).map(|(key, effect)| Toleration {
        key: key.into(),
        operator: "Exists".into(),
        effect: effect.into(),
        ..Toleration::default()
    })
}

/// Puts into the spec of a Pod what every Pod of a DaemonSet tolerates. An entry that says the same for a limited time is replaced.
pub fn add_daemon_tolerations(spec: &mut Object) {
    let is_host_network = spec.get("hostNetwork").and_then(Value::as_bool) == Some(true);
    let list = spec.entry("tolerations").or_insert(Value::Null);
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    let Value::Array(list) = list else { return };
    for added in daemon_tolerations(is_host_network) {
        let (key, operator, effect) = (&*added.key, &*added.operator, &*added.effect);
        let is_same = |known: &&mut Value| {
            let says = |field: &str| known.get(field).and_then(Value::as_str).unwrap_or_default();
            (says("key"), says("operator"), says("effect"), says("value")) == (key, operator, effect, "")
        };
        let new = json!({ "key": key, "operator": operator, "effect": effect });
        match list.iter_mut().find(is_same) {
            Some(known) => *known = new,
            None => list.push(new),
        }
    }
}
