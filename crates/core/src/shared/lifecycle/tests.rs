use super::*;
use crate::shared::fixture::{Fixture as _, PodBuilder, at, running_pod};
use serde_json::json;

fn lifecycle(value: serde_json::Value) -> Lifecycle {
    serde_json::from_value(value).unwrap()
}

/// Two labels and a finalizer guard the update.
fn hook() -> Lifecycle {
    lifecycle(json!({"inPlaceUpdate": {"labelsHandler": {"a": "1", "b": "2"}, "finalizersHandler": ["x/f"]}}))
}

fn partly_hooked(pod: PodBuilder) -> PodBuilder {
    pod.label("a", "1")
}

fn fully_hooked(pod: PodBuilder) -> PodBuilder {
    pod.label("a", "1").label("b", "2").finalizer("x/f")
}

#[test]
fn anything_of_a_hook_holds_and_all_of_it_releases() {
    let hook = hook().in_place_update;
    for (pod, any, all) in [
        (running_pod("p"), false, false),
        (running_pod("p").label("a", "2"), false, false),
        (partly_hooked(running_pod("p")), true, false),
        (running_pod("p").finalizer("x/f"), true, false),
        (running_pod("p").label("a", "1").label("b", "2"), true, false),
        (fully_hooked(running_pod("p")), true, true),
    ] {
        let pod = pod.typed();
        assert_eq!(
            (is_hooked(&pod, hook.as_ref()), is_fully_hooked(&pod, hook.as_ref())),
            (any, all),
            "{:?}",
            pod.metadata
        );
    }
    let pod = running_pod("p").typed();
    let empty = LifecycleHook::default();
    assert_eq!((is_hooked(&pod, None), is_fully_hooked(&pod, None)), (false, false));
    assert_eq!(
        (is_hooked(&pod, Some(&empty)), is_fully_hooked(&pod, Some(&empty))),
        (false, true)
    );
}

#[test]
fn states_are_what_the_label_says() {
    for text in [
        "",
        "PreparingNormal",
        "Normal",
        "PreparingUpdate",
        "Updating",
        "Updated",
        "PreparingDelete",
        "Dancing",
    ] {
        assert_eq!(State::from(text).as_str(), text);
    }
    assert_eq!(state(&running_pod("p").typed()), State::None);
    assert_eq!(
        state(&running_pod("p").state("Dancing").typed()),
        State::Other("Dancing".into())
    );
    for value in ["", "true", "false"] {
        assert!(is_specified_delete(
            &running_pod("p").label("apps.kruise.io/specified-delete", value).typed()
        ));
    }
    assert!(!is_specified_delete(&running_pod("p").typed()));
}

#[test]
fn pods_go_on_by_themselves() {
    let hooked = hook();
    let none = lifecycle(json!({}));
    let pre_normal = lifecycle(json!({"preNormal": {"labelsHandler": {"a": "1", "b": "2"}}}));
    let at_old = Progress {
        at_update_revision: false,
        update_complete: false,
        waits_for_node: false,
    };
    let at_new = Progress {
        at_update_revision: true,
        ..at_old
    };
    let complete = Progress {
        update_complete: true,
        ..at_new
    };
    let waits = Progress {
        waits_for_node: true,
        ..at_new
    };
    let homeless = |pod: PodBuilder| pod.set("/spec/nodeName", json!(""));
    let pod = |state: &str| running_pod("p").state(state);
    let (normal, updated) = (Some(State::Normal), Some(State::Updated));
    for (line, pod, lifecycle, progress, expected) in [
        (1, pod("PreparingNormal"), None, at_new, normal.clone()),
        (2, homeless(pod("PreparingNormal")), None, waits, None),
        (3, homeless(pod("PreparingNormal")), None, at_new, normal.clone()),
        (4, pod("PreparingNormal"), Some(&hooked), at_new, normal.clone()),
        (
            5,
            pod("PreparingNormal").label("a", "1"),
            Some(&pre_normal),
            at_new,
            None,
        ),
        (
            6,
            homeless(pod("PreparingNormal").label("a", "1").label("b", "2")),
            Some(&pre_normal),
            waits,
            normal.clone(),
        ),
        (7, pod("Normal"), Some(&hooked), complete, None),
        (8, pod(""), None, complete, None),
        (9, pod("PreparingUpdate"), Some(&hooked), at_old, None),
        (10, pod("PreparingUpdate"), Some(&hooked), at_new, updated.clone()),
        (
            11,
            fully_hooked(pod("PreparingUpdate")),
            Some(&hooked),
            at_new,
            normal.clone(),
        ),
        (12, pod("PreparingUpdate"), None, at_new, normal.clone()),
        (13, pod("Updating"), Some(&hooked), at_new, None),
        (14, pod("Updating"), Some(&hooked), complete, updated.clone()),
        (15, partly_hooked(pod("Updating")), Some(&hooked), complete, updated),
        (
            16,
            fully_hooked(pod("Updating")),
            Some(&hooked),
            complete,
            normal.clone(),
        ),
        (17, pod("Updating"), None, complete, normal.clone()),
        (18, pod("Updating"), Some(&none), complete, Some(State::Updated)),
        (19, pod("Updated"), Some(&hooked), complete, None),
        (
            20,
            fully_hooked(pod("Updated")),
            Some(&hooked),
            complete,
            normal.clone(),
        ),
        (21, pod("Updated"), Some(&none), complete, normal.clone()),
        (22, pod("Updated"), None, at_old, normal),
        (23, pod("PreparingDelete"), Some(&hooked), complete, None),
        (24, pod("Dancing"), None, complete, None),
    ] {
        assert_eq!(next(&pod.typed(), lifecycle, progress), expected, "line {line}");
    }
}

