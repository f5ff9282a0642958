//! What an EphemeralJob has to be.
//!
//! - Every container says all of these itself, as nothing is filled in: `name`, `image`, `terminationMessagePolicy`, `imagePullPolicy`, and the `apiVersion` of a field that a
//!   variable is taken from. No two containers have the same name.
//! - It has nothing that an ephemeral container cannot have: ports, resources, probes, hooks, a restart policy, mounts of a part of a volume.
//! - The rest, environment, mounts and security, is what it may be for any container; the API server judges that ([`stand_in`]).
//!
//! Neither the container that is to be debugged nor the names of volumes are compared with anything: they belong to Pods, and those differ. A list without containers passes, and
//! the job then says that it is wrong. Containers that an update does not touch are not looked at again.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::Submitted;
use crate::admission::Lookups;
use crate::field_error::{FieldError, FieldErrors, Path};
use crate::shared::tree::Object;
use crate::shared::validate::label::dns_label_faults;
use crate::shared::validate::object_meta;

const LIST: &str = "ephemeralContainers";
/// Where the stand-in has the containers.
const STAND_IN: &str = "spec.containers";
const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const MESSAGE_POLICIES: [&str; 2] = ["File", "FallbackToLogsOnError"];
/// What no ephemeral container has. Empty lists and objects say nothing, but these pointers do.
const FORBIDDEN: [(&str, bool); 8] = [
    ("ports", false),
    ("resources", false),
    ("resizePolicy", false),
    ("restartPolicy", true),
    ("livenessProbe", true),
    ("readinessProbe", true),
    ("startupProbe", true),
    ("lifecycle", true),
];

/// Everything that is wrong with a job; `old` is what it was before an update.
pub fn validate(new: &Submitted, old: Option<&Submitted>, found: &Lookups) -> FieldErrors {
    let mut errors = FieldErrors(object_meta::validate(&new.metadata));
    if old.is_some_and(|old| old.spec.template == new.spec.template) {
        return errors;
    }
    let at = Path::new(LIST);
    let given = new.spec.template.ephemeral_containers.value();
    let mut names = BTreeSet::new();
    for (index, container) in given.as_array().into_iter().flatten().enumerate() {
        let at = at.index(index);
        validate_container(container, &at, &mut errors);
        let name = text(container, "name");
        if !name.is_empty() && !names.insert(name) {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        }
    }
    add_template_errors(found, &mut errors);
    errors
}

/// Adds what the API server said of the stand-in, but for what was said already.
fn add_template_errors(found: &Lookups, errors: &mut FieldErrors) {
    let known: BTreeSet<String> = errors.0.iter().map(|error| error.path.clone()).collect();
    for error in &found.template {
        let Some(rest) = error.path.strip_prefix(STAND_IN) else {
            continue;
        };
        let path = format!("{LIST}{rest}");
        if !known.contains(&path) {
            errors.push(FieldError { path, ..error.clone() });
        }
    }
}

fn text<'a>(container: &'a Value, field: &str) -> &'a str {
    container.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn validate_container(container: &Value, at: &Path, errors: &mut FieldErrors) {
    let (name, name_at) = (text(container, "name"), at.child("name"));
    if name.is_empty() {
        errors.push(FieldError::required(&name_at, ""));
    } else {
        errors.extend(
            dns_label_faults(name)
                .iter()
                .map(|fault| FieldError::invalid(&name_at, name, fault)),
        );
    }
    let (image, image_at) = (text(container, "image"), at.child("image"));
    if image.is_empty() {
        errors.push(FieldError::required(&image_at, ""));
    } else if image.trim() != image {
        errors.push(FieldError::invalid(
            &image_at,
            image,
            "must not have leading or trailing whitespace",
        ));
    }
    one_of(container, "terminationMessagePolicy", &MESSAGE_POLICIES, at, errors);
    one_of(container, "imagePullPolicy", &PULL_POLICIES, at, errors);
    let list = |field: &str| container.get(field).and_then(Value::as_array).into_iter().flatten();
    for (index, variable) in list("env").enumerate() {
        let at = at.child("env").index(index).child("valueFrom").child("fieldRef");
        let reference = variable.pointer("/valueFrom/fieldRef").filter(|given| !given.is_null());
        if reference.is_some_and(|reference| text(reference, "apiVersion").is_empty()) {
            errors.push(FieldError::required(&at.child("apiVersion"), ""));
        }
    }
    let detail = "cannot be set for an Ephemeral Container";
    for (index, mount) in list("volumeMounts").enumerate() {
        let at = at.child("volumeMounts").index(index);
        for field in ["subPath", "subPathExpr"] {
            if !text(mount, field).is_empty() {
                errors.push(FieldError::forbidden(&at.child(field), detail));
            }
        }
    }
    for (field, even_if_empty) in FORBIDDEN {
        let is_set = |given: &Value| match given {
            Value::Null => false,
            Value::Array(items) => even_if_empty || !items.is_empty(),
            Value::Object(fields) => even_if_empty || !fields.is_empty(),
            _ => true,
        };
        if container.get(field).is_some_and(is_set) {
            errors.push(FieldError::forbidden(&at.child(field), detail));
        }
    }
}

fn one_of(container: &Value, field: &str, known: &[&str], at: &Path, errors: &mut FieldErrors) {
    let (given, at) = (text(container, field), at.child(field));
    if given.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else if !known.contains(&given) {
        errors.push(FieldError::not_supported(&at, given, known));
    }
}

/// A Pod template for the API server to judge in place of ephemeral containers, which it takes in no template: they stand there as ordinary ones without what
/// only one of the two may have, with a volume for each that is mounted. Nothing when there is nothing to judge.
pub(super) fn stand_in(containers: &Value) -> Option<Object> {
    let given = containers.as_array().filter(|given| !given.is_empty())?;
    let mut volumes = BTreeSet::new();
    let mut stand_ins = Vec::with_capacity(given.len());
    for (index, container) in given.iter().enumerate() {
        let mut container = container.as_object()?.clone();
        for (field, _) in FORBIDDEN {
            container.remove(field);
        }
        container.remove("targetContainerName");
        // Names are judged by us; a double one would be told of another place.
        container.insert("name".to_owned(), json!(format!("c{index}")));
        for list in ["volumeMounts", "volumeDevices"] {
            let mounts = container.get(list).and_then(Value::as_array).into_iter().flatten();
            volumes.extend(mounts.map(|mount| text(mount, "name").to_owned()));
        }
        stand_ins.push(Value::Object(container));
    }
    let volumes = volumes.into_iter().filter(|name| !name.is_empty());
    let volumes: Vec<Value> = volumes
        .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": "any"}}))
        .collect();
    let mut template = Map::new();
    template.insert("spec".to_owned(), json!({"containers": stand_ins, "volumes": volumes}));
    Some(template)
}
