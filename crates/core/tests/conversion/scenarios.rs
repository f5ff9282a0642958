//! The rules as a user would tell them: given an object in one version, then this in the other.

use super::fixture::flip;
use kruise_api::names::{annotation, label};
use kruise_core::conversion::convert;
use serde_json::{Value, json};

// What `json!` makes is handed over whole.
#[allow(clippy::needless_pass_by_value)]
fn object(version: &str, kind: &str, metadata: Value, spec: Value) -> Value {
    json!({"apiVersion": format!("apps.kruise.io/{version}"), "kind": kind, "metadata": metadata, "spec": spec})
}

fn with_status(mut object: Value, status: Value) -> Value {
    object["status"] = status;
    object
}

fn alpha(kind: &str, metadata: Value, spec: Value) -> Value {
    object("v1alpha1", kind, metadata, spec)
}

fn beta(kind: &str, metadata: Value, spec: Value) -> Value {
    object("v1beta1", kind, metadata, spec)
}

#[allow(clippy::needless_pass_by_value)]
fn budget(metadata: Value, spec: Value) -> Value {
    json!({"apiVersion": "policy.kruise.io/v1alpha1", "kind": "PodUnavailableBudget", "metadata": metadata, "spec": spec})
}

#[test]
fn cloneset_update_strategy_moves_and_comes_back_unchanged() {
    let given = alpha(
        "CloneSet",
        json!({"name": "x"}),
        json!({
            "replicas": 3,
            "updateStrategy": {"type": "InPlaceIfPossible", "partition": "50%", "maxSurge": 1, "paused": true,
                "inPlaceUpdateStrategy": {"gracePeriodSeconds": 9}},
        }),
    );
    let seen = flip(&given);
    let expected = json!({
        "replicas": 3,
        "scaleStrategy": {"enablePVCReuse": true},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {
            "podUpdatePolicy": "InPlaceIfPossible", "partition": "50%", "maxSurge": 1, "paused": true,
            "inPlaceUpdateStrategy": {"gracePeriodSeconds": 9}}},
    });
    assert_eq!(seen["spec"], expected);
    assert_eq!(flip(&seen), given);
}

#[test]
fn cloneset_pvc_reuse_is_the_opposite_field() {
    let reuse = |version: &str, scale: Value| {
        let mut seen = flip(&object(
            version,
            "CloneSet",
            json!({"name": "x"}),
            json!({"scaleStrategy": scale}),
        ));
        seen["spec"]["scaleStrategy"].take()
    };
    assert_eq!(reuse("v1alpha1", json!(null)), json!({"enablePVCReuse": true}));
    assert_eq!(
        reuse("v1alpha1", json!({"disablePVCReuse": true})),
        json!({"enablePVCReuse": false})
    );
    assert_eq!(
        reuse("v1beta1", json!({"maxUnavailable": 1})),
        json!({"disablePVCReuse": true, "maxUnavailable": 1})
    );
    assert_eq!(
        reuse("v1beta1", json!({"enablePVCReuse": true, "maxUnavailable": 1})),
        json!({"maxUnavailable": 1})
    );
    let stray = json!({"enablePVCReuse": false});
    assert_eq!(
        reuse("v1alpha1", stray),
        json!({"enablePVCReuse": true}),
        "not a field of v1alpha1"
    );
}

#[test]
fn cloneset_on_delete_has_no_rolling_update() {
    let spec = json!({"updateStrategy": {"type": "OnDelete", "partition": 3, "inPlaceUpdateStrategy": {}}});
    let seen = flip(&alpha("CloneSet", json!({"name": "x"}), spec));
    assert_eq!(seen["spec"]["updateStrategy"], json!({"type": "OnDelete"}));
    assert_eq!(flip(&seen)["spec"]["updateStrategy"], json!({"type": "OnDelete"}));
}

