use kruise_api::cloneset::v1beta1::UpdateStrategy;
use serde_json::json;

use super::*;

fn spec(replicas: i32, rolling: &serde_json::Value) -> CloneSetSpec {
    let strategy: UpdateStrategy = serde_json::from_value(json!({ "rollingUpdate": rolling })).unwrap();
    CloneSetSpec {
        replicas: Some(replicas),
        update_strategy: strategy,
        ..CloneSetSpec::default()
    }
}

fn desired(replicas: i32, rolling: &serde_json::Value) -> Desired {
    Desired::of(&spec(replicas, rolling))
}

#[test]
fn partitions_are_rounded_up_and_leave_one_pod_to_update_below_100_percent() {
    let table = [
        (json!(0), 10, 0),
        (json!(3), 10, 3),
        (json!(12), 10, 10),
        (json!(-1), 10, 0),
        (json!("50%"), 5, 3),
        (json!("99%"), 3, 2),
        (json!("100%"), 3, 3),
        (json!("100.0%"), 3, 2),
        (json!("150%"), 3, 3),
        (json!("200%"), 3, 3),
        (json!("200%"), 1, 1),
        (json!("1%"), 1, 1),
        (json!("33.3%"), 3, 1),
        (json!("-10%"), 10, 0),
        (json!("5"), 10, 0),
        (json!("x"), 10, 0),
        (json!(1), 0, 0),
    ];
    for (value, replicas, kept) in table {
        let partitioned = desired(replicas, &json!({ "partition": value }));
        assert_eq!(partitioned.partition, kept, "{value} of {replicas}");
    }
}

#[test]
fn surge_and_unavailable_are_rounded_as_users_know_it() {
    // replicas, rolling update, surge, unavailable
    let table = [
        (10, json!({}), 0, 2),
        (4, json!({}), 0, 1),
        (4, json!({ "maxSurge": 1 }), 1, 0),
        (4, json!({ "maxSurge": 1, "paused": true }), 0, 1),
        (10, json!({ "maxSurge": "15%", "maxUnavailable": "15%" }), 2, 1),
        (10, json!({ "maxUnavailable": "33.3%" }), 0, 4),
        (10, json!({ "maxUnavailable": "33" }), 0, 4),
        (10, json!({ "maxUnavailable": "many", "maxSurge": "many" }), 0, 0),
        (10, json!({ "maxUnavailable": -3, "maxSurge": -1 }), 0, 0),
        (10, json!({ "maxUnavailable": 3, "maxSurge": 0 }), 0, 3),
    ];
    for (replicas, rolling, surge, unavailable) in table {
        let desired = desired(replicas, &rolling);
        assert_eq!(
            (desired.surge, desired.unavailable),
            (surge, unavailable),
            "{rolling} of {replicas}"
        );
    }
    let on_delete = Desired::of(&CloneSetSpec {
        replicas: Some(9),
        ..CloneSetSpec::default()
    });
    assert_eq!((on_delete.partition, on_delete.surge, on_delete.unavailable), (0, 0, 1));
    assert_eq!(Desired::of(&CloneSetSpec::default()).replicas, 1);
    assert_eq!(Desired::of(&spec(-5, &json!({}))).replicas, 0);
}

#[test]
fn the_scale_limit_is_rounded_up_and_absent_when_not_given() {
    let limit = |value: serde_json::Value| {
        let strategy = serde_json::from_value(json!({ "maxUnavailable": value })).unwrap();
        Desired::of(&CloneSetSpec {
            scale_strategy: strategy,
            ..spec(10, &json!({}))
        })
        .scale_limit
    };
    assert_eq!(limit(json!(null)), None);
    assert_eq!(limit(json!(2)), Some(2));
    assert_eq!(limit(json!("15%")), Some(2));
    assert_eq!(limit(json!("nonsense")), Some(0));
}

#[test]
fn the_status_says_how_many_should_be_updated() {
    let table = [
        (json!({}), 10),
        (json!({ "partition": 3 }), 7),
        (json!({ "partition": "99%" }), 1),
        (json!({ "partition": 20 }), 0),
        (json!({ "partition": "x" }), 0),
    ];
    for (rolling, updated) in table {
        assert_eq!(expected_updated(&spec(10, &rolling)), updated, "{rolling}");
    }
    assert_eq!(
        expected_updated(&CloneSetSpec {
            replicas: Some(4),
            ..CloneSetSpec::default()
        }),
        4
    );
}