fn held(pod: &PodBuilder, lifecycle: &Lifecycle) -> Option<PodChange> {
    match before_update(&pod.typed(), Some(lifecycle), at("10:00:00")).unwrap() {
        BeforeUpdate::Go => None,
        BeforeUpdate::Hold(change) => Some(change),
    }
}

#[test]
fn given_a_hook_then_an_update_waits_for_it_from_every_state_it_can_start_in() {
    let hook = hook();
    for from in ["", "PreparingNormal", "Normal"] {
        let change = held(&partly_hooked(running_pod("p").state(from)), &hook).unwrap();
        assert_eq!(
            change.labels["lifecycle.apps.kruise.io/state"].as_deref(),
            Some("PreparingUpdate"),
            "{from}"
        );
        assert_eq!(
            change.annotations["lifecycle.apps.kruise.io/timestamp"].as_deref(),
            Some("2024-05-01T10:00:00Z")
        );
        assert_eq!(
            (change.labels.len(), change.finalizers.len()),
            (1, 0),
            "the hook is not put on again"
        );
        assert_eq!(held(&running_pod("p").state(from), &hook), None, "{from}");
    }
    let waiting = partly_hooked(running_pod("p").state("PreparingUpdate"));
    assert_eq!(held(&waiting, &hook), Some(PodChange::default()), "it is there already");
    assert_eq!(held(&running_pod("p").state("PreparingUpdate"), &hook), None);
    assert_eq!(
        held(&partly_hooked(running_pod("p").state("Updating")), &hook),
        None,
        "it goes on at once"
    );
    for from in ["PreparingDelete", "Dancing"] {
        let error = before_update(&running_pod("p").state(from).typed(), Some(&hook), at("10:00:00")).unwrap_err();
        assert_eq!(error, UnexpectedState(from.into()));
    }
}

#[test]
fn given_an_updated_pod_then_the_whole_hook_is_put_back_before_the_next_update() {
    let change = held(&partly_hooked(running_pod("p").state("Updated")), &hook()).unwrap();
    assert_eq!(change.labels["a"].as_deref(), Some("1"));
    assert_eq!(change.labels["b"].as_deref(), Some("2"));
    assert_eq!(change.finalizers, ["x/f"]);
    assert_eq!(
        change.labels["lifecycle.apps.kruise.io/state"].as_deref(),
        Some("PreparingUpdate")
    );
    assert_eq!(held(&running_pod("p").state("Updated"), &lifecycle(json!({}))), None);
}

