//! What a DaemonSet asks for, in numbers. Shares are of the nodes that should run a Pod now.
//!
//! | field | rounded | when it is missing |
//! |---|---|---|
//! | `maxUnavailable`, `maxSurge` | up | 0; when both are 0, one Pod may be unavailable, so that the update can move |
//! | `partition` | down | 0 |
//! | `burstReplicas` | down, a share is at least 1 | 250, also when it cannot be read |
//!
//! Whether there is a surge at all does not depend on the number of nodes.

use kruise_api::daemonset::v1beta1::DaemonSetSpec;
use kruise_api::daemonset::{RollingUpdate, RollingUpdateType, UpdateStrategyType};
use kruise_api::shared::IntOrPercent;

use crate::shared::scaled_value::scaled_value;

const BURST: usize = 250;

/// What the user asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Desired {
    /// Nodes that should run a Pod.
    pub(super) nodes: i32,
    /// Nodes whose Pod may be unavailable during an update.
    pub(super) unavailable: i32,
    /// Nodes that may have two Pods during an update.
    pub(super) surge: i32,
    /// Nodes that keep an old Pod.
    pub(super) partition: i32,
    /// Pods that are created, and as many that are deleted, in one round.
    pub(super) burst: usize,
    /// A new Pod comes before the old one goes.
    pub(super) surges: bool,
    /// New Pods are made only on as many nodes as the partition lets through.
    pub(super) creates_in_steps: bool,
}

impl Desired {
    pub(super) fn of(spec: &DaemonSetSpec, nodes: i32) -> Self {
        let rolling = rolling(spec);
        let share = |value: Option<&IntOrPercent>, of: i32| {
            let count = value.map_or(0, |value| scaled_value(value, of, IntOrPercent::ceil_of));
            i32::try_from(count).unwrap_or(i32::MAX)
        };
        let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref());
        let unavailable = share(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), nodes);
        let partition = rolling.and_then(|rolling| rolling.partition.as_ref());
        let partition = partition.map_or(0, |value| scaled_value(value, nodes, IntOrPercent::floor_of));
        let in_steps = spec
            .scale_strategy
            .as_ref()
            .is_some_and(|scale| scale.partitioned_scaling);
        let cannot_move = nodes > 0 && unavailable == 0 && share(surge, nodes) == 0;
        Self {
            nodes,
            unavailable: if cannot_move { 1 } else { unavailable },
            surge: share(surge, nodes),
            partition: i32::try_from(partition).unwrap_or(i32::MAX),
            burst: burst(spec.burst_replicas.as_ref(), nodes),
            surges: share(surge, 1) > 0,
            creates_in_steps: in_steps && partition > 0,
        }
    }
}

fn burst(given: Option<&IntOrPercent>, nodes: i32) -> usize {
    match given {
        None => BURST,
        Some(IntOrPercent::Int(count)) => usize::try_from(*count).unwrap_or(0),
        Some(share) => share
            .floor_of(nodes)
            .map_or(BURST, |count| usize::try_from(count).unwrap_or(0).max(1)),
    }
}

/// The rules of a rolling update; none when Pods are updated by whoever deletes them.
pub(super) fn rolling(spec: &DaemonSetSpec) -> Option<&RollingUpdate> {
    let update = &spec.update_strategy;
    let is_rolling = matches!(
        update.type_,
        UpdateStrategyType::RollingUpdate | UpdateStrategyType::Unset
    );
    update.rolling_update.as_ref().filter(|_| is_rolling)
}

/// Pods are updated in place where possible.
pub(super) fn is_in_place(spec: &DaemonSetSpec) -> bool {
    let rolling = spec.update_strategy.rolling_update.as_ref();
    rolling.is_some_and(|rolling| rolling.rolling_update_type == RollingUpdateType::InPlaceIfPossible)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn desired(rolling: &Value, burst: &Value, nodes: i32) -> Desired {
        let spec = json!({
            "selector": {}, "template": {}, "burstReplicas": burst,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        });
        Desired::of(&serde_json::from_str(&spec.to_string()).unwrap(), nodes)
    }

    #[test]
    fn given_shares_then_budgets_are_rounded_up_and_partition_and_burst_down() {
        for (rolling, nodes, expected) in [
            (json!({"maxUnavailable": "50%"}), 3, (2, 0, 0)),
            (json!({"maxUnavailable": "10%"}), 3, (1, 0, 0)),
            (json!({"maxSurge": "10%"}), 3, (0, 1, 0)),
            (json!({"maxSurge": 2, "partition": "67%"}), 3, (0, 2, 2)),
            (json!({"maxUnavailable": 1, "partition": "66%"}), 3, (1, 0, 1)),
            (json!({"maxUnavailable": 0, "maxSurge": 0}), 3, (1, 0, 0)),
            (json!({"maxUnavailable": 1, "maxSurge": "some"}), 3, (1, 0, 0)),
            (json!({}), 0, (0, 0, 0)),
            (json!({"partition": -3}), 3, (1, 0, 0)),
        ] {
            let desired = desired(&rolling, &Value::Null, nodes);
            let found = (desired.unavailable, desired.surge, desired.partition);
            assert_eq!(found, expected, "{rolling}");
        }
    }

    #[test]
    fn given_burst_replicas_then_a_share_is_at_least_one() {
        for (burst, nodes, expected) in [
            (Value::Null, 3, 250),
            (json!(2), 10, 2),
            (json!("10%"), 3, 1),
            (json!("50%"), 10, 5),
            (json!("10%"), 0, 1),
            (json!("many"), 10, 250),
            (json!(0), 10, 0),
            (json!(-1), 10, 0),
        ] {
            assert_eq!(desired(&json!({}), &burst, nodes).burst, expected, "{burst}");
        }
    }
}
