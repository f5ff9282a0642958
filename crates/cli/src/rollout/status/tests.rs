use super::*;
use crate::kinds;
use serde_json::json;

fn object(word: &str, spec: &Value, status: &Value) -> Object {
    let (kind, _) = kinds::resolve(word).unwrap();
    let version = kind.versions()[0];
    let api_version = format!("{}/{version}", kind.group);
    let value = json!({"apiVersion": api_version, "kind": kind.kind, "metadata": {"name": "web", "generation": 2}, "spec": spec, "status": status});
    Object { kind, version, value }
}

fn told(word: &str, spec: &Value, status: &Value) -> (String, bool) {
    let status = status_of(word, spec, status).unwrap();
    (status.line, status.is_done)
}

fn status_of(word: &str, spec: &Value, status: &Value) -> Result<Status> {
    super::status(&object(word, spec, status), 0)
}

fn merged(mut base: Value, more: &Value) -> Value {
    kruise_api::merge_patch::merge(&mut base, more);
    base
}

#[test]
fn a_partition_keeps_what_the_controller_keeps() {
    for (partition, replicas, expected) in [
        (json!(null), 5, 0),
        (json!(2), 5, 2),
        (json!(9), 5, 5),
        (json!(-1), 5, 0),
        (json!("50%"), 5, 3),
        (json!("99%"), 5, 4),
        (json!("100%"), 5, 5),
        (json!("99%"), 1, 1),
        (json!("odd"), 5, 0),
        (json!({}), 5, 0),
        (json!(3), 0, 0),
    ] {
        assert_eq!(kept(Some(&partition), replicas), expected, "{partition} of {replicas}");
    }
}

#[test]
fn given_a_cloneset_then_it_is_complete_only_after_all_that_has_to_happen() {
    let in_place = json!({"replicas": 5, "updateStrategy": {"type": "RollingUpdate",
        "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "partition": "40%"}}});
    let anew = json!({"replicas": 5, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "ReCreate"}}});
    let done = json!({"observedGeneration": 2, "replicas": 5, "readyReplicas": 5, "availableReplicas": 4, "updatedReplicas": 5,
        "updatedReadyReplicas": 5, "updateRevision": "web-7d9"});
    let with = |more: Value| merged(done.clone(), &more);
    for (spec, status, line, is_done) in [
        (
            &in_place,
            with(json!({"observedGeneration": 1})),
            "Waiting for CloneSet spec update to be observed...",
            false,
        ),
        (
            &in_place,
            json!({}),
            "Waiting for CloneSet spec update to be observed...",
            false,
        ),
        (
            &in_place,
            with(json!({"updatedReplicas": 2, "updatedReadyReplicas": 2})),
            "Waiting for partitioned roll out to finish: 2 out of 3 new pods have been updated...",
            false,
        ),
        (
            &in_place,
            with(json!({"updatedReplicas": 3, "updatedReadyReplicas": 1})),
            "Waiting for 2 pods to be ready...",
            false,
        ),
        (
            &in_place,
            with(json!({"updatedReplicas": 3, "updatedReadyReplicas": 3, "readyReplicas": 3})),
            "partitioned roll out complete: 3 new pods have been updated...",
            true,
        ),
        (
            &anew,
            with(json!({"updatedReplicas": 4})),
            "Waiting for partitioned roll out to finish: 4 out of 5 new pods have been updated...",
            false,
        ),
        (
            &anew,
            with(json!({"replicas": 6})),
            "Waiting for 1 old pods to be gone...",
            false,
        ),
        (
            &anew,
            done.clone(),
            "CloneSet rolling update complete 4 pods at revision web-7d9...",
            true,
        ),
    ] {
        assert_eq!(told("clone", spec, &status), (line.to_owned(), is_done), "{status}");
    }
}

#[test]
fn given_a_failed_or_manual_rollout_then_it_is_an_error() {
    let late = json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]);
    let status = json!({"observedGeneration": 2, "conditions": late});
    let error = |word: &str, spec: Value, status: &Value| status_of(word, &spec, status).unwrap_err().to_string();
    assert_eq!(
        error("clone", json!({}), &status),
        "cloneset \"web\" exceeded its progress deadline"
    );
    assert_eq!(
        error("deploy", json!({}), &status),
        "deployment \"web\" exceeded its progress deadline"
    );
    // What it says of an older spec does not count.
    let old = merged(status, &json!({"observedGeneration": 1}));
    assert!(status_of("clone", &json!({}), &old).is_ok());
    for word in ["clone", "asts", "ads", "sts", "ds"] {
        let spec = json!({"updateStrategy": {"type": "OnDelete"}});
        assert_eq!(
            error(word, spec, &json!({})),
            "rollout status is only available for RollingUpdate strategy type"
        );
    }
    assert_eq!(
        error("pub", json!({}), &json!({})),
        "no status viewer has been implemented for PodUnavailableBudget.policy.kruise.io"
    );
}

