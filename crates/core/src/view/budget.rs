//! Budgets: how many more Pods may be unavailable now.

use super::Tone;
use crate::shared::selector;
use kruise_api::{pod::Pod, podunavailablebudget::v1beta1::PodUnavailableBudget};
use serde::Serialize;

/// A PodUnavailableBudget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetView {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Which Pods it protects: a workload, or labels.
    pub protects: String,
    /// What it asks for.
    pub rule: String,
    /// How many more Pods may become unavailable now.
    pub allowed: i32,
    /// How many are available.
    pub available: i32,
    /// How many have to be.
    pub desired: i32,
    /// How many there should be.
    pub total: i32,
    /// How it stands, in words.
    pub note: String,
    /// Colour and shape of that.
    pub tone: Tone,
}

impl From<&PodUnavailableBudget> for BudgetView {
    fn from(budget: &PodUnavailableBudget) -> Self {
        let (meta, spec) = (&budget.metadata, &budget.spec);
        let status = budget.status.clone().unwrap_or_default();
        let target = spec.target_ref.as_ref();
        let protects = match (target, &spec.selector) {
            (Some(target), _) => format!("{} {}", target.kind, target.name),
            (None, Some(labels)) => selector::text(labels),
            (None, None) => String::new(),
        };
        let rule = match (&spec.max_unavailable, &spec.min_available) {
            (Some(most), _) => format!("maxUnavailable {most}"),
            (None, Some(fewest)) => format!("minAvailable {fewest}"),
            (None, None) => String::new(),
        };
        let (tone, note) = if budget.status.is_none() {
            (Tone::Busy, "No manager has looked at it yet.".to_owned())
        } else if status.current_available < status.desired_available {
            let missing = status.desired_available - status.current_available;
            (
                Tone::Bad,
                format!("{missing} too few are available; nothing more is let through."),
            )
        } else if status.unavailable_allowed <= 0 {
            (Tone::Held, "Used up: nothing more is let through now.".to_owned())
        } else {
            (
                Tone::Good,
                format!("{} more may become unavailable.", status.unavailable_allowed),
            )
        };
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            protects,
            rule,
            allowed: status.unavailable_allowed,
            available: status.current_available,
            desired: status.desired_available,
            total: status.total_replicas,
            note,
            tone,
        }
    }
}

impl BudgetView {
    /// Whether a budget protects the Pods of a workload, of which one is given.
    pub fn protects(budget: &PodUnavailableBudget, kind: &str, group: &str, name: &str, pod: Option<&Pod>) -> bool {
        if let Some(target) = &budget.spec.target_ref {
            let of = target.api_version.split_once('/').map_or("", |(group, _)| group);
            return of == group && target.kind == kind && target.name == name;
        }
        let labels = budget.spec.selector.as_ref();
        labels.zip(pod).is_some_and(|(labels, pod)| {
            !selector::is_empty(labels) && selector::matches(labels, |key| pod.metadata.label(key))
        })
    }
}
