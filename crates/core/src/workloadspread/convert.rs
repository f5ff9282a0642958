//! v1alpha1 and v1beta1 of WorkloadSpread.
//!
//! | v1alpha1 | v1beta1 |
//! |---|---|
//! | `subsets[].requiredNodeSelectorTerm` | `requiredNodeSelector` |
//! | `subsets[].preferredNodeSelectorTerms` | `preferredNodeSelector` |
//! | conditions with optional `reason`, `message`, time | the standard condition, which requires all three |
//!
//! A missing reason becomes `Unknown`, a missing message the empty one, a missing time the beginning of time: the
//! controller measures from it, and "long ago" is what no time meant. `observedGeneration` is lost in v1alpha1.

use crate::shared::convert::{ConvertError, Rules, Warning};
use crate::shared::tree::{Object, each};
use serde_json::Value;

pub const RULES: Rules = Rules {
    renamed: &[
        ("spec.subsets[].requiredNodeSelectorTerm", "requiredNodeSelector"),
        ("spec.subsets[].preferredNodeSelectorTerms", "preferredNodeSelector"),
    ],
    only_v1beta1: &[
        "status.subsetStatuses[].conditions[].observedGeneration",
        "status.versionedSubsetStatuses{}[].conditions[].observedGeneration",
    ],
    up,
    ..Rules::SAME
};

pub fn up(object: &mut Object, _: &mut Vec<Warning>) -> Result<(), ConvertError> {
    for (field, default) in [
        ("reason", "Unknown"),
        ("message", ""),
        ("lastTransitionTime", "1970-01-01T00:00:00Z"),
    ] {
        for conditions in [
            "status.subsetStatuses[].conditions[]",
            "status.versionedSubsetStatuses{}[].conditions[]",
        ] {
            each(object, &format!("{conditions}.{field}"), &mut |condition, name| {
                let empty = |value: &Value| value.is_null() || value == "";
                if condition.get(name).is_none_or(empty) {
                    condition.insert(name.to_owned(), default.into());
                }
            });
        }
    }
    Ok(())
}
