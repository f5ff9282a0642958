//! What a UnitedDeployment has to be.
//!
//! - The selector says something and is well formed.
//! - There is exactly one template, and its labels and those of its Pods match the selector. Replicas and partition are for the UnitedDeployment to say ([`templates`]).
//! - Subsets have names of their own, and numbers that can be read and fit together ([`subsets`]).
//! - With the strategy `Adaptive` subsets have limits instead of replicas. Only Pods without a name of their own can be reserved.
//! - Partitions are for subsets that are there.
//! - Nodes and tolerations of a subset cannot be changed, and of the templates of StatefulSets only little.
//!
//! The template of a CloneSet, patches, and the numbers of partitions and seconds are not looked at.

mod placement;
mod subsets;
mod templates;

use kruise_api::uniteddeployment::UpdateStrategyType;
use kruise_api::uniteddeployment::topology::ScheduleStrategyType;
use serde_json::json;

use super::Submitted;
use crate::admission::Lookups;
use crate::field_error::{FieldError, FieldErrors, Path};
use crate::shared::selector::is_empty;
use crate::shared::validate::{object_meta, selector};

/// Everything that is wrong with an object; `old` is what it was before an update.
pub fn validate(new: &Submitted, old: Option<&Submitted>, found: &Lookups) -> FieldErrors {
    let mut errors = object_meta::validate(&new.metadata);
    let path = Path::new("spec");
    let spec = &new.spec;
    if let Some(replicas) = spec.replicas.filter(|replicas| *replicas < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&path.child("replicas"), replicas, detail));
    }
    let at = path.child("selector");
    errors.extend(selector::validate(&spec.selector, &at));
    let can_match = selector::fault(&spec.selector).is_none() && !is_empty(&spec.selector);
    if !can_match {
        let detail = if is_empty(&spec.selector) {
            "empty selector is not valid for a UnitedDeployment"
        } else {
            ""
        };
        errors.push(FieldError::invalid(&at, json!(spec.selector), detail));
    }
    errors.extend(templates::validate(spec, can_match, &path.child("template")));
    errors.extend(found.template.iter().cloned());
    errors.extend(subsets::validate(spec, &path.child("topology")));
    errors.extend(schedule(new, &path.child("topology")));
    errors.extend(update_strategy(new, &path.child("updateStrategy")));
    if let Some(old) = old {
        errors.extend(placement::unchanged(
            &spec.topology,
            &old.spec.topology,
            &path.child("topology"),
        ));
        errors.extend(templates::unchanged(
            &spec.template,
            &old.spec.template,
            &path.child("template"),
        ));
    }
    FieldErrors(errors)
}

fn schedule(new: &Submitted, path: &Path) -> Vec<FieldError> {
    let strategy = &new.spec.topology.schedule_strategy;
    let mut errors = Vec::new();
    let at = path.child("scheduleStrategy");
    match &strategy.type_ {
        ScheduleStrategyType::Adaptive => {}
        ScheduleStrategyType::Other(other) => {
            let known = ["Adaptive", "Fixed"];
            errors.push(FieldError::not_supported(&at.child("type"), other.to_string(), &known));
            return errors;
        }
        _ => return errors,
    }
    for (index, subset) in new.spec.topology.subsets.iter().enumerate() {
        if subset.replicas.is_some() {
            let detail = "specify replicas use minReplicas/maxReplicas to enable adaptive strategy";
            let at = path.child("subsets").index(index).child("replicas");
            errors.push(FieldError::forbidden(&at, detail));
        }
    }
    let reserves = strategy
        .adaptive
        .as_ref()
        .is_some_and(|adaptive| adaptive.reserve_unschedulable_pods);
    let template = &new.spec.template;
    if reserves && template.deployment_template.is_none() && template.clone_set_template.is_none() {
        let detail = "only stateless workloads (Deployment and CloneSet) are supported by reserved rescheduling";
        errors.push(FieldError::invalid(&at, json!(strategy), detail));
    }
    errors
}

fn update_strategy(new: &Submitted, path: &Path) -> Vec<FieldError> {
    let strategy = &new.spec.update_strategy;
    let mut errors = Vec::new();
    if let UpdateStrategyType::Other(other) = &strategy.type_ {
        errors.push(FieldError::not_supported(
            &path.child("type"),
            other.to_string(),
            &["Manual"],
        ));
        return errors;
    }
    let partitions = strategy.manual_update.iter().flat_map(|manual| &manual.partitions);
    let at = path.child("manualUpdate").child("partitions");
    for (name, _) in partitions {
        if new.spec.topology.subsets.iter().all(|subset| subset.name != *name) {
            let given = strategy.manual_update.as_ref().map(|manual| json!(manual.partitions));
            let detail = format!("subset {name} does not exist");
            errors.push(FieldError::invalid(&at, given.unwrap_or_default(), &detail));
        }
    }
    errors
}
