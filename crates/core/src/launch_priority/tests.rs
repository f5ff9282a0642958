use super::*;
use crate::plan::{Failure, FailureClass, Outcome};
use crate::shared::fixture::{Fixture as _, PodBuilder, PodFixture as _, running_pod};

fn starting(pod: PodBuilder, waiting: &[&str]) -> PodBuilder {
    waiting.iter().fold(pod, |pod, name| pod.status(name, "ready", false))
}

fn pod() -> PodBuilder {
    running_pod("web-0")
        .prioritised("one", "x", 0)
        .prioritised("two", "x", -1)
        .prioritised("three", "x", -2)
        .running("free", "x")
}

fn names(keys: &[&str]) -> BTreeSet<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

#[test]
fn given_an_order_then_the_keys_come_one_after_the_other_and_the_pod_is_annotated_at_the_end() {
    let all = starting(pod(), &["one", "two", "three", "free"]);
    let first = release(&all.typed(), None);
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
        release(&all.typed(), Some(&names(&["p_0"]))),
        Release::default(),
        "one is on its way"
    );
    let empty = release(&all.typed(), Some(&names(&[])));
    assert_eq!(
        (empty.create, empty.patch),
        (None, Some(json!({"data": {"p_0": "true"}})))
    );

    let second = release(&starting(pod(), &["two", "three"]).typed(), Some(&names(&["p_0"])));
    assert_eq!(
        (second.patch, second.complete),
        (Some(json!({"data": {"p_-1": "true"}})), None)
    );
    let last = release(&starting(pod(), &["three"]).typed(), Some(&names(&["p_0", "p_-1"])));
    assert_eq!(last.patch, Some(json!({"data": {"p_-2": "true"}})));
    let completed = last.complete.unwrap();
    assert_eq!(
        completed.body,
        json!({"metadata": {"annotations": {"apps.kruise.io/container-launch-priority-completed": "true"}}})
    );
    let done = starting(pod(), &["three"]).patched(&[completed]);
    assert_eq!(
        release(&done.typed(), Some(&names(&["p_0", "p_-1", "p_-2"]))),
        Release::default()
    );
}

#[test]
fn given_a_crash_between_the_last_key_and_the_annotation_then_it_is_annotated_later() {
    let last = starting(pod(), &["three"]);
    let found = release(&last.typed(), Some(&names(&["p_0", "p_-1", "p_-2"])));
    assert_eq!((found.patch, found.complete.is_some()), (None, true));
}

#[test]
fn given_equal_priorities_then_they_start_together() {
    let both = starting(
        running_pod("p").prioritised("a", "x", 5).prioritised("b", "x", 5),
        &["a", "b"],
    );
    let found = release(&both.typed(), Some(&names(&[])));
    assert_eq!(
        (found.patch, found.complete.is_some()),
        (Some(json!({"data": {"p_5": "true"}})), true)
    );
}

#[test]
fn given_nothing_waits_then_nothing_is_written() {
    for pod in [
        pod(),
        running_pod("p").running("a", "x").status("a", "ready", false),
        starting(pod(), &["one"]).condition("ContainersReady", "True"),
        starting(pod(), &["one"]).set("/metadata/deletionTimestamp", json!("2024-05-01T10:00:00Z")),
    ] {
        assert_eq!(release(&pod.typed(), None), Release::default());
    }
    // A container without a status has not started either.
    let unknown = pod().set("/status/containerStatuses", json!([]));
    assert!(release(&unknown.typed(), None).create.is_some());
}

fn found(barrier: Value) -> Found {
    serde_json::from_value(barrier).unwrap()
}

fn owned_by(name: &str, uid: &str) -> Value {
    json!({"metadata": {"uid": "b-1", "creationTimestamp": "2026-01-01T10:00:00Z",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}]},
        "data": {"p_0": "true", "p_-1": "true"}})
}

