//! Who was granted a place of a budget, and whether there is another.
//!
//! Asked before a Pod is deleted, evicted or updated, in this order:
//!
//! 1. A Pod that its owner exempted, one that is not available anyway, and one that the budget ignores may go.
//! 2. So may any, where no Pod has to stay available, and where the budget does not protect against the operation.
//! 3. A Pod that was granted a place a moment ago is not charged again. Shortly before the place is forgotten it is renewed, so that no other Pod gets it while
//!    this one goes; but with no place left the answer is no: a Pod that is asked for again and again and stays, because somebody else refuses, would keep it from
//!    all others.
//! 4. Without a place left the answer is no; else a place is taken, and the answer is yes once that is written down.
//!
//! A place is written down with the name of the Pod and the time. It counts for the Pod that had that name then, not for a later one.
//! Whoever writes it down names the version of the budget that was looked at, so that of two who take the last place one is refused.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kruise_api::gates::{Gate, Gates};
use kruise_api::names::{annotation, group};
use kruise_api::pod::Pod;
use kruise_api::podunavailablebudget::v1beta1::{PodUnavailableBudget, PodUnavailableBudgetStatus, ProtectOperation};
use serde_json::{Value, json};

use super::{availability, counts};
use crate::shared::seconds::{to_the_second, truncate};
use crate::shared::selector;

/// How long a deletion that was granted may take to be seen.
pub const DELETION_IS_SEEN_AFTER: SignedDuration = SignedDuration::from_secs(20);
/// How long an update that was granted may take to be seen.
pub const UPDATE_IS_SEEN_AFTER: SignedDuration = SignedDuration::from_secs(10);
/// A place that is forgotten within this time is renewed when its Pod is disturbed again.
const RENEWED_BEFORE: SignedDuration = SignedDuration::from_secs(8);
/// Most places that may be written down at a time.
const MOST: usize = 2000;

/// What an answer depends on besides the objects.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub operation: Operation,
    pub now: Timestamp,
    pub gates: Gates,
}

/// What is to be done to a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Delete,
    Evict,
    Update,
    Resize,
}

impl Operation {
    fn protect(self) -> ProtectOperation {
        match self {
            Self::Delete => ProtectOperation::Delete,
            Self::Evict => ProtectOperation::Evict,
            Self::Update => ProtectOperation::Update,
            Self::Resize => ProtectOperation::Resize,
        }
    }
}

/// Why a Pod may be disturbed without a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Free {
    /// Its owner exempted it.
    Exempted,
    /// It is not available anyway.
    Unavailable,
    /// The budget ignores it.
    Ignored,
    /// No Pod has to stay available.
    NothingDesired,
    /// The budget does not protect against this.
    NotProtected,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Yes, without a place.
    Free(Free),
    /// Yes: it has a place already.
    Granted,
    /// Yes, once this is written down.
    Take(Place),
    /// No, for this reason.
    Refused(String),
}

/// A place to write down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pod: String,
    is_update: bool,
    time: Timestamp,
    /// Places that are left then.
    allowed: i32,
    /// It was written down as an update before.
    was_update: bool,
}

impl Place {
    /// Returns the change of the budget that writes it down.
    pub fn patch(&self) -> Value {
        let time = to_the_second(self.time);
        let mut status = json!({
            "unavailableAllowed": self.allowed,
            (if self.is_update { "unavailablePods" } else { "disruptedPods" }): {(&self.pod): time},
        });
        if let Some(fields) = status.as_object_mut().filter(|_| self.was_update && !self.is_update) {
            fields.insert("unavailablePods".to_owned(), json!({(&self.pod): null}));
        }
        json!({ "status": status })
    }

    /// Returns the status with it written down.
    #[must_use]
    pub fn written(&self, mut status: PodUnavailableBudgetStatus) -> PodUnavailableBudgetStatus {
        status.unavailable_allowed = self.allowed;
        if self.was_update && !self.is_update {
            status.unavailable_pods.remove(&self.pod);
        }
        let places = if self.is_update {
            &mut status.unavailable_pods
        } else {
            &mut status.disrupted_pods
        };
        places.insert(self.pod.clone(), Time(truncate(self.time)));
        status
    }
}