#[test]
fn given_other_kinds_of_ours_then_they_go_the_same_steps() {
    let sets = |more: Value| {
        merged(
            json!({"observedGeneration": 2, "replicas": 3, "readyReplicas": 3, "updatedReplicas": 3, "updatedReadyReplicas": 3,
            "availableReplicas": 3, "updateRevision": "web-1"}),
            &more,
        )
    };
    let three = json!({"replicas": 3, "updateStrategy": {"type": "RollingUpdate"}});
    let kept = merged(
        three.clone(),
        &json!({"updateStrategy": {"rollingUpdate": {"partition": 2}}}),
    );
    for (spec, status, line) in [
        (
            &three,
            sets(json!({})),
            "Advanced StatefulSet rolling update complete 3 pods at revision web-1...",
        ),
        (
            &three,
            sets(json!({"updatedReplicas": 1, "updatedReadyReplicas": 1})),
            "Waiting for partitioned roll out to finish: 1 out of 3 new pods have been updated...",
        ),
        (
            &three,
            sets(json!({"updatedReadyReplicas": null, "readyReplicas": 2})),
            "Waiting for 1 pods to be ready...",
        ),
        (
            &kept,
            sets(json!({"updatedReplicas": 1, "updatedReadyReplicas": 1})),
            "partitioned roll out complete: 1 new pods have been updated...",
        ),
    ] {
        assert_eq!(told("asts", spec, &status).0, line, "{status}");
    }
    let united = json!({"replicas": 3, "updateStrategy": {"manualUpdate": {"partitions": {"a": 1}}}});
    assert_eq!(
        told("ud", &united, &sets(json!({"updatedReplicas": 2}))).0,
        "partitioned roll out complete: 2 new pods have been updated..."
    );
    let matched = json!({"observedGeneration": 2, "matchedPods": 4, "updatedPods": 1, "updatedReadyPods": 1});
    assert_eq!(
        told("sidecarset", &json!({"updateStrategy": {"partition": "50%"}}), &matched).0,
        "Waiting for partitioned roll out to finish: 1 out of 2 new pods have been updated..."
    );
}

#[test]
fn given_daemonsets_and_native_workloads_then_they_are_told_as_kubectl_tells_them() {
    let nodes = |more: Value| {
        merged(
            json!({"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": 3}),
            &more,
        )
    };
    for word in ["ds", "ads"] {
        for (status, line) in [
            (nodes(json!({})), "daemon set \"web\" successfully rolled out"),
            (
                nodes(json!({"updatedNumberScheduled": 1})),
                "Waiting for daemon set \"web\" rollout to finish: 1 out of 3 new pods have been updated...",
            ),
            (
                nodes(json!({"numberAvailable": 2})),
                "Waiting for daemon set \"web\" rollout to finish: 2 of 3 updated pods are available...",
            ),
        ] {
            assert_eq!(told(word, &json!({}), &status).0, line);
        }
    }
    let kept = json!({"updateStrategy": {"rollingUpdate": {"partition": 2}}});
    let (line, is_done) = told("ads", &kept, &nodes(json!({"updatedNumberScheduled": 1})));
    assert_eq!(line, "partitioned roll out complete: 1 new pods have been updated...");
    assert!(is_done);
    let set = json!({"observedGeneration": 2, "readyReplicas": 1, "currentRevision": "a", "updateRevision": "b", "updatedReplicas": 0});
    assert_eq!(
        told("sts", &json!({}), &set).0,
        "waiting for statefulset rolling update to complete 0 pods at revision b..."
    );
    let same = merged(set, &json!({"updateRevision": "a", "currentReplicas": 1}));
    assert_eq!(
        told("sts", &json!({}), &same).0,
        "statefulset rolling update complete 1 pods at revision a..."
    );
    let counts = json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 2, "availableReplicas": 2});
    assert_eq!(
        told("deploy", &json!({"replicas": 2}), &counts).0,
        "Waiting for deployment \"web\" rollout to finish: 1 old replicas are pending termination..."
    );
    let other = super::status(&object("deploy", &json!({}), &counts), 3).unwrap_err();
    assert!(other.to_string().starts_with("desired revision (3)"), "{other}");
}

#[test]
fn given_nonsense_then_nothing_breaks() {
    for word in ["clone", "asts", "ads", "ud", "sidecarset", "deploy", "sts", "ds"] {
        for value in [
            json!(null),
            json!([]),
            json!({"replicas": -3, "observedGeneration": 9, "updatedReplicas": -1}),
        ] {
            if let Ok(status) = status_of(word, &value, &value) {
                assert!(
                    (0..=status.wanted.max(0)).contains(&status.ready),
                    "{word} {value} {status:?}"
                );
            }
        }
    }
}
