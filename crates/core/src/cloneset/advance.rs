//! What every Pod needs to go on with what it is doing, and what it waits for.

use std::collections::BTreeSet;

use jiff::SignedDuration;

use super::counts::is_on_delete;
use super::member::Member;
use super::snapshot::Snapshot;
use super::update::PODS_PER_ROUND;
use crate::plan::{Action, Chain, Hook, OnFailure, Pace, Phase, Plan, PodNames, Step, Why};
use crate::shared::inplace::{self, AdvanceOptions, Waits};
use crate::shared::lifecycle::State;

/// What advancing Pods has come to.
#[derive(Debug, Default)]
pub(super) struct AdvancedPods<'r> {
    /// Pods that are written.
    pub(super) written: BTreeSet<&'r str>,
    /// The first Pod that cannot go on, and why.
    pub(super) failure: Option<String>,
}

/// Plans what these Pods need. `updates` is how many Pods are to be updated; negative when Pods go back.
pub(super) fn advance<'r>(
    snapshot: &'r Snapshot<'_>,
    updates: i64,
    these: impl Fn(&str) -> bool,
    plan: &mut Plan,
) -> AdvancedPods<'r> {
    let mut step = Step::new(Phase::Update, Pace::Bounded, OnFailure::Skip);
    let mut waiting = Waiting::default();
    let mut advanced = AdvancedPods::default();
    let env = snapshot.in_place_env();
    let updates = if is_on_delete(&snapshot.set.spec) { 0 } else { updates };
    for member in snapshot.members.iter().filter(|member| these(member.name())) {
        if advanced.written.len() == PODS_PER_ROUND {
            break;
        }
        // A Pod that waits for an update is let go when it is where others are going, or when nobody goes anywhere.
        let belongs = match updates.signum() {
            0 => true,
            1 => member.is_updated,
            _ => !member.is_updated,
        };
        let options = AdvanceOptions {
            lifecycle: snapshot.lifecycle(),
            has_states: true,
            at_update_revision: belongs,
            is_clone_set: true,
        };
        let next = inplace::advance(member.pod, &options, &env);
        let chain: Chain = next
            .requests
            .into_iter()
            .map(|request| Action::patch_pod(member.pod, request).into())
            .collect();
        if !chain.writes.is_empty() {
            advanced.written.insert(member.name());
        }
        let stays = next.state.is_none();
        step.push(chain);
        if let Some(Waits::Repair(unreadable)) = &next.waits {
            let failure = format!("pod {}: {unreadable}", member.name());
            advanced.failure.get_or_insert(failure);
        }
        if let Some(Waits::Grace(rest)) = &next.waits {
            plan.wake(*rest);
        }
        waiting.note(member, next.waits, stays, snapshot);
    }
    plan.push(step);
    waiting.explain(plan, snapshot);
    advanced
}

/// Pods by what they wait for.
#[derive(Default)]
struct Waiting {
    grace: PodNames,
    grace_ends: Option<SignedDuration>,
    containers: PodNames,
    nodes: PodNames,
    pre_update: PodNames,
    post_update: PodNames,
    pre_normal: PodNames,
    unreadable: Vec<(String, String)>,
}

impl Waiting {
    fn note(&mut self, member: &Member<'_>, waits: Option<Waits>, stays: bool, snapshot: &Snapshot<'_>) {
        let name = member.name();
        match waits {
            Some(Waits::Grace(rest)) => {
                self.grace.push(name);
                let rest = SignedDuration::try_from(rest).unwrap_or(SignedDuration::MAX);
                self.grace_ends = Some(self.grace_ends.map_or(rest, |earlier| earlier.min(rest)));
            }
            Some(Waits::Containers(_) | Waits::Ready(_)) => self.containers.push(name),
            Some(Waits::Node) => self.nodes.push(name),
            Some(Waits::Repair(unreadable)) => self.unreadable.push((unreadable.to_string(), name.to_owned())),
            None if !stays => {}
            None => match member.state {
                State::PreparingUpdate => self.pre_update.push(name),
                State::Updated => self.post_update.push(name),
                State::PreparingNormal if snapshot.lifecycle().is_some_and(|hooks| hooks.pre_normal.is_some()) => {
                    self.pre_normal.push(name);
                }
                State::PreparingNormal => self.nodes.push(name),
                _ => {}
            },
        }
    }

    fn explain(self, plan: &mut Plan, snapshot: &Snapshot<'_>) {
        let mut say = |pods: PodNames, why: &dyn Fn(PodNames) -> Why| {
            if !pods.is_empty() {
                plan.why.push(why(pods));
            }
        };
        let ends = self.grace_ends.unwrap_or_default();
        let until = snapshot.env.now.checked_add(ends).unwrap_or(jiff::Timestamp::MAX);
        say(self.grace, &|pods| Why::InGrace { pods, until });
        say(self.containers, &|pods| Why::WaitingForContainers { pods });
        say(self.nodes, &|pods| Why::NotScheduled { pods });
        for (hook, pods) in [
            (Hook::PreUpdate, self.pre_update),
            (Hook::PostUpdate, self.post_update),
            (Hook::PreNormal, self.pre_normal),
        ] {
            say(pods, &|pods| Why::HookWaiting { hook, pods });
        }
        for (message, name) in self.unreadable {
            say([&*name].into_iter().collect(), &|pods| Why::Unreadable {
                pods,
                message: message.clone(),
            });
        }
    }
}
