//! What the original stored of what users wrote.

use super::fixture::{defaulted, gates, object};
use kruise_api::gates::Gate;
use kruise_core::admission::Version;
use kruise_core::conversion::convert;
use kruise_core::json_patch::diff;
use kruise_core::shared::tree::drop_empty;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Case {
    name: String,
    version: String,
    /// A new object.
    given: Option<Value>,
    /// Or a change of one that is stored, as a merge patch.
    stored: Option<Value>,
    patch: Option<Value>,
    then: Value,
}

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("../../fixtures/cloneset/defaults.json")).unwrap()
}

impl Case {
    fn version(&self) -> Version {
        Version::by_name(&self.version).unwrap()
    }

    fn sent(&self) -> Value {
        self.given.clone().unwrap_or_else(|| {
            let mut object = self.stored.clone().unwrap();
            json_patch::merge(&mut object, self.patch.as_ref().unwrap());
            object
        })
    }
}

/// What the API server does with an object after the webhook: it stores it as v1beta1 with the defaults of the schema, and answers in
/// the version of the request.
fn stored(value: &Value) -> Value {
    let mut stored = object(value);
    let version = stored["apiVersion"].as_str().unwrap().to_owned();
    let is_old = version.ends_with("/v1alpha1");
    if is_old {
        convert(&mut stored, "apps.kruise.io/v1beta1").unwrap();
    }
    let scale = stored["spec"]["scaleStrategy"].as_object_mut().unwrap();
    scale.entry("enablePVCReuse").or_insert(json!(false));
    if is_old {
        convert(&mut stored, &version).unwrap();
    }
    Value::Object(stored)
}

/// Without what only a conversion of the original leaves behind, and without fields of the future, which it drops.
fn comparable(value: &Value) -> Value {
    let mut value = object(value);
    if value["apiVersion"] == "apps.kruise.io/v1alpha1" {
        drop_empty(&mut value, "spec.scaleStrategy");
        drop_empty(&mut value, "spec.updateStrategy.inPlaceUpdateStrategy");
    }
    Value::Object(value)
}

#[test]
fn given_what_users_wrote_then_the_same_is_stored() {
    let mut compared = 0;
    for case in cases() {
        let ours = stored(&defaulted(&case.sent(), case.stored.as_ref(), case.version(), gates()));
        let mut then = case.then.clone();
        if case.name == "limits-only-resources" {
            // Kept here, dropped there.
            let spec = then.pointer_mut("/spec/template/spec").unwrap();
            spec["futureSpec"] = json!(true);
            spec["containers"][0]["futureField"] = json!({"a": 1});
        }
        let differences = diff(&comparable(&then), comparable(&ours));
        assert!(
            differences.is_empty(),
            "{} {}: {differences:#?}",
            case.version,
            case.name
        );
        compared += 1;
    }
    assert_eq!(compared, 49);
}

#[test]
fn given_what_was_stored_then_there_is_nothing_more_to_write() {
    for case in cases() {
        for old in [None, Some(&case.then)] {
            let again = defaulted(&case.then, old, case.version(), gates());
            let changed = diff(&case.then, again.clone());
            // A conversion takes an empty block away; it comes back, and is taken away again.
            let is_block = |path: &str| path == "/spec/updateStrategy/inPlaceUpdateStrategy";
            let changed: Vec<_> = changed
                .iter()
                .filter(
                    |change| !matches!(change, kruise_core::json_patch::Operation::Add { path, .. } if is_block(path)),
                )
                .collect();
            assert!(changed.is_empty(), "{} {}: {changed:#?}", case.version, case.name);
        }
    }
}

#[test]
fn given_an_update_that_leaves_the_template_alone_then_so_do_we() {
    for version in ["v1alpha1", "v1beta1"] {
        // Stored when templates were not completed, or by an older release that had fewer defaults.
        let template =
            json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}});
        let old = json!({"apiVersion": format!("apps.kruise.io/{version}"), "kind": "CloneSet", "metadata": {"name": "x"}, "spec": {
            "replicas": 2, "template": template,
        }});
        let known = Version::by_name(version).unwrap();
        let mut new = old.clone();
        new["spec"]["replicas"] = json!(3);
        let scaled = defaulted(&new, Some(&old), known, gates());
        assert_eq!(scaled["spec"]["template"], template);
        assert_eq!(scaled["spec"]["revisionHistoryLimit"], 10);
        // What a client of the original adds on its own is no change.
        new["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
        new["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({});
        let scaled = defaulted(&new, Some(&old), known, gates());
        assert_eq!(scaled["spec"]["template"], new["spec"]["template"]);

        new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("c");
        let changed = defaulted(&new, Some(&old), known, gates());
        assert_eq!(changed["spec"]["template"]["spec"]["restartPolicy"], "Always");
        assert_eq!(
            changed["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"],
            "Always"
        );

        let untouched = defaulted(&new, Some(&old), known, gates().with(Gate::TemplateNoDefaults, true));
        assert_eq!(untouched["spec"]["template"], new["spec"]["template"]);
    }
}

#[test]
fn given_values_of_a_wrong_type_then_they_are_left_for_others_to_refuse() {
    for spec in [
        json!("x"),
        json!({"updateStrategy": 1, "scaleStrategy": [], "template": "x", "volumeClaimTemplates": {"a": 1}}),
        json!({"updateStrategy": {"rollingUpdate": 7, "type": 1}, "template": {"spec": []}, "volumeClaimTemplates": [1, null]}),
    ] {
        for version in [Version::V1alpha1, Version::V1beta1] {
            let object = json!({"spec": spec});
            let after = defaulted(&object, None, version, gates());
            for (name, value) in spec.as_object().into_iter().flatten() {
                assert!(!after["spec"][name].is_null());
                if !value.is_object() && !value.is_array() {
                    assert_eq!(after["spec"][name], *value);
                }
            }
        }
    }
}

/// `rollout undo` of the existing plugin sends the data of a revision as a merge patch, and with it a directive of another kind of patch.
#[test]
fn given_a_directive_in_the_template_then_it_is_taken_out_and_nothing_else_changes() {
    let cases = cases()
        .into_iter()
        .filter(|case| case.then["spec"]["template"].is_object());
    let mut stored_clean = 0;
    for case in cases {
        let marked = |value: &Value| {
            let mut value = value.clone();
            value["spec"]["template"]["$patch"] = json!("replace");
            value
        };
        let new = defaulted(&marked(&case.sent()), case.stored.as_ref(), case.version(), gates());
        assert_eq!(
            new,
            defaulted(&case.sent(), case.stored.as_ref(), case.version(), gates()),
            "{}",
            case.name
        );
        // An object that was stored with it loses it with the next write, and its template does not count as a new one.
        let stored = case.then.clone();
        for sent in [&stored, &marked(&stored)] {
            let after = defaulted(sent, Some(&marked(&stored)), case.version(), gates());
            assert_eq!(
                after,
                defaulted(&stored, Some(&stored), case.version(), gates()),
                "{}",
                case.name
            );
            stored_clean += 1;
        }
        let bare = gates().with(Gate::TemplateNoDefaults, true);
        let after = defaulted(&marked(&stored), Some(&stored), case.version(), bare);
        assert_eq!(after["spec"]["template"].get("$patch"), None, "{}", case.name);
    }
    assert!(stored_clean > 10);
}