#[test]
fn cloneset_pre_download_annotations_become_fields_if_v1beta1_accepts_them() {
    let block = |parallelism: &str, timeout: &str| {
        let annotations = json!({annotation::PRE_DOWNLOAD_PARALLELISM: parallelism,
            annotation::PRE_DOWNLOAD_TIMEOUT_SECONDS: timeout});
        let given = alpha("CloneSet", json!({"name": "x", "annotations": annotations}), json!({}));
        let mut object = given.as_object().unwrap().clone();
        let warnings = convert(&mut object, "apps.kruise.io/v1beta1").unwrap();
        assert_eq!(object["metadata"], given["metadata"], "annotations stay");
        let rolling = &object["spec"]["updateStrategy"]["rollingUpdate"];
        (rolling["inPlaceUpdateStrategy"].clone(), warnings.len())
    };
    assert_eq!(
        block("5", "60"),
        (
            json!({"imagePreDownloadParallelism": 5, "imagePreDownloadTimeoutSeconds": 60}),
            0
        )
    );
    assert_eq!(block("0", ""), (json!({"imagePreDownloadParallelism": 0}), 0));
    assert_eq!(block("20%", "abc"), (Value::Null, 2));
    assert_eq!(block("-1", "99999999999"), (Value::Null, 2));
    assert_eq!(block("", ""), (Value::Null, 0));
}

#[test]
fn cloneset_pre_download_fields_of_v1alpha1_have_no_effect() {
    let block = json!({"gracePeriodSeconds": 3, "imagePreDownloadParallelism": 7});
    let spec = json!({"updateStrategy": {"inPlaceUpdateStrategy": block}});
    let seen = flip(&alpha("CloneSet", json!({"name": "x"}), spec));
    let rolling = &seen["spec"]["updateStrategy"]["rollingUpdate"];
    assert_eq!(rolling["inPlaceUpdateStrategy"], json!({"gracePeriodSeconds": 3}));
}

#[test]
fn sidecarset_namespace_and_custom_version() {
    let metadata = json!({"name": "x", "labels": {label::SIDECAR_SET_CUSTOM_VERSION: "v2"}});
    let given = alpha("SidecarSet", metadata.clone(), json!({"namespace": "a"}));
    let selector = json!({"matchLabels": {label::NAMESPACE_NAME: "a"}});
    let seen = flip(&given);
    assert_eq!(seen["metadata"], json!({"name": "x"}));
    assert_eq!(
        seen["spec"],
        json!({"namespaceSelector": selector, "customVersion": "v2"})
    );
    let back = flip(&seen);
    assert_eq!(back["metadata"], metadata);
    assert_eq!(back["spec"], json!({"namespaceSelector": selector}));
}

#[test]
fn statefulset_fields_of_v1beta1_are_lost_in_v1alpha1() {
    let given = beta(
        "StatefulSet",
        json!({"name": "x"}),
        json!({"reserveOrdinals": [1], "replicas": 2}),
    );
    let seen = flip(&given);
    assert_eq!(seen["spec"], json!({"replicas": 2}));
    assert_eq!(flip(&seen)["spec"], json!({"replicas": 2}));
}

#[test]
fn daemonset_surging_becomes_standard_for_good() {
    let spec = |kind: &str| json!({"updateStrategy": {"rollingUpdate": {"rollingUpdateType": kind}}});
    let seen = flip(&alpha("DaemonSet", json!({"name": "x"}), spec("Surging")));
    assert_eq!(seen["spec"], spec("Standard"));
    assert_eq!(flip(&seen)["spec"], spec("Standard"));
}

#[test]
fn uniteddeployment_status_in_both_shapes() {
    let subsets = json!([{"name": "a", "replicas": 3, "partition": 1}, {"name": "b", "replicas": 2, "partition": 0}]);
    let status = json!({"subsetStatuses": subsets, "updatedRevision": "r"});
    let given = with_status(beta("UnitedDeployment", json!({"name": "x"}), json!({})), status);
    let seen = flip(&given);
    assert_eq!(seen["status"]["subsetReplicas"], json!({"a": 3, "b": 2}));
    let update = json!({"updatedRevision": "r", "currentPartitions": {"a": 1, "b": 0}});
    assert_eq!(seen["status"]["updateStatus"], update);
    assert_eq!(flip(&seen), given);
}

#[test]
fn uniteddeployment_cloneset_template_of_1_9_is_translated() {
    let given = |clone_set: Value| {
        let template = json!({"template": {"cloneSetTemplate": {"metadata": {}, "spec": clone_set}}});
        let mut seen = flip(&alpha("UnitedDeployment", json!({"name": "x"}), template));
        seen["spec"]["template"]["cloneSetTemplate"]["spec"].take()
    };
    let old = json!({"updateStrategy": {"type": "InPlaceIfPossible", "partition": 2}});
    let new = json!({
        "scaleStrategy": {"enablePVCReuse": true},
        "updateStrategy": {"type": "RollingUpdate",
            "rollingUpdate": {"partition": 2, "podUpdatePolicy": "InPlaceIfPossible"}},
    });
    assert_eq!(given(old), new);
    assert_eq!(given(new.clone()), new, "the new shape is left alone");
    let disabled = json!({"scaleStrategy": {"disablePVCReuse": true}});
    assert_eq!(given(disabled), json!({"scaleStrategy": {"enablePVCReuse": false}}));
    for either in [
        json!({}),
        json!({"updateStrategy": {}}),
        json!({"updateStrategy": {"type": "OnDelete"}}),
    ] {
        assert_eq!(given(either.clone()), either);
    }
    let mixed = json!({"scaleStrategy": {"enablePVCReuse": false}, "updateStrategy": {"type": "ReCreate"}});
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "ReCreate"}});
    assert_eq!(
        given(mixed),
        json!({"scaleStrategy": {"enablePVCReuse": false}, "updateStrategy": rolling})
    );
}

