//! Bringing Pods to another revision, and claims to another size.
//!
//! Only with type `RollingUpdate`, and not while it is paused. With `OrderedReady` only when all Pods are available; otherwise only the Pod that the order waits
//! for is looked at, and only if it waits itself: for the hook before its update or its deletion, or for the deletion that somebody specified. Nothing else
//! would ever get it on.
//!
//! 1. Unavailable are Pods that are missing, not healthy, not available, in the middle of an update in place, or whose volumes are still growing.
//! 2. Pods that are specified for deletion go, from the highest ordinal down, whatever the partition says: unavailable ones at once, others as
//!    long as fewer than `maxUnavailable` are unavailable. Each comes back with its ordinal.
//! 3. Candidates are taken in their order (see [`super::order`]). One that is updated, claims included, is passed over. The walk *stops* at the first that is
//!    available while `maxUnavailable` are not; unavailable ones can always be updated.
//! 4. First the claims of a candidate grow ([`super::claims`]); its Pod is left alone meanwhile.
//! 5. Then the Pod is updated in place if the policy wants it and the change allows it, after its `inPlaceUpdate` hook; otherwise it is deleted, after its `preDelete`
//!    hook, and made anew. Under `InPlaceOnly` it is left alone, and the set says why.
//!
//! A Pod is not written twice in a round. One whose update failed is left alone until its back-off is over; with `OrderedReady` others wait for it. A round writes
//! at most [`PODS_PER_ROUND`] Pods, and the next one follows at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kruise_api::gates::Gate;
use kruise_api::shared::in_place::PodUpdatePolicy;
use kruise_api::statefulset::RollingUpdate;

use super::claims::Expansion;
use super::counts::is_rolling;
use super::scale::{Scaled, removal};
use super::snapshot::{OrdinalPod, Snapshot};
use crate::plan::why;
use crate::plan::{Chain, Guard, Hook, OnFailure, Pace, Phase, Plan, PodNames, Step, Why};
use crate::shared::advance::PODS_PER_ROUND;
use crate::shared::inplace::{self, Options};
use crate::shared::lifecycle::State;
use crate::shared::pod_update::{PodUpdate, PodUpdater, UpdateTarget, is_in_place};
use crate::shared::revision;

/// Plans the update. `candidates` are ordinals in their order; `advanced` Pods were just given what they need, and scaling has touched others.
/// Returns why it cannot go on, if so.
pub(super) fn update(
    snapshot: &Snapshot<'_>,
    candidates: &[i32],
    advanced: &BTreeSet<&str>,
    scaled: &Scaled<'_>,
    plan: &mut Plan,
) -> Option<String> {
    let touched = &scaled.touched;
    let is_turn = |pod: &&OrdinalPod<'_>| {
        scaled
            .waits_for
            .is_none_or(|ordinal| pod.ordinal == ordinal && waits(pod))
    };
    let outdated = || snapshot.replicas.values().filter(|pod| !pod.member.is_updated).count() as i32;
    let spec = &snapshot.set.spec;
    if !is_rolling(spec) {
        let outdated = outdated();
        plan.why
            .extend((outdated > 0).then_some(Why::Rollout(why::Rollout::OnDelete { outdated })));
        return None;
    }
    let candidates: Vec<&OrdinalPod<'_>> = candidates
        .iter()
        .filter_map(|ordinal| snapshot.replicas.get(ordinal))
        .filter(|pod| !pod.member.is_updated || !snapshot.claims.are_compatible(pod.ordinal))
        .filter(is_turn)
        .collect();
    let specified: Vec<&OrdinalPod<'_>> = snapshot
        .replicas
        .values()
        .rev()
        .filter(|pod| pod.member.is_specified_delete && !pod.is_terminating() && !touched.contains(pod.name()))
        .filter(is_turn)
        .collect();
    if candidates.is_empty() && specified.is_empty() {
        return None;
    }
    let rolling = spec.update_strategy.rolling_update.as_ref();
    if rolling.is_some_and(|rolling| rolling.paused) {
        plan.because(why::Rollout::Paused { outdated: outdated() });
        return None;
    }
    let asks = snapshot.env.gates.enabled(Gate::PodUnavailableBudgetUpdateGate);
    let pace = if asks { Pace::InOrder } else { Pace::Bounded };
    let mut walk = Walk {
        snapshot,
        budget: UpdateBudget::new(snapshot),
        step: Step::new(Phase::Update, pace, OnFailure::Skip),
        deletions: Step::new(Phase::Scale, pace, OnFailure::Skip),
        hooked: PodNames::default(),
        recreated: BTreeMap::new(),
        asks,
        written: advanced.len(),
    };
    let gone = walk.specified_delete(&specified, plan);
    let taken = |name: &str| gone.contains(name) || touched.contains(name);
    let end = walk.update(&candidates, advanced, taken, plan);
    walk.finish(plan);
    end
}

