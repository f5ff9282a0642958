//! Which objects there are, where, and under which names: the names are a contract with existing installations.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::render::{chart, find, get, render, render_on, try_render};

const NS: &str = "kruise-system";
const CONFIG: &str = "kruise-daemon-config";

/// Kind, namespace and name of everything but CRDs.
const OBJECTS: [(&str, &str, &str); 32] = [
    ("Namespace", "", NS),
    ("Namespace", "", CONFIG),
    ("Deployment", NS, "kruise-controller-manager"),
    ("DaemonSet", NS, "kruise-daemon"),
    ("Service", NS, "kruise-webhook-service"),
    ("Secret", NS, "kruise-webhook-certs"),
    (
        "MutatingWebhookConfiguration",
        "",
        "kruise-mutating-webhook-configuration",
    ),
    (
        "ValidatingWebhookConfiguration",
        "",
        "kruise-validating-webhook-configuration",
    ),
    ("ServiceAccount", NS, "kruise-manager"),
    ("ServiceAccount", NS, "kruise-daemon"),
    ("ClusterRole", "", "kruise-manager-role"),
    ("ClusterRoleBinding", "", "kruise-manager-rolebinding"),
    ("ClusterRole", "", "kruise-daemon-role"),
    ("ClusterRoleBinding", "", "kruise-daemon-rolebinding"),
    ("ClusterRole", "", "kruise-certs-role"),
    ("ClusterRoleBinding", "", "kruise-certs-rolebinding"),
    ("Role", NS, "kruise-leader-election-role"),
    ("RoleBinding", NS, "kruise-leader-election-rolebinding"),
    ("Role", NS, "kruise-webhook-role"),
    ("RoleBinding", NS, "kruise-webhook-rolebinding"),
    ("Role", CONFIG, "kruise-daemon-secret-role"),
    ("RoleBinding", CONFIG, "kruise-daemon-secret-rolebinding"),
    ("Role", CONFIG, "kruise-manager-secret-role"),
    ("RoleBinding", CONFIG, "kruise-manager-secret-rolebinding"),
    ("ClusterRole", "", "aggregate-kruise-view"),
    ("ClusterRole", "", "aggregate-kruise-edit"),
    ("ClusterRole", "", "aggregate-kruise-admin"),
    // Not of OpenKruise.
    ("ClusterRole", "", "aggregate-kruise-explain"),
    ("Job", NS, "rel-finalizer"),
    ("ServiceAccount", NS, "kruise-helm-hook"),
    ("ClusterRole", "", "kruise-helm-hook-role"),
    ("ClusterRoleBinding", "", "kruise-helm-hook-rolebinding"),
];

fn names(objects: &[Value]) -> BTreeSet<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names: Vec<_> = objects
        .iter()
        .filter(|object| object["kind"] != "CustomResourceDefinition")
        .map(|object| {
            let meta = &object["metadata"];
            (text(&object["kind"]), text(&meta["namespace"]), text(&meta["name"]))
        })
        .collect();
    let unique: BTreeSet<_> = names.iter().cloned().collect();
    assert_eq!(unique.len(), names.len(), "an object is there twice");
    unique
}

fn expected(namespace: &str) -> BTreeSet<(String, String, String)> {
    let moved = |text: &str| if text == NS { namespace } else { text }.to_owned();
    OBJECTS
        .iter()
        .map(|(kind, place, name)| ((*kind).to_owned(), moved(place), moved(name)))
        .collect()
}

#[test]
fn given_default_values_then_exactly_the_objects_of_the_contract() {
    assert_eq!(names(&render(&json!({}))), expected(NS));
}

#[test]
fn given_another_namespace_then_everything_is_there_and_refers_to_it() {
    let objects = render(&json!({"installation": {"namespace": "foo"}}));
    assert_eq!(names(&objects), expected("foo"));
    let text = serde_json::to_string(&objects).unwrap();
    assert!(!text.contains(NS), "something still refers to {NS}");
    for binding in objects.iter().filter(|object| object["subjects"].is_array()) {
        assert_eq!(binding["subjects"][0]["namespace"], "foo", "{binding}");
    }
}

#[test]
fn given_a_namespace_of_the_users_then_it_is_not_created() {
    let objects = render(&json!({"installation": {"createNamespace": false}}));
    assert!(find(&objects, "Namespace", NS).is_none());
    assert!(find(&objects, "Namespace", CONFIG).is_some());
    let with = render(&json!({}));
    assert_eq!(
        get(&with, "Namespace", NS)["metadata"]["labels"]["control-plane"],
        "openkruise"
    );
}

#[test]
fn given_the_service_then_it_leads_to_the_webhook_port_of_the_manager() {
    let objects = render(&json!({"manager": {"webhook": {"port": 10250}}}));
    let spec = &get(&objects, "Service", "kruise-webhook-service")["spec"];
    assert_eq!(spec["ports"], json!([{"port": 443, "targetPort": 10250}]));
    assert_eq!(spec["selector"], json!({"control-plane": "controller-manager"}));
}

