//! Bringing Pods to another revision.
//!
//! First every Pod gets what it needs to go on with what it is doing: the end of a grace period, the next batch of
//! containers, readiness after an update, its next lifecycle state. That happens also when the rollout is paused, and
//! for new Pods (which could not become ready without).
//!
//! Then, unless the rollout is paused or the type is `OnDelete`:
//!
//! 1. The arithmetic says how many Pods to update (see [`super::counts`]). With the gate `CloneSetPartitionRollback` it
//!    may say to go back.
//! 2. Candidates are the Pods that are not at the wanted revision, in their order (see [`super::order`]), without those
//!    that prepare their deletion or wait for the end of a grace period.
//! 3. They are taken one by one until one would exceed `maxUnavailable`: counting Pods that are unavailable at the
//!    wanted revision together with those taken now, and, for a candidate that is available itself, all unavailable
//!    Pods. The walk *stops* there; it does not look for others behind.
//! 4. A Pod is updated in place if the policy wants it and the change allows it; before that it waits for its
//!    `inPlaceUpdate` hook. Otherwise it is specified for deletion, and scaling replaces it; one that scaling would delete
//!    right away is deleted without being specified first. Under `InPlaceOnly` it is left alone, and the set says why.
//! 5. A Pod in a lifecycle state that this release does not know is neither updated in place nor replaced instead; the set says so.
//!
//! A Pod is not written twice in a round: the walk also ends at one that was just given what it needs. A Pod whose update failed is passed over until
//! its back-off is over ([`crate::plan::Outcome`]): it would be taken out of service each time. The others do not wait for it.
//!
//! A round writes at most [`PODS_PER_ROUND`] Pods, and the next one follows at once. So a pause, a new partition or bad news about
//! the first Pods count for the rest of a large set, and Pods that are done are not kept waiting by those that have yet to begin. However many Pods wait
//! for their hook or for their deletion, the others begin: only what is written counts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kruise_api::gates::Gate;
use kruise_api::names::{event, label};

use super::counts::{Diff, PodCounts, is_on_delete};
use super::order::ordered;
use super::scale;
use super::snapshot::Snapshot;
use crate::plan::why;
use crate::plan::{Action, Chain, Event, Guard, OnFailure, Pace, Phase, Plan, PodNames, Step, Why, Write};
use crate::shared::advance::PODS_PER_ROUND;
use crate::shared::inplace::is_in_grace;
use crate::shared::lifecycle::State;
use crate::shared::membership::Member;
use crate::shared::pod_change::{self, PodChange};
use crate::shared::pod_update::{PodUpdate, PodUpdater, UpdateTarget, change_pod, leave_alone};
use crate::shared::revision::{self, Revision};

/// What is known of the update before it is planned.
pub(super) struct Outdated {
    diff: Diff,
    /// Pods that are not at the update revision.
    pods: i32,
}

impl Outdated {
    pub(super) fn of(snapshot: &Snapshot<'_>) -> Self {
        let counts = PodCounts::of(&snapshot.members, |member| member.is_updated);
        Self {
            diff: Diff::of(&snapshot.desired, &counts, snapshot.count_options()),
            pods: (counts.old.active + counts.old.preparing_delete) as i32,
        }
    }

    /// Pods to update; negative when Pods go back.
    pub(super) fn updates(&self) -> i64 {
        self.diff.update
    }
}

