use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;
use serde_json::{Value, json};

use super::super::fixtures::{Fixture as _, PodBuilder, env, pod, rolling};
use super::super::{Observed, plan};
use super::*;
use crate::plan::Env;
use crate::plan::why::{self, Why};

fn ready(name: &str) -> PodBuilder {
    pod(name).ready().on_node("n")
}

/// Pods that the plan brings to another revision, in order.
fn updated(plan: &Plan) -> Vec<&str> {
    let brings = plan.writes().filter(|action| match action {
        Action::Patch { patch, .. } => patch.document()["metadata"]["labels"]
            .get("controller-revision-hash")
            .is_some(),
        _ => false,
    });
    brings.map(|action| action.object().name.as_str()).collect()
}

fn specified_delete(plan: &Plan) -> Vec<&str> {
    let names = plan.writes().filter(|action| match action {
        Action::Patch { patch, .. } => patch.document()["metadata"]["labels"]
            .get("apps.kruise.io/specified-delete")
            .is_some(),
        _ => false,
    });
    names.map(|action| action.object().name.as_str()).collect()
}

fn rolled(rolling_update: &Value, pods: &[PodBuilder]) -> Observed {
    let mut observed = rolling(
        &json!({ "replicas": pods.len(), "updateStrategy": { "rollingUpdate": rolling_update } }),
        pods,
    );
    observed.nodes.clear();
    observed
}

#[test]
fn broken_pods_are_updated_first_and_cost_nothing_of_the_budget() {
    let pods = [
        ready("web-a"),
        ready("web-b"),
        pod("web-c").unready().on_node("n"),
        ready("web-d"),
        ready("web-e"),
    ];
    assert_eq!(
        updated(&plan(&rolled(&json!({ "maxUnavailable": 1 }), &pods), &env())),
        ["web-c"]
    );
    assert_eq!(
        updated(&plan(&rolled(&json!({ "maxUnavailable": 2 }), &pods), &env())),
        ["web-c", "web-a"]
    );
}

#[test]
fn pods_that_are_unavailable_at_the_new_revision_use_up_the_budget() {
    let pods = [
        pod("web-a").unready().on_node("n").at("web-new"),
        pod("web-b").unready().on_node("n"),
        ready("web-c"),
        ready("web-d"),
    ];
    let plan = plan(&rolled(&json!({ "maxUnavailable": 1 }), &pods), &env());
    assert_eq!(updated(&plan), [""; 0]);
    assert!(
        plan.why.contains(&Why::Rollout(why::Rollout::UpdateBudget {
            allowed: 1,
            unavailable: 2,
            waiting: 3
        })),
        "{:?}",
        plan.why
    );
}

#[test]
fn the_walk_stops_at_the_first_pod_over_the_budget_and_does_not_look_behind_it() {
    // By priority an available Pod comes first; the budget is used up by one that is unavailable.
    let pods = [
        ready("web-a").label("first", "9"),
        pod("web-b").unready().on_node("n").label("first", "1"),
        ready("web-c").label("first", "1"),
    ];
    let strategy = json!({ "maxUnavailable": 1, "priorityStrategy": { "orderPriority": [{ "orderedKey": "first" }] } });
    assert_eq!(updated(&plan(&rolled(&strategy, &pods), &env())), [""; 0]);
    let unprioritised = plan(&rolled(&json!({ "maxUnavailable": 1 }), &pods), &env());
    assert_eq!(updated(&unprioritised), ["web-b"]);
}

#[test]
fn a_pod_that_was_just_given_what_it_needs_ends_the_walk() {
    let pods = [
        pod("web-a").unready().on_node("n").state("PreparingNormal"),
        ready("web-b"),
        ready("web-c"),
    ];
    let plan = plan(&rolled(&json!({ "maxUnavailable": 3 }), &pods), &env());
    assert_eq!(updated(&plan), [""; 0]);
    let written: Vec<&str> = plan.writes().map(|action| action.object().name.as_str()).collect();
    assert_eq!(written, ["web-a"]);
}

/// Lifecycle states that the plan brings, by Pod.
fn states(plan: &Plan) -> Vec<(&str, String)> {
    let state = |action: &'_ Action| match action {
        Action::Patch { patch, .. } => {
            let state = patch.document()["metadata"]["labels"]["lifecycle.apps.kruise.io/state"].clone();
            state.as_str().map(str::to_owned)
        }
        _ => None,
    };
    plan.writes()
        .filter_map(|action| Some((action.object().name.as_str(), state(action)?)))
        .collect()
}

