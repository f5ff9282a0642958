//! Annotations that a SidecarSet puts on Pods.
//!
//! An administrator says which keys are allowed, in the ConfigMap `kruise-configuration`: rules that go by the labels of the set, with regular expressions that have to
//! fit somewhere in the key. Where no rule is about a set, gate `SidecarSetPatchPodMetadataDefaultsAllowed` decides.

use crate::admission::{Lookups, ObjectRef};
use crate::field_error::{FieldError, FieldErrors, Path};
use crate::shared::selector;
use crate::shared::validate::label::key_faults;
use crate::shared::validate::selector as well_formed;
use crate::sidecarset::inject::resources::read_expression;
use kruise_api::configuration::{Configuration, MetadataRule};
use kruise_api::gates::{Gate, Gates};
use kruise_api::sidecarset::v1beta1::SidecarSet;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes that all annotations of an object may have together.
const LARGEST: usize = 256 * 1024;

pub(super) fn validate(new: &SidecarSet, gates: Gates, found: &Lookups, errors: &mut FieldErrors) {
    let patches = &new.spec.patch_pod_metadata;
    if patches.is_empty() {
        return;
    }
    let at = Path::new("spec").child("patchPodMetadata");
    match allowed(new, gates, found) {
        Err(reason) => errors.push(FieldError::invalid(&at, "", &reason)),
        Ok(Allowed::Nothing) => {
            let detail = "no rule of the ConfigMap kruise-configuration allows this set to change annotations of Pods";
            errors.push(FieldError::forbidden(&at, detail));
        }
        Ok(Allowed::Everything) => {}
        Ok(Allowed::Fitting(expressions)) => {
            for (index, patch) in patches.iter().enumerate() {
                for key in patch.annotations.keys() {
                    if !expressions.iter().any(|expression| expression.is_match(key)) {
                        let at = at.index(index).child("annotations").key(key);
                        errors.push(FieldError::forbidden(
                            &at,
                            "no rule of the ConfigMap kruise-configuration allows this key",
                        ));
                    }
                }
            }
        }
    }
    let mut seen = BTreeSet::new();
    for (index, patch) in patches.iter().enumerate() {
        let at = at.index(index).child("annotations");
        if patch.annotations.is_empty() {
            errors.push(FieldError::required(&at, "no annotations defined for SidecarSet"));
        }
        let size: usize = patch
            .annotations
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum();
        if size > LARGEST {
            errors.push(FieldError::too_long(&at, LARGEST));
        }
        for key in patch.annotations.keys() {
            let faults = key_faults(&key.to_lowercase());
            errors.extend(faults.iter().map(|fault| FieldError::invalid(&at, key.as_str(), fault)));
            if !seen.insert(key) {
                errors.push(FieldError::duplicate(&at.key(key), key.as_str()));
            }
        }
    }
}

enum Allowed {
    Nothing,
    Everything,
    Fitting(Vec<regex::Regex>),
}

fn allowed(new: &SidecarSet, gates: Gates, found: &Lookups) -> Result<Allowed, String> {
    let by_default = if gates.enabled(Gate::SidecarSetPatchPodMetadataDefaultsAllowed) {
        Allowed::Everything
    } else {
        Allowed::Nothing
    };
    let map = found.object(&ObjectRef::Configuration).map_err(str::to_owned)?;
    let data: BTreeMap<String, String> = match map.and_then(|map| map.get("data")) {
        Some(data) => serde_json::from_value(Value::clone(data)).unwrap_or_default(),
        None => BTreeMap::new(),
    };
    let rules = Configuration::read(&data)
        .sidecar_set_metadata
        .map_err(|error| error.to_string())?;
    let mut expressions = Vec::new();
    for MetadataRule {
        selector: chosen,
        allowed_annotation_keys,
    } in rules.unwrap_or_default()
    {
        if let Some(chosen) = &chosen {
            if let Some(fault) = well_formed::fault(chosen) {
                return Err(format!(
                    "a selector in the ConfigMap kruise-configuration cannot be used: {fault}"
                ));
            }
            let labels = new.metadata.labels.as_ref();
            if !selector::matches(chosen, |key| {
                labels.and_then(|labels| labels.get(key)).map(String::as_str)
            }) {
                continue;
            }
        }
        for text in &allowed_annotation_keys {
            let read = read_expression(text);
            expressions.push(read.map_err(|error| format!("{text:?} in the ConfigMap kruise-configuration: {error}"))?);
        }
    }
    Ok(if expressions.is_empty() {
        by_default
    } else {
        Allowed::Fitting(expressions)
    })
}
