//! The workload of a subset, of whichever kind, as far as its UnitedDeployment looks at it.
//!
//! All workloads of the cluster are read, as one may come to belong to a UnitedDeployment or cease to. Of those that are in no subset only
//! the metadata is kept.

use serde::Deserialize;

use crate::meta::Meta;
use crate::names::label;
use crate::raw::AnyJson;
use crate::wire::or_empty;

/// A workload that may be the one of a subset. For reading only.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "Wire")]
pub struct SubsetWorkload {
    /// Name, labels, owners and so on.
    pub metadata: Meta,
    /// The whole spec; nothing for a workload that is in no subset.
    pub spec: AnyJson,
    /// What is.
    pub status: SubsetWorkloadStatus,
}

has_meta!(SubsetWorkload);

/// What is read of its status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubsetWorkloadStatus {
    /// Generation of the spec that this status is about.
    #[serde(deserialize_with = "or_empty")]
    pub observed_generation: i64,
    /// Pods there are.
    #[serde(deserialize_with = "or_empty")]
    pub replicas: i32,
    /// Pods that are ready.
    #[serde(deserialize_with = "or_empty")]
    pub ready_replicas: i32,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wire {
    #[serde(deserialize_with = "or_empty")]
    metadata: Meta,
    spec: AnyJson,
    #[serde(deserialize_with = "or_empty")]
    status: SubsetWorkloadStatus,
}

impl From<Wire> for SubsetWorkload {
    fn from(wire: Wire) -> Self {
        let Wire {
            mut metadata,
            mut spec,
            status,
        } = wire;
        // Whoever lost the label is known by its selector, which cannot be changed.
        let is_in_subset = metadata.label(label::SUBSET_NAME).is_some() || spec.json().contains(label::SUBSET_NAME);
        if !is_in_subset {
            metadata.keep_annotations(|_| false);
            spec = AnyJson::default();
        }
        Self { metadata, spec, status }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn given_workloads_then_the_spec_of_those_in_subsets_is_kept() {
        let read = |labels: serde_json::Value, selector: serde_json::Value| -> SubsetWorkload {
            let json = json!({
                "metadata": {"name": "w", "labels": labels, "annotations": {"example.com/note": "n"}},
                "spec": {"replicas": 3, "selector": {"matchLabels": selector}},
                "status": {"replicas": 3, "readyReplicas": null, "other": 1},
            });
            serde_json::from_value(json).unwrap()
        };
        let subset = json!({(label::SUBSET_NAME): "a"});
        for (labels, selector, is_kept) in [
            (subset.clone(), subset.clone(), true),
            (json!({}), subset, true),
            (json!({}), json!({"app": "x"}), false),
        ] {
            let workload = read(labels, selector);
            assert_eq!(!workload.spec.is_empty(), is_kept);
            assert_eq!(workload.metadata.annotation("example.com/note").is_some(), is_kept);
            assert_eq!((workload.status.replicas, workload.status.ready_replicas), (3, 0));
        }
    }
}
