//! In which steps replicas move from one workload to the other, so that never fewer are available than wanted.
//!
//! 1. Nothing is decided from a status that is older than the spec.
//! 2. The source gets fewer, as far as Pods of the destination are available in their place. A workload gives up Pods that are not ready first, so at least what it is told to keep stays available.
//! 3. The destination gets more, as long as both together are not more than wanted and the surge. Pods of the source that are there still count.
//! 4. It is done when the destination has all that it is to have, and all of these are available.

use serde_json::Value;

/// One of the two workloads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Side {
    /// Wanted.
    pub(super) replicas: i32,
    /// There, wanted or not.
    pub(super) there: i32,
    pub(super) available: i32,
    /// The status is about the spec as it is.
    pub(super) is_observed: bool,
}

impl Side {
    pub(super) fn of(object: &Value) -> Self {
        let number = |path: &str| object.pointer(path).and_then(Value::as_i64).unwrap_or_default();
        let count = |path: &str| i32::try_from(number(path)).unwrap_or(i32::MAX).max(0);
        let replicas = super::objects::replicas(object);
        Self {
            replicas,
            there: count("/status/replicas").max(replicas),
            available: count("/status/availableReplicas"),
            is_observed: number("/status/observedGeneration") >= number("/metadata/generation"),
        }
    }
}

/// What is to be at the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Goal {
    /// Replicas that the source keeps.
    pub(super) source: i32,
    /// Replicas that the destination has then.
    pub(super) destination: i32,
    /// Replicas that the destination had before.
    pub(super) before: i32,
    /// Pods that there may be more than wanted.
    pub(super) surge: i32,
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The destination wants so many.
    Raise(i32),
    /// The source wants so many.
    Lower(i32),
    Wait,
    Done,
}

pub(super) fn next(source: &Side, destination: &Side, goal: &Goal) -> Step {
    if !source.is_observed || !destination.is_observed {
        return Step::Wait;
    }
    let wanted = goal.source.saturating_add(goal.destination);
    let arrived = destination.available.min(destination.replicas);
    let needed = wanted.saturating_sub(arrived).max(goal.source);
    if needed < source.replicas {
        return Step::Lower(needed);
    }
    let room = wanted
        .saturating_add(goal.surge)
        .saturating_sub(source.there.saturating_add(destination.replicas));
    let missing = goal.destination.saturating_sub(destination.replicas);
    if room > 0 && missing > 0 {
        return Step::Raise(destination.replicas.saturating_add(room.min(missing)));
    }
    let is_done = source.replicas <= goal.source && source.there <= goal.source && arrived >= goal.destination;
    if is_done { Step::Done } else { Step::Wait }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn side(replicas: i32, there: i32, available: i32) -> Side {
        Side {
            replicas,
            there,
            available,
            is_observed: true,
        }
    }

    fn goal(source: i32, destination: i32, surge: i32) -> Goal {
        Goal {
            source,
            destination,
            before: 0,
            surge,
        }
    }

    #[test]
    fn given_both_sides_then_one_step_follows() {
        for (source, destination, surge, expected) in [
            (side(3, 3, 3), side(0, 0, 0), 1, Step::Raise(1)),
            (side(3, 3, 3), side(0, 0, 0), 9, Step::Raise(3)),
            (side(3, 3, 3), side(1, 1, 0), 1, Step::Wait),
            (side(3, 3, 3), side(1, 1, 1), 1, Step::Lower(2)),
            // One that is on its way out takes its place until it is gone.
            (side(2, 3, 3), side(1, 1, 1), 1, Step::Wait),
            (side(2, 2, 2), side(1, 1, 1), 1, Step::Raise(2)),
            // One that is available and not wanted any more does not count.
            (side(2, 2, 2), side(1, 3, 3), 1, Step::Raise(2)),
            (side(0, 1, 0), side(3, 3, 3), 1, Step::Wait),
            (side(0, 0, 0), side(3, 3, 2), 1, Step::Wait),
            (side(0, 0, 0), side(3, 3, 3), 1, Step::Done),
        ] {
            assert_eq!(
                next(&source, &destination, &goal(0, 3, surge)),
                expected,
                "{source:?} {destination:?}"
            );
        }
        let old = Side {
            is_observed: false,
            ..side(3, 3, 3)
        };
        assert_eq!(next(&old, &side(1, 1, 1), &goal(0, 3, 1)), Step::Wait);
        assert_eq!(next(&side(3, 3, 3), &old, &goal(0, 3, 1)), Step::Wait);
        let huge = i32::MAX;
        assert_eq!(
            next(&side(huge, huge, huge), &side(0, 0, 0), &goal(huge, huge, huge)),
            Step::Wait
        );
    }

    /// Two workloads whose Pods come and go one at a time, in every pace.
    #[test]
    fn given_any_pace_then_as_many_are_available_as_wanted_and_it_ends() {
        for (wanted, kept, surge, broken) in [(5, 0, 1, 0), (5, 2, 2, 0), (1, 0, 1, 0), (7, 0, 3, 2), (4, 0, 9, 0)] {
            for pace in 1..4 {
                let goal = goal(kept, wanted - kept, surge);
                let (mut source, mut destination) = (side(wanted, wanted, wanted - broken), side(0, 0, 0));
                let mut steps = 0;
                loop {
                    steps += 1;
                    assert!(steps < 200, "no end: {source:?} {destination:?}");
                    match next(&source, &destination, &goal) {
                        Step::Raise(replicas) => destination.replicas = replicas,
                        Step::Lower(replicas) => source.replicas = replicas,
                        Step::Wait => {}
                        Step::Done => break,
                    }
                    if steps % pace == 0 {
                        destination.available = (destination.available + 1).min(destination.replicas);
                        source.there = (source.there - 1).max(source.replicas);
                        source.available = source.available.min(source.there);
                    }
                    destination.there = destination.replicas;
                    // Those that are not ready go first.
                    let kept = source.available.min(source.replicas);
                    assert!(
                        kept + destination.available >= wanted - broken,
                        "{source:?} {destination:?}"
                    );
                    assert!(source.replicas + destination.replicas <= wanted + surge);
                }
                assert_eq!((source.replicas, destination.replicas), (kept, wanted - kept));
            }
        }
    }

    #[test]
    fn given_an_object_then_its_numbers_are_read() {
        let object = json!({"metadata": {"generation": 2}, "spec": {}, "status": {"observedGeneration": 1, "replicas": 3, "availableReplicas": 2}});
        let expected = Side {
            replicas: 1,
            there: 3,
            available: 2,
            is_observed: false,
        };
        assert_eq!(Side::of(&object), expected);
    }
}
