//! What a PersistentPodState has to be.
//!
//! - It names a workload of a kind whose Pods have ordinals, which cannot be changed later, and no other of its namespace names the same one, in any version.
//! - It says what is to be the same: required or preferred topology. An empty list of keys counts.

use kruise_api::configuration::CustomWorkload;
use serde_json::{Value, json};

use super::admit::{OTHERS, Submitted};
use super::{kinds, workload_of};
use crate::admission::{Lookups, ObjectRef};
use crate::field_error::{FieldError, FieldErrors, Path};
use crate::shared::validate::object_meta;

/// Everything that is wrong with a PersistentPodState and its change.
pub(super) fn validate(new: &Submitted, old: Option<&Submitted>, found: &Lookups) -> FieldErrors {
    let mut errors = FieldErrors(object_meta::validate(&new.metadata));
    let spec = Path::new("spec");
    target(new, found, &spec.child("targetRef"), &mut errors);
    let has_preferred = new
        .spec
        .preferred_persistent_topology
        .as_ref()
        .is_some_and(|terms| !terms.is_empty());
    if new.spec.required_persistent_topology.is_none() && !has_preferred {
        let detail = "TopologyConstraint and TopologyPreference cannot be empty at the same time";
        errors.push(FieldError::invalid(&spec, json!({}), detail));
    }
    let at = spec.child("targetRef");
    if old.is_some_and(|old| old.spec.target_ref != new.spec.target_ref) {
        errors.push(FieldError::forbidden(&at, "targetRef is immutable"));
    }
    match conflict(new, found) {
        Ok(None) => {}
        Ok(Some(other)) => {
            let detail = format!("targetRef is in conflict with other PersistentPodState {other}");
            errors.push(FieldError::invalid(&at, shown(new), &detail));
        }
        Err(reason) => errors.push(FieldError::internal(&at, &reason)),
    }
    errors
}

fn shown(new: &Submitted) -> Value {
    let target = &new.spec.target_ref;
    json!({"apiVersion": target.api_version, "kind": target.kind, "name": target.name})
}

fn target(new: &Submitted, found: &Lookups, at: &Path, errors: &mut FieldErrors) {
    let target = &new.spec.target_ref;
    if target.api_version.is_empty() || target.kind.is_empty() || target.name.is_empty() {
        let detail = "empty targetRef is not valid for PersistentPodState.";
        errors.push(FieldError::invalid(at, shown(new), detail));
    }
    let workload = workload_of(target);
    if kinds::is_stateful_set(&workload) {
        return;
    }
    match listed(found) {
        Ok(list) if kinds::is_listed(&workload, &list) => {}
        Ok(_) => {
            let detail = "targetRef.Kind must be StatefulSet or in PPS_Watch_Custom_Workload_WhiteList";
            errors.push(FieldError::invalid(at, shown(new), detail));
        }
        Err(reason) => errors.push(FieldError::internal(at, &reason)),
    }
}

fn listed(found: &Lookups) -> Result<Vec<CustomWorkload>, String> {
    kinds::white_list(found.object(&ObjectRef::Configuration)?)
}

/// Another one of the namespace that names the same workload.
fn conflict(new: &Submitted, found: &Lookups) -> Result<Option<String>, String> {
    let others = found
        .items(&OTHERS)
        .map_err(|reason| format!("other PersistentPodStates of the namespace could not be listed: {reason}"))?;
    let workload = workload_of(&new.spec.target_ref);
    let mut others = others.filter_map(|other| serde_json::from_value::<Submitted>(other.clone()).ok());
    let same = others.find(|other| {
        other.metadata.name != new.metadata.name && workload_of(&other.spec.target_ref).is_same(&workload)
    });
    Ok(same.and_then(|other| other.metadata.name))
}
