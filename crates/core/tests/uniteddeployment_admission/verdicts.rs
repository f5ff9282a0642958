//! Every recorded request, and the answer we give.

use super::{defaulted, gates};
use kruise_core::admission::{Admit as _, Lookups, Version};
use kruise_core::uniteddeployment::Submitted;
use kruise_core::uniteddeployment::validate::validate;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Deserialize)]
struct Recorded {
    /// What creations are changes of.
    object: Value,
    /// What updates are changes of, as stored.
    stored: BTreeMap<String, Value>,
    cases: Vec<Case>,
}

/// One request. Messages are compared where there is an API server.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    name: String,
    version: String,
    operation: String,
    stored: Option<String>,
    /// A merge patch.
    change: Value,
    /// Status code of the refusal.
    code: Option<u16>,
    /// What the webhook found wrong: field and kind of error.
    #[serde(default)]
    errors: BTreeSet<String>,
    /// The API server found it by itself.
    #[serde(default)]
    api_server: bool,
}

/// What we find wrong, field and kind of error.
fn judged(object: &Value, stored: Option<&Value>) -> Result<BTreeSet<String>, String> {
    let read = |value: &Value| {
        Submitted::read(value.to_string().as_bytes(), Version::V1beta1).map_err(|error| error.to_string())
    };
    read(object)?;
    let new = read(&defaulted(object, stored, gates()))?;
    let old = stored.map(read).transpose()?;
    let errors = validate(&new, old.as_ref(), &Lookups::default());
    let brief = |text: String| {
        let (path, rest) = text.split_once(": ").unwrap();
        let kind = rest.split_once(':').map_or(rest, |(kind, _)| kind);
        format!("{path}: {kind}")
    };
    Ok(errors.0.iter().map(|error| brief(error.to_string())).collect())
}

/// Errors that only the API server finds, in the Pod template of a Deployment.
fn is_of_pod(error: &str) -> bool {
    error.starts_with("spec.template.deploymentTemplate.spec.template.spec")
}

/// What the original says of the wrong field.
const SLIP: (&str, &str) = (
    "spec.template.statefulSetTemplate.metadata.labels: Invalid value",
    "spec.template.advancedStatefulSetTemplate.metadata.labels: Invalid value",
);

#[test]
fn given_every_recorded_request_then_the_verdict_is_the_same() {
    let recorded: Recorded =
        serde_json::from_str(include_str!("../../fixtures/uniteddeployment/verdicts.json")).unwrap();
    let mut wrong = Vec::new();
    for case in &recorded.cases {
        let stored = case.stored.as_ref().map(|name| &recorded.stored[name]);
        let mut object = stored.unwrap_or(&recorded.object).clone();
        json_patch::merge(&mut object, &case.change);
        let ours = judged(&object, stored);
        let mut expected: BTreeSet<String> = case.errors.iter().filter(|error| !is_of_pod(error)).cloned().collect();
        if case.name.starts_with("asts-") && expected.remove(SLIP.0) {
            expected.insert(SLIP.1.to_owned());
        }
        let same = match &ours {
            Err(_) => case.api_server,
            Ok(_) if case.api_server => true,
            Ok(errors) => *errors == expected,
        };
        if !same {
            wrong.push(format!(
                "{} {} {}: {ours:?}\nrecorded: {:?} {expected:?}",
                case.version, case.operation, case.name, case.code
            ));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
    let refused = recorded.cases.iter().filter(|case| case.code.is_some()).count();
    assert_eq!((recorded.cases.len(), refused), (241, 128));
}

#[test]
fn given_the_template_of_a_deployment_then_the_api_server_is_asked_about_it_when_it_is_new() {
    let object = |image: &str| {
        let pod = json!({"spec": {"containers": [{"name": "main", "image": image}]}});
        let template = json!({"deploymentTemplate": {"spec": {"template": pod}}});
        let text = json!({"spec": {"selector": {}, "template": template}}).to_string();
        Submitted::read(text.as_bytes(), Version::V1beta1).unwrap()
    };
    let asked = object("a:1").templates(None);
    assert_eq!(asked[0].path.as_str(), "spec.template.deploymentTemplate.spec.template");
    assert_eq!(asked[0].template["spec"]["containers"][0]["image"], "a:1");
    assert!(object("a:1").templates(Some(&object("a:1"))).is_empty());
    assert_eq!(object("a:2").templates(Some(&object("a:1"))).len(), 1);
}

#[test]
fn given_protection_then_one_with_replicas_stays() {
    let object = |replicas: i32, protection: &str| {
        let labels = json!({"policy.kruise.io/delete-protection": protection});
        let text = json!({"metadata": {"labels": labels}, "spec": {"selector": {}, "replicas": replicas}}).to_string();
        Submitted::read(text.as_bytes(), Version::V1beta1).unwrap()
    };
    for (replicas, protection, stays) in [(1, "Cascading", true), (0, "Cascading", false), (0, "Always", true)] {
        assert_eq!(
            object(replicas, protection).refuse_deletion(gates()).is_some(),
            stays,
            "{replicas} {protection}"
        );
    }
}

#[test]
fn given_limits_above_and_below_then_each_fault_is_told_with_its_field() {
    let judged = |subsets: Value| {
        let object = json!({"metadata": {"name": "web"}, "spec": {"replicas": 10, "selector": {"matchLabels": {"app": "web"}},
            "template": {"cloneSetTemplate": {"spec": {"selector": {}, "template": {}}}}, "topology": {"subsets": subsets}}});
        judged(&object, None).unwrap().into_iter().collect::<Vec<_>>()
    };
    let all_limited = json!([{"name": "a", "minReplicas": 3, "maxReplicas": 2}, {"name": "b", "maxReplicas": "10%"}]);
    assert_eq!(
        judged(all_limited),
        [
            "spec.topology.subsets: Invalid value",
            "spec.topology.subsets[0].minReplicas: Invalid value"
        ]
    );
    let mixed = json!([{"name": "a", "replicas": 3}, {"name": "b", "maxReplicas": "10%"}]);
    assert_eq!(judged(mixed), ["spec.topology.subsets: Invalid value"]);
}
