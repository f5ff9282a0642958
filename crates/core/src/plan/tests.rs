use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;
use serde_json::json;

use super::*;

fn pod(name: &str) -> Pod {
    let pod = json!({ "metadata": { "name": name, "namespace": "shop" } });
    serde_json::from_value(pod).unwrap()
}

fn target(name: &str) -> Target {
    Target::new(Pod::RESOURCE, "shop", name)
}

#[test]
fn given_a_common_part_and_an_own_one_then_the_object_has_both() {
    let common = Arc::new(json!({ "kind": "Pod", "metadata": { "labels": { "a": "1" } }, "spec": { "volumes": [1] } }));
    let body = Body::new(
        common.clone(),
        json!({ "metadata": { "name": "x", "labels": { "b": "2" } } }),
    );
    let whole = json!({
        "kind": "Pod", "metadata": { "name": "x", "labels": { "a": "1", "b": "2" } }, "spec": { "volumes": [1] }
    });
    assert_eq!(body.json(), whole);
    assert_eq!(serde_json::to_value(&body).unwrap(), whole);
    let without = Body::new(
        common,
        json!({ "metadata": { "labels": null }, "spec": { "volumes": [] } }),
    );
    assert_eq!(
        without.json(),
        json!({ "kind": "Pod", "metadata": {}, "spec": { "volumes": [] } })
    );
}

#[test]
fn a_plan_is_readable_as_json() {
    let mut plan = Plan::default();
    let mut step = Step::new(Phase::Scale, Pace::SlowStart, OnFailure::Stop);
    step.push(Chain::default());
    plan.push(step.clone());
    assert!(plan.is_idle(), "a step without chains is none: {plan:?}");

    let create = Write::from(Action::create(target("web-a"), json!({ "kind": "Pod" })));
    step.push(Chain::of(create.then(Event::normal("Done", "it is done"))));
    plan.push(step);
    plan.wake(Duration::from_secs(30));
    plan.wake(Duration::from_mins(1));
    plan.because(why::Rollout::Partition { keeps: 2 });
    assert_eq!(
        serde_json::to_value(&plan).unwrap(),
        json!({
            "actions": [{
                "phase": "scale", "pace": "slowStart", "onFailure": "stop",
                "chains": [{ "writes": [{
                    "action": { "verb": "create", "kind": "Pod", "namespace": "shop", "name": "web-a", "body": { "kind": "Pod" } },
                    "succeeded": [{ "type": "Normal", "reason": "Done", "message": "it is done" }]
                }] }]
            }],
            "wakeAfter": "30s",
            "why": [{ "reason": "partition", "keeps": 2 }]
        })
    );
}

#[test]
fn ids_follow_from_the_seed_and_only_from_it() {
    let ids = |seed| {
        let mut source = IdSource::seeded(seed);
        [source.next_id(), source.next_id(), source.next_id()]
    };
    assert_eq!(ids(7), ids(7));
    assert_ne!(ids(7), ids(8));
    for id in ids(7) {
        assert!(
            id.len() == 5 && id.bytes().all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte)),
            "{id}"
        );
    }
}

#[test]
fn reasons_are_sentences() {
    let names: Vec<String> = (0..13).map(|number| format!("p{number}")).collect();
    let many: PodNames = names.iter().map(String::as_str).collect();
    assert_eq!((many.count(), many.more), (13, 3));
    let until: Timestamp = "2024-05-01T10:00:10Z".parse().unwrap();
    let one: PodNames = ["web-a"].into_iter().collect();
    let sentences = [
        (
            Why::Pods(why::Pods::HookWaiting {
                hook: Hook::PreDelete,
                pods: many,
            }),
            "Waiting for the preDelete hook, whose labels or finalizers have to be removed before the deletion: \
             p0, p1, p2, p3, p4, p5, p6, p7, p8, p9 and 3 more.",
        ),
        (
            Why::Rollout(why::Rollout::Partition { keeps: 1 }),
            "The partition keeps 1 Pod at the old revision.",
        ),
        (
            Why::Pods(why::Pods::InGrace { pods: one, until }),
            "In the grace period, the first until 2024-05-01T10:00:10Z: web-a.",
        ),
        (
            Why::Rollout(why::Rollout::UpdateBudget {
                allowed: 1,
                unavailable: 1,
                waiting: 3,
            }),
            "Still to be updated: 3 Pods; unavailable now: 1, allowed: 1.",
        ),
    ];
    for (why, sentence) in sentences {
        assert_eq!(why.to_string(), sentence);
    }
}

