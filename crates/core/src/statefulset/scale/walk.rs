//! The walk over the wanted Pods, from the lowest ordinal up: what each of them needs, and where the walk ends.

use std::collections::BTreeMap;
use std::time::Duration;

use kruise_api::names::event;
use kruise_api::pod::status::PodPhase;

use super::super::claims::Obstacle;
use super::super::counts::{ScaleBudget, is_rolling};
use super::super::create::NewPods;
use super::super::observed::NEW_PODS_PER_ROUND;
use super::super::ordinals::pod_name;
use super::super::snapshot::{OrdinalPod, Snapshot};
use super::{LOOK_AGAIN, Scaled, explain_hooks, removal, state_of};
use crate::plan::why;
use crate::plan::{Chain, Event, OnFailure, Pace, Phase, Plan, PodNames, Step};

/// What the walk does after a Pod.
enum Next {
    /// It goes on to the next one.
    GoOn,
    /// It ends; the round goes on.
    Break,
    /// It ends, and the round with it.
    End,
}

/// The walk over the wanted Pods.
pub(super) struct Walk<'r, 'a> {
    snapshot: &'r Snapshot<'a>,
    budget: ScaleBudget,
    new: NewPods<'r, 'a>,
    made: usize,
    creation: Step,
    others: Step,
    hooked: PodNames,
    names_taken: PodNames,
    /// Pods whose revision has no template.
    shapeless: BTreeMap<&'r str, PodNames>,
    terminating_claims: PodNames,
    stale_claims: PodNames,
}

impl<'r, 'a> Walk<'r, 'a> {
    pub(super) fn of(snapshot: &'r Snapshot<'a>) -> Self {
        Self {
            snapshot,
            budget: ScaleBudget::new(&snapshot.desired),
            new: NewPods::of(snapshot),
            made: 0,
            creation: Step::new(Phase::Scale, Pace::SlowStart, OnFailure::Skip),
            others: Step::new(Phase::Scale, Pace::Bounded, OnFailure::Skip),
            hooked: PodNames::default(),
            names_taken: PodNames::default(),
            shapeless: BTreeMap::new(),
            terminating_claims: PodNames::default(),
            stale_claims: PodNames::default(),
        }
    }

    /// Returns the ordinal with which the round is over, if it is.
    pub(super) fn walk(mut self, scaled: &mut Scaled<'r>, plan: &mut Plan) -> Option<i32> {
        let mut waits_for = None;
        let mut seen = 0;
        for ordinal in self.snapshot.ordinals.iter() {
            let next = match self.snapshot.replicas.get(&ordinal) {
                Some(pod) => self.there(pod, scaled),
                None if seen == NEW_PODS_PER_ROUND => {
                    plan.wake(if self.made > 0 { Duration::ZERO } else { LOOK_AGAIN });
                    Next::Break
                }
                None => {
                    seen += 1;
                    self.missing(ordinal)
                }
            };
            match next {
                Next::GoOn => continue,
                Next::Break => {
                    self.explain_limit(plan);
                }
                Next::End => {
                    waits_for = Some(ordinal);
                    self.explain_order(ordinal, plan);
                }
            }
            break;
        }
        self.finish(scaled, plan);
        waits_for
    }

    fn there(&mut self, pod: &'r OrdinalPod<'a>, scaled: &mut Scaled<'r>) -> Next {
        if pod.has_ended() {
            if !pod.is_terminating() {
                let removal = removal(self.snapshot, pod);
                self.hooked.extend(removal.held.then_some(pod.name()));
                self.others.push(removal.chain);
                scaled.touched.insert(pod.name());
            }
            return self.not_available();
        }
        if pod.is_terminating() {
            return self.not_available();
        }
        if pod.pod().status.phase == PodPhase::Pending {
            if let Some(Obstacle::Terminating(claim)) = self.snapshot.claims.obstacle(pod.ordinal) {
                self.terminating_claims.push(&claim);
            }
            for write in self.snapshot.claims.create_missing(pod.ordinal, false) {
                self.others.push(Chain::of(write));
            }
        }
        let matters = self.snapshot.desired.is_ordered || self.budget.is_limited();
        if matters && !pod.member.is_available() {
            return self.not_available();
        }
        Next::GoOn
    }

