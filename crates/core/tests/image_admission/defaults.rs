//! Defaults: what users wrote, and what was stored.

use kruise_core::json_patch::diff;
use kruise_core::shared::tree::Object;
use kruise_core::{imagelistpulljob, imagepulljob, nodeimage};
use serde::Deserialize;
use serde_json::Value;

/// One recorded request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// Begins with the version.
    name: String,
    given: Option<Value>,
    stored: Option<Value>,
    patch: Option<Value>,
    then: Value,
}

impl Case {
    fn sent(&self) -> Value {
        self.given.clone().unwrap_or_else(|| {
            let mut object = self.stored.clone().unwrap();
            json_patch::merge(&mut object, self.patch.as_ref().unwrap());
            object
        })
    }

    fn is_old_version(&self) -> bool {
        self.name.starts_with("v1alpha1")
    }
}

pub(crate) fn completed(kind: &str, object: &Value, is_old_version: bool, is_new: bool) -> Value {
    let mut completed: Object = object.as_object().unwrap().clone();
    match kind {
        "ImagePullJob" => imagepulljob::default::default(&mut completed, is_old_version && is_new),
        "ImageListPullJob" => imagelistpulljob::default::default(&mut completed, is_old_version),
        _ => nodeimage::default::default(&mut completed, "2026-11-15T08:12:35.9Z".parse().unwrap()),
    }
    Value::Object(completed)
}

/// The recording has the time at which it was made in every tag that did not say one.
fn without_times(mut object: Value, sent: &Value) -> Value {
    let Some(images) = object.pointer_mut("/spec/images").and_then(Value::as_object_mut) else {
        return object;
    };
    for (name, image) in images {
        let given = sent["spec"]["images"][name.as_str()]["tags"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        for tag in image["tags"].as_array_mut().unwrap() {
            let is_given = given
                .iter()
                .any(|each| each["tag"] == tag["tag"] && each["createdAt"].is_string());
            assert!(tag["createdAt"].is_string());
            if !is_given {
                tag["createdAt"] = Value::Null;
            }
        }
    }
    object
}

#[test]
fn given_what_users_wrote_then_the_same_is_stored() {
    let mut compared = 0;
    for (kind, text) in [
        (
            "ImagePullJob",
            include_str!("../../fixtures/images/imagepulljob-defaults.json"),
        ),
        (
            "ImageListPullJob",
            include_str!("../../fixtures/images/imagelistpulljob-defaults.json"),
        ),
        (
            "NodeImage",
            include_str!("../../fixtures/images/nodeimage-defaults.json"),
        ),
    ] {
        let cases: Vec<Case> = serde_json::from_str(text).unwrap();
        for case in cases {
            let sent = case.sent();
            let ours = completed(kind, &sent, case.is_old_version(), case.stored.is_none());
            let differences = diff(&without_times(case.then.clone(), &sent), without_times(ours, &sent));
            assert!(differences.is_empty(), "{kind} {}: {differences:#?}", case.name);
            let again = completed(kind, &case.then, case.is_old_version(), case.stored.is_none());
            assert_eq!(again, case.then, "{kind} {}: a second time changes nothing", case.name);
            compared += 1;
        }
    }
    assert_eq!(compared, 64);
}
