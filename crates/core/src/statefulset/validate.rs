//! What a StatefulSet has to be.
//!
//! - Its name is a DNS label: Pods have it in their hostname.
//! - The selector says something, is well formed and matches the labels of the Pod template. Selector, `serviceName` and `podManagementPolicy` cannot be changed.
//! - Pods are restarted always and have no deadline of their own; labels and annotations of the template are well formed. Nothing else of the template is looked at.
//! - `reserveOrdinals` are not negative, and ranges go up.
//! - `OnDelete` has no rules of a rolling update. In a rolling update the numbers can be read and are not negative, `maxUnavailable` is at least one, and
//!   more than one only with `Parallel`; so is an unordered update. To be updated in place, Pods need the readiness gate `InPlaceUpdateReady`.
//! - Under `InPlaceOnly` an update changes nothing of the Pod but images and metadata.
//! - The retention policy has words that are known.
//! - Where claims grow with their templates, a change of these is one of size, and of a class that allows it ([`claims`]).

mod claims;
mod strategy;

pub use claims::classes_to_look_up;

use kruise_api::gates::Gates;
use kruise_api::shared::in_place::PodUpdatePolicy;
use kruise_api::statefulset::PodManagementPolicy;
use kruise_api::statefulset::v1beta1::{ClaimRetention, ReservedOrdinals, StatefulSetSpec};
use serde_json::{Value, json};

use super::Submitted;
use crate::admission::Lookups;
use crate::field_error::{FieldError, FieldErrors, Path};
use crate::shared::validate::label::{key_faults, value_faults};
use crate::shared::validate::selector::is_same;
use crate::shared::validate::{object_meta, pod_template};

const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
const MOST_OF_LABEL: usize = 63;
const FIXED: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'reserveOrdinals', 'lifecycle', \
    'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy', 'volumeClaimTemplates', 'volumeClaimUpdateStrategy', 'scaleStrategy' and \
    'updateStrategy' are forbidden";

/// Everything that is wrong with a StatefulSet; `old` is what it was before an update.
pub fn validate(new: &Submitted, old: Option<&Submitted>, gates: Gates, lookups: &Lookups) -> FieldErrors {
    let path = Path::new("spec");
    let spec = &new.spec;
    let mut errors = object_meta::validate(&new.metadata);
    if errors.is_empty() {
        errors.extend(name_fault(new.metadata.name.as_deref().unwrap_or_default()));
    }
    policy(spec, &path, &mut errors);
    errors.extend(reserved(&spec.reserve_ordinals, &path));
    errors.extend(strategy::validate(spec));
    retention(spec, &path, &mut errors);
    if let Some(replicas) = spec.replicas.filter(|replicas| *replicas < 0) {
        errors.push(FieldError::invalid(&path.child("replicas"), replicas, NOT_NEGATIVE));
    }
    let if_empty = "empty selector is invalid for statefulset";
    errors.extend(pod_template::validate_selector(
        &spec.selector,
        &spec.template,
        &path,
        if_empty,
    ));
    template(spec, &path.child("template"), &mut errors);
    if let Some(old) = old {
        change(spec, &old.spec, &path, &mut errors);
        errors.extend(claims::validate(spec, &old.spec, gates, lookups));
    }
    FieldErrors(errors)
}

fn name_fault(name: &str) -> Option<FieldError> {
    let at = Path::new("metadata").child("name");
    if name.contains('.') {
        Some(FieldError::invalid(&at, name, "must not contain dots"))
    } else if name.len() > MOST_OF_LABEL {
        let detail = format!("must be no more than {MOST_OF_LABEL} characters");
        Some(FieldError::invalid(&at, name, &detail))
    } else {
        None
    }
}