#[test]
fn a_pod_that_waits_to_go_where_nobody_goes_any_more_is_let_go() {
    let hook = json!({ "inPlaceUpdate": { "labelsHandler": { "hold": "yes" } } });
    let hooked = |name: &str| ready(name).label("hold", "yes");
    let waiting = || hooked("web-a").state("PreparingUpdate");
    let new = |name: &str| hooked(name).at("web-new");
    let with_rollback = Env {
        gates: env().gates.with(Gate::CloneSetPartitionRollback, true),
        ..env()
    };
    let spec = |rolling: Value| json!({ "replicas": 4, "lifecycle": hook, "updateStrategy": rolling });
    let raised = spec(json!({ "rollingUpdate": { "partition": 3, "maxUnavailable": 1 } }));

    // It was about to be updated when the partition was raised: two others go back, and it uses up their budget.
    let pods = [waiting(), new("web-b"), new("web-c"), new("web-d")];
    let first = plan(&rolling(&raised, &pods), &with_rollback);
    assert_eq!(states(&first), [("web-a", "Normal".to_owned())]);

    // On the way back it waits.
    let back = [waiting().at("web-new"), new("web-b"), new("web-c"), hooked("web-d")];
    let going = plan(&rolling(&raised, &back), &with_rollback);
    assert_eq!(states(&going), []);

    // Nobody updates Pods of type OnDelete, whichever way this one was going.
    let on_delete = spec(json!({ "type": "OnDelete", "rollingUpdate": null }));
    for (pods, env) in [(&pods, env()), (&pods, with_rollback.clone()), (&back, with_rollback)] {
        let plan = plan(&rolling(&on_delete, pods), &env);
        assert_eq!(states(&plan), [("web-a", "Normal".to_owned())]);
    }
}

#[test]
fn a_lifecycle_state_that_nobody_knows_is_an_error_on_that_pod_and_no_deletion() {
    let pods = [ready("web-a").state("Dancing"), ready("web-b"), ready("web-c")];
    for policy in ["InPlaceIfPossible", "InPlaceOnly"] {
        let strategy = json!({ "podUpdatePolicy": policy, "maxUnavailable": 3 });
        let plan = plan(&rolled(&strategy, &pods), &env());
        assert_eq!(
            (specified_delete(&plan), updated(&plan)),
            (vec![], vec!["web-b", "web-c"]),
            "{policy}"
        );
        let status = format!("{:?}", plan.status);
        assert!(
            status.contains("FailedUpdate")
                && status.contains("pod web-a cannot be updated in place in lifecycle state"),
            "{policy}: {status}"
        );
        assert!(
            plan.why
                .iter()
                .any(|why| matches!(why, Why::Pods(why::Pods::Unreadable { .. }))),
            "{:?}",
            plan.why
        );
    }
}

