//! Workloads: how many Pods are wanted, there, updated, ready and available, and what that means.
//!
//! What there is to say comes in this order: it is being deleted; nobody has looked at it; Pods are being updated; Pods are missing or too many; Pods are not available; the
//! rollout is paused; its strategy keeps Pods at the old revision. The first gives the state.

use super::{ConditionView, ImageView, State, StateView, conditions, created, images};
use crate::plan::{Why, why::Rollout};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_api::{
    cloneset::v1beta1::CloneSet, daemonset, daemonset::v1beta1::DaemonSet, kind::Kind, sidecarset,
    sidecarset::v1beta1::SidecarSet, statefulset, statefulset::v1beta1::StatefulSet,
    uniteddeployment::v1beta1::UnitedDeployment,
};
use serde::Serialize;

/// A workload as a line of the list.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadView {
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace; empty for objects of the cluster.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// When it was made, in seconds since 1970.
    pub created: Option<i64>,
    /// Where it stands.
    pub state: StateView,
    /// What its counts are of.
    pub unit: &'static str,
    /// How many are wanted.
    pub wanted: i32,
    /// How many there are.
    pub there: i32,
    /// How many are at the update revision, or have succeeded.
    pub updated: i32,
    /// How many of them should be.
    pub expected: i32,
    /// How many are ready.
    pub ready: i32,
    /// How many are available.
    pub available: i32,
    /// What else the page of this workload shows.
    #[serde(skip)]
    pub details: Details,
}

/// What the page of one workload shows beside its line.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// Name or hash of the revision that the spec asks for.
    pub update_revision: String,
    /// Name of the revision that the last finished rollout reached.
    pub current_revision: String,
    /// Containers of the template with their images.
    pub images: Vec<ImageView>,
    /// How it is updated: what, and the value.
    pub strategy: Vec<(&'static str, String)>,
    /// Its conditions.
    pub conditions: Vec<ConditionView>,
}

/// What the state follows from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    /// Whether the status is about the newest spec.
    pub(super) seen: bool,
    pub(super) wanted: i32,
    pub(super) there: i32,
    pub(super) updated: i32,
    pub(super) expected: i32,
    pub(super) ready: i32,
    pub(super) available: i32,
    pub(super) paused: bool,
    pub(super) on_delete: bool,
}

impl Numbers {
    fn state(&self, is_deleting: bool) -> StateView {
        if is_deleting {
            return StateView::new(State::Deleting, "It is being deleted.");
        }
        if !self.seen {
            return StateView::new(State::Unseen, "The last change was not looked at yet.");
        }
        let outdated = (self.wanted.min(self.there) - self.updated).max(0);
        let rolls = self.updated < self.expected && !self.paused && !self.on_delete;
        let mut found: Vec<(State, String)> = Vec::new();
        if outdated > 0 && rolls {
            let Self { updated, expected, .. } = self;
            found.push((State::Updating, format!("{updated} of {expected} are updated.")));
        }
        if self.there != self.wanted {
            let Self { there, wanted, .. } = self;
            found.push((State::Scaling, format!("There are {there}, {wanted} are wanted.")));
        }
        if self.ready < self.there {
            let (missing, there) = (self.there - self.ready, self.there);
            found.push((State::NotReady, format!("{missing} of {there} are not ready.")));
        } else if self.available < self.ready {
            let waiting = self.ready - self.available;
            found.push((
                State::NotReady,
                format!("{waiting} ready ones do not count as available yet."),
            ));
        }
        if outdated > 0 && !rolls {
            let (state, why) = if self.paused {
                (State::Paused, Rollout::Paused { outdated })
            } else if self.on_delete {
                (State::Held, Rollout::OnDelete { outdated })
            } else {
                (State::Held, Rollout::Partition { keeps: outdated })
            };
            found.push((state, Why::Rollout(why).to_string()));
        } else if self.paused {
            found.push((State::Paused, "The rollout is paused.".to_owned()));
        }
        let state = found.first().map_or(State::Ready, |(state, _)| *state);
        let notes: Vec<String> = found.into_iter().map(|(_, note)| note).collect();
        StateView::new(state, notes.join(" "))
    }
}

impl WorkloadView {
    pub(super) fn new<K: Kind>(meta: &ObjectMeta, numbers: &Numbers, details: Details) -> Self {
        let state = numbers.state(meta.deletion_timestamp.is_some());
        Self {
            wanted: numbers.wanted,
            there: numbers.there,
            updated: numbers.updated,
            expected: numbers.expected,
            ready: numbers.ready,
            available: numbers.available,
            ..Self::in_state::<K>(meta, state, details)
        }
    }

