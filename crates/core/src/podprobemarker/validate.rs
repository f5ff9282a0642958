//! What a PodProbeMarker has to be.
//!
//! - It chooses Pods by labels, and the labels cannot be changed later.
//! - Each of its probes has a name of its own, without `#` and other than a condition of Kubernetes or ours, and a container.
//! - A probe sets a condition, follows marker policies, or both; no two set the same condition.
//! - A marker policy is for `Succeeded` or `Failed`, and there is one of each at most. It has labels or annotations.
//! - How to probe is told by [`handler`].

use std::collections::BTreeSet;

use kruise_api::names::condition::pod::{IN_PLACE_UPDATE_READY, KRUISE_POD_READY};
use kruise_api::podprobemarker::{MarkerPolicy, PodContainerProbe, PodProbeMarkerSpec};
use kruise_api::shared::probing::ProbeState;
use serde_json::json;

use super::Submitted;
use super::handler;
use crate::field_error::{FieldError, FieldErrors, Path};
use crate::shared::selector::is_empty;
use crate::shared::validate::label::{key_faults, value_faults};
use crate::shared::validate::selector;

/// Names that a probe may not have, because conditions of Pods have them.
const CONDITIONS: [&str; 6] = [
    "PodScheduled",
    "Initialized",
    "Ready",
    "ContainersReady",
    KRUISE_POD_READY,
    IN_PLACE_UPDATE_READY,
];

/// Returns everything that is wrong with a PodProbeMarker.
pub fn validate(new: &Submitted) -> FieldErrors {
    let spec = Path::new("spec");
    let mut errors = pods(&new.spec, &spec.child("selector"));
    let probes = spec.child("probes");
    if new.spec.probes.is_empty() {
        errors.push(FieldError::invalid(
            &probes,
            json!([]),
            "empty probes is not valid for PodProbeMarker.",
        ));
    }
    let (mut names, mut conditions) = (BTreeSet::new(), BTreeSet::new());
    for probe in &new.spec.probes {
        errors.extend(identity(probe, &mut names, &probes));
        errors.extend(handler::validate(&probe.probe, &spec.child("probe")));
        errors.extend(outcome(probe, &mut conditions, &spec));
    }
    FieldErrors(errors)
}

/// Returns why a PodProbeMarker may not be changed like this.
pub fn forbidden(new: &Submitted, old: &Submitted) -> Option<FieldError> {
    let same = match (&new.spec.selector, &old.spec.selector) {
        (Some(new), Some(old)) => selector::is_same(new, old),
        (new, old) => new.is_none() && old.is_none(),
    };
    let shown = new.spec.selector.as_ref().map(crate::shared::selector::text);
    (!same).then(|| {
        FieldError::invalid(
            &Path::new("selector"),
            shown.unwrap_or_default(),
            "selector must be immutable",
        )
    })
}

fn pods(spec: &PodProbeMarkerSpec, at: &Path) -> Vec<FieldError> {
    let Some(labels) = spec.selector.as_ref().filter(|labels| !is_empty(labels)) else {
        let detail = "empty selector is not valid for podProbeMarker.";
        return vec![FieldError::invalid(at, json!({}), detail)];
    };
    let mut errors = selector::validate(labels, at);
    if errors.is_empty() {
        errors.extend(selector::fault(labels).map(|fault| FieldError::invalid(at, "", &fault)));
    }
    errors
}

fn identity<'a>(probe: &'a PodContainerProbe, names: &mut BTreeSet<&'a str>, at: &Path) -> Vec<FieldError> {
    let name = probe.name.as_str();
    let mut errors = Vec::new();
    let mut wrong = |detail: &str| errors.push(FieldError::invalid(at, name, detail));
    if name.is_empty() {
        wrong("probe name can't be empty in PodProbeMarker.");
    }
    if name.contains('#') {
        wrong("probe name can't contains '#'.");
    }
    if CONDITIONS.contains(&name) {
        wrong(&format!("probe name can't be {name}"));
    }
    if !names.insert(name) {
        wrong("probe name must be unique in PodProbeMarker.");
    }
    if probe.container_name.is_empty() {
        let detail = "probe containerName can't be empty in PodProbeMarker.";
        errors.push(FieldError::invalid(at, "", detail));
    }
    errors
}

/// What a probe does with what it finds.
fn outcome<'a>(probe: &'a PodContainerProbe, conditions: &mut BTreeSet<&'a str>, spec: &Path) -> Vec<FieldError> {
    let at = spec.child("probes");
    let type_ = probe.pod_condition_type.as_str();
    if type_.is_empty() && probe.marker_policy.is_empty() {
        let detail = "podConditionType and markerPolicy cannot be empty at the same time";
        return vec![FieldError::invalid(&at, probe.name.as_str(), detail)];
    }
    let mut errors = Vec::new();
    if !type_.is_empty() {
        let faults = key_faults(type_);
        errors.extend(faults.iter().map(|fault| FieldError::invalid(spec, type_, fault)));
        if !conditions.insert(type_) {
            let detail = format!("podConditionType {type_} must be unique in podProbeMarker");
            errors.push(FieldError::invalid(&at, type_, &detail));
        }
    }
    errors.extend(policies(&probe.marker_policy, &spec.child("markerPolicy")));
    errors
}

fn policies(policies: &[MarkerPolicy], at: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut states = BTreeSet::new();
    for policy in policies {
        if !matches!(policy.state, ProbeState::Succeeded | ProbeState::Failed) {
            let detail = "marker policy state must be 'Succeeded' or 'Failed'";
            errors.push(FieldError::required(&at.child("state"), detail));
        }
        if !states.insert(&policy.state) {
            let detail = "marker policy state must be unique.";
            errors.push(FieldError::invalid(at, policy.state.as_str(), detail));
        }
        if policy.labels.is_empty() && policy.annotations.is_empty() {
            let detail = "marker policy annotations or labels can't be both empty";
            errors.push(FieldError::required(at, detail));
        }
        let (labels, annotations) = (at.child("labels"), at.child("annotations"));
        for (key, value) in &policy.labels {
            errors.extend(
                key_faults(key)
                    .iter()
                    .map(|fault| FieldError::invalid(&labels, key.as_str(), fault)),
            );
            errors.extend(
                value_faults(value)
                    .iter()
                    .map(|fault| FieldError::invalid(&labels, value.as_str(), fault)),
            );
        }
        for key in policy.annotations.keys() {
            let faults = key_faults(&key.to_lowercase());
            errors.extend(
                faults
                    .iter()
                    .map(|fault| FieldError::invalid(&annotations, key.as_str(), fault)),
            );
        }
        let size: usize = policy
            .annotations
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum();
        if size > MOST_ANNOTATIONS {
            errors.push(FieldError::too_long(&annotations, MOST_ANNOTATIONS));
        }
    }
    errors
}

/// Most bytes of all annotations of an object, as Kubernetes has it.
const MOST_ANNOTATIONS: usize = 256 << 10;