#[test]
fn given_annotations_for_service_accounts_then_both_have_them() {
    let objects = render(&json!({"serviceAccount": {"annotations": {"a/b": "c"}}}));
    for name in ["kruise-manager", "kruise-daemon"] {
        let account = get(&objects, "ServiceAccount", name);
        assert_eq!(account["metadata"]["annotations"], json!({"a/b": "c"}));
    }
}

#[test]
fn given_a_disruption_budget_then_it_selects_the_manager_in_the_version_of_the_cluster() {
    let values = json!({"manager": {"podDisruptionBudget": {"minAvailable": 1}}});
    for (kubernetes, version) in [("1.20.0", "policy/v1beta1"), ("1.34.0", "policy/v1")] {
        let objects = render_on(kubernetes, &values);
        let budget = get(&objects, "PodDisruptionBudget", "kruise-controller-manager");
        assert_eq!(budget["apiVersion"], version);
        let selector = json!({"matchLabels": {"control-plane": "controller-manager"}});
        assert_eq!(budget["spec"], json!({"minAvailable": 1, "selector": selector}));
    }
}

#[test]
fn given_an_uninstall_then_a_check_runs_first_and_leaves_nothing_when_it_passes() {
    let objects = render(&json!({}));
    let hooks = [
        ("ClusterRole", "kruise-helm-hook-role", "1"),
        ("ClusterRoleBinding", "kruise-helm-hook-rolebinding", "2"),
        ("ServiceAccount", "kruise-helm-hook", "3"),
        ("Job", "rel-finalizer", "4"),
    ];
    for (kind, name, weight) in hooks {
        let expected = json!({"helm.sh/hook": "pre-delete", "helm.sh/hook-weight": weight,
                              "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded"});
        assert_eq!(get(&objects, kind, name)["metadata"]["annotations"], expected, "{name}");
    }
    let hooked: Vec<_> = objects
        .iter()
        .filter(|object| object["metadata"]["annotations"]["helm.sh/hook"].is_string())
        .collect();
    assert_eq!(hooked.len(), hooks.len());
    let job = &get(&objects, "Job", "rel-finalizer")["spec"];
    assert_eq!(job["backoffLimit"], 0);
    let pod = &job["template"]["spec"];
    assert_eq!(pod["restartPolicy"], "Never");
    assert_eq!(pod["containers"][0]["command"], json!(["/helm_hook"]));
}

#[test]
fn given_no_image_for_the_check_then_it_is_the_managers_and_otherwise_the_one_given() {
    let image = |values: &Value| {
        let objects = render(values);
        let job = get(&objects, "Job", "rel-finalizer");
        job["spec"]["template"]["spec"]["containers"][0]["image"].clone()
    };
    assert_eq!(
        image(&json!({"manager": {"image": {"repository": "r/m", "tag": "t"}}})),
        "r/m:t"
    );
    assert_eq!(
        image(&json!({"helmHooks": {"image": {"repository": "r/hook", "tag": "v0.1.0"}}})),
        "r/hook:v0.1.0"
    );
    let half = json!({"helmHooks": {"image": {"repository": "r/hook"}}});
    assert!(
        try_render(&chart(), &half, &[])
            .unwrap_err()
            .contains("needs helmHooks.image.tag")
    );
}

#[test]
fn given_the_chart_then_its_versions_are_those_of_the_workspace() {
    let file = std::fs::read_to_string(chart().join("Chart.yaml")).unwrap();
    let meta: Value = serde_saphyr::from_str(&file).unwrap();
    assert_eq!(meta["name"], "kruise");
    assert_eq!(meta["version"], env!("CARGO_PKG_VERSION"));
    let released = meta["appVersion"].as_str().unwrap().trim_end_matches("-dev");
    assert_eq!(released, env!("CARGO_PKG_VERSION"));
    assert_eq!(meta["kubeVersion"], ">= 1.18.0-0");
}

#[test]
fn given_a_cluster_that_is_too_old_then_helm_refuses() {
    let refusal = try_render(&chart(), &json!({}), &["--kube-version", "1.17.0"]).unwrap_err();
    assert!(refusal.contains("1.18"), "{refusal}");
    assert!(!render_on("1.18.0", &json!({})).is_empty());
}

#[test]
fn given_pull_secrets_then_every_pod_has_them() {
    let objects = render(&json!({"imagePullSecrets": [{"name": "mine"}]}));
    let pods: Vec<_> = objects
        .iter()
        .filter(|object| object["spec"]["template"]["spec"].is_object())
        .collect();
    assert_eq!(pods.len(), 3);
    for pod in pods {
        assert_eq!(
            pod["spec"]["template"]["spec"]["imagePullSecrets"],
            json!([{"name": "mine"}])
        );
    }
}
