//! How Pods are brought to a new template.

use super::super::version::{Rolling, Submitted};
use super::NOT_NEGATIVE;
use crate::field_error::{FieldError, Path};
use crate::shared::validate::{scaled, update_order};
use kruise_api::{
    cloneset::{v1alpha1, v1beta1},
    shared::{
        IntOrPercent,
        in_place::{InPlaceUpdateStrategy, PodUpdatePolicy},
    },
};

pub(super) fn validate(new: &Submitted) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_type(new, &mut errors);
    if let Some(rolling) = new.rolling() {
        validate_rolling(&rolling, new, &mut errors);
    }
    if let Submitted::V1alpha1(set) = new
        && let Some(deadline) = set.spec.progress_deadline_seconds
    {
        let path = Path::new("spec").child("progressDeadlineSeconds");
        if deadline < 0 {
            errors.push(FieldError::invalid(&path, deadline, NOT_NEGATIVE));
        }
        if deadline != i32::MAX && deadline <= set.spec.min_ready_seconds {
            errors.push(FieldError::invalid(
                &path,
                deadline,
                "must be greater than minReadySeconds",
            ));
        }
    }
    errors
}

fn validate_type(new: &Submitted, errors: &mut Vec<FieldError>) {
    let path = Path::new("spec").child("updateStrategy");
    match new {
        Submitted::V1alpha1(set) => {
            use v1alpha1::UpdateStrategyType::{InPlaceIfPossible, InPlaceOnly, OnDelete, Other, ReCreate, Unset};
            match &set.spec.update_strategy.type_ {
                ReCreate | InPlaceIfPossible | InPlaceOnly => {}
                other @ (OnDelete | Unset | Other(_)) => errors.push(FieldError::invalid(
                    &path.child("type"),
                    other.as_str(),
                    "must be 'ReCreate', InPlaceIfPossible or 'InPlaceOnly'",
                )),
            }
        }
        Submitted::V1beta1(set) => {
            let update = &set.spec.update_strategy;
            if let v1beta1::UpdateStrategyType::Other(other) = &update.type_ {
                let detail = "must be 'RollingUpdate' or 'OnDelete'";
                errors.push(FieldError::invalid(&path.child("type"), other.to_string(), detail));
            }
            let policy = update.rolling_update.as_ref().map(|rolling| &rolling.pod_update_policy);
            if let Some(PodUpdatePolicy::Other(other)) = policy {
                let at = path.child("rollingUpdate").child("podUpdatePolicy");
                let detail = "must be 'ReCreate', 'InPlaceIfPossible' or 'InPlaceOnly'";
                errors.push(FieldError::invalid(&at, other.to_string(), detail));
            }
        }
    }
}

fn validate_rolling(rolling: &Rolling<'_>, new: &Submitted, errors: &mut Vec<FieldError>) {
    let replicas = new.replicas();
    let place = |name: &str| rolling.path.child(name);

    let at = place("partition");
    let partition = scaled::round_up(rolling.partition, replicas, "partition", &at, errors);
    if partition < 0 {
        errors.push(FieldError::invalid(&at, partition, NOT_NEGATIVE));
    }

    let mut limit = |value: Option<&IntOrPercent>, name: &str| match value {
        None => 0,
        value => scaled::round_up(value, replicas, name, &place(name), errors),
    };
    let unavailable = limit(rolling.max_unavailable, "maxUnavailable");
    let surge = limit(rolling.max_surge, "maxSurge");
    if rolling.in_place_only && surge > 0 {
        let what = match new {
            Submitted::V1alpha1(_) => "strategy type",
            Submitted::V1beta1(_) => "podUpdatePolicy",
        };
        let detail = format!("can not use maxSurge with {what} InPlaceOnly");
        let given = rolling.max_surge.map(ToString::to_string).unwrap_or_default();
        errors.push(FieldError::invalid(&place("maxSurge"), given, &detail));
    }
    if replicas > 0 && unavailable < 1 && surge < 1 {
        let detail = "maxUnavailable and maxSurge should not both be less than 1";
        let given = scaled::shown(rolling.max_unavailable);
        errors.push(FieldError::invalid(&place("maxUnavailable"), given, detail));
    }

    if let Some(priority) = rolling.priority {
        errors.extend(update_order::validate_priority(priority, &place("priorityStrategy")));
    }
    errors.extend(update_order::validate_scatter(
        rolling.scatter,
        &place("scatterStrategy"),
    ));
    if let Some(in_place) = rolling.in_place {
        validate_in_place(in_place, &place("inPlaceUpdateStrategy"), errors);
    }
}

fn validate_in_place(strategy: &InPlaceUpdateStrategy, path: &Path, errors: &mut Vec<FieldError>) {
    let at = path.child("imagePreDownloadParallelism");
    let negative = "imagePreDownloadParallelism must be non-negative";
    match &strategy.image_pre_download_parallelism {
        Some(IntOrPercent::Int(count)) if *count < 0 => errors.push(FieldError::invalid(&at, *count, negative)),
        Some(IntOrPercent::Text(text)) => match text.parse::<i64>() {
            Ok(count) if count < 0 => errors.push(FieldError::invalid(&at, text.to_string(), negative)),
            Ok(_) => {}
            Err(error) => {
                use std::num::IntErrorKind::{NegOverflow, PosOverflow};
                let reason = match error.kind() {
                    PosOverflow | NegOverflow => "value out of range",
                    _ => "invalid syntax",
                };
                let detail = format!(
                    "imagePreDownloadParallelism must be a valid integer: strconv.ParseInt: parsing {text:?}: {reason}"
                );
                errors.push(FieldError::invalid(&at, text.to_string(), &detail));
            }
        },
        _ => {}
    }
    for (name, value) in [
        (
            "imagePreDownloadTimeoutSeconds",
            strategy.image_pre_download_timeout_seconds,
        ),
        (
            "imagePreDownloadMinUpdatedReadyPods",
            strategy.image_pre_download_min_updated_ready_pods,
        ),
    ] {
        if let Some(value) = value.filter(|value| *value < 0) {
            errors.push(FieldError::invalid(&path.child(name), value, NOT_NEGATIVE));
        }
    }
}
