//! What a change would come to, beside what it comes to in the model cluster.

use super::*;
use crate::rehearsal::{Proposal as _, Rehearsal, SubsetChange, SubsetShare};

/// Rehearses what was changed, lets it happen, and sees that it comes to the same.
fn played(world: &mut World, kind: WorkloadKind) -> Rehearsal {
    let rehearsal = world.observed().rehearse(&world.env());
    world.rest();
    let told: Vec<i64> = rehearsal
        .subsets
        .iter()
        .filter_map(|change| Some(change.after?.replicas.into()))
        .collect();
    assert_eq!(told, world.replicas(kind), "{rehearsal:#?}");
    rehearsal
}

fn share(replicas: i32, kind: WorkloadKind) -> SubsetShare {
    let partition = kind.has_partition().then_some(0);
    SubsetShare { replicas, partition }
}

#[test]
fn given_a_new_object_then_every_subset_gets_a_workload() {
    for kind in KINDS {
        let mut world = World::with(&spec(kind, 5, &abc()));
        let rehearsal = played(&mut world, kind);
        let expected = [("a", 1), ("b", 2), ("c", 2)].map(|(subset, replicas)| SubsetChange {
            subset: subset.to_owned(),
            after: Some(share(replicas, kind)),
            ..SubsetChange::default()
        });
        assert_eq!(rehearsal.subsets, expected, "{kind:?}");
    }
}

#[test]
fn given_other_replicas_a_new_image_and_a_subset_less_then_each_says_what_changes() {
    for kind in KINDS {
        let mut world = World::with(&spec(kind, 3, &abc()));
        world.rest();
        world.change(|spec| {
            spec["replicas"] = json!(4);
            spec["topology"]["subsets"] = json!([{"name": "a"}, {"name": "b"}]);
        });
        world.set_image(kind, "nginx:2");
        let rehearsal = played(&mut world, kind);
        let kept = ["a", "b"].map(|subset| SubsetChange {
            subset: subset.to_owned(),
            before: Some(share(1, kind)),
            after: Some(share(2, kind)),
            template_changes: true,
        });
        let gone = SubsetChange {
            subset: "c".to_owned(),
            before: Some(share(1, kind)),
            ..SubsetChange::default()
        };
        assert_eq!(rehearsal.subsets, [&kept[..], &[gone]].concat(), "{kind:?}");
    }
}

#[test]
fn given_replicas_that_cannot_be_divided_then_there_is_only_the_reason() {
    let subsets = json!([{"name": "a", "replicas": 1}, {"name": "b", "replicas": 1}]);
    let mut world = World::with(&spec(WorkloadKind::CloneSet, 2, &subsets));
    world.rest();
    world.change(|spec| spec["replicas"] = json!(5));
    let rehearsal = world.observed().rehearse(&world.env());
    assert!(rehearsal.subsets.is_empty(), "{rehearsal:#?}");
    let is_told = |why: &Why| matches!(why, Why::Subsets(crate::plan::why::Subsets::Indivisible { .. }));
    assert!(rehearsal.at_last.iter().any(is_told), "{rehearsal:#?}");
}
