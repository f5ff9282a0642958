//! What a DaemonSet has to be.
//!
//! - The selector says something, is well formed and matches the labels of the Pod template. It cannot be changed.
//! - Pods are restarted always and have no deadline of their own. Everything else about the Pod template is judged by the API server itself; the caller brings
//!   what it found ([`Lookups::template`]).
//! - The update has a type that is known. A rolling one can move, and in one way: exactly one of `maxUnavailable` and `maxSurge` is not zero, and that is a count
//!   or a percentage up to 100. Updates in place know no surge. With `OnDelete` nothing of a rolling update is looked at.
//! - The partition is a count or a percentage up to 100.
//! - `minReadySeconds` and `revisionHistoryLimit` are not negative.
//! - There is no `inPlaceUpdate` hook.
//!
//! `burstReplicas` and the selector of an update are not looked at. Paths are those that users of OpenKruise know, `rollingUpdate.rollingUpdate.type` too.

use kruise_api::daemonset::{RollingUpdate, RollingUpdateType, UpdateStrategyType};
use kruise_api::shared::IntOrPercent;

use super::admit::Submitted;
use crate::admission::{Lookups, Version};
use crate::field_error::{FieldError, FieldErrors, Path};
use crate::shared::validate::scaled::shown;
use crate::shared::validate::{object_meta, pod_template, selector};

const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
const NOT_A_PERCENTAGE: &str = "a valid percent string must be a numeric string followed by an ending '%' \
    (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
const TOO_MUCH: &str = "must not be greater than 100%";

/// Everything that is wrong with a DaemonSet; `old` is what it was before an update.
pub fn validate(new: &Submitted, old: Option<&Submitted>, version: Version, lookups: &Lookups) -> FieldErrors {
    let path = Path::new("spec");
    let spec = &new.spec;
    let mut errors = object_meta::validate(&new.metadata);
    if old.is_some_and(|old| !selector::is_same(&spec.selector, &old.spec.selector)) {
        let scale = match version {
            Version::V1alpha1 => "",
            Version::V1beta1 => "'scaleStrategy',",
        };
        let fixed = format!(
            "updates to daemonset spec for fields other than 'BurstReplicas', 'template', 'lifecycle', {scale} \
             'updateStrategy', 'minReadySeconds', and 'revisionHistoryLimit' are forbidden"
        );
        errors.push(FieldError::forbidden(&path, &fixed));
    }
    errors.extend(validate_selector(new, &path));
    errors.extend(lookups.template.iter().cloned());
    errors.extend(pod_template::validate(
        &spec.template,
        &path.child("template"),
        "activeDeadlineSeconds in DaemonSet is not Supported",
    ));
    if spec.min_ready_seconds < 0 {
        let at = path.child("minReadySeconds");
        errors.push(FieldError::invalid(&at, spec.min_ready_seconds, NOT_NEGATIVE));
    }
    validate_strategy(new, version, &path.child("updateStrategy"), &mut errors);
    if let Some(limit) = spec.revision_history_limit.filter(|limit| *limit < 0) {
        let at = path.child("revisionHistoryLimit");
        errors.push(FieldError::invalid(&at, limit, NOT_NEGATIVE));
    }
    let hooks = spec.lifecycle.as_ref();
    if hooks.is_some_and(|hooks| hooks.in_place_update.is_some()) {
        let at = path.child("lifecycle").child("inPlaceUpdate");
        errors.push(FieldError::forbidden(&at, "inPlaceUpdate hook has not supported yet"));
    }
    FieldErrors(errors)
}

fn validate_selector(new: &Submitted, spec: &Path) -> Vec<FieldError> {
    let wrong = selector::validate(&new.spec.selector, &spec.child("selector"));
    if !wrong.is_empty() {
        return wrong;
    }
    let if_empty = "empty selector is invalid for daemonset";
    pod_template::validate_selector(&new.spec.selector, &new.spec.template, spec, if_empty)
}

