//! The Pod template of a workload, and the selector that has to match it.
//!
//! - The selector says something, is well formed and matches the labels of the template.
//! - Pods are restarted always and have no deadline of their own.
//!
//! Everything else about the template is judged by the API server itself, with one volume for each claim template ([`with_claims`]). Details that name a kind
//! come from the caller.

use super::selector as well_formed;
use crate::field_error::{FieldError, Path};
use crate::json_patch::{Operation, diff};
use crate::pod_template::artefacts;
use crate::shared::selector;
use crate::shared::tree::{Object, child_or_new};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
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
fn labels(template: &PodTemplate) -> Object {
    let template = template.value();
    template
        .pointer("/metadata/labels")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
}

/// What is wrong with the selector of a workload whose spec is at `spec`; `if_empty` is said of one that chooses everything.
pub fn validate_selector(
    given: &LabelSelector,
    template: &PodTemplate,
    spec: &Path,
    if_empty: &str,
) -> Vec<FieldError> {
    let path = spec.child("selector");
    let mut errors = well_formed::validate(given, &path);
    if well_formed::fault(given).is_some() {
        errors.push(FieldError::invalid(&path, shown(given), ""));
        return errors;
    }
    if selector::is_empty(given) {
        errors.push(FieldError::invalid(&path, shown(given), if_empty));
        return errors;
    }
    let labels = labels(template);
    if !selector::matches(given, |key| labels.get(key).and_then(Value::as_str)) {
        let at = spec.child("template").child("metadata").child("labels");
        let detail = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid(&at, Value::Object(labels), detail));
    }
    errors
}

fn shown(selector: &LabelSelector) -> Value {
    serde_json::to_value(selector).unwrap_or_else(|_| Value::Object(Object::new()))
}

/// What a workload asks of the template at `path` beyond its being one; `if_deadline` is said of Pods with a deadline.
pub fn validate(template: &PodTemplate, path: &Path, if_deadline: &str) -> Vec<FieldError> {
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
        errors.push(FieldError::forbidden(&spec.child("activeDeadlineSeconds"), if_deadline));
    }
    errors
}

/// The template as an object; an empty one when it is something else.
pub fn object(template: &PodTemplate) -> Object {
    match template.value() {
        Value::Object(template) => template,
        _ => Object::new(),
    }
}

/// Returns the first change of the Pod's spec that is not a new image of a container that is there.
pub fn beyond_images(new: &PodTemplate, old: &PodTemplate) -> Option<String> {
    let spec = |template: &PodTemplate| {
        let mut template = object(template);
        artefacts(&mut template);
        template.remove("spec").unwrap_or_default()
    };
    let changes = diff(&spec(old), spec(new));
    changes.iter().find_map(|change| match change {
        Operation::Replace { path, value } if value.is_string() && is_image(path) => None,
        Operation::Replace { path, .. } => Some(format!("replace {path}")),
        Operation::Add { path, .. } => Some(format!("add {path}")),
        Operation::Remove { path } => Some(format!("remove {path}")),
    })
}

fn is_image(path: &str) -> bool {
    let index = path
        .strip_prefix("/containers/")
        .and_then(|rest| rest.strip_suffix("/image"));
    index.is_some_and(|index| !index.is_empty() && index.bytes().all(|digit| digit.is_ascii_digit()))
}