#[test]
fn given_a_config_map_of_that_name_then_its_owners_say_whose_it_is() {
    let pod = pod().set("/metadata/creationTimestamp", json!("2026-01-01T10:00:00Z"));
    let pod = pod.typed();
    let own = found(owned_by("web-0", "u-1"));
    let own = Barrier::found(&own, &pod);
    assert_eq!(
        (own.whose, &*own.uid, own.keys),
        (Whose::Own, "b-1", names(&["p_0", "p_-1"]))
    );
    assert_eq!(found(owned_by("web-0", "u-0")).whose(&pod), Whose::Predecessor);

    let changed = |pointer: &str, value: Value| {
        let mut barrier = owned_by("web-0", "u-0");
        *barrier.pointer_mut(pointer).unwrap() = value;
        found(barrier).whose(&pod)
    };
    let later = json!("2026-01-01T10:00:01Z");
    assert_eq!(
        changed("/metadata/creationTimestamp", later),
        Whose::Leaving,
        "of a later Pod"
    );
    let mut leaving = owned_by("web-0", "u-1");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T10:00:00Z");
    assert_eq!(found(leaving).whose(&pod), Whose::Leaving);

    for owners in [
        json!([]),
        json!(null),
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "other", "uid": "u-0"}]),
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "web-0", "uid": "u-0"}]),
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "u-0", "controller": true}]),
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "u-0"},
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u-9"}]),
    ] {
        let whose = changed("/metadata/ownerReferences", owners.clone());
        assert_eq!(whose, Whose::Foreign, "{owners}");
    }
    assert_eq!(found(json!({"metadata": {}, "data": null})).whose(&pod), Whose::Foreign);
}

#[test]
fn given_a_barrier_that_is_gone_then_it_is_made_again_with_all_keys_that_were_due() {
    let unable = |pod: PodBuilder, name: &str| {
        pod.status(name, "ready", false).status(
            name,
            "state",
            json!({"waiting": {"reason": "CreateContainerConfigError"}}),
        )
    };
    let data = |pod: &PodBuilder| {
        release(&pod.clone().typed(), None)
            .create
            .map(|made| made["data"].clone())
    };

    // The second waits for the first, which is as it should be; the first does not wait for anybody.
    let second = unable(starting(pod(), &["one", "three"]), "two");
    assert!(!is_stuck(&second.typed()));
    let first = unable(second, "one");
    assert!(is_stuck(&first.typed()));
    assert_eq!(data(&first), Some(json!({"p_0": "true"})));

    let second = unable(starting(pod(), &["three"]), "two");
    assert!(is_stuck(&second.typed()));
    assert_eq!(data(&second), Some(json!({"p_0": "true", "p_-1": "true"})));
    assert_eq!(
        release(&second.typed(), Some(&names(&["p_0", "p_-1"]))),
        Release::default()
    );

    // A container of a completed Pod that restarts needs its key again.
    let completed = unable(pod(), "two").annotation("apps.kruise.io/container-launch-priority-completed", "true");
    assert!(is_stuck(&completed.typed()) && !waits(&completed.typed()));
    assert_eq!(
        data(&completed),
        Some(json!({"p_0": "true", "p_-1": "true", "p_-2": "true"}))
    );
    let some = release(&completed.typed(), Some(&names(&["p_0", "p_-2"])));
    assert_eq!(
        (some.patch, some.complete),
        (Some(json!({"data": {"p_-1": "true"}})), None)
    );
    let gone = completed.set("/metadata/deletionTimestamp", json!("2024-05-01T10:00:00Z"));
    assert_eq!(release(&gone.typed(), None), Release::default());
}

fn planned(pod: &PodBuilder, barrier: Option<&Barrier>) -> Plan {
    let observed = Observed {
        pod: Arc::new(pod.typed()),
        barrier: barrier.cloned(),
    };
    plan(&observed, &Env::at(jiff::Timestamp::UNIX_EPOCH))
}

fn verbs(plan: &Plan) -> Vec<String> {
    let verb = |action: &Action| {
        let action = serde_json::to_value(action).unwrap();
        format!(
            "{} {}",
            action["verb"].as_str().unwrap(),
            action["name"].as_str().unwrap()
        )
    };
    plan.writes().map(verb).collect()
}

