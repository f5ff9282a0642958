mod explain;
mod properties;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kruise_api::gates::{Gate, Gates};
use kruise_api::pod::Pod;
use kruise_api::podunavailablebudget::v1beta1::PodUnavailableBudget;
use serde_json::{Value, json};

use super::ledger::{Answer, Asked, Free, Operation, answer};
use super::operation::of_update;
use super::*;
use crate::shared::fixture::{Fixture as _, PodBuilder, at, running_pod};
use crate::shared::workload::WorkloadRef;

#[expect(clippy::needless_pass_by_value, reason = "it reads better where it is called")]
fn budget(spec: Value, status: Value) -> PodUnavailableBudget {
    let object = json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "b", "resourceVersion": "5", "generation": 2},
        "spec": spec, "status": status,
    });
    serde_json::from_value(object).unwrap()
}

fn status(allowed: i32, desired: i32) -> Value {
    json!({"unavailableAllowed": allowed, "currentAvailable": desired + allowed, "desiredAvailable": desired, "totalReplicas": 10})
}

fn covered(name: &str) -> PodBuilder {
    running_pod(name)
        .ready()
        .annotation(annotation::RELATED_BUDGET, "web")
        .set("/metadata/creationTimestamp", json!("2024-05-01T08:00:00Z"))
}

fn asked(operation: Operation) -> Asked {
    Asked {
        operation,
        now: at("10:00:00"),
        gates: Gates::default(),
    }
}

const MAX_ONE: &str = r#"{"maxUnavailable": 1}"#;

fn spec() -> Value {
    serde_json::from_str(MAX_ONE).unwrap()
}

#[test]
fn given_pods_then_the_first_rule_that_holds_decides() {
    let with = |spec: Value, status: Value| budget(spec, status);
    let pod = covered("a");
    for (what, budget, pod, operation, expected) in [
        (
            "exempted",
            with(spec(), status(0, 3)),
            pod.clone().annotation(annotation::BUDGET_NO_PROTECT, "True"),
            Operation::Delete,
            Some(Free::Exempted),
        ),
        (
            "not exempted",
            with(spec(), status(0, 3)),
            pod.clone().annotation(annotation::BUDGET_NO_PROTECT, "yes"),
            Operation::Delete,
            None,
        ),
        (
            "pending",
            with(spec(), status(0, 3)),
            pod.clone().set("/status/phase", json!("Pending")),
            Operation::Delete,
            Some(Free::Unavailable),
        ),
        (
            "labelled",
            with(spec(), status(0, 3)),
            pod.clone().label("unavailable-pod.kruise.io/x", ""),
            Operation::Evict,
            Some(Free::Unavailable),
        ),
        (
            "ignored",
            with(
                json!({"maxUnavailable": 1, "ignoredPodSelector": {"matchLabels": {"a": "b"}}}),
                status(0, 3),
            ),
            pod.clone().label("a", "b"),
            Operation::Delete,
            Some(Free::Ignored),
        ),
        (
            "nothing desired",
            with(spec(), status(0, 0)),
            pod.clone(),
            Operation::Delete,
            Some(Free::NothingDesired),
        ),
        (
            "never counted",
            with(spec(), Value::Null),
            pod.clone(),
            Operation::Delete,
            Some(Free::NothingDesired),
        ),
        (
            "not protected",
            with(
                json!({"maxUnavailable": 1, "protectOperations": ["EVICT"]}),
                status(0, 3),
            ),
            pod.clone(),
            Operation::Delete,
            Some(Free::NotProtected),
        ),
        (
            "protected",
            with(
                json!({"maxUnavailable": 1, "protectOperations": ["EVICT"]}),
                status(0, 3),
            ),
            pod.clone(),
            Operation::Evict,
            None,
        ),
        (
            "resize is an update",
            with(spec(), status(0, 3)),
            pod.clone(),
            Operation::Resize,
            None,
        ),
    ] {
        let answer = answer(&budget, &pod.typed(), &asked(operation));
        match expected {
            Some(free) => assert_eq!(answer, Answer::Free(free), "{what}"),
            None => assert!(
                matches!(&answer, Answer::Refused(reason) if reason
                == "podunavailablebudget.policy.kruise.io \"web\" is forbidden: pub unavailable allowed is negative"),
                "{what}: {answer:?}"
            ),
        }
    }
}

