//! How Pods are brought to a new template, and how they are added.

use kruise_api::names::condition::pod::IN_PLACE_UPDATE_READY;
use kruise_api::shared::IntOrPercent;
use kruise_api::shared::in_place::PodUpdatePolicy;
use kruise_api::statefulset::v1beta1::StatefulSetSpec;
use kruise_api::statefulset::{PodManagementPolicy, RollingUpdate, UpdateStrategyType};
use serde_json::{Value, json};

use super::NOT_NEGATIVE;
use crate::field_error::{FieldError, Path};
use crate::shared::pod_update::is_in_place;
use crate::shared::validate::{scaled, update_order};

const MOST_MIN_READY_SECONDS: i32 = 300;
const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
const ONLY_PARALLEL: &str = "can only work with Parallel PodManagementPolicyType";

pub(super) fn validate(spec: &StatefulSetSpec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = Path::new("spec").child("updateStrategy");
    let update = &spec.update_strategy;
    let rolling = path.child("rollingUpdate");
    match &update.type_ {
        UpdateStrategyType::Unset => errors.push(FieldError::required(&path, "")),
        UpdateStrategyType::Other(_) => {
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            errors.push(FieldError::invalid(&path, json!(update), detail));
        }
        UpdateStrategyType::OnDelete => {
            if let Some(given) = &update.rolling_update {
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                errors.push(FieldError::invalid(&rolling, json!(given), detail));
            }
        }
        UpdateStrategyType::RollingUpdate => {
            if let Some(given) = &update.rolling_update {
                rules(given, spec, &rolling, &mut errors);
            }
        }
    }
    if let Some(limit) = spec
        .scale_strategy
        .as_ref()
        .and_then(|scale| scale.max_unavailable.as_ref())
    {
        let at = Path::new("spec").child("scaleStrategy").child("maxUnavailable");
        limited(limit, spec, &at, &mut errors);
    }
    errors
}

fn rules(rolling: &RollingUpdate, spec: &StatefulSetSpec, path: &Path, errors: &mut Vec<FieldError>) {
    if let Some(partition) = rolling.partition.filter(|partition| *partition < 0) {
        errors.push(FieldError::invalid(&path.child("partition"), partition, NOT_NEGATIVE));
    }
    if let Some(seconds) = rolling.min_ready_seconds {
        let at = path.child("minReadySeconds");
        if seconds < 0 {
            errors.push(FieldError::invalid(&at, seconds, NOT_NEGATIVE));
        } else if seconds > MOST_MIN_READY_SECONDS {
            let detail = format!("must be no more than {MOST_MIN_READY_SECONDS} seconds");
            errors.push(FieldError::invalid(&at, seconds, &detail));
        }
    }
    let at = path.child("maxUnavailable");
    match &rolling.max_unavailable {
        None => errors.push(FieldError::required(&at, "")),
        Some(limit) => limited(limit, spec, &at, errors),
    }
    policy(&rolling.pod_update_policy, spec, path, errors);
    if let Some(unordered) = &rolling.unordered_update {
        let at = path.child("unorderedUpdate");
        if !is_parallel(spec) {
            errors.push(FieldError::required(&at, &format!("unorderedUpdate {ONLY_PARALLEL}")));
        }
        if let Some(priority) = &unordered.priority_strategy {
            errors.extend(update_order::validate_priority(priority, &at.child("priorityStrategy")));
        }
    }
}

fn is_parallel(spec: &StatefulSetSpec) -> bool {
    spec.pod_management_policy == PodManagementPolicy::Parallel
}

/// A limit of unavailable Pods.
fn limited(limit: &IntOrPercent, spec: &StatefulSetSpec, at: &Path, errors: &mut Vec<FieldError>) {
    let shown = || scaled::shown(Some(limit));
    match limit {
        IntOrPercent::Int(count) if *count < 0 => errors.push(FieldError::invalid(at, *count, NOT_NEGATIVE)),
        IntOrPercent::Int(_) => {}
        IntOrPercent::Text(text) => {
            let digits = text.strip_suffix('%').filter(|digits| !digits.is_empty());
            if !digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())) {
                errors.push(FieldError::invalid(at, shown(), PERCENT));
                return;
            }
        }
    }
    if limit.ceil_of(1).unwrap_or(0) < 1 {
        errors.push(FieldError::invalid(at, shown(), "should not be less than 1"));
    }
    if !is_parallel(spec) && *limit != IntOrPercent::Int(1) {
        errors.push(FieldError::invalid(at, shown(), ONLY_PARALLEL));
    }
}

fn policy(policy: &PodUpdatePolicy, spec: &StatefulSetSpec, path: &Path, errors: &mut Vec<FieldError>) {
    let at = path.child("podUpdatePolicy");
    match policy {
        PodUpdatePolicy::Unset => errors.push(FieldError::required(&at, "")),
        PodUpdatePolicy::Other(other) => {
            let detail = "must be 'ReCreate', InPlaceIfPossible or 'InPlaceOnly'";
            errors.push(FieldError::invalid(&at, other.to_string(), detail));
        }
        _ => {}
    }
    if !is_in_place(policy) {
        return;
    }
    let template = spec.template.value();
    let gates = template.pointer("/spec/readinessGates").cloned().unwrap_or_default();
    let has = |gate: &Value| gate.get("conditionType").and_then(Value::as_str) == Some(IN_PLACE_UPDATE_READY);
    if !gates.as_array().is_some_and(|gates| gates.iter().any(has)) {
        let at = Path::new("spec")
            .child("template")
            .child("spec")
            .child("readinessGates");
        let detail = format!(
            "must contains {IN_PLACE_UPDATE_READY} when podUpdatePolicy is {}",
            policy.as_str()
        );
        errors.push(FieldError::invalid(&at, gates, &detail));
    }
}
