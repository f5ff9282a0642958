//! The live page: off unless it is asked for, and then no more rights than it takes.

use serde_json::json;

use super::render::{find, get, render, strings};

#[test]
fn given_default_values_then_there_is_no_live_page() {
    let objects = render(&json!({}));
    for (kind, name) in [
        ("Service", "kruise-ui"),
        ("ClusterRole", "kruise-ui-role"),
        ("ClusterRoleBinding", "kruise-ui-rolebinding"),
    ] {
        assert!(find(&objects, kind, name).is_none(), "{kind} {name}");
    }
    let text = json!(objects).to_string();
    assert!(!text.contains("--ui-addr") && !text.contains("tokenreviews"));
    // Values of an older chart do not know it.
    let older = render(&json!({"ui": null}));
    assert!(find(&older, "Service", "kruise-ui").is_none());
}

#[test]
fn given_the_live_page_then_it_has_a_port_a_service_of_the_cluster_and_the_right_to_ask_for_rights() {
    let objects = render(&json!({"ui": {"enabled": true, "port": 9999}, "installation": {"namespace": "mine"}}));
    let manager =
        &get(&objects, "Deployment", "kruise-controller-manager")["spec"]["template"]["spec"]["containers"][0];
    assert!(strings(&manager["args"]).contains(&"--ui-addr=:9999"));
    let port = json!({"name": "ui", "containerPort": 9999, "protocol": "TCP"});
    assert!(manager["ports"].as_array().unwrap().contains(&port));
    let service = get(&objects, "Service", "kruise-ui");
    assert_eq!(service["metadata"]["namespace"], "mine");
    assert_eq!(service["spec"]["type"], "ClusterIP");
    assert_eq!(
        service["spec"]["ports"],
        json!([{"name": "ui", "port": 9999, "targetPort": "ui"}])
    );
    assert_eq!(
        service["spec"]["selector"],
        json!({"control-plane": "controller-manager"})
    );
    let role = get(&objects, "ClusterRole", "kruise-ui-role");
    assert_eq!(
        role["rules"],
        json!([
            {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
            {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
        ])
    );
    let binding = get(&objects, "ClusterRoleBinding", "kruise-ui-rolebinding");
    assert_eq!(binding["roleRef"]["name"], "kruise-ui-role");
    let manager = json!([{"kind": "ServiceAccount", "name": "kruise-manager", "namespace": "mine"}]);
    assert_eq!(binding["subjects"], manager);
}
