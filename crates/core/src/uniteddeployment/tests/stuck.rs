//! StatefulSets of Kubernetes that wait for a Pod which will never be ready.

use kruise_api::kind::Kind as _;
use kruise_api::names::label;
use kruise_api::pod::Pod;
use serde_json::json;

use super::super::WorkloadKind;
use super::super::world::{World, spec};
use super::name;
use crate::plan::Action;

const KIND: WorkloadKind = WorkloadKind::StatefulSet;

/// An old Pod that does not come up.
fn break_pod(world: &mut World, pod: &str) {
    world.cluster.edit(Pod::RESOURCE, pod, |pod| {
        pod["status"] = json!({"phase": "Pending"});
        pod["metadata"]["labels"][label::SUBSET_REVISION] = json!("web-old");
    });
}

fn deleted(world: &World) -> Vec<String> {
    let plan = world.plan();
    let deletions = plan.writes().filter(|write| matches!(write, Action::Delete { .. }));
    deletions.map(|write| write.object().name.clone()).collect()
}

fn partition(world: &mut World, count: i32) {
    world.change(|spec| spec["updateStrategy"] = json!({"manualUpdate": {"partitions": {"a": count}}}));
    world.round(usize::MAX);
}

#[test]
fn given_a_broken_pod_when_the_template_is_mended_then_it_is_deleted() {
    let mut world = World::with(&spec(KIND, 3, &json!([{"name": "a"}])));
    world.rest();
    let pods = world.pods_in("a");
    let [first, _, last] = &pods[..] else {
        panic!("{pods:?}")
    };
    break_pod(&mut world, name(last));
    assert_eq!(deleted(&world), [name(last)]);
    // Not below the partition, and not when users replace Pods themselves.
    break_pod(&mut world, name(first));
    partition(&mut world, 3);
    assert!(deleted(&world).is_empty());
    world.change(|spec| {
        spec["updateStrategy"] = json!({});
        spec["template"][KIND.field()]["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    });
    world.round(usize::MAX);
    assert!(deleted(&world).is_empty());
    assert_eq!(world.children(KIND)["a"]["spec"]["updateStrategy"]["type"], "OnDelete");
}

#[test]
fn given_ordinals_that_do_not_begin_with_zero_then_the_partition_counts_from_the_first() {
    // As if there were a Pod less in front: the last one has the second place.
    for (kept, expected) in [(2, 0), (1, 1)] {
        let mut given = spec(KIND, 3, &json!([{"name": "a"}]));
        given["template"][KIND.field()]["spec"]["ordinals"] = json!({"start": 1});
        given["updateStrategy"] = json!({"manualUpdate": {"partitions": {"a": kept}}});
        let mut world = World::with(&given);
        world.rest();
        let pods = world.pods_in("a");
        let last = name(pods.last().unwrap());
        assert!(last.ends_with("-2"), "{last}");
        break_pod(&mut world, last);
        assert_eq!(deleted(&world).len(), expected, "{kept} are kept");
    }
}