#[test]
fn given_a_cluster_that_resizes_then_a_resize_is_protected_only_if_it_is_listed() {
    let gates = Gates::default().with(Gate::InPlacePodVerticalScaling, true);
    let question = Asked {
        gates,
        ..asked(Operation::Resize)
    };
    let pod = covered("a").typed();
    assert_eq!(
        answer(&budget(spec(), status(0, 3)), &pod, &question),
        Answer::Free(Free::NotProtected)
    );
    let listed = json!({"maxUnavailable": 1, "protectOperations": ["RESIZE"]});
    assert!(matches!(
        answer(&budget(listed, status(0, 3)), &pod, &question),
        Answer::Refused(_)
    ));
}

#[test]
fn given_a_place_then_it_is_taken_under_the_name_of_what_was_asked() {
    let pod = covered("a").typed();
    for (operation, key) in [
        (Operation::Delete, "disruptedPods"),
        (Operation::Evict, "disruptedPods"),
        (Operation::Resize, "disruptedPods"),
        (Operation::Update, "unavailablePods"),
    ] {
        let budget = budget(spec(), status(2, 3));
        let Answer::Take(place) = answer(&budget, &pod, &asked(operation)) else {
            panic!("{operation:?}")
        };
        assert_eq!(
            place.patch(),
            json!({"status": {"unavailableAllowed": 1, (key): {"a": "2024-05-01T10:00:00Z"}}})
        );
        let written = serde_json::to_value(place.written(budget.status.clone().unwrap())).unwrap();
        assert_eq!(
            (&written["unavailableAllowed"], &written[key]["a"]),
            (&json!(1), &json!("2024-05-01T10:00:00Z"))
        );
    }
}

#[test]
fn given_a_place_of_this_pod_then_it_is_not_charged_again_and_not_forgotten_before_it_goes() {
    let with = |allowed: i32, key: &str, since: &str, operation| {
        let mut status = status(allowed, 3);
        status[key] = json!({"a": format!("2024-05-01T{since}Z")});
        answer(&budget(spec(), status), &covered("a").typed(), &asked(operation))
    };
    for (key, since, operation) in [
        ("disruptedPods", "09:59:58", Operation::Delete),
        ("unavailablePods", "09:59:59", Operation::Update),
        ("unavailablePods", "09:59:59", Operation::Resize),
    ] {
        assert_eq!(with(0, key, since, operation), Answer::Granted, "{key} {operation:?}");
    }
    // Soon forgotten, or written down for something shorter: it is renewed, and no place more is taken.
    for (allowed, key, since, operation) in [
        (1, "disruptedPods", "09:59:46", Operation::Evict),
        (1, "disruptedPods", "09:59:46", Operation::Update),
        (0, "unavailablePods", "09:59:58", Operation::Delete),
        (0, "unavailablePods", "09:59:53", Operation::Update),
    ] {
        let Answer::Take(place) = with(allowed, key, since, operation) else {
            panic!("{key} {since}")
        };
        assert_eq!(place.patch()["status"]["unavailableAllowed"], allowed);
    }
    // Others want it, too.
    for since in ["09:59:46", "09:59:40"] {
        let answer = with(0, "disruptedPods", since, Operation::Delete);
        assert!(matches!(answer, Answer::Refused(_)), "{since}");
    }
    let other = covered("a").set("/metadata/creationTimestamp", json!("2024-05-01T09:59:59Z"));
    let mut status = status(0, 3);
    status["disruptedPods"] = json!({"a": "2024-05-01T09:59:58Z"});
    let later = answer(&budget(spec(), status), &other.typed(), &asked(Operation::Delete));
    assert!(matches!(later, Answer::Refused(_)), "the place was for the Pod before");
}

#[test]
fn given_a_pod_that_is_asked_for_again_and_again_and_stays_then_another_gets_its_place() {
    let pods = ["stays", "goes"].map(|name| Arc::new(covered(name).typed()));
    let active = status::active(&pods);
    let counts = counts::Counts { total: 2, desired: 1 };
    let mut web = budget(spec(), status(1, 1));
    let granted = |web: &mut PodUnavailableBudget, pod: &Pod, now| {
        let question = Asked {
            now,
            ..asked(Operation::Evict)
        };
        let before = web.status.clone().unwrap();
        match answer(web, pod, &question) {
            Answer::Take(place) => web.status = Some(place.written(before.clone())),
            Answer::Granted => {}
            Answer::Refused(_) => return false,
            Answer::Free(free) => panic!("{free:?}"),
        }
        true
    };
    let begin = at("10:00:00");
    let other = (0..60).find(|second| {
        let now = begin + jiff::SignedDuration::from_secs(*second);
        web.status = Some(status::rebuild(&web, &active, &BTreeSet::new(), counts, &Env::at(now)).status);
        // Somebody else refuses the first each time.
        if second % 7 == 0 {
            granted(&mut web, &pods[0], now);
        }
        second % 5 == 0 && granted(&mut web, &pods[1], now)
    });
    assert_eq!(other, Some(20), "when the place of the first is forgotten");
}

