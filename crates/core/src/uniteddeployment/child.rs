//! The workload of a subset, as it is.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kruise_api::meta::Meta;
use kruise_api::names::{annotation, label};
use kruise_api::shared::IntOrPercent;
use kruise_api::uniteddeployment::workload::SubsetWorkload;
use serde_json::Value;

use super::template::WorkloadKind;
use crate::plan::Target;
use crate::shared::selector;

/// A workload that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// Its kind.
    pub kind: WorkloadKind,
    /// The workload.
    pub object: Arc<SubsetWorkload>,
}

impl Child {
    pub(super) fn meta(&self) -> &Meta {
        &self.object.metadata
    }

    pub(super) fn name(&self) -> &str {
        &self.object.metadata.name
    }

    pub(super) fn target(&self) -> Target {
        Target::of_kind(self.kind.resource(), &*self.object)
    }

    pub(super) fn is_deleting(&self) -> bool {
        self.meta().is_deleting()
    }

    /// Whether a selector chooses it.
    pub(super) fn is_chosen_by(&self, chosen: &LabelSelector) -> bool {
        selector::matches(chosen, |key| self.meta().label(key))
    }
}

/// A workload, and what is read of its spec.
#[derive(Clone, Debug)]
pub(super) struct Existing<'a> {
    /// The workload.
    pub(super) child: &'a Child,
    /// The whole spec.
    pub(super) spec: Value,
    /// The subset.
    pub(super) subset: String,
}

impl<'a> Existing<'a> {
    /// Reads a workload; nothing when it does not say its subset.
    ///
    /// The selector says it in a way that cannot be changed, so it counts more than the label.
    pub(super) fn of(child: &'a Child) -> Option<Self> {
        let spec = child.object.spec.value();
        let labels = spec.pointer("/selector/matchLabels");
        let selected = labels.and_then(|labels| labels.get(label::SUBSET_NAME)?.as_str());
        let subset = selected.or_else(|| child.meta().label(label::SUBSET_NAME))?.to_owned();
        Some(Self { child, spec, subset })
    }

    /// Pods that it asks for.
    pub(super) fn replicas(&self) -> i32 {
        let replicas = self.spec.get("replicas").and_then(Value::as_i64);
        replicas.map_or(1, |replicas| i32::try_from(replicas).unwrap_or(i32::MAX))
    }

    /// Pods there are, and those that are ready.
    pub(super) fn counts(&self) -> (i32, i32) {
        let status = &self.child.object.status;
        (status.replicas, status.ready_replicas)
    }

    /// Its controller has seen the spec as it is.
    pub(super) fn is_observed(&self) -> bool {
        self.child.object.status.observed_generation >= self.child.meta().generation
    }

    /// The revision that it was made from.
    pub(super) fn revision(&self) -> &'a str {
        self.child.meta().label(label::SUBSET_REVISION).unwrap_or_default()
    }

    /// Users replace the Pods themselves.
    pub(super) fn is_on_delete(&self) -> bool {
        self.spec.pointer("/updateStrategy/type").and_then(Value::as_str) == Some("OnDelete")
    }

    /// Pods that stay at the old revision.
    pub(super) fn partition(&self) -> i32 {
        let partition = self.spec.pointer("/updateStrategy/rollingUpdate/partition");
        match partition {
            Some(Value::Number(count)) => count
                .as_i64()
                .and_then(|count| i32::try_from(count).ok())
                .unwrap_or_default(),
            Some(Value::String(share)) => IntOrPercent::from(&**share)
                .ceil_of(self.replicas())
                .unwrap_or_default(),
            _ => 0,
        }
    }

    /// The ordinal of its first Pod.
    pub(super) fn first_ordinal(&self) -> i32 {
        let first = self.spec.pointer("/ordinals/start").and_then(Value::as_i64);
        first.and_then(|first| i32::try_from(first).ok()).unwrap_or_default()
    }

    /// Whether it was made with this patch.
    pub(super) fn has_patch(&self, patch: &str) -> bool {
        let known = self.child.meta().annotation(annotation::SUBSET_PATCH);
        let read = |text: &str| serde_json::from_str::<Value>(text).ok();
        known.is_some_and(|known| known == patch || read(known).is_some_and(|known| read(patch) == Some(known)))
    }
}
