//! How many Pods there may be: what the user wrote, in numbers.
//!
//! | number | rule |
//! |---|---|
//! | partition | Pods that stay at the old revision, by rank: the lowest ones, or with `unorderedUpdate` any |
//! | unavailable | Pods that may be unavailable during an update; percentages of `replicas`, rounded down, at least 1 |
//! | scale limit | Pods that may be unavailable while Pods are added, counted in the same way; no limit when not given |
//! | min ready | seconds that a Pod has to be ready before it is available |

use kruise_api::shared::IntOrPercent;
use kruise_api::statefulset::v1beta1::StatefulSetSpec;
use kruise_api::statefulset::{PodManagementPolicy, RollingUpdate, UpdateStrategyType};

use crate::shared::scaled_value::scaled_value;

/// What the user asked for, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Desired {
    /// Pods that are wanted.
    pub(super) replicas: i32,
    /// Pods that stay at the old revision.
    pub(super) partition: i64,
    /// Pods that may be unavailable during an update.
    pub(super) unavailable: i64,
    /// Pods that may be unavailable while Pods are added.
    pub(super) scale_limit: Option<i64>,
    /// Seconds that a Pod has to be ready.
    pub(super) min_ready_seconds: i32,
    /// One after the other, each waiting for the one before.
    pub(super) is_ordered: bool,
}

impl Desired {
    /// Returns the numbers of a spec.
    pub(super) fn of(spec: &StatefulSetSpec) -> Self {
        let replicas = spec.replicas.unwrap_or(1).max(0);
        let at_least_one = |value: &IntOrPercent| scaled_value(value, replicas, IntOrPercent::floor_of).max(1);
        let rolling = spec.update_strategy.rolling_update.as_ref();
        let scale = spec.scale_strategy.as_ref();
        Self {
            replicas,
            partition: rolling.and_then(|rolling| rolling.partition).unwrap_or(0).max(0).into(),
            unavailable: rolling
                .and_then(|rolling| rolling.max_unavailable.as_ref())
                .map_or(1, at_least_one),
            scale_limit: scale.and_then(|scale| scale.max_unavailable.as_ref()).map(at_least_one),
            min_ready_seconds: rolling.and_then(|rolling| rolling.min_ready_seconds).unwrap_or(0),
            is_ordered: spec.pod_management_policy != PodManagementPolicy::Parallel,
        }
    }
}

/// True when the controller replaces outdated Pods.
pub(super) fn is_rolling(spec: &StatefulSetSpec) -> bool {
    spec.update_strategy.type_ == UpdateStrategyType::RollingUpdate
}

/// The rules of an update that does not follow the ordinals.
pub(super) fn is_unordered(spec: &StatefulSetSpec) -> bool {
    let rolling = spec.update_strategy.rolling_update.as_ref();
    rolling.is_some_and(|rolling: &RollingUpdate| rolling.unordered_update.is_some())
}

/// `maxUnavailable`, a percentage rounded down; 1 when not given.
pub(super) fn unavailable_rounded_down(spec: &StatefulSetSpec) -> i32 {
    let rolling = spec.update_strategy.rolling_update.as_ref();
    let value = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
    let replicas = spec.replicas.unwrap_or(1).max(0);
    let value = value.map_or(1, |value| scaled_value(value, replicas, IntOrPercent::floor_of));
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// What scaling may still leave unavailable in this round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScaleBudget(Option<i64>);

impl ScaleBudget {
    /// The whole budget.
    pub(super) fn new(desired: &Desired) -> Self {
        Self(desired.scale_limit)
    }

    /// Whether there is a limit.
    pub(super) fn is_limited(self) -> bool {
        self.0.is_some()
    }

    /// Takes one. Returns whether nothing is left.
    pub(super) fn spend(&mut self) -> bool {
        self.0.as_mut().is_some_and(|left| {
            *left = left.saturating_sub(1);
            *left <= 0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn spec(change: &Value) -> StatefulSetSpec {
        let mut spec = json!({"replicas": 10, "selector": {}, "template": {}});
        kruise_api::merge_patch::merge(&mut spec, change);
        serde_json::from_str(&spec.to_string()).unwrap()
    }

    #[test]
    fn shares_are_of_replicas_rounded_down_and_never_none() {
        for (given, expected) in [
            (json!(3), 3),
            (json!(0), 1),
            (json!("25%"), 2),
            (json!("5%"), 1),
            (json!("100%"), 10),
            (json!("many"), 1),
            (json!(null), 1),
        ] {
            let rolling = json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": given}}});
            assert_eq!(Desired::of(&spec(&rolling)).unavailable, expected, "{given}");
            let scale = json!({"scaleStrategy": {"maxUnavailable": given}});
            let expected = (!given.is_null()).then_some(expected);
            assert_eq!(Desired::of(&spec(&scale)).scale_limit, expected, "{given}");
        }
    }

    #[test]
    fn a_spec_that_says_nothing_is_ordered_and_not_rolling() {
        let said = Desired::of(&spec(&json!({})));
        assert!(said.is_ordered && !is_rolling(&spec(&json!({}))));
        assert_eq!(
            (
                said.partition,
                said.unavailable,
                said.scale_limit,
                said.min_ready_seconds
            ),
            (0, 1, None, 0)
        );
        assert!(!Desired::of(&spec(&json!({"podManagementPolicy": "Parallel"}))).is_ordered);
        let strange = json!({"replicas": -3, "updateStrategy": {"rollingUpdate": {"partition": -1}}});
        let strange = Desired::of(&spec(&strange));
        assert_eq!((strange.replicas, strange.partition), (0, 0));
    }

    #[test]
    fn a_budget_is_spent_one_by_one() {
        let of = |limit: Value| {
            ScaleBudget::new(&Desired::of(&spec(
                &json!({"scaleStrategy": {"maxUnavailable": limit}}),
            )))
        };
        let mut two = of(json!(2));
        assert_eq!([two.spend(), two.spend(), two.spend()], [false, true, true]);
        let mut free = of(json!(null));
        assert!(!free.spend() && !free.is_limited());
    }
}
