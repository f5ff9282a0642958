//! UnitedDeployment: one workload per subset (zone, node pool), with the replicas divided among them.
//!
//! The spec is the same in both versions; the status of v1alpha1 has counts of subsets as maps of their own.

pub mod topology;
pub mod v1alpha1;
pub mod v1beta1;
pub mod workload;

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DeploymentSpec, StatefulSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};

use crate::raw::{Raw, RawObjectMeta};
use crate::registry::{Column, Conversion, KindInfo, VersionInfo};
use crate::shared::conditions::{Condition, ConditionStatus};

/// The registry's entry.
pub const KIND: KindInfo = KindInfo {
    short_names: &["ud"],
    conversion: Conversion::Webhook,
    ..KindInfo::of::<v1beta1::UnitedDeployment>(&[
        VersionInfo::of::<v1alpha1::UnitedDeployment>(COLUMNS).scalable(),
        VersionInfo::of::<v1beta1::UnitedDeployment>(COLUMNS).scalable(),
    ])
};

const COLUMNS: &[Column] = &[
    Column::integer("DESIRED", ".spec.replicas"),
    Column::integer("CURRENT", ".status.replicas"),
    Column::integer("UPDATED", ".status.updatedReplicas"),
    Column::integer("READY", ".status.readyReplicas"),
    Column::AGE,
];

words! {
    /// Who decides how far each subset is updated.
    pub enum UpdateStrategyType {
        /// The user, by partitions.
        Manual,
    }
}

api! {
    /// The workload that is wanted in each subset, and how to get there.
    pub struct UnitedDeploymentSpec {
        /// Wanted number of Pods over all subsets; 1 when not given.
        replicas: Option<i32>,
        /// Which workloads and Pods belong to this object; must match the template's labels.
        required selector: LabelSelector,
        /// The workload to make in each subset.
        template: WorkloadTemplate,
        /// The subsets, and how Pods are divided among them.
        topology: topology::Topology,
        /// How a new template reaches the subsets.
        update_strategy: UpdateStrategy,
        /// Old revisions to keep; 10 when not given.
        revision_history_limit: Option<i32>,
    }

    /// The workload to make in each subset: exactly one of these.
    pub struct WorkloadTemplate {
        /// A StatefulSet of Kubernetes.
        stateful_set_template: Option<StatefulSetTemplate>,
        /// A StatefulSet of this API.
        advanced_stateful_set_template: Option<AdvancedStatefulSetTemplate>,
        /// A CloneSet.
        clone_set_template: Option<CloneSetTemplate>,
        /// A Deployment of Kubernetes.
        deployment_template: Option<DeploymentTemplate>,
    }

    /// A StatefulSet of Kubernetes.
    pub struct StatefulSetTemplate {
        /// Labels and annotations of the workload.
        metadata: RawObjectMeta,
        /// Its spec; `replicas` is left to this object.
        required spec: Raw<StatefulSetSpec>,
    }

    /// A StatefulSet of this API.
    pub struct AdvancedStatefulSetTemplate {
        /// Labels and annotations of the workload.
        metadata: RawObjectMeta,
        /// Its spec; `replicas` is left to this object.
        required spec: crate::statefulset::v1beta1::StatefulSetSpec,
    }

    /// A CloneSet.
    pub struct CloneSetTemplate {
        /// Labels and annotations of the workload.
        metadata: RawObjectMeta,
        /// Its spec in the shape of v1beta1; `replicas` is left to this object.
        required spec: crate::cloneset::v1beta1::CloneSetSpec,
    }

    /// A Deployment of Kubernetes.
    pub struct DeploymentTemplate {
        /// Labels and annotations of the workload.
        metadata: RawObjectMeta,
        /// Its spec; `replicas` is left to this object.
        required spec: Raw<DeploymentSpec>,
    }

    /// How a new template reaches the subsets.
    pub struct UpdateStrategy {
        /// `Manual`: each subset goes as far as its partition lets it.
        #[schema(extend("enum" = ["Manual", ""]))]
        #[serde(rename = "type")]
        type_: UpdateStrategyType,
        /// How far each subset may go.
        manual_update: Option<ManualUpdate>,
    }

    /// How far each subset may go.
    pub struct ManualUpdate {
        /// Pods that stay at the old revision, by name of the subset.
        partitions: BTreeMap<String, i32>,
    }

    /// One aspect of the object's state.
    pub struct UnitedDeploymentCondition {
        /// What the condition is about.
        #[serde(rename = "type")]
        type_: String,
        /// `True`, `False` or `Unknown`.
        status: ConditionStatus,
        /// When the status last changed.
        last_transition_time: Option<Time>,
        /// Why the status is what it is, in one word.
        reason: String,
        /// Details for people.
        message: String,
    }

    /// How one subset stands.
    pub struct SubsetStatus {
        /// Name of the subset.
        name: String,
        /// Pods that the subset should have.
        replicas: i32,
        /// Pods of the subset that are ready.
        ready_replicas: i32,
        /// Pods of the subset that stay at the old revision.
        partition: i32,
        /// Pods of the subset that wait for a node and are made up for elsewhere.
        reserved_pods: i32,
        /// `Schedulable`: whether the subset takes Pods.
        conditions: Vec<Condition>,
    }
}
