//! Whose Pods are whose.

use serde_json::{Value, json};

use super::super::fixtures::{Fixture as _, PodBuilder, observed, pod, read};
use super::{created, planned};
use crate::plan::Action;

fn orphan(ordinal: i32) -> PodBuilder {
    let mut orphan = pod(ordinal).ready();
    orphan.object()["metadata"]["ownerReferences"] = json!([]);
    orphan
}

fn owner_patches(plan: &crate::plan::Plan) -> Vec<(String, Value)> {
    let patches = plan.writes().filter_map(|action| match action {
        Action::Patch { object, patch, .. } => {
            let owners = patch.document()["metadata"].get("ownerReferences")?;
            Some((object.name.clone(), owners.clone()))
        }
        _ => None,
    });
    patches.collect()
}

#[test]
fn given_an_orphan_of_our_name_then_it_is_adopted_once_the_server_confirms_the_set() {
    let mut seen = observed(&json!({}), &[pod(0).ready()]);
    seen.orphans = vec![read(orphan(1).as_json())];
    let plan = planned(&seen);
    let [(name, owners)] = &owner_patches(&plan)[..] else {
        panic!("{plan:?}")
    };
    assert_eq!((&**name, &owners[0]["kind"]), ("web-1", &json!("StatefulSet")));
    assert_eq!(created(&plan), [""; 0], "what is adopted is counted in the next round");
    seen.is_confirmed = false;
    let plan = planned(&seen);
    assert!(plan.writes().next().is_none() && plan.wake_after.is_some(), "{plan:?}");
}

#[test]
fn given_pods_that_do_not_belong_then_they_are_released_or_left_alone() {
    let stranger = pod(1).ready().label("app", "other");
    let mut foreign = orphan(2);
    foreign.object()["metadata"]["labels"]["app"] = json!("other");
    let mut seen = observed(
        &json!({ "podManagementPolicy": "Parallel" }),
        &[pod(0).ready(), stranger],
    );
    seen.orphans = vec![read(foreign.as_json())];
    seen.names_taken = ["web-1".to_owned(), "web-2".to_owned()].into();
    let plan = planned(&seen);
    let [(name, owners)] = &owner_patches(&plan)[..] else {
        panic!("{plan:?}")
    };
    assert_eq!((&**name, &owners[0]["$patch"]), ("web-1", &json!("delete")));
    assert_eq!(created(&plan), [""; 0], "its name is taken");
}

#[test]
fn given_a_pod_that_cannot_be_read_then_nothing_is_created() {
    let mut seen = observed(&json!({ "podManagementPolicy": "Parallel" }), &[pod(0).ready()]);
    seen.unreadable = vec![read(pod(1).as_json())];
    let plan = planned(&seen);
    assert_eq!(created(&plan), [""; 0]);
    assert!(plan.wake_after.is_some());
}

#[test]
fn given_a_pod_that_does_not_tell_its_name_then_it_gets_the_label() {
    let nameless = pod(0).ready().label("statefulset.kubernetes.io/pod-name", "x");
    let plan = planned(&observed(&json!({ "replicas": 1 }), &[nameless]));
    let writes: Vec<_> = plan.writes().collect();
    let [Action::Patch { patch, .. }] = &writes[..] else {
        panic!("{writes:?}")
    };
    assert_eq!(
        patch.document()["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"],
        "web-0"
    );
    let told = plan.actions[0].chains[0].writes[0].succeeded[0].message.clone();
    assert_eq!(told, "update Pod web-0 in StatefulSet web successful");
}