#[test]
fn an_object_that_changed_or_is_gone_is_no_failure_and_a_name_that_is_taken_is_one() {
    let failure = |phase, class| Failure {
        phase,
        object: target("web-a"),
        class,
        message: format!("{class:?}"),
    };
    let outcome = Outcome {
        failures: vec![
            failure(Phase::Scale, FailureClass::Conflict),
            failure(Phase::Scale, FailureClass::Exists),
            failure(Phase::Update, FailureClass::Gone),
            failure(Phase::Scale, FailureClass::Denied),
        ],
        ..Outcome::default()
    };
    assert_eq!(outcome.first(Phase::Scale).unwrap().message, "Exists");
    assert_eq!(outcome.first(Phase::Update), None);
}

#[test]
fn an_object_is_left_alone_for_longer_after_each_failure_and_then_forgotten() {
    let start: Timestamp = "2024-05-01T10:00:00Z".parse().unwrap();
    let after = |seconds| start + SignedDuration::from_secs(seconds);
    let failed = |class| Outcome {
        failures: vec![Failure {
            phase: Phase::Update,
            object: target("web-a"),
            class,
            message: String::new(),
        }],
        ..Outcome::default()
    };
    let rest = |outcome: &Outcome, seconds| {
        let rest = outcome.backs_off(&pod("web-a"), after(seconds));
        rest.map(|rest| rest.as_secs())
    };
    let mut last = Outcome::default();
    let mut pauses = Vec::new();
    for _ in 0..8 {
        last = failed(FailureClass::Denied).after(&last, start);
        pauses.push(rest(&last, 0).unwrap());
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(last.backs_off(&pod("web-b"), start), None);
    assert_eq!((rest(&last, 59), rest(&last, 60)), (Some(1), None));
    assert_eq!(
        serde_json::to_value(&last).unwrap()["backOffs"],
        json!([{ "object": { "kind": "Pod", "namespace": "shop", "name": "web-a" }, "failures": 8, "until": "2024-05-01T10:01:00Z" }])
    );

    // Rounds in which it was not tried.
    let kept = Outcome::default().after(&last, after(119));
    assert_eq!(
        rest(&failed(FailureClass::Transient).after(&kept, after(119)), 119),
        Some(60)
    );
    let forgotten = Outcome::default().after(&kept, after(121));
    assert_eq!(forgotten, Outcome::default());

    assert_eq!(
        rest(&failed(FailureClass::Conflict).after(&Outcome::default(), start), 0),
        None
    );
}

#[test]
fn given_a_body_then_its_text_is_what_go_would_write() {
    let own = json!({"data": {"b": "true && false", "a": {"z": "<1>", "y": 1}}});
    let body = Body::new(Arc::new(json!({"kind": "X"})), own);
    assert_eq!(
        body.text(),
        r#"{"data":{"a":{"y":1,"z":"\u003c1\u003e"},"b":"true \u0026\u0026 false"},"kind":"X"}"#
    );
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&body.text()).unwrap(),
        body.json()
    );
}

#[test]
fn given_reasons_of_every_family_then_they_are_flat_and_come_back_as_they_went() {
    let until: Timestamp = "2024-05-01T10:00:10Z".parse().unwrap();
    let pods: PodNames = ["web-a"].into_iter().collect();
    let reasons: [(Why, serde_json::Value); 5] = [
        (why::General::Deleting.into(), json!({ "reason": "deleting" })),
        (why::General::Done { until: None }.into(), json!({ "reason": "done" })),
        (
            why::Rollout::ScaleUpLimited { missing: 3, limit: 1 }.into(),
            json!({ "reason": "scaleUpLimited", "missing": 3, "limit": 1 }),
        ),
        (
            why::Pods::InGrace { pods, until }.into(),
            json!({ "reason": "inGrace", "pods": { "names": ["web-a"] }, "until": "2024-05-01T10:00:10Z" }),
        ),
        (
            why::Images::SecretMissing { secret: "s".to_owned() }.into(),
            json!({ "reason": "secretMissing", "secret": "s" }),
        ),
    ];
    for (why, json) in reasons {
        assert_eq!(serde_json::to_value(&why).unwrap(), json);
        assert_eq!(serde_json::from_value::<Why>(json).unwrap(), why);
    }
    assert!(serde_json::from_value::<Why>(json!({ "reason": "ofANewerManager" })).is_err());
}
