//! The subsets: their names and numbers.
//!
//! - A number is one, or a share in whole percent, from 0 to 100.
//! - Subsets have either `replicas` or limits, all of them.
//! - With limits, at least one subset has no maximum, no minimum is above its maximum, and all minima together are not above all maxima.
//! - With `replicas`, all together are no more than those of the object, and the same when no subset takes the rest.

use std::collections::BTreeSet;

use kruise_api::shared::IntOrPercent;
use kruise_api::uniteddeployment::UnitedDeploymentSpec;
use kruise_api::uniteddeployment::topology::Subset;
use serde_json::json;

use super::placement;
use crate::field_error::{FieldError, Path};
use crate::shared::validate::scaled::shown;

/// What stands for a maximum that is not given, in a sum.
const NO_MAXIMUM: i64 = 1_000_000;
const LONGEST_NAME: usize = 63;
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric \
    character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

/// What is wrong with the subsets of a topology at `path`.
pub(super) fn validate(spec: &UnitedDeploymentSpec, path: &Path) -> Vec<FieldError> {
    let subsets = &spec.topology.subsets;
    let path = path.child("subsets");
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, subset) in subsets.iter().enumerate() {
        let at = path.index(index);
        errors.extend(name(&subset.name, &mut seen, &at.child("name")));
        errors.extend(placement::validate(subset, &at));
    }
    errors.extend(numbers(spec, &path));
    errors
}

fn name<'a>(name: &'a str, seen: &mut BTreeSet<&'a str>, at: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let invalid = |detail: &str| FieldError::invalid(at, name, &format!("invalid subset name {detail}"));
    if name.is_empty() {
        errors.push(FieldError::required(at, ""));
    } else if !seen.insert(name) {
        errors.push(FieldError::invalid(at, name, &format!("duplicated subset name {name}")));
    }
    let is_inner = |sign: u8| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == b'-';
    if name.contains('.') {
        errors.push(invalid("must not contain dots"));
    } else if name.len() > LONGEST_NAME {
        errors.push(invalid(&format!("must be no more than {LONGEST_NAME} characters")));
    } else if name.is_empty() || !name.bytes().all(is_inner) || name.starts_with('-') || name.ends_with('-') {
        errors.push(invalid(LABEL));
    }
    errors
}

fn is_limited(subset: &Subset) -> bool {
    subset.min_replicas.is_some() || subset.max_replicas.is_some()
}

fn numbers(spec: &UnitedDeploymentSpec, path: &Path) -> Vec<FieldError> {
    let subsets = &spec.topology.subsets;
    let total = spec.replicas.unwrap_or(1).max(0);
    let mut errors = Vec::new();
    let mut read = |index: usize, field: &str, value: Option<&IntOrPercent>| {
        let at = path.index(index).child(field);
        match count(value?, total, &at) {
            Ok(count) => Some(i64::from(count)),
            Err(error) => {
                errors.push(error);
                None
            }
        }
    };
    let numbers: Vec<[Option<i64>; 3]> = subsets
        .iter()
        .enumerate()
        .map(|(index, subset)| {
            [
                read(index, "replicas", subset.replicas.as_ref()),
                read(index, "minReplicas", subset.min_replicas.as_ref()),
                read(index, "maxReplicas", subset.max_replicas.as_ref()),
            ]
        })
        .collect();
    let has_limits = subsets.iter().any(is_limited);
    if has_limits && subsets.iter().any(|subset| subset.replicas.is_some()) {
        let detail =
            "subset.Replicas and subset.MinReplicas/subset.MaxReplicas are mutually exclusive in a UnitedDeployment";
        errors.push(FieldError::invalid(path, json!(subsets), detail));
        return errors;
    }
    if !errors.is_empty() {
        return errors;
    }
    if has_limits {
        limits(subsets, &numbers, path)
    } else {
        sums(subsets, &numbers, total, path)
    }
}

fn limits(subsets: &[Subset], numbers: &[[Option<i64>; 3]], path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if subsets.iter().all(|subset| subset.max_replicas.is_some()) {
        let detail = "at least one subset.maxReplicas must be empty";
        errors.push(FieldError::invalid(path, subsets.len(), detail));
    }
    let (mut least, mut most) = (0, 0);
    for (index, (subset, [_, min, max])) in subsets.iter().zip(numbers).enumerate() {
        let (min, max) = (min.unwrap_or_default(), max.unwrap_or(NO_MAXIMUM));
        if min > max {
            let detail = format!("subset[{index}].minReplicas must be less than or equal to maxReplicas");
            let at = path.index(index).child("minReplicas");
            errors.push(FieldError::invalid(&at, shown(subset.min_replicas.as_ref()), &detail));
        }
        least += min;
        most += max;
    }
    if least > most {
        let detail = format!("sum of minReplicas {least} should not be greater than sum of maxReplicas {most}");
        errors.push(FieldError::invalid(path, least, &detail));
    }
    errors
}

fn sums(subsets: &[Subset], numbers: &[[Option<i64>; 3]], total: i32, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let sum: i64 = numbers.iter().filter_map(|[replicas, ..]| *replicas).sum();
    if sum > i64::from(total) {
        let detail = format!(
            "sum of indicated subset replicas {sum} should not be greater than UnitedDeployment replicas {total}"
        );
        errors.push(FieldError::invalid(path, sum, &detail));
    }
    let is_full = !subsets.is_empty() && subsets.iter().all(|subset| subset.replicas.is_some());
    if is_full && sum != i64::from(total) {
        let detail = format!(
            "if replicas of all subsets are provided, the sum of indicated subset replicas {sum} should equal UnitedDeployment replicas {total}"
        );
        errors.push(FieldError::invalid(path, sum, &detail));
    }
    errors
}

/// Reads a number of Pods.
fn count(value: &IntOrPercent, total: i32, at: &Path) -> Result<i32, FieldError> {
    let wrong =
        |detail: &str| FieldError::invalid(at, shown(Some(value)), &format!("subset replicas ({value}) {detail}"));
    let text = match value {
        IntOrPercent::Int(count) if *count < 0 => return Err(wrong("should not be less than 0")),
        IntOrPercent::Int(count) => return Ok(*count),
        IntOrPercent::Text(text) => text,
    };
    let Some(number) = text.strip_suffix('%') else {
        return Err(wrong(
            "only support integer value or percentage value with a suffix '%'",
        ));
    };
    match number.parse::<i32>() {
        Err(_) => Err(wrong("should be correct percentage integer")),
        Ok(number) if !(0..=100).contains(&number) => Err(wrong("should be in range [0, 100]")),
        Ok(_) => value.round_of(total).map_err(|error| wrong(&error.to_string())),
    }
}
