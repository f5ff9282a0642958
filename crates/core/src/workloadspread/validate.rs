//! What a WorkloadSpread has to be.
//!
//! - It names a workload of a kind that can be spread, and always the same; no other spread of the namespace names it, in whatever version of its group.
//! - Its subsets have names of their own. What chooses nodes and tolerates taints is well formed.
//! - Limits are all counts or all percentages, and whole; counts only for StatefulSets. Percentages sum to 100 at most, and to 100 when the last one is limited too.
//! - The block `adaptive` is for the strategy `Adaptive`: then the last subset has no limit, and Pods do not wait so long in a subset that the first one is tried
//!   again before they have reached the last.
//! - A patch makes valid Pods of the workload's template, if the workload is there. The API server judges that.

use kruise_api::configuration::CustomWorkload;
use kruise_api::shared::IntOrPercent;
use kruise_api::workloadspread::ScheduleStrategyType;
use kruise_api::workloadspread::v1beta1::{WorkloadSpreadSpec, WorkloadSpreadSubset};

use super::related;
use super::schedulable::TRIED_AGAIN_AFTER;
use crate::admission;
use crate::field_error::{FieldError, FieldErrors, Path};
use crate::shared::validate::{node_terms, object_meta, scaled, selector};
use crate::shared::workload::WorkloadRef;

/// A spread as a user submitted it, in the words of v1beta1.
pub type Submitted = admission::Submitted<WorkloadSpreadSpec>;

/// What a spread is judged with.
#[derive(Clone, Debug)]
pub struct Known<'a> {
    /// The spreads of its namespace.
    pub others: &'a [Submitted],
    /// The white list, or why it cannot be read.
    pub custom: Result<&'a [CustomWorkload], String>,
}

/// Returns everything that is wrong with a spread.
pub fn validate(new: &Submitted, known: &Known<'_>) -> FieldErrors {
    let spec = Path::new("spec");
    let mut errors = object_meta::validate(&new.metadata);
    errors.extend(of_target(new, known, &spec.child("targetRef")));
    errors.extend(of_filter(new, &spec.child("targetFilter")));
    errors.extend(of_subsets(&new.spec, &spec.child("subsets")));
    errors.extend(of_strategy(&new.spec, &spec.child("scheduleStrategy")));
    FieldErrors(errors)
}

/// Returns why a spread may not be changed like this.
pub fn forbidden(new: &Submitted, old: &Submitted) -> Option<FieldError> {
    let target = |spread: &Submitted| spread.spec.target_ref.as_ref().map(WorkloadRef::from);
    let is_same = match (target(new), target(old)) {
        (Some(new), Some(old)) => new.is_same(&old),
        (new, old) => new.is_none() && old.is_none(),
    };
    let detail = "change TargetReference is not permitted for WorkloadSpread";
    (!is_same).then(|| FieldError::invalid(&Path::new("spec").child("targetRef"), shown(new), detail))
}

fn shown(spread: &Submitted) -> String {
    let target = spread.spec.target_ref.as_ref();
    target.map_or_else(String::new, |target| {
        format!("{}/{} {}", target.api_version, target.kind, target.name)
    })
}

fn of_target(new: &Submitted, known: &Known<'_>, path: &Path) -> Vec<FieldError> {
    let invalid = |detail: &str| vec![FieldError::invalid(path, shown(new), detail)];
    let Some(target) = &new.spec.target_ref else {
        return vec![FieldError::required(path, "no target defined in WorkloadSpread")];
    };
    if [&target.api_version, &target.kind, &target.name]
        .iter()
        .any(|text| text.is_empty())
    {
        return invalid("empty TargetReference is not valid for WorkloadSpread.");
    }
    let workload = WorkloadRef::from(target);
    let is_listed = || {
        known
            .custom
            .as_ref()
            .is_ok_and(|list| related::custom(&workload, list).is_some())
    };
    if related::groups_of(&workload.kind).is_some() {
        let parts = target.api_version.split('/').count();
        if (!related::is_known(&workload) || parts > 2) && !is_listed() {
            return invalid(&format!("TargetReference is not valid for {}.", workload.kind));
        }
    } else if !is_listed() {
        return match &known.custom {
            Ok(_) => invalid("TargetReference's GroupKind is not permitted."),
            Err(reason) => vec![FieldError::internal(path, reason)],
        };
    }
    let others = known
        .others
        .iter()
        .filter(|other| other.metadata.name != new.metadata.name);
    let mut same = others.filter(|other| {
        let other = other.spec.target_ref.as_ref().map(WorkloadRef::from);
        other.is_some_and(|other| other.is_same(&workload))
    });
    let same = same.next().map(|other| other.metadata.name.clone().unwrap_or_default());
    same.map_or_else(Vec::new, |other| {
        invalid(&format!(
            "ws.spec.targetRef is in conflict with other WorkloadSpread {other}"
        ))
    })
}

fn of_filter(new: &Submitted, path: &Path) -> Vec<FieldError> {
    let filter = new.spec.target_filter.as_ref();
    let labels = filter.and_then(|filter| filter.selector.as_ref());
    let fault = labels.and_then(selector::fault);
    let mut errors: Vec<_> = fault
        .iter()
        .map(|fault| FieldError::invalid(path, "selector", fault))
        .collect();
    let paths = filter
        .map(|filter| filter.replicas_path_list.as_slice())
        .unwrap_or_default();
    for (index, text) in paths.iter().enumerate() {
        if text.split('.').any(str::is_empty) {
            let at = path.child("replicasPathList").index(index);
            errors.push(FieldError::invalid(
                &at,
                text.as_str(),
                "must be names with dots between them",
            ));
        }
    }
    errors
}