fn policy(spec: &StatefulSetSpec, path: &Path, errors: &mut Vec<FieldError>) {
    let at = path.child("podManagementPolicy");
    match &spec.pod_management_policy {
        PodManagementPolicy::OrderedReady | PodManagementPolicy::Parallel => {}
        PodManagementPolicy::Unset => errors.push(FieldError::required(&at, "")),
        other @ PodManagementPolicy::Other(_) => {
            let detail = "must be 'OrderedReady' or 'Parallel'";
            errors.push(FieldError::invalid(&at, other.as_str(), detail));
        }
    }
}

/// The original says these of the spec as a whole, and users' tools may look for it there.
fn reserved(reserved: &[ReservedOrdinals], path: &Path) -> Vec<FieldError> {
    let shown = json!(reserved);
    let fault = |(number, ordinals): (usize, &ReservedOrdinals)| {
        let detail = match ordinals {
            ReservedOrdinals::Int(ordinal) if *ordinal < 0 => {
                format!("{number} th reserve ordinal is negative: {ordinal}")
            }
            ReservedOrdinals::Int(_) => return None,
            ReservedOrdinals::Text(_) => {
                let wrong = ordinals.range().err()?;
                format!("{number} th reserve ordinal is invalid: {wrong}")
            }
        };
        Some(FieldError::invalid(path, shown.clone(), &detail))
    };
    reserved.iter().enumerate().filter_map(fault).collect()
}

fn retention(spec: &StatefulSetSpec, path: &Path, errors: &mut Vec<FieldError>) {
    let Some(policy) = &spec.persistent_volume_claim_retention_policy else {
        return;
    };
    let path = path.child("persistentVolumeClaimRetentionPolicy");
    for (name, word) in [
        ("whenDeleted", &policy.when_deleted),
        ("whenScaled", &policy.when_scaled),
    ] {
        if !matches!(word, ClaimRetention::Retain | ClaimRetention::Delete) {
            let at = path.child(name);
            errors.push(FieldError::not_supported(&at, word.as_str(), &["Retain", "Delete"]));
        }
    }
}

fn template(spec: &StatefulSetSpec, path: &Path, errors: &mut Vec<FieldError>) {
    let template = spec.template.value();
    let pairs = |name: &str| {
        template
            .pointer(&format!("/metadata/{name}"))
            .and_then(Value::as_object)
    };
    let at = path.child("labels");
    for (key, value) in pairs("labels").into_iter().flatten() {
        let invalid = |value: &str, faults: Vec<String>| -> Vec<FieldError> {
            faults
                .iter()
                .map(|fault| FieldError::invalid(&at, value, fault))
                .collect()
        };
        errors.extend(invalid(key, key_faults(key)));
        let value = value.as_str().unwrap_or_default();
        errors.extend(invalid(value, value_faults(value)));
    }
    let at = path.child("annotations");
    for (key, _) in pairs("annotations").into_iter().flatten() {
        let faults = key_faults(&key.to_lowercase());
        errors.extend(faults.iter().map(|fault| FieldError::invalid(&at, key.as_str(), fault)));
    }
    let if_deadline = "activeDeadlineSeconds in StatefulSet is not Supported";
    errors.extend(pod_template::validate(&spec.template, path, if_deadline));
}

fn change(new: &StatefulSetSpec, old: &StatefulSetSpec, path: &Path, errors: &mut Vec<FieldError>) {
    let is_fixed = is_same(&new.selector, &old.selector)
        && new.service_name == old.service_name
        && new.pod_management_policy == old.pod_management_policy;
    if !is_fixed {
        errors.push(FieldError::forbidden(path, FIXED));
    }
    let rolling = new.update_strategy.rolling_update.as_ref();
    let in_place_only = rolling.is_some_and(|rolling| rolling.pod_update_policy == PodUpdatePolicy::InPlaceOnly);
    // Whatever else is wrong comes first: it may be the same change.
    if in_place_only
        && errors.is_empty()
        && let Some(change) = pod_template::beyond_images(&new.template, &old.template)
    {
        let detail = format!("only allowed to update images in spec for InPlaceOnly, but found {change}");
        errors.push(FieldError::forbidden(&path.child("template"), &detail));
    }
}