#[test]
fn workloadspread_conditions_get_what_v1beta1_requires() {
    let condition = json!({"type": "Schedulable", "status": "True"});
    let status = json!({"subsetStatuses": [{"name": "a", "conditions": [condition]}]});
    let seen = flip(&with_status(
        alpha("WorkloadSpread", json!({"name": "x"}), json!({})),
        status,
    ));
    let expected = json!({"type": "Schedulable", "status": "True", "reason": "Unknown", "message": "",
        "lastTransitionTime": "1970-01-01T00:00:00Z"});
    assert_eq!(seen["status"]["subsetStatuses"][0]["conditions"][0], expected);
}

#[test]
fn containerrecreaterequest_annotations_become_status() {
    let annotations = json!({annotation::CRR_UNREADY_ACQUIRED: "2024-01-02T05:04:05+02:00",
        annotation::CRR_CONTAINER_STATUSES: "[{\"name\":\"a\",\"ready\":true,\"new\":1}]"});
    let metadata = json!({"name": "x", "annotations": annotations});
    let given = alpha("ContainerRecreateRequest", metadata.clone(), json!({}));
    let statusless = flip(&given);
    assert_eq!(statusless.get("status"), None, "there is no phase to give");
    let seen = flip(&with_status(given, json!({"phase": "Recreating"})));
    assert_eq!(seen["metadata"], metadata, "annotations stay");
    let condition = &seen["status"]["conditions"][0];
    assert_eq!(condition["type"], "PreRecreateGrace");
    assert_eq!(condition["lastTransitionTime"], "2024-01-02T03:04:05Z");
    let snapshot = json!([{"name": "a", "ready": true, "restartCount": 0, "new": 1}]);
    assert_eq!(seen["status"]["containerStatusSnapshot"], snapshot);
    let back = flip(&seen);
    assert_eq!(back["status"], json!({"phase": "Recreating"}));
    assert_eq!(
        back["metadata"], metadata,
        "what says the same is left as it is spelled"
    );
    let mut bare = seen;
    bare["metadata"] = json!({"name": "x"});
    let annotations = flip(&bare)["metadata"]["annotations"].take();
    assert_eq!(annotations[annotation::CRR_UNREADY_ACQUIRED], "2024-01-02T03:04:05Z");
    let text = "[{\"name\":\"a\",\"ready\":true,\"restartCount\":0,\"new\":1}]";
    assert_eq!(annotations[annotation::CRR_CONTAINER_STATUSES], text);
}

#[test]
fn budget_annotations_become_fields_and_bad_values_are_left_out() {
    let seen = |operations: &str, total: &str| {
        let annotations = json!({annotation::BUDGET_PROTECT_OPERATIONS: operations,
            annotation::BUDGET_TOTAL_REPLICAS: total});
        let mut object = budget(json!({"name": "x", "annotations": annotations}), json!({}))
            .as_object()
            .unwrap()
            .clone();
        let warnings = convert(&mut object, "policy.kruise.io/v1beta1").unwrap();
        assert_eq!(object["metadata"]["annotations"], annotations, "annotations stay");
        let back = flip(&Value::Object(object.clone()));
        assert!(
            back["metadata"]["annotations"]
                .get(annotation::BUDGET_PROTECT_OPERATIONS)
                .is_some()
        );
        (object["spec"].clone(), warnings.len())
    };
    let both = json!({"protectOperations": ["DELETE", "EVICT"], "protectTotalReplicas": 7});
    assert_eq!(seen("DELETE, EVICT", "7"), (both, 0));
    assert_eq!(seen("NOPE,DELETE", "0"), (json!({"protectOperations": ["DELETE"]}), 2));
    assert_eq!(seen("", ""), (json!({}), 0));
}