#[test]
fn given_too_many_places_then_the_answer_is_no() {
    let mut status = status(5, 3);
    let places: serde_json::Map<_, _> = (0..2001)
        .map(|n| (format!("p{n}"), json!("2024-05-01T09:59:59Z")))
        .collect();
    status["disruptedPods"] = Value::Object(places);
    let answer = answer(
        &budget(spec(), status),
        &covered("a").typed(),
        &asked(Operation::Delete),
    );
    assert!(
        matches!(&answer, Answer::Refused(reason) if reason.contains("map too big")),
        "{answer:?}"
    );
}

#[test]
fn given_amounts_then_percentages_are_rounded_up_both_ways() {
    for (spec, expected, total, desired) in [
        (json!({"maxUnavailable": "1%"}), 10, 10, 9),
        (json!({"maxUnavailable": "10%"}), 50, 50, 45),
        (json!({"maxUnavailable": "100%"}), 10, 10, 0),
        (json!({"maxUnavailable": 20}), 10, 10, 0),
        (json!({"minAvailable": "50%"}), 5, 5, 3),
        (json!({"minAvailable": 20}), 10, 10, 20),
        (json!({"maxUnavailable": 1}), -1, -1, 0),
        (json!({"maxUnavailable": "10%"}), 0, 0, 0),
        (json!({"minAvailable": "10%"}), 0, 0, 0),
        (json!({"maxUnavailable": 1, "protectTotalReplicas": 4}), -1, 4, 3),
    ] {
        let counts = counts::of(&budget(spec.clone(), Value::Null), expected).unwrap();
        assert_eq!((counts.total, counts.desired), (total, desired), "{spec}");
    }
    let mut annotated = budget(json!({"maxUnavailable": 1}), Value::Null);
    annotated.metadata.annotations = Some([(annotation::BUDGET_TOTAL_REPLICAS.to_owned(), "15".to_owned())].into());
    assert_eq!(counts::of(&annotated, 2).unwrap().desired, 14);
    assert!(counts::of(&budget(json!({"maxUnavailable": "many"}), Value::Null), 3).is_err());
    assert!(counts::of(&budget(json!({}), Value::Null), 3).is_err());
}

fn env(time: &str) -> Env {
    Env::at(at(time))
}

fn observed(budget: PodUnavailableBudget, pods: &[PodBuilder], expected: i32) -> Observed {
    Observed {
        budget: Arc::new(budget),
        pods: pods.iter().map(|pod| Arc::new(pod.typed())).collect(),
        expected: Ok(expected),
        leaving: BTreeSet::new(),
        last_written: None,
    }
}

#[test]
fn given_pods_then_the_status_counts_those_that_are_available_and_have_no_place() {
    let mut old = status(0, 1);
    old["disruptedPods"] =
        json!({"a": "2024-05-01T09:59:55Z", "gone": "2024-05-01T09:59:55Z", "b": "2024-05-01T09:59:30Z"});
    old["unavailablePods"] = json!({"c": "2024-05-01T09:59:52Z", "d": "2024-05-01T09:59:40Z"});
    let pods = ["a", "b", "c", "d"].map(covered);
    let plan = plan(&observed(budget(spec(), old), &pods, 4), &env("10:00:00"));
    let status = &plan.status.as_ref().unwrap();
    let Action::Patch {
        patch, preconditions, ..
    } = status
    else {
        panic!("{status:?}")
    };
    let changes = &patch.document()["status"];
    assert_eq!(changes["currentAvailable"], 2);
    assert_eq!(changes["desiredAvailable"], 3);
    assert_eq!(changes["disruptedPods"], json!({"gone": null, "b": null}));
    assert_eq!(changes["unavailablePods"], json!({"d": null}));
    assert_eq!(preconditions.resource_version.as_deref(), Some("5"));
    assert_eq!(plan.wake_after, Some(Duration::from_secs(2)));
    let told: Vec<_> = plan
        .events
        .iter()
        .map(|event| (event.reason, event.about.as_ref().unwrap().name.as_str()))
        .collect();
    assert_eq!(told, [(event::NOT_DELETED, "b")]);
}

