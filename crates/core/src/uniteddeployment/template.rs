//! The template of the workloads: which of the four kinds it is of, and what is in it.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kruise_api::cloneset::v1beta1::CloneSet;
use kruise_api::kind::Kind;
use kruise_api::resource::Resource;
use kruise_api::statefulset::v1beta1::StatefulSet as AdvancedStatefulSet;
use kruise_api::uniteddeployment::WorkloadTemplate;
use serde_json::Value;

use crate::shared::tree::Object;

/// The kinds of workloads that a subset can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkloadKind {
    /// A StatefulSet of Kubernetes.
    StatefulSet,
    /// A StatefulSet of this API.
    AdvancedStatefulSet,
    /// A CloneSet.
    CloneSet,
    /// A Deployment.
    Deployment,
}

impl WorkloadKind {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::StatefulSet,
        Self::AdvancedStatefulSet,
        Self::CloneSet,
        Self::Deployment,
    ];

    /// How the API server calls it.
    pub fn resource(self) -> &'static Resource {
        match self {
            Self::StatefulSet => StatefulSet::RESOURCE,
            Self::AdvancedStatefulSet => AdvancedStatefulSet::RESOURCE,
            Self::CloneSet => CloneSet::RESOURCE,
            Self::Deployment => Deployment::RESOURCE,
        }
    }

    /// How events call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::StatefulSet => "StatefulSet",
            Self::AdvancedStatefulSet => "AdvancedStatefulSet",
            Self::CloneSet => "CloneSet",
            Self::Deployment => "Deployment",
        }
    }

    /// The field of its template.
    pub fn field(self) -> &'static str {
        match self {
            Self::StatefulSet => "statefulSetTemplate",
            Self::AdvancedStatefulSet => "advancedStatefulSetTemplate",
            Self::CloneSet => "cloneSetTemplate",
            Self::Deployment => "deploymentTemplate",
        }
    }

    /// The path of its partition below `spec`; a Deployment has none.
    pub(super) fn has_partition(self) -> bool {
        self != Self::Deployment
    }

    /// Its field for the update strategy.
    pub(super) fn strategy_field(self) -> &'static str {
        if self == Self::Deployment {
            "strategy"
        } else {
            "updateStrategy"
        }
    }

    /// It keeps the names and claims of its Pods.
    pub(super) fn is_stateful(self) -> bool {
        matches!(self, Self::StatefulSet | Self::AdvancedStatefulSet)
    }
}

/// The template of the workloads.
#[derive(Clone, Debug)]
pub(super) struct Template {
    /// What they are.
    pub(super) kind: WorkloadKind,
    /// Their metadata.
    pub(super) metadata: Value,
    /// Their spec, with what says nothing left out.
    pub(super) spec: Object,
    /// All of it, as a revision keeps it.
    pub(super) whole: Value,
}

impl Template {
    /// Reads the one template there is.
    pub(super) fn of(given: &WorkloadTemplate) -> Result<Self, String> {
        let whole = serde_json::to_value(given).map_err(|error| error.to_string())?;
        let kinds = WorkloadKind::ALL.into_iter();
        let mut found = kinds.filter(|kind| whole.get(kind.field()).is_some_and(|template| !template.is_null()));
        let (Some(kind), None) = (found.next(), found.next()) else {
            return Err("spec.template: there has to be exactly one".to_owned());
        };
        let part = |name: &str| {
            let part = whole.pointer(&format!("/{}/{name}", kind.field()));
            without_nulls(part.cloned().unwrap_or_default())
        };
        let Value::Object(spec) = part("spec") else {
            return Err(format!("spec.template.{}.spec: there is none", kind.field()));
        };
        Ok(Self {
            kind,
            metadata: part("metadata"),
            spec,
            whole,
        })
    }

    /// Labels or annotations of the workloads.
    pub(super) fn pairs(&self, map: &str) -> Object {
        let pairs = self.metadata.get(map).and_then(Value::as_object);
        pairs.cloned().unwrap_or_default()
    }
}

/// A field that is null is none: in a patch it would remove what is there.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(fields.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}
