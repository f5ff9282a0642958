//! What a CloneSet has to be.
//!
//! - The selector says something, is well formed and matches the labels of the Pod template. It cannot be changed, not even into one that
//!   means the same.
//! - Pods are restarted always and have no deadline of their own. Everything else about the Pod template is judged by the API server itself,
//!   with one volume for each claim template; the caller brings what it found ([`Lookups::template`]).
//! - The numbers of a rolling update can be read, and the update can move: with Pods to update, `maxUnavailable` and `maxSurge` are not both below one.
//!   `InPlaceOnly` has no use for more Pods, so it allows no surge.
//! - A Pod is named once in `podsToDelete`.
//!
//! v1alpha1 looks closer than v1beta1, and its users rely on it:
//!
//! | rule | v1alpha1 | v1beta1 |
//! |---|---|---|
//! | Pods newly named in `podsToDelete` are there, belong to this CloneSet and are not being deleted | yes | no |
//! | with `InPlaceOnly`, an update changes nothing of the Pod but images and metadata | yes | no: the controller says so later |
//! | `progressDeadlineSeconds` is above `minReadySeconds` | yes | no |
//! | `OnDelete` | refused | allowed |
//!
//! The numbers of `minReadySeconds`, `revisionHistoryLimit`, `gracePeriodSeconds` and of `scaleStrategy.maxUnavailable` are not looked at.

mod change;
mod scale;
mod strategy;

pub use scale::pods_to_look_up;

use super::version::Submitted;
use crate::admission::Lookups;
use crate::field_error::{FieldError, FieldErrors, Path};
use crate::shared::validate::{object_meta, pod_template};

/// Everything that is wrong with a CloneSet; `old` is what it was before an update.
pub fn validate(new: &Submitted, old: Option<&Submitted>, lookups: &Lookups) -> FieldErrors {
    let spec = Path::new("spec");
    let mut errors = object_meta::validate(new.metadata());
    if let Some(old) = old {
        errors.extend(change::validate(new, old));
    }
    if new.replicas() < 0 {
        let at = spec.child("replicas");
        errors.push(FieldError::invalid(&at, new.replicas(), NOT_NEGATIVE));
    }
    errors.extend(pod_template::validate_selector(
        new.selector(),
        new.template(),
        &spec,
        "empty selector is invalid for cloneset",
    ));
    errors.extend(lookups.template.iter().cloned());
    errors.extend(pod_template::validate(
        new.template(),
        &spec.child("template"),
        "activeDeadlineSeconds in cloneset is not Supported",
    ));
    errors.extend(scale::validate(new, old, &lookups.pods));
    errors.extend(strategy::validate(new));
    FieldErrors(errors)
}

const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