/// It waits for a hook, or for somebody's wish to have it deleted.
fn waits(pod: &OrdinalPod<'_>) -> bool {
    pod.member.is_specified_delete || matches!(pod.member.state, State::PreparingUpdate | State::PreparingDelete)
}

/// Which Pods are unavailable, and how many may be.
struct UpdateBudget {
    limit: usize,
    /// Wanted Pods that are not there.
    missing: usize,
    unavailable: BTreeSet<i32>,
}

impl UpdateBudget {
    fn new(snapshot: &Snapshot<'_>) -> Self {
        let is_unavailable = |pod: &&OrdinalPod<'_>| {
            !pod.is_healthy()
                || !pod.member.is_available()
                || !inplace::is_complete(pod.pod(), snapshot.env.gates)
                || !snapshot.claims.are_ready(pod.ordinal)
        };
        let unavailable = snapshot.replicas.values().filter(is_unavailable);
        Self {
            limit: usize::try_from(snapshot.desired.unavailable).unwrap_or(usize::MAX),
            missing: usize::try_from(snapshot.missing()).unwrap_or(0),
            unavailable: unavailable.map(|pod| pod.ordinal).collect(),
        }
    }

    fn used(&self) -> usize {
        self.unavailable.len().saturating_add(self.missing)
    }

    /// Whether this one may be taken out of service.
    fn allows(&self, ordinal: i32) -> bool {
        self.unavailable.contains(&ordinal) || self.used() < self.limit
    }

    fn take(&mut self, ordinal: i32) {
        self.unavailable.insert(ordinal);
    }
}

struct Walk<'r, 'a> {
    snapshot: &'r Snapshot<'a>,
    budget: UpdateBudget,
    step: Step,
    deletions: Step,
    hooked: PodNames,
    /// Pods that are replaced although they should have been updated in place, by reason.
    recreated: BTreeMap<String, PodNames>,
    /// Budgets of others are asked first.
    asks: bool,
    /// Pods that are written in this round.
    written: usize,
}

