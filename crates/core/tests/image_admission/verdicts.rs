//! Verdicts: the same are allowed and refused, for the same reasons, and each refusal names the field.

use super::defaults::completed;
use kruise_api::read::from_value;
use kruise_core::field_error::FieldErrors;
use kruise_core::{imagelistpulljob, imagepulljob, nodeimage};
use serde::Deserialize;
use serde_json::{Value, json};

/// One recorded request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) object: Value,
    pub(crate) old: Option<Value>,
    pub(crate) pod: Option<Value>,
    pub(crate) code: Option<u16>,
    pub(crate) says: Option<String>,
    /// Fields with which the API server found something wrong by itself.
    pub(crate) api_server: Option<Vec<String>>,
}

/// What was wrong, in our wording of values: JSON, and no names of Go's functions.
pub(crate) fn reworded(says: &str) -> String {
    says.replace("[]string(nil)", "[]")
        .split(": strconv.")
        .next()
        .unwrap()
        .to_owned()
}

/// Code and message of a refusal.
pub(crate) type Refusal = Option<(u16, String)>;

fn refusal(errors: &FieldErrors) -> Refusal {
    (!errors.is_empty()).then(|| (400, errors.to_string()))
}

fn judged(kind: &str, case: &Case) -> Refusal {
    let is_old_version = case.version == "v1alpha1";
    let object = completed(kind, &case.object, is_old_version, case.old.is_none());
    let unreadable = |error: kruise_api::read::ReadError| Some((400, error.to_string()));
    match kind {
        "ImagePullJob" => {
            let new: imagepulljob::Submitted = match from_value(&object) {
                Ok(new) => new,
                Err(error) => return unreadable(error),
            };
            let old: Option<imagepulljob::Submitted> = case.old.as_ref().map(|old| from_value(old).unwrap());
            let forbidden = old.and_then(|old| imagepulljob::validate::forbidden(&new, &old));
            refusal(&imagepulljob::validate::validate(&new)).or(forbidden.map(|error| (403, error.to_string())))
        }
        "ImageListPullJob" => match from_value(&object) {
            Ok(new) => refusal(&imagelistpulljob::validate::validate(&new)),
            Err(error) => unreadable(error),
        },
        _ => match from_value(&object) {
            Ok(new) => refusal(&nodeimage::validate::validate(&new)),
            Err(error) => unreadable(error),
        },
    }
}

#[test]
fn given_what_users_sent_then_the_same_is_refused_for_the_same_reason() {
    let mut compared = 0;
    for (kind, text) in [
        (
            "ImagePullJob",
            include_str!("../../fixtures/images/imagepulljob-verdicts.json"),
        ),
        (
            "ImageListPullJob",
            include_str!("../../fixtures/images/imagelistpulljob-verdicts.json"),
        ),
        (
            "NodeImage",
            include_str!("../../fixtures/images/nodeimage-verdicts.json"),
        ),
    ] {
        let cases: Vec<Case> = serde_json::from_str(text).unwrap();
        for case in cases {
            compared += 1;
            let at = format!("{kind} {} {}", case.version, case.name);
            let ours = judged(kind, &case);
            if case.api_server.is_some() {
                // Its own rules and the schema; what both know is said by both.
                continue;
            }
            match (&case.says, ours) {
                (None, None) => {}
                (Some(says), Some((code, message))) => {
                    assert_eq!(Some(code), case.code, "{at}: {message}");
                    assert!(message.contains("spec."), "{at} has no field: {message}");
                    if case.name == "created-at-bad" {
                        assert!(
                            message.starts_with("spec.images.nginx.tags[0].createdAt: "),
                            "{message}"
                        );
                    } else {
                        assert!(message.contains(&reworded(says)), "{at}: {message}\nbut was: {says}");
                    }
                }
                (says, ours) => panic!("{at}: {ours:?}\nbut was: {says:?}"),
            }
        }
    }
    assert_eq!(compared, 224);
}

#[test]
fn given_many_images_then_256_are_enough() {
    for (count, refused) in [(256, false), (257, true)] {
        let images: serde_json::Map<String, Value> = (0..count)
            .map(|n| (format!("image-{n}"), json!({"tags": []})))
            .collect();
        let new: nodeimage::Submitted =
            from_value(&json!({"metadata": {"name": "a"}, "spec": {"images": images}})).unwrap();
        let errors = nodeimage::validate::validate(&new);
        assert_eq!(!errors.is_empty(), refused, "{errors}");
        if refused {
            assert!(
                errors
                    .to_string()
                    .contains("spec images length 257 can not be more than 256")
            );
        }
    }
}