#[test]
fn given_a_pre_delete_hook_then_deletion_waits_and_can_be_taken_back() {
    let hook = lifecycle(json!({"preDelete": {"finalizersHandler": ["x/d"]}}));
    let marking = lifecycle(json!({"preDelete": {"finalizersHandler": ["x/d"], "markPodNotReady": true}}));
    let update_marking = lifecycle(json!({"inPlaceUpdate": {"markPodNotReady": true}}));
    let now = at("10:00:00");
    assert_eq!(before_delete(&running_pod("p").typed(), Some(&hook), now), None);
    assert_eq!(
        before_delete(&running_pod("p").finalizer("x/d").typed(), None, now),
        None
    );
    let held = before_delete(&running_pod("p").finalizer("x/d").ready().typed(), Some(&hook), now).unwrap();
    assert!(held.conditions.is_empty());
    assert_eq!(
        held.labels["lifecycle.apps.kruise.io/state"].as_deref(),
        Some("PreparingDelete")
    );
    let unready = before_delete(&running_pod("p").finalizer("x/d").ready().typed(), Some(&marking), now).unwrap();
    assert_eq!(
        unready.conditions["KruisePodReady"].message.as_deref(),
        Some(r#"[{"userAgent":"Lifecycle","key":"preDeleteHook"}]"#)
    );
    assert!(!unready.conditions["Ready"].holds);

    let waiting = running_pod("p").state("PreparingDelete").finalizer("x/d");
    assert_eq!(
        before_delete(&waiting.typed(), Some(&hook), now),
        Some(PodChange::default())
    );
    let back = cancel_preparing_delete(&waiting.typed(), Some(&hook), now).unwrap();
    assert_eq!(
        back.labels["lifecycle.apps.kruise.io/state"].as_deref(),
        Some("PreparingNormal")
    );
    assert!(cancel_preparing_delete(&waiting.typed(), None, now).is_some());
    for cannot in [&marking, &update_marking] {
        assert_eq!(cancel_preparing_delete(&waiting.typed(), Some(cannot), now), None);
    }
    let named = waiting.label("apps.kruise.io/specified-delete", "");
    assert_eq!(cancel_preparing_delete(&named.typed(), Some(&hook), now), None);
    assert_eq!(
        cancel_preparing_delete(&running_pod("p").state("Normal").typed(), Some(&hook), now),
        None
    );
}

#[test]
fn given_a_hook_that_makes_pods_not_ready_then_it_holds_and_lets_go_with_the_states() {
    let marking = lifecycle(json!({"inPlaceUpdate": {"labelsHandler": {"a": "1"}, "markPodNotReady": true}}));
    let now = at("10:00:00");
    let hold = |pod: &PodBuilder, to: &State| {
        enter(&pod.typed(), to, Some(&marking), now)
            .conditions
            .contains_key("KruisePodReady")
    };
    let ready = running_pod("p").state("Normal").ready();
    assert!(hold(&ready, &State::PreparingUpdate));
    assert!(!hold(&ready, &State::Updating) && !hold(&ready, &State::PreparingDelete) && !hold(&ready, &State::Normal));
    let message = r#"[{"userAgent":"Lifecycle","key":"preUpdateHook"}]"#;
    let waiting = running_pod("p").state("PreparingUpdate").set(
        "/status/conditions",
        json!([{"type": "KruisePodReady", "status": "False", "message": message}]),
    );
    assert!(
        enter(&waiting.typed(), &State::PreparingUpdate, Some(&marking), now).is_empty(),
        "held already"
    );
    for to in [State::Updated, State::Normal] {
        let change = enter(&waiting.typed(), &to, Some(&marking), now);
        assert!(change.conditions["KruisePodReady"].holds, "{to:?}");
        assert_eq!(change.conditions["KruisePodReady"].message.as_deref(), Some("[]"));
        assert!(!change.conditions.contains_key("Ready"), "that is for kubelet to say");
    }
    // The mark was switched on while the Pod was waiting already.
    let unmarked = running_pod("p").state("PreparingUpdate").label("a", "1").ready();
    let change = held(&unmarked, &marking).unwrap();
    assert!(change.labels.is_empty() && change.conditions.contains_key("KruisePodReady"));
    // A Pod without the gate cannot be held.
    let gateless = ready.set("/spec/readinessGates", json!([]));
    assert!(!hold(&gateless, &State::PreparingUpdate));
}