fn of_subsets(spec: &WorkloadSpreadSpec, path: &Path) -> Vec<FieldError> {
    if spec.subsets.is_empty() {
        return vec![FieldError::required(path, "subsets number must >= 1 in WorkloadSpread")];
    }
    let mut errors = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for (index, subset) in spec.subsets.iter().enumerate() {
        let at = path.index(index);
        let name = subset.name.as_str();
        if name.is_empty() {
            errors.push(FieldError::invalid(&at.child("name"), name, ""));
        } else if names.contains(&name) {
            let detail = format!("duplicated subset name {name}");
            errors.push(FieldError::invalid(&at.child("name"), name, &detail));
        }
        names.push(name);
        errors.extend(of_nodes(subset, &at));
        if !subset.patch.is_empty() && !subset.patch.value().is_object() {
            let patch = subset.patch.json().to_owned();
            errors.push(FieldError::invalid(
                &at.child("patch"),
                patch,
                "failed to merge patch: invalid JSON document",
            ));
        }
    }
    errors.extend(of_limits(spec, path));
    errors
}

fn of_nodes(subset: &WorkloadSpreadSubset, at: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(term) = &subset.required_node_selector {
        errors.extend(node_terms::validate_term(term, &at.child("requiredNodeSelector")));
    }
    for (index, preferred) in subset.preferred_node_selector.iter().enumerate() {
        let at = at.child("preferredNodeSelector").index(index);
        errors.extend(node_terms::validate_preferred(
            preferred.weight,
            &preferred.preference,
            &at,
        ));
    }
    errors.extend(node_terms::validate_tolerations(
        &subset.tolerations,
        &at.child("tolerations"),
    ));
    errors
}

fn of_limits(spec: &WorkloadSpreadSpec, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let needs_counts = spec
        .target_ref
        .as_ref()
        .is_some_and(|target| target.kind == "StatefulSet");
    let (mut is_share, mut sum) = (None, 0_i64);
    for (index, subset) in spec.subsets.iter().enumerate() {
        let Some(most) = &subset.max_replicas else { continue };
        let at = path.index(index).child("maxReplicas");
        let mut wrong = |detail: &str| errors.push(FieldError::invalid(&at, scaled::shown(Some(most)), detail));
        let this = matches!(most, IntOrPercent::Text(_));
        if *is_share.get_or_insert(this) != this {
            wrong("the maxReplicas type of all subsets must be the same");
            continue;
        }
        if needs_counts && this {
            wrong("the maxReplicas type must be Int for StatefulSet");
            continue;
        }
        match most {
            IntOrPercent::Int(count) if *count < 0 => wrong("maxReplicas is not valid for subset"),
            IntOrPercent::Int(_) => {}
            IntOrPercent::Text(text) => match whole(text) {
                None => wrong("maxReplicas is not valid for subset"),
                Some(share) => {
                    sum = sum.saturating_add(share);
                    if sum > 100 {
                        wrong("the sum of all subset's maxReplicas exceeds 100% is no permitted");
                    }
                }
            },
        }
    }
    let is_set = |subset: Option<&WorkloadSpreadSubset>| subset.is_some_and(|subset| subset.max_replicas.is_some());
    if errors.is_empty() && is_share == Some(true) && is_set(spec.subsets.last()) && sum < 100 {
        let most = spec.subsets.first().and_then(|first| first.max_replicas.as_ref());
        let at = path.index(0).child("maxReplicas");
        let detail = "maxReplicas sum of all subsets must equal 100% when type is specified as percent";
        errors.push(FieldError::invalid(&at, scaled::shown(most), detail));
    }
    errors
}

/// A whole percentage, with or without its sign.
fn whole(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

fn of_strategy(spec: &WorkloadSpreadSpec, path: &Path) -> Vec<FieldError> {
    let strategy = &spec.schedule_strategy;
    let mut errors = Vec::new();
    let is_adaptive = strategy.type_ == ScheduleStrategyType::Adaptive;
    if !is_adaptive && strategy.type_ != ScheduleStrategyType::Fixed && !strategy.type_.is_unset() {
        errors.push(FieldError::not_supported(
            &path.child("type"),
            strategy.type_.as_str(),
            &["Adaptive", "Fixed", ""],
        ));
    }
    let Some(adaptive) = &strategy.adaptive else {
        return errors;
    };
    if !is_adaptive {
        let detail = "the scheduleStrategy's type must be adaptive when using adaptive scheduleStrategy";
        errors.push(FieldError::invalid(
            &path.child("type"),
            strategy.type_.as_str(),
            detail,
        ));
        return errors;
    }
    let at = path.child("adaptive");
    let count = spec.subsets.len();
    if count > 1 && spec.subsets.last().is_some_and(|last| last.max_replicas.is_some()) {
        let detail = "the last subset's maxReplicas must be not specified when using adaptive scheduleStrategy";
        errors.push(FieldError::invalid(&at, "null", detail));
    }
    let most = longest(count);
    if let Some(seconds) = adaptive
        .reschedule_critical_seconds
        .filter(|seconds| !(0..=most).contains(seconds))
    {
        let detail = format!("rescheduleCriticalSeconds < 0 or rescheduleCriticalSeconds > {most} is not permitted");
        errors.push(FieldError::invalid(
            &at.child("rescheduleCriticalSeconds"),
            seconds,
            &detail,
        ));
    }
    errors
}

/// Longest time in seconds that a Pod may wait in one of so many subsets.
fn longest(subsets: usize) -> i32 {
    // Some seconds are for making the Pod again.
    let all = TRIED_AGAIN_AFTER.as_secs() - 5;
    match i64::try_from(subsets) {
        Ok(count) if count > 1 => i32::try_from(all / (count - 1)).unwrap_or(i32::MAX),
        _ => i32::MAX,
    }
}
