use kruise_api::kind::Kind as _;
use kruise_api::revision::ControllerRevision;
use serde_json::json;

use super::super::fixtures::{env, observed, pod, revision, rolling, template};
use super::super::plan;
use super::*;
use crate::plan::{Action, Phase};

#[test]
fn a_rollback_gives_the_old_revision_the_highest_number() {
    let pods: Vec<_> = ["web-a", "web-b", "web-c"]
        .iter()
        .map(|name| pod(name).ready().on_node("n").at("web-new"))
        .collect();
    let mut observed = rolling(&json!({ "template": template("nginx:1") }), &pods);
    let plan = plan(&observed, &env());
    let Some(Action::Patch {
        object,
        patch,
        preconditions,
        ..
    }) = plan.writes().next()
    else {
        panic!("{plan:?}")
    };
    assert_eq!(
        (object.resource, &*object.name),
        (ControllerRevision::RESOURCE, "web-old")
    );
    assert_eq!(patch.document()["revision"], 3);
    assert!(preconditions.resource_version.is_some() && patch.document()["metadata"].get("resourceVersion").is_none());
    observed.last = crate::plan::Outcome::default();
    assert!(
        plan.actions.iter().any(|step| step.phase == Phase::Update),
        "the update goes on at once"
    );
}

#[test]
fn revisions_in_use_are_never_removed_however_many_there_are() {
    let mut seen = observed(
        &json!({ "revisionHistoryLimit": 0, "replicas": 1 }),
        &[pod("web-a").ready().on_node("n").at("web-p2")],
    );
    let more = (2..5).map(|number| {
        let value = revision(
            &format!("web-p{number}"),
            number - 5,
            &template(&format!("nginx:p{number}")),
        );
        std::sync::Arc::new(serde_json::from_str(&value.to_string()).unwrap())
    });
    seen.revisions.extend(more);
    let plan = plan(&seen, &env());
    let removed: Vec<&str> = plan
        .writes()
        .filter(
            |action| matches!(action, Action::Delete { object, .. } if object.resource == ControllerRevision::RESOURCE),
        )
        .map(|action| action.object().name.as_str())
        .collect();
    assert_eq!(removed, ["web-p3", "web-p4"]);
}

#[test]
fn a_pod_tells_its_revision_by_name_or_by_hash() {
    let labels = |gates: Gates| pod_labels("demo-7c9f8", gates).into_values().collect::<Vec<_>>();
    assert_eq!(labels(Gates::default()), ["demo-7c9f8", "7c9f8"]);
    assert_eq!(
        labels(Gates::default().with(Gate::CloneSetShortHash, true)),
        ["7c9f8", "7c9f8"]
    );
}
