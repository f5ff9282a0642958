//! The webhook configurations: the manager's own entries, for the place and with the options of the installation.

use std::collections::BTreeSet;

use kruise_admission::descriptor::{Configuration, webhooks};
use serde_json::{Value, json};

use super::render::{get, render, render_on};

fn entries(objects: &[Value], configuration: Configuration) -> Vec<Value> {
    let configuration = get(objects, configuration.kind(), configuration.name());
    configuration["webhooks"].as_array().unwrap().clone()
}

fn all(values: &Value) -> Vec<Value> {
    let objects = render(values);
    Configuration::BOTH
        .iter()
        .flat_map(|configuration| entries(&objects, *configuration))
        .collect()
}

fn of_pods(entry: &Value) -> bool {
    ["mpod.kb.io", "vpod.kb.io", "vpodeviction.kb.io", "vpodresize.kb.io"]
        .iter()
        .any(|name| entry["name"] == *name)
}

#[test]
fn given_default_values_then_the_entries_are_those_that_the_manager_answers() {
    let objects = render(&json!({}));
    for configuration in Configuration::BOTH {
        let object = get(&objects, configuration.kind(), configuration.name());
        assert_eq!(object["metadata"]["annotations"], json!({"template": ""}));
        let entries = entries(&objects, configuration);
        let names: BTreeSet<_> = entries.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
        let expected: BTreeSet<_> = webhooks(configuration).map(|webhook| webhook.entry.name).collect();
        assert_eq!(names, expected);
        for (entry, webhook) in entries.iter().zip(webhooks(configuration)) {
            let service =
                json!({"namespace": "kruise-system", "name": "kruise-webhook-service", "path": webhook.hook.path});
            // The CA is the manager's to write: a manifest without it leaves it alone.
            assert_eq!(entry["clientConfig"], json!({"service": service}));
            assert_eq!(entry["timeoutSeconds"], 30);
        }
    }
}

#[test]
fn given_any_namespace_then_pods_of_the_manager_and_of_the_system_are_never_held_up() {
    let entries = all(&json!({"installation": {"namespace": "foo"}}));
    for entry in entries.iter().filter(|entry| of_pods(entry)) {
        assert_eq!(entry["failurePolicy"], "Fail");
        let selector = json!({"matchExpressions": [
            {"key": "control-plane", "operator": "NotIn", "values": ["openkruise"]},
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "foo"]},
        ]});
        assert_eq!(entry["namespaceSelector"], selector);
    }
    assert!(
        entries
            .iter()
            .all(|entry| entry["clientConfig"]["service"]["namespace"] == "foo")
    );
}

#[test]
fn given_an_api_server_that_can_look_at_pods_itself_then_it_asks_about_those_of_budgets_only() {
    for (kubernetes, expected) in [
        ("1.29.14", &[][..]),
        ("1.30.0", &["vpod.kb.io", "vpodresize.kb.io"]),
        ("v1.34.4-vendor.1", &["vpod.kb.io", "vpodresize.kb.io"]),
    ] {
        let entries = entries(&render_on(kubernetes, &json!({})), Configuration::Validating);
        let looks = entries.iter().filter(|entry| entry.get("matchConditions").is_some());
        let names: Vec<_> = looks.map(|entry| entry["name"].as_str().unwrap()).collect();
        assert_eq!(names, expected, "{kubernetes}");
    }
}

#[test]
fn given_options_then_every_entry_they_are_about_has_them() {
    let options = json!({"timeoutSeconds": 7, "failurePolicy": {"pods": "Ignore"}, "aksIntegration": true});
    let entries = all(&json!({"webhookConfiguration": options}));
    let of_aks = [
        json!({"key": "control-plane", "operator": "NotIn", "values": ["true"]}),
        json!({"key": "kubernetes.azure.com/managedby", "operator": "NotIn", "values": ["aks"]}),
    ];
    for entry in &entries {
        assert_eq!(entry["timeoutSeconds"], 7, "{entry}");
        let expressions = entry["namespaceSelector"]["matchExpressions"].as_array().unwrap();
        assert!(expressions.ends_with(&of_aks), "{entry}");
        if of_pods(entry) {
            assert_eq!(entry["failurePolicy"], "Ignore");
            assert_eq!(expressions.len(), 4);
        }
    }
    let failing = entries.iter().filter(|entry| entry["failurePolicy"] == "Fail").count();
    assert!(failing > 20, "only Pods are let through");
}

#[test]
fn given_the_values_of_a_chart_that_knew_no_such_options_then_the_defaults_count() {
    assert_eq!(all(&json!({"webhookConfiguration": null})), all(&json!({})));
    let older = json!({"webhookConfiguration": {"timeoutSeconds": 30, "failurePolicy": null}});
    assert_eq!(all(&older), all(&json!({})));
}

#[test]
fn given_external_certificates_then_the_injector_finds_both_configurations() {
    let annotations = json!({"cert-manager.io/inject-ca-from": "ns/cert"});
    let values = |gates: &str| json!({"featureGates": gates, "externalCerts": {"annotations": annotations}});
    for configuration in Configuration::BOTH {
        let of = |gates: &str| {
            let objects = render(&values(gates));
            get(&objects, configuration.kind(), configuration.name())["metadata"]["annotations"].clone()
        };
        assert_eq!(
            of("EnableExternalCerts=true"),
            json!({"template": "", "cert-manager.io/inject-ca-from": "ns/cert"})
        );
        assert_eq!(of(""), json!({"template": ""}));
    }
}