#[test]
fn an_update_in_place_flips_readiness_first_and_tells_about_it() {
    let plan = plan(&rolled(&json!({ "maxUnavailable": 1 }), &[ready("web-a")]), &env());
    let [step] = &plan.actions[..] else { panic!("{plan:?}") };
    let writes = &step.chains[0].writes;
    assert_eq!((step.phase, writes.len()), (Phase::Update, 2));
    let done = Event::normal(
        "SuccessfulUpdatePodInPlace",
        "successfully update pod web-a in-place(revision web-new)",
    );
    assert_eq!((&writes[0].succeeded, &writes[1].succeeded), (&vec![], &vec![done]));
    let versions: Vec<bool> = writes
        .iter()
        .map(|write| match &write.action {
            Action::Patch { preconditions, .. } => preconditions.resource_version.is_some(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(versions, [true, false]);
}

/// Pods that the plan deletes.
fn deleted(plan: &Plan) -> Vec<&str> {
    let deletes = plan
        .writes()
        .filter(|action| matches!(action, Action::Delete { object, .. } if object.resource == Pod::RESOURCE));
    deletes.map(|action| action.object().name.as_str()).collect()
}

#[test]
fn recreation_deletes_at_once_what_may_go_and_tells_about_both() {
    let recreate = json!({ "podUpdatePolicy": "ReCreate", "maxUnavailable": 2 });
    let pods = [ready("web-a"), ready("web-b"), ready("web-c")];
    let plan = plan(&rolled(&recreate, &pods), &env());
    assert_eq!(
        (specified_delete(&plan), deleted(&plan)),
        (vec![], vec!["web-a", "web-b"])
    );
    let told = &plan.actions[0].chains[0].writes[0].succeeded;
    let told: Vec<(&str, &str)> = told.iter().map(|event| (event.reason, &*event.message)).collect();
    assert_eq!(
        told,
        [
            (
                "SuccessfulUpdatePodReCreate",
                "successfully patch pod web-a specified-delete for update(revision web-new)"
            ),
            ("SuccessfulDelete", "succeed to delete pod web-a"),
        ]
    );
}

#[test]
fn recreation_specifies_a_pod_that_cannot_be_deleted_at_once() {
    let recreate = json!({ "podUpdatePolicy": "ReCreate", "maxUnavailable": 2 });
    let pods = [ready("web-a").label("hold", "yes"), ready("web-b")];
    let mut observed = rolled(&recreate, &pods);
    let mut set = (*observed.set).clone();
    let hook = json!({ "preDelete": { "labelsHandler": { "hold": "yes" } } });
    set.spec.lifecycle = serde_json::from_value(hook).unwrap();
    observed.set = set.into();
    let hooked = plan(&observed, &env());
    assert_eq!(
        (specified_delete(&hooked), deleted(&hooked)),
        (vec!["web-a"], vec!["web-b"])
    );

    // Each update has to be granted, and that is asked for with the name.
    let mut env: Env = env();
    env.gates = env.gates.with(Gate::PodUnavailableBudgetUpdateGate, true);
    let guarded = plan(&rolled(&recreate, &pods), &env);
    assert_eq!(
        (specified_delete(&guarded), deleted(&guarded)),
        (vec!["web-a", "web-b"], vec![])
    );
}

#[test]
fn a_pod_whose_revision_is_gone_is_recreated() {
    let plan = plan(
        &rolled(&json!({ "maxUnavailable": 1 }), &[ready("web-a").at("web-lost")]),
        &env(),
    );
    assert_eq!(deleted(&plan), ["web-a"]);
    assert!(
        plan.why
            .iter()
            .any(|why| why.to_string().contains("the revision of the Pod is gone")),
        "{:?}",
        plan.why
    );
}

#[test]
fn names_of_revisions_are_compared_by_their_hash() {
    let pods = [
        ready("web-a").at("new"),
        ready("web-b").at("other-name-new"),
        ready("web-c").at("web-new"),
    ];
    assert_eq!(updated(&plan(&rolled(&json!({}), &pods), &env())), [""; 0]);
}

#[test]
fn a_pod_in_its_grace_period_is_not_updated_again() {
    let grace = r#"{"revision":"web-old","graceSeconds":600}"#;
    let state = r#"{"revision":"web-old","updateTimestamp":"2024-05-01T09:59:00Z","lastContainerStatuses":null}"#;
    let waiting = pod("web-a")
        .unready()
        .on_node("n")
        .state("Updating")
        .annotation("apps.kruise.io/inplace-update-grace", grace)
        .annotation("apps.kruise.io/inplace-update-state", state);
    let plan = plan(&rolled(&json!({ "maxUnavailable": 3 }), &[waiting]), &env());
    assert_eq!(updated(&plan), [""; 0]);
    assert_eq!(plan.wake_after, Some(std::time::Duration::from_mins(9)));
}

#[test]
fn with_the_budget_gate_every_update_has_to_be_granted_one_by_one() {
    let mut env: Env = env();
    env.gates = env.gates.with(Gate::PodUnavailableBudgetUpdateGate, true);
    let plan = plan(
        &rolled(&json!({ "maxUnavailable": 2 }), &[ready("web-a"), ready("web-b")]),
        &env,
    );
    let [step] = &plan.actions[..] else { panic!("{plan:?}") };
    assert_eq!(step.pace, Pace::InOrder);
    let asked: Vec<Option<Guard>> = step.chains.iter().map(|chain| chain.guard.clone()).collect();
    assert_eq!(
        asked,
        ["web-a", "web-b"].map(|pod| Some(Guard::Budget { pod: pod.to_owned() }))
    );
}

#[test]
fn a_record_nobody_can_read_is_reported_and_holds_back_only_its_pod() {
    let broken = pod("web-a")
        .unready()
        .on_node("n")
        .state("Updating")
        .at("web-new")
        .annotation("apps.kruise.io/inplace-update-state", "{");
    let plan = plan(
        &rolled(&json!({ "maxUnavailable": 3 }), &[broken, ready("web-b")]),
        &env(),
    );
    assert_eq!(updated(&plan), ["web-b"]);
    assert!(
        plan.why
            .iter()
            .any(|why| matches!(why, Why::Pods(why::Pods::Unreadable { .. }))),
        "{:?}",
        plan.why
    );
    let status = serde_json::to_value(plan.status).unwrap();
    assert!(status.to_string().contains("FailedUpdate"), "{status}");
}

#[test]
fn a_pod_of_an_old_release_gets_the_short_hash() {
    let mut old = ready("web-a").at("web-new");
    old.object()["metadata"]["labels"]
        .as_object_mut()
        .unwrap()
        .remove("pod-template-hash");
    let plan = plan(&rolled(&json!({}), &[old]), &env());
    let Some(Action::Patch { object, patch, .. }) = plan.writes().next() else {
        panic!("{plan:?}")
    };
    assert_eq!(object.resource, Pod::RESOURCE);
    assert_eq!(
        patch.document(),
        &json!({ "metadata": { "labels": { "pod-template-hash": "new" } } })
    );
}

#[test]
fn what_failed_last_is_said_but_not_what_merely_changed_meanwhile() {
    use crate::plan::{Failure, FailureClass, Target};
    let said = |phase, class| {
        let mut observed = rolled(&json!({ "partition": 1 }), &[ready("web-a")]);
        let object = Target::new(Pod::RESOURCE, "shop", "web-a");
        observed.last.failures.push(Failure {
            phase,
            object,
            class,
            message: "exceeded quota".to_owned(),
        });
        serde_json::to_value(plan(&observed, &env())).unwrap().to_string()
    };
    let text = said(Phase::Scale, FailureClass::Denied);
    assert!(
        text.contains(r#""type":"FailedScale""#) && text.contains("exceeded quota"),
        "{text}"
    );
    assert!(said(Phase::Update, FailureClass::Transient).contains(r#""type":"FailedUpdate""#));
    assert!(!said(Phase::Update, FailureClass::Conflict).contains("FailedUpdate"));
}

#[test]
fn a_round_writes_a_part_of_a_large_set_and_the_next_follows_at_once() {
    let pods: Vec<PodBuilder> = (0..1000).map(|number| ready(&format!("web-{number:04}"))).collect();
    let mut observed = rolled(&json!({ "maxUnavailable": "100%" }), &pods);
    let first = plan(&observed, &env());
    assert_eq!(updated(&first).len(), PODS_PER_ROUND);
    assert_eq!(first.wake_after, Some(Duration::ZERO));

    // Done with what there is to do for Pods that are under way, no other is begun in the same round.
    let under_way = pods
        .iter()
        .map(|pod| std::sync::Arc::new(pod.clone().state("PreparingNormal").typed()));
    observed.pods = under_way.collect();
    let busy = plan(&observed, &env());
    assert_eq!(busy.writes().count(), PODS_PER_ROUND);
    assert!(updated(&busy).is_empty());
    assert_eq!(busy.wake_after, Some(Duration::ZERO));
}

#[test]
fn pods_that_wait_for_their_hook_keep_no_others_from_beginning() {
    let hooked = |waiting: usize, more: usize| {
        let name = |number: usize| format!("web-{number:04}");
        let mut pods: Vec<PodBuilder> = (0..waiting)
            .map(|number| ready(&name(number)).state("PreparingUpdate").label("hold", "true"))
            .collect();
        pods.extend((waiting..waiting + more).map(|number| ready(&name(number))));
        let mut observed = rolled(&json!({ "maxUnavailable": "100%" }), &pods);
        let mut set = (*observed.set).clone();
        let hook = json!({ "inPlaceUpdate": { "labelsHandler": { "hold": "true" } } });
        set.spec.lifecycle = serde_json::from_value(hook).unwrap();
        observed.set = set.into();
        plan(&observed, &env())
    };
    let waiting = hooked(PODS_PER_ROUND + 1, 0);
    assert_eq!(
        (waiting.writes().count(), waiting.wake_after),
        (0, None),
        "at once would be for ever"
    );
    let begun = hooked(PODS_PER_ROUND, 20);
    let written: BTreeSet<&str> = begun.writes().map(|action| action.object().name.as_str()).collect();
    assert_eq!((written.len(), begun.wake_after), (20, None));
}

#[test]
fn a_round_that_creates_a_pod_gives_the_others_what_they_need_first() {
    let pods = [
        pod("web-a").state("PreparingNormal").ready().on_node("n"),
        ready("web-b"),
    ];
    let mut observed = rolled(&json!({}), &pods);
    let mut set = (*observed.set).clone();
    set.spec.replicas = Some(3);
    observed.set = set.into();
    let plan = plan(&observed, &env());
    let written: Vec<&str> = plan.writes().map(|action| action.object().name.as_str()).collect();
    assert_eq!(written.first(), Some(&"web-a"), "{written:?}");
    assert!(
        matches!(plan.writes().last(), Some(Action::Create { .. })),
        "{written:?}"
    );
    assert!(updated(&plan).is_empty());
}