/// Returns why a Pod may be disturbed, whatever its budget says.
pub fn free(pod: &Pod, gates: Gates) -> Option<Free> {
    let exempted = pod.metadata.annotation(annotation::BUDGET_NO_PROTECT);
    if exempted.is_some_and(|word| ["1", "t", "T", "TRUE", "true", "True"].contains(&word)) {
        return Some(Free::Exempted);
    }
    (!availability::is_available(pod, gates)).then_some(Free::Unavailable)
}

/// Returns whether a Pod may be disturbed, as far as its budget is known.
pub fn answer(budget: &PodUnavailableBudget, pod: &Pod, asked: &Asked) -> Answer {
    if let Some(free) = free(pod, asked.gates) {
        return Answer::Free(free);
    }
    let ignored = budget.spec.ignored_pod_selector.as_ref();
    let label = |key: &str| pod.metadata.label(key);
    if ignored.is_some_and(|ignored| !selector::is_empty(ignored) && selector::matches(ignored, label)) {
        return Answer::Free(Free::Ignored);
    }
    let none = PodUnavailableBudgetStatus::default();
    let status = budget.status.as_ref().unwrap_or(&none);
    if status.desired_available == 0 {
        return Answer::Free(Free::NothingDesired);
    }
    let tells_resizes = asked.gates.enabled(Gate::InPlacePodVerticalScaling);
    if !counts::protects(budget, &asked.operation.protect(), tells_resizes) {
        return Answer::Free(Free::NotProtected);
    }
    let name = budget.metadata.name.as_deref().unwrap_or_default();
    take(status, name, pod, asked)
}

fn take(status: &PodUnavailableBudgetStatus, budget: &str, pod: &Pod, asked: &Asked) -> Answer {
    let is_update = asked.operation == Operation::Update;
    let is_deletion = matches!(asked.operation, Operation::Delete | Operation::Evict);
    let left = |places: &BTreeMap<String, Time>, lasts| place_left(places, pod, lasts, asked.now);
    let disrupted = left(&status.disrupted_pods, DELETION_IS_SEEN_AFTER);
    let updated = left(&status.unavailable_pods, UPDATE_IS_SEEN_AFTER);
    let mut place = Place {
        pod: pod.metadata.name.to_string(),
        is_update,
        time: asked.now,
        allowed: status.unavailable_allowed,
        was_update: status.unavailable_pods.contains_key(&*pod.metadata.name),
    };
    match (disrupted, updated) {
        (Some(left), _) if left > RENEWED_BEFORE => return Answer::Granted,
        // The controller forgets an update sooner than a deletion may be seen.
        (_, Some(left)) if !is_deletion && left > RENEWED_BEFORE => return Answer::Granted,
        (Some(_), _) if status.unavailable_allowed <= 0 => {}
        (Some(_), _) | (_, Some(_)) => return Answer::Take(place),
        (None, None) => {}
    }
    let forbidden = format!("podunavailablebudget.{} \"{budget}\" is forbidden:", group::POLICY);
    if status.unavailable_allowed <= 0 {
        return Answer::Refused(format!("{forbidden} pub unavailable allowed is negative"));
    }
    if status.disrupted_pods.len() + status.unavailable_pods.len() > MOST {
        return Answer::Refused(format!(
            "{forbidden} DisruptedPods and UnavailablePods map too big - too many unavailable not confirmed by PUB controller"
        ));
    }
    place.allowed -= 1;
    Answer::Take(place)
}

/// How much longer a place is kept for this Pod.
fn place_left(
    places: &BTreeMap<String, Time>,
    pod: &Pod,
    lasts: SignedDuration,
    now: Timestamp,
) -> Option<SignedDuration> {
    let Time(since) = places.get(&*pod.metadata.name)?;
    let made = pod
        .metadata
        .creation_timestamp
        .map(kruise_api::meta::CompactTimestamp::timestamp);
    let left = lasts - now.duration_since(*since);
    // Times are in whole seconds: a Pod that was made in the same second may be the one after.
    (made.is_none_or(|made| made < *since) && left.is_positive()).then_some(left)
}
