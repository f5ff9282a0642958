use super::*;
use crate::shared::fixture::{Fixture as _, PodBuilder, PodFixture as _, at, running_pod};
use proptest::prelude::*;
use serde_json::json;

fn kruise_ready(status: &str, message: &str) -> PodBuilder {
    running_pod("p").set(
        "/status/conditions",
        json!([
            {"type": "KruisePodReady", "status": status, "message": message},
            {"type": "InPlaceUpdateReady", "status": "True"},
            {"type": "ContainersReady", "status": "True"},
            {"type": "Ready", "status": if status == "True" { "True" } else { "False" }},
        ]),
    )
}

const HOOK: &str = r#"[{"userAgent":"Lifecycle","key":"preUpdateHook"}]"#;
const BOTH: &str =
    r#"[{"userAgent":"ContainerRecreateRequest","key":"ns/crr"},{"userAgent":"Lifecycle","key":"preUpdateHook"}]"#;

fn hook() -> Writer {
    Writer::lifecycle("preUpdateHook")
}

fn recreate() -> Writer {
    Writer::container_recreate("ns", "crr")
}

#[test]
fn given_several_writers_then_the_pod_is_ready_again_only_after_the_last_let_go() {
    let now = at("10:00:00");
    let listing = |change: &PodChange| {
        let condition = &change.conditions["KruisePodReady"];
        (condition.holds, condition.message.clone().unwrap())
    };
    let first = hold(&kruise_ready("True", "").typed(), hook(), now);
    assert_eq!(listing(&first), (false, HOOK.to_owned()));
    assert_eq!(
        first.conditions["Ready"].message.as_deref(),
        Some("the status of pod readiness gate \"KruisePodReady\" is not \"True\", but False")
    );
    let second = hold(&kruise_ready("False", HOOK).typed(), recreate(), now);
    assert_eq!(listing(&second), (false, BOTH.to_owned()), "sorted by writer");
    assert!(!second.conditions.contains_key("Ready"), "it is not ready already");
    assert!(hold(&kruise_ready("False", BOTH).typed(), hook(), now).is_empty());
    assert_eq!(
        listing(&hold(&kruise_ready("True", HOOK).typed(), hook(), now)),
        (false, HOOK.to_owned()),
        "listed, but true"
    );

    let released = release(&kruise_ready("False", BOTH).typed(), &recreate(), now);
    assert_eq!(listing(&released), (false, HOOK.to_owned()));
    let last = release(&kruise_ready("False", HOOK).typed(), &hook(), now);
    assert_eq!(listing(&last), (true, "[]".to_owned()));
    assert!(!last.conditions.contains_key("Ready"));
}

#[test]
fn given_nothing_to_hold_or_release_then_nothing_is_written() {
    let now = at("10:00:00");
    let gateless = kruise_ready("True", "").set("/spec/readinessGates", json!([{"conditionType": "Other"}]));
    assert!(hold(&gateless.typed(), hook(), now).is_empty());
    assert!(
        release(
            &kruise_ready("False", HOOK)
                .set("/spec/readinessGates", json!([]))
                .typed(),
            &hook(),
            now
        )
        .is_empty()
    );
    assert!(release(&kruise_ready("True", "[]").typed(), &hook(), now).is_empty());
    assert!(release(&kruise_ready("False", "nonsense").typed(), &hook(), now).is_empty());
    assert!(release(&running_pod("p").typed(), &hook(), now).is_empty());
    // A condition that is missing is made, and it says False, not nothing.
    assert!(!hold(&running_pod("p").typed(), hook(), now).conditions["KruisePodReady"].holds);
}

#[test]
fn given_a_new_pod_then_it_gets_the_condition_once() {
    let now = at("10:00:00");
    let change = first(&running_pod("p").typed(), now);
    assert_eq!(
        change.conditions["KruisePodReady"],
        NewCondition {
            holds: true,
            reason: None,
            message: None,
            since: Some(now)
        }
    );
    assert!(first(&kruise_ready("False", "").typed(), now).is_empty());
    assert!(first(&running_pod("p").set("/spec/readinessGates", json!([])).typed(), now).is_empty());
    assert!(
        first(
            &running_pod("p")
                .set("/metadata/deletionTimestamp", json!("2024-05-01T10:00:00Z"))
                .typed(),
            now
        )
        .is_empty()
    );
}

#[test]
fn ready_is_computed_as_kubelet_does() {
    let pod = |conditions: &[(&str, &str)]| {
        conditions
            .iter()
            .fold(running_pod("p"), |pod, (type_, status)| pod.condition(type_, status))
            .typed()
    };
    let missing = "corresponding condition of pod readiness gate \"KruisePodReady\" does not exist.";
    let not_true = "the status of pod readiness gate \"InPlaceUpdateReady\" is not \"True\", but False";
    for (conditions, expected) in [
        (
            vec![("Ready", "True"), ("ContainersReady", "True")],
            Some(Some(format!("{not_true}, {missing}"))),
        ),
        (
            vec![
                ("Ready", "True"),
                ("ContainersReady", "True"),
                ("KruisePodReady", "True"),
            ],
            Some(Some(not_true.to_owned())),
        ),
        (vec![("Ready", "False"), ("ContainersReady", "True")], None),
        (vec![("Ready", "True"), ("ContainersReady", "False")], None),
        (vec![("Ready", "True")], None),
        (vec![("ContainersReady", "True")], None),
    ] {
        let found = ready_with(&pod(&conditions), &[("InPlaceUpdateReady", false)]);
        assert_eq!(found.map(|ready| ready.message), expected, "{conditions:?}");
    }
    let all = pod(&[
        ("Ready", "False"),
        ("ContainersReady", "True"),
        ("KruisePodReady", "True"),
    ]);
    let ready = ready_with(&all, &[("InPlaceUpdateReady", true)]).unwrap();
    assert_eq!((ready.holds, ready.reason, ready.since), (true, None, None));
}

proptest! {
    #[test]
    fn given_any_message_then_holding_and_releasing_brings_back_who_was_there(message in "[ -~]{0,30}|\\[\\{\"userAgent\":\"a\",\"key\":\"b\"\\}\\]") {
        let pod = kruise_ready("False", &message);
        let before = writers(&pod.typed());
        let held = hold(&pod.typed(), hook(), at("10:00:00"));
        let requests = held.requests(&pod.typed(), crate::shared::pod_change::Guard::Version, true);
        let pod = pod.patched(&requests);
        prop_assert!(writers(&pod.typed()).contains(&hook()));
        let released = release(&pod.typed(), &hook(), at("10:00:00"));
        let requests = released.requests(&pod.typed(), crate::shared::pod_change::Guard::Version, true);
        prop_assert_eq!(writers(&pod.patched(&requests).typed()), before);
    }
}
