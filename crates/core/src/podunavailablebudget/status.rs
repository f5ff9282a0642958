//! What is left of a budget, counted from its Pods.
//!
//! - Only active Pods count. A place that was written down for one that is gone is forgotten, but not within five seconds: what is seen of the Pods may be older
//!   than the place, which may then be that of a successor with the same name.
//! - A place for a deletion is kept for 20 seconds, one for an update for 10. A Pod that is still there after that was not deleted, which is told. Where the API server knows
//!   that it was, only what is seen of the Pods is too old: the place is kept.
//! - Available are the Pods that are available and have no place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kruise_api::pod::Pod;
use kruise_api::podunavailablebudget::v1beta1::{PodUnavailableBudget, PodUnavailableBudgetStatus};

use super::availability::is_available;
use super::counts::Counts;
use super::ledger::{DELETION_IS_SEEN_AFTER, UPDATE_IS_SEEN_AFTER};
use crate::plan::Env;
use crate::shared::availability::is_active;
use crate::shared::seconds::whole_seconds;

/// What is seen of the Pods is not older than this.
const SEEN_AFTER: SignedDuration = SignedDuration::from_secs(5);

/// When to look again at Pods that are seen as they were long ago.
const BEHIND: SignedDuration = SignedDuration::from_secs(1);

/// A status, and what was noticed on the way.
#[derive(Debug)]
pub struct Rebuilt<'a> {
    pub status: PodUnavailableBudgetStatus,
    /// Pods whose deletion was granted and did not happen.
    pub not_deleted: Vec<&'a Pod>,
    /// When the next place is forgotten.
    pub look_again: Option<Duration>,
}

/// Returns the Pods that count, by name.
pub fn active(pods: &[Arc<Pod>]) -> Vec<&Pod> {
    let mut active: Vec<&Pod> = pods.iter().map(|pod| &**pod).filter(|pod| is_active(pod)).collect();
    active.sort_unstable_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    active
}

/// Returns the Pods whose deletion was granted so long ago that their places are to be forgotten.
pub fn overdue(budget: &PodUnavailableBudget, now: Timestamp) -> impl Iterator<Item = &str> {
    let places = budget.status.iter().flat_map(|status| &status.disrupted_pods);
    let is_over = move |time: &Time| now.duration_since(time.0) >= DELETION_IS_SEEN_AFTER;
    places
        .filter(move |(_, time)| is_over(time))
        .map(|(name, _)| name.as_str())
}

/// Returns the status of a budget over these active Pods, of which those in `leaving` are on their way out, whatever is seen of them.
pub fn rebuild<'a>(
    budget: &PodUnavailableBudget,
    pods: &[&'a Pod],
    leaving: &BTreeSet<String>,
    counts: Counts,
    env: &Env,
) -> Rebuilt<'a> {
    let none = PodUnavailableBudgetStatus::default();
    let old = budget.status.as_ref().unwrap_or(&none);
    let mut deletions = Places::of(&old.disrupted_pods, DELETION_IS_SEEN_AFTER, env.now);
    let mut updates = Places::of(&old.unavailable_pods, UPDATE_IS_SEEN_AFTER, env.now);
    let mut not_deleted = Vec::new();
    let mut available = 0;
    for pod in pods {
        let is_going = deletions.keep(pod, leaving.contains(&*pod.metadata.name));
        if is_going == Kept::Forgotten {
            not_deleted.push(*pod);
        }
        let is_updated = updates.keep(pod, false);
        if is_going != Kept::Place && is_updated != Kept::Place && is_available(pod, env.gates) {
            available += 1;
        }
    }
    let names: BTreeSet<&str> = pods.iter().map(|pod| &*pod.metadata.name).collect();
    deletions.keep_of_others(&names);
    updates.keep_of_others(&names);
    let look_again = deletions.next.into_iter().chain(updates.next).min();
    Rebuilt {
        status: PodUnavailableBudgetStatus {
            observed_generation: budget.metadata.generation.unwrap_or_default(),
            disrupted_pods: deletions.kept,
            unavailable_pods: updates.kept,
            unavailable_allowed: (available - counts.desired).max(0),
            current_available: available,
            desired_available: counts.desired,
            total_replicas: counts.total,
        },
        not_deleted,
        look_again: look_again.map(whole_seconds),
    }
}

/// Places of one kind.
struct Places<'a> {
    old: &'a BTreeMap<String, Time>,
    lasts: SignedDuration,
    now: Timestamp,
    kept: BTreeMap<String, Time>,
    next: Option<SignedDuration>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// There is none.
    Nothing,
    Place,
    Forgotten,
}

impl<'a> Places<'a> {
    fn of(old: &'a BTreeMap<String, Time>, lasts: SignedDuration, now: Timestamp) -> Self {
        Self {
            old,
            lasts,
            now,
            kept: BTreeMap::new(),
            next: None,
        }
    }

    /// Keeps the latest places of Pods that are not there, or not yet seen.
    fn keep_of_others(&mut self, names: &BTreeSet<&str>) {
        for (name, time) in self.old.iter().filter(|(name, _)| !names.contains(name.as_str())) {
            let left = SEEN_AFTER - self.now.duration_since(time.0);
            if left.is_positive() {
                self.kept.insert(name.clone(), time.clone());
                self.next = self.next.into_iter().chain([left]).min();
            }
        }
    }

    fn keep(&mut self, pod: &Pod, is_leaving: bool) -> Kept {
        let Some((name, time)) = self.old.get_key_value(&*pod.metadata.name) else {
            return Kept::Nothing;
        };
        let made = pod
            .metadata
            .creation_timestamp
            .map(kruise_api::meta::CompactTimestamp::timestamp);
        if made.is_some_and(|made| made > time.0) {
            // The Pod that it was for is gone.
            return Kept::Nothing;
        }
        let mut left = self.lasts - self.now.duration_since(time.0);
        if !left.is_positive() {
            if !is_leaving {
                return Kept::Forgotten;
            }
            left = BEHIND;
        }
        self.kept.insert(name.clone(), time.clone());
        self.next = self.next.into_iter().chain([left]).min();
        Kept::Place
    }
}
