use super::*;
use crate::shared::fixture::{PodBuilder, a_pod};

fn starting(pod: PodBuilder, waiting: &[&str]) -> PodBuilder {
    waiting.iter().fold(pod, |pod, name| pod.status(name, "ready", false))
}

fn pod() -> PodBuilder {
    a_pod("web-0")
        .prioritised("one", "x", 0)
        .prioritised("two", "x", -1)
        .prioritised("three", "x", -2)
        .container("free", "x")
}

fn keys(keys: &[&str]) -> BTreeSet<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

#[test]
fn given_an_order_then_the_keys_come_one_after_the_other_and_the_pod_is_annotated_at_the_end() {
    let all = starting(pod(), &["one", "two", "three", "free"]);
    let first = release(&all.build(), None);
    assert_eq!(
        first.create,
        Some(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "web-0-barrier", "namespace": "ns",
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "u-1"}]},
            "data": {"p_0": "true"},
        }))
    );
    assert_eq!((first.patch, first.complete), (None, None));
    assert_eq!(
        release(&all.build(), Some(&keys(&["p_0"]))),
        Release::default(),
        "one is on its way"
    );
    let empty = release(&all.build(), Some(&keys(&[])));
    assert_eq!(
        (empty.create, empty.patch),
        (None, Some(json!({"data": {"p_0": "true"}})))
    );

    let second = release(&starting(pod(), &["two", "three"]).build(), Some(&keys(&["p_0"])));
    assert_eq!(
        (second.patch, second.complete),
        (Some(json!({"data": {"p_-1": "true"}})), None)
    );
    let last = release(&starting(pod(), &["three"]).build(), Some(&keys(&["p_0", "p_-1"])));
    assert_eq!(last.patch, Some(json!({"data": {"p_-2": "true"}})));
    let completed = last.complete.unwrap();
    assert_eq!(
        completed.body,
        json!({"metadata": {"uid": "u-1", "annotations": {"apps.kruise.io/container-launch-priority-completed": "true"}}})
    );
    let done = starting(pod(), &["three"]).patched(&[completed]);
    assert_eq!(
        release(&done.build(), Some(&keys(&["p_0", "p_-1", "p_-2"]))),
        Release::default()
    );
}

#[test]
fn given_a_crash_between_the_last_key_and_the_annotation_then_it_is_annotated_later() {
    let last = starting(pod(), &["three"]);
    let found = release(&last.build(), Some(&keys(&["p_0", "p_-1", "p_-2"])));
    assert_eq!((found.patch, found.complete.is_some()), (None, true));
}

#[test]
fn given_equal_priorities_then_they_start_together() {
    let both = starting(
        a_pod("p").prioritised("a", "x", 5).prioritised("b", "x", 5),
        &["a", "b"],
    );
    let found = release(&both.build(), Some(&keys(&[])));
    assert_eq!(
        (found.patch, found.complete.is_some()),
        (Some(json!({"data": {"p_5": "true"}})), true)
    );
}

#[test]
fn given_nothing_waits_then_nothing_is_written() {
    for pod in [
        pod(),
        a_pod("p").container("a", "x").status("a", "ready", false),
        starting(pod(), &["one"]).condition("ContainersReady", "True"),
        starting(pod(), &["one"]).with("/metadata/deletionTimestamp", json!("2024-05-01T10:00:00Z")),
    ] {
        assert_eq!(release(&pod.build(), None), Release::default());
    }
    // A container without a status has not started either.
    let unknown = pod().with("/status/containerStatuses", json!([]));
    assert!(release(&unknown.build(), None).create.is_some());
}
