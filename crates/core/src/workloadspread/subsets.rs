//! Subsets as the spec has them: how many Pods each may have.
//!
//! - No `maxReplicas` is no limit. A percentage is of the workload's replicas and rounded up, so that shares that sum to 100% hold all Pods.
//! - A text without `%` counts as if it had one; older objects have it.

use kruise_api::shared::IntOrPercent;
use kruise_api::workloadspread::v1beta1::{WorkloadSpread, WorkloadSpreadSubset};

/// Returns the most Pods that a subset may have of a workload with so many replicas; nothing when there is no limit.
///
/// # Errors
/// When the count cannot be read.
pub fn limit(subset: &WorkloadSpreadSubset, replicas: i32) -> Result<Option<i32>, String> {
    let Some(most) = &subset.max_replicas else {
        return Ok(None);
    };
    let count = match most {
        IntOrPercent::Text(text) if !text.ends_with('%') => IntOrPercent::from(&*format!("{text}%")).ceil_of(replicas),
        most => most.ceil_of(replicas),
    };
    let count = count.map_err(|error| format!("maxReplicas of subset {}: {error}", subset.name))?;
    Ok(Some(count.max(0)))
}

/// Returns the limits of all subsets.
///
/// # Errors
/// When one cannot be read.
pub fn limits(spread: &WorkloadSpread, replicas: i32) -> Result<Vec<Option<i32>>, String> {
    let subsets = spread.spec.subsets.iter();
    subsets.map(|subset| limit(subset, replicas)).collect()
}

/// Whether the limit follows the replicas of the workload.
pub fn is_share(subset: &WorkloadSpreadSubset) -> bool {
    matches!(subset.max_replicas, Some(IntOrPercent::Text(_)))
}

/// Returns the subset that takes every Pod, where there is only one and it has no limit: there is nothing to count then.
pub fn only_one(spread: &WorkloadSpread) -> Option<&WorkloadSpreadSubset> {
    match spread.spec.subsets.as_slice() {
        [one] if one.max_replicas.is_none() => Some(one),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn given_counts_and_shares_then_shares_are_rounded_up() {
        for (most, replicas, expected) in [
            (Value::Null, 5, Ok(None)),
            (json!(3), 5, Ok(Some(3))),
            (json!(-3), 5, Ok(Some(0))),
            (json!("50%"), 5, Ok(Some(3))),
            (json!("5"), 100, Ok(Some(5))),
            (json!("0%"), 100, Ok(Some(0))),
            (json!("many"), 5, Err(())),
        ] {
            let subset = json!({"name": "a", "maxReplicas": most});
            let subset: WorkloadSpreadSubset = serde_json::from_value(subset).unwrap();
            assert_eq!(limit(&subset, replicas).map_err(drop), expected, "{most}");
        }
    }
}
