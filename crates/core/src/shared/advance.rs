//! Taking Pods further with what they are doing, and telling what they wait for.
//!
//! Every Pod gets what it needs to go on: the end of a grace period, the next batch of containers, readiness after an update, its next
//! lifecycle state ([`inplace::advance`]). That happens in every round, also for new Pods (which could not become ready without) and while a rollout
//! is paused. How the Pods of a kind go on is its own to say ([`PodRules`]).
//!
//! A round writes at most [`PODS_PER_ROUND`] Pods. A Pod whose record of an update cannot be read is left alone, and the workload says so.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use kruise_api::pod::Pod;

use super::inplace::{self, PodRules, Waits};
use super::lifecycle::{self, State};
use crate::plan::why;
use crate::plan::{Action, Chain, Env, Hook, OnFailure, Pace, Phase, Plan, PodNames, Step, Why};

/// Pods that are written in one round: enough to keep an API server busy, and few enough that thinking about them takes no time.
pub const PODS_PER_ROUND: usize = 400;

/// What advancing Pods has come to.
#[derive(Debug, Default)]
pub struct AdvancedPods<'p> {
    /// Pods that are written.
    pub written: BTreeSet<&'p str>,
    /// The first Pod that cannot go on, and why.
    pub failure: Option<String>,
}

/// Plans what these Pods need; with each comes whether it is at the revision that it should be at.
pub fn advance<'p>(
    pods: impl IntoIterator<Item = (&'p Pod, bool)>,
    rules: &impl PodRules,
    env: &Env,
    plan: &mut Plan,
) -> AdvancedPods<'p> {
    let mut step = Step::new(Phase::Update, Pace::Bounded, OnFailure::Skip);
    let mut waiting = Waiting::default();
    let mut advanced = AdvancedPods::default();
    let in_place = inplace::Env::from(env);
    for (pod, has_arrived) in pods {
        if advanced.written.len() == PODS_PER_ROUND {
            break;
        }
        if inplace::needs_nothing(pod, rules) {
            continue;
        }
        let name = &*pod.metadata.name;
        let next = inplace::advance(pod, has_arrived, rules, &in_place);
        let chain: Chain = next
            .requests
            .into_iter()
            .map(|request| Action::patch_pod(pod, request).into())
            .collect();
        if !chain.writes.is_empty() {
            advanced.written.insert(name);
        }
        step.push(chain);
        if let Some(Waits::Repair(unreadable)) = &next.waits {
            let failure = format!("pod {name}: {unreadable}");
            advanced.failure.get_or_insert(failure);
        }
        if let Some(Waits::Grace(rest)) = &next.waits {
            plan.wake(*rest);
        }
        match next.waits {
            Some(waits) => waiting.note(name, waits),
            None if next.state.is_none() => waiting.note_hook(pod, rules),
            None => {}
        }
    }
    plan.push(step);
    waiting.explain(env.now, plan);
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
    fn note(&mut self, name: &str, waits: Waits) {
        match waits {
            Waits::Grace(rest) => {
                self.grace.push(name);
                let rest = SignedDuration::try_from(rest).unwrap_or(SignedDuration::MAX);
                self.grace_ends = Some(self.grace_ends.map_or(rest, |earlier| earlier.min(rest)));
            }
            Waits::Containers(_) | Waits::Ready(_) => self.containers.push(name),
            Waits::Node => self.nodes.push(name),
            Waits::Repair(unreadable) => self.unreadable.push((unreadable.to_string(), name.to_owned())),
        }
    }

    /// A Pod that stays in its state waits for the hook of that state.
    fn note_hook(&mut self, pod: &Pod, rules: &impl PodRules) {
        let pods = match lifecycle::state(pod) {
            State::PreparingUpdate => &mut self.pre_update,
            State::Updated => &mut self.post_update,
            State::PreparingNormal if rules.lifecycle().is_some_and(|hooks| hooks.pre_normal.is_some()) => {
                &mut self.pre_normal
            }
            State::PreparingNormal => &mut self.nodes,
            _ => return,
        };
        pods.push(&pod.metadata.name);
    }

    fn explain(self, now: Timestamp, plan: &mut Plan) {
        let mut say = |pods: PodNames, why: &dyn Fn(PodNames) -> Why| {
            if !pods.is_empty() {
                plan.why.push(why(pods));
            }
        };
        let ends = self.grace_ends.unwrap_or_default();
        let until = now.checked_add(ends).unwrap_or(Timestamp::MAX);
        say(self.grace, &|pods| Why::Pods(why::Pods::InGrace { pods, until }));
        say(self.containers, &|pods| {
            Why::Pods(why::Pods::WaitingForContainers { pods })
        });
        say(self.nodes, &|pods| Why::Pods(why::Pods::NotScheduled { pods }));
        for (hook, pods) in [
            (Hook::PreUpdate, self.pre_update),
            (Hook::PostUpdate, self.post_update),
            (Hook::PreNormal, self.pre_normal),
        ] {
            say(pods, &|pods| Why::Pods(why::Pods::HookWaiting { hook, pods }));
        }
        for (message, name) in self.unreadable {
            say([&*name].into_iter().collect(), &|pods| {
                Why::Pods(why::Pods::Unreadable {
                    pods,
                    message: message.clone(),
                })
            });
        }
    }
}
