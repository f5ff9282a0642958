//! What a WorkloadSpread says of its subsets, counted from the Pods.
//!
//! - Room is the limit, less active Pods and those that were let in and are not seen, and more by those that were let go and are still seen.
//! - A Pod that was let in is seen at once, mostly. If it does not come within 30 seconds it was refused elsewhere, which is told.
//! - Names can be used again. An entry is not taken for that of another Pod of the name: where that is not sure, it makes no room.
//! - A Pod that was let go and is still there after 15 seconds stays, which is told. That one is let go is remembered for five seconds also when it is not seen.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kruise_api::meta::CompactTimestamp;
use kruise_api::names::event;
use kruise_api::pod::Pod;
use kruise_api::workloadspread::v1beta1::{SubsetStatus, WorkloadSpread};

use super::assign::Assigned;
use super::ledger::{
    CREATION_IS_SEEN_AFTER, DELETION_IS_SEEN_AFTER, NEVER_FORGOTTEN_WITHIN, NO_LIMIT, Relation, relation,
};
use super::related::matched;
use super::schedulable::{self, Waits};
use crate::plan::Event;
use crate::shared::availability::is_active;
use crate::shared::seconds::whole_seconds;

/// The subsets, as they are counted now.
#[derive(Clone, Debug, Default)]
pub struct Counted<'a> {
    pub list: Vec<SubsetStatus>,
    pub events: Vec<Event>,
    pub look_again: Option<Duration>,
    /// Pods that wait for a node for too long, each with the name of its subset.
    pub failed: Vec<(&'a Pod, String)>,
}

impl Counted<'_> {
    fn wake(&mut self, after: Duration) {
        self.look_again = Some(self.look_again.map_or(after, |earlier| earlier.min(after)));
    }

    /// Whether nobody was let in or go whom the Pods do not show.
    pub fn is_settled(&self) -> bool {
        let is_settled = |status: &SubsetStatus| status.creating_pods.is_empty() && status.deleting_pods.is_empty();
        self.list.iter().all(is_settled)
    }
}

/// Counts Pods. `old` is what was said of these before, `all` what was said of the Pods of all versions.
pub fn count<'a>(
    spread: &WorkloadSpread,
    limits: &[Option<i32>],
    old: &[SubsetStatus],
    all: &[SubsetStatus],
    pods: &[Assigned<'a>],
    now: Timestamp,
) -> Counted<'a> {
    let mut counted = Counted::default();
    let last = spread.spec.subsets.len().saturating_sub(1);
    for (index, subset) in spread.spec.subsets.iter().enumerate() {
        let of_subset = pods.iter().filter(|one| one.subset == Some(index)).map(|one| one.pod);
        let of_subset: Vec<&Pod> = of_subset.collect();
        let none = SubsetStatus::default();
        let before = old.iter().find(|status| status.name == subset.name);
        let before = before.unwrap_or(&none);
        let mut status = SubsetStatus {
            name: subset.name.clone(),
            ..SubsetStatus::default()
        };
        let (mut leaving, mut seen) = (0_i64, BTreeSet::new());
        for pod in &of_subset {
            let name = &*pod.metadata.name;
            let id = matched(&pod.metadata).map(|matched| matched.uid);
            let id = id.filter(|uid| !uid.is_empty());
            let noted = before.deleting_pods.get(name);
            let relation = noted.map(|noted| relation(noted, made(pod), id.is_some()));
            let is_later = relation.is_none_or(|relation| relation == Relation::Later);
            match &id {
                Some(id) => drop(seen.insert(id.clone())),
                // One that goes, or may go, can have a successor of its name that is not seen yet.
                None if is_later && !pod.metadata.is_deleting() => drop(seen.insert(name.to_owned())),
                None => {}
            }
            if !is_active(pod) {
                continue;
            }
            status.replicas += 1;
            let Some(noted) = noted.filter(|_| !is_later) else {
                continue;
            };
            let left = DELETION_IS_SEEN_AFTER - now.duration_since(noted.0);
            let is_it = relation == Some(Relation::Same);
            if left.is_positive() {
                status.deleting_pods.insert(name.to_owned(), noted.clone());
                leaving += i64::from(is_it);
                counted.wake(whole_seconds(left));
            } else if is_it {
                let message = format!("Pod {name} was expected to be deleted but it wasn't");
                counted.events.push(Event::warning(event::DELETE_POD_FAILED, message));
            }
        }
        let names: BTreeSet<&str> = of_subset.iter().map(|pod| &*pod.metadata.name).collect();
        for (name, noted) in before
            .deleting_pods
            .iter()
            .filter(|(name, _)| !names.contains(name.as_str()))
        {
            let left = NEVER_FORGOTTEN_WITHIN - now.duration_since(noted.0);
            if left.is_positive() {
                status.deleting_pods.insert(name.clone(), noted.clone());
                counted.wake(whole_seconds(left));
            }
        }
        for (id, noted) in before.creating_pods.iter().filter(|(id, _)| !seen.contains(*id)) {
            let left = CREATION_IS_SEEN_AFTER - now.duration_since(noted.0);
            if left.is_positive() {
                status.creating_pods.insert(id.clone(), noted.clone());
                counted.wake(whole_seconds(left));
            } else {
                let message = format!(
                    "Pod {id} was expected to be created in subset {} but it wasn't",
                    subset.name
                );
                counted.events.push(Event::warning(event::CREATE_POD_FAILED, message));
            }
        }
        status.missing_replicas = missing(limits.get(index).copied().flatten(), &status, leaving);
        if let Some(patience) = schedulable::patience(spread) {
            let failed = waiting(&of_subset, patience, now, &mut counted);
            let condition = schedulable::condition(before).or_else(|| {
                let known = all.iter().find(|status| status.name == subset.name);
                known.and_then(schedulable::condition)
            });
            let decided = schedulable::decide(condition, index == last, !failed.is_empty(), now);
            if decided.has_recovered {
                let message = format!("Subset {} takes Pods again", subset.name);
                counted.events.push(Event::normal(event::RECOVER_SCHEDULABLE, message));
            }
            if let Some(after) = decided.look_again {
                counted.wake(after);
            }
            status.conditions = vec![decided.condition];
            if index != last {
                counted
                    .failed
                    .extend(failed.into_iter().map(|pod| (pod, subset.name.clone())));
            }
        }
        counted.list.push(status);
    }
    counted
}

/// How many more Pods fit, when so many of those that are there leave.
fn missing(limit: Option<i32>, status: &SubsetStatus, leaving: i64) -> i32 {
    let Some(most) = limit else { return NO_LIMIT };
    let coming = i64::try_from(status.creating_pods.len()).unwrap_or(i64::MAX);
    let taken = i64::from(status.replicas) + coming - leaving;
    let room = (i64::from(most) - taken).clamp(0, i64::from(most));
    i32::try_from(room).unwrap_or_default()
}

fn waiting<'a>(pods: &[&'a Pod], patience: SignedDuration, now: Timestamp, counted: &mut Counted<'_>) -> Vec<&'a Pod> {
    let mut failed = Vec::new();
    for pod in pods {
        match schedulable::waits(pod, patience, now) {
            Waits::No => {}
            Waits::For(left) => counted.wake(left),
            Waits::TooLong => failed.push(*pod),
        }
    }
    failed
}

fn made(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.map(CompactTimestamp::timestamp)
}
