//! How many Pods have to stay available.
//!
//! - Of `maxUnavailable`: what is left of the expected Pods, never less than none. Of `minAvailable`: as it says, even if that is more than there are.
//! - Percentages are of the expected Pods, rounded up both ways.
//! - `protectTotalReplicas`, or the annotation that it replaces, is taken instead of the workloads' replicas.
//! - Where nobody knows how many Pods there should be (-1), `maxUnavailable` protects nothing.

use kruise_api::names::annotation;
use kruise_api::podunavailablebudget::v1beta1::{PodUnavailableBudget, ProtectOperation};

/// What a budget asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Pods that there should be.
    pub total: i32,
    /// Fewest Pods that must stay available.
    pub desired: i32,
}

/// Returns what a budget asks for, when its workloads should have so many Pods.
///
/// # Errors
/// When a number of the budget cannot be read.
pub fn of(budget: &PodUnavailableBudget, expected: i32) -> Result<Counts, String> {
    let total = total_replicas(budget).unwrap_or(expected);
    let share = |value: &kruise_api::shared::IntOrPercent| value.ceil_of(total).map_err(|error| error.to_string());
    let desired = match (&budget.spec.max_unavailable, &budget.spec.min_available) {
        (Some(max), _) => total.saturating_sub(share(max)?).max(0),
        (None, Some(min)) => share(min)?.max(0),
        (None, None) => return Err("neither maxUnavailable nor minAvailable is given".to_owned()),
    };
    Ok(Counts { total, desired })
}

/// The number that the user gave instead of the workload's.
fn total_replicas(budget: &PodUnavailableBudget) -> Option<i32> {
    let annotated = || annotated(budget, annotation::BUDGET_TOTAL_REPLICAS)?.parse().ok();
    budget.spec.protect_total_replicas.or_else(annotated)
}

/// Whether a budget protects against an operation. Unless told otherwise it does against deletion, eviction and update; where resizes are not told apart
/// from updates, against those as well.
pub fn protects(budget: &PodUnavailableBudget, operation: &ProtectOperation, tells_resizes: bool) -> bool {
    use ProtectOperation::{Delete, Evict, Resize, Update};
    let annotated = || {
        let list = annotated(budget, annotation::BUDGET_PROTECT_OPERATIONS).unwrap_or_default();
        let known = [Delete, Update, Evict, Resize];
        list.split(',')
            .filter_map(|word| known.iter().find(|known| known.as_str() == word.trim()).cloned())
            .collect::<Vec<_>>()
    };
    let mut given = budget.spec.protect_operations.clone();
    if given.is_empty() {
        given = annotated();
    }
    if given.is_empty() {
        given = vec![Delete, Update, Evict];
    }
    given.contains(operation) || (*operation == Resize && !tells_resizes && given.contains(&Update))
}

fn annotated<'a>(budget: &'a PodUnavailableBudget, key: &str) -> Option<&'a str> {
    budget.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}
