//! What happens to a DaemonSet on its way in, compared with what the original did and checked for what must always hold.

use crate::wording::is_same;
use kruise_api::gates::Gates;
use kruise_core::admission::{Admit as _, Env, Lookups, Operation, Version};
use kruise_core::daemonset::admit::Submitted;
use kruise_core::daemonset::default::default;
use kruise_core::daemonset::validate::validate;
use kruise_core::field_error::{FieldError, FieldErrorKind};
use kruise_core::json_patch::diff;
use kruise_core::shared::revision;
use kruise_core::shared::tree::Object;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

/// One version's recordings.
#[derive(Deserialize)]
struct Recorded {
    /// What creations are changes of.
    object: Value,
    /// What updates are changes of.
    stored: Value,
    cases: Vec<Verdict>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Verdict {
    name: String,
    operation: String,
    /// A merge patch.
    change: Value,
    /// Status code of the refusal.
    code: Option<u16>,
    /// What the webhook found wrong; see [`is_same`].
    #[serde(default)]
    errors: Vec<String>,
    /// Fields of the Pod template with which the API server finds something wrong.
    #[serde(default)]
    template: Vec<String>,
    /// The API server refused it before any webhook.
    #[serde(default)]
    api_server: bool,
    /// A value in the Pod template that cannot be read: only the API server knows.
    #[serde(default)]
    unreadable: bool,
}

const VERSIONS: [Version; 2] = [Version::V1alpha1, Version::V1beta1];

fn recorded(version: Version) -> Recorded {
    let text = match version {
        Version::V1alpha1 => include_str!("../../fixtures/daemonset/verdicts-v1alpha1.json"),
        Version::V1beta1 => include_str!("../../fixtures/daemonset/verdicts-v1beta1.json"),
    };
    serde_json::from_str(text).unwrap()
}

fn object(value: &Value) -> Object {
    value.as_object().unwrap().clone()
}

fn defaulted(value: &Value, version: Version) -> Value {
    let mut completed = object(value);
    default(&mut completed, version);
    Value::Object(completed)
}

fn read(value: &Value, version: Version) -> Submitted {
    Submitted::read(value.to_string().as_bytes(), version).unwrap()
}

fn env(version: Version, operation: Operation) -> Env {
    Env {
        operation,
        version,
        gates: Gates::default(),
        now: jiff::Timestamp::UNIX_EPOCH,
    }
}

#[test]
fn given_every_recorded_request_then_the_verdict_is_the_same() {
    let mut counts = Vec::new();
    for version in VERSIONS {
        let recorded = recorded(version);
        for case in &recorded.cases {
            let is_update = case.operation == "update";
            let mut sent = if is_update { &recorded.stored } else { &recorded.object }.clone();
            json_patch::merge(&mut sent, &case.change);
            let new = read(&defaulted(&sent, version), version);
            let old = is_update.then(|| read(&recorded.stored, version));
            let by_api_server = |path: &String| FieldError {
                path: path.clone(),
                kind: FieldErrorKind::Invalid,
                body: "by the API server".to_owned(),
            };
            let lookups = Lookups {
                template: case.template.iter().map(by_api_server).collect(),
                ..Lookups::default()
            };
            let errors = validate(&new, old.as_ref(), version, &lookups);
            let name = format!("{version:?} {} {}: {errors:?}", case.operation, case.name);
            if case.api_server {
                assert!(!errors.is_empty(), "{name}");
                continue;
            }
            let (passed_on, own): (Vec<FieldError>, Vec<FieldError>) = errors
                .0
                .into_iter()
                .partition(|error| error.body == "by the API server");
            assert_eq!(passed_on, lookups.template, "{name}");
            let own: Vec<String> = own.iter().map(ToString::to_string).collect();
            assert_eq!(own.len(), case.errors.len(), "{name}");
            let is_said = |recorded: &String| own.iter().any(|ours| is_same(recorded, ours));
            let missing: Vec<&String> = case.errors.iter().filter(|recorded| !is_said(recorded)).collect();
            assert!(missing.is_empty(), "{name}\nnot said: {missing:#?}");
            let refused = match &old {
                Some(old) => new.validate_update(old, &env(version, Operation::Update), &lookups),
                None => new.validate(&env(version, Operation::Create), &lookups),
            };
            let code = refused.err().map(|refusal| refusal.code.unwrap_or(422));
            if !case.unreadable {
                assert_eq!(code, case.code, "{name}");
            }
        }
        let refused = recorded.cases.iter().filter(|case| case.code.is_some()).count();
        counts.push((recorded.cases.len(), refused));
    }
    assert_eq!(counts, [(63, 42), (87, 64)], "cases and refusals");
}

#[derive(Deserialize)]
struct Defaulting {
    name: String,
    version: String,
    /// A new object.
    given: Option<Value>,
    /// Or a change of one that is stored, as a merge patch.
    stored: Option<Value>,
    patch: Option<Value>,
    then: Value,
}

fn defaultings() -> Vec<Defaulting> {
    serde_json::from_str(include_str!("../../fixtures/daemonset/defaults.json")).unwrap()
}

/// The template as its revision has it, and everything else as it is: a conversion of the original leaves traces in templates.
fn comparable(value: &Value) -> Value {
    let mut value = value.clone();
    // The original leaves out what says nothing.
    if value["spec"]["scaleStrategy"]["partitionedScaling"] == false {
        value["spec"]["scaleStrategy"] = json!({});
    }
    let template = revision::data(&value["spec"]["template"]);
    value["spec"]["template"] = json!(template);
    value
}

#[test]
fn given_what_users_wrote_then_the_same_is_stored() {
    let mut compared = 0;
    for case in defaultings() {
        let version = Version::by_name(&case.version).unwrap();
        let sent = case.given.clone().unwrap_or_else(|| {
            let mut object = case.stored.clone().unwrap();
            json_patch::merge(&mut object, case.patch.as_ref().unwrap());
            object
        });
        let ours = defaulted(&sent, version);
        let differences = diff(&comparable(&case.then), comparable(&ours));
        assert!(
            differences.is_empty(),
            "{} {}: {differences:#?}",
            case.version,
            case.name
        );
        if version == Version::V1beta1 {
            // Word for word, where no conversion has been at it.
            assert_eq!(ours["spec"]["template"], case.then["spec"]["template"], "{}", case.name);
        }
        let again = defaulted(&ours, version);
        assert_eq!(again, ours, "{}: there is nothing more to write", case.name);
        compared += 1;
    }
    assert_eq!(compared, 28);
}

#[test]
fn given_a_template_then_nothing_in_it_is_completed() {
    let template = json!({"metadata": {"creationTimestamp": null}, "spec": {"containers": [{"name": "a", "image": "b", "resources": {}}]}});
    for version in VERSIONS {
        let set = json!({"spec": {"template": template}});
        assert_eq!(defaulted(&set, version)["spec"]["template"], template);
    }
}

#[test]
fn given_values_of_a_wrong_type_then_they_are_left_for_others_to_refuse() {
    for spec in [
        json!("x"),
        json!({"updateStrategy": 1, "template": "x"}),
        json!({"updateStrategy": {"rollingUpdate": 7, "type": 1}, "template": {"spec": []}}),
        json!({"updateStrategy": {"rollingUpdate": [], "type": "RollingUpdate"}}),
    ] {
        for version in VERSIONS {
            let after = defaulted(&json!({"spec": spec}), version);
            for (name, value) in spec.as_object().into_iter().flatten() {
                assert!(!after["spec"][name].is_null());
                if !value.is_object() {
                    assert_eq!(after["spec"][name], *value);
                }
            }
        }
    }
}

fn amount() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        (-2..4_i32).prop_map(|count| json!(count)),
        prop_oneof!["[0-9]{1,3}%", "[a-z0-9]{0,2}", "[0-9]{1,30}%", "-[0-9]%"].prop_map(|text| json!(text)),
    ]
}

proptest! {
    #[test]
    fn whatever_is_allowed_can_move_and_has_one_way_to(unavailable in amount(), surge in amount(), partition in amount(), in_place: bool) {
        let kind = if in_place { "InPlaceIfPossible" } else { "Standard" };
        let set = json!({"metadata": {"name": "a"}, "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}},
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge, "partition": partition, "rollingUpdateType": kind}},
        }});
        let completed = defaulted(&set, Version::V1beta1);
        let submitted = read(&completed, Version::V1beta1);
        let errors = validate(&submitted, None, Version::V1beta1, &Lookups::default());
        if errors.is_empty() {
            let rolling = submitted.spec.update_strategy.rolling_update.unwrap();
            let count = |value: &Option<kruise_api::shared::IntOrPercent>| value.as_ref().map_or(0, |value| value.ceil_of(10).unwrap_or(0));
            let (unavailable, surge) = (count(&rolling.max_unavailable), count(&rolling.max_surge));
            prop_assert!((unavailable > 0) != (surge > 0), "{} {}", unavailable, surge);
            prop_assert!(!(in_place && surge > 0));
            prop_assert!(rolling.partition.is_none_or(|partition| (0..=1000).contains(&partition.floor_of(10).unwrap())));
        }
    }
}
