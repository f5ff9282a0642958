//! Beginning the update of one Pod.
//!
//! | policy | the change can be made in place | it cannot, or the Pod's revision is gone |
//! |---|---|---|
//! | `ReCreate` | the Pod is replaced | the Pod is replaced |
//! | `InPlaceIfPossible` | in place | the Pod is replaced, and the workload says why |
//! | `InPlaceOnly` | in place | the Pod is left alone, and the workload says why |
//!
//! Before it is updated in place, a Pod waits for its `inPlaceUpdate` hook. One in a lifecycle state that this release does not know is neither updated in
//! place nor replaced instead: whoever wrote the state knows what the Pod is for.
//!
//! How a Pod is replaced is for its kind to say. Whether a change can be made in place is decided once per revision, not per Pod.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kruise_api::names::event;
use kruise_api::pod::Pod;
use kruise_api::shared::in_place::PodUpdatePolicy;

use super::inplace::{self, ChangeSet, Options, PodRules, Start};
use super::lifecycle::{self, BeforeUpdate, State, UnexpectedState};
use super::membership::Member;
use super::pod_change::{Guard, PodChange};
use super::revision::{self, Revision, Revisions};
use crate::plan::why;
use crate::plan::{Action, Chain, Env, Event, Outcome, Plan, PodNames, Write};

/// What becomes of a Pod that was chosen for an update.
#[derive(Clone, Debug, PartialEq)]
pub enum PodUpdate {
    /// It is updated in place, or waits for its hook: these are the writes, perhaps none.
    InPlace(Chain),
    /// It has to be replaced; with the reason, if it should have been updated in place.
    Recreate(Option<String>),
    /// It is left alone; others are not concerned.
    Skip(String),
    /// It is left alone, and others would be too.
    Stop(String),
}

/// Where Pods are updated to, and how.
#[derive(Clone, Debug)]
pub struct UpdateTarget<'u> {
    /// The revisions of the workload.
    pub revisions: &'u Revisions<'u>,
    /// The one that Pods are brought to.
    pub revision: &'u Revision<'u>,
    /// The labels that tell it.
    pub labels: &'u BTreeMap<String, String>,
    /// Whether Pods are updated in place.
    pub policy: PodUpdatePolicy,
    /// Seconds between making a Pod not ready and changing it.
    pub grace_seconds: i32,
}

/// Begins updates of Pods.
#[derive(Debug)]
pub struct PodUpdater<'u, R> {
    target: UpdateTarget<'u>,
    rules: &'u R,
    env: &'u Env,
    /// What changes, by the revision that a Pod is at now.
    changes: BTreeMap<String, Result<ChangeSet, String>>,
    /// How records name the revision, when it is not by its name.
    recorded_as: Option<String>,
}

impl<'u, R: PodRules> PodUpdater<'u, R> {
    /// For Pods with these rules.
    pub fn new(target: UpdateTarget<'u>, rules: &'u R, env: &'u Env) -> Self {
        Self {
            target,
            rules,
            env,
            changes: BTreeMap::new(),
            recorded_as: None,
        }
    }

    /// The same, with records that name the revision in this way.
    #[must_use]
    pub fn recorded_as(mut self, revision: &str) -> Self {
        self.recorded_as = Some(revision.to_owned());
        self
    }

    /// Begins the update of one Pod. Why it is left alone is in the plan as well.
    pub fn begin(&mut self, pod: &Pod, plan: &mut Plan) -> PodUpdate {
        if !is_in_place(&self.target.policy) {
            return PodUpdate::Recreate(None);
        }
        let state = lifecycle::state(pod);
        if let State::Other(word) = &state {
            plan.because(why::Pods::Unreadable {
                pods: [&*pod.metadata.name].into_iter().collect(),
                message: format!("lifecycle state {word:?}, which nobody knows"),
            });
            let unexpected = UnexpectedState(state);
            return PodUpdate::Skip(format!("pod {} {unexpected}", pod.metadata.name));
        }
        match self.in_place(pod, plan) {
            Ok(chain) => PodUpdate::InPlace(chain),
            Err(why) if self.target.policy == PodUpdatePolicy::InPlaceOnly => self.refuse(pod, why, plan),
            Err(why) => PodUpdate::Recreate(Some(why)),
        }
    }

