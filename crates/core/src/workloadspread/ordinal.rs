//! Pods of StatefulSets go by their ordinals: the first subset takes the first so many, the next one those after them. Nothing is written down for it.
//!
//! A subset that cannot be scheduled is passed over as if it were not there. Reserved ordinals count like others.

use kruise_api::workloadspread::v1beta1::{WorkloadSpread, WorkloadSpreadSubset};

use super::{schedulable, subsets};

/// Returns the subset of a Pod of a StatefulSet.
pub fn subset_of<'a>(spread: &'a WorkloadSpread, pod: &str) -> Option<&'a WorkloadSpreadSubset> {
    let ordinal = ordinal(pod);
    let statuses = spread.status.as_ref().map(|status| status.subset_statuses.as_slice());
    let mut next: i64 = 0;
    spread.spec.subsets.iter().find(|subset| {
        if schedulable::is_refused(statuses.unwrap_or_default(), &subset.name) {
            return false;
        }
        // Shares are not accepted for StatefulSets; one that is there all the same takes nobody.
        match subsets::limit(subset, 0) {
            Ok(Some(most)) => next += i64::from(most),
            Ok(None) => next = i64::MAX,
            Err(_) => {}
        }
        ordinal < next
    })
}

/// The number at the end of a Pod's name, after the last dash; -1 when there is none.
fn ordinal(pod: &str) -> i64 {
    let digits = pod.rsplit_once('-').map_or("", |(_, digits)| digits);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number {
        digits.parse().unwrap_or(i64::MAX - 1)
    } else {
        -1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn spread(subsets: &Value, refused: &str) -> WorkloadSpread {
        let condition = json!({"type": "Schedulable", "status": "False", "reason": "PodUnschedulable", "message": "",
            "lastTransitionTime": "2024-05-01T10:00:00Z"});
        let refused = json!([{"name": refused, "replicas": 0, "missingReplicas": 0, "conditions": [condition]}]);
        let object = json!({"spec": {"subsets": subsets}, "status": {"subsetStatuses": refused}});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn given_ordinals_then_the_subsets_are_filled_in_their_order() {
        let subsets = json!([{"name": "a", "maxReplicas": 2}, {"name": "b", "maxReplicas": 2}, {"name": "c"}]);
        for (refused, pod, expected) in [
            ("", "web-0", "a"),
            ("", "web-1", "a"),
            ("", "web-2", "b"),
            ("", "web-3", "b"),
            ("", "web-4", "c"),
            ("", "web-99999999999999999999", "c"),
            ("", "web", "a"),
            ("", "web-x", "a"),
            ("", "", "a"),
            ("a", "web-0", "b"),
            ("a", "web-2", "c"),
            ("b", "web-2", "c"),
        ] {
            let spread = spread(&subsets, refused);
            assert_eq!(subset_of(&spread, pod).unwrap().name, expected, "{refused} {pod}");
        }
        let full = spread(&json!([{"name": "a", "maxReplicas": 2}]), "");
        assert!(subset_of(&full, "web-2").is_none());
    }
}
