//! What a ResourceDistribution has to be.
//!
//! - Its resource is a Secret or a ConfigMap with a name, and good: the API server is asked by a dry run of creating it in the manager's namespace, when it
//!   is new or has changed. Which object it is cannot be changed later.
//! - Namespaces have names that namespaces can have, and none is both included and excluded. Whether they exist does not matter.
//! - The selector can be read.

use std::collections::BTreeSet;

use kruise_api::resourcedistribution::NamespaceList;
use serde_json::Value;

use super::Submitted;
use super::manifest::{Identity, Manifest, Unfit};
use crate::admission::{Lookups, ObjectRef};
use crate::field_error::{FieldError, FieldErrorKind, FieldErrors, Path};
use crate::shared::validate::label::label_faults;
use crate::shared::validate::{object_meta, selector};

/// The dry run that a distribution needs.
pub(super) fn trial(new: &Submitted, old: Option<&Submitted>) -> Option<ObjectRef> {
    if old.is_some_and(|old| old.spec.resource == new.spec.resource) {
        return None;
    }
    let manifest = Manifest::read(&new.spec.resource).ok()?;
    Some(ObjectRef::DryRun {
        resource: manifest.resource(),
        object: new.spec.resource.json().to_owned(),
    })
}

/// Everything that is wrong with a distribution and its change.
pub(super) fn validate(new: &Submitted, old: Option<&Submitted>, found: &Lookups) -> FieldErrors {
    let mut errors = FieldErrors(object_meta::validate(&new.metadata));
    let spec = Path::new("spec");
    resource(new, old, found, &spec.child("resource"), &mut errors);
    targets(new, &spec.child("targets"), &mut errors);
    errors
}

fn resource(new: &Submitted, old: Option<&Submitted>, found: &Lookups, at: &Path, errors: &mut FieldErrors) {
    let identity = Identity::of(&new.spec.resource);
    match Manifest::read(&new.spec.resource) {
        Ok(_) => {}
        Err(Unfit::Missing) => return errors.push(FieldError::required(at, "")),
        Err(Unfit::Kind(kind)) => {
            let detail = "unknown or unsupported resource GroupKind, only support [Secret ConfigMap]";
            errors.push(FieldError::invalid(at, kind, detail));
        }
        Err(Unfit::NoName) => {
            let name = at.child("metadata").child("name");
            errors.push(FieldError::required(&name, "name or generateName is required"));
        }
        Err(unfit @ Unfit::Unreadable) => {
            errors.push(FieldError::invalid(at, identity.kind.as_str(), &unfit.to_string()));
        }
    }
    if old.is_some_and(|old| Identity::of(&old.spec.resource) != identity) {
        let named = format!("{} {}", identity.kind, identity.metadata.name);
        errors.push(FieldError::invalid(
            at,
            named,
            "resource apiVersion, kind, and name are immutable",
        ));
        return;
    }
    if let Some(trial) = trial(new, old) {
        match found.object(&trial) {
            Ok(None) => {}
            Ok(Some(refusal)) => refused(refusal, &identity, at, errors),
            Err(error) => errors.push(FieldError::internal(at, error)),
        }
    }
}

/// What the API server says of the resource, told at the place where the user has it.
fn refused(refusal: &Value, identity: &Identity, at: &Path, errors: &mut FieldErrors) {
    let text = |field: &str| refusal.get(field).and_then(Value::as_str).unwrap_or_default();
    let detail = format!("spec.resource is invalid: {}", text("message"));
    match text("reason") {
        "Invalid" => {
            let causes = refusal.pointer("/details/causes").and_then(Value::as_array);
            let before = errors.0.len();
            for cause in causes.into_iter().flatten() {
                let part = |name: &str| cause.get(name).and_then(Value::as_str).unwrap_or_default();
                let dot = if part("field").is_empty() || part("field").starts_with('[') {
                    ""
                } else {
                    "."
                };
                errors.push(FieldError {
                    path: format!("{at}{dot}{}", part("field")),
                    kind: FieldErrorKind::by_reason(part("reason")).unwrap_or(FieldErrorKind::Invalid),
                    body: part("message").to_owned(),
                });
            }
            if errors.0.len() == before {
                errors.push(FieldError::invalid(at, identity.metadata.name.as_str(), &detail));
            }
        }
        "BadRequest" => errors.push(FieldError::invalid(at, identity.metadata.name.as_str(), &detail)),
        "Forbidden" => errors.push(FieldError::forbidden(at, text("message"))),
        _ => errors.push(FieldError::internal(at, text("message"))),
    }
}

fn targets(new: &Submitted, at: &Path, errors: &mut FieldErrors) {
    let targets = &new.spec.targets;
    names(&targets.included_namespaces, &at.child("includedNamespaces"), errors);
    names(&targets.excluded_namespaces, &at.child("excludedNamespaces"), errors);
    let listed = |list: &NamespaceList| list.list.iter().map(|item| item.name.clone()).collect::<BTreeSet<_>>();
    let excluded = listed(&targets.excluded_namespaces);
    let included = listed(&targets.included_namespaces);
    let both: Vec<&str> = included.intersection(&excluded).map(String::as_str).collect();
    if !both.is_empty() {
        let names = both.join(" ");
        let detail = format!(
            "ambiguous targets because namespace [{names}] is in both IncludedNamespaces.List and ExcludedNamespaces.List"
        );
        errors.push(FieldError::invalid(at, names, &detail));
    }
    if let Some(given) = &targets.namespace_selector {
        errors.extend(selector::validate(given, &at.child("namespaceSelector")));
    }
}

fn names(list: &NamespaceList, at: &Path, errors: &mut FieldErrors) {
    for item in &list.list {
        let faults = label_faults(&item.name);
        errors.extend(
            faults
                .iter()
                .map(|fault| FieldError::invalid(at, item.name.as_str(), fault)),
        );
    }
}
