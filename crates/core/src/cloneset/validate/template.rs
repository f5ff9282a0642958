//! The Pod template of a CloneSet.

use crate::field_error::{FieldError, Path};
use crate::shared::tree::{Object, child_or_new};
use kruise_api::raw::{PodTemplate, VolumeClaimTemplates};
use serde_json::{Value, json};

/// The template as its Pods will have it: with a volume for each claim. To be judged by the API server.
///
/// A claim takes the place of a volume of the same name; others come after the template's own.
pub fn with_claims(template: &PodTemplate, claims: &VolumeClaimTemplates) -> Object {
    let mut template = object(template);
    let Value::Array(claims) = claims.value() else {
        return template;
    };
    if claims.is_empty() {
        return template;
    }
    let Some(volumes) = child_or_new(&mut template, "spec").and_then(volumes) else {
        return template;
    };
    let own = volumes.len();
    for claim in claims {
        let name = claim
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let volume = json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
        // Two claims of one name are a mistake that has to be seen.
        let same = volumes
            .iter_mut()
            .take(own)
            .find(|volume| volume.get("name").is_some_and(|own| own == name));
        match same {
            Some(same) => *same = volume,
            None => volumes.push(volume),
        }
    }
    template
}

/// The list of volumes; none when something else stands there, which the API server will say.
fn volumes(spec: &mut Object) -> Option<&mut Vec<Value>> {
    let volumes = spec.entry("volumes").or_insert(Value::Null);
    if volumes.is_null() {
        *volumes = json!([]);
    }
    volumes.as_array_mut()
}

/// The labels that Pods get.
pub(super) fn labels(template: &PodTemplate) -> Object {
    let template = template.value();
    template
        .pointer("/metadata/labels")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
}

/// What a CloneSet asks of a template beyond its being one.
pub(super) fn validate(template: &PodTemplate, path: &Path) -> Vec<FieldError> {
    let template = template.value();
    let spec = path.child("spec");
    let mut errors = Vec::new();
    let policy = template.pointer("/spec/restartPolicy").and_then(Value::as_str);
    if let Some(policy) = policy.filter(|policy| !matches!(*policy, "" | "Always")) {
        errors.push(FieldError::not_supported(
            &spec.child("restartPolicy"),
            policy,
            &["Always"],
        ));
    }
    if template
        .pointer("/spec/activeDeadlineSeconds")
        .is_some_and(|deadline| !deadline.is_null())
    {
        let detail = "activeDeadlineSeconds in cloneset is not Supported";
        errors.push(FieldError::forbidden(&spec.child("activeDeadlineSeconds"), detail));
    }
    errors
}

/// The template as an object; an empty one when it is something else.
pub(super) fn object(template: &PodTemplate) -> Object {
    match template.value() {
        Value::Object(template) => template,
        _ => Object::new(),
    }
}