    /// Without numbers.
    pub(super) fn in_state<K: Kind>(meta: &ObjectMeta, state: StateView, details: Details) -> Self {
        Self {
            kind: K::KIND,
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            created: created(meta),
            state,
            unit: "Pods",
            wanted: 0,
            there: 0,
            updated: 0,
            expected: 0,
            ready: 0,
            available: 0,
            details,
        }
    }
}

fn is_seen(meta: &ObjectMeta, observed: i64) -> bool {
    observed >= meta.generation.unwrap_or_default()
}

/// What is given of a strategy.
fn given<const N: usize>(fields: [(&'static str, Option<String>); N]) -> Vec<(&'static str, String)> {
    let given = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
    given.filter(|(_, value)| !value.is_empty()).collect()
}

fn text(value: Option<&impl ToString>) -> Option<String> {
    value.map(ToString::to_string)
}

impl From<&CloneSet> for WorkloadView {
    fn from(set: &CloneSet) -> Self {
        use kruise_api::cloneset::v1beta1::UpdateStrategyType;
        let (spec, status) = (&set.spec, set.status.clone().unwrap_or_default());
        let rolling = spec.update_strategy.rolling_update.as_ref();
        let numbers = Numbers {
            seen: set.status.is_some() && is_seen(&set.metadata, status.observed_generation),
            wanted: spec.replicas.unwrap_or(1),
            there: status.replicas,
            updated: status.updated_replicas,
            expected: status.expected_updated_replicas,
            ready: status.ready_replicas,
            available: status.available_replicas,
            paused: rolling.is_some_and(|rolling| rolling.paused),
            on_delete: spec.update_strategy.type_ == UpdateStrategyType::OnDelete,
        };
        let strategy = given([
            ("type", Some(spec.update_strategy.type_.to_string())),
            (
                "podUpdatePolicy",
                text(rolling.map(|rolling| &rolling.pod_update_policy)),
            ),
            (
                "partition",
                text(rolling.and_then(|rolling| rolling.partition.as_ref())),
            ),
            (
                "maxUnavailable",
                text(rolling.and_then(|rolling| rolling.max_unavailable.as_ref())),
            ),
            ("maxSurge", text(rolling.and_then(|rolling| rolling.max_surge.as_ref()))),
            (
                "minReadySeconds",
                (spec.min_ready_seconds > 0).then(|| spec.min_ready_seconds.to_string()),
            ),
        ]);
        let details = Details {
            update_revision: status.update_revision,
            current_revision: status.current_revision,
            images: images(&spec.template),
            strategy,
            conditions: conditions!(status.conditions),
        };
        Self::new::<CloneSet>(&set.metadata, &numbers, details)
    }
}

impl From<&StatefulSet> for WorkloadView {
    fn from(set: &StatefulSet) -> Self {
        let (spec, status) = (&set.spec, set.status.clone().unwrap_or_default());
        let rolling = spec.update_strategy.rolling_update.as_ref();
        let wanted = spec.replicas.unwrap_or(1);
        let partition = rolling.and_then(|rolling| rolling.partition);
        let numbers = Numbers {
            seen: set.status.is_some() && is_seen(&set.metadata, status.observed_generation),
            wanted,
            there: status.replicas,
            updated: status.updated_replicas,
            expected: (wanted - partition.unwrap_or_default()).max(0),
            ready: status.ready_replicas,
            available: status.available_replicas,
            paused: rolling.is_some_and(|rolling| rolling.paused),
            on_delete: spec.update_strategy.type_ == statefulset::UpdateStrategyType::OnDelete,
        };
        let strategy = given([
            ("type", Some(spec.update_strategy.type_.to_string())),
            ("podManagementPolicy", Some(spec.pod_management_policy.to_string())),
            (
                "podUpdatePolicy",
                text(rolling.map(|rolling| &rolling.pod_update_policy)),
            ),
            ("partition", text(partition.as_ref())),
            (
                "maxUnavailable",
                text(rolling.and_then(|rolling| rolling.max_unavailable.as_ref())),
            ),
        ]);
        let details = Details {
            update_revision: status.update_revision,
            current_revision: status.current_revision,
            images: images(&spec.template),
            strategy,
            conditions: conditions!(status.conditions),
        };
        Self::new::<StatefulSet>(&set.metadata, &numbers, details)
    }
}

impl From<&DaemonSet> for WorkloadView {
    fn from(set: &DaemonSet) -> Self {
        let (spec, status) = (&set.spec, set.status.clone().unwrap_or_default());
        let rolling = spec.update_strategy.rolling_update.as_ref();
        let desired = status.desired_number_scheduled;
        let partition = rolling.and_then(|rolling| rolling.partition.as_ref());
        // Without a partition and a selector all are to be updated; else the plan tells.
        let is_partial = partition.is_some_and(|partition| !["0", "0%"].contains(&partition.to_string().as_str()))
            || rolling.is_some_and(|rolling| rolling.selector.is_some());
        let numbers = Numbers {
            seen: set.status.is_some() && is_seen(&set.metadata, status.observed_generation),
            wanted: desired,
            there: status.current_number_scheduled,
            updated: status.updated_number_scheduled,
            expected: if is_partial {
                status.updated_number_scheduled
            } else {
                desired
            },
            ready: status.number_ready,
            available: status.number_available,
            paused: rolling.is_some_and(|rolling| rolling.paused),
            on_delete: spec.update_strategy.type_ == daemonset::UpdateStrategyType::OnDelete,
        };
        let strategy = given([
            ("type", Some(spec.update_strategy.type_.to_string())),
            (
                "rollingUpdateType",
                text(rolling.map(|rolling| &rolling.rolling_update_type)),
            ),
            ("partition", text(partition)),
            (
                "maxUnavailable",
                text(rolling.and_then(|rolling| rolling.max_unavailable.as_ref())),
            ),
            ("maxSurge", text(rolling.and_then(|rolling| rolling.max_surge.as_ref()))),
        ]);
        let details = Details {
            update_revision: status.update_revision,
            images: images(&spec.template),
            strategy,
            conditions: conditions!(status.conditions),
            ..Details::default()
        };
        Self::new::<DaemonSet>(&set.metadata, &numbers, details)
    }
}

impl From<&SidecarSet> for WorkloadView {
    fn from(set: &SidecarSet) -> Self {
        let (spec, status) = (&set.spec, set.status.clone().unwrap_or_default());
        let update = &spec.update_strategy;
        let has_partition = update
            .partition
            .as_ref()
            .is_some_and(|partition| !["0", "0%"].contains(&partition.to_string().as_str()));
        let leaves_alone = update.type_ == sidecarset::UpdateStrategyType::NotUpdate;
        let is_partial = has_partition || update.selector.is_some() || leaves_alone;
        let numbers = Numbers {
            seen: set.status.is_some() && is_seen(&set.metadata, status.observed_generation),
            wanted: status.matched_pods,
            there: status.matched_pods,
            updated: status.updated_pods,
            expected: if is_partial {
                status.updated_pods
            } else {
                status.matched_pods
            },
            ready: status.ready_pods,
            available: status.ready_pods,
            paused: update.paused,
            on_delete: false,
        };
        let strategy = given([
            ("type", Some(update.type_.to_string())),
            ("partition", text(update.partition.as_ref())),
            ("maxUnavailable", text(update.max_unavailable.as_ref())),
        ]);
        let details = Details {
            update_revision: status.latest_revision,
            strategy,
            conditions: conditions!(status.conditions),
            ..Details::default()
        };
        Self::new::<SidecarSet>(&set.metadata, &numbers, details)
    }
}

impl From<&UnitedDeployment> for WorkloadView {
    fn from(united: &UnitedDeployment) -> Self {
        let status = united.status.clone().unwrap_or_default();
        let manual = united.spec.update_strategy.manual_update.as_ref();
        let kept: i32 = manual.map_or(0, |manual| manual.partitions.values().sum());
        let wanted = united.spec.replicas.unwrap_or(1);
        let numbers = Numbers {
            seen: united.status.is_some() && is_seen(&united.metadata, status.observed_generation),
            wanted,
            there: status.replicas,
            updated: status.updated_replicas,
            expected: (wanted - kept).max(0),
            ready: status.ready_replicas,
            available: status.ready_replicas,
            ..Numbers::default()
        };
        let subset = |subset: &kruise_api::uniteddeployment::SubsetStatus| {
            let counts = format!("{} Pods, {} ready", subset.replicas, subset.ready_replicas);
            (subset.name.clone(), counts)
        };
        let subsets = status.subset_statuses.iter().map(subset);
        let counts: Vec<String> = subsets.map(|(name, counts)| format!("{name}: {counts}")).collect();
        let details = Details {
            update_revision: status.updated_revision,
            current_revision: status.current_revision,
            strategy: given([("subsets", Some(counts.join("; ")))]),
            conditions: conditions!(status.conditions),
            ..Details::default()
        };
        Self::new::<UnitedDeployment>(&united.metadata, &numbers, details)
    }
}