#[test]
fn given_what_has_the_name_of_the_barrier_then_only_what_may_be_written_is_written() {
    let all = starting(pod(), &["one", "two", "three"]);
    assert_eq!(verbs(&planned(&all, None)), ["create web-0-barrier"]);
    let seen = |whose| Barrier {
        whose,
        ..Barrier::own("b-1", names(&[]))
    };
    let patched = planned(&all, Some(&seen(Whose::Own)));
    assert_eq!(verbs(&patched), ["patch web-0-barrier"]);
    let last = Barrier::own("b-1", names(&["p_0", "p_-1"]));
    assert_eq!(
        verbs(&planned(&starting(pod(), &["three"]), Some(&last))),
        ["patch web-0-barrier", "patch web-0"]
    );

    let replaced = planned(&all, Some(&seen(Whose::Predecessor)));
    assert_eq!(verbs(&replaced), ["delete web-0-barrier", "create web-0-barrier"]);
    for whose in [Whose::Unknown, Whose::Leaving] {
        let waiting = planned(&all, Some(&seen(whose)));
        assert!(waiting.is_idle() && waiting.events.is_empty());
        assert_eq!(waiting.wake_after, Some(SOON));
    }
    let foreign = planned(&all, Some(&seen(Whose::Foreign)));
    assert!(foreign.is_idle());
    assert_eq!((foreign.events.len(), foreign.wake_after), (1, Some(LOOK_AGAIN)));
}

#[test]
fn given_an_outcome_then_what_is_known_of_the_barrier_follows_from_it() {
    let all = starting(pod(), &["one", "two", "three"]);
    let made = planned(&all, None);
    let fails = |plan: &Plan, class| Outcome {
        failures: vec![Failure {
            phase: Phase::Update,
            object: plan.writes().next().unwrap().object().clone(),
            class,
            message: String::new(),
        }],
        ..Outcome::default()
    };
    let own = Barrier::own("b-1", names(&["p_0"]));
    let none = Outcome::default();
    assert_eq!(after(None, &made, &none, Some("b-1")), Some(own.clone()));
    assert_eq!(after(None, &made, &fails(&made, FailureClass::Transient), None), None);
    let unknown = after(None, &made, &fails(&made, FailureClass::Exists), None);
    assert_eq!(unknown, Some(Barrier::default()));
    assert!(must_read(&all.typed(), unknown.as_ref()) && !must_read(&all.typed(), Some(&own)));

    let next = starting(pod(), &["two", "three"]);
    let patched = planned(&next, Some(&own));
    let both = Barrier::own("b-1", names(&["p_0", "p_-1"]));
    assert_eq!(after(Some(own.clone()), &patched, &none, None), Some(both.clone()));
    for (class, expected) in [
        (FailureClass::Gone, None),
        (FailureClass::Conflict, None),
        (FailureClass::Denied, Some(own.clone())),
    ] {
        assert_eq!(
            after(Some(own.clone()), &patched, &fails(&patched, class), None),
            expected
        );
    }
    let last = planned(&starting(pod(), &["three"]), Some(&both));
    assert_eq!(after(Some(both), &last, &none, None), None, "nothing is left to do");
}

#[test]
fn given_changes_then_only_a_pod_for_which_there_is_something_to_do_is_looked_at() {
    let all = starting(pod(), &["one", "two", "three"]);
    let own = Barrier::own("b-1", names(&["p_0"]));
    assert_eq!(look_after(&all.typed(), || None), Some(Duration::ZERO));
    assert_eq!(look_after(&all.typed(), || Some(own.clone())), None);
    assert_eq!(look_after(&pod().typed(), || None), None);
    let stuck = all.status(
        "one",
        "state",
        json!({"waiting": {"reason": "CreateContainerConfigError"}}),
    );
    assert_eq!(look_after(&stuck.typed(), || Some(own.clone())), Some(LOOK_AGAIN));
    assert!(must_read(&stuck.typed(), Some(&own)));
}
