//! In which order Pods are updated: what may be said under `priorityStrategy` and `scatterStrategy`.
//!
//! - Weights or ordered keys, not both. A weight is 0 to 100 and needs a selector that says something; an ordered key needs a name.
//! - A scattered label needs a key; no label twice.

use super::selector::fault;
use crate::field_error::{FieldError, Path};
use crate::shared::selector::is_empty;
use kruise_api::shared::{scatter::ScatterTerm, update_priority::UpdatePriorityStrategy};
use std::collections::BTreeSet;

/// What is wrong with a priority strategy at `path`.
pub fn validate_priority(strategy: &UpdatePriorityStrategy, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // "Required value" is what the original says of each of these, and what users' tools may look for.
    let mut wrong = |detail: &str| errors.push(FieldError::required(path, detail));
    if !strategy.weight_priority.is_empty() && !strategy.order_priority.is_empty() {
        wrong("only one of weightPriority and orderPriority can be used");
    }
    for term in &strategy.weight_priority {
        if !(0..=100).contains(&term.weight) {
            wrong("weight must be valid number in the range 1-100");
        }
        if let Some(fault) = fault(&term.match_selector) {
            wrong(&format!("invalid selector {fault}"));
        } else if is_empty(&term.match_selector) {
            wrong("selector can not be empty");
        }
    }
    for term in &strategy.order_priority {
        if term.ordered_key.is_empty() {
            wrong("order key can not be empty");
        }
    }
    errors
}

/// What is wrong with a scatter strategy at `path`.
pub fn validate_scatter(terms: &[ScatterTerm], path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for term in terms {
        if term.key.is_empty() {
            errors.push(FieldError::required(path, "key should not be empty"));
        }
        if !seen.insert((&term.key, &term.value)) {
            let detail = format!("duplicated key={} value={}", term.key, term.value);
            errors.push(FieldError::required(path, &detail));
        }
    }
    errors
}
