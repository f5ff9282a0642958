//! A node as controllers read it.

use std::borrow::Cow;

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use crate::meta::{CompactTimestamp, Meta, Pairs, known};
use crate::names::label;
use crate::pod::status::Holds;
use crate::text::Text;
use crate::wire::or_empty;

const READY: &str = "Ready";

/// What controllers read of a node. For reading only.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Name, labels and so on.
    #[serde(deserialize_with = "known")]
    pub metadata: Meta,
    /// What is wanted.
    #[serde(deserialize_with = "or_empty")]
    pub spec: NodeSpec,
    /// What is.
    #[serde(deserialize_with = "or_empty")]
    pub status: NodeStatus,
}

projection!(Node, of: k8s_openapi::api::core::v1::Node);

/// What controllers read of a node's spec.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// It is cordoned. A taint says so too, a little later.
    #[serde(deserialize_with = "or_empty")]
    pub unschedulable: bool,
    /// Taints; a cordoned node has one too.
    #[serde(deserialize_with = "or_empty")]
    pub taints: Box<[Taint]>,
}

/// What keeps Pods away from a node that do not tolerate it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// Key.
    #[serde(deserialize_with = "or_empty")]
    pub key: Text,
    /// Value; often none.
    #[serde(deserialize_with = "or_empty")]
    pub value: Text,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    #[serde(deserialize_with = "or_empty")]
    pub effect: Text,
}

/// What controllers read of a node's status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// What Pods can have of it, as it was written.
    #[serde(deserialize_with = "or_empty")]
    pub allocatable: Pairs<Text>,
    /// Since when the node is ready; nothing when it is not. Of the other conditions nothing is kept: nobody reads them, and there are many nodes.
    #[serde(rename = "conditions", deserialize_with = "ready_since")]
    pub ready_since: Option<CompactTimestamp>,
}

/// A condition as it is written. Kubelets write them every few seconds, so nothing is made of them before it is needed.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition<'a> {
    #[serde(rename = "type", borrow)]
    type_: Cow<'a, str>,
    #[serde(deserialize_with = "or_empty")]
    status: Holds,
    last_transition_time: Option<String>,
}

fn ready_since<'de, D: Deserializer<'de>>(from: D) -> Result<Option<CompactTimestamp>, D::Error> {
    let all: Vec<Condition<'de>> = or_empty(from)?;
    let ready = all
        .into_iter()
        .find(|condition| condition.type_ == READY && condition.status == Holds::True);
    let since = ready.and_then(|ready| ready.last_transition_time);
    let since = since.and_then(|since| since.parse::<Timestamp>().ok());
    Ok(since.map(CompactTimestamp::from))
}

impl Node {
    /// Since when the node is ready; nothing when it is not.
    pub fn ready_since(&self) -> Option<CompactTimestamp> {
        self.status.ready_since
    }

    /// Whether nothing has changed of what is kept, as when a kubelet says that it is alive.
    pub fn is_as(&self, other: &Self) -> bool {
        self.metadata.is_as(&other.metadata) && self.spec == other.spec && self.status == other.status
    }

    /// Whether the node looks the same to whoever places Pods on it: what it is called and labelled, and its taints. Heartbeats make no difference.
    pub fn places_pods_like(&self, other: &Self) -> bool {
        let identity = |node: &Self| (node.metadata.uid.clone(), node.metadata.is_deleting());
        self.metadata.labels == other.metadata.labels
            && self.spec.taints == other.spec.taints
            && identity(self) == identity(other)
    }

    /// Whether no machine is behind it, and so no daemon.
    pub fn is_virtual(&self) -> bool {
        self.metadata.label(label::NODE_TYPE) == Some(label::NODE_TYPE_VIRTUAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn given_conditions_then_a_node_is_ready_since_the_last_change() {
        for (status, time, since) in [
            ("True", json!("2026-01-01T00:00:00Z"), true),
            ("False", json!("2026-01-01T00:00:00Z"), false),
            ("True", Value::Null, false),
        ] {
            let node = json!({"metadata": {"name": "a", "labels": {"type": "virtual-kubelet"}}, "status": {"conditions": [
                {"type": "DiskPressure", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"},
                {"type": "Ready", "status": status, "lastTransitionTime": time},
            ]}});
            let node: Node = serde_json::from_value(node).unwrap();
            assert_eq!(node.ready_since().is_some(), since, "{status}");
            assert!(node.is_virtual());
        }
        assert!(!Node::default().is_virtual());
    }

    #[test]
    fn given_a_heartbeat_then_a_node_places_pods_as_before() {
        let node = |labels: Value, taints: Value, heartbeat: &str, version: &str| -> Node {
            let ready = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat});
            let node = json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": version, "labels": labels},
                "spec": {"taints": taints}, "status": {"conditions": [ready]}});
            serde_json::from_value(node).unwrap()
        };
        let taint = json!([{"key": "k", "effect": "NoSchedule"}]);
        let before = node(json!({"a": "1"}), taint.clone(), "2026-01-01T00:00:00Z", "1");
        for (after, same) in [
            (
                node(json!({"a": "1"}), taint.clone(), "2026-01-01T00:00:10Z", "2"),
                true,
            ),
            (node(json!({"a": "2"}), taint, "2026-01-01T00:00:00Z", "2"), false),
            (node(json!({"a": "1"}), Value::Null, "2026-01-01T00:00:00Z", "2"), false),
        ] {
            assert_eq!(before.places_pods_like(&after), same, "{after:?}");
            assert_eq!(before.is_as(&after), same, "{after:?}");
        }
    }
}
