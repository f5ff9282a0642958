//! What a PodUnavailableBudget has to be.
//!
//! - It names either a workload or labels, and neither can be changed later; either how many Pods may be unavailable or how many have to be available.
//! - A count is 0 or more, or a percentage up to 100.
//! - In one namespace no two budgets name the same workload, in whatever version of its group, and no two have labels that overlap: the same keys, and
//!   values that one Pod can have for both.
//! - The annotations that v1beta1 has fields for are checked as well, in v1alpha1 as strictly as the fields.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kruise_api::names::annotation;
use kruise_api::podunavailablebudget::TargetReference;
use kruise_api::podunavailablebudget::v1beta1::PodUnavailableBudgetSpec;
use kruise_api::shared::IntOrPercent;
use serde_json::Value;

use crate::admission;
use crate::field_error::{FieldError, FieldErrors, Path};
use crate::shared::selector::is_empty;
use crate::shared::validate::{scaled, selector};
use crate::shared::workload::WorkloadRef;

/// A budget as a user submitted it. v1alpha1 lacks some fields.
pub type Submitted = admission::Submitted<PodUnavailableBudgetSpec>;

/// Returns why an object of v1alpha1 says something that v1beta1 cannot: the first annotation with a wrong value.
pub fn conversion_fault(new: &Submitted) -> Option<String> {
    let fault = "failed to convert v1alpha1 PUB to v1beta1:";
    let operations = annotated(new, annotation::BUDGET_PROTECT_OPERATIONS).unwrap_or_default();
    let words = operations.split(',').map(str::trim).filter(|word| !word.is_empty());
    if let Some(unknown) = words.into_iter().find(|word| !OPERATIONS.contains(word)) {
        let key = annotation::BUDGET_PROTECT_OPERATIONS;
        return Some(format!("{fault} invalid {key} value {unknown:?}"));
    }
    let total = annotated(new, annotation::BUDGET_TOTAL_REPLICAS).filter(|total| !total.is_empty())?;
    let key = annotation::BUDGET_TOTAL_REPLICAS;
    total
        .parse::<i32>()
        .is_err()
        .then(|| format!("{fault} failed to parse {key}: {total:?} is not an integer of 32 bits"))
}

const OPERATIONS: [&str; 4] = ["DELETE", "UPDATE", "EVICT", "RESIZE"];

/// Returns everything that is wrong with a budget; `others` are the budgets of its namespace.
pub fn validate(new: &Submitted, others: &[Submitted]) -> FieldErrors {
    let mut errors = annotations(new);
    let spec = Path::new("spec");
    errors.extend(pods(&new.spec, &spec));
    errors.extend(amounts(&new.spec, &spec));
    let known = |operation: &&kruise_api::podunavailablebudget::v1beta1::ProtectOperation| {
        !OPERATIONS.contains(&operation.as_str())
    };
    for operation in new.spec.protect_operations.iter().filter(known) {
        errors.push(FieldError::not_supported(
            &spec.child("protectOperations"),
            operation.as_str(),
            &OPERATIONS,
        ));
    }
    if let Some(ignored) = &new.spec.ignored_pod_selector {
        let at = spec.child("ignoredPodSelector");
        if is_empty(ignored) {
            errors.push(FieldError::invalid(
                &at,
                "{}",
                "empty selector is not valid for PodUnavailableBudget.",
            ));
        }
        errors.extend(selector::validate(ignored, &at));
    }
    errors.extend(conflict(new, others, &spec));
    FieldErrors(errors)
}

/// Returns why a budget may not be changed like this.
pub fn forbidden(new: &Submitted, old: &Submitted) -> Option<FieldError> {
    let same_labels = match (&new.spec.selector, &old.spec.selector) {
        (Some(new), Some(old)) => selector::is_same(new, old),
        (new, old) => new.is_none() && old.is_none(),
    };
    let at = Path::new("spec").child("selector, targetRef");
    (!same_labels || new.spec.target_ref != old.spec.target_ref)
        .then(|| FieldError::required(&at, "selector and targetRef cannot be modified"))
}

fn annotations(new: &Submitted) -> Vec<FieldError> {
    let key = annotation::BUDGET_TOTAL_REPLICAS;
    let Some(total) = annotated(new, key) else {
        return Vec::new();
    };
    let at = Path::new("metadata").child("annotations").key(key);
    if total.parse::<i32>().is_err() {
        return vec![FieldError::invalid(&at, total, "must be a valid int32")];
    }
    let field = new.spec.protect_total_replicas.map(|field| field.to_string());
    let differs = field.is_some_and(|field| field != total);
    let detail = "must match spec.protectTotalReplicas when both are set";
    differs
        .then(|| FieldError::invalid(&at, total, detail))
        .into_iter()
        .collect()
}

fn pods(spec: &PodUnavailableBudgetSpec, path: &Path) -> Vec<FieldError> {
    let both = path.child("selector, targetRef");
    match (&spec.selector, &spec.target_ref) {
        (None, None) => vec![FieldError::required(
            &both,
            "no selector or targetRef defined in PodUnavailableBudget",
        )],
        (Some(_), Some(_)) => vec![FieldError::required(
            &both,
            "selector and targetRef are mutually exclusive",
        )],
        (Some(labels), None) => by_labels(labels, &path.child("selector")),
        (None, Some(target)) => by_target(target, &path.child("targetRef")),
    }
}

