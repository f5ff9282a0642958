use kruise_api::resource::Subresource;
use serde_json::{Value, json};

use super::super::fixtures::{env, observed, pod, rolling};
use super::super::plan;
use super::*;

fn patch(observed: &super::super::Observed) -> Value {
    match plan(observed, &env()).status {
        Some(Action::Patch {
            patch,
            subresource: Some(Subresource::Status),
            ..
        }) => patch.document()["status"].clone(),
        Some(other) => panic!("{other:?}"),
        None => Value::Null,
    }
}

#[test]
fn pods_are_counted_as_users_know_it() {
    let pods = [
        pod("web-a").ready().on_node("n").at("web-new"),
        pod("web-b").ready().on_node("n").at("web-new").state("Updated"),
        pod("web-c").unready().on_node("n").at("web-new"),
        pod("web-d").ready().on_node("n").specified_delete(),
        pod("web-e").ready().on_node("n").state("PreparingDelete"),
        pod("web-f").ready().on_node("n").deleting(),
        pod("web-g").phase("Failed"),
        pod("web-h").phase("Succeeded"),
    ];
    let status = patch(&rolling(&json!({ "replicas": 5 }), &pods));
    assert_eq!(
        status,
        json!({
            "replicas": 5, "readyReplicas": 4, "availableReplicas": 2, "updatedReplicas": 3, "updatedReadyReplicas": 2,
            "updatedAvailableReplicas": 1, "expectedUpdatedReplicas": 5, "labelSelector": "app=web",
        })
    );
}

#[test]
fn the_current_revision_flips_without_waiting_for_readiness() {
    let at_new = |name: &str| pod(name).unready().on_node("n").at("new");
    let some = rolling(
        &json!({}),
        &[at_new("web-a"), at_new("web-b"), pod("web-c").ready().on_node("n")],
    );
    assert_eq!(patch(&some).get("currentRevision"), None);
    let all = rolling(&json!({}), &[at_new("web-a"), at_new("web-b"), at_new("web-c")]);
    assert_eq!(patch(&all)["currentRevision"], "web-new");
    let too_few = rolling(
        &json!({ "replicas": 4 }),
        &[at_new("web-a"), at_new("web-b"), at_new("web-c")],
    );
    assert_eq!(patch(&too_few).get("currentRevision"), None);
}

#[test]
fn a_status_that_is_not_there_is_written_whole() {
    let mut observed = observed(&json!({}), &[]);
    std::sync::Arc::make_mut(&mut observed.set).status = None;
    let status = patch(&observed);
    for field in [
        "replicas",
        "readyReplicas",
        "availableReplicas",
        "updatedReplicas",
        "updatedReadyReplicas",
        "collisionCount",
    ] {
        assert_eq!(status[field], 0, "{field}");
    }
    assert_eq!(status["updateRevision"], "web-old");
}

#[test]
fn times_and_texts_of_conditions_alone_are_no_news() {
    let failed = |message: &str| -> CloneSetStatus {
        serde_json::from_value(json!({
            "replicas": 1, "conditions": [{ "type": "FailedUpdate", "status": "True", "message": message }],
        }))
        .unwrap()
    };
    assert!(!needs_update(&failed("a"), &failed("b")));
    assert!(needs_update(
        &CloneSetStatus {
            replicas: 1,
            ..CloneSetStatus::default()
        },
        &failed("a")
    ));
    let collided = CloneSetStatus {
        collision_count: Some(3),
        ..failed("a")
    };
    assert!(!needs_update(&failed("a"), &collided));
    assert!(needs_update(
        &failed("a"),
        &CloneSetStatus {
            observed_generation: 2,
            ..failed("a")
        }
    ));
}

#[test]
fn an_old_condition_of_the_original_is_not_cleared() {
    let mut observed = observed(&json!({ "replicas": 0 }), &[]);
    let set = std::sync::Arc::make_mut(&mut observed.set);
    let before: CloneSetStatus = serde_json::from_value(json!({
        "observedGeneration": 1, "currentRevision": "web-old", "updateRevision": "web-old", "collisionCount": 0, "labelSelector": "app=web",
        "conditions": [{ "type": "FailedUpdate", "status": "True", "message": "Operation cannot be fulfilled" }],
    }))
    .unwrap();
    set.status = Some(before);
    assert_eq!(patch(&observed), Value::Null);
}
