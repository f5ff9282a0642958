//! ResourceDistribution: copies one Secret or ConfigMap into many namespaces and keeps the copies in step.
//!
//! The versions differ in two names: `namespaceLabelSelector` and `failedNamespace` in v1alpha1 are
//! `namespaceSelector` and `failedNamespaces` in v1beta1.

use crate::registry::{Column, Conversion, KindInfo, VersionInfo};

/// The registry's entry.
pub const KIND: KindInfo = KindInfo {
    short_names: &["distributor"],
    conversion: Conversion::Webhook,
    ..KindInfo::of::<v1beta1::ResourceDistribution>(&[
        VersionInfo::of::<v1alpha1::ResourceDistribution>(COLUMNS),
        VersionInfo::of::<v1beta1::ResourceDistribution>(COLUMNS),
    ])
};

const COLUMNS: &[Column] = &[
    Column::integer("TOTAL", ".status.desired"),
    Column::integer("SUCCEED", ".status.succeeded"),
    Column::integer("FAILED", ".status.failed"),
];

/// Version v1alpha1.
pub mod v1alpha1 {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};

    use super::{DistributionConditionType, NamespaceList};
    use crate::raw::AnyJson;
    use crate::shared::conditions::ConditionStatus;

    kind! {
        /// Copies a Secret or ConfigMap into many namespaces.
        pub struct ResourceDistribution {
            group: apps, version: v1alpha1, plural: "resourcedistributions", scope: Cluster,
            spec: ResourceDistributionSpec, status: ResourceDistributionStatus,
        }
    }

    api! {
        /// What to copy, and where to.
        pub struct ResourceDistributionSpec {
            /// The Secret or ConfigMap as a whole manifest; its kind and name cannot be changed later.
            #[schema(extend("type" = "object", "x-kubernetes-embedded-resource" = true))]
            required resource: AnyJson,
            /// The namespaces to copy it into.
            required targets: DistributionTargets,
        }

        /// The namespaces to copy into: those listed and those selected, or all, without those excluded.
        pub struct DistributionTargets {
            /// True means all namespaces.
            all_namespaces: bool,
            /// Namespaces that are left out, whatever else is said.
            excluded_namespaces: NamespaceList,
            /// Namespaces by name; they may come into being later.
            included_namespaces: NamespaceList,
            /// Namespaces by label; none when empty.
            namespace_label_selector: Option<LabelSelector>,
        }

        /// How many namespaces have the copy.
        pub struct ResourceDistributionStatus {
            /// Namespaces that are to have the copy.
            desired: i32,
            /// Namespaces that have it.
            succeeded: i32,
            /// Namespaces that do not.
            failed: i32,
            /// Generation of the object that the status is about.
            observed_generation: i64,
            /// What went wrong and where; status `True` is bad.
            conditions: Vec<DistributionCondition>,
        }

        /// Something that can go wrong.
        pub struct DistributionCondition {
            /// What can go wrong.
            #[serde(rename = "type")]
            required type_: DistributionConditionType,
            /// `True` when it has, `False` when all is well.
            required status: ConditionStatus,
            /// When the status last changed.
            last_transition_time: Option<Time>,
            /// `Succeeded`, or the text of the last error.
            reason: String,
            /// The namespaces where it went wrong.
            failed_namespace: Vec<String>,
        }
    }
}

/// Version v1beta1.
pub mod v1beta1 {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};

    use super::{DistributionConditionType, NamespaceList};
    use crate::raw::AnyJson;
    use crate::shared::conditions::ConditionStatus;

    kind! {
        /// Copies a Secret or ConfigMap into many namespaces.
        pub struct ResourceDistribution {
            group: apps, version: v1beta1, plural: "resourcedistributions", scope: Cluster,
            spec: ResourceDistributionSpec, status: ResourceDistributionStatus,
        }
    }

    api! {
        /// What to copy, and where to.
        pub struct ResourceDistributionSpec {
            /// The Secret or ConfigMap as a whole manifest; its kind and name cannot be changed later.
            #[schema(extend("type" = "object", "x-kubernetes-embedded-resource" = true))]
            required resource: AnyJson,
            /// The namespaces to copy it into.
            required targets: DistributionTargets,
        }

        /// The namespaces to copy into: those listed and those selected, or all, without those excluded.
        pub struct DistributionTargets {
            /// True means all namespaces.
            all_namespaces: bool,
            /// Namespaces that are left out, whatever else is said.
            excluded_namespaces: NamespaceList,
            /// Namespaces by name; they may come into being later.
            included_namespaces: NamespaceList,
            /// Namespaces by label; none when empty.
            namespace_selector: Option<LabelSelector>,
        }

        /// How many namespaces have the copy.
        pub struct ResourceDistributionStatus {
            /// Namespaces that are to have the copy.
            desired: i32,
            /// Namespaces that have it.
            succeeded: i32,
            /// Namespaces that do not.
            failed: i32,
            /// Generation of the object that the status is about.
            observed_generation: i64,
            /// What went wrong and where; status `True` is bad.
            conditions: Vec<DistributionCondition>,
        }

        /// Something that can go wrong.
        pub struct DistributionCondition {
            /// What can go wrong.
            #[serde(rename = "type")]
            required type_: DistributionConditionType,
            /// `True` when it has, `False` when all is well.
            required status: ConditionStatus,
            /// When the status last changed.
            last_transition_time: Option<Time>,
            /// `Succeeded`, or the text of the last error.
            reason: String,
            /// The namespaces where it went wrong.
            failed_namespaces: Vec<String>,
        }
    }
}

words! {
    /// What can go wrong with a distribution.
    pub enum DistributionConditionType {
        /// A copy could not be read.
        GetResourceFailed,
        /// A copy could not be made.
        CreateResourceFailed,
        /// A copy could not be brought up to date.
        UpdateResourceFailed,
        /// A copy that is no longer wanted could not be deleted.
        DeleteResourceFailed,
        /// An object of the same kind and name is in the way.
        ConflictOccurred,
        /// A namespace is missing or on its way out.
        NamespaceNotExists,
    }
}

api! {
    /// Namespaces by name.
    pub struct NamespaceList {
        /// The namespaces.
        list: Vec<NamespaceName>,
    }

    /// A namespace by name.
    pub struct NamespaceName {
        /// Name of the namespace.
        name: String,
    }
}