    fn missing(&mut self, ordinal: i32) -> Next {
        let name = pod_name(&self.snapshot.owner.name, ordinal);
        if self.snapshot.observed.names_taken.contains(&name) {
            self.names_taken.push(&name);
            return self.not_available();
        }
        match self.snapshot.claims.obstacle(ordinal) {
            Some(Obstacle::Terminating(claim)) => self.terminating_claims.push(&claim),
            Some(Obstacle::Stale(claim)) => self.stale_claims.push(&claim),
            None => match self.new.with_ordinal(ordinal) {
                Ok(chain) => {
                    self.made += 1;
                    self.creation.push(chain);
                }
                Err(revision) => self.shapeless.entry(revision).or_default().push(&name),
            },
        }
        self.not_available()
    }

    fn not_available(&mut self) -> Next {
        if self.snapshot.desired.is_ordered {
            Next::End
        } else if self.budget.spend() {
            Next::Break
        } else {
            Next::GoOn
        }
    }

    fn explain_limit(&self, plan: &mut Plan) {
        let missing = self.snapshot.missing() - self.made as i64;
        if self.budget.is_limited() && missing > 0 {
            let count = |number: i64| i32::try_from(number).unwrap_or(i32::MAX);
            plan.because(why::Rollout::ScaleUpLimited {
                missing: count(missing),
                limit: 0,
            });
        }
    }

    /// What waits for this ordinal.
    fn explain_order(&self, ordinal: i32, plan: &mut Plan) {
        let snapshot = self.snapshot;
        let set = &snapshot.owner.name;
        let missing = snapshot.ordinals.iter().skip_while(|above| *above <= ordinal);
        let missing = missing.filter(|above| !snapshot.replicas.contains_key(above));
        let condemned = snapshot.condemned.keys().rev().copied();
        let specified = snapshot.replicas.values().rev().filter(|pod| {
            let is_due = pod.member.is_specified_delete && !pod.is_terminating();
            is_due && pod.ordinal != ordinal && is_rolling(&snapshot.set.spec)
        });
        let specified = specified.map(|pod| pod.ordinal);
        let names = missing.take(NEW_PODS_PER_ROUND).chain(condemned).chain(specified);
        let mut waiting = PodNames::default();
        names.for_each(|ordinal| waiting.push(&pod_name(set, ordinal)));
        let outdated = snapshot.replicas.values().any(|pod| !pod.member.is_updated);
        if !waiting.is_empty() || outdated {
            plan.because(why::Ordinals::InOrder {
                pod: pod_name(set, ordinal),
                state: state_of(snapshot.replicas.get(&ordinal)),
                waiting,
            });
        }
    }

    fn finish(self, scaled: &mut Scaled<'_>, plan: &mut Plan) {
        let set = &self.snapshot.owner.name;
        if !self.names_taken.is_empty() {
            let message = format!("Pods of these names belong to somebody else: {}", self.names_taken);
            plan.events.push(not_created(set, &message));
            plan.because(why::Ordinals::NamesOfOthers { pods: self.names_taken });
            plan.wake(LOOK_AGAIN);
            scaled.obstacle = Some(message);
        }
        for (revision, pods) in self.shapeless {
            let message = format!("revision {revision} has no Pod template: {pods}");
            plan.events.push(not_created(set, &message));
            let revision = revision.to_owned();
            plan.because(why::Ordinals::RevisionUnreadable { revision, pods });
            scaled.obstacle = Some(message);
        }
        if !self.terminating_claims.is_empty() {
            let message = format!("claims are being deleted: {}", self.terminating_claims);
            plan.events.push(not_created(set, &message));
            scaled.obstacle = Some(message);
            plan.because(why::Claims::ClaimsTerminating {
                claims: self.terminating_claims,
            });
            plan.wake(LOOK_AGAIN);
        }
        if !self.stale_claims.is_empty() {
            plan.because(why::Claims::ClaimsStale {
                claims: self.stale_claims,
            });
            plan.wake(LOOK_AGAIN);
        }
        explain_hooks(self.hooked, plan);
        plan.push(self.others);
        plan.push(self.creation);
    }
}

fn not_created(set: &str, because: &str) -> Event {
    let text = format!("create Pods in StatefulSet {set} failed error: {because}");
    Event::warning(event::FAILED_CREATE, text)
}