#[test]
fn given_a_pod_that_is_gone_and_still_seen_then_its_place_is_kept() {
    let mut old = status(0, 1);
    old["disruptedPods"] = json!({"a": "2024-05-01T09:59:30Z", "b": "2024-05-01T09:59:50Z"});
    let web = budget(spec(), old);
    let now = at("10:00:00");
    assert_eq!(status::overdue(&web, now).collect::<Vec<_>>(), ["a"]);
    let mut observed = observed(web, &["a", "b", "c"].map(covered), 3);
    observed.leaving = BTreeSet::from(["a".to_owned()]);
    let plan = plan(&observed, &Env::at(now));
    let Some(Action::Patch { patch, .. }) = &plan.status else {
        panic!("{plan:?}")
    };
    let changes = &patch.document()["status"];
    assert_eq!(
        (&changes["currentAvailable"], &changes["disruptedPods"]),
        (&Value::Null, &Value::Null),
        "{changes}"
    );
    assert_eq!((plan.events.len(), plan.wake_after), (0, Some(Duration::from_secs(1))));
}

#[test]
fn given_nothing_new_then_nothing_is_written() {
    let mut done = status(1, 1);
    done["currentAvailable"] = json!(2);
    done["totalReplicas"] = json!(2);
    done["observedGeneration"] = json!(2);
    let pods = ["a", "b"].map(covered);
    let plan = plan(&observed(budget(spec(), done), &pods, 2), &env("10:00:00"));
    assert!(plan.is_idle(), "{plan:?}");
}

#[test]
fn given_a_status_that_was_just_written_then_the_next_waits_for_its_turn_and_nothing_else_does() {
    let now = at("10:00:00");
    let mut observed = observed(
        budget(json!({"maxUnavailable": 1}), Value::Null),
        &[running_pod("a")],
        1,
    );
    for (since, rest) in [(0, Some(250)), (100, Some(150)), (250, None), (9000, None)] {
        observed.last_written = Some(now - SignedDuration::from_millis(since));
        let plan = plan(&observed, &Env::at(now));
        assert_eq!(plan.status.is_none(), rest.is_some(), "{since}");
        assert_eq!(plan.wake_after, rest.map(std::time::Duration::from_millis), "{since}");
        assert_eq!(plan.actions.len(), 1, "the Pod is told its budget");
    }
}

#[test]
fn given_pods_without_a_budget_then_they_are_told_and_those_of_others_are_left_alone() {
    let other = covered("b").annotation(annotation::RELATED_BUDGET, "other");
    let plan = plan(
        &observed(budget(spec(), Value::Null), &[running_pod("a").ready(), other], 2),
        &env("10:00:00"),
    );
    let written: Vec<_> = plan.writes().collect();
    let [Action::Patch { object, patch, .. }] = written[..] else {
        panic!("{written:?}")
    };
    assert_eq!(object.name, "a");
    let expected = json!({(annotation::RELATED_BUDGET): "web", (annotation::RELATED_BUDGET_OLD): "web"});
    assert_eq!(patch.document()["metadata"]["annotations"], expected);
    assert!(
        plan.why
            .iter()
            .any(|why| matches!(why, crate::plan::Why::Budgets(why::Budgets::OfOthers { .. })))
    );
}

#[test]
fn given_a_workload_that_cannot_be_counted_then_nothing_more_is_allowed_and_it_is_told() {
    let mut observed = observed(budget(spec(), status(0, 3)), &[covered("a")], 0);
    observed.expected = Err("games.example.com \"web\" is forbidden: cannot get resource \"games/scale\"".to_owned());
    let plan = plan(&observed, &env("10:00:00"));
    assert!(plan.is_idle());
    assert_eq!(plan.events[0].reason, event::CALCULATE_EXPECTED_POD_COUNT_FAILED);
    assert!(plan.events[0].message.contains("games/scale"));
}

#[test]
fn given_budgets_then_the_first_that_covers_a_pod_is_its_own() {
    let named = |name: &str, spec: Value| {
        let mut budget = budget(spec, Value::Null);
        budget.metadata.name = Some(name.to_owned());
        budget
    };
    let budgets = [
        named("z", json!({"selector": {"matchLabels": {"app": "web"}}})),
        named("b", json!({"selector": {"matchLabels": {"app": "web"}}})),
        named(
            "t",
            json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}),
        ),
        named("e", json!({"selector": {}})),
    ];
    let label = |key: &str| (key == "app").then_some("web");
    let deployment = WorkloadRef::new("apps/v1beta9", "Deployment", "web");
    assert_eq!(related::choose(&budgets, None, label), Some("b"));
    assert_eq!(related::choose(&budgets[2..], Some(&deployment), label), Some("t"));
    assert_eq!(related::choose(&budgets[2..], None, label), None);
}

