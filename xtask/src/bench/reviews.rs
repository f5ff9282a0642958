//! Requests as the API server sends them.

use kruise_api::names;
use serde_json::{Value, json};

pub(super) const POD_PATH: &str = "/mutate-pod";
pub(super) const POD_DELETION_PATH: &str = "/validate-pod";
pub(super) const NAMESPACE_DELETION_PATH: &str = "/validate-namespace";
pub(super) const CLONE_SET_PATH: &str = "/validate-apps-kruise-io-cloneset";

/// What the webhook has to do to a Pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    Nothing,
    /// A CloneSet owns it: it gets a readiness gate.
    Gate,
    /// Its containers start in order, too.
    GateAndOrder,
}

/// The creation of a Pod, as the API server asks about it.
pub(super) fn pod(containers: usize, work: Work) -> String {
    pod_request(containers, work).to_string()
}

fn pod_request(containers: usize, work: Work) -> Value {
    let container = |number: usize| {
        json!({
            "name": format!("c{number}"), "image": format!("registry.example/c{number}:1.25"), "imagePullPolicy": "IfNotPresent",
            "env": [{"name": "A", "value": "1"}, {"name": "NODE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}}],
            "ports": [{"containerPort": 8080, "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true}],
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        })
    };
    let mut metadata = json!({
        "name": "demo-x2kfz", "generateName": "demo-", "namespace": "default",
        "labels": {"app": "demo", "controller-revision-hash": "demo-788944f45"},
    });
    if work == Work::GateAndOrder {
        metadata["annotations"] = json!({(names::annotation::LAUNCH_PRIORITY): "Ordered"});
    }
    if work != Work::Nothing {
        metadata["ownerReferences"] = json!([{
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "demo",
            "uid": "3a52ce5e-0b3c-4a31-a3c4-a6ae0e6a3f54", "controller": true, "blockOwnerDeletion": true,
        }]);
    }
    let containers: Vec<Value> = (0..containers).map(container).collect();
    request(
        &["", "v1", "Pod", "pods"],
        &json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {
                "containers": containers, "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
                "serviceAccountName": "default", "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30,
                "volumes": [{"name": "token", "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]}}],
            },
            "status": {},
        }),
    )
}

/// The creation of a CloneSet; every number gives another template.
pub(super) fn clone_set(number: u32) -> String {
    let container = json!({
        "name": "main", "image": format!("registry.example/main:{number}"), "env": [{"name": "NUMBER", "value": number.to_string()}],
        "ports": [{"containerPort": 8080}], "resources": {"requests": {"cpu": "0.1", "memory": "128Mi"}},
    });
    review(
        &["apps.kruise.io", "v1beta1", "CloneSet", "clonesets"],
        &json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
            "metadata": {"name": "demo", "namespace": "default"},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": {"app": "demo"}}, "revisionHistoryLimit": 10,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "ReCreate", "maxUnavailable": "20%", "partition": 0}},
                "template": {"metadata": {"labels": {"app": "demo"}}, "spec": {"containers": [container]}},
            },
        }),
    )
}

/// The deletion of a Pod that is available, in a dry run; a budget covers it, or none does.
pub(super) fn pod_deletion(namespace: &str, budget: Option<&str>) -> String {
    let mut request = pod_request(2, Work::Nothing);
    let pod = &mut request["request"]["object"];
    let annotations = budget
        .map(|name| json!({(names::annotation::RELATED_BUDGET): name, (names::annotation::RELATED_BUDGET_OLD): name}));
    pod["metadata"]["namespace"] = json!(namespace);
    pod["metadata"]["annotations"] = json!(annotations);
    pod["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    request["request"]["namespace"] = json!(namespace);
    deletion(request, true)
}

/// The deletion of a namespace that is protected as long as something is in it.
pub(super) fn namespace_deletion(name: &str) -> String {
    let labels = json!({(names::label::DELETE_PROTECTION): names::label::DELETE_PROTECTION_CASCADING});
    let metadata = json!({"name": name, "labels": labels});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
    deletion(request(&["", "v1", "Namespace", "namespaces"], &namespace), false)
}

/// What creates an object, as what deletes it.
fn deletion(mut review: Value, dry_run: bool) -> String {
    let request = &mut review["request"];
    request["operation"] = json!("DELETE");
    request["dryRun"] = json!(dry_run);
    request["oldObject"] = request["object"].take();
    request["options"] = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
    review.to_string()
}

fn review(kind: &[&str; 4], object: &Value) -> String {
    request(kind, object).to_string()
}

fn request([group, version, kind, plural]: &[&str; 4], object: &Value) -> Value {
    let kind = json!({"group": group, "version": version, "kind": kind});
    let resource = json!({"group": group, "version": version, "resource": plural});
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "0df28fbd-5f5f-11e8-bc74-36e6bb280816",
            "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
            "name": object["metadata"]["name"], "namespace": "default", "operation": "CREATE", "dryRun": false, "oldObject": null,
            "userInfo": {"username": "system:serviceaccount:kruise-system:kruise-manager", "groups": ["system:authenticated"]},
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            "object": object,
        },
    })
}
