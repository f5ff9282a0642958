use kruise_api::kind::Kind as _;
use kruise_api::revision::ControllerRevision;
use serde_json::json;

use super::super::fixtures::{SET_UID, claim, env, from_parts, set};
use super::super::plan;
use super::*;
use crate::plan::{Action, Plan};

fn created(plan: &Plan) -> Vec<Value> {
    let bodies = plan.writes().filter_map(|action| match action {
        Action::Create { object, body } if object.resource != ControllerRevision::RESOURCE => Some(body.json()),
        _ => None,
    });
    bodies.collect()
}

fn rich() -> Value {
    set(&json!({
        "replicas": 1,
        "template": {
            "metadata": {
                "labels": { "app": "web", "tier": "front" }, "annotations": { "note": "1" }, "finalizers": ["example.com/wait"],
            },
            "spec": {
                "containers": [{ "name": "main", "image": "nginx:1", "tomorrow": true }],
                "volumes": [{ "name": "data", "emptyDir": {} }, { "name": "tmp", "emptyDir": {} }],
            },
        },
        "volumeClaimTemplates": [{
            "metadata": { "name": "data", "labels": { "kind": "disk" }, "annotations": { "a": "b" } },
            "spec": { "accessModes": ["ReadWriteOnce"] }, "status": { "phase": "Pending" },
        }],
    }))
}

#[test]
fn a_pod_is_what_its_template_says_and_what_the_set_adds() {
    let plan = plan(&from_parts(&rich(), &[], &[], &[]), &env());
    let objects = created(&plan);
    let [claim, pod] = &objects[..] else {
        panic!("{objects:?}")
    };
    let id = pod["metadata"]["labels"]["apps.kruise.io/cloneset-instance-id"]
        .as_str()
        .unwrap();
    let revision = pod["metadata"]["labels"]["controller-revision-hash"].as_str().unwrap();
    let hash = revision.strip_prefix("web-").unwrap();
    assert_eq!(
        pod,
        &json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("web-{id}"), "generateName": "web-", "namespace": "shop",
                "labels": {
                    "app": "web", "tier": "front", "apps.kruise.io/cloneset-instance-id": id,
                    "controller-revision-hash": revision, "pod-template-hash": hash,
                    "lifecycle.apps.kruise.io/state": "PreparingNormal",
                },
                "annotations": { "note": "1", "lifecycle.apps.kruise.io/timestamp": "2024-05-01T10:00:00Z" },
                "finalizers": ["example.com/wait"],
                "ownerReferences": [{
                    "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web", "uid": SET_UID,
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "containers": [{ "name": "main", "image": "nginx:1", "tomorrow": true }],
                "readinessGates": [{ "conditionType": "InPlaceUpdateReady" }],
                "volumes": [
                    { "name": "data", "persistentVolumeClaim": { "claimName": format!("data-web-{id}") } },
                    { "name": "tmp", "emptyDir": {} },
                ],
            },
        })
    );
    assert_eq!(
        claim,
        &json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": format!("data-web-{id}"), "namespace": "shop",
                "labels": { "kind": "disk", "app": "web", "apps.kruise.io/cloneset-instance-id": id },
                "annotations": { "a": "b" },
                "ownerReferences": pod["metadata"]["ownerReferences"],
            },
            "spec": { "accessModes": ["ReadWriteOnce"] },
        })
    );
}

#[test]
fn with_the_short_hash_gate_the_revision_label_is_only_the_hash() {
    let mut env = env();
    env.gates = env.gates.with(kruise_api::gates::Gate::CloneSetShortHash, true);
    let plan = plan(&from_parts(&set(&json!({ "replicas": 1 })), &[], &[], &[]), &env);
    let labels = created(&plan)[0]["metadata"]["labels"].clone();
    assert_eq!(labels["controller-revision-hash"], labels["pod-template-hash"]);
}

#[test]
fn given_a_waiting_claim_and_reuse_then_the_pod_takes_its_id_and_no_second_claim_is_made() {
    let mut set = rich();
    set["spec"]["scaleStrategy"] = json!({ "enablePVCReuse": true });
    let plan = plan(&from_parts(&set, &[], &[claim("data", "k2v7x")], &[]), &env());
    let names: Vec<Value> = created(&plan)
        .iter()
        .map(|object| object["metadata"]["name"].clone())
        .collect();
    assert_eq!(names, ["web-k2v7x"]);
}

#[test]
fn a_gate_that_the_template_has_already_is_not_added_twice() {
    let mut set = rich();
    set["spec"]["template"]["spec"]["readinessGates"] =
        json!([{ "conditionType": "InPlaceUpdateReady" }, { "conditionType": "x" }]);
    let plan = plan(&from_parts(&set, &[], &[], &[]), &env());
    assert_eq!(created(&plan)[1]["spec"]["readinessGates"].as_array().unwrap().len(), 2);
}

#[test]
fn fresh_ids_are_all_different_and_not_taken() {
    let first = fresh_ids(IdSource::seeded(1), &BTreeSet::new(), 3);
    let taken: BTreeSet<&str> = first.iter().map(String::as_str).collect();
    let next = fresh_ids(IdSource::seeded(1), &taken, 3);
    assert_eq!((first.len(), next.len()), (3, 3));
    assert!(next.iter().all(|id| !taken.contains(&**id)));
}

#[test]
fn creation_is_slow_start_and_tells_what_happened() {
    let plan = plan(&from_parts(&set(&json!({})), &[], &[], &[]), &env());
    let [revision, pods] = &plan.actions[..] else {
        panic!("{plan:?}")
    };
    assert_eq!(
        (revision.phase, revision.on_failure),
        (crate::plan::Phase::Revisions, crate::plan::OnFailure::Stop)
    );
    assert_eq!((pods.pace, pods.chains.len()), (crate::plan::Pace::SlowStart, 3));
    let write = &pods.chains[0].writes[0];
    let name = &write.action.object().name;
    assert_eq!(
        write.succeeded,
        [Event::normal(
            "SuccessfulCreate",
            format!("succeed to create pod {name}")
        )]
    );
    assert_eq!(write.failed.as_ref().map(|event| event.reason), Some("FailedCreate"));
}

#[test]
fn a_directive_that_was_stored_in_the_template_reaches_neither_pods_nor_revisions() {
    let clean = plan(&from_parts(&rich(), &[], &[], &[]), &env());
    let mut set = rich();
    set["spec"]["template"]["$patch"] = json!("replace");
    let marked = plan(&from_parts(&set, &[], &[], &[]), &env());
    assert_eq!(created(&marked), created(&clean));
}