/// Plans the update of Pods; `written` are those that were just given what they need. Returns why it cannot go on, if so.
pub(super) fn update(
    snapshot: &Snapshot<'_>,
    Outdated { diff, pods }: &Outdated,
    written: &BTreeSet<&str>,
    plan: &mut Plan,
) -> Option<String> {
    let outdated = *pods;
    let rest = PODS_PER_ROUND.saturating_sub(written.len());
    if rest == 0 {
        plan.wake(Duration::ZERO);
        return None;
    }
    let rolling = snapshot.set.spec.update_strategy.rolling_update.as_ref();
    if is_on_delete(&snapshot.set.spec) {
        plan.why
            .extend((outdated > 0).then_some(Why::Rollout(why::Rollout::OnDelete { outdated })));
        return None;
    }
    if rolling.is_some_and(|rolling| rolling.paused) {
        plan.why
            .extend((diff.update != 0).then_some(Why::Rollout(why::Rollout::Paused { outdated })));
        return None;
    }
    if diff.update == 0 {
        return None;
    }
    let mut budget = UpdateBudget::new(snapshot, diff);
    let candidates = snapshot
        .members
        .iter()
        .filter(|member| budget.is_candidate(member))
        .collect();
    let wanted = usize::try_from(diff.update.unsigned_abs()).unwrap_or(usize::MAX);
    let mut ordered: Vec<&Member<'_>> = ordered(candidates, &snapshot.members, rolling)
        .into_iter()
        .take(wanted)
        .collect();
    leave_alone(&mut ordered, &snapshot.observed.last, snapshot.env.now, plan);
    let count = ordered.len();
    let chosen = ordered
        .into_iter()
        .take_while(|member| !written.contains(member.name()) && budget.try_take(member));
    let chosen: Vec<&Member<'_>> = chosen.collect();
    if chosen.len() < count {
        plan.because(why::Rollout::UpdateBudget {
            allowed: diff.update_unavailable as i32,
            unavailable: budget.unavailable as i32,
            waiting: (count - chosen.len()) as i32,
        });
    }
    let writes = Writes {
        snapshot,
        target: budget.target,
        most: rest,
    };
    writes.all(&chosen, plan)
}

/// What may be taken out of service for the update, and how much of it is used.
struct UpdateBudget<'r, 'a> {
    target: &'r Revision<'a>,
    is_rollback: bool,
    limit: i64,
    unavailable: i64,
    /// Unavailable Pods at the wanted revision, and Pods taken so far.
    updating: i64,
}

impl<'r, 'a> UpdateBudget<'r, 'a> {
    fn new(snapshot: &'r Snapshot<'a>, diff: &Diff) -> Self {
        let is_rollback = diff.update < 0;
        let revisions = &snapshot.revisions;
        let target = if is_rollback {
            &revisions.current
        } else {
            &revisions.update
        };
        let unavailable = snapshot.members.iter().filter(|member| !member.is_available());
        let arrived = |member: &&Member<'_>| revision::is_at(member.pod, target.name());
        Self {
            target,
            is_rollback,
            limit: diff.update_unavailable,
            updating: unavailable.clone().filter(arrived).count() as i64,
            unavailable: unavailable.count() as i64,
        }
    }

    fn is_candidate(&self, member: &Member<'_>) -> bool {
        let in_grace = || member.state != State::Updated && is_in_grace(member.pod);
        member.is_updated == self.is_rollback && !member.is_preparing_delete() && !in_grace()
    }

    /// Takes one more, if there is room.
    fn try_take(&mut self, member: &Member<'_>) -> bool {
        if self.updating >= self.limit {
            return false;
        }
        if member.is_available() {
            if self.unavailable >= self.limit {
                return false;
            }
            self.unavailable += 1;
        }
        self.updating += 1;
        true
    }
}

/// The writes that update Pods to one revision.
struct Writes<'r, 'a> {
    snapshot: &'r Snapshot<'a>,
    target: &'r Revision<'a>,
    /// Pods that are written in this round. Those that wait, for a hook or for their deletion, are not among them.
    most: usize,
}