impl<'r> Walk<'r, '_> {
    /// Step 2. Returns the Pods it is about.
    fn specified_delete(&mut self, pods: &[&'r OrdinalPod<'_>], plan: &mut Plan) -> BTreeSet<&'r str> {
        let mut waiting = PodNames::default();
        let mut gone = BTreeSet::new();
        let allowed = self.budget.limit.saturating_sub(self.budget.used());
        for pod in pods {
            if self.budget.allows(pod.ordinal) {
                self.remove(pod);
                gone.insert(pod.name());
            } else {
                waiting.push(pod.name());
            }
        }
        if !waiting.is_empty() {
            plan.because(why::Rollout::DeleteBudget {
                allowed: i32::try_from(allowed).unwrap_or(i32::MAX),
                waiting,
            });
        }
        gone
    }

    /// Steps 3 to 5. Returns why the update cannot go on, if so.
    fn update(
        &mut self,
        candidates: &[&'r OrdinalPod<'_>],
        advanced: &BTreeSet<&str>,
        is_taken: impl Fn(&str) -> bool,
        plan: &mut Plan,
    ) -> Option<String> {
        let snapshot = self.snapshot;
        let is_ordered = snapshot.desired.is_ordered;
        let labels = Snapshot::pod_labels(snapshot.revisions.update.name());
        let mut updater = PodUpdater::new(target(snapshot, &labels), snapshot, snapshot.env);
        let mut end = None;
        let mut left_alone = PodNames::default();
        for (number, pod) in candidates.iter().enumerate() {
            if !self.budget.allows(pod.ordinal) {
                plan.because(why::Rollout::UpdateBudget {
                    allowed: i32::try_from(self.budget.limit).unwrap_or(i32::MAX),
                    unavailable: i32::try_from(self.budget.used()).unwrap_or(i32::MAX),
                    waiting: (candidates.len() - number) as i32,
                });
                break;
            }
            if is_taken(pod.name()) || pod.is_terminating() {
                self.budget.take(pod.ordinal);
                continue;
            }
            let rest = snapshot.observed.last.backs_off(pod.pod(), snapshot.now());
            if let Some(rest) = rest {
                left_alone.push(pod.name());
                plan.wake(rest);
            }
            if rest.is_some() || advanced.contains(pod.name()) {
                if is_ordered {
                    break;
                }
                continue;
            }
            if self.written >= PODS_PER_ROUND {
                plan.wake(Duration::ZERO);
                break;
            }
            match self.grow(pod, plan) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(failure) => {
                    end.get_or_insert(failure);
                    if is_ordered {
                        break;
                    }
                    continue;
                }
            }
            match updater.begin(pod.pod(), plan) {
                PodUpdate::InPlace(chain) => self.in_place(pod, chain),
                PodUpdate::Recreate(because) => {
                    if let Some(because) = because {
                        self.recreated.entry(because).or_default().push(pod.name());
                    }
                    self.remove(pod);
                }
                PodUpdate::Skip(failure) => {
                    end.get_or_insert(failure);
                }
                PodUpdate::Stop(failure) => {
                    end = Some(failure);
                    break;
                }
            }
        }
        if !left_alone.is_empty() {
            plan.because(why::Rollout::BackOff { pods: left_alone });
        }
        end
    }

    /// Lets the claims of a Pod grow. Returns whether it is the Pod's turn; fails when a claim cannot grow.
    fn grow(&mut self, pod: &OrdinalPod<'_>, plan: &mut Plan) -> Result<bool, String> {
        match self.snapshot.claims.expand(pod.ordinal) {
            // Claims that have what they want leave nothing to do for a Pod that is at its revision.
            Expansion::Completed => Ok(!pod.member.is_updated),
            Expansion::Growing(writes) => {
                self.budget.take(pod.ordinal);
                for write in writes {
                    self.step.push(Chain::of(write));
                }
                Ok(false)
            }
            Expansion::Refused { why, event } => {
                let failure = why.to_string();
                plan.because(why);
                plan.events.push(event);
                Err(failure)
            }
        }
    }

    fn in_place(&mut self, pod: &OrdinalPod<'_>, mut chain: Chain) {
        self.budget.take(pod.ordinal);
        self.written += usize::from(!chain.writes.is_empty());
        chain.guard = self.guard(pod);
        self.step.push(chain);
    }

    fn remove(&mut self, pod: &OrdinalPod<'_>) {
        self.budget.take(pod.ordinal);
        let mut removal = removal(self.snapshot, pod);
        self.hooked.extend(removal.held.then_some(pod.name()));
        self.written += usize::from(!removal.chain.writes.is_empty());
        removal.chain.guard = self.guard(pod);
        self.deletions.push(removal.chain);
    }

    fn guard(&self, pod: &OrdinalPod<'_>) -> Option<Guard> {
        self.asks.then(|| Guard::Budget {
            pod: pod.name().to_owned(),
        })
    }

    fn finish(self, plan: &mut Plan) {
        let recreated = self.recreated.into_iter();
        plan.why
            .extend(recreated.map(|(because, pods)| Why::Rollout(why::Rollout::Recreating { pods, because })));
        if !self.hooked.is_empty() {
            plan.because(why::Pods::HookWaiting {
                hook: Hook::PreDelete,
                pods: self.hooked,
            });
        }
        plan.push(self.step);
        plan.push(self.deletions);
    }
}

fn rolling<'a>(snapshot: &Snapshot<'a>) -> Option<&'a RollingUpdate> {
    snapshot.set.spec.update_strategy.rolling_update.as_ref()
}

fn policy(snapshot: &Snapshot<'_>) -> PodUpdatePolicy {
    let policy = rolling(snapshot).map(|rolling| rolling.pod_update_policy.clone());
    policy.unwrap_or_default()
}

fn target<'u>(snapshot: &'u Snapshot<'_>, labels: &'u BTreeMap<String, String>) -> UpdateTarget<'u> {
    let strategy = rolling(snapshot).and_then(|rolling| rolling.in_place_update_strategy.as_ref());
    UpdateTarget {
        revisions: &snapshot.revisions,
        revision: &snapshot.revisions.update,
        labels,
        policy: policy(snapshot),
        grace_seconds: strategy.map_or(0, |strategy| strategy.grace_period_seconds),
    }
}

/// Returns a function that tells whether the update replaces a Pod, instead of changing it in place or leaving it alone.
pub(super) fn recreates(snapshot: &Snapshot<'_>, candidates: &BTreeSet<i32>) -> impl FnMut(&OrdinalPod<'_>) -> bool {
    let policy = policy(snapshot);
    let mut known: BTreeMap<String, bool> = BTreeMap::new();
    move |pod| {
        if pod.member.is_updated || !candidates.contains(&pod.ordinal) || policy == PodUpdatePolicy::InPlaceOnly {
            return false;
        }
        if !is_in_place(&policy) {
            return true;
        }
        let at = revision::of_pod(pod.pod());
        let decide = || {
            let options = Options {
                gates: snapshot.env.gates,
                ignore_claims: true,
                grace_seconds: 0,
            };
            let update = snapshot.revisions.update.object();
            let old = snapshot.revisions.at(at);
            old.is_none_or(|old| inplace::decide(old, update, &options).is_err())
        };
        *known.entry(at.to_owned()).or_insert_with(decide)
    }
}