#[test]
fn given_updates_of_pods_then_only_some_disturb_them() {
    let pod = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
        {"name": "main", "image": "i:1", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
    ]}});
    let changed = |pointer: &str, value: Value| {
        let mut pod = pod.clone();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[name] = value;
        pod
    };
    for (what, new, expected) in [
        ("nothing", pod.clone(), None),
        ("a label", changed("/metadata/labels/x", json!("y")), None),
        (
            "taken out",
            changed("/metadata/labels/unavailable-pod.kruise.io~1x", json!("y")),
            None,
        ),
        (
            "the image",
            changed("/spec/containers/0/image", json!("i:2")),
            Some(Operation::Update),
        ),
        (
            "cpu",
            changed(
                "/spec/containers/0/resources/requests",
                json!({"cpu": "2", "memory": "1024Mi"}),
            ),
            Some(Operation::Resize),
        ),
        (
            "storage",
            changed(
                "/spec/containers/0/resources/requests",
                json!({"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1"}),
            ),
            Some(Operation::Update),
        ),
        (
            "quality",
            changed(
                "/spec/containers/0/resources",
                json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}),
            ),
            Some(Operation::Update),
        ),
        (
            "quality lost",
            changed("/spec/containers/0/resources", json!({})),
            Some(Operation::Update),
        ),
    ] {
        assert_eq!(of_update(&pod, &new), expected, "{what}");
    }
    let mut out = pod.clone();
    out["metadata"]["labels"]["unavailable-pod.kruise.io/x"] = json!("");
    assert_eq!(of_update(&pod, &out), Some(Operation::Update));
    assert_eq!(of_update(&out, &out), None);
    let mut restarts = changed(
        "/spec/containers/0/resizePolicy",
        json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]),
    );
    let before = restarts.clone();
    restarts["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
    assert_eq!(of_update(&before, &restarts), Some(Operation::Update));
}

#[test]
fn given_images_by_digest_then_the_one_that_runs_has_to_be_it() {
    let digest = |digit: &str| format!("sha256:{}", digit.repeat(64));
    let image = format!("repo.io/app@{}", digest("a"));
    for (id, expected) in [
        (image.clone(), true),
        (format!("docker-pullable://{image}"), true),
        (format!("repo.io/app@{}", digest("b")), false),
        (format!("other.io/app@{}", digest("a")), false),
        (String::new(), false),
    ] {
        let pod = covered("a")
            .running("main", &image)
            .status("main", "imageID", id.clone())
            .typed();
        assert_eq!(availability::is_available(&pod, Gates::default()), expected, "{id}");
    }
}

#[test]
fn given_sidecars_under_way_then_the_pod_is_not_available() {
    let record = |id: &str| {
        json!({"set": {"revision": "1", "updateTimestamp": "2024-05-01T09:00:00Z", "lastContainerStatuses": {"log": {"imageID": id}}}}).to_string()
    };
    let sidecar = || {
        covered("a")
            .running("log", "log:1")
            .env(json!({"name": "IS_INJECTED", "value": "true"}))
            .annotation(annotation::SIDECAR_SET_INJECTED, "set")
    };
    for (state, expected) in [
        (record("sha256:log:1"), false),
        (record("sha256:old"), true),
        ("{".to_owned(), false),
        (String::new(), true),
    ] {
        let pod = sidecar()
            .annotation(annotation::SIDECAR_SET_IN_PLACE_STATE, state.clone())
            .typed();
        assert_eq!(availability::is_available(&pod, Gates::default()), expected, "{state}");
    }
}

#[test]
fn given_an_update_in_place_whose_image_does_not_run_yet_then_the_pod_is_not_available_although_it_is_ready() {
    let state = json!({"revision": "r2", "updateTimestamp": "2024-05-01T09:59:59Z", "lastContainerStatuses": {"main": {"imageID": "sha256:old"}}});
    for (image, id, expected) in [("i:1", "sha256:old", false), ("i:2", "sha256:new", true)] {
        let pod = covered("a")
            .running("main", "i:2")
            .annotation(annotation::IN_PLACE_STATE, state.to_string())
            .status("main", "image", image)
            .status("main", "imageID", id)
            .typed();
        assert!(availability::is_ready(&pod));
        assert_eq!(availability::is_available(&pod, Gates::default()), expected, "{id}");
        let web = budget(spec(), status(0, 3));
        let free = matches!(
            answer(&web, &pod, &asked(Operation::Delete)),
            Answer::Free(Free::Unavailable)
        );
        assert_eq!(free, !expected);
    }
}