    fn refuse(&self, pod: &Pod, because: String, plan: &mut Plan) -> PodUpdate {
        let (name, revision) = (&*pod.metadata.name, self.target.revision.name());
        let failure = format!("pod {name} cannot be updated in place to revision {revision}: {because}");
        plan.because(why::Rollout::NotInPlace {
            pods: [name].into_iter().collect(),
            because,
        });
        PodUpdate::Stop(failure)
    }

    /// Fails when it is not possible in place.
    fn in_place(&mut self, pod: &Pod, plan: &mut Plan) -> Result<Chain, String> {
        let at = revision::of_pod(pod);
        if !self.changes.contains_key(at) {
            let change = self.decide(at);
            self.changes.insert(at.to_owned(), change);
        }
        let change = match self.changes.get(at) {
            Some(Ok(change)) => change,
            Some(Err(why)) => return Err(why.clone()),
            None => return Ok(Chain::default()),
        };
        match lifecycle::before_update(pod, self.rules.lifecycle(), self.env.now) {
            Ok(BeforeUpdate::Go) => Ok(self.start(pod, change, plan)),
            Ok(BeforeUpdate::Hold(held)) => Ok(change_pod(pod, held, Guard::Version, self.env)),
            Err(unexpected) => Err(unexpected.to_string()),
        }
    }

    fn decide(&self, at: &str) -> Result<ChangeSet, String> {
        let old = self.target.revisions.at(at);
        let old = old.ok_or_else(|| "the revision of the Pod is gone".to_owned())?;
        let options = Options {
            gates: self.env.gates,
            ignore_claims: self.target.policy == PodUpdatePolicy::InPlaceOnly,
            grace_seconds: self.target.grace_seconds,
        };
        let mut change =
            inplace::decide(old, self.target.revision.object(), &options).map_err(|why| why.to_string())?;
        if let Some(revision) = &self.recorded_as {
            change.revision.clone_from(revision);
        }
        Ok(change)
    }

    fn start(&self, pod: &Pod, change: &ChangeSet, plan: &mut Plan) -> Chain {
        let state = self.rules.updating_state(pod);
        let start = Start {
            change,
            labels: self.target.labels,
            state: state.as_ref(),
        };
        let started = inplace::start(pod, &start, &inplace::Env::from(self.env));
        if let Some(look_again) = started.look_again {
            plan.wake(look_again);
        }
        let (name, revision) = (&*pod.metadata.name, self.target.revision.name());
        let failed = format!("failed to update pod {name} in-place(revision {revision})");
        let mut writes: Vec<Write> = started
            .requests
            .into_iter()
            .map(|request| {
                let write = Write::from(Action::patch_pod(pod, request));
                write.or_else(Event::warning(event::FAILED_UPDATE_POD_IN_PLACE, failed.clone()))
            })
            .collect();
        let done = format!("successfully update pod {name} in-place(revision {revision})");
        if let Some(last) = writes.last_mut() {
            last.succeeded
                .push(Event::normal(event::SUCCESSFUL_UPDATE_POD_IN_PLACE, done));
        }
        writes.into_iter().collect()
    }
}

/// Takes out Pods whose last update failed only just now: they would be taken out of service each time. The others do not wait for them.
pub fn leave_alone(candidates: &mut Vec<&Member<'_>>, last: &Outcome, now: Timestamp, plan: &mut Plan) {
    let mut left = PodNames::default();
    candidates.retain(|member| {
        let rest = last.backs_off(member.pod, now);
        if let Some(rest) = rest {
            left.push(member.name());
            plan.wake(rest);
        }
        rest.is_none()
    });
    if !left.is_empty() {
        plan.because(why::Rollout::BackOff { pods: left });
    }
}

/// True when Pods are updated in place where possible.
pub fn is_in_place(policy: &PodUpdatePolicy) -> bool {
    matches!(
        policy,
        PodUpdatePolicy::InPlaceIfPossible | PodUpdatePolicy::InPlaceOnly
    )
}

/// The writes that change a Pod.
pub fn change_pod(pod: &Pod, change: PodChange, guard: Guard, env: &Env) -> Chain {
    let requests = change.requests(pod, guard, env.server.pod_resize);
    let writes = requests.into_iter().map(|patch| Action::patch_pod(pod, patch).into());
    writes.collect()
}

#[cfg(test)]
mod tests;
