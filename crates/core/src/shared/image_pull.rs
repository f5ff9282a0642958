//! What the kinds that pull images ahead of time have in common: where to pull, how fast, how long.
//!
//! - Nodes are chosen by name or by label, but not both; or by the Pods that run on them, and then by nothing else.
//! - The number of nodes that pull at the same time is a whole number, also as text; a percentage is refused.
//! - A job that never ends (`Never`) has neither a deadline nor a time to live.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kruise_api::shared::IntOrPercent;
use kruise_api::shared::completion::{CompletionPolicy, CompletionPolicyType};
use kruise_api::shared::image_pull::NodeChoice;
use serde_json::{Value, json};

use super::image_name::Image;
use super::tree::{Object, child_or_new, fill};
use super::validate::selector as well_formed;
use crate::field_error::{FieldError, Path};

/// Seconds that one attempt may take.
pub const TIMEOUT_SECONDS: i32 = 600;
/// How often a failed pull is tried again.
pub const BACKOFF_LIMIT: i32 = 3;

/// Where and how to pull.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// Chosen nodes.
    pub selector: Option<&'a NodeChoice>,
    /// Nodes of these Pods.
    pub pod_selector: Option<&'a LabelSelector>,
    /// Nodes that pull at the same time.
    pub parallelism: Option<&'a IntOrPercent>,
    /// When the job is done.
    pub completion: &'a CompletionPolicy,
}

/// Writes `completionPolicy.type`, which is `Always`. Says whether there was none.
pub fn default_completion(spec: &mut Object) -> bool {
    child_or_new(spec, "completionPolicy").is_some_and(|policy| fill(policy, "type", json!("Always")))
}

/// Writes how long and how often to try.
pub fn default_pull_policy(spec: &mut Object) {
    if let Some(policy) = child_or_new(spec, "pullPolicy") {
        fill(policy, "timeoutSeconds", json!(TIMEOUT_SECONDS));
        fill(policy, "backoffLimit", json!(BACKOFF_LIMIT));
    }
}

/// Everything that is wrong with the rules.
pub fn validate(rules: &Rules<'_>) -> Vec<FieldError> {
    let spec = Path::new("spec");
    let mut errors = validate_choice(rules.selector, rules.pod_selector, &spec);
    if let Some(parallelism) = rules.parallelism
        && let Err(detail) = whole(parallelism)
    {
        let at = spec.child("parallelism");
        errors.push(FieldError::invalid(&at, json!(parallelism), detail));
    }
    let at = spec.child("completionPolicy");
    let completion = rules.completion;
    match &completion.type_ {
        CompletionPolicyType::Always => {}
        CompletionPolicyType::Never => {
            let detail =
                "activeDeadlineSeconds and ttlSecondsAfterFinished can only work with Always CompletionPolicyType";
            for (field, is_given) in [
                ("activeDeadlineSeconds", completion.active_deadline_seconds.is_some()),
                (
                    "ttlSecondsAfterFinished",
                    completion.ttl_seconds_after_finished.is_some(),
                ),
            ] {
                if is_given {
                    errors.push(FieldError::forbidden(&at.child(field), detail));
                }
            }
        }
        other => {
            let detail = format!("unknown type of completionPolicy: {other}");
            errors.push(FieldError::invalid(&at.child("type"), other.as_str(), &detail));
        }
    }
    errors
}

/// What is wrong with the choice of nodes of a job whose spec is at `spec`.
pub fn validate_choice(
    selector: Option<&NodeChoice>,
    pod_selector: Option<&LabelSelector>,
    spec: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(choice) = selector {
        let at = spec.child("selector");
        if pod_selector.is_some() {
            let detail = "can not set both selector and podSelector";
            errors.push(FieldError::forbidden(&spec.child("podSelector"), detail));
        }
        let by_label = !choice.match_labels.is_empty() || !choice.match_expressions.is_empty();
        if !choice.names.is_empty() && by_label {
            let detail = "can not set both names and labelSelector in this spec.selector";
            errors.push(FieldError::forbidden(&at.child("names"), detail));
        }
        let mut seen = BTreeSet::new();
        for (index, name) in choice.names.iter().enumerate() {
            if !seen.insert(name) {
                let at = at.child("names").index(index);
                errors.push(FieldError::invalid(
                    &at,
                    name.as_str(),
                    "duplicated name in selector names",
                ));
            }
        }
        if let Some(fault) = well_formed::fault(&labels(choice)) {
            errors.push(FieldError::invalid(
                &at,
                shown(choice),
                &format!("invalid selector: {fault}"),
            ));
        }
    }
    if let Some(pods) = pod_selector
        && let Some(fault) = well_formed::fault(pods)
    {
        let detail = format!("invalid podSelector: {fault}");
        errors.push(FieldError::invalid(&spec.child("podSelector"), shown(pods), &detail));
    }
    errors
}

/// The labels that chosen nodes have.
pub fn labels(choice: &NodeChoice) -> LabelSelector {
    LabelSelector {
        match_labels: (!choice.match_labels.is_empty()).then(|| choice.match_labels.clone()),
        match_expressions: (!choice.match_expressions.is_empty()).then(|| choice.match_expressions.clone()),
    }
}

fn shown(value: impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// How many nodes pull at the same time; what is wrong with it when it is no such number.
pub fn whole(parallelism: &IntOrPercent) -> Result<i32, &'static str> {
    let count = match parallelism {
        IntOrPercent::Int(count) => *count,
        IntOrPercent::Text(text) if text.contains('%') => return Err("parallelism does not support percentage value"),
        IntOrPercent::Text(text) => text.parse().map_err(|_| "parallelism must be a valid integer")?,
    };
    if count < 0 {
        return Err("parallelism must be non-negative");
    }
    Ok(count)
}

/// What is wrong with an image.
pub fn validate_image(image: &str, path: &Path) -> Option<FieldError> {
    let bad = Image::parse(image).err()?;
    Some(FieldError::invalid(
        path,
        image,
        &format!("invalid image {image}: {bad}"),
    ))
}