fn pods(active: i64, specified_delete: i64, unavailable: i64, preparing_delete: i64) -> RevisionCounts {
    RevisionCounts {
        active,
        specified_delete,
        unavailable,
        preparing_delete,
    }
}

const FORWARD: CountOptions = CountOptions {
    may_roll_back: false,
    exclude_preparing_delete: false,
};

fn diff(desired: Desired, old: RevisionCounts, new: RevisionCounts) -> Diff {
    Diff::of(&desired, &PodCounts { new, old }, FORWARD)
}

/// Rows of the table of worked numbers; 10 replicas unless said.
#[test]
fn given_ten_old_pods_and_no_surge_then_two_are_updated_at_a_time() {
    let diff = diff(desired(10, &json!({})), pods(10, 0, 0, 0), pods(0, 0, 0, 0));
    assert_eq!((diff.update, diff.update_unavailable), (10, 2));
    assert_eq!((diff.missing, diff.surplus), (0, 0));
}

#[test]
fn given_surge_then_the_additional_pods_come_first() {
    let surge = desired(10, &json!({ "maxSurge": 2, "maxUnavailable": 0 }));
    let start = diff(surge, pods(10, 0, 0, 0), pods(0, 0, 0, 0));
    assert_eq!((start.create, start.missing_old, start.update_unavailable), (2, 0, 0));
    let unready = diff(surge, pods(10, 0, 0, 0), pods(2, 0, 2, 0));
    assert_eq!(
        (unready.missing, unready.surplus, unready.update_unavailable),
        (0, 0, 2)
    );
    let done = diff(surge, pods(2, 0, 0, 0), pods(10, 0, 0, 0));
    assert_eq!(
        (done.update, done.surplus, done.surplus_old, done.delete_ready),
        (0, 2, 2, 2)
    );
}

#[test]
fn given_recreation_with_surge_then_as_many_go_as_stand_in() {
    let surge = desired(10, &json!({ "maxSurge": 2, "maxUnavailable": 0 }));
    let labelled = diff(surge, pods(10, 2, 0, 0), pods(2, 0, 0, 0));
    assert_eq!((labelled.delete_ready, labelled.missing), (2, 0));
    let gone = diff(surge, pods(8, 0, 0, 0), pods(2, 0, 0, 0));
    assert_eq!(gone.create, 2);
}

#[test]
fn given_recreation_without_surge_then_the_budget_limits_deletions() {
    let budget = desired(10, &json!({ "maxUnavailable": 2 }));
    assert_eq!(diff(budget, pods(10, 2, 0, 0), pods(0, 0, 0, 0)).delete_ready, 2);
    assert_eq!(diff(budget, pods(8, 0, 0, 0), pods(0, 0, 0, 0)).create, 2);
}

#[test]
fn given_a_partition_then_the_rest_is_updated() {
    let eight = desired(10, &json!({ "partition": 8 }));
    assert_eq!(diff(eight, pods(10, 0, 0, 0), pods(0, 0, 0, 0)).update, 2);
    let all = desired(10, &json!({ "partition": 10, "maxSurge": 2 }));
    let nothing = diff(all, pods(10, 0, 0, 0), pods(0, 0, 0, 0));
    assert_eq!((nothing.update, nothing.missing), (0, 0));
}

#[test]
fn given_the_partition_is_raised_then_pods_go_back_only_with_the_gate() {
    let raised = desired(10, &json!({ "partition": 6 }));
    let counts = PodCounts {
        old: pods(2, 0, 0, 0),
        new: pods(8, 0, 0, 0),
    };
    assert_eq!(Diff::of(&raised, &counts, FORWARD).update, 0);
    let back = CountOptions {
        may_roll_back: true,
        ..FORWARD
    };
    assert_eq!(Diff::of(&raised, &counts, back).update, -4);
}

#[test]
fn given_scaling_during_a_rollout_then_both_revisions_keep_their_share() {
    let out = diff(
        desired(12, &json!({ "partition": "50%" })),
        pods(5, 0, 0, 0),
        pods(5, 0, 0, 0),
    );
    assert_eq!((out.create, out.missing_old), (2, 1));
    let back = diff(
        desired(6, &json!({ "partition": 3 })),
        pods(5, 0, 0, 0),
        pods(5, 0, 0, 0),
    );
    assert_eq!((back.surplus, back.surplus_old), (4, 2));
}