fn validate_strategy(new: &Submitted, version: Version, path: &Path, errors: &mut Vec<FieldError>) {
    let update = &new.spec.update_strategy;
    match &update.type_ {
        UpdateStrategyType::OnDelete => {}
        UpdateStrategyType::RollingUpdate => match &update.rolling_update {
            Some(rolling) => validate_rolling(rolling, version, &path.child("rollingUpdate"), errors),
            None => errors.push(FieldError::required(&path.child("rollingUpdate"), "")),
        },
        UpdateStrategyType::Unset | UpdateStrategyType::Other(_) => {
            let given = serde_json::to_value(update).unwrap_or_default();
            errors.push(FieldError::not_supported(path, given, &["RollingUpdate", "OnDelete"]));
        }
    }
}

fn validate_rolling(rolling: &RollingUpdate, version: Version, path: &Path, errors: &mut Vec<FieldError>) {
    let (unavailable, surge) = (rolling.max_unavailable.as_ref(), rolling.max_surge.as_ref());
    match (is_non_zero(unavailable), is_non_zero(surge)) {
        (true, true) => {
            let detail = "may not be set when maxUnavailable is non-zero";
            errors.push(FieldError::invalid(&path.child("maxSurge"), shown(surge), detail));
        }
        (false, false) => {
            let detail = "cannot be 0 when maxSurge is 0";
            errors.push(FieldError::required(&path.child("maxUnavailable"), detail));
        }
        (true, false) => validate_amount(unavailable, &path.child("maxUnavailable"), errors),
        (false, true) => validate_amount(surge, &path.child("maxSurge"), errors),
    }
    let supported: &[&str] = match version {
        Version::V1alpha1 => &["Standard", "Surging", "InPlaceIfPossible"],
        Version::V1beta1 => &["Standard", "InPlaceIfPossible"],
    };
    let inner = path.child("rollingUpdate");
    match &rolling.rolling_update_type {
        RollingUpdateType::InPlaceIfPossible if is_non_zero(surge) => errors.push(FieldError::required(
            &path.child("maxSurge"),
            "must be 0 for InPlaceIfPossible type",
        )),
        RollingUpdateType::Surging if version == Version::V1alpha1 && is_non_zero(unavailable) => errors.push(
            FieldError::required(&path.child("maxUnavailable"), "must be 0 for Surging type"),
        ),
        known if supported.contains(&known.as_str()) => {}
        other => errors.push(FieldError::not_supported(
            &inner.child("type"),
            other.as_str(),
            supported,
        )),
    }
    validate_amount(rolling.partition.as_ref(), &inner.child("partition"), errors);
}

/// Says something above or below zero. What cannot be read does not.
fn is_non_zero(value: Option<&IntOrPercent>) -> bool {
    match value {
        None => false,
        Some(IntOrPercent::Int(count)) => *count != 0,
        Some(IntOrPercent::Text(text)) => text.replace('%', "").parse::<i64>().is_ok_and(|number| number != 0),
    }
}

/// A count, or a percentage up to 100.
fn validate_amount(value: Option<&IntOrPercent>, path: &Path, errors: &mut Vec<FieldError>) {
    let mut wrong = |detail: &str| errors.push(FieldError::invalid(path, shown(value), detail));
    match value {
        Some(IntOrPercent::Int(count)) if *count < 0 => wrong(NOT_NEGATIVE),
        Some(IntOrPercent::Text(text)) => {
            let digits = text.strip_suffix('%').filter(|digits| !digits.is_empty());
            match digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit())) {
                None => wrong(NOT_A_PERCENTAGE),
                // More digits than a number has are more than 100, too.
                Some(digits) if digits.parse::<u64>().is_ok_and(|percent| percent <= 100) => {}
                Some(_) => wrong(TOO_MUCH),
            }
        }
        _ => {}
    }
}