fn by_labels(labels: &LabelSelector, at: &Path) -> Vec<FieldError> {
    if is_empty(labels) {
        return vec![FieldError::invalid(
            at,
            "{}",
            "empty selector is not valid for PodUnavailableBudget.",
        )];
    }
    let mut errors = selector::validate(labels, at);
    errors.extend(selector::fault(labels).map(|fault| FieldError::invalid(at, "", &fault)));
    errors
}

fn by_target(target: &TargetReference, at: &Path) -> Vec<FieldError> {
    let TargetReference {
        api_version,
        kind,
        name,
    } = target;
    let shown = format!("{kind}.{api_version} {name}");
    if [api_version, kind, name].iter().any(|part| part.is_empty()) {
        let detail = "empty targetRef is not valid for PodUnavailableBudget";
        return vec![FieldError::invalid(at, shown, detail)];
    }
    let mut parts = api_version.split('/');
    let is_version = parts.next().is_some_and(|part| !part.is_empty())
        && parts.next().is_none_or(|part| !part.is_empty())
        && parts.next().is_none();
    let detail = "apiVersion has to be a version, or a group and a version";
    (!is_version)
        .then(|| FieldError::invalid(at, shown, detail))
        .into_iter()
        .collect()
}

fn amounts(spec: &PodUnavailableBudgetSpec, path: &Path) -> Option<FieldError> {
    let both = path.child("maxUnavailable, minAvailable");
    match (&spec.max_unavailable, &spec.min_available) {
        (None, None) => Some(FieldError::required(
            &both,
            "no maxUnavailable or minAvailable defined in PodUnavailableBudget",
        )),
        (Some(_), Some(_)) => Some(FieldError::required(
            &both,
            "maxUnavailable and minAvailable are mutually exclusive",
        )),
        (Some(max), None) => amount(max, &path.child("maxUnavailable")),
        (None, Some(min)) => amount(min, &path.child("minAvailable")),
    }
}

fn amount(value: &IntOrPercent, at: &Path) -> Option<FieldError> {
    let detail = match value {
        IntOrPercent::Int(count) if *count < 0 => "must be greater than or equal to 0",
        IntOrPercent::Int(_) => return None,
        IntOrPercent::Text(text) => {
            let digits = text.strip_suffix('%').unwrap_or_default();
            if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
            } else if digits
                .trim_start_matches('0')
                .parse::<u32>()
                .is_ok_and(|share| share <= 100)
                || digits.bytes().all(|digit| digit == b'0')
            {
                return None;
            } else {
                "must not be greater than 100%"
            }
        }
    };
    Some(FieldError::invalid(at, scaled::shown(Some(value)), detail))
}

fn conflict(new: &Submitted, others: &[Submitted], path: &Path) -> Option<FieldError> {
    let others = others.iter().filter(|other| other.metadata.name != new.metadata.name);
    for other in others {
        let name = other.metadata.name.as_deref().unwrap_or_default();
        if let (Some(mine), Some(theirs)) = (&new.spec.target_ref, &other.spec.target_ref)
            && WorkloadRef::from(mine).is_same(&WorkloadRef::from(theirs))
        {
            let detail = format!("pub.spec.targetReference is in conflict with other PodUnavailableBudget {name}");
            let shown = format!("{}.{} {}", mine.kind, mine.api_version, mine.name);
            return Some(FieldError::invalid(&path.child("targetReference"), shown, &detail));
        }
        if let (Some(mine), Some(theirs)) = (&new.spec.selector, &other.spec.selector)
            && overlap(mine, theirs)
        {
            let detail = format!("pub.spec.selector is in conflict with other PodUnavailableBudget {name}");
            let shown = crate::shared::selector::text(mine);
            return Some(FieldError::invalid(
                &path.child("selector"),
                Value::from(shown),
                &detail,
            ));
        }
    }
    None
}

/// What a selector asks of one label.
type Requirement<'a> = (&'a str, BTreeSet<&'a str>);

/// Whether one Pod can match both selectors, as far as that is looked at: only selectors with the same keys are compared.
fn overlap(one: &LabelSelector, other: &LabelSelector) -> bool {
    let (one, other) = (requirements(one), requirements(other));
    one.keys().eq(other.keys())
        && one
            .iter()
            .all(|(key, mine)| other.get(key).is_some_and(|theirs| meet(mine, theirs)))
}

/// The last expression for a key counts, and its label before all expressions.
fn requirements(selector: &LabelSelector) -> BTreeMap<&str, Requirement<'_>> {
    let mut all: BTreeMap<&str, Requirement<'_>> = BTreeMap::new();
    for term in selector.match_expressions.iter().flatten() {
        let values = term.values.iter().flatten().map(String::as_str).collect();
        all.insert(&term.key, (&term.operator, values));
    }
    for (key, value) in selector.match_labels.iter().flatten() {
        all.insert(key, ("In", BTreeSet::from([value.as_str()])));
    }
    all
}

fn meet((mine, my_values): &Requirement<'_>, (theirs, their_values): &Requirement<'_>) -> bool {
    match (*mine, *theirs) {
        ("In", "In") => !my_values.is_disjoint(their_values),
        ("In", "NotIn") => !my_values.is_subset(their_values),
        ("NotIn", "In") => !their_values.is_subset(my_values),
        ("DoesNotExist", "In" | "Exists") | ("In" | "Exists", "DoesNotExist") => false,
        _ => true,
    }
}

fn annotated<'a>(new: &'a Submitted, key: &str) -> Option<&'a str> {
    new.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}