impl<'r, 'a> Writes<'r, 'a> {
    /// All writes. Returns the first Pod that cannot be updated, and why; the walk ends there.
    fn all(&self, chosen: &[&'r Member<'a>], plan: &mut Plan) -> Option<String> {
        let env = self.snapshot.env;
        let asks = env.gates.enabled(Gate::PodUnavailableBudgetUpdateGate);
        let pace = if asks { Pace::InOrder } else { Pace::Bounded };
        let mut step = Step::new(Phase::Update, pace, OnFailure::Skip);
        let mut recreated: BTreeMap<String, PodNames> = BTreeMap::new();
        let mut replaced: Vec<&Member<'_>> = Vec::new();
        let mut end = None;
        let labels = self.snapshot.pod_labels(self.target.name());
        let mut updater = PodUpdater::new(self.update_target(&labels), self.snapshot, env);
        for member in chosen {
            if step.chains.len() + replaced.len() == self.most {
                plan.wake(Duration::ZERO);
                break;
            }
            let mut chain = match updater.begin(member.pod, plan) {
                PodUpdate::InPlace(chain) => chain,
                PodUpdate::Recreate(because) => {
                    if let Some(because) = because {
                        recreated.entry(because).or_default().push(member.name());
                    }
                    self.recreate(member, asks, &mut replaced)
                }
                PodUpdate::Skip(failure) => {
                    end.get_or_insert(failure);
                    continue;
                }
                PodUpdate::Stop(failure) => {
                    end = Some(failure);
                    break;
                }
            };
            chain.guard = asks.then(|| Guard::Budget {
                pod: member.name().to_owned(),
            });
            step.push(chain);
        }
        plan.why.extend(
            recreated
                .into_iter()
                .map(|(because, pods)| Why::Rollout(why::Rollout::Recreating { pods, because })),
        );
        let mut deletion = Step::new(Phase::Scale, Pace::Bounded, OnFailure::Skip);
        let at_once = scale::deleted_at_once(self.snapshot, &replaced);
        for member in replaced {
            if at_once.contains(member.name()) {
                deletion.push(self.delete(member));
            } else {
                step.push(self.specify_delete(member));
            }
        }
        plan.push(step);
        plan.push(deletion);
        end
    }

    fn update_target<'u>(&'u self, labels: &'u BTreeMap<String, String>) -> UpdateTarget<'u> {
        let rolling = self.snapshot.set.spec.update_strategy.rolling_update.as_ref();
        let strategy = rolling.and_then(|rolling| rolling.in_place_update_strategy.as_ref());
        UpdateTarget {
            revisions: &self.snapshot.revisions,
            revision: self.target,
            labels,
            policy: rolling
                .map(|rolling| rolling.pod_update_policy.clone())
                .unwrap_or_default(),
            grace_seconds: strategy.map_or(0, |strategy| strategy.grace_period_seconds),
        }
    }

    /// Replaces a Pod; nothing for one that is specified for deletion already. One that has to be granted is specified at once,
    /// how the others go is decided for all of them together.
    fn recreate(&self, member: &'r Member<'a>, asks: bool, replaced: &mut Vec<&'r Member<'a>>) -> Chain {
        if asks && !member.is_specified_delete {
            return self.specify_delete(member);
        }
        replaced.extend((!member.is_specified_delete).then_some(member));
        Chain::default()
    }

    /// Specifies a Pod for deletion.
    fn specify_delete(&self, member: &Member<'_>) -> Chain {
        let mut change = PodChange::default();
        change.set_label(label::SPECIFIED_DELETE, "true");
        let (name, revision) = (member.name(), self.target.name());
        let mut chain = change_pod(member.pod, change, pod_change::Guard::Version, self.snapshot.env);
        for write in &mut chain.writes {
            let failed = format!("failed to patch pod {name} specified-delete for update(revision {revision})");
            write.succeeded.push(self.specified_delete_event(member));
            write.failed = Some(Event::warning(event::FAILED_UPDATE_POD_RECREATE, failed));
        }
        chain
    }

    /// Deletes a Pod, and tells what users know of an update: first that the Pod was chosen, then that it was deleted.
    fn delete(&self, member: &Member<'_>) -> Chain {
        let mut chain = scale::removal(self.snapshot, member);
        let deletes = |write: &&mut Write| matches!(write.action, Action::Delete { .. });
        if let Some(write) = chain.writes.iter_mut().find(deletes) {
            write.succeeded.insert(0, self.specified_delete_event(member));
        }
        chain
    }

    fn specified_delete_event(&self, member: &Member<'_>) -> Event {
        let (name, revision) = (member.name(), self.target.name());
        let done = format!("successfully patch pod {name} specified-delete for update(revision {revision})");
        Event::normal(event::SUCCESSFUL_UPDATE_POD_RECREATE, done)
    }
}

#[cfg(test)]
mod tests;
