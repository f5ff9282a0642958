//! Every recorded WorkloadSpread that was submitted, and what was found wrong with it.

use jiff::Timestamp;
use kruise_api::gates::Gates;
use kruise_core::admission::{Admit as _, Env, Lookups, Operation, Version};
use kruise_core::field_error::FieldErrors;
use kruise_core::workloadspread::{
    Submitted,
    validate::{self, Known},
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// One recorded request. Codes and messages are compared where there is an API server.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    name: String,
    version: String,
    operation: String,
    object: Value,
    old: Option<Value>,
    #[serde(default)]
    others: Vec<Value>,
    /// What was wrong, by field.
    #[serde(default)]
    fields: BTreeSet<String>,
    /// The API server found it: by the schema, or in the template of the workload with a patch.
    #[serde(default)]
    api_server: bool,
    #[serde(default)]
    template: bool,
}

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("../../fixtures/workloadspread/verdicts.json")).unwrap()
}

fn read(object: &Value, version: &str) -> Submitted {
    let version = Version::by_name(version).unwrap();
    Submitted::read(object.to_string().as_bytes(), version).unwrap()
}

fn judged(new: &Submitted, others: &[Submitted]) -> FieldErrors {
    let known = Known {
        others,
        custom: Ok(&[]),
    };
    validate::validate(new, &known)
}

#[test]
fn given_every_recorded_spread_then_the_same_is_wrong_with_it() {
    let cases = cases();
    for case in cases.iter().filter(|case| !case.api_server && !case.template) {
        let new = read(&case.object, &case.version);
        let old = case.old.as_ref().map(|old| read(old, &case.version));
        let others: Vec<_> = case.others.iter().map(|other| read(other, &case.version)).collect();
        let errors = judged(&new, &others).0.into_iter();
        let changed = old.as_ref().and_then(|old| validate::forbidden(&new, old));
        let fields: BTreeSet<_> = errors.chain(changed).map(|error| error.path).collect();
        assert_eq!(fields, case.fields, "{} {} {}", case.version, case.operation, case.name);
    }
    let refused = cases.iter().filter(|case| !case.fields.is_empty());
    assert_eq!((cases.len(), refused.count()), (162, 84));
}

fn env() -> Env {
    Env {
        operation: Operation::Create,
        version: Version::V1beta1,
        gates: Gates::default(),
        now: Timestamp::UNIX_EPOCH,
    }
}

fn spread(kind: &str, subsets: &Value) -> Submitted {
    let target = json!({"apiVersion": "kubeflow.org/v1", "kind": kind, "name": "job"});
    let target = if kind == "TFJob" {
        target
    } else {
        json!({"apiVersion": "apps/v1", "kind": kind, "name": "job"})
    };
    let object = json!({"metadata": {"name": "s"}, "spec": {"targetRef": target, "subsets": subsets}});
    read(&object, "v1beta1")
}

/// What is looked up, where nothing but the white list is there.
fn found(spread: &Submitted, list: Option<&str>) -> Lookups {
    let mut found = Lookups::default();
    for needed in spread.needs_to_validate(None, &env(), &found).objects {
        let is_list = needed.to_string().contains("kruise-configuration");
        let data = list
            .filter(|_| is_list)
            .map(|list| json!({"data": {"WorkloadSpread_Watch_Custom_Workload_WhiteList": list}}));
        found.objects.insert(needed, Ok(data));
    }
    found
}

#[test]
fn given_a_kind_of_the_white_list_then_it_can_be_spread() {
    let subsets = json!([{"name": "a"}]);
    let list =
        r#"{"workloads":[{"Group":"kubeflow.org","Version":"v1","Kind":"TFJob","replicasPath":"spec.replicas"}]}"#;
    for (kind, list, says) in [
        ("TFJob", Some(list), None),
        ("TFJob", None, Some("GroupKind is not permitted")),
        ("TFJob", Some("{"), Some("WhiteList")),
        ("DaemonSet", Some(list), Some("GroupKind is not permitted")),
    ] {
        let spread = spread(kind, &subsets);
        let judged = spread.validate(&env(), &found(&spread, list));
        let message = judged.err().map(|refusal| refusal.message);
        assert_eq!(message.is_some(), says.is_some(), "{message:?}");
        if let (Some(message), Some(says)) = (message, says) {
            assert!(
                message.starts_with("spec.targetRef: ") && message.contains(says),
                "{message}"
            );
        }
    }
}

#[test]
fn given_a_patch_then_the_template_of_the_workload_is_checked_with_it() {
    let spread = spread(
        "Deployment",
        &json!([{"name": "a", "patch": {"spec": {"containers": [{"name": "main", "image": "i:2"}]}}}, {"name": "b"}]),
    );
    let mut found = Lookups::default();
    for needed in spread.needs_to_validate(None, &env(), &found).objects {
        let is_workload = needed.to_string() == "Deployment job";
        let template = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "i:1"}]}}}});
        found.objects.insert(needed, Ok(is_workload.then_some(template)));
    }
    let templates = spread.templates_of_others(None, &found);
    assert_eq!(templates.len(), 1);
    assert_eq!(templates[0].path.as_str(), "spec.subsets[0].patch");
    assert_eq!(templates[0].template["spec"]["containers"][0]["image"], "i:2");
    // What has not changed is not checked again.
    assert!(spread.templates_of_others(Some(&spread), &found).is_empty());
    assert!(spread.validate(&env(), &found).is_ok());
}

#[test]
fn given_patches_that_cannot_be_merged_then_they_are_refused() {
    for patch in [
        json!("text"),
        json!([1]),
        json!({"spec": {"containers": [{"image": "x"}]}}),
    ] {
        let spread = spread("Deployment", &json!([{"name": "a", "patch": patch}]));
        let refusal = spread.validate(&env(), &found(&spread, None)).unwrap_err();
        assert!(
            refusal.message.starts_with("spec.subsets[0].patch: "),
            "{}",
            refusal.message
        );
    }
}

#[test]
fn given_spreads_that_cannot_be_listed_then_the_refusal_says_why() {
    let spread = spread("Deployment", &json!([{"name": "a"}]));
    let mut lookups = found(&spread, None);
    for known in lookups.objects.values_mut() {
        *known = Err("no right to list".to_owned());
    }
    let refusal = spread.validate(&env(), &lookups).unwrap_err();
    assert_eq!(refusal.code, Some(400));
    assert!(refusal.message.contains("no right to list"), "{}", refusal.message);
}
