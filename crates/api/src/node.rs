//! A node as controllers read it.

use serde::Deserialize;

use crate::meta::{CompactTimestamp, Meta, known};
use crate::names::label;
use crate::pod::status::{Holds, PodCondition};
use crate::wire::or_empty;

/// What controllers read of a node. For reading only.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Name, labels and so on.
    #[serde(deserialize_with = "known")]
    pub metadata: Meta,
    /// What is.
    #[serde(deserialize_with = "or_empty")]
    pub status: NodeStatus,
}

projection!(Node, of: k8s_openapi::api::core::v1::Node);

/// What controllers read of a node's status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// Conditions; they have the shape of a Pod's.
    #[serde(deserialize_with = "or_empty")]
    pub conditions: Box<[PodCondition]>,
}

impl Node {
    /// Since when the node is ready; nothing when it is not.
    pub fn ready_since(&self) -> Option<CompactTimestamp> {
        let ready = self
            .status
            .conditions
            .iter()
            .find(|condition| &*condition.type_ == "Ready")?;
        (ready.status == Holds::True).then_some(ready.last_transition_time)?
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
}