#[test]
fn given_too_many_pods_then_ready_ones_go_within_the_budget() {
    let three = desired(3, &json!({ "maxUnavailable": 1 }));
    let ready = diff(three, pods(0, 0, 0, 0), pods(5, 0, 0, 0));
    assert_eq!((ready.delete_ready, ready.surplus), (3, 2));
    let unready = diff(three, pods(0, 0, 0, 0), pods(5, 0, 2, 0));
    assert_eq!((unready.delete_ready, unready.surplus), (1, 2));
}

#[test]
fn given_pods_specified_for_deletion_and_surge_then_a_stand_in_comes_first() {
    let five = desired(5, &json!({ "maxUnavailable": 1, "maxSurge": 1 }));
    let start = diff(five, pods(0, 0, 0, 0), pods(5, 3, 0, 0));
    assert_eq!(start.create, 1);
    let stood_in = diff(five, pods(0, 0, 0, 0), pods(6, 3, 1, 0));
    assert_eq!((stood_in.missing, stood_in.delete_ready), (0, 1));
}

#[test]
fn given_a_pod_that_prepares_its_deletion_then_it_is_replaced_at_once_only_when_it_does_not_count() {
    let five = desired(5, &json!({}));
    let counts = PodCounts {
        old: pods(0, 0, 0, 0),
        new: pods(4, 0, 0, 1),
    };
    assert_eq!(Diff::of(&five, &counts, FORWARD).missing, 0);
    let excluding = CountOptions {
        exclude_preparing_delete: true,
        ..FORWARD
    };
    assert_eq!(Diff::of(&five, &counts, excluding).create, 1);
}

#[test]
fn given_a_scale_limit_then_only_so_many_are_created() {
    let limited = Desired {
        scale_limit: Some(2),
        ..desired(10, &json!({}))
    };
    let start = diff(limited, pods(0, 0, 0, 0), pods(5, 0, 0, 0));
    assert_eq!((start.missing, start.create), (5, 2));
    let full = diff(limited, pods(0, 0, 0, 0), pods(7, 0, 2, 0));
    assert_eq!((full.missing, full.create), (3, 0));
}

#[test]
fn pods_specified_for_deletion_do_not_count_as_unavailable_but_those_that_prepare_it_do() {
    let desired = desired(10, &json!({ "maxUnavailable": 3 }));
    let diff = diff(desired, pods(0, 0, 0, 0), pods(9, 2, 0, 1));
    assert_eq!(diff.delete_ready, 2);
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    fn any_pods() -> impl Strategy<Value = RevisionCounts> {
        (0..20_i64, 0..20_i64, 0..20_i64, 0..5_i64).prop_map(
            |(active, specified_delete, unavailable, preparing_delete)| {
                let specified_delete = specified_delete.min(active);
                let unavailable = unavailable.min(active - specified_delete);
                RevisionCounts {
                    active,
                    specified_delete,
                    unavailable,
                    preparing_delete,
                }
            },
        )
    }

    fn any_desired() -> impl Strategy<Value = Desired> {
        let limit = proptest::option::of(0..20_i64);
        (0..20_i64, 0..20_i64, 0..5_i64, 0..10_i64, limit).prop_map(
            |(replicas, partition, surge, unavailable, scale_limit)| Desired {
                replicas,
                partition: partition.min(replicas),
                surge,
                unavailable,
                scale_limit,
            },
        )
    }

    proptest! {
        #[test]
        fn numbers_stay_within_what_the_user_allows(
            desired in any_desired(), old in any_pods(), new in any_pods(), back: bool, exclude: bool,
        ) {
            let counts = PodCounts { new, old };
            let options = CountOptions { may_roll_back: back, exclude_preparing_delete: exclude };
            let diff = Diff::of(&desired, &counts, options);
            let counted = counts.total() - if exclude { counts.preparing_delete() } else { 0 };

            prop_assert!(diff.missing == 0 || diff.surplus == 0, "{diff:?}");
            prop_assert!(counted + diff.create <= counted.max(desired.replicas + desired.surge));
            prop_assert!(diff.create <= diff.missing);
            if let Some(limit) = desired.scale_limit {
                prop_assert!(diff.create <= (limit - counts.unavailable()).max(0));
            }
            prop_assert!(counted - counts.specified_delete() - diff.surplus >= desired.replicas.min(counted - counts.specified_delete()));
            prop_assert!(diff.update <= old.active && -diff.update <= new.active);
            prop_assert!(back || diff.update >= 0);
        }
    }
}
